/* torch_fault_test.c: libweir_torch while ACL calls and requests for host memory fail: each once in turn, each function
 * for good.
 *
 * The program is built of the library's sources, so that its requests for host memory can fail. A scenario makes the
 * calls of a framework; at its end all memory must be back.
 */
#include "acl_test.h"

#include "fault_run.h"
#include "pool/unit/wrapped_malloc.h"

#include <weir/torch.h>

#define TOUCHED 4096u

static void *alloc(size_t size, aclrtStream stream)
{
    void *block = NULL;
    for (int i = 0; i < tries && block == NULL; i++) {
        block = weir_torch_alloc(size, 0, stream);
    }
    given_up |= block == NULL;
    return block;
}

/* The host waits for the streams. So the host itself misses no order, and every finding of the auditor is weir's
 * fault. */
static void use_on(void *block, aclrtStream owner, aclrtStream user)
{
    weir_torch_record_stream(block, user);
    TRY_ACL(aclrtSynchronizeStream(owner));
    TRY_ACL(aclrtMemsetAsync(block, TOUCHED, 2, TOUCHED, user));
}

static void work(aclrtStream stream[2])
{
    for (int i = 0; i < 12; i++) {
        const size_t size = (size_t)(1 + i % 4) * 1900 * 1024;
        void *block = alloc(size, stream[i % 2]);
        if (block == NULL) {
            continue;
        }
        TRY_ACL(aclrtMemsetAsync(block, TOUCHED, 1, TOUCHED, stream[i % 2]));
        if (i % 3 == 0) {
            use_on(block, stream[i % 2], stream[(i + 1) % 2]);
        }
        weir_torch_free(block, size, 0, stream[i % 3 == 1 ? (i + 1) % 2 : i % 2]);
    }
}

static bool is_stream(void *ctx, void *stream)
{
    return stream == ctx;
}

static void capture(aclrtStream stream[2])
{
    const weir_torch_pool_id id = {1, 0};
    TRY(weir_torch_pool_begin(0, id, is_stream, stream[1], NULL));
    work(stream);
    weir_torch_pool_end(0, id);
    weir_torch_pool_release(0, id);
    void *block = alloc(MIB, NULL);
    weir_torch_free(block, MIB, 0, NULL);
}

static void life(void)
{
    aclrtStream stream[2] = {NULL, NULL};
    weir_torch_device_stats counters = WEIR_TORCH_DEVICE_STATS_INIT;
    for (int i = 0; i < 2; i++) {
        TRY_ACL(aclrtCreateStream(&stream[i]));
    }
    if (stream[0] != NULL && stream[1] != NULL) {
        work(stream);
        capture(stream);
        weir_torch_reset(false);
        work(stream);
    }
    void *held = alloc(100000, stream[0]);
    for (int i = 0; i < 2; i++) {
        TRY_ACL(aclrtDestroyStream(stream[i]));
    }
    weir_torch_free(held, 100000, 0, stream[0]);
    TRY(weir_torch_get_device_stats(0, &counters));
    if (counters.allocation.current != 0) {
        wrong("live blocks", (int)counters.allocation.current);
    }
}

static int scenario(void)
{
    size_t left = 0;
    size_t total = 0;
    TRY_ACL(aclrtSetDevice(0));
    TRY(weir_torch_configure("report:0"));
    life();
    TRY(weir_torch_shutdown());
    outage_ends();
    TRY(weir_torch_configure("virtual_memory:0,report:0")); /* the pool before maps its memory */
    weir_torch_free(alloc(MIB, NULL), MIB, 0, NULL); /* the next pool's device ends the last one, if ACL has kept it */
    TRY(weir_torch_shutdown());
    TRY_ACL(aclrtResetDevice(0)); /* the driver keeps freed memory until the device's reset */
    TRY_ACL(aclrtSetDevice(0));
    TRY_ACL(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
    if (!given_up && left != total) {
        wrong("memory that is not back", (int)(total - left));
    }
    TRY_ACL(aclrtResetDevice(0));
    return given_up ? REFUSED : DONE;
}

/* Runs in this process; requests of the runtime itself do not fail. */
TEST(test_each_request_for_host_memory_fails_once)
{
    unsigned n = 0;
    do {
        asked = 0;
        fail_at = ++n;
        const int code = scenario();
        fail_at = 0;
        if (code != DONE) {
            print_error("request %u: %d\n", n, code);
        }
        assert_int_equal(code, DONE);
    } while (asked >= n);
    assert_true(n > 10);
    print_message("%u requests, each failed once\n", n - 1);
}

TEST(test_outages)
{
    fail_from_each_call();
}

static const char *const functions[] = {
    "aclrtSetDevice",
    "aclrtResetDevice",
    "aclrtGetDevice",
    "aclrtGetCurrentContext",
    "aclrtSetCurrentContext",
    "aclrtCtxGetCurrentDefaultStream",
    "aclrtGetMemInfo",
    "aclrtMallocAlign32",
    "aclrtFree",
    "aclrtStreamGetId",
    "aclrtCreateEventExWithFlag",
    "aclrtDestroyEvent",
    "aclrtRecordEvent",
    "aclrtQueryEventStatus",
    "aclrtSynchronizeEvent",
    "aclrtStreamWaitEvent",
    "aclrtSynchronizeStream",
    "aclrtCreateStream",
    "aclrtDestroyStream",
    "aclrtRegStreamStateCallback",
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
