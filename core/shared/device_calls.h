/* core/shared/device_calls.h: the calls of a device (weir/device.h) with their arguments. The checks of the arguments,
 * the adaptors, the doors of the simulator and the meter of the replay are made from these lists.
 *
 *   CALL(NAME, slot, n, argument...)            a call with n arguments that returns a status
 *   GIVING(NAME, slot, result, n, argument...)  a call that also returns `result`, through a last parameter
 *
 * A user defines CALL and GIVING, expands a list, and undefines both. An argument is a word with one type everywhere;
 * WEIR__EACH(n, M, argument...) applies the macro M to each word.
 */
#ifndef WEIR_SHARED_DEVICE_CALLS_H
#define WEIR_SHARED_DEVICE_CALLS_H

#include <weir/adaptor.h>

#define WEIR__REGION_CALLS(CALL, GIVING)                                                                               \
    GIVING(REGION_ALLOC, region_alloc, address, 1, size)                                                               \
    CALL(REGION_FREE, region_free, 2, address, size)

#define WEIR__VM_CALLS(CALL, GIVING)                                                                                   \
    GIVING(VM_RESERVE, vm_reserve, address, 1, size)                                                                   \
    CALL(VM_RELEASE, vm_release, 2, address, size)                                                                     \
    GIVING(VM_CREATE, vm_create, handle, 1, size)                                                                      \
    CALL(VM_DESTROY, vm_destroy, 1, handle)                                                                            \
    CALL(VM_MAP, vm_map, 3, address, size, handle)                                                                     \
    CALL(VM_UNMAP, vm_unmap, 2, address, size)

#define WEIR__ORDERING_CALLS(CALL, GIVING)                                                                             \
    GIVING(EVENT_CREATE, event_create, event, 0, )                                                                     \
    CALL(EVENT_DESTROY, event_destroy, 1, event)                                                                       \
    CALL(EVENT_RECORD, event_record, 2, event, native_stream)                                                          \
    GIVING(EVENT_QUERY, event_query, complete, 1, event)                                                               \
    CALL(EVENT_SYNC, event_sync, 1, event)                                                                             \
    CALL(STREAM_WAIT_EVENT, stream_wait_event, 2, native_stream, event)                                                \
    CALL(STREAM_SYNC, stream_sync, 1, native_stream)

#define WEIR__COPY_CALLS(CALL, GIVING) CALL(COPY, copy, 2, copies, count)

#define WEIR__DEVICE_CALLS(CALL, GIVING)                                                                               \
    WEIR__REGION_CALLS(CALL, GIVING)                                                                                   \
    WEIR__VM_CALLS(CALL, GIVING)                                                                                       \
    WEIR__ORDERING_CALLS(CALL, GIVING)                                                                                 \
    WEIR__COPY_CALLS(CALL, GIVING)

#define WEIR__TYPE_address uint64_t
#define WEIR__TYPE_size uint64_t
#define WEIR__TYPE_handle weir_vm_handle
#define WEIR__TYPE_event weir_event *
#define WEIR__TYPE_native_stream void *
#define WEIR__TYPE_complete bool
#define WEIR__TYPE_copies const weir_copy *
#define WEIR__TYPE_count size_t

#define WEIR__EACH(n, M, ...) WEIR__EACH_##n(M, __VA_ARGS__)
#define WEIR__EACH_0(M, none)
#define WEIR__EACH_1(M, a) M(a)
#define WEIR__EACH_2(M, a, b) M(a) M(b)
#define WEIR__EACH_3(M, a, b, c) M(a) M(b) M(c)

/* Arguments M for WEIR__EACH: each argument of a device call becomes a parameter of a function, or is passed on. */
#define WEIR__PARAMETER(word) , WEIR__TYPE_##word word
#define WEIR__ARGUMENT(word) , word

#endif
