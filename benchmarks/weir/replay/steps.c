/* steps.c: see steps.h.
 *
 * Idea: a piece of some requests that a step has once comes back after the length of a step. So the distances between
 * equal pieces are counted, and each frequent distance is tried as the length: the requests i and i + length are
 * compared, and the longest run of equal ones is the series. A layer comes back within a step too; the series of steps
 * is longer than the series of its layers.
 * Cost: O(n log n) for n requests.
 */
#include "replay/steps.h"

#include "shared/number_map.h"

#include <stdlib.h>

enum { piece = 8, tried = 32 };

struct request {
    uint64_t size;
    size_t event; /* index */
};

struct requests {
    struct request *list;
    uint64_t *distances; /* [count]: from a piece to the next one that is equal */
    size_t count;
    size_t distance_count;
};

struct candidate {
    uint64_t length;
    uint64_t weight; /* requests whose pieces come back after this length, times the length */
};

static bool list_requests(const struct trace *trace, struct requests *requests)
{
    *requests = (struct requests){.list = malloc((trace->event_count + 1) * sizeof(struct request)),
                                  .distances = malloc((trace->event_count + 1) * sizeof(uint64_t))};
    for (size_t i = 0; requests->list != NULL && i < trace->event_count; i++) {
        const weir_trace_event *event = &trace->events[i].event;
        if (event->kind == WEIR_TRACE_ALLOC || event->kind == WEIR_TRACE_REALLOC) {
            requests->list[requests->count++] = (struct request){event->size, i};
        }
    }
    return requests->list != NULL && requests->distances != NULL;
}

static bool find_distances(struct requests *requests)
{
    weir__number_map last = {0}; /* hash of a piece -> its latest place + 1 */
    bool enough = true;
    for (size_t i = 0; enough && i + piece <= requests->count; i++) {
        uint64_t hash = 1;
        for (size_t k = 0; k < piece; k++) {
            hash = (hash ^ requests->list[i + k].size) * UINT64_C(0x9e3779b97f4a7c15);
            hash ^= hash >> 29;
        }
        hash += hash == 0;
        const uint64_t before = weir__number_map_get(&last, hash);
        if (before != 0) {
            requests->distances[requests->distance_count++] = i + 1 - before;
        }
        enough = weir__number_map_put(&last, hash, i + 1);
    }
    weir__number_map_fini(&last);
    return enough;
}

static int by_value(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static void keep_candidate(struct candidate *candidates, struct candidate candidate)
{
    for (size_t i = 0; i < tried; i++) {
        if (candidate.weight > candidates[i].weight) {
            const struct candidate next = candidates[i];
            candidates[i] = candidate;
            candidate = next;
        }
    }
}

static void find_candidates(struct requests *requests, struct candidate *candidates)
{
    qsort(requests->distances, requests->distance_count, sizeof(uint64_t), by_value);
    for (size_t i = 0, from = 0; i < requests->distance_count; i++) {
        const uint64_t length = requests->distances[i];
        if (i + 1 == requests->distance_count || requests->distances[i + 1] != length) {
            keep_candidate(candidates, (struct candidate){length, (i + 1 - from) * length});
            from = i + 1;
        }
    }
}

/* Finds the longest run of requests that are equal to those one length later. Returns the equal steps in it. */
static uint64_t longest_run(const struct requests *requests, size_t length, size_t *first)
{
    uint64_t most = 0;
    for (size_t i = 0, from = 0; i + length <= requests->count; i++) {
        if (i + length < requests->count && requests->list[i].size == requests->list[i + length].size) {
            continue;
        }
        const uint64_t steps = (i - from + length) / length;
        if (i > from && steps > most) {
            most = steps;
            *first = from;
        }
        from = i + 1;
    }
    return most;
}

static void try_length(const struct requests *requests, uint64_t length, struct steps *steps, size_t *first)
{
    size_t from = 0;
    const uint64_t count = longest_run(requests, (size_t)length, &from);
    const uint64_t whole = count * length;
    const uint64_t best = steps->count * steps->requests;
    if (count >= 2 && 2 * whole >= requests->count && (whole > best || (whole == best && length < steps->requests))) {
        steps->count = count;
        steps->requests = length;
        *first = from;
    }
}

/* Computes by how much the live bytes grow from one event to another, both given by their indexes. */
static bool find_growth(const struct trace *trace, size_t first, size_t last, int64_t *growth)
{
    uint64_t *sizes = calloc((size_t)trace->block_count + 1, sizeof(*sizes));
    uint64_t live = 0;
    for (size_t i = 0; sizes != NULL && i <= last; i++) {
        const struct trace_event *event = &trace->events[i];
        const weir_trace_kind kind = event->event.kind;
        if (kind == WEIR_TRACE_PRIOR || kind == WEIR_TRACE_ALLOC || kind == WEIR_TRACE_REALLOC) {
            sizes[event->index] = event->event.size;
            live += event->event.size;
        }
        if (kind == WEIR_TRACE_FREE || kind == WEIR_TRACE_REALLOC) {
            live -= sizes[kind == WEIR_TRACE_FREE ? event->index : event->old_index];
        }
        *growth = i == first ? (int64_t)live : *growth;
    }
    *growth = (int64_t)live - *growth;
    free(sizes);
    return sizes != NULL;
}

bool steps_find(const struct trace *trace, struct steps *steps)
{
    struct requests requests;
    struct candidate candidates[tried] = {{0, 0}};
    size_t first = 0;
    *steps = (struct steps){0};
    bool done = list_requests(trace, &requests) && find_distances(&requests);
    if (done) {
        steps->all = requests.count;
        find_candidates(&requests, candidates);
        for (size_t i = 0; i < tried && candidates[i].weight > 0; i++) {
            try_length(&requests, candidates[i].length, steps, &first);
        }
    }
    if (done && steps->count > 0) {
        const struct request *begin = &requests.list[first];
        const size_t last_step = (size_t)((steps->count - 1) * steps->requests);
        steps->first_event = trace_event_number(trace, begin->event);
        steps->last_event = trace_event_number(trace, begin[last_step + steps->requests - 1].event);
        done = find_growth(trace, begin->event, begin[last_step].event, &steps->growth_bytes);
        steps->growth_bytes /= (int64_t)(steps->count - 1);
    }
    free(requests.list);
    free(requests.distances);
    return done;
}
