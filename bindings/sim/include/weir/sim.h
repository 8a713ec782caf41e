/* weir/sim.h: a stream-ordered device of one process or of several, deterministic from a seed, with an independent
 * auditor.
 *
 * Virtual time. There is one host clock and one clock per stream, in nanoseconds. Device calls cost host time by the
 * cost table. Work queued on a stream runs in stream order, after the waits queued before it. Nothing runs by itself:
 * time moves when the host pays for a call, waits, or calls weir_sim_advance.
 *
 * Memory. *Accounting* mode hands out addresses only, so an 80 GB trace replays on a laptop. *Backed* mode has real
 * bytes, committed lazily. Copies, fills and host functions happen when virtual time reaches them, so a race shows in
 * the data. Freed and unmapped memory is poisoned and then inaccessible.
 *
 * The auditor judges from the operations alone, with its own happens-before clocks. It knows nothing of any pool. The
 * caller that hands out blocks (a replay, a test, a binding) announces them with weir_sim_block_alloc and
 * weir_sim_block_free, and the work that touches memory names its ranges.
 *
 * Simulators of several processes stand for one device if their memory counts under one limit (shared_limit in the
 * config). Each process has its own time, streams and auditor; in common are the free memory, and memory that one
 * process exports and others import.
 *
 * All functions are thread-safe (one lock per simulator). Results are deterministic when the calls come in a
 * deterministic order. The auditor treats all host threads as one: the order in which calls reach the simulator is the
 * host's order.
 *
 * A `weir_sim_stream *` is the native stream of this device. NULL is the default stream wherever work is queued or
 * ordered. The default stream is number 0 and lives as long as the simulator. Only in weir_sim_block_alloc and
 * weir_sim_block_free NULL means the host: name the default stream there with weir_sim_default_stream.
 */
#ifndef WEIR_SIM_H
#define WEIR_SIM_H

#include <weir/adaptor.h>
#include <weir/device.h>
#include <weir/shared_limit.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_sim weir_sim;
typedef struct weir_sim_stream weir_sim_stream;

typedef enum weir_sim_mode { WEIR_SIM_ACCOUNTING = 0, WEIR_SIM_BACKED = 1 } weir_sim_mode;

/* Host time of each device call in ns: a fixed part, and a part per MiB for the calls that take memory. A zero member
 * of a config's table means the price in the file that the environment variable WEIR_SIM_PRICES names, or, without
 * such a price, the documented default (bindings/sim/README.md: value and source). WEIR_SIM_FREE_OF_CHARGE
 * means 0. */
#define WEIR_SIM_FREE_OF_CHARGE UINT64_MAX
typedef struct weir_sim_costs {
    uint64_t call_ns[WEIR_CALL_COUNT];
    uint64_t region_alloc_ns_per_mib;
    uint64_t region_free_ns_per_mib;
    uint64_t vm_create_ns_per_mib;
    uint64_t launch_ns; /* host time to queue one piece of work */
    /* Stream time of copies and fills: a fixed part, and a part per MiB. */
    uint64_t transfer_ns;
    uint64_t device_copy_ns_per_mib;
    uint64_t host_copy_ns_per_mib;
    uint64_t fill_ns_per_mib;
} weir_sim_costs;

/* Reads a price table from a file. Each line is the name of a price and a number of nanoseconds; '#' begins a comment;
 * empty lines are allowed. The names are those of the members of weir_sim_costs, and for call_ns the name of a call
 * with "_ns" (weir_device_call_name):
 *
 *     region_alloc_ns 100000           # a comment
 *     region_alloc_ns_per_mib 1000
 *     vm_map_ns 37000
 *     launch_ns 2900
 *
 * A price that the file does not name becomes 0, which means the default; the price 0 in the file becomes
 * WEIR_SIM_FREE_OF_CHARGE. WEIR_ERR_INVALID: the file cannot be read, a line cannot be read, a price is named twice, or
 * there is no price in the file; the sentence of weir_last_error has the file and the line, and *costs is unchanged. */
WEIR_API weir_status weir_sim_costs_read(const char *path, weir_sim_costs *costs);
/* Writes the prices that are not 0 in the form that weir_sim_costs_read reads. Returns the length of the whole text, as
 * snprintf does. */
WEIR_API size_t weir_sim_costs_format(const weir_sim_costs *costs, char *text, size_t size);
/* Returns the number of prices (simulated times of calls) that are 0, for which defaults are assumed. */
WEIR_API size_t weir_sim_costs_assumed(const weir_sim_costs *costs);

typedef struct weir_sim_config {
    size_t struct_size;
    weir_sim_mode mode;
    uint64_t capacity_bytes;           /* 0 = the shared limit, or 64 GiB accounting, 1 GiB backed */
    uint64_t region_granularity_bytes; /* bytes; 0 = 2 MiB; in backed mode at least the host's page size */
    /* bytes of a virtual-memory page; 0 = 2 MiB; in backed mode at least the host's page size */
    uint64_t page_bytes;
    uint64_t seed; /* 0: work takes exactly the requested time; otherwise 75 to 125 % of it, chosen by this seed */
    /* First address in accounting mode; 0 = 0x100000000000. In backed mode the simulator picks host addresses and the
     * first is a multiple of 64 MiB. */
    uint64_t address_base;
    weir_sim_costs costs;
    bool no_audit;
    bool no_virtual_memory; /* the device lacks the vm_ functions, as the Ascend 200I/500 RC does */
    bool no_ordering;       /* a synchronous device */
    uint32_t max_findings;  /* findings kept in full; further ones are only counted; 0 = 1,000 */
    /* True: work may touch device memory that no live block covers. The auditor judges order there as in a block: the
     * work before a free counts as a write, and a hand-out over such memory is judged as one over a freed block. A
     * direct write makes the auditor forget the freed blocks beneath it. An access that crosses the edge of a live
     * block, in or out, or the end of the memory is one OUTSIDE_BLOCK finding, and each part is judged for order. An
     * access that begins where there is no memory gets OUTSIDE_BLOCK and no further judgement. Physical memory may also
     * be mapped at several addresses at a time; accesses through different addresses are not judged against each other.
     *
     * False: every access outside live blocks is a finding. */
    bool direct_access;
    /* All memory of the device counts here too: what other simulators hold under the limit, in other processes as well,
     * is missing, and comes back when their process ends in any way. Must outlive the simulator. NULL: none. */
    weir_shared_limit *shared_limit;
} weir_sim_config;

#define WEIR_SIM_CONFIG_INIT WEIR_STRUCT_INIT(weir_sim_config)

/* Creates a simulator. A NULL config means all defaults. WEIR_ERR_INVALID for granularities that are not powers of two,
 * a capacity below one granule, a base that is not aligned to both granularities, or a file of WEIR_SIM_PRICES that
 * weir_sim_costs_read refuses; WEIR_ERR_UNSUPPORTED for members from a newer header; WEIR_ERR_NO_MEMORY. A process with
 * another user's rights ignores WEIR_SIM_PRICES. */
WEIR_API weir_status weir_sim_create(const weir_sim_config *config, weir_sim **sim);
/* Destroys the simulator, its streams, events and memory. Same as weir_device_destroy of its device. Work that virtual
 * time has not reached is dropped; a caller that needs it calls weir_sim_sync first. NULL is allowed. WEIR_ERR_BUSY: a
 * pool or an adaptor holds the device; nothing has changed. In a child of fork the call does nothing. */
WEIR_API weir_status weir_sim_destroy(weir_sim *sim);
/* Returns the simulator's device. The simulator owns it. */
WEIR_API weir_device *weir_sim_device(weir_sim *sim);

/* --- time --- */
/* Returns the host clock in ns. */
WEIR_API uint64_t weir_sim_now(weir_sim *sim);
/* Lets `ns` of host time pass. */
WEIR_API void weir_sim_advance(weir_sim *sim, uint64_t ns);
/* Lets host time pass up to `now_ns`. Does nothing when `now_ns` is in the past. */
WEIR_API void weir_sim_advance_to(weir_sim *sim, uint64_t now_ns);
/* Makes the host wait for all queued work, work of destroyed streams included. Returns WEIR_ERR_DEVICE if a stream is
 * in error, but waits for the work of all other streams first. */
WEIR_API weir_status weir_sim_sync(weir_sim *sim);

/* --- streams --- */
/* Returns the default stream, which the handle NULL stands for. It cannot be destroyed. */
WEIR_API weir_sim_stream *weir_sim_default_stream(weir_sim *sim);
/* Creates a stream. WEIR_ERR_INVALID: an argument is NULL. WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_sim_stream_create(weir_sim *sim, weir_sim_stream **stream);
/* Destroys a stream. Work queued on it still runs to its end. Using the handle afterwards is WEIR_ERR_INVALID; a later
 * stream may get the same handle value. */
WEIR_API weir_status weir_sim_stream_destroy(weir_sim *sim, weir_sim_stream *stream);
/* Returns the virtual time at which the last work queued on the stream ends; 0 for an unknown stream. */
WEIR_API uint64_t weir_sim_stream_tail(weir_sim *sim, weir_sim_stream *stream);
/* Returns the stream's number, which findings name. A simulator never uses a number twice. UINT32_MAX for NULL. */
WEIR_API uint32_t weir_sim_stream_number(weir_sim_stream *stream);

/* --- work --- */
typedef struct weir_sim_access {
    uint64_t address;
    uint64_t size;
    bool write;
} weir_sim_access;

typedef struct weir_sim_work {
    size_t struct_size;
    uint64_t duration_ns;
    const weir_sim_access *accesses;
    size_t access_count;
    const char *tag;     /* name of the work in the auditor's findings; copied; NULL = none */
    bool no_launch_cost; /* queues the work at no host time, for bookkeeping of a replay */
    /* Called when virtual time reaches the end of the work; NULL = the work is a kernel. */
    void (*host_function)(void *ctx);
    void *host_ctx;
    /* Called with host_ctx in place of host_function when host_function will never run; NULL = no notification. */
    void (*dropped)(void *ctx);
    bool kernel; /* host_function computes a kernel's results: findings call the work a kernel */
} weir_sim_work;

#define WEIR_SIM_WORK_INIT WEIR_STRUCT_INIT(weir_sim_work)

/* Queues a kernel or a host function. A host function runs once virtual time reaches its end, in the call that moves
 * time there, without the simulator's lock. It may call the simulator, but must not wait for another thread that does.
 * Where `dropped` is set and the result is WEIR_OK, exactly one of the two functions is called, exactly once; on any
 * other result neither is called. `dropped` is called in the same manner: when the stream breaks, for each piece of
 * work in the order of queuing, and by weir_sim_destroy. During weir_sim_destroy the simulator still takes calls, but
 * no host function runs any more. WEIR_ERR_INVALID: unknown stream, or `dropped` without a host function;
 * WEIR_ERR_DEVICE: the stream is in error; WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_sim_launch(weir_sim *sim, weir_sim_stream *stream, const weir_sim_work *work);
/* Queue a fill, or a copy between two device ranges or between device and host memory. Host memory is named by its
 * pointer and counts as pinned: it is read or written when the copy happens. In backed mode the bytes move at the end
 * of the operation, all at once. If the host's side of a copy has then other bytes than when it was queued, and neither
 * another copy nor a host function has run that may have written them, the auditor reports HOST_CHANGED. If the device
 * memory is gone by the time of the copy or fill, the stream breaks as after a kernel fault. A size of zero queues
 * nothing. Results as weir_sim_launch. */
WEIR_API weir_status weir_sim_fill(weir_sim *sim, weir_sim_stream *stream, uint64_t address, uint64_t size,
                                   uint8_t value, const char *tag);
WEIR_API weir_status weir_sim_copy(weir_sim *sim, weir_sim_stream *stream, uint64_t to, uint64_t from, uint64_t size,
                                   const char *tag);
WEIR_API weir_status weir_sim_copy_from_host(weir_sim *sim, weir_sim_stream *stream, uint64_t to, const void *from,
                                             uint64_t size, const char *tag);
WEIR_API weir_status weir_sim_copy_to_host(weir_sim *sim, weir_sim_stream *stream, void *to, uint64_t from,
                                           uint64_t size, const char *tag);
/* Backed mode: returns the bytes at an address, or NULL when the range has no memory. For inspection by tests: the
 * auditor does not see accesses through this pointer. */
WEIR_API void *weir_sim_bytes(weir_sim *sim, uint64_t address, uint64_t size);

/* --- memory of several processes ---
 *
 * A process exports memory, and others that use a limit of the same name import it by its key: in backed mode they see
 * the same bytes. The memory counts once, until its exporter has destroyed it and each importer its handle, or their
 * processes have ended. `limit` is where the memory counts; NULL: the shared_limit of the config. */

/* Exports physical memory, or a region by its first address, which keeps its contents and its address. Only processes
 * that weir_sim_admit names may import it. Exporting twice gives the same key. WEIR_ERR_INVALID: no limit, no memory of
 * this handle or address, or less than its bytes counts under the limit as this process's. WEIR_ERR_BUSY: 512 pieces of
 * memory are exported under the limit. WEIR_ERR_NO_MEMORY: no host memory for the bytes of the region. */
WEIR_API weir_status weir_sim_export(weir_sim *sim, weir_shared_limit *limit, weir_vm_handle handle, uint64_t *key);
WEIR_API weir_status weir_sim_export_region(weir_sim *sim, weir_shared_limit *limit, uint64_t address, uint64_t *key);
/* Allows `count` processes, by their ids, to import the memory; count 0: all. WEIR_ERR_INVALID: this process exports
 * nothing of this key. WEIR_ERR_BUSY: 15 processes have been named. */
WEIR_API weir_status weir_sim_admit(weir_sim *sim, weir_shared_limit *limit, uint64_t key, const int32_t *processes,
                                    size_t count);
/* Imports memory, as a handle of *size bytes, a multiple of page_bytes, that vm_map and vm_destroy take. The key may be
 * imported again, as another handle. WEIR_ERR_INVALID: no limit, or no memory of this key. WEIR_ERR_UNSUPPORTED: the
 * process is not admitted, the exporter has ended or is in another PID namespace, or is in accounting mode while this
 * simulator is backed. WEIR_ERR_NO_MEMORY: no host memory or file descriptor. */
WEIR_API weir_status weir_sim_import(weir_sim *sim, weir_shared_limit *limit, uint64_t key, weir_vm_handle *handle,
                                     uint64_t *size);

/* --- announcements to the auditor --- */
/* Tells the auditor that a block was handed out to `stream` (NULL: to the host). The block belongs to the stream from
 * the end of the stream's queued work on, or to the host from now on. In this function and in weir_sim_block_free, a
 * handle that is no stream counts as the host, for which the auditor's rules are strictest. */
WEIR_API void weir_sim_block_alloc(weir_sim *sim, uint64_t address, uint64_t size, weir_sim_stream *stream,
                                   const char *tag);
/* Does so for a unit of a reserved block (weir/reserve.h): an access may go on from one such unit into the next. */
WEIR_API void weir_sim_unit_alloc(weir_sim *sim, uint64_t address, uint64_t size, weir_sim_stream *stream,
                                  const char *tag);
/* Tells the auditor that a block or a unit was given back in the order of `stream` (NULL: the host says that it is
 * idle). Work of other streams may still touch it; the auditor checks this when the memory is handed out again. */
WEIR_API void weir_sim_block_free(weir_sim *sim, uint64_t address, weir_sim_stream *stream, const char *tag);
/* Tell the auditor that host memory is fresh, so that copies queued before were of other memory; that a kernel has
 * written it; that the host gives it back, for which the host must have seen the end of all copies from and to it. */
WEIR_API void weir_sim_host_alloc(weir_sim *sim, const void *start, uint64_t size);
WEIR_API void weir_sim_host_written(weir_sim *sim, const void *start, uint64_t size);
WEIR_API void weir_sim_host_free(weir_sim *sim, const void *start, uint64_t size, const char *tag);
/* Reports as leaked every live block, and every region, reservation and piece of physical memory still held. Call it
 * when the program should hold no memory. */
WEIR_API void weir_sim_audit_leaks(weir_sim *sim);

/* One simulator may stand for several devices, whose memory all work can touch. The owner of such a simulator says
 * which memory the device of a piece of work may reach. Returns true if that device may touch the range. On false,
 * writes a phrase that names both devices to detail[size], and the work becomes a FOREIGN_MEMORY finding. `ctx` is the
 * pointer given to weir_sim_set_reach. */
typedef bool (*weir_sim_reaches)(void *ctx, const weir_sim_access *access, char *detail, size_t size);
/* Makes the auditor call `reaches` for each range of work that is queued from now on, copies and fills included, until
 * it returns false for a range of that work. The function is called in the thread that queues the work and under the
 * simulator's lock, so it must not call the simulator. The caller keeps `ctx`. NULL (the default): one device, which
 * reaches all memory. Without an auditor the call does nothing. */
WEIR_API void weir_sim_set_reach(weir_sim *sim, weir_sim_reaches reaches, void *ctx);

/* --- findings of the auditor --- */
/* X(NAME, text) */
#define WEIR_SIM_FINDING_LIST(X)                                                                                       \
    X(OUTSIDE_BLOCK, "access outside a live block")                                                                    \
    X(USE_AFTER_FREE, "use after free")                                                                                \
    X(UNORDERED, "two streams touch a range without an order between them")                                            \
    X(EARLY_REUSE, "memory handed out while earlier work may still touch it")                                          \
    X(OVERLAP, "overlapping blocks handed out")                                                                        \
    X(DOUBLE_FREE, "block freed twice")                                                                                \
    X(FOREIGN_FREE, "free of an address that was never handed out")                                                    \
    X(FREE_PENDING, "the host freed a block while work on it is pending")                                              \
    X(OUTSIDE_REGION, "block not inside memory that the device gave")                                                  \
    X(REGION_PENDING, "region returned while work on it is pending")                                                   \
    X(REGION_LIVE, "region returned while blocks in it are live")                                                      \
    X(LEAK, "never given back")                                                                                        \
    X(FOREIGN_MEMORY, "work touches memory that its device may not reach")                                             \
    X(HOST_CHANGED, "the host wrote memory under a queued copy")                                                       \
    X(HOST_MEMORY, "host memory given back while a copy may still use it")

typedef enum weir_sim_finding_kind {
#define WEIR_SIM_FINDING_ENUM(name, text) WEIR_SIM_##name,
    WEIR_SIM_FINDING_LIST(WEIR_SIM_FINDING_ENUM)
#undef WEIR_SIM_FINDING_ENUM
        WEIR_SIM_FINDING_KINDS
} weir_sim_finding_kind;

/* An operation that a finding of the auditor names. */
typedef struct weir_sim_operation {
    const char *what; /* kind of operation: "kernel", "copy", "alloc", "free", "region_free", ...; a constant */
    char tag[48];     /* cut to fit */
    uint32_t stream;  /* number from weir_sim_stream_number; UINT32_MAX = an operation of the host */
    /* Position in the order of its stream, counted from 1. A wait that adds an order has a position of its own. An
     * alloc or a free has the position of the operation before it. */
    uint64_t tick;
    uint64_t start_ns;
    uint64_t end_ns;
    /* Position among all operations that the auditor was told of, counted from 1; 0 = no such operation. */
    uint64_t number;
} weir_sim_operation;

typedef struct weir_sim_finding {
    weir_sim_finding_kind kind;
    uint64_t address;
    uint64_t size;
    weir_sim_operation earlier;
    weir_sim_operation later;
    /* True if the earlier operation was still running, in virtual time, when the later one began. False if the two did
     * not overlap: that was luck, because nothing orders them. */
    bool in_flight;
    char text[448]; /* the finding in one sentence */
} weir_sim_finding;

/* Returns the number of findings of one kind; WEIR_SIM_FINDING_KINDS = of all kinds. */
WEIR_API uint64_t weir_sim_finding_count(weir_sim *sim, weir_sim_finding_kind kind);
/* Copies the kept finding number `index` (from 0) to *finding. Returns false past the end. */
WEIR_API bool weir_sim_finding_at(weir_sim *sim, size_t index, weir_sim_finding *finding);
/* Returns the name of a kind of finding, such as "early_reuse"; never NULL. */
WEIR_API const char *weir_sim_finding_name(weir_sim_finding_kind kind);

/* --- faults --- */
typedef struct weir_sim_fault {
    size_t struct_size;
    weir_device_call call; /* WEIR_CALL_ANY: calls of every kind */
    uint64_t nth;          /* 1 = the next; 0 = never */
    /* Status that the call returns. 0 = WEIR_ERR_NO_MEMORY for region_alloc, vm_reserve, vm_create and vm_map, and
     * WEIR_ERR_DEVICE for other calls. */
    weir_status status;
    uint64_t extra_ns; /* host time in addition to the call's own cost */
    bool slow;         /* the call succeeds and only takes extra_ns more */
    bool repeat;       /* true: the fault affects every nth call; false: only one call */
} weir_sim_fault;

#define WEIR_SIM_FAULT_INIT WEIR_STRUCT_INIT(weir_sim_fault)

/* Arms a fault. Several faults may be armed, and each counts calls on its own; weir_sim_fault_clear disarms all. A
 * failed call changes nothing but the time. WEIR_ERR_INVALID: no such call; WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_sim_fault_arm(weir_sim *sim, const weir_sim_fault *fault);
WEIR_API void weir_sim_fault_clear(weir_sim *sim);
/* Changes the device's capacity. Memory that is already allocated stays. */
WEIR_API void weir_sim_set_capacity(weir_sim *sim, uint64_t capacity_bytes);
/* Breaks a stream: every call on it fails with WEIR_ERR_DEVICE from now on, as after a kernel fault. Its unfinished
 * work is dropped, and events that captured some of that work fail too. Once the device has returned the error, the
 * auditor treats the dropped work as complete. */
WEIR_API weir_status weir_sim_stream_break(weir_sim *sim, weir_sim_stream *stream);

/* --- figures --- */
typedef struct weir_sim_stats {
    size_t struct_size;
    uint64_t calls[WEIR_CALL_COUNT];   /* calls of the device table, failures included */
    uint64_t call_ns[WEIR_CALL_COUNT]; /* virtual host time of the `calls`, waits included */
    uint64_t held_bytes;               /* regions and physical memory held now; imported memory is the exporter's */
    uint64_t peak_held_bytes;
    uint64_t operations; /* pieces of work queued */
    /* Operations that the auditor could not check because host memory ran out. Above 0 the auditor has stopped. */
    uint64_t audit_lost;
} weir_sim_stats;

#define WEIR_SIM_STATS_INIT WEIR_STRUCT_INIT(weir_sim_stats)

/* Fills *stats. The caller sets `stats->struct_size`; members beyond it are not written. */
WEIR_API weir_status weir_sim_get_stats(weir_sim *sim, weir_sim_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
