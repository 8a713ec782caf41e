/* runtime.h: what the files of the simulated ACL runtime share, grouped by the file that defines it.
 *
 * One process has one runtime: one simulator (backed mode) with all devices in it, whose capacities the runtime counts
 * itself, so that events and copies work across devices and one auditor sees everything.
 *
 * One lock guards all of it. A public function checks its arguments, takes the lock, works, lets go. Functions here are
 * called with the lock held unless they say otherwise; the simulator is only called with it held. User code (allocator
 * callbacks, stream callbacks, host functions) is called without it; what a kernel computes is called with it.
 *
 * No function here calls a public one: a tool that interposes on the public names must see the user's calls and no
 * others.
 */
#ifndef WEIR_ASCENDCL_RUNTIME_H
#define WEIR_ASCENDCL_RUNTIME_H

#include <acl/acl.h>
#include <acl/acl_rt_allocator.h>
#include <acl/acl_rt_memory_soma.h>
#include <weir/sim.h>

#include "../../src/audit.h"
#include "../../src/ranges.h"
#include "../../src/slab.h"
#include "functions.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define ACL_EXPORT __attribute__((visibility("default")))

typedef struct acl__context acl__context;
typedef struct acl__stream acl__stream;
typedef struct acl__event acl__event;
typedef struct acl__record acl__record;
typedef struct acl__task acl__task;
typedef struct acl__range acl__range;

/* --- process.c: start and end, configuration, the lock, calls and faults, the report --- */

typedef enum acl__function {
#define ACL_FUNCTION_ENUM(name, priority) ACL_FN_##name,
    ACL_FUNCTION_LIST(ACL_FUNCTION_ENUM)
#undef ACL_FUNCTION_ENUM
        ACL_FN_COUNT
} acl__function;

/* The first line of every public function: counts the call, starts the runtime when this is the first, and returns the
 * error of a fault that strikes. ACL_ENTER_OR is for those that return something else than an aclError. */
#define ACL_ENTER(name)                                                                                                \
    do {                                                                                                               \
        const aclError fault_ = acl__enter(ACL_FN_##name);                                                             \
        if (fault_ != ACL_SUCCESS) {                                                                                   \
            return fault_;                                                                                             \
        }                                                                                                              \
    } while (0)
#define ACL_ENTER_OR(name, result)                                                                                     \
    do {                                                                                                               \
        if (acl__enter(ACL_FN_##name) != ACL_SUCCESS) {                                                                \
            return result;                                                                                             \
        }                                                                                                              \
    } while (0)
/* No lock is held. */
aclError acl__enter(acl__function function);
/* Starts the runtime when nothing has yet. */
aclError acl__start(void);
/* What a function that is not simulated does. */
aclError acl__not_simulated(acl__function function);
const char *acl__function_name(acl__function function);
/* How often it was called; ACL_FN_COUNT: all together. Needs no lock. */
uint64_t acl__calls(acl__function function);

void acl__lock(void);
/* Lets go, and wakes whoever waits for something to change. */
void acl__unlock(void);
pthread_mutex_t *acl__mutex(void); /* for condition variables */

enum { ACL__DEVICES = 16 };

/* From the environment, WEIR_ASCENDCL_<NAME>; the README has the list. Fixed once the runtime has started. */
typedef struct acl__config {
    uint64_t capacity_bytes; /* of each device */
    uint32_t devices;
    uint64_t seed;
    bool audit;
    bool strict;               /* misuse that the vendor tolerates is an error */
    bool reuse_pools;          /* aclrtMemPool memory is reused before it is trimmed */
    bool pin_default;          /* an operator before any registration fixes the stream's allocator */
    bool idle_time;            /* time also passes while no call is made */
    bool span_cache;           /* models keep what they took from a registered allocator */
    bool refresh_weights;      /* models take weights from the registered allocator, with advice */
    uint64_t model_page_bytes; /* what the model path rounds requests to */
    uint64_t host_bytes;       /* most that is pinned or physical memory of the host's; 0 = no limit */
    uint64_t pin_limit_bytes;  /* most that one host allocation or registration may have; 0 = no limit */
    uint64_t pin_page_bytes;   /* alignment that a registration needs */
    uint64_t pin_ns_per_mib;   /* host time of page-locking, and of undoing it */
    uint64_t unpin_ns_per_mib;
    uint32_t stream_limit;
    uint32_t event_limit;
    int32_t numa_nodes;               /* of the simulated machine; 0: leave host memory where it falls */
    int32_t exit_code;                /* of the process when the auditor found something; 0: leave it */
    const char *report;               /* "stderr", "none", or a file's name */
} acl__config;

typedef struct acl__device {
    uint64_t held_huge_bytes; /* of its capacity, by the pages they lie on */
    uint64_t held_normal_bytes;
    uint64_t peak_bytes; /* most of both */
    uint32_t references;     /* of aclrtSetDevice */
    acl__context *default_context;
} acl__device;

typedef struct acl__runtime {
    acl__config config;
    weir_sim *sim;
    weir_device *memory; /* the simulator's device table */
    acl__device devices[ACL__DEVICES];
    weir__sim_ranges device_memory; /* acl__range: allocated or mapped */
    weir__sim_ranges host_memory;   /* acl__range: pinned allocations */
    weir__sim_ranges registered;    /* acl__range: registered host memory */
    acl__stream *first_stream;      /* of all contexts */
    uint64_t held_tasks;            /* on all streams */
    uint64_t initialised;           /* aclInit, less aclFinalize */
    bool finalised;                 /* since the last aclInit */
} acl__runtime;

extern acl__runtime acl__rt;

/* Notes the thread's last error with a sentence about it (printf style), and returns the code. Needs no lock. */
aclError acl__fail(aclError code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A simulator's status as the code of an ordinary call; no note is made for WEIR_OK. */
aclError acl__status(weir_status status, const char *what);

/* --- error.c --- */

/* The calling thread's. Needs no lock. */
void acl__error_note(aclError code, const char *text);
/* Gives a task that is being queued its number and the number of the thread that queues it. */
void acl__task_name(acl__task *task);
/* A task of the stream failed on the device (NULL: it is not known which): for the exception callback. */
void acl__exception(acl__stream *stream, const acl__task *task, aclError error);
/* Waits until the exception callback was called for all that failed so far. The lock is not held. */
void acl__exceptions_settle(void);

/* --- context.c: devices and contexts --- */

struct acl__context {
    void *link; /* the slab's */
    acl__context *next; /* of the live ones */
    acl__context *previous;
    int32_t device;
    uint32_t generation; /* grows when the slot is used anew */
    bool live;
    acl__stream *default_stream;
};

/* The calling thread's context, NULL for none. */
acl__context *acl__context_current(void);
/* The same, or ACL_ERROR_RT_CONTEXT_NULL. */
aclError acl__context_need(acl__context **context);
bool acl__context_is(const void *handle);

/* --- stream.c --- */

struct acl__stream {
    void *link; /* the slab's */
    acl__stream *next; /* of all */
    acl__stream *previous;
    acl__context *context;
    weir_sim_stream *sim;
    int32_t id;
    uint32_t priority;
    uint32_t flags;
    bool live;
    bool ending; /* its destruction has begun */
    bool stop_on_failure;
    bool stopped; /* takes no more tasks */
    aclError error;   /* of a task, to be reported by the next wait */
    uint32_t aborts;  /* how often it was aborted */
    acl__task *held_first; /* tasks that wait for the host, in order */
    acl__task **held_last;
    acl__task *submitting; /* the first of them, while it is submitted: who drops it leaves its end to the pump */
    struct acl__subscription *report; /* callback.c: who runs its callbacks; NULL: nobody */
    struct acl__subscription *host_func;
    void *consumer; /* what the executors keep for it */
    struct acl__capture *capture; /* capture.c: what is being captured; NULL: nothing */
};

/* The stream behind a handle, NULL standing for the current context's default stream: who queues something must have the
 * stream's context current, who waits or asks only has to have one. */
aclError acl__stream_of(aclrtStream handle, acl__stream **stream);
aclError acl__stream_any(aclrtStream handle, acl__stream **stream);
/* Waits until everything on it is complete, for at most `timeout_ms` (-1: for ever). Lets go of the lock meanwhile.
 * Reports and forgets the error of a task. */
aclError acl__stream_wait(acl__stream *stream, int64_t timeout_ms);
/* What is asked of it next has nothing to do with an abort: who synchronises later is not told of it any more. */
void acl__stream_forget_abort(acl__stream *stream);
/* Drops everything on it that has not happened. */
void acl__stream_drop(acl__stream *stream);
/* A task failed. By the stream's failure mode the rest goes on or is dropped, and with it the context's other streams. */
void acl__stream_fail(acl__stream *stream, const acl__task *task, aclError error);
aclError acl__stream_create(acl__context *context, uint32_t priority, uint32_t flags, acl__stream **stream);
/* aclrtCreateStreamWithConfig for a public function of that name. The lock is not held. */
aclError acl__stream_create_with(aclrtStream *stream, uint32_t priority, uint32_t flags, const char *name);
/* Calls the user's state callbacks. The lock is not held. */
void acl__stream_announce_created(acl__stream *stream);
/* Ends a stream that nobody else can reach any more, or with `force` drops what it has left. Lets go of the lock. */
void acl__streams_end_of(acl__context *context, bool force);
/* Waits for all streams of a device. */
aclError acl__device_wait(int32_t device, int64_t timeout_ms);
/* Called with each stream that is about to go, without the lock, before the user's own state callbacks; a fixed list,
 * one entry for each file that keeps something for streams. */
void acl__op_stream_ends(aclrtStream handle);
/* consumer.c, around a fork: its table, which is locked before the runtime. */
void acl__consumer_fork_lock(void);
void acl__consumer_fork_unlock(void);

/* --- queue.c: tasks, time, the engine thread --- */

/* Not an aclError: the task has to wait for something that the host does. */
#define ACL__HELD ((aclError)INT32_MAX)

/* One thing queued on a stream. Embedded as first member in what each file makes of it. */
typedef struct acl__task_ops {
    /* Everything before it on the stream has been given to the simulator: gives this to it as well. ACL__HELD: not now;
     * it is called again whenever something has changed. Any other error becomes the caller's, or the stream's when the
     * caller has gone. */
    aclError (*submit)(acl__stream *stream, acl__task *task);
    /* Ends the task: called once, after it was submitted or dropped. */
    void (*end)(acl__task *task);
    /* Another such task, which does the same when it is queued; NULL: out of memory, or this one cannot be had twice.
     * The slot may be NULL: then none can. */
    acl__task *(*clone)(const acl__task *task);
    bool is_mark; /* does nothing by itself: what repeats a stream's tasks may leave it out */
} acl__task_ops;

struct acl__task {
    acl__task *next;
    const acl__task_ops *ops;
    uint32_t number; /* in the order of queuing, in the process */
    uint32_t thread; /* that queued it */
};

/* Queues a task, which belongs to the stream from now on, also after an error. */
aclError acl__queue(acl__stream *stream, acl__task *task);
/* The host asks about progress, which takes it 1 us. Who asks on and on and queues nothing sleeps in between, or waits for
 * something long: time passes faster for him, by no more than 1/64 of what has passed since he began, and not beyond the
 * next end of a stream's work. */
void acl__ask(void);

/* Whether the stream has come to the task that is being submitted: everything before it has happened. */
bool acl__has_arrived(const acl__stream *stream);
/* Submits what can be, on all streams. */
void acl__pump(void);
/* Ends all held tasks of a stream. */
void acl__queue_drop(acl__stream *stream);
/* Something may have changed that somebody waits for; acl__unlock calls it. */
void acl__changed(void);

/* When the host's waiting ends: a virtual time and a real one. */
typedef struct acl__deadline {
    uint64_t virtual_ns;
    struct timespec real;
    bool is_set;
} acl__deadline;

/* When the next stream's work ends after `now`; UINT64_MAX: none is under way. */
uint64_t acl__next_end(uint64_t now);
acl__deadline acl__deadline_in(int64_t timeout_ms);
/* One step of waiting: lets virtual time pass to `target_ns` (0: to the next end of any stream's work), or, when nothing
 * is under way, lets go of the lock until something changes. False: the deadline has come. */
bool acl__wait_step(uint64_t target_ns, const acl__deadline *deadline);

/* A kernel, or anything that takes time on a stream. `accesses` and `tag` are copied. `compute` is called when virtual
 * time reaches its end: it may read and write device memory by its addresses, must not call the runtime, and returns
 * ACL_SUCCESS or the error that the stream gets. `end` is called exactly once afterwards, or instead when the kernel is
 * dropped or cannot be queued. Both may be NULL. */
typedef struct acl__kernel {
    const char *tag;
    uint64_t duration_ns;
    const weir_sim_access *accesses;
    size_t access_count;
    aclError (*compute)(void *ctx);
    void (*end)(void *ctx);
    void *ctx;
} acl__kernel;

aclError acl__launch(acl__stream *stream, const acl__kernel *kernel);

/* Has `run` called on the runtime's own thread, without the lock, and then `done` with it. Jobs run one after another.
 * The caller keeps `job` until `done`. ACL_ERROR_RT_RESOURCE_ALLOC_FAIL: there is no thread to be had. */
typedef struct acl__job {
    struct acl__job *next;
    void (*run)(struct acl__job *job);
    void (*done)(struct acl__job *job);
} acl__job;
aclError acl__engine_post(acl__job *job);
/* Somebody may now wait for the device without calling the runtime: from here on time passes by itself when nobody
 * calls. */
aclError acl__engine_need(void);
/* Ends the thread; nothing runs on it afterwards. The lock is not held. */
void acl__engine_stop(void);
/* In the child of a fork, which has no such thread. */
void acl__engine_forget(void);
/* Tells the auditor that the host has seen the end of the stream's work. */
void acl__host_saw(acl__stream *stream);

/* --- event.c --- */

/* One recording of an event on a stream. */
struct acl__record {
    void *link; /* the slab's */
    weir_event *sim;
    uint32_t references;
    bool submitted; /* the simulator has it */
    bool dropped;   /* its stream was dropped before */
    uint64_t time_ns; /* when it is complete, once submitted */
};

/* A recording at the stream's end, to be waited for by others; NULL: out of memory (error noted). Release it. */
acl__record *acl__record_queue(acl__stream *stream, aclError *error);
void acl__record_release(acl__record *record);
/* Has the stream wait for it. */
aclError acl__record_wait_queue(acl__stream *stream, acl__record *record);
/* For use inside another task's submit: the wait alone; ACL__HELD while the recording is not submitted. */
aclError acl__record_join(acl__stream *stream, acl__record *record);

/* --- memory.c: device memory --- */

typedef enum acl__range_kind {
    ACL__ALLOCATED, /* aclrtMalloc and its relatives */
    ACL__MAPPED,    /* aclrtMapMem */
    ACL__POOLED,    /* addresses of an aclrtMemPool: what of them has memory and is in use, the pool knows */
    ACL__PINNED,    /* aclrtMallocHost */
    ACL__REGISTERED
} acl__range_kind;

/* A range of addresses in one of the runtime's sets. */
struct acl__range {
    weir__sim_range range; /* first */
    acl__range_kind kind;
    int32_t device;
    bool huge;           /* of device memory: what its pages count as */
    uint32_t open_to;    /* of a mapping: bits of the devices that aclrtMemSetAccess gave access */
    uint64_t asked_bytes;
    void *owner;         /* the maker's */
};

/* NULL: out of memory. */
acl__range *acl__range_add(weir__sim_ranges *set, acl__range_kind kind, uint64_t start, uint64_t size);
void acl__range_remove(weir__sim_ranges *set, acl__range *range);
/* The member that contains an address, or NULL. */
acl__range *acl__range_at(const weir__sim_ranges *set, const void *pointer);

enum { ACL__HUGE_PAGE = 2 << 20, ACL__NORMAL_PAGE = 4096, ACL__HUGE_THRESHOLD = 1 << 20 };

/* Counts bytes against a device's capacity; false when they do not fit. */
bool acl__capacity_take(int32_t device, uint64_t bytes, bool huge);
void acl__capacity_give(int32_t device, uint64_t bytes, bool huge);

/* aclrtMalloc without padding or public name: for the runtime's own users. */
aclError acl__malloc(int32_t device, uint64_t size, aclrtMemMallocPolicy policy, void **pointer);
/* aclrtFree, whatever the address is; ACL_ERROR_RT_PARAM_INVALID when it is nothing of ours. */
aclError acl__free(void *pointer);
/* Gives back all that a device still holds, and says so in the report. */
void acl__memory_reset(int32_t device);

/* Tells the auditor that an allocator of somebody's handed out a block of memory, or got it back, in the order of the
 * stream. */
void acl__announce_alloc(const void *pointer, uint64_t size, acl__stream *stream, const char *tag);
void acl__announce_free(const void *pointer, acl__stream *stream, const char *tag);

/* --- host.c: pinned and registered host memory --- */

/* Host memory that an asynchronous copy may touch later: pinned or registered. */
bool acl__is_pinned(const void *pointer, uint64_t size);
/* Counts bytes against what the host has; false when they do not fit. */
bool acl__host_take(uint64_t bytes);
void acl__host_give(uint64_t bytes);

/* --- share.c --- */

/* The device that gives the simulator work: the auditor asks whether it may touch the memory. A copy may be made by the
 * device at either end. */
typedef struct acl__worker {
    int32_t device;
    bool copies;
} acl__worker;
/* From now on; returns the one before, to be set again afterwards. */
acl__worker acl__work_by(acl__worker worker);
/* For the auditor: the worker's own memory, memory that peer access or aclrtMemSetAccess opened to it, and memory that
 * belongs to no device. */
bool acl__reaches(const weir_sim_access *access, char *detail, size_t size);

/* --- virtual.c, soma.c --- */

/* Where the memory of a mapping is. */
aclrtMemLocation acl__virtual_location(const acl__range *range);
bool acl__virtual_is_reserved(const void *pointer);
void acl__virtual_reset(int32_t device);
/* A pool's memory by its address, from aclrtFree: true when it was one. */
bool acl__soma_free_now(void *pointer, aclError *error);
/* The live block around an address; false: there is none. */
bool acl__soma_block_at(const void *pointer, uint64_t *start, uint64_t *size);
/* A stream was synchronised, with its error: pools give back what their threshold asks. */
void acl__soma_synced(acl__stream *stream);
/* An event was recorded on a stream, or a stream was made to wait for the latest recording of one. */
void acl__soma_recorded(const void *event, acl__stream *stream);
void acl__soma_waited(acl__stream *stream, const void *event);
void acl__soma_reset(int32_t device);

/* --- copy.c --- */

/* What aclrtMemcpy does, for the others that copy. `name` is the caller's, for messages. */
aclError acl__copy_now(void *to, const void *from, uint64_t size, const char *name);
aclError acl__copy_async(void *to, const void *from, uint64_t size, acl__stream *stream, const char *name);
aclError acl__set_now(void *to, uint8_t value, uint64_t size, const char *name);
aclError acl__set_async(void *to, uint8_t value, uint64_t size, acl__stream *stream, const char *name);

/* --- registry.c: allocators registered for streams --- */

/* The five words of a description; what aclrtAllocatorDesc points at begins with them. */
typedef struct acl__allocator {
    aclrtAllocator object;
    aclrtAllocatorAllocFunc alloc;
    aclrtAllocatorFreeFunc free;
    aclrtAllocatorAllocAdviseFunc advise;
    aclrtAllocatorGetAddrFromBlockFunc address;
} acl__allocator;

/* The registration of a stream, copied; false when there is none. Takes no lock of the runtime's. */
bool acl__allocator_of(aclrtStream stream, acl__allocator *allocator);
bool acl__allocator_is_registered(aclrtStream stream);
/* Around a fork. */
void acl__registry_fork_lock(void);
void acl__registry_fork_unlock(void);

/* --- callback.c --- */

void acl__callback_stream_ends(acl__stream *stream);

/* --- notify.c --- */

/* Ends all notifies of a device. */
void acl__notify_reset(int32_t device);

/* --- capture.c --- */

/* A task is about to be queued on a stream that is being captured. */
void acl__capture_add(acl__stream *stream, const acl__task *task);
void acl__capture_stream_ends(acl__stream *stream);

#endif
