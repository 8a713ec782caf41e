/* bindings/cuda/device/shared/driver.h: the functions of the CUDA driver that weir calls, by weir's own declarations.
 *
 * Names, parameters and numbers are those of the CUDA Driver API reference, release 12.4. If a release changed a
 * function, the library exports the changed function with the suffix _v2. One list makes the table of pointers
 * (driver.c) and, in the tests, the prototypes of the double that stands for the driver.
 */
#ifndef WEIR_CUDA_DRIVER_H
#define WEIR_CUDA_DRIVER_H

#include <stddef.h>

typedef int CUresult;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUuserobject_st *CUuserobject;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemHandle; /* CUmemGenericAllocationHandle */

enum {
    CU_SUCCESS = 0,
    CU_ERROR_INVALID_VALUE = 1,
    CU_ERROR_OUT_OF_MEMORY = 2,
    CU_ERROR_NOT_INITIALIZED = 3,
    CU_ERROR_DEINITIALIZED = 4,
    CU_ERROR_NO_DEVICE = 100,
    CU_ERROR_INVALID_DEVICE = 101,
    CU_ERROR_INVALID_CONTEXT = 201,
    CU_ERROR_INVALID_HANDLE = 400,
    CU_ERROR_NOT_READY = 600,
    CU_ERROR_ILLEGAL_ADDRESS = 700,
    CU_ERROR_NOT_PERMITTED = 800,
    CU_ERROR_NOT_SUPPORTED = 801,
    CU_ERROR_CAPTURE_UNSUPPORTED = 900,
    CU_ERROR_CAPTURE_INVALIDATED = 901,
    CU_ERROR_CAPTURE_ISOLATION = 905,
    CU_ERROR_CAPTURE_IMPLICIT = 906,
    CU_ERROR_CAPTURED_EVENT = 907,
};

enum {
    CU_ATTRIBUTE_VIRTUAL_MEMORY = 102,
    CU_ATTRIBUTE_FILE_HANDLES = 103,
    CU_ATTRIBUTE_RDMA_WITH_VIRTUAL_MEMORY = 110,
    CU_ATTRIBUTE_FABRIC_HANDLES = 128,
    CU_ATTRIBUTE_HOST_NUMA_ID = 134,
};

enum {
    CU_EVENT_DISABLE_TIMING = 2,
    CU_HOST_PORTABLE = 1, /* both CU_HOST flags have these values for cuMemHostAlloc and for cuMemHostRegister */
    CU_HOST_DEVICEMAP = 2,
    CU_CAPTURE_NONE = 0,
    CU_CAPTURE_ACTIVE = 1,
    CU_CAPTURE_BROKEN = 2,
    CU_USER_OBJECT_NO_DESTRUCTOR_SYNC = 1,
    CU_USER_OBJECT_MOVE = 1, /* cuGraphRetainUserObject: the graph takes over the caller's references */
    CU_CAPTURE_MODE_GLOBAL = 0,
    CU_CAPTURE_MODE_THREAD = 1,
    CU_CAPTURE_MODE_RELAXED = 2,
    CU_HANDLE_NONE = 0,
    CU_HANDLE_FILE = 1,
    CU_HANDLE_FABRIC = 8,
    CU_MEMORY_PINNED = 1,
    CU_LOCATION_DEVICE = 1,
    CU_ACCESS_READ_WRITE = 3,
    CU_GRANULARITY_MINIMUM = 0,
};

#define CU_STREAM_PER_THREAD ((CUstream)2)

typedef struct CUlocation {
    int type;
    int id;
} CUlocation;

/* CUmemAllocationProp */
typedef struct CUmemProp {
    int type;
    int handle_types;
    CUlocation location;
    void *windows;
    struct {
        unsigned char compression;
        unsigned char rdma_capable;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
} CUmemProp;

/* CUmemAccessDesc */
typedef struct CUmemAccess {
    CUlocation location;
    int flags;
} CUmemAccess;

/* The driver functions that weir calls: X(name, suffix of the exported symbol, parameters). */
#define WEIR_CUDA_DRIVER_LIST(X)                                                                                       \
    X(cuInit, "", (unsigned flags))                                                                                    \
    X(cuDriverGetVersion, "", (int *version))                                                                          \
    X(cuGetErrorName, "", (CUresult code, const char **name))                                                          \
    X(cuGetErrorString, "", (CUresult code, const char **text))                                                        \
    X(cuDeviceGet, "", (CUdevice * device, int ordinal))                                                               \
    X(cuDeviceGetCount, "", (int *count))                                                                              \
    X(cuDeviceGetName, "", (char *name, int size, CUdevice device))                                                    \
    X(cuDeviceGetPCIBusId, "", (char *id, int size, CUdevice device))                                                  \
    X(cuDeviceTotalMem, "_v2", (size_t * bytes, CUdevice device))                                                      \
    X(cuMemGetInfo, "_v2", (size_t * free_bytes, size_t * total_bytes))                                                \
    X(cuDeviceGetAttribute, "", (int *value, int attribute, CUdevice device))                                          \
    X(cuDeviceCanAccessPeer, "", (int *can, CUdevice device, CUdevice peer))                                           \
    X(cuDevicePrimaryCtxRetain, "", (CUcontext * context, CUdevice device))                                            \
    X(cuDevicePrimaryCtxRelease, "_v2", (CUdevice device))                                                             \
    X(cuCtxGetCurrent, "", (CUcontext * context))                                                                      \
    X(cuCtxGetDevice, "", (CUdevice * device))                                                                         \
    X(cuCtxPushCurrent, "_v2", (CUcontext context))                                                                    \
    X(cuCtxPopCurrent, "_v2", (CUcontext * context))                                                                   \
    X(cuThreadExchangeStreamCaptureMode, "", (int *mode))                                                              \
    X(cuMemAlloc, "_v2", (CUdeviceptr * address, size_t size))                                                         \
    X(cuMemFree, "_v2", (CUdeviceptr address))                                                                         \
    X(cuMemGetAllocationGranularity, "", (size_t * bytes, const CUmemProp *prop, int option))                          \
    X(cuMemAddressReserve, "",                                                                                         \
      (CUdeviceptr * address, size_t size, size_t alignment, CUdeviceptr wish, unsigned long long flags))              \
    X(cuMemAddressFree, "", (CUdeviceptr address, size_t size))                                                        \
    X(cuMemCreate, "", (CUmemHandle * handle, size_t size, const CUmemProp *prop, unsigned long long flags))           \
    X(cuMemRelease, "", (CUmemHandle handle))                                                                          \
    X(cuMemMap, "", (CUdeviceptr address, size_t size, size_t offset, CUmemHandle handle, unsigned long long flags))   \
    X(cuMemUnmap, "", (CUdeviceptr address, size_t size))                                                              \
    X(cuMemSetAccess, "", (CUdeviceptr address, size_t size, const CUmemAccess *access, size_t count))                 \
    X(cuMemHostAlloc, "", (void **memory, size_t size, unsigned flags))                                                \
    X(cuMemFreeHost, "", (void *memory))                                                                               \
    X(cuMemHostRegister, "_v2", (void *memory, size_t size, unsigned flags))                                           \
    X(cuMemHostUnregister, "", (void *memory))                                                                         \
    X(cuMemsetD8Async, "", (CUdeviceptr address, unsigned char value, size_t size, CUstream stream))                   \
    X(cuMemcpyDtoHAsync, "_v2", (void *to, CUdeviceptr from, size_t size, CUstream stream))                            \
    X(cuMemcpyHtoDAsync, "_v2", (CUdeviceptr to, const void *from, size_t size, CUstream stream))                      \
    X(cuStreamCreate, "", (CUstream * stream, unsigned flags))                                                         \
    X(cuStreamGetCtx, "", (CUstream stream, CUcontext * context))                                                      \
    X(cuStreamGetCaptureInfo, "_v2",                                                                                   \
      (CUstream stream, int *status, unsigned long long *id, void **graph, const void **nodes, size_t *count))         \
    X(cuUserObjectCreate, "",                                                                                          \
      (CUuserobject * object, void *data, void (*ended)(void *data), unsigned references, unsigned flags))             \
    X(cuGraphRetainUserObject, "", (void *graph, CUuserobject object, unsigned references, unsigned flags))            \
    X(cuStreamSynchronize, "", (CUstream stream))                                                                      \
    X(cuStreamWaitEvent, "", (CUstream stream, CUevent event, unsigned flags))                                         \
    X(cuStreamDestroy, "_v2", (CUstream stream))                                                                       \
    X(cuEventCreate, "", (CUevent * event, unsigned flags))                                                            \
    X(cuEventDestroy, "_v2", (CUevent event))                                                                          \
    X(cuEventRecord, "", (CUevent event, CUstream stream))                                                             \
    X(cuEventQuery, "", (CUevent event))                                                                               \
    X(cuEventSynchronize, "", (CUevent event))

#endif
