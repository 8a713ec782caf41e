/* stream.c: creation and end of streams, and waits for them.
 *
 * A stream is a queue of the simulator and, in front of it, a list of the tasks that wait for the host (queue.c). The
 * handle of a destroyed stream is not used again for some time, so a program that still uses it is refused. With
 * WEIR_ASCENDCL_HANDLE_REST=0 the next stream gets the handle, as may happen on the vendor's runtime. This exposes a
 * program that keeps state by handle and forgets to drop it.
 */
#include "streams/streams.h"

#include "base/report.h"

#include <stdlib.h>
#include <string.h>

static weir__slab slab = WEIR__SLAB_INIT(acl__stream, 0, 16);
static uint32_t stream_count;
static int32_t last_id;

/* --- state callbacks --- */

static acl__listener *listeners;

static void announce(aclrtStream handle, aclrtStreamState state)
{
    acl__listener_call calls[ACL__LISTENERS];
    const size_t count = acl__listeners_copy(&listeners, calls);
    for (size_t i = 0; i < count; i++) {
        ((aclrtStreamStateCallback)calls[i].function)(handle, state, calls[i].args);
    }
}

void acl__stream_announce_created(acl__stream *stream)
{
    announce(stream, ACL_RT_STREAM_STATE_CREATE_POST);
}

/* Calls the program's state callbacks; the lock is released meanwhile. */
static void announce_end(acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__unlock();
    announce(stream, ACL_RT_STREAM_STATE_DESTROY_PRE);
    acl__lock();
}

ACL_EXPORT aclError aclrtRegStreamStateCallback(const char *regName, aclrtStreamStateCallback callback, void *args)
{
    ACL_ENTER_LOCKED(aclrtRegStreamStateCallback);
    ACL_REFUSE_IF(regName == NULL, ACL_ERROR_INVALID_PARAM, "the name is NULL");
    return acl__listener_set(&listeners, regName, (acl__listener_call){(void (*)(void))callback, args});
}

/* --- create and destroy --- */

aclError acl__stream_create(acl__context *context, uint32_t priority, uint32_t flags, acl__stream **out)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(context->live);
    ACL_FAIL_IF(stream_count >= acl__rt.config.stream_limit, ACL_ERROR_RT_NO_STREAM_RESOURCE,
                "the device has %u streams and no more", acl__rt.config.stream_limit);
    acl__stream *stream = weir__slab_get(&slab);
    weir_sim_stream *sim = NULL;
    if (stream == NULL || weir_sim_stream_create(acl__rt.sim, &sim) != WEIR_OK) {
        if (stream != NULL) {
            weir__slab_put(&slab, stream);
        }
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a stream");
    }
    memset(stream, 0, sizeof(*stream));
    stream->context = context;
    stream->sim = sim;
    stream->id = last_id++;
    stream->priority = priority;
    stream->flags = flags;
    stream->live = true;
    stream->held_last = &stream->held_first;
    ACL_LIST_ADD(acl__rt.first_stream, stream);
    stream_count++;
    if (acl__allocator_is_registered(stream)) {
        acl__report_warning(
            "a new stream has the handle of one that was destroyed while an allocator was registered for "
            "it, and inherits that registration");
    }
    *out = stream;
    return ACL_SUCCESS;
}

aclError acl__stream_create_alias(acl__context *context, acl__stream **out)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(context->default_stream != NULL && context->alias == NULL);
    acl__stream *alias = weir__slab_get(&slab);
    ACL_FAIL_IF(alias == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a stream");
    memset(alias, 0, sizeof(*alias));
    alias->context = context;
    alias->id = context->default_stream->id;
    alias->live = true;
    *out = alias;
    return ACL_SUCCESS;
}

/* Deletes a stream that no thread can reach any more and that has no work left. */
static void stream_delete(acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(stream->live && stream_count > 0);
    if (acl__rt.above.stream_deleted != NULL) {
        acl__rt.above.stream_deleted(stream);
    }
    WEIR_ASSERT(stream->leg == NULL);
    acl__queue_drop(stream);
    WEIR_ASSERT(stream->held_first == NULL && stream->report == NULL && stream->host_func == NULL);
    (void)weir_sim_stream_destroy(acl__rt.sim, stream->sim);
    ACL_LIST_REMOVE(acl__rt.first_stream, stream);
    stream->live = false;
    stream_count--;
    weir__slab_retire(&slab, stream, acl__rt.config.handle_rest);
}

void acl__stream_end_now(acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__stream_drop(stream);
    stream_delete(stream);
}

aclError acl__stream_check_free(const acl__stream *stream)
{
    ACL_FAIL_IF(stream->leg != NULL, ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is being captured", stream->id);
    return ACL_SUCCESS;
}

/* Ends a stream: tells the program's callbacks if `announces`, waits for the stream's work or drops it, deletes the
 * stream. The caller holds the lock; the function releases it during its calls and waits. */
static aclError stream_end(acl__stream *stream, bool force, bool announces)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(stream->ending);
    const int32_t id = stream->id;
    if (announces) {
        announce_end(stream);
    }
    void (*const stream_ends)(aclrtStream handle) = acl__rt.above.stream_ends;
    acl__unlock();
    if (stream_ends != NULL) {
        stream_ends(stream);
    }
    acl__lock();
    aclError error = ACL_SUCCESS;
    if (force) {
        acl__stream_drop(stream);
    } else {
        error = acl__stream_wait(stream, -1);
    }
    ACL_FAIL_IF(!stream->live || stream->id != id, ACL_ERROR_RT_STREAM_CONTEXT,
                "the stream was destroyed by another thread meanwhile");
    stream_delete(stream);
    return error;
}

/* As in the vendor's runtime, the program's callbacks hear first of the end of the default stream. For a context of
 * aclrtCreateContext they hear of it a second time, before that stream is deleted. */
void acl__streams_end_of(acl__context *context, bool force)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(!context->live);
    acl__stream *first = context->default_stream;
    acl__captures_end_of(context);
    first->ending = true;
    announce_end(first);
    for (acl__stream *stream = acl__rt.first_stream; stream != NULL;) {
        if (stream->context == context && !stream->ending && !stream->is_hidden) {
            stream->ending = true;
            (void)stream_end(stream, force, true);
            stream = acl__rt.first_stream; /* start again: the list may have changed while the lock was released */
        } else {
            stream = stream->next;
        }
    }
    (void)stream_end(first, force, context->alias == NULL);
    acl__graphs_end_of(context);
    if (context->alias != NULL) {
        context->alias->live = false;
        weir__slab_retire(&slab, context->alias, acl__rt.config.handle_rest);
    }
}

static bool is_stream(const void *handle)
{
    WEIR_ASSERT_HELD(acl__mutex());
    return weir__slab_owns(&slab, handle) && ((const acl__stream *)handle)->live;
}

static bool is_alias(const acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    return stream->context->alias == stream;
}

aclError acl__stream_any(aclrtStream handle, acl__stream **stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    ACL_FAIL_IF(handle != NULL && !is_stream(handle), ACL_ERROR_RT_INVALID_HANDLE, "%p is not a live stream", handle);
    ACL_NEED_CONTEXT(context);
    acl__stream *named = handle;
    *stream = named == NULL ? context->default_stream : is_alias(named) ? named->context->default_stream : named;
    WEIR_ASSERT((*stream)->sim != NULL);
    return ACL_SUCCESS;
}

aclError acl__stream_of(aclrtStream handle, acl__stream **stream)
{
    const aclError error = acl__stream_any(handle, stream);
    if (error != ACL_SUCCESS || (*stream)->context == acl__context_current()) {
        return error;
    }
    return acl__fail(ACL_ERROR_RT_STREAM_CONTEXT, "stream %d does not belong to this thread's context", (*stream)->id);
}

static aclError create(aclrtStream *handle, uint32_t priority, uint32_t flags, const char *name)
{
    ACL_FAIL_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "%s: stream is NULL", name);
    acl__context *context = NULL;
    acl__stream *stream = NULL;
    {
        ACL_HOLD_LOCK();
        ACL_TRY(acl__context_need(&context));
        ACL_TRY(acl__stream_create(context, priority, flags, &stream));
    }
    *handle = stream;
    acl__stream_announce_created(stream);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtCreateStream(aclrtStream *stream)
{
    ACL_ENTER(aclrtCreateStream);
    return create(stream, 0, 0, __func__);
}

/* A priority beyond the range is clamped, and unknown flags are ignored. */
aclError acl__stream_create_with(aclrtStream *stream, uint32_t priority, uint32_t flags, const char *name)
{
    enum {
        LEAST_PRIORITY = 7,
        ALL_FLAGS = ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC | ACL_STREAM_PERSISTENT | ACL_STREAM_HUGE |
                    ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY
    };
    const uint32_t known = flags & (uint32_t)ALL_FLAGS;
    const uint32_t in_range = priority <= LEAST_PRIORITY ? priority : priority <= INT32_MAX ? LEAST_PRIORITY : 0;
    ACL_FAIL_IF(stream != NULL && (known & ACL_STREAM_DEVICE_USE_ONLY) != 0 && known != ACL_STREAM_DEVICE_USE_ONLY,
                ACL_ERROR_RT_PARAM_INVALID, "%s: ACL_STREAM_DEVICE_USE_ONLY goes with no other flag", name);
    return create(stream, in_range, known, name);
}

ACL_EXPORT aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag)
{
    ACL_ENTER(aclrtCreateStreamWithConfig);
    return acl__stream_create_with(stream, priority, flag, __func__);
}

/* The vendor's runtime destroys a context's default stream too, and later work without a stream then goes to a stream
 * that is gone. Here the stream stays. */
static aclError destroy_default(acl__stream *stream, bool force, const char *name)
{
    WEIR_ASSERT_HELD(acl__mutex());
    ACL_FAIL_IF(acl__rt.config.strict, ACL_ERROR_RT_PARAM_INVALID, "%s: a context's default stream ends with it", name);
    acl__report_warning(
        "a context's default stream was destroyed by its handle: on a device, later work of the context "
        "without a stream is undefined");
    if (force) {
        acl__stream_drop(stream);
        return ACL_SUCCESS;
    }
    return acl__stream_wait(stream, -1);
}

static aclError destroy(aclrtStream handle, bool force, const char *name)
{
    ACL_FAIL_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "%s: stream is NULL", name);
    ACL_HOLD_LOCK();
    ACL_NEED_STREAM(stream, handle);
    if (stream->context->default_stream == stream) {
        return destroy_default(stream, force, name);
    }
    ACL_FAIL_IF(stream->ending, ACL_ERROR_RT_INVALID_HANDLE, "%s: stream %d is being destroyed already", name,
                stream->id);
    ACL_TRY(acl__stream_check_free(stream));
    stream->ending = true;
    acl__stream_forget_abort(stream);
    return stream_end(stream, force, true);
}

ACL_EXPORT aclError aclrtDestroyStream(aclrtStream stream)
{
    ACL_ENTER(aclrtDestroyStream);
    return destroy(stream, false, __func__);
}

ACL_EXPORT aclError aclrtDestroyStreamForce(aclrtStream stream)
{
    ACL_ENTER(aclrtDestroyStreamForce);
    return destroy(stream, true, __func__);
}

/* --- failure --- */

/* Drops the queued work of a stream: breaks the simulator's stream behind it and puts a fresh one in its place. */
void acl__stream_drop(acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    weir_sim_stream *fresh = NULL;
    acl__queue_drop(stream);
    (void)weir_sim_stream_break(acl__rt.sim, stream->sim);
    (void)weir_device_stream_sync(acl__rt.memory, stream->sim);
    if (weir_sim_stream_create(acl__rt.sim, &fresh) == WEIR_OK) {
        (void)weir_sim_stream_destroy(acl__rt.sim, stream->sim);
        stream->sim = fresh;
    }
}

static aclError take_error(acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const aclError error = stream->error;
    if (!stream->stopped) {
        stream->error = ACL_SUCCESS;
    }
    return error;
}

ACL_EXPORT aclError aclrtSetStreamFailureMode(aclrtStream handle, uint64_t mode)
{
    ACL_ENTER_LOCKED(aclrtSetStreamFailureMode);
    const bool stop = (mode & ACL_STOP_ON_FAILURE) != 0; /* the vendor checks no other bit */
    ACL_NEED_STREAM(stream, handle);
    ACL_REFUSE_IF(stream->stop_on_failure && !stop, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                  "a stream that stops on failure stays so");
    stream->stop_on_failure = stop;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtStreamAbort(aclrtStream handle)
{
    ACL_ENTER_LOCKED(aclrtStreamAbort);
    ACL_NEED_STREAM(stream, handle);
    ACL_REFUSE_IF(acl__rt.config.old_driver, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "an old driver cannot abort a stream");
    acl__stream_drop(stream);
    stream->error = ACL_ERROR_RT_STREAM_ABORT;
    stream->aborts++;
    return ACL_SUCCESS;
}

/* --- waits --- */

static uint64_t tail_of(const acl__stream *stream)
{
    return weir_sim_stream_tail(acl__rt.sim, stream->sim);
}

static bool is_idle(const acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    return stream->held_first == NULL && tail_of(stream) <= weir_sim_now(acl__rt.sim);
}

/* Returns the virtual time up to which a wait for the stream may advance the clock: the end of the stream's work, or 0
 * while it has held tasks. */
static uint64_t target_of(const acl__stream *stream)
{
    return stream->held_first == NULL ? tail_of(stream) : 0;
}

static void tell_seen(const acl__stream *stream)
{
    if (acl__rt.above.stream_seen != NULL) {
        acl__rt.above.stream_seen(stream);
    }
}

/* Tells the auditor and the pools that the host has seen all of the stream's work complete. Returns a task's error and
 * clears it. */
static aclError saw_end(acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const weir_status status = weir_device_stream_sync(acl__rt.memory, stream->sim);
    aclError error = take_error(stream);
    if (error == ACL_SUCCESS) {
        error = acl__status(status, "synchronising a stream");
    } else {
        (void)acl__fail(error, "a task of stream %d failed", stream->id);
    }
    tell_seen(stream);
    if (acl__rt.above.synced != NULL) {
        acl__rt.above.synced(stream);
    }
    return error;
}

aclError acl__stream_wait(acl__stream *stream, int64_t timeout_ms)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(stream->live);
    const acl__deadline deadline = acl__deadline_in(timeout_ms);
    const int32_t id = stream->id;
    const uint32_t aborts = stream->aborts;
    while (!is_idle(stream)) {
        ACL_FAIL_IF(!acl__wait_step(target_of(stream), &deadline), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                    "stream %d has unfinished work after %lld ms", id, (long long)timeout_ms);
        ACL_FAIL_IF(!stream->live || stream->id != id, ACL_ERROR_RT_STREAM_CONTEXT,
                    "stream %d was destroyed while it was waited for", id);
    }
    if (stream->aborts != aborts && stream->error == ACL_SUCCESS) {
        /* an abort during the wait is reported, even if new work was queued after it */
        stream->error = ACL_ERROR_RT_STREAM_ABORT;
    }
    return saw_end(stream);
}

/* Returns a stream of the device that has unfinished work, or NULL. */
static acl__stream *unfinished(int32_t device)
{
    acl__stream *stream = acl__rt.first_stream;
    while (stream != NULL && (stream->context->device != device || is_idle(stream))) {
        stream = stream->next;
    }
    return stream;
}

aclError acl__device_wait(int32_t device, int64_t timeout_ms)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const acl__deadline deadline = acl__deadline_in(timeout_ms);
    aclError first = ACL_SUCCESS;
    acl__pump();
    for (const acl__stream *stream = unfinished(device); stream != NULL; stream = unfinished(device)) {
        ACL_FAIL_IF(!acl__wait_step(target_of(stream), &deadline), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                    "device %d has unfinished work after %lld ms", device, (long long)timeout_ms);
    }
    for (acl__stream *stream = acl__rt.first_stream; stream != NULL; stream = stream->next) {
        const aclError error = stream->context->device == device ? saw_end(stream) : ACL_SUCCESS;
        first = first == ACL_SUCCESS ? error : first;
    }
    return first;
}

/* True if the host does not drive the stream, as its flags say. The vendor's synchronisation of such a stream does
 * nothing. */
static bool is_driven_elsewhere(const acl__stream *stream)
{
    return (stream->flags & (ACL_STREAM_PERSISTENT | ACL_STREAM_DEVICE_USE_ONLY | ACL_STREAM_CPU_SCHEDULE)) != 0;
}

static aclError synchronize_locked(aclrtStream handle, int32_t timeout)
{
    acl__stream *stream = NULL;
    ACL_HOLD_LOCK();
    ACL_TRY(acl__stream_any(handle, &stream));
    ACL_TRY(acl__stream_check_free(stream));
    return is_driven_elsewhere(stream) ? ACL_SUCCESS : acl__stream_wait(stream, timeout);
}

static aclError synchronize(aclrtStream handle, int32_t timeout)
{
    const aclError error = synchronize_locked(handle, timeout);
    acl__exceptions_report();
    return error;
}

ACL_EXPORT aclError aclrtSynchronizeStream(aclrtStream stream)
{
    ACL_ENTER(aclrtSynchronizeStream);
    return synchronize(stream, -1);
}

ACL_EXPORT aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout)
{
    ACL_ENTER(aclrtSynchronizeStreamWithTimeout);
    ACL_REFUSE_IF(timeout < -1 || timeout == 0, ACL_ERROR_RT_PARAM_INVALID, "%d ms is no timeout", timeout);
    return synchronize(stream, timeout);
}

ACL_EXPORT aclError aclrtStreamQuery(aclrtStream handle, aclrtStreamStatus *status)
{
    ACL_ENTER_LOCKED(aclrtStreamQuery);
    ACL_NEED(status);
    acl__stream *stream = NULL;
    ACL_TRY(acl__stream_any(handle, &stream));
    ACL_TRY(acl__stream_check_free(stream));
    acl__ask();
    *status = is_idle(stream) || is_driven_elsewhere(stream) ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    if (*status == ACL_STREAM_STATUS_COMPLETE) {
        acl__host_saw(stream);
        tell_seen(stream);
    }
    return stream->error;
}

/* --- facts --- */

ACL_EXPORT aclError aclrtStreamGetId(aclrtStream handle, int32_t *streamId)
{
    ACL_ENTER_LOCKED(aclrtStreamGetId);
    ACL_NEED(streamId);
    acl__stream *stream = handle;
    if (!is_stream(handle)) { /* a stream's number needs no context */
        ACL_TRY(acl__stream_any(handle, &stream));
    }
    *streamId = stream->id;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtStreamGetPriority(aclrtStream handle, uint32_t *priority)
{
    ACL_ENTER_LOCKED(aclrtStreamGetPriority);
    ACL_NEED(priority);
    acl__stream *stream = NULL;
    ACL_TRY(acl__stream_any(handle, &stream));
    *priority = stream->priority;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtStreamGetFlags(aclrtStream handle, uint32_t *flags)
{
    ACL_ENTER_LOCKED(aclrtStreamGetFlags);
    ACL_NEED(flags);
    acl__stream *stream = NULL;
    ACL_TRY(acl__stream_any(handle, &stream));
    *flags = stream->flags;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtGetStreamAvailableNum(uint32_t *streamCount)
{
    ACL_ENTER_LOCKED(aclrtGetStreamAvailableNum);
    ACL_NEED(streamCount);
    ACL_NEED_CONTEXT(context);
    *streamCount = acl__rt.config.stream_limit - stream_count;
    return ACL_SUCCESS;
}

/* Drops the work of all streams of a device; the next wait for each of these streams returns the error of the abort. */
ACL_EXPORT aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout)
{
    ACL_ENTER_LOCKED(aclrtDeviceTaskAbort);
    (void)timeout; /* the abort takes no time */
    ACL_REFUSE_IF(deviceId < 0 || (uint32_t)deviceId >= acl__rt.config.devices, ACL_ERROR_RT_INVALID_DEVICEID,
                  "there is no device %d", deviceId);
    for (acl__stream *stream = acl__rt.first_stream; stream != NULL; stream = stream->next) {
        if (stream->context->device == deviceId) {
            acl__stream_drop(stream);
            stream->error = ACL_ERROR_RT_DEVICE_TASK_ABORT;
        }
    }
    return ACL_SUCCESS;
}
