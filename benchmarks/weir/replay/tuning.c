/* tuning.c: see tuning.h. */
#include "replay/tuning.h"

#include "replay/jobs.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { most_values = 8, most_trials = 64, most_steps = 16, longest_value = 256 };

/* The settings that the search changes, and the values that it tries beside none. */
static const struct knob {
    const char *name;
    bool npu_only;
    const char *values[most_values]; /* up to NULL */
} knobs[] = {
    {"expandable_segments", false, {"True"}},
    {"max_split_size_mb", false, {"32", "64", "128", "256", "512", "1024"}},
    {"roundup_power2_divisions", false, {"1", "2", "4", "8", "16"}},
    {"large_segment_size_mb", false, {"32", "64", "128", "256", "512"}},
    {"max_non_split_rounding_mb", false, {"64", "128", "256"}},
    {"segment_size_mb", true, {"32", "64", "128", "256", "512"}},
    {"base_addr_aligned_kb", true, {"0"}},
    {"page_size", true, {NULL}}, /* may be left out only */
};

enum { expandable, max_split, roundup, large_segment, max_non_split, knob_count = sizeof(knobs) / sizeof(knobs[0]) };

_Static_assert((int)knob_count <= (int)tuning_most_alone, "each setting has a place");

struct choice {
    char values[knob_count][longest_value]; /* "": not set */
};

/* Replays that do not depend on each other: each is a job. */
struct round {
    const struct trace *trace;
    const struct replay_options *options;
    enum pytorch_program program;
    uint64_t pad_bytes;
    const struct choice *base; /* the program's own */
    const char *rest;          /* its settings that the search does not know */
    struct choice choices[most_trials];
    struct tuning_point points[most_trials];
    size_t count;
    size_t replays;
    char *error;
    size_t error_size;
};

/* --- the text of a choice --- */

/* The text has tuning_text bytes, which hold the longest base and the longest value of each setting. */
static void add_setting(char *text, const char *name, const char *value)
{
    char *end = text + strlen(text);
    end = stpcpy(stpcpy(end, end > text ? "," : ""), name);
    (void)stpcpy(stpcpy(end, value[0] != '\0' ? ":" : ""), value);
}

/* `settings` is shorter than tuning_text. */
static void write_row(struct tuning_point *point, enum pytorch_program program, const char *settings)
{
    char *end = stpcpy(point->row, program == PYTORCH_NPU ? "torch_npu[" : "pytorch[");
    (void)stpcpy(stpcpy(end, settings), "]");
}

static void write_choice(const struct round *round, const struct choice *choice, struct tuning_point *point)
{
    char text[tuning_text];
    *point = (struct tuning_point){0};
    (void)snprintf(text, sizeof(text), "%s", round->rest);
    for (size_t k = 0; k < knob_count; k++) {
        if (choice->values[k][0] != '\0') {
            add_setting(text, knobs[k].name, choice->values[k]);
        }
        point->changes += strcmp(choice->values[k], round->base->values[k]) != 0 ? 1 : 0;
    }
    write_row(point, round->program, text);
}

const char *tuning_settings(const struct tuning_point *point, int *length)
{
    const char *bracket = strchr(point->row, '[');
    *length = bracket != NULL ? (int)strlen(bracket) - 2 : 0;
    return bracket != NULL ? bracket + 1 : "";
}

static size_t knob_of(const char *setting, size_t length)
{
    size_t k = 0;
    while (k < knob_count && (strlen(knobs[k].name) != length || memcmp(knobs[k].name, setting, length) != 0)) {
        k++;
    }
    return k;
}

/* Takes the settings that the search knows out of the program's text, which has no blanks; the others go to `rest`. A
 * comma in brackets belongs to a value. */
static void read_base(const char *base, struct choice *choice, char *rest)
{
    rest[0] = '\0';
    while (*base != '\0') {
        size_t length = 0;
        for (int depth = 0; base[length] != '\0' && (depth > 0 || base[length] != ','); length++) {
            depth += (base[length] == '[') - (base[length] == ']');
        }
        char one[tuning_text];
        (void)snprintf(one, sizeof(one), "%.*s", (int)length, base);
        const char *value = strchr(one, ':');
        const size_t k = value != NULL ? knob_of(one, (size_t)(value - one)) : knob_count;
        if (k < knob_count && strlen(value) <= longest_value) {
            memcpy(choice->values[k], value + 1, strlen(value));
        } else if (length > 0) {
            add_setting(rest, one, "");
        }
        base += length + (base[length] == ',');
    }
    if (strcmp(choice->values[expandable], "False") == 0) {
        choice->values[expandable][0] = '\0';
    }
}

/* --- a replay --- */

const struct replay_strategy *tuning_row(const struct tuning_point *point, struct replay_strategy **owned)
{
    const size_t length = strlen(point->row);
    struct pytorch_settings_error refused;
    *owned = NULL;
    if (strchr(point->row, '[') == NULL) {
        return replay_strategy_find(point->row, length);
    }
    *owned = replay_strategy_with_settings(point->row, length, &refused);
    return *owned;
}

bool tuning_play(const struct trace *trace, uint64_t pad_bytes, const struct replay_options *options,
                 struct tuning_point *point, char *error, size_t error_size)
{
    struct replay_strategy *owned = NULL;
    const struct replay_strategy *strategy = tuning_row(point, &owned);
    struct replay_options own = *options;
    struct replay_result result;
    point->played = point->served = false;
    point->peak_reserved_bytes = UINT64_MAX;
    if (strategy == NULL) {
        return true;
    }
    own.no_audit = own.no_timing = true;
    own.progress = NULL;
    own.growth = point->growth;
    const uint64_t pad = strategy->fixed_pad >= 0 ? (uint64_t)strategy->fixed_pad : pad_bytes;
    const bool done = replay_run(trace, strategy, pad, &own, &result, error, error_size);
    point->played = done;
    point->served = done && !result.oom.happened;
    point->event = result.oom.event;
    point->size = result.oom.size;
    point->peak_reserved_bytes = result.peak_reserved_bytes;
    point->device_calls = result.device_calls;
    replay_result_free(&result);
    free(owned);
    return done;
}

static bool play(void *ctx, size_t number, char *error, size_t error_size)
{
    struct round *round = ctx;
    return tuning_play(round->trace, round->pad_bytes, round->options, &round->points[number], error, error_size);
}

static bool play_points(struct round *round)
{
    const struct jobs jobs = {.count = round->count,
                              .threads = round->options->jobs,
                              .crew = round->options->crew,
                              .play = play,
                              .ctx = round,
                              .progress = round->options->progress,
                              .progress_ctx = round->options->progress_ctx};
    round->replays += round->count;
    return jobs_run(&jobs, round->error, round->error_size);
}

static bool play_choices(struct round *round)
{
    for (size_t i = 0; i < round->count; i++) {
        write_choice(round, &round->choices[i], &round->points[i]);
    }
    return play_points(round);
}

static bool play_one(struct round *round, const struct choice *choice)
{
    round->count = 1;
    round->choices[0] = *choice;
    return play_choices(round);
}

/* --- the better of two --- */

bool tuning_is_better(const struct tuning_point *point, const struct tuning_point *than)
{
    if (!point->played || !than->played) {
        return point->played && !than->played;
    }
    if (point->served != than->served) {
        return point->served;
    }
    if (!point->served && point->event != than->event) {
        return point->event > than->event;
    }
    const uint64_t bytes = than->peak_reserved_bytes;
    return point->peak_reserved_bytes < bytes - bytes / 1000 ||
           (point->peak_reserved_bytes <= bytes && point->changes < than->changes);
}

/* The order among points that are all better than another one: any byte counts. */
static bool precedes(const struct tuning_point *a, const struct tuning_point *b)
{
    if (a->served != b->served || (!a->served && a->event != b->event)) {
        return tuning_is_better(a, b);
    }
    if (a->peak_reserved_bytes != b->peak_reserved_bytes) {
        return a->peak_reserved_bytes < b->peak_reserved_bytes;
    }
    return a->changes != b->changes ? a->changes < b->changes : a->device_calls < b->device_calls;
}

/* Returns the first in the order of the points that are better than `than`; round->count if there is none. */
static size_t best_of(const struct round *round, const struct tuning_point *than)
{
    size_t best = round->count;
    for (size_t i = 0; i < round->count; i++) {
        if (tuning_is_better(&round->points[i], than) &&
            (best == round->count || precedes(&round->points[i], &round->points[best]))) {
            best = i;
        }
    }
    return best;
}

/* --- the search among the settings of PyTorch --- */

static void add_trial(struct round *round, const struct choice *from, size_t knob, const char *value)
{
    if (round->count < most_trials && strcmp(from->values[knob], value) != 0) {
        struct choice *choice = &round->choices[round->count++];
        *choice = *from;
        (void)snprintf(choice->values[knob], longest_value, "%s", value);
    }
}

/* Adds the values of two settings that change what the other one does: every pair is tried. */
static void add_pairs(struct round *round, const struct choice *from)
{
    round->count = 0;
    for (size_t r = 0; r < most_values; r++) {
        for (size_t l = 0; l < most_values; l++) {
            struct choice pair = *from;
            const char *const divisions = knobs[roundup].values[r];
            const char *const segment = knobs[large_segment].values[l];
            if (divisions != NULL && segment != NULL) {
                (void)snprintf(pair.values[roundup], longest_value, "%s", divisions);
                add_trial(round, &pair, large_segment, segment);
            }
        }
    }
}

/* Adds every change of one setting, and the change of all settings to none. Expandable segments stay as they are. */
static void add_trials(struct round *round, const struct choice *from)
{
    struct choice none = {.values = {""}};
    memcpy(none.values[expandable], from->values[expandable], longest_value);
    round->count = 1;
    round->choices[0] = none;
    for (size_t k = expandable + 1; k < knob_count; k++) {
        const bool idle = k == max_non_split && from->values[max_split][0] == '\0'; /* it has no effect */
        add_trial(round, from, k, "");
        for (size_t v = 0; v < most_values && knobs[k].values[v] != NULL && !idle; v++) {
            if (round->program == PYTORCH_NPU || !knobs[k].npu_only) {
                add_trial(round, from, k, knobs[k].values[v]);
            }
        }
    }
}

/* Keeps the best value of each setting in the first round, which changes one setting of the program. */
static void keep_alone(const struct round *round, struct tuning *tuning)
{
    for (size_t k = expandable + 1; k < knob_count; k++) {
        const struct tuning_point *best = NULL;
        for (size_t i = 1; i < round->count; i++) {
            const struct tuning_point *point = &round->points[i];
            const bool of_knob = strcmp(round->choices[i].values[k], round->base->values[k]) != 0;
            if (of_knob && point->played && (best == NULL || precedes(point, best))) {
                best = point;
            }
        }
        if (best != NULL) {
            tuning->alone[tuning->alone_count++] = *best;
        }
    }
}

/* Moves to the best choice of the round that is better than *at. Returns false if there is none. */
static bool move(const struct round *round, struct choice *from, struct tuning_point *at)
{
    const size_t best = best_of(round, at);
    if (best == round->count) {
        return false;
    }
    *from = round->choices[best];
    *at = round->points[best];
    return true;
}

/* Climbs from a choice, which is played first; *at is the best point. `alone`: the choice is the program's. */
static bool climb(struct round *round, struct choice from, struct tuning_point *at, struct tuning *alone)
{
    struct choice next = from;
    if (!play_one(round, &from)) {
        return false;
    }
    *at = round->points[0];
    add_trials(round, &from);
    if (!play_choices(round)) {
        return false;
    }
    if (alone != NULL) {
        keep_alone(round, alone);
    }
    bool moved = move(round, &next, at);
    add_pairs(round, &from);
    if (!play_choices(round)) {
        return false;
    }
    moved |= move(round, &next, at);
    for (unsigned step = 0; step < most_steps && moved; step++) {
        add_trials(round, &next);
        if (!play_choices(round)) {
            return false;
        }
        moved = move(round, &next, at);
    }
    return true;
}

/* Plays the program's own text, and its defaults. */
static bool play_start(struct round *round, const char *base, struct tuning_point *now, struct tuning_point *plain)
{
    round->count = 2;
    round->points[0] = (struct tuning_point){0};
    round->points[1] = (struct tuning_point){.changes = 1};
    write_row(&round->points[0], round->program, base);
    write_row(&round->points[1], round->program, "");
    const bool done = play_points(round);
    *now = round->points[0];
    *plain = round->points[1];
    return done;
}

static bool search_settings(struct round *round, const char *base, struct tuning *tuning)
{
    struct choice without = *round->base;
    struct choice with = *round->base;
    struct tuning_point plain;
    struct tuning_point expanded;
    const bool had = round->base->values[expandable][0] != '\0';
    without.values[expandable][0] = '\0';
    (void)snprintf(with.values[expandable], longest_value, "True");
    if (!play_start(round, base, &tuning->now, &plain) ||
        !climb(round, without, &tuning->unexpanded, had ? NULL : tuning) || !play_one(round, had ? &without : &with)) {
        return false;
    }
    if (round->points[0].played) {
        tuning->alone[tuning->alone_count++] = round->points[0];
    }
    if (!climb(round, with, &expanded, had ? tuning : NULL)) {
        return false;
    }
    tuning->unexpanded = tuning_is_better(&plain, &tuning->unexpanded) ? plain : tuning->unexpanded;
    tuning->best = tuning_is_better(&tuning->unexpanded, &tuning->now) ? tuning->unexpanded : tuning->now;
    tuning->best = tuning_is_better(&expanded, &tuning->best) ? expanded : tuning->best;
    return true;
}

/* --- the search among the pools of weir --- */

static bool search_pools(struct round *round, struct tuning *tuning)
{
    static const char *const rows[] = {"caching+vm", "size_class+vm", "caching", "size_class"};
    enum { row_count = sizeof(rows) / sizeof(rows[0]), with_vm = 2 };
    size_t first[2] = {0, 0}; /* the best with virtual memory, and with regions */
    round->count = 0;
    for (size_t i = 0; i < row_count; i++) {
        for (unsigned growth = WEIR_GROWTH_BALANCED; growth <= WEIR_GROWTH_WAIT_FIRST; growth++) {
            struct tuning_point *point = &round->points[round->count++];
            *point = (struct tuning_point){.growth = (weir_growth)growth};
            point->changes = (i % 2 != 0 ? 1U : 0U) + (growth != WEIR_GROWTH_BALANCED ? 1U : 0U);
            (void)snprintf(point->row, sizeof(point->row), "%s", rows[i]);
        }
    }
    if (!play_points(round)) {
        return false;
    }
    const size_t half = round->count / row_count * with_vm;
    first[1] = half;
    for (size_t i = 0; i < round->count; i++) {
        size_t *best = &first[i < half ? 0 : 1];
        *best = tuning_is_better(&round->points[i], &round->points[*best]) ? i : *best;
    }
    tuning->regions = round->points[first[1]];
    tuning->pool =
        round->points[tuning_is_better(&round->points[first[1]], &round->points[first[0]]) ? first[1] : first[0]];
    return true;
}

/* --- both --- */

static void without_blanks(char *text, const char *from)
{
    size_t used = 0;
    for (; *from != '\0'; from++) {
        if (!isspace((unsigned char)*from)) {
            text[used++] = *from;
        }
    }
    text[used] = '\0';
}

bool tuning_search(const struct trace *trace, enum pytorch_program program, const char *base, uint64_t pad_bytes,
                   const struct replay_options *options, struct tuning *tuning, char *error, size_t error_size)
{
    char text[tuning_text];
    char rest[tuning_text];
    struct choice own = {.values = {""}};
    struct round *round = calloc(1, sizeof(*round));
    *tuning = (struct tuning){0};
    if (round == NULL) {
        (void)snprintf(error, error_size, "no host memory");
        return false;
    }
    without_blanks(text, base);
    read_base(text, &own, rest);
    *round = (struct round){.trace = trace,
                            .options = options,
                            .program = program,
                            .pad_bytes = pad_bytes,
                            .base = &own,
                            .rest = rest,
                            .error = error,
                            .error_size = error_size};
    const bool done = search_settings(round, text, tuning) && search_pools(round, tuning);
    tuning->replays = round->replays;
    free(round);
    return done;
}
