/* jobs.c: see jobs.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif

#include "replay/jobs.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

/* The lock guards the members below it. */
struct crew {
    const struct jobs *jobs;
    pthread_mutex_t lock;
    size_t next;
    size_t done;
    size_t failed; /* lowest number of a failed job; the count of jobs: no job has failed */
    char *error;
    size_t error_size;
};

/* Ends a job. Lock held. */
static void finish_job(struct crew *crew, size_t number, bool done, const char *error)
{
    const struct jobs *jobs = crew->jobs;
    crew->done++;
    if (!done && number < crew->failed) {
        crew->failed = number;
        (void)snprintf(crew->error, crew->error_size, "%s", error);
    }
    if (jobs->progress != NULL) {
        jobs->progress(jobs->progress_ctx, (double)crew->done / (double)jobs->count);
    }
}

static void *work(void *ctx)
{
    struct crew *crew = ctx;
    const struct jobs *jobs = crew->jobs;
    char error[512] = "";
    (void)pthread_mutex_lock(&crew->lock);
    while (crew->next < jobs->count && crew->failed == jobs->count) {
        const size_t number = crew->next++;
        (void)pthread_mutex_unlock(&crew->lock);
        const bool done = jobs->play(jobs->ctx, number, error, sizeof(error));
        (void)pthread_mutex_lock(&crew->lock);
        finish_job(crew, number, done, error);
    }
    (void)pthread_mutex_unlock(&crew->lock);
    return NULL;
}

static size_t count_processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? (size_t)CPU_COUNT(&set) : 1;
}

static size_t count_threads(const struct jobs *jobs)
{
    size_t threads = jobs->threads == 0 ? count_processors() : jobs->threads;
    threads = threads < jobs_most_threads ? threads : jobs_most_threads;
    return threads < jobs->count ? threads : jobs->count;
}

bool jobs_run(const struct jobs *jobs, char *error, size_t error_size)
{
    struct crew crew = {.jobs = jobs, .failed = jobs->count, .error = error, .error_size = error_size};
    const size_t threads = count_threads(jobs);
    pthread_t helpers[jobs_most_threads];
    size_t helped = 0;
    (void)pthread_mutex_init(&crew.lock, NULL);
    while (helped + 1 < threads && pthread_create(&helpers[helped], NULL, work, &crew) == 0) {
        helped++;
    }
    (void)work(&crew);
    while (helped > 0) {
        (void)pthread_join(helpers[--helped], NULL);
    }
    (void)pthread_mutex_destroy(&crew.lock);
    return crew.failed == jobs->count;
}
