/* strategy_main.c: runs the contract suite on one of weir's strategies. Macros:
 *   STRATEGY_HEADER  the header to include, <weir/caching.h>
 *   STRATEGY         initializers of its weir_tested_strategy: .ops = weir_caching_strategy(), .small_bytes = 1 << 20
 */
#include STRATEGY_HEADER

#include "strategy_contract.h"

int main(int argc, char **argv)
{
    const weir_tested_strategy strategy = {STRATEGY};
    return weir_strategy_contract(&strategy, argc, argv);
}
