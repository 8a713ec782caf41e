/* bindings/torch/src/pools.c: the settings, and the pools that are made by them.
 *
 * Idea: each device has a pool, created when its first block is requested and kept until weir_torch_shutdown. A device
 * that was reset gets a new pool; the old pool stays, to recognise its blocks when they are freed.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* secure_getenv */
#endif

#include "torch_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Protected by weir__torch_lock. */
static struct torch_settings settings;
static bool settings_read;

/* --- settings --- */

bool weir__torch_read_settings_locked(const char *text)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    char why[256] = "";
    if (!weir__torch_settings_read(text, &settings, why, sizeof(why))) {
        weir__torch_fail_locked("settings", why);
        return false;
    }
    settings_read = true;
    if (settings.record[0] != '\0' && weir__torch_record_locked(settings.record) == WEIR_ERR_NO_MEMORY) {
        /* failures to record other than a lack of memory are reported when a pool's file is opened */
        weir__torch_fail_locked("the recording", weir_status_text(WEIR_ERR_NO_MEMORY));
    }
    return true;
}

bool weir__torch_read_environment_locked(void)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    return settings_read || weir__torch_read_settings_locked(secure_getenv("WEIR_TORCH"));
}

void weir__torch_forget_settings_locked(void)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    settings_read = false;
}

bool weir__torch_prints_reports(void)
{
    (void)pthread_mutex_lock(&weir__torch_lock);
    const bool prints = settings.report;
    (void)pthread_mutex_unlock(&weir__torch_lock);
    return prints;
}

/* --- pools --- */

/* True if the pool's device has not been reset since the pool was created. */
static bool is_current(struct torch_pool *pool)
{
    WEIR_ASSERT(!pool->of_graphs);
    /* read the epoch before the check: a reset after the check then changes the epoch */
    const uint64_t epoch = weir__torch_runtime_epoch();
    if (atomic_load_explicit(&pool->current_at, memory_order_relaxed) == epoch) {
        return true;
    }
    if (weir__torch_runtime_lost(pool->inner)) {
        return false;
    }
    atomic_store_explicit(&pool->current_at, epoch, memory_order_relaxed);
    return true;
}

struct torch_pool *weir__torch_existing(int device)
{
    struct torch_device *at = weir__torch_device(device);
    struct torch_pool *pool = at != NULL ? atomic_load_explicit(&at->own, memory_order_acquire) : NULL;
    return pool != NULL && is_current(pool) ? pool : NULL;
}

/* Makes the pool build its index of addresses now. It would build the index at the first search, which is the first
 * free; if there were no host memory for the index then, the free would fail. */
static weir_status make_index(weir_pool *pool)
{
    weir_block *none = NULL;
    const weir_status status = weir_pool_find(pool, 0, &none);
    return status == WEIR_ERR_INVALID ? WEIR_OK : status;
}

static weir_status make_pool(struct torch_pool *made)
{
    WEIR_ASSERT(made->inner != NULL && made->pool == NULL);
    weir_status status = weir__torch_source_create(made);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = made->device;
    config.strategy = settings.pool.strategy;
    if (made->of_graphs) {
        config.growth = WEIR_GROWTH_GROW_FIRST;
        /* graphs keep addresses of idle memory; torch tells its captures (graph.c) */
        config.flags = WEIR_POOL_KEEP_IDLE_REGIONS | WEIR_POOL_REGIONS | WEIR_POOL_CAPTURES_TOLD;
    } else {
        config.limit_bytes = settings.pool.limit_bytes;
        config.soft_limit_bytes = settings.pool.soft_limit_bytes;
        config.growth = settings.pool.growth;
        config.flags = WEIR_POOL_CAPTURES_TOLD | settings.pool.flags;
    }
    if (status == WEIR_OK) {
        status = weir_pool_create(&config, &made->pool);
    }
    if (status == WEIR_OK && (status = make_index(made->pool)) != WEIR_OK) {
        const weir_status ended = weir_pool_destroy(made->pool);
        (void)ended; /* cannot fail: the pool has taken no memory */
    }
    if (status != WEIR_OK) {
        (void)!weir_device_destroy(made->device); /* no pool uses it */
    }
    return status;
}

static weir_status make_own(struct torch_device *at, struct torch_pool *made)
{
    WEIR_ASSERT(settings_read && !made->of_graphs);
    made->at = at;
    atomic_store(&made->current_at, weir__torch_runtime_epoch());
    weir_status status = weir__torch_runtime_device(at->id, settings.pages, &made->inner);
    if (status != WEIR_OK) {
        return status;
    }
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    status = weir_device_get_info(made->inner, &info);
    atomic_store(&at->capacity_bytes, info.capacity_bytes);
    if (status == WEIR_OK) {
        status = make_pool(made);
    }
    if (status != WEIR_OK) {
        (void)!weir_device_destroy(made->inner); /* no pool uses it */
    }
    return status;
}

static struct torch_pool *make_own_locked(struct torch_device *at)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    if (!weir__torch_read_environment_locked()) {
        return NULL;
    }
    (void)!weir__torch_end_pools_locked();
    struct torch_pool *made = calloc(1, sizeof(*made));
    const weir_status status = made != NULL ? make_own(at, made) : WEIR_ERR_NO_MEMORY;
    if (status != WEIR_OK) {
        char what[48];
        (void)snprintf(what, sizeof(what), "no pool for device %d", at->id);
        weir__torch_fail_with_status_locked(what, status);
        free(made);
        return NULL;
    }
    const uint64_t sixteenth = atomic_load(&at->capacity_bytes) / 16;
    weir__torch_source_limit(at, settings.pool.limit_bytes);
    weir__torch_source_keep_free(at, settings.reserve_bytes == UINT64_MAX ? sixteenth : settings.reserve_bytes);
    if (weir__torch_record_device_locked(at) != WEIR_OK) {
        weir__torch_fail_locked("the recording", strerror(errno));
    }
    WEIR_ASSERT(atomic_load(&at->own) == NULL && made->pool != NULL);
    atomic_store_explicit(&at->own, made, memory_order_release);
    return made;
}

static void put_among_others(struct torch_pool *pool)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    pool->next = atomic_load(&pool->at->others);
    atomic_store_explicit(&pool->at->others, pool, memory_order_release);
}

weir_status weir__torch_make_graph_pool_locked(const struct torch_pool *own, struct torch_pool **pool)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    struct torch_pool *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    made->at = own->at;
    made->inner = own->inner;
    made->of_graphs = true;
    const weir_status status = make_pool(made);
    if (status != WEIR_OK) {
        free(made);
        return status;
    }
    WEIR_ASSERT(made->pool != NULL);
    put_among_others(made);
    *pool = made;
    return WEIR_OK;
}

/* --- a device that is reset --- */

weir_status weir__torch_detach_locked(struct torch_pool *pool)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    while (pool->streams != NULL) {
        struct torch_stream *entry = pool->streams;
        weir_status status = weir__torch_runtime_unfollow(entry->follower);
        if (status == WEIR_ERR_DEVICE) {
            status = weir__torch_runtime_unfollow(entry->follower);
        }
        if (status != WEIR_OK) {
            return status;
        }
        pool->streams = entry->next;
        free(entry);
    }
    return WEIR_OK;
}

static void lose(struct torch_pool *pool)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    atomic_store(&pool->lost, true);
    weir__torch_source_lose(&pool->source);
    const weir_status status = weir__torch_detach_locked(pool);
    (void)status; /* shutdown tries again */
}

/* Takes the pools of a reset device out of use. They serve no more requests but stay, to accept late frees. */
static void abandon_locked(struct torch_pool *own)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    struct torch_device *at = own->at;
    atomic_store(&at->unnoted_count, 0);
    weir__torch_note_lost(at);
    weir__torch_count_lost(at);
    weir__torch_end_routes(at);
    for (struct torch_pool *other = atomic_load(&at->others); other != NULL; other = other->next) {
        if (!atomic_load(&other->lost)) {
            lose(other);
        }
    }
    WEIR_ASSERT(atomic_load(&at->own) == own && !own->of_graphs);
    lose(own);
    put_among_others(own);
    atomic_store(&at->own, NULL);
}

struct torch_pool *weir__torch_pool_of(int device)
{
    struct torch_device *at = weir__torch_device(device);
    struct torch_pool *found = weir__torch_existing(device);
    if (found != NULL || at == NULL) {
        return found;
    }
    (void)pthread_mutex_lock(&weir__torch_lock);
    if (at->id != device) { /* `id` is written once, before any other thread can see the device's pool */
        at->id = device;
    }
    found = atomic_load(&at->own);
    if (found != NULL && !is_current(found)) {
        abandon_locked(found);
        found = NULL;
    }
    found = found != NULL ? found : make_own_locked(at);
    (void)pthread_mutex_unlock(&weir__torch_lock);
    return found;
}
