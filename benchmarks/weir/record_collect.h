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

struct collector;

/* Makes the channel, and the file `path`, where the trace will be; `source` is its #src line. `least_bytes`: of host blocks.
 * NULL, and errno: it cannot be done; *failed says what. */
struct collector *collector_open(const char *path, const char *source, enum collect_what what, uint64_t least_bytes,
                                 const char **failed);
channel *collector_channel(struct collector *collector);
/* The path at which the program finds it. */
const char *collector_channel_path(const struct collector *collector);

/* Writes what has been told so far and returns how many events that was. `ended`: the program is gone. */
size_t collector_drain(struct collector *collector, bool ended);

struct collected {
    uint64_t events;
    uint64_t peak_bytes;
    uint64_t lost;
    bool device;   /* AUTO: the device's traffic was kept */
    unsigned images; /* 0: the program never told anything, not even that it is there */
    int failure;   /* errno of what could not be written, or 0 */
};

/* After the last drain: completes the file and frees the collector. A file that holds no event is removed. */
void collector_close(struct collector *collector, struct collected *result);

#endif
