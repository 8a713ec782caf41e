/* kernel.c: the vendor's compiled kernels. The simulated device cannot run them. A program that has set a hook
 * (weir_ascendcl_set_kernel_hook) describes each launch itself; without a hook the functions that load kernels return
 * that they are not simulated.
 *
 * A binary is a name for its functions: the file is not read. The arguments of a launch are collected as the device
 * would get them, each at a multiple of 8 bytes.
 */
#include <weir/ascendcl.h>

#include "process/process.h"

#include <stdlib.h>
#include <string.h>

enum { ARGUMENT_ALIGNMENT = 8, HOOK_RANGES = 64 };

struct function {
    struct function *next;
    uint64_t entry;
    char name[];
};

struct binary {
    struct binary *next;
    struct function *functions;
};

/* Arguments that a program appends, and buffers that the place holders among them point to. */
struct buffer {
    struct buffer *next;
    unsigned char bytes[];
};

struct arguments {
    struct arguments *next;
    const struct binary *binary; /* unloading this binary frees the arguments: many launches may use them */
    unsigned char *bytes;
    size_t size;
    struct buffer *buffers;
};

static struct binary *binaries;
static struct arguments *all_arguments;
static _Atomic(weir_ascendcl_kernel_hook) hook; /* written with the lock held */
static void *hook_ctx;

ACL_EXPORT void weir_ascendcl_set_kernel_hook(weir_ascendcl_kernel_hook function, void *ctx)
{
    if (acl__start() != ACL_SUCCESS) {
        return;
    }
    ACL_HOLD_LOCK();
    atomic_store(&hook, function);
    hook_ctx = ctx;
}

#define NEED_HOOK(name)                                                                                                \
    do {                                                                                                               \
        if (atomic_load(&hook) == NULL) {                                                                              \
            return acl__not_simulated(ACL_FN_##name);                                                                  \
        }                                                                                                              \
    } while (0)

/* --- binaries and functions --- */

static struct binary **binary_link(const void *handle)
{
    WEIR_ASSERT_HELD(acl__mutex());
    struct binary **link = &binaries;
    while (*link != NULL && *link != handle) {
        link = &(*link)->next;
    }
    return link;
}

/* Returns the function of a handle and stores the function's binary. Returns NULL if there is no such function. */
static const struct function *function_of(const void *handle, const struct binary **binary)
{
    WEIR_ASSERT_HELD(acl__mutex());
    for (const struct binary *b = binaries; b != NULL; b = b->next) {
        for (const struct function *f = b->functions; f != NULL; f = f->next) {
            if (f == handle) {
                *binary = b;
                return f;
            }
        }
    }
    return NULL;
}

static aclError binary_create(aclrtBinHandle *handle, const char *name)
{
    WEIR_ASSERT_HELD(acl__mutex());
    struct binary *b = calloc(1, sizeof(*b));
    ACL_FAIL_IF(b == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: no host memory", name);
    b->next = binaries;
    binaries = b;
    *handle = b;
    return ACL_SUCCESS;
}

/* Finds or creates the function of a binary that has this name, or this entry if `name` is "". */
static aclError find_function(const aclrtBinHandle handle, const char *name, uint64_t entry, aclrtFuncHandle *function,
                              const char *caller)
{
    WEIR_ASSERT_HELD(acl__mutex());
    struct binary *b = *binary_link(handle);
    ACL_FAIL_IF(b == NULL, ACL_ERROR_RT_PARAM_INVALID, "%s: binHandle is no loaded binary", caller);
    struct function *f = b->functions;
    while (f != NULL && (strcmp(f->name, name) != 0 || f->entry != entry)) {
        f = f->next;
    }
    if (f == NULL) {
        const size_t bytes = strlen(name) + 1;
        f = calloc(1, sizeof(*f) + bytes);
        ACL_FAIL_IF(f == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: no host memory", caller);
        f->entry = entry;
        memcpy(f->name, name, bytes);
        f->next = b->functions;
        b->functions = f;
    }
    *function = f;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtBinaryLoadFromFile(const char *binPath, aclrtBinaryLoadOptions *options,
                                            aclrtBinHandle *binHandle)
{
    ACL_ENTER_LOCKED(aclrtBinaryLoadFromFile);
    (void)options;
    NEED_HOOK(aclrtBinaryLoadFromFile);
    ACL_NEED(binPath);
    ACL_NEED(binHandle);
    return binary_create(binHandle, __func__);
}

ACL_EXPORT aclError aclrtBinaryLoadFromData(const void *data, size_t length, const aclrtBinaryLoadOptions *options,
                                            aclrtBinHandle *binHandle)
{
    ACL_ENTER_LOCKED(aclrtBinaryLoadFromData);
    (void)options;
    NEED_HOOK(aclrtBinaryLoadFromData);
    ACL_NEED(data);
    ACL_NEED(binHandle);
    ACL_REFUSE_IF(length == 0, ACL_ERROR_INVALID_PARAM, "length is 0");
    return binary_create(binHandle, __func__);
}

ACL_EXPORT aclError aclrtBinaryGetFunction(const aclrtBinHandle binHandle, const char *kernelName,
                                           aclrtFuncHandle *funcHandle)
{
    ACL_ENTER_LOCKED(aclrtBinaryGetFunction);
    NEED_HOOK(aclrtBinaryGetFunction);
    ACL_NEED(kernelName);
    ACL_NEED(funcHandle);
    return find_function(binHandle, kernelName, 0, funcHandle, __func__);
}

ACL_EXPORT aclError aclrtBinaryGetFunctionByEntry(aclrtBinHandle binHandle, uint64_t funcEntry,
                                                  aclrtFuncHandle *funcHandle)
{
    ACL_ENTER_LOCKED(aclrtBinaryGetFunctionByEntry);
    NEED_HOOK(aclrtBinaryGetFunctionByEntry);
    ACL_NEED(funcHandle);
    return find_function(binHandle, "", funcEntry, funcHandle, __func__);
}

ACL_EXPORT aclError aclrtGetFunctionName(aclrtFuncHandle funcHandle, uint32_t maxLen, char *name)
{
    ACL_ENTER_LOCKED(aclrtGetFunctionName);
    NEED_HOOK(aclrtGetFunctionName);
    ACL_NEED(name);
    const struct binary *binary = NULL;
    const struct function *f = function_of(funcHandle, &binary);
    ACL_REFUSE_IF(f == NULL, ACL_ERROR_RT_PARAM_INVALID, "funcHandle is no function of a loaded binary");
    ACL_REFUSE_IF(strlen(f->name) >= maxLen, ACL_ERROR_RT_PARAM_INVALID, "the name has %zu bytes, not %u",
                  strlen(f->name) + 1, maxLen);
    memcpy(name, f->name, strlen(f->name) + 1);
    return ACL_SUCCESS;
}

/* Frees the arguments of a binary's functions. */
static void arguments_end(const struct binary *binary)
{
    WEIR_ASSERT_HELD(acl__mutex());
    for (struct arguments **link = &all_arguments; *link != NULL;) {
        struct arguments *a = *link;
        if (a->binary != binary) {
            link = &a->next;
            continue;
        }
        *link = a->next;
        while (a->buffers != NULL) {
            struct buffer *b = a->buffers;
            a->buffers = b->next;
            free(b);
        }
        free(a->bytes);
        free(a);
    }
}

ACL_EXPORT aclError aclrtBinaryUnLoad(aclrtBinHandle binHandle)
{
    ACL_ENTER_LOCKED(aclrtBinaryUnLoad);
    NEED_HOOK(aclrtBinaryUnLoad);
    struct binary **link = binary_link(binHandle);
    struct binary *b = *link;
    ACL_REFUSE_IF(b == NULL, ACL_ERROR_RT_PARAM_INVALID, "binHandle is no loaded binary");
    *link = b->next;
    arguments_end(b);
    while (b->functions != NULL) {
        struct function *f = b->functions;
        b->functions = f->next;
        free(f);
    }
    free(b);
    return ACL_SUCCESS;
}

/* --- arguments --- */

static struct arguments **arguments_link(const void *handle)
{
    WEIR_ASSERT_HELD(acl__mutex());
    struct arguments **link = &all_arguments;
    while (*link != NULL && *link != handle) {
        link = &(*link)->next;
    }
    return link;
}

static aclError arguments_of(aclrtArgsHandle handle, struct arguments **a, const char *name)
{
    *a = *arguments_link(handle);
    return *a != NULL ? ACL_SUCCESS : acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: argsHandle is no such handle", name);
}

/* A parameter's handle is its position plus one, so that it is not NULL. */
static void *position_handle(size_t position)
{
    return (void *)(uintptr_t)(position + 1); // NOLINT(performance-no-int-to-ptr)
}

static aclError position_of(const struct arguments *a, aclrtParamHandle handle, size_t size, size_t *position,
                            const char *name)
{
    WEIR_ASSERT(a->size == 0 || a->bytes != NULL);
    const uintptr_t value = (uintptr_t)handle;
    ACL_FAIL_IF(value == 0 || value - 1 > a->size || size > a->size - (value - 1), ACL_ERROR_RT_PARAM_INVALID,
                "%s: paramHandle is no parameter of %zu bytes", name, size);
    *position = value - 1;
    return ACL_SUCCESS;
}

static aclError append(struct arguments *a, const void *from, size_t size, aclrtParamHandle *handle, const char *name)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(a->size % ARGUMENT_ALIGNMENT == 0);
    const size_t start = a->size;
    ACL_FAIL_IF(size > SIZE_MAX / 2 - start, ACL_ERROR_INVALID_PARAM, "%s: %zu bytes are too many", name, size);
    const size_t end = (start + size + ARGUMENT_ALIGNMENT - 1) / ARGUMENT_ALIGNMENT * ARGUMENT_ALIGNMENT;
    unsigned char *bytes = realloc(a->bytes, end);
    ACL_FAIL_IF(bytes == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: no host memory", name);
    memset(bytes + start, 0, end - start);
    if (from != NULL) {
        memcpy(bytes + start, from, size);
    }
    a->bytes = bytes;
    a->size = end;
    *handle = position_handle(start);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtKernelArgsInit(aclrtFuncHandle funcHandle, aclrtArgsHandle *argsHandle)
{
    ACL_ENTER_LOCKED(aclrtKernelArgsInit);
    NEED_HOOK(aclrtKernelArgsInit);
    ACL_NEED(argsHandle);
    const struct binary *binary = NULL;
    ACL_REFUSE_IF(function_of(funcHandle, &binary) == NULL, ACL_ERROR_RT_PARAM_INVALID,
                  "funcHandle is no function of a loaded binary");
    struct arguments *a = calloc(1, sizeof(*a));
    ACL_REFUSE_IF(a == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory");
    a->binary = binary;
    a->next = all_arguments;
    all_arguments = a;
    *argsHandle = a;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtKernelArgsAppend(aclrtArgsHandle argsHandle, void *param, size_t paramSize,
                                          aclrtParamHandle *paramHandle)
{
    ACL_ENTER_LOCKED(aclrtKernelArgsAppend);
    NEED_HOOK(aclrtKernelArgsAppend);
    ACL_NEED(param);
    ACL_NEED(paramHandle);
    ACL_REFUSE_IF(paramSize == 0, ACL_ERROR_INVALID_PARAM, "paramSize is 0");
    struct arguments *a = NULL;
    ACL_TRY(arguments_of(argsHandle, &a, __func__));
    return append(a, param, paramSize, paramHandle, __func__);
}

ACL_EXPORT aclError aclrtKernelArgsAppendPlaceHolder(aclrtArgsHandle argsHandle, aclrtParamHandle *paramHandle)
{
    ACL_ENTER_LOCKED(aclrtKernelArgsAppendPlaceHolder);
    NEED_HOOK(aclrtKernelArgsAppendPlaceHolder);
    ACL_NEED(paramHandle);
    struct arguments *a = NULL;
    ACL_TRY(arguments_of(argsHandle, &a, __func__));
    return append(a, NULL, sizeof(void *), paramHandle, __func__);
}

/* The place holder becomes the buffer's address, which the hook may read. */
ACL_EXPORT aclError aclrtKernelArgsGetPlaceHolderBuffer(aclrtArgsHandle argsHandle, aclrtParamHandle paramHandle,
                                                        size_t dataSize, void **bufferAddr)
{
    ACL_ENTER_LOCKED(aclrtKernelArgsGetPlaceHolderBuffer);
    NEED_HOOK(aclrtKernelArgsGetPlaceHolderBuffer);
    ACL_NEED(bufferAddr);
    struct arguments *a = NULL;
    size_t position = 0;
    ACL_TRY(arguments_of(argsHandle, &a, __func__));
    ACL_TRY(position_of(a, paramHandle, sizeof(void *), &position, __func__));
    struct buffer *b = dataSize <= SIZE_MAX / 2 ? calloc(1, sizeof(*b) + dataSize) : NULL;
    ACL_REFUSE_IF(b == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory");
    b->next = a->buffers;
    a->buffers = b;
    *bufferAddr = b->bytes;
    memcpy(a->bytes + position, bufferAddr, sizeof(*bufferAddr));
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtKernelArgsParaUpdate(aclrtArgsHandle argsHandle, aclrtParamHandle paramHandle, void *param,
                                              size_t paramSize)
{
    ACL_ENTER_LOCKED(aclrtKernelArgsParaUpdate);
    NEED_HOOK(aclrtKernelArgsParaUpdate);
    ACL_NEED(param);
    struct arguments *a = NULL;
    size_t position = 0;
    ACL_TRY(arguments_of(argsHandle, &a, __func__));
    ACL_TRY(position_of(a, paramHandle, paramSize, &position, __func__));
    memcpy(a->bytes + position, param, paramSize);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtKernelArgsFinalize(aclrtArgsHandle argsHandle)
{
    ACL_ENTER_LOCKED(aclrtKernelArgsFinalize);
    NEED_HOOK(aclrtKernelArgsFinalize);
    struct arguments *a = NULL;
    return arguments_of(argsHandle, &a, __func__);
}

/* --- launches --- */

/* Calls the program's kernel hook without the runtime's lock, and queues the kernel that the hook describes. */
static aclError launch(aclrtFuncHandle handle, uint32_t blocks, const void *bytes, size_t size, aclrtStream stream,
                       const char *name)
{
    weir_ascendcl_range ranges[HOOK_RANGES];
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    weir_ascendcl_loaded_kernel loaded = {.struct_size = sizeof(loaded),
                                          .blocks = blocks,
                                          .stream = stream,
                                          .arguments = bytes,
                                          .arguments_size = size,
                                          .ranges = ranges,
                                          .range_room = HOOK_RANGES};
    weir_ascendcl_kernel_hook ask = NULL;
    void *ctx = NULL;
    {
        ACL_HOLD_LOCK();
        const struct binary *binary = NULL;
        const struct function *f = function_of(handle, &binary);
        ACL_FAIL_IF(f == NULL, ACL_ERROR_RT_PARAM_INVALID, "%s: funcHandle is no function of a loaded binary", name);
        ACL_FAIL_IF(blocks == 0, ACL_ERROR_RT_PARAM_INVALID, "%s: numBlocks is 0", name);
        loaded.name = f->name; /* valid as long as the binary is loaded, and so during this launch */
        loaded.entry = f->entry;
        ask = atomic_load(&hook);
        ctx = hook_ctx;
    }
    kernel.tag = loaded.name;
    kernel.ranges = ranges;
    const aclError error = ask != NULL ? ask(ctx, &loaded, &kernel) : ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    ACL_FAIL_IF(error != ACL_SUCCESS, error, "%s: the hook refuses the kernel \"%s\"", name, loaded.name);
    return acl__launch_described(stream, &kernel);
}

ACL_EXPORT aclError aclrtLaunchKernel(aclrtFuncHandle funcHandle, uint32_t numBlocks, const void *argsData,
                                      size_t argsSize, aclrtStream stream)
{
    ACL_ENTER(aclrtLaunchKernel);
    NEED_HOOK(aclrtLaunchKernel);
    ACL_REFUSE_IF(argsData == NULL && argsSize > 0, ACL_ERROR_INVALID_PARAM, "argsData is NULL");
    return launch(funcHandle, numBlocks, argsData, argsSize, stream, __func__);
}

ACL_EXPORT aclError aclrtLaunchKernelV2(aclrtFuncHandle funcHandle, uint32_t numBlocks, const void *argsData,
                                        size_t argsSize, aclrtLaunchKernelCfg *cfg, aclrtStream stream)
{
    ACL_ENTER(aclrtLaunchKernelV2);
    (void)cfg;
    NEED_HOOK(aclrtLaunchKernelV2);
    ACL_REFUSE_IF(argsData == NULL && argsSize > 0, ACL_ERROR_INVALID_PARAM, "argsData is NULL");
    return launch(funcHandle, numBlocks, argsData, argsSize, stream, __func__);
}

ACL_EXPORT aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle funcHandle, uint32_t numBlocks, aclrtStream stream,
                                                  aclrtLaunchKernelCfg *cfg, void *hostArgs, size_t argsSize,
                                                  aclrtPlaceHolderInfo *placeHolderArray, size_t placeHolderNum)
{
    ACL_ENTER(aclrtLaunchKernelWithHostArgs);
    (void)cfg;
    NEED_HOOK(aclrtLaunchKernelWithHostArgs);
    ACL_REFUSE_IF((hostArgs == NULL && argsSize > 0) || (placeHolderArray == NULL && placeHolderNum > 0),
                  ACL_ERROR_INVALID_PARAM, "hostArgs or placeHolderArray is NULL");
    unsigned char *bytes = argsSize > 0 ? malloc(argsSize) : NULL;
    ACL_REFUSE_IF(bytes == NULL && argsSize > 0, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory");
    aclError error = ACL_SUCCESS;
    if (argsSize > 0) {
        memcpy(bytes, hostArgs, argsSize);
    }
    for (size_t i = 0; i < placeHolderNum && error == ACL_SUCCESS; i++) {
        const aclrtPlaceHolderInfo *p = &placeHolderArray[i];
        const bool fits =
            argsSize >= sizeof(void *) && p->addrOffset <= argsSize - sizeof(void *) && p->dataOffset < argsSize;
        const void *data = fits ? bytes + p->dataOffset : NULL;
        if (fits) {
            memcpy(bytes + p->addrOffset, &data, sizeof(data));
        } else {
            error = acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: place holder %zu lies outside of the arguments",
                              __func__, i);
        }
    }
    if (error == ACL_SUCCESS) {
        error = launch(funcHandle, numBlocks, bytes, argsSize, stream, __func__);
    }
    free(bytes);
    return error;
}

ACL_EXPORT aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle funcHandle, uint32_t numBlocks, aclrtStream stream,
                                                aclrtLaunchKernelCfg *cfg, aclrtArgsHandle argsHandle, void *reserve)
{
    ACL_ENTER(aclrtLaunchKernelWithConfig);
    (void)cfg;
    (void)reserve;
    NEED_HOOK(aclrtLaunchKernelWithConfig);
    unsigned char *bytes = NULL;
    size_t size = 0;
    {
        ACL_HOLD_LOCK();
        struct arguments *a = NULL;
        ACL_TRY(arguments_of(argsHandle, &a, __func__));
        size = a->size;
        bytes = size > 0 ? malloc(size) : NULL;
        ACL_REFUSE_IF(bytes == NULL && size > 0, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory");
        if (size > 0) {
            memcpy(bytes, a->bytes, size);
        }
    }
    const aclError error = launch(funcHandle, numBlocks, bytes, size, stream, __func__);
    free(bytes);
    return error;
}
