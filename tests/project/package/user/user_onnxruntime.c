/* weir::onnxruntime, which throws in C++ and is linked by C: the calls that work without the engine. */
#include <stdio.h>
#include <weir/onnxruntime.h>

int main(void)
{
    weir_heap *heap;
    weir_onnxruntime *binding;
    if (weir_heap_create(NULL, &heap) != WEIR_OK) return 1;
    weir_onnxruntime_config config = WEIR_ONNXRUNTIME_CONFIG_INIT;
    config.heap = heap; /* no runtime is set */
    if (weir_onnxruntime_create(&config, &binding) != WEIR_ERR_INVALID) return 2;
    if (weir_onnxruntime_destroy(NULL) != WEIR_OK) return 3;
    if (weir_heap_destroy(heap) != WEIR_OK) return 4;
    printf("weir %s\n", weir_version());
    return 0;
}
