/* core/src/state/reserved.h: what a reserved block is (weir/reserve.h): which of its units have memory.
 *
 * A reserved block is a live block with a list of uses (block.h), which leads to its struct reservation. Changed by the
 * thread that has the turn to grow (weir_pool.growth), under the pool's lock; `units` is also read without a lock, by
 * reports to observers.
 */
#ifndef WEIR_CORE_STATE_RESERVED_H
#define WEIR_CORE_STATE_RESERVED_H

#include "state/block.h"

#include <stdatomic.h>

struct vm_span; /* of memory/vm_internal.h */

/* The state of a unit. From UNIT_LEAVING on: the number of the struct leaving that the unit belongs to. */
#define UNIT_BARE UINT64_C(0)
#define UNIT_COMMITTED UINT64_C(1)
#define UNIT_LEAVING UINT64_C(2)

/* Invariant: committed + leaving + the units that are bare = size. */
struct reservation {
    struct reservation *next; /* in weir_pool.reserved */
    weir_block *block;
    struct vm_span *span; /* the reservation of addresses, which is the block's alone */
    uint64_t size;        /* bytes */
    uint64_t unit;        /* bytes */
    uint64_t committed;   /* bytes */
    uint64_t leaving;     /* bytes */
    struct leaving *last; /* for the free of the block, which needs no host memory */
    bool stray;           /* a bare unit has memory that the device has refused to take away */
    size_t count;
    _Atomic uint64_t units[];
};

/* Units that have been decommitted, and the work that may still use them. */
struct leaving {
    struct leaving *next; /* in weir_pool.leaving */
    struct reservation *of;
    uint64_t number; /* of its units; a pool never uses one twice */
    size_t first;    /* its units lie in [first, end), where others may lie, too */
    size_t end;
    struct weir_use *uses; /* NULL with `ends`: those of the block */
    bool ends;             /* the block has been freed */
};

/* Returns NULL for a block that is not a reserved one. The block must not be free. */
static inline struct reservation *reservation_of(const weir_block *block)
{
    const struct block_uses *uses = block_uses(block);
    return uses != NULL ? uses->reserved : NULL;
}

static inline uint64_t unit_state(const struct reservation *reserved, size_t unit)
{
    WEIR_ASSERT(unit < reserved->count);
    return atomic_load_explicit(&reserved->units[unit], memory_order_relaxed);
}

static inline uint64_t unit_address(const struct reservation *reserved, size_t unit)
{
    return block_address(reserved->block) + unit * reserved->unit;
}

static inline size_t unit_at(const struct reservation *reserved, uint64_t address)
{
    WEIR_ASSERT(address - block_address(reserved->block) < reserved->size);
    return (size_t)((address - block_address(reserved->block)) / reserved->unit);
}

/* Units of a reserved block that are alike. */
struct unit_run {
    size_t first;
    size_t end;
    uint64_t state; /* UNIT_BARE, UNIT_COMMITTED, or UNIT_LEAVING for all that leave */
};

/* Goes on to the run behind `run`, which is all 0 at first. Returns false behind the last one. */
static inline bool next_run(const struct reservation *reserved, struct unit_run *run)
{
    run->first = run->end;
    for (; run->end < reserved->count; run->end++) {
        uint64_t state = unit_state(reserved, run->end);
        state = state > UNIT_LEAVING ? UNIT_LEAVING : state;
        run->state = run->end == run->first ? state : run->state;
        if (state != run->state) {
            break;
        }
    }
    return run->end > run->first;
}

/* Return the bytes of a live or sleeping block that count as live: as requested, and as handed out. */
static inline uint64_t requested_of(const weir_block *block)
{
    const struct reservation *reserved = reservation_of(block);
    return reserved != NULL ? reserved->committed : block_requested(block);
}

static inline uint64_t capacity_of(const weir_block *block)
{
    const struct reservation *reserved = reservation_of(block);
    return reserved != NULL ? reserved->committed : block_capacity(block);
}

#endif
