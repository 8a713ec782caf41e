/* heap_decay: resident size over time after memory was freed. A line for each way in which a heap gives memory back,
 * and for other allocators; columns are times.
 *
 *     micro_heap_decay             256 MiB are allocated in blocks of 1 MiB, written, and freed at second 0
 *     micro_heap_decay threads     8 threads allocate 10,000 blocks each, of 48 to 6,200 bytes, write them, free all in
 *                                  random order until second 0, and live on; the last column is after a trim
 *
 * In each quarter of a second each thread of a row makes 1000 pairs of 100 bytes. Rows "heap, no call" and "heap,
 * thread" make no calls after the frees; "heap, thread" sets WEIR_HEAP_DECAY_THREAD.
 */
#include <weir/heap.h>

#include "replay/mallocs.h"

#include <inttypes.h>
#include <pthread.h>
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

/* One allocator of the comparison: a weir heap, or the malloc functions of another library. */
struct allocator {
    weir_heap *heap; /* NULL: another allocator */
    struct malloc_functions other;
};

static void *take(struct allocator *a, size_t size)
{
    void *block = a->heap != NULL ? weir_heap_alloc(a->heap, size) : a->other.alloc(size);
    if (block == NULL) {
        (void)fprintf(stderr, "heap_decay: no memory\n");
        exit(1);
    }
    return block;
}

static void give(struct allocator *a, void *block)
{
    if (a->heap != NULL) {
        (void)!weir_heap_free(a->heap, block);
    } else {
        a->other.free(block);
    }
}

static void burst(struct allocator *a)
{
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = take(a, BLOCK);
        memset(blocks[i], 1, BLOCK);
    }
    for (int i = 0; i < BLOCKS; i++) {
        give(a, blocks[i]);
    }
}

static void small_calls(struct allocator *a)
{
    for (int i = 0; i < PAIRS; i++) {
        give(a, take(a, 100));
    }
}

static void row(const char *name, struct allocator *a, int calls, double before)
{
    burst(a);
    (void)printf("| %s |", name);
    for (int tick = 0; tick < TICKS; tick++) {
        const struct timespec pause = {.tv_nsec = TICK_MS * 1000000L};
        if (tick > 0) {
            (void)nanosleep(&pause, NULL);
        }
        if (calls) {
            small_calls(a);
        }
        (void)printf(" %.1f |", resident_mib() - before);
    }
    (void)printf("\n");
}

/* --- threads that live on --- */

enum { THREADS = 8, EACH = 10000, STEPS = 4 };

struct crew {
    struct allocator *a;
    int calls;
    pthread_barrier_t step;
};

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1;
    return *seed >> 33;
}

static void *work(void *argument)
{
    struct crew *crew = argument;
    static _Thread_local void *blocks[EACH];
    uint64_t seed = (uint64_t)(uintptr_t)&blocks;
    for (size_t i = 0; i < EACH; i++) {
        const size_t size = i % 2 == 0 ? 48 : 200 + next(&seed) % 6000;
        blocks[i] = take(crew->a, size);
        memset(blocks[i], 1, size);
    }
    (void)pthread_barrier_wait(&crew->step);
    (void)pthread_barrier_wait(&crew->step);
    for (size_t left = EACH; left > 0; left--) {
        const size_t i = next(&seed) % left;
        give(crew->a, blocks[i]);
        blocks[i] = blocks[left - 1];
    }
    (void)pthread_barrier_wait(&crew->step);
    for (int tick = 0; tick < STEPS * (1000 / TICK_MS); tick++) {
        const struct timespec pause = {.tv_nsec = TICK_MS * 1000000L};
        (void)nanosleep(&pause, NULL);
        if (crew->calls) {
            small_calls(crew->a);
        }
    }
    (void)pthread_barrier_wait(&crew->step);
    (void)pthread_barrier_wait(&crew->step);
    return NULL;
}

static void threads_row(const char *name, struct allocator *a, int calls, double before)
{
    struct crew crew = {.a = a, .calls = calls};
    pthread_t threads[THREADS];
    (void)pthread_barrier_init(&crew.step, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, work, &crew) != 0) {
            perror("pthread_create");
            exit(1);
        }
    }
    (void)pthread_barrier_wait(&crew.step);
    (void)printf("| %s | %.1f |", name, resident_mib() - before);
    (void)pthread_barrier_wait(&crew.step);
    (void)pthread_barrier_wait(&crew.step);
    for (int second = 0; second < STEPS; second++) {
        const struct timespec pause = {.tv_sec = second > 0};
        (void)nanosleep(&pause, NULL);
        (void)printf(" %.1f |", resident_mib() - before);
    }
    (void)pthread_barrier_wait(&crew.step);
    if (a->heap != NULL && weir_heap_trim(a->heap, 0, NULL) == WEIR_OK) {
        (void)printf(" %.1f |\n", resident_mib() - before);
    } else {
        (void)printf("  |\n");
    }
    (void)pthread_barrier_wait(&crew.step);
    for (size_t i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    (void)pthread_barrier_destroy(&crew.step);
}

/* --- rows --- */

typedef void (*row_function)(const char *name, struct allocator *a, int calls, double before);

static row_function row_of;

static void heap_row(const char *name, int64_t decay_ms, uint32_t flags, int calls)
{
    struct allocator a = {.heap = NULL};
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    const double before = resident_mib();
    config.decay_ms = decay_ms;
    config.flags = flags;
    if (weir_heap_create(&config, &a.heap) != WEIR_OK) {
        (void)fprintf(stderr, "heap_decay: %s\n", weir_last_error());
        exit(1);
    }
    row_of(name, &a, calls, before);
    (void)!weir_heap_destroy(a.heap);
}

static void malloc_row(const char *name)
{
    struct allocator a = {.heap = NULL};
    const char *why = NULL;
    const double before = resident_mib();
    if (mallocs_find(name, &a.other, &why)) {
        row_of(name, &a, 1, before);
    } else {
        (void)fprintf(stderr, "heap_decay: %s: %s\n", name, why);
    }
}

static void burst_table(void)
{
    row_of = row;
    (void)printf("| MiB resident after s |");
    for (int tick = 0; tick < TICKS; tick++) {
        (void)printf(" %.2f |", tick * TICK_MS / 1e3);
    }
    (void)printf("\n| --- |");
    for (int tick = 0; tick < TICKS; tick++) {
        (void)printf(" ---: |");
    }
    (void)printf("\n");
    heap_row("heap, never", WEIR_HEAP_DECAY_NEVER, 0, 1);
    heap_row("heap, no call", 0, 0, 0);
    heap_row("heap", 0, 0, 1);
    heap_row("heap, thread", 0, WEIR_HEAP_DECAY_THREAD, 0);
    heap_row("heap, 200 ms", 200, 0, 1);
    heap_row("heap, at once", WEIR_HEAP_DECAY_AT_ONCE, 0, 1);
}

static void threads_table(void)
{
    row_of = threads_row;
    (void)printf(
        "| MiB resident after s | live | 0 | 1 | 2 | 3 | trim |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    heap_row("heap, never", WEIR_HEAP_DECAY_NEVER, 0, 1);
    heap_row("heap", 0, 0, 1);
    heap_row("heap, thread", 0, WEIR_HEAP_DECAY_THREAD, 0);
}

int main(int argc, char **argv)
{
    const int has_threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    if (argc > 1 && !has_threads) {
        (void)fprintf(stderr, "usage: micro_heap_decay [threads]\n");
        return 2;
    }
    mallocs_prepare(argv);
    if (has_threads) {
        threads_table();
    } else {
        burst_table();
    }
    for (size_t i = 0; malloc_names[i] != NULL; i++) {
        malloc_row(malloc_names[i]);
    }
    return 0;
}
