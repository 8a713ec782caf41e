/* weir/shared_limit.h: one limit for the memory of several pools: of devices, of host memory, heaps; of one process or
 * of several.
 *
 *     weir_shared_limit_config config = WEIR_SHARED_LIMIT_CONFIG_INIT;
 *     config.name = "inference";                      processes that give this name share the limit
 *     config.limit_bytes = UINT64_C(8) << 30;
 *     weir_shared_limit_create(&config, &limit);
 *     heap_config.shared_limit = limit;               or weir_host_pool_config.shared_limit
 *     weir_limit_create_shared(device, limit, &limited);   a device for pools (weir/adaptor.h)
 *
 * Each chunk of a host pool or heap counts under the limit, beside its own limit_bytes, and so does all memory that is
 * taken through a limited device. If the shared limit refuses, a pool gives back its own idle memory and tries again;
 * then the request fails with WEIR_ERR_LIMIT. A host pool or heap also gives back that of the process's other host
 * pools and heaps under the limit. Idle memory of device pools and of other processes goes back by a trim or a sleep
 * there, or by decay (decay_ms in weir/heap.h).
 *
 * A limit with a name lies in shared memory of the machine (shm_open), which must belong to the same user and be open
 * to no other. If a process ends without destroying its limit, even by SIGKILL, its bytes return to the limit: the
 * kernel drops the process's file lock, and the next request that would be refused, the next process that joins and
 * weir_shared_limit_get_stats find that. A child of fork that has not called exec counts as part of its parent, because
 * it may still use the parent's pages. The shared memory is removed when the last process destroys its limit or exits.
 * If the last process is killed, the shared memory is removed when a process of the user next creates a limit with a
 * name.
 *
 * Thread safety: every function may be called from any thread, except weir_shared_limit_destroy. No function is a
 * cancellation point. A child of fork may only destroy the limit, which does nothing there.
 */
#ifndef WEIR_SHARED_LIMIT_H
#define WEIR_SHARED_LIMIT_H

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_shared_limit weir_shared_limit;

enum {
    WEIR_SHARED_LIMIT_PROCESSES = 128,  /* most processes that share a name */
    WEIR_SHARED_LIMIT_NAME_LENGTH = 64, /* most bytes of a name */
};

typedef struct weir_shared_limit_config {
    size_t struct_size;
    const char *name;     /* letters, digits, '.', '_', '-'; copied; NULL: the limit is for this process only */
    uint64_t limit_bytes; /* the most bytes that all users hold together; 0 with `name` set: the limit that other
                           * processes have set */
} weir_shared_limit_config;

#define WEIR_SHARED_LIMIT_CONFIG_INIT WEIR_STRUCT_INIT(weir_shared_limit_config)

/* Creates a limit, or joins the limit of that name. WEIR_ERR_INVALID: a NULL argument, a bad name, limit_bytes 0
 * without a name or if no other process uses the name. WEIR_ERR_BUSY: other processes use the name with another
 * limit_bytes (weir_shared_limit_set changes it for all), or WEIR_SHARED_LIMIT_PROCESSES of them use it.
 * WEIR_ERR_UNSUPPORTED: the system refuses shared memory or file locks, the shared memory belongs to another user or
 * is open to others, or another version of the library made it. WEIR_ERR_NO_MEMORY: no host memory, or none for the
 * shared memory. */
WEIR_API weir_status weir_shared_limit_create(const weir_shared_limit_config *config, weir_shared_limit **limit);
/* Leaves the limit. NULL is allowed. WEIR_ERR_BUSY: a pool, heap or device of this process uses it; nothing has
 * changed. */
WEIR_API weir_status weir_shared_limit_destroy(weir_shared_limit *limit);

/* Replaces the limit for all processes that share it. Takes effect with their next requests; memory that is held stays
 * held. WEIR_ERR_INVALID: an argument is NULL or 0. */
WEIR_API weir_status weir_shared_limit_set(weir_shared_limit *limit, uint64_t limit_bytes);

/* Counts memory that the program takes without a pool, and counts it no more. WEIR_ERR_LIMIT: the limit has no room for
 * it. WEIR_ERR_INVALID: an argument is NULL or 0, or the process does not hold so much. */
WEIR_API weir_status weir_shared_limit_take(weir_shared_limit *limit, uint64_t bytes);
WEIR_API weir_status weir_shared_limit_give(weir_shared_limit *limit, uint64_t bytes);

typedef struct weir_shared_limit_stats {
    size_t struct_size;
    uint64_t limit_bytes;
    uint64_t held_bytes;      /* by all processes */
    uint64_t own_bytes;       /* part of held_bytes: by this process, without common_bytes */
    uint64_t peak_held_bytes; /* the most bytes held by all processes together, counted from the creation of the
                                 shared memory on */
    uint64_t processes;       /* processes that share the limit now, this one included */
    uint64_t ended_processes; /* processes that ended without weir_shared_limit_destroy while they held memory */
    uint64_t returned_bytes;  /* bytes that ended processes held, returned to the limit */
    uint64_t common_bytes;    /* part of held_bytes: memory that one process has exported and others may have imported,
                                 counted once (weir_sim_export in weir/sim.h) */
} weir_shared_limit_stats;

#define WEIR_SHARED_LIMIT_STATS_INIT WEIR_STRUCT_INIT(weir_shared_limit_stats)

/* Copies the current figures, after the bytes of ended processes have been returned. WEIR_ERR_INVALID: an argument is
 * NULL. */
WEIR_API weir_status weir_shared_limit_get_stats(weir_shared_limit *limit, weir_shared_limit_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
