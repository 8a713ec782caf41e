/* acl_device_maker.h: the ACL device over the simulated runtime for device_contract.c. */
#ifndef ACL_DEVICE_MAKER_H
#define ACL_DEVICE_MAKER_H

#include <weir/acl.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* The runtime reads its environment once, at its first call. */
static inline weir_status make_acl(uint64_t capacity_bytes, weir_device **device)
{
    char bytes[32];
    (void)snprintf(bytes, sizeof(bytes), "%" PRIu64, capacity_bytes);
    if (setenv("WEIR_ASCENDCL_CAPACITY", bytes, 1) != 0) {
        return WEIR_ERR_NO_MEMORY;
    }
    return weir_acl_device_create(NULL, device);
}

#endif
