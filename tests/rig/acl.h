/* tests/rig/acl.h: for programs over the simulated ACL runtime. Include it first. */
#ifndef WEIR_RIG_ACL_H
#define WEIR_RIG_ACL_H

#include "test.h"

#include <acl/acl.h>
#include <acl/acl_rt_allocator.h>
#include <acl/acl_rt_memory_soma.h>

/* Checks that a call returns this code. */
#define acl_expect(code, call) assert_int_equal((call), (code))
#define acl_ok(call) acl_expect(ACL_SUCCESS, call)

/* Sets an option of the runtime, which reads the environment at its first call. */
static inline void acl_environment(const char *name, const char *value)
{
    char full[64] = "WEIR_ASCENDCL_";
    size_t at = sizeof "WEIR_ASCENDCL_" - 1;
    while (*name != '\0' && at < sizeof(full) - 1) {
        full[at++] = *name++;
    }
    full[at] = '\0';
    if (setenv(full, value, 1) != 0) {
        abort();
    }
}

/* Sets an option for the whole program. */
#define ACL_ENVIRONMENT(name, value)                                                                                   \
    __attribute__((constructor)) static void set_##name(void)                                                          \
    {                                                                                                                  \
        acl_environment(#name, value);                                                                                 \
    }

/* The tests count the memory of a device to the byte: the runtime takes none for itself, and the driver keeps none. */
__attribute__((constructor)) static void take_no_memory(void)
{
    acl_environment("RUNTIME_MEMORY", "0");
    acl_environment("DRIVER_CACHE", "0");
}

/* For EACH_TEST and ALL_TESTS. */
static inline int use_device(void **unused)
{
    (void)unused;
    acl_ok(aclrtSetDevice(0));
    return 0;
}

static inline int reset_device(void **unused)
{
    (void)unused;
    acl_ok(aclrtResetDevice(0));
    return 0;
}

/* Bytes of this kind of memory that are free. */
static inline size_t left_of(aclrtMemAttr attr)
{
    size_t free_bytes = 0, total = 0;
    acl_ok(aclrtGetMemInfo(attr, &free_bytes, &total));
    assert_true(free_bytes <= total);
    return free_bytes;
}

/* Bytes of device memory that are free. */
static inline size_t left(void)
{
    return left_of(ACL_HBM_MEM);
}

#endif
