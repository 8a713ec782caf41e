/* core/shared/assert.h: assertions, for core, the allocators and the bindings.
 *
 * An assertion states a condition that only a bug of weir can break: a precondition of an internal function, a lock
 * that the function needs, or an invariant. Arguments of callers are refused (weir_refuse) and not asserted. The tiers
 * hang on WEIR_CHECKS, a CMake option that the presets set:
 *
 *     0   no assertion                                                        release
 *     1   WEIR_ASSERT: constant cost
 *     2   WEIR_ASSERT_THOROUGH: may walk the part that the function changes   dev, the sanitizers
 *     3   WEIR_ASSERT_FULL: may walk everything
 *
 * Below its tier an assertion is compiled but not evaluated, so its condition must have no side effect. A broken
 * assertion prints its file, line, function and condition to stderr and aborts the program: the program's state is no
 * longer known. Builds with seeded bugs (tests/project/mutants) set WEIR_ASSERTIONS to 0, so that a bug runs on to the
 * test that must find it.
 */
#ifndef WEIR_SHARED_ASSERT_H
#define WEIR_SHARED_ASSERT_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef WEIR_CHECKS
#define WEIR_CHECKS 0
#endif
#ifndef WEIR_ASSERTIONS
#define WEIR_ASSERTIONS WEIR_CHECKS
#endif

__attribute__((cold, noinline, noreturn, unused)) static void
weir__assert_failed(const char *file, int line, const char *function, const char *condition)
{
    (void)fprintf(stderr, "weir: %s:%d: %s: assertion failed: %s\n", file, line, function, condition);
    abort();
}

/* Ends a checked program that has broken a rule. The call is compiled only where WEIR_CHECKS is above 0. */
__attribute__((cold, noinline, noreturn, unused)) static void weir__rule_broken(const char *rule)
{
    (void)fprintf(stderr, "weir: an invariant is broken: %s\n", rule);
    abort();
}

#define WEIR__ASSERT_IN_TIER(tier, condition)                                                                          \
    (WEIR_ASSERTIONS >= (tier) && __builtin_expect(!(condition), 0)                                                    \
         ? weir__assert_failed(__FILE__, __LINE__, __func__, #condition)                                               \
         : (void)0)

#define WEIR_ASSERT(condition) WEIR__ASSERT_IN_TIER(1, condition)
#define WEIR_ASSERT_THOROUGH(condition) WEIR__ASSERT_IN_TIER(2, condition)
#define WEIR_ASSERT_FULL(condition) WEIR__ASSERT_IN_TIER(3, condition)

/* Asserts that some thread holds the pthread mutex, which is not recursive. A trylock that fails changes nothing. Needs
 * <pthread.h>. */
#define WEIR_ASSERT_HELD(mutex) WEIR_ASSERT(pthread_mutex_trylock(mutex) == EBUSY)

#endif
