/* strategy/calls.h: each call of a strategy. A function here makes the call, makes the same change in the reference,
 * and compares both. The file also has the frame of the cases. */
#ifndef WEIR_CONTRACT_STRATEGY_CALLS_H
#define WEIR_CONTRACT_STRATEGY_CALLS_H

#include "reference.h"

/* --- the calls --- */

/* Calls init with a copy of the config and then overwrites the copy: after init the config belongs to
 * the caller again. */
static void init_with_copy(struct rig *rig)
{
    if (tested->config_bytes != 0) {
        rig->config = must(malloc(tested->config_bytes));
        memcpy(rig->config, tested->config, tested->config_bytes);
    }
    assert_int_equal(rig->ops->init(rig->state, rig->config != NULL ? rig->config : tested->config), WEIR_OK);
    if (rig->config != NULL) {
        memset(rig->config, 0xa5, tested->config_bytes);
    }
}

static void start(struct rig *rig, enum layout layout)
{
    memset(rig, 0, sizeof(*rig));
    rig->ops = tested->ops;
    rig->layout = layout;
    rig->low = FIRST_ADDRESS + (layout == SHIFTED ? UINT64_C(0x7345) << 30 : 0);
    rig->high = rig->low;
    rig->state_bytes = rig->ops->state_size(tested->config);
    rig->state = must(calloc(1, rig->state_bytes + GUARD_BYTES));
    memset((unsigned char *)rig->state + rig->state_bytes, 0xa5, GUARD_BYTES);
    init_with_copy(rig);
    for (weir_lane lane = 0; rig->ops->lane_add != NULL && lane < LANES; lane++) {
        assert_int_equal(rig->ops->lane_add(rig->state, lane), WEIR_OK);
        assert_int_equal(rig->ops->lane_add(rig->state, lane), WEIR_OK);
    }
    if (claims(rig) && rig->ops->lane_add != NULL) {
        assert_int_equal(rig->ops->lane_add(rig->state, WEIR_LANE_UNMAPPED), WEIR_OK);
    }
    compare(rig);
}

static void stop(struct rig *rig)
{
    rig->ops->fini(rig->state);
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        REQUIRE(rig, ((unsigned char *)rig->state)[rig->state_bytes + i] == 0xa5,
                "memory behind the state was written");
    }
    free(rig->state);
    free(rig->config);
    free(rig->book.at);
    free(rig->seen.at);
    free(rig->regions);
}

static uint64_t round_up(uint64_t size, uint64_t unit)
{
    return (size + unit - 1) & ~(unit - 1);
}

/* Adds a region. `gap` bytes stay unused between this region and the one before; with 0 they are adjacent. */
static size_t add_region_at(struct rig *rig, uint64_t size, uint64_t hint, weir_lane lane, weir_tick tick,
                            uint64_t align, uint64_t gap)
{
    uint64_t address = round_up(rig->high + gap, align);
    if (rig->layout == DESCENDING) {
        address = (rig->low - gap - size) & ~(align - 1);
    }
    rig->low = address < rig->low ? address : rig->low;
    rig->high = address + size > rig->high ? address + size : rig->high;
    void *handle = NULL;
    weir_status status = rig->ops->region_add(rig->state, address, size, hint, lane, tick, &handle);
    REQUIRE(rig, status == WEIR_OK, "region_add failed");
    size_t index = rig->region_count;
    rig->regions = must(realloc(rig->regions, (index + 1) * sizeof(*rig->regions)));
    rig->regions[index] =
        (struct place){.address = address, .size = size, .hint = hint, .handle = handle, .alive = true};
    rig->region_count++;
    struct piece whole = {.region = index, .address = address, .size = size, .lane = lane, .tick = tick};
    insert_piece(&rig->book, rig->book.count, &whole);
    compare(rig);
    return index;
}

static size_t add_region(struct rig *rig, uint64_t size, uint64_t hint, weir_lane lane, uint64_t align, uint64_t gap)
{
    return add_region_at(rig, size, hint, lane, tick_now(rig, lane), align, gap);
}

static bool eligible(const struct piece *piece, const weir_tick *limits, size_t lanes)
{
    return !piece->taken && piece->lane < lanes &&
           (piece->lane == WEIR_LANE_OPEN || piece->tick <= limits[piece->lane]);
}

static bool removable(const struct rig *rig, size_t region, const weir_tick *limits, size_t lanes)
{
    for (size_t i = 0; i < rig->book.count; i++) {
        if (rig->book.at[i].region == region && !eligible(&rig->book.at[i], limits, lanes)) {
            return false;
        }
    }
    return true;
}

/* Checks region_idle: if some region may be removed, region_idle must report such a region, whichever one. */
static void require_idle_found(const struct rig *rig, const weir_tick *limits, size_t lanes)
{
    bool expected = false;
    uint64_t address = 77;
    for (size_t i = 0; i < rig->region_count; i++) {
        expected |= rig->regions[i].alive && removable(rig, i, limits, lanes);
    }
    bool found = rig->ops->region_idle(rig->state, limits, lanes, &address);
    REQUIRE(rig, found || address == 77, "region_idle wrote its result and found none");
    REQUIRE(rig, found == expected, "region_idle missed a region, or found one where none may go");
    if (found) {
        size_t region = region_at(rig, address);
        REQUIRE(rig, region < rig->region_count && removable(rig, region, limits, lanes),
                "region_idle found a region that may not go");
    }
}

static bool remove_region(struct rig *rig, size_t region, const weir_tick *limits, size_t lanes)
{
    bool expected = removable(rig, region, limits, lanes);
    if (rig->ops->region_idle != NULL) {
        require_idle_found(rig, limits, lanes);
    }
    weir_status status = rig->ops->region_remove(rig->state, rig->regions[region].handle, limits, lanes);
    REQUIRE(rig, status == WEIR_OK || status == WEIR_ERR_BUSY, "region_remove: neither done nor busy");
    REQUIRE(rig, expected || status == WEIR_ERR_BUSY, "region_remove took a region that is in use");
    REQUIRE(rig, !expected || status == WEIR_OK, "region_remove refused a region that nobody's work can touch");
    if (expected) {
        rig->regions[region].alive = false;
        for (size_t i = rig->book.count; i-- > 0;) {
            if (rig->book.at[i].region == region) {
                erase_piece(&rig->book, i);
            }
        }
    }
    compare(rig);
    return expected;
}

static bool is_small(uint64_t size)
{
    return tested->small_bytes == 0 || size <= tested->small_bytes;
}

/* Returns the bytes that a request takes. */
static uint64_t block_of(const struct rig *rig, uint64_t size)
{
    return tested->block_bytes != NULL ? tested->block_bytes(size) : round_up(size, rig->ops->granule_bytes);
}

/* True if a request of `size` bytes at `align` fits into any `bytes` adjacent free bytes of the region, wherever they
 * begin. */
static bool surely_fits(const struct rig *rig, size_t region, uint64_t bytes, uint64_t size, uint64_t align)
{
    const struct place *place = &rig->regions[region];
    uint64_t granule = rig->ops->granule_bytes;
    if (tested->whole_regions) {
        return place->hint == size && bytes >= size && (place->address & (align - 1)) == 0;
    }
    const uint64_t block = block_of(rig, size);
    align = tested->has_places && align < block ? block : align;
    return (place->hint == 0 || is_small(place->hint) == is_small(size)) &&
           bytes >= block + (align > granule ? align - granule : 0);
}

static void require_refusal(const struct rig *rig, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align)
{
    if (tested->refuses_early || tested->sets_aside || limit != WEIR_TICK_MAX) {
        return;
    }
    for (size_t i = 0; i < rig->book.count; i++) {
        const struct piece *piece = &rig->book.at[i];
        REQUIRE(rig, piece->taken || piece->lane != lane || !surely_fits(rig, piece->region, piece->size, size, align),
                "alloc refused although a range of the lane fits");
    }
}

static void require_fit(const struct rig *rig, const struct piece *piece, const weir_range *range, weir_lane lane,
                        weir_tick limit)
{
    REQUIRE(rig, !piece->taken, "alloc handed out a taken range");
    REQUIRE(rig, range->size <= piece->address + piece->size - range->address, "alloc handed out beyond a free range");
    REQUIRE(rig, piece->lane == lane, "alloc took from another lane");
    REQUIRE(rig, lane == WEIR_LANE_OPEN || piece->tick <= limit, "alloc took a range whose tick is above the limit");
}

/* Checks size and place of a block of a strategy that rounds up. */
static void require_block(const struct rig *rig, const weir_range *range, uint64_t size, uint64_t align)
{
    if (tested->block_bytes == NULL) {
        return;
    }
    REQUIRE(rig, range->size == block_of(rig, size), "alloc handed out another size than block_bytes says");
    const uint64_t base = rig->regions[rig->book.at[piece_at(rig, range->address)].region].address;
    const uint64_t both = align < range->size ? align : range->size;
    REQUIRE(rig, !tested->has_places || (base & (both - 1)) != 0 || (range->address - base) % range->size == 0,
            "a block lies at no multiple of its bytes from the start of its region");
}

/* Returns the token, or NULL if the strategy refuses. */
static void *alloc(struct rig *rig, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align, weir_range *out)
{
    const weir_range unset = {.address = 77, .size = 77, .token = rig};
    weir_range range = unset;
    weir_status status = rig->ops->alloc(rig->state, lane, limit, size, align, &range);
    if (status != WEIR_OK) {
        REQUIRE(rig, status == WEIR_ERR_NO_MEMORY, "alloc failed for another reason than memory");
        REQUIRE(rig, range.address == unset.address && range.size == unset.size && range.token == unset.token,
                "a failed alloc wrote its result");
        require_refusal(rig, lane, limit, size, align);
        compare(rig);
        return NULL;
    }
    REQUIRE(rig, range.token != NULL, "alloc gave no token");
    REQUIRE(rig, range.size >= size, "alloc handed out less than asked");
    REQUIRE(rig, range.size % rig->ops->granule_bytes == 0, "alloc handed out a part of a granule");
    REQUIRE(rig, (range.address & (align - 1)) == 0, "alloc missed the alignment");
    require_block(rig, &range, size, align);
    size_t index = piece_at(rig, range.address);
    while (tested->loose_ranges &&
           rig->book.at[index].address + rig->book.at[index].size < range.address + range.size &&
           join_neighbours(&rig->book, index)) {
    }
    require_fit(rig, &rig->book.at[index], &range, lane, limit);
    take_record(rig, range.address, range.size, range.token);
    index = carve(rig, range.address, range.size);
    rig->book.at[index].taken = true;
    rig->book.at[index].token = range.token;
    compare(rig);
    if (out != NULL) {
        *out = range;
    }
    return range.token;
}

static void free_token_at(struct rig *rig, void *token, weir_lane lane, weir_tick tick)
{
    size_t index = piece_with_token(rig, token);
    leave_record(rig, token);
    rig->ops->free(rig->state, token, lane, tick);
    struct piece *piece = &rig->book.at[index];
    piece->taken = false;
    piece->token = NULL;
    piece->lane = lane;
    piece->tick = tick;
    join_with_next(&rig->book, index);
    if (index > 0) {
        join_with_next(&rig->book, index - 1);
    }
    compare(rig);
}

static void free_token(struct rig *rig, void *token, weir_lane lane)
{
    free_token_at(rig, token, lane, tick_now(rig, lane));
}

static uint64_t promote(struct rig *rig, weir_lane lane, weir_tick limit)
{
    uint64_t expected = 0;
    const bool moves = !private_lanes(rig) && lane != WEIR_LANE_OPEN && lane != WEIR_LANE_UNMAPPED;
    for (size_t i = 0; i < rig->book.count && moves; i++) {
        struct piece *piece = &rig->book.at[i];
        if (!piece->taken && piece->lane == lane && piece->tick <= limit) {
            expected += piece->size;
            piece->lane = WEIR_LANE_OPEN;
            piece->tick = 0;
        }
    }
    join_all(&rig->book);
    uint64_t moved = rig->ops->promote(rig->state, lane, limit);
    REQUIRE(rig, moved == expected, "promote says that other bytes moved than those at or below the limit");
    compare(rig);
    return moved;
}

/* True if a range or a row of neighbours that the lane may use is certainly large enough for the request. */
static bool some_run_fits(const struct rig *rig, const weir_tick *limits, size_t lanes, uint64_t size, uint64_t align)
{
    for (size_t i = 0; i < rig->book.count; i++) {
        size_t region = rig->book.at[i].region;
        uint64_t bytes = 0;
        for (size_t j = i; j < rig->book.count && rig->book.at[j].region == region; j++) {
            if (!eligible(&rig->book.at[j], limits, lanes)) {
                break;
            }
            bytes += rig->book.at[j].size;
            if (surely_fits(rig, region, bytes, size, align)) {
                return true;
            }
        }
    }
    return false;
}

static bool differs(const struct piece *expected, const struct piece *seen)
{
    if (seen->address != expected->address || seen->size != expected->size || seen->taken != expected->taken) {
        return true;
    }
    return !seen->taken && (seen->lane != expected->lane || !same_tick(expected, seen));
}

/* Returns the range that gather made: the first range of the walk that differs from the reference. NULL if none
 * differs. */
static const struct piece *gathered_range(const struct rig *rig, weir_lane lane)
{
    for (size_t i = 0; i < rig->seen.count && i < rig->book.count; i++) {
        const struct piece *seen = &rig->seen.at[i];
        if (differs(&rig->book.at[i], seen)) {
            REQUIRE(rig, !seen->taken && seen->lane == lane, "gather changed a range that is not in the lane");
            return seen;
        }
    }
    return NULL;
}

/* Makes the change of a successful gather in the reference. All of `whole` was free, and either eligible or in the lane
 * itself. It is now one range of the lane, at the latest of `tick` and the ticks of the lane's own ranges in it. */
static void book_gathered(struct rig *rig, const struct piece *whole, weir_tick tick, const weir_tick *limits,
                          size_t lanes)
{
    const struct place *place = &rig->regions[whole->region];
    uint64_t end = whole->address + whole->size;
    if (end < place->address + place->size) {
        split_at(rig, end);
    }
    for (size_t i = split_at(rig, whole->address); i < rig->book.count; i++) {
        struct piece *piece = &rig->book.at[i];
        if (piece->region != whole->region || piece->address >= end) {
            break;
        }
        REQUIRE(rig, !piece->taken, "gather took in a range that is in use");
        REQUIRE(rig, eligible(piece, limits, lanes) || piece->lane == whole->lane,
                "gather took in a range that is not eligible");
        REQUIRE(rig, piece->lane != whole->lane || piece->tick <= whole->tick || whole->lane == WEIR_LANE_OPEN,
                "gather lost a tick");
        tick = piece->lane == whole->lane && piece->tick > tick ? piece->tick : tick;
        piece->lane = whole->lane;
        piece->tick = whole->tick;
    }
    REQUIRE(rig, tested->loose_ranges || whole->lane == WEIR_LANE_OPEN || whole->tick == tick,
            "gather made a range of a later tick than it should");
    join_all(&rig->book);
}

static bool gather_only(struct rig *rig, weir_lane lane, weir_tick tick, const weir_tick *limits, size_t lanes,
                        uint64_t size, uint64_t align, bool last_resort)
{
    bool fits = some_run_fits(rig, limits, lanes, size, align);
    bool found = rig->ops->gather(rig->state, lane, tick, limits, lanes, size, align, last_resort);
    if (!found) {
        REQUIRE(rig, tested->refuses_early || !fits, "gather found nothing although eligible neighbours fit");
        compare(rig);
        return false;
    }
    look(rig);
    const struct piece *changed = gathered_range(rig, lane);
    if (changed != NULL) {
        struct piece whole = *changed;
        REQUIRE(rig, lane == WEIR_LANE_OPEN || whole.tick >= tick, "gather made a range of an earlier tick");
        book_gathered(rig, &whole, tick, limits, lanes);
    }
    compare(rig);
    return true;
}

/* Calls gather, and then alloc for the same request. */
static bool gather_at(struct rig *rig, weir_lane lane, weir_tick tick, const weir_tick *limits, size_t lanes,
                      uint64_t size, uint64_t align, bool last_resort)
{
    if (!gather_only(rig, lane, tick, limits, lanes, size, align, last_resort)) {
        return false;
    }
    void *token = alloc(rig, lane, WEIR_TICK_MAX, size, align, NULL);
    REQUIRE(rig, token != NULL, "alloc fails after gather succeeded");
    return true;
}

static bool gather_as(struct rig *rig, weir_lane lane, const weir_tick *limits, size_t lanes, uint64_t size,
                      uint64_t align, bool last_resort)
{
    return gather_at(rig, lane, tick_now(rig, lane), limits, lanes, size, align, last_resort);
}

static bool gather(struct rig *rig, weir_lane lane, const weir_tick *limits, size_t lanes, uint64_t size,
                   uint64_t align)
{
    return gather_as(rig, lane, limits, lanes, size, align, tested->sets_aside);
}

/* True if a claim may take the piece. With `limits` NULL the piece must be unmapped. */
static bool as_asked(const struct piece *piece, const weir_tick *limits, size_t lanes)
{
    return limits != NULL ? eligible(piece, limits, lanes) : !piece->taken && piece->lane == WEIR_LANE_UNMAPPED;
}

/* True if a claim may take all of [address, end). */
static bool claimable(const struct rig *rig, uint64_t address, uint64_t end, const weir_tick *limits, size_t lanes)
{
    size_t region = rig->book.at[piece_at(rig, address)].region;
    for (size_t i = piece_at(rig, address); address < end; i++) {
        if (i == rig->book.count || rig->book.at[i].region != region) {
            return false;
        }
        const struct piece *piece = &rig->book.at[i];
        if (!as_asked(piece, limits, lanes)) {
            return false;
        }
        address = piece->address + piece->size;
    }
    return true;
}

/* Checks that a claim changed only ranges around [address, end): the ranges that the claim may take, and the first
 * other range on either side, because a piece that the claim cuts off may join this range. All ranges beyond are the
 * same as in `before`. */
static void require_only_around(const struct rig *rig, const struct pieces *before, uint64_t address, uint64_t end,
                                const weir_tick *limits, size_t lanes)
{
    size_t low = 0;
    while (address - before->at[low].address >= before->at[low].size) {
        low++;
    }
    const size_t region = before->at[low].region;
    size_t high = low;
    while (low > 0 && before->at[low].region == region && as_asked(&before->at[low], limits, lanes)) {
        low--;
    }
    while (high + 1 < before->count && (before->at[high].address < end || as_asked(&before->at[high], limits, lanes)) &&
           before->at[high + 1].region == region) {
        high++;
    }
    for (size_t i = 0; i < before->count; i++) {
        /* Below the claim indices count from the first range, above it from the last range. */
        const size_t same = i < low ? i : rig->seen.count - (before->count - i);
        const struct piece *piece = &before->at[i];
        const struct piece *seen = &rig->seen.at[same];
        REQUIRE(rig,
                (i >= low && i <= high) ||
                    (same < rig->seen.count && seen->address == piece->address && seen->size == piece->size &&
                     seen->taken == piece->taken && seen->lane == piece->lane && same_tick(piece, seen)),
                "claim changed a range that lies apart from what it took");
    }
}

/* Claims `count` ranges of `size` bytes side by side, at most 8. Returns false if the memory is not free as asked. */
static bool claim_several(struct rig *rig, uint64_t address, uint64_t size, size_t count, const weir_tick *limits,
                          size_t lanes, void **tokens)
{
    const uint64_t end = address + count * size;
    void *given[8] = {rig, rig, rig, rig, rig, rig, rig, rig};
    const bool expected = claimable(rig, address, end, limits, lanes);
    struct pieces before = {0};
    for (size_t i = 0; i < rig->seen.count; i++) {
        insert_piece(&before, i, &rig->seen.at[i]);
    }
    const weir_status status = rig->ops->claim(rig->state, address, size, count, limits, lanes, given);
    REQUIRE(rig, status == WEIR_OK || status == WEIR_ERR_BUSY, "claim: neither done nor busy");
    REQUIRE(rig, expected || status == WEIR_ERR_BUSY, "claim took memory that is not free as asked");
    REQUIRE(rig, !expected || status == WEIR_OK, "claim refused memory that is free as asked");
    for (size_t i = 0; i < 8; i++) {
        const bool written = expected && i < count;
        REQUIRE(rig, written ? given[i] != NULL && given[i] != (void *)rig : given[i] == (void *)rig,
                "claim wrote other tokens than those of what it took");
    }
    if (!expected) {
        compare(rig);
        free(before.at);
        return false;
    }
    const struct place *region = &rig->regions[rig->book.at[piece_at(rig, address)].region];
    if (end < region->address + region->size) {
        (void)split_at(rig, end);
    }
    size_t first = split_at(rig, address);
    while (rig->book.at[first].size < end - address) {
        rig->book.at[first].size += rig->book.at[first + 1].size;
        erase_piece(&rig->book, first + 1);
    }
    for (size_t i = 0; i < count; i++) {
        take_record(rig, address + i * size, size, given[i]);
    }
    rig->book.at[first].taken = true;
    for (size_t i = 0; i < count; i++) {
        if (i + 1 < count) {
            (void)split_at(rig, address + (i + 1) * size);
        }
        first = piece_at(rig, address + i * size);
        rig->book.at[first].token = tokens[i] = given[i];
    }
    compare(rig);
    require_only_around(rig, &before, address, end, limits, lanes);
    free(before.at);
    return true;
}

/* Returns the token, or NULL if the memory is not free as asked. */
static void *claim(struct rig *rig, uint64_t address, uint64_t size, const weir_tick *limits, size_t lanes)
{
    void *token = NULL;
    return claim_several(rig, address, size, 1, limits, lanes, &token) ? token : NULL;
}

/* Adds a region of the size that the strategy asks for, and allocates the request that the region is
 * for. It must fit. */
static void *grow(struct rig *rig, weir_lane lane, uint64_t size, uint64_t align, uint64_t gap)
{
    uint64_t reserved = add_up(rig).region_bytes;
    uint64_t bytes = rig->ops->region_size(rig->state, size, align, reserved, GRANULARITY);
    REQUIRE(rig, bytes >= size && bytes % GRANULARITY == 0, "region_size: too small or no multiple of the granularity");
    uint64_t start_at = tested->whole_regions && align > rig->ops->granule_bytes ? align : rig->ops->granule_bytes;
    add_region(rig, bytes, rig->one_kind ? 0 : size, lane, start_at, gap);
    void *token = alloc(rig, lane, WEIR_TICK_MAX, size, align, NULL);
    REQUIRE(rig, token != NULL, "alloc fails in a new region of the size that region_size asked for");
    return token;
}

static void set_limits(weir_tick *limits, weir_tick limit)
{
    for (size_t i = 0; i < LANES; i++) {
        limits[i] = limit;
    }
}

/* --- short forms for the cases --- */

/* A request at any tick and any alignment. Returns the token, or NULL. */
static void *take(struct rig *rig, weir_lane lane, uint64_t size)
{
    return alloc(rig, lane, WEIR_TICK_MAX, size, 1, NULL);
}

/* Frees the range, unless the strategy has refused it. */
static void drop(struct rig *rig, void *token, weir_lane lane)
{
    if (token != NULL) {
        free_token(rig, token, lane);
    }
}

/* Adds a region of `count` granules and takes each of them. Returns the index of the region. */
static size_t fill(struct rig *rig, weir_lane lane, void **tokens, size_t count)
{
    const uint64_t granule = rig->ops->granule_bytes;
    const size_t region = add_region(rig, count * granule, granule, lane, granule, 0);
    for (size_t i = 0; i < count; i++) {
        tokens[i] = take(rig, lane, granule);
    }
    return region;
}

/* Removes the region if no lane has a later tick than `limit`. */
static bool remove_at(struct rig *rig, size_t region, weir_tick limit)
{
    weir_tick limits[LANES];
    set_limits(limits, limit);
    return remove_region(rig, region, limits, LANES);
}

static void restart(struct rig *rig)
{
    stop(rig);
    start(rig, ASCENDING);
}

/* --- cases --- */

enum needs { ANY, SHARES_LANES, GATHERS, GATHERS_EXACTLY, CLAIMS };

/* Leaves the case, which does not apply. */
static _Noreturn void skip_case(struct rig *rig, const char *why)
{
    stop(rig);
    contract_skip(why);
}

static void begin_case(struct rig *rig, enum needs needs)
{
    start(rig, ASCENDING);
    if (needs == SHARES_LANES && private_lanes(rig)) {
        skip_case(rig, "the lanes are private");
    }
    if (needs == GATHERS_EXACTLY && tested->block_bytes != NULL) {
        skip_case(rig, "requests of this case are rounded up");
    }
    if ((needs == GATHERS || needs == GATHERS_EXACTLY) && (rig->ops->gather == NULL || tested->refuses_early)) {
        skip_case(rig, "the strategy has no gather, or may refuse early");
    }
    if (needs == CLAIMS && !claims(rig)) {
        skip_case(rig, "the strategy has no claim");
    }
}

/* Begins a case: a function of `rig`, a strategy without regions. */
#define CASE(name, needs)                                                                                              \
    static void name##_on(struct rig *rig);                                                                            \
    static void name(void)                                                                                             \
    {                                                                                                                  \
        struct rig rig;                                                                                                \
        begin_case(&rig, needs);                                                                                       \
        name##_on(&rig);                                                                                               \
        stop(&rig);                                                                                                    \
    }                                                                                                                  \
    static void name##_on(struct rig *rig)

#endif
