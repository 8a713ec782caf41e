/* heap.c: the functions that engines call, with malloc's semantics, over sources of blocks (heap_internal.h).
 *
 * Idea: a heap has two sources, one for short-lived and one for long-lived blocks; both may use the same memory. An
 * alloc asks one of them. A free has the address alone, and each source knows its own blocks. Counters that every call
 * changes lie on no shared cache line (tally.c).
 * Guarantee: a request fails only after the idle memory of both sources has been given back and tried, and after the
 * callback has returned false. A pointer that is not a block of the heap is refused and not touched.
 * Cost: beside the source's own cost, some twenty instructions for a call. A block of the calling thread's cache goes
 * past the table of the source (`front`).
 */
#include "heap_internal.h"

#include "../../pool/src/front.h"

#include "shared/cancel.h"
#include "shared/round_up.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_BYTES (UINT64_C(1) << 46)
#define MOST_USUAL_ALIGN (UINT64_C(2) << 20)

/* --- life --- */

static bool is_empty(const weir_heap_source *source)
{
    return source->host_pool == NULL && source->pool == NULL;
}

#define REFUSE_CREATE(...) weir_refuse(WEIR_ERR_INVALID, "weir_heap_create: config." __VA_ARGS__)

static weir_status check_source(const weir_heap_source *source, const char *member)
{
    if (source->host_pool != NULL && source->pool != NULL) {
        return REFUSE_CREATE("%s.host_pool and config.%s.pool are both set", member, member);
    }
    if ((source->pool != NULL) != (source->stream != NULL)) {
        return REFUSE_CREATE("%s.%s is set without config.%s.%s", member, source->pool != NULL ? "pool" : "stream",
                             member, source->pool != NULL ? "stream" : "pool");
    }
    return WEIR_OK;
}

static weir_status check_config(const weir_heap_config *config)
{
    const uint32_t flags = WEIR_HEAP_ON_NODE | WEIR_HEAP_NO_HOST_ACCESS | WEIR_HEAP_DECAY_THREAD;
    if ((config->flags & ~flags) != 0) {
        return REFUSE_CREATE("flags has unknown bits 0x%x", config->flags & ~flags);
    }
    if (!is_power_of_two(config->align) || config->align < WEIR__HEAP_ALIGN || config->align > MOST_USUAL_ALIGN) {
        return REFUSE_CREATE("align %llu is not a power of two from 16 to 2 MiB", (unsigned long long)config->align);
    }
    if (config->slack_bytes > WEIR__HEAP_MOST_SLACK) {
        return REFUSE_CREATE("slack_bytes %llu is more than 4 KiB", (unsigned long long)config->slack_bytes);
    }
    if ((config->limit_bytes != 0 || config->shared_limit != NULL) && !is_empty(&config->source)) {
        return REFUSE_CREATE("%s is set, but config.source has a limit of its own",
                             config->limit_bytes != 0 ? "limit_bytes" : "shared_limit");
    }
    const weir_status status = check_source(&config->source, "source");
    return status == WEIR_OK ? check_source(&config->long_lived, "long_lived") : status;
}

static weir_status adopt(weir_heap *heap, const weir_heap_config *config)
{
    static const weir_heap_config defaults = WEIR_HEAP_CONFIG_INIT;
    weir_heap_config *own = &heap->config;
    weir_status status =
        weir_struct_adopt(own, sizeof(*own), config != NULL ? config : &defaults, "weir_heap_create: config");
    if (status != WEIR_OK) {
        return status;
    }
    own->align = own->align != 0 ? own->align : WEIR__HEAP_ALIGN;
    status = check_config(own);
    if (status != WEIR_OK) {
        return status;
    }
    if (is_empty(&own->long_lived)) {
        own->long_lived = own->source;
    }
    const char *name = own->name != NULL ? own->name : "heap";
    const size_t length = strlen(name) + 1;
    heap->name = malloc(length);
    if (heap->name == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    memcpy(heap->name, name, length);
    own->name = heap->name;
    heap->ledger.limit_bytes = own->limit_bytes;
    heap->ledger.shared = own->shared_limit;
    return WEIR_OK;
}

static const weir__source_ops *kind_of(const weir_heap_source *from)
{
    return from->pool != NULL        ? &weir__pool_source
           : from->host_pool != NULL ? &weir__host_source
                                     : &weir__process_source;
}

static weir_status open_sources(weir_heap *heap)
{
    WEIR_ASSERT(heap->front == NULL && heap->config.align >= WEIR__HEAP_ALIGN);
    const weir_heap_source *const froms[] = {&heap->config.source, &heap->config.long_lived};
    const bool is_shared = froms[0]->pool == froms[1]->pool && froms[0]->host_pool == froms[1]->host_pool;
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < WEIR__HEAP_SOURCES && status == WEIR_OK; i++) {
        weir__source *source = &heap->sources[i];
        *source =
            (weir__source){.ops = kind_of(froms[i]), .from = *froms[i], .heap = heap, .is_second = i > 0 && is_shared};
        status = source->ops->open(source, heap);
    }
    if (status == WEIR_OK && kind_of(froms[0]) == &weir__process_source) {
        heap->front = heap->sources[0].host;
        const uint64_t taken = heap->config.slack_bytes + heap->config.align - 1;
        heap->front_most = heap->config.align <= WEIR__HOST_ALIGNMENT ? heap->front->small_most - taken : 0;
    }
    return status;
}

/* Destroys a heap that may be initialized in part. */
static weir_status end(weir_heap *heap)
{
    weir_status first = WEIR_OK;
    weir__heap_decay_end(heap);
    weir__heap_record_end(heap);
    for (size_t i = 0; i < WEIR__HEAP_SOURCES; i++) {
        weir__source *source = &heap->sources[i];
        const weir_status status = source->ops != NULL ? source->ops->close(source) : WEIR_OK;
        first = first != WEIR_OK ? first : status;
    }
    weir__tally_fini(&heap->tally);
    (void)pthread_mutex_destroy(&heap->record_lock);
    (void)pthread_mutex_destroy(&heap->explain_lock);
    free(heap->name);
    free(heap);
    return first;
}

weir_status weir_heap_create(const weir_heap_config *config, weir_heap **out)
{
    if (out == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_heap_create: heap is NULL");
    }
    weir_heap *heap = aligned_alloc(WEIR__HEAP_LINE, sizeof(*heap));
    if (heap == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    memset(heap, 0, sizeof(*heap));
    heap->process = (long)getpid();
    weir__tally_init(&heap->tally);
    (void)pthread_mutex_init(&heap->record_lock, NULL);
    (void)pthread_mutex_init(&heap->explain_lock, NULL);
    weir_status status = adopt(heap, config);
    if (status == WEIR_OK) {
        status = open_sources(heap);
    }
    if (status == WEIR_OK) {
        status = weir__heap_decay_start(heap);
    }
    if (status != WEIR_OK) {
        const weir_status ended = end(heap);
        (void)ended; /* the heap held no memory yet */
        return status;
    }
    weir__heap_record_if_asked(heap);
    *out = heap;
    return WEIR_OK;
}

weir_status weir_heap_destroy(weir_heap *heap)
{
    if (heap != NULL && heap->process != (long)getpid()) {
        /* A child of fork leaves the heap unchanged: core/README.md, Fork. */
        return heap->asked_recorder != NULL ? weir_recorder_stop(heap->asked_recorder, NULL) : WEIR_OK;
    }
    return heap != NULL ? end(heap) : WEIR_OK;
}

/* --- counting --- */

static void count(_Atomic uint64_t *counter)
{
    (void)atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static uint64_t value_of(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void note_size(weir_heap *heap, uint64_t size)
{
    uint64_t largest = atomic_load_explicit(&heap->largest_bytes, memory_order_relaxed);
    while (size > largest && !atomic_compare_exchange_weak(&heap->largest_bytes, &largest, size)) {
    }
}

static inline void note_taken(weir_heap *heap, size_t which, uint64_t size, uint64_t bytes)
{
    WEIR_ASSERT(which < WEIR__HEAP_SOURCES && bytes > 0);
    weir__tally_add(&heap->tally, bytes);
    if (which == WEIR__HEAP_STAYING) {
        (void)atomic_fetch_add(&heap->long_lived_bytes, bytes);
    }
    note_size(heap, size);
}

static inline void note_given(weir_heap *heap, size_t which, uint64_t bytes)
{
    WEIR_ASSERT(which < WEIR__HEAP_SOURCES && bytes > 0);
    weir__tally_remove(&heap->tally, bytes);
    if (which == WEIR__HEAP_STAYING) {
        (void)atomic_fetch_sub(&heap->long_lived_bytes, bytes);
    }
}

/* --- recording --- */

static OUT_OF_LINE void note_alloc(weir_heap *heap, size_t which, const void *block, uint64_t size, uint64_t align)
{
    WEIR_ASSERT(block != NULL && which < WEIR__HEAP_SOURCES);
    const weir_trace_event event = {.kind = WEIR_TRACE_ALLOC,
                                    .stream = (uint32_t)which + 1,
                                    .tag = WEIR_TRACE_NONE,
                                    .id = (uint64_t)(uintptr_t)block,
                                    .size = size,
                                    .extra = align > 1 ? align : 0,
                                    .address = (uint64_t)(uintptr_t)block};
    weir__heap_note(heap, &event);
}

/* Records the free of a live block; ignores any other address. Must run before the free: after the free another thread
 * may own the address. */
static OUT_OF_LINE void note_free(weir_heap *heap, const void *block)
{
    for (size_t i = 0; i < WEIR__HEAP_SOURCES; i++) {
        if (heap->sources[i].ops->bytes_of(&heap->sources[i], block) != 0) {
            const weir_trace_event event = {.kind = WEIR_TRACE_FREE,
                                            .stream = (uint32_t)i + 1,
                                            .tag = WEIR_TRACE_NONE,
                                            .id = (uint64_t)(uintptr_t)block};
            weir__heap_note(heap, &event);
            return;
        }
    }
}

/* Records a realloc. `mode` is 'B' before the old block is freed (afterwards another thread may own its address), 'E'
 * after it is freed, and 0 for a block that was not moved. */
static void note_realloc(weir_heap *heap, size_t which, char mode, const void *old, const void *block, uint64_t size)
{
    WEIR_ASSERT(old != NULL && size > 0);
    if (weir__heap_is_recorded(heap)) {
        const weir_trace_event event = {.kind = WEIR_TRACE_REALLOC,
                                        .mode = mode,
                                        .stream = (uint32_t)which + 1,
                                        .tag = WEIR_TRACE_NONE,
                                        .id = (uint64_t)(uintptr_t)block,
                                        .old_id = (uint64_t)(uintptr_t)old,
                                        .size = size,
                                        .address = (uint64_t)(uintptr_t)block};
        weir__heap_note(heap, &event);
    }
}

/* --- failures --- */

/* Arguments of one allocation. */
struct request {
    weir_heap *heap;
    size_t which;
    uint64_t size;
    uint64_t align;
    uint32_t attempts; /* calls of the reclaim callback */
};

static weir__source_stats held_by(weir_heap *heap)
{
    weir__source_stats stats = {0};
    for (size_t i = 0; i < WEIR__HEAP_SOURCES; i++) {
        heap->sources[i].ops->add_stats(&heap->sources[i], &stats);
    }
    return stats;
}

struct sentence {
    char *text;
    size_t size;
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void say(struct sentence *s, const char *format, ...)
{
    WEIR_ASSERT(s->length < s->size);
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(s->text + s->length, s->size - s->length, format, arguments);
    va_end(arguments);
    const size_t left = s->size - s->length - 1;
    s->length += length < 0 ? 0 : (size_t)length < left ? (size_t)length : left;
}

static void explain_failure(const struct request *r, weir_status status)
{
    weir_heap *heap = r->heap;
    const weir__source_stats stats = held_by(heap);
    const uint64_t limit = atomic_load(&heap->ledger.limit_bytes);
    char reason[600] = "";
    weir__source *source = &heap->sources[r->which];
    const bool is_limited = status == WEIR_ERR_LIMIT && limit != 0 && source->ops->missing != NULL;
    /* Idle memory has already gone back, so live blocks account for all held bytes. */
    const uint64_t wanted =
        is_limited ? stats.held_bytes + source->ops->missing(source, r->size + heap->config.slack_bytes) : 0;
    const size_t length = source->ops->explain(source, reason, sizeof(reason));
    (void)pthread_mutex_lock(&heap->explain_lock);
    struct sentence s = {.text = heap->explanation, .size = sizeof(heap->explanation)};
    say(&s, "%s: no %s for %llu bytes at a multiple of %llu: %s. %llu bytes are live and %llu held", heap->name,
        r->which == WEIR__HEAP_STAYING ? "long-lived memory" : "memory", (unsigned long long)r->size,
        (unsigned long long)r->align, weir_status_text(status), (unsigned long long)weir__tally_live(&heap->tally),
        (unsigned long long)stats.held_bytes);
    if (limit != 0) {
        say(&s, " of at most %llu", (unsigned long long)limit);
    }
    if (wanted > limit) {
        say(&s, "; free some, or raise limit_bytes by %llu", (unsigned long long)(wanted - limit));
    }
    const weir__heap_decayed decayed = weir__heap_decayed_by(heap);
    if (decayed.bytes != 0 || decayed.failures != 0) {
        say(&s, "; decay has given back %llu bytes in all and was refused %llu times",
            (unsigned long long)decayed.bytes, (unsigned long long)decayed.failures);
    }
    if (heap->config.reclaim != NULL) {
        say(&s, "; reclaim was called %u times", r->attempts);
    }
    say(&s, "\n%s", length > 0 ? reason : "");
    (void)pthread_mutex_unlock(&heap->explain_lock);
}

static void explain_refusal(weir_heap *heap, const char *what, uint64_t value)
{
    (void)pthread_mutex_lock(&heap->explain_lock);
    struct sentence s = {.text = heap->explanation, .size = sizeof(heap->explanation)};
    say(&s, "%s: %s: %llu\n", heap->name, what, (unsigned long long)value);
    (void)pthread_mutex_unlock(&heap->explain_lock);
}

/* Frames of the reclaim callbacks that run in this thread, innermost first, with their heaps. */
struct reclaiming {
    const weir_heap *heap;
    const struct reclaiming *outer;
};

static _Thread_local const struct reclaiming *in_callback;

static bool is_reclaiming(const weir_heap *heap)
{
    const struct reclaiming *frame = in_callback;
    while (frame != NULL && frame->heap != heap) {
        frame = frame->outer;
    }
    return frame != NULL;
}

static bool ask_callback(struct request *r)
{
    weir_heap *heap = r->heap;
    if (heap->config.reclaim == NULL || is_reclaiming(heap)) {
        return false;
    }
    const struct reclaiming frame = {.heap = heap, .outer = in_callback};
    in_callback = &frame;
    count(&heap->reclaims);
    const bool again = UNCANCELLED(heap->config.reclaim(heap->config.reclaim_ctx, heap, r->size, r->attempts++));
    WEIR_ASSERT(in_callback == &frame);
    in_callback = frame.outer;
    return again;
}

/* --- alloc --- */

static inline weir_status ask_source(const struct request *r, void **block)
{
    weir__source *source = &r->heap->sources[r->which];
    uint64_t bytes = 0;
    const weir_status status =
        source->ops->alloc(source, r->size + r->heap->config.slack_bytes, r->align, block, &bytes);
    if (WEIR__HOST_LIKELY(status == WEIR_OK)) {
        note_taken(r->heap, r->which, r->size, bytes);
    }
    return status;
}

static bool is_lack(weir_status status)
{
    return status == WEIR_ERR_NO_MEMORY || status == WEIR_ERR_LIMIT || status == WEIR_ERR_DEVICE;
}

/* Trims both sources and asks again. Each source has already tried its own idle memory, but the other source's may
 * count against the same limit or be memory that the system lacks. */
static weir_status trim_and_ask(const struct request *r, void **block)
{
    for (size_t i = 0; i < WEIR__HEAP_SOURCES; i++) {
        uint64_t released = 0;
        const weir_status status = r->heap->sources[i].ops->trim(&r->heap->sources[i], 0, &released);
        (void)status; /* memory that the device refused to take back stays held */
    }
    return ask_source(r, block);
}

static OUT_OF_LINE void *alloc_after(struct request *r, weir_status status)
{
    void *block = NULL;
    if (is_lack(status)) {
        status = trim_and_ask(r, &block);
    }
    while (is_lack(status) && ask_callback(r)) {
        status = ask_source(r, &block);
        if (is_lack(status)) {
            status = trim_and_ask(r, &block);
        }
    }
    if (status == WEIR_OK) {
        return block;
    }
    count(&r->heap->failures);
    explain_failure(r, status);
    return NULL;
}

static OUT_OF_LINE void *refuse(weir_heap *heap, uint64_t size, uint64_t align)
{
    if (heap == NULL || size == 0) {
        return NULL;
    }
    if (!is_power_of_two(align) || align >= MOST_BYTES) {
        explain_refusal(heap, "an alignment that is no power of two below 2^46", align);
        return NULL;
    }
    count(&heap->failures);
    explain_refusal(heap, "a request larger than any memory", size);
    return NULL;
}

static inline void *obtain(weir_heap *heap, size_t which, uint64_t size, uint64_t align)
{
    void *block = NULL;
    if (!WEIR__HOST_LIKELY(heap != NULL && size - 1 < MOST_BYTES && align - 1 < MOST_BYTES - 1 &&
                           (align & (align - 1)) == 0)) {
        return refuse(heap, size, align);
    }
    const uint64_t least = heap->config.align;
    struct request r = {.heap = heap, .which = which, .size = size, .align = align > least ? align : least};
    const weir_status status = ask_source(&r, &block);
    return WEIR__HOST_LIKELY(status == WEIR_OK) ? block : alloc_after(&r, status);
}

static inline void *take(weir_heap *heap, size_t which, uint64_t size, uint64_t align)
{
    void *block = obtain(heap, which, size, align);
    if (block != NULL && weir__heap_is_recorded(heap)) {
        note_alloc(heap, which, block, size, align);
    }
    return block;
}

static OUT_OF_LINE void *note_front(weir_heap *heap, uint64_t size, weir__host_taken taken)
{
    note_taken(heap, WEIR__HEAP_GOING, size, taken.bytes);
    return taken.block;
}

static OUT_OF_LINE void *rise_front(weir_heap *heap, weir__tally_cell *cell, void *block)
{
    weir__tally_rise(&heap->tally, cell);
    return block;
}

/* Stores the thread's own counter cell (live bytes) in its thread cache, so that later hits need not look the cell
 * up. */
static void note_cell(weir_heap *heap)
{
    WEIR_ASSERT(heap->front == NULL || weir__host_mine != NULL);
    weir__host_cache *cache = weir__host_mine;
    if (heap->front != NULL && atomic_load_explicit(&cache->pool, memory_order_relaxed) == heap->front) {
        weir__tally_cell *cell = weir__tally_mine(&heap->tally);
        cache->tally_cell = weir__tally_owns(cell) ? cell : NULL;
    }
}

static OUT_OF_LINE void *alloc_slow(weir_heap *heap, uint64_t size)
{
    void *block = take(heap, WEIR__HEAP_GOING, size, 1);
    if (block != NULL) {
        note_cell(heap);
    }
    return block;
}

/* Returns the bytes to request from the pool `front` for a block of `size` bytes: with the slack, rounded up to the
 * heap's align. */
static inline uint64_t asked_for(const weir_heap *heap, uint64_t size)
{
    WEIR_ASSERT(is_power_of_two(heap->config.align));
    const uint64_t align = heap->config.align;
    return (size + heap->config.slack_bytes + align - 1) & ~(align - 1);
}

/* Allocates large blocks, and handles invalid arguments. */
static OUT_OF_LINE void *alloc_large(weir_heap *heap, uint64_t size)
{
    const uint64_t limit = heap != NULL ? atomic_load_explicit(&heap->ledger.limit_bytes, memory_order_relaxed) : 0;
    if (heap == NULL || heap->front_most == 0 || size - 1 >= MOST_BYTES || (limit != 0 && size > limit) ||
        weir__heap_is_recorded(heap)) {
        return alloc_slow(heap, size);
    }
    void *block = NULL;
    const uint64_t asked = asked_for(heap, size);
    const weir_status status = weir_host_alloc(heap->front, asked, WEIR_HOST_THREAD_NODE, &block);
    if (!WEIR__HOST_LIKELY(status == WEIR_OK)) {
        struct request r = {.heap = heap, .which = WEIR__HEAP_GOING, .size = size, .align = heap->config.align};
        return alloc_after(&r, status);
    }
    note_taken(heap, WEIR__HEAP_GOING, size, weir__host_bytes_for(heap->front, asked, 1));
    return block;
}

void *weir_heap_alloc(weir_heap *heap, size_t size)
{
    weir__host_cache *cache = weir__host_mine;
    if (!WEIR__HOST_LIKELY(heap != NULL && size - 1 < heap->front_most)) {
        return alloc_large(heap, size);
    }
    if (weir__heap_is_recorded(heap) || !WEIR__HOST_LIKELY(is_meant(cache, heap->front, WEIR_HOST_THREAD_NODE))) {
        return alloc_slow(heap, size);
    }
    const weir__host_taken taken = take_kept_small(cache, bin_for(heap->front, asked_for(heap, size)));
    if (!WEIR__HOST_LIKELY(taken.block != NULL)) {
        return alloc_slow(heap, size);
    }
    weir__tally_cell *cell = cache->tally_cell;
    const uint64_t largest = atomic_load_explicit(&heap->largest_bytes, memory_order_relaxed);
    if (!WEIR__HOST_LIKELY(cell != NULL && size <= largest)) {
        return note_front(heap, size, taken);
    }
    const int64_t live = weir__tally_change_own(cell, taken.bytes);
    if (!WEIR__HOST_LIKELY(live <= atomic_load_explicit(&cell->ceiling, memory_order_relaxed))) {
        return rise_front(heap, cell, taken.block);
    }
    return taken.block;
}

void *weir_heap_alloc_zeroed(weir_heap *heap, size_t number, size_t size)
{
    size_t bytes = 0;
    if (heap == NULL) {
        return NULL;
    }
    if ((heap->config.flags & WEIR_HEAP_NO_HOST_ACCESS) != 0) {
        explain_refusal(heap, "the host cannot make memory zero that it cannot touch, bytes asked for", size);
        return NULL;
    }
    if (__builtin_mul_overflow(number, size, &bytes)) {
        return refuse(heap, SIZE_MAX, 1);
    }
    void *block = take(heap, WEIR__HEAP_GOING, bytes, 1);
    if (block != NULL && heap->front != NULL) {
        weir__host_zero(block, bytes);
    } else if (block != NULL) {
        memset(block, 0, bytes);
    }
    return block;
}

void *weir_heap_alloc_aligned(weir_heap *heap, size_t size, size_t align)
{
    return take(heap, WEIR__HEAP_GOING, size, align != 0 ? align : 1);
}

void *weir_heap_alloc_long_lived(weir_heap *heap, size_t size, size_t align)
{
    return take(heap, WEIR__HEAP_STAYING, size, align != 0 ? align : 1);
}

/* --- free --- */

static OUT_OF_LINE weir_status refuse_free(weir_heap *heap, const void *block)
{
    count(&heap->bad_frees);
    return weir_refuse(WEIR_ERR_INVALID, "weir_heap_free: block %p is not the start of a live block of heap \"%s\"",
                       block, heap->name);
}

/* Frees a block. Offers it to the sources in order, from index `first` on, until one of them knows the block. */
static inline weir_status give(weir_heap *heap, void *block, size_t first)
{
    for (size_t i = first; i < WEIR__HEAP_SOURCES; i++) {
        uint64_t bytes = 0;
        const weir_status status = heap->sources[i].ops->free(&heap->sources[i], block, &bytes);
        if (WEIR__HOST_LIKELY(status == WEIR_OK)) {
            note_given(heap, i, bytes);
            return WEIR_OK;
        }
        if (status != WEIR_ERR_INVALID) {
            return status;
        }
    }
    return refuse_free(heap, block);
}

static OUT_OF_LINE weir_status free_slow(weir_heap *heap, void *block)
{
    if (heap == NULL || block == NULL) {
        return heap == NULL ? weir_refuse(WEIR_ERR_INVALID, "weir_heap_free: heap is NULL") : WEIR_OK;
    }
    if (weir__heap_is_recorded(heap)) {
        note_free(heap, block);
    }
    if (heap->front == NULL) {
        return give(heap, block, WEIR__HEAP_GOING);
    }
    uint64_t bytes = 0;
    const weir_status status = weir__host_free_telling(heap->front, block, &bytes);
    if (status != WEIR_OK) {
        return status == WEIR_ERR_INVALID ? give(heap, block, WEIR__HEAP_STAYING) : status;
    }
    note_given(heap, WEIR__HEAP_GOING, bytes);
    if (weir__host_mine->tally_cell == NULL) {
        note_cell(heap); /* a thread that frees only */
    }
    return WEIR_OK;
}

weir_status weir_heap_free(weir_heap *heap, void *block)
{
    const bool is_usual = heap != NULL && block != NULL && heap->front != NULL && WEIR_CHECKS < 1;
    if (!WEIR__HOST_LIKELY(is_usual) || weir__heap_is_recorded(heap)) {
        return free_slow(heap, block);
    }
    weir__host_cache *cache = weir__host_mine;
    weir__tally_cell *cell = cache->tally_cell;
    const bool is_front = atomic_load_explicit(&cache->pool, memory_order_relaxed) == heap->front && cell != NULL;
    const uint64_t bytes = WEIR__HOST_LIKELY(is_front) ? keep_small_at_hand(cache, heap->front, block) : 0;
    if (!WEIR__HOST_LIKELY(bytes != 0)) {
        return free_slow(heap, block);
    }
    (void)weir__tally_change_own(cell, 0 - bytes);
    return WEIR_OK;
}

/* --- realloc --- */

/* Returns the source of a block and its usable size, or NULL if no source has the block. */
static weir__source *source_of(weir_heap *heap, const void *block, uint64_t *usable)
{
    for (size_t i = 0; i < WEIR__HEAP_SOURCES; i++) {
        weir__source *source = &heap->sources[i];
        const uint64_t bytes = source->ops->bytes_of(source, block);
        if (bytes != 0) {
            WEIR_ASSERT(bytes > heap->config.slack_bytes);
            *usable = bytes - heap->config.slack_bytes;
            return source;
        }
    }
    return NULL;
}

/* Allocates the destination of a realloc. Returns NULL if there is no memory or the host cannot copy. A smaller
 * destination is best effort: no trim, no callback, and no failure counted, because the old block still serves. */
static void *another(weir_heap *heap, uint64_t usable, uint64_t size, size_t which)
{
    WEIR_ASSERT(which < WEIR__HEAP_SOURCES);
    void *block = NULL;
    if ((heap->config.flags & WEIR_HEAP_NO_HOST_ACCESS) != 0) {
        if (size > usable) {
            explain_refusal(heap, "no block is moved because of WEIR_HEAP_NO_HOST_ACCESS, to grow to so many bytes",
                            size);
        }
        return NULL;
    }
    if (size > usable) {
        return obtain(heap, which, size, 1);
    }
    const struct request r = {.heap = heap, .which = which, .size = size, .align = heap->config.align};
    return ask_source(&r, &block) == WEIR_OK ? block : NULL;
}

static void *move(weir_heap *heap, void *block, uint64_t usable, uint64_t size, size_t which)
{
    WEIR_ASSERT(usable > 0 && size > 0);
    void *moved = another(heap, usable, size, which);
    if (moved == NULL) {
        return usable >= size ? block : NULL;
    }
    memcpy(moved, block, usable < size ? usable : size);
    count(&heap->moves);
    /* The realloc is recorded only now, because obtain() may have called a reclaim callback, and the callback's events
     * come first. */
    note_realloc(heap, which, 'B', block, NULL, size);
    const weir_status status = give(heap, block, WEIR__HEAP_GOING);
    (void)status; /* cannot fail: source_of() has found the block */
    note_realloc(heap, which, 'E', block, moved, size);
    return moved;
}

/* Enlarges a block at its address. Returns false if it has to move. */
static bool grow(weir__source *source, size_t which, void *block, uint64_t usable, uint64_t size)
{
    WEIR_ASSERT(size > usable);
    weir_heap *heap = source->heap;
    const uint64_t slack = heap->config.slack_bytes;
    const uint64_t bytes =
        source->ops->grow != NULL && size < MOST_BYTES ? source->ops->grow(source, block, size + slack) : 0;
    if (bytes != 0) {
        WEIR_ASSERT(bytes >= size + slack && bytes > usable + slack);
        note_taken(heap, which, size, bytes - usable - slack);
    }
    return bytes != 0;
}

void *weir_heap_realloc(weir_heap *heap, void *block, size_t size)
{
    if (heap == NULL || block == NULL) {
        return weir_heap_alloc(heap, size);
    }
    if (size == 0) {
        const weir_status status = weir_heap_free(heap, block);
        (void)status; /* bad_frees counts a refusal */
        return NULL;
    }
    uint64_t usable = 0;
    weir__source *source = source_of(heap, block, &usable);
    if (source == NULL) {
        count(&heap->bad_frees);
        explain_refusal(heap, "no block of this heap is at the address to resize", (uint64_t)(uintptr_t)block);
        return NULL;
    }
    count(&heap->reallocs);
    const size_t which = (size_t)(source - heap->sources);
    const bool is_short = size > usable && !grow(source, which, block, usable, size);
    if (is_short || (size < usable / 2 && usable > WEIR__HEAP_ALIGN)) {
        return move(heap, block, usable, size, which);
    }
    note_realloc(heap, which, 0, block, block, size);
    return block;
}

size_t weir_heap_usable_size(weir_heap *heap, const void *block)
{
    uint64_t usable = 0;
    return heap != NULL && block != NULL && source_of(heap, block, &usable) != NULL ? (size_t)usable : 0;
}

/* --- upkeep --- */

weir_status weir_heap_trim(weir_heap *heap, uint64_t keep_bytes, uint64_t *released)
{
    if (heap == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_heap_trim: heap is NULL");
    }
    weir_status first = WEIR_OK;
    uint64_t sum = 0;
    for (size_t i = WEIR__HEAP_SOURCES; i-- > 0;) {
        uint64_t bytes = 0;
        const weir_status status = heap->sources[i].ops->trim(&heap->sources[i], keep_bytes, &bytes);
        first = first != WEIR_OK ? first : status;
        sum += bytes;
    }
    if (released != NULL) {
        *released = sum;
    }
    return first;
}

weir_status weir_heap_set_limit(weir_heap *heap, uint64_t limit_bytes)
{
    if (heap == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_heap_set_limit: heap is NULL");
    }
    if (!is_empty(&heap->config.source)) {
        return weir_refuse(WEIR_ERR_INVALID,
                           "weir_heap_set_limit: heap \"%s\" is over a pool, which has a limit of its own", heap->name);
    }
    atomic_store(&heap->ledger.limit_bytes, limit_bytes);
    if (limit_bytes == 0 || held_by(heap).held_bytes <= limit_bytes) {
        return WEIR_OK;
    }
    return weir_heap_trim(heap, 0, NULL);
}

weir_status weir_heap_get_stats(weir_heap *heap, weir_heap_stats *stats)
{
    if (heap == NULL || stats == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_heap_get_stats: %s is NULL", heap == NULL ? "heap" : "stats");
    }
    const weir__source_stats sources = held_by(heap);
    const uint64_t live = (uint64_t)weir__tally_live(&heap->tally);
    const uint64_t peak = (uint64_t)weir__tally_peak(&heap->tally);
    const weir__heap_decayed decayed = weir__heap_decayed_by(heap);
    const weir_heap_stats found = {
        .struct_size = sizeof(found),
        .allocs = sources.allocs,
        .frees = sources.frees,
        .reallocs = value_of(&heap->reallocs),
        .moves = value_of(&heap->moves),
        .failures = value_of(&heap->failures),
        .reclaims = value_of(&heap->reclaims),
        .bad_frees = value_of(&heap->bad_frees),
        /* Counters are per thread: a block's free may be seen before its alloc. */
        .live_blocks = sources.allocs > sources.frees ? sources.allocs - sources.frees : 0,
        .live_bytes = live,
        .peak_live_bytes = peak > live ? peak : live,
        .long_lived_bytes = value_of(&heap->long_lived_bytes),
        .largest_bytes = value_of(&heap->largest_bytes),
        .held_bytes = sources.held_bytes,
        .peak_held_bytes = sources.peak_held_bytes,
        .limit_bytes = atomic_load(&heap->ledger.limit_bytes),
        .decayed_bytes = decayed.bytes,
        .decays = decayed.times,
        .decay_failures = decayed.failures,
        .moved_bytes = sources.moved_bytes,
        .remade_bytes = sources.remade_bytes,
    };
    return weir_struct_report(stats, &found, sizeof(found), "weir_heap_get_stats: stats");
}

size_t weir_heap_explain(weir_heap *heap, char *text, size_t size)
{
    if (size > 0 && text != NULL) {
        text[0] = '\0';
    }
    if (heap == NULL || (text == NULL && size > 0)) {
        return 0;
    }
    (void)pthread_mutex_lock(&heap->explain_lock);
    const int length = snprintf(text, size, "%s", heap->explanation);
    (void)pthread_mutex_unlock(&heap->explain_lock);
    return length > 0 ? (size_t)length : 0;
}

weir_status weir_heap_check(weir_heap *heap, const char **why)
{
    const char *broken = NULL;
    if (heap == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_heap_check: heap is NULL");
    }
    weir_status status = WEIR_OK;
    if (!weir__tally_check(&heap->tally)) {
        status = WEIR_ERR_INTERNAL;
        broken = "more may become live unseen than is missing to the peak";
    }
    for (size_t i = 0; i < WEIR__HEAP_SOURCES && status == WEIR_OK; i++) {
        status = heap->sources[i].ops->check(&heap->sources[i], &broken);
    }
    if (why != NULL && status == WEIR_ERR_INTERNAL) {
        *why = broken;
    }
    return status;
}
