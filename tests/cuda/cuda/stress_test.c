/* stress_test.c: random programs over a pool on the CUDA device, by one thread and by several at once.
 *
 * A program follows the rules of weir/pool.h: an event orders work that touches a block on another stream, and in some
 * steps the pool is told of the event. Now and then a stream is captured for a while. The auditor of the double judges
 * the accesses; the pool's check must pass, and all memory must be back at the end. Run under a thread sanitizer, the
 * test also shows that there is no data race.
 *
 * Seeds: rig/seeds.h, one in 50 beyond 60. The same seed gives the same program.
 */
#include "rig/seeds.h"
#include "cuda_test.h"

#include <pthread.h>
#include <stdio.h>

enum { streams = 3, most_held = 24, steps = 250, threads = 4 };

struct held {
    weir_block *block;
    unsigned home;
};

struct program {
    uint32_t random;
    weir_device *device;
    weir_pool *pool;
    CUcontext context;
    CUstream native[streams];
    weir_stream *stream[streams];
    CUevent event;
    struct held held[most_held];
    int captured; /* a stream; -1: none */
    unsigned wrong;
};

#define EXPECT(p, condition)                                                                                           \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, weir_last_error());              \
            (p)->wrong++;                                                                                              \
        }                                                                                                              \
    } while (0)

static unsigned roll(struct program *p, unsigned sides)
{
    p->random = p->random * 1664525u + 1013904223u;
    return (p->random >> 16) % sides;
}

static void touch(struct program *p, unsigned stream, const weir_block *block)
{
    EXPECT(p, fake_cuda_work(p->native[stream], 1000 + roll(p, 100000), address_of(block), weir_block_size(block), NULL,
                             NULL) == CU_SUCCESS);
}

static void take(struct program *p, struct held *held)
{
    const uint64_t size = roll(p, 3) == 0 ? (1 + roll(p, 60)) << 16 : 1 + roll(p, 60000);
    held->home = roll(p, streams);
    const weir_status status = weir_pool_alloc(p->pool, p->stream[held->home], size, 0, &held->block);
    EXPECT(p, status == WEIR_OK || status == WEIR_ERR_NO_MEMORY);
    held->block = status == WEIR_OK ? held->block : NULL;
    if (held->block != NULL) {
        touch(p, held->home, held->block);
    }
}

static void give(struct program *p, struct held *held)
{
    EXPECT(p, weir_pool_free(p->pool, held->block, p->stream[held->home]) == WEIR_OK);
    held->block = NULL;
}

/* Lets a second stream work on the block after the block's home stream. */
static void lend(struct program *p, struct held *held)
{
    const unsigned to = roll(p, streams);
    const bool told = roll(p, 2) == 0;
    if (to == held->home || (int)to == p->captured || (int)held->home == p->captured) {
        return;
    }
    if (told) {
        EXPECT(p, weir_cuda_record_event(p->pool, p->event, p->native[held->home]) == WEIR_OK);
        EXPECT(p, weir_cuda_stream_wait_event(p->pool, p->native[to], p->event) == WEIR_OK);
    } else {
        EXPECT(p, cuEventRecord(p->event, p->native[held->home]) == CU_SUCCESS);
        EXPECT(p, cuStreamWaitEvent(p->native[to], p->event, 0) == CU_SUCCESS);
        EXPECT(p, weir_event_forgotten(p->pool, p->event) == WEIR_OK);
    }
    touch(p, to, held->block);
    EXPECT(p, weir_pool_use(p->pool, held->block, p->stream[to]) == WEIR_OK);
    if (roll(p, 2) == 0) { /* frees on the home stream: the pool knows of the second stream's use */
        give(p, held);
    } else { /* the second stream becomes the block's home */
        EXPECT(p, weir_pool_use(p->pool, held->block, p->stream[held->home]) == WEIR_OK);
        held->home = to;
    }
}

static void capture(struct program *p)
{
    void *graph = NULL;
    if (p->captured < 0) {
        p->captured = (int)roll(p, streams);
        EXPECT(p, cuStreamBeginCapture(p->native[p->captured], (int)roll(p, 3)) == CU_SUCCESS);
    } else {
        EXPECT(p, cuStreamEndCapture(p->native[p->captured], &graph) == CU_SUCCESS);
        EXPECT(p, cuGraphDestroy(graph) == CU_SUCCESS);
        p->captured = -1;
    }
}

static void step(struct program *p)
{
    struct held *held = &p->held[roll(p, most_held)];
    switch (roll(p, 24)) {
    case 0:
        (void)!weir_pool_trim(p->pool, 0, roll(p, 2) == 0 ? (uint32_t)WEIR_TRIM_WAIT : 0, NULL);
        break;
    case 1:
        capture(p);
        break;
    case 2:
    case 3:
    case 4:
    case 5:
        if (held->block != NULL) {
            lend(p, held);
        }
        break;
    default:
        if (held->block != NULL) {
            give(p, held);
        } else {
            take(p, held);
        }
    }
}

static void begin(struct program *p)
{
    p->captured = -1;
    EXPECT(p, cuCtxPushCurrent(p->context) == CU_SUCCESS);
    EXPECT(p, cuEventCreate(&p->event, CU_EVENT_DISABLE_TIMING) == CU_SUCCESS);
    for (int i = 0; i < streams; i++) {
        EXPECT(p, cuStreamCreate(&p->native[i], 1) == CU_SUCCESS);
        EXPECT(p, weir_pool_stream(p->pool, p->native[i], &p->stream[i]) == WEIR_OK);
    }
}

static void end(struct program *p)
{
    CUcontext popped = NULL;
    if (p->captured >= 0) {
        capture(p);
    }
    for (int i = 0; i < most_held; i++) {
        if (p->held[i].block != NULL) {
            give(p, &p->held[i]);
        }
    }
    EXPECT(p, weir_cuda_destroy_event(p->pool, p->event) == WEIR_OK);
    for (int i = 0; i < streams; i++) {
        EXPECT(p, weir_cuda_destroy_stream(p->pool, p->native[i]) == WEIR_OK);
    }
    EXPECT(p, cuCtxPopCurrent(&popped) == CU_SUCCESS);
    EXPECT(p, fake_cuda_depth() == 0 && fake_cuda_capture_mode() == CU_CAPTURE_MODE_GLOBAL);
}

static void *run(void *ctx)
{
    struct program *p = ctx;
    begin(p);
    for (int i = 0; i < steps; i++) {
        step(p);
    }
    end(p);
    return NULL;
}

/* `count` programs at once over one pool. */
static void play(uint32_t seed, int count)
{
    weir_device *device = NULL;
    weir_cuda_device_info info = WEIR_CUDA_DEVICE_INFO_INIT;
    const char *why = "";
    struct program programs[threads];
    pthread_t others[threads];
    fake_cuda_start((seed % 3 == 0 ? 24 : 96) * MIB, 0);
    ok(weir_cuda_device_create(NULL, &device));
    ok(weir_cuda_device_get_info(device, &info));
    weir_pool *pool = make_pool(device, seed % 2 == 0 ? 0 : (uint32_t)WEIR_POOL_REGIONS);
    for (int i = 0; i < count; i++) {
        programs[i] = (struct program){
            .random = seed * 2654435761u + (uint32_t)i, .device = device, .pool = pool, .context = info.context};
    }
    for (int i = 1; i < count; i++) {
        assert_int_equal(pthread_create(&others[i], NULL, run, &programs[i]), 0);
    }
    (void)run(&programs[0]);
    unsigned wrong = programs[0].wrong;
    for (int i = 1; i < count; i++) {
        assert_int_equal(pthread_join(others[i], NULL), 0);
        wrong += programs[i].wrong;
    }
    const weir_status checked = weir_pool_check(pool, &why);
    const weir_status ended = weir_pool_destroy(pool);
    ok(weir_device_destroy(device));
    const unsigned findings = fake_cuda_findings(true);
    if (wrong != 0 || findings != 0 || checked != WEIR_OK || ended != WEIR_OK) {
        fail_msg("seed %u, %d threads: %u wrong, %u findings, check %s, end %d", seed, count, wrong, findings, why,
                 ended);
    }
}

TEST(test_one_thread)
{
    const uint32_t first = (uint32_t)seeds_first();
    const uint32_t count = (uint32_t)seeds_count(60, 50);
    for (uint32_t i = 0; i < count; i++) {
        play(first + i, 1);
    }
}

TEST(test_threads)
{
    const uint32_t first = (uint32_t)seeds_first();
    const uint32_t count = (uint32_t)(seeds_count(60, 50) + 3) / 4;
    for (uint32_t i = 0; i < count; i++) {
        play(first + i, threads);
    }
}
