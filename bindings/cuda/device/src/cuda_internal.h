/* bindings/cuda/device/src/cuda_internal.h: shared declarations of the CUDA binding.
 *
 *     driver.c   libcuda.so.1 and its table of functions
 *     error.c    CUresult to weir_status, the calling thread's last failure
 *     device.c   weir_device_ops over the driver: life, regions, events; contexts of threads
 *     virtual.c  the virtual-memory slots; finds the kind of handles that the device supports
 *     copy.c     copies for the sleep of a pool
 *     hints.c    calls of the driver that also tell a pool of the order they create
 *     host.c     pinned host memory, for the host pool
 *
 * Two locks, of driver.c (loading) and of device.c (the list of devices). Neither is held during a call of the driver
 * but cuInit and cuDriverGetVersion, and neither is taken under the other.
 */
#ifndef WEIR_CUDA_INTERNAL_H
#define WEIR_CUDA_INTERNAL_H

#include <weir/cuda.h>

#include "shared/assert.h"
#include "shared/cancel.h"
#include "shared/driver.h"
#include "shared/leftovers.h"
#include "shared/native_error.h"

/* --- driver.c --- */

typedef struct weir__cuda_driver {
#define WEIR__CUDA_POINTER(name, suffix, parameters) CUresult(*name) parameters;
    WEIR_CUDA_DRIVER_LIST(WEIR__CUDA_POINTER)
#undef WEIR__CUDA_POINTER
} weir__cuda_driver;

/* The table of the driver's functions. All entries are NULL before weir__cuda_load has succeeded, and set
 * afterwards. */
extern weir__cuda_driver weir__cuda;

/* Opens the driver library unless it is open. On failure weir_last_error names `function`; a later call tries again. */
weir_status weir__cuda_load(const char *function);
bool weir__cuda_is_loaded(void);

/* --- error.c --- */

/* Returns the result of a call of the driver as a status. Keeps a failure for weir_cuda_error. */
weir_status weir__cuda_result(const char *call, CUresult code);
/* Reads code and text of the last driver call of this thread that failed; 0 and "" if no call has failed. */
void weir__cuda_last(int *cuda_error, const char **text);
#define CUDA(function, ...) weir__cuda_result(#function, UNCANCELLED(weir__cuda.function(__VA_ARGS__)))

/* --- device.c --- */

typedef struct cuda_device {
    CUdevice id;
    CUcontext context;
    bool retained; /* the context is the primary one, and retained by this device */
    weir_device_info info;
    weir_cuda_device_info facts;
    CUmemProp prop;      /* properties of new physical memory */
    CUmemAccess *access; /* access rights to mapped memory: of the device itself, then of its peers */
    size_t access_count;
    weir__leftovers left;      /* memory and addresses that calls could not give back */
    const weir_device *device; /* the weir_device made from this struct */
    struct cuda_device *next;  /* under device.c's lock */
} cuda_device;

/* Returns the context argument of the operations of a device of weir_cuda_device_create; NULL for any other device. */
cuda_device *weir__cuda_device_of(const weir_device *device);

/* The thread's state before the device's context was made current. */
typedef struct weir__cuda_bound {
    CUcontext pushed; /* NULL: the device's context was current */
    int capture_mode;
} weir__cuda_bound;

/* Makes the device's context current and the thread's capture mode relaxed, until weir__cuda_leave. What
 * weir__cuda_leave could not restore is restored after the thread's next weir__cuda_enter. */
weir_status weir__cuda_enter(const cuda_device *self, weir__cuda_bound *bound);
void weir__cuda_leave(weir__cuda_bound *bound);
/* Evaluates `call` in the device's context. The value is the status of `call`, or of a failed weir__cuda_enter. */
#define IN_CONTEXT(self, call)                                                                                         \
    __extension__({                                                                                                    \
        weir__cuda_bound bound_;                                                                                       \
        weir_status status_ = weir__cuda_enter((self), &bound_);                                                       \
        if (status_ == WEIR_OK) {                                                                                      \
            status_ = (call);                                                                                          \
            weir__cuda_leave(&bound_);                                                                                 \
        }                                                                                                              \
        status_;                                                                                                       \
    })

/* Like IN_CONTEXT, for a call that takes or returns memory: first gives back what earlier calls could not. */
#define WITH_MEMORY(self, call)                                                                                        \
    IN_CONTEXT(self, __extension__({                                                                                   \
                   (void)weir__leftovers_retry(&((cuda_device *)(self))->left, (self));                                \
                   (call);                                                                                             \
               }))

/* --- virtual.c --- */

/* Chooses the handle type of physical memory and finds its granularity; the device's context is current. A device that
 * supports no handle type gets no virtual-memory operations. */
weir_status weir__cuda_find_virtual_memory(cuda_device *self, const weir_cuda_device_config *config);

weir_status weir__cuda_vm_reserve(void *ctx, uint64_t size, uint64_t *address);
weir_status weir__cuda_vm_release(void *ctx, uint64_t address, uint64_t size);
weir_status weir__cuda_vm_create(void *ctx, uint64_t size, weir_vm_handle *handle);
weir_status weir__cuda_vm_destroy(void *ctx, weir_vm_handle handle);
weir_status weir__cuda_vm_map(void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle);
weir_status weir__cuda_vm_unmap(void *ctx, uint64_t address, uint64_t size);

/* --- copy.c --- */

weir_status weir__cuda_copy(void *ctx, const weir_copy *copies, size_t count);

#endif
