/* tsd.c: libtsdclient.so, which starts processes on a device. There is no device: each function does nothing and
 * succeeds. The names and parameters are those of the vendor's public sources, pkg_inc/tsd/tsd_client.h. */
#include <stddef.h>
#include <stdint.h>

#define TSD_DOOR __attribute__((visibility("default"))) uint32_t

TSD_DOOR TsdOpen(uint32_t device, uint32_t ranks);
TSD_DOOR TsdOpenEx(uint32_t device, uint32_t ranks, uint32_t mode);
TSD_DOOR TsdOpenAicpuSd(uint32_t device);
TSD_DOOR TsdClose(uint32_t device);
TSD_DOOR TsdCloseEx(uint32_t device, uint32_t flag);
TSD_DOOR UpdateProfilingMode(uint32_t device, uint32_t flag);
TSD_DOOR TsdSetMsprofReporterCallback(void *callback);
TSD_DOOR TsdSetAttr(const char *name, const char *value);
TSD_DOOR TsdCapabilityGet(uint32_t device, int32_t kind, uint64_t result);
TSD_DOOR TsdInitQs(uint32_t device, const char *group);
TSD_DOOR TsdInitFlowGw(uint32_t device, const void *info);
TSD_DOOR TsdOpenNetService(uint32_t device, const void *arguments);
TSD_DOOR TsdCloseNetService(uint32_t device);
TSD_DOOR GetHdcConctStatus(uint32_t device, int32_t *status);

#define DOES_NOTHING(name, ...)                                                                                        \
    uint32_t name(__VA_ARGS__)                                                                                         \
    {                                                                                                                  \
        return 0;                                                                                                      \
    }
#pragma GCC diagnostic ignored "-Wunused-parameter"

DOES_NOTHING(TsdOpen, uint32_t device, uint32_t ranks)
DOES_NOTHING(TsdOpenEx, uint32_t device, uint32_t ranks, uint32_t mode)
DOES_NOTHING(TsdOpenAicpuSd, uint32_t device)
DOES_NOTHING(TsdClose, uint32_t device)
DOES_NOTHING(TsdCloseEx, uint32_t device, uint32_t flag)
DOES_NOTHING(UpdateProfilingMode, uint32_t device, uint32_t flag)
DOES_NOTHING(TsdSetMsprofReporterCallback, void *callback)
DOES_NOTHING(TsdSetAttr, const char *name, const char *value)
DOES_NOTHING(TsdCapabilityGet, uint32_t device, int32_t kind, uint64_t result)
DOES_NOTHING(TsdInitQs, uint32_t device, const char *group)
DOES_NOTHING(TsdInitFlowGw, uint32_t device, const void *info)
DOES_NOTHING(TsdOpenNetService, uint32_t device, const void *arguments)
DOES_NOTHING(TsdCloseNetService, uint32_t device)

uint32_t GetHdcConctStatus(uint32_t device, int32_t *status)
{
    enum { CONNECTED = 1 };
    (void)device;
    if (status != NULL) {
        *status = CONNECTED;
    }
    return 0;
}
