/* core/shared/hold.h: hold counts of devices, pools and host pools. A held object is not destroyed. */
#ifndef WEIR_SHARED_HOLD_H
#define WEIR_SHARED_HOLD_H

#include <stdatomic.h>
#include <stdbool.h>

/* Decrements the count. Returns false if it is 0. */
static inline bool weir__release_hold(atomic_uint *holds)
{
    unsigned held = atomic_load_explicit(holds, memory_order_relaxed);
    while (held != 0 &&
           !atomic_compare_exchange_weak_explicit(holds, &held, held - 1, memory_order_release, memory_order_relaxed)) {
    }
    return held != 0;
}

#endif
