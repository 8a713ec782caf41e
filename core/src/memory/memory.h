/* core/src/memory/memory.h: the sources of a pool's memory.
 *
 *     region.c   whole regions of the device
 *     vm.c       virtual memory: one range of addresses that grows; vm_internal.h lists its files
 *     budget.c   how much a pool may take, and the pressure callback
 *     trim.c     returns memory because a caller asks for it or lowers a limit
 *     pin.c      memory that is not given back because its addresses are known outside
 *     asleep.c   blocks whose memory has been given back; asleep.h
 *     reserved.c blocks of which parts have memory
 *
 * Each source of memory implements the same table of functions (state/memory_ops.h).
 */
#ifndef WEIR_CORE_MEMORY_H
#define WEIR_CORE_MEMORY_H

#include "device/device_internal.h"
#include "order/order.h"

static inline void keep_first(weir_status *first, weir_status status)
{
    *first = *first == WEIR_OK ? status : *first;
}

extern const struct memory_ops weir__region_memory;
extern const struct memory_ops weir__vm_memory;

/* --- pin.c: pool lock held --- */

/* Returns the pins of the handle or region that begins at `address`: 0 if it may be given back. */
static inline uint64_t weir__pins_locked(const weir_pool *pool, uint64_t address)
{
    WEIR_ASSERT(pool_is_locked(pool));
    return weir__number_map_get(&pool->pins, address);
}
/* Returns the bytes of the range that lie in pinned handles or regions. */
uint64_t weir__pinned_in_locked(const weir_pool *pool, uint64_t address, uint64_t size);
/* Returns a description of the first broken invariant, or NULL. */
const char *weir__pins_broken_locked(const weir_pool *pool);

/* --- region.c --- */

/* Computes the region size that the strategy prefers for a request when `reserved` bytes are reserved, and the least
 * size that serves. Pool lock held. */
void weir__region_sizes_locked(const weir_pool *pool, uint64_t size, uint64_t align, uint64_t reserved,
                               uint64_t *preferred, uint64_t *least);
/* Returns the number of bytes of which the size of every region is a multiple. */
uint64_t weir__region_granularity(const weir_pool *pool);
/* Gives the region at `address` back to the device if it is idle. No lock held. */
weir_status weir__region_return_at(weir_pool *pool, uint64_t address);

/* Waits until no memory is on its way to or from the device. Returns true if it waited. Pool lock held, released while
 * waiting. */
bool weir__region_await_locked(weir_pool *pool);
/* Ends this thread's turn to take or return memory (growth.taken) and wakes waiting threads. Pool lock held. */
void weir__region_end_growing_locked(weir_pool *pool);
/* Waits for this thread's turn to take or return memory, and takes it. Pool lock held, released while waiting. */
static inline void take_turn_locked(weir_pool *pool)
{
    (void)weir__region_await_locked(pool);
    pool->growth.taken = true;
}
/* Counts bytes that the device has given and bytes that it has taken back. Sets the bounds of the front caches, which
 * are shares of the reserved bytes because cached blocks cannot coalesce. Pool lock held. */
void weir__region_count_locked(weir_pool *pool, uint64_t more, uint64_t less);

/* --- vm.c, vm_handle.c: all functions but the first two need pool->vm --- */

/* True if a pool of the strategy over the device can have virtual memory. */
bool weir__vm_suits(const weir_device *device, const weir_strategy_ops *strategy);
/* Gives a new pool virtual memory, which suits it, before the pool is used. Returns WEIR_ERR_NO_MEMORY on failure. */
weir_status weir__vm_init(weir_pool *pool);
/* True if the range is claimed to be mapped or unmapped, so not a block. Pool lock held. */
bool weir__vm_moves_locked(const weir_pool *pool, const weir_range_info *range);
uint64_t weir__vm_granule(const weir_pool *pool);
/* Serves a request for a given address (request->at). Returns false if the addresses are in use, or if the limit or the
 * device refuses memory for them. No lock held. */
bool weir__vm_serve_at(struct request *request);
/* Sums over the handles that lie wholly in some addresses. */
struct vm_whole_handles {
    uint64_t bytes;
    uint64_t single; /* bytes of those of one granule, which a request never touches in part */
};

/* Finds the handle that has memory at the address; see memory_ops.find. Pool lock held. */
bool weir__vm_find_locked(const weir_pool *pool, uint64_t address, struct memory_piece *piece);
/* Adds the handles without pins that lie wholly in [address, address + size) to the sums. Looks at *looks granules or
 * handles at most, and lowers *looks. Pool lock held. */
void weir__vm_add_whole_locked(const weir_pool *pool, uint64_t address, uint64_t size, unsigned *looks,
                               struct vm_whole_handles *sums);
/* Returns how many bytes a pool that holds `reserved` bytes may grow in handles of several granules. Pool lock held. */
uint64_t weir__vm_coarse_locked(const weir_pool *pool, uint64_t reserved);
/* Calls `visit` with the addresses of every mapped handle. Pool lock held; no thread grows. */
void weir__vm_each_handle_locked(const weir_pool *pool, void (*visit)(void *ctx, uint64_t address, uint64_t size),
                                 void *ctx);
/* Returns a description of the first broken invariant in the records of granules, or NULL. The sums come from the
 * strategy's walk: bytes taken by blocks or free, bytes without memory, and bytes being moved. Pool lock held. */
const char *weir__vm_broken_locked(const weir_pool *pool, uint64_t held, uint64_t unmapped, uint64_t moving);
/* Returns the most granules of a new handle, if the pool is to hold `granules`: a share of them, or one near the limit
 * and the device's capacity, where a handle that live blocks touch may have no idle granules to spare. Pool lock held.
 * */
uint64_t weir__vm_handle_granules(const weir_pool *pool, uint64_t granules);
void weir__vm_add_stats_locked(const weir_pool *pool, weir_pool_stats *stats);

/* --- vm_bare.c: pool lock held --- */

/* True if all granules that the range touches have memory. */
bool weir__vm_has_memory_locked(const weir_pool *pool, uint64_t address, uint64_t size);
/* True if the granule has a handle that is not mapped. */
bool weir__vm_is_apart_locked(const weir_pool *pool, uint64_t address);
/* Returns the end of the granules without a handle, from the one at `address` to `end`. Both are multiples of a
 * granule. */
uint64_t weir__vm_bare_end_locked(const weir_pool *pool, uint64_t address, uint64_t end);
/* Withholds free memory, of one range, until its granules have memory again. Returns WEIR_ERR_NO_MEMORY if there is no
 * host memory: some of it may be withheld then, until the pieces are settled. The turn to grow is taken. */
weir_status weir__vm_withhold_locked(weir_pool *pool, uint64_t address, uint64_t size, weir_lane lane, weir_tick tick);
/* Makes room for as many blocks to be withheld: those that sleep. Fewer than before always succeeds. */
bool weir__vm_promise_locked(weir_pool *pool, size_t blocks);
/* Ends a sleeping block and withholds its memory. There is room. */
void weir__vm_withhold_block_locked(weir_pool *pool, weir_block *block, weir_lane lane, weir_tick tick);
/* Gives back the withheld pieces that have memory again, and makes holes of whole granules without memory. The turn to
 * grow is taken. */
void weir__vm_settle_withheld_locked(weir_pool *pool);
/* Maps the handles that are apart under withheld memory, and settles it. Returns the device's first failure. Pool lock
 * released for the device calls; the turn to grow is taken. */
weir_status weir__vm_rejoin_withheld(weir_pool *pool);
/* No queued work uses the withheld memory: every stream may have it. */
void weir__vm_open_withheld_locked(weir_pool *pool);
/* True if a range of the strategy's walk is withheld. */
bool weir__vm_withholds_locked(const weir_pool *pool, const weir_range_info *range);

/* --- reserved.c: pool lock held; the turn to grow is taken, but where it says so --- */

/* Reserves addresses for a block of units of `unit` bytes on the stream, which is in no counter yet. Pool lock released
 * for the device call. Returns WEIR_ERR_NO_MEMORY when out of host memory, or the device's failure. */
weir_status weir__reserved_make(weir_pool *pool, weir_stream *stream, uint64_t size, uint64_t unit, weir_block **block);
struct vm_window;
/* Finds the granules that the request's part lacks. Returns WEIR_ERR_BUSY if the block sleeps or has been freed, or
 * work that the request's stream does not come after may still use some of the part. */
weir_status weir__reserved_look(const struct request *request, struct vm_window *window);
/* Makes the units of the request's part, all of which have memory, committed. Pool lock released meanwhile. */
void weir__reserved_commit(const struct request *request);
/* Makes the committed units of the part leave: they go when the work of leaving->uses is complete. The lock of the
 * block's stream is held, too. */
void weir__reserved_leave(weir_pool *pool, const struct part *part, struct leaving *leaving);
/* Ends a live reserved block, in the order of the stream, at the tick; with `stream` NULL no work uses it. Its uses are
 * closed. The lock of the block's stream is held, too. */
void weir__reserved_end(weir_pool *pool, struct reservation *reserved, weir_stream *stream, weir_tick tick);
/* Gives memory back that leaves and whose work is complete by now, and ends the turn to grow. No lock held. */
void weir__reserved_end_turn(weir_pool *pool);
/* Takes the memory of the units away that no work uses any more, but of those in `keep`, and ends the freed blocks that
 * have none. The memory is spare afterwards. Stops at the first failure of the device, which it returns. Pool lock
 * released for the device calls. */
weir_status weir__reserved_settle(weir_pool *pool, const struct part *keep);
/* Returns a stream whose work may still use memory of the part that leaves, although `stream` does not come after that
 * work; NULL if there is none. */
weir_stream *weir__reserved_user(const weir_pool *pool, const struct part *part, const weir_stream *stream);
/* True if the use is over: the host has seen its work complete. */
bool weir__reserved_use_is_over(const weir_pool *pool, const struct weir_use *use);
/* Returns the bytes of addresses that reserved blocks have beside their memory. Needs no turn. */
uint64_t weir__reserved_addresses(const weir_pool *pool);
/* Returns a description of the first broken invariant, or NULL. Needs no turn. */
const char *weir__reserved_broken(const weir_pool *pool);
/* The pool is being destroyed: frees the records. No lock held. */
void weir__reserved_fini(weir_pool *pool);

/* --- budget.c --- */

/* Returns the most bytes that may be reserved: the hard limit, or with `soft` the lower of the two limits. Returns
 * UINT64_MAX if there is no limit. Pool lock held. */
uint64_t weir__budget_limit_locked(const weir_pool *pool, bool soft);
/* Returns the lower of the limit and the device's capacity, or 0 if both are unknown. Pool lock held. */
uint64_t weir__budget_most_locked(const weir_pool *pool, bool soft);
/* Updates the pool's records about its limits after the reserved bytes have changed. Pool lock held. */
void weir__budget_note_locked(weir_pool *pool, bool grown);
/* Calls the pressure callback, unless it is running already or had nothing to free since the reserved bytes last
 * crossed the soft limit. The request lacks at least `least` bytes and can only be served above the soft limit. Returns
 * true if the callback freed something. No lock held. */
bool weir__budget_press(const struct request *request, uint64_t least);

#endif
