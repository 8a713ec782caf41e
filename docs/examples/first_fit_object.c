/* first_fit_object.c: first_fit in a shared object, for `weir replay --strategy ./first_fit.so`. */
#include "first_fit.h"

WEIR_STRATEGY_EXPORT(first_fit_strategy);
