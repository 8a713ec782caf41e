/* replay_speed.c: measures the events per second of a replay, with and without the auditor.
 *
 *     micro_replay_speed [TRACE]    default: a bundled trace of an inference engine with a key/value cache
 *
 * The trace is repeated until a million events have been played, without reading the clock around each call. The
 * strategies take turns for five rounds, and each figure is a median: wall time of the events alone, as the replay
 * reports it, and processor time of the whole replay with setup and end, which other programs disturb less. Standard
 * error tells each round as it begins.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "micro/bench.h"
#include "replay/replay.h"

enum { least_events = 1000000, rounds = 5, figures = 2 };

struct speed {
    const char *strategy;
    bool audit;
    double wall[rounds]; /* events per second */
    double processor[rounds];
};

static bool measure(const struct trace *trace, struct speed *speed, size_t round)
{
    struct replay_options options = {
        .no_audit = !speed->audit,
        .no_timing = true,
        .repeat = (uint32_t)(least_events / trace->event_count + 1),
    };
    struct replay_result result;
    char error[512];
    const struct replay_strategy *strategy = replay_strategy_find(speed->strategy, strlen(speed->strategy));
    const uint64_t began = bench_processor_ns();
    if (strategy == NULL || !replay_run(trace, strategy, 0, &options, &result, error, sizeof(error))) {
        (void)fprintf(stderr, "%s\n", strategy == NULL ? "no such strategy" : error);
        return false;
    }
    const uint64_t took = bench_processor_ns() - began;
    const bool fine = !result.oom.happened && result.hazards == 0 && took > 0;
    if (fine) {
        speed->wall[round] = (double)result.events_played / result.seconds;
        speed->processor[round] = (double)result.events_played * 1e9 / (double)took;
    } else {
        (void)fprintf(stderr, "%s: %s\n", speed->strategy,
                      result.oom.happened ? "out of memory" : "the auditor found hazards");
    }
    replay_result_free(&result);
    return fine;
}

static int by_value(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *values)
{
    qsort(values, rounds, sizeof(*values), by_value);
    return values[rounds / 2];
}

static void print_speeds(struct speed *speeds, size_t count)
{
    (void)printf("%-10s %-8s %14s %14s %14s\n", "strategy", "auditor", "Mevents/s wall", "Mevents/s cpu",
                 "ns/event cpu");
    /* Each strategy has `figures` adjacent entries in `speeds`: without the auditor, then with it. */
    for (size_t i = 0; i < count; i += figures) {
        double processor[figures];
        for (size_t j = 0; j < figures; j++) {
            struct speed *speed = &speeds[i + j];
            processor[j] = median(speed->processor);
            (void)printf("%-10s %-8s %14.3f %14.3f %14.0f\n", speed->strategy, speed->audit ? "on" : "off",
                         median(speed->wall) * 1e-6, processor[j] * 1e-6, 1e9 / processor[j]);
        }
        (void)printf("%-10s %-8s %29.2f\n", speeds[i].strategy, "off/on", processor[0] / processor[1]);
    }
}

int main(int count, char **arguments)
{
    struct speed speeds[] = {
        {.strategy = "caching", .audit = false}, {.strategy = "caching", .audit = true},
        {.strategy = "pytorch", .audit = false}, {.strategy = "pytorch", .audit = true},
        {.strategy = "direct", .audit = false},  {.strategy = "direct", .audit = true},
    };
    const size_t speed_count = sizeof(speeds) / sizeof(speeds[0]);
    struct trace *trace = NULL;
    struct trace_error error;
    if (count > 2 || (count == 2 && arguments[1][0] == '-')) {
        (void)fprintf(stderr, "usage: micro_replay_speed [TRACE]\n");
        return EXIT_FAILURE;
    }
    const char *path = count == 2 ? arguments[1] : BENCH_DEFAULT_TRACE;
    if (trace_read(path, NULL, &trace, &error) != WEIR_OK) {
        (void)fprintf(stderr, "%s\n", error.message);
        return EXIT_FAILURE;
    }
    bool fine = trace->event_count > 0;
    for (size_t round = 0; round < rounds; round++) {
        (void)fprintf(stderr, "round %zu of %d: %zu replays of %d events or more\n", round + 1, rounds, speed_count,
                      least_events);
        for (size_t i = 0; i < speed_count && fine; i++) {
            fine = measure(trace, &speeds[i], round);
        }
    }
    if (fine) {
        print_speeds(speeds, speed_count);
    }
    trace_free(trace);
    return fine ? EXIT_SUCCESS : EXIT_FAILURE;
}
