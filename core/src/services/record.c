/* core/src/services/record.c: records the calls to a pool, or events that a caller notes, as a `.wtr` trace.
 *
 * Idea: a thread that has an event puts it into its own ring (record_ring.h). A drain merges the rings and writes their
 * events as text (record_text.h), to the caller's sink or to a file (record_file.c).
 *
 * Guarantee: events stay in order, and no event is lost uncounted. A full ring drops the new event and counts it. If
 * the recorder writes to a file, the thread with the full ring drains first instead.
 *
 * A pool is recorded by an observer of it (weir/observer.h), which names a block by its address. The text gives each
 * life of a block a number of its own.
 *
 * Cost of an event: see record_ring.h. Without a recorder: a branch in the pool.
 */
#include "record_internal.h"
#include "shared/assert.h"
#include "shared/hold.h"

#include <weir/budget.h>
#include <weir/observer.h>

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { most_devices = 4096 }; /* in one trace */

static void count_lost(weir_recorder *recorder, uint64_t events)
{
    atomic_fetch_add_explicit(&recorder->lost, events, memory_order_relaxed);
}

/* --- the drain --- */

static int by_address(const void *left, const void *right)
{
    const weir__prior *const a = left;
    const weir__prior *const b = right;
    return (a->address > b->address) - (a->address < b->address);
}

/* Writes the header and the blocks that were live when the recording began. Called by the first drain, because only a
 * drain may call the sink. */
static void write_beginning(weir_recorder *recorder)
{
    WEIR_ASSERT(recorder->begun || recorder->text.length == 0);
    if (recorder->begun) {
        return;
    }
    recorder->begun = true;
    weir__record_text_begin(&recorder->text, recorder->source,
                            recorder->device.struct_size != 0 ? &recorder->device : NULL);
    if (recorder->prior_count != 0) {
        qsort(recorder->priors, recorder->prior_count, sizeof(*recorder->priors), by_address);
    }
    for (size_t i = 0; i < recorder->prior_count; i++) {
        const weir__prior *const block = &recorder->priors[i];
        const weir__record_entry line = {.kind = WEIR_TRACE_PRIOR,
                                         .id = block->id,
                                         .size = block->size,
                                         .address = block->address,
                                         .device = block->device,
                                         .stream = block->stream};
        weir__record_text_add(&recorder->text, &line, 0);
    }
    free(recorder->priors);
    recorder->priors = NULL;
    recorder->prior_count = 0;
}

static void take_event(void *ctx, const weir__record_entry *event, uint32_t thread)
{
    weir_recorder *const recorder = ctx;
    weir__record_text_add(&recorder->text, event, thread);
}

static weir_status drain_locked(weir_recorder *recorder, bool complete)
{
    WEIR_ASSERT_HELD(&recorder->lock);
    WEIR_ASSERT(!weir__rings_in_child(&recorder->rings));
    write_beginning(recorder);
    count_lost(recorder, weir__rings_merge(&recorder->rings, complete, take_event, recorder));
    return weir__record_text_flush(&recorder->text) ? WEIR_OK : WEIR_ERR_DEVICE;
}

static uint64_t lost_locked(const weir_recorder *recorder)
{
    return atomic_load_explicit(&recorder->lost, memory_order_relaxed) + recorder->text.lost;
}

weir_status weir_recorder_drain(weir_recorder *recorder, uint64_t *lost)
{
    if (recorder == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_recorder_drain: recorder is NULL");
    }
    if (weir__rings_in_child(&recorder->rings)) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED,
                           "weir_recorder_drain: this process is a child of fork, recorder is its parent's");
    }
    pthread_mutex_lock(&recorder->lock);
    const weir_status status = drain_locked(recorder, false);
    const uint64_t lost_events = lost_locked(recorder);
    pthread_mutex_unlock(&recorder->lock);
    if (lost != NULL) {
        *lost = lost_events;
    }
    return status;
}

/* --- feeding --- */

/* Drains, because the calling thread's ring is full. The drain may end early, at a number that another thread has taken
 * and not yet published. The caller then repeats the drain until the other thread has published its event. */
static void make_room(weir_recorder *recorder)
{
    WEIR_ASSERT(atomic_load_explicit(&recorder->drains_itself, memory_order_relaxed));
    pthread_mutex_lock(&recorder->lock);
    (void)drain_locked(recorder, false);
    pthread_mutex_unlock(&recorder->lock);
    (void)sched_yield();
}

/* Returns false when out of memory. */
static bool add_prior(weir_recorder *recorder, const weir__prior *prior)
{
    WEIR_ASSERT(recorder->prior_count <= recorder->prior_room);
    WEIR_ASSERT(!recorder->begun);
    if (recorder->prior_count == recorder->prior_room) {
        const size_t room = recorder->prior_room != 0 ? recorder->prior_room * 2 : 64;
        weir__prior *const larger = realloc(recorder->priors, room * sizeof(*larger));
        if (larger == NULL) {
            return false;
        }
        recorder->priors = larger;
        recorder->prior_room = room;
    }
    recorder->priors[recorder->prior_count++] = *prior;
    return true;
}

/* Keeps, for the header of the trace, a block that was live when the recording began. Called while the thread's ring is
 * full and the header is not written yet: all such blocks are reported at once, in any number, and no drain can run
 * meanwhile. */
static bool keep_for_beginning(weir_recorder *recorder, const weir__record_entry *event)
{
    const weir__prior prior = {.id = event->id,
                               .size = event->size,
                               .address = event->address,
                               .stream = event->stream,
                               .device = event->device};
    /* A drain in progress will write the header. Waiting for it could deadlock: the caller may hold a lock that the
     * sink needs. */
    if (event->kind != WEIR_TRACE_PRIOR || pthread_mutex_trylock(&recorder->lock) != 0) {
        return false;
    }
    const bool is_kept = !recorder->begun && add_prior(recorder, &prior);
    pthread_mutex_unlock(&recorder->lock);
    return is_kept;
}

static void record(weir_recorder *recorder, weir__record_entry event)
{
    weir__ring_result result = weir__rings_put(&recorder->rings, event);
    while (result == WEIR__RING_FULL && atomic_load_explicit(&recorder->drains_itself, memory_order_relaxed)) {
        make_room(recorder);
        result = weir__rings_put(&recorder->rings, event);
    }
    const bool has_room = result != WEIR__RING_FULL && result != WEIR__RING_NONE;
    if (!has_room && !keep_for_beginning(recorder, &event)) {
        count_lost(recorder, 1);
    }
}

/* True if a caller may note the event: its kind is allowed, and it has a stream if its line needs one. */
static bool can_be_noted(const weir_trace_event *event)
{
    if (event->device >= most_devices) {
        return false;
    }
    switch (event->kind) {
    case WEIR_TRACE_PRIOR:
    case WEIR_TRACE_ALLOC:
    case WEIR_TRACE_USE:
    case WEIR_TRACE_WORK:
    case WEIR_TRACE_RECORD:
    case WEIR_TRACE_WAIT:
        return event->stream != WEIR_TRACE_NONE;
    case WEIR_TRACE_CAPTURE:
        return event->mode == 'E' || event->mode == 'R' || (event->mode == 'B' && event->stream != WEIR_TRACE_NONE);
    case WEIR_TRACE_FREE:
    case WEIR_TRACE_REALLOC:
    case WEIR_TRACE_SYNC:
    case WEIR_TRACE_TRIM:
    case WEIR_TRACE_CAPACITY:
    case WEIR_TRACE_OOM:
        return true;
    default:
        return false;
    }
}

void weir_recorder_note(weir_recorder *recorder, const weir_trace_event *event)
{
    if (recorder != NULL && event != NULL && can_be_noted(event)) {
        const bool moves = event->kind == WEIR_TRACE_REALLOC;
        const bool captures = event->kind == WEIR_TRACE_CAPTURE;
        WEIR_ASSERT(event->device <= UINT16_MAX);
        record(recorder, (weir__record_entry){.kind = (uint8_t)event->kind,
                                              .mode = event->mode,
                                              .device = (uint16_t)event->device,
                                              .id = captures ? event->pool : event->id,
                                              .size = event->size,
                                              .extra = moves ? event->old_id : event->extra,
                                              .address = event->address,
                                              .stream = event->stream});
    }
}

/* --- feeding by a pool --- */

static uint32_t stream_number(uint32_t number)
{
    return number != 0 ? number : WEIR_TRACE_NONE;
}

/* Records an alloc. A block that was live when the observer was attached is only noted, because the pool is locked.
 * Without memory for the note, the block's alloc and free are lost events. All such blocks are reported before any
 * other event. */
static void block_alloc(void *ctx, const weir_observed_block *block)
{
    if (block->listed) {
        const weir__prior prior = {
            .id = block->address, .size = block->size, .address = block->address, .stream = block->stream};
        if (!add_prior(ctx, &prior)) {
            count_lost(ctx, 1);
        }
        return;
    }
    record(ctx, (weir__record_entry){.kind = WEIR_TRACE_ALLOC,
                                     .id = block->address,
                                     .size = block->size,
                                     .extra = block->align,
                                     .address = block->address,
                                     .stream = block->stream,
                                     .tag = block->tag});
}

static void block_free(void *ctx, const weir_observed_block *block)
{
    record(ctx,
           (weir__record_entry){.kind = WEIR_TRACE_FREE, .id = block->address, .stream = stream_number(block->stream)});
}

static void block_use(void *ctx, const weir_observed_block *block)
{
    record(ctx, (weir__record_entry){.kind = WEIR_TRACE_USE, .id = block->address, .stream = block->stream});
}

static void tell_event(void *ctx, const weir_observed_event *event)
{
    static const weir_trace_kind kinds[] = {
        [WEIR_OBSERVED_RECORDED] = WEIR_TRACE_RECORD,
        [WEIR_OBSERVED_WAITED] = WEIR_TRACE_WAIT,
        [WEIR_OBSERVED_SYNCED] = WEIR_TRACE_SYNC,
    };
    WEIR_ASSERT((size_t)event->kind < sizeof(kinds) / sizeof(kinds[0]));
    record(ctx, (weir__record_entry){.kind = (uint8_t)kinds[event->kind],
                                     .id = (uintptr_t)event->event,
                                     .stream = stream_number(event->stream)});
}

static void trim(void *ctx)
{
    record(ctx, (weir__record_entry){.kind = WEIR_TRACE_TRIM, .stream = WEIR_TRACE_NONE});
}

static void tell_capture(void *ctx, const weir_observed_capture *capture)
{
    static const char modes[] = {
        [WEIR_OBSERVED_CAPTURE_BEGUN] = 'B',
        [WEIR_OBSERVED_CAPTURE_ENDED] = 'E',
        [WEIR_OBSERVED_CAPTURES_GONE] = 'R',
    };
    WEIR_ASSERT((size_t)capture->kind < sizeof(modes));
    record(ctx, (weir__record_entry){.kind = WEIR_TRACE_CAPTURE,
                                     .mode = modes[capture->kind],
                                     .id = capture->captures,
                                     .stream = stream_number(capture->stream)});
}

/* The pool is being destroyed. The names of tags end with the pool, so a file gets the lines that need these
 * names now. */
static void pool_gone(void *ctx)
{
    weir_recorder *const recorder = ctx;
    pthread_mutex_lock(&recorder->lock);
    if (recorder->file != NULL) {
        (void)drain_locked(recorder, false);
    }
    recorder->text.tag_name = NULL;
    recorder->pool = NULL;
    pthread_mutex_unlock(&recorder->lock);
}

static const weir_observer_ops recording = {
    .struct_size = sizeof(recording),
    .block_alloc = block_alloc,
    .block_free = block_free,
    .block_use = block_use,
    .event = tell_event,
    .trim = trim,
    .capture = tell_capture,
    .pool_gone = pool_gone,
};

/* --- creation --- */

/* Replaces control characters and quotes, so that a header line stays one line and a name does not end its quotes. */
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

void weir__recorder_free(weir_recorder *recorder)
{
    WEIR_ASSERT(atomic_load_explicit(&recorder->holds, memory_order_relaxed) == 0);
    weir__rings_fini(&recorder->rings);
    weir__record_text_fini(&recorder->text);
    pthread_mutex_destroy(&recorder->lock);
    free(recorder->priors);
    free(recorder->source);
    free(recorder);
}

weir_recorder *weir__recorder_new(weir_pool *pool, const weir_recorder_config *config)
{
    WEIR_ASSERT(config->sink != NULL);
    const char *const source = pool != NULL ? "weir pool" : "weir recorder";
    weir_recorder *const recorder = aligned_alloc(_Alignof(weir_recorder), sizeof(*recorder));
    char *const source_copy = copy_text(config->source != NULL ? config->source : source);
    if (recorder == NULL || source_copy == NULL) {
        free(recorder);
        free(source_copy);
        return NULL;
    }
    memset(recorder, 0, sizeof(*recorder));
    if (pthread_mutex_init(&recorder->lock, NULL) != 0) {
        free(recorder);
        free(source_copy);
        return NULL;
    }
    weir__rings_init(&recorder->rings, config->ring_events);
    recorder->pool = pool;
    recorder->source = source_copy;
    recorder->text.sink = config->sink;
    recorder->text.sink_ctx = config->sink_ctx;
    if (pool != NULL) {
        recorder->text.pool = pool;
        recorder->text.tag_name = weir_pool_tag_name;
        recorder->device.struct_size = sizeof(recorder->device);
        (void)!weir_device_get_info(weir_pool_device(pool), &recorder->device);
        make_one_line(recorder->device.name);
    }
    return recorder;
}

weir_status weir__recorder_begin(weir_recorder *recorder, const char *function)
{
    WEIR_ASSERT(recorder->pool != NULL);
    const weir_status status = weir_pool_observe(recorder->pool, &recording, recorder);
    return status == WEIR_ERR_BUSY ? weir_refuse(status, "%s: the pool is being recorded already", function) : status;
}

/* Copies the caller's config. `config_name`: "FUNCTION: config", for error messages. */
static weir_status adopt(weir_recorder_config *known, const weir_recorder_config *config, const char *config_name)
{
    const weir_status status = weir_struct_adopt(known, sizeof(*known), config, config_name);
    return status == WEIR_OK && known->sink == NULL ? weir_refuse(WEIR_ERR_INVALID, "%s.sink is NULL", config_name)
                                                    : status;
}

weir_status weir_recorder_start(weir_pool *pool, const weir_recorder_config *config, weir_recorder **recorder)
{
    weir_recorder_config known;
    if (pool == NULL || recorder == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_recorder_start: %s is NULL", pool == NULL ? "pool" : "recorder");
    }
    weir_status status = adopt(&known, config, "weir_recorder_start: config");
    if (status != WEIR_OK) {
        return status;
    }
    weir_recorder *const self = weir__recorder_new(pool, &known);
    if (self == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    status = weir__recorder_begin(self, "weir_recorder_start");
    if (status != WEIR_OK) {
        weir__recorder_free(self);
        return status;
    }
    *recorder = self;
    return WEIR_OK;
}

weir_status weir_recorder_create(const weir_recorder_config *config, weir_recorder **recorder)
{
    weir_recorder_config known;
    if (recorder == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_recorder_create: recorder is NULL");
    }
    const weir_status status = adopt(&known, config, "weir_recorder_create: config");
    if (status != WEIR_OK) {
        return status;
    }
    weir_recorder *const self = weir__recorder_new(NULL, &known);
    if (self == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    *recorder = self;
    return WEIR_OK;
}

/* --- end --- */

static weir_status write_end(weir_recorder *recorder)
{
    WEIR_ASSERT(recorder->begun || recorder->text.length == 0);
    const weir_status status = drain_locked(recorder, true);
    if (status == WEIR_OK) {
        weir__record_text_note_lost(&recorder->text, lost_locked(recorder));
    }
    return weir__record_text_flush(&recorder->text) ? WEIR_OK : WEIR_ERR_DEVICE;
}

void weir__recorder_hold(weir_recorder *recorder)
{
    (void)atomic_fetch_add_explicit(&recorder->holds, 1, memory_order_relaxed);
}

void weir__recorder_release(weir_recorder *recorder)
{
    (void)weir__release_hold(&recorder->holds);
}

/* Stops in a child of fork: leaves the recorder as it is, but closes the file, because another process may wait for it
 * to be closed. */
static weir_status stop_in_child(const weir_recorder *recorder, uint64_t *lost)
{
    WEIR_ASSERT(weir__rings_in_child(&recorder->rings));
    if (recorder->file != NULL) {
        weir__record_file_leave(recorder->file);
    }
    if (lost != NULL) {
        *lost = lost_locked(recorder);
    }
    return WEIR_OK;
}

weir_status weir_recorder_stop(weir_recorder *recorder, uint64_t *lost)
{
    if (recorder == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_recorder_stop: recorder is NULL");
    }
    if (weir__rings_in_child(&recorder->rings)) {
        return stop_in_child(recorder, lost);
    }
    const unsigned holds = atomic_load_explicit(&recorder->holds, memory_order_acquire);
    if (holds != 0) {
        return weir_refuse(WEIR_ERR_BUSY,
                           "weir_recorder_stop: %u heaps still note in the recorder: weir_heap_record(heap, NULL)",
                           holds);
    }
    weir_status status = WEIR_OK;
    if (recorder->pool != NULL) {
        status = weir_pool_unobserve(recorder->pool, recorder);
        if (status != WEIR_OK) {
            return status;
        }
    }
    if (recorder->file != NULL) {
        weir__record_file_forget(recorder);
        weir__record_file_halt(recorder->file);
    }
    pthread_mutex_lock(&recorder->lock);
    status = write_end(recorder);
    pthread_mutex_unlock(&recorder->lock);
    const uint64_t lost_events = lost_locked(recorder);
    const int why = recorder->file != NULL ? weir__record_file_close(recorder->file) : 0;
    weir__recorder_free(recorder);
    if (lost != NULL) {
        *lost = lost_events;
    }
    if (why != 0) {
        errno = why;
        return WEIR_ERR_DEVICE;
    }
    return status;
}
