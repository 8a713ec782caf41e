/* core/src/report/report.h: functions that the files of report/ call of each other, and that services/ calls. */
#ifndef WEIR_CORE_REPORT_H
#define WEIR_CORE_REPORT_H

#include "memory/asleep.h"
#include "pool/pool.h"

/* --- tag.c --- */

/* Fills record->holders: the tags with the most live bytes, less those that are absent. No lock held. */
void weir__tag_holders(weir_pool *pool, const struct absent *absent, weir_oom_record *record);
/* Returns a description of the first broken invariant of the counters, or NULL. All locks held. */
const char *weir__tag_broken_locked(weir_pool *pool);
void weir__tag_fini(weir_pool *pool);

/* --- inspect.c --- */

/* Calls `visit` for every address range of the pool. All locks held. */
void weir__inspect_walk_locked(weir_pool *pool, weir_walk_visitor visit, void *ctx);

/* --- snapshot.c --- */

typedef enum snapshot_state {
    SNAPSHOT_FREE,  /* free in the strategy */
    SNAPSHOT_LOOSE, /* a freed block whose record still exists: cached, in a remote free list or pending */
    SNAPSHOT_TAKEN,
    SNAPSHOT_HOLE, /* addresses without memory */
} snapshot_state;

#define SNAPSHOT_SEVERAL UINT32_MAX

struct snapshot_piece {
    uint64_t address;
    uint64_t size;
    uint64_t region;
    uint64_t region_size;
    uint32_t stuck; /* for a piece that is not taken: the stream whose unfinished work keeps the asking stream from
                       using the piece; SNAPSHOT_SEVERAL: several streams, or unknown; 0: none */
    snapshot_state state;
    bool pinned; /* in a region with a pin */
};

/* All ranges at one moment, sorted by address. Regions do not overlap, so the pieces of a region are adjacent. */
struct snapshot {
    struct snapshot_piece *pieces;
    size_t count;
};

/* Copies all address ranges of the pool. `stuck` of each piece names the stream that keeps `stream` from using the
 * piece. Returns false when out of host memory. No lock held. */
bool weir__snapshot_take(weir_pool *pool, const weir_stream *stream, struct snapshot *snapshot);
/* Virtual memory: returns the bytes of the handles in which all ranges were free, on any streams; those with a pin go
 * to *pinned instead. Pool lock held. */
uint64_t weir__snapshot_idle_handles_locked(const weir_pool *pool, const struct snapshot *snapshot, uint64_t *pinned);
void weir__snapshot_fini(struct snapshot *snapshot);

/* --- explain.c --- */

/* Sets cause and text of a pool's record. A cause of RECORDS stays. `maps`: the pool has virtual memory; `more`: the
 * missing bytes if no block is freed. */
void weir__oom_conclude(weir_oom_record *record, bool maps, uint64_t more);

/* --- oom.c --- */

/* Fills the pool's record of a failed request. The pool calls it as pool->explain. No lock held. */
void weir__oom_explain_now(const struct request *request);

#endif
