/* The heap when memory runs out: every request for host memory fails in turn, every call of a pool's device, and the
 * system's mmap. The heap returns NULL to the engine, stays usable, and loses nothing. */
#include "rig/test.h"
#include "pool/fault/failing.h"

#include <weir/adaptor.h>
#include <weir/caching.h>
#include <weir/heap.h>
#include <weir/sim.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum kind { PROCESS, HOST_POOL, POOL, KINDS };

/* The sources of memory under the heap. They are created while no call fails. */
struct under {
    weir_host_pool *host_pool;
    weir_pool *pool;
    weir_stream *stream;
};

static weir_device *device; /* a device; its own requests do not count as the heap's */

static const size_t sizes[] = {100, 5000, 20000, 60000, 70000, MIB, 3 * MIB};
enum { SIZES = sizeof(sizes) / sizeof(*sizes), BLOCKS = 3 * SIZES };

static weir_heap_config open_under(struct under *u, enum kind kind)
{
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    *u = (struct under){0};
    if (kind == HOST_POOL) {
        weir_host_pool_config host = WEIR_HOST_POOL_CONFIG_INIT;
        host.flags = WEIR_HOST_PAGEABLE;
        assert_int_equal(weir_host_pool_create(&host, &u->host_pool), WEIR_OK);
        config.source.host_pool = u->host_pool;
    } else if (kind == POOL) {
        weir_pool_config pool = WEIR_POOL_CONFIG_INIT;
        pool.device = device;
        pool.strategy = weir_caching_strategy();
        assert_int_equal(weir_pool_create(&pool, &u->pool), WEIR_OK);
        assert_int_equal(weir_pool_stream(u->pool, NULL, &u->stream), WEIR_OK);
        config.source.pool = u->pool;
        config.source.stream = u->stream;
    }
    return config;
}

static void close_under(struct under *u)
{
    if (u->host_pool != NULL) {
        weir_host_stats stats = WEIR_HOST_STATS_INIT;
        assert_int_equal(weir_host_get_stats(u->host_pool, WEIR_HOST_ANY_NODE, &stats), WEIR_OK);
        assert_int_equal(stats.allocs, stats.frees);
        assert_int_equal(stats.live_bytes, 0);
    }
    if (u->pool != NULL) {
        weir_pool_stats stats = WEIR_POOL_STATS_INIT;
        assert_int_equal(weir_pool_get_stats(u->pool, &stats), WEIR_OK);
        assert_int_equal(stats.requested_bytes, 0);
    }
    assert_int_equal(weir_host_pool_destroy(u->host_pool), WEIR_OK);
    const weir_status ended = weir_pool_destroy(u->pool);
    assert_true(ended == WEIR_OK || (fail_every != 0 && ended == WEIR_ERR_DEVICE));
}

static bool failing(void)
{
    return host_struck || fail_every != 0;
}

static bool is_expected(weir_status status)
{
    return status == WEIR_OK || (failing() && (status == WEIR_ERR_NO_MEMORY || status == WEIR_ERR_DEVICE));
}

#define HEAP(call) (counting = true, heap_result(call))

static void *heap_result(void *block)
{
    counting = false;
    return block;
}

static void use(enum kind kind, void *block, size_t size, int value)
{
    if (kind != POOL) {
        memset(block, value, size);
    }
}

static void check(weir_heap *heap)
{
    const char *why = "";
    const weir_status checked = POOL(weir_heap_check(heap, &why));
    if (checked == WEIR_ERR_INTERNAL) {
        fail_msg("%s", why);
    }
    assert_true(is_expected(checked));
}

/* Uses every function of a heap, twice. */
static void live_and_die(enum kind kind)
{
    struct under u;
    weir_heap *heap = NULL;
    weir_heap_config config = open_under(&u, kind);
    const weir_status made = POOL(weir_heap_create(&config, &heap));
    assert_true(is_expected(made) && (made == WEIR_OK) == (heap != NULL));
    if (made != WEIR_OK) {
        close_under(&u);
        return;
    }
    void *blocks[BLOCKS] = {0};
    uint64_t failures = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        const size_t size = sizes[i % SIZES];
        blocks[i] = i % 3 == 0 ? HEAP(weir_heap_alloc_long_lived(heap, size, 64)) : HEAP(weir_heap_alloc(heap, size));
        assert_true(blocks[i] != NULL || failing());
        failures += blocks[i] == NULL;
        if (blocks[i] != NULL) {
            use(kind, blocks[i], size, (int)i);
        }
        if (i % 4 == 3 && blocks[i] != NULL && kind != POOL) {
            void *larger = HEAP(weir_heap_realloc(heap, blocks[i], 2 * size));
            assert_true(larger != NULL || failing());
            failures += larger == NULL;
            blocks[i] = larger != NULL ? larger : blocks[i]; /* after a failure the block is unchanged */
            assert_int_equal(*(unsigned char *)blocks[i], i);
        }
    }
    check(heap);
    char text[1000];
    assert_true((weir_heap_explain(heap, text, sizeof(text)) > 0) == (failures > 0));
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i] != NULL) {
            assert_true(kind == POOL || *(unsigned char *)blocks[i] == i);
            assert_int_equal(POOL(weir_heap_free(heap, blocks[i])), WEIR_OK); /* a free never fails */
        }
    }
    assert_true(is_expected(POOL(weir_heap_trim(heap, 0, NULL))));
    check(heap);
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    assert_int_equal(weir_heap_get_stats(heap, &stats), WEIR_OK);
    assert_int_equal(stats.live_bytes, 0);
    assert_int_equal(stats.long_lived_bytes, 0);
    assert_int_equal(stats.allocs, stats.frees);
    assert_int_equal(stats.failures, failures);
    /* Without further failures the heap works. */
    fail_at = 0;
    const uint64_t every = fail_every;
    fail_every = 0;
    void *block = HEAP(weir_heap_alloc(heap, 3 * MIB));
    assert_non_null(block);
    fail_every = every;
    const weir_status ended = POOL(weir_heap_destroy(heap)); /* while a block is live */
    assert_true(is_expected(ended));
    close_under(&u);
}

TEST(test_every_request_for_host_memory_fails)
{
    if (CANNOT_REPLACE_MALLOC) {
        print_message("malloc cannot be made to fail under this sanitizer\n");
        skip();
    }
    for (enum kind kind = PROCESS; kind < KINDS; kind++) {
        uint64_t nth = 1;
        do {
            host_struck = false;
            requests = 0;
            fail_at = nth++;
            live_and_die(kind);
        } while (host_struck);
        fail_at = 0;
        print_message("%" PRIu64 " requests\n", nth - 2);
        assert_true(nth > 10);
    }
}

TEST(test_device_calls_fail)
{
    host_struck = false;
    for (fail_every = 40; fail_every > 1; fail_every--) {
        device_calls = 0;
        live_and_die(POOL);
    }
    fail_every = 0;
}

/* The adaptor makes exactly the n-th call of each kind fail; all other calls succeed. */
TEST(test_one_device_call_fails)
{
    weir_device *faulty = NULL;
    weir_device *plain = device;
    host_struck = true; /* every failure is expected */
    assert_int_equal(weir_fault_create(inner, &faulty), WEIR_OK);
    device = faulty;
    static const weir_device_call calls[] = {WEIR_CALL_REGION_ALLOC, WEIR_CALL_ANY};
    for (size_t i = 0; i < 2; i++) {
        bool struck = true;
        for (uint64_t n = 1; struck; n++) {
            assert_int_equal(weir_fault_arm(faulty, calls[i], n, WEIR_ERR_NO_MEMORY), WEIR_OK);
            live_and_die(POOL);
            assert_int_equal(weir_fault_state(faulty, NULL, &struck), WEIR_OK);
        }
    }
    device = plain;
    host_struck = false;
    assert_int_equal(weir_device_destroy(faulty), WEIR_OK);
}

/* --- the system maps no more --- */

static int in_a_child(int (*run)(void))
{
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        _exit(run());
    }
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                      \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

static int little_room(void)
{
    char text[1000];
    weir_heap *heap = NULL;
    CHECK(weir_heap_create(NULL, &heap) == WEIR_OK);
    const struct rlimit none = {.rlim_cur = MIB, .rlim_max = RLIM_INFINITY};
    const struct rlimit all = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_AS, &none) == 0); /* below the present size of the program */
    CHECK(weir_heap_alloc(heap, 100 * MIB) == NULL);
    CHECK(weir_heap_check(heap, NULL) == WEIR_OK);
    CHECK(setrlimit(RLIMIT_AS, &all) == 0);
    void *small = weir_heap_alloc(heap, 100);
    CHECK(small != NULL);
    CHECK(setrlimit(RLIMIT_AS, &none) == 0);
    /* the request exceeds the addresses that the heap has reserved, and RLIMIT_AS allows no more */
    CHECK(weir_heap_alloc(heap, UINT64_C(9) << 30) == NULL);
    CHECK(weir_heap_explain(heap, text, sizeof(text)) > 0 && strstr(text, "reserving addresses") != NULL);
    CHECK(weir_heap_check(heap, NULL) == WEIR_OK);
    CHECK(setrlimit(RLIMIT_AS, &all) == 0);
    void *block = weir_heap_alloc(heap, MIB);
    CHECK(block != NULL);
    memset(block, 1, MIB);
    CHECK(weir_heap_free(heap, block) == WEIR_OK);
    CHECK(weir_heap_free(heap, small) == WEIR_OK);
    /* If the heap cannot reserve its usual address range, it reserves a smaller one. */
    weir_heap *second = NULL;
    CHECK(weir_heap_create(NULL, &second) == WEIR_OK);
    CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){.rlim_cur = UINT64_C(20) << 30, .rlim_max = RLIM_INFINITY}) == 0);
    block = weir_heap_alloc(second, 100 * MIB);
    CHECK(block != NULL);
    memset(block, 1, 100 * MIB);
    CHECK(weir_heap_alloc(second, UINT64_C(21) << 30) == NULL);
    CHECK(weir_heap_free(second, block) == WEIR_OK);
    CHECK(weir_heap_destroy(second) == WEIR_OK);
    CHECK(weir_heap_destroy(heap) == WEIR_OK);
    return 0;
}

TEST(test_no_addresses)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("a sanitizer needs more addresses than there are\n");
    skip();
#endif
    if (getenv("WEIR_EMULATED") != NULL) {
        print_message("the limits are not the emulator's\n");
        skip();
    }
    assert_int_equal(in_a_child(little_room), 0);
}

int main(void)
{
    weir_sim *sim = NULL;
    weir_sim_config config = WEIR_SIM_CONFIG_INIT;
    config.capacity_bytes = 64 * MIB;
    if (weir_sim_create(&config, &sim) != WEIR_OK) {
        return 1;
    }
    inner = weir_sim_device(sim);
    if (weir_device_create(&pass_ops, NULL, &device) != WEIR_OK) {
        return 1;
    }
    const int failed = run_all_tests("tests");
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
    return failed;
}
