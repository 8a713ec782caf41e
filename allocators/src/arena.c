/* allocators/src/arena.c: a bump pointer over chunks.
 *
 * Idea: a chunk is a region. A lane takes blocks from the low end of one free piece, its `current`, one after the
 * other. What is taken together lies together, so what is released together leaves a whole chunk: a freed block joins
 * its free neighbours of the same lane, the free end above it included, which is how the bump pointer comes down when
 * blocks are freed in the opposite order. A chunk of which everything has been freed in one lane is therefore one
 * piece again, reset, with the latest tick of all its frees: nothing visits its blocks. When they were freed in
 * several lanes, gather resets it for a lane that may have each part.
 *
 * A lane whose current piece is too small bumps into the smallest free *place* that holds the request: a wholly free
 * chunk, or a hole of at least 64 KiB or an eighth of its chunk (bumping into holes between live data is what Immix
 * does, Blackburn and McKinley, PLDI 2008). Smaller holes are *crumbs*: nobody looks at them until neighbours join
 * them.
 *
 * Guarantee: alloc refuses only when no place of the lane and not its current piece holds the request, gather as a last
 * resort only when no run of usable pieces does, crumbs included.
 *
 * Waste. Inside a block: below one granule (512 bytes). At the end of a chunk: what is left is less than the request
 * that did not fit, and what asks for a quarter of a chunk gets one of its own, so less than a quarter; while it is 64
 * KiB it is a place for smaller requests. Between blocks: no bound. One block that outlives the others keeps its chunk
 * from going back, and crumbs beside it, up to 64 KiB between any two blocks, wait for the last resort: this is no
 * strategy for lifetimes that have nothing to do with each other. Chunks that are wholly free are kept. What bounds
 * them is the pool, not this file: it returns them when it trims, and before it grows it returns those that lie idle
 * (core/src/memory/region.c), so it holds no more than a peak needed.
 *
 * Cost: alloc and free are constant. A search for a place looks at 16 pieces where it is not sure to succeed; only one
 * that is about to refuse reads the rest of the request's own bin. promote costs a constant per piece that moves.
 * gather is linear in the pieces of chunks with enough free bytes, and free when all free memory is in the asking
 * lane. largest reads one bin. Host memory: 88 bytes per block or free piece, 3.6 KiB per lane.
 *
 * Counters that show it: free_bytes and largest_free_bytes of stats; the pool's served[] by rung.
 */
#include <weir/arena_strategy.h>

#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)
#define GRANULE_SHIFT 9u
#define GRANULE (UINT64_C(1) << GRANULE_SHIFT)
#define LEAST_CHUNK (2 * MIB)
#define MOST_CHUNK (32 * MIB)
#define LEAST_HOLE (UINT64_C(64) << 10)

enum {
    bins_per_doubling = 4,
    bin_count = 56 * bins_per_doubling,
    bin_words = (bin_count + 63) / 64,
    looks = 16,            /* pieces that a search looks at where it is not sure to succeed */
    hole_share = 8,        /* a hole of this part of its chunk is a place too */
    own_chunk = 4,         /* a request of this part of a chunk gets one of its own */
    pieces_per_slab = 512, /* records taken from the host at a time */
};

/* A piece of a chunk, taken or free. Neighbours by address are linked; the other links are in use while it is free. */
struct piece {
    uint64_t address;
    uint64_t size;
    struct piece *prev;
    struct piece *next; /* in a list of unused records: the next of these */
    struct chunk *chunk;
    struct piece *older; /* the lane's free pieces in order of their ticks */
    struct piece *newer;
    struct piece *bin_prev;
    struct piece *bin_next;
    weir_tick tick;
    weir_lane lane;
    bool taken;
};

/* A region. first .. next .. NULL tile [address, address + size); free_bytes is the sum of its free pieces. */
struct chunk {
    uint64_t address;
    uint64_t size;
    uint64_t free_bytes;
    struct piece *first;
    struct chunk *prev;
    struct chunk *next;
    struct chunk *idle_prev; /* in the list of chunks that are wholly free, in use while it is */
    struct chunk *idle_next;
};

/* Free pieces by size, the last that came first. Bit b of held: of[b] is not empty. */
struct bins {
    uint64_t held[bin_words];
    struct piece *of[bin_count];
};

/* oldest->tick <= ... <= newest->tick. Each of these pieces is in `places` or in `crumbs`: is_place says where.
 * `current` is one of them or NULL: where the lane bumps. */
struct lane {
    struct piece *oldest;
    struct piece *newest;
    struct piece *current;
    uint64_t pieces;
    uint64_t bytes;
    struct bins places;
    struct bins crumbs;
};

struct slab {
    struct slab *next;
    struct piece pieces[pieces_per_slab];
};

/* chunk_bytes = taken_bytes + sum of lanes[]->bytes. */
struct arena {
    struct lane **lanes;
    size_t lane_count;
    struct chunk *first_chunk;
    struct chunk *last_chunk;
    struct chunk *idle; /* wholly free, in whatever lanes, the last to become so first */
    struct piece *unused;
    struct slab *slabs;
    struct piece *gathered; /* what the last call, a gather, has found; else NULL */
    uint64_t fixed_chunk;   /* 0: chunks grow with the pool */
    uint64_t chunks;
    uint64_t chunk_bytes;
    uint64_t taken_pieces;
    uint64_t taken_bytes;
};

static uint64_t round_up(uint64_t size, uint64_t unit)
{
    return (size + unit - 1) & ~(unit - 1);
}

/* --- records --- */

static bool grow_records(struct arena *arena)
{
    struct slab *slab = malloc(sizeof(*slab));
    if (slab == NULL) {
        return false;
    }
    slab->next = arena->slabs;
    arena->slabs = slab;
    for (size_t i = pieces_per_slab; i-- > 0;) {
        slab->pieces[i].next = arena->unused;
        arena->unused = &slab->pieces[i];
    }
    return true;
}

/* NULL when there is no host memory. */
static struct piece *new_piece(struct arena *arena)
{
    if (arena->unused == NULL && !grow_records(arena)) {
        return NULL;
    }
    struct piece *piece = arena->unused;
    arena->unused = piece->next;
    return piece;
}

static void delete_piece(struct arena *arena, struct piece *piece)
{
    piece->next = arena->unused;
    arena->unused = piece;
}

/* --- bins --- */

/* By the three highest bits of the size in granules, which is at least one. */
static unsigned bin_of(uint64_t size)
{
    const uint64_t granules = size >> GRANULE_SHIFT;
    const unsigned top = 63u - (unsigned)__builtin_clzll(granules);
    const uint64_t quarter = (top >= 2 ? granules >> (top - 2) : granules << (2 - top)) & 3u;
    return top * bins_per_doubling + (unsigned)quarter;
}

/* The first bin from `bin` on that is not empty; bin_count when there is none. */
static unsigned next_held(const struct bins *bins, unsigned bin)
{
    for (unsigned word = bin / 64; word < bin_words; word++) {
        const uint64_t skipped = word == bin / 64 ? bin % 64 : 0;
        const uint64_t held = bins->held[word] >> skipped << skipped;
        if (held != 0) {
            return word * 64 + (unsigned)__builtin_ctzll(held);
        }
    }
    return bin_count;
}

static void bin_insert(struct bins *bins, unsigned bin, struct piece *piece)
{
    piece->bin_prev = NULL;
    piece->bin_next = bins->of[bin];
    if (piece->bin_next != NULL) {
        piece->bin_next->bin_prev = piece;
    }
    bins->of[bin] = piece;
    bins->held[bin / 64] |= UINT64_C(1) << bin % 64;
}

static void bin_remove(struct bins *bins, unsigned bin, struct piece *piece)
{
    *(piece->bin_prev != NULL ? &piece->bin_prev->bin_next : &bins->of[bin]) = piece->bin_next;
    if (piece->bin_next != NULL) {
        piece->bin_next->bin_prev = piece->bin_prev;
    }
    if (bins->of[bin] == NULL) {
        bins->held[bin / 64] &= ~(UINT64_C(1) << bin % 64);
    }
}

static uint64_t largest_in(const struct bins *bins)
{
    uint64_t largest = 0;
    for (unsigned word = bin_words; word-- > 0 && largest == 0;) {
        if (bins->held[word] != 0) {
            const unsigned bin = word * 64 + 63 - (unsigned)__builtin_clzll(bins->held[word]);
            for (const struct piece *piece = bins->of[bin]; piece != NULL;
                 piece = piece->bin_next) {
                largest = piece->size > largest ? piece->size : largest;
            }
        }
    }
    return largest;
}

/* --- idle chunks --- */

static void gain_free(struct arena *arena, struct chunk *chunk, uint64_t bytes)
{
    chunk->free_bytes += bytes;
    if (chunk->free_bytes == chunk->size) {
        chunk->idle_prev = NULL;
        chunk->idle_next = arena->idle;
        if (chunk->idle_next != NULL) {
            chunk->idle_next->idle_prev = chunk;
        }
        arena->idle = chunk;
    }
}

static void lose_free(struct arena *arena, struct chunk *chunk, uint64_t bytes)
{
    if (chunk->free_bytes == chunk->size) {
        *(chunk->idle_prev != NULL ? &chunk->idle_prev->idle_next : &arena->idle) =
            chunk->idle_next;
        if (chunk->idle_next != NULL) {
            chunk->idle_next->idle_prev = chunk->idle_prev;
        }
    }
    chunk->free_bytes -= bytes;
}

/* --- lanes --- */

/* Whether `bytes` free bytes side by side in that chunk are worth bumping into. */
static bool is_place(const struct chunk *chunk, uint64_t bytes)
{
    return bytes >= LEAST_HOLE || bytes >= chunk->size / hole_share;
}

static struct bins *bins_of(const struct arena *arena, const struct piece *piece)
{
    struct lane *lane = arena->lanes[piece->lane];
    return is_place(piece->chunk, piece->size) ? &lane->places : &lane->crumbs;
}

static void link_after(struct lane *lane, struct piece *piece, struct piece *older)
{
    piece->older = older;
    piece->newer = older != NULL ? older->newer : lane->oldest;
    *(piece->older != NULL ? &piece->older->newer : &lane->oldest) = piece;
    *(piece->newer != NULL ? &piece->newer->older : &lane->newest) = piece;
}

static void insert_after(struct arena *arena, struct piece *piece, struct piece *older)
{
    struct lane *lane = arena->lanes[piece->lane];
    link_after(lane, piece, older);
    lane->pieces++;
    lane->bytes += piece->size;
    gain_free(arena, piece->chunk, piece->size);
    bin_insert(bins_of(arena, piece), bin_of(piece->size), piece);
}

/* Frees come with ticks that do not go down, new chunks with the lowest: both ends are near. */
static struct piece *place_by_tick(const struct lane *lane, weir_tick tick)
{
    struct piece *high = lane->newest;
    struct piece *low = lane->oldest;
    while (high != NULL && high->tick > tick) {
        if (low->tick > tick) {
            return low->older;
        }
        high = high->older;
        low = low->newer;
    }
    return high;
}

static void lane_insert(struct arena *arena, struct piece *piece)
{
    insert_after(arena, piece, place_by_tick(arena->lanes[piece->lane], piece->tick));
}

static void lane_remove(struct arena *arena, struct piece *piece)
{
    struct lane *lane = arena->lanes[piece->lane];
    *(piece->older != NULL ? &piece->older->newer : &lane->oldest) = piece->newer;
    *(piece->newer != NULL ? &piece->newer->older : &lane->newest) = piece->older;
    lane->current = lane->current == piece ? NULL : lane->current;
    lane->pieces--;
    lane->bytes -= piece->size;
    lose_free(arena, piece->chunk, piece->size);
    bin_remove(bins_of(arena, piece), bin_of(piece->size), piece);
}

/* --- neighbours --- */

static void unlink_neighbour(struct arena *arena, struct piece *piece)
{
    *(piece->prev != NULL ? &piece->prev->next : &piece->chunk->first) = piece->next;
    if (piece->next != NULL) {
        piece->next->prev = piece->prev;
    }
    delete_piece(arena, piece);
}

/* The later tick survives: with the earlier one, the whole would be handed out while work on one part is still
 * running. */
static void absorb_next(struct arena *arena, struct piece *piece)
{
    struct piece *next = piece->next;
    piece->size += next->size;
    piece->tick = next->tick > piece->tick ? next->tick : piece->tick;
    unlink_neighbour(arena, next);
}

static bool joins(const struct piece *neighbour, const struct piece *piece)
{
    return neighbour != NULL && !neighbour->taken && neighbour->lane == piece->lane;
}

/* Puts a piece that is in no lane into its own, joined with its free neighbours there. Above it that is how the bump
 * pointer comes down, and with both that a chunk is reset: one piece again, with the latest of all its ticks. */
static struct piece *settle(struct arena *arena, struct piece *piece)
{
    struct lane *lane = arena->lanes[piece->lane];
    struct piece *const current = lane->current;
    bool bumping = false;
    piece->taken = false;
    if (joins(piece->next, piece)) {
        bumping = piece->next == current;
        lane_remove(arena, piece->next);
        absorb_next(arena, piece);
    }
    if (joins(piece->prev, piece)) {
        piece = piece->prev;
        bumping |= piece == current;
        lane_remove(arena, piece);
        absorb_next(arena, piece);
    }
    lane_insert(arena, piece);
    if (bumping) {
        lane->current = piece;
    }
    return piece;
}

/* --- life --- */

static size_t arena_state_size(const void *config)
{
    (void)config;
    return sizeof(struct arena);
}

static weir_status arena_init(void *state, const void *config)
{
    struct arena *arena = state;
    weir_arena_strategy_config own;
    static const weir_arena_strategy_config defaults = WEIR_ARENA_STRATEGY_CONFIG_INIT;
    weir_status status = weir_struct_adopt(&own, sizeof(own), config != NULL ? config : &defaults,
                                           "weir_pool_create: weir_arena_strategy_config");
    if (status != WEIR_OK) {
        return status;
    }
    *arena = (struct arena){.fixed_chunk = own.chunk_bytes};
    return WEIR_OK;
}

static void arena_fini(void *state)
{
    struct arena *arena = state;
    while (arena->first_chunk != NULL) {
        struct chunk *next = arena->first_chunk->next;
        free(arena->first_chunk);
        arena->first_chunk = next;
    }
    while (arena->slabs != NULL) {
        struct slab *next = arena->slabs->next;
        free(arena->slabs);
        arena->slabs = next;
    }
    for (size_t lane = 0; lane < arena->lane_count; lane++) {
        free(arena->lanes[lane]);
    }
    free(arena->lanes);
}

static weir_status arena_lane_add(void *state, weir_lane number)
{
    struct arena *arena = state;
    if (number >= arena->lane_count) {
        const size_t count = (size_t)number + 1;
        struct lane **lanes = realloc(arena->lanes, count * sizeof(*lanes));
        if (lanes == NULL) {
            return WEIR_ERR_NO_MEMORY;
        }
        arena->lanes = lanes;
        while (arena->lane_count < count) {
            lanes[arena->lane_count++] = NULL;
        }
    }
    if (arena->lanes[number] == NULL) {
        arena->lanes[number] = calloc(1, sizeof(*arena->lanes[number]));
    }
    return arena->lanes[number] != NULL ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

/* --- chunks --- */

static uint64_t arena_region_size(const void *state, uint64_t size, uint64_t align,
                                  uint64_t reserved, uint64_t granularity)
{
    const struct arena *arena = state;
    const uint64_t need = round_up(size, GRANULE) + (align > GRANULE ? align : 0);
    uint64_t chunk = reserved / 8;
    chunk = chunk < LEAST_CHUNK ? LEAST_CHUNK : chunk;
    chunk = chunk > MOST_CHUNK ? MOST_CHUNK : chunk;
    chunk = arena->fixed_chunk != 0 ? arena->fixed_chunk : chunk;
    return round_up(need < chunk / own_chunk ? chunk : need, granularity);
}

static weir_status arena_region_add(void *state, uint64_t address, uint64_t size,
                                    uint64_t size_hint, weir_lane lane, weir_tick tick, void **out)
{
    struct arena *arena = state;
    (void)size_hint;
    arena->gathered = NULL;
    struct chunk *chunk = calloc(1, sizeof(*chunk));
    struct piece *piece = chunk != NULL ? new_piece(arena) : NULL;
    if (piece == NULL) {
        free(chunk);
        return WEIR_ERR_NO_MEMORY;
    }
    *chunk =
        (struct chunk){.address = address, .size = size, .first = piece, .prev = arena->last_chunk};
    *(chunk->prev != NULL ? &chunk->prev->next : &arena->first_chunk) = chunk;
    arena->last_chunk = chunk;
    arena->chunks++;
    arena->chunk_bytes += size;
    *piece = (struct piece){
        .address = address, .size = size, .chunk = chunk, .lane = lane, .tick = tick};
    lane_insert(arena, piece);
    *out = chunk;
    return WEIR_OK;
}

static bool eligible(const struct piece *piece, const weir_tick *limits, size_t lanes)
{
    return !piece->taken && piece->lane < lanes && piece->tick <= limits[piece->lane];
}

static bool may_go(const struct chunk *chunk, const weir_tick *limits, size_t lanes)
{
    bool may = chunk->free_bytes == chunk->size;
    for (const struct piece *piece = chunk->first; piece != NULL && may; piece = piece->next) {
        may = eligible(piece, limits, lanes);
    }
    return may;
}

/* Looks at wholly free chunks only. */
static bool arena_region_idle(const void *state, const weir_tick *limits, size_t lanes,
                              uint64_t *address)
{
    const struct arena *arena = state;
    for (const struct chunk *chunk = arena->idle; chunk != NULL; chunk = chunk->idle_next) {
        if (may_go(chunk, limits, lanes)) {
            *address = chunk->address;
            return true;
        }
    }
    return false;
}

static weir_status arena_region_remove(void *state, void *region, const weir_tick *limits,
                                       size_t lanes)
{
    struct arena *arena = state;
    struct chunk *chunk = region;
    arena->gathered = NULL;
    if (!may_go(chunk, limits, lanes)) {
        return WEIR_ERR_BUSY;
    }
    while (chunk->first != NULL) {
        lane_remove(arena, chunk->first);
        unlink_neighbour(arena, chunk->first);
    }
    *(chunk->prev != NULL ? &chunk->prev->next : &arena->first_chunk) = chunk->next;
    *(chunk->next != NULL ? &chunk->next->prev : &arena->last_chunk) = chunk->prev;
    arena->chunks--;
    arena->chunk_bytes -= chunk->size;
    free(chunk);
    return WEIR_OK;
}

/* --- alloc --- */

struct want {
    uint64_t bytes; /* whole granules */
    uint64_t align;
    weir_tick limit;
};

static uint64_t padding_in(const struct piece *piece, uint64_t align)
{
    return (align - (piece->address & (align - 1))) & (align - 1);
}

static bool serves(const struct piece *piece, const struct want *want)
{
    const uint64_t padding = padding_in(piece, want->align);
    return piece->size >= want->bytes && piece->size - want->bytes >= padding &&
           piece->tick <= want->limit;
}

/* The first piece that serves in bins [from, to), among so many. */
static struct piece *look(const struct bins *bins, unsigned from, unsigned to,
                          const struct want *want, unsigned most)
{
    for (unsigned bin = next_held(bins, from); bin < to; bin = next_held(bins, bin + 1)) {
        for (struct piece *piece = bins->of[bin]; piece != NULL; piece = piece->bin_next) {
            if (serves(piece, want)) {
                return piece;
            }
            if (--most == 0) {
                return NULL;
            }
        }
    }
    return NULL;
}

/* Where the lane should bump next: the smallest that does, so that wholly free chunks stay so for as long as possible.
 * In the bins above the request's own everything serves, apart from ticks. Complete when there is no limit. */
static struct piece *find_place(const struct lane *lane, const struct want *want)
{
    const struct bins *bins = &lane->places;
    const uint64_t sure_bytes = want->bytes + (want->align > GRANULE ? want->align - GRANULE : 0);
    const unsigned from = bin_of(want->bytes);
    const unsigned sure = bin_of(sure_bytes) + 1;
    struct piece *piece = look(bins, from, sure, want, looks);
    if (piece == NULL) {
        piece = look(bins, sure, bin_count, want, looks);
    }
    if (piece == NULL && want->limit == WEIR_TICK_MAX) {
        piece = look(bins, from, sure, want, UINT32_MAX);
    }
    return piece;
}

/* The low end of a free piece becomes a piece in no lane, a new record; the piece goes on above it. NULL when there is
 * no host memory. */
static struct piece *bump(struct arena *arena, struct piece *piece, uint64_t bytes)
{
    struct piece *low = new_piece(arena);
    if (low == NULL) {
        return NULL;
    }
    struct lane *lane = arena->lanes[piece->lane];
    struct bins *const old_bins = bins_of(arena, piece);
    const unsigned old_bin = bin_of(piece->size);
    *low = (struct piece){
        .address = piece->address,
        .size = bytes,
        .prev = piece->prev,
        .next = piece,
        .chunk = piece->chunk,
        .tick = piece->tick,
        .lane = piece->lane,
    };
    *(low->prev != NULL ? &low->prev->next : &low->chunk->first) = low;
    piece->prev = low;
    piece->address += bytes;
    piece->size -= bytes;
    lose_free(arena, piece->chunk, bytes);
    lane->bytes -= bytes;
    struct bins *const new_bins = bins_of(arena, piece);
    const unsigned new_bin = bin_of(piece->size);
    if (old_bins != new_bins || old_bin != new_bin) {
        bin_remove(old_bins, old_bin, piece);
        bin_insert(new_bins, new_bin, piece);
    }
    return low;
}

/* The padding below the block stays free, where it was in the order of ticks. Nothing has changed but that it is a
 * piece of its own when there is no host memory for the block. */
static struct piece *take(struct arena *arena, struct piece *piece, const struct want *want)
{
    const uint64_t padding = padding_in(piece, want->align);
    struct piece *below = NULL;
    if (padding != 0) {
        below = bump(arena, piece, padding);
        if (below == NULL) {
            return NULL;
        }
    }
    struct piece *block = piece;
    if (piece->size > want->bytes) {
        block = bump(arena, piece, want->bytes);
    } else {
        lane_remove(arena, piece);
    }
    if (below != NULL) {
        if (block == NULL) {
            lane_remove(arena, piece);
            absorb_next(arena, below);
        }
        lane_insert(arena, below);
    }
    if (block != NULL) {
        block->taken = true;
        arena->taken_pieces++;
        arena->taken_bytes += block->size;
    }
    return block;
}

static weir_status arena_alloc(void *state, weir_lane number, weir_tick limit, uint64_t size,
                               uint64_t align, weir_range *out)
{
    struct arena *arena = state;
    struct lane *lane = number < arena->lane_count ? arena->lanes[number] : NULL;
    struct piece *piece = arena->gathered;
    arena->gathered = NULL;
    if (lane == NULL || lane->pieces == 0) {
        return WEIR_ERR_NO_MEMORY;
    }
    const struct want want = {.bytes = round_up(size, GRANULE), .align = align, .limit = limit};
    if (piece == NULL || piece->lane != number || !serves(piece, &want)) {
        piece = lane->current;
    }
    if (piece == NULL || !serves(piece, &want)) {
        piece = find_place(lane, &want);
    }
    if (piece == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    struct piece *block = take(arena, piece, &want);
    if (block == NULL) {
        return WEIR_ERR_INTERNAL;
    }
    if (block != piece && (lane->current == NULL || piece->size > lane->current->size)) {
        lane->current = piece;
    }
    *out = (weir_range){ .address = block->address, .size = block->size, .token = block };
    return WEIR_OK;
}

/* --- free, promote --- */

static void arena_free(void *state, void *token, weir_lane lane, weir_tick tick)
{
    struct arena *arena = state;
    struct piece *piece = token;
    arena->gathered = NULL;
    arena->taken_pieces--;
    arena->taken_bytes -= piece->size;
    piece->lane = lane;
    piece->tick = tick;
    (void)settle(arena, piece);
}

static uint64_t arena_promote(void *state, weir_lane number, weir_tick limit)
{
    struct arena *arena = state;
    struct lane *lane = number < arena->lane_count ? arena->lanes[number] : NULL;
    uint64_t moved = 0;
    arena->gathered = NULL;
    if (number == WEIR_LANE_OPEN || lane == NULL) {
        return 0;
    }
    while (lane->oldest != NULL && lane->oldest->tick <= limit) {
        struct piece *piece = lane->oldest;
        lane_remove(arena, piece);
        moved += piece->size;
        piece->lane = WEIR_LANE_OPEN;
        piece->tick = 0;
        (void)settle(arena, piece);
    }
    return moved;
}

/* --- gather --- */

/* Neighbours that the asking lane may have. */
struct run {
    struct piece *first;
    struct piece *end; /* the piece after the last, NULL at the chunk's end */
    uint64_t size;
};

struct wish {
    struct want want;
    const weir_tick *limits;
    size_t lanes;
    bool crumbs; /* what is no place will do */
};

static bool run_serves(const struct run *run, const struct wish *wish)
{
    const uint64_t padding = padding_in(run->first, wish->want.align);
    return run->size >= wish->want.bytes && run->size - wish->want.bytes >= padding &&
           (wish->crumbs || is_place(run->first->chunk, run->size));
}

/* The smallest run that serves. */
static bool best_run(const struct arena *arena, const struct wish *wish, struct run *best)
{
    best->first = NULL;
    for (const struct chunk *chunk = arena->first_chunk; chunk != NULL; chunk = chunk->next) {
        struct piece *piece = chunk->free_bytes >= wish->want.bytes ? chunk->first : NULL;
        while (piece != NULL) {
            if (!eligible(piece, wish->limits, wish->lanes)) {
                piece = piece->next;
                continue;
            }
            struct run run = {.first = piece, .end = piece, .size = 0};
            while (run.end != NULL && eligible(run.end, wish->limits, wish->lanes)) {
                run.size += run.end->size;
                run.end = run.end->next;
            }
            if (run_serves(&run, wish) && (best->first == NULL || run.size < best->size)) {
                *best = run;
            }
            piece = run.end;
        }
    }
    return best->first != NULL;
}

/* The run becomes the lane's as of `tick`, or as of the latest tick of the lane's own pieces, where that is later: then
 * the lane's stream is ordered after all of it. A neighbour in the same lane with a later tick joins as in any free.
 */
static struct piece *take_in(struct arena *arena, const struct run *run, weir_lane lane,
                             weir_tick tick)
{
    struct piece *whole = run->first;
    for (const struct piece *piece = whole; piece != run->end; piece = piece->next) {
        tick = piece->lane == lane && piece->tick > tick ? piece->tick : tick;
    }
    lane_remove(arena, whole);
    while (whole->next != run->end) {
        lane_remove(arena, whole->next);
        absorb_next(arena, whole);
    }
    whole->lane = lane;
    whole->tick = tick;
    return settle(arena, whole);
}

static bool others_hold_any(const struct arena *arena, weir_lane own)
{
    for (size_t lane = 0; lane < arena->lane_count; lane++) {
        if (lane != own && arena->lanes[lane] != NULL && arena->lanes[lane]->pieces != 0) {
            return true;
        }
    }
    return false;
}

/* alloc has seen every place of the lane: without other lanes only crumbs can be left. */
static bool arena_gather(void *state, weir_lane lane, weir_tick tick, const weir_tick *limits,
                         size_t lanes, uint64_t size, uint64_t align, bool last_resort)
{
    struct arena *arena = state;
    const struct wish wish = {
        .want = {.bytes = round_up(size, GRANULE), .align = align},
        .limits = limits,
        .lanes = lanes,
        .crumbs = last_resort,
    };
    struct run run = {0};
    arena->gathered = NULL;
    if ((last_resort || others_hold_any(arena, lane)) && best_run(arena, &wish, &run)) {
        arena->gathered = take_in(arena, &run, lane, tick);
    }
    return arena->gathered != NULL;
}

/* --- looking --- */

static void arena_walk(const void *state, weir_range_visitor visit, void *ctx)
{
    const struct arena *arena = state;
    for (const struct chunk *chunk = arena->first_chunk; chunk != NULL; chunk = chunk->next) {
        for (struct piece *piece = chunk->first; piece != NULL; piece = piece->next) {
            weir_range_info info = {
                .region_address = chunk->address,
                .region_size = chunk->size,
                .address = piece->address,
                .size = piece->size,
                .taken = piece->taken,
                .lane = piece->taken ? WEIR_LANE_OPEN : piece->lane,
                .tick = piece->taken ? 0 : piece->tick,
                .token = piece->taken ? piece : NULL,
            };
            if (!visit(ctx, &info)) {
                return;
            }
        }
    }
}

static void arena_lane_stats(const void *state, weir_lane number, weir_lane_stats *stats)
{
    const struct arena *arena = state;
    const struct lane *lane = number < arena->lane_count ? arena->lanes[number] : NULL;
    *stats = (weir_lane_stats)WEIR_LANE_STATS_INIT;
    if (lane != NULL) {
        const uint64_t place = largest_in(&lane->places);
        const uint64_t crumb = largest_in(&lane->crumbs);
        stats->ranges = lane->pieces;
        stats->bytes = lane->bytes;
        stats->largest_bytes = place > crumb ? place : crumb;
    }
}

static void arena_stats(const void *state, weir_strategy_stats *stats)
{
    const struct arena *arena = state;
    *stats = (weir_strategy_stats)WEIR_STRATEGY_STATS_INIT;
    stats->regions = arena->chunks;
    stats->region_bytes = arena->chunk_bytes;
    stats->taken_ranges = arena->taken_pieces;
    stats->taken_bytes = arena->taken_bytes;
    for (size_t number = 0; number < arena->lane_count; number++) {
        weir_lane_stats lane = WEIR_LANE_STATS_INIT;
        arena_lane_stats(arena, (weir_lane)number, &lane);
        stats->free_ranges += lane.ranges;
        stats->free_bytes += lane.bytes;
        stats->largest_free_bytes = lane.largest_bytes > stats->largest_free_bytes
                                        ? lane.largest_bytes
                                        : stats->largest_free_bytes;
    }
}

/* --- check --- */

#define REQUIRE(condition, sentence)                                                               \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return (sentence);                                                                     \
        }                                                                                          \
    } while (0)

struct totals {
    uint64_t chunks;
    uint64_t bytes;
    uint64_t taken_pieces;
    uint64_t taken_bytes;
    uint64_t free_pieces;
    uint64_t free_bytes;
    uint64_t listed_pieces;
    uint64_t listed_bytes;
    uint64_t idle;
};

static const char *check_piece(const struct arena *arena, const struct piece *piece)
{
    REQUIRE(piece->size > 0 && piece->size % GRANULE == 0,
            "a piece is empty or no multiple of the granule");
    REQUIRE(piece->next == NULL || piece->next->prev == piece,
            "a neighbour link does not lead back");
    if (piece->taken) {
        return NULL;
    }
    REQUIRE(piece->lane < arena->lane_count && arena->lanes[piece->lane] != NULL,
            "a free piece is in a lane that does not exist");
    REQUIRE(!joins(piece->next, piece), "two free neighbours of one lane have not joined");
    return NULL;
}

static const char *check_chunk(const struct arena *arena, const struct chunk *chunk,
                               struct totals *totals)
{
    uint64_t free_bytes = 0;
    uint64_t end = chunk->address;
    REQUIRE(chunk->first != NULL && chunk->first->prev == NULL,
            "a chunk's first piece has a lower neighbour");
    for (const struct piece *piece = chunk->first; piece != NULL; piece = piece->next) {
        const char *broken = check_piece(arena, piece);
        REQUIRE(broken == NULL, broken);
        REQUIRE(piece->chunk == chunk && piece->address == end,
                "pieces leave a gap, overlap, or lie elsewhere");
        end += piece->size;
        *(piece->taken ? &totals->taken_pieces : &totals->free_pieces) += 1;
        *(piece->taken ? &totals->taken_bytes : &free_bytes) += piece->size;
    }
    REQUIRE(end == chunk->address + chunk->size, "pieces do not fill their chunk");
    REQUIRE(free_bytes == chunk->free_bytes, "a chunk's free bytes do not add up");
    totals->chunks++;
    totals->bytes += chunk->size;
    totals->free_bytes += free_bytes;
    totals->idle += free_bytes == chunk->size;
    return NULL;
}

static const char *check_bins(const struct arena *arena, const struct bins *bins, uint64_t *pieces)
{
    for (unsigned bin = 0; bin < bin_count; bin++) {
        const bool marked = (bins->held[bin / 64] >> bin % 64 & 1u) != 0;
        REQUIRE(marked == (bins->of[bin] != NULL), "a mark of a bin and its list do not agree");
        const struct piece *before = NULL;
        for (const struct piece *piece = bins->of[bin]; piece != NULL; piece = piece->bin_next) {
            REQUIRE(piece->bin_prev == before, "a bin's list does not lead back");
            REQUIRE(!piece->taken && bins_of(arena, piece) == bins && bin_of(piece->size) == bin,
                    "a piece is in a bin that is not its own");
            before = piece;
            *pieces += 1;
        }
    }
    return NULL;
}

static const char *check_lane(const struct arena *arena, size_t number, struct totals *totals)
{
    const struct lane *lane = arena->lanes[number];
    uint64_t pieces = 0;
    uint64_t binned = 0;
    uint64_t bytes = 0;
    bool current = lane->current == NULL;
    for (const struct piece *piece = lane->oldest; piece != NULL; piece = piece->newer) {
        REQUIRE(!piece->taken && piece->lane == number,
                "a lane lists a piece that is not free in it");
        REQUIRE(piece->newer == NULL ? lane->newest == piece : piece->newer->older == piece,
                "a lane's list by tick does not lead back");
        REQUIRE(piece->newer == NULL || piece->newer->tick >= piece->tick,
                "a lane is not in order of ticks");
        current |= piece == lane->current;
        pieces++;
        bytes += piece->size;
    }
    REQUIRE(current, "a lane bumps into a piece that is not its own");
    REQUIRE(pieces == lane->pieces && bytes == lane->bytes, "a lane's counters do not add up");
    const char *broken = check_bins(arena, &lane->places, &binned);
    broken = broken == NULL ? check_bins(arena, &lane->crumbs, &binned) : broken;
    REQUIRE(broken == NULL, broken);
    REQUIRE(binned == pieces, "a lane's bins and its list do not hold the same");
    totals->listed_pieces += pieces;
    totals->listed_bytes += bytes;
    return NULL;
}

static const char *first_broken_rule(const struct arena *arena)
{
    struct totals totals = {0};
    const char *broken = NULL;
    for (const struct chunk *chunk = arena->first_chunk; chunk != NULL && broken == NULL;
         chunk = chunk->next) {
        broken = check_chunk(arena, chunk, &totals);
    }
    for (size_t lane = 0; lane < arena->lane_count && broken == NULL; lane++) {
        broken = arena->lanes[lane] != NULL ? check_lane(arena, lane, &totals) : NULL;
    }
    REQUIRE(broken == NULL, broken);
    for (const struct chunk *chunk = arena->idle; chunk != NULL; chunk = chunk->idle_next) {
        REQUIRE(chunk->free_bytes == chunk->size && totals.idle > 0, "a chunk counts as idle and is not");
        REQUIRE(chunk->idle_next == NULL || chunk->idle_next->idle_prev == chunk, "idle chunks are badly linked");
        totals.idle--;
    }
    REQUIRE(totals.idle == 0, "an idle chunk is not listed");
    REQUIRE(totals.listed_pieces == totals.free_pieces && totals.listed_bytes == totals.free_bytes,
            "chunks and lanes hold different sums");
    REQUIRE(totals.chunks == arena->chunks && totals.bytes == arena->chunk_bytes,
            "the chunks do not add up");
    REQUIRE(totals.taken_pieces == arena->taken_pieces && totals.taken_bytes == arena->taken_bytes,
            "the taken pieces do not add up");
    return NULL;
}

static weir_status arena_check(const void *state, const char **why)
{
    const char *broken = first_broken_rule(state);
    if (broken != NULL && why != NULL) {
        *why = broken;
    }
    return broken == NULL ? WEIR_OK : WEIR_ERR_INTERNAL;
}

const weir_strategy_ops *weir_arena_strategy(void)
{
    static const weir_strategy_ops ops = {
        .struct_size = sizeof(ops),
        .name = "arena",
        .flags = WEIR_STRATEGY_EVEN_TOKENS,
        .granule_bytes = GRANULE,
        .state_size = arena_state_size,
        .init = arena_init,
        .fini = arena_fini,
        .lane_add = arena_lane_add,
        .region_size = arena_region_size,
        .region_add = arena_region_add,
        .region_remove = arena_region_remove,
        .region_idle = arena_region_idle,
        .alloc = arena_alloc,
        .free = arena_free,
        .promote = arena_promote,
        .gather = arena_gather,
        .walk = arena_walk,
        .check = arena_check,
        .stats = arena_stats,
        .lane_stats = arena_lane_stats,
    };
    return &ops;
}
