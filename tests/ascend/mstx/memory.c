/* tests/ascend/mstx/memory.c: a program that takes memory from the runtime by each of its calls and announces it as
 * heaps, in the right order or in a wrong one: memory NAME. It exits with 0 unless the tool changes the result of a
 * call of the runtime. */
#include <stdlib.h>
#include <string.h>

#include "mstx_abi.h"

mstxMemHeapHandle_t mstxMemHeapRegister(mstxDomainHandle_t domain, const mstxMemHeapDesc_t *desc);
void mstxMemHeapUnregister(mstxDomainHandle_t domain, mstxMemHeapHandle_t heap);
int aclrtMalloc(void **address, size_t size, int policy);
int aclrtMallocAlign32(void **address, size_t size, int policy);
int aclrtMallocCached(void **address, size_t size, int policy);
int aclrtMallocWithCfg(void **address, size_t size, int policy, void *config);
int aclrtFree(void *address);
int aclrtFreeWithDevSync(void *address);
int aclrtMapMem(void *address, size_t size, size_t offset, void *handle, uint64_t flags);
int aclrtUnmapMem(void *address);

static void must(int condition, int line)
{
    if (!condition) {
        exit(line % 200 + 1);
    }
}

static uint32_t device;

static mstxMemHeapHandle_t heap_of(const void *start, uint64_t size)
{
    const mstxMemVirtualRangeDesc_t range = {.deviceId = device, .ptr = start, .size = size};
    const mstxMemHeapDesc_t desc = {.typeSpecificDesc = &range};
    return mstxMemHeapRegister(NULL, &desc);
}

static void *const pages = (void *)0x7000000000; /* never touched */

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "good";
    void *memory[4] = {NULL, NULL, NULL, NULL};
    mstxMemHeapHandle_t heaps[5];
    must(aclrtMalloc(&memory[0], 0, 0) != 0, __LINE__);
    must(aclrtMalloc(&memory[0], 4096, 0) == 0, __LINE__);
    must(aclrtMallocAlign32(&memory[1], 4096, 0) == 0, __LINE__);
    must(aclrtMallocCached(&memory[2], 4096, 0) == 0, __LINE__);
    must(aclrtMallocWithCfg(&memory[3], 4096, 0, memory) != 0, __LINE__);
    must(aclrtMallocWithCfg(&memory[3], 4096, 0, NULL) == 0, __LINE__);
    must(aclrtMapMem(pages, 4096, 0, NULL, 0) != 0, __LINE__);
    if (strcmp(what, "late") != 0) {
        must(aclrtMapMem(pages, 4096, 0, memory, 0) == 0, __LINE__);
    }
    for (int i = 0; i < 4; i++) {
        heaps[i] = heap_of(memory[i], strcmp(what, "large") == 0 && i == 3 ? 4097 : 4096);
    }
    device = strcmp(what, "device") == 0 ? 3 : 0;
    heaps[4] = heap_of(pages, 4096);
    if (strcmp(what, "stray") == 0 || strcmp(what, "left") == 0) { /* no call returned this address */
        mstxMemHeapHandle_t stray = heap_of((char *)pages + 65536, 64);
        if (strcmp(what, "stray") == 0) {
            mstxMemHeapUnregister(NULL, stray);
        }
    }
    if (strcmp(what, "late") == 0) {
        must(aclrtMapMem(pages, 4096, 0, memory, 0) == 0, __LINE__);
    }
    must(aclrtFree((char *)memory[0] + 8) != 0, __LINE__);
    if (strcmp(what, "early") == 0) {
        must(aclrtUnmapMem(pages) == 0, __LINE__);
    }
    for (int i = 0; i < 5; i++) {
        mstxMemHeapUnregister(NULL, heaps[i]);
    }
    must(aclrtFree(memory[0]) == 0 && aclrtFree(memory[1]) == 0, __LINE__);
    must(aclrtFreeWithDevSync(memory[2]) == 0 && aclrtFreeWithDevSync(memory[3]) == 0, __LINE__);
    if (strcmp(what, "early") != 0) {
        must(aclrtUnmapMem(pages) == 0, __LINE__);
    }
    if (strcmp(what, "gone") == 0) {
        mstxMemHeapUnregister(NULL, heap_of(pages, 64));
    }
    return 0;
}
