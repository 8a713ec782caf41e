/* bindings/acl/src/stream_registry.c: the streams known by handle: the device each belongs to, and the callback at its
 * end.
 *
 * Idea: the runtime calls back before it destroys a stream (aclrtRegStreamStateCallback). One callback serves the
 * process; it is registered while any stream is noted. Its name sorts after those of the vendor's executors
 * ("ACL_MODULE_..."), which are called in the order of names, so they have given back their blocks before the
 * attachment is emptied.
 *
 * Guarantee: the callback may still come while or after it is unregistered (the runtime copies its table first), so it
 * uses nothing but this file's data, which lives as long as the code. An atexit handler takes it away when the code is
 * unloaded, or before the runtime ends its own data.
 *
 * Cost: nothing per allocation. Notes are a list; a look at it comes only with a stream of another context.
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
    unsigned attached; /* until so often unwatched */
    bool known;        /* until the stream is destroyed */
    bool buried;       /* until one with the same handle is created */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct note *notes;
static bool registered; /* the callback is the runtime's */
static bool at_exit;
static pid_t process;      /* of the first registration; 0: there was none */
static atomic_uint buried; /* notes that are */

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
    static char name[48]; /* under the lock; each copy of this library in the process needs its own */
    (void)snprintf(name, sizeof(name), "weir_acl_%p", (void *)&lock);
    return name;
}

static void drop(struct note **link)
{
    struct note *note = *link;
    *link = note->next;
    free(note);
}

/* A handle that comes again belongs to a new stream. */
static void on_created(void *native)
{
    weir__acl_lock();
    weir__acl_stream_comes_locked(native);
    struct note **link = find(native);
    if (*link != NULL && (*link)->buried) {
        (void)atomic_fetch_sub_explicit(&buried, 1, memory_order_relaxed);
        (*link)->buried = false;
    }
    if (*link != NULL && (*link)->attached == 0) {
        drop(link);
    }
    weir__acl_unlock();
}

static void on_destroyed(void *native)
{
    weir__acl_stream_goes(native);
    weir__acl_lock();
    weir__acl_device_goes_locked(native);
    struct note **link = find(native);
    if (*link != NULL) {
        (*link)->attached = 0;
        (*link)->known = false;
        if (!(*link)->buried) {
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
        at_exit = atexit(leave) == 0; /* registered after what the runtime has registered, so it is called before */
    }
    return status;
}

/* A refusal is no harm: the callback stays and finds nothing. */
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
        if ((*link)->attached == 0 && !(*link)->known && !(*link)->buried) {
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

void weir__acl_bury_locked(void *native)
{
    struct note *note = *find(native);
    if (note != NULL && !note->buried) {
        note->buried = true;
        (void)atomic_fetch_add_explicit(&buried, 1, memory_order_relaxed);
    }
}

bool weir__acl_is_buried(void *native)
{
    if (atomic_load_explicit(&buried, memory_order_relaxed) == 0) {
        return false;
    }
    weir__acl_lock();
    const struct note *note = *find(native);
    const bool is = note != NULL && note->buried;
    weir__acl_unlock();
    return is;
}
