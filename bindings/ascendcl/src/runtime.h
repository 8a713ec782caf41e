/* runtime.h: declarations shared by the files of the simulated ACL runtime, grouped by the file that defines them.
 *
 * A process has one runtime: one simulator (backed mode) with all devices in it. The runtime counts the capacity of
 * each device itself, so that events and copies work across devices and one auditor sees everything.
 *
 * One lock guards the whole runtime. Most public functions hold it from their first line to their return.
 * The functions declared here are called with the lock held unless their comment says otherwise. The simulator is only
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

#include "functions.h"
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

/* Declare `context` as the calling thread's context, and `stream` as the stream of a handle; a NULL handle names the
 * context's default stream. If the calling thread has no context, the function that uses the macro returns an error. */
#define ACL_NEED_CONTEXT(context)                                                                                      \
    acl__context *context = NULL;                                                                                      \
    ACL_TRY(acl__context_need(&(context)))
#define ACL_NEED_STREAM(stream, handle)                                                                                \
    acl__stream *stream = NULL;                                                                                        \
    ACL_TRY(acl__stream_of(handle, &(stream)))

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
 * acl__lock: the runtime's lock; acl__unlock is among the tasks (queue.c), because it first lets held tasks go on.
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
} acl__config;

typedef struct acl__device {
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
    /* mem_pool.c: an event was recorded on a stream; a stream was made to wait for an event's latest recording. */
    void (*recorded)(const void *event, acl__stream *stream);
    void (*waited)(acl__stream *stream, const void *event);
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

/* --- exception.c --- */

/* Reports a failed task of the stream to the exception callback. A NULL task means that the failed task is not
 * known. */
void acl__exception(acl__stream *stream, const acl__task *task, aclError error);
/* Waits until the exception callback was called for all failures so far. The lock is not held. */
void acl__exceptions_report(void);

/* --- context.c, device.c --- */

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
};

/* Returns the calling thread's context, or NULL. */
acl__context *acl__context_current(void);
/* Stores the calling thread's context. Fails with ACL_ERROR_RT_CONTEXT_NULL if there is none. */
aclError acl__context_need(acl__context **context);
/* Makes a context, or none, the calling thread's context. */
void acl__context_make_current(acl__context *context);
/* device.c: true if the handle is a live context. */
bool acl__context_is(const void *handle);

/* --- stream.c --- */

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
    struct acl__capture *capture; /* capture.c: the capture that is under way on the stream; NULL: none */
};

/* Find the stream of a handle; NULL stands for the current context's default stream. acl__stream_of is for queuing: the
 * stream's context must be current. acl__stream_any is for waits and queries: any context must be current. */
aclError acl__stream_of(aclrtStream handle, acl__stream **stream);
aclError acl__stream_any(aclrtStream handle, acl__stream **stream);
/* Waits until all work of the stream is complete, for at most `timeout_ms` (-1: no limit). Releases the lock while it
 * waits. Returns a task's error and clears it. */
aclError acl__stream_wait(acl__stream *stream, int64_t timeout_ms);
/* Drops all work of the stream that is not complete. */
void acl__stream_drop(acl__stream *stream);
aclError acl__stream_create(acl__context *context, uint32_t priority, uint32_t flags, acl__stream **stream);
/* Makes a second handle of the context's default stream. It stands for the stream that the vendor's runtime makes for
 * itself at the first use of a device: the program's callbacks hear of its creation, but not of its end. */
aclError acl__stream_create_alias(acl__context *context, acl__stream **alias);
/* Implements aclrtCreateStreamWithConfig for the public function `name`. The lock is not held. */
aclError acl__stream_create_with(aclrtStream *stream, uint32_t priority, uint32_t flags, const char *name);
/* listener.c: functions that the program registers under a name, in lists. A NULL function removes the entry of that
 * name. */
typedef struct acl__listener acl__listener;
typedef struct acl__listener_call {
    void (*function)(void); /* of another type */
    void *args;
} acl__listener_call;
enum { ACL__LISTENERS = 64 }; /* most that are called */
aclError acl__listener_set(acl__listener **list, const char *name, acl__listener_call call);
/* Copies the functions of a listener list with their arguments, and returns their number. The lock is not held. */
size_t acl__listeners_copy(acl__listener *const *list, acl__listener_call copies[ACL__LISTENERS]);

/* Calls the user's state callbacks for a new stream. The lock is not held. */
void acl__stream_announce_created(acl__stream *stream);
/* Destroys all streams of a context that no other thread can reach any more. With `force`, drops their remaining work
 * instead of waiting for it. Releases the lock during the call. */
void acl__streams_end_of(acl__context *context, bool force);
/* Waits for all streams of a device. */
aclError acl__device_wait(int32_t device, int64_t timeout_ms);
/* --- queue.c: tasks and time --- */

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
    bool is_mark;       /* true: the task has no effect of its own, and a capture may leave it out */
    const char *awaits; /* name of the thing that a held task waits for; NULL: such a task is never held */
} acl__task_ops;

struct acl__task {
    acl__task *next;
    const acl__task_ops *ops;
    uint32_t number; /* order of queuing in the process */
    uint32_t thread; /* number of the thread that queued it */
};

/* Queues a task. The stream owns the task from now on, also after an error. */
aclError acl__queue(acl__stream *stream, acl__task *task);
/* Ends each task of a list. */
void acl__tasks_end(acl__task *first);
/* Handles a failed task. The stream's failure mode decides if the later tasks still run, or if the work of all streams
 * of the context is dropped. */
void acl__stream_fail(acl__stream *stream, const acl__task *task, aclError error);
/* Forgets that the stream was aborted: the next synchronisation does not return the abort. */
void acl__stream_forget_abort(acl__stream *stream);

/* A capture of a stream's work (capture.c). acl__queue adds a copy of each task that is queued on the stream. After the
 * capture has ended, it is the object behind an aclmdlRI. */
typedef struct acl__capture {
    struct acl__capture *next; /* list of instances */
    acl__task *first;          /* the captured tasks in order; an execution queues copies of them */
    acl__task **last;
    aclmdlRICaptureMode mode;
    pthread_t thread;
    const char *flaw; /* reason why the captured work cannot be executed again; NULL: it can */
} acl__capture;
void acl__capture_free(acl__capture *capture);

/* Charges 1 us of host time for a query of progress. Queries of a thread that queues nothing in between become more
 * expensive, as if the thread slept between them: each costs at most 1/64 of the time since the first of them, and
 * never moves time beyond the next end of a stream's work. */
void acl__ask(void);

/* True if virtual time has reached the end of all work that the stream has given to the simulator. */
bool acl__has_arrived(const acl__stream *stream);
/* Submits the held tasks of all streams, as far as possible. */
void acl__pump(void);
/* Ends all held tasks of a stream. */
void acl__queue_drop(acl__stream *stream);
/* After a possible change: submits held tasks that can go on, and wakes waiting threads. Called by acl__unlock. */
void acl__changed(void);

/* The end of a wait of the host: a virtual time and a real time, whichever comes first. */
typedef struct acl__deadline {
    uint64_t virtual_ns;
    struct timespec real;
    bool is_set;
} acl__deadline;

/* Returns the next time after `now` at which a stream's work ends; UINT64_MAX: no work is under way. */
uint64_t acl__next_end(uint64_t now);
acl__deadline acl__deadline_in(int64_t timeout_ms);
/* Does one step of waiting. Lets virtual time pass to `target_ns` (0: to the next end of any stream's work). If no work
 * is under way, releases the lock until something changes. Returns false once the deadline has passed. */
bool acl__wait_step(uint64_t target_ns, const acl__deadline *deadline);

/* Tells the auditor that the host now knows all work of the stream to be complete. */
void acl__host_saw(acl__stream *stream);

/* --- launch.c --- */

/* A kernel, or anything that takes time on a stream. `accesses` and `tag` are copied. `compute` is called when virtual
 * time reaches the kernel's end: it may read and write device memory by its addresses, must not call the runtime, and
 * returns ACL_SUCCESS or an error for the stream. `end` is called exactly once: after `compute`, or instead of it when
 * the kernel is dropped or cannot be queued. Both may be NULL. */
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

/* --- engine.c --- */

/* Queues a job. ACL_ERROR_RT_RESOURCE_ALLOC_FAIL: no thread can be created. */
aclError acl__engine_post(acl__job *job);
/* Starts the runtime's own thread, because the program may now wait for the device without calling the runtime.
 * Afterwards time also passes while no call is made. */
aclError acl__engine_need(void);
/* Ends the runtime's own thread; no job runs on it afterwards. The lock is not held. */
void acl__engine_stop(void);

/* --- control.c --- */

/* Queues a kernel as weir_ascendcl_launch does. The lock is not held. */
struct weir_ascendcl_kernel;
aclError acl__launch_described(aclrtStream stream, const struct weir_ascendcl_kernel *kernel);

/* --- event.c --- */

/* One recording of an event on a stream. */
struct acl__record {
    void *link; /* used by the slab */
    weir_event *sim;
    uint32_t references;
    bool submitted; /* the simulator has recorded it */
    bool dropped;   /* the stream was dropped before the recording was submitted */
    /* true: the event was reset; a stream that reaches a wait for this recording at reset_ns or later stops for ever */
    bool is_reset;
    uint64_t time_ns; /* virtual time at which the recording is complete; valid once `submitted` is true */
    uint64_t reset_ns;
    uint64_t waits_begin_ns; /* latest virtual time at which a stream begins to wait for this recording */
};

/* Queues a recording at the stream's end, for other streams to wait for. NULL: out of memory (error noted). The caller
 * releases the recording. */
acl__record *acl__record_queue(acl__stream *stream, aclError *error);
void acl__record_release(acl__record *record);
/* Queues a wait: later work of the stream begins only after the recording is complete. */
aclError acl__record_wait_queue(acl__stream *stream, acl__record *record);
/* Makes the stream wait for a recording, from inside another task's submit. Returns ACL__HELD while the recording is
 * not submitted. */
aclError acl__record_join(acl__stream *stream, acl__record *record);

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
    uint32_t open_to;  /* mapping: mask of granted access; bit i stands for device i, bit 31 for the host */
    uint64_t asked_bytes;
    void *owner; /* private to the source file that added the range */
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

/* Tell the auditor that an allocator handed out a block of memory, or got it back, in the order of the stream. */
void acl__announce_alloc(const void *pointer, uint64_t size, acl__stream *stream, const char *tag);
void acl__announce_free(const void *pointer, acl__stream *stream, const char *tag);

/* --- store.c: the memory of the devices --- */

enum { ACL__HUGE_PAGE = 2 << 20, ACL__NORMAL_PAGE = 4096, ACL__HUGE_THRESHOLD = 1 << 20 };

/* Counts bytes against a device's capacity. Returns false if they do not fit. */
bool acl__capacity_take(int32_t device, uint64_t bytes, bool huge);
void acl__capacity_give(int32_t device, uint64_t bytes, bool huge);
/* Returns the bytes of a device that nothing holds. */
uint64_t acl__capacity_free(const acl__device *device);

/* The kinds of pages of aclrtMalloc. */
typedef enum acl__kind { ACL__HUGE, ACL__NORMAL, ACL__HUGE_P2P, ACL__NORMAL_P2P, ACL__KINDS } acl__kind;
static inline bool acl__kind_is_huge(acl__kind kind)
{
    return kind == ACL__HUGE || kind == ACL__HUGE_P2P;
}

/* aclrtMalloc without its padding, for the runtime's own use. */
aclError acl__malloc(int32_t device, uint64_t size, aclrtMemMallocPolicy policy, void **pointer);
/* Frees memory of acl__malloc. Returns ACL_ERROR_RT_PARAM_INVALID for any other address. */
aclError acl__free(void *pointer);
/* Frees all memory that a device still holds, and counts it in the report. */
void acl__memory_reset(int32_t device);
/* Returns the memory that the driver keeps to the device. */
void acl__memory_return(int32_t device);

/* --- host.c: pinned and registered host memory --- */

/* True if a range is pinned or registered host memory. An asynchronous copy may touch such memory after its call. */
bool acl__is_pinned(const void *pointer, uint64_t size);
/* Counts bytes against the host's limit. Returns false if they do not fit. */
bool acl__host_take(uint64_t bytes);
void acl__host_give(uint64_t bytes);
/* Frees memory of aclrtMallocHost. */
aclError acl__host_free(void *pointer);

/* --- virtual.c, mem_pool.c --- */

bool acl__virtual_is_reserved(const void *pointer);
void acl__virtual_reset(int32_t device);
/* Frees a pool's block by its address, for aclrtFree. Returns false if the address is in no pool. */
bool acl__mem_pool_free_now(void *pointer, aclError *error);
/* Finds the allocated block of a memory pool that contains an address. Returns false if there is none. */
bool acl__mem_pool_block_at(const void *pointer, uint64_t *start, uint64_t *size);
void acl__mem_pool_reset(int32_t device);

/* --- copy.c --- */

/* Implements aclrtMemcpy and its relatives, for all functions that copy. `name` is the name of the public function, for
 * messages. */
aclError acl__copy_now(void *to, const void *from, uint64_t size, const char *name);
aclError acl__copy_async(void *to, const void *from, uint64_t size, acl__stream *stream, const char *name);
aclError acl__set_now(void *to, uint8_t value, uint64_t size, const char *name);
aclError acl__set_async(void *to, uint8_t value, uint64_t size, acl__stream *stream, const char *name);

/* --- registry.c: allocators registered for streams --- */

/* The members of an allocator description: the object that an aclrtAllocatorDesc points to begins with these words. */
typedef struct acl__allocator {
    aclrtAllocator object;
    aclrtAllocatorAllocFunc alloc;
    aclrtAllocatorFreeFunc free;
    aclrtAllocatorAllocAdviseFunc advise;
    aclrtAllocatorGetAddrFromBlockFunc address;
} acl__allocator;

/* Copies the allocator registered for a stream. Returns false if there is none. Does not take the runtime's lock. */
bool acl__allocator_of(aclrtStream stream, acl__allocator *allocator);
bool acl__allocator_is_registered(aclrtStream stream);
/* Registers what an allocator description contains for a stream. ACL_ERROR_BAD_ALLOC: no host memory. */
aclError acl__registry_put(aclrtStream stream, aclrtAllocatorDesc desc);
void acl__registry_remove(aclrtStream stream);

/* --- notify.c --- */

/* Ends all notifies of a device. */
void acl__notify_reset(int32_t device);

#endif
