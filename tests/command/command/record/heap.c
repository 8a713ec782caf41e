/* tests/command/command/record/heap.c: two heaps of weir, for record_test.sh. The second is never destroyed. */
#include <weir/heap.h>

int main(void)
{
    weir_heap *first = NULL;
    weir_heap *second = NULL;
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.name = "engine";
    if (weir_heap_create(&config, &first) != WEIR_OK || weir_heap_create(NULL, &second) != WEIR_OK) {
        return 1;
    }
    void *weights = weir_heap_alloc_long_lived(first, 100000, 64);
    void *block = weir_heap_alloc(first, 5000);
    block = weir_heap_realloc(first, block, 70000);
    void *other = weir_heap_alloc(second, 6000);
    if (weights == NULL || block == NULL || other == NULL || weir_heap_free(first, block) != WEIR_OK ||
        weir_heap_free(first, weights) != WEIR_OK) {
        return 1;
    }
    return weir_heap_destroy(first) == WEIR_OK ? 0 : 1;
}
