// caught.cc: see caught.h.
#include "caught.h"

#include <cstdio>
#include <new>

bool caught_bad_alloc(void (*call)(void *), void *ctx, char *text, size_t size)
{
    try {
        call(ctx);
    } catch (const std::bad_alloc &out_of_memory) {
        (void)std::snprintf(text, size, "%s", out_of_memory.what());
        return true;
    }
    return false;
}
