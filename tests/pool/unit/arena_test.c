/* tests/pool/unit/arena_test.c: the contract of weir/arena.h.
 *
 * First every function with every wrong argument, then marks, chunks and blocks of their own, then the order of
 * streams, checked by the simulator's auditor: kernels are still running when the next step begins, and no call costs
 * host time, so only an order makes a reuse correct. At the end random programs, and two arenas in two threads.
 *
 * The tests run in checked builds too: there the arena checks its own books after each release.
 */
enum { A, B, C, streams, most_held = 64, most_marks = 16 };

#include "rig/pool.h"

#include <weir/arena.h>
#include <weir/trace.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define REGION (64 * KIB)
#define CHUNK (16 * KIB)

/* An arena, its live allocations, and the marks in use. The auditor is told of each allocation, not of the chunks. */
struct tested {
    struct world *w;
    weir_arena *arena;
    int home; /* the arena's stream */
    size_t count;
    struct {
        uint64_t address;
        uint64_t size;
        uint32_t readers; /* other streams that read it: one bit for each stream */
    } held[most_held];
    size_t marks;
    struct {
        weir_mark mark;
        size_t count; /* number of live allocations at that time */
    } marked[most_marks];
};

static struct world open_limited(uint64_t limit, uint32_t flags)
{
    const weir_caching_config caching = regions_of(REGION, UINT64_MAX);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.strategy_config = &caching;
    config.limit_bytes = limit;
    config.flags = WEIR_POOL_REGIONS | flags;
    return world_over(new_sim(device_of_units(REGION, 16 * REGION)), config);
}

static struct world open_world(void)
{
    return open_limited(0, 0);
}

static uint64_t device_calls(const struct world *w)
{
    const weir_sim_stats stats = device_stats(w);
    uint64_t calls = 0;
    for (int i = 0; i < WEIR_CALL_COUNT; i++) {
        calls += stats.calls[i];
    }
    return calls;
}

/* Checks that no block is live after the arenas are destroyed, and that the device gets every byte back. */
static void close_empty(struct world *w)
{
    is_clean(w->sim);
    assert_int_equal(figures(w).live_bytes, 0);
    end_world(w);
}

static struct tested open_arena(struct world *w, int home, uint32_t keep_chunks, uint32_t flags)
{
    weir_arena_config config = WEIR_ARENA_CONFIG_INIT;
    config.chunk_bytes = CHUNK;
    config.keep_chunks = keep_chunks;
    config.flags = flags;
    struct tested t = {.w = w, .home = home};
    ok(weir_arena_create(w->pool, w->stream[home], &config, &t.arena));
    assert_non_null(t.arena);
    return t;
}

static weir_arena_stats usage(const struct tested *t)
{
    weir_arena_stats usage = WEIR_ARENA_STATS_INIT;
    ok(weir_arena_get_stats(t->arena, &usage));
    return usage;
}

static void announce(struct tested *t, uint64_t address, uint64_t size, const char *tag)
{
    assert_true(t->count < most_held);
    t->held[t->count].address = address;
    t->held[t->count].size = size;
    t->held[t->count].readers = 0;
    t->count++;
    weir_sim_block_alloc(t->w->sim, address, size, t->w->native[t->home], tag);
}

static uint64_t bump_aligned(struct tested *t, uint64_t size, uint64_t align)
{
    uint64_t address = 0;
    ok(weir_arena_alloc(t->arena, size, align, &address));
    announce(t, address, size, "alloc");
    return address;
}

static uint64_t bump(struct tested *t, uint64_t size)
{
    return bump_aligned(t, size, 0);
}

static uint64_t bump_tagged(struct tested *t, uint64_t size, const char *tag)
{
    uint64_t address = 0;
    ok(weir_arena_alloc(t->arena, size, 0, &address));
    announce(t, address, size, tag);
    return address;
}

/* Tells the auditor that all allocations above `left` end, in the order of the arena's stream. */
static void announce_release(struct tested *t, size_t left)
{
    while (t->count > left) {
        t->count--;
        weir_sim_block_free(t->w->sim, t->held[t->count].address, t->w->native[t->home], "release");
    }
}

static void reset(struct tested *t)
{
    announce_release(t, 0);
    t->marks = 0;
    ok(weir_arena_reset(t->arena));
}

static size_t mark(struct tested *t)
{
    assert_true(t->marks < most_marks);
    ok(weir_arena_mark(t->arena, &t->marked[t->marks].mark));
    t->marked[t->marks].count = t->count;
    return t->marks++;
}

static void rewind_to(struct tested *t, size_t index)
{
    announce_release(t, t->marked[index].count);
    t->marks = index + 1;
    ok(weir_arena_rewind(t->arena, t->marked[index].mark));
}

static void close_arena(struct tested *t)
{
    announce_release(t, 0);
    weir_arena_destroy(t->arena);
    check_pool(t->w);
}

/* --- arguments --- */

TEST(bad_arguments_change_nothing)
{
    struct world w = open_world();
    struct world other = open_world();
    weir_arena *arena = NULL;
    weir_arena_config config = WEIR_ARENA_CONFIG_INIT;
    fails(weir_arena_create(NULL, w.stream[A], &config, &arena), WEIR_ERR_INVALID);
    fails(weir_arena_create(w.pool, NULL, &config, &arena), WEIR_ERR_INVALID);
    fails(weir_arena_create(w.pool, w.stream[A], &config, NULL), WEIR_ERR_INVALID);
    fails(weir_arena_create(w.pool, other.stream[A], &config, &arena), WEIR_ERR_INVALID);
    config.flags = 2;
    fails(weir_arena_create(w.pool, w.stream[A], &config, &arena), WEIR_ERR_INVALID);
    config.flags = 0;
    config.chunk_bytes = UINT64_MAX;
    fails(weir_arena_create(w.pool, w.stream[A], &config, &arena), WEIR_ERR_INVALID);
    config.struct_size = 0;
    fails(weir_arena_create(w.pool, w.stream[A], &config, &arena), WEIR_ERR_INVALID);
    struct {
        weir_arena_config known;
        uint64_t unknown;
    } newer = {.known = WEIR_ARENA_CONFIG_INIT, .unknown = 1};
    newer.known.struct_size = sizeof(newer);
    fails(weir_arena_create(w.pool, w.stream[A], &newer.known, &arena), WEIR_ERR_UNSUPPORTED);
    assert_null(arena);

    ok(weir_arena_create(w.pool, w.stream[A], NULL, &arena));
    uint64_t address = 77;
    fails(weir_arena_alloc(NULL, 1, 0, &address), WEIR_ERR_INVALID);
    fails(weir_arena_alloc(arena, 1, 0, NULL), WEIR_ERR_INVALID);
    fails(weir_arena_alloc(arena, 0, 0, &address), WEIR_ERR_INVALID);
    fails(weir_arena_alloc(arena, UINT64_MAX, 0, &address), WEIR_ERR_INVALID);
    fails(weir_arena_alloc(arena, UINT64_C(1) << 47, 0, &address), WEIR_ERR_INVALID);
    fails(weir_arena_alloc(arena, 1, 3, &address), WEIR_ERR_INVALID);
    fails(weir_arena_alloc(arena, 1, UINT64_C(1) << 63, &address), WEIR_ERR_INVALID);
    assert_int_equal(address, 77);
    weir_mark mark = {.arena = arena};
    fails(weir_arena_mark(NULL, &mark), WEIR_ERR_INVALID);
    fails(weir_arena_mark(arena, NULL), WEIR_ERR_INVALID);
    fails(weir_arena_rewind(NULL, mark), WEIR_ERR_INVALID);
    fails(weir_arena_rewind(arena, mark), WEIR_ERR_INVALID);
    fails(weir_arena_reset(NULL), WEIR_ERR_INVALID);
    fails(weir_arena_use(NULL, w.stream[B]), WEIR_ERR_INVALID);
    fails(weir_arena_use(arena, NULL), WEIR_ERR_INVALID);
    fails(weir_arena_use(arena, other.stream[B]), WEIR_ERR_INVALID);
    fails(weir_arena_use_end(NULL, w.stream[B]), WEIR_ERR_INVALID);
    fails(weir_arena_use_end(arena, NULL), WEIR_ERR_INVALID);
    fails(weir_arena_use_end(arena, other.stream[B]), WEIR_ERR_INVALID);
    ok(weir_arena_use_end(arena, w.stream[B])); /* B has no use */
    weir_arena_stats usage = WEIR_ARENA_STATS_INIT;
    fails(weir_arena_get_stats(NULL, &usage), WEIR_ERR_INVALID);
    fails(weir_arena_get_stats(arena, NULL), WEIR_ERR_INVALID);
    usage.struct_size = 0;
    fails(weir_arena_get_stats(arena, &usage), WEIR_ERR_INVALID);
    assert_int_equal(figures(&w).allocs, 0);
    weir_arena_destroy(arena);
    weir_arena_destroy(NULL);
    close_empty(&other);
    close_empty(&w);
}

/* --- bumping --- */

TEST(allocations_follow_one_another)
{
    struct world w = open_world();
    struct tested t = open_arena(&w, A, 0, 0);
    const uint64_t first = bump_aligned(&t, 100, 1);
    assert_int_equal(bump_aligned(&t, 1, 1), first + 100);
    assert_int_equal(bump_aligned(&t, 8, 64), first + 128);
    assert_int_equal(bump(&t, 8), first + 512); /* one granule */
    assert_int_equal(usage(&t).used_bytes, 520);
    assert_int_equal(bump_aligned(&t, 8, 4 * KIB) % (4 * KIB), 0);
    assert_int_equal(usage(&t).chunks, 1);
    assert_int_equal(usage(&t).held_bytes, CHUNK);
    assert_int_equal(figures(&w).allocs, 1);
    const uint64_t left = CHUNK - usage(&t).used_bytes;
    (void)bump_aligned(&t, left, 1);
    assert_int_equal(usage(&t).chunks, 1);
    (void)bump_aligned(&t, 1, 1);
    assert_int_equal(usage(&t).chunks, 2);
    assert_int_equal(usage(&t).used_bytes, CHUNK + 1);
    assert_int_equal(usage(&t).allocs, 7);
    close_arena(&t);
    close_empty(&w);
}

/* A request that fits no empty chunk gets a block of its own, and the current chunk stays current. */
TEST(large_requests_get_blocks_of_their_own)
{
    struct world w = open_world();
    struct tested t = open_arena(&w, A, 0, 0);
    const uint64_t first = bump(&t, 512);
    (void)bump(&t, CHUNK + 1);
    (void)bump(&t, 3 * CHUNK);
    assert_int_equal(bump_aligned(&t, 512, 64 * KIB) % (64 * KIB), 0);
    assert_int_equal(usage(&t).own_blocks, 3);
    assert_int_equal(usage(&t).chunks, 1);
    assert_int_equal(usage(&t).used_bytes, 512 + CHUNK + 1 + 3 * CHUNK + 512);
    assert_int_equal(bump(&t, 512), first + 512);
    reset(&t);
    assert_int_equal(usage(&t).own_blocks, 0);
    assert_int_equal(usage(&t).used_bytes, 0);
    assert_int_equal(usage(&t).held_bytes, CHUNK);
    assert_int_equal(figures(&w).live_bytes, CHUNK);
    close_arena(&t);
    close_empty(&w);
}

/* --- resetting --- */

/* The kept chunks serve the next step at the same addresses, without a call of the pool or the device. */
TEST(a_step_repeats_itself)
{
    struct world w = open_world();
    struct tested t = open_arena(&w, A, 3, 0);
    uint64_t address[9];
    uint64_t allocs = 0;
    uint64_t calls = 0;
    for (int step = 0; step < 5; step++) {
        for (int i = 0; i < 9; i++) {
            const uint64_t got = bump(&t, 5000);
            assert_true(step == 0 || address[i] == got);
            address[i] = got;
            writes(w.sim, w.native[A], got, 5000, "step");
        }
        assert_int_equal(usage(&t).peak_used_bytes, 3 * (2 * 5120 + 5000));
        reset(&t);
        assert_true(step == 0 || (figures(&w).allocs == allocs && device_calls(&w) == calls));
        allocs = figures(&w).allocs;
        calls = device_calls(&w);
    }
    assert_int_equal(usage(&t).resets, 5);
    assert_int_equal(usage(&t).kept_chunks, 3);
    close_arena(&t);
    close_empty(&w);
}

TEST(no_more_is_kept_than_asked)
{
    struct world w = open_world();
    struct tested two = open_arena(&w, A, 2, 0);
    struct tested none = open_arena(&w, B, 7, WEIR_ARENA_KEEP_NONE);
    struct tested usual = open_arena(&w, C, 0, 0);
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < 6; i++) {
            (void)bump(&two, CHUNK);
            (void)bump(&none, CHUNK);
            (void)bump(&usual, CHUNK);
        }
        reset(&two);
        reset(&none);
        reset(&usual);
        assert_int_equal(usage(&two).kept_chunks, 2);
        assert_int_equal(usage(&two).chunks, 2);
        assert_int_equal(usage(&none).chunks, 0);
        assert_int_equal(usage(&none).held_bytes, 0);
        assert_int_equal(usage(&usual).chunks, 4);
        assert_int_equal(usage(&usual).peak_held_bytes, 6 * CHUNK);
        assert_int_equal(figures(&w).live_bytes, 6 * CHUNK);
    }
    close_arena(&two);
    close_arena(&none);
    close_arena(&usual);
    close_empty(&w);
}

/* --- marks --- */

TEST(a_rewind_releases_what_lies_above)
{
    struct world w = open_world();
    struct tested t = open_arena(&w, A, 1, 0);
    const size_t empty = mark(&t);
    (void)bump(&t, 1000);
    const size_t low = mark(&t);
    const uint64_t above = bump(&t, 1000);
    (void)bump(&t, 2 * CHUNK);
    const size_t high = mark(&t);
    (void)bump(&t, CHUNK);
    (void)bump(&t, CHUNK);
    (void)bump(&t, 2 * CHUNK);
    assert_int_equal(usage(&t).own_blocks, 2);
    assert_int_equal(usage(&t).chunks, 3);
    rewind_to(&t, high);
    assert_int_equal(usage(&t).own_blocks, 1);
    assert_int_equal(usage(&t).chunks, 2); /* one of them kept */
    assert_int_equal(usage(&t).used_bytes, 1024 + 1000 + 2 * CHUNK);
    rewind_to(&t, high); /* a second rewind has no effect */
    assert_int_equal(usage(&t).used_bytes, 1024 + 1000 + 2 * CHUNK);
    rewind_to(&t, low);
    assert_int_equal(usage(&t).own_blocks, 0);
    assert_int_equal(usage(&t).used_bytes, 1000);
    assert_int_equal(bump(&t, 1000), above);
    rewind_to(&t, empty);
    assert_int_equal(usage(&t).used_bytes, 0);
    assert_int_equal(usage(&t).kept_chunks, 1);
    close_arena(&t);
    close_empty(&w);
}

/* Checks that a refused call changes nothing. */
static void refuse(struct tested *t, weir_mark mark)
{
    const weir_arena_stats before = usage(t);
    fails(weir_arena_rewind(t->arena, mark), WEIR_ERR_INVALID);
    const weir_arena_stats after = usage(t);
    assert_memory_equal(&before, &after, sizeof(before));
}

TEST(wrong_marks_are_refused)
{
    struct world w = open_world();
    struct tested t = open_arena(&w, A, 0, 0);
    struct tested other = open_arena(&w, A, 0, 0);
    refuse(&t, (weir_mark){0});
    (void)bump(&t, 100);
    (void)bump(&other, 100);
    const size_t foreign = mark(&other);
    refuse(&t, other.marked[foreign].mark);

    const size_t low = mark(&t);
    (void)bump(&t, 100);
    const size_t high = mark(&t);
    const weir_mark rewound_past = t.marked[high].mark;
    (void)bump(&t, 100);
    rewind_to(&t, low);
    refuse(&t, rewound_past);
    /* A second allocation reaches as high as the first and gets a mark at the same depth. The mark of the first stays
     * invalid. */
    (void)bump(&t, 100);
    const size_t again = mark(&t);
    (void)bump(&t, 100);
    refuse(&t, rewound_past);
    rewind_to(&t, again);

    const weir_mark older = t.marked[low].mark;
    reset(&t);
    refuse(&t, older);
    (void)bump(&t, 100);
    (void)mark(&t);
    refuse(&t, older);
    close_arena(&t);
    /* The new arena may lie at the address of the destroyed one. Marks of the destroyed one are refused. */
    t = open_arena(&w, A, 0, 0);
    (void)bump(&t, 100);
    (void)mark(&t);
    refuse(&t, older);
    close_arena(&t);
    close_arena(&other);
    close_empty(&w);
}

/* A loop that marks and rewinds without end uses no more memory than its first turn. */
TEST(marks_at_one_place_are_one)
{
    struct world w = open_world();
    struct tested t = open_arena(&w, A, 0, 0);
    (void)bump(&t, 100);
    weir_mark first;
    ok(weir_arena_mark(t.arena, &first));
    for (int i = 0; i < 100000; i++) {
        weir_mark mark;
        uint64_t address = 0;
        ok(weir_arena_mark(t.arena, &mark));
        assert_int_equal(mark.depth, first.depth);
        ok(weir_arena_alloc(t.arena, 100, 0, &address));
        ok(weir_arena_rewind(t.arena, mark));
    }
    ok(weir_arena_rewind(t.arena, first));
    close_arena(&t);
    close_empty(&w);
}

/* --- running out --- */

/* The pool has memory for the request but not for a chunk, then for neither. Nothing is lost, and the arena stays
 * usable. */
TEST(a_full_pool_is_reported)
{
    struct world w = open_limited(REGION, 0);
    weir_block *block = NULL;
    ok(weir_pool_alloc(w.pool, w.stream[B], REGION - CHUNK - 2 * KIB, 0, &block));
    struct tested t = open_arena(&w, A, 0, 0);
    (void)bump(&t, CHUNK - 512);
    const size_t full = mark(&t);
    (void)bump(&t, 1024);
    assert_int_equal(usage(&t).own_blocks, 1);
    const weir_arena_stats before = usage(&t);
    uint64_t address = 77;
    fails(weir_arena_alloc(t.arena, 2 * KIB, 0, &address), WEIR_ERR_NO_MEMORY);
    fails(weir_arena_alloc(t.arena, 2 * CHUNK, 0, &address), WEIR_ERR_NO_MEMORY);
    assert_int_equal(address, 77);
    weir_arena_stats after = usage(&t);
    assert_memory_equal(&before, &after, sizeof(before));
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    ok(weir_pool_get_oom(w.pool, &record));
    assert_int_equal(record.size, 2 * CHUNK);
    rewind_to(&t, full);
    (void)bump(&t, 512);
    ok(weir_pool_free(w.pool, block, w.stream[B]));
    (void)bump(&t, 2 * CHUNK);
    close_arena(&t);
    close_empty(&w);
}

/* The arena frees its kept chunks before it refuses a large request. */
TEST(kept_chunks_go_before_a_refusal)
{
    struct world w = open_limited(REGION, 0);
    struct tested t = open_arena(&w, A, 0, 0);
    for (int i = 0; i < 4; i++) {
        (void)bump(&t, CHUNK);
    }
    reset(&t);
    assert_int_equal(usage(&t).kept_chunks, 4);
    (void)bump(&t, 512);
    (void)bump(&t, 3 * CHUNK);
    assert_int_equal(usage(&t).kept_chunks, 0);
    assert_int_equal(usage(&t).chunks, 1);
    close_arena(&t);
    close_empty(&w);
}

/* --- streams --- */

/* The arena's own stream orders the old use before the new one, after a reset and after a rewind. */
TEST(own_work_may_still_run)
{
    struct world w = open_world();
    struct tested t = open_arena(&w, A, 0, 0);
    for (int step = 0; step < 4; step++) {
        writes(w.sim, w.native[A], bump(&t, 1000), 1000, "result");
        const size_t scratch = mark(&t);
        writes(w.sim, w.native[A], bump(&t, 3000), 3000, "scratch");
        rewind_to(&t, scratch);
        writes(w.sim, w.native[A], bump(&t, 3000), 3000, "more scratch");
        reset(&t);
    }
    assert_int_equal(figures(&w).allocs, 1);
    close_arena(&t);
    close_empty(&w);
}

/* B reads the allocations of steps of A for a long time, with and without weir_arena_use. */
static void steps_that_another_stream_reads(struct tested *t, bool tell, bool by_rewind)
{
    struct world *w = t->w;
    if (by_rewind) {
        (void)bump_tagged(t, 512, "below");
    }
    const size_t start = mark(t);
    const uint64_t first = bump_tagged(t, 4 * KIB, "first");
    writes(w->sim, w->native[A], first, 4 * KIB, "write");
    order(w->sim, w->native[A], w->native[B]);
    reads(w->sim, w->native[B], first, 4 * KIB, "read");
    if (tell) {
        ok(weir_arena_use(t->arena, w->stream[B]));
    }
    if (by_rewind) {
        rewind_to(t, start);
    } else {
        reset(t);
    }
    writes(w->sim, w->native[A], bump_tagged(t, 4 * KIB, "second"), 4 * KIB, "overwrite");
}

TEST(other_streams_are_waited_for)
{
    for (int by_rewind = 0; by_rewind < 2; by_rewind++) {
        struct world w = open_world();
        struct tested t = open_arena(&w, A, 0, 0);
        steps_that_another_stream_reads(&t, true, by_rewind != 0);
        check_pool(&w);
        close_arena(&t);
        close_empty(&w);
    }
}

/* The seeded mistake: without weir_arena_use the auditor finds the hazard, so the test above could fail. */
TEST(a_stream_without_arena_use_is_a_hazard)
{
    for (int by_rewind = 0; by_rewind < 2; by_rewind++) {
        struct world w = open_world();
        struct tested t = open_arena(&w, A, 0, 0);
        steps_that_another_stream_reads(&t, false, by_rewind != 0);
        assert_true(weir_sim_finding_count(w.sim, WEIR_SIM_EARLY_REUSE) +
                        weir_sim_finding_count(w.sim, WEIR_SIM_UNORDERED) >
                    0);
        close_arena(&t);
        weir_pool_stats stats = WEIR_POOL_STATS_INIT;
        ok(weir_pool_get_stats(w.pool, &stats));
        assert_int_equal(stats.live_bytes, 0);
        end_world(&w);
    }
}

/* weir_arena_use also covers allocations that are made after the call: in the same chunk, in a kept one, in a new one
 * and in blocks of their own. */
TEST(a_use_covers_what_comes_later)
{
    struct world w = open_world();
    struct tested t = open_arena(&w, A, 2, 0);
    (void)bump(&t, CHUNK);
    (void)bump(&t, CHUNK);
    reset(&t);
    (void)bump(&t, 512);
    ok(weir_arena_use(t.arena, w.stream[B]));
    ok(weir_arena_use(t.arena, w.stream[B])); /* a second call has no further effect */
    ok(weir_arena_use(t.arena, w.stream[A])); /* the arena's own stream needs no use */
    static const uint64_t sizes[] = {1024, CHUNK, CHUNK, 2 * CHUNK};
    for (int i = 0; i < 4; i++) {
        const uint64_t address = bump_tagged(&t, sizes[i], "later");
        order(w.sim, w.native[A], w.native[B]);
        writes(w.sim, w.native[B], address, sizes[i], "other stream");
    }
    assert_int_equal(usage(&t).chunks, 3);
    reset(&t);
    assert_int_equal(usage(&t).chunks, 0); /* chunks that B may touch are not kept */
    for (int i = 0; i < 4; i++) {
        writes(w.sim, w.native[A], bump_tagged(&t, sizes[i], "next step"), sizes[i], "next step");
    }
    reset(&t);
    assert_int_equal(usage(&t).chunks, 2); /* the use ended with the reset */
    close_arena(&t);
    close_empty(&w);
}

/* After the end of the use and a wait that the pool knows, the same memory serves the next step without a further
 * wait. */
TEST(an_ended_use_and_a_wait_give_the_memory_back)
{
    for (int told = 0; told < 2; told++) {
        struct world w = open_world();
        struct tested t = open_arena(&w, A, 0, 0);
        weir_device *device = weir_sim_device(w.sim);
        weir_event *event = new_event(w.sim);
        const uint64_t first = bump_tagged(&t, CHUNK, "first");
        ok(weir_arena_use(t.arena, w.stream[B]));
        order(w.sim, w.native[A], w.native[B]);
        writes(w.sim, w.native[B], first, CHUNK, "other stream");
        ok(weir_arena_use_end(t.arena, w.stream[B]));
        ok(weir_arena_use_end(t.arena, w.stream[B])); /* the use has already ended */
        ok(weir_device_event_record(device, event, w.native[B]));
        ok(weir_device_stream_wait_event(device, w.native[A], event));
        if (told) {
            ok(weir_stream_recorded(w.pool, event, w.stream[B]));
            ok(weir_stream_waited(w.pool, w.stream[A], event));
        }
        const uint64_t own = bump_tagged(&t, CHUNK, "not the other stream's");
        reset(&t);
        assert_int_equal(usage(&t).chunks, 1);
        const uint64_t kept = bump_tagged(&t, CHUNK, "second");
        assert_int_equal(kept, own);
        const uint64_t second = bump_tagged(&t, CHUNK, "second");
        assert_int_equal(second == first, told);
        writes(w.sim, w.native[A], second, CHUNK, "overwrite");
        ok(weir_device_event_destroy(device, event));
        close_arena(&t);
        close_empty(&w);
    }
}

/* --- the end of streams and pools below an arena --- */

TEST(a_retired_stream_gives_no_more)
{
    for (int reused = 0; reused < 2; reused++) {
        struct world w = open_world();
        struct tested t = open_arena(&w, A, 0, 0);
        const uint64_t first = bump(&t, 1000);
        const size_t low = mark(&t);
        (void)bump(&t, 3 * CHUNK);
        ok(weir_arena_use(t.arena, w.stream[B]));
        writes(w.sim, w.native[A], first, 1000, "write");
        order(w.sim, w.native[A], w.native[B]);
        reads(w.sim, w.native[B], first, 1000, "read");
        ok(weir_stream_retire(w.pool, w.stream[A]));
        weir_sim_stream *native = new_stream(w.sim);
        if (reused) {
            ok(weir_pool_stream(w.pool, native, &w.stream[A])); /* takes the place of the retired stream */
        }
        uint64_t address = 77;
        fails(weir_arena_alloc(t.arena, 1, 1, &address), WEIR_ERR_INVALID);
        fails(weir_arena_use(t.arena, NULL), WEIR_ERR_INVALID);
        assert_int_equal(address, 77);
        rewind_to(&t, low);
        assert_int_equal(usage(&t).own_blocks, 0);
        reset(&t);
        assert_int_equal(usage(&t).held_bytes, 0);
        /* B is still reading: C must not get the memory yet. */
        struct tested next = open_arena(&w, C, 0, 0);
        writes(w.sim, w.native[C], bump(&next, CHUNK), CHUNK, "overwrite");
        close_arena(&next);
        close_arena(&t);
        close_empty(&w);
    }
}

/* The retirement of a stream waits for the work of the stream, so the arena forgets that the stream used its memory. */
TEST(a_retired_user_is_forgotten)
{
    struct world w = open_world();
    struct tested t = open_arena(&w, A, 0, 0);
    const uint64_t first = bump(&t, CHUNK);
    ok(weir_arena_use(t.arena, w.stream[B]));
    order(w.sim, w.native[A], w.native[B]);
    reads(w.sim, w.native[B], first, CHUNK, "read");
    ok(weir_stream_retire(w.pool, w.stream[B]));
    fails(weir_arena_use(t.arena, w.stream[B]), WEIR_ERR_INVALID);
    (void)bump(&t, CHUNK);
    ok(weir_stream_retire(w.pool, w.stream[A]));
    reset(&t);
    assert_int_equal(figures(&w).live_bytes, 0);
    assert_int_equal(figures(&w).pending_bytes, 0);
    close_arena(&t);
    close_empty(&w);
}

TEST(a_pool_that_is_gone_is_refused)
{
    struct world w = open_world();
    struct tested t = open_arena(&w, A, 0, 0);
    struct tested other = open_arena(&w, B, 0, 0);
    struct tested gone = open_arena(&w, B, 0, 0);
    (void)bump(&t, 1000);
    (void)bump(&t, 3 * CHUNK);
    const size_t low = mark(&t);
    (void)bump(&other, 10);
    close_arena(&gone);
    announce_release(&t, 0);
    announce_release(&other, 0);
    ok(weir_pool_destroy(w.pool));
    uint64_t address = 77;
    weir_mark mark = t.marked[low].mark;
    fails(weir_arena_alloc(t.arena, 1, 1, &address), WEIR_ERR_INVALID);
    fails(weir_arena_mark(t.arena, &mark), WEIR_ERR_INVALID);
    fails(weir_arena_rewind(t.arena, mark), WEIR_ERR_INVALID);
    fails(weir_arena_reset(t.arena), WEIR_ERR_INVALID);
    fails(weir_arena_use(t.arena, w.stream[B]), WEIR_ERR_INVALID);
    fails(weir_arena_use_end(t.arena, w.stream[B]), WEIR_ERR_INVALID);
    assert_int_equal(usage(&t).held_bytes, 0);
    weir_arena_destroy(t.arena);
    weir_arena_destroy(other.arena);
    is_clean(w.sim);
    assert_int_equal(weir_sim_destroy(w.sim), WEIR_OK);
}

TEST(a_child_may_destroy)
{
    struct world w = open_world();
    struct tested t = open_arena(&w, A, 0, 0);
    struct tested other = open_arena(&w, A, 0, 0);
    (void)bump(&t, 1000);
    (void)bump(&t, 3 * CHUNK);
    (void)bump(&other, 1000);
    const pid_t child = fork();
    if (child == 0) {
        weir_arena_destroy(t.arena);
        const weir_status status = weir_pool_destroy(w.pool);
        weir_arena_destroy(other.arena);
        _exit(status == WEIR_OK ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    (void)bump(&t, 1000);
    close_arena(&t);
    close_arena(&other);
    close_empty(&w);
}

/* --- recording --- */

struct text {
    size_t allocs;
    size_t uses;
    size_t frees;
};

static bool count_lines(void *ctx, const char *lines, size_t length)
{
    struct text *text = ctx;
    for (size_t i = 0; i < length; i++) {
        if (i == 0 || lines[i - 1] == '\n') {
            text->allocs += lines[i] == 'a';
            text->uses += lines[i] == 'u';
            text->frees += lines[i] == 'f';
        }
    }
    return true;
}

TEST(a_recorder_sees_blocks)
{
    struct world w = open_world();
    struct tested t = open_arena(&w, A, 1, 0);
    struct text text = {0};
    weir_recorder *recorder = NULL;
    weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
    config.sink = count_lines;
    config.sink_ctx = &text;
    ok(weir_recorder_start(w.pool, &config, &recorder));
    for (int i = 0; i < 20; i++) {
        (void)bump(&t, CHUNK / 4); /* five chunks */
    }
    reset(&t); /* four of the five chunks go back to the pool */
    (void)bump(&t, 100);
    ok(weir_arena_use(t.arena, w.stream[B]));
    reset(&t);
    uint64_t lost = 0;
    ok(weir_recorder_stop(recorder, &lost));
    assert_int_equal(lost, 0);
    assert_int_equal(text.allocs, 5);
    assert_int_equal(text.uses, 1);
    assert_int_equal(text.frees, 5);
    close_arena(&t);
    close_empty(&w);
}

/* --- random programs --- */

static uint64_t draw(uint64_t *random)
{
    uint64_t z = *random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Another stream reads an allocation after the arena's work on it, and the test announces the use to the arena before
 * or after the read. Sometimes the use ends, and the arena's stream waits for the reader; the pool may or may not be
 * told of this wait. */
static void read_elsewhere(struct tested *t, uint64_t *random)
{
    struct world *w = t->w;
    const int other = (int)((unsigned)t->home + 1 + draw(random) % (streams - 1)) % streams;
    if (t->count == 0) {
        return;
    }
    const size_t pick = draw(random) % t->count;
    const bool before = draw(random) % 2 == 0;
    if (before) {
        ok(weir_arena_use(t->arena, w->stream[other]));
    }
    order(w->sim, w->native[t->home], w->native[other]);
    touch(w->sim, w->native[other], t->held[pick].address, t->held[pick].size, false, draw(random) % LONG_NS,
          "read elsewhere");
    if (!before) {
        ok(weir_arena_use(t->arena, w->stream[other]));
    }
    if (draw(random) % 3 == 0) {
        ok(weir_arena_use_end(t->arena, w->stream[other]));
        weir_event *event = new_event(w->sim);
        ok(weir_device_event_record(weir_sim_device(w->sim), event, w->native[other]));
        ok(weir_stream_recorded(w->pool, event, w->stream[other]));
        if (draw(random) % 2 == 0) {
            ok(weir_device_stream_wait_event(weir_sim_device(w->sim), w->native[t->home], event));
            ok(weir_stream_waited(w->pool, w->stream[t->home], event));
        }
        ok(weir_event_forgotten(w->pool, event));
        ok(weir_device_event_destroy(weir_sim_device(w->sim), event));
    }
}

static void random_step(struct tested *t, uint64_t *random)
{
    struct world *w = t->w;
    const unsigned action = (unsigned)(draw(random) % 100);
    if (action < 50 && t->count < most_held) {
        const uint64_t size = 1 + (draw(random) % 10 == 0 ? draw(random) % (2 * CHUNK) : draw(random) % 2000);
        const uint64_t align = draw(random) % 3 == 0 ? 0 : UINT64_C(1) << draw(random) % 14;
        uint64_t address = 0;
        const weir_status status = weir_arena_alloc(t->arena, size, align, &address);
        assert_true(status == WEIR_OK || status == WEIR_ERR_NO_MEMORY);
        if (status == WEIR_OK) {
            assert_int_equal(address & ((align != 0 ? align : 512) - 1), 0);
            announce(t, address, size, "random");
            touch(w->sim, w->native[t->home], address, size, true, draw(random) % LONG_NS, "write");
        }
    } else if (action < 65 && t->marks < most_marks) {
        (void)mark(t);
    } else if (action < 78 && t->marks > 0) {
        rewind_to(t, draw(random) % t->marks);
    } else if (action < 86) {
        read_elsewhere(t, random);
    } else if (action < 92) {
        reset(t);
    } else if (action < 95) {
        weir_sim_advance(w->sim, draw(random) % (4 * LONG_NS));
    }
}

/* Three arenas on three streams of a small pool, so that chunks move between streams; the auditor checks each reuse. */
TEST(random_programs)
{
    for (uint64_t seed = 1; seed <= 400; seed++) {
        uint64_t random = seed;
        struct world w = open_limited(0, seed % 3 == 0 ? WEIR_POOL_NO_FRONT_CACHE : 0);
        struct tested arenas[streams];
        for (int i = 0; i < streams; i++) {
            arenas[i] = open_arena(&w, i, (uint32_t)(seed % 4), seed % 5 == 0 ? WEIR_ARENA_KEEP_NONE : 0);
        }
        for (int step = 0; step < 200; step++) {
            random_step(&arenas[draw(&random) % streams], &random);
        }
        for (int i = 0; i < streams; i++) {
            close_arena(&arenas[i]);
        }
        if (weir_sim_finding_count(w.sim, WEIR_SIM_FINDING_KINDS) != 0) {
            print_error("seed %llu\n", (unsigned long long)seed);
        }
        close_empty(&w);
    }
}

/* --- threads --- */

struct worker {
    struct tested tested;
    uint64_t random;
    uint64_t errors;
};

/* Counts errors: assertions belong to the main thread. */
static void *work(void *ctx)
{
    struct worker *worker = ctx;
    struct tested *t = &worker->tested;
    weir_sim *sim = t->w->sim;
    weir_sim_stream *native = t->w->native[t->home];
    for (int step = 0; step < 400; step++) {
        const int count = (int)(1 + draw(&worker->random) % 20);
        weir_mark half = {0};
        int kept = 0;
        uint64_t address[20];
        for (int i = 0; i < count; i++) {
            const uint64_t size = 1 + draw(&worker->random) % (CHUNK / 2);
            worker->errors += weir_arena_alloc(t->arena, size, 0, &address[i]) != WEIR_OK;
            weir_sim_block_alloc(sim, address[i], size, native, "thread");
            worker->errors += weir_sim_fill(sim, native, address[i], size, 0, "thread") != WEIR_OK;
            if (i == count / 2) {
                kept = i + 1;
                worker->errors += weir_arena_mark(t->arena, &half) != WEIR_OK;
                worker->errors += step % 7 == 0 && weir_arena_use(t->arena, t->w->stream[C]) != WEIR_OK;
            }
        }
        for (int i = count; i-- > kept;) {
            weir_sim_block_free(sim, address[i], native, "thread");
        }
        worker->errors += weir_arena_rewind(t->arena, half) != WEIR_OK;
        for (int i = kept; i-- > 0;) {
            weir_sim_block_free(sim, address[i], native, "thread");
        }
        worker->errors += weir_arena_reset(t->arena) != WEIR_OK;
    }
    return NULL;
}

TEST(two_arenas_in_two_threads)
{
    struct world w = open_world();
    struct worker workers[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        workers[i] = (struct worker){.tested = open_arena(&w, i, 2, 0), .random = (uint64_t)i};
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].errors, 0);
        close_arena(&workers[i].tested);
    }
    close_empty(&w);
}
