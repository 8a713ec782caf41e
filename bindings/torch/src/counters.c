/* bindings/torch/src/counters.c: statistics under torch's names.
 *
 * Idea: this file counts the bytes, once for all pools of a device, because torch resets its peaks and a pool cannot
 * reset its own peak. The other figures are read from the pools' statistics.
 *
 * Cost: an atomic addition for an alloc, and one for a free.
 */
#include "torch_internal.h"

#include <stdio.h>

static void add_pool(const struct torch_pool *pool, weir_torch_device_stats *counters)
{
    WEIR_ASSERT(pool->pool != NULL);
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    if (atomic_load(&pool->lost) || weir_pool_get_stats(pool->pool, &stats) != WEIR_OK) {
        return;
    }
    counters->allocation.current += (int64_t)(stats.allocs - stats.frees);
    counters->allocation.allocated += (int64_t)stats.allocs;
    counters->requested_bytes.current += (int64_t)stats.requested_bytes;
    const bool maps = stats.vm_creates != 0;
    counters->segment.current += (int64_t)(maps ? stats.vm_creates - stats.vm_destroys : stats.regions);
    counters->segment.allocated += (int64_t)(maps ? stats.vm_creates : stats.region_allocs);
    counters->active_bytes.current += (int64_t)stats.pending_bytes;
    counters->num_ooms += (int64_t)stats.failures;
    counters->num_alloc_retries +=
        (int64_t)(stats.failures + stats.served[WEIR_RUNG_EXCHANGED] + stats.served[WEIR_RUNG_FLUSHED_ALL] +
                  stats.served[WEIR_RUNG_SYNCED] + stats.served[WEIR_RUNG_CALLBACK]);
    counters->num_sync_all_streams += (int64_t)stats.syncs;
}

static void add_pools(struct torch_device *at, weir_torch_device_stats *counters)
{
    const struct torch_pool *own = atomic_load(&at->own);
    if (own != NULL) {
        add_pool(own, counters);
    }
    for (const struct torch_pool *other = atomic_load(&at->others); other != NULL; other = other->next) {
        add_pool(other, counters);
    }
}

void weir__torch_count_lost(struct torch_device *at)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    weir_torch_device_stats counters = WEIR_TORCH_DEVICE_STATS_INIT;
    add_pools(at, &counters);
    (void)atomic_fetch_add(&at->past_blocks, counters.allocation.allocated);
    atomic_store(&at->freed, atomic_load(&at->allocated));
}

/* --- in torch's form --- */

static weir_torch_counter read_bytes(struct torch_device *at)
{
    const int64_t freed = atomic_load_explicit(&at->freed, memory_order_relaxed);
    const int64_t allocated = atomic_load_explicit(&at->allocated, memory_order_relaxed);
    const int64_t peak = atomic_load_explicit(&at->peak, memory_order_relaxed);
    const int64_t current = allocated - freed;
    return (weir_torch_counter){
        .current = current, .peak = peak > current ? peak : current, .allocated = allocated, .freed = freed};
}

/* Sets the members of a counter whose peak is not known: peak = current, freed = allocated - current. */
static void complete(weir_torch_counter *counter)
{
    counter->peak = counter->current;
    counter->freed = counter->allocated - counter->current;
}

static weir_torch_device_stats read_all(struct torch_device *at)
{
    weir_torch_device_stats counters = WEIR_TORCH_DEVICE_STATS_INIT;
    counters.allocated_bytes = read_bytes(at);
    counters.active_bytes = counters.allocated_bytes;
    weir__torch_source_read(at, &counters);
    add_pools(at, &counters);
    counters.allocation.allocated += atomic_load(&at->past_blocks);
    counters.requested_bytes.allocated = counters.requested_bytes.current;
    complete(&counters.allocation);
    complete(&counters.segment);
    complete(&counters.requested_bytes);
    counters.active = counters.allocation;
    if (counters.active_bytes.peak < counters.active_bytes.current) {
        counters.active_bytes.peak = counters.active_bytes.current;
    }
    return counters;
}

weir_status weir_torch_get_device_stats(int device, weir_torch_device_stats *counters)
{
    struct torch_device *at = weir__torch_device(device);
    if (at == NULL) {
        return weir__torch_no_device("weir_torch_get_device_stats", device);
    }
    const weir_torch_device_stats now = read_all(at);
    return weir_struct_report(counters, &now, sizeof(now), "weir_torch_get_device_stats: counters");
}

void weir_torch_reset_peaks(int8_t device)
{
    struct torch_device *at = weir__torch_device(device);
    if (at == NULL) {
        return;
    }
    atomic_store_explicit(&at->peak, read_bytes(at).current, memory_order_relaxed);
    weir__torch_source_reset_peak(at);
}

/* --- as text --- */

/* Appends one figure to a text buffer of `size` bytes. `used` is the length of the text so far, as if `size` were
 * unbounded; returns the new length. */
static size_t add(char *text, size_t size, size_t used, const char *name, const char *part, int64_t value)
{
    char word[96];
    const char *before = used > 1 ? ", " : "";
    const int length = part != NULL
                           ? snprintf(word, sizeof(word), "%s\"%s.all.%s\": %lld", before, name, part, (long long)value)
                           : snprintf(word, sizeof(word), "%s\"%s\": %lld", before, name, (long long)value);
    if (used < size) {
        (void)snprintf(text + used, size - used, "%s", word);
    }
    return used + (size_t)length;
}

size_t weir_torch_stats_json(int device, char *text, size_t size)
{
    struct torch_device *at = weir__torch_device(device);
    if (at == NULL) {
        return 0;
    }
    const weir_torch_device_stats now = read_all(at);
    if (size > 0) {
        (void)snprintf(text, size, "{");
    }
    size_t used = 1;
#define ADD_COUNTER(name)                                                                                              \
    used = add(text, size, used, #name, "current", now.name.current);                                                  \
    used = add(text, size, used, #name, "peak", now.name.peak);                                                        \
    used = add(text, size, used, #name, "allocated", now.name.allocated);                                              \
    used = add(text, size, used, #name, "freed", now.name.freed);
    WEIR_TORCH_COUNTER_LIST(ADD_COUNTER)
#undef ADD_COUNTER
#define ADD_NUMBER(name) used = add(text, size, used, #name, NULL, now.name);
    WEIR_TORCH_NUMBER_LIST(ADD_NUMBER)
#undef ADD_NUMBER
    if (used < size) {
        (void)snprintf(text + used, size - used, "}");
    }
    return used + 1;
}
