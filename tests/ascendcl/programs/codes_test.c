/* codes_test.c: the code that each function returns for invalid arguments: a NULL pointer, a size of 0, a value out of
 * range, an invalid handle, the wrong order, no context. If several arguments are wrong, the first check decides the
 * code; the tables have rows for this too. */
#include "rig/acl.h"

#include <pthread.h>

/* aclrtQueryEvent is deprecated but still part of the runtime. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static aclrtStream stream;
static aclrtEvent event; /* recorded and complete */
static void *memory;
static unsigned char host[4096];

#define NULL_OR_ZERO ACL_ERROR_INVALID_PARAM
#define BAD ACL_ERROR_RT_PARAM_INVALID

static int set_up(void **unused)
{
    (void)unused;
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtCreateEvent(&event));
    acl_ok(aclrtRecordEvent(event, stream));
    acl_ok(aclrtSynchronizeStream(stream));
    acl_ok(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    acl_ok(aclrtFree(memory));
    acl_ok(aclrtDestroyEvent(event));
    acl_ok(aclrtDestroyStream(stream));
    acl_ok(aclrtResetDevice(0));
    return 0;
}

TEST(of_start_and_end)
{
    uint64_t left = 9;
    acl_expect(ACL_ERROR_REPEAT_FINALIZE, aclFinalizeReference(&left));
    assert_int_equal(left, 0);
    acl_ok(aclFinalize()); /* the first call needs no aclInit */
    acl_expect(ACL_ERROR_REPEAT_FINALIZE, aclFinalize());
    acl_expect(ACL_ERROR_INVALID_FILE, aclInit("/no/such/file"));
    acl_ok(aclInit(NULL));
    acl_expect(ACL_ERROR_REPEAT_INITIALIZE, aclInit("/no/such/file"));
    acl_ok(aclFinalizeReference(&left));
    assert_int_equal(left, 1);
    acl_ok(aclFinalize());
    acl_expect(ACL_ERROR_REPEAT_FINALIZE, aclFinalize());
    acl_ok(aclInit(""));
    acl_ok(aclFinalizeReference(NULL));
}

TEST_BETWEEN(of_devices_and_contexts, set_up, tear_down)
{
    aclrtContext own = NULL;
    aclrtContext primary = NULL;
    aclrtContext gone = NULL;
    int32_t device = -1;
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice(-1));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice(2));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtResetDevice(2));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtResetDeviceForce(-1));
    acl_expect(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, aclrtResetDevice(1)); /* device 1 was never set */
    acl_expect(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, aclrtResetDeviceForce(1));
    acl_expect(NULL_OR_ZERO, aclrtGetDevice(NULL));
    acl_expect(NULL_OR_ZERO, aclrtGetDeviceCount(NULL));
    acl_expect(BAD, aclrtSynchronizeDeviceWithTimeout(-2));
    acl_expect(BAD, aclrtSynchronizeDeviceWithTimeout(0));
    acl_expect(NULL_OR_ZERO, aclrtCreateContext(NULL, 0));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtCreateContext(&own, 7));
    acl_expect(NULL_OR_ZERO, aclrtDestroyContext(NULL));
    acl_expect(NULL_OR_ZERO, aclrtSetCurrentContext(NULL));
    acl_expect(NULL_OR_ZERO, aclrtGetCurrentContext(NULL));
    acl_expect(NULL_OR_ZERO, aclrtCtxGetCurrentDefaultStream(NULL));
    acl_ok(aclrtGetCurrentContext(&primary));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtDestroyContext(primary)); /* the device's primary context */
    acl_ok(aclrtCreateContext(&own, 1));
    acl_ok(aclrtGetDevice(&device));
    assert_int_equal(device, 1);
    acl_ok(aclrtDestroyContext(own)); /* the thread has no context then */
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtDestroyContext(own));
    acl_expect(BAD, aclrtSetCurrentContext(own));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetDevice(&device));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetCurrentContext(&gone));
    assert_null(gone);
    acl_ok(aclrtSetCurrentContext(primary));
}

TEST_BETWEEN(of_streams, set_up, tear_down)
{
    aclrtStream other = NULL;
    aclrtStreamStatus status;
    int32_t id = 0;
    uint32_t value = 0;
    acl_expect(NULL_OR_ZERO, aclrtCreateStream(NULL));
    acl_expect(NULL_OR_ZERO, aclrtCreateStreamWithConfig(NULL, 0, 0));
    acl_ok(aclrtCreateStreamWithConfig(&other, 99, 0x4000 | ACL_STREAM_FAST_SYNC)); /* clamped; flag ignored */
    acl_ok(aclrtStreamGetPriority(other, &value));
    assert_int_equal(value, 7);
    acl_ok(aclrtStreamGetFlags(other, &value));
    assert_int_equal(value, ACL_STREAM_FAST_SYNC);
    acl_expect(NULL_OR_ZERO, aclrtDestroyStream(NULL));
    acl_expect(NULL_OR_ZERO, aclrtDestroyStreamForce(NULL));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyStream(host));
    acl_ok(aclrtDestroyStream(other));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyStream(other));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(other));
    acl_expect(BAD, aclrtCreateStreamWithConfig(&other, 0, ACL_STREAM_DEVICE_USE_ONLY | ACL_STREAM_FAST_SYNC));
    acl_expect(BAD, aclrtSynchronizeStreamWithTimeout(stream, 0));
    acl_expect(BAD, aclrtSynchronizeStreamWithTimeout(host, -2));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStreamWithTimeout(host, 1));
    acl_expect(NULL_OR_ZERO, aclrtStreamQuery(host, NULL));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtStreamQuery(host, &status));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtStreamAbort(host));
    acl_expect(NULL_OR_ZERO, aclrtStreamWaitEvent(host, NULL));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtStreamWaitEvent(host, event));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtStreamWaitEvent(stream, host));
    acl_expect(NULL_OR_ZERO, aclrtStreamGetId(stream, NULL));
    acl_expect(NULL_OR_ZERO, aclrtStreamGetPriority(stream, NULL));
    acl_expect(NULL_OR_ZERO, aclrtStreamGetFlags(stream, NULL));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtStreamGetId(host, &id));
    acl_expect(NULL_OR_ZERO, aclrtRegStreamStateCallback(NULL, NULL, NULL));
    acl_ok(aclrtRegStreamStateCallback("unknown", NULL, NULL));
}

TEST_BETWEEN(of_failure_modes, set_up, tear_down)
{
    aclrtStream stopping = NULL;
    acl_ok(aclrtCreateStream(&stopping));
    acl_ok(aclrtSetStreamFailureMode(stopping, ACL_CONTINUE_ON_FAILURE)); /* sets the present mode again */
    acl_ok(aclrtSetStreamFailureMode(stopping, ACL_STOP_ON_FAILURE));
    acl_ok(aclrtSetStreamFailureMode(stopping, ACL_STOP_ON_FAILURE));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtSetStreamFailureMode(stopping, ACL_CONTINUE_ON_FAILURE));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtSetStreamFailureMode(host, ACL_CONTINUE_ON_FAILURE));
    acl_ok(aclrtDestroyStream(stopping));
}

TEST_BETWEEN(of_events, set_up, tear_down)
{
    aclrtEvent made = NULL;
    aclrtEventStatus old;
    aclrtEventRecordedStatus recorded;
    aclrtEventWaitStatus waited = ACL_EVENT_WAIT_STATUS_NOT_READY;
    uint64_t us = 0;
    float ms = 0;
    static const uint32_t never[] = {0, 0x80, ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_SYNC,
                                     ACL_EVENT_EXTERNAL | ACL_EVENT_SYNC};
    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
        acl_expect(BAD, aclrtCreateEventWithFlag(&made, never[i]));
        acl_expect(BAD, aclrtCreateEventExWithFlag(&made, never[i]));
    }
    acl_expect(BAD, aclrtCreateEventWithFlag(&made, ACL_EVENT_IPC));
    acl_expect(BAD, aclrtCreateEventExWithFlag(&made, ACL_EVENT_EXTERNAL));
    acl_expect(NULL_OR_ZERO, aclrtCreateEvent(NULL));
    acl_expect(NULL_OR_ZERO, aclrtCreateEventWithFlag(NULL, 0));
    acl_expect(NULL_OR_ZERO, aclrtCreateEventExWithFlag(NULL, 0));
    acl_expect(NULL_OR_ZERO, aclrtDestroyEvent(NULL));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyEvent(host));
    acl_expect(NULL_OR_ZERO, aclrtRecordEvent(NULL, host));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtRecordEvent(event, host));
    acl_expect(NULL_OR_ZERO, aclrtResetEvent(NULL, stream));
    acl_expect(NULL_OR_ZERO, aclrtQueryEvent(NULL, &old));
    acl_expect(NULL_OR_ZERO, aclrtQueryEvent(event, NULL));
    acl_expect(NULL_OR_ZERO, aclrtQueryEventStatus(NULL, &recorded));
    acl_expect(NULL_OR_ZERO, aclrtQueryEventStatus(event, NULL));
    acl_expect(NULL_OR_ZERO, aclrtQueryEventWaitStatus(NULL, &waited));
    acl_expect(NULL_OR_ZERO, aclrtQueryEventWaitStatus(event, NULL));
    acl_ok(aclrtQueryEventWaitStatus(event, &waited)); /* no stream waits */
    assert_int_equal(waited, ACL_EVENT_WAIT_STATUS_COMPLETE);
    acl_expect(NULL_OR_ZERO, aclrtSynchronizeEvent(NULL));
    acl_expect(BAD, aclrtSynchronizeEventWithTimeout(event, 0));
    acl_expect(BAD, aclrtSynchronizeEventWithTimeout(NULL, -2));
    acl_expect(NULL_OR_ZERO, aclrtSynchronizeEventWithTimeout(NULL, 1));
    acl_expect(NULL_OR_ZERO, aclrtEventElapsedTime(NULL, event, event));
    acl_expect(NULL_OR_ZERO, aclrtEventElapsedTime(&ms, NULL, event));
    acl_expect(NULL_OR_ZERO, aclrtEventElapsedTime(&ms, event, NULL));
    acl_expect(NULL_OR_ZERO, aclrtEventGetTimestamp(NULL, &us));
    acl_expect(NULL_OR_ZERO, aclrtEventGetTimestamp(event, NULL));
}

/* The flags of an event exclude some uses. */
TEST_BETWEEN(of_special_events, set_up, tear_down)
{
    aclrtEvent device_only, external, no_sync, unrecorded;
    aclrtEventStatus old;
    uint64_t us = 0;
    acl_ok(aclrtCreateEventWithFlag(&device_only, ACL_EVENT_DEVICE_USE_ONLY));
    acl_ok(aclrtCreateEventWithFlag(&external, ACL_EVENT_EXTERNAL));
    acl_ok(aclrtCreateEventWithFlag(&no_sync, ACL_EVENT_TIME_LINE));
    acl_ok(aclrtCreateEvent(&unrecorded));
    acl_expect(BAD, aclrtRecordEvent(device_only, stream));
    acl_expect(BAD, aclrtResetEvent(device_only, stream));
    acl_expect(BAD, aclrtStreamWaitEvent(stream, device_only));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtSynchronizeEvent(external));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtQueryEvent(external, &old));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtEventGetTimestamp(external, &us));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtStreamWaitEvent(stream, no_sync));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtResetEvent(no_sync, stream));
    acl_expect(BAD, aclrtStreamWaitEvent(stream, unrecorded));
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtEventGetTimestamp(unrecorded, &us));
    acl_ok(aclrtDestroyEvent(device_only));
    acl_ok(aclrtDestroyEvent(external));
    acl_ok(aclrtDestroyEvent(no_sync));
    acl_ok(aclrtDestroyEvent(unrecorded));
}

TEST_BETWEEN(of_device_memory, set_up, tear_down)
{
    void *p = NULL;
    size_t free_bytes, total;
    acl_expect(NULL_OR_ZERO, aclrtMalloc(NULL, 1, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(NULL_OR_ZERO, aclrtMalloc(&p, 0, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(NULL_OR_ZERO, aclrtMalloc(&p, SIZE_MAX - 63, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&p, SIZE_MAX - 64, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(NULL_OR_ZERO, aclrtMallocAlign32(NULL, 1, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(NULL_OR_ZERO, aclrtMallocAlign32(&p, 0, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(NULL_OR_ZERO, aclrtMallocAlign32(&p, SIZE_MAX - 31, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocAlign32(&p, SIZE_MAX - 32, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(NULL_OR_ZERO, aclrtMallocCached(NULL, 1, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(NULL_OR_ZERO, aclrtMallocCached(&p, 0, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMallocCached(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtFree(p));
    acl_expect(NULL_OR_ZERO, aclrtFree(NULL));
    acl_expect(BAD, aclrtFree(host));
    acl_expect(BAD, aclrtFree((char *)memory + 64));
    acl_expect(NULL_OR_ZERO, aclrtFreeWithDevSync(NULL));
    acl_expect(BAD, aclrtFreeWithDevSync(host));
    acl_expect(NULL_OR_ZERO, aclrtGetMemInfo((aclrtMemAttr)99, NULL, &total));
    acl_expect(NULL_OR_ZERO, aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, NULL));
    acl_expect(ACL_ERROR_RT_INVALID_MEMORY_TYPE, aclrtGetMemInfo((aclrtMemAttr)99, &free_bytes, &total));
    /* An unknown policy means the default policy. */
    static const int policies[] = {9, 0xff, 0x1000, 0x1002, 0x10000000};
    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        acl_ok(aclrtMalloc(&p, 1, (aclrtMemMallocPolicy)policies[i]));
        acl_ok(aclrtFree(p));
        acl_ok(aclrtMallocWithCfg(&p, 1, (aclrtMemMallocPolicy)policies[i], NULL));
        acl_ok(aclrtFree(p));
    }
}

TEST_BETWEEN(of_configured_memory, set_up, tear_down)
{
    void *p = NULL;
    aclrtMallocAttribute attribute = {.attr = ACL_RT_MEM_ATTR_DEVICE_ID, .value = {.deviceId = 0}};
    aclrtMallocConfig config = {.attrs = &attribute, .numAttrs = 1};
    aclrtMallocConfig lost = {.attrs = NULL, .numAttrs = 1};
    aclrtMallocConfig none = {.attrs = NULL, .numAttrs = 0};
    acl_expect(NULL_OR_ZERO, aclrtMallocWithCfg(NULL, 1, ACL_MEM_MALLOC_HUGE_FIRST, &config));
    acl_expect(NULL_OR_ZERO, aclrtMallocWithCfg(&p, 0, ACL_MEM_MALLOC_HUGE_FIRST, &config));
    acl_expect(NULL_OR_ZERO, aclrtMallocWithCfg(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST, &lost));
    acl_expect(BAD, aclrtMallocWithCfg(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST, &none));
    acl_ok(aclrtMallocWithCfg(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST, &config));
    acl_ok(aclrtFree(p));
    attribute.value.deviceId = 1; /* a valid device, but not the current one */
    acl_expect(BAD, aclrtMallocWithCfg(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST, &config));
    attribute.value.deviceId = 77;
    acl_expect(BAD, aclrtMallocWithCfg(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST, &config));
    attribute.attr = ACL_RT_MEM_ATTR_VA_FLAG; /* an attribute of host memory */
    acl_expect(BAD, aclrtMallocWithCfg(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST, &config));
    attribute.attr = (aclrtMallocAttrType)99;
    acl_expect(BAD, aclrtMallocWithCfg(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST, &config));
}

TEST_BETWEEN(of_copies_and_sets, set_up, tear_down)
{
    const aclrtMemcpyKind there = ACL_MEMCPY_HOST_TO_DEVICE;
    acl_ok(aclrtMemcpy(NULL, 0, NULL, 0, (aclrtMemcpyKind)99));
    acl_ok(aclrtMemcpyAsync(NULL, 0, NULL, 0, (aclrtMemcpyKind)99, NULL));
    acl_ok(aclrtMemset(NULL, 0, 0, 0));
    acl_ok(aclrtMemsetAsync(NULL, 0, 0, 0, stream));
    acl_expect(NULL_OR_ZERO, aclrtMemcpy(NULL, 8, host, 8, there));
    acl_expect(NULL_OR_ZERO, aclrtMemcpy(memory, 8, NULL, 8, there));
    acl_expect(NULL_OR_ZERO, aclrtMemcpyAsync(NULL, 8, host, 8, there, stream));
    acl_expect(NULL_OR_ZERO, aclrtMemcpyAsync(memory, 8, NULL, 8, there, stream));
    static const int kinds[] = {-1, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, ACL_MEMCPY_INTER_DEVICE_TO_DEVICE, 8, 99};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        acl_expect(NULL_OR_ZERO, aclrtMemcpy(memory, 4, host, 8, (aclrtMemcpyKind)kinds[i]));
        acl_expect(NULL_OR_ZERO, aclrtMemcpyAsync(memory, 4, host, 8, (aclrtMemcpyKind)kinds[i], stream));
    }
    acl_expect(BAD, aclrtMemcpy(memory, 4, host, 8, there));
    acl_expect(BAD, aclrtMemcpyAsync(memory, 4, host, 8, there, stream));
    acl_expect(BAD, aclrtMemset(memory, 4, 0, 8));
    acl_expect(BAD, aclrtMemsetAsync(memory, 4, 0, 8, stream));
    acl_expect(NULL_OR_ZERO, aclrtMemset(NULL, 4, 0, 8));
    acl_expect(NULL_OR_ZERO, aclrtMemsetAsync(NULL, 4, 0, 8, stream));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtMemcpyAsync(memory, 8, host, 8, there, host));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtMemsetAsync(memory, 8, 0, 8, host));
    /* If one side of a copy is pageable memory, the runtime does not check that the kind of the copy fits the
     * addresses. */
    acl_expect(BAD, aclrtMemcpyAsync(memory, 8, host, 8, ACL_MEMCPY_HOST_TO_HOST, stream));
    acl_expect(BAD, aclrtMemcpyAsync(memory, 8, host, 8, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    acl_expect(BAD, aclrtMemcpyAsync(host, 8, memory, 8, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    acl_expect(BAD, aclrtMemcpyAsync(host, 8, memory, 8, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               aclrtMemcpyAsync(host + 64, 8, host, 8, ACL_MEMCPY_HOST_TO_HOST, stream));
    acl_ok(aclrtMemcpyAsync(memory, 8, host, 8, ACL_MEMCPY_DEFAULT, stream));
}

/* A copy of the kind HOST_TO_BUF_TO_DEVICE reads its source before the call returns. */
TEST_BETWEEN(a_buffered_copy_takes_its_source_at_once, set_up, tear_down)
{
    unsigned char back[64] = {0};
    void *gate = NULL;
    aclrtEvent flag;
    acl_ok(aclrtMalloc(&gate, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtCreateEventWithFlag(&flag, ACL_EVENT_SYNC));
    acl_ok(aclrtStreamWaitEvent(stream, flag)); /* the stream waits */
    host[0] = 1;
    acl_ok(aclrtMemcpyAsync(memory, 64, host, 64, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream));
    host[0] = 2;
    acl_ok(aclrtRecordEvent(flag, NULL));
    acl_ok(aclrtSynchronizeStream(stream));
    acl_ok(aclrtMemcpy(back, 64, memory, 64, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_int_equal(back[0], 1);
    acl_ok(aclrtMemcpyAsync(memory, 64, host, 64, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream));
    acl_ok(aclrtStreamWaitEvent(stream, flag));
    acl_ok(aclrtDestroyEvent(flag));
    acl_ok(aclrtStreamAbort(stream)); /* the abort drops the kept bytes too */
    acl_expect(ACL_ERROR_RT_STREAM_ABORT, aclrtSynchronizeStream(stream));
    acl_ok(aclrtFree(gate));
}

/* A thread without a current device. */
static void *without_context(void *unused)
{
    void *p = NULL;
    aclrtStream s = NULL;
    aclrtEvent e = NULL;
    aclrtStreamStatus status;
    aclrtEventRecordedStatus recorded;
    int32_t id = -1;
    uint32_t priority = 0;
    size_t free_bytes, total;
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtMalloc(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtMallocAlign32(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtMallocWithCfg(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST, NULL));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtMemcpy(memory, 8, host, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtMemcpyAsync(memory, 8, host, 8, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtMemset(memory, 8, 0, 8));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtMemsetAsync(memory, 8, 0, 8, NULL));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtCreateStream(&s));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtDestroyStream(stream));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtSynchronizeStream(stream));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtStreamQuery(NULL, &status));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtStreamGetPriority(stream, &priority));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtStreamGetId(NULL, &id));
    acl_ok(aclrtStreamGetId(stream, &id));                                 /* needs no context */
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(host)); /* the runtime checks the handle first */
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtCreateEvent(&e));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtRecordEvent(event, stream));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtStreamWaitEvent(stream, event));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtResetEvent(event, stream));
    acl_ok(aclrtQueryEventStatus(event, &recorded));
    acl_ok(aclrtSynchronizeEvent(event));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtSynchronizeDevice());
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtCtxGetCurrentDefaultStream(&s));
    return unused;
}

TEST_BETWEEN(of_a_thread_without_a_context, set_up, tear_down)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, without_context, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* A stream of another context: waits and queries are allowed; queueing and destroying are not. */
TEST_BETWEEN(of_another_context, set_up, tear_down)
{
    aclrtContext primary, own;
    aclrtStreamStatus status;
    aclrtEvent e;
    acl_ok(aclrtGetCurrentContext(&primary));
    acl_ok(aclrtCreateContext(&own, 0));
    acl_ok(aclrtSynchronizeStream(stream));
    acl_ok(aclrtStreamQuery(stream, &status));
    acl_ok(aclrtCreateEvent(&e));
    acl_expect(ACL_ERROR_RT_STREAM_CONTEXT, aclrtRecordEvent(e, stream));
    acl_expect(ACL_ERROR_RT_STREAM_CONTEXT, aclrtStreamWaitEvent(stream, event));
    acl_expect(ACL_ERROR_RT_STREAM_CONTEXT, aclrtMemsetAsync(memory, 8, 0, 8, stream));
    acl_expect(ACL_ERROR_RT_STREAM_CONTEXT,
               aclrtMemcpyAsync(memory, 8, (char *)memory + 64, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    acl_expect(ACL_ERROR_RT_STREAM_CONTEXT, aclrtStreamAbort(stream));
    acl_expect(ACL_ERROR_RT_STREAM_CONTEXT, aclrtDestroyStream(stream));
    acl_ok(aclrtDestroyEvent(e));
    acl_ok(aclrtDestroyContext(own));
    acl_ok(aclrtSetCurrentContext(primary));
}

ACL_ENVIRONMENT(REPORT, "none")
