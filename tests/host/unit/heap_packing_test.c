/* tests/host/unit/heap_packing_test.c: a heap holds little more than its live bytes as requested, also after blocks of
 * random sizes have been replaced in random order. A small block that stays keeps little memory. */
#include "rig/heap.h"

#include <stdlib.h>

enum { LIVE_BYTES = 16 << 20, ROUNDS = 2 };

struct blocks {
    weir_heap *heap;
    uint32_t least;
    uint32_t most;
    void **at;
    uint32_t *sizes;
    size_t count;
    uint64_t bytes; /* as requested */
    uint64_t seed;
};

static uint32_t next(uint64_t *seed, uint64_t below)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1;
    return (uint32_t)((*seed >> 33) % below);
}

static void put(struct blocks *b, size_t i)
{
    b->sizes[i] = b->least + next(&b->seed, b->most - b->least + 1);
    b->at[i] = weir_heap_alloc(b->heap, b->sizes[i]);
    assert_non_null(b->at[i]);
    b->bytes += b->sizes[i];
}

static void take(struct blocks *b, size_t i)
{
    assert_int_equal(weir_heap_free(b->heap, b->at[i]), WEIR_OK);
    b->bytes -= b->sizes[i];
}

static void fill(struct blocks *b, uint32_t least, uint32_t most)
{
    const size_t room = LIVE_BYTES / least + 1;
    *b = (struct blocks){.heap = heap_with(0, 0, 0), .least = least, .most = most, .seed = 1};
    b->at = malloc(room * sizeof(*b->at));
    b->sizes = malloc(room * sizeof(*b->sizes));
    assert_true(b->at != NULL && b->sizes != NULL);
    while (b->bytes < LIVE_BYTES) {
        put(b, b->count++);
    }
}

static void end(struct blocks *b)
{
    for (size_t i = 0; i < b->count; i++) {
        take(b, i);
    }
    end_heap(b->heap);
    free(b->at);
    free(b->sizes);
}

static uint64_t held_percent(const struct blocks *b)
{
    return stats_of(b->heap).held_bytes * 100 / b->bytes;
}

/* The sizes are rounded up by a twentieth on average; the rest is in slabs that are full in part, in caches, and in
 * free memory below the mark of the pool. */
TEST(test_small_and_middle_blocks_are_packed)
{
    static const uint32_t ranges[][2] = {
        {500, 1500}, {4000, 9000}, {8 << 10, 16 << 10}, {20000, 60000}, {70000, 200000}};
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        struct blocks b;
        fill(&b, ranges[i][0], ranges[i][1]);
        assert_in_range(held_percent(&b), 100, 109);
        for (size_t step = 0; step < ROUNDS * b.count; step++) {
            const size_t at = next(&b.seed, b.count);
            take(&b, at);
            put(&b, at);
        }
        assert_in_range(held_percent(&b), 100, 119);
        end(&b);
    }
}

/* A block that stays keeps one chunk, and not a slab that is as large as its class would need. */
TEST(test_a_live_block_keeps_a_chunk)
{
    enum { EACH = 16384, CHUNK = 64 << 10 };
    struct blocks b;
    size_t kept = 0;
    fill(&b, 16, 16);
    for (size_t i = 0; i < b.count; i++) {
        if (i % EACH == 0) {
            b.at[kept++] = b.at[i];
        } else {
            take(&b, i);
        }
    }
    b.count = kept;
    assert_int_equal(weir_heap_trim(b.heap, 0, NULL), WEIR_OK);
    assert_in_range(stats_of(b.heap).held_bytes, kept * 16, kept * CHUNK + MIB);
    end(&b);
}
