/* weir/adaptor.h: devices that wrap a device. Each adaptor takes a device and creates a device, so they stack in any
 * order.
 *
 * The adaptor borrows and holds the wrapped device: weir_device_destroy refuses the wrapped device while the adaptor
 * lives. weir_device_destroy of the adaptor ends the adaptor only, not the wrapped device. An adaptor is as thread-safe
 * as the device that it wraps.
 */
#ifndef WEIR_ADAPTOR_H
#define WEIR_ADAPTOR_H

#include <weir/device.h>
#include <weir/shared_limit.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, slot): the kinds of device calls that the adaptors fault and count tell apart. */
#define WEIR_DEVICE_CALL_LIST(X)                                                                                       \
    X(REGION_ALLOC, region_alloc)                                                                                      \
    X(REGION_FREE, region_free)                                                                                        \
    X(VM_RESERVE, vm_reserve)                                                                                          \
    X(VM_RELEASE, vm_release)                                                                                          \
    X(VM_CREATE, vm_create)                                                                                            \
    X(VM_DESTROY, vm_destroy)                                                                                          \
    X(VM_MAP, vm_map)                                                                                                  \
    X(VM_UNMAP, vm_unmap)                                                                                              \
    X(EVENT_CREATE, event_create)                                                                                      \
    X(EVENT_DESTROY, event_destroy)                                                                                    \
    X(EVENT_RECORD, event_record)                                                                                      \
    X(EVENT_QUERY, event_query)                                                                                        \
    X(EVENT_SYNC, event_sync)                                                                                          \
    X(STREAM_WAIT_EVENT, stream_wait_event)                                                                            \
    X(STREAM_SYNC, stream_sync)                                                                                        \
    X(COPY, copy)

typedef enum weir_device_call {
#define WEIR_DEVICE_CALL_ENUM(name, slot) WEIR_CALL_##name,
    WEIR_DEVICE_CALL_LIST(WEIR_DEVICE_CALL_ENUM)
#undef WEIR_DEVICE_CALL_ENUM
        WEIR_CALL_COUNT, /* the number of kinds */
    WEIR_CALL_ANY = WEIR_CALL_COUNT
} weir_device_call;

/* Returns the name of a call: "region_alloc" for WEIR_CALL_REGION_ALLOC, "any" for WEIR_CALL_ANY. Never returns
 * NULL. */
WEIR_API const char *weir_device_call_name(weir_device_call call);

/* Creates the adaptor limit: region_alloc and vm_create fail with WEIR_ERR_LIMIT if the bytes held would exceed
 * `limit_bytes`. The limit is checked before the bytes are counted, so a request that fails never makes a concurrent
 * request fail. The adaptor's capacity is the limit, or the wrapped device's capacity if that is less. memory_info
 * tells the room under the limit where that is less than the device's free memory. */
WEIR_API weir_status weir_limit_create(weir_device *device, uint64_t limit_bytes, weir_device **limited);
/* Creates the adaptor limit under a limit that other devices, pools and processes share. Its memory counts there: pools
 * of several processes on one device hold no more than the limit together, and what one of them gives back (by a trim,
 * a sleep, or its end, also by SIGKILL) the others may take at once. memory_info tells the room under the shared limit
 * where that is less than the device's free memory, so the record of a refused request, weir_pool_would_fit and the
 * report of weir_pool_wake count what others hold there. The capacity stays the wrapped device's. The adaptor must end
 * before the limit. */
WEIR_API weir_status weir_limit_create_shared(weir_device *device, weir_shared_limit *limit, weir_device **limited);
/* Returns the bytes now held through the adaptor. */
WEIR_API weir_status weir_limit_held(weir_device *limited, uint64_t *bytes);

/* Creates the adaptor fault. weir_fault_arm makes one later call fail with `status`: the n-th call from now (1 = the
 * next one) of one kind, or of any kind. The failing call does not reach the wrapped device. n = 0 disarms.
 * weir_fault_arm restarts the count. */
WEIR_API weir_status weir_fault_create(weir_device *device, weir_device **faulty);
WEIR_API weir_status weir_fault_arm(weir_device *faulty, weir_device_call call, uint64_t n, weir_status status);
/* Returns the number of calls of the armed kind since weir_fault_arm. Stores in *struck whether the fault has occurred.
 * Either pointer may be NULL. */
WEIR_API weir_status weir_fault_state(weir_device *faulty, uint64_t *calls, bool *struck);

/* Creates the adaptor count, which passes on every call and counts it. weir_count_get copies the counters: both arrays
 * have WEIR_CALL_COUNT elements, and `failures` may be NULL. */
WEIR_API weir_status weir_count_create(weir_device *device, weir_device **counting);
WEIR_API weir_status weir_count_get(weir_device *counting, uint64_t *calls, uint64_t *failures);

/* Creates the adaptor log, which passes on every call and then hands `sink` one line for it, without a newline. Only
 * one thread at a time calls the sink. The sink must not call the device. */
typedef void (*weir_log_sink)(void *ctx, const char *line);
WEIR_API weir_status weir_log_create(weir_device *device, weir_log_sink sink, void *ctx, weir_device **logging);

#ifdef __cplusplus
}
#endif

#endif
