/* bindings/torch/src/counters.c: figures by torch's names.
 *
 * Idea: what is live is counted here, once for all pools of a device, because torch sets its peaks back and a pool's own last
 * as long as the pool.
 *
 * Cost: three atomic additions for an alloc and six for a free.
 */
#include "torch_internal.h"

#include <stdio.h>
#include <string.h>

static void count_in(struct torch_count *count, int64_t amount)
{
    const int64_t now = atomic_fetch_add_explicit(&count->current, amount, memory_order_relaxed) + amount;
    int64_t peak = atomic_load_explicit(&count->peak, memory_order_relaxed);
    while (now > peak && !atomic_compare_exchange_weak_explicit(&count->peak, &peak, now, memory_order_relaxed,
                                                                memory_order_relaxed)) {
    }
}

static void count_out(struct torch_count *count, int64_t amount)
{
    (void)atomic_fetch_sub_explicit(&count->current, amount, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&count->freed, amount, memory_order_relaxed);
}

void weir__torch_count_alloc(struct torch_device *at, const weir_block *block)
{
    count_in(&at->blocks, 1);
    count_in(&at->bytes, (int64_t)weir_block_capacity(block));
    count_in(&at->requested, (int64_t)weir_block_size(block));
}

void weir__torch_count_free(struct torch_device *at, uint64_t bytes, uint64_t requested)
{
    count_out(&at->blocks, 1);
    count_out(&at->bytes, (int64_t)bytes);
    count_out(&at->requested, (int64_t)requested);
}

void weir__torch_count_lost(struct torch_device *at)
{
    struct torch_count *counts[] = {&at->blocks, &at->bytes, &at->requested};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        count_out(counts[i], atomic_load_explicit(&counts[i]->current, memory_order_relaxed));
    }
}

/* --- as torch wants them --- */

static weir_torch_counter read_count(struct torch_count *count)
{
    const int64_t current = atomic_load_explicit(&count->current, memory_order_relaxed);
    const int64_t peak = atomic_load_explicit(&count->peak, memory_order_relaxed);
    const int64_t freed = atomic_load_explicit(&count->freed, memory_order_relaxed);
    return (weir_torch_counter){
        .current = current,
        .peak = peak > current ? peak : current,
        .allocated = current + freed,
        .freed = freed,
    };
}

static void add_pool(const struct torch_pool *pool, weir_torch_counters *counters)
{
    weir_stats stats = WEIR_STATS_INIT;
    if (atomic_load(&pool->lost) || weir_pool_stats(pool->pool, &stats) != WEIR_OK) {
        return;
    }
    counters->segment.current += (int64_t)stats.regions;
    counters->segment.allocated += (int64_t)stats.region_allocs;
    counters->segment.freed += (int64_t)stats.region_frees;
    counters->active_bytes.current += (int64_t)stats.pending_bytes;
    counters->num_ooms += (int64_t)stats.failures;
    counters->num_alloc_retries += (int64_t)(stats.failures + stats.served[WEIR_RUNG_EXCHANGED] +
                                             stats.served[WEIR_RUNG_FLUSHED_ALL] + stats.served[WEIR_RUNG_SYNCED] +
                                             stats.served[WEIR_RUNG_CALLBACK]);
    counters->num_sync_all_streams += (int64_t)stats.syncs;
}

static weir_torch_counters read_all(struct torch_device *at)
{
    weir_torch_counters counters = WEIR_TORCH_COUNTERS_INIT;
    counters.allocation = read_count(&at->blocks);
    counters.allocated_bytes = read_count(&at->bytes);
    counters.requested_bytes = read_count(&at->requested);
    counters.active = counters.allocation;
    counters.active_bytes = counters.allocated_bytes;
    weir__torch_source_read(at, &counters);
    const struct torch_pool *own = weir__torch_existing(at->id);
    if (own != NULL) {
        add_pool(own, &counters);
    }
    for (const struct torch_pool *other = atomic_load(&at->others); other != NULL; other = other->next) {
        add_pool(other, &counters);
    }
    if (counters.active_bytes.peak < counters.active_bytes.current) {
        counters.active_bytes.peak = counters.active_bytes.current;
    }
    counters.segment.peak = counters.segment.current;
    return counters;
}

weir_status weir_torch_device_stats(int device, weir_torch_counters *counters)
{
    struct torch_device *at = weir__torch_device(device);
    if (at == NULL || counters == NULL || counters->struct_size < sizeof(counters->struct_size)) {
        return WEIR_ERR_INVALID;
    }
    const weir_torch_counters now = read_all(at);
    const size_t size = counters->struct_size;
    memset(counters, 0, size);
    memcpy(counters, &now, size < sizeof(now) ? size : sizeof(now));
    counters->struct_size = size;
    return WEIR_OK;
}

void weir_torch_reset_peaks(int8_t device)
{
    struct torch_device *at = weir__torch_device(device);
    if (at == NULL) {
        return;
    }
    struct torch_count *counts[] = {&at->blocks, &at->bytes, &at->requested};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        atomic_store_explicit(&counts[i]->peak, atomic_load_explicit(&counts[i]->current, memory_order_relaxed),
                              memory_order_relaxed);
    }
    weir__torch_source_reset_peak(at);
}

/* --- as text --- */

/* Adds to a text of `size` bytes, of which `used` would be taken by now. */
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
    const weir_torch_counters now = read_all(at);
    if (size > 0) {
        (void)snprintf(text, size, "{");
    }
    size_t used = 1;
#define ADD_COUNTER(name)                                                                          \
    used = add(text, size, used, #name, "current", now.name.current);                              \
    used = add(text, size, used, #name, "peak", now.name.peak);                                    \
    used = add(text, size, used, #name, "allocated", now.name.allocated);                          \
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
