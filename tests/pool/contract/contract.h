/* contract.h: how a contract suite runs its cases and reports failures. Part of the suites; needs only the C library.
 *
 * A case is a function. The first claim that does not hold prints file, line and claim, and ends the case; the next
 * case runs. A signal (a crash, an abort, `timeout 60 PROGRAM`) ends the program, after a line that names the case.
 */
#ifndef WEIR_CONTRACT_H
#define WEIR_CONTRACT_H

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct contract_case {
    const char *name;
    void (*run)(void);
};

#define CONTRACT_CASE(function)                                                                                        \
    {                                                                                                                  \
#function, function                                                                                            \
    }

enum contract_verdict { CONTRACT_PASSED, CONTRACT_SKIPPED, CONTRACT_FAILED };

static struct {
    jmp_buf leave;
    enum contract_verdict verdict; /* verdict of the running case, so far */
} contract;

/* --- claims --- */

static inline _Noreturn void contract_leave(enum contract_verdict verdict)
{
    contract.verdict = verdict;
    longjmp(contract.leave, 1);
}

/* Prints the reason and fails the case. */
static inline _Noreturn __attribute__((format(printf, 3, 4))) void contract_fail(const char *file, int line,
                                                                                 const char *format, ...)
{
    va_list args;
    const char *name = strrchr(file, '/');
    va_start(args, format);
    (void)printf("\n  %s:%d: ", name != NULL ? name + 1 : file, line);
    (void)vprintf(format, args);
    va_end(args);
    contract_leave(CONTRACT_FAILED);
}

/* Ends the current case as skipped: it does not apply, for the reason `why`. */
static inline _Noreturn void contract_skip(const char *why)
{
    (void)printf("skipped: %s", why);
    contract_leave(CONTRACT_SKIPPED);
}

static inline void contract_same_numbers(const char *file, int line, const char *text, long long is, long long expected)
{
    if (is != expected) {
        contract_fail(file, line, "%s: %lld and %lld", text, is, expected);
    }
}

#define fail_msg(...) contract_fail(__FILE__, __LINE__, __VA_ARGS__)
#define assert_true(claim) ((claim) ? (void)0 : fail_msg("%s", #claim))
#define assert_false(claim) assert_true(!(claim))
#define assert_null(pointer) assert_true((pointer) == NULL)
#define assert_non_null(pointer) assert_true((pointer) != NULL)
#define assert_int_equal(is, expected)                                                                                 \
    contract_same_numbers(__FILE__, __LINE__, #is " == " #expected, (long long)(is), (long long)(expected))

/* --- running --- */

static inline void contract_signal(int number)
{
    static const char text[] = " FAILED: the program ends by a signal\n";
    (void)!write(STDOUT_FILENO, text, sizeof(text) - 1);
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

/* Installs the signal handler, unless a sanitizer has already installed its own. */
static inline void contract_catch(int number)
{
    void (*before)(int) = signal(number, contract_signal);
    if (before != SIG_DFL && before != SIG_ERR) {
        (void)signal(number, before);
    }
}

static inline enum contract_verdict contract_run_case(const struct contract_case *one)
{
    static const char *const texts[] = {"passed\n", "\n", "\n  FAILED\n"};
    contract.verdict = CONTRACT_PASSED;
    (void)printf("%s ... ", one->name);
    (void)fflush(stdout);
    if (setjmp(contract.leave) == 0) {
        one->run();
    }
    (void)fputs(texts[contract.verdict], stdout);
    (void)fflush(stdout);
    return contract.verdict;
}

/* Runs the cases with `part` in their names, or all for NULL. Returns the exit status of the program. */
static inline int contract_run(const char *subject, const struct contract_case *cases, size_t count, const char *part)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM, SIGTERM};
    unsigned verdicts[3] = {0};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        contract_catch(signals[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (part == NULL || strstr(cases[i].name, part) != NULL) {
            verdicts[contract_run_case(&cases[i])]++;
        }
    }
    (void)printf("%s: %u passed, %u skipped, %u failed\n", subject, verdicts[CONTRACT_PASSED],
                 verdicts[CONTRACT_SKIPPED], verdicts[CONTRACT_FAILED]);
    return verdicts[CONTRACT_FAILED] == 0 && verdicts[CONTRACT_PASSED] > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
