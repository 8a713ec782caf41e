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

/* A span that is being made. */
struct making {
    uint64_t size;      /* bytes */
    uint64_t least;     /* the least that serves */
    weir_lane lane;     /* of the addresses in the strategy */
    weir_status device; /* the device's answer */
};

/* Makes a span and adds it to the strategy. Returns NULL on failure: of the device, or if that is WEIR_OK, out of host
 * memory. Pool lock held on entry and exit, released for the device call. */
static struct vm_span *make_span(weir_pool *pool, struct making *making)
{
    WEIR_ASSERT(pool_is_locked(pool) && pool->growth.taken);
    struct pool_vm *vm = pool->vm;
    /* The device aligns its reservation to a page only, so a larger granule needs extra addresses. */
    const uint64_t extra = vm->granule - weir__device_info(pool->device)->page_bytes;
    uint64_t address = 0;
    uint64_t failures = 0;
    /* Allocated before the reservation, so that the reservation cannot be lost. The records follow once the device has
     * accepted the size. */
    struct vm_span *span = malloc(sizeof(*span));
    making->device = WEIR_OK;
    if (span == NULL) {
        return NULL;
    }
    pool_unlock(pool);
    making->device = reserve_addresses(pool, making->least, extra, &making->size, &address, &failures);
    *span = (struct vm_span){.address = round_up(address, vm->granule),
                             .size = making->size,
                             .reserved_address = address,
                             .reserved_size = making->size + extra};
    const bool has_records = making->device == WEIR_OK && add_records(&span, making->size >> vm->granule_shift);
    pool_lock(pool);
    pool->counts.device_failures += failures;
    if (making->device != WEIR_OK) {
        free(span);
        return NULL;
    }
    if (!has_records || pool->strategy->region_add(pool->state, span->address, making->size, 0, making->lane, 0,
                                                   &span->region) != WEIR_OK) {
        append(&vm->refused, span);
        weir__vm_release_refused(pool);
        return NULL;
    }
    append(&vm->spans, span);
    return span;
}

bool weir__vm_add_span(struct request *request)
{
    weir_pool *pool = request->pool;
    const struct pool_vm *vm = pool->vm;
    const uint64_t least = round_up(request->size, vm->granule) + (request->align > vm->granule ? request->align : 0);
    struct making making = {.size = size_of_span(pool, least), .least = least, .lane = WEIR_LANE_UNMAPPED};
    const struct vm_span *span = make_span(pool, &making);
    if (span == NULL && making.device != WEIR_OK) {
        request->device_status = making.device;
        request->region_asked = making.size;
        request->limited = false;
    } else if (span == NULL) {
        request->broken = WEIR_ERR_NO_MEMORY;
    }
    return span != NULL;
}

weir_status weir__vm_add_reserved_span(weir_pool *pool, uint64_t size, struct vm_span **span)
{
    WEIR_ASSERT(size != 0 && size % pool->vm->granule == 0);
    struct making making = {.size = size, .least = size, .lane = WEIR_LANE_OPEN};
    *span = make_span(pool, &making);
    return *span != NULL ? WEIR_OK : making.device != WEIR_OK ? making.device : WEIR_ERR_NO_MEMORY;
}

void weir__vm_remove_span(weir_pool *pool, struct vm_span *span)
{
    WEIR_ASSERT(pool_is_locked(pool) && pool->growth.taken);
    struct vm_span **link = &pool->vm->spans;
    while (*link != span) {
        link = &(*link)->next;
    }
    *link = span->next;
    span->next = NULL;
    const weir_tick open = WEIR_TICK_MAX;
    const weir_status status = pool->strategy->region_remove(pool->state, span->region, &open, 1);
    WEIR_ASSERT(status == WEIR_OK);
    (void)status;
    append(&pool->vm->refused, span);
    weir__vm_release_refused(pool);
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
