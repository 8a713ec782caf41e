/* weir/routing.h: small requests to one strategy, large ones to another, in one pool. */
#ifndef WEIR_ROUTING_H
#define WEIR_ROUTING_H

#include <weir/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each strategy keeps regions of its own and gets its own config, or NULL for its defaults. Whose memory a request is
 * served from is decided by its size; as a last resort, before it fails, the other's serves as well.
 *
 * A strategy that cannot be routed to makes init, and with it weir_pool_create, fail with WEIR_ERR_INVALID:
 *   - its granule is not 512 bytes: what the pool rounds by stands in the table below, which is constant;
 *   - its flags are others than WEIR_STRATEGY_CUTS_ENDS, for the same reason: the pool cannot be told to leave lanes
 *     alone, to return regions at once or to keep no front cache for one size and not for the other. And
 *     WEIR_STRATEGY_ROUTES: a record has one bit that says which of two strategies gave it, so routing cannot be
 *     routed to;
 *   - its table lacks a function that the contract asks for, or ends before the last that this library knows.
 * A config that one of the two refuses is refused with its status. */
typedef struct weir_routing_config {
    size_t struct_size;
    const weir_strategy_ops *small_strategy; /* NULL = weir_size_class_strategy() */
    const void *small_config;
    const weir_strategy_ops *large_strategy; /* NULL = weir_caching_strategy() */
    const void *large_config;
    uint64_t threshold_bytes; /* requests up to this are small; 0 = 1 MiB */
} weir_routing_config;

#define WEIR_ROUTING_CONFIG_INIT WEIR_STRUCT_INIT(weir_routing_config)

/* The strategy's table, for weir_pool_config. Constant; thread-safe. */
WEIR_API const weir_strategy_ops *weir_routing_strategy(void);

#ifdef __cplusplus
}
#endif

#endif
