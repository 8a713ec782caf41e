/* weir/size_class.h: the strategy size_class, slabs of equal slots. It serves requests of a few sizes that come and go
 * in any order: pages of a key-value cache, tensors of repeated shapes. */
#ifndef WEIR_SIZE_CLASS_H
#define WEIR_SIZE_CLASS_H

#include <weir/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_size_class_config {
    size_t struct_size;
    uint64_t small_bytes;        /* requests up to this size come from slab regions; 0 = 512 KiB */
    uint64_t slab_region_bytes;  /* size of a slab region; 0 = 2 MiB: slabs of 64 KiB, slots up to 256 KiB. A slab spans
                                    1/32 of its region or eight slots, whichever is more, but at most a quarter of the
                                    region. It has at least two slots, so a slot is at most an eighth of the region. */
    uint64_t large_region_bytes; /* largest region taken for several requests above small_bytes; a request of half that
                                    size or more gets its own region; 0 = 20 MiB */
} weir_size_class_config;

#define WEIR_SIZE_CLASS_CONFIG_INIT WEIR_STRUCT_INIT(weir_size_class_config)

/* Returns the strategy's constant function table, for weir_pool_config.strategy. Thread-safe. */
WEIR_API const weir_strategy_ops *weir_size_class_strategy(void);

#ifdef __cplusplus
}
#endif

#endif
