/* weir/bump.h: the strategy bump, a bump pointer over chunks. It serves programs that release memory together as they
 * allocated it together, such as the memory of one request or of one training step. (weir/arena.h is the arena for
 * callers: mark, rewind and reset on top of any pool.) */
#ifndef WEIR_BUMP_H
#define WEIR_BUMP_H

#include <weir/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_bump_config {
    size_t struct_size;
    uint64_t chunk_bytes; /* size of a chunk; a request of a quarter of a chunk or more gets its own chunk; 0 = an
                             eighth of the reserved bytes, at least 2 MiB and at most 32 MiB */
} weir_bump_config;

#define WEIR_BUMP_CONFIG_INIT WEIR_STRUCT_INIT(weir_bump_config)

/* Returns the strategy's constant function table, for weir_pool_config.strategy. Thread-safe. */
WEIR_API const weir_strategy_ops *weir_bump_strategy(void);

#ifdef __cplusplus
}
#endif

#endif
