/* weir/budget.h: how much a pool may take, who holds what, and what to do when it runs short.
 *
 *     weir_pool_tag(pool, "kv cache", &kv);                         once; a tag is a small integer
 *     weir_pool_alloc_tagged(pool, stream, size, 0, kv, &block);    counted under the tag until it is freed
 *     weir_pool_set_limits(pool, 24 * GIB, 28 * GIB);               soft and hard, at any time
 *     weir_pool_would_fit(pool, stream, sizes, n, &fits, NULL);     before a request is admitted
 *     weir_pool_alloc_many(pool, stream, sizes, n, tag, blocks);    all of them or none
 *     weir_oom_format(&record, text, sizeof(text));                 a report that names what would help
 *
 * Above the soft limit a pool tries everything that keeps reserved memory below it before it takes more: waiting for
 * other streams, returning idle regions, and, once, the pressure callback. Above the hard limit it takes nothing.
 *
 * Thread safety: as in weir/pool.h.
 */
#ifndef WEIR_BUDGET_H
#define WEIR_BUDGET_H

#include <weir/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- tags --- */

/* The tag of that name: the same for the same name every time, from 1 up in the order of first use. It lives as long as
 * the pool. WEIR_ERR_INVALID: NULL or empty, WEIR_TAG_NAME_BYTES or longer, or a control character in the name.
 * WEIR_ERR_LIMIT: the pool has WEIR_TAGS tags, untagged included. WEIR_ERR_NO_MEMORY: no host memory. */
WEIR_API weir_status weir_pool_tag(weir_pool *pool, const char *name, weir_tag *tag);

/* Valid as long as the pool; "untagged" for 0, NULL for a tag that the pool does not have. */
WEIR_API const char *weir_pool_tag_name(const weir_pool *pool, weir_tag tag);

/* As weir_pool_alloc, counted under `tag` (0: under none) whatever the stream's own tag is. WEIR_ERR_INVALID also for a
 * tag that the pool does not have. */
WEIR_API weir_status weir_pool_alloc_tagged(weir_pool *pool, weir_stream *stream, uint64_t size, uint64_t align,
                                            weir_tag tag, weir_block **block);

/* What weir_pool_alloc counts under on this stream from now on; 0 = nothing, as at first. For callers in between that
 * know of no tags. WEIR_ERR_INVALID: NULL, a stream of another pool, or a tag that the pool does not have. */
WEIR_API weir_status weir_stream_set_tag(weir_pool *pool, weir_stream *stream, weir_tag tag);

/* One load. The block must be live. */
WEIR_API weir_tag weir_block_tag(const weir_block *block);

typedef struct weir_tag_stats {
    size_t struct_size;
    uint64_t allocs; /* that succeeded */
    uint64_t frees;
    uint64_t blocks;               /* live */
    uint64_t requested_bytes;      /* of live blocks, as asked */
    uint64_t peak_requested_bytes; /* exact with one stream; with several, and for 0, the highest value at a slow call */
} weir_tag_stats;

#define WEIR_TAG_STATS_INIT WEIR_STRUCT_INIT(weir_tag_stats)

/* Reads the counters of one tag; 0: of all blocks without one. Takes each stream's lock for a moment. WEIR_ERR_INVALID
 * for a tag that the pool does not have. */
WEIR_API weir_status weir_pool_tag_stats(weir_pool *pool, weir_tag tag, weir_tag_stats *stats);

/* --- limits --- */

/* Changes soft_limit_bytes and limit_bytes of the config; 0 = none. Regions that are wholly free and that nobody's work
 * can touch go back until the pool is within both; where that is not enough, nothing is taken until it is. Waits for a
 * device call under way in another thread. WEIR_ERR_INVALID: the soft limit is above the hard one.
 * WEIR_ERR_DEVICE: the device refused to take a region back; the limits are set all the same. */
WEIR_API weir_status weir_pool_set_limits(weir_pool *pool, uint64_t soft_limit_bytes, uint64_t limit_bytes);

/* --- groups --- */

/* Blocks of sizes[0..n-1], in this order and with the strategy's own alignment, all of them or none: blocks[i] are set on
 * success only. `tag` as in weir_pool_alloc_tagged. On failure what was taken is freed on the stream again; the pool may
 * have taken memory from the device for it, and weir_pool_oom tells of the first block that failed while those before it
 * were held. n = 0 succeeds. Errors as of weir_pool_alloc_tagged. */
WEIR_API weir_status weir_pool_alloc_many(weir_pool *pool, weir_stream *stream, const uint64_t *sizes, size_t n,
                                          weir_tag tag, weir_block **blocks);

/* Whether these n allocations on `stream`, in whatever order, would now all succeed, if need be by waiting for work and by
 * taking memory from the device. Takes nothing, waits for nothing, inserts no order.
 *
 * *fits true is a promise to a caller who is alone with the pool: whatever work completes meanwhile, each call succeeds,
 * as long as no host memory is missing, no device call fails, and the device gives what its capacity_bytes and the
 * pool's limit leave. (Of a device without a capacity and a pool without a limit nothing is expected; where pools share a
 * device, give each a limit.) False is exact for one block, unless the pool has virtual memory. For several it may be too
 * careful: each of them counts as one of the largest size, or on a new region of its own; with virtual memory each of
 * several counts one granule more than it is long. weir_pool_alloc_many gives the definite answer.
 * *missing_bytes, when not NULL: 0 when it fits, else by how much more what may be taken (the limit, or the device where
 * that is less) makes it a promise.
 * Cost: n log n, and a copy of the pool's ranges, which is made while other threads wait for the pool.
 * WEIR_ERR_INVALID as of weir_pool_alloc; WEIR_ERR_NO_MEMORY: no host memory to look. */
WEIR_API weir_status weir_pool_would_fit(weir_pool *pool, weir_stream *stream, const uint64_t *sizes, size_t n,
                                         bool *fits, uint64_t *missing_bytes);

/* --- out of memory --- */

/* Writes the record as lines for a person, each with its newline, and a NUL, as snprintf does: returns the length it
 * takes, which is at least `size` when it did not fit. */
WEIR_API size_t weir_oom_format(const weir_oom_record *record, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
