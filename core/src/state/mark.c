/* core/src/state/mark.c: the arithmetic of the high-water mark; see mark.h. */
#include "mark.h"

#include "base/tuning.h"
#include "shared/assert.h"

uint64_t weir__mark_excess(const struct high_mark *mark, uint64_t reserved)
{
    const uint64_t floor = mark->live + mark->live / live_slack;
    const uint64_t free_of_charge = mark->reserved > floor ? mark->reserved : floor;
    return reserved > free_of_charge ? reserved - free_of_charge : 0;
}

static uint64_t larger_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* Returns the entry whose size is nearest to `size`. */
static uint64_t *nearest_size(struct growing_sizes *growing, uint64_t size)
{
    uint64_t *nearest = &growing->sizes[0];
    for (int i = 1; i < growing_looks; i++) {
        nearest = distance(growing->sizes[i], size) < distance(*nearest, size) ? &growing->sizes[i] : nearest;
    }
    return nearest;
}

static void note_size(struct growing_sizes *growing, uint64_t size)
{
    uint64_t *nearest = nearest_size(growing, size);
    if (*nearest < size && size - *nearest <= size / growing_step) {
        *nearest = size;
        growing->streak += growing->streak < most_streak;
    } else if (*nearest != size) {
        growing->sizes[growing->next] = size;
        growing->next = (growing->next + 1) % growing_looks;
        growing->streak -= (growing->streak + 3) / 4;
    }
}

void weir__mark_note_request(struct high_mark *mark, uint64_t size, uint64_t live)
{
    const uint64_t rise = live > mark->live ? live - mark->live : 0;
    mark->live += rise;
    if (size < large_bytes) {
        return;
    }
    note_size(&mark->growing, size);
    if (mark->growing.streak >= least_streak) {
        const uint64_t paid = rise / (mark->live / most_calls_for_all + 1);
        mark->debt -= paid < mark->debt ? paid : mark->debt;
        mark->whole_calls -= paid < mark->whole_calls ? paid : mark->whole_calls;
    }
}

/* Returns how many device calls the pool may spend to keep its high-water mark `gain` bytes lower. */
static uint64_t worth(const struct high_mark *mark, uint64_t gain, uint64_t regions)
{
    const uint64_t by_misses = mark->misses / misses_a_call;
    const uint64_t calls = by_misses < most_calls_for_all ? by_misses : most_calls_for_all;
    const uint64_t bytes_a_call =
        mark->live / larger_of(larger_of(calls, least_calls_for_all), regions * calls_per_region);
    return gain / (bytes_a_call != 0 ? bytes_a_call : 1);
}

bool weir__mark_affords(struct high_mark *mark, uint64_t gain, uint64_t count, uint64_t regions)
{
    WEIR_ASSERT(regions != 0);
    const bool affords = mark->debt + count <= worth(mark, gain, regions);
    mark->debt += affords ? count : 0;
    return affords;
}

void weir__mark_buy(struct high_mark *mark, uint64_t gain, uint64_t regions)
{
    const uint64_t paid = worth(mark, gain, regions);
    mark->debt -= paid < mark->debt ? paid : mark->debt;
}

bool weir__mark_affords_wait(const struct high_mark *mark, uint64_t excess)
{
    return excess > (mark->waits + 1) * (mark->live / waits_for_all);
}

void weir__mark_note_whole(struct high_mark *mark, bool never, bool near_limit)
{
    const uint64_t most = UINT64_MAX / 2; /* a request's size may be added to it */
    const uint64_t step = mark->live / (near_limit ? whole_for_all_near_limit : whole_for_all);
    const uint64_t calls = mark->whole_calls + 1;
    mark->whole_rest = never || calls > most / (step + 1) ? most : calls * step;
}
