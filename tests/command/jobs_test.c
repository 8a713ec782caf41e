/* jobs_test.c: every job runs once, on as many threads as were asked for; the error is that of the failed job with the
 * lowest number. */
#include "../rig/test.h"
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
        const struct jobs jobs = {most, threads[t], play, &record, progress, &record};
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

TEST(test_the_lowest_failure_is_told)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_job_runs_once),
        cmocka_unit_test(test_no_jobs),
        cmocka_unit_test(test_the_lowest_failure_is_told),
        cmocka_unit_test(test_jobs_run_at_the_same_time),
    };
    return cmocka_run_group_tests_name("jobs", tests, NULL, NULL);
}
