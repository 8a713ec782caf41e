/* tests/conformance/kernels.cc: the kernels that CANN's example programs launch, for the simulated runtime.
 *
 * The originals are written for the device's compiler. These have their names and do to memory what they do: each
 * queues one kernel on the stream, which names the memory it touches, takes simulated time and computes at its end.
 * Launching tells of no error, as a launch there does: it shows when the stream is waited for.
 */
#include "kernel_add.h"
#include "kernel_ops.h"
#include "vector_add_kernel.h"

#include "acl/acl.h"
#include <weir/ascendcl.h>

#include <cstddef>
#include <cstdio>
#include <initializer_list>
#include <new>

namespace
{
constexpr uint64_t short_ns = UINT64_C(20000);
constexpr uint64_t long_ns =
    UINT64_C(3000000000); // longer than the second for which the programs wait

using ranges = std::initializer_list<weir_ascendcl_range>;

weir_ascendcl_range reads(const void *address, size_t size)
{
    return {address, size, false};
}
weir_ascendcl_range writes(const void *address, size_t size)
{
    return {address, size, true};
}

/* Queues a kernel that calls `work`. */
template <typename Work>
aclError launch(const char *name, void *stream, uint64_t duration_ns, ranges touched, Work work)
{
    Work *copy = new (std::nothrow) Work(work);
    if (copy == nullptr) return ACL_ERROR_BAD_ALLOC;
    weir_ascendcl_kernel kernel = {};
    kernel.struct_size = sizeof kernel;
    kernel.duration_ns = duration_ns;
    kernel.tag = name;
    kernel.ranges = touched.begin();
    kernel.range_count = touched.size();
    kernel.compute = [](void *ctx) -> aclError { return (*static_cast<Work *>(ctx))(); };
    kernel.end = [](void *ctx) { delete static_cast<Work *>(ctx); };
    kernel.ctx = copy;
    return weir_ascendcl_launch(stream, &kernel);
}

/* The programs with a kernel that prints end their streams by force right after it. On the device it is through by
 * then; here time stands still unless somebody waits. */
void wait_for(void *stream)
{
    (void)aclrtSynchronizeStream(stream);
}
} // namespace

void EasyOP(uint32_t blockDim, void *stream, uint32_t *x)
{
    launch("EasyOP", stream, short_ns, {writes(x, blockDim * sizeof *x)}, [=] {
        for (uint32_t i = 0; i < blockDim; i++) x[i] += 1;
        return ACL_SUCCESS;
    });
}

void LongOP(uint32_t blockDim, void *stream, uint32_t *x)
{
    launch("LongOP", stream, long_ns, {writes(x, blockDim * sizeof *x)}, [=] {
        for (uint32_t i = 0; i < blockDim; i++) x[i] += 1;
        return ACL_SUCCESS;
    });
}

void ShortOP(uint32_t blockDim, void *stream, uint32_t *x)
{
    launch("ShortOP", stream, short_ns, {writes(x, blockDim * sizeof *x)}, [=] {
        for (uint32_t i = 0; i < blockDim; i++) x[i] *= 2;
        return ACL_SUCCESS;
    });
}

/* A trap; the device's own code for it. */
void ErrorOP(uint32_t, void *stream)
{
    launch("ErrorOP", stream, short_ns, {}, [] { return ACL_ERROR_RT_VECTOR_CORE_EXCEPTION; });
}

void WriteDo(uint32_t blockDim, void *stream, int *devPtr, int value)
{
    launch("WriteDo", stream, short_ns, {writes(devPtr, blockDim * sizeof *devPtr)}, [=] {
        for (uint32_t i = 0; i < blockDim; i++) devPtr[i] = value;
        printf("Source data: %d\n", value);
        return ACL_SUCCESS;
    });
    wait_for(stream);
}

void ReadDo(uint32_t blockDim, void *stream, int *devPtr)
{
    launch("ReadDo", stream, short_ns, {reads(devPtr, blockDim * sizeof *devPtr)}, [=] {
        for (uint32_t i = 0; i < blockDim; i++) printf("Destination data: %d\n", devPtr[i]);
        return ACL_SUCCESS;
    });
    wait_for(stream);
}

void PrintDo(uint32_t blockDim, void *stream)
{
    launch("PrintDo", stream, short_ns, {}, [=] {
        for (uint32_t i = 0; i < blockDim; i++) printf("Hello World\n");
        return ACL_SUCCESS;
    });
}

void AddDo(uint32_t, void *stream, float *srcA, float *srcB, float *dst, uint32_t totalSize)
{
    const size_t size = totalSize * sizeof *dst;
    launch("AddDo", stream, short_ns, {reads(srcA, size), reads(srcB, size), writes(dst, size)},
           [=] {
               for (uint32_t i = 0; i < totalSize; i++) dst[i] = srcA[i] + srcB[i];
               return ACL_SUCCESS;
           });
}

int32_t VectorAddDo(uint32_t, void *stream, float *srcA, float *srcB, float *dst, float alpha,
                    uint32_t elementCount)
{
    const size_t size = elementCount * sizeof *dst;
    return launch("VectorAddDo", stream, short_ns,
                  {reads(srcA, size), reads(srcB, size), writes(dst, size)}, [=] {
                      for (uint32_t i = 0; i < elementCount; i++)
                          dst[i] = srcA[i] + alpha * srcB[i];
                      return ACL_SUCCESS;
                  });
}
