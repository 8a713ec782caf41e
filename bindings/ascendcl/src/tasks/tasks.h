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

/* --- step.c: what a capture keeps --- */

typedef struct acl__graph acl__graph; /* streams/graph.c */
typedef struct acl__leg acl__leg;
typedef struct acl__step acl__step;

/* The functions of a kind of step. A step is one call that was captured; its arguments are in `args`. */
typedef struct acl__step_ops {
    const char *name;
    /* Makes the call once more, on the stream `on`, for an execution of the graph. */
    aclError (*again)(acl__stream *on, void *args);
    /* Drops the objects that the arguments hold; NULL: none. Called once, with the graph. */
    void (*end)(void *args);
    bool records; /* an event is recorded: a leg may end with such a step */
} acl__step_ops;

struct acl__step {
    acl__step *next;
    acl__leg *leg;
    const acl__step_ops *ops;
    bool is_grouped; /* a task of a task group: the program may exchange it */
    _Alignas(8) unsigned char args[];
};

/* The part of a graph that one stream was captured for. */
struct acl__leg {
    acl__leg *next;
    acl__graph *graph;
    acl__stream *from; /* the captured stream; NULL once the capture has ended */
    acl__stream *runs; /* a stream of the device's stock, on which executions queue the leg's steps */
    acl__step *last;
    struct acl__group *group; /* the task group that is open; NULL: none */
    bool is_stuck;            /* a task group has refused a task: the stream takes none any more */
};

/* A task group: kernels of a leg that the program may exchange after the capture. */
typedef struct acl__group {
    struct acl__group *next;
    acl__graph *graph;
    acl__step **steps;
    size_t count;
    size_t exchanged; /* during an update: kernels exchanged so far */
} acl__group;

/* The state of a graph. FRESH: made for a branch, and not captured yet. BROKEN: an error in the capture; only its end
 * remains. */
typedef enum acl__graph_state { ACL__FRESH, ACL__CAPTURING, ACL__BROKEN, ACL__READY } acl__graph_state;

struct acl__graph {
    acl__graph *next; /* list of all graphs */
    acl__context *context;
    uint32_t id;
    acl__graph_state state;
    aclmdlRICaptureMode mode;
    uint64_t thread; /* the number of the thread that began the capture */
    acl__leg *legs;  /* the first is the origin's, where the capture began */
    acl__leg **last_leg;
    acl__step *first; /* in the order of the calls */
    acl__step **last;
    struct acl__point *points;
    struct acl__kept *kept;
    acl__group *groups;
    uint32_t open_groups;
    aclError group_error;       /* the last error of a task group */
    acl__graph *parent;         /* of a branch: the graph with its condition */
    acl__condition *branch_of;  /* the condition with this graph as a branch; NULL: an execution starts it */
    acl__condition *conditions; /* conditions that were made for this graph */
    struct acl__farewell *farewells;
};

/* Refuses a task that the task groups of the leg's graph do not take. */
aclError acl__leg_takes(acl__leg *leg, bool is_kernel);
/* Adds a step to the capture of the stream, and copies `size` bytes of arguments. After an error the caller still owns
 * what the arguments hold. */
aclError acl__capture(acl__stream *stream, const acl__step_ops *ops, const void *args, size_t size);
/* Frees a list of steps. */
void acl__steps_end(acl__step *first);
/* Queues a task on a stream that is being captured, or on which the kernels of a task group are exchanged: the graph
 * owns the task from now on, also after an error. */
aclError acl__queue_for_graph(acl__stream *stream, acl__task *task);

/* --- launch.c --- */

/* Queues a read of a word of device memory by the stream, for the auditor: it takes no time. Lock held. */
aclError acl__read_word(acl__stream *stream, uint64_t address, uint64_t size, const char *tag);

/* A kernel, or anything that takes time on a stream. `accesses` and `tag` are copied. `compute` is called when virtual
 * time reaches the kernel's end: it may read and write device memory by its addresses, must not call the runtime, and
 * returns ACL_SUCCESS or an error for the stream. `end` is called exactly once: after `compute`, or instead of it when
 * the kernel is dropped or cannot be queued. Both may be NULL. */
typedef struct acl__kernel {
    const char *tag;
    uint64_t duration_ns;
    const weir_sim_access *accesses;
    size_t access_count;
    bool writes_host; /* `compute` may write pinned or registered host memory */
    aclError (*compute)(void *ctx);
    void (*end)(void *ctx);
    void *ctx;
    size_t ctx_bytes; /* not 0: `ctx` is one block of malloc with this size and `end` is free, so a copy will do */
} acl__kernel;

/* A captured stream takes only kernels that can run again: without `end`, or with `ctx_bytes`. */
aclError acl__launch(acl__stream *stream, const acl__kernel *kernel);
bool acl__is_kernel(const acl__task *task);

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
