/* An engine with a memory budget: it admits batches that fit, evicts cache pages under pressure, and prints the pool's
 * advice when a request fails. */
#include <stdio.h>
#include <stdlib.h>
#include <weir/caching.h>
#include <weir/sim.h>
#include <weir/weir.h>

enum { mib = 1 << 20, pages = 10 };
static weir_stream *stream;
static weir_block *cache[pages];

static void check(weir_status status)
{
    if (status == WEIR_OK) return;
    fprintf(stderr, "04_budget: %s\n", weir_status_text(status));
    exit(1);
}

/* The pool calls this before it exceeds its soft limit. While the callback returns true and the free memory is still
 * too little, the pool calls it again. */
static bool evict(void *next, weir_pool *pool, const weir_pressure *pressure)
{
    int *page = next;
    if (*page == pages) return false;
    printf("  %d MiB too much: page %d goes\n", (int)(pressure->over_bytes / mib), *page);
    check(weir_pool_free(pool, cache[(*page)++], stream));
    return true;
}

int main(void)
{
    weir_sim_config device = WEIR_SIM_CONFIG_INIT;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    weir_sim *sim;
    weir_pool *pool;
    weir_tag kv;
    weir_block *blocks[64];
    uint64_t sizes[64];
    int evicted = 0;
    check(weir_sim_create(&device, &sim));
    config.device = weir_sim_device(sim), config.strategy = weir_caching_strategy();
    config.soft_limit_bytes = 72 * mib, config.limit_bytes = 96 * mib;
    config.pressure_callback = evict, config.pressure_ctx = &evicted;
    check(weir_pool_create(&config, &pool));
    check(weir_pool_stream(pool, weir_sim_default_stream(sim), &stream));
    check(weir_pool_tag(pool, "kv cache", &kv));
    for (int i = 0; i < pages; i++) check(weir_pool_alloc_tagged(pool, stream, 4 * mib, 0, kv, &cache[i]));

    for (int i = 0; i < 64; i++) sizes[i] = mib;
    for (int batch = 1; batch <= 64; batch *= 2) { /* the blocks stay live, like those of a running request */
        uint64_t fit;
        check(weir_pool_would_fit(pool, stream, mib, (uint64_t)batch, &fit));
        printf("batch of %d blocks: %s\n", batch, fit == (uint64_t)batch ? "admitted" : "would not fit now");
        if (fit == (uint64_t)batch) check(weir_pool_alloc_many(pool, stream, sizes, fit, 0, blocks));
    }
    if (weir_pool_alloc(pool, stream, 80 * mib, 0, blocks) != WEIR_ERR_NO_MEMORY) return 1;
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    char report[2048];
    check(weir_pool_get_oom(pool, &record));
    (void)weir_oom_explain(&record, report, sizeof(report));
    puts(report);
    check(weir_pool_destroy(pool));
    check(weir_sim_destroy(sim));
    return 0;
}
