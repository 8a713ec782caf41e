/* core/src/services/services.h: a function that life.c calls of another file. */
#ifndef WEIR_CORE_SERVICES_H
#define WEIR_CORE_SERVICES_H

#include "report/report.h"

/* --- arena.c --- */

/* Called when the pool is destroyed: from then on its arenas return WEIR_ERR_INVALID. */
void weir__arena_orphan_all(weir_pool *pool);

#endif
