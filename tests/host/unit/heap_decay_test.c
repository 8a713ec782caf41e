/* tests/host/unit/heap_decay_test.c: idle memory of a heap goes back by itself: when it goes and when it stays, the
 * thread of WEIR_HEAP_DECAY_THREAD, refusals of the system, fork. Tests of the rule give the time themselves. */
#include "rig/heap.h"
#include "rig/resident.h"
#include "heap_internal.h"
#include "sandbox.h"

#include "shared/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* --- system calls that fail --- */

static atomic_bool keeps_pages; /* the system takes no pages back */
static bool has_no_thread;

int __real_madvise(void *start, size_t size, int advice);
int __wrap_madvise(void *start, size_t size, int advice);
void *__real_mmap(void *start, size_t size, int access, int flags, int file, off_t offset);
void *__wrap_mmap(void *start, size_t size, int access, int flags, int file, off_t offset);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *), void *argument);

int __wrap_madvise(void *start, size_t size, int advice)
{
    if (advice == MADV_DONTNEED && atomic_load(&keeps_pages)) {
        errno = EPERM;
        return -1;
    }
    return __real_madvise(start, size, advice);
}

void *__wrap_mmap(void *start, size_t size, int access, int flags, int file, off_t offset)
{
    if ((flags & MAP_FIXED) != 0 && atomic_load(&keeps_pages)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return __real_mmap(start, size, access, flags, file, offset);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *), void *argument)
{
    return has_no_thread ? EAGAIN : __real_pthread_create(thread, attr, body, argument);
}

/* --- heaps --- */

enum { LONG_MS = 4000000 }; /* so long that no slot ends by itself during a test */
#define SLOT_NS (LONG_MS / 4 * UINT64_C(1000000))

static weir_heap *decaying(int64_t decay_ms, uint32_t flags)
{
    weir_heap *heap = NULL;
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.decay_ms = decay_ms;
    config.flags = flags;
    return weir_heap_create(&config, &heap) == WEIR_OK ? heap : NULL;
}

static weir_host_pool *pool_of(weir_heap *heap)
{
    return heap->sources[WEIR__HEAP_GOING].host;
}

/* Makes `count` slots of the decay pass: calls weir__host_decay_step at the end of each slot. */
static void pass_slots(weir_heap *heap, int count)
{
    for (int i = 0; i < count; i++) {
        weir__host_decay_step(pool_of(heap), atomic_load(&pool_of(heap)->decay.slot_end_ns));
    }
}

enum { PIECE = 1 << 20, PIECES = 256 };

/* Allocates and touches `count` blocks of 1 MiB, and frees them. */
static bool peak(weir_heap *heap, int count)
{
    static _Thread_local void *blocks[PIECES];
    bool all = true;
    for (int i = 0; i < count; i++) {
        blocks[i] = weir_heap_alloc(heap, PIECE);
        all = all && blocks[i] != NULL;
        if (blocks[i] != NULL) {
            memset(blocks[i], 1, PIECE);
        }
    }
    for (int i = 0; i < count; i++) {
        all = weir_heap_free(heap, blocks[i]) == WEIR_OK && all;
    }
    return all;
}

static void check_and_destroy(weir_heap *heap)
{
    check(heap);
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
}

static void sleep_ms(long ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

/* --- the rule --- */

TEST(test_a_peak_stays_for_the_decay_time_and_then_goes)
{
    weir_heap *heap = decaying(LONG_MS, 0);
    assert_true(peak(heap, 64));
    pass_slots(heap, 4); /* four slots and not five, because the slot of the peak may have begun just before the peak */
    assert_true(stats_of(heap).held_bytes >= 64 * MIB);
    assert_int_equal(stats_of(heap).decays, 0);
    pass_slots(heap, 1);
    const weir_heap_stats stats = stats_of(heap);
    assert_true(stats.held_bytes <= 4 * MIB);
    assert_true(stats.decayed_bytes >= 60 * MIB);
    assert_int_equal(stats.decays, 1);
    assert_int_equal(stats.decay_failures, 0);
    check_and_destroy(heap);
}

TEST(test_memory_of_steps_shorter_than_the_decay_time_stays)
{
    weir_heap *heap = decaying(LONG_MS, 0);
    void *weights = weir_heap_alloc(heap, 3 * MIB);
    assert_true(peak(heap, 64));
    const uint64_t held = stats_of(heap).held_bytes;
    for (int round = 0; round < 20; round++) {
        pass_slots(heap, 4);
        assert_true(peak(heap, 64));
    }
    assert_int_equal(stats_of(heap).decayed_bytes, 0);
    assert_int_equal(stats_of(heap).held_bytes, held);
    pass_slots(heap, 5);
    /* The heap keeps the live block, an eighth of its size, 512 KiB, and a few runs that the thread caches. */
    assert_in_range(stats_of(heap).held_bytes, 3 * MIB, 6 * MIB);
    assert_int_equal(weir_heap_free(heap, weights), WEIR_OK);
    check_and_destroy(heap);
}

TEST(test_memory_that_was_live_until_now_stays_after_a_long_pause)
{
    weir_heap *heap = decaying(LONG_MS, 0);
    void *block = weir_heap_alloc(heap, 64 * MIB);
    assert_non_null(block);
    weir__host_decay_step(pool_of(heap), atomic_load(&pool_of(heap)->decay.slot_end_ns) + 100 * SLOT_NS);
    assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
    pass_slots(heap, 4);
    assert_true(stats_of(heap).held_bytes >= 64 * MIB);
    check_and_destroy(heap);
}

TEST(test_one_look_after_a_long_pause_is_enough)
{
    weir_heap *heap = decaying(LONG_MS, 0);
    assert_true(peak(heap, 64));
    weir__host_decay_step(pool_of(heap), atomic_load(&pool_of(heap)->decay.slot_end_ns) + 4 * SLOT_NS);
    assert_true(stats_of(heap).held_bytes <= 4 * MIB);
    check_and_destroy(heap);
}

TEST(test_at_once_and_never)
{
    weir_heap *heap = decaying(WEIR_HEAP_DECAY_AT_ONCE, WEIR_HEAP_DECAY_THREAD);
    assert_true(peak(heap, 64));
    assert_true(stats_of(heap).held_bytes <= 4 * MIB);
    assert_true(stats_of(heap).decays >= 1);
    check_and_destroy(heap);
    heap = decaying(WEIR_HEAP_DECAY_NEVER, WEIR_HEAP_DECAY_THREAD);
    assert_true(peak(heap, 64));
    sleep_ms(5);
    assert_true(peak(heap, 1));
    assert_true(stats_of(heap).held_bytes >= 64 * MIB);
    uint64_t released = 0;
    assert_int_equal(weir_heap_trim(heap, 0, &released), WEIR_OK);
    assert_true(released >= 64 * MIB);
    assert_int_equal(stats_of(heap).decayed_bytes, 0);
    check_and_destroy(heap);
}

TEST(test_a_full_heap_says_how_much_has_decayed)
{
    char text[1000];
    weir_heap *heap = decaying(LONG_MS, 0);
    assert_true(peak(heap, 8));
    pass_slots(heap, 5);
    assert_int_equal(weir_heap_set_limit(heap, 64 * KIB), WEIR_OK);
    assert_null(weir_heap_alloc(heap, MIB));
    assert_true(weir_heap_explain(heap, text, sizeof(text)) > 0);
    assert_non_null(strstr(text, "decay has given back "));
    check_and_destroy(heap);
}

/* --- by use and by the thread --- */

TEST(test_small_calls_let_a_peak_go)
{
    weir_heap *heap = decaying(40, 0);
    assert_true(peak(heap, PIECES));
    assert_int_equal(weir_heap_free(heap, weir_heap_alloc(heap, 100)), WEIR_OK);
    const uint64_t before = resident_bytes();
    sleep_ms(80);
    for (int i = 0; i < 40; i++) { /* hits of the thread's cache */
        assert_int_equal(weir_heap_free(heap, weir_heap_alloc(heap, 100)), WEIR_OK);
    }
    assert_true(stats_of(heap).held_bytes <= 8 * MIB);
    assert_true(resident_bytes() + 240 * MIB < before);
    check_and_destroy(heap);
}

TEST(test_the_thread_lets_a_peak_go_without_a_call)
{
    weir_heap *heap = decaying(20, WEIR_HEAP_DECAY_THREAD);
    assert_non_null(heap);
    assert_true(peak(heap, PIECES));
    /* On a busy machine the memory goes back in several steps. decayed_bytes counts it only when all of it has gone
     * back. */
    for (int i = 0; i < 1000 && (stats_of(heap).held_bytes > 8 * MIB || stats_of(heap).decayed_bytes < 200 * MIB);
         i++) {
        sleep_ms(10);
    }
    assert_true(stats_of(heap).held_bytes <= 8 * MIB);
    assert_true(stats_of(heap).decayed_bytes >= 200 * MIB);
    check_and_destroy(heap);
}

TEST(test_a_heap_ends_while_its_thread_works)
{
    for (int i = 0; i < 100; i++) {
        weir_heap *heap = decaying(1, WEIR_HEAP_DECAY_THREAD);
        assert_non_null(heap);
        assert_true(peak(heap, 4));
        if (i % 2 == 0) {
            sleep_ms(i % 4);
        }
        assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
    }
}

static void *visit(void *argument)
{
    weir_heap *heap = argument;
    uint64_t seed = (uint64_t)(uintptr_t)&heap;
    bool all = true;
    for (int i = 0; i < 40; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1;
        const size_t size = (size_t)(seed >> 40) % (i % 8 == 0 ? 4 * MIB : 40 * KIB) + 1;
        unsigned char *block = weir_heap_alloc(heap, size);
        if (block != NULL) {
            memset(block, i, size);
            sleep_ms(i % 10 == 0);
            all = all && block[0] == i && block[size - 1] == i;
        }
        all = block != NULL && weir_heap_free(heap, block) == WEIR_OK && all;
    }
    return all ? heap : NULL;
}

static void visits(int64_t decay_ms, uint32_t flags)
{
    weir_heap *heap = decaying(decay_ms, flags);
    for (int round = 0; round < 10; round++) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, visit, heap), 0);
        }
        for (int i = 0; i < 4; i++) {
            void *result = NULL;
            assert_int_equal(pthread_join(threads[i], &result), 0);
            assert_non_null(result);
        }
    }
    assert_int_equal(stats_of(heap).live_blocks, 0);
    check_and_destroy(heap);
}

TEST(test_threads_come_and_go)
{
    visits(1, WEIR_HEAP_DECAY_THREAD);
    visits(1, 0);
    visits(WEIR_HEAP_DECAY_AT_ONCE, 0);
}

/* --- failures --- */

TEST(test_memory_that_the_system_does_not_take_stays_in_use)
{
    weir_heap *heap = decaying(LONG_MS, 0);
    assert_true(peak(heap, 16));
    atomic_store(&keeps_pages, true);
    pass_slots(heap, 6);
    weir_heap_stats stats = stats_of(heap);
    assert_true(stats.held_bytes >= 16 * MIB);
    assert_int_equal(stats.decayed_bytes, 0);
    assert_true(stats.decay_failures >= 1);
    assert_true(peak(heap, 16));
    assert_int_equal(stats_of(heap).held_bytes, stats.held_bytes);
    atomic_store(&keeps_pages, false);
    pass_slots(heap, 5);
    assert_true(stats_of(heap).held_bytes <= 4 * MIB);
    check_and_destroy(heap);
}

TEST(test_no_thread_is_no_heap)
{
    has_no_thread = true;
    weir_heap *heap = NULL;
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.flags = WEIR_HEAP_DECAY_THREAD;
    assert_int_equal(weir_heap_create(&config, &heap), WEIR_ERR_NO_MEMORY);
    assert_null(heap);
    has_no_thread = false;
}

static weir_heap *parents;

static int end_the_parents_heap(void)
{
    CHECK(weir_heap_destroy(parents) == WEIR_OK);
    weir_heap *own = decaying(1, WEIR_HEAP_DECAY_THREAD);
    CHECK(own != NULL && peak(own, 4));
    CHECK(weir_heap_destroy(own) == WEIR_OK);
    return 0;
}

TEST(test_fork_while_the_thread_works)
{
#ifdef __SANITIZE_THREAD__
    print_message("the thread sanitizer allows no threads in a child of a program with threads\n");
    skip();
#endif
    parents = decaying(1, WEIR_HEAP_DECAY_THREAD);
    for (int i = 0; i < 30; i++) {
        assert_true(peak(parents, 4));
        assert_int_equal(in_child(end_the_parents_heap), 0);
    }
    check_and_destroy(parents);
}
