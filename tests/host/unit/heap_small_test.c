/* tests/host/unit/heap_small_test.c: small blocks of a heap over memory of the process: their waste, the addresses that
 * a free refuses, and the bookkeeping of the heap. */
#include "rig/heap.h"
#include "rig/resident.h"
#include "classes.h"
#include "sandbox.h"

#include <string.h>

/* --- classes --- */

TEST(test_class_sizes)
{
    for (int is_fine = 0; is_fine < 2; is_fine++) {
        const uint64_t step = is_fine != 0 ? 16 : 64;
        uint64_t last = 0;
        uint32_t class = 0;
        for (uint64_t bytes; (bytes = weir__host_class_bytes(class, is_fine != 0)) != 0; class ++) {
            assert_int_equal(bytes % step, 0);
            assert_true(bytes > last);
            /* The smallest request of a size class wastes the most. */
            assert_true(class < 8 ? bytes - last == step : (bytes - last - 1) * 8 < bytes);
            last = bytes;
        }
        assert_int_equal(last, is_fine != 0 ? 16 << 10 : (64 << 10) + 64);
    }
}

/* A block of every size wastes less than 16 bytes or an eighth of itself, and has the heap's alignment. */
TEST(test_sizes)
{
    static const uint64_t aligns[] = {0, 16, 32, 64};
    for (size_t i = 0; i < 4; i++) {
        weir_heap *heap = heap_with(0, aligns[i], 0);
        const uint64_t align = aligns[i] != 0 ? aligns[i] : 16;
        for (size_t size = 1; size <= 16384; size += size < 4096 ? 1 : 37) {
            unsigned char *block = weir_heap_alloc(heap, size);
            unsigned char *next = weir_heap_alloc(heap, size);
            const size_t usable = weir_heap_usable_size(heap, block);
            assert_int_equal(((uintptr_t)block | (uintptr_t)next) % align, 0);
            assert_in_range(usable, size, SIZE_MAX);
            assert_true(usable - size < align || (usable - size) * 8 <= usable);
            memset(block, 1, usable);
            memset(next, 2, usable);
            assert_int_equal(block[0] + block[usable - 1], 2);
            assert_int_equal(stats_of(heap).live_bytes, 2 * usable);
            assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
            assert_int_equal(weir_heap_free(heap, next), WEIR_OK);
        }
        end_heap(heap);
    }
}

/* Each block has its slack behind it. An alignment of a single block adds at most the alignment to its size. */
TEST(test_slack_and_single_alignments)
{
    for (uint64_t slack = 0; slack <= 64; slack += 32) {
        weir_heap *heap = heap_with(0, 0, slack);
        for (size_t size = 1; size <= 1024; size++) {
            for (size_t align = 16; align <= 64; align *= 2) {
                void *block = weir_heap_alloc_aligned(heap, size, align);
                void *next = weir_heap_alloc_aligned(heap, size, align); /* the first one may begin a slab */
                void *stays = weir_heap_alloc_long_lived(heap, size, align);
                const size_t usable = weir_heap_usable_size(heap, block);
                assert_int_equal(((uintptr_t)block | (uintptr_t)next | (uintptr_t)stays) % align, 0);
                assert_int_equal(weir_heap_free(heap, next), WEIR_OK);
                assert_in_range(usable, size, (size + slack + align) * 9 / 8 - slack);
                assert_int_equal(weir_heap_usable_size(heap, stays), usable);
                assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
                assert_int_equal(weir_heap_free(heap, stays), WEIR_OK);
            }
        }
        end_heap(heap);
    }
}

/* A free with the requested size finds the block, for each alignment; a wrong size does not. */
TEST(test_sized_frees)
{
    for (uint32_t no_pad = 0; no_pad < 2; no_pad++) {
        weir_host_pool *pool = NULL;
        weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
        config.flags = WEIR_HOST_PAGEABLE | (no_pad != 0 ? (uint32_t)WEIR_HOST_NO_PAD : 0);
        assert_int_equal(weir_host_pool_create(&config, &pool), WEIR_OK);
        for (uint64_t size = 1; size < 2000; size += 7) {
            for (uint64_t align = 0; align <= 64; align = align != 0 ? 2 * align : 8) {
                void *block = NULL;
                assert_int_equal(weir_host_alloc_aligned(pool, size, align, WEIR_HOST_THREAD_NODE, &block), WEIR_OK);
                assert_int_equal((uintptr_t)block % (align > 16 ? align : 16), 0);
                assert_int_equal(weir_host_free_sized(pool, block, 4 * size + 200), WEIR_ERR_INVALID);
                assert_int_equal(weir_host_free_sized(pool, block, size), WEIR_OK);
            }
        }
        for (uint64_t size = 100000; size < 3000000; size *= 2) {
            void *block = NULL;
            assert_int_equal(weir_host_alloc(pool, size, WEIR_HOST_THREAD_NODE, &block), WEIR_OK);
            assert_int_equal(weir_host_free_sized(pool, block, size + 10000), WEIR_ERR_INVALID);
            assert_int_equal(weir_host_free_sized(pool, block, size - 10000), WEIR_ERR_INVALID);
            assert_int_equal(weir_host_free_sized(pool, block, size), WEIR_OK);
        }
        assert_int_equal(weir_host_check(pool, NULL), WEIR_OK);
        assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
    }
}

/* A pool with a pad hands out more than is usable. In a heap over it, too, the pad is not usable: a program that fills
 * a block to its end would write where the pool promised room. */
TEST(test_pads_are_not_usable)
{
    weir_host_pool_config pool_config = WEIR_HOST_POOL_CONFIG_INIT;
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    weir_host_pool *pool = NULL;
    weir_heap *heap = NULL;
    pool_config.flags = WEIR_HOST_PAGEABLE;
    assert_int_equal(weir_host_pool_create(&pool_config, &pool), WEIR_OK);
    config.source.host_pool = pool;
    assert_int_equal(weir_heap_create(&config, &heap), WEIR_OK);
    for (size_t size = 1; size < 3000000; size = size * 3 + 1) {
        void *block = weir_heap_alloc(heap, size);
        weir_host_info info = WEIR_HOST_INFO_INIT;
        assert_int_equal(weir_host_query(pool, block, &info), WEIR_OK);
        assert_in_range(weir_heap_usable_size(heap, block), size, info.size);
        assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
    }
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
}

/* --- wrong frees --- */

enum { NEIGHBOURS = 40 };

/* Frees every address inside a block and around it. */
static uint64_t free_wrongly(weir_heap *heap, unsigned char *block, size_t usable)
{
    uint64_t wrong = 0;
    for (size_t offset = 1; offset < usable; offset++) {
        assert_int_equal(weir_heap_free(heap, block + offset), WEIR_ERR_INVALID);
        assert_int_equal(weir_heap_usable_size(heap, block + offset), 0);
        wrong++;
    }
    return wrong;
}

TEST(test_wrong_frees)
{
    static const size_t sizes[] = {1, 24, 48, 64, 100, 112, 144, 512, 1152, 4096, 5000, 16368};
    weir_heap *heap = heap_with(0, 0, 0);
    uint64_t wrong = 0;
    unsigned char *foreign = test_malloc(200);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        unsigned char *blocks[NEIGHBOURS];
        const size_t size = sizes[i];
        for (size_t j = 0; j < NEIGHBOURS; j++) {
            blocks[j] = weir_heap_alloc(heap, size);
            memset(blocks[j], (int)j, size);
        }
        const size_t usable = weir_heap_usable_size(heap, blocks[0]);
        for (size_t j = 0; j < NEIGHBOURS; j += 13) {
            wrong += free_wrongly(heap, blocks[j], usable);
        }
        for (size_t j = 0; j < NEIGHBOURS; j += 2) { /* every second block, so that live blocks lie beside freed ones */
            assert_int_equal(weir_heap_free(heap, blocks[j]), WEIR_OK);
            /* the program writes into a freed block; a second free must still be refused */
            memset(blocks[j], 0x5a, usable);
            assert_int_equal(weir_heap_free(heap, blocks[j]), WEIR_ERR_INVALID);
            wrong += 1 + free_wrongly(heap, blocks[j], usable);
        }
        assert_int_equal(weir_heap_free(heap, foreign), WEIR_ERR_INVALID);
        assert_int_equal(weir_heap_free(heap, &wrong), WEIR_ERR_INVALID);
        wrong += 2;
        assert_int_equal(stats_of(heap).bad_frees, wrong);
        for (size_t j = 1; j < NEIGHBOURS; j += 2) {
            assert_int_equal(blocks[j][size - 1], j);
            assert_int_equal(weir_heap_free(heap, blocks[j]), WEIR_OK);
        }
        assert_int_equal(weir_heap_trim(heap, 0, NULL), WEIR_OK); /* the blocks leave the thread's cache */
        for (size_t j = 0; j < NEIGHBOURS; j++) {
            assert_int_equal(weir_heap_free(heap, blocks[j]), WEIR_ERR_INVALID);
            wrong++;
        }
    }
    /* Addresses that were never handed out, behind the only block of its size. */
    unsigned char *first = weir_heap_alloc(heap, 80);
    for (size_t offset = 16; offset < 4096; offset += 16) {
        assert_int_equal(weir_heap_free(heap, first + offset), WEIR_ERR_INVALID);
    }
    assert_int_equal(weir_heap_free(heap, first), WEIR_OK);
    test_free(foreign);
    end_heap(heap);
}

/* --- large slabs --- */

/* Blocks of one size fill slabs of growing size, are freed at random and found again: no block is handed out twice. */
TEST(test_many_blocks)
{
    enum { BLOCKS = 60000 };
    weir_heap *heap = heap_with(0, 0, 0);
    uint64_t **blocks = test_calloc(BLOCKS, sizeof(*blocks));
    uint64_t seed = 88172645463325252;
    for (size_t round = 0; round < 6; round++) {
        for (uint64_t i = 0; i < BLOCKS; i++) {
            if (blocks[i] == NULL) {
                blocks[i] = weir_heap_alloc(heap, 24);
                assert_non_null(blocks[i]);
                *blocks[i] = i;
            }
        }
        for (uint64_t i = 0; i < BLOCKS; i++) {
            seed = seed * 6364136223846793005 + 1442695040888963407;
            assert_int_equal(*blocks[i], i);
            if (seed >> 60 < (round == 5 ? 16u : 3u * round)) {
                assert_int_equal(weir_heap_free(heap, blocks[i]), WEIR_OK);
                blocks[i] = NULL;
            }
        }
    }
    const weir_heap_stats stats = stats_of(heap);
    assert_int_equal(stats.peak_live_bytes, BLOCKS * 32);
    assert_int_equal(stats.allocs, stats.frees);
    test_free(blocks);
    end_heap(heap);
}

/* --- bookkeeping --- */

/* Returns the exact resident bytes without those of files: statm may lag, and more or less of libraries comes along. */
static uint64_t exact_resident(void)
{
    char line[256];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file != NULL && kib == 0 && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "Anonymous: %" SCNu64, &kib) != 1) {
            kib = 0;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return kib != 0 ? kib * KIB : resident_bytes();
}

/* The most bookkeeping for blocks of a size, in thousandths of the held bytes. */
static const struct {
    size_t size;
    unsigned thousandths;
} costs[] = {{16, 70}, {32, 36}, {64, 20}, {80, 18}, {112, 15}, {512, 8}, {4096, 6}, {16368, 6}, {16384, 16}};

/* Allowance for code and data of libraries that become resident during the measurement; how much depends on the
 * machine. */
#define OTHERS (256 * KIB)

static bool fill(weir_heap *heap, size_t size, size_t bytes)
{
    for (size_t live = 0; live < bytes; live += size) {
        void *block = weir_heap_alloc(heap, size);
        if (block == NULL) {
            return false;
        }
        memset(block, 1, size);
    }
    return true;
}

/* Fills 64 MiB with blocks and compares the memory that the process gained with the memory that the heap counts. */
static int keeps_little_beside(size_t which)
{
    weir_heap *heap = NULL;
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.decay_ms = WEIR_HEAP_DECAY_NEVER;
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    /* without huge pages only the used part of malloc's memory is resident */
    CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
    weir_heap *first = NULL; /* a first heap makes code and data resident that all heaps share */
    CHECK(weir_heap_create(&config, &first) == WEIR_OK && fill(first, costs[which].size, MIB));
    /* The tables that an empty heap has do not grow with its blocks: about 0.4 MiB. */
    CHECK(weir_heap_create(&config, &heap) == WEIR_OK && fill(heap, MIB, MIB) && fill(heap, costs[which].size, 1));
    CHECK(weir_heap_get_stats(heap, &stats) == WEIR_OK);
    const uint64_t before = exact_resident() - stats.held_bytes;
    CHECK(fill(heap, costs[which].size, 64 * MIB));
    const uint64_t after = exact_resident();
    CHECK(weir_heap_get_stats(heap, &stats) == WEIR_OK);
    CHECK(stats.held_bytes <= stats.live_bytes + stats.live_bytes / 16 + 512 * KIB);
    const uint64_t beside = after > before + stats.held_bytes ? after - before - stats.held_bytes : 0;
    print_message("%zu bytes: held %.3f of live, bookkeeping %.2f %% of held\n", costs[which].size,
                  (double)stats.held_bytes / (double)stats.live_bytes,
                  100.0 * (double)beside / (double)stats.held_bytes);
    CHECK(beside <= stats.held_bytes * costs[which].thousandths / 1000 + OTHERS);
    CHECK(weir_heap_check(heap, NULL) == WEIR_OK && weir_heap_destroy(heap) == WEIR_OK);
    CHECK(beside != 0 && weir_heap_destroy(first) == WEIR_OK);
    return 0;
}

static size_t case_number;

static int one_case(void)
{
    return keeps_little_beside(case_number);
}

TEST(test_bookkeeping)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("a sanitizer's shadow is resident too\n");
    skip();
#endif
    if (is_emulated()) {
        skip();
    }
    for (case_number = 0; case_number < sizeof(costs) / sizeof(*costs); case_number++) {
        assert_int_equal(in_child(one_case), 0);
    }
}
