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
/* True if a stream of the device can be captured into a graph: the device has the function stream_capture. */
bool weir__device_captures(const weir_device *device);

/* Give back what a pool holds when it ends and cannot try again. A call that fails is made a second time. If it fails
 * again, the device keeps a note (shared/leftovers.h) and tries again at each later call for memory, and when it is
 * destroyed. Memory whose mapping could not be removed is not destroyed before the mapping is gone, and its addresses
 * are not released before. All return the failure. */
weir_status weir__device_return_region(weir_device *device, uint64_t address, uint64_t size);
weir_status weir__device_return_mapping(weir_device *device, uint64_t address, uint64_t size, weir_vm_handle handle);
weir_status weir__device_return_memory(weir_device *device, weir_vm_handle handle);
weir_status weir__device_return_addresses(weir_device *device, uint64_t address, uint64_t size);
weir_status weir__device_return_event(weir_device *device, weir_event *event);
/* Waits for a stream whose work may touch memory that is about to be returned. If the wait fails, regions and mappings
 * returned after this call stay with the device until it succeeds, or fails although the device makes events: then the
 * stream is broken. */
weir_status weir__device_await_stream(weir_device *device, void *native_stream);

#endif
