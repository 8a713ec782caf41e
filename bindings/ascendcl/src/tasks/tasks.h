/* tasks.h: tasks, kernels, time, the runtime's thread, failed tasks. */
#ifndef WEIR_ASCENDCL_TASKS_H
#define WEIR_ASCENDCL_TASKS_H

#include "base/runtime.h"

/* --- queue.c: tasks and time --- */

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

/* --- exception.c --- */

/* Reports a failed task of the stream to the exception callback. A NULL task means that the failed task is not
 * known. */
void acl__exception(acl__stream *stream, const acl__task *task, aclError error);
/* Waits until the exception callback was called for all failures so far. The lock is not held. */
void acl__exceptions_report(void);

#endif
