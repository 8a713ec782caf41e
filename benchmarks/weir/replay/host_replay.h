/* host_replay.h: plays a trace with allocators of host memory and measures the memory of the process.
 *
 * For a recording of a process's heap it answers how much memory weir's heap, glibc, jemalloc, mimalloc and tcmalloc
 * would have held. Each allocator plays the events, single-threaded and in the order of the file, in a process of its
 * own, and writes a byte into each page of each block. That process is the program anew: a child that was only forked
 * would begin with the free memory that the reader of the trace has left in glibc's malloc. So the figures are
 * measured, not simulated: they depend on the machine and differ a little from run to run. Streams, waits and the
 * recorded addresses play no part.
 */
#ifndef WEIR_BENCHMARKS_HOST_REPLAY_H
#define WEIR_BENCHMARKS_HOST_REPLAY_H

#include "trace/trace.h"

/* Page faults and processor time (user and system). */
struct host_cost {
    uint64_t faults;
    double cpu_ms;
};

struct host_result {
    const char *name;        /* "heap", or a name of malloc_names (mallocs.h) */
    bool measured;           /* false: `why` has the reason, and the figures are 0 */
    char why[256];           /* why there are no figures: not installed; out of memory; ended by a signal */
    uint64_t held_bytes;     /* exact peak of the memory that the heap took from the system; 0 for a malloc */
    uint64_t resident_bytes; /* peak growth of the process's anonymous memory, within 1 % */
    struct host_cost first;  /* first round */
    struct host_cost later;  /* mean of the rounds after the first; 0 if there is only one round */
};

enum { host_most_results = 8, host_most_rounds = 1000 };

struct host_replay {
    uint32_t rounds;          /* number of times that the trace is played in a row; 0 = no host replay was made */
    uint64_t peak_live_bytes; /* requested bytes */
    struct host_result results[host_most_results];
    size_t result_count;
};

/* The first argument of a program that is started to measure one allocator. */
#define HOST_REPLAY_CHILD "--measure-a-malloc"
/* The running program, as `self` below. */
#define HOST_REPLAY_SELF "/proc/self/exe"

/* Measures one allocator and ends the process's work: the whole main of a program whose first argument is
 * HOST_REPLAY_CHILD. It starts itself again if jemalloc needs that (mallocs_prepare). Returns the exit status. */
int host_replay_child(int argc, char **argv);

/* Plays the trace with every allocator, each in the program `self`, which calls host_replay_child; NULL: in
 * children that are forked only, where glibc's figures are too low. The result of an allocator that is not
 * installed says so in `why`. Processor times are the least of three runs. Without `self` the process must have one
 * thread. Returns false, with a line in `error`, if the machine has less memory available than the trace may need
 * (3 times its peak), or if no process can be made. */
bool host_replay_run(const struct trace *trace, uint32_t rounds, const char *self, struct host_replay *replay,
                     char *error, size_t error_size);

#endif
