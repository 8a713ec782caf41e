/* tests/pool/unit/record_start_test.c: a recording that begins while a thread frees blocks has the free of each block
 * before the next block in the same memory. */
#include "rig/test.h"
#include "fake_device.h"

#include <weir/caching.h>
#include <weir/pool.h>
#include <weir/trace.h>

#include <stdatomic.h>

static weir_pool *pool;
static atomic_bool running;
static atomic_bool done;

static void *churn(void *unused)
{
    weir_stream *stream = NULL;
    weir_block *block = NULL;
    (void)unused;
    if (weir_pool_stream(pool, NULL, &stream) != WEIR_OK) {
        return NULL;
    }
    while (!atomic_load_explicit(&done, memory_order_relaxed)) {
        if (weir_pool_alloc(pool, stream, 512, 0, &block) != WEIR_OK ||
            weir_pool_free(pool, block, stream) != WEIR_OK) {
            return NULL;
        }
        atomic_store_explicit(&running, true, memory_order_relaxed);
    }
    return &done;
}

/* At most one block is live at a time, so lines that begin a block (p or a) and lines that end it (f) alternate. */
struct balance {
    int live;
    int worst;
};

static bool weigh(void *ctx, const char *text, size_t length)
{
    struct balance *balance = ctx;
    for (const char *line = text; line < text + length; line = strchr(line, '\n') + 1) {
        balance->live += (*line == 'p' || *line == 'a') - (*line == 'f');
        balance->worst = balance->live > balance->worst ? balance->live : balance->worst;
    }
    return true;
}

TEST(test_no_free_is_missed_at_the_start)
{
    struct fake_device fake;
    fake_init(&fake);
    weir_device *device = NULL;
    assert_int_equal(weir_device_create(&fake.ops, &fake, &device), WEIR_OK);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = device;
    config.strategy = weir_caching_strategy();
    assert_int_equal(weir_pool_create(&config, &pool), WEIR_OK);
    for (int round = 0; round < 300; round++) {
        struct balance balance = {0, 0};
        weir_recorder_config asked = WEIR_RECORDER_CONFIG_INIT;
        asked.sink = weigh;
        asked.sink_ctx = &balance;
        asked.ring_events = 4096; /* later events may be dropped: the test checks the beginning */
        weir_recorder *recorder = NULL;
        pthread_t thread;
        void *all_well = NULL;
        atomic_store(&running, false);
        atomic_store(&done, false);
        assert_int_equal(pthread_create(&thread, NULL, churn, NULL), 0);
        while (!atomic_load(&running)) {
        }
        const weir_status started = weir_recorder_start(pool, &asked, &recorder);
        atomic_store(&done, true);
        assert_int_equal(pthread_join(thread, &all_well), 0);
        assert_non_null(all_well);
        assert_int_equal(started, WEIR_OK);
        assert_int_equal(weir_recorder_stop(recorder, NULL), WEIR_OK);
        assert_in_range(balance.worst, 0, 1);
    }
    assert_int_equal(weir_pool_destroy(pool), WEIR_OK);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}
