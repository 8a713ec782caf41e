/* weir/onnxruntime.h: a heap as the allocator of ONNX Runtime.
 *
 *     weir_onnxruntime_config config = WEIR_ONNXRUNTIME_CONFIG_INIT;
 *     config.heap = heap;
 *     config.runtime = OrtGetApiBase();
 *     weir_onnxruntime_create(&config, &binding);
 *     weir_onnxruntime_attach(binding, env);                        from CreateEnv
 *     weir_onnxruntime_session_options(binding, options, 0);        before CreateSession
 *     ... sessions with these options, Run, ReleaseSession ...
 *     weir_onnxruntime_detach(binding, env);
 *     ... ReleaseEnv ...
 *     weir_onnxruntime_destroy(binding);
 *
 * Tensors of such sessions come from weir_heap_alloc, weights (the engine's Reserve calls) from
 * weir_heap_alloc_long_lived. Some memory stays on the engine's own heap: the graph, and weights that it repacks for
 * its kernels, unless WEIR_ONNXRUNTIME_NO_PREPACKING.
 *
 * Out of memory. ONNX Runtime does not check whether a registered allocator returned NULL: a kernel would write to it.
 * So when the heap cannot serve a request (idle memory has gone back and `reclaim` has returned false by then) the
 * binding throws std::bad_alloc, with the heap's explanation, through the frames of the engine, which returns a clean
 * OrtStatus. The allocator never returns NULL to any caller: a program that calls OrtAllocator.Alloc itself, rather
 * than through the API (AllocatorAlloc, CreateTensorAsOrtValue), must catch the exception.
 *
 * This header needs no header of ONNX Runtime and may be included before or after it: it names the engine's structs and
 * defines none. Nothing of ONNX Runtime is linked: the binding calls through OrtApiBase.
 *
 * ONNX Runtime has one environment in a process, however often CreateEnv is called, and in it one allocator for each
 * kind of memory. More than one binding is useful for further copies of the runtime, for other kinds of memory
 * (`memory_info`), or for tensors that the program makes itself (weir_onnxruntime_allocator, no attach).
 *
 * Thread safety: every function may be called from any thread, except weir_onnxruntime_destroy.
 */
#ifndef WEIR_ONNXRUNTIME_H
#define WEIR_ONNXRUNTIME_H

#include <weir/base.h>
#include <weir/heap.h>

#ifdef __cplusplus
extern "C" {
#endif

struct OrtAllocator;
struct OrtApiBase;
struct OrtEnv;
struct OrtMemoryInfo;
struct OrtSessionOptions;

typedef struct weir_onnxruntime weir_onnxruntime;

enum {
    /* For config.flags: the binding never calls glibc's malloc_trim. The engine reads a model into memory of malloc and
     * frees it while it allocates weights; without a trim that memory would stay resident beside the heap. So by
     * default the binding trims each time that the weights have grown by an eighth plus 1 MiB, and at the first tensor
     * after a weight. In a steady state it does not trim. */
    WEIR_ONNXRUNTIME_NO_MALLOC_TRIM = 1u << 0,
};

typedef struct weir_onnxruntime_config {
    size_t struct_size;
    weir_heap *heap;                  /* required, borrowed, must outlive the binding */
    const struct OrtApiBase *runtime; /* required: the result of OrtGetApiBase() */
    /* Describes the heap's memory; borrowed, must outlive the binding. NULL = the CPU's memory. */
    const struct OrtMemoryInfo *memory_info;
    uint32_t flags; /* 0 or WEIR_ONNXRUNTIME_NO_MALLOC_TRIM */
} weir_onnxruntime_config;

#define WEIR_ONNXRUNTIME_CONFIG_INIT WEIR_STRUCT_INIT(weir_onnxruntime_config)

/* Makes an allocator over the heap; sessions use it after weir_onnxruntime_attach. WEIR_ERR_INVALID: the config, its
 * heap or its runtime is NULL, or a flag is unknown. WEIR_ERR_UNSUPPORTED: a runtime before 1.12, or an unreadable
 * version. WEIR_ERR_NO_MEMORY: no host memory. WEIR_ERR_DEVICE: the runtime does not describe the CPU's memory. */
WEIR_API weir_status weir_onnxruntime_create(const weir_onnxruntime_config *config, weir_onnxruntime **binding);

/* Destroys the binding, not the heap. NULL is allowed. No session or environment may use the binding any more: release
 * sessions and values, then detach, then destroy. WEIR_ERR_BUSY: it is attached, or blocks that it gave out are live;
 * nothing has changed. (A session between two Runs may hold no block; the binding cannot detect such a session.) */
WEIR_API weir_status weir_onnxruntime_destroy(weir_onnxruntime *binding);

/* Registers the allocator with an environment: sessions with weir_onnxruntime_session_options use it from then on.
 *
 * WEIR_ERR_INVALID: an argument is NULL. WEIR_ERR_BUSY: this binding is attached already, or another binding is
 * attached to this environment for the same memory. (The runtime itself would silently replace the other allocator, and
 * does so with allocators that are no bindings.) WEIR_ERR_DEVICE: the runtime refused; weir_onnxruntime_explain has its
 * message. */
WEIR_API weir_status weir_onnxruntime_attach(weir_onnxruntime *binding, struct OrtEnv *env);

/* Unregisters the allocator. Existing sessions keep using it, so release them first. `env` is the environment that the
 * binding is attached to; pass NULL if it has already been released, so that the binding does not call it.
 * WEIR_ERR_INVALID: the binding is not attached, or is attached to another environment. WEIR_ERR_DEVICE: the runtime
 * refused; the binding stays attached. */
WEIR_API weir_status weir_onnxruntime_detach(weir_onnxruntime *binding, struct OrtEnv *env);

enum {
    /* A flag for weir_onnxruntime_session_options: kernels use the weights as the model stores them, without repacking.
     * All weights then come from the heap, and none is held twice. Kernels that would have repacked their weights run
     * more slowly. */
    WEIR_ONNXRUNTIME_NO_PREPACKING = 1u << 0,
};

/* Makes sessions with these options use the environment's allocators, for weights too.
 *
 * WEIR_ERR_INVALID: an argument is NULL, or a flag is unknown. WEIR_ERR_DEVICE: the runtime refused;
 * weir_onnxruntime_explain has its message. */
WEIR_API weir_status weir_onnxruntime_session_options(weir_onnxruntime *binding, struct OrtSessionOptions *options,
                                                      uint32_t flags);

/* Returns the binding's allocator, for CreateTensorAsOrtValue and similar functions; valid until
 * weir_onnxruntime_destroy. Returns NULL if `binding` is NULL. */
WEIR_API struct OrtAllocator *weir_onnxruntime_allocator(weir_onnxruntime *binding);

/* Writes, like snprintf, the runtime's message of the last WEIR_ERR_DEVICE of this binding. Writes an empty string if
 * there was none. */
WEIR_API size_t weir_onnxruntime_explain(weir_onnxruntime *binding, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
