/* heap_packing: resident bytes over requested bytes, with 64 MiB of small and middle blocks live. A line for each range
 * of sizes, a column for a weir heap and for other allocators. Each figure is from a process of its own.
 *
 *     micro_heap_packing [ALLOCATOR]...     default: all
 *
 * Blocks of random sizes of the range are allocated and written until 64 MiB are live. Then blocks in random order are
 * replaced by new ones, until twice as many have been replaced as are live. The first figure of a pair is taken before
 * the replacements, the second after them.
 */
#include <weir/heap.h>

#include "replay/mallocs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIVE_BYTES = 64 << 20, ROUNDS = 2 };

static const struct cell {
    const char *name;
    uint32_t least;
    uint32_t most;
} cells[] = {
    {"16 bytes", 16, 16},
    {"32 bytes", 32, 32},
    {"500 to 1,500 bytes", 500, 1500},
    {"4,000 to 9,000 bytes", 4000, 9000},
    {"8 to 16 KiB", 8 << 10, 16 << 10},
    {"20,000 to 60,000 bytes", 20000, 60000},
};

static void fail(const char *what)
{
    (void)fprintf(stderr, "heap_packing: %s\n", what);
    exit(1);
}

static uint64_t resident_bytes(void)
{
    uint64_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*u %" SCNu64, &pages) != 1) {
        fail("cannot read /proc/self/statm");
    }
    (void)fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint32_t next(uint64_t *seed, uint64_t below)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1;
    return (uint32_t)((*seed >> 33) % below);
}

/* One allocator of the comparison: a weir heap, or the malloc functions of another library. */
struct allocator {
    weir_heap *heap; /* NULL: another allocator */
    struct malloc_functions other;
};

struct live {
    struct allocator allocator;
    const struct cell *cell;
    void **blocks;
    uint32_t *sizes;
    size_t count;
    uint64_t bytes; /* as requested */
    uint64_t seed;
};

static void take(struct live *live, size_t i)
{
    const uint32_t size = live->cell->least + next(&live->seed, live->cell->most - live->cell->least + 1);
    void *block =
        live->allocator.heap != NULL ? weir_heap_alloc(live->allocator.heap, size) : live->allocator.other.alloc(size);
    if (block == NULL) {
        fail("no memory");
    }
    memset(block, 1, size);
    live->blocks[i] = block;
    live->sizes[i] = size;
    live->bytes += size;
}

static void give(struct live *live, size_t i)
{
    if (live->allocator.heap == NULL) {
        live->allocator.other.free(live->blocks[i]);
    } else if (weir_heap_free(live->allocator.heap, live->blocks[i]) != WEIR_OK) {
        fail("a block is not live");
    }
    live->bytes -= live->sizes[i];
}

static void open_allocator(struct live *live, const char *name)
{
    const char *why = NULL;
    if (strcmp(name, "heap") != 0) {
        if (!mallocs_find(name, &live->allocator.other, &why)) {
            fail(why);
        }
    } else if (weir_heap_create(NULL, &live->allocator.heap) != WEIR_OK) {
        fail(weir_last_error());
    }
}

/* Prints the figures of one allocator and one cell. Runs in a process of its own. */
static void measure(const char *name, const struct cell *cell)
{
    struct live live = {.cell = cell, .seed = 1};
    const size_t most = LIVE_BYTES / cell->least + 1;
    live.blocks = malloc(most * sizeof(*live.blocks));
    live.sizes = malloc(most * sizeof(*live.sizes));
    if (live.blocks == NULL || live.sizes == NULL) {
        fail("no memory");
    }
    memset(live.blocks, 1, most * sizeof(*live.blocks)); /* their pages are not the allocator's */
    memset(live.sizes, 1, most * sizeof(*live.sizes));
    open_allocator(&live, name);
    take(&live, 0); /* the first block brings in the allocator's code and its first tables */
    give(&live, 0);
    const uint64_t before = resident_bytes();
    while (live.bytes < LIVE_BYTES) {
        take(&live, live.count++);
    }
    const double filled = (double)(resident_bytes() - before) / (double)live.bytes;
    for (size_t i = 0; i < ROUNDS * live.count; i++) {
        const size_t at = next(&live.seed, live.count);
        give(&live, at);
        take(&live, at);
    }
    (void)printf(" %.3f, %.3f |", filled, (double)(resident_bytes() - before) / (double)live.bytes);
    (void)fflush(stdout);
}

static void measure_apart(const char *name, const struct cell *cell)
{
    int status = 0;
    (void)fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        measure(name, cell);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fail("a measuring process failed");
    }
}

int main(int argc, char **argv)
{
    const char *all[] = {"heap", "glibc", "jemalloc", "mimalloc", "tcmalloc"};
    const char *const *names = argc > 1 ? (const char *const *)argv + 1 : all;
    const size_t count = argc > 1 ? (size_t)argc - 1 : sizeof(all) / sizeof(all[0]);
    mallocs_prepare(argv);
    (void)printf("| resident / requested |");
    for (size_t i = 0; i < count; i++) {
        (void)printf(" %s |", names[i]);
    }
    (void)printf("\n| --- |");
    for (size_t i = 0; i < count; i++) {
        (void)printf(" ---: |");
    }
    for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
        (void)printf("\n| %s |", cells[i].name);
        for (size_t j = 0; j < count; j++) {
            measure_apart(names[j], &cells[i]);
        }
    }
    (void)printf("\n");
    return 0;
}
