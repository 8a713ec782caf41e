/* tests/pool/fault/arena_fault.c: every device call below an arena fails once, and every allocation of host memory.
 *
 * A scenario is drawn from a seed: two arenas on two streams of a small pool, allocations, marks, rewinds, resets, uses
 * by a third stream. The test runs it with the first device call failing, then with the second, until a run ends before
 * the failure occurs; the same for host memory (failing.h). After every call check must pass, the arenas must hold
 * exactly the pool's live bytes, the pool must hold exactly the device's memory, and the auditor must have found
 * nothing. The scenario continues, and at its end every byte is back at the device.
 */
#include "rig/test.h"

#include <weir/adaptor.h>
#include <weir/arena.h>
#include <weir/caching.h>
#include <weir/sim.h>

#include <inttypes.h>
#include <stdio.h>

#include "failing.h"

enum { lanes = 3, arenas = 2, most_live = 40, most_marks = 6, seeds = 10, calls = 80 };

#define REGION (64 * KIB)
#define CAPACITY (6 * REGION)
#define CHUNK (16 * KIB)

struct user {
    weir_arena *arena;
    unsigned live;
    uint64_t address[most_live];
    uint64_t size[most_live];
    unsigned marks;
    weir_mark mark[most_marks];
    unsigned live_at[most_marks];
};

struct world {
    const char *what;
    uint64_t n;
    uint64_t seed;
    uint64_t random;
    weir_sim *sim;
    weir_device *passing;
    weir_device *faulty;
    weir_pool *pool;
    weir_sim_stream *native[lanes];
    weir_stream *stream[lanes];
    /* arena i belongs to lane i; the last lane has no arena and only uses memory of the arenas */
    struct user user[arenas];
};

static void complain(const struct world *w, const char *text, int line)
{
    counting = false;
    print_error("%s, failure %" PRIu64 ", seed %" PRIu64 ": %s (line %d)\n", w->what, w->n, w->seed, text, line);
    weir_sim_finding finding;
    for (size_t i = 0; i < 3 && weir_sim_finding_at(w->sim, i, &finding); i++) {
        print_error("finding: %s\n", finding.text);
    }
    fail();
}

#define must(world, condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            complain((world), #condition, __LINE__);                                                                   \
        }                                                                                                              \
    } while (0)

#define ok(world, call) must(world, (call) == WEIR_OK)

static uint64_t below(struct world *w, uint64_t n)
{
    uint64_t z = w->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (z ^ (z >> 31)) % n;
}

static uint64_t device_holds(struct world *w)
{
    weir_sim_stats stats = WEIR_SIM_STATS_INIT;
    ok(w, weir_sim_get_stats(w->sim, &stats));
    must(w, stats.audit_lost == 0);
    return stats.held_bytes;
}

static void judge(struct world *w)
{
    const char *why = NULL;
    if (weir_pool_check(w->pool, &why) != WEIR_OK) {
        complain(w, why, __LINE__);
    }
    uint64_t held = 0;
    for (unsigned i = 0; i < arenas; i++) {
        weir_arena_stats usage = WEIR_ARENA_STATS_INIT;
        if (w->user[i].arena != NULL) {
            ok(w, weir_arena_get_stats(w->user[i].arena, &usage));
            held += usage.held_bytes;
        }
    }
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(w, weir_pool_get_stats(w->pool, &stats));
    must(w, stats.live_bytes == held);
    must(w, stats.reserved_bytes == device_holds(w));
    must(w, weir_sim_finding_count(w->sim, WEIR_SIM_FINDING_KINDS) == 0);
}

static bool expected(weir_status status)
{
    return status == WEIR_OK || status == WEIR_ERR_NO_MEMORY || status == WEIR_ERR_DEVICE;
}

/* --- calls --- */

static void touch(struct world *w, unsigned lane, uint64_t address, uint64_t size, bool write)
{
    const weir_sim_access access = {address, size, write};
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.accesses = &access;
    work.access_count = 1;
    work.duration_ns = below(w, 200000);
    ok(w, weir_sim_launch(w->sim, w->native[lane], &work));
}

static void take(struct world *w, unsigned lane)
{
    struct user *user = &w->user[lane];
    const uint64_t size = 1 + below(w, below(w, 6) == 0 ? 2 * CHUNK : 3000);
    uint64_t address = 77;
    if (user->live == most_live) {
        return;
    }
    const weir_status status = POOL(weir_arena_alloc(user->arena, size, 0, &address));
    must(w, expected(status));
    must(w, (status == WEIR_OK) == (address != 77));
    if (status == WEIR_OK) {
        user->address[user->live] = address;
        user->size[user->live] = size;
        user->live++;
        weir_sim_block_alloc(w->sim, address, size, w->native[lane], "arena");
        touch(w, lane, address, size, true);
    }
}

static void announce_release(struct world *w, unsigned lane, unsigned left)
{
    struct user *user = &w->user[lane];
    while (user->live > left) {
        user->live--;
        weir_sim_block_free(w->sim, user->address[user->live], w->native[lane], "arena");
    }
}

static void mark(struct world *w, unsigned lane)
{
    struct user *user = &w->user[lane];
    if (user->marks == most_marks) {
        return;
    }
    const weir_status status = POOL(weir_arena_mark(user->arena, &user->mark[user->marks]));
    must(w, status == WEIR_OK || status == WEIR_ERR_NO_MEMORY);
    if (status == WEIR_OK) {
        user->live_at[user->marks++] = user->live;
    }
}

/* Rewinds or resets the arena. These two calls always succeed, whichever device call fails. */
static void release(struct world *w, unsigned lane, bool all)
{
    struct user *user = &w->user[lane];
    if (all) {
        announce_release(w, lane, 0);
        user->marks = 0;
        must(w, POOL(weir_arena_reset(user->arena)) == WEIR_OK);
    } else if (user->marks > 0) {
        const unsigned pick = (unsigned)below(w, user->marks);
        announce_release(w, lane, user->live_at[pick]);
        user->marks = pick + 1;
        must(w, POOL(weir_arena_rewind(user->arena, user->mark[pick])) == WEIR_OK);
    }
}

/* The last lane uses memory of an arena. If the pool cannot record the use, the host waits, as
 * weir/arena.h requires. */
static void look_on(struct world *w, unsigned lane)
{
    struct user *user = &w->user[lane];
    const unsigned other = lanes - 1;
    if (user->live == 0) {
        return;
    }
    const unsigned pick = (unsigned)below(w, user->live);
    weir_event *event = NULL;
    weir_device *device = weir_sim_device(w->sim);
    ok(w, weir_device_event_create(device, &event));
    ok(w, weir_device_event_record(device, event, w->native[lane]));
    ok(w, weir_device_stream_wait_event(device, w->native[other], event));
    ok(w, weir_device_event_destroy(device, event));
    touch(w, other, user->address[pick], user->size[pick], false);
    const weir_status status = POOL(weir_arena_use(user->arena, w->stream[other]));
    must(w, status == WEIR_OK || status == WEIR_ERR_NO_MEMORY);
    if (status != WEIR_OK) {
        ok(w, weir_device_stream_sync(device, w->native[other]));
    } else if (below(w, 3) == 0) {
        ok(w, POOL(weir_arena_use_end(user->arena, w->stream[other])));
    }
}

static void random_call(struct world *w)
{
    const unsigned lane = (unsigned)below(w, arenas);
    if (w->user[lane].arena == NULL) {
        weir_arena_config config = WEIR_ARENA_CONFIG_INIT;
        config.chunk_bytes = CHUNK;
        config.keep_chunks = (uint32_t)below(w, 3);
        const weir_status status = POOL(weir_arena_create(w->pool, w->stream[lane], &config, &w->user[lane].arena));
        must(w, status == WEIR_OK || status == WEIR_ERR_NO_MEMORY);
        return;
    }
    const uint64_t action = below(w, 100);
    if (action < 55) {
        take(w, lane);
    } else if (action < 68) {
        mark(w, lane);
    } else if (action < 80) {
        release(w, lane, false);
    } else if (action < 88) {
        release(w, lane, true);
    } else if (action < 96) {
        look_on(w, lane);
    } else {
        weir_sim_advance(w->sim, below(w, 400000));
    }
}

/* --- the scenario --- */

static void start(struct world *w, uint64_t seed)
{
    weir_sim_config config = WEIR_SIM_CONFIG_INIT;
    config.capacity_bytes = CAPACITY;
    config.region_granularity_bytes = REGION;
    config.page_bytes = REGION;
    ok(w, weir_sim_create(&config, &w->sim));
    inner = weir_sim_device(w->sim);
    ok(w, weir_device_create(&pass_ops, NULL, &w->passing));
    ok(w, weir_fault_create(w->passing, &w->faulty));
    w->seed = seed;
    w->random = seed;
    weir_caching_config caching = WEIR_CACHING_CONFIG_INIT;
    caching.small_bytes = UINT64_MAX;
    caching.small_region_bytes = REGION;
    weir_pool_config pool = WEIR_POOL_CONFIG_INIT;
    pool.device = w->faulty;
    pool.strategy = weir_caching_strategy();
    pool.strategy_config = &caching;
    pool.growth = (weir_growth)(seed % 3);
    pool.flags = WEIR_POOL_REGIONS;
    ok(w, weir_pool_create(&pool, &w->pool));
    for (unsigned lane = 0; lane < lanes; lane++) {
        ok(w, weir_sim_stream_create(w->sim, &w->native[lane]));
        ok(w, weir_pool_stream(w->pool, w->native[lane], &w->stream[lane]));
    }
}

static void run(struct world *w)
{
    for (int i = 0; i < calls; i++) {
        random_call(w);
        judge(w);
    }
    for (unsigned lane = 0; lane < arenas; lane++) {
        announce_release(w, lane, 0);
        counting = true;
        weir_arena_destroy(w->user[lane].arena);
        counting = false;
        w->user[lane].arena = NULL;
        judge(w);
    }
}

static void finish(struct world *w)
{
    must(w, expected(POOL(weir_pool_destroy(w->pool))));
    must(w, device_holds(w) == 0);
    ok(w, weir_sim_sync(w->sim));
    weir_sim_audit_leaks(w->sim);
    must(w, weir_sim_finding_count(w->sim, WEIR_SIM_FINDING_KINDS) == 0);
    assert_int_equal(weir_device_destroy(w->faulty), WEIR_OK);
    assert_int_equal(weir_device_destroy(w->passing), WEIR_OK);
    assert_int_equal(weir_sim_destroy(w->sim), WEIR_OK);
}

static bool device_strikes(weir_status status, uint64_t n, uint64_t seed)
{
    struct world world = {.what = weir_status_name(status), .n = n};
    struct world *w = &world;
    bool struck = false;
    start(w, seed);
    ok(w, weir_fault_arm(w->faulty, WEIR_CALL_ANY, n, status));
    run(w);
    ok(w, weir_fault_state(w->faulty, NULL, &struck));
    finish(w);
    return struck;
}

TEST(test_every_device_call_may_fail)
{
    uint64_t tried = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        for (uint64_t n = 1; device_strikes(n % 2 == 0 ? WEIR_ERR_DEVICE : WEIR_ERR_NO_MEMORY, n, seed); n++) {
            tried++;
        }
    }
    print_message("device: %" PRIu64 " failures\n", tried);
    assert_true(tried >= 100);
}

TEST(test_a_device_may_fail_again_and_again)
{
    for (uint64_t seed = 1; seed <= 10 * seeds; seed++) {
        struct world world = {.what = "every n-th device call", .n = 1 + seed % 4};
        struct world *w = &world;
        start(w, seed);
        fail_every = w->n;
        device_calls = seed;
        run(w);
        fail_every = 0;
        finish(w);
    }
}

static bool host_strikes(uint64_t n, uint64_t seed)
{
    struct world world = {.what = "host memory", .n = n};
    struct world *w = &world;
    start(w, seed);
    host_struck = false;
    requests = 0;
    fail_at = n;
    run(w);
    fail_at = 0;
    finish(w);
    return host_struck;
}

TEST(test_every_host_allocation_may_fail)
{
    if (CANNOT_REPLACE_MALLOC) {
        skip();
    }
    uint64_t tried = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        for (uint64_t n = 1; host_strikes(n, seed); n++) {
            tried++;
        }
    }
    print_message("host memory: %" PRIu64 " failures\n", tried);
    assert_true(tried >= 100);
}
