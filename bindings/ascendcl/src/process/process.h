/* process.h: devices, and the functions beyond ACL. */
#ifndef WEIR_ASCENDCL_PROCESS_H
#define WEIR_ASCENDCL_PROCESS_H

#include "executors/consumer.h"

/* --- device.c --- */

/* True if the handle is a live context. */
bool acl__context_is(const void *handle);

/* --- control.c --- */

/* Queues a kernel as weir_ascendcl_launch does. The lock is not held. */
struct weir_ascendcl_kernel;
aclError acl__launch_described(aclrtStream stream, const struct weir_ascendcl_kernel *kernel);

#endif
