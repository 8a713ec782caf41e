/* mistakes.h: proves that a contract suite finds mistakes. Each mistake is built into a correct subject, one at a time,
 * and the case that the mistake names has to fail; without a mistake the whole suite has to pass.
 *
 *   PROGRAM                   tries all mistakes and prints a line for each
 *   PROGRAM NUMBER [CASE]     runs the suite, or one case of it, with that mistake and prints its output; 0: no mistake
 */
#ifndef MISTAKES_H
#define MISTAKES_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct mistake {
    const char *what;
    const char *found_by; /* the case that fails */
};

/* Runs the suite, or one case of it, with mistake `number` built in (0: none). Returns the suite's exit status. */
typedef int (*suite_run)(int number, const char *only);

/* Runs the suite in a child process, which is killed if it hangs. Copies its output into `text`. */
static inline int run_in_child(suite_run run, int number, const char *only, char *text, size_t size)
{
    int ends[2];
    int status = 0;
    size_t length = 0;
    ssize_t got = 0;
    (void)fflush(NULL);
    if (pipe(ends) != 0) {
        abort();
    }
    const pid_t child = fork();
    if (child == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)alarm(number == 0 ? 0 : 10); /* some mistakes hang; one that is only slow is found too */
        const int result = run(number, only);
        (void)fflush(NULL);
        _exit(result);
    }
    (void)close(ends[1]);
    while ((got = read(ends[0], text + length, size - 1 - length)) > 0) { /* drops output beyond `size` */
        length += (size_t)got;
    }
    text[length] = '\0';
    (void)close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child) {
        abort();
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* True if the case began and neither passed nor was skipped. A signal or a sanitizer may have ended it. */
static inline bool case_failed(const char *text, const char *name)
{
    char begin[128];
    const int length = snprintf(begin, sizeof(begin), "%s ... ", name);
    const char *at = strstr(text, begin);
    return at != NULL && strncmp(at + length, "passed", 6) != 0 && strncmp(at + length, "skipped", 7) != 0;
}

/* Proves that the suite goes on after a case that fails: runs the cases with `part` in their names with each mistake,
 * and looks for the line with which the suite ends. A mistake that hangs a case may end the suite. */
static inline bool prove_going_on(int count, suite_run run, const char *part)
{
    static char text[1 << 20];
    int ended = 0;
    for (int number = 1; number <= count; number++) {
        const int status = run_in_child(run, number, part, text, sizeof(text));
        if (status != 128 + SIGALRM && strstr(text, " failed\n") == NULL) {
            printf("%s\nthe suite does not go on after mistake %d: status %d\n", text, number, status);
            ended++;
        }
    }
    printf("%d mistakes, after %d the suite does not go on\n", count, ended);
    return ended == 0;
}

static inline int prove_mistakes(const struct mistake *mistakes, int count, suite_run run, int argc, char **argv)
{
    static char text[1 << 22];
    int missed = 0;
    if (argc > 1) {
        return run(atoi(argv[1]), argc > 2 ? argv[2] : NULL);
    }
    if (run_in_child(run, 0, NULL, text, sizeof(text)) != EXIT_SUCCESS) {
        printf("%s\nthe suite fails without a mistake\n", text);
        missed++;
    }
    for (int number = 1; number <= count; number++) {
        const struct mistake *mistake = &mistakes[number - 1];
        const int status = run_in_child(run, number, mistake->found_by, text, sizeof(text));
        const bool found = status != EXIT_SUCCESS && case_failed(text, mistake->found_by);
        printf("%2d %s: %s %s\n", number, mistake->what, found ? "found by" : "MISSED by", mistake->found_by);
        missed += !found;
    }
    printf("%d mistakes, %d missed\n", count, missed);
    return missed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
