/* tests/ascend/mstx/announce.c: a program that announces memory through mstx as any program may: announce NAME. It is
 * compiled with the vendor's headers (WITH_VENDOR), or with weir's own declarations for libms_tools_ext. It prints the
 * results of its calls and exits with 0. */
#ifdef WITH_VENDOR
#include <mstx/ms_tools_ext.h>
#include <mstx/ms_tools_ext_mem.h>
#else
#include "mstx_abi.h"
mstxDomainHandle_t mstxDomainCreateA(const char *name);
void mstxDomainDestroy(mstxDomainHandle_t domain);
mstxMemHeapHandle_t mstxMemHeapRegister(mstxDomainHandle_t domain, const mstxMemHeapDesc_t *desc);
void mstxMemHeapUnregister(mstxDomainHandle_t domain, mstxMemHeapHandle_t heap);
void mstxMemRegionsRegister(mstxDomainHandle_t domain, const mstxMemRegionsRegisterBatch_t *desc);
void mstxMemRegionsUnregister(mstxDomainHandle_t domain, const mstxMemRegionsUnregisterBatch_t *desc);
void mstxMemPermissionsAssign(mstxDomainHandle_t domain, const mstxMemPermissionsAssignBatch_t *desc);
void mstxMarkA(const char *message, mstx_stream stream);
mstxRangeId mstxRangeStartA(const char *message, mstx_stream stream);
void mstxRangeEnd(mstxRangeId id);
void mstxDomainMarkA(mstxDomainHandle_t domain, const char *message, mstx_stream stream);
mstxRangeId mstxDomainRangeStartA(mstxDomainHandle_t domain, const char *message, mstx_stream stream);
void mstxDomainRangeEnd(mstxDomainHandle_t domain, mstxRangeId id);
void mstxGetToolId(uint64_t *id);
#endif

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char memory[4096];

static mstxMemHeapHandle_t heap_of(mstxDomainHandle_t domain, uint64_t size)
{
    mstxMemVirtualRangeDesc_t range;
    mstxMemHeapDesc_t desc;
    range.deviceId = 0;
    range.ptr = memory;
    range.size = size;
    desc.usage = MSTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
    desc.type = MSTX_MEM_TYPE_VIRTUAL_ADDRESS;
    desc.typeSpecificDesc = &range;
    return mstxMemHeapRegister(domain, &desc);
}

/* Registers two regions of 64 bytes, `apart` bytes apart. */
static void regions_of(mstxDomainHandle_t domain, mstxMemHeapHandle_t heap, size_t apart,
                       mstxMemRegionHandle_t *handles)
{
    mstxMemVirtualRangeDesc_t ranges[2];
    mstxMemRegionsRegisterBatch_t batch;
    for (size_t i = 0; i < 2; i++) {
        ranges[i].deviceId = 0;
        ranges[i].ptr = memory + i * apart;
        ranges[i].size = 64;
    }
    batch.heap = heap;
    batch.regionType = MSTX_MEM_TYPE_VIRTUAL_ADDRESS;
    batch.regionCount = 2;
    batch.regionDescArray = ranges;
    batch.regionHandleArrayOut = handles;
    mstxMemRegionsRegister(domain, &batch);
}

static void withdraw(mstxDomainHandle_t domain, mstxMemRegionHandle_t handle, const void *pointer)
{
    mstxMemRegionRef_t ref;
    mstxMemRegionsUnregisterBatch_t batch;
    if (handle != NULL) {
        ref.refType = MSTX_MEM_REGION_REF_TYPE_HANDLE;
        ref.handle = handle;
    } else {
        ref.refType = MSTX_MEM_REGION_REF_TYPE_POINTER;
        ref.pointer = pointer;
    }
    batch.refCount = 1;
    batch.refArray = &ref;
    mstxMemRegionsUnregister(domain, &batch);
}

static void permit(mstxDomainHandle_t domain, mstxMemRegionHandle_t handle)
{
    mstxMemPermissionsAssignRegionsDesc_t desc;
    mstxMemPermissionsAssignBatch_t batch;
    desc.flags = MSTX_MEM_PERMISSIONS_REGION_FLAGS_READ | MSTX_MEM_PERMISSIONS_REGION_FLAGS_WRITE;
    desc.region.refType = MSTX_MEM_REGION_REF_TYPE_HANDLE;
    desc.region.handle = handle;
    batch.regionCount = 1;
    batch.regionDescArray = &desc;
    mstxMemPermissionsAssign(domain, &batch);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "good";
    mstxMemRegionHandle_t handles[2] = {NULL, NULL};
    uint64_t id = 1;
    mstxGetToolId(&id);
    mstxMarkA("mark", NULL);
    const mstxRangeId whole = mstxRangeStartA("range", NULL);
    const mstxDomainHandle_t domain = mstxDomainCreateA("announce");
    mstxDomainMarkA(domain, "mark", NULL);
    const mstxRangeId part = mstxDomainRangeStartA(domain, "range", NULL);
    const mstxMemHeapHandle_t heap = heap_of(domain, sizeof(memory));
    regions_of(domain, heap, strcmp(what, "overlap") == 0 ? 32 : 64, handles);
    if (handles[0] != NULL) {
        permit(domain, handles[0]);
    }
    printf("tool %d domain %d heap %d region %d range %d\n", id != 0, domain != NULL, heap != NULL, handles[0] != NULL,
           whole != 0 && part != 0);
    (void)fflush(stdout);
    if (strcmp(what, "fork") == 0) {
        const pid_t child = fork();
        if (child == 0) {
            return 0; /* the child has announced no memory of its own */
        }
        (void)waitpid(child, NULL, 0);
    }
    withdraw(domain, handles[0], memory);
    withdraw(domain, strcmp(what, "pointer") == 0 ? NULL : handles[1], memory + 64);
    if (strcmp(what, "twice") == 0) {
        withdraw(domain, handles[1], memory + 64);
    }
    if (strcmp(what, "leak") != 0) {
        mstxMemHeapUnregister(domain, heap);
    }
    mstxDomainRangeEnd(domain, part);
    mstxRangeEnd(whole);
    if (strcmp(what, "leak") != 0) {
        mstxDomainDestroy(domain);
    }
    return 0;
}
