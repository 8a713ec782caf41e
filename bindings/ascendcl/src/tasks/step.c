/* step.c: the steps of a captured graph, and the exchange of captured kernels.
 *
 * A captured stream runs nothing. Each call becomes a step, which makes the call again when the graph is executed. The
 * step of a task keeps the task as a pattern, and queues copies of it.
 *
 * A task group is a run of kernels of one leg. A kernel of a group is looked up when its turn comes, not when the graph
 * is executed: a program may start a graph that waits for an event, exchange kernels behind that wait, and then record
 * the event.
 */
#include "tasks/tasks.h"

#include <stdlib.h>
#include <string.h>

/* --- steps --- */

void acl__steps_end(acl__step *step)
{
    WEIR_ASSERT_HELD(acl__mutex());
    while (step != NULL) {
        acl__step *next = step->next;
        if (step->ops->end != NULL) {
            step->ops->end(step->args);
        }
        free(step);
        step = next;
    }
}

/* Adds a step to the task group that is open on its leg. */
static bool group_add(acl__group *group, acl__step *step)
{
    acl__step **steps = realloc(group->steps, (group->count + 1) * sizeof(*steps));
    if (steps != NULL) {
        steps[group->count++] = step;
        group->steps = steps;
    }
    return steps != NULL;
}

static void step_add(acl__leg *leg, acl__step *step)
{
    WEIR_ASSERT(*leg->graph->last == NULL && step->next == NULL);
    *leg->graph->last = step;
    leg->graph->last = &step->next;
    leg->last = step;
}

static const acl__step_ops task_ops;

static aclError group_fails(acl__graph *graph, aclError error, const char *why)
{
    graph->state = ACL__BROKEN;
    graph->group_error = error;
    return acl__fail(error, "%s", why);
}

/* As in the vendor's runtime, a stream takes no call any more once its task group has refused one: the refused task
 * keeps its place (AllocTaskAndSendStars; Stream::PackingTaskGroup, Stream::IsTaskGroupBreak). */
aclError acl__leg_takes(acl__leg *leg, bool is_kernel)
{
    WEIR_ASSERT_HELD(acl__mutex());
    if (leg->group == NULL && leg->graph->open_groups > 0) {
        return group_fails(leg->graph, ACL_ERROR_STREAM_TASK_GROUP_INTR,
                           "a task group is open on another stream of the capture");
    }
    ACL_FAIL_IF(leg->is_stuck, ACL_ERROR_RT_STREAM_TASK_FULL, "a task group of the stream has refused a call");
    if (leg->group != NULL && !is_kernel) {
        leg->is_stuck = true;
        return group_fails(leg->graph, ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, "a task group takes kernels only");
    }
    return ACL_SUCCESS;
}

aclError acl__capture(acl__stream *stream, const acl__step_ops *ops, const void *args, size_t size)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__leg *leg = stream->leg;
    WEIR_ASSERT(leg != NULL && leg->from == stream);
    ACL_TRY(acl__leg_takes(leg, ops == &task_ops && acl__is_kernel(*(acl__task *const *)args)));
    acl__step *step = calloc(1, sizeof(*step) + size);
    if (step == NULL || (leg->group != NULL && !group_add(leg->group, step))) {
        free(step);
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a step of a graph");
    }
    step->leg = leg;
    step->ops = ops;
    step->is_grouped = leg->group != NULL;
    memcpy(step->args, args, size);
    step_add(leg, step);
    return ACL_SUCCESS;
}

/* --- tasks --- */

/* The turn of a kernel of a task group: runs a copy of the kernel that the group has by then. */
struct turn {
    acl__task task; /* first member */
    acl__task *const *pattern;
};

static aclError turn_submit(acl__stream *stream, acl__task *task)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const acl__task *pattern = *((struct turn *)(void *)task)->pattern;
    acl__task *copy = pattern->ops->clone(pattern);
    ACL_FAIL_IF(copy == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a kernel");
    const aclError error = copy->ops->submit(stream, copy);
    copy->ops->end(copy);
    return error;
}

static void turn_end(acl__task *task)
{
    free(task);
}

static const acl__task_ops turn_ops = {.submit = turn_submit, .end = turn_end};

static aclError queue_turn(acl__stream *on, acl__task *const *pattern)
{
    struct turn *turn = calloc(1, sizeof(*turn));
    ACL_FAIL_IF(turn == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a task");
    turn->task.ops = &turn_ops;
    turn->pattern = pattern;
    return acl__queue(on, &turn->task);
}

static aclError task_again(acl__stream *on, void *args)
{
    acl__task *const *pattern = args;
    const acl__step *step = (const acl__step *)(const void *)((const char *)args - offsetof(acl__step, args));
    if (step->is_grouped) {
        return queue_turn(on, pattern);
    }
    acl__task *copy = (*pattern)->ops->clone(*pattern);
    ACL_FAIL_IF(copy == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a task");
    return acl__queue(on, copy);
}

static void task_end(void *args)
{
    acl__task *pattern = *(acl__task **)args;
    pattern->ops->end(pattern);
}

static const acl__step_ops task_ops = {.name = "task", .again = task_again, .end = task_end};

/* Puts a kernel in the place of the next one of the group that is being exchanged. */
static aclError exchange(acl__group *group, acl__task *task)
{
    ACL_FAIL_IF(!acl__is_kernel(task), ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT,
                "only kernels of a task group are exchanged");
    ACL_FAIL_IF(group->exchanged >= group->count, ACL_ERROR_RT_INTERNAL_ERROR, "the task group has %zu kernels",
                group->count);
    acl__task **pattern = (acl__task **)(void *)group->steps[group->exchanged++]->args;
    acl__task *before = *pattern;
    *pattern = task;
    before->ops->end(before);
    return ACL_SUCCESS;
}

aclError acl__queue_for_graph(acl__stream *stream, acl__task *task)
{
    WEIR_ASSERT_HELD(acl__mutex());
    aclError error = ACL_SUCCESS;
    if (stream->exchanges != NULL) {
        error = exchange(stream->exchanges, task);
    } else if (task->ops->clone == NULL) {
        error = acl__fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the simulated capture does not take this call");
    } else {
        error = acl__capture(stream, &task_ops, &task, sizeof(task));
    }
    if (error != ACL_SUCCESS) {
        task->ops->end(task);
    }
    return error;
}
