/* tests/pool/unit/sim_memory_test.c: addresses, capacity, virtual memory, and the real bytes of backed mode. */
#include "rig/sim.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE (2 * MIB)

static weir_sim *small_sim(weir_sim_mode mode, uint64_t capacity)
{
    weir_sim_config config = free_of_charge();
    config.mode = mode;
    config.capacity_bytes = capacity;
    return new_sim(config);
}

static uint64_t held(weir_sim *sim)
{
    weir_sim_stats stats = WEIR_SIM_STATS_INIT;
    ok(weir_sim_get_stats(sim, &stats));
    return stats.held_bytes;
}

/* True if a child that touches the address is killed. */
static bool faults(const void *address, bool write)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(SIGSEGV, SIG_DFL); /* not the test framework's handler */
        (void)signal(SIGBUS, SIG_DFL);
        (void)close(STDERR_FILENO); /* hides a sanitizer's report */
        volatile char *byte = (volatile char *)(uintptr_t)address;
        if (write) {
            *byte = 1;
        } else {
            (void)*byte;
        }
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* --- addresses and capacity --- */

TEST(test_first_fit_by_address)
{
    weir_sim *sim = small_sim(WEIR_SIM_ACCOUNTING, GIB);
    uint64_t r[4];
    for (int i = 0; i < 4; i++) {
        r[i] = new_region(sim, 4 * PAGE);
    }
    assert_int_equal(r[0], 0x100000000000);
    assert_int_equal(r[1], r[0] + 4 * PAGE); /* adjacent */
    give_region(sim, r[0], 4 * PAGE);
    give_region(sim, r[2], 4 * PAGE);
    assert_int_equal(new_region(sim, 8 * PAGE), r[3] + 4 * PAGE);
    assert_int_equal(new_region(sim, PAGE), r[0]);
    give_region(sim, r[1], 4 * PAGE); /* joins its free neighbours */
    assert_int_equal(new_region(sim, 11 * PAGE), r[0] + PAGE);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

TEST(test_capacity_is_exact)
{
    for (int mode = 0; mode < 2; mode++) {
        weir_sim *sim = small_sim((weir_sim_mode)mode, 16 * PAGE);
        weir_device *device = weir_sim_device(sim);
        uint64_t address = 0;
        weir_vm_handle handle = 0;
        fails(weir_device_region_alloc(device, 17 * PAGE, &address), WEIR_ERR_NO_MEMORY);
        uint64_t region = new_region(sim, 10 * PAGE);
        ok(weir_device_vm_create(device, 5 * PAGE, &handle));
        fails(weir_device_region_alloc(device, 2 * PAGE, &address), WEIR_ERR_NO_MEMORY);
        uint64_t last = new_region(sim, PAGE);
        fails(weir_device_region_alloc(device, PAGE, &address), WEIR_ERR_NO_MEMORY);
        assert_int_equal(address, 0);
        assert_int_equal(held(sim), 16 * PAGE);
        give_region(sim, region, 10 * PAGE);
        ok(weir_device_vm_destroy(device, handle));
        give_region(sim, last, PAGE);
        assert_int_equal(held(sim), 0);
        weir_sim_stats stats = WEIR_SIM_STATS_INIT;
        ok(weir_sim_get_stats(sim, &stats));
        assert_int_equal(stats.peak_held_bytes, 16 * PAGE);
        region = new_region(sim, 16 * PAGE);
        give_region(sim, region, 16 * PAGE);
        assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
    }
}

TEST(test_capacity_may_shrink)
{
    weir_sim *sim = small_sim(WEIR_SIM_ACCOUNTING, 16 * PAGE);
    weir_device *device = weir_sim_device(sim);
    uint64_t first = new_region(sim, 8 * PAGE);
    uint64_t second = new_region(sim, 4 * PAGE);
    uint64_t address = 0;
    weir_sim_set_capacity(sim, 9 * PAGE); /* below the bytes in use */
    fails(weir_device_region_alloc(device, PAGE, &address), WEIR_ERR_NO_MEMORY);
    give_region(sim, second, 4 * PAGE);
    fails(weir_device_region_alloc(device, 2 * PAGE, &address), WEIR_ERR_NO_MEMORY);
    (void)new_region(sim, PAGE);
    weir_sim_set_capacity(sim, 64 * PAGE); /* and grow */
    (void)new_region(sim, 32 * PAGE);
    give_region(sim, first, 8 * PAGE);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

TEST(test_region_free_must_match)
{
    weir_sim *sim = small_sim(WEIR_SIM_ACCOUNTING, GIB);
    weir_device *device = weir_sim_device(sim);
    uint64_t region = new_region(sim, 4 * PAGE);
    fails(weir_device_region_free(device, region, 2 * PAGE), WEIR_ERR_INVALID);
    fails(weir_device_region_free(device, region + 2 * PAGE, 2 * PAGE), WEIR_ERR_INVALID);
    fails(weir_device_region_free(device, region - PAGE, PAGE), WEIR_ERR_INVALID);
    give_region(sim, region, 4 * PAGE);
    fails(weir_device_region_free(device, region, 4 * PAGE), WEIR_ERR_INVALID);
    is_clean(sim); /* refused calls are no findings */
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

/* Random regions are compared with a plain list: they never overlap, they lie inside the window, and all bytes come
 * back. */
TEST(test_many_regions)
{
    enum { COUNT = 300, STEPS = 20000 };
    static uint64_t start[COUNT];
    static uint64_t size[COUNT];
    weir_sim *sim = small_sim(WEIR_SIM_ACCOUNTING, 64 * GIB);
    memset(size, 0, sizeof(size));
    uint32_t random = 12345;
    uint64_t total = 0;
    for (int step = 0; step < STEPS; step++) {
        random = random * 1664525u + 1013904223u;
        size_t i = (random >> 8) % COUNT;
        if (size[i] != 0) {
            give_region(sim, start[i], size[i]);
            total -= size[i];
            size[i] = 0;
            continue;
        }
        uint64_t wanted = PAGE * (1 + (random >> 20) % 9);
        start[i] = new_region(sim, wanted);
        for (size_t j = 0; j < COUNT; j++) {
            assert_true(size[j] == 0 || start[i] + wanted <= start[j] || start[j] + size[j] <= start[i]);
        }
        size[i] = wanted;
        total += wanted;
        assert_int_equal(held(sim), total);
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (size[i] != 0) {
            give_region(sim, start[i], size[i]);
        }
    }
    assert_int_equal(new_region(sim, 60 * GIB), 0x100000000000); /* all memory is in one piece again */
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

/* --- virtual memory --- */

TEST(test_vm_rules)
{
    for (int mode = 0; mode < 2; mode++) {
        weir_sim *sim = small_sim((weir_sim_mode)mode, 64 * PAGE);
        weir_device *device = weir_sim_device(sim);
        uint64_t base = 0;
        weir_vm_handle handle = 0;
        weir_vm_handle other = 0;
        ok(weir_device_vm_reserve(device, 16 * PAGE, &base));
        ok(weir_device_vm_create(device, 2 * PAGE, &handle));
        ok(weir_device_vm_create(device, 2 * PAGE, &other));
        assert_int_not_equal(handle, 0);
        assert_int_not_equal(handle, other);
        fails(weir_device_vm_map(device, base, PAGE, handle), WEIR_ERR_INVALID); /* not the whole handle */
        fails(weir_device_vm_map(device, base + 15 * PAGE, 2 * PAGE, handle), WEIR_ERR_INVALID);
        fails(weir_device_vm_map(device, base + 1, 2 * PAGE, handle), WEIR_ERR_INVALID);
        fails(weir_device_vm_map(device, base - 2 * PAGE, 2 * PAGE, handle), WEIR_ERR_INVALID);
        ok(weir_device_vm_map(device, base + 2 * PAGE, 2 * PAGE, handle));
        fails(weir_device_vm_map(device, base + 6 * PAGE, 2 * PAGE, handle), WEIR_ERR_INVALID); /* twice */
        fails(weir_device_vm_map(device, base + 3 * PAGE, 2 * PAGE, other), WEIR_ERR_INVALID);
        fails(weir_device_vm_map(device, base + PAGE, 2 * PAGE, other), WEIR_ERR_INVALID);
        ok(weir_device_vm_map(device, base, 2 * PAGE, other));
        fails(weir_device_vm_destroy(device, handle), WEIR_ERR_BUSY);
        fails(weir_device_vm_release(device, base, 16 * PAGE), WEIR_ERR_BUSY);
        fails(weir_device_vm_unmap(device, base, 4 * PAGE), WEIR_ERR_INVALID); /* exactly one mapping */
        fails(weir_device_vm_unmap(device, base + 3 * PAGE, PAGE), WEIR_ERR_INVALID);
        ok(weir_device_vm_unmap(device, base + 2 * PAGE, 2 * PAGE));
        fails(weir_device_vm_unmap(device, base + 2 * PAGE, 2 * PAGE), WEIR_ERR_INVALID);
        ok(weir_device_vm_destroy(device, handle));
        fails(weir_device_vm_destroy(device, handle), WEIR_ERR_INVALID);
        weir_vm_handle successor = 0;
        ok(weir_device_vm_create(device, 2 * PAGE, &successor));
        assert_int_not_equal(successor, handle); /* a stale handle is never a live one */
        fails(weir_device_vm_map(device, base + 4 * PAGE, 2 * PAGE, handle), WEIR_ERR_INVALID);
        fails(weir_device_vm_destroy(device, 0), WEIR_ERR_INVALID);
        ok(weir_device_vm_unmap(device, base, 2 * PAGE));
        fails(weir_device_vm_release(device, base, 8 * PAGE), WEIR_ERR_INVALID);
        ok(weir_device_vm_release(device, base, 16 * PAGE));
        ok(weir_device_vm_destroy(device, other));
        ok(weir_device_vm_destroy(device, successor));
        assert_int_equal(held(sim), 0);
        assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
    }
}

TEST(test_reservations_cost_no_memory)
{
    weir_sim *sim = small_sim(WEIR_SIM_BACKED, 16 * PAGE);
    uint64_t base = 0;
    ok(weir_device_vm_reserve(weir_sim_device(sim), 64 * PAGE, &base));
    assert_int_equal(held(sim), 0);
    ok(weir_device_vm_release(weir_sim_device(sim), base, 64 * PAGE));
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

TEST(test_device_without_groups)
{
    weir_sim_config config = free_of_charge();
    config.no_virtual_memory = true;
    config.no_ordering = true;
    weir_sim *sim = new_sim(config);
    weir_device *device = weir_sim_device(sim);
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    uint64_t base = 0;
    ok(weir_device_get_info(device, &info));
    assert_int_equal(info.abilities, 0);
    assert_int_equal(info.page_bytes, 0);
    assert_int_equal(info.capacity_bytes, 64 * GIB);
    fails(weir_device_vm_reserve(device, PAGE, &base), WEIR_ERR_UNSUPPORTED);
    fails(weir_device_stream_sync(device, NULL), WEIR_ERR_UNSUPPORTED);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

/* --- real bytes --- */

TEST(test_region_bytes)
{
    weir_sim *sim = small_sim(WEIR_SIM_BACKED, 16 * PAGE);
    uint64_t region = new_region(sim, 3 * PAGE);
    unsigned char *bytes = weir_sim_bytes(sim, region, 3 * PAGE);
    assert_ptr_equal(bytes, (void *)(uintptr_t)region); /* addresses are pointers */
    assert_int_equal(bytes[0], 0xdd);                   /* fresh memory does not hold zeros */
    assert_int_equal(bytes[3 * PAGE - 1], 0xdd);
    bytes[5] = 42;
    assert_int_equal(bytes[5], 42);
    assert_false(faults(bytes, true));
    assert_true(faults(bytes + 3 * PAGE, false)); /* no memory was given there */
    assert_null(weir_sim_bytes(sim, region, 3 * PAGE + 1));
    assert_null(weir_sim_bytes(sim, region - 1, 1));
    give_region(sim, region, 3 * PAGE);
    assert_null(weir_sim_bytes(sim, region, 1));
    assert_true(faults(bytes, false));
    assert_true(faults(bytes, true));
    assert_int_equal(new_region(sim, 3 * PAGE), region);
    assert_int_equal(bytes[5], 0xdd); /* nor does it hold the old contents */
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

TEST(test_accounting_has_no_bytes)
{
    weir_sim *sim = small_sim(WEIR_SIM_ACCOUNTING, 80 * GIB);
    uint64_t region = new_region(sim, 80 * GIB);
    assert_null(weir_sim_bytes(sim, region, 1));
    ok(weir_sim_fill(sim, NULL, region, GIB, 1, NULL));
    ok(weir_sim_sync(sim));
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

TEST(test_remap_keeps_contents)
{
    weir_sim *sim = small_sim(WEIR_SIM_BACKED, 64 * PAGE);
    weir_device *device = weir_sim_device(sim);
    uint64_t base = 0;
    weir_vm_handle first = 0;
    weir_vm_handle second = 0;
    ok(weir_device_vm_reserve(device, 16 * PAGE, &base));
    ok(weir_device_vm_create(device, PAGE, &first));
    ok(weir_device_vm_create(device, PAGE, &second));
    ok(weir_device_vm_map(device, base, PAGE, first));
    ok(weir_device_vm_map(device, base + PAGE, PAGE, second));
    unsigned char *bytes = weir_sim_bytes(sim, base, 2 * PAGE); /* adjacent mappings are one range */
    assert_non_null(bytes);
    memset(bytes, 1, PAGE);
    memset(bytes + PAGE, 2, PAGE);
    ok(weir_device_vm_unmap(device, base, PAGE));
    assert_true(faults(bytes, false));
    assert_false(faults(bytes + PAGE, false));
    ok(weir_device_vm_map(device, base + 8 * PAGE, PAGE, first)); /* elsewhere */
    assert_int_equal(bytes[8 * PAGE], 1);
    assert_int_equal(bytes[9 * PAGE - 1], 1);
    ok(weir_device_vm_unmap(device, base + PAGE, PAGE));
    ok(weir_device_vm_map(device, base, PAGE, second)); /* the old address of another handle */
    assert_int_equal(bytes[0], 2);
    ok(weir_device_vm_unmap(device, base, PAGE));
    ok(weir_device_vm_destroy(device, second));
    ok(weir_device_vm_create(device, PAGE, &second)); /* destroyed contents do not come back */
    ok(weir_device_vm_map(device, base, PAGE, second));
    assert_int_equal(bytes[0], 0);
    assert_int_equal(bytes[8 * PAGE], 1);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

/* Live contents survive any number of remaps of other handles. */
TEST(test_remap_churn)
{
    enum { PIECES = 24, SLOTS = 64, STEPS = 3000 };
    weir_sim_config config = free_of_charge();
    config.mode = WEIR_SIM_BACKED;
    config.page_bytes = 64 * KIB;
    config.capacity_bytes = 64 * MIB;
    weir_sim *sim = new_sim(config);
    weir_device *device = weir_sim_device(sim);
    uint64_t page = config.page_bytes;
    uint64_t base = 0;
    weir_vm_handle handles[PIECES];
    int slot_of[PIECES];
    int piece_in[SLOTS];
    ok(weir_device_vm_reserve(device, SLOTS * page, &base));
    memset(piece_in, -1, sizeof(piece_in));
    for (int i = 0; i < PIECES; i++) {
        ok(weir_device_vm_create(device, page, &handles[i]));
        slot_of[i] = -1;
    }
    uint32_t random = 99;
    for (int step = 0; step < STEPS; step++) {
        random = random * 1664525u + 1013904223u;
        int i = (int)((random >> 8) % PIECES);
        int slot = (int)((random >> 16) % SLOTS);
        if (slot_of[i] >= 0) {
            unsigned char *old = weir_sim_bytes(sim, base + (uint64_t)slot_of[i] * page, page);
            assert_int_equal(old[0], i + 1);
            assert_int_equal(old[page - 1], i + 1);
            ok(weir_device_vm_unmap(device, base + (uint64_t)slot_of[i] * page, page));
            piece_in[slot_of[i]] = -1;
        }
        if (piece_in[slot] >= 0) {
            slot_of[i] = -1;
            continue;
        }
        ok(weir_device_vm_map(device, base + (uint64_t)slot * page, page, handles[i]));
        unsigned char *bytes = weir_sim_bytes(sim, base + (uint64_t)slot * page, page);
        assert_true(bytes[0] == i + 1 || bytes[0] == 0);
        bytes[0] = (unsigned char)(i + 1);
        bytes[page - 1] = (unsigned char)(i + 1);
        slot_of[i] = slot;
        piece_in[slot] = i;
    }
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

/* --- work on real bytes --- */

TEST(test_copies_happen_when_their_time_comes)
{
    weir_sim *sim = small_sim(WEIR_SIM_BACKED, 16 * PAGE);
    weir_sim_stream *a = new_stream(sim);
    uint64_t region = new_region(sim, PAGE);
    unsigned char *bytes = weir_sim_bytes(sim, region, PAGE);
    weir_sim_block_alloc(sim, region, PAGE, a, "buffer");
    unsigned char source[4] = {1, 2, 3, 4};
    unsigned char target[4] = {0};
    ok(weir_sim_copy_from_host(sim, a, region, source, 4, "in")); /* ends at 1,000 */
    ok(weir_sim_copy(sim, a, region + 4, region, 4, "across"));   /* ends at 2,000 */
    ok(weir_sim_fill(sim, a, region, 2, 9, "fill"));              /* ends at 3,000 */
    ok(weir_sim_copy_to_host(sim, a, target, region, 4, "out"));  /* ends at 4,000 */
    assert_int_equal(bytes[0], 0xdd);
    source[3] = 44; /* pinned memory is read when the copy runs */
    weir_sim_advance_to(sim, 1999);
    assert_int_equal(bytes[3], 44);
    assert_int_equal(bytes[7], 0xdd);
    weir_sim_advance_to(sim, 2000);
    assert_int_equal(bytes[7], 44);
    assert_int_equal(bytes[0], 1);
    weir_sim_advance_to(sim, 3999);
    assert_int_equal(bytes[0], 9);
    assert_int_equal(target[0], 0);
    sync_stream(sim, a);
    assert_memory_equal(target, "\x09\x09\x03\x2c", 4);
    assert_int_equal(bytes[4], 1);
    (void)only_finding(sim, WEIR_SIM_HOST_CHANGED, NULL, "in");
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

struct host_side {
    weir_sim *sim;
    weir_sim_stream *stream;
    uint64_t region;
    unsigned char bytes[100];
};

static void write_host_side(void *ctx)
{
    struct host_side *h = ctx;
    h->bytes[99]++;
}

/* Queues work that runs write_host_side at its end. */
static void queue_writer(struct host_side *h, bool is_kernel)
{
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = 10;
    work.host_function = write_host_side;
    work.host_ctx = h;
    work.kernel = is_kernel;
    ok(weir_sim_launch(h->sim, h->stream, &work));
}

static void queue_copy(struct host_side *h, bool to_host)
{
    ok(to_host ? weir_sim_copy_to_host(h->sim, h->stream, h->bytes, h->region, sizeof(h->bytes), "out")
               : weir_sim_copy_from_host(h->sim, h->stream, h->region, h->bytes, sizeof(h->bytes), "in"));
}

/* What may happen to the host's side of a copy between its queuing and its end. */
enum change { UNTOUCHED, HOST_WRITES, COPY_WRITES, FUNCTION_WRITES, KERNEL_WRITES, TOLD, CHANGES };

/* Runs one life, with a copy out of memory or into it, and returns the number of findings. */
static uint64_t changed_under_copy(enum change change, bool to_host)
{
    struct host_side h = {.sim = small_sim(WEIR_SIM_BACKED, 16 * PAGE)};
    h.stream = new_stream(h.sim);
    h.region = new_region(h.sim, PAGE);
    weir_sim_block_alloc(h.sim, h.region, PAGE, h.stream, "buffer");
    ok(weir_sim_fill(h.sim, h.stream, h.region, PAGE, 7, "fill"));
    if (change == COPY_WRITES) {
        ok(weir_sim_copy_to_host(h.sim, h.stream, &h.bytes[99], h.region, 1, "before"));
    } else if (change == FUNCTION_WRITES || change == KERNEL_WRITES) {
        queue_writer(&h, change == KERNEL_WRITES);
    }
    queue_copy(&h, to_host);
    if (change == HOST_WRITES || change == TOLD) {
        write_host_side(&h);
    }
    if (change == TOLD) {
        weir_sim_host_written(h.sim, &h.bytes[99], 1);
    }
    ok(weir_sim_sync(h.sim));
    const uint64_t found = weir_sim_finding_count(h.sim, WEIR_SIM_HOST_CHANGED);
    assert_int_equal(weir_sim_finding_count(h.sim, WEIR_SIM_FINDING_KINDS), found);
    if (found > 0) {
        weir_sim_finding f = only_finding(h.sim, WEIR_SIM_HOST_CHANGED, NULL, to_host ? "out" : "in");
        assert_int_equal(f.address, (uintptr_t)h.bytes);
        assert_int_equal(f.size, sizeof(h.bytes));
    }
    assert_int_equal(weir_sim_destroy(h.sim), WEIR_OK);
    return found;
}

/* The host may not write its side of a queued copy, whose order to the device is not known. Copies and host functions
 * write in the order of a stream; a kernel writes device memory, unless the simulator is told. */
TEST(test_the_host_side_of_a_queued_copy)
{
    static const uint64_t wanted[CHANGES] = {[HOST_WRITES] = 1, [KERNEL_WRITES] = 1};
    for (int change = 0; change < CHANGES; change++) {
        assert_int_equal(changed_under_copy((enum change)change, false), wanted[change]);
        assert_int_equal(changed_under_copy((enum change)change, true), wanted[change]);
    }
}

/* Host memory may go once the host has seen the end of its copies, however many there were. */
TEST(test_host_memory_given_back)
{
    struct host_side h = {.sim = small_sim(WEIR_SIM_BACKED, 16 * PAGE)};
    h.stream = new_stream(h.sim);
    h.region = new_region(h.sim, PAGE);
    weir_sim_block_alloc(h.sim, h.region, PAGE, h.stream, "buffer");
    for (int i = 0; i < 100; i++) {
        queue_copy(&h, i % 2 == 0);
        if (i % 40 == 39) {
            sync_stream(h.sim, h.stream);
        }
    }
    weir_sim_host_free(h.sim, h.bytes + sizeof(h.bytes), 8, "beside");
    is_clean(h.sim);
    weir_sim_advance(h.sim, 1000000000); /* time is not enough */
    weir_sim_host_free(h.sim, h.bytes + 50, 8, "early");
    weir_sim_finding f = only_finding(h.sim, WEIR_SIM_HOST_MEMORY, "in", "early");
    assert_false(f.in_flight);
    assert_non_null(strstr(f.text, "by luck"));
    weir_sim_host_free(h.sim, h.bytes, 50, "again"); /* was reported */
    queue_copy(&h, false);
    weir_sim_host_alloc(h.sim, h.bytes, sizeof(h.bytes)); /* other memory has the addresses now */
    weir_sim_host_free(h.sim, h.bytes, sizeof(h.bytes), "fresh");
    queue_copy(&h, false);
    sync_stream(h.sim, h.stream);
    weir_sim_host_free(h.sim, h.bytes, sizeof(h.bytes), "seen");
    assert_int_equal(weir_sim_finding_count(h.sim, WEIR_SIM_FINDING_KINDS), 1);
    queue_copy(&h, false);
    weir_sim_host_free(h.sim, h.bytes, sizeof(h.bytes), "under the copy");
    write_host_side(&h); /* the memory is not the program's any more */
    sync_stream(h.sim, h.stream);
    assert_int_equal(weir_sim_finding_count(h.sim, WEIR_SIM_FINDING_KINDS), 2);
    assert_int_equal(weir_sim_destroy(h.sim), WEIR_OK);
}

/* A copy that is dropped reads no host memory any more. */
TEST(test_host_memory_of_dropped_copies)
{
    struct host_side h = {.sim = small_sim(WEIR_SIM_BACKED, 16 * PAGE)};
    h.stream = new_stream(h.sim);
    h.region = new_region(h.sim, PAGE);
    weir_sim_block_alloc(h.sim, h.region, PAGE, h.stream, "buffer");
    queue_copy(&h, false);
    write_host_side(&h);
    ok(weir_sim_stream_break(h.sim, h.stream));
    assert_int_equal(weir_sim_sync(h.sim), WEIR_ERR_DEVICE);
    is_clean(h.sim);
    weir_sim_stream *other = new_stream(h.sim);
    unsigned char *bytes = malloc(PAGE);
    assert_non_null(bytes);
    memset(bytes, 1, PAGE);
    ok(weir_sim_copy_from_host(h.sim, other, h.region, bytes, PAGE, "never"));
    h.stream = other;
    queue_writer(&h, false);
    free(bytes);
    assert_int_equal(weir_sim_destroy(h.sim), WEIR_OK);
}

/* Two streams without an order: the data shows the later write in time, not in the program. */
TEST(test_race_shows_in_the_data)
{
    for (int ordered = 0; ordered < 2; ordered++) {
        weir_sim *sim = small_sim(WEIR_SIM_BACKED, 16 * PAGE);
        weir_sim_stream *a = new_stream(sim);
        weir_sim_stream *b = new_stream(sim);
        uint64_t region = new_region(sim, PAGE);
        unsigned char *bytes = weir_sim_bytes(sim, region, PAGE);
        weir_sim_block_alloc(sim, region, PAGE, NULL, "buffer");
        busy(sim, a, LONG_NS);
        ok(weir_sim_fill(sim, a, region, 16, 1, "slow stream"));
        if (ordered) {
            order(sim, a, b);
        }
        ok(weir_sim_fill(sim, b, region, 16, 2, "quick stream"));
        ok(weir_sim_sync(sim));
        assert_int_equal(bytes[0], ordered ? 2 : 1);
        assert_int_equal(weir_sim_finding_count(sim, WEIR_SIM_UNORDERED), ordered ? 0 : 1);
        assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
    }
}

TEST(test_work_on_memory_that_is_gone_breaks_the_stream)
{
    weir_sim *sim = small_sim(WEIR_SIM_BACKED, 16 * PAGE);
    weir_sim_stream *a = new_stream(sim);
    weir_sim_stream *b = new_stream(sim);
    uint64_t region = new_region(sim, PAGE);
    ok(weir_sim_fill(sim, a, region, 16, 1, "late"));
    ok(weir_sim_fill(sim, a, region, 16, 2, "later still"));
    give_region(sim, region, PAGE);
    fails(weir_device_stream_sync(weir_sim_device(sim), a), WEIR_ERR_DEVICE);
    fails(weir_sim_fill(sim, a, region, 16, 1, "no more"), WEIR_ERR_DEVICE);
    fails(weir_sim_sync(sim), WEIR_ERR_DEVICE);
    sync_stream(sim, b);
    ok(weir_sim_stream_destroy(sim, a));
    ok(weir_sim_sync(sim));
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

TEST(test_large_region_is_committed_lazily)
{
    weir_sim *sim = small_sim(WEIR_SIM_BACKED, 8 * GIB);
    uint64_t region = new_region(sim, 8 * GIB);
    unsigned char *bytes = weir_sim_bytes(sim, region, 8 * GIB);
    assert_non_null(bytes);
    bytes[0] = 1;
    bytes[8 * GIB - 1] = 1;
    give_region(sim, region, 8 * GIB);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}
