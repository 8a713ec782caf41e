/* bindings/runtimes/acl/src/stream_registry.c: notes of streams by handle: the context and device of each, and the
 * callback at its end.
 *
 * Idea: the runtime calls back before it destroys a stream (aclrtRegStreamStateCallback). One callback serves the
 * process; it is registered while there is a note. The runtime calls callbacks in the order of their names. The name of
 * weir's callback sorts after those of the vendor's executors ("ACL_MODULE_..."), so the executors have freed their
 * blocks before the attachment leaves the stream.
 *
 * Guarantee: the callback may still run during or after its unregistration, because the runtime copies its table first.
 * So it uses only this file's data, which lives as long as the code. An atexit handler unregisters it when the code is
 * unloaded, or before the runtime destroys its own data.
 *
 * Cost: none per allocation. The notes are a list, searched only for a stream that is not of the current context.
 */
#include "acl_internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

struct note {
    struct note *next;
    void *native;
    weir__acl_place place;
    unsigned attached; /* calls of weir__acl_unwatch_locked still to come; the note is kept until it is 0 */
    bool known;        /* keep this note until the stream is destroyed */
    bool blocked;      /* keep this note until a new stream gets the same handle */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct note *notes;
static bool registered; /* the callback is registered with the runtime */
static bool at_exit;
static pid_t process;               /* the process that registered the callback; 0: it was never registered */
static atomic_uint blocked_handles; /* number of blocked handles */

void weir__acl_lock(void)
{
    (void)pthread_mutex_lock(&lock);
}

void weir__acl_unlock(void)
{
    (void)pthread_mutex_unlock(&lock);
}

void weir__acl_wait_locked(void)
{
    (void)UNCANCELLED(pthread_cond_wait(&changed, &lock));
}

void weir__acl_changed_locked(void)
{
    (void)pthread_cond_broadcast(&changed);
}

static struct note **find(void *native)
{
    struct note **link = &notes;
    while (*link != NULL && (*link)->native != native) {
        link = &(*link)->next;
    }
    return link;
}

bool weir__acl_in_child(void)
{
    return process != 0 && process != getpid();
}

/* --- the runtime's callback --- */

static const char *callback_name(void)
{
    static char name[48]; /* protected by the lock; each copy of this library in the process has its own name */
    (void)snprintf(name, sizeof(name), "weir_acl_%p", (void *)&lock);
    return name;
}

static void drop(struct note **link)
{
    struct note *note = *link;
    *link = note->next;
    free(note);
}

/* Forgets the earlier stream with the handle `native`, which now belongs to a new stream. */
static void on_created(void *native)
{
    weir__acl_lock();
    weir__acl_stream_created_locked(native);
    struct note **link = find(native);
    if (*link != NULL && (*link)->blocked) {
        (void)atomic_fetch_sub_explicit(&blocked_handles, 1, memory_order_relaxed);
        (*link)->blocked = false;
    }
    if (*link != NULL && (*link)->attached == 0) {
        drop(link);
    }
    weir__acl_unlock();
    weir__acl_attach_new_stream(native);
}

static void on_destroyed(void *native)
{
    weir__acl_stream_ends(native);
    weir__acl_lock();
    weir__acl_device_loses_stream_locked(native);
    struct note **link = find(native);
    if (*link != NULL) {
        (*link)->attached = 0;
        (*link)->known = false;
        if (!(*link)->blocked) {
            drop(link);
        }
    }
    weir__acl_unlock();
}

static void on_stream_state(aclrtStream native, aclrtStreamState state, void *args)
{
    (void)args;
    if (state == ACL_RT_STREAM_STATE_CREATE_POST) {
        on_created(native);
    } else if (state == ACL_RT_STREAM_STATE_DESTROY_PRE) {
        on_destroyed(native);
    }
}

static void leave(void)
{
    if (weir__acl_in_child()) {
        return; /* a child of fork: another thread of the parent may have held the lock */
    }
    weir__acl_lock();
    if (registered) {
        registered = ACL(aclrtRegStreamStateCallback, callback_name(), NULL, NULL) != WEIR_OK;
    }
    weir__acl_unlock();
}

static weir_status join_locked(void)
{
    if (registered) {
        return WEIR_OK;
    }
    const weir_status status = ACL(aclrtRegStreamStateCallback, callback_name(), on_stream_state, NULL);
    registered = status == WEIR_OK;
    process = registered ? getpid() : process;
    if (registered && !at_exit) {
        /* this atexit handler is registered after the runtime's handlers, so it runs before them */
        at_exit = atexit(leave) == 0;
    }
    return status;
}

/* Unregisters the callback once no stream has a note. If the runtime refuses, the callback stays and does nothing. */
static void leave_if_idle_locked(void)
{
    if (registered && notes == NULL) {
        registered = ACL(aclrtRegStreamStateCallback, callback_name(), NULL, NULL) != WEIR_OK;
    }
}

/* --- notes --- */

static struct note *make_note(void *native)
{
    struct note *note = calloc(1, sizeof(*note));
    if (note != NULL) {
        note->native = native;
        note->next = notes;
        notes = note;
    }
    return note;
}

weir_status weir__acl_watch(void *native, const weir__acl_place *place, bool attached)
{
    weir__acl_lock();
    weir_status status = join_locked();
    if (status == WEIR_OK) {
        struct note *note = *find(native);
        note = note != NULL ? note : make_note(native);
        if (note != NULL) {
            note->place = *place;
            note->attached += attached;
            note->known |= !attached;
        } else {
            status = WEIR_ERR_NO_MEMORY;
            leave_if_idle_locked();
        }
    }
    weir__acl_unlock();
    return status;
}

void weir__acl_unwatch_locked(void *native)
{
    struct note **link = find(native);
    if (*link != NULL) {
        (*link)->attached -= (*link)->attached > 0;
        if ((*link)->attached == 0 && !(*link)->known && !(*link)->blocked) {
            drop(link);
        }
    }
    leave_if_idle_locked();
}

bool weir__acl_noted(void *native, weir__acl_place *place)
{
    weir__acl_lock();
    const struct note *note = *find(native);
    if (note != NULL) {
        *place = note->place;
    }
    weir__acl_unlock();
    return note != NULL;
}

void weir__acl_block_handle_locked(void *native)
{
    struct note *note = *find(native);
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
    const struct note *note = *find(native);
    const bool is = note != NULL && note->blocked;
    weir__acl_unlock();
    return is;
}
