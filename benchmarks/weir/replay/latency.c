/* latency.c: see latency.h. Row 0 counts 0 to 63 ns one by one; each further row covers a doubling in 64 equal
 * steps. */
#include "latency.h"

#include "shared/clock.h"

#include <string.h>

void latency_init(struct latency *latency)
{
    memset(latency, 0, sizeof(*latency));
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t began = wall_ns();
        uint64_t took = wall_ns() - began;
        least = took < least ? took : least;
    }
    latency->clock_ns = least;
}

void latency_add(struct latency *latency, uint64_t ns)
{
    ns = ns > latency->clock_ns ? ns - latency->clock_ns : 0;
    unsigned row = 0;
    unsigned column = (unsigned)(ns & (LATENCY_COLUMNS - 1));
    if (ns >= LATENCY_COLUMNS) {
        unsigned top = 63u - (unsigned)__builtin_clzll(ns);
        row = top - 5u;
        column = (unsigned)(ns >> (top - 6u)) & (LATENCY_COLUMNS - 1);
    }
    if (row >= LATENCY_ROWS) {
        row = LATENCY_ROWS - 1;
        column = LATENCY_COLUMNS - 1;
    }
    latency->counts[row][column]++;
    latency->total++;
}

double latency_percentile(const struct latency *latency, double share)
{
    uint64_t wanted = (uint64_t)(share * (double)latency->total);
    uint64_t seen = 0;
    for (unsigned row = 0; row < LATENCY_ROWS; row++) {
        for (unsigned column = 0; column < LATENCY_COLUMNS; column++) {
            seen += latency->counts[row][column];
            if (latency->counts[row][column] != 0 && seen > wanted) {
                return row == 0 ? (double)column : (double)((uint64_t)(LATENCY_COLUMNS + column) << (row - 1));
            }
        }
    }
    return 0.0;
}
