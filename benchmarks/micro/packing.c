/* packing.c: how much memory the workloads take, beside what is live.
 *
 *     micro_packing [SEEDS]    how many seeds the second table goes over; default 10
 *
 * First table, strategies behind weir's pool: the most that was reserved over the most that was live (as asked), and the
 * smallest limit under which no request fails over the same. Peak live is in the first column; then how many regions (with
 * virtual memory: granules of 2 MiB) were taken and returned, and how much idle memory moved. Each workload is played
 * once; nothing here is timed and everything repeats exactly.
 *
 * Second table, bare strategies: the smallest single region, found by bisection, that serves a workload without a
 * refusal, over the most that was live; mean over the seeds. `caching` keeps no sizes apart here, so that placement alone
 * is compared with exact best fit. points = 100 times the difference; worst = the largest of a seed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "micro/bench.h"
#include "micro/best_fit.h"

#include <weir/caching.h>

enum { most_seeds = 1000 };

/* What is bisected: serves `workload` from `bytes`? */
typedef bool (*serves)(const struct workload *workload, const void *how, uint64_t bytes);

static void require(bool fine, const char *what)
{
    if (!fine) {
        (void)fprintf(stderr, "%s\n", what);
        exit(EXIT_FAILURE);
    }
}

static bool play_once(const struct workload *workload, const struct workload_user *user)
{
    void **blocks = calloc(workload->slots, sizeof(*blocks));
    require(blocks != NULL, "no memory");
    const bool served = workload_play(workload, 0, workload->count, blocks, user);
    workload_clear(workload, blocks, user);
    free(blocks);
    return served;
}

/* To 1/4,000 of the peak. A size that is refused below one that serves and above another is possible in principle: best
 * fit is not monotone. */
static double smallest(const struct workload *workload, serves serves_from, const void *how,
                       uint64_t enough)
{
    uint64_t refused = workload->peak_bytes - 1;
    const uint64_t step = workload->peak_bytes / 4000;
    while (!serves_from(workload, how, enough)) {
        refused = enough;
        enough += enough / 4;
    }
    while (enough - refused > step) {
        const uint64_t middle = refused + (enough - refused) / 2;
        if (serves_from(workload, how, middle)) {
            enough = middle;
        } else {
            refused = middle;
        }
    }
    return (double)enough / (double)workload->peak_bytes;
}

/* --- behind a pool --- */

/* Plays under a limit, 0 for none; *stats is what the pool says then. */
static bool play_pool(const struct workload *workload, const struct bench_contender *contender,
                      uint64_t limit_bytes, weir_stats *stats)
{
    struct bench_contender limited = *contender;
    struct bench_allocator allocator;
    const char *why = "";
    limited.limit_bytes = limit_bytes;
    require(bench_allocator_open(&allocator, &limited, &why), why);
    const struct workload_user user = bench_allocator_user(&allocator, 0);
    const bool served = play_once(workload, &user);
    *stats = (weir_stats)WEIR_STATS_INIT;
    require(weir_pool_stats(allocator.pool.pool, stats) == WEIR_OK, "no statistics");
    bench_allocator_close(&allocator);
    return served;
}

static bool pool_serves(const struct workload *workload, const void *how, uint64_t bytes)
{
    weir_stats ignored;
    return play_pool(workload, how, bytes, &ignored);
}

static void print_pools(const char *name, bool with_limit)
{
    struct workload workload;
    require(workload_make(name, 0, &workload), "no such workload, or no memory");
    for (size_t i = 0; i < BENCH_CONTENDERS; i++) {
        const struct bench_contender *contender = &bench_contenders[i];
        weir_stats stats;
        /* Locks change nothing here. */
        if (contender->strategy == NULL || (contender->flags & WEIR_POOL_SINGLE_THREADED) != 0) {
            continue;
        }
        require(play_pool(&workload, contender, 0, &stats), "a request failed without a limit");
        (void)printf("%-10s %10.1f  %-24s %10.3f", name, (double)workload.peak_bytes / (1 << 20),
                     contender->name,
                     (double)stats.peak_reserved_bytes / (double)workload.peak_bytes);
        if (with_limit) {
            (void)printf(" %10.3f",
                         smallest(&workload, pool_serves, contender, stats.peak_reserved_bytes));
        } else {
            (void)printf(" %10s", "-");
        }
        (void)printf(" %10" PRIu64 " %10" PRIu64 " %10" PRIu64 "\n", stats.region_allocs + stats.vm_creates,
                     stats.region_frees + stats.vm_destroys, stats.vm_moved_bytes >> 20);
        (void)fflush(stdout);
    }
    workload_free(&workload);
}

/* --- bare --- */

struct bare {
    const weir_strategy_ops *strategy;
    const void *config;
    void *state;
};

static void *alloc_range(void *ctx, uint64_t size)
{
    const struct bare *bare = ctx;
    weir_range range = {0};
    const weir_status status = bare->strategy->alloc(bare->state, WEIR_LANE_OPEN, WEIR_TICK_MAX,
                                                     size, bare->strategy->granule_bytes, &range);
    require(status == WEIR_OK || status == WEIR_ERR_NO_MEMORY, "a strategy failed");
    return range.token;
}

static void free_range(void *ctx, void *token)
{
    const struct bare *bare = ctx;
    bare->strategy->free(bare->state, token, WEIR_LANE_OPEN, 0);
}

static bool bare_serves(const struct workload *workload, const void *how, uint64_t bytes)
{
    struct bare bare = *(const struct bare *)how;
    const weir_strategy_ops *strategy = bare.strategy;
    const struct workload_user user = {alloc_range, free_range, &bare};
    void *region = NULL;
    bare.state = calloc(1, strategy->state_size(bare.config));
    require(bare.state != NULL && strategy->init(bare.state, bare.config) == WEIR_OK &&
                (strategy->lane_add == NULL ||
                 strategy->lane_add(bare.state, WEIR_LANE_OPEN) == WEIR_OK) &&
                strategy->region_add(bare.state, 0, bytes & ~(strategy->granule_bytes - 1), 1,
                                     WEIR_LANE_OPEN, 0, &region) == WEIR_OK,
            "cannot set a strategy up");
    const bool served = play_once(workload, &user);
    strategy->fini(bare.state);
    free(bare.state);
    return served;
}

static void print_bare(const char *name, uint64_t seeds)
{
    weir_caching_config one_kind = WEIR_CACHING_CONFIG_INIT;
    one_kind.small_bytes = UINT64_MAX;
    const struct bare exact = {.strategy = best_fit_strategy()};
    const struct bare caching = {.strategy = weir_caching_strategy(), .config = &one_kind};
    double sum_exact = 0;
    double sum_caching = 0;
    double worst = -1;
    for (uint64_t seed = 0; seed < seeds; seed++) {
        struct workload workload;
        require(workload_make(name, seed, &workload), "no such workload, or no memory");
        const uint64_t enough = workload.peak_bytes + workload.peak_bytes / 8;
        const double least_exact = smallest(&workload, bare_serves, &exact, enough);
        const double least_caching = smallest(&workload, bare_serves, &caching, enough);
        sum_exact += least_exact;
        sum_caching += least_caching;
        worst = least_caching - least_exact > worst ? least_caching - least_exact : worst;
        workload_free(&workload);
    }
    const double count = (double)seeds;
    (void)printf("%-12s %10.4f %10.4f %10.2f %10.2f\n", name, sum_exact / count,
                 sum_caching / count, 100 * (sum_caching - sum_exact) / count, 100 * worst);
    (void)fflush(stdout);
}

int main(int count, char **arguments)
{
    const uint64_t seeds = count > 1 ? strtoull(arguments[1], NULL, 10) : 10;
    if (count > 2 || seeds == 0 || seeds > most_seeds) {
        (void)fprintf(stderr, "usage: micro_packing [SEEDS]    1 to %d\n", most_seeds);
        return EXIT_FAILURE;
    }
    (void)printf("%-10s %10s  %-24s %10s %10s %10s %10s %10s\n", "workload", "live MiB", "behind a pool",
                 "reserved", "limit", "taken", "returned", "moved MiB");
    print_pools("mix1k", true);
    print_pools("infer", true);
    print_pools("mix100k", false);
    print_pools("mix1M", false);
    (void)printf("\n%-12s %10s %10s %10s %10s\n", "workload", "best fit", "caching", "points",
                 "worst");
    print_bare("mix1k", seeds);
    print_bare("infer", seeds);
    print_bare("log1k", seeds);
    print_bare("uniform1k", seeds);
    print_bare("log10k", seeds);
    print_bare("uniform11k", seeds);
    return EXIT_SUCCESS;
}
