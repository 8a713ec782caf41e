/* ranges.c: the sets of address ranges: device memory, pinned host memory, registered host memory. */
#include "base/runtime.h"

#include <string.h>

static weir__slab slab = WEIR__SLAB_INIT(acl__range, 0, 64);

acl__range *acl__range_add(weir__intervals *set, acl__range_kind kind, uint64_t start, uint64_t size)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(size > 0 && start <= UINT64_MAX - size);
    WEIR_ASSERT(kind <= ACL__REGISTERED);
    static uint64_t last_serial;
    acl__range *range = weir__slab_get(&slab);
    if (range == NULL) {
        return NULL;
    }
    memset(range, 0, sizeof(*range));
    range->range.start = start;
    range->range.end = start + size;
    range->kind = kind;
    range->serial = ++last_serial;
    weir__intervals_insert(set, &range->range);
    return range;
}

void acl__range_remove(weir__intervals *set, acl__range *range)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(range->range.end > range->range.start);
    weir__intervals_remove(set, &range->range);
    weir__slab_put(&slab, range);
}

acl__range *acl__range_at(const weir__intervals *set, const void *pointer)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const uint64_t address = (uint64_t)(uintptr_t)pointer;
    acl__range *range = (acl__range *)(void *)weir__intervals_floor(set, address);
    return range != NULL && address < range->range.end ? range : NULL;
}
