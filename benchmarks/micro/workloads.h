/* workloads.h: the operations that the programs of this folder run on an allocator, generated before the measurement.
 *
 *     pair512, pair1M   64 blocks of 512 bytes (1 MiB) of which every second one is freed again, so that holes exist;
 *                       then one block is allocated and freed again and again
 *     mix1k, mix100k    1,000 (100,000) live blocks; a step frees a random one and allocates a size drawn log-uniformly
 *                       from 512 bytes to 64 MiB
 *     mix1M             1,000,000 live blocks, sizes up to 1 MiB, otherwise like mix1k
 *     live10, live100, live1k, live10k, live100k
 *                       mix1M with fewer live blocks: cost should not depend on their number
 *     infer             steps of a transformer with 24 layers of width 1,024 whose sequence walks between 256 and 4,096
 *                       tokens by up to 64 a step: 315 blocks a step, most of which live for a part of a layer, and
 *                       blocks of keys and values that live 1 to 31 steps
 *     phases100, phases1k, phases10k
 *                       phases of 640 live blocks of 4 KiB to 1 MiB and of 10 live blocks of 2 to 32 MiB in turn, with
 *                       100 (1,000, 10,000) replacements in each, until there were 100,000 (in at least 20 phases); a
 *                       phase ends by freeing all its blocks
 *     log1k, log10k     60,000 operations: 1,000 (10,474) live blocks as in mix1k, sizes up to 32 MiB
 *     uniform1k, uniform11k
 *                       like log1k, with 1,000 (11,091) live blocks and sizes drawn uniformly up to 1 MiB
 *
 * Guarantee: the same name and seed give the same operations on every machine. The operations from `start` on can be
 * repeated any number of times: they free only live blocks, and each pass ends with the live blocks that it began with.
 */
#ifndef WEIR_BENCHMARKS_WORKLOADS_H
#define WEIR_BENCHMARKS_WORKLOADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An operation: allocates `size` bytes as block number `slot` or, with size 0, frees the block of that number. */
struct workload_op {
    uint32_t slot;
    uint32_t size;
};

/* The operations of a workload. (count - start) is a multiple of batch_ops; each batch_ops operations of
 * ops[start..count) hold batch_pairs allocs and as many frees. peak_bytes is the peak of the requested live bytes in
 * one pass through all operations. */
struct workload {
    struct workload_op *ops;
    size_t count;
    /* index of the first measured operation; the operations before it lay out blocks and warm up the allocator */
    size_t start;
    size_t batch_ops;
    uint64_t batch_pairs;
    uint32_t slots;
    /* for pair512 and pair1M, which end at `start`: size of the block that a benchmark then allocates and frees */
    uint32_t pair_bytes;
    uint64_t peak_bytes;
};

/* The allocator on which a workload runs. */
struct workload_user {
    void *(*alloc)(void *ctx, uint64_t size); /* NULL: refused */
    void (*free)(void *ctx, void *block);
    void *ctx;
};

/* Makes a workload. Returns false for an unknown name, or when out of memory. Times are measured with seed 1. */
bool workload_make(const char *name, uint64_t seed, struct workload *workload);
void workload_free(struct workload *workload);

/* Runs the operations ops[from..to). blocks[slot] is the live block of that number, or NULL. Returns false at the first
 * request that is refused. */
bool workload_play(const struct workload *workload, size_t from, size_t to, void **blocks,
                   const struct workload_user *user);
/* Frees the remaining blocks. */
void workload_clear(const struct workload *workload, void **blocks, const struct workload_user *user);

#ifdef __cplusplus
}
#endif

#endif
