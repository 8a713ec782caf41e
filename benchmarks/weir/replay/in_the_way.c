/* in_the_way.c: see in_the_way.h. Both ends of a window move up only, so each end passes every span once. */
#include "replay/in_the_way.h"

static void count_span(struct in_the_way *window, const struct span *span, bool in)
{
    if (span->taken) {
        window->bytes += in ? span->end - span->start : span->start - span->end;
        window->blocks += in ? 1 : -(uint64_t)1;
    }
}

static bool holds(const struct span *spans, const struct in_the_way *window, uint64_t size)
{
    return window->first < window->end && spans[window->end - 1].end - spans[window->first].start >= size;
}

bool in_the_way_find(const struct span *spans, size_t count, uint64_t size, struct in_the_way *best)
{
    struct in_the_way window = {0};
    bool found = false;
    while (window.first < count) {
        while (window.end < count && spans[window.end].run == spans[window.first].run && !holds(spans, &window, size)) {
            count_span(&window, &spans[window.end++], true);
        }
        if (!holds(spans, &window, size)) { /* nor does any later window of this run */
            window = (struct in_the_way){.first = window.end, .end = window.end};
            continue;
        }
        if (!found || window.bytes < best->bytes) {
            *best = window;
            found = true;
        }
        count_span(&window, &spans[window.first++], false);
    }
    return found;
}
