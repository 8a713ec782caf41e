/* graph.c: captured graphs: the streams that a capture takes in, its end, and its execution.
 *
 * Idea: a graph has one leg for each captured stream, and each leg takes a stream from the device's stock. The calls on
 * the captured streams become steps (tasks/step.c). An execution queues all steps on the legs' streams, behind the work
 * of the stream that executes the graph and before that stream's later work. So the parts of a graph overlap as far as
 * its events allow, and the auditor judges each execution as it judges any work.
 *
 * A wait for an event that was recorded in the capture takes the waiting stream in. Before the end, every leg but the
 * origin's has to end with a recording that another leg waits for, and the origin with a wait for one of them.
 *
 * A thread may not copy or set memory synchronously while certain captures are under way. That depends on the modes of
 * the captures of its context, on the mode of its own captures, and on the mode that it exchanged.
 *
 * The answers follow the vendor's source, hicann/runtime 681ef7610, src/runtime/feature/aclgraph.
 */
#include "streams/streams.h"

#include <stdlib.h>
#include <string.h>

static acl__graph *graphs;
static uint32_t last_id;

/* --- modes --- */

enum { NO_MODE = ACL_MODEL_RI_CAPTURE_MODE_RELAXED + 1 };

static _Thread_local uint32_t own_captures[3]; /* captures that the thread began, by mode */
static _Thread_local aclmdlRICaptureMode exchanged = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;

/* Returns the calling thread's number. (A pthread_t may be given again to a later thread.) */
static uint64_t own_number(void)
{
    static uint64_t last;
    static _Thread_local uint64_t number;
    WEIR_ASSERT_HELD(acl__mutex());
    number = number != 0 ? number : ++last;
    return number;
}

aclmdlRICaptureMode acl__capture_exchange_mode(aclmdlRICaptureMode mode)
{
    const aclmdlRICaptureMode before = exchanged;
    exchanged = mode;
    return before;
}

/* Returns the strictest mode among captures; NO_MODE: there are none. */
static int strictest(const uint32_t captures[3])
{
    int mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
    while (mode < NO_MODE && captures[mode] == 0) {
        mode++;
    }
    return mode;
}

bool acl__capture_forbids(const acl__context *context)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const int of_context = strictest(context->captures);
    const int own = strictest(own_captures);
    if (of_context == NO_MODE) {
        return false;
    }
    switch (exchanged) {
    case ACL_MODEL_RI_CAPTURE_MODE_GLOBAL:
        return of_context == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL || own == ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
    case ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL:
        return own < ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
    default:
        return false;
    }
}

static void mode_enters(acl__graph *graph, aclmdlRICaptureMode mode)
{
    graph->mode = mode;
    graph->thread = own_number();
    graph->context->captures[mode]++;
    own_captures[mode]++;
}

/* As in the vendor's runtime, the thread that ends a capture is taken for the one that began it. */
static void mode_leaves(acl__graph *graph)
{
    WEIR_ASSERT(graph->context->captures[graph->mode] > 0);
    graph->context->captures[graph->mode]--;
    if (own_captures[graph->mode] > 0) {
        own_captures[graph->mode]--;
    }
}

/* --- graphs and their legs --- */

acl__graph *acl__graph_new(acl__context *context)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__graph *graph = calloc(1, sizeof(*graph));
    if (graph != NULL) {
        graph->context = context;
        graph->id = last_id++;
        graph->last_leg = &graph->legs;
        graph->last = &graph->first;
        graph->next = graphs;
        graphs = graph;
    }
    return graph;
}

aclError acl__graph_of(const void *handle, acl__graph **graph)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__graph *g = graphs;
    while (g != NULL && g != handle) {
        g = g->next;
    }
    ACL_FAIL_IF(g == NULL, ACL_ERROR_RT_INVALID_HANDLE, "%p is not a live graph", handle);
    *graph = g;
    return ACL_SUCCESS;
}

const acl__graph *acl__graph_first(void)
{
    WEIR_ASSERT_HELD(acl__mutex());
    return graphs;
}

acl__group *acl__group_find(const void *handle)
{
    WEIR_ASSERT_HELD(acl__mutex());
    for (const acl__graph *graph = graphs; graph != NULL; graph = graph->next) {
        for (acl__group *group = graph->groups; group != NULL; group = group->next) {
            if (group == handle) {
                return group;
            }
        }
    }
    return NULL;
}

void acl__graph_spoil(acl__graph *graph)
{
    graph->state = graph->state == ACL__CAPTURING ? ACL__BROKEN : graph->state;
}

/* Takes a stream into the capture of a graph. */
static aclError take_in(acl__graph *graph, acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(stream->leg == NULL);
    acl__leg *leg = calloc(1, sizeof(*leg));
    ACL_FAIL_IF(leg == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a leg of a graph");
    const aclError error = acl__stream_create(stream->context, stream->priority, 0, &leg->runs);
    if (error != ACL_SUCCESS) {
        free(leg);
        return error;
    }
    leg->graph = graph;
    leg->from = stream;
    *graph->last_leg = leg;
    graph->last_leg = &leg->next;
    leg->runs->is_hidden = true;
    stream->leg = leg;
    return ACL_SUCCESS;
}

/* Lets the captured streams go; they run their work again. */
static void let_go(acl__graph *graph)
{
    WEIR_ASSERT_HELD(acl__mutex());
    for (acl__leg *leg = graph->legs; leg != NULL; leg = leg->next) {
        if (leg->from != NULL) {
            WEIR_ASSERT(leg->from->leg == leg);
            leg->from->leg = NULL;
            leg->from = NULL;
        }
        leg->group = NULL;
    }
    for (acl__point *point = graph->points; point != NULL; point = point->next) {
        if (point->owner != NULL) {
            *point->owner = NULL;
            point->owner = NULL;
        }
    }
    graph->open_groups = 0;
}

bool acl__graph_is_running(const acl__graph *graph)
{
    WEIR_ASSERT_HELD(acl__mutex());
    for (const acl__leg *leg = graph->legs; leg != NULL; leg = leg->next) {
        if (leg->runs->held_first != NULL || !acl__has_arrived(leg->runs)) {
            return true;
        }
    }
    return false;
}

static void points_free(acl__point *point)
{
    while (point != NULL) {
        acl__point *next = point->next;
        acl__record_release(point->record);
        free(point);
        point = next;
    }
}

static void groups_free(acl__graph *graph)
{
    for (acl__stream *stream = acl__rt.first_stream; stream != NULL; stream = stream->next) {
        if (stream->exchanges != NULL && stream->exchanges->graph == graph) {
            stream->exchanges = NULL;
        }
    }
    for (acl__group *group = graph->groups; group != NULL;) {
        acl__group *next = group->next;
        free(group->steps);
        free(group);
        group = next;
    }
}

static void kept_free(acl__kept *kept)
{
    while (kept != NULL) {
        acl__kept *next = kept->next;
        free(kept);
        kept = next;
    }
}

/* --- functions of the program that are called when a graph is destroyed --- */

typedef struct acl__farewell {
    struct acl__farewell *next;
    aclrtCallback function;
    void *data;
} acl__farewell;

static acl__farewell **farewell_at(acl__graph *graph, aclrtCallback function)
{
    acl__farewell **link = &graph->farewells;
    while (*link != NULL && (*link)->function != function) {
        link = &(*link)->next;
    }
    return link;
}

aclError acl__graph_add_farewell(acl__graph *graph, aclrtCallback function, void *data)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__farewell **link = farewell_at(graph, function);
    ACL_FAIL_IF(*link != NULL, ACL_ERROR_RT_PARAM_INVALID, "the function is registered for the graph already");
    acl__farewell *made = malloc(sizeof(*made));
    ACL_FAIL_IF(made == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory to register a function");
    *made = (acl__farewell){.function = function, .data = data};
    *link = made;
    return ACL_SUCCESS;
}

aclError acl__graph_remove_farewell(acl__graph *graph, aclrtCallback function)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__farewell **link = farewell_at(graph, function);
    acl__farewell *gone = *link;
    ACL_FAIL_IF(gone == NULL, ACL_ERROR_RT_PARAM_INVALID, "the function is not registered for the graph");
    *link = gone->next;
    free(gone);
    return ACL_SUCCESS;
}

/* Calls the functions of a graph that no call finds any more; the lock is released meanwhile. */
static void farewells_say(acl__graph *graph)
{
    WEIR_ASSERT_HELD(acl__mutex());
    while (graph->farewells != NULL) {
        acl__farewell *said = graph->farewells;
        graph->farewells = said->next;
        acl__unlock();
        said->function(said->data);
        acl__lock();
        free(said);
    }
}

void acl__graph_free(acl__graph *graph)
{
    WEIR_ASSERT_HELD(acl__mutex());
    let_go(graph);
    for (acl__leg *leg = graph->legs; leg != NULL;) {
        acl__leg *next = leg->next;
        acl__stream_end_now(leg->runs);
        free(leg);
        leg = next;
    }
    acl__steps_end(graph->first);
    points_free(graph->points);
    groups_free(graph);
    kept_free(graph->kept);
    acl__graph **link = &graphs;
    while (*link != graph) {
        link = &(*link)->next;
    }
    *link = graph->next;
    if (acl__rt.above.graph_ended != NULL) {
        acl__rt.above.graph_ended(graph->conditions);
    }
    farewells_say(graph);
    free(graph);
}

/* Ends a capture without a graph. A branch stays with its condition. */
static void give_up(acl__graph *graph)
{
    if (graph->branch_of != NULL) {
        let_go(graph);
        graph->state = ACL__BROKEN;
    } else {
        acl__graph_free(graph);
    }
}

void acl__captures_end_of(const acl__context *context)
{
    WEIR_ASSERT_HELD(acl__mutex());
    for (acl__graph *graph = graphs; graph != NULL; graph = graph->next) {
        if (graph->context == context && graph->state != ACL__READY) {
            let_go(graph);
            graph->state = ACL__BROKEN;
        }
    }
}

void acl__graphs_end_of(const acl__context *context)
{
    WEIR_ASSERT_HELD(acl__mutex());
    for (acl__graph *graph = graphs; graph != NULL;) {
        if (graph->context == context && graph->branch_of == NULL) {
            acl__graph_free(graph);
            graph = graphs; /* the branches of its conditions have gone with it */
        } else {
            graph = graph->next;
        }
    }
}

/* --- begin and end of a capture --- */

aclError acl__capture_begin(acl__stream *stream, aclmdlRICaptureMode mode, acl__graph *into)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__graph *graph = into != NULL ? into : acl__graph_new(stream->context);
    ACL_FAIL_IF(graph == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a graph");
    const aclError error = take_in(graph, stream);
    if (error != ACL_SUCCESS) {
        if (into == NULL) {
            acl__graph_free(graph);
        }
        return error;
    }
    graph->state = ACL__CAPTURING;
    mode_enters(graph, mode);
    return ACL_SUCCESS;
}

/* Refuses a graph with a leg that did not come back to the origin. */
static aclError check_joined(const acl__graph *graph)
{
    const acl__leg *origin = graph->legs;
    bool comes_back = origin->next == NULL;
    for (const acl__leg *leg = origin->next; leg != NULL; leg = leg->next) {
        ACL_FAIL_IF(leg->last == NULL || !leg->last->ops->records, ACL_ERROR_RT_STREAM_UNJOINED,
                    "stream %d was taken into the capture, and its last call is no recording of an event",
                    leg->from->id);
        const acl__point *point = *(acl__point *const *)(const void *)leg->last->args;
        ACL_FAIL_IF(!point->is_awaited, ACL_ERROR_RT_STREAM_UNJOINED,
                    "no stream of the capture waits for the last recording of stream %d", leg->from->id);
        comes_back = comes_back || point->origin_waits;
    }
    ACL_FAIL_IF(!comes_back, ACL_ERROR_RT_STREAM_UNJOINED,
                "the stream that the capture began on waits for no other stream of the capture");
    return ACL_SUCCESS;
}

static aclError check_end(const acl__graph *graph)
{
    ACL_FAIL_IF(graph->state == ACL__BROKEN, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
                "an earlier call of the capture failed");
    for (const acl__graph *branch = graphs; branch != NULL; branch = branch->next) {
        ACL_FAIL_IF(branch->branch_of != NULL && branch->parent == graph && branch->state == ACL__CAPTURING,
                    ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING, "a branch of a condition is still being captured");
    }
    ACL_FAIL_IF(graph->open_groups > 0, ACL_ERROR_STREAM_TASK_GROUP_STATUS, "a task group is not closed");
    return check_joined(graph);
}

aclError acl__capture_end(acl__stream *stream, acl__graph **out)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(stream->leg != NULL);
    acl__graph *graph = stream->leg->graph;
    ACL_FAIL_IF(stream->leg != graph->legs, ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, "the capture began on stream %d",
                graph->legs->from->id);
    aclError error = ACL_SUCCESS;
    if (graph->mode != ACL_MODEL_RI_CAPTURE_MODE_RELAXED && graph->thread != own_number()) {
        error = acl__fail(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD, "another thread began the capture; it is given up");
    }
    mode_leaves(graph);
    error = error == ACL_SUCCESS ? check_end(graph) : error;
    if (error != ACL_SUCCESS) {
        give_up(graph);
        return error;
    }
    let_go(graph);
    graph->state = ACL__READY;
    *out = graph;
    return ACL_SUCCESS;
}

/* --- events of a capture --- */

static aclError record_again(acl__stream *on, void *args)
{
    const acl__point *point = *(acl__point **)args;
    return acl__record_queue_as(on, point->record);
}

static aclError wait_again(acl__stream *on, void *args)
{
    const acl__point *point = *(acl__point **)args;
    return acl__record_wait_queue(on, point->record);
}

static const acl__step_ops record_ops = {.name = "record", .again = record_again, .records = true};
static const acl__step_ops wait_ops = {.name = "wait", .again = wait_again};

/* Gives an event a new point, in place of its last one. */
static aclError point_new(acl__leg *leg, acl__point **place)
{
    acl__point *point = calloc(1, sizeof(*point));
    ACL_FAIL_IF(point == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for recording an event");
    point->leg = leg;
    point->next = leg->graph->points;
    leg->graph->points = point;
    point->owner = place;
    *place = point;
    return ACL_SUCCESS;
}

/* An event that was recorded in another capture belongs to this one from now on, until either ends. An event whose
 * recording failed stays with its capture. (The vendor's: ApiImpl::CaptureEventRecord, ApiImpl::GetCaptureEvent,
 * CaptureModel::ExitCaptureNotify.) */
aclError acl__capture_record(acl__stream *stream, acl__point **place)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__graph *graph = stream->leg->graph;
    if (*place == NULL || (*place)->is_recorded) {
        ACL_TRY(point_new(stream->leg, place));
    }
    acl__point *point = *place;
    if (point->leg->graph != graph) {
        acl__graph_spoil(graph);
        acl__graph_spoil(point->leg->graph);
        return acl__fail(ACL_ERROR_STREAM_CAPTURE_CONFLICT, "the event is part of another capture");
    }
    point->leg = stream->leg;
    const aclError error = acl__capture(stream, &record_ops, &point, sizeof(point));
    if (error != ACL_SUCCESS) {
        acl__graph_spoil(graph);
        return error;
    }
    point->is_recorded = true;
    return ACL_SUCCESS;
}

void acl__capture_forget(acl__point **place)
{
    WEIR_ASSERT_HELD(acl__mutex());
    for (const acl__graph *graph = graphs; graph != NULL && *place != NULL; graph = graph->next) {
        for (acl__point *point = graph->points; point != NULL; point = point->next) {
            point->owner = point->owner == place ? NULL : point->owner;
        }
    }
    *place = NULL;
}

/* Orders the streams for the auditor as the captured event will order the legs: blocks that were announced on one, in
 * the capture or before it, may be handed out on the other. */
static aclError order_announced(acl__stream *later, acl__leg *earlier)
{
    if (earlier->from == later) {
        return ACL_SUCCESS;
    }
    acl__record *record = acl__record_new();
    ACL_FAIL_IF(record == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for an order");
    weir_status status = weir_device_event_record(acl__rt.memory, record->sim, earlier->from->sim);
    if (status == WEIR_OK) {
        status = weir_device_stream_wait_event(acl__rt.memory, later->sim, record->sim);
    }
    acl__record_release(record);
    return acl__status(status, "an order within a capture");
}

static aclError wait_in_capture(acl__stream *stream, acl__point *point)
{
    acl__graph *graph = point->leg->graph;
    if (stream->leg == NULL) {
        ACL_FAIL_IF(graph->state != ACL__CAPTURING, ACL_ERROR_RT_INTERNAL_ERROR,
                    "an earlier call of the capture failed");
        ACL_TRY(take_in(graph, stream));
    }
    if (stream->leg->graph != graph) {
        acl__graph_spoil(stream->leg->graph);
        return acl__fail(ACL_ERROR_STREAM_CAPTURE_CONFLICT, "stream %d and the event are parts of different captures",
                         stream->id);
    }
    ACL_TRY(acl__capture(stream, &wait_ops, &point, sizeof(point)));
    point->is_awaited = true;
    point->origin_waits = point->origin_waits || (stream->leg == graph->legs && point->leg != graph->legs);
    return order_announced(stream, point->leg);
}

aclError acl__capture_wait(acl__stream *stream, acl__point *point)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(point->owner != NULL);
    ACL_FAIL_IF(stream == stream->context->default_stream, ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
                "a default stream cannot be captured");
    const aclError error = wait_in_capture(stream, point);
    if (error != ACL_SUCCESS) {
        acl__graph_spoil(point->leg->graph);
    }
    return error;
}

/* --- blocks of a capture --- */

/* The announcement of a block as a task, so that it comes in the order of its stream. */
struct announcement {
    acl__task task; /* first member */
    acl__kept *kept;
    bool hands_out;
};

static bool overlap(const acl__kept *a, const acl__kept *b)
{
    return a->address < b->address + b->size && b->address < a->address + a->size;
}

/* Takes the memory of a block back from the later blocks of the graph that have it since the capture or the last
 * execution. */
static void displace_later(acl__stream *stream, const acl__kept *earlier)
{
    for (acl__kept *later = earlier->graph->kept; later != earlier; later = later->next) {
        if (overlap(later, earlier) && (later->replayed || (later->live && !later->displaced))) {
            weir_sim_block_free(acl__rt.sim, later->address, stream->sim, later->tag);
            later->replayed = false;
            later->displaced = later->live;
        }
    }
}

static aclError announce_submit(acl__stream *stream, acl__task *task)
{
    const struct announcement *a = (const struct announcement *)(const void *)task;
    acl__kept *kept = a->kept;
    if (a->hands_out && kept->followed) {
        displace_later(stream, kept);
    }
    if (a->hands_out && (!kept->live || kept->displaced)) {
        weir_sim_block_alloc(acl__rt.sim, kept->address, kept->size, stream->sim, kept->tag);
        kept->replayed = !kept->live;
        kept->displaced = false;
    } else if (!a->hands_out && kept->replayed) {
        weir_sim_block_free(acl__rt.sim, kept->address, stream->sim, kept->tag);
        kept->replayed = false;
    }
    return ACL_SUCCESS;
}

static void announce_end(acl__task *task)
{
    free(task);
}

static const acl__task_ops announce_ops = {.submit = announce_submit, .end = announce_end};

static aclError announce(acl__stream *on, acl__kept *kept, bool hands_out)
{
    struct announcement *a = calloc(1, sizeof(*a));
    ACL_FAIL_IF(a == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a task");
    a->task.ops = &announce_ops;
    a->kept = kept;
    a->hands_out = hands_out;
    return acl__queue(on, &a->task);
}

static aclError hand_out_again(acl__stream *on, void *args)
{
    return announce(on, *(acl__kept **)args, true);
}

static aclError take_back_again(acl__stream *on, void *args)
{
    return announce(on, *(acl__kept **)args, false);
}

static const acl__step_ops hand_out_ops = {.name = "block", .again = hand_out_again};
static const acl__step_ops take_back_ops = {.name = "block's end", .again = take_back_again};

void acl__announce_alloc(const void *pointer, uint64_t size, acl__stream *stream, const char *tag)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(stream->sim != NULL);
    weir_sim_block_alloc(acl__rt.sim, (uint64_t)(uintptr_t)pointer, size, stream->sim, tag);
    acl__kept *kept = stream->leg != NULL ? calloc(1, sizeof(*kept)) : NULL;
    if (kept == NULL) {
        return;
    }
    kept->address = (uint64_t)(uintptr_t)pointer;
    kept->size = size;
    kept->live = true;
    kept->graph = stream->leg->graph;
    (void)strncpy(kept->tag, tag != NULL ? tag : "block", sizeof(kept->tag) - 1);
    if (acl__capture(stream, &hand_out_ops, &kept, sizeof(kept)) != ACL_SUCCESS) {
        free(kept);
        return;
    }
    for (acl__kept *earlier = kept->graph->kept; earlier != NULL; earlier = earlier->next) {
        earlier->followed = earlier->followed || overlap(earlier, kept);
    }
    kept->next = kept->graph->kept;
    kept->graph->kept = kept;
}

/* Returns the live block of any graph at an address, or NULL. */
static acl__kept *kept_at(uint64_t address, const acl__graph **owner)
{
    WEIR_ASSERT_HELD(acl__mutex());
    for (const acl__graph *graph = graphs; graph != NULL; graph = graph->next) {
        for (acl__kept *kept = graph->kept; kept != NULL; kept = kept->next) {
            if (kept->live && kept->address == address) {
                *owner = graph;
                return kept;
            }
        }
    }
    return NULL;
}

void acl__announce_free(const void *pointer, acl__stream *stream, const char *tag)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(stream->sim != NULL);
    const acl__graph *owner = NULL;
    acl__kept *kept = kept_at((uint64_t)(uintptr_t)pointer, &owner);
    const bool inside = kept != NULL && stream->leg != NULL && stream->leg->graph == owner;
    if (kept == NULL || !kept->displaced) {
        /* What the stream had queued before the capture has not touched a block of the capture. */
        weir_sim_block_free(acl__rt.sim, (uint64_t)(uintptr_t)pointer, inside ? stream->leg->runs->sim : stream->sim,
                            tag);
    }
    if (kept == NULL) {
        return;
    }
    kept->live = false;
    kept->displaced = false;
    if (inside) {
        (void)acl__capture(stream, &take_back_ops, &kept, sizeof(kept));
    }
}

/* --- execution --- */

static aclError begin_points(acl__graph *graph)
{
    for (acl__point *point = graph->points; point != NULL; point = point->next) {
        acl__record_release(point->record);
        point->record = acl__record_new();
        ACL_FAIL_IF(point->record == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for recording an event");
    }
    return ACL_SUCCESS;
}

aclError acl__graph_run(acl__graph *graph, acl__stream *carrier, acl__record *after, acl__record **end)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(graph->state == ACL__READY);
    ACL_TRY(begin_points(graph));
    for (acl__leg *leg = graph->legs; leg != NULL; leg = leg->next) {
        leg->runs->carrier = carrier;
        leg->runs->carrier_id = carrier->id;
        ACL_TRY(acl__record_wait_queue(leg->runs, after));
    }
    for (acl__step *step = graph->first; step != NULL; step = step->next) {
        ACL_TRY(step->ops->again(step->leg->runs, step->args));
    }
    acl__stream *origin = graph->legs->runs;
    for (acl__kept *kept = graph->kept; kept != NULL; kept = kept->next) {
        if (!kept->live) { /* its end is the graph's, unless the capture has a step for it */
            ACL_TRY(announce(origin, kept, false));
        }
    }
    aclError error = ACL_SUCCESS;
    *end = acl__record_queue(origin, &error);
    return error;
}

aclError acl__graph_execute(acl__graph *graph, acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    aclError error = ACL_SUCCESS;
    acl__record *end = NULL;
    acl__record *begin = acl__record_queue(stream, &error);
    ACL_TRY(error);
    error = acl__graph_run(graph, stream, begin, &end);
    acl__record_release(begin);
    ACL_TRY(error);
    error = acl__record_wait_queue(stream, end);
    acl__record_release(end);
    return error;
}
