/* contract.c: the contract of devices on a GPU, with kernels as the work of streams.
 *
 * The adaptor `limit` gives the device the capacity that the suite asks for, so that filling it does not take the whole
 * GPU. Host code cannot read device memory, so the cases of contents are left to stress.c.
 */
#include "device_contract.h"

#include "gpu.h"

#include <stdio.h>
#include <weir/adaptor.h>

static weir_device *inner;

static weir_status create(uint64_t capacity_bytes, weir_device **device)
{
    return weir_limit_create(inner, capacity_bytes, device);
}

static weir_status status_of(int code)
{
    return code == 0 ? WEIR_OK : WEIR_ERR_DEVICE;
}

static weir_status make_stream(weir_device *device, void **native_stream)
{
    (void)device;
    return status_of(gpu.cuStreamCreate((CUstream *)native_stream, 1));
}

static weir_status end_stream(weir_device *device, void *native_stream)
{
    (void)device;
    return status_of(gpu.cuStreamDestroy(native_stream));
}

static weir_status queue(weir_device *device, void *native_stream, unsigned units, void (*ended)(void *ctx), void *ctx)
{
    (void)device;
    gpu_delay(native_stream, units * UINT64_C(20000000));
    return status_of(gpu.cuLaunchHostFunc(native_stream, ended, ctx));
}

int main(int argc, char **argv)
{
    static const weir_tested_device tested = {
        .name = "gpu",
        .create = create,
        .stream_create = make_stream,
        .stream_destroy = end_stream,
        .queue = queue,
    };
    if (!gpu_open(&inner)) {
        return 77;
    }
    (void)printf("%s\n", gpu_text());
    const int status = weir_device_contract(&tested, argc, argv);
    gpu_close(inner);
    return status;
}
