/* engines_test.c: two processes with pools over one device (WEIR_ASCENDCL_SHARED): the wake of one sees the
 * room that the sleep of another made, contents return, and a killed one leaves the device whole. The test itself makes
 * no call of ACL.
 */
#include "acl_test.h"

#include "rig/process.h"

#include <weir/budget.h>
#include <weir/sleep.h>

#include <stdio.h>
#include <string.h>

#define SIZE (20 * MIB)

__attribute__((constructor)) static void share_the_device(void)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "engines-%ld", (long)getpid());
    (void)setenv("WEIR_ASCENDCL_SHARED", name, 1);
    (void)setenv("WEIR_ASCENDCL_CAPACITY", "32MiB", 1);
    (void)setenv("WEIR_ASCENDCL_REPORT", "none", 0);
}

enum { START = 1, LEFT, SLEEP, WAKE, CHECK, REFUSED, LIVE };

/* An engine with one block, filled with the value of its start. */
static struct answer serve(struct command command)
{
    static struct world w;
    static weir_stream *stream;
    static weir_block *block;
    static unsigned char host[SIZE];
    static int value;
    weir_sleep_report report = WEIR_SLEEP_REPORT_INIT;
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    struct answer answer = {.status = WEIR_OK};
    (void)alarm(120);
    switch (command.what) {
    case START:
        w = make_world();
        ok(weir_acl_stream(w.pool, w.stream[0], &stream));
        value = (int)command.bytes;
        answer.status = weir_pool_alloc(w.pool, stream, SIZE, 0, &block);
        if (answer.status == WEIR_OK) {
            acl_ok(aclrtMemset((void *)(uintptr_t)weir_block_address(block), SIZE, value, SIZE));
        }
        break;
    case LEFT:
        answer.value = free_bytes();
        break;
    case SLEEP:
        answer.status = weir_pool_sleep(w.pool, NULL, NULL);
        break;
    case WAKE:
        answer.status = weir_pool_wake(w.pool, NULL, 0, &report);
        answer.value = report.missing_bytes;
        answer.other = report.others_bytes;
        break;
    case CHECK:
        acl_ok(aclrtMemcpy(host, SIZE, (void *)(uintptr_t)weir_block_address(block), SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
        answer.value = host[0] == value && memcmp(host, host + 1, SIZE - 1) == 0;
        break;
    case REFUSED:
        answer.status = weir_pool_alloc(w.pool, stream, command.bytes, 0, &block);
        ok(weir_pool_get_oom(w.pool, &record));
        answer.value = record.cause;
        break;
    default:
        for (;;) {
            (void)!weir_pool_sleep(w.pool, NULL, NULL);
            (void)!weir_pool_wake(w.pool, NULL, 0, NULL);
        }
    }
    return answer;
}

static struct process start_engine(int value)
{
    struct process engine = process_start(serve);
    assert_int_equal(process_ask(&engine, START, (uint64_t)value).status, WEIR_OK);
    return engine;
}

static void must_do(const struct process *engine, int what)
{
    assert_int_equal(process_ask(engine, what, 0).status, WEIR_OK);
}

static void must_have_contents(const struct process *engine)
{
    assert_int_equal(process_ask(engine, CHECK, 0).value, 1);
}

TEST(test_one_engine_wakes_in_the_room_of_another)
{
    struct process first = start_engine(11);
    must_do(&first, SLEEP);
    struct process second = start_engine(22);
    const uint64_t left = process_ask(&first, LEFT, 0).value;
    const struct answer lacking = process_ask(&first, WAKE, 0);
    assert_int_equal(lacking.status, WEIR_ERR_NO_MEMORY);
    assert_int_equal(lacking.value, SIZE - left);
    assert_true(lacking.other >= SIZE);
    for (int i = 0; i < 3; i++) {
        must_do(&second, SLEEP);
        must_do(&first, WAKE);
        must_have_contents(&first);
        assert_int_equal(process_ask(&second, WAKE, 0).status, WEIR_ERR_NO_MEMORY);
        must_do(&first, SLEEP);
        must_do(&second, WAKE);
        must_have_contents(&second);
    }
    process_kill(&first);
    process_kill(&second);
}

/* The record of a refused request says that others hold the device. */
TEST(test_a_refused_request_names_the_others)
{
    struct process first = start_engine(1);
    struct process second = process_start(serve);
    const struct answer refused = process_ask(&second, START, 2);
    assert_int_equal(refused.status, WEIR_ERR_NO_MEMORY);
    assert_int_equal(process_ask(&second, REFUSED, 25 * MIB).value, WEIR_OOM_CAUSE_OUTSIDE);
    process_kill(&first);
    assert_int_equal(process_ask(&second, REFUSED, 25 * MIB).status, WEIR_OK);
    process_kill(&second);
}

/* An engine is killed in the middle of a sleep or a wake, and the other one wakes in its room. */
TEST(test_the_device_is_whole_after_kills)
{
    struct process watcher = start_engine(1);
    must_do(&watcher, SLEEP);
    const uint64_t all = process_ask(&watcher, LEFT, 0).value;
    for (int i = 0; i < 6; i++) {
        struct process engine = start_engine(2 + i);
        process_order(&engine, LIVE, 0);
        process_wait_us(3000 + 4000 * i);
        process_kill(&engine);
        assert_int_equal(process_ask(&watcher, LEFT, 0).value, all);
        must_do(&watcher, WAKE);
        must_have_contents(&watcher);
        must_do(&watcher, SLEEP);
    }
    process_kill(&watcher);
}
