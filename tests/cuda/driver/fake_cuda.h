/* tests/cuda/driver/fake_cuda.h: a double of the CUDA driver over weir's simulator, and the requests of a test to it.
 *
 * The library is named libcuda.so.1, so that weir opens it by that name. Its devices are simulators in backed mode:
 * memory has real bytes, time is virtual, and the auditor judges the memory that fills and copies touch. Beside the
 * functions that weir calls (bindings/cuda/device/shared/driver.h) and those of the GPU programs
 * (benchmarks/gpu/gpu_driver.h) it has functions for contexts and captures. It follows the reference, and is strict
 * where the reference is: a call needs a current context, an event belongs to a context, mapped memory is out of reach
 * until cuMemSetAccess names the device, and a call that is unsafe during a capture breaks the capture. It computes the
 * three kernels of benchmarks/gpu on the host, known by name, and no other kernel; fake_cuda_work stands for any other
 * work. Memory of cuMemAllocAsync is a region of its own and returns to the device at once, after a wait.
 *
 * It begins with the first cuInit or fake_cuda_start. The environment may say FAKE_CUDA_CAPACITY (bytes of a device),
 * FAKE_CUDA_LACKS (a word of fake_cuda_lacks) and FAKE_CUDA_REPORT=1 (on stderr, at exit: calls and findings).
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <gpu_driver.h>
#include <stdbool.h>
#include <stdint.h>

enum { FAKE_CUDA_DEVICES = 2 };

/* Features that a device, or the driver, lacks: bits, each also a word of FAKE_CUDA_LACKS. */
enum {
    FAKE_CUDA_NO_FABRIC = 1u << 0, /* word "fabric": the device lacks the attribute */
    /* word "permission": the device has the attribute, but the driver refuses such memory, as without an IMEX
     * channel */
    FAKE_CUDA_FABRIC_REFUSED = 1u << 1,
    FAKE_CUDA_NO_FILE = 1u << 2, /* word "file" */
    FAKE_CUDA_NO_RDMA = 1u << 3, /* word "rdma": the device lacks the attribute */
    /* word "nic": the device has the attribute, but the driver refuses such memory */
    FAKE_CUDA_RDMA_REFUSED = 1u << 4,
    FAKE_CUDA_NO_VIRTUAL_MEMORY = 1u << 5, /* word "virtual" */
    FAKE_CUDA_OLD = 1u << 6,               /* word "version": the driver supports CUDA 10.2 */
    FAKE_CUDA_NO_GPU = 1u << 7,            /* word "gpu": cuInit finds no device */
    FAKE_CUDA_ODD_HOST = 1u << 8,          /* word "page": memory of cuMemHostAlloc does not begin at a page */
};

/* Starts a machine of FAKE_CUDA_DEVICES devices with `capacity` bytes of memory each (0: 1 GiB). The previous machine
 * ends without a report. */
void fake_cuda_start(uint64_t capacity, unsigned lacks);
/* Prints the findings of the auditors and returns their number. With `with_leaks`, memory that a device still holds is
 * a finding. */
unsigned fake_cuda_findings(bool with_leaks);
uint64_t fake_cuda_held_bytes(int device);
/* True if work of the device may touch the range. */
bool fake_cuda_reaches(int device, CUdeviceptr address, uint64_t size);
/* Return the number of retained primary contexts, the number of contexts on the calling thread's stack, and the capture
 * mode of the thread. */
unsigned fake_cuda_retained(void);
unsigned fake_cuda_depth(void);
int fake_cuda_capture_mode(void);

/* Injects a fault: the `nth` call of `function` from now on fails with `code`; with `lasting`, all later calls of it
 * fail too. "" and NULL mean any function. nth 0: no call fails. */
void fake_cuda_fail(const char *function, unsigned nth, CUresult code, bool lasting);
/* Injects an outage: `count` calls fail, the `nth` from now on and those after it. `function` may be several names with
 * commas between them. */
void fake_cuda_outage(const char *function, unsigned nth, unsigned count, CUresult code);
/* Returns the number of calls since the last fault was injected or the machine started. *struck becomes true if the
 * fault has occurred. */
unsigned fake_cuda_calls(bool *struck);

/* Queues work of `ns` nanoseconds of virtual time on a stream of the current context (NULL: its legacy stream). The
 * work reads nothing and writes [address, address + size). At its end it calls `ended`, if that is not NULL, from any
 * thread that moves time. */
CUresult fake_cuda_work(CUstream stream, uint64_t ns, CUdeviceptr address, uint64_t size, void (*ended)(void *),
                        void *ctx);

/* --- functions of the driver that neither weir nor the programs of benchmarks/gpu call --- */

#define FAKE_CUDA_MORE_LIST(X)                                                                                         \
    X(cuCtxCreate, "_v2", (CUcontext * context, unsigned flags, CUdevice device))                                      \
    X(cuCtxDestroy, "_v2", (CUcontext context))                                                                        \
    X(cuCtxSetCurrent, "", (CUcontext context))                                                                        \
    X(cuStreamBeginCapture, "_v2", (CUstream stream, int mode))                                                        \
    X(cuStreamEndCapture, "", (CUstream stream, void **graph))                                                         \
    X(cuGraphDestroy, "", (void *graph))

/* The functions of these lists are exported with their suffixes, as programs call them; fake_names.h has the
 * prototypes. */

#endif
