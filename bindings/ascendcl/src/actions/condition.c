/* condition.c: conditions in captured graphs: branches that run once, not at all, or again and again.
 *
 * A condition has a word of device memory and up to some graphs, its branches. Its task waits until its stream has come
 * to it, reads the word, and queues a branch behind itself. The stream goes on when the branch has ended; a loop then
 * reads the word again.
 */
#include "actions/actions.h"

#include <stdlib.h>
#include <string.h>

struct acl__condition {
    struct acl__condition *next; /* list of the conditions of a graph */
    acl__graph *graph;
    uint64_t *word; /* device memory */
    uint32_t value; /* the word's value at the begin of an execution, if `assigns` */
    bool assigns;
    aclmdlRICondTaskType type;
    acl__graph **branches; /* NULL: no task uses the condition */
    uint32_t count;
};

typedef struct acl__condition condition;

static condition *all_of(const acl__graph *graph)
{
    return graph->conditions;
}

/* --- handles --- */

static void branches_free(condition *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        acl__graph_free(c->branches[i]);
    }
    free(c->branches);
    c->branches = NULL;
    c->count = 0;
}

/* Called when a graph has ended. */
static void graph_ended(condition *first)
{
    WEIR_ASSERT_HELD(acl__mutex());
    while (first != NULL) {
        condition *next = first->next;
        branches_free(first);
        (void)acl__free(first->word); /* the device may have been reset meanwhile */
        free(first);
        first = next;
    }
}

static condition *find_in(const acl__graph *graph, const void *handle)
{
    condition *c = all_of(graph);
    while (c != NULL && c != handle) {
        c = c->next;
    }
    return c;
}

static aclError condition_of(const void *handle, condition **out)
{
    WEIR_ASSERT_HELD(acl__mutex());
    *out = NULL;
    for (const acl__graph *graph = acl__graph_first(); graph != NULL && *out == NULL; graph = graph->next) {
        *out = find_in(graph, handle);
    }
    ACL_FAIL_IF(*out == NULL, ACL_ERROR_RT_INVALID_HANDLE, "%p is no condition of a live graph", handle);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclmdlRICondHandleCreate(aclmdlRI modelRI, uint32_t defaultLaunchValue, aclmdlRICondHandleFlag flag,
                                             aclmdlRICondHandle *handle)
{
    ACL_ENTER_LOCKED(aclmdlRICondHandleCreate);
    ACL_NEED(modelRI);
    ACL_NEED(handle);
    acl__graph *graph = NULL;
    ACL_TRY(acl__graph_of(modelRI, &graph));
    ACL_REFUSE_IF((uint32_t)flag > ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, ACL_ERROR_RT_PARAM_INVALID,
                  "there is no flag %d", (int)flag);
    ACL_REFUSE_IF(graph->state != ACL__CAPTURING, ACL_ERROR_RT_PARAM_INVALID, "the graph is not being captured");
    ACL_NEED_CONTEXT(context);
    ACL_REFUSE_IF(acl__rt.config.old_driver, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "not with an old driver");
    condition *c = calloc(1, sizeof(*c));
    ACL_REFUSE_IF(c == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a condition");
    const aclError error = acl__malloc(context->device, sizeof(*c->word), ACL_MEM_MALLOC_HUGE_FIRST, (void **)&c->word);
    if (error != ACL_SUCCESS) {
        free(c);
        return error;
    }
    *c->word = 0;
    c->graph = graph;
    c->value = defaultLaunchValue;
    c->assigns = flag == ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT;
    c->next = graph->conditions;
    graph->conditions = c;
    acl__rt.above.graph_ended = graph_ended;
    *handle = c;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle, uint64_t **ptr)
{
    ACL_ENTER_LOCKED(aclmdlRICondHandleGetCondPtr);
    ACL_NEED(handle);
    ACL_NEED(ptr);
    condition *c = NULL;
    ACL_NEED_CONTEXT(context);
    ACL_TRY(condition_of(handle, &c));
    *ptr = c->word;
    return ACL_SUCCESS;
}

void acl__conditions_begin(const acl__graph *graph)
{
    WEIR_ASSERT_HELD(acl__mutex());
    for (condition *c = all_of(graph); c != NULL; c = c->next) {
        if (c->assigns && c->branches != NULL) {
            *c->word = c->value;
        }
        for (uint32_t i = 0; i < c->count; i++) {
            acl__conditions_begin(c->branches[i]);
        }
    }
}

/* --- the task --- */

struct decision {
    acl__task task; /* first member */
    condition *c;
    acl__record *end; /* the end of the branch that runs; NULL: none */
    bool busy;        /* queuing the branch: the task may be asked again meanwhile */
};

/* Returns the branch for the word's value, or NULL. */
static acl__graph *chosen(const condition *c)
{
    const uint64_t value = *c->word;
    switch (c->type) {
    case ACL_MODEL_RI_COND_TYPE_IF:
        return value != 0 ? c->branches[0] : c->count > 1 ? c->branches[1] : NULL;
    case ACL_MODEL_RI_COND_TYPE_WHILE:
        return value != 0 ? c->branches[0] : NULL;
    default:
        return value < c->count ? c->branches[value] : NULL;
    }
}

/* Queues a branch behind the stream's work. */
static aclError start(acl__stream *stream, struct decision *d, acl__graph *branch)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__stream *carrier = stream->carrier != NULL ? stream->carrier : stream;
    acl__record *here = acl__record_now(stream);
    ACL_FAIL_IF(here == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a condition");
    d->busy = true;
    const aclError error = acl__graph_run(branch, carrier, here, &d->end);
    d->busy = false;
    acl__record_release(here);
    return error;
}

static aclError decision_submit(acl__stream *stream, acl__task *task)
{
    WEIR_ASSERT_HELD(acl__mutex());
    struct decision *d = (struct decision *)(void *)task;
    if (d->busy) {
        return ACL__HELD;
    }
    for (;;) {
        if (d->end != NULL) {
            ACL_TRY(acl__record_join(stream, d->end));
            acl__record_release(d->end);
            d->end = NULL;
            if (d->c->type != ACL_MODEL_RI_COND_TYPE_WHILE) {
                return ACL_SUCCESS;
            }
        }
        if (!acl__has_arrived(stream)) {
            return ACL__HELD;
        }
        const uint64_t word = (uint64_t)(uintptr_t)d->c->word;
        ACL_TRY(acl__read_word(stream, word, sizeof(*d->c->word), "condition"));
        acl__graph *branch = chosen(d->c);
        if (branch == NULL) {
            return ACL_SUCCESS;
        }
        ACL_TRY(start(stream, d, branch));
    }
}

static void decision_end(acl__task *task)
{
    struct decision *d = (struct decision *)(void *)task;
    acl__record_release(d->end);
    free(d);
}

static const acl__task_ops decision_ops = {
    .submit = decision_submit, .end = decision_end, .awaits = "the branch of a condition"};

static aclError decide_again(acl__stream *on, void *args)
{
    struct decision *d = calloc(1, sizeof(*d));
    ACL_FAIL_IF(d == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a condition");
    d->task.ops = &decision_ops;
    d->c = *(condition **)args;
    return acl__queue(on, &d->task);
}

static const acl__step_ops decide_step = {.name = "condition", .again = decide_again};

/* --- adding the task to a capture --- */

static aclError check_count(const aclmdlRICondTaskParams *params)
{
    const uint32_t most = params->type == ACL_MODEL_RI_COND_TYPE_IF      ? 2
                          : params->type == ACL_MODEL_RI_COND_TYPE_WHILE ? 1
                                                                         : UINT32_MAX;
    ACL_FAIL_IF(params->size == 0 || params->size > most, ACL_ERROR_RT_PARAM_INVALID,
                "a condition of type %d has no %u branches", (int)params->type, params->size);
    return ACL_SUCCESS;
}

static aclError branches_make(condition *c, uint32_t count)
{
    WEIR_ASSERT_HELD(acl__mutex());
    c->branches = calloc(count, sizeof(acl__graph *));
    bool made = c->branches != NULL;
    for (uint32_t i = 0; i < count && made; i++) {
        c->branches[i] = acl__graph_new(c->graph->context);
        made = c->branches[i] != NULL;
        if (made) {
            c->branches[i]->branch_of = c;
            c->branches[i]->parent = c->graph;
            c->count++;
        }
    }
    if (!made) {
        branches_free(c);
    }
    return made ? ACL_SUCCESS : acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for the branches");
}

ACL_EXPORT aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream handle, uint32_t flags)
{
    ACL_ENTER_LOCKED(aclmdlRIAddCondTask);
    ACL_REFUSE_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "stream is NULL");
    ACL_REFUSE_IF((uint32_t)params.type > ACL_MODEL_RI_COND_TYPE_SWITCH, ACL_ERROR_RT_PARAM_INVALID,
                  "there is no type %d", (int)params.type);
    ACL_REFUSE_IF(flags != 0, ACL_ERROR_RT_PARAM_INVALID, "flags must be 0");
    ACL_REFUSE_IF(params.handle == NULL || params.modelRIArray == NULL, ACL_ERROR_RT_PARAM_INVALID,
                  "the handle or the array is NULL");
    condition *c = NULL;
    ACL_TRY(condition_of(params.handle, &c));
    ACL_REFUSE_IF(c->branches != NULL, ACL_ERROR_RT_PARAM_INVALID, "the condition has a task already");
    ACL_NEED_STREAM(stream, handle);
    ACL_REFUSE_IF(stream->leg == NULL, ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not being captured", stream->id);
    ACL_REFUSE_IF(stream->leg->graph != c->graph, ACL_ERROR_RT_PARAM_INVALID, "the condition is another graph's");
    ACL_TRY(check_count(&params));
    ACL_TRY(branches_make(c, params.size));
    c->type = params.type;
    const aclError error = acl__capture(stream, &decide_step, &c, sizeof(c));
    if (error != ACL_SUCCESS) {
        branches_free(c);
        return error;
    }
    memcpy(params.modelRIArray, c->branches, params.size * sizeof(*params.modelRIArray));
    return ACL_SUCCESS;
}
