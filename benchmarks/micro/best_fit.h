/* best_fit.h: exact best fit, the measure of packing: the smallest free range that holds a request, of equals the one
 * at the lowest address, from one ordered set.
 *
 * It serves the open lane only and offers what `packing` calls: state_size, init, fini, region_add, alloc, free. A pool
 * cannot use it.
 */
#ifndef WEIR_BENCHMARKS_BEST_FIT_H
#define WEIR_BENCHMARKS_BEST_FIT_H

#include <weir/strategy.h>

/* Constant; thread-safe. */
const weir_strategy_ops *best_fit_strategy(void);

#endif
