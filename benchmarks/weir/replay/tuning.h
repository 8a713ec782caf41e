/* tuning.h: searches the settings with which a trace reserves the least: those of PyTorch's allocator or torch_npu's,
 * and those of a pool of weir.
 *
 * Each setting is tried by a replay. For PyTorch the search begins with the settings that the program had, tries every
 * change of one, every pair of roundup_power2_divisions and large_segment_size_mb, and then makes the one change that
 * saves the most, over and over; it does so without and with expandable segments, which change what all others do. For
 * weir every pool that WEIR_TORCH can describe, but those of `bump`, is tried. So a result is never worse than the
 * start, and its figures are those of a replay of its row.
 * Cost: some 150 replays for PyTorch, 12 for weir. tests/command/command/advise_full.py compares it with a full search.
 */
#ifndef WEIR_BENCHMARKS_TUNING_H
#define WEIR_BENCHMARKS_TUNING_H

#include "replay/replay.h"

/* A program's settings have at most tuning_longest_base bytes; those that the search adds fit beside them. */
enum { tuning_text = 1024, tuning_longest_base = 640, tuning_most_alone = 10 };

/* One replay. */
struct tuning_point {
    char row[tuning_text + 16]; /* as replay_strategy_find or replay_strategy_with_settings take it */
    weir_growth growth;         /* of a pool */
    bool played;                /* false: the program refuses the settings */
    bool served;                /* no request ran out of memory */
    uint64_t event;             /* !served: the event of the request that was refused */
    uint64_t size;              /* !served: its bytes */
    uint64_t peak_reserved_bytes;
    uint64_t device_calls;
    unsigned changes; /* settings that differ from the program's own */
};

struct tuning {
    struct tuning_point now;        /* the settings that the program had */
    struct tuning_point best;       /* `now` if no change saves a thousandth */
    struct tuning_point unexpanded; /* the best without expandable segments */
    /* Each setting alone, beside those that the program had, with its best value. */
    struct tuning_point alone[tuning_most_alone];
    size_t alone_count;
    struct tuning_point pool;    /* the best pool of weir */
    struct tuning_point regions; /* the best one with WEIR_POOL_REGIONS */
    size_t replays;
};

/* Searches. `base`: the settings that the program had, which it must accept, of at most tuning_longest_base bytes;
 * those that the search does not know stay as they are. Of the options, capacity, costs, seed, jobs, crew and progress
 * are used; `progress` is called after each replay. Returns false with a line in `error` if a replay could not be
 * completed. */
bool tuning_search(const struct trace *trace, enum pytorch_program program, const char *base, uint64_t pad_bytes,
                   const struct replay_options *options, struct tuning *tuning, char *error, size_t error_size);

/* Replays one row and fills in the point, whose `row`, `growth` and `changes` are given. Returns false with a line in
 * `error` if the replay could not be completed. */
bool tuning_play(const struct trace *trace, uint64_t pad_bytes, const struct replay_options *options,
                 struct tuning_point *point, char *error, size_t error_size);

/* True if `point` is better than `than`: it serves more; else it saves a thousandth; else it needs no more memory, with
 * fewer changes. */
bool tuning_is_better(const struct tuning_point *point, const struct tuning_point *than);

/* Returns the text in the brackets of a row; *length is its length. */
const char *tuning_settings(const struct tuning_point *point, int *length);

/* Makes the row of a point; *owned is to be freed with free. NULL: the program refuses its settings, or there is no
 * host memory. */
const struct replay_strategy *tuning_row(const struct tuning_point *point, struct replay_strategy **owned);

#endif
