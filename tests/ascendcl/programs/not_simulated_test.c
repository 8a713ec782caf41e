/* ascendcl/not_simulated_test.c: every function that is declared and not simulated returns the code for this, with any
 * arguments. */
#include "rig/acl.h"

#include <acl/acl_dump.h>
#include <acl/acl_mdl.h>
#include <acl/acl_op_compiler.h>
#include <acl/acl_prof.h>
#include <acl/acl_tdt.h>
#include <acl/acl_tdt_queue.h>

#include <stdio.h>
#include <string.h>

/* Checks that the last sentence names the function of a call. */
static void names_the_function(const char *call)
{
    char expected[128];
    (void)snprintf(expected, sizeof(expected), "%.*s is not simulated", (int)strcspn(call, "("), call);
    if (strstr(aclGetRecentErrMsg(), expected) == NULL) {
        fail_msg("\"%s\" is not in: %s", expected, aclGetRecentErrMsg());
    }
}

#define NO(call)                                                                                                       \
    do {                                                                                                               \
        acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, call);                                                            \
        names_the_function(#call);                                                                                     \
    } while (0)
/* A function that returns a pointer, a size or a number. */
#define NOTHING(call)                                                                                                  \
    do {                                                                                                               \
        assert_true(call == 0);                                                                                        \
        names_the_function(#call);                                                                                     \
    } while (0)

TEST(operators_models_and_dumps_are_not_simulated)
{
    NOTHING(aclCreateGraphDumpOpt());
    NO(aclDestroyGraphDumpOpt(NULL));
    NO(aclGenGraphAndDumpForOp(NULL, 0, NULL, NULL, 0, NULL, NULL, NULL, (aclopEngineType)0, NULL, NULL));
    NO(aclSetTensorShapeRange(NULL, 0, NULL));
    NO(aclmdlBundleGetModelId(0, 0, NULL));
    NO(aclmdlBundleLoadFromMem(NULL, 0, NULL));
    NO(aclmdlBundleUnload(0));
    NO(aclmdlGetCurOutputDims(NULL, 0, NULL));
    NO(aclmdlGetDynamicBatch(NULL, NULL));
    NO(aclmdlGetDynamicHW(NULL, 0, NULL));
    NO(aclmdlGetInputDynamicDims(NULL, 0, NULL, 0));
    NO(aclmdlGetInputDynamicGearCount(NULL, 0, NULL));
    NO(aclmdlLoadFromMemWithMem(NULL, 0, NULL, NULL, 0, NULL, 0));
    NO(aclmdlQuerySizeFromMem(NULL, 0, NULL, NULL));
    NO(aclmdlSetDynamicBatchSize(0, NULL, 0, 0));
    NO(aclmdlSetDynamicHWSize(0, NULL, 0, 0, 0));
    NO(aclmdlSetInputDynamicDims(0, NULL, 0, NULL));
    NO(aclopSetModelDir(NULL));
    NO(aclopCompile(NULL, 0, NULL, 0, NULL, NULL, (aclopEngineType)0, (aclopCompileType)0, NULL));
    NO(aclopStartDumpArgs(0, NULL));
    NO(aclopStopDumpArgs(0));
}

TEST(streams_notifies_and_devices_are_not_simulated)
{
    NO(aclFinalizeCallbackRegister((aclRegisterCallbackType)0, NULL, NULL));
    NO(aclFinalizeCallbackUnRegister((aclRegisterCallbackType)0, NULL));
    NO(aclInitCallbackRegister((aclRegisterCallbackType)0, NULL, NULL));
    NO(aclInitCallbackUnRegister((aclRegisterCallbackType)0, NULL));
    NO(aclrtActiveStream(NULL, NULL));
    NO(aclrtCheckArchCompatibility(NULL, NULL));
    NO(aclrtDeviceGetLimit((aclrtDeviceLimit)0, NULL));
    NO(aclrtDeviceGetUuid(0, NULL));
    NO(aclrtDeviceSetLimit((aclrtDeviceLimit)0, 0));
    NO(aclrtExceptionInfoCallbackRegister(NULL));
    NO(aclrtExceptionInfoCallbackUnregister(NULL));
    NO(aclrtGetDevicesTopo(0, 0, NULL));
    NO(aclrtGetEventAvailNum(NULL));
    NO(aclrtGetEventId(NULL, NULL));
    NO(aclrtGetGroupCount(NULL));
    NO(aclrtGetNotifyId(NULL, NULL));
    NO(aclrtGetOverflowStatus(NULL, 0, NULL));
    NO(aclrtGetStreamResLimit(NULL, (aclrtDevResLimitType)0, NULL));
    NO(aclrtMallocForTaskScheduler(NULL, 0, (aclrtMemMallocPolicy)0, NULL));
    NO(aclrtNotifyGetExportKey(NULL, NULL, 0, 0));
    NO(aclrtNotifyImportByKey(NULL, NULL, 0));
    NO(aclrtNotifySetImportPid(NULL, NULL, 0));
    NO(aclrtPersistentTaskClean(NULL));
    NO(aclrtRandomNumAsync(NULL, NULL, NULL));
    NO(aclrtRepairError(0, NULL));
    NO(aclrtResetOverflowStatus(NULL));
    NO(aclrtResetStreamResLimit(NULL));
    NO(aclrtSetDeviceTaskAbortCallback(NULL, NULL, NULL));
    NO(aclrtSetGroup(0));
    NO(aclrtSetStreamResLimit(NULL, (aclrtDevResLimitType)0, 0));
    NO(aclrtSwitchStream(NULL, (aclrtCondition)0, NULL, (aclrtCompareDataType)0, NULL, NULL, NULL));
    NO(aclrtUnuseStreamResInCurrentThread(NULL));
    NO(aclrtUseStreamResInCurrentThread(NULL));
    NO(aclsysGetCANNVersion((aclCANNPackageName)0, NULL));
    NO(aclsysGetVersionNum(NULL, NULL));
    NO(aclsysGetVersionStr(NULL, NULL));
}

TEST(captured_models_are_not_simulated)
{
    NO(aclmdlFinalizeDump());
    NO(aclmdlInitDump());
    NO(aclmdlRIBindStream(NULL, NULL, 0));
    NO(aclmdlRIBuildBegin(NULL, 0));
    NO(aclmdlRIBuildEnd(NULL, NULL));
    NO(aclmdlRIEndTask(NULL, NULL));
    NO(aclmdlRIExecute(NULL, 0));
    NO(aclmdlRIUnbindStream(NULL, NULL));
    NO(aclmdlSetDump(NULL));
}

TEST(kernels_and_labels_are_not_simulated)
{
    NO(aclrtBinaryLoad(NULL, NULL));
    NOTHING(aclrtCreateBinary(NULL, 0));
    NO(aclrtCreateLabel(NULL));
    NO(aclrtCreateLabelList(NULL, 0, NULL));
    NO(aclrtDestroyBinary(NULL));
    NO(aclrtDestroyLabel(NULL));
    NO(aclrtDestroyLabelList(NULL));
    NO(aclrtGetFunctionAttribute(NULL, (aclrtFuncAttribute)0, NULL));
    NO(aclrtGetSymbolAddress(NULL, NULL));
    NO(aclrtGetSymbolSize(NULL, NULL));
    NO(aclrtKernelArgsGetHandleMemSize(NULL, NULL));
    NO(aclrtKernelArgsGetMemSize(NULL, 0, NULL));
    NO(aclrtKernelArgsInitByUserMem(NULL, NULL, NULL, 0));
    NO(aclrtMemcpyFromSymbol(NULL, 0, NULL, 0, 0, (aclrtMemcpyKind)0));
    NO(aclrtMemcpyFromSymbolAsync(NULL, 0, NULL, 0, 0, (aclrtMemcpyKind)0, NULL));
    NO(aclrtMemcpyToSymbol(NULL, NULL, 0, 0, (aclrtMemcpyKind)0));
    NO(aclrtMemcpyToSymbolAsync(NULL, NULL, 0, 0, (aclrtMemcpyKind)0, NULL));
    NO(aclrtRegisterCpuFunc(NULL, NULL, NULL, NULL));
    NO(aclrtSetLabel(NULL, NULL));
    NO(aclrtSwitchLabelByIndex(NULL, 0, NULL, NULL));
}

TEST(operations_on_memory_are_not_simulated)
{
    NO(aclrtCheckMemType(NULL, 0, 0, NULL, 0));
    NO(aclrtCmoAsyncWithBarrier(NULL, 0, (aclrtCmoType)0, 0, NULL));
    NO(aclrtCmoAsyncWithDesc(NULL, (aclrtCmoType)0, NULL, NULL));
    NO(aclrtCmoGetDescSize(NULL));
    NO(aclrtCmoSetDesc(NULL, NULL, 0));
    NO(aclrtCmoWaitBarrier(NULL, NULL, 0));
    NO(aclrtGetMemcpyDescSize((aclrtMemcpyKind)0, NULL));
    NO(aclrtHostMemMapCapabilities(0, (aclrtHacType)0, NULL));
    NO(aclrtIpcGetEventHandle(NULL, NULL));
    NO(aclrtIpcMemImportPidInterServer(NULL, NULL, 0));
    NO(aclrtIpcMemSetAttr(NULL, (aclrtIpcMemAttrType)0, 0));
    NO(aclrtIpcOpenEventHandle((aclrtIpcEventHandle){0}, NULL));
    NO(aclrtMemGetAllocationPropertiesFromHandle(NULL, NULL));
    NO(aclrtMemManagedAdvise(NULL, 0, (aclrtMemManagedAdviseType)0, (aclrtMemManagedLocation){0}));
    NO(aclrtMemManagedGetAttr((aclrtMemManagedRangeAttribute)0, NULL, 0, NULL, 0));
    NO(aclrtMemManagedGetAttrs(NULL, 0, NULL, 0, NULL, NULL));
    NO(aclrtMemManagedPrefetchAsync(NULL, 0, (aclrtMemManagedLocation){0}, 0, NULL));
    NO(aclrtMemManagedPrefetchBatchAsync(NULL, NULL, 0, NULL, NULL, 0, 0, NULL));
    NO(aclrtMemMapNoAccess(NULL, 0, 0, NULL, 0));
    NO(aclrtMemMapSelectedLink(NULL, 0, NULL, 0));
    NO(aclrtMemMapSetLink(NULL, (aclrtMemLinkType)0));
    NO(aclrtMemP2PMap(NULL, 0, 0, 0));
    NO(aclrtMemSetPidToShareableHandleV2(NULL, (aclrtMemSharedHandleType)0, NULL, 0));
    NO(aclrtMemUceRepair(0, NULL, 0));
    NO(aclrtMemcpyAsyncWithDesc(NULL, (aclrtMemcpyKind)0, NULL));
    NO(aclrtMemcpyAsyncWithOffset(NULL, 0, 0, NULL, 0, 0, (aclrtMemcpyKind)0, NULL));
    NO(aclrtReserveMemAddressNoUCMemory(NULL, 0, 0, NULL, 0));
    NO(aclrtSetMemcpyDesc(NULL, (aclrtMemcpyKind)0, NULL, NULL, 0, NULL));
}

TEST(channels_of_tensors_are_not_simulated)
{
    NO(acltdtAddDataItem(NULL, NULL));
    NO(acltdtCleanChannel(NULL));
    NOTHING(acltdtCreateChannel(0, NULL));
    NOTHING(acltdtCreateChannelWithCapacity(0, NULL, 0));
    NOTHING(acltdtCreateDataItem((acltdtTensorType)0, NULL, 0, (aclDataType)0, NULL, 0));
    NOTHING(acltdtCreateDataset());
    NO(acltdtDestroyChannel(NULL));
    NO(acltdtDestroyDataItem(NULL));
    NO(acltdtDestroyDataset(NULL));
    NOTHING(acltdtGetDataAddrFromItem(NULL));
    NOTHING(acltdtGetDataItem(NULL, 0));
    NOTHING(acltdtGetDataSizeFromItem(NULL));
    NOTHING(acltdtGetDataTypeFromItem(NULL));
    NOTHING(acltdtGetDatasetName(NULL));
    NOTHING(acltdtGetDatasetSize(NULL));
    NOTHING(acltdtGetDimNumFromItem(NULL));
    NO(acltdtGetDimsFromItem(NULL, NULL, 0));
    NO(acltdtGetSliceInfoFromItem(NULL, NULL, NULL));
    NOTHING(acltdtGetTensorTypeFromItem(NULL));
    NO(acltdtQueryChannelSize(NULL, NULL));
    NO(acltdtReceiveTensor(NULL, NULL, 0));
    NO(acltdtSendTensor(NULL, NULL, 0));
    NO(acltdtStopChannel(NULL));
}

TEST(queues_are_not_simulated)
{
    NO(acltdtAddQueueRoute(NULL, NULL));
    NO(acltdtBindQueueRoutes(NULL));
    NO(acltdtCreateQueue(NULL, NULL));
    NOTHING(acltdtCreateQueueAttr());
    NOTHING(acltdtCreateQueueRoute(0, 0));
    NOTHING(acltdtCreateQueueRouteList());
    NOTHING(acltdtCreateQueueRouteQueryInfo());
    NO(acltdtDestroyQueue(0));
    NO(acltdtDestroyQueueAttr(NULL));
    NO(acltdtDestroyQueueRoute(NULL));
    NO(acltdtDestroyQueueRouteList(NULL));
    NO(acltdtDestroyQueueRouteQueryInfo(NULL));
    NO(acltdtGetQueueAttr(NULL, (acltdtQueueAttrType)0, 0, NULL, NULL));
    NO(acltdtGetQueueRoute(NULL, 0, NULL));
    NOTHING(acltdtGetQueueRouteNum(NULL));
    NO(acltdtGetQueueRouteParam(NULL, (acltdtQueueRouteParamType)0, 0, NULL, NULL));
    NO(acltdtQueryQueueRoutes(NULL, NULL));
    NO(acltdtSetQueueAttr(NULL, (acltdtQueueAttrType)0, 0, NULL));
    NO(acltdtSetQueueRouteQueryInfo(NULL, (acltdtQueueRouteQueryInfoParamType)0, 0, NULL));
    NO(acltdtUnbindQueueRoutes(NULL));
}

TEST(profiling_is_not_simulated)
{
    NO(aclprofInit(NULL, 0));
    NO(aclprofFinalize());
    NO(aclprofStart(NULL));
    NO(aclprofStop(NULL));
    NOTHING(aclprofCreateConfig(NULL, 0, (aclprofAicoreMetrics)0, NULL, 0));
    NO(aclprofDestroyConfig(NULL));
    NO(aclprofSetConfig((aclprofConfigType)0, NULL, 0));
    NO(aclprofMarkEx(NULL, 0, NULL));
    NOTHING(aclprofCreateStepInfo());
    NO(aclprofGetStepTimestamp(NULL, ACL_STEP_START, NULL));
    NOTHING(aclprofCreateStamp());
    NO(aclprofSetStampTraceMessage(NULL, NULL, 0));
    NO(aclprofMark(NULL));
    NO(aclprofPush(NULL));
    NO(aclprofPop());
    NO(aclprofRangeStart(NULL, NULL));
    NO(aclprofRangeStop(0));
    aclprofDestroyStepInfo(NULL);
    aclprofDestroyStamp(NULL);
}

ACL_ENVIRONMENT(REPORT, "none")
