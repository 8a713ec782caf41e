/* routing_contract.c: runs the contract suite on the strategy of routing.c. */
#include "routing.h"

#include "strategy_contract.h"

int main(int argc, char **argv)
{
    const weir_tested_strategy routing = {
        .ops = routing_strategy(),
        .sets_aside = true,     /* memory of the other half serves as a last resort only */
        .loose_ranges = true,   /* size_class keeps free slots apart */
        .groups_regions = true, /* the walk shows one half after the other */
    };
    return weir_strategy_contract(&routing, argc, argv);
}
