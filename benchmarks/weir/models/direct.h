/* direct.h: a strategy without a cache: each block is one region, as if the program called the device each time.
 *
 * The pool grows for every request and returns the region at the free. So the device calls, their time and the waits
 * that they force are those of a program without a caching allocator.
 */
#ifndef WEIR_BENCHMARKS_MODELS_DIRECT_H
#define WEIR_BENCHMARKS_MODELS_DIRECT_H

#include <weir/strategy.h>

/* Returns the table for weir_pool_config; it takes no config. The table is constant; thread-safe. */
const weir_strategy_ops *model_direct_strategy(void);

#endif
