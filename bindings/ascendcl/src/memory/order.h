/* order.h: which work of which stream is known to be complete, for memory that is freed in the order of a stream.
 *
 * A line is the knowledge about one stream. Each allocation and each free on the stream is one tick. A stamp names a
 * tick of a line: memory with that stamp may be touched by the stream's work up to that tick. A line knows, for each
 * other line, the tick up to which that line's work is ordered before its own next work. A recording carries the
 * knowledge of its stream and a wait takes it over, so the order is followed through any number of streams.
 *
 * All functions require the runtime's lock. Order that cannot be stored for want of host memory counts as no order.
 */
#ifndef WEIR_ASCENDCL_ORDER_H
#define WEIR_ASCENDCL_ORDER_H

#include "memory/memory.h"

typedef struct acl__line acl__line;

typedef struct acl__stamp {
    uint64_t serial; /* serial number of the line */
    uint64_t tick;
    acl__record *record; /* an event's recording on the stream, made at `tick` or later; NULL: none yet */
} acl__stamp;

/* Returns the stream's line: the known order of its work. NULL: out of host memory. */
acl__line *acl__line_of(acl__stream *stream);
uint64_t acl__line_serial(const acl__line *line);

/* Returns a stamp: a point after all work that is queued on the line's stream now. With `recorded`, also queues an
 * event recording there. */
acl__stamp acl__stamp_make(acl__line *line, bool recorded);
/* Returns a copy of a stamp, with its own reference to the stamp's recording. */
acl__stamp acl__stamp_copy(const acl__stamp *stamp);
void acl__stamp_drop(acl__stamp *stamp);

/* True if the host has seen all work up to the stamp complete, or if the stamp's stream is gone. */
bool acl__stamp_is_seen(const acl__stamp *stamp);
/* True if all work up to the stamp is complete now. If so, the host counts as having seen it. */
bool acl__stamp_look(acl__stamp *stamp);
/* Makes the host wait for all work up to the stamp. Returns false if it fails or if that work waits for the host. */
bool acl__stamp_await(acl__stamp *stamp);
/* True if all work up to the stamp is ordered before the work that is queued next on the line's stream. */
bool acl__stamp_is_before(const acl__stamp *stamp, const acl__line *line);
/* Makes the line's stream wait for all work up to the stamp. Returns false on failure. */
bool acl__stamp_join(acl__stamp *stamp, acl__line *line);

/* Begins to hear of recordings, waits and what the host sees. */
void acl__order_begin(void);

#endif
