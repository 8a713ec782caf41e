/* gpu.h: the CUDA driver for the programs that need a GPU: benchmarks/gpu and tests/cuda/gpu.
 *
 * The programs open libcuda.so.1 at run time, as weir::cuda does. They are built everywhere without a toolkit, and say
 * so where there is no driver. In the tests of a machine without a GPU they open the double of the driver
 * (tests/cuda/driver), which computes the three kernels on the host.
 */
#ifndef WEIR_BENCHMARKS_GPU_H
#define WEIR_BENCHMARKS_GPU_H

#include <stdbool.h>
#include <stdint.h>
#include <weir/cuda.h>

#include "gpu_driver.h"

/* Complete after gpu_open. */
extern struct gpu_driver gpu;

/* Opens the driver, makes device 0 a weir device, makes its context current in the calling thread and loads the
 * kernels. Prints "skipped: REASON" and returns false if there is no driver or no GPU; prints the reason and exits with
 * status 1 if the driver is there and a call of it fails. */
bool gpu_open(weir_device **device);
/* Undoes gpu_open. */
void gpu_close(weir_device *device);
/* Makes the device's context current in the calling thread, for threads other than the thread of gpu_open. */
void gpu_enter_thread(void);
void gpu_leave_thread(void);
/* Returns the device's name and the driver's version, for a heading. */
const char *gpu_text(void);

/* Ends the program with status 1 and a line that names the call, if the driver's result is not CU_SUCCESS. */
void gpu_check(CUresult code, const char *call);
#define GPU(function, ...) gpu_check(gpu.function(__VA_ARGS__), #function)

/* --- kernels (kernels.h), queued on a stream; the words are of 32 bits --- */

/* Writes value + i to word i. */
void gpu_write(CUstream stream, uint64_t address, uint64_t words, uint32_t value);
/* Adds the number of wrong words to the 32-bit word at `mismatches` in device memory. Word i is wrong if it is not
 * value + i. */
void gpu_verify(CUstream stream, uint64_t address, uint64_t words, uint32_t value, uint64_t mismatches);
/* Queues a kernel that keeps the stream busy for `ns` nanoseconds. */
void gpu_delay(CUstream stream, uint64_t ns);

#endif
