/* strategies.h: the strategies that a replay can compare, by name. Adding one is one line in strategies.c. */
#ifndef WEIR_BENCHMARKS_STRATEGIES_H
#define WEIR_BENCHMARKS_STRATEGIES_H

#include <weir/pool.h>

struct replay_strategy {
    const char *name;
    const char *text;                      /* for --help: one line */
    const weir_strategy_ops *(*ops)(void); /* NULL: replay_options.pool gives the strategy and its config */
    bool models_padding;                   /* its config is a model_pytorch_config, which can add the padding itself */
    int fixed_pad;                         /* bytes added to each request; -1 = the padding that the recording shows */
    uint32_t pool_flags;                   /* WEIR_POOL_... */
};

/* Finds a strategy by name; NULL if there is none. */
const struct replay_strategy *replay_strategy_find(const char *name, size_t length);
/* Returns the table of all strategies; its last entry has a NULL name. */
const struct replay_strategy *replay_strategies(void);

#endif
