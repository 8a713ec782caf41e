/* tool.c: a library for LD_PRELOAD, like memory savers and tracers: it replaces some functions, counts their calls, and
 * calls the next definition. */
#define _GNU_SOURCE 1

#include <acl/acl.h>

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#define TOOL __attribute__((visibility("default")))

_Atomic long tool_mallocs TOOL;
_Atomic long tool_frees TOOL;

/* ISO C has no conversion from an object's address to a function's. */
static void next(const char *name, void *function, size_t size)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, size);
}

TOOL aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    aclError (*real)(void **, size_t, aclrtMemMallocPolicy) = NULL;
    next("aclrtMalloc", &real, sizeof(real));
    tool_mallocs++;
    return real(devPtr, size, policy);
}

TOOL aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    aclError (*real)(void **, size_t, aclrtMemMallocPolicy) = NULL;
    next("aclrtMallocAlign32", &real, sizeof(real));
    tool_mallocs++;
    return real(devPtr, size, policy);
}

TOOL aclError aclrtFree(void *devPtr)
{
    aclError (*real)(void *) = NULL;
    next("aclrtFree", &real, sizeof(real));
    tool_frees++;
    return real(devPtr);
}
