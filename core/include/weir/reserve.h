/* weir/reserve.h: blocks of addresses whose memory comes and goes in parts.
 *
 * weir_pool_reserve takes addresses and no memory. weir_pool_commit puts memory under a part of them,
 * weir_pool_decommit gives the memory of a part back, at any offset, in whole units. So a KV cache has one address for
 * as long as the engine runs, and as much memory as its requests need now.
 *
 *     weir_pool_reserve(pool, stream, 64 * GIB, 0, kv_cache, &block);       addresses
 *     weir_pool_commit(pool, block, page * unit, unit, stream);             memory, before the work that uses it
 *     ... queue work on the stream that uses the page ...
 *     weir_pool_decommit(pool, block, page * unit, unit, stream);           at once: no need to wait for that work
 *     weir_pool_free(pool, block, stream);                                  all that is left, and the addresses
 *
 * Units. Memory of a reserved block comes and goes in units of the block: each offset and each size is a multiple of
 * it. A unit is a page of the device or several; the pool gives each unit device handles of its own, so any unit can go
 * alone. Larger units make fewer device calls. The contents of memory that was committed are undefined.
 *
 * The calls that a unit allows, by its state:
 *
 *     call                       no memory        committed          decommitted, and work     the block sleeps
 *                                                                    may still use it
 *     device work on it          no               yes                that queued before        no
 *     weir_pool_commit           gets memory      no effect          gets it back              WEIR_ERR_BUSY
 *     weir_pool_decommit         no effect        gives it back      no effect                 WEIR_ERR_BUSY
 *     weir_pool_pin              WEIR_ERR_INVALID yes                the same                  WEIR_ERR_INVALID
 *     weir_pool_sleep            no effect        sleeps, by policy  waits for the work        stays asleep
 *     weir_pool_free, _free_idle of the block: as a decommit of all units; for a sleeping block no memory comes back
 *
 * weir_pool_use and _use_end name streams for the block as a whole, with all its units, now and later. The calls above,
 * trims and the growth of the pool in other threads wait for each other.
 *
 * Order. A decommit is in the order of `stream`, as a free is: work that is queued on the stream so far may still use
 * the memory, and so may the work of streams that weir_pool_use has named for the block. Memory whose work the host has
 * seen complete goes back to the device: within the decommit, if the work is complete by then, else within the next
 * commit, decommit, trim or sleep, the next growth of the pool, or the next free of a reserved block. Until then it
 * counts as pending_bytes. A request waits for it before it is refused; weir_pool_trim with WEIR_TRIM_WAIT waits for
 * it. Memory that is pinned (weir/pin.h) goes when the pin has ended; memory that the work of a captured graph may use
 * goes when the graph has been destroyed. A commit of pending memory takes it back as it is, without a device call, if
 * `stream` comes after that work; else the host waits for the work first.
 *
 * Counting. A reserved block counts as one alloc. Of its bytes the committed ones are live and requested, under its
 * tag, and reserved; weir_pool_stats.uncommitted_bytes has its other addresses. Limits, idle memory, the ladder, the
 * callbacks and the record of a refused request work for a commit as for an alloc of as many bytes. weir_pool_walk
 * shows each run of units alike, addresses without memory as WEIR_WALK_UNMAPPED. To observers (weir/observer.h), and so
 * to the recorder and to tools that judge memory, each committed unit is a block of its own.
 *
 * All functions are thread-safe. The pool needs virtual memory.
 */
#ifndef WEIR_RESERVE_H
#define WEIR_RESERVE_H

#include <weir/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reserves a block of at least `size` bytes of addresses, with units of `unit` bytes (0: a page of the device, see
 * page_bytes of weir_device_info). `stream` is the stream of the block (weir_block_stream), for statistics alone. The
 * caller owns the block until weir_pool_free, which gives the addresses back to the device when the last unit has gone.
 * Takes no memory from the device, and makes one call of it. Returns
 *   WEIR_ERR_INVALID       a handle is NULL, the stream belongs to another pool, size is 0 or too large to round, the
 *                          pool has no such tag (0: none), or unit is not a multiple of the device's page
 *   WEIR_ERR_UNSUPPORTED   the pool has no virtual memory
 *   WEIR_ERR_NO_MEMORY     the device has no addresses left, or there is no host memory
 *   WEIR_ERR_DEVICE        the device failed in another way */
WEIR_API weir_status weir_pool_reserve(weir_pool *pool, weir_stream *stream, uint64_t size, uint64_t unit, weir_tag tag,
                                       weir_block **block);

/* Puts memory under the units of [offset, offset + size) that have none, all or none of them, for work that will be
 * queued on `stream`. May take idle memory of the pool, wait, and call the pool's callbacks, as weir_pool_alloc does;
 * on a stream that is being captured too. Returns
 *   WEIR_ERR_INVALID     a handle is NULL or not the pool's, the block is not a reserved one, or the part is empty,
 *                        outside of the block or not of whole units
 *   WEIR_ERR_BUSY        the block sleeps, or a captured graph may still use pending memory of the part
 *   WEIR_ERR_NO_MEMORY   the pool has no memory (weir_pool_get_oom explains why), or there is no host memory
 *   WEIR_ERR_DEVICE      the device failed in another way
 * and has changed nothing then. */
WEIR_API weir_status weir_pool_commit(weir_pool *pool, weir_block *block, uint64_t offset, uint64_t size,
                                      weir_stream *stream);

/* Gives the memory of the committed units of [offset, offset + size) back, in the order of `stream`. Waits for no work
 * on the device. A failure of the device to take memory back is counted (device_failures) and not returned: the memory
 * stays pending and is tried again. Returns WEIR_ERR_INVALID as weir_pool_commit; WEIR_ERR_BUSY if the block sleeps;
 * WEIR_ERR_NO_MEMORY if there is no host memory to note the order, and has changed nothing then. */
WEIR_API weir_status weir_pool_decommit(weir_pool *pool, weir_block *block, uint64_t offset, uint64_t size,
                                        weir_stream *stream);

typedef struct weir_reserve_info {
    size_t struct_size;
    uint64_t unit_bytes;      /* 0: the block is not a reserved one, and all its memory is committed */
    uint64_t committed_bytes; /* live */
    uint64_t pending_bytes;   /* decommitted, and still with the pool */
} weir_reserve_info;

#define WEIR_RESERVE_INFO_INIT WEIR_STRUCT_INIT(weir_reserve_info)

/* Describes a live block. weir_block_capacity is the whole of its addresses. Returns WEIR_ERR_INVALID if a handle is
 * NULL, the block is not the pool's, or it has been freed. */
WEIR_API weir_status weir_pool_get_reserve(weir_pool *pool, weir_block *block, weir_reserve_info *info);

/* Finds the first run of committed units of a reserved block at or behind the offset `from`: stores its offset and its
 * size; a size of 0 says that there is none. So a loop that goes on from the end of each run sees all that is
 * committed. Returns WEIR_ERR_INVALID as weir_pool_get_reserve, and if the block is not a reserved one. */
WEIR_API weir_status weir_pool_find_committed(weir_pool *pool, weir_block *block, uint64_t from, uint64_t *offset,
                                              uint64_t *size);

#ifdef __cplusplus
}
#endif

#endif
