/* tests/rig/heap.h: a heap over memory of the process, its statistics, and its end. */
#ifndef WEIR_RIG_HEAP_H
#define WEIR_RIG_HEAP_H

#include "test.h"

#include <weir/heap.h>

/* Creates a heap without decay of idle memory, with these members of the config. */
static inline weir_heap *heap_with(uint64_t limit, uint64_t align, uint64_t slack)
{
    weir_heap *heap = NULL;
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.decay_ms = WEIR_HEAP_DECAY_NEVER;
    config.limit_bytes = limit;
    config.align = align;
    config.slack_bytes = slack;
    assert_int_equal(weir_heap_create(&config, &heap), WEIR_OK);
    return heap;
}

static inline weir_heap_stats stats_of(weir_heap *heap)
{
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    assert_int_equal(weir_heap_get_stats(heap, &stats), WEIR_OK);
    return stats;
}

static inline void check(weir_heap *heap)
{
    const char *why = "";
    if (weir_heap_check(heap, &why) != WEIR_OK) {
        fail_msg("%s", why);
    }
}

/* Destroys a heap. Its blocks are all free, and it must be able to give back everything. */
static inline void end_heap(weir_heap *heap)
{
    check(heap);
    assert_int_equal(stats_of(heap).live_bytes, 0);
    assert_int_equal(stats_of(heap).live_blocks, 0);
    assert_int_equal(weir_heap_trim(heap, 0, NULL), WEIR_OK);
    assert_int_equal(stats_of(heap).held_bytes, 0);
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
}

#endif
