/* bindings/cuda/device/src/driver.c: opens the driver library and fills the table of its functions.
 *
 * Idea: libcuda.so.1 comes with the kernel driver and never with a toolkit, so a program that may run without a GPU
 * must not be linked with it. The table is filled once, all or nothing; a failure names the missing function.
 *
 * Guarantee: the table does not change once it is complete. The library is never closed, because objects that are
 * destroyed last may still call it; it then answers CUDA_ERROR_DEINITIALIZED.
 */
#include "cuda_internal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#define OLDEST_VERSION 11030 /* the first version with cuStreamGetCaptureInfo_v2 and cuUserObjectCreate */

static const char library[] = "libcuda.so.1";

weir__cuda_driver weir__cuda;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool loaded;

bool weir__cuda_is_loaded(void)
{
    return atomic_load_explicit(&loaded, memory_order_acquire);
}

/* Looks up a symbol and stores it in a function pointer of any type. Copies the pointer's bytes, because ISO C has no
 * conversion from an object pointer to a function pointer. */
static bool find(void *handle, const char *symbol, void *function)
{
    WEIR_ASSERT(handle != NULL && function != NULL);
    void *found = dlsym(handle, symbol);
    memcpy(function, &found, sizeof(found));
    return found != NULL;
}

/* Fills the table of driver functions. Returns NULL, or the name of a function that the library lacks. */
static const char *fill(void *handle, weir__cuda_driver *table)
{
#define FIND(name, suffix, parameters)                                                                                 \
    if (!find(handle, #name suffix, &table->name)) {                                                                   \
        return #name suffix;                                                                                           \
    }
    WEIR_CUDA_DRIVER_LIST(FIND)
#undef FIND
    return NULL;
}

/* Returns the driver's name of a code, for example "CUDA_ERROR_NO_DEVICE" for 100. */
static const char *name_of(const weir__cuda_driver *table, CUresult code)
{
    const char *name = NULL;
    return table->cuGetErrorName(code, &name) == CU_SUCCESS && name != NULL ? name : "an unknown error";
}

static weir_status begin(const char *function, const weir__cuda_driver *table)
{
    WEIR_ASSERT(table->cuInit != NULL);
    int version = 0;
    CUresult code = table->cuDriverGetVersion(&version);
    if (code == CU_SUCCESS && version < OLDEST_VERSION) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED, "%s: the driver in %s supports CUDA %d.%d, and weir needs %d.%d",
                           function, library, version / 1000, version % 1000 / 10, OLDEST_VERSION / 1000,
                           OLDEST_VERSION % 1000 / 10);
    }
    if (code == CU_SUCCESS) {
        code = table->cuInit(0);
    }
    if (code != CU_SUCCESS) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED, "%s: the driver in %s cannot be used: cuInit gave %d %s", function,
                           library, code, name_of(table, code));
    }
    return WEIR_OK;
}

static weir_status load_locked(const char *function)
{
    WEIR_ASSERT_HELD(&lock);
    WEIR_ASSERT(!weir__cuda_is_loaded());
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *why = dlerror();
        return weir_refuse(WEIR_ERR_UNSUPPORTED, "%s: no CUDA driver: %s", function, why != NULL ? why : library);
    }
    weir__cuda_driver table = {0};
    const char *missing = fill(handle, &table);
    const weir_status status = missing == NULL
                                   ? begin(function, &table)
                                   : weir_refuse(WEIR_ERR_UNSUPPORTED, "%s: the driver in %s is too old: it has no %s",
                                                 function, library, missing);
    if (status != WEIR_OK) {
        (void)dlclose(handle);
        return status;
    }
    weir__cuda = table;
    atomic_store_explicit(&loaded, true, memory_order_release);
    return WEIR_OK;
}

weir_status weir__cuda_load(const char *function)
{
    if (weir__cuda_is_loaded()) {
        return WEIR_OK;
    }
    const int cancel_state = cancel_disable();
    (void)pthread_mutex_lock(&lock);
    const weir_status status = weir__cuda_is_loaded() ? WEIR_OK : load_locked(function);
    (void)pthread_mutex_unlock(&lock);
    cancel_restore(cancel_state);
    return status;
}
