/* cuda_device_maker.h: the CUDA device over the double of the driver for device_contract.h. */
#ifndef CUDA_DEVICE_MAKER_H
#define CUDA_DEVICE_MAKER_H

#include "pool/contract/device_contract.h"

#include <fake_names.h>
#include <weir/cuda.h>

static inline weir_status make_cuda(uint64_t capacity_bytes, weir_device **device)
{
    fake_cuda_start(capacity_bytes, 0);
    return weir_cuda_device_create(NULL, device);
}

/* The auditor has the last word. */
static inline weir_status end_cuda(weir_device *device)
{
    const weir_status status = weir_device_destroy(device);
    return status != WEIR_OK || fake_cuda_findings(true) != 0 ? WEIR_ERR_INTERNAL : WEIR_OK;
}

/* --- work --- */

#define CUDA_UNIT_NS (UINT64_C(3600) * 1000 * 1000 * 1000) /* an hour of virtual time */

/* Runs a call in the device's context, as a program that made the context current would. */
#define IN_CONTEXT_OF(device, call)                                                                                    \
    __extension__({                                                                                                    \
        weir_cuda_device_info info = WEIR_CUDA_DEVICE_INFO_INIT;                                                       \
        CUcontext context = NULL;                                                                                      \
        CUresult code = weir_cuda_device_get_info(device, &info) == WEIR_OK ? CU_SUCCESS : 1;                          \
        code = code == CU_SUCCESS ? cuCtxPushCurrent(info.context) : code;                                             \
        if (code == CU_SUCCESS) {                                                                                      \
            code = (call);                                                                                             \
            (void)cuCtxPopCurrent(&context);                                                                           \
        }                                                                                                              \
        code == CU_SUCCESS ? WEIR_OK : WEIR_ERR_DEVICE;                                                                \
    })

static inline weir_status make_cuda_stream(weir_device *device, void **native_stream)
{
    return IN_CONTEXT_OF(device, cuStreamCreate((CUstream *)native_stream, 1));
}

static inline weir_status end_cuda_stream(weir_device *device, void *native_stream)
{
    return IN_CONTEXT_OF(device, cuStreamDestroy(native_stream));
}

static inline weir_status queue_on_cuda(weir_device *device, void *native_stream, unsigned units,
                                        void (*ended)(void *ctx), void *ctx)
{
    return IN_CONTEXT_OF(device, fake_cuda_work(native_stream, units * CUDA_UNIT_NS, 0, 0, ended, ctx));
}

static const weir_tested_device the_cuda_device = {
    .name = "cuda",
    .create = make_cuda,
    .destroy = end_cuda,
    .bytes = weir_tested_bytes_in_place,
    .stream_create = make_cuda_stream,
    .stream_destroy = end_cuda_stream,
    .queue = queue_on_cuda,
};

#endif
