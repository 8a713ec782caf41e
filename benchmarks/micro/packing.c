/* packing.c: measures how much memory the workloads take compared with their live blocks. It times nothing; all forms
 * except the last repeat exactly.
 *
 *     micro_packing [SEEDS]    two tables; SEEDS is the number of seeds of the second one; default 10
 *     micro_packing ROW WORKLOAD FIRST LAST
 *                              one line for the seeds FIRST to LAST: mean and largest of peak reserved over peak
 *                              live (as requested) in one pass, and the mean of device calls per 1,000 allocs in
 *                              nine more passes
 *     micro_packing ROW        host bytes per block with a million live blocks: the growth of this process
 *
 * ROW is a pool of bench.c, or tlsf. For tlsf the highest end of a block counts as reserved.
 *
 * The first table has strategies in weir's pool, seed 1: peak reserved, and the smallest limit under which no request
 * fails, both over peak live. Peak live is in the first column. The last columns are the regions (with virtual memory:
 * granules of 2 MiB) that were taken and returned, and the idle memory that moved.
 *
 * The second table has strategies without a pool: the smallest single region, found by bisection, that serves a
 * workload without a refusal, over peak live; mean over the seeds. `caching` keeps all sizes in one kind of region, so
 * that the table compares placement alone with exact best fit. "points" is 100 times the difference; "worst" is the
 * largest difference of a seed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "micro/bench.h"
#include "micro/best_fit.h"
#include "micro/tlsf.h"
#include "micro/workloads.h"

#include <weir/caching.h>

enum { most_seeds = 1000, more_passes = 9 };

/* The predicate of the bisection: true if the allocator serves `workload` with `bytes` bytes of memory. */
typedef bool (*serves)(const struct workload *workload, const void *how, uint64_t bytes);

static void **slots_of(const struct workload *workload)
{
    void **blocks = calloc(workload->slots, sizeof(*blocks));
    bench_require(blocks != NULL, "no memory");
    return blocks;
}

static bool play_once(const struct workload *workload, const struct workload_user *user)
{
    void **blocks = slots_of(workload);
    const bool served = workload_play(workload, 0, workload->count, blocks, user);
    workload_clear(workload, blocks, user);
    free(blocks);
    return served;
}

/* Returns the smallest memory size that serves the workload, divided by the workload's peak, exact to 1/4,000. The
 * bisection assumes that every larger size serves the workload too, which need not hold: best fit is not monotone. */
static double smallest(const struct workload *workload, serves serves_from, const void *how, uint64_t enough)
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

/* --- rows --- */

/* An open row. */
struct contender {
    const struct bench_row *row;
    struct bench_pool pool;
    struct tlsf tlsf;
    uint64_t tlsf_end; /* highest end of a block so far */
};

static void *alloc_block(void *ctx, uint64_t size)
{
    const struct contender *contender = ctx;
    weir_block *block = NULL;
    (void)!weir_pool_alloc(contender->pool.pool, contender->pool.streams[0], size, 0, &block);
    return block;
}

static void free_block(void *ctx, void *block)
{
    const struct contender *contender = ctx;
    bench_require(weir_pool_free(contender->pool.pool, block, contender->pool.streams[0]) == WEIR_OK,
                  "cannot free a block");
}

static void *alloc_tlsf(void *ctx, uint64_t size)
{
    struct contender *contender = ctx;
    const uint32_t range = tlsf_alloc(&contender->tlsf, size);
    const uint64_t end = tlsf_address(&contender->tlsf, range) + tlsf_bytes(&contender->tlsf, range);
    contender->tlsf_end = end > contender->tlsf_end ? end : contender->tlsf_end;
    return (void *)(uintptr_t)range;
}

static void free_tlsf(void *ctx, void *block)
{
    tlsf_free(&((struct contender *)ctx)->tlsf, (uint32_t)(uintptr_t)block);
}

static struct workload_user contender_open(struct contender *contender, const struct bench_row *row,
                                           uint64_t limit_bytes)
{
    *contender = (struct contender){.row = row};
    if (row->kind == BENCH_TLSF) {
        bench_require(tlsf_open(&contender->tlsf, UINT64_C(1) << 40, 1u << 22), "no memory");
        return (struct workload_user){alloc_tlsf, free_tlsf, contender};
    }
    bench_require(row->kind == BENCH_POOL, "a row that is neither a pool nor tlsf");
    bench_pool_open(&contender->pool, row, limit_bytes, 1);
    return (struct workload_user){alloc_block, free_block, contender};
}

static void contender_close(struct contender *contender)
{
    if (contender->row->kind == BENCH_POOL) {
        bench_pool_close(&contender->pool);
    } else {
        tlsf_close(&contender->tlsf);
    }
}

static weir_pool_stats stats_of(const struct contender *contender)
{
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    bench_require(weir_pool_get_stats(contender->pool.pool, &stats) == WEIR_OK, "no statistics");
    return stats;
}

static uint64_t most_reserved(const struct contender *contender)
{
    return contender->row->kind == BENCH_POOL ? stats_of(contender).peak_reserved_bytes : contender->tlsf_end;
}

static uint64_t device_calls(const struct contender *contender)
{
    return contender->row->kind == BENCH_POOL ? null_device_calls(contender->pool.device) : 0;
}

static struct workload workload_of(const char *name, uint64_t seed)
{
    struct workload workload;
    bench_require(workload_make(name, seed, &workload), "no such workload, or no memory");
    return workload;
}

/* --- output of one row --- */

static void print_row(const struct bench_row *row, const char *name, uint64_t first, uint64_t last)
{
    double sum = 0;
    double largest = 0;
    double calls = 0;
    for (uint64_t seed = first; seed <= last; seed++) {
        struct workload workload = workload_of(name, seed);
        struct contender contender;
        const struct workload_user user = contender_open(&contender, row, 0);
        void **blocks = slots_of(&workload);
        bench_require(workload_play(&workload, 0, workload.count, blocks, &user), "a request was refused");
        const double ratio = (double)most_reserved(&contender) / (double)workload.peak_bytes;
        const uint64_t before = device_calls(&contender);
        for (int pass = 0; pass < more_passes; pass++) {
            bench_require(workload_play(&workload, workload.start, workload.count, blocks, &user),
                          "a request was refused");
        }
        const double allocs = more_passes * (double)(workload.count - workload.start) / 2;
        calls += 1000.0 * (double)(device_calls(&contender) - before) / allocs;
        sum += ratio;
        largest = ratio > largest ? ratio : largest;
        workload_clear(&workload, blocks, &user);
        contender_close(&contender);
        free(blocks);
        workload_free(&workload);
    }
    const double seeds = (double)(last - first + 1);
    (void)printf("%.4f %.4f %.3f\n", sum / seeds, largest, calls / seeds);
}

/* Returns the resident bytes of this process. */
static uint64_t resident_bytes(void)
{
    uint64_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    bench_require(file != NULL && fscanf(file, "%*u %" SCNu64, &pages) == 1, "cannot read /proc/self/statm");
    (void)fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void print_host_bytes(const struct bench_row *row)
{
    struct workload workload = workload_of("mix1M", 1);
    void **blocks = slots_of(&workload);
    (void)memset(blocks, 1, workload.slots * sizeof(*blocks)); /* keeps the table's own pages out of the count */
    (void)memset(blocks, 0, workload.slots * sizeof(*blocks));
    struct contender contender;
    const uint64_t before = resident_bytes();
    const struct workload_user user = contender_open(&contender, row, 0);
    bench_require(workload_play(&workload, 0, workload.start, blocks, &user), "a request was refused");
    (void)printf("%.1f\n", (double)(resident_bytes() - before) / (double)workload.slots);
    workload_clear(&workload, blocks, &user);
    contender_close(&contender);
    free(blocks);
    workload_free(&workload);
}

/* --- strategies in a pool --- */

/* Plays the workload under a limit, 0 for none; *stats are the pool's statistics afterwards. */
static bool play_pool(const struct workload *workload, const struct bench_row *row, uint64_t limit_bytes,
                      weir_pool_stats *stats)
{
    struct contender contender;
    const struct workload_user user = contender_open(&contender, row, limit_bytes);
    const bool served = play_once(workload, &user);
    *stats = stats_of(&contender);
    contender_close(&contender);
    return served;
}

static bool pool_serves(const struct workload *workload, const void *how, uint64_t bytes)
{
    weir_pool_stats ignored;
    return play_pool(workload, how, bytes, &ignored);
}

static void print_pools(const char *name, bool with_limit)
{
    struct workload workload = workload_of(name, 1);
    for (size_t i = 0; i < BENCH_ROWS; i++) {
        const struct bench_row *row = &bench_rows[i];
        weir_pool_stats stats;
        if (row->kind != BENCH_POOL || !bench_row_locks(row)) { /* locks do not change how blocks are packed */
            continue;
        }
        bench_require(play_pool(&workload, row, 0, &stats), "a request failed without a limit");
        (void)printf("%-10s %10.1f  %-24s %10.3f", name, (double)workload.peak_bytes / (1 << 20), row->name,
                     (double)stats.peak_reserved_bytes / (double)workload.peak_bytes);
        if (with_limit) {
            (void)printf(" %10.3f", smallest(&workload, pool_serves, row, stats.peak_reserved_bytes));
        } else {
            (void)printf(" %10s", "-");
        }
        (void)printf(" %10" PRIu64 " %10" PRIu64 " %10" PRIu64 "\n", stats.region_allocs + stats.vm_creates,
                     stats.region_frees + stats.vm_destroys, stats.vm_moved_bytes >> 20);
        (void)fflush(stdout);
    }
    workload_free(&workload);
}

/* --- strategies called directly, without a pool --- */

struct bare {
    const weir_strategy_ops *strategy;
    const void *config;
    void *state;
};

static void *alloc_range(void *ctx, uint64_t size)
{
    const struct bare *bare = ctx;
    weir_range range = {0};
    const weir_status status =
        bare->strategy->alloc(bare->state, WEIR_LANE_OPEN, WEIR_TICK_MAX, size, bare->strategy->granule_bytes, &range);
    bench_require(status == WEIR_OK || status == WEIR_ERR_NO_MEMORY, "a strategy failed");
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
    bench_require(bare.state != NULL && strategy->init(bare.state, bare.config) == WEIR_OK &&
                      (strategy->lane_add == NULL || strategy->lane_add(bare.state, WEIR_LANE_OPEN) == WEIR_OK) &&
                      strategy->region_add(bare.state, 0, bytes & ~(strategy->granule_bytes - 1), 1, WEIR_LANE_OPEN, 0,
                                           &region) == WEIR_OK,
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
        struct workload workload = workload_of(name, seed);
        const uint64_t enough = workload.peak_bytes + workload.peak_bytes / 8;
        const double least_exact = smallest(&workload, bare_serves, &exact, enough);
        const double least_caching = smallest(&workload, bare_serves, &caching, enough);
        sum_exact += least_exact;
        sum_caching += least_caching;
        worst = least_caching - least_exact > worst ? least_caching - least_exact : worst;
        workload_free(&workload);
    }
    const double count = (double)seeds;
    (void)printf("%-12s %10.4f %10.4f %10.2f %10.2f\n", name, sum_exact / count, sum_caching / count,
                 100 * (sum_caching - sum_exact) / count, 100 * worst);
    (void)fflush(stdout);
}

static void print_tables(uint64_t seeds)
{
    (void)printf("%-10s %10s  %-24s %10s %10s %10s %10s %10s\n", "workload", "live MiB", "behind a pool", "reserved",
                 "limit", "taken", "returned", "moved MiB");
    print_pools("mix1k", true);
    print_pools("infer", true);
    print_pools("mix100k", false);
    print_pools("mix1M", false);
    (void)printf("\n%-12s %10s %10s %10s %10s\n", "workload", "best fit", "caching", "points", "worst");
    print_bare("mix1k", seeds);
    print_bare("infer", seeds);
    print_bare("log1k", seeds);
    print_bare("uniform1k", seeds);
    print_bare("log10k", seeds);
    print_bare("uniform11k", seeds);
}

int main(int count, char **arguments)
{
    const struct bench_row *row = count > 1 ? bench_row_find(arguments[1]) : NULL;
    const uint64_t seeds = count > 1 ? strtoull(arguments[1], NULL, 10) : 10;
    if (row != NULL && count == 2) {
        print_host_bytes(row);
    } else if (row != NULL && count == 5) {
        print_row(row, arguments[2], strtoull(arguments[3], NULL, 10), strtoull(arguments[4], NULL, 10));
    } else if (row == NULL && count <= 2 && seeds > 0 && seeds <= most_seeds) {
        print_tables(seeds);
    } else {
        (void)fprintf(stderr, "usage: micro_packing [SEEDS | ROW | ROW WORKLOAD FIRST LAST]    at most %d seeds\n",
                      most_seeds);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
