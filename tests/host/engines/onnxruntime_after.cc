/* Includes the vendor's header after weir's, in C++: both headers name the same structs, and weir's calls take the
 * vendor's pointers. */
#include <weir/onnxruntime.h>

#include <onnxruntime_c_api.h>

weir_status attach_from_cxx(weir_heap *heap, OrtEnv *env, OrtSessionOptions *options, OrtAllocator **allocator);
weir_status attach_from_cxx(weir_heap *heap, OrtEnv *env, OrtSessionOptions *options, OrtAllocator **allocator)
{
    weir_onnxruntime_config config = WEIR_ONNXRUNTIME_CONFIG_INIT;
    weir_onnxruntime *binding = nullptr;
    config.heap = heap;
    config.runtime = OrtGetApiBase();
    weir_status status = weir_onnxruntime_create(&config, &binding);
    if (status == WEIR_OK) {
        status = weir_onnxruntime_attach(binding, env);
    }
    if (status == WEIR_OK) {
        status = weir_onnxruntime_session_options(binding, options, 0);
    }
    *allocator = weir_onnxruntime_allocator(binding);
    return status;
}
