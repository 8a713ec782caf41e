/* first_fit.h: a strategy of one's own, see docs/strategy.md. */
#ifndef FIRST_FIT_H
#define FIRST_FIT_H

#include <weir/strategy.h>

const weir_strategy_ops *first_fit_strategy(void);

#endif
