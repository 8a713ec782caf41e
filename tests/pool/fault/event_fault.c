/* tests/pool/fault/event_fault.c: the pool's own events, when the device fails to destroy one.
 *
 * The pool creates an event for each stream that it polls or waits for. The event is destroyed when the stream is
 * retired or the pool is destroyed. A call that fails once must not leak the event: every event that was created is
 * destroyed in the end, and retire and destroy succeed.
 */
#include "rig/test.h"

#include <weir/adaptor.h>
#include <weir/caching.h>
#include <weir/pool.h>
#include <weir/sim.h>

#define ok(call) assert_int_equal((call), WEIR_OK)

enum { streams = 3, size = 64 << 10 };

struct world {
    weir_sim *sim;
    weir_device *faulty;
    weir_device *counted;
    weir_pool *pool;
    weir_stream *stream[streams];
};

/* Each stream has an event: a block was freed on it, and the host waited for its work. */
static struct world open_world(void)
{
    struct world w = {0};
    ok(weir_sim_create(NULL, &w.sim));
    ok(weir_fault_create(weir_sim_device(w.sim), &w.faulty));
    ok(weir_count_create(w.faulty, &w.counted));
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = w.counted;
    config.strategy = weir_caching_strategy();
    ok(weir_pool_create(&config, &w.pool));
    for (int i = 0; i < streams; i++) {
        weir_sim_stream *native = NULL;
        weir_block *block = NULL;
        weir_tick mark = 0;
        bool reached = false;
        ok(weir_sim_stream_create(w.sim, &native));
        ok(weir_pool_stream(w.pool, native, &w.stream[i]));
        ok(weir_pool_alloc(w.pool, w.stream[i], size, 0, &block));
        ok(weir_pool_free(w.pool, block, w.stream[i]));
        ok(weir_stream_mark(w.pool, w.stream[i], &mark));
        ok(weir_stream_reached(w.pool, w.stream[i], mark, true, &reached));
        assert_true(reached);
    }
    return w;
}

static void close_world(struct world *w)
{
    uint64_t calls[WEIR_CALL_COUNT];
    uint64_t failures[WEIR_CALL_COUNT];
    bool struck = false;
    ok(weir_pool_destroy(w->pool));
    ok(weir_fault_state(w->faulty, NULL, &struck));
    assert_true(struck);
    ok(weir_count_get(w->counted, calls, failures));
    const uint64_t created = calls[WEIR_CALL_EVENT_CREATE] - failures[WEIR_CALL_EVENT_CREATE];
    const uint64_t destroyed = calls[WEIR_CALL_EVENT_DESTROY] - failures[WEIR_CALL_EVENT_DESTROY];
    assert_true(created >= streams);
    if (created != destroyed) {
        fail_msg("events are lost: %u created, %u destroyed", (unsigned)created, (unsigned)destroyed);
    }
    ok(weir_device_destroy(w->counted));
    ok(weir_device_destroy(w->faulty));
    ok(weir_sim_destroy(w->sim));
}

/* The n-th attempt to destroy an event fails: an event of a retired stream, or one that is left when the pool is
 * destroyed. */
TEST(test_an_event_that_is_not_destroyed_at_once)
{
    for (uint64_t n = 1; n <= streams; n++) {
        for (int retired = 0; retired <= streams; retired++) {
            struct world w = open_world();
            ok(weir_fault_arm(w.faulty, WEIR_CALL_EVENT_DESTROY, n, WEIR_ERR_DEVICE));
            for (int i = 0; i < retired; i++) {
                ok(weir_stream_retire(w.pool, w.stream[i]));
            }
            close_world(&w);
        }
    }
}
