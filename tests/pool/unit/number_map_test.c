/* tests/pool/unit/number_map_test.c: the hash table against a plain array, with many removals. */
#include "rig/test.h"
#include "shared/number_map.h"

#define KEYS 512u

/* Keys that share their low bits, and keys that share their high bits. */
static uint64_t key_of(uint32_t i)
{
    return i % 2 == 0 ? (uint64_t)i << 40 : i;
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

TEST(test_agrees_with_an_array)
{
    weir__number_map map = {.slots = 0};
    uint64_t model[KEYS] = {0};
    size_t count = 0;
    uint32_t seed = 1;
    for (int step = 0; step < 200000; step++) {
        const uint32_t i = next_random(&seed) % KEYS;
        /* Long phases of mostly adding and mostly removing, so that runs grow and break up. */
        const bool add = next_random(&seed) % 8 < ((step / 2000) % 2 == 0 ? 6u : 2u);
        if (add) {
            const uint64_t value = (uint64_t)step + 1;
            count += model[i] == 0;
            model[i] = value;
            assert_true(weir__number_map_put(&map, key_of(i), value));
        } else {
            assert_int_equal(weir__number_map_take(&map, key_of(i)), model[i]);
            count -= model[i] != 0;
            model[i] = 0;
        }
        assert_int_equal(map.count, count);
        const uint32_t probe = next_random(&seed) % KEYS;
        assert_int_equal(weir__number_map_get(&map, key_of(probe)), model[probe]);
    }
    for (uint32_t i = 0; i < KEYS; i++) {
        assert_int_equal(weir__number_map_get(&map, key_of(i)), model[i]);
    }
    weir__number_map_fini(&map);
}

TEST(test_reserve_makes_room)
{
    weir__number_map map = {.slots = 0};
    assert_int_equal(weir__number_map_get(&map, 5), 0);
    assert_int_equal(weir__number_map_take(&map, 5), 0);
    assert_true(weir__number_map_reserve(&map, 1000));
    const size_t slots = map.slots;
    for (uint64_t key = 0; key < 1000; key++) {
        assert_true(weir__number_map_put(&map, key, key + 1));
    }
    assert_int_equal(map.slots, slots);
    assert_int_equal(weir__number_map_get(&map, 0), 1);
    assert_int_equal(weir__number_map_get(&map, 999), 1000);
    weir__number_map_fini(&map);
}

TEST(test_impossible_sizes_are_refused)
{
    weir__number_map map = {.slots = 0};
    assert_false(weir__number_map_reserve(&map, SIZE_MAX / 2));
    assert_int_equal(map.slots, 0);
    assert_true(weir__number_map_put(&map, 1, 1));
    weir__number_map_fini(&map);
}
