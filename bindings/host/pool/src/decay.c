/* decay.c: idle memory of a pageable pool goes back to the system by itself.
 *
 * Idea: time is cut into slots of a quarter of the decay time. The pool knows the most bytes that lay in runs of pages
 * in the current slot and in each of the last four. At the end of a slot it empties the caches of threads, if they keep
 * more runs than the margin, and gives back the memory that it holds beyond the largest of these, plus a margin. So a
 * program whose steps are shorter than the decay time keeps the memory of a whole step, and the memory of a peak goes 1
 * to 1.25 decay times after its free.
 * Guarantee: decay never blocks on its own lock and never waits for work. If the system refuses, the memory stays.
 * Cost: two atomic operations for a run of pages; one look at a coarse clock in up to 16 misses; at the end of a slot a
 * comparison, and a trim of the pool of pages only if enough is idle.
 */
#include "host_internal.h"
#include "tuning.h"

#include <time.h>

static uint64_t coarse_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void weir__host_decay_start(weir_host_pool *pool, uint64_t slot_ns, bool at_once)
{
    WEIR_ASSERT(weir__host_is_pageable(&pool->config));
    pool->decay.slot_ns = slot_ns;
    pool->decay.at_once = at_once;
    atomic_store(&pool->decay.slot_end_ns, coarse_ns() + slot_ns);
}

void weir__host_decay_take(weir__host_decay *decay, uint64_t bytes)
{
    const uint64_t used = atomic_fetch_add_explicit(&decay->used_bytes, bytes, memory_order_relaxed) + bytes;
    uint64_t most = atomic_load_explicit(&decay->most_bytes, memory_order_relaxed);
    while (used > most && !atomic_compare_exchange_weak_explicit(&decay->most_bytes, &most, used, memory_order_relaxed,
                                                                 memory_order_relaxed)) {
    }
}

void weir__host_decay_give(weir__host_decay *decay, uint64_t bytes)
{
    (void)atomic_fetch_sub_explicit(&decay->used_bytes, bytes, memory_order_relaxed);
}

static uint64_t held_by(weir__host_node *node)
{
    (void)pthread_mutex_lock(&node->chunk_lock);
    const uint64_t bytes = node->held.held_bytes;
    (void)pthread_mutex_unlock(&node->chunk_lock);
    return bytes;
}

/* Returns what decay leaves if `bytes` are used. */
static uint64_t with_margin(const weir_host_pool *pool, uint64_t bytes)
{
    return bytes + bytes / MARGIN_SHARE + MARGIN_CHUNKS * pool->config.chunk_bytes;
}

/* Empties the caches of all threads, and gives back the slabs that are free then, if runs of pages have more bytes than
 * decay would leave for the live blocks: caches and free slabs keep what is more. */
static void free_runs(weir_host_pool *pool)
{
    const uint64_t used = atomic_load_explicit(&pool->decay.used_bytes, memory_order_relaxed);
    weir_host_stats counted = WEIR_HOST_STATS_INIT;
    weir__host_cache_counts(pool, NULL, &counted);
    if (used > with_margin(pool, counted.live_bytes)) {
        weir__host_cache_flush_all(pool);
        pool->config.engine->trim(pool->nodes[0].engine, NULL);
    }
}

/* Gives idle memory back until at most `keep_bytes` are held. */
static void give_back(weir_host_pool *pool, uint64_t keep_bytes)
{
    weir__host_decay *decay = &pool->decay;
    weir__host_node *node = &pool->nodes[0];
    WEIR_ASSERT(pool->node_count == 1);
    if (held_by(node) <= keep_bytes) {
        return;
    }
    uint64_t released = 0;
    const weir_status status = weir_pool_trim(node->mapped, keep_bytes, 0, &released);
    if (status != WEIR_OK) {
        (void)atomic_fetch_add(&decay->failures, 1);
    }
    if (released != 0) {
        (void)atomic_fetch_add(&decay->bytes, released);
        (void)atomic_fetch_add(&decay->times, 1);
    }
}

/* Ends the current time slot, and later ones in which no call read the clock. Returns the most bytes used within the
 * decay time. */
static uint64_t end_slots(weir__host_decay *decay, uint64_t slots)
{
    WEIR_ASSERT_HELD(&decay->lock);
    const uint64_t used = atomic_load_explicit(&decay->used_bytes, memory_order_relaxed);
    uint64_t ended = atomic_exchange_explicit(&decay->most_bytes, used, memory_order_relaxed);
    for (uint64_t i = 0; i < slots && i <= WEIR__HOST_DECAY_SLOTS; i++) {
        for (size_t j = WEIR__HOST_DECAY_SLOTS - 1; j > 0; j--) {
            decay->past[j] = decay->past[j - 1];
        }
        decay->past[0] = ended;
        ended = used; /* no call read the clock in the later time slots, so the used bytes count as unchanged */
    }
    uint64_t most = used;
    for (size_t j = 0; j < WEIR__HOST_DECAY_SLOTS; j++) {
        most = decay->past[j] > most ? decay->past[j] : most;
    }
    return most;
}

void weir__host_decay_step(weir_host_pool *pool, uint64_t now_ns)
{
    weir__host_decay *decay = &pool->decay;
    WEIR_ASSERT(weir__host_decays(pool));
    if (now_ns < atomic_load_explicit(&decay->slot_end_ns, memory_order_relaxed) ||
        pthread_mutex_trylock(&decay->lock) != 0) {
        return;
    }
    const uint64_t end_ns = atomic_load_explicit(&decay->slot_end_ns, memory_order_relaxed);
    if (now_ns >= end_ns) {
        free_runs(pool);
        const uint64_t most = end_slots(decay, (now_ns - end_ns) / decay->slot_ns + 1);
        atomic_store_explicit(&decay->slot_end_ns, now_ns + decay->slot_ns, memory_order_relaxed);
        give_back(pool, most == 0 ? 0 : with_margin(pool, most));
    }
    (void)pthread_mutex_unlock(&decay->lock);
}

void weir__host_decay_now(weir_host_pool *pool)
{
    if (pthread_mutex_trylock(&pool->decay.lock) == 0) {
        give_back(pool, atomic_load_explicit(&pool->decay.used_bytes, memory_order_relaxed));
        (void)pthread_mutex_unlock(&pool->decay.lock);
    }
}

bool weir__host_decay_look(weir_host_pool *pool)
{
    weir__host_decay *decay = &pool->decay;
    const uint64_t now_ns = coarse_ns();
    const uint64_t before_ns = atomic_exchange_explicit(&decay->looked_ns, now_ns, memory_order_relaxed);
    const bool is_busy = now_ns - before_ns < decay->slot_ns / 64;
    atomic_store_explicit(&decay->skip, is_busy ? WEIR__HOST_DECAY_SKIP : 0, memory_order_relaxed);
    weir__host_decay_step(pool, now_ns);
    return is_busy;
}
