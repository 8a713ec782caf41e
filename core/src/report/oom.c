/* core/src/report/oom.c: the record of a failed request: sums, and which change would have made it succeed.
 *
 * Idea: after the last rung the ranges are copied (snapshot.c). Each piece of advice follows from them:
 *
 *     RAISE_LIMIT   the limit forbade a region, and the device has room for the least one that serves
 *     DEVICE_ROOM   the device refused a region that the limit allows
 *     FREE_BLOCKS   the run of neighbours in one region that holds the request and has the fewest live bytes in it; or
 *                   one region to return, which makes room for another one, if that costs fewer live bytes
 *     WAIT          a run that would serve, except for the unfinished work of a stream for which the wait failed
 *     ASK_LESS      the largest free run there is, or the most that may still be taken
 *     UNPIN         pinned idle memory, if giving it back makes room
 *
 * With virtual memory idle handles move, so the handles that live blocks touch are counted instead.
 *
 * Guarantee: each piece of advice is true by itself for a caller that is the only user of the pool. Advice never
 * repeats the ladder's steps: the ladder has already flushed, returned idle regions and waited, so a trim never helps.
 * Advice that depends on joining neighbours is left out for strategies that do not gather.
 *
 * Cost: linear in the ranges; linear in ranges times streams if a wait failed. Without host memory for the copy the
 * record has no regions and no advice about blocks.
 */
#include "report/report.h"
#include "shared/round_up.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* --- runs of neighbours --- */

/* The free memory to search for. Memory that is stuck on unfinished work of the stream `waived` counts as usable; if
 * `waived` is SNAPSHOT_SEVERAL, all stuck memory does. */
struct need {
    uint64_t size;
    uint64_t align;
    uint32_t waived;
};

/* A window: the neighbouring pieces first <= i < end of one region. They would hold the request if the live memory in
 * them (`bytes` in `blocks` blocks) were freed. */
struct window {
    size_t first;
    size_t end;
    uint64_t bytes;
    uint64_t blocks;
};

static bool passable(const struct snapshot_piece *piece, uint32_t waived)
{
    if (piece->state == SNAPSHOT_HOLE) {
        return false;
    }
    return piece->state == SNAPSHOT_TAKEN || piece->stuck == 0 || waived == SNAPSHOT_SEVERAL || piece->stuck == waived;
}

static bool holds(const struct snapshot *snapshot, const struct window *window, const struct need *need)
{
    WEIR_ASSERT(window->first <= window->end && window->end <= snapshot->count);
    WEIR_ASSERT(need->size != 0 && is_power_of_two(need->align));
    if (window->first == window->end) {
        return false;
    }
    const struct snapshot_piece *last = &snapshot->pieces[window->end - 1];
    const uint64_t start = (snapshot->pieces[window->first].address + need->align - 1) & ~(need->align - 1);
    const uint64_t end = last->address + last->size;
    return end > start && end - start >= need->size;
}

static void count_piece(struct window *window, const struct snapshot_piece *piece, bool in)
{
    WEIR_ASSERT(in || piece->state != SNAPSHOT_TAKEN || (window->bytes >= piece->size && window->blocks != 0));
    if (piece->state == SNAPSHOT_TAKEN) {
        window->bytes += in ? piece->size : -piece->size;
        window->blocks += in ? 1 : -(uint64_t)1;
    }
}

/* Finds the window with the fewest bytes to be freed. Both ends of the window only move up, so each end passes every
 * piece once. */
static bool cheapest_window(const struct snapshot *snapshot, const struct need *need, struct window *best)
{
    struct window window = {0};
    bool found = false;
    while (window.first < snapshot->count) {
        const uint64_t region = snapshot->pieces[window.first].region;
        while (window.end < snapshot->count && snapshot->pieces[window.end].region == region &&
               passable(&snapshot->pieces[window.end], need->waived) && !holds(snapshot, &window, need)) {
            count_piece(&window, &snapshot->pieces[window.end++], true);
        }
        if (holds(snapshot, &window, need)) {
            if (!found || window.bytes < best->bytes) {
                *best = window;
                found = true;
            }
            count_piece(&window, &snapshot->pieces[window.first++], false);
            continue;
        }
        /* No other window that ends at window.end serves. The next window begins with the piece at window.end, or
         * behind that piece if no window may contain it. */
        const bool barrier = window.end < snapshot->count && !passable(&snapshot->pieces[window.end], need->waived);
        const size_t next = window.end + (barrier || window.end == window.first ? 1 : 0);
        window = (struct window){.first = next, .end = next};
    }
    return found;
}

/* --- advice --- */

static void advise(weir_oom_record *record, weir_oom_advice advice)
{
    WEIR_ASSERT(record->advice_count <= WEIR_OOM_ADVICE);
    if (record->advice_count < WEIR_OOM_ADVICE) {
        record->advice[record->advice_count++] = advice;
    }
}

/* The possible growth of the pool at the time of the failure. */
struct growth {
    uint64_t least; /* the least region that serves */
    uint64_t most;  /* the most that may be reserved, as far as is known: if a device refuses although its capacity
                       leaves room, it has other users and gives nothing more */
    uint64_t free;  /* bytes that the device has left */
    bool known;     /* the device's capacity is known */
};

static void advise_growth(weir_oom_record *record, const struct request *request, const struct growth *growth)
{
    WEIR_ASSERT(growth->least != 0);
    if (!request->limited) {
        advise(record, (weir_oom_advice){.kind = WEIR_ADVICE_DEVICE_ROOM, .bytes = growth->least});
    } else if (!growth->known || growth->least <= growth->free) {
        advise(record,
               (weir_oom_advice){.kind = WEIR_ADVICE_RAISE_LIMIT, .bytes = record->reserved_bytes + growth->least});
    }
}

/* Of the regions of at least `missing` bytes, finds the one with the fewest live bytes. */
static bool cheapest_region(const struct snapshot *snapshot, uint64_t missing, struct window *best)
{
    bool found = false;
    for (size_t first = 0, end = 0; first < snapshot->count; first = end) {
        struct window window = {.first = first};
        bool usable = snapshot->pieces[first].region_size >= missing && !snapshot->pieces[first].pinned;
        for (end = first; end < snapshot->count && snapshot->pieces[end].region == snapshot->pieces[first].region;
             end++) {
            usable = usable && passable(&snapshot->pieces[end], 0);
            count_piece(&window, &snapshot->pieces[end], true);
        }
        window.end = end;
        if (usable && (!found || window.bytes < best->bytes)) {
            *best = window;
            found = true;
        }
    }
    return found;
}

static weir_oom_advice free_window(const struct snapshot *snapshot, const struct window *window)
{
    WEIR_ASSERT(window->first < window->end && window->end <= snapshot->count);
    const struct snapshot_piece *last = &snapshot->pieces[window->end - 1];
    const uint64_t address = snapshot->pieces[window->first].address;
    return (weir_oom_advice){.kind = WEIR_ADVICE_FREE_BLOCKS,
                             .bytes = window->bytes,
                             .blocks = window->blocks,
                             .address = address,
                             .size = last->address + last->size - address};
}

static void advise_freeing(weir_oom_record *record, const struct snapshot *snapshot, const struct need *need,
                           const struct growth *growth)
{
    WEIR_ASSERT(need->size != 0);
    struct window window;
    struct window region;
    const uint64_t wanted = record->reserved_bytes + growth->least;
    if (wanted <= growth->most) {
        return; /* another thread has made room meanwhile */
    }
    const uint64_t missing = wanted - growth->most;
    bool found = cheapest_window(snapshot, need, &window);
    if (cheapest_region(snapshot, missing, &region) && (!found || region.bytes < window.bytes)) {
        window = region;
        found = true;
    }
    if (found && window.blocks > 0) {
        advise(record, free_window(snapshot, &window));
    }
}

/* Advises to end the pins if the request would be served then: if the pool would reserve `wanted` bytes, of the `most`
 * that it may, less what pins keep. */
static void advise_unpinning(weir_oom_record *record, uint64_t wanted, uint64_t most)
{
    WEIR_ASSERT(wanted != 0);
    const uint64_t kept = record->pinned_idle_bytes;
    if (kept != 0 && wanted > most && wanted - kept <= most) {
        advise(record, (weir_oom_advice){.kind = WEIR_ADVICE_UNPIN, .bytes = kept});
    }
}

/* Advises to wait for a stream. Free memory is stuck on a stream only if the pool's wait for that stream has failed, or
 * if the stream stands for a captured one: then the graph has to go. */
static void advise_waiting(weir_oom_record *record, const weir_pool *pool, const struct snapshot *snapshot,
                           struct need need)
{
    WEIR_ASSERT(pool_is_locked(pool));
    bool of_graphs = false;
    struct window window;
    uint32_t most = 0;
    bool any = false;
    for (size_t i = 0; i < snapshot->count; i++) {
        const uint32_t stuck = snapshot->pieces[i].stuck;
        any |= stuck != 0;
        most = stuck != SNAPSHOT_SEVERAL && stuck > most ? stuck : most;
    }
    for (uint32_t stream = 1; any && stream <= most; stream++) {
        need.waived = stream;
        const bool of_graph = is_stand_in(pool->streams[stream]);
        of_graphs |= of_graph;
        if (cheapest_window(snapshot, &need, &window) && window.blocks == 0) {
            const weir_advice_kind kind = of_graph ? WEIR_ADVICE_END_GRAPH : WEIR_ADVICE_WAIT;
            advise(record, (weir_oom_advice){.kind = kind, .stream = program_stream(pool->streams[stream])->lane});
            return;
        }
    }
    need.waived = SNAPSHOT_SEVERAL;
    if (any && !of_graphs && cheapest_window(snapshot, &need, &window) && window.blocks == 0) {
        advise(record, (weir_oom_advice){.kind = WEIR_ADVICE_WAIT});
    }
}

static void advise_less(weir_oom_record *record, const struct request *request, const struct growth *growth)
{
    const uint64_t granularity = weir__region_granularity(request->pool);
    const uint64_t reserved = record->reserved_bytes;
    const uint64_t room = growth->known && growth->most > reserved ? growth->most - reserved : 0;
    const uint64_t region = room & ~(granularity - 1);
    const uint64_t most = region > record->usable_bytes ? region : record->usable_bytes;
    if (most > 0 && most < request->size) {
        advise(record, (weir_oom_advice){.kind = WEIR_ADVICE_ASK_LESS, .bytes = most});
    }
}

/* --- virtual memory --- */

/* Virtual memory: handles that live blocks touch count as pinned. All other memory can be moved to where it is needed,
 * unless a wait for the work on them has failed. */
struct mapping {
    uint64_t granule;
    uint64_t pinned;
    uint64_t wish; /* the request in granules */
    uint64_t most; /* the most that may be reserved, by the limit or the device; 0: unknown */
};

static bool any_stuck(const struct snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->count; i++) {
        if (snapshot->pieces[i].stuck != 0) {
            return true;
        }
    }
    return false;
}

/* Pool lock held. */
static struct mapping mapping_locked(weir_oom_record *record, const struct request *request,
                                     const struct snapshot *snapshot)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    const uint64_t granule = weir__vm_granule(pool);
    uint64_t kept = 0;
    const uint64_t idle = any_stuck(snapshot) ? 0 : weir__snapshot_idle_handles_locked(pool, snapshot, &kept);
    record->pinned_idle_bytes = kept;
    /* Another thread may have given granules back after the snapshot was taken. */
    record->idle_region_bytes = idle < record->reserved_bytes ? idle : record->reserved_bytes;
    return (struct mapping){
        .granule = granule,
        .pinned = record->reserved_bytes - record->idle_region_bytes,
        .wish = (request->size + granule - 1) & ~(granule - 1),
        .most = request->limited ? record->limit_bytes : request->ceiling,
    };
}

/* Returns how many more bytes the request needs. If the device's capacity is not known, or if memory is free but could
 * not be moved, returns the size of the request. */
static uint64_t missing_granules(const struct mapping *mapping)
{
    WEIR_ASSERT(mapping->wish != 0 && mapping->wish % mapping->granule == 0);
    const uint64_t wanted = mapping->pinned + mapping->wish;
    return mapping->most != 0 && wanted > mapping->most ? wanted - mapping->most : mapping->wish;
}

/* Returns the smallest block that contains whole handles of at least `bytes` bytes together. Pool lock held. */
static const struct snapshot_piece *smallest_pin_locked(const weir_pool *pool, const struct snapshot *snapshot,
                                                        uint64_t bytes)
{
    WEIR_ASSERT(pool_is_locked(pool) && bytes != 0);
    const struct snapshot_piece *best = NULL;
    for (size_t i = 0; i < snapshot->count; i++) {
        const struct snapshot_piece *piece = &snapshot->pieces[i];
        if (piece->state == SNAPSHOT_TAKEN && piece->size >= bytes && (best == NULL || piece->size < best->size)) {
            unsigned looks = UINT_MAX;
            struct vm_whole_handles whole = {0};
            weir__vm_add_whole_locked(pool, piece->address, piece->size, &looks, &whole);
            best = whole.bytes >= bytes ? piece : best;
        }
    }
    return best;
}

/* Pool lock held. */
static void advise_mapping(weir_oom_record *record, const struct request *request, const struct snapshot *snapshot,
                           const struct mapping *mapping)
{
    const weir_pool *pool = request->pool;
    const uint64_t capacity = weir__device_info(pool->device)->capacity_bytes;
    const uint64_t wanted = mapping->pinned + mapping->wish;
    const struct need need = {.size = (request->size + pool->granule_mask) & ~pool->granule_mask,
                              .align = request->align};
    if (capacity != 0 && mapping->wish > capacity) {
        /* The request is larger than the whole device, so there is no advice. */
    } else if (!request->limited) {
        const uint64_t idle = record->idle_region_bytes;
        const uint64_t bytes = mapping->wish > idle ? mapping->wish - idle : mapping->wish;
        advise(record, (weir_oom_advice){.kind = WEIR_ADVICE_DEVICE_ROOM, .bytes = bytes});
    } else if (capacity == 0 || wanted <= capacity) {
        advise(record, (weir_oom_advice){.kind = WEIR_ADVICE_RAISE_LIMIT, .bytes = wanted});
    }
    advise_waiting(record, pool, snapshot, need);
    const uint64_t most = mapping->most < capacity ? mapping->most : capacity; /* 0 if either is unknown */
    const uint64_t room = most > mapping->pinned ? (most - mapping->pinned) & ~(mapping->granule - 1) : 0;
    uint64_t less = room > record->usable_bytes ? room : record->usable_bytes;
    if (request->part != NULL) { /* a commit takes whole units, and none of the free ranges as it is */
        less = room - room % reservation_of(request->part->block)->unit;
    }
    if (less > 0 && less < request->size) {
        advise(record, (weir_oom_advice){.kind = WEIR_ADVICE_ASK_LESS, .bytes = less});
    }
    const struct snapshot_piece *pin =
        most != 0 && wanted > most ? smallest_pin_locked(pool, snapshot, wanted - most) : NULL;
    if (pin != NULL) {
        advise(record, (weir_oom_advice){.kind = WEIR_ADVICE_FREE_BLOCKS,
                                         .bytes = pin->size,
                                         .blocks = 1,
                                         .address = pin->address,
                                         .size = pin->size});
    }
    advise_unpinning(record, wanted, most);
}

/* --- regions --- */

/* Inserts the region into record->worst, the list of the regions with the most free bytes, in descending order. */
static void keep_region(weir_oom_record *record, const weir_oom_region *region)
{
    WEIR_ASSERT(region->free_bytes <= region->size);
    WEIR_ASSERT(record->region_count <= WEIR_OOM_ENTRIES);
    uint32_t place = record->region_count;
    while (place > 0 && record->worst[place - 1].free_bytes < region->free_bytes) {
        place--;
    }
    if (region->free_bytes == 0 || place == WEIR_OOM_ENTRIES) {
        return;
    }
    const uint32_t kept = record->region_count < WEIR_OOM_ENTRIES ? record->region_count : WEIR_OOM_ENTRIES - 1;
    memmove(&record->worst[place + 1], &record->worst[place], (kept - place) * sizeof(record->worst[0]));
    record->worst[place] = *region;
    record->region_count = kept + 1;
}

/* Sums up the regions. usable_bytes becomes the largest run of free neighbours that the requesting stream may use. */
static void look_at_regions(weir_oom_record *record, const struct snapshot *snapshot)
{
    WEIR_ASSERT(record->regions == 0 && record->usable_bytes == 0);
    weir_oom_region region = {0};
    uint64_t run = 0;
    uint64_t usable = 0;
    for (size_t i = 0; i < snapshot->count; i++) {
        const struct snapshot_piece *piece = &snapshot->pieces[i];
        if (i == 0 || piece->region != region.address) {
            keep_region(record, &region);
            record->regions++;
            region = (weir_oom_region){.address = piece->region, .size = piece->region_size};
            run = 0;
            usable = 0;
        }
        const bool is_free = piece->state == SNAPSHOT_FREE || piece->state == SNAPSHOT_LOOSE;
        region.blocks += piece->state == SNAPSHOT_TAKEN;
        region.free_bytes += is_free ? piece->size : 0;
        record->free_pieces += is_free && run == 0;
        run = is_free ? run + piece->size : 0;
        usable = is_free && piece->stuck == 0 ? usable + piece->size : 0;
        record->usable_free_bytes += is_free && piece->stuck == 0 ? piece->size : 0;
        region.largest_bytes = run > region.largest_bytes ? run : region.largest_bytes;
        record->usable_bytes = usable > record->usable_bytes ? usable : record->usable_bytes;
        record->idle_region_bytes += region.free_bytes == region.size && !piece->pinned ? region.size : 0;
        record->pinned_idle_bytes += usable == region.size && piece->pinned ? region.size : 0;
    }
    keep_region(record, &region);
}

/* --- lanes --- */

/* Lists the lanes with the most free bytes. Pool lock held. */
static void look_at_lanes_locked(weir_oom_record *record, weir_pool *pool, weir_stream *stream)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const weir_tick *limits = weir__order_limits_locked(pool, stream);
    for (size_t lane = 0; lane < pool->lanes; lane++) {
        weir_lane_stats stats = WEIR_LANE_STATS_INIT;
        pool->strategy->lane_stats(pool->state, (weir_lane)lane, &stats);
        uint32_t place = record->lane_count;
        while (place > 0 && record->lanes[place - 1].free_bytes < stats.bytes) {
            place--;
        }
        if (stats.bytes == 0 || place == WEIR_OOM_ENTRIES) {
            continue;
        }
        const uint32_t kept = record->lane_count < WEIR_OOM_ENTRIES ? record->lane_count : WEIR_OOM_ENTRIES - 1;
        WEIR_ASSERT(record->lane_count <= WEIR_OOM_ENTRIES);
        memmove(&record->lanes[place + 1], &record->lanes[place], (kept - place) * sizeof(record->lanes[0]));
        const bool of_graph = lane != WEIR_LANE_OPEN && is_stand_in(pool->streams[lane]);
        const weir_tick last = lane == WEIR_LANE_OPEN || of_graph ? 0 : pool->streams[lane]->last_free;
        record->lanes[place] =
            (weir_oom_lane){.stream = lane != WEIR_LANE_OPEN ? program_stream(pool->streams[lane])->lane : 0,
                            .free_bytes = stats.bytes,
                            .largest_bytes = stats.largest_bytes,
                            .waits_for = last > limits[lane] ? last : 0,
                            .of_graph = of_graph,
                            .lent = of_graph && pool->streams[lane]->as.captures->lent_to != NULL};
        record->lane_count = kept + 1;
    }
}

/* --- the record --- */

/* Sums, by tag, the bytes of the blocks that the advice asks to free. */
struct tag_search {
    const weir_oom_advice *advice;
    uint64_t bytes[WEIR_TAGS];
};

static void add_to_tag(void *ctx, weir_block *block)
{
    WEIR_ASSERT(tag_of(block) < WEIR_TAGS);
    struct tag_search *search = ctx;
    const weir_oom_advice *advice = search->advice;
    const uint64_t from = block_address(block) > advice->address ? block_address(block) : advice->address;
    const uint64_t end = advice->address + advice->size;
    const uint64_t to = block_end(block) < end ? block_end(block) : end;
    if (from < to && state_of(block) == BLOCK_LIVE) {
        search->bytes[tag_of(block)] += to - from;
    }
}

static void name_tag(weir_pool *pool, weir_oom_record *record)
{
    WEIR_ASSERT(pool_is_locked(pool));
    for (uint32_t i = 0; i < record->advice_count; i++) {
        weir_oom_advice *advice = &record->advice[i];
        if (advice->kind == WEIR_ADVICE_FREE_BLOCKS && pool->tags != NULL) {
            struct tag_search search = {.advice = advice};
            weir__block_each_locked(pool, add_to_tag, &search);
            for (uint32_t tag = 1; tag < WEIR_TAGS; tag++) {
                advice->tag = search.bytes[tag] > search.bytes[advice->tag] ? tag : advice->tag;
            }
            if (advice->tag != 0) {
                (void)snprintf(record->in_the_way, sizeof(record->in_the_way), "%s",
                               weir_pool_tag_name(pool, advice->tag));
            }
        }
    }
}

/* Pool lock held. */
static struct growth growth_locked(const struct request *request)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    const weir_pool *pool = request->pool;
    const uint64_t limit = weir__budget_limit_locked(pool, false);
    const uint64_t capacity = weir__device_info(pool->device)->capacity_bytes;
    const uint64_t reserved = pool->held.bytes;
    uint64_t preferred = 0;
    struct growth growth = {.known = capacity != 0, .free = capacity > reserved ? capacity - reserved : 0};
    weir__region_sizes_locked(pool, request->size, request->align, reserved, &preferred, &growth.least);
    const bool others = !request->limited && (!growth.known || growth.free >= growth.least);
    const uint64_t device = others ? reserved : growth.known ? capacity : UINT64_MAX;
    growth.most = device < limit ? device : limit;
    return growth;
}

static void add_advice(weir_oom_record *record, const struct request *request, const struct snapshot *snapshot,
                       const struct growth *growth)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    const weir_pool *pool = request->pool;
    const uint64_t granule = pool->granule_mask;
    const struct need need = {.size = (request->size + granule) & ~granule, .align = request->align};
    advise_growth(record, request, growth);
    if (snapshot->pieces == NULL || pool->strategy->gather == NULL) {
        return;
    }
    advise_waiting(record, pool, snapshot, need);
    advise_less(record, request, growth);
    advise_freeing(record, snapshot, &need, growth);
    advise_unpinning(record, record->reserved_bytes + growth->least, growth->most);
}

/* Subtracts figures of slightly different moments. */
static uint64_t less(uint64_t all, uint64_t part)
{
    return all > part ? all - part : 0;
}

/* Fills in what a record tells of the pool, and takes the copy of all ranges from which it does; the copy is empty if
 * there is no host memory for it. No lock held. */
static bool look(weir_oom_record *record, weir_pool *pool, const weir_stream *stream, struct snapshot *snapshot)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    if (weir_pool_get_stats(pool, &stats) != WEIR_OK) {
        return false;
    }
    struct absent absent;
    pool_lock(pool);
    weir__sleep_absent_locked(pool, &absent);
    pool_unlock(pool);
    record->requested_bytes = less(stats.requested_bytes, absent.requested);
    record->live_bytes = less(stats.live_bytes, absent.live);
    record->cached_bytes = stats.cached_bytes;
    record->free_bytes = stats.free_bytes;
    record->largest_free_bytes = stats.largest_free_bytes;
    weir__tag_holders(pool, &absent, record);
    (void)weir_device_memory_info(pool->device, &record->device_free_bytes, &record->device_total_bytes);
    if (weir__snapshot_take(pool, stream, snapshot)) {
        look_at_regions(record, snapshot);
    }
    return true;
}

static void look_at_pool_locked(weir_oom_record *record, weir_pool *pool, weir_stream *stream)
{
    WEIR_ASSERT(pool_is_locked(pool));
    record->limit_bytes = pool->config.limit_bytes;
    record->reserved_bytes = pool->held.bytes;
    record->pending_bytes = pool->pending_bytes;
    look_at_lanes_locked(record, pool, stream);
}

weir_status weir_pool_survey(weir_pool *pool, weir_stream *stream, weir_oom_record *out)
{
    if (pool == NULL || stream == NULL || out == NULL || stream->owner != pool) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_survey: %s",
                           pool == NULL     ? "pool is NULL"
                           : stream == NULL ? "stream is NULL"
                           : out == NULL    ? "record is NULL"
                                            : "the stream belongs to another pool");
    }
    struct snapshot snapshot = {NULL, 0};
    weir_oom_record record = {.struct_size = sizeof(record), .stream = stream->lane};
    if (!look(&record, pool, stream, &snapshot) || snapshot.pieces == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    pool_lock(pool);
    look_at_pool_locked(&record, pool, stream);
    pool_unlock(pool);
    weir__snapshot_fini(&snapshot);
    weir_oom_judge(&record);
    return weir_struct_report(out, &record, sizeof(record), "weir_pool_survey: record");
}

/* True if a pool with virtual memory would have served the request with the same blocks in their places: the pages that
 * they touch, and those of the request, are within the bound. */
static bool pages_would_do(const weir_oom_record *record, const struct request *request,
                           const struct snapshot *snapshot)
{
    WEIR_ASSERT(request->pool->vm == NULL && request->size != 0);
    const weir_device_info *info = weir__device_info(request->pool->device);
    if ((info->abilities & WEIR_DEVICE_VIRTUAL_MEMORY) == 0 || snapshot->pieces == NULL) {
        return false;
    }
    const uint64_t inner = info->page_bytes - 1;
    const uint64_t bound = request->limited ? record->limit_bytes : record->reserved_bytes + record->device_free_bytes;
    uint64_t touched = 0;
    uint64_t end = 0; /* of the pages that have been counted */
    for (size_t i = 0; i < snapshot->count; i++) {
        const struct snapshot_piece *piece = &snapshot->pieces[i];
        if (piece->state == SNAPSHOT_TAKEN || piece->stuck != 0) {
            const uint64_t first = piece->address & ~inner;
            const uint64_t last = (piece->address + piece->size + inner) & ~inner;
            const uint64_t from = first > end ? first : end;
            touched += last > from ? last - from : 0;
            end = last > end ? last : end;
        }
    }
    return touched <= bound && request->size <= bound - touched &&
           ((request->size + inner) & ~inner) <= bound - touched;
}

void weir__oom_explain_now(const struct request *request)
{
    WEIR_ASSERT(outside_pool_lock(request->pool));
    WEIR_ASSERT(request->block == NULL);
    weir_pool *pool = request->pool;
    struct snapshot snapshot = {NULL, 0};
    weir_oom_record record = {
        .struct_size = sizeof(record),
        .size = request->size,
        .align = request->align,
        .stream = request->stream->lane,
        .tag = request->tag,
        .region_asked_bytes = request->limited ? 0 : request->region_asked,
        .device_status = request->device_status,
        .cause = request->broken != WEIR_OK ? WEIR_OOM_CAUSE_RECORDS : WEIR_OOM_CAUSE_NONE,
    };
    if (!look(&record, pool, request->stream, &snapshot)) {
        return;
    }
    (void)snprintf(record.tag_name, sizeof(record.tag_name), "%s", weir_pool_tag_name(pool, request->tag));
    pool_lock(pool);
    look_at_pool_locked(&record, pool, request->stream);
    uint64_t more = 0;
    if (pool->vm != NULL) {
        const struct mapping mapping = mapping_locked(&record, request, &snapshot);
        more = missing_granules(&mapping);
        if (request->broken == WEIR_OK && snapshot.pieces != NULL) {
            advise_mapping(&record, request, &snapshot, &mapping);
        }
    } else {
        const struct growth growth = growth_locked(request);
        more = request->limited ? record.reserved_bytes + growth.least - record.limit_bytes : record.region_asked_bytes;
        if (request->broken == WEIR_OK) {
            add_advice(&record, request, &snapshot, &growth);
        }
        record.virtual_memory_would_do = pages_would_do(&record, request, &snapshot);
    }
    name_tag(pool, &record);
    weir__oom_conclude(&record, pool->vm != NULL, more);
    record.failure = pool->oom.failure + 1;
    pool->oom = record;
    pool_unlock(pool);
    weir__snapshot_fini(&snapshot);
}
