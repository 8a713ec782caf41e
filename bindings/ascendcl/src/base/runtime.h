/* runtime.h: the state of the simulated ACL runtime, the frame of its public functions, and what this floor defines.
 *
 * A process has one runtime: one simulator (backed mode) with all devices in it. The runtime counts the capacity of
 * each device itself, so that events and copies work across devices and one auditor sees everything.
 *
 * One lock guards the whole runtime. Most public functions hold it from their first line to their return.
 * Internal functions are called with the lock held unless their comment says otherwise. The simulator is only
 * called with the lock held. User code (allocator callbacks, stream callbacks, host functions) is called without it; a
 * kernel's compute function is called with it.
 *
 * No function here calls a public one: a tool that interposes on the public names must see exactly the user's calls.
 */
#ifndef WEIR_ASCENDCL_RUNTIME_H
#define WEIR_ASCENDCL_RUNTIME_H

#include <acl/acl.h>
#include <acl/acl_rt_allocator.h>
#include <acl/acl_rt_memory_soma.h>
#include <weir/sim.h>

#include "base/functions.h"
#include "shared/assert.h"
#include "shared/intervals.h"
#include "shared/slab.h"

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
typedef struct acl__condition acl__condition;
typedef struct acl__range acl__range;

/* --- runtime.c: the state, the locks, the count of calls --- */

typedef enum acl__function {
#define ACL_FUNCTION_ENUM(name, priority) ACL_FN_##name,
    ACL_FUNCTION_LIST(ACL_FUNCTION_ENUM)
#undef ACL_FUNCTION_ENUM
        ACL_FN_COUNT
} acl__function;

/* The frame of a public function. It begins with ACL_ENTER or ACL_ENTER_LOCKED, goes on with its checks, one on a line,
 * and then does its work. Each of these macros may return from the function that it stands in; a lock that the frame
 * holds is then released. A function that calls code of the user, or waits for the exception callback, begins with
 * ACL_ENTER and takes the lock for a part of its body.
 *
 * ACL_ENTER counts the call, starts the runtime on the first call, and returns the error of a fault that strikes.
 * ACL_ENTER_LOCKED then holds the runtime's lock until the function returns. ACL_ENTER_OR is for functions that do not
 * return an aclError. */
#define ACL_ENTER(name) ACL_TRY(acl__enter(ACL_FN_##name))
#define ACL_ENTER_LOCKED(name)                                                                                         \
    ACL_ENTER(name);                                                                                                   \
    ACL_HOLD_LOCK()
#define ACL_ENTER_OR(name, result)                                                                                     \
    do {                                                                                                               \
        if (acl__enter(ACL_FN_##name) != ACL_SUCCESS) {                                                                \
            return result;                                                                                             \
        }                                                                                                              \
    } while (0)
/* Takes the runtime's lock, and releases it at the end of the enclosing C block. */
#define ACL_HOLD_LOCK()                                                                                                \
    acl__lock();                                                                                                       \
    const char lock_ __attribute__((cleanup(acl__unlock_at_end), unused)) = 0
/* Makes the enclosing function return the error of a call that failed. */
#define ACL_TRY(call)                                                                                                  \
    do {                                                                                                               \
        const aclError error_ = (call);                                                                                \
        if (error_ != ACL_SUCCESS) {                                                                                   \
            return error_;                                                                                             \
        }                                                                                                              \
    } while (0)
/* If the condition holds, records a sentence (printf style) and makes the enclosing function return `code`. */
#define ACL_FAIL_IF(condition, code, ...)                                                                              \
    do {                                                                                                               \
        if (condition) {                                                                                               \
            return acl__fail(code, __VA_ARGS__);                                                                       \
        }                                                                                                              \
    } while (0)
/* ACL_FAIL_IF for public functions: the function's name and a colon come before the sentence. */
#define ACL_REFUSE_IF(condition, code, ...)                                                                            \
    do {                                                                                                               \
        if (condition) {                                                                                               \
            return acl__refuse(__func__, code, __VA_ARGS__);                                                           \
        }                                                                                                              \
    } while (0)
/* Refuses a NULL argument of a public function. */
#define ACL_NEED(argument) ACL_REFUSE_IF((argument) == NULL, ACL_ERROR_INVALID_PARAM, "%s is NULL", #argument)

/* Defines a public function that returns `fact` if the condition holds, else `otherwise`. */
#define ACL_FACT(type, name, parameters, condition, fact, otherwise)                                                   \
    ACL_EXPORT type name parameters                                                                                    \
    {                                                                                                                  \
        ACL_ENTER_OR(name, otherwise);                                                                                 \
        return (condition) ? (fact) : (otherwise);                                                                     \
    }

const char *acl__function_name(acl__function function);
/* Counts a call: it is number `nth` of its function, and number `overall` of all calls. Needs no lock. */
void acl__count_call(acl__function function, uint64_t *nth, uint64_t *overall);
/* Returns how often a function was called; ACL_FN_COUNT: all functions together. Needs no lock. */
uint64_t acl__calls(acl__function function);

/* Add an item to a list, in front, and remove it. Items have `next` and `previous`, NULL at the ends. */
#define ACL_LIST_ADD(first, item)                                                                                      \
    do {                                                                                                               \
        (item)->previous = NULL;                                                                                       \
        (item)->next = (first);                                                                                        \
        if ((first) != NULL) {                                                                                         \
            (first)->previous = (item);                                                                                \
        }                                                                                                              \
        (first) = (item);                                                                                              \
    } while (0)
#define ACL_LIST_REMOVE(first, item)                                                                                   \
    do {                                                                                                               \
        *((item)->previous != NULL ? &(item)->previous->next : &(first)) = (item)->next;                               \
        if ((item)->next != NULL) {                                                                                    \
            (item)->next->previous = (item)->previous;                                                                 \
        }                                                                                                              \
    } while (0)

/* The locks, in the order in which they are taken. A fork takes all three.
 *
 * acl__executors_lock: the table of the executors' wrappers of allocators (consumer.c).
 * acl__lock: the runtime's lock. acl__unlock is among the tasks (tasks/queue.c), because it lets held tasks go on
 * first.
 * acl__registry_lock: the table of registered allocators (registry.c). */
extern pthread_mutex_t acl__executors_lock;
void acl__lock(void);
bool acl__lock_within_a_second(void); /* for threads that must not wait for a thread that died with the lock */
pthread_mutex_t *acl__mutex(void);    /* the runtime's lock, for condition variables */
extern pthread_mutex_t acl__registry_lock;
/* From now on a fork takes the locks, so that the child has a runtime that works. */
void acl__prepare_for_fork(void);

/* Wakes threads that wait for a change, and releases the lock. */
void acl__unlock(void);
static inline void acl__unlock_at_end(const char *lock)
{
    (void)lock;
    acl__unlock();
}

enum { ACL__DEVICES = 16 };
enum { ACL__HUGE_PAGE = 2 << 20, ACL__NORMAL_PAGE = 4096, ACL__HUGE_THRESHOLD = 1 << 20 };

/* Each member comes from an environment variable WEIR_ASCENDCL_<NAME>; the README has the list. No member changes after
 * the runtime has started. */
typedef struct acl__config {
    uint64_t capacity_bytes; /* of each device */
    uint64_t runtime_bytes;  /* memory that the runtime itself takes of each device in use */
    uint32_t devices;
    uint64_t seed;
    bool audit;
    bool strict;       /* true: misuse that the vendor's runtime tolerates is an error */
    bool reuse_pools;  /* freed aclrtMemPool memory may serve new requests before it is trimmed */
    bool pin_default;  /* an operator without registered allocator binds its stream to the runtime's memory for good */
    bool idle_time;    /* time also passes while no call is made */
    bool span_cache;   /* models keep the memory that they took from a registered allocator */
    bool old_driver;   /* driver and firmware of an old release: they announce no newer features */
    bool driver_cache; /* the driver keeps memory of aclrtFree for the process */
    bool pinned_zero;  /* fresh pinned memory is zero; otherwise it is full of 0xdd */
    bool refresh_weights;      /* models take weights from the registered allocator, with advice */
    uint64_t model_page_bytes; /* models request multiples of this size; 0: exact sizes */
    uint64_t host_bytes;       /* limit of pinned memory and of physical memory on the host's side; 0 = none */
    uint64_t pin_limit_bytes;  /* limit of one host allocation or registration; 0 = none */
    uint64_t pin_page_bytes;   /* alignment that a registration requires */
    uint32_t handle_rest;      /* so many handles of a kind have to end before a handle value is used again */
    uint32_t stream_limit;
    uint32_t event_limit;
    const char *bus_ids; /* PCI bus ids of the devices, separated by commas; a device without one is not on PCI */
    int32_t numa_nodes;  /* nodes of the simulated machine; 0: host memory is not bound to a node */
    int32_t exit_code;   /* exit code of the process when the auditor has findings; 0: unchanged */
    const char *report;  /* "stderr", "none", or a file's name */
    const char *shared;  /* name of the machine whose devices this process shares with others; NULL: its own */
} acl__config;

/* `limit` counts all that the process has of the device: held, kept and runtime bytes; that of others too, if the
 * device is shared. */
typedef struct acl__device {
    weir_shared_limit *limit;
    uint64_t held_huge_bytes; /* bytes held in huge pages and in normal pages, of the device's capacity */
    uint64_t held_normal_bytes;
    uint64_t kept_huge_bytes; /* bytes that nothing holds and the driver keeps (driver_cache.c) */
    uint64_t kept_normal_bytes;
    uint64_t peak_bytes;    /* peak of held_huge_bytes + held_normal_bytes */
    uint64_t runtime_bytes; /* bytes that the runtime itself holds, from the first context to the reset */
    uint32_t references;    /* number of aclrtSetDevice calls without a matching reset */
    acl__context *default_context;
} acl__device;

/* A job for the runtime's own thread. acl__engine_post queues it: the thread calls `run` without the lock, and then
 * `done` with the lock held. Jobs run one after another. The caller keeps the job until `done` was called. */
typedef struct acl__job {
    struct acl__job *next;
    void (*run)(struct acl__job *job);
    void (*done)(struct acl__job *job);
} acl__job;

/* The runtime's own thread (engine.c). */
typedef struct acl__engine {
    pthread_t thread;
    bool running;
    bool busy; /* running a function of the user */
    bool ends;
    pthread_cond_t wake;
    acl__job *first;
    acl__job **last;
} acl__engine;

/* Functions of files above the streams and events, which hear of them. A function is set once there is something that
 * it has to hear of; before that it is NULL. */
typedef struct acl__above {
    /* consumer.c: a stream ends. Called after the user's state callbacks, without the lock. */
    void (*stream_ends)(aclrtStream handle);
    /* callback.c: a stream is deleted. */
    void (*stream_deleted)(acl__stream *stream);
    /* mem_pool.c: a stream was synchronised, even if the result is an error. */
    void (*synced)(acl__stream *stream);
    /* order.c: the host has seen all work of a stream complete, or the latest recording of an event. */
    void (*stream_seen)(const acl__stream *stream);
    void (*event_seen)(const void *event);
    /* mem_pool.c: an event was recorded on a stream; a stream was made to wait for an event's latest recording. */
    void (*recorded)(const void *event, acl__stream *stream);
    void (*waited)(acl__stream *stream, const void *event);
    /* condition.c: a graph has ended, with these conditions. */
    void (*graph_ended)(acl__condition *conditions);
} acl__above;

typedef struct acl__runtime {
    acl__config config;
    weir_sim *sim;
    weir_device *memory; /* the simulator's device table */
    acl__device devices[ACL__DEVICES];
    bool peers[ACL__DEVICES][ACL__DEVICES]; /* [a][b]: device a may touch the memory of device b (share.c) */
    weir__intervals device_memory;          /* set of acl__range: device memory, allocated or mapped */
    weir__intervals host_memory;            /* set of acl__range: memory of aclrtMallocHost */
    weir__intervals registered;             /* set of acl__range: memory of aclrtHostRegister */
    acl__stream *first_stream;              /* list of the streams of all contexts */
    uint64_t held_tasks;                    /* number of held tasks on all streams */
    pthread_cond_t changed;                 /* wakes threads that wait for a change (queue.c) */
    uint32_t waiters;                       /* number of such threads */
    acl__engine engine;
    acl__above above;
    uint64_t initialised;       /* aclInit calls minus aclFinalize calls */
    bool finalised;             /* true from aclFinalize until the next aclInit */
    uint64_t calls_before_fork; /* calls of the parent, in a child of fork; else 0 */
    bool is_cut_off;            /* a child of fork, whose parent shares the devices with other processes */
} acl__runtime;

extern acl__runtime acl__rt;

/* --- start.c --- */

/* Does the work of ACL_ENTER. The lock is not held. */
aclError acl__enter(acl__function function);
/* Starts the runtime unless it runs already. */
aclError acl__start(void);

/* --- error.c --- */

/* Records the thread's last error with a sentence (printf style) and returns the code. Needs no lock. */
aclError acl__fail(aclError code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Records an error of the public function `name`: the name and a colon come before the sentence. Needs no lock. */
aclError acl__refuse(const char *name, aclError code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Converts a status of the simulator to an error code, and records the error. Records nothing for WEIR_OK. */
aclError acl__status(weir_status status, const char *what);
/* Records and returns the error of every public function that is not simulated. Needs no lock. */
aclError acl__not_simulated(acl__function function);
/* Calls a function of the program. Errors of its own ACL calls do not replace the last error of the calling thread. The
 * lock is not held. */
void acl__errors_apart(void (*function)(void *ctx), void *ctx);
/* Gives a task that is being queued its number, and the number of the thread that queues it. */
void acl__task_name(acl__task *task);

/* --- contexts, streams and tasks --- */

struct acl__context {
    void *link;         /* used by the slab */
    acl__context *next; /* list of live contexts */
    acl__context *previous;
    int32_t device;
    uint32_t generation; /* grows when the slot is reused */
    bool live;
    acl__stream *default_stream;
    acl__stream
        *alias; /* in a device's default context: a second handle of the default stream; NULL in other contexts */
    uint32_t captures[3]; /* number of captures under way, by mode */
};

struct acl__stream {
    void *link;        /* used by the slab */
    acl__stream *next; /* list of all streams */
    acl__stream *previous;
    acl__context *context;
    weir_sim_stream *sim;
    int32_t id;
    uint32_t priority;
    uint32_t flags;
    bool live;
    bool ending; /* its destruction has begun */
    bool stop_on_failure;
    bool is_hidden;           /* a leg's stream: the program has no handle of it */
    uint32_t overflow_switch; /* value that the program has set, without effect (settings.c) */
    uint32_t user_tag;
    bool stopped;          /* accepts no more tasks */
    aclError error;        /* error of a failed task; the next wait for the stream returns it */
    uint32_t aborts;       /* number of aborts */
    acl__task *held_first; /* tasks that wait for the host, in order */
    acl__task **held_last;
    /* the held task that is in its submit function; if the task is dropped meanwhile, acl__pump ends it */
    acl__task *submitting;
    struct acl__subscription *report; /* callback.c: the thread subscribed to the stream; NULL: none */
    struct acl__subscription *host_func;
    struct acl__leg *leg;         /* the leg of the graph for which the stream is being captured; NULL: it is not */
    bool is_grouping;             /* a task group was begun and not ended, maybe in a capture that is over */
    struct acl__group *exchanges; /* the task group whose kernels are being exchanged on the stream; NULL: none */
    /* A leg's stream: the stream that executes the graph, which gets the errors of the leg's tasks; NULL: none. */
    struct acl__stream *carrier;
    int32_t carrier_id;
};

/* Result of a submit that is not an aclError: the task has to wait for an action of the host. */
#define ACL__HELD ((aclError)INT32_MAX)

/* The functions of a kind of task. A task is one piece of work queued on a stream; acl__task is the first member of the
 * structs that each file defines for its tasks. */
typedef struct acl__task_ops {
    /* Gives the task to the simulator. Called when everything before it on the stream has been given to the simulator.
     * Returns ACL__HELD if that is not possible yet; the runtime then calls it again after every change. Any other
     * error becomes the caller's, or the stream's when the caller has returned. */
    aclError (*submit)(acl__stream *stream, acl__task *task);
    /* Ends the task: called once, after it was submitted or dropped. */
    void (*end)(acl__task *task);
    /* Returns a copy of the task, which may be queued. NULL: out of memory, or this task cannot be repeated. The
     * pointer `clone` is NULL if no task of this kind can be repeated. */
    acl__task *(*clone)(const acl__task *task);
    const char *awaits; /* name of the thing that a held task waits for; NULL: such a task is never held */
} acl__task_ops;

struct acl__task {
    acl__task *next;
    const acl__task_ops *ops;
    uint32_t number; /* order of queuing in the process */
    uint32_t thread; /* number of the thread that queued it */
};

/* --- ranges.c --- */

typedef enum acl__range_kind {
    ACL__ALLOCATED, /* aclrtMalloc and its relatives */
    ACL__MAPPED,    /* aclrtMapMem */
    ACL__POOLED,    /* addresses of an aclrtMemPool; the pool knows which of them have memory and are in use */
    ACL__PINNED,    /* aclrtMallocHost */
    ACL__REGISTERED
} acl__range_kind;

/* A range of addresses: device memory, pinned host memory or registered host memory. */
struct acl__range {
    weir__interval range; /* first member */
    acl__range_kind kind;
    int32_t device;
    bool huge;         /* device memory: true if it is accounted as huge pages */
    bool is_host_side; /* mapping: the memory is on the host's side, and `device` is 0 */
    bool is_common;    /* allocated memory that is exported: the limit counts it for all its holders */
    uint32_t open_to;  /* mapping: mask of granted access; bit i stands for device i, bit 31 for the host */
    uint64_t asked_bytes;
    uint64_t serial;        /* tells a range from a later one at its address */
    uint32_t queued_copies; /* host memory: copies from or to it that the device does not have yet */
    void *owner;            /* private to the source file that added the range */
};

/* Adds an address range to a set, such as the set of all device memory. NULL: out of host memory. */
acl__range *acl__range_add(weir__intervals *set, acl__range_kind kind, uint64_t start, uint64_t size);
void acl__range_remove(weir__intervals *set, acl__range *range);
/* Returns the range of the set that contains an address, or NULL. */
acl__range *acl__range_at(const weir__intervals *set, const void *pointer);

/* --- auditor.c --- */

/* The worker is the device whose work is being given to the simulator: the auditor checks that this device may touch
 * the memory. For a copy between two devices it is enough that one of them may touch the other's memory. */
typedef struct acl__worker {
    int32_t device;
    bool copies;
} acl__worker;
/* Sets the worker (the device that works). Returns the previous worker, which the caller sets again afterwards. */
acl__worker acl__work_by(acl__worker worker);
/* For the auditor: true if the worker, the device that works, may touch the memory: its own, memory of no device, and
 * memory that peer access or aclrtMemSetAccess opened to it. */
bool acl__reaches(void *unused, const weir_sim_access *access, char *detail, size_t size);

#endif
