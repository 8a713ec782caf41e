/* weir/device.h: contract 1, the source of memory and of stream ordering.
 *
 * A device is a constant table of functions and a context. Backends (simulator, Ascend, ...) and adaptors (limit,
 * fault, count, log) are all devices, so they stack in any order.
 *
 * These rules hold for every function of weir_device_ops:
 *   - A function may fail at any time. A call that fails has changed nothing.
 *   - WEIR_ERR_NO_MEMORY: the device has no room. WEIR_ERR_LIMIT: an adaptor's limit forbids the call.
 *     WEIR_ERR_DEVICE: the runtime reported another error, which native_error returns. WEIR_ERR_UNSUPPORTED: the
 *     device does not have the function.
 *   - A function may be called from any thread at any time. The backend locks where its runtime needs that.
 *   - A function may block and may contain cancellation points: the weir_device_* functions call it with
 *     cancellation disabled.
 *   - Sizes and addresses are in bytes. Addresses are integers: weir never reads or writes device memory.
 *   - A native stream is the vendor's handle as a `void *`. NULL is the vendor's default stream and is treated like
 *     any other handle.
 */
#ifndef WEIR_DEVICE_H
#define WEIR_DEVICE_H

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_device weir_device; /* the caller's handle of a device */
typedef struct weir_event weir_event;   /* an event of a device; only that device knows its content */
typedef uint64_t weir_vm_handle;        /* a handle of physical memory (virtual-memory group); 0 is never valid */

enum {
    WEIR_DEVICE_ORDERED = 1u << 0, /* the device has streams and events: it supports the ordering group */
    /* The device supports the virtual-memory group. A pool uses it unless told otherwise and does not fall back, so a
     * backend states this ability only if the calls work: where a driver may refuse them, it tries them first. */
    WEIR_DEVICE_VIRTUAL_MEMORY = 1u << 1,
    /* The virtual-memory group works page by page: creating, mapping and moving memory costs in proportion to its
     * bytes, so a pool uses handles of one page, and moves more rarely. No group is needed for this fact. */
    WEIR_DEVICE_PAGEWISE = 1u << 2,
};

/* Properties of a device. They do not change during its life. */
typedef struct weir_device_info {
    size_t struct_size;
    uint64_t capacity_bytes;           /* total memory; 0 = unknown */
    uint64_t region_granularity_bytes; /* region sizes are rounded up to a multiple of this; a power of two, at least
                                          1 */
    uint64_t region_alignment_bytes;   /* every region starts at a multiple of this; a power of two */
    uint64_t page_bytes;               /* granularity of the virtual-memory group; 0 without it */
    uint32_t abilities;                /* WEIR_DEVICE_... */
    int32_t host_numa_node;            /* nearest host NUMA node; -1 = unknown */
    char name[64];                     /* readable name, NUL-terminated */
} weir_device_info;

#define WEIR_DEVICE_INFO_INIT WEIR_STRUCT_INIT(weir_device_info)

/* One piece of a copy. */
typedef struct weir_copy {
    uint64_t address; /* device memory, mapped */
    uint64_t size;    /* bytes, not 0 */
    void *host;       /* host memory; NULL: a fill of device memory with `value` */
    bool to_host;     /* from the device to the host; otherwise to the device */
    uint8_t value;
} weir_copy;

/* The function table that a backend fills. get_info, region_alloc and region_free are required. Virtual memory and
 * ordering are optional groups: a device that has one function of a group has all of them. The functions of an absent
 * group return WEIR_ERR_UNSUPPORTED. A device without the ordering group is synchronous: all work queued before a call
 * is complete when the call is made. */
typedef struct weir_device_ops {
    size_t struct_size;

    weir_status (*get_info)(void *ctx, weir_device_info *info);

    /* Allocates a range of `size` bytes, a multiple of the granularity. */
    weir_status (*region_alloc)(void *ctx, uint64_t size, uint64_t *address);
    /* Frees a range with the address and size of its region_alloc. The caller guarantees that no queued work touches
     * the range: most runtimes free at once, without waiting for streams (for example aclrtFree). */
    weir_status (*region_free)(void *ctx, uint64_t address, uint64_t size);

    /* --- virtual memory (optional group) --- */
    /* Reserves a range of addresses, without memory, at a multiple of page_bytes. */
    weir_status (*vm_reserve)(void *ctx, uint64_t size, uint64_t *address);
    /* Releases a whole reservation. Nothing in it may be mapped. */
    weir_status (*vm_release)(void *ctx, uint64_t address, uint64_t size);
    /* Creates physical memory of `size` bytes, a multiple of page_bytes. */
    weir_status (*vm_create)(void *ctx, uint64_t size, weir_vm_handle *handle);
    weir_status (*vm_destroy)(void *ctx, weir_vm_handle handle);
    /* Maps the whole of `handle` at `address`. `size` is the size of the handle (aclrtMapMem allows no other). */
    weir_status (*vm_map)(void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle);
    /* Removes exactly one mapping. Work that touches it must be complete. */
    weir_status (*vm_unmap)(void *ctx, uint64_t address, uint64_t size);

    /* --- ordering (optional group) --- */
    weir_status (*event_create)(void *ctx, weir_event **event);
    weir_status (*event_destroy)(void *ctx, weir_event *event);
    /* Captures all work queued on the stream so far, including waits. A later record replaces the capture. Does not
     * block. */
    weir_status (*event_record)(void *ctx, weir_event *event, void *native_stream);
    /* Sets *complete to true if the work of the event's last record is complete, or if the event was never recorded.
     * Does not block. */
    weir_status (*event_query)(void *ctx, weir_event *event, bool *complete);
    /* Blocks the calling thread until event_query would report completion. */
    weir_status (*event_sync)(void *ctx, weir_event *event);
    /* Makes work queued on the stream from now on run after the work of the event's last record. A later record of the
     * event does not change this wait. Does not block. */
    weir_status (*stream_wait_event)(void *ctx, void *native_stream, weir_event *event);
    /* Blocks the calling thread until all work queued on the stream is complete. */
    weir_status (*stream_sync)(void *ctx, void *native_stream);

    /* --- diagnosis (optional) --- */
    /* Stores the runtime's own code and text for the last failure in the calling thread. *text stays valid until the
     * thread's next call into the device. Default: code 0, text "". */
    weir_status (*native_error)(void *ctx, int64_t *code, const char **text);
    /* Frees the context when the device is destroyed. May be NULL. */
    void (*destroy)(void *ctx);

    /* --- the device of a stream (optional) --- */
    /* Checks that the device can order work on a stream. A pool calls it once for each handle, in the handle's first
     * weir_pool_stream, before it uses the handle. Returns WEIR_ERR_INVALID, explained by weir_refuse, if the handle
     * belongs to another device, or to a context in which this device cannot order work on it. After any other result,
     * including a failure to find out, the pool accepts the handle. Does not block. Default: every handle is
     * accepted. */
    weir_status (*stream_check)(void *ctx, void *native_stream);

    /* --- captured graphs (optional) --- */
    /* Stores in *capture the number of the capture that is under way on the stream: work queued on the stream becomes
     * part of a graph and does not run. 0: none; WEIR_CAPTURE_IMPLICIT: none, but the runtime refuses events and waits
     * on the stream because of another stream's capture. All streams of one capture have the same number, and no graph
     * that still exists has the number of another capture. Does not block and is allowed during a capture.
     * If `gone` is not NULL and the number is one of a capture, gone(arg) is called once, from any thread, when the
     * graph has been destroyed, at its destruction without work in flight; also if the capture fails. `gone` makes no
     * call of the device and does not block. Returns WEIR_ERR_UNSUPPORTED, with *capture stored, if the runtime does
     * not tell; gone is not called then. Default: nothing is ever captured. */
    weir_status (*stream_capture)(void *ctx, void *native_stream, uint64_t *capture, void (*gone)(void *arg),
                                  void *arg);

    /* --- free memory of the device (optional) --- */
    /* Stores the bytes of the device's memory that are free now, for this pool and for other users, and all of its
     * bytes, of which other pools, libraries and processes may hold some (aclrtGetMemInfo, cuMemGetInfo). Does not
     * block. Default: WEIR_ERR_UNSUPPORTED. */
    weir_status (*memory_info)(void *ctx, uint64_t *free_bytes, uint64_t *total_bytes);

    /* --- copies (optional) --- */
    /* Copies and fills all pieces, several at a time where the device can, and returns when all are complete, or when
     * one has failed and none is under way. Waits for no work that other callers have queued: the caller knows that
     * nothing else touches the memory. Pieces do not overlap. Copies of pinned host memory are the fastest. After a
     * failure the contents of the destinations are undefined. A count of 0 tells if the device copies. Default:
     * WEIR_ERR_UNSUPPORTED. */
    weir_status (*copy)(void *ctx, const weir_copy *copies, size_t count);
} weir_device_ops;

#define WEIR_CAPTURE_IMPLICIT UINT64_MAX

/* Creates a device from a table and a context. `ops` must outlive the device. The device owns `ctx`:
 * weir_device_destroy calls ops->destroy, if it is set. Missing optional functions get defaults. Returns
 * WEIR_ERR_INVALID if an argument or a required function is NULL, a group is set only in part, the abilities of
 * get_info do not name exactly the groups that are set, or the sizes of get_info are not powers of two. Returns the
 * failure of get_info if that fails. After a failure the caller still owns `ctx`. */
WEIR_API weir_status weir_device_create(const weir_device_ops *ops, void *ctx, weir_device **device);

/* Destroys a device and its context. NULL is allowed. Returns WEIR_ERR_BUSY, and changes nothing, while a pool or an
 * adaptor uses the device or weir_device_hold holds it. Returns the device's failure, and destroys nothing, while the
 * device does not take back what a destroyed pool held: call it again when the device works. In a child of fork the
 * call does nothing: the context belongs to the parent. */
WEIR_API weir_status weir_device_destroy(weir_device *device);

/* Hold a device, and release it. A binding holds a device for objects that use the device later: while there are more
 * holds than releases, weir_device_destroy refuses. Pools and adaptors hold their device. Both return WEIR_ERR_INVALID
 * if `device` is NULL; weir_device_release also if there is no hold to release. Thread-safe. */
WEIR_API weir_status weir_device_hold(weir_device *device);
WEIR_API weir_status weir_device_release(weir_device *device);

/* Copies the properties of the device into *info. The caller has set info->struct_size. */
WEIR_API weir_status weir_device_get_info(const weir_device *device, weir_device_info *info);

/* Stores the runtime's own code and text for the calling thread's last failure (native_error). */
WEIR_API weir_status weir_device_error(weir_device *device, int64_t *code, const char **text);

/* Check the arguments and call the function of the same name in the device's table. Adaptors and tests call these
 * functions; a pool uses a device through them only. They return WEIR_ERR_INVALID for NULL, for a size of zero and for
 * a size that is not a multiple of the granularity. */
WEIR_API weir_status weir_device_region_alloc(weir_device *device, uint64_t size, uint64_t *address);
WEIR_API weir_status weir_device_region_free(weir_device *device, uint64_t address, uint64_t size);
WEIR_API weir_status weir_device_vm_reserve(weir_device *device, uint64_t size, uint64_t *address);
WEIR_API weir_status weir_device_vm_release(weir_device *device, uint64_t address, uint64_t size);
WEIR_API weir_status weir_device_vm_create(weir_device *device, uint64_t size, weir_vm_handle *handle);
WEIR_API weir_status weir_device_vm_destroy(weir_device *device, weir_vm_handle handle);
WEIR_API weir_status weir_device_vm_map(weir_device *device, uint64_t address, uint64_t size, weir_vm_handle handle);
WEIR_API weir_status weir_device_vm_unmap(weir_device *device, uint64_t address, uint64_t size);
WEIR_API weir_status weir_device_event_create(weir_device *device, weir_event **event);
WEIR_API weir_status weir_device_event_destroy(weir_device *device, weir_event *event);
WEIR_API weir_status weir_device_event_record(weir_device *device, weir_event *event, void *native_stream);
WEIR_API weir_status weir_device_event_query(weir_device *device, weir_event *event, bool *complete);
WEIR_API weir_status weir_device_event_sync(weir_device *device, weir_event *event);
WEIR_API weir_status weir_device_stream_wait_event(weir_device *device, void *native_stream, weir_event *event);
WEIR_API weir_status weir_device_stream_sync(weir_device *device, void *native_stream);
WEIR_API weir_status weir_device_stream_check(weir_device *device, void *native_stream);
WEIR_API weir_status weir_device_stream_capture(weir_device *device, void *native_stream, uint64_t *capture,
                                                void (*gone)(void *arg), void *arg);
WEIR_API weir_status weir_device_copy(weir_device *device, const weir_copy *copies, size_t count);
WEIR_API weir_status weir_device_memory_info(weir_device *device, uint64_t *free_bytes, uint64_t *total_bytes);

#ifdef __cplusplus
}
#endif

#endif
