/* share_test.c: peers, exported handles and keys, in a process that shares its devices with no other. */
#include "rig/acl.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

TEST(peers_reach_each_other)
{
    int32_t can = -1;
    acl_ok(aclrtDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtDeviceCanAccessPeer(&can, 1, 1));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtDeviceCanAccessPeer(&can, 0, 2));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceCanAccessPeer(&can, -1, 0));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtDeviceCanAccessPeer(NULL, 0, 1));
    acl_expect(ACL_ERROR_FEATURE_UNSUPPORTED, aclrtDeviceEnablePeerAccess(1, 1));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtDeviceEnablePeerAccess(0, 0));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtDeviceEnablePeerAccess(2, 0));
    acl_ok(aclrtDeviceEnablePeerAccess(1, 0));
    acl_ok(aclrtDeviceEnablePeerAccess(1, 0));
    int32_t opened[2] = {-1, -1};
    acl_ok(aclrtDevicePeerAccessStatus(0, 1, &opened[0]));
    acl_ok(aclrtDevicePeerAccessStatus(1, 0, &opened[1]));
    assert_int_equal(opened[0], 1);
    assert_int_equal(opened[1], 0);
    acl_ok(aclrtDeviceDisablePeerAccess(1));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtDeviceDisablePeerAccess(0));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtDeviceDisablePeerAccess(-1));
}

TEST(a_handle_is_exported_once_and_not_imported_here)
{
    const aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
    const aclError invalid = ACL_ERROR_INVALID_PARAM, refused = ACL_ERROR_RT_PARAM_INVALID;
    const aclError by_kernel = ACL_ERROR_RT_DRV_INTERNAL_ERROR;
    aclrtDrvMemHandle handle = NULL, second = NULL, got = NULL;
    uint64_t name = 0;
    int32_t pid = (int32_t)getpid(), none = 0;
    acl_ok(aclrtMallocPhysical(&handle, 2 * MIB, &prop, 0));
    acl_ok(aclrtMallocPhysical(&second, 2 * MIB, &prop, 0));
    acl_expect(invalid, aclrtMemExportToShareableHandle(NULL, ACL_MEM_HANDLE_TYPE_NONE, 0, &name));
    acl_expect(invalid, aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_POSIX, 0, &name));
    acl_expect(invalid, aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, NULL));
    acl_expect(refused, aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 2, &name));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtMemExportToShareableHandle(&pid, ACL_MEM_HANDLE_TYPE_NONE, 0, &name));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtMemSetPidToShareableHandle(1234567, &pid, 1));
    acl_ok(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &name));
    acl_expect(by_kernel, aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &name));
    acl_ok(aclrtMemSetPidToShareableHandle(name, &pid, 1));
    acl_expect(invalid, aclrtMemSetPidToShareableHandle(name, NULL, 1));
    acl_expect(invalid, aclrtMemSetPidToShareableHandle(name, &pid, 0));
    acl_expect(by_kernel, aclrtMemSetPidToShareableHandle(name, &none, 1));
    acl_expect(by_kernel, aclrtMemImportFromShareableHandle(name, 0, &got));
    acl_expect(invalid, aclrtMemImportFromShareableHandle(name, 0, NULL));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtMemImportFromShareableHandle(name, 2, &got));
    aclrtMemFabricHandle fabric;
    memset(&fabric, 0xff, sizeof(fabric));
    acl_expect(refused, aclrtMemExportToShareableHandleV2(second, 0, (aclrtMemSharedHandleType)3, &fabric));
    acl_ok(aclrtMemExportToShareableHandleV2(second, 1, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, &fabric));
    assert_int_equal(fabric.data[127], 0);
    uint64_t for_all = 0;
    memcpy(&for_all, &fabric, sizeof(for_all));
    acl_expect(ACL_ERROR_RT_NO_PERMISSION, aclrtMemSetPidToShareableHandle(for_all, &pid, 1));
    acl_expect(by_kernel, aclrtMemImportFromShareableHandleV2(&fabric, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0, &got));
    acl_expect(invalid, aclrtMemImportFromShareableHandleV2(&fabric, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 1, &got));
    acl_expect(invalid, aclrtMemImportFromShareableHandleV2(NULL, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0, &got));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtMemImportFromShareableHandle(1234567, 0, &got));
    memset(&fabric, 0xff, sizeof(fabric));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               aclrtMemImportFromShareableHandleV2(&fabric, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0, &got));
    assert_null(got);
    acl_ok(aclrtFreePhysical(handle));
    acl_ok(aclrtFreePhysical(second));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtMemSetPidToShareableHandle(name, &pid, 1));
}

TEST(a_key_opens_memory_of_this_process)
{
    const aclError invalid = ACL_ERROR_INVALID_PARAM, refused = ACL_ERROR_RT_PARAM_INVALID;
    const aclError by_kernel = ACL_ERROR_RT_DRV_INTERNAL_ERROR;
    char key[65], other[65] = "nothing";
    void *p = NULL, *q = NULL;
    int32_t pid = 0, nobody = 1;
    acl_ok(aclrtDeviceGetBareTgid(&pid));
    assert_int_equal(pid, getpid());
    acl_expect(invalid, aclrtDeviceGetBareTgid(NULL));
    acl_ok(aclrtMalloc(&p, MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(invalid, aclrtIpcMemGetExportKey(NULL, MIB, key, 65, 0));
    acl_expect(invalid, aclrtIpcMemGetExportKey(p, MIB, NULL, 65, 0));
    acl_expect(refused, aclrtIpcMemGetExportKey(p, MIB, key, 64, 0));
    acl_expect(refused, aclrtIpcMemGetExportKey(p, MIB, key, 65, 2));
    acl_expect(refused, aclrtIpcMemGetExportKey(p, 0, key, 65, 0));
    acl_expect(by_kernel, aclrtIpcMemGetExportKey(p, 4 * MIB, key, 65, 0));
    acl_expect(by_kernel, aclrtIpcMemGetExportKey(&pid, 4, key, 65, 0));
    acl_expect(by_kernel, aclrtIpcMemGetExportKey((char *)p + 512, 64, key, 65, 0));
    acl_ok(aclrtIpcMemGetExportKey(p, MIB, key, 65, ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT));
    acl_expect(by_kernel, aclrtIpcMemImportByKey(&q, key, 0));
    acl_ok(aclrtIpcMemSetImportPid(key, &nobody, 1));
    acl_expect(by_kernel, aclrtIpcMemSetImportPid(key, &pid, 1)); /* an exporter does not import */
    acl_expect(by_kernel, aclrtIpcMemImportByKey(&q, key, 0));
    acl_ok(aclrtIpcMemClose(key));
    acl_ok(aclrtIpcMemGetExportKey(p, MIB, key, 65, ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    acl_expect(ACL_ERROR_RT_NO_PERMISSION, aclrtIpcMemSetImportPid(key, &nobody, 1));
    acl_expect(by_kernel, aclrtIpcMemSetImportPid(other, &pid, 1));
    acl_expect(refused, aclrtIpcMemSetImportPid(key, &pid, 0));
    acl_expect(invalid, aclrtIpcMemSetImportPid(key, NULL, 1));
    acl_expect(refused, aclrtIpcMemImportByKey(&q, key, 2));
    acl_expect(by_kernel, aclrtIpcMemImportByKey(&q, other, 0));
    /* begins like a key of this process, but is none */
    acl_expect(by_kernel, aclrtIpcMemImportByKey(&q, memcpy(other, key, strlen(key) - 1), 0));
    /* a key of another process */
    (void)snprintf(other, sizeof(other), "weir-ascendcl-%d0-1", (int)getpid());
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtIpcMemImportByKey(&q, other, 0));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtIpcMemSetImportPid(other, &pid, 1));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtIpcMemClose(other));
    acl_expect(invalid, aclrtIpcMemImportByKey(NULL, key, 0));
    acl_ok(aclrtIpcMemImportByKey(&q, key, 1));
    char sent = 42, got = 0;
    acl_ok(aclrtMemcpy(p, 1, &sent, 1, ACL_MEMCPY_HOST_TO_DEVICE));
    acl_ok(aclrtMemcpy(&got, 1, q, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_int_equal(got, 42);
    acl_ok(aclrtIpcMemClose(key)); /* the importer's reference */
    acl_ok(aclrtIpcMemClose(key)); /* the exporter's reference */
    acl_expect(by_kernel, aclrtIpcMemClose(key));
    acl_expect(invalid, aclrtIpcMemClose(NULL));
    acl_ok(aclrtIpcMemGetExportKey(p, MIB, key, 65, ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    acl_ok(aclrtFree(p));
    acl_expect(by_kernel, aclrtIpcMemImportByKey(&q, key, 0)); /* the memory is gone */
    acl_ok(aclrtIpcMemClose(key));
}

TEST(managed_memory_is_not_simulated)
{
    void *p = NULL;
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemAllocManaged(NULL, MIB, 1));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemAllocManaged(&p, MIB, 0));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtMemAllocManaged(&p, MIB, ACL_RT_MEM_ATTACH_GLOBAL));
}

ALL_TESTS(use_device, NULL)
