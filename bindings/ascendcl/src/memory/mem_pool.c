/* mem_pool.c: aclrtMemPool, stream-ordered memory pools.
 *
 * Idea: a pool has addresses for its largest size and maps memory there in pages of 2 MiB. The addresses are cut into
 * segments, ordered by address: FREE ones have no memory, CACHED ones were freed, BUSY ones are allocated. A CACHED
 * segment carries at most two stamps (order.h): the free, and the allocation if another stream freed the segment
 * without being ordered after it. Adjacent segments with equal stamps are one segment.
 *
 * A request tries the kinds of reuse in the documentation's order (own stream, events, opportunistic, internal), and
 * takes the smallest segment of a kind that is large enough. If there is none, the smallest FREE segment that is large
 * enough gets new memory. If that fails, the pool returns the idle memory that no unfinished work touches, and tries
 * once more.
 *
 * Guarantee: memory goes to a stream only when all work that may touch it is ordered before, or is made so by a wait.
 * reserved = pages with memory * 2 MiB = BUSY + CACHED + pages that the device refused to take back. A call that fails
 * has changed only which idle memory is mapped.
 *
 * Cost: O(segments) for a request, and for a synchronisation; device calls for each page that comes or goes.
 */
#include "base/report.h"
#include "memory/order.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = ACL__HUGE_PAGE, STAMPS = 2 };

typedef enum segment_state { FREE, CACHED, BUSY } segment_state;

struct page {
    weir_vm_handle memory; /* 0: none */
    bool mapped; /* false although `memory` is not 0: the device refused to map this memory or to take it back */
};

struct segment {
    weir__interval range; /* first member */
    segment_state state;
    uint64_t asked;  /* BUSY: bytes that the caller requested */
    acl__stamp made; /* BUSY: stamp of the allocation */
    acl__stamp stamps[STAMPS];
    uint32_t stamp_count;
};

struct pool {
    void *link; /* used by the slab */
    struct pool *next;
    struct pool *previous;
    bool live;
    int32_t device;
    uint64_t most; /* limit of reserved bytes */
    uint64_t reserved;
    uint64_t reserved_high;
    uint64_t used; /* bytes in BUSY segments */
    uint64_t used_high;
    uint64_t cached; /* bytes in CACHED segments */
    uint64_t blocks; /* number of BUSY segments */
    uint64_t threshold;
    uint32_t follow_events;
    uint32_t opportunistic;
    uint32_t internal;
    acl__range *range;  /* the pool's addresses, in the set of device memory */
    struct page *pages; /* one entry for each page of the pool's addresses */
    weir__intervals segments;
};

/* The kinds of reuse of freed memory, in the order in which a request tries them. */
typedef enum reuse { OWN, BY_EVENT, OPPORTUNISTIC, INTERNAL, REUSES } reuse;

static weir__slab pools_slab = WEIR__SLAB_INIT(struct pool, 0, 8);
static weir__slab segments_slab = WEIR__SLAB_INIT(struct segment, 0, 64);
static struct pool *first_pool;

static uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

static uint64_t size_of(const struct segment *s)
{
    return s->range.end - s->range.start;
}

/* Rounds a size up to whole pages; 0: too large. */
static uint64_t in_pages(uint64_t size)
{
    return size > UINT64_MAX - PAGE ? 0 : (size + PAGE - 1) / PAGE * PAGE;
}

/* --- segments --- */

static struct segment *first_segment(const struct pool *p)
{
    return (struct segment *)(void *)weir__intervals_first(&p->segments);
}

static struct segment *next_segment(const struct segment *s)
{
    return (struct segment *)(void *)weir__intervals_next(&s->range);
}

static struct segment *previous_segment(const struct segment *s)
{
    return (struct segment *)(void *)weir__intervals_previous(&s->range);
}

static struct segment *segment_at(const struct pool *p, uint64_t address)
{
    weir__interval *r = weir__intervals_floor(&p->segments, address);
    return r != NULL && r->end > address ? (struct segment *)(void *)r : NULL;
}

static void drop_stamps(struct segment *s)
{
    WEIR_ASSERT(s->stamp_count <= STAMPS);
    while (s->stamp_count > 0) {
        acl__stamp_drop(&s->stamps[--s->stamp_count]);
    }
}

static void segment_delete(struct pool *p, struct segment *s)
{
    WEIR_ASSERT(s->state != BUSY);
    drop_stamps(s);
    acl__stamp_drop(&s->made);
    weir__intervals_remove(&p->segments, &s->range);
    weir__slab_put(&segments_slab, s);
}

/* Drops the stamps (records of a stream's last use of a segment) that the host has seen complete. */
static void tidy_stamps(struct segment *s)
{
    WEIR_ASSERT_HELD(acl__mutex());
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

static bool can_join(const struct segment *a, const struct segment *b)
{
    return a != NULL && b != NULL && a->range.end == b->range.start && a->state == b->state && a->state != BUSY &&
           a->stamp_count == b->stamp_count && a->stamp_count < 2 &&
           (a->stamp_count == 0 || a->stamps[0].serial == b->stamps[0].serial);
}

/* Merges segment b, which begins where a ends, into a. If each has a stamp of its last use, the later stamp stays. */
static void join(struct pool *p, struct segment *a, struct segment *b)
{
    WEIR_ASSERT(can_join(a, b));
    if (a->stamp_count == 1 && b->stamps[0].tick > a->stamps[0].tick) {
        const acl__stamp later = a->stamps[0];
        a->stamps[0] = b->stamps[0];
        b->stamps[0] = later;
    }
    const uint64_t end = b->range.end;
    segment_delete(p, b);
    a->range.end = end;
    weir__intervals_resized(&a->range);
}

/* Merges a segment with its neighbours where can_join allows it. Returns the merged segment. */
static struct segment *coalesce(struct pool *p, struct segment *s)
{
    WEIR_ASSERT(s->state != BUSY);
    struct segment *before = previous_segment(s);
    if (can_join(before, s)) {
        join(p, before, s);
        s = before;
    }
    struct segment *after = next_segment(s);
    if (can_join(s, after)) {
        join(p, s, after);
    }
    return s;
}

static struct segment *segment_add(struct pool *p, uint64_t start, uint64_t end, segment_state state)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(start < end && start % PAGE == 0 && end % PAGE == 0);
    struct segment *s = weir__slab_get(&segments_slab);
    if (s != NULL) {
        memset(s, 0, sizeof(*s));
        s->range.start = start;
        s->range.end = end;
        s->state = state;
        weir__intervals_insert(&p->segments, &s->range);
    }
    return s;
}

/* Cuts a segment in two at an address inside it. Returns the upper part; NULL: out of host memory. */
static struct segment *split(struct pool *p, struct segment *s, uint64_t at)
{
    WEIR_ASSERT(s->state != BUSY);
    WEIR_ASSERT(at > s->range.start && at < s->range.end && at % PAGE == 0);
    const uint64_t end = s->range.end;
    s->range.end = at;
    weir__intervals_resized(&s->range);
    struct segment *upper = segment_add(p, at, end, s->state);
    if (upper == NULL) {
        s->range.end = end;
        weir__intervals_resized(&s->range);
        return NULL;
    }
    for (uint32_t i = 0; i < s->stamp_count; i++) {
        upper->stamps[upper->stamp_count++] = acl__stamp_copy(&s->stamps[i]);
    }
    return upper;
}

/* Proves the invariants of a pool: its segments cover its addresses, and the counters are their sums. */
static bool pool_is_sound(const struct pool *p)
{
    uint64_t at = p->range->range.start;
    uint64_t used = 0;
    uint64_t cached = 0;
    uint64_t blocks = 0;
    for (const struct segment *s = first_segment(p); s != NULL; s = next_segment(s)) {
        if (s->range.start != at || s->stamp_count > STAMPS || (s->state != CACHED && s->stamp_count > 0)) {
            return false;
        }
        at = s->range.end;
        used += s->state == BUSY ? size_of(s) : 0;
        cached += s->state == CACHED ? size_of(s) : 0;
        blocks += s->state == BUSY;
    }
    return at == p->range->range.end && used == p->used && cached == p->cached && blocks == p->blocks &&
           p->reserved >= used + cached;
}

/* --- pages --- */

static struct page *page_at(const struct pool *p, uint64_t address)
{
    WEIR_ASSERT(address >= p->range->range.start && address < p->range->range.end);
    WEIR_ASSERT(address % PAGE == 0);
    return &p->pages[(address - p->range->range.start) / PAGE];
}

/* Gives one page mapped memory. */
static weir_status page_fill(struct pool *p, struct page *at, uint64_t address)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(!at->mapped || at->memory != 0);
    weir_status status = WEIR_OK;
    if (at->memory == 0) {
        if (!acl__capacity_take(p->device, PAGE, true)) {
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

/* Gives a page's memory back to the device. If the device refuses, the memory counts as reserved until the device takes
 * it back. */
static void page_empty(struct pool *p, struct page *at, uint64_t address)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(!at->mapped || at->memory != 0);
    WEIR_ASSERT(at->memory == 0 || p->reserved >= PAGE);
    if (at->mapped) {
        at->mapped = weir_device_vm_unmap(acl__rt.memory, address, PAGE) != WEIR_OK;
    }
    if (!at->mapped && at->memory != 0 && weir_device_vm_destroy(acl__rt.memory, at->memory) == WEIR_OK) {
        at->memory = 0;
        p->reserved -= PAGE;
        acl__capacity_give(p->device, PAGE, true);
    }
}

static void pages_empty(struct pool *p, uint64_t start, uint64_t end)
{
    for (uint64_t at = start; at < end; at += PAGE) {
        page_empty(p, page_at(p, at), at);
    }
}

/* Maps memory into all pages of a FREE segment. On failure gives that memory back, except for memory that the device
 * then refuses to take. */
static weir_status pages_fill(struct pool *p, const struct segment *s)
{
    WEIR_ASSERT(s->state == FREE);
    for (uint64_t at = s->range.start; at < s->range.end; at += PAGE) {
        const weir_status status = page_fill(p, page_at(p, at), at);
        if (status != WEIR_OK) {
            pages_empty(p, s->range.start, at + PAGE);
            return status;
        }
    }
    return WEIR_OK;
}

/* --- returning memory to the device --- */

typedef enum wait_policy { LOOK, WAIT } wait_policy;

/* True if all work that may touch a segment is complete. If so, the work also counts as seen by the host. */
static bool is_over(struct segment *s, wait_policy how)
{
    WEIR_ASSERT(s->state == CACHED);
    tidy_stamps(s);
    for (uint32_t i = 0; i < s->stamp_count; i++) {
        if (how == WAIT ? !acl__stamp_await(&s->stamps[i]) : !acl__stamp_look(&s->stamps[i])) {
            return false;
        }
    }
    tidy_stamps(s);
    return true;
}

/* Gives at most `bytes` of memory at the upper end of a segment back to the device. Returns the bytes given back. */
static uint64_t release_from(struct pool *p, struct segment *s, uint64_t bytes)
{
    WEIR_ASSERT(s->state == CACHED && p->cached >= size_of(s));
    WEIR_ASSERT(bytes > 0 && bytes % PAGE == 0);
    struct segment *gone = s;
    if (size_of(s) > bytes) {
        gone = split(p, s, s->range.end - bytes);
        if (gone == NULL) {
            return 0;
        }
    }
    const uint64_t before = p->reserved;
    pages_empty(p, gone->range.start, gone->range.end);
    drop_stamps(gone);
    gone->state = FREE;
    p->cached -= size_of(gone);
    (void)coalesce(p, gone);
    return before - p->reserved;
}

/* Tries again to give the memory back that the device has refused to take. */
static void release_leftovers(struct pool *p)
{
    const bool any = p->reserved > p->used + p->cached;
    for (struct segment *s = any ? first_segment(p) : NULL; s != NULL; s = next_segment(s)) {
        if (s->state == FREE) {
            pages_empty(p, s->range.start, s->range.end);
        }
    }
}

static uint64_t idle_bytes(const struct pool *p)
{
    WEIR_ASSERT(p->reserved >= p->used + p->cached);
    return p->reserved - p->used;
}

/* Gives at most `bytes` of idle memory whose work is complete back to the device, from the highest address down.
 * Returns the bytes given back. */
static uint64_t release(struct pool *p, uint64_t bytes, wait_policy how)
{
    WEIR_ASSERT_HELD(acl__mutex());
    uint64_t released = 0;
    uint64_t below = UINT64_MAX;
    bytes -= bytes % PAGE;
    while (released < bytes) {
        struct segment *s = (struct segment *)(void *)weir__intervals_floor(&p->segments, below);
        if (s == NULL) {
            break;
        }
        below = s->range.start - 1;
        if (s->state == CACHED && is_over(s, how)) {
            released += release_from(p, s, bytes - released);
        }
    }
    return released;
}

/* --- reuse --- */

/* True if all work that may touch the segment is the stream's own. With `events`, work of other streams is accepted
 * too, if waits order it before the stream's next work. */
static bool is_for(const struct segment *s, const acl__line *line, bool events)
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

static bool fits_kind(const struct pool *p, struct segment *s, const acl__line *line, reuse kind)
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

static bool wait_for(struct segment *s, acl__line *line)
{
    WEIR_ASSERT(s->state == CACHED);
    for (uint32_t i = 0; i < s->stamp_count; i++) {
        if (!acl__stamp_join(&s->stamps[i], line)) {
            return false;
        }
    }
    return true;
}

/* Returns the smallest segment of at least `size` bytes that is FREE, or that is CACHED and allowed by the kind of
 * reuse. Of equal segments it returns the one with the lowest address. Returns NULL if there is none. */
static struct segment *best_fit(const struct pool *p, uint64_t size, segment_state state, const acl__line *line,
                                reuse kind)
{
    struct segment *best = NULL;
    for (struct segment *s = first_segment(p); s != NULL; s = next_segment(s)) {
        if (s->state == state && size_of(s) >= size && (best == NULL || size_of(s) < size_of(best)) &&
            (state == FREE || fits_kind(p, s, line, kind))) {
            best = s;
        }
    }
    return best;
}

/* Cuts a segment down to `size`. Returns false when out of host memory. */
static bool cut_to(struct pool *p, struct segment *s, uint64_t size)
{
    WEIR_ASSERT(size_of(s) >= size);
    return size_of(s) == size || split(p, s, s->range.start + size) != NULL;
}

/* Returns a CACHED segment of exactly `size` bytes that later work of the stream may use, or NULL if there is none. */
static struct segment *take_cached(struct pool *p, uint64_t size, acl__line *line)
{
    WEIR_ASSERT(size > 0 && size % PAGE == 0);
    for (reuse kind = OWN; kind < REUSES && acl__rt.config.reuse_pools; kind++) {
        struct segment *s = best_fit(p, size, CACHED, line, kind);
        if (s != NULL && (kind != INTERNAL || wait_for(s, line))) {
            return cut_to(p, s, size) ? s : NULL;
        }
    }
    return NULL;
}

/* Maps new memory into a FREE segment, which becomes CACHED and has exactly `size` bytes. Returns NULL if there are no
 * addresses or no memory. */
static struct segment *take_new(struct pool *p, uint64_t size)
{
    struct segment *s = best_fit(p, size, FREE, NULL, OWN);
    if (s == NULL || !cut_to(p, s, size)) {
        return NULL;
    }
    if (pages_fill(p, s) != WEIR_OK) {
        (void)coalesce(p, s);
        return NULL;
    }
    s->state = CACHED;
    p->cached += size;
    p->reserved_high = p->reserved > p->reserved_high ? p->reserved : p->reserved_high;
    return s;
}

/* Returns a CACHED segment of exactly `size` bytes that the stream may use at once, or NULL if there is none. */
static struct segment *obtain(struct pool *p, uint64_t size, acl__line *line)
{
    struct segment *s = take_cached(p, size, line);
    s = s != NULL ? s : take_new(p, size);
    const bool again = s == NULL && acl__rt.config.reuse_pools && release(p, p->cached, LOOK) > 0;
    return again ? take_new(p, size) : s;
}

/* --- tasks that tell the auditor of allocated and freed blocks, in the order of the stream --- */

struct notice {
    acl__task task; /* first member */
    uint64_t address;
    uint64_t size; /* 0: a free */
};

static aclError notice_submit(acl__stream *stream, acl__task *task)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const struct notice *n = (struct notice *)(void *)task;
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

static aclError announce(acl__stream *stream, uint64_t address, uint64_t size)
{
    WEIR_ASSERT_HELD(acl__mutex());
    struct notice *n = malloc(sizeof(*n));
    ACL_FAIL_IF(n == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "a memory pool: no host memory");
    *n = (struct notice){.task = {.ops = &notice_ops}, .address = address, .size = size};
    return acl__queue(stream, &n->task);
}

/* --- blocks --- */

static aclError pool_of(aclrtMemPool handle, const char *name, aclError code, struct pool **p)
{
    WEIR_ASSERT_HELD(acl__mutex());
    *p = handle;
    ACL_FAIL_IF(!weir__slab_owns(&pools_slab, handle) || !(*p)->live, code, "%s: %p is no memory pool", name, handle);
    return ACL_SUCCESS;
}

static aclError malloc_locked(struct pool *p, uint64_t asked, acl__stream *stream, void **pointer)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const uint64_t size = in_pages(asked);
    ACL_FAIL_IF(size == 0, ACL_ERROR_RT_PARAM_INVALID, "aclrtMemPoolMallocAsync: %llu bytes overflow when rounded up",
                (unsigned long long)asked);
    acl__line *line = acl__line_of(stream);
    struct segment *s = line != NULL ? obtain(p, size, line) : NULL;
    ACL_FAIL_IF(s == NULL, ACL_ERROR_RT_INTERNAL_ERROR,
                "aclrtMemPoolMallocAsync: memory pool exhausted: %llu bytes asked, %llu of at most %llu reserved, "
                "%llu of them in use",
                (unsigned long long)asked, (unsigned long long)p->reserved, (unsigned long long)p->most,
                (unsigned long long)p->used);
    const aclError error = announce(stream, s->range.start, asked);
    WEIR_ASSERT(s->state == CACHED && size_of(s) == size && p->cached >= size);
    drop_stamps(s);
    if (error != ACL_SUCCESS) {
        /* The segment counts as allocated and freed on the stream, although the request failed. */
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
    WEIR_ASSERT_THOROUGH(pool_is_sound(p));
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMemPoolMallocAsync(void **ptr, size_t size, aclrtMemPool memPool, aclrtStream stream_handle)
{
    ACL_ENTER_LOCKED(aclrtMemPoolMallocAsync);
    ACL_NEED(ptr);
    ACL_NEED(memPool);
    ACL_REFUSE_IF(stream_handle == NULL, ACL_ERROR_INVALID_PARAM, "the stream is NULL");
    if (size == 0) {
        return ACL_SUCCESS;
    }
    struct pool *p = NULL;
    ACL_NEED_STREAM(stream, stream_handle);
    ACL_TRY(pool_of(memPool, __func__, ACL_ERROR_RT_INTERNAL_ERROR, &p));
    ACL_REFUSE_IF(stream->leg != NULL, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "not simulated on a captured stream");
    ACL_REFUSE_IF(p->device != stream->context->device, ACL_ERROR_RT_PARAM_INVALID,
                  "the pool is of device %d, the stream of device %d", p->device, stream->context->device);
    return malloc_locked(p, size, stream, ptr);
}

/* Returns the BUSY segment at an address, or NULL. *in becomes the pool that has the address, or NULL if no pool has
 * it. */
static struct segment *busy_at(const void *pointer, struct pool **in)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const acl__range *range = acl__range_at(&acl__rt.device_memory, pointer);
    *in = range != NULL && range->kind == ACL__POOLED ? range->owner : NULL;
    struct segment *s = *in != NULL ? segment_at(*in, address_of(pointer)) : NULL;
    return s != NULL && s->state == BUSY ? s : NULL;
}

static void make_cached(struct pool *p, struct segment *s)
{
    WEIR_ASSERT(s->state == BUSY && p->blocks > 0 && p->used >= size_of(s));
    acl__stamp_drop(&s->made);
    s->state = CACHED;
    p->used -= size_of(s);
    p->cached += size_of(s);
    p->blocks--;
    (void)coalesce(p, s);
    WEIR_ASSERT_THOROUGH(pool_is_sound(p));
}

/* --- memory that belongs to no pool: freed when the stream reaches the free, before any later work --- */

struct late_free {
    acl__task task; /* first member */
    void *pointer;
};

static aclError late_free_submit(acl__stream *stream, acl__task *task)
{
    WEIR_ASSERT_HELD(acl__mutex());
    if (!acl__has_arrived(stream)) {
        return ACL__HELD;
    }
    void *pointer = ((struct late_free *)(void *)task)->pointer;
    const acl__range *range = acl__range_at(&acl__rt.device_memory, pointer);
    /* Since the call of aclrtMemPoolFreeAsync, the address may have become a pool's. A pool's memory is not freed here,
     * because this task may run during an operation of that pool. */
    if (range != NULL && range->kind != ACL__POOLED) {
        acl__host_saw(stream);
        (void)acl__free(pointer); /* the program's call has returned already, so an error cannot be reported */
    }
    return ACL_SUCCESS;
}

static const acl__task_ops late_free_ops = {.submit = late_free_submit, .end = task_free};

static aclError free_later(void *pointer, acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const acl__range *range = acl__range_at(&acl__rt.device_memory, pointer);
    ACL_FAIL_IF(acl__rt.config.strict &&
                    (range == NULL || range->kind != ACL__ALLOCATED || range->range.start != address_of(pointer)),
                ACL_ERROR_RT_PARAM_INVALID, "aclrtMemPoolFreeAsync: %p is no allocation", pointer);
    ACL_TRY(acl__engine_need());
    struct late_free *f = malloc(sizeof(*f));
    ACL_FAIL_IF(f == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMemPoolFreeAsync: no host memory");
    *f = (struct late_free){.task = {.ops = &late_free_ops}, .pointer = pointer};
    return acl__queue(stream, &f->task);
}

ACL_EXPORT aclError aclrtMemPoolFreeAsync(void *ptr, aclrtStream stream_handle)
{
    ACL_ENTER_LOCKED(aclrtMemPoolFreeAsync);
    ACL_NEED(ptr);
    ACL_NEED_STREAM(stream, stream_handle);
    ACL_REFUSE_IF(stream->leg != NULL, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "not simulated on a captured stream");
    struct pool *p = NULL;
    struct segment *s = busy_at(ptr, &p);
    if (p == NULL) {
        return free_later(ptr, stream);
    }
    ACL_REFUSE_IF(s == NULL || s->range.start != address_of(ptr), ACL_ERROR_RT_PARAM_INVALID,
                  "%p is no block of its pool, or was freed", ptr);
    acl__line *line = acl__line_of(stream);
    ACL_REFUSE_IF(line == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory");
    ACL_TRY(announce(stream, s->range.start, 0));
    WEIR_ASSERT(s->stamp_count == 0);
    if (!acl__stamp_is_before(&s->made, line)) {
        s->stamps[s->stamp_count++] = acl__stamp_copy(&s->made);
    }
    s->stamps[s->stamp_count++] = acl__stamp_make(line, p->opportunistic != 0 || p->internal != 0);
    make_cached(p, s);
    return ACL_SUCCESS;
}

/* Frees a block at once: the caller asserts that no work touches the block any more. */
static void free_now(struct pool *p, struct segment *s)
{
    WEIR_ASSERT_HELD(acl__mutex());
    weir_sim_block_free(acl__rt.sim, s->range.start, NULL, "aclrtFree");
    make_cached(p, s);
}

bool acl__mem_pool_free_now(void *pointer, aclError *error)
{
    struct pool *p = NULL;
    struct segment *s = busy_at(pointer, &p);
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

bool acl__mem_pool_block_at(const void *pointer, uint64_t *start, uint64_t *size)
{
    struct pool *p = NULL;
    const struct segment *s = busy_at(pointer, &p);
    if (s == NULL || address_of(pointer) - s->range.start >= s->asked) {
        return false;
    }
    *start = s->range.start;
    *size = s->asked;
    return true;
}

/* --- synchronisation --- */

/* Merges segments that can be joined by now. */
static void tidy(struct pool *p)
{
    for (struct segment *s = first_segment(p); s != NULL; s = next_segment(s)) {
        if (s->state == CACHED) {
            tidy_stamps(s);
            s = coalesce(p, s);
        }
    }
}

/* Called when a stream was synchronised, even if the result is an error: pools then give memory above their release
 * threshold back to the device. */
static void synced(acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    (void)stream;
    for (struct pool *p = first_pool; p != NULL; p = p->next) {
        tidy(p);
        if (idle_bytes(p) > p->threshold) {
            release_leftovers(p);
        }
        if (idle_bytes(p) > p->threshold) {
            (void)release(p, idle_bytes(p) - p->threshold, LOOK);
        }
    }
}

/* Until a pool is created, no order between streams is recorded. */
static void hear_of_order(void)
{
    acl__rt.above.synced = synced;
    acl__order_begin();
}

/* --- pools --- */

static weir_status addresses_reserve(struct pool *p)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(p->most > 0 && p->most % PAGE == 0);
    uint64_t start = 0;
    p->pages = calloc(p->most / PAGE, sizeof(*p->pages));
    weir_status status =
        p->pages != NULL ? weir_device_vm_reserve(acl__rt.memory, p->most, &start) : WEIR_ERR_NO_MEMORY;
    if (status == WEIR_OK) {
        p->range = acl__range_add(&acl__rt.device_memory, ACL__POOLED, start, p->most);
        if (p->range != NULL && segment_add(p, start, start + p->most, FREE) != NULL) {
            p->range->device = p->device;
            p->range->huge = true;
            p->range->owner = p;
            return WEIR_OK;
        }
        if (p->range != NULL) {
            acl__range_remove(&acl__rt.device_memory, p->range);
        }
        (void)weir_device_vm_release(acl__rt.memory, start, p->most);
        status = WEIR_ERR_NO_MEMORY;
    }
    free(p->pages);
    return status;
}

ACL_EXPORT aclError aclrtMemPoolCreate(aclrtMemPool *memPool, const aclrtMemPoolProps *poolProps)
{
    ACL_ENTER_LOCKED(aclrtMemPoolCreate);
    ACL_NEED(memPool);
    ACL_NEED(poolProps);
    static const unsigned char zero[sizeof(poolProps->reserved)];
    ACL_REFUSE_IF(poolProps->allocType != ACL_MEM_ALLOCATION_TYPE_PINNED ||
                      poolProps->location.type != ACL_MEM_LOCATION_TYPE_DEVICE ||
                      memcmp(poolProps->reserved, zero, sizeof(zero)) != 0,
                  ACL_ERROR_INVALID_PARAM, "only pinned memory, on a device, with the reserved bytes zero");
    ACL_REFUSE_IF(poolProps->location.id >= acl__rt.config.devices, ACL_ERROR_RT_INVALID_DEVICEID,
                  "there is no device %u", poolProps->location.id);
    ACL_NEED_CONTEXT(context);
    const uint64_t total = acl__rt.config.capacity_bytes;
    const uint64_t most = poolProps->maxSize != 0 ? in_pages(poolProps->maxSize) : total / PAGE * PAGE;
    ACL_REFUSE_IF(most == 0 || most > total, ACL_ERROR_RT_PARAM_INVALID, "a size of %zu is more than the device's %llu",
                  poolProps->maxSize, (unsigned long long)total);
    struct pool *p = weir__slab_get(&pools_slab);
    ACL_REFUSE_IF(p == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory");
    memset(p, 0, sizeof(*p));
    p->device = (int32_t)poolProps->location.id;
    p->most = most;
    const weir_status status = addresses_reserve(p);
    if (status != WEIR_OK) {
        weir__slab_put(&pools_slab, p);
        return acl__status(status, __func__);
    }
    p->live = true;
    ACL_LIST_ADD(first_pool, p);
    hear_of_order();
    *memPool = p;
    return ACL_SUCCESS;
}

/* Gives back all memory of a pool and deletes it. Returns false if the device refused some memory; the pool then
 * stays. */
static bool pool_end(struct pool *p, wait_policy how)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(p->live);
    (void)release(p, p->reserved, how);
    for (struct segment *s = first_segment(p); s != NULL; s = next_segment(s)) {
        if (s->state == BUSY) {
            free_now(p, s);
            s = first_segment(p); /* start again: the freed segment may have merged with its neighbours */
        }
    }
    /* Queued work may still use a block: a caller that destroys the pool gives all its blocks up. */
    for (struct segment *s = first_segment(p); s != NULL; s = next_segment(s)) {
        pages_empty(p, s->range.start, s->range.end);
        drop_stamps(s);
        s->state = FREE;
        s = coalesce(p, s);
    }
    p->cached = 0;
    if (p->reserved > 0) {
        return false;
    }
    if (weir_device_vm_release(acl__rt.memory, p->range->range.start, p->most) != WEIR_OK) {
        return false;
    }
    WEIR_ASSERT(p->used == 0 && p->blocks == 0);
    WEIR_ASSERT(size_of(first_segment(p)) == p->most);
    segment_delete(p, first_segment(p));
    acl__range_remove(&acl__rt.device_memory, p->range);
    free(p->pages);
    p->live = false;
    ACL_LIST_REMOVE(first_pool, p);
    weir__slab_put(&pools_slab, p);
    return true;
}

ACL_EXPORT aclError aclrtMemPoolDestroy(const aclrtMemPool memPool)
{
    ACL_ENTER_LOCKED(aclrtMemPoolDestroy);
    ACL_NEED(memPool);
    struct pool *p = NULL;
    ACL_TRY(pool_of(memPool, __func__, ACL_ERROR_RT_INTERNAL_ERROR, &p));
    if (p->blocks > 0) {
        ACL_REFUSE_IF(acl__rt.config.strict, ACL_ERROR_RT_INTERNAL_ERROR, "%llu blocks are in use",
                      (unsigned long long)p->blocks);
        acl__report_warning("a memory pool was destroyed with blocks of it in use");
    }
    ACL_REFUSE_IF(!pool_end(p, WAIT), ACL_ERROR_RT_INTERNAL_ERROR,
                  "the device did not take all memory back; try again");
    return ACL_SUCCESS;
}

void acl__mem_pool_reset(int32_t device)
{
    WEIR_ASSERT_HELD(acl__mutex());
    for (struct pool *p = first_pool; p != NULL;) {
        struct pool *next = p->next;
        if (p->device == device) {
            (void)pool_end(p, LOOK);
        }
        p = next;
    }
}

ACL_EXPORT aclError aclrtMemPoolTrimTo(aclrtMemPool memPool, size_t minBytesToKeep)
{
    ACL_ENTER_LOCKED(aclrtMemPoolTrimTo);
    ACL_NEED(memPool);
    struct pool *p = NULL;
    ACL_TRY(pool_of(memPool, __func__, ACL_ERROR_RT_INTERNAL_ERROR, &p));
    ACL_REFUSE_IF(minBytesToKeep > p->most || minBytesToKeep < p->used, ACL_ERROR_RT_INTERNAL_ERROR,
                  "%zu is not between the %llu bytes in use and the pool's %llu", minBytesToKeep,
                  (unsigned long long)p->used, (unsigned long long)p->most);
    if (minBytesToKeep < p->reserved) {
        tidy(p);
        release_leftovers(p);
    }
    if (minBytesToKeep < p->reserved) {
        (void)release(p, p->reserved - minBytesToKeep, WAIT);
    }
    return ACL_SUCCESS;
}

/* --- attributes: switches have 32 bits, byte counts 64 --- */

static uint32_t *switch_of(struct pool *p, aclrtMemPoolAttr attr)
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

static uint64_t *number_of(struct pool *p, aclrtMemPoolAttr attr)
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

static aclError set_number(struct pool *p, aclrtMemPoolAttr attr, uint64_t value)
{
    if (attr == ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD) {
        ACL_FAIL_IF(acl__rt.config.strict && value > p->most, ACL_ERROR_RT_INTERNAL_ERROR,
                    "aclrtMemPoolSetAttr: the threshold is above the pool's size");
        p->threshold = value;
        return ACL_SUCCESS;
    }
    ACL_FAIL_IF(value != 0, ACL_ERROR_RT_INTERNAL_ERROR,
                "aclrtMemPoolSetAttr: a highest value can only be reset, with 0");
    if (attr == ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH) {
        p->reserved_high = p->reserved;
    } else {
        p->used_high = p->used;
    }
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMemPoolSetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value)
{
    ACL_ENTER_LOCKED(aclrtMemPoolSetAttr);
    ACL_NEED(memPool);
    ACL_REFUSE_IF(value == NULL, ACL_ERROR_RT_PARAM_INVALID, "value is NULL");
    struct pool *p = NULL;
    ACL_TRY(pool_of(memPool, __func__, ACL_ERROR_RT_PARAM_INVALID, &p));
    ACL_REFUSE_IF(attr == ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT || attr == ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT,
                  ACL_ERROR_RT_PARAM_INVALID, "attribute %d can only be read", (int)attr);
    uint32_t *chosen = switch_of(p, attr);
    if (chosen != NULL) {
        uint32_t on = 0;
        memcpy(&on, value, sizeof(on));
        *chosen = on != 0;
        return ACL_SUCCESS;
    }
    ACL_REFUSE_IF(number_of(p, attr) == NULL, ACL_ERROR_RT_PARAM_INVALID, "there is no attribute %d", (int)attr);
    uint64_t number = 0;
    memcpy(&number, value, sizeof(number));
    return set_number(p, attr, number);
}

ACL_EXPORT aclError aclrtMemPoolGetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value)
{
    ACL_ENTER_LOCKED(aclrtMemPoolGetAttr);
    ACL_NEED(memPool);
    ACL_REFUSE_IF(value == NULL, ACL_ERROR_RT_PARAM_INVALID, "value is NULL");
    struct pool *p = NULL;
    ACL_TRY(pool_of(memPool, __func__, ACL_ERROR_RT_PARAM_INVALID, &p));
    const uint32_t *chosen = switch_of(p, attr);
    const uint64_t *number = number_of(p, attr);
    ACL_REFUSE_IF(chosen == NULL && number == NULL, ACL_ERROR_RT_PARAM_INVALID, "there is no attribute %d", (int)attr);
    if (chosen != NULL) {
        memcpy(value, chosen, sizeof(*chosen));
    } else {
        memcpy(value, number, sizeof(*number));
    }
    return ACL_SUCCESS;
}
