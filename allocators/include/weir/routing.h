/* weir/routing.h: the strategy routing, two strategies in one pool: one for small requests, one for large requests. */
#ifndef WEIR_ROUTING_H
#define WEIR_ROUTING_H

#include <weir/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each of the two strategies keeps its own regions and gets its own config, or NULL for its defaults. The size of a
 * request decides which strategy serves it. As a last resort, before the request fails, the other strategy serves it.
 *
 * init, and with it weir_pool_create, returns WEIR_ERR_INVALID for a strategy that cannot be routed to:
 *   - its granule is not 512 bytes: the table below is constant, and the pool rounds by the table's granule;
 *   - it has a flag other than WEIR_STRATEGY_CUTS_ENDS, for the same reason: the pool cannot leave lanes alone,
 *     return regions at once or keep no front cache for one size only. WEIR_STRATEGY_ROUTES is excluded because a
 *     record has only one bit that says which of two strategies owns it, so routing cannot route to routing;
 *   - its table lacks a required function of the contract, or ends before the last function that this library knows.
 *
 * If one of the two strategies refuses its config, init returns that status. */
typedef struct weir_routing_config {
    size_t struct_size;
    const weir_strategy_ops *small_strategy; /* NULL = weir_size_class_strategy() */
    const void *small_config;
    const weir_strategy_ops *large_strategy; /* NULL = weir_caching_strategy() */
    const void *large_config;
    uint64_t threshold_bytes; /* requests up to this size are small; 0 = 1 MiB */
} weir_routing_config;

#define WEIR_ROUTING_CONFIG_INIT WEIR_STRUCT_INIT(weir_routing_config)

/* Returns the strategy's constant function table, for weir_pool_config.strategy. Thread-safe. */
WEIR_API const weir_strategy_ops *weir_routing_strategy(void);

#ifdef __cplusplus
}
#endif

#endif
