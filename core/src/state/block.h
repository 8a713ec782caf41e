/* core/src/state/block.h: a block. A block is the strategy's record of its range (weir/strategy.h). While the range is
 * taken, the pool owns the words of `as.pool` and the state. So a block costs one cache line, and finding the record of
 * a block needs no lookup.
 *
 *     requested   bytes that the caller asked for
 *     stream      the stream that the block was allocated on
 *     link        struct block_uses if other streams use the block (BLOCK_USED); otherwise the next block in a remote
 *                 free list
 *
 * While the range is free, the strategy owns all three words. Then only the state may be read, and it is BLOCK_UNUSED.
 */
#ifndef WEIR_CORE_BLOCK_H
#define WEIR_CORE_BLOCK_H

#include <weir/pool.h>
#include <weir/strategy.h>

#include "shared/assert.h"

typedef enum weir_block_state {
    BLOCK_UNUSED,   /* not a block: the range is free, or is memory that the pool moves */
    BLOCK_TAKEN,    /* being allocated: the range is taken, but the stream's counters do not count the block yet */
    BLOCK_LIVE,     /* held by the caller */
    BLOCK_CACHED,   /* in a front cache */
    BLOCK_RETURNED, /* in the stream's remote free list: freed by a thread that does not feed the stream, but still
                       counted as live */
    BLOCK_PENDING,  /* freed, but several streams may still use it */
    BLOCK_ASLEEP,   /* held by the caller, but sleeping (weir/sleep.h): some or all of its memory may be gone */
} weir_block_state;

struct weir_block {
    weir_record record;
};

/* The state word: WEIR_RECORD_TAKEN, the state, BLOCK_USED if other streams use the block, and the tag of a live block.
 * A live block without a tag and without other streams has exactly one value, so a free tests for the common case with
 * one comparison. */
#define BLOCK_STATE_SHIFT 24u
#define BLOCK_USED (UINT32_C(1) << 16)
#define BLOCK_TAG_MASK UINT32_C(0xffff)
#define BLOCK_WORD(state) (WEIR_RECORD_TAKEN | (uint32_t)(state) << BLOCK_STATE_SHIFT)

/* Another stream that uses a block. `tick` is 0 while the use is open; a free closes the open uses with a tick. */
struct weir_use {
    struct weir_use *next;
    weir_stream *stream;
    uint64_t serial; /* the stream's serial number: tells it from a later stream that reuses its lane */
    weir_tick tick;
};

/* The uses of a block by other streams. Allocated with the first use, so that a free needs no host memory. */
struct block_uses {
    struct weir_use *first;
    struct weir_use freed; /* the use by the stream that frees the block; in the list once the block is freed */
    weir_block *next;      /* next block in the list of pending blocks */
    uint64_t stand_in;     /* serial number of the block's stream, if that is a stand-in, which counts the block */
    bool lent;             /* the block is of no graph: it lies in memory that graphs have lent */
    struct reservation *reserved; /* of a reserved block (reserved.h); else NULL */
};

static inline uint64_t block_address(const weir_block *block)
{
    return block->record.address;
}

/* Returns the usable size in bytes. */
static inline uint64_t block_capacity(const weir_block *block)
{
    return block->record.size;
}

/* Returns the address behind the block. */
static inline uint64_t block_end(const weir_block *block)
{
    return block->record.address + block->record.size;
}

static inline uint64_t block_requested(const weir_block *block)
{
    return block->record.as.pool.requested;
}

static inline void block_set_requested(weir_block *block, uint64_t size)
{
    block->record.as.pool.requested = size;
}

static inline weir_stream *block_stream(const weir_block *block)
{
    return (weir_stream *)block->record.as.pool.stream;
}

static inline void block_set_stream(weir_block *block, weir_stream *stream)
{
    block->record.as.pool.stream = stream;
}

static inline uint32_t state_word(const weir_block *block)
{
    return __atomic_load_n(&block->record.state, __ATOMIC_RELAXED);
}

static inline void block_set_word(weir_block *block, uint32_t word)
{
    __atomic_store_n(&block->record.state, word, __ATOMIC_RELAXED);
}

static inline void block_set_state(weir_block *block, weir_block_state state)
{
    block_set_word(block, BLOCK_WORD(state));
}

static inline weir_block_state state_in(uint32_t word)
{
    const bool pools = (word & WEIR_RECORD_KEPT) == WEIR_RECORD_TAKEN;
    return pools ? (weir_block_state)(word >> BLOCK_STATE_SHIFT & 0x3fu) : BLOCK_UNUSED;
}

static inline weir_block_state state_of(const weir_block *block)
{
    return state_in(state_word(block));
}

/* True if the caller holds the block. */
static inline bool is_held(weir_block_state state)
{
    return state == BLOCK_LIVE || state == BLOCK_ASLEEP;
}

/* Returns the tag of a live block, and 0 for any other block. */
static inline weir_tag tag_of(const weir_block *block)
{
    const uint32_t word = state_word(block);
    return state_in(word) != BLOCK_UNUSED ? word & BLOCK_TAG_MASK : 0;
}

/* Returns the list of other streams that use the block, or NULL if there is none. The block must not be free. */
static inline struct block_uses *block_uses(const weir_block *block)
{
    return (state_word(block) & BLOCK_USED) != 0 ? (struct block_uses *)block->record.as.pool.link : NULL;
}

static inline weir_block *block_next(const weir_block *block)
{
    WEIR_ASSERT(state_of(block) == BLOCK_RETURNED);
    return (weir_block *)block->record.as.pool.link;
}

static inline void block_set_next(weir_block *block, weir_block *next)
{
    block->record.as.pool.link = next;
}

/* Gives the block an empty list of uses, unless it has a list already. Returns NULL when out of host memory. Pool lock
 * held. */
struct block_uses *weir__block_add_uses(weir_block *block);
/* Frees the block's list of uses. Pool lock held. */
void weir__block_drop_uses(weir_block *block);
/* Frees a list of uses that is no block's. */
void weir__use_list_free(struct weir_use *first);
/* Removes the use at *link from the block's list of uses. */
void weir__use_remove(struct block_uses *uses, struct weir_use **link);

#endif
