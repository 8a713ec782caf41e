/* tests/rig/resident.h: the resident memory of the test program. */
#ifndef WEIR_RIG_RESIDENT_H
#define WEIR_RIG_RESIDENT_H

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* Returns the resident bytes of this process, or 0 if unknown. */
static inline uint64_t resident_bytes(void)
{
    uint64_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        pages = fscanf(file, "%*u %" SCNu64, &pages) == 1 ? pages : 0;
        (void)fclose(file);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

#endif
