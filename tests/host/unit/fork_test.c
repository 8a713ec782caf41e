/* Unit tests of fork: a child may destroy every handle of its parent, at any instant of the parent's threads.
 *
 * One thread runs a program. At each instant, which is a request for host memory, a device call or a call of a user's
 * function, the thread stops, and the main thread forks a child that destroys every handle. The program is the same for
 * all instants, so the children see structures in the middle of every change and locks held at every place where they
 * are held for long. Linked with --wrap, which makes the instants known.
 */
#include "rig/test.h"

#include <weir/adaptor.h>
#include <weir/arena.h>
#include <weir/budget.h>
#include <weir/caching.h>
#include <weir/heap.h>
#include <weir/host.h>
#include <weir/observer.h>
#include <weir/sim.h>
#include <weir/size_class.h>
#include <weir/trace.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* gcc and clang use different macros for the sanitizer. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(UNDER_TSAN)
enum { FORKS_PLAINLY = 0 }; /* the sanitizer's own locks are not held across fork */
#else
enum { FORKS_PLAINLY = 1 };
#endif

/* --- instants --- */

static _Thread_local bool stops; /* true in the thread that runs the program */
static _Thread_local bool stopped;
static sem_t arrived;
static sem_t go_on;
static atomic_bool finished;

static void instant(void)
{
    if (stops && !stopped) {
        stopped = true;
        (void)sem_post(&arrived);
        while (sem_wait(&go_on) != 0) {
        }
        stopped = false;
    }
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
void __wrap_free(void *memory);

void *__wrap_malloc(size_t size)
{
    void *memory = __real_malloc(size);
    instant();
    return memory;
}

void *__wrap_calloc(size_t count, size_t size)
{
    void *memory = __real_calloc(count, size);
    instant();
    return memory;
}

void *__wrap_realloc(void *old, size_t size)
{
    void *memory = __real_realloc(old, size);
    instant();
    return memory;
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
    void *memory = __real_aligned_alloc(align, size);
    instant();
    return memory;
}

void __wrap_free(void *memory)
{
    __real_free(memory);
    if (memory != NULL) {
        instant();
    }
}

/* --- the world: a handle is NULL before it is made and while it is destroyed --- */

static struct world {
    weir_sim *sim;
    weir_device *limited;
    weir_device *device;
    weir_pool *pool;
    weir_sim_stream *natives[2];
    weir_stream *streams[2];
    weir_arena *arenas[2];
    weir_recorder *of_pool;
    weir_recorder *of_heap;
    weir_recorder *to_file;
    weir_host_pool *host;
    weir_heap *heap;
    weir_heap *on_host;
    weir_heap *on_pool;
} w;

static const weir_strategy_ops *strategy;
static uint32_t pool_flags;
static char path[] = "/tmp/weir-fork-XXXXXX";
static const char *mistake;

#define ok(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != WEIR_OK) {                                                                                       \
            mistake = #call;                                                                                           \
        }                                                                                                              \
    } while (0)

static void stop_in_call(void *ctx, const char *line)
{
    (void)ctx, (void)line;
    instant();
}

static void stop_in_memory(void *ctx, uint64_t address, uint64_t size)
{
    (void)ctx, (void)address, (void)size;
    instant();
}

static void stop_in_block(void *ctx, const weir_observed_block *block)
{
    (void)ctx, (void)block;
    instant();
}

static const weir_observer_ops observer = {
    .struct_size = sizeof(observer),
    .memory_given = stop_in_memory,
    .memory_taken = stop_in_memory,
    .block_alloc = stop_in_block,
    .block_free = stop_in_block,
};

static bool stop_in_sink(void *ctx, const char *text, size_t length)
{
    (void)ctx, (void)text, (void)length;
    instant();
    return true;
}

static bool stop_in_walk(void *ctx, const weir_walk_entry *entry)
{
    unsigned *entries = ctx;
    (void)entry;
    if ((*entries)++ == 0) {
        instant();
    }
    return true;
}

static weir_status stop_in_pinned_alloc(void *ctx, uint64_t size, void **memory)
{
    (void)ctx;
    instant();
    *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return *memory != MAP_FAILED ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

static weir_status stop_in_pinned_free(void *ctx, void *memory, uint64_t size)
{
    (void)ctx;
    instant();
    return munmap(memory, size) == 0 ? WEIR_OK : WEIR_ERR_DEVICE;
}

/* --- the program --- */

static void open_pool(void)
{
    weir_sim_config sim = WEIR_SIM_CONFIG_INIT;
    sim.capacity_bytes = 64 * MIB;
    ok(weir_sim_create(&sim, &w.sim));
    ok(weir_limit_create(weir_sim_device(w.sim), 32 * MIB, &w.limited));
    ok(weir_log_create(w.limited, stop_in_call, NULL, &w.device));
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = w.device;
    config.strategy = strategy;
    config.flags = pool_flags;
    ok(weir_pool_create(&config, &w.pool));
    for (int i = 0; i < 2; i++) {
        ok(weir_sim_stream_create(w.sim, &w.natives[i]));
        ok(weir_pool_stream(w.pool, w.natives[i], &w.streams[i]));
    }
}

static void open_heaps(void)
{
    static const weir_host_runtime_ops ops = {
        .struct_size = sizeof(ops), .pinned_alloc = stop_in_pinned_alloc, .pinned_free = stop_in_pinned_free};
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    runtime.ops = &ops;
    weir_host_pool_config host = WEIR_HOST_POOL_CONFIG_INIT;
    host.runtime = &runtime;
    host.kinds = 1u << WEIR_HOST_RUNTIME;
    ok(weir_host_pool_create(&host, &w.host));
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    ok(weir_heap_create(&config, &w.heap));
    config.source.host_pool = w.host;
    ok(weir_heap_create(&config, &w.on_host));
    config.source = (weir_heap_source){.pool = w.pool, .stream = w.streams[0]};
    config.flags = WEIR_HEAP_NO_HOST_ACCESS;
    ok(weir_heap_create(&config, &w.on_pool));
}

static void use_pool(void)
{
    const uint64_t sizes[] = {700, 3 * MIB, 20 * KIB, 6 * MIB, 100};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    weir_block *blocks[COUNT];
    unsigned entries = 0;
    for (size_t i = 0; i < COUNT; i++) {
        ok(weir_pool_alloc(w.pool, w.streams[i % 2], sizes[i], 0, &blocks[i]));
        ok(weir_pool_use(w.pool, blocks[i], w.streams[(i + 1) % 2]));
    }
    ok(weir_pool_walk(w.pool, stop_in_walk, &entries));
    ok(weir_stream_recorded(w.pool, &w, w.streams[0]));
    ok(weir_stream_waited(w.pool, w.streams[1], &w));
    ok(weir_event_forgotten(w.pool, &w));
    for (size_t i = 0; i < COUNT; i++) {
        if (i == 2) {
            ok(weir_pool_free_idle(w.pool, blocks[i]));
        } else {
            ok(weir_pool_free(w.pool, blocks[i], w.streams[i % 2]));
        }
    }
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL));
    ok(weir_stream_retire(w.pool, w.streams[1]));
    ok(weir_pool_stream(w.pool, w.natives[1], &w.streams[1]));
}

static void use_arenas(void)
{
    for (int i = 0; i < 2; i++) {
        uint64_t address = 0;
        weir_mark mark;
        ok(weir_arena_create(w.pool, w.streams[0], NULL, &w.arenas[i]));
        ok(weir_arena_alloc(w.arenas[i], 1000, 0, &address));
        ok(weir_arena_mark(w.arenas[i], &mark));
        ok(weir_arena_alloc(w.arenas[i], 3 * MIB, 0, &address));
        ok(weir_arena_use(w.arenas[i], w.streams[1]));
        ok(weir_arena_rewind(w.arenas[i], mark));
    }
    ok(weir_arena_reset(w.arenas[0]));
}

static void use_heap(weir_heap *heap)
{
    static const size_t sizes[] = {100, 5000, 90000, 3000000};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    void *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = weir_heap_alloc(heap, sizes[i]);
        mistake = blocks[i] == NULL ? "weir_heap_alloc" : mistake;
    }
    for (size_t i = 0; i + 1 < COUNT; i++) {
        ok(weir_heap_free(heap, blocks[i]));
    }
    ok(weir_heap_trim(heap, 0, NULL));
}

static void use_heaps(void)
{
    use_heap(w.heap);
    use_heap(w.on_host);
    use_heap(w.on_pool);
}

static void tell_tag(void)
{
    weir_tag tag = 0;
    weir_block *block = NULL;
    ok(weir_pool_tag(w.pool, "tag", &tag));
    ok(weir_pool_alloc_tagged(w.pool, w.streams[0], 1000, 0, tag, &block));
    ok(weir_pool_free(w.pool, block, w.streams[0]));
}

static void watch(void)
{
    weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
    config.sink = stop_in_sink;
    ok(weir_recorder_start(w.pool, &config, &w.of_pool));
    ok(weir_recorder_create(&config, &w.of_heap));
    ok(weir_heap_record(w.heap, w.of_heap));
    ok(weir_recorder_create_file(path, NULL, &w.to_file));
    ok(weir_heap_record(w.on_host, w.to_file));
    use_pool();
    use_heaps();
    ok(weir_recorder_drain(w.of_pool, NULL));
    ok(weir_recorder_drain(w.of_heap, NULL));
    ok(weir_recorder_drain(w.to_file, NULL));
    ok(weir_pool_observe(w.pool, &observer, &w));
    use_pool();
    ok(weir_pool_unobserve(w.pool, &w));
}

static void *run_program(void *ctx)
{
    (void)ctx;
    stops = true;
    open_pool();
    open_heaps();
    use_pool();
    use_arenas();
    tell_tag();
    use_heaps();
    watch();
    stops = false;
    atomic_store(&finished, true);
    (void)sem_post(&arrived);
    return NULL;
}

/* --- the ends --- */

/* Returns the number of the call that failed, or 0. */
static int end_all(bool pool_first)
{
    if (pool_first && weir_pool_destroy(w.pool) != WEIR_OK) {
        return 1;
    }
    for (int i = 0; i < 2; i++) {
        weir_arena_destroy(w.arenas[i]);
    }
    if (w.of_pool != NULL && weir_recorder_stop(w.of_pool, NULL) != WEIR_OK) {
        return 2;
    }
    if (weir_heap_destroy(w.on_pool) != WEIR_OK || weir_heap_destroy(w.on_host) != WEIR_OK ||
        weir_heap_destroy(w.heap) != WEIR_OK) {
        return 3;
    }
    if (weir_host_pool_destroy(w.host) != WEIR_OK) {
        return 4;
    }
    if (!pool_first && weir_pool_destroy(w.pool) != WEIR_OK) {
        return 5;
    }
    if ((w.of_heap != NULL && weir_recorder_stop(w.of_heap, NULL) != WEIR_OK) ||
        (w.to_file != NULL && weir_recorder_stop(w.to_file, NULL) != WEIR_OK)) {
        return 6;
    }
    const bool ended = weir_device_destroy(w.device) == WEIR_OK && weir_device_destroy(w.limited) == WEIR_OK &&
                       weir_sim_destroy(w.sim) == WEIR_OK;
    return ended ? 0 : 9;
}

/* The child can create and use new handles afterwards. */
static int begin_anew(void)
{
    weir_heap *heap = NULL;
    if (weir_heap_create(NULL, &heap) != WEIR_OK) {
        return 7;
    }
    void *block = weir_heap_alloc(heap, 100000);
    return block != NULL && weir_heap_free(heap, block) == WEIR_OK && weir_heap_destroy(heap) == WEIR_OK ? 0 : 8;
}

static int status_of_child(unsigned number)
{
    int status = 0;
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL); /* cmocka's handlers would go on with the next test in the child */
        (void)signal(SIGBUS, SIG_DFL);
        (void)alarm(20); /* ends a child that waits for a lock that no thread will release */
        const int failed = end_all(number % 2 == 0);
        _exit(failed != 0 ? failed : begin_anew());
    }
    while (waitpid(child, &status, 0) != child) {
        assert_int_equal(errno, EINTR);
    }
    return status;
}

static void fork_everywhere(const weir_strategy_ops *of, uint32_t flags)
{
    pthread_t thread;
    unsigned instants = 0;
    unsigned failures = 0;
    if (!FORKS_PLAINLY) {
        skip();
    }
    memset(&w, 0, sizeof(w));
    strategy = of;
    pool_flags = flags;
    mistake = NULL;
    atomic_store(&finished, false);
    assert_int_equal(sem_init(&arrived, 0, 0), 0);
    assert_int_equal(sem_init(&go_on, 0, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, run_program, NULL), 0);
    for (;;) {
        while (sem_wait(&arrived) != 0) {
        }
        if (atomic_load(&finished)) {
            break;
        }
        const int status = status_of_child(++instants);
        if (status != 0 && failures++ < 4) {
            print_error("instant %u: the child %s %d\n", instants,
                        WIFSIGNALED(status) ? "was killed by" : "exited with",
                        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        }
        (void)sem_post(&go_on);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(instants > 100);
    assert_int_equal(failures, 0);
    if (mistake != NULL) {
        print_error("%s failed\n", mistake);
        fail();
    }
    assert_int_equal(weir_heap_record(w.heap, NULL), WEIR_OK);
    assert_int_equal(weir_heap_record(w.on_host, NULL), WEIR_OK);
    assert_int_equal(end_all(false), 0); /* the parent's handles still work after all these forks */
    print_message("%u instants\n", instants);
}

TEST(test_pool_of_regions)
{
    fork_everywhere(weir_caching_strategy(), WEIR_POOL_REGIONS);
}

TEST(test_pool_with_virtual_memory)
{
    fork_everywhere(weir_size_class_strategy(), 0);
}

/* The reader of a pipe sees the end of the file when the last process has closed the writing end. */
TEST(test_a_child_closes_the_file)
{
    weir_recorder *recorder = NULL;
    int status = 0;
    assert_int_equal(weir_recorder_create_file(path, NULL, &recorder), WEIR_OK);
    const pid_t child = fork();
    if (child == 0) {
        const int before = open("/dev/null", O_RDONLY); /* the lowest free descriptor */
        (void)close(before);
        const bool stopped_well = weir_recorder_stop(recorder, NULL) == WEIR_OK;
        _exit(stopped_well && open("/dev/null", O_RDONLY) < before ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(weir_recorder_stop(recorder, NULL), WEIR_OK);
}

int main(void)
{
    const int file = mkstemp(path);
    const int failed = run_all_tests("fork");
    (void)close(file);
    (void)unlink(path);
    return failed;
}
