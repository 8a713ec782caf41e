/* workloads.h: what the programs of this folder ask of an allocator, written down before it is measured.
 *
 *     pair512, pair1M   64 blocks of 512 bytes (1 MiB) of which every second one is freed again, so that holes exist;
 *                       then one block is allocated and freed, over and over
 *     mix1k, mix100k    1,000 (100,000) live blocks; a step frees a random one and allocates a size drawn log-uniformly
 *                       from 512 bytes to 64 MiB
 *     mix1M             1,000,000 live blocks, sizes up to 1 MiB, otherwise the same
 *     live10, live100, live1k, live10k, live100k
 *                       mix1M with fewer live blocks: cost should not depend on how many there are
 *     infer             steps of a transformer with 24 layers of width 1,024 whose sequence walks between 256 and 4,096
 *                       tokens by up to 64 a step: 315 blocks a step, most of which live for a part of a layer, and
 *                       blocks of keys and values that live 1 to 31 steps
 *     log1k, log10k     60,000 operations: 1,000 (10,474) live blocks as in mix1k, sizes up to 32 MiB
 *     uniform1k, uniform11k
 *                       the same with 1,000 (11,091) live blocks and sizes drawn uniformly up to 1 MiB
 *
 * Guarantee: the same name and seed give the same operations everywhere. What follows `start` can be played over and
 * over: it frees nothing that it does not find and leaves no more than it found.
 */
#ifndef WEIR_BENCHMARKS_WORKLOADS_H
#define WEIR_BENCHMARKS_WORKLOADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Allocates `size` bytes into the empty slot, or with size 0 frees what is in it. */
struct workload_op {
    uint32_t slot;
    uint32_t size;
};

/* (count - start) is a multiple of batch_ops; ops[start..count) hold batch_pairs allocs, and as many frees, in every
 * batch_ops of them. peak_bytes: of live blocks, as asked, in one pass through all operations. */
struct workload {
    struct workload_op *ops;
    size_t count;
    size_t start; /* before it blocks are laid out and the allocator is warmed up */
    size_t batch_ops;
    uint64_t batch_pairs;
    uint32_t slots;
    uint32_t pair_bytes; /* of pair512 and pair1M, which end at `start`: the size of the block that comes and goes */
    uint64_t peak_bytes;
};

/* An allocator as a workload sees it. */
struct workload_user {
    void *(*alloc)(void *ctx, uint64_t size); /* NULL: refused */
    void (*free)(void *ctx, void *block);
    void *ctx;
};

/* False for a name that does not exist, or without memory. Times are measured with seed 1. */
bool workload_make(const char *name, uint64_t seed, struct workload *workload);
void workload_free(struct workload *workload);

/* Does ops[from..to). `blocks`, one for each slot, holds what is live; NULL is an empty slot. Stops and returns false
 * where a request is refused. */
bool workload_play(const struct workload *workload, size_t from, size_t to, void **blocks,
                   const struct workload_user *user);
/* Frees what is left. */
void workload_clear(const struct workload *workload, void **blocks,
                    const struct workload_user *user);

#ifdef __cplusplus
}
#endif

#endif
