/* fault_run.h: a program that runs itself as a scenario, again and again: once for each ACL call of the scenario, with
 * a failure of this call, and once for each ACL function, with a failure of every call of the function. With
 * WEIR_FAULT_STEP=n in the environment, only every n-th call and function fails. Include it after acl_test.h; one file
 * of a program includes it once. With an argument the program is the scenario; without one it calls fault_run_begin,
 * and its tests call fail_each_call and fail_for_good. */
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

enum { DONE = 0, REFUSED = 40, WRONG = 41 }; /* how a scenario ends */

extern char **environ;

/* --- for the scenario --- */

static void wrong(const char *what, int result)
{
    (void)fprintf(stderr, "scenario: %s gave %d\n", what, result);
    _exit(WRONG);
}

#define TRY_ACL(call) TRY_NATIVE(call)

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

static void fail_each_call(void)
{
    const unsigned calls = calls_without_faults();
    assert_true(calls > 100);
    int failures = 0;
    unsigned runs = 0;
    for (unsigned n = 1; n <= calls; n += step, runs++) {
        char faults[32];
        (void)snprintf(faults, sizeof(faults), "any:%u", n);
        const int code = run(faults);
        char text[16384];
        read_report(text, sizeof(text));
        if (code != DONE) {
            print_error("%s ended with %d\n%s\n", faults, code, text);
            failures++;
        }
    }
    print_message("%u of %u calls, each failed once\n", runs, calls);
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
