/* buddy_object.c: exports the strategy of buddy.c from a shared object, for `weir replay --strategy ./buddy.so`. */
#include "buddy.h"

WEIR_STRATEGY_EXPORT(buddy_strategy);
