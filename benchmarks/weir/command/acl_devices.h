/* acl_devices.h: the devices of Ascend's ACL runtime and their PCI addresses, for `weir topo --acl`. */
#ifndef WEIR_COMMAND_ACL_DEVICES_H
#define WEIR_COMMAND_ACL_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct acl_device {
    char bus_id[16]; /* "": the device is not on PCI */
};

enum { ACL_DEVICES_MOST = 64 };

struct acl_devices {
    struct acl_device devices[ACL_DEVICES_MOST]; /* by the number that aclrtSetDevice takes */
    size_t count;
    char why[512]; /* why they could not be read; "" otherwise */
};

/* Opens libascendcl.so and asks it. The numbers are those of this process: ASCEND_RT_VISIBLE_DEVICES counts. Returns
 * false, with the reason, if there is no such library, if it lacks a function, or if a call failed. */
bool acl_devices_read(struct acl_devices *all);

#endif
