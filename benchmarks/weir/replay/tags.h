/* tags.h: maps the tags of a trace to tags of a pool, which can hold only a few.
 *
 * A trace may name thousands of call sites. The tags with the highest peaks of live bytes get a pool tag each, and all
 * other tags share "other". Names that are too long for a pool are cut and end with "...".
 */
#ifndef WEIR_BENCHMARKS_TAGS_H
#define WEIR_BENCHMARKS_TAGS_H

#include <weir/budget.h>
#include <weir/pool.h>

#include "trace/trace.h"

#define REPLAY_TAG_PRIOR (WEIR_TRACE_NONE - 1) /* tag of untagged blocks that were live before the trace */

struct replay_tags {
    uint32_t *chosen; /* tags of the trace that get a pool tag of their own, the largest first */
    uint32_t count;
    bool rest;           /* some tags of the trace share the pool tag "other" */
    bool prior;          /* the trace has untagged blocks that are older than itself */
    weir_tag *pool_tags; /* pool tag of each tag of the trace; the same numbers in every pool */
    /* for each tag of the trace: the first tag with the same text, for which its blocks are counted */
    uint32_t *group;
    uint32_t tag_count;
    weir_tag prior_tag;
};

/* Returns the tag of the block that an event allocates: its own, or REPLAY_TAG_PRIOR for a prior block without a
 * tag. */
static inline uint32_t replay_tag_of_event(const weir_trace_event *event)
{
    const bool prior = event->kind == WEIR_TRACE_PRIOR && event->tag == WEIR_TRACE_NONE;
    return prior ? REPLAY_TAG_PRIOR : event->tag;
}

/* Returns false when out of host memory. */
bool replay_tags_init(struct replay_tags *tags, const struct trace *trace);
/* Creates the tags in the pool. */
weir_status replay_tags_name(struct replay_tags *tags, const struct trace *trace, weir_pool *pool);
void replay_tags_fini(struct replay_tags *tags);

/* Makes a name that a pool accepts: not empty and not too long. The reader has removed control characters. */
void replay_tags_fit_name(char name[WEIR_TAG_NAME_BYTES], const char *text);

/* Returns the pool's tag for `tag`: a tag of the trace, WEIR_TRACE_NONE or REPLAY_TAG_PRIOR. */
static inline weir_tag replay_tags_of(const struct replay_tags *tags, uint32_t tag)
{
    return tag < tags->tag_count ? tags->pool_tags[tag] : tag == REPLAY_TAG_PRIOR ? tags->prior_tag : 0;
}

/* Live blocks that one tag of the trace holds. */
struct replay_sum {
    uint64_t bytes;
    uint64_t blocks;
};

/* Returns the place of a tag in an array of tag_count + 2 sums; untagged and prior blocks have the last two. */
static inline size_t replay_tags_slot(const struct replay_tags *tags, uint32_t tag)
{
    const uint32_t count = tags->tag_count;
    return tag < count ? tags->group[tag] : tag == REPLAY_TAG_PRIOR ? (size_t)count + 1 : count;
}

/* Writes the largest of the sums into the record as holders, and removes them from the sums. */
void replay_tags_hold(const struct replay_tags *tags, const struct trace *trace, struct replay_sum *sums,
                      weir_oom_record *record);

#endif
