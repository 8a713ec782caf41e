/* tests/pool/unit/refusal_watch_test.c: each refusal of recorders, observers and arenas carries a sentence that names
 * the argument or state. */
#include "refusal.h"

#include <weir/arena.h>
#include <weir/caching.h>
#include <weir/observer.h>
#include <weir/sim.h>
#include <weir/trace.h>

#include <sys/wait.h>
#include <unistd.h>

struct world {
    weir_sim *sim;
    weir_pool *pool;
    weir_stream *stream;
    weir_pool *other_pool;
    weir_stream *other_stream;
};

static struct world open_world(void)
{
    struct world w = {0};
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    assert_int_equal(weir_sim_create(NULL, &w.sim), WEIR_OK);
    config.device = weir_sim_device(w.sim);
    config.strategy = weir_caching_strategy();
    assert_int_equal(weir_pool_create(&config, &w.pool), WEIR_OK);
    assert_int_equal(weir_pool_stream(w.pool, NULL, &w.stream), WEIR_OK);
    assert_int_equal(weir_pool_create(&config, &w.other_pool), WEIR_OK);
    assert_int_equal(weir_pool_stream(w.other_pool, NULL, &w.other_stream), WEIR_OK);
    return w;
}

static void close_world(struct world *w)
{
    assert_int_equal(weir_pool_destroy(w->pool), WEIR_OK);
    assert_int_equal(weir_pool_destroy(w->other_pool), WEIR_OK);
    assert_int_equal(weir_sim_destroy(w->sim), WEIR_OK);
}

static bool take_all(void *ctx, const char *text, size_t length)
{
    (void)ctx, (void)text, (void)length;
    return true;
}

TEST(test_recorders)
{
    struct world w = open_world();
    char path[] = "/tmp/weir-refusal-XXXXXX";
    const int file = mkstemp(path);
    weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
    weir_recorder_config sizeless = {.sink = take_all};
    weir_recorder *recorder = NULL;
    weir_recorder *second = NULL;
    refused(weir_recorder_start(NULL, &config, &recorder), WEIR_ERR_INVALID, "pool is NULL");
    refused(weir_recorder_start(w.pool, &config, NULL), WEIR_ERR_INVALID, "recorder is NULL");
    refused(weir_recorder_start(w.pool, NULL, &recorder), WEIR_ERR_INVALID, "config is NULL");
    refused(weir_recorder_start(w.pool, &sizeless, &recorder), WEIR_ERR_INVALID, "config has no struct_size");
    refused(weir_recorder_start(w.pool, &config, &recorder), WEIR_ERR_INVALID, "config.sink is NULL");
    refused(weir_recorder_create(&config, NULL), WEIR_ERR_INVALID, "recorder is NULL");
    refused(weir_recorder_create(NULL, &recorder), WEIR_ERR_INVALID, "config is NULL");
    refused(weir_recorder_create(&config, &recorder), WEIR_ERR_INVALID, "config.sink is NULL");
    refused(weir_recorder_create_file(NULL, NULL, &recorder), WEIR_ERR_INVALID, "path is NULL");
    refused(weir_recorder_create_file(path, NULL, NULL), WEIR_ERR_INVALID, "recorder is NULL");
    refused(weir_recorder_start_file(NULL, path, NULL, &recorder), WEIR_ERR_INVALID, "pool is NULL");
    refused(weir_recorder_start_file(w.pool, NULL, NULL, &recorder), WEIR_ERR_INVALID, "path is NULL");
    refused(weir_recorder_start_file(w.pool, path, NULL, NULL), WEIR_ERR_INVALID, "recorder is NULL");
    refused(weir_recorder_drain(NULL, NULL), WEIR_ERR_INVALID, "recorder is NULL");
    refused(weir_recorder_stop(NULL, NULL), WEIR_ERR_INVALID, "recorder is NULL");
    config.sink = take_all;
    assert_int_equal(weir_recorder_start(w.pool, &config, &recorder), WEIR_OK);
    refused(weir_recorder_start(w.pool, &config, &second), WEIR_ERR_BUSY, "recorded already");
    refused(weir_recorder_start_file(w.pool, path, NULL, &second), WEIR_ERR_BUSY, "recorded already");
    const pid_t child = fork();
    if (child == 0) {
        const bool told = weir_recorder_drain(recorder, NULL) == WEIR_ERR_UNSUPPORTED &&
                          strcmp(weir_last_error(),
                                 "weir_recorder_drain: this process is a child of fork, recorder is its parent's") == 0;
        _exit(told ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(weir_recorder_stop(recorder, NULL), WEIR_OK);
    (void)close(file);
    (void)unlink(path);
    close_world(&w);
}

TEST(test_observers)
{
    struct world w = open_world();
    const weir_observer_ops ops = {.struct_size = sizeof(ops)};
    const weir_observer_ops sizeless = {0};
    refused(weir_pool_observe(NULL, &ops, NULL), WEIR_ERR_INVALID, "pool is NULL");
    refused(weir_pool_observe(w.pool, NULL, NULL), WEIR_ERR_INVALID, "ops is NULL");
    refused(weir_pool_observe(w.pool, &sizeless, NULL), WEIR_ERR_INVALID, "ops has no struct_size");
    refused(weir_pool_unobserve(NULL, &w), WEIR_ERR_INVALID, "pool is NULL");
    refused(weir_pool_unobserve(w.pool, &w), WEIR_ERR_INVALID, "ctx is not");
    assert_int_equal(weir_pool_observe(w.pool, &ops, &w), WEIR_OK);
    refused(weir_pool_observe(w.pool, &ops, &w), WEIR_ERR_BUSY, "has an observer already");
    refused(weir_pool_unobserve(w.pool, NULL), WEIR_ERR_INVALID, "ctx is not");
    assert_int_equal(weir_pool_unobserve(w.pool, &w), WEIR_OK);
    close_world(&w);
}

TEST(test_arenas)
{
    struct world w = open_world();
    weir_arena_config config = WEIR_ARENA_CONFIG_INIT;
    weir_arena_stats usage = WEIR_ARENA_STATS_INIT;
    weir_arena *arena = NULL;
    weir_arena *other = NULL;
    weir_mark mark;
    uint64_t address = 0;
    refused(weir_arena_create(NULL, w.stream, NULL, &arena), WEIR_ERR_INVALID, "pool is NULL");
    refused(weir_arena_create(w.pool, w.stream, NULL, NULL), WEIR_ERR_INVALID, "arena is NULL");
    refused(weir_arena_create(w.pool, NULL, NULL, &arena), WEIR_ERR_INVALID, "stream is NULL");
    refused(weir_arena_create(w.pool, w.other_stream, NULL, &arena), WEIR_ERR_INVALID, "stream");
    config.flags = 128;
    refused(weir_arena_create(w.pool, w.stream, &config, &arena), WEIR_ERR_INVALID, "config.flags 0x80");
    config.flags = 0;
    config.chunk_bytes = UINT64_MAX;
    refused(weir_arena_create(w.pool, w.stream, &config, &arena), WEIR_ERR_INVALID, "config.chunk_bytes 1844");
    config.struct_size = 0;
    refused(weir_arena_create(w.pool, w.stream, &config, &arena), WEIR_ERR_INVALID, "config has no struct_size");
    assert_int_equal(weir_arena_create(w.pool, w.stream, NULL, &arena), WEIR_OK);
    assert_int_equal(weir_arena_create(w.pool, w.stream, NULL, &other), WEIR_OK);
    refused(weir_arena_alloc(NULL, 1, 0, &address), WEIR_ERR_INVALID, "arena is NULL");
    refused(weir_arena_alloc(arena, 1, 0, NULL), WEIR_ERR_INVALID, "address is NULL");
    refused(weir_arena_alloc(arena, 0, 0, &address), WEIR_ERR_INVALID, "size 0");
    refused(weir_arena_alloc(arena, UINT64_MAX, 0, &address), WEIR_ERR_INVALID, "size 1844");
    refused(weir_arena_alloc(arena, 1, 24, &address), WEIR_ERR_INVALID, "align 24 is not a power of two");
    refused(weir_arena_alloc(arena, 1, UINT64_C(1) << 63, &address), WEIR_ERR_INVALID, "is too large");
    refused(weir_arena_mark(NULL, &mark), WEIR_ERR_INVALID, "arena is NULL");
    refused(weir_arena_mark(arena, NULL), WEIR_ERR_INVALID, "mark is NULL");
    assert_int_equal(weir_arena_mark(arena, &mark), WEIR_OK);
    refused(weir_arena_rewind(NULL, mark), WEIR_ERR_INVALID, "arena is NULL");
    refused(weir_arena_rewind(other, mark), WEIR_ERR_INVALID, "mark is of another arena");
    refused(weir_arena_reset(NULL), WEIR_ERR_INVALID, "arena is NULL");
    assert_int_equal(weir_arena_reset(arena), WEIR_OK);
    refused(weir_arena_rewind(arena, mark), WEIR_ERR_INVALID, "mark is no longer valid");
    refused(weir_arena_use(NULL, w.stream), WEIR_ERR_INVALID, "arena is NULL");
    refused(weir_arena_use(arena, NULL), WEIR_ERR_INVALID, "stream is NULL");
    refused(weir_arena_use(arena, w.other_stream), WEIR_ERR_INVALID, "stream");
    refused(weir_arena_use_end(NULL, w.stream), WEIR_ERR_INVALID, "arena is NULL");
    refused(weir_arena_use_end(arena, NULL), WEIR_ERR_INVALID, "stream is NULL");
    refused(weir_arena_get_stats(NULL, &usage), WEIR_ERR_INVALID, "arena is NULL");
    refused(weir_arena_get_stats(arena, NULL), WEIR_ERR_INVALID, "usage is NULL");
    assert_int_equal(weir_stream_retire(w.pool, w.stream), WEIR_OK);
    refused(weir_arena_alloc(arena, 1, 0, &address), WEIR_ERR_INVALID, "stream has been retired");
    close_world(&w);
    refused(weir_arena_alloc(arena, 1, 0, &address), WEIR_ERR_INVALID, "pool has been destroyed");
    refused(weir_arena_mark(arena, &mark), WEIR_ERR_INVALID, "pool has been destroyed");
    refused(weir_arena_reset(arena), WEIR_ERR_INVALID, "pool has been destroyed");
    refused(weir_arena_use(arena, NULL), WEIR_ERR_INVALID, "pool has been destroyed");
    weir_arena_destroy(arena);
    weir_arena_destroy(other);
}
