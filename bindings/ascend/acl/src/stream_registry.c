/* bindings/ascend/acl/src/stream_registry.c: notes of streams by handle, and the binding's lock.
 *
 * Guarantee: a note that a caller still needs lasts until its stream is destroyed; a blocked handle is passed to ACL
 * only after a new stream has got it.
 *
 * Cost: none per allocation. The notes are a list, searched only for a stream that is not of the current context.
 */
#include "acl_internal.h"

#include <stdlib.h>

struct note {
    struct note *next;
    void *native;
    weir__acl_place place;
    unsigned attached; /* calls of weir__acl_unnote_locked still to come; the note is kept until it is 0 */
    bool known;        /* keep this note until the stream is destroyed */
    bool blocked;      /* keep this note until a new stream gets the same handle */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct note *notes;
static atomic_uint blocked_handles; /* number of blocked handles */
static _Atomic uint64_t epoch;

/* --- the lock --- */

void weir__acl_lock(void)
{
    (void)pthread_mutex_lock(&lock);
}

void weir__acl_unlock(void)
{
    WEIR_ASSERT_HELD(&lock);
    (void)pthread_mutex_unlock(&lock);
}

bool weir__acl_is_locked(void)
{
    return pthread_mutex_trylock(&lock) == EBUSY;
}

void weir__acl_wait_locked(void)
{
    WEIR_ASSERT_HELD(&lock);
    (void)UNCANCELLED(pthread_cond_wait(&changed, &lock));
}

void weir__acl_changed_locked(void)
{
    WEIR_ASSERT_HELD(&lock);
    (void)pthread_cond_broadcast(&changed);
}

/* --- the number of ends --- */

uint64_t weir_acl_epoch(void)
{
    return atomic_load(&epoch);
}

void weir__acl_next_epoch(void)
{
    (void)atomic_fetch_add(&epoch, 1);
}

/* --- notes --- */

static struct note **find_locked(void *native)
{
    WEIR_ASSERT_HELD(&lock);
    struct note **link = &notes;
    while (*link != NULL && (*link)->native != native) {
        link = &(*link)->next;
    }
    return link;
}

static struct note *make_note(void *native)
{
    WEIR_ASSERT(*find_locked(native) == NULL);
    struct note *note = calloc(1, sizeof(*note));
    if (note != NULL) {
        note->native = native;
        note->next = notes;
        notes = note;
    }
    return note;
}

static void drop(struct note **link)
{
    struct note *note = *link;
    WEIR_ASSERT(note->attached == 0 && !note->blocked);
    *link = note->next;
    free(note);
}

weir_status weir__acl_note_locked(void *native, const weir__acl_place *place, bool attached)
{
    struct note *note = *find_locked(native);
    note = note != NULL ? note : make_note(native);
    if (note == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    note->place = *place;
    note->attached += attached;
    note->known |= !attached;
    return WEIR_OK;
}

void weir__acl_unnote_locked(void *native)
{
    struct note **link = find_locked(native);
    if (*link != NULL) {
        (*link)->attached -= (*link)->attached > 0;
        if ((*link)->attached == 0 && !(*link)->known && !(*link)->blocked) {
            drop(link);
        }
    }
}

bool weir__acl_has_notes_locked(void)
{
    WEIR_ASSERT_HELD(&lock);
    return notes != NULL;
}

void weir__acl_note_created_locked(void *native)
{
    struct note **link = find_locked(native);
    if (*link != NULL && (*link)->blocked) {
        WEIR_ASSERT(atomic_load(&blocked_handles) > 0);
        (void)atomic_fetch_sub_explicit(&blocked_handles, 1, memory_order_relaxed);
        (*link)->blocked = false;
    }
    if (*link != NULL && (*link)->attached == 0) {
        drop(link);
    }
}

void weir__acl_note_destroyed_locked(void *native)
{
    struct note **link = find_locked(native);
    if (*link != NULL) {
        (*link)->attached = 0;
        (*link)->known = false;
        if (!(*link)->blocked) {
            drop(link);
        }
    }
}

bool weir__acl_noted(void *native, weir__acl_place *place)
{
    weir__acl_lock();
    const struct note *note = *find_locked(native);
    if (note != NULL) {
        *place = note->place;
    }
    weir__acl_unlock();
    return note != NULL;
}

void weir__acl_block_handle_locked(void *native)
{
    WEIR_ASSERT(native != NULL);
    struct note *note = *find_locked(native);
    if (note != NULL && !note->blocked) {
        note->blocked = true;
        (void)atomic_fetch_add_explicit(&blocked_handles, 1, memory_order_relaxed);
    }
}

bool weir__acl_handle_blocked(void *native)
{
    if (atomic_load_explicit(&blocked_handles, memory_order_relaxed) == 0) {
        return false;
    }
    weir__acl_lock();
    const struct note *note = *find_locked(native);
    const bool is = note != NULL && note->blocked;
    weir__acl_unlock();
    return is;
}
