/* core/src/pool/block.c: descriptors of blocks, the index from address to block, and tables by address.
 *
 * Guarantee: a descriptor's memory lives as long as its pool, so a handle that was freed is still recognised, and whoever
 * looks for an address without a lock never follows a pointer into nothing. Cost: constant per call; one chunk of memory
 * per 64 to 8,192 descriptors, as many chains as blocks, a table at most half full.
 */
#include "pool_internal.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum {
    first_chunk_blocks = 64,
    largest_chunk_blocks = 8192,
    first_table_slots = 256,
    tries_before_lock = 64, /* of a search for an address that others' changes keep spoiling */
};

struct block_chunk {
    struct block_chunk *next;
    size_t count;
    weir_block blocks[];
};

static bool grow_blocks(weir_pool *pool)
{
    size_t count = pool->chunks == NULL ? first_chunk_blocks : pool->chunks->count * 2;
    count = count > largest_chunk_blocks ? largest_chunk_blocks : count;
    const size_t bytes = sizeof(struct block_chunk) + count * sizeof(weir_block);
    struct block_chunk *chunk = aligned_alloc(_Alignof(struct block_chunk), bytes);
    if (chunk == NULL) {
        return false;
    }
    memset(chunk, 0, bytes);
    chunk->count = count;
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    for (size_t i = count; i-- > 0;) {
        chunk->blocks[i].pool = pool;
        chunk->blocks[i].next = pool->unused;
        pool->unused = &chunk->blocks[i];
    }
    return true;
}

/* --- tables --- */

static uint64_t address_of(const void *entry)
{
    return *(const uint64_t *)entry;
}

static size_t home_of(const struct address_table *table, uint64_t address)
{
    return (size_t)(address * UINT64_C(0x9E3779B97F4A7C15) >> 32) & table->mask;
}

static void put(struct address_table *table, void *entry)
{
    size_t slot = home_of(table, address_of(entry));
    while (table->slots[slot] != NULL) {
        slot = (slot + 1) & table->mask;
    }
    table->slots[slot] = entry;
}

bool weir__table_reserve(struct address_table *table)
{
    size_t slots = table->slots == NULL ? 0 : table->mask + 1;
    if (table->count * 2 < slots) {
        return true;
    }
    size_t grown = slots == 0 ? first_table_slots : slots * 2;
    void **old = table->slots;
    void **fresh = calloc(grown, sizeof(void *));
    if (fresh == NULL) {
        return false;
    }
    table->slots = fresh;
    table->mask = grown - 1;
    for (size_t i = 0; i < slots; i++) {
        if (old[i] != NULL) {
            put(table, old[i]);
        }
    }
    free(old);
    return true;
}

void weir__table_put(struct address_table *table, void *entry)
{
    table->count++;
    put(table, entry);
}

/* Removes without tombstones: what follows in the same run moves up when that brings it nearer to its home. */
void weir__table_remove(struct address_table *table, const void *entry)
{
    size_t mask = table->mask;
    size_t hole = home_of(table, address_of(entry));
    while (table->slots[hole] != entry) {
        hole = (hole + 1) & mask;
    }
    for (size_t slot = (hole + 1) & mask; table->slots[slot] != NULL; slot = (slot + 1) & mask) {
        size_t home = home_of(table, address_of(table->slots[slot]));
        if (((slot - home) & mask) >= ((slot - hole) & mask)) {
            table->slots[hole] = table->slots[slot];
            hole = slot;
        }
    }
    table->slots[hole] = NULL;
    table->count--;
}

void *weir__table_find(const struct address_table *table, uint64_t address)
{
    if (table->slots == NULL) {
        return NULL;
    }
    size_t slot = home_of(table, address);
    while (table->slots[slot] != NULL && address_of(table->slots[slot]) != address) {
        slot = (slot + 1) & table->mask;
    }
    return table->slots[slot];
}

/* --- the index by address --- */

static inline size_t chain_of(const struct block_index *index, uint64_t address)
{
    return (size_t)(address * UINT64_C(0x9E3779B97F4A7C15) >> 32) & index->mask;
}

static inline weir_block *chained_after(const weir_block *block)
{
    return atomic_load_explicit(&block->chain, memory_order_acquire);
}

/* A reader finds the block or not; either is right while it is being entered. */
static inline void index_put(struct block_index *index, weir_block *block)
{
    _Atomic(weir_block *) *head = &index->heads[chain_of(index, block_address(block))];
    atomic_store_explicit(&block->chain, atomic_load_explicit(head, memory_order_relaxed), memory_order_release);
    atomic_store_explicit(head, block, memory_order_release);
}

/* Readers who stand on this block go on with the chain that it is in next: the version tells them to begin anew. */
static inline void begin_change(weir_pool *pool)
{
    const unsigned version = atomic_load_explicit(&pool->index_version, memory_order_relaxed);
    atomic_store_explicit(&pool->index_version, version + 1, memory_order_relaxed);
}

static inline void end_change(weir_pool *pool)
{
    const unsigned version = atomic_load_explicit(&pool->index_version, memory_order_relaxed);
    atomic_store_explicit(&pool->index_version, version + 1, memory_order_release);
}

static void index_remove(weir_pool *pool, struct block_index *index, const weir_block *block)
{
    _Atomic(weir_block *) *link = &index->heads[chain_of(index, block_address(block))];
    weir_block *next = atomic_load_explicit(link, memory_order_relaxed);
    begin_change(pool);
    while (next != block) {
        link = &next->chain;
        next = atomic_load_explicit(link, memory_order_relaxed);
    }
    atomic_store_explicit(link, atomic_load_explicit(&block->chain, memory_order_relaxed), memory_order_release);
    end_change(pool);
}

/* Puts every block into a new index; readers may still be in the old one, which stays until the pool goes. */
static bool index_grow(weir_pool *pool, struct block_index *old)
{
    size_t chains = old == NULL ? first_table_slots : 2 * (old->mask + 1);
    while (chains <= pool->blocks) {
        chains *= 2;
    }
    struct block_index *index = calloc(1, sizeof(*index) + chains * sizeof(index->heads[0]));
    if (index == NULL) {
        return false;
    }
    index->mask = chains - 1;
    index->smaller = old;
    begin_change(pool);
    for (struct block_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        for (size_t i = 0; i < chunk->count; i++) {
            if (atomic_load_explicit(&chunk->blocks[i].state, memory_order_relaxed) != BLOCK_UNUSED) {
                index_put(index, &chunk->blocks[i]);
            }
        }
    }
    atomic_store_explicit(&pool->index, index, memory_order_release);
    end_change(pool);
    return true;
}

bool weir__block_index_locked(weir_pool *pool)
{
    return atomic_load_explicit(&pool->index, memory_order_relaxed) != NULL || index_grow(pool, NULL);
}

/* Looks at no more than `most` blocks: a chain that changes under a reader may lead in a circle. *ended: there were no
 * more. */
static weir_block *search_chain(const struct block_index *index, uint64_t address, size_t most, bool *ended)
{
    weir_block *block = atomic_load_explicit(&index->heads[chain_of(index, address)], memory_order_acquire);
    for (size_t steps = 0; block != NULL && steps < most; steps++) {
        if (block_address(block) == address) {
            return block;
        }
        block = chained_after(block);
    }
    *ended = block == NULL;
    return NULL;
}

weir_block *weir__block_at_locked(weir_pool *pool, uint64_t address)
{
    bool ended = false;
    return search_chain(atomic_load_explicit(&pool->index, memory_order_relaxed), address, SIZE_MAX, &ended);
}

weir_status weir__block_find(weir_pool *pool, uint64_t address, weir_block **found)
{
    *found = NULL;
    for (int tries = 0; tries < tries_before_lock; tries++) {
        const unsigned version = atomic_load_explicit(&pool->index_version, memory_order_acquire);
        const struct block_index *index = atomic_load_explicit(&pool->index, memory_order_acquire);
        if (index == NULL) {
            break;
        }
        bool ended = false;
        *found = search_chain(index, address, index->mask, &ended);
        const bool quiet = version % 2 == 0 &&
                           atomic_load_explicit(&pool->index_version, memory_order_relaxed) == version;
        /* Whoever asks for a block that it holds finds it unchanged; only a miss needs the proof of a quiet index. */
        if (*found != NULL || (quiet && ended)) {
            return WEIR_OK;
        }
        if (quiet) {
            break; /* no circle: there was no host memory for a larger index, and chains have become long */
        }
    }
    pool_lock(pool);
    const bool indexed = weir__block_index_locked(pool);
    *found = indexed ? weir__block_at_locked(pool, address) : NULL;
    pool_unlock(pool);
    return indexed ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

/* --- descriptors --- */

/* An index that cannot grow gets longer chains: a request does not fail for it. */
static inline void enter(weir_pool *pool, weir_block *block)
{
    struct block_index *index = atomic_load_explicit(&pool->index, memory_order_relaxed);
    pool->blocks++;
    if (index == NULL) {
        return;
    }
    if (pool->blocks > index->mask && index_grow(pool, index)) {
        return; /* entered with all the others */
    }
    index_put(index, block);
}

weir_block *weir__block_new_locked(weir_pool *pool, const weir_range *range)
{
    if (pool->unused == NULL && !grow_blocks(pool)) {
        return NULL;
    }
    weir_block *block = pool->unused;
    pool->unused = block->next;
    atomic_store_explicit(&block->address, range->address, memory_order_relaxed);
    block->capacity = range->size;
    block->token = range->token;
    block->uses = NULL;
    block->stream = NULL;
    block->size = 0;
    atomic_store_explicit(&block->state, BLOCK_TAKEN, memory_order_relaxed);
    enter(pool, block);
    return block;
}

void weir__block_delete_locked(weir_block *block)
{
    weir_pool *pool = block->pool;
    struct block_index *index = atomic_load_explicit(&pool->index, memory_order_relaxed);
    if (index != NULL) {
        index_remove(pool, index, block);
    }
    pool->blocks--;
    atomic_store_explicit(&block->state, BLOCK_UNUSED, memory_order_relaxed);
    block->next = pool->unused;
    pool->unused = block;
}

void weir__use_delete(weir_block *block, struct weir_use *use)
{
    if (use != &block->freed) {
        free(use);
    }
}

void weir__block_drop_uses(weir_block *block)
{
    while (block->uses != NULL) {
        struct weir_use *use = block->uses;
        block->uses = use->next;
        weir__use_delete(block, use);
    }
}

void weir__block_each_locked(const weir_pool *pool, void (*visit)(void *ctx, weir_block *block), void *ctx)
{
    for (struct block_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        for (size_t i = 0; i < chunk->count; i++) {
            if (atomic_load_explicit(&chunk->blocks[i].state, memory_order_relaxed) != BLOCK_UNUSED) {
                visit(ctx, &chunk->blocks[i]);
            }
        }
    }
}

bool weir__block_is_ours(weir_pool *pool, const weir_block *block)
{
    const uintptr_t address = (uintptr_t)block;
    bool ours = false;
    pool_lock(pool);
    for (const struct block_chunk *chunk = pool->chunks; chunk != NULL && !ours; chunk = chunk->next) {
        const uintptr_t first = (uintptr_t)chunk->blocks;
        ours = address >= first && address < first + chunk->count * sizeof(*block) &&
               (address - first) % sizeof(*block) == 0;
    }
    pool_unlock(pool);
    return ours;
}

void weir__block_fini(weir_pool *pool)
{
    while (pool->chunks != NULL) {
        struct block_chunk *next = pool->chunks->next;
        for (size_t i = 0; i < pool->chunks->count; i++) {
            weir__block_drop_uses(&pool->chunks->blocks[i]);
        }
        free(pool->chunks);
        pool->chunks = next;
    }
    struct block_index *index = atomic_load_explicit(&pool->index, memory_order_relaxed);
    while (index != NULL) {
        struct block_index *smaller = index->smaller;
        free(index);
        index = smaller;
    }
    free(pool->region_table.slots);
}
