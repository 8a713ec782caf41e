/* core/src/memory/vm_granule.c: records which handle has the memory of each granule, and checks these records.
 *
 * A granule is looked up by its number in its span. The search for the span takes time linear in the spans; a pool
 * rarely has more than one.
 */
#include "vm_internal.h"

bool weir__vm_moves_locked(const weir_pool *pool, const weir_range_info *range)
{
    WEIR_ASSERT(pool_is_locked(pool));
    struct vm_span *span = vm_span_of(pool->vm, range->address);
    const struct vm_granule *granule = span != NULL ? vm_granule_at(pool->vm, span, range->address) : NULL;
    return granule != NULL && range->size == pool->vm->granule && range->token != NULL &&
           granule->token == range->token;
}

bool weir__vm_find_handle(const void *ctx, uint64_t from, uint64_t to, uint64_t *start, uint64_t *end)
{
    WEIR_ASSERT(from < to);
    const struct pool_vm *vm = ctx;
    const struct vm_span *span = vm->large > 0 ? vm_span_of(vm, from) : NULL;
    if (span == NULL) {
        return false;
    }
    const uint64_t end_number = ((to - 1 - span->address) >> vm->granule_shift) + 1;
    const uint64_t last = end_number < span->used ? end_number : span->used;
    for (uint64_t i = (from - span->address) >> vm->granule_shift; i < last; i++) {
        const struct vm_granule *granule = &span->granules[i];
        if (granule->of > 1 && granule->handle != 0) {
            WEIR_ASSERT(granule->at <= i && granule->at < granule->of);
            *start = span->address + ((i - granule->at) << vm->granule_shift);
            *end = *start + ((uint64_t)granule->of << vm->granule_shift);
            return true;
        }
    }
    return false;
}

bool weir__vm_fits(const weir_pool *pool, uint64_t address, uint64_t size)
{
    const struct pool_vm *vm = pool->vm;
    if (vm->large == 0) {
        return true;
    }
    const uint64_t end = address + size;
    const uint64_t into = address & (vm->granule - 1); /* bytes of the first granule that lie below `address` */
    struct vm_span *span = vm_span_of(vm, address);
    const struct vm_granule *first = vm_granule_at(vm, span, address);
    const struct vm_granule *last = vm_granule_at(vm, span, end - 1);
    WEIR_ASSERT(first != NULL && last != NULL);
    if (first->of > 1 && (first->at != 0 || into != 0)) {
        return false;
    }
    return last->of <= 1 || (last->at + 1u == last->of && (end & (vm->granule - 1)) == 0 && last->at <= last - first);
}

uint64_t weir__vm_granule(const weir_pool *pool)
{
    return pool->vm->granule;
}

void weir__vm_each_handle_locked(const weir_pool *pool, void (*visit)(void *ctx, uint64_t address, uint64_t size),
                                 void *ctx)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const struct pool_vm *vm = pool->vm;
    for (const struct vm_span *span = vm->spans; span != NULL; span = span->next) {
        for (uint64_t i = 0; i < span->used; i++) {
            if (span->granules[i].handle != 0 && span->granules[i].at == 0) {
                visit(ctx, span->address + (i << vm->granule_shift),
                      (uint64_t)span->granules[i].of << vm->granule_shift);
            }
        }
    }
}

/* True if the granules of each handle are adjacent and in order. */
static bool handles_are_whole(const struct vm_span *span)
{
    for (uint64_t i = 0; i < span->used; i++) {
        const struct vm_granule *granule = &span->granules[i];
        if (granule->handle == 0 || granule->token != NULL) {
            continue;
        }
        const struct vm_granule *first = granule - (granule->at <= i ? granule->at : i);
        if (granule->at > i || granule->at >= granule->of || first->of != granule->of ||
            first->handle != granule->handle || granule->of > span->used - (i - granule->at)) {
            return false;
        }
    }
    return true;
}

struct hole_check {
    const weir_pool *pool;
    const struct pool_vm *vm;
    bool broken;
    bool shared; /* a block has only a part of the memory of a large handle, which is a bug */
};

static bool see_hole(void *ctx, const weir_range_info *range)
{
    struct hole_check *check = ctx;
    const struct pool_vm *vm = check->vm;
    if (range->taken || range->lane != WEIR_LANE_UNMAPPED) {
        check->shared |= range->taken && !weir__vm_moves_locked(check->pool, range) &&
                         !weir__vm_fits(check->pool, range->address, range->size);
        return true;
    }
    struct vm_span *span = vm_span_of(vm, range->address);
    check->broken = span == NULL || ((range->address | range->size) & (vm->granule - 1)) != 0;
    const uint64_t used = check->broken ? 0 : span->address + (span->used << vm->granule_shift);
    for (uint64_t at = 0; !check->broken && at < range->size && range->address + at < used; at += vm->granule) {
        const struct vm_granule *granule = vm_granule_at(vm, span, range->address + at);
        check->broken = granule->handle != 0 || granule->token != NULL;
    }
    return !check->broken;
}

const char *weir__vm_broken_locked(const weir_pool *pool, uint64_t held, uint64_t unmapped, uint64_t moving)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const struct pool_vm *vm = pool->vm;
    uint64_t addresses = 0;
    uint64_t mapped = 0;
    uint64_t claimed = 0;
    size_t large = 0;
    for (const struct vm_span *span = vm->spans; span != NULL; span = span->next) {
        if (!handles_are_whole(span)) {
            return "a handle has memory for other granules than the books say";
        }
        addresses += span->size;
        for (uint64_t i = 0; i < span->used; i++) {
            claimed += span->granules[i].token != NULL;
            const bool has_memory = span->granules[i].token == NULL && span->granules[i].handle != 0;
            mapped += has_memory;
            large += has_memory && span->granules[i].at == 0 && span->granules[i].of > 1;
        }
    }
    if (addresses != held + unmapped + moving) {
        return "spans and their ranges differ";
    }
    if (mapped << vm->granule_shift != held || claimed << vm->granule_shift != moving) {
        return "granules with memory and the ranges in them differ";
    }
    if (large != vm->large) {
        return "handles of several granules and their count differ";
    }
    if ((mapped + vm->moving + vm->spare_granules) << vm->granule_shift != pool->held.bytes) {
        return "reserved bytes and granules differ";
    }
    struct hole_check check = {.pool = pool, .vm = vm};
    pool->strategy->walk(pool->state, see_hole, &check);
    return check.broken   ? "a range without memory lies where memory is mapped"
           : check.shared ? "a block has a part of a handle that is larger than a granule"
                          : NULL;
}

void weir__vm_add_stats_locked(const weir_pool *pool, weir_pool_stats *stats)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const struct vm_counts *counts = &pool->vm->counts;
    stats->vm_creates = counts->creates;
    stats->vm_destroys = counts->destroys;
    stats->vm_maps = counts->maps;
    stats->vm_unmaps = counts->unmaps;
    stats->vm_moved_bytes = counts->moved << pool->vm->granule_shift;
}
