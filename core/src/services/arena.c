/* core/src/services/arena.c: arenas: a bump pointer over blocks of a pool.
 *
 * Idea: an arena has a list of chunks. The chunks up to `current` are in use; the chunks after it are empty and kept. A
 * release moves the pointer back. The chunks above it become empty, and empty chunks beyond keep_chunks return to the
 * pool.
 *
 *     first -> ... -> current -> kept -> ... -> kept       current NULL: nothing is in use
 *              used  |  top     | empty (top 0)
 *
 * Order: memory that the arena hands out again was used by its own stream only, which orders the old use before the new
 * one. A chunk that another stream was named for is `shared`: the arena never lowers its top, and returns it to the
 * pool, which knows the uses. So an arena needs no tick and no clock.
 *
 * Marks are a stack: marks[d] is the position of the mark of depth d. Serials are never used twice, so a mark is valid
 * exactly if the stack still holds its serial at its depth. The check needs no search.
 *
 * Cost: alloc, mark and rewind are constant; release visits the chunks that it empties and the kept ones. Host memory:
 * 48 bytes per chunk, 40 per mark that could still be rewound to. Counters: weir_arena_get_stats.
 */
#include <weir/arena.h>

#include "base/tuning.h"
#include "services/services.h"
#include "shared/round_up.h"

#include <stdlib.h>
#include <unistd.h>

#define SIZE_LIMIT (UINT64_C(1) << (WEIR_SIZE_BUCKETS - 1))

/* A chunk, or a block for one request. Invariant: top <= size. */
struct chunk {
    struct chunk *next;
    weir_block *block;
    uint64_t address;
    uint64_t size;
    uint64_t top;
    bool shared; /* other streams may use the memory below top */
};

/* A stream that weir_arena_use has named after the last reset. */
struct user {
    weir_stream *stream;
    uint64_t serial;
    bool ended; /* the stream's use has ended: it does not touch later allocations */
};

struct mark {
    uint64_t serial;
    struct chunk *chunk; /* `current` at the time of the mark */
    uint64_t top;
    uint64_t own_blocks;
    uint64_t used_bytes;
};

/* Invariants: used_bytes = sum of `top` over all chunks and the blocks of `own`. The chunks up to `current` have top >
 * 0; the chunks behind it are empty: kept_chunks <= keep_chunks. A chunk that is `shared` is in use. */
struct weir_arena {
    weir_pool *pool; /* NULL: the pool has been destroyed */
    weir_stream *stream;
    uint64_t stream_serial;
    struct chunk *current;
    struct chunk *first;
    struct chunk *own; /* blocks for one request each, newest first */
    uint64_t granule;
    uint64_t chunk_bytes;
    uint64_t keep_chunks;

    struct mark *marks;
    size_t mark_count;
    size_t mark_room;
    uint64_t next_serial;

    struct user *users;
    size_t user_count;
    size_t user_room;

    weir_arena_stats usage;
    weir_arena *prev; /* list of the pool's arenas, under the pool's lock */
    weir_arena *next;
};

/* --- checked builds --- */

static const char *broken_rule(const weir_arena *arena)
{
    const weir_arena_stats *usage = &arena->usage;
    uint64_t used = 0;
    uint64_t held = 0;
    uint64_t chunks = 0;
    uint64_t kept = 0;
    uint64_t own = 0;
    bool in_use = arena->current != NULL;
    for (const struct chunk *chunk = arena->first; chunk != NULL; chunk = chunk->next) {
        if ((chunk->top > 0) != in_use || (chunk->shared && !in_use) || chunk->top > chunk->size) {
            return "a chunk is in use that should be empty, or the other way round";
        }
        in_use = in_use && chunk != arena->current;
        used += chunk->top;
        held += weir_block_capacity(chunk->block);
        kept += chunk->top == 0;
        chunks++;
    }
    for (const struct chunk *block = arena->own; block != NULL; block = block->next) {
        used += block->top;
        held += weir_block_capacity(block->block);
        own++;
    }
    if (in_use || used != usage->used_bytes || held != usage->held_bytes) {
        return "an arena's bytes do not add up";
    }
    if (chunks != usage->chunks || kept != usage->kept_chunks || kept > arena->keep_chunks ||
        own != usage->own_blocks) {
        return "an arena's chunks do not add up";
    }
    return NULL;
}

static inline void prove(const weir_arena *arena)
{
    const char *why = WEIR_CHECKS >= 2 ? broken_rule(arena) : NULL;
    if (why != NULL) {
        weir__rule_broken(why);
    }
}

/* --- streams --- */

/* True if the arena's own stream has not been retired. Needs no lock, because it is the caller's error to use an arena
 * while another thread retires its stream. */
static inline bool has_stream(const weir_arena *arena)
{
    return arena->stream->pool == arena->pool && arena->stream->serial == arena->stream_serial;
}

/* True if the stream has been retired. Its handle may belong to another stream by now, with another serial. */
static bool is_gone(weir_pool *pool, const weir_stream *stream, uint64_t serial)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    pool_lock(pool);
    const bool gone = stream->pool != pool || stream->serial != serial;
    pool_unlock(pool);
    return gone;
}

static struct user *find_user(const weir_arena *arena, const weir_stream *stream)
{
    WEIR_ASSERT(stream != NULL);
    for (size_t i = 0; i < arena->user_count; i++) {
        if (arena->users[i].stream == stream && arena->users[i].serial == stream->serial) {
            return &arena->users[i];
        }
    }
    return NULL;
}

/* Tells the pool which streams will use a block before the arena hands out its memory. Skips retired streams, because
 * the pool has waited for them. */
static weir_status note_users(weir_arena *arena, struct chunk *chunk)
{
    WEIR_ASSERT(chunk->block != NULL && chunk->top == 0 && !chunk->shared);
    for (size_t i = 0; i < arena->user_count; i++) {
        const struct user *user = &arena->users[i];
        if (user->ended || is_gone(arena->pool, user->stream, user->serial)) {
            continue;
        }
        const weir_status status = weir_pool_use(arena->pool, chunk->block, user->stream);
        if (status != WEIR_OK) {
            return status;
        }
        chunk->shared = true;
    }
    return WEIR_OK;
}

/* --- blocks --- */

/* Frees the block on the arena's stream. If that stream was retired, the pool has waited for it, and the block is freed
 * on a stream that weir_arena_use has named. If all of these were retired too, no work is left, and the block is freed
 * idle. */
static void give_back(weir_arena *arena, struct chunk *chunk)
{
    WEIR_ASSERT(chunk->block != NULL);
    weir_status status = weir_pool_free(arena->pool, chunk->block, arena->stream);
    for (size_t i = 0; status != WEIR_OK && chunk->shared && i < arena->user_count; i++) {
        status = weir_pool_free(arena->pool, chunk->block, arena->users[i].stream);
    }
    if (status != WEIR_OK) {
        status = weir_pool_free_idle(arena->pool, chunk->block);
    }
    (void)status; /* fails only if a caller has freed the arena's block itself */
    free(chunk);
}

static weir_status take_block(weir_arena *arena, uint64_t size, uint64_t align, struct chunk **out)
{
    WEIR_ASSERT(size != 0 && (align & (align - 1)) == 0);
    struct chunk *chunk = calloc(1, sizeof(*chunk));
    if (chunk == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    weir_status status = weir_pool_alloc(arena->pool, arena->stream, size, align, &chunk->block);
    if (status != WEIR_OK) {
        free(chunk);
        return status;
    }
    chunk->address = weir_block_address(chunk->block);
    chunk->size = size;
    status = note_users(arena, chunk);
    if (status != WEIR_OK) {
        give_back(arena, chunk);
        return status;
    }
    *out = chunk;
    return WEIR_OK;
}

static void count_held(weir_arena *arena, const struct chunk *chunk)
{
    weir_arena_stats *usage = &arena->usage;
    usage->held_bytes += weir_block_capacity(chunk->block);
    usage->peak_held_bytes = usage->held_bytes > usage->peak_held_bytes ? usage->held_bytes : usage->peak_held_bytes;
}

static void drop(weir_arena *arena, struct chunk *chunk)
{
    WEIR_ASSERT(arena->usage.held_bytes >= weir_block_capacity(chunk->block));
    arena->usage.held_bytes -= weir_block_capacity(chunk->block);
    give_back(arena, chunk);
}

static struct chunk **behind_current(weir_arena *arena)
{
    return arena->current != NULL ? &arena->current->next : &arena->first;
}

/* Gives kept chunks back to the pool, except the first `most` of them. */
static void trim_kept(weir_arena *arena, uint64_t most)
{
    struct chunk **link = behind_current(arena);
    for (uint64_t kept = 0; kept < most && *link != NULL; kept++) {
        link = &(*link)->next;
    }
    while (*link != NULL) {
        struct chunk *chunk = *link;
        *link = chunk->next;
        arena->usage.chunks--;
        arena->usage.kept_chunks--;
        drop(arena, chunk);
    }
}

/* --- life --- */

weir_status weir_arena_create(weir_pool *pool, weir_stream *stream, const weir_arena_config *config, weir_arena **out)
{
    weir_arena_config own = WEIR_ARENA_CONFIG_INIT;
    if (pool == NULL || out == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_arena_create: %s is NULL", pool == NULL ? "pool" : "arena");
    }
    if (stream == NULL || stream->pool != pool) {
        return weir__refuse_stream("weir_arena_create", pool, stream);
    }
    weir_status status =
        config != NULL ? weir_struct_adopt(&own, sizeof(own), config, "weir_arena_create: config") : WEIR_OK;
    if (status != WEIR_OK) {
        return status;
    }
    if ((own.flags & ~(uint32_t)WEIR_ARENA_KEEP_NONE) != 0) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_arena_create: config.flags %#x has an unknown flag", own.flags);
    }
    if (own.chunk_bytes >= SIZE_LIMIT) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_arena_create: config.chunk_bytes %llu is too large",
                           (unsigned long long)own.chunk_bytes);
    }
    weir_arena *arena = calloc(1, sizeof(*arena));
    if (arena == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    arena->pool = pool;
    arena->stream = stream;
    arena->stream_serial = stream->serial;
    arena->granule = pool->granule_mask + 1;
    arena->chunk_bytes = own.chunk_bytes != 0 ? own.chunk_bytes : arena_chunk_bytes;
    arena->keep_chunks = own.keep_chunks != 0 ? own.keep_chunks : arena_keep_chunks;
    arena->keep_chunks = (own.flags & WEIR_ARENA_KEEP_NONE) != 0 ? 0 : arena->keep_chunks;
    arena->usage = (weir_arena_stats)WEIR_ARENA_STATS_INIT;
    pool_lock(pool);
    arena->next_serial = (++pool->arenas_made << 32) + 1;
    arena->next = pool->arenas;
    if (arena->next != NULL) {
        arena->next->prev = arena;
    }
    pool->arenas = arena;
    pool_unlock(pool);
    *out = arena;
    return WEIR_OK;
}

/* Removes the arena from its pool's list. Pool lock held. */
static void leave_pool(weir_arena *arena)
{
    WEIR_ASSERT(pool_is_locked(arena->pool));
    WEIR_ASSERT(*(arena->prev != NULL ? &arena->prev->next : &arena->pool->arenas) == arena);
    *(arena->prev != NULL ? &arena->prev->next : &arena->pool->arenas) = arena->next;
    if (arena->next != NULL) {
        arena->next->prev = arena->prev;
    }
}

static void forget_list(struct chunk **list)
{
    while (*list != NULL) {
        struct chunk *next = (*list)->next;
        free(*list);
        *list = next;
    }
}

/* Frees host memory only. The blocks end with the pool. */
static void forget_blocks(weir_arena *arena)
{
    WEIR_ASSERT(arena->pool != NULL);
    forget_list(&arena->first);
    forget_list(&arena->own);
    arena->current = NULL;
    arena->usage.used_bytes = 0;
    arena->usage.held_bytes = 0;
    arena->usage.chunks = 0;
    arena->usage.kept_chunks = 0;
    arena->usage.own_blocks = 0;
}

void weir_arena_destroy(weir_arena *arena)
{
    weir_pool *pool = arena != NULL ? arena->pool : NULL;
    if (arena == NULL || (pool != NULL && pool->process != getpid())) {
        return; /* a child of fork leaves the arena as it is, like the pool */
    }
    if (pool != NULL) {
        arena->keep_chunks = 0;
        (void)weir_arena_reset(arena);
        pool_lock(pool);
        leave_pool(arena);
        pool_unlock(pool);
    }
    free(arena->marks);
    free(arena->users);
    free(arena);
}

void weir__arena_orphan_all(weir_pool *pool)
{
    for (weir_arena *arena = pool->arenas; arena != NULL; arena = arena->next) {
        forget_blocks(arena);
        arena->pool = NULL;
        arena->stream = NULL;
    }
}

/* --- refusals --- */

static bool is_gone_arena(const weir_arena *arena)
{
    return arena == NULL || arena->pool == NULL;
}

static weir_status refuse_arena(const char *function, const weir_arena *arena)
{
    return weir_refuse(WEIR_ERR_INVALID, "%s: %s", function,
                       arena == NULL ? "arena is NULL" : "the arena's pool has been destroyed");
}

/* --- alloc --- */

static inline void count_taken(weir_arena *arena, uint64_t bytes)
{
    weir_arena_stats *usage = &arena->usage;
    usage->allocs++;
    usage->used_bytes += bytes;
    WEIR_ASSERT(usage->used_bytes <= usage->held_bytes);
    usage->peak_used_bytes = usage->used_bytes > usage->peak_used_bytes ? usage->used_bytes : usage->peak_used_bytes;
}

static inline bool bump(weir_arena *arena, struct chunk *chunk, uint64_t size, uint64_t align, uint64_t *address)
{
    WEIR_ASSERT(chunk->top <= chunk->size && is_power_of_two(align));
    const uint64_t start = (chunk->address + chunk->top + align - 1) & ~(align - 1);
    const uint64_t below = start - chunk->address;
    if (below > chunk->size || chunk->size - below < size) {
        return false;
    }
    count_taken(arena, below + size - chunk->top);
    chunk->top = below + size;
    *address = start;
    return true;
}

/* Puts an empty chunk, kept or new, behind the current chunk. */
static weir_status provide_chunk(weir_arena *arena)
{
    struct chunk **link = behind_current(arena);
    struct chunk *chunk = *link;
    if (chunk == NULL) {
        const weir_status status = take_block(arena, arena->chunk_bytes, 0, &chunk);
        if (status == WEIR_OK) {
            *link = chunk;
            count_held(arena, chunk);
            arena->usage.chunks++;
            arena->usage.kept_chunks++;
        }
        return status;
    }
    const weir_status status = note_users(arena, chunk);
    if (status != WEIR_OK) {
        /* The pool may have recorded some of the uses already, and a use cannot be withdrawn. So the chunk is
         * dropped. */
        *link = chunk->next;
        arena->usage.chunks--;
        arena->usage.kept_chunks--;
        drop(arena, chunk);
    }
    return status;
}

/* Makes the next chunk the current chunk and serves the request from it. The request fits into an empty chunk. */
static weir_status next_chunk(weir_arena *arena, uint64_t size, uint64_t align, uint64_t *address)
{
    const weir_status status = provide_chunk(arena);
    if (status != WEIR_OK) {
        return status;
    }
    arena->current = *behind_current(arena);
    WEIR_ASSERT(arena->current != NULL && arena->current->top == 0);
    WEIR_ASSERT(arena->usage.kept_chunks != 0);
    arena->usage.kept_chunks--;
    return bump(arena, arena->current, size, align, address) ? WEIR_OK : WEIR_ERR_INTERNAL;
}

/* Gets a block for this request alone. If the pool has no memory, gives the kept chunks back to it and tries again. */
static weir_status own_block(weir_arena *arena, uint64_t size, uint64_t align, uint64_t *address)
{
    WEIR_ASSERT(size != 0 && is_power_of_two(align));
    struct chunk *block = NULL;
    weir_status status = take_block(arena, size, align, &block);
    if (status == WEIR_ERR_NO_MEMORY && arena->usage.kept_chunks > 0) {
        trim_kept(arena, 0);
        status = take_block(arena, size, align, &block);
    }
    if (status != WEIR_OK) {
        return status;
    }
    block->top = size;
    block->next = arena->own;
    arena->own = block;
    arena->usage.own_blocks++;
    count_held(arena, block);
    count_taken(arena, size);
    *address = block->address;
    return WEIR_OK;
}

static __attribute__((noinline)) weir_status refuse_alloc(const weir_arena *arena, uint64_t size, uint64_t align,
                                                          const uint64_t *address)
{
    if (is_gone_arena(arena)) {
        return refuse_arena("weir_arena_alloc", arena);
    }
    if (address == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_arena_alloc: address is NULL");
    }
    if (!has_stream(arena)) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_arena_alloc: the arena's stream has been retired");
    }
    if (size == 0 || size >= SIZE_LIMIT) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_arena_alloc: size %llu is %s", (unsigned long long)size,
                           size == 0 ? "no size" : "too large");
    }
    return weir_refuse(WEIR_ERR_INVALID, "weir_arena_alloc: align %llu is %s", (unsigned long long)align,
                       (align & (align - 1)) != 0 ? "not a power of two" : "too large");
}

weir_status weir_arena_alloc(weir_arena *arena, uint64_t size, uint64_t align, uint64_t *address)
{
    if (arena == NULL || address == NULL || arena->pool == NULL || !has_stream(arena) || size == 0 ||
        size >= SIZE_LIMIT || (align & (align - 1)) != 0 || align >= SIZE_LIMIT) {
        return refuse_alloc(arena, size, align, address);
    }
    align = align != 0 ? align : arena->granule;
    if (arena->current != NULL && bump(arena, arena->current, size, align, address)) {
        return WEIR_OK;
    }
    /* A block starts at a multiple of the granule, so aligning the result skips at most align - granule bytes. */
    const uint64_t skipped = align > arena->granule ? align - arena->granule : 0;
    weir_status status = WEIR_ERR_NO_MEMORY;
    if (size + skipped <= arena->chunk_bytes) {
        status = next_chunk(arena, size, align, address);
    }
    if (status == WEIR_ERR_NO_MEMORY) {
        status = own_block(arena, size, align, address);
    }
    prove(arena);
    return status;
}

/* --- release --- */

static void release_own(weir_arena *arena, uint64_t left)
{
    WEIR_ASSERT(arena->usage.own_blocks >= left);
    while (arena->usage.own_blocks > left) {
        struct chunk *block = arena->own;
        WEIR_ASSERT(block != NULL);
        arena->own = block->next;
        arena->usage.own_blocks--;
        drop(arena, block);
    }
}

/* Empties the chunks from *link up to and including the current chunk. */
static void release_chunks(weir_arena *arena, struct chunk **link)
{
    struct chunk *const end = *behind_current(arena);
    while (*link != end) {
        struct chunk *chunk = *link;
        if (chunk->shared) {
            *link = chunk->next;
            arena->usage.chunks--;
            drop(arena, chunk);
        } else {
            chunk->top = 0;
            arena->usage.kept_chunks++;
            link = &chunk->next;
        }
    }
}

/* Releases all memory above the mark. If other streams share the mark's chunk, the chunk's bump pointer `top` stays, so
 * all bytes below it stay in use. */
static void release(weir_arena *arena, const struct mark *place)
{
    WEIR_ASSERT(place->chunk == NULL || place->top <= place->chunk->top);
    WEIR_ASSERT(place->used_bytes <= arena->usage.used_bytes);
    struct chunk *const chunk = place->chunk;
    release_own(arena, place->own_blocks);
    release_chunks(arena, chunk != NULL ? &chunk->next : &arena->first);
    arena->current = chunk;
    arena->usage.used_bytes = place->used_bytes;
    if (chunk != NULL && chunk->shared) {
        arena->usage.used_bytes += chunk->top - place->top;
    } else if (chunk != NULL) {
        chunk->top = place->top;
    }
    trim_kept(arena, has_stream(arena) ? arena->keep_chunks : 0);
    prove(arena);
}

weir_status weir_arena_reset(weir_arena *arena)
{
    const struct mark empty = {0};
    if (is_gone_arena(arena)) {
        return refuse_arena("weir_arena_reset", arena);
    }
    release(arena, &empty);
    arena->mark_count = 0;
    arena->user_count = 0;
    arena->usage.resets++;
    return WEIR_OK;
}

/* --- marks --- */

static bool is_here(const weir_arena *arena, const struct mark *mark)
{
    return mark->chunk == arena->current && (mark->chunk == NULL || mark->top == mark->chunk->top) &&
           mark->own_blocks == arena->usage.own_blocks;
}

static bool reserve_mark(weir_arena *arena)
{
    WEIR_ASSERT(arena->mark_count <= arena->mark_room);
    if (arena->mark_count < arena->mark_room) {
        return true;
    }
    const size_t room = arena->mark_room == 0 ? 16 : arena->mark_room * 2;
    struct mark *marks = realloc(arena->marks, room * sizeof(*marks));
    if (marks == NULL) {
        return false;
    }
    arena->marks = marks;
    arena->mark_room = room;
    return true;
}

weir_status weir_arena_mark(weir_arena *arena, weir_mark *mark)
{
    if (is_gone_arena(arena)) {
        return refuse_arena("weir_arena_mark", arena);
    }
    if (mark == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_arena_mark: mark is NULL");
    }
    if (arena->mark_count == 0 || !is_here(arena, &arena->marks[arena->mark_count - 1])) {
        if (!reserve_mark(arena)) {
            return WEIR_ERR_NO_MEMORY;
        }
        arena->marks[arena->mark_count++] = (struct mark){
            .serial = arena->next_serial++,
            .chunk = arena->current,
            .top = arena->current != NULL ? arena->current->top : 0,
            .own_blocks = arena->usage.own_blocks,
            .used_bytes = arena->usage.used_bytes,
        };
    }
    WEIR_ASSERT(arena->mark_count != 0);
    const size_t depth = arena->mark_count - 1;
    *mark = (weir_mark){.arena = arena, .serial = arena->marks[depth].serial, .depth = depth};
    return WEIR_OK;
}

weir_status weir_arena_rewind(weir_arena *arena, weir_mark mark)
{
    if (is_gone_arena(arena)) {
        return refuse_arena("weir_arena_rewind", arena);
    }
    if (mark.arena != arena || mark.depth >= arena->mark_count || arena->marks[mark.depth].serial != mark.serial) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_arena_rewind: mark is %s",
                           mark.arena != arena ? "of another arena"
                                               : "no longer valid: the arena was reset or rewound below it");
    }
    release(arena, &arena->marks[mark.depth]);
    arena->mark_count = (size_t)mark.depth + 1;
    return WEIR_OK;
}

/* --- other streams --- */

/* Returns an unused entry of `users`, or NULL if there is no host memory. */
static struct user *reserve_user(weir_arena *arena)
{
    WEIR_ASSERT(arena->user_count <= arena->user_room);
    if (arena->user_count == arena->user_room) {
        const size_t room = arena->user_room == 0 ? 4 : arena->user_room * 2;
        struct user *users = realloc(arena->users, room * sizeof(*users));
        if (users == NULL) {
            return NULL;
        }
        arena->users = users;
        arena->user_room = room;
    }
    return &arena->users[arena->user_count];
}

/* Calls `call` for each chunk in use and each block for one request. */
static weir_status for_each(weir_arena *arena, weir_stream *stream, bool shares,
                            weir_status (*call)(weir_pool *pool, weir_block *block, weir_stream *stream))
{
    WEIR_ASSERT(arena->pool != NULL && stream->pool == arena->pool);
    weir_status status = WEIR_OK;
    struct chunk *const end = *behind_current(arena);
    struct chunk *const lists[] = {arena->first, arena->own};
    for (size_t i = 0; i < 2; i++) {
        for (struct chunk *chunk = lists[i]; chunk != (i == 0 ? end : NULL) && status == WEIR_OK; chunk = chunk->next) {
            status = call(arena->pool, chunk->block, stream);
            chunk->shared |= shares && status == WEIR_OK;
        }
    }
    return status;
}

/* Returns WEIR_OK, or the error for an arena or stream that `function` cannot use. */
static weir_status refuse_use(const char *function, const weir_arena *arena, const weir_stream *stream)
{
    if (is_gone_arena(arena)) {
        return refuse_arena(function, arena);
    }
    return stream == NULL || stream->pool != arena->pool ? weir__refuse_stream(function, arena->pool, stream) : WEIR_OK;
}

weir_status weir_arena_use(weir_arena *arena, weir_stream *stream)
{
    const weir_status refusal = refuse_use("weir_arena_use", arena, stream);
    if (refusal != WEIR_OK) {
        return refusal;
    }
    struct user *user = find_user(arena, stream);
    if (stream == arena->stream || (user != NULL && !user->ended)) {
        return WEIR_OK;
    }
    user = user != NULL ? user : reserve_user(arena);
    if (user == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    const weir_status status = for_each(arena, stream, true, weir_pool_use);
    if (status == WEIR_OK) {
        arena->user_count += user == &arena->users[arena->user_count];
        *user = (struct user){.stream = stream, .serial = stream->serial};
    }
    return status;
}

weir_status weir_arena_use_end(weir_arena *arena, weir_stream *stream)
{
    const weir_status refusal = refuse_use("weir_arena_use_end", arena, stream);
    if (refusal != WEIR_OK) {
        return refusal;
    }
    struct user *user = find_user(arena, stream);
    if (user == NULL || user->ended) {
        return WEIR_OK;
    }
    user->ended = true;
    return for_each(arena, stream, false, weir_pool_use_end);
}

/* --- statistics --- */

weir_status weir_arena_get_stats(const weir_arena *arena, weir_arena_stats *usage)
{
    return arena != NULL ? weir_struct_report(usage, &arena->usage, sizeof(arena->usage), "weir_arena_get_stats: usage")
                         : weir_refuse(WEIR_ERR_INVALID, "weir_arena_get_stats: arena is NULL");
}
