/* part.c: makes a trace of a part of a trace: the events of one device, of a window, of some streams.
 *
 * Idea: the first pass finds the stream of each block and the device of each event object. For a window, the second
 * pass plays the events before it, which leaves the blocks that are live at its start and the memory that the recorded
 * allocator holds there. The third pass finds the streams that remain, and the last one hands the events that remain to
 * the builder. The cost is linear in the events, and O(log n) for each s or z line before a window, of n pieces held.
 */
#include "trace_internal.h"

#include "shared/round_up.h"
#include "shared/tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { recorded_granule = 512 }; /* PyTorch's allocators round the sizes of blocks up to a multiple of this */

/* Memory that the recorded allocator holds at the start of a window. Pieces of one device do not overlap. */
struct piece {
    weir__tree_node node; /* start, end */
    size_t event;         /* number of the event that took the memory */
};

/* The memory of one device. */
struct held {
    weir__tree pieces;
    uint64_t blind_bytes; /* bytes held at unknown addresses */
    size_t blind_event;   /* the latest event that took memory at an unknown address */
};

struct selection {
    const struct trace *from;
    uint32_t device; /* TRACE_NO_INDEX: all */
    size_t first;    /* the window: events first .. end - 1 */
    size_t end;
    bool *listed;           /* [stream_count]: the selection keeps blocks of these streams; NULL: of all streams */
    bool *touched;          /* [stream_count]: listed streams, and streams that use or free a kept block */
    bool *live;             /* [block_count]: the block is live at the start of the window */
    struct held *held;      /* [device_count]: memory held at the start of the window */
    uint32_t *block_stream; /* [block_count]: the stream that allocated the block */
    /* [object_count]: device of each event object; TRACE_NO_INDEX: no stream records it or waits for it */
    uint32_t *object_device;
    uint32_t *streams; /* [stream_count]: stream numbers in the new trace; TRACE_NO_INDEX: left out */
    uint32_t *blocks;
    uint32_t *objects;
    uint32_t block_count;
    uint32_t object_count;
    size_t event_count; /* events that remain */
    size_t births;      /* kept events that allocate a block */
    size_t *begun; /* [capture_pool_count]: event of the capture under way at the start of the window, + 1; 0: none */
    bool *pool_stays;  /* [capture_pool_count]: the selection keeps a capture of the capture pool */
    uint64_t capacity; /* the latest capacity from an event before the window; 0 = no event sets one */
    struct trace_part part;
    struct trace_builder builder;
};

static uint32_t *make_numbers(size_t count)
{
    uint32_t *numbers = malloc((count + 1) * sizeof(*numbers));
    if (numbers != NULL) {
        memset(numbers, 0xff, (count + 1) * sizeof(*numbers)); /* TRACE_NO_INDEX */
    }
    return numbers;
}

static bool no_memory(const struct trace *trace, struct trace_error *error)
{
    return trace_say(error, WEIR_ERR_NO_MEMORY, trace->path, "out of memory");
}

static bool start_selection(struct selection *selection)
{
    const struct trace *from = selection->from;
    selection->touched = calloc(from->stream_count, sizeof(bool));
    selection->live = calloc((size_t)from->block_count + 1, sizeof(bool));
    selection->held = calloc(from->device_count, sizeof(*selection->held));
    selection->block_stream = make_numbers(from->block_count);
    selection->object_device = make_numbers(from->object_count);
    selection->streams = make_numbers(from->stream_count);
    selection->blocks = make_numbers(from->block_count);
    selection->objects = make_numbers(from->object_count);
    selection->begun = calloc((size_t)from->capture_pool_count + 1, sizeof(*selection->begun));
    selection->pool_stays = calloc((size_t)from->capture_pool_count + 1, sizeof(bool));
    return selection->touched != NULL && selection->live != NULL && selection->held != NULL &&
           selection->block_stream != NULL && selection->object_device != NULL && selection->streams != NULL &&
           selection->blocks != NULL && selection->objects != NULL && selection->begun != NULL &&
           selection->pool_stays != NULL;
}

static struct piece *piece_of(weir__tree_node *node)
{
    return (struct piece *)(void *)((char *)node - offsetof(struct piece, node));
}

static void end_selection(struct selection *selection)
{
    for (uint32_t d = 0; selection->held != NULL && d < selection->from->device_count; d++) {
        weir__tree *pieces = &selection->held[d].pieces;
        for (weir__tree_node *node = pieces->root; node != NULL; node = pieces->root) {
            weir__tree_remove(pieces, node);
            free(piece_of(node));
        }
    }
    free(selection->listed);
    free(selection->touched);
    free(selection->live);
    free(selection->held);
    free(selection->block_stream);
    free(selection->object_device);
    free(selection->streams);
    free(selection->blocks);
    free(selection->objects);
    free(selection->begun);
    free(selection->pool_stays);
}

static void find_owners(struct selection *selection)
{
    const struct trace *from = selection->from;
    for (size_t i = 0; i < from->event_count; i++) {
        const struct trace_event *entry = &from->events[i];
        switch (entry->event.kind) {
        case WEIR_TRACE_PRIOR:
        case WEIR_TRACE_ALLOC:
            selection->block_stream[entry->index] = entry->event.stream;
            break;
        case WEIR_TRACE_REALLOC:
            selection->block_stream[entry->index] = selection->block_stream[entry->old_index];
            break;
        case WEIR_TRACE_RECORD:
        case WEIR_TRACE_WAIT:
            if (selection->object_device[entry->index] == TRACE_NO_INDEX) {
                selection->object_device[entry->index] = from->stream_device[entry->event.stream];
            }
            break;
        default:
            break;
        }
    }
}

/* --- the state at the start of a window --- */

static bool add_piece(weir__tree *pieces, size_t event, uint64_t start, uint64_t end)
{
    struct piece *piece = malloc(sizeof(*piece));
    if (piece != NULL) {
        *piece = (struct piece){.node = {.start = start, .end = end}, .event = event};
        weir__tree_insert(pieces, &piece->node);
    }
    return piece != NULL;
}

/* Returns the first piece that ends behind the address, or NULL. */
static weir__tree_node *first_behind(const weir__tree *pieces, uint64_t address)
{
    weir__tree_node *node = weir__tree_floor(pieces, address);
    if (node == NULL) {
        return weir__tree_end(pieces, 0);
    }
    return node->end > address ? node : weir__tree_step(node, 1);
}

/* Removes the range start .. end from all pieces. */
static bool cut(weir__tree *pieces, uint64_t start, uint64_t end)
{
    bool done = true;
    for (weir__tree_node *node = first_behind(pieces, start); done && node != NULL && node->start < end;
         node = first_behind(pieces, start)) {
        struct piece *piece = piece_of(node);
        weir__tree_remove(pieces, node);
        done = (node->start >= start || add_piece(pieces, piece->event, node->start, start)) &&
               (node->end <= end || add_piece(pieces, piece->event, end, node->end));
        free(piece);
    }
    return done;
}

/* Plays an `s` or `z` event (segment or mapping). As in recorded_run.c, memory that is taken twice was returned in
 * between, and the return of memory that is not held has no effect. */
static bool move_memory(struct selection *selection, size_t index)
{
    const weir_trace_event *event = &selection->from->events[index].event;
    struct held *held = &selection->held[trace_event_device(selection->from, event)];
    const bool takes = event->mode == '+';
    if (event->address == 0 || event->size > UINT64_MAX - event->address) {
        const uint64_t bytes = held->blind_bytes;
        held->blind_bytes = takes ? bytes + (event->size < UINT64_MAX - bytes ? event->size : UINT64_MAX - bytes)
                                  : bytes - (event->size < bytes ? event->size : bytes);
        held->blind_event = takes ? index : held->blind_event;
        return true;
    }
    const uint64_t end = event->address + event->size;
    return cut(&held->pieces, event->address, end) && (!takes || add_piece(&held->pieces, index, event->address, end));
}

/* Plays the events before the window. Blocks that are older than the trace (`p` lines) are live from the beginning,
 * wherever their lines stand. Returns false when out of host memory. */
static bool find_state(struct selection *selection)
{
    const struct trace *from = selection->from;
    bool done = true;
    for (size_t i = 0; i < from->event_count; i++) {
        if (from->events[i].event.kind == WEIR_TRACE_PRIOR) {
            selection->live[from->events[i].index] = true;
        }
    }
    for (size_t i = 0; i < selection->first && done; i++) {
        const struct trace_event *entry = &from->events[i];
        switch (entry->event.kind) {
        case WEIR_TRACE_ALLOC:
            selection->live[entry->index] = true;
            break;
        case WEIR_TRACE_REALLOC:
            selection->live[entry->index] = true;
            selection->live[entry->old_index] = false;
            break;
        case WEIR_TRACE_FREE:
            selection->live[entry->index] = false;
            break;
        case WEIR_TRACE_SEGMENT:
        case WEIR_TRACE_MAPPING:
            done = move_memory(selection, i);
            break;
        case WEIR_TRACE_CAPACITY:
            selection->capacity = entry->event.size;
            break;
        case WEIR_TRACE_CAPTURE:
            selection->begun[entry->event.pool] = entry->event.mode == 'B' ? i + 1 : 0;
            break;
        default:
            break;
        }
    }
    return done;
}

/* --- the events that remain --- */

/* True if the stream belongs to the device of the selection. */
static bool runs_here(const struct selection *selection, uint32_t stream)
{
    return selection->device == TRACE_NO_INDEX || selection->from->stream_device[stream] == selection->device;
}

/* True if the selection keeps the blocks and the recorded memory of the stream. An event without a stream
 * (WEIR_TRACE_NONE) concerns the whole device, and is kept only if all streams are. */
static bool is_listed(const struct selection *selection, uint32_t stream)
{
    return selection->listed == NULL || (stream != WEIR_TRACE_NONE && selection->listed[stream]);
}

static bool block_stays(const struct selection *selection, uint32_t block)
{
    const uint32_t stream = selection->block_stream[block];
    return runs_here(selection, stream) && is_listed(selection, stream);
}

/* True if the selection keeps the work and the waits of the stream. */
static bool stream_stays(const struct selection *selection, uint32_t stream)
{
    return runs_here(selection, stream) && (selection->listed == NULL || selection->touched[stream]);
}

static bool object_stays(const struct selection *selection, uint32_t object)
{
    return selection->device == TRACE_NO_INDEX || selection->object_device[object] == selection->device;
}

/* True if the selection keeps the event. *event is then a copy with the old numbers of stream, block and object. */
static bool remains(const struct selection *selection, const struct trace_event *entry, weir_trace_event *event)
{
    *event = entry->event;
    switch (event->kind) {
    case WEIR_TRACE_PRIOR:
    case WEIR_TRACE_ALLOC:
    case WEIR_TRACE_SEGMENT:
    case WEIR_TRACE_MAPPING:
    case WEIR_TRACE_OOM:
    case WEIR_TRACE_COUNTERS:
        event->device = trace_event_device(selection->from, event);
        return (selection->device == TRACE_NO_INDEX || event->device == selection->device) &&
               is_listed(selection, event->stream);
    case WEIR_TRACE_FREE:
        if (event->stream != WEIR_TRACE_NONE && !runs_here(selection, event->stream)) {
            event->stream = selection->block_stream[entry->index];
        }
        return block_stays(selection, entry->index);
    case WEIR_TRACE_REALLOC:
        return block_stays(selection, entry->old_index);
    case WEIR_TRACE_USE:
        return block_stays(selection, entry->index) && runs_here(selection, event->stream);
    case WEIR_TRACE_RECORD:
    case WEIR_TRACE_WAIT:
        return stream_stays(selection, event->stream) && object_stays(selection, entry->index);
    case WEIR_TRACE_SYNC:
        if (event->mode == 'e') {
            return object_stays(selection, entry->index);
        }
        return event->stream == WEIR_TRACE_NONE || stream_stays(selection, event->stream);
    case WEIR_TRACE_CAPTURE:
        return event->mode == 'R' ? selection->pool_stays[event->pool] : stream_stays(selection, event->stream);
    case WEIR_TRACE_WORK:
    case WEIR_TRACE_TRIM:
    default: /* an event of these kinds without a stream concerns every device and stream */
        return event->stream == WEIR_TRACE_NONE || stream_stays(selection, event->stream);
    }
}

/* Finds the streams that use or free a block that the selection keeps. */
static void find_touched(struct selection *selection)
{
    const struct trace *from = selection->from;
    for (uint32_t s = 0; s < from->stream_count && selection->listed != NULL; s++) {
        selection->touched[s] = selection->listed[s];
    }
    for (size_t i = selection->first; i < selection->end && selection->listed != NULL; i++) {
        const struct trace_event *entry = &from->events[i];
        const weir_trace_kind kind = entry->event.kind;
        if ((kind == WEIR_TRACE_USE || kind == WEIR_TRACE_FREE) && entry->event.stream != WEIR_TRACE_NONE &&
            block_stays(selection, entry->index)) {
            selection->touched[entry->event.stream] = true;
        }
    }
}

/* Finds the capture pools of captures that the selection keeps. */
static void find_capture_pools(struct selection *selection)
{
    const struct trace *from = selection->from;
    for (uint32_t pool = 0; pool < from->capture_pool_count; pool++) {
        const size_t begun = selection->begun[pool];
        selection->pool_stays[pool] = begun != 0 && stream_stays(selection, from->events[begun - 1].event.stream);
    }
    for (size_t i = selection->first; i < selection->end; i++) {
        const weir_trace_event *event = &from->events[i].event;
        if (event->kind == WEIR_TRACE_CAPTURE && event->mode == 'B' && stream_stays(selection, event->stream)) {
            selection->pool_stays[event->pool] = true;
        }
    }
}

/* Receives one event that the selection keeps. Its stream, block and object have their numbers in the old trace. */
typedef bool take_event(struct selection *selection, const struct trace_event *entry, weir_trace_event *event,
                        uint64_t number);

/* Passes to `take` the memory that one device holds at the start of the window, in the order of the addresses. */
static bool each_held(struct selection *selection, uint32_t device, take_event *take)
{
    const struct trace *from = selection->from;
    const struct held *held = &selection->held[device];
    const uint64_t number = trace_event_number(from, selection->first);
    const uint64_t now = from->events[selection->first].event.time_ns;
    weir_trace_event event;
    bool done = true;
    if (held->blind_bytes > 0 && remains(selection, &from->events[held->blind_event], &event)) {
        event.time_ns = now;
        event.size = held->blind_bytes;
        done = take(selection, &from->events[held->blind_event], &event, number);
    }
    for (weir__tree_node *node = weir__tree_end(&held->pieces, 0); node != NULL && done;
         node = weir__tree_step(node, 1)) {
        const struct trace_event *entry = &from->events[piece_of(node)->event];
        if (remains(selection, entry, &event)) {
            event.time_ns = now;
            event.address = node->start;
            event.size = node->end - node->start;
            done = take(selection, entry, &event, number);
        }
    }
    return done;
}

/* Returns the size that the new trace gives a block live at its start. If the recorded allocator was one of PyTorch's,
 * that is the rounded size of the block, as the import of a snapshot has it (README.md); else the requested size. */
static uint64_t size_at_start(const struct trace *trace, const weir_trace_event *event)
{
    const bool rounded =
        trace->pad_bytes >= 0 && (trace->has_segments || trace->expandable) && event->size < UINT64_MAX / 2;
    if (event->kind == WEIR_TRACE_PRIOR || !rounded) {
        return event->size;
    }
    return round_up(event->size + (uint64_t)trace->pad_bytes, recorded_granule);
}

/* Passes to `take` the blocks that are live at the start of the window, in the order of their allocation. */
static bool each_live(struct selection *selection, take_event *take)
{
    const struct trace *from = selection->from;
    bool done = true;
    for (size_t i = 0; i < from->event_count && done; i++) {
        const struct trace_event *entry = &from->events[i];
        const weir_trace_kind kind = entry->event.kind;
        if (i >= selection->first && kind != WEIR_TRACE_PRIOR) {
            continue;
        }
        if ((kind != WEIR_TRACE_PRIOR && kind != WEIR_TRACE_ALLOC && kind != WEIR_TRACE_REALLOC) ||
            !selection->live[entry->index] || !block_stays(selection, entry->index)) {
            continue;
        }
        const uint32_t stream = selection->block_stream[entry->index];
        weir_trace_event event = {.kind = WEIR_TRACE_PRIOR,
                                  .device = from->stream_device[stream],
                                  .stream = stream,
                                  .thread = entry->event.thread,
                                  .tag = entry->event.tag,
                                  .pool = entry->event.pool,
                                  .id = entry->event.id,
                                  .size = size_at_start(from, &entry->event),
                                  .address = entry->event.address};
        const struct trace_event born = {.event = event, .index = entry->index, .old_index = TRACE_NO_INDEX};
        done = take(selection, &born, &event, trace_event_number(from, selection->first));
    }
    return done;
}

/* Passes to `take` the captures that are under way at the start of the window. */
static bool each_begun(struct selection *selection, take_event *take)
{
    const struct trace *from = selection->from;
    bool done = true;
    for (uint32_t pool = 0; pool < from->capture_pool_count && done; pool++) {
        weir_trace_event event;
        const size_t begun = selection->begun[pool];
        if (begun != 0 && remains(selection, &from->events[begun - 1], &event)) {
            event.time_ns = from->events[selection->first].event.time_ns;
            done = take(selection, &from->events[begun - 1], &event, trace_event_number(from, selection->first));
        }
    }
    return done;
}

/* Passes to `take` the state at the start of the window, then the kept events of the window. If the window begins with
 * the trace, that state is the trace's own. */
static bool each_event(struct selection *selection, take_event *take)
{
    const struct trace *from = selection->from;
    weir_trace_event event;
    bool done = true;
    for (uint32_t d = 0; d < from->device_count && selection->first > 0 && done; d++) {
        done = each_held(selection, d, take);
    }
    if (selection->first > 0 && done) {
        done = each_live(selection, take) && each_begun(selection, take);
    }
    for (size_t i = selection->first; i < from->event_count && done; i++) {
        const struct trace_event *entry = &from->events[i];
        const bool prior = entry->event.kind == WEIR_TRACE_PRIOR;
        const bool inside = prior ? selection->first == 0 : i < selection->end;
        if (inside && remains(selection, entry, &event)) {
            done = take(selection, entry, &event, trace_event_number(from, i));
        }
    }
    return done;
}

static bool count_event(struct selection *selection, const struct trace_event *entry, weir_trace_event *event,
                        uint64_t number)
{
    (void)entry;
    (void)number;
    selection->event_count++;
    selection->births += event->kind == WEIR_TRACE_PRIOR || event->kind == WEIR_TRACE_ALLOC;
    if (event->stream != WEIR_TRACE_NONE) {
        selection->streams[event->stream] = 0;
    }
    return true;
}

static void number_streams(struct selection *selection)
{
    uint32_t count = 0;
    (void)each_event(selection, count_event);
    for (uint32_t s = 0; s < selection->from->stream_count; s++) {
        selection->streams[s] = selection->streams[s] == 0 ? count++ : TRACE_NO_INDEX;
    }
}

/* --- the new trace --- */

/* Returns the number of a block or an event object in the new trace. The first call for it assigns the number. */
static uint32_t renumber(uint32_t *numbers, uint32_t old, uint32_t *count)
{
    if (old != TRACE_NO_INDEX && numbers[old] == TRACE_NO_INDEX) {
        numbers[old] = (*count)++;
    }
    return old == TRACE_NO_INDEX ? TRACE_NO_INDEX : numbers[old];
}

static bool copy_event(struct selection *selection, const struct trace_event *entry, weir_trace_event *event,
                       uint64_t number)
{
    struct trace *to = selection->builder.trace;
    const bool names_object =
        event->kind == WEIR_TRACE_RECORD || event->kind == WEIR_TRACE_WAIT || event->kind == WEIR_TRACE_SYNC;
    const uint32_t old_index = renumber(selection->blocks, entry->old_index, &selection->block_count);
    const uint32_t index = names_object ? renumber(selection->objects, entry->index, &selection->object_count)
                                        : renumber(selection->blocks, entry->index, &selection->block_count);
    if (event->stream != WEIR_TRACE_NONE) {
        event->stream = selection->streams[event->stream];
    }
    if (event->name != NULL) {
        event->name = builder_text(&selection->builder, event->name, strlen(event->name));
        if (event->name == NULL) {
            return builder_no_memory(&selection->builder);
        }
    }
    to->numbers[to->event_count] = number;
    return builder_event(&selection->builder, event, index, old_index, trace_takes_memory(event->kind));
}

static bool copy_events(struct selection *selection)
{
    const struct trace *from = selection->from;
    struct trace *to = selection->builder.trace;
    to->numbers = calloc(selection->event_count + 1, sizeof(*to->numbers));
    if (to->numbers == NULL) {
        return builder_no_memory(&selection->builder);
    }
    if (!each_event(selection, copy_event)) {
        return false;
    }
    /* a stream keeps its device even if it takes no memory in this part */
    for (uint32_t s = 0; s < from->stream_count; s++) {
        if (selection->streams[s] != TRACE_NO_INDEX) {
            to->stream_device[selection->streams[s]] = from->stream_device[s];
        }
    }
    return true;
}

static bool copy_devices(struct selection *selection)
{
    struct trace_builder *builder = &selection->builder;
    const struct trace *from = selection->from;
    if (builder_device(builder, from->device_count - 1) == NULL) {
        return builder_no_memory(builder);
    }
    for (uint32_t d = 0; d < from->device_count; d++) {
        struct trace_device *to = builder_device(builder, d);
        const char *name = builder_text(builder, from->devices[d].name, strlen(from->devices[d].name));
        if (name == NULL) {
            return builder_no_memory(builder);
        }
        if (selection->device == TRACE_NO_INDEX || selection->device == d) {
            *to = from->devices[d];
            to->name = name;
            to->used = selection->device == d;
            to->capacity = selection->capacity != 0 ? selection->capacity : to->capacity;
            to->declared = to->declared || selection->capacity != 0;
        }
    }
    return true;
}

static bool copy_texts(struct selection *selection)
{
    uint32_t tag = 0;
    const struct trace *from = selection->from;
    struct trace_builder *builder = &selection->builder;
    bool done = builder_source(builder, from->source, strlen(from->source));
    for (uint32_t i = 0; i < from->tag_count && done; i++) {
        const char *stack = from->stacks != NULL ? from->stacks[i] : NULL;
        done = builder_tag(builder, from->tags[i], strlen(from->tags[i]), &tag) &&
               (stack == NULL || builder_stack(builder, tag, stack, strlen(stack)));
    }
    for (size_t i = 0; i < from->note_count && done; i++) {
        done = builder_note(builder, from->notes[i], strlen(from->notes[i]));
    }
    if (done && from->recorded_note != NULL) {
        done = builder_recorded_note(builder, from->recorded_note, strlen(from->recorded_note));
    }
    if (done && from->allocator_settings != NULL) {
        done = builder_allocator_settings(builder, from->allocator_settings, strlen(from->allocator_settings));
    }
    return done;
}

/* Tells in the new trace which part of the file the trace has. A trace of one device gets the text of the old trace.
 * Any other trace gets the text of the selection, also as a note. */
static bool copy_part(struct selection *selection)
{
    struct trace_builder *builder = &selection->builder;
    struct trace *to = builder->trace;
    const struct trace_part *part = selection->device != TRACE_NO_INDEX ? selection->from->part : &selection->part;
    if (part == NULL) {
        return true;
    }
    struct trace_part *copy = builder_bytes(builder, part, sizeof(*part));
    uint32_t *streams = builder_bytes(builder, part->streams, part->stream_count * sizeof(*streams));
    const char *text = builder_text(builder, part->text, strlen(part->text));
    if (copy == NULL || streams == NULL || text == NULL) {
        return builder_no_memory(builder);
    }
    copy->streams = streams;
    copy->text = text;
    to->part = copy;
    return selection->device != TRACE_NO_INDEX || builder_note(builder, text, strlen(text));
}

static bool build(struct selection *selection, struct trace **out)
{
    const struct trace *from = selection->from;
    struct trace *to = selection->builder.trace;
    if (!copy_devices(selection) || !copy_texts(selection) || !copy_part(selection) || !copy_events(selection)) {
        return false;
    }
    to->clock = from->clock;
    to->expandable = to->expandable || from->expandable;
    to->pad_bytes = from->pad_bytes;
    to->one_of_several =
        from->one_of_several || (selection->device != TRACE_NO_INDEX && from->device == TRACE_NO_INDEX);
    if (!builder_finish(&selection->builder, out)) {
        return false;
    }
    to->file_event_count = from->file_event_count;
    return true;
}

/* Builds the new trace. The caller has set the window and the lists of the selection. */
static bool select_events(struct selection *selection, struct trace_error *error, struct trace **out)
{
    const struct trace_limits limits = {.max_events = 2 * selection->from->event_count + 1};
    find_owners(selection);
    if (!builder_start(&selection->builder, selection->from->path, &limits, error)) {
        return false;
    }
    error->status = WEIR_OK;
    bool done = find_state(selection) || builder_no_memory(&selection->builder);
    if (done) {
        find_touched(selection);
        find_capture_pools(selection);
        number_streams(selection);
        done = build(selection, out);
    }
    if (!done) {
        builder_drop(&selection->builder);
    }
    return done;
}

/* --- one device --- */

/* Fills in the error for a device that the trace does not use. */
static weir_status refuse_device(const struct trace *trace, uint32_t device, struct trace_error *error)
{
    char list[160] = "";
    size_t used = 0;
    for (uint32_t d = 0; d < trace->device_count && used < sizeof(list) - 24; d++) {
        if (trace->devices[d].used) {
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%" PRIu32, used == 0 ? "" : ", ", d);
        }
    }
    if (used >= sizeof(list) - 24) {
        (void)snprintf(list + used, sizeof(list) - used, ", ...");
    }
    (void)trace_say(error, WEIR_ERR_INVALID, trace->path, "no event is of device %" PRIu32 "; the trace uses %s %s",
                    device, trace->device == TRACE_NO_INDEX ? "the devices" : "device", list);
    return error->status;
}

weir_status trace_of_device(const struct trace *trace, uint32_t device, struct trace **out, struct trace_error *error)
{
    if (device >= trace->device_count || !trace->devices[device].used) {
        return refuse_device(trace, device, error);
    }
    struct selection selection = {.from = trace, .device = device, .end = trace->event_count};
    error->status = WEIR_OK;
    const bool done = (start_selection(&selection) || no_memory(trace, error)) && select_events(&selection, error, out);
    end_selection(&selection);
    return done ? WEIR_OK : error->status;
}

/* --- a window, some streams --- */

/* Writes an end of a window for a message: "event 12", "1500 ns". */
static const char *bound_text(char *text, size_t size, const struct trace_bound *bound)
{
    (void)snprintf(text, size, bound->kind == TRACE_BOUND_TIME ? "%" PRIu64 " ns" : "event %" PRIu64, bound->value);
    return text;
}

/* Returns the time or the number of the event, whichever the bound is compared with. */
static uint64_t value_of(const struct trace *trace, const struct trace_bound *bound, size_t index)
{
    return bound->kind == TRACE_BOUND_TIME ? trace->events[index].event.time_ns : trace_event_number(trace, index);
}

/* Finds the events of the window. The events of the file's starting state describe one moment, so a window that begins
 * or ends among them has all of them. Returns false with the error if the window has no event. */
static bool find_window(struct selection *selection, const struct trace_filter *filter, struct trace_error *error)
{
    const struct trace *trace = selection->from;
    const bool timed = filter->from.kind == TRACE_BOUND_TIME || filter->to.kind == TRACE_BOUND_TIME;
    char text[2][40];
    if (timed && trace->clock != TRACE_CLOCK_NS) {
        return trace_say(error, WEIR_ERR_INVALID, trace->path,
                         "its clock has no nanoseconds, so the window needs event numbers");
    }
    if (trace->event_count == 0) {
        return trace_say(error, WEIR_ERR_INVALID, trace->path, "has no events, so no window");
    }
    selection->end = trace->event_count;
    while (filter->from.kind != TRACE_BOUND_NONE && selection->first < trace->event_count &&
           value_of(trace, &filter->from, selection->first) < filter->from.value) {
        selection->first++;
    }
    while (filter->to.kind != TRACE_BOUND_NONE && selection->end > 0 &&
           value_of(trace, &filter->to, selection->end - 1) > filter->to.value) {
        selection->end--;
    }
    if (selection->first == trace->event_count) {
        const struct trace_bound last = {filter->from.kind, value_of(trace, &filter->from, trace->event_count - 1)};
        return trace_say(error, WEIR_ERR_INVALID, trace->path, "no event is at or after %s; the last is at %s",
                         bound_text(text[0], sizeof(text[0]), &filter->from),
                         bound_text(text[1], sizeof(text[1]), &last));
    }
    if (selection->first >= selection->end) {
        return trace_say(error, WEIR_ERR_INVALID, trace->path, "no event is between %s and %s",
                         bound_text(text[0], sizeof(text[0]), &filter->from),
                         bound_text(text[1], sizeof(text[1]), &filter->to));
    }
    const size_t start = trace_start_events(trace);
    selection->first = selection->first < start ? 0 : selection->first;
    selection->end = selection->end < start ? start : selection->end;
    return true;
}

static bool list_streams(struct selection *selection, const struct trace_filter *filter, struct trace_error *error)
{
    const struct trace *trace = selection->from;
    for (size_t i = 0; i < filter->stream_count; i++) {
        if (filter->streams[i] >= trace->stream_count) {
            return trace_say(error, WEIR_ERR_INVALID, trace->path,
                             "there is no stream %" PRIu32 "; the trace has the streams 0 to %" PRIu32,
                             filter->streams[i], trace->stream_count - 1);
        }
    }
    if (filter->stream_count > 0) {
        selection->listed = calloc(trace->stream_count, sizeof(bool));
        if (selection->listed == NULL) {
            return no_memory(trace, error);
        }
    }
    for (size_t i = 0; i < filter->stream_count; i++) {
        selection->listed[filter->streams[i]] = true;
    }
    return true;
}

/* Describes the selection: "events 10 to 20 of 974, blocks of streams 0, 3". */
static void describe(struct selection *selection, const struct trace_filter *filter, char *text, size_t size)
{
    const struct trace *trace = selection->from;
    selection->part = (struct trace_part){.first = trace_event_number(trace, selection->first),
                                          .last = trace_event_number(trace, selection->end - 1),
                                          .streams = filter->streams,
                                          .stream_count = filter->stream_count,
                                          .text = text};
    size_t used = (size_t)snprintf(text, size, "events %" PRIu64 " to %" PRIu64 " of %" PRIu64, selection->part.first,
                                   selection->part.last, trace->file_event_count);
    for (size_t i = 0; i < filter->stream_count && used < size; i++) {
        const char *before = i > 0 ? ", " : filter->stream_count > 1 ? ", blocks of streams " : ", blocks of stream ";
        used += (size_t)snprintf(text + used, size - used, "%s%" PRIu32, before, filter->streams[i]);
    }
}

weir_status trace_filtered(const struct trace *trace, const struct trace_filter *filter, struct trace **out,
                           struct trace_error *error)
{
    char text[512];
    struct selection selection = {.from = trace, .device = TRACE_NO_INDEX};
    error->status = WEIR_OK;
    bool done = (start_selection(&selection) || no_memory(trace, error)) && find_window(&selection, filter, error) &&
                list_streams(&selection, filter, error);
    if (done) {
        describe(&selection, filter, text, sizeof(text));
        done = select_events(&selection, error, out);
    }
    if (done && selection.births == 0 && selection.listed != NULL) {
        trace_free(*out);
        *out = NULL;
        done = trace_say(error, WEIR_ERR_INVALID, trace->path, "no block of the streams is live in the window");
    }
    end_selection(&selection);
    return done ? WEIR_OK : error->status;
}
