/* direct.h: no allocator at all: each block is a region of its own, as if the program called the device each time.
 *
 * The pool grows for every request and gives the region back at the free, so device calls, their time and the waits
 * that they force are what a program without a caching allocator pays.
 */
#ifndef WEIR_BENCHMARKS_MODELS_DIRECT_H
#define WEIR_BENCHMARKS_MODELS_DIRECT_H

#include <weir/strategy.h>

/* The table for weir_pool_config; it takes no config. Constant; thread-safe. */
const weir_strategy_ops *model_direct_strategy(void);

#endif
