/* core/src/device/device_internal.h: a device as core sees it beyond weir/device.h. Nothing here is exported. */
#ifndef WEIR_CORE_DEVICE_INTERNAL_H
#define WEIR_CORE_DEVICE_INTERNAL_H

#include <weir/device.h>

/* The context behind a device made with exactly these ops, NULL for any other: how adaptors know their own. */
void *weir__device_context(const weir_device *device, const weir_device_ops *ops);
/* The facts as copied at creation, without a call. */
const weir_device_info *weir__device_info(const weir_device *device);

#endif
