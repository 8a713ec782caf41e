/* export.cc: WEIR_STRATEGY_EXPORT in C++. */
extern "C" {
#include "first_fit.h"
}

WEIR_STRATEGY_EXPORT(first_fit_strategy);
