/* two_streams.h: each test gets two streams and a block of SIZE bytes of device memory. Include rig/acl.h first, and
 * define SIZE. */
#ifndef WEIR_ASCENDCL_TWO_STREAMS_H
#define WEIR_ASCENDCL_TWO_STREAMS_H

static aclrtStream a, b;
static signed char *memory;

static inline void make_streams(void)
{
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtCreateStream(&a));
    acl_ok(aclrtCreateStream(&b));
    acl_ok(aclrtMalloc((void **)&memory, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
}

/* Destroys both streams with their queued tasks and frees `memory`. A test that has freed the memory itself sets
 * `memory` to NULL. */
static inline void drop_streams(void)
{
    acl_ok(aclrtDestroyStreamForce(a));
    acl_ok(aclrtDestroyStreamForce(b));
    if (memory != NULL) {
        acl_ok(aclrtFree(memory));
    }
    acl_ok(aclrtResetDevice(0));
}

#endif
