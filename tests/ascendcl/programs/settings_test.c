/* settings_test.c: the calls that frameworks make when they start: settings that are stored and returned, facts, events
 * and copies with flags, captures. */
#include "rig/acl.h"

#include <acl/acl_mdl.h>
#include <acl/acl_op_compiler.h>
#include <weir/ascendcl.h>

#include <string.h>

enum { INVALID = 100000, REFUSED = 107000, NO = 207000 };

static int use_second_device(void **state)
{
    (void)state;
    return aclrtSetDevice(1) == ACL_SUCCESS ? 0 : -1;
}

static int reset_second_device(void **state)
{
    (void)state;
    return aclrtResetDeviceForce(1) == ACL_SUCCESS ? 0 : -1;
}

TEST(options_of_the_process_and_of_a_context_are_stored_apart)
{
    int64_t value = -1;
    acl_ok(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
    assert_int_equal(value, 0);
    acl_expect(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
    acl_ok(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
    acl_ok(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 2));
    acl_ok(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
    assert_int_equal(value, 1);
    acl_ok(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
    assert_int_equal(value, 2);
    acl_ok(aclrtSetSysParamOpt(ACL_OPT_ENABLE_KERNEL_EARLY_START, 1));
    acl_expect(INVALID, aclrtCtxSetSysParamOpt(ACL_OPT_ENABLE_KERNEL_EARLY_START, 1));
    acl_expect(REFUSED, aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 4));
    acl_expect(REFUSED, aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, -1));
    acl_expect(REFUSED, aclrtCtxSetSysParamOpt(ACL_OPT_ENABLE_DEBUG_KERNEL, 2));
    acl_expect(INVALID, aclrtSetSysParamOpt((aclSysParamOpt)4, 1));
    acl_expect(INVALID, aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, NULL));
    acl_expect(INVALID, aclrtCtxGetSysParamOpt((aclSysParamOpt)-1, &value));
    aclrtContext context;
    acl_ok(aclrtCreateContext(&context, 1));
    acl_expect(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
    acl_ok(aclrtDestroyContext(context));
}

/* Contexts are created and destroyed: new contexts get the entries of destroyed ones. */
TEST(options_of_contexts_that_are_gone_take_no_room)
{
    for (int i = 0; i < 300; i++) {
        aclrtContext context;
        int64_t value = -1;
        acl_ok(aclrtCreateContext(&context, 1));
        acl_expect(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
        acl_ok(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, i % 4));
        acl_ok(aclrtDestroyContext(context));
    }
}

TEST(time_outs_of_operators_are_rounded_to_the_steps_of_the_device)
{
    uint64_t step = 0, actual = 0;
    uint32_t ms = 0;
    acl_ok(aclrtGetOpTimeOutInterval(&step));
    assert_true(step > 0);
    acl_ok(aclrtSetOpExecuteTimeOutV2(step + 1, &actual));
    assert_true(actual == 2 * step);
    acl_ok(aclrtGetOpExecuteTimeout(&ms));
    assert_true(ms == 2 * step / 1000);
    acl_ok(aclrtSetOpExecuteTimeOut(1));
    acl_ok(aclrtGetOpExecuteTimeout(&ms));
    assert_true(ms >= 1000 && ms <= 1000 + step / 1000);
    acl_ok(aclrtSetOpExecuteTimeOutWithMs(1));
    acl_ok(aclrtGetOpExecuteTimeout(&ms));
    assert_true(ms == step / 1000);
    acl_ok(aclrtSetOpExecuteTimeOutV2(0, &actual));
    assert_true(actual == 254 * step);
    acl_ok(aclrtSetOpExecuteTimeOutV2(UINT64_MAX, &actual));
    assert_true(actual == 254 * step);
    acl_ok(aclrtSetOpWaitTimeout(3));
    acl_expect(INVALID, aclrtSetOpExecuteTimeOutV2(1, NULL));
    acl_expect(INVALID, aclrtGetOpExecuteTimeout(NULL));
    acl_expect(INVALID, aclrtGetOpTimeOutInterval(NULL));
}

TEST(overflow_modes_belong_to_a_device_and_switches_to_a_stream)
{
    aclrtFloatOverflowMode mode = ACL_RT_OVERFLOW_MODE_UNDEF;
    acl_ok(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN));
    acl_ok(aclrtGetDeviceSatMode(&mode));
    assert_int_equal(mode, ACL_RT_OVERFLOW_MODE_INFNAN);
    acl_expect(REFUSED, aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_UNDEF));
    acl_expect(INVALID, aclrtGetDeviceSatMode(NULL));
    aclrtStream stream;
    uint32_t flag = 7;
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtGetStreamOverflowSwitch(stream, &flag));
    assert_int_equal(flag, 0);
    acl_ok(aclrtSetStreamOverflowSwitch(stream, 1));
    acl_ok(aclrtGetStreamOverflowSwitch(stream, &flag));
    assert_int_equal(flag, 1);
    acl_ok(aclrtGetStreamOverflowSwitch(NULL, &flag));
    assert_int_equal(flag, 0);
    acl_expect(INVALID, aclrtSetStreamOverflowSwitch(stream, 2));
    acl_expect(INVALID, aclrtGetStreamOverflowSwitch(stream, NULL));
    acl_ok(aclrtDestroyStream(stream));
}

TEST(attributes_of_a_stream_are_stored)
{
    aclrtStream stream;
    aclrtStreamAttrValue value = {.userCustomTag = 77};
    acl_ok(aclrtCreateStreamWithConfig(&stream, 3, 0));
    acl_ok(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value));
    value.userCustomTag = 0;
    acl_ok(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value));
    assert_int_equal(value.userCustomTag, 77);
    acl_ok(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_PRIORITY, &value));
    assert_int_equal(value.streamPriority, 3);
    value.overflowSwitch = 1;
    acl_ok(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK, &value));
    acl_ok(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK, &value));
    assert_int_equal(value.overflowSwitch, 1);
    value.overflowSwitch = 2;
    acl_expect(REFUSED, aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK, &value));
    value.failureMode = ACL_STOP_ON_FAILURE;
    acl_ok(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, &value));
    value.failureMode = 9;
    acl_ok(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, &value));
    assert_true(value.failureMode == ACL_STOP_ON_FAILURE);
    value.cacheOpInfoSwitch = 1;
    acl_ok(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_CACHE_OP_INFO, &value));
    value.cacheOpInfoSwitch = 2;
    acl_expect(REFUSED, aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_CACHE_OP_INFO, &value));
    acl_expect(NO, aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_CACHE_OP_INFO, &value));
    acl_expect(INVALID, aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_PRIORITY, NULL));
    acl_ok(aclrtDestroyStream(stream));
}

TEST(facts_of_the_interface_and_the_device)
{
    int32_t major = 0, minor = 0, patch = -1, value = -1, active = -1;
    int64_t cores = 0;
    acl_ok(aclrtGetVersion(&major, &minor, &patch));
    assert_true(major == ACL_MAJOR_VERSION && minor == ACL_MINOR_VERSION && patch == ACL_PATCH_VERSION);
    acl_expect(INVALID, aclrtGetVersion(&major, NULL, &patch));
    const aclCannAttr *attributes = NULL;
    size_t count = 0;
    acl_ok(aclGetCannAttributeList(&attributes, &count));
    for (size_t i = 0; i < count; i++) {
        acl_ok(aclGetCannAttribute(attributes[i], &value));
        assert_int_equal(value, 1);
    }
    acl_ok(aclGetCannAttribute(ACL_CANN_ATTR_JIT_COMPILE, &value));
    assert_int_equal(value, 0);
    acl_expect(INVALID, aclGetCannAttribute(ACL_CANN_ATTR_UNDEFINED, &value));
    acl_ok(aclGetDeviceCapability(1, ACL_DEVICE_INFO_VECTOR_CORE_NUM, &cores));
    assert_int_equal(cores, 40);
    acl_expect(INVALID, aclGetDeviceCapability(2, ACL_DEVICE_INFO_VECTOR_CORE_NUM, &cores));
    acl_expect(INVALID, aclGetDeviceCapability(1, ACL_DEVICE_INFO_UNDEFINED, &cores));
    acl_ok(aclrtGetDeviceCapability(1, ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV, &value));
    assert_int_equal(value, ACL_DEV_FEATURE_NOT_SUPPORT);
    acl_expect(REFUSED, aclrtGetDeviceCapability(1, (aclrtDevFeatureType)2, &value));
    acl_ok(aclrtGetPrimaryCtxState(1, NULL, &active));
    assert_int_equal(active, 1);
    acl_ok(aclrtGetPrimaryCtxState(0, NULL, &active));
    assert_int_equal(active, 0);
    uint32_t flags = 0, streams = 0, fewer = 0;
    acl_expect(INVALID, aclrtGetPrimaryCtxState(0, &flags, &active));
    acl_ok(aclrtGetStreamAvailableNum(&streams));
    aclrtStream stream;
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtGetStreamAvailableNum(&fewer));
    assert_int_equal(fewer, streams - 1);
    acl_ok(aclrtDestroyStream(stream));
    aclAppLog(ACL_ERROR, __func__, __FILE__, __LINE__, "%d", 1);
}

TEST(usage_of_memory_and_its_errors)
{
    aclrtMemUsageInfo before, after;
    aclrtMemUceInfo errors[2];
    size_t entries = 0;
    void *p = NULL;
    acl_ok(aclrtGetMemUsageInfo(1, &before, 1, &entries));
    assert_int_equal(entries, 1);
    acl_ok(aclrtMalloc(&p, 4 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtGetMemUsageInfo(1, &after, 1, &entries));
    assert_true(after.curMemSize >= before.curMemSize + (4 << 20) && after.memPeakSize >= after.curMemSize);
    acl_ok(aclrtFree(p));
    acl_expect(REFUSED, aclrtGetMemUsageInfo(1, &after, 0, &entries));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetMemUsageInfo(2, &after, 1, &entries));
    entries = 9;
    acl_ok(aclrtGetMemUceInfo(1, errors, 2, &entries));
    assert_int_equal(entries, 0);
}

TEST(peer_access_can_be_asked_for)
{
    int32_t status = -1;
    acl_ok(aclrtDevicePeerAccessStatus(1, 0, &status));
    assert_int_equal(status, 0);
    acl_ok(aclrtDeviceEnablePeerAccess(0, 0));
    acl_ok(aclrtDevicePeerAccessStatus(1, 0, &status));
    assert_int_equal(status, 1);
    acl_ok(aclrtDevicePeerAccessStatus(0, 1, &status));
    assert_int_equal(status, 0);
    acl_ok(aclrtDeviceDisablePeerAccess(0));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDevicePeerAccessStatus(0, 2, &status));
}

TEST(events_with_flags_order_work)
{
    aclrtStream first, second;
    aclrtEvent event;
    void *p = NULL;
    acl_ok(aclrtCreateStream(&first));
    acl_ok(aclrtCreateStream(&second));
    acl_ok(aclrtCreateEvent(&event));
    acl_ok(aclrtMalloc(&p, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    const uint64_t findings = weir_ascendcl_finding_count(NULL);
    acl_ok(aclrtMemsetAsync(p, 1 << 20, 1, 1 << 20, first));
    acl_ok(aclrtRecordEventWithFlag(event, first, ACL_EVENT_RECORD_DEFAULT));
    acl_ok(aclrtStreamWaitEventWithFlag(second, event, 0, ACL_EVENT_WAIT_DEFAULT));
    acl_ok(aclrtMemsetAsync(p, 1 << 20, 2, 1 << 20, second));
    acl_ok(aclrtRecordEventWithFlag(event, second, ACL_EVENT_RECORD_DEFAULT));
    acl_ok(aclrtStreamWaitEventWithTimeout(first, event, 0));
    acl_ok(aclrtMemsetAsync(p, 1 << 20, 3, 1 << 20, first));
    acl_ok(aclrtSynchronizeStream(first));
    assert_true(weir_ascendcl_finding_count(NULL) == findings);
    acl_expect(INVALID, aclrtRecordEventWithFlag(event, first, 2));
    acl_expect(INVALID, aclrtStreamWaitEventWithFlag(first, event, 0, 2));
    acl_expect(NO, aclrtStreamWaitEventWithFlag(first, event, 1, 0));
    acl_expect(NO, aclrtStreamWaitEventWithTimeout(first, event, 1));
    acl_expect(REFUSED, aclrtStreamWaitEventWithTimeout(first, event, -1));
    acl_ok(aclrtFree(p));
    acl_ok(aclrtDestroyEvent(event));
    acl_ok(aclrtDestroyStream(first));
    acl_ok(aclrtDestroyStream(second));
}

TEST(further_copies_and_fills)
{
    enum { WORDS = 1000 };
    uint32_t *device = NULL, *pinned = NULL, got[WORDS];
    aclrtStream stream;
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtMalloc((void **)&device, sizeof(got), ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMallocHost((void **)&pinned, sizeof(got)));
    acl_ok(aclrtMemsetD32Async(device, sizeof(got), 0x01020304, WORDS, stream));
    acl_ok(aclrtMemcpyAsyncWithCondition(pinned, sizeof(got), device, sizeof(got), ACL_MEMCPY_DEVICE_TO_HOST, stream));
    acl_ok(aclrtSynchronizeStream(stream));
    assert_true(pinned[0] == 0x01020304 && pinned[WORDS - 1] == 0x01020304);
    acl_ok(aclrtMemsetD32Async(NULL, 0, 0, 0, stream));
    acl_expect(INVALID, aclrtMemsetD32Async((char *)device + 1, sizeof(got), 0, 1, stream));
    acl_expect(INVALID, aclrtMemsetD32Async(device, 7, 0, 2, stream));
    acl_expect(INVALID, aclrtMemsetD32Async(got, sizeof(got), 0, 1, stream));
    for (int i = 0; i < WORDS; i++) {
        pinned[i] = (uint32_t)i;
    }
    void *to[] = {device}, *from[] = {pinned};
    size_t sizes[] = {sizeof(got)}, indices[] = {0};
    aclrtMemcpyBatchAttr attribute = {.dstLoc = {1, ACL_MEM_LOCATION_TYPE_DEVICE},
                                      .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};
    acl_ok(aclrtMemcpyBatchV2(to, sizes, from, sizes, 1, &attribute, indices, 1));
    memset(pinned, 0, sizeof(got));
    attribute =
        (aclrtMemcpyBatchAttr){.dstLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}, .srcLoc = {1, ACL_MEM_LOCATION_TYPE_DEVICE}};
    acl_ok(aclrtMemcpyBatchAsyncV2(from, sizes, to, sizes, 1, &attribute, indices, 1, stream));
    acl_ok(aclrtSynchronizeStream(stream));
    assert_true(pinned[1] == 1 && pinned[WORDS - 1] == WORDS - 1);
    acl_expect(INVALID, aclrtMemcpyBatchV2(to, sizes, from, NULL, 1, &attribute, indices, 1));
    acl_expect(INVALID, aclrtMemcpyBatchAsyncV2(to, sizes, from, sizes, 0, &attribute, indices, 1, stream));
    acl_ok(aclrtMemFlush(device, 64));
    acl_ok(aclrtMemInvalidate(device, 64));
    acl_ok(aclrtCmoAsync(device, 64, ACL_RT_CMO_TYPE_PREFETCH, stream));
    acl_expect(INVALID, aclrtMemFlush(NULL, 64));
    acl_expect(INVALID, aclrtMemInvalidate(device, 0));
    acl_expect(REFUSED, aclrtMemFlush(got, 64));
    acl_expect(NO, aclrtCmoAsync(device, 64, ACL_RT_CMO_TYPE_FLUSH, stream));
    acl_expect(REFUSED, aclrtCmoAsync(got, 64, ACL_RT_CMO_TYPE_PREFETCH, stream));
    acl_ok(aclrtFree(device));
    acl_ok(aclrtFreeHost(pinned));
    acl_ok(aclrtDestroyStream(stream));
}

TEST(an_abort_of_a_device_drops_the_work_of_its_streams)
{
    aclrtStream stream;
    acl_ok(aclrtCreateStream(&stream));
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.duration_ns = UINT64_C(3600000000000);
    acl_ok(weir_ascendcl_launch(stream, &kernel));
    const uint64_t before = weir_ascendcl_now();
    acl_ok(aclrtDeviceTaskAbort(1, 1000));
    acl_expect(ACL_ERROR_RT_DEVICE_TASK_ABORT, aclrtSynchronizeStream(stream));
    assert_true(weir_ascendcl_now() - before < kernel.duration_ns);
    acl_ok(aclrtSynchronizeStream(stream));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceTaskAbort(2, 0));
    acl_ok(aclrtDestroyStream(stream));
}

TEST(access_to_a_mapping_can_be_asked_for)
{
    enum { BYTES = 2 << 20 };
    const aclrtPhysicalMemProp prop = {.handleType = ACL_MEM_HANDLE_TYPE_NONE,
                                       .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                                       .memAttr = ACL_HBM_MEM_HUGE,
                                       .location = {1, ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtDrvMemHandle handle;
    void *p = NULL;
    uint64_t flag = 9;
    aclrtMemLocation own = {1, ACL_MEM_LOCATION_TYPE_DEVICE}, other = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
    acl_ok(aclrtReserveMemAddress(&p, BYTES, 0, NULL, 0));
    acl_ok(aclrtMallocPhysical(&handle, BYTES, &prop, 0));
    acl_ok(aclrtMapMem(p, BYTES, 0, handle, 0));
    acl_ok(aclrtMemGetAccess(p, &own, &flag));
    assert_int_equal(flag, ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    acl_ok(aclrtMemGetAccess(p, &other, &flag));
    assert_int_equal(flag, ACL_RT_MEM_ACCESS_FLAGS_NONE);
    aclrtMemAccessDesc desc = {.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE, .location = other};
    acl_ok(aclrtMemSetAccess(p, BYTES, &desc, 1));
    acl_ok(aclrtMemGetAccess(p, &other, &flag));
    assert_int_equal(flag, ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    acl_ok(aclrtMemGetAccess((char *)p + 1, &own, &flag));
    acl_expect(ACL_ERROR_RT_DRV_INTERNAL_ERROR, aclrtMemGetAccess((char *)p + BYTES, &own, &flag));
    other.id = 2;
    acl_expect(REFUSED, aclrtMemGetAccess(p, &other, &flag));
    desc.location = (aclrtMemLocation){0, ACL_MEM_LOCATION_TYPE_HOST};
    acl_ok(aclrtMemGetAccess(p, &desc.location, &flag));
    assert_int_equal(flag, ACL_RT_MEM_ACCESS_FLAGS_NONE);
    acl_ok(aclrtMemSetAccess(p, BYTES, &desc, 1));
    acl_ok(aclrtMemGetAccess(p, &desc.location, &flag));
    assert_int_equal(flag, ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    desc.location.id = 1; /* the host is number 0 */
    acl_expect(REFUSED, aclrtMemSetAccess(p, BYTES, &desc, 1));
    acl_ok(aclrtUnmapMem(p));
    acl_ok(aclrtFreePhysical(handle));
    acl_ok(aclrtReleaseMemAddress(p));
}

TEST(a_capture_can_be_asked_for)
{
    aclrtStream stream;
    aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
    aclmdlRI model = &stream, captured = NULL;
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclmdlRICaptureGetInfo(stream, &status, &model));
    assert_true(status == ACL_MODEL_RI_CAPTURE_STATUS_NONE && model == NULL);
    aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
    acl_ok(aclmdlRICaptureThreadExchangeMode(&mode));
    assert_int_equal(mode, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
    acl_ok(aclmdlRICaptureThreadExchangeMode(&mode));
    assert_int_equal(mode, ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
    mode = (aclmdlRICaptureMode)3;
    acl_expect(REFUSED, aclmdlRICaptureThreadExchangeMode(&mode));
    acl_ok(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    acl_ok(aclmdlRICaptureGetInfo(stream, &status, &model));
    assert_int_equal(status, ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
    acl_ok(aclmdlRICaptureEnd(stream, &captured));
    assert_ptr_equal(captured, model);
    acl_expect(INVALID, aclmdlRICaptureGetInfo(stream, NULL, NULL));
    acl_ok(aclmdlRIDestroy(captured));
    acl_ok(aclrtDestroyStream(stream));
}

/* A program can read the same few options as from the vendor's compiler. torch_npu reads ACL_OP_JIT_COMPILE before it
 * sets this option, and does not start if the size of the option is 0. */
TEST(few_options_of_the_compiler_can_be_read)
{
    char value[32];
    assert_int_equal(aclGetCompileoptSize(ACL_OP_JIT_COMPILE), 256);
    acl_ok(aclGetCompileopt(ACL_OP_JIT_COMPILE, value, sizeof(value)));
    assert_string_equal(value, "disable");
    acl_ok(aclSetCompileopt(ACL_OP_JIT_COMPILE, "enable"));
    acl_ok(aclGetCompileopt(ACL_OP_JIT_COMPILE, value, 8));
    assert_string_equal(value, "disable"); /* the device's default */
    acl_expect(ACL_ERROR_FAILURE, aclGetCompileopt(ACL_OP_JIT_COMPILE, value, 7));

    acl_expect(ACL_ERROR_API_NOT_SUPPORT, aclGetCompileopt(ACL_OP_DEBUG_OPTION, value, sizeof(value)));
    acl_ok(aclSetCompileopt(ACL_OP_DEBUG_OPTION, "oom"));
    assert_int_equal(aclGetCompileoptSize(ACL_OP_DEBUG_OPTION), 4);
    acl_ok(aclGetCompileopt(ACL_OP_DEBUG_OPTION, value, 4));
    assert_string_equal(value, "oom");

    assert_int_equal(aclGetCompileoptSize(ACL_PRECISION_MODE), 0);
    acl_ok(aclSetCompileopt(ACL_PRECISION_MODE, "allow_fp32_to_fp16"));
    assert_int_equal(aclGetCompileoptSize(ACL_PRECISION_MODE), 19);
    acl_expect(ACL_ERROR_API_NOT_SUPPORT, aclGetCompileopt(ACL_PRECISION_MODE, value, sizeof(value)));

    acl_expect(ACL_ERROR_FEATURE_UNSUPPORTED, aclSetCompileopt(ACL_AUTO_TUNE_MODE, "RL"));
    acl_expect(ACL_ERROR_INTERNAL_ERROR, aclSetCompileopt((aclCompileOpt)99, "x"));
    acl_expect(INVALID, aclSetCompileopt(ACL_OP_JIT_COMPILE, NULL));
    assert_int_equal(aclGetCompileoptSize((aclCompileOpt)99), 0);
    acl_ok(aclopSetCompileFlag(ACL_OP_COMPILE_FUZZ));
    acl_expect(INVALID, aclopSetCompileFlag((aclOpCompileFlag)2));
}

/* Runs an operator as ONNX Runtime's provider does: with constant descriptions and properties of tensors. */
TEST(an_operator_of_the_first_version_runs)
{
    enum { COUNT = 4 };
    const int64_t dims[] = {COUNT}, lists[] = {1, 2, 3};
    const int64_t *const pointers[] = {lists, lists};
    const int counts[] = {3, 2};
    const aclDataType types[] = {ACL_FLOAT, ACL_INT8};
    float host[COUNT] = {1, 2, 3, 4}, *x = NULL, *y = NULL;
    aclopAttr *attr = aclopCreateAttr();
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_FLOAT, 1, dims, ACL_FORMAT_ND);
    aclTensorDesc *out_desc = aclCreateTensorDesc(ACL_FLOAT, 1, dims, ACL_FORMAT_ND);
    acl_ok(aclrtMalloc((void **)&x, sizeof(host), ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMalloc((void **)&y, sizeof(host), ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMemcpy(x, sizeof(host), host, sizeof(host), ACL_MEMCPY_HOST_TO_DEVICE));
    acl_ok(aclopSetAttrListListInt(attr, "lists", 2, counts, pointers));
    acl_expect(INVALID, aclopSetAttrListListInt(attr, "lists", 2, NULL, pointers));
    acl_expect(INVALID, aclopSetAttrListListInt(attr, "lists", 1, (const int[]){-1}, pointers));
    acl_ok(aclopSetAttrListDataType(attr, "types", 2, types));
    acl_ok(aclSetTensorFormat(desc, ACL_FORMAT_ND));
    acl_ok(aclSetTensorShape(desc, 1, dims));
    acl_ok(aclSetTensorPlaceMent(desc, ACL_MEMTYPE_DEVICE));
    acl_ok(aclSetTensorConst(desc, host, sizeof(host)));
    acl_expect(INVALID, aclSetTensorFormat(NULL, ACL_FORMAT_ND));
    acl_expect(INVALID, aclSetTensorShape(desc, 1, NULL));
    acl_expect(INVALID, aclSetTensorPlaceMent(desc, (aclMemType)3));
    acl_expect(INVALID, aclSetTensorConst(desc, NULL, 1));
    const aclTensorDesc *descs[] = {desc, desc}, *out_descs[] = {out_desc};
    aclDataBuffer *in = aclCreateDataBuffer(x, sizeof(host)), *out = aclCreateDataBuffer(y, sizeof(host));
    const aclDataBuffer *ins[] = {in, in};
    aclrtStream stream;
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclopCompileAndExecute("Add", 2, descs, ins, 1, out_descs, &out, attr, ACL_ENGINE_SYS, ACL_COMPILE_SYS, NULL,
                                  stream));
    acl_ok(aclrtSynchronizeStream(stream));
    acl_ok(aclrtMemcpy(host, sizeof(host), y, sizeof(host), ACL_MEMCPY_DEVICE_TO_HOST));
    assert_true(host[0] == 2 && host[3] == 8);
    acl_ok(aclrtDestroyStream(stream));
    acl_ok(aclDestroyDataBuffer(in));
    acl_ok(aclDestroyDataBuffer(out));
    aclDestroyTensorDesc(desc);
    aclDestroyTensorDesc(out_desc);
    aclopDestroyAttr(attr);
    acl_ok(aclrtFree(x));
    acl_ok(aclrtFree(y));
}

ACL_ENVIRONMENT(REPORT, "none")
ACL_ENVIRONMENT(DEVICES, "2")
EACH_TEST(use_second_device, reset_second_device)
