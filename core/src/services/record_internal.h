/* core/src/services/record_internal.h: the recorder, for record.c and record_file.c. */
#ifndef WEIR_CORE_RECORD_INTERNAL_H
#define WEIR_CORE_RECORD_INTERNAL_H

#include "record_ring.h"
#include "shared/record_text.h"
#include "shared/recorder.h"

#include <pthread.h>

/* A block that was live when the recording began. */
typedef struct weir__prior {
    uint64_t id;
    uint64_t size;
    uint64_t address;
    uint32_t stream;
    uint16_t device;
} weir__prior;

struct weir_recorder {
    /* Members that the recording threads use: */
    weir__rings rings;
    _Atomic uint64_t lost;     /* events lost before they reached the text */
    atomic_bool drains_itself; /* true: a thread with a full ring drains; false: it drops the event */

    /* Members that the drain uses, under its lock: */
    pthread_mutex_t lock;
    weir_pool *pool;                /* NULL if a caller notes the events, or if the pool is gone */
    struct weir__record_file *file; /* NULL if the caller's sink is used */
    weir_recorder *next_asked;      /* next recorder that the environment asked for */
    char *source;
    weir_device_info device; /* properties of the pool's device; struct_size is 0 without a pool */
    weir__prior *priors;
    size_t prior_count;
    size_t prior_room;
    bool begun;        /* the header has been written */
    atomic_uint holds; /* heaps that note events in the recorder */
    weir__record_text text;
};

/* --- record.c --- */

/* Creates a recorder of `pool`; NULL if a caller notes the events. The pool does not know the recorder yet. Returns
 * NULL when out of memory. */
weir_recorder *weir__recorder_new(weir_pool *pool, const weir_recorder_config *config);
/* Attaches the recorder to its pool. The pool lists its live blocks during this call. `function` is named in error
 * messages. */
weir_status weir__recorder_begin(weir_recorder *recorder, const char *function);
void weir__recorder_free(weir_recorder *recorder);

/* --- record_file.c --- */

/* Removes the recorder from the list of those that are drained at exit. */
void weir__record_file_forget(const weir_recorder *recorder);
/* Ends the draining thread. Called before the last drain. */
void weir__record_file_halt(struct weir__record_file *file);
/* Closes the file and frees `file`. Returns 0, or the errno of a write that failed. */
int weir__record_file_close(struct weir__record_file *file);
/* In a child of fork: closes the file and does nothing else. */
void weir__record_file_leave(const struct weir__record_file *file);

#endif
