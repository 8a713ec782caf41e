/* functions.h: every public ACL function that libascendcl.so exports, once.
 *
 * X(name, priority). Priorities 1 to 3 are those of the functions that a client of custom allocators needs (1 first).
 * Priority 0 marks the consumers of a registered allocator, operators and models, and the functions needed to call
 * them. The order is that of the headers' areas. The call counters, the names in fault rules and the export map are
 * made from this list; tests/project/tidy compares it with the headers and with the built library.
 */
#ifndef WEIR_ASCENDCL_FUNCTIONS_H
#define WEIR_ASCENDCL_FUNCTIONS_H

#define ACL_RUNTIME_FUNCTIONS(X)                                                                                       \
    /* init */                                                                                                         \
    X(aclInit, 1)                                                                                                      \
    X(aclFinalize, 1)                                                                                                  \
    X(aclFinalizeReference, 1)                                                                                         \
    /* allocator registry */                                                                                           \
    X(aclrtAllocatorCreateDesc, 1)                                                                                     \
    X(aclrtAllocatorDestroyDesc, 1)                                                                                    \
    X(aclrtAllocatorSetObjToDesc, 1)                                                                                   \
    X(aclrtAllocatorSetAllocFuncToDesc, 1)                                                                             \
    X(aclrtAllocatorSetFreeFuncToDesc, 1)                                                                              \
    X(aclrtAllocatorSetAllocAdviseFuncToDesc, 1)                                                                       \
    X(aclrtAllocatorSetGetAddrFromBlockFuncToDesc, 1)                                                                  \
    X(aclrtAllocatorRegister, 1)                                                                                       \
    X(aclrtAllocatorUnregister, 1)                                                                                     \
    X(aclrtAllocatorGetByStream, 1)                                                                                    \
    /* device */                                                                                                       \
    X(aclrtSetDevice, 1)                                                                                               \
    X(aclrtResetDevice, 1)                                                                                             \
    X(aclrtResetDeviceForce, 1)                                                                                        \
    X(aclrtRegDeviceStateCallback, 1)                                                                                  \
    X(aclrtGetDevice, 1)                                                                                               \
    X(aclrtGetDeviceCount, 1)                                                                                          \
    X(aclrtSynchronizeDevice, 1)                                                                                       \
    X(aclrtSynchronizeDeviceWithTimeout, 1)                                                                            \
    /* context */                                                                                                      \
    X(aclrtCreateContext, 1)                                                                                           \
    X(aclrtDestroyContext, 1)                                                                                          \
    X(aclrtSetCurrentContext, 1)                                                                                       \
    X(aclrtGetCurrentContext, 1)                                                                                       \
    X(aclrtCtxGetCurrentDefaultStream, 1)                                                                              \
    /* stream */                                                                                                       \
    X(aclrtCreateStream, 1)                                                                                            \
    X(aclrtCreateStreamWithConfig, 1)                                                                                  \
    X(aclrtDestroyStream, 1)                                                                                           \
    X(aclrtDestroyStreamForce, 1)                                                                                      \
    X(aclrtSynchronizeStream, 1)                                                                                       \
    X(aclrtSynchronizeStreamWithTimeout, 1)                                                                            \
    X(aclrtStreamQuery, 1)                                                                                             \
    X(aclrtStreamAbort, 1)                                                                                             \
    X(aclrtStreamWaitEvent, 1)                                                                                         \
    X(aclrtStreamGetId, 1)                                                                                             \
    X(aclrtStreamGetPriority, 1)                                                                                       \
    X(aclrtStreamGetFlags, 1)                                                                                          \
    X(aclrtSetStreamFailureMode, 1)                                                                                    \
    X(aclrtRegStreamStateCallback, 1)                                                                                  \
    /* event */                                                                                                        \
    X(aclrtCreateEvent, 1)                                                                                             \
    X(aclrtCreateEventWithFlag, 1)                                                                                     \
    X(aclrtCreateEventExWithFlag, 1)                                                                                   \
    X(aclrtDestroyEvent, 1)                                                                                            \
    X(aclrtRecordEvent, 1)                                                                                             \
    X(aclrtResetEvent, 1)                                                                                              \
    X(aclrtQueryEvent, 1)                                                                                              \
    X(aclrtQueryEventStatus, 1)                                                                                        \
    X(aclrtQueryEventWaitStatus, 1)                                                                                    \
    X(aclrtSynchronizeEvent, 1)                                                                                        \
    X(aclrtSynchronizeEventWithTimeout, 1)                                                                             \
    X(aclrtEventElapsedTime, 1)                                                                                        \
    X(aclrtEventGetTimestamp, 1)                                                                                       \
    /* device memory */                                                                                                \
    X(aclrtMalloc, 1)                                                                                                  \
    X(aclrtMallocAlign32, 1)                                                                                           \
    X(aclrtMallocCached, 1)                                                                                            \
    X(aclrtMallocWithCfg, 1)                                                                                           \
    X(aclrtFree, 1)                                                                                                    \
    X(aclrtFreeWithDevSync, 1)                                                                                         \
    X(aclrtGetMemInfo, 1)                                                                                              \
    /* host memory */                                                                                                  \
    X(aclrtMallocHost, 1)                                                                                              \
    X(aclrtMallocHostWithCfg, 1)                                                                                       \
    X(aclrtFreeHost, 1)                                                                                                \
    X(aclrtFreeHostWithDevSync, 1)                                                                                     \
    /* copy and set */                                                                                                 \
    X(aclrtMemcpy, 1)                                                                                                  \
    X(aclrtMemcpyAsync, 1)                                                                                             \
    X(aclrtMemset, 1)                                                                                                  \
    X(aclrtMemsetAsync, 1)                                                                                             \
    X(aclrtReduceAsync, 1)                                                                                             \
    /* callbacks */                                                                                                    \
    X(aclrtSubscribeReport, 1)                                                                                         \
    X(aclrtUnSubscribeReport, 1)                                                                                       \
    X(aclrtProcessReport, 1)                                                                                           \
    X(aclrtLaunchCallback, 1)                                                                                          \
    X(aclrtLaunchHostFunc, 1)                                                                                          \
    X(aclrtSubscribeHostFunc, 1)                                                                                       \
    X(aclrtUnSubscribeHostFunc, 1)                                                                                     \
    X(aclrtProcessHostFunc, 1)                                                                                         \
    /* virtual memory */                                                                                               \
    X(aclrtReserveMemAddress, 2)                                                                                       \
    X(aclrtReleaseMemAddress, 2)                                                                                       \
    X(aclrtMallocPhysical, 2)                                                                                          \
    X(aclrtFreePhysical, 2)                                                                                            \
    X(aclrtMapMem, 2)                                                                                                  \
    X(aclrtUnmapMem, 2)                                                                                                \
    X(aclrtMemGetAllocationGranularity, 2)                                                                             \
    X(aclrtMemSetAccess, 2)                                                                                            \
    X(aclrtMemRetainAllocationHandle, 2)                                                                               \
    X(aclrtMemGetAddressRange, 2)                                                                                      \
    /* host register */                                                                                                \
    X(aclrtHostRegister, 2)                                                                                            \
    X(aclrtHostRegisterV2, 2)                                                                                          \
    X(aclrtHostUnregister, 2)                                                                                          \
    X(aclrtHostGetDevicePointer, 2)                                                                                    \
    /* pointer attributes */                                                                                           \
    X(aclrtPointerGetAttributes, 2)                                                                                    \
    /* SOMA pool */                                                                                                    \
    X(aclrtMemPoolCreate, 2)                                                                                           \
    X(aclrtMemPoolDestroy, 2)                                                                                          \
    X(aclrtMemPoolSetAttr, 2)                                                                                          \
    X(aclrtMemPoolGetAttr, 2)                                                                                          \
    X(aclrtMemPoolMallocAsync, 2)                                                                                      \
    X(aclrtMemPoolFreeAsync, 2)                                                                                        \
    X(aclrtMemPoolTrimTo, 2)                                                                                           \
    /* capture */                                                                                                      \
    X(aclmdlRICaptureBegin, 3)                                                                                         \
    X(aclmdlRICaptureEnd, 3)                                                                                           \
    X(aclmdlRIDestroy, 3)                                                                                              \
    X(aclmdlRIDestroyRegisterCallback, 3)                                                                              \
    X(aclmdlRIDestroyUnregisterCallback, 3)                                                                            \
    X(aclmdlRIExecuteAsync, 3)                                                                                         \
    X(aclmdlRIAddCondTask, 3)                                                                                          \
    X(aclmdlRICaptureTaskGrpBegin, 3)                                                                                  \
    X(aclmdlRICaptureTaskGrpEnd, 3)                                                                                    \
    X(aclmdlRICaptureTaskUpdateBegin, 3)                                                                               \
    X(aclmdlRICaptureTaskUpdateEnd, 3)                                                                                 \
    X(aclmdlRICaptureToModelRIBegin, 3)                                                                                \
    X(aclmdlRICondHandleCreate, 3)                                                                                     \
    X(aclmdlRICondHandleGetCondPtr, 3)                                                                                 \
    X(aclmdlRIDebugJsonPrint, 3)                                                                                       \
    X(aclmdlRIDebugPrint, 3)                                                                                           \
    X(aclmdlRIGetId, 3)                                                                                                \
    /* export and import */                                                                                            \
    X(aclrtMemExportToShareableHandle, 3)                                                                              \
    X(aclrtMemExportToShareableHandleV2, 3)                                                                            \
    X(aclrtMemImportFromShareableHandle, 3)                                                                            \
    X(aclrtMemImportFromShareableHandleV2, 3)                                                                          \
    X(aclrtMemSetPidToShareableHandle, 3)                                                                              \
    X(aclrtDeviceGetBareTgid, 3)                                                                                       \
    /* IPC */                                                                                                          \
    X(aclrtIpcMemGetExportKey, 3)                                                                                      \
    X(aclrtIpcMemSetImportPid, 3)                                                                                      \
    X(aclrtIpcMemImportByKey, 3)                                                                                       \
    X(aclrtIpcMemClose, 3)                                                                                             \
    /* peer */                                                                                                         \
    X(aclrtDeviceCanAccessPeer, 3)                                                                                     \
    X(aclrtDeviceEnablePeerAccess, 3)                                                                                  \
    X(aclrtDeviceDisablePeerAccess, 3)                                                                                 \
    /* 2D and batch copies */                                                                                          \
    X(aclrtMemcpy2d, 3)                                                                                                \
    X(aclrtMemcpy2dAsync, 3)                                                                                           \
    X(aclrtMemcpyBatch, 3)                                                                                             \
    X(aclrtMemcpyBatchAsync, 3)                                                                                        \
    X(aclrtMemsetD32, 3)                                                                                               \
    /* stream extras */                                                                                                \
    X(aclrtCreateStreamConfigHandle, 3)                                                                                \
    X(aclrtDestroyStreamConfigHandle, 3)                                                                               \
    X(aclrtSetStreamConfigOpt, 3)                                                                                      \
    X(aclrtCreateStreamV2, 3)                                                                                          \
    X(aclrtStreamStop, 3)                                                                                              \
    X(aclrtDeviceGetStreamPriorityRange, 3)                                                                            \
    /* value and notify */                                                                                             \
    X(aclrtValueWrite, 3)                                                                                              \
    X(aclrtValueWait, 3)                                                                                               \
    X(aclrtCreateNotify, 3)                                                                                            \
    X(aclrtDestroyNotify, 3)                                                                                           \
    X(aclrtRecordNotify, 3)                                                                                            \
    X(aclrtWaitAndResetNotify, 3)                                                                                      \
    /* errors and exceptions */                                                                                        \
    X(aclrtGetLastError, 3)                                                                                            \
    X(aclrtPeekAtLastError, 3)                                                                                         \
    X(aclGetRecentErrMsg, 3)                                                                                           \
    X(aclrtGetErrorVerbose, 3)                                                                                         \
    X(aclrtSetExceptionInfoCallback, 3)                                                                                \
    X(aclrtGetDeviceIdFromExceptionInfo, 3)                                                                            \
    X(aclrtGetStreamIdFromExceptionInfo, 3)                                                                            \
    X(aclrtGetTaskIdFromExceptionInfo, 3)                                                                              \
    X(aclrtGetThreadIdFromExceptionInfo, 3)                                                                            \
    X(aclrtGetErrorCodeFromExceptionInfo, 3)                                                                           \
    X(aclrtGetArgsFromExceptionInfo, 3)                                                                                \
    X(aclrtGetFuncHandleFromExceptionInfo, 3)                                                                          \
    X(aclrtGetThreadLastTaskId, 3)                                                                                     \
    /* device information */                                                                                           \
    X(aclrtGetSocName, 3)                                                                                              \
    X(aclrtGetRunMode, 3)                                                                                              \
    X(aclrtGetDeviceInfo, 3)                                                                                           \
    X(aclrtDeviceGetPCIBusId, 3)                                                                                       \
    X(aclrtDeviceGetByPCIBusId, 3)                                                                                     \
    X(aclrtQueryDeviceStatus, 3)                                                                                       \
    X(aclrtGetDeviceUtilizationRate, 3)                                                                                \
    X(aclrtGetDeviceResLimit, 3)                                                                                       \
    X(aclrtSetDeviceResLimit, 3)                                                                                       \
    X(aclrtResetDeviceResLimit, 3)                                                                                     \
    X(aclrtGetResInCurrentThread, 3)                                                                                   \
    X(aclrtGetLogicDevIdByUserDevId, 3)                                                                                \
    X(aclrtGetUserDevIdByLogicDevId, 3)                                                                                \
    X(aclrtGetLogicDevIdByPhyDevId, 3)                                                                                 \
    X(aclrtGetPhyDevIdByLogicDevId, 3)                                                                                 \
    X(aclrtGetUserDevIdByPhyDevId, 3)                                                                                  \
    X(aclrtGetPhyDevIdByUserDevId, 3)                                                                                  \
    /* kernel loading */                                                                                               \
    X(aclrtBinaryLoadFromFile, 3)                                                                                      \
    X(aclrtBinaryGetFunction, 3)                                                                                       \
    X(aclrtBinaryUnLoad, 3)                                                                                            \
    X(aclrtKernelArgsInit, 3)                                                                                          \
    X(aclrtKernelArgsAppend, 3)                                                                                        \
    X(aclrtKernelArgsFinalize, 3)                                                                                      \
    X(aclrtLaunchKernelWithConfig, 3)                                                                                  \
    /* settings, flags and figures */                                                                                  \
    X(aclAppLog, 3)                                                                                                    \
    X(aclGetCannAttribute, 3)                                                                                          \
    X(aclGetCannAttributeList, 3)                                                                                      \
    X(aclGetDeviceCapability, 3)                                                                                       \
    X(aclmdlRICaptureGetInfo, 3)                                                                                       \
    X(aclmdlRICaptureThreadExchangeMode, 3)                                                                            \
    X(aclrtBinaryGetFunctionByEntry, 3)                                                                                \
    X(aclrtBinaryLoadFromData, 3)                                                                                      \
    X(aclrtCmoAsync, 3)                                                                                                \
    X(aclrtCtxGetSysParamOpt, 3)                                                                                       \
    X(aclrtCtxSetSysParamOpt, 3)                                                                                       \
    X(aclrtDevicePeerAccessStatus, 3)                                                                                  \
    X(aclrtDeviceTaskAbort, 3)                                                                                         \
    X(aclrtGetDeviceCapability, 3)                                                                                     \
    X(aclrtGetDeviceSatMode, 3)                                                                                        \
    X(aclrtGetFunctionName, 3)                                                                                         \
    X(aclrtGetMemUceInfo, 3)                                                                                           \
    X(aclrtGetMemUsageInfo, 3)                                                                                         \
    X(aclrtGetOpExecuteTimeout, 3)                                                                                     \
    X(aclrtGetOpTimeOutInterval, 3)                                                                                    \
    X(aclrtGetPrimaryCtxState, 3)                                                                                      \
    X(aclrtGetStreamAttribute, 3)                                                                                      \
    X(aclrtGetStreamAvailableNum, 3)                                                                                   \
    X(aclrtGetStreamOverflowSwitch, 3)                                                                                 \
    X(aclrtGetSysParamOpt, 3)                                                                                          \
    X(aclrtGetVersion, 3)                                                                                              \
    X(aclrtKernelArgsAppendPlaceHolder, 3)                                                                             \
    X(aclrtKernelArgsGetPlaceHolderBuffer, 3)                                                                          \
    X(aclrtKernelArgsParaUpdate, 3)                                                                                    \
    X(aclrtLaunchKernel, 3)                                                                                            \
    X(aclrtLaunchKernelV2, 3)                                                                                          \
    X(aclrtLaunchKernelWithHostArgs, 3)                                                                                \
    X(aclrtMemFlush, 3)                                                                                                \
    X(aclrtMemGetAccess, 3)                                                                                            \
    X(aclrtMemInvalidate, 3)                                                                                           \
    X(aclrtMemcpyAsyncWithCondition, 3)                                                                                \
    X(aclrtMemcpyBatchAsyncV2, 3)                                                                                      \
    X(aclrtMemcpyBatchV2, 3)                                                                                           \
    X(aclrtMemsetD32Async, 3)                                                                                          \
    X(aclrtRecordEventWithFlag, 3)                                                                                     \
    X(aclrtSetDeviceSatMode, 3)                                                                                        \
    X(aclrtSetOpExecuteTimeOut, 3)                                                                                     \
    X(aclrtSetOpExecuteTimeOutV2, 3)                                                                                   \
    X(aclrtSetOpExecuteTimeOutWithMs, 3)                                                                               \
    X(aclrtSetOpWaitTimeout, 3)                                                                                        \
    X(aclrtSetStreamAttribute, 3)                                                                                      \
    X(aclrtSetStreamOverflowSwitch, 3)                                                                                 \
    X(aclrtSetSysParamOpt, 3)                                                                                          \
    X(aclrtStreamWaitEventWithFlag, 3)                                                                                 \
    X(aclrtStreamWaitEventWithTimeout, 3)                                                                              \
    /* managed memory */                                                                                               \
    X(aclrtMemAllocManaged, 3)

#define ACL_CONSUMER_FUNCTIONS(X)                                                                                      \
    /* values and data buffers */                                                                                      \
    X(aclDataTypeSize, 0)                                                                                              \
    X(aclFloat16ToFloat, 0)                                                                                            \
    X(aclFloatToFloat16, 0)                                                                                            \
    X(aclCreateDataBuffer, 0)                                                                                          \
    X(aclDestroyDataBuffer, 0)                                                                                         \
    X(aclUpdateDataBuffer, 0)                                                                                          \
    X(aclGetDataBufferAddr, 0)                                                                                         \
    X(aclGetDataBufferSizeV2, 0)                                                                                       \
    X(aclGetDataBufferSize, 0)                                                                                         \
    /* tensor descriptions */                                                                                          \
    X(aclCreateTensorDesc, 0)                                                                                          \
    X(aclDestroyTensorDesc, 0)                                                                                         \
    X(aclSetTensorDescName, 0)                                                                                         \
    X(aclGetTensorDescType, 0)                                                                                         \
    X(aclGetTensorDescFormat, 0)                                                                                       \
    X(aclGetTensorDescSize, 0)                                                                                         \
    X(aclGetTensorDescElementCount, 0)                                                                                 \
    X(aclGetTensorDescNumDims, 0)                                                                                      \
    X(aclGetTensorDescDim, 0)                                                                                          \
    X(aclGetTensorDescDimV2, 0)                                                                                        \
    /* operators */                                                                                                    \
    X(aclopCreateAttr, 0)                                                                                              \
    X(aclopDestroyAttr, 0)                                                                                             \
    X(aclopSetAttrBool, 0)                                                                                             \
    X(aclopSetAttrInt, 0)                                                                                              \
    X(aclopSetAttrFloat, 0)                                                                                            \
    X(aclopSetAttrString, 0)                                                                                           \
    X(aclopSetAttrDataType, 0)                                                                                         \
    X(aclopSetAttrListBool, 0)                                                                                         \
    X(aclopSetAttrListInt, 0)                                                                                          \
    X(aclopSetAttrListFloat, 0)                                                                                        \
    X(aclopSetAttrListString, 0)                                                                                       \
    X(aclopExecuteV2, 0)                                                                                               \
    X(aclopCompileAndExecuteV2, 0)                                                                                     \
    /* operators: further functions */                                                                                 \
    X(aclGetCompileopt, 0)                                                                                             \
    X(aclGetCompileoptSize, 0)                                                                                         \
    X(aclSetCompileopt, 0)                                                                                             \
    X(aclSetTensorConst, 0)                                                                                            \
    X(aclSetTensorFormat, 0)                                                                                           \
    X(aclSetTensorPlaceMent, 0)                                                                                        \
    X(aclSetTensorShape, 0)                                                                                            \
    X(aclopCompileAndExecute, 0)                                                                                       \
    X(aclopSetAttrListDataType, 0)                                                                                     \
    X(aclopSetAttrListListInt, 0)                                                                                      \
    X(aclopSetCompileFlag, 0)                                                                                          \
    /* models */                                                                                                       \
    X(aclmdlQuerySize, 0)                                                                                              \
    X(aclmdlLoadFromFile, 0)                                                                                           \
    X(aclmdlLoadFromMem, 0)                                                                                            \
    X(aclmdlUnload, 0)                                                                                                 \
    X(aclmdlExecute, 0)                                                                                                \
    X(aclmdlExecuteAsync, 0)                                                                                           \
    X(aclmdlCreateDesc, 0)                                                                                             \
    X(aclmdlDestroyDesc, 0)                                                                                            \
    X(aclmdlGetDesc, 0)                                                                                                \
    X(aclmdlGetNumInputs, 0)                                                                                           \
    X(aclmdlGetNumOutputs, 0)                                                                                          \
    X(aclmdlGetInputSizeByIndex, 0)                                                                                    \
    X(aclmdlGetOutputSizeByIndex, 0)                                                                                   \
    X(aclmdlGetInputDims, 0)                                                                                           \
    X(aclmdlGetInputDimsV2, 0)                                                                                         \
    X(aclmdlGetOutputDims, 0)                                                                                          \
    X(aclmdlGetInputNameByIndex, 0)                                                                                    \
    X(aclmdlGetOutputNameByIndex, 0)                                                                                   \
    X(aclmdlGetInputIndexByName, 0)                                                                                    \
    X(aclmdlGetInputDataType, 0)                                                                                       \
    X(aclmdlGetOutputDataType, 0)                                                                                      \
    X(aclmdlGetInputFormat, 0)                                                                                         \
    X(aclmdlGetOutputFormat, 0)                                                                                        \
    /* data sets */                                                                                                    \
    X(aclmdlCreateDataset, 0)                                                                                          \
    X(aclmdlDestroyDataset, 0)                                                                                         \
    X(aclmdlAddDatasetBuffer, 0)                                                                                       \
    X(aclmdlGetDatasetNumBuffers, 0)                                                                                   \
    X(aclmdlGetDatasetBuffer, 0)                                                                                       \
    X(aclmdlSetDatasetTensorDesc, 0)                                                                                   \
    X(aclmdlGetDatasetTensorDesc, 0)                                                                                   \
    X(aclprofDestroyStepInfo, 0)                                                                                       \
    X(aclprofDestroyStamp, 0)

#define ACL_NOT_SIMULATED_FUNCTIONS(X)                                                                                 \
    X(aclDestroyGraphDumpOpt, (const aclGraphDumpOption *graphDumpOpt))                                                \
    X(aclFinalizeCallbackRegister, (aclRegisterCallbackType type, aclFinalizeCallbackFunc cbFunc, void *userData))     \
    X(aclFinalizeCallbackUnRegister, (aclRegisterCallbackType type, aclFinalizeCallbackFunc cbFunc))                   \
    X(aclGenGraphAndDumpForOp,                                                                                         \
      (const char *opType, int numInputs, const aclTensorDesc *const inputDesc[], const aclDataBuffer *const inputs[], \
       int numOutputs, const aclTensorDesc *const outputDesc[], aclDataBuffer *const outputs[], const aclopAttr *attr, \
       aclopEngineType engineType, const char *graphDumpPath, const aclGraphDumpOption *graphDumpOpt))                 \
    X(aclInitCallbackRegister, (aclRegisterCallbackType type, aclInitCallbackFunc cbFunc, void *userData))             \
    X(aclInitCallbackUnRegister, (aclRegisterCallbackType type, aclInitCallbackFunc cbFunc))                           \
    X(aclSetTensorShapeRange,                                                                                          \
      (aclTensorDesc * desc, size_t dimsCount, int64_t dimsRange[][ACL_TENSOR_SHAPE_RANGE_NUM]))                       \
    X(aclmdlBundleGetModelId, (uint32_t bundleId, size_t index, uint32_t * modelId))                                   \
    X(aclmdlBundleLoadFromMem, (const void *model, size_t modelSize, uint32_t *bundleId))                              \
    X(aclmdlBundleUnload, (uint32_t bundleId))                                                                         \
    X(aclmdlFinalizeDump, (void))                                                                                      \
    X(aclmdlGetCurOutputDims, (const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims))                         \
    X(aclmdlGetDynamicBatch, (const aclmdlDesc *modelDesc, aclmdlBatch *batch))                                        \
    X(aclmdlGetDynamicHW, (const aclmdlDesc *modelDesc, size_t index, aclmdlHW *hw))                                   \
    X(aclmdlGetInputDynamicDims, (const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims, size_t gearCount))    \
    X(aclmdlGetInputDynamicGearCount, (const aclmdlDesc *modelDesc, size_t index, size_t *gearCount))                  \
    X(aclmdlInitDump, (void))                                                                                          \
    X(aclmdlLoadFromMemWithMem, (const void *model, size_t modelSize, uint32_t *modelId, void *workPtr,                \
                                 size_t workSize, void *weightPtr, size_t weightSize))                                 \
    X(aclmdlQuerySizeFromMem, (const void *model, size_t modelSize, size_t *workSize, size_t *weightSize))             \
    X(aclmdlRIBindStream, (aclmdlRI modelRI, aclrtStream stream, uint32_t flag))                                       \
    X(aclmdlRIBuildBegin, (aclmdlRI * modelRI, uint32_t flag))                                                         \
    X(aclmdlRIBuildEnd, (aclmdlRI modelRI, void *reserve))                                                             \
    X(aclmdlRIEndTask, (aclmdlRI modelRI, aclrtStream stream))                                                         \
    X(aclmdlRIExecute, (aclmdlRI modelRI, int32_t timeout))                                                            \
    X(aclmdlRIUnbindStream, (aclmdlRI modelRI, aclrtStream stream))                                                    \
    X(aclmdlSetDump, (const char *dumpCfgPath))                                                                        \
    X(aclmdlSetDynamicHWSize,                                                                                          \
      (uint32_t modelId, aclmdlDataset * dataset, size_t index, uint64_t height, uint64_t width))                      \
    X(aclmdlSetInputDynamicDims, (uint32_t modelId, aclmdlDataset * dataset, size_t index, const aclmdlIODims *dims))  \
    X(aclopSetModelDir, (const char *modelDir))                                                                        \
    X(aclmdlSetDynamicBatchSize, (uint32_t modelId, aclmdlDataset * dataset, size_t index, uint64_t batchSize))        \
    X(aclopCompile, (const char *opType, int numInputs, const aclTensorDesc *const inputDesc[], int numOutputs,        \
                     const aclTensorDesc *const outputDesc[], const aclopAttr *attr, aclopEngineType engineType,       \
                     aclopCompileType compileFlag, const char *opPath))                                                \
    X(aclopStartDumpArgs, (uint32_t dumpType, const char *path))                                                       \
    X(aclopStopDumpArgs, (uint32_t dumpType))                                                                          \
    X(aclrtActiveStream, (aclrtStream activeStream, aclrtStream stream))                                               \
    X(aclrtBinaryLoad, (const aclrtBinary binary, aclrtBinHandle *binHandle))                                          \
    X(aclrtCheckArchCompatibility, (const char *socVersion, int32_t *canCompatible))                                   \
    X(aclrtCheckMemType, (void **addrList, uint32_t size, uint32_t memType, uint32_t *checkResult, uint32_t reserve))  \
    X(aclrtCmoAsyncWithBarrier,                                                                                        \
      (void *src, size_t size, aclrtCmoType cmoType, uint32_t barrierId, aclrtStream stream))                          \
    X(aclrtCmoAsyncWithDesc, (void *cmoDesc, aclrtCmoType cmoType, aclrtStream stream, const void *reserve))           \
    X(aclrtCmoGetDescSize, (size_t * size))                                                                            \
    X(aclrtCmoSetDesc, (void *cmoDesc, void *src, size_t size))                                                        \
    X(aclrtCmoWaitBarrier, (aclrtBarrierTaskInfo * taskInfo, aclrtStream stream, uint32_t flag))                       \
    X(aclrtCreateLabel, (aclrtLabel * label))                                                                          \
    X(aclrtCreateLabelList, (aclrtLabel * labels, size_t num, aclrtLabelList * labelList))                             \
    X(aclrtDestroyBinary, (aclrtBinary binary))                                                                        \
    X(aclrtDestroyLabel, (aclrtLabel label))                                                                           \
    X(aclrtDestroyLabelList, (aclrtLabelList labelList))                                                               \
    X(aclrtDeviceGetLimit, (aclrtDeviceLimit limit, size_t * value))                                                   \
    X(aclrtDeviceGetUuid, (int32_t deviceId, aclrtUuid * uuid))                                                        \
    X(aclrtDeviceSetLimit, (aclrtDeviceLimit limit, size_t value))                                                     \
    X(aclrtExceptionInfoCallbackRegister, (aclrtExceptionInfoCallback callback))                                       \
    X(aclrtExceptionInfoCallbackUnregister, (aclrtExceptionInfoCallback callback))                                     \
    X(aclrtGetDevicesTopo, (uint32_t deviceId, uint32_t otherDeviceId, uint64_t * value))                              \
    X(aclrtGetEventAvailNum, (uint32_t * eventCount))                                                                  \
    X(aclrtGetEventId, (aclrtEvent event, uint32_t * eventId))                                                         \
    X(aclrtGetFunctionAttribute, (aclrtFuncHandle funcHandle, aclrtFuncAttribute attrType, int64_t * attrValue))       \
    X(aclrtGetGroupCount, (uint32_t * count))                                                                          \
    X(aclrtGetMemcpyDescSize, (aclrtMemcpyKind kind, size_t * descSize))                                               \
    X(aclrtGetNotifyId, (aclrtNotify notify, uint32_t * notifyId))                                                     \
    X(aclrtGetOverflowStatus, (void *outputAddr, size_t outputSize, aclrtStream stream))                               \
    X(aclrtGetStreamResLimit, (aclrtStream stream, aclrtDevResLimitType type, uint32_t * value))                       \
    X(aclrtGetSymbolAddress, (const void *symbol, void **devPtr))                                                      \
    X(aclrtGetSymbolSize, (const void *symbol, size_t *size))                                                          \
    X(aclrtHostMemMapCapabilities,                                                                                     \
      (uint32_t deviceId, aclrtHacType hacType, aclrtHostMemMapCapability * capabilities))                             \
    X(aclrtIpcGetEventHandle, (aclrtEvent event, aclrtIpcEventHandle * handle))                                        \
    X(aclrtIpcMemImportPidInterServer, (const char *key, aclrtServerPid *serverPids, size_t num))                      \
    X(aclrtIpcMemSetAttr, (const char *key, aclrtIpcMemAttrType type, uint64_t attr))                                  \
    X(aclrtIpcOpenEventHandle, (aclrtIpcEventHandle handle, aclrtEvent * event))                                       \
    X(aclrtKernelArgsGetHandleMemSize, (aclrtFuncHandle funcHandle, size_t * memSize))                                 \
    X(aclrtKernelArgsGetMemSize, (aclrtFuncHandle funcHandle, size_t userArgsSize, size_t * actualArgsSize))           \
    X(aclrtKernelArgsInitByUserMem,                                                                                    \
      (aclrtFuncHandle funcHandle, aclrtArgsHandle argsHandle, void *userHostMem, size_t actualArgsSize))              \
    X(aclrtMallocForTaskScheduler, (void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg))  \
    X(aclrtMemGetAllocationPropertiesFromHandle, (aclrtDrvMemHandle handle, aclrtPhysicalMemProp * prop))              \
    X(aclrtMemManagedAdvise,                                                                                           \
      (const void *const ptr, uint64_t size, aclrtMemManagedAdviseType advise, aclrtMemManagedLocation location))      \
    X(aclrtMemManagedGetAttr,                                                                                          \
      (aclrtMemManagedRangeAttribute attribute, const void *ptr, size_t size, void *data, size_t dataSize))            \
    X(aclrtMemManagedGetAttrs, (aclrtMemManagedRangeAttribute * attributes, size_t numAttributes, const void *ptr,     \
                                size_t size, void **data, size_t *dataSizes))                                          \
    X(aclrtMemManagedPrefetchAsync,                                                                                    \
      (const void *ptr, size_t size, aclrtMemManagedLocation location, uint32_t flags, aclrtStream stream))            \
    X(aclrtMemManagedPrefetchBatchAsync,                                                                               \
      (const void **ptrs, size_t *sizes, size_t count, aclrtMemManagedLocation *prefetchLocs, size_t *prefetchLocIdxs, \
       size_t numPrefetchLocs, uint64_t flags, aclrtStream stream))                                                    \
    X(aclrtMemMapNoAccess, (void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags))       \
    X(aclrtMemMapSelectedLink, (void *virPtrDst, size_t size, void *virPtrSrc, uint32_t linkIdx))                      \
    X(aclrtMemMapSetLink, (aclrtDrvMemHandle handle, aclrtMemLinkType adviceLink))                                     \
    X(aclrtMemP2PMap, (void *devPtr, size_t size, int32_t dstDevId, uint64_t flags))                                   \
    X(aclrtMemSetPidToShareableHandleV2,                                                                               \
      (void *shareableHandle, aclrtMemSharedHandleType shareType, int32_t *pid, size_t pidNum))                        \
    X(aclrtMemUceRepair, (int32_t deviceId, aclrtMemUceInfo * memUceInfoArray, size_t arraySize))                      \
    X(aclrtMemcpyAsyncWithDesc, (void *desc, aclrtMemcpyKind kind, aclrtStream stream))                                \
    X(aclrtMemcpyAsyncWithOffset, (void **dst, size_t destMax, size_t dstDataOffset, const void **src, size_t count,   \
                                   size_t srcDataOffset, aclrtMemcpyKind kind, aclrtStream stream))                    \
    X(aclrtMemcpyFromSymbol,                                                                                           \
      (void *dst, size_t dstMax, const void *symbol, size_t count, size_t offset, aclrtMemcpyKind kind))               \
    X(aclrtMemcpyFromSymbolAsync, (void *dst, size_t dstMax, const void *symbol, size_t count, size_t offset,          \
                                   aclrtMemcpyKind kind, aclrtStream stream))                                          \
    X(aclrtMemcpyToSymbol, (const void *symbol, const void *src, size_t count, size_t offset, aclrtMemcpyKind kind))   \
    X(aclrtMemcpyToSymbolAsync,                                                                                        \
      (const void *symbol, const void *src, size_t count, size_t offset, aclrtMemcpyKind kind, aclrtStream stream))    \
    X(aclrtNotifyGetExportKey, (aclrtNotify notify, char *key, size_t len, uint64_t flags))                            \
    X(aclrtNotifyImportByKey, (aclrtNotify * notify, const char *key, uint64_t flags))                                 \
    X(aclrtNotifySetImportPid, (aclrtNotify notify, int32_t * pid, size_t num))                                        \
    X(aclrtPersistentTaskClean, (aclrtStream stream))                                                                  \
    X(aclrtRandomNumAsync, (const aclrtRandomNumTaskInfo *taskInfo, const aclrtStream stream, void *reserve))          \
    X(aclrtRegisterCpuFunc,                                                                                            \
      (const aclrtBinHandle handle, const char *funcName, const char *kernelName, aclrtFuncHandle *funcHandle))        \
    X(aclrtRepairError, (int32_t deviceId, const aclrtErrorInfo *errorInfo))                                           \
    X(aclrtReserveMemAddressNoUCMemory,                                                                                \
      (void **virPtr, size_t size, size_t alignment, void *expectPtr, uint64_t flags))                                 \
    X(aclrtResetOverflowStatus, (aclrtStream stream))                                                                  \
    X(aclrtResetStreamResLimit, (aclrtStream stream))                                                                  \
    X(aclrtSetDeviceTaskAbortCallback, (const char *regName, aclrtDeviceTaskAbortCallback callback, void *args))       \
    X(aclrtSetGroup, (int32_t groupId))                                                                                \
    X(aclrtSetLabel, (aclrtLabel label, aclrtStream stream))                                                           \
    X(aclrtSetMemcpyDesc,                                                                                              \
      (void *desc, aclrtMemcpyKind kind, void *srcAddr, void *dstAddr, size_t count, void *config))                    \
    X(aclrtSetStreamResLimit, (aclrtStream stream, aclrtDevResLimitType type, uint32_t value))                         \
    X(aclrtSwitchLabelByIndex, (void *ptr, uint32_t maxValue, aclrtLabelList labelList, aclrtStream stream))           \
    X(aclrtSwitchStream, (void *leftValue, aclrtCondition cond, void *rightValue, aclrtCompareDataType dataType,       \
                          aclrtStream trueStream, aclrtStream falseStream, aclrtStream stream))                        \
    X(aclrtUnuseStreamResInCurrentThread, (aclrtStream stream))                                                        \
    X(aclrtUseStreamResInCurrentThread, (aclrtStream stream))                                                          \
    X(aclsysGetCANNVersion, (aclCANNPackageName name, aclCANNPackageVersion * version))                                \
    X(aclsysGetVersionNum, (char *pkgName, int32_t *versionNum))                                                       \
    X(aclsysGetVersionStr, (char *pkgName, char *versionStr))                                                          \
    X(acltdtAddDataItem, (acltdtDataset * dataset, acltdtDataItem * dataItem))                                         \
    X(acltdtAddQueueRoute, (acltdtQueueRouteList * routeList, const acltdtQueueRoute *route))                          \
    X(acltdtBindQueueRoutes, (acltdtQueueRouteList * qRouteList))                                                      \
    X(acltdtCleanChannel, (acltdtChannelHandle * handle))                                                              \
    X(acltdtCreateQueue, (const acltdtQueueAttr *attr, uint32_t *qid))                                                 \
    X(acltdtDestroyChannel, (acltdtChannelHandle * handle))                                                            \
    X(acltdtDestroyDataItem, (acltdtDataItem * dataItem))                                                              \
    X(acltdtDestroyDataset, (acltdtDataset * dataset))                                                                 \
    X(acltdtDestroyQueue, (uint32_t qid))                                                                              \
    X(acltdtDestroyQueueAttr, (const acltdtQueueAttr *attr))                                                           \
    X(acltdtDestroyQueueRoute, (const acltdtQueueRoute *route))                                                        \
    X(acltdtDestroyQueueRouteList, (const acltdtQueueRouteList *routeList))                                            \
    X(acltdtDestroyQueueRouteQueryInfo, (const acltdtQueueRouteQueryInfo *info))                                       \
    X(acltdtGetDimsFromItem, (const acltdtDataItem *dataItem, int64_t *dims, size_t dimNum))                           \
    X(acltdtGetQueueAttr,                                                                                              \
      (const acltdtQueueAttr *attr, acltdtQueueAttrType type, size_t len, size_t *paramRetSize, void *param))          \
    X(acltdtGetQueueRoute, (const acltdtQueueRouteList *routeList, size_t index, acltdtQueueRoute *route))             \
    X(acltdtGetQueueRouteParam,                                                                                        \
      (const acltdtQueueRoute *route, acltdtQueueRouteParamType type, size_t len, size_t *paramRetSize, void *param))  \
    X(acltdtGetSliceInfoFromItem, (const acltdtDataItem *dataItem, size_t *sliceNum, size_t *sliceId))                 \
    X(acltdtQueryChannelSize, (const acltdtChannelHandle *handle, size_t *size))                                       \
    X(acltdtQueryQueueRoutes, (const acltdtQueueRouteQueryInfo *queryInfo, acltdtQueueRouteList *qRouteList))          \
    X(acltdtReceiveTensor, (const acltdtChannelHandle *handle, acltdtDataset *dataset, int32_t timeout))               \
    X(acltdtSendTensor, (const acltdtChannelHandle *handle, const acltdtDataset *dataset, int32_t timeout))            \
    X(acltdtSetQueueAttr, (acltdtQueueAttr * attr, acltdtQueueAttrType type, size_t len, const void *param))           \
    X(acltdtSetQueueRouteQueryInfo,                                                                                    \
      (acltdtQueueRouteQueryInfo * param, acltdtQueueRouteQueryInfoParamType type, size_t len, const void *value))     \
    X(acltdtStopChannel, (acltdtChannelHandle * handle))                                                               \
    X(acltdtUnbindQueueRoutes, (acltdtQueueRouteList * qRouteList))                                                    \
    X(aclprofInit, (const char *profilerResultPath, size_t length))                                                    \
    X(aclprofFinalize, (void))                                                                                         \
    X(aclprofStart, (const aclprofConfig *profilerConfig))                                                             \
    X(aclprofStop, (const aclprofConfig *profilerConfig))                                                              \
    X(aclprofDestroyConfig, (const aclprofConfig *profilerConfig))                                                     \
    X(aclprofSetConfig, (aclprofConfigType configType, const char *config, size_t configLength))                       \
    X(aclprofMarkEx, (const char *msg, size_t msgLen, aclrtStream stream))                                             \
    X(aclprofGetStepTimestamp, (aclprofStepInfo * stepInfo, aclprofStepTag tag, aclrtStream stream))                   \
    X(aclprofSetStampTraceMessage, (void *stamp, const char *msg, uint32_t msgLen))                                    \
    X(aclprofMark, (void *stamp))                                                                                      \
    X(aclprofPush, (void *stamp))                                                                                      \
    X(aclprofPop, (void))                                                                                              \
    X(aclprofRangeStart, (void *stamp, uint32_t *rangeId))                                                             \
    X(aclprofRangeStop, (uint32_t rangeId))

#define ACL_NOT_SIMULATED_VALUES(X)                                                                                    \
    X(aclCreateGraphDumpOpt, (aclGraphDumpOption *, (void)))                                                           \
    X(aclrtCreateBinary, (aclrtBinary, (const void *data, size_t dataLen)))                                            \
    X(acltdtCreateChannel, (acltdtChannelHandle *, (uint32_t deviceId, const char *name)))                             \
    X(acltdtCreateChannelWithCapacity,                                                                                 \
      (acltdtChannelHandle *, (uint32_t deviceId, const char *name, size_t capacity)))                                 \
    X(acltdtCreateDataItem, (acltdtDataItem *, (acltdtTensorType tdtType, const int64_t *dims, size_t dimNum,          \
                                                aclDataType dataType, void *data, size_t size)))                       \
    X(acltdtCreateDataset, (acltdtDataset *, (void)))                                                                  \
    X(acltdtCreateQueueAttr, (acltdtQueueAttr *, (void)))                                                              \
    X(acltdtCreateQueueRoute, (acltdtQueueRoute *, (uint32_t srcId, uint32_t dstId)))                                  \
    X(acltdtCreateQueueRouteList, (acltdtQueueRouteList *, (void)))                                                    \
    X(acltdtCreateQueueRouteQueryInfo, (acltdtQueueRouteQueryInfo *, (void)))                                          \
    X(acltdtGetDataAddrFromItem, (void *, (const acltdtDataItem *dataItem)))                                           \
    X(acltdtGetDataItem, (acltdtDataItem *, (const acltdtDataset *dataset, size_t index)))                             \
    X(acltdtGetDataSizeFromItem, (size_t, (const acltdtDataItem *dataItem)))                                           \
    X(acltdtGetDataTypeFromItem, (aclDataType, (const acltdtDataItem *dataItem)))                                      \
    X(acltdtGetDatasetName, (const char *, (const acltdtDataset *dataset)))                                            \
    X(acltdtGetDatasetSize, (size_t, (const acltdtDataset *dataset)))                                                  \
    X(acltdtGetDimNumFromItem, (size_t, (const acltdtDataItem *dataItem)))                                             \
    X(acltdtGetQueueRouteNum, (size_t, (const acltdtQueueRouteList *routeList)))                                       \
    X(acltdtGetTensorTypeFromItem, (acltdtTensorType, (const acltdtDataItem *dataItem)))                               \
    X(aclprofCreateConfig,                                                                                             \
      (aclprofConfig *, (uint32_t * deviceIdList, uint32_t deviceNums, aclprofAicoreMetrics aicoreMetrics,             \
                         const aclprofAicoreEvents *aicoreEvents, uint64_t dataTypeConfig)))                           \
    X(aclprofCreateStepInfo, (aclprofStepInfo *, (void)))                                                              \
    X(aclprofCreateStamp, (void *, (void)))

#define ACL_FUNCTION_LIST(X)                                                                                           \
    ACL_RUNTIME_FUNCTIONS(X) ACL_CONSUMER_FUNCTIONS(X) ACL_NOT_SIMULATED_FUNCTIONS(X) ACL_NOT_SIMULATED_VALUES(X)

#endif
