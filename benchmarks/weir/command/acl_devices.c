/* acl_devices.c: asks the ACL runtime of the machine for its devices. The library is opened at run time, so the command
 * needs no CANN; it stays open, because the runtime does not support being unloaded. */
#include "acl_devices.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { ACL_OK = 0, ACL_NOT_SUPPORTED = 207000 };

typedef int (*count_function)(uint32_t *count);
typedef int (*bus_id_function)(int32_t device, char *bus_id, int32_t size);

static bool find(void *library, const char *name, void *function, struct acl_devices *all)
{
    *(void **)function = dlsym(library, name);
    if (*(void **)function == NULL) {
        (void)snprintf(all->why, sizeof(all->why), "libascendcl.so has no %s (CANN has it since 9.2)", name);
    }
    return *(void **)function != NULL;
}

static bool failed(struct acl_devices *all, const char *name, int code)
{
    (void)snprintf(all->why, sizeof(all->why), "%s failed with %d", name, code);
    return false;
}

bool acl_devices_read(struct acl_devices *all)
{
    count_function get_count = NULL;
    bus_id_function get_bus_id = NULL;
    uint32_t count = 0;
    memset(all, 0, sizeof(*all));
    void *library = dlopen("libascendcl.so", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *why = dlerror();
        (void)snprintf(all->why, sizeof(all->why), "%s", why != NULL ? why : "libascendcl.so cannot be opened");
        return false;
    }
    if (!find(library, "aclrtGetDeviceCount", &get_count, all) ||
        !find(library, "aclrtDeviceGetPCIBusId", &get_bus_id, all)) {
        return false;
    }
    int code = get_count(&count);
    if (code != ACL_OK) {
        return failed(all, "aclrtGetDeviceCount", code);
    }
    for (; all->count < count && all->count < ACL_DEVICES_MOST; all->count++) {
        struct acl_device *device = &all->devices[all->count];
        code = get_bus_id((int32_t)all->count, device->bus_id, (int32_t)sizeof(device->bus_id));
        device->bus_id[code == ACL_OK ? sizeof(device->bus_id) - 1 : 0] = '\0';
        if (code != ACL_OK && code != ACL_NOT_SUPPORTED) {
            return failed(all, "aclrtDeviceGetPCIBusId", code);
        }
    }
    return true;
}
