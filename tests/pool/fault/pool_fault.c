/* tests/pool/fault/pool_fault.c: every device call of a pool fails once, or in an outage of several calls, and every
 * allocation of host memory.
 *
 * A scenario is a fixed script followed by calls drawn from a seed: allocate, work, free in every way, uses, hints,
 * trims, retired streams. The test runs it with the first device call of the pool failing, then with the second, and so
 * on until a run ends before the failure occurs; for each kind of call and for any kind, with each status. After every
 * call of the scenario check must pass, the statistics must agree with the device and with the live blocks, and the
 * auditor must have found nothing. The scenario continues and must be able to finish; at its end every byte is back at
 * the device.
 *
 * The test does all of this with a pool that takes regions and with a pool that maps granules. With the latter the
 * scenario also leaves live blocks in every second granule and then requests the free memory in one piece.
 *
 * The test does the same for host memory: replacements of malloc and its relatives fail once, but only during calls of
 * the pool, not of the simulator below it.
 *
 *   pool_fault [SEEDS [TESTS]]      TESTS: a pattern of names, "*host_allocation*"
 */
#include <weir/adaptor.h>
#include <weir/budget.h>
#include <weir/bump.h>
#include <weir/caching.h>
#include <weir/pin.h>
#include <weir/pool.h>
#include <weir/sim.h>
#include <weir/size_class.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig/seeds.h"
#include "failing.h"

enum { lanes = 3, most_blocks = 24, granule = 512, random_calls = 60 };

/* Number of random scenarios for each kind of failure: 1, and more for large values of WEIR_SEEDS. With
 * WEIR_FAULT_STEP=n only every n-th call fails. */
static uint64_t seeds;
static uint64_t step;

#define KIB (UINT64_C(1) << 10)
#define REGION (64 * KIB)
#define CAPACITY (8 * REGION)

/* --- the scenario's world --- */

struct held {
    weir_block *block;
    uint64_t size;
    unsigned home; /* the lane of all its work */
};

struct world {
    const char *what; /* the failure under test */
    uint64_t n;
    uint64_t random;
    uint64_t step;
    weir_sim *sim;
    weir_device *raw;
    weir_device *passing;
    weir_device *faulty;
    weir_device *counted; /* the device that the pool uses */
    weir_pool *pool;
    weir_event *event; /* an event of the scenario, which the pool is told of */
    weir_sim_stream *native[lanes];
    weir_stream *stream[lanes];
    struct held held[most_blocks];
    unsigned blocks;
    uint64_t pinned;         /* the address of a pin of one byte; 0: none */
    weir_memory_info memory; /* under the pin when it was made */
    weir_tag tag;            /* 0 while there is no memory for its name */
};

enum { with_caching, with_size_class, with_arena, with_caching_vm, with_size_class_vm, strategies };

/* The strategy of the running test, and the names of the strategies for messages. */
static int strategy;
static const char *const strategy_names[strategies] = {"caching", "size_class", "bump", "caching+vm", "size_class+vm"};

/* True if the pool has virtual memory. */
static bool maps(void)
{
    return strategy >= with_caching_vm;
}

__attribute__((format(printf, 2, 3))) static void complain(const struct world *w, const char *format, ...)
{
    va_list arguments;
    counting = false;
    print_error("%s: %s, failure %" PRIu64 ", step %" PRIu64 ": ", strategy_names[strategy], w->what, w->n, w->step);
    va_start(arguments, format);
    vprint_error(format, arguments);
    va_end(arguments);
    print_error("\n");
    weir_sim_finding finding;
    for (size_t i = 0; i < 3 && weir_sim_finding_at(w->sim, i, &finding); i++) {
        print_error("finding: %s\n", finding.text);
    }
    fail();
}

#define must(world, condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            complain((world), "%s (line %d)", #condition, __LINE__);                                                   \
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

/* Compares the pool's counters of device calls with those of the device. */
static void judge_counters(struct world *w, const weir_pool_stats *stats)
{
    uint64_t calls[WEIR_CALL_COUNT];
    uint64_t failures[WEIR_CALL_COUNT];
    uint64_t failed = 0;
    ok(w, weir_count_get(w->counted, calls, failures));
    for (int i = 0; i < WEIR_CALL_COUNT; i++) {
        failed += failures[i];
        calls[i] -= failures[i];
    }
    must(w, stats->device_failures == failed);
    must(w, stats->region_allocs == calls[WEIR_CALL_REGION_ALLOC]);
    must(w, stats->region_frees == calls[WEIR_CALL_REGION_FREE]);
    must(w, stats->events_recorded == calls[WEIR_CALL_EVENT_RECORD]);
    must(w, stats->waits == calls[WEIR_CALL_STREAM_WAIT_EVENT]);
    must(w, stats->syncs == calls[WEIR_CALL_EVENT_SYNC]);
    must(w, stats->vm_creates == calls[WEIR_CALL_VM_CREATE] && stats->vm_destroys == calls[WEIR_CALL_VM_DESTROY]);
    must(w, stats->vm_maps == calls[WEIR_CALL_VM_MAP] && stats->vm_unmaps == calls[WEIR_CALL_VM_UNMAP]);
    must(w, stats->vm_creates == 0 || maps());
}

/* Pinned memory is where it was, whichever call has failed. */
static void judge_pin(struct world *w, const weir_pool_stats *stats)
{
    weir_memory_info now = WEIR_MEMORY_INFO_INIT;
    must(w, stats->pinned_bytes == (w->pinned != 0 ? w->memory.size : 0));
    if (w->pinned != 0) {
        ok(w, weir_pool_find_memory(w->pool, w->pinned, &now));
        must(w, now.address == w->memory.address && now.size == w->memory.size && now.handle == w->memory.handle);
    }
}

/* Checks the rules that hold after every call. */
static void judge(struct world *w)
{
    const char *why = "";
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    uint64_t requested = 0;
    uint64_t live = 0;
    w->step++;
    if (weir_pool_check(w->pool, &why) != WEIR_OK) {
        complain(w, "check: %s", why);
    }
    ok(w, weir_pool_get_stats(w->pool, &stats));
    for (unsigned i = 0; i < w->blocks; i++) {
        requested += w->held[i].size;
        live += weir_block_capacity(w->held[i].block);
    }
    must(w, stats.requested_bytes == requested && stats.live_bytes == live);
    must(w, stats.reserved_bytes == device_holds(w));
    must(w, stats.reserved_bytes >= stats.live_bytes + stats.cached_bytes + stats.pending_bytes + stats.free_bytes);
    must(w, stats.allocs - stats.frees == w->blocks);
    judge_pin(w, &stats);
    judge_counters(w, &stats);
    must(w, weir_sim_finding_count(w->sim, WEIR_SIM_FINDING_KINDS) == 0);
}

static bool expected(weir_status status)
{
    return status == WEIR_OK || status == WEIR_ERR_NO_MEMORY || status == WEIR_ERR_DEVICE;
}

/* --- calls --- */

static void work_on(struct world *w, const struct held *held, uint64_t duration_ns)
{
    weir_sim_access access = {
        .address = weir_block_address(held->block), .size = weir_block_capacity(held->block), .write = true};
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = duration_ns;
    work.accesses = &access;
    work.access_count = 1;
    work.tag = "work";
    ok(w, weir_sim_launch(w->sim, w->native[held->home], &work));
}

/* Returns NULL if the pool refused the request. */
static struct held *take(struct world *w, unsigned lane, uint64_t size, uint64_t align)
{
    weir_block *block = NULL;
    if (w->blocks == most_blocks) {
        return NULL;
    }
    const weir_tag tag = size % 2048 == 0 ? w->tag : 0;
    const weir_status status = POOL(weir_pool_alloc_tagged(w->pool, w->stream[lane], size, align, tag, &block));
    must(w, expected(status) && (status == WEIR_OK) == (block != NULL));
    if (status != WEIR_OK) {
        judge(w);
        return NULL;
    }
    struct held *held = &w->held[w->blocks++];
    *held = (struct held){block, size, lane};
    weir_sim_block_alloc(w->sim, weir_block_address(block), weir_block_capacity(block), w->native[lane], "alloc");
    work_on(w, held, 1000 + below(w, 200000));
    judge(w);
    return held;
}

static void host_waits(struct world *w, unsigned lane)
{
    ok(w, weir_device_stream_sync(w->raw, w->native[lane]));
}

static void announce_free(struct world *w, struct held held, weir_sim_stream *stream)
{
    weir_sim_block_free(w->sim, weir_block_address(held.block), stream, "free");
}

static struct held drop(struct world *w, unsigned index)
{
    const struct held held = w->held[index];
    w->held[index] = w->held[--w->blocks];
    return held;
}

static void give(struct world *w, unsigned index)
{
    const struct held held = drop(w, index);
    announce_free(w, held, w->native[held.home]);
    ok(w, POOL(weir_pool_free(w->pool, held.block, w->stream[held.home])));
    judge(w);
}

static void give_idle(struct world *w, unsigned index)
{
    const struct held held = drop(w, index);
    host_waits(w, held.home);
    announce_free(w, held, NULL);
    ok(w, POOL(weir_pool_free_idle(w->pool, held.block)));
    judge(w);
}

/* Frees the block on another lane, after telling the pool that the home lane uses the block. If the pool has no memory
 * to record the use, the caller must wait. */
static void give_elsewhere(struct world *w, unsigned index, bool end_use)
{
    const struct held held = drop(w, index);
    const unsigned other = (held.home + 1) % lanes;
    const weir_status status = POOL(weir_pool_use(w->pool, held.block, w->stream[held.home]));
    must(w, status == WEIR_OK || status == WEIR_ERR_NO_MEMORY);
    if (status != WEIR_OK) {
        host_waits(w, held.home);
    } else if (end_use) {
        ok(w, POOL(weir_pool_use_end(w->pool, held.block, w->stream[held.home])));
    }
    announce_free(w, held, w->native[other]);
    ok(w, POOL(weir_pool_free(w->pool, held.block, w->stream[other])));
    judge(w);
}

static void hint(struct world *w, unsigned from, unsigned to)
{
    ok(w, weir_device_event_record(w->raw, w->event, w->native[from]));
    weir_status status = POOL(weir_stream_recorded(w->pool, w->event, w->stream[from]));
    must(w, status == WEIR_OK || status == WEIR_ERR_NO_MEMORY);
    ok(w, weir_device_stream_wait_event(w->raw, w->native[to], w->event));
    status = POOL(weir_stream_waited(w->pool, w->stream[to], w->event));
    must(w, status == WEIR_OK || status == WEIR_ERR_NO_MEMORY);
    judge(w);
}

static void trim(struct world *w, uint64_t keep, uint32_t flags)
{
    uint64_t released = UINT64_MAX;
    const uint64_t before = device_holds(w);
    must(w, expected(POOL(weir_pool_trim(w->pool, keep, flags, &released))));
    must(w, before - device_holds(w) == released);
    judge(w);
}

static void open_lane(struct world *w, unsigned lane)
{
    ok(w, weir_sim_stream_create(w->sim, &w->native[lane]));
    weir_status status = POOL(weir_pool_stream(w->pool, w->native[lane], &w->stream[lane]));
    if (status == WEIR_ERR_NO_MEMORY) {
        status = weir_pool_stream(w->pool, w->native[lane], &w->stream[lane]);
    }
    ok(w, status);
    judge(w);
}

/* Retires a stream. A retirement that failed has changed nothing: it succeeds if it is repeated without a failure. */
static void renew_lane(struct world *w, unsigned lane)
{
    weir_status status = POOL(weir_stream_retire(w->pool, w->stream[lane]));
    must(w, status == WEIR_OK || status == WEIR_ERR_DEVICE);
    judge(w);
    if (status != WEIR_OK) {
        const uint64_t every = fail_every;
        fail_every = 0;
        outage.first = 0;
        ok(w, weir_stream_retire(w->pool, w->stream[lane]));
        fail_every = every;
    }
    ok(w, weir_sim_stream_destroy(w->sim, w->native[lane]));
    open_lane(w, lane);
}

/* --- budgets --- */

static void name_tag(struct world *w)
{
    const weir_status status = POOL(weir_pool_tag(w->pool, "pages", &w->tag));
    must(w, status == WEIR_OK || status == WEIR_ERR_NO_MEMORY);
    must(w, (status == WEIR_OK) == (w->tag == 1));
    judge(w);
}

/* Asks the pool how many blocks would fit. The answer needs neither host memory nor the device. */
static void ask(struct world *w)
{
    uint64_t fit = 0;
    must(w,
         POOL(weir_pool_would_fit(w->pool, w->stream[0], 1 + below(w, 2 * REGION), 1 + below(w, 9), &fit)) == WEIR_OK);
    judge(w);
}

/* Allocates a group: all blocks or none, whichever call fails. */
static void take_many(struct world *w, unsigned lane)
{
    const uint64_t sizes[] = {4096, REGION, 1000};
    weir_block *blocks[3] = {NULL};
    if (w->blocks + 3 > most_blocks) {
        return;
    }
    const weir_status status = POOL(weir_pool_alloc_many(w->pool, w->stream[lane], sizes, 3, w->tag, blocks));
    must(w, expected(status));
    for (unsigned i = 0; i < 3; i++) {
        must(w, (blocks[i] != NULL) == (status == WEIR_OK));
        if (status == WEIR_OK) {
            w->held[w->blocks++] = (struct held){blocks[i], sizes[i], lane};
            weir_sim_block_alloc(w->sim, weir_block_address(blocks[i]), weir_block_capacity(blocks[i]), w->native[lane],
                                 "alloc_many");
        }
    }
    judge(w);
}

static void set_limits(struct world *w, uint64_t soft, uint64_t hard)
{
    const weir_status status = POOL(weir_pool_set_limits(w->pool, soft, hard));
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    must(w, expected(status));
    ok(w, weir_pool_get_stats(w->pool, &stats));
    /* the limits are set even if some memory could not be returned */
    must(w, stats.limit_bytes == hard && stats.soft_limit_bytes == soft);
    judge(w);
}

/* --- pins --- */

static void unpin(struct world *w)
{
    if (w->pinned != 0) {
        ok(w, POOL(weir_pool_unpin(w->pool, w->pinned, 1)));
        w->pinned = 0;
    }
    judge(w);
}

/* Pins the memory of the first block, which is freed like any other. */
static void pin(struct world *w)
{
    if (w->blocks == 0 || w->pinned != 0) {
        return;
    }
    const uint64_t address = weir_block_address(w->held[0].block);
    const weir_status status = POOL(weir_pool_pin(w->pool, address, 1));
    must(w, status == WEIR_OK || status == WEIR_ERR_NO_MEMORY);
    if (status == WEIR_OK) {
        w->pinned = address;
        w->memory = (weir_memory_info)WEIR_MEMORY_INFO_INIT;
        ok(w, weir_pool_find_memory(w->pool, address, &w->memory));
    }
    judge(w);
}

/* --- the scenario --- */

/* The fixed script: every rung of the ladder and every maintenance call at least once. */
static void scatter(struct world *w);
static void keep_pinned(struct world *w);

static void script(struct world *w)
{
    (void)take(w, 0, 1000, 0);
    (void)take(w, 0, 20 * KIB, 4096);
    (void)take(w, 1, REGION, 0);
    (void)take(w, 1, 3 * KIB, REGION);
    while (w->blocks > 0) {
        give(w, 0); /* while its work is still running */
    }
    (void)take(w, 2, REGION, 0); /* the free memory belongs to another stream, so the pool waits, polls or grows */
    hint(w, 0, 1);
    /* lane 0 has freed the memory, and a hint has told the pool that lane 1 is ordered after lane 0 */
    (void)take(w, 1, 16 * KIB, 0);
    while (w->blocks > 0) {
        give_elsewhere(w, 0, w->blocks % 2 == 0); /* pending for two streams */
    }
    (void)take(w, 0, 3 * REGION, 0);
    (void)take(w, 2, 2 * REGION, 0);
    while (w->blocks > 0) {
        give(w, 0);
    }
    (void)take(w, 1, CAPACITY, 0); /* all other memory must go back first */
    weir_sim_advance(w->sim, 1000000);
    (void)take(w, 1, CAPACITY + 1, 0); /* impossible */
    while (w->blocks > 0) {
        give_idle(w, 0);
    }
    trim(w, REGION, 0);
    (void)take(w, 0, 5000, 0);
    if (w->blocks > 0) {
        give(w, 0);
    }
    trim(w, 0, WEIR_TRIM_WAIT);
    renew_lane(w, 2);
    scatter(w);
    keep_pinned(w);
    name_tag(w);
    set_limits(w, 2 * REGION, 4 * REGION);
    take_many(w, 0);
    (void)take(w, 1, 2 * REGION, 0); /* above the soft limit */
    ask(w);
    set_limits(w, REGION, REGION); /* below the reserved bytes */
    while (w->blocks > 0) {
        give(w, 0);
    }
    take_many(w, 1);
    set_limits(w, 0, 0);
}

/* Leaves live blocks in every second granule and requests the free memory between them in one piece, twice: with
 * pending work on it, and without. */
static void scatter(struct world *w)
{
    (void)take(w, 2, 1000, 0);
    for (unsigned i = 0; i < 6; i++) {
        (void)take(w, i / 3, REGION, 0);
    }
    for (unsigned i = w->blocks; i-- > 0;) {
        if (i % 2 == 0) {
            give(w, i);
        }
    }
    (void)take(w, 1, 4 * REGION, 0);
    if (w->blocks > 0) {
        give(w, w->blocks - 1);
    }
    for (unsigned lane = 0; lane < lanes; lane++) {
        host_waits(w, lane);
    }
    (void)take(w, 0, 4 * REGION, 0);
    trim(w, 2 * REGION, WEIR_TRIM_WAIT);
    while (w->blocks > 0) {
        give(w, 0);
    }
}

/* Pinned memory is freed, and the pool asks for all of the device in vain. */
static void keep_pinned(struct world *w)
{
    (void)take(w, 0, 2 * REGION, 0);
    pin(w);
    while (w->blocks > 0) {
        give(w, 0);
    }
    (void)take(w, 1, CAPACITY, 0);
    trim(w, 0, WEIR_TRIM_WAIT);
    unpin(w);
    while (w->blocks > 0) {
        give(w, 0);
    }
}

static void random_call(struct world *w)
{
    static const uint64_t sizes[] = {512, 1024, 3000, 20 * KIB, 40 * KIB, REGION, 2 * REGION, 5 * REGION};
    const uint64_t dice = below(w, 100);
    const unsigned lane = (unsigned)below(w, lanes);
    const unsigned index = w->blocks > 0 ? (unsigned)below(w, w->blocks) : 0;
    if (dice < 40) {
        (void)take(w, lane, sizes[below(w, sizeof(sizes) / sizeof(sizes[0]))], 0);
    } else if (dice < 80 && w->blocks > 0) {
        if (dice < 60) {
            give(w, index);
        } else if (dice < 75) {
            give_elsewhere(w, index, dice < 65);
        } else {
            give_idle(w, index);
        }
    } else if (dice < 88) {
        hint(w, lane, (lane + 1) % lanes);
    } else if (dice < 92) {
        trim(w, below(w, CAPACITY), dice < 90 ? WEIR_TRIM_WAIT : 0);
    } else if (dice < 94) {
        renew_lane(w, lane);
    } else if (dice < 95) {
        ask(w);
    } else if (dice < 96) {
        take_many(w, lane);
    } else if (dice < 97) {
        pin(w);
        set_limits(w, below(w, 2) * REGION, below(w, 3) * 2 * REGION + REGION);
    } else {
        unpin(w);
        weir_sim_advance(w->sim, below(w, 300000));
    }
}

/* Checks that after all these failures a request can still get the whole device. */
static void prove_health(struct world *w)
{
    while (w->blocks > 0) {
        give(w, 0);
    }
    struct held *all = NULL;
    unpin(w);
    set_limits(w, 0, 0);
    for (int tries = 0; tries < 2 && all == NULL; tries++) {
        all = take(w, 0, CAPACITY, 0);
    }
    must(w, all != NULL);
}

/* --- one run --- */

/* Creates a pool with small regions of one kind: every range may serve every request, at once or as a last resort. */
static weir_status create_pool(struct world *w, weir_growth growth)
{
    const weir_caching_config caching = {
        .struct_size = sizeof(caching),
        .small_bytes = UINT64_MAX,
        .small_region_bytes = REGION,
    };
    const weir_size_class_config size_class = {
        .struct_size = sizeof(size_class),
        .small_bytes = UINT64_MAX,
        .slab_region_bytes = REGION,
    };
    const weir_bump_config arena = {.struct_size = sizeof(arena), .chunk_bytes = REGION};
    const void *const configs[strategies] = {&caching, &size_class, &arena, &caching, &size_class};
    const weir_strategy_ops *const tables[strategies] = {weir_caching_strategy(), weir_size_class_strategy(),
                                                         weir_bump_strategy(), weir_caching_strategy(),
                                                         weir_size_class_strategy()};
    weir_pool_config pool = WEIR_POOL_CONFIG_INIT;
    pool.device = w->counted;
    pool.strategy = tables[strategy];
    pool.strategy_config = configs[strategy];
    pool.growth = growth;
    pool.flags = maps() ? 0 : WEIR_POOL_REGIONS;
    return POOL(weir_pool_create(&pool, &w->pool));
}

static bool start(struct world *w, weir_growth growth, uint64_t seed)
{
    weir_sim_config config = WEIR_SIM_CONFIG_INIT;
    config.capacity_bytes = CAPACITY;
    config.region_granularity_bytes = REGION;
    config.page_bytes = REGION;
    ok(w, weir_sim_create(&config, &w->sim));
    w->raw = weir_sim_device(w->sim);
    inner = w->raw;
    ok(w, weir_device_create(&pass_ops, NULL, &w->passing));
    ok(w, weir_fault_create(w->passing, &w->faulty));
    ok(w, weir_count_create(w->faulty, &w->counted));
    ok(w, weir_device_event_create(w->raw, &w->event));
    w->random = seed;
    const weir_status status = create_pool(w, growth);
    must(w, status == WEIR_OK || status == WEIR_ERR_NO_MEMORY);
    return status == WEIR_OK;
}

static void tidy_up(struct world *w)
{
    assert_int_equal(weir_device_destroy(w->counted), WEIR_OK);
    assert_int_equal(weir_device_destroy(w->faulty), WEIR_OK);
    assert_int_equal(weir_device_destroy(w->passing), WEIR_OK);
    assert_int_equal(weir_sim_destroy(w->sim), WEIR_OK);
}

/* Destroys the pool, which succeeds even if one device call fails: weir_pool_destroy itself tries a second time to give
 * back memory that the failure kept. After an outage the device gives the rest back before it is destroyed. */
static void finish(struct world *w)
{
    for (unsigned i = 0; i < w->blocks; i++) {
        announce_free(w, w->held[i], w->native[w->held[i].home]);
    }
    must(w, expected(POOL(weir_pool_destroy(w->pool))));
    if (outage.first != 0) {
        outage.first = 0;
        ok(w, weir_device_destroy(w->counted));
        w->counted = NULL;
    }
    must(w, device_holds(w) == 0);
    ok(w, weir_sim_sync(w->sim));
    weir_sim_audit_leaks(w->sim);
    must(w, weir_sim_finding_count(w->sim, WEIR_SIM_FINDING_KINDS) == 0);
}

static void play(struct world *w)
{
    for (unsigned lane = 0; lane < lanes; lane++) {
        open_lane(w, lane);
    }
    script(w);
    for (int i = 0; i < random_calls; i++) {
        random_call(w);
    }
}

static void run(struct world *w)
{
    play(w);
    prove_health(w);
    finish(w);
}

/* --- every device call --- */

/* Runs the scenario with failure n. Returns false if it ends before the failure occurs. */
static bool strikes(weir_device_call call, weir_status status, uint64_t n, weir_growth growth, uint64_t seed)
{
    struct world world = {.what = weir_device_call_name(call), .n = n};
    struct world *w = &world;
    bool struck = false;
    must(w, start(w, growth, seed));
    ok(w, weir_fault_arm(w->faulty, call, n, status));
    run(w);
    ok(w, weir_fault_state(w->faulty, NULL, &struck));
    tidy_up(w);
    return struck;
}

static void fail_each(weir_device_call call, weir_status status)
{
    uint64_t tried = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        /* the first seed waits first: it reaches every kind of call */
        for (uint64_t n = 1; strikes(call, status, n, (weir_growth)((seed + 1) % 3), seed); n += step) {
            tried++;
        }
    }
    print_message("%-13s %-18s %-20s %4" PRIu64 " failures\n", strategy_names[strategy], weir_device_call_name(call),
                  weir_status_name(status), tried);
    const bool of_regions = call == WEIR_CALL_REGION_ALLOC || call == WEIR_CALL_REGION_FREE;
    const bool of_mapping = call >= WEIR_CALL_VM_RESERVE && call <= WEIR_CALL_VM_UNMAP;
    if ((of_regions && !maps()) || (of_mapping && maps()) || call == WEIR_CALL_EVENT_RECORD ||
        call == WEIR_CALL_EVENT_QUERY || call == WEIR_CALL_EVENT_SYNC || call == WEIR_CALL_STREAM_WAIT_EVENT) {
        assert_true(tried > 0); /* a kind of call that the scenario does not reach is not tested */
    }
}

static void test_every_device_call_may_fail(void **state)
{
    strategy = *(int *)*state;
    for (int call = 0; call <= WEIR_CALL_ANY; call++) {
        fail_each((weir_device_call)call, WEIR_ERR_DEVICE);
        fail_each((weir_device_call)call, WEIR_ERR_NO_MEMORY);
    }
}

/* --- outages --- */

/* Runs the scenario with an outage of `count` calls. Returns false if it ends before the outage begins; then the outage
 * begins when the pool is destroyed. */
static bool goes_out(weir_device_call call, weir_status status, uint64_t first, uint64_t count, uint64_t seed)
{
    struct world world = {.what = weir_device_call_name(call), .n = first};
    struct world *w = &world;
    memset(&outage, 0, sizeof(outage));
    must(w, start(w, (weir_growth)(seed % 3), seed));
    outage.call = call;
    outage.status = status;
    outage.first = first;
    outage.count = count;
    play(w);
    const bool struck = outage.struck;
    if (struck) {
        outage.first = 0;
        prove_health(w);
    } else {
        outage.calls = first - 1;
    }
    finish(w);
    tidy_up(w);
    return struck;
}

/* From each step-th call on, an outage of all calls or of one kind, 1 to 4 calls long by turns, and now and then
 * longer. */
static void test_outages(void **state)
{
    strategy = *(int *)*state;
    uint64_t tried = 0;
    for (int call = 0; call <= WEIR_CALL_ANY; call++) {
        bool went_out = true;
        for (uint64_t first = 1; went_out && first < 4000; first += step) {
            const uint64_t count = first % 5 == 0 ? 5 + first % 11 : 1 + first % 4;
            const weir_status status = first % 2 == 0 ? WEIR_ERR_DEVICE : WEIR_ERR_NO_MEMORY;
            went_out = goes_out((weir_device_call)call, status, first, count, 1 + tried % 3);
            tried++;
        }
    }
    print_message("%-13s %" PRIu64 " outages\n", strategy_names[strategy], tried);
    assert_true(tried * step > 100);
}

/* --- a device that fails again and again --- */

/* Requests may be refused again and again; no memory may be lost, and a device that has recovered serves all its
 * memory. */
static void test_a_device_may_fail_again_and_again(void **state)
{
    strategy = *(int *)*state;
    static const uint64_t periods[] = {1, 2, 3, 5, 7, 13};
    for (uint64_t seed = 1; seed <= 10 * seeds; seed++) {
        struct world world = {.what = "every n-th device call", .n = periods[seed % 6]};
        struct world *w = &world;
        fail_every = 0;
        must(w, start(w, (weir_growth)(seed % 3), seed));
        fail_every = w->n;
        device_calls = seed;
        play(w);
        fail_every = 0;
        prove_health(w);
        finish(w);
        tidy_up(w);
    }
}

/* --- every request for host memory --- */

static bool host_strikes(uint64_t n, uint64_t seed)
{
    struct world world = {.what = "host memory", .n = n};
    struct world *w = &world;
    fail_every = 0;
    host_struck = false;
    requests = 0;
    fail_at = n;
    if (start(w, (weir_growth)(seed % 3), seed)) {
        run(w);
    }
    fail_at = 0;
    tidy_up(w);
    return host_struck;
}

static void test_every_host_allocation_may_fail(void **state)
{
    strategy = *(int *)*state;
    if (CANNOT_REPLACE_MALLOC) {
        skip();
    }
    uint64_t tried = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        for (uint64_t n = 1; host_strikes(n, seed); n += step) {
            tried++;
        }
    }
    print_message("%-13s host memory: %" PRIu64 " failures\n", strategy_names[strategy], tried);
    assert_true(tried * step >= 20);
}

int main(int argc, char **argv)
{
    seeds = seeds_count(1, WEIR_CHECKS >= 1 ? 300 : 2000);
    step = seeds_read("WEIR_FAULT_STEP", 1);
    if (step == 0) {
        (void)fprintf(stderr, "WEIR_FAULT_STEP is 1 or more\n");
        return 2;
    }
    seeds = argc > 1 ? strtoull(argv[1], NULL, 0) : seeds;
    cmocka_set_test_filter(argc > 2 ? argv[2] : NULL);
    static int which[strategies] = {with_caching, with_size_class, with_arena, with_caching_vm, with_size_class_vm};
#define WITH_EACH(test)                                                                                                \
    cmocka_unit_test_prestate(test, &which[with_caching]), cmocka_unit_test_prestate(test, &which[with_size_class]),   \
        cmocka_unit_test_prestate(test, &which[with_arena]), cmocka_unit_test_prestate(test, &which[with_caching_vm]), \
        cmocka_unit_test_prestate(test, &which[with_size_class_vm])
    const struct CMUnitTest tests[] = {
        WITH_EACH(test_every_device_call_may_fail),
        WITH_EACH(test_outages),
        WITH_EACH(test_a_device_may_fail_again_and_again),
        WITH_EACH(test_every_host_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("failures below a pool", tests, NULL, NULL);
}
