/* tests/pool/unit/sim_share_test.c: one simulated device for several processes: its free memory, and memory that one
 * process exports and others import, until they end in any way.
 */
enum { A, streams };

#include "rig/emulated.h"
#include "rig/pool.h"
#include "rig/process.h"
#include "rig/seeds.h"

#include "shared/shared_limit.h"

#include <fcntl.h>
#include <sys/mman.h>

#define PAGE (64 * KIB)

enum { CAPACITY_PAGES = 16, KEYS = 3 };

static char name[64];
static weir_sim_mode mode = WEIR_SIM_BACKED;

/* A process's part of the device. */
struct rank {
    weir_shared_limit *limit;
    weir_sim *sim;
};

static struct rank open_rank(void)
{
    struct rank rank = {.limit = NULL};
    weir_shared_limit_config config = WEIR_SHARED_LIMIT_CONFIG_INIT;
    weir_sim_config device = device_of_units(PAGE, 0);
    config.name = name;
    config.limit_bytes = CAPACITY_PAGES * PAGE;
    ok(weir_shared_limit_create(&config, &rank.limit));
    device.mode = mode;
    device.shared_limit = rank.limit;
    rank.sim = new_sim(device);
    return rank;
}

static void close_rank(struct rank *rank)
{
    ok(weir_sim_destroy(rank->sim));
    ok(weir_shared_limit_destroy(rank->limit));
}

static weir_shared_limit_stats limit_of(const struct rank *rank)
{
    weir_shared_limit_stats stats = WEIR_SHARED_LIMIT_STATS_INIT;
    ok(weir_shared_limit_get_stats(rank->limit, &stats));
    assert_true(stats.held_bytes <= stats.limit_bytes);
    return stats;
}

static uint64_t free_of(const struct rank *rank)
{
    uint64_t left = 0;
    uint64_t total = 0;
    ok(weir_device_memory_info(weir_sim_device(rank->sim), &left, &total));
    assert_int_equal(total, CAPACITY_PAGES * PAGE);
    return left;
}

/* --- memory with bytes --- */

struct view {
    weir_vm_handle handle;
    uint64_t address;
    uint64_t size;
    uint8_t *bytes;
};

static void map_view(const struct rank *rank, struct view *view)
{
    weir_device *device = weir_sim_device(rank->sim);
    ok(weir_device_vm_reserve(device, view->size, &view->address));
    ok(weir_device_vm_map(device, view->address, view->size, view->handle));
    view->bytes = weir_sim_bytes(rank->sim, view->address, view->size);
}

static struct view make_view(const struct rank *rank, uint64_t size, uint8_t value)
{
    struct view view = {.size = size};
    ok(weir_device_vm_create(weir_sim_device(rank->sim), size, &view.handle));
    map_view(rank, &view);
    memset(view.bytes, value, size);
    return view;
}

static void end_view(const struct rank *rank, const struct view *view)
{
    weir_device *device = weir_sim_device(rank->sim);
    ok(weir_device_vm_unmap(device, view->address, view->size));
    ok(weir_device_vm_release(device, view->address, view->size));
    ok(weir_device_vm_destroy(device, view->handle));
}

static uint64_t export_to_all(const struct rank *rank, const struct view *view)
{
    uint64_t key = 0;
    ok(weir_sim_export(rank->sim, NULL, view->handle, &key));
    ok(weir_sim_admit(rank->sim, NULL, key, NULL, 0));
    return key;
}

/* --- other processes --- */

static uint64_t *keys; /* in memory that all processes of the test share */

/* Random life until the process is killed: memory, exports, imports of what others have exported. */
static void live(const struct rank *rank)
{
    weir_vm_handle own = 0;
    weir_vm_handle other = 0;
    uint64_t size = 0;
    for (uint32_t random = (uint32_t)getpid();;) {
        random = random * 1664525 + 1013904223;
        weir_device *device = weir_sim_device(rank->sim);
        uint64_t *key = &keys[(random >> 20) % KEYS];
        uint64_t made = 0;
        if (own == 0 && weir_device_vm_create(device, (1 + (random >> 10) % 4) * PAGE, &own) == WEIR_OK &&
            weir_sim_export(rank->sim, NULL, own, &made) == WEIR_OK &&
            weir_sim_admit(rank->sim, NULL, made, NULL, 0) == WEIR_OK) {
            __atomic_store_n(key, made, __ATOMIC_RELAXED);
        } else if (other == 0 && (random >> 30 & 1) != 0) {
            made = __atomic_load_n(key, __ATOMIC_RELAXED);
            (void)!weir_sim_import(rank->sim, NULL, made, &other, &size);
        } else if (other != 0 && (random >> 29 & 1) != 0) {
            ok(weir_device_vm_destroy(device, other));
            other = 0;
        } else if (own != 0) {
            ok(weir_device_vm_destroy(device, own));
            own = 0;
        }
    }
}

enum { TAKE = 1, EXPORT, IMPORT, READ, WRITE, DROP, FREE, LIVE };

static struct answer serve(struct command command)
{
    static struct rank rank;
    static struct view view;
    struct answer answer = {.status = WEIR_OK};
    (void)alarm(120);
    if (rank.limit == NULL) {
        rank = open_rank();
    }
    switch (command.what) {
    case TAKE:
        answer.status = weir_device_region_alloc(weir_sim_device(rank.sim), command.bytes, &answer.value);
        break;
    case EXPORT:
        view = make_view(&rank, command.bytes, 7);
        answer.value = export_to_all(&rank, &view);
        break;
    case IMPORT:
        view = (struct view){.handle = 0};
        answer.status = weir_sim_import(rank.sim, NULL, command.bytes, &view.handle, &view.size);
        answer.value = view.size;
        if (answer.status == WEIR_OK) {
            map_view(&rank, &view);
        }
        break;
    case READ:
        answer.value = view.bytes[command.bytes];
        break;
    case WRITE:
        memset(view.bytes, (int)command.bytes, view.size);
        break;
    case DROP:
        end_view(&rank, &view);
        break;
    case FREE:
        answer.value = free_of(&rank);
        break;
    default:
        live(&rank);
    }
    return answer;
}

static void name_device(const char *what)
{
    (void)snprintf(name, sizeof(name), "test-sim-%ld-%s", (long)getpid(), what);
}

/* --- the capacity --- */

TEST(eight_processes_share_the_capacity)
{
    enum { RANKS = 8 };
    name_device("eight");
    mode = WEIR_SIM_ACCOUNTING;
    struct rank rank = open_rank();
    struct process ranks[RANKS];
    for (uint64_t i = 0; i < RANKS; i++) {
        ranks[i] = process_start(serve);
        assert_int_equal(process_ask(&ranks[i], TAKE, 2 * PAGE).status, WEIR_OK);
        assert_int_equal(free_of(&rank), (CAPACITY_PAGES - 2 * (i + 1)) * PAGE);
    }
    uint64_t address = 0;
    fails(weir_device_region_alloc(weir_sim_device(rank.sim), PAGE, &address), WEIR_ERR_NO_MEMORY);
    assert_int_equal(process_ask(&ranks[3], TAKE, PAGE).status, WEIR_ERR_NO_MEMORY);
    assert_int_equal(process_ask(&ranks[5], FREE, 0).value, 0);
    process_kill(&ranks[3]);
    assert_int_equal(free_of(&rank), 2 * PAGE);
    assert_int_equal(process_ask(&ranks[5], FREE, 0).value, 2 * PAGE);
    assert_int_equal(process_ask(&ranks[4], TAKE, 2 * PAGE).status, WEIR_OK);
    fails(weir_device_region_alloc(weir_sim_device(rank.sim), PAGE, &address), WEIR_ERR_NO_MEMORY);
    for (uint64_t i = 0; i < RANKS; i++) {
        if (i != 3) {
            process_kill(&ranks[i]);
        }
    }
    assert_int_equal(free_of(&rank), CAPACITY_PAGES * PAGE);
    close_rank(&rank);
    mode = WEIR_SIM_BACKED;
}

/* A simulator that ends gives back what its caller has left behind; a refused call counts nothing. */
TEST(an_ended_simulator_holds_nothing)
{
    name_device("ended");
    struct rank rank = open_rank();
    weir_sim_config config = device_of_units(PAGE, 4 * PAGE);
    config.shared_limit = rank.limit;
    weir_sim *second = new_sim(config);
    (void)new_region(second, 3 * PAGE);
    assert_int_equal(limit_of(&rank).held_bytes, 3 * PAGE);
    uint64_t address = 0;
    fails(weir_device_region_alloc(weir_sim_device(second), 2 * PAGE, &address), WEIR_ERR_NO_MEMORY);
    assert_int_equal(limit_of(&rank).held_bytes, 3 * PAGE);
    assert_int_equal(weir_shared_limit_destroy(rank.limit), WEIR_ERR_BUSY);
    ok(weir_sim_destroy(second));
    assert_int_equal(limit_of(&rank).held_bytes, 0);
    close_rank(&rank);
}

/* --- exports --- */

TEST(two_processes_see_the_same_bytes)
{
    name_device("bytes");
    struct rank rank = open_rank();
    struct process other = process_start(serve);
    struct view view = make_view(&rank, 3 * PAGE, 1);
    const uint64_t key = export_to_all(&rank, &view);
    uint64_t again = 0;
    ok(weir_sim_export(rank.sim, NULL, view.handle, &again));
    assert_int_equal(again, key);
    assert_int_equal(process_ask(&other, IMPORT, key).value, 3 * PAGE);
    assert_int_equal(limit_of(&rank).held_bytes, 3 * PAGE);
    assert_int_equal(limit_of(&rank).common_bytes, 3 * PAGE);
    assert_int_equal(limit_of(&rank).own_bytes, 0);
    assert_int_equal(process_ask(&other, READ, 3 * PAGE - 1).value, 1);
    view.bytes[2 * PAGE] = 5;
    assert_int_equal(process_ask(&other, READ, 2 * PAGE).value, 5);
    assert_int_equal(process_ask(&other, WRITE, 9).status, WEIR_OK);
    assert_int_equal(view.bytes[0], 9);

    /* The exporter lets it go first: the importer keeps it, and it counts. */
    end_view(&rank, &view);
    assert_int_equal(limit_of(&rank).held_bytes, 3 * PAGE);
    struct view later = make_view(&rank, 3 * PAGE, 77);
    assert_int_equal(process_ask(&other, READ, PAGE).value, 9);
    end_view(&rank, &later);
    assert_int_equal(process_ask(&other, DROP, 0).status, WEIR_OK);
    assert_int_equal(limit_of(&rank).held_bytes, 0);
    process_close(&other);
    close_rank(&rank);
}

TEST(a_region_keeps_its_bytes_and_its_address)
{
    name_device("region");
    struct rank rank = open_rank();
    struct process other = process_start(serve);
    const uint64_t address = new_region(rank.sim, 2 * PAGE);
    uint8_t *bytes = weir_sim_bytes(rank.sim, address, 2 * PAGE);
    uint64_t key = 0;
    bytes[PAGE] = 3;
    ok(weir_sim_export_region(rank.sim, NULL, address, &key));
    ok(weir_sim_admit(rank.sim, NULL, key, &other.id, 1));
    assert_int_equal(bytes[0], 0xdd);
    assert_int_equal(bytes[PAGE], 3);
    assert_int_equal(process_ask(&other, IMPORT, key).status, WEIR_OK);
    assert_int_equal(process_ask(&other, READ, PAGE).value, 3);
    assert_int_equal(process_ask(&other, WRITE, 4).status, WEIR_OK);
    assert_int_equal(bytes[1], 4);
    give_region(rank.sim, address, 2 * PAGE);
    assert_int_equal(limit_of(&rank).held_bytes, 2 * PAGE);
    assert_int_equal(process_ask(&other, READ, 0).value, 4);
    process_kill(&other);
    assert_int_equal(limit_of(&rank).held_bytes, 0);
    fails(weir_sim_export_region(rank.sim, NULL, address, &key), WEIR_ERR_INVALID);
    close_rank(&rank);
}

TEST(an_import_outlives_a_killed_exporter)
{
    name_device("killed");
    struct rank rank = open_rank();
    struct process other = process_start(serve);
    const uint64_t key = process_ask(&other, EXPORT, 2 * PAGE).value;
    struct view view = {.handle = 0};
    ok(weir_sim_import(rank.sim, NULL, key, &view.handle, &view.size));
    map_view(&rank, &view);
    process_kill(&other);
    assert_int_equal(limit_of(&rank).held_bytes, 2 * PAGE);
    assert_int_equal(view.bytes[2 * PAGE - 1], 7);
    weir_vm_handle second = 0;
    uint64_t size = 0;
    fails(weir_sim_import(rank.sim, NULL, key, &second, &size), WEIR_ERR_UNSUPPORTED);
    end_view(&rank, &view);
    assert_int_equal(limit_of(&rank).held_bytes, 0);
    fails(weir_sim_import(rank.sim, NULL, key, &second, &size), WEIR_ERR_INVALID);
    close_rank(&rank);
}

TEST(only_admitted_processes_import)
{
    name_device("admitted");
    struct rank rank = open_rank();
    struct process other = process_start(serve);
    struct view view = make_view(&rank, PAGE, 1);
    const int32_t stranger = 1;
    uint64_t key = 0;
    ok(weir_sim_export(rank.sim, NULL, view.handle, &key));
    assert_int_equal(process_ask(&other, IMPORT, key).status, WEIR_ERR_UNSUPPORTED);
    ok(weir_sim_admit(rank.sim, NULL, key, &stranger, 1));
    assert_int_equal(process_ask(&other, IMPORT, key).status, WEIR_ERR_UNSUPPORTED);
    ok(weir_sim_admit(rank.sim, NULL, key, &other.id, 1));
    assert_int_equal(process_ask(&other, IMPORT, key).status, WEIR_OK);
    fails(weir_sim_admit(rank.sim, NULL, key + 1, NULL, 0), WEIR_ERR_INVALID);
    process_close(&other);
    end_view(&rank, &view);
    assert_int_equal(limit_of(&rank).held_bytes, 0);
    close_rank(&rank);
}

TEST(what_does_not_count_is_not_exported)
{
    name_device("uncounted");
    struct rank rank = open_rank();
    weir_sim *apart = new_sim(device_of_units(PAGE, 4 * PAGE));
    weir_vm_handle handle = 0;
    uint64_t key = 0;
    ok(weir_device_vm_create(weir_sim_device(apart), PAGE, &handle));
    fails(weir_sim_export(apart, NULL, handle, &key), WEIR_ERR_INVALID);
    fails(weir_sim_export(apart, rank.limit, handle, &key), WEIR_ERR_INVALID);
    ok(weir_shared_limit_take(rank.limit, PAGE));
    ok(weir_sim_export(apart, rank.limit, handle, &key));
    fails(weir_shared_limit_give(rank.limit, PAGE), WEIR_ERR_INVALID);
    assert_int_equal(limit_of(&rank).common_bytes, PAGE);
    ok(weir_sim_destroy(apart));
    assert_int_equal(limit_of(&rank).held_bytes, 0);
    close_rank(&rank);
}

/* Each import is a hold of its own. */
TEST(a_process_imports_twice)
{
    name_device("twice");
    struct rank rank = open_rank();
    struct process other = process_start(serve);
    const uint64_t key = process_ask(&other, EXPORT, PAGE).value;
    weir_vm_handle handles[2] = {0};
    uint64_t size = 0;
    ok(weir_sim_import(rank.sim, NULL, key, &handles[0], &size));
    ok(weir_sim_import(rank.sim, NULL, key, &handles[1], &size));
    assert_int_equal(process_ask(&other, DROP, 0).status, WEIR_OK);
    ok(weir_device_vm_destroy(weir_sim_device(rank.sim), handles[0]));
    assert_int_equal(limit_of(&rank).held_bytes, PAGE);
    ok(weir_device_vm_destroy(weir_sim_device(rank.sim), handles[1]));
    assert_int_equal(limit_of(&rank).held_bytes, 0);
    process_close(&other);
    close_rank(&rank);
}

/* --- kills --- */

/* Kills the process while it holds the lock and has made half of a change. */
static void die_with_the_lock(void)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "/weir-limit-%lu-%s", (unsigned long)geteuid(), name);
    const int file = shm_open(path, O_RDWR, 0);
    weir__limit_page *page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED || pthread_mutex_lock(&page->lock) != 0) {
        _exit(1);
    }
    page->held_bytes += PAGE;
    page->common_bytes = 0;
    page->common_count = 0;
    (void)raise(SIGKILL);
}

TEST(a_process_dies_with_the_lock)
{
    if (is_emulated()) {
        skip(); /* QEMU has no robust locks */
    }
    name_device("lock");
    struct rank rank = open_rank();
    struct view view = make_view(&rank, PAGE, 1);
    (void)export_to_all(&rank, &view);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        die_with_the_lock();
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(limit_of(&rank).common_bytes, PAGE);
    assert_int_equal(limit_of(&rank).held_bytes, PAGE);
    end_view(&rank, &view);
    assert_int_equal(limit_of(&rank).held_bytes, 0);
    close_rank(&rank);
}

/* One of three processes that export and import is killed at any instruction, again and again. */
TEST(the_device_is_whole_after_kills)
{
    enum { AT_ONCE = 3 };
    if (is_emulated()) {
        skip();
    }
    const uint64_t kills = seeds_count(24, 100);
    name_device("kills");
    keys = mmap(NULL, KEYS * sizeof(*keys), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(keys != MAP_FAILED);
    struct rank rank = open_rank();
    struct process others[AT_ONCE];
    for (size_t i = 0; i < AT_ONCE; i++) {
        others[i] = process_start(serve);
        process_order(&others[i], LIVE, 0);
    }
    uint32_t random = 1;
    for (uint64_t i = 0; i < kills; i++) {
        random = random * 1664525 + 1013904223;
        process_wait_us((random >> 16) % 8000);
        struct process *victim = &others[random >> 30 != 3 ? random >> 30 : i % AT_ONCE];
        process_kill(victim);
        const weir_shared_limit_stats stats = limit_of(&rank);
        assert_true(stats.own_bytes == 0 && stats.common_bytes <= stats.held_bytes);
        *victim = process_start(serve);
        process_order(victim, LIVE, 0);
    }
    for (size_t i = 0; i < AT_ONCE; i++) {
        process_kill(&others[i]);
    }
    assert_int_equal(limit_of(&rank).held_bytes, 0);
    assert_int_equal(limit_of(&rank).common_bytes, 0);
    assert_true(limit_of(&rank).ended_processes > 0);
    (void)new_region(rank.sim, CAPACITY_PAGES * PAGE);
    close_rank(&rank);
    (void)munmap(keys, KEYS * sizeof(*keys));
}
