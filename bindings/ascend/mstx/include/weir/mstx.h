/* weir/mstx.h: announces a pool's memory to Ascend's memory tools (msSanitizer, msMemScope, weir's own checker).
 *
 *     weir_mstx *mstx;
 *     weir_mstx_attach(pool, NULL, &mstx);       after weir_pool_create; without a tool this does nothing
 *     ...
 *     weir_pool_destroy(pool);
 *     weir_mstx_detach(mstx);                    or before the destroy
 *
 * A tool that observes device memory sees one large allocation where a pool hands out thousands of blocks. Through mstx
 * the pool announces them. Each piece of memory from the device (a region; with virtual memory a mapped granule) is a
 * heap: it is registered after the memory exists and withdrawn before the memory goes back. Each live block is a region
 * of a heap, or one region in each heap that it overlaps: it is registered before its caller has the block and
 * withdrawn before the memory can be handed out again. So at every moment every byte of every live block lies in
 * exactly one region of a heap.
 *
 * A tool is loaded by mstx's own rules: the environment variable MSTX_INJECTION_PATH names it, or it is preloaded.
 * Without a tool a pool runs exactly as if it were not attached. With a tool its front caches are off
 * (weir/observer.h). A process that runs with another user's rights (set-uid, file capabilities) ignores the variable.
 *
 * Thread safety: functions may be called from any thread, for different attachments and for different pools.
 * Errors: WEIR_ERR_INVALID, WEIR_ERR_BUSY and WEIR_ERR_UNSUPPORTED come with a sentence in weir_last_error.
 */
#ifndef WEIR_MSTX_H
#define WEIR_MSTX_H

#include <weir/base.h>
#include <weir/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_mstx weir_mstx; /* an attachment: a pool that is announced */

typedef struct weir_mstx_config {
    size_t struct_size;
    /* Letters, digits and '_', at most 1023 of them; NULL = "weir"; "" = the global domain. msSanitizer accepts any
     * name. msMemScope accepts "atb", "mindsporeMemPool", "ptaCaching", "ptaWorkspace" and "msleaks" only, and
     * attributes the memory to the library of that name. A domain is created once in a process and shared by all
     * attachments that name it. */
    const char *domain;
    uint32_t device_id; /* the runtime's number of the pool's device */
    /* Announce only the requested bytes of a block, so that the tool finds an access to the padding after them.
     * Otherwise a region covers all usable bytes: weir_block_capacity. */
    bool exact_sizes;
} weir_mstx_config;

#define WEIR_MSTX_CONFIG_INIT WEIR_STRUCT_INIT(weir_mstx_config)

/* Starts to announce the pool: its present memory and blocks, before this call returns, and all changes. NULL config =
 * defaults. Without a tool, *attachment is NULL and the result WEIR_OK; every function here accepts that NULL.
 * WEIR_ERR_INVALID: `pool` or `attachment` is NULL, or the tools would refuse the domain name (checked with or without
 * a tool). WEIR_ERR_BUSY: the pool is attached already. WEIR_ERR_UNSUPPORTED: config sets unknown members.
 * WEIR_ERR_NO_MEMORY: no host memory. */
WEIR_API weir_status weir_mstx_attach(weir_pool *pool, const weir_mstx_config *config, weir_mstx **attachment);

/* Withdraws all announcements from the tool and frees the attachment. The caller may destroy the pool before or after.
 * NULL is allowed. WEIR_ERR_NO_MEMORY: the attachment is freed, but weir had not announced some memory to the tool, see
 * `lost`. Does nothing in a child of fork. */
WEIR_API weir_status weir_mstx_detach(weir_mstx *attachment);

typedef struct weir_mstx_stats {
    size_t struct_size;
    uint64_t heaps;   /* announced now */
    uint64_t regions; /* announced now */
    uint64_t lost;    /* heaps and blocks not announced, in whole or in part, for lack of host memory, and so not
                       * withdrawn; the blocks work as usual */
    uint64_t refused; /* heaps that the tool refused, and blocks that weir could not announce because of that */
    bool no_listener; /* the tool does not know the domain: nothing is announced */
} weir_mstx_stats;

#define WEIR_MSTX_STATS_INIT WEIR_STRUCT_INIT(weir_mstx_stats)

/* Copies the counters; all zero for a NULL attachment. WEIR_ERR_INVALID: counters is NULL or has no struct_size. */
WEIR_API weir_status weir_mstx_get_stats(weir_mstx *attachment, weir_mstx_stats *counters);

/* Returns true if a tool that takes memory announcements is loaded. */
WEIR_API bool weir_mstx_has_tool(void);

#ifdef __cplusplus
}
#endif

#endif
