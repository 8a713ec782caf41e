/* weir/torch_cuda.h: the functions that libweir_torch_cuda.so has beside those of weir/torch.h.
 *
 * The library is weir in the shape of torch.cuda.memory.CUDAPluggableAllocator:
 *
 *     weir = torch.cuda.memory.CUDAPluggableAllocator("libweir_torch_cuda.so", "weir_torch_cuda_malloc",
 *     "weir_torch_free") torch.cuda.memory.change_current_allocator(weir)         before the first tensor
 *
 * The settings of WEIR_TORCH and the functions of weir/torch.h are the same, except that there is no setting `pages`.
 * Streams are CUstream (cudaStream_t is the same); NULL is the legacy default stream of the device's primary context.
 * The driver does not tell when a stream is destroyed or a device is reset: a program that destroys a stream first
 * frees the blocks that the stream used, and waits for it.
 *
 * A function with C++ types in its signature is not declared here, because torch takes its address by name: for
 * set_begin_allocate_to_pool,
 *
 *     void weir_torch_cuda_pool_begin(int device, std::pair<unsigned long long, unsigned long long> id,
 *                                     std::function<bool(cudaStream_t)> filter)
 *
 * is weir_torch_pool_begin in torch's types. It throws std::runtime_error with the reason where that function fails, so
 * that torch does not capture a graph over memory of the ordinary pool. A filter that throws counts as false.
 */
#ifndef WEIR_TORCH_CUDA_H
#define WEIR_TORCH_CUDA_H

#include <weir/torch.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns a block as weir_torch_alloc does, and throws where that function returns NULL, except for a size of 0. torch
 * does not look whether an allocation gave NULL. The C++ exception is derived from std::bad_alloc; what() is the text
 * of weir_torch_report, cut to fit. It is not torch's OutOfMemoryError, a class of torch's own library, which this
 * library does not need: Python sees a RuntimeError or a MemoryError. C cannot call this function. */
WEIR_API void *weir_torch_cuda_malloc(size_t size, int device, void *stream);

#ifdef __cplusplus
}
#endif

#endif
