/* sleep_fault_test.c: ACL fails while a pool sleeps and wakes (weir/sleep.h), with a reserved block
 * (weir/reserve.h): from each call on for a time, each function for good, and in pairs, a failure and another one in
 * what undoes the first. Nothing is lost: whatever is awake has its contents, and what sleeps wakes once the device
 * works.
 *
 * The program runs itself, as fault_test.c does. The scenario repeats a call that failed.
 */
#include "acl_test.h"

#include "fault_run.h"

#include <weir/budget.h>
#include <weir/reserve.h>
#include <weir/sleep.h>

#define WEIGHTS (5 * MIB)
#define SMALL ((size_t)3000)
#define CACHE (3 * MIB)
#define UNIT (4 * MIB)
#define STRIDE 101 /* between the bytes that are looked at */

/* --- the scenario --- */

static unsigned char host[WEIGHTS];

struct life {
    weir_pool *pool;
    weir_stream *stream;
    weir_tag cache;
    weir_block *weights;
    weir_block *small;
    weir_block *zeroed; /* of the tag: comes back as zeroes */
    weir_block *pages;  /* reserved; its second unit is committed */
};

static unsigned char byte_at(size_t at, unsigned seed)
{
    return (unsigned char)(at + at / 509 + seed);
}

static void *place(const weir_block *block, size_t offset)
{
    return (void *)(uintptr_t)(weir_block_address(block) + offset);
}

static void write_pattern(const weir_block *block, size_t offset, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i += STRIDE) {
        host[i] = byte_at(i, seed);
    }
    TRY_ACL(aclrtMemcpy(place(block, offset), size, host, size, ACL_MEMCPY_HOST_TO_DEVICE));
}

/* Reads contents that must be there. A copy that fails tells nothing. */
static void check_pattern(const weir_block *block, size_t offset, size_t size, unsigned seed)
{
    if (weir_block_is_asleep(block)) {
        return;
    }
    for (int i = 0; i < tries; i++) {
        if (aclrtMemcpy(host, size, place(block, offset), size, ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS) {
            for (size_t at = 0; at < size; at += STRIDE) {
                if (host[at] != byte_at(at, seed)) {
                    wrong("contents are lost", (int)at);
                }
            }
            return;
        }
    }
    given_up = true;
}

static void check_all(const struct life *life)
{
    const char *why = "";
    if (weir_pool_check(life->pool, &why) == WEIR_ERR_INTERNAL) {
        wrong(why, WEIR_ERR_INTERNAL);
    }
    check_pattern(life->weights, 0, WEIGHTS, 1);
    check_pattern(life->small, 0, SMALL, 2);
    check_pattern(life->pages, UNIT, UNIT, 3);
}

static bool begin(struct life *life, weir_device *device, aclrtStream native)
{
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = device;
    config.strategy = weir_caching_strategy();
    TRY(weir_pool_create(&config, &life->pool));
    if (life->pool == NULL) {
        return false;
    }
    TRY(weir_acl_stream(life->pool, native, &life->stream));
    TRY(weir_pool_tag(life->pool, "kv_cache", &life->cache));
    if (!given_up) {
        TRY(weir_pool_alloc(life->pool, life->stream, WEIGHTS, 0, &life->weights));
        TRY(weir_pool_alloc(life->pool, life->stream, SMALL, 0, &life->small));
        TRY(weir_pool_alloc_tagged(life->pool, life->stream, CACHE, 0, life->cache, &life->zeroed));
        TRY(weir_pool_reserve(life->pool, life->stream, 64 * UNIT, UNIT, 0, &life->pages));
    }
    if (!given_up) {
        TRY(weir_pool_commit(life->pool, life->pages, UNIT, 2 * UNIT, life->stream));
        TRY(weir_pool_decommit(life->pool, life->pages, 2 * UNIT, UNIT, life->stream));
        write_pattern(life->weights, 0, WEIGHTS, 1);
        write_pattern(life->small, 0, SMALL, 2);
        write_pattern(life->pages, UNIT, UNIT, 3);
    }
    return !given_up;
}

static void sleep_and_wake(const struct life *life)
{
    const weir_sleep_rule rule = {life->cache, WEIR_SLEEP_ZERO};
    const weir_tag untagged = 0;
    weir_sleep_config config = WEIR_SLEEP_CONFIG_INIT;
    config.rules = &rule;
    config.rule_count = 1;
    for (int turn = 0; turn < 3; turn++) {
        weir_status status = WEIR_ERR_DEVICE;
        for (int i = 0; i < tries && status != WEIR_OK; i++) {
            status = turn == 0   ? weir_pool_sleep(life->pool, &config, NULL)
                     : turn == 1 ? weir_pool_wake(life->pool, &untagged, 1, NULL)
                                 : weir_pool_wake(life->pool, NULL, 0, NULL);
            if (status != WEIR_OK && !may_fail_with(status)) {
                wrong("sleep or wake", status);
            }
            check_all(life);
        }
        given_up |= status != WEIR_OK;
    }
}

static bool fails_for_a_time(void)
{
    const char *faults = getenv("WEIR_ASCENDCL_FAULTS");
    return faults == NULL || strchr(faults, '+') == NULL;
}

/* The device works again: everything wakes, with its contents. */
static void wake_all(const struct life *life)
{
    weir_sleep_report woken = WEIR_SLEEP_REPORT_INIT;
    if (weir_pool_wake(life->pool, NULL, 0, &woken) != WEIR_OK || woken.asleep_blocks != 0) {
        wrong("a wake on a device that works", (int)woken.asleep_blocks);
    }
    check_all(life);
}

static void end(struct life *life)
{
    weir_block *blocks[] = {life->weights, life->small, life->zeroed, life->pages};
    for (int i = 0; i < 4; i++) {
        if (blocks[i] != NULL) {
            TRY(weir_pool_free(life->pool, blocks[i], life->stream));
        }
    }
    const weir_status status = weir_pool_destroy(life->pool);
    if (status != WEIR_OK && !may_fail_with(status)) {
        wrong("weir_pool_destroy", status);
    }
}

static int scenario(void)
{
    weir_device *device = NULL;
    aclrtStream native = NULL;
    struct life life = {0};
    TRY_ACL(aclrtSetDevice(0));
    TRY_ACL(aclrtCreateStream(&native));
    TRY(weir_acl_device_create(NULL, &device));
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    const bool maps = device != NULL && weir_device_get_info(device, &info) == WEIR_OK &&
                      (info.abilities & WEIR_DEVICE_VIRTUAL_MEMORY) != 0; /* it was tried when it was created */
    if (maps && begin(&life, device, native)) {
        sleep_and_wake(&life);
    }
    outage_ends();
    if (life.pages != NULL && fails_for_a_time()) {
        wake_all(&life);
    }
    if (life.pool != NULL) {
        end(&life);
    }
    TRY(weir_device_destroy(device));
    TRY_ACL(aclrtDestroyStream(native));
    size_t left = 0;
    size_t total = 0;
    TRY_ACL(aclrtResetDevice(0)); /* the driver keeps freed memory until the device's reset */
    TRY_ACL(aclrtSetDevice(0));
    TRY_ACL(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
    if (!given_up && left != total) {
        wrong("memory that is not back", (int)(total - left));
    }
    TRY_ACL(aclrtResetDevice(0));
    return given_up ? REFUSED : DONE;
}

/* --- the runs --- */

TEST(test_outages)
{
    fail_from_each_call();
}

/* Two calls fail, up to ten calls apart. */
TEST(test_pairs)
{
    const unsigned calls = calls_without_faults();
    int failures = 0;
    unsigned runs = 0;
    for (unsigned apart = 2; apart <= 10; apart++) {
        for (unsigned first = 1 + apart % step; first + apart <= calls; first += step == 1 ? 1 : 8 * step, runs++) {
            char faults[80];
            char text[16384];
            (void)snprintf(faults, sizeof(faults), "any:%u-%u,any:%u-%u", first, first, first + apart, first + apart);
            const int code = run(faults);
            read_report(text, sizeof(text));
            if (code != DONE) {
                print_error("%s ended with %d\n%s\n", faults, code, text);
                failures++;
            }
        }
    }
    print_message("%u pairs in %u calls\n", runs, calls);
    assert_int_equal(failures, 0);
}

static const char *const functions[] = {
    "aclrtMallocPhysical", "aclrtFreePhysical",      "aclrtMapMem",           "aclrtUnmapMem",
    "aclrtCreateStream",   "aclrtSynchronizeStream", "aclrtDestroyStream",    "aclrtMemcpyAsync",
    "aclrtMemsetAsync",    "aclrtRecordEvent",       "aclrtSynchronizeEvent", "aclrtSetCurrentContext",
};

TEST(test_outages_of_one_function)
{
    fail_alone(functions, sizeof(functions) / sizeof(functions[0]));
}

TEST(test_each_function_fails_for_good)
{
    fail_for_good(functions, sizeof(functions) / sizeof(functions[0]));
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        return scenario();
    }
    fault_run_begin(argv[0]);
    return run_all_tests("tests");
}
