/* jobs.c: see jobs.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif

#include "replay/jobs.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

/* The jobs of one call of jobs_run. The lock of the crew (a thread pool) guards the members below `jobs`. */
struct list {
    const struct jobs *jobs;
    struct list *newer;
    size_t next;    /* job that begins next */
    size_t running; /* jobs that have begun and not ended */
    size_t done;
    size_t failed; /* lowest number of a failed job; the count of jobs: no job has failed */
    char *error;
    size_t error_size;
};

/* The lock guards the members below `changed`, and all lists. */
struct crew {
    pthread_mutex_t lock;
    /* signalled when jobs_run adds a list of jobs, when the last job of a list ends, and when the threads must end */
    pthread_cond_t changed;
    struct list *oldest;
    bool ends;
    size_t helped; /* threads beside the caller; constant after the start */
    pthread_t helpers[jobs_most_threads];
};

static bool has_job(const struct list *list)
{
    return list->next < list->jobs->count && list->failed == list->jobs->count;
}

/* Ends a job. Lock held. */
static void finish_job(struct list *list, size_t number, bool done, const char *error)
{
    const struct jobs *jobs = list->jobs;
    list->running--;
    list->done++;
    if (!done && number < list->failed) {
        list->failed = number;
        (void)snprintf(list->error, list->error_size, "%s", error);
    }
    if (jobs->progress != NULL) {
        jobs->progress(jobs->progress_ctx, (double)list->done / (double)jobs->count);
    }
}

/* Does the next job of the list. Called with the lock held; releases it during the job. */
static void do_job(struct crew *crew, struct list *list)
{
    const struct jobs *jobs = list->jobs;
    const size_t number = list->next++;
    char error[512] = "";
    list->running++;
    (void)pthread_mutex_unlock(&crew->lock);
    const bool done = jobs->play(jobs->ctx, number, error, sizeof(error));
    (void)pthread_mutex_lock(&crew->lock);
    finish_job(list, number, done, error);
    if (list->running == 0 && !has_job(list)) {
        (void)pthread_cond_broadcast(&crew->changed);
    }
}

static void *help(void *ctx)
{
    struct crew *crew = ctx;
    (void)pthread_mutex_lock(&crew->lock);
    while (!crew->ends) {
        struct list *list = crew->oldest;
        while (list != NULL && !has_job(list)) {
            list = list->newer;
        }
        if (list != NULL) {
            do_job(crew, list);
        } else {
            (void)pthread_cond_wait(&crew->changed, &crew->lock);
        }
    }
    (void)pthread_mutex_unlock(&crew->lock);
    return NULL;
}

/* --- the crew --- */

static size_t count_processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? (size_t)CPU_COUNT(&set) : 1;
}

static void start_crew(struct crew *crew, size_t threads)
{
    crew->oldest = NULL;
    crew->ends = false;
    crew->helped = 0;
    (void)pthread_mutex_init(&crew->lock, NULL);
    (void)pthread_cond_init(&crew->changed, NULL);
    while (crew->helped + 1 < threads && pthread_create(&crew->helpers[crew->helped], NULL, help, crew) == 0) {
        crew->helped++;
    }
}

static void stop_crew(struct crew *crew)
{
    (void)pthread_mutex_lock(&crew->lock);
    crew->ends = true;
    (void)pthread_cond_broadcast(&crew->changed);
    (void)pthread_mutex_unlock(&crew->lock);
    for (size_t i = 0; i < crew->helped; i++) {
        (void)pthread_join(crew->helpers[i], NULL);
    }
    (void)pthread_cond_destroy(&crew->changed);
    (void)pthread_mutex_destroy(&crew->lock);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

struct crew *crew_create(size_t threads)
{
    struct crew *crew = malloc(sizeof(*crew));
    if (crew != NULL) {
        start_crew(crew, least(threads == 0 ? count_processors() : threads, jobs_most_threads));
    }
    return crew;
}

void crew_destroy(struct crew *crew)
{
    if (crew != NULL) {
        stop_crew(crew);
    }
    free(crew);
}

/* --- a list --- */

/* Adds the list at the end. Lock held. */
static void add_list(struct crew *crew, struct list *list)
{
    struct list **end = &crew->oldest;
    while (*end != NULL) {
        end = &(*end)->newer;
    }
    *end = list;
}

/* Lock held. */
static void remove_list(struct crew *crew, struct list *list)
{
    struct list **at = &crew->oldest;
    while (*at != list) {
        at = &(*at)->newer;
    }
    *at = list->newer;
}

static void play_list(struct crew *crew, struct list *list)
{
    (void)pthread_mutex_lock(&crew->lock);
    add_list(crew, list);
    (void)pthread_cond_broadcast(&crew->changed);
    while (has_job(list)) {
        do_job(crew, list);
    }
    while (list->running > 0) {
        (void)pthread_cond_wait(&crew->changed, &crew->lock);
    }
    remove_list(crew, list);
    (void)pthread_mutex_unlock(&crew->lock);
}

bool jobs_run(const struct jobs *jobs, char *error, size_t error_size)
{
    struct list list = {.jobs = jobs, .failed = jobs->count, .error = error, .error_size = error_size};
    if (jobs->crew != NULL) {
        play_list(jobs->crew, &list);
    } else {
        struct crew crew;
        const size_t threads = jobs->threads == 0 ? count_processors() : jobs->threads;
        start_crew(&crew, least(least(threads, jobs_most_threads), jobs->count));
        play_list(&crew, &list);
        stop_crew(&crew);
    }
    return list.failed == jobs->count;
}
