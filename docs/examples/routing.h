/* routing.h: an example of a strategy over strategies, see docs/strategy.md. */
#ifndef ROUTING_H
#define ROUTING_H

#include <weir/strategy.h>

const weir_strategy_ops *routing_strategy(void);

#endif
