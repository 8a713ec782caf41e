/* fake_kernels.c: the kernels of benchmarks/gpu (kernels.h), computed on the host when virtual time reaches their end.
 *
 * A module is its text; a function is found if the text has an entry of that name and the double knows the name. The
 * auditor is told of the words that a kernel reads or writes, but not of weir_verify's counter, which several streams
 * may add to at a time.
 */
#include "fake_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRITE, VERIFY, DELAY, KERNELS, NOT_FOUND = 500, KERNEL_NS = 10000, NS_PER_MIB = 2000 };

static const char *const names[KERNELS] = {"weir_write", "weir_verify", "weir_delay"};

/* A function's handle is the address of its name in `names`. */
struct run {
    weir_sim *sim;
    int kernel;
    uint64_t address;
    uint64_t words;
    uint32_t value;
    uint64_t mismatches;
};

FAKE_EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    FAKE_ENTRY_IN(current);
    (void)current;
    char *text = strncmp(image, ".version", 8) == 0 ? strdup(image) : NULL;
    *module = (CUmodule)(void *)text;
    return text != NULL ? CU_SUCCESS : CU_ERROR_INVALID_VALUE;
}

FAKE_EXPORT CUresult cuModuleUnload(CUmodule module)
{
    FAKE_ENTRY_IN(current);
    (void)current;
    free(module);
    return CU_SUCCESS;
}

FAKE_EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    FAKE_ENTRY_IN(current);
    (void)current;
    char entry[80];
    (void)snprintf(entry, sizeof(entry), ".entry %s(", name);
    for (int i = 0; i < KERNELS; i++) {
        if (strcmp(names[i], name) == 0 && strstr((const char *)(const void *)module, entry) != NULL) {
            *function = (CUfunction)(uintptr_t)&names[i];
            return CU_SUCCESS;
        }
    }
    return NOT_FOUND;
}

static void compute(void *ctx)
{
    struct run *run = ctx;
    uint32_t *words = run->words != 0 ? weir_sim_bytes(run->sim, run->address, 4 * run->words) : NULL;
    uint32_t *mismatches = run->mismatches != 0 ? weir_sim_bytes(run->sim, run->mismatches, 4) : NULL;
    if (run->words != 0 && words == NULL) {
        (void)fprintf(stderr, "fake cuda: %s: memory at 0x%llx is gone\n", names[run->kernel],
                      (unsigned long long)run->address);
        abort();
    }
    for (uint64_t i = 0; i < run->words; i++) {
        const uint32_t wanted = run->value + (uint32_t)i;
        if (run->kernel == WRITE) {
            words[i] = wanted;
        } else if (words[i] != wanted && mismatches != NULL) {
            (*mismatches)++;
        }
    }
    free(run);
}

static CUresult queue(CUstream stream, const struct run *run, uint64_t ns)
{
    struct run *own = malloc(sizeof(*own));
    const weir_sim_access access = {.address = run->address, .size = 4 * run->words, .write = run->kernel == WRITE};
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    if (own == NULL) {
        return CU_ERROR_OUT_OF_MEMORY;
    }
    *own = *run;
    work.duration_ns = ns;
    work.accesses = &access;
    work.access_count = run->words != 0;
    work.host_function = compute;
    work.host_ctx = own;
    work.dropped = free;
    work.kernel = true;
    work.tag = names[run->kernel];
    const weir_status status = weir_sim_launch(run->sim, stream->sim, &work);
    if (status != WEIR_OK) {
        free(own);
    }
    return fake_code(status);
}

FAKE_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                    unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                    CUstream stream, void **parameters, void **extra)
{
    FAKE_ENTRY_IN(current);
    const bool one_dimension =
        grid_x != 0 && block_x != 0 && grid_y == 1 && grid_z == 1 && block_y == 1 && block_z == 1;
    bool captured = false;
    stream = fake_stream(current, stream);
    if (!one_dimension || shared_bytes != 0 || extra != NULL || parameters == NULL) {
        return CU_ERROR_INVALID_VALUE;
    }
    const int device = stream->context->device;
    const CUresult code = fake_take_work(stream, &captured);
    if (code != CU_SUCCESS || captured) {
        return code;
    }
    struct run run = {.sim = fake_devices[device].sim,
                      .kernel = (int)((const char *const *)(uintptr_t)function - names)};
    if (run.kernel == DELAY) {
        return queue(stream, &run, *(const uint64_t *)parameters[0]);
    }
    run.address = *(const uint64_t *)parameters[0];
    run.words = *(const uint64_t *)parameters[1];
    run.value = *(const uint32_t *)parameters[2];
    run.mismatches = run.kernel == VERIFY ? *(const uint64_t *)parameters[3] : 0;
    if (!fake_reachable(device, run.address, 4 * run.words)) {
        return CU_ERROR_ILLEGAL_ADDRESS;
    }
    return queue(stream, &run, KERNEL_NS + run.words * 4 * NS_PER_MIB / (1 << 20));
}

FAKE_EXPORT CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *ctx), void *ctx)
{
    FAKE_ENTRY_IN(current);
    (void)current;
    return fake_cuda_work(stream, 1000, 0, 0, function, ctx);
}
