/* recorded_run.c: see recorded_run.h.
 *
 * Idea: the memory that the recorded allocator holds is a set of disjoint pieces in a tree ordered by address. An `s`
 * or `z` event (a segment or a mapping) adds a piece or removes its range from the pieces. The free memory at one
 * moment is the part of the pieces that no live block covers; it is needed at two moments only, so the events are
 * walked again up to each of these moments.
 * Cost: O(log n) for each event, n pieces; O(m log m) for each of the two moments, m live blocks.
 */
#include "replay/recorded_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/pytorch.h"
#include "models/size_tree.h"
#include "replay/holders.h"
#include "replay/in_the_way.h"
#include "replay/series.h"
#include "replay/tags.h"

/* A range of memory that the recorded allocator holds. Invariant: pieces do not overlap. */
struct piece {
    weir__tree_node node; /* start, end */
    int64_t added;        /* number of the event that took the range; -1: held before the first event */
    uint32_t stream;
    bool mapped; /* part of a mapping (a `z` event); adjacent mapped pieces count as one range */
};

struct block {
    uint64_t address; /* 0: not known */
    uint64_t size;    /* 0: not live */
    uint64_t capacity;
    uint32_t tag;
};

struct walk {
    const struct trace *trace;
    struct replay_result *result;
    bool history;
    size_t start_events; /* number of events in front that describe the state in which the trace starts */
    int64_t now;         /* number of the current event; -1: the state before the trace */
    weir__tree held;
    bool totals;          /* the trace has no segments, only totals of reserved bytes */
    uint64_t held_bytes;  /* in the pieces */
    uint64_t blind_bytes; /* bytes that the allocator holds at unknown addresses */
    struct block *blocks; /* [block_count] */
    uint64_t live_bytes;
    uint32_t stream; /* of the latest block */
    uint64_t calls_at_peak;
    uint64_t allocs_at_peak;
    size_t played; /* events played so far */
    size_t worst;  /* value of `played` when the reserved bytes peaked */
    uint64_t live_at_worst;
    /* the latest event raised the peak of reserved bytes, perhaps for the block that the next event allocates */
    bool fresh;
    uint64_t twice;   /* number of contradictions: memory that was held is taken */
    uint64_t unheld;  /* number of contradictions: memory that is not held is returned */
    uint64_t outside; /* number of contradictions: a block begins in memory that is not held */
    struct series series;
    size_t region_capacity;
};

static const struct replay_strategy recorded_strategy = {
    .name = "recorded",
    .text = "the allocator that was recorded, from the segments or totals in the trace",
    .computed = true};

static uint64_t sum_of(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t rest_of(uint64_t whole, uint64_t part)
{
    return whole > part ? whole - part : 0;
}

/* True if the range lies below 2^63: the report (--report) and JSON store addresses as signed numbers. */
static bool is_range(uint64_t address, uint64_t size)
{
    return address != 0 && address <= INT64_MAX && size <= INT64_MAX - address;
}

static bool takes_memory(const weir_trace_event *event)
{
    return event->kind == WEIR_TRACE_SEGMENT || event->kind == WEIR_TRACE_MAPPING;
}

/* Returns the first total of reserved bytes in the trace; 0 without one. */
static uint64_t first_total(const struct trace *trace)
{
    for (size_t i = 0; i < trace->event_count; i++) {
        if (trace->events[i].event.kind == WEIR_TRACE_COUNTERS && trace->events[i].event.size != 0) {
            return trace->events[i].event.size;
        }
    }
    return 0;
}

static bool has_pieces(const struct trace *trace)
{
    for (size_t i = 0; i < trace->event_count; i++) {
        if (takes_memory(&trace->events[i].event)) {
            return true;
        }
    }
    return false;
}

/* --- the memory that is held --- */

static struct piece *piece_of(const weir__tree_node *node)
{
    return WEIR_MODEL_OWNER(node, struct piece, node);
}

/* Returns the first piece that ends behind the address, or NULL. */
static weir__tree_node *first_behind(const struct walk *walk, uint64_t address)
{
    weir__tree_node *node = weir__tree_floor(&walk->held, address);
    if (node == NULL) {
        return weir__tree_end(&walk->held, 0);
    }
    return node->end > address ? node : weir__tree_step(node, 1);
}

static bool add_piece(struct walk *walk, const struct piece *like, uint64_t start, uint64_t end)
{
    struct piece *piece = malloc(sizeof(*piece));
    if (piece == NULL) {
        return false;
    }
    *piece = *like;
    piece->node = (weir__tree_node){.start = start, .end = end};
    weir__tree_insert(&walk->held, &piece->node);
    walk->held_bytes += end - start;
    return true;
}

/* Records the lifetime of a range for the memory map of the report. */
static bool keep_region(struct walk *walk, const struct piece *piece, uint64_t start, uint64_t end, int64_t removed)
{
    struct replay_result *result = walk->result;
    if (!walk->history) {
        return true;
    }
    if (result->region_count == walk->region_capacity) {
        const size_t capacity = walk->region_capacity == 0 ? 64 : walk->region_capacity * 2;
        struct replay_region *regions = realloc(result->regions, capacity * sizeof(*regions));
        if (regions == NULL) {
            return false;
        }
        result->regions = regions;
        walk->region_capacity = capacity;
    }
    result->regions[result->region_count++] =
        (struct replay_region){start, end - start, piece->added, removed, piece->mapped};
    return true;
}

/* Removes start .. end, a part of the piece, from the piece. The rest of the piece stays as one or two pieces. */
static bool cut_piece(struct walk *walk, struct piece *piece, uint64_t start, uint64_t end)
{
    const weir__tree_node whole = piece->node;
    const bool kept = walk->now == -1 || keep_region(walk, piece, start, end, walk->now);
    weir__tree_remove(&walk->held, &piece->node);
    walk->held_bytes -= whole.end - whole.start;
    const bool done = kept && (whole.start == start || add_piece(walk, piece, whole.start, start)) &&
                      (whole.end == end || add_piece(walk, piece, end, whole.end));
    free(piece);
    return done;
}

/* Removes start .. end from all pieces of held memory. *bytes is the number of bytes removed. */
static bool cut(struct walk *walk, uint64_t start, uint64_t end, uint64_t *bytes)
{
    *bytes = 0;
    for (weir__tree_node *node = first_behind(walk, start); node != NULL && node->start < end;
         node = first_behind(walk, start)) {
        const uint64_t from = node->start > start ? node->start : start;
        const uint64_t to = node->end < end ? node->end : end;
        *bytes += to - from;
        if (!cut_piece(walk, piece_of(node), from, to)) {
            return false;
        }
    }
    return true;
}

static bool take(struct walk *walk, const weir_trace_event *event)
{
    uint64_t held;
    if (!is_range(event->address, event->size)) {
        walk->blind_bytes = sum_of(walk->blind_bytes, event->size);
        walk->result->lacks_addresses = true;
        return true;
    }
    const uint64_t end = event->address + event->size;
    const struct piece like = {
        .added = walk->now, .stream = event->stream, .mapped = event->kind == WEIR_TRACE_MAPPING};
    if (!cut(walk, event->address, end, &held)) {
        return false;
    }
    walk->twice += held != 0;
    return add_piece(walk, &like, event->address, end);
}

static bool give_back(struct walk *walk, const weir_trace_event *event)
{
    uint64_t held = walk->blind_bytes;
    bool done = true;
    if (is_range(event->address, event->size)) {
        done = cut(walk, event->address, event->address + event->size, &held);
    } else {
        walk->blind_bytes = rest_of(held, event->size);
        walk->result->lacks_addresses = true;
    }
    walk->unheld += held < event->size;
    return done;
}

static uint64_t reserved_bytes(const struct walk *walk)
{
    return sum_of(walk->held_bytes, walk->blind_bytes);
}

static bool move_memory(struct walk *walk, const weir_trace_event *event)
{
    const bool done = event->mode == '+' ? take(walk, event) : give_back(walk, event);
    if (walk->now != -1) {
        walk->result->device_calls++;
    }
    return done;
}

/* --- blocks --- */

/* Returns the bytes of a block: the request as PyTorch's allocators round it, if the trace shows that one of them was
 * recorded. The size of a prior block is rounded already. */
static uint64_t capacity_of(const struct walk *walk, const weir_trace_event *event, uint64_t size)
{
    if (walk->trace->pad_bytes < 0) {
        return size;
    }
    const bool whole = event->kind == WEIR_TRACE_PRIOR && size % MODEL_PYTORCH_GRANULE == 0;
    return whole ? size : model_pytorch_round(size, (uint64_t)walk->trace->pad_bytes);
}

static void place_block(struct walk *walk, struct block *block, uint32_t index)
{
    if (!is_range(block->address, block->capacity)) {
        walk->outside += block->address != 0;
        walk->result->lacks_addresses = true;
        block->address = 0;
        return;
    }
    if (walk->history) {
        walk->result->places[index] = (struct replay_place){block->address, block->capacity};
    }
    if (walk->totals) {
        return;
    }
    const weir__tree_node *node = first_behind(walk, block->address);
    walk->outside += node == NULL || node->start > block->address;
}

static void add_block(struct walk *walk, const weir_trace_event *event, uint32_t index)
{
    struct block *block = &walk->blocks[index];
    const uint64_t size = event->size == 0 ? 1 : event->size; /* as in a replay */
    const uint32_t tag = replay_tag_of_event(event);
    *block = (struct block){event->address, size, capacity_of(walk, event, size), tag};
    place_block(walk, block, index);
    walk->stream = event->stream != WEIR_TRACE_NONE ? event->stream : walk->stream;
    walk->live_bytes = sum_of(walk->live_bytes, size);
    if (walk->live_bytes > walk->result->peak_live_bytes) {
        walk->result->peak_live_bytes = walk->live_bytes;
        walk->calls_at_peak = walk->result->device_calls;
        walk->allocs_at_peak = walk->result->allocs;
    }
}

static void drop_block(struct walk *walk, uint32_t index)
{
    walk->live_bytes = rest_of(walk->live_bytes, walk->blocks[index].size);
    walk->blocks[index].size = 0;
}

/* --- the walk --- */

/* Notes the peak of reserved bytes. If an allocation follows a new peak at once, the allocator took the memory for that
 * block, so the function notes the peak again, with the block. Totals may be the same over many events: the peak is
 * then where most bytes are live. */
static void note_reserved(struct walk *walk, uint64_t number, weir_trace_kind kind)
{
    const bool peak = reserved_bytes(walk) > walk->result->peak_reserved_bytes;
    const bool fuller = walk->totals && reserved_bytes(walk) == walk->result->peak_reserved_bytes &&
                        walk->live_bytes > walk->live_at_worst;
    if (peak || fuller || (walk->fresh && kind == WEIR_TRACE_ALLOC)) {
        walk->live_at_worst = walk->live_bytes;
        walk->result->peak_reserved_bytes = reserved_bytes(walk);
        walk->result->worst_event = number;
        walk->worst = walk->played;
    }
    walk->fresh = peak;
}

/* Builds the state before the trace: the memory and the live blocks. */
static bool play_start(struct walk *walk)
{
    const struct trace *trace = walk->trace;
    walk->start_events = trace_start_events(trace);
    walk->now = -1;
    walk->totals = !has_pieces(trace);
    walk->blind_bytes = walk->totals ? first_total(trace) : 0; /* the first total is the best that is known */
    walk->result->lacks_addresses = walk->totals;
    walk->result->lacks_calls = walk->totals;
    for (size_t i = 0; i < walk->start_events; i++) {
        const weir_trace_event *event = &trace->events[i].event;
        if (takes_memory(event) && !move_memory(walk, event)) {
            return false;
        }
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        if (trace->events[i].event.kind == WEIR_TRACE_PRIOR) {
            add_block(walk, &trace->events[i].event, trace->events[i].index);
            walk->result->prior_blocks++;
        }
    }
    note_reserved(walk, replay_start_number(trace), WEIR_TRACE_PRIOR);
    walk->fresh = false;
    return true;
}

static bool play_event(struct walk *walk, const struct trace_event *event)
{
    switch (event->event.kind) {
    case WEIR_TRACE_ALLOC:
        walk->result->allocs++;
        add_block(walk, &event->event, event->index);
        return true;
    case WEIR_TRACE_FREE:
        walk->result->frees++;
        drop_block(walk, event->index);
        return true;
    case WEIR_TRACE_REALLOC: /* as in a replay, the new block is allocated before the old one is freed */
        walk->result->allocs++;
        walk->result->frees++;
        add_block(walk, &event->event, event->index);
        drop_block(walk, event->old_index);
        return true;
    case WEIR_TRACE_SEGMENT:
    case WEIR_TRACE_MAPPING:
        return move_memory(walk, &event->event);
    case WEIR_TRACE_COUNTERS:
        walk->blind_bytes = walk->totals ? event->event.size : walk->blind_bytes;
        return true;
    default:
        return true;
    }
}

/* Builds the state before the trace, then plays the first `count` events. */
static bool play(struct walk *walk, size_t count)
{
    const struct trace *trace = walk->trace;
    walk->blocks = calloc((size_t)trace->block_count + 1, sizeof(*walk->blocks));
    if (walk->blocks == NULL || !play_start(walk)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t number = trace_event_number(trace, i);
        walk->played = i + 1;
        if (i >= walk->start_events) {
            walk->now = (int64_t)number;
            if (!play_event(walk, &trace->events[i])) {
                return false;
            }
            note_reserved(walk, number, trace->events[i].event.kind);
        }
        if (walk->history) {
            (void)series_add(&walk->series, i, number, walk->live_bytes, reserved_bytes(walk));
        }
    }
    return true;
}

static void stop(struct walk *walk)
{
    for (weir__tree_node *node = walk->held.root; node != NULL; node = walk->held.root) {
        weir__tree_remove(&walk->held, node);
        free(piece_of(node));
    }
    free(walk->blocks);
    free(walk->series.points);
}

/* --- the free memory at one moment --- */

struct survey {
    struct span *spans; /* free ranges and live blocks in address order */
    size_t span_count;
    uint64_t run;         /* of the latest span */
    uint64_t free_pieces; /* free ranges */
    uint64_t pieces;
    uint64_t block_bytes;   /* of the live blocks */
    uint64_t free_bytes;    /* held, and in no block */
    uint64_t largest_bytes; /* the largest free range */
    uint64_t usable_bytes;  /* largest free range that the stream may use */
    uint64_t own_bytes;     /* free bytes that the stream may use */
};

static int by_address(const void *left, const void *right)
{
    const struct block *a = left;
    const struct block *b = right;
    return (a->address > b->address) - (a->address < b->address);
}

/* Copies the live blocks, in address order. Returns NULL when out of host memory. */
static struct block *live_blocks(const struct walk *walk, size_t *count)
{
    struct block *live = calloc((size_t)walk->trace->block_count + 1, sizeof(*live));
    *count = 0;
    for (uint32_t i = 0; live != NULL && i < walk->trace->block_count; i++) {
        if (walk->blocks[i].size != 0) {
            live[(*count)++] = walk->blocks[i];
        }
    }
    if (live != NULL) {
        qsort(live, *count, sizeof(*live), by_address);
    }
    return live;
}

static void add_span(struct survey *survey, struct span span)
{
    span.run = survey->run;
    survey->spans[survey->span_count++] = span;
}

/* Counts the free bytes from..to of a piece. *run, the length of the free range in front of these bytes, grows by
 * them. */
static void count_gap(struct survey *survey, const struct piece *piece, uint32_t stream, uint64_t from, uint64_t to,
                      uint64_t *run)
{
    const uint64_t gap = to - from;
    add_span(survey, (struct span){.start = from, .end = to});
    survey->free_pieces += *run == 0;
    *run += gap;
    survey->free_bytes += gap;
    survey->largest_bytes = *run > survey->largest_bytes ? *run : survey->largest_bytes;
    if (piece->stream == stream || piece->stream == WEIR_TRACE_NONE) {
        survey->own_bytes += gap;
        survey->usable_bytes = *run > survey->usable_bytes ? *run : survey->usable_bytes;
    }
}

/* True if one block may lie in both pieces: neighbours of an expandable segment. */
static bool joins(const struct piece *before, const struct piece *piece)
{
    return before != NULL && before->mapped && piece->mapped && before->node.end == piece->node.start;
}

/* Measures the free ranges of all pieces: the bytes in no block. Blocks may overlap or lie outside the pieces. */
static void look_at_pieces(const struct walk *walk, const struct block *live, size_t count, uint32_t stream,
                           struct survey *survey)
{
    const struct piece *before = NULL;
    uint64_t covered = 0; /* the end of the blocks so far */
    uint64_t run = 0;     /* free bytes that end here */
    size_t next = 0;
    for (const weir__tree_node *node = weir__tree_end(&walk->held, 0); node != NULL; node = weir__tree_step(node, 1)) {
        const struct piece *piece = piece_of(node);
        const bool joined = joins(before, piece) && covered < node->start;
        run = joined ? run : 0;
        survey->run += !joins(before, piece);
        for (; next < count && live[next].address < node->end; next++) {
            const uint64_t from = covered > node->start ? covered : node->start;
            if (live[next].address > from) {
                count_gap(survey, piece, stream, from, live[next].address, &run);
                run = 0;
            }
            const uint64_t end = live[next].address + live[next].capacity;
            if (end > covered) {
                const uint64_t start = live[next].address > covered ? live[next].address : covered;
                add_span(survey, (struct span){.start = start, .end = end, .tag = live[next].tag, .taken = true});
            }
            run = end > node->start ? 0 : run;
            covered = end > covered ? end : covered;
        }
        const uint64_t from = covered > node->start ? covered : node->start;
        if (from < node->end) {
            count_gap(survey, piece, stream, from, node->end, &run);
        }
        survey->pieces++;
        before = piece;
    }
}

static size_t count_pieces(const struct walk *walk)
{
    size_t count = 0;
    for (const weir__tree_node *node = weir__tree_end(&walk->held, 0); node != NULL; node = weir__tree_step(node, 1)) {
        count++;
    }
    return count;
}

/* Measures the free memory at the present event of the walk, in total and for requests of `stream`. Returns false
 * when out of host memory. The caller frees survey->spans. */
static bool survey_walk(const struct walk *walk, uint32_t stream, struct survey *survey)
{
    size_t count;
    struct block *live = live_blocks(walk, &count);
    *survey = (struct survey){.spans = calloc(2 * count + 2 * count_pieces(walk) + 1, sizeof(struct span))};
    if (live == NULL || survey->spans == NULL) {
        free(live);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        survey->block_bytes = sum_of(survey->block_bytes, live[i].capacity);
    }
    look_at_pieces(walk, live, count, stream, survey);
    free(live);
    if (walk->result->lacks_addresses) {
        survey->free_bytes = rest_of(reserved_bytes(walk), survey->block_bytes);
        survey->largest_bytes = 0;
        survey->usable_bytes = 0;
    }
    return true;
}

/* Plays the first `count` events again in a second walk. The caller frees that walk, also after a failure. */
static bool walk_again(const struct trace *trace, size_t count, struct walk *walk, struct replay_result *scratch)
{
    *scratch = (struct replay_result){.strategy = &recorded_strategy};
    *walk = (struct walk){.trace = trace, .result = scratch};
    return play(walk, count);
}

/* --- the record of a moment --- */

static bool find_holders(const struct walk *walk, weir_oom_record *record)
{
    const struct trace *trace = walk->trace;
    struct tag_sum *sums = holders_start(trace);
    for (uint32_t i = 0; sums != NULL && i < trace->block_count; i++) {
        if (walk->blocks[i].size != 0) {
            holders_add(trace, sums, walk->blocks[i].tag, walk->blocks[i].size);
        }
    }
    return holders_end(trace, sums, record);
}

/* Names the blocks that are in the way of the request, and the tag that has the most bytes of them. */
static bool find_pin(const struct trace *trace, const struct survey *survey, weir_oom_record *record)
{
    struct in_the_way pin;
    if (!in_the_way_find(survey->spans, survey->span_count, record->size, &pin) || pin.blocks == 0) {
        return true;
    }
    uint64_t *bytes = calloc((size_t)trace->tag_count + 1, sizeof(*bytes));
    if (bytes == NULL) {
        return false;
    }
    uint32_t most = trace->tag_count; /* untagged */
    for (size_t i = pin.first; i < pin.end; i++) {
        const struct span *span = &survey->spans[i];
        const uint32_t tag = span->tag < trace->tag_count ? span->tag : trace->tag_count;
        bytes[tag] += span->taken ? span->end - span->start : 0;
        most = bytes[tag] > bytes[most] ? tag : most;
    }
    free(bytes);
    record->advice[record->advice_count++] = (weir_oom_advice){
        .kind = WEIR_ADVICE_FREE_BLOCKS,
        .bytes = pin.bytes,
        .blocks = pin.blocks,
        .address = survey->spans[pin.first].start,
        .size = survey->spans[pin.end - 1].end - survey->spans[pin.first].start,
    };
    if (most < trace->tag_count) {
        replay_tags_fit_name(record->in_the_way, trace->tags[most]);
    }
    return true;
}

/* Describes the present moment of the walk. record->size and record->stream are set. */
static bool fill_record(const struct walk *walk, weir_oom_record *record)
{
    struct survey survey;
    const bool done = survey_walk(walk, record->stream, &survey) && find_holders(walk, record) &&
                      (record->size == 0 || find_pin(walk->trace, &survey, record));
    free(survey.spans);
    record->reserved_bytes = reserved_bytes(walk);
    record->requested_bytes = walk->live_bytes;
    record->live_bytes = survey.block_bytes;
    record->free_bytes = survey.free_bytes;
    record->free_pieces = survey.largest_bytes != 0 ? survey.free_pieces : 0;
    record->largest_free_bytes = survey.largest_bytes;
    record->usable_bytes = survey.usable_bytes;
    record->usable_free_bytes = walk->result->lacks_addresses ? survey.free_bytes : survey.own_bytes;
    record->regions = survey.pieces;
    record->region_asked_bytes = record->size;
    return done;
}

static bool survey_worst(const struct walk *walk, struct replay_result *result)
{
    struct walk again;
    struct replay_result scratch;
    result->peak = (weir_oom_record)WEIR_OOM_RECORD_INIT;
    bool done = walk_again(walk->trace, walk->worst, &again, &scratch);
    result->peak.stream = again.stream;
    done = done && fill_record(&again, &result->peak);
    stop(&again);
    result->free_bytes = result->peak.free_bytes;
    result->largest_free_bytes = result->peak.largest_free_bytes;
    result->lacks_addresses = scratch.lacks_addresses;
    weir_oom_judge(&result->peak);
    return done;
}

/* The device is as large as the trace says, and at least as large as the held and the free memory together. */
static bool explain_refusal(const struct trace *trace, struct replay_result *result)
{
    const struct recorded_oom refused = recorded_oom_find(trace);
    struct walk again;
    struct replay_result scratch;
    struct replay_oom *oom = &result->oom;
    weir_oom_record *record = &oom->record;
    if (!refused.found) {
        return true;
    }
    *oom = (struct replay_oom){.happened = true, .event = refused.event, .size = refused.size};
    *record = (weir_oom_record)WEIR_OOM_RECORD_INIT;
    record->failure = 1;
    record->size = refused.size;
    record->stream = refused.stream;
    const bool done = walk_again(trace, refused.index, &again, &scratch) && fill_record(&again, record);
    stop(&again);
    const uint64_t capacity = trace->devices[trace->device].capacity;
    const uint64_t known = sum_of(record->reserved_bytes, refused.free_bytes);
    record->device_free_bytes = refused.free_bytes;
    record->device_total_bytes = refused.free_bytes == 0 && capacity == 0 ? 0 : capacity > known ? capacity : known;
    weir_oom_judge(record);
    (void)snprintf(oom->why, sizeof(oom->why), "%s", record->text);
    return done;
}

/* --- the result --- */

__attribute__((format(printf, 2, 3))) static void add_note(struct replay_result *result, const char *format, ...)
{
    const size_t used = strlen(result->note);
    va_list arguments;
    const int begun = snprintf(result->note + used, sizeof(result->note) - used, "%s", used != 0 ? "; " : "");
    va_start(arguments, format);
    if (begun >= 0 && used + (size_t)begun < sizeof(result->note)) {
        (void)vsnprintf(result->note + used + begun, sizeof(result->note) - used - (size_t)begun, format, arguments);
    }
    va_end(arguments);
}

static void note_contradictions(const struct walk *walk)
{
    struct replay_result *result = walk->result;
    if (walk->twice + walk->unheld != 0) {
        add_note(
            result,
            "the record contradicts itself: memory that was held is taken %llu times, and memory that was not held "
            "is returned %llu times",
            (unsigned long long)walk->twice, (unsigned long long)walk->unheld);
    }
    if (walk->outside != 0) {
        add_note(result, "more was reserved than is recorded: blocks that lie outside the recorded memory: %llu",
                 (unsigned long long)walk->outside);
    }
    if (walk->totals) {
        add_note(result, "reserved bytes are the totals of the file, which has no segments");
    }
    if (walk->trace->recorded_note != NULL) {
        add_note(result, "%s", walk->trace->recorded_note);
    }
}

static bool keep_history(struct walk *walk)
{
    struct replay_result *result = walk->result;
    for (const weir__tree_node *node = weir__tree_end(&walk->held, 0); node != NULL; node = weir__tree_step(node, 1)) {
        if (!keep_region(walk, piece_of(node), node->start, node->end, -1)) {
            return false;
        }
    }
    result->points = walk->series.points;
    result->point_count = walk->series.count;
    walk->series.points = NULL;
    return true;
}

static bool start_history(struct walk *walk)
{
    if (!walk->history) {
        return true;
    }
    walk->result->places = calloc((size_t)walk->trace->block_count + 1, sizeof(*walk->result->places));
    return walk->result->places != NULL && series_init(&walk->series, walk->trace->event_count);
}

bool recorded_run(const struct trace *trace, bool history, struct replay_result *result)
{
    struct walk walk = {.trace = trace, .result = result, .history = history};
    *result = (struct replay_result){.strategy = &recorded_strategy};
    bool done = start_history(&walk) && play(&walk, trace->event_count) && keep_history(&walk);
    if (done) {
        result->events_played = trace->event_count;
        result->warm_calls = result->device_calls - walk.calls_at_peak;
        result->warm_allocs = result->allocs - walk.allocs_at_peak;
        note_contradictions(&walk);
        done = survey_worst(&walk, result) && explain_refusal(trace, result);
    }
    stop(&walk);
    return done;
}

bool recorded_run_is(const struct replay_result *result)
{
    return result->strategy == &recorded_strategy;
}

bool recorded_run_known(const struct trace *trace)
{
    return has_pieces(trace) || (first_total(trace) != 0 && !trace_only_counts(trace));
}

bool recorded_run_is_moment(const struct trace *trace)
{
    bool any = false;
    for (size_t i = 0; i < trace->event_count; i++) {
        const weir_trace_event *event = &trace->events[i].event;
        const bool state = event->kind == WEIR_TRACE_PRIOR || (takes_memory(event) && event->mode == '+');
        if (!state && event->kind != WEIR_TRACE_MARK && event->kind != WEIR_TRACE_COUNTERS) {
            return false;
        }
        any = any || state;
    }
    return any;
}
