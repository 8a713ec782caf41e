/* consumer.c: the contract with a registered allocator, from the caller's side.
 *
 * Each stream that executes operators or models has at most one wrapper of the allocator registered for it: the five
 * words, and a mutex under which the stream's callbacks are made. Two streams have two wrappers, also over the same
 * allocator object, and their callbacks then run concurrently. A wrapper is dropped when its registration has changed
 * or is gone, or when the stream is destroyed. An execution that is under way keeps its wrapper until it ends.
 *
 * For each piece: alloc, then the address, once; then free, once. When alloc returns NULL, the consumer synchronises
 * the stream, gives back the spans that it keeps, and calls alloc once more. The consumer does not look into a block.
 * The auditor is told of a piece after alloc and before free.
 *
 * With span_cache, models keep pieces that they no longer need for later requests of the same stream, as the vendor's
 * engine does. The allocator then sees few requests. Its blocks come back when it has no memory left, when a model is
 * unloaded, or when its registration or its stream ends.
 *
 * Lock order: the table's, then the runtime's. A wrapper's mutex is taken with neither held, because the callbacks take
 * both.
 */
#include "executors/consumer.h"

#include "base/report.h"
#include "memory/order.h"

#include <stdlib.h>

/* A piece kept for later requests. */
struct span {
    struct span *next;
    acl__piece piece;
};

struct acl__wrapper {
    acl__allocator allocator;
    acl__stream *stream;
    int32_t stream_id;
    /* guards callbacks and cached memory; recursive, because a callback may end its own registration */
    pthread_mutex_t mutex;
    struct span *spans;
    uint32_t references; /* reference count: one of the table, one of each execution; guarded by acl__executors_lock */
    uint32_t executing;
    acl__stamp
        last; /* the end of the stream's work when the last execution was queued; guarded by the runtime's lock */
};

/* State kept for a stream. */
struct entry {
    struct entry *next;
    acl__stream *stream;
    bool pinned; /* an operator ran before an allocator was registered: the stream uses the runtime's memory for good */
    acl__wrapper *wrapper;
};

static struct entry *entries; /* guarded by acl__executors_lock */

/* --- wrappers --- */

/* Fails if the stream with this id was destroyed during the execution. The runtime's lock is held. */
static aclError check_stream(const acl__stream *stream, int32_t id)
{
    WEIR_ASSERT_HELD(acl__mutex());
    ACL_FAIL_IF(!stream->live || stream->id != id, ACL_ERROR_RT_STREAM_CONTEXT,
                "stream %d was destroyed while something executed on it", id);
    return ACL_SUCCESS;
}

/* A callback in C++ may throw. The exception passes to the caller, and the mutex must not stay locked. */
static void unlock(pthread_mutex_t *const *mutex)
{
    (void)pthread_mutex_unlock(*mutex);
}
#define HOLD(mutex)                                                                                                    \
    (void)pthread_mutex_lock(mutex);                                                                                   \
    pthread_mutex_t *const held_ __attribute__((cleanup(unlock), unused)) = (mutex)

static void block_return(acl__wrapper *wrapper, aclrtAllocatorBlock block)
{
    HOLD(&wrapper->mutex);
    wrapper->allocator.free(wrapper->allocator.object, block);
}

/* Tells the auditor that a piece of memory is freed, and gives it back to the registered allocator. */
static void piece_return(acl__wrapper *wrapper, acl__piece *piece, const char *tag)
{
    WEIR_ASSERT(piece->address != NULL);
    acl__lock();
    if (check_stream(wrapper->stream, wrapper->stream_id) == ACL_SUCCESS) {
        acl__announce_free(piece->address, wrapper->stream, tag);
    }
    acl__unlock();
    piece->address = NULL;
    block_return(wrapper, piece->block);
}

static struct span *take_span(acl__wrapper *wrapper)
{
    HOLD(&wrapper->mutex);
    struct span *taken = wrapper->spans;
    if (taken != NULL) {
        wrapper->spans = taken->next;
    }
    return taken;
}

/* Gives all cached memory of a wrapper back to its allocator. */
static void recycle(acl__wrapper *wrapper)
{
    for (struct span *s = take_span(wrapper); s != NULL; s = take_span(wrapper)) {
        acl__piece piece = s->piece;
        free(s);
        piece_return(wrapper, &piece, "recycled");
    }
}

/* Drops a reference to an allocator's wrapper. NULL is allowed. The lock of the wrapper table is not held. */
static void wrapper_release(acl__wrapper *wrapper)
{
    if (wrapper == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&acl__executors_lock);
    WEIR_ASSERT(wrapper->references > 0);
    const bool last = --wrapper->references == 0;
    (void)pthread_mutex_unlock(&acl__executors_lock);
    if (last) {
        recycle(wrapper);
        (void)pthread_mutex_destroy(&wrapper->mutex);
        free(wrapper);
    }
}

static acl__wrapper *wrapper_create(const acl__allocator *allocator, acl__stream *stream)
{
    acl__wrapper *wrapper = calloc(1, sizeof(*wrapper));
    pthread_mutexattr_t recursive;
    if (wrapper == NULL || pthread_mutexattr_init(&recursive) != 0) {
        free(wrapper);
        return NULL;
    }
    (void)pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    if (pthread_mutex_init(&wrapper->mutex, &recursive) != 0) {
        free(wrapper);
        wrapper = NULL;
    }
    (void)pthread_mutexattr_destroy(&recursive);
    if (wrapper != NULL) {
        wrapper->allocator = *allocator;
        wrapper->stream = stream;
        wrapper->stream_id = stream->id;
        wrapper->references = 1;
    }
    return wrapper;
}

static bool same_allocator(const acl__allocator *a, const acl__allocator *b)
{
    return a->object == b->object && a->alloc == b->alloc && a->free == b->free && a->advise == b->advise &&
           a->address == b->address;
}

/* --- the table --- */

static struct entry **link_of(const acl__stream *stream)
{
    WEIR_ASSERT_HELD(&acl__executors_lock);
    struct entry **link = &entries;
    while (*link != NULL && (*link)->stream != stream) {
        link = &(*link)->next;
    }
    return link;
}

static struct entry *entry_of(acl__stream *stream)
{
    struct entry **link = link_of(stream);
    if (*link == NULL) {
        *link = calloc(1, sizeof(**link));
        if (*link != NULL) {
            (*link)->stream = stream;
        }
    }
    return *link;
}

/* Replaces a stream's wrapper if its registered allocator has changed. The caller releases the former wrapper, *old. */
static aclError refresh(struct entry *e, acl__wrapper **old)
{
    WEIR_ASSERT(*old == NULL);
    acl__allocator now;
    const bool registered = acl__allocator_of(e->stream, &now);
    if (e->wrapper != NULL && registered && same_allocator(&e->wrapper->allocator, &now)) {
        return ACL_SUCCESS;
    }
    *old = e->wrapper;
    e->wrapper = registered ? wrapper_create(&now, e->stream) : NULL;
    return registered && e->wrapper == NULL ? ACL_ERROR_BAD_ALLOC : ACL_SUCCESS;
}

/* `named` is true if the program gave the stream's handle, and false if it gave NULL for the default stream. */
static aclError choose(acl__supply *supply, bool named, acl__executor executor, acl__wrapper **old)
{
    WEIR_ASSERT_HELD(&acl__executors_lock);
    WEIR_ASSERT(supply->wrapper == NULL);
    struct entry *e = entry_of(supply->stream);
    if (e == NULL) {
        return ACL_ERROR_BAD_ALLOC;
    }
    ACL_TRY(e->pinned || !named ? ACL_SUCCESS : refresh(e, old));
    if (e->wrapper == NULL || e->pinned || !named) {
        e->pinned = e->pinned || (executor == ACL__OPERATOR && acl__rt.config.pin_default);
        return ACL_SUCCESS;
    }
    supply->wrapper = e->wrapper;
    supply->wrapper->references++;
    return ACL_SUCCESS;
}

static bool has_unfinished(const acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    return stream->live &&
           (stream->held_first != NULL || weir_sim_stream_tail(acl__rt.sim, stream->sim) > weir_sim_now(acl__rt.sim));
}

/* True if an execution of the wrapper's stream is being queued, or is not known to come before the next work of the
 * line's stream. That it happens to be over does not count. */
static bool may_overlap(const acl__wrapper *wrapper, const acl__line *line)
{
    return wrapper->executing > 0 ||
           !(line != NULL ? acl__stamp_is_before(&wrapper->last, line) : acl__stamp_is_seen(&wrapper->last));
}

/* Warns when another stream uses the same allocator object, and no order is known between its work and this stream's.
 * The vendor requires that stream to be synchronised first. */
static void watch_sharing(const acl__supply *supply)
{
    WEIR_ASSERT_HELD(&acl__executors_lock);
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(supply->wrapper != NULL);
    bool overlaps = false;
    for (const struct entry *e = entries; e != NULL && !overlaps; e = e->next) {
        if (e->stream != supply->stream && e->wrapper != NULL &&
            e->wrapper->allocator.object == supply->wrapper->allocator.object) {
            overlaps = may_overlap(e->wrapper, acl__line_of(supply->stream));
        }
    }
    if (overlaps) {
        acl__report_warning("one allocator object was asked for memory for two streams whose work overlaps");
    }
}

/* Called for each stream before it is deleted. The lock is not held. */
static void stream_ends(aclrtStream handle)
{
    acl__wrapper *wrapper = NULL;
    (void)pthread_mutex_lock(&acl__executors_lock);
    struct entry **link = link_of(handle);
    struct entry *gone = *link;
    if (gone != NULL) {
        *link = gone->next;
        wrapper = gone->wrapper;
        free(gone);
    }
    (void)pthread_mutex_unlock(&acl__executors_lock);
    if (wrapper != NULL) {
        recycle(wrapper); /* gives cached memory back now, even if an execution still holds the wrapper */
        wrapper_release(wrapper);
    }
}

/* Called before the allocator registered for a stream is replaced by `next`, or removed if `next` is NULL. */
static void registration_ends(aclrtStream stream, const acl__allocator *next)
{
    acl__wrapper *wrapper = NULL;
    (void)pthread_mutex_lock(&acl__executors_lock);
    const struct entry *e = *link_of(stream);
    if (e != NULL && e->pinned && next != NULL) {
        acl__lock();
        acl__report_warning(
            "an allocator was registered for a stream after an operator had run on it: it is never asked");
        acl__unlock();
    }
    if (e != NULL && e->wrapper != NULL && (next == NULL || !same_allocator(&e->wrapper->allocator, next))) {
        wrapper = e->wrapper;
        wrapper->references++;
        acl__lock();
        if (wrapper->executing > 0 || has_unfinished(e->stream)) {
            acl__report_warning("an allocator was unregistered or replaced while its stream had unfinished work");
        }
        acl__unlock();
    }
    (void)pthread_mutex_unlock(&acl__executors_lock);
    if (wrapper != NULL) {
        recycle(wrapper);
        wrapper_release(wrapper);
    }
}

ACL_EXPORT aclError aclrtAllocatorRegister(aclrtStream stream, aclrtAllocatorDesc allocatorDesc)
{
    ACL_ENTER(aclrtAllocatorRegister);
    ACL_NEED(stream);
    ACL_NEED(allocatorDesc);
    const acl__allocator *a = allocatorDesc;
    ACL_REFUSE_IF(a->object == NULL || a->alloc == NULL || a->free == NULL || a->address == NULL,
                  ACL_ERROR_INVALID_PARAM, "the description lacks its object, alloc, free or address function");
    registration_ends(stream, a);
    return acl__registry_put(stream, allocatorDesc);
}

ACL_EXPORT aclError aclrtAllocatorUnregister(aclrtStream stream)
{
    ACL_ENTER(aclrtAllocatorUnregister);
    ACL_NEED(stream);
    registration_ends(stream, NULL);
    acl__registry_remove(stream);
    return ACL_SUCCESS;
}

/* Returns the wrapper after `last` in the table, or the first one, with a new reference. NULL: no more wrappers. */
static acl__wrapper *next_with_spans(const acl__wrapper *last)
{
    HOLD(&acl__executors_lock);
    bool behind = last == NULL;
    for (const struct entry *e = entries; e != NULL; e = e->next) {
        if (behind && e->wrapper != NULL) {
            e->wrapper->references++;
            return e->wrapper;
        }
        behind = behind || e->wrapper == last;
    }
    return NULL;
}

void acl__consumer_model_ends(void)
{
    for (acl__wrapper *w = next_with_spans(NULL); w != NULL;) {
        recycle(w);
        acl__wrapper *next = next_with_spans(w);
        wrapper_release(w);
        w = next;
    }
}

/* --- supplies --- */

static uint64_t page_of(acl__executor executor)
{
    const uint64_t page = acl__rt.config.model_page_bytes;
    return executor == ACL__OPERATOR || page == 0 ? 1 : page;
}

static aclError find_stream(acl__supply *supply, aclrtStream stream)
{
    ACL_HOLD_LOCK();
    ACL_TRY(acl__stream_of(stream, &supply->stream));
    supply->stream_id = supply->stream->id;
    acl__rt.above.stream_ends = stream_ends;
    if (acl__rt.above.stream_seen == NULL) {
        acl__order_begin();
    }
    return ACL_SUCCESS;
}

aclError acl__supply_begin(acl__supply *supply, aclrtStream stream, acl__executor executor)
{
    *supply =
        (acl__supply){.page_bytes = page_of(executor), .keeps = executor == ACL__MODEL && acl__rt.config.span_cache};
    ACL_TRY(find_stream(supply, stream));
    if (executor == ACL__MODEL_ONLY) {
        return ACL_SUCCESS;
    }
    acl__wrapper *old = NULL;
    (void)pthread_mutex_lock(&acl__executors_lock);
    const aclError error = choose(supply, stream != NULL, executor, &old);
    if (supply->wrapper != NULL) {
        acl__lock();
        watch_sharing(supply);
        acl__unlock();
        supply->wrapper->executing++;
    }
    (void)pthread_mutex_unlock(&acl__executors_lock);
    wrapper_release(old);
    ACL_FAIL_IF(error != ACL_SUCCESS, error, "no host memory for the wrapper of an allocator");
    return ACL_SUCCESS;
}

/* Notes how far the stream's work goes now. */
static void note_end(const acl__supply *supply)
{
    ACL_HOLD_LOCK();
    acl__line *line =
        check_stream(supply->stream, supply->stream_id) == ACL_SUCCESS ? acl__line_of(supply->stream) : NULL;
    if (line != NULL) {
        supply->wrapper->last = acl__stamp_make(line, false);
    }
}

void acl__supply_end(acl__supply *supply)
{
    if (supply->wrapper == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&acl__executors_lock);
    WEIR_ASSERT(supply->wrapper->executing > 0);
    supply->wrapper->executing--;
    note_end(supply);
    (void)pthread_mutex_unlock(&acl__executors_lock);
    wrapper_release(supply->wrapper);
    supply->wrapper = NULL;
}

aclError acl__supply_launch(const acl__supply *supply, const acl__kernel *kernel)
{
    ACL_HOLD_LOCK();
    const aclError error = check_stream(supply->stream, supply->stream_id);
    if (error == ACL_SUCCESS) {
        return acl__launch(supply->stream, kernel);
    }
    if (kernel->end != NULL) {
        kernel->end(kernel->ctx);
    }
    return error;
}

static aclError wait(const acl__supply *supply)
{
    ACL_HOLD_LOCK();
    ACL_TRY(check_stream(supply->stream, supply->stream_id));
    return acl__stream_wait(supply->stream, -1);
}

/* --- pieces of a registered allocator --- */

/* Requests a block, and then the block's address, from the callbacks. Returns false if there is no block. */
static bool ask(acl__wrapper *wrapper, uint64_t bytes, void *hint, acl__piece *piece)
{
    const acl__allocator *a = &wrapper->allocator;
    HOLD(&wrapper->mutex);
    piece->block = hint != NULL && a->advise != NULL ? a->advise(a->object, bytes, hint) : a->alloc(a->object, bytes);
    if (piece->block != NULL) {
        piece->address = a->address(piece->block);
    }
    return piece->block != NULL;
}

/* Takes the smallest cached piece that holds `bytes` and is at most twice as large. Returns false if there is none. */
static bool reuse(acl__wrapper *wrapper, uint64_t bytes, acl__piece *piece)
{
    HOLD(&wrapper->mutex);
    struct span **best = NULL;
    for (struct span **link = &wrapper->spans; *link != NULL; link = &(*link)->next) {
        const uint64_t has = (*link)->piece.bytes;
        if (has >= bytes && has / 2 <= bytes && (best == NULL || has < (*best)->piece.bytes)) {
            best = link;
        }
    }
    if (best == NULL) {
        return false;
    }
    struct span *taken = *best;
    *best = taken->next;
    *piece = taken->piece;
    free(taken);
    return true;
}

/* Caches a piece for later requests. Returns false if the supply caches nothing, or when out of host memory. */
static bool keep(const acl__supply *supply, acl__piece *piece)
{
    struct span *kept = supply->keeps ? malloc(sizeof(*kept)) : NULL;
    if (kept == NULL) {
        return false;
    }
    kept->piece = *piece;
    piece->address = NULL;
    HOLD(&supply->wrapper->mutex);
    kept->next = supply->wrapper->spans;
    supply->wrapper->spans = kept;
    return true;
}

static aclError announce_alloc(const acl__supply *supply, const void *address, uint64_t bytes, const char *tag)
{
    ACL_HOLD_LOCK();
    ACL_TRY(check_stream(supply->stream, supply->stream_id));
    acl__announce_alloc(address, bytes, supply->stream, tag);
    return ACL_SUCCESS;
}

static aclError take_registered(acl__supply *supply, uint64_t bytes, void *hint, const char *tag, acl__piece *piece)
{
    WEIR_ASSERT(supply->wrapper != NULL);
    acl__piece taken = {NULL, NULL, bytes};
    if (supply->keeps && hint == NULL && reuse(supply->wrapper, bytes, piece)) {
        return ACL_SUCCESS;
    }
    if (!ask(supply->wrapper, bytes, hint, &taken)) {
        ACL_TRY(wait(supply));
        recycle(supply->wrapper);
        ACL_FAIL_IF(!ask(supply->wrapper, bytes, hint, &taken), ACL_ERROR_RT_MEMORY_ALLOCATION,
                    "out of memory: the registered allocator has no %llu bytes for \"%s\", also after the stream was "
                    "synchronised",
                    (unsigned long long)bytes, tag);
    }
    if (taken.address == NULL) {
        block_return(supply->wrapper, taken.block);
        return acl__fail((aclError)ACL_ERROR_GE_DEVICE_MEMORY_OPERATE_FAILED,
                         "the registered allocator gave a block of %llu bytes for \"%s\" without an address",
                         (unsigned long long)bytes, tag);
    }
    const aclError error = announce_alloc(supply, taken.address, bytes, tag);
    if (error != ACL_SUCCESS) {
        block_return(supply->wrapper, taken.block);
        return error;
    }
    *piece = taken;
    return ACL_SUCCESS;
}

/* --- pieces of the runtime's own memory --- */

static aclError take_own(acl__supply *supply, uint64_t bytes, acl__piece *piece)
{
    WEIR_ASSERT(supply->wrapper == NULL);
    ACL_HOLD_LOCK();
    ACL_TRY(check_stream(supply->stream, supply->stream_id));
    piece->bytes = bytes;
    return acl__malloc(supply->stream->context->device, bytes, ACL_MEM_MALLOC_HUGE_FIRST, &piece->address);
}

/* Frees the memory that a step of a graph keeps. */
static void kept_end(void *args)
{
    (void)acl__free(*(void **)args);
}

static aclError kept_again(acl__stream *on, void *args)
{
    (void)on;
    (void)args;
    return ACL_SUCCESS;
}

static const acl__step_ops kept_step = {.name = "memory", .again = kept_again, .end = kept_end};

/* Keeps the memory for the graph if the supply's stream is being captured. Returns false if it is not. */
static bool keep_for_graph(const acl__supply *supply, acl__piece *piece)
{
    ACL_HOLD_LOCK();
    const bool kept = check_stream(supply->stream, supply->stream_id) == ACL_SUCCESS && supply->stream->leg != NULL &&
                      acl__capture(supply->stream, &kept_step, &piece->address, sizeof(piece->address)) == ACL_SUCCESS;
    piece->address = kept ? NULL : piece->address;
    return kept;
}

/* Gives a piece of the runtime's memory back. Queued work may still touch it, so the host waits for the stream
 * first. */
static aclError give_own(acl__supply *supply, acl__piece *piece)
{
    WEIR_ASSERT(supply->wrapper == NULL && piece->address != NULL);
    if (keep_for_graph(supply, piece)) {
        return ACL_SUCCESS;
    }
    const aclError waited = wait(supply);
    acl__lock();
    const aclError freed = acl__free(piece->address);
    acl__unlock();
    piece->address = NULL;
    return waited != ACL_SUCCESS ? waited : freed;
}

/* --- pieces of either kind --- */

/* Bytes held by executions, from any allocator. The peak is the denominator of an allocator's packing ratio. */
static _Atomic uint64_t held_bytes;
static _Atomic uint64_t peak_bytes;

static void count_taken(uint64_t bytes)
{
    const uint64_t held = atomic_fetch_add(&held_bytes, bytes) + bytes;
    uint64_t peak = atomic_load(&peak_bytes);
    while (held > peak && !atomic_compare_exchange_weak(&peak_bytes, &peak, held)) {
    }
}

uint64_t acl__consumer_peak_bytes(void)
{
    return atomic_load(&peak_bytes);
}

aclError acl__supply_take(acl__supply *supply, uint64_t bytes, void *hint, const char *tag, acl__piece *piece)
{
    WEIR_ASSERT(supply->page_bytes > 0);
    piece->address = NULL;
    const uint64_t page = supply->page_bytes;
    ACL_FAIL_IF(bytes > UINT64_MAX / 2, ACL_ERROR_RT_MEMORY_ALLOCATION, "%llu bytes for \"%s\" cannot be had",
                (unsigned long long)bytes, tag);
    const uint64_t rounded = (bytes + page - 1) / page * page;
    ACL_TRY(supply->wrapper != NULL ? take_registered(supply, rounded, hint, tag, piece)
                                    : take_own(supply, rounded, piece));
    count_taken(piece->bytes); /* a cached piece may be larger than the request */
    return ACL_SUCCESS;
}

aclError acl__supply_give(acl__supply *supply, acl__piece *piece, const char *tag)
{
    if (piece->address == NULL) {
        return ACL_SUCCESS;
    }
    (void)atomic_fetch_sub(&held_bytes, piece->bytes);
    if (supply->wrapper == NULL) {
        return give_own(supply, piece);
    }
    if (!keep(supply, piece)) {
        piece_return(supply->wrapper, piece, tag);
    }
    return ACL_SUCCESS;
}

bool acl__is_device_memory(const void *address, uint64_t bytes)
{
    WEIR_ASSERT_HELD(acl__mutex());
    return weir_sim_bytes(acl__rt.sim, (uint64_t)(uintptr_t)address, bytes) != NULL;
}
