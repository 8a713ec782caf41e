/* weir/budget.h: limits and tags of a pool, groups of blocks, and reports of failed requests.
 *
 *     weir_pool_tag(pool, "kv cache", &kv);                         once; a tag is a small integer
 *     weir_pool_alloc_tagged(pool, stream, size, 0, kv, &block);    counted under the tag until it is freed
 *     weir_pool_set_limits(pool, 24 * GIB, 28 * GIB);               soft and hard, at any time
 *     weir_pool_would_fit(pool, stream, size, n, &fit);             before a request is admitted
 *     weir_pool_alloc_many(pool, stream, sizes, n, tag, blocks);    all of them or none
 *     weir_oom_explain(&record, text, sizeof(text));                 a report that names the remedies
 *
 * Before a pool exceeds the soft limit, it tries every way that keeps reserved memory below it: waiting for other
 * streams, returning idle regions, and, once, the pressure callback. A pool never exceeds the hard limit.
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

/* Returns the tag of a name: the same tag for the same name every time, numbered from 1 in the order of first use. The
 * tag lives as long as the pool. Returns WEIR_ERR_INVALID if an argument is NULL, or if the name is empty, has
 * WEIR_TAG_NAME_BYTES bytes or more, or contains a control character; WEIR_ERR_LIMIT if the pool has WEIR_TAGS tags,
 * untagged included; WEIR_ERR_NO_MEMORY if there is no host memory. */
WEIR_API weir_status weir_pool_tag(weir_pool *pool, const char *name, weir_tag *tag);

/* Returns the name of a tag: "untagged" for 0, NULL for a tag that the pool does not have. The string is valid as long
 * as the pool. */
WEIR_API const char *weir_pool_tag_name(const weir_pool *pool, weir_tag tag);

/* Allocates as weir_pool_alloc, and counts the block under `tag` (0: under no tag), whatever the stream's own tag is.
 * Also returns WEIR_ERR_INVALID for a tag that the pool does not have. */
WEIR_API weir_status weir_pool_alloc_tagged(weir_pool *pool, weir_stream *stream, uint64_t size, uint64_t align,
                                            weir_tag tag, weir_block **block);

/* Sets the stream's own tag: from now on weir_pool_alloc on this stream counts blocks under `tag`. 0 = no tag, the
 * default. For callers that allocate through code without tags. Returns WEIR_ERR_INVALID if a handle is NULL, the
 * stream belongs to another pool, or the pool does not have the tag. */
WEIR_API weir_status weir_stream_set_tag(weir_pool *pool, weir_stream *stream, weir_tag tag);

/* Returns the tag of a live block. Costs one load. */
WEIR_API weir_tag weir_block_tag(const weir_block *block);

typedef struct weir_tag_stats {
    size_t struct_size;
    uint64_t allocs; /* successful allocs */
    uint64_t frees;
    uint64_t blocks;               /* live */
    uint64_t requested_bytes;      /* bytes requested, of live blocks */
    uint64_t peak_requested_bytes; /* exact if the pool has one stream and the tag is not 0; otherwise the highest
                                      value at a slow-path call */
} weir_tag_stats;

#define WEIR_TAG_STATS_INIT WEIR_STRUCT_INIT(weir_tag_stats)

/* Copies the counters of one tag into *stats. Tag 0 counts all blocks without a tag. Takes the stream locks one after
 * the other. Returns WEIR_ERR_INVALID for a tag that the pool does not have. */
WEIR_API weir_status weir_pool_get_tag_stats(weir_pool *pool, weir_tag tag, weir_tag_stats *stats);

/* --- limits --- */

/* Changes soft_limit_bytes and limit_bytes of the config; 0 = none. The pool returns wholly free regions that no queued
 * work can touch until it is within both limits. If that is not enough, the pool takes no memory until it is within the
 * limits. Waits for a device call of another thread that has begun. Returns WEIR_ERR_INVALID if the soft limit is above
 * the hard limit; WEIR_ERR_DEVICE if the device refused to take a region back: the new limits are set even then. */
WEIR_API weir_status weir_pool_set_limits(weir_pool *pool, uint64_t soft_limit_bytes, uint64_t limit_bytes);

/* --- groups --- */

/* Allocates n blocks of sizes[0..n-1], in this order and with the strategy's own alignment: all of them or none.
 * blocks[i] are set on success only. `tag` is as in weir_pool_alloc_tagged. n = 0 succeeds. If one block fails, the
 * call frees the earlier ones on the stream. The pool may have taken memory from the device for them, and
 * weir_pool_get_oom then describes the first block that failed, with the blocks before it still live. Returns errors as
 * weir_pool_alloc_tagged. */
WEIR_API weir_status weir_pool_alloc_many(weir_pool *pool, weir_stream *stream, const uint64_t *sizes, size_t n,
                                          weir_tag tag, weir_block **blocks);

/* Stores in *fit how many of `count` allocations of `size` bytes on `stream`, with the strategy's own alignment, would
 * now certainly succeed, if necessary after waits for work and with new memory from the device. The call takes no
 * memory, waits for no work and inserts no stream wait.
 *
 * *fit is a promise if the caller is the only user of the pool: whichever work completes meanwhile, so many allocations
 * succeed, if there is enough host memory, no device call fails, and the device gives all memory that its
 * capacity_bytes and the pool's limit leave, and that it tells to be free now (memory_info): what other pools and
 * processes hold is not counted on, but they may take more meanwhile. (If the device has no known capacity and the pool
 * has no limit, the promise counts on no more memory than the pool holds.)
 *
 * More may succeed than *fit says: weir_pool_alloc_many gives the definite answer. The pool looks at its 128 largest
 * pieces of free memory (of each lane in turn), and each counts for itself, also where neighbours would serve a request
 * together. Blocks in front caches count on the asking stream only. Memory of a region without live blocks may go back
 * to the device on the way, so it counts as new memory, and a new region may serve as few requests as possible.
 * core/DESIGN.md has the shares that were promised.
 *
 * Cost: memory_info of the device, which other threads do not wait for, and some thousand instructions, however many
 * blocks and how much memory the pool has; other threads wait meanwhile.
 * Returns WEIR_ERR_INVALID as weir_pool_alloc, and if `fit` is NULL. */
WEIR_API weir_status weir_pool_would_fit(weir_pool *pool, weir_stream *stream, uint64_t size, uint64_t count,
                                         uint64_t *fit);

/* --- out of memory --- */

/* Formats the record as lines of text, each with its newline, and a NUL. Works like snprintf: returns the length of the
 * whole text, which is at least `size` if the text did not fit. */
WEIR_API size_t weir_oom_explain(const weir_oom_record *record, char *text, size_t size);

/* Sets cause and text of a record from its other members. A pool has done so in its own records; this is for a program
 * that fills in the record of another allocator: at least size, reserved_bytes, requested_bytes, live_bytes, free_bytes
 * and region_asked_bytes. If `size` is 0, the record is a survey. */
WEIR_API void weir_oom_judge(weir_oom_record *record);

/* Describes the pool as it is now in *record, as if a request of 0 bytes on `stream` had failed: sums, holders, lanes,
 * regions; cause and text name the parts of the reserved memory. There is no advice. `failure` is 0, and
 * weir_oom_explain formats it too. Takes
 * the pool's lock, for a time that is linear in the ranges. Returns WEIR_ERR_INVALID if an argument is NULL or the
 * stream belongs to another pool; WEIR_ERR_NO_MEMORY if there is no host memory. */
WEIR_API weir_status weir_pool_survey(weir_pool *pool, weir_stream *stream, weir_oom_record *record);

#ifdef __cplusplus
}
#endif

#endif
