/* core/src/memory/vm_span.c: spans of addresses: reserves them, adds them to the strategy, and releases them.
 *
 * A reservation that can neither be added to the strategy nor released is kept, and tried again by the next growth or
 * trim.
 */
#include "shared/round_up.h"
#include "vm_internal.h"

#include <stdlib.h>

/* A span (one reservation of addresses) is span_factor times as large as the memory that the pool may reserve. It has
 * at most span_most_granules granules, unless one request needs more. */
enum { span_factor = 4, span_most_granules = 1 << 19, span_unknown_granules = 1 << 17 };

void weir__vm_release_refused(weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    WEIR_ASSERT(pool->growth.taken);
    struct pool_vm *vm = pool->vm;
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && vm->refused != NULL) {
        struct vm_span *refused = vm->refused;
        pool_unlock(pool);
        status = weir_device_vm_release(pool->device, refused->reserved_address, refused->reserved_size);
        pool_lock(pool);
        if (status == WEIR_OK) {
            vm->refused = refused->next;
            free(refused);
        } else {
            pool->counts.device_failures++;
        }
    }
}

/* Returns the size of the next span, at least `least` bytes. */
static uint64_t size_of_span(const weir_pool *pool, uint64_t least)
{
    WEIR_ASSERT(least != 0);
    const unsigned shift = pool->vm->granule_shift;
    const uint64_t capacity = weir__device_info(pool->device)->capacity_bytes;
    const uint64_t limit = pool->config.limit_bytes;
    const uint64_t held = capacity != 0 && (limit == 0 || capacity < limit) ? capacity : limit;
    const uint64_t most = (uint64_t)span_most_granules << shift;
    const uint64_t size = held == 0                   ? (uint64_t)span_unknown_granules << shift
                          : held > most / span_factor ? most
                                                      : round_up(held * span_factor, pool->vm->granule);
    return size > least ? size : least;
}

/* Reserves *size bytes and `extra` bytes of addresses, or, if the device refuses, halves *size and tries again, down to
 * `least`. Returns the device's last answer. No lock held. */
static weir_status reserve_addresses(weir_pool *pool, uint64_t least, uint64_t extra, uint64_t *size, uint64_t *address,
                                     uint64_t *failures)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    WEIR_ASSERT(*size >= least);
    weir_status status = weir_device_vm_reserve(pool->device, *size + extra, address);
    while (status != WEIR_OK && *size > least) {
        const uint64_t half = round_up(*size / 2, pool->vm->granule);
        *failures += 1;
        *size = half > least ? half : least;
        status = weir_device_vm_reserve(pool->device, *size + extra, address);
    }
    *failures += status != WEIR_OK;
    return status;
}

static void append(struct vm_span **link, struct vm_span *span)
{
    WEIR_ASSERT(span->next == NULL && span->size != 0);
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = span;
}

/* Adds the records of its granules to a new span, which may move. Returns false when out of host memory. */
static bool add_records(struct vm_span **span, uint64_t granules)
{
    WEIR_ASSERT(granules != 0);
    struct vm_span *whole = realloc(*span, sizeof(*whole) + granules * sizeof(whole->granules[0]));
    *span = whole != NULL ? whole : *span;
    return whole != NULL;
}

bool weir__vm_add_span(struct request *request)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    WEIR_ASSERT(request->pool->growth.taken);
    weir_pool *pool = request->pool;
    struct pool_vm *vm = pool->vm;
    const uint64_t least = round_up(request->size, vm->granule) + (request->align > vm->granule ? request->align : 0);
    /* The device aligns its reservation to a page only, so a larger granule needs extra addresses. */
    const uint64_t extra = vm->granule - weir__device_info(pool->device)->page_bytes;
    uint64_t size = size_of_span(pool, least);
    uint64_t address = 0;
    uint64_t failures = 0;
    /* Allocated before the reservation, so that the reservation cannot be lost. The records follow once the device has
     * accepted the size. */
    struct vm_span *span = malloc(sizeof(*span));
    if (span == NULL) {
        request->broken = WEIR_ERR_NO_MEMORY;
        return false;
    }
    pool_unlock(pool);
    const weir_status status = reserve_addresses(pool, least, extra, &size, &address, &failures);
    *span = (struct vm_span){.address = round_up(address, vm->granule),
                             .size = size,
                             .reserved_address = address,
                             .reserved_size = size + extra};
    const bool has_records = status == WEIR_OK && add_records(&span, size >> vm->granule_shift);
    pool_lock(pool);
    pool->counts.device_failures += failures;
    if (status != WEIR_OK) {
        free(span);
        request->device_status = status;
        request->region_asked = size;
        request->limited = false;
        return false;
    }
    void *handle = NULL;
    if (!has_records ||
        pool->strategy->region_add(pool->state, span->address, size, 0, WEIR_LANE_UNMAPPED, 0, &handle) != WEIR_OK) {
        append(&vm->refused, span);
        weir__vm_release_refused(pool);
        request->broken = WEIR_ERR_NO_MEMORY;
        return false;
    }
    append(&vm->spans, span);
    return true;
}

static void return_span(weir_pool *pool, struct vm_span *span, weir_status *first)
{
    const struct pool_vm *vm = pool->vm;
    for (uint64_t i = 0; i < span->used; i++) {
        const uint64_t address = span->address + (i << vm->granule_shift);
        const struct vm_granule *granule = &span->granules[i];
        if (granule->handle != 0 && granule->at == 0) {
            const uint64_t size = (uint64_t)granule->of << vm->granule_shift;
            if (granule->token != vm_apart(pool->vm)) {
                weir__watch_taken(pool, address, size);
                keep_first(first, weir__device_return_mapping(pool->device, address, size, granule->handle));
            }
            keep_first(first, weir__device_return_memory(pool->device, granule->handle));
        }
    }
    keep_first(first, weir__device_return_addresses(pool->device, span->reserved_address, span->reserved_size));
}

void weir__vm_return_spans(weir_pool *pool, weir_status *first)
{
    for (struct vm_span *span = pool->vm->spans; span != NULL; span = span->next) {
        return_span(pool, span, first);
    }
    for (const struct vm_span *refused = pool->vm->refused; refused != NULL; refused = refused->next) {
        keep_first(first,
                   weir__device_return_addresses(pool->device, refused->reserved_address, refused->reserved_size));
    }
}

static void free_list(struct vm_span *span)
{
    while (span != NULL) {
        struct vm_span *next = span->next;
        free(span);
        span = next;
    }
}

void weir__vm_free_spans(struct pool_vm *vm)
{
    free_list(vm->spans);
    free_list(vm->refused);
}
