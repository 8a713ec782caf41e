/* core/src/state/block.c: data of a block outside its record: the streams that use it, and an index from address to
 * block.
 *
 * Guarantee: a record's memory lives as long as its strategy, so a handle that was freed is still recognised. A lookup
 * by address without a lock never follows a dangling pointer: it reads only entries of the index, and their memory
 * lives as long as the pool. Cost: constant per call. Once a block has been looked up by address, one entry of 24 bytes
 * per block, and as many hash chains as blocks.
 */
#include "base/tuning.h"
#include "state/blocks.h"

#include <stdlib.h>

enum {
    first_chains = 256,
    first_chunk_entries = 64,
    largest_chunk_entries = 8192,
};

/* --- the index by address --- */

/* An entry of the index, for one block. It is reused for other blocks and never freed before the pool's end. */
struct index_entry {
    _Atomic uint64_t address;
    _Atomic(weir_block *) block;
    _Atomic(struct index_entry *) next; /* next entry of the chain, or, while the entry is unused, of the list of
                                           unused entries */
};

struct entry_chunk {
    struct entry_chunk *next;
    size_t count;
    struct index_entry entries[];
};

_Static_assert(sizeof(struct entry_chunk) <= sizeof(struct index_entry), "a chunk's head takes the place of an entry");

/* The index is made by the first lookup, so callers that keep their handles pay nothing for it. Writers hold the pool's
 * lock. Readers hold no lock: see weir__block_find. */
struct block_index {
    struct block_index *smaller; /* the index from which this one was enlarged; readers may still use it */
    size_t mask;
    _Atomic(struct index_entry *) heads[];
};

static struct index_entry *follow(const _Atomic(struct index_entry *) *link)
{
    return atomic_load_explicit(link, memory_order_acquire);
}

static uint64_t entry_address(const struct index_entry *entry)
{
    return atomic_load_explicit(&entry->address, memory_order_acquire);
}

static _Atomic(struct index_entry *) *chain_of(struct block_index *index, uint64_t address)
{
    return &index->heads[(size_t)(address * UINT64_C(0x9E3779B97F4A7C15) >> 32) & index->mask];
}

/* Links the entry into its chain. A concurrent reader may find the entry or miss it; both are correct. */
static void link_entry(struct block_index *index, struct index_entry *entry)
{
    WEIR_ASSERT(entry != NULL && (index->mask & (index->mask + 1)) == 0);
    _Atomic(struct index_entry *) *head = chain_of(index, entry_address(entry));
    atomic_store_explicit(&entry->next, follow(head), memory_order_release);
    atomic_store_explicit(head, entry, memory_order_release);
}

/* If an entry changes under a reader, the reader may continue in a different chain. The version then tells the reader
 * to start again. Entries are written with release and read with acquire, so that a reader of a changed entry also sees
 * the changed version. */
static void begin_change(weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const unsigned version = atomic_load_explicit(&pool->blocks.version, memory_order_relaxed);
    WEIR_ASSERT(version % 2 == 0);
    atomic_store_explicit(&pool->blocks.version, version + 1, memory_order_relaxed);
}

static void end_change(weir_pool *pool)
{
    const unsigned version = atomic_load_explicit(&pool->blocks.version, memory_order_relaxed);
    WEIR_ASSERT(version % 2 == 1);
    atomic_store_explicit(&pool->blocks.version, version + 1, memory_order_release);
}

static bool grow_entries(weir_pool *pool)
{
    WEIR_ASSERT(pool->blocks.unused == NULL);
    size_t count = pool->blocks.chunks == NULL ? first_chunk_entries : pool->blocks.chunks->count * 2;
    count = count > largest_chunk_entries ? largest_chunk_entries : count;
    struct entry_chunk *chunk = calloc(count + 1, sizeof(chunk->entries[0])); /* one for the head */
    if (chunk == NULL) {
        return false;
    }
    chunk->count = count;
    chunk->next = pool->blocks.chunks;
    pool->blocks.chunks = chunk;
    for (size_t i = count; i-- > 0;) {
        atomic_store_explicit(&chunk->entries[i].next, pool->blocks.unused, memory_order_relaxed);
        pool->blocks.unused = &chunk->entries[i];
    }
    return true;
}

static bool enter(weir_pool *pool, struct block_index *index, weir_block *block)
{
    if (pool->blocks.unused == NULL && !grow_entries(pool)) {
        return false;
    }
    struct index_entry *entry = pool->blocks.unused;
    pool->blocks.unused = follow(&entry->next);
    begin_change(pool);
    atomic_store_explicit(&entry->address, block_address(block), memory_order_release);
    atomic_store_explicit(&entry->block, block, memory_order_release);
    link_entry(index, entry);
    end_change(pool);
    return true;
}

static void leave(weir_pool *pool, struct block_index *index, const weir_block *block)
{
    _Atomic(struct index_entry *) *link = chain_of(index, block_address(block));
    struct index_entry *entry = follow(link);
    while (atomic_load_explicit(&entry->block, memory_order_relaxed) != block) {
        WEIR_ASSERT(entry != NULL);
        link = &entry->next;
        entry = follow(link);
    }
    begin_change(pool);
    atomic_store_explicit(link, follow(&entry->next), memory_order_release);
    atomic_store_explicit(&entry->block, NULL, memory_order_release);
    atomic_store_explicit(&entry->next, pool->blocks.unused, memory_order_release);
    pool->blocks.unused = entry;
    end_change(pool);
}

/* Frees an index that no reader has seen and puts its entries on the unused list. */
static void give_up_index(weir_pool *pool, struct block_index *index)
{
    for (size_t chain = 0; chain <= index->mask; chain++) {
        struct index_entry *next = NULL;
        for (struct index_entry *entry = follow(&index->heads[chain]); entry != NULL; entry = next) {
            next = follow(&entry->next);
            atomic_store_explicit(&entry->next, pool->blocks.unused, memory_order_relaxed);
            pool->blocks.unused = entry;
        }
    }
    free(index);
}

static struct block_index *new_index(size_t chains, struct block_index *smaller)
{
    WEIR_ASSERT(chains != 0 && (chains & (chains - 1)) == 0);
    struct block_index *index = calloc(1, sizeof(*index) + chains * sizeof(index->heads[0]));
    if (index != NULL) {
        index->mask = chains - 1;
        index->smaller = smaller;
    }
    return index;
}

/* Moves every entry into a larger index. The old index stays until the pool's end, because readers may still use it. If
 * there is no host memory for a larger index, the chains get longer instead. */
static void widen(weir_pool *pool, struct block_index *old)
{
    struct block_index *index = new_index(2 * (old->mask + 1), old);
    if (index == NULL) {
        return;
    }
    begin_change(pool);
    for (size_t chain = 0; chain <= old->mask; chain++) {
        struct index_entry *next = NULL;
        for (struct index_entry *entry = follow(&old->heads[chain]); entry != NULL; entry = next) {
            next = follow(&entry->next);
            link_entry(index, entry);
        }
    }
    atomic_store_explicit(&pool->blocks.index, index, memory_order_release);
    end_change(pool);
}

struct entering {
    weir_pool *pool;
    struct block_index *index;
    bool complete;
};

static void enter_visited(void *ctx, weir_block *block)
{
    struct entering *entering = ctx;
    entering->complete = entering->complete && enter(entering->pool, entering->index, block);
}

static bool make_index(weir_pool *pool)
{
    size_t chains = first_chains;
    while (chains <= pool->blocks.count) {
        chains *= 2;
    }
    struct entering entering = {.pool = pool, .index = new_index(chains, NULL), .complete = true};
    if (entering.index == NULL) {
        return false;
    }
    weir__block_each_locked(pool, enter_visited, &entering);
    if (!entering.complete) {
        give_up_index(pool, entering.index);
        return false;
    }
    atomic_store_explicit(&pool->plain, false, memory_order_relaxed);
    atomic_store_explicit(&pool->blocks.index, entering.index, memory_order_release);
    return true;
}

/* Looks at no more than `most` entries, because a chain that changes under a reader may become a cycle. Sets *ended if
 * it reached the end of the chain. */
static weir_block *search_chain(struct block_index *index, uint64_t address, size_t most, bool *ended)
{
    struct index_entry *entry = follow(chain_of(index, address));
    for (size_t steps = 0; entry != NULL && steps < most; steps++) {
        if (entry_address(entry) == address) {
            return atomic_load_explicit(&entry->block, memory_order_acquire);
        }
        entry = follow(&entry->next);
    }
    *ended = entry == NULL;
    return NULL;
}

weir_status weir__block_find(weir_pool *pool, uint64_t address, weir_block **found)
{
    *found = NULL;
    for (int tries = 0; tries < tries_before_lock; tries++) {
        const unsigned version = atomic_load_explicit(&pool->blocks.version, memory_order_acquire);
        struct block_index *index = atomic_load_explicit(&pool->blocks.index, memory_order_acquire);
        if (index == NULL) {
            break;
        }
        bool ended = false;
        *found = search_chain(index, address, index->mask, &ended);
        const bool quiet =
            version % 2 == 0 && atomic_load_explicit(&pool->blocks.version, memory_order_relaxed) == version;
        if (quiet && (*found != NULL || ended)) {
            return WEIR_OK;
        }
        if (quiet) {
            break; /* no writer interfered: the chain is long, because there was no host memory for a larger index */
        }
    }
    bool ended = false;
    pool_lock(pool);
    struct block_index *index = atomic_load_explicit(&pool->blocks.index, memory_order_relaxed);
    const bool indexed = index != NULL || make_index(pool);
    index = atomic_load_explicit(&pool->blocks.index, memory_order_relaxed);
    *found = indexed ? search_chain(index, address, SIZE_MAX, &ended) : NULL;
    pool_unlock(pool);
    return indexed ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

/* --- blocks come and go --- */

/* Checked builds keep a set of all handles, so that a pointer is validated without following it. */
static bool remember_handle(weir_pool *pool, const weir_block *block)
{
    return WEIR_CHECKS < 1 || weir__number_map_put(&pool->blocks.handles, (uint64_t)(uintptr_t)block, 1);
}

bool weir__block_is_ours(weir_pool *pool, const weir_block *block)
{
    pool_lock(pool);
    const bool ours = weir__number_map_get(&pool->blocks.handles, (uint64_t)(uintptr_t)block) != 0;
    pool_unlock(pool);
    return ours;
}

bool weir__block_enter_locked(weir_pool *pool, weir_block *block)
{
    WEIR_ASSERT(pool_is_locked(pool));
    WEIR_ASSERT(state_of(block) == BLOCK_UNUSED);
    struct block_index *index = atomic_load_explicit(&pool->blocks.index, memory_order_relaxed);
    if (!remember_handle(pool, block) || (index != NULL && !enter(pool, index, block))) {
        return false;
    }
    if (index != NULL && pool->blocks.count > index->mask) {
        widen(pool, index);
    }
    return true;
}

void weir__block_leave_locked(weir_pool *pool, weir_block *block)
{
    WEIR_ASSERT(pool_is_locked(pool));
    WEIR_ASSERT(state_of(block) != BLOCK_UNUSED);
    struct block_index *index = atomic_load_explicit(&pool->blocks.index, memory_order_relaxed);
    if (index != NULL) {
        leave(pool, index, block);
    }
    if ((state_word(block) & BLOCK_USED) != 0) {
        weir_stream *stream = block_stream(block);
        if (block_uses(block)->stand_in == stream->serial) {
            stream->as.live_bytes -= block_capacity(block);
            if (block_uses(block)->lent) {
                stream->as.captures->lent_bytes -= block_capacity(block);
            }
        }
        weir__block_drop_uses(block);
    }
}

struct block_visit {
    void (*visit)(void *ctx, weir_block *block);
    void *ctx;
};

static bool visit_block(void *ctx, const weir_range_info *range)
{
    const struct block_visit *visit = ctx;
    if (range->taken && state_of(range->token) != BLOCK_UNUSED) {
        visit->visit(visit->ctx, range->token);
    }
    return true;
}

void weir__block_each_alone(const weir_pool *pool, void (*visit)(void *ctx, weir_block *block), void *ctx)
{
    struct block_visit blocks = {visit, ctx};
    pool->strategy->walk(pool->state, visit_block, &blocks);
}

void weir__block_each_locked(const weir_pool *pool, void (*visit)(void *ctx, weir_block *block), void *ctx)
{
    WEIR_ASSERT(pool_is_locked(pool));
    weir__block_each_alone(pool, visit, ctx);
}

/* --- uses --- */

struct block_uses *weir__block_add_uses(weir_block *block)
{
    WEIR_ASSERT(state_of(block) == BLOCK_LIVE || state_of(block) == BLOCK_TAKEN);
    struct block_uses *uses = block_uses(block);
    if (uses == NULL && (uses = calloc(1, sizeof(*uses))) != NULL) {
        block->record.as.pool.link = uses;
        (void)__atomic_fetch_or(&block->record.state, BLOCK_USED, __ATOMIC_RELAXED);
    }
    return uses;
}

void weir__use_remove(struct block_uses *uses, struct weir_use **link)
{
    WEIR_ASSERT(*link != NULL);
    struct weir_use *use = *link;
    *link = use->next;
    if (use != &uses->freed) {
        free(use);
    }
}

void weir__use_list_free(struct weir_use *first)
{
    while (first != NULL) {
        struct weir_use *next = first->next;
        free(first);
        first = next;
    }
}

void weir__block_drop_uses(weir_block *block)
{
    struct block_uses *uses = block_uses(block);
    while (uses != NULL && uses->first != NULL) {
        weir__use_remove(uses, &uses->first);
    }
    free(uses);
}

static void drop_uses(void *ctx, weir_block *block)
{
    (void)ctx;
    weir__block_drop_uses(block);
}

void weir__block_fini(weir_pool *pool)
{
    weir__block_each_alone(pool, drop_uses, NULL);
    struct block_index *index = atomic_load_explicit(&pool->blocks.index, memory_order_relaxed);
    while (index != NULL) {
        struct block_index *smaller = index->smaller;
        free(index);
        index = smaller;
    }
    while (pool->blocks.chunks != NULL) {
        struct entry_chunk *next = pool->blocks.chunks->next;
        free(pool->blocks.chunks);
        pool->blocks.chunks = next;
    }
    weir__number_map_fini(&pool->blocks.handles);
    weir__number_map_fini(&pool->region_table);
}
