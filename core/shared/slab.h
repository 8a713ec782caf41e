/* core/shared/slab.h: records of one size, which are kept until the end. Header only, for the bindings and the tools.
 *
 * Idea: a free list over chunks that double in size; the record returned last is the next one handed out, and the next
 * record of the newest chunk if none was returned. So a chunk takes memory only as it is used. Guarantee: memory once
 * handed out stays readable until fini, so a stale handle can be told from a live one by its contents, and `owns` tells
 * a handle of this slab from any other pointer. Only the link of a record that is returned is overwritten. A record
 * that is retired instead of returned rests in a queue first, so its address does not soon become another handle. Cost:
 * a few instructions per record; at most 40 chunks. Not thread-safe: the owner locks.
 */
#ifndef WEIR_SHARED_SLAB_H
#define WEIR_SHARED_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shared/assert.h"

enum { WEIR__SLAB_CHUNKS = 40 };

typedef struct weir__slab {
    void *unused; /* list of the unused records that are not in the queue, linked through the records */
    size_t bytes; /* size of a record, a multiple of its alignment */
    size_t align;
    size_t link;        /* offset of the pointer that links unused records */
    size_t first_count; /* records in chunk 0; chunk i has first_count << i */
    size_t begun;       /* records of the newest chunk that have been handed out at least once */
    size_t chunk_count;
    char *chunk[WEIR__SLAB_CHUNKS];
    void *resting_first; /* queue of retired records (weir__slab_retire), the oldest first */
    void *resting_last;
    size_t resting;
} weir__slab;

/* Initialises a slab of records of `type`, with `records` of them in the first chunk. `offset` is the offset of a
 * pointer in the record that the slab may use while the record is unused. */
#define WEIR__SLAB_INIT(type, offset, records)                                                                         \
    {                                                                                                                  \
        .bytes = sizeof(type), .align = _Alignof(type), .link = (offset), .first_count = (records)                     \
    }

/* Returns the number of records in chunk `number`. */
static inline size_t weir__slab_chunk_records(const weir__slab *slab, size_t number)
{
    return slab->first_count << number;
}

/* Returns the number of records of chunk `number` that have been handed out at least once. */
static inline size_t weir__slab_begun(const weir__slab *slab, size_t number)
{
    return number + 1 == slab->chunk_count ? slab->begun : weir__slab_chunk_records(slab, number);
}

/* Adds a chunk. Returns false when out of host memory. */
static inline bool weir__slab_grow(weir__slab *slab)
{
    WEIR_ASSERT(slab->bytes != 0 && slab->bytes % slab->align == 0 && slab->link + sizeof(void *) <= slab->bytes);
    if (slab->chunk_count == WEIR__SLAB_CHUNKS) {
        return false;
    }
    const size_t count = weir__slab_chunk_records(slab, slab->chunk_count);
    char *chunk = aligned_alloc(slab->align, count * slab->bytes);
    if (chunk == NULL) {
        return false;
    }
    slab->chunk[slab->chunk_count++] = chunk;
    slab->begun = 0;
    return true;
}

/* Returns a record that was never handed out, all zero; NULL when out of host memory. */
static inline void *weir__slab_begin(weir__slab *slab)
{
    if (slab->chunk_count == 0 || slab->begun == weir__slab_chunk_records(slab, slab->chunk_count - 1)) {
        if (!weir__slab_grow(slab)) {
            return NULL;
        }
    }
    return memset(slab->chunk[slab->chunk_count - 1] + slab->begun++ * slab->bytes, 0, slab->bytes);
}

/* Returns a record, or NULL when out of host memory. A record that was used before has its old contents, except the
 * link. A new record is all zero. */
static inline void *weir__slab_get(weir__slab *slab)
{
    char *record = slab->unused;
    if (record == NULL) {
        return weir__slab_begin(slab);
    }
    memcpy(&slab->unused, record + slab->link, sizeof(slab->unused));
    return record;
}

/* Returns a record to the slab. */
static inline void weir__slab_put(weir__slab *slab, void *record)
{
    memcpy((char *)record + slab->link, &slab->unused, sizeof(slab->unused));
    slab->unused = record;
}

/* Retires a record: the slab does not hand it out again until `rest` further records have been retired. `rest` is the
 * same in all calls. */
static inline void weir__slab_retire(weir__slab *slab, void *record, size_t rest)
{
    if (slab->resting++ == 0) {
        slab->resting_first = record;
    } else {
        memcpy((char *)slab->resting_last + slab->link, &record, sizeof(record));
    }
    slab->resting_last = record;
    if (slab->resting > rest) {
        char *oldest = slab->resting_first;
        memcpy(&slab->resting_first, oldest + slab->link, sizeof(slab->resting_first));
        slab->resting--;
        weir__slab_put(slab, oldest);
    }
}

/* Returns record `number`, counted from 0 over all records that have been handed out at least once, in use or not.
 * Returns NULL if there are fewer. */
static inline void *weir__slab_at(const weir__slab *slab, size_t number)
{
    for (size_t i = 0; i < slab->chunk_count; i++) {
        const size_t begun = weir__slab_begun(slab, i);
        if (number < begun) {
            return slab->chunk[i] + number * slab->bytes;
        }
        number -= begun;
    }
    return NULL;
}

/* True if `object` is a record of this slab that has been handed out at least once, in use or not. */
static inline bool weir__slab_owns(const weir__slab *slab, const void *object)
{
    const uintptr_t address = (uintptr_t)object;
    for (size_t i = 0; i < slab->chunk_count; i++) {
        const uintptr_t from_first = address - (uintptr_t)slab->chunk[i];
        if (from_first < weir__slab_begun(slab, i) * slab->bytes) {
            return from_first % slab->bytes == 0;
        }
    }
    return false;
}

/* Frees all memory; the slab is then as after its initialisation. */
static inline void weir__slab_fini(weir__slab *slab)
{
    for (size_t i = 0; i < slab->chunk_count; i++) {
        free(slab->chunk[i]);
    }
    slab->unused = NULL;
    slab->begun = slab->chunk_count = slab->resting = 0;
}

#endif
