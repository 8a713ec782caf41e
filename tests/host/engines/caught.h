/* tests/host/engines/caught.h: calls a C function as a C++ engine does, and reports the exception that it threw. */
#ifndef TESTS_ENGINES_CAUGHT_H
#define TESTS_ENGINES_CAUGHT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns true if `call` threw a std::bad_alloc, and writes its text as snprintf does. Any other exception ends the
 * program. */
bool caught_bad_alloc(void (*call)(void *ctx), void *ctx, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
