/* consumer.c: the contract with a registered allocator, seen from the side that calls it.
 *
 * For each stream that executes something there is at most one wrapper of the allocator registered for it: the five
 * words, and a mutex under which the stream's callbacks are made. Two streams have two wrappers, also over the same
 * allocator object, whose callbacks then run concurrently. A wrapper goes when the registration it was made from is
 * found changed or gone, or when the stream is destroyed; who executes meanwhile keeps it until he is done.
 *
 * Of one piece: alloc, and at once the address, once; then free, once. A NULL from alloc makes the consumer synchronise
 * the stream and ask once more. The block means nothing here. The auditor hears of a piece behind alloc and before free.
 *
 * Locks: the table's, then the runtime's. A wrapper's mutex is taken with neither held, for the callbacks take both.
 */
#include "consumer.h"

#include "report.h"

#include <stdlib.h>

struct acl__wrapper {
    acl__allocator allocator;
    pthread_mutex_t mutex; /* of the callbacks */
    uint32_t references;   /* the table's, and one for each execution; under the table's lock */
    uint32_t executing;
};

/* What is kept for a stream. */
typedef struct entry {
    struct entry *next;
    acl__stream *stream;
    bool
        pinned; /* an operator ran before any allocator was registered: the runtime's memory from then on */
    acl__wrapper *wrapper;
} entry;

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static entry *entries;

/* --- wrappers --- */

static void wrapper_release(acl__wrapper *wrapper)
{
    if (wrapper != NULL && --wrapper->references == 0) {
        (void)pthread_mutex_destroy(&wrapper->mutex);
        free(wrapper);
    }
}

static acl__wrapper *wrapper_create(const acl__allocator *allocator)
{
    acl__wrapper *wrapper = calloc(1, sizeof *wrapper);
    if (wrapper != NULL && pthread_mutex_init(&wrapper->mutex, NULL) != 0) {
        free(wrapper);
        wrapper = NULL;
    }
    if (wrapper != NULL) {
        wrapper->allocator = *allocator;
        wrapper->references = 1;
    }
    return wrapper;
}

static bool same_allocator(const acl__allocator *a, const acl__allocator *b)
{
    return a->object == b->object && a->alloc == b->alloc && a->free == b->free &&
           a->advise == b->advise && a->address == b->address;
}

/* --- the table --- */

static entry **link_of(const acl__stream *stream)
{
    entry **link = &entries;
    while (*link != NULL && (*link)->stream != stream) {
        link = &(*link)->next;
    }
    return link;
}

static entry *entry_of(acl__stream *stream)
{
    entry **link = link_of(stream);
    if (*link == NULL) {
        *link = calloc(1, sizeof **link);
        if (*link != NULL) {
            (*link)->stream = stream;
        }
    }
    return *link;
}

/* Makes the entry's wrapper that of the registration as it is now. */
static aclError refresh(entry *e)
{
    acl__allocator now;
    const bool registered = acl__allocator_of(e->stream, &now);
    if (e->wrapper != NULL && registered && same_allocator(&e->wrapper->allocator, &now)) {
        return ACL_SUCCESS;
    }
    wrapper_release(e->wrapper);
    e->wrapper = registered ? wrapper_create(&now) : NULL;
    return registered && e->wrapper == NULL ? ACL_ERROR_BAD_ALLOC : ACL_SUCCESS;
}

static aclError choose(acl__supply *supply, acl__executor executor)
{
    entry *e = entry_of(supply->stream);
    if (e == NULL) {
        return ACL_ERROR_BAD_ALLOC;
    }
    const aclError error = e->pinned ? ACL_SUCCESS : refresh(e);
    if (error != ACL_SUCCESS) {
        return error;
    }
    if (e->wrapper == NULL) {
        e->pinned = e->pinned || (executor == ACL__OPERATOR && acl__rt.config.pin_default);
        return ACL_SUCCESS;
    }
    supply->wrapper = e->wrapper;
    supply->wrapper->references++;
    return ACL_SUCCESS;
}

static bool has_unfinished(const acl__stream *stream)
{
    return stream->live &&
           (stream->held_first != NULL ||
            weir_sim_stream_tail(acl__rt.sim, stream->sim) > weir_sim_now(acl__rt.sim));
}

/* The vendor wants one stream to be synchronised before another one uses the same allocator object. */
static void watch_sharing(const acl__supply *supply)
{
    bool overlaps = false;
    for (const entry *e = entries; e != NULL && !overlaps; e = e->next) {
        if (e->stream != supply->stream && e->wrapper != NULL &&
            e->wrapper->allocator.object == supply->wrapper->allocator.object) {
            overlaps = e->wrapper->executing > 0 || has_unfinished(e->stream);
        }
    }
    if (overlaps) {
        acl__report_warning(
            "one allocator object was asked for memory for two streams whose work overlaps");
    }
}

void acl__op_stream_ends(aclrtStream handle)
{
    (void)pthread_mutex_lock(&table_lock);
    entry **link = link_of(handle);
    entry *gone = *link;
    if (gone != NULL) {
        *link = gone->next;
        wrapper_release(gone->wrapper);
        free(gone);
    }
    (void)pthread_mutex_unlock(&table_lock);
}

void acl__consumer_registration_ends(aclrtStream stream, const acl__allocator *next)
{
    (void)pthread_mutex_lock(&table_lock);
    const entry *e = *link_of(stream);
    if (e != NULL && e->wrapper != NULL &&
        (next == NULL || !same_allocator(&e->wrapper->allocator, next))) {
        acl__lock();
        if (e->wrapper->executing > 0 || has_unfinished(e->stream)) {
            acl__report_warning(
                "an allocator was unregistered or replaced while its stream had unfinished work");
        }
        acl__unlock();
    }
    (void)pthread_mutex_unlock(&table_lock);
}

/* --- supplies --- */

aclError acl__supply_lock(const acl__supply *supply)
{
    acl__lock();
    if (supply->stream->live && supply->stream->id == supply->stream_id) {
        return ACL_SUCCESS;
    }
    acl__unlock();
    return acl__fail(ACL_ERROR_RT_STREAM_CONTEXT,
                     "stream %d was destroyed while something executed on it", supply->stream_id);
}

static uint64_t page_of(acl__executor executor)
{
    const uint64_t page = acl__rt.config.model_page_bytes;
    return executor == ACL__OPERATOR || page == 0 ? 1 : page;
}

aclError acl__supply_begin(acl__supply *supply, aclrtStream stream, acl__executor executor)
{
    *supply = (acl__supply){.page_bytes = page_of(executor)};
    acl__lock();
    aclError error = acl__stream_of(stream, &supply->stream);
    if (error == ACL_SUCCESS) {
        supply->stream_id = supply->stream->id;
    }
    acl__unlock();
    if (error != ACL_SUCCESS || executor == ACL__MODEL_ONLY) {
        return error;
    }
    (void)pthread_mutex_lock(&table_lock);
    error = choose(supply, executor);
    if (supply->wrapper != NULL) {
        acl__lock();
        watch_sharing(supply);
        acl__unlock();
        supply->wrapper->executing++;
    }
    (void)pthread_mutex_unlock(&table_lock);
    return error == ACL_SUCCESS
               ? error
               : acl__fail(error, "no host memory for the wrapper of an allocator");
}

void acl__supply_end(acl__supply *supply)
{
    if (supply->wrapper == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&table_lock);
    supply->wrapper->executing--;
    wrapper_release(supply->wrapper);
    (void)pthread_mutex_unlock(&table_lock);
    supply->wrapper = NULL;
}

aclError acl__supply_launch(const acl__supply *supply, const acl__kernel *kernel)
{
    aclError error = acl__supply_lock(supply);
    if (error != ACL_SUCCESS) {
        if (kernel->end != NULL) {
            kernel->end(kernel->ctx);
        }
        return error;
    }
    error = acl__launch(supply->stream, kernel);
    acl__unlock();
    return error;
}

static aclError wait(const acl__supply *supply)
{
    aclError error = acl__supply_lock(supply);
    if (error == ACL_SUCCESS) {
        error = acl__stream_wait(supply->stream, -1);
        acl__unlock();
    }
    return error;
}

/* --- pieces of a registered allocator --- */

/* A callback in C++ may throw, and what it throws is the caller's affair: the mutex must not stay locked on its way. */
static void unlock(pthread_mutex_t *const *mutex)
{
    (void)pthread_mutex_unlock(*mutex);
}
#define HOLD(wrapper)                                                                              \
    (void)pthread_mutex_lock(&(wrapper)->mutex);                                                   \
    pthread_mutex_t *const held_ __attribute__((cleanup(unlock), unused)) = &(wrapper)->mutex

/* One request to the callbacks; the address follows the block at once. */
static bool ask(acl__wrapper *wrapper, uint64_t bytes, void *hint, acl__piece *piece)
{
    const acl__allocator *a = &wrapper->allocator;
    HOLD(wrapper);
    piece->block = hint != NULL && a->advise != NULL ? a->advise(a->object, bytes, hint)
                                                     : a->alloc(a->object, bytes);
    if (piece->block != NULL) {
        piece->address = a->address(piece->block);
    }
    return piece->block != NULL;
}

static void hand_back(acl__wrapper *wrapper, aclrtAllocatorBlock block)
{
    HOLD(wrapper);
    wrapper->allocator.free(wrapper->allocator.object, block);
}

static aclError take_registered(acl__supply *supply, uint64_t bytes, void *hint, const char *tag,
                                acl__piece *piece)
{
    acl__piece taken = {NULL, NULL, bytes};
    if (!ask(supply->wrapper, bytes, hint, &taken)) {
        /* Nothing is cached here that could be recycled; the allocator may have blocks that wait for the stream. */
        const aclError waited = wait(supply);
        if (waited != ACL_SUCCESS) {
            return waited;
        }
        if (!ask(supply->wrapper, bytes, hint, &taken)) {
            return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                             "out of memory: the registered allocator has no %llu bytes for "
                             "\"%s\", also after the stream "
                             "was synchronised",
                             (unsigned long long)bytes, tag);
        }
    }
    if (taken.address == NULL) {
        hand_back(supply->wrapper, taken.block);
        return acl__fail(
            ACL_ERROR_GE_DEVICE_MEMORY_OPERATE_FAILED,
            "the registered allocator gave a block of %llu bytes for \"%s\" without an address",
            (unsigned long long)bytes, tag);
    }
    *piece = taken;
    aclError error = acl__supply_lock(supply);
    if (error == ACL_SUCCESS) {
        acl__announce_alloc(piece->address, bytes, supply->stream, tag);
        acl__unlock();
    } else {
        hand_back(supply->wrapper, piece->block);
        piece->address = NULL;
    }
    return error;
}

static void give_registered(acl__supply *supply, acl__piece *piece, const char *tag)
{
    if (acl__supply_lock(supply) == ACL_SUCCESS) {
        acl__announce_free(piece->address, supply->stream, tag);
        acl__unlock();
    }
    piece->address = NULL;
    hand_back(supply->wrapper, piece->block);
}

/* --- pieces of the runtime's own memory --- */

static aclError take_own(acl__supply *supply, uint64_t bytes, acl__piece *piece)
{
    aclError error = acl__supply_lock(supply);
    if (error == ACL_SUCCESS) {
        error = acl__malloc(supply->stream->context->device, bytes, ACL_MEM_MALLOC_HUGE_FIRST,
                            &piece->address);
        acl__unlock();
        piece->bytes = bytes;
    }
    return error;
}

/* Work that is queued may still touch it, and nobody but the host can wait for that. */
static aclError give_own(acl__supply *supply, acl__piece *piece)
{
    const aclError waited = wait(supply);
    acl__lock();
    const aclError freed = acl__free(piece->address);
    acl__unlock();
    piece->address = NULL;
    return waited != ACL_SUCCESS ? waited : freed;
}

/* --- both --- */

aclError acl__supply_take(acl__supply *supply, uint64_t bytes, void *hint, const char *tag,
                          acl__piece *piece)
{
    piece->address = NULL;
    const uint64_t page = supply->page_bytes;
    if (bytes > UINT64_MAX / 2) {
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "%llu bytes for \"%s\" cannot be had",
                         (unsigned long long)bytes, tag);
    }
    const uint64_t rounded = (bytes + page - 1) / page * page;
    return supply->wrapper != NULL ? take_registered(supply, rounded, hint, tag, piece)
                                   : take_own(supply, rounded, piece);
}

aclError acl__supply_give(acl__supply *supply, acl__piece *piece, const char *tag)
{
    if (piece->address == NULL) {
        return ACL_SUCCESS;
    }
    if (supply->wrapper == NULL) {
        return give_own(supply, piece);
    }
    give_registered(supply, piece, tag);
    return ACL_SUCCESS;
}

bool acl__is_device_memory(const void *address, uint64_t bytes)
{
    return weir_sim_bytes(acl__rt.sim, (uint64_t)(uintptr_t)address, bytes) != NULL;
}
