/* bindings/cuda/device/src/host.c: pinned host memory of the CUDA driver, for weir/host.h.
 *
 * Idea: each function is one call in the device's context. Memory is pinned for all contexts (portable) and mapped into
 * them, so that a block may be copied to any device.
 *
 * Guarantee: memory that is handed out begins at a page. cuMemHostAlloc promises no alignment. If its memory does not
 * begin at a page, the memory is freed and the call fails, so the host pool tries its next kind of memory.
 */
#include "cuda_internal.h"

#include <unistd.h>

static const unsigned flags = CU_HOST_PORTABLE | CU_HOST_DEVICEMAP;

static bool begins_a_page(const void *memory)
{
    const long page = sysconf(_SC_PAGESIZE);
    return (uintptr_t)memory % (page > 0 ? (uintptr_t)page : 4096) == 0;
}

static weir_status free_left(void *ctx, weir__leftover *left)
{
    WEIR_ASSERT(left->object != NULL);
    (void)ctx;
    return CUDA(cuMemFreeHost, left->object);
}

static weir_status alloc_page(cuda_device *self, uint64_t size, void **memory)
{
    weir__leftover *odd = weir__leftover_new(free_left);
    if (odd == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    weir_status status = CUDA(cuMemHostAlloc, memory, (size_t)size, flags);
    if (status == WEIR_OK && !begins_a_page(*memory)) {
        odd->object = *memory;
        (void)weir__leftovers_give(&self->left, self, odd);
        return weir_refuse(WEIR_ERR_UNSUPPORTED, "cuMemHostAlloc: %p begins no page", *memory);
    }
    free(odd);
    return status;
}

static weir_status pinned_alloc(void *ctx, uint64_t size, void **memory)
{
    void *got = NULL;
    const weir_status status = WITH_MEMORY(ctx, alloc_page(ctx, size, &got));
    if (status == WEIR_OK) {
        *memory = got;
    }
    return status;
}

static weir_status pinned_free(void *ctx, void *memory, uint64_t size)
{
    WEIR_ASSERT(begins_a_page(memory));
    (void)size;
    return WITH_MEMORY(ctx, CUDA(cuMemFreeHost, memory));
}

static weir_status memory_register(void *ctx, void *memory, uint64_t size)
{
    WEIR_ASSERT(begins_a_page(memory) && size > 0);
    return IN_CONTEXT(ctx, CUDA(cuMemHostRegister, memory, (size_t)size, flags));
}

static weir_status memory_unregister(void *ctx, void *memory, uint64_t size)
{
    (void)size;
    return IN_CONTEXT(ctx, CUDA(cuMemHostUnregister, memory));
}

static const weir_host_runtime_ops ops = {
    .struct_size = sizeof(ops),
    .pinned_alloc = pinned_alloc,
    .pinned_free = pinned_free,
    .memory_register = memory_register,
    .memory_unregister = memory_unregister,
};

weir_status weir_cuda_host_runtime(weir_device *device, weir_host_runtime *runtime)
{
    static const char function[] = "weir_cuda_host_runtime";
    cuda_device *self = device != NULL ? weir__cuda_device_of(device) : NULL;
    if (runtime == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: runtime is NULL", function);
    }
    if (self == NULL) {
        return weir__native_refuse_device(function, device, "weir_cuda_device_create");
    }
    *runtime = (weir_host_runtime){.struct_size = sizeof(*runtime), .ops = &ops, .ctx = self, .device = device};
    return WEIR_OK;
}
