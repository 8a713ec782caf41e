/* strategy_contract.h: tells the contract suite of strategies about a strategy, and runs it.
 *
 * The suite (strategy_contract.c) plays cases and thousands of random programs, and compares every range, lane and tick
 * with a naive reference. It is compiled as one source file, which needs the pieces in strategy/, the installed headers
 * and the C library. A program that runs it:
 *
 *     #include "strategy_contract.h"
 *     #include "my_strategy.h"
 *
 *     int main(int argc, char **argv)
 *     {
 *         const weir_tested_strategy mine = { .ops = my_strategy() };
 *         return weir_strategy_contract(&mine, argc, argv);
 *     }
 *
 * To build it, by hand or in CMake:
 *
 *     suites=$(pkg-config --variable=prefix weir)/share/weir/contract
 *     cc -I$suites my_contract.c my_strategy.c $suites/strategy_contract.c $(pkg-config --cflags --libs weir)
 *
 *     find_package(weir REQUIRED COMPONENTS contract)
 *     target_link_libraries(my_contract PRIVATE weir::strategy_contract)
 *
 * With all other members zero the suite compares every range exactly. A strategy that keeps the contract in a narrower
 * way sets members.
 */
#ifndef WEIR_STRATEGY_CONTRACT_H
#define WEIR_STRATEGY_CONTRACT_H

#include <weir/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_tested_strategy {
    const weir_strategy_ops *ops;
    const void *config; /* config for state_size and init */
    /* size of `config`: the suite passes a copy to init and overwrites the copy afterwards; 0: no copy */
    size_t config_bytes;
    /* requests up to this size and requests above it come from different regions; 0: one kind of region */
    uint64_t small_bytes;
    bool whole_regions; /* each region is cut only into blocks of the size that it was added for */
    bool refuses_early; /* a refusal does not prove that nothing fits */
    /* The strategy sets free memory aside for requests of one size; other requests get this memory only as a last
     * resort. alloc may refuse a request that fits only into such memory. The suite then calls gather as a last resort
     * and checks it. */
    bool sets_aside;
    /* free neighbours of one lane may be several ranges with ticks of their own, which alloc joins */
    bool loose_ranges;
    /* With WEIR_STRATEGY_ROUNDS_UP: the bytes that a request of `size` bytes takes. A region of that many bytes serves
     * it. NULL: whole granules */
    uint64_t (*block_bytes)(uint64_t size);
    /* Blocks lie at multiples of their bytes from the start of their region, unless the region begins at no multiple of
     * the smaller one of the block's bytes and the request's alignment (weir_ranges_place). */
    bool has_places;
    bool ties_by_address; /* among equally good regions the one at the lower address is used */
    bool groups_regions;  /* walk shows the regions of one strategy after those of another */
} weir_tested_strategy;

/* Runs every case, or those with argv[1] in their names. If argv[1] or argv[2] is a number, it is the seed of the one
 * random program that is run; a second number is the count of seeds from there. Without a number the count is 200, or
 * WEIR_SEEDS in the environment (beyond 200 one for each 25). Prints a line for each case. Returns the program's exit
 * status: not 0 if a case failed or none passed. */
int weir_strategy_contract(const weir_tested_strategy *tested, int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
