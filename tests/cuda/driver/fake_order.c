/* fake_order.c: the double's streams, events and captures.
 *
 * A capture keeps no graph: work queued on a stream that is being captured is dropped. The double holds the
 * program to the rules of the reference, section "Stream Management" (cuStreamBeginCapture,
 * cuThreadExchangeStreamCaptureMode).
 */
#include "fake_internal.h"

#include <stdlib.h>

static CUstream streams; /* all streams except the legacy ones; guarded by the lock */
static CUevent events;   /* guarded by the lock; events that were not destroyed end with the machine */

_Thread_local int fake_mode = CU_CAPTURE_MODE_GLOBAL;

CUstream fake_stream(CUcontext context, CUstream stream)
{
    return stream == NULL || stream == (CUstream)1 ? &context->legacy : stream;
}

static bool is_legacy(const struct CUstream_st *stream)
{
    return stream == &stream->context->legacy;
}

static weir_sim *sim_of(CUcontext context)
{
    return fake_devices[context->device].sim;
}

static weir_device *device_of(CUcontext context)
{
    return fake_devices[context->device].device;
}

/* --- captures --- */

static void break_locked(const struct CUstream_st *origin)
{
    for (CUstream one = streams; one != NULL; one = one->next) {
        if (one->capture != CU_CAPTURE_NONE && one->origin == origin) {
            one->capture = CU_CAPTURE_BROKEN;
        }
    }
}

/* True if the calling thread may make no unsafe calls because of the capture of this stream. */
static bool forbids(const struct CUstream_st *stream)
{
    const bool own = pthread_equal(stream->owner, pthread_self()) != 0;
    if (stream->capture == CU_CAPTURE_NONE || fake_mode == CU_CAPTURE_MODE_RELAXED ||
        stream->mode == CU_CAPTURE_MODE_RELAXED) {
        return false;
    }
    return own || (fake_mode == CU_CAPTURE_MODE_GLOBAL && stream->mode == CU_CAPTURE_MODE_GLOBAL);
}

CUresult fake_unsafe(void)
{
    CUresult code = CU_SUCCESS;
    (void)pthread_mutex_lock(&fake_lock);
    for (CUstream one = streams; one != NULL; one = one->next) {
        if (forbids(one)) {
            break_locked(one->origin);
            code = CU_ERROR_CAPTURE_UNSUPPORTED;
        }
    }
    (void)pthread_mutex_unlock(&fake_lock);
    return code;
}

/* Returns a captured stream that implicitly waits for this legacy stream; NULL if there is none. */
static CUstream implicit_locked(const struct CUstream_st *stream)
{
    CUstream one = is_legacy(stream) ? streams : NULL;
    while (one != NULL &&
           (one->capture == CU_CAPTURE_NONE || !one->waits_for_legacy || one->context != stream->context)) {
        one = one->next;
    }
    return one;
}

CUresult fake_take_work(CUstream stream, bool *captured)
{
    (void)pthread_mutex_lock(&fake_lock);
    const struct CUstream_st *implicit = implicit_locked(stream);
    CUresult code = CU_SUCCESS;
    if (implicit != NULL) {
        break_locked(implicit->origin);
        code = CU_ERROR_CAPTURE_IMPLICIT;
    } else if (stream->capture == CU_CAPTURE_BROKEN) {
        code = CU_ERROR_CAPTURE_INVALIDATED;
    }
    *captured = stream->capture == CU_CAPTURE_ACTIVE;
    (void)pthread_mutex_unlock(&fake_lock);
    return code;
}

/* Returns the code for a call that waits for the stream. The call invalidates a capture of the stream. */
static CUresult check_wait(CUstream stream)
{
    bool captured = false;
    CUresult code = fake_take_work(stream, &captured);
    if (captured) {
        (void)pthread_mutex_lock(&fake_lock);
        break_locked(stream->origin);
        (void)pthread_mutex_unlock(&fake_lock);
        code = CU_ERROR_CAPTURE_UNSUPPORTED;
    }
    return code;
}

static unsigned long long last_capture;

static void graph_free(struct fake_graph *graph)
{
    while (graph != NULL && graph->objects != NULL) {
        CUuserobject object = graph->objects;
        graph->objects = object->next;
        object->ended(object->data);
        free(object);
    }
    free(graph);
}

FAKE_EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
    FAKE_ENTRY();
    const int before = fake_mode;
    if (*mode < 0 || *mode > CU_CAPTURE_MODE_RELAXED) {
        return CU_ERROR_INVALID_VALUE;
    }
    fake_mode = *mode;
    *mode = before;
    return CU_SUCCESS;
}

FAKE_EXPORT CUresult cuStreamBeginCapture(CUstream stream, int mode)
{
    FAKE_ENTRY_IN(current);
    stream = fake_stream(current, stream);
    struct fake_graph *graph = calloc(1, sizeof(*graph));
    (void)pthread_mutex_lock(&fake_lock);
    const bool may = graph != NULL && !is_legacy(stream) && stream->capture == CU_CAPTURE_NONE;
    if (may) {
        stream->capture = CU_CAPTURE_ACTIVE;
        stream->mode = mode;
        stream->owner = pthread_self();
        stream->origin = stream;
        stream->graph = graph;
        graph->id = ++last_capture;
    }
    (void)pthread_mutex_unlock(&fake_lock);
    if (!may) {
        free(graph);
    }
    return may ? CU_SUCCESS : CU_ERROR_CAPTURE_UNSUPPORTED;
}

FAKE_EXPORT CUresult cuStreamEndCapture(CUstream stream, void **graph)
{
    FAKE_ENTRY();
    (void)pthread_mutex_lock(&fake_lock);
    const int was = stream->capture;
    const bool mine = was != CU_CAPTURE_NONE && stream->origin == stream;
    for (CUstream one = mine ? streams : NULL; one != NULL; one = one->next) {
        if (one != stream && one->origin == stream) {
            one->capture = CU_CAPTURE_NONE;
            one->origin = NULL;
        }
    }
    struct fake_graph *captured = mine ? stream->graph : NULL;
    if (mine) {
        stream->capture = CU_CAPTURE_NONE;
        stream->origin = NULL;
        stream->graph = NULL;
    }
    (void)pthread_mutex_unlock(&fake_lock);
    *graph = was == CU_CAPTURE_ACTIVE ? captured : NULL;
    if (*graph == NULL) {
        graph_free(captured);
    }
    return *graph != NULL ? CU_SUCCESS : CU_ERROR_CAPTURE_INVALIDATED;
}

FAKE_EXPORT CUresult cuGraphDestroy(void *graph)
{
    FAKE_ENTRY();
    graph_free(graph);
    return CU_SUCCESS;
}

FAKE_EXPORT CUresult cuUserObjectCreate(CUuserobject *object, void *data, void (*ended)(void *data),
                                        unsigned references, unsigned flags)
{
    FAKE_ENTRY();
    if (references != 1 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC || ended == NULL) {
        return CU_ERROR_INVALID_VALUE;
    }
    CUuserobject made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return CU_ERROR_OUT_OF_MEMORY;
    }
    made->ended = ended;
    made->data = data;
    *object = made;
    return CU_SUCCESS;
}

FAKE_EXPORT CUresult cuGraphRetainUserObject(void *graph, CUuserobject object, unsigned references, unsigned flags)
{
    FAKE_ENTRY();
    struct fake_graph *holder = graph;
    if (holder == NULL || object == NULL || references != 1 || flags != CU_USER_OBJECT_MOVE) {
        return CU_ERROR_INVALID_VALUE;
    }
    (void)pthread_mutex_lock(&fake_lock);
    object->next = holder->objects;
    holder->objects = object;
    (void)pthread_mutex_unlock(&fake_lock);
    return CU_SUCCESS;
}

FAKE_EXPORT CUresult cuStreamGetCaptureInfo(CUstream stream, int *status, unsigned long long *id, void **graph,
                                            const void **nodes, size_t *count)
{
    FAKE_ENTRY_IN(current);
    if (nodes != NULL || count != NULL) {
        return CU_ERROR_INVALID_VALUE; /* the double has no nodes */
    }
    stream = fake_stream(current, stream);
    (void)pthread_mutex_lock(&fake_lock);
    const bool implicit = implicit_locked(stream) != NULL;
    *status = stream->capture;
    struct fake_graph *captured = stream->capture != CU_CAPTURE_NONE ? stream->origin->graph : NULL;
    *id = captured != NULL ? captured->id : 0;
    *graph = captured;
    (void)pthread_mutex_unlock(&fake_lock);
    return implicit ? CU_ERROR_CAPTURE_IMPLICIT : CU_SUCCESS;
}

/* --- streams --- */

FAKE_EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    FAKE_ENTRY_IN(current);
    CUstream made = calloc(1, sizeof(*made));
    if (made == NULL || weir_sim_stream_create(sim_of(current), &made->sim) != WEIR_OK) {
        free(made);
        return CU_ERROR_OUT_OF_MEMORY;
    }
    made->context = current;
    made->waits_for_legacy = flags == 0;
    (void)pthread_mutex_lock(&fake_lock);
    made->next = streams;
    streams = made;
    (void)pthread_mutex_unlock(&fake_lock);
    *stream = made;
    return CU_SUCCESS;
}

FAKE_EXPORT CUresult cuStreamDestroy(CUstream stream)
{
    FAKE_ENTRY();
    (void)pthread_mutex_lock(&fake_lock);
    CUstream *link = &streams;
    while (*link != NULL && *link != stream) {
        link = &(*link)->next;
    }
    const bool known = *link != NULL;
    if (known) {
        *link = stream->next;
    }
    (void)pthread_mutex_unlock(&fake_lock);
    if (!known) {
        return CU_ERROR_INVALID_HANDLE;
    }
    const CUresult code = fake_code(weir_sim_stream_destroy(sim_of(stream->context), stream->sim));
    free(stream);
    return code;
}

void fake_end_streams(void)
{
    while (streams != NULL) {
        CUstream gone = streams;
        streams = gone->next;
        free(gone);
    }
    while (events != NULL) {
        CUevent gone = events;
        events = gone->next;
        free(gone);
    }
}

FAKE_EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    FAKE_ENTRY_IN(current);
    *context = fake_stream(current, stream)->context;
    return CU_SUCCESS;
}

FAKE_EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
    FAKE_ENTRY_IN(current);
    stream = fake_stream(current, stream);
    const CUresult code = check_wait(stream);
    return code != CU_SUCCESS ? code : fake_code(weir_device_stream_sync(device_of(stream->context), stream->sim));
}

/* --- events --- */

FAKE_EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    FAKE_ENTRY_IN(current);
    CUevent made = calloc(1, sizeof(*made));
    if (flags != CU_EVENT_DISABLE_TIMING || made == NULL ||
        weir_device_event_create(device_of(current), &made->event) != WEIR_OK) {
        free(made);
        return CU_ERROR_INVALID_VALUE;
    }
    made->context = current;
    (void)pthread_mutex_lock(&fake_lock);
    made->next = events;
    events = made;
    (void)pthread_mutex_unlock(&fake_lock);
    *event = made;
    return CU_SUCCESS;
}

FAKE_EXPORT CUresult cuEventDestroy(CUevent event)
{
    FAKE_ENTRY();
    const CUresult code = fake_code(weir_device_event_destroy(device_of(event->context), event->event));
    (void)pthread_mutex_lock(&fake_lock);
    CUevent *link = &events;
    while (*link != event) {
        link = &(*link)->next;
    }
    *link = event->next;
    (void)pthread_mutex_unlock(&fake_lock);
    free(event);
    return code;
}

FAKE_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    FAKE_ENTRY_IN(current);
    bool captured = false;
    stream = fake_stream(current, stream);
    if (stream->context != event->context) {
        return CU_ERROR_INVALID_HANDLE;
    }
    const CUresult code = fake_take_work(stream, &captured);
    if (code != CU_SUCCESS) {
        return code;
    }
    event->captured = captured ? stream->origin : NULL;
    return captured ? CU_SUCCESS
                    : fake_code(weir_device_event_record(device_of(event->context), event->event, stream->sim));
}

FAKE_EXPORT CUresult cuEventQuery(CUevent event)
{
    FAKE_ENTRY_IN(current);
    bool complete = false;
    CUresult code = fake_unsafe();
    if (code == CU_SUCCESS) {
        code = event->captured != NULL
                   ? CU_ERROR_CAPTURED_EVENT
                   : fake_code(weir_device_event_query(device_of(event->context), event->event, &complete));
    }
    return code == CU_SUCCESS && !complete ? CU_ERROR_NOT_READY : code;
}

FAKE_EXPORT CUresult cuEventSynchronize(CUevent event)
{
    FAKE_ENTRY_IN(current);
    CUresult code = fake_unsafe();
    if (code == CU_SUCCESS) {
        code = event->captured != NULL ? CU_ERROR_CAPTURED_EVENT
                                       : fake_code(weir_device_event_sync(device_of(event->context), event->event));
    }
    return code;
}

FAKE_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    FAKE_ENTRY_IN(current);
    bool captured = false;
    stream = fake_stream(current, stream);
    CUresult code = flags != 0 ? CU_ERROR_INVALID_VALUE : fake_take_work(stream, &captured);
    if (code != CU_SUCCESS) {
        return code;
    }
    (void)pthread_mutex_lock(&fake_lock);
    if (event->captured != NULL && !captured) { /* the stream joins the capture */
        stream->capture = CU_CAPTURE_ACTIVE;
        stream->mode = event->captured->mode;
        stream->owner = event->captured->owner;
        stream->origin = event->captured;
    } else if (event->captured == NULL && captured) {
        break_locked(stream->origin);
        code = CU_ERROR_CAPTURE_ISOLATION;
    }
    const bool in_graph = event->captured != NULL;
    (void)pthread_mutex_unlock(&fake_lock);
    if (code != CU_SUCCESS || in_graph) {
        return code;
    }
    /* the simulators of two devices cannot order each other, so the host waits */
    if (event->context->device != stream->context->device) {
        return fake_code(weir_device_event_sync(device_of(event->context), event->event));
    }
    return fake_code(weir_device_stream_wait_event(device_of(stream->context), stream->sim, event->event));
}

/* --- work --- */

FAKE_EXPORT CUresult fake_cuda_work(CUstream stream, uint64_t ns, CUdeviceptr address, uint64_t size,
                                    void (*ended)(void *), void *ctx)
{
    CUcontext current = fake_current();
    if (current == NULL && (stream == NULL || stream == (CUstream)1)) {
        return CU_ERROR_INVALID_CONTEXT;
    }
    bool captured = false;
    stream = current != NULL ? fake_stream(current, stream) : stream;
    const CUresult code = fake_take_work(stream, &captured);
    if (code != CU_SUCCESS || captured) {
        return code;
    }
    if (size != 0 && !fake_reachable(stream->context->device, address, size)) {
        return CU_ERROR_ILLEGAL_ADDRESS;
    }
    const weir_sim_access access = {.address = address, .size = size, .write = true};
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = ns;
    work.accesses = &access;
    work.access_count = size != 0;
    work.host_function = ended;
    work.host_ctx = ctx;
    work.tag = "kernel";
    return fake_code(weir_sim_launch(sim_of(stream->context), stream->sim, &work));
}
