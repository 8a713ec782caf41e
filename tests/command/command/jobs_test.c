/* jobs_test.c: every job runs once, on as many threads as were asked for; the error is that of the failed job with the
 * lowest number. */
#include "rig/test.h"
#include "replay/jobs.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { most = 200 };

struct record {
    unsigned played[most];
    size_t breaks; /* jobs from this number on fail */
    size_t reports;
    double share;
};

static bool play(void *ctx, size_t number, char *error, size_t error_size)
{
    struct record *record = ctx;
    record->played[number]++;
    (void)snprintf(error, error_size, "job %zu", number);
    return number < record->breaks;
}

static void progress(void *ctx, double share)
{
    struct record *record = ctx;
    record->reports++;
    assert_true(share > record->share);
    record->share = share;
}

TEST(test_every_job_runs_once)
{
    static const size_t threads[] = {0, 1, 2, 7, 1000};
    for (size_t t = 0; t < sizeof(threads) / sizeof(threads[0]); t++) {
        struct record record = {.breaks = most};
        char error[64] = "untouched";
        const struct jobs jobs = {most, threads[t], play, &record, progress, &record, NULL};
        assert_true(jobs_run(&jobs, error, sizeof(error)));
        assert_string_equal(error, "untouched");
        assert_int_equal(record.reports, most);
        assert_true(record.share == 1.0);
        for (size_t i = 0; i < most; i++) {
            assert_int_equal(record.played[i], 1);
        }
    }
}

TEST(test_no_jobs)
{
    char error[64] = "";
    const struct jobs jobs = {.play = play};
    assert_true(jobs_run(&jobs, error, sizeof(error)));
}

TEST(test_the_failure_with_the_lowest_number_is_returned)
{
    for (size_t threads = 1; threads <= 8; threads++) {
        struct record record = {.breaks = 50};
        char error[64] = "";
        const struct jobs jobs = {.count = most, .threads = threads, .play = play, .ctx = &record};
        assert_false(jobs_run(&jobs, error, sizeof(error)));
        assert_string_equal(error, "job 50");
        size_t played = 0;
        for (size_t i = 0; i < most; i++) {
            played += record.played[i];
        }
        assert_true(played >= 51 && played <= 50 + threads);
    }
}

/* --- jobs that need each other --- */

static bool meet(void *ctx, size_t number, char *error, size_t error_size)
{
    (void)number;
    (void)error;
    (void)error_size;
    (void)pthread_barrier_wait(ctx);
    return true;
}

/* Ends only if four jobs are under way at the same time. */
TEST(test_jobs_run_at_the_same_time)
{
    pthread_barrier_t barrier;
    char error[64] = "";
    const struct jobs jobs = {.count = 8, .threads = 4, .play = meet, .ctx = &barrier};
    assert_int_equal(pthread_barrier_init(&barrier, NULL, 4), 0);
    assert_true(jobs_run(&jobs, error, sizeof(error)));
    (void)pthread_barrier_destroy(&barrier);
}

/* --- jobs that run jobs --- */

enum { outer_count = 12, inner_count = 5 };

struct nested {
    struct crew *crew;
    pthread_mutex_t lock;
    size_t at_once; /* outer jobs under way */
    size_t most_at_once;
    unsigned played[outer_count][inner_count];
};

struct outer_job {
    struct nested *nested;
    size_t number;
};

static bool play_inner(void *ctx, size_t number, char *error, size_t error_size)
{
    struct outer_job *job = ctx;
    job->nested->played[job->number][number]++;
    (void)snprintf(error, error_size, "job %zu of %zu", number, job->number);
    return job->number != 3 || number < 2;
}

static bool play_outer(void *ctx, size_t number, char *error, size_t error_size)
{
    struct nested *nested = ctx;
    struct outer_job job = {nested, number};
    const struct jobs jobs = {.count = inner_count, .play = play_inner, .ctx = &job, .crew = nested->crew};
    char inner_error[64] = "";
    (void)pthread_mutex_lock(&nested->lock);
    nested->at_once++;
    nested->most_at_once = nested->at_once > nested->most_at_once ? nested->at_once : nested->most_at_once;
    (void)pthread_mutex_unlock(&nested->lock);
    const bool done = jobs_run(&jobs, inner_error, sizeof(inner_error));
    (void)snprintf(error, error_size, "%s", inner_error);
    (void)pthread_mutex_lock(&nested->lock);
    nested->at_once--;
    (void)pthread_mutex_unlock(&nested->lock);
    return done || strcmp(inner_error, "job 2 of 3") == 0;
}

/* No more outer jobs are under way than the crew has threads, and a failure ends the jobs of its own list only. */
TEST(test_jobs_run_jobs_of_their_own)
{
    for (size_t threads = 1; threads <= 6; threads++) {
        struct nested nested = {.crew = crew_create(threads), .lock = PTHREAD_MUTEX_INITIALIZER};
        const struct jobs jobs = {.count = outer_count, .play = play_outer, .ctx = &nested, .crew = nested.crew};
        char error[64] = "";
        assert_non_null(nested.crew);
        assert_true(jobs_run(&jobs, error, sizeof(error)));
        assert_true(nested.most_at_once >= 1 && nested.most_at_once <= threads);
        for (size_t i = 0; i < outer_count; i++) {
            for (size_t k = 0; k < inner_count; k++) {
                assert_true(nested.played[i][k] == 1 || (i == 3 && k > 2 && nested.played[i][k] == 0));
            }
        }
        crew_destroy(nested.crew);
    }
}

static bool meet_inside(void *ctx, size_t number, char *error, size_t error_size)
{
    const struct jobs *const inner = ctx;
    return number > 0 || jobs_run(inner, error, error_size);
}

/* Ends only if a thread that has no outer job left helps with the inner jobs. */
TEST(test_idle_threads_help)
{
    pthread_barrier_t barrier;
    struct crew *crew = crew_create(4);
    char error[64] = "";
    assert_non_null(crew);
    assert_int_equal(pthread_barrier_init(&barrier, NULL, 4), 0);
    struct jobs inner = {.count = 8, .play = meet, .ctx = &barrier, .crew = crew};
    const struct jobs outer = {.count = 2, .play = meet_inside, .ctx = &inner, .crew = crew};
    assert_true(jobs_run(&outer, error, sizeof(error)));
    (void)pthread_barrier_destroy(&barrier);
    crew_destroy(crew);
    crew_destroy(NULL);
}
