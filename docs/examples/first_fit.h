/* first_fit.h: an example of a new strategy, see docs/strategy.md. */
#ifndef FIRST_FIT_H
#define FIRST_FIT_H

#include <weir/strategy.h>

const weir_strategy_ops *first_fit_strategy(void);

#endif
