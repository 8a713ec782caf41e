/* The rules that every heap keeps over every source of memory. Compiled once for each source (heap_source.h). */
#include "rig/heap.h"
#include "heap_source.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct fixture {
    struct under under;
    weir_heap *heap;
};

static void begin(struct fixture *f)
{
    assert_int_equal(under_open(&f->under), WEIR_OK);
    f->heap = NULL;
}

static void make(struct fixture *f)
{
    assert_int_equal(weir_heap_create(&f->under.config, &f->heap), WEIR_OK);
}

static void end(struct fixture *f)
{
    check(f->heap);
    assert_int_equal(weir_heap_destroy(f->heap), WEIR_OK);
    assert_int_equal(under_close(&f->under), WEIR_OK);
}

static void fill(void *block, size_t size, unsigned char value)
{
    if (CAN_TOUCH) {
        memset(block, value, size);
    }
}

static void holds(const void *block, size_t size, unsigned char value)
{
    for (size_t i = 0; CAN_TOUCH && i < size; i++) {
        assert_int_equal(((const unsigned char *)block)[i], value);
    }
}

/* --- blocks --- */

static const size_t sizes[] = {1, 63, 64, 65, 500, 4096, 5000, 16384, 65535, 65536, 70000, 300000, 3 << 20};
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

TEST(test_blocks)
{
    struct fixture f;
    begin(&f);
    make(&f);
    void *held[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
        held[i] = weir_heap_alloc(f.heap, sizes[i]);
        assert_non_null(held[i]);
        assert_int_equal((uintptr_t)held[i] % 16, 0);
        assert_true(weir_heap_usable_size(f.heap, held[i]) >= sizes[i]);
        fill(held[i], weir_heap_usable_size(f.heap, held[i]), (unsigned char)i);
    }
    check(f.heap);
    weir_heap_stats stats = stats_of(f.heap);
    assert_int_equal(stats.allocs, SIZES);
    assert_int_equal(stats.live_blocks, SIZES);
    assert_int_equal(stats.largest_bytes, 3 << 20);
    assert_int_equal(stats.long_lived_bytes, 0);
    assert_true(stats.live_bytes >= 3 << 20 && stats.live_bytes <= stats.held_bytes);
    assert_int_equal(stats.peak_live_bytes, stats.live_bytes);
    const uint64_t peak = stats.live_bytes;
    for (size_t i = 0; i < SIZES; i++) {
        holds(held[i], sizes[i], (unsigned char)i);
        assert_int_equal(weir_heap_free(f.heap, held[i]), WEIR_OK);
    }
    stats = stats_of(f.heap);
    assert_int_equal(stats.frees, SIZES);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.live_bytes, 0);
    assert_int_equal(stats.peak_live_bytes, peak);
    assert_true(stats.peak_held_bytes >= peak && stats.peak_held_bytes >= stats.held_bytes);
    uint64_t released = 0;
    assert_int_equal(weir_heap_trim(f.heap, 0, &released), WEIR_OK);
    assert_int_equal(released, stats.held_bytes);
    assert_int_equal(stats_of(f.heap).held_bytes, 0);
    end(&f);
}

/* Zeroed blocks hold zeros, also where a freed block left other bytes. */
TEST(test_zeroed)
{
    struct fixture f;
    begin(&f);
    make(&f);
    for (size_t i = 0; i < SIZES; i++) {
        void *before = weir_heap_alloc(f.heap, sizes[i]);
        assert_non_null(before);
        fill(before, sizes[i], 0xff);
        assert_int_equal(weir_heap_free(f.heap, before), WEIR_OK);
        void *block = weir_heap_alloc_zeroed(f.heap, 1 + i % 3, sizes[i]);
        assert_int_equal(block != NULL, CAN_TOUCH);
        if (block != NULL) {
            holds(block, (1 + i % 3) * sizes[i], 0);
        }
        assert_int_equal(weir_heap_free(f.heap, block), WEIR_OK);
    }
    assert_null(weir_heap_alloc_zeroed(f.heap, 0, 100));
    assert_null(weir_heap_alloc_zeroed(f.heap, 100, 0));
    assert_null(weir_heap_alloc_zeroed(NULL, 1, 1));
    assert_null(weir_heap_alloc_zeroed(f.heap, SIZE_MAX / 2 + 2, 2)); /* the product wraps to 2 bytes */
    assert_int_equal(stats_of(f.heap).live_blocks, 0);
    char why[300];
    assert_true(weir_heap_explain(f.heap, why, sizeof(why)) > 0);
    end(&f);
}

TEST(test_alignment)
{
    struct fixture f;
    begin(&f);
    f.under.config.align = 256;
    make(&f);
    for (size_t align = 1; align <= 2 << 20; align *= 2) {
        for (size_t size = 1; size < 200000; size = size * 7 + 1) {
            void *block = weir_heap_alloc_aligned(f.heap, size, align);
            assert_non_null(block);
            assert_int_equal((uintptr_t)block % (align > 256 ? align : 256), 0);
            fill(block, size, 1);
            void *stays = weir_heap_alloc_long_lived(f.heap, size, align);
            assert_non_null(stays);
            assert_int_equal((uintptr_t)stays % (align > 256 ? align : 256), 0);
            assert_int_equal(weir_heap_free(f.heap, stays), WEIR_OK);
            assert_int_equal(weir_heap_free(f.heap, block), WEIR_OK);
        }
    }
    void *usual = weir_heap_alloc_aligned(f.heap, 100, 0);
    assert_int_equal((uintptr_t)usual % 256, 0);
    assert_int_equal(weir_heap_free(f.heap, usual), WEIR_OK);
    /* A simulated device has only SOURCE_MOST_BYTES, and the region of a block must have room for the alignment of the
     * block too. Where memory is mapped, an alignment costs addresses only. */
    const bool is_limited = heap_source == POOL_BACKED;
    for (size_t align = 4 * MIB; align <= (is_limited ? 16 * MIB : 1024 * MIB); align *= 2) {
        char *two[] = {weir_heap_alloc_aligned(f.heap, 1, align), weir_heap_alloc_long_lived(f.heap, 70000, align)};
        assert_true(two[0] != NULL && two[1] != NULL && two[0] != two[1]);
        assert_int_equal(((uintptr_t)two[0] | (uintptr_t)two[1]) % align, 0);
        fill(two[0], 1, 1);
        fill(two[1], 70000, 2);
        assert_true(weir_heap_usable_size(f.heap, two[1]) >= 70000);
        assert_int_equal(weir_heap_free(f.heap, two[0]), WEIR_OK);
        assert_int_equal(weir_heap_free(f.heap, two[1]), WEIR_OK);
        assert_int_equal(weir_heap_trim(f.heap, 0, NULL), WEIR_OK);
    }
    char text[2000];
    if (is_limited) {
        assert_null(weir_heap_alloc_aligned(f.heap, 1, 256 * MIB));
        assert_true(weir_heap_explain(f.heap, text, sizeof(text)) > 0);
        assert_non_null(strstr(text, "at a multiple of 268435456"));
    }
    for (size_t i = 0; i < 3; i++) {
        static const size_t bad[] = {3, 65, (size_t)1 << 46};
        assert_null(weir_heap_alloc_aligned(f.heap, 100, bad[i]));
        assert_null(weir_heap_alloc_long_lived(f.heap, 100, bad[i]));
        assert_true(weir_heap_explain(f.heap, text, sizeof(text)) > 0);
        assert_non_null(strstr(text, "alignment"));
    }
    assert_int_equal(stats_of(f.heap).live_bytes, 0);
    assert_int_equal(stats_of(f.heap).failures, is_limited);
    end(&f);
}

TEST(test_slack)
{
    struct fixture f;
    begin(&f);
    f.under.config.slack_bytes = 100;
    make(&f);
    for (size_t size = 1; size < 400000; size += size / 3 + 1) {
        unsigned char *block = weir_heap_alloc(f.heap, size);
        assert_non_null(block);
        const size_t usable = weir_heap_usable_size(f.heap, block);
        assert_true(usable >= size);
        fill(block, usable + 100, 7); /* a sanitizer checks this write */
        assert_int_equal(stats_of(f.heap).largest_bytes, size);
        assert_int_equal(weir_heap_free(f.heap, block), WEIR_OK);
    }
    end(&f);
}

/* Each block has slack of its own: a write to all of its usable bytes and to the slack behind them changes no other
 * block. */
TEST(test_slack_is_not_shared)
{
    enum { COUNT = 64, SLACK = 100 };
    static const size_t asked[] = {1, 100, 1000, 20000};
    if (!CAN_TOUCH) {
        skip();
    }
    struct fixture f;
    begin(&f);
    f.under.config.slack_bytes = SLACK;
    make(&f);
    for (size_t s = 0; s < sizeof(asked) / sizeof(*asked); s++) {
        unsigned char *blocks[COUNT];
        for (size_t i = 0; i < COUNT; i++) {
            blocks[i] = weir_heap_alloc(f.heap, asked[s]);
            assert_non_null(blocks[i]);
            fill(blocks[i], weir_heap_usable_size(f.heap, blocks[i]), (unsigned char)(i + 1));
        }
        for (size_t i = 0; i < COUNT; i++) {
            fill(blocks[i] + weir_heap_usable_size(f.heap, blocks[i]), SLACK, 255);
        }
        for (size_t i = 0; i < COUNT; i++) {
            const size_t usable = weir_heap_usable_size(f.heap, blocks[i]);
            for (size_t k = 0; k < usable; k++) {
                if (blocks[i][k] != i + 1) {
                    fail_msg("the slack of a block lies in another block, of %zu bytes", asked[s]);
                }
            }
            assert_int_equal(weir_heap_free(f.heap, blocks[i]), WEIR_OK);
        }
    }
    end(&f);
}

/* --- bad input --- */

TEST(test_bad_config)
{
    struct fixture f;
    begin(&f);
    weir_heap *heap = NULL;
    weir_heap_config config = f.under.config;
    assert_int_equal(weir_heap_create(&config, NULL), WEIR_ERR_INVALID);
    config.flags |= 1u << 30;
    assert_int_equal(weir_heap_create(&config, &heap), WEIR_ERR_INVALID);
    static const uint64_t bad_aligns[] = {1, 8, 96, 4 << 20};
    for (size_t i = 0; i < 4; i++) {
        config = f.under.config;
        config.align = bad_aligns[i];
        assert_int_equal(weir_heap_create(&config, &heap), WEIR_ERR_INVALID);
    }
    config = f.under.config;
    config.slack_bytes = 4097;
    assert_int_equal(weir_heap_create(&config, &heap), WEIR_ERR_INVALID);
    config = f.under.config;
    config.struct_size = 3;
    assert_int_equal(weir_heap_create(&config, &heap), WEIR_ERR_INVALID);
    if (heap_source != PROCESS) {
        config = f.under.config;
        config.limit_bytes = MIB;
        assert_int_equal(weir_heap_create(&config, &heap), WEIR_ERR_INVALID);
    }
    if (f.under.pool != NULL) {
        config = f.under.config;
        config.source.stream = NULL;
        assert_int_equal(weir_heap_create(&config, &heap), WEIR_ERR_INVALID);
        config = f.under.config;
        config.source.pool = NULL; /* a stream without a pool */
        assert_int_equal(weir_heap_create(&config, &heap), WEIR_ERR_INVALID);
        weir_host_pool_config host_config = WEIR_HOST_POOL_CONFIG_INIT;
        weir_host_pool *host_pool = NULL;
        host_config.flags = WEIR_HOST_PAGEABLE;
        assert_int_equal(weir_host_pool_create(&host_config, &host_pool), WEIR_OK);
        config = f.under.config;
        config.source.host_pool = host_pool; /* two sources in one config */
        assert_int_equal(weir_heap_create(&config, &heap), WEIR_ERR_INVALID);
        config = f.under.config;
        config.long_lived.host_pool = host_pool; /* one source for each half is allowed */
        assert_int_equal(weir_heap_create(&config, &heap), WEIR_OK);
        void *block = weir_heap_alloc_long_lived(heap, 500000, 0);
        weir_host_info info = WEIR_HOST_INFO_INIT;
        assert_int_equal(weir_host_query(host_pool, block, &info), WEIR_OK);
        assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
        assert_int_equal(weir_host_query(host_pool, block, &info), WEIR_ERR_INVALID); /* already freed */
        assert_int_equal(weir_host_pool_destroy(host_pool), WEIR_OK);
        heap = NULL;
    }
    assert_null(heap);
    make(&f);
    end(&f);
}

TEST(test_bad_input)
{
    struct fixture f;
    begin(&f);
    make(&f);
    char text[1000];
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    assert_null(weir_heap_alloc(NULL, 100));
    assert_null(weir_heap_alloc_aligned(NULL, 100, 64));
    assert_null(weir_heap_alloc_long_lived(NULL, 100, 64));
    assert_null(weir_heap_realloc(NULL, text, 100));
    assert_int_equal(weir_heap_free(NULL, text), WEIR_ERR_INVALID);
    assert_int_equal(weir_heap_usable_size(NULL, text), 0);
    assert_int_equal(weir_heap_trim(NULL, 0, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_heap_get_stats(NULL, &stats), WEIR_ERR_INVALID);
    assert_int_equal(weir_heap_get_stats(f.heap, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_heap_explain(NULL, text, sizeof(text)), 0);
    assert_int_equal(weir_heap_explain(f.heap, NULL, 10), 0);
    assert_int_equal(weir_heap_check(NULL, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_heap_record(NULL, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_heap_destroy(NULL), WEIR_OK);
    assert_int_equal(weir_heap_explain(f.heap, text, sizeof(text)), 0);
    assert_string_equal(text, "");
    /* An empty block is not a failure. */
    assert_null(weir_heap_alloc(f.heap, 0));
    assert_int_equal(weir_heap_free(f.heap, NULL), WEIR_OK);
    assert_int_equal(weir_heap_usable_size(f.heap, NULL), 0);
    assert_int_equal(stats_of(f.heap).failures, 0);
    /* Sizes larger than the address space. */
    static const size_t huge[] = {SIZE_MAX, SIZE_MAX - 63, SIZE_MAX / 2, (size_t)1 << 50};
    for (size_t i = 0; i < 4; i++) {
        assert_null(weir_heap_alloc(f.heap, huge[i]));
        assert_null(weir_heap_alloc_aligned(f.heap, huge[i], 4096));
        assert_null(weir_heap_alloc_long_lived(f.heap, huge[i], 4096));
        assert_true(weir_heap_explain(f.heap, text, sizeof(text)) > 0);
    }
    assert_int_equal(stats_of(f.heap).failures, 12);
    assert_int_equal(stats_of(f.heap).allocs, 0);
    end(&f);
}

/* Addresses that the heap does not own: unknown ones, blocks of other heaps, addresses inside blocks, freed blocks. */
TEST(test_foreign)
{
    struct fixture f;
    begin(&f);
    make(&f);
    weir_heap *other = NULL;
    assert_int_equal(weir_heap_create(&f.under.config, &other), WEIR_OK);
    char *own = malloc(1000);
    int on_stack = 0;
    char *small = weir_heap_alloc(f.heap, 1000);
    char *large = weir_heap_alloc(f.heap, 200000);
    char *stays = weir_heap_alloc_long_lived(f.heap, 200000, 64);
    char *others = weir_heap_alloc(other, 1000);
    char *others_stays = weir_heap_alloc_long_lived(other, 5000, 64);
    assert_true(own != NULL && small != NULL && large != NULL && stays != NULL && others != NULL &&
                others_stays != NULL);
    void *const bad[] = {
        own,        &on_stack,  (void *)(uintptr_t)64, (void *)UINTPTR_MAX, others, others_stays, small + 1,
        small + 64, large + 64, large + 4096,          stays + 4096};
    enum { BAD = sizeof(bad) / sizeof(*bad) };
    const weir_heap_stats before = stats_of(f.heap);
    for (size_t i = 0; i < BAD; i++) {
        assert_int_equal(weir_heap_free(f.heap, bad[i]), WEIR_ERR_INVALID);
        assert_int_equal(weir_heap_usable_size(f.heap, bad[i]), 0);
        assert_null(weir_heap_realloc(f.heap, bad[i], 100));
    }
    weir_heap_stats after = stats_of(f.heap);
    assert_int_equal(after.bad_frees, 2 * BAD);
    assert_int_equal(after.live_bytes, before.live_bytes);
    assert_int_equal(after.frees, 0);
    assert_int_equal(weir_heap_free(f.heap, large), WEIR_OK);
    assert_int_equal(weir_heap_free(f.heap, large), WEIR_ERR_INVALID);
    assert_int_equal(weir_heap_free(f.heap, stays), WEIR_OK);
    assert_int_equal(weir_heap_free(f.heap, stays), WEIR_ERR_INVALID);
    assert_int_equal(weir_heap_free(f.heap, small), WEIR_OK);
    assert_int_equal(stats_of(f.heap).live_bytes, 0);
    assert_int_equal(stats_of(other).live_blocks, 2);
    free(own);
    assert_int_equal(weir_heap_destroy(other), WEIR_OK); /* frees its blocks too */
    end(&f);
}

/* Every call refuses a freed block, of every size and from each thread. The heap counts the refusals and hands out no
 * block twice afterwards. */
struct freeing {
    weir_heap *heap;
    void *block;
    weir_status status;
};

static void *free_block(void *freeing_)
{
    struct freeing *f = freeing_;
    f->status = weir_heap_free(f->heap, f->block);
    return NULL;
}

static weir_status free_by_another_thread(weir_heap *heap, void *block)
{
    struct freeing f = {.heap = heap, .block = block};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, free_block, &f), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return f.status;
}

enum { REFUSALS = 3 };

static void refuses(weir_heap *heap, void *freed, size_t size)
{
    const weir_heap_stats before = stats_of(heap);
    assert_int_equal(weir_heap_free(heap, freed), WEIR_ERR_INVALID);
    assert_int_equal(free_by_another_thread(heap, freed), WEIR_ERR_INVALID);
    assert_null(weir_heap_realloc(heap, freed, size));
    assert_int_equal(weir_heap_usable_size(heap, freed), 0);
    const weir_heap_stats after = stats_of(heap);
    assert_int_equal(after.bad_frees, before.bad_frees + REFUSALS);
    assert_int_equal(after.frees, before.frees);
    assert_int_equal(after.live_bytes, before.live_bytes);
    check(heap);
}

TEST(test_freed_twice)
{
    struct fixture f;
    begin(&f);
    make(&f);
    for (size_t i = 0; i < SIZES; i++) {
        enum { COUNT = 5 };
        void *blocks[COUNT];
        void *keeper = weir_heap_alloc(f.heap, sizes[i]);
        void *one = weir_heap_alloc(f.heap, sizes[i]);
        void *two = weir_heap_alloc(f.heap, sizes[i]);
        assert_true(keeper != NULL && one != NULL && two != NULL);
        assert_int_equal(weir_heap_free(f.heap, one), WEIR_OK);
        refuses(f.heap, one, sizes[i]);
        assert_int_equal(free_by_another_thread(f.heap, two), WEIR_OK);
        refuses(f.heap, one, sizes[i]);
        refuses(f.heap, two, sizes[i]);
        for (size_t j = 0; j < COUNT; j++) {
            blocks[j] = weir_heap_alloc(f.heap, sizes[i]);
            assert_non_null(blocks[j]);
            assert_ptr_not_equal(blocks[j], keeper);
            for (size_t k = 0; k < j; k++) {
                assert_ptr_not_equal(blocks[j], blocks[k]);
            }
        }
        for (size_t j = 0; j < COUNT; j++) {
            assert_int_equal(weir_heap_free(f.heap, blocks[j]), WEIR_OK);
        }
        assert_int_equal(weir_heap_free(f.heap, keeper), WEIR_OK);
        assert_int_equal(stats_of(f.heap).live_blocks, 0);
    }
    end(&f);
}

/* weir_heap_destroy returns the heap's live blocks to the pool that the config named. Blocks that other users took from
 * this pool stay live. */
TEST(test_end_frees)
{
    struct fixture f;
    begin(&f);
    make(&f);
    void *theirs = NULL;
    weir_block *block = NULL;
    if (f.under.host_pool != NULL) {
        assert_int_equal(weir_host_alloc(f.under.host_pool, 5000, WEIR_HOST_ANY_NODE, &theirs), WEIR_OK);
        assert_int_equal(weir_heap_free(f.heap, theirs), WEIR_ERR_INVALID);
    } else if (f.under.pool != NULL) {
        assert_int_equal(weir_pool_alloc(f.under.pool, f.under.stream, 5000, 0, &block), WEIR_OK);
        assert_int_equal(weir_heap_free(f.heap, (void *)(uintptr_t)weir_block_address(block)), WEIR_ERR_INVALID);
    }
    for (size_t i = 0; i < 100; i++) {
        assert_non_null(weir_heap_alloc(f.heap, 1000 * (i + 1)));
        assert_non_null(weir_heap_alloc_long_lived(f.heap, 100 * (i + 1), 0));
    }
    check(f.heap);
    assert_int_equal(weir_heap_destroy(f.heap), WEIR_OK);
    if (f.under.host_pool != NULL) {
        weir_host_stats stats = WEIR_HOST_STATS_INIT;
        assert_int_equal(weir_host_get_stats(f.under.host_pool, WEIR_HOST_ANY_NODE, &stats), WEIR_OK);
        assert_int_equal(stats.allocs - stats.frees, 1);
        assert_int_equal(weir_host_free(f.under.host_pool, theirs), WEIR_OK);
    } else if (f.under.pool != NULL) {
        weir_pool_stats stats = WEIR_POOL_STATS_INIT;
        assert_int_equal(weir_pool_get_stats(f.under.pool, &stats), WEIR_OK);
        assert_int_equal(stats.requested_bytes, 5000);
        assert_int_equal(weir_pool_free(f.under.pool, block, f.under.stream), WEIR_OK);
    }
    assert_int_equal(under_close(&f.under), WEIR_OK);
}

/* weir_heap_destroy in a forked child succeeds and frees none of the parent's memory. */
TEST(test_fork)
{
    struct fixture f;
    begin(&f);
    make(&f);
    void *small = weir_heap_alloc(f.heap, 100);
    void *large = weir_heap_alloc(f.heap, 500000);
    assert_true(small != NULL && large != NULL);
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        _exit(weir_heap_destroy(f.heap) == WEIR_OK && under_close(&f.under) == WEIR_OK ? 0 : 1);
    }
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
    fill(large, 500000, 3);
    assert_int_equal(weir_heap_free(f.heap, small), WEIR_OK);
    assert_int_equal(weir_heap_free(f.heap, large), WEIR_OK);
    end(&f);
}

/* --- long-lived blocks --- */

TEST(test_long_lived)
{
    struct fixture f;
    begin(&f);
    make(&f);
    uintptr_t low = UINTPTR_MAX;
    uintptr_t high = 0;
    void *transient[32];
    void *persistent[32];
    for (size_t i = 0; i < 32; i++) {
        transient[i] = weir_heap_alloc(f.heap, 100000);
        persistent[i] = weir_heap_alloc_long_lived(f.heap, 100000, 64);
        assert_true(transient[i] != NULL && persistent[i] != NULL);
        low = (uintptr_t)persistent[i] < low ? (uintptr_t)persistent[i] : low;
        high = (uintptr_t)persistent[i] > high ? (uintptr_t)persistent[i] : high;
    }
    const weir_heap_stats stats = stats_of(f.heap);
    assert_true(stats.long_lived_bytes >= 32 * 100000 && stats.long_lived_bytes == stats.live_bytes / 2);
    for (size_t i = 0; i < 32 && heap_source == PROCESS; i++) {
        assert_true((uintptr_t)transient[i] < low ||
                    (uintptr_t)transient[i] > high); /* short-lived blocks lie elsewhere */
    }
    void *grown = weir_heap_realloc(f.heap, persistent[0], 150000);
    if (CAN_TOUCH) {
        assert_non_null(grown);
        /* the block has grown and is still a long-lived block */
        assert_true(stats_of(f.heap).long_lived_bytes >= 31 * 100000 + 150000);
        persistent[0] = grown;
    }
    for (size_t i = 0; i < 32; i++) {
        assert_int_equal(weir_heap_free(f.heap, transient[i]), WEIR_OK);
        assert_int_equal(weir_heap_free(f.heap, persistent[i]), WEIR_OK);
    }
    assert_int_equal(stats_of(f.heap).long_lived_bytes, 0);
    end(&f);
}

/* --- realloc --- */

TEST(test_resizing)
{
    struct fixture f;
    begin(&f);
    make(&f);
    unsigned char *block = weir_heap_realloc(f.heap, NULL, 100);
    assert_non_null(block);
    assert_int_equal(stats_of(f.heap).reallocs, 0); /* counts as an alloc */
    const size_t usable = weir_heap_usable_size(f.heap, block);
    fill(block, usable, 9);
    assert_ptr_equal(weir_heap_realloc(f.heap, block, usable), block);
    assert_ptr_equal(weir_heap_realloc(f.heap, block, usable / 2 + 1), block);
    assert_int_equal(stats_of(f.heap).moves, 0);
    if (CAN_TOUCH) {
        size_t size = usable;
        while (size < 3 * MIB) {
            const size_t more = size * 3;
            unsigned char *larger = weir_heap_realloc(f.heap, block, more);
            assert_non_null(larger);
            holds(larger, size, 9);
            fill(larger, more, 9);
            block = larger;
            size = more;
        }
        while (size > 100) {
            size /= 3;
            unsigned char *smaller = weir_heap_realloc(f.heap, block, size);
            assert_non_null(smaller);
            holds(smaller, size, 9);
            assert_true(weir_heap_usable_size(f.heap, smaller) <= 2 * size + 512);
            block = smaller;
        }
        assert_true(stats_of(f.heap).moves > 10);
    } else {
        /* without host access a block cannot move, so it stays as it was */
        assert_null(weir_heap_realloc(f.heap, block, 10 * usable));
        assert_int_equal(weir_heap_usable_size(f.heap, block), usable);
        char why[1024];
        assert_true(weir_heap_explain(f.heap, why, sizeof(why)) > 0);
        assert_non_null(strstr(why, "WEIR_HEAP_NO_HOST_ACCESS"));
        assert_ptr_equal(weir_heap_realloc(f.heap, block, 1), block);
    }
    assert_int_equal(stats_of(f.heap).live_blocks, 1);
    char text[1024];
    int nobody = 0;
    assert_null(weir_heap_realloc(f.heap, &nobody, 10));
    assert_true(weir_heap_explain(f.heap, text, sizeof(text)) > 0);
    assert_non_null(strstr(text, "no block of this heap"));
    assert_null(weir_heap_realloc(f.heap, block, SIZE_MAX));
    assert_int_equal(stats_of(f.heap).live_blocks, 1);
    assert_null(weir_heap_realloc(f.heap, block, 0)); /* size 0 frees the block */
    assert_int_equal(stats_of(f.heap).live_blocks, 0);
    assert_null(weir_heap_realloc(f.heap, NULL, 0));
    end(&f);
}

/* --- running out --- */

struct cache {
    weir_heap *heap;
    void *blocks[200];
    size_t count;
    uint32_t calls;
    uint32_t lies; /* number of calls that return true without freeing anything */
    uint32_t last_attempt;
};

static bool drop_one(void *ctx, weir_heap *heap, uint64_t size, uint32_t attempt)
{
    struct cache *c = ctx;
    assert_ptr_equal(heap, c->heap);
    assert_true(size >= 4 * MIB);
    c->calls++;
    c->last_attempt = attempt;
    /* If the callback itself requests memory that the heap does not have, the request fails, and the heap does not call
     * the callback again inside the running call. */
    assert_null(weir_heap_alloc(heap, SOURCE_MOST_BYTES + 1));
    if (c->lies > 0) {
        c->lies--;
        return true;
    }
    if (c->count == 0) {
        return false;
    }
    assert_int_equal(weir_heap_free(heap, c->blocks[--c->count]), WEIR_OK);
    return true;
}

static void fill_up(struct cache *c)
{
    for (;;) {
        void *block = weir_heap_alloc(c->heap, c->count % 2 == 0 ? 4 * MIB : 5 * MIB);
        if (block == NULL) {
            break;
        }
        c->blocks[c->count++] = block;
    }
}

TEST(test_reclaim)
{
    struct fixture f;
    begin(&f);
    struct cache c = {0};
    f.under.config.reclaim = drop_one;
    f.under.config.reclaim_ctx = &c;
    f.under.config.name = "little heap";
    make(&f);
    c.heap = f.heap;
    weir_heap *plain = NULL;
    weir_heap_config config = f.under.config;
    config.reclaim = NULL;
    assert_int_equal(weir_heap_create(&config, &plain), WEIR_OK);
    /* A callback that has nothing to drop is called once, and the request fails. */
    for (size_t i = 0; i < 3; i++) {
        void *block = weir_heap_alloc(f.heap, 16 * MIB);
        if (block != NULL) {
            c.blocks[c.count++] = block;
        }
    }
    assert_int_equal(c.count, 3);
    const size_t kept = c.count;
    c.count = 0;
    assert_null(weir_heap_alloc(f.heap, 32 * MIB));
    assert_int_equal(c.calls, 1);
    char text[1000];
    assert_true(weir_heap_explain(f.heap, text, sizeof(text)) > 0);
    assert_non_null(strstr(text, "little heap"));
    assert_non_null(strstr(text, "reclaim was called 1 times"));
    char little[8] = "xxxxxxx";
    assert_int_equal(weir_heap_explain(f.heap, little, sizeof(little)), strlen(text));
    assert_string_equal(little, "little ");
    if (heap_source == PROCESS) {
        assert_non_null(strstr(text, "limit"));
    }
    /* A callback that frees memory is called until the request fits. Calls that return true without freeing only cost
     * time. */
    c.count = kept;
    c.lies = 2;
    c.calls = 0;
    void *large = weir_heap_alloc(f.heap, 40 * MIB);
    assert_non_null(large);
    assert_int_equal(c.calls, c.last_attempt + 1);
    assert_true(c.calls >= 3);
    const weir_heap_stats stats = stats_of(f.heap);
    assert_int_equal(stats.reclaims, c.calls + 1);
    /* the failed request, and one request inside each call of the callback */
    assert_int_equal(stats.failures, 1 + stats.reclaims);
    assert_int_equal(weir_heap_free(f.heap, large), WEIR_OK);
    while (c.count > 0) {
        assert_int_equal(weir_heap_free(f.heap, c.blocks[--c.count]), WEIR_OK);
    }
    assert_int_equal(weir_heap_destroy(plain), WEIR_OK);
    end(&f);
}

/* Before a request fails, the heap gives back all idle memory of its two halves: long-lived and other blocks. */
TEST(test_idle_memory_goes_back_before_a_failure)
{
    struct fixture f;
    begin(&f);
    make(&f);
    struct cache c = {.heap = f.heap};
    fill_up(&c);
    const weir_heap_stats full = stats_of(f.heap);
    assert_int_equal(full.failures, 1);
    assert_true(full.live_bytes >= SOURCE_MOST_BYTES - 6 * MIB);
    assert_true(full.held_bytes <= SOURCE_MOST_BYTES);
    while (c.count > 0) {
        assert_int_equal(weir_heap_free(f.heap, c.blocks[--c.count]), WEIR_OK);
    }
    void *stays = weir_heap_alloc_long_lived(f.heap, SOURCE_MOST_BYTES - 8 * MIB, 64);
    assert_non_null(stays);
    assert_int_equal(weir_heap_free(f.heap, stays), WEIR_OK);
    void *goes = weir_heap_alloc(f.heap, SOURCE_MOST_BYTES - 8 * MIB);
    assert_non_null(goes);
    assert_int_equal(weir_heap_free(f.heap, goes), WEIR_OK);
    assert_int_equal(stats_of(f.heap).failures, 1);
    end(&f);
}

/* --- threads --- */

enum { THREADS = 4, HANDED = 64, ROUNDS = 300 };

struct mailbox {
    weir_heap *heap;
    pthread_mutex_t lock;
    void *blocks[HANDED];
    size_t sizes[HANDED];
    size_t count;
    uint64_t seed;
};

static uint64_t next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Puts each new block into a random place of the mailbox and frees the block that was there. */
static void *exchange(void *argument)
{
    struct mailbox *box = argument;
    (void)pthread_mutex_lock(&box->lock);
    uint64_t seed = next(&box->seed);
    (void)pthread_mutex_unlock(&box->lock);
    for (int i = 0; i < ROUNDS; i++) {
        const size_t size = 1 + next(&seed) % (next(&seed) % 8 == 0 ? 200000 : 3000);
        void *block = i % 5 == 0 ? weir_heap_alloc_long_lived(box->heap, size, 64) : weir_heap_alloc(box->heap, size);
        if (block == NULL) {
            return "out of memory";
        }
        fill(block, size, (unsigned char)size);
        (void)pthread_mutex_lock(&box->lock);
        const size_t place = next(&seed) % HANDED;
        void *picked = box->blocks[place];
        const size_t its_size = box->sizes[place];
        box->blocks[place] = block;
        box->sizes[place] = size;
        (void)pthread_mutex_unlock(&box->lock);
        if (picked != NULL) {
            for (size_t j = 0; CAN_TOUCH && j < its_size; j++) {
                if (((unsigned char *)picked)[j] != (unsigned char)its_size) {
                    return "a block does not hold what was written";
                }
            }
            if (weir_heap_free(box->heap, picked) != WEIR_OK) {
                return "a block cannot be freed";
            }
        }
    }
    return NULL;
}

TEST(test_threads)
{
    struct fixture f;
    begin(&f);
    make(&f);
    struct mailbox box = {.heap = f.heap, .lock = PTHREAD_MUTEX_INITIALIZER, .seed = 88172645463325252u};
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, exchange, &box), 0);
    }
    const char *why = "";
    for (size_t i = 0; i < 20; i++) { /* while the threads run */
        const weir_status status = weir_heap_check(f.heap, &why);
        if (status != WEIR_OK) {
            fail_msg("%s", why);
        }
        (void)stats_of(f.heap);
        assert_int_equal(weir_heap_trim(f.heap, 0, NULL), WEIR_OK);
    }
    for (size_t i = 0; i < THREADS; i++) {
        void *failure = NULL;
        assert_int_equal(pthread_join(threads[i], &failure), 0);
        assert_null(failure);
    }
    for (size_t i = 0; i < HANDED; i++) {
        assert_int_equal(weir_heap_free(f.heap, box.blocks[i]), WEIR_OK);
    }
    const weir_heap_stats stats = stats_of(f.heap);
    assert_int_equal(stats.allocs, THREADS * ROUNDS);
    assert_int_equal(stats.live_bytes, 0);
    assert_int_equal(stats.live_blocks, 0);
    assert_true(stats.peak_live_bytes > 0 && stats.peak_live_bytes <= stats.peak_held_bytes);
    end(&f);
}
