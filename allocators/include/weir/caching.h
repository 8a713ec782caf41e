/* weir/caching.h: the strategy caching, best-fit packing at constant cost. The default choice. */
#ifndef WEIR_CACHING_H
#define WEIR_CACHING_H

#include <weir/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_caching_config {
    size_t struct_size;
    uint64_t small_bytes;        /* requests up to this size come from small regions; 0 = 1 MiB */
    uint64_t small_region_bytes; /* size of a small region; 0 = 2 MiB */
    uint64_t large_region_bytes; /* largest region taken for several large requests; a request of half that size or more
                                    gets its own region; 0 = 20 MiB */
    uint64_t low_bytes;          /* with virtual memory, requests below this size take the low end of a free range, as
                                    those above 1 MiB do; for memory that grows by few bytes; 0 = none do */
} weir_caching_config;

#define WEIR_CACHING_CONFIG_INIT WEIR_STRUCT_INIT(weir_caching_config)

/* Returns the strategy's constant function table, for weir_pool_config.strategy. Thread-safe. */
WEIR_API const weir_strategy_ops *weir_caching_strategy(void);

#ifdef __cplusplus
}
#endif

#endif
