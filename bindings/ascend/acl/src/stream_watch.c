/* bindings/ascend/acl/src/stream_watch.c: the runtime's callback after a stream was made and before one is destroyed.
 *
 * Idea: one callback serves the process (aclrtRegStreamStateCallback); it is registered while stream_registry.c has a
 * note of a stream. The runtime calls callbacks in the order of their names. The name of weir's callback sorts after
 * those of the vendor's executors ("ACL_MODULE_..."), so the executors have freed their blocks before the attachment
 * leaves the stream.
 *
 * Guarantee: the callback may still run during or after its unregistration, because the runtime copies its table first.
 * So it uses only data that live as long as the code. An atexit handler unregisters it when the code is unloaded, or
 * before the runtime destroys its own data.
 */
#include "attachment.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

/* Protected by the lock of stream_registry.c. */
static bool registered; /* the callback is registered with the runtime */
static bool at_exit;
static pid_t process; /* the process that registered the callback; 0: it was never registered */

bool weir__acl_in_child(void)
{
    return process != 0 && process != getpid();
}

/* --- the callback --- */

static const char *callback_name(void)
{
    WEIR_ASSERT(weir__acl_is_locked());
    static char name[48]; /* protected by the lock; each copy of this library in the process has its own name */
    (void)snprintf(name, sizeof(name), "weir_acl_%p", (void *)&registered);
    return name;
}

/* Forgets the earlier stream with the handle `native`, which now belongs to a new stream. */
static void on_created(void *native)
{
    weir__acl_lock();
    weir__acl_stream_created_locked(native);
    weir__acl_note_created_locked(native);
    weir__acl_unlock();
    weir__acl_attach_new_stream(native);
}

static void on_destroyed(void *native)
{
    weir__acl_stream_ends(native);
    weir__acl_lock();
    weir__acl_device_loses_stream_locked(native);
    weir__acl_note_destroyed_locked(native);
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

/* --- its registration --- */

/* Unregisters the callback. If the runtime refuses, it stays and does nothing. */
static void leave_locked(void)
{
    WEIR_ASSERT(weir__acl_is_locked());
    if (registered) {
        const weir__kept_sentence sentence = weir__sentence_keep();
        registered = ACL(aclrtRegStreamStateCallback, callback_name(), NULL, NULL) != WEIR_OK;
        weir__sentence_restore(&sentence);
    }
}

static void leave_if_idle_locked(void)
{
    if (!weir__acl_has_notes_locked()) {
        leave_locked();
    }
}

static void leave_at_exit(void)
{
    if (weir__acl_in_child()) {
        return; /* a child of fork: another thread of the parent may have held the lock */
    }
    weir__acl_lock();
    leave_locked();
    weir__acl_unlock();
}

static weir_status join_locked(void)
{
    WEIR_ASSERT(weir__acl_is_locked());
    if (registered) {
        return WEIR_OK;
    }
    const weir_status status = ACL(aclrtRegStreamStateCallback, callback_name(), on_stream_state, NULL);
    registered = status == WEIR_OK;
    process = registered ? getpid() : process;
    if (registered && !at_exit) {
        /* this atexit handler is registered after the runtime's handlers, so it runs before them */
        at_exit = atexit(leave_at_exit) == 0;
    }
    return status;
}

weir_status weir__acl_watch(void *native, const weir__acl_place *place, bool attached)
{
    weir__acl_lock();
    weir_status status = join_locked();
    if (status == WEIR_OK) {
        status = weir__acl_note_locked(native, place, attached);
    }
    leave_if_idle_locked();
    weir__acl_unlock();
    return status;
}

void weir__acl_unwatch_locked(void *native)
{
    weir__acl_unnote_locked(native);
    leave_if_idle_locked();
}
