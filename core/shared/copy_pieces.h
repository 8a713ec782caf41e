/* core/shared/copy_pieces.h: cuts the copies of weir_device_ops.copy into pieces, on which several streams of a device
 * work at the same time. Copies that continue one another become one first; no piece of a larger copy is below 32 MiB.
 */
#ifndef WEIR_SHARED_COPY_PIECES_H
#define WEIR_SHARED_COPY_PIECES_H

#include <weir/device.h>

#define COPY_PIECE_BYTES (UINT64_C(32) << 20)

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

#endif
