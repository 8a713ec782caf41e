/* first_fit_contract.c: runs the contract suite on the strategy of first_fit.c. */
#include "first_fit.h"

#include "strategy_contract.h"

int main(int argc, char **argv)
{
    const weir_tested_strategy first_fit = {.ops = first_fit_strategy()};
    return weir_strategy_contract(&first_fit, argc, argv);
}
