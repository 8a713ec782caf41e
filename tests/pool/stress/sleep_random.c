/* tests/pool/stress/sleep_random.c: random programs that sleep and wake, and that commit and decommit parts of reserved
 * blocks, on a simulator with real bytes, while device calls fail.
 *
 * Each block has a byte that it is filled with, and each committed page of a reserved block has one. After every step
 * all awake blocks have theirs, the auditor has found nothing, and the pool's invariants hold. A call that fails is
 * repeated later; at the end everything wakes, and all memory goes back. WEIR_SEEDS sets the number of programs.
 */
enum { streams = 3 };

#include "rig/pool.h"
#include "rig/seeds.h"

#include <weir/observer.h>
#include <weir/reserve.h>
#include <weir/sleep.h>

#include <stdlib.h>

enum { most_blocks = 24, most_reserved = 2, most_pages = 24, tags = 3, steps = 60, page = 65536, capacity_pages = 256 };

struct held {
    weir_block *block;
    int tag;
    int value; /* -1: unknown */
    weir_sleep_policy policy;
    bool asleep;
    bool told; /* the auditor has been told that the block sleeps */
};

struct reserved {
    weir_block *block;
    int tag;
    uint64_t unit;          /* pages */
    int values[most_pages]; /* -1: not committed; -2: unknown */
    bool told[most_pages];  /* the auditor has been told that the page's unit sleeps; by its first page */
    weir_sleep_policy policy;
    bool asleep;
};

struct program {
    struct world w;
    uint64_t random;
    struct held blocks[most_blocks];
    struct reserved reserved[most_reserved];
    weir_tag tag[tags];
    uint64_t foreign;
    bool faults;
};

static uint64_t below(struct program *p, uint64_t bound)
{
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return p->random % bound;
}

static struct held *find(struct program *p, uint64_t address)
{
    for (int i = 0; i < most_blocks; i++) {
        if (p->blocks[i].block != NULL && weir_block_address(p->blocks[i].block) == address) {
            return &p->blocks[i];
        }
    }
    fail_msg("a block that nobody has sleeps or wakes");
    return NULL;
}

/* Returns where it is noted that a block or a unit sleeps. */
static bool *told_of(struct program *p, const weir_observed_block *block)
{
    for (int i = 0; i < most_reserved && block->unit; i++) {
        struct reserved *r = &p->reserved[i];
        const uint64_t offset = r->block != NULL ? block->address - weir_block_address(r->block) : UINT64_MAX;
        if (offset < most_pages * (uint64_t)page) {
            return &r->told[offset / page];
        }
    }
    return &find(p, block->address)->told;
}

static void tell_sleep(void *ctx, const weir_observed_block *block)
{
    struct program *p = ctx;
    assert_false(*told_of(p, block));
    *told_of(p, block) = true;
    weir_sim_block_free(p->w.sim, block->address, NULL, "sleep");
}

static void tell_wake(void *ctx, const weir_observed_block *block)
{
    struct program *p = ctx;
    assert_true(*told_of(p, block));
    *told_of(p, block) = false;
    (block->unit ? weir_sim_unit_alloc : weir_sim_block_alloc)(p->w.sim, block->address, block->capacity, NULL, "wake");
}

/* The steps announce blocks by themselves, and the pool's observer the units. */
static void tell_alloc(void *ctx, const weir_observed_block *block)
{
    struct program *p = ctx;
    if (block->unit) {
        weir_sim_unit_alloc(p->w.sim, block->address, block->capacity, block->native_stream, "commit");
    }
}

static void tell_free(void *ctx, const weir_observed_block *block)
{
    struct program *p = ctx;
    if (block->unit && !*told_of(p, block)) {
        weir_sim_block_free(p->w.sim, block->address, block->native_stream, "decommit");
    }
}

static void start(struct program *p, uint64_t seed)
{
    *p = (struct program){.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1, .faults = seed % 2 == 1};
    weir_sim_config device = device_of_units(page, capacity_pages * (uint64_t)page);
    device.mode = WEIR_SIM_BACKED;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.limit_bytes = seed % 3 == 0 ? 128 * (uint64_t)page : 0;
    p->w = world_over(new_sim(device), config);
    weir_observer_ops ops = {.struct_size = sizeof(ops),
                             .block_alloc = tell_alloc,
                             .block_free = tell_free,
                             .block_sleep = tell_sleep,
                             .block_wake = tell_wake};
    ok(weir_pool_observe(p->w.pool, &ops, p));
    ok(weir_pool_tag(p->w.pool, "a", &p->tag[1]));
    ok(weir_pool_tag(p->w.pool, "b", &p->tag[2]));
}

/* --- steps --- */

static void do_alloc(struct program *p, struct held *h)
{
    const int stream = (int)below(p, streams);
    const uint64_t size = 1 + below(p, below(p, 2) == 0 ? 9000 : 20 * page);
    h->tag = (int)below(p, tags);
    h->value = (int)below(p, 256);
    h->asleep = false;
    h->told = false;
    if (weir_pool_alloc_tagged(p->w.pool, p->w.stream[stream], size, 0, p->tag[h->tag], &h->block) != WEIR_OK) {
        h->block = NULL;
        return;
    }
    const uint64_t address = weir_block_address(h->block);
    weir_sim_block_alloc(p->w.sim, address, weir_block_capacity(h->block), p->w.native[stream], "alloc");
    ok(weir_sim_fill(p->w.sim, p->w.native[stream], address, size, (uint8_t)h->value, "fill"));
    if (below(p, 4) == 0) { /* another stream uses the block, and overwrites it */
        const int other = (int)below(p, streams);
        tell_order(&p->w, stream, other);
        if (weir_pool_use(p->w.pool, h->block, p->w.stream[other]) == WEIR_OK) {
            h->value = (int)below(p, 256);
            ok(weir_sim_fill(p->w.sim, p->w.native[other], address, size, (uint8_t)h->value, "use"));
        }
    }
}

/* A sleeping block is free for the auditor already, if it was told. */
static void do_free(struct program *p, struct held *h)
{
    ok(weir_sim_sync(p->w.sim));
    if (!h->told) {
        weir_sim_block_free(p->w.sim, weir_block_address(h->block), NULL, "free");
    }
    ok(weir_pool_free_idle(p->w.pool, h->block));
    h->block = NULL;
}

/* A call that may fail, of a pool whose device may. */
static bool done(struct program *p, weir_status status)
{
    assert_true(status == WEIR_OK || status == WEIR_ERR_NO_MEMORY || (p->faults && status == WEIR_ERR_DEVICE));
    return status == WEIR_OK;
}

static void do_reserve(struct program *p, struct reserved *r)
{
    r->tag = (int)below(p, tags);
    r->unit = 1 + below(p, 3);
    r->asleep = false;
    for (int i = 0; i < most_pages; i++) {
        r->values[i] = -1;
        r->told[i] = false;
    }
    weir_block *block = NULL;
    if (done(p, weir_pool_reserve(p->w.pool, p->w.stream[below(p, streams)], most_pages * (uint64_t)page,
                                  r->unit * page, p->tag[r->tag], &block))) {
        r->block = block;
        if (below(p, 3) == 0) {
            ok(weir_pool_use(p->w.pool, block, p->w.stream[below(p, streams)]));
        }
    }
}

static void fill_page(struct program *p, const struct reserved *r, uint64_t i, int stream)
{
    ok(weir_sim_fill(p->w.sim, p->w.native[stream], weir_block_address(r->block) + i * page, page,
                     (uint8_t)r->values[i], "fill page"));
}

/* Commits or decommits some units. Work that writes the pages is queued when they go. */
static void do_part(struct program *p, struct reserved *r)
{
    const int stream = (int)below(p, streams);
    const uint64_t units = most_pages / r->unit;
    const uint64_t first = below(p, units) * r->unit;
    const uint64_t end = first + (1 + below(p, units - first / r->unit)) * r->unit;
    const bool commits = below(p, 2) == 0;
    weir_status status = WEIR_OK;
    if (commits) {
        status = weir_pool_commit(p->w.pool, r->block, first * page, (end - first) * page, p->w.stream[stream]);
    } else {
        for (uint64_t i = first; i < end && !r->asleep; i++) {
            if (r->values[i] != -1) {
                fill_page(p, r, i, stream);
            }
        }
        status = weir_pool_decommit(p->w.pool, r->block, first * page, (end - first) * page, p->w.stream[stream]);
    }
    assert_true(status != WEIR_ERR_BUSY || r->asleep);
    if (status == WEIR_ERR_BUSY || !done(p, status)) {
        return;
    }
    assert_false(r->asleep);
    for (uint64_t i = first; i < end; i++) {
        if (!commits) {
            r->values[i] = -1;
        } else if (r->values[i] == -1 || below(p, 4) == 0) {
            r->values[i] = (int)below(p, 256);
            fill_page(p, r, i, stream);
        }
    }
}

static void end_reserved(struct program *p, struct reserved *r)
{
    const int stream = (int)below(p, streams);
    ok(below(p, 2) == 0 ? weir_pool_free(p->w.pool, r->block, p->w.stream[stream])
                        : weir_pool_free_idle(p->w.pool, r->block));
    r->block = NULL;
}

static void do_reserved(struct program *p)
{
    struct reserved *r = &p->reserved[below(p, most_reserved)];
    if (r->block == NULL) {
        do_reserve(p, r);
    } else if (below(p, 12) == 0) {
        end_reserved(p, r);
    } else {
        do_part(p, r);
    }
}

/* Reads if the reserved blocks sleep now. */
static void look_at_reserved(struct program *p)
{
    for (int i = 0; i < most_reserved; i++) {
        struct reserved *r = &p->reserved[i];
        if (r->block == NULL || weir_block_is_asleep(r->block) == r->asleep) {
            continue;
        }
        r->asleep = !r->asleep;
        for (int k = 0; k < most_pages && !r->asleep && r->policy != WEIR_SLEEP_KEEP; k++) {
            r->values[k] = r->values[k] != -1 ? -2 : -1;
        }
    }
}

/* Reads what sleeps now: a call that failed may have left blocks asleep, and a wake may have woken a part. */
static void look(struct program *p)
{
    look_at_reserved(p);
    for (int i = 0; i < most_blocks; i++) {
        struct held *h = &p->blocks[i];
        if (h->block == NULL || weir_block_is_asleep(h->block) == h->asleep) {
            continue;
        }
        h->asleep = !h->asleep;
        if (!h->asleep && h->policy != WEIR_SLEEP_KEEP) {
            /* after a call that failed the contents may also be the old ones */
            const uint8_t *bytes = weir_sim_bytes(p->w.sim, weir_block_address(h->block), 1);
            const bool zeroed = h->policy == WEIR_SLEEP_ZERO && (!p->faults || (bytes != NULL && bytes[0] == 0));
            h->value = zeroed ? 0 : h->policy == WEIR_SLEEP_ZERO ? h->value : -1;
        }
    }
}

static void do_sleep(struct program *p)
{
    weir_sleep_rule rules[tags];
    weir_sleep_config config = WEIR_SLEEP_CONFIG_INIT;
    for (int i = 0; i < tags; i++) {
        const uint64_t pick = below(p, 6);
        rules[i] = (weir_sleep_rule){p->tag[i], pick < 3 ? WEIR_SLEEP_KEEP : (weir_sleep_policy)(pick - 2)};
    }
    config.rules = rules;
    config.rule_count = tags;
    for (int i = 0; i < most_blocks; i++) {
        struct held *h = &p->blocks[i];
        if (h->block != NULL && !h->asleep) {
            h->policy = rules[h->tag].policy;
        }
    }
    for (int i = 0; i < most_reserved; i++) {
        struct reserved *r = &p->reserved[i];
        r->policy = r->asleep ? r->policy : rules[r->tag].policy;
    }
    const weir_status status = weir_pool_sleep(p->w.pool, &config, NULL);
    assert_true(status == WEIR_OK || p->faults);
    look(p);
    for (int i = 0; i < most_blocks && status == WEIR_OK; i++) {
        const struct held *h = &p->blocks[i];
        assert_true(h->block == NULL || h->asleep || h->policy == WEIR_SLEEP_STAY);
    }
}

static weir_status do_wake(struct program *p, bool all)
{
    weir_tag chosen[tags];
    size_t count = 0;
    for (int i = 0; i < tags && !all; i++) {
        if (below(p, 2) == 0) {
            chosen[count++] = p->tag[i];
        }
    }
    const weir_status status = weir_pool_wake(p->w.pool, chosen, count, NULL);
    assert_true(status == WEIR_OK || p->faults || status == WEIR_ERR_NO_MEMORY || status == WEIR_ERR_LIMIT);
    look(p);
    return status;
}

/* Another user of the device comes or goes. */
static void do_foreign(struct program *p)
{
    const uint64_t size = 60 * (uint64_t)page;
    if (p->foreign != 0) {
        if (weir_device_region_free(p->w.device, p->foreign, size) == WEIR_OK) {
            p->foreign = 0;
        }
    } else if (weir_device_region_alloc(p->w.device, size, &p->foreign) != WEIR_OK) {
        p->foreign = 0;
    }
}

static void arm(struct program *p)
{
    weir_sim_fault_clear(p->w.sim);
    const uint64_t first = 1 + below(p, 30);
    const uint64_t count = 1 + below(p, 4);
    for (uint64_t i = 0; i < count; i++) {
        weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
        fault.call = below(p, 3) == 0 ? WEIR_CALL_ANY : (weir_device_call)below(p, WEIR_CALL_COUNT);
        const bool memory = fault.call >= WEIR_CALL_EVENT_CREATE && fault.call < WEIR_CALL_COPY;
        fault.call = memory ? WEIR_CALL_VM_MAP : fault.call;
        fault.nth = first + i;
        fault.status = below(p, 2) == 0 ? WEIR_ERR_DEVICE : WEIR_ERR_NO_MEMORY;
        ok(weir_sim_fault_arm(p->w.sim, &fault));
    }
}

/* --- judgement --- */

static void judge_reserved(struct program *p, const struct reserved *r, uint64_t seed, int step)
{
    for (uint64_t i = 0; i < most_pages && r->block != NULL && !r->asleep; i++) {
        if (r->values[i] < 0) {
            continue;
        }
        const uint8_t *bytes = weir_sim_bytes(p->w.sim, weir_block_address(r->block) + i * page, page);
        assert_non_null(bytes);
        for (uint64_t at = 0; at < page; at += 997) {
            if (bytes[at] != r->values[i]) {
                fail_msg("seed %llu step %d: byte %llu of page %llu of a reserved block is %d and not %d",
                         (unsigned long long)seed, step, (unsigned long long)at, (unsigned long long)i, bytes[at],
                         r->values[i]);
            }
        }
    }
}

static void judge(struct program *p, uint64_t seed, int step)
{
    ok(weir_sim_sync(p->w.sim));
    check(&p->w);
    for (int i = 0; i < most_reserved; i++) {
        judge_reserved(p, &p->reserved[i], seed, step);
    }
    for (int i = 0; i < most_blocks; i++) {
        const struct held *h = &p->blocks[i];
        if (h->block == NULL || h->asleep || h->value < 0) {
            continue;
        }
        const uint64_t size = weir_block_size(h->block);
        const uint8_t *bytes = weir_sim_bytes(p->w.sim, weir_block_address(h->block), size);
        assert_non_null(bytes);
        for (uint64_t at = 0; at < size; at += at < 64 ? 1 : 997) {
            if (bytes[at] != h->value) {
                fail_msg("seed %llu step %d: byte %llu of a block of %llu is %d and not %d", (unsigned long long)seed,
                         step, (unsigned long long)at, (unsigned long long)size, bytes[at], h->value);
            }
        }
    }
}

static void run(uint64_t seed)
{
    struct program p;
    start(&p, seed);
    for (int step = 0; step < steps; step++) {
        struct held *h = &p.blocks[below(&p, most_blocks)];
        const uint64_t what = below(&p, 26);
        if (p.faults && below(&p, 3) == 0) {
            arm(&p);
        }
        if (what < 11) {
            if (h->block == NULL) {
                weir_sim_fault_clear(p.w.sim); /* the order that an alloc tells would be lost */
                do_alloc(&p, h);
            } else {
                weir_sim_fault_clear(p.w.sim);
                do_free(&p, h);
            }
        } else if (what < 14) {
            do_sleep(&p);
        } else if (what < 17) {
            (void)do_wake(&p, below(&p, 2) == 0);
        } else if (what == 17) {
            do_foreign(&p);
        } else if (what >= 20) {
            do_reserved(&p);
        } else {
            (void)!weir_pool_trim(p.w.pool, below(&p, 100) * page, 0, NULL);
        }
        judge(&p, seed, step);
    }
    weir_sim_fault_clear(p.w.sim);
    if (p.foreign != 0) {
        do_foreign(&p);
    }
    ok(weir_pool_set_limits(p.w.pool, 0, 0));
    for (int i = 0; i < most_reserved; i++) {
        if (p.reserved[i].block != NULL && below(&p, 2) == 0) {
            end_reserved(&p, &p.reserved[i]);
        }
    }
    weir_status status = do_wake(&p, true);
    for (int i = 0; i < most_blocks && status != WEIR_OK; i++) { /* more sleeps than the device has */
        if (p.blocks[i].block != NULL) {
            do_free(&p, &p.blocks[i]);
            status = do_wake(&p, true);
        }
    }
    judge(&p, seed, steps);
    for (int i = 0; i < most_blocks; i++) {
        if (p.blocks[i].block != NULL) {
            do_free(&p, &p.blocks[i]);
        }
    }
    for (int i = 0; i < most_reserved; i++) {
        if (p.reserved[i].block != NULL) {
            end_reserved(&p, &p.reserved[i]);
        }
    }
    ok(weir_pool_trim(p.w.pool, 0, WEIR_TRIM_WAIT, NULL));
    assert_int_equal(held(&p.w), 0);
    close_world(&p.w);
}

TEST(test_random_programs)
{
    const uint64_t first = seeds_first();
    for (uint64_t seed = first; seed < first + seeds_count(100, 10); seed++) {
        run(seed);
    }
}
