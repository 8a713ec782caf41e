/* order.c: which work of which stream is known to be complete.
 *
 * Idea: vector clocks over the streams that take part. Lines sit in slots, and a serial number contains the slot, so
 * that one comparison tells a line from a later one in its slot. A line is gone when its stream is; its stamps then
 * count as seen. Clocks and the marks of recordings name lines by serial and drop lines that are gone when they are
 * merged. Guarantee: an order is claimed only if the streams' own waits, or the host's, make it. Cost: a wait and a
 * recording take a step for each known stream.
 */
#include "memory/order.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    uint64_t serial;
    uint64_t tick;
};

struct clock {
    struct entry *entries;
    size_t count;
    size_t capacity;
};

struct acl__line {
    acl__stream *stream; /* valid while its id is `id` */
    int32_t id;
    uint64_t serial;
    uint64_t tick; /* number of allocations and frees on the stream up to now */
    uint64_t seen; /* the host knows that all work up to this tick is complete */
    struct clock knows;
};

/* The order that an event's latest recording carries: for each known stream, the last tick that comes before it. */
struct mark {
    struct mark *next;
    const void *event;
    size_t count;
    struct entry entries[];
};

enum { SLOT_BITS = 20, BUCKETS = 1024 };

static acl__line **lines;
static size_t line_count;
static uint64_t last_serial;
static struct mark *marks[BUCKETS];

/* --- lines --- */

static bool is_gone(const acl__line *line)
{
    return !line->stream->live || line->stream->id != line->id;
}

static acl__line *line_by(uint64_t serial)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const size_t slot = serial & ((1 << SLOT_BITS) - 1);
    acl__line *line = slot < line_count ? lines[slot] : NULL;
    return line != NULL && line->serial == serial && !is_gone(line) ? line : NULL;
}

static acl__line *line_find(const acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    for (size_t i = 0; i < line_count; i++) {
        if (lines[i] != NULL && lines[i]->stream == stream && lines[i]->id == stream->id) {
            return lines[i];
        }
    }
    return NULL;
}

/* Finds an entry of `lines` that is empty or belongs to a destroyed stream; if there is none, adds entries. Returns
 * false when out of host memory. */
static bool slot_get(size_t *slot)
{
    WEIR_ASSERT_HELD(acl__mutex());
    for (size_t i = 0; i < line_count; i++) {
        if (lines[i] == NULL || is_gone(lines[i])) {
            if (lines[i] != NULL) {
                free(lines[i]->knows.entries);
                free(lines[i]);
                lines[i] = NULL;
            }
            *slot = i;
            return true;
        }
    }
    const size_t capacity = line_count == 0 ? 16 : line_count * 2;
    acl__line **grown = capacity <= (size_t)1 << SLOT_BITS ? realloc(lines, capacity * sizeof(acl__line *)) : NULL;
    if (grown == NULL) {
        return false;
    }
    memset(grown + line_count, 0, (capacity - line_count) * sizeof(acl__line *));
    lines = grown;
    *slot = line_count;
    line_count = capacity;
    return true;
}

acl__line *acl__line_of(acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(stream->live);
    size_t slot = 0;
    acl__line *line = line_find(stream);
    if (line == NULL && slot_get(&slot)) {
        line = calloc(1, sizeof(*line));
        if (line != NULL) {
            line->stream = stream;
            line->id = stream->id;
            line->serial = (++last_serial << SLOT_BITS) + slot;
            lines[slot] = line;
        }
    }
    return line;
}

uint64_t acl__line_serial(const acl__line *line)
{
    return line->serial;
}

/* --- knowledge of a line --- */

static uint64_t known_tick(const acl__line *line, uint64_t serial)
{
    for (size_t i = 0; i < line->knows.count; i++) {
        if (line->knows.entries[i].serial == serial) {
            return line->knows.entries[i].tick;
        }
    }
    return 0;
}

static struct entry *entry_new(struct clock *clock)
{
    WEIR_ASSERT(clock->count <= clock->capacity);
    /* Reuse the entry of a destroyed stream. */
    for (size_t i = 0; i < clock->count; i++) {
        if (line_by(clock->entries[i].serial) == NULL) {
            return &clock->entries[i];
        }
    }
    if (clock->count == clock->capacity) {
        const size_t capacity = clock->capacity == 0 ? 8 : clock->capacity * 2;
        struct entry *grown = realloc(clock->entries, capacity * sizeof(*grown));
        if (grown == NULL) {
            return NULL;
        }
        clock->entries = grown;
        clock->capacity = capacity;
    }
    return &clock->entries[clock->count++];
}

static void learn(acl__line *line, uint64_t serial, uint64_t tick)
{
    WEIR_ASSERT_HELD(acl__mutex());
    if (serial == line->serial || tick == 0 || line_by(serial) == NULL) {
        return;
    }
    struct entry *known = NULL;
    for (size_t i = 0; i < line->knows.count && known == NULL; i++) {
        known = line->knows.entries[i].serial == serial ? &line->knows.entries[i] : NULL;
    }
    if (known == NULL) {
        known = entry_new(&line->knows);
        if (known == NULL) {
            return;
        }
        *known = (struct entry){.serial = serial};
    }
    known->tick = tick > known->tick ? tick : known->tick;
}

static void host_sees(uint64_t serial, uint64_t tick)
{
    acl__line *line = line_by(serial);
    WEIR_ASSERT(line == NULL || tick <= line->tick);
    if (line != NULL && tick > line->seen) {
        line->seen = tick;
    }
}

static void stream_seen(const acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__line *line = line_find(stream);
    if (line == NULL) {
        return;
    }
    line->seen = line->tick;
    for (size_t i = 0; i < line->knows.count; i++) {
        host_sees(line->knows.entries[i].serial, line->knows.entries[i].tick);
    }
}

/* --- events --- */

static struct mark **mark_link(const void *event)
{
    WEIR_ASSERT_HELD(acl__mutex());
    struct mark **link = &marks[(uintptr_t)event / 16 % BUCKETS];
    while (*link != NULL && (*link)->event != event) {
        link = &(*link)->next;
    }
    return link;
}

static void forget(const void *event)
{
    struct mark **link = mark_link(event);
    struct mark *m = *link;
    if (m != NULL) {
        *link = m->next;
        free(m);
    }
}

static void event_recorded(const void *event, acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const acl__line *line = line_find(stream);
    forget(event);
    if (line == NULL) {
        return;
    }
    struct mark *m = malloc(sizeof(*m) + (line->knows.count + 1) * sizeof(struct entry));
    if (m == NULL) {
        return;
    }
    m->event = event;
    m->count = line->knows.count + 1;
    m->entries[0] = (struct entry){.serial = line->serial, .tick = line->tick};
    if (line->knows.count > 0) {
        memcpy(&m->entries[1], line->knows.entries, line->knows.count * sizeof(struct entry));
    }
    struct mark **bucket = &marks[(uintptr_t)event / 16 % BUCKETS];
    m->next = *bucket;
    *bucket = m;
}

static void event_waited(acl__stream *stream, const void *event)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const struct mark *m = *mark_link(event);
    acl__line *line = m != NULL ? acl__line_of(stream) : NULL;
    for (size_t i = 0; line != NULL && i < m->count; i++) {
        learn(line, m->entries[i].serial, m->entries[i].tick);
    }
}

static void event_seen(const void *event)
{
    const struct mark *m = *mark_link(event);
    for (size_t i = 0; m != NULL && i < m->count; i++) {
        host_sees(m->entries[i].serial, m->entries[i].tick);
    }
}

void acl__order_begin(void)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__rt.above.stream_seen = stream_seen;
    acl__rt.above.event_seen = event_seen;
    acl__rt.above.recorded = event_recorded;
    acl__rt.above.waited = event_waited;
}

/* --- stamps --- */

acl__stamp acl__stamp_make(acl__line *line, bool recorded)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(!is_gone(line));
    aclError error = ACL_SUCCESS;
    return (acl__stamp){.serial = line->serial,
                        .tick = ++line->tick,
                        .record = recorded ? acl__record_queue(line->stream, &error) : NULL};
}

acl__stamp acl__stamp_copy(const acl__stamp *stamp)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(stamp->record == NULL || stamp->record->references > 0);
    if (stamp->record != NULL) {
        stamp->record->references++;
    }
    return *stamp;
}

void acl__stamp_drop(acl__stamp *stamp)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__record_release(stamp->record);
    *stamp = (acl__stamp){.serial = 0};
}

bool acl__stamp_is_seen(const acl__stamp *stamp)
{
    const acl__line *line = line_by(stamp->serial);
    return line == NULL || line->seen >= stamp->tick;
}

bool acl__stamp_is_before(const acl__stamp *stamp, const acl__line *line)
{
    return stamp->serial == line->serial || known_tick(line, stamp->serial) >= stamp->tick || acl__stamp_is_seen(stamp);
}

/* Returns a recording after the stamp's work: the stamp's own or a new one at the stream's end. NULL on failure. */
static acl__record *record_for(acl__stamp *stamp)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const acl__line *line = line_by(stamp->serial);
    aclError error = ACL_SUCCESS;
    if (stamp->record == NULL && line != NULL) {
        stamp->record = acl__record_queue(line->stream, &error);
    }
    return stamp->record;
}

bool acl__stamp_look(acl__stamp *stamp)
{
    if (acl__stamp_is_seen(stamp)) {
        return true;
    }
    const acl__record *record = record_for(stamp);
    bool complete = false;
    if (record == NULL) {
        return false;
    }
    if (record->dropped) {
        complete = true;
    } else if (record->submitted && record->time_ns <= weir_sim_now(acl__rt.sim) &&
               weir_device_event_query(acl__rt.memory, record->sim, &complete) != WEIR_OK) {
        complete = false;
    }
    if (complete) {
        host_sees(stamp->serial, stamp->tick);
    }
    return complete;
}

bool acl__stamp_await(acl__stamp *stamp)
{
    WEIR_ASSERT_HELD(acl__mutex());
    if (acl__stamp_look(stamp)) {
        return true;
    }
    const acl__record *record = stamp->record;
    if (record == NULL || !record->submitted || weir_device_event_sync(acl__rt.memory, record->sim) != WEIR_OK) {
        return false;
    }
    host_sees(stamp->serial, stamp->tick);
    return true;
}

bool acl__stamp_join(acl__stamp *stamp, acl__line *line)
{
    WEIR_ASSERT_HELD(acl__mutex());
    if (acl__stamp_is_before(stamp, line)) {
        return true;
    }
    acl__record *record = record_for(stamp);
    if (record == NULL || acl__record_wait_queue(line->stream, record) != ACL_SUCCESS) {
        return false;
    }
    learn(line, stamp->serial, stamp->tick);
    return true;
}
