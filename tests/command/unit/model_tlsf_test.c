/* model_tlsf_test.c: the allocator that benchmarks compare weir with, against a map of granules: random requests, each
 * live range entered granule by granule. The map finds a range that overlaps, lies outside, or is refused although it
 * fits. */
#include "rig/test.h"

#include "micro/tlsf.h"

enum { GRANULES = 4096, MOST_LIVE = 400, STEPS = 40000 };

/* The map: which range owns each granule; 0 is free. */
struct world {
    struct tlsf tlsf;
    uint32_t owner[GRANULES];
    uint32_t live[MOST_LIVE];
    uint32_t live_count;
    uint64_t random;
};

static uint32_t below(struct world *world, uint32_t bound)
{
    world->random = world->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(((world->random >> 32) * bound) >> 32);
}

/* Sizes from 1 byte to 128 granules, small ones more often. */
static uint64_t some_bytes(struct world *world)
{
    return 1 + below(world, 512u << below(world, 8));
}

static void open_world(struct world *world, uint64_t seed)
{
    *world = (struct world){.random = seed};
    assert_true(tlsf_open(&world->tlsf, (uint64_t)GRANULES * TLSF_GRANULE_BYTES, 2 * MOST_LIVE + 1));
}

/* Records tile the range in order, no two neighbours are free, a free one lies in the bin of its size and the bitmaps
 * name exactly the bins that are not empty. */
static void check_records(const struct tlsf *tlsf)
{
    const struct tlsf_record *records = tlsf->records;
    uint32_t at = 0;
    uint32_t free_by_address = 0;
    uint32_t previous = TLSF_BORDER;
    for (uint32_t i = records[TLSF_BORDER].next; i != TLSF_BORDER; previous = i, i = records[i].next) {
        assert_int_equal(records[i].previous, previous);
        assert_int_equal(records[i].first, at);
        assert_true(records[i].granules > 0);
        assert_false(records[i].free && records[previous].free);
        free_by_address += records[i].free;
        at += records[i].granules;
    }
    assert_int_equal(records[TLSF_BORDER].previous, previous);
    assert_int_equal(at, GRANULES);
    uint32_t free_by_bin = 0;
    for (uint32_t bin = 0; bin < TLSF_BINS; bin++) {
        uint32_t members = 0;
        for (uint32_t i = records[bin].bin_next; i != bin; i = records[i].bin_next, members++) {
            assert_true(records[i].free);
            assert_int_equal(tlsf_bin(records[i].granules), bin);
            assert_int_equal(records[records[i].bin_next].bin_previous, i);
        }
        assert_int_equal((tlsf->bins[bin / 64] >> (bin % 64)) & 1, members != 0);
        free_by_bin += members;
    }
    for (uint32_t word = 0; word < TLSF_WORDS; word++) {
        assert_int_equal((tlsf->summary >> word) & 1, tlsf->bins[word] != 0);
    }
    assert_int_equal(free_by_bin, free_by_address);
}

static uint32_t longest_free(const struct world *world)
{
    uint32_t longest = 0;
    uint32_t length = 0;
    for (uint32_t i = 0; i < GRANULES; i++) {
        length = world->owner[i] == 0 ? length + 1 : 0;
        longest = length > longest ? length : longest;
    }
    return longest;
}

static void add(struct world *world)
{
    const uint64_t bytes = some_bytes(world);
    const uint32_t granules = (uint32_t)((bytes + 511) / 512);
    const uint32_t range = tlsf_alloc(&world->tlsf, bytes);
    if (range == 0) { /* a free range may be overlooked only in the request's own bin */
        assert_true(tlsf_bin(longest_free(world) | 1) <= tlsf_bin(granules));
        return;
    }
    const uint64_t first = tlsf_address(&world->tlsf, range) / 512;
    assert_int_equal(tlsf_bytes(&world->tlsf, range), (uint64_t)granules * 512);
    assert_true(first + granules <= GRANULES);
    for (uint64_t i = first; i < first + granules; i++) {
        assert_int_equal(world->owner[i], 0);
        world->owner[i] = range;
    }
    world->live[world->live_count++] = range;
}

static void drop(struct world *world)
{
    const uint32_t which = below(world, world->live_count);
    const uint32_t range = world->live[which];
    const uint64_t first = tlsf_address(&world->tlsf, range) / 512;
    const uint64_t granules = tlsf_bytes(&world->tlsf, range) / 512;
    for (uint64_t i = first; i < first + granules; i++) {
        assert_int_equal(world->owner[i], range);
        world->owner[i] = 0;
    }
    world->live[which] = world->live[--world->live_count];
    tlsf_free(&world->tlsf, range);
}

TEST(test_beside_a_map_of_intervals)
{
    struct world *world = malloc(sizeof(*world));
    assert_non_null(world);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        open_world(world, seed);
        for (uint32_t step = 0; step < STEPS; step++) {
            const bool grow = below(world, 100) < (step / 2000 % 2 == 0 ? 60u : 40u);
            if (world->live_count == 0 || (grow && world->live_count < MOST_LIVE)) {
                add(world);
            } else {
                drop(world);
            }
            if (step % 100 == 0) {
                check_records(&world->tlsf);
            }
        }
        while (world->live_count > 0) {
            drop(world);
        }
        check_records(&world->tlsf);
        assert_int_equal(tlsf_bytes(&world->tlsf, tlsf_alloc(&world->tlsf, GRANULES * 512)), GRANULES * 512);
        tlsf_close(&world->tlsf);
    }
    free(world);
}

/* Each size is in a bin of its own doubling, bins rise with sizes, and the largest size is in the last bin. */
TEST(test_bins_rise_with_sizes)
{
    for (uint32_t granules = 1; granules < 1u << 20; granules++) {
        const uint32_t step = tlsf_bin(granules + 1) - tlsf_bin(granules);
        assert_true(step <= 1);
        assert_true(granules >= TLSF_STEPS || step == 1);
    }
    assert_int_equal(tlsf_bin(UINT32_MAX), TLSF_BINS - 1);
}

/* If no record is left for the rest of a range, a request gets the whole range; after its free the range is whole
 * again. */
TEST(test_records_run_out)
{
    struct tlsf tlsf;
    assert_true(tlsf_open(&tlsf, (uint64_t)GRANULES * 512, 2));
    const uint32_t first = tlsf_alloc(&tlsf, 512);
    const uint32_t rest = tlsf_alloc(&tlsf, 512);
    assert_int_equal(tlsf_bytes(&tlsf, first), 512);
    assert_int_equal(tlsf_bytes(&tlsf, rest), (GRANULES - 1) * 512);
    assert_int_equal(tlsf_alloc(&tlsf, 1), 0);
    tlsf_free(&tlsf, first);
    tlsf_free(&tlsf, rest);
    check_records(&tlsf);
    tlsf_close(&tlsf);
}
