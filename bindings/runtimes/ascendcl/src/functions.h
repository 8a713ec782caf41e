/* functions.h: every public ACL function that libascendcl.so exports, once.
 *
 * X(name, priority). Priorities 1 to 3 are those of the functions that a client of custom allocators needs (1 first).
 * Priority 0 marks the consumers of a registered allocator, operators and models, and the functions needed to call
 * them. The order is that of the headers' areas. The call counters, the names in fault rules and the export map are
 * made from this list; tests/tidy compares it with the headers and with the built library.
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
    X(aclmdlRIExecuteAsync, 3)                                                                                         \
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
    X(aclmdlGetOutputDims, 0)                                                                                          \
    X(aclmdlGetInputNameByIndex, 0)                                                                                    \
    X(aclmdlGetOutputNameByIndex, 0)                                                                                   \
    X(aclmdlGetInputIndexByName, 0)                                                                                    \
    X(aclmdlGetInputDataType, 0)                                                                                       \
    X(aclmdlGetOutputDataType, 0)                                                                                      \
    /* data sets */                                                                                                    \
    X(aclmdlCreateDataset, 0)                                                                                          \
    X(aclmdlDestroyDataset, 0)                                                                                         \
    X(aclmdlAddDatasetBuffer, 0)                                                                                       \
    X(aclmdlGetDatasetNumBuffers, 0)                                                                                   \
    X(aclmdlGetDatasetBuffer, 0)                                                                                       \
    X(aclmdlSetDatasetTensorDesc, 0)                                                                                   \
    X(aclmdlGetDatasetTensorDesc, 0)

#define ACL_FUNCTION_LIST(X) ACL_RUNTIME_FUNCTIONS(X) ACL_CONSUMER_FUNCTIONS(X)

#endif
