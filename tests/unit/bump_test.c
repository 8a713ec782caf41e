/* bump_test.c: promises of the strategy arena beyond the contract: adjacent blocks, a bump pointer that comes
 * down, chunks that are reset with the latest tick, holes and small holes. check runs after every call. */
#include <weir/bump.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define GRANULE UINT64_C(512)
#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1) << 20)
#define CHUNK (2 * MIB)
#define BASE (UINT64_C(1) << 40)

enum { lanes = 6 };

struct rig {
    const weir_strategy_ops *ops;
    void *state;
    uint64_t next_address;
};

static void check(const struct rig *rig)
{
    const char *why = "?";
    if (rig->ops->check(rig->state, &why) != WEIR_OK) {
        print_error("check: %s\n", why);
        fail();
    }
}

static void start(struct rig *rig, const weir_arena_strategy_config *config)
{
    rig->ops = weir_bump_strategy();
    rig->next_address = BASE;
    rig->state = calloc(1, rig->ops->state_size(config));
    assert_non_null(rig->state);
    assert_int_equal(rig->ops->init(rig->state, config), WEIR_OK);
    for (weir_lane lane = 0; lane < lanes; lane++) {
        assert_int_equal(rig->ops->lane_add(rig->state, lane), WEIR_OK);
    }
}

static void stop(struct rig *rig)
{
    rig->ops->fini(rig->state);
    free(rig->state);
}

static void *add_chunk(struct rig *rig, uint64_t size, weir_lane lane)
{
    void *region = NULL;
    assert_int_equal(rig->ops->region_add(rig->state, rig->next_address, size, 1, lane, 0, &region), WEIR_OK);
    rig->next_address += size;
    check(rig);
    return region;
}

/* Returns the address, or 0 for a refusal. */
static uint64_t take(struct rig *rig, weir_lane lane, uint64_t size, weir_range *range)
{
    weir_range own;
    range = range != NULL ? range : &own;
    weir_status status = rig->ops->alloc(rig->state, lane, WEIR_TICK_MAX, size, 1, range);
    check(rig);
    if (status != WEIR_OK) {
        assert_int_equal(status, WEIR_ERR_NO_MEMORY);
        return 0;
    }
    return range->address;
}

static void give(struct rig *rig, const weir_range *range, weir_lane lane, weir_tick tick)
{
    rig->ops->free(rig->state, range->token, lane, tick);
    check(rig);
}

static weir_lane_stats stats_of(const struct rig *rig, weir_lane lane)
{
    weir_lane_stats stats = WEIR_LANE_STATS_INIT;
    rig->ops->lane_stats(rig->state, lane, &stats);
    return stats;
}

static bool gather(struct rig *rig, weir_lane lane, weir_tick tick, const weir_tick *limits, uint64_t size,
                   bool last_resort)
{
    bool found = rig->ops->gather(rig->state, lane, tick, limits, lanes, size, 1, last_resort);
    check(rig);
    return found;
}

/* --- bumping --- */

static void blocks_lie_side_by_side(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, NULL);
    add_chunk(&rig, CHUNK, 1);
    uint64_t expected = BASE;
    for (uint64_t size = 1; size < 100000; size = size * 3 + 1) {
        assert_int_equal(take(&rig, 1, size, NULL), expected);
        expected += (size + GRANULE - 1) / GRANULE * GRANULE;
    }
    assert_int_equal(stats_of(&rig, 1).bytes, BASE + CHUNK - expected);
    assert_int_equal(stats_of(&rig, 1).ranges, 1);
    stop(&rig);
}

/* A free in reverse order lowers the bump pointer; any other free does not. */
static void the_pointer_comes_down(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, NULL);
    add_chunk(&rig, CHUNK, 1);
    weir_range blocks[4];
    for (size_t i = 0; i < 4; i++) {
        take(&rig, 1, 10 * GRANULE, &blocks[i]);
    }
    give(&rig, &blocks[3], 1, 1);
    give(&rig, &blocks[2], 1, 2);
    assert_int_equal(stats_of(&rig, 1).ranges, 1);
    assert_int_equal(take(&rig, 1, 5 * GRANULE, &blocks[2]), blocks[1].address + 10 * GRANULE);
    give(&rig, &blocks[0], 1, 3); /* a hole below */
    assert_int_equal(take(&rig, 1, 5 * GRANULE, &blocks[3]), blocks[2].address + 5 * GRANULE);
    give(&rig, &blocks[3], 2, 4); /* another stream's free: the pointer stays */
    assert_int_equal(take(&rig, 1, GRANULE, NULL), blocks[3].address + 5 * GRANULE);
    stop(&rig);
}

/* --- resetting --- */

/* A chunk that is free in one lane is one piece with the tick of its latest free, in every order of frees. */
static void a_reset_carries_the_latest_tick(void **state)
{
    (void)state;
    enum { count = 5 };
    for (size_t latest = 0; latest < count; latest++) {
        struct rig rig;
        start(&rig, NULL);
        add_chunk(&rig, CHUNK, 3);
        weir_range blocks[count];
        for (size_t i = 0; i < count; i++) {
            take(&rig, 3, 10 * KIB, &blocks[i]);
        }
        for (size_t i = 0; i < count; i++) {
            const size_t pick = (i + latest + 1) % count; /* `latest` comes last */
            give(&rig, &blocks[pick], 3, 10 + i);
        }
        assert_int_equal(stats_of(&rig, 3).ranges, 1);
        assert_int_equal(stats_of(&rig, 3).largest_bytes, CHUNK);
        assert_int_equal(rig.ops->promote(rig.state, 3, 10 + count - 2), 0);
        assert_int_equal(rig.ops->promote(rig.state, 3, 10 + count - 1), CHUNK);
        assert_int_equal(stats_of(&rig, WEIR_LANE_OPEN).largest_bytes, CHUNK);
        check(&rig);
        stop(&rig);
    }
}

/* A chunk freed in several lanes is reset for a lane only when this lane may take each part. */
static void a_mixed_chunk_waits_for_each_lane(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, NULL);
    void *chunk = add_chunk(&rig, CHUNK, 1);
    weir_range blocks[4];
    for (size_t i = 0; i < 4; i++) {
        take(&rig, 1, CHUNK / 4, &blocks[i]);
    }
    give(&rig, &blocks[0], 1, 5);
    give(&rig, &blocks[1], 2, 6);
    give(&rig, &blocks[2], 1, 7);
    give(&rig, &blocks[3], 3, 8);
    weir_tick limits[lanes] = {WEIR_TICK_MAX, WEIR_TICK_MAX, 6, 7, 0, 0};
    assert_int_equal(take(&rig, 1, CHUNK, NULL), 0);
    assert_false(gather(&rig, 1, 9, limits, CHUNK, true));
    limits[3] = 8;
    assert_true(gather(&rig, 1, 9, limits, CHUNK, false));
    weir_range whole;
    assert_int_equal(take(&rig, 1, CHUNK, &whole), BASE);
    give(&rig, &whole, 1, 9);
    limits[1] = 8;
    assert_int_equal(rig.ops->region_remove(rig.state, chunk, limits, lanes), WEIR_ERR_BUSY);
    limits[1] = 9;
    assert_int_equal(rig.ops->region_remove(rig.state, chunk, limits, lanes), WEIR_OK);
    stop(&rig);
}

/* A step that repeats the requests of the first step needs no more chunks than the first. */
static void steps_use_the_same_chunks(void **state)
{
    (void)state;
    enum { count = 96 };
    struct rig rig;
    start(&rig, NULL);
    add_chunk(&rig, CHUNK, 1);
    add_chunk(&rig, CHUNK, 1);
    add_chunk(&rig, CHUNK, 1);
    for (weir_tick step = 1; step < 20; step++) {
        weir_range blocks[count];
        for (size_t i = 0; i < count; i++) {
            assert_true(take(&rig, 1, 20 * KIB + i * GRANULE, &blocks[i]) != 0);
        }
        for (size_t i = 0; i < count; i++) {
            give(&rig, &blocks[i], 1, step);
        }
        assert_int_equal(stats_of(&rig, 1).ranges, 3);
    }
    stop(&rig);
}

/* --- holes --- */

/* A large hole is used as a bump area before a new chunk is begun; a small hole is unused until the last resort. */
static void holes_serve_and_crumbs_wait(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, NULL);
    add_chunk(&rig, CHUNK, 1);
    weir_range crumb;
    weir_range hole;
    weir_range rest;
    take(&rig, 1, 4 * KIB, &crumb);
    take(&rig, 1, GRANULE, NULL);
    take(&rig, 1, 64 * KIB, &hole);
    take(&rig, 1, GRANULE, NULL);
    take(&rig, 1, CHUNK - 68 * KIB - 2 * GRANULE, &rest);
    give(&rig, &crumb, 1, 1);
    assert_int_equal(take(&rig, 1, GRANULE, NULL), 0);
    give(&rig, &hole, 1, 2);
    add_chunk(&rig, CHUNK, 1);
    assert_int_equal(take(&rig, 1, 32 * KIB, NULL), hole.address);
    assert_int_equal(take(&rig, 1, 32 * KIB, NULL), hole.address + 32 * KIB);
    weir_range large;
    assert_int_equal(take(&rig, 1, CHUNK, &large), BASE + CHUNK);
    const weir_tick limits[lanes] = {WEIR_TICK_MAX, WEIR_TICK_MAX};
    assert_int_equal(take(&rig, 1, 4 * KIB, NULL), 0);
    assert_false(gather(&rig, 1, 3, limits, 4 * KIB, false));
    assert_true(gather(&rig, 1, 3, limits, 4 * KIB, true));
    assert_int_equal(take(&rig, 1, 4 * KIB, NULL), crumb.address);
    assert_false(gather(&rig, 1, 3, limits, GRANULE, true));
    stop(&rig);
}

/* If a request does not fit, the smaller rest is left and the larger one stays current. */
static void the_larger_rest_is_current(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, NULL);
    add_chunk(&rig, CHUNK, 1);
    take(&rig, 1, MIB, NULL);
    add_chunk(&rig, 3 * MIB, 1);
    assert_int_equal(take(&rig, 1, 3 * MIB - 8 * KIB, NULL), BASE + CHUNK);
    assert_int_equal(take(&rig, 1, 4 * KIB, NULL), BASE + MIB); /* 8 KiB are left above */
    add_chunk(&rig, 3 * MIB, 1);
    assert_int_equal(take(&rig, 1, MIB, NULL), BASE + CHUNK + 3 * MIB);
    assert_int_equal(take(&rig, 1, 4 * KIB, NULL), BASE + CHUNK + 4 * MIB);
    stop(&rig);
}

static void alignment_leaves_what_is_below(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, NULL);
    add_chunk(&rig, 4 * MIB, 1);
    take(&rig, 1, GRANULE, NULL);
    weir_range range;
    assert_int_equal(rig.ops->alloc(rig.state, 1, WEIR_TICK_MAX, 3 * GRANULE, MIB, &range), WEIR_OK);
    check(&rig);
    assert_int_equal(range.address, BASE + MIB);
    assert_int_equal(range.size, 3 * GRANULE);
    assert_int_equal(stats_of(&rig, 1).ranges, 2);
    assert_int_equal(take(&rig, 1, GRANULE, NULL), BASE + MIB + 3 * GRANULE);
    assert_int_equal(take(&rig, 1, 3 * MIB - 4 * GRANULE, NULL), BASE + MIB + 4 * GRANULE);
    assert_int_equal(take(&rig, 1, MIB - GRANULE, NULL), BASE + GRANULE);
    assert_int_equal(stats_of(&rig, 1).bytes, 0);
    stop(&rig);
}

/* --- chunks --- */

static void chunks_grow_with_the_pool(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, NULL);
    const void *own = rig.state;
    assert_int_equal(rig.ops->region_size(own, 1, 1, 0, 2 * MIB), 2 * MIB);
    assert_int_equal(rig.ops->region_size(own, 1, 1, 80 * MIB, 2 * MIB), 10 * MIB);
    assert_int_equal(rig.ops->region_size(own, 1, 1, 10000 * MIB, 2 * MIB), 32 * MIB);
    assert_int_equal(rig.ops->region_size(own, 8 * MIB, 1, 10000 * MIB, 2 * MIB), 8 * MIB);
    assert_int_equal(rig.ops->region_size(own, 512 * KIB - 1, 1, 0, 2 * MIB), 2 * MIB);
    assert_int_equal(rig.ops->region_size(own, 3 * MIB, 1, 0, MIB), 3 * MIB);
    stop(&rig);

    weir_arena_strategy_config config = WEIR_ARENA_STRATEGY_CONFIG_INIT;
    config.chunk_bytes = 5 * MIB;
    start(&rig, &config);
    assert_int_equal(rig.ops->region_size(rig.state, 1, 1, 10000 * MIB, MIB), 5 * MIB);
    stop(&rig);
}

static void a_bad_config_is_refused(void **state)
{
    (void)state;
    const weir_strategy_ops *ops = weir_bump_strategy();
    weir_arena_strategy_config config = {.struct_size = 1};
    void *own = calloc(1, ops->state_size(&config));
    assert_non_null(own);
    assert_int_equal(ops->init(own, &config), WEIR_ERR_INVALID);
    struct {
        weir_arena_strategy_config known;
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
static void a_million_blocks(void **state)
{
    (void)state;
    enum { count = 1000000, stride = 700001 /* prime */ };
    struct rig rig;
    start(&rig, NULL);
    void **tokens = calloc(count, sizeof(*tokens));
    assert_non_null(tokens);
    uint64_t chunks = 0;
    for (size_t i = 0; i < count; i++) {
        weir_range range;
        if (rig.ops->alloc(rig.state, 1, WEIR_TICK_MAX, GRANULE, 1, &range) != WEIR_OK) {
            void *region = NULL;
            assert_int_equal(rig.ops->region_add(rig.state, rig.next_address, CHUNK, 1, 1, 0, &region), WEIR_OK);
            rig.next_address += CHUNK;
            chunks++;
            assert_int_equal(rig.ops->alloc(rig.state, 1, WEIR_TICK_MAX, GRANULE, 1, &range), WEIR_OK);
        }
        tokens[i] = range.token;
    }
    assert_int_equal(chunks, (count + CHUNK / GRANULE - 1) / (CHUNK / GRANULE));
    check(&rig);
    for (size_t i = 0; i < count; i++) {
        rig.ops->free(rig.state, tokens[i * stride % count], 1, i);
    }
    check(&rig);
    assert_int_equal(stats_of(&rig, 1).ranges, chunks);
    assert_int_equal(stats_of(&rig, 1).bytes, chunks * CHUNK);
    free(tokens);
    stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_lie_side_by_side),
        cmocka_unit_test(the_pointer_comes_down),
        cmocka_unit_test(a_reset_carries_the_latest_tick),
        cmocka_unit_test(a_mixed_chunk_waits_for_each_lane),
        cmocka_unit_test(steps_use_the_same_chunks),
        cmocka_unit_test(holes_serve_and_crumbs_wait),
        cmocka_unit_test(the_larger_rest_is_current),
        cmocka_unit_test(alignment_leaves_what_is_below),
        cmocka_unit_test(chunks_grow_with_the_pool),
        cmocka_unit_test(a_bad_config_is_refused),
        cmocka_unit_test(a_million_blocks),
    };
    return cmocka_run_group_tests_name("the strategy arena", tests, NULL, NULL);
}
