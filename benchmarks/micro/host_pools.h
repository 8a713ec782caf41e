/* host_pools.h: the allocators that the host programs of this folder compare: weir's host pool with each of its
 * engines, mallocs, and pinning each block separately.
 *
 * A pool takes the best pinned memory that the process may have (mlock, since there is no runtime), on the calling
 * thread's node. As in bench.h, a failure to set up ends the process.
 */
#ifndef WEIR_BENCHMARKS_HOST_POOLS_H
#define WEIR_BENCHMARKS_HOST_POOLS_H

#include <weir/heap.h>
#include <weir/host.h>

#include "micro/bench.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    HOST_WEIR,
    HOST_WEIR_JEMALLOC,
    HOST_HEAP,
    HOST_GLIBC,
    HOST_JEMALLOC,
    HOST_MIMALLOC,
    HOST_TCMALLOC,
    HOST_PIN_EACH,
    HOST_CONTENDERS
};
extern const char *const host_contender_names[HOST_CONTENDERS];

/* An open allocator of the comparison. Any thread may call alloc and free; alloc never returns NULL. */
struct host_contender {
    void *(*alloc)(struct host_contender *self, uint64_t size);
    void (*free)(struct host_contender *self, void *block, uint64_t size);
    weir_host_pool *pool;
    weir_heap *heap;
    struct malloc_functions functions;
};

/* Opens an allocator of the comparison. If this machine lacks it, returns false with the reason in *why. */
bool host_contender_open(struct host_contender *contender, int which, const char **why);
void host_contender_close(struct host_contender *contender);
/* Returns the engine's function table; NULL if the engine was not built. */
const weir_host_engine_ops *host_engine(int which);

#ifdef __cplusplus
}
#endif

#endif
