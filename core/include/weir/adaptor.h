/* weir/adaptor.h: devices that wrap a device. Each takes a device and gives one, so they stack in any order.
 *
 * The wrapped device is borrowed and held: weir_device_destroy refuses it while the adaptor lives, and ends the adaptor
 * only when it is given the adaptor. An adaptor is as thread-safe as the device that it wraps.
 */
#ifndef WEIR_ADAPTOR_H
#define WEIR_ADAPTOR_H

#include <weir/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, slot): the calls of a device, as fault and count name them. */
#define WEIR_DEVICE_CALL_LIST(X)                                                                   \
    X(REGION_ALLOC, region_alloc)                                                                  \
    X(REGION_FREE, region_free)                                                                    \
    X(VM_RESERVE, vm_reserve)                                                                      \
    X(VM_RELEASE, vm_release)                                                                      \
    X(VM_CREATE, vm_create)                                                                        \
    X(VM_DESTROY, vm_destroy)                                                                      \
    X(VM_MAP, vm_map)                                                                              \
    X(VM_UNMAP, vm_unmap)                                                                          \
    X(EVENT_CREATE, event_create)                                                                  \
    X(EVENT_DESTROY, event_destroy)                                                                \
    X(EVENT_RECORD, event_record)                                                                  \
    X(EVENT_QUERY, event_query)                                                                    \
    X(EVENT_SYNC, event_sync)                                                                      \
    X(STREAM_WAIT_EVENT, stream_wait_event)                                                        \
    X(STREAM_SYNC, stream_sync)

typedef enum weir_device_call {
#define WEIR_DEVICE_CALL_ENUM(name, slot) WEIR_CALL_##name,
    WEIR_DEVICE_CALL_LIST(WEIR_DEVICE_CALL_ENUM)
#undef WEIR_DEVICE_CALL_ENUM
    WEIR_CALL_COUNT, /* how many kinds there are */
    WEIR_CALL_ANY = WEIR_CALL_COUNT
} weir_device_call;

/* "region_alloc" for WEIR_CALL_REGION_ALLOC; "any" for WEIR_CALL_ANY. Never NULL. */
WEIR_API const char *weir_device_call_name(weir_device_call call);

/* limit: region_alloc and vm_create fail with WEIR_ERR_LIMIT when the bytes held would exceed `limit_bytes`. The limit
 * is checked before anything is counted, so a request that is doomed never makes another one fail. The limited
 * device's capacity is the lesser of the two. */
WEIR_API weir_status weir_limit_create(weir_device *device, uint64_t limit_bytes, weir_device **limited);
/* Bytes held through the adaptor now. */
WEIR_API weir_status weir_limit_held(weir_device *limited, uint64_t *bytes);

/* fault: the n-th call (1 = the next one) of one kind, or of any, fails once with `status` and does not reach the
 * wrapped device. n = 0 disarms. weir_fault_arm starts counting anew. */
WEIR_API weir_status weir_fault_create(weir_device *device, weir_device **faulty);
WEIR_API weir_status weir_fault_arm(weir_device *faulty, weir_device_call call, uint64_t n, weir_status status);
/* Calls of the armed kind seen since it was armed, and whether the fault has struck. Either may be NULL. */
WEIR_API weir_status weir_fault_state(weir_device *faulty, uint64_t *calls, bool *struck);

/* count: passes everything on and counts. `failures` may be NULL; both arrays have WEIR_CALL_COUNT elements. */
WEIR_API weir_status weir_count_create(weir_device *device, weir_device **counting);
WEIR_API weir_status weir_count_get(weir_device *counting, uint64_t *calls, uint64_t *failures);

/* log: passes everything on and hands one line per call to `sink`, without a newline, after the call. The sink is
 * called by one thread at a time and must not call the device. */
typedef void (*weir_log_sink)(void *ctx, const char *line);
WEIR_API weir_status weir_log_create(weir_device *device, weir_log_sink sink, void *ctx, weir_device **logging);

#ifdef __cplusplus
}
#endif

#endif
