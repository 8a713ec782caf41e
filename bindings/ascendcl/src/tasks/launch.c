/* launch.c: kernels: tasks that take time on a stream and compute at their end. */
#include "tasks/tasks.h"

#include <stdlib.h>
#include <string.h>

struct kernel_task {
    acl__task task; /* first member */
    acl__stream *stream;
    int32_t stream_id;
    uint32_t holders; /* reference count: one for the queued task, one for the simulator */
    acl__kernel kernel;
    char tag[48];
    weir_sim_access accesses[];
};

static void kernel_release(struct kernel_task *k)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(k->holders > 0);
    if (--k->holders > 0) {
        return;
    }
    if (k->kernel.end != NULL) {
        k->kernel.end(k->kernel.ctx);
    }
    free(k);
}

static void task_end(acl__task *task)
{
    kernel_release((struct kernel_task *)(void *)task);
}

/* Called by the simulator when virtual time reaches the kernel's end. */
static void kernel_over(void *ctx)
{
    WEIR_ASSERT_HELD(acl__mutex());
    struct kernel_task *k = ctx;
    if (k->kernel.compute != NULL) {
        const aclError error = k->kernel.compute(k->kernel.ctx);
        if (k->kernel.writes_host) {
            weir_sim_host_written(acl__rt.sim, NULL, UINT64_MAX);
        }
        if (error != ACL_SUCCESS && k->stream->live && k->stream->id == k->stream_id) {
            acl__stream_fail(k->stream, &k->task, error);
        }
    }
    kernel_release(k);
}

static void kernel_dropped(void *ctx)
{
    kernel_release(ctx);
}

static aclError kernel_submit(acl__stream *stream, acl__task *task)
{
    WEIR_ASSERT_HELD(acl__mutex());
    struct kernel_task *k = (struct kernel_task *)(void *)task;
    k->stream = stream;
    k->stream_id = stream->id;
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = k->kernel.duration_ns;
    work.accesses = k->kernel.accesses;
    work.access_count = k->kernel.access_count;
    work.tag = k->kernel.tag;
    if (k->kernel.compute != NULL || k->kernel.end != NULL) {
        work.host_function = kernel_over;
        work.host_ctx = k;
        work.kernel = true;
        work.dropped = kernel_dropped;
        k->holders++; /* the simulator's reference: the kernel may end before the launch returns */
    }
    const acl__worker before = acl__work_by((acl__worker){.device = stream->context->device});
    const weir_status status = weir_sim_launch(acl__rt.sim, stream->sim, &work);
    (void)acl__work_by(before);
    if (status != WEIR_OK && work.host_function != NULL) {
        k->holders--;
    }
    return acl__status(status, "a kernel's launch");
}

/* Returns true if the kernel may run more than once. A kernel with an `end` function cannot, unless its `ctx` can be
 * copied, because `end` is called exactly once. */
static bool can_repeat(const acl__kernel *kernel)
{
    WEIR_ASSERT(kernel->ctx_bytes == 0 || kernel->end == free);
    return kernel->end == NULL || kernel->ctx_bytes > 0;
}

static acl__task *kernel_clone(const acl__task *task)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const struct kernel_task *k = (const struct kernel_task *)(const void *)task;
    WEIR_ASSERT(k->kernel.accesses == k->accesses && can_repeat(&k->kernel));
    const size_t bytes = sizeof(*k) + k->kernel.access_count * sizeof(weir_sim_access);
    struct kernel_task *clone = malloc(bytes);
    void *ctx = k->kernel.ctx_bytes > 0 ? malloc(k->kernel.ctx_bytes) : k->kernel.ctx;
    if (clone == NULL || (ctx == NULL && k->kernel.ctx_bytes > 0)) {
        free(clone);
        return NULL;
    }
    memcpy(clone, k, bytes);
    if (k->kernel.ctx_bytes > 0) {
        memcpy(ctx, k->kernel.ctx, k->kernel.ctx_bytes);
    }
    clone->kernel.ctx = ctx;
    clone->holders = 1;
    clone->kernel.accesses = clone->accesses;
    clone->kernel.tag = k->kernel.tag != NULL ? clone->tag : NULL;
    return &clone->task;
}

static const acl__task_ops kernel_ops = {.submit = kernel_submit, .end = task_end, .clone = kernel_clone};

bool acl__is_kernel(const acl__task *task)
{
    return task->ops == &kernel_ops;
}

static aclError refuse_kernel(const acl__kernel *kernel, aclError code, const char *why)
{
    if (kernel->end != NULL) {
        kernel->end(kernel->ctx);
    }
    return acl__fail(code, "a kernel's launch: %s", why);
}

aclError acl__launch(acl__stream *stream, const acl__kernel *kernel)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(kernel->access_count == 0 || kernel->accesses != NULL);
    if ((stream->leg != NULL || stream->exchanges != NULL) && !can_repeat(kernel)) {
        return refuse_kernel(kernel, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                             "a capture takes no kernel with a hook for its end, because that is called once");
    }
    const size_t bytes = kernel->access_count * sizeof(weir_sim_access);
    struct kernel_task *k = calloc(1, sizeof(*k) + bytes);
    if (k == NULL) {
        return refuse_kernel(kernel, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory");
    }
    k->task.ops = &kernel_ops;
    k->holders = 1;
    k->kernel = *kernel;
    if (bytes > 0) {
        memcpy(k->accesses, kernel->accesses, bytes);
    }
    k->kernel.accesses = k->accesses;
    if (kernel->tag != NULL) {
        (void)strncpy(k->tag, kernel->tag, sizeof(k->tag) - 1);
        k->kernel.tag = k->tag;
    }
    return acl__queue(stream, &k->task);
}

aclError acl__read_word(acl__stream *stream, uint64_t address, uint64_t size, const char *tag)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const weir_sim_access access = {.address = address, .size = size};
    weir_sim_work read = WEIR_SIM_WORK_INIT;
    read.tag = tag;
    read.accesses = &access;
    read.access_count = 1;
    read.no_launch_cost = true;
    const acl__worker before = acl__work_by((acl__worker){.device = stream->context->device});
    const weir_status status = weir_sim_launch(acl__rt.sim, stream->sim, &read);
    (void)acl__work_by(before);
    return acl__status(status, tag);
}
