/* tests/ascend/mstx/fake_acl.c: a runtime that has only the calls for device memory, and serves them with host memory.
 * It refuses to take back memory at an address that ends in 8. All memory is device 0's. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int aclrtMalloc(void **address, size_t size, int policy);
EXPORT int aclrtMallocAlign32(void **address, size_t size, int policy);
EXPORT int aclrtMallocCached(void **address, size_t size, int policy);
EXPORT int aclrtMallocWithCfg(void **address, size_t size, int policy, void *config);
EXPORT int aclrtFree(void *address);
EXPORT int aclrtFreeWithDevSync(void *address);
EXPORT int aclrtMapMem(void *address, size_t size, size_t offset, void *handle, uint64_t flags);
EXPORT int aclrtUnmapMem(void *address);
EXPORT int aclrtPointerGetAttributes(const void *address, uint32_t attributes[7]);

enum { refused = 207001 };

int aclrtMalloc(void **address, size_t size, int policy)
{
    if (size == 0) {
        return refused;
    }
    (void)policy;
    *address = malloc(size);
    return *address != NULL ? 0 : refused;
}

int aclrtMallocAlign32(void **address, size_t size, int policy)
{
    return aclrtMalloc(address, size, policy);
}

int aclrtMallocCached(void **address, size_t size, int policy)
{
    return aclrtMalloc(address, size, policy);
}

int aclrtMallocWithCfg(void **address, size_t size, int policy, void *config)
{
    return config == NULL ? aclrtMalloc(address, size, policy) : refused;
}

int aclrtFree(void *address)
{
    if ((uintptr_t)address % 16 == 8) {
        return refused;
    }
    free(address);
    return 0;
}

int aclrtFreeWithDevSync(void *address)
{
    return aclrtFree(address);
}

int aclrtMapMem(void *address, size_t size, size_t offset, void *handle, uint64_t flags)
{
    (void)address;
    (void)size;
    (void)offset;
    (void)flags;
    return handle != NULL ? 0 : refused;
}

int aclrtUnmapMem(void *address)
{
    return (uintptr_t)address % 16 == 8 ? refused : 0;
}

int aclrtPointerGetAttributes(const void *address, uint32_t attributes[7])
{
    enum { id, kind, ON_DEVICE = 1 };
    (void)address;
    attributes[id] = 0;
    attributes[kind] = ON_DEVICE;
    return 0;
}
