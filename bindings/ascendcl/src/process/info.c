/* info.c: facts about the devices, and streams made by a configuration.
 *
 * Every device is one Ascend910B3 with the configured amount of memory: programs read the values of that device, for
 * example its number of cores. For facts that the device does not have, or that the simulator does not model, a query
 * returns ACL_ERROR_RT_FEATURE_NOT_SUPPORT.
 */
#include "process/process.h"

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
    ACL_ENTER_OR(aclrtGetSocName, SOC_NAME); /* never NULL: callers compare the name without checking it */
    return SOC_NAME;
}

ACL_EXPORT aclError aclrtGetRunMode(aclrtRunMode *runMode)
{
    ACL_ENTER(aclrtGetRunMode);
    ACL_NEED(runMode);
    *runMode = ACL_HOST;
    return ACL_SUCCESS;
}

static aclError answer(int64_t *value, int64_t fact)
{
    *value = fact;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t *value)
{
    ACL_ENTER(aclrtGetDeviceInfo);
    ACL_NEED(value);
    ACL_TRY(check_device(deviceId, ACL_ERROR_RT_PARAM_INVALID, __func__));
    switch ((int)attr) {
    case ACL_DEV_ATTR_AICPU_CORE_NUM:
        return answer(value, AICPU_CORES);
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
    case ACL_DEV_ATTR_CUBE_CORE_NUM:
        return answer(value, CUBE_CORES);
    case ACL_DEV_ATTR_VECTOR_CORE_NUM:
        return answer(value, VECTOR_CORES);
    case ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE:
        return answer(value, UNIFIED_BUFFER_BYTES);
    case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
        return answer(value, (int64_t)acl__rt.config.capacity_bytes);
    case ACL_DEV_ATTR_L2_CACHE_SIZE:
        return answer(value, L2_BYTES);
    case ACL_DEV_ATTR_PHY_CHIP_ID:
        return answer(value, deviceId);
    case ACL_DEV_ATTR_SMP_ID:
    case ACL_DEV_ATTR_CUST_OP_PRIVILEGE:
    case ACL_DEV_ATTR_IS_VIRTUAL:
        return answer(value, 0);
    case ACL_DEV_ATTR_NPU_ARCH:
        return answer(value, NPU_ARCH);
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

ACL_EXPORT aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t *value)
{
    ACL_ENTER(aclGetDeviceCapability);
    ACL_NEED(value);
    ACL_TRY(check_device(deviceId, ACL_ERROR_INVALID_PARAM, __func__));
    switch ((int)deviceInfo) {
    case ACL_DEVICE_INFO_AI_CORE_NUM:
        return answer(value, CUBE_CORES);
    case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
        return answer(value, VECTOR_CORES);
    case ACL_DEVICE_INFO_L2_SIZE:
        return answer(value, L2_BYTES);
    default:
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclGetDeviceCapability: there is no fact %d", (int)deviceInfo);
    }
}

/* Answers no for every feature: the device has none of them. */
ACL_EXPORT aclError aclrtGetDeviceCapability(int32_t deviceId, aclrtDevFeatureType devFeatureType, int32_t *value)
{
    ACL_ENTER(aclrtGetDeviceCapability);
    ACL_NEED(value);
    ACL_TRY(check_device(deviceId, ACL_ERROR_RT_INVALID_DEVICEID, __func__));
    ACL_REFUSE_IF(devFeatureType != ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV &&
                      devFeatureType != ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV,
                  ACL_ERROR_RT_PARAM_INVALID, "there is no feature %d", (int)devFeatureType);
    *value = ACL_DEV_FEATURE_NOT_SUPPORT;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags, int32_t *active)
{
    ACL_ENTER_LOCKED(aclrtGetPrimaryCtxState);
    ACL_NEED(active);
    ACL_REFUSE_IF(flags != NULL, ACL_ERROR_INVALID_PARAM, "flags must be NULL");
    ACL_TRY(check_device(deviceId, ACL_ERROR_RT_INVALID_DEVICEID, __func__));
    *active = acl__rt.devices[deviceId].references > 0;
    return ACL_SUCCESS;
}

/* Reports one entry: all memory of the device that the program and the runtime hold. */
ACL_EXPORT aclError aclrtGetMemUsageInfo(int32_t deviceId, aclrtMemUsageInfo *memUsageInfo, size_t inputNum,
                                         size_t *outputNum)
{
    ACL_ENTER_LOCKED(aclrtGetMemUsageInfo);
    ACL_NEED(memUsageInfo);
    ACL_NEED(outputNum);
    ACL_REFUSE_IF(inputNum == 0, ACL_ERROR_RT_PARAM_INVALID, "inputNum is 0");
    ACL_TRY(check_device(deviceId, ACL_ERROR_RT_INVALID_DEVICEID, __func__));
    const acl__device *device = &acl__rt.devices[deviceId];
    *memUsageInfo = (aclrtMemUsageInfo){.name = "APP",
                                        .curMemSize = device->held_huge_bytes + device->held_normal_bytes,
                                        .memPeakSize = device->peak_bytes};
    *outputNum = 1;
    return ACL_SUCCESS;
}

/* The simulated memory has no uncorrectable errors. */
ACL_EXPORT aclError aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize,
                                       size_t *retSize)
{
    ACL_ENTER(aclrtGetMemUceInfo);
    (void)arraySize;
    ACL_NEED(memUceInfoArray);
    ACL_NEED(retSize);
    ACL_TRY(check_device(deviceId, ACL_ERROR_RT_INVALID_DEVICEID, __func__));
    *retSize = 0;
    return ACL_SUCCESS;
}

/* Defines the public function that turns one of a device's three numbers into another. The three are equal: no device
 * is hidden from the process or renumbered. */
#define SAME_ID(name)                                                                                                  \
    ACL_EXPORT aclError name(int32_t id, int32_t *other)                                                               \
    {                                                                                                                  \
        ACL_ENTER(name);                                                                                               \
        ACL_REFUSE_IF(other == NULL, ACL_ERROR_INVALID_PARAM, "the output is NULL");                                   \
        ACL_TRY(check_device(id, ACL_ERROR_RT_INVALID_DEVICEID, __func__));                                            \
        *other = id;                                                                                                   \
        return ACL_SUCCESS;                                                                                            \
    }
SAME_ID(aclrtGetLogicDevIdByUserDevId)
SAME_ID(aclrtGetUserDevIdByLogicDevId)
SAME_ID(aclrtGetLogicDevIdByPhyDevId)
SAME_ID(aclrtGetPhyDevIdByLogicDevId)
SAME_ID(aclrtGetUserDevIdByPhyDevId)
SAME_ID(aclrtGetPhyDevIdByUserDevId)

/* --- PCI --- */

enum { BUS_ID_BYTES = 13 }; /* "0000:c1:00.0" with its NUL */

/* Writes the device's PCI bus id, from the configured list of bus ids. Returns false if the device is not on PCI. */
static bool bus_id_of(int32_t device, char text[BUS_ID_BYTES])
{
    const char *at = acl__rt.config.bus_ids;
    for (int32_t i = 0; i < device && at != NULL; i++) {
        at = strchr(at, ',');
        at = at != NULL ? at + 1 : NULL;
    }
    const size_t length = at != NULL ? strcspn(at, ",") : 0;
    if (length != BUS_ID_BYTES - 1) {
        return false;
    }
    memcpy(text, at, length);
    text[length] = '\0';
    return true;
}

ACL_EXPORT aclError aclrtDeviceGetPCIBusId(int32_t deviceId, char *pciBusId, int32_t len)
{
    ACL_ENTER(aclrtDeviceGetPCIBusId);
    ACL_NEED(pciBusId);
    char text[BUS_ID_BYTES];
    ACL_REFUSE_IF(deviceId >= 0 && len < BUS_ID_BYTES, ACL_ERROR_RT_PARAM_INVALID, "%d bytes are too few for a bus id",
                  len);
    ACL_TRY(check_device(deviceId, ACL_ERROR_RT_INVALID_DEVICEID, __func__));
    ACL_REFUSE_IF(!bus_id_of(deviceId, text), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "device %d is not on PCI", deviceId);
    memcpy(pciBusId, text, sizeof(text));
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtDeviceGetByPCIBusId(const char *pciBusId, int32_t *deviceId)
{
    ACL_ENTER(aclrtDeviceGetByPCIBusId);
    ACL_NEED(pciBusId);
    ACL_NEED(deviceId);
    for (int32_t device = 0; device < (int32_t)acl__rt.config.devices; device++) {
        char text[BUS_ID_BYTES];
        if (bus_id_of(device, text) && strcmp(pciBusId, text) == 0) {
            *deviceId = device;
            return ACL_SUCCESS;
        }
    }
    return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: no device is at \"%s\"", __func__, pciBusId);
}

ACL_EXPORT aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus *deviceStatus)
{
    ACL_ENTER(aclrtQueryDeviceStatus);
    ACL_NEED(deviceStatus);
    ACL_TRY(check_device(deviceId, ACL_ERROR_RT_INVALID_DEVICEID, __func__));
    *deviceStatus = ACL_RT_DEVICE_STATUS_NORMAL;
    return ACL_SUCCESS;
}

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
    ACL_ENTER_LOCKED(aclrtGetDeviceUtilizationRate);
    ACL_REFUSE_IF(utilizationInfo == NULL || utilizationInfo->utilizationExtend != NULL, ACL_ERROR_INVALID_PARAM,
                  "utilizationInfo must not be NULL, its utilizationExtend must");
    ACL_TRY(check_device(deviceId, ACL_ERROR_RT_INVALID_DEVICEID, __func__));
    const int32_t percent = is_busy(deviceId) ? BUSY_PERCENT : 0;
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
    ACL_ENTER_LOCKED(aclrtGetDeviceResLimit);
    ACL_NEED(value);
    ACL_TRY(check_limit(type, __func__));
    ACL_TRY(check_device(deviceId, ACL_ERROR_RT_INVALID_DEVICEID, __func__));
    *value = limit_of(deviceId, type);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value)
{
    ACL_ENTER_LOCKED(aclrtSetDeviceResLimit);
    ACL_TRY(check_limit(type, __func__));
    ACL_TRY(check_device(deviceId, ACL_ERROR_RT_INVALID_DEVICEID, __func__));
    ACL_REFUSE_IF(value > most_of(type), ACL_ERROR_RT_PARAM_INVALID, "a device has %u such cores, not %u",
                  most_of(type), value);
    limits[deviceId][type].is_set = true;
    limits[deviceId][type].value = value;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtResetDeviceResLimit(int32_t deviceId)
{
    ACL_ENTER_LOCKED(aclrtResetDeviceResLimit);
    ACL_TRY(check_device(deviceId, ACL_ERROR_RT_INVALID_DEVICEID, __func__));
    memset(limits[deviceId], 0, sizeof(limits[deviceId]));
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value)
{
    ACL_ENTER_LOCKED(aclrtGetResInCurrentThread);
    ACL_NEED(value);
    ACL_TRY(check_limit(type, __func__));
    ACL_NEED_CONTEXT(context);
    *value = limit_of(context->device, type);
    return ACL_SUCCESS;
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
    ACL_NEED(handle);
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
    ACL_REFUSE_IF(handle == NULL || attrValue == NULL, ACL_ERROR_INVALID_PARAM, "handle or attrValue is NULL");
    size_t bytes = 0;
    void *kept = attribute(handle, attr, &bytes);
    /* The vendor's code takes eight bytes for flags; its example passes four, the size of flags everywhere else. */
    const bool is_short = attr == ACL_RT_STREAM_FLAG && valueSize == sizeof(uint32_t);
    ACL_REFUSE_IF(kept == NULL || (valueSize != bytes && !is_short), ACL_ERROR_INVALID_PARAM,
                  "there is no attribute %d of %zu bytes", (int)attr, valueSize);
    uint32_t priority = 0;
    if (attr == ACL_RT_STREAM_PRIORITY) {
        memcpy(&priority, attrValue, sizeof(priority));
    }
    ACL_REFUSE_IF(priority > LEAST_PRIORITY, ACL_ERROR_INVALID_PARAM, "priority %u is not in 0 to %d", priority,
                  (int)LEAST_PRIORITY);
    memset(kept, 0, bytes);
    memcpy(kept, attrValue, valueSize); /* little-endian: the low bytes come first */
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtCreateStreamV2(aclrtStream *stream, const aclrtStreamConfigHandle *handle)
{
    ACL_ENTER(aclrtCreateStreamV2);
    const uint64_t flags = handle != NULL ? handle->flag : 0;
    ACL_REFUSE_IF(flags > UINT32_MAX, ACL_ERROR_INVALID_PARAM, "0x%llx are no flags of a stream",
                  (unsigned long long)flags);
    return acl__stream_create_with(stream, handle != NULL ? handle->priority : 0, (uint32_t)flags, __func__);
}

/* Drops all work of the stream; the next wait returns an error. The vendor's function drops only the running task: a
 * clean-up function, which the simulated runtime does not have, drops the rest. */
ACL_EXPORT aclError aclrtStreamStop(aclrtStream handle)
{
    ACL_ENTER_LOCKED(aclrtStreamStop);
    ACL_REFUSE_IF(handle == NULL, ACL_ERROR_RT_PARAM_INVALID, "the default stream cannot be stopped");
    acl__stream *stream = NULL;
    ACL_TRY(acl__stream_any(handle, &stream));
    acl__stream_drop(stream);
    stream->error = ACL_ERROR_RT_INTERNAL_ERROR;
    return ACL_SUCCESS;
}
