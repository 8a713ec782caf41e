/* tests/pool/unit/shared_device_test.c: device pools of several processes under one limit (weir_limit_create_shared).
 * Each process has a device of its own, which is larger than the limit.
 */
enum { A, streams };

#include "rig/emulated.h"
#include "rig/pool.h"
#include "rig/process.h"
#include "rig/seeds.h"

#include <weir/adaptor.h>
#include <weir/shared_limit.h>
#include <weir/sleep.h>

#define PAGE (64 * KIB)

enum { MOST_BLOCKS = 64, LIMIT_PAGES = 16 };

/* A process with a pool under the limit of the test's name. */
struct engine {
    struct world w;
    weir_shared_limit *limit;
    weir_device *limited;
    weir_block *blocks[MOST_BLOCKS];
    size_t count;
};

static char name[64];

static struct engine open_engine(bool maps)
{
    struct engine e = {.limit = NULL};
    weir_shared_limit_config config = WEIR_SHARED_LIMIT_CONFIG_INIT;
    weir_sim_config device = device_of_units(PAGE, 64 * PAGE);
    weir_pool_config pool = WEIR_POOL_CONFIG_INIT;
    device.no_virtual_memory = !maps;
    config.name = name;
    config.limit_bytes = LIMIT_PAGES * PAGE;
    ok(weir_shared_limit_create(&config, &e.limit));
    weir_sim *sim = new_sim(device);
    ok(weir_limit_create_shared(weir_sim_device(sim), e.limit, &e.limited));
    pool.device = e.limited;
    e.w = world_over(sim, pool);
    return e;
}

static void close_engine(struct engine *e)
{
    ok(weir_pool_destroy(e->w.pool));
    ok(weir_device_destroy(e->limited));
    ok(weir_sim_destroy(e->w.sim));
    ok(weir_shared_limit_destroy(e->limit));
}

static weir_shared_limit_stats limit_of(const struct engine *e)
{
    weir_shared_limit_stats stats = WEIR_SHARED_LIMIT_STATS_INIT;
    ok(weir_shared_limit_get_stats(e->limit, &stats));
    assert_true(stats.held_bytes <= stats.limit_bytes);
    return stats;
}

static uint64_t held_through(const struct engine *e)
{
    uint64_t bytes = 0;
    ok(weir_limit_held(e->limited, &bytes));
    assert_int_equal(bytes, held(&e->w));
    return bytes;
}

static weir_status take(struct engine *e, uint64_t bytes)
{
    weir_block *block = NULL;
    const weir_status status = weir_pool_alloc(e->w.pool, e->w.stream[A], bytes, 0, &block);
    if (status == WEIR_OK) {
        assert_true(e->count < MOST_BLOCKS);
        e->blocks[e->count++] = block;
    }
    return status;
}

static void give_last(struct engine *e)
{
    ok(weir_pool_free(e->w.pool, e->blocks[--e->count], e->w.stream[A]));
}

/* Random requests, frees, sleeps and wakes, until the process is killed. */
static void live(struct engine *e)
{
    for (uint32_t random = (uint32_t)getpid();;) {
        random = random * 1664525 + 1013904223;
        const unsigned choice = random >> 28;
        if (choice < 8) {
            (void)take(e, PAGE / 2 + (random >> 8) % (4 * PAGE));
        } else if (choice < 13 && e->count > 0) {
            give_last(e);
        } else if (choice == 13) {
            (void)!weir_pool_sleep(e->w.pool, NULL, NULL);
        } else {
            (void)!weir_pool_wake(e->w.pool, NULL, 0, NULL);
        }
        if (e->count == MOST_BLOCKS) {
            give_last(e);
        }
    }
}

/* --- other processes --- */

enum { TAKE = 1, SLEEP, WAKE, LIVE };

static struct answer serve(struct command command)
{
    static struct engine e;
    weir_sleep_report report = WEIR_SLEEP_REPORT_INIT;
    struct answer answer = {.status = WEIR_OK};
    (void)alarm(120);
    if (e.limit == NULL) {
        e = open_engine(true);
    }
    switch (command.what) {
    case TAKE:
        answer.status = take(&e, command.bytes);
        break;
    case SLEEP:
        answer.status = weir_pool_sleep(e.w.pool, NULL, &report);
        break;
    case WAKE:
        answer.status = weir_pool_wake(e.w.pool, NULL, 0, &report);
        answer.value = report.missing_bytes;
        answer.other = report.others_bytes;
        break;
    default:
        live(&e);
    }
    return answer;
}

static void name_limit(const char *what)
{
    (void)snprintf(name, sizeof(name), "test-device-%ld-%s", (long)getpid(), what);
}

/* --- tests --- */

TEST(all_that_a_pool_takes_counts)
{
    for (int maps = 0; maps < 2; maps++) {
        name_limit("counts");
        struct engine e = open_engine(maps != 0);
        ok(take(&e, 4 * PAGE));
        assert_int_equal(limit_of(&e).own_bytes, held_through(&e));
        assert_true(limit_of(&e).held_bytes >= 4 * PAGE);
        fails(take(&e, 14 * PAGE), WEIR_ERR_NO_MEMORY);
        assert_int_equal(limit_of(&e).held_bytes, held_through(&e));
        give_last(&e);
        ok(weir_pool_trim(e.w.pool, 0, 0, NULL));
        assert_int_equal(limit_of(&e).held_bytes, 0);
        assert_int_equal(weir_shared_limit_destroy(e.limit), WEIR_ERR_BUSY);
        close_engine(&e);
    }
}

/* What the device refuses after the limit has allowed it is given back to the limit. */
TEST(a_refusal_of_the_device_counts_nothing)
{
    name_limit("refusal");
    struct engine e = open_engine(true);
    uint64_t address = 0;
    weir_vm_handle handle = 0;
    weir_sim_set_capacity(e.w.sim, PAGE);
    fails(weir_device_vm_create(e.limited, 2 * PAGE, &handle), WEIR_ERR_NO_MEMORY);
    fails(weir_device_region_alloc(e.limited, 2 * PAGE, &address), WEIR_ERR_NO_MEMORY);
    assert_int_equal(limit_of(&e).held_bytes, 0);
    fails(weir_device_region_alloc(e.limited, (LIMIT_PAGES + 1) * PAGE, &address), WEIR_ERR_LIMIT);
    close_engine(&e);
}

TEST(a_device_tells_what_others_leave)
{
    name_limit("room");
    struct engine e = open_engine(true);
    struct process other = process_start(serve);
    uint64_t left = 0;
    uint64_t total = 0;
    assert_int_equal(process_ask(&other, TAKE, 10 * PAGE).status, WEIR_OK);
    ok(weir_device_memory_info(e.limited, &left, &total));
    assert_int_equal(left, 6 * PAGE);
    assert_int_equal(total, LIMIT_PAGES * PAGE);
    uint64_t fit = 0;
    ok(weir_pool_would_fit(e.w.pool, e.w.stream[A], 2 * PAGE, 100, &fit));
    assert_in_range(fit, 1, 3);
    for (uint64_t i = 0; i < fit; i++) {
        ok(take(&e, 2 * PAGE));
    }
    ok(weir_pool_would_fit(e.w.pool, e.w.stream[A], 7 * PAGE, 1, &fit));
    assert_int_equal(fit, 0);
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    fails(take(&e, 8 * PAGE), WEIR_ERR_NO_MEMORY);
    ok(weir_pool_get_oom(e.w.pool, &record));
    assert_int_equal(record.cause, WEIR_OOM_CAUSE_OUTSIDE);
    assert_non_null(strstr(record.text, "640.00 KiB of the device's 1.00 MiB belong to other pools"));
    process_kill(&other);
    ok(weir_device_memory_info(e.limited, &left, &total));
    assert_int_equal(left, LIMIT_PAGES * PAGE - held_through(&e));
    ok(take(&e, 8 * PAGE));
    close_engine(&e);
}

/* Where the device has less than the limit leaves, the device's own figures are told. */
TEST(a_full_device_tells_its_own_figures)
{
    name_limit("full");
    struct engine e = open_engine(true);
    uint64_t left = 0;
    uint64_t total = 0;
    weir_sim_set_capacity(e.w.sim, 8 * PAGE);
    ok(weir_device_memory_info(e.limited, &left, &total));
    assert_int_equal(left, 8 * PAGE);
    assert_int_equal(total, 8 * PAGE);
    close_engine(&e);
}

TEST(one_engine_wakes_in_the_room_of_another)
{
    name_limit("wake");
    struct engine e = open_engine(true);
    struct process other = process_start(serve);
    weir_sleep_report report = WEIR_SLEEP_REPORT_INIT;
    ok(take(&e, 10 * PAGE));
    ok(weir_pool_sleep(e.w.pool, NULL, NULL));
    assert_int_equal(limit_of(&e).held_bytes, 0);
    assert_int_equal(process_ask(&other, TAKE, 10 * PAGE).status, WEIR_OK);

    /* The wake lacks 4 of its 10 pages, and knows that others hold 10. */
    fails(weir_pool_wake(e.w.pool, NULL, 0, &report), WEIR_ERR_LIMIT);
    assert_int_equal(report.missing_bytes, 4 * PAGE);
    assert_int_equal(report.others_bytes, 10 * PAGE);
    assert_int_equal(limit_of(&e).held_bytes, 10 * PAGE);
    assert_int_equal(process_ask(&other, SLEEP, 0).status, WEIR_OK);
    ok(weir_pool_wake(e.w.pool, NULL, 0, &report));
    assert_int_equal(limit_of(&e).own_bytes, 10 * PAGE);

    const struct answer lacking = process_ask(&other, WAKE, 0);
    assert_int_equal(lacking.status, WEIR_ERR_LIMIT);
    assert_int_equal(lacking.value, 4 * PAGE);
    assert_int_equal(lacking.other, 10 * PAGE);
    ok(weir_pool_sleep(e.w.pool, NULL, NULL));
    assert_int_equal(process_ask(&other, WAKE, 0).status, WEIR_OK);
    assert_int_equal(limit_of(&e).held_bytes, 10 * PAGE);
    process_kill(&other);
    ok(weir_pool_wake(e.w.pool, NULL, 0, NULL));
    close_engine(&e);
}

/* One of three processes is killed at any instruction, again and again. */
TEST(the_limit_is_whole_after_kills)
{
    enum { AT_ONCE = 3 };
    if (is_emulated()) {
        skip(); /* QEMU has no robust locks */
    }
    const uint64_t kills = seeds_count(24, 100);
    name_limit("kills");
    struct engine e = open_engine(true);
    struct process others[AT_ONCE];
    uint32_t random = 1;
    for (size_t i = 0; i < AT_ONCE; i++) {
        others[i] = process_start(serve);
        process_order(&others[i], LIVE, 0);
    }
    for (uint64_t i = 0; i < kills; i++) {
        random = random * 1664525 + 1013904223;
        process_wait_us((random >> 16) % 8000);
        struct process *victim = &others[random >> 30 != 3 ? random >> 30 : i % AT_ONCE];
        process_kill(victim);
        assert_true(limit_of(&e).processes <= AT_ONCE);
        (void)take(&e, PAGE);
        *victim = process_start(serve);
        process_order(victim, LIVE, 0);
        while (e.count > 0) {
            give_last(&e);
        }
    }
    for (size_t i = 0; i < AT_ONCE; i++) {
        process_kill(&others[i]);
    }
    assert_int_equal(limit_of(&e).held_bytes, held_through(&e));
    assert_true(limit_of(&e).peak_held_bytes <= LIMIT_PAGES * PAGE);
    assert_true(limit_of(&e).ended_processes > 0);
    ok(take(&e, LIMIT_PAGES * PAGE));
    close_engine(&e);
}
