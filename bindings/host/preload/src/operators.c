/* operators.c: C++'s operators new and delete, by their names in the C++ ABI, so that a block belongs to the code that
 * wrote `new`, and not to the C++ library.
 *
 * Each is one call of malloc's family. Where that fails, the C++ library's own operator takes over: it calls the
 * program's new_handler and throws. It is looked up in the libraries that the process has loaded, because this library
 * must not bring the C++ library into every program.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NOLOAD */
#endif

#include "preload.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define REPLACES __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

REPLACES void *_Znwm(size_t size);
REPLACES void *_Znam(size_t size);
REPLACES void *_ZnwmRKSt9nothrow_t(size_t size, const void *nothrow);
REPLACES void *_ZnamRKSt9nothrow_t(size_t size, const void *nothrow);
REPLACES void *_ZnwmSt11align_val_t(size_t size, size_t align);
REPLACES void *_ZnamSt11align_val_t(size_t size, size_t align);
REPLACES void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t align, const void *nothrow);
REPLACES void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t align, const void *nothrow);
REPLACES void _ZdlPv(void *block);
REPLACES void _ZdaPv(void *block);
REPLACES void _ZdlPvm(void *block, size_t size);
REPLACES void _ZdaPvm(void *block, size_t size);
REPLACES void _ZdlPvRKSt9nothrow_t(void *block, const void *nothrow);
REPLACES void _ZdaPvRKSt9nothrow_t(void *block, const void *nothrow);
REPLACES void _ZdlPvSt11align_val_t(void *block, size_t align);
REPLACES void _ZdaPvSt11align_val_t(void *block, size_t align);
REPLACES void _ZdlPvmSt11align_val_t(void *block, size_t size, size_t align);
REPLACES void _ZdaPvmSt11align_val_t(void *block, size_t size, size_t align);
REPLACES void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *block, size_t align, const void *nothrow);
REPLACES void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *block, size_t align, const void *nothrow);

/* --- where there is no memory --- */

/* Returns the C++ library's function of that name; NULL if no C++ library is loaded. */
static void *function_of_library(const char *name)
{
    static const char *const libraries[] = {"libstdc++.so.6", "libc++.so.1", "libc++abi.so.1"};
    void *found = NULL;
    const bool was_outside = preload_enter(); /* the search may allocate */
    for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries) && found == NULL; i++) {
        void *library = dlopen(libraries[i], RTLD_NOLOAD | RTLD_LAZY);
        found = library != NULL ? dlsym(library, name) : NULL;
    }
    if (was_outside) {
        preload_leave();
    }
    return found;
}

static __attribute__((cold, noinline)) void *new_by_library(size_t size)
{
    void *(*function)(size_t) = NULL;
    void *const found = function_of_library("_Znwm");
    memcpy(&function, &found, sizeof(function));
    if (function == NULL) {
        report_sentence("weir: out of memory in operator new, and no C++ library to throw std::bad_alloc\n");
        abort();
    }
    return function(size);
}

static __attribute__((cold, noinline)) void *aligned_new_by_library(size_t size, size_t align)
{
    void *(*function)(size_t, size_t) = NULL;
    void *const found = function_of_library("_ZnwmSt11align_val_t");
    memcpy(&function, &found, sizeof(function));
    return function != NULL ? function(size, align) : new_by_library(size);
}

/* The same for an operator that returns NULL. Its library's form catches the exception of a new_handler. */
static __attribute__((cold, noinline)) void *nothrow_by_library(size_t size, const void *nothrow)
{
    void *(*function)(size_t, const void *) = NULL;
    void *const found = function_of_library("_ZnwmRKSt9nothrow_t");
    memcpy(&function, &found, sizeof(function));
    return function != NULL ? function(size, nothrow) : NULL;
}

static __attribute__((cold, noinline)) void *aligned_nothrow_by_library(size_t size, size_t align, const void *nothrow)
{
    void *(*function)(size_t, size_t, const void *) = NULL;
    void *const found = function_of_library("_ZnwmSt11align_val_tRKSt9nothrow_t");
    memcpy(&function, &found, sizeof(function));
    return function != NULL ? function(size, align, nothrow) : NULL;
}

/* --- new --- */

void *_Znwm(size_t size)
{
    void *block = preload_alloc(size, CALLER);
    return __builtin_expect(block != NULL, true) ? block : new_by_library(size);
}

void *_Znam(size_t size)
{
    void *block = preload_alloc(size, CALLER);
    return __builtin_expect(block != NULL, true) ? block : new_by_library(size);
}

void *_ZnwmRKSt9nothrow_t(size_t size, const void *nothrow)
{
    void *block = preload_alloc(size, CALLER);
    return __builtin_expect(block != NULL, true) ? block : nothrow_by_library(size, nothrow);
}

void *_ZnamRKSt9nothrow_t(size_t size, const void *nothrow)
{
    void *block = preload_alloc(size, CALLER);
    return __builtin_expect(block != NULL, true) ? block : nothrow_by_library(size, nothrow);
}

void *_ZnwmSt11align_val_t(size_t size, size_t align)
{
    void *block = preload_alloc_aligned(align, size, CALLER);
    return __builtin_expect(block != NULL, true) ? block : aligned_new_by_library(size, align);
}

void *_ZnamSt11align_val_t(size_t size, size_t align)
{
    void *block = preload_alloc_aligned(align, size, CALLER);
    return __builtin_expect(block != NULL, true) ? block : aligned_new_by_library(size, align);
}

void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t align, const void *nothrow)
{
    void *block = preload_alloc_aligned(align, size, CALLER);
    return __builtin_expect(block != NULL, true) ? block : aligned_nothrow_by_library(size, align, nothrow);
}

void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t align, const void *nothrow)
{
    void *block = preload_alloc_aligned(align, size, CALLER);
    return __builtin_expect(block != NULL, true) ? block : aligned_nothrow_by_library(size, align, nothrow);
}

/* --- delete --- */

void _ZdlPv(void *block)
{
    free(block);
}

void _ZdaPv(void *block)
{
    free(block);
}

void _ZdlPvm(void *block, size_t size)
{
    (void)size;
    free(block);
}

void _ZdaPvm(void *block, size_t size)
{
    (void)size;
    free(block);
}

void _ZdlPvRKSt9nothrow_t(void *block, const void *nothrow)
{
    (void)nothrow;
    free(block);
}

void _ZdaPvRKSt9nothrow_t(void *block, const void *nothrow)
{
    (void)nothrow;
    free(block);
}

void _ZdlPvSt11align_val_t(void *block, size_t align)
{
    (void)align;
    free(block);
}

void _ZdaPvSt11align_val_t(void *block, size_t align)
{
    (void)align;
    free(block);
}

void _ZdlPvmSt11align_val_t(void *block, size_t size, size_t align)
{
    (void)size, (void)align;
    free(block);
}

void _ZdaPvmSt11align_val_t(void *block, size_t size, size_t align)
{
    (void)size, (void)align;
    free(block);
}

void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *block, size_t align, const void *nothrow)
{
    (void)align, (void)nothrow;
    free(block);
}

void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *block, size_t align, const void *nothrow)
{
    (void)align, (void)nothrow;
    free(block);
}
