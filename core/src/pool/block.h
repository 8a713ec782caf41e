/* core/src/pool/block.h: a block. It is the strategy's record of its range (weir/strategy.h), of which the pool has the words of
 * `as.pool` and the state while the range is taken. So a block costs one cache line, and nothing is looked up between the two.
 *
 *     requested   bytes, as the caller asked
 *     stream      allocated on
 *     link        struct block_uses of a block that other streams use (BLOCK_USED); else the next one in an inbox
 *
 * While the range is free all three are the strategy's; then only the state may be read, which is BLOCK_UNUSED. */
#ifndef WEIR_CORE_BLOCK_H
#define WEIR_CORE_BLOCK_H

#include <weir/pool.h>
#include <weir/strategy.h>

typedef enum weir_block_state {
    BLOCK_UNUSED,   /* no block: the range is free, or memory that the pool moves */
    BLOCK_TAKEN,    /* on its way to the caller: the strategy's books have it, the stream's counters do not */
    BLOCK_LIVE,     /* the caller's */
    BLOCK_CACHED,   /* in a front cache */
    BLOCK_RETURNED, /* freed by a thread that does not feed the stream, in the stream's inbox: counted as live */
    BLOCK_PENDING,  /* freed, waiting for several streams */
} weir_block_state;

struct weir_block {
    weir_record record;
};

/* The state word: WEIR_RECORD_TAKEN, the state, whether other streams use the block, and the tag of a live one. A live block of
 * which nothing else is to be known has one value, so that one look tells a free that there is nothing to it. */
#define BLOCK_STATE_SHIFT 24u
#define BLOCK_USED (UINT32_C(1) << 16)
#define BLOCK_TAG_MASK UINT32_C(0xffff)
#define BLOCK_WORD(state) (WEIR_RECORD_TAKEN | (uint32_t)(state) << BLOCK_STATE_SHIFT)

/* One more stream that touches a block. `tick` 0: until the block is freed. */
struct weir_use {
    struct weir_use *next;
    weir_stream *stream;
    uint64_t serial; /* the stream's, so that a later stream in the same place is not taken for it */
    weir_tick tick;
};

/* Made by the first use, so that no free needs host memory. */
struct block_uses {
    struct weir_use *first;
    struct weir_use freed; /* the freeing stream's own pair; in the list once the block is freed */
    weir_block *next;      /* in the list of pending blocks */
};

static inline uint64_t block_address(const weir_block *block)
{
    return block->record.address;
}

/* Bytes, as handed out. */
static inline uint64_t block_capacity(const weir_block *block)
{
    return block->record.size;
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

/* 0 unless the block is live. */
static inline weir_tag tag_of(const weir_block *block)
{
    const uint32_t word = state_word(block);
    return state_in(word) != BLOCK_UNUSED ? word & BLOCK_TAG_MASK : 0;
}

/* NULL: no other stream uses the block, which is not free. */
static inline struct block_uses *block_uses(const weir_block *block)
{
    return (state_word(block) & BLOCK_USED) != 0 ? (struct block_uses *)block->record.as.pool.link : NULL;
}

/* In an inbox. */
static inline weir_block *block_next(const weir_block *block)
{
    return (weir_block *)block->record.as.pool.link;
}

static inline void block_set_next(weir_block *block, weir_block *next)
{
    block->record.as.pool.link = next;
}

/* Pool lock held: the block gets a list of uses, empty so far, unless it has one. NULL without host memory. */
struct block_uses *weir__block_add_uses(weir_block *block);
/* Likewise: it has none any more. */
void weir__block_drop_uses(weir_block *block);
/* Removes a pair that is in the block's list at *link. */
void weir__use_remove(struct block_uses *uses, struct weir_use **link);

#endif
