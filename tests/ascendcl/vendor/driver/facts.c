/* facts.c: two devices of the kind 910B3: opening them, facts, and numbers of streams, events and notifies. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- devices --- */

hal_error halDeviceOpen(uint32_t device, void *in, void *out)
{
    (void)in;
    (void)out;
    return device < DRIVER_DEVICES ? HAL_OK : HAL_INVALID_VALUE;
}

/* Also frees the memory of the device that the program has not freed. */
hal_error halDeviceClose(uint32_t device, void *in)
{
    (void)in;
    if (device >= DRIVER_DEVICES) {
        return HAL_INVALID_VALUE;
    }
    DRIVER_HOLD_LOCK();
    driver_memory_end(device);
    return HAL_OK;
}

hal_error drvMemSmmuQuery(uint32_t device, uint32_t *address_space)
{
    *address_space = 0;
    return device < DRIVER_DEVICES ? HAL_OK : HAL_INVALID_VALUE;
}

int drvDeviceGetBareTgid(void)
{
    return getpid();
}

/* Every device reaches the memory of the other device, because both are memory of the process. */
hal_error halDeviceCanAccessPeer(int *can, uint32_t device, uint32_t peer)
{
    *can = device != peer;
    return device < DRIVER_DEVICES && peer < DRIVER_DEVICES ? HAL_OK : HAL_INVALID_VALUE;
}

hal_error halDeviceEnableP2P(uint32_t device, uint32_t peer, uint32_t flag)
{
    int can = 0;
    (void)flag;
    return halDeviceCanAccessPeer(&can, device, peer);
}

hal_error halDeviceDisableP2P(uint32_t device, uint32_t peer, uint32_t flag)
{
    return halDeviceEnableP2P(device, peer, flag);
}

/* --- facts --- */

hal_error drvGetPlatformInfo(uint32_t *is_host)
{
    *is_host = 1;
    return HAL_OK;
}

hal_error drvGetDevNum(uint32_t *count)
{
    *count = DRIVER_DEVICES;
    return HAL_OK;
}

hal_error halGetDevNumEx(uint32_t kind, uint32_t *count)
{
    (void)kind;
    return drvGetDevNum(count);
}

hal_error drvGetDevIDs(uint32_t *devices, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        devices[i] = i;
    }
    return HAL_OK;
}

hal_error drvDeviceGetPhyIdByIndex(uint32_t index, uint32_t *physical)
{
    *physical = index;
    return index < DRIVER_DEVICES ? HAL_OK : HAL_INVALID_VALUE;
}

hal_error drvDeviceGetIndexByPhyId(uint32_t physical, uint32_t *index)
{
    return drvDeviceGetPhyIdByIndex(physical, index);
}

hal_error drvDeviceStatus(uint32_t device, int *status)
{
    enum { WORKING = 1 }; /* BASE: DRV_STATUS_WORK */
    *status = WORKING;
    return device < DRIVER_DEVICES ? HAL_OK : HAL_INVALID_VALUE;
}

hal_error halGetAPIVersion(int *version)
{
    *version = 0x072419; /* BASE: __HAL_API_VERSION */
    return HAL_OK;
}

hal_error halGetSocVersion(uint32_t device, char *text, uint32_t size)
{
    (void)device;
    (void)text;
    (void)size;
    return HAL_NOT_SUPPORTED; /* the runtime then takes the version from halGetDeviceInfo */
}

hal_error halGetDeviceInfo(uint32_t device, int32_t module, int32_t fact, int64_t *value)
{
    enum { CHIP_910B = 5 << 8, REVISION_3 = 3 };
    (void)device;
    *value = 0; /* other facts */
    if (module == HAL_MODULE_SYSTEM && fact == HAL_FACT_VERSION) {
        *value = CHIP_910B | REVISION_3;
    } else if (fact == HAL_FACT_CORES) {
        *value = module == HAL_MODULE_SYSTEM   ? 1
                 : module == HAL_MODULE_CUBE   ? 20
                 : module == HAL_MODULE_VECTOR ? 40
                 : module == HAL_MODULE_AICPU  ? 6
                                               : 0;
    }
    return HAL_OK;
}

/* The features of the public driver. WEIR_DRIVER_FEATURES=0: an old driver, which announces none. */
bool halSupportFeature(uint32_t device, int feature)
{
    (void)device;
    const char *text = getenv("WEIR_DRIVER_FEATURES");
    return feature < HAL_FEATURE_HOST_PINNED && (text == NULL || strcmp(text, "0") != 0);
}

/* As the public driver answers for a 910B (halGetChipCapability). */
hal_error halGetChipCapability(uint32_t device, hal_capabilities *capabilities)
{
    (void)device;
    memset(capabilities, 0, sizeof(*capabilities));
    capabilities->reduce =
        HAL_REDUCE_FP32 | HAL_REDUCE_FP16 | HAL_REDUCE_INT16 | HAL_REDUCE_INT8 | HAL_REDUCE_INT32 | HAL_REDUCE_BF16;
    capabilities->reduce_kind = HAL_REDUCE_SUM | HAL_REDUCE_MAX | HAL_REDUCE_MIN;
    return HAL_OK;
}

/* --- numbers --- */

enum { MOST_IDS = 65536 };
static bool ids[DRIVER_DEVICES][HAL_ID_KINDS][MOST_IDS];

static uint32_t most_of(uint32_t kind)
{
    return kind == HAL_ID_EVENT ? MOST_IDS : kind == HAL_ID_NOTIFY ? 8192 : 2048;
}

static hal_error none_left(uint32_t kind)
{
    return kind == HAL_ID_STREAM ? HAL_NO_STREAMS : kind == HAL_ID_EVENT ? HAL_NO_EVENTS : HAL_NO_RESOURCES;
}

hal_error halResourceIdAlloc(uint32_t device, hal_id_in *in, hal_id_out *out)
{
    if (device >= DRIVER_DEVICES || in->kind >= HAL_ID_KINDS) {
        return HAL_INVALID_VALUE;
    }
    DRIVER_HOLD_LOCK();
    bool *taken = ids[device][in->kind];
    const bool given = (in->reserved[1] & HAL_ID_IS_GIVEN) != 0;
    uint32_t id = given ? in->id : 1;
    while (!given && id < most_of(in->kind) && taken[id]) {
        id++;
    }
    if (id >= most_of(in->kind)) {
        return given ? HAL_INVALID_VALUE : none_left(in->kind);
    }
    taken[id] = true;
    out->id = id;
    return HAL_OK;
}

hal_error halResourceIdFree(uint32_t device, hal_id_in *in)
{
    if (device >= DRIVER_DEVICES || in->kind >= HAL_ID_KINDS || in->id >= most_of(in->kind)) {
        return HAL_INVALID_VALUE;
    }
    DRIVER_HOLD_LOCK();
    ids[device][in->kind][in->id] = false;
    if (in->kind == HAL_ID_EVENT) {
        driver_event_set(device, in->id, false);
    }
    return HAL_OK;
}

/* Binds a stream to its queues, for the firmware. */
hal_error halResourceConfig(uint32_t device, hal_id_in *in, void *settings)
{
    (void)in;
    (void)settings;
    return device < DRIVER_DEVICES ? HAL_OK : HAL_INVALID_VALUE;
}

hal_error halResourceInfoQuery(uint32_t device, uint32_t scheduler, uint32_t kind, hal_id_figures *figures)
{
    (void)scheduler;
    if (device >= DRIVER_DEVICES || kind >= HAL_ID_KINDS) {
        return HAL_INVALID_VALUE;
    }
    DRIVER_HOLD_LOCK();
    figures->capacity = most_of(kind);
    figures->used = 0;
    for (uint32_t id = 0; id < most_of(kind); id++) {
        figures->used += ids[device][kind][id] ? 1 : 0;
    }
    return HAL_OK;
}
