/* info_test.c: facts about devices, streams with a configuration, and functions that report that they are not
 * simulated. */
#include "rig/acl.h"

#include <weir/ascendcl.h>

#include <string.h>

TEST(a_device_has_facts)
{
    static const struct {
        aclrtDevAttr attribute;
        int64_t value;
    } facts[] = {
        {ACL_DEV_ATTR_AICPU_CORE_NUM, 6},
        {ACL_DEV_ATTR_AICORE_CORE_NUM, 20},
        {ACL_DEV_ATTR_CUBE_CORE_NUM, 20},
        {ACL_DEV_ATTR_VECTOR_CORE_NUM, 40},
        {ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE, 196608},
        {ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, 3 << 20},
        {ACL_DEV_ATTR_L2_CACHE_SIZE, 201326592},
        {ACL_DEV_ATTR_PHY_CHIP_ID, 1},
        {ACL_DEV_ATTR_SMP_ID, 0},
        {ACL_DEV_ATTR_CUST_OP_PRIVILEGE, 0},
        {ACL_DEV_ATTR_IS_VIRTUAL, 0},
        {ACL_DEV_ATTR_NPU_ARCH, 2201},
    };
    int64_t value = -7;
    for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
        acl_ok(aclrtGetDeviceInfo(1, facts[i].attribute, &value));
        assert_true(value == facts[i].value);
    }
    value = -7;
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtGetDeviceInfo(0, ACL_DEV_ATTR_SMP_ID, NULL));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtGetDeviceInfo(2, ACL_DEV_ATTR_SMP_ID, &value));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtGetDeviceInfo(UINT32_MAX, ACL_DEV_ATTR_SMP_ID, &value));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtGetDeviceInfo(0, (aclrtDevAttr)7, &value));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtGetDeviceInfo(0, ACL_DEV_ATTR_WARP_SIZE, &value));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtGetDeviceInfo(0, ACL_DEV_ATTR_SUPER_POD_ID, &value));
    assert_true(value == -7);

    aclrtRunMode mode = ACL_DEVICE;
    acl_ok(aclrtGetRunMode(&mode));
    assert_int_equal(mode, ACL_HOST);
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtGetRunMode(NULL));
    assert_string_equal(aclrtGetSocName(), "Ascend910B3");
    /* an injected fault strikes this call of aclrtGetSocName, and the call still returns the name */
    assert_string_equal(aclrtGetSocName(), "Ascend910B3");

    aclrtDeviceStatus status = ACL_RT_DEVICE_STATUS_END;
    acl_ok(aclrtQueryDeviceStatus(1, &status));
    assert_int_equal(status, ACL_RT_DEVICE_STATUS_NORMAL);
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtQueryDeviceStatus(2, &status));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtQueryDeviceStatus(0, NULL));
}

TEST(devices_have_pci_bus_ids)
{
    char text[16] = "unchanged";
    int32_t device = -7;
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtDeviceGetPCIBusId(0, NULL, 16));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceGetPCIBusId(-1, text, 0));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtDeviceGetPCIBusId(0, text, 12));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceGetPCIBusId(2, text, 16));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtDeviceGetPCIBusId(1, text, 16)); /* it is not on PCI */
    assert_string_equal(text, "unchanged");
    acl_ok(aclrtDeviceGetPCIBusId(0, text, 13));
    assert_string_equal(text, "0000:c1:00.0");
    acl_ok(aclrtDeviceGetByPCIBusId("0000:c1:00.0", &device));
    assert_int_equal(device, 0);
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtDeviceGetByPCIBusId("0000:c2:00.0", &device));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtDeviceGetByPCIBusId("", &device));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtDeviceGetByPCIBusId(NULL, &device));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtDeviceGetByPCIBusId("0000:c1:00.0", NULL));
    assert_int_equal(device, 0);
}

TEST(a_device_is_busy_while_it_works)
{
    aclrtUtilizationInfo rate;
    memset(&rate, 0, sizeof(rate));
    acl_ok(aclrtGetDeviceUtilizationRate(0, &rate));
    assert_int_equal(rate.cubeUtilization, 0);
    assert_int_equal(rate.memoryUtilization, -1);
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.duration_ns = 1000000;
    acl_ok(weir_ascendcl_launch(NULL, &kernel));
    acl_ok(aclrtGetDeviceUtilizationRate(0, &rate));
    assert_int_equal(rate.cubeUtilization, 100);
    assert_int_equal(rate.vectorUtilization, 100);
    assert_int_equal(rate.aicpuUtilization, 0);
    acl_ok(aclrtGetDeviceUtilizationRate(1, &rate));
    assert_int_equal(rate.cubeUtilization, 0);
    acl_ok(aclrtSynchronizeStream(NULL));
    acl_ok(aclrtGetDeviceUtilizationRate(0, &rate));
    assert_int_equal(rate.vectorUtilization, 0);
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtGetDeviceUtilizationRate(0, NULL));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetDeviceUtilizationRate(-1, &rate));
    rate.utilizationExtend = (aclrtUtilizationExtendInfo *)&rate;
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtGetDeviceUtilizationRate(0, &rate));
}

TEST(limits_are_kept_for_each_device)
{
    uint32_t value = 0;
    acl_ok(aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, &value));
    assert_int_equal(value, 20);
    acl_ok(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, 8));
    acl_ok(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_VECTOR_CORE, 0));
    acl_ok(aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, &value));
    assert_int_equal(value, 8);
    acl_ok(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_VECTOR_CORE, &value));
    assert_int_equal(value, 0);
    acl_ok(aclrtGetDeviceResLimit(1, ACL_RT_DEV_RES_CUBE_CORE, &value));
    assert_int_equal(value, 20);
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, 21));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtSetDeviceResLimit(0, (aclrtDevResLimitType)2, 1));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDeviceResLimit(2, ACL_RT_DEV_RES_CUBE_CORE, 1));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtGetDeviceResLimit(0, (aclrtDevResLimitType)2, &value));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetDeviceResLimit(2, ACL_RT_DEV_RES_CUBE_CORE, &value));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, NULL));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, NULL));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtGetResInCurrentThread((aclrtDevResLimitType)2, &value));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtResetDeviceResLimit(2));
    acl_ok(aclrtResetDeviceResLimit(0));
    acl_ok(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &value));
    assert_int_equal(value, 20);
}

TEST(a_stream_is_made_by_a_configuration)
{
    aclrtStream stream = NULL;
    int32_t least = -1, greatest = -1;
    uint32_t priority = 8, found = 99;
    size_t flags = ACL_STREAM_FAST_SYNC;
    void *area = &stream;
    acl_ok(aclrtDeviceGetStreamPriorityRange(&least, &greatest));
    assert_int_equal(least, 7);
    assert_int_equal(greatest, 0);
    acl_ok(aclrtDeviceGetStreamPriorityRange(NULL, NULL));

    aclrtStreamConfigHandle *handle = aclrtCreateStreamConfigHandle();
    assert_non_null(handle);
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtSetStreamConfigOpt(NULL, ACL_RT_STREAM_FLAG, &flags, sizeof(flags)));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_FLAG, NULL, sizeof(flags)));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_FLAG, &flags, 2));
    acl_expect(ACL_ERROR_INVALID_PARAM,
               aclrtSetStreamConfigOpt(handle, (aclrtStreamConfigAttr)4, &flags, sizeof(flags)));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_PRIORITY, &priority, 4));
    priority = 3;
    acl_ok(aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_PRIORITY, &priority, sizeof(priority)));
    acl_ok(aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_FLAG, &(uint32_t){ACL_STREAM_HUGE}, 4));
    acl_ok(aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_FLAG, &flags, sizeof(flags)));
    acl_ok(aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_WORK_ADDR_PTR, &area, sizeof(area)));
    acl_ok(aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_WORK_SIZE, &flags, sizeof(flags)));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtCreateStreamV2(NULL, handle));
    acl_ok(aclrtCreateStreamV2(&stream, handle));
    acl_ok(aclrtStreamGetPriority(stream, &found));
    assert_int_equal(found, 3);
    acl_ok(aclrtStreamGetFlags(stream, &found));
    assert_int_equal(found, ACL_STREAM_FAST_SYNC);
    acl_ok(aclrtDestroyStream(stream));
    flags = (size_t)1 << 40;
    acl_ok(aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_FLAG, &flags, sizeof(flags)));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtCreateStreamV2(&stream, handle));
    acl_ok(aclrtCreateStreamV2(&stream, NULL));
    acl_ok(aclrtDestroyStream(stream));
    acl_ok(aclrtDestroyStreamConfigHandle(handle));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtDestroyStreamConfigHandle(NULL));
}

TEST(what_is_not_simulated_says_so)
{
    aclrtBinHandle binary = NULL;
    aclrtFuncHandle function = NULL;
    aclrtArgsHandle arguments = NULL;
    aclrtParamHandle parameter = NULL;
    aclrtStream stream;
    enum { NO = ACL_ERROR_RT_FEATURE_NOT_SUPPORT };
    acl_expect(NO, aclrtBinaryLoadFromFile("kernel.o", NULL, &binary));
    assert_non_null(strstr(aclGetRecentErrMsg(), "aclrtBinaryLoadFromFile is not simulated"));
    acl_expect(NO, aclrtBinaryGetFunction(binary, "add", &function));
    acl_expect(NO, aclrtBinaryUnLoad(binary));
    acl_expect(NO, aclrtKernelArgsInit(function, &arguments));
    acl_expect(NO, aclrtKernelArgsAppend(arguments, &binary, sizeof(binary), &parameter));
    acl_expect(NO, aclrtKernelArgsFinalize(arguments));
    acl_expect(NO, aclrtLaunchKernelWithConfig(function, 1, NULL, NULL, arguments, NULL));
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtStreamStop(stream));
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtSynchronizeStream(stream));
    acl_ok(aclrtSynchronizeStream(stream));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtStreamStop(NULL));
    acl_ok(aclrtDestroyStream(stream));
}

TEST(a_device_has_one_number)
{
    aclError (*const functions[])(int32_t, int32_t *) = {
        aclrtGetLogicDevIdByUserDevId, aclrtGetUserDevIdByLogicDevId, aclrtGetLogicDevIdByPhyDevId,
        aclrtGetPhyDevIdByLogicDevId,  aclrtGetUserDevIdByPhyDevId,   aclrtGetPhyDevIdByUserDevId,
    };
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        int32_t other = -1;
        acl_ok(functions[i](1, &other));
        assert_int_equal(other, 1);
        acl_expect(ACL_ERROR_INVALID_PARAM, functions[i](1, NULL));
        acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, functions[i](2, &other));
        acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, functions[i](-1, &other));
    }
}

ACL_ENVIRONMENT(REPORT, "none")
ACL_ENVIRONMENT(DEVICES, "2")
ACL_ENVIRONMENT(PCI_BUS_IDS, "0000:c1:00.0")
ACL_ENVIRONMENT(CAPACITY, "3MiB")
ACL_ENVIRONMENT(FAULTS, "aclrtGetSocName:2")
EACH_TEST(use_device, reset_device)
