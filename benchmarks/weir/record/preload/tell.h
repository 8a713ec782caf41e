/* benchmarks/weir/record/preload/tell.h: functions shared by preload.c and preload_acl.c. */
#ifndef WEIR_RECORD_TELL_H
#define WEIR_RECORD_TELL_H

#include "../channel.h"

#include <weir/trace.h>

#include <stdbool.h>

/* Returns the channel. Returns NULL if `weir record` does not run, or does not record this process (a child of fork,
 * another program). */
struct channel *tell_channel(void);
/* Writes an event of the calling thread; waits while the ring is full. Keeps errno. */
void tell(struct channel *to, const struct channel_slot *event);

/* Defined by preload.c. Returns true if the program's calls of malloc reach this library's malloc. */
bool stands_in_front(void);

#endif
