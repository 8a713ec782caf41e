/* progress.h: one line on standard error that tells how far a replay has come. Several traces may be replayed at a
 * time; the line shows the trace that will be printed next. Thread-safe. */
#ifndef WEIR_COMMAND_PROGRESS_H
#define WEIR_COMMAND_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct progress {
    pthread_mutex_t lock;
    bool wanted;
    bool shown;   /* there is a line */
    size_t count; /* traces in all */
    size_t next;  /* the trace that is printed next */
};

/* A replay of trace `number`. */
struct progress_source {
    struct progress *progress;
    size_t number;
    const char *trace;
    const char *strategy;
};

/* Starts at the first of `count` traces. Prints nothing with `quiet`, or if standard error is no terminal. */
void progress_start(struct progress *progress, size_t count, bool quiet);

/* Shows the share of the replay that is done, 0 to 1. Serves as the callback `progress` of struct jobs and struct
 * replay_options. */
void progress_show(void *source, double share);

/* Counts the replays of one trace, where their number is not known beforehand. */
struct progress_counter {
    struct progress *progress;
    const char *trace;
    size_t ended;
};

/* Counts a replay that has ended, and shows the count. Serves as the callback of struct jobs; the share is not used. */
void progress_count(void *counter, double share);

/* Clears the progress line before something is printed. From now on the line shows trace `next`. */
void progress_clear(struct progress *progress, size_t next);

#endif
