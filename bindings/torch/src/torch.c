/* bindings/torch/src/torch.c: pools behind PyTorch's pluggable allocator.
 *
 * Idea: a pool for each device, made when its first block is asked for, and never ended by itself. The framework knows
 * addresses and ACL streams; weir_pool_find makes a block of the one, and a follower (weir_acl_follow) a weir_stream of
 * the other, which also notices when the stream is destroyed.
 *
 * Guarantee: nothing here runs at exit, so no order of static destruction can hurt. A block that is freed on another
 * stream than it was allocated on, or on a stream that is gone, waits for all that are known to have used it.
 *
 * Cost: beyond the pool's, a look at this thread's last stream; when that is another one, a lock and a list of the
 * device's streams.
 */
#include <weir/torch.h>

#include <acl/acl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/acl.h>
#include <weir/budget.h>

#include "settings.h"

#define MOST_DEVICES 64

struct torch_stream {
    struct torch_stream *next;
    void *native;
    weir_acl_attachment *follower;
};

struct torch_pool {
    weir_device *device;
    weir_pool *pool;
    uint64_t capacity_bytes;
    struct torch_stream *streams; /* under the lock */
    atomic_bool reported;
    bool report;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct torch_pool *) pools[MOST_DEVICES];
static struct torch_settings settings; /* under the lock */
static bool settings_read;
static char failure[512]; /* why a pool could not be made */
static atomic_bool misuse_reported;

/* What this thread looked up last. Good while no stream has ended since. */
static _Thread_local struct {
    const struct torch_pool *pool;
    const void *native;
    uint64_t epoch;
    weir_stream *stream;
} recent;

/* --- pools --- */

static struct torch_pool *existing(int device)
{
    return device >= 0 && device < MOST_DEVICES ? atomic_load_explicit(&pools[device], memory_order_acquire) : NULL;
}

/* The lock is held; each reason is printed once. */
static void fail_locked(const char *what, const char *why)
{
    char text[sizeof(failure)];
    (void)snprintf(text, sizeof(text), "weir_torch: %s: %s\n", what, why);
    if (strcmp(text, failure) != 0) {
        memcpy(failure, text, sizeof(failure));
        (void)fputs(failure, stderr);
    }
}

/* A device that does not exist is the caller's mistake, and ACL says it best. */
static void fail_with_status_locked(const char *what, weir_status status)
{
    int code = 0;
    const char *acl = "";
    const weir_status asked = weir_acl_error(&code, &acl);
    const bool of_acl = asked == WEIR_OK && code != 0 &&
                        (status == WEIR_ERR_DEVICE || (status == WEIR_ERR_INVALID && code == ACL_ERROR_RT_INVALID_DEVICEID));
    fail_locked(what, of_acl ? acl : weir_status_text(status));
}

static bool read_settings_locked(const char *text)
{
    char why[256] = "";
    if (!weir__torch_settings_read(text, &settings, why, sizeof(why))) {
        fail_locked("settings", why);
        return false;
    }
    return true;
}

static weir_status fill(struct torch_pool *made, int device)
{
    weir_acl_device_config acl = WEIR_ACL_DEVICE_CONFIG_INIT;
    acl.device_id = device;
    acl.pages = settings.pages;
    weir_status status = weir_acl_device_create(&acl, &made->device);
    if (status != WEIR_OK) {
        return status;
    }
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    status = weir_device_get_info(made->device, &info);
    made->capacity_bytes = info.capacity_bytes;
    made->report = settings.report;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = made->device;
    config.strategy = settings.strategy;
    config.limit_bytes = settings.limit_bytes;
    config.soft_limit_bytes = settings.soft_limit_bytes;
    config.growth = settings.growth;
    config.flags = settings.virtual_memory ? (uint32_t)WEIR_POOL_VIRTUAL_MEMORY : 0;
    if (status == WEIR_OK) {
        status = weir_pool_create(&config, &made->pool);
    }
    if (status != WEIR_OK) {
        weir_device_destroy(made->device);
    }
    return status;
}

static struct torch_pool *make_locked(int device)
{
    if (!settings_read && !read_settings_locked(getenv("WEIR_TORCH"))) {
        return NULL;
    }
    settings_read = true;
    struct torch_pool *made = calloc(1, sizeof(*made));
    const weir_status status = made != NULL ? fill(made, device) : WEIR_ERR_NO_MEMORY;
    if (status != WEIR_OK) {
        char what[48];
        (void)snprintf(what, sizeof(what), "no pool for device %d", device);
        fail_with_status_locked(what, status);
        free(made);
        return NULL;
    }
    atomic_store_explicit(&pools[device], made, memory_order_release);
    return made;
}

static struct torch_pool *pool_of(int device)
{
    struct torch_pool *found = existing(device);
    if (found != NULL || device < 0 || device >= MOST_DEVICES) {
        return found;
    }
    (void)pthread_mutex_lock(&lock);
    found = existing(device);
    found = found != NULL ? found : make_locked(device);
    (void)pthread_mutex_unlock(&lock);
    return found;
}

/* --- streams --- */

/* NULL as ACL means it, by its own handle; NULL if no context of the device is current. */
static void *default_stream(int device)
{
    int32_t current = -1;
    aclrtStream stream = NULL;
    if (aclrtGetDevice(&current) != ACL_SUCCESS || current != device ||
        aclrtCtxGetCurrentDefaultStream(&stream) != ACL_SUCCESS) {
        return NULL;
    }
    return stream;
}

static struct torch_stream *entry_locked(struct torch_pool *pool, void *native)
{
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

/* NULL in *stream: the ACL stream is gone. A handle that work is about to be queued on is alive, whatever is known. */
static weir_status follow_locked(struct torch_pool *pool, void *native, bool alive, weir_stream **stream)
{
    struct torch_stream *entry = entry_locked(pool, native);
    weir_acl_attachment_info info = WEIR_ACL_ATTACHMENT_INFO_INIT;
    if (entry == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    if (entry->follower != NULL && weir_acl_attachment_get_info(entry->follower, &info) == WEIR_OK &&
        (info.stream != NULL || (!alive && !info.handle_reused))) {
        *stream = info.stream;
        return WEIR_OK;
    }
    weir_status status = weir_acl_detach(entry->follower);
    entry->follower = NULL;
    if (status == WEIR_OK) {
        status = weir_acl_follow(pool->pool, native, &entry->follower);
    }
    if (status == WEIR_OK) {
        status = weir_acl_attachment_get_info(entry->follower, &info);
        *stream = info.stream;
    }
    return status;
}

/* `alive`: the caller is going to queue work on the stream. What has no stream of its own any more goes to the device's
 * default stream, which is always there. */
static weir_status stream_of(struct torch_pool *pool, int device, void *native, bool alive, weir_stream **stream)
{
    native = native != NULL ? native : default_stream(device);
    if (native == NULL) {
        return weir_pool_stream(pool->pool, NULL, stream);
    }
    const uint64_t epoch = weir_acl_epoch();
    if (recent.pool == pool && recent.native == native && recent.epoch == epoch) {
        *stream = recent.stream;
        return WEIR_OK;
    }
    weir_stream *found = NULL;
    (void)pthread_mutex_lock(&lock);
    const weir_status status = follow_locked(pool, native, alive, &found);
    (void)pthread_mutex_unlock(&lock);
    if (status != WEIR_OK || found == NULL) {
        return status != WEIR_OK ? status : weir_pool_stream(pool->pool, NULL, stream);
    }
    recent.pool = pool;
    recent.native = native;
    recent.epoch = epoch; /* from before the look, so that an end since then shows */
    recent.stream = found;
    *stream = found;
    return WEIR_OK;
}

/* --- alloc and free --- */

/* The caller can do nothing about it, so it is said; once, since more would only hide the first. */
static void report_misuse(const char *text, const void *ptr)
{
    if (!atomic_exchange(&misuse_reported, true)) {
        (void)fprintf(stderr, "weir_torch: %s: %p\n", text, ptr);
    }
}

static void report_failure(struct torch_pool *pool, int device, weir_status status)
{
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    const bool ran_out = (status == WEIR_ERR_NO_MEMORY || status == WEIR_ERR_LIMIT) &&
                         weir_pool_oom(pool->pool, &record) == WEIR_OK && record.failure != 0;
    if (!ran_out) { /* a size beyond all bounds, a stream that is gone */
        (void)pthread_mutex_lock(&lock);
        fail_with_status_locked("a block", status);
        (void)pthread_mutex_unlock(&lock);
    } else if (pool->report && !atomic_exchange(&pool->reported, true)) {
        char text[4096];
        (void)weir_torch_report(device, text, sizeof(text));
        (void)fprintf(stderr, "weir_torch: device %d: %s", device, text);
    }
}

void *weir_torch_alloc(size_t size, int device, void *stream)
{
    struct torch_pool *pool = size != 0 ? pool_of(device) : NULL;
    if (pool == NULL) {
        return NULL;
    }
    weir_stream *on = NULL;
    weir_block *block = NULL;
    weir_status status = stream_of(pool, device, stream, true, &on);
    if (status == WEIR_OK) {
        status = weir_pool_alloc(pool->pool, on, weir_acl_block_bytes(size), 0, &block);
    }
    if (status != WEIR_OK) {
        report_failure(pool, device, status);
        return NULL;
    }
    return (void *)(uintptr_t)weir_block_address(block);
}

/* The allocating stream may still work on the block: who frees it elsewhere does not wait for that one. If it is
 * retired its work is over. */
static void wait_for_owner(weir_pool *pool, weir_block *block, const weir_stream *on)
{
    weir_stream *owner = weir_block_stream(block);
    if (owner != on) {
        const weir_status status = weir_pool_use(pool, block, owner);
        (void)status;
    }
}

void weir_torch_free(void *ptr, size_t size, int device, void *stream)
{
    (void)size;
    struct torch_pool *pool = ptr != NULL ? existing(device) : NULL;
    if (ptr == NULL) {
        return;
    }
    weir_block *block = NULL;
    if (pool == NULL || weir_pool_find(pool->pool, (uintptr_t)ptr, &block) != WEIR_OK) {
        report_misuse("freed, and not a live block of its device", ptr);
        return;
    }
    weir_stream *on = NULL;
    weir_status status = stream_of(pool, device, stream, false, &on);
    if (status != WEIR_OK) {
        status = weir_pool_stream(pool->pool, NULL, &on);
    }
    if (status == WEIR_OK) {
        wait_for_owner(pool->pool, block, on);
        status = weir_pool_free(pool->pool, block, on);
    }
    if (status != WEIR_OK) {
        report_misuse("could not be freed", ptr);
    }
}

/* The pool that a block of unknown device belongs to. */
static struct torch_pool *find(void *ptr, int *device, weir_block **block)
{
    for (*device = 0; ptr != NULL && *device < MOST_DEVICES; ++*device) {
        struct torch_pool *pool = existing(*device);
        if (pool != NULL && weir_pool_find(pool->pool, (uintptr_t)ptr, block) == WEIR_OK) {
            return pool;
        }
    }
    return NULL;
}

void weir_torch_record_stream(void *ptr, void *stream)
{
    int device = 0;
    weir_block *block = NULL;
    weir_stream *user = NULL;
    struct torch_pool *pool = find(ptr, &device, &block);
    if (pool == NULL) {
        report_misuse("recorded, and not a live block", ptr);
        return;
    }
    weir_status status = stream_of(pool, device, stream, true, &user);
    if (status == WEIR_OK) {
        status = weir_pool_use(pool->pool, block, user);
    }
    if (status != WEIR_OK) {
        /* It cannot be noted, so it has to be over. */
        status = weir_acl_sync_stream(pool->pool, stream);
        if (status != WEIR_OK) {
            report_misuse("the use by a stream could neither be noted nor waited for", ptr);
        }
    }
}

void weir_torch_erase_stream(void *ptr, void *stream)
{
    int device = 0;
    weir_block *block = NULL;
    weir_stream *user = NULL;
    struct torch_pool *pool = find(ptr, &device, &block);
    if (pool != NULL && stream_of(pool, device, stream, false, &user) == WEIR_OK) {
        const weir_status status = weir_pool_use_end(pool->pool, block, user);
        (void)status; /* then the use lasts until the free */
    }
}

/* --- upkeep --- */

weir_status weir_torch_configure(const char *text)
{
    if (text == NULL) {
        return WEIR_ERR_INVALID;
    }
    weir_status status = WEIR_OK;
    (void)pthread_mutex_lock(&lock);
    for (int device = 0; device < MOST_DEVICES; device++) {
        status = existing(device) != NULL ? WEIR_ERR_BUSY : status;
    }
    if (status == WEIR_OK) {
        status = read_settings_locked(text) ? WEIR_OK : WEIR_ERR_INVALID;
        settings_read |= status == WEIR_OK;
    }
    (void)pthread_mutex_unlock(&lock);
    return status;
}

weir_status weir_torch_trim(int device, uint64_t keep_bytes, uint64_t *released)
{
    if (device >= MOST_DEVICES || device < -1) {
        return WEIR_ERR_INVALID;
    }
    weir_status first = WEIR_OK;
    uint64_t all = 0;
    for (int one = 0; one < MOST_DEVICES; one++) {
        struct torch_pool *pool = device == -1 || device == one ? existing(one) : NULL;
        uint64_t bytes = 0;
        if (pool != NULL) {
            const weir_status status = weir_pool_trim(pool->pool, keep_bytes, WEIR_TRIM_WAIT, &bytes);
            first = first == WEIR_OK ? status : first;
            all += bytes;
        }
    }
    if (released != NULL) {
        *released = all;
    }
    return first;
}

weir_status weir_torch_memory_fraction(double fraction, int device)
{
    struct torch_pool *pool = fraction >= 0 && fraction <= 1 ? pool_of(device) : NULL;
    if (pool == NULL) {
        return WEIR_ERR_INVALID;
    }
    const uint64_t limit = (uint64_t)(fraction * (double)pool->capacity_bytes);
    return weir_pool_set_limits(pool->pool, 0, fraction > 0 && limit == 0 ? 1 : limit);
}

weir_status weir_torch_stats(int device, weir_stats *stats)
{
    struct torch_pool *pool = existing(device);
    return pool != NULL ? weir_pool_stats(pool->pool, stats) : WEIR_ERR_INVALID;
}

size_t weir_torch_report(int device, char *text, size_t size)
{
    struct torch_pool *pool = existing(device);
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    if (pool != NULL && weir_pool_oom(pool->pool, &record) == WEIR_OK && record.failure != 0) {
        return weir_oom_format(&record, text, size);
    }
    (void)pthread_mutex_lock(&lock);
    const size_t length = strlen(failure);
    if (size != 0) {
        const size_t kept = length < size - 1 ? length : size - 1;
        memcpy(text, failure, kept);
        text[kept] = '\0';
    }
    (void)pthread_mutex_unlock(&lock);
    return length;
}

/* Stops at a stream that cannot be waited for; a later call goes on from there. */
static weir_status detach_all(struct torch_pool *pool)
{
    while (pool->streams != NULL) {
        struct torch_stream *entry = pool->streams;
        weir_status status = weir_acl_detach(entry->follower);
        if (status == WEIR_ERR_DEVICE) {
            status = weir_acl_detach(entry->follower);
        }
        if (status != WEIR_OK) {
            return status;
        }
        pool->streams = entry->next;
        free(entry);
    }
    return WEIR_OK;
}

weir_status weir_torch_shutdown(void)
{
    weir_status first = WEIR_OK;
    (void)pthread_mutex_lock(&lock);
    for (int device = 0; device < MOST_DEVICES; device++) {
        struct torch_pool *pool = existing(device);
        weir_status status = pool != NULL ? detach_all(pool) : WEIR_OK;
        if (pool != NULL && status == WEIR_OK) {
            status = weir_pool_destroy(pool->pool);
            weir_device_destroy(pool->device);
            free(pool);
            atomic_store(&pools[device], NULL);
        }
        first = first == WEIR_OK ? status : first;
    }
    settings_read = settings_read && first != WEIR_OK;
    failure[0] = '\0';
    (void)pthread_mutex_unlock(&lock);
    return first;
}
