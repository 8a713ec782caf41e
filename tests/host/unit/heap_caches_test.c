/* tests/host/unit/heap_caches_test.c: memory that the caches of living threads keep comes back: by a trim, by decay,
 * and before a request fails; from threads that are idle and from threads that work meanwhile. Linked with
 * --wrap=syscall. */
#include "rig/heap.h"
#include "heap_internal.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

/* --- a system without membarrier --- */

static atomic_bool has_no_barrier;

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
    long a[6];
    va_list list;
    va_start(list, number);
    for (size_t i = 0; i < 6; i++) {
        a[i] = va_arg(list, long);
    }
    va_end(list);
    if (number == SYS_membarrier && a[0] == MEMBARRIER_CMD_PRIVATE_EXPEDITED && atomic_load(&has_no_barrier)) {
        errno = ENOSYS;
        return -1;
    }
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void skip_without_barrier(void)
{
    const long known = __real_syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0, 0, 0, 0);
    if (known < 0 || (known & MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) {
        print_message("the system has no membarrier\n");
        skip();
    }
}

/* --- a crew of threads: each allocates, all free everything in random order, and then stay alive --- */

enum { CREW = 8, EACH = 1000 };

enum work { IDLE, PAIRS }; /* after the frees */

static struct crew {
    weir_heap *heap;
    enum work work;
    atomic_bool ends;
    atomic_int failures;
    pthread_barrier_t step;
    pthread_t threads[CREW];
} crew;

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1;
    return *seed >> 33;
}

static bool pair(size_t size)
{
    unsigned char *block = weir_heap_alloc(crew.heap, size);
    if (block != NULL) {
        block[0] = 1;
    }
    return block != NULL && weir_heap_free(crew.heap, block) == WEIR_OK;
}

static void fill(void **blocks, uint64_t *seed)
{
    for (size_t i = 0; i < EACH; i++) {
        const size_t size = i % 2 == 0 ? 48 : 200 + next(seed) % 6000;
        blocks[i] = weir_heap_alloc(crew.heap, size);
        crew.failures += blocks[i] == NULL;
    }
}

static void free_in_random_order(void **blocks, uint64_t *seed)
{
    for (size_t left = EACH; left > 0; left--) {
        const size_t i = next(seed) % left;
        crew.failures += weir_heap_free(crew.heap, blocks[i]) != WEIR_OK;
        blocks[i] = blocks[left - 1];
    }
}

static void *work(void *argument)
{
    static _Thread_local void *blocks[EACH];
    uint64_t seed = (uint64_t)(uintptr_t)argument;
    fill(blocks, &seed);
    (void)pthread_barrier_wait(&crew.step);
    free_in_random_order(blocks, &seed);
    (void)pthread_barrier_wait(&crew.step);
    while (crew.work == PAIRS && !atomic_load(&crew.ends)) {
        crew.failures += !pair(100) || !pair(500) || !pair(20000);
    }
    (void)pthread_barrier_wait(&crew.step);
    crew.failures += !pair(48) || !pair(500); /* the cache works as before */
    return NULL;
}

/* Starts the crew. When the call returns, all blocks are free again, and the threads work or are idle. */
static void begin(weir_heap *heap, enum work after)
{
    crew.heap = heap;
    crew.work = after;
    atomic_store(&crew.ends, false);
    assert_int_equal(pthread_barrier_init(&crew.step, NULL, CREW + 1), 0);
    for (size_t i = 0; i < CREW; i++) {
        assert_int_equal(pthread_create(&crew.threads[i], NULL, work, (void *)(i + 1)), 0);
    }
    (void)pthread_barrier_wait(&crew.step);
    (void)pthread_barrier_wait(&crew.step);
}

static void end(void)
{
    atomic_store(&crew.ends, true);
    (void)pthread_barrier_wait(&crew.step);
    for (size_t i = 0; i < CREW; i++) {
        assert_int_equal(pthread_join(crew.threads[i], NULL), 0);
    }
    assert_int_equal(pthread_barrier_destroy(&crew.step), 0);
    assert_int_equal(crew.failures, 0);
    end_heap(crew.heap);
}

/* What heap.h promises of threads that have freed everything. */
static void check_held(weir_heap *heap)
{
    check(heap);
    const weir_heap_stats stats = stats_of(heap);
    assert_in_range(stats.held_bytes, 0, stats.live_bytes + 4 * MIB);
}

/* --- the tests --- */

enum { LONG_MS = 4000000 }; /* so long that no slot ends by itself during a test */

static weir_heap *decaying(void)
{
    weir_heap *heap = NULL;
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.decay_ms = LONG_MS;
    assert_int_equal(weir_heap_create(&config, &heap), WEIR_OK);
    return heap;
}

/* Makes five slots of the decay pass, after which a peak has gone. */
static void let_decay(weir_heap *heap)
{
    weir_host_pool *pool = heap->sources[WEIR__HEAP_GOING].host;
    for (int i = 0; i < 5; i++) {
        weir__host_decay_step(pool, atomic_load(&pool->decay.slot_end_ns));
    }
}

TEST(test_a_trim_reaches_idle_threads)
{
    skip_without_barrier();
    weir_heap *heap = heap_with(0, 0, 0);
    begin(heap, IDLE);
    assert_true(stats_of(heap).held_bytes > 8 * MIB);
    assert_int_equal(weir_heap_trim(heap, 0, NULL), WEIR_OK);
    check_held(heap);
    assert_int_equal(stats_of(heap).live_blocks, 0);
    end();
}

TEST(test_a_trim_reaches_threads_that_work)
{
    skip_without_barrier();
    weir_heap *heap = heap_with(0, 0, 0);
    begin(heap, PAIRS);
    assert_int_equal(weir_heap_trim(heap, 0, NULL), WEIR_OK);
    check_held(heap);
    end();
}

TEST(test_decay_reaches_idle_threads)
{
    skip_without_barrier();
    weir_heap *heap = decaying();
    begin(heap, IDLE);
    let_decay(heap);
    check_held(heap);
    end();
}

TEST(test_decay_reaches_threads_that_work)
{
    skip_without_barrier();
    weir_heap *heap = decaying();
    begin(heap, PAIRS);
    let_decay(heap);
    check_held(heap);
    end();
}

TEST(test_a_request_gets_what_idle_threads_keep)
{
    skip_without_barrier();
    weir_heap *heap = heap_with(20 * MIB, 0, 0);
    begin(heap, IDLE);
    void *block = weir_heap_alloc(heap, 18 * MIB);
    assert_non_null(block);
    assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
    end();
}

TEST(test_without_a_barrier_threads_follow_at_a_miss)
{
    weir_heap *heap = heap_with(0, 0, 0);
    atomic_store(&has_no_barrier, true);
    begin(heap, IDLE);
    const uint64_t held = stats_of(heap).held_bytes;
    assert_int_equal(weir_heap_trim(heap, 0, NULL), WEIR_OK);
    assert_true(stats_of(heap).held_bytes > held / 4); /* the caches are as they were */
    end();
    heap = heap_with(0, 0, 0);
    begin(heap, PAIRS);
    assert_int_equal(weir_heap_trim(heap, 0, NULL), WEIR_OK);
    end();
    atomic_store(&has_no_barrier, false);
}

/* Blocks of one thread: it writes into each block, and finds the bytes when it frees it. The threads go on until their
 * caches have been emptied so many times. */
enum { MINE = 150, TRIMS = 200 };

static atomic_int trims;

static void *write_and_read(void *argument)
{
    unsigned char *blocks[MINE] = {NULL};
    size_t sizes[MINE] = {0};
    uint64_t seed = (uint64_t)(uintptr_t)argument;
    const unsigned char mine = (unsigned char)seed;
    size_t left = MINE;
    while (left > 0) {
        const bool ends = atomic_load(&trims) >= TRIMS;
        const size_t at = ends ? --left : next(&seed) % MINE;
        if (blocks[at] != NULL) {
            crew.failures += blocks[at][0] != mine || blocks[at][sizes[at] - 1] != mine;
            crew.failures += weir_heap_free(crew.heap, blocks[at]) != WEIR_OK;
            blocks[at] = NULL;
        } else if (!ends) {
            sizes[at] = next(&seed) % 32 == 0 ? 16384 : 16 + 16 * (next(&seed) % 3);
            blocks[at] = weir_heap_alloc(crew.heap, sizes[at]);
            crew.failures += blocks[at] == NULL;
            memset(blocks[at], mine, sizes[at]);
        }
    }
    return NULL;
}

TEST(test_caches_are_emptied_while_their_threads_use_them)
{
    pthread_t threads[3];
    crew.heap = heap_with(0, 0, 0);
    atomic_store(&trims, 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_and_read, (void *)(i + 1)), 0);
    }
    while (atomic_fetch_add(&trims, 1) < TRIMS) {
        crew.failures += weir_heap_trim(crew.heap, 0, NULL) != WEIR_OK;
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); /* the caches fill again */
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(crew.failures, 0);
    assert_int_equal(stats_of(crew.heap).bad_frees, 0);
    end_heap(crew.heap);
}
