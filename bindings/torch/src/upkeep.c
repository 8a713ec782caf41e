/* bindings/torch/src/upkeep.c: trim, limits, reports and shutdown, and wrappers of these functions with the
 * signatures that frameworks call. */
#include "torch_internal.h"

#include <stdlib.h>
#include <weir/budget.h>

weir_status weir_torch_configure(const char *text)
{
    static const char function[] = "weir_torch_configure";
    if (text == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: settings is NULL", function);
    }
    weir_status status = WEIR_OK;
    (void)pthread_mutex_lock(&weir__torch_lock);
    for (int device = 0; device < WEIR__TORCH_DEVICES && status == WEIR_OK; device++) {
        if (weir__torch_existing(device) != NULL) {
            status = weir_refuse(WEIR_ERR_BUSY, "%s: device %d has a pool already", function, device);
        }
    }
    if (status == WEIR_OK && !weir__torch_read_settings_locked(text)) {
        status = weir_refuse(WEIR_ERR_INVALID, "%s: settings cannot be read: %s", function, text);
    }
    (void)pthread_mutex_unlock(&weir__torch_lock);
    return status;
}

static weir_status trim_device(int device, uint64_t keep_bytes, uint64_t *released)
{
    struct torch_pool *own = weir__torch_existing(device);
    uint64_t bytes = 0;
    if (own == NULL) {
        return WEIR_OK;
    }
    weir__torch_note_trim(own->at);
    const weir_status first = weir__torch_trim_released(own->at, WEIR_TRIM_WAIT, released);
    const weir_status status = weir_pool_trim(own->pool, keep_bytes, WEIR_TRIM_WAIT, &bytes);
    *released += bytes;
    return first == WEIR_OK ? status : first;
}

weir_status weir_torch_trim(int device, uint64_t keep_bytes, uint64_t *released)
{
    if (device != -1 && weir__torch_device(device) == NULL) {
        return weir__torch_no_device("weir_torch_trim", device);
    }
    weir_status first = WEIR_OK;
    uint64_t all = 0;
    for (int one = 0; one < WEIR__TORCH_DEVICES; one++) {
        if (device == -1 || device == one) {
            const weir_status status = trim_device(one, keep_bytes, &all);
            first = first == WEIR_OK ? status : first;
        }
    }
    if (released != NULL) {
        *released = all;
    }
    return first;
}

weir_status weir_torch_get_stats(int device, weir_pool_stats *stats)
{
    struct torch_pool *pool = weir__torch_existing(device);
    return pool != NULL ? weir_pool_get_stats(pool->pool, stats)
                        : weir_refuse(WEIR_ERR_INVALID, "weir_torch_get_stats: device %d has no pool", device);
}

size_t weir_torch_report(int device, char *text, size_t size)
{
    struct torch_device *at = weir__torch_device(device);
    struct torch_pool *pool = at != NULL ? atomic_load(&at->blamed) : NULL;
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    if (pool != NULL && weir_pool_get_oom(pool->pool, &record) == WEIR_OK && record.failure != 0) {
        return weir_oom_explain(&record, text, size);
    }
    return weir__torch_failure(text, size);
}

/* --- shutdown (the lock is held) --- */

static weir_status detach_all(struct torch_device *at)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    struct torch_pool *own = atomic_load(&at->own);
    weir_status first = own != NULL ? weir__torch_detach_locked(own) : WEIR_OK;
    for (struct torch_pool *other = atomic_load(&at->others); other != NULL; other = other->next) {
        const weir_status status = weir__torch_detach_locked(other);
        first = first == WEIR_OK ? status : first;
    }
    return first;
}

/* Pools that have ended, until the device has taken everything back. Protected by the lock. */
static struct torch_pool *ending;

/* May be called again after a failure. */
static weir_status end_pool(struct torch_pool *pool)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    WEIR_ASSERT(pool->streams == NULL);
    weir__torch_source_pin(&pool->source, false);
    const weir_status destroyed = weir_pool_destroy(pool->pool);
    if (destroyed == WEIR_ERR_BUSY) {
        return destroyed;
    }
    pool->pool = NULL;
    const weir_status ended = weir_device_destroy(pool->device); /* gives back what the pool could not */
    if (ended != WEIR_OK) {
        return ended;
    }
    pool->device = NULL;
    return weir__torch_source_sweep(&pool->source);
}

/* True if a pool that has not ended needs the runtime's device. */
static bool is_in_use(const weir_device *inner)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    const struct torch_pool *pool = ending;
    while (pool != NULL && (pool->inner != inner || (pool->pool == NULL && pool->device == NULL))) {
        pool = pool->next;
    }
    return pool != NULL;
}

/* Destroys the runtime's device with the pool that it was created for, not with pools of graphs that share it. */
static weir_status end_inner(struct torch_pool *pool)
{
    WEIR_ASSERT(pool->inner != NULL);
    const weir_status status = pool->of_graphs ? WEIR_OK : weir_device_destroy(pool->inner);
    pool->inner = status == WEIR_OK ? NULL : pool->inner;
    return status;
}

weir_status weir__torch_end_pools_locked(void)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    weir_status first = WEIR_OK;
    for (struct torch_pool *pool = ending; pool != NULL; pool = pool->next) {
        const weir_status status = end_pool(pool);
        first = first == WEIR_OK ? status : first;
    }
    for (struct torch_pool **link = &ending; *link != NULL;) {
        struct torch_pool *pool = *link;
        const weir_status status = is_in_use(pool->inner) ? WEIR_ERR_BUSY : end_inner(pool);
        if (status != WEIR_OK) {
            first = first == WEIR_OK ? status : first;
            link = &pool->next;
            continue;
        }
        *link = pool->next;
        weir__torch_source_lose(&pool->source);
        free(pool);
    }
    return first;
}

static void put_among_ending(struct torch_pool *pool)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    pool->next = ending;
    ending = pool;
}

/* Takes all pools of a device out of use. */
static void end_device(struct torch_device *at)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    struct torch_pool *own = atomic_load(&at->own);
    weir__torch_count_lost(at);
    for (struct torch_pool *other = atomic_load(&at->others), *next; other != NULL; other = next) {
        next = other->next;
        put_among_ending(other);
    }
    if (own != NULL) {
        put_among_ending(own);
    }
    atomic_store(&at->own, NULL);
    atomic_store(&at->others, NULL);
    atomic_store(&at->blamed, NULL);
    atomic_store(&at->reported, false);
    atomic_store(&at->unnoted_count, 0);
}

weir_status weir_torch_shutdown(void)
{
    weir_status first = WEIR_OK;
    (void)pthread_mutex_lock(&weir__torch_lock);
    for (int device = 0; device < WEIR__TORCH_DEVICES; device++) {
        struct torch_device *at = weir__torch_device(device);
        weir__torch_note_lost(at);
        weir__torch_end_routes(at);
        const weir_status status = detach_all(at);
        if (status == WEIR_OK) {
            end_device(at);
        }
        first = first == WEIR_OK ? status : first;
    }
    const weir_status ended = weir__torch_end_pools_locked();
    first = first == WEIR_OK ? ended : first;
    weir__torch_forget_failure_locked();
    if (first == WEIR_OK) {
        weir__torch_forget_settings_locked();
    }
    (void)pthread_mutex_unlock(&weir__torch_lock);
    return first;
}

/* --- functions with the signatures that frameworks call --- */

void weir_torch_init(int device_count)
{
    (void)device_count;
    (void)pthread_mutex_lock(&weir__torch_lock);
    (void)weir__torch_read_environment_locked();
    (void)pthread_mutex_unlock(&weir__torch_lock);
}

static void say(const char *what, weir_status status)
{
    if (status != WEIR_OK) {
        (void)pthread_mutex_lock(&weir__torch_lock);
        weir__torch_fail_with_status_locked(what, status);
        (void)pthread_mutex_unlock(&weir__torch_lock);
    }
}

void weir_torch_reset(bool check_error)
{
    const weir_status status = weir_torch_trim(-1, 0, NULL);
    say("memory could not be given back", check_error ? status : WEIR_OK);
}

void weir_torch_empty_cache(void)
{
    weir_torch_reset(true);
}

static weir_status limit_to(double fraction, int device)
{
    static const char function[] = "weir_torch_set_memory_fraction";
    if (!(fraction >= 0 && fraction <= 1)) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: fraction %g is not between 0 and 1", function, fraction);
    }
    if (weir__torch_device(device) == NULL) {
        return weir__torch_no_device(function, device);
    }
    struct torch_pool *pool = weir__torch_pool_of(device);
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: device %d can have no pool; weir_torch_report says why", function,
                           device);
    }
    uint64_t limit = (uint64_t)(fraction * (double)atomic_load(&pool->at->capacity_bytes));
    limit = fraction > 0 && limit == 0 ? 1 : limit;
    const weir_status status = weir_pool_set_limits(pool->pool, 0, limit);
    if (status == WEIR_OK) {
        weir__torch_source_limit(pool->at, limit);
    }
    return status;
}

void weir_torch_set_memory_fraction(double fraction, int device)
{
    say("the fraction of memory", limit_to(fraction, device));
}

/* --- the region of an address --- */

struct search {
    uint64_t address;
    uint64_t start;
    uint64_t size;
};

static bool look(void *ctx, const weir_walk_entry *entry)
{
    struct search *search = ctx;
    if (search->address - entry->region_address < entry->region_size) {
        search->start = entry->region_address;
        search->size = entry->region_size;
    }
    return search->size == 0;
}

static bool search_pool(const struct torch_pool *pool, struct search *search)
{
    return pool != NULL && !atomic_load(&pool->lost) && weir_pool_walk(pool->pool, look, search) == WEIR_OK &&
           search->size != 0;
}

void *weir_torch_base(void *ptr, size_t *size)
{
    struct search search = {.address = (uintptr_t)ptr};
    for (int device = 0; device < WEIR__TORCH_DEVICES && search.size == 0; device++) {
        const struct torch_pool *pool = weir__torch_existing(device);
        bool found = search_pool(pool, &search);
        pool = pool != NULL ? atomic_load(&pool->at->others) : NULL;
        for (; pool != NULL && !found; pool = pool->next) {
            found = search_pool(pool, &search);
        }
    }
    if (size != NULL) {
        *size = (size_t)search.size;
    }
    return (void *)(uintptr_t)search.start;
}
