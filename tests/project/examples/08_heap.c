#include <stdio.h>
#include <stdlib.h>
#include <weir/heap.h>

static void check(weir_status status)
{
    if (status != WEIR_OK) exit(puts(weir_status_text(status)));
}

int main(void)
{
    weir_heap *heap;
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.slack_bytes = 16; /* this engine's kernels read a little past the end of a tensor */
    check(weir_heap_create(&config, &heap));
    float *weights = (float *)weir_heap_alloc_long_lived(heap, 16 << 20, 0); /* kept apart from short-lived blocks */
    for (size_t step = 0; step < 64; step++) {                               /* shapes change from step to step */
        const size_t pixels = (128 + 32 * (step % 6)) * (128 + 32 * (step % 6));
        float *image = (float *)weir_heap_alloc(heap, 3 * pixels * sizeof(*image));
        float *features = (float *)weir_heap_alloc(heap, 16 * pixels * sizeof(*features));
        if (weights == NULL || image == NULL || features == NULL) return puts("out of memory");
        image[0] = weights[0] = 1;
        features[0] = image[0] * weights[0];
        check(weir_heap_free(heap, image)); /* by its address alone, from any thread */
        check(weir_heap_free(heap, features));
    }
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    check(weir_heap_get_stats(heap, &stats));
    printf("%d blocks, %.1f MiB live at most, %.1f MiB held\n", (int)stats.allocs,
           (double)stats.peak_live_bytes / (1 << 20), (double)stats.peak_held_bytes / (1 << 20));
    check(weir_heap_free(heap, weights));
    check(weir_heap_destroy(heap));
    return 0;
}
