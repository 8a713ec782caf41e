/* consumer.h: how operators and models come by memory and launch their kernels.
 *
 * An execution takes its memory from a *supply*: the allocator registered for its stream, or where there is none, the
 * runtime's own memory. A piece is given back when its last consumer has been queued, in the order of the stream, as the
 * vendor's executors do; the runtime's own memory has no order, so there the stream is waited for first.
 */
#ifndef WEIR_ASCENDCL_CONSUMER_H
#define WEIR_ASCENDCL_CONSUMER_H

#include "runtime.h"

typedef struct acl__wrapper acl__wrapper;

typedef struct acl__supply {
    acl__stream *stream;
    int32_t stream_id;
    acl__wrapper *wrapper; /* NULL: the runtime's own memory */
    uint64_t page_bytes;   /* requests are rounded up to it; 1: exact */
    bool keeps;            /* pieces that are given are kept for later requests */
} acl__supply;

typedef struct acl__piece {
    aclrtAllocatorBlock block; /* of the registered allocator: opaque */
    void *address;             /* NULL: nothing is held */
    uint64_t bytes;
} acl__piece;

typedef enum acl__executor {
    ACL__OPERATOR,   /* exact sizes; before any registration it fixes the stream's allocator */
    ACL__MODEL,      /* whole pages; the registration is read anew each time */
    ACL__MODEL_ONLY, /* a model that never asks the registered allocator */
} acl__executor;

/* None of these is called with the lock held. Each notes its error. */
aclError acl__supply_begin(acl__supply *supply, aclrtStream stream, acl__executor executor);
void acl__supply_end(acl__supply *supply);
/* ACL_ERROR_RT_MEMORY_ALLOCATION: there is none, also after the stream was synchronised. With a hint the allocator's
 * advise function is asked, when it has one. */
aclError acl__supply_take(acl__supply *supply, uint64_t bytes, void *hint, const char *tag,
                          acl__piece *piece);
/* Nothing when nothing is held. */
aclError acl__supply_give(acl__supply *supply, acl__piece *piece, const char *tag);
/* acl__launch on the supply's stream. */
aclError acl__supply_launch(const acl__supply *supply, const acl__kernel *kernel);
/* Takes the lock; an error when the stream was destroyed meanwhile, and then the lock is not held. */
aclError acl__supply_lock(const acl__supply *supply);

/* The most that all executions together have held at once. Needs no lock. */
uint64_t acl__consumer_peak_bytes(void);

/* A model is gone: what is kept for executions goes back. */
void acl__consumer_model_ends(void);
/* The registration of a stream is about to be replaced, or taken away when `next` is NULL. */
void acl__consumer_registration_ends(aclrtStream stream, const acl__allocator *next);

/* Whether all of [address, address + bytes) is device memory now. The lock is held. */
bool acl__is_device_memory(const void *address, uint64_t bytes);

#endif
