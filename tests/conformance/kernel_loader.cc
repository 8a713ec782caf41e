/* tests/conformance/kernel_loader.cc: a program's own loader in the place of the runtime's.
 *
 * The runtime has no device that could run a kernel from a file. A program that defines these functions itself is
 * linked with its own; this one knows one kernel, add_custom, whose original adds two arrays of half precision numbers.
 * Here it is a function that the simulated stream calls.
 */
#include "acl/acl.h"
#include <weir/ascendcl.h>

#include <cmath>
#include <cstring>

namespace
{
constexpr size_t block_elements = 2048;

struct add_custom_arguments {
    void *pointers[3]; // x, y, and their sum
    size_t count;
    uint32_t blocks;
};
add_custom_arguments arguments; // of the only launch that is being put together
char binary, function;

/* Normal numbers and zero are all that the programs add. */
float from_half(uint16_t half)
{
    if ((half & 0x7FFF) == 0) return 0;
    const float magnitude =
        std::ldexp(static_cast<float>(0x400 | (half & 0x3FF)), ((half >> 10) & 0x1F) - 25);
    return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

uint16_t to_half(float value)
{
    if (value == 0) return 0;
    int exponent = 0;
    const float fraction = std::frexp(std::fabs(value), &exponent); // 0.5 to 1
    const uint16_t bits = static_cast<uint16_t>(((exponent + 14) << 10) |
                                                (std::lrint(std::ldexp(fraction, 11)) & 0x3FF));
    return static_cast<uint16_t>(bits | (value < 0 ? 0x8000 : 0));
}

aclError add_custom(void *ctx)
{
    const add_custom_arguments *given = static_cast<add_custom_arguments *>(ctx);
    const uint16_t *x = static_cast<const uint16_t *>(given->pointers[0]);
    const uint16_t *y = static_cast<const uint16_t *>(given->pointers[1]);
    uint16_t *z = static_cast<uint16_t *>(given->pointers[2]);
    for (size_t i = 0; i < given->blocks * block_elements; i++)
        z[i] = to_half(from_half(x[i]) + from_half(y[i]));
    return ACL_SUCCESS;
}
} // namespace

aclError aclrtBinaryLoadFromFile(const char *, aclrtBinaryLoadOptions *, aclrtBinHandle *binHandle)
{
    *binHandle = &binary;
    return ACL_SUCCESS;
}

aclError aclrtBinaryGetFunction(const aclrtBinHandle, const char *kernelName,
                                aclrtFuncHandle *funcHandle)
{
    if (strcmp(kernelName, "add_custom") != 0) return ACL_ERROR_RT_SYMBOL_NOT_FOUND;
    *funcHandle = &function;
    return ACL_SUCCESS;
}

aclError aclrtBinaryUnLoad(aclrtBinHandle)
{
    return ACL_SUCCESS;
}

aclError aclrtKernelArgsInit(aclrtFuncHandle, aclrtArgsHandle *argsHandle)
{
    arguments = {};
    *argsHandle = &arguments;
    return ACL_SUCCESS;
}

aclError aclrtKernelArgsAppend(aclrtArgsHandle, void *param, size_t paramSize, aclrtParamHandle *)
{
    if (arguments.count == 3 || paramSize != sizeof(void *)) return ACL_ERROR_INVALID_PARAM;
    memcpy(&arguments.pointers[arguments.count++], param, paramSize);
    return ACL_SUCCESS;
}

aclError aclrtKernelArgsFinalize(aclrtArgsHandle)
{
    return arguments.count == 3 ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM;
}

aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle, uint32_t numBlocks, aclrtStream stream,
                                     aclrtLaunchKernelCfg *, aclrtArgsHandle, void *)
{
    arguments.blocks = numBlocks;
    const size_t size = numBlocks * block_elements * sizeof(uint16_t);
    const weir_ascendcl_range ranges[] = {{arguments.pointers[0], size, false},
                                          {arguments.pointers[1], size, false},
                                          {arguments.pointers[2], size, true}};
    weir_ascendcl_kernel kernel = {};
    kernel.struct_size = sizeof kernel;
    kernel.duration_ns = 20000;
    kernel.tag = "add_custom";
    kernel.ranges = ranges;
    kernel.range_count = 3;
    kernel.compute = add_custom;
    kernel.ctx = &arguments;
    return weir_ascendcl_launch(stream, &kernel);
}
