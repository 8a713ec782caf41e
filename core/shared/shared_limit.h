/* core/shared/shared_limit.h: the page that processes share, and the functions for what counts its memory under a
 * limit: the adaptor limit, host pools, simulators. Nothing here is exported. */
#ifndef WEIR_SHARED_SHARED_LIMIT_H
#define WEIR_SHARED_SHARED_LIMIT_H

#include <pthread.h>
#include <stdbool.h>
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

/* A user of a limit in this process. While a limit has members, weir_shared_limit_destroy refuses. */
typedef struct weir__limit_member {
    struct weir__limit_member *next;                 /* protected by the limit's members_lock */
    void (*trim)(struct weir__limit_member *member); /* gives the member's idle memory back; NULL: it has none */
} weir__limit_member;

void weir__shared_limit_join(weir_shared_limit *limit, weir__limit_member *member);
void weir__shared_limit_leave(weir_shared_limit *limit, weir__limit_member *member);
/* Counts `bytes` against the limit. Returns false if the limit has no room for them, even after the bytes of ended
 * processes were returned, and stores in *missing, which may be NULL, how many bytes are too many. */
bool weir__shared_limit_take(weir_shared_limit *limit, uint64_t bytes, uint64_t *missing);
void weir__shared_limit_give(weir_shared_limit *limit, uint64_t bytes);
uint64_t weir__shared_limit_bytes(weir_shared_limit *limit);
/* Stores how many bytes may still be taken, after the bytes of ended processes were returned, and the limit. */
void weir__shared_limit_room(weir_shared_limit *limit, uint64_t *left, uint64_t *limit_bytes);
/* Trims all other members of this process; none of them leaves meanwhile. The caller holds no lock of a member. */
void weir__shared_limit_trim_others(weir_shared_limit *limit, const weir__limit_member *member);
/* Writes, like snprintf, a line that names the limit and the holders of its bytes. */
size_t weir__shared_limit_explain(weir_shared_limit *limit, char *text, size_t size);

#endif
