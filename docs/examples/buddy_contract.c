/* buddy_contract.c: runs the contract suite on the strategy of buddy.c. */
#include "buddy.h"

#include "strategy_contract.h"

int main(int argc, char **argv)
{
    const weir_tested_strategy buddy = {.ops = buddy_strategy(), .block_bytes = buddy_block_bytes, .has_places = true};
    return weir_strategy_contract(&buddy, argc, argv);
}
