/* soma.c: aclrtMemPool, stream-ordered memory pools.
 *
 * Idea: a pool has addresses for all that it may ever hold and maps memory there in pages of 2 MiB. The addresses are
 * cut into segments, ordered by address: FREE ones have no memory, CACHED ones were freed, BUSY ones are allocated. A
 * CACHED segment carries at most two stamps (order.h): the free, and the allocation if another stream freed the segment
 * without being ordered after it. Adjacent segments with equal stamps are one segment.
 *
 * A request tries the kinds of reuse in the documentation's order (own stream, events, opportunistic, internal), and
 * takes the smallest segment of a kind that is large enough. If there is none, it takes the window where the fewest
 * pages are missing. Idle memory elsewhere is moved there, page by page, before more is taken from the device. If the
 * stream's own unfinished work is in the way and the pool would otherwise exceed its high-water mark, the host waits
 * for that work.
 *
 * Guarantee: memory goes to a stream only when all work that may touch it is ordered before, or is made so by a wait.
 * On one stream the pool never reserves more than was in use at once, unless the host itself holds the stream up.
 * reserved = pages with memory * 2 MiB = BUSY + CACHED + pages that the device refused to take back. A call that fails
 * has changed only the place of idle memory.
 *
 * Cost: O(segments) for a request, and for a synchronisation; device calls for each page that comes or goes.
 */
#include "order.h"
#include "report.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = ACL__HUGE_PAGE, STAMPS = 2 };

typedef enum segment_state { FREE, CACHED, BUSY } segment_state;

typedef struct page {
    weir_vm_handle memory; /* 0: none */
    bool mapped;           /* false although there is memory: the device refused to map it or to take it back */
} page;

/* Addresses that were reserved together. */
typedef struct span {
    struct span *next;
    struct pool *pool;
    uint64_t start;
    uint64_t size;
    acl__range *range; /* in the set of device memory */
    page pages[];
} span;

typedef struct segment {
    weir__sim_range range; /* first member */
    span *span;
    segment_state state;
    uint64_t asked;  /* BUSY: bytes that the caller requested */
    acl__stamp made; /* BUSY: stamp of the allocation */
    acl__stamp stamps[STAMPS];
    uint32_t stamp_count;
} segment;

typedef struct pool {
    void *link; /* used by the slab */
    struct pool *next;
    struct pool *previous;
    bool live;
    int32_t device;
    uint64_t most; /* limit of reserved bytes */
    uint64_t reserved;
    uint64_t reserved_high;
    uint64_t reserved_ever; /* as reserved_high, but never reset */
    uint64_t used;          /* bytes in BUSY segments */
    uint64_t used_high;
    uint64_t cached; /* bytes in CACHED segments */
    uint64_t blocks; /* number of BUSY segments */
    uint64_t threshold;
    uint32_t follow_events;
    uint32_t opportunistic;
    uint32_t internal;
    span *spans;
    weir__sim_ranges segments;
} pool;

/* The kinds of reuse, in the order in which they are tried. */
typedef enum reuse { OWN, BY_EVENT, OPPORTUNISTIC, INTERNAL, REUSES } reuse;

static weir__sim_slab pools_slab;
static weir__sim_slab segments_slab;
static bool slabs_ready;
static pool *first_pool;
static bool is_used; /* true once a pool was made: from then on orders are tracked */

static uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

static uint64_t size_of(const segment *s)
{
    return s->range.end - s->range.start;
}

/* Rounds a size up to whole pages; 0: too large. */
static uint64_t in_pages(uint64_t size)
{
    return size > UINT64_MAX - PAGE ? 0 : (size + PAGE - 1) / PAGE * PAGE;
}

/* --- segments --- */

static segment *first_segment(const pool *p)
{
    return (segment *)(void *)weir__sim_ranges_first(&p->segments);
}

static segment *next_segment(const segment *s)
{
    return (segment *)(void *)weir__sim_ranges_next(&s->range);
}

static segment *previous_segment(const segment *s)
{
    return (segment *)(void *)weir__sim_ranges_previous(&s->range);
}

static segment *segment_at(const pool *p, uint64_t address)
{
    weir__sim_range *r = weir__sim_ranges_floor(&p->segments, address);
    return r != NULL && r->end > address ? (segment *)(void *)r : NULL;
}

static segment *segment_add(pool *p, span *in, uint64_t start, uint64_t end, segment_state state)
{
    segment *s = weir__sim_slab_get(&segments_slab);
    if (s != NULL) {
        memset(s, 0, sizeof(*s));
        s->range.start = start;
        s->range.end = end;
        s->span = in;
        s->state = state;
        weir__sim_ranges_insert(&p->segments, &s->range);
    }
    return s;
}

static void drop_stamps(segment *s)
{
    while (s->stamp_count > 0) {
        acl__stamp_drop(&s->stamps[--s->stamp_count]);
    }
}

static void segment_delete(pool *p, segment *s)
{
    drop_stamps(s);
    acl__stamp_drop(&s->made);
    weir__sim_ranges_remove(&p->segments, &s->range);
    weir__sim_slab_put(&segments_slab, s);
}

/* Drops the stamps that the host has seen complete. */
static void tidy_stamps(segment *s)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->stamp_count; i++) {
        if (acl__stamp_is_seen(&s->stamps[i])) {
            acl__stamp_drop(&s->stamps[i]);
        } else {
            s->stamps[kept++] = s->stamps[i];
        }
    }
    s->stamp_count = kept;
}

static bool can_join(const segment *a, const segment *b)
{
    return a != NULL && b != NULL && a->range.end == b->range.start && a->span == b->span && a->state == b->state &&
           a->state != BUSY && a->stamp_count == b->stamp_count && a->stamp_count < 2 &&
           (a->stamp_count == 0 || a->stamps[0].serial == b->stamps[0].serial);
}

/* Merges b into a. Keeps the later stamp. */
static void join(pool *p, segment *a, segment *b)
{
    if (a->stamp_count == 1 && b->stamps[0].tick > a->stamps[0].tick) {
        const acl__stamp later = a->stamps[0];
        a->stamps[0] = b->stamps[0];
        b->stamps[0] = later;
    }
    const uint64_t end = b->range.end;
    segment_delete(p, b);
    a->range.end = end;
    weir__sim_ranges_resized(&a->range);
}

/* Merges a segment with its neighbours where they are alike. Returns the result. */
static segment *coalesce(pool *p, segment *s)
{
    segment *before = previous_segment(s);
    if (can_join(before, s)) {
        join(p, before, s);
        s = before;
    }
    segment *after = next_segment(s);
    if (can_join(s, after)) {
        join(p, s, after);
    }
    return s;
}

/* Cuts a segment in two at an address inside it. Returns the upper part; NULL: out of host memory. */
static segment *split(pool *p, segment *s, uint64_t at)
{
    segment *upper = weir__sim_slab_get(&segments_slab);
    if (upper == NULL) {
        return NULL;
    }
    memset(upper, 0, sizeof(*upper));
    upper->range.start = at;
    upper->range.end = s->range.end;
    upper->span = s->span;
    upper->state = s->state;
    for (uint32_t i = 0; i < s->stamp_count; i++) {
        upper->stamps[upper->stamp_count++] = acl__stamp_copy(&s->stamps[i]);
    }
    s->range.end = at;
    weir__sim_ranges_resized(&s->range);
    weir__sim_ranges_insert(&p->segments, &upper->range);
    return upper;
}

/* --- pages --- */

static page *page_at(const segment *s, uint64_t address)
{
    return &s->span->pages[(address - s->span->start) / PAGE];
}

static void count_reserved(pool *p)
{
    p->reserved_high = p->reserved > p->reserved_high ? p->reserved : p->reserved_high;
    p->reserved_ever = p->reserved > p->reserved_ever ? p->reserved : p->reserved_ever;
}

/* Gives one page mapped memory. */
static weir_status page_fill(pool *p, page *at, uint64_t address)
{
    weir_status status = WEIR_OK;
    if (at->memory == 0) {
        if (p->reserved >= p->most || !acl__capacity_take(p->device, PAGE, true)) {
            return WEIR_ERR_NO_MEMORY;
        }
        status = weir_device_vm_create(acl__rt.memory, PAGE, &at->memory);
        if (status != WEIR_OK) {
            at->memory = 0;
            acl__capacity_give(p->device, PAGE, true);
            return status;
        }
        p->reserved += PAGE;
    }
    if (!at->mapped) {
        status = weir_device_vm_map(acl__rt.memory, address, PAGE, at->memory);
        at->mapped = status == WEIR_OK;
    }
    return status;
}

/* Returns a page's memory to the device. If the device refuses, the memory counts as reserved until it is taken
 * back. */
static weir_status page_empty(pool *p, page *at, uint64_t address)
{
    weir_status status = WEIR_OK;
    if (at->mapped) {
        status = weir_device_vm_unmap(acl__rt.memory, address, PAGE);
        at->mapped = status != WEIR_OK;
    }
    if (status == WEIR_OK && at->memory != 0) {
        status = weir_device_vm_destroy(acl__rt.memory, at->memory);
        if (status == WEIR_OK) {
            at->memory = 0;
            p->reserved -= PAGE;
            acl__capacity_give(p->device, PAGE, true);
        }
    }
    return status;
}

static weir_status pages_empty(pool *p, const segment *s, uint64_t start, uint64_t end)
{
    weir_status first = WEIR_OK;
    for (uint64_t at = start; at < end; at += PAGE) {
        const weir_status status = page_empty(p, page_at(s, at), at);
        first = first == WEIR_OK ? status : first;
    }
    return first;
}

/* Fills all pages of a FREE segment. On failure they are emptied again, except for memory that the device then refuses
 * to take back. */
static weir_status pages_fill(pool *p, const segment *s)
{
    for (uint64_t at = s->range.start; at < s->range.end; at += PAGE) {
        const weir_status status = page_fill(p, page_at(s, at), at);
        if (status != WEIR_OK) {
            (void)pages_empty(p, s, s->range.start, at + PAGE);
            return status;
        }
    }
    return WEIR_OK;
}

/* --- returning memory to the device --- */

typedef enum patience { LOOK, WAIT } patience;

/* True if all work that may touch a segment is complete; the host has then seen it. */
static bool is_over(segment *s, patience how)
{
    tidy_stamps(s);
    for (uint32_t i = 0; i < s->stamp_count; i++) {
        if (how == WAIT ? !acl__stamp_await(&s->stamps[i]) : !acl__stamp_look(&s->stamps[i])) {
            return false;
        }
    }
    tidy_stamps(s);
    return true;
}

/* Returns the memory of the upper end of a segment, at most `bytes`. Returns how much was returned. */
static uint64_t release_from(pool *p, segment *s, uint64_t bytes)
{
    segment *gone = s;
    if (size_of(s) > bytes) {
        gone = split(p, s, s->range.end - bytes);
        if (gone == NULL) {
            return 0;
        }
    }
    const uint64_t before = p->reserved;
    (void)pages_empty(p, gone, gone->range.start, gone->range.end);
    drop_stamps(gone);
    gone->state = FREE;
    p->cached -= size_of(gone);
    (void)coalesce(p, gone);
    return before - p->reserved;
}

/* Tries again to return memory that the device refused to take back. */
static void release_leftovers(pool *p)
{
    const bool any = p->reserved > p->used + p->cached;
    for (segment *s = any ? first_segment(p) : NULL; s != NULL; s = next_segment(s)) {
        if (s->state == FREE) {
            (void)pages_empty(p, s, s->range.start, s->range.end);
        }
    }
}

static uint64_t idle_bytes(const pool *p)
{
    return p->reserved - p->used;
}

/* Selects idle memory to return: none in [start, end), and with a `line` only memory that its stream might use. */
typedef struct choice {
    uint64_t start;
    uint64_t end;
    const acl__line *line; /* NULL: memory of any stream */
    patience how;
} choice;

static bool is_usable(const pool *p, const segment *s, const acl__line *line);

static bool is_chosen(const pool *p, const segment *s, const choice *c)
{
    return s->state == CACHED && (s->range.end <= c->start || s->range.start >= c->end) &&
           (c->line == NULL || is_usable(p, s, c->line));
}

/* Returns at most `bytes` of idle memory to the device, from the highest address down. Returns how much was
 * returned. */
static uint64_t release(pool *p, uint64_t bytes, const choice *c)
{
    uint64_t released = 0;
    uint64_t below = UINT64_MAX;
    bytes -= bytes % PAGE;
    while (released < bytes) {
        segment *s = (segment *)(void *)weir__sim_ranges_floor(&p->segments, below);
        if (s == NULL) {
            break;
        }
        below = s->range.start - 1;
        if (is_chosen(p, s, c) && is_over(s, c->how)) {
            released += release_from(p, s, bytes - released);
        }
    }
    return released;
}

/* --- reuse --- */

/* True if only the stream's own work may touch the segment, or, with `events`, work that waits have ordered before
 * it. */
static bool is_for(const segment *s, const acl__line *line, bool events)
{
    for (uint32_t i = 0; i < s->stamp_count; i++) {
        const acl__stamp *stamp = &s->stamps[i];
        if (stamp->serial != acl__line_serial(line) && !acl__stamp_is_seen(stamp) &&
            !(events && acl__stamp_is_before(stamp, line))) {
            return false;
        }
    }
    return true;
}

/* True if the stream may have the segment without a query or a wait. */
static bool is_usable(const pool *p, const segment *s, const acl__line *line)
{
    return acl__rt.config.reuse_pools && is_for(s, line, p->follow_events != 0);
}

static bool fits_kind(const pool *p, segment *s, const acl__line *line, reuse kind)
{
    switch (kind) {
    case OWN:
        return is_for(s, line, false);
    case BY_EVENT:
        return p->follow_events != 0 && is_for(s, line, true);
    case OPPORTUNISTIC:
        return p->opportunistic != 0 && is_over(s, LOOK);
    default:
        return p->internal != 0;
    }
}

static bool wait_for(segment *s, acl__line *line)
{
    for (uint32_t i = 0; i < s->stamp_count; i++) {
        if (!acl__stamp_join(&s->stamps[i], line)) {
            return false;
        }
    }
    return true;
}

/* Returns the smallest segment of a kind that holds `size`, the lowest of equals; NULL: none. */
static segment *best_fit(const pool *p, uint64_t size, const acl__line *line, reuse kind)
{
    segment *best = NULL;
    for (segment *s = first_segment(p); s != NULL; s = next_segment(s)) {
        if (s->state == CACHED && size_of(s) >= size && (best == NULL || size_of(s) < size_of(best)) &&
            fits_kind(p, s, line, kind)) {
            best = s;
        }
    }
    return best;
}

static segment *find_cached(const pool *p, uint64_t size, acl__line *line)
{
    if (!acl__rt.config.reuse_pools) {
        return NULL;
    }
    for (reuse kind = OWN; kind < REUSES; kind++) {
        segment *s = best_fit(p, size, line, kind);
        if (s != NULL && (kind != INTERNAL || wait_for(s, line))) {
            return s;
        }
    }
    return NULL;
}

/* --- growth --- */

/* Adjacent addresses that a request could have. */
typedef struct window {
    span *span; /* NULL: no window */
    uint64_t start;
    uint64_t missing; /* bytes without memory */
} window;

static bool is_open(const pool *p, const segment *s, const acl__line *line)
{
    return s->state == FREE || (s->state == CACHED && is_usable(p, s, line));
}

static void consider(window *best, span *in, uint64_t start, uint64_t missing)
{
    if (best->span == NULL || missing < best->missing) {
        *best = (window){in, start, missing};
    }
}

static uint64_t missing_of(const segment *s, uint64_t bytes)
{
    return s->state == FREE ? bytes : 0;
}

/* Considers the window that begins at the start of `first`. */
static void consider_from(const pool *p, const segment *first, uint64_t size, const acl__line *line, window *best)
{
    uint64_t missing = 0;
    uint64_t got = 0;
    for (const segment *s = first; s != NULL && s->span == first->span && is_open(p, s, line); s = next_segment(s)) {
        const uint64_t part = size_of(s) < size - got ? size_of(s) : size - got;
        missing += missing_of(s, part);
        got += part;
        if (got == size) {
            consider(best, first->span, first->range.start, missing);
            return;
        }
    }
}

/* Considers the window that ends at the end of `last`. */
static void consider_to(const pool *p, const segment *last, uint64_t size, const acl__line *line, window *best)
{
    uint64_t missing = 0;
    uint64_t got = 0;
    for (const segment *s = last; s != NULL && s->span == last->span && is_open(p, s, line); s = previous_segment(s)) {
        const uint64_t part = size_of(s) < size - got ? size_of(s) : size - got;
        missing += missing_of(s, part);
        got += part;
        if (got == size) {
            consider(best, last->span, last->range.end - size, missing);
            return;
        }
    }
}

/* Returns the window where the fewest pages are missing; of equals the first one found. */
static window find_window(const pool *p, uint64_t size, const acl__line *line)
{
    window best = {NULL, 0, 0};
    for (const segment *s = first_segment(p); s != NULL; s = next_segment(s)) {
        if (is_open(p, s, line)) {
            consider_from(p, s, size, line, &best);
            if (s->state == CACHED) {
                consider_to(p, s, size, line, &best);
            }
        }
    }
    return best;
}

static weir_status span_add(pool *p, uint64_t size)
{
    const size_t pages = (size_t)(size / PAGE);
    span *in = calloc(1, sizeof(*in) + pages * sizeof(page));
    uint64_t start = 0;
    weir_status status = in != NULL ? weir_device_vm_reserve(acl__rt.memory, size, &start) : WEIR_ERR_NO_MEMORY;
    if (status != WEIR_OK) {
        free(in);
        return status;
    }
    in->pool = p;
    in->start = start;
    in->size = size;
    in->range = acl__range_add(&acl__rt.device_memory, ACL__POOLED, start, size);
    if (in->range == NULL || segment_add(p, in, start, start + size, FREE) == NULL) {
        if (in->range != NULL) {
            acl__range_remove(&acl__rt.device_memory, in->range);
        }
        (void)weir_device_vm_release(acl__rt.memory, start, size);
        free(in);
        return WEIR_ERR_NO_MEMORY;
    }
    in->range->device = p->device;
    in->range->huge = true;
    in->range->owner = in;
    in->next = p->spans;
    p->spans = in;
    return WEIR_OK;
}

/* Cuts segments so that they begin and end with the window. Returns false when out of host memory. */
static bool cut_out(pool *p, uint64_t start, uint64_t end)
{
    segment *s = segment_at(p, start);
    if (s->range.start < start && split(p, s, start) == NULL) {
        return false;
    }
    s = segment_at(p, end - 1);
    return s->range.end == end || split(p, s, end) != NULL;
}

static void empty_window(pool *p, uint64_t start, uint64_t end)
{
    for (segment *s = segment_at(p, start); s != NULL && s->range.start < end; s = next_segment(s)) {
        if (s->state == FREE) {
            (void)pages_empty(p, s, s->range.start, s->range.end);
        }
    }
}

static void join_window(pool *p, uint64_t start, uint64_t end)
{
    for (segment *s = segment_at(p, start); s != NULL && s->range.start < end; s = next_segment(s)) {
        s = coalesce(p, s);
    }
}

/* Fills the FREE segments of the window and makes one CACHED segment of it. The segment has no stamps: all earlier work
 * on it is ordered before the stream's next work. NULL: failure, and the segments are as before. */
static segment *take_window(pool *p, uint64_t start, uint64_t size, weir_status *status)
{
    const uint64_t end = start + size;
    uint64_t filled = 0;
    *status = cut_out(p, start, end) ? WEIR_OK : WEIR_ERR_NO_MEMORY;
    for (segment *s = segment_at(p, start); *status == WEIR_OK && s != NULL && s->range.start < end;
         s = next_segment(s)) {
        if (s->state == FREE) {
            *status = pages_fill(p, s);
            filled += size_of(s);
        }
    }
    if (*status != WEIR_OK) {
        empty_window(p, start, end);
        return NULL;
    }
    segment *first = segment_at(p, start);
    for (segment *s = next_segment(first); s != NULL && s->range.start < end; s = next_segment(first)) {
        const uint64_t until = s->range.end;
        segment_delete(p, s);
        first->range.end = until;
        weir__sim_ranges_resized(&first->range);
    }
    drop_stamps(first);
    first->state = CACHED;
    p->cached += filled;
    return first;
}

/* Returns idle memory elsewhere to the device, so that filling the window does not make the pool grow. Waits for
 * unfinished work only if the pool would otherwise exceed its high-water mark. */
static void move_idle(pool *p, const window *w, uint64_t size, const acl__line *line)
{
    choice c = {w->start, w->start + size, line, LOOK};
    const uint64_t left = w->missing - release(p, w->missing, &c);
    const uint64_t then = p->reserved + w->missing;
    if (left > 0 && then > p->reserved_ever) {
        const uint64_t above = then - p->reserved_ever;
        c.how = WAIT;
        (void)release(p, left < above ? left : above, &c);
    }
}

static uint64_t lacking(const pool *p, uint64_t missing)
{
    const uint64_t room = p->most - p->reserved;
    return missing > room ? missing - room : 0;
}

/* Returns idle memory of any stream when the pool's limit, or the device, leaves no room. Returns false if none was
 * returned. */
static bool make_room(pool *p, const window *w, uint64_t size, uint64_t bytes)
{
    const choice c = {w->start, w->start + size, NULL, LOOK};
    return acl__rt.config.reuse_pools && release(p, bytes, &c) > 0;
}

/* Fills a window and returns its segment, after moving idle memory and making room as needed. NULL: failure. */
static segment *grow_into(pool *p, const window *w, uint64_t size, const acl__line *line, weir_status *status)
{
    move_idle(p, w, size, line);
    if (lacking(p, w->missing) > 0) {
        (void)make_room(p, w, size, lacking(p, w->missing));
    }
    segment *s = lacking(p, w->missing) == 0 ? take_window(p, w->start, size, status) : NULL;
    if (s == NULL && *status == WEIR_ERR_NO_MEMORY && make_room(p, w, size, w->missing) &&
        lacking(p, w->missing) == 0) {
        s = take_window(p, w->start, size, status);
    }
    return s;
}

static segment *grow(pool *p, uint64_t size, const acl__line *line)
{
    weir_status status = WEIR_ERR_NO_MEMORY;
    window w = find_window(p, size, line);
    if (w.span == NULL && p->used + size <= p->most && span_add(p, p->most) == WEIR_OK) {
        w = find_window(p, size, line);
    }
    if (w.span == NULL) {
        return NULL;
    }
    /* The parts cut off around the window are idle memory like any other. */
    segment *s = cut_out(p, w.start, w.start + size) ? grow_into(p, &w, size, line, &status) : NULL;
    if (s == NULL) {
        join_window(p, w.start, w.start + size);
    }
    count_reserved(p);
    return s;
}

/* --- announcements to the auditor, in the order of the stream --- */

typedef struct notice {
    acl__task task; /* first member */
    uint64_t address;
    uint64_t size; /* 0: a free */
} notice;

static aclError notice_submit(acl__stream *stream, acl__task *task)
{
    const notice *n = (notice *)(void *)task;
    if (n->size > 0) {
        weir_sim_block_alloc(acl__rt.sim, n->address, n->size, stream->sim, "aclrtMemPoolMallocAsync");
    } else {
        weir_sim_block_free(acl__rt.sim, n->address, stream->sim, "aclrtMemPoolFreeAsync");
    }
    return ACL_SUCCESS;
}

static void task_free(acl__task *task)
{
    free(task);
}

static const acl__task_ops notice_ops = {.submit = notice_submit, .end = task_free};

static aclError tell(acl__stream *stream, uint64_t address, uint64_t size)
{
    notice *n = malloc(sizeof(*n));
    if (n == NULL) {
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "a memory pool: no host memory");
    }
    *n = (notice){.task = {.ops = &notice_ops}, .address = address, .size = size};
    return acl__queue(stream, &n->task);
}

/* --- blocks --- */

static void make_ready(void)
{
    if (!slabs_ready) {
        weir__sim_slab_init(&pools_slab, sizeof(pool), 8);
        weir__sim_slab_init(&segments_slab, sizeof(segment), 64);
        slabs_ready = true;
    }
}

static pool *pool_of(aclrtMemPool handle)
{
    pool *p = handle;
    return slabs_ready && weir__sim_slab_owns(&pools_slab, handle) && p->live ? p : NULL;
}

static aclError no_pool(const char *name, aclError code, const void *handle)
{
    return acl__fail(code, "%s: %p is no memory pool", name, handle);
}

static aclError exhausted(const pool *p, uint64_t size)
{
    return acl__fail(ACL_ERROR_RT_INTERNAL_ERROR,
                     "aclrtMemPoolMallocAsync: memory pool exhausted: %llu bytes asked, %llu of at most %llu reserved, "
                     "%llu of them in use",
                     (unsigned long long)size, (unsigned long long)p->reserved, (unsigned long long)p->most,
                     (unsigned long long)p->used);
}

/* Returns a CACHED segment of exactly `size` bytes that the stream may have from now on, or NULL. */
static segment *obtain(pool *p, uint64_t size, acl__line *line)
{
    segment *s = find_cached(p, size, line);
    if (s == NULL) {
        return grow(p, size, line);
    }
    return size_of(s) == size || split(p, s, s->range.start + size) != NULL ? s : NULL;
}

static aclError malloc_locked(pool *p, uint64_t asked, acl__stream *stream, void **pointer)
{
    const uint64_t size = in_pages(asked);
    if (size == 0) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemPoolMallocAsync: %llu bytes overflow when rounded up",
                         (unsigned long long)asked);
    }
    acl__line *line = acl__line_of(stream);
    segment *s = line != NULL && size <= p->most ? obtain(p, size, line) : NULL;
    if (s == NULL) {
        return exhausted(p, asked);
    }
    const aclError error = tell(stream, s->range.start, asked);
    drop_stamps(s);
    if (error != ACL_SUCCESS) {
        /* The block counts as allocated and freed again. */
        s->stamps[s->stamp_count++] = acl__stamp_make(line, false);
        (void)coalesce(p, s);
        return error;
    }
    s->state = BUSY;
    s->asked = asked;
    s->made = acl__stamp_make(line, false);
    p->blocks++;
    p->cached -= size;
    p->used += size;
    p->used_high = p->used > p->used_high ? p->used : p->used_high;
    *pointer = (void *)(uintptr_t)s->range.start;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMemPoolMallocAsync(void **ptr, size_t size, aclrtMemPool memPool, aclrtStream stream_handle)
{
    static const char name[] = "aclrtMemPoolMallocAsync";
    ACL_ENTER(aclrtMemPoolMallocAsync);
    if (ptr == NULL || memPool == NULL || stream_handle == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "%s: %s is NULL", name,
                         ptr == NULL       ? "ptr"
                         : memPool == NULL ? "memPool"
                                           : "the stream");
    }
    if (size == 0) {
        return ACL_SUCCESS;
    }
    acl__stream *stream = NULL;
    acl__lock();
    pool *p = pool_of(memPool);
    aclError error = acl__stream_of(stream_handle, &stream);
    if (error == ACL_SUCCESS && p == NULL) {
        error = no_pool(name, ACL_ERROR_RT_INTERNAL_ERROR, memPool);
    } else if (error == ACL_SUCCESS && p->device != stream->context->device) {
        error = acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: the pool is of device %d, the stream of device %d", name,
                          p->device, stream->context->device);
    }
    if (error == ACL_SUCCESS) {
        error = malloc_locked(p, size, stream, ptr);
    }
    acl__unlock();
    return error;
}

/* Returns the BUSY segment at an address, or NULL. *in becomes the pool of the address, or NULL if it is no pool's. */
static segment *busy_at(const void *pointer, pool **in)
{
    const acl__range *range = acl__range_at(&acl__rt.device_memory, pointer);
    *in = range != NULL && range->kind == ACL__POOLED ? ((const span *)range->owner)->pool : NULL;
    segment *s = *in != NULL ? segment_at(*in, address_of(pointer)) : NULL;
    return s != NULL && s->state == BUSY ? s : NULL;
}

static void make_cached(pool *p, segment *s)
{
    acl__stamp_drop(&s->made);
    s->state = CACHED;
    p->used -= size_of(s);
    p->cached += size_of(s);
    p->blocks--;
    (void)coalesce(p, s);
}

static aclError free_in_order(pool *p, segment *s, acl__stream *stream)
{
    acl__line *line = acl__line_of(stream);
    if (line == NULL) {
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMemPoolFreeAsync: no host memory");
    }
    const aclError error = tell(stream, s->range.start, 0);
    if (error != ACL_SUCCESS) {
        return error;
    }
    if (!acl__stamp_is_before(&s->made, line)) {
        s->stamps[s->stamp_count++] = acl__stamp_copy(&s->made);
    }
    s->stamps[s->stamp_count++] = acl__stamp_make(line, p->opportunistic != 0 || p->internal != 0);
    make_cached(p, s);
    return ACL_SUCCESS;
}

/* --- free of memory that is no pool's: when the stream reaches it, before any later work --- */

typedef struct late_free {
    acl__task task; /* first member */
    void *pointer;
} late_free;

static aclError late_free_submit(acl__stream *stream, acl__task *task)
{
    if (!acl__has_arrived(stream)) {
        return ACL__HELD;
    }
    void *pointer = ((late_free *)(void *)task)->pointer;
    const acl__range *range = acl__range_at(&acl__rt.device_memory, pointer);
    /* By now the address may belong to a pool, and that pool may be in the middle of the operation that pumped this
     * task. */
    if (range != NULL && range->kind != ACL__POOLED) {
        acl__host_saw(stream);
        (void)acl__free(pointer); /* there is no caller to return an error to */
    }
    return ACL_SUCCESS;
}

static const acl__task_ops late_free_ops = {.submit = late_free_submit, .end = task_free};

static aclError free_later(void *pointer, acl__stream *stream)
{
    const acl__range *range = acl__range_at(&acl__rt.device_memory, pointer);
    if (acl__rt.config.strict &&
        (range == NULL || range->kind != ACL__ALLOCATED || range->range.start != address_of(pointer))) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemPoolFreeAsync: %p is no allocation", pointer);
    }
    const aclError error = acl__engine_need();
    if (error != ACL_SUCCESS) {
        return error;
    }
    late_free *f = malloc(sizeof(*f));
    if (f == NULL) {
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMemPoolFreeAsync: no host memory");
    }
    *f = (late_free){.task = {.ops = &late_free_ops}, .pointer = pointer};
    return acl__queue(stream, &f->task);
}

static aclError free_locked(void *pointer, acl__stream *stream)
{
    pool *p = NULL;
    segment *s = busy_at(pointer, &p);
    if (p == NULL) {
        return free_later(pointer, stream);
    }
    if (s == NULL || s->range.start != address_of(pointer)) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemPoolFreeAsync: %p is no block of its pool, or was freed",
                         pointer);
    }
    return free_in_order(p, s, stream);
}

ACL_EXPORT aclError aclrtMemPoolFreeAsync(void *ptr, aclrtStream stream_handle)
{
    ACL_ENTER(aclrtMemPoolFreeAsync);
    if (ptr == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtMemPoolFreeAsync: NULL");
    }
    acl__stream *stream = NULL;
    acl__lock();
    aclError error = acl__stream_of(stream_handle, &stream);
    if (error == ACL_SUCCESS) {
        error = free_locked(ptr, stream);
    }
    acl__unlock();
    return error;
}

/* Frees a block on the host's word that no work touches it any more. */
static void free_now(pool *p, segment *s)
{
    weir_sim_block_free(acl__rt.sim, s->range.start, NULL, "aclrtFree");
    make_cached(p, s);
}

bool acl__soma_free_now(void *pointer, aclError *error)
{
    pool *p = NULL;
    segment *s = busy_at(pointer, &p);
    if (p == NULL) {
        return false;
    }
    if (s == NULL || s->range.start != address_of(pointer)) {
        *error = acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtFree: %p is no block of its memory pool, or was freed",
                           pointer);
    } else {
        free_now(p, s);
        *error = ACL_SUCCESS;
    }
    return true;
}

bool acl__soma_block_at(const void *pointer, uint64_t *start, uint64_t *size)
{
    pool *p = NULL;
    const segment *s = busy_at(pointer, &p);
    if (s == NULL || address_of(pointer) - s->range.start >= s->asked) {
        return false;
    }
    *start = s->range.start;
    *size = s->asked;
    return true;
}

/* --- synchronisation --- */

/* Merges segments that have become alike. */
static void tidy(pool *p)
{
    for (segment *s = first_segment(p); s != NULL; s = next_segment(s)) {
        if (s->state == CACHED) {
            tidy_stamps(s);
            s = coalesce(p, s);
        }
    }
}

void acl__soma_synced(acl__stream *stream)
{
    if (!is_used) {
        return;
    }
    acl__order_synced(stream);
    const choice anything = {0, 0, NULL, LOOK};
    for (pool *p = first_pool; p != NULL; p = p->next) {
        tidy(p);
        if (idle_bytes(p) > p->threshold) {
            release_leftovers(p);
        }
        if (idle_bytes(p) > p->threshold) {
            (void)release(p, idle_bytes(p) - p->threshold, &anything);
        }
    }
}

void acl__soma_recorded(const void *event, acl__stream *stream)
{
    if (is_used) {
        acl__order_recorded(event, stream);
    }
}

void acl__soma_waited(acl__stream *stream, const void *event)
{
    if (is_used) {
        acl__order_waited(stream, event);
    }
}

/* --- pools --- */

static aclError create_locked(const aclrtMemPoolProps *props, aclrtMemPool *handle)
{
    const uint64_t total = acl__rt.config.capacity_bytes;
    const uint64_t most = props->maxSize != 0 ? in_pages(props->maxSize) : total / PAGE * PAGE;
    if (most == 0 || most > total) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemPoolCreate: a size of %zu is more than the device's %llu",
                         props->maxSize, (unsigned long long)total);
    }
    make_ready();
    pool *p = weir__sim_slab_get(&pools_slab);
    if (p == NULL) {
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMemPoolCreate: no host memory");
    }
    memset(p, 0, sizeof(*p));
    p->device = (int32_t)props->location.id;
    p->most = most;
    const weir_status status = span_add(p, most);
    if (status != WEIR_OK) {
        weir__sim_slab_put(&pools_slab, p);
        return acl__status(status, "aclrtMemPoolCreate");
    }
    p->live = true;
    p->next = first_pool;
    if (p->next != NULL) {
        p->next->previous = p;
    }
    first_pool = p;
    is_used = true;
    *handle = p;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMemPoolCreate(aclrtMemPool *memPool, const aclrtMemPoolProps *poolProps)
{
    static const char name[] = "aclrtMemPoolCreate";
    ACL_ENTER(aclrtMemPoolCreate);
    if (memPool == NULL || poolProps == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "%s: %s is NULL", name, memPool == NULL ? "memPool" : "poolProps");
    }
    static const unsigned char zero[sizeof(poolProps->reserved)];
    if (poolProps->allocType != ACL_MEM_ALLOCATION_TYPE_PINNED ||
        poolProps->location.type != ACL_MEM_LOCATION_TYPE_DEVICE ||
        memcmp(poolProps->reserved, zero, sizeof(zero)) != 0) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "%s: only pinned memory, on a device, with the reserved bytes zero",
                         name);
    }
    if (poolProps->location.id >= acl__rt.config.devices) {
        return acl__fail(ACL_ERROR_RT_INVALID_DEVICEID, "%s: there is no device %u", name, poolProps->location.id);
    }
    acl__context *context = NULL;
    acl__lock();
    aclError error = acl__context_need(&context);
    if (error == ACL_SUCCESS) {
        error = create_locked(poolProps, memPool);
    }
    acl__unlock();
    return error;
}

/* Returns all memory of a pool and deletes it. Returns false if the device refused some memory; the pool then stays. */
static bool pool_end(pool *p, patience how)
{
    const choice anything = {0, 0, NULL, how};
    (void)release(p, p->reserved, &anything);
    for (segment *s = first_segment(p); s != NULL; s = next_segment(s)) {
        if (s->state == BUSY) {
            free_now(p, s);
            s = first_segment(p); /* restart: the segment may have merged with its neighbours */
        }
    }
    /* The caller gives up blocks with unfinished work. */
    for (segment *s = first_segment(p); s != NULL; s = next_segment(s)) {
        (void)pages_empty(p, s, s->range.start, s->range.end);
        drop_stamps(s);
        s->state = FREE;
        s = coalesce(p, s);
    }
    p->cached = 0;
    if (p->reserved > 0) {
        return false;
    }
    for (span *in = p->spans; in != NULL; in = p->spans) {
        if (weir_device_vm_release(acl__rt.memory, in->start, in->size) != WEIR_OK) {
            return false;
        }
        acl__range_remove(&acl__rt.device_memory, in->range);
        segment_delete(p, segment_at(p, in->start));
        p->spans = in->next;
        free(in);
    }
    p->live = false;
    *(p->previous != NULL ? &p->previous->next : &first_pool) = p->next;
    if (p->next != NULL) {
        p->next->previous = p->previous;
    }
    weir__sim_slab_put(&pools_slab, p);
    return true;
}

static aclError destroy_locked(pool *p)
{
    if (p->blocks > 0) {
        if (acl__rt.config.strict) {
            return acl__fail(ACL_ERROR_RT_INTERNAL_ERROR, "aclrtMemPoolDestroy: %llu blocks are in use",
                             (unsigned long long)p->blocks);
        }
        acl__report_warning("a memory pool was destroyed with blocks of it in use");
    }
    return pool_end(p, WAIT) ? ACL_SUCCESS
                             : acl__fail(ACL_ERROR_RT_INTERNAL_ERROR,
                                         "aclrtMemPoolDestroy: the device did not take all memory back; try again");
}

ACL_EXPORT aclError aclrtMemPoolDestroy(const aclrtMemPool memPool)
{
    ACL_ENTER(aclrtMemPoolDestroy);
    if (memPool == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtMemPoolDestroy: NULL");
    }
    acl__lock();
    pool *p = pool_of(memPool);
    const aclError error =
        p != NULL ? destroy_locked(p) : no_pool("aclrtMemPoolDestroy", ACL_ERROR_RT_INTERNAL_ERROR, memPool);
    acl__unlock();
    return error;
}

void acl__soma_reset(int32_t device)
{
    for (pool *p = first_pool; p != NULL;) {
        pool *next = p->next;
        if (p->device == device) {
            (void)pool_end(p, LOOK);
        }
        p = next;
    }
}

static aclError trim_locked(pool *p, uint64_t keep)
{
    if (keep > p->most || keep < p->used) {
        return acl__fail(ACL_ERROR_RT_INTERNAL_ERROR,
                         "aclrtMemPoolTrimTo: %llu is not between the %llu bytes in use and the pool's %llu",
                         (unsigned long long)keep, (unsigned long long)p->used, (unsigned long long)p->most);
    }
    const choice anything = {0, 0, NULL, WAIT};
    if (keep < p->reserved) {
        tidy(p);
        release_leftovers(p);
    }
    if (keep < p->reserved) {
        (void)release(p, p->reserved - keep, &anything);
    }
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMemPoolTrimTo(aclrtMemPool memPool, size_t minBytesToKeep)
{
    ACL_ENTER(aclrtMemPoolTrimTo);
    if (memPool == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtMemPoolTrimTo: NULL");
    }
    acl__lock();
    pool *p = pool_of(memPool);
    const aclError error = p != NULL ? trim_locked(p, minBytesToKeep)
                                     : no_pool("aclrtMemPoolTrimTo", ACL_ERROR_RT_INTERNAL_ERROR, memPool);
    acl__unlock();
    return error;
}

/* --- attributes: switches have 32 bits, byte counts 64 --- */

static uint32_t *switch_of(pool *p, aclrtMemPoolAttr attr)
{
    switch (attr) {
    case ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        return &p->follow_events;
    case ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC:
        return &p->opportunistic;
    case ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        return &p->internal;
    default:
        return NULL;
    }
}

static uint64_t *number_of(pool *p, aclrtMemPoolAttr attr)
{
    switch (attr) {
    case ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD:
        return &p->threshold;
    case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT:
        return &p->reserved;
    case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH:
        return &p->reserved_high;
    case ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT:
        return &p->used;
    case ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH:
        return &p->used_high;
    default:
        return NULL;
    }
}

static aclError no_attribute(const char *name, aclrtMemPoolAttr attr)
{
    return acl__fail(ACL_ERROR_RT_INTERNAL_ERROR, "%s: there is no attribute %d", name, (int)attr);
}

static aclError set_number(pool *p, aclrtMemPoolAttr attr, uint64_t value)
{
    if (attr == ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD) {
        if (acl__rt.config.strict && value > p->most) {
            return acl__fail(ACL_ERROR_RT_INTERNAL_ERROR,
                             "aclrtMemPoolSetAttr: the threshold is above the pool's size");
        }
        p->threshold = value;
        return ACL_SUCCESS;
    }
    if (value != 0) {
        return acl__fail(ACL_ERROR_RT_INTERNAL_ERROR, "aclrtMemPoolSetAttr: a highest value can only be reset, with 0");
    }
    if (attr == ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH) {
        p->reserved_high = p->reserved;
    } else {
        p->used_high = p->used;
    }
    return ACL_SUCCESS;
}

static aclError set_locked(pool *p, aclrtMemPoolAttr attr, const void *value)
{
    if (attr == ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT || attr == ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemPoolSetAttr: attribute %d can only be read", (int)attr);
    }
    uint32_t *chosen = switch_of(p, attr);
    if (chosen != NULL) {
        uint32_t on = 0;
        memcpy(&on, value, sizeof(on));
        *chosen = on != 0;
        return ACL_SUCCESS;
    }
    if (number_of(p, attr) == NULL) {
        return no_attribute("aclrtMemPoolSetAttr", attr);
    }
    uint64_t number = 0;
    memcpy(&number, value, sizeof(number));
    return set_number(p, attr, number);
}

static aclError get_locked(pool *p, aclrtMemPoolAttr attr, void *value)
{
    const uint32_t *chosen = switch_of(p, attr);
    const uint64_t *number = number_of(p, attr);
    if (chosen == NULL && number == NULL) {
        return no_attribute("aclrtMemPoolGetAttr", attr);
    }
    memcpy(value, chosen != NULL ? (const void *)chosen : (const void *)number,
           chosen != NULL ? sizeof(*chosen) : sizeof(*number));
    return ACL_SUCCESS;
}

/* Common start of both functions: checks the arguments and finds the pool. On success the lock is held. */
static aclError attribute_begin(aclrtMemPool handle, const void *value, const char *name, pool **p)
{
    if (handle == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "%s: memPool is NULL", name);
    }
    if (value == NULL) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: value is NULL", name);
    }
    acl__lock();
    *p = pool_of(handle);
    if (*p == NULL) {
        acl__unlock();
        return no_pool(name, ACL_ERROR_RT_PARAM_INVALID, handle);
    }
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMemPoolSetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value)
{
    ACL_ENTER(aclrtMemPoolSetAttr);
    pool *p = NULL;
    aclError error = attribute_begin(memPool, value, "aclrtMemPoolSetAttr", &p);
    if (error == ACL_SUCCESS) {
        error = set_locked(p, attr, value);
        acl__unlock();
    }
    return error;
}

ACL_EXPORT aclError aclrtMemPoolGetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value)
{
    ACL_ENTER(aclrtMemPoolGetAttr);
    pool *p = NULL;
    aclError error = attribute_begin(memPool, value, "aclrtMemPoolGetAttr", &p);
    if (error == ACL_SUCCESS) {
        error = get_locked(p, attr, value);
        acl__unlock();
    }
    return error;
}
