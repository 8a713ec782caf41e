/* strategy_object.h: loads a strategy from a shared object (WEIR_STRATEGY_EXPORT in weir/strategy.h). */
#ifndef WEIR_BENCHMARKS_STRATEGY_OBJECT_H
#define WEIR_BENCHMARKS_STRATEGY_OBJECT_H

#include <stdbool.h>
#include <stddef.h>

#include "replay/strategies.h"

/* True if the name is that of a file: it has a slash, or ends with ".so". A name may also end with "+vm": the
 * strategy in a pool with virtual memory. */
bool strategy_object_is(const char *name, size_t length);

/* Loads the strategy and makes a pool with it, so that a strategy that no pool accepts is refused here. Its result is
 * shown under the name in its operation table. Returns NULL with a line in `error` if the file is missing, is no shared
 * object, exports no strategy or one that was built for another version of weir, or if its table is incomplete. The
 * caller frees the strategy with strategy_object_free; the object itself stays loaded. Not thread-safe. */
struct replay_strategy *strategy_object_load(const char *name, size_t length, char *error, size_t error_size);
/* Renames the strategy for tables of results. Returns false when out of host memory. */
bool strategy_object_rename(struct replay_strategy *strategy, const char *name, size_t length);
void strategy_object_free(struct replay_strategy *strategy);

#endif
