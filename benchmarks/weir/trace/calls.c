/* calls.c: see calls.h. One pass pairs allocations with frees and a second one writes them: a trace begins with the
 * blocks from before the recording, which only their frees reveal. */
#include "calls.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CALLS ((size_t)1 << 30)
/* Value in call_list.live of the key of a freed block. A live block's key has 2 * block number, plus 1 if the block is
 * older than the recording. */
#define DEAD (UINT32_MAX - 1)

enum outcome {
    OUTCOME_PLAIN,
    OUTCOME_LEFT_OUT,
    OUTCOME_BRINGS_PRIOR, /* the free of a block from before the recording */
    OUTCOME_FREES_FIRST,  /* an alloc under the key of a live block */
};

struct name {
    const char *text;
    size_t length;
};

/* --- names --- */

static uint64_t hash_text(const char *text, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    }
    return hash ^ hash >> 29;
}

bool name_number(struct name_list *list, const char *text, size_t length, uint32_t *number, bool *fresh)
{
    uint64_t key = hash_text(text, length);
    uint64_t found;
    while ((found = weir__number_map_get(&list->by_hash, key)) != 0) {
        const struct name *name = &list->names[found - 1];
        if (name->length == length && memcmp(name->text, text, length) == 0) {
            *number = (uint32_t)(found - 1);
            if (fresh != NULL) {
                *fresh = false;
            }
            return true;
        }
        key++; /* two texts with one hash */
    }
    struct name *names = grow_array(list->names, list->count, &list->capacity, sizeof(*names));
    if (names == NULL) {
        return false;
    }
    list->names = names;
    if (!weir__number_map_put(&list->by_hash, key, (uint64_t)list->count + 1)) {
        return false;
    }
    names[list->count] = (struct name){.text = text, .length = length};
    *number = list->count++;
    if (fresh != NULL) {
        *fresh = true;
    }
    return true;
}

void name_list_free(struct name_list *list)
{
    weir__number_map_fini(&list->by_hash);
    free(list->names);
}

bool calls_tag(struct trace_builder *builder, struct name_list *tags, const char *text, size_t length, uint32_t *tag)
{
    bool fresh;
    *tag = WEIR_TRACE_NONE;
    if (length == 0) {
        return true;
    }
    if (!name_number(tags, text, length, tag, &fresh)) {
        return builder_no_memory(builder);
    }
    return !fresh || builder_tag(builder, text, length, tag);
}

/* --- the list --- */

bool calls_add(struct call_list *list, uint64_t time, uint64_t key, const weir_trace_event *event)
{
    struct trace_builder *builder = list->builder;
    if (list->count >= builder->limits.max_events || list->count >= MOST_CALLS) {
        return trace_say(builder->error, WEIR_ERR_LIMIT, builder->trace->path,
                         "more than %" PRIu64 " events, which is the limit", builder->limits.max_events);
    }
    struct call *calls = grow_array(list->calls, list->count, &list->capacity, sizeof(*calls));
    if (calls == NULL) {
        return builder_no_memory(builder);
    }
    list->calls = calls;
    calls[list->count] = (struct call){.time = time, .order = list->count, .key = key, .event = *event};
    list->count++;
    return true;
}

static int by_time(const void *left, const void *right)
{
    const struct call *a = left;
    const struct call *b = right;
    if (a->time != b->time) {
        return a->time < b->time ? -1 : 1;
    }
    return a->order < b->order ? -1 : a->order > b->order;
}

void calls_sort(struct call_list *list, bool frees_first)
{
    bool sorted = true;
    for (size_t i = 0; i < list->count; i++) {
        struct call *call = &list->calls[i];
        if (frees_first && call->event.kind != WEIR_TRACE_FREE) {
            call->order += MOST_CALLS;
        }
        sorted = sorted && (i == 0 || by_time(call - 1, call) < 0);
    }
    if (!sorted) {
        qsort(list->calls, list->count, sizeof(*list->calls), by_time);
    }
}

void calls_keep_changes(struct call_list *list, bool none)
{
    size_t kept = 0;
    const struct call *last = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const struct call *call = &list->calls[i];
        const bool counters = call->event.kind == WEIR_TRACE_COUNTERS;
        if (!counters || (!none && (last == NULL || call->event.size != last->event.size))) {
            list->calls[kept] = *call;
            last = counters ? &list->calls[kept] : last;
            kept++;
        }
    }
    list->count = kept;
}

uint64_t calls_begin(const struct call_list *list)
{
    uint64_t begin = UINT64_MAX;
    for (size_t i = 0; i < list->count; i++) {
        if (list->calls[i].event.kind != WEIR_TRACE_PRIOR && list->calls[i].time < begin) {
            begin = list->calls[i].time;
        }
    }
    return begin != UINT64_MAX ? begin : 0;
}

/* --- pairing --- */

static bool pair_birth(struct call_list *list, struct call *call)
{
    uint32_t old;
    if (id_map_get(&list->live, call->key, &old) && old != DEAD) {
        call->outcome = OUTCOME_FREES_FIRST;
        call->freed = old;
        list->repeated++;
    }
    const bool prior = call->event.kind == WEIR_TRACE_PRIOR;
    call->block = prior ? 2 * list->priors++ + 1 : 2 * list->births++;
    return id_map_put(&list->live, call->key, call->block);
}

static bool pair_free(struct call_list *list, struct call *call)
{
    const bool seen = id_map_get(&list->live, call->key, &call->block);
    if (seen && call->block != DEAD) {
        return id_map_put(&list->live, call->key, DEAD);
    }
    if (seen || call->event.size == 0) {
        call->outcome = OUTCOME_LEFT_OUT;
        list->unknown++;
        return true;
    }
    call->outcome = OUTCOME_BRINGS_PRIOR;
    call->block = 2 * list->priors++ + 1;
    return id_map_put(&list->live, call->key, DEAD);
}

static bool pair(struct call_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        struct call *call = &list->calls[i];
        bool done = true;
        if (call->event.kind == WEIR_TRACE_PRIOR || call->event.kind == WEIR_TRACE_ALLOC) {
            done = pair_birth(list, call);
        } else if (call->event.kind == WEIR_TRACE_FREE) {
            done = pair_free(list, call);
        }
        if (!done) {
            return builder_no_memory(list->builder);
        }
    }
    return true;
}

/* --- writing --- */

static uint32_t block_index(const struct call_list *list, uint32_t block)
{
    return block % 2 != 0 ? block / 2 : list->priors + block / 2;
}

static bool write_prior(struct call_list *list, const struct call *call)
{
    weir_trace_event event = blank_event(WEIR_TRACE_PRIOR);
    const uint32_t index = block_index(list, call->block);
    event.device = call->event.device;
    event.stream = call->event.stream;
    event.address = call->event.address;
    event.size = call->event.size;
    event.tag = call->event.tag;
    event.id = index;
    return builder_event(list->builder, &event, index, TRACE_NO_INDEX, true);
}

static bool write_free(struct call_list *list, uint32_t block, uint64_t time, const weir_trace_event *call)
{
    weir_trace_event event = blank_event(WEIR_TRACE_FREE);
    event.time_ns = time;
    event.stream = call->stream;
    event.thread = call->thread;
    event.id = block_index(list, block);
    return builder_event(list->builder, &event, (uint32_t)event.id, TRACE_NO_INDEX, false);
}

static bool write_alloc(struct call_list *list, const struct call *call, uint64_t time)
{
    weir_trace_event event = call->event;
    const uint32_t index = block_index(list, call->block);
    if (call->outcome == OUTCOME_FREES_FIRST && !write_free(list, call->freed, time, &event)) {
        return false;
    }
    event.time_ns = time;
    event.id = index;
    event.size = event.size != 0 ? event.size : 1;
    return builder_event(list->builder, &event, index, TRACE_NO_INDEX, true);
}

static bool write_call(struct call_list *list, const struct call *call, uint64_t begin)
{
    weir_trace_event event = call->event;
    event.time_ns = call->time - begin;
    switch (event.kind) {
    case WEIR_TRACE_PRIOR:
        return true;
    case WEIR_TRACE_ALLOC:
        return write_alloc(list, call, event.time_ns);
    case WEIR_TRACE_FREE:
        return call->outcome == OUTCOME_LEFT_OUT || write_free(list, call->block, event.time_ns, &event);
    default:
        return builder_event(list->builder, &event, TRACE_NO_INDEX, TRACE_NO_INDEX, false);
    }
}

static bool note_pairing(struct call_list *list)
{
    uint64_t brought = 0;
    for (size_t i = 0; i < list->count; i++) {
        brought += list->calls[i].outcome == OUTCOME_BRINGS_PRIOR;
    }
    return builder_note_count(list->builder, brought,
                              "frees are of blocks from before the record; these are live at its start") &&
           builder_note_count(list->builder, list->unknown, "frees of blocks that are not live are left out") &&
           builder_note_count(list->builder, list->repeated,
                              "blocks begin at the address of a live block; the missing free is added");
}

bool calls_write(struct call_list *list, uint64_t begin)
{
    bool done = pair(list);
    for (size_t i = 0; done && i < list->count; i++) {
        const struct call *call = &list->calls[i];
        if (call->event.kind == WEIR_TRACE_PRIOR || call->outcome == OUTCOME_BRINGS_PRIOR) {
            done = write_prior(list, call);
        }
    }
    for (size_t i = 0; done && i < list->count; i++) {
        done = write_call(list, &list->calls[i], begin);
    }
    return done && note_pairing(list);
}

void calls_free(struct call_list *list)
{
    free(list->calls);
    id_map_free(&list->live);
}
