/* tags.c: see tags.h. One pass over the trace finds each tag's peak. Cost: linear in events, plus a sort of the
 * tags. */
#include "replay/tags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kept_back = 3 }; /* pool tags that no tag of the trace gets: untagged, "other" and "before the window" */

struct holder {
    uint32_t tag;
    uint64_t live;
    uint64_t peak;
};

/* The size and the tag under which a block was counted. */
struct owner {
    uint64_t size;
    uint32_t tag;
};

static void count_born(struct holder *holders, const uint32_t *group, struct owner *owner,
                       const weir_trace_event *event)
{
    *owner = (struct owner){event->size, event->tag == WEIR_TRACE_NONE ? WEIR_TRACE_NONE : group[event->tag]};
    if (owner->tag != WEIR_TRACE_NONE) {
        struct holder *holder = &holders[owner->tag];
        holder->live += event->size;
        holder->peak = holder->live > holder->peak ? holder->live : holder->peak;
    }
}

static void count_died(struct holder *holders, const struct owner *owner)
{
    if (owner->tag != WEIR_TRACE_NONE) {
        holders[owner->tag].live -= owner->size;
    }
}

static void find_peaks(const struct trace *trace, const uint32_t *group, struct holder *holders, struct owner *owners,
                       bool *prior)
{
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        switch (event->event.kind) {
        case WEIR_TRACE_PRIOR:
            *prior = *prior || event->event.tag == WEIR_TRACE_NONE;
            count_born(holders, group, &owners[event->index], &event->event);
            break;
        case WEIR_TRACE_ALLOC:
            count_born(holders, group, &owners[event->index], &event->event);
            break;
        case WEIR_TRACE_REALLOC:
            count_born(holders, group, &owners[event->index], &event->event);
            count_died(holders, &owners[event->old_index]);
            break;
        case WEIR_TRACE_FREE:
            count_died(holders, &owners[event->index]);
            break;
        default:
            break;
        }
    }
}

/* Orders tags by the peak of their live bytes; ties keep the order of the trace, so the same trace gives the same
 * tags. */
static int largest_first(const void *left, const void *right)
{
    const struct holder *a = left;
    const struct holder *b = right;
    if (a->peak != b->peak) {
        return a->peak > b->peak ? -1 : 1;
    }
    return a->tag < b->tag ? -1 : a->tag > b->tag;
}

static void choose(struct replay_tags *tags, struct holder *holders, uint32_t count)
{
    qsort(holders, count, sizeof(*holders), largest_first);
    for (uint32_t i = 0; i < count && holders[i].peak > 0; i++) {
        if (i == WEIR_TAGS - kept_back) {
            tags->rest = true;
            break;
        }
        tags->chosen[tags->count++] = holders[i].tag;
    }
}

struct named {
    const char *text;
    uint32_t tag;
};

static int by_text(const void *left, const void *right)
{
    const struct named *a = left;
    const struct named *b = right;
    const int order = strcmp(a->text, b->text);
    return order != 0 ? order : a->tag < b->tag ? -1 : a->tag > b->tag;
}

/* Finds for each tag the first tag with the same text. Returns false when out of host memory. */
static bool find_groups(const struct trace *trace, uint32_t *group)
{
    struct named *named = calloc((size_t)trace->tag_count + 1, sizeof(*named));
    if (named == NULL) {
        return false;
    }
    for (uint32_t tag = 0; tag < trace->tag_count; tag++) {
        named[tag] = (struct named){trace->tags[tag], tag};
    }
    qsort(named, trace->tag_count, sizeof(*named), by_text);
    for (uint32_t i = 0; i < trace->tag_count; i++) {
        const bool same = i > 0 && strcmp(named[i].text, named[i - 1].text) == 0;
        group[named[i].tag] = same ? group[named[i - 1].tag] : named[i].tag;
    }
    free(named);
    return true;
}

bool replay_tags_init(struct replay_tags *tags, const struct trace *trace)
{
    const uint32_t count = trace->tag_count;
    struct holder *holders = calloc((size_t)count + 1, sizeof(*holders));
    struct owner *owners = calloc((size_t)trace->block_count + 1, sizeof(*owners));
    *tags = (struct replay_tags){.tag_count = count};
    tags->chosen = calloc(WEIR_TAGS, sizeof(*tags->chosen));
    tags->pool_tags = calloc((size_t)count + 1, sizeof(*tags->pool_tags));
    tags->group = calloc((size_t)count + 1, sizeof(*tags->group));
    const bool enough = holders != NULL && owners != NULL && tags->chosen != NULL && tags->pool_tags != NULL &&
                        tags->group != NULL && find_groups(trace, tags->group);
    if (enough) {
        for (uint32_t tag = 0; tag < count; tag++) {
            holders[tag].tag = tag;
        }
        find_peaks(trace, tags->group, holders, owners, &tags->prior);
        choose(tags, holders, count);
    }
    free(holders);
    free(owners);
    return enough;
}

void replay_tags_fit_name(char name[WEIR_TAG_NAME_BYTES], const char *text)
{
    const size_t most = WEIR_TAG_NAME_BYTES - 1;
    size_t length = strlen(text);
    const char *end = "";
    if (length > most) {
        end = "...";
        length = most - strlen(end);
        while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80) {
            length--; /* do not cut within a character of UTF-8 */
        }
    }
    (void)snprintf(name, WEIR_TAG_NAME_BYTES, "%.*s%s", (int)length, text, end);
    if (length == 0) {
        (void)snprintf(name, WEIR_TAG_NAME_BYTES, "(no name)");
    }
}

weir_status replay_tags_name(struct replay_tags *tags, const struct trace *trace, weir_pool *pool)
{
    char name[WEIR_TAG_NAME_BYTES];
    weir_tag other = 0;
    weir_status status = tags->rest ? weir_pool_tag(pool, "other", &other) : WEIR_OK;
    if (status == WEIR_OK && tags->prior) {
        status = weir_pool_tag(pool, "before the window", &tags->prior_tag);
    }
    for (uint32_t tag = 0; tag < tags->tag_count; tag++) {
        tags->pool_tags[tag] = other;
    }
    for (uint32_t i = 0; i < tags->count && status == WEIR_OK; i++) {
        replay_tags_fit_name(name, trace->tags[tags->chosen[i]]);
        status = weir_pool_tag(pool, name, &tags->pool_tags[tags->chosen[i]]);
    }
    for (uint32_t tag = 0; tag < tags->tag_count; tag++) {
        tags->pool_tags[tag] = tags->pool_tags[tags->group[tag]];
    }
    return status;
}

void replay_tags_hold(const struct replay_tags *tags, const struct trace *trace, struct replay_sum *sums,
                      weir_oom_record *record)
{
    const size_t count = (size_t)tags->tag_count + 2;
    while (record->holder_count < WEIR_OOM_ENTRIES) {
        size_t most = 0;
        for (size_t i = 1; i < count; i++) {
            most = sums[i].bytes > sums[most].bytes ? i : most;
        }
        if (sums[most].bytes == 0) {
            break;
        }
        weir_oom_holder *holder = &record->holders[record->holder_count++];
        const char *name = most == count - 1 ? "before the window" : "untagged";
        replay_tags_fit_name(holder->name, most < tags->tag_count ? trace->tags[most] : name);
        holder->requested_bytes = sums[most].bytes;
        holder->blocks = sums[most].blocks;
        sums[most] = (struct replay_sum){0};
    }
}

void replay_tags_fini(struct replay_tags *tags)
{
    free(tags->chosen);
    free(tags->pool_tags);
    free(tags->group);
    *tags = (struct replay_tags){0};
}
