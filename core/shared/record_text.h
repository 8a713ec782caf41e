/* core/shared/record_text.h: converts events, in the order in which they happened, to the lines of a trace.
 *
 * A feeder identifies blocks, streams, events and tags by its own names; the text numbers them in order of appearance.
 * A feeder may reuse the name of a block, such as an address, once the block is freed: each life of a block gets its
 * own number.
 *
 * The trace is always consistent, even if events were lost before they came here: a free or a use of a block that the
 * trace has not seen is dropped and counted. An alloc with the name of a live block means that a free was lost: the
 * trace then frees the old block just before, in host order. A PRIOR event of a block that is live in the trace is not
 * written: its alloc was under way when the recording began.
 *
 * A realloc that moves a block releases the old memory before it returns, so another block may get it meanwhile. A
 * feeder notes such a realloc in two halves (mode 'B' before, 'E' after, by the same thread): the name of the old block
 * is free from the first half on, and the line is written at the second. A free that may fail is noted likewise: the
 * first half of a realloc, then a free with mode 'E', or a realloc that failed.
 *
 * Captures are likewise consistent: a capture whose end was lost ends where its pool or its stream begins another, or
 * where its pool is released. An end without a begin, and a release of a pool without a capture in the trace, are left
 * out. The name of a capture pool may be used again once the pool is released.
 *
 * Takes no lock. Only these functions call the sink. The recorder of core and `weir record` use this file.
 */
#ifndef WEIR_SHARED_RECORD_TEXT_H
#define WEIR_SHARED_RECORD_TEXT_H

#include "number_map.h"

#include <weir/device.h>
#include <weir/trace.h>

/* An event with the names that its feeder uses (the pool, or a caller of the recorder), before the trace numbers
 * them. */
typedef struct weir__record_entry {
    uint64_t sequence;
    uint64_t time_ns; /* time since the start of the recording */
    uint64_t id;      /* name of the block or event; CAPTURE: of the capture pool */
    uint64_t size;
    uint64_t extra; /* ALLOC: alignment. REALLOC: the old block. Other kinds: as in weir_trace_event */
    uint64_t address;
    uint32_t stream;
    uint32_t tag;    /* the pool's tag; 0 = none */
    uint16_t device; /* below 4,096 */
    uint8_t kind;    /* weir_trace_kind */
    char mode;
} weir__record_entry;

#define WEIR__TEXT_BYTES 65536u /* the most bytes handed to the sink at once */

typedef struct weir__record_text {
    weir_record_sink sink;
    void *sink_ctx;
    const char *(*tag_name)(const weir_pool *pool, uint32_t tag); /* NULL: there are no tags */
    const weir_pool *pool;
    const char *(*device_name)(uint16_t device); /* if NULL, devices keep their numbers; else devices are numbered in
                                                    order of appearance, and named */
    bool counts_bytes;                           /* if true, live_bytes and peak_bytes are counted */
    uint64_t least_bytes; /* smaller blocks are left out of the trace; an unknown block counts as a smaller block */
    bool sink_failed;
    uint64_t lost; /* events lost between the caller and the sink */
    uint64_t events_added;
    uint64_t live_bytes;
    uint64_t peak_bytes;
    uint64_t last_time_ns;
    uint64_t blocks;          /* numbers given to blocks */
    weir__number_map live;    /* for each live block of the trace: block -> its number in the trace + 1 */
    weir__number_map moving;  /* thread -> number + 1 of the block that it is reallocating */
    weir__number_map sizes;   /* block's number in the trace -> bytes, if counts_bytes is set */
    weir__number_map streams; /* the caller's stream -> its number in the trace + 1 */
    weir__number_map events;  /* the caller's event -> its number in the trace + 1 */
    weir__number_map devices; /* the caller's device -> its number in the trace + 1, with device_name; if its #dev line
                                 is written */
    uint64_t capture_pools;   /* numbers given to capture pools */
    weir__number_map pools;   /* the caller's capture pool -> its number in the trace + 1, until it is released */
    weir__number_map capturing; /* number of a capture pool -> number + 1 of the stream of the capture under way */
    weir__number_map captured;  /* number of a stream -> number + 1 of the capture pool that captures it */
    weir__number_map tags;      /* the caller's tag -> its number in the trace + 1; if its @ line is written */
    size_t length;
    uint64_t events_in_text; /* events in `text`, lost if the sink refuses it */
    char text[WEIR__TEXT_BYTES];
} weir__record_text;

/* Writes the trace's header. `text` is zero except the members before `sink_failed`. `device` may be NULL. */
void weir__record_text_begin(weir__record_text *text, const char *source, const weir_device_info *device);
/* Adds one event. If the event's time is earlier than that of the event before, it is raised to that time. */
void weir__record_text_add(weir__record_text *text, const weir__record_entry *event, uint32_t thread);
/* Adds a line "#note TEXT". */
void weir__record_text_note(weir__record_text *text, const char *note);
/* Adds a line "#note lost N events" if `lost` is not 0. */
void weir__record_text_note_lost(weir__record_text *text, uint64_t lost);
/* Hands the text to the sink. Returns false if the sink refused text, now or earlier. */
bool weir__record_text_flush(weir__record_text *text);
void weir__record_text_fini(weir__record_text *text);

#endif
