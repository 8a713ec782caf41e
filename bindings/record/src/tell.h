/* bindings/record/src/tell.h: what preload.c and preload_acl.c share. */
#ifndef WEIR_RECORD_TELL_H
#define WEIR_RECORD_TELL_H

#include "channel.h"

#include <weir/trace.h>

#include <stdbool.h>

/* The channel, or NULL where nothing is to be told: no recording, a child of fork, another program. */
channel *tell_channel(void);
/* Tells it in the calling thread's name; waits while the ring is full. Keeps errno. */
void tell(channel *to, const channel_slot *event);

/* preload.c: whether this library's malloc is the one that is called. */
bool stands_in_front(void);

#endif
