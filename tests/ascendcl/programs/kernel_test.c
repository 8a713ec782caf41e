/* kernel_test.c: kernels that a program loads, described by a hook: the auditor judges them by the hook's answer. */
#include "rig/acl.h"

#include <weir/ascendcl.h>

#include <string.h>

enum { INVALID = 100000, REFUSED = 107000, NO = 207000, BYTES = 4096 };

/* Arguments of the kernel "scale", as the device gets them. */
struct scale {
    float *to;
    const float *from;
    float factor;
    uint32_t padding;
    const uint64_t *count;
};

static struct {
    uint32_t calls;
    uint32_t blocks;
    uint64_t entry;
    size_t size;
    struct scale last;
    uint64_t count;
} seen;

static aclError compute(void *ctx)
{
    const struct scale *s = ctx;
    for (uint64_t i = 0; i < seen.count; i++) {
        s->to[i] = s->from[i] * s->factor;
    }
    return ACL_SUCCESS;
}

static aclError describe(void *ctx, const weir_ascendcl_loaded_kernel *loaded, weir_ascendcl_kernel *kernel)
{
    (void)ctx;
    seen.calls++;
    seen.blocks = loaded->blocks;
    seen.entry = loaded->entry;
    seen.size = loaded->arguments_size;
    if (strcmp(loaded->name, "scale") != 0) {
        return loaded->entry == 7 ? ACL_SUCCESS : ACL_ERROR_KERNEL_NOT_FOUND;
    }
    memcpy(&seen.last, loaded->arguments, sizeof(seen.last));
    memcpy(&seen.count, seen.last.count, sizeof(seen.count));
    assert_true(loaded->range_room >= 2);
    loaded->ranges[0] = (weir_ascendcl_range){seen.last.from, seen.count * sizeof(float), false};
    loaded->ranges[1] = (weir_ascendcl_range){seen.last.to, seen.count * sizeof(float), true};
    kernel->range_count = 2;
    kernel->duration_ns = 100000;
    kernel->compute = compute;
    kernel->ctx = &seen.last;
    return ACL_SUCCESS;
}

static aclrtBinHandle load(aclrtFuncHandle *function)
{
    aclrtBinHandle binary = NULL;
    acl_ok(aclrtBinaryLoadFromFile("kernels.o", NULL, &binary));
    acl_ok(aclrtBinaryGetFunction(binary, "scale", function));
    return binary;
}

static aclrtArgsHandle arguments(aclrtFuncHandle function, void *to, void *from, aclrtParamHandle *factor_handle)
{
    aclrtArgsHandle handle = NULL;
    aclrtParamHandle parameter = NULL;
    float factor = 3;
    void *buffer = NULL;
    const uint64_t count = 4;
    acl_ok(aclrtKernelArgsInit(function, &handle));
    acl_ok(aclrtKernelArgsAppend(handle, &to, sizeof(to), &parameter));
    acl_ok(aclrtKernelArgsAppend(handle, &from, sizeof(from), &parameter));
    acl_ok(aclrtKernelArgsAppend(handle, &factor, sizeof(factor), factor_handle));
    acl_ok(aclrtKernelArgsAppendPlaceHolder(handle, &parameter));
    acl_ok(aclrtKernelArgsGetPlaceHolderBuffer(handle, parameter, sizeof(count), &buffer));
    memcpy(buffer, &count, sizeof(count));
    acl_ok(aclrtKernelArgsFinalize(handle));
    return handle;
}

TEST(a_loaded_kernel_computes_what_the_hook_says)
{
    weir_ascendcl_set_kernel_hook(describe, NULL);
    aclrtFuncHandle function = NULL, again = NULL;
    aclrtParamHandle factor_handle = NULL;
    const aclrtBinHandle binary = load(&function);
    float host[4] = {1, 2, 3, 4}, *x = NULL, *y = NULL;
    acl_ok(aclrtMalloc((void **)&x, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMalloc((void **)&y, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMemcpy(x, BYTES, host, sizeof(host), ACL_MEMCPY_HOST_TO_DEVICE));
    acl_ok(aclrtBinaryGetFunction(binary, "scale", &again));
    assert_ptr_equal(again, function);
    char name[6];
    acl_ok(aclrtGetFunctionName(function, sizeof(name), name));
    assert_string_equal(name, "scale");
    acl_expect(REFUSED, aclrtGetFunctionName(function, 5, name));
    const aclrtArgsHandle handle = arguments(function, y, x, &factor_handle);
    aclrtStream stream;
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtLaunchKernelWithConfig(function, 8, stream, NULL, handle, NULL));
    assert_true(seen.calls == 1 && seen.blocks == 8 && seen.size == sizeof(struct scale));
    acl_ok(aclrtSynchronizeStream(stream));
    acl_ok(aclrtMemcpy(host, sizeof(host), y, sizeof(host), ACL_MEMCPY_DEVICE_TO_HOST));
    assert_true(host[0] == 3 && host[3] == 12);
    float factor = 5; /* a program launches with changed arguments */
    acl_ok(aclrtKernelArgsParaUpdate(handle, factor_handle, &factor, sizeof(factor)));
    acl_ok(aclrtLaunchKernelWithConfig(function, 1, stream, NULL, handle, NULL));
    acl_ok(aclrtSynchronizeStream(stream));
    acl_ok(aclrtMemcpy(host, sizeof(host), y, sizeof(host), ACL_MEMCPY_DEVICE_TO_HOST));
    assert_true(host[0] == 5 && host[3] == 20);
    assert_true(weir_ascendcl_finding_count(NULL) == 0);
    acl_expect(REFUSED, aclrtKernelArgsParaUpdate(handle, NULL, &factor, sizeof(factor)));
    acl_expect(REFUSED, aclrtKernelArgsParaUpdate(handle, factor_handle, host, 1000));
    acl_ok(aclrtBinaryUnLoad(binary));
    acl_expect(REFUSED, aclrtBinaryUnLoad(binary));
    acl_expect(REFUSED, aclrtLaunchKernelWithConfig(function, 1, stream, NULL, handle, NULL));
    acl_ok(aclrtFree(x));
    acl_ok(aclrtFree(y));
    acl_ok(aclrtDestroyStream(stream));
}

TEST(arguments_may_be_one_block_of_bytes)
{
    weir_ascendcl_set_kernel_hook(describe, NULL);
    aclrtFuncHandle function = NULL, by_entry = NULL;
    const aclrtBinHandle binary = load(&function);
    float *x = NULL;
    acl_ok(aclrtMalloc((void **)&x, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMemset(x, BYTES, 0, BYTES));
    struct {
        struct scale scale;
        uint64_t count;
    } bytes = {{x + 16, x, 2, 0, NULL}, 4};
    const uint64_t count = 2;
    seen.calls = 0;
    aclrtPlaceHolderInfo place = {offsetof(struct scale, count), sizeof(struct scale)};
    acl_ok(aclrtLaunchKernelWithHostArgs(function, 1, NULL, NULL, &bytes, sizeof(bytes), &place, 1));
    assert_int_equal(seen.count, 4);
    place.addrOffset = sizeof(bytes) - 4;
    acl_expect(REFUSED, aclrtLaunchKernelWithHostArgs(function, 1, NULL, NULL, &bytes, sizeof(bytes), &place, 1));
    bytes.scale.count = &count;
    acl_ok(aclrtLaunchKernel(function, 1, &bytes, sizeof(bytes.scale), NULL));
    assert_int_equal(seen.count, 2);
    acl_ok(aclrtLaunchKernelV2(function, 2, &bytes, sizeof(bytes.scale), NULL, NULL));
    acl_expect(REFUSED, aclrtLaunchKernel(function, 0, &bytes, sizeof(bytes.scale), NULL));
    acl_expect(INVALID, aclrtLaunchKernel(function, 1, NULL, 8, NULL));
    acl_expect(REFUSED, aclrtLaunchKernel(&bytes, 1, &bytes, 8, NULL));
    acl_ok(aclrtBinaryGetFunctionByEntry(binary, 7, &by_entry));
    acl_ok(aclrtLaunchKernel(by_entry, 1, NULL, 0, NULL));
    assert_int_equal(seen.entry, 7);
    acl_ok(aclrtBinaryGetFunctionByEntry(binary, 8, &by_entry));
    acl_expect(ACL_ERROR_KERNEL_NOT_FOUND, aclrtLaunchKernel(by_entry, 1, NULL, 0, NULL)); /* the hook refuses it */
    acl_ok(aclrtSynchronizeStream(NULL));
    acl_ok(aclrtFree(x));
    acl_ok(aclrtBinaryUnLoad(binary));
}

/* The purpose of the hook: a race of a program's own kernels is found. */
TEST(the_auditor_judges_a_loaded_kernel)
{
    weir_ascendcl_set_kernel_hook(describe, NULL);
    aclrtFuncHandle function = NULL;
    aclrtBinHandle binary = NULL;
    acl_ok(aclrtBinaryLoadFromData("elf", 3, NULL, &binary));
    acl_ok(aclrtBinaryGetFunction(binary, "scale", &function));
    float *x = NULL;
    const uint64_t count = 4;
    acl_ok(aclrtMalloc((void **)&x, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    const struct scale bytes = {x + 16, x, 2, 0, &count};
    aclrtStream streams[2];
    acl_ok(aclrtCreateStream(&streams[0]));
    acl_ok(aclrtCreateStream(&streams[1]));
    acl_ok(aclrtMemset(x, BYTES, 0, BYTES));
    const uint64_t before = weir_ascendcl_finding_count(NULL);
    acl_ok(aclrtLaunchKernel(function, 1, &bytes, sizeof(bytes), streams[0]));
    acl_ok(aclrtLaunchKernel(function, 1, &bytes, sizeof(bytes), streams[1]));
    acl_ok(aclrtSynchronizeDevice());
    assert_true(weir_ascendcl_finding_count(NULL) > before);
    char text[512];
    assert_true(weir_ascendcl_finding(before, text, sizeof(text)));
    assert_non_null(strstr(text, "scale"));
    acl_ok(aclrtDestroyStream(streams[0]));
    acl_ok(aclrtDestroyStream(streams[1]));
    acl_ok(aclrtFree(x));
    acl_ok(aclrtBinaryUnLoad(binary));
}

TEST(without_a_hook_kernels_are_not_simulated)
{
    aclrtBinHandle binary = NULL;
    aclrtFuncHandle function = NULL;
    aclrtArgsHandle handle = NULL;
    aclrtParamHandle parameter = NULL;
    void *buffer = NULL;
    char name[8];
    weir_ascendcl_set_kernel_hook(NULL, NULL);
    acl_expect(NO, aclrtBinaryLoadFromFile("kernels.o", NULL, &binary));
    acl_expect(NO, aclrtBinaryLoadFromData("elf", 3, NULL, &binary));
    acl_expect(NO, aclrtBinaryGetFunction(binary, "scale", &function));
    acl_expect(NO, aclrtBinaryGetFunctionByEntry(binary, 7, &function));
    acl_expect(NO, aclrtGetFunctionName(function, sizeof(name), name));
    acl_expect(NO, aclrtBinaryUnLoad(binary));
    acl_expect(NO, aclrtKernelArgsInit(function, &handle));
    acl_expect(NO, aclrtKernelArgsAppend(handle, name, 1, &parameter));
    acl_expect(NO, aclrtKernelArgsAppendPlaceHolder(handle, &parameter));
    acl_expect(NO, aclrtKernelArgsGetPlaceHolderBuffer(handle, parameter, 1, &buffer));
    acl_expect(NO, aclrtKernelArgsParaUpdate(handle, parameter, name, 1));
    acl_expect(NO, aclrtKernelArgsFinalize(handle));
    acl_expect(NO, aclrtLaunchKernel(function, 1, NULL, 0, NULL));
    acl_expect(NO, aclrtLaunchKernelV2(function, 1, NULL, 0, NULL, NULL));
    acl_expect(NO, aclrtLaunchKernelWithHostArgs(function, 1, NULL, NULL, NULL, 0, NULL, 0));
    acl_expect(NO, aclrtLaunchKernelWithConfig(function, 1, NULL, NULL, handle, NULL));
}

ACL_ENVIRONMENT(REPORT, "none")
EACH_TEST(use_device, reset_device)
