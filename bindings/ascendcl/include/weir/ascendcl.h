/* weir/ascendcl.h: functions of the simulated ACL runtime beyond ACL: kernels, virtual time, the auditor, figures.
 *
 * For tests and experiments. A program that also runs with the vendor's library looks these functions up with
 * dlsym(RTLD_DEFAULT, ...), or is built in two ways. All functions are thread-safe and start the runtime when it is not
 * running. They are not counted as calls, and injected faults never strike them. A function that returns an aclError
 * leaves a sentence for aclGetRecentErrMsg, as the ACL functions do.
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

/* Memory that a kernel touches. The auditor judges device memory only, not pinned or registered host memory. */
typedef struct weir_ascendcl_range {
    const void *address;
    size_t size;
    bool write;
} weir_ascendcl_range;

/* A host function that stands for a kernel. */
typedef struct weir_ascendcl_kernel {
    size_t struct_size;
    uint64_t duration_ns;              /* time that the kernel takes on its stream */
    const char *tag;                   /* name of the kernel in the auditor's findings; copied; NULL = none */
    const weir_ascendcl_range *ranges; /* copied; the auditor judges only the memory that these ranges name */
    size_t range_count;
    /* Called once virtual time reaches the kernel's end, in the thread that moves time to this end. It may read and
     * write device memory by its addresses, and must not call ACL or wait for another thread. A result other than
     * ACL_SUCCESS becomes the stream's error, as a device fault would (507015 for example). NULL = nothing is
     * computed. */
    aclError (*compute)(void *ctx);
    /* Called exactly once: after `compute`, or instead of it when the kernel is dropped or cannot be queued. A captured
     * stream refuses a kernel with this function (207000). NULL = no notification. */
    void (*end)(void *ctx);
    void *ctx;
} weir_ascendcl_kernel;

#define WEIR_ASCENDCL_KERNEL_INIT WEIR_STRUCT_INIT(weir_ascendcl_kernel)

/* Queues a kernel on a stream; a NULL stream is the default one. Returns 100000 if the kernel is NULL, if it has a
 * count of ranges but no ranges, or if it has members that this library does not know (then `end` is not called). Other
 * codes are those of any call on a stream. */
ACL_FUNC_VISIBILITY aclError weir_ascendcl_launch(aclrtStream stream, const weir_ascendcl_kernel *kernel);

/* A launch of a kernel that the program loaded (aclrtBinaryLoadFromFile and its relatives). */
typedef struct weir_ascendcl_loaded_kernel {
    size_t struct_size;
    const char *name; /* name given to aclrtBinaryGetFunction; "" for a function found by its entry */
    uint64_t entry;   /* entry given to aclrtBinaryGetFunctionByEntry; 0 for a function found by its name */
    uint32_t blocks;
    aclrtStream stream;
    const void *arguments; /* the launch's arguments, each at a multiple of 8 bytes; valid during the hook's call */
    size_t arguments_size;
    weir_ascendcl_range *ranges; /* array of the runtime, to which the hook may write the kernel's ranges */
    size_t range_room;
} weir_ascendcl_loaded_kernel;

/* Describes a loaded kernel: its duration, the memory it reads and writes, its computation. `kernel` comes as
 * WEIR_ASCENDCL_KERNEL_INIT, tagged with the kernel's name, and its ranges are loaded->ranges. The hook sets the
 * duration, the count of ranges and any other member. Ranges of its own have to live until the launch has returned. A
 * result other than ACL_SUCCESS becomes that of the launch. The hook is called once for each launch, in the thread that
 * launches, and may call ACL. */
typedef aclError (*weir_ascendcl_kernel_hook)(void *ctx, const weir_ascendcl_loaded_kernel *loaded,
                                              weir_ascendcl_kernel *kernel);

/* Sets the hook of the process; NULL removes it. With a hook, kernels can be loaded (no file is read) and launched, and
 * the auditor judges them by the hook's ranges. Without a hook, the functions that load and launch kernels return
 * 207000. Set it before the program loads kernels, and keep it until the last launch. */
ACL_FUNC_VISIBILITY void weir_ascendcl_set_kernel_hook(weir_ascendcl_kernel_hook hook, void *ctx);

/* --- virtual time --- */

/* Returns the virtual time in nanoseconds since the runtime started. */
ACL_FUNC_VISIBILITY uint64_t weir_ascendcl_now(void);
/* Lets `ns` of host time pass. Work that ends within that time happens in order of its end. Callbacks are passed to the
 * program's threads that run them; this call does not wait for them. */
ACL_FUNC_VISIBILITY void weir_ascendcl_advance(uint64_t ns);

/* --- the auditor --- */

/* Tell the auditor that an allocator of the program hands out a block of device memory, or gets it back, in the order
 * of a stream (NULL: the default one). The block's first address names the block. The executors announce blocks of a
 * registered allocator themselves. */
ACL_FUNC_VISIBILITY aclError weir_ascendcl_block_alloc(const void *address, size_t size, aclrtStream stream,
                                                       const char *tag);
ACL_FUNC_VISIBILITY aclError weir_ascendcl_block_free(const void *address, aclrtStream stream, const char *tag);

/* Returns the number of findings of one kind, "early_reuse" for example (the simulator's sim.h lists the kinds); NULL =
 * of all kinds; 0 for an unknown kind. */
ACL_FUNC_VISIBILITY uint64_t weir_ascendcl_finding_count(const char *kind);
/* Copies the sentence of the kept finding number `index` (from 0) to `text`, cut to fit `size` bytes with its final 0.
 * Returns false past the end, and then *text is "". `text` may be NULL when `size` is 0. */
ACL_FUNC_VISIBILITY bool weir_ascendcl_finding(size_t index, char *text, size_t size);
/* Returns the kind of the kept finding number `index`, "early_reuse" for example; "" past the end. Never NULL. */
ACL_FUNC_VISIBILITY const char *weir_ascendcl_finding_kind(size_t index);

/* Returns how often the runtime warned of a practice that the vendor tolerates and that can fail later. Counts the
 * warnings whose sentence in the report contains `part`; NULL = all. */
ACL_FUNC_VISIBILITY uint64_t weir_ascendcl_warning_count(const char *part);

/* --- faults --- */

/* Makes calls fail, as the environment's do: `count` calls of `function` (NULL: of any function), the `nth` from
 * now on and those after it. All faults that were set before end; with `count` 0 no call fails any more. Returns how
 * many calls have failed since the last call of this function. No other thread may be in a call of the runtime. */
ACL_FUNC_VISIBILITY uint64_t weir_ascendcl_fail(const char *function, uint64_t nth, uint64_t count);

/* --- figures --- */

/* Returns how often a function was called, failures included; NULL = all functions together; 0 for an unknown name. */
ACL_FUNC_VISIBILITY uint64_t weir_ascendcl_calls(const char *function);
/* Returns how often device memory or device addresses were taken, given back, mapped or unmapped, by the program or
 * inside the runtime, failures included. */
ACL_FUNC_VISIBILITY uint64_t weir_ascendcl_memory_calls(void);
/* Return the bytes of a device's memory that are allocated now, and their peak, in whole pages; 0 for an unknown
 * device. */
ACL_FUNC_VISIBILITY uint64_t weir_ascendcl_held_bytes(int32_t device);
ACL_FUNC_VISIBILITY uint64_t weir_ascendcl_peak_bytes(int32_t device);
/* Returns the peak of the bytes that operators and models held in workspaces and intermediate tensors, from any
 * allocator. An allocator's peak is compared with it. */
ACL_FUNC_VISIBILITY uint64_t weir_ascendcl_tensor_peak_bytes(void);
/* Writes the report that aclFinalize prints. Does nothing if the file is NULL. */
ACL_FUNC_VISIBILITY void weir_ascendcl_report(FILE *file);

#ifdef __cplusplus
}
#endif

#endif
