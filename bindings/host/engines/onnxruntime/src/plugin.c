/* plugin.c: libweir_onnxruntime_plugin.so, which puts a heap behind ONNX Runtime in programs that cannot call weir.
 *
 *     Python   options.register_custom_ops_library("libweir_onnxruntime_plugin.so")
 *     C, C++   RegisterCustomOpsLibrary(options, "libweir_onnxruntime_plugin.so", &handle)
 *     Node     process.dlopen({exports: {}}, "libweir_onnxruntime_plugin.so"), and in each session's options
 *              extra: {session: {use_env_allocators: "1", use_device_allocator_for_initializers: "1"}}
 *
 * Purpose: the first call makes a heap and registers it with the runtime's environment; a process has one environment.
 * RegisterCustomOps also sets the options of its session; it registers no operator. WEIR_ONNXRUNTIME in the environment
 * has the settings, "limit:512MiB,report:1": a limit of the heap, and a line on standard error at exit.
 *
 * Ownership: heap, binding and a reference to the environment belong to the process and are never released, because
 * sessions may end in any order at exit. The library is never unloaded, though the runtime closes it with a session.
 * Errors: RegisterCustomOps returns a status, Node's require throws; nothing has changed then, and a later call tries
 * again. Out of memory is an error of the call of the runtime that needed the memory, as in weir/onnxruntime.h.
 * Thread safety: every function may be called from any thread.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* secure_getenv */
#endif
#include "runtime.h"

#include "shared/read_bytes.h"

#include <dlfcn.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* Indices in OrtApi of the functions that the plugin itself calls, and a value of OrtLoggingLevel. */
enum { CREATE_STATUS = 0, CREATE_ENV = 3, RELEASE_ENV = 92, RELEASE_STATUS = 93, LEVEL_WARNING = 2 };

struct settings {
    uint64_t limit_bytes;
    bool report;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Protected by the lock; NULL or false until a heap exists. `base` is the runtime that the heap serves. */
static const struct OrtApiBase *base;
static weir_heap *heap;
static weir_onnxruntime *binding;
static bool report;

/* --- settings --- */

static bool read_setting(const char *text, struct settings *settings)
{
    if (strncmp(text, "limit:", 6) == 0) {
        return weir__read_bytes(text + 6, &settings->limit_bytes);
    }
    settings->report = strcmp(text, "report:1") == 0;
    return settings->report || strcmp(text, "report:0") == 0;
}

/* Reads the settings. On failure returns false and writes the reason to `why`. */
static bool read_settings(struct settings *settings, char *why, size_t size)
{
    const char *all = secure_getenv("WEIR_ONNXRUNTIME");
    char text[256];
    char *rest = NULL;
    if (all == NULL) {
        return true;
    }
    if (strlen(all) >= sizeof(text)) {
        (void)snprintf(why, size, "WEIR_ONNXRUNTIME is too long");
        return false;
    }
    memcpy(text, all, strlen(all) + 1);
    for (char *part = strtok_r(text, ",", &rest); part != NULL; part = strtok_r(NULL, ",", &rest)) {
        if (!read_setting(part, settings)) {
            (void)snprintf(why, size, "WEIR_ONNXRUNTIME: \"%s\" is no setting; there are limit:BYTES and report:0 or 1",
                           part);
            return false;
        }
    }
    return true;
}

/* --- heap and binding --- */

/* Copies the function pointer at index `place` of the runtime's table. */
static void find(const struct OrtApi *table, size_t place, void *function)
{
    memcpy(function, (const char *)table + place * sizeof(void (*)(void)), sizeof(void (*)(void)));
}

/* Gets the environment of the process; makes it if there is none yet. Keeps a reference for the life of the process. */
static weir_status attach(weir_onnxruntime *made, const struct OrtApi *table, char *why, size_t size)
{
    OrtStatus *(*create_env)(int level, const char *name, struct OrtEnv **env);
    struct OrtEnv *env = NULL;
    find(table, CREATE_ENV, &create_env);
    OrtStatus *status = create_env(LEVEL_WARNING, "weir", &env);
    if (status != NULL) {
        void (*release_status)(OrtStatus *) = NULL;
        find(table, RELEASE_STATUS, &release_status);
        release_status(status);
        (void)snprintf(why, size, "the runtime has no environment");
        return WEIR_ERR_DEVICE;
    }
    const weir_status attached = weir_onnxruntime_attach(made, env);
    if (attached != WEIR_OK) {
        void (*release_env)(struct OrtEnv *) = NULL;
        if (attached == WEIR_ERR_DEVICE) {
            (void)weir_onnxruntime_explain(made, why, size);
        } else {
            (void)snprintf(why, size, "%s", weir_last_error());
        }
        find(table, RELEASE_ENV, &release_env);
        release_env(env);
    }
    return attached;
}

static weir_status start_locked(const struct OrtApiBase *runtime, char *why, size_t size)
{
    struct settings settings = {0};
    weir_heap_config heap_config = WEIR_HEAP_CONFIG_INIT;
    weir_onnxruntime_config config = WEIR_ONNXRUNTIME_CONFIG_INIT;
    weir_heap *new_heap = NULL;
    weir_onnxruntime *new_binding = NULL;
    if (!read_settings(&settings, why, size)) {
        return WEIR_ERR_INVALID;
    }
    heap_config.name = "onnxruntime";
    heap_config.limit_bytes = settings.limit_bytes;
    weir_status status = weir_heap_create(&heap_config, &new_heap);
    if (status == WEIR_OK) {
        config.heap = new_heap;
        config.runtime = runtime;
        status = weir_onnxruntime_create(&config, &new_binding);
    }
    if (status != WEIR_OK) {
        (void)snprintf(why, size, "%s",
                       status == WEIR_ERR_INVALID || status == WEIR_ERR_UNSUPPORTED ? weir_last_error()
                                                                                    : weir_status_text(status));
    } else {
        status = attach(new_binding, runtime->GetApi(OLDEST_VERSION), why, size);
    }
    if (status != WEIR_OK) {
        (void)weir_onnxruntime_destroy(new_binding);
        (void)weir_heap_destroy(new_heap);
        return status;
    }
    base = runtime;
    heap = new_heap;
    binding = new_binding;
    report = settings.report;
    return WEIR_OK;
}

/* Makes the heap the allocator of this runtime, unless it already is. */
static weir_status start(const struct OrtApiBase *runtime, char *why, size_t size)
{
    weir_status status = WEIR_OK;
    (void)pthread_mutex_lock(&lock);
    if (base == NULL) {
        status = start_locked(runtime, why, size);
    } else if (base != runtime) {
        (void)snprintf(why, size, "another copy of ONNX Runtime in this process has the heap");
        status = WEIR_ERR_BUSY;
    }
    (void)pthread_mutex_unlock(&lock);
    return status;
}

__attribute__((destructor)) static void tell(void)
{
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    const double mib = 1024.0 * 1024.0;
    if (!report || weir_heap_get_stats(heap, &stats) != WEIR_OK) {
        return;
    }
    (void)fprintf(stderr, "weir: %llu requests of ONNX Runtime, at most %.1f MiB live, %.1f MiB held",
                  (unsigned long long)stats.allocs, (double)stats.peak_live_bytes / mib,
                  (double)stats.peak_held_bytes / mib);
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
    const struct mallinfo2 info = mallinfo2();
    (void)fprintf(stderr, "; malloc has %.1f MiB in use", (double)(info.uordblks + info.hblkhd) / mib);
#endif
    (void)fprintf(stderr, "\n");
}

/* --- entry points --- */

EXPORT OrtStatus *RegisterCustomOps(struct OrtSessionOptions *options, const struct OrtApiBase *runtime);

OrtStatus *RegisterCustomOps(struct OrtSessionOptions *options, const struct OrtApiBase *runtime)
{
    char why[512] = "weir: ";
    const size_t prefix = strlen(why);
    weir_status status = start(runtime, why + prefix, sizeof(why) - prefix);
    if (status == WEIR_OK) {
        status = weir_onnxruntime_session_options(binding, options, 0);
        if (status == WEIR_ERR_DEVICE) {
            (void)weir_onnxruntime_explain(binding, why + prefix, sizeof(why) - prefix);
        } else if (status != WEIR_OK) {
            (void)snprintf(why + prefix, sizeof(why) - prefix, "%s", weir_last_error());
        }
    }
    if (status == WEIR_OK) {
        return NULL;
    }
    OrtStatus *(*create_status)(int code, const char *text);
    find(runtime->GetApi(1), CREATE_STATUS, &create_status);
    return create_status(CODE_FAIL, why);
}

/* Node calls an addon's initializer with an environment and with the addon's exports object. The plugin needs no other
 * part of Node's interface than these two declarations. */
__attribute__((weak)) extern int napi_throw_error(void *env, const char *code, const char *text);
EXPORT void *napi_register_module_v1(void *env, void *exports);

/* Returns the runtime that onnxruntime-node has loaded. NULL: none. */
static const struct OrtApiBase *loaded_runtime(void)
{
    static const char *const names[] = {"libonnxruntime.so.1", "libonnxruntime.so"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
        void *symbol = library != NULL ? dlsym(library, "OrtGetApiBase") : NULL;
        if (symbol != NULL) {
            const struct OrtApiBase *(*get)(void);
            memcpy(&get, &symbol, sizeof(get));
            return get();
        }
    }
    return NULL;
}

void *napi_register_module_v1(void *env, void *exports)
{
    char why[512] = "weir: ";
    const size_t prefix = strlen(why);
    const struct OrtApiBase *runtime = loaded_runtime();
    weir_status status = WEIR_ERR_INVALID;
    if (runtime == NULL) {
        (void)snprintf(why + prefix, sizeof(why) - prefix, "onnxruntime-node is not loaded; require it first");
    } else {
        status = start(runtime, why + prefix, sizeof(why) - prefix);
    }
    if (status != WEIR_OK && napi_throw_error != NULL) {
        (void)napi_throw_error(env, NULL, why);
    }
    return exports;
}
