/* model_pytorch_test.c: each rule of the pytorch model by hand: rounding, pools, segments, best fit, splitting,
 * merging, lanes, regions and placing. The contract suite proves that it is a correct strategy. */
#include "rig/test.h"

#include "pytorch.h"

#define BASE (UINT64_C(1) << 40)

struct heap {
    const weir_strategy_ops *ops;
    void *state;
};

static struct heap new_heap(uint64_t pad_bytes)
{
    model_pytorch_config config = MODEL_PYTORCH_CONFIG_INIT;
    config.pad_bytes = pad_bytes;
    struct heap heap = {.ops = model_pytorch_strategy()};
    heap.state = calloc(1, heap.ops->state_size(&config));
    assert_non_null(heap.state);
    assert_int_equal(heap.ops->init(heap.state, &config), WEIR_OK);
    return heap;
}

static void end_heap(struct heap *heap)
{
    const char *why = NULL;
    assert_int_equal(heap->ops->check(heap->state, &why), WEIR_OK);
    heap->ops->fini(heap->state);
    free(heap->state);
}

static void *add(struct heap *heap, uint64_t address, uint64_t size, uint64_t hint, weir_lane lane)
{
    void *region = NULL;
    assert_int_equal(heap->ops->region_add(heap->state, address, size, hint, lane, 0, &region), WEIR_OK);
    return region;
}

static weir_range take(struct heap *heap, weir_lane lane, uint64_t size)
{
    weir_range range = {0};
    assert_int_equal(heap->ops->alloc(heap->state, lane, WEIR_TICK_MAX, size, 1, &range), WEIR_OK);
    return range;
}

static bool refuses(struct heap *heap, weir_lane lane, uint64_t size)
{
    weir_range range;
    return heap->ops->alloc(heap->state, lane, WEIR_TICK_MAX, size, 1, &range) == WEIR_ERR_NO_MEMORY;
}

static void give(struct heap *heap, weir_range range)
{
    heap->ops->free(heap->state, range.token, WEIR_LANE_OPEN, 0);
}

static uint64_t free_ranges(struct heap *heap)
{
    weir_strategy_stats stats = WEIR_STRATEGY_STATS_INIT;
    heap->ops->stats(heap->state, &stats);
    return stats.free_ranges;
}

/* --- rule 1: rounding --- */

TEST(test_rounding)
{
    assert_int_equal(model_pytorch_round(0, 0), 512);
    assert_int_equal(model_pytorch_round(1, 0), 512);
    assert_int_equal(model_pytorch_round(512, 0), 512);
    assert_int_equal(model_pytorch_round(513, 0), 1024);
    assert_int_equal(model_pytorch_round(MIB, 0), MIB);
    assert_int_equal(model_pytorch_round(480, 32), 512);
    assert_int_equal(model_pytorch_round(481, 32), 1024);
    assert_int_equal(model_pytorch_round(512, 32), 1024);
    assert_int_equal(model_pytorch_round(MIB - 32, 32), MIB);
    assert_int_equal(model_pytorch_round(MIB, 32), MIB + 512);
    assert_int_equal(model_pytorch_round(UINT64_MAX, 0), UINT64_MAX);
}

TEST(test_padding_takes_effect)
{
    struct heap heap = new_heap(32);
    add(&heap, BASE, 2 * MIB, 512, 1);
    assert_int_equal(take(&heap, 1, 512).size, 1024);
    assert_int_equal(take(&heap, 1, 480).size, 512);
    end_heap(&heap);
}

TEST(test_config)
{
    const weir_strategy_ops *ops = model_pytorch_strategy();
    model_pytorch_config config = MODEL_PYTORCH_CONFIG_INIT;
    void *memory = calloc(1, ops->state_size(NULL));
    assert_non_null(memory);
    assert_int_equal(ops->init(memory, NULL), WEIR_OK);
    config.pad_bytes = 512;
    assert_int_equal(ops->init(memory, &config), WEIR_ERR_INVALID);
    config.pad_bytes = 32;
    config.struct_size = 3;
    assert_int_equal(ops->init(memory, &config), WEIR_ERR_INVALID);
    free(memory);
}

/* --- rule 2: pools --- */

TEST(test_pools_do_not_help_each_other)
{
    struct heap heap = new_heap(0);
    add(&heap, BASE, 2 * MIB, MIB, 1);
    assert_true(refuses(&heap, 1, MIB + 1));
    add(&heap, BASE + 64 * MIB, 20 * MIB, MIB + 1, 1);
    assert_int_equal(take(&heap, 1, MIB + 1).address, BASE + 64 * MIB);
    take(&heap, 1, MIB);
    take(&heap, 1, MIB);
    assert_true(refuses(&heap, 1, 1));
    end_heap(&heap);
}

/* With 32 added bytes a request of exactly 1 MiB is a large one. */
TEST(test_pool_follows_the_rounded_size)
{
    struct heap heap = new_heap(32);
    add(&heap, BASE, 2 * MIB, 512, 1);
    assert_true(refuses(&heap, 1, MIB));
    take(&heap, 1, MIB - 32);
    end_heap(&heap);
}

/* --- rule 3: best fit --- */

/* Cuts a small segment into free holes of the given sizes, each after a taken block of 512 bytes. */
static void make_holes(struct heap *heap, uint64_t base, const uint64_t *sizes, size_t count, uint64_t *at)
{
    weir_range holes[8];
    add(heap, base, 2 * MIB, 512, 1);
    for (size_t i = 0; i < count; i++) {
        holes[i] = take(heap, 1, sizes[i]);
        at[i] = holes[i].address;
        take(heap, 1, 512);
    }
    while (!refuses(heap, 1, 512)) {
        take(heap, 1, 512);
    }
    for (size_t i = count; i > 0; i--) {
        give(heap, holes[i - 1]);
    }
}

TEST(test_smallest_that_fits)
{
    struct heap heap = new_heap(0);
    const uint64_t sizes[] = {4096, 2048, 8192, 3072};
    uint64_t at[4];
    make_holes(&heap, BASE, sizes, 4, at);
    assert_int_equal(take(&heap, 1, 2500).address, at[3]);
    assert_int_equal(take(&heap, 1, 2500).address, at[0]);
    assert_int_equal(take(&heap, 1, 2048).address, at[1]);
    assert_int_equal(take(&heap, 1, 2048).address, at[2]);
    end_heap(&heap);
}

TEST(test_ties_go_to_the_lowest_address)
{
    enum { BLOCKS = 2 * 2048 };
    static weir_range blocks[BLOCKS];
    struct heap heap = new_heap(0);
    add(&heap, BASE + 64 * MIB, 2 * MIB, 512, 1);
    add(&heap, BASE, 2 * MIB, 512, 1);
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = take(&heap, 1, 1024);
    }
    give(&heap, blocks[3000]);
    give(&heap, blocks[20]);
    give(&heap, blocks[1000]);
    give(&heap, blocks[2500]);
    assert_int_equal(take(&heap, 1, 1024).address, BASE + 20 * 1024);
    assert_int_equal(take(&heap, 1, 1024).address, BASE + 1000 * 1024);
    assert_int_equal(take(&heap, 1, 1024).address, BASE + 64 * MIB + (2500 - 2048) * 1024);
    assert_int_equal(take(&heap, 1, 1024).address, BASE + 64 * MIB + (3000 - 2048) * 1024);
    end_heap(&heap);
}

/* --- rule 4: segments --- */

TEST(test_segment_sizes)
{
    assert_int_equal(model_pytorch_segment_bytes(512), 2 * MIB);
    assert_int_equal(model_pytorch_segment_bytes(MIB), 2 * MIB);
    assert_int_equal(model_pytorch_segment_bytes(MIB + 512), 20 * MIB);
    assert_int_equal(model_pytorch_segment_bytes(10 * MIB - 512), 20 * MIB);
    assert_int_equal(model_pytorch_segment_bytes(10 * MIB), 10 * MIB);
    assert_int_equal(model_pytorch_segment_bytes(10 * MIB + 512), 12 * MIB);
    assert_int_equal(model_pytorch_segment_bytes(33 * MIB), 34 * MIB);
}

TEST(test_region_size)
{
    struct heap heap = new_heap(0);
    assert_int_equal(heap.ops->region_size(heap.state, 1, 1, 0, 512), 2 * MIB);
    assert_int_equal(heap.ops->region_size(heap.state, 1, 1, UINT64_C(1) << 35, 512), 2 * MIB);
    assert_int_equal(heap.ops->region_size(heap.state, 5 * MIB, 512, 0, 2 * MIB), 20 * MIB);
    assert_int_equal(heap.ops->region_size(heap.state, 11 * MIB, 512, 0, 16 * MIB), 16 * MIB);
    assert_int_equal(heap.ops->region_size(heap.state, 12 * MIB, 2 * MIB, 0, 2 * MIB), 14 * MIB);
    assert_int_equal(heap.ops->region_size(heap.state, UINT64_MAX, 1, 0, 2 * MIB) % (2 * MIB), 0);
    end_heap(&heap);
}

/* --- rule 5: splitting --- */

TEST(test_small_blocks_split_at_512)
{
    struct heap heap = new_heap(0);
    add(&heap, BASE, 2 * MIB, 512, 1);
    weir_range low = take(&heap, 1, MIB);
    weir_range high = take(&heap, 1, MIB - 512);
    assert_int_equal(low.address, BASE);
    assert_int_equal(high.address, BASE + MIB);
    assert_int_equal(high.size, MIB - 512);
    assert_int_equal(take(&heap, 1, 1).address, BASE + 2 * MIB - 512);
    assert_int_equal(free_ranges(&heap), 0);
    end_heap(&heap);
}

TEST(test_large_blocks_keep_a_rest_of_a_mebibyte)
{
    struct heap heap = new_heap(0);
    add(&heap, BASE, 20 * MIB, 2 * MIB, 1);
    weir_range most = take(&heap, 1, 19 * MIB);
    assert_int_equal(most.size, 20 * MIB);
    give(&heap, most);
    most = take(&heap, 1, 19 * MIB - 512);
    assert_int_equal(most.size, 19 * MIB - 512);
    assert_int_equal(free_ranges(&heap), 1);
    assert_int_equal(take(&heap, 1, MIB + 512).size, MIB + 512);
    assert_int_equal(free_ranges(&heap), 0);
    end_heap(&heap);
}

/* --- rule 6: merging --- */

TEST(test_free_merges_both_sides)
{
    struct heap heap = new_heap(0);
    void *region = add(&heap, BASE, 2 * MIB, 512, 1);
    weir_range a = take(&heap, 1, 4096);
    weir_range b = take(&heap, 1, 4096);
    weir_range c = take(&heap, 1, 4096);
    give(&heap, a);
    assert_int_equal(free_ranges(&heap), 2);
    give(&heap, c);
    assert_int_equal(free_ranges(&heap), 2);
    give(&heap, b);
    assert_int_equal(free_ranges(&heap), 1);
    const weir_tick limits[] = {0, 0};
    assert_int_equal(heap.ops->region_remove(heap.state, region, limits, 2), WEIR_OK);
    end_heap(&heap);
}

TEST(test_segments_do_not_merge)
{
    struct heap heap = new_heap(0);
    add(&heap, BASE, 20 * MIB, 2 * MIB, 1);
    add(&heap, BASE + 20 * MIB, 20 * MIB, 2 * MIB, 1);
    assert_int_equal(free_ranges(&heap), 2);
    assert_true(refuses(&heap, 1, 21 * MIB));
    end_heap(&heap);
}

/* --- lanes and regions --- */

TEST(test_streams_do_not_help_each_other)
{
    struct heap heap = new_heap(0);
    add(&heap, BASE, 2 * MIB, 512, 1);
    assert_true(refuses(&heap, 2, 512));
    assert_true(refuses(&heap, WEIR_LANE_OPEN, 512));
    assert_int_equal(heap.ops->promote(heap.state, 1, WEIR_TICK_MAX), 0);
    assert_true(refuses(&heap, WEIR_LANE_OPEN, 512));
    take(&heap, 1, 512);
    end_heap(&heap);
}

/* A block freed on another stream returns to the stream of its segment, which then stays until all work is done. */
TEST(test_freed_elsewhere)
{
    struct heap heap = new_heap(0);
    void *region = add(&heap, BASE, 2 * MIB, 512, 1);
    weir_range range = take(&heap, 1, 2 * MIB - MIB);
    heap.ops->free(heap.state, range.token, 2, 7);
    assert_true(refuses(&heap, 2, 512));
    const weir_tick some[] = {0, 1000, 1000};
    assert_int_equal(heap.ops->region_remove(heap.state, region, some, 3), WEIR_ERR_BUSY);
    assert_int_equal(take(&heap, 1, MIB).address, BASE);
    end_heap(&heap);
}

TEST(test_region_waits_for_its_tick)
{
    struct heap heap = new_heap(0);
    void *region = add(&heap, BASE, 2 * MIB, 512, 1);
    weir_range range = take(&heap, 1, 512);
    heap.ops->free(heap.state, range.token, 1, 9);
    const weir_tick early[] = {0, 8};
    const weir_tick late[] = {0, 9};
    assert_int_equal(heap.ops->region_remove(heap.state, region, early, 2), WEIR_ERR_BUSY);
    assert_int_equal(heap.ops->region_remove(heap.state, region, late, 1), WEIR_ERR_BUSY);
    assert_int_equal(heap.ops->region_remove(heap.state, region, late, 2), WEIR_OK);
    end_heap(&heap);
}

TEST(test_alignment_beyond_the_original)
{
    struct heap heap = new_heap(0);
    add(&heap, BASE + 512, 2 * MIB, 512, 1);
    weir_range range;
    assert_int_equal(heap.ops->alloc(heap.state, 1, WEIR_TICK_MAX, 100, 4096, &range), WEIR_OK);
    assert_int_equal(range.address, BASE + 4096);
    assert_int_equal(range.size, 512);
    assert_int_equal(take(&heap, 1, 3584).address, BASE + 512);
    end_heap(&heap);
}

/* --- placing --- */

static weir_status place(struct heap *heap, void *region, uint64_t address, uint64_t size, enum model_pytorch_rest rest,
                         weir_range *range)
{
    return model_pytorch_place(heap->state, region, address, size, rest, range);
}

TEST(test_place_where_told)
{
    struct heap heap = new_heap(0);
    weir_range range;
    void *region = add(&heap, BASE, 20 * MIB, 2 * MIB, 1);
    assert_int_equal(place(&heap, region, BASE + 4 * MIB, 3 * MIB, MODEL_PYTORCH_REST_FREE, &range), WEIR_OK);
    assert_int_equal(range.address, BASE + 4 * MIB);
    assert_int_equal(range.size, 3 * MIB);
    assert_int_equal(free_ranges(&heap), 2);
    assert_int_equal(take(&heap, 1, 4 * MIB).address, BASE);
    assert_int_equal(take(&heap, 1, 4 * MIB).address, BASE + 7 * MIB);
    end_heap(&heap);
}

TEST(test_place_refuses_what_is_not_free)
{
    struct heap heap = new_heap(0);
    weir_range range = {.address = 5};
    void *region = add(&heap, BASE, 20 * MIB, 2 * MIB, 1);
    assert_int_equal(place(&heap, region, BASE, 4 * MIB, MODEL_PYTORCH_REST_FREE, &range), WEIR_OK);
    range.address = 5;
    assert_int_equal(place(&heap, region, BASE, 512, MODEL_PYTORCH_REST_FREE, &range), WEIR_ERR_NO_MEMORY);
    assert_int_equal(place(&heap, region, BASE - 512, 512, MODEL_PYTORCH_REST_FREE, &range), WEIR_ERR_NO_MEMORY);
    assert_int_equal(place(&heap, region, BASE + 4 * MIB, 17 * MIB, MODEL_PYTORCH_REST_FREE, &range),
                     WEIR_ERR_NO_MEMORY);
    assert_int_equal(place(&heap, region, BASE + 20 * MIB, 512, MODEL_PYTORCH_REST_FREE, &range), WEIR_ERR_NO_MEMORY);
    assert_int_equal(place(&heap, region, BASE + 40 * MIB, 512, MODEL_PYTORCH_REST_FREE, &range), WEIR_ERR_NO_MEMORY);
    assert_int_equal(range.address, 5);
    end_heap(&heap);
}

TEST(test_place_keeps_a_rest_by_rule)
{
    struct heap heap = new_heap(0);
    weir_range range;
    void *region = add(&heap, BASE, 20 * MIB, 2 * MIB, 1);
    assert_int_equal(place(&heap, region, BASE + 4 * MIB, 15 * MIB, MODEL_PYTORCH_REST_BY_RULE, &range), WEIR_OK);
    assert_int_equal(range.size, 16 * MIB);
    give(&heap, range);
    assert_int_equal(place(&heap, region, BASE + 4 * MIB, 15 * MIB, MODEL_PYTORCH_REST_FREE, &range), WEIR_OK);
    assert_int_equal(range.size, 15 * MIB);
    end_heap(&heap);
}

/* The large pool has no free block of half a MiB, so a gap of this size belongs to the block before it. */
TEST(test_place_lends_an_impossible_front)
{
    struct heap heap = new_heap(0);
    weir_range first;
    weir_range second;
    void *region = add(&heap, BASE, 20 * MIB, 2 * MIB, 1);
    assert_int_equal(place(&heap, region, BASE, 4 * MIB, MODEL_PYTORCH_REST_FREE, &first), WEIR_OK);
    assert_int_equal(place(&heap, region, BASE + 4 * MIB + MIB / 2, 4 * MIB, MODEL_PYTORCH_REST_FREE, &second),
                     WEIR_OK);
    assert_int_equal(free_ranges(&heap), 1);
    give(&heap, first);
    assert_int_equal(take(&heap, 1, 4 * MIB).size, 4 * MIB + MIB / 2);
    end_heap(&heap);
}
