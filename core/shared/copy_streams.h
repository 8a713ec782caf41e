/* core/shared/copy_streams.h: runs the copies of weir_device_ops.copy on streams of a vendor's runtime.
 *
 * Idea: copies that continue one another become one, and large copies are cut, so that two streams are busy all the
 * time. The streams exist during the call only: a sleep of a pool (weir/sleep.h) is rare, and a device has few streams.
 */
#ifndef WEIR_SHARED_COPY_STREAMS_H
#define WEIR_SHARED_COPY_STREAMS_H

#include <weir/device.h>

#include "shared/assert.h"

#define COPY_PIECE_BYTES (UINT64_C(32) << 20) /* no piece of a larger copy is smaller */

enum {
    COPY_STREAMS = 2,
    COPY_MOST_WAITS = 16, /* tries to wait for a stream whose wait fails */
};

/* The calls of a runtime. `queue` copies or fills one piece. */
struct copy_calls {
    weir_status (*create)(void **stream);
    weir_status (*queue)(void *stream, const weir_copy *piece);
    weir_status (*wait)(void *stream);
    weir_status (*destroy)(void *stream);
};

struct copy_pieces {
    const weir_copy *copies;
    size_t count;
    weir_copy rest; /* of the copy that is being cut; its size is 0 at first */
};

/* True if `next` continues `piece`, on the device and on the host. */
static inline bool copy_continues(const weir_copy *piece, const weir_copy *next)
{
    const bool alike = next->address == piece->address + piece->size && next->to_host == piece->to_host;
    return alike && (piece->host == NULL ? next->host == NULL && next->value == piece->value
                                         : next->host == (char *)piece->host + piece->size);
}

/* Takes the next piece. Returns false if none is left. */
static inline bool copy_next_piece(struct copy_pieces *pieces, weir_copy *piece)
{
    weir_copy *rest = &pieces->rest;
    if (rest->size == 0 && pieces->count == 0) {
        return false;
    }
    if (rest->size == 0) {
        *rest = *pieces->copies++;
        pieces->count--;
        for (; pieces->count > 0 && copy_continues(rest, pieces->copies); pieces->copies++, pieces->count--) {
            rest->size += pieces->copies->size;
        }
    }
    *piece = *rest;
    piece->size = rest->size < 2 * COPY_PIECE_BYTES ? rest->size : COPY_PIECE_BYTES;
    rest->address += piece->size;
    rest->host = rest->host != NULL ? (char *)rest->host + piece->size : NULL;
    rest->size -= piece->size;
    return true;
}

static inline weir_status copy_queue_all(const struct copy_calls *calls, void *const *streams, const weir_copy *copies,
                                         size_t count)
{
    struct copy_pieces pieces = {.copies = copies, .count = count};
    weir_status status = WEIR_OK;
    weir_copy piece;
    for (unsigned turn = 0; status == WEIR_OK && copy_next_piece(&pieces, &piece); turn++) {
        status = calls->queue(streams[turn % COPY_STREAMS], &piece);
    }
    return status;
}

/* Waits for the stream's copies and destroys the stream. A wait that fails may leave copies under way, so it is tried
 * again; the copies count as failed all the same. */
static inline weir_status copy_end_stream(const struct copy_calls *calls, void *stream)
{
    const weir_status status = calls->wait(stream);
    weir_status waited = status;
    for (int i = 1; i < COPY_MOST_WAITS && waited != WEIR_OK; i++) {
        waited = calls->wait(stream);
    }
    weir_status destroyed = WEIR_ERR_DEVICE;
    for (int i = 0; i < COPY_MOST_WAITS && destroyed != WEIR_OK; i++) {
        destroyed = calls->destroy(stream);
    }
    return status;
}

/* Runs the copies and waits for them. */
static inline weir_status copy_on_streams(const struct copy_calls *calls, const weir_copy *copies, size_t count)
{
    WEIR_ASSERT(count != 0);
    void *streams[COPY_STREAMS] = {NULL};
    weir_status status = WEIR_OK;
    int made = 0;
    while (made < COPY_STREAMS && status == WEIR_OK) {
        status = calls->create(&streams[made]);
        made += status == WEIR_OK;
    }
    status = status == WEIR_OK ? copy_queue_all(calls, streams, copies, count) : status;
    for (int i = 0; i < made; i++) {
        const weir_status ended = copy_end_stream(calls, streams[i]);
        status = status == WEIR_OK ? ended : status;
    }
    return status;
}

#endif
