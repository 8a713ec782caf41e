/* tests/pool/unit/vm_window_test.c: the search for the place where a request needs the least new memory.
 *
 * The strategy is a list of ranges written by hand. Results for random lists are compared with a trial of every
 * possible place.
 */
#include "rig/test.h"
#include "memory/vm_window.h"

#include <inttypes.h>
#include <string.h>

#define GRANULE UINT64_C(8)
#define BASE UINT64_C(0x1000)

enum { most_ranges = 64, lanes = 3 };

/* A range of the list. Kinds: 'T' taken, 'H' hole, 'F' free in lane 1, 'O' free in lane 2 at tick 7, 'S' set apart in
 * lane 1. '|' ends the region; the next region begins `size` bytes further on. */
struct piece {
    char what;
    uint64_t size;
};

struct list {
    weir_range_info ranges[most_ranges];
    size_t count;
};

static struct list list_of(const struct piece *pieces, size_t count)
{
    struct list list = {.count = 0};
    uint64_t at = BASE;
    uint64_t region = BASE;
    size_t first = 0;
    for (size_t i = 0; i <= count; i++) {
        if (i == count || pieces[i].what == '|') {
            for (size_t k = first; k < list.count; k++) {
                list.ranges[k].region_address = region;
                list.ranges[k].region_size = at - region;
            }
            at += i < count ? pieces[i].size : 0;
            region = at;
            first = list.count;
            continue;
        }
        const char what = pieces[i].what;
        list.ranges[list.count++] = (weir_range_info){
            .address = at,
            .size = pieces[i].size,
            .taken = what == 'T',
            .lane = what == 'H'   ? WEIR_LANE_UNMAPPED
                    : what == 'O' ? 2
                                  : 1,
            .tick = what == 'O' ? 7 : 3,
            .set_apart = what == 'S',
        };
        at += pieces[i].size;
    }
    return list;
}

static void walk_list(const void *state, weir_range_visitor visit, void *ctx)
{
    const struct list *list = state;
    for (size_t i = 0; i < list->count && visit(ctx, &list->ranges[i]); i++) {
    }
}

static const weir_strategy_ops list_ops = {.struct_size = sizeof(list_ops), .walk = walk_list};
static const weir_tick all_limits[lanes] = {WEIR_TICK_MAX, WEIR_TICK_MAX, WEIR_TICK_MAX};
static const weir_tick first_limits[lanes] = {WEIR_TICK_MAX, WEIR_TICK_MAX, 6}; /* lane 2 still works */

static struct vm_view view_of(const struct list *list, const weir_tick *limits)
{
    return (struct vm_view){
        .strategy = &list_ops,
        .state = list,
        .limits = limits,
        .lanes = lanes,
        .granule = GRANULE,
    };
}

#define LIST(...)                                                                                                      \
    list_of((const struct piece[]){__VA_ARGS__}, sizeof((const struct piece[]){__VA_ARGS__}) / sizeof(struct piece))

static struct vm_window find(const struct list *list, const weir_tick *limits, uint64_t size, uint64_t align,
                             bool last_resort)
{
    struct vm_scratch scratch = {0};
    struct vm_window window = {.need = 77};
    const struct vm_view view = view_of(list, limits);
    const struct vm_wish wish = {.size = size, .align = align, .last_resort = last_resort};
    const weir_status status = weir__vm_find_window(&scratch, &view, &wish, &window);
    assert_true(status == WEIR_OK || (status == WEIR_ERR_LIMIT && window.need == 77));
    weir__vm_scratch_fini(&scratch);
    return window;
}

static void require(const struct list *list, uint64_t size, uint64_t offset, uint64_t need)
{
    const struct vm_window window = find(list, all_limits, size, 1, false);
    assert_int_equal(window.need, need);
    assert_int_equal(window.address, BASE + offset);
    assert_int_equal(window.first, (BASE + offset) & ~(GRANULE - 1));
    assert_int_equal(window.end, (BASE + offset + size + GRANULE - 1) & ~(GRANULE - 1));
}

/* --- with a strategy that shows free memory by size --- */

/* Returns the first range above `first` that is taken or in another region. */
static size_t end_of_run(const struct list *list, size_t first)
{
    size_t end = first;
    while (end < list->count && !list->ranges[end].taken &&
           list->ranges[end].region_address == list->ranges[first].region_address) {
        end++;
    }
    return end;
}

static bool has_hole(const struct list *list, size_t first, size_t end)
{
    while (first < end && list->ranges[first].lane != WEIR_LANE_UNMAPPED) {
        first++;
    }
    return first < end;
}

/* Visits the runs from the last one on, so in another order than walk. */
static void walk_holes(const void *state, uint64_t least, weir_range_visitor visit, void *ctx)
{
    const struct list *list = state;
    (void)least;
    for (size_t end = list->count; end > 0; end--) {
        const bool begins = !list->ranges[end - 1].taken &&
                            (end == 1 || list->ranges[end - 2].taken ||
                             list->ranges[end - 2].region_address != list->ranges[end - 1].region_address);
        const size_t last = begins ? end_of_run(list, end - 1) : 0;
        const bool more = begins && has_hole(list, end - 1, last);
        for (size_t i = end - 1; more && i < last; i++) {
            if (!visit(ctx, &list->ranges[i])) {
                return;
            }
        }
    }
}

/* --- windows --- */

TEST(test_an_empty_region_is_used_from_below)
{
    const struct list list = LIST({'H', 10 * GRANULE});
    require(&list, 1, 0, 1);
    require(&list, 8, 0, 1);
    require(&list, 9, 0, 2);
    require(&list, 80, 0, 10);
    assert_int_equal(find(&list, all_limits, 81, 1, false).need, 77);
}

TEST(test_a_free_run_is_extended)
{
    const struct list up = LIST({'T', 6}, {'F', 10}, {'H', 40});
    require(&up, 20, 6, 2); /* 6 .. 26: granules 16 and 24 are missing */
    const struct list down = LIST({'H', 40}, {'F', 10}, {'T', 6});
    require(&down, 18, 32, 1); /* moved down to the start of its granule */
    /* one byte more does not fit there: the window ends with the run and begins at a granule */
    require(&down, 19, 24, 2);
    const struct list both = LIST({'T', 4}, {'F', 4}, {'H', 16}, {'F', 4}, {'T', 4});
    require(&both, 24, 4, 2);
    assert_int_equal(find(&both, all_limits, 25, 1, false).need, 77);
}

/* Among equal places, the smallest run is used, so that a larger run stays free for a large request. */
TEST(test_the_smaller_run_is_extended)
{
    const struct list list = LIST({'F', 16}, {'H', 16}, {'T', 12}, {'F', 12}, {'H', 24});
    require(&list, 24, 0, 1); /* one granule is less than two */
    require(&list, 26, 44, 2);
    require(&list, 36, 44, 3);
}

TEST(test_several_holes_are_filled_if_that_is_cheaper)
{
    const struct list list = LIST({'T', 8}, {'F', 24}, {'H', 8}, {'F', 24}, {'H', 8}, {'F', 16}, {'T', 8}, {'H', 800});
    require(&list, 80, 8, 2);
    require(&list, 50, 8, 1);
    require(&list, 200, 96, 25);
}

TEST(test_unusable_memory_blocks_a_window)
{
    const struct list list = LIST({'F', 8}, {'O', 8}, {'H', 8}, {'S', 8}, {'H', 8});
    assert_int_equal(find(&list, all_limits, 24, 1, false).need, 1);
    assert_int_equal(find(&list, first_limits, 24, 1, false).need, 77); /* lane 2 still works, slots stay unused */
    assert_int_equal(find(&list, all_limits, 40, 1, false).need, 77);
    assert_int_equal(find(&list, all_limits, 40, 1, true).need, 2); /* as a last resort slots are used */
}

TEST(test_nothing_reaches_across_regions)
{
    const struct list list = LIST({'H', 16}, {'|', 0}, {'H', 16}, {'|', 64}, {'H', 24});
    require(&list, 17, 96, 3);
    assert_int_equal(find(&list, all_limits, 25, 1, false).need, 77);
}

TEST(test_alignments)
{
    const struct list list = LIST({'T', 2}, {'F', 14}, {'H', 240});
    for (uint64_t align = 1; align <= 128; align *= 2) {
        const struct vm_window window = find(&list, all_limits, 30, align, false);
        assert_int_equal(window.address % align, 0);
        assert_true(window.need <= 4);
    }
    assert_int_equal(find(&list, all_limits, 30, 64, false).address, BASE + 64);
    assert_int_equal(find(&list, all_limits, 30, 64, false).need, 4);
    assert_int_equal(find(&list, all_limits, 192, 128, false).need, 77); /* the only aligned free place is 128 .. 256 */
}

/* --- comparison with a trial of every place --- */

static uint64_t random_state;

static uint64_t below(uint64_t n)
{
    uint64_t z = random_state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (z ^ (z >> 31)) % n;
}

/* Makes a random list: holes consist of whole granules, other ranges begin and end anywhere. */
static struct list random_list(void)
{
    struct piece pieces[most_ranges];
    size_t count = 0;
    while (count < most_ranges - 8) {
        pieces[count++] = (struct piece){'H', GRANULE * (1 + below(4))};
        uint64_t left = GRANULE * below(5);
        while (left > 0 && count < most_ranges - 4) {
            const uint64_t size = 1 + below(left);
            pieces[count++] = (struct piece){"TFFO"[below(4)], size};
            left -= size;
        }
        if (left > 0) {
            pieces[count++] = (struct piece){'T', left};
        }
        if (below(6) == 0) {
            pieces[count++] = (struct piece){'|', GRANULE * below(3)};
        }
    }
    pieces[count++] = (struct piece){'T', GRANULE};
    return list_of(pieces, count);
}

static const weir_range_info *range_at(const struct list *list, uint64_t address)
{
    for (size_t i = 0; i < list->count; i++) {
        if (address - list->ranges[i].address < list->ranges[i].size) {
            return &list->ranges[i];
        }
    }
    return NULL;
}

static bool usable(const weir_range_info *range)
{
    return range != NULL && !range->taken &&
           (range->lane == WEIR_LANE_UNMAPPED || range->tick <= first_limits[range->lane]);
}

/* Returns the granules to map for a request at `address`, or UINT64_MAX if the request cannot lie there. */
static uint64_t cost_at(const struct list *list, uint64_t address, uint64_t size)
{
    uint64_t cost = 0;
    uint64_t granule = UINT64_MAX;
    const weir_range_info *first = range_at(list, address);
    for (uint64_t at = address; at < address + size; at++) {
        const weir_range_info *range = range_at(list, at);
        if (!usable(range) || range->region_address != first->region_address) {
            return UINT64_MAX;
        }
        if (range->lane == WEIR_LANE_UNMAPPED && at / GRANULE != granule) {
            granule = at / GRANULE;
            cost++;
        }
    }
    return cost;
}

/* A strategy that shows only the runs with holes leads to the same window, unless one without holes is enough. */
TEST(test_runs_with_holes_are_enough)
{
    uint64_t windows = 0;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        random_state = seed;
        const struct list list = random_list();
        struct vm_scratch scratch = {0};
        struct vm_view view = view_of(&list, first_limits);
        view.walk_holes = walk_holes;
        const struct vm_wish wish = {.size = 1 + below(3 * GRANULE), .align = 1};
        struct vm_window window = {.need = 77};
        const weir_status found = weir__vm_find_window(&scratch, &view, &wish, &window);
        const struct vm_window best = find(&list, first_limits, wish.size, 1, false);
        if (best.need > 0) {
            assert_int_equal(found == WEIR_OK, best.need != 77);
            assert_int_equal(window.need, best.need);
        }
        windows += found == WEIR_OK && best.need > 0;
        weir__vm_scratch_fini(&scratch);
    }
    assert_true(windows > 100);
}

TEST(test_no_place_is_cheaper)
{
    uint64_t found = 0;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        random_state = seed;
        const struct list list = random_list();
        const uint64_t size = 1 + below(6 * GRANULE);
        const uint64_t align = UINT64_C(1) << below(6);
        uint64_t least = UINT64_MAX;
        for (uint64_t at = BASE; range_at(&list, at) != NULL || at < BASE + 2000; at++) {
            const uint64_t cost = at % align == 0 ? cost_at(&list, at, size) : UINT64_MAX;
            least = cost < least ? cost : least;
        }
        const struct vm_window window = find(&list, first_limits, size, align, false);
        if ((window.need == 77) != (least == UINT64_MAX) || (window.need != 77 && window.need != least)) {
            print_error("seed %" PRIu64 ": %" PRIu64 " granules instead of %" PRIu64 "\n", seed, window.need, least);
            fail();
        }
        if (window.need != 77) {
            found++;
            assert_int_equal(cost_at(&list, window.address, size), least);
        }
    }
    assert_true(found > 1000);
}
