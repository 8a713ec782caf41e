/* heap_decay: resident size over time after a burst: 256 MiB are allocated in blocks of 1 MiB, written, and freed at
 * second 0. One row for each way in which a heap gives memory back; columns are times.
 *
 *     micro_heap_decay             the table in Markdown
 *
 * "calls": a pair of 100 bytes, 1000 times in each quarter of a second. "thread": no call, WEIR_HEAP_DECAY_THREAD.
 */
#include <weir/heap.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 1 << 20, BLOCKS = 256, TICK_MS = 250, TICKS = 9, PAIRS = 1000 };

static double resident_mib(void)
{
    uint64_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*u %" SCNu64, &pages) != 1) {
        perror("/proc/self/statm");
        exit(1);
    }
    (void)fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static void burst(weir_heap *heap)
{
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = weir_heap_alloc(heap, BLOCK);
        if (blocks[i] == NULL) {
            (void)fprintf(stderr, "heap_decay: no memory\n");
            exit(1);
        }
        memset(blocks[i], 1, BLOCK);
    }
    for (int i = 0; i < BLOCKS; i++) {
        (void)!weir_heap_free(heap, blocks[i]);
    }
}

static void small_calls(weir_heap *heap)
{
    for (int i = 0; i < PAIRS; i++) {
        (void)!weir_heap_free(heap, weir_heap_alloc(heap, 100));
    }
}

static void row(const char *name, int64_t decay_ms, uint32_t flags, int calls)
{
    weir_heap *heap = NULL;
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    const double before = resident_mib();
    config.decay_ms = decay_ms;
    config.flags = flags;
    if (weir_heap_create(&config, &heap) != WEIR_OK) {
        (void)fprintf(stderr, "heap_decay: %s\n", weir_last_error());
        exit(1);
    }
    burst(heap);
    (void)printf("| %s |", name);
    for (int tick = 0; tick < TICKS; tick++) {
        const struct timespec pause = {.tv_nsec = TICK_MS * 1000000L};
        if (tick > 0) {
            (void)nanosleep(&pause, NULL);
        }
        if (calls) {
            small_calls(heap);
        }
        (void)printf(" %.1f |", resident_mib() - before);
    }
    (void)printf("\n");
    (void)!weir_heap_destroy(heap);
}

int main(void)
{
    (void)printf("| MiB resident after s |");
    for (int tick = 0; tick < TICKS; tick++) {
        (void)printf(" %.2f |", tick * TICK_MS / 1e3);
    }
    (void)printf("\n| --- |");
    for (int tick = 0; tick < TICKS; tick++) {
        (void)printf(" ---: |");
    }
    (void)printf("\n");
    row("never", WEIR_HEAP_DECAY_NEVER, 0, 1);
    row("1000 ms, no call", 0, 0, 0);
    row("1000 ms, calls", 0, 0, 1);
    row("1000 ms, thread", 0, WEIR_HEAP_DECAY_THREAD, 0);
    row("200 ms, thread", 200, WEIR_HEAP_DECAY_THREAD, 0);
    row("at once", WEIR_HEAP_DECAY_AT_ONCE, 0, 0);
    return 0;
}
