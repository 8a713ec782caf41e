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
    struct acl_device devices[ACL_DEVICES_MOST]; /* the index is the device number for aclrtSetDevice */
    size_t count;
    char why[512]; /* the reason why the devices could not be read; "" if they were */
};

/* Opens libascendcl.so and reads the devices of this process: ASCEND_RT_VISIBLE_DEVICES limits and renumbers them.
 * Returns false, with the reason in all->why, if there is no such library, if it lacks a function, or if a call
 * failed. */
bool acl_devices_read(struct acl_devices *all);

#endif
