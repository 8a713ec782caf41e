/* best_fit.h: exact best fit, the reference for packing. It takes the smallest free range that holds a request, and
 * among equal sizes the range at the lowest address, from one ordered set.
 *
 * The strategy knows no streams (only the open lane) and has only the functions that `packing` calls: state_size, init,
 * fini, region_add, alloc, free. A pool cannot use it.
 */
#ifndef WEIR_BENCHMARKS_BEST_FIT_H
#define WEIR_BENCHMARKS_BEST_FIT_H

#include <weir/strategy.h>

/* Returns the table of the strategy. The table is constant; thread-safe. */
const weir_strategy_ops *best_fit_strategy(void);

#endif
