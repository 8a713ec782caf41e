/* order.h: which work of which stream is known to be over, for memory that is freed in the order of a stream.
 *
 * A line is what is known of one stream. Each allocation and each free on it is one tick. A stamp names a tick of a line:
 * memory with that stamp may be touched by the stream's work up to it. A line knows, for each other line, up to which
 * tick that one's work is ordered before its own next: recordings carry what their stream knew, waits take it over, so
 * the order is followed through any number of streams.
 *
 * All with the runtime's lock held. Whatever is not known for want of host memory counts as not ordered.
 */
#ifndef WEIR_ASCENDCL_ORDER_H
#define WEIR_ASCENDCL_ORDER_H

#include "runtime.h"

typedef struct acl__line acl__line;

typedef struct acl__stamp {
    uint64_t serial;     /* of the line */
    uint64_t tick;
    acl__record *record; /* of the stream at that tick or later; NULL: none was made yet */
} acl__stamp;

/* The stream's line; NULL: no host memory. */
acl__line *acl__line_of(acl__stream *stream);
uint64_t acl__line_serial(const acl__line *line);

/* A new tick at the stream's end, with a recording when `recorded`. */
acl__stamp acl__stamp_make(acl__line *line, bool recorded);
/* The same stamp for another piece of memory. */
acl__stamp acl__stamp_copy(const acl__stamp *stamp);
void acl__stamp_drop(acl__stamp *stamp);

/* The host has seen it complete, or its stream is gone. */
bool acl__stamp_is_seen(const acl__stamp *stamp);
/* Looks whether it is complete by now; if so the host has seen it. */
bool acl__stamp_look(acl__stamp *stamp);
/* The host waits for it; false: something on the host, or an error, is in the way. */
bool acl__stamp_await(acl__stamp *stamp);
/* It is ordered before what the line's stream does next. */
bool acl__stamp_is_before(const acl__stamp *stamp, const acl__line *line);
/* Has the line's stream wait for it. */
bool acl__stamp_join(acl__stamp *stamp, acl__line *line);

/* The host has seen the end of the stream's work. */
void acl__order_synced(const acl__stream *stream);
void acl__order_recorded(const void *event, acl__stream *stream);
void acl__order_waited(acl__stream *stream, const void *event);

#endif
