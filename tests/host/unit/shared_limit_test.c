/* tests/host/unit/shared_limit_test.c: one limit for pools and heaps, of this process and of several; processes that
 * are killed at any instruction; refusals of the system. */
#include "rig/sim.h"
#include "rig/test.h"
#include "sandbox.h"
#include "shared/shared_limit.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <weir/heap.h>

/* --- system calls that fail --- */

static const char *refused = "";

static bool refuses(const char *call, int number)
{
    errno = strcmp(refused, call) == 0 ? number : errno;
    return strcmp(refused, call) == 0;
}

int __real_shm_open(const char *name, int flags, mode_t mode);
int __wrap_shm_open(const char *name, int flags, mode_t mode);
int __real_posix_fallocate(int file, off_t offset, off_t length);
int __wrap_posix_fallocate(int file, off_t offset, off_t length);
int __real_fcntl(int file, int command, void *argument);
int __wrap_fcntl(int file, int command, void *argument);
void *__real_mmap(void *start, size_t size, int access, int flags, int file, off_t offset);
void *__wrap_mmap(void *start, size_t size, int access, int flags, int file, off_t offset);

int __wrap_shm_open(const char *name, int flags, mode_t mode)
{
    return refuses("shm_open", EACCES) ? -1 : __real_shm_open(name, flags, mode);
}

int __wrap_posix_fallocate(int file, off_t offset, off_t length)
{
    return refuses("posix_fallocate", ENOSPC) ? ENOSPC : __real_posix_fallocate(file, offset, length);
}

int __wrap_fcntl(int file, int command, void *argument)
{
    return refuses("fcntl", EINVAL) ? -1 : __real_fcntl(file, command, argument);
}

void *__wrap_mmap(void *start, size_t size, int access, int flags, int file, off_t offset)
{
    return (flags & MAP_SHARED) != 0 && refuses("mmap", ENOMEM) ? MAP_FAILED
                                                                : __real_mmap(start, size, access, flags, file, offset);
}

/* --- helpers --- */

/* A name that no other run of this test uses. */
static const char *name_of(const char *what)
{
    static char name[64];
    (void)snprintf(name, sizeof(name), "test-%ld-%s", (long)getpid(), what);
    return name;
}

static const char *path_of(const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof(path), "/weir-limit-%lu-%s", (unsigned long)geteuid(), name);
    return path;
}

static weir_status try_join(const char *name, uint64_t bytes, weir_shared_limit **limit)
{
    weir_shared_limit_config config = WEIR_SHARED_LIMIT_CONFIG_INIT;
    config.name = name;
    config.limit_bytes = bytes;
    return weir_shared_limit_create(&config, limit);
}

static weir_shared_limit *join(const char *name, uint64_t bytes)
{
    weir_shared_limit *limit = NULL;
    const weir_status status = try_join(name, bytes, &limit);
    if (status != WEIR_OK) {
        print_error("%s\n", weir_last_error());
    }
    ok(status);
    return limit;
}

static weir_shared_limit_stats stats_of(weir_shared_limit *limit)
{
    weir_shared_limit_stats stats = WEIR_SHARED_LIMIT_STATS_INIT;
    ok(weir_shared_limit_get_stats(limit, &stats));
    assert_true(stats.own_bytes <= stats.held_bytes && stats.held_bytes <= stats.peak_held_bytes);
    return stats;
}

static weir_heap *heap_under(weir_shared_limit *limit)
{
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    weir_heap *heap = NULL;
    config.shared_limit = limit;
    config.decay_ms = WEIR_HEAP_DECAY_NEVER;
    ok(weir_heap_create(&config, &heap));
    return heap;
}

static uint64_t held_by(weir_heap *heap)
{
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    ok(weir_heap_get_stats(heap, &stats));
    return stats.held_bytes;
}

static bool file_exists(const char *name)
{
    const int file = __real_shm_open(path_of(name), O_RDONLY, 0);
    if (file >= 0) {
        (void)close(file);
    }
    return file >= 0;
}

/* --- other processes --- */

/* A child process that runs `body` with a pipe to the test, then waits to be killed. */
struct child {
    pid_t process;
    int from;
};

static struct child start_child(void (*body)(const char *name), const char *name)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        (void)alarm(60);
        body(name);
        (void)!write(ends[1], "r", 1);
        for (;;) {
            (void)pause();
        }
    }
    (void)close(ends[1]);
    return (struct child){.process = process, .from = ends[0]};
}

static void await_child(struct child child)
{
    char answer = 0;
    assert_int_equal(read(child.from, &answer, 1), 1);
}

static void kill_child(struct child child)
{
    assert_int_equal(kill(child.process, SIGKILL), 0);
    assert_int_equal(waitpid(child.process, NULL, 0), child.process);
    (void)close(child.from);
}

static void hold_six(const char *name)
{
    weir_shared_limit *limit = NULL;
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    weir_heap *heap = NULL;
    if (try_join(name, 0, &limit) != WEIR_OK) {
        _exit(1);
    }
    config.shared_limit = limit;
    if (weir_heap_create(&config, &heap) != WEIR_OK || weir_heap_alloc(heap, 6 * MIB) == NULL) {
        _exit(2);
    }
}

/* Kills the process while it holds the lock and has made half of a change. */
static void die_in_take(const char *name)
{
    const int file = __real_shm_open(path_of(name), O_RDWR, 0);
    weir__limit_page *page = __real_mmap(NULL, sizeof(weir__limit_page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED || pthread_mutex_lock(&page->lock) != 0) {
        _exit(1);
    }
    page->held_bytes += 5 * MIB; /* and not yet in held_of */
    (void)raise(SIGKILL);
}

/* Allocates and frees under the limit until it is killed. */
static void work(const char *name)
{
    weir_shared_limit *limit = NULL;
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    weir_heap *heap = NULL;
    uint32_t random = (uint32_t)getpid();
    if (try_join(name, 0, &limit) != WEIR_OK) {
        _exit(1);
    }
    config.shared_limit = limit;
    config.decay_ms = WEIR_HEAP_DECAY_AT_ONCE;
    if (weir_heap_create(&config, &heap) != WEIR_OK) {
        _exit(2);
    }
    for (;;) {
        void *blocks[4];
        for (size_t i = 0; i < 4; i++) {
            random = random * 1664525 + 1013904223;
            blocks[i] = weir_heap_alloc(heap, 64 * KIB + random % (2 * MIB));
        }
        for (size_t i = 0; i < 4; i++) {
            (void)!weir_heap_free(heap, blocks[i]);
        }
    }
}

static void wait_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* --- one process --- */

TEST(heaps_share_a_limit)
{
    weir_shared_limit *limit = join(NULL, 16 * MIB);
    weir_heap *first = heap_under(limit);
    weir_heap *second = heap_under(limit);
    char reason[1024];
    void *block = weir_heap_alloc(first, 10 * MIB);
    assert_non_null(block);
    assert_null(weir_heap_alloc(second, 10 * MIB));
    (void)weir_heap_explain(second, reason, sizeof(reason));
    assert_non_null(strstr(reason, "a configured limit forbids it"));
    assert_non_null(strstr(reason, "of 16777216 bytes are held"));
    assert_non_null(strstr(reason, "by 0 others"));
    assert_non_null(weir_heap_alloc(second, 5 * MIB));
    assert_int_equal(stats_of(limit).held_bytes, held_by(first) + held_by(second));
    assert_int_equal(stats_of(limit).own_bytes, stats_of(limit).held_bytes);
    assert_int_equal(stats_of(limit).processes, 1);
    assert_int_equal(weir_shared_limit_destroy(limit), WEIR_ERR_BUSY);
    ok(weir_heap_destroy(second));
    ok(weir_heap_destroy(first));
    assert_int_equal(stats_of(limit).held_bytes, 0);
    assert_true(stats_of(limit).peak_held_bytes >= 15 * MIB);
    ok(weir_shared_limit_destroy(limit));
}

/* A request that the limit refuses takes the idle memory of the other heap. */
TEST(idle_memory_of_another_heap_goes_back)
{
    weir_shared_limit *limit = join(NULL, 16 * MIB);
    weir_heap *first = heap_under(limit);
    weir_heap *second = heap_under(limit);
    void *block = weir_heap_alloc(first, 12 * MIB);
    ok(weir_heap_free(first, block));
    assert_true(held_by(first) >= 12 * MIB);
    assert_non_null(weir_heap_alloc(second, 12 * MIB));
    assert_true(held_by(first) < 4 * MIB);
    ok(weir_heap_destroy(first));
    ok(weir_heap_destroy(second));
    ok(weir_shared_limit_destroy(limit));
}

/* A shared limit covers host pools, pinned or not, as well as heaps. */
TEST(host_pools_share_a_limit)
{
    weir_shared_limit *limit = join(NULL, 8 * MIB);
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    weir_host_pool *pool = NULL;
    weir_heap *heap = heap_under(limit);
    void *block = NULL;
    config.flags = WEIR_HOST_ALLOW_UNPINNED;
    config.kinds = 1u << WEIR_HOST_UNPINNED;
    config.chunk_bytes = 2 * MIB;
    config.shared_limit = limit;
    ok(weir_host_pool_create(&config, &pool));
    ok(weir_host_alloc(pool, 5 * MIB, WEIR_HOST_ANY_NODE, &block));
    assert_null(weir_heap_alloc(heap, 4 * MIB));
    ok(weir_host_free(pool, block));
    assert_non_null(weir_heap_alloc(heap, 4 * MIB));
    assert_int_equal(weir_host_alloc(pool, 5 * MIB, WEIR_HOST_ANY_NODE, &block), WEIR_ERR_LIMIT);
    ok(weir_host_pool_destroy(pool));
    ok(weir_heap_destroy(heap));
    assert_int_equal(stats_of(limit).held_bytes, 0);
    ok(weir_shared_limit_destroy(limit));
}

TEST(the_limit_changes)
{
    weir_shared_limit *limit = join(NULL, 8 * MIB);
    weir_heap *heap = heap_under(limit);
    assert_null(weir_heap_alloc(heap, 12 * MIB));
    ok(weir_shared_limit_set(limit, 16 * MIB));
    assert_non_null(weir_heap_alloc(heap, 12 * MIB));
    ok(weir_shared_limit_set(limit, 4 * MIB));
    assert_null(weir_heap_alloc(heap, MIB)); /* the live block stays */
    assert_int_equal(stats_of(limit).limit_bytes, 4 * MIB);
    ok(weir_heap_destroy(heap));
    ok(weir_shared_limit_destroy(limit));
}

/* --- several processes --- */

TEST(processes_share_a_limit)
{
    const char *name = name_of("share");
    weir_shared_limit *limit = join(name, 10 * MIB);
    weir_heap *heap = heap_under(limit);
    const struct child child = start_child(hold_six, name);
    await_child(child);
    assert_int_equal(stats_of(limit).processes, 2);
    assert_true(stats_of(limit).held_bytes >= 6 * MIB);
    assert_int_equal(stats_of(limit).own_bytes, 0);
    assert_null(weir_heap_alloc(heap, 6 * MIB));
    assert_non_null(weir_heap_alloc(heap, 3 * MIB));

    /* The memory of a killed process returns to the limit. */
    kill_child(child);
    assert_non_null(weir_heap_alloc(heap, 6 * MIB));
    assert_int_equal(stats_of(limit).processes, 1);
    assert_int_equal(stats_of(limit).ended_processes, 1);
    assert_true(stats_of(limit).returned_bytes >= 6 * MIB);
    assert_int_equal(stats_of(limit).held_bytes, held_by(heap));
    ok(weir_heap_destroy(heap));
    ok(weir_shared_limit_destroy(limit));
    assert_false(file_exists(name));
}

TEST(a_name_outlives_killed_processes)
{
    const char *name = name_of("outlives");
    weir_shared_limit *limit = join(name, 10 * MIB);
    const struct child child = start_child(hold_six, name);
    await_child(child);
    ok(weir_shared_limit_destroy(limit));
    assert_true(file_exists(name)); /* the child uses it */
    limit = join(name, 0);
    assert_int_equal(stats_of(limit).limit_bytes, 10 * MIB);
    assert_true(stats_of(limit).held_bytes >= 6 * MIB);
    ok(weir_shared_limit_destroy(limit));
    kill_child(child);
    limit = join(name, 12 * MIB); /* the limit may be set anew, because no process uses it any more */
    assert_int_equal(stats_of(limit).held_bytes, 0);
    assert_int_equal(stats_of(limit).limit_bytes, 12 * MIB);
    ok(weir_shared_limit_destroy(limit));
    assert_false(file_exists(name));
}

/* A process that takes the slot of a killed one holds nothing. */
TEST(a_slot_is_empty_for_the_next_process)
{
    const char *name = name_of("slot");
    weir_shared_limit *limit = join(name, 10 * MIB);
    const struct child child = start_child(hold_six, name);
    await_child(child);
    kill_child(child);
    weir_shared_limit *next = join(name, 0);
    assert_int_equal(stats_of(next).own_bytes, 0);
    assert_int_equal(stats_of(next).held_bytes, 0);
    assert_int_equal(stats_of(next).ended_processes, 1);
    assert_true(stats_of(next).returned_bytes >= 6 * MIB);
    ok(weir_shared_limit_destroy(next));
    ok(weir_shared_limit_destroy(limit));
}

/* The limit is the most that is held: its last byte is given, and one more is not. */
TEST(the_last_byte_is_given)
{
    weir_shared_limit *limit = join(NULL, MIB);
    assert_true(weir__shared_limit_take(limit, MIB - 1, NULL));
    assert_false(weir__shared_limit_take(limit, 2, NULL));
    assert_true(weir__shared_limit_take(limit, 1, NULL));
    assert_false(weir__shared_limit_take(limit, 1, NULL));
    weir__shared_limit_give(limit, MIB);
    assert_true(weir__shared_limit_take(limit, MIB, NULL));
    assert_false(weir__shared_limit_take(limit, UINT64_MAX, NULL));
    weir__shared_limit_give(limit, MIB);
    ok(weir_shared_limit_destroy(limit));
}

/* A peak is what was held at once: requests that the limit refuses are none of it, and a peak stays when less is held
 * later. */
TEST(a_refused_request_is_no_peak)
{
    weir_shared_limit *limit = join(NULL, 8 * MIB);
    weir_heap *heap = heap_under(limit);
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    void *block = weir_heap_alloc(heap, 6 * MIB);
    assert_non_null(block);
    assert_null(weir_heap_alloc(heap, 4 * MIB));
    ok(weir_heap_get_stats(heap, &stats));
    assert_in_range(stats.peak_held_bytes, 6 * MIB, 8 * MIB);
    ok(weir_heap_free(heap, block));
    ok(weir_heap_trim(heap, 0, NULL));
    assert_non_null(weir_heap_alloc(heap, MIB));
    assert_in_range(stats_of(limit).peak_held_bytes, 6 * MIB, 8 * MIB);
    ok(weir_heap_destroy(heap));
    ok(weir_shared_limit_destroy(limit));
}

static void join_and_exit(const char *name)
{
    weir_shared_limit *limit = NULL;
    exit(try_join(name, MIB, &limit) == WEIR_OK ? 0 : 1);
}

/* The name goes with its last user: at once if that process exits, else when the user next creates a limit. */
TEST(a_name_goes_with_its_last_user)
{
    const char *name = name_of("last");
    struct child child = start_child(join_and_exit, name);
    int status = 1;
    assert_int_equal(waitpid(child.process, &status, 0), child.process);
    assert_int_equal(status, 0);
    (void)close(child.from);
    assert_false(file_exists(name));

    weir_shared_limit *limit = join(name, 10 * MIB);
    child = start_child(hold_six, name);
    await_child(child);
    ok(weir_shared_limit_destroy(limit));
    limit = join("test-other", MIB);
    assert_true(file_exists(name)); /* the child uses it */
    ok(weir_shared_limit_destroy(limit));
    kill_child(child);
    limit = join("test-other", MIB);
    assert_false(file_exists(name));
    ok(weir_shared_limit_destroy(limit));
}

/* A child of fork that exits removes nothing that its parent uses. */
TEST(a_child_of_fork_exits)
{
    const char *name = name_of("child");
    weir_shared_limit *limit = join(name, MIB);
    const pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        exit(0);
    }
    assert_int_equal(waitpid(process, NULL, 0), process);
    assert_true(file_exists(name));
    ok(weir_shared_limit_destroy(limit));
}

/* A process that joins a limit twice counts as two processes. */
TEST(one_process_joins_twice)
{
    const char *name = name_of("twice");
    weir_shared_limit *limit = join(name, 10 * MIB);
    weir_shared_limit *again = join(name, 10 * MIB);
    weir_heap *heap = heap_under(again);
    assert_non_null(weir_heap_alloc(heap, 6 * MIB));
    assert_int_equal(stats_of(limit).processes, 2);
    assert_int_equal(stats_of(limit).held_bytes, stats_of(again).own_bytes);
    ok(weir_shared_limit_destroy(limit));
    assert_non_null(weir_heap_alloc(heap, MIB));
    ok(weir_heap_destroy(heap));
    assert_int_equal(stats_of(again).held_bytes, 0);
    ok(weir_shared_limit_destroy(again));
    assert_false(file_exists(name));
}

TEST(a_process_dies_with_the_lock)
{
    if (is_emulated()) {
        skip(); /* QEMU has no robust locks */
    }
    const char *name = name_of("lock");
    weir_shared_limit *limit = join(name, 10 * MIB);
    weir_heap *heap = heap_under(limit);
    assert_non_null(weir_heap_alloc(heap, 3 * MIB));
    const struct child child = start_child(die_in_take, name);
    assert_int_equal(waitpid(child.process, NULL, 0), child.process);
    (void)close(child.from);
    assert_int_equal(stats_of(limit).held_bytes, held_by(heap));
    assert_non_null(weir_heap_alloc(heap, 6 * MIB));
    ok(weir_heap_destroy(heap));
    ok(weir_shared_limit_destroy(limit));
}

/* Processes are killed at any instruction. The held bytes never exceed the limit, and all bytes of the killed processes
 * are free again. */
TEST(many_processes_are_killed)
{
    enum { AT_ONCE = 4, KILLS = 24 };
    if (is_emulated()) {
        skip();
    }
    const char *name = name_of("many");
    weir_shared_limit *limit = join(name, 6 * MIB);
    struct child children[AT_ONCE];
    for (size_t i = 0; i < AT_ONCE; i++) {
        children[i] = start_child(work, name);
    }
    for (size_t i = 0; i < KILLS; i++) {
        wait_ms(20);
        const weir_shared_limit_stats stats = stats_of(limit);
        assert_true(stats.held_bytes <= 6 * MIB && stats.processes <= AT_ONCE + 1);
        kill_child(children[i % AT_ONCE]);
        children[i % AT_ONCE] = start_child(work, name);
    }
    for (size_t i = 0; i < AT_ONCE; i++) {
        kill_child(children[i]);
    }
    assert_int_equal(stats_of(limit).held_bytes, 0);
    assert_int_equal(stats_of(limit).processes, 1);
    assert_true(stats_of(limit).ended_processes > 0);
    assert_true(stats_of(limit).peak_held_bytes <= 6 * MIB);
    ok(weir_shared_limit_destroy(limit));
    assert_false(file_exists(name));
}

/* A child of fork counts as part of its parent, and may destroy the limit without an effect. */
TEST(a_child_of_fork_destroys_nothing)
{
    const char *name = name_of("fork");
    weir_shared_limit *limit = join(name, 10 * MIB);
    weir_heap *heap = heap_under(limit);
    assert_non_null(weir_heap_alloc(heap, MIB));
    const pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        _exit(weir_heap_destroy(heap) == WEIR_OK && weir_shared_limit_destroy(limit) == WEIR_OK ? 0 : 1);
    }
    int status = 1;
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_int_equal(status, 0);
    assert_true(file_exists(name));
    assert_int_equal(stats_of(limit).held_bytes, held_by(heap));
    assert_int_equal(stats_of(limit).processes, 1);
    ok(weir_heap_destroy(heap));
    ok(weir_shared_limit_destroy(limit));
}

TEST(a_name_serves_so_many_processes)
{
    const char *name = name_of("full");
    weir_shared_limit *limits[WEIR_SHARED_LIMIT_PROCESSES];
    weir_shared_limit *more = NULL;
    for (size_t i = 0; i < WEIR_SHARED_LIMIT_PROCESSES; i++) {
        limits[i] = join(name, MIB);
    }
    assert_int_equal(stats_of(limits[0]).processes, WEIR_SHARED_LIMIT_PROCESSES);
    assert_int_equal(try_join(name, MIB, &more), WEIR_ERR_BUSY);
    assert_non_null(strstr(weir_last_error(), "128 processes share the limit"));
    ok(weir_shared_limit_destroy(limits[5]));
    limits[5] = join(name, MIB);
    for (size_t i = 0; i < WEIR_SHARED_LIMIT_PROCESSES; i++) {
        ok(weir_shared_limit_destroy(limits[i]));
    }
    assert_false(file_exists(name));
}

/* --- refusals --- */

static void expect_refusal(weir_status expected, const char *sentence, const char *name, uint64_t bytes)
{
    weir_shared_limit *limit = NULL;
    assert_int_equal(try_join(name, bytes, &limit), expected);
    assert_null(limit);
    assert_true(strstr(weir_last_error(), "weir_shared_limit_create: ") == weir_last_error());
    if (strstr(weir_last_error(), sentence) == NULL) {
        print_error("no \"%s\" in: %s\n", sentence, weir_last_error());
        fail();
    }
}

TEST(bad_arguments_are_refused)
{
    const char *name = name_of("bad");
    weir_shared_limit_config config = WEIR_SHARED_LIMIT_CONFIG_INIT;
    weir_shared_limit *limit = NULL;
    expect_refusal(WEIR_ERR_INVALID, "config.limit_bytes is 0, and config.name is NULL", NULL, 0);
    expect_refusal(WEIR_ERR_INVALID, "config.name \"a/b\" is not", "a/b", MIB);
    expect_refusal(WEIR_ERR_INVALID, "config.name \"\" is not", "", MIB);
    expect_refusal(WEIR_ERR_INVALID, "1 to 64 letters",
                   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", MIB);
    expect_refusal(WEIR_ERR_INVALID, "no other process uses the name", name, 0);
    assert_false(file_exists(name));
    assert_int_equal(weir_shared_limit_create(NULL, &limit), WEIR_ERR_INVALID);
    config.limit_bytes = MIB;
    assert_int_equal(weir_shared_limit_create(&config, NULL), WEIR_ERR_INVALID);
    limit = join(name, MIB);
    expect_refusal(WEIR_ERR_BUSY, "config.limit_bytes is 2097152, but other processes use 1048576", name, 2 * MIB);
    assert_int_equal(stats_of(limit).processes, 1);
    assert_int_equal(weir_shared_limit_set(limit, 0), WEIR_ERR_INVALID);
    assert_int_equal(weir_shared_limit_set(NULL, 1), WEIR_ERR_INVALID);
    assert_int_equal(weir_shared_limit_get_stats(limit, NULL), WEIR_ERR_INVALID);
    ok(weir_shared_limit_destroy(limit));
    ok(weir_shared_limit_destroy(NULL));
}

TEST(a_heap_over_a_pool_has_no_shared_limit)
{
    weir_shared_limit *limit = join(NULL, MIB);
    weir_host_pool *pool = NULL;
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    weir_heap *heap = NULL;
    ok(weir_host_pool_create(NULL, &pool));
    config.source.host_pool = pool;
    config.shared_limit = limit;
    assert_int_equal(weir_heap_create(&config, &heap), WEIR_ERR_INVALID);
    assert_non_null(strstr(weir_last_error(), "shared_limit is set"));
    ok(weir_host_pool_destroy(pool));
    ok(weir_shared_limit_destroy(limit));
}

TEST(refusals_of_the_system)
{
    static const struct {
        const char *call;
        weir_status status;
    } calls[] = {{"shm_open", WEIR_ERR_UNSUPPORTED},
                 {"fcntl", WEIR_ERR_UNSUPPORTED},
                 {"posix_fallocate", WEIR_ERR_NO_MEMORY},
                 {"mmap", WEIR_ERR_NO_MEMORY}};
    const char *name = name_of("system");
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        weir_shared_limit *limit = NULL;
        refused = calls[i].call;
        const weir_status status = try_join(name, MIB, &limit);
        refused = "";
        assert_int_equal(status, calls[i].status);
        assert_null(limit);
        limit = join(name, MIB); /* nothing is left locked */
        ok(weir_shared_limit_destroy(limit));
    }
    assert_false(file_exists(name));
}

/* Shared memory that other users may open is refused, since one of them could cut it under the process. */
TEST(foreign_shared_memory)
{
    const char *name = name_of("foreign");
    const int file = __real_shm_open(path_of(name), O_RDWR | O_CREAT, S_IRUSR | S_IWUSR);
    assert_true(file >= 0);
    assert_int_equal(fchmod(file, 0660), 0);
    expect_refusal(WEIR_ERR_UNSUPPORTED, "with mode 660, not to this user alone", name, MIB);
    assert_int_equal(fchmod(file, 0600), 0);
    if (fchown(file, geteuid() + 1, (gid_t)-1) == 0) { /* only root may */
        expect_refusal(WEIR_ERR_UNSUPPORTED, "belongs to user ", name, MIB);
        assert_int_equal(fchown(file, geteuid(), (gid_t)-1), 0);
    }
    weir_shared_limit *limit = join(name, MIB);
    ok(weir_shared_limit_destroy(limit));
    (void)close(file);
    assert_false(file_exists(name));
}

/* The descriptors 0 to 2 stay free for the program. */
TEST(a_limit_takes_no_standard_descriptor)
{
    const char *name = name_of("standard");
    const int input = dup(STDIN_FILENO);
    (void)close(STDIN_FILENO);
    weir_shared_limit *limit = join(name, MIB);
    assert_int_equal(__real_fcntl(STDIN_FILENO, F_GETFD, NULL), -1);
    ok(weir_shared_limit_destroy(limit));
    assert_int_equal(dup2(input, STDIN_FILENO), input >= 0 ? STDIN_FILENO : -1);
    (void)close(input);
}

/* Shared memory of another layout is refused while a process uses it. Otherwise it is replaced. */
TEST(another_version)
{
    static const off_t sizes[] = {100, sizeof(weir__limit_page)};
    const char *name = name_of("version");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const int file = __real_shm_open(path_of(name), O_RDWR | O_CREAT, S_IRUSR | S_IWUSR);
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};
        assert_true(file >= 0);
        assert_int_equal(ftruncate(file, sizes[i]), 0);
        assert_int_equal(pwrite(file, "other version", 13, 0), 13);
        assert_int_equal(__real_fcntl(file, 37, &lock), 0); /* F_OFD_SETLK */
        expect_refusal(WEIR_ERR_UNSUPPORTED, "was made by another version of weir", name, MIB);
        (void)close(file);
        weir_shared_limit *limit = join(name, MIB);
        assert_int_equal(stats_of(limit).limit_bytes, MIB);
        ok(weir_shared_limit_destroy(limit));
    }
    assert_false(file_exists(name));
}
