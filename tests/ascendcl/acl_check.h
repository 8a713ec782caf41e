/* acl_check.h: shared by the programs of this folder. Include it first. */
#ifndef WEIR_ACL_CHECK_H
#define WEIR_ACL_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <acl/acl.h>
#include <acl/acl_rt_allocator.h>
#include <acl/acl_rt_memory_soma.h>

/* Checks that a call returns this code. */
#define acl_expect(code, call) assert_int_equal((call), (code))
#define acl_ok(call) acl_expect(ACL_SUCCESS, call)

/* Sets an option of the runtime. Call it first in main: the runtime reads the environment at its first call. */
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

#endif
