/* replay_strategy.c: replays traces with a strategy of the program's own, beside every strategy that weir knows.
 *   replay_strategy TRACE... */
#include "first_fit.h"

#include <stdio.h>
#include <stdlib.h>
#include <weir/trace_file.h>

static void print_row(const weir_trace *trace, const char *name, const weir_trace_replay_config *config)
{
    weir_trace_figures figures = WEIR_TRACE_FIGURES_INIT;
    if (weir_trace_replay(trace, config, &figures) != WEIR_OK) {
        fprintf(stderr, "replay_strategy: %s\n", weir_last_error());
        exit(1);
    }
    printf("  %-14s %6.1f MiB reserved, %.3f of live, %5d device calls, %d hazards\n", name,
           (double)figures.peak_reserved_bytes / 1048576.0, figures.ratio, (int)figures.device_calls,
           (int)figures.hazards);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        weir_trace *trace;
        if (weir_trace_read(argv[i], NULL, &trace) != WEIR_OK) {
            fprintf(stderr, "replay_strategy: %s\n", weir_last_error());
            return 1;
        }
        puts(argv[i]);
        weir_pool_config pool = WEIR_POOL_CONFIG_INIT;
        weir_trace_replay_config config = WEIR_TRACE_REPLAY_CONFIG_INIT;
        pool.strategy = first_fit_strategy();
        pool.flags = WEIR_POOL_REGIONS;
        config.pool = &pool;
        config.flags = WEIR_TRACE_REPLAY_CHECK; /* proves the invariants of first_fit after every event */
        print_row(trace, "first_fit", &config);
        pool.flags = 0;
        print_row(trace, "first_fit+vm", &config);
        config = (weir_trace_replay_config)WEIR_TRACE_REPLAY_CONFIG_INIT;
        for (size_t n = 0; (config.strategy = weir_trace_strategy(n)) != NULL; n++) {
            print_row(trace, config.strategy, &config);
        }
        weir_trace_free(trace);
    }
    return 0;
}
