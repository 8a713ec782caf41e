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
 * Tensors of such sessions come from weir_heap_alloc, weights (what the engine calls Reserve) from
 * weir_heap_alloc_long_lived. What stays on the engine's own heap: the graph, and weights that it packs anew for its kernels,
 * unless WEIR_ONNXRUNTIME_NO_PREPACKING.
 *
 * Running out. ONNX Runtime does not look whether a registered allocator returned NULL: a kernel writes to it. So when the heap
 * has nothing (it has given back what was idle and asked its `reclaim` by then) the binding throws std::bad_alloc, with the
 * heap's explanation, through the frames of the engine, which makes a clean OrtStatus of it. The sentence "never NULL" holds for
 * whoever calls the allocator: a program that calls OrtAllocator.Alloc itself, rather than through the API (AllocatorAlloc,
 * CreateTensorAsOrtValue), must catch.
 *
 * The header needs none of ONNX Runtime's and goes together with it, before or after: it names its structs and defines none.
 * Nothing of ONNX Runtime is linked: the binding calls through OrtApiBase.
 *
 * ONNX Runtime has one environment in a process, however often CreateEnv is called, and one allocator for a kind of memory in
 * it. More bindings than one serve more copies of the runtime, other kinds of memory (`memory_info`), or tensors
 * that the program makes itself (weir_onnxruntime_allocator, no attach).
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

typedef struct weir_onnxruntime_config {
    size_t struct_size;
    weir_heap *heap;                  /* required, borrowed, must outlive the binding */
    const struct OrtApiBase *runtime; /* required: what OrtGetApiBase() returned */
    /* What the heap's memory is, borrowed likewise; NULL = that of the CPU. */
    const struct OrtMemoryInfo *memory_info;
} weir_onnxruntime_config;

#define WEIR_ONNXRUNTIME_CONFIG_INIT WEIR_STRUCT_INIT(weir_onnxruntime_config)

/* Makes an allocator of the heap. Nothing uses it yet.
 *
 * WEIR_ERR_INVALID: NULL for the config, its heap or its runtime. WEIR_ERR_UNSUPPORTED: a runtime before 1.12, or one whose
 * version cannot be read. WEIR_ERR_NO_MEMORY. WEIR_ERR_DEVICE: the runtime does not describe the CPU's memory. */
WEIR_API weir_status weir_onnxruntime_create(const weir_onnxruntime_config *config,
                                             weir_onnxruntime **binding);

/* Ends the binding, not the heap. NULL is allowed. No session or environment may go on using it: release sessions and values,
 * then detach, then destroy. WEIR_ERR_BUSY, and nothing has changed: it is attached, or blocks that it gave out are live. (A
 * session between two Runs may hold none; the binding cannot see it.) */
WEIR_API weir_status weir_onnxruntime_destroy(weir_onnxruntime *binding);

/* Registers the allocator with an environment: sessions with weir_onnxruntime_session_options use it from then on.
 *
 * WEIR_ERR_INVALID: NULL. WEIR_ERR_BUSY: it is attached already, or another binding is, to this environment and for the same
 * memory. (The runtime itself would forget the other without a word, and does so with allocators that are no bindings.)
 * WEIR_ERR_DEVICE: the runtime refused; weir_onnxruntime_error says what it said. */
WEIR_API weir_status weir_onnxruntime_attach(weir_onnxruntime *binding, struct OrtEnv *env);

/* Takes the registration back. Sessions that exist go on with the allocator, so release them first. `env` is the one of the
 * attach, or NULL when it has been released meanwhile and must not be called.
 *
 * WEIR_ERR_INVALID: not attached, or to another environment. WEIR_ERR_DEVICE: the runtime refused; still attached. */
WEIR_API weir_status weir_onnxruntime_detach(weir_onnxruntime *binding, struct OrtEnv *env);

enum {
    /* Kernels use weights as the model has them: all of them come from the heap, and none is held twice. Slower where a kernel
     * would have packed them. */
    WEIR_ONNXRUNTIME_NO_PREPACKING = 1u << 0,
};

/* Makes sessions of these options use the environment's allocators, for weights too.
 *
 * WEIR_ERR_INVALID: NULL, an unknown flag. WEIR_ERR_DEVICE: the runtime refused; weir_onnxruntime_error. */
WEIR_API weir_status weir_onnxruntime_session_options(weir_onnxruntime *binding,
                                                      struct OrtSessionOptions *options,
                                                      uint32_t flags);

/* The allocator itself, for CreateTensorAsOrtValue and its like; valid until weir_onnxruntime_destroy. NULL for NULL. */
WEIR_API struct OrtAllocator *weir_onnxruntime_allocator(weir_onnxruntime *binding);

/* Writes, as snprintf does, what the runtime said when a call of this binding last returned WEIR_ERR_DEVICE. Empty when none
 * has. */
WEIR_API size_t weir_onnxruntime_error(weir_onnxruntime *binding, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
