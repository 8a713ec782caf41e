/* pair_once.c: does the pairs of pair.cc a given number of times and measures nothing: `instructions` runs it under
 * callgrind. The difference between a run of N and one of 2N pairs is N pairs, free of setup and end.
 *
 *     micro_pair_once ALLOCATOR SIZE PAIRS    ALLOCATOR as in pair.cc; without arguments: their names
 */
#include <weir/caching.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "micro/bench.h"
#include "models/pytorch.h"

static void require(bool fine)
{
    if (!fine) {
        abort();
    }
}

static void run_empty(uint64_t pairs)
{
    for (uint64_t i = 0; i < pairs; i++) {
        __asm__ volatile("" : : "r"(i) : "memory");
    }
}

static weir_block *take(const struct bench_pool *bench, uint64_t size)
{
    weir_block *block = NULL;
    require(weir_pool_alloc(bench->pool, bench->streams[0], size, 0, &block) == WEIR_OK);
    return block;
}

static void give(const struct bench_pool *bench, weir_block *block)
{
    require(weir_pool_free(bench->pool, block, bench->streams[0]) == WEIR_OK);
}

static void run_pool(const weir_strategy_ops *strategy, uint32_t flags, uint64_t size,
                     uint64_t pairs)
{
    struct bench_pool bench;
    weir_block *blocks[BENCH_BLOCKS];
    bench_pool_open(&bench, strategy, flags);
    for (size_t i = 0; i < BENCH_BLOCKS; i++) {
        blocks[i] = take(&bench, size);
    }
    for (size_t i = 0; i < BENCH_BLOCKS; i += 2) {
        give(&bench, blocks[i]);
    }
    for (uint64_t i = 0; i < pairs; i++) {
        give(&bench, take(&bench, size));
    }
    bench_pool_close(&bench);
}

static void run_malloc(struct bench_malloc host, uint64_t size, uint64_t pairs)
{
    void *blocks[BENCH_BLOCKS];
    for (size_t i = 0; i < BENCH_BLOCKS; i++) {
        blocks[i] = host.alloc(size);
        require(blocks[i] != NULL);
    }
    for (size_t i = 0; i < BENCH_BLOCKS; i += 2) {
        host.free(blocks[i]);
    }
    for (uint64_t i = 0; i < pairs; i++) {
        void *block = host.alloc(size);
        require(block != NULL);
        host.free(block);
    }
    for (size_t i = 1; i < BENCH_BLOCKS; i += 2) {
        host.free(blocks[i]);
    }
}

static bool run(const char *allocator, uint64_t size, uint64_t pairs)
{
    const char *why = NULL;
    struct bench_malloc jemalloc;
    if (strcmp(allocator, "empty_loop") == 0) {
        run_empty(pairs);
    } else if (strcmp(allocator, "caching") == 0) {
        run_pool(weir_caching_strategy(), 0, size, pairs);
    } else if (strcmp(allocator, "caching_no_front_cache") == 0) {
        run_pool(weir_caching_strategy(), WEIR_POOL_NO_FRONT_CACHE, size, pairs);
    } else if (strcmp(allocator, "caching_single_threaded") == 0) {
        run_pool(weir_caching_strategy(), WEIR_POOL_SINGLE_THREADED, size, pairs);
    } else if (strcmp(allocator, "pytorch_model") == 0) {
        run_pool(model_pytorch_strategy(), 0, size, pairs);
    } else if (strcmp(allocator, "glibc") == 0) {
        run_malloc(bench_glibc(), size, pairs);
    } else if (strcmp(allocator, "jemalloc") == 0) {
        if (!bench_jemalloc(&jemalloc, &why)) {
            (void)fprintf(stderr, "jemalloc: %s\n", why);
            return false;
        }
        run_malloc(jemalloc, size, pairs);
    } else {
        (void)fprintf(stderr, "no allocator \"%s\"\n", allocator);
        return false;
    }
    return true;
}

int main(int count, char **arguments)
{
    if (count != 4) {
        (void)puts(
            "empty_loop caching caching_no_front_cache caching_single_threaded pytorch_model "
            "glibc jemalloc");
        return count == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    if (strcmp(arguments[1], "jemalloc") == 0) {
        bench_jemalloc_prepare(arguments);
    }
    bench_second_thread();
    const uint64_t size = strtoull(arguments[2], NULL, 10);
    const uint64_t pairs = strtoull(arguments[3], NULL, 10);
    return run(arguments[1], size, pairs) ? EXIT_SUCCESS : EXIT_FAILURE;
}
