/* tests/host/stress/ends_threads.c: threads that are cancelled and processes that fork, while other threads continue.
 *
 * Workers use a pool, an arena of their own, heaps, a host pool and a recorder. Every device call and every sink is a
 * cancellation point. The main thread sometimes cancels a worker. The worker must end between two calls, and a new
 * thread takes over its blocks. Sometimes the main thread forks a child, at any instant of the workers; the child
 * destroys every handle in a random order.
 *
 * A worker that ended inside a call has left `inside` set, or a lock that stops all other workers; then an alarm ends
 * the program. At the end all blocks are freed, check passes, and all counters are zero.
 *
 * Workers only count errors: assertions belong to the main thread.
 *
 *   ends_threads [ROUNDS [SEED]]     or WEIR_ROUNDS and WEIR_SEED in the environment
 *
 * WEIR_THREADS (4) in the environment is the number of workers; WEIR_SECONDS replaces the number of rounds.
 */
#include "rig/test.h"
#include "pool/stress/random_program.h"

#include <weir/adaptor.h>
#include <weir/arena.h>
#include <weir/heap.h>
#include <weir/host.h>
#include <weir/pool.h>
#include <weir/sim.h>
#include <weir/trace.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { most_workers = 64, most_held = 24, child_seconds = 60, end_seconds = 300 };

/* gcc and clang use different macros for sanitizers. A sanitizer's locks are not held across fork: a child cannot do
 * anything under the thread sanitizer, and cannot allocate under the address sanitizer. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(UNDER_TSAN)
enum { forks_too = 0, child_allocates = 0 };
#elif defined(__SANITIZE_ADDRESS__) || defined(UNDER_ASAN)
enum { forks_too = 1, child_allocates = 0 };
#else
enum { forks_too = 1, child_allocates = 1 };
#endif

static uint64_t rounds = 200;
static uint64_t first_seed = 1;
static uint64_t seconds; /* 0: a fixed number of rounds */
static unsigned workers = 4;

/* The state of a worker, which outlives each of its threads. */
struct worker {
    pthread_t thread;
    uint64_t random;
    atomic_bool inside; /* inside a call of weir */
    weir_sim_stream *natives[2];
    weir_stream *streams[2]; /* the second is retired from time to time */
    weir_arena *arena;
    weir_block *blocks[most_held];
    void *small[most_held];   /* blocks of the heap */
    void *on_host[most_held]; /* blocks of the heap over the host pool */
    uint64_t calls;
    uint64_t errors;
    const char *first_error;
};

static weir_sim *sim;
static weir_device *device;
static weir_pool *pool;
static weir_host_pool *host;
static weir_heap *heap;
static weir_heap *heap_on_host;
static weir_recorder *of_pool;
static weir_recorder *of_heap;
static struct worker all[most_workers];
static atomic_bool done;

/* Makes a call of weir. `inside` is true during the call. */
#define expect(worker, condition)                                                                                      \
    do {                                                                                                               \
        atomic_store(&(worker)->inside, true);                                                                         \
        const bool holds = (condition);                                                                                \
        atomic_store(&(worker)->inside, false);                                                                        \
        (worker)->calls++;                                                                                             \
        if (!holds) {                                                                                                  \
            (worker)->errors++;                                                                                        \
            (worker)->first_error = (worker)->first_error != NULL ? (worker)->first_error : #condition;                \
        }                                                                                                              \
    } while (0)
#define ok(worker, call) expect(worker, (call) == WEIR_OK)

static uint64_t below(struct worker *w, uint64_t n)
{
    return chance(&w->random) % n;
}

/* --- a worker --- */

static void queue_work(struct worker *w, weir_sim_stream *native)
{
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = below(w, 100000);
    work.tag = "work";
    ok(w, weir_sim_launch(sim, native, &work));
}

static void use_pool(struct worker *w, unsigned slot)
{
    const unsigned stream = (unsigned)below(w, 2);
    if (w->blocks[slot] == NULL) {
        ok(w, weir_pool_alloc(pool, w->streams[stream], 1 + below(w, below(w, 8) == 0 ? 3 * MIB : 100 * KIB), 0,
                              &w->blocks[slot]));
        queue_work(w, w->natives[stream]);
        return;
    }
    if (below(w, 4) == 0) {
        ok(w, weir_pool_use(pool, w->blocks[slot], w->streams[1 - stream]));
    }
    weir_block *block = w->blocks[slot];
    w->blocks[slot] = NULL;
    ok(w, weir_pool_free(pool, block, w->streams[stream]));
}

static void use_heap(struct worker *w, weir_heap *of, void **slot, uint64_t most)
{
    if (*slot == NULL) {
        const size_t size = (size_t)(1 + below(w, most));
        expect(w, (*slot = weir_heap_alloc(of, size)) != NULL);
        memset(*slot, 1, size < 64 ? size : 64);
    } else if (below(w, 4) == 0) {
        void *moved = NULL;
        expect(w, (moved = weir_heap_realloc(of, *slot, (size_t)(1 + below(w, most)))) != NULL);
        *slot = moved;
    } else {
        void *block = *slot;
        *slot = NULL;
        ok(w, weir_heap_free(of, block));
    }
}

static void use_arena(struct worker *w)
{
    uint64_t address = 0;
    if (below(w, 4) == 0) {
        ok(w, weir_arena_reset(w->arena));
    } else {
        ok(w, weir_arena_alloc(w->arena, 1 + below(w, MIB), 0, &address));
    }
}

static bool count_entry(void *ctx, const weir_walk_entry *entry)
{
    (void)entry;
    (*(uint64_t *)ctx)++;
    pthread_testcancel();
    return true;
}

static void do_rarely(struct worker *w)
{
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    uint64_t entries = 0;
    const char *why = "";
    switch (below(w, 12)) {
    case 0:
        ok(w, weir_pool_trim(pool, 0, below(w, 2) == 0 ? WEIR_TRIM_WAIT : 0, NULL));
        break;
    case 1:
        ok(w, weir_heap_trim(heap, 0, NULL));
        break;
    case 2:
        ok(w, weir_host_trim(host, 0, NULL));
        break;
    case 3:
        ok(w, weir_pool_walk(pool, count_entry, &entries));
        break;
    case 4:
        ok(w, weir_pool_get_stats(pool, &stats));
        break;
    case 5:
        ok(w, weir_pool_check(pool, &why));
        break;
    case 6:
        ok(w, weir_recorder_drain(of_heap, NULL));
        break;
    case 7:
        ok(w, weir_stream_retire(pool, w->streams[1]));
        ok(w, weir_pool_stream(pool, w->natives[1], &w->streams[1]));
        break;
    default:
        ok(w, weir_recorder_drain(of_pool, NULL));
        break;
    }
}

/* Not inlined: the address sanitizer does not unpoison the stack frames that a cancelled thread leaves. */
static __attribute__((noinline)) void step(struct worker *w)
{
    const unsigned slot = (unsigned)below(w, most_held);
    switch (below(w, 16)) {
    case 0:
        do_rarely(w);
        break;
    case 1:
        use_arena(w);
        break;
    case 2:
    case 3:
    case 4:
        use_heap(w, heap_on_host, &w->on_host[slot], 200 * KIB);
        break;
    case 5:
    case 6:
    case 7:
    case 8:
        use_heap(w, heap, &w->small[slot], below(w, 16) == 0 ? 4 * MIB : 30000);
        break;
    default:
        use_pool(w, slot);
        break;
    }
}

/* A worker ends only in pthread_testcancel. The worker's struct keeps its blocks. */
static void *work(void *ctx)
{
    while (!atomic_load(&done)) {
        pthread_testcancel();
        step(ctx);
    }
    return NULL;
}

/* --- the world --- */

static void cancel_in_call(void *ctx, const char *line)
{
    (void)ctx, (void)line;
    pthread_testcancel();
}

static bool cancel_in_sink(void *ctx, const char *text, size_t length)
{
    (void)ctx, (void)text, (void)length;
    pthread_testcancel();
    return true;
}

static void start(uint32_t pool_flags)
{
    weir_sim_config config = WEIR_SIM_CONFIG_INIT;
    config.no_audit = true; /* the work touches nothing */
    config.capacity_bytes = 1024 * MIB;
    assert_int_equal(weir_sim_create(&config, &sim), WEIR_OK);
    assert_int_equal(weir_log_create(weir_sim_device(sim), cancel_in_call, NULL, &device), WEIR_OK);
    weir_pool_config of = WEIR_POOL_CONFIG_INIT;
    of.device = device;
    of.strategy = weir_caching_strategy();
    of.flags = pool_flags;
    assert_int_equal(weir_pool_create(&of, &pool), WEIR_OK);
    weir_host_pool_config hosts = WEIR_HOST_POOL_CONFIG_INIT;
    hosts.flags = WEIR_HOST_ALLOW_UNPINNED;
    hosts.kinds = 1u << WEIR_HOST_UNPINNED;
    assert_int_equal(weir_host_pool_create(&hosts, &host), WEIR_OK);
    weir_heap_config heaps = WEIR_HEAP_CONFIG_INIT;
    assert_int_equal(weir_heap_create(&heaps, &heap), WEIR_OK);
    heaps.source.host_pool = host;
    assert_int_equal(weir_heap_create(&heaps, &heap_on_host), WEIR_OK);
    weir_recorder_config recorders = WEIR_RECORDER_CONFIG_INIT;
    recorders.sink = cancel_in_sink;
    recorders.ring_events = 1024;
    assert_int_equal(weir_recorder_start(pool, &recorders, &of_pool), WEIR_OK);
    assert_int_equal(weir_recorder_create(&recorders, &of_heap), WEIR_OK);
    assert_int_equal(weir_heap_record(heap, of_heap), WEIR_OK);
    memset(all, 0, sizeof(all));
    atomic_store(&done, false);
    for (unsigned i = 0; i < workers; i++) {
        struct worker *w = &all[i];
        w->random = first_seed * 1000 + i;
        for (int j = 0; j < 2; j++) {
            assert_int_equal(weir_sim_stream_create(sim, &w->natives[j]), WEIR_OK);
            assert_int_equal(weir_pool_stream(pool, w->natives[j], &w->streams[j]), WEIR_OK);
        }
        assert_int_equal(weir_arena_create(pool, w->streams[0], NULL, &w->arena), WEIR_OK);
        assert_int_equal(pthread_create(&w->thread, NULL, work, w), 0);
    }
}

static void give_all_back(struct worker *w)
{
    for (unsigned i = 0; i < most_held; i++) {
        assert_true(w->blocks[i] == NULL || weir_pool_free(pool, w->blocks[i], w->streams[0]) == WEIR_OK);
        assert_int_equal(weir_heap_free(heap, w->small[i]), WEIR_OK);
        assert_int_equal(weir_heap_free(heap_on_host, w->on_host[i]), WEIR_OK);
    }
    weir_arena_destroy(w->arena);
}

static void finish(void)
{
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    weir_heap_stats heaps = WEIR_HEAP_STATS_INIT;
    const char *why = "";
    uint64_t calls = 0;
    atomic_store(&done, true);
    for (unsigned i = 0; i < workers; i++) {
        assert_int_equal(pthread_join(all[i].thread, NULL), 0);
        give_all_back(&all[i]);
        calls += all[i].calls;
        if (all[i].errors > 0) {
            print_error("%" PRIu64 " errors, the first: %s\n", all[i].errors, all[i].first_error);
            fail();
        }
    }
    assert_int_equal(weir_pool_check(pool, &why), WEIR_OK);
    assert_int_equal(weir_heap_check(heap, &why), WEIR_OK);
    assert_int_equal(weir_heap_check(heap_on_host, &why), WEIR_OK);
    assert_int_equal(weir_host_check(host, &why), WEIR_OK);
    assert_int_equal(weir_pool_get_stats(pool, &stats), WEIR_OK);
    assert_int_equal(stats.live_bytes + stats.requested_bytes, 0);
    assert_int_equal(weir_heap_get_stats(heap, &heaps), WEIR_OK);
    assert_int_equal(heaps.live_bytes + heaps.live_blocks, 0);
    assert_int_equal(weir_heap_record(heap, NULL), WEIR_OK);
    assert_int_equal(weir_recorder_stop(of_heap, NULL), WEIR_OK);
    assert_int_equal(weir_recorder_stop(of_pool, NULL), WEIR_OK);
    assert_int_equal(weir_heap_destroy(heap_on_host), WEIR_OK);
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
    assert_int_equal(weir_host_pool_destroy(host), WEIR_OK);
    assert_int_equal(weir_pool_destroy(pool), WEIR_OK);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
    weir_sim_stats held = WEIR_SIM_STATS_INIT;
    assert_int_equal(weir_sim_get_stats(sim, &held), WEIR_OK);
    assert_int_equal(held.held_bytes, 0);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
    print_message("%" PRIu64 " calls, ", calls);
}

/* --- ends --- */

static bool end_one(unsigned handle)
{
    switch (handle) {
    case 0:
        return weir_pool_destroy(pool) == WEIR_OK;
    case 1:
        return weir_heap_destroy(heap) == WEIR_OK;
    case 2:
        return weir_heap_destroy(heap_on_host) == WEIR_OK;
    case 3:
        return weir_host_pool_destroy(host) == WEIR_OK;
    case 4:
        return weir_recorder_stop(of_pool, NULL) == WEIR_OK;
    case 5:
        return weir_recorder_stop(of_heap, NULL) == WEIR_OK;
    case 6:
        return weir_device_destroy(device) == WEIR_OK;
    case 7:
        return weir_sim_destroy(sim) == WEIR_OK;
    default:
        weir_arena_destroy(all[handle - 8].arena);
        return true;
    }
}

/* Runs in the child: destroys every handle once, starting at a random one, and then makes and destroys a heap. Returns
 * 0, or the number of the call that failed. */
static int end_all(uint64_t chosen)
{
    const unsigned handles = 8 + workers;
    weir_heap *own = NULL;
    for (unsigned i = 0; i < handles; i++) {
        if (!end_one((unsigned)((chosen + i) % handles))) {
            return 1 + (int)((chosen + i) % handles);
        }
    }
    if (!child_allocates) {
        return 0;
    }
    if (weir_heap_create(NULL, &own) != WEIR_OK) {
        return 100;
    }
    void *block = weir_heap_alloc(own, 300000);
    return block != NULL && weir_heap_free(own, block) == WEIR_OK && weir_heap_destroy(own) == WEIR_OK ? 0 : 101;
}

static void fork_and_end(uint64_t chosen)
{
    int status = 0;
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL); /* cmocka's handlers would go on with the next test in the child */
        (void)signal(SIGBUS, SIG_DFL);
        (void)alarm(child_seconds);
        _exit(end_all(chosen));
    }
    assert_true(child > 0);
    while (waitpid(child, &status, 0) != child) {
        assert_int_equal(errno, EINTR);
    }
    if (status != 0) {
        print_error("a child %s %d\n", WIFSIGNALED(status) ? "was killed by" : "exited with",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        fail();
    }
}

static void cancel_and_go_on(struct worker *w)
{
    void *result = NULL;
    assert_int_equal(pthread_cancel(w->thread), 0);
    assert_int_equal(pthread_join(w->thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_false(atomic_load(&w->inside));
    assert_int_equal(pthread_create(&w->thread, NULL, work, w), 0);
}

static uint64_t now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec;
}

static void ends(uint32_t pool_flags)
{
    uint64_t random = first_seed;
    uint64_t forks = 0;
    uint64_t cancellations = 0;
    const uint64_t deadline = now_s() + seconds / 2;
    start(pool_flags);
    for (uint64_t round = 0; seconds != 0 ? now_s() < deadline : round < rounds; round++) {
        const struct timespec pause = {.tv_nsec = (long)(chance(&random) % 3000000)};
        (void)nanosleep(&pause, NULL);
        (void)alarm(end_seconds);
        if (forks_too && chance(&random) % 2 == 0) {
            fork_and_end(chance(&random));
            forks++;
        } else {
            cancel_and_go_on(&all[chance(&random) % workers]);
            cancellations++;
        }
    }
    finish();
    (void)alarm(0);
    print_message("%" PRIu64 " forks, %" PRIu64 " cancellations\n", forks, cancellations);
}

TEST(test_a_pool_of_regions)
{
    ends(WEIR_POOL_REGIONS);
}

TEST(test_a_pool_with_virtual_memory)
{
    ends(0);
}

int main(int argc, char **argv)
{
    rounds = number(argc > 1 ? argv[1] : getenv("WEIR_ROUNDS"), rounds);
    first_seed = number(argc > 2 ? argv[2] : getenv("WEIR_SEED"), first_seed);
    seconds = number(getenv("WEIR_SECONDS"), seconds);
    workers = (unsigned)number(getenv("WEIR_THREADS"), workers);
    workers = workers == 0 ? 1 : workers < most_workers ? workers : most_workers;
    print_message("seed %" PRIu64 ", %u threads\n", first_seed, workers);
    return run_all_tests("threads that are cancelled, processes that fork");
}
