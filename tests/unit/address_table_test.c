/* tests/unit/address_table_test.c: tables of entries by address (address_table.c), which need no tombstones.
 *
 * Random entries are added and removed, so densely that many share a slot and runs wrap around the end of the table.
 * Each entry of the table is found, and no removed entry is. WEIR_SEED selects one seed.
 */
#include "pool/pool_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { entries = 200, steps = 20000 };

struct entry {
    uint64_t address; /* first: the table's key */
    bool is_in;
};

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void expect(const struct address_table *table, const struct entry *all, uint64_t seed, unsigned step)
{
    for (unsigned i = 0; i < entries; i++) {
        if (weir__table_find(table, all[i].address) != (all[i].is_in ? &all[i] : NULL)) {
            fail_msg("an address table %s, seed %u, step %u",
                     all[i].is_in ? "has lost an entry" : "finds a removed entry", (unsigned)seed, step);
        }
    }
}

static void play(uint64_t seed)
{
    struct address_table table = {0};
    struct entry all[entries];
    uint64_t random = seed;
    size_t count = 0;
    for (unsigned i = 0; i < entries; i++) {
        all[i] = (struct entry){.address = (i + 1) * 512};
    }
    for (unsigned step = 0; step < steps; step++) {
        struct entry *entry = &all[next_random(&random) % entries];
        if (entry->is_in) {
            weir__table_remove(&table, entry);
        } else {
            assert_true(weir__table_reserve(&table));
            weir__table_put(&table, entry);
        }
        entry->is_in = !entry->is_in;
        count += entry->is_in ? 1 : (size_t)-1;
        assert_int_equal(table.count, count);
        if (step % 16 == 0 || step + 1 == steps) {
            expect(&table, all, seed, step);
        }
    }
    free(table.slots);
}

static void test_what_is_in_is_found(void **state)
{
    (void)state;
    const char *wanted = getenv("WEIR_SEED");
    const uint64_t first = wanted != NULL ? strtoull(wanted, NULL, 10) : 1;
    const uint64_t last = wanted != NULL ? first : 4;
    for (uint64_t seed = first; seed <= last; seed++) {
        play(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_in_is_found),
    };
    return cmocka_run_group_tests_name("tables by address", tests, NULL, NULL);
}
