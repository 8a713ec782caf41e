/* tests/pool/stress/budget_random.c: a pool's answers about its budget are true, on random programs.
 *
 * A program allocates, works, frees and waits on a few streams of a small device, under limits that change. Meanwhile
 * the program checks:
 *
 *   would it fit?  The program asks how many blocks of a size would fit. It allocates them while time passes, and each
 *                  call that was promised must succeed. Then it goes on to its number or the first failure: the counts
 *                  say how much of what is served was promised.
 *   out of memory  The program follows one of the pieces of advice in the record, and the same call must succeed. A
 *                  quarter of the programs pin memory, so that it is one of them to end the pins.
 *   tags           Bytes and blocks of each tag are those of the blocks that the program holds.
 *   limits         Reserved memory never exceeds the hard limit, unless it was reserved before the limit fell.
 *
 * Seeds: rig/seeds.h, one in 20 beyond 1,000.
 */
#include "rig/seeds.h"
#include "rig/test.h"
#include "random_program.h"

#include <weir/budget.h>
#include <weir/pin.h>
#include <weir/sim.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { max_lanes = 4, max_blocks = 512, max_group = 48, steps = 120, tag_names = 4, max_pins = 16 };

struct held {
    weir_block *block;
    uint64_t size;
    weir_tag tag;
    unsigned lane;
};

struct program {
    uint64_t seed;
    uint64_t random;
    uint64_t step;
    const struct variant *variant;
    weir_sim_config sim_config;
    weir_pool_config config;
    struct strategy_configs configs;
    weir_sim *sim;
    weir_pool *pool;
    unsigned lanes;
    weir_sim_stream *native[max_lanes];
    weir_stream *stream[max_lanes];
    weir_tag default_tag[max_lanes];
    weir_tag tags[tag_names];
    uint64_t unit; /* size unit of regions */
    uint64_t limit;
    uint64_t soft;
    uint64_t allowed; /* reserved bytes when the limit was last lowered */
    struct held held[max_blocks];
    unsigned blocks;
    uint64_t pin_random; /* a source of its own; 0: the program never pins */
    unsigned pins;
    struct pin {
        uint64_t address;
        uint64_t size;
    } pin[max_pins];
};

/* A strategy, with regions or with virtual memory. */
struct variant {
    const char *name;
    const weir_strategy_ops *(*ops)(void);
    bool maps;
};

/* How often each promise was tested. */
static struct coverage {
    uint64_t asked[2]; /* about one block, about several */
    uint64_t whole[2]; /* of those, all blocks were promised */
    uint64_t could[2]; /* of those, all blocks were served */
    uint64_t promised; /* blocks, of several */
    uint64_t served;
    uint64_t all_or_none;
    uint64_t acted[WEIR_ADVICE_COUNT];
    uint64_t pressed;
    uint64_t above_soft;
    uint64_t trimmed;
} coverage;

#define must(p, condition, ...)                                                                                        \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            print_error("%s seed %" PRIu64 ", step %" PRIu64 ": ", (p)->variant->name, (p)->seed, (p)->step);          \
            print_error(__VA_ARGS__);                                                                                  \
            print_error(" (line %d)\n", __LINE__);                                                                     \
            fail();                                                                                                    \
        }                                                                                                              \
    } while (0)

#define ok(p, call) must(p, (call) == WEIR_OK, "%s", #call)

static uint64_t below(struct program *p, uint64_t n)
{
    return chance(&p->random) % n;
}

static bool one_in(struct program *p, uint64_t n)
{
    return below(p, n) == 0;
}

static unsigned any_lane(struct program *p)
{
    return (unsigned)below(p, p->lanes);
}

static uint64_t some_size(struct program *p)
{
    switch (below(p, 4)) {
    case 0:
        return 1 + below(p, 4096);
    case 1:
        return 1 + below(p, p->unit);
    case 2:
        return p->unit / 4 + below(p, p->unit / 2);
    default:
        return 1 + below(p, 3 * p->unit);
    }
}

static weir_pool_stats figures(struct program *p)
{
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(p, weir_pool_get_stats(p->pool, &stats));
    return stats;
}

/* --- blocks --- */

static void hold(struct program *p, weir_block *block, uint64_t size, weir_tag tag, unsigned lane)
{
    must(p, weir_block_tag(block) == tag, "the block has another tag");
    p->held[p->blocks++] = (struct held){block, size, tag, lane};
    if (one_in(p, 2)) {
        weir_sim_work work = WEIR_SIM_WORK_INIT;
        work.duration_ns = 1 + below(p, 20000);
        ok(p, weir_sim_launch(p->sim, p->native[lane], &work));
    }
}

static void release(struct program *p, unsigned index)
{
    const struct held held = p->held[index];
    if (p->lanes > 1 && one_in(p, 4)) {
        ok(p, weir_pool_use(p->pool, held.block, p->stream[any_lane(p)]));
    }
    ok(p, weir_pool_free(p->pool, held.block, p->stream[one_in(p, 5) ? any_lane(p) : held.lane]));
    p->held[index] = p->held[--p->blocks];
}

/* --- pins --- */

static void unpin_last(struct program *p)
{
    const struct pin pin = p->pin[--p->pins];
    ok(p, weir_pool_unpin(p->pool, pin.address, pin.size));
}

static void pin_or_unpin(struct program *p)
{
    if (p->pin_random == 0 || chance(&p->pin_random) % 3 != 0) {
        return;
    }
    if (p->blocks > 0 && p->pins < max_pins && chance(&p->pin_random) % 8 != 0) {
        const unsigned index = (unsigned)(chance(&p->pin_random) % p->blocks);
        const weir_block *block = p->held[index].block;
        const struct pin pin = {weir_block_address(block), weir_block_capacity(block)};
        ok(p, weir_pool_pin(p->pool, pin.address, pin.size));
        p->pin[p->pins++] = pin;
        if (chance(&p->pin_random) % 4 != 0) {
            release(p, index);
        }
    } else if (p->pins > 0) {
        unpin_last(p);
    }
}

/* --- acting on advice --- */

/* Frees the program's blocks in the range that the advice names, and checks their sum. */
static void free_between(struct program *p, const weir_oom_advice *advice)
{
    uint64_t bytes = 0;
    uint64_t blocks = 0;
    for (unsigned i = 0; i < p->blocks;) {
        const weir_block *block = p->held[i].block;
        if (weir_block_address(block) - advice->address < advice->size) {
            bytes += weir_block_capacity(block);
            blocks++;
            release(p, i);
        } else {
            i++;
        }
    }
    must(p, bytes == advice->bytes && blocks == advice->blocks,
         "the advice was to free %" PRIu64 " bytes in %" PRIu64 " blocks, and there are %" PRIu64 " in %" PRIu64,
         advice->bytes, advice->blocks, bytes, blocks);
}

static void act(struct program *p, const weir_oom_record *record, const weir_oom_advice *advice, uint64_t *size,
                uint64_t *align)
{
    switch (advice->kind) {
    case WEIR_ADVICE_RAISE_LIMIT:
        p->limit = advice->bytes;
        ok(p, weir_pool_set_limits(p->pool, p->soft, p->limit));
        break;
    case WEIR_ADVICE_DEVICE_ROOM:
        weir_sim_set_capacity(p->sim, record->reserved_bytes + advice->bytes);
        break;
    case WEIR_ADVICE_FREE_BLOCKS:
        free_between(p, advice);
        break;
    case WEIR_ADVICE_ASK_LESS:
        *size = advice->bytes;
        *align = 0;
        break;
    case WEIR_ADVICE_UNPIN:
        while (p->pins > 0) {
            unpin_last(p);
        }
        break;
    case WEIR_ADVICE_WAIT:
    case WEIR_ADVICE_END_GRAPH:
    case WEIR_ADVICE_COUNT:
    default:
        must(p, false, "the device never fails, and yet the advice is %d", (int)advice->kind);
        break;
    }
}

/* Checks the record of a call with these arguments that has failed. */
static void judge_failure(struct program *p, unsigned lane, uint64_t size, uint64_t align, weir_tag tag)
{
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    char report[4096];
    ok(p, weir_pool_get_oom(p->pool, &record));
    must(p, record.size == size && record.tag == tag, "the record is of another request");
    const size_t length = weir_oom_explain(&record, report, sizeof(report));
    must(p, length < sizeof(report) && strlen(report) == length, "the report has a wrong length");
    if (record.advice_count == 0) {
        return;
    }
    uint64_t choice = below(p, record.advice_count);
    if (record.advice[choice].kind == WEIR_ADVICE_DEVICE_ROOM && !one_in(p, 8)) {
        /* the program mostly follows other advice than to enlarge the device, because it can enlarge the device only
         * once */
        choice = record.advice_count - 1;
    }
    if (record.advice[record.advice_count - 1].kind == WEIR_ADVICE_UNPIN && chance(&p->pin_random) % 4 != 0) {
        choice = record.advice_count - 1; /* few refusals are due to pins */
    }
    const weir_oom_advice *advice = &record.advice[choice];
    weir_block *block = NULL;
    act(p, &record, advice, &size, &align);
    if (one_in(p, 2)) {
        weir_sim_advance(p->sim, below(p, 20000));
    }
    const weir_status status = weir_pool_alloc_tagged(p->pool, p->stream[lane], size, align, tag, &block);
    must(p, status == WEIR_OK, "acted on advice %d, and still: %s\n%s", (int)advice->kind, weir_status_name(status),
         report);
    coverage.acted[advice->kind]++;
    hold(p, block, size, tag, lane);
}

static void do_alloc(struct program *p)
{
    const unsigned lane = any_lane(p);
    const uint64_t size = some_size(p);
    const uint64_t align = one_in(p, 8) ? UINT64_C(1) << below(p, 18) : 0;
    const bool by_stream = one_in(p, 2);
    const weir_tag tag = by_stream ? p->default_tag[lane] : p->tags[below(p, tag_names)];
    weir_block *block = NULL;
    if (p->blocks + 2 > max_blocks - max_group) {
        release(p, (unsigned)below(p, p->blocks));
    }
    const weir_status status = by_stream ? weir_pool_alloc(p->pool, p->stream[lane], size, align, &block)
                                         : weir_pool_alloc_tagged(p->pool, p->stream[lane], size, align, tag, &block);
    if (status == WEIR_OK) {
        hold(p, block, size, tag, lane);
        return;
    }
    must(p, status == WEIR_ERR_NO_MEMORY, "alloc: %s", weir_status_name(status));
    judge_failure(p, lane, size, align, tag);
}

/* --- groups --- */

struct group {
    uint64_t sizes[max_group];
    size_t count;
};

static struct group some_group(struct program *p)
{
    struct group group = {.count = 1 + below(p, one_in(p, 3) ? 1 : one_in(p, 2) ? 8 : max_group)};
    const uint64_t size = some_size(p);
    const uint64_t other = some_size(p);
    const uint64_t variety = below(p, 3);
    for (size_t i = 0; i < group.count; i++) {
        group.sizes[i] = variety == 0 ? size : variety == 1 ? (one_in(p, 4) ? size : other) : some_size(p);
    }
    return group;
}

/* Bytes that serve no block. A query of completed work may move blocks from caches back to the strategy. */
static uint64_t unused_bytes(const weir_pool_stats *stats)
{
    return stats->cached_bytes + stats->pending_bytes + stats->free_bytes;
}

/* Allocates blocks while time passes, to the first that is not promised and fails. Returns the number of blocks. */
static uint64_t allocate_promised(struct program *p, uint64_t size, uint64_t count, uint64_t fit, unsigned lane)
{
    for (uint64_t i = 0; i < count; i++) {
        weir_block *block = NULL;
        const weir_status status = weir_pool_alloc_tagged(p->pool, p->stream[lane], size, 0, p->tags[1], &block);
        must(p, status == WEIR_OK || i >= fit,
             "a promise was broken: block %" PRIu64 " of %" PRIu64 ", %" PRIu64 " bytes: %s", i + 1, fit, size,
             weir_status_name(status));
        if (status != WEIR_OK) {
            return i;
        }
        hold(p, block, size, p->tags[1], lane);
        if (one_in(p, 4)) {
            weir_sim_advance(p->sim, below(p, 5000));
        }
    }
    return count;
}

static void do_would_fit(struct program *p)
{
    const unsigned lane = any_lane(p);
    const uint64_t size = some_size(p);
    const uint64_t count = 1 + below(p, one_in(p, 3) ? 1 : one_in(p, 2) ? 8 : max_group);
    uint64_t fit = UINT64_MAX;
    if (p->blocks + count > max_blocks) {
        return;
    }
    const weir_pool_stats before = figures(p);
    ok(p, weir_pool_would_fit(p->pool, p->stream[lane], size, count, &fit));
    const weir_pool_stats after = figures(p);
    must(p,
         before.reserved_bytes == after.reserved_bytes && unused_bytes(&before) == unused_bytes(&after) &&
             before.allocs == after.allocs && before.region_allocs == after.region_allocs &&
             before.region_frees == after.region_frees && before.waits == after.waits && before.syncs == after.syncs,
         "the question has changed something");
    must(p, fit <= count, "%" PRIu64 " blocks were asked for, and %" PRIu64 " are promised", count, fit);
    const uint64_t served = allocate_promised(p, size, count, fit, lane);
    coverage.asked[count > 1]++;
    coverage.whole[count > 1] += fit == count;
    coverage.could[count > 1] += served == count;
    coverage.promised += count > 1 ? fit : 0;
    coverage.served += count > 1 ? served : 0;
}

static void do_all_or_none(struct program *p)
{
    const unsigned lane = any_lane(p);
    const struct group group = some_group(p);
    weir_block *blocks[max_group] = {NULL};
    if (p->blocks + group.count > max_blocks) {
        return;
    }
    const weir_pool_stats before = figures(p);
    const weir_status status =
        weir_pool_alloc_many(p->pool, p->stream[lane], group.sizes, group.count, p->tags[2], blocks);
    const weir_pool_stats after = figures(p);
    must(p, status == WEIR_OK || status == WEIR_ERR_NO_MEMORY, "alloc_many: %s", weir_status_name(status));
    must(p, status == WEIR_OK || p->config.pressure_callback != NULL || before.live_bytes == after.live_bytes,
         "none was promised, and some are left");
    for (size_t i = 0; i < group.count; i++) {
        must(p, (blocks[i] != NULL) == (status == WEIR_OK), "all or none, and this is neither");
        if (status == WEIR_OK) {
            must(p, weir_block_size(blocks[i]) == group.sizes[i], "the blocks are in another order");
            hold(p, blocks[i], group.sizes[i], p->tags[2], lane);
        }
    }
    coverage.all_or_none += status != WEIR_OK;
}

/* --- limits --- */

static void do_limits(struct program *p)
{
    const uint64_t capacity = p->sim_config.capacity_bytes;
    const uint64_t before = figures(p).reserved_bytes;
    p->limit = one_in(p, 4) ? 0 : p->unit + below(p, capacity);
    p->soft = one_in(p, 3) ? 0 : 1 + below(p, p->limit != 0 ? p->limit : capacity);
    ok(p, weir_pool_set_limits(p->pool, p->soft, p->limit));
    coverage.trimmed += figures(p).reserved_bytes < before;
    p->allowed = figures(p).reserved_bytes;
}

/* A pressure callback that frees a block or only claims to have freed one. */
static bool relieve(void *ctx, weir_pool *pool, const weir_pressure *pressure)
{
    struct program *p = ctx;
    const weir_pool_stats stats = figures(p);
    must(p, pool == p->pool && pressure->soft_limit_bytes == p->soft && pressure->over_bytes > 0,
         "pressure where there is none: %" PRIu64 " reserved", stats.reserved_bytes);
    coverage.pressed++;
    if (p->blocks > 0 && one_in(p, 2)) {
        release(p, (unsigned)below(p, p->blocks));
        return true;
    }
    return one_in(p, 2);
}

/* --- judging --- */

static void judge(struct program *p)
{
    const char *why = "";
    uint64_t bytes[WEIR_TAGS] = {0};
    uint64_t blocks[WEIR_TAGS] = {0};
    must(p, weir_pool_check(p->pool, &why) == WEIR_OK, "check: %s", why);
    const weir_pool_stats stats = figures(p);
    must(p, p->limit == 0 || stats.reserved_bytes <= p->limit || stats.reserved_bytes <= p->allowed,
         "%" PRIu64 " bytes are reserved, the limit is %" PRIu64, stats.reserved_bytes, p->limit);
    p->allowed = stats.reserved_bytes < p->allowed ? stats.reserved_bytes : p->allowed;
    must(p, stats.limit_bytes == p->limit && stats.soft_limit_bytes == p->soft, "the limits are others");
    for (unsigned i = 0; i < p->blocks; i++) {
        bytes[p->held[i].tag] += p->held[i].size;
        blocks[p->held[i].tag]++;
    }
    for (unsigned i = 0; i < tag_names; i++) {
        const weir_tag tag = p->tags[i];
        weir_tag_stats own = WEIR_TAG_STATS_INIT;
        ok(p, weir_pool_get_tag_stats(p->pool, tag, &own));
        must(p, own.requested_bytes == bytes[tag] && own.blocks == blocks[tag], "the figures of tag %u are wrong", tag);
        must(p, own.peak_requested_bytes >= own.requested_bytes, "the peak of tag %u is below what is live", tag);
    }
}

static void step(struct program *p)
{
    const uint64_t dice = below(p, 100);
    if (dice < 35) {
        do_alloc(p);
    } else if (dice < 60) {
        if (p->blocks > 0) {
            release(p, (unsigned)below(p, p->blocks));
        }
    } else if (dice < 75) {
        do_would_fit(p);
    } else if (dice < 80) {
        do_all_or_none(p);
    } else if (dice < 85) {
        do_limits(p);
    } else if (dice < 90) {
        weir_sim_advance(p->sim, below(p, 50000));
    } else if (dice < 93) {
        while (p->blocks > 0 && !one_in(p, 30)) {
            release(p, (unsigned)below(p, p->blocks));
        }
    } else if (dice < 96) {
        const unsigned lane = any_lane(p);
        p->default_tag[lane] = p->tags[below(p, tag_names)];
        ok(p, weir_stream_set_tag(p->pool, p->stream[lane], p->default_tag[lane]));
    } else {
        ok(p,
           weir_pool_trim(p->pool, below(p, p->sim_config.capacity_bytes), one_in(p, 2) ? WEIR_TRIM_WAIT : 0u, NULL));
    }
}

/* --- one program --- */

static void choose(struct program *p)
{
    p->unit = UINT64_C(1) << (14 + 2 * below(p, 3));
    p->sim_config = (weir_sim_config)WEIR_SIM_CONFIG_INIT;
    p->sim_config.region_granularity_bytes = p->unit;
    p->sim_config.page_bytes = p->unit >> (p->variant->maps ? 4 * below(p, 2) : 0); /* small: handles of several */
    p->sim_config.capacity_bytes = (2 + below(p, 30)) * p->unit;
    p->sim_config.seed = p->seed;
    p->sim_config.no_audit = true;
    p->sim_config.no_virtual_memory = !p->variant->maps;
    p->sim_config.no_ordering = one_in(p, 16);
    p->configs.caching = (weir_caching_config)WEIR_CACHING_CONFIG_INIT;
    p->configs.caching.small_bytes = one_in(p, 3) ? UINT64_MAX : p->unit / 4;
    p->configs.caching.small_region_bytes = p->unit << below(p, 3);
    p->configs.caching.large_region_bytes = p->unit << below(p, 4);
    derive_size_class(&p->configs);
    p->config = (weir_pool_config)WEIR_POOL_CONFIG_INIT;
    p->configs.bump = (weir_bump_config)WEIR_BUMP_CONFIG_INIT;
    p->configs.bump.chunk_bytes = p->unit << below(p, 3);
    p->config.strategy = p->variant->ops();
    p->config.strategy_config = config_for(&p->configs, p->config.strategy);
    p->config.growth = (weir_growth)below(p, 3);
    p->config.flags = (one_in(p, 4) ? WEIR_POOL_SINGLE_THREADED : 0u) | (one_in(p, 4) ? WEIR_POOL_NO_FRONT_CACHE : 0u) |
                      (one_in(p, 4) ? WEIR_POOL_KEEP_IDLE_REGIONS : 0u) | (p->variant->maps ? 0u : WEIR_POOL_REGIONS);
    if (one_in(p, 3)) {
        p->config.pressure_callback = relieve;
        p->config.pressure_ctx = p;
    }
}

static void start(struct program *p)
{
    static const char *const names[] = {NULL, "weights", "kv cache", "activations"};
    choose(p);
    ok(p, weir_sim_create(&p->sim_config, &p->sim));
    p->config.device = weir_sim_device(p->sim);
    p->limit = one_in(p, 2) ? p->unit + below(p, p->sim_config.capacity_bytes) : 0;
    p->soft = p->limit != 0 && one_in(p, 2) ? 1 + below(p, p->limit) : 0;
    p->config.limit_bytes = p->limit;
    p->config.soft_limit_bytes = p->soft;
    ok(p, weir_pool_create(&p->config, &p->pool));
    p->lanes = 1 + (unsigned)below(p, max_lanes);
    for (unsigned i = 0; i < p->lanes; i++) {
        ok(p, weir_sim_stream_create(p->sim, &p->native[i]));
        ok(p, weir_pool_stream(p->pool, p->native[i], &p->stream[i]));
        /* the first stream is created before any tag has a name, all others after it */
        for (unsigned k = 1; k < tag_names && i == 0; k++) {
            ok(p, weir_pool_tag(p->pool, names[k], &p->tags[k]));
        }
    }
}

static void run_program(const struct variant *variant, uint64_t seed)
{
    struct program *p = calloc(1, sizeof(*p));
    assert_non_null(p);
    p->seed = seed;
    p->random = seed;
    p->variant = variant;
    start(p);
    p->pin_random = seed % 4 == 0 ? seed : 0;
    for (p->step = 0; p->step < steps; p->step++) {
        pin_or_unpin(p);
        step(p);
        judge(p);
    }
    while (p->blocks > 0) {
        release(p, p->blocks - 1);
    }
    judge(p);
    coverage.above_soft += figures(p).soft_limit_growths > 0;
    ok(p, weir_pool_destroy(p->pool));
    assert_int_equal(weir_sim_destroy(p->sim), WEIR_OK);
    free(p);
}

static uint64_t first_seed;
static uint64_t seeds;

static void run_programs(const struct variant *variant)
{
    coverage = (struct coverage){0};
    for (uint64_t seed = first_seed; seed < first_seed + seeds; seed++) {
        run_program(variant, seed);
    }
    print_message("%s: one: %" PRIu64 " of %" PRIu64 " promised; several: %" PRIu64 " of %" PRIu64 ", blocks %" PRIu64
                  " of %" PRIu64 "; none %" PRIu64 "; acted %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
                  "; pressed %" PRIu64 ", above %" PRIu64 ", trimmed %" PRIu64 "\n",
                  variant->name, coverage.whole[0], coverage.could[0], coverage.whole[1], coverage.could[1],
                  coverage.promised, coverage.served, coverage.all_or_none, coverage.acted[WEIR_ADVICE_RAISE_LIMIT],
                  coverage.acted[WEIR_ADVICE_DEVICE_ROOM], coverage.acted[WEIR_ADVICE_FREE_BLOCKS],
                  coverage.acted[WEIR_ADVICE_ASK_LESS], coverage.acted[WEIR_ADVICE_UNPIN], coverage.pressed,
                  coverage.above_soft, coverage.trimmed);
    if (seeds < 500) {
        return;
    }
    assert_true(coverage.whole[0] > 100 && coverage.could[0] < coverage.asked[0]);
    assert_true(coverage.whole[1] > 100 && coverage.could[1] < coverage.asked[1]);
    assert_true(coverage.all_or_none > 100 && coverage.pressed > 100 && coverage.above_soft > 50 &&
                coverage.trimmed > 50);
    for (int kind = 0; kind < WEIR_ADVICE_COUNT; kind++) {
        const uint64_t least = kind == WEIR_ADVICE_UNPIN ? 5 : 20;
        assert_true(coverage.acted[kind] > least || kind == WEIR_ADVICE_WAIT || kind == WEIR_ADVICE_END_GRAPH);
    }
}

TEST(test_caching)
{
    run_programs(&(struct variant){"caching", weir_caching_strategy, false});
}

TEST(test_size_class)
{
    run_programs(&(struct variant){"size_class", weir_size_class_strategy, false});
}

TEST(test_bump)
{
    run_programs(&(struct variant){"bump", weir_bump_strategy, false});
}

TEST(test_caching_on_granules)
{
    run_programs(&(struct variant){"caching+vm", weir_caching_strategy, true});
}

TEST(test_size_class_on_granules)
{
    run_programs(&(struct variant){"size_class+vm", weir_size_class_strategy, true});
}

int main(int argc, char **argv)
{
    first_seed = seeds_first();
    seeds = seeds_count(200, 20);
    if (argc > 1) {
        first_seed = number(argv[1], first_seed);
        seeds = number(argc > 2 ? argv[2] : NULL, 1);
    }
    return run_all_tests("budget_random");
}
