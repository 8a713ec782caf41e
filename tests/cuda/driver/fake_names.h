/* tests/cuda/driver/fake_names.h: the driver's functions by their exported names, to define or to call.
 *
 * The suffix of a list is a string, which the preprocessor cannot paste: names that carry one are declared here.
 */
#ifndef FAKE_NAMES_H
#define FAKE_NAMES_H

#include "fake_cuda.h"

#define cuDeviceTotalMem cuDeviceTotalMem_v2
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuCtxCreate cuCtxCreate_v2
#define cuCtxDestroy cuCtxDestroy_v2
#define cuCtxPushCurrent cuCtxPushCurrent_v2
#define cuCtxPopCurrent cuCtxPopCurrent_v2
#define cuMemAlloc cuMemAlloc_v2
#define cuMemFree cuMemFree_v2
#define cuMemGetInfo cuMemGetInfo_v2
#define cuMemHostRegister cuMemHostRegister_v2
#define cuMemcpyDtoHAsync cuMemcpyDtoHAsync_v2
#define cuMemcpyHtoDAsync cuMemcpyHtoDAsync_v2
#define cuMemcpyDtoDAsync cuMemcpyDtoDAsync_v2
#define cuStreamDestroy cuStreamDestroy_v2
#define cuStreamBeginCapture cuStreamBeginCapture_v2
#define cuStreamGetCaptureInfo cuStreamGetCaptureInfo_v2
#define cuEventDestroy cuEventDestroy_v2

#define FAKE_CUDA_PROTOTYPE(name, suffix, parameters) CUresult name parameters;
WEIR_CUDA_DRIVER_LIST(FAKE_CUDA_PROTOTYPE)
GPU_DRIVER_LIST(FAKE_CUDA_PROTOTYPE)
FAKE_CUDA_MORE_LIST(FAKE_CUDA_PROTOTYPE)
#undef FAKE_CUDA_PROTOTYPE

#endif
