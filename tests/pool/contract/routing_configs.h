/* routing_configs.h: pairs of strategies that the contract suite routes to. */
#ifndef WEIR_CONTRACT_ROUTING_CONFIGS_H
#define WEIR_CONTRACT_ROUTING_CONFIGS_H

#include <weir/bump.h>
#include <weir/caching.h>
#include <weir/routing.h>
#include <weir/size_class.h>

/* Both halves are `caching`, which sets no memory aside, so the suite compares every rule exactly. The large half does
 * not implement region_idle. */
static inline const weir_routing_config *caching_twice(void)
{
    static weir_routing_config config = WEIR_ROUTING_CONFIG_INIT;
    static weir_strategy_ops forgetful;
    forgetful = *weir_caching_strategy();
    forgetful.region_idle = NULL;
    config.small_strategy = weir_caching_strategy();
    config.large_strategy = &forgetful;
    return &config;
}

/* Most programs of the suite ask for a few granules. With this threshold half of these requests go either way. caching
 * is the small half. */
static inline const weir_routing_config *low_threshold(void)
{
    static const weir_size_class_config slots = {.struct_size = sizeof(slots), .slab_region_bytes = 128 << 10};
    static weir_routing_config config = WEIR_ROUTING_CONFIG_INIT;
    config.small_strategy = weir_caching_strategy();
    config.large_strategy = weir_size_class_strategy();
    config.large_config = &slots;
    config.threshold_bytes = 1500;
    return &config;
}

/* The small half is `bump`: the suite compares every range exactly, except that small holes of `bump` serve requests
 * only as a last resort. */
static inline const weir_routing_config *bump_and_caching(void)
{
    static weir_routing_config config = WEIR_ROUTING_CONFIG_INIT;
    config.small_strategy = weir_bump_strategy();
    config.large_strategy = weir_caching_strategy();
    config.threshold_bytes = 1500;
    return &config;
}

#endif
