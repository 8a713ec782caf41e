/* copy.c: copies and sets.
 *
 * As in the vendor's synchronous copy, the addresses decide if a side is host or device memory; the kind does not.
 * Synchronous copies run on the simulator's default stream, which has no other users: such a copy is ordered after the
 * work that the host has seen complete and after no other work.
 */
#include "actions/actions.h"

#include "base/report.h"

#include <stdlib.h>
#include <string.h>

typedef enum side { DEVICE_SIDE, PINNED_SIDE, PAGEABLE_SIDE } side;

static uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

static side side_of(const void *pointer, uint64_t size)
{
    WEIR_ASSERT_HELD(acl__mutex());
    /* Reserved addresses count as device memory, even where no memory is mapped. */
    if (acl__range_at(&acl__rt.device_memory, pointer) != NULL || acl__virtual_is_reserved(pointer)) {
        return DEVICE_SIDE;
    }
    return acl__is_pinned(pointer, size) ? PINNED_SIDE : PAGEABLE_SIDE;
}

/* Refuses a range of device memory that is not mapped from end to end. Host memory is not checked, as in the vendor's
 * runtime. */
static aclError check_there(const void *pointer, uint64_t size, side where, const char *name)
{
    WEIR_ASSERT_HELD(acl__mutex());
    ACL_FAIL_IF(where == DEVICE_SIDE && weir_sim_bytes(acl__rt.sim, address_of(pointer), size) == NULL,
                ACL_ERROR_RT_PARAM_INVALID, "%s: %llu bytes from %p are not all device memory", name,
                (unsigned long long)size, pointer);
    return ACL_SUCCESS;
}

/* --- on a stream --- */

struct copy_task {
    acl__task task; /* first member */
    void *to;
    const void *from; /* NULL: the task is a set */
    uint64_t size;
    side to_side;
    side from_side;
    bool is_noted; /* its host memory counts it as queued */
    bool is_late;  /* a copy of a graph whose host memory was given back before the execution */
    uint64_t host; /* serial of its host memory; 0: the runtime's own, or none */
    uint8_t value;
    const char *name; /* a constant */
};

static struct copy_task copy_of(void *to, const void *from, uint64_t size, const char *name)
{
    return (struct copy_task){.to = to,
                              .from = from,
                              .size = size,
                              .to_side = side_of(to, size),
                              .from_side = side_of(from, size),
                              .name = name};
}

/* Returns the pinned memory of a copy between a device and the host, or NULL. */
static const void *pinned_side(const struct copy_task *c)
{
    if (c->to_side == PINNED_SIDE) {
        return c->to;
    }
    return c->from != NULL && c->from_side == PINNED_SIDE ? c->from : NULL;
}

static weir_status give_by(weir_sim_stream *stream, const struct copy_task *c)
{
    WEIR_ASSERT(c->to_side == DEVICE_SIDE || (c->from != NULL && c->from_side == DEVICE_SIDE));
    if (c->from == NULL) {
        return weir_sim_fill(acl__rt.sim, stream, address_of(c->to), c->size, c->value, c->name);
    }
    if (c->to_side == DEVICE_SIDE && c->from_side == DEVICE_SIDE) {
        return weir_sim_copy(acl__rt.sim, stream, address_of(c->to), address_of(c->from), c->size, c->name);
    }
    return c->to_side == DEVICE_SIDE
               ? weir_sim_copy_from_host(acl__rt.sim, stream, address_of(c->to), c->from, c->size, c->name)
               : weir_sim_copy_to_host(acl__rt.sim, stream, c->to, address_of(c->from), c->size, c->name);
}

/* Queues the copy as work of the device. */
static weir_status give(weir_sim_stream *stream, int32_t device, const struct copy_task *c)
{
    const acl__worker before = acl__work_by((acl__worker){.device = device, .copies = c->from != NULL});
    const weir_status status = give_by(stream, c);
    (void)acl__work_by(before);
    return status;
}

/* Makes the host memory of a copy count it as queued, if it is. */
static void note(struct copy_task *c, bool is_queued)
{
    c->is_noted = is_queued;
    if (is_queued) {
        acl__host_copy_queued(pinned_side(c), 1);
    }
}

static aclError submit(acl__stream *stream, acl__task *task)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const struct copy_task *c = (struct copy_task *)(void *)task;
    if (c->is_late) {
        acl__report_host_memory(c->name, address_of(pinned_side(c)), c->size,
                                "in the execution of a graph, after the memory was given back");
        acl__stream_fail(stream, task, ACL_ERROR_RT_DEVICE_MEM_ERROR);
        return ACL_SUCCESS;
    }
    return acl__status(give(stream->sim, stream->context->device, c), c->name);
}

static void end(acl__task *task)
{
    const struct copy_task *c = (struct copy_task *)(void *)task;
    if (c->is_noted && c->host == acl__host_serial(pinned_side(c))) {
        acl__host_copy_queued(pinned_side(c), -1);
    }
    free(task);
}

static acl__task *clone(const acl__task *task)
{
    struct copy_task *c = malloc(sizeof(*c));
    if (c != NULL) {
        *c = *(const struct copy_task *)(const void *)task;
        c->is_late = c->host != 0 && c->host != acl__host_serial(pinned_side(c));
        note(c, c->host != 0 && !c->is_late);
    }
    return c != NULL ? &c->task : NULL;
}

static const acl__task_ops ops = {.submit = submit, .end = end, .clone = clone};

static aclError queue(acl__stream *stream, const struct copy_task *what)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(what->size > 0);
    struct copy_task *task = malloc(sizeof(*task));
    ACL_FAIL_IF(task == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: no host memory for a task", what->name);
    *task = *what;
    task->task.ops = &ops;
    task->host = pinned_side(task) != NULL ? acl__host_serial(pinned_side(task)) : 0;
    note(task, stream->leg == NULL && task->host != 0);
    return acl__queue(stream, &task->task);
}

/* --- at once --- */

aclError acl__check_captures(const char *name)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const acl__context *context = acl__context_current();
    ACL_FAIL_IF(context != NULL && acl__capture_forbids(context), ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
                "%s: not while a stream is captured in a mode that is not relaxed", name);
    return ACL_SUCCESS;
}

/* Runs a copy and waits for it. The device is found by the address, not by the current context. */
static aclError run(const struct copy_task *c)
{
    WEIR_ASSERT_HELD(acl__mutex());
    weir_sim_stream *own = weir_sim_default_stream(acl__rt.sim);
    const acl__range *range = acl__range_at(&acl__rt.device_memory, c->to_side == DEVICE_SIDE ? c->to : c->from);
    const weir_status status = give(own, range != NULL ? range->device : 0, c);
    return acl__status(status == WEIR_OK ? weir_device_stream_sync(acl__rt.memory, own) : status, c->name);
}

aclError acl__copy_now(void *to, const void *from, uint64_t size, const char *name)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const struct copy_task c = copy_of(to, from, size, name);
    if (size == 0 || to == from) {
        return ACL_SUCCESS;
    }
    ACL_TRY(check_there(to, size, c.to_side, name));
    ACL_TRY(check_there(from, size, c.from_side, name));
    if (c.to_side != DEVICE_SIDE && c.from_side != DEVICE_SIDE) {
        memmove(to, from, size);
        return ACL_SUCCESS;
    }
    return run(&c);
}

aclError acl__set_now(void *to, uint8_t value, uint64_t size, const char *name)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const struct copy_task c = {.to = to, .size = size, .value = value, .to_side = side_of(to, size), .name = name};
    if (size == 0) {
        return ACL_SUCCESS;
    }
    ACL_TRY(acl__check_captures(name));
    ACL_FAIL_IF(c.to_side == PAGEABLE_SIDE, ACL_ERROR_RT_PARAM_INVALID,
                "%s: %p is neither device memory nor pinned host memory", name, to);
    ACL_TRY(check_there(to, size, c.to_side, name));
    if (c.to_side == PINNED_SIDE) {
        memset(to, value, size);
        return ACL_SUCCESS;
    }
    return run(&c);
}

/* --- asynchronous --- */

/* Waits for the stream before a copy that cannot be asynchronous: its host memory is pageable, or not memory that the
 * simulator can copy later. */
static aclError degrade(acl__stream *stream, const char *name)
{
    WEIR_ASSERT_HELD(acl__mutex());
    ACL_FAIL_IF(stream->leg != NULL, ACL_ERROR_RT_PARAM_INVALID, "%s: a captured stream copies no pageable host memory",
                name);
    ACL_TRY(acl__stream_wait(stream, -1));
    ACL_FAIL_IF(acl__capture_forbids(stream->context), ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC,
                "%s: a copy of pageable host memory is synchronous, which a capture forbids", name);
    return ACL_SUCCESS;
}

aclError acl__copy_async(void *to, const void *from, uint64_t size, acl__stream *stream, const char *name)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const struct copy_task c = copy_of(to, from, size, name);
    if (size == 0 || to == from) {
        return ACL_SUCCESS;
    }
    ACL_FAIL_IF(c.to_side != DEVICE_SIDE && c.from_side != DEVICE_SIDE, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "%s: not from host to host", name);
    ACL_TRY(check_there(to, size, c.to_side, name));
    ACL_TRY(check_there(from, size, c.from_side, name));
    if (c.to_side == PAGEABLE_SIDE || c.from_side == PAGEABLE_SIDE) {
        ACL_TRY(degrade(stream, name));
        return run(&c);
    }
    if (c.to_side == PINNED_SIDE) { /* the program may poll this memory without calling the runtime */
        ACL_TRY(acl__engine_need());
    }
    return queue(stream, &c);
}

/* A copy that reads its source at once: when the call returns, the caller may reuse its host memory. */
struct kept {
    bool launching;
    bool over;
    unsigned char bytes[];
};

static void kept_end(void *ctx)
{
    struct kept *k = ctx;
    WEIR_ASSERT(!k->over);
    k->over = true;
    if (!k->launching) {
        free(k);
    }
}

static aclError queue_kept(void *to, const void *from, uint64_t size, acl__stream *stream, const char *name)
{
    WEIR_ASSERT_HELD(acl__mutex());
    struct kept *k = size <= SIZE_MAX - sizeof(*k) ? malloc(sizeof(*k) + size) : NULL;
    ACL_FAIL_IF(k == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: no host memory to keep %llu bytes", name,
                (unsigned long long)size);
    k->over = false;
    k->launching = true;
    memcpy(k->bytes, from, size);
    const struct copy_task c = {
        .to = to, .from = k->bytes, .size = size, .to_side = DEVICE_SIDE, .from_side = PINNED_SIDE, .name = name};
    const acl__kernel after = {.tag = "end of a copy's buffer", .end = kept_end, .ctx = k};
    aclError error = queue(stream, &c);
    if (error != ACL_SUCCESS) {
        free(k);
        return error;
    }
    error = acl__launch(stream, &after);
    k->launching = false;
    if (error != ACL_SUCCESS) { /* the end of the copy will not be reported: wait for it */
        error = acl__stream_wait(stream, -1);
    }
    if (k->over) {
        free(k);
    }
    return error;
}

/* The arguments of a captured copy that reads its source at once. */
struct kept_step {
    void *to;
    uint64_t size;
    const char *name;
    unsigned char bytes[];
};

static aclError kept_again(acl__stream *on, void *args)
{
    const struct kept_step *k = args;
    return queue_kept(k->to, k->bytes, k->size, on, k->name);
}

static const acl__step_ops kept_step = {.name = "copy", .again = kept_again};

static aclError capture_kept(void *to, const void *from, uint64_t size, acl__stream *stream, const char *name)
{
    struct kept_step *k = size <= SIZE_MAX - sizeof(*k) ? malloc(sizeof(*k) + size) : NULL;
    ACL_FAIL_IF(k == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: no host memory to keep %llu bytes", name,
                (unsigned long long)size);
    *k = (struct kept_step){.to = to, .size = size, .name = name};
    memcpy(k->bytes, from, size);
    const aclError error = acl__capture(stream, &kept_step, k, sizeof(*k) + size);
    free(k);
    return error;
}

static aclError copy_kept(void *to, const void *from, uint64_t size, acl__stream *stream, const char *name)
{
    WEIR_ASSERT_HELD(acl__mutex());
    ACL_FAIL_IF(side_of(to, size) != DEVICE_SIDE || side_of(from, size) == DEVICE_SIDE, ACL_ERROR_RT_PARAM_INVALID,
                "%s: this kind copies from host to device memory", name);
    ACL_TRY(check_there(to, size, DEVICE_SIDE, name));
    return stream->leg != NULL ? capture_kept(to, from, size, stream, name) : queue_kept(to, from, size, stream, name);
}

aclError acl__set_async(void *to, uint8_t value, uint64_t size, acl__stream *stream, const char *name)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const struct copy_task c = {.to = to, .size = size, .value = value, .to_side = side_of(to, size), .name = name};
    if (size == 0) {
        return ACL_SUCCESS;
    }
    if (c.to_side != DEVICE_SIDE) {
        const aclError error = degrade(stream, name);
        return error == ACL_SUCCESS ? acl__set_now(to, value, size, name) : error;
    }
    ACL_TRY(check_there(to, size, c.to_side, name));
    return queue(stream, &c);
}

/* --- the public functions --- */

/* Refuses a kind that contradicts the addresses of a copy between pageable host memory and device memory. For all other
 * copies the kind is not checked: the addresses decide. */
static aclError check_direction(const void *to, const void *from, uint64_t size, aclrtMemcpyKind kind, const char *name)
{
    const side to_side = side_of(to, size);
    const side from_side = side_of(from, size);
    bool fits = true;
    if (from_side == PAGEABLE_SIDE && to_side == DEVICE_SIDE) {
        fits = kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE || kind == ACL_MEMCPY_DEFAULT;
    } else if (from_side == DEVICE_SIDE && to_side == PAGEABLE_SIDE) {
        fits = kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE || kind == ACL_MEMCPY_DEFAULT;
    }
    return fits ? ACL_SUCCESS
                : acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: kind %d does not fit where the memory lies", name,
                            (int)kind);
}

/* Checks the arguments. Sets *nothing if there is nothing to copy. */
static aclError check_copy(const void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                           const char *name)
{
    ACL_FAIL_IF(dst == NULL, ACL_ERROR_INVALID_PARAM, "%s: dst is NULL", name);
    ACL_FAIL_IF(src == NULL, ACL_ERROR_INVALID_PARAM, "%s: src is NULL", name);
    ACL_FAIL_IF((int)kind < ACL_MEMCPY_HOST_TO_HOST || kind > ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, ACL_ERROR_INVALID_PARAM,
                "%s: kind %d is not for this call", name, (int)kind);
    ACL_FAIL_IF(count > destMax, ACL_ERROR_RT_PARAM_INVALID, "%s: %zu bytes into a destination of %zu", name, count,
                destMax);
    return ACL_SUCCESS;
}

static aclError check_set(const void *dst, size_t destMax, size_t count, const char *name)
{
    ACL_FAIL_IF(dst == NULL, ACL_ERROR_INVALID_PARAM, "%s: devPtr is NULL", name);
    ACL_FAIL_IF(count > destMax, ACL_ERROR_RT_PARAM_INVALID, "%s: %zu bytes into a destination of %zu", name, count,
                destMax);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind)
{
    ACL_ENTER_LOCKED(aclrtMemcpy);
    if (count == 0) {
        return ACL_SUCCESS;
    }
    ACL_TRY(check_copy(dst, destMax, src, count, kind, __func__));
    ACL_NEED_CONTEXT(context);
    ACL_TRY(acl__check_captures(__func__));
    return acl__copy_now(dst, src, count, __func__);
}

static aclError copy_async(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                           aclrtStream stream_handle, const char *name)
{
    WEIR_ASSERT_HELD(acl__mutex());
    if (count == 0) {
        return ACL_SUCCESS;
    }
    ACL_TRY(check_copy(dst, destMax, src, count, kind, name));
    ACL_NEED_STREAM(stream, stream_handle);
    if (kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE) {
        return copy_kept(dst, src, count, stream, name);
    }
    ACL_TRY(check_direction(dst, src, count, kind, name));
    return acl__copy_async(dst, src, count, stream, name);
}

ACL_EXPORT aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                                     aclrtStream stream_handle)
{
    ACL_ENTER_LOCKED(aclrtMemcpyAsync);
    return copy_async(dst, destMax, src, count, kind, stream_handle, __func__);
}

/* The vendor's function waits if the host memory is pageable; copy_async waits in this case for all asynchronous
 * copies. */
ACL_EXPORT aclError aclrtMemcpyAsyncWithCondition(void *dst, size_t destMax, const void *src, size_t count,
                                                  aclrtMemcpyKind kind, aclrtStream stream_handle)
{
    ACL_ENTER_LOCKED(aclrtMemcpyAsyncWithCondition);
    return copy_async(dst, destMax, src, count, kind, stream_handle, __func__);
}

ACL_EXPORT aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count)
{
    ACL_ENTER_LOCKED(aclrtMemset);
    if (count == 0) {
        return ACL_SUCCESS;
    }
    ACL_TRY(check_set(devPtr, maxCount, count, __func__));
    ACL_NEED_CONTEXT(context);
    return acl__set_now(devPtr, (uint8_t)value, count, __func__);
}

ACL_EXPORT aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count,
                                     aclrtStream stream_handle)
{
    ACL_ENTER_LOCKED(aclrtMemsetAsync);
    if (count == 0) {
        return ACL_SUCCESS;
    }
    ACL_TRY(check_set(devPtr, maxCount, count, __func__));
    ACL_NEED_STREAM(stream, stream_handle);
    return acl__set_async(devPtr, (uint8_t)value, count, stream, __func__);
}
