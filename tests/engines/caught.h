/* tests/engines/caught.h: calls a C function as a C++ engine does, and says what came out of it. */
#ifndef TESTS_ENGINES_CAUGHT_H
#define TESTS_ENGINES_CAUGHT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* True: `call` threw a std::bad_alloc, whose text is written as snprintf does. Anything else thrown ends the program. */
bool caught_bad_alloc(void (*call)(void *ctx), void *ctx, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
