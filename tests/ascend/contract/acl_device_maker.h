/* acl_device_maker.h: the ACL device over the simulated runtime for device_contract.h. */
#ifndef ACL_DEVICE_MAKER_H
#define ACL_DEVICE_MAKER_H

#include "pool/contract/device_contract.h"

#include <weir/acl.h>
#include <weir/ascendcl.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Makes the ACL device. The runtime reads its environment once, at its first call. The contract fills a small device to
 * the byte, so neither the runtime nor the driver keeps memory for itself. */
static inline weir_status make_acl(uint64_t capacity_bytes, weir_device **device)
{
    char bytes[32];
    (void)snprintf(bytes, sizeof(bytes), "%" PRIu64, capacity_bytes);
    if (setenv("WEIR_ASCENDCL_CAPACITY", bytes, 1) != 0 || setenv("WEIR_ASCENDCL_RUNTIME_MEMORY", "0", 1) != 0 ||
        setenv("WEIR_ASCENDCL_DRIVER_CACHE", "0", 1) != 0) {
        return WEIR_ERR_NO_MEMORY;
    }
    return weir_acl_device_create(NULL, device);
}

/* --- work --- */

#define ACL_UNIT_NS (UINT64_C(3600) * 1000 * 1000 * 1000) /* an hour of virtual time */

static inline weir_status make_acl_stream(weir_device *device, void **native_stream)
{
    (void)device;
    return aclrtSetDevice(0) == ACL_SUCCESS && aclrtCreateStream(native_stream) == ACL_SUCCESS ? WEIR_OK
                                                                                               : WEIR_ERR_DEVICE;
}

static inline weir_status end_acl_stream(weir_device *device, void *native_stream)
{
    (void)device;
    return aclrtDestroyStream(native_stream) == ACL_SUCCESS ? WEIR_OK : WEIR_ERR_DEVICE;
}

/* The function to call at the end of a kernel. */
struct acl_work {
    void (*ended)(void *ctx);
    void *ctx;
};

static inline aclError call_ended(void *ctx)
{
    const struct acl_work *work = ctx;
    work->ended(work->ctx);
    return ACL_SUCCESS;
}

static inline weir_status queue_on_acl(weir_device *device, void *native_stream, unsigned units,
                                       void (*ended)(void *ctx), void *ctx)
{
    (void)device;
    struct acl_work *work = malloc(sizeof(*work));
    if (work == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    *work = (struct acl_work){.ended = ended, .ctx = ctx};
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.duration_ns = units * ACL_UNIT_NS;
    kernel.compute = call_ended;
    kernel.end = free;
    kernel.ctx = work;
    return weir_ascendcl_launch(native_stream, &kernel) == ACL_SUCCESS ? WEIR_OK : WEIR_ERR_DEVICE;
}

static const weir_tested_device the_acl_device = {
    .name = "acl",
    .create = make_acl,
    .bytes = weir_tested_bytes_in_place,
    .stream_create = make_acl_stream,
    .stream_destroy = end_acl_stream,
    .queue = queue_on_acl,
};

#endif
