/* core/src/device/device_internal.h: functions of a device for core only, beyond weir/device.h. Nothing here is
 * exported. */
#ifndef WEIR_CORE_DEVICE_INTERNAL_H
#define WEIR_CORE_DEVICE_INTERNAL_H

#include <weir/device.h>

/* Returns the context of a device created with exactly these ops, NULL for any other device. Adaptors recognise their
 * own devices by it. */
void *weir__device_context(const weir_device *device, const weir_device_ops *ops);
/* Returns the properties of the device as copied at its creation, without a device call. */
const weir_device_info *weir__device_info(const weir_device *device);

#endif
