/* late_load.c: a program that does not link weir loads a library while it runs, as the host of a plugin does.
 *
 *   late_load LIBRARY FUNCTION     FUNCTION: takes no arguments and returns a text; or - for none
 *
 * If a library's thread-local data must lie in the static block, the loader takes it from a small reserve, which all
 * libraries loaded later share (glibc: 1664 bytes). A library that needs more than STATIC_BYTES fails this test, even
 * if there is room at the moment. Exit code 0: loaded, called from two threads, unloaded.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATIC_BYTES = 512 };

static const char *(*function)(void);

static int fail(const char *what)
{
    (void)fprintf(stderr, "late_load: %s\n", what);
    return 1;
}

static void *call(void *unused)
{
    (void)unused;
    const char *text = function != NULL ? function() : "";
    return text == NULL ? (void *)"a text is NULL" : NULL;
}

/* A dl_iterate_phdr callback, called with each loaded library; returns 1 for the wanted one. */
static int find(struct dl_phdr_info *info, size_t size, void *out)
{
    struct {
        const struct link_map *map;
        size_t tls_bytes;
    } *wanted = out;
    (void)size;
    if (info->dlpi_name == NULL || strcmp(info->dlpi_name, wanted->map->l_name) != 0) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        wanted->tls_bytes += info->dlpi_phdr[i].p_type == PT_TLS ? info->dlpi_phdr[i].p_memsz : 0;
    }
    return 1;
}

/* Returns the bytes of the static block for thread-local data that the library takes: the size of all of its
 * thread-local data, or 0. */
static size_t static_bytes(const struct link_map *map)
{
    struct {
        const struct link_map *map;
        size_t tls_bytes;
    } wanted = {.map = map};
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_STATIC_TLS) != 0) {
            (void)dl_iterate_phdr(find, &wanted);
        }
    }
    return wanted.tls_bytes;
}

int main(int count, char **arguments)
{
    if (count != 3) {
        return fail("LIBRARY FUNCTION");
    }
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return fail(dlerror());
    }
    struct link_map *map = NULL;
    if (dlinfo(library, RTLD_DI_LINKMAP, (void *)&map) != 0) {
        return fail(dlerror());
    }
    const size_t bytes = static_bytes(map);
    (void)printf("%zu bytes of the static block\n", bytes);
    if (bytes > STATIC_BYTES) {
        return fail("too much thread-local data for a library that wants it in the static block");
    }
    if (strcmp(arguments[2], "-") != 0) {
        void *found = dlsym(library, arguments[2]);
        if (found == NULL) {
            return fail(dlerror());
        }
        memcpy(&function, &found, sizeof(function));
    }
    pthread_t thread;
    void *wrong = call(NULL);
    if (wrong == NULL && (pthread_create(&thread, NULL, call, NULL) != 0 || pthread_join(thread, &wrong) != 0)) {
        return fail("no thread");
    }
    if (wrong != NULL) {
        return fail(wrong);
    }
    return dlclose(library) == 0 ? 0 : fail(dlerror());
}
