/* strategies.c: the table of strategies.h. */
#include "strategies.h"

#include <weir/bump.h>
#include <weir/caching.h>
#include <weir/size_class.h>

#include <string.h>

#include "models/direct.h"
#include "models/pytorch.h"

static const struct replay_strategy table[] = {
    {"caching", "best fit at constant cost, split and coalesce, in regions", weir_caching_strategy, false, 0,
     WEIR_POOL_REGIONS},
    {"size_class", "slabs of equal slots, eight classes per doubling; larger requests as in caching",
     weir_size_class_strategy, false, 0, WEIR_POOL_REGIONS},
    {"bump", "a bump pointer over chunks: for what is taken and released together", weir_bump_strategy, false, 0, 0},
    {"caching+vm", "weir's default: caching on virtual memory, one range that grows", weir_caching_strategy, false, 0,
     0},
    {"size_class+vm", "size_class on virtual memory", weir_size_class_strategy, false, 0, 0},
    {"pytorch", "model of PyTorch's native caching allocator, exact to the address", model_pytorch_strategy, true, -1,
     0},
    {"torch_npu", "the same with torch_npu's 32 bytes added to every request", model_pytorch_strategy, true, 32, 0},
    {"direct", "one device allocation per block: no allocator at all", model_direct_strategy, false, 0, 0},
    {NULL, NULL, NULL, false, 0, 0},
};

const struct replay_strategy *replay_strategies(void)
{
    return table;
}

const struct replay_strategy *replay_strategy_find(const char *name, size_t length)
{
    if (length == 5 && memcmp(name, "arena", 5) == 0) { /* the name of bump in weir 0.1 */
        name = "bump", length = 4;
    }
    for (const struct replay_strategy *strategy = table; strategy->name != NULL; strategy++) {
        if (strlen(strategy->name) == length && memcmp(strategy->name, name, length) == 0) {
            return strategy;
        }
    }
    return NULL;
}
