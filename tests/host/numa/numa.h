/* tests/host/numa/numa.h: shared by the programs that run in the machine of vm.sh. */
#ifndef TESTS_NUMA_NUMA_H
#define TESTS_NUMA_NUMA_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns the number of nodes of the machine, or 0 outside of vm.sh's machine. */
static inline unsigned numa_nodes(void)
{
    const char *text = getenv("WEIR_NUMA_NODES");
    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : 0;
}

static inline uint32_t numa_distance(unsigned from, unsigned to)
{
    static const uint32_t distances[4][4] = {{10, 16, 32, 33}, {16, 10, 25, 32}, {32, 25, 10, 16}, {33, 32, 16, 10}};
    return distances[from][to];
}

/* Skips with exit status 77 outside of vm.sh's machine. */
static inline int numa_skip(void)
{
    (void)printf("skipped: runs in the machine that tests/host/numa/vm.sh boots\n");
    return 77;
}

#endif
