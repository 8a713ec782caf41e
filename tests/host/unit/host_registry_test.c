/* The registry of the host pool finds the run of an address: at the first page of a run, inside it, past its end, and
 * while other threads change entries nearby. */
#include "rig/test.h"
#include "registry.h"

#include <pthread.h>

#define PAGE UINT64_C(4096)

/* The first address of the tests: half a leaf above the start of a leaf. The registry only compares addresses, so no
 * memory is mapped there. */
#define BASE ((UINT64_C(7) << 40) + MIB)

static const uint32_t large_tag = WEIR__HOST_LARGE_TAG;

static void describe(weir__host_run *run, uint64_t start, uint64_t size)
{
    atomic_store(&run->start, start);
    atomic_store(&run->size, size);
}

static void enter(weir__host_registry *registry, weir__host_run *run, uint64_t start, uint64_t size)
{
    describe(run, start, size);
    weir__host_registry_enter(registry, run, large_tag);
}

static void leave(weir__host_registry *registry, weir__host_run *run)
{
    weir__host_registry_remove(registry, run, large_tag);
}

static size_t entries_in(const weir__host_registry *registry, uint64_t start, uint64_t size)
{
    size_t count = 0;
    for (uint64_t at = start; at < start + size; at += PAGE) {
        count += weir__host_page_at(registry, at) != 0;
    }
    return count;
}

TEST(test_addresses_inside)
{
    weir__host_registry registry;
    static weir__host_run runs[3];
    const uint64_t sizes[] = {PAGE, 20 * MIB, 3 * PAGE}; /* the second run begins and ends inside leaves */
    assert_int_equal(weir__host_registry_init(&registry), WEIR_OK);
    assert_int_equal(weir__host_registry_reserve(&registry, BASE, 32 * MIB), WEIR_OK);
    assert_null(weir__host_run_around(&registry, BASE));
    assert_null(weir__host_run_around(&registry, BASE - 100 * MIB)); /* no leaf there */
    uint64_t end = BASE;
    for (size_t i = 0; i < 3; i++) {
        enter(&registry, &runs[i], end, sizes[i]);
        end += sizes[i];
    }
    for (size_t i = 0; i < 3; i++) {
        for (uint64_t at = 0; at < sizes[i]; at += 1000) {
            assert_ptr_equal(weir__host_run_around(&registry, runs[i].start + at), &runs[i]);
        }
        assert_ptr_equal(weir__host_run_around(&registry, runs[i].start + sizes[i] - 1), &runs[i]);
        assert_ptr_equal(weir__host_run_at(&registry, runs[i].start), &runs[i]);
    }
    assert_null(weir__host_run_around(&registry, BASE - 1));
    /* the next lower entry belongs to a run that ends before this address */
    assert_null(weir__host_run_around(&registry, end));
    leave(&registry, &runs[1]);
    for (uint64_t at = 0; at < sizes[1]; at += PAGE) {
        assert_null(weir__host_run_around(&registry, runs[1].start + at));
    }
    assert_ptr_equal(weir__host_run_around(&registry, runs[0].start + PAGE - 1), &runs[0]);
    assert_ptr_equal(weir__host_run_around(&registry, end - 1), &runs[2]);
    leave(&registry, &runs[0]);
    leave(&registry, &runs[2]);
    assert_int_equal(entries_in(&registry, BASE, 32 * MIB), 0);
    weir__host_registry_fini(&registry);
}

/* Entering a large block writes one entry for each leaf that it touches, and no page inside. */
TEST(test_few_entries)
{
    weir__host_registry registry;
    static weir__host_run run;
    assert_int_equal(weir__host_registry_init(&registry), WEIR_OK);
    assert_int_equal(weir__host_registry_reserve(&registry, BASE, 64 * MIB), WEIR_OK);
    enter(&registry, &run, BASE, MIB);
    assert_int_equal(entries_in(&registry, BASE, 64 * MIB), 1);
    leave(&registry, &run);
    enter(&registry, &run, BASE + PAGE, 64 * MIB - PAGE);
    assert_int_equal(entries_in(&registry, BASE, 64 * MIB), 33);
    leave(&registry, &run);
    assert_int_equal(entries_in(&registry, BASE, 64 * MIB), 0);
    weir__host_registry_fini(&registry);
}

/* All pages of a slab have entries: a free reads one and looks no further. */
TEST(test_slab)
{
    weir__host_registry registry;
    static weir__host_run slab;
    static weir__host_run large;
    assert_int_equal(weir__host_registry_init(&registry), WEIR_OK);
    assert_int_equal(weir__host_registry_reserve(&registry, BASE, 8 * MIB), WEIR_OK);
    const uint64_t start = BASE + MIB - 8 * PAGE; /* across a leaf's end */
    describe(&slab, start, 16 * PAGE);
    weir__host_registry_enter(&registry, &slab, 3);
    enter(&registry, &large, start + 16 * PAGE, MIB);
    for (uint64_t at = 0; at < 16 * PAGE; at += PAGE) {
        assert_int_equal(weir__host_tag_of(weir__host_page_at(&registry, start + at)), 3);
        assert_ptr_equal(weir__host_run_at(&registry, start + at), &slab);
        assert_ptr_equal(weir__host_run_around(&registry, start + at + 17), &slab);
    }
    weir__host_registry_remove(&registry, &slab, 3);
    assert_null(weir__host_run_around(&registry, start + 5 * PAGE));
    assert_ptr_equal(weir__host_run_around(&registry, start + 16 * PAGE + MIB - 1), &large);
    leave(&registry, &large);
    weir__host_registry_fini(&registry);
}

/* --- a reader beside writers --- */

static struct {
    weir__host_registry registry;
    weir__host_run runs[3];
    atomic_bool stop;
} shared;

static void *change_neighbours(void *ctx)
{
    (void)ctx;
    while (!atomic_load(&shared.stop)) {
        enter(&shared.registry, &shared.runs[0], BASE, MIB / 2);
        enter(&shared.registry, &shared.runs[2], BASE + 4 * MIB, 3 * MIB);
        leave(&shared.registry, &shared.runs[0]);
        leave(&shared.registry, &shared.runs[2]);
        enter(&shared.registry, &shared.runs[0], BASE + MIB / 4, MIB / 4);
        leave(&shared.registry, &shared.runs[0]);
    }
    return NULL;
}

TEST(test_reader_beside_writer)
{
    pthread_t thread;
    assert_int_equal(weir__host_registry_init(&shared.registry), WEIR_OK);
    assert_int_equal(weir__host_registry_reserve(&shared.registry, BASE, 16 * MIB), WEIR_OK);
    enter(&shared.registry, &shared.runs[1], BASE + MIB / 2, 3 * MIB + MIB / 2);
    assert_int_equal(pthread_create(&thread, NULL, change_neighbours, NULL), 0);
    for (uint64_t i = 0; i < 200000; i++) {
        const uint64_t at = i * 7919 * 64 % (3 * MIB + MIB / 2);
        assert_ptr_equal(weir__host_run_around(&shared.registry, BASE + MIB / 2 + at), &shared.runs[1]);
        assert_ptr_not_equal(weir__host_run_around(&shared.registry, BASE + at % (MIB / 2)), &shared.runs[1]);
    }
    atomic_store(&shared.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    leave(&shared.registry, &shared.runs[1]);
    weir__host_registry_fini(&shared.registry);
}
