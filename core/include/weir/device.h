/* weir/device.h: contract 1, where bytes and ordering come from.
 *
 * A device is a constant table of functions and a context. Backends (simulator, Ascend, ...) and adaptors (limit,
 * fault, count, log) all are devices, so any stack of them is legal.
 *
 * What holds for every slot of weir_device_ops:
 *   - It may fail at any time. A call that fails has changed nothing.
 *   - WEIR_ERR_NO_MEMORY: the device has no room. WEIR_ERR_LIMIT: an adaptor's limit forbids it. WEIR_ERR_DEVICE: the
 *     runtime reported something else; native_error tells what. WEIR_ERR_UNSUPPORTED: not on this device.
 *   - It may be called from any thread at any time; a backend serialises inside where its runtime needs that.
 *   - It may block and may contain cancellation points: the weir_device_* functions call it with cancellation disabled.
 *   - Sizes and addresses are bytes. Addresses are integers: weir never reads or writes device memory.
 *   - A native stream is the vendor's handle as a `void *`; NULL is the vendor's default stream and as good as any
 *     other value.
 */
#ifndef WEIR_DEVICE_H
#define WEIR_DEVICE_H

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_device weir_device; /* a device as callers hold it */
typedef struct weir_event weir_event;   /* a device's event; only its device knows what is inside */
typedef uint64_t weir_vm_handle;        /* physical memory of the virtual-memory group; 0 is never valid */

enum {
    WEIR_DEVICE_ORDERED = 1u << 0,        /* has streams and events: the ordering group works */
    WEIR_DEVICE_VIRTUAL_MEMORY = 1u << 1, /* the virtual-memory group works */
};

/* Fixed facts; they never change while the device lives. */
typedef struct weir_device_info {
    size_t struct_size;
    uint64_t capacity_bytes;           /* total memory; 0 = unknown */
    uint64_t region_granularity_bytes; /* region sizes are rounded up to this; a power of two, at least 1 */
    uint64_t region_alignment_bytes;   /* every region starts at a multiple of this; a power of two */
    uint64_t page_bytes;               /* granularity of the virtual-memory group; 0 without it */
    uint32_t abilities;                /* WEIR_DEVICE_... */
    int32_t host_numa_node;            /* nearest host NUMA node; -1 = unknown */
    char name[64];                     /* for people, NUL-terminated */
} weir_device_info;

#define WEIR_DEVICE_INFO_INIT WEIR_STRUCT_INIT(weir_device_info)

/* The table a backend writes. Required: get_info, region_alloc, region_free. The two groups are all or nothing: a
 * device that sets one slot of a group sets them all; an absent group answers WEIR_ERR_UNSUPPORTED, and without the
 * ordering group the device is synchronous: whatever was queued before a call is complete when the call is made. */
typedef struct weir_device_ops {
    size_t struct_size;

    weir_status (*get_info)(void *ctx, weir_device_info *info);

    /* A new range of `size` bytes, a multiple of the granularity. */
    weir_status (*region_alloc)(void *ctx, uint64_t size, uint64_t *address);
    /* Gives back a range exactly as region_alloc gave it. The caller has made sure that no queued work touches it:
     * most runtimes free at once, without waiting for streams (aclrtFree among them). */
    weir_status (*region_free)(void *ctx, uint64_t address, uint64_t size);

    /* --- virtual memory (optional group) --- */
    /* A range of addresses without memory behind it, at a multiple of page_bytes. */
    weir_status (*vm_reserve)(void *ctx, uint64_t size, uint64_t *address);
    /* The whole reservation; nothing in it may be mapped. */
    weir_status (*vm_release)(void *ctx, uint64_t address, uint64_t size);
    /* Physical memory of `size` bytes, a multiple of page_bytes. */
    weir_status (*vm_create)(void *ctx, uint64_t size, weir_vm_handle *handle);
    weir_status (*vm_destroy)(void *ctx, weir_vm_handle handle);
    /* Puts the whole of `handle` at `address`; `size` is the handle's size (aclrtMapMem allows nothing else). */
    weir_status (*vm_map)(void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle);
    /* Takes away exactly one mapping. Work that touches it must be complete. */
    weir_status (*vm_unmap)(void *ctx, uint64_t address, uint64_t size);

    /* --- ordering (optional group) --- */
    weir_status (*event_create)(void *ctx, weir_event **event);
    weir_status (*event_destroy)(void *ctx, weir_event *event);
    /* Captures everything queued on the stream so far, waits included; a later record captures anew. Does not block. */
    weir_status (*event_record)(void *ctx, weir_event *event, void *native_stream);
    /* Whether what the last record captured is complete; true for an event never recorded. Does not block. */
    weir_status (*event_query)(void *ctx, weir_event *event, bool *complete);
    /* Blocks the calling thread until event_query would say true. */
    weir_status (*event_sync)(void *ctx, weir_event *event);
    /* Work queued on the stream from now on runs after the work that the event's last record captured; a later record
     * changes nothing of that. Does not block. */
    weir_status (*stream_wait_event)(void *ctx, void *native_stream, weir_event *event);
    /* Blocks the calling thread until everything queued on the stream is complete. */
    weir_status (*stream_sync)(void *ctx, void *native_stream);

    /* --- diagnosis (optional) --- */
    /* The runtime's own code and text for the last failure the calling thread saw; *text stays valid until the
     * thread's next call into the device. Default: code 0, text "". */
    weir_status (*native_error)(void *ctx, int64_t *code, const char **text);
    /* Ends the context when the device is destroyed; may be NULL. */
    void (*destroy)(void *ctx);

    /* --- the device of a stream (optional) --- */
    /* Asked once for each handle, by a pool that meets it for the first time (weir_pool_stream) and before it is used.
     * WEIR_ERR_INVALID, explained by weir_refuse: the handle is of another device, or of a context in which this device
     * cannot order work on it. Any other result, a failure to find out included, and the pool takes the handle. Does not
     * block. Default: any handle is taken. */
    weir_status (*stream_check)(void *ctx, void *native_stream);
} weir_device_ops;

/* Makes a device of a table and a context. `ops` must outlive the device; `ctx` is the backend's and is ended by
 * ops->destroy, if set, in weir_device_destroy. Missing optional slots are filled once, here.
 * WEIR_ERR_INVALID: NULL argument, a required slot is NULL, a group is set in part, get_info's abilities do not name
 * exactly the groups that are set, or its sizes are not powers of two; get_info's own failure is passed on. After a
 * failure `ctx` is still the caller's. */
WEIR_API weir_status weir_device_create(const weir_device_ops *ops, void *ctx, weir_device **device);

/* Ends a device and its context. NULL is allowed. WEIR_ERR_BUSY: a pool or an adaptor stands on it, or it is held
 * otherwise; nothing has changed. In a child of fork nothing is done: the context is the parent's. */
WEIR_API weir_status weir_device_destroy(weir_device *device);

/* For bindings with objects that use the device later: until it has been released as often as held, weir_device_destroy
 * refuses. Pools and adaptors hold their device. WEIR_ERR_INVALID: NULL, or a release too many. Any thread. */
WEIR_API weir_status weir_device_hold(weir_device *device);
WEIR_API weir_status weir_device_release(weir_device *device);

/* Copies the fixed facts into *info, whose struct_size the caller has set. */
WEIR_API weir_status weir_device_get_info(const weir_device *device, weir_device_info *info);

/* The runtime's own code and text behind the calling thread's last failure. */
WEIR_API weir_status weir_device_error(weir_device *device, int64_t *code, const char **text);

/* The slots as functions, with arguments checked (WEIR_ERR_INVALID for NULL, a size of zero or one that is no multiple
 * of the granularity). Adaptors and tests call these; a pool calls nothing else. */
WEIR_API weir_status weir_device_region_alloc(weir_device *device, uint64_t size, uint64_t *address);
WEIR_API weir_status weir_device_region_free(weir_device *device, uint64_t address, uint64_t size);
WEIR_API weir_status weir_device_vm_reserve(weir_device *device, uint64_t size, uint64_t *address);
WEIR_API weir_status weir_device_vm_release(weir_device *device, uint64_t address, uint64_t size);
WEIR_API weir_status weir_device_vm_create(weir_device *device, uint64_t size, weir_vm_handle *handle);
WEIR_API weir_status weir_device_vm_destroy(weir_device *device, weir_vm_handle handle);
WEIR_API weir_status weir_device_vm_map(weir_device *device, uint64_t address, uint64_t size,
                                        weir_vm_handle handle);
WEIR_API weir_status weir_device_vm_unmap(weir_device *device, uint64_t address, uint64_t size);
WEIR_API weir_status weir_device_event_create(weir_device *device, weir_event **event);
WEIR_API weir_status weir_device_event_destroy(weir_device *device, weir_event *event);
WEIR_API weir_status weir_device_event_record(weir_device *device, weir_event *event, void *native_stream);
WEIR_API weir_status weir_device_event_query(weir_device *device, weir_event *event, bool *complete);
WEIR_API weir_status weir_device_event_sync(weir_device *device, weir_event *event);
WEIR_API weir_status weir_device_stream_wait_event(weir_device *device, void *native_stream, weir_event *event);
WEIR_API weir_status weir_device_stream_sync(weir_device *device, void *native_stream);
WEIR_API weir_status weir_device_stream_check(weir_device *device, void *native_stream);

#ifdef __cplusplus
}
#endif

#endif
