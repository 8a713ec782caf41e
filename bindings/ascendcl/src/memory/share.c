/* share.c: memory of other devices and of other processes.
 *
 * All devices are in one simulator, so work of one device reaches the memory of all. Peer access is a matrix of
 * switches, by which the auditor judges work that touches another device's memory. A key names device memory of the
 * process that has made it. If it was made for all processes, the same process can import it and gets the exporter's
 * own address. Where processes share the devices (WEIR_ASCENDCL_SHARED) another one imports it at an address of its
 * own, and both see the same bytes.
 */
#include "memory/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- peers --- */

static aclError check_device(const char *name, int32_t id)
{
    ACL_FAIL_IF(id < 0 || (uint32_t)id >= acl__rt.config.devices, ACL_ERROR_RT_INVALID_DEVICEID,
                "%s: there is no device %d", name, id);
    return ACL_SUCCESS;
}

/* The vendor's runtime asks the driver for the peer's physical number, and the driver's refusal is another code. */
static aclError check_peer(const char *name, int32_t id)
{
    ACL_FAIL_IF(id < 0 || (uint32_t)id >= acl__rt.config.devices, ACL_ERROR_RT_PARAM_INVALID,
                "%s: there is no device %d", name, id);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId)
{
    ACL_ENTER(aclrtDeviceCanAccessPeer);
    ACL_REFUSE_IF(deviceId == peerDeviceId, ACL_ERROR_INVALID_PARAM, "device %d is no peer of itself", deviceId);
    ACL_TRY(check_peer(__func__, peerDeviceId));
    ACL_TRY(check_device(__func__, deviceId));
    ACL_REFUSE_IF(canAccessPeer == NULL, ACL_ERROR_RT_PARAM_INVALID, "canAccessPeer is NULL");
    *canAccessPeer = 1;
    return ACL_SUCCESS;
}

/* Sets whether the current device may touch the memory of the device `peer`. */
static aclError set_peer(int32_t peer, bool enabled, const char *name)
{
    ACL_HOLD_LOCK();
    ACL_NEED_CONTEXT(context);
    ACL_FAIL_IF(context->device == peer, ACL_ERROR_INVALID_PARAM, "%s: device %d is no peer of itself", name, peer);
    ACL_TRY(check_peer(name, peer));
    ACL_FAIL_IF(acl__rt.config.strict && acl__rt.peers[context->device][peer] == enabled, ACL_ERROR_RT_PARAM_INVALID,
                "%s: access to device %d is %s already", name, peer, enabled ? "enabled" : "disabled");
    acl__rt.peers[context->device][peer] = enabled;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags)
{
    ACL_ENTER(aclrtDeviceEnablePeerAccess);
    ACL_REFUSE_IF(flags != 0, ACL_ERROR_FEATURE_UNSUPPORTED, "flags must be 0");
    return set_peer(peerDeviceId, true, __func__);
}

ACL_EXPORT aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId)
{
    ACL_ENTER(aclrtDeviceDisablePeerAccess);
    return set_peer(peerDeviceId, false, __func__);
}

/* Stores 1 if the first device may touch the second device's memory, else 0. */
ACL_EXPORT aclError aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId, int32_t *status)
{
    ACL_ENTER_LOCKED(aclrtDevicePeerAccessStatus);
    ACL_NEED(status);
    ACL_TRY(check_device(__func__, deviceId));
    ACL_TRY(check_device(__func__, peerDeviceId));
    *status = acl__rt.peers[deviceId][peerDeviceId];
    return ACL_SUCCESS;
}

/* --- keys --- */

enum { KEY_BYTES = 65 };
#define KEY_START "weir-ascendcl-"
#define KEY_FORMAT KEY_START "%d-"
#define FOREIGN_FORMAT "%llx-%llx-%llx" /* number of the memory, first page in it, number of the key */

struct shared {
    struct shared *next;
    uint64_t address; /* of the import: of the whole allocation or handle, in which the key's memory lies */
    uint64_t size;
    uint64_t offset;    /* of the import: from there to the key's memory */
    uint64_t shareable; /* where processes share the devices: names the memory in all of them; else 0 */
    uint32_t imports;
    bool open_to_all;
    bool is_foreign; /* an import of another process's key */
    char key[KEY_BYTES];
};

static struct shared *first_shared;
static uint64_t last_key;

static struct shared **shared_link(const char *key)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(key != NULL);
    struct shared **link = &first_shared;
    while (*link != NULL && strncmp((*link)->key, key, KEY_BYTES) != 0) {
        link = &(*link)->next;
    }
    return link;
}

/* A key contains the number of the exporting process. */
static aclError no_key(const char *key, const char *name)
{
    char own[KEY_BYTES];
    const int length = snprintf(own, sizeof(own), KEY_FORMAT, (int)getpid());
    const bool is_foreign =
        strncmp(key, KEY_START, sizeof(KEY_START) - 1) == 0 && strncmp(key, own, (size_t)length) != 0;
    ACL_FAIL_IF(is_foreign && acl__rt.config.shared == NULL, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "%s: the key is of another process, with which this one shares no devices (WEIR_ASCENDCL_SHARED)",
                name);
    return acl__fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%s: the key names nothing that this process shares", name);
}

/* True if [address, address + size) lies in one range of device memory. */
static bool is_there(uint64_t address, uint64_t size)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const acl__range *range = acl__range_at(&acl__rt.device_memory, (const void *)(uintptr_t)address);
    return range != NULL && range->range.end - address >= size;
}

static bool starts_a_page(uint64_t address)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const acl__range *range = acl__range_at(&acl__rt.device_memory, (const void *)(uintptr_t)address);
    return address % (range->huge ? ACL__HUGE_PAGE : ACL__NORMAL_PAGE) == 0;
}

/* Writes the key of memory. Where processes share the devices, it says where others find the memory. */
static aclError name_key(struct shared *s)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__range *range = acl__range_at(&acl__rt.device_memory, (const void *)(uintptr_t)s->address);
    if (acl__rt.config.shared == NULL) {
        (void)snprintf(s->key, sizeof(s->key), KEY_FORMAT "%llu", (int)getpid(), (unsigned long long)++last_key);
        return ACL_SUCCESS;
    }
    ACL_FAIL_IF(range->kind == ACL__POOLED, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "memory of an aclrtMemPool is not exported to other processes");
    ACL_TRY(range->kind == ACL__ALLOCATED ? acl__memory_export(range, &s->shareable)
                                          : acl__virtual_export(range, &s->shareable));
    ACL_TRY(s->open_to_all ? acl__admit(s->shareable, NULL, 0, "export") : ACL_SUCCESS);
    (void)snprintf(s->key, sizeof(s->key), KEY_FORMAT FOREIGN_FORMAT, (int)getpid(), (unsigned long long)s->shareable,
                   (unsigned long long)(s->address - range->range.start) / ACL__NORMAL_PAGE,
                   (unsigned long long)++last_key);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtIpcMemGetExportKey(void *devPtr, size_t size, char *key, size_t len, uint64_t flags)
{
    ACL_ENTER_LOCKED(aclrtIpcMemGetExportKey);
    ACL_NEED(devPtr);
    ACL_NEED(key);
    ACL_REFUSE_IF(len < KEY_BYTES, ACL_ERROR_RT_PARAM_INVALID, "a key takes 65 bytes");
    ACL_REFUSE_IF(flags > ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION, ACL_ERROR_RT_PARAM_INVALID,
                  "flags must be 0 or 1");
    const uint64_t address = (uintptr_t)devPtr;
    const bool open_to_all = flags != 0;
    ACL_REFUSE_IF(size == 0, ACL_ERROR_RT_PARAM_INVALID, "the size is 0");
    ACL_REFUSE_IF(!is_there(address, size) || !starts_a_page(address), ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                  "%llu bytes at %#llx are no whole pages of device memory", (unsigned long long)size,
                  (unsigned long long)address);
    struct shared *s = calloc(1, sizeof(*s));
    ACL_REFUSE_IF(s == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory");
    s->address = address;
    s->size = size;
    s->open_to_all = open_to_all;
    const aclError error = name_key(s);
    if (error != ACL_SUCCESS) {
        free(s);
        return error;
    }
    s->next = first_shared;
    first_shared = s;
    memcpy(key, s->key, sizeof(s->key));
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtIpcMemSetImportPid(const char *key, int32_t *pid, size_t num)
{
    ACL_ENTER_LOCKED(aclrtIpcMemSetImportPid);
    ACL_NEED(key);
    ACL_NEED(pid);
    ACL_REFUSE_IF(num == 0, ACL_ERROR_RT_PARAM_INVALID, "num is 0");
    const struct shared *s = *shared_link(key);
    if (s == NULL) {
        return no_key(key, __func__);
    }
    ACL_REFUSE_IF(s->open_to_all, ACL_ERROR_RT_NO_PERMISSION, "the key was made for all processes");
    bool any = false;
    for (size_t i = 0; i < num; i++) {
        any = any || (pid[i] != 0 && pid[i] != (int32_t)getpid());
    }
    ACL_REFUSE_IF(!any, ACL_ERROR_RT_DRV_INTERNAL_ERROR, "no other process is named");
    return s->shareable != 0 ? acl__admit(s->shareable, pid, num, __func__) : ACL_SUCCESS;
}

/* Gives the importer, which is the current context's device, access to the memory's device. */
static void open_to_importer(uint64_t address)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const acl__context *context = acl__context_current();
    const acl__range *range = acl__range_at(&acl__rt.device_memory, (const void *)(uintptr_t)address);
    if (context != NULL && range != NULL) {
        acl__rt.peers[context->device][range->device] = true;
    }
}

/* Imports memory of another process by its key. */
static aclError import_foreign(const char *key, const char *name, struct shared **out)
{
    WEIR_ASSERT_HELD(acl__mutex());
    int process = 0;
    unsigned long long shareable = 0;
    unsigned long long page = 0;
    unsigned long long number = 0;
    const bool is_key = acl__rt.config.shared != NULL &&
                        sscanf(key, KEY_FORMAT FOREIGN_FORMAT, &process, &shareable, &page, &number) == 4 &&
                        process != (int)getpid();
    struct shared *s = is_key ? calloc(1, sizeof(*s)) : NULL;
    if (s == NULL) {
        return no_key(key, name);
    }
    const aclError error = acl__virtual_open(shareable, name, &s->address);
    if (error != ACL_SUCCESS) {
        free(s);
        return error;
    }
    s->size = ACL__NORMAL_PAGE;
    s->offset = page * ACL__NORMAL_PAGE;
    s->open_to_all = true;
    s->is_foreign = true;
    (void)snprintf(s->key, sizeof(s->key), "%s", key);
    s->next = first_shared;
    first_shared = s;
    *out = s;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtIpcMemImportByKey(void **devPtr, const char *key, uint64_t flags)
{
    ACL_ENTER_LOCKED(aclrtIpcMemImportByKey);
    ACL_NEED(devPtr);
    ACL_NEED(key);
    ACL_REFUSE_IF(flags > ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS, ACL_ERROR_RT_PARAM_INVALID,
                  "flags must be 0 or 1");
    const bool enable_access = flags == ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS;
    struct shared *s = *shared_link(key);
    if (s == NULL) {
        ACL_TRY(import_foreign(key, __func__, &s));
    }
    if (!is_there(s->address, s->size)) {
        return no_key(key, __func__);
    }
    ACL_REFUSE_IF(!s->open_to_all, ACL_ERROR_RT_DRV_INTERNAL_ERROR, "the exporter cannot import its own memory");
    if (enable_access) {
        open_to_importer(s->address);
    }
    s->imports++;
    *devPtr = (void *)(uintptr_t)(s->address + s->offset);
    return ACL_SUCCESS;
}

/* A process closes a key once for each import, and once for its own export. */
ACL_EXPORT aclError aclrtIpcMemClose(const char *key)
{
    ACL_ENTER_LOCKED(aclrtIpcMemClose);
    ACL_NEED(key);
    struct shared **link = shared_link(key);
    struct shared *s = *link;
    if (s != NULL && s->imports > (s->is_foreign ? 1 : 0)) {
        s->imports--;
    } else if (s != NULL) {
        ACL_TRY(s->is_foreign ? acl__virtual_close(s->address) : ACL_SUCCESS);
        *link = s->next;
        free(s);
    }
    return s != NULL ? ACL_SUCCESS : no_key(key, __func__);
}

ACL_EXPORT aclError aclrtDeviceGetBareTgid(int32_t *pid)
{
    ACL_ENTER(aclrtDeviceGetBareTgid);
    ACL_NEED(pid);
    *pid = (int32_t)getpid();
    return ACL_SUCCESS;
}

/* --- managed memory --- */

ACL_EXPORT aclError aclrtMemAllocManaged(void **ptr, uint64_t size, uint32_t flag)
{
    ACL_ENTER(aclrtMemAllocManaged);
    (void)size;
    ACL_NEED(ptr);
    ACL_REFUSE_IF(flag != ACL_RT_MEM_ATTACH_GLOBAL, ACL_ERROR_INVALID_PARAM,
                  "the flag must be ACL_RT_MEM_ATTACH_GLOBAL");
    return acl__not_simulated(ACL_FN_aclrtMemAllocManaged);
}
