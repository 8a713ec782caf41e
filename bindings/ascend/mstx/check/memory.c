/* bindings/ascend/mstx/check/memory.c: lets a preloaded checking tool observe real memory. The runtime's calls that
 * give and take device memory go through these functions, which pass the call on and report its effect.
 *
 * A tool loaded by MSTX_INJECTION_PATH does not interpose symbols, so these functions are then not called. Parameters
 * of the runtime's own types are declared as pointers and numbers here. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "mstx_check.h"

#define EXPORT __attribute__((visibility("default")))

enum { ACL_SUCCESS = 0, ACL_ERROR_FAILURE = 500001 };

typedef int aclError;

/* Stores in *function the next function of that name in the symbol search order, or NULL; PASS_ON then fails the
 * call. */
static void find_next(const char *name, void *function)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(function, &symbol, sizeof(symbol));
}

#define PASS_ON(name, parameters, arguments, result)                                                                   \
    aclError(*next) parameters = NULL;                                                                                 \
    find_next(name, &next);                                                                                            \
    const aclError result = next != NULL ? next arguments : ACL_ERROR_FAILURE

/* The first words of the runtime's aclrtPtrAttributes. */
struct attributes {
    uint32_t location;
    int32_t kind;
    uint32_t more[16];
};

enum { ON_DEVICE = 1 };

/* Reports memory that the runtime has given, with its device as the runtime says it. */
static void saw(const void *address, size_t size)
{
    struct attributes attributes = {.kind = -1};
    aclError (*ask)(const void *, struct attributes *) = NULL;
    find_next("aclrtPointerGetAttributes", &ask);
    const bool known = ask != NULL && ask(address, &attributes) == ACL_SUCCESS && attributes.kind == ON_DEVICE;
    weir__mstx_check_saw(address, size, known ? (int64_t)attributes.location : NO_DEVICE);
}

#define GIVES(name, parameters, arguments)                                                                             \
    EXPORT aclError name parameters;                                                                                   \
    aclError name parameters                                                                                           \
    {                                                                                                                  \
        PASS_ON(#name, parameters, arguments, result);                                                                 \
        if (result == ACL_SUCCESS) {                                                                                   \
            saw(*address, size);                                                                                       \
        }                                                                                                              \
        return result;                                                                                                 \
    }

#define TAKES(name)                                                                                                    \
    EXPORT aclError name(void *address);                                                                               \
    aclError name(void *address)                                                                                       \
    {                                                                                                                  \
        weir_mstx_check_taken(address);                                                                                \
        PASS_ON(#name, (void *), (address), result);                                                                   \
        if (result != ACL_SUCCESS) {                                                                                   \
            weir_mstx_check_kept(address);                                                                             \
        }                                                                                                              \
        return result;                                                                                                 \
    }

GIVES(aclrtMalloc, (void **address, size_t size, int policy), (address, size, policy))
GIVES(aclrtMallocAlign32, (void **address, size_t size, int policy), (address, size, policy))
GIVES(aclrtMallocCached, (void **address, size_t size, int policy), (address, size, policy))
GIVES(aclrtMallocWithCfg, (void **address, size_t size, int policy, void *config), (address, size, policy, config))
GIVES(aclrtMallocHost, (void **address, size_t size), (address, size))
TAKES(aclrtFree)
TAKES(aclrtFreeWithDevSync)
TAKES(aclrtFreeHost)
TAKES(aclrtUnmapMem)

EXPORT aclError aclrtMapMem(void *address, size_t size, size_t offset, void *handle, uint64_t flags);

aclError aclrtMapMem(void *address, size_t size, size_t offset, void *handle, uint64_t flags)
{
    PASS_ON("aclrtMapMem", (void *, size_t, size_t, void *, uint64_t), (address, size, offset, handle, flags), result);
    if (result == ACL_SUCCESS) {
        saw(address, size);
    }
    return result;
}
