/* tests/conformance/kernels.cc: the kernels that CANN's example programs launch, for the simulated runtime.
 *
 * The originals are written for the compiler of the device. These have their names and do to memory what they do: each
 * queues one kernel on the stream, which names the memory it touches, takes simulated time and computes at its end.
 * Launching reports no error, as the originals': it shows at the next synchronisation.
 */
#include "kernel_add.h"
#include "kernel_ops.h"
#include "vector_add_kernel.h"

#include "acl/acl.h"
#include <weir/ascendcl.h>

#include <cstddef>
#include <cstdio>
#include <new>

namespace
{
constexpr uint64_t short_ns = 20 * UINT64_C(1000);
constexpr uint64_t long_ns = 3 * UINT64_C(1000000000); // longer than the programs' timeouts of a second

/* Queues `work`, an object with `aclError operator()() const`, as a kernel. */
template <typename Work>
aclError launch(const char *name, void *stream, uint64_t duration_ns, const Work &work,
                std::initializer_list<weir_ascendcl_access> accesses)
{
    Work *copy = new (std::nothrow) Work(work);
    if (copy == nullptr) return ACL_ERROR_BAD_ALLOC;
    weir_ascendcl_kernel kernel = {};
    kernel.struct_size = sizeof kernel;
    kernel.tag = name;
    kernel.duration_ns = duration_ns;
    kernel.accesses = accesses.begin();
    kernel.access_count = accesses.size();
    kernel.compute = [](void *ctx) { return (*static_cast<Work *>(ctx))(); };
    kernel.end = [](void *ctx) { delete static_cast<Work *>(ctx); };
    kernel.ctx = copy;
    return weir_ascendcl_launch(stream, &kernel);
}
} // namespace
