/* tests/host/stress/heap_random.c: random requests to a heap against an oracle that knows every live block. Compiled
 * once for each source (heap_source.h).
 *
 * The oracle is a table of blocks with the requested size and the bytes written. No two blocks overlap, slack included.
 * Each block has its alignment and still holds its bytes when it is freed or resized. Live bytes and their peak agree
 * with the table, except for rounding. Nothing is live at the end. First one thread runs, then several threads that
 * free each other's blocks.
 *
 * Seeds: rig/seeds.h, one in 600 beyond 10 (beyond 4 in a checked build, 2 under a thread sanitizer).
 */
#include "rig/seeds.h"
#include "host/contract/heap_source.h"
#include "random_blocks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#if defined(__SANITIZE_THREAD__)
enum { USUAL_SEEDS = 2 };
#elif WEIR_CHECKS > 1
enum { USUAL_SEEDS = 2 };
#else
enum { USUAL_SEEDS = 4 };
#endif
enum { BLOCKS = 300, STEPS = 3000, THREADS = 4 };

enum { LARGEST_SHIFT = 21 };

struct slot {
    pthread_mutex_t lock;
    unsigned char *ptr; /* NULL: no block */
    size_t size;
    size_t usable;
    bool stays;
    unsigned char value;
};

struct game {
    struct under under;
    weir_heap *heap;
    struct slot slots[BLOCKS];
    uint64_t slack;
    uint64_t align;
    uint64_t seed;
    uint64_t most_live; /* peak of usable bytes and slack; one thread only */
    uint64_t live;
    _Atomic uint64_t failures;
    bool is_alone;
};

static void lose(const struct game *g, const char *why)
{
    (void)fprintf(stderr, "seed %llu: %s\n", (unsigned long long)g->seed, why);
    exit(1);
}

static void fill(const struct game *g, struct slot *s, uint64_t *random)
{
    s->value = (unsigned char)next(random);
    if (CAN_TOUCH) {
        memset(s->ptr, s->value, s->usable + g->slack);
    }
}

static void holds(const struct game *g, const struct slot *s, size_t size)
{
    const size_t step = size / 4096 + 1;
    for (size_t i = 0; CAN_TOUCH && i < size; i += step) {
        if (s->ptr[i] != s->value) {
            lose(g, "a block does not hold what was written");
        }
    }
}

static void count(struct game *g, uint64_t added, uint64_t removed)
{
    if (g->is_alone) {
        g->live += added;
        g->most_live = g->live > g->most_live ? g->live : g->most_live;
        g->live -= removed;
    }
}

static void settle(struct game *g, struct slot *s, unsigned char *ptr, size_t size, size_t align, uint64_t *random)
{
    s->ptr = ptr;
    s->size = size;
    s->usable = weir_heap_usable_size(g->heap, ptr);
    if (s->usable < size || (uintptr_t)ptr % align != 0) {
        lose(g, "a block is too small, or lies crooked");
    }
    fill(g, s, random);
}

static void put(struct game *g, struct slot *s, uint64_t *random)
{
    const size_t size = a_size(random, LARGEST_SHIFT);
    const size_t more = next(random) % 8 == 0 ? (size_t)1 << next(random) % 17 : 1;
    const size_t align = more > g->align ? more : g->align;
    s->stays = next(random) % 6 == 0;
    void *ptr = s->stays                ? weir_heap_alloc_long_lived(g->heap, size, align)
                : next(random) % 2 == 0 ? weir_heap_alloc_aligned(g->heap, size, align)
                                        : weir_heap_alloc(g->heap, size);
    if (ptr == NULL) {
        (void)atomic_fetch_add(&g->failures, 1);
        return;
    }
    settle(g, s, ptr, size, (uintptr_t)ptr % align == 0 ? align : g->align, random);
    count(g, s->usable + g->slack, 0);
}

static void resize(struct game *g, struct slot *s, uint64_t *random)
{
    const size_t size = a_size(random, LARGEST_SHIFT);
    const size_t before = s->usable;
    unsigned char *ptr = weir_heap_realloc(g->heap, s->ptr, size);
    if (ptr == NULL) {
        if (CAN_TOUCH) {
            (void)atomic_fetch_add(&g->failures, 1);
        }
        holds(g, s, s->size); /* the block is unchanged */
        return;
    }
    const struct slot moved = {.ptr = ptr, .value = s->value};
    holds(g, &moved, size < s->size ? size : s->size);
    const bool is_moved = ptr != s->ptr;
    settle(g, s, ptr, size, g->align, random);
    /* A block that grows at its address has a larger usable size. */
    count(g, is_moved ? s->usable + g->slack : s->usable - before, is_moved ? before + g->slack : 0);
}

static void take(struct game *g, struct slot *s)
{
    holds(g, s, s->usable);
    const size_t usable = s->usable;
    if (weir_heap_free(g->heap, s->ptr) != WEIR_OK) {
        lose(g, "a block cannot be freed");
    }
    s->ptr = NULL;
    count(g, 0, usable + g->slack);
}

static int by_address(const void *a, const void *b)
{
    const struct slot *const left = a;
    const struct slot *const right = b;
    return left->ptr < right->ptr ? -1 : left->ptr > right->ptr;
}

/* Checks all blocks. Requires that no other thread is working. */
static void look_at_all(struct game *g)
{
    static struct slot sorted[BLOCKS];
    uint64_t live = 0;
    uint64_t blocks = 0;
    uint64_t persistent = 0;
    memcpy(sorted, g->slots, sizeof(sorted));
    qsort(sorted, BLOCKS, sizeof(sorted[0]), by_address);
    for (size_t i = 0; i < BLOCKS; i++) {
        const struct slot *s = &sorted[i];
        if (s->ptr == NULL) {
            continue;
        }
        blocks++;
        live += s->usable + g->slack;
        persistent += s->stays ? s->usable + g->slack : 0;
        holds(g, s, s->usable);
        if (i + 1 < BLOCKS && s->ptr + s->usable + g->slack > sorted[i + 1].ptr) {
            lose(g, "two blocks overlap");
        }
    }
    const char *why = "no memory to check with";
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    if (weir_heap_check(g->heap, &why) != WEIR_OK) {
        lose(g, why);
    }
    if (weir_heap_get_stats(g->heap, &stats) != WEIR_OK || stats.live_blocks != blocks ||
        stats.failures != g->failures) {
        lose(g, "the statistics count other blocks");
    }
    /* The pad of a host pool is counted but not usable. */
    const uint64_t pads = heap_source == HOST_POOL ? 32 : 0;
    if (stats.live_bytes != live + pads * blocks || stats.long_lived_bytes > stats.live_bytes ||
        stats.long_lived_bytes < persistent) {
        lose(g, "the statistics count other bytes");
    }
    if (stats.peak_live_bytes < stats.live_bytes ||
        (g->is_alone && pads == 0 && stats.peak_live_bytes != g->most_live)) {
        lose(g, "the peak is another one");
    }
    if (stats.held_bytes > stats.peak_held_bytes || stats.live_bytes > stats.held_bytes) {
        lose(g, "less is held than lives");
    }
}

struct player {
    struct game *g;
    uint64_t random;
};

static void *play(void *argument)
{
    struct player *p = argument;
    for (int step = 0; step < STEPS; step++) {
        struct slot *s = &p->g->slots[next(&p->random) % BLOCKS];
        (void)pthread_mutex_lock(&s->lock);
        if (s->ptr == NULL) {
            put(p->g, s, &p->random);
        } else if (next(&p->random) % 5 == 0) {
            resize(p->g, s, &p->random);
        } else {
            take(p->g, s);
        }
        (void)pthread_mutex_unlock(&s->lock);
        if (next(&p->random) % 500 == 0) {
            (void)weir_heap_trim(p->g->heap, next(&p->random) % (8 * MIB), NULL);
        }
    }
    return NULL;
}

static void play_game(uint64_t seed, size_t threads)
{
    static struct game g;
    memset(&g, 0, sizeof(g));
    g.seed = seed;
    if (under_open(&g.under) != WEIR_OK) {
        lose(&g, "nothing to be over");
    }
    weir_heap_config config = g.under.config;
    g.slack = seed % 3 == 0 ? seed * 37 % 4097 : 0;
    static const uint64_t aligns[] = {16, 32, 64, 128, 4096};
    g.align = aligns[seed % 5];
    g.is_alone = threads == 1;
    config.slack_bytes = g.slack;
    config.align = g.align;
    if (heap_source == PROCESS) {
        static const int64_t decays[] = {0, WEIR_HEAP_DECAY_AT_ONCE, 1, WEIR_HEAP_DECAY_NEVER};
        config.decay_ms = decays[seed / 2 % 4];
        config.flags |= seed / 8 % 2 == 0 ? (uint32_t)WEIR_HEAP_DECAY_THREAD : 0;
    }
    config.limit_bytes = heap_source == PROCESS && seed % 2 == 0 ? SOURCE_MOST_BYTES / 2 : 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        (void)pthread_mutex_init(&g.slots[i].lock, NULL);
    }
    if (weir_heap_create(&config, &g.heap) != WEIR_OK) {
        lose(&g, "no heap");
    }
    pthread_t ids[THREADS];
    struct player players[THREADS];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < threads; i++) {
            players[i] = (struct player){.g = &g, .random = seed * 0x9e3779b97f4a7c15u + i + 1 + (uint64_t)round * 77};
            if (threads == 1) {
                (void)play(&players[i]);
            } else if (pthread_create(&ids[i], NULL, play, &players[i]) != 0) {
                lose(&g, "no thread");
            }
        }
        for (size_t i = 0; i < threads && threads > 1; i++) {
            (void)pthread_join(ids[i], NULL);
        }
        look_at_all(&g);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if (g.slots[i].ptr != NULL) {
            take(&g, &g.slots[i]);
        }
    }
    look_at_all(&g);
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    if (weir_heap_trim(g.heap, 0, NULL) != WEIR_OK || weir_heap_get_stats(g.heap, &stats) != WEIR_OK ||
        stats.held_bytes != 0 || stats.live_bytes != 0) {
        lose(&g, "an empty heap holds memory");
    }
    if (weir_heap_destroy(g.heap) != WEIR_OK || under_close(&g.under) != WEIR_OK) {
        lose(&g, "the heap did not end well");
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        (void)pthread_mutex_destroy(&g.slots[i].lock);
    }
}

int main(void)
{
    const uint64_t first = seeds_first();
    const uint64_t count = seeds_count(USUAL_SEEDS, 3000);
    for (uint64_t seed = first; seed < first + count; seed++) {
        play_game(seed, 1);
        play_game(seed, THREADS);
    }
    (void)printf("%llu seeds\n", (unsigned long long)count);
    return 0;
}
