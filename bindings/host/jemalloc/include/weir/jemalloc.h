/* weir/jemalloc.h: jemalloc as the engine of small blocks of a host pool; link weir::jemalloc.
 *
 * A pool with this engine has a jemalloc arena for each node. The arena's slabs are page runs of that node. jemalloc's
 * own data lies elsewhere, and its thread caches end with their thread. A double free of a block is refused as with
 * weir's own classes, because the pool itself marks live blocks. bindings/host/pool/README.md says how to build it.
 */
#ifndef WEIR_JEMALLOC_H
#define WEIR_JEMALLOC_H

#include <weir/host.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the engine for the member `engine` of weir_host_pool_config. weir_host_pool_create returns
 * WEIR_ERR_UNSUPPORTED if the process's jemalloc is older than 5.3, does not return memory (its option retain is on),
 * or has pages of more than 32 KiB (Debian's for ARM64). */
WEIR_API const weir_host_engine_ops *weir_host_jemalloc_engine(void);

#ifdef __cplusplus
}
#endif

#endif
