/* bench.h: what the programs of this folder share: a pool over the simulator, jemalloc beside the process's own malloc,
 * a second thread, the processor's time.
 *
 * A benchmark that cannot be set up has nothing to report, so what fails here prints a line and ends the process.
 */
#ifndef WEIR_BENCHMARKS_BENCH_H
#define WEIR_BENCHMARKS_BENCH_H

#include <weir/pool.h>
#include <weir/sim.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Blocks that the pair workloads allocate first; every second one is freed again, so that holes exist. */
#define BENCH_BLOCKS 64

#define BENCH_STREAMS 2

/* A pool on a simulated device that hands out addresses only and is not audited. */
struct bench_pool {
    weir_sim *sim;
    weir_pool *pool;
    weir_stream *streams[BENCH_STREAMS];
};

/* `flags` are those of weir_pool_config. */
void bench_pool_open(struct bench_pool *bench, const weir_strategy_ops *strategy, uint32_t flags);
void bench_pool_close(struct bench_pool *bench);

struct bench_malloc {
    void *(*alloc)(size_t size);
    void (*free)(void *pointer);
};

/* The process's own malloc, as pointers, so that it is called the way jemalloc is and no compiler removes the calls. */
struct bench_malloc bench_glibc(void);

/* jemalloc, loaded so that nobody else in the process uses it. False, and *why says so, when that is not possible. */
bool bench_jemalloc(struct bench_malloc *jemalloc, const char **why);

/* Starts the program anew if that is what loading jemalloc needs: its thread-local data wants more room than glibc
 * sets aside for libraries that come late, and glibc reads that number at the start only. Call it first in main. */
void bench_jemalloc_prepare(char **arguments);

/* Starts a thread that sleeps until the process ends: glibc leaves atomics out while a process has one thread. */
void bench_second_thread(void);

/* Processor time of this process in ns: unlike wall time it does not grow while other programs have the processor. */
uint64_t bench_processor_ns(void);

#ifdef __cplusplus
}
#endif

#endif
