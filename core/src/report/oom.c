/* core/src/report/oom.c: explains why a request failed, and which change would have made it succeed.
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

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
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
    const uint64_t less = room > record->usable_bytes ? room : record->usable_bytes;
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
        run = is_free ? run + piece->size : 0;
        usable = is_free && piece->stuck == 0 ? usable + piece->size : 0;
        region.largest_bytes = run > region.largest_bytes ? run : region.largest_bytes;
        record->usable_bytes = usable > record->usable_bytes ? usable : record->usable_bytes;
        record->idle_region_bytes += region.free_bytes == region.size && !piece->pinned ? region.size : 0;
        record->pinned_idle_bytes += usable == region.size && piece->pinned ? region.size : 0;
    }
    keep_region(record, &region);
}

/* --- lanes --- */

/* Lists the lanes with the most free bytes. Pool lock held. */
static void look_at_lanes_locked(weir_oom_record *record, const struct request *request)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    const weir_tick *limits = weir__order_limits_locked(pool, request->stream);
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

/* --- words --- */

struct text {
    char *at;
    size_t left;   /* at least 1, unless the buffer has no room at all */
    size_t length; /* length of the whole text, even if it does not fit */
};

__attribute__((format(printf, 2, 3))) static void say(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text->at, text->left, format, arguments);
    va_end(arguments);
    size_t wrote = length < 0 ? 0 : (size_t)length;
    text->length += wrote;
    if (text->left > 0) {
        wrote = wrote >= text->left ? text->left - 1 : wrote;
        text->at += wrote;
        text->left -= wrote;
    }
}

#define SIZE_TEXT 32

static const char *plain_size(uint64_t bytes, char *buffer)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024.0 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024.0;
        unit++;
    }
    (void)snprintf(buffer, SIZE_TEXT, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
    return buffer;
}

static const weir_oom_advice *find_advice(const weir_oom_record *record, weir_advice_kind kind)
{
    WEIR_ASSERT(record->advice_count <= WEIR_OOM_ADVICE);
    for (uint32_t i = 0; i < record->advice_count; i++) {
        if (record->advice[i].kind == kind) {
            return &record->advice[i];
        }
    }
    return NULL;
}

/* Writes the record's one-line summary. `more` is the number of missing bytes if no block is freed. */
static void write_sentence(weir_oom_record *record, const struct request *request, uint64_t more)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    const bool maps = request->pool->vm != NULL;
    char a[SIZE_TEXT];
    char b[SIZE_TEXT];
    struct text text = {record->text, sizeof(record->text), 0};
    say(&text, "%s asked on stream %u", plain_size(record->size, a), record->stream);
    say(&text, "; %s reserved, %s live", plain_size(record->reserved_bytes, a), plain_size(record->live_bytes, b));
    if (record->free_bytes > 0) {
        say(&text, ", %s free in pieces of at most %s", plain_size(record->free_bytes, a),
            plain_size(record->largest_free_bytes, b));
    }
    if (record->pinned_idle_bytes > 0) {
        say(&text, ", %s idle but pinned", plain_size(record->pinned_idle_bytes, a));
    }
    if (record->pending_bytes > 0) {
        say(&text, ", %s freed but still in use by several streams", plain_size(record->pending_bytes, a));
    }
    if (request->broken != WEIR_OK) {
        say(&text, "; no host memory for weir's own records");
        return;
    }
    if (maps) {
        say(&text, ", %s in handles that are in use",
            plain_size(record->reserved_bytes - record->idle_region_bytes, a));
    }
    /* The text names the bytes of a whole region, without subtracting free memory: one new region always satisfies the
     * request, but scattered free memory may not. */
    if (request->limited) {
        say(&text, "; the pool's limit of %s forbids to take more", plain_size(record->limit_bytes, a));
    } else {
        say(&text, "; the device refused %s %s (%s)", maps ? "to map" : "a region of",
            plain_size(record->region_asked_bytes, a), weir_status_text(record->device_status));
    }
    if (!maps && record->free_bytes >= record->size) {
        say(&text, "; fragmentation: its free memory would do in one piece");
    }
    if (record->holder_count > 0 && record->holders[0].tag != 0) {
        say(&text, "; \"%s\" holds the most, %s", record->holders[0].name,
            plain_size(record->holders[0].requested_bytes, a));
    }
    say(&text, "; it would fit with %" PRIu64 " more bytes %s", more,
        request->limited ? "under the limit" : "on the device");
    const weir_oom_advice *freeing = find_advice(record, WEIR_ADVICE_FREE_BLOCKS);
    if (freeing != NULL) {
        say(&text, ", or with %s freed in the right place", plain_size(freeing->bytes, a));
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
    if (block_address(block) - search->advice->address < search->advice->size && state_of(block) == BLOCK_LIVE) {
        search->bytes[tag_of(block)] += block_capacity(block);
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

void weir__oom_explain_now(const struct request *request)
{
    WEIR_ASSERT(outside_pool_lock(request->pool));
    WEIR_ASSERT(request->block == NULL);
    weir_pool *pool = request->pool;
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    struct snapshot snapshot = {NULL, 0};
    if (weir_pool_get_stats(pool, &stats) != WEIR_OK) {
        return;
    }
    weir_oom_record record = {
        .struct_size = sizeof(record),
        .size = request->size,
        .align = request->align,
        .stream = request->stream->lane,
        .tag = request->tag,
        .requested_bytes = stats.requested_bytes,
        .live_bytes = stats.live_bytes,
        .cached_bytes = stats.cached_bytes,
        .free_bytes = stats.free_bytes,
        .largest_free_bytes = stats.largest_free_bytes,
        .region_asked_bytes = request->limited ? 0 : request->region_asked,
        .device_status = request->device_status,
    };
    (void)snprintf(record.tag_name, sizeof(record.tag_name), "%s", weir_pool_tag_name(pool, request->tag));
    weir__tag_holders(pool, &record);
    if (weir__snapshot_take(pool, request->stream, &snapshot)) {
        look_at_regions(&record, &snapshot);
    }
    pool_lock(pool);
    record.limit_bytes = pool->config.limit_bytes;
    record.reserved_bytes = pool->held.bytes;
    record.pending_bytes = pool->pending_bytes;
    look_at_lanes_locked(&record, request);
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
    }
    name_tag(pool, &record);
    write_sentence(&record, request, more);
    record.failure = pool->oom.failure + 1;
    pool->oom = record;
    pool_unlock(pool);
    weir__snapshot_fini(&snapshot);
}

/* --- the report --- */

static void say_sums(struct text *text, const weir_oom_record *record)
{
    char a[SIZE_TEXT];
    char b[SIZE_TEXT];
    say(text, "  reserved  %s in %" PRIu64 " region%s", plain_size(record->reserved_bytes, a), record->regions,
        record->regions == 1 ? "" : "s");
    if (record->limit_bytes != 0) {
        say(text, ", limit %s", plain_size(record->limit_bytes, a));
    }
    if (record->region_asked_bytes != 0) {
        say(text, "; the device refused %s more (%s)", plain_size(record->region_asked_bytes, a),
            weir_status_text(record->device_status));
    }
    say(text, "\n  live      %s, %s as asked\n", plain_size(record->live_bytes, a),
        plain_size(record->requested_bytes, b));
    say(text, "  free      %s, at most %s in one piece for this stream\n", plain_size(record->free_bytes, a),
        plain_size(record->usable_bytes, b));
    if (record->pending_bytes + record->cached_bytes != 0) {
        say(text, "  neither   %s waiting for several streams, %s in front caches\n",
            plain_size(record->pending_bytes, a), plain_size(record->cached_bytes, b));
    }
}

static void say_pins(struct text *text, const weir_oom_record *record)
{
    char a[SIZE_TEXT];
    if (record->pinned_idle_bytes != 0) {
        say(text, "  pinned    %s of the free memory is idle and kept by pins\n",
            plain_size(record->pinned_idle_bytes, a));
    }
}

static void say_holders(struct text *text, const weir_oom_record *record)
{
    char a[SIZE_TEXT];
    for (uint32_t i = 0; i < record->holder_count; i++) {
        const weir_oom_holder *holder = &record->holders[i];
        say(text, "  %-9s %s in %" PRIu64 " block%s: %s\n", i == 0 ? "held by" : "",
            plain_size(holder->requested_bytes, a), holder->blocks, holder->blocks == 1 ? "" : "s", holder->name);
    }
}

static void say_lanes(struct text *text, const weir_oom_record *record)
{
    char a[SIZE_TEXT];
    char b[SIZE_TEXT];
    for (uint32_t i = 0; i < record->lane_count; i++) {
        const weir_oom_lane *lane = &record->lanes[i];
        say(text, "  %-9s ", i == 0 ? "free on" : "");
        if (lane->stream == 0) {
            say(text, "any stream");
        } else {
            say(text, lane->of_graph ? "a graph of stream %u%s" : "stream %u%s", lane->stream,
                lane->lent ? ", lent to it" : "");
        }
        say(text, ": %s, the largest %s", plain_size(lane->free_bytes, a), plain_size(lane->largest_bytes, b));
        if (lane->largest_bytes < record->size) {
            say(text, ", too small by %s", plain_size(record->size - lane->largest_bytes, a));
        }
        if (lane->waits_for != 0) {
            say(text, ", waits for tick %" PRIu64 " of its stream", lane->waits_for);
        }
        say(text, "\n");
    }
}

static void say_regions(struct text *text, const weir_oom_record *record)
{
    char a[SIZE_TEXT];
    char b[SIZE_TEXT];
    char c[SIZE_TEXT];
    for (uint32_t i = 0; i < record->region_count; i++) {
        const weir_oom_region *region = &record->worst[i];
        say(text, "  %-9s 0x%" PRIx64 ", %s: %s free, the largest %s, between %" PRIu64 " block%s\n",
            i == 0 ? "region" : "", region->address, plain_size(region->size, a), plain_size(region->free_bytes, b),
            plain_size(region->largest_bytes, c), region->blocks, region->blocks == 1 ? "" : "s");
    }
}

static const char *holder_name(const weir_oom_record *record, weir_tag tag)
{
    for (uint32_t i = 0; i < record->holder_count; i++) {
        if (record->holders[i].tag == tag) {
            return record->holders[i].name;
        }
    }
    return NULL;
}

static void say_freeing(struct text *text, const weir_oom_record *record, const weir_oom_advice *advice)
{
    char a[SIZE_TEXT];
    const char *name = advice->tag != 0 ? holder_name(record, advice->tag) : NULL;
    say(text, "free %" PRIu64 " block%s, %s, between 0x%" PRIx64 " and 0x%" PRIx64, advice->blocks,
        advice->blocks == 1 ? "" : "s", plain_size(advice->bytes, a), advice->address, advice->address + advice->size);
    if (name != NULL) {
        say(text, ", most of it: %s", name);
    }
}

static void say_advice(struct text *text, const weir_oom_record *record, const weir_oom_advice *advice)
{
    char a[SIZE_TEXT];
    switch (advice->kind) {
    case WEIR_ADVICE_RAISE_LIMIT:
        say(text, "raise the limit to %" PRIu64 " bytes (%s)", advice->bytes, plain_size(advice->bytes, a));
        break;
    case WEIR_ADVICE_DEVICE_ROOM:
        say(text, "have %s free on the device, in one piece", plain_size(advice->bytes, a));
        break;
    case WEIR_ADVICE_FREE_BLOCKS:
        say_freeing(text, record, advice);
        break;
    case WEIR_ADVICE_WAIT:
        if (advice->stream == 0) {
            say(text, "synchronise every stream and say so, or retire them");
        } else {
            say(text, "synchronise stream %u and say so, or retire it", advice->stream);
        }
        break;
    case WEIR_ADVICE_ASK_LESS:
        say(text, "ask for at most %" PRIu64 " bytes (%s)", advice->bytes, plain_size(advice->bytes, a));
        break;
    case WEIR_ADVICE_END_GRAPH:
        say(text, "destroy the graph that was captured on stream %u, release its capture pool, or lend its memory",
            advice->stream);
        break;
    case WEIR_ADVICE_UNPIN:
        say(text, "end the pins, which keep %s of idle memory", plain_size(advice->bytes, a));
        break;
    case WEIR_ADVICE_COUNT:
    default:
        break;
    }
    say(text, "\n");
}

size_t weir_oom_explain(const weir_oom_record *source, char *buffer, size_t size)
{
    weir_oom_record record;
    char a[SIZE_TEXT];
    struct text text = {buffer, size, 0};
    if (weir_struct_adopt(&record, sizeof(record), source, "weir_oom_explain: record") != WEIR_OK ||
        record.failure == 0) {
        say(&text, "no request has failed\n");
        return text.length;
    }
    say(&text, "out of memory: %s asked on stream %u", plain_size(record.size, a), record.stream);
    if (record.tag != 0) {
        say(&text, " for %s", record.tag_name);
    }
    if (record.align > 4096) {
        say(&text, ", aligned to %s", plain_size(record.align, a));
    }
    say(&text, "\n");
    say_sums(&text, &record);
    say_pins(&text, &record);
    say_holders(&text, &record);
    say_lanes(&text, &record);
    say_regions(&text, &record);
    for (uint32_t i = 0; i < record.advice_count; i++) {
        say(&text, "  %-9s ", i == 0 ? "would do" : "or");
        say_advice(&text, &record, &record.advice[i]);
    }
    return text.length;
}
