/* audit.c: happens-before clocks and a shadow of memory; every judgement is made here.
 *
 * The shadow is an ordered set of segments. Memory that no block ever held has none. Each segment belongs to one block,
 * live or freed, and records the operations that may still touch its bytes:
 *
 *     block "a", live                         block "b", freed               block "c", live
 *     +--------------+----------------------+------------------------------+----------------+
 *     | write s1:7   | write s2:3           | write s1:4                   | write alloc    |
 *     | reads s3:1   | reads -              | reads s2:2, s3:9             | reads -        |
 *     +--------------+----------------------+------------------------------+----------------+
 *
 * Guarantee: two operations on common bytes, one of them writing, with no order between them, are reported, unless a
 * third operation that conflicts with both was reported or ordered in between. Disjoint parts of a block do not
 * conflict.
 *
 * Why one write and its reads suffice. If x is ordered after y, x is ordered after everything that y is ordered after,
 * because a clock's entry never travels without the rest of that clock. So a write stands for everything before it, and
 * a read for the earlier reads it is ordered after.
 * - A hand-out counts as a write at the tail of its stream: earlier accesses were judged then, and an operation ordered
 *   after the hand-out is ordered after them. If the host had seen all of them complete, the hand-out bounds nothing
 *   (bound 0): no other stream has to wait for it.
 * - A free is no access. It leaves the accesses in place, so that work of other streams may go on, and adds the freeing
 *   stream's last work, because a trace without touches contains nothing else.
 *
 * With direct access, memory that the device gave and no live block covers may be touched, too. The accesses to it are
 * kept in segments of one owner that is never live, so that a hand-out and a region_free judge them like a freed
 * block's. A direct read leaves a freed block's segment to that block, since the free still counts. A direct write
 * stands for all earlier accesses and takes the segment over.
 */
#include "audit.h"

#include "shared/assert.h"
#include "shared/intervals.h"
#include "shared/slab.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct block {
    uint64_t start;
    uint64_t end;
    weir__sim_op *alloc;
    weir__sim_op *freed; /* the block's free, or the region_free that removed its memory; NULL: neither has happened */
    uint64_t segments;   /* number of segments that the block owns */
    struct block *next;  /* next in the list `overlapped` */
    bool live;
    bool unit;       /* an access may go on from this block into the next one, if that is such a block, too */
    bool overlapped; /* live, but its first byte was handed out again: the block is in the list `overlapped` */
};

struct read {
    struct read *next;
    weir__sim_op *op;
};

struct segment {
    /* first member, so that a pointer to the range is a pointer to the segment; start and end are 0 after removal */
    weir__interval range;
    struct block *owner;
    weir__sim_op *write; /* never NULL */
    struct read *reads;
};

struct device_range {
    weir__interval range; /* first member */
    weir__sim_op *op;
    bool mapped;
};

struct audit_stream {
    weir__sim_clock clock; /* vector clock; empty once the stream has ended */
    /* value of weir__sim_audit.host_version when the stream last joined the host's clock; 0 = never */
    uint64_t host_version;
    uint64_t tick;      /* the stream's own entry */
    uint64_t last_work; /* tick of the stream's last work; later ticks are waits */
};

/* The host's side of a copy whose end the host has not seen. */
struct host_copy {
    weir__sim_op *op;
    uint64_t start;
    uint64_t end;
};

enum { HINTS = 8192 };

struct weir__sim_audit {
    bool stopped; /* true once memory has run out: no operation is checked any more */
    uint64_t lost;
    uint64_t operations;
    uint64_t host_tick;

    struct audit_stream *streams;
    uint32_t stream_count;
    uint32_t stream_capacity;
    weir__sim_clock host;  /* vector clock of the work that the host has seen complete */
    uint64_t host_version; /* grows with every change of `host`; above 0 */

    weir__intervals segments;
    weir__intervals device_ranges;
    struct device_range *last_found; /* latest result of a lookup in `device_ranges`; NULL after a removal */
    struct block *overlapped;
    weir_sim_reaches reaches; /* tests whether a device may touch a range; NULL: only one device is simulated */
    void *reaches_ctx;
    /* owner of memory that is touched outside of blocks; NULL: such an access is a finding */
    struct block *direct;
    struct host_copy *host_copies;
    size_t host_copy_count;
    size_t host_copy_capacity;
    weir__slab ops, blocks, reads, segment_slab, device_range_slab;
    weir__sim_report report;
    /* cache of found segments, by hash of the address; a removed segment may stay, as it contains no address */
    struct segment *hints[HINTS];
};

/* --- clocks --- */

void weir__sim_clock_fini(weir__sim_clock *clock)
{
    free(clock->ticks);
    memset(clock, 0, sizeof(*clock));
}

/* Extends `clock` to `count` entries. Returns false when out of memory. */
static bool clock_reach(weir__sim_clock *clock, uint32_t count)
{
    if (count <= clock->count) {
        return true;
    }
    if (count > clock->capacity) {
        uint32_t capacity = clock->capacity < 8 ? 8 : clock->capacity;
        while (capacity < count) {
            capacity *= 2;
        }
        uint64_t *ticks = realloc(clock->ticks, capacity * sizeof(*ticks));
        if (ticks == NULL) {
            return false;
        }
        clock->ticks = ticks;
        clock->capacity = capacity;
    }
    memset(clock->ticks + clock->count, 0, (count - clock->count) * sizeof(*clock->ticks));
    WEIR_ASSERT(count <= clock->capacity);
    clock->count = count;
    return true;
}

/* Joins vector clocks: raises each entry of `clock` to at least that of `other`. Sets *changed if an entry rose.
 * Returns false when out of memory. */
static bool clock_join(weir__sim_clock *clock, const weir__sim_clock *other, bool *changed)
{
    WEIR_ASSERT(clock != other);
    if (!clock_reach(clock, other->count)) {
        return false;
    }
    bool any = false;
    for (uint32_t i = 0; i < other->count; i++) {
        if (other->ticks[i] > clock->ticks[i]) {
            clock->ticks[i] = other->ticks[i];
            any = true;
        }
    }
    *changed = *changed || any;
    return true;
}

static bool is_ordered(const weir__sim_op *op, const weir__sim_clock *clock)
{
    WEIR_ASSERT(op->references > 0 && (op->bound == 0 || op->stream != WEIR__SIM_HOST));
    return op->bound == 0 || (op->stream < clock->count && clock->ticks[op->stream] >= op->bound);
}

static void stop_judging(weir__sim_audit *audit)
{
    audit->stopped = true;
    audit->lost++;
}

/* True if the auditor has stopped because memory ran out; then also counts the operation as lost. */
static bool is_stopped(weir__sim_audit *audit)
{
    if (audit->stopped) {
        audit->lost++;
    }
    return audit->stopped;
}

/* Joins the host's clock into the stream's clock and returns the stream: work that the host has seen complete is
 * ordered before all work that is queued on the stream from now on. NULL: out of memory. */
static struct audit_stream *stream_now(weir__sim_audit *audit, uint32_t number)
{
    WEIR_ASSERT(number < audit->stream_count);
    struct audit_stream *stream = &audit->streams[number];
    if (stream->host_version != audit->host_version) {
        bool changed = false;
        if (!clock_reach(&stream->clock, number + 1) || !clock_join(&stream->clock, &audit->host, &changed)) {
            stop_judging(audit);
            return NULL;
        }
        stream->host_version = audit->host_version;
    }
    WEIR_ASSERT(stream->clock.count > number);
    return stream;
}

static void host_learns(weir__sim_audit *audit, const weir__sim_clock *clock)
{
    WEIR_ASSERT(audit->host_version > 0);
    bool changed = false;
    if (!clock_join(&audit->host, clock, &changed)) {
        stop_judging(audit);
        return;
    }
    if (changed) {
        audit->host_version++;
    }
}

/* --- operations, blocks, segments --- */

/* Creates an operation with one reference, the caller's. NULL: out of memory. */
static weir__sim_op *op_new(weir__sim_audit *audit, uint32_t stream, const weir__sim_op_info *info)
{
    WEIR_ASSERT(info->what != NULL);
    WEIR_ASSERT(stream == WEIR__SIM_HOST || stream < audit->stream_count);
    weir__sim_op *op = weir__slab_get(&audit->ops);
    if (op == NULL) {
        stop_judging(audit);
        return NULL;
    }
    op->stream = stream;
    op->tick = stream == WEIR__SIM_HOST ? ++audit->host_tick : audit->streams[stream].tick;
    op->bound = stream == WEIR__SIM_HOST ? 0 : op->tick;
    op->references = 1;
    op->number = ++audit->operations;
    op->start_ns = info->start_ns;
    op->end_ns = info->end_ns;
    op->what = info->what;
    op->tag[0] = '\0';
    if (info->tag != NULL && memccpy(op->tag, info->tag, '\0', sizeof(op->tag) - 1) == NULL) {
        op->tag[sizeof(op->tag) - 1] = '\0';
    }
    return op;
}

static weir__sim_op *op_hold(weir__sim_op *op)
{
    WEIR_ASSERT(op->references > 0);
    op->references++;
    return op;
}

static void op_release(weir__sim_audit *audit, weir__sim_op *op)
{
    WEIR_ASSERT(op == NULL || op->references > 0);
    if (op != NULL && --op->references == 0) {
        weir__slab_put(&audit->ops, op);
    }
}

static void block_release(weir__sim_audit *audit, struct block *b)
{
    if (b->segments == 0 && !b->overlapped) {
        WEIR_ASSERT(!b->live);
        op_release(audit, b->alloc);
        op_release(audit, b->freed);
        weir__slab_put(&audit->blocks, b);
    }
}

static void reads_clear(weir__sim_audit *audit, struct segment *s)
{
    while (s->reads != NULL) {
        struct read *first = s->reads;
        s->reads = first->next;
        op_release(audit, first->op);
        weir__slab_put(&audit->reads, first);
    }
}

static struct segment *segment_next(const struct segment *s)
{
    return (struct segment *)(void *)weir__intervals_next(&s->range);
}

static struct segment **hint_for(weir__sim_audit *audit, uint64_t address)
{
    return &audit->hints[((address >> 8) * 0x9e3779b97f4a7c15u) >> 51];
}

/* Returns the segment that contains `address`, or NULL. */
static struct segment *segment_at(weir__sim_audit *audit, uint64_t address)
{
    struct segment **hint = hint_for(audit, address);
    struct segment *s = *hint;
    if (s != NULL && s->range.start <= address && address < s->range.end) {
        return s;
    }
    s = (struct segment *)(void *)weir__intervals_floor(&audit->segments, address);
    if (s == NULL || s->range.end <= address) {
        return NULL;
    }
    *hint = s;
    return s;
}

/* Returns the first segment that ends above `address`, or NULL. */
static struct segment *segment_from(weir__sim_audit *audit, uint64_t address)
{
    struct segment *s = segment_at(audit, address);
    return s != NULL ? s : (struct segment *)(void *)weir__intervals_after(&audit->segments, address);
}

/* Removes a segment from the auditor's set. If it was the last segment of a freed block, removes the block as well. */
static void segment_remove(weir__sim_audit *audit, struct segment *s)
{
    WEIR_ASSERT(s->write != NULL && s->owner->segments > 0);
    weir__intervals_remove(&audit->segments, &s->range);
    s->range.start = 0;
    s->range.end = 0;
    op_release(audit, s->write);
    reads_clear(audit, s);
    s->owner->segments--;
    block_release(audit, s->owner);
    weir__slab_put(&audit->segment_slab, s);
}

/* Creates a segment for memory that has none. NULL: out of memory. */
static struct segment *segment_new(weir__sim_audit *audit, uint64_t start, uint64_t end, struct block *owner,
                                   weir__sim_op *write)
{
    struct segment *s = weir__slab_get(&audit->segment_slab);
    if (s == NULL) {
        stop_judging(audit);
        return NULL;
    }
    s->range.start = start;
    s->range.end = end;
    s->owner = owner;
    s->owner->segments++;
    s->write = op_hold(write);
    s->reads = NULL;
    weir__intervals_insert(&audit->segments, &s->range);
    *hint_for(audit, start) = s;
    return s;
}

/* Makes `owner` the owner of the segment `s`, and `write` the only access recorded in it. */
static void segment_take(weir__sim_audit *audit, struct segment *s, struct block *owner, weir__sim_op *write)
{
    WEIR_ASSERT(s->owner->segments > 0);
    struct block *earlier = s->owner;
    s->owner = owner;
    s->owner->segments++;
    earlier->segments--;
    block_release(audit, earlier);
    weir__sim_op *held = op_hold(write);
    op_release(audit, s->write);
    s->write = held;
    reads_clear(audit, s);
}

/* Adds `op` to the reads recorded in the segment `s`. Returns false when out of memory. */
static bool read_add(weir__sim_audit *audit, struct segment *s, weir__sim_op *op)
{
    struct read *r = weir__slab_get(&audit->reads);
    if (r == NULL) {
        stop_judging(audit);
        return false;
    }
    r->op = op_hold(op);
    r->next = s->reads;
    s->reads = r;
    return true;
}

/* Splits the segment `s` at the address `at`, which lies inside it. Both halves keep the recorded accesses. Returns the
 * upper half; NULL: out of memory. */
static struct segment *segment_split(weir__sim_audit *audit, struct segment *s, uint64_t at)
{
    WEIR_ASSERT(s->range.start < at && at < s->range.end);
    struct segment *upper = weir__slab_get(&audit->segment_slab);
    if (upper == NULL) {
        stop_judging(audit);
        return NULL;
    }
    upper->range.start = at;
    upper->range.end = s->range.end;
    upper->owner = s->owner;
    upper->owner->segments++;
    upper->write = op_hold(s->write);
    upper->reads = NULL;
    s->range.end = at;
    weir__intervals_resized(&s->range);
    weir__intervals_insert(&audit->segments, &upper->range);
    for (struct read *r = s->reads; r != NULL; r = r->next) {
        if (!read_add(audit, upper, r->op)) {
            return NULL;
        }
    }
    return upper;
}

/* Splits the segment `s`, which overlaps [start, end), to lie inside that range. Returns the part; NULL: no memory. */
static struct segment *segment_cut(weir__sim_audit *audit, struct segment *s, uint64_t start, uint64_t end)
{
    WEIR_ASSERT(s->range.start < end && start < s->range.end);
    if (s->range.start < start) {
        s = segment_split(audit, s, start);
    }
    if (s != NULL && s->range.end > end && segment_split(audit, s, end) == NULL) {
        s = NULL;
    }
    return s;
}

/* Returns an access recorded in the segment that is not ordered before `clock`, or NULL. Prefers the one that ends
 * last, for the clearest message. Writes are always considered, reads only with `reads`, the free only with `freed`. */
static weir__sim_op *conflict(const struct segment *s, const weir__sim_clock *clock, bool reads, bool freed)
{
    WEIR_ASSERT(s->write != NULL);
    weir__sim_op *found = is_ordered(s->write, clock) ? NULL : s->write;
    if (reads) {
        for (struct read *r = s->reads; r != NULL; r = r->next) {
            if (!is_ordered(r->op, clock) && (found == NULL || r->op->end_ns > found->end_ns)) {
                found = r->op;
            }
        }
    }
    if (freed && found == NULL && s->owner->freed != NULL && !is_ordered(s->owner->freed, clock)) {
        found = s->owner->freed;
    }
    return found;
}

static void report(weir__sim_audit *audit, weir_sim_finding_kind kind, uint64_t start, uint64_t end,
                   const weir__sim_op *earlier, const weir__sim_op *later, const char *detail)
{
    WEIR_ASSERT(start <= end);
    weir__sim_report_add(&audit->report, kind, start, end - start, earlier, later, detail);
}

static uint64_t end_of(uint64_t address, uint64_t size)
{
    return size <= UINT64_MAX - address ? address + size : UINT64_MAX;
}

/* --- create and destroy --- */

/* Creates the block that owns all memory touched outside of other blocks. NULL: out of memory. */
static struct block *direct_owner(weir__sim_audit *audit)
{
    WEIR_ASSERT(audit->direct == NULL);
    struct block *b = weir__slab_get(&audit->blocks);
    if (b != NULL) {
        memset(b, 0, sizeof(*b));
        b->start = UINT64_MAX;
        b->end = UINT64_MAX;
        b->segments = 1; /* a reference without a segment, so that the block is never released */
    }
    return b;
}

weir__sim_audit *weir__sim_audit_create(size_t max_findings, bool direct_access)
{
    weir__sim_audit *audit = calloc(1, sizeof(*audit));
    if (audit == NULL) {
        return NULL;
    }
    audit->host_version = 1;
    audit->report.max_findings = max_findings;
    audit->ops = (weir__slab)WEIR__SLAB_INIT(weir__sim_op, 0, 256);
    audit->blocks = (weir__slab)WEIR__SLAB_INIT(struct block, 0, 128);
    audit->reads = (weir__slab)WEIR__SLAB_INIT(struct read, 0, 128);
    audit->segment_slab = (weir__slab)WEIR__SLAB_INIT(struct segment, 0, 128);
    audit->device_range_slab = (weir__slab)WEIR__SLAB_INIT(struct device_range, 0, 16);
    weir__sim_audit_stream_created(audit);
    if (direct_access) {
        audit->direct = direct_owner(audit);
    }
    if (audit->stopped || (direct_access && audit->direct == NULL)) {
        weir__sim_audit_destroy(audit);
        return NULL;
    }
    return audit;
}

void weir__sim_audit_destroy(weir__sim_audit *audit)
{
    if (audit == NULL) {
        return;
    }
    for (uint32_t i = 0; i < audit->stream_count; i++) {
        weir__sim_clock_fini(&audit->streams[i].clock);
    }
    free(audit->streams);
    free(audit->host_copies);
    weir__sim_clock_fini(&audit->host);
    weir__slab_fini(&audit->ops);
    weir__slab_fini(&audit->blocks);
    weir__slab_fini(&audit->reads);
    weir__slab_fini(&audit->segment_slab);
    weir__slab_fini(&audit->device_range_slab);
    weir__sim_report_fini(&audit->report);
    free(audit);
}

weir__sim_report *weir__sim_audit_report(weir__sim_audit *audit)
{
    return &audit->report;
}

void weir__sim_audit_set_reach(weir__sim_audit *audit, weir_sim_reaches reaches, void *ctx)
{
    audit->reaches = reaches;
    audit->reaches_ctx = ctx;
}

uint64_t weir__sim_audit_lost(const weir__sim_audit *audit)
{
    return audit->lost;
}

/* --- streams and order --- */

void weir__sim_audit_stream_created(weir__sim_audit *audit)
{
    if (is_stopped(audit)) {
        return;
    }
    if (audit->stream_count == audit->stream_capacity) {
        uint32_t capacity = audit->stream_capacity == 0 ? 8 : audit->stream_capacity * 2;
        struct audit_stream *streams = realloc(audit->streams, capacity * sizeof(*streams));
        if (streams == NULL) {
            stop_judging(audit);
            return;
        }
        audit->streams = streams;
        audit->stream_capacity = capacity;
    }
    memset(&audit->streams[audit->stream_count++], 0, sizeof(*audit->streams));
}

void weir__sim_audit_stream_ended(weir__sim_audit *audit, uint32_t number)
{
    if (!is_stopped(audit)) {
        WEIR_ASSERT(number > 0 && number < audit->stream_count);
        weir__sim_clock_fini(&audit->streams[number].clock);
    }
}

void weir__sim_audit_recorded(weir__sim_audit *audit, uint32_t number, weir__sim_clock *event)
{
    if (is_stopped(audit)) {
        return;
    }
    struct audit_stream *stream = stream_now(audit, number);
    if (stream == NULL) {
        return;
    }
    event->count = 0;
    if (!clock_reach(event, stream->clock.count)) {
        stop_judging(audit);
        return;
    }
    memcpy(event->ticks, stream->clock.ticks, event->count * sizeof(*event->ticks));
}

void weir__sim_audit_waited(weir__sim_audit *audit, uint32_t number, const weir__sim_clock *event)
{
    if (is_stopped(audit)) {
        return;
    }
    struct audit_stream *stream = stream_now(audit, number);
    if (stream == NULL) {
        return;
    }
    bool changed = false;
    if (!clock_join(&stream->clock, event, &changed)) {
        stop_judging(audit);
    } else if (changed) {
        /* Count the wait as an operation of its own: it orders only the operations after it, not those before it. */
        stream->clock.ticks[number] = ++stream->tick;
    }
}

void weir__sim_audit_saw_event(weir__sim_audit *audit, const weir__sim_clock *event)
{
    if (!is_stopped(audit)) {
        host_learns(audit, event);
    }
}

void weir__sim_audit_saw_stream(weir__sim_audit *audit, uint32_t number)
{
    if (!is_stopped(audit)) {
        WEIR_ASSERT(number < audit->stream_count);
        host_learns(audit, &audit->streams[number].clock);
    }
}

void weir__sim_audit_saw_all(weir__sim_audit *audit)
{
    if (is_stopped(audit)) {
        return;
    }
    if (!clock_reach(&audit->host, audit->stream_count)) {
        stop_judging(audit);
        return;
    }
    for (uint32_t i = 0; i < audit->stream_count; i++) {
        audit->host.ticks[i] = audit->streams[i].tick;
    }
    audit->host_version++;
}

void weir__sim_audit_saw_broken(weir__sim_audit *audit, uint32_t number)
{
    if (is_stopped(audit)) {
        return;
    }
    if (!clock_reach(&audit->host, number + 1)) {
        stop_judging(audit);
        return;
    }
    WEIR_ASSERT(number < audit->stream_count);
    audit->host.ticks[number] = audit->streams[number].tick;
    audit->host_version++;
}

/* --- work --- */

/* Checks and records a write by `op` to the segment `s`, which then belongs to the block `owner`. `last` is the segment
 * that `op` wrote before, or NULL; adjacent segments with equal records are merged. Returns the segment. */
static struct segment *write_piece(weir__sim_audit *audit, const weir__sim_clock *clock, weir__sim_op *op,
                                   struct segment *s, struct block *owner, struct segment *last)
{
    WEIR_ASSERT(last == NULL || last->range.end <= s->range.start);
    weir__sim_op *earlier = conflict(s, clock, true, true);
    if (earlier != NULL) {
        report(audit, WEIR_SIM_UNORDERED, s->range.start, s->range.end, earlier, op, "");
    }
    if (last != NULL && last->owner == owner && last->range.end == s->range.start) {
        uint64_t reached = s->range.end;
        segment_remove(audit, s);
        last->range.end = reached;
        weir__intervals_resized(&last->range);
        return last;
    }
    segment_take(audit, s, owner, op);
    return s;
}

/* Checks and records a write by `op` to [start, end) in the block `owner`. `s` is the segment that contains `start`. */
static void touch_by_write(weir__sim_audit *audit, const weir__sim_clock *clock, weir__sim_op *op, struct segment *s,
                           struct block *owner, uint64_t start, uint64_t end)
{
    WEIR_ASSERT(s->range.start <= start && start < s->range.end);
    struct segment *last = NULL;
    while (s != NULL && s->range.start < end) {
        if (s->owner != owner) { /* the segment belongs to an overlapping block, which was reported already */
            s = segment_next(s);
            continue;
        }
        s = segment_cut(audit, s, start, end);
        if (s == NULL) {
            return;
        }
        struct segment *next = s->range.end < end ? segment_next(s) : NULL;
        last = write_piece(audit, clock, op, s, owner, last);
        s = next;
    }
}

/* Reports a conflict if `op` must not yet read the segment `s`. Records the read and drops reads ordered before it. */
static void touch_by_read(weir__sim_audit *audit, const weir__sim_clock *clock, weir__sim_op *op, struct segment *s)
{
    weir__sim_op *earlier = conflict(s, clock, false, true);
    if (earlier != NULL) {
        report(audit, WEIR_SIM_UNORDERED, s->range.start, s->range.end, earlier, op, "");
    }
    for (struct read **link = &s->reads; *link != NULL;) {
        struct read *r = *link;
        if (is_ordered(r->op, clock)) {
            *link = r->next;
            op_release(audit, r->op);
            weir__slab_put(&audit->reads, r);
        } else {
            link = &r->next;
        }
    }
    (void)read_add(audit, s, op);
}

/* True if a block is live and still has its memory. A live block loses its memory when its region is returned. */
static bool is_held(const struct block *b)
{
    return b->live && b->freed == NULL;
}

/* Returns the address up to which the device gave memory without a gap from `start` on, at most `end`: in one region,
 * or in adjacent mappings. *first is the region or mapping at `start`. If the device gave nothing at `start`, stores
 * NULL in *first and returns `start`. */
static uint64_t device_bytes_in(weir__sim_audit *audit, uint64_t start, uint64_t end, const struct device_range **first)
{
    WEIR_ASSERT(start < end);
    struct device_range *g = audit->last_found;
    if (g == NULL || start < g->range.start || g->range.end <= start) {
        g = (struct device_range *)(void *)weir__intervals_floor(&audit->device_ranges, start);
        if (g == NULL || g->range.end <= start) {
            *first = NULL;
            return start;
        }
        audit->last_found = g;
    }
    *first = g;
    while (g->range.end < end) {
        struct device_range *next = (struct device_range *)(void *)weir__intervals_next(&g->range);
        if (!g->mapped || next == NULL || !next->mapped || next->range.start != g->range.end) {
            return g->range.end;
        }
        g = next;
    }
    return end;
}

/* Adds a live block to the list `overlapped` because its first byte was handed out again. Its own free finds it
 * there. */
static void cover(weir__sim_audit *audit, struct block *b)
{
    WEIR_ASSERT(b->live);
    if (!b->overlapped) {
        b->overlapped = true;
        b->next = audit->overlapped;
        audit->overlapped = b;
    }
}

/* Returns the segment at `at`, split to lie inside [at, end). If no segment is there, makes one with the single access
 * `first`, the operation by which the device gave the memory. NULL: out of memory. */
static struct segment *direct_piece(weir__sim_audit *audit, uint64_t at, uint64_t end, weir__sim_op *first)
{
    WEIR_ASSERT(audit->direct != NULL && at < end);
    struct segment *s = segment_from(audit, at);
    if (s == NULL || s->range.start > at) {
        uint64_t gap_end = s != NULL && s->range.start < end ? s->range.start : end;
        return segment_new(audit, at, gap_end, audit->direct, first);
    }
    s = segment_cut(audit, s, at, end);
    if (s != NULL && s->owner->live && !is_held(s->owner)) {
        /* The segment is left over from an earlier region at this address. Its block was reported when the device took
         * that region back. */
        if (s->owner->start == s->range.start) {
            cover(audit, s->owner);
        }
        segment_take(audit, s, audit->direct, first);
    }
    return s;
}

/* Checks an access to [start, end), which begins in no live block, segment by segment as far as the device gave memory.
 * Parts in live blocks are checked as well, and reported as outside a block unless `reported` is true. */
static void touch_direct(weir__sim_audit *audit, const weir__sim_clock *clock, weir__sim_op *op, uint64_t start,
                         uint64_t end, bool write, bool reported)
{
    WEIR_ASSERT(audit->direct != NULL);
    const struct device_range *first = NULL;
    uint64_t limit = device_bytes_in(audit, start, end, &first);
    if (limit < end && !reported) {
        char detail[80];
        (void)snprintf(detail, sizeof(detail), "%" PRIu64 " bytes run past the end of the memory that the device gave",
                       end - limit);
        report(audit, WEIR_SIM_OUTSIDE_BLOCK, start, end, NULL, op, detail);
        reported = true;
    }
    struct segment *last = NULL;
    for (uint64_t at = start; at < limit && !audit->stopped;) {
        struct segment *s = direct_piece(audit, at, limit, first->op);
        if (s == NULL) {
            return;
        }
        at = s->range.end;
        if (s->owner->live && !reported) {
            reported = true;
            report(audit, WEIR_SIM_OUTSIDE_BLOCK, start, end, s->owner->alloc, op, "which it runs into");
        }
        if (write) {
            struct block *owner = s->owner->live ? s->owner : audit->direct;
            last = write_piece(audit, clock, op, s, owner, last);
        } else {
            touch_by_read(audit, clock, op, s);
        }
    }
}

/* Checks an access to [start, end), which begins in the live block of the segment `s`. An access past the block's end
 * is reported. Bytes there are checked further only with direct access. */
static void touch_block(weir__sim_audit *audit, const weir__sim_clock *clock, weir__sim_op *op, struct segment *s,
                        uint64_t start, uint64_t end, bool write)
{
    WEIR_ASSERT(is_held(s->owner) && s->range.start <= start && start < s->range.end);
    struct block *owner = s->owner;
    uint64_t inside = end;
    if (end > owner->end) {
        char detail[64];
        (void)snprintf(detail, sizeof(detail), "%" PRIu64 " bytes run past its end", end - owner->end);
        report(audit, WEIR_SIM_OUTSIDE_BLOCK, start, end, owner->alloc, op, detail);
        inside = owner->end;
    }
    if (write) {
        touch_by_write(audit, clock, op, s, owner, start, inside);
    } else {
        while (s != NULL && s->range.start < inside) {
            if (s->owner == owner) {
                s = segment_cut(audit, s, start, inside);
                if (s == NULL) {
                    return;
                }
                touch_by_read(audit, clock, op, s);
            }
            s = segment_next(s);
        }
    }
    if (end > inside && audit->direct != NULL && !audit->stopped) {
        touch_direct(audit, clock, op, inside, end, write, true);
    }
}

/* Reports an access whose first byte must not be touched. `s` is the segment that contains this byte, or NULL. */
static void touch_nothing(weir__sim_audit *audit, weir__sim_op *op, const struct segment *s, uint64_t start,
                          uint64_t end)
{
    WEIR_ASSERT(s == NULL || !is_held(s->owner));
    if (s != NULL) {
        report(audit, WEIR_SIM_USE_AFTER_FREE, start, end, s->owner->freed, op, "");
        return;
    }
    const struct segment *below = start > 0 ? segment_at(audit, start - 1) : NULL;
    const char *detail = audit->direct != NULL ? "no memory is there"
                         : below != NULL       ? "which ends just below"
                                               : "no block was ever there";
    report(audit, WEIR_SIM_OUTSIDE_BLOCK, start, end, below != NULL ? below->owner->alloc : NULL, op, detail);
}

/* True if the block is a unit, and an access to `end` goes on from it into another unit. */
static bool goes_on(weir__sim_audit *audit, const struct block *block, uint64_t end)
{
    if (!block->unit || !is_held(block) || end <= block->end) {
        return false;
    }
    const struct segment *next = segment_at(audit, block->end);
    return next != NULL && next->owner->unit && is_held(next->owner);
}

/* Checks one access of a piece of work: the memory may be touched, and earlier accesses are ordered before it. */
static void touch(weir__sim_audit *audit, const weir__sim_clock *clock, weir__sim_op *op, const weir_sim_access *access)
{
    uint64_t start = access->address;
    uint64_t end = end_of(start, access->size);
    if (end <= start) {
        return;
    }
    const struct device_range *there = NULL;
    struct segment *s = segment_at(audit, start);
    while (s != NULL && goes_on(audit, s->owner, end)) {
        const uint64_t behind = s->owner->end;
        touch_block(audit, clock, op, s, start, behind, access->write);
        start = behind;
        s = audit->stopped ? NULL : segment_at(audit, start);
    }
    if (audit->stopped) {
        return;
    }
    if (s != NULL && is_held(s->owner)) {
        touch_block(audit, clock, op, s, start, end, access->write);
    } else if (audit->direct != NULL && device_bytes_in(audit, start, end, &there) > start) {
        touch_direct(audit, clock, op, start, end, access->write, false);
    } else {
        touch_nothing(audit, op, s, start, end);
    }
}

/* Reports the first access of a piece of work to memory that its device may not reach. */
static void judge_reach(weir__sim_audit *audit, const weir__sim_op *op, const weir_sim_access *accesses, size_t count)
{
    char detail[96] = "";
    for (size_t i = 0; i < count; i++) {
        if (accesses[i].size > 0 && !audit->reaches(audit->reaches_ctx, &accesses[i], detail, sizeof(detail))) {
            report(audit, WEIR_SIM_FOREIGN_MEMORY, accesses[i].address, end_of(accesses[i].address, accesses[i].size),
                   NULL, op, detail);
            return;
        }
    }
}

weir__sim_op *weir__sim_audit_work(weir__sim_audit *audit, uint32_t number, const weir__sim_op_info *info,
                                   const weir_sim_access *accesses, size_t access_count)
{
    struct audit_stream *stream = is_stopped(audit) ? NULL : stream_now(audit, number);
    if (stream == NULL) {
        return NULL;
    }
    stream->last_work = ++stream->tick;
    stream->clock.ticks[number] = stream->tick;
    if (access_count == 0) {
        audit->operations++;
        return NULL;
    }
    weir__sim_op *op = op_new(audit, number, info);
    for (size_t i = 0; i < access_count && !audit->stopped; i++) {
        touch(audit, &stream->clock, op, &accesses[i]);
    }
    if (audit->reaches != NULL && !audit->stopped) {
        judge_reach(audit, op, accesses, access_count);
    }
    return op;
}

void weir__sim_audit_release(weir__sim_audit *audit, weir__sim_op *op)
{
    op_release(audit, op);
}

/* --- host memory --- */

/* Forgets the copies that the host has seen complete, and those of the host memory [start, end). Returns one of the
 * latter that the host has not seen complete, the latest, with a reference for the caller; NULL: there is none. */
static weir__sim_op *forget_copies(weir__sim_audit *audit, uint64_t start, uint64_t end)
{
    weir__sim_op *pending = NULL;
    size_t left = 0;
    for (size_t i = 0; i < audit->host_copy_count; i++) {
        struct host_copy copy = audit->host_copies[i];
        const bool is_seen = is_ordered(copy.op, &audit->host);
        const bool is_inside = copy.start < end && start < copy.end;
        if (!is_seen && is_inside && (pending == NULL || copy.op->end_ns >= pending->end_ns)) {
            op_release(audit, pending);
            pending = op_hold(copy.op);
        }
        if (is_seen || is_inside) {
            op_release(audit, copy.op);
        } else {
            audit->host_copies[left++] = copy;
        }
    }
    audit->host_copy_count = left;
    return pending;
}

/* Makes room for one more copy. */
static bool room_for_copy(weir__sim_audit *audit)
{
    if (audit->host_copy_count < audit->host_copy_capacity) {
        return true;
    }
    (void)forget_copies(audit, 0, 0);
    if (audit->host_copy_count < audit->host_copy_capacity / 2) {
        return true;
    }
    const size_t capacity = audit->host_copy_capacity == 0 ? 16 : audit->host_copy_capacity * 2;
    struct host_copy *copies = realloc(audit->host_copies, capacity * sizeof(*copies));
    if (copies != NULL) {
        audit->host_copies = copies;
        audit->host_copy_capacity = capacity;
    }
    return copies != NULL;
}

void weir__sim_audit_host_copy(weir__sim_audit *audit, weir__sim_op *copy, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(copy != NULL && size > 0);
    if (is_stopped(audit)) {
        return;
    }
    if (!room_for_copy(audit)) {
        stop_judging(audit);
        return;
    }
    audit->host_copies[audit->host_copy_count++] =
        (struct host_copy){.op = op_hold(copy), .start = address, .end = end_of(address, size)};
}

void weir__sim_audit_host_alloc(weir__sim_audit *audit, uint64_t address, uint64_t size)
{
    op_release(audit, forget_copies(audit, address, end_of(address, size)));
}

void weir__sim_audit_host_free(weir__sim_audit *audit, uint64_t address, uint64_t size, const weir__sim_op_info *info)
{
    const uint64_t end = end_of(address, size);
    weir__sim_op *pending = is_stopped(audit) ? NULL : forget_copies(audit, address, end);
    weir__sim_op *op = pending != NULL ? op_new(audit, WEIR__SIM_HOST, info) : NULL;
    if (op != NULL) {
        report(audit, WEIR_SIM_HOST_MEMORY, address, end, pending, op, "");
    }
    op_release(audit, op);
    op_release(audit, pending);
}

void weir__sim_audit_host_changed(weir__sim_audit *audit, const weir__sim_op *copy, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(copy != NULL && size > 0);
    if (!is_stopped(audit)) {
        report(audit, WEIR_SIM_HOST_CHANGED, address, end_of(address, size), NULL, copy, "");
    }
}

/* --- blocks --- */

static struct block *uncover(weir__sim_audit *audit, uint64_t address)
{
    for (struct block **link = &audit->overlapped; *link != NULL; link = &(*link)->next) {
        struct block *b = *link;
        if (b->start == address) {
            *link = b->next;
            b->overlapped = false;
            return b;
        }
    }
    return NULL;
}

/* Checks that the bytes of one segment may be handed out again to the owner of the vector clock `clock`. Returns true
 * if the host had seen all work on them complete. */
static bool judge_hand_out(weir__sim_audit *audit, const weir__sim_clock *clock, weir__sim_op *op, struct segment *s,
                           const struct block **reported)
{
    struct block *owner = s->owner;
    if (owner->live) {
        if (owner->start == s->range.start) {
            cover(audit, owner);
        }
        if (is_held(owner)) { /* a block that lost its memory to the device was reported then */
            report(audit, WEIR_SIM_OVERLAP, s->range.start, s->range.end, owner->alloc, op, "");
        }
        return false;
    }
    weir__sim_op *earlier = conflict(s, clock, true, true);
    if (earlier != NULL && *reported != owner) {
        /* Report each earlier block once, however many of its segments the new block covers. */
        *reported = owner;
        report(audit, WEIR_SIM_EARLY_REUSE, s->range.start, s->range.end, earlier, op, "");
    }
    return conflict(s, &audit->host, true, true) == NULL;
}

/* Checks each earlier owner in [start, end) and removes the segments there, except for the first, which the caller
 * reuses: *reuse is that segment, or NULL if there was none. Returns false when out of memory. */
static bool hand_out(weir__sim_audit *audit, const weir__sim_clock *clock, weir__sim_op *op, uint64_t start,
                     uint64_t end, struct segment **reuse)
{
    WEIR_ASSERT(start < end);
    const struct block *reported = NULL;
    bool idle = true;
    *reuse = NULL;
    for (struct segment *s = segment_from(audit, start); s != NULL && s->range.start < end;) {
        s = segment_cut(audit, s, start, end);
        if (s == NULL) {
            return false;
        }
        idle = judge_hand_out(audit, clock, op, s, &reported) && idle;
        struct segment *next = segment_next(s);
        if (*reuse == NULL) {
            *reuse = s;
        } else {
            segment_remove(audit, s);
        }
        s = next;
    }
    if (idle) {
        op->bound = 0;
    }
    return true;
}

void weir__sim_audit_block_alloc(weir__sim_audit *audit, uint64_t address, uint64_t size, bool unit, uint32_t number,
                                 const weir__sim_op_info *info)
{
    if (is_stopped(audit)) {
        return;
    }
    const weir__sim_clock *clock = &audit->host;
    if (number != WEIR__SIM_HOST) {
        struct audit_stream *stream = stream_now(audit, number);
        if (stream == NULL) {
            return;
        }
        clock = &stream->clock;
    }
    uint64_t end = end_of(address, size == 0 ? 1 : size);
    weir__sim_op *op = op_new(audit, number, info);
    struct block *b = weir__slab_get(&audit->blocks);
    struct segment *s = NULL;
    if (op == NULL || b == NULL || !hand_out(audit, clock, op, address, end, &s)) {
        stop_judging(audit);
        return;
    }
    const struct device_range *beside = NULL;
    if (device_bytes_in(audit, address, end, &beside) < end || beside == NULL) {
        report(audit, WEIR_SIM_OUTSIDE_REGION, address, end, beside != NULL ? beside->op : NULL, op,
               beside != NULL ? "whose end it crosses" : "the device gave nothing there");
    }
    b->start = address;
    b->end = end;
    b->alloc = op; /* takes over the caller's reference */
    b->freed = NULL;
    b->segments = 0;
    b->next = NULL;
    b->live = true;
    b->unit = unit;
    b->overlapped = false;
    if (s == NULL) {
        (void)segment_new(audit, address, end, b, op);
        return;
    }
    WEIR_ASSERT(address <= s->range.start && s->range.end <= end);
    segment_take(audit, s, b, op);
    if (s->range.start != address || s->range.end != end) {
        s->range.start = address;
        s->range.end = end;
        weir__intervals_resized(&s->range);
    }
}

/* Reports a free by the host unless the host has seen the end of all work on the block. */
static void judge_host_free(weir__sim_audit *audit, const struct block *b, weir__sim_op *op)
{
    WEIR_ASSERT(!b->live);
    bool said = false;
    for (struct segment *s = segment_from(audit, b->start); s != NULL && s->range.start < b->end; s = segment_next(s)) {
        weir__sim_op *earlier = s->owner == b ? conflict(s, &audit->host, true, false) : NULL;
        if (earlier == NULL) {
            continue;
        }
        if (!said) {
            said = true;
            report(audit, WEIR_SIM_FREE_PENDING, s->range.start, s->range.end, earlier, op, "");
        }
        /* Record the free in place of the reported accesses: a later owner of the memory must not get them reported
         * again. */
        op_release(audit, s->write);
        s->write = op_hold(op);
        reads_clear(audit, s);
    }
}

/* Ends a live block. Its segments stay, because work may still use the memory. If the block's region is gone, its
 * memory cannot be handed out again, and the segments are removed. */
static void block_free(weir__sim_audit *audit, struct block *b, weir__sim_op *op)
{
    WEIR_ASSERT(b->live);
    b->live = false;
    b->segments++; /* keeps the block alive while its segments are removed */
    if (b->freed != NULL) {
        for (struct segment *s = segment_from(audit, b->start); s != NULL && s->range.start < b->end;) {
            struct segment *next = segment_next(s);
            if (s->owner == b) {
                segment_remove(audit, s);
            }
            s = next;
        }
    } else {
        if (op->stream == WEIR__SIM_HOST) {
            judge_host_free(audit, b, op);
        }
        b->freed = op_hold(op);
    }
    b->segments--;
    block_release(audit, b);
}

void weir__sim_audit_block_free(weir__sim_audit *audit, uint64_t address, uint32_t number,
                                const weir__sim_op_info *info)
{
    if (is_stopped(audit)) {
        return;
    }
    weir__sim_op *op = op_new(audit, number, info);
    if (op == NULL) {
        return;
    }
    if (number != WEIR__SIM_HOST) {
        op->bound = audit->streams[number].last_work;
    }
    struct segment *s = segment_at(audit, address);
    struct block *b = s != NULL && s->owner->live && s->owner->start == address ? s->owner : NULL;
    if (b == NULL) {
        b = uncover(audit, address);
    }
    if (b != NULL) {
        block_free(audit, b, op);
        op_release(audit, op);
        return;
    }
    if (s != NULL && s->owner->start == address) {
        report(audit, WEIR_SIM_DOUBLE_FREE, address, s->owner->end, s->owner->freed, op, "");
    } else {
        bool inside = s != NULL && s->owner->live;
        report(audit, WEIR_SIM_FOREIGN_FREE, address, address, inside ? s->owner->alloc : NULL, op, "");
    }
    op_release(audit, op);
}

/* --- regions --- */

void weir__sim_audit_given(weir__sim_audit *audit, uint64_t address, uint64_t size, bool mapped,
                           const weir__sim_op_info *info)
{
    if (is_stopped(audit)) {
        return;
    }
    struct device_range *g = weir__slab_get(&audit->device_range_slab);
    weir__sim_op *op = op_new(audit, WEIR__SIM_HOST, info);
    if (g == NULL || op == NULL) {
        stop_judging(audit);
        return;
    }
    g->range.start = address;
    g->range.end = end_of(address, size);
    g->op = op;
    g->mapped = mapped;
    WEIR_ASSERT(size > 0);
    weir__intervals_insert(&audit->device_ranges, &g->range);
}

/* Reports live blocks and unfinished work in memory that the device got back, and removes segments of freed blocks. */
static void judge_taken(weir__sim_audit *audit, uint64_t start, uint64_t end, weir__sim_op *op)
{
    bool said_pending = false;
    for (struct segment *s = segment_from(audit, start); s != NULL && s->range.start < end;) {
        struct block *owner = s->owner;
        weir__sim_op *earlier = conflict(s, &audit->host, true, true);
        if (earlier != NULL && !said_pending) {
            said_pending = true;
            report(audit, WEIR_SIM_REGION_PENDING, s->range.start, s->range.end, earlier, op, "");
        }
        if (owner->live) {
            if (owner->freed == NULL) {
                report(audit, WEIR_SIM_REGION_LIVE, owner->start, owner->end, owner->alloc, op, "");
                owner->freed = op_hold(op);
            }
            s = segment_next(s);
            continue;
        }
        s = segment_cut(audit, s, start, end);
        if (s == NULL) {
            return;
        }
        struct segment *next = segment_next(s);
        segment_remove(audit, s);
        s = next;
    }
}

void weir__sim_audit_taken(weir__sim_audit *audit, uint64_t address, uint64_t size, const weir__sim_op_info *info)
{
    if (is_stopped(audit)) {
        return;
    }
    weir__sim_op *op = op_new(audit, WEIR__SIM_HOST, info);
    if (op == NULL) {
        return;
    }
    judge_taken(audit, address, end_of(address, size), op);
    op_release(audit, op);
    struct device_range *g = (struct device_range *)(void *)weir__intervals_floor(&audit->device_ranges, address);
    if (g != NULL && g->range.start == address) {
        audit->last_found = NULL;
        weir__intervals_remove(&audit->device_ranges, &g->range);
        op_release(audit, g->op);
        weir__slab_put(&audit->device_range_slab, g);
    }
}

/* --- leaks --- */

void weir__sim_audit_leaked(weir__sim_audit *audit, uint64_t address, uint64_t size, const weir__sim_op_info *info)
{
    if (is_stopped(audit)) {
        return;
    }
    weir__sim_op *op = op_new(audit, WEIR__SIM_HOST, info);
    if (op != NULL) {
        report(audit, WEIR_SIM_LEAK, address, end_of(address, size), op, NULL, "");
        op_release(audit, op);
    }
}

void weir__sim_audit_leaks(weir__sim_audit *audit)
{
    if (is_stopped(audit)) {
        return;
    }
    for (weir__interval *r = weir__intervals_first(&audit->segments); r != NULL; r = weir__intervals_next(r)) {
        const struct block *b = ((struct segment *)(void *)r)->owner;
        if (b->live && b->freed == NULL && b->start == r->start) {
            report(audit, WEIR_SIM_LEAK, b->start, b->end, b->alloc, NULL, "");
        }
    }
    for (const struct block *b = audit->overlapped; b != NULL; b = b->next) {
        if (b->freed == NULL) {
            report(audit, WEIR_SIM_LEAK, b->start, b->end, b->alloc, NULL, "");
        }
    }
    for (weir__interval *r = weir__intervals_first(&audit->device_ranges); r != NULL; r = weir__intervals_next(r)) {
        report(audit, WEIR_SIM_LEAK, r->start, r->end, ((struct device_range *)(void *)r)->op, NULL, "");
    }
}
