/* onnx_api.c: see onnx_api.h. */
#include "engines/onnx_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST = 12, STATS = 23 };

/* Copies a function pointer from the table. POSIX guarantees that pointers to functions and pointers to objects have
 * the same bytes. */
static void find(const struct OrtApi *table, size_t place, void *function)
{
    memcpy(function, (const char *)table + place * sizeof(void *), sizeof(void *));
}

bool onnx_api_load(const char *library, const struct OrtApiBase **base, struct onnx_api *api)
{
    void *loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void *found = loaded == NULL ? NULL : dlsym(loaded, "OrtGetApiBase");
    if (found == NULL) {
        (void)fprintf(stderr, "%s\n", dlerror());
        return false;
    }
    const struct OrtApiBase *(*get_base)(void);
    memcpy(&get_base, &found, sizeof(get_base));
    *base = get_base();
    const char *version = (*base)->GetVersionString(); /* "1.28.2" */
    *api = (struct onnx_api){.version = (uint32_t)strtoul(strchr(version, '.') + 1, NULL, 10)};
    if (api->version < OLDEST) {
        (void)fprintf(stderr, "%s is ONNX Runtime %s, which is too old\n", library, version);
        return false;
    }
    const struct OrtApi *table = (*base)->GetApi(api->version < STATS ? api->version : STATS);
#define FIND(name, place, result, parameters) find(table, place, &api->name);
    ONNX_API(FIND)
    if (api->version >= STATS) {
        ONNX_API_STATS(FIND)
    }
#undef FIND
    return true;
}
