/* driver.h: declarations that the files of the driver share. */
#ifndef WEIR_VENDOR_DRIVER_H
#define WEIR_VENDOR_DRIVER_H

#include "hal.h"

#include <pthread.h>
#include <time.h>

enum { DRIVER_DEVICES = 2, DRIVER_PAGE = 4096, DRIVER_HUGE_PAGE = 2 << 20 };

/* One lock for the whole driver, and a condition for changes of its queues. */
extern pthread_mutex_t driver_mutex;
extern pthread_cond_t driver_changed;

static inline void driver_unlock_at_end(pthread_mutex_t **mutex)
{
    (void)pthread_mutex_unlock(*mutex);
}

/* Holds the lock until the block ends. */
#define DRIVER_HOLD_LOCK()                                                                                             \
    __attribute__((cleanup(driver_unlock_at_end))) pthread_mutex_t *lock_held = &driver_mutex;                         \
    (void)pthread_mutex_lock(lock_held)

/* Returns the memory of each device: WEIR_DRIVER_CAPACITY bytes, or 32 GiB if that is not set. */
uint64_t driver_capacity(void);
/* Adds to the memory that a device has in use and returns true, or returns false if the device has less memory left. */
bool driver_take(uint32_t device, uint64_t size);
void driver_give_back(uint32_t device, uint64_t size);

/* Maps fresh addresses that begin at a huge page. Returns NULL without room. */
void *driver_addresses(size_t size, int protection);

/* Takes all memory of a device back. Needs the lock. */
void driver_memory_end(uint32_t device);
/* Describes memory that is mapped through handles. Returns false for any other address. Needs the lock. */
bool driver_mapping_of(uintptr_t address, hal_attribute *attribute);

/* Records an event, or forgets that it was recorded. Needs the lock. */
void driver_event_set(uint32_t device, uint32_t event, bool is_recorded);

/* The time in so many milliseconds, for pthread_cond_timedwait. */
struct timespec driver_deadline(long ms);

/* Queues of calls of functions of the host. All need the lock. driver_call returns false if the queue is full. */
hal_error driver_calls_take(uint32_t device, uint32_t group, uint32_t *number);
void driver_calls_end(uint32_t device, uint32_t number);
bool driver_call(uint32_t device, uint32_t number, const hal_call *call);

#endif
