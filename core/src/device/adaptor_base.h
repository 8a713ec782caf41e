/* core/src/device/adaptor_base.h: what the adaptors share. Nothing here is exported.
 *
 * An adaptor is a device that wraps one. What differs between limit, fault, count and log is only
 * what happens before a call is passed on and after it came back, so that is all they write; the
 * functions that pass on are in adaptor.c, once.
 */
#ifndef WEIR_CORE_ADAPTOR_BASE_H
#define WEIR_CORE_ADAPTOR_BASE_H

#include <weir/adaptor.h>

/* One call on its way through an adaptor. Members that a kind of call does not have are zero;
 * what the device gave (a new address, handle or event) is there after a success only. */
typedef struct weir__adaptor_call {
    weir_device_call kind;
    uint64_t address;
    uint64_t size;
    weir_vm_handle handle;
    weir_event *event;
    void *native_stream;
    bool complete; /* EVENT_QUERY: what the device answered */
} weir__adaptor_call;

typedef struct weir__adaptor weir__adaptor;

typedef struct weir__adaptor_kind {
    /* Anything but WEIR_OK is the result of the call, which then reaches neither the wrapped device
     * nor `after`. It may leave a note for `after` in a member that the call does not have. */
    weir_status (*before)(weir__adaptor *adaptor, weir__adaptor_call *call);
    /* Sees the result. It cannot change it: what the device did is done. */
    void (*after)(weir__adaptor *adaptor, const weir__adaptor_call *call, weir_status status);
    /* Adjusts the facts once, at creation. */
    void (*facts)(const weir__adaptor *adaptor, weir_device_info *info);
    /* Ends the adaptor and frees it. */
    void (*destroy)(weir__adaptor *adaptor);
} weir__adaptor_kind;

/* The first member of every adaptor. Only `destroy` of the kind must be set. */
struct weir__adaptor {
    const weir__adaptor_kind *kind;
    weir_device *inner;
};

/* Fills the base of an adaptor around `inner` and makes a device of it. On failure the adaptor is destroyed. */
weir_status weir__adaptor_device(weir__adaptor *adaptor, const weir__adaptor_kind *kind, weir_device *inner,
                                 weir_device **device);

/* The adaptor behind a device, NULL when the device is not an adaptor of this kind. */
weir__adaptor *weir__adaptor_of(const weir_device *device, const weir__adaptor_kind *kind);

#endif
