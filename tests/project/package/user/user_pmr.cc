/* A standard container over a heap. */
#include <cstdio>
#include <vector>
#include <weir/pmr.hpp>

int main(void)
{
    weir_heap *heap;
    if (weir_heap_create(nullptr, &heap) != WEIR_OK) return 1;
    {
        weir::heap_resource resource(heap);
        std::pmr::vector<float> activations(&resource);
        for (int i = 0; i < 100000; i++) activations.push_back(1.0f);
        if (activations.size() != 100000) return 2;
    }
    if (weir_heap_destroy(heap) != WEIR_OK) return 3;
    std::printf("weir %s\n", weir_version());
    return 0;
}
