/* record_collect.h: the reading side of a recorded program's channel (bindings/record/src/channel.h). */
#ifndef WEIR_COMMAND_RECORD_COLLECT_H
#define WEIR_COMMAND_RECORD_COLLECT_H

#include "channel.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum collect_what {
    COLLECT_AUTO, /* what the device was asked for, if anything, else the host */
    COLLECT_HOST,
    COLLECT_DEVICE,
    COLLECT_ALL, /* both, as devices of one trace */
};

struct collect_options {
    const char *path;   /* of the first trace, packed if the name asks for it; further ones are PATH.2, PATH.3, ... */
    const char *source; /* the #src line */
    enum collect_what what;
    uint64_t least_bytes; /* of host blocks */
    bool children;        /* a trace for each process, not for the program only */
};

struct collector;

/* Makes the channel and the first file. NULL, and errno: it cannot be done; *failed says what. */
struct collector *collector_open(const struct collect_options *options, const char **failed);
channel *collector_channel(struct collector *collector);
/* The path at which the program finds it. */
const char *collector_channel_path(const struct collector *collector);

/* Writes what has been told so far and returns how many events that was. `ended`: the program is gone. */
size_t collector_drain(struct collector *collector, bool ended);

struct collected {
    uint64_t events;
    uint64_t peak_bytes;
    uint64_t lost;
    bool device;       /* AUTO: the device's traffic was kept */
    unsigned traces;   /* that hold events */
    unsigned images;   /* 0: the program never told anything, not even that it is there */
    unsigned bypassed; /* of these, with a malloc of their own that is called instead */
    int failure;       /* errno of what could not be written, or 0 */
    char problem[1024]; /* the first failure in words, with the place of the trace; "" if there was none */
};

/* After the last drain: completes the traces and puts them in their places. One that holds no event is removed, and the next
 * takes its name. `each` is called for every trace that is there as a whole; *total is the sum of all, and the peak the
 * highest. */
void collector_close(struct collector *collector, void (*each)(void *ctx, const char *path, const struct collected *one),
                     void *ctx, struct collected *total);

#endif
