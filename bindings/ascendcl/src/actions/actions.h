/* actions.h: copies and notifies. */
#ifndef WEIR_ASCENDCL_ACTIONS_H
#define WEIR_ASCENDCL_ACTIONS_H

#include "memory/memory.h"

/* --- copy.c --- */

/* Implements aclrtMemcpy and its relatives, for all functions that copy. `name` is the name of the public function, for
 * messages. */
/* Refuses aclrtMemcpy, aclrtMemset and aclrtMemcpy2d because of a capture. As in the vendor's runtime, batches and
 * aclrtMemsetD32 are allowed (ApiImpl::MemcpyBatch, ApiImpl::MemsetD32). */
aclError acl__check_captures(const char *name);
aclError acl__copy_now(void *to, const void *from, uint64_t size, const char *name);
aclError acl__copy_async(void *to, const void *from, uint64_t size, acl__stream *stream, const char *name);
aclError acl__set_now(void *to, uint8_t value, uint64_t size, const char *name);
aclError acl__set_async(void *to, uint8_t value, uint64_t size, acl__stream *stream, const char *name);

/* --- condition.c --- */

/* Gives the conditions of a graph, and of its branches, the values that an execution begins with. */
void acl__conditions_begin(const acl__graph *graph);

/* --- notify.c --- */

/* Ends all notifies of a device. */
void acl__notify_reset(int32_t device);

#endif
