/* weir/mstx.h: telling Ascend's memory tools (msSanitizer, msMemScope, our own checker) what a pool does.
 *
 *     weir_mstx *mstx;
 *     weir_mstx_attach(pool, NULL, &mstx);       after weir_pool_create; without a tool this does nothing
 *     ...
 *     weir_pool_destroy(pool);
 *     weir_mstx_detach(mstx);                    or before the destroy
 *
 * A tool that watches device memory sees one large allocation where a pool hands out thousands of blocks. Through mstx the
 * pool says what it does: its memory is a heap, one for each piece that the device gave (a region; with virtual memory a
 * mapped granule), registered after the memory is there and withdrawn before it goes; each live block is a region of a heap,
 * or one region in each heap that it lies across, registered before its caller has it and withdrawn before anybody else can
 * get the memory. So every byte of every live block lies in exactly one region of a heap, at every moment.
 *
 * A tool is loaded by mstx's own rules: the environment variable MSTX_INJECTION_PATH names it, or it is preloaded. Without
 * one a pool runs exactly as if it were not attached. With one its front caches are off (weir/observer.h). A process that
 * runs with another user's rights (set-uid, file capabilities) ignores the variable.
 *
 * Thread safety: every function, for different attachments and for different pools.
 * Refusals: WEIR_ERR_INVALID, WEIR_ERR_BUSY and WEIR_ERR_UNSUPPORTED come with a sentence in weir_last_error.
 */
#ifndef WEIR_MSTX_H
#define WEIR_MSTX_H

#include <weir/base.h>
#include <weir/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_mstx weir_mstx; /* a pool that is being announced */

typedef struct weir_mstx_config {
    size_t struct_size;
    /* Letters, digits and '_', at most 1023 of them; NULL = "weir"; "" = the global domain. msSanitizer takes any name;
     * msMemScope listens to "atb", "mindsporeMemPool", "ptaCaching", "ptaWorkspace" and "msleaks" only, and counts what is
     * announced there as that library's. A domain is created once in a process and shared by all attachments that name it. */
    const char *domain;
    uint32_t device_id; /* the runtime's number of the pool's device */
    /* Announce of a block only the bytes that were asked for, so that the tool finds an access to the padding behind them.
     * Without it a region is what the caller may use: weir_block_capacity. */
    bool exact_sizes;
} weir_mstx_config;

#define WEIR_MSTX_CONFIG_INIT WEIR_STRUCT_INIT(weir_mstx_config)

/* Begins to announce the pool: what it has already, before this returns, and all that changes. NULL config = defaults.
 * Without a tool, *attachment is NULL and the result WEIR_OK; every function here takes that NULL.
 * WEIR_ERR_INVALID: NULL pool or attachment, a domain name that the tools would refuse (with or without a tool).
 * WEIR_ERR_BUSY: the pool is attached already. WEIR_ERR_UNSUPPORTED: config sets unknown members.
 * WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_mstx_attach(weir_pool *pool, const weir_mstx_config *config, weir_mstx **attachment);

/* Withdraws whatever is announced and ends the attachment, before or after the pool is destroyed. NULL is allowed.
 * WEIR_ERR_NO_MEMORY: it is ended, but something had not been announced, see `lost`. In a child of fork nothing is done or
 * told. */
WEIR_API weir_status weir_mstx_detach(weir_mstx *attachment);

typedef struct weir_mstx_counters {
    size_t struct_size;
    uint64_t heaps;   /* announced now */
    uint64_t regions; /* likewise */
    uint64_t lost;    /* heaps and blocks that were not announced for want of host memory, in whole or in part; they are
                         not withdrawn either, and the blocks work as usual */
    uint64_t refused; /* heaps that the tool turned down, and blocks not announced for that reason */
    bool deaf;        /* the tool does not listen to the domain: nothing is announced */
} weir_mstx_counters;

#define WEIR_MSTX_COUNTERS_INIT WEIR_STRUCT_INIT(weir_mstx_counters)

/* All zero for a NULL attachment. WEIR_ERR_INVALID: counters is NULL or has no struct_size. */
WEIR_API weir_status weir_mstx_stats(weir_mstx *attachment, weir_mstx_counters *counters);

/* Whether a tool that listens to memory is loaded. */
WEIR_API bool weir_mstx_has_tool(void);

#ifdef __cplusplus
}
#endif

#endif
