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
    /* What feeders touch. */
    weir__rings rings;
    _Atomic uint64_t lost;     /* before they came to the text */
    atomic_bool drains_itself; /* who finds a full ring makes room; else the event is lost */

    /* What the drain touches, under its lock. */
    pthread_mutex_t lock;
    weir_pool *pool;                /* NULL: fed by hand, or the pool is gone */
    struct weir__record_file *file; /* NULL: the caller's sink */
    weir_recorder *next_asked;      /* of those that the environment asked for */
    char *source;
    weir_device_info device; /* of the pool; fed by hand: no struct_size */
    weir__prior *priors;
    size_t prior_count;
    size_t prior_room;
    bool begun; /* the header is written */
    atomic_uint holds; /* heaps that note in it */
    weir__record_text text;
};

/* --- record.c --- */

/* A recorder of `pool` (NULL: fed by hand) that the pool does not know yet. NULL: no memory. */
weir_recorder *weir__recorder_new(weir_pool *pool, const weir_recorder_config *config);
/* Observes the pool, which lists its live blocks meanwhile. `function`: of the sentence of a refusal. */
weir_status weir__recorder_begin(weir_recorder *recorder, const char *function);
void weir__recorder_free(weir_recorder *recorder);

/* --- record_file.c --- */

/* The recorder ends: it is not drained at exit. */
void weir__record_file_forget(const weir_recorder *recorder);
/* Ends the thread that drains; before the last drain. */
void weir__record_file_halt(struct weir__record_file *file);
/* Closes the file and frees `file`. Returns 0, or the errno of what could not be written. */
int weir__record_file_close(struct weir__record_file *file);
/* Closes the file in a child of fork, and does nothing else. */
void weir__record_file_leave(const struct weir__record_file *file);

#endif
