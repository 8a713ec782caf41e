/* controls.c: the functions of weir/ascendcl.h, for programs of weir that run on the vendor's runtime. That runtime has
 * no virtual time, no auditor and no figures, and cannot run a host function as a kernel. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#define FUNC_VISIBILITY /* exports the functions of the header */
#include <weir/ascendcl.h>

#include <time.h>

/* A kernel runs at its launch, after the work before it. */
aclError weir_ascendcl_launch(aclrtStream stream, const weir_ascendcl_kernel *kernel)
{
    if (kernel == NULL) {
        return ACL_ERROR_INVALID_PARAM;
    }
    aclError error = aclrtSynchronizeStream(stream);
    if (error == ACL_SUCCESS && kernel->compute != NULL) {
        error = kernel->compute(kernel->ctx);
    }
    if (kernel->end != NULL) {
        kernel->end(kernel->ctx);
    }
    return error;
}

uint64_t weir_ascendcl_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Host time passes by itself. */
void weir_ascendcl_advance(uint64_t ns)
{
    (void)ns;
}

aclError weir_ascendcl_block_alloc(const void *address, size_t size, aclrtStream stream, const char *tag)
{
    (void)address;
    (void)size;
    (void)stream;
    (void)tag;
    return ACL_SUCCESS;
}

aclError weir_ascendcl_block_free(const void *address, aclrtStream stream, const char *tag)
{
    (void)address;
    (void)stream;
    (void)tag;
    return ACL_SUCCESS;
}

uint64_t weir_ascendcl_finding_count(const char *kind)
{
    (void)kind;
    return 0;
}

bool weir_ascendcl_finding(size_t index, char *text, size_t size)
{
    (void)index;
    if (size > 0) {
        *text = '\0';
    }
    return false;
}

const char *weir_ascendcl_finding_kind(size_t index)
{
    (void)index;
    return "";
}

uint64_t weir_ascendcl_warning_count(const char *part)
{
    (void)part;
    return 0;
}

uint64_t weir_ascendcl_calls(const char *function)
{
    (void)function;
    return 0;
}

uint64_t weir_ascendcl_memory_calls(void)
{
    return 0;
}

uint64_t weir_ascendcl_held_bytes(int32_t device)
{
    (void)device;
    return 0;
}

uint64_t weir_ascendcl_peak_bytes(int32_t device)
{
    (void)device;
    return 0;
}

uint64_t weir_ascendcl_tensor_peak_bytes(void)
{
    return 0;
}

void weir_ascendcl_report(FILE *file)
{
    (void)file;
}
