/* tests/host/unit/heap_test.c: features of a heap: the peak that many threads count, recording, the ends of processes,
 * and pageable pools under it. tests/host/contract/heap_contract.c tests the rules for every source. */
#include "rig/heap.h"
#include "rig/resident.h"
#include "rig/sink.h"
#include "cgroup.h"
#include "heap_internal.h"
#include "sandbox.h"

#include <weir/caching.h>
#include <weir/sim.h>

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

static weir_heap *plain_heap(void)
{
    weir_heap *heap = NULL;
    assert_int_equal(weir_heap_create(NULL, &heap), WEIR_OK);
    return heap;
}

/* --- the tally --- */

static uint64_t next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

TEST(test_tally_is_exact)
{
    weir__tally *tally = aligned_alloc(WEIR__HEAP_LINE, sizeof(*tally));
    assert_non_null(tally);
    weir__tally_init(tally);
    uint64_t seed = 4711;
    int64_t live = 0;
    int64_t peak = 0;
    for (int i = 0; i < 200000; i++) {
        const int64_t most = 1 + (int64_t)(next(&seed) % (i % 1000 == 0 ? 100000 : 1000));
        if (next(&seed) % 2 == 0) {
            weir__tally_add(tally, (uint64_t)most);
            live += most;
        } else {
            weir__tally_remove(tally, (uint64_t)(most < live ? most : live));
            live -= most < live ? most : live;
        }
        peak = live > peak ? live : peak;
        assert_int_equal(atomic_load(&tally->peak), peak);
    }
    assert_int_equal(weir__tally_live(tally), live);
    assert_true(weir__tally_check(tally));
    weir__tally_fini(tally);
    free(tally);
}

/* A thread whose cell belongs to another thread counts in a cell that it shares, and makes peaks as well. */
TEST(test_tally_of_a_shared_cell)
{
    weir__tally *tally = aligned_alloc(WEIR__HEAP_LINE, sizeof(*tally));
    assert_non_null(tally);
    weir__tally_init(tally);
    atomic_store(&weir__tally_mine(tally)->owner, 1);
    weir__tally_add(tally, 100);
    weir__tally_remove(tally, 100);
    weir__tally_add(tally, 10);
    assert_int_equal(weir__tally_live(tally), 10);
    assert_int_equal(weir__tally_peak(tally), 100);
    assert_true(weir__tally_check(tally));
    weir__tally_fini(tally);
    free(tally);
}

/* The cells of a tally return the bytes that they have set aside, and a thread may give back bytes that another thread
 * took. */
TEST(test_tally_of_cells)
{
    weir__tally *tally = aligned_alloc(WEIR__HEAP_LINE, sizeof(*tally));
    assert_non_null(tally);
    weir__tally_init(tally);
    uint64_t seed = 1147;
    int64_t live = 0;
    int64_t peak = 0;
    for (int i = 0; i < 100000; i++) {
        weir__tally_cell *cell = &tally->cells[next(&seed) % 7];
        const int64_t bytes = (int64_t)(next(&seed) % 5000);
        const bool adds = next(&seed) % 16 < 8u + (unsigned)(i / 20000 % 2);
        (void)atomic_fetch_or(&tally->used, UINT64_C(1) << (cell - tally->cells));
        const int64_t change = adds ? bytes : -(bytes < live ? bytes : live);
        if (atomic_fetch_add(&cell->live, change) + change > atomic_load(&cell->ceiling) && adds) {
            weir__tally_rise(tally, cell);
        }
        live += change;
        peak = live > peak ? live : peak;
        assert_int_equal(atomic_load(&tally->peak), peak);
        assert_true(i % 1000 != 0 || weir__tally_check(tally));
    }
    assert_int_equal(weir__tally_live(tally), live);
    weir__tally_fini(tally);
    free(tally);
}

/* More threads than cells run at once, so some threads share a cell. */
enum { TALLY_THREADS = 40, TALLY_ROUNDS = 5000 };

static pthread_barrier_t tally_barrier;

static void *add_and_remove(void *argument)
{
    (void)pthread_barrier_wait(&tally_barrier);
    for (int i = 0; i < TALLY_ROUNDS; i++) {
        weir__tally_add(argument, 100);
        weir__tally_remove(argument, 100);
    }
    weir__tally_add(argument, 1000);
    (void)pthread_barrier_wait(&tally_barrier);
    return NULL;
}

TEST(test_tally_of_threads)
{
    weir__tally *tally = aligned_alloc(WEIR__HEAP_LINE, sizeof(*tally));
    assert_non_null(tally);
    weir__tally_init(tally);
    pthread_t threads[TALLY_THREADS];
    assert_int_equal(pthread_barrier_init(&tally_barrier, NULL, TALLY_THREADS), 0);
    for (size_t i = 0; i < TALLY_THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, add_and_remove, tally), 0);
    }
    for (size_t i = 0; i < TALLY_THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    (void)pthread_barrier_destroy(&tally_barrier);
    assert_int_equal(weir__tally_live(tally), TALLY_THREADS * 1000);
    assert_true(atomic_load(&tally->used) >> WEIR__TALLY_OWN != 0);
    assert_true(weir__tally_check(tally));
    assert_in_range(weir__tally_peak(tally), TALLY_THREADS * 1000, TALLY_THREADS * 1100);
    weir__tally_fini(tally);
    free(tally);
}

/* --- recording --- */

static weir_recorder *recorder_to(struct kept *t)
{
    weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
    config.sink = keep;
    config.sink_ctx = t;
    t->length = 0;
    weir_recorder *recorder = NULL;
    assert_int_equal(weir_recorder_create(&config, &recorder), WEIR_OK);
    return recorder;
}

/* Returns the number of lines that begin with the letter. */
static size_t lines(const struct kept *t, char letter)
{
    size_t found = 0;
    for (const char *line = t->text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        found += *line == letter && line[1] == ' ';
    }
    return found;
}

/* Returns the number of lines `p ID SIZE ...` or `a TIME ID SIZE ...` with that size. */
static size_t lines_of_size(const struct kept *t, char letter, uint64_t size)
{
    size_t found = 0;
    for (const char *line = t->text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        uint64_t numbers[3] = {0};
        if (*line == letter &&
            sscanf(line + 1, "%" SCNu64 "%" SCNu64 "%" SCNu64, &numbers[0], &numbers[1], &numbers[2]) >= 2) {
            found += numbers[letter == 'p' ? 1 : 2] == size;
        }
    }
    return found;
}

static void record_all(weir_heap *heap, bool can_move)
{
    static struct kept t;
    enum { PRIORS = 40 };
    void *priors[PRIORS];
    void *gone[10];
    for (size_t i = 0; i < PRIORS; i++) {
        priors[i] =
            i % 4 == 0 ? weir_heap_alloc_long_lived(heap, 100000, 64) : weir_heap_alloc(heap, i % 2 == 0 ? 100 : 70000);
        assert_non_null(priors[i]);
    }
    for (size_t i = 0; i < 10; i++) {
        gone[i] = weir_heap_alloc(heap, 100); /* blocks that a thread keeps are not live */
    }
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(weir_heap_free(heap, gone[i]), WEIR_OK);
    }
    weir_recorder *recorder = recorder_to(&t);
    weir_recorder *second = recorder_to(&t);
    assert_int_equal(weir_heap_record(heap, recorder), WEIR_OK);
    assert_int_equal(weir_heap_record(heap, recorder), WEIR_OK);
    assert_int_equal(weir_heap_record(heap, second), WEIR_ERR_BUSY);
    assert_int_equal(weir_recorder_stop(second, NULL), WEIR_OK);
    t.length = 0;
    void *small = weir_heap_alloc(heap, 123);
    void *large = weir_heap_alloc_aligned(heap, 123456, 4096);
    void *stays = weir_heap_alloc_long_lived(heap, 4321, 64);
    assert_true(small != NULL && large != NULL && stays != NULL);
    size_t moved = 0;
    if (can_move) {
        void *larger = weir_heap_realloc(heap, small, 50000);
        assert_non_null(larger);
        small = larger;
        assert_ptr_equal(weir_heap_realloc(heap, small, 49999), small);
        moved = 2;
    }
    int nobody = 0;
    assert_int_equal(weir_heap_free(heap, &nobody), WEIR_ERR_INVALID); /* a refused free is no event */
    assert_int_equal(weir_heap_free(heap, large), WEIR_OK);
    for (size_t i = 0; i < PRIORS; i++) {
        assert_int_equal(weir_heap_free(heap, priors[i]), WEIR_OK);
    }
    assert_int_equal(weir_heap_record(heap, NULL), WEIR_OK);
    assert_int_equal(weir_heap_record(heap, NULL), WEIR_OK);
    assert_int_equal(weir_heap_free(heap, small), WEIR_OK); /* after the end of the recording */
    assert_int_equal(weir_heap_free(heap, stays), WEIR_OK);
    uint64_t lost = 1;
    assert_int_equal(weir_recorder_stop(recorder, &lost), WEIR_OK);
    assert_int_equal(lost, 0);
    assert_int_equal(lines(&t, 'p'), PRIORS);
    assert_int_equal(lines(&t, 'a'), 3);
    assert_int_equal(lines_of_size(&t, 'a', 123), 1);
    assert_int_equal(lines_of_size(&t, 'a', 123456), 1);
    assert_int_equal(lines_of_size(&t, 'a', 4321), 1);
    assert_int_equal(lines(&t, 'r'), moved);
    assert_int_equal(lines(&t, 'f'), PRIORS + 1);
    assert_int_equal(stats_of(heap).live_bytes, 0);
}

TEST(test_recording)
{
    weir_heap *heap = plain_heap();
    record_all(heap, true);
    record_all(heap, true); /* a second time with other recorders */
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
    weir_host_pool_config host_config = WEIR_HOST_POOL_CONFIG_INIT;
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    host_config.flags = WEIR_HOST_PAGEABLE;
    assert_int_equal(weir_host_pool_create(&host_config, &config.source.host_pool), WEIR_OK);
    assert_int_equal(weir_heap_create(&config, &heap), WEIR_OK);
    record_all(heap, true);
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
    assert_int_equal(weir_host_pool_destroy(config.source.host_pool), WEIR_OK);
    weir_sim *sim = NULL;
    weir_sim_config sim_config = WEIR_SIM_CONFIG_INIT;
    weir_pool_config pool_config = WEIR_POOL_CONFIG_INIT;
    config = (weir_heap_config)WEIR_HEAP_CONFIG_INIT;
    assert_int_equal(weir_sim_create(&sim_config, &sim), WEIR_OK);
    pool_config.device = weir_sim_device(sim);
    pool_config.strategy = weir_caching_strategy();
    assert_int_equal(weir_pool_create(&pool_config, &config.source.pool), WEIR_OK);
    assert_int_equal(weir_pool_stream(config.source.pool, NULL, &config.source.stream), WEIR_OK);
    config.flags = WEIR_HEAP_NO_HOST_ACCESS;
    assert_int_equal(weir_heap_create(&config, &heap), WEIR_OK);
    record_all(heap, false);
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
    assert_int_equal(weir_pool_destroy(config.source.pool), WEIR_OK);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

static bool count_priors(void *ctx, const char *bytes, size_t length)
{
    size_t *priors = ctx;
    for (size_t i = 0; i + 1 < length; i++) {
        *priors += bytes[i] == '\n' && bytes[i + 1] == 'p';
    }
    return true;
}

/* More blocks are live than a ring buffer holds, and it is not drained in between. */
TEST(test_recording_of_many_priors)
{
    enum { MANY = 5000 };
    static void *blocks[MANY];
    size_t priors = 0;
    uint64_t lost = 1;
    weir_heap *heap = plain_heap();
    for (size_t i = 0; i < MANY; i++) {
        blocks[i] = weir_heap_alloc(heap, 100);
        assert_non_null(blocks[i]);
    }
    weir_recorder *recorder = NULL;
    weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
    config.sink = count_priors;
    config.sink_ctx = &priors;
    config.ring_events = 1024;
    assert_int_equal(weir_recorder_create(&config, &recorder), WEIR_OK);
    assert_int_equal(weir_heap_record(heap, recorder), WEIR_OK);
    assert_int_equal(weir_recorder_drain(recorder, NULL), WEIR_OK);
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(weir_heap_free(heap, blocks[i]), WEIR_OK);
    }
    assert_int_equal(weir_heap_record(heap, NULL), WEIR_OK);
    assert_int_equal(weir_recorder_stop(recorder, &lost), WEIR_OK);
    assert_int_equal(lost, 0);
    /* count_priors misses a p line with which a piece of the output begins */
    assert_in_range(priors, MANY - MANY / 100, MANY);
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
}

/* The reclaim callback of a request may itself move blocks, even while the request moves a block. */
struct cached {
    void *moving;
    void *dropped;
};

static bool shuffle(void *ctx, weir_heap *heap, uint64_t size, uint32_t attempt)
{
    struct cached *c = ctx;
    (void)size;
    void *moved = weir_heap_realloc(heap, c->moving, 40000);
    assert_non_null(moved);
    assert_ptr_not_equal(moved, c->moving);
    c->moving = moved;
    assert_int_equal(weir_heap_free(heap, c->dropped), WEIR_OK);
    c->dropped = NULL;
    return attempt == 0;
}

TEST(test_recording_of_moves_in_moves)
{
    static struct kept t;
    struct cached c = {0};
    weir_heap *heap = NULL;
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.limit_bytes = 8 * MIB;
    config.reclaim = shuffle;
    config.reclaim_ctx = &c;
    assert_int_equal(weir_heap_create(&config, &heap), WEIR_OK);
    weir_recorder *recorder = recorder_to(&t);
    assert_int_equal(weir_heap_record(heap, recorder), WEIR_OK);
    c.moving = weir_heap_alloc(heap, 1000);
    c.dropped = weir_heap_alloc(heap, 5 * MIB);
    void *block = weir_heap_alloc(heap, 2 * MIB);
    assert_true(c.moving != NULL && c.dropped != NULL && block != NULL);
    block = weir_heap_realloc(heap, block, 5 * MIB);
    assert_non_null(block);
    assert_null(c.dropped);
    assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
    assert_int_equal(weir_heap_free(heap, c.moving), WEIR_OK);
    assert_int_equal(weir_heap_record(heap, NULL), WEIR_OK);
    uint64_t lost = 1;
    assert_int_equal(weir_recorder_stop(recorder, &lost), WEIR_OK);
    assert_int_equal(lost, 0);
    assert_int_equal(lines(&t, 'a'), 3);
    assert_int_equal(lines(&t, 'r'), 2);
    assert_int_equal(lines(&t, 'f'), 3);
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
}

static char record_path[] = "/tmp/weir-heap-XXXXXX";

/* Returns a heap that records itself into record_path, as the environment demands. */
static weir_heap *self_recorded_heap(void)
{
    (void)memcpy(strchr(record_path, '\0') - 6, "XXXXXX", 6);
    const int fd = mkstemp(record_path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(record_path), 0);
    assert_int_equal(setenv("WEIR_RECORD", record_path, 1), 0);
    weir_heap *heap = plain_heap();
    assert_int_equal(unsetenv("WEIR_RECORD"), 0);
    assert_non_null(heap->asked_recorder);
    return heap;
}

struct cancelled {
    weir_heap *heap;
    atomic_bool is_cancelled;
    atomic_bool is_done;
};

static void *work_cancelled(void *argument)
{
    struct cancelled *c = argument;
    while (!atomic_load(&c->is_cancelled)) {
    }
    for (int i = 0; i < 200000; i++) {
        if (weir_heap_free(c->heap, weir_heap_alloc(c->heap, 100)) != WEIR_OK) {
            return NULL;
        }
    }
    atomic_store(&c->is_done, true);
    pthread_testcancel();
    return NULL;
}

/* A cancelled thread that finds no space for its events writes the file itself. It must not end during the write, while
 * it holds a lock. */
TEST(test_recording_of_cancelled)
{
    struct cancelled c = {.heap = self_recorded_heap()};
    pthread_t thread;
    void *result = NULL;
    assert_int_equal(pthread_create(&thread, NULL, work_cancelled, &c), 0);
    assert_int_equal(pthread_cancel(thread), 0);
    atomic_store(&c.is_cancelled, true);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_true(result == PTHREAD_CANCELED);
    assert_true(atomic_load(&c.is_done));
    assert_int_equal(weir_heap_destroy(c.heap), WEIR_OK);
    assert_int_equal(unlink(record_path), 0);
}

struct busy {
    weir_heap *heap;
    atomic_bool is_over;
};

static void *work(void *argument)
{
    struct busy *b = argument;
    uint64_t seed = (uint64_t)(uintptr_t)&seed | 1;
    while (!atomic_load(&b->is_over)) {
        void *block = weir_heap_alloc(b->heap, 1 + next(&seed) % 5000);
        block = weir_heap_realloc(b->heap, block, 1 + next(&seed) % 20000);
        if (weir_heap_free(b->heap, block) != WEIR_OK) {
            return b;
        }
    }
    return NULL;
}

static bool discard(void *ctx, const char *bytes, size_t length)
{
    (void)ctx;
    (void)bytes;
    (void)length;
    return true;
}

/* No call uses a recorder after its removal: the test frees the recorder after each removal. */
TEST(test_recorders_come_and_go)
{
    struct busy b = {.heap = plain_heap()};
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, &b), 0);
    }
    for (int i = 0; i < 50; i++) {
        weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
        config.sink = discard;
        config.ring_events = 1024;
        weir_recorder *recorder = NULL;
        assert_int_equal(weir_recorder_create(&config, &recorder), WEIR_OK);
        assert_int_equal(weir_heap_record(b.heap, recorder), WEIR_OK);
        for (int j = 0; j < 20; j++) {
            assert_int_equal(weir_recorder_drain(recorder, NULL), WEIR_OK);
        }
        assert_int_equal(weir_heap_record(b.heap, NULL), WEIR_OK);
        assert_int_equal(weir_recorder_stop(recorder, NULL), WEIR_OK);
    }
    atomic_store(&b.is_over, true);
    for (size_t i = 0; i < 2; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(weir_heap_destroy(b.heap), WEIR_OK);
}

/* --- proof --- */

/* Checks that the check of the heap finds one foreign entry among many entries of the pool, at every position of the
 * walk. */
static void find_stranger(weir_heap *heap)
{
    weir__owned *owned = heap->sources[WEIR__HEAP_GOING].owned;
    void *blocks[200];
    for (size_t i = 0; i < 200; i++) {
        blocks[i] = weir_heap_alloc(heap, 5000);
        assert_non_null(blocks[i]);
    }
    assert_int_equal(weir_heap_check(heap, NULL), WEIR_OK);
    for (size_t i = 0; i < WEIR__OWNED_SHARDS; i++) {
        static const char stranger = 0;
        const uint64_t key = (uint64_t)(uintptr_t)&stranger;
        const char *why = NULL;
        assert_true(weir__number_map_put(&owned->shards[i].blocks, key, 64));
        assert_int_equal(weir_heap_check(heap, &why), WEIR_ERR_INTERNAL);
        assert_non_null(why);
        assert_int_equal(weir__number_map_take(&owned->shards[i].blocks, key), 64);
    }
    for (size_t i = 0; i < 200; i++) {
        assert_int_equal(weir_heap_free(heap, blocks[i]), WEIR_OK);
    }
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
}

TEST(test_check_finds_foreign_entries)
{
    weir_heap *heap = NULL;
    weir_host_pool_config host_config = WEIR_HOST_POOL_CONFIG_INIT;
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    host_config.flags = WEIR_HOST_PAGEABLE;
    assert_int_equal(weir_host_pool_create(&host_config, &config.source.host_pool), WEIR_OK);
    assert_int_equal(weir_heap_create(&config, &heap), WEIR_OK);
    find_stranger(heap);
    assert_int_equal(weir_host_pool_destroy(config.source.host_pool), WEIR_OK);
    weir_sim *sim = NULL;
    weir_sim_config sim_config = WEIR_SIM_CONFIG_INIT;
    weir_pool_config pool_config = WEIR_POOL_CONFIG_INIT;
    config = (weir_heap_config)WEIR_HEAP_CONFIG_INIT;
    assert_int_equal(weir_sim_create(&sim_config, &sim), WEIR_OK);
    pool_config.device = weir_sim_device(sim);
    pool_config.strategy = weir_caching_strategy();
    assert_int_equal(weir_pool_create(&pool_config, &config.source.pool), WEIR_OK);
    assert_int_equal(weir_pool_stream(config.source.pool, NULL, &config.source.stream), WEIR_OK);
    assert_int_equal(weir_heap_create(&config, &heap), WEIR_OK);
    find_stranger(heap);
    assert_int_equal(weir_pool_destroy(config.source.pool), WEIR_OK);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

/* --- statistics --- */

struct baton {
    weir_heap *heap;
    _Atomic(void *) block;
    atomic_bool is_over;
};

static void *take_over(void *argument)
{
    struct baton *b = argument;
    while (!atomic_load(&b->is_over)) {
        void *block = atomic_exchange(&b->block, NULL);
        if (weir_heap_free(b->heap, block) != WEIR_OK) {
            return b;
        }
    }
    return NULL;
}

static void *hand_over(void *argument)
{
    struct baton *b = argument;
    while (!atomic_load(&b->is_over)) {
        void *none = NULL;
        void *block = weir_heap_alloc(b->heap, 100);
        while (!atomic_compare_exchange_weak(&b->block, &none, block) && !atomic_load(&b->is_over)) {
            none = NULL;
        }
        if (none != NULL && weir_heap_free(b->heap, block) != WEIR_OK) {
            return b;
        }
    }
    return NULL;
}

/* One thread allocates blocks that another thread frees. The counts of the two threads are read at different moments,
 * but the difference is never below 0. */
TEST(test_counts_do_not_wrap)
{
    struct baton b = {.heap = plain_heap()};
    pthread_t threads[2];
    /* The allocating thread has the younger cache, so its counts are read first. */
    b.block = weir_heap_alloc(b.heap, 100);
    assert_int_equal(pthread_create(&threads[0], NULL, take_over, &b), 0);
    while (stats_of(b.heap).frees == 0) {
    }
    assert_int_equal(pthread_create(&threads[1], NULL, hand_over, &b), 0);
    for (int i = 0; i < 200000; i++) {
        const weir_heap_stats stats = stats_of(b.heap);
        assert_true(stats.live_blocks < UINT32_MAX);
        assert_true(stats.live_bytes < UINT32_MAX);
    }
    atomic_store(&b.is_over, true);
    for (size_t i = 0; i < 2; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(weir_heap_destroy(b.heap), WEIR_OK);
}

/* --- processes --- */

static weir_heap *late_heap;
static void *late_block;

static void use_late(void)
{
    unsigned char *block = weir_heap_realloc(late_heap, late_block, 300000);
    if (block == NULL || block[0] != 7 || weir_heap_free(late_heap, block) != WEIR_OK ||
        weir_heap_alloc(late_heap, 100) == NULL) {
        _exit(99);
    }
    _exit(42);
}

/* Runs after main, and after weir's own destructors if those run first. */
static int leave_to_atexit(void)
{
    CHECK(atexit(use_late) == 0);
    CHECK(weir_heap_create(NULL, &late_heap) == WEIR_OK);
    late_block = weir_heap_alloc(late_heap, 100000);
    CHECK(late_block != NULL);
    memset(late_block, 7, 100000);
    exit(1);
}

__attribute__((destructor(101))) static void use_in_destructor(void)
{
    if (late_heap != NULL) {
        void *block = weir_heap_alloc(late_heap, 5000);
        if (block == NULL || weir_heap_free(late_heap, block) != WEIR_OK ||
            weir_heap_free(late_heap, late_block) != WEIR_OK) {
            _exit(98);
        }
        _exit(43);
    }
}

static int leave_to_destructor(void)
{
    CHECK(weir_heap_create(NULL, &late_heap) == WEIR_OK);
    late_block = weir_heap_alloc(late_heap, 100);
    CHECK(late_block != NULL);
    exit(1);
}

TEST(test_outlives_main)
{
    assert_int_equal(in_child(leave_to_atexit), 42);
    assert_int_equal(in_child(leave_to_destructor), 43);
}

static weir_heap *forked_heap;
static unsigned char *forked_small;
static unsigned char *forked_large;

static int in_forked_child(void)
{
    CHECK(forked_small[0] == 1 && forked_large[300000] == 2);
    memset(forked_small, 3, 100);
    memset(forked_large, 4, 500000);
    CHECK(forked_large[300000] == 4);
    CHECK(weir_heap_destroy(forked_heap) == WEIR_OK);
    weir_heap *heap = NULL; /* a heap of the child */
    CHECK(weir_heap_create(NULL, &heap) == WEIR_OK);
    void *block = weir_heap_alloc(heap, 1000);
    CHECK(block != NULL && weir_heap_free(heap, block) == WEIR_OK);
    CHECK(weir_heap_destroy(heap) == WEIR_OK);
    return 0;
}

TEST(test_fork)
{
    forked_heap = plain_heap();
    forked_small = weir_heap_alloc(forked_heap, 100);
    forked_large = weir_heap_alloc(forked_heap, 500000);
    assert_true(forked_small != NULL && forked_large != NULL);
    memset(forked_small, 1, 100);
    memset(forked_large, 2, 500000);
    assert_int_equal(in_child(in_forked_child), 0);
    assert_int_equal(forked_small[0], 1);
    assert_int_equal(forked_large[300000], 2);
    assert_int_equal(weir_heap_free(forked_heap, forked_small), WEIR_OK);
    assert_int_equal(weir_heap_destroy(forked_heap), WEIR_OK);
}

static int in_recorded_child(void)
{
    CHECK(weir_heap_destroy(forked_heap) == WEIR_OK);
    exit(0); /* ends the recording that the environment demanded */
}

/* A child destroys a heap that records itself, and calls exit; the file stays the parent's. */
TEST(test_fork_while_recorded)
{
    forked_heap = self_recorded_heap();
    void *block = weir_heap_alloc(forked_heap, 100);
    assert_int_equal(in_child(in_recorded_child), 0);
    assert_int_equal(weir_heap_free(forked_heap, block), WEIR_OK);
    assert_int_equal(weir_heap_destroy(forked_heap), WEIR_OK);
    assert_int_equal(unlink(record_path), 0);
}

/* A heap works without the system calls that some sandboxes forbid; it is only slower. */
static int without_advice(void)
{
    CHECK(deny_madvise());
    weir_heap *heap = NULL;
    CHECK(weir_heap_create(NULL, &heap) == WEIR_OK);
    for (size_t size = 100000; size < 20 * MIB; size = size * 5 / 4) {
        unsigned char *block = weir_heap_alloc(heap, size);
        CHECK(block != NULL);
        memset(block, 1, size);
        CHECK(weir_heap_free(heap, block) == WEIR_OK);
    }
    uint64_t released = 0;
    CHECK(weir_heap_trim(heap, 0, &released) == WEIR_OK && released > MIB);
    CHECK(weir_heap_check(heap, NULL) == WEIR_OK);
    CHECK(weir_heap_destroy(heap) == WEIR_OK);
    return 0;
}

TEST(test_without_advice)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("a sanitizer advises the system itself\n");
    skip();
#endif
    if (is_emulated()) {
        skip();
    }
    assert_int_equal(in_child(without_advice), 0);
}

/* --- pageable pools --- */

TEST(test_pageable_pool)
{
    weir_host_pool *pool = NULL;
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    weir_host_pool_config bad = WEIR_HOST_POOL_CONFIG_INIT;
    bad.flags = WEIR_HOST_PAGEABLE | WEIR_HOST_STRICT;
    assert_int_equal(weir_host_pool_create(&bad, &pool), WEIR_ERR_INVALID);
    bad.flags = WEIR_HOST_PAGEABLE;
    bad.runtime = &runtime;
    assert_int_equal(weir_host_pool_create(&bad, &pool), WEIR_ERR_INVALID);
    bad.runtime = NULL;
    bad.kinds = 1u << WEIR_HOST_LOCKED;
    assert_int_equal(weir_host_pool_create(&bad, &pool), WEIR_ERR_INVALID);
    bad.kinds = 0;
    bad.chunk_bytes = 8 * KIB;
    assert_int_equal(weir_host_pool_create(&bad, &pool), WEIR_ERR_INVALID);
    bad.flags = WEIR_HOST_ALLOW_UNPINNED;
    bad.chunk_bytes = 64 * KIB;
    assert_int_equal(weir_host_pool_create(&bad, &pool), WEIR_ERR_INVALID); /* only pageable memory is allowed */
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.flags = WEIR_HOST_PAGEABLE | WEIR_HOST_NO_PAD;
    config.kinds = 1u << WEIR_HOST_UNPINNED;
    config.chunk_bytes = 16 * KIB;
    assert_int_equal(weir_host_pool_create(&config, &pool), WEIR_OK);
    void *block = NULL;
    assert_int_equal(weir_host_alloc(pool, 100000, 0, &block), WEIR_ERR_INVALID); /* no such node */
    assert_int_equal(weir_host_alloc(pool, 100000, WEIR_HOST_THREAD_NODE, &block), WEIR_OK);
    weir_host_info info = WEIR_HOST_INFO_INIT;
    assert_int_equal(weir_host_query(pool, (char *)block + 99999, &info), WEIR_OK);
    assert_ptr_equal(info.block, block);
    assert_int_equal(info.node, WEIR_NODE_NONE);
    assert_int_equal(info.kind, WEIR_HOST_UNPINNED);
    assert_false(info.is_pinned);
    weir_host_stats stats = WEIR_HOST_STATS_INIT;
    assert_int_equal(weir_host_get_stats(pool, WEIR_HOST_ANY_NODE, &stats), WEIR_OK);
    const uint64_t chunk = getpagesize() > (int)config.chunk_bytes ? (uint64_t)getpagesize() : config.chunk_bytes;
    const uint64_t chunks = (100000 + chunk - 1) / chunk;
    assert_int_equal(stats.held_bytes, chunks * chunk);
    assert_int_equal(stats.unpinned_bytes, chunks * chunk);
    assert_int_equal(stats.chunks, chunks);
    assert_int_equal(weir_host_check(pool, NULL), WEIR_OK);
    assert_int_equal(weir_host_free(pool, block), WEIR_OK);
    assert_int_equal(weir_host_trim(pool, 0, NULL), WEIR_OK);
    assert_int_equal(weir_host_get_stats(pool, WEIR_HOST_ANY_NODE, &stats), WEIR_OK);
    assert_int_equal(stats.held_bytes, 0);
    assert_int_equal(weir_host_query(pool, block, &info), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
}

/* Returns the bytes by which the explanation advises to raise limit_bytes, or 0. */
static uint64_t advised(weir_heap *heap)
{
    char why[1000];
    const char *words = "raise limit_bytes by ";
    assert_true(weir_heap_explain(heap, why, sizeof(why)) > 0);
    const char *at = strstr(why, words);
    return at != NULL ? strtoull(at + strlen(words), NULL, 10) : 0;
}

/* With the limit raised as advised the same request succeeds; with two granules less it fails. With one less it may
 * succeed, because it may begin in the free rest of a granule that is in use. */
static void acts_on_advice(weir_heap *heap, size_t size, bool is_long_lived)
{
    const uint64_t limit = stats_of(heap).limit_bytes;
    const uint64_t advice = advised(heap);
    assert_true(advice > 0);
    for (int enough = 0; enough < 2; enough++) {
        const uint64_t raised = limit + advice - (enough ? 0 : 128 * KIB);
        assert_int_equal(weir_heap_set_limit(heap, raised < 64 * KIB ? 64 * KIB : raised), WEIR_OK);
        void *block = is_long_lived ? weir_heap_alloc_long_lived(heap, size, 0) : weir_heap_alloc(heap, size);
        if ((block != NULL) != enough) {
            fail_msg("limit %llu, advice %llu, %zu bytes: %s", (unsigned long long)limit, (unsigned long long)advice,
                     size, enough ? "not enough" : "two granules less are enough");
        }
    }
}

TEST(test_advice_is_what_is_missing)
{
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    weir_heap *heap = NULL;
    config.limit_bytes = 20 * MIB;
    assert_int_equal(weir_heap_create(&config, &heap), WEIR_OK);
    assert_non_null(weir_heap_alloc(heap, 8 * MIB));
    assert_null(weir_heap_alloc(heap, 15 * MIB));
    assert_int_equal(advised(heap), 3 * MIB); /* not 15 */
    acts_on_advice(heap, 15 * MIB, false);
    assert_null(weir_heap_alloc(heap, 100 * MIB)); /* more than the limit alone */
    assert_int_equal(advised(heap), 100 * MIB);
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
}

/* The advice is right for a heap full of holes, with requests of all sizes, for both sources. */
TEST(test_advice_on_random_heaps)
{
    enum { HEAPS = 60, COUNT = 400 };
    uint64_t seed = 20261122;
    int failed = 0;
    for (int i = 0; i < HEAPS; i++) {
        weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
        weir_heap *heap = NULL;
        void *blocks[COUNT] = {0};
        config.limit_bytes = (1 + next(&seed) % 200) * 64 * KIB;
        config.slack_bytes = next(&seed) % 2 * 100;
        assert_int_equal(weir_heap_create(&config, &heap), WEIR_OK);
        for (int step = 0; step < 5000; step++) {
            const size_t at = next(&seed) % COUNT;
            const size_t size = 1 + next(&seed) % (UINT64_C(1) << next(&seed) % 20);
            const bool stays = next(&seed) % 4 == 0;
            assert_int_equal(weir_heap_free(heap, blocks[at]), WEIR_OK);
            blocks[at] = stays ? weir_heap_alloc_long_lived(heap, size, 0) : weir_heap_alloc(heap, size);
            if (blocks[at] == NULL && step > 500) {
                acts_on_advice(heap, size, stays);
                failed++;
                break;
            }
        }
        assert_int_equal(weir_heap_check(heap, NULL), WEIR_OK);
        assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
    }
    assert_true(failed > HEAPS / 2);
}

/* All blocks that were freed at the limit can be allocated again, although slabs grow with their class: a small slab
 * serves if a large one does not fit. */
TEST(test_refill_at_the_limit)
{
    enum { MOST = 4096 };
    static const size_t sizes[] = {64, 700, 4096, 9000};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
        weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
        weir_heap *heap = NULL;
        void *blocks[MOST];
        size_t count = 0;
        config.limit_bytes = sizes[s] < 1000 ? 256 * KIB : 1 * MIB;
        assert_int_equal(weir_heap_create(&config, &heap), WEIR_OK);
        while (count < MOST && (blocks[count] = weir_heap_alloc(heap, sizes[s])) != NULL) {
            count++;
        }
        const size_t freed = count / 2 < 100 ? count / 2 : 100;
        assert_true(freed > 20);
        for (size_t i = 0; i < freed; i++) {
            assert_int_equal(weir_heap_free(heap, blocks[count - 1 - i]), WEIR_OK);
        }
        for (size_t i = 0; i < freed; i++) {
            assert_non_null(weir_heap_alloc(heap, sizes[s]));
        }
        assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
    }
}

/* The two pools of a heap share its limit: memory that one pool gives back can serve the other. */
TEST(test_one_limit)
{
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    weir_heap *heap = NULL;
    config.limit_bytes = 10 * MIB;
    assert_int_equal(weir_heap_create(&config, &heap), WEIR_OK);
    void *stays = weir_heap_alloc_long_lived(heap, 6 * MIB, 0);
    assert_non_null(stays);
    assert_null(weir_heap_alloc(heap, 6 * MIB));
    char why[1000];
    assert_true(weir_heap_explain(heap, why, sizeof(why)) > 0);
    assert_non_null(strstr(why, "a configured limit forbids it"));
    assert_non_null(strstr(why, "raise limit_bytes"));
    assert_int_equal(weir_heap_free(heap, stays), WEIR_OK);
    void *goes = weir_heap_alloc(heap, 9 * MIB);
    assert_non_null(goes);
    assert_null(weir_heap_alloc_long_lived(heap, 6 * MIB, 0));
    assert_int_equal(weir_heap_free(heap, goes), WEIR_OK);
    const weir_heap_stats stats = stats_of(heap);
    assert_int_equal(stats.limit_bytes, 10 * MIB);
    assert_int_equal(stats.failures, 2);
    assert_true(stats.peak_held_bytes <= 10 * MIB);
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
}

/* The limit changes while the heap is in use. */
/* Idle memory of at most the given number of bytes stays at a trim. */
TEST(test_a_trim_keeps_what_it_is_told)
{
    weir_heap *heap = heap_with(0, 0, 0);
    void *blocks[32];
    for (size_t i = 0; i < 32; i++) {
        blocks[i] = weir_heap_alloc(heap, MIB);
        assert_non_null(blocks[i]);
    }
    for (size_t i = 0; i < 32; i++) {
        assert_int_equal(weir_heap_free(heap, blocks[i]), WEIR_OK);
    }
    const uint64_t before = stats_of(heap).held_bytes;
    uint64_t released = 0;
    assert_true(before >= 32 * MIB);
    assert_int_equal(weir_heap_trim(heap, 8 * MIB, &released), WEIR_OK);
    assert_in_range(stats_of(heap).held_bytes, 4 * MIB, 8 * MIB);
    assert_int_equal(released, before - stats_of(heap).held_bytes);
    end_heap(heap);
}

/* --- callbacks in callbacks --- */

static weir_heap *inner;
static unsigned inner_calls;
static unsigned outer_calls;

static bool inner_reclaim(void *ctx, weir_heap *heap, size_t size, uint32_t attempt)
{
    (void)size;
    assert_ptr_equal(heap, inner);
    inner_calls++;
    assert_null(weir_heap_alloc(*(weir_heap **)ctx, 4 * MIB)); /* does not call outer_reclaim inside itself */
    return attempt > 0;
}

static bool outer_reclaim(void *ctx, weir_heap *heap, size_t size, uint32_t attempt)
{
    (void)ctx;
    (void)heap;
    (void)size;
    outer_calls++;
    assert_null(weir_heap_alloc(inner, 4 * MIB));
    return attempt > 0;
}

/* The callback of one heap may ask another heap, whose callback is called. Only its own is not called again. */
TEST(test_reclaim_of_another_heap)
{
    weir_heap *outer = NULL;
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.limit_bytes = MIB;
    config.reclaim = inner_reclaim;
    config.reclaim_ctx = &outer;
    assert_int_equal(weir_heap_create(&config, &inner), WEIR_OK);
    config.reclaim = outer_reclaim;
    assert_int_equal(weir_heap_create(&config, &outer), WEIR_OK);
    assert_null(weir_heap_alloc(outer, 2 * MIB));
    assert_int_equal(outer_calls, 1);
    assert_int_equal(inner_calls, 1);
    end_heap(outer);
    end_heap(inner);
}

TEST(test_another_limit)
{
    weir_heap *heap = plain_heap();
    assert_int_equal(weir_heap_set_limit(NULL, 1), WEIR_ERR_INVALID);
    void *first = weir_heap_alloc(heap, 6 * MIB);
    void *second = weir_heap_alloc(heap, 6 * MIB);
    assert_true(first != NULL && second != NULL);
    assert_int_equal(weir_heap_free(heap, second), WEIR_OK);
    assert_true(stats_of(heap).held_bytes >= 12 * MIB);
    assert_int_equal(weir_heap_set_limit(heap, 8 * MIB), WEIR_OK);
    assert_in_range(stats_of(heap).held_bytes, 6 * MIB, 8 * MIB);
    assert_int_equal(stats_of(heap).limit_bytes, 8 * MIB);
    assert_null(weir_heap_alloc(heap, 6 * MIB));
    assert_int_equal(weir_heap_set_limit(heap, 4 * MIB), WEIR_OK); /* less than the live bytes */
    assert_null(weir_heap_alloc(heap, MIB));
    assert_int_equal(weir_heap_set_limit(heap, 16 * MIB), WEIR_OK);
    second = weir_heap_alloc(heap, 6 * MIB);
    assert_non_null(second);
    assert_int_equal(weir_heap_set_limit(heap, 0), WEIR_OK);
    void *third = weir_heap_alloc(heap, 20 * MIB);
    assert_non_null(third);
    assert_int_equal(weir_heap_free(heap, first), WEIR_OK);
    assert_int_equal(weir_heap_free(heap, second), WEIR_OK);
    assert_int_equal(weir_heap_free(heap, third), WEIR_OK);
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
}

static bool never_called(void *ctx, weir_heap *heap, uint64_t size, uint32_t attempt)
{
    (void)ctx;
    (void)heap;
    (void)size;
    (void)attempt;
    fail_msg("asked to make room for a block that could stay as it is");
    return false;
}

/* A block that shrinks and finds no place to move to stays, and no failure is counted. */
TEST(test_shrink_without_room)
{
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    weir_heap *heap = NULL;
    config.limit_bytes = 4 * MIB;
    config.reclaim = never_called;
    assert_int_equal(weir_heap_create(&config, &heap), WEIR_OK);
    void *block = weir_heap_alloc(heap, 3 * MIB);
    assert_non_null(block);
    assert_ptr_equal(weir_heap_realloc(heap, block, 5 * MIB / 4), block);
    const weir_heap_stats stats = stats_of(heap);
    assert_int_equal(stats.failures + stats.reclaims + stats.moves, 0);
    assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
}

/* A request for more than the machine has is refused, in one piece and in several, before any memory is mapped. */
TEST(test_more_than_there_is)
{
    if (is_emulated()) {
        skip();
    }
    weir_heap *heap = plain_heap();
    const uint64_t machine = weir__host_machine_bytes();
    char why[1000];
    assert_true(machine > MIB);
    assert_null(weir_heap_alloc(heap, machine + MIB));
    assert_true(weir_heap_explain(heap, why, sizeof(why)) > 0);
    assert_non_null(strstr(why, "reserving addresses"));
    assert_null(weir_heap_alloc(heap, (size_t)1 << 45));
    assert_null(weir_heap_alloc_long_lived(heap, (size_t)1 << 43, 64));
    void *some = weir_heap_alloc(heap, MIB);
    assert_non_null(some);
    assert_null(weir_heap_alloc(heap, machine - MIB / 2));
    assert_true(weir_heap_explain(heap, why, sizeof(why)) > 0);
    assert_non_null(strstr(why, "more than the machine has"));
    assert_true(stats_of(heap).held_bytes <= 2 * MIB);
    assert_int_equal(weir_heap_free(heap, some), WEIR_OK);
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
}

static uint64_t group_room = UINT64_MAX;
static int group_reads;

weir__cgroup_memory __wrap_weir__cgroup_read(const char *folder);

weir__cgroup_memory __wrap_weir__cgroup_read(const char *folder)
{
    (void)folder;
    group_reads++;
    return (weir__cgroup_memory){group_room, UINT64_MAX, group_room};
}

/* A request that the control group has no room for is refused; the kernel would end the process. Memory that the
 * program has not touched yet needs room too, and no more once it is touched. The group's figures are read seldom while
 * it has room. */
TEST(test_more_than_the_group_has)
{
    char why[1000];
    group_room = 64 * MIB;
    weir_heap *heap = plain_heap();
    group_reads = 0;
    void *some = weir_heap_alloc(heap, 8 * MIB);
    assert_non_null(some);
    assert_true(group_reads < 4);
    group_room = 4 * MIB;
    assert_null(weir_heap_alloc(heap, 16 * MIB));
    assert_true(weir_heap_explain(heap, why, sizeof(why)) > 0);
    assert_non_null(strstr(why, "more than the process's control group has"));
    assert_null(weir_heap_alloc(heap, MIB));
    memset(some, 1, 6 * MIB);
    void *more = weir_heap_alloc(heap, MIB); /* no page was made for the refused request */
    assert_non_null(more);
    assert_null(weir_heap_alloc(heap, 2 * MIB)); /* 2 and 1 MiB are still to be touched */
    memset(some, 1, 8 * MIB);
    assert_non_null(weir_heap_alloc_long_lived(heap, 2 * MIB, 64));
    assert_int_equal(weir_heap_free(heap, some), WEIR_OK);
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
    group_room = UINT64_MAX;
}

/* A process that locks all its memory does not lock the unused addresses of a heap. */
static int locked_process(void)
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        return 77;
    }
    weir_heap *heap = NULL;
    CHECK(weir_heap_create(NULL, &heap) == WEIR_OK);
    char *block = weir_heap_alloc(heap, 3 * MIB);
    CHECK(block != NULL);
    memset(block, 1, 3 * MIB);
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss < 1 << 20); /* KiB */
    CHECK(weir_heap_free(heap, block) == WEIR_OK);
    CHECK(weir_heap_trim(heap, 0, NULL) == WEIR_OK);
    CHECK(weir_heap_destroy(heap) == WEIR_OK);
    return 0;
}

/* A process locks all its memory when a heap already exists: the heap's memory is locked, not all of its addresses. */
static int process_that_locks(void)
{
    weir_heap *heap = NULL;
    CHECK(weir_heap_create(NULL, &heap) == WEIR_OK);
    char *block = weir_heap_alloc(heap, 3 * MIB);
    char *stays = weir_heap_alloc_long_lived(heap, 3 * MIB, 64);
    CHECK(block != NULL && stays != NULL);
    if (mlockall(MCL_CURRENT) != 0) {
        return 77;
    }
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss < 1 << 20); /* KiB */
    block = weir_heap_realloc(heap, block, 40 * MIB);
    CHECK(block != NULL);
    memset(block, 1, 40 * MIB);
    CHECK(weir_heap_free(heap, block) == WEIR_OK && weir_heap_free(heap, stays) == WEIR_OK);
    CHECK(weir_heap_trim(heap, 0, NULL) == WEIR_OK && stats_of(heap).held_bytes == 0);
    CHECK(weir_heap_destroy(heap) == WEIR_OK);
    return 0;
}

/* Addresses that a heap reserves and does not use do not count against the limits of the process. */
static int limited_process(void)
{
    const struct rlimit limit = {288 * MIB, 288 * MIB};
    CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
    weir_heap *heap = NULL;
    CHECK(weir_heap_create(NULL, &heap) == WEIR_OK);
    void *block = weir_heap_alloc(heap, 3 * MIB);
    void *stays = weir_heap_alloc_long_lived(heap, 3 * MIB, 64);
    void *others = mmap(NULL, 160 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(block != NULL && stays != NULL && others != MAP_FAILED);
    CHECK(weir_heap_alloc(heap, 200 * MIB) == NULL); /* a refused request changes nothing */
    char why[1000];
    CHECK(weir_heap_explain(heap, why, sizeof(why)) > 0 && strstr(why, "making addresses memory") != NULL);
    CHECK(munmap(others, 160 * MIB) == 0);
    void *large = weir_heap_alloc(heap, 200 * MIB);
    CHECK(large != NULL && weir_heap_check(heap, NULL) == WEIR_OK);
    CHECK(weir_heap_free(heap, large) == WEIR_OK && weir_heap_free(heap, block) == WEIR_OK);
    CHECK(weir_heap_free(heap, stays) == WEIR_OK && weir_heap_destroy(heap) == WEIR_OK);
    return 0;
}

TEST(test_limited_process)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("a sanitizer's own memory counts too\n");
    skip();
#endif
    if (is_emulated()) {
        skip();
    }
    assert_int_equal(in_child(limited_process), 0);
}

TEST(test_locked_process)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("a sanitizer's shadow cannot be locked\n");
    skip();
#endif
    const int status = in_child(locked_process);
    const int late = in_child(process_that_locks);
    if (status == 77 || late == 77) {
        print_message("memory cannot be locked here\n");
        skip();
    }
    assert_int_equal(status, 0);
    assert_int_equal(late, 0);
}

/* Sizes that occur only once leave little memory behind: idle memory moves. */
TEST(test_holds_little)
{
    enum { LAYERS = 40 };
    weir_heap *heap = plain_heap();
    uint64_t seed = 99;
    uint64_t most = 0;
    for (int shape = 0; shape < 60; shape++) {
        const uint64_t scale = 1 + next(&seed) % 100;
        void *before = NULL;
        uint64_t before_bytes = 0;
        for (int layer = 0; layer < LAYERS; layer++) {
            const uint64_t bytes = scale * (1000 + next(&seed) % 80000);
            void *now = weir_heap_alloc(heap, bytes);
            assert_non_null(now);
            most = bytes + before_bytes > most ? bytes + before_bytes : most;
            assert_int_equal(weir_heap_free(heap, before), WEIR_OK);
            before = now;
            before_bytes = bytes;
        }
        assert_int_equal(weir_heap_free(heap, before), WEIR_OK);
    }
    const weir_heap_stats stats = stats_of(heap);
    assert_true(stats.peak_live_bytes <= most + most / 50 + 64 * KIB);
    assert_true(stats.peak_held_bytes <= most + most / 8 + 512 * KIB);
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
}

/* The tables of a heap are as long as its addresses. Unused parts of a table are not resident, even in memory that
 * malloc had used before: later heaps take no more memory than the first ones. */
static int heaps_again(void)
{
    enum { HEAPS = 8, ROUNDS = 6 };
    uint64_t first = 0;
    for (int round = 0; round < ROUNDS; round++) {
        weir_heap *heaps[HEAPS];
        for (int i = 0; i < HEAPS; i++) {
            CHECK(weir_heap_create(NULL, &heaps[i]) == WEIR_OK);
            CHECK(weir_heap_alloc(heaps[i], 100) != NULL);
        }
        const uint64_t resident = resident_bytes();
        first = round == 0 ? resident : first;
        CHECK(resident != 0 && resident < first + 6 * MIB); /* a table is 2 MiB */
        for (int i = 0; i < HEAPS; i++) {
            CHECK(weir_heap_destroy(heaps[i]) == WEIR_OK);
        }
    }
    return 0;
}

TEST(test_heaps_again)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("a sanitizer's shadow is resident too\n");
    skip();
#endif
    if (is_emulated()) {
        skip();
    }
    assert_int_equal(in_child(heaps_again), 0);
}
