/* shared_limit_internal.h: the page that processes share, and the functions for pools. */
#ifndef WEIR_SHARED_LIMIT_INTERNAL_H
#define WEIR_SHARED_LIMIT_INTERNAL_H

#include <pthread.h>
#include <weir/host.h>
#include <weir/shared_limit.h>

#define WEIR__LIMIT_MAGIC UINT64_C(0x3174696d696c7277) /* changes with the layout of the page */

/* Only complete values are ever visible, because a process may be killed at any instruction. `held_of` is
 * authoritative. `held_bytes` is its sum, and is computed anew when a holder of the lock has died. */
typedef struct weir__limit_page {
    uint64_t magic;       /* written last when the page is initialized */
    pthread_mutex_t lock; /* robust mutex; protects the members below */
    uint64_t limit_bytes;
    uint64_t held_bytes;
    uint64_t peak_held_bytes;
    uint64_t ended_processes;
    uint64_t returned_bytes;
    uint64_t held_of[WEIR_SHARED_LIMIT_PROCESSES];
} weir__limit_page;

/* Makes the pool join a limit. From then on the memory that the pool takes and gives back counts against the limit. */
void weir__shared_limit_join(weir_shared_limit *limit, weir_host_pool *pool);
void weir__shared_limit_leave(weir_shared_limit *limit, weir_host_pool *pool);
/* Counts `bytes` against the limit. Returns false if the limit has no room for them, even after the bytes of ended
 * processes were returned. */
bool weir__shared_limit_take(weir_shared_limit *limit, uint64_t bytes);
void weir__shared_limit_give(weir_shared_limit *limit, uint64_t bytes);
uint64_t weir__shared_limit_bytes(weir_shared_limit *limit);
/* Calls `visit` for all other pools of the process that share the limit; none of them ends meanwhile. The caller holds
 * no lock of a pool. */
void weir__shared_limit_visit_others(weir_shared_limit *limit, const weir_host_pool *pool,
                                     void (*visit)(weir_host_pool *other));
/* Writes, like snprintf, a line that names the limit and the holders of its bytes. */
size_t weir__shared_limit_explain(weir_shared_limit *limit, char *text, size_t size);

#endif
