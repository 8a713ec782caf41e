/* core/src/block.c: descriptors of blocks, and the tables from address to block and to region.
 *
 * Guarantee: a descriptor's memory lives as long as its pool, so a handle that was freed is still recognised. Cost:
 * constant per call; one chunk of memory per 64 to 8,192 descriptors, a table at most half full.
 */
#include "pool_internal.h"

#include <stdlib.h>

enum { first_chunk_blocks = 64, largest_chunk_blocks = 8192, first_table_slots = 256 };

struct block_chunk {
    struct block_chunk *next;
    size_t count;
    weir_block blocks[];
};

static bool grow_blocks(weir_pool *pool)
{
    size_t count = pool->chunks == NULL ? first_chunk_blocks : pool->chunks->count * 2;
    count = count > largest_chunk_blocks ? largest_chunk_blocks : count;
    struct block_chunk *chunk = calloc(1, sizeof(*chunk) + count * sizeof(chunk->blocks[0]));
    if (chunk == NULL) {
        return false;
    }
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

/* --- the table --- */

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

/* --- descriptors --- */

weir_block *weir__block_new_locked(weir_pool *pool, const weir_range *range)
{
    if (!weir__table_reserve(&pool->table) || (pool->unused == NULL && !grow_blocks(pool))) {
        return NULL;
    }
    weir_block *block = pool->unused;
    pool->unused = block->next;
    block->next = NULL;
    block->address = range->address;
    block->capacity = range->size;
    block->token = range->token;
    block->uses = NULL;
    block->stream = NULL;
    block->size = 0;
    weir__table_put(&pool->table, block);
    return block;
}

void weir__block_delete_locked(weir_block *block)
{
    weir_pool *pool = block->pool;
    weir__table_remove(&pool->table, block);
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
        struct weir_use *next = block->uses->next;
        weir__use_delete(block, block->uses);
        block->uses = next;
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
    free(pool->table.slots);
    free(pool->region_table.slots);
}
