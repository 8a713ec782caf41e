/* core/src/record.c: records what a pool is asked, as a `.wtr` trace.
 *
 * Idea: each thread writes its events into a ring of its own; one atomic counter numbers all events
 * of a recorder, and the drain merges the rings by number. The order of the numbers is the order in
 * which it happened: when one event happens before another, its number is lower.
 *
 *     thread 1:  [1][2]   [5]        writes `tail`    \
 *     thread 2:        [3]   [6]     writes `tail`     >  drain writes `head`: 1 2 3 4 5 6
 *     thread 3:           [4]        writes `tail`    /
 *
 * Guarantees:
 *   - Nothing is out of order. An event takes its number before it becomes visible, so the drain
 *     stops at the first number that it does not see yet; whoever took it is about to publish it.
 *   - Nothing is lost in silence. A full ring drops the new event before it takes a number and
 *     counts it. The drain also drops and counts what makes no sense without a lost event: a free
 *     or a use of a block that the trace has not seen.
 *   - Every number taken is published, so only the end of a recording has to tolerate a gap (a
 *     thread that was killed between the two).
 *
 * Cost of an event: a clock reading, one addition to a shared counter, 64 bytes written; no lock.
 * A thread's first event for a recorder allocates its ring. The drain looks at every ring when the
 * next event comes from another thread.
 *
 * Lifetime: a ring is held by its recorder and by its thread, and whoever lets go last frees it.
 * The thread lets go when it ends, or when it looks for a ring and meets one whose recorder has
 * ended. Rings are found by the recorder's serial number, which is never used twice, so a new
 * recorder at an old one's address is not taken for it.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#endif

#include "internal.h"
#include "number_map.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEFAULT_RING_EVENTS 65536u
#define TEXT_BYTES 65536u /* handed to the sink at once, at most */
#define LINE_BYTES 512u   /* more than the longest line that a recorder writes */

/* An event as the hook knows it; numbers are not yet renumbered. */
typedef struct entry {
    uint64_t sequence;
    uint64_t time_ns;
    uint64_t id; /* block, or the event's address */
    uint64_t size;
    uint64_t align;
    uint64_t address;
    uint32_t stream;
    weir_trace_kind kind;
    weir_tag tag;
} entry;

/* Single producer (its thread), single consumer (the drain).
 * tail - head = events held, at most the capacity; both only grow. */
typedef struct ring {
    struct ring *next;         /* of the recorder; set before the ring is published */
    struct ring *next_of_mine; /* of the thread; only it reads and writes this */
    uint64_t serial;           /* of the recorder */
    atomic_int holders;        /* recorder and thread */
    atomic_bool thread_gone;   /* nothing more will be written */
    atomic_bool recorder_gone; /* `entries` are freed */
    uint32_t thread;           /* number of the thread in the trace */
    size_t mask;
    entry *entries;
    _Alignas(64) _Atomic uint64_t head; /* written by the drain */
    _Alignas(64) _Atomic uint64_t tail; /* written by the thread */
} ring;

/* A block that was live when the recording began. */
typedef struct prior {
    uint64_t id;
    uint64_t size;
    uint64_t address;
    uint32_t stream;
} prior;

struct weir_recorder {
    /* What the hooks touch. */
    uint64_t serial;
    uint64_t start_ns;
    size_t ring_capacity; /* a power of two */
    _Atomic(ring *) rings;
    atomic_uint threads; /* how many have had a ring */
    _Atomic uint64_t lost;
    _Alignas(64) _Atomic uint64_t sequence; /* the next number to take */

    /* What the drain touches, under its lock. */
    pthread_mutex_t lock;
    weir_pool *pool;
    weir_record_sink sink;
    void *sink_ctx;
    char *source;
    weir_device_info device;
    prior *priors;
    size_t prior_count;
    size_t prior_room;
    bool begun;        /* the header is written */
    bool sink_failed;
    uint64_t next; /* every number below has been written or dropped */
    uint64_t last_time_ns;
    weir__number_map live;    /* blocks that the trace has seen and not freed */
    weir__number_map streams; /* the pool's number -> ours + 1 */
    weir__number_map events;  /* address -> our number + 1 */
    weir__number_map tags;    /* likewise, the pool's number -> ours; those in it have their @ line */
    size_t text_length;
    uint64_t text_events; /* events in `text`: lost when the sink refuses it */
    char text[TEXT_BYTES];
};

/* --- rings and threads --- */

/* The rings of the calling thread, the one used last in front. Thread-local data and the key that
 * tells of a thread's end are per process by nature; they carry no state of any pool. */
static _Thread_local ring *rings_of_thread;
static pthread_key_t thread_end_key;
static pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;
static bool thread_end_known;
static _Atomic uint64_t last_serial;

static void ring_release(ring *r)
{
    if (atomic_fetch_sub_explicit(&r->holders, 1, memory_order_acq_rel) == 1) {
        free(r->entries);
        free(r);
    }
}

/* The thread ends. What its rings hold stays until it is drained. */
static void release_rings_of_thread(void *unused)
{
    (void)unused;
    while (rings_of_thread != NULL) {
        ring *const r = rings_of_thread;
        rings_of_thread = r->next_of_mine;
        atomic_store_explicit(&r->thread_gone, true, memory_order_release);
        ring_release(r);
    }
}

static void make_thread_end_key(void)
{
    thread_end_known = pthread_key_create(&thread_end_key, release_rings_of_thread) == 0;
}

static ring *ring_new(weir_recorder *recorder)
{
    ring *const r = aligned_alloc(_Alignof(ring), sizeof *r);
    entry *const entries = malloc(recorder->ring_capacity * sizeof *entries);
    if (r == NULL || entries == NULL) {
        free(r);
        free(entries);
        return NULL;
    }
    memset(r, 0, sizeof *r);
    r->serial = recorder->serial;
    r->mask = recorder->ring_capacity - 1;
    r->entries = entries;
    atomic_init(&r->holders, 2);
    return r;
}

/* Without notice of the thread's end the ring could never be let go, so there is none then. */
static ring *ring_for_new_thread(weir_recorder *recorder)
{
    pthread_once(&thread_end_once, make_thread_end_key);
    if (!thread_end_known || pthread_setspecific(thread_end_key, recorder) != 0) {
        return NULL;
    }
    ring *const r = ring_new(recorder);
    if (r == NULL) {
        return NULL;
    }
    r->thread = atomic_fetch_add_explicit(&recorder->threads, 1, memory_order_relaxed);
    r->next_of_mine = rings_of_thread;
    rings_of_thread = r;
    r->next = atomic_load_explicit(&recorder->rings, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&recorder->rings, &r->next, r,
                                                  memory_order_release, memory_order_relaxed)) {
    }
    return r;
}

/* Finds this thread's ring, moves it to the front, and lets go of those that lead nowhere. */
static ring *ring_search(weir_recorder *recorder)
{
    ring **link = &rings_of_thread;
    while (*link != NULL) {
        ring *const r = *link;
        if (r->serial == recorder->serial) {
            *link = r->next_of_mine;
            r->next_of_mine = rings_of_thread;
            rings_of_thread = r;
            return r;
        }
        if (atomic_load_explicit(&r->recorder_gone, memory_order_acquire)) {
            *link = r->next_of_mine;
            ring_release(r);
        } else {
            link = &r->next_of_mine;
        }
    }
    return ring_for_new_thread(recorder);
}

static ring *ring_of(weir_recorder *recorder)
{
    ring *const r = rings_of_thread;
    return r != NULL && r->serial == recorder->serial ? r : ring_search(recorder);
}

/* --- hooks --- */

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void count_lost(weir_recorder *recorder, uint64_t events)
{
    atomic_fetch_add_explicit(&recorder->lost, events, memory_order_relaxed);
}

/* The time is read before the number is taken: a thread that is held up in between gets a time that
 * is too early, which the drain raises to its predecessor's, and not one that is too late, which
 * would push everything after it. */
static void record(weir_recorder *recorder, entry event)
{
    ring *const r = ring_of(recorder);
    if (r == NULL) {
        count_lost(recorder, 1);
        return;
    }
    const uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    if (tail - atomic_load_explicit(&r->head, memory_order_acquire) > r->mask) {
        count_lost(recorder, 1);
        return;
    }
    event.time_ns = clock_ns() - recorder->start_ns;
    /* Relaxed is enough: additions to one atomic agree with happens-before. */
    event.sequence = atomic_fetch_add_explicit(&recorder->sequence, 1, memory_order_relaxed);
    r->entries[tail & r->mask] = event;
    atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
}

void weir__record_alloc(weir_recorder *recorder, uint64_t block_id, uint64_t size, uint64_t align,
                        uint32_t stream_number, uint64_t address, weir_tag tag)
{
    record(recorder, (entry){.kind = WEIR_TRACE_ALLOC,
                             .id = block_id,
                             .size = size,
                             .align = align,
                             .address = address,
                             .stream = stream_number,
                             .tag = tag});
}

void weir__record_free(weir_recorder *recorder, uint64_t block_id, uint32_t stream_number)
{
    record(recorder, (entry){.kind = WEIR_TRACE_FREE, .id = block_id, .stream = stream_number});
}

void weir__record_use(weir_recorder *recorder, uint64_t block_id, uint32_t stream_number)
{
    record(recorder, (entry){.kind = WEIR_TRACE_USE, .id = block_id, .stream = stream_number});
}

void weir__record_event(weir_recorder *recorder, weir_trace_kind kind, const void *event,
                        uint32_t stream_number)
{
    record(recorder, (entry){.kind = kind, .id = (uintptr_t)event, .stream = stream_number});
}

void weir__record_trim(weir_recorder *recorder)
{
    record(recorder, (entry){.kind = WEIR_TRACE_TRIM, .stream = WEIR_TRACE_NONE});
}

/* --- text --- */

/* Hands the collected lines to the sink. When it refuses, the events among them are lost and so is
 * everything later: the drain then only empties the rings. */
static void text_flush(weir_recorder *recorder)
{
    if (recorder->text_length != 0 && !recorder->sink_failed) {
        recorder->sink_failed =
            !recorder->sink(recorder->sink_ctx, recorder->text, recorder->text_length);
        if (recorder->sink_failed) {
            count_lost(recorder, recorder->text_events);
        }
    }
    recorder->text_length = 0;
    recorder->text_events = 0;
}

/* Where the next line may be written: at least LINE_BYTES. */
static char *text_room(weir_recorder *recorder)
{
    if (TEXT_BYTES - recorder->text_length < LINE_BYTES) {
        text_flush(recorder);
    }
    return recorder->text + recorder->text_length;
}

__attribute__((format(printf, 2, 3))) static void text_add(weir_recorder *recorder,
                                                           const char *format, ...)
{
    char *const room = text_room(recorder);
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(room, LINE_BYTES, format, arguments);
    va_end(arguments);
    if (length > 0) {
        recorder->text_length += (size_t)length < LINE_BYTES ? (size_t)length : LINE_BYTES - 1;
    }
}

static void text_add_event(weir_recorder *recorder, const weir_trace_event *event)
{
    char *const room = text_room(recorder);
    recorder->text_length += weir_trace_format(event, room, LINE_BYTES);
    recorder->text_events += event->kind != WEIR_TRACE_PRIOR;
}

/* --- from the hook's numbers to the trace's --- */

/* Numbers in the order of first appearance, from 0. False when there is no memory. */
static bool renumber(weir__number_map *numbers, uint64_t key, uint64_t *number)
{
    uint64_t found = weir__number_map_get(numbers, key);
    if (found == 0) {
        found = numbers->count + 1;
        if (!weir__number_map_put(numbers, key, found)) {
            return false;
        }
    }
    *number = found - 1;
    return true;
}

static bool renumber_stream(weir_recorder *recorder, uint32_t stream, uint32_t *number)
{
    uint64_t found = WEIR_TRACE_NONE;
    if (stream != WEIR_TRACE_NONE && !renumber(&recorder->streams, stream, &found)) {
        return false;
    }
    *number = (uint32_t)found;
    return true;
}

/* A tag gets its line before the first event that has it. */
static bool renumber_tag(weir_recorder *recorder, weir_tag tag, uint32_t *number)
{
    const size_t known = recorder->tags.count;
    uint64_t found = WEIR_TRACE_NONE;
    if (tag != 0 && !renumber(&recorder->tags, tag, &found)) {
        return false;
    }
    if (recorder->tags.count > known) {
        text_add(recorder, "@%" PRIu64 " %s\n", found, weir__tag_name(recorder->pool, tag));
    }
    *number = (uint32_t)found;
    return true;
}

static bool is_live(const weir_recorder *recorder, uint64_t id)
{
    return weir__number_map_get(&recorder->live, id) != 0;
}

static char sync_mode(const entry *event)
{
    if (event->id != 0) {
        return 'e';
    }
    return event->stream != WEIR_TRACE_NONE ? 's' : '*';
}

typedef enum verdict {
    WRITE, /* it is the next line */
    KNOWN, /* the trace says so already */
    DROP   /* it makes no sense here; lost */
} verdict;

/* Keeps `live` in step with the lines. An alloc may come for a block that is live already: it was
 * under way when the recording began and has a `p` line. */
static verdict account_block(weir_recorder *recorder, const entry *event)
{
    switch (event->kind) {
    case WEIR_TRACE_ALLOC:
        if (is_live(recorder, event->id)) {
            return KNOWN;
        }
        return weir__number_map_put(&recorder->live, event->id, 1) ? WRITE : DROP;
    case WEIR_TRACE_FREE:
        return weir__number_map_take(&recorder->live, event->id) != 0 ? WRITE : DROP;
    case WEIR_TRACE_USE:
        return is_live(recorder, event->id) ? WRITE : DROP;
    default:
        return WRITE;
    }
}

/* The entry as the trace tells it. */
static verdict translate(weir_recorder *recorder, const entry *event, uint32_t thread,
                         weir_trace_event *line)
{
    *line = (weir_trace_event){.kind = event->kind,
                               .thread = thread,
                               .tag = WEIR_TRACE_NONE,
                               .pool = WEIR_TRACE_NONE,
                               .id = event->id,
                               .size = event->size,
                               .extra = event->align,
                               .address = event->address};
    if (!renumber_stream(recorder, event->stream, &line->stream) ||
        !renumber_tag(recorder, event->tag, &line->tag)) {
        return DROP;
    }
    if (event->kind == WEIR_TRACE_SYNC) {
        line->mode = sync_mode(event);
    }
    const bool names_event = event->kind == WEIR_TRACE_RECORD || event->kind == WEIR_TRACE_WAIT ||
                             line->mode == 'e';
    if (names_event && !renumber(&recorder->events, event->id, &line->id)) {
        return DROP;
    }
    return account_block(recorder, event);
}

static void write_entry(weir_recorder *recorder, const entry *event, uint32_t thread)
{
    if (recorder->sink_failed) {
        count_lost(recorder, 1);
        return;
    }
    weir_trace_event line;
    const verdict what = translate(recorder, event, thread, &line);
    if (what == DROP) {
        count_lost(recorder, 1);
    }
    if (what != WRITE) {
        return;
    }
    if (event->time_ns > recorder->last_time_ns) {
        recorder->last_time_ns = event->time_ns;
    }
    line.time_ns = recorder->last_time_ns;
    text_add_event(recorder, &line);
}

/* --- the beginning of the trace --- */

/* While the pool is locked: only notes the block. One that cannot be noted is a lost event, and its
 * free will be one too. Giving up instead would take the recorder away from hooks that may already
 * be using it. */
static void note_prior(void *ctx, uint64_t block_id, uint64_t size, uint32_t stream_number,
                       uint64_t address)
{
    weir_recorder *const recorder = ctx;
    if (recorder->prior_count == recorder->prior_room) {
        const size_t room = recorder->prior_room != 0 ? recorder->prior_room * 2 : 64;
        prior *const larger = realloc(recorder->priors, room * sizeof *larger);
        if (larger == NULL) {
            count_lost(recorder, 1);
            return;
        }
        recorder->priors = larger;
        recorder->prior_room = room;
    }
    recorder->priors[recorder->prior_count++] =
        (prior){.id = block_id, .size = size, .address = address, .stream = stream_number};
}

static int by_address(const void *left, const void *right)
{
    const prior *const a = left;
    const prior *const b = right;
    return (a->address > b->address) - (a->address < b->address);
}

static void write_prior(weir_recorder *recorder, const prior *block)
{
    weir_trace_event line = {.kind = WEIR_TRACE_PRIOR,
                             .tag = WEIR_TRACE_NONE,
                             .pool = WEIR_TRACE_NONE,
                             .id = block->id,
                             .size = block->size,
                             .address = block->address};
    if (!renumber_stream(recorder, block->stream, &line.stream) ||
        !weir__number_map_put(&recorder->live, block->id, 1)) {
        count_lost(recorder, 1);
        return;
    }
    text_add_event(recorder, &line);
}

static void write_device(weir_recorder *recorder)
{
    const weir_device_info *const device = &recorder->device;
    text_add(recorder, "#dev 0");
    if (device->capacity_bytes != 0) {
        text_add(recorder, " cap=%" PRIu64, device->capacity_bytes);
    }
    text_add(recorder, " gran=%" PRIu64, device->region_granularity_bytes);
    if (device->name[0] != '\0') {
        text_add(recorder, " name=\"%s\"", device->name);
    }
    text_add(recorder, "\n");
}

/* Written by the first drain, since nothing else may call the sink. */
static void write_beginning(weir_recorder *recorder)
{
    if (recorder->begun) {
        return;
    }
    recorder->begun = true;
    text_add(recorder, "#wtr 1\n");
    text_add(recorder, "#src %.400s\n", recorder->source);
    text_add(recorder, "#clock ns\n");
    write_device(recorder);
    for (size_t i = 0; i < recorder->prior_count; i++) {
        write_prior(recorder, &recorder->priors[i]);
    }
    free(recorder->priors);
    recorder->priors = NULL;
    recorder->prior_count = 0;
}

/* --- the drain --- */

/* The oldest event of a ring, NULL when it is empty. */
static const entry *ring_peek(const ring *r)
{
    const uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    const uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
    return head != tail ? &r->entries[head & r->mask] : NULL;
}

static void ring_pop(ring *r)
{
    const uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    atomic_store_explicit(&r->head, head + 1, memory_order_release);
}

static ring *first_ring(weir_recorder *recorder)
{
    return atomic_load_explicit(&recorder->rings, memory_order_acquire);
}

static ring *ring_with_earliest(weir_recorder *recorder)
{
    ring *best = NULL;
    uint64_t earliest = UINT64_MAX;
    for (ring *r = first_ring(recorder); r != NULL; r = r->next) {
        const entry *const event = ring_peek(r);
        if (event != NULL && event->sequence < earliest) {
            earliest = event->sequence;
            best = r;
        }
    }
    return best;
}

static bool is_next(const weir_recorder *recorder, const ring *r)
{
    const entry *const event = r != NULL ? ring_peek(r) : NULL;
    return event != NULL && event->sequence == recorder->next;
}

/* Merges what the rings hold, up to what had begun when it was called, so that it ends while others
 * go on recording. `complete`: no hook is running any more, so a number that is missing is missing
 * for good. */
static void merge(weir_recorder *recorder, bool complete)
{
    const uint64_t end = atomic_load_explicit(&recorder->sequence, memory_order_relaxed);
    ring *r = NULL;
    while (recorder->next < end) {
        if (!is_next(recorder, r)) {
            r = ring_with_earliest(recorder);
        }
        if (!complete && !is_next(recorder, r)) {
            return;
        }
        if (r == NULL) {
            count_lost(recorder, end - recorder->next);
            return;
        }
        const entry *const event = ring_peek(r);
        count_lost(recorder, event->sequence - recorder->next);
        recorder->next = event->sequence + 1;
        write_entry(recorder, event, r->thread);
        ring_pop(r);
    }
}

/* Rings of ended threads are let go once they are empty. The first of the list stays until another
 * is put before it: only the rest of the list is the drain's alone. */
static void drop_finished_rings(weir_recorder *recorder)
{
    ring *before = first_ring(recorder);
    while (before != NULL && before->next != NULL) {
        ring *const r = before->next;
        if (atomic_load_explicit(&r->thread_gone, memory_order_acquire) && ring_peek(r) == NULL) {
            before->next = r->next;
            ring_release(r);
        } else {
            before = r;
        }
    }
}

static weir_status drain_locked(weir_recorder *recorder, bool complete)
{
    write_beginning(recorder);
    merge(recorder, complete);
    drop_finished_rings(recorder);
    text_flush(recorder);
    return recorder->sink_failed ? WEIR_ERR_DEVICE : WEIR_OK;
}

static uint64_t lost_so_far(const weir_recorder *recorder)
{
    return atomic_load_explicit(&recorder->lost, memory_order_relaxed);
}

weir_status weir_recorder_drain(weir_recorder *recorder, uint64_t *lost)
{
    if (recorder == NULL) {
        return WEIR_ERR_INVALID;
    }
    pthread_mutex_lock(&recorder->lock);
    const weir_status status = drain_locked(recorder, false);
    pthread_mutex_unlock(&recorder->lock);
    if (lost != NULL) {
        *lost = lost_so_far(recorder);
    }
    return status;
}

/* --- beginning and end --- */

/* A header line must stay one line, and a name must not end its quotes. */
static void make_one_line(char *text)
{
    for (char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == '"') {
            *c = '?';
        }
    }
}

static char *copy_text(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *const copy = malloc(size);
    if (copy != NULL) {
        memcpy(copy, text, size);
        make_one_line(copy);
    }
    return copy;
}

static size_t power_of_two_at_least(uint32_t count)
{
    size_t power = 1;
    while (power < count) {
        power *= 2;
    }
    return power;
}

/* The threads' rings outlive the recorder by their small part: the entries go at once. Nobody is
 * writing to them, because the pool is not in use by others. */
static void release_rings(weir_recorder *recorder)
{
    ring *r = first_ring(recorder);
    while (r != NULL) {
        ring *const next = r->next;
        free(r->entries);
        r->entries = NULL;
        atomic_store_explicit(&r->recorder_gone, true, memory_order_release);
        ring_release(r);
        r = next;
    }
}

static void recorder_free(weir_recorder *recorder)
{
    release_rings(recorder);
    weir__number_map_fini(&recorder->live);
    weir__number_map_fini(&recorder->streams);
    weir__number_map_fini(&recorder->events);
    weir__number_map_fini(&recorder->tags);
    pthread_mutex_destroy(&recorder->lock);
    free(recorder->priors);
    free(recorder->source);
    free(recorder);
}

static weir_recorder *recorder_new(weir_pool *pool, const weir_recorder_config *config)
{
    weir_recorder *const recorder = aligned_alloc(_Alignof(weir_recorder), sizeof *recorder);
    char *const source = copy_text(config->source != NULL ? config->source : "weir pool");
    if (recorder == NULL || source == NULL) {
        free(recorder);
        free(source);
        return NULL;
    }
    memset(recorder, 0, sizeof *recorder);
    if (pthread_mutex_init(&recorder->lock, NULL) != 0) {
        free(recorder);
        free(source);
        return NULL;
    }
    const uint32_t wanted = config->ring_events != 0 ? config->ring_events : DEFAULT_RING_EVENTS;
    recorder->serial = atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed) + 1;
    recorder->ring_capacity = power_of_two_at_least(wanted);
    recorder->pool = pool;
    recorder->sink = config->sink;
    recorder->sink_ctx = config->sink_ctx;
    recorder->source = source;
    recorder->device = *weir__pool_device_info(pool);
    make_one_line(recorder->device.name);
    recorder->start_ns = clock_ns();
    return recorder;
}

/* Tells the pool, which lists its live blocks meanwhile. */
static weir_status begin(weir_recorder *recorder)
{
    const weir_status status =
        weir__pool_set_recorder(recorder->pool, recorder, note_prior, recorder);
    if (status == WEIR_OK && recorder->prior_count != 0) {
        qsort(recorder->priors, recorder->prior_count, sizeof *recorder->priors, by_address);
    }
    return status;
}

weir_status weir_recorder_start(weir_pool *pool, const weir_recorder_config *config,
                                weir_recorder **recorder)
{
    if (pool == NULL || config == NULL || recorder == NULL) {
        return WEIR_ERR_INVALID;
    }
    weir_recorder_config known;
    weir_status status = weir__config_adopt(&known, sizeof known, config);
    if (status != WEIR_OK) {
        return status;
    }
    if (known.sink == NULL) {
        return WEIR_ERR_INVALID;
    }
    weir_recorder *const self = recorder_new(pool, &known);
    if (self == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    status = begin(self);
    if (status != WEIR_OK) {
        recorder_free(self);
        return status;
    }
    *recorder = self;
    return WEIR_OK;
}

weir_status weir_recorder_stop(weir_recorder *recorder, uint64_t *lost)
{
    if (recorder == NULL) {
        return WEIR_ERR_INVALID;
    }
    weir_status status = weir__pool_set_recorder(recorder->pool, NULL, NULL, NULL);
    if (status != WEIR_OK) {
        return status;
    }
    pthread_mutex_lock(&recorder->lock);
    status = drain_locked(recorder, true);
    const uint64_t lost_events = lost_so_far(recorder);
    if (status == WEIR_OK && lost_events != 0) {
        text_add(recorder, "#note lost %" PRIu64 " events\n", lost_events);
        text_flush(recorder);
        status = recorder->sink_failed ? WEIR_ERR_DEVICE : WEIR_OK;
    }
    pthread_mutex_unlock(&recorder->lock);
    if (lost != NULL) {
        *lost = lost_events;
    }
    recorder_free(recorder);
    return status;
}
