/* heap_grow: blocks that grow by realloc, every byte written once: in a heap by its realloc, in a heap by alloc,
 * copy and free, and with the C library's realloc. Each row is a process of its own.
 *
 *     micro_heap_grow              the table in Markdown
 *
 * vector: one block that doubles from 64 KiB to 256 MiB. caches: 8 blocks that grow in turn, by 64 KiB each, from
 * 64 KiB to 16 MiB. Columns: processor time in ms, blocks that moved, most resident memory over the bytes at the end.
 */
#include <weir/heap.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum way { IN_PLACE, BY_COPY, LIBRARY, WAYS };
enum { STEP = 64 << 10, VECTOR = 256 << 20, CACHES = 8, CACHE = 16 << 20 };

struct game {
    enum way way;
    weir_heap *heap;
    unsigned moved;
};

static void *grown(struct game *g, void *old, size_t before, size_t size)
{
    void *block = NULL;
    if (g->way == BY_COPY) {
        block = weir_heap_alloc(g->heap, size);
        if (block != NULL && old != NULL) {
            memcpy(block, old, before);
            (void)!weir_heap_free(g->heap, old);
        }
    } else {
        block = g->way == IN_PLACE ? weir_heap_realloc(g->heap, old, size) : realloc(old, size);
    }
    if (block == NULL) {
        (void)fprintf(stderr, "heap_grow: no memory\n");
        _exit(1);
    }
    g->moved += old != NULL && block != old;
    memset((char *)block + before, 1, size - before);
    return block;
}

static void vector(struct game *g)
{
    void *block = NULL;
    for (size_t size = 0; size < VECTOR;) {
        const size_t larger = size == 0 ? STEP : 2 * size;
        block = grown(g, block, size, larger);
        size = larger;
    }
}

static void caches(struct game *g)
{
    void *blocks[CACHES] = {NULL};
    for (size_t size = 0; size < CACHE; size += STEP) {
        for (int i = 0; i < CACHES; i++) {
            blocks[i] = grown(g, blocks[i], size, size + STEP);
        }
    }
}

static void row(const char *name, enum way way, void (*play)(struct game *), size_t bytes)
{
    static const char *const names[WAYS] = {"heap", "heap, alloc and copy", "C library"};
    struct game g = {.way = way};
    struct rusage use;
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child != 0) {
        (void)waitpid(child, NULL, 0);
        return;
    }
    if (weir_heap_create(NULL, &g.heap) != WEIR_OK) {
        (void)fprintf(stderr, "heap_grow: %s\n", weir_last_error());
        _exit(1);
    }
    play(&g);
    (void)getrusage(RUSAGE_SELF, &use);
    const double ms = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e3 +
                      (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e3;
    (void)printf("| %s | %s | %.0f | %u | %.2f |\n", name, names[way], ms, g.moved,
                 (double)use.ru_maxrss * 1024 / (double)bytes);
    (void)fflush(NULL);
    _exit(0);
}

int main(void)
{
    (void)printf("| growth | allocator | CPU ms | moved | resident |\n| --- | --- | ---: | ---: | ---: |\n");
    for (int way = 0; way < WAYS; way++) {
        row("vector", (enum way)way, vector, VECTOR);
    }
    for (int way = 0; way < WAYS; way++) {
        row("caches", (enum way)way, caches, (size_t)CACHES * CACHE);
    }
    return 0;
}
