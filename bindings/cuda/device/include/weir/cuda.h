/* weir/cuda.h: weir for NVIDIA GPUs. A device over the CUDA driver, which is loaded at run time.
 *
 *     weir_cuda_device_config cuda = WEIR_CUDA_DEVICE_CONFIG_INIT;
 *     cuda.ordinal = 0;
 *     weir_cuda_device_create(&cuda, &device);
 *     ... weir_pool_create over the device, weir_pool_stream for a CUstream or cudaStream_t ...
 *
 * Nothing of CUDA is needed to build or to link this library: libcuda.so.1 is opened when the first device is created,
 * and weir_cuda_device_create fails if there is none. Streams and events are the driver's handles, CUstream and
 * CUevent (cudaStream_t and cudaEvent_t are the same), which are pointers; codes are CUresult, an int.
 *
 * Thread safety: every function may be called from any thread. A slot of the device makes the device's context current
 * for the length of the call and leaves the calling thread's stack of contexts as it was.
 *
 * Capture. While a thread captures a stream into a graph, the device makes its calls in the relaxed capture mode, so
 * they neither fail nor invalidate the capture. Three calls on a stream that is being captured are refused with
 * WEIR_ERR_UNSUPPORTED before the driver is asked: to record an event on it, to make it wait for an event, to wait for
 * it. A pool keeps the memory of a graph with the graph (weir/capture.h).
 *
 * Results: WEIR_ERR_DEVICE means that a call of the driver failed. For this and for every refusal (WEIR_ERR_INVALID,
 * WEIR_ERR_BUSY, WEIR_ERR_UNSUPPORTED) weir_cuda_error has a sentence that says which call or argument, and why.
 */
#ifndef WEIR_CUDA_H
#define WEIR_CUDA_H

#include <weir/device.h>
#include <weir/host.h>
#include <weir/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- the device --- */

enum {
    /* Leave out the virtual-memory operations (vm_...), even if the GPU supports virtual memory. Every pool over the
     * device then takes regions. */
    WEIR_CUDA_NO_VIRTUAL_MEMORY = 1u << 0,
    /* Use the context that is current in the thread that creates the device, instead of the primary context. The
     * context must be of the device `ordinal` and outlive the weir device. */
    WEIR_CUDA_CURRENT_CONTEXT = 1u << 1,
    /* Give every device that can access this one (cuDeviceCanAccessPeer) access to mapped memory, in addition to
     * `peers`: for programs that expect cuCtxEnablePeerAccess to open all memory to the other devices. */
    WEIR_CUDA_ALL_PEERS = 1u << 2,
};

/* How physical memory may be shared with other processes (CUmemAllocationHandleType). */
typedef enum weir_cuda_handle_type {
    WEIR_CUDA_HANDLE_BEST = 0, /* FABRIC if the device supports it, else FILE, else NONE */
    WEIR_CUDA_HANDLE_FABRIC,   /* shareable with processes on other machines in the same NVLink domain */
    WEIR_CUDA_HANDLE_FILE,     /* as a file descriptor */
    WEIR_CUDA_HANDLE_NONE,     /* not at all */
} weir_cuda_handle_type;

typedef struct weir_cuda_device_config {
    size_t struct_size;
    int32_t ordinal; /* as cuDeviceGet takes it */
    uint32_t flags;  /* WEIR_CUDA_... */
    weir_cuda_handle_type handle_type;
    /* Ordinals of devices that also get access to mapped memory; read during the call. NULL: none.
     * cuCtxEnablePeerAccess gives access to regions only, which are memory of cuMemAlloc (WEIR_POOL_REGIONS). */
    const int32_t *peers;
    size_t peer_count;
} weir_cuda_device_config;

#define WEIR_CUDA_DEVICE_CONFIG_INIT WEIR_STRUCT_INIT(weir_cuda_device_config)

/* Creates a device over the CUDA device `ordinal`; NULL = the defaults. Regions come from cuMemAlloc in units of 2 MiB.
 * The device has virtual memory if the GPU supports it. This function then finds the kind of handles by creating and
 * releasing one granule: it tries the handle types in the order of weir_cuda_handle_type, each first for GPUDirect
 * RDMA, if the GPU supports that, and then without. All handles of the device are of the kind found. If the driver
 * supports none, the device has no virtual memory, and pools over it take regions. The device orders
 * streams by events without timing.
 *
 * The device retains the primary context until it is destroyed, unless WEIR_CUDA_CURRENT_CONTEXT is set. weir's native
 * stream NULL is the context's legacy default stream.
 *
 * WEIR_ERR_INVALID: no such device, an unknown flag or handle type, no current context or one of another device, a peer
 * that is no device. WEIR_ERR_UNSUPPORTED: there is no driver, the driver is older than 11.0, lacks a
 * function or finds no device, or the device has no memory of the requested handle type. WEIR_ERR_NO_MEMORY,
 * WEIR_ERR_DEVICE. */
WEIR_API weir_status weir_cuda_device_create(const weir_cuda_device_config *config, weir_device **device);

typedef struct weir_cuda_device_info {
    size_t struct_size;
    void *context; /* CUcontext */
    int32_t ordinal;
    int32_t driver_version; /* the CUDA version that the driver supports: 12040 is 12.4 */
    /* type of the device's handles, never WEIR_CUDA_HANDLE_BEST; WEIR_CUDA_HANDLE_NONE without virtual memory */
    weir_cuda_handle_type handle_type;
    bool rdma_capable;   /* network cards may be given access to virtual memory */
    char pci_bus_id[24]; /* "0000:3b:00.0" */
} weir_cuda_device_info;

#define WEIR_CUDA_DEVICE_INFO_INIT WEIR_STRUCT_INIT(weir_cuda_device_info)

/* Returns the facts that weir_cuda_device_create found. (To export a block in virtual memory, pin it and
 * export the handles that weir_pool_find_memory names (weir/pin.h). cuIpcGetMemHandle takes regions only:
 * WEIR_POOL_REGIONS.) WEIR_ERR_INVALID:
 * an argument is NULL, or the device was not made by weir_cuda_device_create. */
WEIR_API weir_status weir_cuda_device_get_info(const weir_device *device, weir_cuda_device_info *info);

/* --- pinned host memory --- */

/* Fills a runtime for weir_host_pool_config.runtime. A host pool with this runtime gets memory of cuMemHostAlloc, or
 * maps memory on the node that it wants and registers it with cuMemHostRegister; both are mapped into all contexts.
 * cuMemHostAlloc takes no node: a pool that must place memory by node leaves WEIR_HOST_RUNTIME out of its kinds.
 * weir_host_free_after of that pool takes the device's streams. Retire a stream with weir_host_stream_retire before it
 * is destroyed. The device must outlive the pool. WEIR_ERR_INVALID: an argument is NULL, or the device was not made by
 * weir_cuda_device_create. */
WEIR_API weir_status weir_cuda_host_runtime(weir_device *device, weir_host_runtime *runtime);

/* --- streams and hints --- */

/* Each function makes a call of the driver and tells the pool about the order that the call creates
 * (weir_stream_recorded and the other hints of weir/pool.h), so that the pool reuses memory across streams without its
 * own waits. The call is made in the calling thread's context. The result is the result of the call. A hint for which
 * there is no host memory is dropped, which is safe. The order of streams that are being captured holds within their
 * graph only (weir/capture.h). `stream` NULL is the legacy default stream; the pool's context
 * must then be the current one. No other thread may record the event while a thread waits for it. WEIR_ERR_INVALID:
 * NULL, or a stream that the pool does not know yet and that its device refuses (weir_pool_stream); then no call was
 * made. */
WEIR_API weir_status weir_cuda_record_event(weir_pool *pool, void *event, void *stream);      /* cuEventRecord */
WEIR_API weir_status weir_cuda_stream_wait_event(weir_pool *pool, void *stream, void *event); /* cuStreamWaitEvent */
WEIR_API weir_status weir_cuda_query_event(weir_pool *pool, void *event, bool *complete);     /* cuEventQuery */
WEIR_API weir_status weir_cuda_sync_event(weir_pool *pool, void *event);                      /* cuEventSynchronize */
WEIR_API weir_status weir_cuda_sync_stream(weir_pool *pool, void *stream);                    /* cuStreamSynchronize */
WEIR_API weir_status weir_cuda_destroy_event(weir_pool *pool, void *event);                   /* cuEventDestroy */

/* Waits for the stream, retires it in the pool (weir_stream_retire) and destroys it (cuStreamDestroy). The driver does
 * not announce the end of a stream, and a later stream may get the same handle. A pool in which the old stream is not
 * retired would take the later one for the old one. If several pools know the stream, retire it in the other pools
 * first. WEIR_ERR_INVALID: an argument is NULL. */
WEIR_API weir_status weir_cuda_destroy_stream(weir_pool *pool, void *stream);

/* --- errors --- */

/* Says why the calling thread's last call failed; call it right after the failure. *text is the sentence of
 * weir_last_error. It tells of the later of two events: the last refusal of weir, or the last call of the driver inside
 * weir that failed ("cuMemAlloc: 2 CUDA_ERROR_OUT_OF_MEMORY, out of memory"). It is "" if there was neither.
 * *cuda_error is the CUresult in the sentence, or 0. Either pointer may be NULL. Always WEIR_OK. */
WEIR_API weir_status weir_cuda_error(int *cuda_error, const char **text);

#ifdef __cplusplus
}
#endif

#endif
