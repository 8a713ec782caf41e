/* collect.h: reads the channel of a recorded program (channel.h) and writes its traces. */
#ifndef WEIR_RECORD_COLLECT_H
#define WEIR_RECORD_COLLECT_H

#include "channel.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum collect_what {
    COLLECT_AUTO, /* device memory if the program allocates any, else host memory */
    COLLECT_HOST,
    COLLECT_DEVICE,
    COLLECT_ALL, /* both, as devices of one trace */
};

struct collect_options {
    /* path of the first trace; its suffix decides the compression; further traces are PATH.2, PATH.3, ... */
    const char *path;
    const char *source; /* the #src line */
    enum collect_what what;
    uint64_t least_bytes; /* host blocks smaller than this are not recorded */
    bool children;        /* write a trace for each process, not only for the program */
};

struct collector;

/* Creates the shared-memory channel and the first trace file. On failure returns NULL with errno; *failed names the
 * object that could not be created. */
struct collector *collector_open(const struct collect_options *options, const char **failed);
struct channel *collector_channel(struct collector *collector);
/* Returns the path at which the program opens the channel. */
const char *collector_channel_path(const struct collector *collector);

/* Writes the events that are in the channel to the traces and returns their number. `ended`: the program has ended. */
size_t collector_drain(struct collector *collector, bool ended);

struct collected {
    uint64_t events;
    uint64_t peak_bytes;
    uint64_t lost;
    bool device;        /* with COLLECT_AUTO: the trace has the device's events, not the host's */
    unsigned traces;    /* number of traces that hold events */
    unsigned images;    /* processes, counted again after exec, that loaded the library and joined the channel */
    unsigned bypassed;  /* joined processes that call a malloc of their own instead of the recording library's malloc */
    int failure;        /* errno of a failed write, or 0 */
    char problem[1024]; /* message of the first failure, with the path of the trace; "" if there was none */
};

/* Ends the recording, after the last collector_drain: completes the traces and renames them to their final names. A
 * trace without events is removed, and the next trace takes its name. Calls `each` for every complete trace. *total
 * gets the sums over all traces, and the highest peak. Frees the collector. */
void collector_close(struct collector *collector,
                     void (*each)(void *ctx, const char *path, const struct collected *one), void *ctx,
                     struct collected *total);

#endif
