/* strategies.h: the strategies that a replay can compare, by name. Adding one is one line in strategies.c. */
#ifndef WEIR_BENCHMARKS_STRATEGIES_H
#define WEIR_BENCHMARKS_STRATEGIES_H

#include <weir/pool.h>

#include "models/pytorch_settings.h"

struct replay_strategy {
    const char *name;
    const char *text;                      /* for --help: one line */
    const weir_strategy_ops *(*ops)(void); /* NULL: replay_options.pool gives the strategy and its config */
    bool models_padding;                   /* its config is a model_pytorch_config, which can add the padding itself */
    int fixed_pad;                         /* bytes added to each request; -1 = the padding that the recording shows */
    uint32_t pool_flags;                   /* WEIR_POOL_... */
    /* not NULL: no pool, but the model of PyTorch's allocator with these settings (models/torch_heap.h) */
    const struct pytorch_settings *settings;
    /* the figures follow from the trace (`recorded`, `plan`): nothing is simulated, and no replay has this strategy */
    bool computed;
};

/* Finds a strategy by name; NULL if there is none. */
const struct replay_strategy *replay_strategy_find(const char *name, size_t length);
/* Makes the row of a name with settings in brackets, as the program takes them: pytorch[max_split_size_mb:128] or
 * torch_npu[...]. The row has this name. NULL: the name has no such form, with *error untouched, or *error says why
 * not. The caller frees the row with free. */
struct replay_strategy *replay_strategy_with_settings(const char *name, size_t length,
                                                      struct pytorch_settings_error *error);
/* Returns the table of all strategies; its last entry has a NULL name. */
const struct replay_strategy *replay_strategies(void);

#endif
