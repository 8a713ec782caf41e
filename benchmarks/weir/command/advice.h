/* advice.h: settings with which a recorded program would have reserved less memory, each proven by a replay. */
#ifndef WEIR_COMMAND_ADVICE_H
#define WEIR_COMMAND_ADVICE_H

#include <jansson.h>
#include <stdio.h>

#include "replay/tuning.h"

struct crew;

/* The settings that a person may change. */
enum cure_kind {
    CURE_NONE,       /* the settings that the program had */
    CURE_SETTINGS,   /* other settings of the same allocator */
    CURE_UNEXPANDED, /* the same without expandable segments, for memory that other code shares or registers */
    CURE_POOL,       /* a pool of weir */
    CURE_REGIONS,    /* the same with WEIR_POOL_REGIONS, for the same reason */
    CURE_COUNT,
};

struct cure {
    enum cure_kind kind;
    struct tuning_point point;
    uint64_t enough; /* the least capacity that was found to serve the recording; 0: none is */
    /* A limit for this allocator, with which a replay served the recording: bytes for weir, a share of the device for
     * PyTorch. 0: none. */
    uint64_t cap_bytes;
    double cap_share;
};

enum { advice_most_reasons = 12 };

struct advice {
    const struct trace *trace;
    enum pytorch_program program;
    const char *settings; /* those that the program had; "": the defaults, or not known */
    bool told;            /* the recording tells them */
    bool foreign;         /* the recording is of a program with another allocator: `program` is a comparison */
    char refused[256];    /* why the recorded settings are not modelled, and the defaults stand for them; "" */
    uint64_t peak_live_bytes;
    uint64_t recorded_bytes; /* the most that the recorded allocator held; 0: the recording does not tell */
    uint64_t capacity;       /* of the device; 0: not known */
    struct tuning tuning;
    struct cure cures[CURE_COUNT];
    size_t cure_count;
    size_t best; /* the cure that is advised; 0: none is better than the settings that the program had */
    char sentence[tuning_text + 512];       /* the advice in words */
    char reasons[advice_most_reasons][384]; /* why not the other settings */
    size_t reason_count;
};

/* Makes the advice for a trace of one device, which must live as long as the advice. Returns false with a line in
 * `error` if a replay could not be completed. */
bool advice_make(const struct trace *trace, const struct replay_options *options, struct advice *advice, char *error,
                 size_t error_size);

/* The names of the environment variables of the program's settings, the newest first; NULL ends the list. */
const char *const *advice_variables(const struct advice *advice);
/* Writes the text of WEIR_TORCH for a pool, without a limit. */
void advice_weir_torch(const struct cure *cure, char *text, size_t size);

/* output_advice.c */
void output_advice(FILE *out, const struct advice *advice);
json_t *output_advice_json(const struct advice *advice);

#endif
