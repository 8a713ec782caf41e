/* Blocks of the host pool that the work of a stream still reads. The pool runs over the simulated device, and its
 * auditor sees every access. The test tells the auditor of each block handed out, so the auditor finds each block that
 * is handed out too early. */
#include "rig/test.h"

#include <weir/host.h>
#include <weir/sim.h>

#include <pthread.h>
#include <string.h>

enum { STREAMS = 6, COPY_NS = 1000000 };

struct machine {
    weir_topology *topology;
    weir_sim *sim;
    weir_sim_stream *streams[STREAMS];
    weir_host_pool *pool;
};

static weir_sim_mode sim_mode = WEIR_SIM_ACCOUNTING;

/* A small `limit_bytes` makes requests wait. */
static void open_machine(struct machine *m, uint32_t flags, uint64_t limit_bytes)
{
    weir_sim_config sim = WEIR_SIM_CONFIG_INIT;
    sim.mode = sim_mode;
    sim.capacity_bytes = 256 * MIB; /* the simulator reserves twenty times as many addresses */
    *m = (struct machine){0};
    assert_int_equal(weir_sim_create(&sim, &m->sim), WEIR_OK);
    for (size_t i = 0; i < STREAMS; i++) {
        assert_int_equal(weir_sim_stream_create(m->sim, &m->streams[i]), WEIR_OK);
    }
    assert_int_equal(weir_topology_create(NULL, &m->topology), WEIR_OK);
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    runtime.device = weir_sim_device(m->sim);
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.flags = flags | (uint32_t)WEIR_HOST_ALLOW_UNPINNED;
    config.kinds = 1u << WEIR_HOST_UNPINNED;
    config.topology = m->topology;
    config.runtime = &runtime;
    config.limit_bytes = limit_bytes;
    config.chunk_bytes = 2 * MIB;
    assert_int_equal(weir_host_pool_create(&config, &m->pool), WEIR_OK);
}

static uint64_t findings(weir_sim *sim)
{
    weir_sim_finding finding;
    for (size_t i = 0; weir_sim_finding_at(sim, i, &finding); i++) {
        /* Host memory is not a region of the device. */
        if (finding.kind != WEIR_SIM_OUTSIDE_REGION) {
            fail_msg("%s", finding.text);
        }
    }
    return 0;
}

static void close_machine(struct machine *m)
{
    const char *why = "";
    if (weir_host_check(m->pool, &why) != WEIR_OK) {
        fail_msg("%s", why);
    }
    assert_int_equal(weir_host_pool_destroy(m->pool), WEIR_OK);
    (void)findings(m->sim);
    assert_int_equal(weir_sim_destroy(m->sim), WEIR_OK);
    weir_topology_destroy(m->topology);
}

static weir_host_stats stats_of(const struct machine *m)
{
    weir_host_stats stats = WEIR_HOST_STATS_INIT;
    assert_int_equal(weir_host_get_stats(m->pool, WEIR_HOST_ANY_NODE, &stats), WEIR_OK);
    return stats;
}

static void *block(struct machine *m, uint64_t size)
{
    void *ptr = NULL;
    assert_int_equal(weir_host_alloc(m->pool, size, WEIR_HOST_THREAD_NODE, &ptr), WEIR_OK);
    weir_sim_block_alloc(m->sim, (uintptr_t)ptr, size, NULL, "host block");
    return ptr;
}

/* Queues a copy that reads the block for a while, and frees the block in the stream's order. */
static void copy_and_free(struct machine *m, weir_sim_stream *stream, void *ptr, uint64_t size)
{
    const weir_sim_access access = {.address = (uintptr_t)ptr, .size = size};
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = COPY_NS;
    work.accesses = &access;
    work.access_count = 1;
    work.tag = "copy";
    assert_int_equal(weir_sim_launch(m->sim, stream, &work), WEIR_OK);
    weir_sim_block_free(m->sim, (uintptr_t)ptr, stream != NULL ? stream : weir_sim_default_stream(m->sim),
                        "free after");
    assert_int_equal(weir_host_free_after(m->pool, ptr, stream), WEIR_OK);
}

static void free_idle(struct machine *m, void *ptr)
{
    weir_sim_block_free(m->sim, (uintptr_t)ptr, NULL, "free");
    assert_int_equal(weir_host_free(m->pool, ptr), WEIR_OK);
}

static const uint64_t sizes[] = {1, 100, 4000, 65000, 70000, MIB, 5 * MIB};
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

TEST(test_nothing_comes_back_early)
{
    struct machine m;
    open_machine(&m, 0, 0);
    for (size_t s = 0; s < SIZES; s++) {
        void *ptr = block(&m, sizes[s]);
        copy_and_free(&m, m.streams[0], ptr, sizes[s]);
        assert_true(stats_of(&m).pending_bytes >= sizes[s]);
        assert_int_equal(stats_of(&m).live_bytes, 0);
        for (int i = 0; i < 5; i++) {
            assert_ptr_not_equal(block(&m, sizes[s]), ptr); /* the auditor would report it too */
        }
        assert_true(stats_of(&m).pending_bytes > 0);
        /* The work is over. The pool notices it at the next call that queries the stream. */
        assert_int_equal(weir_sim_sync(m.sim), WEIR_OK);
        assert_int_equal(weir_host_trim(m.pool, UINT64_MAX, NULL), WEIR_OK);
        void *more = block(&m, sizes[s]);
        free_idle(&m, more);
        close_machine(&m);
        open_machine(&m, 0, 0);
    }
    close_machine(&m);
}

/* A pool that may not grow waits for blocks that any stream holds back, small and large. */
TEST(test_a_pool_at_its_limit_waits)
{
    for (uint32_t flags = 0; flags <= WEIR_HOST_NO_THREAD_CACHE; flags += WEIR_HOST_NO_THREAD_CACHE) {
        for (size_t s = 0; s < SIZES; s++) {
            struct machine m;
            open_machine(&m, flags, 8 * MIB);
            const size_t count = sizes[s] < 4096 ? 3000 : (size_t)(40 * MIB / (sizes[s] + 4096));
            for (size_t i = 0; i < count; i++) {
                void *ptr = block(&m, sizes[s]);
                copy_and_free(&m, i % (STREAMS + 1) < STREAMS ? m.streams[i % STREAMS] : NULL, ptr, sizes[s]);
            }
            assert_true(stats_of(&m).held_bytes <= 8 * MIB);
            assert_int_equal(stats_of(&m).failures, 0);
            close_machine(&m);
        }
    }
}

TEST(test_destroy_waits)
{
    struct machine m;
    open_machine(&m, 0, 0);
    for (size_t s = 0; s < SIZES; s++) {
        copy_and_free(&m, m.streams[s % STREAMS], block(&m, sizes[s]), sizes[s]);
    }
    const uint64_t tail = weir_sim_stream_tail(m.sim, m.streams[0]);
    assert_true(weir_sim_now(m.sim) < tail);
    assert_int_equal(weir_host_pool_destroy(m.pool), WEIR_OK);
    assert_true(weir_sim_now(m.sim) >= tail);
    (void)findings(m.sim);
    assert_int_equal(weir_sim_destroy(m.sim), WEIR_OK);
    weir_topology_destroy(m.topology);
}

/* A later stream may have the handle of an ended one. */
TEST(test_streams_that_end)
{
    struct machine m;
    open_machine(&m, 0, 0);
    for (int round = 0; round < 20; round++) {
        weir_sim_stream *stream = NULL;
        assert_int_equal(weir_sim_stream_create(m.sim, &stream), WEIR_OK);
        for (size_t s = 0; s < SIZES; s++) {
            copy_and_free(&m, stream, block(&m, sizes[s]), sizes[s]);
        }
        assert_true(stats_of(&m).pending_bytes > 0);
        assert_int_equal(weir_host_stream_retire(m.pool, stream), WEIR_OK);
        assert_true(weir_sim_now(m.sim) >= weir_sim_stream_tail(m.sim, stream));
        assert_int_equal(stats_of(&m).pending_bytes, 0);
        assert_int_equal(weir_sim_stream_destroy(m.sim, stream), WEIR_OK);
    }
    assert_true(stats_of(&m).held_bytes <= 32 * MIB);                         /* every round used the same memory */
    assert_int_equal(weir_host_stream_retire(m.pool, m.streams[0]), WEIR_OK); /* a stream that the pool does not know */
    close_machine(&m);
}

TEST(test_freed_twice)
{
    struct machine m;
    open_machine(&m, 0, 0);
    for (size_t s = 0; s < SIZES; s++) {
        void *ptr = block(&m, sizes[s]);
        copy_and_free(&m, m.streams[0], ptr, sizes[s]);
        assert_int_equal(weir_host_free_after(m.pool, ptr, m.streams[1]), WEIR_ERR_INVALID);
        assert_int_equal(weir_host_free(m.pool, ptr), WEIR_ERR_INVALID);
        weir_host_info info = WEIR_HOST_INFO_INIT;
        assert_int_equal(weir_host_query(m.pool, ptr, &info), WEIR_ERR_INVALID);
        assert_int_equal(weir_device_stream_sync(weir_sim_device(m.sim), m.streams[0]), WEIR_OK);
        assert_int_equal(weir_host_trim(m.pool, UINT64_MAX, NULL), WEIR_OK); /* the block returns to its engine */
        assert_int_equal(weir_host_free(m.pool, ptr), WEIR_ERR_INVALID);
        char *other = block(&m, sizes[s] + 100);
        assert_int_equal(weir_host_free_after(m.pool, other + 64, NULL), WEIR_ERR_INVALID);
        assert_int_equal(weir_host_free_after(m.pool, &m, NULL), WEIR_ERR_INVALID);
        assert_int_equal(weir_host_free_after(m.pool, NULL, NULL), WEIR_OK);
        free_idle(&m, other);
    }
    close_machine(&m);
}

/* Each call of the device fails in turn: no block is handed out early, none is lost, and without further failures all
 * memory serves again. */
TEST(test_device_failures)
{
    const weir_device_call calls[] = {WEIR_CALL_EVENT_CREATE, WEIR_CALL_EVENT_RECORD,  WEIR_CALL_EVENT_QUERY,
                                      WEIR_CALL_EVENT_SYNC,   WEIR_CALL_EVENT_DESTROY, WEIR_CALL_STREAM_SYNC};
    for (size_t c = 0; c < sizeof(calls) / sizeof(*calls); c++) {
        for (int repeat = 0; repeat < 2; repeat++) {
            for (uint64_t nth = 1; nth <= (repeat != 0 ? 2 : 12); nth++) {
                struct machine m;
                open_machine(&m, 0, 8 * MIB);
                weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
                fault.call = calls[c];
                fault.nth = nth;
                fault.repeat = repeat != 0;
                assert_int_equal(weir_sim_fault_arm(m.sim, &fault), WEIR_OK);
                uint64_t failed = 0;
                for (size_t i = 0; i < 60; i++) {
                    const uint64_t size = sizes[i % SIZES];
                    void *ptr = NULL;
                    const weir_status status = weir_host_alloc(m.pool, size, WEIR_HOST_THREAD_NODE, &ptr);
                    failed += status != WEIR_OK;
                    if (status == WEIR_OK) {
                        weir_sim_block_alloc(m.sim, (uintptr_t)ptr, size, NULL, "host block");
                        copy_and_free(&m, m.streams[i % STREAMS], ptr, size);
                    } else {
                        assert_true(status == WEIR_ERR_LIMIT || status == WEIR_ERR_NO_MEMORY);
                    }
                }
                assert_true(failed == 0 || calls[c] != WEIR_CALL_EVENT_DESTROY);
                assert_int_equal(stats_of(&m).live_bytes, 0);
                weir_sim_fault_clear(m.sim);
                void *ptr = block(&m, 5 * MIB);
                free_idle(&m, ptr);
                close_machine(&m);
            }
        }
    }
}

/* The pending blocks of a broken stream stay pending until the pool is destroyed. The destroy reports the broken
 * stream. */
TEST(test_a_broken_stream)
{
    struct machine m;
    open_machine(&m, 0, 0);
    for (size_t s = 0; s < SIZES; s++) {
        copy_and_free(&m, m.streams[0], block(&m, sizes[s]), sizes[s]);
    }
    assert_int_equal(weir_sim_stream_break(m.sim, m.streams[0]), WEIR_OK);
    assert_int_equal(weir_host_stream_retire(m.pool, m.streams[0]), WEIR_ERR_DEVICE);
    assert_true(stats_of(&m).pending_bytes > 0);
    void *ptr = block(&m, 100);
    free_idle(&m, ptr);
    assert_int_equal(weir_host_pool_destroy(m.pool), WEIR_ERR_DEVICE);
    assert_int_equal(weir_sim_destroy(m.sim), WEIR_OK);
    weir_topology_destroy(m.topology);
}

/* --- threads --- */

enum { ROUNDS = 400, ROOM = 80 << 10 };

struct worker {
    struct machine *m;
    uint64_t seed;
    uint64_t device; /* one area for each round's copy */
    uint64_t sizes[ROUNDS];
    unsigned char values[ROUNDS];
    const char *failure;
};

/* Each round writes a block, copies it to an area of its own on the device, and frees it after the copy. */
static void *work(void *ctx)
{
    struct worker *w = ctx;
    struct machine *m = w->m;
    for (int i = 0; i < ROUNDS && w->failure == NULL; i++) {
        w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
        const uint64_t size = sizes[(w->seed >> 40) % 5];
        weir_sim_stream *stream = m->streams[(w->seed >> 50) % STREAMS];
        void *ptr = NULL;
        if (weir_host_alloc(m->pool, size, WEIR_HOST_THREAD_NODE, &ptr) != WEIR_OK) {
            w->failure = "alloc failed";
            break;
        }
        w->sizes[i] = size;
        w->values[i] = (unsigned char)(w->seed >> 33);
        memset(ptr, w->values[i], size);
        if (weir_sim_copy_from_host(m->sim, stream, w->device + (uint64_t)i * ROOM, ptr, size, "copy") != WEIR_OK) {
            w->failure = "copy failed";
        } else if (weir_host_free_after(m->pool, ptr, stream) != WEIR_OK) {
            w->failure = "free failed";
        }
        if (i % 7 == 0) {
            weir_sim_advance(m->sim, 5000);
        }
        if (i % 100 == 99 && weir_host_trim(m->pool, 0, NULL) != WEIR_OK) {
            w->failure = "trim failed";
        }
    }
    return NULL;
}

static uint64_t torn_bytes(const struct worker *w)
{
    uint64_t torn = 0;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        const unsigned char *bytes = weir_sim_bytes(w->m->sim, w->device + i * ROOM, w->sizes[i]);
        assert_non_null(bytes);
        for (uint64_t at = 0; at < w->sizes[i]; at++) {
            torn += bytes[at] != w->values[i];
        }
    }
    return torn;
}

TEST(test_threads)
{
    enum { THREADS = 4 };
    static struct worker workers[THREADS];
    struct machine m;
    pthread_t threads[THREADS];
    sim_mode = WEIR_SIM_BACKED;
    open_machine(&m, 0, 8 * MIB);
    sim_mode = WEIR_SIM_ACCOUNTING;
    for (size_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.m = &m, .seed = 11 + i};
        assert_int_equal(weir_device_region_alloc(weir_sim_device(m.sim), 32 * MIB, &workers[i].device), WEIR_OK);
        weir_sim_block_alloc(m.sim, workers[i].device, 32 * MIB, NULL, "target");
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        if (workers[i].failure != NULL) {
            fail_msg("%s", workers[i].failure);
        }
    }
    assert_int_equal(weir_sim_sync(m.sim), WEIR_OK);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(torn_bytes(&workers[i]), 0);
    }
    assert_int_equal(stats_of(&m).live_bytes, 0);
    assert_int_equal(stats_of(&m).allocs, THREADS * ROUNDS);
    close_machine(&m);
}
