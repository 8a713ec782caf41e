/* info.c: facts about the devices, and streams made by a configuration.
 *
 * Every device is one Ascend910B3 with the configured amount of memory: programs read the same values here, the number
 * of cores for example, as on that device. Facts that the device does not have, or that the simulator does not model,
 * are ACL_ERROR_RT_FEATURE_NOT_SUPPORT.
 */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

#define SOC_NAME "Ascend910B3"

enum {
    CUBE_CORES = 20,
    VECTOR_CORES = 40,
    AICPU_CORES = 6,
    UNIFIED_BUFFER_BYTES = 192 << 10,
    L2_BYTES = 192 << 20,
    NPU_ARCH = 2201,
    LEAST_PRIORITY = 7,
    GREATEST_PRIORITY = 0,
    LIMITS = 2 /* kinds of aclrtDevResLimitType */
};

static aclError check_device(int64_t device, aclError code, const char *name)
{
    return device >= 0 && device < (int64_t)acl__rt.config.devices
               ? ACL_SUCCESS
               : acl__fail(code, "%s: there is no device %lld, only %u", name, (long long)device,
                           acl__rt.config.devices);
}

/* --- facts --- */

ACL_EXPORT const char *aclrtGetSocName(void)
{
    ACL_ENTER_OR(aclrtGetSocName, SOC_NAME); /* callers compare the result without checking it */
    return SOC_NAME;
}

ACL_EXPORT aclError aclrtGetRunMode(aclrtRunMode *runMode)
{
    ACL_ENTER(aclrtGetRunMode);
    if (runMode == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtGetRunMode: runMode is NULL");
    }
    *runMode = ACL_HOST;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t *value)
{
    ACL_ENTER(aclrtGetDeviceInfo);
    if (value == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtGetDeviceInfo: value is NULL");
    }
    const aclError error = check_device(deviceId, ACL_ERROR_RT_PARAM_INVALID, "aclrtGetDeviceInfo");
    if (error != ACL_SUCCESS) {
        return error;
    }
    switch ((int)attr) {
    case ACL_DEV_ATTR_AICPU_CORE_NUM:
        *value = AICPU_CORES;
        return ACL_SUCCESS;
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
    case ACL_DEV_ATTR_CUBE_CORE_NUM:
        *value = CUBE_CORES;
        return ACL_SUCCESS;
    case ACL_DEV_ATTR_VECTOR_CORE_NUM:
        *value = VECTOR_CORES;
        return ACL_SUCCESS;
    case ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE:
        *value = UNIFIED_BUFFER_BYTES;
        return ACL_SUCCESS;
    case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
        *value = (int64_t)acl__rt.config.capacity_bytes;
        return ACL_SUCCESS;
    case ACL_DEV_ATTR_L2_CACHE_SIZE:
        *value = L2_BYTES;
        return ACL_SUCCESS;
    case ACL_DEV_ATTR_PHY_CHIP_ID:
        *value = deviceId;
        return ACL_SUCCESS;
    case ACL_DEV_ATTR_SMP_ID:
    case ACL_DEV_ATTR_CUST_OP_PRIVILEGE:
    case ACL_DEV_ATTR_IS_VIRTUAL:
        *value = 0;
        return ACL_SUCCESS;
    case ACL_DEV_ATTR_NPU_ARCH:
        *value = NPU_ARCH;
        return ACL_SUCCESS;
    case ACL_DEV_ATTR_WARP_SIZE:
    case ACL_DEV_ATTR_MAX_THREAD_PER_VECTOR_CORE:
    case ACL_DEV_ATTR_MAX_GRID_DIM_X:
    case ACL_DEV_ATTR_MAX_GRID_DIM_Y:
    case ACL_DEV_ATTR_MAX_GRID_DIM_Z:
    case ACL_DEV_ATTR_MAX_BLOCK_PER_GRID:
    case ACL_DEV_ATTR_MAX_THREADS_PER_BLOCK:
    case ACL_DEV_ATTR_MAX_BLOCK_DIM_X:
    case ACL_DEV_ATTR_MAX_BLOCK_DIM_Y:
    case ACL_DEV_ATTR_MAX_BLOCK_DIM_Z:
    case ACL_DEV_ATTR_SUPER_POD_DEVICE_ID:
    case ACL_DEV_ATTR_SUPER_POD_SERVER_ID:
    case ACL_DEV_ATTR_SUPER_POD_ID:
    case ACL_DEV_ATTR_MAINBOARD_ID:
    case ACL_DEV_ATTR_HD_CONNECT_TYPE:
    case ACL_DEV_ATTR_DEVICE_FORM_FACTOR:
        return acl__fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "aclrtGetDeviceInfo: the simulated device has no attribute %d", (int)attr);
    default:
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtGetDeviceInfo: there is no attribute %d", (int)attr);
    }
}

/* The three numbers of a device are the same: no device is hidden from the process or renumbered. */
static aclError same_id(int32_t id, int32_t *other, const char *name)
{
    if (other == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "%s: the output is NULL", name);
    }
    const aclError error = check_device(id, ACL_ERROR_RT_INVALID_DEVICEID, name);
    if (error == ACL_SUCCESS) {
        *other = id;
    }
    return error;
}

ACL_EXPORT aclError aclrtGetLogicDevIdByUserDevId(int32_t userDevid, int32_t *logicDevId)
{
    ACL_ENTER(aclrtGetLogicDevIdByUserDevId);
    return same_id(userDevid, logicDevId, "aclrtGetLogicDevIdByUserDevId");
}

ACL_EXPORT aclError aclrtGetUserDevIdByLogicDevId(int32_t logicDevId, int32_t *userDevid)
{
    ACL_ENTER(aclrtGetUserDevIdByLogicDevId);
    return same_id(logicDevId, userDevid, "aclrtGetUserDevIdByLogicDevId");
}

ACL_EXPORT aclError aclrtGetLogicDevIdByPhyDevId(int32_t phyDevId, int32_t *logicDevId)
{
    ACL_ENTER(aclrtGetLogicDevIdByPhyDevId);
    return same_id(phyDevId, logicDevId, "aclrtGetLogicDevIdByPhyDevId");
}

ACL_EXPORT aclError aclrtGetPhyDevIdByLogicDevId(int32_t logicDevId, int32_t *phyDevId)
{
    ACL_ENTER(aclrtGetPhyDevIdByLogicDevId);
    return same_id(logicDevId, phyDevId, "aclrtGetPhyDevIdByLogicDevId");
}

ACL_EXPORT aclError aclrtGetUserDevIdByPhyDevId(int32_t phyDevId, int32_t *userDevId)
{
    ACL_ENTER(aclrtGetUserDevIdByPhyDevId);
    return same_id(phyDevId, userDevId, "aclrtGetUserDevIdByPhyDevId");
}

ACL_EXPORT aclError aclrtGetPhyDevIdByUserDevId(int32_t userDevId, int32_t *phyDevId)
{
    ACL_ENTER(aclrtGetPhyDevIdByUserDevId);
    return same_id(userDevId, phyDevId, "aclrtGetPhyDevIdByUserDevId");
}

ACL_EXPORT aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus *deviceStatus)
{
    ACL_ENTER(aclrtQueryDeviceStatus);
    if (deviceStatus == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtQueryDeviceStatus: deviceStatus is NULL");
    }
    const aclError error = check_device(deviceId, ACL_ERROR_RT_INVALID_DEVICEID, "aclrtQueryDeviceStatus");
    if (error == ACL_SUCCESS) {
        *deviceStatus = ACL_RT_DEVICE_STATUS_NORMAL;
    }
    return error;
}

/* True while work of the device is under way. */
static bool is_busy(int32_t device)
{
    const uint64_t now = weir_sim_now(acl__rt.sim);
    const acl__stream *stream = acl__rt.first_stream;
    while (stream != NULL &&
           (stream->context->device != device || weir_sim_stream_tail(acl__rt.sim, stream->sim) <= now)) {
        stream = stream->next;
    }
    return stream != NULL;
}

ACL_EXPORT aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo *utilizationInfo)
{
    enum { BUSY_PERCENT = 100, NOT_KNOWN = -1 };
    ACL_ENTER(aclrtGetDeviceUtilizationRate);
    if (utilizationInfo == NULL || utilizationInfo->utilizationExtend != NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM,
                         "aclrtGetDeviceUtilizationRate: utilizationInfo must not be NULL, its utilizationExtend must");
    }
    const aclError error = check_device(deviceId, ACL_ERROR_RT_INVALID_DEVICEID, "aclrtGetDeviceUtilizationRate");
    if (error != ACL_SUCCESS) {
        return error;
    }
    acl__lock();
    const int32_t percent = is_busy(deviceId) ? BUSY_PERCENT : 0;
    acl__unlock();
    utilizationInfo->cubeUtilization = percent;
    utilizationInfo->vectorUtilization = percent;
    utilizationInfo->aicpuUtilization = 0;
    utilizationInfo->memoryUtilization = NOT_KNOWN; /* as the vendor's */
    return ACL_SUCCESS;
}

/* --- limits: stored and returned, without effect --- */

static struct {
    bool is_set;
    uint32_t value;
} limits[ACL__DEVICES][LIMITS];

static uint32_t most_of(aclrtDevResLimitType type)
{
    return type == ACL_RT_DEV_RES_CUBE_CORE ? CUBE_CORES : VECTOR_CORES;
}

static uint32_t limit_of(int32_t device, aclrtDevResLimitType type)
{
    return limits[device][type].is_set ? limits[device][type].value : most_of(type);
}

static aclError check_limit(aclrtDevResLimitType type, const char *name)
{
    return (uint32_t)type < LIMITS
               ? ACL_SUCCESS
               : acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: there is no resource %d", name, (int)type);
}

ACL_EXPORT aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t *value)
{
    ACL_ENTER(aclrtGetDeviceResLimit);
    if (value == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtGetDeviceResLimit: value is NULL");
    }
    aclError error = check_limit(type, "aclrtGetDeviceResLimit");
    if (error == ACL_SUCCESS) {
        error = check_device(deviceId, ACL_ERROR_RT_INVALID_DEVICEID, "aclrtGetDeviceResLimit");
    }
    if (error == ACL_SUCCESS) {
        acl__lock();
        *value = limit_of(deviceId, type);
        acl__unlock();
    }
    return error;
}

ACL_EXPORT aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value)
{
    ACL_ENTER(aclrtSetDeviceResLimit);
    aclError error = check_limit(type, "aclrtSetDeviceResLimit");
    if (error == ACL_SUCCESS) {
        error = check_device(deviceId, ACL_ERROR_RT_INVALID_DEVICEID, "aclrtSetDeviceResLimit");
    }
    if (error != ACL_SUCCESS) {
        return error;
    }
    if (value > most_of(type)) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtSetDeviceResLimit: a device has %u such cores, not %u",
                         most_of(type), value);
    }
    acl__lock();
    limits[deviceId][type].is_set = true;
    limits[deviceId][type].value = value;
    acl__unlock();
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtResetDeviceResLimit(int32_t deviceId)
{
    ACL_ENTER(aclrtResetDeviceResLimit);
    const aclError error = check_device(deviceId, ACL_ERROR_RT_INVALID_DEVICEID, "aclrtResetDeviceResLimit");
    if (error == ACL_SUCCESS) {
        acl__lock();
        memset(limits[deviceId], 0, sizeof(limits[deviceId]));
        acl__unlock();
    }
    return error;
}

ACL_EXPORT aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value)
{
    ACL_ENTER(aclrtGetResInCurrentThread);
    if (value == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtGetResInCurrentThread: value is NULL");
    }
    aclError error = check_limit(type, "aclrtGetResInCurrentThread");
    if (error != ACL_SUCCESS) {
        return error;
    }
    acl__context *context = NULL;
    acl__lock();
    error = acl__context_need(&context);
    if (error == ACL_SUCCESS) {
        *value = limit_of(context->device, type);
    }
    acl__unlock();
    return error;
}

/* --- streams by a configuration --- */

ACL_EXPORT aclError aclrtDeviceGetStreamPriorityRange(int32_t *leastPriority, int32_t *greatestPriority)
{
    ACL_ENTER(aclrtDeviceGetStreamPriorityRange);
    if (leastPriority != NULL) {
        *leastPriority = LEAST_PRIORITY;
    }
    if (greatestPriority != NULL) {
        *greatestPriority = GREATEST_PRIORITY;
    }
    return ACL_SUCCESS;
}

ACL_EXPORT aclrtStreamConfigHandle *aclrtCreateStreamConfigHandle(void)
{
    ACL_ENTER_OR(aclrtCreateStreamConfigHandle, NULL);
    aclrtStreamConfigHandle *handle = calloc(1, sizeof(*handle));
    if (handle == NULL) {
        (void)acl__fail(ACL_ERROR_BAD_ALLOC, "aclrtCreateStreamConfigHandle: no host memory");
    }
    return handle;
}

ACL_EXPORT aclError aclrtDestroyStreamConfigHandle(aclrtStreamConfigHandle *handle)
{
    ACL_ENTER(aclrtDestroyStreamConfigHandle);
    if (handle == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtDestroyStreamConfigHandle: handle is NULL");
    }
    free(handle);
    return ACL_SUCCESS;
}

/* Returns the storage of an attribute and its size, or NULL if there is no such attribute. */
static void *attribute(aclrtStreamConfigHandle *handle, aclrtStreamConfigAttr attr, size_t *bytes)
{
    switch ((int)attr) {
    case ACL_RT_STREAM_WORK_ADDR_PTR:
        *bytes = sizeof(handle->workptr);
        return &handle->workptr;
    case ACL_RT_STREAM_WORK_SIZE:
        *bytes = sizeof(handle->workSize);
        return &handle->workSize;
    case ACL_RT_STREAM_FLAG:
        *bytes = sizeof(handle->flag);
        return &handle->flag;
    case ACL_RT_STREAM_PRIORITY:
        *bytes = sizeof(handle->priority);
        return &handle->priority;
    default:
        return NULL;
    }
}

ACL_EXPORT aclError aclrtSetStreamConfigOpt(aclrtStreamConfigHandle *handle, aclrtStreamConfigAttr attr,
                                            const void *attrValue, size_t valueSize)
{
    ACL_ENTER(aclrtSetStreamConfigOpt);
    if (handle == NULL || attrValue == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtSetStreamConfigOpt: handle or attrValue is NULL");
    }
    size_t bytes = 0;
    void *kept = attribute(handle, attr, &bytes);
    /* The vendor's code takes eight bytes for flags; its example passes four, the size of flags everywhere else. */
    const bool is_short = attr == ACL_RT_STREAM_FLAG && valueSize == sizeof(uint32_t);
    if (kept == NULL || (valueSize != bytes && !is_short)) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtSetStreamConfigOpt: there is no attribute %d of %zu bytes",
                         (int)attr, valueSize);
    }
    uint32_t priority = 0;
    if (attr == ACL_RT_STREAM_PRIORITY) {
        memcpy(&priority, attrValue, sizeof(priority));
    }
    if (priority > LEAST_PRIORITY) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtSetStreamConfigOpt: priority %u is not in 0 to %d", priority,
                         (int)LEAST_PRIORITY);
    }
    memset(kept, 0, bytes);
    memcpy(kept, attrValue, valueSize); /* little-endian: the low bytes come first */
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtCreateStreamV2(aclrtStream *stream, const aclrtStreamConfigHandle *handle)
{
    ACL_ENTER(aclrtCreateStreamV2);
    const uint64_t flags = handle != NULL ? handle->flag : 0;
    if (flags > UINT32_MAX) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtCreateStreamV2: 0x%llx are no flags of a stream",
                         (unsigned long long)flags);
    }
    return acl__stream_create_with(stream, handle != NULL ? handle->priority : 0, (uint32_t)flags,
                                   "aclrtCreateStreamV2");
}

/* Drops the stream's work; the next wait returns an error. The vendor's function keeps the tasks behind the running
 * one, for a clean-up function that is not offered here; this one drops them too. */
ACL_EXPORT aclError aclrtStreamStop(aclrtStream handle)
{
    ACL_ENTER(aclrtStreamStop);
    if (handle == NULL) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtStreamStop: the default stream cannot be stopped");
    }
    acl__stream *stream = NULL;
    acl__lock();
    const aclError error = acl__stream_any(handle, &stream);
    if (error == ACL_SUCCESS) {
        acl__stream_drop(stream);
        stream->error = ACL_ERROR_RT_INTERNAL_ERROR;
    }
    acl__unlock();
    return error;
}
