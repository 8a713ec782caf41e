/* program.c: calls every function that allocates inside the runtime, under tool.c, which must see the calls that this
 * program makes and no calls that the runtime makes. Exits with 0, or prints the difference. */
#include <acl/acl.h>
#include <acl/acl_rt_memory_soma.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void must(aclError error, const char *what)
{
    if (error != ACL_SUCCESS) {
        printf("%s: %d\n", what, error);
        exit(1);
    }
}
#define MUST(call) must(call, #call)

static _Atomic long *counter(const char *name)
{
    _Atomic long *found = dlsym(RTLD_DEFAULT, name);
    if (found == NULL) {
        printf("the tool is not loaded\n");
        exit(1);
    }
    return found;
}

int main(void)
{
    _Atomic long *mallocs = counter("tool_mallocs");
    _Atomic long *frees = counter("tool_frees");
    void *memory = NULL, *more = NULL, *host = NULL, *pooled = NULL;
    aclrtStream stream;
    aclrtMemPool pool;
    aclrtMemPoolProps props = {.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                               .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};
    MUST(aclrtSetDevice(0));
    MUST(aclrtCreateStream(&stream));
    MUST(aclrtMalloc(&memory, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMallocAlign32(&more, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMallocHost(&host, 1 << 20));
    MUST(aclrtMemcpyAsync(memory, 1 << 20, host, 1 << 20, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    MUST(aclrtMemcpyAsync(host, 1 << 20, more, 1 << 20, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    MUST(aclrtMemPoolCreate(&pool, &props));
    MUST(aclrtMemPoolMallocAsync(&pooled, 1 << 20, pool, stream));
    MUST(aclrtMemPoolFreeAsync(pooled, stream));
    /* this memory is not from a pool, so the runtime frees it without the pool */
    MUST(aclrtMemPoolFreeAsync(more, stream));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtMemPoolDestroy(pool));
    MUST(aclrtFreeWithDevSync(memory));
    MUST(aclrtFreeHost(host));
    MUST(aclrtDestroyStream(stream));
    if (*mallocs != 2 || *frees != 0) {
        printf("the tool saw %ld allocations (of 2) and %ld frees (of 0)\n", (long)*mallocs, (long)*frees);
        return 1;
    }
    MUST(aclrtMalloc(&memory, 1, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtFree(memory));
    MUST(aclrtResetDeviceForce(0));
    if (*mallocs != 3 || *frees != 1) {
        printf("the tool saw %ld allocations (of 3) and %ld frees (of 1)\n", (long)*mallocs, (long)*frees);
        return 1;
    }
    return 0;
}
