/* capture_random_test.c: random programs that capture graphs over a pool, under the auditor of the simulated runtime.
 *
 * A program has three streams and one pool, with regions or virtual memory, tight limits or none, whose captures the
 * device tells or the program (a capture pool). It allocates, works and frees inside and outside of captures, forks and
 * joins streams in them, launches and destroys graphs, and borrows the idle memory of a capture pool between launches.
 * The auditor knows the blocks: it finds memory that the pool hands out while earlier work or a graph may still touch
 * it, also in later launches. No capture may break, and no stream that is not captured may be drawn into one.
 */
#include "acl_test.h"

#include "rig/seeds.h"

#include <weir/ascendcl.h>
#include <weir/capture.h>

#include <pthread.h>
#include <string.h>

enum { STREAMS = 3, BLOCKS = 24, GRAPHS = 3, STEPS = 150 };

struct graph {
    aclmdlRI handle;
    size_t origin;
    bool launches; /* all its blocks are still live or were freed in the capture */
    bool keeps;    /* its capture leaves blocks live */
};

struct held {
    weir_block *block;
    size_t stream;
    int graph; /* index of the graph in whose capture it was allocated; -1: none */
};

struct program {
    uint64_t random;
    weir_device *device;
    weir_pool *pool;
    weir_capture_pool *captures;
    aclrtStream native[STREAMS];
    weir_stream *stream[STREAMS];
    aclrtEvent event;
    bool captured[STREAMS];
    bool capturing;
    bool lent;            /* idle memory of the graphs is lent to a stream */
    bool captured_before; /* the capture pool has had a capture */
    uint64_t lent_most;   /* bytes that a stream has borrowed at once */
    size_t origin;
    struct held held[BLOCKS];
    size_t count;
    struct graph graphs[GRAPHS]; /* the last one is that of the capture under way */
    size_t graph_count;
    uint64_t refused;
};

static uint64_t rnd(struct program *p, uint64_t below)
{
    p->random = p->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (p->random >> 33) % below;
}

static void launch(struct program *p, size_t stream, const weir_block *block)
{
    const weir_ascendcl_range range = {(const void *)(uintptr_t)weir_block_address(block), weir_block_size(block),
                                       rnd(p, 2) == 0};
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.duration_ns = 1000 + rnd(p, 1000000);
    kernel.tag = "kernel";
    kernel.ranges = &range;
    kernel.range_count = 1;
    acl_ok(weir_ascendcl_launch(p->native[stream], &kernel));
}

static void alloc(struct program *p)
{
    struct held *held = &p->held[p->count];
    const size_t stream = rnd(p, STREAMS);
    const uint64_t size = rnd(p, 3) == 0 ? 1 + rnd(p, 4096) : 1 + rnd(p, 3 * MIB);
    if (p->count == BLOCKS) {
        return;
    }
    const weir_status status = weir_pool_alloc(p->pool, p->stream[stream], size, 0, &held->block);
    if (status != WEIR_OK) {
        assert_int_equal(status, WEIR_ERR_NO_MEMORY);
        p->refused++;
        return;
    }
    held->stream = stream;
    held->graph = p->captured[stream] ? (int)p->graph_count : -1;
    p->count++;
    acl_ok(weir_ascendcl_block_alloc((const void *)(uintptr_t)weir_block_address(held->block), size, p->native[stream],
                                     "block"));
    launch(p, stream, held->block);
}

/* Frees a block of a graph, outside of its capture, on the stream of the launches, which may still touch it. */
static void give(struct program *p, size_t i)
{
    const struct held held = p->held[i];
    const bool inside = held.graph >= 0 && p->capturing && (size_t)held.graph == p->graph_count;
    const size_t stream = held.graph >= 0 && !inside ? p->graphs[held.graph].origin : held.stream;
    if (held.graph >= 0 && !inside) {
        if (p->captured[stream]) {
            return;
        }
        p->graphs[held.graph].launches = false; /* a launch would use the block after its free */
    }
    acl_ok(
        weir_ascendcl_block_free((const void *)(uintptr_t)weir_block_address(held.block), p->native[stream], "block"));
    ok(weir_pool_free(p->pool, held.block, p->stream[stream]));
    p->held[i] = p->held[--p->count];
}

static void work(struct program *p)
{
    if (p->count == 0) {
        return;
    }
    const struct held *held = &p->held[rnd(p, p->count)];
    const int now = p->captured[held->stream] ? (int)p->graph_count : -1;
    if (held->graph == now) { /* a graph touches blocks of its capture only, so that its launches need no other block */
        launch(p, held->stream, held->block);
    }
}

/* Orders one stream after another, by a hinted event. */
static void order(struct program *p, size_t first, size_t second)
{
    ok(weir_acl_record_event(p->pool, p->event, p->native[first]));
    ok(weir_acl_wait_event(p->pool, p->native[second], p->event));
}

/* The streams of a program with a capture pool run nothing before a capture or a launch. */
static void sync_all(struct program *p)
{
    for (size_t i = 0; i < STREAMS; i++) {
        acl_ok(aclrtSynchronizeStream(p->native[i]));
    }
}

/* Lends the idle memory of the graphs to a stream, which waits for all launches so far. */
static void lend(struct program *p)
{
    const size_t stream = rnd(p, STREAMS);
    if (p->captures == NULL || p->capturing || p->lent || !p->captured_before) {
        return;
    }
    for (size_t i = 0; i < STREAMS; i++) {
        if (i != stream) {
            order(p, i, stream);
        }
    }
    ok(weir_capture_lend(p->captures, p->stream[stream]));
    p->lent = true;
}

/* Returns false if lent memory is still in use: then there is no launch and no capture. */
static bool reclaim(struct program *p)
{
    weir_capture_stats stats = WEIR_CAPTURE_STATS_INIT;
    if (p->lent) {
        ok(weir_capture_get_stats(p->captures, &stats));
        p->lent_most = stats.lent_bytes > p->lent_most ? stats.lent_bytes : p->lent_most;
        const weir_status status = weir_capture_reclaim(p->captures);
        assert_true(status == WEIR_OK || status == WEIR_ERR_BUSY);
        p->lent = status != WEIR_OK;
    }
    return !p->lent;
}

static void begin(struct program *p)
{
    const size_t stream = rnd(p, STREAMS);
    if (p->capturing || p->graph_count == GRAPHS || !reclaim(p)) {
        return;
    }
    p->captured_before = true;
    if (p->captures != NULL) {
        sync_all(p); /* the auditor judges blocks at the capture, when an earlier graph may run */
        ok(weir_capture_begin(p->captures, p->stream[stream]));
    }
    acl_ok(aclmdlRICaptureBegin(p->native[stream], (aclmdlRICaptureMode)rnd(p, 3)));
    p->captured[stream] = p->capturing = true;
    p->origin = stream;
    const bool keeps = p->captures == NULL && rnd(p, 2) == 0;
    p->graphs[p->graph_count] = (struct graph){.origin = stream, .launches = true, .keeps = keeps};
}

static void fork_or_join(struct program *p)
{
    const size_t first = rnd(p, STREAMS);
    const size_t second = rnd(p, STREAMS);
    if (first == second || (!p->captured[first] && p->captured[second])) {
        return;
    }
    order(p, first, second);
    p->captured[second] = p->captured[first] || p->captured[second];
}

static void end(struct program *p)
{
    struct graph *graph = &p->graphs[p->graph_count];
    if (!p->capturing) {
        return;
    }
    /* Graphs of a capture pool share memory: what one leaves live, the launch of an earlier one may overwrite. */
    for (size_t i = p->count; !graph->keeps && i-- > 0;) {
        if (p->held[i].graph == (int)p->graph_count) {
            give(p, i);
        }
    }
    for (size_t i = 0; i < STREAMS; i++) {
        if (p->captured[i] && i != p->origin) {
            order(p, i, p->origin);
        }
    }
    acl_ok(aclmdlRICaptureEnd(p->native[p->origin], &graph->handle));
    if (p->captures != NULL) {
        ok(weir_capture_end(p->captures));
    }
    memset(p->captured, 0, sizeof(p->captured));
    p->capturing = false;
    p->graph_count++;
}

static void sync(struct program *p)
{
    const size_t stream = rnd(p, STREAMS);
    if (!p->captured[stream]) {
        ok(weir_acl_sync_stream(p->pool, p->native[stream]));
    }
}

/* Launches a graph. Graphs of a capture pool run one after the other, behind all work from before their captures. */
static void execute(struct program *p)
{
    if (p->graph_count == 0 || (p->captures != NULL && p->capturing)) {
        return;
    }
    const struct graph *graph = &p->graphs[rnd(p, p->graph_count)];
    if (!graph->launches || p->captured[graph->origin] || !reclaim(p)) {
        return;
    }
    if (p->captures != NULL) {
        sync_all(p);
    }
    acl_ok(aclmdlRIExecuteAsync(graph->handle, p->native[graph->origin]));
}

/* Destroys the newest graph, and first frees what its capture left live. */
static void destroy(struct program *p)
{
    if (p->graph_count == 0 || p->capturing) {
        return;
    }
    const int last = (int)p->graph_count - 1;
    const bool before = rnd(p, 2) == 0; /* blocks are freed before the graph ends, or after */
    aclmdlRI handle = p->graphs[last].handle;
    if (!before) {
        acl_ok(aclmdlRIDestroy(handle));
    }
    for (size_t i = p->count; i-- > 0;) {
        if (p->held[i].graph == last) {
            give(p, i);
        }
    }
    if (before) {
        acl_ok(aclmdlRIDestroy(handle));
    }
    p->graph_count--;
}

static void step(struct program *p)
{
    static void (*const rare[])(struct program *) = {begin, end, execute, execute, destroy, sync, fork_or_join, lend};
    const uint64_t kind = rnd(p, 16);
    if (kind < 6) {
        alloc(p);
    } else if (kind < 10 && p->count > 0) {
        give(p, rnd(p, p->count));
    } else if (kind < 12) {
        work(p);
    } else {
        rare[rnd(p, sizeof(rare) / sizeof(rare[0]))](p);
    }
}

static void make_pool_for(struct program *p)
{
    acl_ok(aclrtSetDevice(0));
    ok(weir_acl_device_create(NULL, &p->device));
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = p->device;
    config.strategy = weir_caching_strategy();
    const bool told = rnd(p, 3) == 0;
    config.flags = (rnd(p, 2) == 0 ? (uint32_t)WEIR_POOL_REGIONS : 0) | (told ? (uint32_t)WEIR_POOL_CAPTURES_TOLD : 0);
    config.limit_bytes = rnd(p, 2) == 0 ? 0 : (8 + rnd(p, 24)) * MIB;
    config.growth = (weir_growth)rnd(p, 3);
    ok(weir_pool_create(&config, &p->pool));
    if (told || rnd(p, 3) == 0) {
        ok(weir_capture_pool_create(p->pool, &p->captures));
    }
}

static void make_streams(struct program *p)
{
    for (size_t i = 0; i < STREAMS; i++) {
        p->native[i] = new_stream();
        ok(weir_acl_stream(p->pool, p->native[i], &p->stream[i]));
    }
    acl_ok(aclrtCreateEventExWithFlag(&p->event, ACL_EVENT_SYNC));
}

/* Ends the capture and frees everything. */
static void finish(struct program *p)
{
    end(p);
    while (p->graph_count > 0) {
        destroy(p);
    }
    while (p->count > 0) {
        give(p, p->count - 1);
    }
    sync_all(p);
    for (size_t i = 0; i < STREAMS; i++) {
        ok(weir_stream_synced(p->pool, p->stream[i]));
    }
    assert_true(reclaim(p));
    ok(weir_acl_destroy_event(p->pool, p->event));
}

static void end_pool(struct program *p)
{
    const char *why = "";
    ok(weir_pool_check(p->pool, &why));
    acl_ok(aclrtSynchronizeDevice());
    if (p->captures != NULL) {
        ok(weir_capture_pool_release(p->captures));
    }
    ok(weir_pool_trim(p->pool, 0, WEIR_TRIM_WAIT, NULL));
    assert_int_equal(pool_stats(p->pool).reserved_bytes, 0); /* the graphs are gone: nothing stays aside */
    ok(weir_pool_destroy(p->pool));
}

static void end_streams(struct program *p)
{
    for (size_t i = 0; i < STREAMS; i++) {
        acl_ok(aclrtDestroyStream(p->native[i]));
    }
}

static void expect_no_finding(uint64_t seed)
{
    if (weir_ascendcl_finding_count(NULL) != 0) {
        char text[512];
        (void)weir_ascendcl_finding(0, text, sizeof(text));
        fail_msg("seed %lu: %s", (unsigned long)seed, text);
    }
}

TEST(random_programs_with_captures)
{
    const uint64_t count = seeds_count(150, 1);
    uint64_t lent = 0; /* programs that had lent memory in use at a reclaim */
    for (uint64_t seed = seeds_first(); seed < seeds_first() + count; seed++) {
        struct program p = {.random = seed * 977 + 1};
        make_pool_for(&p);
        make_streams(&p);
        for (int i = 0; i < STEPS; i++) {
            step(&p);
        }
        finish(&p);
        end_pool(&p);
        end_streams(&p);
        ok(weir_device_destroy(p.device));
        expect_no_finding(seed);
        lent += p.lent_most != 0;
    }
    assert_true(lent > 0 || count < 150);
}

static void *play(void *program)
{
    struct program *p = program;
    acl_ok(aclrtSetDevice(0));
    make_streams(p);
    ok(weir_capture_pool_create(p->pool, &p->captures));
    for (int i = 0; i < STEPS; i++) {
        step(p);
    }
    finish(p);
    sync_all(p);
    ok(weir_capture_pool_release(p->captures));
    for (size_t i = 0; i < STREAMS; i++) {
        ok(weir_stream_retire(p->pool, p->stream[i]));
    }
    end_streams(p);
    return NULL;
}

/* Threads capture at the same time, on streams of their own over one pool. They tell their captures: else another
 * thread's call could record an event on a stream at the moment of its capture. */
TEST(threads_capture_over_one_pool)
{
    enum { THREADS = 3 };
    struct program of_pool = {.random = 1};
    acl_ok(aclrtSetDevice(0));
    ok(weir_acl_device_create(NULL, &of_pool.device));
    of_pool.pool = make_pool(of_pool.device);
    for (uint64_t round = 0; round < 10; round++) {
        pthread_t threads[THREADS];
        struct program programs[THREADS];
        for (size_t i = 0; i < THREADS; i++) {
            programs[i] = (struct program){.random = round * 31 + i, .pool = of_pool.pool};
            assert_int_equal(pthread_create(&threads[i], NULL, play, &programs[i]), 0);
        }
        for (size_t i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        }
    }
    end_pool(&of_pool);
    ok(weir_device_destroy(of_pool.device));
    expect_no_finding(0);
}
