/* tests/host/unit/heap_grow_test.c: a block of a heap grows at its address where the addresses behind it are free. */
#include "rig/heap.h"

/* The byte at `at` of block `which`. */
static unsigned char byte_at(size_t which, size_t at)
{
    return (unsigned char)((at >> 12) * 7 + which * 31 + 1);
}

static void fill(unsigned char *block, size_t which, size_t from, size_t to)
{
    for (size_t at = from; at < to; at++) {
        block[at] = byte_at(which, at);
    }
}

static bool is_intact(const unsigned char *block, size_t which, size_t size)
{
    for (size_t at = 0; at < size; at += at % 4096 == 0 ? 4095 : 1) { /* both ends of each page */
        if (block[at] != byte_at(which, at)) {
            return false;
        }
    }
    return true;
}

TEST(a_vector_that_doubles_is_not_copied)
{
    weir_heap *heap = heap_with(0, 0, 0);
    size_t size = 64 * KIB;
    unsigned char *block = weir_heap_alloc(heap, size);
    assert_non_null(block);
    fill(block, 0, 0, size);
    for (; size < 64 * MIB; size *= 2) {
        unsigned char *larger = weir_heap_realloc(heap, block, 2 * size);
        assert_ptr_equal(larger, block);
        assert_int_equal(stats_of(heap).live_bytes, 2 * size);
        assert_true(weir_heap_usable_size(heap, block) >= 2 * size);
        fill(block, 0, size, 2 * size);
    }
    assert_true(is_intact(block, 0, size));
    assert_int_equal(stats_of(heap).moves, 0);
    assert_int_equal(stats_of(heap).largest_bytes, size);
    assert_true(stats_of(heap).peak_held_bytes < size + size / 16); /* a copy needs the old block beside the new one */
    assert_int_equal(weir_heap_free(heap, block + size / 2), WEIR_ERR_INVALID);
    assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
    assert_int_equal(weir_heap_free(heap, block), WEIR_ERR_INVALID);
    end_heap(heap);
}

/* Blocks that grow in turn, as the key and value caches of several sequences: each one grows in place until it meets
 * its neighbour. */
TEST(caches_that_grow_in_turn)
{
    enum { CACHES = 6, STEPS = 100 };
    weir_heap *heap = heap_with(0, 0, 64);
    unsigned char *caches[CACHES];
    size_t size = 128 * KIB;
    for (size_t i = 0; i < CACHES; i++) {
        caches[i] = weir_heap_alloc(heap, size);
        fill(caches[i], i, 0, size);
    }
    for (int step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < CACHES; i++) {
            caches[i] = weir_heap_realloc(heap, caches[i], size + 40 * KIB);
            assert_non_null(caches[i]);
            fill(caches[i], i, size, size + 40 * KIB);
        }
        size += 40 * KIB;
    }
    assert_true(stats_of(heap).moves < CACHES * STEPS / 2);
    check(heap);
    for (size_t i = 0; i < CACHES; i++) {
        assert_true(is_intact(caches[i], i, size));
        assert_int_equal(weir_heap_free(heap, caches[i]), WEIR_OK);
    }
    end_heap(heap);
}

/* Each growth in place adds a part to the block. At the greatest number of parts the block moves, and has one part
 * again. */
TEST(many_small_steps)
{
    weir_heap *heap = heap_with(0, 0, 0);
    size_t size = 16 * KIB;
    unsigned char *block = weir_heap_alloc_long_lived(heap, size, 0); /* this source has no caches of threads */
    fill(block, 0, 0, size);
    for (int step = 0; step < 1000; step++) {
        block = weir_heap_realloc(heap, block, size + 4 * KIB);
        assert_non_null(block);
        fill(block, 0, size, size + 4 * KIB);
        size += 4 * KIB;
        assert_int_equal(stats_of(heap).live_bytes, size);
        assert_int_equal(stats_of(heap).long_lived_bytes, size);
    }
    assert_true(stats_of(heap).moves >= 10 && stats_of(heap).moves <= 20);
    assert_true(is_intact(block, 0, size));
    assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
    end_heap(heap);
}

/* Under a limit, a block grows in place if there is no room for a copy. If there is no room at all, it keeps its
 * size. */
TEST(at_the_limit)
{
    weir_heap *heap = heap_with(16 * MIB, 0, 0);
    unsigned char *block = weir_heap_alloc(heap, 10 * MIB);
    fill(block, 0, 0, 10 * MIB);
    assert_ptr_equal(weir_heap_realloc(heap, block, 15 * MIB), block);
    assert_null(weir_heap_realloc(heap, block, 17 * MIB));
    assert_null(weir_heap_realloc(heap, block, SIZE_MAX));
    assert_int_equal(stats_of(heap).failures, 2);
    assert_true(weir_heap_usable_size(heap, block) == 15 * MIB);
    assert_true(is_intact(block, 0, 10 * MIB));
    check(heap);
    assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
    end_heap(heap);
}

/* Blocks that grow, shrink and go at random, in a heap that moves idle memory. */
TEST(at_random)
{
    enum { SLOTS = 40 };
    weir_heap *heap = heap_with(0, 0, 0);
    unsigned char *blocks[SLOTS] = {0};
    size_t sizes[SLOTS] = {0};
    uint64_t random = 7;
    for (int step = 0; step < 6000; step++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        const size_t slot = (size_t)(random >> 33) % SLOTS;
        const size_t size = (size_t)(8 * KIB << (random >> 45) % 7) + (size_t)(random >> 50) % 5000;
        if (blocks[slot] != NULL) {
            assert_true(is_intact(blocks[slot], slot, sizes[slot]));
        }
        if ((random >> 40) % 3 == 0) {
            assert_int_equal(weir_heap_free(heap, blocks[slot]), WEIR_OK);
            blocks[slot] = NULL;
            sizes[slot] = 0;
            continue;
        }
        const size_t kept = sizes[slot] < size ? sizes[slot] : size;
        blocks[slot] = weir_heap_realloc(heap, blocks[slot], size);
        assert_non_null(blocks[slot]);
        fill(blocks[slot], slot, kept, size);
        sizes[slot] = size;
        if (step % 500 == 0) {
            check(heap);
        }
    }
    const weir_heap_stats stats = stats_of(heap);
    assert_true(stats.moves < stats.reallocs); /* some have grown in place */
    for (size_t slot = 0; slot < SLOTS; slot++) {
        assert_int_equal(weir_heap_free(heap, blocks[slot]), WEIR_OK);
    }
    end_heap(heap);
}
