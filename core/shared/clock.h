/* core/shared/clock.h: the monotonic clock of this machine, in nanoseconds. */
#ifndef WEIR_SHARED_CLOCK_H
#define WEIR_SHARED_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t wall_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
