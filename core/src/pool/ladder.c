/* core/src/pool/ladder.c: how a request gets memory that neither the front cache nor its stream's own lane has.
 *
 * Idea: a table of rungs, cheapest first. Each rung has a condition and an action that changes something, and tells how
 * the request may be served after the action. A result found before a lock was released is not used after it: each rung
 * searches again. One loop goes through the table. At the end of the table the loop begins another attempt if there is
 * a reason to expect more: the pressure callback has helped, the hard limit replaces the soft one, other threads have
 * freed memory meanwhile, or the out-of-memory callback has helped.
 *
 * Guarantee: before a request fails, the host has waited for every stream that holds unfinished memory, and free memory
 * has been searched again.
 *
 * Cost: a search for each rung; each action states its own cost. served[] counts which rung served.
 */
#include "base/tuning.h"
#include "order/take.h"
#include "pool/pool.h"
#include "shared/cancel.h"
#include "shared/round_up.h"

typedef enum reason {
    FIRST,
    PRESSED,      /* the pressure callback has helped */
    RAISED,       /* the soft limit no longer counts */
    OTHERS_FREED, /* another thread may have moved memory between two searches of this thread, so that
                     neither search saw it */
    CALLED_BACK,  /* the out-of-memory callback has helped */
} reason;

/* One pass through the table. */
struct attempt {
    struct request *request;
    reason reason;
    int tries;      /* number of attempts made because other threads freed memory; 0 again after a callback */
    uint64_t round; /* wait round; 0: not begun */

    /* Values of the pool at the moment when this thread last held the pool's lock: */
    uint64_t reserved;
    uint64_t most;     /* 0: unknown */
    bool pays_to_wait; /* growing would exceed what is cheap by so much that a wait is cheaper */
    uint64_t region_frees;
    uint64_t slow_frees; /* pool->slow_frees at the beginning of the attempt */
};

struct rung {
    weir_rung name; /* the counter to raise; for WEIR_RUNG_LANE, the counter that names where the memory was found */
    bool (*when)(const struct attempt *attempt);
    bool (*act)(struct attempt *attempt); /* false: nothing has changed; continue with the next row of the table */
    unsigned then;                        /* LOOK_... flags (where to search), GROW, EXCHANGE and REPEAT */
};

enum {
    GROW = 8u,
    EXCHANGE = 16u,
    REPEAT = 32u, /* repeat this row of the table until its action changes nothing */
};

/* --- conditions --- */

static bool always(const struct attempt *attempt)
{
    (void)attempt;
    return true;
}

static bool was_called_back(const struct attempt *attempt)
{
    return attempt->reason == CALLED_BACK;
}

static bool follows(const struct attempt *attempt, weir_growth growth)
{
    return attempt->request->pool->config.growth == growth;
}

/* True if the stream should wait for work that still uses free memory, before the pool takes any memory. */
static bool waits_first(const struct attempt *attempt)
{
    const bool scarce = attempt->most != 0 && attempt->reserved > attempt->most / 2;
    return follows(attempt, WEIR_GROWTH_WAIT_FIRST) || (scarce && follows(attempt, WEIR_GROWTH_BALANCED));
}

/* True if the stream should wait for such work, before the pool takes more memory than is cheap. */
static bool prefers_waiting(const struct attempt *attempt)
{
    return attempt->pays_to_wait && follows(attempt, WEIR_GROWTH_BALANCED);
}

/* The same for a wait of the host, which makes memory idle, so that it can move. Regions cannot: to exchange them after
 * a wait of the host saved nothing on recordings. */
static bool prefers_syncing(const struct attempt *attempt)
{
    const struct request *request = attempt->request;
    return request->pool->vm != NULL && request->excess != 0 &&
           (prefers_waiting(attempt) || follows(attempt, WEIR_GROWTH_WAIT_FIRST));
}

/* True if another thread has given regions back since the device last refused this request. */
static bool others_gave_back(const struct attempt *attempt)
{
    return attempt->region_frees != attempt->request->region_frees;
}

/* --- actions: no lock held --- */

static bool as_it_is(struct attempt *attempt)
{
    (void)attempt;
    return true;
}

static bool poll(struct attempt *attempt)
{
    return weir__order_poll(attempt->request->pool);
}

/* Gives the blocks in the stream's front cache to the strategy, because cached blocks cannot coalesce. */
static bool flush_own(struct attempt *attempt)
{
    return weir__order_flush_to_join(attempt->request->stream);
}

static bool flush_all(struct attempt *attempt)
{
    return weir__order_flush_all(attempt->request->pool);
}

/* From now on the pool grows only as far as it is cheap. */
static bool cheaply(struct attempt *attempt)
{
    attempt->request->cheaply = true;
    return true;
}

static bool at_any_price(struct attempt *attempt)
{
    attempt->request->cheaply = false;
    attempt->round = 0;
    return true;
}

static void count_wait(struct attempt *attempt)
{
    weir_pool *pool = attempt->request->pool;
    pool_lock(pool);
    pool->held.mark.waits += attempt->request->excess != 0;
    pool_unlock(pool);
}

static bool wait_on_device(struct attempt *attempt)
{
    const bool waited = attempt->request->part == NULL && weir__order_wait_on_device(attempt->request);
    if (waited) {
        count_wait(attempt);
    }
    return waited;
}

/* The device has no more memory: from now on the request may use memory set apart for other kinds of requests. */
static bool as_last_resort(struct attempt *attempt)
{
    attempt->request->last_resort = true;
    return true;
}

/* Waits on the host for the next stream of the wait round. If a wait fails, goes on to the next stream. */
static bool sync_next(struct attempt *attempt)
{
    weir_status status = WEIR_ERR_DEVICE;
    while (status != WEIR_OK) {
        if (!weir__order_sync_next(attempt->request->pool, 0, &attempt->round, &status)) {
            return false;
        }
    }
    count_wait(attempt);
    return true;
}

/* Forgets how much memory the device had. A poll or another thread may have seen work complete, and the device may have
 * got more memory. So the request searches again and asks the device again. */
static bool ask_anew(struct attempt *attempt)
{
    attempt->request->ceiling = 0;
    return true;
}

/* --- the table --- */

static const struct rung ladder[] = {
    {WEIR_RUNG_CALLBACK, was_called_back, as_it_is, LOOK_ALL},
    {WEIR_RUNG_LANE, always, as_it_is, LOOK_FREE},
    {WEIR_RUNG_POLLED, always, poll, LOOK_FREE},
    {WEIR_RUNG_FLUSHED, always, flush_own, LOOK_FREE},
    {WEIR_RUNG_LANE, always, as_it_is, LOOK_ALL},
    {WEIR_RUNG_WAITED, waits_first, wait_on_device, LOOK_ALL},
    {WEIR_RUNG_GROWN, always, cheaply, GROW},
    {WEIR_RUNG_WAITED, prefers_waiting, wait_on_device, LOOK_ALL},
    {WEIR_RUNG_SYNCED, prefers_syncing, sync_next, LOOK_ALL | GROW | REPEAT},
    {WEIR_RUNG_GROWN, always, at_any_price, GROW},
    {WEIR_RUNG_LANE, always, as_last_resort, LOOK_ALL},
    {WEIR_RUNG_WAITED, always, wait_on_device, LOOK_ALL},
    {WEIR_RUNG_FLUSHED_ALL, always, flush_all, LOOK_ALL},
    {WEIR_RUNG_EXCHANGED, always, as_it_is, EXCHANGE},
    {WEIR_RUNG_SYNCED, always, sync_next, LOOK_ALL | EXCHANGE | REPEAT},
    {WEIR_RUNG_POLLED, always, ask_anew, LOOK_ALL | EXCHANGE},
    {WEIR_RUNG_GROWN, others_gave_back, as_it_is, GROW},
};

enum { rungs = sizeof(ladder) / sizeof(ladder[0]) };

/* --- the loop --- */

static void see(struct attempt *attempt)
{
    WEIR_ASSERT(pool_is_locked(attempt->request->pool));
    const weir_pool *pool = attempt->request->pool;
    attempt->reserved = pool->held.bytes;
    attempt->most = weir__budget_most_locked(pool, true);
    attempt->region_frees = pool->counts.region_frees;
    attempt->pays_to_wait = weir__mark_affords_wait(&pool->held.mark, attempt->request->excess);
}

static bool look(struct attempt *attempt, const struct rung *rung)
{
    weir_pool *pool = attempt->request->pool;
    weir_rung found;
    WEIR_ASSERT(outside_pool_lock(pool));
    pool_lock(pool);
    const bool served = weir__order_look_locked(attempt->request, rung->then, &found);
    if (served) {
        pool->counts.served[rung->name == WEIR_RUNG_LANE ? found : rung->name]++;
    }
    see(attempt);
    pool_unlock(pool);
    return served;
}

/* False if the rung asks the device alone, as for each part of a reserved block. The allocators that keep memory per
 * stream do so once they have waited for work: memory that the wait has freed, and that is no whole region, serves the
 * next request only. */
static bool searches(const struct attempt *attempt, const struct rung *rung)
{
    return (rung->then & LOOK_ALL) != 0 && attempt->request->part == NULL &&
           (attempt->round == 0 || !private_lanes(attempt->request->pool));
}

/* Searches, exchanges idle memory or grows, as rung->then says. exchange and grow raise the counter themselves. */
static bool serve(struct attempt *attempt, const struct rung *rung)
{
    struct request *request = attempt->request;
    const struct memory_ops *memory = request->pool->memory;
    WEIR_ASSERT((rung->then & (LOOK_ALL | EXCHANGE | GROW)) != 0);
    if (searches(attempt, rung) && look(attempt, rung)) {
        return true;
    }
    if (((rung->then & EXCHANGE) != 0 && memory->exchange(request)) ||
        ((rung->then & GROW) != 0 && memory->grow(request))) {
        return true;
    }
    pool_lock(request->pool);
    see(attempt);
    pool_unlock(request->pool);
    return false;
}

static void begin(struct attempt *attempt)
{
    struct request *request = attempt->request;
    pool_lock(request->pool);
    see(attempt);
    attempt->slow_frees = request->pool->slow_frees;
    request->keeps_whole = attempt->reason == FIRST;
    request->kept_whole = false;
    request->soft = attempt->reason != RAISED && request->pool->config.soft_limit_bytes != 0;
    pool_unlock(request->pool);
    attempt->round = 0;
    request->last_resort = false;
    request->cheaply = false;
    request->excess = 0;
    request->ceiling = 0;
}

static bool try_rungs(struct attempt *attempt)
{
    begin(attempt);
    for (const struct rung *rung = ladder; rung < ladder + rungs; rung++) {
        bool more = true;
        while (more && rung->when(attempt) && rung->act(attempt)) {
            if (serve(attempt, rung)) {
                return true;
            }
            more = (rung->then & REPEAT) != 0;
        }
    }
    return false;
}

/* --- another attempt --- */

static bool press(const struct request *request)
{
    WEIR_ASSERT(request->limited);
    uint64_t preferred = 0;
    uint64_t least = 0;
    pool_lock(request->pool);
    weir__region_sizes_locked(request->pool, request->size, request->align, request->pool->held.bytes, &preferred,
                              &least);
    pool_unlock(request->pool);
    return weir__budget_press(request, least);
}

static bool others_freed(const struct attempt *attempt)
{
    weir_pool *pool = attempt->request->pool;
    const bool flushed = weir__order_flush_all(pool);
    pool_lock(pool);
    const bool freed = flushed || pool->slow_frees != attempt->slow_frees;
    pool_unlock(pool);
    return freed;
}

static bool call_back(const struct request *request)
{
    WEIR_ASSERT(request->pool->config.oom_callback != NULL);
    weir_pool *pool = request->pool;
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    const bool helped = weir_pool_get_oom(pool, &record) == WEIR_OK &&
                        UNCANCELLED(pool->config.oom_callback(pool->config.oom_ctx, pool, &record));
    if (helped) {
        /* The request may still succeed, and a request counts as one failure at most: undo the count. */
        pool_lock(pool);
        pool->oom.failure--;
        pool_unlock(pool);
        (void)weir__order_flush_all(pool);
    }
    return helped;
}

/* Decides whether there is a reason for another attempt, and which reason. Writes the out-of-memory record before the
 * callback and before a final failure. */
static bool try_again(struct attempt *attempt)
{
    WEIR_ASSERT(attempt->request->block == NULL);
    const struct request *request = attempt->request;
    const bool can_go_on = request->broken == WEIR_OK;
    if (can_go_on && request->soft && request->limited) {
        attempt->reason = press(request) ? PRESSED : RAISED;
        return true;
    }
    if (can_go_on && ++attempt->tries < most_attempts && others_freed(attempt)) {
        attempt->reason = OTHERS_FREED;
        return true;
    }
    weir__oom_explain(request);
    attempt->tries = 0;
    attempt->reason = CALLED_BACK;
    return can_go_on && request->pool->config.oom_callback != NULL && call_back(request);
}

weir_status weir__ladder_alloc(struct request *request)
{
    WEIR_ASSERT(outside_pool_lock(request->pool) && outside_stream_lock(request->stream));
    WEIR_ASSERT(request->stream->owner == request->pool);
    WEIR_ASSERT(request->size != 0 && is_power_of_two(request->align));
    WEIR_ASSERT(request->block == NULL);
    struct attempt attempt = {.request = request, .reason = FIRST};
    bool served;
    do {
        served = try_rungs(&attempt);
    } while (!served && try_again(&attempt));
    WEIR_ASSERT(served == (request->block != NULL));
    if (served) {
        return WEIR_OK;
    }
    if (request->broken != WEIR_OK) {
        return request->broken;
    }
    const bool device_broke = request->device_status == WEIR_ERR_DEVICE || request->device_status == WEIR_ERR_INTERNAL;
    return device_broke ? WEIR_ERR_DEVICE : WEIR_ERR_NO_MEMORY;
}
