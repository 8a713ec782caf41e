/* host_footprint.c: measures the memory that the host pool holds beside its live blocks, with three mixtures of sizes.
 *
 *     micro_host_footprint [--chunk MIB] [--live MIB] [--allocations N] [--seed N]
 *
 * A mixture allocates 60,000 blocks; before each allocation random blocks are freed until the live blocks stay below
 * 1,024 MiB (requested bytes). The program prints peak held over peak live memory of
 *
 *     weir, weir_jemalloc   the pool with each engine, the pool's default chunks unless --chunk is given; its
 *                           memory is mapped and populated but not locked, which does not change the held bytes
 *     power_of_two          sizes rounded up to 2^n and kept by size for ever: a model of caching host allocators
 *     jemalloc              malloc's pages in use (stats.mapped), without pinning
 *
 * and, for the pool, the number of chunks (each is pinned once) and the wall time per alloc and free, pinning included.
 * With `pad` each request has 32 bytes behind it, as the carve rule requires; requests to jemalloc grow by as much.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "micro/host_pools.h"
#include "shared/clock.h"

enum { MOST_BLOCKS = 1 << 20, PAD = 32 };

static uint64_t chunk_bytes = 0;
static uint64_t live_most = UINT64_C(1) << 30;
static uint64_t allocations = 60000;
static uint64_t first_seed = 1;

/* --- mixtures --- */

static uint64_t next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static double unit(uint64_t *seed)
{
    return (double)(next(seed) >> 11) * 0x1p-53;
}

/* Returns 2^x for a uniform random x from `low` to `high`, without the library's exp2. */
static uint64_t log_uniform(uint64_t *seed, unsigned low, unsigned high)
{
    static const double steps[] = {1.4142135623730951, 1.189207115002721,  1.0905077326652577, 1.0442737824274138,
                                   1.0218971486541166, 1.0108892860517005, 1.0054299011128027, 1.0027112750502025};
    const double x = unit(seed) * (high - low);
    double value = (double)(UINT64_C(1) << (low + (unsigned)x));
    double rest = x - (double)(unsigned)x;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        rest *= 2;
        if (rest >= 1) {
            rest -= 1;
            value *= steps[i];
        }
    }
    return (uint64_t)value;
}

static uint64_t log_sizes(uint64_t *seed)
{
    return log_uniform(seed, 8, 26);
}

static uint64_t power_sizes(uint64_t *seed)
{
    return UINT64_C(4096) << next(seed) % 14;
}

static uint64_t odd_sizes(uint64_t *seed)
{
    const uint64_t which = next(seed) % 20;
    const uint64_t most = which < 14 ? UINT64_C(64) << 10 : which < 19 ? UINT64_C(2) << 20 : UINT64_C(48) << 20;
    return (1024 + next(seed) % most) | 1;
}

static const struct mixture {
    const char *name;
    uint64_t (*size)(uint64_t *seed);
} mixtures[] = {
    {"log-uniform 256 B-64 MiB", log_sizes}, {"powers of two 4 K-32 M", power_sizes}, {"odd sizes", odd_sizes}};

/* --- holders of memory --- */

struct holder {
    void *(*alloc)(struct holder *self, uint64_t size);
    void (*free)(struct holder *self, void *block, uint64_t size);
    uint64_t (*held)(struct holder *self); /* peak so far */
    weir_host_pool *pool;
    struct malloc_functions functions;
    int (*mallctl)(const char *, void *, size_t *, void *, size_t);
    uint64_t pad;
    uint64_t most;
    uint64_t calls;
    uint64_t idle[64]; /* for power_of_two: number of cached blocks of 2^n bytes */
    uint64_t taken;
};

static void *alloc_weir(struct holder *self, uint64_t size)
{
    void *block = NULL;
    bench_require(weir_host_alloc(self->pool, size, WEIR_HOST_THREAD_NODE, &block) == WEIR_OK,
                  "weir_host_alloc failed");
    return block;
}

static void free_weir(struct holder *self, void *block, uint64_t size)
{
    (void)size;
    bench_require(weir_host_free(self->pool, block) == WEIR_OK, "weir_host_free failed");
}

static weir_host_stats stats_of(const struct holder *self)
{
    weir_host_stats stats = WEIR_HOST_STATS_INIT;
    bench_require(weir_host_get_stats(self->pool, WEIR_HOST_ANY_NODE, &stats) == WEIR_OK, "no statistics");
    return stats;
}

static uint64_t held_weir(struct holder *self)
{
    return stats_of(self).peak_held_bytes;
}

static unsigned rank_of(const struct holder *self, uint64_t size)
{
    const uint64_t bytes = size + self->pad;
    return bytes <= 1 ? 0 : 64u - (unsigned)__builtin_clzll(bytes - 1);
}

static void *alloc_model(struct holder *self, uint64_t size)
{
    const unsigned rank = rank_of(self, size);
    if (self->idle[rank] > 0) {
        self->idle[rank]--;
    } else {
        self->taken += UINT64_C(1) << rank;
    }
    return self;
}

static void free_model(struct holder *self, void *block, uint64_t size)
{
    (void)block;
    self->idle[rank_of(self, size)]++;
}

static uint64_t held_model(struct holder *self)
{
    return self->taken;
}

static uint64_t held_jemalloc(struct holder *self)
{
    uint64_t epoch = 1;
    size_t mapped = 0;
    size_t size = sizeof(mapped);
    bench_require(self->mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch)) == 0 &&
                      self->mallctl("stats.mapped", &mapped, &size, NULL, 0) == 0,
                  "jemalloc tells no statistics");
    self->most = mapped > self->most ? mapped : self->most;
    return self->most;
}

static void *alloc_jemalloc(struct holder *self, uint64_t size)
{
    void *block = self->functions.alloc((size_t)(size + self->pad));
    bench_require(block != NULL, "malloc failed");
    if (self->calls++ % 64 == 0) {
        (void)held_jemalloc(self);
    }
    return block;
}

static void free_jemalloc(struct holder *self, void *block, uint64_t size)
{
    (void)size;
    self->functions.free(block);
}

/* --- the replay --- */

struct block {
    void *ptr;
    uint64_t size;
};

/* Allocates and frees blocks of the sizes of a mixture. Returns the peak live bytes. */
static uint64_t play(struct holder *holder, const struct mixture *mixture)
{
    struct block *blocks = malloc(MOST_BLOCKS * sizeof(*blocks));
    bench_require(blocks != NULL, "no memory");
    uint64_t seed = first_seed * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t live = 0;
    uint64_t most = 0;
    size_t count = 0;
    for (uint64_t i = 0; i < allocations; i++) {
        const uint64_t size = mixture->size(&seed);
        while (live + size > live_most || count == MOST_BLOCKS) {
            const size_t victim = next(&seed) % count;
            holder->free(holder, blocks[victim].ptr, blocks[victim].size);
            live -= blocks[victim].size;
            blocks[victim] = blocks[--count];
        }
        blocks[count++] = (struct block){holder->alloc(holder, size), size};
        live += size;
        most = live > most ? live : most;
    }
    while (count > 0) {
        count--;
        holder->free(holder, blocks[count].ptr, blocks[count].size);
    }
    free(blocks);
    return most;
}

static void print(const struct mixture *mixture, const char *name, const char *pad, struct holder *holder)
{
    const uint64_t began = wall_ns();
    const uint64_t live = play(holder, mixture);
    const double each = (double)(wall_ns() - began) / (double)allocations;
    (void)printf("%-26s %-14s %-4s %8.3f", mixture->name, name, pad, (double)holder->held(holder) / (double)live);
    if (holder->pool != NULL) {
        const weir_host_stats stats = stats_of(holder);
        (void)printf(" %9" PRIu64 " %10.0f %10.0f", stats.chunks, (double)stats.pin_ns / 1e6, each);
    }
    (void)printf("\n");
    (void)fflush(stdout);
}

static void print_weir(const struct mixture *mixture, int which, uint32_t flags)
{
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.flags = WEIR_HOST_ALLOW_UNPINNED | flags;
    config.kinds = 1u << WEIR_HOST_UNPINNED;
    config.engine = host_engine(which);
    config.chunk_bytes = chunk_bytes;
    struct holder holder = {.alloc = alloc_weir, .free = free_weir, .held = held_weir};
    if (config.engine == NULL) {
        return;
    }
    bench_require(weir_host_pool_create(&config, &holder.pool) == WEIR_OK, "weir_host_pool_create failed");
    print(mixture, host_contender_names[which], flags == 0 ? "pad" : "-", &holder);
    bench_require(weir_host_pool_destroy(holder.pool) == WEIR_OK, "weir_host_pool_destroy failed");
}

static void print_models(const struct mixture *mixture, uint64_t pad)
{
    struct holder model = {.alloc = alloc_model, .free = free_model, .held = held_model};
    if (pad == 0) {
        print(mixture, "power_of_two", "-", &model);
    }
    struct holder plain = {.alloc = alloc_jemalloc, .free = free_jemalloc, .held = held_jemalloc, .pad = pad};
    const char *why = "";
    void *library = NULL;
    if (mallocs_find("jemalloc", &plain.functions, &why)) {
        library = dlopen("libjemalloc.so.2", RTLD_LAZY | RTLD_NOLOAD);
    }
    void *symbol = library != NULL ? dlsym(library, "mallctl") : NULL;
    if (symbol != NULL) {
        memcpy(&plain.mallctl, &symbol, sizeof(plain.mallctl));
        print(mixture, "jemalloc", pad != 0 ? "pad" : "-", &plain);
    }
}

static bool take_option(const char *name, const char *value)
{
    char *end = NULL;
    const uint64_t number = strtoull(value, &end, 10);
    if (*end != '\0' || number == 0) {
        return false;
    }
    if (strcmp(name, "--chunk") == 0) {
        chunk_bytes = number << 20;
    } else if (strcmp(name, "--live") == 0) {
        live_most = number << 20;
    } else if (strcmp(name, "--allocations") == 0) {
        allocations = number;
    } else if (strcmp(name, "--seed") == 0) {
        first_seed = number;
    } else {
        return false;
    }
    return true;
}

int main(int count, char **arguments)
{
    for (int i = 1; i < count; i += 2) {
        if (i + 1 == count || !take_option(arguments[i], arguments[i + 1])) {
            (void)fprintf(stderr,
                          "usage: micro_host_footprint [--chunk MIB] [--live MIB] [--allocations N] [--seed N]\n");
            return EXIT_FAILURE;
        }
    }
    mallocs_prepare(arguments);
    (void)printf("%-26s %-14s %-4s %8s %9s %10s %10s\n", "mixture", "", "", "held", "chunks", "pin ms", "ns each");
    for (size_t i = 0; i < sizeof(mixtures) / sizeof(mixtures[0]); i++) {
        for (int with_pad = 0; with_pad < 2; with_pad++) {
            const uint32_t flags = with_pad != 0 ? 0 : (uint32_t)WEIR_HOST_NO_PAD;
            print_weir(&mixtures[i], HOST_WEIR, flags);
            print_weir(&mixtures[i], HOST_WEIR_JEMALLOC, flags);
            print_models(&mixtures[i], with_pad != 0 ? PAD : 0);
        }
    }
    return EXIT_SUCCESS;
}
