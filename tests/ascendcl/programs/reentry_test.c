/* reentry_test.c: callbacks call ACL. An allocator's callbacks end their own registration, destroy their stream or
 * reset their device; a callback for the states of devices uses the device that is being reset. */
#include "rig/acl.h"

#include <unistd.h>

typedef enum deed { UNREGISTER, UNREGISTER_IN_FREE, REGISTER, DESTROY, DESTROY_BY_FORCE, RESET } deed;

static aclrtStream stream;
static aclrtAllocatorDesc desc;
static deed what;
static bool done;
static int live;

static void act(bool in_free)
{
    if (done || in_free != (what == UNREGISTER_IN_FREE)) {
        return;
    }
    done = true;
    switch (what) {
    case UNREGISTER:
    case UNREGISTER_IN_FREE:
        acl_ok(aclrtAllocatorUnregister(stream));
        break;
    case REGISTER:
        acl_ok(aclrtAllocatorSetObjToDesc(desc, &live));
        acl_ok(aclrtAllocatorRegister(stream, desc));
        break;
    case DESTROY:
        acl_ok(aclrtDestroyStream(stream));
        break;
    case DESTROY_BY_FORCE:
        acl_ok(aclrtDestroyStreamForce(stream));
        break;
    default:
        acl_ok(aclrtResetDeviceForce(0));
        break;
    }
}

static void *get(aclrtAllocator allocator, size_t size)
{
    (void)allocator;
    act(false);
    void *block = malloc(sizeof(void *));
    if (block != NULL && aclrtMalloc(block, size, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) {
        free(block);
        return NULL;
    }
    live += block != NULL ? 1 : 0;
    return block;
}

static void give(aclrtAllocator allocator, aclrtAllocatorBlock block)
{
    (void)allocator;
    act(true);
    (void)aclrtFree(*(void **)block);
    free(block);
    live--;
}

static void *get_near(aclrtAllocator allocator, size_t size, aclrtAllocatorAddr hint)
{
    (void)hint;
    return get(allocator, size);
}

static void *address(aclrtAllocatorBlock block)
{
    return *(void **)block;
}

static void execute(deed chosen)
{
    int64_t shape[] = {1024};
    void *memory = NULL;
    what = chosen;
    done = false;
    live = 0;
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtCreateStream(&stream));
    desc = aclrtAllocatorCreateDesc();
    acl_ok(aclrtAllocatorSetObjToDesc(desc, &what));
    acl_ok(aclrtAllocatorSetAllocFuncToDesc(desc, get));
    acl_ok(aclrtAllocatorSetFreeFuncToDesc(desc, give));
    acl_ok(aclrtAllocatorSetAllocAdviseFuncToDesc(desc, get_near));
    acl_ok(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, address));
    acl_ok(aclrtAllocatorRegister(stream, desc));
    acl_ok(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    aclTensorDesc *x = aclCreateTensorDesc(ACL_FLOAT, 1, shape, ACL_FORMAT_ND);
    aclDataBuffer *data = aclCreateDataBuffer(memory, 4096);
    (void)alarm(60); /* ends the program if it hangs */
    for (int i = 0; i < 3; i++) {
        const aclError error = aclopExecuteV2("Add", 2, (aclTensorDesc *[]){x, x}, (aclDataBuffer *[]){data, data}, 1,
                                              &x, &data, NULL, stream);
        assert_true(error == ACL_SUCCESS || chosen >= DESTROY);
    }
    (void)alarm(0);
    assert_true(done);
    assert_int_equal(live, 0);
    aclDestroyTensorDesc(x);
    acl_ok(aclDestroyDataBuffer(data));
    acl_ok(aclrtAllocatorDestroyDesc(desc));
    (void)aclrtAllocatorUnregister(stream);
    (void)aclrtResetDeviceForce(0);
}

TEST(a_callback_may_end_its_registration)
{
    execute(UNREGISTER);
    execute(UNREGISTER_IN_FREE);
    execute(REGISTER);
}

TEST(a_callback_may_end_its_stream)
{
    execute(DESTROY);
    execute(DESTROY_BY_FORCE);
    execute(RESET);
}

static void set_again(int32_t device, aclrtDeviceState state, void *args)
{
    unsigned *left = args;
    if (state == ACL_RT_DEVICE_STATE_RESET_PRE && *left > 0) {
        --*left;
        acl_ok(aclrtSetDevice(device));
    }
}

/* A use of the device that begins while the runtime announces the reset counts: the device stays in use. */
TEST(a_callback_may_use_the_device_that_is_reset)
{
    unsigned left = 1;
    acl_ok(aclrtSetDevice(1));
    acl_ok(aclrtRegDeviceStateCallback("again", set_again, &left));
    acl_ok(aclrtResetDevice(1));
    assert_int_equal(left, 0);
    void *block = NULL;
    acl_ok(aclrtMalloc(&block, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtFree(block));
    acl_ok(aclrtResetDevice(1));
    acl_expect(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, aclrtResetDevice(1));
    acl_ok(aclrtRegDeviceStateCallback("again", NULL, NULL));
}

ACL_ENVIRONMENT(REPORT, "none")
