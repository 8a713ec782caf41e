/* consumer.h: memory and kernel launches of operators and models.
 *
 * An execution takes its memory from a *supply*: the allocator registered for its stream, or the runtime's own memory
 * if there is none. A piece is given back in the order of the stream when its last consumer has been queued, as the
 * vendor's executors do. The runtime's own memory is not stream-ordered: before a piece of it is given back, the host
 * waits for the stream.
 */
#ifndef WEIR_ASCENDCL_CONSUMER_H
#define WEIR_ASCENDCL_CONSUMER_H

#include "actions/actions.h"

typedef struct acl__wrapper acl__wrapper;

typedef struct acl__supply {
    acl__stream *stream;
    int32_t stream_id;
    acl__wrapper *wrapper; /* wrapper of the registered allocator; NULL: the runtime's own memory is used */
    uint64_t page_bytes;   /* requests are rounded up to multiples of page_bytes; 1: exact sizes */
    bool keeps;            /* caches pieces that are given back, for later requests */
} acl__supply;

typedef struct acl__piece {
    aclrtAllocatorBlock block; /* opaque handle from the registered allocator */
    void *address;             /* NULL: the piece is empty */
    uint64_t bytes;
} acl__piece;

typedef enum acl__executor {
    ACL__OPERATOR, /* requests exact sizes; if no allocator is registered yet, the stream keeps the runtime's memory for
                      * good */
    ACL__MODEL,    /* requests whole pages; asks at every execution which allocator is registered */
    ACL__MODEL_ONLY, /* takes the runtime's own memory only, even if an allocator is registered */
} acl__executor;

/* The functions acl__supply_... are called without the runtime's lock. Each records the error that it returns. */
aclError acl__supply_begin(acl__supply *supply, aclrtStream stream, acl__executor executor);
void acl__supply_end(acl__supply *supply);
/* Takes memory from a supply. With a `hint`, calls the allocator's advise function if there is one.
 * ACL_ERROR_RT_MEMORY_ALLOCATION: no memory, even after a synchronisation of the stream. */
aclError acl__supply_take(acl__supply *supply, uint64_t bytes, void *hint, const char *tag, acl__piece *piece);
/* Gives a piece of memory back to the supply. Does nothing for an empty piece. */
aclError acl__supply_give(acl__supply *supply, acl__piece *piece, const char *tag);
/* Like acl__launch, on the supply's stream; fails if that stream was destroyed. */
aclError acl__supply_launch(const acl__supply *supply, const acl__kernel *kernel);

/* Returns the peak of the bytes that all executions together held. Needs no lock. */
uint64_t acl__consumer_peak_bytes(void);

/* Gives cached memory of all streams back to the registered allocators, because a model is unloaded. */
void acl__consumer_model_ends(void);
/* True if all of [address, address + bytes) is device memory now. The lock is held. */
bool acl__is_device_memory(const void *address, uint64_t bytes);

#endif
