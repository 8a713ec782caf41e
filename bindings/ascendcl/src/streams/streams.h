/* streams.h: contexts, streams, events, registered allocators. */
#ifndef WEIR_ASCENDCL_STREAMS_H
#define WEIR_ASCENDCL_STREAMS_H

#include "tasks/tasks.h"

/* --- context.c --- */

/* Returns the calling thread's context, or NULL. */
acl__context *acl__context_current(void);
/* Stores the calling thread's context. Fails with ACL_ERROR_RT_CONTEXT_NULL if there is none. */
aclError acl__context_need(acl__context **context);
/* Makes a context, or none, the calling thread's context. */
void acl__context_make_current(acl__context *context);

/* Declare `context` as the calling thread's context, and `stream` as the stream of a handle; a NULL handle names the
 * context's default stream. If the calling thread has no context, the function that uses the macro returns an error. */
#define ACL_NEED_CONTEXT(context)                                                                                      \
    acl__context *context = NULL;                                                                                      \
    ACL_TRY(acl__context_need(&(context)))
#define ACL_NEED_STREAM(stream, handle)                                                                                \
    acl__stream *stream = NULL;                                                                                        \
    ACL_TRY(acl__stream_of(handle, &(stream)))

/* --- stream.c --- */

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
/* Calls the user's state callbacks for a new stream. The lock is not held. */
void acl__stream_announce_created(acl__stream *stream);
/* Destroys all streams of a context that no other thread can reach any more. With `force`, drops their remaining work
 * instead of waiting for it. Releases the lock during the call. */
void acl__streams_end_of(acl__context *context, bool force);
/* Ends a stream that the program has no handle of, and the rest of its work. */
void acl__stream_end_now(acl__stream *stream);
/* Refuses a stream that is being captured. */
aclError acl__stream_check_free(const acl__stream *stream);
/* Waits for all streams of a device. */
aclError acl__device_wait(int32_t device, int64_t timeout_ms);

/* --- listener.c --- */

/* Functions that the program registers under a name, in lists. A NULL function removes the entry of that name. */
typedef struct acl__listener acl__listener;
typedef struct acl__listener_call {
    void (*function)(void); /* of another type */
    void *args;
} acl__listener_call;
enum { ACL__LISTENERS = 64 }; /* most that are called */
aclError acl__listener_set(acl__listener **list, const char *name, acl__listener_call call);
/* Copies the functions of a listener list with their arguments, and returns their number. The lock is not held. */
size_t acl__listeners_copy(acl__listener *const *list, acl__listener_call copies[ACL__LISTENERS]);

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
/* Makes a recording that is not queued yet, and queues it. NULL: out of memory (error noted). */
acl__record *acl__record_new(void);
aclError acl__record_queue_as(acl__stream *stream, acl__record *record);
/* Records at once, from inside another task's submit. */
acl__record *acl__record_now(acl__stream *stream);
/* Queues a wait: later work of the stream begins only after the recording is complete. */
aclError acl__record_wait_queue(acl__stream *stream, acl__record *record);
/* Makes the stream wait for a recording, from inside another task's submit. Returns ACL__HELD while the recording is
 * not submitted. */
aclError acl__record_join(acl__stream *stream, acl__record *record);

/* --- graph.c: captures --- */

/* A recording of an event in a capture. */
typedef struct acl__point {
    struct acl__point *next;
    acl__leg *leg;             /* the leg that records it */
    struct acl__point **owner; /* the event's own pointer to its latest point; NULL: the event is destroyed, or the
                                * capture has ended */
    acl__record *record;       /* the recording of the last execution */
    bool is_recorded;          /* false: the recording failed, and so did the capture */
    bool is_awaited;
    bool origin_waits; /* the stream that the capture began on waits for another leg's point */
} acl__point;

/* A block that an allocator handed out for a captured stream. An execution of the graph touches it again. */
typedef struct acl__kept {
    struct acl__kept *next;
    struct acl__graph *graph;
    uint64_t address;
    uint64_t size;
    bool live;      /* the allocator has not got it back */
    bool replayed;  /* an execution has announced it */
    bool followed;  /* a later block of the graph has a part of its memory */
    bool displaced; /* live; an execution has given its memory to an earlier block of the graph */
    char tag[48];
} acl__kept;

/* Sets the mode of the calling thread, and returns the mode before. */
aclmdlRICaptureMode acl__capture_exchange_mode(aclmdlRICaptureMode mode);
/* True if the calling thread may not copy or set memory synchronously, because of a capture. */
bool acl__capture_forbids(const acl__context *context);

acl__graph *acl__graph_new(acl__context *context);
aclError acl__graph_of(const void *handle, acl__graph **graph);
/* Returns the first graph; NULL: there is none. */
const acl__graph *acl__graph_first(void);
/* Returns the task group of a handle; NULL: it is none of a live graph. */
acl__group *acl__group_find(const void *handle);
/* Ends a graph, and drops the rest of its executions. */
void acl__graph_free(acl__graph *graph);
/* Register a function that is called when the graph has been destroyed, in the order of their registration; end a
 * registration. Each function at most once a graph. */
aclError acl__graph_add_farewell(acl__graph *graph, aclrtCallback function, void *data);
aclError acl__graph_remove_farewell(acl__graph *graph, aclrtCallback function);
/* Give up the captures of a context, and end its graphs. */
void acl__captures_end_of(const acl__context *context);
void acl__graphs_end_of(const acl__context *context);
void acl__graphs_end_of(const acl__context *context);
/* True if an execution is not over. */
bool acl__graph_is_running(const acl__graph *graph);
/* Marks the capture of a graph as failed. */
void acl__graph_spoil(acl__graph *graph);

/* Begins to capture a stream into a new graph (NULL) or into a branch. */
aclError acl__capture_begin(acl__stream *stream, aclmdlRICaptureMode mode, acl__graph *into);
/* Ends the capture of a captured stream. After an error there is no graph. */
aclError acl__capture_end(acl__stream *stream, acl__graph **graph);
/* Captures the recording of an event; *place is the event's latest point. */
aclError acl__capture_record(acl__stream *stream, acl__point **place);
/* Captures a wait for a point, and takes the stream into the capture. */
aclError acl__capture_wait(acl__stream *stream, acl__point *point);
/* Forgets an event that is destroyed. */
void acl__capture_forget(acl__point **place);

/* Queues an execution of a graph on a stream. */
aclError acl__graph_execute(acl__graph *graph, acl__stream *stream);
/* Queues the steps of a graph behind the recording `after`. Errors are the carrier's. The caller releases *end, the
 * recording of the end. */
aclError acl__graph_run(acl__graph *graph, acl__stream *carrier, acl__record *after, acl__record **end);

/* Tell the auditor that an allocator handed out a block of memory, or got it back, in the order of the stream. On a
 * captured stream each execution of the graph hands the block out again. */
void acl__announce_alloc(const void *pointer, uint64_t size, acl__stream *stream, const char *tag);
void acl__announce_free(const void *pointer, acl__stream *stream, const char *tag);

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

#endif
