/* jobs.h: runs numbered jobs on several threads.
 *
 * Threads take the jobs of a list in ascending order. A job writes to memory of its own, so the result does not depend
 * on the number of threads. After a failure no further job of the list begins; those that have begun end. The error
 * that is returned is that of the failed job with the lowest number: every job below it has begun, so it is the one
 * that a single thread would have reported.
 *
 * A job may itself run a list of jobs, with the same crew. A thread of the crew that has no job takes one from the
 * oldest list first. So while the outer list has jobs left, each thread does one of them with all that belongs to it;
 * only then do threads help each other. No thread is created beyond those of the crew.
 */
#ifndef WEIR_BENCHMARKS_JOBS_H
#define WEIR_BENCHMARKS_JOBS_H

#include <stdbool.h>
#include <stddef.h>

enum { jobs_most_threads = 256 };

/* Threads that wait for jobs. */
struct crew;

/* Creates a crew of `threads` threads, of which one is the caller of jobs_run; 0: one for each processor that the
 * process may use. If a thread cannot be created, the crew is smaller. NULL when out of host memory. */
struct crew *crew_create(size_t threads);
/* Ends the threads of the crew. No jobs_run may be in progress. NULL is allowed. */
void crew_destroy(struct crew *crew);

struct jobs {
    size_t count;
    size_t threads; /* threads of the crew that jobs_run creates if `crew` is NULL; 0: one for each processor */
    /* Does job `number`. Returns false with a line in `error` after a failure. */
    bool (*play)(void *ctx, size_t number, char *error, size_t error_size);
    void *ctx;
    /* Called after each job with the share of jobs that have ended, by one thread at a time; may be NULL. */
    void (*progress)(void *ctx, double share);
    void *progress_ctx;
    struct crew *crew; /* thread pool that runs the jobs; NULL: jobs_run makes one for this call */
};

/* Runs all jobs; the calling thread takes part in the work. Returns false with a line in `error` if a job fails. */
bool jobs_run(const struct jobs *jobs, char *error, size_t error_size);

#endif
