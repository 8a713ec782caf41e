/* random.h: what the programs of random calls share: random numbers, lines of answers, and the loop over programs.
 *
 * A line is "SEED.STEP CALL ARGUMENTS: ANSWER". Two runtimes that behave alike print the same lines: a program chooses
 * its calls by the seed and by whether earlier calls succeeded, prints no address and no time, and asks for a state
 * only when the state does not depend on how fast the device is.
 */
#ifndef WEIR_VENDOR_RANDOM_H
#define WEIR_VENDOR_RANDOM_H

#include <acl/acl.h>

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned seed;
static unsigned step;
static uint64_t random_state;

static inline unsigned any(unsigned n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)((random_state >> 20) % n);
}

__attribute__((format(printf, 1, 2))) static inline void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)printf("%u.%u ", seed, step);
    (void)vprintf(format, args);
    (void)putchar('\n');
    va_end(args);
}

/* Runs the programs whose number and first seed the command line names, and ends the process. */
static inline int run_programs(int argc, char **argv, void (*run)(void))
{
    const unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    const unsigned long first = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
    if (count == 0 || first == 0 || first + count - 1 > UINT32_MAX) {
        (void)fprintf(stderr, "usage: %s COUNT [FIRST_SEED]\n", argv[0]);
        return 2;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* what came before a crash is kept */
    (void)aclInit(NULL);
    for (seed = (unsigned)first; seed < first + count; seed++) {
        random_state = seed * UINT64_C(0x9E3779B97F4A7C15);
        step = 0;
        run();
    }
    (void)fflush(stdout);
    _Exit(0); /* ends without destructors, because threads of the runtime may still be working */
}

#endif
