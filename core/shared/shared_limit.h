/* core/shared/shared_limit.h: the page that processes share, and the functions for what counts its memory under a
 * limit: the adaptor limit, host pools, simulators. Nothing here is exported. */
#ifndef WEIR_SHARED_SHARED_LIMIT_H
#define WEIR_SHARED_SHARED_LIMIT_H

#include <pthread.h>
#include <stdbool.h>
#include <weir/shared_limit.h>

#define WEIR__LIMIT_MAGIC UINT64_C(0x3374696d696c7277) /* changes with the layout of the page */

enum {
    WEIR__LIMIT_COMMON = 512, /* most pieces of memory that processes hold in common at once */
    WEIR__LIMIT_NOTE_BYTES = 96,
    WEIR__LIMIT_WORDS = WEIR_SHARED_LIMIT_PROCESSES / 64,
};

/* A piece of memory that processes hold in common. It counts until the last of them has dropped it or has ended. */
typedef struct weir__limit_common {
    uint64_t key; /* the index here, and a number that no other piece gets; 0: free. Written last */
    uint64_t bytes;
    uint64_t holders[WEIR__LIMIT_WORDS]; /* one bit for each slot */
    char note[WEIR__LIMIT_NOTE_BYTES];   /* of the exporter: how others find the memory */
} weir__limit_common;

/* Only complete values are ever visible, because a process may be killed at any instruction. `held_of` and `common` are
 * authoritative. `held_bytes` is the sum of both, `common_bytes` and `common_count` are those of `common`; they are
 * computed anew when a holder of the lock has died. */
typedef struct weir__limit_page {
    uint64_t magic;       /* written last when the page is initialized */
    pthread_mutex_t lock; /* robust mutex; protects the members below */
    uint64_t limit_bytes;
    uint64_t held_bytes;
    uint64_t peak_held_bytes;
    uint64_t ended_processes;
    uint64_t returned_bytes;
    uint64_t held_of[WEIR_SHARED_LIMIT_PROCESSES];
    uint64_t last_number; /* of keys */
    uint64_t common_bytes;
    uint64_t common_count;
    weir__limit_common common[WEIR__LIMIT_COMMON];
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
/* Stores how many bytes may still be taken, after the bytes of ended processes were returned, and the limit, if that is
 * less than what *left holds. */
void weir__shared_limit_lower(weir_shared_limit *limit, uint64_t *left, uint64_t *total);
/* Trims all other members of this process; none of them leaves meanwhile. The caller holds no lock of a member. */
void weir__shared_limit_trim_others(weir_shared_limit *limit, const weir__limit_member *member);

/* --- memory that processes hold in common --- */

/* Makes `bytes` that this process holds a common piece, with this process as its first holder. WEIR_ERR_INVALID: the
 * process does not hold so much. WEIR_ERR_BUSY: there are WEIR__LIMIT_COMMON pieces. */
weir_status weir__shared_limit_share(weir_shared_limit *limit, uint64_t bytes, const char *note, uint64_t *key);
/* Copies the note and the bytes of a piece. Returns false if there is none of this key. */
bool weir__shared_limit_find(weir_shared_limit *limit, uint64_t key, char *note, uint64_t *bytes);
/* Replaces the note. The process holds the piece. */
void weir__shared_limit_note(weir_shared_limit *limit, uint64_t key, const char *note);
/* Makes this process a holder, once more if it is one already. Returns false if there is no piece of this key. */
bool weir__shared_limit_hold(weir_shared_limit *limit, uint64_t key);
/* Undoes one weir__shared_limit_hold, or the share. Returns true if no process holds the piece any more. */
bool weir__shared_limit_drop(weir_shared_limit *limit, uint64_t key);

/* Writes, like snprintf, a line that names the limit and the holders of its bytes. */
size_t weir__shared_limit_explain(weir_shared_limit *limit, char *text, size_t size);

#endif
