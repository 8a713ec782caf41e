/* audit.c: happens-before clocks and a shadow of memory; every judgement is made here.
 *
 * The shadow is an ordered set of segments. Memory that no block ever held has none. Each segment belongs to one block,
 * live or freed, and remembers who may still be touching its bytes:
 *
 *     block "a", live                         block "b", freed               block "c", live
 *     +--------------+----------------------+------------------------------+----------------+
 *     | write s1:7   | write s2:3           | write s1:4                   | write alloc    |
 *     | reads s3:1   | reads -              | reads s2:2, s3:9             | reads -        |
 *     +--------------+----------------------+------------------------------+----------------+
 *
 * Guarantee: two operations on common bytes, one of them writing, with no order between them, are reported, unless a
 * third that conflicts with both was reported or ordered in between; disjoint parts of one block never meet.
 *
 * Why so little is kept. If x is ordered after y, it is ordered after all that y is ordered after, because a clock's
 * entry never travels without the rest of that clock. So a write stands for everything before it, and a read for the
 * earlier reads it is ordered after.
 *   - A hand-out counts as a write at the tail of its stream: earlier accesses were judged then, and whoever comes
 *     after the hand-out comes after them. Where the host had seen everything complete, it bounds nothing (bound 0):
 *     then no other stream has to wait for it.
 *   - A free is no access. It leaves the accesses where they are, so that work of other streams may go on, and adds the
 *     freeing stream's last work, because in a trace without touches that is all there is.
 *
 * With direct access, memory that the device gave and no live block covers may be touched, too. What is known of it
 * then lies in segments of one owner that never lives, so that a hand-out and a region_free judge them like a freed
 * block's. A direct read leaves a freed block's segment to it, since the free still counts; a direct write stands for
 * all of it.
 */
#include "audit.h"

#include "ranges.h"
#include "slab.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct block {
    uint64_t start;
    uint64_t end;
    weir__sim_op *alloc;
    weir__sim_op *freed; /* its free, or the region_free that took its memory away; NULL before */
    uint64_t segments;   /* segments that belong to it */
    struct block *next;  /* in `covered` */
    bool live;
    bool covered; /* live, but its first byte was handed out again: it is in the list of such */
} block;

typedef struct read {
    struct read *next;
    weir__sim_op *op;
} read;

typedef struct segment {
    weir__sim_range range; /* first: a range of the set is a segment; 0 to 0 once removed */
    block *owner;
    weir__sim_op *write; /* never NULL */
    read *reads;
} segment;

typedef struct given {
    weir__sim_range range; /* first */
    weir__sim_op *op;
    bool mapped;
} given;

typedef struct audit_stream {
    weir__sim_clock clock; /* empty once the stream has ended */
    uint64_t host_version; /* of the host's clock at the last join; 0 = never */
    uint64_t tick;         /* the stream's own entry */
    uint64_t last_work;    /* tick of its last work: later ones are waits */
} audit_stream;

enum { HINTS = 8192 };

struct weir__sim_audit {
    bool blind; /* out of memory once: no more judgements */
    uint64_t lost;
    uint64_t operations;
    uint64_t host_tick;

    audit_stream *streams;
    uint32_t stream_count;
    uint32_t stream_capacity;
    weir__sim_clock host;  /* what the host has seen complete */
    uint64_t host_version; /* grows whenever `host` does; above 0 */

    weir__sim_ranges segments;
    weir__sim_ranges givens;
    given *last_given; /* where the last block lay; NULL after a change */
    block *covered;
    weir__sim_reaches reaches; /* NULL: one device, which reaches all of its memory */
    block *direct; /* the owner of memory touched directly; NULL: that is not allowed */
    weir__sim_slab ops, blocks, reads, segment_slab, given_slab;
    weir__sim_report report;
    segment
        *hints[HINTS]; /* by address: where it was found last; a removed segment contains nothing */
};

/* --- clocks --- */

void weir__sim_clock_fini(weir__sim_clock *clock)
{
    free(clock->ticks);
    memset(clock, 0, sizeof *clock);
}

/* Makes entries up to `count` exist. */
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
        uint64_t *ticks = realloc(clock->ticks, capacity * sizeof *ticks);
        if (ticks == NULL) {
            return false;
        }
        clock->ticks = ticks;
        clock->capacity = capacity;
    }
    memset(clock->ticks + clock->count, 0, (count - clock->count) * sizeof *clock->ticks);
    clock->count = count;
    return true;
}

/* Raises `clock` to at least `other`; *changed is set when that made a difference. */
static bool clock_join(weir__sim_clock *clock, const weir__sim_clock *other, bool *changed)
{
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
    return op->bound == 0 || (op->stream < clock->count && clock->ticks[op->stream] >= op->bound);
}

static void go_blind(weir__sim_audit *audit)
{
    audit->blind = true;
    audit->lost++;
}

/* Whether there is nothing to judge with; counts the operation that goes by. */
static bool is_blind(weir__sim_audit *audit)
{
    if (audit->blind) {
        audit->lost++;
    }
    return audit->blind;
}

/* The stream's clock as of now: whatever the host has seen is before what it queues. NULL: out of memory. */
static audit_stream *stream_now(weir__sim_audit *audit, uint32_t number)
{
    audit_stream *stream = &audit->streams[number];
    if (stream->host_version != audit->host_version) {
        bool changed = false;
        if (!clock_reach(&stream->clock, number + 1) ||
            !clock_join(&stream->clock, &audit->host, &changed)) {
            go_blind(audit);
            return NULL;
        }
        stream->host_version = audit->host_version;
    }
    return stream;
}

static void host_learns(weir__sim_audit *audit, const weir__sim_clock *clock)
{
    bool changed = false;
    if (!clock_join(&audit->host, clock, &changed)) {
        go_blind(audit);
        return;
    }
    if (changed) {
        audit->host_version++;
    }
}

/* --- operations, blocks, segments --- */

/* With one reference, the caller's. NULL: out of memory. */
static weir__sim_op *op_new(weir__sim_audit *audit, uint32_t stream, const weir__sim_op_info *info)
{
    weir__sim_op *op = weir__sim_slab_get(&audit->ops);
    if (op == NULL) {
        go_blind(audit);
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
    if (info->tag != NULL && memccpy(op->tag, info->tag, '\0', sizeof op->tag - 1) == NULL) {
        op->tag[sizeof op->tag - 1] = '\0';
    }
    return op;
}

static weir__sim_op *op_hold(weir__sim_op *op)
{
    op->references++;
    return op;
}

static void op_release(weir__sim_audit *audit, weir__sim_op *op)
{
    if (op != NULL && --op->references == 0) {
        weir__sim_slab_put(&audit->ops, op);
    }
}

static void block_release(weir__sim_audit *audit, block *b)
{
    if (b->segments == 0 && !b->covered) {
        op_release(audit, b->alloc);
        op_release(audit, b->freed);
        weir__sim_slab_put(&audit->blocks, b);
    }
}

static void reads_clear(weir__sim_audit *audit, segment *s)
{
    while (s->reads != NULL) {
        read *first = s->reads;
        s->reads = first->next;
        op_release(audit, first->op);
        weir__sim_slab_put(&audit->reads, first);
    }
}

static segment *segment_next(const segment *s)
{
    return (segment *)(void *)weir__sim_ranges_next(&s->range);
}

static segment **hint_for(weir__sim_audit *audit, uint64_t address)
{
    return &audit->hints[((address >> 8) * 0x9e3779b97f4a7c15u) >> 51];
}

/* The segment that contains `address`, or NULL. */
static segment *segment_at(weir__sim_audit *audit, uint64_t address)
{
    segment **hint = hint_for(audit, address);
    segment *s = *hint;
    if (s != NULL && s->range.start <= address && address < s->range.end) {
        return s;
    }
    s = (segment *)(void *)weir__sim_ranges_floor(&audit->segments, address);
    if (s == NULL || s->range.end <= address) {
        return NULL;
    }
    *hint = s;
    return s;
}

/* The first segment that ends above `address`, or NULL. */
static segment *segment_from(weir__sim_audit *audit, uint64_t address)
{
    segment *s = segment_at(audit, address);
    return s != NULL ? s : (segment *)(void *)weir__sim_ranges_after(&audit->segments, address);
}

/* Takes a segment out of the shadow, and with the last one a freed block. */
static void segment_remove(weir__sim_audit *audit, segment *s)
{
    weir__sim_ranges_remove(&audit->segments, &s->range);
    s->range.start = 0;
    s->range.end = 0;
    op_release(audit, s->write);
    reads_clear(audit, s);
    s->owner->segments--;
    block_release(audit, s->owner);
    weir__sim_slab_put(&audit->segment_slab, s);
}

/* A segment of memory that has none. NULL: out of memory. */
static segment *segment_new(weir__sim_audit *audit, uint64_t start, uint64_t end, block *owner,
                            weir__sim_op *write)
{
    segment *s = weir__sim_slab_get(&audit->segment_slab);
    if (s == NULL) {
        go_blind(audit);
        return NULL;
    }
    s->range.start = start;
    s->range.end = end;
    s->owner = owner;
    s->owner->segments++;
    s->write = op_hold(write);
    s->reads = NULL;
    weir__sim_ranges_insert(&audit->segments, &s->range);
    *hint_for(audit, start) = s;
    return s;
}

/* Makes `s` the `owner`'s, which may have it already; of the accesses there only `write` is left. */
static void segment_take(weir__sim_audit *audit, segment *s, block *owner, weir__sim_op *write)
{
    block *earlier = s->owner;
    s->owner = owner;
    s->owner->segments++;
    earlier->segments--;
    block_release(audit, earlier);
    weir__sim_op *held = op_hold(write);
    op_release(audit, s->write);
    s->write = held;
    reads_clear(audit, s);
}

/* Adds a reader. */
static bool read_add(weir__sim_audit *audit, segment *s, weir__sim_op *op)
{
    read *r = weir__sim_slab_get(&audit->reads);
    if (r == NULL) {
        go_blind(audit);
        return false;
    }
    r->op = op_hold(op);
    r->next = s->reads;
    s->reads = r;
    return true;
}

/* Cuts `s` in two at `at`, which lies inside it; both halves keep what is known. Returns the upper one. */
static segment *segment_split(weir__sim_audit *audit, segment *s, uint64_t at)
{
    segment *upper = weir__sim_slab_get(&audit->segment_slab);
    if (upper == NULL) {
        go_blind(audit);
        return NULL;
    }
    upper->range.start = at;
    upper->range.end = s->range.end;
    upper->owner = s->owner;
    upper->owner->segments++;
    upper->write = op_hold(s->write);
    upper->reads = NULL;
    s->range.end = at;
    weir__sim_ranges_resized(&s->range);
    weir__sim_ranges_insert(&audit->segments, &upper->range);
    for (read *r = s->reads; r != NULL; r = r->next) {
        if (!read_add(audit, upper, r->op)) {
            return NULL;
        }
    }
    return upper;
}

/* `s`, which contains a part of [start, end), cut to lie inside it. NULL: out of memory. */
static segment *segment_cut(weir__sim_audit *audit, segment *s, uint64_t start, uint64_t end)
{
    if (s->range.start < start) {
        s = segment_split(audit, s, start);
    }
    if (s != NULL && s->range.end > end && segment_split(audit, s, end) == NULL) {
        s = NULL;
    }
    return s;
}

/* The access of a segment that is not ordered before `clock`; of several the one that ends last, which makes the best
 * reading. `reads` and `freed` say whether those count, too. */
static weir__sim_op *conflict(const segment *s, const weir__sim_clock *clock, bool reads,
                              bool freed)
{
    weir__sim_op *found = is_ordered(s->write, clock) ? NULL : s->write;
    if (reads) {
        for (read *r = s->reads; r != NULL; r = r->next) {
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
    weir__sim_report_add(&audit->report, kind, start, end - start, earlier, later, detail);
}

static uint64_t end_of(uint64_t address, uint64_t size)
{
    return size <= UINT64_MAX - address ? address + size : UINT64_MAX;
}

/* --- life --- */

/* The owner that all memory touched directly shares. NULL: out of memory. */
static block *direct_owner(weir__sim_audit *audit)
{
    block *b = weir__sim_slab_get(&audit->blocks);
    if (b != NULL) {
        memset(b, 0, sizeof *b);
        b->start = UINT64_MAX;
        b->end = UINT64_MAX;
        b->segments = 1; /* more than there are, so that it stays */
    }
    return b;
}

weir__sim_audit *weir__sim_audit_create(size_t max_findings, bool direct_access)
{
    weir__sim_audit *audit = calloc(1, sizeof *audit);
    if (audit == NULL) {
        return NULL;
    }
    audit->host_version = 1;
    audit->report.max_findings = max_findings;
    weir__sim_slab_init(&audit->ops, sizeof(weir__sim_op), 256);
    weir__sim_slab_init(&audit->blocks, sizeof(block), 128);
    weir__sim_slab_init(&audit->reads, sizeof(read), 128);
    weir__sim_slab_init(&audit->segment_slab, sizeof(segment), 128);
    weir__sim_slab_init(&audit->given_slab, sizeof(given), 16);
    weir__sim_audit_stream_created(audit);
    if (direct_access) {
        audit->direct = direct_owner(audit);
    }
    if (audit->blind || (direct_access && audit->direct == NULL)) {
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
    weir__sim_clock_fini(&audit->host);
    weir__sim_slab_fini(&audit->ops);
    weir__sim_slab_fini(&audit->blocks);
    weir__sim_slab_fini(&audit->reads);
    weir__sim_slab_fini(&audit->segment_slab);
    weir__sim_slab_fini(&audit->given_slab);
    weir__sim_report_fini(&audit->report);
    free(audit);
}

weir__sim_report *weir__sim_audit_report(weir__sim_audit *audit)
{
    return &audit->report;
}

void weir__sim_audit_set_reach(weir__sim_audit *audit, weir__sim_reaches reaches)
{
    audit->reaches = reaches;
}

uint64_t weir__sim_audit_lost(const weir__sim_audit *audit)
{
    return audit->lost;
}

/* --- streams and order --- */

void weir__sim_audit_stream_created(weir__sim_audit *audit)
{
    if (is_blind(audit)) {
        return;
    }
    if (audit->stream_count == audit->stream_capacity) {
        uint32_t capacity = audit->stream_capacity == 0 ? 8 : audit->stream_capacity * 2;
        audit_stream *streams = realloc(audit->streams, capacity * sizeof *streams);
        if (streams == NULL) {
            go_blind(audit);
            return;
        }
        audit->streams = streams;
        audit->stream_capacity = capacity;
    }
    memset(&audit->streams[audit->stream_count++], 0, sizeof *audit->streams);
}

void weir__sim_audit_stream_ended(weir__sim_audit *audit, uint32_t number)
{
    if (!is_blind(audit)) {
        weir__sim_clock_fini(&audit->streams[number].clock);
    }
}

void weir__sim_audit_recorded(weir__sim_audit *audit, uint32_t number, weir__sim_clock *event)
{
    if (is_blind(audit)) {
        return;
    }
    audit_stream *stream = stream_now(audit, number);
    if (stream == NULL) {
        return;
    }
    event->count = 0;
    if (!clock_reach(event, stream->clock.count)) {
        go_blind(audit);
        return;
    }
    memcpy(event->ticks, stream->clock.ticks, event->count * sizeof *event->ticks);
}

void weir__sim_audit_waited(weir__sim_audit *audit, uint32_t number, const weir__sim_clock *event)
{
    if (is_blind(audit)) {
        return;
    }
    audit_stream *stream = stream_now(audit, number);
    if (stream == NULL) {
        return;
    }
    bool changed = false;
    if (!clock_join(&stream->clock, event, &changed)) {
        go_blind(audit);
    } else if (changed) {
        /* A position of its own: what comes now is after more than what came before. */
        stream->clock.ticks[number] = ++stream->tick;
    }
}

void weir__sim_audit_saw_event(weir__sim_audit *audit, const weir__sim_clock *event)
{
    if (!is_blind(audit)) {
        host_learns(audit, event);
    }
}

void weir__sim_audit_saw_stream(weir__sim_audit *audit, uint32_t number)
{
    if (!is_blind(audit)) {
        host_learns(audit, &audit->streams[number].clock);
    }
}

void weir__sim_audit_saw_all(weir__sim_audit *audit)
{
    if (is_blind(audit)) {
        return;
    }
    if (!clock_reach(&audit->host, audit->stream_count)) {
        go_blind(audit);
        return;
    }
    for (uint32_t i = 0; i < audit->stream_count; i++) {
        audit->host.ticks[i] = audit->streams[i].tick;
    }
    audit->host_version++;
}

void weir__sim_audit_saw_broken(weir__sim_audit *audit, uint32_t number)
{
    if (is_blind(audit)) {
        return;
    }
    if (!clock_reach(&audit->host, number + 1)) {
        go_blind(audit);
        return;
    }
    audit->host.ticks[number] = audit->streams[number].tick;
    audit->host_version++;
}

/* --- work --- */

/* `op` writes one piece, which is the `owner`'s from now on. `last` is the piece that it wrote before, or NULL:
 * neighbours that now know the same become one segment again. Returns the piece written. */
static segment *write_piece(weir__sim_audit *audit, const weir__sim_clock *clock, weir__sim_op *op,
                            segment *s, block *owner, segment *last)
{
    weir__sim_op *earlier = conflict(s, clock, true, true);
    if (earlier != NULL) {
        report(audit, WEIR_SIM_UNORDERED, s->range.start, s->range.end, earlier, op, "");
    }
    if (last != NULL && last->owner == owner && last->range.end == s->range.start) {
        uint64_t reached = s->range.end;
        segment_remove(audit, s);
        last->range.end = reached;
        weir__sim_ranges_resized(&last->range);
        return last;
    }
    segment_take(audit, s, owner, op);
    return s;
}

/* `op` writes the part of `owner` in [start, end): judged piece by piece. `s` is the piece that contains `start`. */
static void touch_by_write(weir__sim_audit *audit, const weir__sim_clock *clock, weir__sim_op *op,
                           segment *s, block *owner, uint64_t start, uint64_t end)
{
    segment *last = NULL;
    while (s != NULL && s->range.start < end) {
        if (s->owner != owner) { /* an overlapping block, which was reported */
            s = segment_next(s);
            continue;
        }
        s = segment_cut(audit, s, start, end);
        if (s == NULL) {
            return;
        }
        segment *next = s->range.end < end ? segment_next(s) : NULL;
        last = write_piece(audit, clock, op, s, owner, last);
        s = next;
    }
}

/* Adds `op` to the readers of `s`, in place of those it is ordered after. */
static void touch_by_read(weir__sim_audit *audit, const weir__sim_clock *clock, weir__sim_op *op,
                          segment *s)
{
    weir__sim_op *earlier = conflict(s, clock, false, true);
    if (earlier != NULL) {
        report(audit, WEIR_SIM_UNORDERED, s->range.start, s->range.end, earlier, op, "");
    }
    for (read **link = &s->reads; *link != NULL;) {
        read *r = *link;
        if (is_ordered(r->op, clock)) {
            *link = r->next;
            op_release(audit, r->op);
            weir__sim_slab_put(&audit->reads, r);
        } else {
            link = &r->next;
        }
    }
    (void)read_add(audit, s, op);
}

/* Whether its memory is its own: a live block whose region went away has none. */
static bool is_held(const block *b)
{
    return b->live && b->freed == NULL;
}

/* How far from `start` on the device gave memory, at most to `end`: in one region, or in mappings without a gap. *first
 * is what it gave there; where it gave nothing that is NULL, and the answer `start`. */
static uint64_t given_to(weir__sim_audit *audit, uint64_t start, uint64_t end, const given **first)
{
    given *g = audit->last_given;
    if (g == NULL || start < g->range.start || g->range.end <= start) {
        g = (given *)(void *)weir__sim_ranges_floor(&audit->givens, start);
        if (g == NULL || g->range.end <= start) {
            *first = NULL;
            return start;
        }
        audit->last_given = g;
    }
    *first = g;
    while (g->range.end < end) {
        given *next = (given *)(void *)weir__sim_ranges_next(&g->range);
        if (!g->mapped || next == NULL || !next->mapped || next->range.start != g->range.end) {
            return g->range.end;
        }
        g = next;
    }
    return end;
}

/* A live block's first byte is somebody else's: the block is found in a list from now on, so that its own free still
 * counts as that. */
static void cover(weir__sim_audit *audit, block *b)
{
    if (!b->covered) {
        b->covered = true;
        b->next = audit->covered;
        audit->covered = b;
    }
}

/* The piece at `at`, cut to lie inside [at, end); memory in which nothing is known gets one with nothing but `first` in
 * it, the hand-over by the device. NULL: out of memory. */
static segment *direct_piece(weir__sim_audit *audit, uint64_t at, uint64_t end, weir__sim_op *first)
{
    segment *s = segment_from(audit, at);
    if (s == NULL || s->range.start > at) {
        uint64_t gap_end = s != NULL && s->range.start < end ? s->range.start : end;
        return segment_new(audit, at, gap_end, audit->direct, first);
    }
    s = segment_cut(audit, s, at, end);
    if (s != NULL && s->owner->live && !is_held(s->owner)) {
        /* Left over from the region that was here before: what was wrong with it was said when that went away. */
        if (s->owner->start == s->range.start) {
            cover(audit, s->owner);
        }
        segment_take(audit, s, audit->direct, first);
    }
    return s;
}

/* Work on [start, end), which begins in no live block: judged piece by piece as far as the device gave memory. What
 * runs into a live block is judged there, too, and reported unless the range was `reported` before. */
static void touch_direct(weir__sim_audit *audit, const weir__sim_clock *clock, weir__sim_op *op,
                         uint64_t start, uint64_t end, bool write, bool reported)
{
    const given *first = NULL;
    uint64_t limit = given_to(audit, start, end, &first);
    if (limit < end && !reported) {
        char detail[80];
        (void)snprintf(detail, sizeof detail,
                       "%" PRIu64 " bytes run past the end of the memory that the device gave",
                       end - limit);
        report(audit, WEIR_SIM_OUTSIDE_BLOCK, start, end, NULL, op, detail);
        reported = true;
    }
    segment *last = NULL;
    for (uint64_t at = start; at < limit && !audit->blind;) {
        segment *s = direct_piece(audit, at, limit, first->op);
        if (s == NULL) {
            return;
        }
        at = s->range.end;
        if (s->owner->live && !reported) {
            reported = true;
            report(audit, WEIR_SIM_OUTSIDE_BLOCK, start, end, s->owner->alloc, op,
                   "which it runs into");
        }
        if (write) {
            block *owner = s->owner->live ? s->owner : audit->direct;
            last = write_piece(audit, clock, op, s, owner, last);
        } else {
            touch_by_read(audit, clock, op, s);
        }
    }
}

/* Work on [start, end), which begins in the live block of `s`: judged up to the block's end, and with direct access
 * beyond that. */
static void touch_block(weir__sim_audit *audit, const weir__sim_clock *clock, weir__sim_op *op,
                        segment *s, uint64_t start, uint64_t end, bool write)
{
    block *owner = s->owner;
    uint64_t inside = end;
    if (end > owner->end) {
        char detail[64];
        (void)snprintf(detail, sizeof detail, "%" PRIu64 " bytes run past its end",
                       end - owner->end);
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
    if (end > inside && audit->direct != NULL && !audit->blind) {
        touch_direct(audit, clock, op, inside, end, write, true);
    }
}

/* Work on a range that begins where nothing may be touched; `s` is what is known there, or NULL. */
static void touch_nothing(weir__sim_audit *audit, weir__sim_op *op, const segment *s,
                          uint64_t start, uint64_t end)
{
    if (s != NULL) {
        report(audit, WEIR_SIM_USE_AFTER_FREE, start, end, s->owner->freed, op, "");
        return;
    }
    const segment *below = start > 0 ? segment_at(audit, start - 1) : NULL;
    const char *detail = audit->direct != NULL ? "no memory is there"
                         : below != NULL       ? "which ends just below"
                                               : "no block was ever there";
    report(audit, WEIR_SIM_OUTSIDE_BLOCK, start, end, below != NULL ? below->owner->alloc : NULL,
           op, detail);
}

/* Judges one range of one piece of work: may it be touched, and is that in order with what else touches it? */
static void touch(weir__sim_audit *audit, const weir__sim_clock *clock, weir__sim_op *op,
                  const weir_sim_access *access)
{
    uint64_t start = access->address;
    uint64_t end = end_of(start, access->size);
    if (end <= start) {
        return;
    }
    const given *there = NULL;
    segment *s = segment_at(audit, start);
    if (s != NULL && is_held(s->owner)) {
        touch_block(audit, clock, op, s, start, end, access->write);
    } else if (audit->direct != NULL && given_to(audit, start, end, &there) > start) {
        touch_direct(audit, clock, op, start, end, access->write, false);
    } else {
        touch_nothing(audit, op, s, start, end);
    }
}

/* Once for each piece of work, whichever of its ranges it is. */
static void judge_reach(weir__sim_audit *audit, const weir__sim_op *op, const weir_sim_access *accesses, size_t count)
{
    char detail[96] = "";
    for (size_t i = 0; i < count; i++) {
        if (accesses[i].size > 0 && !audit->reaches(&accesses[i], detail, sizeof detail)) {
            report(audit, WEIR_SIM_FOREIGN_MEMORY, accesses[i].address, end_of(accesses[i].address, accesses[i].size), NULL,
                   op, detail);
            return;
        }
    }
}

void weir__sim_audit_work(weir__sim_audit *audit, uint32_t number, const weir__sim_op_info *info,
                          const weir_sim_access *accesses, size_t access_count)
{
    if (is_blind(audit)) {
        return;
    }
    audit_stream *stream = stream_now(audit, number);
    if (stream == NULL) {
        return;
    }
    stream->last_work = ++stream->tick;
    stream->clock.ticks[number] = stream->tick;
    if (access_count == 0) {
        audit->operations++;
        return;
    }
    weir__sim_op *op = op_new(audit, number, info);
    for (size_t i = 0; i < access_count && !audit->blind; i++) {
        touch(audit, &stream->clock, op, &accesses[i]);
    }
    if (audit->reaches != NULL && !audit->blind) {
        judge_reach(audit, op, accesses, access_count);
    }
    op_release(audit, op);
}

/* --- blocks --- */

static block *uncover(weir__sim_audit *audit, uint64_t address)
{
    for (block **link = &audit->covered; *link != NULL; link = &(*link)->next) {
        block *b = *link;
        if (b->start == address) {
            *link = b->next;
            b->covered = false;
            return b;
        }
    }
    return NULL;
}

/* Judges the hand-out of one segment's bytes to the owner of `clock`. Returns whether the host had seen all work on
 * them complete. */
static bool judge_hand_out(weir__sim_audit *audit, const weir__sim_clock *clock, weir__sim_op *op,
                           segment *s, const block **reported)
{
    block *owner = s->owner;
    if (owner->live) {
        if (owner->start == s->range.start) {
            cover(audit, owner);
        }
        if (is_held(owner)) { /* else its region went away under it, which was said then */
            report(audit, WEIR_SIM_OVERLAP, s->range.start, s->range.end, owner->alloc, op, "");
        }
        return false;
    }
    weir__sim_op *earlier = conflict(s, clock, true, true);
    if (earlier != NULL && *reported != owner) {
        /* Once for each earlier block, in however many pieces it lies here. */
        *reported = owner;
        report(audit, WEIR_SIM_EARLY_REUSE, s->range.start, s->range.end, earlier, op, "");
    }
    return conflict(s, &audit->host, true, true) == NULL;
}

/* Clears [start, end) for a new owner, judging each earlier one. *reuse becomes a segment object to use again, still in
 * the set with all its content gone, or NULL. */
static bool hand_out(weir__sim_audit *audit, const weir__sim_clock *clock, weir__sim_op *op,
                     uint64_t start, uint64_t end, segment **reuse)
{
    const block *reported = NULL;
    bool idle = true;
    *reuse = NULL;
    for (segment *s = segment_from(audit, start); s != NULL && s->range.start < end;) {
        s = segment_cut(audit, s, start, end);
        if (s == NULL) {
            return false;
        }
        idle = judge_hand_out(audit, clock, op, s, &reported) && idle;
        segment *next = segment_next(s);
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

void weir__sim_audit_block_alloc(weir__sim_audit *audit, uint64_t address, uint64_t size,
                                 uint32_t number, const weir__sim_op_info *info)
{
    if (is_blind(audit)) {
        return;
    }
    const weir__sim_clock *clock = &audit->host;
    if (number != WEIR__SIM_HOST) {
        audit_stream *stream = stream_now(audit, number);
        if (stream == NULL) {
            return;
        }
        clock = &stream->clock;
    }
    uint64_t end = end_of(address, size == 0 ? 1 : size);
    weir__sim_op *op = op_new(audit, number, info);
    block *b = weir__sim_slab_get(&audit->blocks);
    segment *s = NULL;
    if (op == NULL || b == NULL || !hand_out(audit, clock, op, address, end, &s)) {
        go_blind(audit);
        return;
    }
    const given *beside = NULL;
    if (given_to(audit, address, end, &beside) < end || beside == NULL) {
        report(audit, WEIR_SIM_OUTSIDE_REGION, address, end, beside != NULL ? beside->op : NULL, op,
               beside != NULL ? "whose end it crosses" : "the device gave nothing there");
    }
    b->start = address;
    b->end = end;
    b->alloc = op; /* takes over the reference */
    b->freed = NULL;
    b->segments = 0;
    b->next = NULL;
    b->live = true;
    b->covered = false;
    if (s == NULL) {
        (void)segment_new(audit, address, end, b, op);
        return;
    }
    segment_take(audit, s, b, op);
    if (s->range.start != address || s->range.end != end) {
        s->range.start = address;
        s->range.end = end;
        weir__sim_ranges_resized(&s->range);
    }
}

/* The host says that a block is idle: has it seen the end of all that touches it? */
static void judge_host_free(weir__sim_audit *audit, const block *b, weir__sim_op *op)
{
    bool said = false;
    for (segment *s = segment_from(audit, b->start); s != NULL && s->range.start < b->end;
         s = segment_next(s)) {
        weir__sim_op *earlier = s->owner == b ? conflict(s, &audit->host, true, false) : NULL;
        if (earlier == NULL) {
            continue;
        }
        if (!said) {
            said = true;
            report(audit, WEIR_SIM_FREE_PENDING, s->range.start, s->range.end, earlier, op, "");
        }
        /* Whoever trusts the host's word from here on is not to blame. */
        op_release(audit, s->write);
        s->write = op_hold(op);
        reads_clear(audit, s);
    }
}

/* Ends a live block. Its segments stay, with the accesses of those who may not be done; but where its region is gone
 * already there is nothing left to hand out, and they go. */
static void block_free(weir__sim_audit *audit, block *b, weir__sim_op *op)
{
    b->live = false;
    b->segments++; /* holds it while its segments go */
    if (b->freed != NULL) {
        for (segment *s = segment_from(audit, b->start); s != NULL && s->range.start < b->end;) {
            segment *next = segment_next(s);
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
    if (is_blind(audit)) {
        return;
    }
    weir__sim_op *op = op_new(audit, number, info);
    if (op == NULL) {
        return;
    }
    if (number != WEIR__SIM_HOST) {
        op->bound = audit->streams[number].last_work;
    }
    segment *s = segment_at(audit, address);
    block *b = s != NULL && s->owner->live && s->owner->start == address ? s->owner : NULL;
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
        report(audit, WEIR_SIM_FOREIGN_FREE, address, address, inside ? s->owner->alloc : NULL, op,
               "");
    }
    op_release(audit, op);
}

/* --- regions --- */

void weir__sim_audit_given(weir__sim_audit *audit, uint64_t address, uint64_t size, bool mapped,
                           const weir__sim_op_info *info)
{
    if (is_blind(audit)) {
        return;
    }
    given *g = weir__sim_slab_get(&audit->given_slab);
    weir__sim_op *op = op_new(audit, WEIR__SIM_HOST, info);
    if (g == NULL || op == NULL) {
        go_blind(audit);
        return;
    }
    g->range.start = address;
    g->range.end = end_of(address, size);
    g->op = op;
    g->mapped = mapped;
    weir__sim_ranges_insert(&audit->givens, &g->range);
}

/* What was in memory that the device got back: live blocks lose it, the rest is forgotten. */
static void judge_taken(weir__sim_audit *audit, uint64_t start, uint64_t end, weir__sim_op *op)
{
    bool said_pending = false;
    for (segment *s = segment_from(audit, start); s != NULL && s->range.start < end;) {
        block *owner = s->owner;
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
        segment *next = segment_next(s);
        segment_remove(audit, s);
        s = next;
    }
}

void weir__sim_audit_taken(weir__sim_audit *audit, uint64_t address, uint64_t size,
                           const weir__sim_op_info *info)
{
    if (is_blind(audit)) {
        return;
    }
    weir__sim_op *op = op_new(audit, WEIR__SIM_HOST, info);
    if (op == NULL) {
        return;
    }
    judge_taken(audit, address, end_of(address, size), op);
    op_release(audit, op);
    given *g = (given *)(void *)weir__sim_ranges_floor(&audit->givens, address);
    if (g != NULL && g->range.start == address) {
        audit->last_given = NULL;
        weir__sim_ranges_remove(&audit->givens, &g->range);
        op_release(audit, g->op);
        weir__sim_slab_put(&audit->given_slab, g);
    }
}

/* --- leaks --- */

void weir__sim_audit_leaked(weir__sim_audit *audit, uint64_t address, uint64_t size,
                            const weir__sim_op_info *info)
{
    if (is_blind(audit)) {
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
    if (is_blind(audit)) {
        return;
    }
    for (weir__sim_range *r = weir__sim_ranges_first(&audit->segments); r != NULL;
         r = weir__sim_ranges_next(r)) {
        const block *b = ((segment *)(void *)r)->owner;
        if (b->live && b->freed == NULL && b->start == r->start) {
            report(audit, WEIR_SIM_LEAK, b->start, b->end, b->alloc, NULL, "");
        }
    }
    for (const block *b = audit->covered; b != NULL; b = b->next) {
        if (b->freed == NULL) {
            report(audit, WEIR_SIM_LEAK, b->start, b->end, b->alloc, NULL, "");
        }
    }
    for (weir__sim_range *r = weir__sim_ranges_first(&audit->givens); r != NULL;
         r = weir__sim_ranges_next(r)) {
        report(audit, WEIR_SIM_LEAK, r->start, r->end, ((given *)(void *)r)->op, NULL, "");
    }
}
