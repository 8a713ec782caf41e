/* bindings/torch/src/torch.c: alloc, free and record_stream of PyTorch's pluggable allocator.
 *
 * Idea: the framework passes addresses and native streams. weir_pool_find turns an address into a block. A follower
 * (runtime.h) turns a native stream into a weir_stream and notices, where the runtime tells of it, when the native
 * stream is destroyed.
 *
 * Guarantee: this file runs no code at exit, so the order of static destruction does not matter. If a block is freed on
 * another stream than its own, or on a stream that is gone, its memory waits for all streams known to have used it.
 *
 * Cost, beyond the pool's: a comparison with this thread's last stream; for any other stream, a lock and a search of
 * the list of the device's streams.
 */
#include "torch_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <weir/budget.h>

/* This thread's last lookup of a stream. Valid while weir__torch_runtime_epoch has not changed, so that no stream has
 * ended since. */
static _Thread_local struct {
    const struct torch_pool *pool;
    const void *native;
    uint64_t epoch;
    weir_stream *stream;
} recent;

/* --- streams --- */

static struct torch_stream *entry_locked(struct torch_pool *pool, void *native)
{
    WEIR_ASSERT(native != NULL);
    WEIR_ASSERT_HELD(&weir__torch_lock);
    struct torch_stream *entry = pool->streams;
    while (entry != NULL && entry->native != native) {
        entry = entry->next;
    }
    if (entry == NULL && (entry = calloc(1, sizeof(*entry))) != NULL) {
        entry->native = native;
        entry->next = pool->streams;
        pool->streams = entry;
    }
    return entry;
}

/* Finds the pool's stream for a native stream. If the pool has none, it begins to follow the native stream. *stream is
 * NULL if the native stream is gone. `alive`: the caller is about to queue work on the handle, so the handle is valid
 * even if weir has seen a stream with this handle end. */
static weir_status follow_locked(struct torch_pool *pool, void *native, bool alive, weir_stream **stream)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    struct torch_stream *entry = entry_locked(pool, native);
    struct torch_followed followed = {NULL, false};
    if (entry == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    if (entry->follower != NULL && weir__torch_runtime_followed(entry->follower, &followed) &&
        (followed.stream != NULL || (!alive && !followed.handle_reused))) {
        *stream = followed.stream;
        return WEIR_OK;
    }
    weir_status status = weir__torch_runtime_unfollow(entry->follower);
    entry->follower = NULL;
    if (status == WEIR_OK) {
        status = weir__torch_runtime_follow(pool->pool, native, &entry->follower);
    }
    if (status == WEIR_OK) {
        status = weir__torch_runtime_followed(entry->follower, &followed) ? WEIR_OK : WEIR_ERR_INVALID;
        *stream = followed.stream;
    }
    return status;
}

/* Finds the pool's stream for a native stream, or for the default stream if `native` is NULL. If the native stream is
 * gone, finds the pool's default stream, which always exists. `alive`: the caller is about to queue work on it. */
static weir_status stream_of(struct torch_pool *pool, void *native, bool alive, weir_stream **stream)
{
    native = native != NULL ? native : weir__torch_runtime_default_stream(pool->at->id);
    if (native == NULL) {
        return weir_pool_stream(pool->pool, NULL, stream);
    }
    const uint64_t epoch = weir__torch_runtime_epoch();
    if (recent.pool == pool && recent.native == native && recent.epoch == epoch) {
        *stream = recent.stream;
        return WEIR_OK;
    }
    weir_stream *found = NULL;
    (void)pthread_mutex_lock(&weir__torch_lock);
    const weir_status status = follow_locked(pool, native, alive, &found);
    (void)pthread_mutex_unlock(&weir__torch_lock);
    if (status != WEIR_OK || found == NULL) {
        return status != WEIR_OK ? status : weir_pool_stream(pool->pool, NULL, stream);
    }
    recent.pool = pool;
    recent.native = native;
    recent.epoch = epoch; /* read before the search: a stream that ends after the read changes the epoch */
    recent.stream = found;
    *stream = found;
    return WEIR_OK;
}

/* --- alloc and free --- */

static void report_failure(struct torch_pool *pool, weir_status status)
{
    struct torch_device *at = pool->at;
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    const bool ran_out = (status == WEIR_ERR_NO_MEMORY || status == WEIR_ERR_LIMIT) &&
                         weir_pool_get_oom(pool->pool, &record) == WEIR_OK && record.failure != 0;
    if (!ran_out) { /* not a lack of memory: for example, the size is too large or the stream is gone */
        (void)pthread_mutex_lock(&weir__torch_lock);
        weir__torch_fail_with_status_locked("a block", status);
        (void)pthread_mutex_unlock(&weir__torch_lock);
        return;
    }
    atomic_store(&at->blamed, pool);
    if (weir__torch_prints_reports() && !atomic_exchange(&at->reported, true)) {
        char text[4096];
        (void)weir_torch_report(at->id, text, sizeof(text));
        (void)fputs(text, stderr);
    }
}

static weir_status allocate(struct torch_pool *pool, size_t size, void *stream, weir_block **block)
{
    WEIR_ASSERT(pool->pool != NULL);
    weir_stream *on = NULL;
    const uint64_t bytes = weir__torch_runtime_block_bytes(size);
    if (bytes == 0) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_torch_alloc: size %zu is too large", size);
    }
    weir_status status = stream_of(pool, stream, true, &on);
    if (status == WEIR_OK) {
        status = weir_pool_alloc(pool->pool, on, bytes, 0, block);
    }
    return status;
}

/* Makes other pools of the device return idle memory to the device: the released pools of graphs and, if `pool` is a
 * pool of graphs, the device's own pool. Waits for streams. Returns the number of bytes returned. */
static uint64_t take_back(struct torch_pool *pool)
{
    uint64_t released = 0;
    weir_status status = weir__torch_trim_released(pool->at, WEIR_TRIM_WAIT, &released);
    struct torch_pool *own = atomic_load(&pool->at->own);
    if (pool->of_graphs && own != NULL) {
        uint64_t bytes = 0;
        status = weir_pool_trim(own->pool, 0, WEIR_TRIM_WAIT, &bytes);
        released += bytes;
    }
    (void)status; /* a trim may fail: only the released bytes matter */
    return released;
}

/* Allocates a block. If memory runs out, takes idle memory from the device's other pools and tries once more. */
static weir_status allocate_hard(struct torch_pool *pool, size_t size, void *stream, weir_block **block)
{
    const weir_status status = allocate(pool, size, stream, block);
    const bool short_of = status == WEIR_ERR_NO_MEMORY || status == WEIR_ERR_LIMIT;
    const bool repeat = short_of && atomic_load(&pool->at->others) != NULL && take_back(pool) > 0;
    return repeat ? allocate(pool, size, stream, block) : status;
}

void *weir_torch_alloc(size_t size, int device, void *stream)
{
    struct torch_pool *pool = size != 0 ? weir__torch_pool_of(device) : NULL;
    if (pool == NULL) {
        return NULL;
    }
    struct torch_pool *routed = weir__torch_route(pool->at, stream);
    pool = routed != NULL ? routed : pool;
    weir_block *block = NULL;
    const weir_status status = allocate_hard(pool, size, stream, &block);
    if (status != WEIR_OK) {
        report_failure(pool, status);
        return NULL;
    }
    weir__torch_count_alloc(pool->at, weir_block_capacity(block));
    weir__torch_note_alloc(pool->at, block, stream);
    return (void *)(uintptr_t)weir_block_address(block);
}

/* Searches the device's own pool for a block at `ptr`, then the other pools, the newest first: if two pools know the
 * address, the caller means the block of the newer pool. Returns NULL if no pool knows the address. */
static struct torch_pool *find_in(struct torch_device *at, void *ptr, weir_block **block)
{
    struct torch_pool *pool = atomic_load_explicit(&at->own, memory_order_acquire);
    if (pool != NULL && weir_pool_find(pool->pool, (uintptr_t)ptr, block) == WEIR_OK) {
        WEIR_ASSERT(pool->at == at);
        return pool;
    }
    pool = atomic_load_explicit(&at->others, memory_order_acquire);
    while (pool != NULL && weir_pool_find(pool->pool, (uintptr_t)ptr, block) != WEIR_OK) {
        pool = pool->next;
    }
    return pool;
}

/* Returns the pool of a live block of any device, or NULL if `ptr` is no live block. */
static struct torch_pool *find(void *ptr, weir_block **block)
{
    struct torch_pool *pool = NULL;
    for (int device = 0; ptr != NULL && pool == NULL && device < WEIR__TORCH_DEVICES; device++) {
        pool = find_in(weir__torch_device(device), ptr, block);
    }
    return pool;
}

/* Notes in the device's table that the stream uses the block. Returns false if the table is full. */
static bool keep_unnoted(struct torch_device *at, const weir_block *block, void *stream)
{
    (void)pthread_mutex_lock(&weir__torch_lock);
    const unsigned count = atomic_load(&at->unnoted_count);
    const bool fits = count < WEIR__TORCH_UNNOTED;
    if (fits) {
        WEIR_ASSERT(count < WEIR__TORCH_UNNOTED);
        at->unnoted[count].block = block;
        at->unnoted[count].native = stream;
        atomic_store(&at->unnoted_count, count + 1);
    }
    (void)pthread_mutex_unlock(&weir__torch_lock);
    return fits;
}

/* Removes one stream noted for the block from the table. Returns false if there is none. */
static bool take_unnoted(struct torch_device *at, const weir_block *block, void **stream)
{
    (void)pthread_mutex_lock(&weir__torch_lock);
    const unsigned count = atomic_load(&at->unnoted_count);
    WEIR_ASSERT(count <= WEIR__TORCH_UNNOTED);
    unsigned found = 0;
    while (found < count && at->unnoted[found].block != block) {
        found++;
    }
    if (found < count) {
        *stream = at->unnoted[found].native;
        at->unnoted[found] = at->unnoted[count - 1];
        atomic_store(&at->unnoted_count, count - 1);
    }
    (void)pthread_mutex_unlock(&weir__torch_lock);
    return found < count;
}

/* Waits until the work queued on the stream is complete. If the second try fails too, the stream is gone. */
static void wait_for_stream(struct torch_pool *pool, void *stream)
{
    weir_status status = WEIR_ERR_DEVICE;
    for (int tries = 0; tries < 2 && status != WEIR_OK; tries++) { /* the first failure may be temporary */
        status = weir_device_stream_sync(pool->device, stream);
    }
}

static weir_status free_on(struct torch_pool *pool, weir_block *block, void *stream)
{
    weir_stream *on = NULL;
    void *other = NULL;
    while (atomic_load_explicit(&pool->at->unnoted_count, memory_order_relaxed) != 0 &&
           take_unnoted(pool->at, block, &other)) {
        wait_for_stream(pool, other);
    }
    weir_status status = stream_of(pool, stream, false, &on);
    if (status != WEIR_OK) {
        wait_for_stream(pool, stream != NULL ? stream : weir__torch_runtime_default_stream(pool->at->id));
        status = weir_pool_stream(pool->pool, NULL, &on);
    }
    if (status != WEIR_OK) {
        return status;
    }
    /* Work on the owner, the stream that allocated the block, may still use the block. The stream of the free is not
     * ordered after that work, so the owner is noted as a user. (The work of a retired owner is over.) If there is no
     * host memory for this note, the host waits for the other stream, and the block is freed on its owner. */
    weir_stream *owner = weir_block_stream(block);
    if (owner != on && weir_pool_use(pool->pool, block, owner) == WEIR_ERR_NO_MEMORY) {
        wait_for_stream(pool, stream != NULL ? stream : weir__torch_runtime_default_stream(pool->at->id));
        on = owner;
    }
    return weir_pool_free(pool->pool, block, on);
}

void weir_torch_free(void *ptr, size_t size, int device, void *stream)
{
    (void)size;
    struct torch_device *at = weir__torch_device(device);
    weir_block *block = NULL;
    if (ptr == NULL) {
        return;
    }
    struct torch_pool *pool = at != NULL ? find_in(at, ptr, &block) : NULL;
    if (pool == NULL) {
        weir__torch_report_misuse("freed, and not a live block of its device", ptr);
        return;
    }
    const bool lost = atomic_load(&pool->lost);
    const uint64_t bytes = weir_block_capacity(block);
    if (!lost) {
        weir__torch_note_free(at, block, stream);
    }
    const weir_status status = lost ? weir_pool_free_idle(pool->pool, block) : free_on(pool, block, stream);
    if (status != WEIR_OK) {
        weir__torch_report_misuse("could not be freed", ptr);
    } else if (!lost) {
        weir__torch_count_free(at, bytes);
    }
}

void weir_torch_record_stream(void *ptr, void *stream)
{
    weir_block *block = NULL;
    weir_stream *user = NULL;
    struct torch_pool *pool = find(ptr, &block);
    if (pool == NULL) {
        weir__torch_report_misuse("recorded, and not a live block", ptr);
        return;
    }
    if (atomic_load(&pool->lost)) {
        return;
    }
    weir__torch_note_use(pool->at, block, stream);
    weir_status status = stream_of(pool, stream, true, &user);
    if (status == WEIR_OK) {
        status = weir_pool_use(pool->pool, block, user);
    }
    stream = stream != NULL ? stream : weir__torch_runtime_default_stream(pool->at->id);
    if (status != WEIR_OK && !keep_unnoted(pool->at, block, stream)) {
        wait_for_stream(pool, stream); /* covers the uses queued so far */
        weir__torch_report_misuse("the use by a stream could not be noted", ptr);
    }
}

void weir_torch_erase_stream(void *ptr, void *stream)
{
    weir_block *block = NULL;
    weir_stream *user = NULL;
    struct torch_pool *pool = find(ptr, &block);
    if (pool != NULL && !atomic_load(&pool->lost) && stream_of(pool, stream, false, &user) == WEIR_OK) {
        const weir_status status = weir_pool_use_end(pool->pool, block, user);
        (void)status; /* if this fails, the stream counts as a user of the block until the free */
    }
}
