/* memory_thread_test.c: two threads with pools, mappings and host memory, each on a stream of its own, and blocks that
 * pass from one thread to the other. Also runs under the thread sanitizer. */
#include "rig/acl.h"

#include <pthread.h>
#include <string.h>

#define PAGE (2 * MIB)

enum { ROUNDS = 300, SLOTS = 8 };

static aclrtMemPool pool;
static aclrtContext context;

/* Blocks on their way to the other thread; an empty slot is NULL. The event of a slot completes when the work of the
 * thread that left the block is done. */
static struct {
    pthread_mutex_t lock;
    void *block[SLOTS];
    aclrtEvent event[SLOTS];
} shelf = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool failed;
#define THREAD_OK(call)                                                                                                \
    do {                                                                                                               \
        if ((call) != ACL_SUCCESS) {                                                                                   \
            __atomic_store_n(&failed, true, __ATOMIC_RELAXED);                                                         \
            print_error("%s:%d: %s\n", __FILE__, __LINE__, #call);                                                     \
        }                                                                                                              \
    } while (0)

/* Leaves a block for the other thread, with an event that was recorded after the last use. Or takes a block over from
 * the other thread and frees it on this thread's stream. */
static void exchange(aclrtStream stream, int slot)
{
    (void)pthread_mutex_lock(&shelf.lock);
    if (shelf.block[slot] == NULL) {
        void *p = NULL;
        THREAD_OK(aclrtMemPoolMallocAsync(&p, PAGE + 1, pool, stream));
        THREAD_OK(aclrtMemsetAsync(p, PAGE, 1, PAGE, stream));
        THREAD_OK(aclrtRecordEvent(shelf.event[slot], stream));
        shelf.block[slot] = p;
    } else {
        THREAD_OK(aclrtStreamWaitEvent(stream, shelf.event[slot]));
        THREAD_OK(aclrtMemsetAsync(shelf.block[slot], PAGE, 2, PAGE, stream));
        THREAD_OK(aclrtMemPoolFreeAsync(shelf.block[slot], stream));
        shelf.block[slot] = NULL;
    }
    (void)pthread_mutex_unlock(&shelf.lock);
}

static void map_and_unmap(void *reserved)
{
    const aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtDrvMemHandle handle = NULL;
    int value = 5, got = 0;
    THREAD_OK(aclrtMallocPhysical(&handle, PAGE, &prop, 0));
    THREAD_OK(aclrtMapMem(reserved, PAGE, 0, handle, 0));
    THREAD_OK(aclrtMemcpy(reserved, sizeof(value), &value, sizeof(value), ACL_MEMCPY_HOST_TO_DEVICE));
    THREAD_OK(aclrtMemcpy(&got, sizeof(got), reserved, sizeof(got), ACL_MEMCPY_DEVICE_TO_HOST));
    THREAD_OK(got == value ? ACL_SUCCESS : ACL_ERROR_FAILURE);
    THREAD_OK(aclrtFreePhysical(handle));
    THREAD_OK(aclrtUnmapMem(reserved));
}

static void pin_and_unpin(void)
{
    void *p = NULL, *alias = NULL;
    THREAD_OK(aclrtMallocHost(&p, 4096));
    THREAD_OK(aclrtHostRegisterV2(p, 4096, ACL_HOST_REG_MAPPED));
    THREAD_OK(aclrtHostGetDevicePointer(p, &alias, 0));
    THREAD_OK(aclrtHostUnregister(p));
    THREAD_OK(aclrtFreeHost(p));
}

static void *work(void *number)
{
    aclrtStream stream = NULL;
    void *reserved = NULL, *p = NULL;
    THREAD_OK(aclrtSetCurrentContext(context));
    THREAD_OK(aclrtCreateStream(&stream));
    THREAD_OK(aclrtReserveMemAddress(&reserved, PAGE, 0, NULL, 0));
    for (int i = 0; i < ROUNDS; i++) {
        THREAD_OK(aclrtMemPoolMallocAsync(&p, (size_t)(1 + i % 5) * MIB, pool, stream));
        THREAD_OK(aclrtMemsetAsync(p, MIB, i, MIB, stream));
        THREAD_OK(aclrtMemPoolFreeAsync(p, stream));
        exchange(stream, (i + (int)(intptr_t)number * 3) % SLOTS);
        if (i % 8 == 0) {
            map_and_unmap(reserved);
            pin_and_unpin();
        }
        if (i % 16 == 0) {
            THREAD_OK(aclrtSynchronizeStream(stream));
            (void)aclrtMemPoolTrimTo(pool, 32 * MIB); /* more may be in use */
        }
    }
    THREAD_OK(aclrtSynchronizeStream(stream));
    THREAD_OK(aclrtReleaseMemAddress(reserved));
    THREAD_OK(aclrtDestroyStream(stream));
    return NULL;
}

TEST(two_threads_share_pools_and_mappings)
{
    aclrtMemPoolProps props;
    memset(&props, 0, sizeof(props));
    props.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    props.maxSize = 128 * MIB;
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtGetCurrentContext(&context));
    acl_ok(aclrtMemPoolCreate(&pool, &props));
    for (int attr = 1; attr <= 3; attr++) {
        uint32_t on = 1;
        acl_ok(aclrtMemPoolSetAttr(pool, (aclrtMemPoolAttr)attr, &on));
    }
    for (int i = 0; i < SLOTS; i++) {
        acl_ok(aclrtCreateEventExWithFlag(&shelf.event[i], ACL_EVENT_SYNC));
    }
    pthread_t threads[2];
    for (intptr_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_false(failed);
    for (int i = 0; i < SLOTS; i++) {
        if (shelf.block[i] != NULL) {
            acl_ok(aclrtMemPoolFreeAsync(shelf.block[i], NULL));
        }
        acl_ok(aclrtDestroyEvent(shelf.event[i]));
    }
    acl_ok(aclrtSynchronizeDevice());
    uint64_t left = 1;
    acl_ok(aclrtMemPoolGetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT, &left));
    assert_int_equal(left, 0);
    acl_ok(aclrtMemPoolGetAttr(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT, &left));
    assert_int_equal(left, 0);
    acl_ok(aclrtMemPoolDestroy(pool));
}

ACL_ENVIRONMENT(CAPACITY, "256MiB")
ACL_ENVIRONMENT(EXIT_CODE, "3")
