/* wrong.c: shared objects that are no strategies for this weir: WRONG selects the mistake. */
#include "first_fit.h"

#define NOTHING 0    /* exports nothing */
#define VERSION 1    /* built with the headers of another weir */
#define INCOMPLETE 2 /* a table without alloc */
#define REFUSES 3    /* init refuses every config, and there is no claim */
#define NO_TABLE 4   /* the function returns NULL */
#define FOREIGN 5    /* the exported symbol was not made by WEIR_STRATEGY_EXPORT */

#if WRONG == VERSION
WEIR_API extern const weir_strategy_object weir_exported_strategy;
const weir_strategy_object weir_exported_strategy = {sizeof(weir_strategy_object), WEIR_VERSION_MAJOR,
                                                     WEIR_VERSION_MINOR + 1, first_fit_strategy};
#elif WRONG == FOREIGN
WEIR_API extern const weir_strategy_object weir_exported_strategy;
const weir_strategy_object weir_exported_strategy = {8, 0, 0, NULL};
#elif WRONG == NO_TABLE
static const weir_strategy_ops *table(void)
{
    return NULL;
}
WEIR_STRATEGY_EXPORT(table);
#elif WRONG == INCOMPLETE || WRONG == REFUSES
#if WRONG == REFUSES
static weir_status init(void *state, const void *config)
{
    (void)state;
    (void)config;
    return weir_refuse(WEIR_ERR_INVALID, "weir_pool_create: no config pleases this strategy");
}
#endif

static const weir_strategy_ops *table(void)
{
    static weir_strategy_ops ops; /* needs no lock, because the command loads an object before it starts threads */
    if (ops.name == NULL) {
        ops = *first_fit_strategy();
#if WRONG == INCOMPLETE
        ops.alloc = NULL;
#else
        ops.init = init;
        ops.claim = NULL;
#endif
    }
    return &ops;
}
WEIR_STRATEGY_EXPORT(table);
#else
typedef int nothing;
#endif
