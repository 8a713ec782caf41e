/* tests/pool/unit/observer_test.c: weir/observer.h: an observer that keeps books of its own and checks every call that
 * it gets.
 *
 * Its books record memory and blocks. A call that contradicts them ends the program: memory given twice, a block
 * outside of memory or over another block, memory taken with a block in it, an end without a beginning. Random programs
 * run under it on pools that take regions and on pools that map granules, with each device call failing in turn, with
 * observers that begin and end, and on several threads.
 */
#include "rig/sim.h"
#include "rig/sink.h"

#include <weir/adaptor.h>
#include <weir/arena.h>
#include <weir/budget.h>
#include <weir/caching.h>
#include <weir/observer.h>
#include <weir/pool.h>
#include <weir/size_class.h>
#include <weir/trace.h>

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REGION (64 * KIB)

enum { lanes = 3, most_held = 32, program_steps = 300, seeds = 40 };

/* --- an observer that checks each call --- */

struct piece {
    uint64_t start;
    uint64_t end;
};

struct books {
    struct piece *pieces;
    size_t count;
    size_t room;
};

struct judge {
    pthread_mutex_t lock;
    struct books memory;
    struct books blocks;
    uint64_t calls;
    uint64_t given_again; /* memory that the device refused to take */
    uint64_t last_taken;
    void *last_stream;
    bool gone;
};

static void must(bool condition, const char *what, uint64_t start, uint64_t end)
{
    if (!condition) {
        (void)fprintf(stderr, "observer_test: %s: 0x%" PRIx64 " to 0x%" PRIx64 "\n", what, start, end);
        abort(); /* an assertion of cmocka works only on the main thread */
    }
}

static uint64_t overlap(const struct books *books, uint64_t start, uint64_t end)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < books->count; i++) {
        const struct piece *p = &books->pieces[i];
        const uint64_t from = p->start > start ? p->start : start;
        const uint64_t to = p->end < end ? p->end : end;
        bytes += to > from ? to - from : 0;
    }
    return bytes;
}

static void enter(struct books *books, uint64_t start, uint64_t end)
{
    if (books->count == books->room) {
        books->room = books->room != 0 ? books->room * 2 : 64;
        books->pieces = realloc(books->pieces, books->room * sizeof(books->pieces[0]));
        must(books->pieces != NULL, "no host memory", start, end);
    }
    books->pieces[books->count++] = (struct piece){start, end};
}

static void take_out(struct books *books, uint64_t start, uint64_t end, const char *what)
{
    size_t i = 0;
    while (i < books->count && (books->pieces[i].start != start || books->pieces[i].end != end)) {
        i++;
    }
    must(i < books->count, what, start, end);
    books->pieces[i] = books->pieces[--books->count];
}

static uint64_t bytes_in(const struct books *books)
{
    return overlap(books, 0, UINT64_MAX);
}

static void begin_call(struct judge *judge)
{
    (void)pthread_mutex_lock(&judge->lock);
    judge->calls++;
    must(!judge->gone, "called after the end", 0, 0);
}

static void memory_given(void *ctx, uint64_t address, uint64_t size)
{
    struct judge *judge = ctx;
    begin_call(judge);
    must(size > 0 && overlap(&judge->memory, address, address + size) == 0, "memory given twice", address,
         address + size);
    judge->given_again += address == judge->last_taken;
    enter(&judge->memory, address, address + size);
    (void)pthread_mutex_unlock(&judge->lock);
}

static void memory_taken(void *ctx, uint64_t address, uint64_t size)
{
    struct judge *judge = ctx;
    begin_call(judge);
    must(overlap(&judge->blocks, address, address + size) == 0, "memory taken under a block", address, address + size);
    take_out(&judge->memory, address, address + size, "memory taken that was not given");
    judge->last_taken = address;
    (void)pthread_mutex_unlock(&judge->lock);
}

static void block_alloc(void *ctx, const weir_observed_block *block)
{
    struct judge *judge = ctx;
    const uint64_t end = block->address + block->capacity;
    begin_call(judge);
    must(block->size > 0 && block->capacity >= block->size, "sizes", block->size, block->capacity);
    must(overlap(&judge->memory, block->address, end) == block->capacity, "a block beside memory", block->address, end);
    must(overlap(&judge->blocks, block->address, end) == 0, "a block over another", block->address, end);
    enter(&judge->blocks, block->address, end);
    judge->last_stream = block->native_stream;
    (void)pthread_mutex_unlock(&judge->lock);
}

static void block_free(void *ctx, const weir_observed_block *block)
{
    struct judge *judge = ctx;
    begin_call(judge);
    take_out(&judge->blocks, block->address, block->address + block->capacity, "a free of no block");
    judge->last_stream = block->native_stream;
    (void)pthread_mutex_unlock(&judge->lock);
}

static void pool_gone(void *ctx)
{
    struct judge *judge = ctx;
    begin_call(judge);
    judge->gone = true;
    (void)pthread_mutex_unlock(&judge->lock);
}

static const weir_observer_ops judging = {
    .struct_size = sizeof(judging),
    .memory_given = memory_given,
    .memory_taken = memory_taken,
    .block_alloc = block_alloc,
    .block_free = block_free,
    .pool_gone = pool_gone,
};

static struct judge new_judge(void)
{
    return (struct judge){.lock = PTHREAD_MUTEX_INITIALIZER};
}

static void end_judge(struct judge *judge)
{
    free(judge->memory.pieces);
    free(judge->blocks.pieces);
}

/* --- pools --- */

struct world {
    weir_sim *sim;
    weir_device *faulty;
    weir_device *slow; /* the device that the pool uses */
    weir_pool *pool;
    weir_sim_stream *native[lanes];
    weir_stream *stream[lanes];
    weir_block *held[most_held];
    size_t blocks;
    uint64_t random;
    bool maps;
};

static uint64_t below(struct world *w, uint64_t n)
{
    uint64_t z = w->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (z ^ (z >> 31)) % n;
}

/* A slow device call, and the function that runs during the call. */
static struct {
    const char *call; /* NULL: no call is slow */
    pthread_t thread;
    void *(*meanwhile)(void *ctx);
    void *ctx;
    bool began;
} slow_call;

static void take_ms(long ms)
{
    const struct timespec moment = {.tv_nsec = ms * 1000000};
    (void)nanosleep(&moment, NULL);
}

/* The adaptor calls this after the device call, before it returns to its caller. */
static void slow_down(void *ctx, const char *line)
{
    (void)ctx;
    if (slow_call.call != NULL && strncmp(line, slow_call.call, strlen(slow_call.call)) == 0) {
        slow_call.call = NULL;
        slow_call.began = true;
        must(pthread_create(&slow_call.thread, NULL, slow_call.meanwhile, slow_call.ctx) == 0, "thread", 0, 0);
        take_ms(60);
    }
}

static void open_world(struct world *w, bool maps, uint64_t seed)
{
    static const weir_caching_config small = {.struct_size = sizeof(small), .small_region_bytes = REGION};
    weir_sim_config device = free_of_charge();
    device.capacity_bytes = 24 * REGION;
    device.region_granularity_bytes = REGION;
    device.page_bytes = REGION;
    *w = (struct world){.random = seed, .maps = maps, .sim = new_sim(device)};
    ok(weir_fault_create(weir_sim_device(w->sim), &w->faulty));
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    ok(weir_log_create(w->faulty, slow_down, NULL, &w->slow));
    config.device = w->slow;
    config.strategy = seed % 3 == 2 ? weir_size_class_strategy() : weir_caching_strategy();
    config.strategy_config = seed % 3 == 2 ? NULL : &small;
    config.flags = maps ? 0 : WEIR_POOL_REGIONS;
    ok(weir_pool_create(&config, &w->pool));
    for (int i = 0; i < lanes; i++) {
        w->native[i] = new_stream(w->sim);
        ok(weir_pool_stream(w->pool, w->native[i], &w->stream[i]));
    }
}

static void close_world(struct world *w)
{
    if (w->pool != NULL) {
        ok(weir_pool_destroy(w->pool));
    }
    assert_int_equal(weir_device_destroy(w->slow), WEIR_OK);
    assert_int_equal(weir_device_destroy(w->faulty), WEIR_OK);
    assert_int_equal(weir_sim_destroy(w->sim), WEIR_OK);
}

static void free_one(struct world *w, size_t i)
{
    weir_block *block = w->held[i];
    w->held[i] = w->held[--w->blocks];
    const uint64_t how = below(w, 8);
    if (how == 0) {
        for (int lane = 0; lane < lanes; lane++) {
            sync_stream(w->sim, w->native[lane]);
        }
        ok(weir_pool_free_idle(w->pool, block));
    } else {
        if (how == 1) {
            assert_true(weir_pool_use(w->pool, block, w->stream[below(w, lanes)]) == WEIR_OK);
        }
        ok(weir_pool_free(w->pool, block, w->stream[below(w, lanes)]));
    }
}

/* Requests and trims may fail: the device may be full, or a fault may have struck. */
static void one_step(struct world *w)
{
    const uint64_t what = below(w, 20);
    if (what == 0) {
        uint64_t released = 0;
        weir_status status = weir_pool_trim(w->pool, 0, below(w, 2) ? WEIR_TRIM_WAIT : 0, &released);
        assert_true(status == WEIR_OK || status == WEIR_ERR_DEVICE || status == WEIR_ERR_NO_MEMORY);
    } else if (w->blocks == most_held || (w->blocks > 0 && what < 10)) {
        free_one(w, (size_t)below(w, w->blocks));
    } else {
        const uint64_t size = below(w, 3) == 0 ? 1 + below(w, 5 * REGION) : 1 + below(w, 8 * KIB);
        weir_status status = weir_pool_alloc(w->pool, w->stream[below(w, lanes)], size, 0, &w->held[w->blocks]);
        w->blocks += status == WEIR_OK;
    }
}

/* Checks that the observer's counts agree with the pool. */
static void agrees(struct world *w, struct judge *judge)
{
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    uint64_t bytes = 0;
    ok(weir_pool_get_stats(w->pool, &stats));
    for (size_t i = 0; i < w->blocks; i++) {
        bytes += weir_block_capacity(w->held[i]);
    }
    assert_int_equal(judge->blocks.count, w->blocks);
    assert_int_equal(bytes_in(&judge->blocks), bytes);
    /* Handles that the pool holds and could not destroy are not mapped. */
    const uint64_t mapped = w->maps ? (stats.vm_maps - stats.vm_unmaps) * REGION : stats.reserved_bytes;
    assert_int_equal(bytes_in(&judge->memory), mapped);
}

/* --- tests --- */

TEST(refuses_bad_arguments)
{
    struct world w;
    struct judge judge = new_judge();
    struct judge other = new_judge();
    weir_observer_ops longer = judging;
    open_world(&w, false, 0);
    fails(weir_pool_observe(NULL, &judging, &judge), WEIR_ERR_INVALID);
    fails(weir_pool_observe(w.pool, NULL, &judge), WEIR_ERR_INVALID);
    fails(weir_pool_unobserve(NULL, &judge), WEIR_ERR_INVALID);
    fails(weir_pool_unobserve(w.pool, &judge), WEIR_ERR_INVALID);
    longer.struct_size = 0;
    fails(weir_pool_observe(w.pool, &longer, &judge), WEIR_ERR_INVALID);
    ok(weir_pool_observe(w.pool, &judging, &judge));
    fails(weir_pool_observe(w.pool, &judging, &other), WEIR_ERR_BUSY);
    fails(weir_pool_observe(w.pool, &judging, &judge), WEIR_ERR_BUSY);
    fails(weir_pool_unobserve(w.pool, &other), WEIR_ERR_INVALID);
    ok(weir_pool_unobserve(w.pool, &judge));
    fails(weir_pool_unobserve(w.pool, &judge), WEIR_ERR_INVALID);
    ok(weir_pool_observe(w.pool, &judging, &other));
    assert_int_equal(judge.calls + other.calls, 0);
    close_world(&w);
    assert_true(other.gone);
    assert_false(judge.gone);
}

/* A table from an older header: weir does not call the slots that it lacks. */
TEST(accepts_older_tables)
{
    struct world w;
    struct judge judge = new_judge();
    weir_observer_ops shorter = judging;
    shorter.struct_size = offsetof(weir_observer_ops, block_alloc);
    open_world(&w, false, 0);
    ok(weir_pool_observe(w.pool, &shorter, &judge));
    ok(weir_pool_alloc(w.pool, w.stream[0], 1000, 0, &w.held[0]));
    ok(weir_pool_free(w.pool, w.held[0], w.stream[0]));
    assert_true(judge.memory.count == 1 && judge.blocks.count == 0 && judge.calls == 1);
    close_world(&w);
    assert_true(judge.memory.count == 0 && !judge.gone);
    end_judge(&judge);
}

/* A new observer gets reports of the live blocks, of the blocks in a front cache, and of the idle memory. */
TEST(reports_present_memory_and_blocks_at_the_start)
{
    for (int maps = 0; maps < 2; maps++) {
        struct world w;
        struct judge judge = new_judge();
        open_world(&w, maps, 0);
        for (int i = 0; i < 6; i++) {
            ok(weir_pool_alloc(w.pool, w.stream[0], i < 3 ? 1000 : 2 * REGION, 0, &w.held[w.blocks++]));
        }
        ok(weir_pool_free(w.pool, w.held[0], w.stream[0]));
        ok(weir_pool_free(w.pool, w.held[3], w.stream[0]));
        w.held[0] = w.held[5];
        w.held[3] = w.held[4];
        w.blocks = 4;
        ok(weir_pool_observe(w.pool, &judging, &judge));
        agrees(&w, &judge);
        assert_true(judge.memory.count > 0);

        /* A block from the front cache is reported when it is handed out. While there is an observer, no block enters
         * the cache. */
        ok(weir_pool_alloc(w.pool, w.stream[0], 1000, 0, &w.held[w.blocks++]));
        agrees(&w, &judge);
        assert_ptr_equal(judge.last_stream, w.native[0]);
        ok(weir_pool_free(w.pool, w.held[--w.blocks], w.stream[1]));
        agrees(&w, &judge);
        assert_ptr_equal(judge.last_stream, w.native[1]);

        /* The pool is destroyed with four blocks live. */
        close_world(&w);
        assert_true(judge.gone);
        assert_int_equal(judge.blocks.count + judge.memory.count, 0);
        end_judge(&judge);
    }
}

/* Without an observer the front cache is on again. */
TEST(without_an_observer_the_front_cache_is_on_again)
{
    struct world w;
    struct judge judge = new_judge();
    weir_pool_stats before = WEIR_POOL_STATS_INIT;
    weir_pool_stats after = WEIR_POOL_STATS_INIT;
    open_world(&w, false, 0);
    ok(weir_pool_observe(w.pool, &judging, &judge));
    ok(weir_pool_unobserve(w.pool, &judge));
    const uint64_t calls = judge.calls;
    for (int i = 0; i < 10; i++) {
        ok(weir_pool_get_stats(w.pool, i == 1 ? &before : &after));
        ok(weir_pool_alloc(w.pool, w.stream[0], 1000, 0, &w.held[0]));
        ok(weir_pool_free(w.pool, w.held[0], w.stream[0]));
    }
    ok(weir_pool_get_stats(w.pool, &after));
    assert_int_equal(after.served[WEIR_RUNG_FRONT] - before.served[WEIR_RUNG_FRONT], 9);
    assert_int_equal(judge.calls, calls);
    close_world(&w);
    assert_false(judge.gone);
    end_judge(&judge);
}

static void random_program(struct world *w, struct judge *judge, bool checked)
{
    bool watched = false;
    for (int step = 0; step < program_steps; step++) {
        if (below(w, 40) == 0 || step == 0) {
            if (watched) {
                ok(weir_pool_unobserve(w->pool, judge));
                end_judge(judge);
                *judge = new_judge();
            } else {
                ok(weir_pool_observe(w->pool, &judging, judge));
            }
            watched = !watched;
        }
        one_step(w);
        if (watched) {
            agrees(w, judge);
        }
        if (checked && step % 16 == 0) {
            ok(weir_pool_check(w->pool, NULL));
        }
    }
    if (!watched) {
        ok(weir_pool_observe(w->pool, &judging, judge));
    }
}

TEST(follows_random_programs)
{
    for (uint64_t seed = 0; seed < seeds; seed++) {
        struct world w;
        struct judge judge = new_judge();
        open_world(&w, seed % 2 == 1, seed);
        random_program(&w, &judge, true);
        close_world(&w);
        assert_true(judge.gone);
        assert_int_equal(judge.blocks.count + judge.memory.count, 0);
        end_judge(&judge);
    }
}

/* Each device call of a program fails in turn; memory that the device refuses to take back is reported
 * as given again. */
TEST(survives_each_failure)
{
    static const weir_device_call calls[] = {WEIR_CALL_REGION_ALLOC, WEIR_CALL_REGION_FREE, WEIR_CALL_VM_CREATE,
                                             WEIR_CALL_VM_DESTROY,   WEIR_CALL_VM_MAP,      WEIR_CALL_VM_UNMAP,
                                             WEIR_CALL_ANY};
    uint64_t given_again = 0;
    for (uint64_t seed = 3; seed < 7; seed++) {
        for (size_t kind = 0; kind < sizeof(calls) / sizeof(calls[0]); kind++) {
            bool struck = true;
            for (uint64_t n = 1; struck && n < 400; n += 1 + n / 12) {
                struct world w;
                struct judge judge = new_judge();
                open_world(&w, seed % 2 == 1, seed);
                ok(weir_fault_arm(w.faulty, calls[kind], n, WEIR_ERR_DEVICE));
                ok(weir_pool_observe(w.pool, &judging, &judge));
                for (int step = 0; step < program_steps; step++) {
                    one_step(&w);
                    agrees(&w, &judge);
                }
                ok(weir_fault_state(w.faulty, NULL, &struck));
                given_again += judge.given_again;
                weir_status status = weir_pool_destroy(w.pool);
                assert_true(status == WEIR_OK || status == WEIR_ERR_DEVICE);
                w.pool = NULL;
                assert_int_equal(judge.blocks.count + judge.memory.count, 0);
                close_world(&w);
                end_judge(&judge);
            }
        }
    }
    assert_true(given_again > 4);
}

static bool drop(void *ctx, const char *text, size_t length)
{
    (void)text;
    *(size_t *)ctx += length;
    return true;
}

TEST(shares_with_a_recorder)
{
    struct world w;
    struct judge judge = new_judge();
    size_t bytes = 0;
    uint64_t lost = 0;
    weir_recorder *recorder = NULL;
    weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
    config.sink = drop;
    config.sink_ctx = &bytes;
    open_world(&w, false, 4);
    ok(weir_recorder_start(w.pool, &config, &recorder));
    ok(weir_pool_observe(w.pool, &judging, &judge));
    for (int step = 0; step < program_steps; step++) {
        one_step(&w);
        agrees(&w, &judge);
    }
    ok(weir_recorder_stop(recorder, &lost));
    assert_int_equal(lost, 0);
    assert_true(bytes > program_steps);
    for (int step = 0; step < program_steps; step++) { /* only the observer is left */
        one_step(&w);
        agrees(&w, &judge);
    }
    ok(weir_recorder_start(w.pool, &config, &recorder));
    ok(weir_pool_unobserve(w.pool, &judge));
    bytes = 0;
    for (int step = 0; step < program_steps; step++) { /* only the recorder is left */
        one_step(&w);
    }
    ok(weir_recorder_stop(recorder, NULL));
    assert_true(bytes > program_steps);
    close_world(&w);
    end_judge(&judge);
}

TEST(sees_chunks_of_arenas)
{
    struct world w;
    struct judge judge = new_judge();
    weir_arena *arena = NULL;
    uint64_t address = 0;
    open_world(&w, false, 0);
    ok(weir_pool_observe(w.pool, &judging, &judge));
    ok(weir_arena_create(w.pool, w.stream[0], NULL, &arena));
    ok(weir_arena_alloc(arena, 1000, 0, &address));
    assert_int_equal(judge.blocks.count, 1);
    assert_int_equal(overlap(&judge.blocks, address, address + 1000), 1000);
    close_world(&w); /* the arena is orphaned */
    assert_int_equal(judge.blocks.count + judge.memory.count, 0);
    weir_arena_destroy(arena);
    end_judge(&judge);
}

TEST(a_forked_child_reports_nothing)
{
    struct world w;
    struct judge judge = new_judge();
    open_world(&w, false, 0);
    ok(weir_pool_observe(w.pool, &judging, &judge));
    ok(weir_pool_alloc(w.pool, w.stream[0], 1000, 0, &w.held[w.blocks++]));
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const uint64_t calls = judge.calls;
        weir_status status = weir_pool_destroy(w.pool);
        _exit(status == WEIR_OK && !judge.gone && judge.calls == calls ? 0 : 1);
    }
    int code = -1;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    agrees(&w, &judge);
    close_world(&w);
    end_judge(&judge);
}

/* Writes the calls that an observer gets as letters: a block is allocated (a), freed (f) or used (u), an event is
 * recorded (e), waited for (x) or synchronised with (y), and a trim (c), with the number of the stream. */
struct scribe {
    char text[64];
    size_t length;
    uint64_t tag;
    uint64_t align;
};

static void write_down(struct scribe *scribe, char what, uint32_t stream)
{
    assert_true(scribe->length + 2 < sizeof(scribe->text));
    scribe->text[scribe->length++] = what;
    scribe->text[scribe->length++] = (char)('0' + stream);
}

static void scribe_alloc(void *ctx, const weir_observed_block *block)
{
    struct scribe *scribe = ctx;
    write_down(scribe, block->listed ? 'p' : 'a', block->stream);
    scribe->tag = block->tag;
    scribe->align = block->align;
}

static void scribe_free(void *ctx, const weir_observed_block *block)
{
    write_down(ctx, 'f', block->stream);
}

static void scribe_use(void *ctx, const weir_observed_block *block)
{
    write_down(ctx, 'u', block->stream);
}

static void scribe_event(void *ctx, const weir_observed_event *event)
{
    write_down(ctx, "exy"[event->kind], event -> stream);
}

static void scribe_trim(void *ctx)
{
    write_down(ctx, 'c', 0);
}

static const weir_observer_ops writing = {
    .struct_size = sizeof(writing),
    .block_alloc = scribe_alloc,
    .block_free = scribe_free,
    .block_use = scribe_use,
    .event = scribe_event,
    .trim = scribe_trim,
};

/* Three observers at once: each gets every call, and the detach of one does not affect the other two. */
TEST(several_observe_at_once)
{
    struct world w;
    struct judge judge = new_judge();
    struct scribe scribe = {.length = 0};
    struct scribe late = {.length = 0};
    const weir_observer_ops shorter = {.struct_size = sizeof(shorter), .block_alloc = scribe_alloc};
    weir_tag tag = 0;
    int event = 0;
    open_world(&w, false, 0);
    ok(weir_pool_tag(w.pool, "weights", &tag));
    ok(weir_pool_observe(w.pool, &judging, &judge));
    ok(weir_pool_observe(w.pool, &writing, &scribe));
    fails(weir_pool_observe(w.pool, &writing, &late), WEIR_ERR_BUSY);
    fails(weir_pool_observe(w.pool, &shorter, &scribe), WEIR_ERR_BUSY);
    ok(weir_pool_alloc_tagged(w.pool, w.stream[0], 1000, 64 * KIB, tag, &w.held[w.blocks++]));
    assert_int_equal(scribe.tag, tag);
    assert_int_equal(scribe.align, 64 * KIB);
    ok(weir_pool_use(w.pool, w.held[0], w.stream[1]));
    ok(weir_stream_recorded(w.pool, &event, w.stream[1]));
    ok(weir_pool_observe(w.pool, &shorter, &late));
    ok(weir_stream_waited(w.pool, w.stream[0], &event));
    ok(weir_event_synced(w.pool, &event));
    ok(weir_stream_synced(w.pool, w.stream[1]));
    ok(weir_pool_trim(w.pool, UINT64_MAX, 0, NULL));
    ok(weir_pool_alloc(w.pool, w.stream[1], 1000, 0, &w.held[w.blocks++]));
    agrees(&w, &judge);
    assert_string_equal(scribe.text, "a1u2e2x1y0y2c0a2");
    assert_string_equal(late.text, "p1a2");
    ok(weir_pool_unobserve(w.pool, &scribe)); /* ends the second of three observations */
    ok(weir_pool_free_idle(w.pool, w.held[--w.blocks]));
    agrees(&w, &judge);
    ok(weir_pool_alloc(w.pool, w.stream[0], 1000, 0, &w.held[w.blocks++]));
    assert_string_equal(scribe.text, "a1u2e2x1y0y2c0a2");
    assert_string_equal(late.text, "p1a2a1");
    ok(weir_pool_unobserve(w.pool, &judge));
    ok(weir_pool_free(w.pool, w.held[--w.blocks], w.stream[0]));
    close_world(&w);
    end_judge(&judge);
}

/* The recorder outlives the pool; events that it has not written yet lose their tags. */
TEST(a_pool_ends_while_it_is_recorded)
{
    struct world w;
    struct kept lines = {.length = 0};
    weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
    weir_recorder *recorder = NULL;
    weir_tag tag = 0;
    uint64_t lost = 0;
    config.sink = keep;
    config.sink_ctx = &lines;
    open_world(&w, false, 0);
    ok(weir_pool_tag(w.pool, "weights", &tag));
    ok(weir_recorder_start(w.pool, &config, &recorder));
    ok(weir_pool_alloc_tagged(w.pool, w.stream[0], 1000, 0, tag, &w.held[w.blocks++]));
    close_world(&w);
    ok(weir_recorder_stop(recorder, &lost));
    assert_int_equal(lost, 0);
    assert_non_null(strstr(lines.text, "\n#dev 0 cap="));
    assert_non_null(strstr(lines.text, " 0 1000 0 0 "));
    assert_null(strstr(lines.text, "@"));
    const char *end = strstr(lines.text, "\nf ");
    assert_non_null(end);
    assert_non_null(strstr(end, " 0 - 0\n"));
}

/* --- threads --- */

enum { handed = 16, thread_steps = 3000 };

/* While the pool reports a free to the observer, another thread requests the same memory: the pool must not report this
 * alloc before the free. */
struct slow_judge {
    struct judge judge; /* must be the first member */
    struct world *w;
    pthread_t thief;
    weir_block *stolen;
};

static void *steal(void *ctx)
{
    struct slow_judge *slow = ctx;
    must(weir_pool_alloc(slow->w->pool, slow->w->stream[0], 3000, 0, &slow->stolen) == WEIR_OK, "alloc", 0, 0);
    return NULL;
}

static void tell_free_slowly(void *ctx, const weir_observed_block *block)
{
    struct slow_judge *slow = ctx;
    must(pthread_create(&slow->thief, NULL, steal, slow) == 0, "thread", 0, 0);
    take_ms(60);
    block_free(&slow->judge, block);
}

TEST(an_alloc_is_reported_after_the_free_before_it)
{
    struct world w;
    struct slow_judge slow = {.judge = new_judge(), .w = &w};
    weir_observer_ops slowly = judging;
    slowly.block_free = tell_free_slowly;
    open_world(&w, false, 0);
    ok(weir_pool_alloc(w.pool, w.stream[0], 3000, 0, &w.held[0]));
    const uint64_t address = weir_block_address(w.held[0]);
    ok(weir_pool_observe(w.pool, &slowly, &slow));
    ok(weir_pool_free(w.pool, w.held[0], w.stream[0]));
    assert_int_equal(pthread_join(slow.thief, NULL), 0);
    assert_int_equal(weir_block_address(slow.stolen), address);
    ok(weir_pool_unobserve(w.pool, &slow));
    close_world(&w);
    end_judge(&slow.judge);
}

/* --- rare interleavings of threads --- */

struct visit {
    struct world *w;
    struct judge *judge;
    atomic_bool ended;
};

static void *begin_to_observe(void *ctx)
{
    struct visit *visit = ctx;
    must(weir_pool_observe(visit->w->pool, &judging, visit->judge) == WEIR_OK, "observe", 0, 0);
    return NULL;
}

/* An observer is attached while the pool is in a device call that takes or gives back memory. */
TEST(memory_on_its_way_is_told_once)
{
    static const char *const calls[2][2] = {{"region_free", "region_alloc"}, {"vm_unmap", "vm_map"}};
    for (int i = 0; i < 4; i++) {
        struct world w;
        struct judge judge = new_judge();
        struct visit visit = {.w = &w, .judge = &judge};
        open_world(&w, i % 2 == 1, 0);
        ok(weir_pool_alloc(w.pool, w.stream[0], 3 * REGION, 0, &w.held[w.blocks++]));
        ok(weir_pool_alloc(w.pool, w.stream[0], 5 * REGION, 0, &w.held[w.blocks]));
        ok(weir_pool_free(w.pool, w.held[w.blocks], w.stream[0]));
        slow_call.meanwhile = begin_to_observe;
        slow_call.ctx = &visit;
        slow_call.began = false;
        slow_call.call = calls[i % 2][i / 2];
        if (i / 2 == 0) {
            ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL));
        } else {
            ok(weir_pool_alloc(w.pool, w.stream[0], 9 * REGION, 0, &w.held[w.blocks++]));
        }
        assert_true(slow_call.began);
        assert_int_equal(pthread_join(slow_call.thread, NULL), 0);
        agrees(&w, &judge);
        close_world(&w);
        assert_int_equal(judge.blocks.count + judge.memory.count, 0);
        end_judge(&judge);
    }
}

static void *free_from_elsewhere(void *ctx)
{
    struct world *w = ctx;
    must(weir_pool_free(w->pool, w->held[--w->blocks], w->stream[0]) == WEIR_OK, "free", 0, 0);
    return NULL;
}

static void *trim_meanwhile(void *ctx)
{
    struct world *w = ctx;
    must(weir_pool_trim(w->pool, 0, 0, NULL) == WEIR_OK, "trim", 0, 0);
    return NULL;
}

static void *free_when_the_first_stream_is_locked(void *ctx)
{
    take_ms(30);
    return free_from_elsewhere(ctx);
}

/* A block enters the remote free list of the first stream while an observer is attached, which takes the locks of all
 * streams. One thread holds the lock of the second stream, in a device call. This thread holds the lock of the first
 * stream and waits for the second. A third thread frees the block on the first stream. */
TEST(a_block_in_a_remote_free_list_is_freed_later)
{
    for (int tries = 0; tries < 3; tries++) {
        struct world w;
        struct judge judge = new_judge();
        pthread_t trimming;
        open_world(&w, false, 0);
        for (int i = 0; i < 2; i++) { /* this thread feeds both streams */
            ok(weir_pool_alloc(w.pool, w.stream[i], 200 * KIB, 0, &w.held[i]));
        }
        w.blocks = 1;
        ok(weir_pool_free(w.pool, w.held[1], w.stream[1]));
        busy(w.sim, w.native[1], LONG_NS);
        slow_call.meanwhile = free_when_the_first_stream_is_locked;
        slow_call.ctx = &w;
        slow_call.began = false;
        /* the device call by which the trim asks how far the work of the second stream has come */
        slow_call.call = "event_";
        assert_int_equal(pthread_create(&trimming, NULL, trim_meanwhile, &w), 0);
        take_ms(15);
        ok(weir_pool_observe(w.pool, &judging, &judge));
        assert_int_equal(pthread_join(trimming, NULL), 0);
        assert_true(slow_call.began);
        assert_int_equal(pthread_join(slow_call.thread, NULL), 0);
        (void)weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL);
        agrees(&w, &judge);
        close_world(&w);
        assert_int_equal(judge.blocks.count + judge.memory.count, 0);
        end_judge(&judge);
    }
}

static void tell_alloc_slowly(void *ctx, const weir_observed_block *block)
{
    struct visit *visit = ctx;
    (void)block;
    take_ms(60);
    must(!atomic_load(&visit->ended), "told after the end", 0, 0);
}

static void *alloc_meanwhile(void *ctx)
{
    struct visit *visit = ctx;
    must(weir_pool_alloc(visit->w->pool, visit->w->stream[1], 1000, 0, &visit->w->held[0]) == WEIR_OK, "alloc", 0, 0);
    return NULL;
}

TEST(unobserve_waits_for_running_callbacks)
{
    struct world w;
    struct visit visit = {.w = &w};
    pthread_t thread;
    weir_observer_ops slowly = {.struct_size = sizeof(slowly), .block_alloc = tell_alloc_slowly};
    open_world(&w, false, 0);
    ok(weir_pool_observe(w.pool, &slowly, &visit));
    assert_int_equal(pthread_create(&thread, NULL, alloc_meanwhile, &visit), 0);
    take_ms(20);
    ok(weir_pool_unobserve(w.pool, &visit));
    atomic_store(&visit.ended, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close_world(&w);
}

/* Any thread may free blocks that another thread allocated. */
struct shared {
    struct world w;
    weir_block *_Atomic table[handed];
    atomic_bool stop;
};

struct hand {
    struct shared *shared;
    uint64_t random;
    int lane;
};

static void *pass_blocks_round(void *ctx)
{
    struct hand *hand = ctx;
    struct shared *shared = hand->shared;
    struct world mine = {.random = hand->random};
    for (int step = 0; step < thread_steps; step++) {
        weir_block *block = NULL;
        const uint64_t size = below(&mine, 4) == 0 ? 1 + below(&mine, REGION) : 512;
        weir_status status = weir_pool_alloc(shared->w.pool, shared->w.stream[hand->lane], size, 0, &block);
        block = atomic_exchange(&shared->table[below(&mine, handed)], status == WEIR_OK ? block : NULL);
        if (block != NULL) {
            must(weir_pool_free(shared->w.pool, block, shared->w.stream[below(&mine, lanes)]) == WEIR_OK, "free", 0, 0);
        }
        if (below(&mine, 300) == 0) {
            status = weir_pool_trim(shared->w.pool, 0, WEIR_TRIM_WAIT, NULL);
            must(status == WEIR_OK, "trim", 0, 0);
        }
    }
    return NULL;
}

static void *come_and_go(void *ctx)
{
    struct shared *shared = ctx;
    long visit = 0;
    while (!atomic_load(&shared->stop)) {
        struct judge judge = new_judge();
        must(weir_pool_observe(shared->w.pool, &judging, &judge) == WEIR_OK, "observe", 0, 0);
        take_ms(visit++ % 3);
        must(weir_pool_unobserve(shared->w.pool, &judge) == WEIR_OK, "unobserve", 0, 0);
        end_judge(&judge);
    }
    return NULL;
}

/* One observer stays attached. Another one is attached and detached again and again: its detach neither misses a call
 * nor waits for ever. */
struct crowd {
    struct world w;
    atomic_bool done;
    atomic_uint working;
};

static void *churn(void *ctx)
{
    struct crowd *crowd = ctx;
    const unsigned lane = atomic_fetch_add(&crowd->working, 1) % lanes;
    while (!atomic_load(&crowd->done)) {
        weir_block *block = NULL;
        must(weir_pool_alloc(crowd->w.pool, crowd->w.stream[lane], 1000, 0, &block) == WEIR_OK, "alloc", 0, 0);
        must(weir_pool_use(crowd->w.pool, block, crowd->w.stream[0]) == WEIR_OK, "use", 0, 0);
        must(weir_pool_free(crowd->w.pool, block, crowd->w.stream[lane]) == WEIR_OK, "free", 0, 0);
    }
    return NULL;
}

static void count_block(void *ctx, const weir_observed_block *block)
{
    (void)block;
    atomic_fetch_add((atomic_uint *)ctx, 1);
}

TEST(observations_end_while_another_goes_on)
{
    static struct crowd crowd;
    const weir_observer_ops counting = {
        .struct_size = sizeof(counting), .block_alloc = count_block, .block_use = count_block};
    struct judge judge = new_judge();
    pthread_t threads[3];
    open_world(&crowd.w, false, 0);
    ok(weir_pool_observe(crowd.w.pool, &judging, &judge));
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &crowd), 0);
    }
    while (atomic_load(&crowd.working) < 3) {
        take_ms(1);
    }
    for (int round = 0; round < 200; round++) {
        atomic_uint *calls = calloc(1, sizeof(*calls)); /* freed after the end of the observation */
        assert_non_null(calls);
        ok(weir_pool_observe(crowd.w.pool, &counting, calls));
        while (atomic_load(calls) < 10) {
            (void)sched_yield();
        }
        ok(weir_pool_unobserve(crowd.w.pool, calls));
        const unsigned told = atomic_load(calls);
        (void)sched_yield();
        assert_int_equal(atomic_load(calls), told);
        free(calls);
    }
    atomic_store(&crowd.done, true);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    agrees(&crowd.w, &judge);
    close_world(&crowd.w);
    end_judge(&judge);
}

TEST(judges_several_threads)
{
    for (int round = 0; round < 4; round++) {
        struct shared shared = {.stop = false};
        struct hand hands[2];
        pthread_t threads[2];
        pthread_t visitor;
        struct judge judge = new_judge();
        const bool visits = round >= 2;
        open_world(&shared.w, round % 2 == 1, 0);
        if (visits) {
            assert_int_equal(pthread_create(&visitor, NULL, come_and_go, &shared), 0);
        } else {
            ok(weir_pool_observe(shared.w.pool, &judging, &judge));
        }
        for (int i = 0; i < 2; i++) {
            hands[i] = (struct hand){.shared = &shared, .random = (uint64_t)i + 1, .lane = i};
            assert_int_equal(pthread_create(&threads[i], NULL, pass_blocks_round, &hands[i]), 0);
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        }
        atomic_store(&shared.stop, true);
        if (visits) {
            assert_int_equal(pthread_join(visitor, NULL), 0);
            ok(weir_pool_observe(shared.w.pool, &judging, &judge));
        }
        ok(weir_pool_check(shared.w.pool, NULL));
        close_world(&shared.w);
        assert_true(judge.gone);
        assert_int_equal(judge.blocks.count + judge.memory.count, 0);
        end_judge(&judge);
    }
}
