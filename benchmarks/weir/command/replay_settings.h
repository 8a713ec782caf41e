/* replay_settings.h: the options of `weir replay`. */
#ifndef WEIR_COMMAND_REPLAY_SETTINGS_H
#define WEIR_COMMAND_REPLAY_SETTINGS_H

#include "output.h"
#include "part_options.h"

enum { most_strategies = 16 };

struct settings {
    const struct replay_strategy *strategies[most_strategies];
    /* loaded[i] is strategies[i] if that strategy comes from a shared object, else NULL */
    struct replay_strategy *loaded[most_strategies];
    struct replay_strategy *made[most_strategies]; /* likewise, if its name has settings in brackets */
    size_t strategy_count;
    struct replay_options replay;
    struct price_source prices;
    int pad; /* bytes added to each request; -1: as many as the recording shows */
    struct part_options part;
    bool sweeps;
    struct sweep_range sweep;
    uint32_t host_rounds; /* 0: no host allocators */
    const char *report;
    bool json;
    bool csv;
    bool colour;
    bool quiet;
};

/* Reads the options up to `optind`, and the price table that WEIR_SIM_PRICES names. Returns EXIT_DONE, EXIT_USAGE after
 * a message, or -1 after --help. */
int settings_read(struct settings *settings, int argc, char **argv);
void settings_free(struct settings *settings);

/* Parts that `weir advise` shares; `command` is the subcommand of messages. Each returns EXIT_DONE, or EXIT_USAGE after
 * a message. */
int settings_parse_memory(const char *command, const char *option, const char *text, uint64_t *bytes);
int settings_parse_jobs(const char *command, const char *text, uint32_t *jobs);
/* Reads the price table that the environment variable WEIR_SIM_PRICES names, if it is set. */
int settings_read_prices(const char *command, weir_sim_costs *costs, struct price_source *prices);

#endif
