/* jobs.h: runs numbered jobs on several threads.
 *
 * Threads take the jobs in ascending order. A job writes to memory of its own, so the result does not depend on the
 * number of threads. After a failure no further job begins; those that have begun end. The error that is returned is
 * that of the failed job with the lowest number: every job below it has begun, so it is the one that a single thread
 * would have reported.
 */
#ifndef WEIR_BENCHMARKS_JOBS_H
#define WEIR_BENCHMARKS_JOBS_H

#include <stdbool.h>
#include <stddef.h>

enum { jobs_most_threads = 256 };

struct jobs {
    size_t count;
    size_t threads; /* at most; 0: one for each processor that the process may use */
    /* Does job `number`. Returns false with a line in `error` after a failure. */
    bool (*play)(void *ctx, size_t number, char *error, size_t error_size);
    void *ctx;
    /* Called after each job with the share of jobs that have ended, by one thread at a time; may be NULL. */
    void (*progress)(void *ctx, double share);
    void *progress_ctx;
};

/* Runs all jobs, the calling thread among the threads. If a thread cannot be created, the existing threads do its work.
 * Returns false with a line in `error` if a job fails. */
bool jobs_run(const struct jobs *jobs, char *error, size_t error_size);

#endif
