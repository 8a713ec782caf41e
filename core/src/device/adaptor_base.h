/* core/src/device/adaptor_base.h: the base of all adaptors. Nothing here is exported.
 *
 * An adaptor is a device that wraps another device. Limit, fault, count and log differ only in the work before a call
 * is passed on and after it returned, so each implements only that. The functions that pass calls on are in adaptor.c.
 */
#ifndef WEIR_CORE_ADAPTOR_BASE_H
#define WEIR_CORE_ADAPTOR_BASE_H

#include <weir/adaptor.h>

/* One call on its way through an adaptor. Members that a kind of call does not use are zero. Members that the device
 * sets (a new address, handle or event) are valid after success only. */
typedef struct weir__adaptor_call {
    weir_device_call kind;
    uint64_t address;
    uint64_t size;
    weir_vm_handle handle;
    weir_event *event;
    void *native_stream;
    bool complete; /* EVENT_QUERY: the device's answer */
    const weir_copy *copies;
    size_t count; /* of copies */
} weir__adaptor_call;

typedef struct weir__adaptor weir__adaptor;

typedef struct weir__adaptor_kind {
    /* Called before the call. Any status but WEIR_OK becomes the result of the call, which then reaches neither the
     * wrapped device nor `after`. May store a value for `after` in a member that the kind of call does not use. */
    weir_status (*before)(weir__adaptor *adaptor, weir__adaptor_call *call);
    /* Called after the call, with the call's result, which cannot be changed any more. */
    void (*after)(weir__adaptor *adaptor, const weir__adaptor_call *call, weir_status status);
    /* Adjusts the properties of the adaptor's device once, at its creation. */
    void (*facts)(const weir__adaptor *adaptor, weir_device_info *info);
    /* Adjusts what the wrapped device has told of its free memory and of all its memory. */
    void (*room)(weir__adaptor *adaptor, uint64_t *free_bytes, uint64_t *total_bytes);
    /* Destroys the adaptor and frees it. */
    void (*destroy)(weir__adaptor *adaptor);
} weir__adaptor_kind;

/* The first member of every adaptor. A kind of adaptor must set `destroy`; its other functions may stay NULL. */
struct weir__adaptor {
    const weir__adaptor_kind *kind;
    weir_device *inner;
};

/* Initialises the base of an adaptor around `inner` and creates its device. On failure the adaptor is destroyed. */
weir_status weir__adaptor_device(weir__adaptor *adaptor, const weir__adaptor_kind *kind, weir_device *inner,
                                 weir_device **device);

/* Returns the adaptor of a device, or NULL if the device is not an adaptor of this kind. */
weir__adaptor *weir__adaptor_of(const weir_device *device, const weir__adaptor_kind *kind);

#endif
