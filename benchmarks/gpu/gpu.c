/* gpu.c: see gpu.h. */
#include "gpu.h"

#include "kernels.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { threads_per_block = 256, most_blocks = 1024 };

struct gpu_driver gpu;

static CUcontext context;
static CUmodule module;
static CUfunction write_kernel, verify_kernel, delay_kernel;
static char text[160];
static bool is_double;

void gpu_check(CUresult code, const char *call)
{
    const char *name = NULL;
    if (code != CU_SUCCESS) {
        (void)gpu.cuGetErrorName(code, &name);
        (void)fprintf(stderr, "%s: %d %s\n", call, code, name != NULL ? name : "");
        exit(1);
    }
}

/* Stores the address of a symbol in a function pointer of any type. Copies bytes, because ISO C has no conversion
 * between pointers to objects and pointers to functions. */
static void find(void *library, const char *symbol, void *function)
{
    void *found = dlsym(library, symbol);
    memcpy(function, &found, sizeof(found));
    if (found == NULL) {
        (void)fprintf(stderr, "libcuda.so.1 has no %s: CUDA 11.2 or later is needed\n", symbol);
        exit(1);
    }
}

static void open_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        (void)fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
#define FIND(name, suffix, parameters) find(library, #name suffix, &gpu.name);
    WEIR_CUDA_DRIVER_LIST(FIND)
    GPU_DRIVER_LIST(FIND)
#undef FIND
    is_double = dlsym(library, "fake_cuda_start") != NULL;
}

static void load_kernels(void)
{
    GPU(cuModuleLoadData, &module, gpu_kernels);
    GPU(cuModuleGetFunction, &write_kernel, module, "weir_write");
    GPU(cuModuleGetFunction, &verify_kernel, module, "weir_verify");
    GPU(cuModuleGetFunction, &delay_kernel, module, "weir_delay");
}

static void describe(weir_device *device, const weir_cuda_device_info *facts)
{
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    (void)!weir_device_get_info(device, &info);
    (void)snprintf(text, sizeof(text), "%s, %llu MiB, driver for CUDA %d.%d%s", info.name,
                   (unsigned long long)(info.capacity_bytes >> 20), facts->driver_version / 1000,
                   facts->driver_version % 1000 / 10, is_double ? ": no GPU, the figures mean nothing" : "");
}

bool gpu_open(weir_device **device)
{
    weir_cuda_device_info facts = WEIR_CUDA_DEVICE_INFO_INIT;
    const weir_status status = weir_cuda_device_create(NULL, device);
    if (status == WEIR_ERR_UNSUPPORTED) {
        (void)printf("skipped: %s\n", weir_last_error());
        return false;
    }
    if (status != WEIR_OK || weir_cuda_device_get_info(*device, &facts) != WEIR_OK) {
        (void)fprintf(stderr, "%s\n", weir_last_error());
        exit(1);
    }
    open_driver();
    context = facts.context;
    gpu_enter_thread();
    load_kernels();
    describe(*device, &facts);
    return true;
}

void gpu_close(weir_device *device)
{
    GPU(cuModuleUnload, module);
    gpu_leave_thread();
    if (weir_device_destroy(device) != WEIR_OK) {
        (void)fprintf(stderr, "%s\n", weir_last_error());
        exit(1);
    }
}

void gpu_enter_thread(void)
{
    GPU(cuCtxPushCurrent, context);
}

void gpu_leave_thread(void)
{
    CUcontext popped = NULL;
    GPU(cuCtxPopCurrent, &popped);
}

const char *gpu_text(void)
{
    return text;
}

/* --- kernels --- */

static void launch(CUfunction kernel, uint64_t words, CUstream stream, void **parameters)
{
    const uint64_t blocks = (words + threads_per_block - 1) / threads_per_block;
    const unsigned grid = blocks > most_blocks ? most_blocks : (unsigned)blocks;
    GPU(cuLaunchKernel, kernel, grid, 1, 1, threads_per_block, 1, 1, 0, stream, parameters, NULL);
}

void gpu_write(CUstream stream, uint64_t address, uint64_t words, uint32_t value)
{
    void *parameters[] = {&address, &words, &value};
    launch(write_kernel, words, stream, parameters);
}

void gpu_verify(CUstream stream, uint64_t address, uint64_t words, uint32_t value, uint64_t mismatches)
{
    void *parameters[] = {&address, &words, &value, &mismatches};
    launch(verify_kernel, words, stream, parameters);
}

void gpu_delay(CUstream stream, uint64_t ns)
{
    void *parameters[] = {&ns};
    GPU(cuLaunchKernel, delay_kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}
