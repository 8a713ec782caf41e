/* weir/ascendcl.h: what the simulated ACL runtime offers beyond ACL: kernels, virtual time, the auditor, figures.
 *
 * For tests and for the curious. A program that is to run with the vendor's library as well asks for these functions by
 * dlsym(RTLD_DEFAULT, ...), or is built in two ways. All of them are thread-safe, start the runtime when they come
 * first, are not counted as calls and are never struck by faults. Those that return an aclError leave a sentence for
 * aclGetRecentErrMsg, as the ACL functions do.
 */
#ifndef WEIR_ASCENDCL_H
#define WEIR_ASCENDCL_H

#include <acl/acl.h>
#include <weir/base.h>

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- kernels --- */

/* Memory that a kernel touches. Of the device: it is judged; pinned or registered host memory is not. */
typedef struct weir_ascendcl_range {
    const void *address;
    size_t size;
    bool write;
} weir_ascendcl_range;

/* A function that takes a kernel's place. */
typedef struct weir_ascendcl_kernel {
    size_t struct_size;
    uint64_t duration_ns;              /* on its stream */
    const char *tag;                   /* for findings; copied; NULL = none */
    const weir_ascendcl_range *ranges; /* copied; what is not named is not judged */
    size_t range_count;
    /* Called once virtual time reaches the kernel's end, in whichever thread moves it there. It may read and write
     * device memory by its addresses, and must not call ACL or wait for another thread. What it returns other than
     * ACL_SUCCESS is the stream's error, as a device's fault would be: 507015 for one. NULL = nothing is computed. */
    aclError (*compute)(void *ctx);
    /* Called exactly once: after `compute`, or instead when the kernel is dropped or cannot be queued. A kernel with it
     * cannot be repeated by aclmdlRIExecuteAsync. NULL = nobody has to know. */
    void (*end)(void *ctx);
    void *ctx;
} weir_ascendcl_kernel;

#define WEIR_ASCENDCL_KERNEL_INIT WEIR_STRUCT_INIT(weir_ascendcl_kernel)

/* Queues a kernel on a stream, NULL being the default one. 100000: no kernel, a count of ranges without ranges, or
 * members that this library does not know (then `end` is not called); else what any call on a stream returns. */
ACL_FUNC_VISIBILITY aclError weir_ascendcl_launch(aclrtStream stream, const weir_ascendcl_kernel *kernel);

/* --- virtual time --- */

/* In nanoseconds since the runtime started. */
ACL_FUNC_VISIBILITY uint64_t weir_ascendcl_now(void);
/* The host does something else for `ns`: what is due on the way happens, one after another. Functions that threads have
 * to run (callbacks) are handed to them and not waited for. */
ACL_FUNC_VISIBILITY void weir_ascendcl_advance(uint64_t ns);

/* --- the auditor --- */

/* What an allocator of the program's does with device memory: it hands out a block, in the order of a stream (NULL: the
 * default one), or gets one back, named by its first address. The executors announce what they get from a registered
 * allocator themselves. */
ACL_FUNC_VISIBILITY aclError weir_ascendcl_block_alloc(const void *address, size_t size,
                                                       aclrtStream stream, const char *tag);
ACL_FUNC_VISIBILITY aclError weir_ascendcl_block_free(const void *address, aclrtStream stream,
                                                      const char *tag);

/* How many findings of one kind, "early_reuse" for example (the names are in the simulator's sim.h), there are; NULL =
 * of all kinds; 0 for a kind that there is not. */
ACL_FUNC_VISIBILITY uint64_t weir_ascendcl_finding_count(const char *kind);
/* The sentence of the i-th finding that was kept, cut to fit `size` bytes with its final 0; false past the end, and
 * then *text is "". `text` may be NULL when `size` is 0. */
ACL_FUNC_VISIBILITY bool weir_ascendcl_finding(size_t index, char *text, size_t size);
/* Its kind, "early_reuse" for example; "" past the end. Never NULL. */
ACL_FUNC_VISIBILITY const char *weir_ascendcl_finding_kind(size_t index);

/* How often the runtime warned of something that the vendor tolerates and that goes wrong one day: warnings whose sentence
 * (as the report has it) contains `part`; NULL = all. */
ACL_FUNC_VISIBILITY uint64_t weir_ascendcl_warning_count(const char *part);

/* --- figures --- */

/* How often a function was called, failures included; NULL = all together; 0 for a name that is none. */
ACL_FUNC_VISIBILITY uint64_t weir_ascendcl_calls(const char *function);
/* How often device memory or addresses for it were taken, given back, mapped or unmapped, by the program or inside the
 * runtime; failures included. */
ACL_FUNC_VISIBILITY uint64_t weir_ascendcl_memory_calls(void);
/* Memory of a device that is allocated now, and the most that was, in bytes of whole pages; 0 for a device that there is
 * not. */
ACL_FUNC_VISIBILITY uint64_t weir_ascendcl_held_bytes(int32_t device);
ACL_FUNC_VISIBILITY uint64_t weir_ascendcl_peak_bytes(int32_t device);
/* The most that operators and models have held at once in workspaces and intermediate tensors, whoever gave it to them: what
 * an allocator's peak is to be compared with. */
ACL_FUNC_VISIBILITY uint64_t weir_ascendcl_tensor_peak_bytes(void);
/* Writes what aclFinalize would print. NULL is allowed and writes nothing. */
ACL_FUNC_VISIBILITY void weir_ascendcl_report(FILE *file);

#ifdef __cplusplus
}
#endif

#endif
