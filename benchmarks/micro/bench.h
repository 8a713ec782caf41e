/* bench.h: what the programs of this folder share: a pool over the simulator, other mallocs beside the process's own, all
 * of these as one kind of thing, a second thread, the processor's time.
 *
 * A benchmark that cannot be set up has nothing to report, so what fails here prints a line and ends the process.
 */
#ifndef WEIR_BENCHMARKS_BENCH_H
#define WEIR_BENCHMARKS_BENCH_H

#include <weir/pool.h>
#include <weir/sim.h>

#include "micro/workloads.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Blocks that the pair workloads allocate first; every second one is freed again, so that holes exist. */
#define BENCH_BLOCKS 64

#define BENCH_STREAMS 2

/* Of the simulated device: holds every workload, even with a region for each block. */
#define BENCH_CAPACITY_BYTES (UINT64_C(4) << 40)

/* A pool on a simulated device that hands out addresses only and is not audited. */
struct bench_pool {
    weir_sim *sim;
    weir_pool *pool;
    weir_stream *streams[BENCH_STREAMS];
};

/* `flags` and the limit are those of weir_pool_config. */
void bench_pool_open(struct bench_pool *bench, const weir_strategy_ops *strategy, uint32_t flags,
                     uint64_t limit_bytes);
void bench_pool_close(struct bench_pool *bench);

struct bench_malloc {
    void *(*alloc)(size_t size);
    void (*free)(void *pointer);
};

/* The mallocs by name: glibc (the process's own, as pointers, so that it is called the way the others are and no compiler
 * removes the calls), jemalloc, mimalloc and tcmalloc, which are loaded so that nobody else in the process uses them.
 * False, and *why says so, when that is not possible. */
bool bench_malloc_find(const char *name, struct bench_malloc *found, const char **why);

/* Starts the program anew if that is what loading the mallocs needs: thread-local data of jemalloc wants more room than
 * glibc sets aside for libraries that come late, and glibc reads that number at the start only. Call it first in main. */
void bench_mallocs_prepare(char **arguments);

/* What is measured: a strategy behind a pool, a malloc, or (neither) nothing at all, to see what the loop costs. */
struct bench_contender {
    const char *name;
    const weir_strategy_ops *(*strategy)(void);
    uint32_t flags;       /* of weir_pool_config */
    uint64_t limit_bytes; /* likewise */
    bool host;            /* the malloc of that name */
};

enum { BENCH_CONTENDERS = 12 };
extern const struct bench_contender bench_contenders[BENCH_CONTENDERS];

/* A contender at work. Each stream has a user. */
struct bench_allocator {
    const struct bench_contender *contender;
    struct bench_pool pool;
    struct bench_malloc host;
    struct bench_handle {
        weir_pool *pool;
        weir_stream *stream;
    } handles[BENCH_STREAMS];
};

/* False, and *why says so, for a malloc that is not there. */
bool bench_allocator_open(struct bench_allocator *allocator,
                          const struct bench_contender *contender, const char **why);
void bench_allocator_close(struct bench_allocator *allocator);
/* Borrowed from the allocator. */
struct workload_user bench_allocator_user(struct bench_allocator *allocator, size_t stream);

/* Starts a thread that sleeps until the process ends: glibc leaves atomics out while a process has one thread. */
void bench_second_thread(void);

/* Processor time of this process in ns: unlike wall time it does not grow while other programs have the processor. */
uint64_t bench_processor_ns(void);

#ifdef __cplusplus
}
#endif

#endif
