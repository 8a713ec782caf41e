/* The five functions of weir/xnnpack.h, called as XNNPACK calls them but without XNNPACK. */
#include "rig/test.h"

#include <weir/xnnpack.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include "failing_heap.h"
#include "refused.h"
#include "table.h"

struct xnn_allocator {
    struct weir__xnnpack_table table;
};

enum { RESERVE_BYTES = 256 << 10 };

/* The linker redirects weir's calls of calloc here. */
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
static bool calloc_fails;

void *__wrap_calloc(size_t count, size_t size)
{
    return calloc_fails ? NULL : __real_calloc(count, size);
}

static weir_heap *heap;
static struct xnn_allocator allocator;
static const struct weir__xnnpack_table *const t = &allocator.table;

static weir_heap_stats stats(void)
{
    weir_heap_stats now = WEIR_HEAP_STATS_INIT;
    assert_int_equal(weir_heap_get_stats(heap, &now), WEIR_OK);
    return now;
}

static int begin(void **state)
{
    (void)state;
    fail_heap_at(0, false);
    return weir_heap_create(NULL, &heap) != WEIR_OK || weir_xnnpack_allocator_init(heap, &allocator) != WEIR_OK;
}

static int end(void **state)
{
    (void)state;
    fail_heap_at(0, false);
    assert_int_equal(weir_xnnpack_allocator_fini(&allocator), WEIR_OK);
    assert_int_equal(stats().live_blocks, 0);
    const char *why = NULL;
    assert_int_equal(weir_heap_check(heap, &why), WEIR_OK);
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
    return 0;
}

/* --- contents, alignment and NULL --- */

TEST(zero_bytes_are_a_block)
{
    void *a = t->allocate(t->context, 0);
    void *b = t->aligned_allocate(t->context, 64, 0);
    void *c = t->reallocate(t->context, NULL, 0);
    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    assert_true(a != b && b != c && a != c);
    c = t->reallocate(t->context, c, 0);
    assert_non_null(c);
    t->deallocate(t->context, a);
    t->aligned_deallocate(t->context, b);
    t->deallocate(t->context, c);
}

TEST(null_is_freed_by_doing_nothing)
{
    t->deallocate(t->context, NULL);
    t->aligned_deallocate(t->context, NULL);
    assert_int_equal(stats().bad_frees, 0);
    assert_int_equal(stats().frees, 0);
}

TEST(a_foreign_block_is_left_alone)
{
    char strange[64];
    t->deallocate(t->context, strange);
    assert_int_equal(stats().bad_frees, 1);
}

TEST(blocks_have_the_requested_alignment)
{
    for (size_t align = 1; align <= 2 << 20; align *= 2) {
        void *block = t->aligned_allocate(t->context, align, 100);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % align, 0);
        assert_int_equal((uintptr_t)block % 64, 0);
        memset(block, 0xa5, 100);
        t->aligned_deallocate(t->context, block);
    }
    assert_null(t->aligned_allocate(t->context, 48, 100));
}

TEST(bad_arguments_are_refused)
{
    struct xnn_allocator other;
    memset(&other, 0x5a, sizeof(other));
    const struct xnn_allocator before = other;
    refused(weir_xnnpack_allocator_init(NULL, &other), WEIR_ERR_INVALID, "weir_xnnpack_allocator_init: heap is NULL");
    refused(weir_xnnpack_allocator_init(heap, NULL), WEIR_ERR_INVALID,
            "weir_xnnpack_allocator_init: allocator is NULL");
    refused(weir_xnnpack_allocator_fini(NULL), WEIR_ERR_INVALID, "weir_xnnpack_allocator_fini: allocator is NULL");
    refused(weir_xnnpack_allocator_fini(&other), WEIR_ERR_INVALID,
            "weir_xnnpack_allocator_fini: allocator was not filled");
    assert_memory_equal(&other, &before, sizeof(other));
    memset(&other, 0, sizeof(other));
    refused(weir_xnnpack_allocator_fini(&other), WEIR_ERR_INVALID,
            "weir_xnnpack_allocator_fini: allocator was not filled");
}

TEST(a_reserve_that_does_not_fit_is_an_error)
{
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.limit_bytes = RESERVE_BYTES / 2;
    weir_heap *small = NULL;
    assert_int_equal(weir_heap_create(&config, &small), WEIR_OK);
    struct xnn_allocator other;
    memset(&other, 0x5a, sizeof(other));
    const struct xnn_allocator before = other;
    assert_int_equal(weir_xnnpack_allocator_init(small, &other), WEIR_ERR_NO_MEMORY);
    assert_memory_equal(&other, &before, sizeof(other));
    assert_int_equal(weir_heap_destroy(small), WEIR_OK);
}

TEST(no_host_memory_is_an_error)
{
    struct xnn_allocator other;
    memset(&other, 0x5a, sizeof(other));
    const struct xnn_allocator before = other;
    const uint64_t live = stats().live_blocks;
    calloc_fails = true;
    const weir_status status = weir_xnnpack_allocator_init(heap, &other);
    calloc_fails = false;
    assert_int_equal(status, WEIR_ERR_NO_MEMORY);
    assert_memory_equal(&other, &before, sizeof(other));
    assert_int_equal(stats().live_blocks, live);
}

TEST(two_tables_of_one_heap)
{
    struct xnn_allocator other;
    assert_int_equal(weir_xnnpack_allocator_init(heap, &other), WEIR_OK);
    void *block = t->allocate(t->context, 1000);
    other.table.deallocate(other.table.context, block); /* both tables have one heap, so either can free */
    assert_int_equal(weir_xnnpack_allocator_fini(&other), WEIR_OK);
}

/* --- reallocation against a model --- */

struct held {
    unsigned char *block;
    size_t size;
    unsigned char fill;
};

static uint64_t draw(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

static void assert_filled(const struct held *held, size_t size)
{
    size_t same = 0;
    while (same < size && held->block[same] == held->fill) {
        same++;
    }
    assert_int_equal(same, size);
}

static void model_step(struct held *held, uint64_t *random)
{
    static const size_t largest[] = {1, 64, 4096, 4096, 100000, 100000, 3000000};
    const size_t size = (size_t)(draw(random) % largest[draw(random) % 7]);
    if (held->block != NULL && draw(random) % 4 == 0) {
        t->deallocate(t->context, held->block);
        held->block = NULL;
        return;
    }
    fail_heap_at(draw(random) % 5 == 0 ? 1 : 0, true);
    unsigned char *block = t->reallocate(t->context, held->block, size);
    const bool failed = atomic_load(&heap_failures) != 0;
    fail_heap_at(0, false);
    if (block == NULL) {
        assert_true(failed);
        if (held->block != NULL) {
            assert_filled(held, held->size); /* the caller's block is unchanged */
        }
        return;
    }
    assert_false(failed);
    assert_int_equal((uintptr_t)block % 16, 0);
    const size_t kept = held->block == NULL ? 0 : held->size < size ? held->size : size;
    held->block = block;
    assert_filled(held, kept);
    held->size = size;
    held->fill = (unsigned char)draw(random);
    memset(block, held->fill, size);
}

TEST(reallocation_keeps_contents)
{
    const char *given = getenv("WEIR_SEED");
    uint64_t random = given != NULL ? strtoull(given, NULL, 0) : UINT64_C(20220216);
    print_message("seed %" PRIu64 "\n", random);
    random |= 1;
    struct held held[32] = {0};
    for (int i = 0; i < 5000; i++) {
        model_step(&held[draw(&random) % 32], &random);
    }
    for (int i = 0; i < 32; i++) {
        if (held[i].block != NULL) {
            assert_filled(&held[i], held[i].size);
        }
        t->deallocate(t->context, held[i].block);
    }
}

/* --- the reserve --- */

TEST(the_reserve_is_lent_when_the_heap_is_empty)
{
    void *from_heap = t->allocate(t->context, 500);
    fail_heap_at(1, true);
    unsigned char *first = t->allocate(t->context, 0);
    unsigned char *second = t->allocate(t->context, 1000);
    unsigned char *third = t->allocate(t->context, 7);
    assert_non_null(first);
    assert_non_null(second);
    assert_non_null(third);
    assert_int_equal((uintptr_t)second % 64, 0);
    memset(second, 2, 1000);
    memset(third, 3, 7);
    assert_null(t->aligned_allocate(t->context, 64, 10)); /* the engine checks for NULL */
    assert_null(t->reallocate(t->context, NULL, 10));
    assert_null(t->reallocate(t->context, second, 2000));
    refused(weir_xnnpack_allocator_fini(&allocator), WEIR_ERR_BUSY,
            "weir_xnnpack_allocator_fini: 3 blocks in the reserve of allocator are live");
    fail_heap_at(0, false);

    unsigned char *moved = t->reallocate(t->context, second, 2000);
    assert_non_null(moved);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(moved[i], 2);
    }
    unsigned char *shrunk = t->reallocate(t->context, third, 3);
    assert_non_null(shrunk);
    assert_memory_equal(shrunk, "\3\3\3", 3);
    t->deallocate(t->context, first);
    t->deallocate(t->context, moved);
    t->deallocate(t->context, shrunk);
    t->deallocate(t->context, from_heap);
}

static size_t drain_reserve(void **blocks, size_t most, size_t size)
{
    size_t count = 0;
    while (count < most && (blocks[count] = t->allocate(t->context, size)) != NULL) {
        memset(blocks[count], (int)count, size);
        count++;
    }
    return count;
}

TEST(the_reserve_ends_and_comes_back)
{
    void *blocks[4096];
    for (int round = 0; round < 3; round++) {
        fail_heap_at(1, true);
        assert_null(t->allocate(t->context, SIZE_MAX));
        assert_null(t->allocate(t->context, SIZE_MAX - 63));
        assert_null(t->allocate(t->context, RESERVE_BYTES));
        const size_t count = drain_reserve(blocks, 4096, 1000);
        assert_int_equal(count, RESERVE_BYTES / (1024 + 64));
        for (size_t i = 0; i < count; i++) {
            for (size_t j = 0; j < 1000; j++) {
                assert_int_equal(((unsigned char *)blocks[i])[j], (unsigned char)i);
            }
        }
        for (size_t i = 0; i < count; i++) {
            t->deallocate(t->context, blocks[round == 1 ? count - 1 - i : i]);
        }
        void *most = t->allocate(t->context, RESERVE_BYTES - 64);
        assert_non_null(most);
        t->deallocate(t->context, most);
        fail_heap_at(0, false);
    }
    assert_int_equal(stats().bad_frees, 0);
}

/* --- threads --- */

enum { THREADS = 4, ROUNDS = 3000, SLOTS = 64 };

static _Atomic(unsigned char *) slots[SLOTS]; /* threads exchange blocks: usually another thread frees */

static void *exchange(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (int i = 0; i < ROUNDS; i++) {
        const size_t size = 1 + (size_t)(draw(&random) % (draw(&random) % 16 == 0 ? 300000 : 3000));
        unsigned char *block =
            draw(&random) % 2 == 0 ? t->allocate(t->context, size) : t->aligned_allocate(t->context, 64, size);
        if (block != NULL) {
            block[0] = block[size - 1] = (unsigned char)i;
        }
        t->deallocate(t->context, atomic_exchange(&slots[draw(&random) % SLOTS], block));
    }
    return NULL;
}

static void exchange_in_threads(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, exchange, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (int i = 0; i < SLOTS; i++) {
        t->deallocate(t->context, atomic_exchange(&slots[i], NULL));
    }
    assert_int_equal(stats().bad_frees, 0);
}

TEST(blocks_change_threads)
{
    exchange_in_threads();
}

TEST(threads_share_the_reserve)
{
    fail_heap_at(1, true);
    exchange_in_threads();
    assert_true(atomic_load(&heap_failures) > THREADS * ROUNDS / 2);
}

EACH_TEST(begin, end)
