/* tests/pool/stress/pool_threads.c: several threads use one pool.
 *
 * Each worker has streams of its own, allocates, works and frees on them, retires them from time to time, and passes
 * blocks to other workers through a queue, with an event that orders the next user after the last. The receiving worker
 * continues to work with the block, or frees it on the stream that it came from. From time to time it pins the memory
 * of a block, which is then the same until the unpin, whatever becomes of the block. Meanwhile one more thread walks,
 * checks, trims, reads statistics, looks up addresses, names tags, changes limits and asks which groups would fit. The
 * auditor must find nothing, check must pass at every moment, and no memory may be lost. Run under a thread sanitizer,
 * the program also shows that there is no data race.
 *
 * In the second test all workers feed the same streams. In the third test each worker feeds one stream and passes all
 * its blocks to its neighbour, which frees them there. There is enough memory and the onlooker rarely runs, so that the
 * threads that feed a stream take the remote frees back.
 *
 * In the fourth test the device has room for exactly the memory that one worker requests, while the other thread
 * repeatedly takes every idle region away. Every refusal is an error then, even while a region is on its way back to
 * the device.
 *
 * The tests run over pools that take regions and over pools that map granules.
 *
 * Workers only count errors: assertions belong to the main thread, which joins all other threads first.
 *
 *   pool_threads [ROUNDS [SEED]]     or WEIR_ROUNDS and WEIR_SEED in the environment
 *
 * In the environment: WEIR_THREADS (4) workers over WEIR_STREAMS (8) streams; WEIR_SECONDS for each test replaces the
 * number of rounds. / */
#include "rig/test.h"
#include "random_program.h"

#include <weir/budget.h>
#include <weir/pin.h>
#include <weir/pool.h>
#include <weir/sim.h>

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    most_workers = 64,
    most_streams = 64,
    most_held = 12,
    queue_slots = 32,
    pass_slots = 1024,
    pass_at_once = 32,
    growths = 3
};

#if defined(__SANITIZE_THREAD__)
static uint64_t rounds = 700;
#else
static uint64_t rounds = 3000;
#endif
static uint64_t first_seed = 1;
static uint64_t seconds; /* 0: a fixed number of rounds */
static unsigned workers = 4;
static unsigned streams = 8;

struct fed_stream {
    weir_sim_stream *native;
    weir_stream *stream;
    /* number of queued or held blocks that may still be freed on this stream; while it is above 0, the stream must not
     * be retired */
    atomic_uint abroad;
};

/* A block on its way to another worker. `event` was recorded after the last work on the block. */
struct parcel {
    weir_block *block;
    weir_event *event;
    struct fed_stream *home;
};

struct shared {
    weir_sim *sim;
    weir_device *device;
    weir_pool *pool;
    pthread_mutex_t mutex; /* guards the queue */
    struct parcel queue[queue_slots];
    unsigned queued;
    atomic_bool done;
    atomic_uint_least64_t address; /* address of some block, to look up */
    bool may_fail;
    bool common; /* every worker may feed every stream; the pool is then told of no events (weir_stream_recorded) */
    uint64_t deadline_ns; /* 0: a fixed number of rounds */
    struct fed_stream streams[most_streams];
    unsigned neighbours; /* workers that feed one stream each */
    /* [i]: blocks from worker i to its neighbour; NULL: empty slot */
    _Atomic(weir_block *) passed[most_workers][pass_slots];
    bool maps; /* the pool has virtual memory */
};

struct worker {
    struct shared *shared;
    uint64_t random;
    unsigned first_stream; /* first of the shared streams that this worker feeds */
    unsigned stream_count;
    weir_block *held[most_held];
    struct fed_stream *home[most_held]; /* the stream that is ordered after all work so far */
    unsigned count;
    uint64_t pinned;         /* the address of this worker's pin of one byte; 0: none */
    weir_memory_info memory; /* under the pin when it was made */
    uint64_t allocs;
    uint64_t frees;
    uint64_t refused;
    uint64_t errors;
    const char *first_error;
};

#define expect(worker, condition)                                                                                      \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (worker)->errors++;                                                                                        \
            (worker)->first_error = (worker)->first_error != NULL ? (worker)->first_error : #condition;                \
        }                                                                                                              \
    } while (0)

static uint64_t below(struct worker *w, uint64_t n)
{
    return chance(&w->random) % n;
}

/* --- the queue --- */

static bool push(struct shared *shared, struct parcel parcel)
{
    (void)pthread_mutex_lock(&shared->mutex);
    const bool room = shared->queued < queue_slots;
    if (room) {
        shared->queue[shared->queued++] = parcel;
    }
    (void)pthread_mutex_unlock(&shared->mutex);
    return room;
}

static bool pop(struct shared *shared, struct parcel *parcel)
{
    (void)pthread_mutex_lock(&shared->mutex);
    const bool any = shared->queued > 0;
    if (any) {
        *parcel = shared->queue[0];
        shared->queue[0] = shared->queue[--shared->queued];
    }
    (void)pthread_mutex_unlock(&shared->mutex);
    return any;
}

/* --- a worker --- */

static bool open_stream(struct shared *shared, struct fed_stream *stream)
{
    return weir_sim_stream_create(shared->sim, &stream->native) == WEIR_OK &&
           weir_pool_stream(shared->pool, stream->native, &stream->stream) == WEIR_OK;
}

static struct fed_stream *some_stream(struct worker *w)
{
    return &w->shared->streams[w->first_stream + below(w, w->stream_count)];
}

static void work_on(struct worker *w, weir_block *block, const struct fed_stream *stream)
{
    weir_sim_access access = {.address = weir_block_address(block), .size = weir_block_capacity(block), .write = true};
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = below(w, 20000);
    work.accesses = &access;
    work.access_count = 1;
    work.tag = "work";
    expect(w, weir_sim_launch(w->shared->sim, stream->native, &work) == WEIR_OK);
}

static void keep(struct worker *w, weir_block *block, struct fed_stream *stream)
{
    w->held[w->count] = block;
    w->home[w->count++] = stream;
    work_on(w, block, stream);
}

static void take(struct worker *w, uint64_t size)
{
    struct fed_stream *stream = some_stream(w);
    weir_block *block = NULL;
    const weir_tag tag = (weir_tag)below(w, 4); /* 0: no tag; tags 1 to 3 got their names when the pool was created */
    const weir_status status = weir_pool_alloc_tagged(w->shared->pool, stream->stream, size, 0, tag, &block);
    if (status != WEIR_OK) {
        w->refused++;
        expect(w, w->shared->may_fail && status == WEIR_ERR_NO_MEMORY);
        return;
    }
    w->allocs++;
    expect(w, weir_block_size(block) == size && weir_block_capacity(block) >= size);
    expect(w, weir_block_tag(block) == tag);
    weir_sim_block_alloc(w->shared->sim, weir_block_address(block), weir_block_capacity(block), stream->native,
                         "alloc");
    atomic_store(&w->shared->address, weir_block_address(block));
    keep(w, block, stream);
}

static void drop_from_list(struct worker *w, unsigned index)
{
    w->count--;
    w->held[index] = w->held[w->count];
    w->home[index] = w->home[w->count];
}

/* Frees the block in one of three ways: on the stream of the last work, on another stream after weir_pool_use, or after
 * the host has waited. */
static void give(struct worker *w, unsigned index)
{
    struct shared *shared = w->shared;
    weir_block *block = w->held[index];
    struct fed_stream *home = w->home[index];
    struct fed_stream *other = some_stream(w);
    const uint64_t way = below(w, 8);
    drop_from_list(w, index);
    w->frees++;
    if (way == 0) {
        expect(w, weir_device_stream_sync(shared->device, home->native) == WEIR_OK);
        weir_sim_block_free(shared->sim, weir_block_address(block), NULL, "free_idle");
        expect(w, weir_pool_free_idle(shared->pool, block) == WEIR_OK);
    } else if (way <= 2) {
        expect(w, weir_pool_use(shared->pool, block, home->stream) == WEIR_OK);
        weir_sim_block_free(shared->sim, weir_block_address(block), other->native, "free elsewhere");
        expect(w, weir_pool_free(shared->pool, block, other->stream) == WEIR_OK);
    } else {
        weir_sim_block_free(shared->sim, weir_block_address(block), home->native, "free");
        expect(w, weir_pool_free(shared->pool, block, home->stream) == WEIR_OK);
    }
}

static void forget(struct worker *w, weir_event *event)
{
    expect(w, weir_event_forgotten(w->shared->pool, event) == WEIR_OK);
    expect(w, weir_device_event_destroy(w->shared->device, event) == WEIR_OK);
}

static void send(struct worker *w, unsigned index)
{
    struct shared *shared = w->shared;
    struct fed_stream *home = w->home[index];
    struct parcel parcel = {.block = w->held[index], .home = home};
    expect(w, weir_device_event_create(shared->device, &parcel.event) == WEIR_OK);
    expect(w, weir_device_event_record(shared->device, parcel.event, home->native) == WEIR_OK);
    expect(w, shared->common || weir_stream_recorded(shared->pool, parcel.event, home->stream) == WEIR_OK);
    (void)atomic_fetch_add(&home->abroad, 1);
    if (push(shared, parcel)) {
        drop_from_list(w, index);
    } else {
        (void)atomic_fetch_sub(&home->abroad, 1);
        forget(w, parcel.event);
    }
}

/* Frees another worker's block on the stream of its allocation, after a use or without any access. Meanwhile the other
 * worker may tell the pool of an event (weir_stream_recorded); that is correct, because it queues no more work for the
 * block. */
static void send_back(struct worker *w, const struct parcel *parcel, bool touched)
{
    struct shared *shared = w->shared;
    weir_block *block = parcel->block;
    if (touched) {
        const struct fed_stream *own = some_stream(w);
        expect(w, weir_device_stream_wait_event(shared->device, own->native, parcel->event) == WEIR_OK);
        work_on(w, block, own);
        expect(w, weir_pool_use(shared->pool, block, own->stream) == WEIR_OK);
    }
    w->frees++;
    weir_sim_block_free(shared->sim, weir_block_address(block), parcel->home->native, "free at home");
    expect(w, weir_pool_free(shared->pool, block, parcel->home->stream) == WEIR_OK);
}

static void take_over(struct worker *w, const struct parcel *parcel)
{
    struct shared *shared = w->shared;
    struct fed_stream *own = some_stream(w);
    expect(w, weir_device_stream_wait_event(shared->device, own->native, parcel->event) == WEIR_OK);
    if (!shared->common && below(w, 3) != 0) {
        expect(w, weir_stream_waited(shared->pool, own->stream, parcel->event) == WEIR_OK);
    }
    keep(w, parcel->block, own);
}

static void receive(struct worker *w)
{
    struct shared *shared = w->shared;
    struct parcel parcel;
    if (w->count == most_held || !pop(shared, &parcel)) {
        return;
    }
    const uint64_t way = below(w, 4);
    if (way == 0) {
        take_over(w, &parcel);
    } else {
        send_back(w, &parcel, way == 1);
    }
    (void)atomic_fetch_sub(&parcel.home->abroad, 1);
    forget(w, parcel.event);
}

/* Retires a stream. The retirement has waited for all work on its blocks, so any stream may use them next. */
static void renew_stream(struct worker *w, struct fed_stream *own)
{
    if (w->shared->common || atomic_load(&own->abroad) != 0) {
        return;
    }
    expect(w, weir_stream_retire(w->shared->pool, own->stream) == WEIR_OK);
    expect(w, weir_sim_stream_destroy(w->shared->sim, own->native) == WEIR_OK);
    expect(w, open_stream(w->shared, own));
}

static void unpin(struct worker *w)
{
    weir_memory_info now = WEIR_MEMORY_INFO_INIT;
    expect(w, weir_pool_find_memory(w->shared->pool, w->pinned, &now) == WEIR_OK);
    expect(w, now.address == w->memory.address && now.size == w->memory.size && now.handle == w->memory.handle);
    expect(w, weir_pool_unpin(w->shared->pool, w->pinned, 1) == WEIR_OK);
    w->pinned = 0;
}

static void pin_or_unpin(struct worker *w)
{
    if (w->pinned != 0) {
        unpin(w);
    } else if (w->count > 0) {
        w->pinned = weir_block_address(w->held[0]);
        w->memory = (weir_memory_info)WEIR_MEMORY_INFO_INIT;
        expect(w, weir_pool_pin(w->shared->pool, w->pinned, 1) == WEIR_OK);
        expect(w, weir_pool_find_memory(w->shared->pool, w->pinned, &w->memory) == WEIR_OK && w->memory.pins > 0);
    }
}

static uint64_t some_size(struct worker *w)
{
    switch (below(w, 4)) {
    case 0:
        return 1 + below(w, 256 * KIB);
    case 1:
        return 1 + below(w, 4 * KIB);
    default:
        return UINT64_C(512) << below(w, 4);
    }
}

static void do_round(struct worker *w)
{
    const uint64_t dice = below(w, 100);
    if (dice < 38 && w->count < most_held) {
        take(w, some_size(w));
    } else if (dice < 74 && w->count > 0) {
        give(w, (unsigned)below(w, w->count));
    } else if (dice < 84 && w->count > 0) {
        send(w, (unsigned)below(w, w->count));
    } else if (dice < 95) {
        receive(w);
    } else if (dice < 96) {
        renew_stream(w, some_stream(w));
    } else if (dice < 97) {
        pin_or_unpin(w);
    } else {
        weir_sim_advance(w->shared->sim, below(w, 50000));
    }
}

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool goes_on(const struct worker *w, uint64_t round)
{
    return w->shared->deadline_ns == 0 ? round < rounds : now_ns() < w->shared->deadline_ns;
}

static void *churn(void *ctx)
{
    struct worker *w = ctx;
    for (uint64_t round = 0; goes_on(w, round); round++) {
        do_round(w);
    }
    while (w->count > 0) {
        give(w, 0);
    }
    return NULL;
}

/* --- frees by a neighbour --- */

/* Frees another worker's block on the block's home stream, on which the block's work is already queued. No other thread
 * touches the block. */
static void free_for(struct worker *w, weir_block *block, const struct fed_stream *home)
{
    weir_sim_block_free(w->shared->sim, weir_block_address(block), home->native, "free for another");
    expect(w, weir_pool_free(w->shared->pool, block, home->stream) == WEIR_OK);
    w->frees++;
}

static void pass_on(struct worker *w, unsigned slot)
{
    _Atomic(weir_block *) *place = &w->shared->passed[w->first_stream][slot];
    take(w, UINT64_C(512) << below(w, 3));
    if (w->count == 0) {
        return;
    }
    weir_block *block = w->held[0];
    const struct fed_stream *home = w->home[0];
    drop_from_list(w, 0);
    if (atomic_load_explicit(place, memory_order_relaxed) == NULL) {
        atomic_store_explicit(place, block, memory_order_release);
    } else {
        free_for(w, block, home);
    }
}

/* Frees the blocks that the worker before this one has passed on, on that worker's stream. */
static void clear_up(struct worker *w, unsigned giver)
{
    for (unsigned i = 0; i < pass_slots; i++) {
        weir_block *block = atomic_exchange_explicit(&w->shared->passed[giver][i], NULL, memory_order_acquire);
        if (block != NULL) {
            free_for(w, block, &w->shared->streams[giver]);
        }
    }
}

static void *churn_for_another(void *ctx)
{
    struct worker *w = ctx;
    unsigned slot = 0;
    const unsigned giver = (w->first_stream + w->shared->neighbours - 1) % w->shared->neighbours;
    for (uint64_t round = 0; goes_on(w, round); round++) {
        for (unsigned i = 0; i < pass_at_once; i++) {
            pass_on(w, slot++ % pass_slots);
        }
        if (below(w, 4) == 0) {
            clear_up(w, giver);
        }
        if (below(w, 16) == 0) {
            weir_sim_advance(w->shared->sim, below(w, 50000));
        }
    }
    return NULL;
}

/* --- the onlooker --- */

static bool count_bytes(void *ctx, const weir_walk_entry *entry)
{
    *(uint64_t *)ctx += entry->size;
    return true;
}

/* Names tags while other threads count under the old names, changes limits while other threads take memory, and reads
 * statistics and forecasts. */
static void look_at_budget(struct worker *w, weir_stream *stream, uint64_t turn)
{
    struct shared *shared = w->shared;
    char name[16];
    weir_tag tag = 0;
    weir_tag_stats stats = WEIR_TAG_STATS_INIT;
    uint64_t fit = 0;
    (void)snprintf(name, sizeof(name), "tag %u", (unsigned)(turn % 200));
    expect(w, weir_pool_tag(shared->pool, name, &tag) == WEIR_OK);
    expect(w, strcmp(weir_pool_tag_name(shared->pool, tag), name) == 0);
    expect(w, weir_pool_get_tag_stats(shared->pool, 1, &stats) == WEIR_OK);
    expect(w, stats.peak_requested_bytes >= stats.requested_bytes);
    expect(w, weir_pool_would_fit(shared->pool, stream, 4 * KIB, 1 + below(w, 99), &fit) == WEIR_OK);
    expect(w, weir_pool_set_limits(shared->pool, below(w, 2) * 256 * KIB, (1 + below(w, 2)) * 512 * KIB) == WEIR_OK);
}

static void look(struct worker *w, uint64_t turn)
{
    struct shared *shared = w->shared;
    const char *why = NULL;
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    weir_block *found = NULL;
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    uint64_t bytes = 0;
    expect(w, weir_pool_get_stats(shared->pool, &stats) == WEIR_OK);
    expect(w, weir_pool_walk(shared->pool, count_bytes, &bytes) == WEIR_OK);
    if (weir_pool_check(shared->pool, &why) != WEIR_OK) {
        w->errors++;
        w->first_error = why;
    }
    (void)!(weir_pool_find(shared->pool, atomic_load(&shared->address), &found) == WEIR_OK);
    expect(w, weir_pool_get_oom(shared->pool, &record) == WEIR_OK);
    if (turn % 4 == 0) {
        expect(w, weir_pool_trim(shared->pool, 0, turn % 8 == 0 ? WEIR_TRIM_WAIT : 0, NULL) == WEIR_OK);
    }
}

/* The onlooker: it runs without pause for a while, then only from time to time. A stream that is inspected too often
 * loses its biased lock, and then the paths that need a biased lock are not tested. */
static void *look_on(void *ctx)
{
    struct worker *w = ctx;
    struct fed_stream own = {0}; /* a stream for its questions */
    expect(w, open_stream(w->shared, &own));
    for (uint64_t turn = 0; !atomic_load(&w->shared->done); turn++) {
        look(w, turn);
        look_at_budget(w, own.stream, turn);
        if (turn / 64 % 2 == 0) {
            (void)sched_yield();
        } else {
            (void)nanosleep(&(struct timespec){.tv_nsec = (long)below(w, 2000000)}, NULL);
        }
    }
    return NULL;
}

static void *look_now_and_then(void *ctx)
{
    struct worker *w = ctx;
    for (uint64_t turn = 0; !atomic_load(&w->shared->done); turn++) {
        look(w, turn);
        (void)nanosleep(&(struct timespec){.tv_nsec = (long)below(w, 10000000)}, NULL);
    }
    return NULL;
}

/* --- running them --- */

static void give_parcels_back(struct shared *shared, struct worker *w)
{
    struct parcel parcel;
    while (pop(shared, &parcel)) {
        assert_int_equal(weir_device_event_sync(shared->device, parcel.event), WEIR_OK);
        weir_sim_block_free(shared->sim, weir_block_address(parcel.block), NULL, "left over");
        assert_int_equal(weir_pool_free_idle(shared->pool, parcel.block), WEIR_OK);
        assert_int_equal(weir_event_forgotten(shared->pool, parcel.event), WEIR_OK);
        assert_int_equal(weir_device_event_destroy(shared->device, parcel.event), WEIR_OK);
        w->frees++;
    }
}

static void report(const struct worker *w)
{
    if (w->errors > 0) {
        print_error("%" PRIu64 " errors, the first: %s\n", w->errors, w->first_error);
    }
}

/* Runs `count` workers and an onlooker. The onlooker starts last and ends when the workers are done. */
static void run_threads(struct shared *shared, struct worker *all, unsigned count, void *(*body)(void *ctx),
                        void *(*onlooker)(void *ctx))
{
    pthread_t threads[most_workers + 1];
    const unsigned each = streams / count > 0 ? streams / count : 1;
    unsigned started = 0;
    for (unsigned i = 0; i < (shared->common ? streams : each * count); i++) {
        assert_true(open_stream(shared, &shared->streams[i]));
    }
    for (unsigned i = 0; i <= count && started == i; i++) {
        all[i].shared = shared;
        all[i].random = first_seed * 1000 + i;
        all[i].first_stream = shared->common ? 0 : each * i;
        all[i].stream_count = shared->common ? streams : each;
        started += pthread_create(&threads[i], NULL, i < count ? body : onlooker, &all[i]) == 0;
    }
    for (unsigned i = 0; i < count && i < started; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    atomic_store(&shared->done, true);
    if (started == count + 1) {
        (void)pthread_join(threads[count], NULL);
    }
    assert_int_equal(started, count + 1);
}

static void judge(struct shared *shared, struct worker *all)
{
    uint64_t allocs = 0;
    uint64_t frees = 0;
    uint64_t errors = 0;
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    const char *why = "";
    give_parcels_back(shared, &all[0]);
    for (unsigned i = 0; i <= most_workers; i++) {
        if (all[i].pinned != 0) {
            unpin(&all[i]);
        }
        report(&all[i]);
        allocs += all[i].allocs;
        frees += all[i].frees;
        errors += all[i].errors;
    }
    assert_int_equal(errors, 0);
    assert_int_equal(weir_pool_get_stats(shared->pool, &stats), WEIR_OK);
    print_message("%" PRIu64 " allocs, %" PRIu64 " refused, %" PRIu64 " front hits, %" PRIu64 " waits, %" PRIu64
                  " syncs\n",
                  stats.allocs, stats.failures, stats.served[WEIR_RUNG_FRONT], stats.waits, stats.syncs);
    assert_int_equal(stats.allocs, allocs);
    assert_int_equal(stats.frees, frees);
    assert_int_equal(allocs, frees);
    assert_int_equal(stats.live_bytes, 0);
    assert_int_equal(stats.requested_bytes, 0);
    assert_int_equal(stats.pinned_bytes, 0);
    for (weir_tag tag = 0; tag < 4; tag++) {
        weir_tag_stats held = WEIR_TAG_STATS_INIT;
        assert_int_equal(weir_pool_get_tag_stats(shared->pool, tag, &held), WEIR_OK);
        assert_int_equal(held.blocks, 0);
        assert_int_equal(held.requested_bytes, 0);
        assert_int_equal(held.allocs, held.frees);
    }
    if (weir_pool_check(shared->pool, &why) != WEIR_OK) {
        print_error("check: %s\n", why);
        fail();
    }
}

static void finish(struct shared *shared)
{
    weir_sim_finding finding;
    weir_sim_stats stats = WEIR_SIM_STATS_INIT;
    assert_int_equal(weir_pool_destroy(shared->pool), WEIR_OK);
    assert_int_equal(weir_sim_sync(shared->sim), WEIR_OK);
    assert_int_equal(weir_sim_get_stats(shared->sim, &stats), WEIR_OK);
    weir_sim_audit_leaks(shared->sim);
    for (size_t i = 0; i < 4 && weir_sim_finding_at(shared->sim, i, &finding); i++) {
        print_error("finding: %s\n", finding.text);
    }
    assert_int_equal(weir_sim_finding_count(shared->sim, WEIR_SIM_FINDING_KINDS), 0);
    assert_int_equal(stats.held_bytes, 0);
    assert_int_equal(stats.audit_lost, 0);
    assert_int_equal(weir_sim_destroy(shared->sim), WEIR_OK);
    (void)pthread_mutex_destroy(&shared->mutex);
}

static void start(struct shared *shared, uint64_t granularity, uint64_t capacity, weir_growth growth)
{
    weir_sim_config device = WEIR_SIM_CONFIG_INIT;
    device.region_granularity_bytes = granularity;
    device.capacity_bytes = capacity;
    device.page_bytes = shared->maps ? granularity / 8 : granularity;
    device.no_virtual_memory = !shared->maps;
    assert_int_equal(weir_sim_create(&device, &shared->sim), WEIR_OK);
    shared->device = weir_sim_device(shared->sim);
    weir_caching_config caching = WEIR_CACHING_CONFIG_INIT;
    caching.small_region_bytes = granularity;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = shared->device;
    config.strategy = weir_caching_strategy();
    config.strategy_config = &caching;
    config.growth = growth;
    config.flags = shared->maps ? 0 : WEIR_POOL_REGIONS;
    assert_int_equal(weir_pool_create(&config, &shared->pool), WEIR_OK);
    for (unsigned i = 1; i < 4; i++) {
        const char name[2] = {(char)('a' + i), '\0'};
        weir_tag tag = 0;
        assert_int_equal(weir_pool_tag(shared->pool, name, &tag), WEIR_OK);
    }
    assert_int_equal(pthread_mutex_init(&shared->mutex, NULL), 0);
    shared->deadline_ns = seconds != 0 ? now_ns() + seconds * 1000000000u / (2 * growths) : 0;
}

static void everything_at_once(bool common)
{
    for (int turn = 0; turn < 2 * growths; turn++) {
        struct shared shared = {.may_fail = true, .common = common, .maps = turn % 2 != 0};
        struct worker all[most_workers + 1] = {0};
        start(&shared, 64 * KIB, workers * 256 * KIB, (weir_growth)(turn / 2));
        run_threads(&shared, all, workers, churn, look_on);
        judge(&shared, all);
        finish(&shared);
    }
}

TEST(test_everything_at_once)
{
    everything_at_once(false);
}

TEST(test_all_feed_the_same_streams)
{
    everything_at_once(true);
}

TEST(test_neighbours_free)
{
    struct shared shared = {.neighbours = workers};
    struct worker all[most_workers + 1] = {0};
    const unsigned before = streams;
    streams = workers;
    start(&shared, 2 * MIB, 64 * MIB, WEIR_GROWTH_BALANCED);
    run_threads(&shared, all, workers, churn_for_another, look_now_and_then);
    for (unsigned i = 0; i < workers; i++) {
        clear_up(&all[0], i);
    }
    judge(&shared, all);
    finish(&shared);
    streams = before;
}

/* --- no refusal while another thread returns a region --- */

static void *take_away(void *ctx)
{
    struct worker *w = ctx;
    for (uint64_t turn = 0; !atomic_load(&w->shared->done); turn++) {
        const uint32_t flags = turn % 2 == 0 ? WEIR_TRIM_WAIT : 0;
        expect(w, weir_pool_trim(w->shared->pool, 0, flags, NULL) == WEIR_OK);
    }
    return NULL;
}

static void *one_at_a_time(void *ctx)
{
    struct worker *w = ctx;
    for (uint64_t round = 0; goes_on(w, round); round++) {
        take(w, below(w, 2) == 0 ? 64 * KIB : 1 + below(w, 64 * KIB));
        if (below(w, 4) == 0) {
            weir_sim_advance(w->shared->sim, below(w, 10000));
        }
        if (w->count > 0) {
            give(w, 0);
        }
    }
    return NULL;
}

TEST(test_nothing_is_refused_without_need)
{
    for (int turn = 0; turn < 2 * growths; turn++) {
        struct shared shared = {.may_fail = false, .maps = turn % 2 != 0};
        struct worker all[most_workers + 1] = {0};
        start(&shared, 64 * KIB, 64 * KIB, (weir_growth)(turn / 2));
        run_threads(&shared, all, 1, one_at_a_time, take_away);
        judge(&shared, all);
        finish(&shared);
    }
}

static unsigned at_most(uint64_t wanted, unsigned most)
{
    return wanted == 0 ? 1 : wanted < most ? (unsigned)wanted : most;
}

int main(int argc, char **argv)
{
    rounds = number(argc > 1 ? argv[1] : getenv("WEIR_ROUNDS"), rounds);
    first_seed = number(argc > 2 ? argv[2] : getenv("WEIR_SEED"), first_seed);
    seconds = number(getenv("WEIR_SECONDS"), seconds);
    workers = at_most(number(getenv("WEIR_THREADS"), workers), most_workers);
    streams = at_most(number(getenv("WEIR_STREAMS"), streams), most_streams);
    print_message("seed %" PRIu64 ", %u threads, %u streams\n", first_seed, workers, streams);
    return run_all_tests("threads at one pool");
}
