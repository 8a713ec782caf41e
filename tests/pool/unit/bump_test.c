/* bump_test.c: promises of the strategy bump beyond the contract: adjacent blocks, a bump pointer that comes
 * down, chunks that are reset with the latest tick, holes and small holes. check runs after every call. */
#include <weir/bump.h>
#define STRATEGY weir_bump_strategy
#include "rig/strategy.h"

/* --- bumping --- */

TEST(blocks_lie_side_by_side)
{
    add_region(REGION, 1);
    uint64_t expected = BASE;
    for (uint64_t size = 1; size < 100000; size = size * 3 + 1) {
        assert_int_equal(take(1, size, NULL), expected);
        expected += (size + GRANULE - 1) / GRANULE * GRANULE;
    }
    assert_int_equal(stats_of(1).bytes, BASE + REGION - expected);
    assert_int_equal(stats_of(1).ranges, 1);
}

/* A free in reverse order lowers the bump pointer; any other free does not. */
TEST(the_pointer_comes_down)
{
    add_region(REGION, 1);
    weir_range blocks[4];
    take_each(1, 10 * GRANULE, blocks, 4);
    give(&blocks[3], 1, 1);
    give(&blocks[2], 1, 2);
    assert_int_equal(stats_of(1).ranges, 1);
    assert_int_equal(take(1, 5 * GRANULE, &blocks[2]), blocks[1].address + 10 * GRANULE);
    give(&blocks[0], 1, 3); /* a hole below */
    assert_int_equal(take(1, 5 * GRANULE, &blocks[3]), blocks[2].address + 5 * GRANULE);
    give(&blocks[3], 2, 4); /* another stream's free: the pointer stays */
    assert_int_equal(take(1, GRANULE, NULL), blocks[3].address + 5 * GRANULE);
}

/* --- resetting --- */

/* A chunk that is free in one lane is one piece with the tick of its latest free, in every order of frees. */
TEST(a_reset_carries_the_latest_tick)
{
    enum { count = 5 };
    for (size_t latest = 0; latest < count; latest++) {
        renew(NULL);
        add_region(REGION, 3);
        weir_range blocks[count];
        take_each(3, 10 * KIB, blocks, count);
        for (size_t i = 0; i < count; i++) {
            const size_t pick = (i + latest + 1) % count; /* `latest` comes last */
            give(&blocks[pick], 3, 10 + i);
        }
        assert_int_equal(stats_of(3).ranges, 1);
        assert_int_equal(stats_of(3).largest_bytes, REGION);
        assert_int_equal(promote(3, 10 + count - 2), 0);
        assert_int_equal(promote(3, 10 + count - 1), REGION);
        assert_int_equal(stats_of(WEIR_LANE_OPEN).largest_bytes, REGION);
    }
}

/* A chunk freed in several lanes is reset for a lane only when this lane may take each part. */
TEST(a_mixed_chunk_waits_for_each_lane)
{
    void *chunk = add_region(REGION, 1);
    weir_range blocks[4];
    take_each(1, REGION / 4, blocks, 4);
    give(&blocks[0], 1, 5);
    give(&blocks[1], 2, 6);
    give(&blocks[2], 1, 7);
    give(&blocks[3], 3, 8);
    weir_tick limits[lanes] = {WEIR_TICK_MAX, WEIR_TICK_MAX, 6, 7, 0, 0};
    assert_int_equal(take(1, REGION, NULL), 0);
    assert_false(gather(1, 9, limits, REGION, true));
    limits[3] = 8;
    assert_true(gather(1, 9, limits, REGION, false));
    weir_range whole;
    assert_int_equal(take(1, REGION, &whole), BASE);
    give(&whole, 1, 9);
    limits[1] = 8;
    assert_int_equal(rig.ops->region_remove(rig.state, chunk, limits, lanes), WEIR_ERR_BUSY);
    limits[1] = 9;
    assert_int_equal(rig.ops->region_remove(rig.state, chunk, limits, lanes), WEIR_OK);
}

/* A step that repeats the requests of the first step needs no more chunks than the first. */
TEST(steps_use_the_same_chunks)
{
    enum { count = 96 };
    add_region(REGION, 1);
    add_region(REGION, 1);
    add_region(REGION, 1);
    for (weir_tick step = 1; step < 20; step++) {
        weir_range blocks[count];
        for (size_t i = 0; i < count; i++) {
            assert_true(take(1, 20 * KIB + i * GRANULE, &blocks[i]) != 0);
        }
        give_each(blocks, count, 1, step);
        assert_int_equal(stats_of(1).ranges, 3);
    }
}

/* --- holes --- */

/* A large hole is used as a bump area before a new chunk is begun; a small hole is unused until the last resort. */
TEST(large_holes_serve_and_small_holes_wait)
{
    add_region(REGION, 1);
    weir_range crumb;
    weir_range hole;
    weir_range rest;
    take(1, 4 * KIB, &crumb);
    take(1, GRANULE, NULL);
    take(1, 64 * KIB, &hole);
    take(1, GRANULE, NULL);
    take(1, REGION - 68 * KIB - 2 * GRANULE, &rest);
    give(&crumb, 1, 1);
    assert_int_equal(take(1, GRANULE, NULL), 0);
    give(&hole, 1, 2);
    add_region(REGION, 1);
    assert_int_equal(take(1, 32 * KIB, NULL), hole.address);
    assert_int_equal(take(1, 32 * KIB, NULL), hole.address + 32 * KIB);
    weir_range large;
    assert_int_equal(take(1, REGION, &large), BASE + REGION);
    const weir_tick limits[lanes] = {WEIR_TICK_MAX, WEIR_TICK_MAX};
    assert_int_equal(take(1, 4 * KIB, NULL), 0);
    assert_false(gather(1, 3, limits, 4 * KIB, false));
    assert_true(gather(1, 3, limits, 4 * KIB, true));
    assert_int_equal(take(1, 4 * KIB, NULL), crumb.address);
    assert_false(gather(1, 3, limits, GRANULE, true));
}

/* If a request does not fit, the smaller rest is left and the larger one stays current. */
TEST(the_larger_rest_is_current)
{
    add_region(REGION, 1);
    take(1, MIB, NULL);
    add_region(3 * MIB, 1);
    assert_int_equal(take(1, 3 * MIB - 8 * KIB, NULL), BASE + REGION);
    assert_int_equal(take(1, 4 * KIB, NULL), BASE + MIB); /* 8 KiB are left above */
    add_region(3 * MIB, 1);
    assert_int_equal(take(1, MIB, NULL), BASE + REGION + 3 * MIB);
    assert_int_equal(take(1, 4 * KIB, NULL), BASE + REGION + 4 * MIB);
}

TEST(alignment_leaves_what_is_below)
{
    add_region(4 * MIB, 1);
    take(1, GRANULE, NULL);
    weir_range range;
    assert_int_equal(take_at(1, WEIR_TICK_MAX, 3 * GRANULE, MIB, &range), BASE + MIB);
    assert_int_equal(range.size, 3 * GRANULE);
    assert_int_equal(stats_of(1).ranges, 2);
    assert_int_equal(take(1, GRANULE, NULL), BASE + MIB + 3 * GRANULE);
    assert_int_equal(take(1, 3 * MIB - 4 * GRANULE, NULL), BASE + MIB + 4 * GRANULE);
    assert_int_equal(take(1, MIB - GRANULE, NULL), BASE + GRANULE);
    assert_int_equal(stats_of(1).bytes, 0);
}

/* --- chunks --- */

TEST(chunks_grow_with_the_pool)
{
    assert_int_equal(region_size(1, 0, 2 * MIB), 2 * MIB);
    assert_int_equal(region_size(1, 80 * MIB, 2 * MIB), 10 * MIB);
    assert_int_equal(region_size(1, 10000 * MIB, 2 * MIB), 32 * MIB);
    assert_int_equal(region_size(8 * MIB, 10000 * MIB, 2 * MIB), 8 * MIB);
    assert_int_equal(region_size(512 * KIB - 1, 0, 2 * MIB), 2 * MIB);
    assert_int_equal(region_size(3 * MIB, 0, MIB), 3 * MIB);

    weir_bump_config config = WEIR_BUMP_CONFIG_INIT;
    config.chunk_bytes = 5 * MIB;
    renew(&config);
    assert_int_equal(region_size(1, 10000 * MIB, MIB), 5 * MIB);
}

TEST(a_bad_config_is_refused)
{
    const weir_strategy_ops *ops = weir_bump_strategy();
    weir_bump_config config = {.struct_size = 1};
    void *own = calloc(1, ops->state_size(&config));
    assert_non_null(own);
    assert_int_equal(ops->init(own, &config), WEIR_ERR_INVALID);
    struct {
        weir_bump_config known;
        uint64_t unknown;
    } newer = {.known = {.struct_size = sizeof(newer)}, .unknown = 1};
    assert_int_equal(ops->init(own, &newer), WEIR_ERR_UNSUPPORTED);
    config.struct_size = sizeof(size_t); /* a caller older than chunk_bytes */
    config.chunk_bytes = 7 * MIB;
    assert_int_equal(ops->init(own, &config), WEIR_OK);
    assert_int_equal(ops->region_size(own, 1, 1, 0, MIB), 2 * MIB);
    ops->fini(own);
    free(own);
}

/* A million live blocks are freed in a scattered order: only whole chunks are left. */
TEST(a_million_blocks)
{
    enum { count = 1000000, stride = 700001 /* prime */ };
    void **tokens = calloc(count, sizeof(*tokens));
    assert_non_null(tokens);
    uint64_t chunks = 0;
    for (size_t i = 0; i < count; i++) {
        weir_range range;
        if (rig.ops->alloc(rig.state, 1, WEIR_TICK_MAX, GRANULE, 1, &range) != WEIR_OK) {
            (void)add_region(REGION, 1);
            chunks++;
            assert_int_equal(rig.ops->alloc(rig.state, 1, WEIR_TICK_MAX, GRANULE, 1, &range), WEIR_OK);
        }
        tokens[i] = range.token;
    }
    assert_int_equal(chunks, (count + REGION / GRANULE - 1) / (REGION / GRANULE));
    check();
    for (size_t i = 0; i < count; i++) {
        rig.ops->free(rig.state, tokens[i * stride % count], 1, i);
    }
    check();
    assert_int_equal(stats_of(1).ranges, chunks);
    assert_int_equal(stats_of(1).bytes, chunks * REGION);
    free(tokens);
}
