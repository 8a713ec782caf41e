/* strategy_contract.c: tests that a strategy keeps the rules of weir/strategy.h, against a naive reference.
 * strategy_contract.h says how to run it.
 *
 * The pieces lie in strategy/: the reference and the calls, then the cases by subject.
 *
 * The reference (struct rig) is a sorted list of ranges with lanes and ticks. It performs each call by hand, except for
 * the choice of a place. After every call the suite compares the walk range by range, compares every statistic with the
 * sum over the walk, and calls check. Each call tests all of this; the cases differ in the states that they reach.
 *
 * The suite uses records as a pool does. From alloc or claim until free, `as` and `state` of a taken range's record
 * hold values of the suite, different for each range, and `own` of every other record holds WEIR_RECORD_ROUTE. A
 * strategy that reads these fields goes wrong; the next comparison finds a strategy that writes them. The suite still
 * reads the records of freed ranges until fini, so a sanitizer, or a crash, reports records that were released too
 * early.
 */
#include "strategy_contract.h"

#include "contract.h"
#include "strategy/claims.h"
#include "strategy/gather.h"
#include "strategy/lanes.h"
#include "strategy/random.h"
#include "strategy/regions.h"

static bool is_number(const char *text)
{
    return text[0] >= '0' && text[0] <= '9';
}

int weir_strategy_contract(const weir_tested_strategy *strategy, int argc, char **argv)
{
    static const struct contract_case cases[] = {
        CONTRACT_CASE(table_is_complete),
        CONTRACT_CASE(empty_strategy_refuses),
        CONTRACT_CASE(fini_takes_live_ranges),
        CONTRACT_CASE(region_size_is_enough),
        CONTRACT_CASE(sizes_around_powers_of_two),
        CONTRACT_CASE(one_fit_in_a_crowd),
        CONTRACT_CASE(tiny_regions_fill_and_refill),
        CONTRACT_CASE(requests_waste_no_more_than_is_promised),
        CONTRACT_CASE(regions_never_merge),
        CONTRACT_CASE(free_merges_in_every_order),
        CONTRACT_CASE(merging_keeps_the_later_tick),
        CONTRACT_CASE(rest_keeps_lane_and_tick),
        CONTRACT_CASE(promote_opens_one_lane),
        CONTRACT_CASE(region_remove_refuses_what_is_in_use),
        CONTRACT_CASE(region_remove_asks_every_lane),
        CONTRACT_CASE(gather_joins_only_what_it_may),
        CONTRACT_CASE(gather_finds_a_single_range),
        CONTRACT_CASE(gather_loses_no_tick_of_its_own_lane),
        CONTRACT_CASE(last_resort_needs_no_refusal),
        CONTRACT_CASE(gather_keeps_a_later_tick_of_its_own_lane),
        CONTRACT_CASE(gather_without_success_changes_nothing),
        CONTRACT_CASE(ticks_may_go_down),
        CONTRACT_CASE(lanes_have_high_numbers),
        CONTRACT_CASE(walks_end_when_they_are_told),
        CONTRACT_CASE(claim_takes_exactly_what_it_is_asked_for),
        CONTRACT_CASE(unmapped_memory_is_nobodys),
        CONTRACT_CASE(holes_grow_together),
        CONTRACT_CASE(claim_asks_every_lane),
        CONTRACT_CASE(claim_takes_memory_set_apart),
        CONTRACT_CASE(claim_takes_neighbours_in_one_call),
        CONTRACT_CASE(two_states_do_not_meet),
        CONTRACT_CASE(random_programs),
        CONTRACT_CASE(shifted_twins_agree),
    };
    const char *part = argc > 1 && !is_number(argv[1]) ? argv[1] : NULL;
    const int seed = part != NULL ? 2 : 1;
    const char *wish = getenv("WEIR_SEEDS");
    tested = strategy;
    if (wish != NULL) {
        const uint64_t count = strtoull(wish, NULL, 0); /* of programs that are cheaper than these */
        seed_count = count < DEFAULT_SEEDS ? count : DEFAULT_SEEDS + (count - DEFAULT_SEEDS) / 25;
    }
    if (argc > seed) {
        first_seed = strtoull(argv[seed], NULL, 0);
        seed_count = argc > seed + 1 ? strtoull(argv[seed + 1], NULL, 0) : 1;
    }
    return contract_run(tested->ops->name, cases, sizeof(cases) / sizeof(cases[0]), part);
}
