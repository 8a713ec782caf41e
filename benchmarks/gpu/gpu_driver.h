/* gpu_driver.h: the functions of the CUDA driver that programs call, by weir's own declarations (CUDA Driver API
 * reference, release 12.4). The double of the tests defines them by the same list. */
#ifndef WEIR_BENCHMARKS_GPU_DRIVER_H
#define WEIR_BENCHMARKS_GPU_DRIVER_H

#include "shared/driver.h"

typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUmemPool_st *CUmemPool;

enum { /* CUmemPool_attribute */
       CU_POOL_RELEASE_THRESHOLD = 4,
       CU_POOL_RESERVED_HIGH = 6,
};

/* X(NAME, SUFFIX of the exported name, PARAMETERS): driver functions that the programs call, except those that weir
 * calls too. */
#define GPU_DRIVER_LIST(X)                                                                                             \
    X(cuCtxSynchronize, "", (void))                                                                                    \
    X(cuMemcpyDtoDAsync, "_v2", (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream))                      \
    X(cuModuleLoadData, "", (CUmodule * module, const void *image))                                                    \
    X(cuModuleUnload, "", (CUmodule module))                                                                           \
    X(cuModuleGetFunction, "", (CUfunction * function, CUmodule module, const char *name))                             \
    X(cuLaunchKernel, "",                                                                                              \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,     \
       unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters, void **extra))                     \
    X(cuLaunchHostFunc, "", (CUstream stream, void (*function)(void *ctx), void *ctx))                                 \
    X(cuMemAllocAsync, "", (CUdeviceptr * address, size_t size, CUstream stream))                                      \
    X(cuMemFreeAsync, "", (CUdeviceptr address, CUstream stream))                                                      \
    X(cuDeviceGetDefaultMemPool, "", (CUmemPool * pool, CUdevice device))                                              \
    X(cuMemPoolSetAttribute, "", (CUmemPool pool, int attribute, void *value))                                         \
    X(cuMemPoolGetAttribute, "", (CUmemPool pool, int attribute, void *value))                                         \
    X(cuMemPoolTrimTo, "", (CUmemPool pool, size_t keep_bytes))

struct gpu_driver {
#define GPU_POINTER(name, suffix, parameters) CUresult(*name) parameters;
    WEIR_CUDA_DRIVER_LIST(GPU_POINTER)
    GPU_DRIVER_LIST(GPU_POINTER)
#undef GPU_POINTER
};

#endif
