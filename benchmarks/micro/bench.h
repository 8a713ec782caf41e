/* bench.h: code that the programs of this folder share: the rows that they compare, a pool over a device that costs
 * nothing, a second thread, processor time.
 *
 * A benchmark that cannot be set up has no result, so a failure of these functions prints a line and ends the process.
 */
#ifndef WEIR_BENCHMARKS_BENCH_H
#define WEIR_BENCHMARKS_BENCH_H

#include <weir/pool.h>

#include "micro/null_device.h"
#include "replay/mallocs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Number of blocks that a pair workload allocates first; it then frees every second block, so that holes exist. */
#define BENCH_BLOCKS 64

/* --- rows --- */

enum bench_kind {
    BENCH_EMPTY,     /* no allocator: measures the loop alone */
    BENCH_POOL,      /* weir's pool with the row's strategy, over a device that costs nothing */
    BENCH_HEAP,      /* weir's heap of ordinary memory */
    BENCH_HOST,      /* weir's pool of pinned host memory; its memory may be unpinned where the process may not pin */
    BENCH_TLSF,      /* tlsf.h, without a lock: for one thread */
    BENCH_TLSF_SPIN, /* tlsf.h behind a spin lock */
    BENCH_MALLOC,    /* the malloc of the row's name */
};

/* One allocator that the programs measure. */
struct bench_row {
    const char *name;
    enum bench_kind kind;
    const weir_strategy_ops *(*strategy)(void); /* strategy of a pool */
    uint32_t flags;                             /* flags of weir_pool_config */
};

enum { BENCH_ROWS = 16 };
extern const struct bench_row bench_rows[BENCH_ROWS];

/* Finds a row by name; NULL if there is none. */
const struct bench_row *bench_row_find(const char *name);
/* True if several threads may use the row's allocator at the same time. */
bool bench_row_locks(const struct bench_row *row);

/* --- pools --- */

struct bench_pool {
    struct null_device *device;
    weir_pool *pool;
    weir_stream **streams;
    size_t stream_count;
};

/* Creates the pool of a row of kind BENCH_POOL, and its streams. `limit_bytes` is the limit of the pool; 0: none. */
void bench_pool_open(struct bench_pool *bench, const struct bench_row *row, uint64_t limit_bytes, size_t streams);
void bench_pool_close(struct bench_pool *bench);

/* --- the process --- */

/* Prints `failure` and ends the process with status 1 if the condition is false. */
void bench_require(bool fine, const char *failure);

/* Starts a thread that sleeps until the process ends: glibc omits atomic operations while a process has one thread. */
void bench_second_thread(void);

/* Returns the processor time of this process in ns. Unlike wall time it does not grow while other programs run. */
uint64_t bench_processor_ns(void);

#ifdef __cplusplus
}
#endif

#endif
