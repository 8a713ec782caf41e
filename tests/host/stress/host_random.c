/* tests/host/stress/host_random.c: random requests to the host pool against an oracle that knows every live block.
 *
 * The oracle is a table of blocks with the requested size and the bytes written. No two blocks overlap, pads included.
 * Each block has its alignment, lies on a node of the pool, and still holds its bytes when it is freed. The statistics
 * agree with the table. The pool holds nothing at the end. First one thread runs, then several threads that free each
 * other's blocks.
 *
 * Seeds: rig/seeds.h, one in 300 beyond 20.
 */
#include "rig/seeds.h"
#include "random_blocks.h"

#include <weir/host.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
enum { BLOCKS = 300, STEPS = 3000, THREADS = 4, PAD = 32 };

enum { LARGEST_SHIFT = 22 };

struct slot {
    pthread_mutex_t lock;
    unsigned char *ptr; /* NULL: no block */
    uint64_t size;
    unsigned char value;
};

struct game {
    weir_host_pool *pool;
    struct slot slots[BLOCKS];
    uint64_t pad;
    bool may_fail; /* a request may fail for lack of memory */
    _Atomic uint64_t failures;
    _Atomic(void *) base; /* address of an earlier block */
    uint64_t seed;
};

static void lose(const struct game *g, const char *why)
{
    (void)fprintf(stderr, "seed %llu: %s\n", (unsigned long long)g->seed, why);
    exit(1);
}

static void fill(struct slot *s)
{
    memset(s->ptr, s->value, s->size < 4096 ? s->size : 4096);
    s->ptr[s->size - 1] = s->value;
}

static bool is_intact(const struct slot *s)
{
    for (uint64_t i = 0; i < s->size && i < 4096; i += 13) {
        if (s->ptr[i] != s->value) {
            return false;
        }
    }
    return s->ptr[s->size - 1] == s->value;
}

/* Allocates a block into the slot. Requires the slot's lock. */
static void put(struct game *g, struct slot *s, uint64_t *random)
{
    void *ptr = NULL;
    const uint64_t size = a_size(random, LARGEST_SHIFT);
    const uint64_t align = next(random) % 8 == 0 ? UINT64_C(1) << next(random) % 17 : 0;
    const int32_t node = next(random) % 3 == 0 ? WEIR_HOST_ANY_NODE : WEIR_HOST_THREAD_NODE;
    const weir_status status = weir_host_alloc_aligned(g->pool, size, align, node, &ptr);
    if (status != WEIR_OK) {
        g->failures++;
        if (!g->may_fail || status != WEIR_ERR_LIMIT || ptr != NULL) {
            lose(g, "a request failed");
        }
        return;
    }
    if ((uintptr_t)ptr % 64 != 0 || (align != 0 && (uintptr_t)ptr % align != 0)) {
        lose(g, "a block is not aligned");
    }
    g->base = ptr;
    s->ptr = ptr;
    s->size = size;
    s->value = (unsigned char)next(random);
    fill(s);
}

/* Checks and frees the slot's block. Requires the slot's lock. */
static void take(struct game *g, struct slot *s, uint64_t *random)
{
    if (!is_intact(s)) {
        lose(g, "a block has lost its contents");
    }
    weir_host_info info = WEIR_HOST_INFO_INIT;
    if (weir_host_query(g->pool, s->ptr + next(random) % s->size, &info) != WEIR_OK || info.block != s->ptr ||
        info.size < s->size || info.node < 0) {
        lose(g, "a query does not know a live block");
    }
    const uint64_t how = next(random) % 4;
    if (how == 0 && weir_host_free_sized(g->pool, s->ptr, s->size * 2 + 100000) != WEIR_ERR_INVALID) {
        lose(g, "a block was freed with a size that is not its own");
    }
    const weir_status status =
        how < 2 ? weir_host_free_sized(g->pool, s->ptr, s->size) : weir_host_free(g->pool, s->ptr);
    if (status != WEIR_OK) {
        lose(g, "a live block could not be freed");
    }
    s->ptr = NULL;
}

static void look_at_all(struct game *g)
{
    const char *why = "";
    uint64_t count = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        const struct slot *a = &g->slots[i];
        if (a->ptr == NULL) {
            continue;
        }
        count++;
        weir_host_info info = WEIR_HOST_INFO_INIT;
        if (weir_host_query(g->pool, a->ptr, &info) != WEIR_OK) {
            lose(g, "a query does not know a live block");
        }
        bytes += info.size + g->pad;
        for (size_t j = 0; j < i; j++) {
            const struct slot *b = &g->slots[j];
            if (b->ptr != NULL && a->ptr < b->ptr + b->size + g->pad && b->ptr < a->ptr + a->size + g->pad) {
                lose(g, "two blocks overlap");
            }
        }
    }
    weir_host_stats stats = WEIR_HOST_STATS_INIT;
    if (weir_host_get_stats(g->pool, WEIR_HOST_ANY_NODE, &stats) != WEIR_OK || stats.allocs - stats.frees != count ||
        stats.live_bytes != bytes || stats.pad_bytes != count * g->pad || stats.failures != g->failures ||
        stats.live_bytes + stats.cached_bytes > stats.held_bytes) {
        lose(g, "the statistics are not what the blocks are");
    }
    if (weir_host_check(g->pool, &why) != WEIR_OK) {
        lose(g, why);
    }
}

struct player {
    struct game *g;
    uint64_t random;
};

static void *play(void *ctx)
{
    struct player *p = ctx;
    struct game *g = p->g;
    for (int step = 0; step < STEPS; step++) {
        struct slot *s = &g->slots[next(&p->random) % BLOCKS];
        (void)pthread_mutex_lock(&s->lock);
        if (s->ptr == NULL) {
            put(g, s, &p->random);
        } else {
            take(g, s, &p->random);
        }
        (void)pthread_mutex_unlock(&s->lock);
        if (next(&p->random) % 500 == 0) {
            const weir_status status = weir_host_trim(g->pool, next(&p->random) % (64 * MIB), NULL);
            if (status != WEIR_OK) {
                lose(g, "trim failed");
            }
        }
        if (next(&p->random) % 200 == 0) { /* an old address of the pool, possibly no longer a block */
            weir_host_info info = WEIR_HOST_INFO_INIT;
            const weir_status status =
                weir_host_query(g->pool, (const char *)g->base + next(&p->random) % (16 * MIB), &info);
            if (status != WEIR_OK && status != WEIR_ERR_INVALID) {
                lose(g, "a query of any address failed");
            }
        }
    }
    return NULL;
}

static void play_game(const weir_topology *machine, uint64_t seed, size_t threads)
{
    static struct game g;
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.topology = machine;
    config.flags = WEIR_HOST_ALLOW_UNPINNED | (seed % 2 == 0 ? (uint32_t)WEIR_HOST_NO_PAD : 0) |
                   (seed % 5 == 0 ? (uint32_t)WEIR_HOST_NO_THREAD_CACHE : 0);
    config.kinds = 1u << WEIR_HOST_UNPINNED;
    config.chunk_bytes = (2 * MIB) << seed % 4;
    config.limit_bytes = seed % 3 == 0 ? 32 * MIB : 0;
    config.thread_cache_bytes = seed % 7 == 0 ? 100000 : 0;
    memset(&g, 0, sizeof(g));
    g.seed = seed;
    g.pad = seed % 2 == 0 ? 0 : PAD;
    g.may_fail = config.limit_bytes != 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        (void)pthread_mutex_init(&g.slots[i].lock, NULL);
    }
    if (weir_host_pool_create(&config, &g.pool) != WEIR_OK) {
        lose(&g, "no pool");
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
    uint64_t random = seed + 1;
    for (size_t i = 0; i < BLOCKS; i++) {
        if (g.slots[i].ptr != NULL) {
            take(&g, &g.slots[i], &random);
        }
    }
    look_at_all(&g);
    weir_host_stats stats = WEIR_HOST_STATS_INIT;
    if (weir_host_trim(g.pool, 0, NULL) != WEIR_OK ||
        weir_host_get_stats(g.pool, WEIR_HOST_ANY_NODE, &stats) != WEIR_OK || stats.held_bytes != 0) {
        lose(&g, "an empty pool holds memory");
    }
    if (weir_host_pool_destroy(g.pool) != WEIR_OK) {
        lose(&g, "the pool did not end well");
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        (void)pthread_mutex_destroy(&g.slots[i].lock);
    }
}

int main(void)
{
    const uint64_t first = seeds_first();
    const uint64_t count = seeds_count(7, 600);
    weir_topology *machine = NULL;
    if (weir_topology_create(NULL, &machine) != WEIR_OK) {
        (void)printf("skipped: this machine tells nothing of its memory\n");
        return 77;
    }
    for (uint64_t seed = first; seed < first + count; seed++) {
        play_game(machine, seed, 1);
        play_game(machine, seed, THREADS);
    }
    weir_topology_destroy(machine);
    (void)printf("%llu seeds\n", (unsigned long long)count);
    return 0;
}
