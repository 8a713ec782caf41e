/* owned.c: a table of the heap's blocks in a pool that other users may share. The heap must not free a block of another
 * user, and its end must find all its own.
 *
 * Idea: hash tables by address, each under its own lock. A shard's lock is held while its block goes back to the pool,
 * so the second of two threads that free the same block finds no entry, even if the pool has handed the address out
 * again.
 * Cost: one lock and some probes for each call; 16 bytes for each block, twice that in the worst case.
 */
#include "heap_internal.h"

#include <stdlib.h>
#include <string.h>

static weir__owned_shard *shard_of(weir__owned *owned, const void *block)
{
    const uint64_t address = (uint64_t)(uintptr_t)block;
    return &owned->shards[(address >> 6) * UINT64_C(0x9e3779b97f4a7c15) >> 60];
}

weir_status weir__owned_create(weir__owned **out)
{
    weir__owned *owned = aligned_alloc(WEIR__HEAP_LINE, sizeof(*owned));
    if (owned == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    memset(owned, 0, sizeof(*owned));
    for (size_t i = 0; i < WEIR__OWNED_SHARDS; i++) {
        (void)pthread_mutex_init(&owned->shards[i].lock, NULL);
    }
    *out = owned;
    return WEIR_OK;
}

void weir__owned_destroy(weir__owned *owned)
{
    for (size_t i = 0; owned != NULL && i < WEIR__OWNED_SHARDS; i++) {
        weir__number_map_fini(&owned->shards[i].blocks);
        (void)pthread_mutex_destroy(&owned->shards[i].lock);
    }
    free(owned);
}

bool weir__owned_put(weir__owned *owned, const void *block, uint64_t name)
{
    WEIR_ASSERT(block != NULL && name != 0);
    weir__owned_shard *shard = shard_of(owned, block);
    (void)pthread_mutex_lock(&shard->lock);
    const bool fits = weir__number_map_put(&shard->blocks, (uint64_t)(uintptr_t)block, name);
    shard->allocs += fits;
    (void)pthread_mutex_unlock(&shard->lock);
    return fits;
}

weir_status weir__owned_free(weir__owned *owned, void *block, weir__owned_release release, void *ctx)
{
    weir__owned_shard *shard = shard_of(owned, block);
    const uint64_t address = (uint64_t)(uintptr_t)block;
    (void)pthread_mutex_lock(&shard->lock);
    const uint64_t name = weir__number_map_get(&shard->blocks, address);
    const weir_status status = name != 0 ? release(ctx, block, name) : WEIR_ERR_INVALID;
    if (status == WEIR_OK) {
        WEIR_ASSERT(shard->frees < shard->allocs);
        const uint64_t taken = weir__number_map_take(&shard->blocks, address);
        WEIR_ASSERT(taken == name);
        shard->frees += taken != 0;
    }
    (void)pthread_mutex_unlock(&shard->lock);
    return status;
}

uint64_t weir__owned_get(weir__owned *owned, const void *block)
{
    weir__owned_shard *shard = shard_of(owned, block);
    (void)pthread_mutex_lock(&shard->lock);
    const uint64_t name = weir__number_map_get(&shard->blocks, (uint64_t)(uintptr_t)block);
    (void)pthread_mutex_unlock(&shard->lock);
    return name;
}

void weir__owned_each(weir__owned *owned, bool (*visit)(void *ctx, uint64_t block, uint64_t name), void *ctx)
{
    for (size_t i = 0; i < WEIR__OWNED_SHARDS; i++) {
        (void)pthread_mutex_lock(&owned->shards[i].lock);
        weir__number_map_each(&owned->shards[i].blocks, visit, ctx);
        (void)pthread_mutex_unlock(&owned->shards[i].lock);
    }
}

void weir__owned_counts(weir__owned *owned, uint64_t *allocs, uint64_t *frees)
{
    for (size_t i = 0; i < WEIR__OWNED_SHARDS; i++) {
        (void)pthread_mutex_lock(&owned->shards[i].lock);
        WEIR_ASSERT(owned->shards[i].allocs >= owned->shards[i].frees);
        *allocs += owned->shards[i].allocs;
        *frees += owned->shards[i].frees;
        (void)pthread_mutex_unlock(&owned->shards[i].lock);
    }
}
