/* heap_internal.h: declarations that the files of the heap share, grouped by the file that defines them.
 *
 * Lock order, outermost first: the lock of a shard in owned.c, which is held while a source takes back a block; the
 * locks of the source; the locks of the tally and of the explanation, under which no other lock is taken.
 */
#ifndef WEIR_HEAP_INTERNAL_H
#define WEIR_HEAP_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <weir/heap.h>

#include "../../pool/src/host_internal.h"
#include "shared/assert.h"
#include "shared/number_map.h"
#include "shared/round_up.h"

enum { WEIR__HEAP_ALIGN = 16, WEIR__HEAP_MOST_SLACK = 4096, WEIR__HEAP_LINE = 64 };

/* --- tally.c: live bytes and their peak --- */

/* Each thread counts in a cell: its address (weir__tally_thread) selects one of the first WEIR__TALLY_OWN. The first
 * thread to select a cell owns it; further threads share the cell that is WEIR__TALLY_OWN further on. */
enum { WEIR__TALLY_OWN = 32, WEIR__TALLY_CELLS = 2 * WEIR__TALLY_OWN };

typedef struct weir__tally_cell {
    _Alignas(WEIR__HEAP_LINE) _Atomic int64_t live; /* bytes allocated less bytes freed by this cell's threads */
    _Atomic int64_t ceiling;                        /* when `live` exceeds this value, the thread updates the peak */
    _Atomic uintptr_t owner;                        /* identifies the thread that alone changes `live`; 0: no owner */
    _Atomic uint32_t noting;                        /* calls in progress that may use the recorder (record.c) */
} weir__tally_cell;

typedef struct weir__tally {
    weir__tally_cell cells[WEIR__TALLY_CELLS];
    _Atomic uint64_t used; /* bit i: a thread has used cell i */
    pthread_mutex_t lock;  /* protects `peak` and the cells' ceilings */
    _Atomic int64_t peak;  /* at least the sum of the cells' ceilings */
} weir__tally;

void weir__tally_init(weir__tally *tally);
void weir__tally_fini(weir__tally *tally);
int64_t weir__tally_live(const weir__tally *tally);
/* Returns the most bytes that were live at once. */
int64_t weir__tally_peak(const weir__tally *tally);
bool weir__tally_check(weir__tally *tally);
/* Called when a counter cell exceeds its ceiling: adds up the live bytes, updates the peak and sets new ceilings. */
void weir__tally_rise(weir__tally *tally, weir__tally_cell *cell);
/* Adds `bytes` to the live bytes of a calling thread that owns no counter cell, or none yet. */
void weir__tally_change_other(weir__tally *tally, int64_t bytes);

/* Identifies the calling thread by the address of a thread-local variable. Living threads have different addresses. A
 * new thread may get the address of an ended thread, and with it that thread's counter cell. */
static inline uintptr_t weir__tally_thread(void)
{
    return (uintptr_t)&weir__host_mine;
}

static inline weir__tally_cell *weir__tally_mine(weir__tally *tally)
{
    return &tally->cells[((uint64_t)weir__tally_thread() >> 6) * UINT64_C(0x9e3779b97f4a7c15) >> 59];
}

static inline bool weir__tally_owns(const weir__tally_cell *cell)
{
    return WEIR__HOST_LIKELY(atomic_load_explicit(&cell->owner, memory_order_relaxed) == weir__tally_thread());
}

/* Adds `bytes`, modulo 2^64, to the counter cell that the calling thread owns. Returns the cell's live bytes. */
static inline int64_t weir__tally_change_own(weir__tally_cell *cell, uint64_t bytes)
{
    WEIR_ASSERT(weir__tally_owns(cell));
    const int64_t live = atomic_load_explicit(&cell->live, memory_order_relaxed) + (int64_t)bytes;
    atomic_store_explicit(&cell->live, live, memory_order_relaxed);
    return live;
}

static inline void weir__tally_add_own(weir__tally *tally, weir__tally_cell *cell, uint64_t bytes)
{
    const int64_t live = weir__tally_change_own(cell, bytes);
    if (!WEIR__HOST_LIKELY(live <= atomic_load_explicit(&cell->ceiling, memory_order_relaxed))) {
        weir__tally_rise(tally, cell);
    }
}

static inline void weir__tally_add(weir__tally *tally, uint64_t bytes)
{
    weir__tally_cell *cell = weir__tally_mine(tally);
    if (weir__tally_owns(cell)) {
        weir__tally_add_own(tally, cell, bytes);
    } else {
        weir__tally_change_other(tally, (int64_t)bytes);
    }
}

static inline void weir__tally_remove(weir__tally *tally, uint64_t bytes)
{
    weir__tally_cell *cell = weir__tally_mine(tally);
    if (weir__tally_owns(cell)) {
        (void)weir__tally_change_own(cell, 0 - bytes);
    } else {
        weir__tally_change_other(tally, -(int64_t)bytes);
    }
}

/* --- owned.c: the heap's blocks in a pool that other users share --- */

enum { WEIR__OWNED_SHARDS = 16 };

typedef struct weir__owned_shard {
    _Alignas(WEIR__HEAP_LINE) pthread_mutex_t lock;
    weir__number_map blocks; /* block address -> the source's handle (`name`) for the block, not 0 */
    uint64_t allocs;
    uint64_t frees;
} weir__owned_shard;

typedef struct weir__owned {
    weir__owned_shard shards[WEIR__OWNED_SHARDS];
} weir__owned;

/* Gives a block back to its source. */
typedef weir_status (*weir__owned_release)(void *ctx, void *block, uint64_t name);

weir_status weir__owned_create(weir__owned **owned);
void weir__owned_destroy(weir__owned *owned);
/* Adds an entry for a block. Returns false if there is no host memory. */
bool weir__owned_put(weir__owned *owned, const void *block, uint64_t name);
/* Calls `release` with the lock of the block's shard held, and removes the entry if `release` succeeds.
 * WEIR_ERR_INVALID: no entry for the block. */
weir_status weir__owned_free(weir__owned *owned, void *block, weir__owned_release release, void *ctx);
/* Calls `visit` for each block, with its shard's lock held. If `visit` returns false, skips the rest of the shard. */
void weir__owned_each(weir__owned *owned, bool (*visit)(void *ctx, uint64_t block, uint64_t name), void *ctx);
/* Returns the source's handle (`name`) for the block, or 0 if there is no entry. */
uint64_t weir__owned_get(weir__owned *owned, const void *block);
void weir__owned_counts(weir__owned *owned, uint64_t *allocs, uint64_t *frees);

/* --- sources --- */

typedef struct weir__source_stats {
    uint64_t allocs;
    uint64_t frees;
    uint64_t held_bytes;
    uint64_t peak_held_bytes;
    uint64_t moved_bytes;
    uint64_t remade_bytes;
} weir__source_stats;

typedef struct weir__source weir__source;

/* One kind of source: a constant table. Callers pass valid sizes and alignments; `block` is never NULL. */
typedef struct weir__source_ops {
    weir_status (*open)(weir__source *source, weir_heap *heap);
    /* Closes the source. Its live blocks become invalid (process memory) or are freed in their pool. */
    weir_status (*close)(weir__source *source);
    /* *bytes receives the block's size as handed out. */
    weir_status (*alloc)(weir__source *source, uint64_t size, uint64_t align, void **block, uint64_t *bytes);
    /* WEIR_ERR_INVALID: not a block of this source. */
    weir_status (*free)(weir__source *source, void *block, uint64_t *bytes);
    /* Returns the block's size as handed out, or 0 if it is not a block of this source. */
    uint64_t (*bytes_of)(weir__source *source, const void *block);
    /* Enlarges a block at its address. Returns its new size, or 0 if nothing has changed. This function pointer is NULL
     * if blocks of this source do not grow in place. */
    uint64_t (*grow)(weir__source *source, void *block, uint64_t size);
    weir_status (*trim)(weir__source *source, uint64_t keep_bytes, uint64_t *released);
    /* Adds the source's figures to *stats. Memory that both sources of a heap share is added for the first source
     * only. */
    void (*add_stats)(weir__source *source, weir__source_stats *stats);
    /* Called after a refusal because of the limit, when no memory is idle. Returns how many more bytes have to be held
     * to serve the request. This function pointer is NULL if the heap itself does not limit the source. */
    uint64_t (*missing)(weir__source *source, uint64_t size);
    /* Like snprintf: describes the source's last failure. */
    size_t (*explain)(weir__source *source, char *text, size_t size);
    weir_status (*check)(weir__source *source, const char **why);
    /* Visits all live blocks. */
    void (*each)(weir__source *source, weir__host_visitor visit, void *ctx);
} weir__source_ops;

struct weir__source {
    const weir__source_ops *ops;
    weir_heap_source from;
    weir_heap *heap;
    weir_host_pool *host; /* for process memory the source's own pool, for a host pool from.host_pool */
    int32_t node;
    bool is_second;     /* this is the source of long-lived blocks and shares the first source's memory */
    weir__owned *owned; /* NULL for process memory */
};

extern const weir__source_ops weir__process_source;
extern const weir__source_ops weir__host_source;
extern const weir__source_ops weir__pool_source;

/* --- heap.c --- */

enum { WEIR__HEAP_GOING, WEIR__HEAP_STAYING, WEIR__HEAP_SOURCES };

struct weir_heap {
    /* Read by every call. */
    _Alignas(WEIR__HEAP_LINE) weir_heap_config config; /* with defaults filled in */
    weir__source sources[WEIR__HEAP_SOURCES];
    weir_host_pool *front; /* host pool of the first source, if that source is memory of the process; else NULL */
    uint64_t front_most;   /* size of the largest request that the calling thread's cache for the pool `front` may
                              serve */
    _Atomic uint64_t largest_bytes;
    _Atomic(weir_recorder *) recorder; /* NULL: not recorded */
    weir_recorder *asked_recorder;     /* the recorder made because of WEIR_RECORD; owned by the heap */
    char *name;
    long process;
    /* Written rarely. */
    _Alignas(WEIR__HEAP_LINE) _Atomic uint64_t reallocs;
    _Atomic uint64_t moves;
    _Atomic uint64_t failures;
    _Atomic uint64_t reclaims;
    _Atomic uint64_t bad_frees;
    _Atomic uint64_t long_lived_bytes;
    weir__host_ledger ledger;    /* for memory of the process */
    pthread_mutex_t record_lock; /* serializes changes of the recorder */
    pthread_mutex_t explain_lock;
    pthread_mutex_t decay_lock; /* protects decay_ends */
    pthread_cond_t decay_end;
    bool decay_ends;
    bool has_decay_thread;
    pthread_t decay_thread;
    char explanation[1024];
    weir__tally tally;
};

/* --- decay.c: when idle memory of the process goes back --- */

/* Begins the decay of the heap's own pools, and starts the decay thread if the config asks for it. Refuses a bad
 * config. */
weir_status weir__heap_decay_start(weir_heap *heap);
/* Ends the decay thread. Called before the sources are closed. */
void weir__heap_decay_end(weir_heap *heap);

typedef struct weir__heap_decayed {
    uint64_t bytes;
    uint64_t times;
    uint64_t failures;
} weir__heap_decayed;

weir__heap_decayed weir__heap_decayed_by(const weir_heap *heap);

/* --- record.c --- */

/* Starts recording if the environment asks for it. */
void weir__heap_record_if_asked(weir_heap *heap);
/* Ends recording when the heap ends. Stops the recorder that weir__heap_record_if_asked has started. */
void weir__heap_record_end(weir_heap *heap);
/* Notes an event if a recorder is set when the function runs. */
void weir__heap_note(weir_heap *heap, const weir_trace_event *event);

static inline bool weir__heap_is_recorded(const weir_heap *heap)
{
    return !WEIR__HOST_LIKELY(atomic_load_explicit(&heap->recorder, memory_order_relaxed) == NULL);
}

#endif
