// tests/rig/check.hh: for programs that play the C++ code of an engine: CHECK names the place and ends the process.
#ifndef WEIR_RIG_CHECK_HH
#define WEIR_RIG_CHECK_HH

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                         \
            std::_Exit(1);                                                                                             \
        }                                                                                                              \
    } while (false)

#endif
