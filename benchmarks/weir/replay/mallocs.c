/* mallocs.c: see mallocs.h. */
#include "replay/mallocs.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes reserved for thread-local data: more than the 2.6 KiB that jemalloc 5.3.0 needs, and few compared with a
 * stack. */
#define TUNABLE "glibc.rtld.optional_static_tls"
#define TUNABLE_SETTING TUNABLE "=16384"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(SANITIZED)
static const bool sanitized = true; /* a sanitizer ends the process if another malloc is loaded */
#else
static const bool sanitized = false;
#endif

const char *const malloc_names[] = {"glibc", "jemalloc", "mimalloc", "tcmalloc", NULL};

/* Finds a function and copies its address. ISO C cannot convert dlsym's result to a function pointer; POSIX guarantees
 * that both have the same bytes. */
static bool find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof(found));
    return found != NULL;
}

bool mallocs_find(const char *name, struct malloc_functions *found, const char **why)
{
    static const struct {
        const char *name;
        const char *library;
        const char *alloc;
        const char *alloc_aligned;
        const char *realloc;
        const char *free;
    } libraries[] = {
        {"jemalloc", "libjemalloc.so.2", "malloc", "aligned_alloc", "realloc", "free"},
        {"mimalloc", "libmimalloc.so.2", "mi_malloc", "mi_aligned_alloc", "mi_realloc", "mi_free"},
        {"tcmalloc", "libtcmalloc_minimal.so.4", "tc_malloc", "tc_memalign", "tc_realloc", "tc_free"},
    };
    if (strcmp(name, "glibc") == 0) {
        *found = (struct malloc_functions){malloc, aligned_alloc, realloc, free};
        return true;
    }
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        if (strcmp(name, libraries[i].name) != 0) {
            continue;
        }
        if (sanitized) {
            *why = "a sanitizer allows no other malloc";
            return false;
        }
        /* RTLD_LOCAL: no other library binds to this malloc. RTLD_DEEPBIND: this malloc binds to its own symbols
         * first. */
        void *library = dlopen(libraries[i].library, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
        struct malloc_functions functions;
        if (library == NULL || !find(library, libraries[i].alloc, &functions.alloc) ||
            !find(library, libraries[i].alloc_aligned, &functions.alloc_aligned) ||
            !find(library, libraries[i].realloc, &functions.realloc) ||
            !find(library, libraries[i].free, &functions.free)) {
            *why = dlerror();
            return false;
        }
        *found = functions;
        return true;
    }
    *why = "no malloc of that name is known";
    return false;
}

void mallocs_prepare(char **arguments)
{
    struct malloc_functions ignored;
    const char *why = NULL;
    const char *tunables = getenv("GLIBC_TUNABLES");
    if (mallocs_find("jemalloc", &ignored, &why) || (tunables != NULL && strstr(tunables, TUNABLE) != NULL)) {
        return;
    }
    char setting[1024];
    const int length = snprintf(setting, sizeof(setting), "%s%s" TUNABLE_SETTING, tunables != NULL ? tunables : "",
                                tunables != NULL ? ":" : "");
    if (length > 0 && (size_t)length < sizeof(setting) && setenv("GLIBC_TUNABLES", setting, 1) == 0) {
        (void)execv("/proc/self/exe", arguments);
    }
    /* The program continues without jemalloc; mallocs_find reports that when jemalloc is requested. */
}
