/* growing.c: see growing.h.
 *
 * Idea: a step of the program makes k large requests, and the request k further on comes from the same place. So for
 * each k up to a bound the requests i, i + k, i + 2k ... are looked at: a series is a chain of them in which each is
 * larger than the one before, by a small share. The longest chain counts, the shortest k first.
 * Cost: O(n k) for n large requests.
 */
#include "replay/growing.h"

#include <stdlib.h>

enum {
    longest_step = 64,    /* requests between two of one series */
    least_count = 8,      /* requests that make a series */
    largest_share = 4,    /* a request is larger than the one before by at most 1/4 of it */
    least_bytes = 1 << 20 /* a request that PyTorch serves from a segment of its own or of its kind */
};

struct request {
    uint64_t size;
    uint32_t tag;
};

/* Returns the requests of at least `least_bytes`, in their order; NULL when out of host memory. */
static struct request *large_requests(const struct trace *trace, size_t events, size_t *count)
{
    struct request *requests = malloc((events + 1) * sizeof(*requests));
    *count = 0;
    for (size_t i = 0; requests != NULL && i < events; i++) {
        const weir_trace_event *event = &trace->events[i].event;
        if ((event->kind == WEIR_TRACE_ALLOC || event->kind == WEIR_TRACE_REALLOC) && event->size >= least_bytes) {
            requests[(*count)++] = (struct request){event->size, event->tag};
        }
    }
    return requests;
}

static bool grows(const struct request *before, const struct request *after)
{
    return after->tag == before->tag && after->size > before->size &&
           after->size - before->size <= before->size / largest_share;
}

/* Finds the longest chain among requests that are `step` apart. */
static void look(const struct request *requests, size_t count, size_t step, struct growing *found)
{
    for (size_t from = 0; from < step; from++) {
        size_t first = from;
        for (size_t i = from; i < count; i += step) {
            const bool ends = i + step >= count || !grows(&requests[i], &requests[i + step]);
            const uint64_t length = (i - first) / step + 1;
            if (ends && length >= least_count && length > found->count) {
                *found = (struct growing){length, requests[first].size, requests[i].size, requests[i].tag};
            }
            first = ends ? i + step : first;
        }
    }
}

bool growing_find(const struct trace *trace, size_t events, struct growing *found)
{
    size_t count = 0;
    struct request *requests = large_requests(trace, events, &count);
    *found = (struct growing){.tag = WEIR_TRACE_NONE};
    if (requests == NULL) {
        return false;
    }
    for (size_t step = 1; step <= longest_step; step++) {
        look(requests, count, step, found);
    }
    free(requests);
    return true;
}
