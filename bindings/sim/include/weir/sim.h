/* weir/sim.h: a stream-ordered device in one process, deterministic from a seed, with an independent auditor.
 *
 * Virtual time. There is one host clock and one clock per stream, in nanoseconds. Device calls cost host time by the
 * cost table; work queued on a stream runs in stream order, after the waits queued before it. Nothing runs by itself:
 * time moves when the host pays for a call, waits, or calls weir_sim_advance.
 *
 * Memory. *Accounting* mode hands out addresses only, so an 80 GB trace replays on a laptop. *Backed* mode has real
 * bytes, committed lazily: copies, fills and host functions happen when virtual time reaches them (so a race shows in
 * the data), freed and unmapped memory is poisoned and then inaccessible.
 *
 * The auditor judges from the operations alone, with its own happens-before clocks. It knows nothing of any pool: who
 * hands out blocks (a replay, a test, a binding) announces them with weir_sim_block_alloc and weir_sim_block_free, and
 * the work that touches memory names its ranges.
 *
 * All functions are thread-safe (one lock a simulator); results are deterministic when the calls come in a
 * deterministic order. The auditor takes all host threads for one: the order in which calls reach the simulator is the
 * host's order.
 *
 * A `weir_sim_stream *` is the native stream of this device. NULL is the default stream wherever work is queued or
 * ordered; it is number 0 and lives as long as the simulator. Only in weir_sim_block_alloc and weir_sim_block_free
 * NULL means the host: name the default stream there with weir_sim_default_stream.
 */
#ifndef WEIR_SIM_H
#define WEIR_SIM_H

#include <weir/adaptor.h>
#include <weir/device.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_sim weir_sim;
typedef struct weir_sim_stream weir_sim_stream;

typedef enum weir_sim_mode { WEIR_SIM_ACCOUNTING = 0, WEIR_SIM_BACKED = 1 } weir_sim_mode;

/* Host time of each device call in ns: a fixed part, and a part per MiB for the calls that take memory. Zero members
 * of a config's table mean the documented default (bindings/sim/README.md: value and source); WEIR_SIM_FREE_OF_CHARGE
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

typedef struct weir_sim_config {
    size_t struct_size;
    weir_sim_mode mode;
    uint64_t capacity_bytes;           /* 0 = 64 GiB accounting, 1 GiB backed */
    uint64_t region_granularity_bytes; /* 0 = 2 MiB; backed: at least the host's page */
    uint64_t page_bytes;               /* the same for virtual memory */
    uint64_t seed;         /* work takes 75 to 125 % of the asked time; 0 = exactly that */
    /* First address in accounting mode; 0 = 0x100000000000. In backed mode addresses are the host's and the first is a
     * multiple of 64 MiB. */
    uint64_t address_base;
    weir_sim_costs costs;
    bool no_audit;
    bool no_virtual_memory; /* leave the group out, as on the 200I/500 RC form */
    bool no_ordering;       /* a synchronous device */
    uint32_t max_findings;  /* kept in full; the rest is counted only; 0 = 1,000 */
    /* Memory that the device gave and no live block covers may be touched as it is. Order is judged there as in a block
     * (the work before a free counts as a write), a hand-out over it as one over a freed block; a direct write makes
     * the auditor forget the freed blocks beneath. Where an access crosses the edge of a live block, in or out, or the
     * end of the memory, that is one OUTSIDE_BLOCK, and each part is judged for order; one that begins where no memory
     * is gets OUTSIDE_BLOCK and no more. false: what is touched outside live blocks is a finding.
     *
     * With true, physical memory may also be mapped at several addresses at a time; who touches it through one of them
     * is not judged against who does through another. */
    bool direct_access;
} weir_sim_config;

#define WEIR_SIM_CONFIG_INIT WEIR_STRUCT_INIT(weir_sim_config)

/* NULL for the config means all defaults. WEIR_ERR_INVALID for granularities that are no powers of two, a capacity
 * below one granule or a base that is not aligned to both granularities; WEIR_ERR_UNSUPPORTED for members from a newer
 * header; WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_sim_create(const weir_sim_config *config, weir_sim **sim);
/* Ends the simulator, its streams, events and memory. Work whose time has not come is dropped: weir_sim_sync first
 * where that matters. The same as weir_device_destroy of its device. NULL is allowed. WEIR_ERR_BUSY: a pool or an adaptor
 * stands on its device; nothing has changed. In a child of fork nothing is done. */
WEIR_API weir_status weir_sim_destroy(weir_sim *sim);
/* The device, owned by the simulator. */
WEIR_API weir_device *weir_sim_device(weir_sim *sim);

/* --- time --- */
/* The host clock. */
WEIR_API uint64_t weir_sim_now(weir_sim *sim);
/* The host does something else for `ns`. */
WEIR_API void weir_sim_advance(weir_sim *sim, uint64_t ns);
/* The same up to an absolute time; nothing when that is past. */
WEIR_API void weir_sim_advance_to(weir_sim *sim, uint64_t now_ns);
/* The host waits for everything, work of destroyed streams included. WEIR_ERR_DEVICE when a stream is in error; the
 * others are waited for all the same. */
WEIR_API weir_status weir_sim_sync(weir_sim *sim);

/* --- streams --- */
/* The stream that NULL stands for; it cannot be destroyed. */
WEIR_API weir_sim_stream *weir_sim_default_stream(weir_sim *sim);
/* A stream beside the default one. WEIR_ERR_INVALID: NULL. WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_sim_stream_create(weir_sim *sim, weir_sim_stream **stream);
/* Work queued on it still runs to its end; using the handle afterwards is WEIR_ERR_INVALID, and a later stream may
 * get the same handle value. */
WEIR_API weir_status weir_sim_stream_destroy(weir_sim *sim, weir_sim_stream *stream);
/* When the last work queued on the stream ends; 0 for an unknown stream. */
WEIR_API uint64_t weir_sim_stream_tail(weir_sim *sim, weir_sim_stream *stream);
/* A small number that is never used again in this simulator; findings name it. UINT32_MAX for NULL. */
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
    const char *tag;     /* for findings; copied; NULL = none */
    bool no_launch_cost; /* bookkeeping touches of a replay: not a launch */
    /* Called when virtual time reaches its end; NULL = a kernel. */
    void (*host_function)(void *ctx);
    void *host_ctx;
    /* Called with host_ctx in place of host_function when that will never run; NULL = nobody has to know. */
    void (*dropped)(void *ctx);
    bool kernel; /* host_function is what a kernel computes: findings call the work a kernel */
} weir_sim_work;

#define WEIR_SIM_WORK_INIT WEIR_STRUCT_INIT(weir_sim_work)

/* Queues a kernel or a host function. A host function runs once virtual time reaches its end, in whichever call moved
 * time there, without the simulator's lock: it may call the simulator, but must not wait for another thread that does.
 * Where `dropped` is set and the result is WEIR_OK, exactly one of the two is called, exactly once; otherwise neither.
 * `dropped` is called, in the same manner, when the stream breaks, for each piece of work in the order of queuing, and
 * by weir_sim_destroy; then the simulator still takes calls, but no host function runs any more.
 * WEIR_ERR_INVALID: unknown stream, or `dropped` without a host function; WEIR_ERR_DEVICE: the stream is in error;
 * WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_sim_launch(weir_sim *sim, weir_sim_stream *stream,
                                     const weir_sim_work *work);
/* Queue a fill, or a copy between two device ranges or between device and host memory. Host memory is named by its
 * pointer and counts as pinned: it is read or written when the copy's time has come. In backed mode the bytes move at
 * the end of the operation, all at once; when device memory is no longer there by then, the stream breaks as after a
 * kernel fault. A size of zero queues nothing. Results as weir_sim_launch. */
WEIR_API weir_status weir_sim_fill(weir_sim *sim, weir_sim_stream *stream, uint64_t address,
                                   uint64_t size, uint8_t value, const char *tag);
WEIR_API weir_status weir_sim_copy(weir_sim *sim, weir_sim_stream *stream, uint64_t to,
                                   uint64_t from, uint64_t size, const char *tag);
WEIR_API weir_status weir_sim_copy_from_host(weir_sim *sim, weir_sim_stream *stream, uint64_t to,
                                             const void *from, uint64_t size, const char *tag);
WEIR_API weir_status weir_sim_copy_to_host(weir_sim *sim, weir_sim_stream *stream, void *to,
                                           uint64_t from, uint64_t size, const char *tag);
/* Backed mode: the bytes behind an address, NULL when they are not there. For tests to look at; the auditor does not
 * see what is done with them. */
WEIR_API void *weir_sim_bytes(weir_sim *sim, uint64_t address, uint64_t size);

/* --- what the auditor is told --- */
/* A block was handed out to `stream` (NULL: to the host): it is the new owner's from the stream's tail on (from now on).
 * A handle that is no stream counts as the host, here and below, which is the strictest reading. */
WEIR_API void weir_sim_block_alloc(weir_sim *sim, uint64_t address, uint64_t size,
                                   weir_sim_stream *stream, const char *tag);
/* The block was given back, in the order of `stream` (NULL: the host says that it is idle). Work of other streams may
 * still touch it: that is judged when the memory is handed out again. */
WEIR_API void weir_sim_block_free(weir_sim *sim, uint64_t address, weir_sim_stream *stream,
                                  const char *tag);
/* Reports every block still live and every region, reservation and piece of physical memory still held as leaked. Call
 * it at the end. */
WEIR_API void weir_sim_audit_leaks(weir_sim *sim);

/* --- what the auditor found --- */
/* X(NAME, text) */
#define WEIR_SIM_FINDING_LIST(X)                                                                   \
    X(OUTSIDE_BLOCK, "access outside a live block")                                                \
    X(USE_AFTER_FREE, "use after free")                                                            \
    X(UNORDERED, "two streams touch a range without an order between them")                        \
    X(EARLY_REUSE, "memory handed out while earlier work may still touch it")                      \
    X(OVERLAP, "overlapping blocks handed out")                                                    \
    X(DOUBLE_FREE, "block freed twice")                                                            \
    X(FOREIGN_FREE, "free of an address that was never handed out")                                \
    X(FREE_PENDING, "the host freed a block while work on it is pending")                          \
    X(OUTSIDE_REGION, "block not inside memory that the device gave")                              \
    X(REGION_PENDING, "region returned while work on it is pending")                               \
    X(REGION_LIVE, "region returned while blocks in it are live")                                  \
    X(LEAK, "never given back")                                                                    \
    X(FOREIGN_MEMORY, "work touches memory that its device may not reach")

typedef enum weir_sim_finding_kind {
#define WEIR_SIM_FINDING_ENUM(name, text) WEIR_SIM_##name,
    WEIR_SIM_FINDING_LIST(WEIR_SIM_FINDING_ENUM)
#undef WEIR_SIM_FINDING_ENUM
        WEIR_SIM_FINDING_KINDS
} weir_sim_finding_kind;

/* One operation as a finding names it. */
typedef struct weir_sim_operation {
    const char *what; /* "kernel", "copy", "alloc", "free", "region_free", ...; a constant */
    char tag[48];     /* cut to fit */
    uint32_t stream;  /* weir_sim_stream_number; UINT32_MAX = host */
    /* How many-th operation of its stream, waits that order something included; of an alloc or free: the one before. */
    uint64_t tick;
    uint64_t start_ns;
    uint64_t end_ns;
    /* How many-th operation the auditor was told of; 0 = there is no such operation. */
    uint64_t number;
} weir_sim_operation;

typedef struct weir_sim_finding {
    weir_sim_finding_kind kind;
    uint64_t address;
    uint64_t size;
    weir_sim_operation earlier;
    weir_sim_operation later;
    /* The earlier one was still running when the later one began: more than luck was missing. */
    bool in_flight;
    char text[448]; /* one sentence that says all of it */
} weir_sim_finding;

/* How many of one kind; WEIR_SIM_FINDING_KINDS = all. */
WEIR_API uint64_t weir_sim_finding_count(weir_sim *sim, weir_sim_finding_kind kind);
/* The i-th that was kept; false past the end. */
WEIR_API bool weir_sim_finding_at(weir_sim *sim, size_t index, weir_sim_finding *finding);
/* "early_reuse" and the like; never NULL. */
WEIR_API const char *weir_sim_finding_name(weir_sim_finding_kind kind);

/* --- faults --- */
typedef struct weir_sim_fault {
    size_t struct_size;
    weir_device_call call; /* WEIR_CALL_ANY: any */
    uint64_t nth;          /* 1 = the next; 0 = never */
    /* What it returns; 0 = WEIR_ERR_DEVICE, for region_alloc, vm_reserve, vm_create and vm_map WEIR_ERR_NO_MEMORY. */
    weir_status status;
    uint64_t extra_ns; /* host time on top of the call's own, whether it fails or is slow */
    bool slow;         /* the call is not failed, it only takes extra_ns more */
    bool repeat;       /* every nth call from now on; else once */
} weir_sim_fault;

#define WEIR_SIM_FAULT_INIT WEIR_STRUCT_INIT(weir_sim_fault)

/* Several may be armed, each counting on its own; weir_sim_fault_clear disarms all. A failed call has changed nothing
 * but the time. WEIR_ERR_INVALID: no such call; WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_sim_fault_arm(weir_sim *sim, const weir_sim_fault *fault);
WEIR_API void weir_sim_fault_clear(weir_sim *sim);
/* Capacity from now on; what is held already stays. */
WEIR_API void weir_sim_set_capacity(weir_sim *sim, uint64_t capacity_bytes);
/* Everything on the stream fails with WEIR_ERR_DEVICE from now on, as after a kernel fault: its unfinished work is
 * dropped, and so do events fail that captured some of it. Once the device has answered so, the auditor takes the
 * dropped work as over. */
WEIR_API weir_status weir_sim_stream_break(weir_sim *sim, weir_sim_stream *stream);

/* --- figures --- */
typedef struct weir_sim_stats {
    size_t struct_size;
    uint64_t calls[WEIR_CALL_COUNT];   /* calls of the device table, failures included */
    uint64_t call_ns[WEIR_CALL_COUNT]; /* virtual host time they took, waits included */
    uint64_t held_bytes;               /* regions and physical memory now */
    uint64_t peak_held_bytes;
    uint64_t operations; /* pieces of work queued */
    /* Operations that the auditor could not judge, for want of memory; above 0 it has stopped. */
    uint64_t audit_lost;
} weir_sim_stats;

#define WEIR_SIM_STATS_INIT WEIR_STRUCT_INIT(weir_sim_stats)

/* `stats->struct_size` is the caller's; what it has no room for is left out. */
WEIR_API weir_status weir_sim_get_stats(weir_sim *sim, weir_sim_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
