/* tests/rig/outage.h: random lives of a device and a pool, with outages: for a while each call of the runtime below
 * weir fails, or each call of one function.
 *
 * A life makes a device and a pool, takes and gives blocks of several streams, lends them, trims, and destroys pool and
 * device. Outages begin at random calls and last for a random number of calls; the last one may begin while the pool or
 * the device is being destroyed. Whenever the runtime works again, the pool has to serve a request, and reserved bytes
 * and those of the runtime have to agree. At the end the runtime must have everything back.
 */
#ifndef WEIR_RIG_OUTAGE_H
#define WEIR_RIG_OUTAGE_H

#include "rig/seeds.h"
#include "rig/test.h"

#include <stdio.h>
#include <weir/caching.h>
#include <weir/pool.h>

/* The runtime below weir. */
struct outage_runtime {
    weir_status (*device_create)(weir_device **device);
    /* The next calls fail: `count` of `function` (NULL: of any), after `first` - 1 that do not. */
    void (*begin)(const char *function, unsigned first, unsigned count);
    /* From now on no call fails. Returns true if one has failed since `begin`. */
    bool (*end)(void);
    void *(*stream_create)(void);
    void (*stream_destroy)(void *native);
    void (*work)(void *native, uint64_t address, uint64_t size); /* queues work that writes the range */
    uint64_t (*held_bytes)(void);
    /* True if weir has left the thread's state as it was. */
    bool (*is_restored)(void);
    /* True if nothing of a life is left, and there is no finding. */
    bool (*is_clean)(void);
    const char *const *functions; /* those that may fail alone */
    size_t function_count;
};

enum { outage_streams = 3, outage_blocks = 10, outage_steps = 40 };

struct outage_life {
    const struct outage_runtime *runtime;
    uint64_t seed;
    uint64_t random;
    weir_device *device;
    weir_pool *pool;
    void *native[outage_streams];
    weir_stream *stream[outage_streams];
    struct {
        weir_block *block;
        unsigned home;
    } held[outage_blocks];
    char outage[96]; /* the last one, for messages */
    unsigned wrong;
    unsigned struck; /* outages that made a call fail */
};

static inline unsigned outage_roll(struct outage_life *life, unsigned sides)
{
    life->random = life->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(life->random >> 33) % sides;
}

#define OUTAGE_EXPECT(life, condition)                                                                                 \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: seed %llu, %s: %s (%s)\n", __FILE__, __LINE__,                               \
                          (unsigned long long)(life)->seed, (life)->outage, #condition, weir_last_error());            \
            (life)->wrong++;                                                                                           \
        }                                                                                                              \
    } while (0)

static inline bool outage_may_give(weir_status status)
{
    return status == WEIR_OK || status == WEIR_ERR_NO_MEMORY || status == WEIR_ERR_DEVICE ||
           status == WEIR_ERR_UNSUPPORTED;
}

static inline void outage_begin(struct outage_life *life)
{
    const struct outage_runtime *runtime = life->runtime;
    const bool of_one = outage_roll(life, 3) == 0;
    const char *function = of_one ? runtime->functions[outage_roll(life, (unsigned)runtime->function_count)] : NULL;
    const unsigned first = 1 + outage_roll(life, of_one ? 4 : 24);
    const unsigned count = 1 + outage_roll(life, outage_roll(life, 3) == 0 ? 16 : 4);
    (void)snprintf(life->outage, sizeof(life->outage), "calls %u to %u of %s", first, first + count - 1,
                   of_one ? function : "any");
    runtime->begin(function, first, count);
}

static inline void outage_compare(struct outage_life *life)
{
    const char *why = "";
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    OUTAGE_EXPECT(life, weir_pool_get_stats(life->pool, &stats) == WEIR_OK);
    OUTAGE_EXPECT(life, stats.reserved_bytes == life->runtime->held_bytes());
    if (weir_pool_check(life->pool, &why) != WEIR_OK) {
        (void)fprintf(stderr, "seed %llu: check: %s\n", (unsigned long long)life->seed, why);
        life->wrong++;
    }
}

/* Ends the outage: device and pool work, and the pool knows what it holds. */
static inline void outage_end(struct outage_life *life)
{
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    weir_block *block = NULL;
    uint64_t address = 0;
    life->struck += life->runtime->end();
    OUTAGE_EXPECT(life, weir_device_get_info(life->device, &info) == WEIR_OK);
    OUTAGE_EXPECT(life, weir_device_region_alloc(life->device, info.region_granularity_bytes, &address) == WEIR_OK &&
                            weir_device_region_free(life->device, address, info.region_granularity_bytes) == WEIR_OK);
    OUTAGE_EXPECT(life, life->runtime->is_restored());
    OUTAGE_EXPECT(life, weir_pool_alloc(life->pool, life->stream[0], 5 << 20, 0, &block) == WEIR_OK);
    if (block != NULL) {
        OUTAGE_EXPECT(life, weir_pool_free(life->pool, block, life->stream[0]) == WEIR_OK);
    }
    outage_compare(life);
}

static inline void outage_take(struct outage_life *life, unsigned at)
{
    const unsigned home = outage_roll(life, outage_streams);
    const uint64_t size =
        outage_roll(life, 3) == 0 ? (1 + outage_roll(life, 40)) << 17 : 1 + outage_roll(life, 60) * 1000;
    weir_block *block = NULL;
    const weir_status status = weir_pool_alloc(life->pool, life->stream[home], size, 0, &block);
    OUTAGE_EXPECT(life, outage_may_give(status) && (status == WEIR_OK) == (block != NULL));
    life->held[at].block = block;
    life->held[at].home = home;
    if (block != NULL) {
        life->runtime->work(life->native[home], weir_block_address(block), weir_block_size(block));
    }
}

static inline void outage_give(struct outage_life *life, unsigned at)
{
    weir_stream *home = life->stream[life->held[at].home];
    if (outage_roll(life, 4) == 0) { /* the block waits for two streams */
        OUTAGE_EXPECT(life, outage_may_give(weir_pool_use(life->pool, life->held[at].block,
                                                          life->stream[outage_roll(life, outage_streams)])));
    }
    OUTAGE_EXPECT(life, weir_pool_free(life->pool, life->held[at].block, home) == WEIR_OK);
    life->held[at].block = NULL;
}

static inline void outage_step(struct outage_life *life)
{
    const unsigned at = outage_roll(life, outage_blocks);
    if (outage_roll(life, 12) == 0) {
        const uint64_t keep = outage_roll(life, 3) == 0 ? 8 << 20 : 0;
        OUTAGE_EXPECT(life, outage_may_give(weir_pool_trim(
                                life->pool, keep, outage_roll(life, 2) == 0 ? (uint32_t)WEIR_TRIM_WAIT : 0, NULL)));
    } else if (life->held[at].block != NULL) {
        outage_give(life, at);
    } else {
        outage_take(life, at);
    }
}

/* The device may be made during an outage, and is tried until it can be. */
static inline void outage_open(struct outage_life *life)
{
    const struct outage_runtime *runtime = life->runtime;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    if (outage_roll(life, 4) == 0) {
        outage_begin(life);
    }
    for (unsigned tries = 0; tries < 3 && life->device == NULL; tries++) {
        OUTAGE_EXPECT(life, outage_may_give(runtime->device_create(&life->device)));
    }
    life->struck += runtime->end();
    if (life->device == NULL) {
        OUTAGE_EXPECT(life, runtime->device_create(&life->device) == WEIR_OK);
    }
    OUTAGE_EXPECT(life, weir_device_get_info(life->device, &info) == WEIR_OK);
    config.device = life->device;
    config.strategy = weir_caching_strategy();
    config.flags = outage_roll(life, 2) != 0 ? 0 : (uint32_t)WEIR_POOL_REGIONS;
    config.growth = (weir_growth)outage_roll(life, 3);
    OUTAGE_EXPECT(life, weir_pool_create(&config, &life->pool) == WEIR_OK);
    for (unsigned i = 0; i < outage_streams; i++) {
        life->native[i] = runtime->stream_create();
        OUTAGE_EXPECT(life, weir_pool_stream(life->pool, life->native[i], &life->stream[i]) == WEIR_OK);
    }
}

/* The outage ends before, between or after the two calls that end pool and device. */
static inline void outage_close(struct outage_life *life)
{
    const struct outage_runtime *runtime = life->runtime;
    const unsigned ends = outage_roll(life, 4);
    outage_begin(life);
    life->struck += ends == 0 && runtime->end();
    OUTAGE_EXPECT(life, outage_may_give(weir_pool_destroy(life->pool)));
    life->struck += ends == 1 && runtime->end();
    if (weir_device_destroy(life->device) != WEIR_OK) {
        OUTAGE_EXPECT(life, ends > 1);
        life->struck += runtime->end();
        OUTAGE_EXPECT(life, weir_device_destroy(life->device) == WEIR_OK);
    }
    life->struck += ends > 1 && runtime->end();
    for (unsigned i = 0; i < outage_streams; i++) {
        runtime->stream_destroy(life->native[i]);
    }
    /* what the device itself could not give back at its end is given back when the next one is made */
    OUTAGE_EXPECT(life,
                  runtime->device_create(&life->device) == WEIR_OK && weir_device_destroy(life->device) == WEIR_OK);
    OUTAGE_EXPECT(life, runtime->held_bytes() == 0);
    OUTAGE_EXPECT(life, runtime->is_restored() && runtime->is_clean());
}

/* Returns the number of outages that made a call fail; fails the test if anything was lost. */
static inline unsigned outage_play(const struct outage_runtime *runtime, uint64_t seed)
{
    struct outage_life life = {.runtime = runtime, .seed = seed, .random = seed * UINT64_C(0x9E3779B97F4A7C15)};
    outage_open(&life);
    bool fails = false;
    for (unsigned i = 0; i < outage_steps && life.wrong == 0; i++) {
        if (!fails && outage_roll(&life, 5) == 0) {
            outage_begin(&life);
            fails = true;
        } else if (fails && outage_roll(&life, 4) == 0) {
            outage_end(&life);
            fails = false;
        }
        outage_step(&life);
    }
    (void)runtime->end();
    outage_close(&life);
    assert_int_equal(life.wrong, 0);
    return life.struck;
}

#endif
