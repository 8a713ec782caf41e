/* fault_run.h: a program that runs itself as a scenario, again and again: for each ACL call of the scenario, with
 * outages that begin at this call, and for each ACL function, with outages of the function alone and with a failure of
 * all its calls. With WEIR_FAULT_STEP=n in the environment, fewer calls and every n-th function fail. Include it after
 * acl_test.h; one file of a program includes it once. With an argument the program is the scenario; without one it
 * calls fault_run_begin, and its tests call fail_from_each_call, fail_alone and fail_for_good. */
#ifndef WEIR_ACL_FAULT_RUN_H
#define WEIR_ACL_FAULT_RUN_H

#include "rig/retry.h"
#include "rig/seeds.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir/ascendcl.h>

enum { DONE = 0, REFUSED = 40, WRONG = 41 }; /* how a scenario ends */

extern char **environ;

/* --- for the scenario --- */

static void wrong(const char *what, int result)
{
    (void)fprintf(stderr, "scenario: %s gave %d\n", what, result);
    _exit(WRONG);
}

#define TRY_ACL(call) TRY_NATIVE(call)

/* From now on no call fails, unless a function is to fail for good. */
static void outage_ends(void)
{
    const char *faults = getenv("WEIR_ASCENDCL_FAULTS");
    if (faults != NULL && strchr(faults, '-') != NULL) {
        (void)weir_ascendcl_fail(NULL, 0, 0);
    }
}

/* --- running it --- */

static const char *self;
static char report[64];
static unsigned step; /* number of calls or functions from one that fails to the next */

/* Returns the exit code, or -1 if a signal ended the scenario. */
static int run(const char *faults)
{
    char *arguments[] = {(char *)(uintptr_t)self, (char *)(uintptr_t) "scenario", NULL};
    pid_t child = 0;
    int status = 0;
    (void)setenv("WEIR_ASCENDCL_FAULTS", faults, 1);
    (void)setenv("WEIR_ASCENDCL_REPORT", report, 1);
    assert_int_equal(posix_spawn(&child, self, NULL, NULL, arguments, environ), 0);
    (void)unsetenv("WEIR_ASCENDCL_FAULTS"); /* this program's own calls must not fail */
    (void)unsetenv("WEIR_ASCENDCL_REPORT");
    while (waitpid(child, &status, 0) < 0) {
        assert_int_equal(errno, EINTR);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Reads the runtime's report of the last run. */
static void read_report(char *text, size_t size)
{
    FILE *file = fopen(report, "r");
    text[0] = '\0';
    if (file == NULL) {
        return; /* the scenario crashed */
    }
    const size_t length = fread(text, 1, size - 1, file);
    text[length] = '\0';
    (void)fclose(file);
    (void)remove(report);
}

static unsigned calls_without_faults(void)
{
    char text[16384];
    unsigned calls = 0;
    assert_int_equal(run(""), DONE);
    read_report(text, sizeof(text));
    const char *line = strstr(text, "weir ascendcl: ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "weir ascendcl: %u calls", &calls), 1);
    return calls;
}

/* Runs the scenario with an outage. Returns the number of wrong ends: 0 or 1. */
static int run_outage(const char *function, unsigned first, unsigned count)
{
    char faults[80];
    char text[16384];
    (void)snprintf(faults, sizeof(faults), "%s:%u-%u", function, first, first + count - 1);
    const int code = run(faults);
    read_report(text, sizeof(text));
    if (code != DONE) {
        print_error("%s ended with %d\n%s\n", faults, code, text);
    }
    return code != DONE;
}

/* An outage begins at every step-th call, one after the other 1 to 5 calls long; with step 1 each begins at every
 * call. */
static void fail_from_each_call(void)
{
    const unsigned calls = calls_without_faults();
    assert_true(calls > 100);
    int failures = 0;
    unsigned runs = 0;
    for (unsigned count = 1; count <= 5; count++) {
        for (unsigned first = 1 + count % step; first <= calls; first += step == 1 ? 1 : 4 * step, runs++) {
            failures += run_outage("any", first, count);
        }
    }
    print_message("%u outages in %u calls\n", runs, calls);
    assert_int_equal(failures, 0);
}

/* Turns the leak check off: memory that ACL never takes back, its own objects included, is not a leak of weir. */
static void look_away_from_leaks(void)
{
    char options[512];
    const char *set = getenv("ASAN_OPTIONS");
    (void)snprintf(options, sizeof(options), "%s%sdetect_leaks=0", set != NULL ? set : "", set != NULL ? ":" : "");
    (void)setenv("ASAN_OPTIONS", options, 1);
}

/* Each function fails in outages of its own: from its first calls on, 2 to 4 calls long. */
static void fail_alone(const char *const *functions, size_t count)
{
    int failures = 0;
    for (size_t i = 0; i < count; i += step) {
        for (unsigned length = 2; length <= 4; length++) {
            for (unsigned first = 1; first <= 9; first += 1 + length) {
                failures += run_outage(functions[i], first, length);
            }
        }
    }
    assert_int_equal(failures, 0);
}

/* Memory may be left at the end if the device does not take it back. But no run may crash, hang or use memory too
 * early. */
static void fail_for_good(const char *const *functions, size_t count)
{
    int failures = 0;
    look_away_from_leaks();
    for (size_t i = 0; i < count; i += step) {
        for (unsigned from = 1; from <= 9; from += 4) {
            char faults[80];
            char text[16384];
            (void)snprintf(faults, sizeof(faults), "%s:%u+", functions[i], from);
            const int code = run(faults);
            read_report(text, sizeof(text));
            bool good = code == DONE || code == REFUSED;
            /* a finding about memory that the device does not take back is expected; other findings are errors */
            if (code == FOUND) {
                good = strstr(text, "unordered") == NULL && strstr(text, "while earlier work") == NULL &&
                       strstr(text, "while work on it") == NULL;
            }
            if (!good) {
                print_error("%s ended with %d\n%s\n", faults, code, text);
                failures++;
            }
        }
    }
    assert_int_equal(failures, 0);
}

static void fault_run_begin(const char *program)
{
    self = program;
    step = (unsigned)seeds_read("WEIR_FAULT_STEP", 1);
    assert_true(step > 0);
    (void)snprintf(report, sizeof(report), "weir_acl_fault.%d", (int)getpid());
}

#endif
