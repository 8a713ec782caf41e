/* tests/command/command/record/ascend.c: known calls of the Ascend runtime, for record_test.sh. */
#include <acl/acl.h>
#include <acl/acl_rt_memory_soma.h>

#include <stdlib.h>

#define DO(call)                                                                                                       \
    if ((call) != ACL_SUCCESS) {                                                                                       \
        return __LINE__ % 100;                                                                                         \
    }

static void *volatile host; /* volatile, so that the compiler keeps the unused block */

int main(void)
{
    aclrtStream one = NULL;
    aclrtStream two = NULL;
    aclrtEvent event = NULL;
    void *plain = NULL;
    void *aligned = NULL;
    void *pinned = NULL;
    int nothing = 0;
    host = malloc(50000);
    DO(aclInit(NULL))
    DO(aclrtSetDevice(0))
    DO(aclrtCreateStream(&one))
    DO(aclrtCreateStream(&two))
    DO(aclrtCreateEvent(&event))
    DO(aclrtMalloc(&plain, 1000000, ACL_MEM_MALLOC_HUGE_FIRST))
    DO(aclrtMallocAlign32(&aligned, 2000, ACL_MEM_MALLOC_NORMAL_ONLY))
    DO(aclrtMallocHost(&pinned, 3000))
    DO(aclrtRecordEvent(event, one))
    DO(aclrtStreamWaitEvent(two, event))
    DO(aclrtSynchronizeStream(two))
    DO(aclrtSynchronizeEvent(event))
    if (aclrtMalloc(&plain, 0, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS || aclrtFree(&nothing) == ACL_SUCCESS) {
        return 1;
    }
    DO(aclrtFree(aligned))
    DO(aclrtFreeHost(pinned))
    DO(aclrtSynchronizeDevice())
    DO(aclrtFree(plain))
    DO(aclrtDestroyEvent(event))
    DO(aclrtDestroyStream(two))
    DO(aclrtDestroyStream(one))
    DO(aclrtResetDevice(0))
    DO(aclFinalize())
    free(host);
    return 0;
}
