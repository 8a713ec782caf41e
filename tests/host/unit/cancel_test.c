/* Unit tests of cancellation: no function of weir is a cancellation point.
 *
 * Each body runs in a thread that has already been cancelled. Every device call, every function of the user, every wait
 * and every file is a cancellation point, so the thread would end at the first one that it reaches with cancellation
 * enabled. The thread must survive all calls, and end after them.
 */
#include "rig/test.h"

#include <weir/adaptor.h>
#include <weir/arena.h>
#include <weir/budget.h>
#include <weir/caching.h>
#include <weir/heap.h>
#include <weir/host.h>
#include <weir/observer.h>
#include <weir/sim.h>
#include <weir/trace.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { most_blocks = 64 };

/* --- threads that are cancelled --- */

struct run {
    void (*body)(void);
    bool came_through;
    bool survived;
};

static atomic_uint mistakes; /* assertions belong to the main thread */

#define expect(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                      \
            (void)atomic_fetch_add(&mistakes, 1);                                                                      \
        }                                                                                                              \
    } while (0)
#define ok(call) expect((call) == WEIR_OK)

static void *run_cancelled(void *ctx)
{
    struct run *run = ctx;
    (void)pthread_cancel(pthread_self());
    run->body();
    run->came_through = true;
    pthread_testcancel();
    run->survived = true;
    return NULL;
}

static void come_through(void (*body)(void))
{
    struct run run = {.body = body};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_cancelled, &run), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(run.came_through);
    assert_false(run.survived); /* cancellation is enabled again */
    assert_int_equal(atomic_load(&mistakes), 0);
}

/* --- a pool over a device in which each call is a cancellation point --- */

static weir_sim *sim;
static weir_device *logging;
static weir_device *device;
static weir_pool *pool;
static weir_sim_stream *natives[2];
static weir_stream *streams[2];
static uint32_t pool_flags;
static uint64_t device_calls;

static void cancel_after_call(void *ctx, const char *line)
{
    (void)ctx, (void)line;
    device_calls++;
    pthread_testcancel();
}

static bool cancel_in_oom(void *ctx, weir_pool *failing, const weir_oom_record *record)
{
    unsigned *calls = ctx;
    (void)failing, (void)record;
    pthread_testcancel();
    return (*calls)++ % 2 == 0;
}

static bool cancel_in_pressure(void *ctx, weir_pool *pressed, const weir_pressure *pressure)
{
    (void)ctx, (void)pressed, (void)pressure;
    pthread_testcancel();
    return false;
}

static unsigned oom_calls;

static void open_pool(void)
{
    ok(weir_log_create(weir_sim_device(sim), cancel_after_call, NULL, &logging));
    ok(weir_limit_create(logging, 256 * MIB, &device));
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = device;
    config.strategy = weir_caching_strategy();
    config.flags = pool_flags;
    config.oom_callback = cancel_in_oom;
    config.oom_ctx = &oom_calls;
    config.pressure_callback = cancel_in_pressure;
    config.soft_limit_bytes = 32 * MIB;
    config.limit_bytes = 64 * MIB;
    ok(weir_pool_create(&config, &pool));
    for (int i = 0; i < 2; i++) {
        ok(weir_sim_stream_create(sim, &natives[i]));
        ok(weir_pool_stream(pool, natives[i], &streams[i]));
    }
}

static void close_pool(void)
{
    ok(weir_pool_destroy(pool));
    ok(weir_device_destroy(device));
    ok(weir_device_destroy(logging));
}

static void work_on(weir_sim_stream *native)
{
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = 1000000;
    work.tag = "work";
    ok(weir_sim_launch(sim, native, &work));
}

/* Requests more than the limit, so that every rung of the ladder is tried. */
static void fill_and_fail(void)
{
    weir_block *blocks[most_blocks];
    unsigned count = 0;
    while (count < most_blocks && weir_pool_alloc(pool, streams[count % 2], 3 * MIB, 0, &blocks[count]) == WEIR_OK) {
        work_on(natives[count % 2]);
        count++;
    }
    expect(count > 5 && count < most_blocks);
    for (unsigned i = 0; i < count; i++) {
        ok(weir_pool_free(pool, blocks[i], streams[i % 2]));
    }
}

static void use_streams(void)
{
    weir_block *block = NULL;
    weir_tick mark = 0;
    bool reached = false;
    ok(weir_pool_alloc(pool, streams[0], 5 * MIB, 0, &block));
    work_on(natives[0]);
    ok(weir_pool_use(pool, block, streams[1]));
    work_on(natives[1]);
    ok(weir_pool_free(pool, block, streams[0]));
    ok(weir_stream_mark(pool, streams[0], &mark));
    ok(weir_stream_reached(pool, streams[0], mark, false, &reached));
    ok(weir_stream_reached(pool, streams[0], mark, true, &reached));
    ok(weir_pool_trim(pool, 0, 0, NULL));
    ok(weir_pool_trim(pool, 0, WEIR_TRIM_WAIT, NULL));
    ok(weir_pool_alloc(pool, streams[1], 2 * MIB, 0, &block));
    ok(weir_pool_free_idle(pool, block));
    ok(weir_stream_retire(pool, streams[1]));
    ok(weir_pool_stream(pool, natives[1], &streams[1]));
    ok(weir_pool_set_limits(pool, 1 * MIB, 64 * MIB));
    ok(weir_pool_set_limits(pool, 32 * MIB, 64 * MIB));
}

static void use_groups_and_arenas(void)
{
    const uint64_t sizes[] = {MIB, 2 * MIB, 3 * MIB};
    weir_block *blocks[3];
    weir_arena *arena = NULL;
    uint64_t address = 0;
    uint64_t fit = 0;
    ok(weir_pool_would_fit(pool, streams[0], MIB, 3, &fit));
    ok(weir_pool_alloc_many(pool, streams[0], sizes, 3, 0, blocks));
    for (int i = 0; i < 3; i++) {
        ok(weir_pool_free(pool, blocks[i], streams[0]));
    }
    ok(weir_arena_create(pool, streams[0], NULL, &arena));
    for (int i = 0; i < 10; i++) {
        ok(weir_arena_alloc(arena, MIB, 0, &address));
    }
    ok(weir_arena_use(arena, streams[1]));
    ok(weir_arena_reset(arena));
    weir_arena_destroy(arena);
}

/* Calls that a pool rarely makes. */
static void use_device(void)
{
    weir_event *event = NULL;
    ok(weir_device_event_create(device, &event));
    ok(weir_device_event_record(device, event, natives[0]));
    ok(weir_device_stream_wait_event(device, natives[1], event));
    ok(weir_device_stream_sync(device, natives[0]));
    ok(weir_device_event_destroy(device, event));
}

static bool cancel_in_walk(void *ctx, const weir_walk_entry *entry)
{
    (void)ctx, (void)entry;
    pthread_testcancel();
    return true;
}

static void look_around(void)
{
    const char *why = NULL;
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    weir_block *found = NULL;
    ok(weir_pool_walk(pool, cancel_in_walk, NULL));
    ok(weir_pool_check(pool, &why));
    ok(weir_pool_get_stats(pool, &stats));
    ok(weir_pool_get_oom(pool, &record));
    expect(weir_pool_find(pool, 1, &found) == WEIR_ERR_INVALID);
}

static void cancel_in_memory(void *ctx, uint64_t address, uint64_t size)
{
    (void)ctx, (void)address, (void)size;
    pthread_testcancel();
}

static void cancel_in_block(void *ctx, const weir_observed_block *block)
{
    (void)ctx, (void)block;
    pthread_testcancel();
}

static void cancel_in_end(void *ctx)
{
    (void)ctx;
    pthread_testcancel();
}

static const weir_observer_ops observer = {
    .struct_size = sizeof(observer),
    .memory_given = cancel_in_memory,
    .memory_taken = cancel_in_memory,
    .block_alloc = cancel_in_block,
    .block_free = cancel_in_block,
    .pool_gone = cancel_in_end,
};

static void observe(void)
{
    static int ctx;
    weir_block *block = NULL;
    ok(weir_pool_alloc(pool, streams[0], MIB, 0, &block));
    ok(weir_pool_observe(pool, &observer, &ctx));
    use_streams();
    ok(weir_pool_free(pool, block, streams[0]));
    ok(weir_pool_unobserve(pool, &ctx));
    ok(weir_pool_observe(pool, &observer, &ctx)); /* this observer stays attached until the pool is destroyed */
}

static bool cancel_in_sink(void *ctx, const char *text, size_t length)
{
    (void)ctx, (void)text, (void)length;
    pthread_testcancel();
    return true;
}

static char path[] = "/tmp/weir-cancel-XXXXXX";

static void record(void)
{
    weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
    config.sink = cancel_in_sink;
    weir_recorder *recorder = NULL;
    ok(weir_recorder_start(pool, &config, &recorder));
    use_streams();
    ok(weir_recorder_drain(recorder, NULL));
    use_streams();
    ok(weir_recorder_stop(recorder, NULL));
    ok(weir_recorder_start_file(pool, path, NULL, &recorder));
    use_streams();
    ok(weir_recorder_drain(recorder, NULL));
    ok(weir_recorder_stop(recorder, NULL));
    expect(weir_recorder_create_file("/nowhere/at all", NULL, &recorder) == WEIR_ERR_DEVICE);
}

static void pools_come_through(uint32_t flags)
{
    static void (*const bodies[])(void) = {open_pool,  fill_and_fail, use_streams, use_groups_and_arenas, look_around,
                                           use_device, record,        observe,     fill_and_fail};
    weir_sim_config config = WEIR_SIM_CONFIG_INIT;
    weir_sim_finding finding;
    pool_flags = flags;
    device_calls = 0;
    assert_int_equal(weir_sim_create(&config, &sim), WEIR_OK);
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        come_through(bodies[i]);
        if (i > 0) {
            use_streams(); /* the thread that was not cancelled still uses the streams */
            look_around();
            assert_int_equal(atomic_load(&mistakes), 0);
        }
    }
    come_through(close_pool);
    assert_true(device_calls > 100);
    weir_sim_audit_leaks(sim);
    if (weir_sim_finding_at(sim, 0, &finding)) {
        print_error("finding: %s\n", finding.text);
        fail();
    }
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

TEST(test_pools)
{
    pools_come_through(WEIR_POOL_REGIONS);
    pools_come_through(WEIR_POOL_REGIONS | WEIR_POOL_NO_FRONT_CACHE);
}

TEST(test_pools_with_virtual_memory)
{
    pools_come_through(0);
}

/* --- facts, errors and the end of a device --- */

static weir_status cancel_in_info(void *ctx, weir_device_info *info)
{
    (void)ctx;
    pthread_testcancel();
    info->region_granularity_bytes = info->region_alignment_bytes = 2 * MIB;
    info->host_numa_node = -1;
    return WEIR_OK;
}

static weir_status cancel_in_alloc(void *ctx, uint64_t size, uint64_t *address)
{
    (void)ctx, (void)size, (void)address;
    pthread_testcancel();
    return WEIR_ERR_NO_MEMORY;
}

static weir_status cancel_in_free(void *ctx, uint64_t address, uint64_t size)
{
    (void)ctx, (void)address, (void)size;
    pthread_testcancel();
    return WEIR_OK;
}

static weir_status cancel_in_error(void *ctx, int64_t *code, const char **text)
{
    (void)ctx;
    pthread_testcancel();
    *code = 1;
    *text = "none";
    return WEIR_OK;
}

static void cancel_in_destroy(void *ctx)
{
    (void)ctx;
    pthread_testcancel();
}

static void use_small_device(void)
{
    static const weir_device_ops ops = {.struct_size = sizeof(ops),
                                        .get_info = cancel_in_info,
                                        .region_alloc = cancel_in_alloc,
                                        .region_free = cancel_in_free,
                                        .native_error = cancel_in_error,
                                        .destroy = cancel_in_destroy};
    weir_device *small = NULL;
    int64_t code = 0;
    const char *text = "";
    ok(weir_device_create(&ops, NULL, &small));
    ok(weir_device_error(small, &code, &text));
    ok(weir_device_destroy(small));
}

TEST(test_devices)
{
    come_through(use_small_device);
}

/* --- a thread that waits for the growth of another one --- */

static atomic_bool one_grows;
static atomic_bool other_asks;
static uint64_t next_address = UINT64_C(1) << 40;

static void pause_ms(long ms)
{
    const struct timespec time = {.tv_nsec = ms * 1000000};
    int state = 0;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    (void)nanosleep(&time, NULL);
    (void)pthread_setcancelstate(state, &state);
}

static weir_status plain_info(void *ctx, weir_device_info *info)
{
    (void)ctx;
    info->region_granularity_bytes = 2 * MIB;
    info->region_alignment_bytes = 2 * MIB;
    info->host_numa_node = -1;
    return WEIR_OK;
}

/* The first call lasts until another thread has begun to wait. */
static weir_status slow_alloc(void *ctx, uint64_t size, uint64_t *address)
{
    (void)ctx;
    if (!atomic_exchange(&one_grows, true)) {
        while (!atomic_load(&other_asks)) {
            pause_ms(1);
        }
        pause_ms(50);
    }
    *address = __atomic_fetch_add(&next_address, size, __ATOMIC_SEQ_CST);
    return WEIR_OK;
}

static weir_status no_free(void *ctx, uint64_t address, uint64_t size)
{
    (void)ctx, (void)address, (void)size;
    return WEIR_OK;
}

static void allocate_on_another_stream(void)
{
    weir_block *block = NULL;
    atomic_store(&other_asks, true);
    ok(weir_pool_alloc(pool, streams[1], 30 * MIB, 0, &block));
}

static void *allocate(void *ctx)
{
    weir_block *block = NULL;
    (void)ctx;
    ok(weir_pool_alloc(pool, streams[0], 30 * MIB, 0, &block));
    return NULL;
}

TEST(test_a_thread_that_waits_for_growth)
{
    static const weir_device_ops ops = {
        .struct_size = sizeof(ops), .get_info = plain_info, .region_alloc = slow_alloc, .region_free = no_free};
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    pthread_t thread;
    assert_int_equal(weir_device_create(&ops, NULL, &device), WEIR_OK);
    config.device = device;
    config.strategy = weir_caching_strategy();
    assert_int_equal(weir_pool_create(&config, &pool), WEIR_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weir_pool_stream(pool, &natives[i], &streams[i]), WEIR_OK);
    }
    assert_int_equal(pthread_create(&thread, NULL, allocate, NULL), 0);
    while (!atomic_load(&one_grows)) {
        pause_ms(1);
    }
    come_through(allocate_on_another_stream);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_null(allocate(NULL)); /* the growth mutex is free */
    assert_int_equal(atomic_load(&mistakes), 0);
    assert_int_equal(weir_pool_destroy(pool), WEIR_OK);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

/* --- heaps and host pools --- */

static weir_host_pool *host;
static weir_heap *heap;

static weir_status cancel_in_pinned_alloc(void *ctx, uint64_t size, void **memory)
{
    (void)ctx;
    pthread_testcancel();
    *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return *memory != MAP_FAILED ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

static weir_status cancel_in_pinned_free(void *ctx, void *memory, uint64_t size)
{
    (void)ctx;
    pthread_testcancel();
    return munmap(memory, size) == 0 ? WEIR_OK : WEIR_ERR_DEVICE;
}

static void open_host(void)
{
    static const weir_host_runtime_ops ops = {
        .struct_size = sizeof(ops), .pinned_alloc = cancel_in_pinned_alloc, .pinned_free = cancel_in_pinned_free};
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    runtime.ops = &ops;
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.runtime = &runtime;
    config.flags = WEIR_HOST_ALLOW_UNPINNED;
    config.kinds = 1u << WEIR_HOST_RUNTIME | 1u << WEIR_HOST_UNPINNED;
    config.limit_bytes = 64 * MIB;
    ok(weir_host_pool_create(&config, &host));
}

static void use_host(void)
{
    static const uint64_t sizes[] = {100, 5000, 100 * KIB, 9 * MIB, 40 * MIB};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    void *blocks[COUNT] = {NULL};
    void *too_much = NULL;
    for (size_t i = 0; i < COUNT; i++) {
        ok(weir_host_alloc(host, sizes[i], WEIR_HOST_THREAD_NODE, &blocks[i]));
    }
    expect(weir_host_alloc(host, 50 * MIB, WEIR_HOST_THREAD_NODE, &too_much) != WEIR_OK);
    for (size_t i = 0; i < COUNT; i++) {
        ok(weir_host_free(host, blocks[i]));
    }
    ok(weir_host_trim(host, 0, NULL));
    ok(weir_host_check(host, NULL));
}

static void close_host(void)
{
    ok(weir_host_pool_destroy(host));
}

TEST(test_host_pools)
{
    come_through(open_host);
    come_through(use_host);
    use_host();
    come_through(close_host);
}

static bool cancel_in_reclaim(void *ctx, weir_heap *asking, uint64_t size, uint32_t attempt)
{
    (void)ctx, (void)asking, (void)size;
    pthread_testcancel();
    return attempt == 0;
}

static void open_heap(void)
{
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.limit_bytes = 64 * MIB;
    config.reclaim = cancel_in_reclaim;
    ok(weir_heap_create(&config, &heap));
}

static void use_heap(void)
{
    static const size_t sizes[] = {100, 5000, 100 * KIB, 3 * MIB, 30 * MIB};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    void *blocks[COUNT];
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = weir_heap_alloc(heap, sizes[i]);
        expect(blocks[i] != NULL);
    }
    expect(weir_heap_alloc(heap, 60 * MIB) == NULL);
    for (size_t i = 0; i < COUNT; i++) {
        ok(weir_heap_free(heap, blocks[i]));
    }
    ok(weir_heap_trim(heap, 0, NULL));
    ok(weir_heap_get_stats(heap, &stats));
    ok(weir_heap_check(heap, NULL));
}

static void record_heap(void)
{
    weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
    config.sink = cancel_in_sink;
    weir_recorder *recorder = NULL;
    ok(weir_recorder_create(&config, &recorder));
    ok(weir_heap_record(heap, recorder));
    use_heap();
    ok(weir_recorder_drain(recorder, NULL));
    ok(weir_heap_record(heap, NULL));
    ok(weir_recorder_stop(recorder, NULL));
}

static void close_heap(void)
{
    ok(weir_heap_destroy(heap));
}

TEST(test_heaps)
{
    come_through(open_heap);
    come_through(use_heap);
    come_through(record_heap);
    use_heap();
    come_through(close_heap);
}

int main(void)
{
    const int file = mkstemp(path);
    (void)alarm(120); /* ends the program if a cancelled thread has ended with a lock held */
    const int failed = run_all_tests("cancellation");
    (void)close(file);
    (void)unlink(path);
    return failed;
}
