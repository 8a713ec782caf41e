/* core/shared/record_text.h: events in the order in which they happened become the lines of a trace.
 *
 * Feeders name blocks, streams, events and tags as they like; the text numbers them as they appear. A feeder may use
 * the name of a block again, such as an address, once the block is freed: each life of a block gets a number of its
 * own.
 *
 * The trace always makes sense, however much was lost on the way here: a free or a use of a block that the trace has
 * not seen is dropped and counted. An alloc under the name of a block that is live says that the free was lost: the
 * trace frees the block just before, in host order. It is not written for blocks that keep their name, where it cannot
 * be: there the alloc was under way when the recording began, and the block has its `p` line.
 *
 * A realloc that moves a block gives its memory to others before it returns. Noted in two halves (mode 'B' before, 'E'
 * after, by the same thread) the old block's name is free from the first on, and the line is written at the second. A
 * free that may fail is noted likewise: the first half of a realloc, then a free with mode 'E', or a realloc that
 * failed.
 *
 * Nothing here locks, and the sink is called from here only. The recorder of core and `weir record` use it.
 */
#ifndef WEIR_SHARED_RECORD_TEXT_H
#define WEIR_SHARED_RECORD_TEXT_H

#include "number_map.h"

#include <weir/device.h>
#include <weir/trace.h>

/* An event as its feeder knows it; numbers are not yet the trace's. */
typedef struct weir__record_entry {
    uint64_t sequence;
    uint64_t time_ns; /* since the start */
    uint64_t id;      /* block, or the event's name */
    uint64_t size;
    uint64_t extra; /* ALLOC: alignment. REALLOC: the old block. Else as in weir_trace_event */
    uint64_t address;
    uint32_t stream;
    uint32_t tag;    /* the pool's; 0 = none */
    uint16_t device; /* below 4,096 */
    uint8_t kind;    /* weir_trace_kind */
    char mode;
} weir__record_entry;

#define WEIR__TEXT_BYTES 65536u /* handed to the sink at once, at most */

typedef struct weir__record_text {
    weir_record_sink sink;
    void *sink_ctx;
    const char *(*tag_name)(const weir_pool *pool, uint32_t tag); /* NULL: there are no tags */
    const weir_pool *pool;
    const char *(*device_name)(uint16_t device); /* NULL: devices keep their numbers; else they are numbered as they
                                                    appear, and named */
    bool counts_bytes; /* keeps live_bytes and peak_bytes */
    uint64_t least_bytes; /* smaller blocks are left out, and an unknown block is taken for one of them */
    bool sink_failed;
    uint64_t lost; /* here, on the way from an event to the sink */
    uint64_t events_added;
    uint64_t live_bytes;
    uint64_t peak_bytes;
    uint64_t last_time_ns;
    uint64_t blocks;          /* numbers given to blocks */
    weir__number_map live;    /* block -> its number in the trace + 1: those that the trace has seen and not freed */
    weir__number_map moving;  /* thread -> the number + 1 of the block that it is reallocating */
    weir__number_map sizes;   /* block's number in the trace -> bytes, where they are counted */
    weir__number_map streams; /* the feeder's -> ours + 1 */
    weir__number_map events;  /* likewise */
    weir__number_map devices; /* likewise, with device_name; those in it have their #dev line */
    weir__number_map tags;    /* likewise; those in it have their @ line */
    size_t length;
    uint64_t events_in_text; /* lost when the sink refuses it */
    char text[WEIR__TEXT_BYTES];
} weir__record_text;

/* Zeroed before; the caller has set what comes before `sink_failed`. `device` may be NULL. */
void weir__record_text_begin(weir__record_text *text, const char *source, const weir_device_info *device);
/* One event; its time is raised to that of the one before, if need be. */
void weir__record_text_add(weir__record_text *text, const weir__record_entry *event, uint32_t thread);
/* "#note TEXT", one line. */
void weir__record_text_note(weir__record_text *text, const char *note);
/* "#note lost N events", if there were any. */
void weir__record_text_note_lost(weir__record_text *text, uint64_t lost);
/* Hands what has been written to the sink; false: it refused, now or earlier. */
bool weir__record_text_flush(weir__record_text *text);
void weir__record_text_fini(weir__record_text *text);

#endif
