/* memory_limit.c: a test of an engine: a recording of the engine must fit into a limit, without a hazard.
 *   memory_limit TRACE LIMIT_MIB */
#include <stdio.h>
#include <stdlib.h>
#include <weir/caching.h>
#include <weir/trace_file.h>

static void print(void *ctx, const char *text)
{
    (void)ctx;
    fprintf(stderr, "%s\n", text);
}

int main(int argc, char **argv)
{
    weir_trace *trace;
    weir_trace_figures figures = WEIR_TRACE_FIGURES_INIT;
    weir_pool_config pool = WEIR_POOL_CONFIG_INIT; /* the pool as the engine creates it */
    weir_trace_replay_config config = WEIR_TRACE_REPLAY_CONFIG_INIT;
    if (argc < 3) return 2;
    pool.strategy = weir_caching_strategy();
    pool.limit_bytes = strtoull(argv[2], NULL, 10) << 20;
    config.pool = &pool;
    config.report = print; /* called with the hazards, and with the largest holders if memory runs out */
    if (weir_trace_read(argv[1], NULL, &trace) != WEIR_OK || weir_trace_replay(trace, &config, &figures) != WEIR_OK) {
        fprintf(stderr, "memory_limit: %s\n", weir_last_error());
        return 2;
    }
    weir_trace_free(trace);
    if (figures.out_of_memory) printf("out of memory at event %d\n", (int)figures.oom_event);
    printf("%d MiB reserved for %d MiB live, %d hazards\n", (int)(figures.peak_reserved_bytes >> 20),
           (int)(figures.peak_live_bytes >> 20), (int)figures.hazards);
    return figures.out_of_memory || figures.hazards != 0;
}
