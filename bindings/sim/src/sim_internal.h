/* sim_internal.h: declarations that the simulator's files share, grouped by the file that defines them.
 *
 * One lock guards a simulator. Every public function takes the lock on entry. The functions declared here are called
 * with the lock held. Only two functions release it: weir__sim_effects_run while a host function runs, and
 * weir__sim_effects_settle while it waits.
 */
#ifndef WEIR_SIM_INTERNAL_H
#define WEIR_SIM_INTERNAL_H

#include <weir/sim.h>

#include "audit.h"
#include "shared/assert.h"
#include "shared/intervals.h"
#include "shared/shared_limit.h"
#include "shared/slab.h"

#include <pthread.h>

/* --- backing.c: real bytes behind the addresses of backed mode --- */

/* All zero in accounting mode. */
typedef struct weir__sim_backing {
    bool on;
    void *base; /* start of all reserved addresses */
    size_t size;
    int poison_file;   /* the fresh contents of every region */
    int physical_file; /* sparse file with the physical memory, by offset */
} weir__sim_backing;

/* Reserves `size` bytes of addresses, none of them accessible, from a multiple of `alignment`. */
weir_status weir__sim_backing_init(weir__sim_backing *backing, uint64_t size, uint64_t alignment,
                                   uint64_t physical_size, uint64_t *base);
void weir__sim_backing_fini(weir__sim_backing *backing);
/* Gives a range fresh, poisoned, accessible memory. */
weir_status weir__sim_backing_commit(weir__sim_backing *backing, uint64_t address, uint64_t size);
/* Maps physical memory at a range: of a file of another process, or of the simulator's own (file -1). */
weir_status weir__sim_backing_map(weir__sim_backing *backing, uint64_t address, uint64_t size, int file,
                                  uint64_t offset);
/* Makes a committed range physical memory: its contents move into the file, and the range maps them. */
weir_status weir__sim_backing_move(weir__sim_backing *backing, uint64_t address, uint64_t size, uint64_t offset);
/* Makes a range inaccessible. Committed contents are lost; mapped physical memory keeps its contents. */
weir_status weir__sim_backing_hide(weir__sim_backing *backing, uint64_t address, uint64_t size);
/* Discards the contents of physical memory; `file` as above. */
void weir__sim_backing_discard(weir__sim_backing *backing, uint64_t offset, uint64_t size, int file);

/* --- memory.c: addresses, capacity, regions, virtual memory --- */

typedef struct weir__sim_physical {
    uint64_t size; /* 0: free */
    /* offset in the physical file; in a free descriptor: 1 + index of the next free descriptor, 0: none */
    uint64_t offset;
    uint32_t mappings;
    uint32_t generation;
    uint64_t key; /* under `limit`: the memory is exported, or imported; 0: neither */
    weir_shared_limit *limit;
    bool imported;
    int file; /* imported, in backed mode: the exporter's physical file; else -1 */
} weir__sim_physical;

/* A range of the physical file whose memory is destroyed here while other processes hold it. */
typedef struct weir__sim_lent {
    struct weir__sim_lent *next;
    weir_shared_limit *limit;
    uint64_t key;
    uint64_t offset;
    uint64_t size;
} weir__sim_lent;

typedef struct weir__sim_memory {
    uint64_t capacity;
    uint64_t held;
    uint64_t common; /* part of held: exported */
    uint64_t peak;
    bool joined; /* `member` is in config.shared_limit */
    weir__slab extents;
    weir__intervals free_addresses; /* for regions */
    weir__intervals free_virtual;   /* for reservations */
    weir__intervals free_offsets;   /* for physical memory, in backed mode */
    weir__intervals regions;
    weir__intervals reservations;
    weir__intervals mappings;
    weir__sim_physical *physical;
    uint32_t physical_count;
    uint32_t physical_capacity;
    uint32_t physical_free; /* 1 + index of the first free descriptor; 0: none */
    weir__sim_lent *lent;
    weir__limit_member member; /* of config.shared_limit, if there is one */
    weir__sim_backing backing;
} weir__sim_memory;

weir_status weir__sim_memory_init(weir_sim *sim);
void weir__sim_memory_fini(weir_sim *sim);
weir_status weir__sim_region_alloc(weir_sim *sim, uint64_t size, uint64_t *address);
weir_status weir__sim_region_free(weir_sim *sim, uint64_t address, uint64_t size);
weir_status weir__sim_vm_reserve(weir_sim *sim, uint64_t size, uint64_t *address);
weir_status weir__sim_vm_release(weir_sim *sim, uint64_t address, uint64_t size);
weir_status weir__sim_vm_create(weir_sim *sim, uint64_t size, weir_vm_handle *handle);
weir_status weir__sim_vm_destroy(weir_sim *sim, weir_vm_handle handle);
weir_status weir__sim_vm_map(weir_sim *sim, uint64_t address, uint64_t size, weir_vm_handle handle);
weir_status weir__sim_vm_unmap(weir_sim *sim, uint64_t address, uint64_t size);
/* Returns the descriptor of a handle of physical memory, or NULL, and its index. */
weir__sim_physical *weir__sim_physical_of(weir__sim_memory *memory, weir_vm_handle handle, uint32_t *index);
/* Makes a handle for memory that another process holds. */
weir_status weir__sim_physical_adopt(weir__sim_memory *memory, const weir__sim_physical *adopted,
                                     weir_vm_handle *handle);
/* Returns the physical memory of the region that begins at an address, and the region's size; a region that has none
 * gets it: the region then maps it. *physical is NULL if there is no such region. */
weir_status weir__sim_region_physical(weir_sim *sim, uint64_t address, weir__sim_physical **physical, uint64_t *size);
/* Returns a pointer to the bytes of a range, or NULL in accounting mode or if part of the range has no memory. */
void *weir__sim_memory_bytes(weir_sim *sim, uint64_t address, uint64_t size);
/* Reports as leaks, to the auditor, all reservations and unmapped physical memory that the program still holds. */
void weir__sim_memory_leaks(weir_sim *sim);

/* --- share.c: memory that processes hold in common --- */

/* Drops exported or imported memory that is being destroyed. Returns true if its range of the physical file is lent to
 * other processes from now on. */
bool weir__sim_share_drop(weir_sim *sim, const weir__sim_physical *physical);
/* Takes lent ranges back that no process holds any more. Calls `take_back` for each. */
void weir__sim_share_collect(weir__sim_memory *memory,
                             void (*take_back)(weir__sim_memory *memory, uint64_t offset, uint64_t size));
void weir__sim_share_fini(weir_sim *sim);

/* --- effects.c: effects of queued work, applied when virtual time reaches them --- */

typedef enum weir__sim_effect_kind {
    WEIR__SIM_FILL,
    WEIR__SIM_COPY,
    WEIR__SIM_COPY_FROM_HOST,
    WEIR__SIM_COPY_TO_HOST,
    WEIR__SIM_CALL,
    WEIR__SIM_CALL_DROPPED /* the work was dropped: the effect calls its dropped function, now stored in `function` */
} weir__sim_effect_kind;

typedef struct weir__sim_effect {
    uint64_t at;     /* virtual time of the effect */
    uint64_t number; /* order of queuing; breaks ties of `at` */
    uint32_t stream;
    weir__sim_effect_kind kind;
    uint8_t value;
    bool is_kernel; /* of a call: the function computes in device memory */
    uint64_t to;
    uint64_t from;
    uint64_t size;
    void *host; /* host memory */
    /* A copy that the auditor judges: its operation, and a checksum of the host's side as it has to be at the end. */
    weir__sim_op *op;
    uint64_t host_sum;
    void (*function)(void *ctx);
    void (*dropped)(void *ctx); /* may be NULL */
    void *ctx;
} weir__sim_effect;

typedef struct weir__sim_effects {
    weir__sim_effect *heap; /* a binary heap in the order of (at, number): element i comes before its children 2i + 1
                             * and 2i + 2 */
    size_t count;
    size_t capacity;
    size_t judged; /* queued copies whose host's side the auditor judges; most programs have few */
    bool running;
    pthread_t runner;
    pthread_cond_t done;
} weir__sim_effects;

/* Makes room for one more effect, so that the next push cannot fail. */
weir_status weir__sim_effects_reserve(weir__sim_effects *effects);
/* Queues an effect, which takes over the reference to its operation. */
void weir__sim_effects_push(weir_sim *sim, const weir__sim_effect *effect);
/* Moves virtual time to `target` and applies all effects due by then, in the order of time. During another run (a host
 * function may call this) it only moves time: the other run then applies these effects. */
void weir__sim_effects_run(weir_sim *sim, uint64_t target);
/* True while another thread is in weir__sim_effects_run. */
bool weir__sim_effects_unsettled(const weir_sim *sim);
/* Waits until no other thread is in weir__sim_effects_run. */
void weir__sim_effects_settle(weir_sim *sim);
/* Drops the effects that a stream has queued. An effect with a dropped function becomes a call of this function, due
 * now; the caller must run weir__sim_effects_run, which makes the calls. */
void weir__sim_effects_drop(weir_sim *sim, uint32_t stream);
/* From now on the auditor expects the present bytes at the host's sides of queued copies that lie in a range. */
void weir__sim_effects_host_written(weir_sim *sim, const void *start, uint64_t size);
/* From now on the auditor expects nothing of them, because the host memory is no longer the program's. */
void weir__sim_effects_host_freed(weir_sim *sim, const void *start, uint64_t size);
/* Drops all effects and calls their dropped functions. The lock is not held. */
void weir__sim_effects_fini(weir_sim *sim);

/* --- fault.c --- */

typedef struct weir__sim_armed {
    weir_sim_fault fault;
    uint64_t seen;
} weir__sim_armed;

typedef struct weir__sim_faults {
    weir__sim_armed *armed;
    size_t count;
    size_t capacity;
} weir__sim_faults;

/* Decides if a call fails: returns WEIR_OK, or the status of the failure. Adds the faults' extra time to *extra_ns. */
weir_status weir__sim_fault_strike(weir__sim_faults *faults, weir_device_call call, uint64_t *extra_ns);

/* --- the simulator --- */

struct weir_sim_stream {
    void *link; /* used by the slab */
    weir_sim *sim;
    weir_sim_stream *next; /* list of live streams */
    weir_sim_stream *previous;
    uint64_t tail; /* virtual time at which the stream's last work ends */
    uint64_t broken_at;
    uint32_t number;
    bool live;
    bool broken;
};

typedef struct weir__sim_event {
    void *link;                   /* used by the slab */
    struct weir__sim_event *next; /* next in the list of all events ever created, for clean-up */
    weir__sim_clock clock;
    weir_sim_stream *stream; /* stream of the last record; valid only while stream->number == number */
    uint64_t time;           /* virtual time at which the captured work is complete */
    uint32_t number;
    bool live;
    bool recorded;
    bool known; /* in the list of all events */
} weir__sim_event;

enum { WEIR__SIM_COPY_STREAMS = 2 };

struct weir_sim {
    pthread_mutex_t lock;
    weir_sim_config config; /* the caller's config with all defaults filled in; no member of `costs` is 0 */
    weir_device_ops ops;
    weir_device *device;
    uint64_t now;
    uint64_t operations;
    weir_sim_stats stats;

    weir__slab streams;
    weir__slab events;
    weir_sim_stream *first_stream; /* list of live streams */
    weir_sim_stream *default_stream;
    weir_sim_stream *copying[WEIR__SIM_COPY_STREAMS]; /* of the device call copy; NULL before the first */
    weir__sim_event *all_events;
    uint32_t stream_count; /* number of streams ever created, and the number that the next stream gets */
    uint64_t ended_tail;   /* the latest virtual time at which work on a destroyed stream ends */

    weir__sim_audit *audit; /* NULL: no auditor */
    weir__sim_memory memory;
    weir__sim_effects effects;
    weir__sim_faults faults;
};

/* Evaluates `call`, a call of the auditor, if the simulator has an auditor. */
#define WEIR__SIM_TELL(sim, call)                                                                                      \
    do {                                                                                                               \
        if ((sim)->audit != NULL) {                                                                                    \
            call;                                                                                                      \
        }                                                                                                              \
    } while (0)

static inline void weir__sim_lock(weir_sim *sim)
{
    (void)pthread_mutex_lock(&sim->lock);
}

static inline void weir__sim_unlock(weir_sim *sim)
{
    WEIR_ASSERT_HELD(&sim->lock);
    (void)pthread_mutex_unlock(&sim->lock);
}

static inline uint64_t weir__sim_later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Adds with saturation: time stops at UINT64_MAX rather than wrapping. */
static inline uint64_t weir__sim_plus(uint64_t time, uint64_t ns)
{
    return ns <= UINT64_MAX - time ? time + ns : UINT64_MAX;
}

/* Returns the time that a call costs: a fixed part and a part for each MiB. */
static inline uint64_t weir__sim_price(uint64_t fixed_ns, uint64_t ns_per_mib, uint64_t bytes)
{
    uint64_t whole = (bytes >> 20) * ns_per_mib;
    uint64_t rest = ((bytes & 0xfffffu) * (ns_per_mib & 0xfffffffffffu)) >> 20;
    return weir__sim_plus(fixed_ns, weir__sim_plus(whole, rest));
}

/* Moves the host's clock to `target`, but never back, and applies the effects due on the way. */
static inline void weir__sim_reach(weir_sim *sim, uint64_t target)
{
    WEIR_ASSERT_HELD(&sim->lock);
    if (sim->effects.count > 0 && sim->effects.heap[0].at <= weir__sim_later(target, sim->now)) {
        weir__sim_effects_run(sim, target);
    } else if (target > sim->now) {
        sim->now = target;
    }
}

/* --- stream.c --- */

weir_status weir__sim_streams_init(weir_sim *sim);
void weir__sim_streams_fini(weir_sim *sim);
/* Returns the live stream of a native handle (NULL: the default stream), or NULL if the handle is no live stream. */
weir_sim_stream *weir__sim_stream_find(weir_sim *sim, const void *native);
/* Returns the live stream of that number, or NULL. */
weir_sim_stream *weir__sim_stream_numbered(weir_sim *sim, uint32_t number);
/* Breaks a stream: its unfinished work is dropped, and every later call on it fails. The caller must then run
 * weir__sim_effects_run, as after any drop. */
void weir__sim_stream_fail(weir_sim *sim, weir_sim_stream *stream);

weir_status weir__sim_event_create(weir_sim *sim, weir_event **event);
weir_status weir__sim_event_destroy(weir_sim *sim, weir_event *event);
weir_status weir__sim_event_record(weir_sim *sim, weir_event *event, void *native);
weir_status weir__sim_event_query(weir_sim *sim, weir_event *event, bool *complete);
weir_status weir__sim_event_sync(weir_sim *sim, weir_event *event);
weir_status weir__sim_stream_wait_event(weir_sim *sim, void *native, weir_event *event);
weir_status weir__sim_stream_sync(weir_sim *sim, void *native);
/* Refuses a handle that is not a stream of this simulator. */
weir_status weir__sim_stream_check(weir_sim *sim, const void *native);
/* Refuses a NULL argument with WEIR_ERR_INVALID and a sentence that names the argument. Needs no lock. */
weir_status weir__sim_null(const char *function, const char *argument);

/* --- prices.c --- */

/* Reads the table of prices in the file that WEIR_SIM_PRICES names. Without the variable every price is 0. */
weir_status weir__sim_costs_of_environment(weir_sim_costs *costs);
/* Fills in each price that is 0: from `table`, or with the default if the table's price is 0 too. */
void weir__sim_fill_costs(weir_sim_costs *costs, const weir_sim_costs *table);

/* --- sim_device.c --- */

/* Fills sim->ops for the configured capabilities. */
void weir__sim_device_ops(weir_sim *sim);

#endif
