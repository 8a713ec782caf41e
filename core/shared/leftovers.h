/* core/shared/leftovers.h: what a device has not taken back, and takes back later. Header only, for core and the
 * bindings.
 *
 * A call that gives something back may fail, and its caller may be in no position to repeat it: a pool that is being
 * destroyed, or a device call that reverses its first step because the second one failed. The owner then leaves a note
 * here, and makes the call again at its next calls, until it succeeds.
 *
 * Guarantee: a note is forgotten only when its call has succeeded. A note is not tried while an earlier note about the
 * same addresses or the same handle is left, so memory is unmapped before its handle is destroyed, and both before its
 * addresses are released. Notes about other memory do not wait for each other.
 *
 * Cost: one atomic load while there is no note. The lock is held during the calls of a retry.
 */
#ifndef WEIR_SHARED_LEFTOVERS_H
#define WEIR_SHARED_LEFTOVERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <weir/device.h>

#include "shared/assert.h"
#include "shared/native_error.h"

/* A call to make, with its arguments. */
typedef struct weir__leftover {
    struct weir__leftover *next;
    weir_status (*give)(void *owner, struct weir__leftover *left);
    uint64_t address;
    uint64_t size;
    uint64_t handle;
    weir_event *event;
    void *object; /* any other: host memory, a stream */
} weir__leftover;

/* All zero, but for the lock, is an empty list. */
typedef struct weir__leftovers {
    pthread_mutex_t lock;
    atomic_size_t count;
    weir__leftover *first; /* in the order of their notes; under the lock */
} weir__leftovers;

/* Frees the notes that are left, without their calls. */
static inline void weir__leftovers_fini(weir__leftovers *all)
{
    for (weir__leftover *next; all->first != NULL; all->first = next) {
        next = all->first->next;
        free(all->first);
    }
    (void)pthread_mutex_destroy(&all->lock);
}

/* Returns a note without a subject, to be made before the device gives anything; NULL when out of host memory. */
static inline weir__leftover *weir__leftover_new(weir_status (*give)(void *owner, weir__leftover *left))
{
    weir__leftover *made = calloc(1, sizeof(*made));
    if (made != NULL) {
        made->give = give;
    }
    return made;
}

static inline bool weir__leftover_touches(const weir__leftover *left, uint64_t address, uint64_t size, uint64_t handle)
{
    return (handle != 0 && left->handle == handle) ||
           (address < left->address + left->size && left->address < address + size);
}

/* Returns the first note before `end` about a part of the range or about the handle; NULL: there is none. Lock held. */
static inline const weir__leftover *weir__leftovers_find_locked(const weir__leftovers *all, const weir__leftover *end,
                                                                uint64_t address, uint64_t size, uint64_t handle)
{
    const weir__leftover *found = all->first;
    while (found != end && !weir__leftover_touches(found, address, size, handle)) {
        found = found->next;
    }
    return found != end ? found : NULL;
}

/* True if a note is about a part of the range, or about the handle (0: none). */
static inline bool weir__leftovers_touch(weir__leftovers *all, uint64_t address, uint64_t size, uint64_t handle)
{
    if (atomic_load(&all->count) == 0) {
        return false;
    }
    (void)pthread_mutex_lock(&all->lock);
    const bool touch = weir__leftovers_find_locked(all, NULL, address, size, handle) != NULL;
    (void)pthread_mutex_unlock(&all->lock);
    return touch;
}

/* Makes the call of a note, a second time if it fails, and keeps the note if it fails again. The list owns the note.
 * Returns the result of the call. */
static inline weir_status weir__leftovers_give(weir__leftovers *all, void *owner, weir__leftover *left)
{
    WEIR_ASSERT(left != NULL && left->give != NULL && left->next == NULL);
    (void)pthread_mutex_lock(&all->lock);
    weir_status status = WEIR_ERR_DEVICE;
    if (weir__leftovers_find_locked(all, NULL, left->address, left->size, left->handle) == NULL) {
        status = left->give(owner, left);
        status = status == WEIR_OK ? status : left->give(owner, left);
    }
    if (status == WEIR_OK) {
        free(left);
    } else {
        weir__leftover **link = &all->first;
        while (*link != NULL) {
            link = &(*link)->next;
        }
        *link = left;
        (void)atomic_fetch_add(&all->count, 1);
    }
    (void)pthread_mutex_unlock(&all->lock);
    return status;
}

/* Makes the call of a note, and keeps the note if it fails, in the list of a device: for an object that stands on the
 * device and ends with it at the latest. The call's owner is the device. It is made at the device's next calls for
 * memory, and the device is not destroyed before it has succeeded. Of core/src/device/device.c, for the host pool. */
weir_status weir__device_give_back(weir_device *device, weir__leftover *left);

/* Makes the calls of all notes again. Returns WEIR_OK if no note is left, else the first failure. Leaves the thread's
 * last sentence of a refusal as it was: the caller's own call may succeed. */
static inline weir_status weir__leftovers_retry(weir__leftovers *all, void *owner)
{
    weir_status first = WEIR_OK;
    if (atomic_load(&all->count) == 0) {
        return WEIR_OK;
    }
    const weir__kept_sentence sentence = weir__sentence_keep();
    (void)pthread_mutex_lock(&all->lock);
    for (weir__leftover **link = &all->first; *link != NULL;) {
        weir__leftover *left = *link;
        const bool waits = weir__leftovers_find_locked(all, left, left->address, left->size, left->handle) != NULL;
        const weir_status status = waits ? first : left->give(owner, left);
        if (status != WEIR_OK) {
            first = first == WEIR_OK ? status : first;
            link = &left->next;
            continue;
        }
        *link = left->next;
        free(left);
        (void)atomic_fetch_sub(&all->count, 1);
    }
    (void)pthread_mutex_unlock(&all->lock);
    weir__sentence_restore(&sentence);
    return first;
}

#endif
