/* capture.c: the public functions of captures: begin, end and facts of a capture, task groups, and the execution of
 * graphs. streams/graph.c has the graphs themselves.
 */
#include "actions/actions.h"
#include "shared/descriptor.h"

#include <stdio.h>
#include <stdlib.h>

/* --- capturing --- */

static aclError check_begin(aclmdlRICaptureMode mode, const acl__stream *stream, const char *name)
{
    ACL_FAIL_IF((uint32_t)mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED, ACL_ERROR_RT_PARAM_INVALID,
                "%s: there is no mode %d", name, (int)mode);
    ACL_FAIL_IF(stream == stream->context->default_stream, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "%s: not for the default stream", name);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclmdlRICaptureBegin(aclrtStream handle, aclmdlRICaptureMode mode)
{
    ACL_ENTER_LOCKED(aclmdlRICaptureBegin);
    ACL_REFUSE_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "stream is NULL");
    ACL_NEED_STREAM(stream, handle);
    ACL_TRY(check_begin(mode, stream, __func__));
    ACL_TRY(acl__stream_check_free(stream));
    return acl__capture_begin(stream, mode, NULL);
}

ACL_EXPORT aclError aclmdlRICaptureToModelRIBegin(aclrtStream handle, aclmdlRI modelRI, aclmdlRICaptureMode mode)
{
    ACL_ENTER_LOCKED(aclmdlRICaptureToModelRIBegin);
    ACL_REFUSE_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "stream is NULL");
    ACL_NEED(modelRI);
    acl__graph *graph = NULL;
    ACL_TRY(acl__graph_of(modelRI, &graph));
    ACL_NEED_STREAM(stream, handle);
    ACL_TRY(check_begin(mode, stream, __func__));
    ACL_REFUSE_IF(graph->branch_of == NULL, ACL_ERROR_RT_PARAM_INVALID, "%p is no branch of a condition", modelRI);
    ACL_REFUSE_IF(graph->state != ACL__FRESH, ACL_ERROR_RT_MODEL_CAPTURED, "the branch was captured already");
    ACL_TRY(acl__stream_check_free(stream));
    return acl__capture_begin(stream, mode, graph);
}

ACL_EXPORT aclError aclmdlRICaptureEnd(aclrtStream handle, aclmdlRI *modelRI)
{
    ACL_ENTER_LOCKED(aclmdlRICaptureEnd);
    ACL_REFUSE_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "stream is NULL");
    ACL_NEED_STREAM(stream, handle);
    const bool ends_branch = stream->leg == NULL || stream->leg->graph->branch_of != NULL;
    ACL_REFUSE_IF(modelRI == NULL && !ends_branch, ACL_ERROR_RT_PARAM_INVALID, "modelRI is NULL");
    ACL_REFUSE_IF(stream == stream->context->default_stream, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                  "not for the default stream");
    ACL_REFUSE_IF(stream->leg == NULL, ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not being captured", stream->id);
    acl__graph *graph = NULL;
    const aclError error = acl__capture_end(stream, &graph);
    if (modelRI != NULL && (error == ACL_SUCCESS || !ends_branch)) {
        *modelRI = graph;
    }
    return error;
}

/* As in the vendor's runtime, the capture counts as active after an error too. */
ACL_EXPORT aclError aclmdlRICaptureGetInfo(aclrtStream handle, aclmdlRICaptureStatus *status, aclmdlRI *modelRI)
{
    ACL_ENTER_LOCKED(aclmdlRICaptureGetInfo);
    ACL_REFUSE_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "stream is NULL");
    ACL_REFUSE_IF(status == NULL && modelRI == NULL, ACL_ERROR_INVALID_PARAM, "status and modelRI are NULL");
    ACL_NEED_STREAM(stream, handle);
    const acl__leg *leg = stream->leg;
    if (status != NULL) {
        *status = leg != NULL ? ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE : ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    }
    if (modelRI != NULL) {
        *modelRI = leg != NULL ? leg->graph : NULL;
    }
    return ACL_SUCCESS;
}

/* Sets the calling thread's mode and stores the former mode in *mode. */
ACL_EXPORT aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode)
{
    ACL_ENTER_LOCKED(aclmdlRICaptureThreadExchangeMode);
    ACL_NEED(mode);
    ACL_REFUSE_IF((uint32_t)*mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED, ACL_ERROR_RT_PARAM_INVALID,
                  "there is no mode %d", (int)*mode);
    ACL_NEED_CONTEXT(context);
    *mode = acl__capture_exchange_mode(*mode);
    return ACL_SUCCESS;
}

/* --- task groups --- */

/* As in the vendor's runtime, a stream whose capture ended within a task group stays in it for good: it begins none and
 * ends none (Stream::taskGroupStatus_). */
ACL_EXPORT aclError aclmdlRICaptureTaskGrpBegin(aclrtStream handle)
{
    ACL_ENTER_LOCKED(aclmdlRICaptureTaskGrpBegin);
    ACL_REFUSE_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "stream is NULL");
    ACL_NEED_STREAM(stream, handle);
    acl__leg *leg = stream->leg;
    ACL_REFUSE_IF(leg == NULL, ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not being captured", stream->id);
    ACL_REFUSE_IF(stream->is_grouping, ACL_ERROR_STREAM_TASK_GROUP_STATUS,
                  "a task group of the stream is open, maybe of an earlier capture");
    ACL_TRY(acl__leg_takes(leg, true));
    acl__group *group = calloc(1, sizeof(*group));
    ACL_REFUSE_IF(group == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a task group");
    group->graph = leg->graph;
    group->next = leg->graph->groups;
    leg->graph->groups = group;
    leg->graph->open_groups++;
    leg->group = group;
    stream->is_grouping = true;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclmdlRICaptureTaskGrpEnd(aclrtStream handle, aclrtTaskGrp *group)
{
    ACL_ENTER_LOCKED(aclmdlRICaptureTaskGrpEnd);
    ACL_REFUSE_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "stream is NULL");
    ACL_REFUSE_IF(group == NULL, ACL_ERROR_INVALID_PARAM, "handle is NULL");
    ACL_NEED_STREAM(stream, handle);
    acl__leg *leg = stream->leg;
    ACL_REFUSE_IF(leg == NULL, ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not being captured", stream->id);
    *group = NULL;
    ACL_REFUSE_IF(!stream->is_grouping, ACL_ERROR_STREAM_TASK_GROUP_STATUS, "no task group is open on stream %d",
                  stream->id);
    ACL_REFUSE_IF(leg->group == NULL, ACL_ERROR_RT_INTERNAL_ERROR, "the task group is one of an earlier capture");
    acl__group *ended = leg->group;
    leg->group = NULL;
    stream->is_grouping = false;
    leg->graph->open_groups--;
    ACL_REFUSE_IF(leg->graph->group_error != ACL_SUCCESS, leg->graph->group_error, "a task group of the graph failed");
    ACL_REFUSE_IF(leg->graph->state == ACL__BROKEN, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
                  "an earlier call of the capture failed");
    *group = ended;
    return ACL_SUCCESS;
}

/* Stores the task group of a handle. The vendor's runtime does not check handles. */
static aclError group_of(const void *handle, acl__group **group)
{
    WEIR_ASSERT_HELD(acl__mutex());
    *group = acl__group_find(handle);
    ACL_FAIL_IF(*group == NULL, ACL_ERROR_RT_INVALID_HANDLE, "%p is no task group of a live graph", handle);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream handle, aclrtTaskGrp group_handle)
{
    ACL_ENTER_LOCKED(aclmdlRICaptureTaskUpdateBegin);
    ACL_REFUSE_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "stream is NULL");
    ACL_REFUSE_IF(group_handle == NULL, ACL_ERROR_INVALID_PARAM, "handle is NULL");
    acl__group *group = NULL;
    ACL_TRY(group_of(group_handle, &group));
    ACL_NEED_STREAM(stream, handle);
    ACL_TRY(acl__stream_check_free(stream));
    ACL_REFUSE_IF(stream->exchanges != NULL || stream->is_grouping, ACL_ERROR_STREAM_TASK_GROUP_STATUS,
                  "stream %d updates a task group already, or one of an earlier capture is open", stream->id);
    for (const acl__stream *other = acl__rt.first_stream; other != NULL; other = other->next) {
        ACL_REFUSE_IF(other->exchanges == group, ACL_ERROR_STREAM_TASK_GROUP_STATUS, "stream %d updates the task group",
                      other->id);
    }
    group->exchanged = 0;
    stream->exchanges = group;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream handle)
{
    ACL_ENTER_LOCKED(aclmdlRICaptureTaskUpdateEnd);
    ACL_REFUSE_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "stream is NULL");
    ACL_NEED_STREAM(stream, handle);
    ACL_TRY(acl__stream_check_free(stream));
    const acl__group *group = stream->exchanges;
    ACL_REFUSE_IF(group == NULL, ACL_ERROR_STREAM_TASK_GROUP_STATUS, "stream %d updates no task group", stream->id);
    stream->exchanges = NULL;
    ACL_REFUSE_IF(group->exchanged != group->count, ACL_ERROR_RT_INTERNAL_ERROR,
                  "%zu of the %zu kernels of the task group were updated", group->exchanged, group->count);
    return ACL_SUCCESS;
}

/* --- graphs --- */

/* Waits until no execution of the graph is under way, as long as the vendor's runtime waits. */
static aclError wait_for_end(const acl__graph *graph)
{
    enum { PATIENCE_MS = 10000 };
    const acl__deadline deadline = acl__deadline_in(PATIENCE_MS);
    acl__graph *still = NULL;
    const void *handle = graph;
    while (acl__graph_is_running(graph)) {
        ACL_FAIL_IF(!acl__wait_step(0, &deadline), ACL_ERROR_RT_MODEL_RUNNING,
                    "an execution of the graph is under way");
        ACL_TRY(acl__graph_of(handle, &still)); /* the wait released the lock */
    }
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclmdlRIDestroy(aclmdlRI modelRI)
{
    ACL_ENTER_LOCKED(aclmdlRIDestroy);
    ACL_NEED(modelRI);
    acl__graph *graph = NULL;
    ACL_TRY(acl__graph_of(modelRI, &graph));
    ACL_REFUSE_IF(graph->branch_of != NULL, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                  "a branch ends with the graph of its condition");
    ACL_REFUSE_IF(graph->state != ACL__READY, ACL_ERROR_RT_MODEL_CAPTURED, "the graph is being captured");
    ACL_TRY(wait_for_end(graph));
    acl__graph_free(graph);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclmdlRIDestroyRegisterCallback(aclmdlRI modelRI, aclrtCallback func, void *userData)
{
    ACL_ENTER_LOCKED(aclmdlRIDestroyRegisterCallback);
    ACL_NEED(modelRI);
    ACL_NEED(func);
    acl__graph *graph = NULL;
    ACL_TRY(acl__graph_of(modelRI, &graph));
    return acl__graph_add_farewell(graph, func, userData);
}

ACL_EXPORT aclError aclmdlRIDestroyUnregisterCallback(aclmdlRI modelRI, aclrtCallback func)
{
    ACL_ENTER_LOCKED(aclmdlRIDestroyUnregisterCallback);
    ACL_NEED(modelRI);
    ACL_NEED(func);
    acl__graph *graph = NULL;
    ACL_TRY(acl__graph_of(modelRI, &graph));
    return acl__graph_remove_farewell(graph, func);
}

ACL_EXPORT aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream handle)
{
    ACL_ENTER_LOCKED(aclmdlRIExecuteAsync);
    ACL_NEED(modelRI);
    acl__graph *graph = NULL;
    ACL_TRY(acl__graph_of(modelRI, &graph));
    ACL_NEED_STREAM(stream, handle);
    ACL_TRY(acl__stream_check_free(stream));
    ACL_REFUSE_IF(graph->branch_of != NULL, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "a branch is executed by its condition");
    ACL_REFUSE_IF(graph->state != ACL__READY, ACL_ERROR_RT_MODEL_CAPTURED, "the graph is being captured");
    acl__conditions_begin(graph);
    return acl__graph_execute(graph, stream);
}

ACL_EXPORT aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t *modelRIId)
{
    ACL_ENTER_LOCKED(aclmdlRIGetId);
    ACL_NEED(modelRI);
    ACL_NEED(modelRIId);
    acl__graph *graph = NULL;
    ACL_TRY(acl__graph_of(modelRI, &graph));
    *modelRIId = graph->id;
    return ACL_SUCCESS;
}

/* The vendor's runtime prints the graph to its log, which the simulated one does not have. */
ACL_EXPORT aclError aclmdlRIDebugPrint(aclmdlRI modelRI)
{
    ACL_ENTER_LOCKED(aclmdlRIDebugPrint);
    ACL_NEED(modelRI);
    acl__graph *graph = NULL;
    return acl__graph_of(modelRI, &graph);
}

/* Writes the steps of a graph in the form that trace viewers read, one row for each leg. */
static void print_steps(FILE *file, const acl__graph *graph)
{
    unsigned number = 0;
    (void)fputs("[", file);
    for (const acl__step *step = graph->first; step != NULL; step = step->next) {
        (void)fprintf(file, "%s\n{\"name\": \"%s\", \"ph\": \"X\", \"ts\": %u, \"dur\": 1, \"pid\": %u, \"tid\": %d}",
                      number > 0 ? "," : "", step->ops->name, number, graph->id, step->leg->runs->id);
        number++;
    }
    (void)fputs("\n]\n", file);
}

ACL_EXPORT aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char *path, uint32_t flags)
{
    ACL_ENTER_LOCKED(aclmdlRIDebugJsonPrint);
    (void)flags;
    ACL_NEED(modelRI);
    ACL_NEED(path);
    acl__graph *graph = NULL;
    ACL_TRY(acl__graph_of(modelRI, &graph));
    FILE *file = open_stream_above_standard(path, O_WRONLY | O_CREAT | O_TRUNC, "w");
    ACL_REFUSE_IF(file == NULL, ACL_ERROR_RT_PARAM_INVALID, "%s cannot be written", path);
    print_steps(file, graph);
    const bool failed = ferror(file) != 0;
    ACL_REFUSE_IF(fclose(file) != 0 || failed, ACL_ERROR_RT_INTERNAL_ERROR, "%s could not be written", path);
    return ACL_SUCCESS;
}
