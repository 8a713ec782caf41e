/* weir/jemalloc.h: jemalloc as the engine of small blocks of a host pool; link weir::jemalloc.
 *
 * A pool with this engine has a jemalloc arena for each node, whose slabs are page runs of that node. jemalloc's own data
 * lies elsewhere, and its caches of threads end with the thread. A second free of a block is refused as with weir's own
 * classes: the pool itself marks the blocks that callers have. Bindings/host/README.md says how to build it.
 */
#ifndef WEIR_JEMALLOC_H
#define WEIR_JEMALLOC_H

#include <weir/host.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For the member `engine` of weir_host_pool_config. Creating the pool gives WEIR_ERR_UNSUPPORTED where the jemalloc of the
 * process cannot be used: it is older than 5.3, or keeps what it should return (its option retain is on). */
WEIR_API const weir_host_engine_ops *weir_host_jemalloc_engine(void);

#ifdef __cplusplus
}
#endif

#endif
