/* scenario.h: runs bodies, each in a process of its own with a simulated machine of its own, and keeps the runtime's
 * report of the end. */
#ifndef WEIR_ACL_SCENARIO_H
#define WEIR_ACL_SCENARIO_H

#include "rig/acl.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ends the process with status 1 if the condition is false. For bodies of scenarios, which run in a child process:
 * after a failed assertion of cmocka the child process would go on with the next test. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                      \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)
#define GIVES(code, call)                                                                                              \
    do {                                                                                                               \
        const int gives_ = (int)(call);                                                                                \
        if (gives_ != (int)(code)) {                                                                                   \
            (void)fprintf(stderr, "%s:%d: %s is %d\n", __FILE__, __LINE__, #call, gives_);                             \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)
#define OK(call) GIVES(ACL_SUCCESS, call)

static char scenario_report[65536];

/* Runs a body in a child process and keeps the report. */
static inline void scenario(void (*body)(void))
{
    char path[] = "/tmp/weir_scenario_XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    (void)fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        acl_environment("REPORT", path);
        OK(aclrtSetDevice(0));
        body();
        exit(0); /* the runtime's library writes the report at exit */
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    const ssize_t got = read(file, scenario_report, sizeof(scenario_report) - 1);
    (void)close(file);
    (void)unlink(path);
    scenario_report[got > 0 ? got : 0] = '\0';
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail_msg("the scenario ended with %d; %s", status, scenario_report);
    }
}

static inline void report_has(const char *text)
{
    if (strstr(scenario_report, text) == NULL) {
        fail_msg("\"%s\" is not in: %s", text, scenario_report);
    }
}

static inline void report_has_not(const char *text)
{
    if (strstr(scenario_report, text) != NULL) {
        fail_msg("\"%s\" is in: %s", text, scenario_report);
    }
}

/* Checks that the report has no finding and no warning. */
static inline void report_is_clean(void)
{
    report_has("the auditor found nothing");
    report_has_not("warning");
}

#endif
