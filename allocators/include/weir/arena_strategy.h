/* weir/arena_strategy.h: a bump pointer over chunks. For memory that is taken together and released together: one
 * request, one step. (weir/arena.h is the arena for callers: mark, rewind and reset on top of any pool.) */
#ifndef WEIR_ARENA_STRATEGY_H
#define WEIR_ARENA_STRATEGY_H

#include <weir/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_arena_strategy_config {
    size_t struct_size;
    uint64_t
        chunk_bytes; /* size of a chunk; a request of a quarter of it and more gets a chunk of its own; 0 = an eighth
                             of what is reserved, at least 2 MiB and at most 32 MiB */
} weir_arena_strategy_config;

#define WEIR_ARENA_STRATEGY_CONFIG_INIT WEIR_STRUCT_INIT(weir_arena_strategy_config)

/* The strategy's table, for weir_pool_config. Constant; thread-safe. */
WEIR_API const weir_strategy_ops *weir_arena_strategy(void);

#ifdef __cplusplus
}
#endif

#endif
