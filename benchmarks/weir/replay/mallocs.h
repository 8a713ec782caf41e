/* mallocs.h: the mallocs of other projects, loaded beside the process's own malloc, so that they can be measured. */
#ifndef WEIR_BENCHMARKS_MALLOCS_H
#define WEIR_BENCHMARKS_MALLOCS_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct malloc_functions {
    void *(*alloc)(size_t size);
    void *(*alloc_aligned)(size_t align, size_t size); /* `align` is a power of two, and `size` is a multiple of it */
    void *(*realloc)(void *pointer, size_t size);
    void (*free)(void *pointer);
};

/* Names of the mallocs that mallocs_find knows; NULL ends the list. */
extern const char *const malloc_names[];

/* Finds a malloc by name: glibc, jemalloc, mimalloc or tcmalloc. glibc is the process's own malloc, called through
 * pointers like the other mallocs, so that no compiler removes the calls. The other mallocs are loaded so that no other
 * code in the process uses them. On failure returns false with the reason in *why, which stays valid until the next
 * call. */
bool mallocs_find(const char *name, struct malloc_functions *found, const char **why);

/* Restarts the program with a setting of glibc if jemalloc cannot be loaded without it: jemalloc's thread-local data
 * needs more memory than glibc reserves for libraries that are loaded later, and glibc reads the size of this reserve
 * only when the program starts. Must run before the program reads its input or starts a thread. */
void mallocs_prepare(char **arguments);

#ifdef __cplusplus
}
#endif

#endif
