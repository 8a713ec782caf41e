/* fake_process.c: the double's machine: devices, contexts of threads, faults, findings of the auditors. */
#include "fake_internal.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STACK = 16 };

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
struct fake_device fake_devices[FAKE_CUDA_DEVICES];
unsigned fake_lacks;

static bool started; /* guarded by the lock, like the following variables */
static bool initialized;
static bool report_at_end;
static struct {
    char function[48]; /* name of the failing function; "": any */
    unsigned nth;      /* number of the first call that fails; 0: none */
    unsigned count;    /* how many calls fail */
    CUresult code;
    bool come;
    unsigned calls;
} fault;
static unsigned all_calls;

static _Thread_local CUcontext stack[STACK];
static _Thread_local unsigned depth;

/* --- the machine --- */

static void end_locked(void)
{
    for (int i = 0; i < FAKE_CUDA_DEVICES && started; i++) {
        if (weir_sim_destroy(fake_devices[i].sim) != WEIR_OK) {
            abort();
        }
        free(fake_devices[i].primary);
        fake_devices[i] = (struct fake_device){0};
    }
    started = false;
}

static void start_locked(uint64_t capacity, unsigned lacks)
{
    for (int i = 0; i < FAKE_CUDA_DEVICES; i++) {
        weir_sim_config config = WEIR_SIM_CONFIG_INIT;
        config.mode = WEIR_SIM_BACKED;
        config.capacity_bytes = capacity;
        config.direct_access = true;
        if (weir_sim_create(&config, &fake_devices[i].sim) != WEIR_OK) {
            (void)fputs("fake cuda: the simulator cannot be made\n", stderr);
            abort();
        }
        fake_devices[i].device = weir_sim_device(fake_devices[i].sim);
    }
    fake_lacks = lacks;
    started = true;
}

static unsigned read_lacks(void)
{
    static const char *const words[] = {"fabric",  "permission", "file", "rdma", "nic",
                                        "virtual", "version",    "gpu",  "page"};
    const char *text = getenv("FAKE_CUDA_LACKS");
    unsigned lacks = 0;
    for (unsigned i = 0; text != NULL && i < sizeof(words) / sizeof(words[0]); i++) {
        lacks |= strstr(text, words[i]) != NULL ? 1u << i : 0;
    }
    return lacks;
}

static void start_by_environment_locked(void)
{
    if (!started) {
        const char *capacity = getenv("FAKE_CUDA_CAPACITY");
        const char *report = getenv("FAKE_CUDA_REPORT");
        report_at_end = report != NULL && strcmp(report, "1") == 0;
        start_locked(capacity != NULL ? strtoull(capacity, NULL, 10) : 0, read_lacks());
    }
}

FAKE_EXPORT void fake_cuda_start(uint64_t capacity, unsigned lacks)
{
    (void)fake_end_memory();
    fake_end_streams();
    (void)pthread_mutex_lock(&fake_lock);
    end_locked();
    memset(&fault, 0, sizeof(fault));
    start_locked(capacity, lacks);
    (void)pthread_mutex_unlock(&fake_lock);
    depth = 0;
    fake_mode = CU_CAPTURE_MODE_GLOBAL;
}

FAKE_EXPORT unsigned fake_cuda_findings(bool with_leaks)
{
    unsigned count = with_leaks ? fake_end_memory() : 0;
    for (int i = 0; i < FAKE_CUDA_DEVICES; i++) {
        weir_sim_finding finding;
        if (with_leaks) {
            weir_sim_audit_leaks(fake_devices[i].sim);
        }
        const uint64_t found = weir_sim_finding_count(fake_devices[i].sim, WEIR_SIM_FINDING_KINDS);
        for (size_t k = 0; k < found && k < 4 && weir_sim_finding_at(fake_devices[i].sim, k, &finding); k++) {
            (void)fprintf(stderr, "fake cuda: device %d: %s\n", i, finding.text);
        }
        count += (unsigned)found;
    }
    return count;
}

FAKE_EXPORT uint64_t fake_cuda_held_bytes(int device)
{
    weir_sim_stats stats = WEIR_SIM_STATS_INIT;
    return weir_sim_get_stats(fake_devices[device].sim, &stats) == WEIR_OK ? stats.held_bytes : UINT64_MAX;
}

__attribute__((destructor)) static void report(void)
{
    if (!started || !report_at_end) {
        return;
    }
    weir_sim_stats stats = WEIR_SIM_STATS_INIT;
    (void)!weir_sim_get_stats(fake_devices[0].sim, &stats);
    (void)fprintf(stderr, "fake cuda: %u calls; at most %.1f MiB of device 0 held; ", all_calls,
                  (double)stats.peak_held_bytes / (1 << 20));
    const unsigned found = fake_cuda_findings(false);
    (void)fprintf(stderr, found == 0 ? "the auditor found nothing\n" : "the auditor found %u\n", found);
}

/* --- faults --- */

/* True if `name` is an exported name of one of the functions `wanted`, with commas between them. A test may write them
 * without the version suffix (_v2). */
static bool is_function(const char *name, const char *wanted)
{
    if (wanted[0] == '\0') {
        return true;
    }
    for (const char *at = wanted; at != NULL; at = strchr(at, ',')) {
        at += at[0] == ',';
        const size_t length = strcspn(at, ",");
        if (strncmp(name, at, length) == 0 && (name[length] == '\0' || name[length] == '_')) {
            return true;
        }
    }
    return false;
}

CUresult fake_struck(const char *function)
{
    (void)pthread_mutex_lock(&fake_lock);
    start_by_environment_locked();
    all_calls++;
    bool strikes = false;
    if (is_function(function, fault.function)) {
        fault.calls++;
        strikes = fault.nth != 0 && fault.calls >= fault.nth && fault.calls - fault.nth < fault.count;
        fault.come |= strikes;
    }
    const CUresult code = fault.code;
    const bool ready =
        initialized || strncmp(function, "cuInit", 6) == 0 || strcmp(function, "cuDriverGetVersion") == 0;
    (void)pthread_mutex_unlock(&fake_lock);
    return strikes ? code : ready ? CU_SUCCESS : CU_ERROR_NOT_INITIALIZED;
}

FAKE_EXPORT void fake_cuda_fail(const char *function, unsigned nth, CUresult code, bool lasting)
{
    fake_cuda_outage(function, nth, lasting ? UINT_MAX : 1, code);
}

FAKE_EXPORT void fake_cuda_outage(const char *function, unsigned nth, unsigned count, CUresult code)
{
    (void)pthread_mutex_lock(&fake_lock);
    (void)snprintf(fault.function, sizeof(fault.function), "%s", function != NULL ? function : "");
    fault.nth = nth;
    fault.code = code;
    fault.count = count;
    fault.come = false;
    fault.calls = 0;
    (void)pthread_mutex_unlock(&fake_lock);
}

FAKE_EXPORT unsigned fake_cuda_calls(bool *struck)
{
    (void)pthread_mutex_lock(&fake_lock);
    const unsigned calls = fault.calls;
    *struck = fault.come;
    (void)pthread_mutex_unlock(&fake_lock);
    return calls;
}

CUresult fake_code(weir_status status)
{
    switch (status) {
    case WEIR_OK:
        return CU_SUCCESS;
    case WEIR_ERR_NO_MEMORY:
    case WEIR_ERR_LIMIT:
        return CU_ERROR_OUT_OF_MEMORY;
    case WEIR_ERR_UNSUPPORTED:
        return CU_ERROR_NOT_SUPPORTED;
    case WEIR_ERR_INVALID:
        return CU_ERROR_INVALID_VALUE;
    default:
        return 719; /* CUDA_ERROR_LAUNCH_FAILED */
    }
}

/* --- the driver and its devices --- */

FAKE_EXPORT CUresult cuInit(unsigned flags)
{
    FAKE_ENTRY();
    if (flags != 0 || (fake_lacks & FAKE_CUDA_NO_GPU) != 0) {
        return flags != 0 ? CU_ERROR_INVALID_VALUE : CU_ERROR_NO_DEVICE;
    }
    (void)pthread_mutex_lock(&fake_lock);
    initialized = true;
    (void)pthread_mutex_unlock(&fake_lock);
    return CU_SUCCESS;
}

FAKE_EXPORT CUresult cuDriverGetVersion(int *version)
{
    FAKE_ENTRY();
    *version = (fake_lacks & FAKE_CUDA_OLD) != 0 ? 10020 : 12040;
    return CU_SUCCESS;
}

/* X(value, name, text) */
#define ERRORS(X)                                                                                                      \
    X(0, "CUDA_SUCCESS", "no error")                                                                                   \
    X(1, "CUDA_ERROR_INVALID_VALUE", "invalid argument")                                                               \
    X(2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory")                                                                  \
    X(3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error")                                                         \
    X(100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected")                                               \
    X(101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal")                                                      \
    X(201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context")                                                     \
    X(400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle")                                                     \
    X(700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered")                                   \
    X(800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted")                                                      \
    X(801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported")                                                      \
    X(900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing")

/* cuGetErrorName and cuGetErrorString never fail, because programs call them after failures. */
FAKE_EXPORT CUresult cuGetErrorName(CUresult code, const char **name)
{
#define NAME(value, known, text)                                                                                       \
    if (code == value) {                                                                                               \
        *name = known;                                                                                                 \
        return CU_SUCCESS;                                                                                             \
    }
    ERRORS(NAME)
    return CU_ERROR_INVALID_VALUE;
}

FAKE_EXPORT CUresult cuGetErrorString(CUresult code, const char **text)
{
#define TEXT(value, known, words)                                                                                      \
    if (code == value) {                                                                                               \
        *text = words;                                                                                                 \
        return CU_SUCCESS;                                                                                             \
    }
    ERRORS(TEXT)
    return CU_ERROR_INVALID_VALUE;
}

FAKE_EXPORT CUresult cuDeviceGetCount(int *count)
{
    FAKE_ENTRY();
    *count = FAKE_CUDA_DEVICES;
    return CU_SUCCESS;
}

static bool is_device(CUdevice device)
{
    return device >= 0 && device < FAKE_CUDA_DEVICES;
}

FAKE_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    FAKE_ENTRY();
    if (!is_device(ordinal)) {
        return CU_ERROR_INVALID_DEVICE;
    }
    *device = ordinal;
    return CU_SUCCESS;
}

FAKE_EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    FAKE_ENTRY();
    (void)snprintf(name, (size_t)size, "weir's double of a GPU");
    return is_device(device) ? CU_SUCCESS : CU_ERROR_INVALID_DEVICE;
}

FAKE_EXPORT CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice device)
{
    FAKE_ENTRY();
    (void)snprintf(id, (size_t)size, "0000:%02x:00.0", device + 1);
    return is_device(device) ? CU_SUCCESS : CU_ERROR_INVALID_DEVICE;
}

static uint64_t capacity_of(int device)
{
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    return weir_device_get_info(fake_devices[device].device, &info) == WEIR_OK ? info.capacity_bytes : 0;
}

FAKE_EXPORT CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    FAKE_ENTRY();
    if (!is_device(device)) {
        return CU_ERROR_INVALID_DEVICE;
    }
    *bytes = capacity_of(device);
    return CU_SUCCESS;
}

FAKE_EXPORT CUresult cuMemGetInfo(size_t *left, size_t *total)
{
    FAKE_ENTRY_IN(current);
    *total = capacity_of(current->device);
    *left = *total - fake_cuda_held_bytes(current->device);
    return CU_SUCCESS;
}

FAKE_EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    FAKE_ENTRY();
    if (!is_device(device) || !is_device(peer)) {
        return CU_ERROR_INVALID_VALUE;
    }
    *can = device != peer;
    return CU_SUCCESS;
}

FAKE_EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    FAKE_ENTRY();
    const unsigned lacks = fake_lacks;
    switch (attribute) {
    case CU_ATTRIBUTE_VIRTUAL_MEMORY:
        *value = (lacks & FAKE_CUDA_NO_VIRTUAL_MEMORY) == 0;
        break;
    case CU_ATTRIBUTE_FILE_HANDLES:
        *value = (lacks & FAKE_CUDA_NO_FILE) == 0;
        break;
    case CU_ATTRIBUTE_RDMA_WITH_VIRTUAL_MEMORY:
        *value = (lacks & FAKE_CUDA_NO_RDMA) == 0;
        break;
    case CU_ATTRIBUTE_FABRIC_HANDLES:
        *value = (lacks & FAKE_CUDA_NO_FABRIC) == 0;
        break;
    case CU_ATTRIBUTE_HOST_NUMA_ID:
        *value = 0;
        break;
    default:
        return CU_ERROR_INVALID_VALUE;
    }
    return is_device(device) ? CU_SUCCESS : CU_ERROR_INVALID_DEVICE;
}

/* --- contexts --- */

static CUcontext make_context(int device)
{
    CUcontext made = calloc(1, sizeof(*made));
    if (made != NULL) {
        made->device = device;
        made->alive = true;
        made->legacy.context = made;
    }
    return made;
}

FAKE_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    FAKE_ENTRY();
    if (!is_device(device)) {
        return CU_ERROR_INVALID_DEVICE;
    }
    (void)pthread_mutex_lock(&fake_lock);
    struct fake_device *at = &fake_devices[device];
    at->primary = at->primary != NULL ? at->primary : make_context(device);
    at->retained += at->primary != NULL;
    *context = at->primary;
    (void)pthread_mutex_unlock(&fake_lock);
    return *context != NULL ? CU_SUCCESS : CU_ERROR_OUT_OF_MEMORY;
}

FAKE_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    FAKE_ENTRY();
    (void)pthread_mutex_lock(&fake_lock);
    struct fake_device *at = is_device(device) ? &fake_devices[device] : NULL;
    const bool known = at != NULL && at->retained > 0;
    CUcontext last = NULL;
    if (known && --at->retained == 0) {
        last = at->primary;
        at->primary = NULL;
    }
    (void)pthread_mutex_unlock(&fake_lock);
    free(last);
    return known ? CU_SUCCESS : CU_ERROR_INVALID_CONTEXT;
}

FAKE_EXPORT CUresult cuCtxCreate(CUcontext *context, unsigned flags, CUdevice device)
{
    (void)flags;
    FAKE_ENTRY();
    CUcontext made = is_device(device) ? make_context(device) : NULL;
    if (made == NULL || depth == STACK ||
        weir_sim_stream_create(fake_devices[device].sim, &made->legacy.sim) != WEIR_OK) {
        free(made);
        return CU_ERROR_INVALID_VALUE;
    }
    stack[depth++] = made;
    *context = made;
    return CU_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxDestroy(CUcontext context)
{
    FAKE_ENTRY();
    if (depth > 0 && stack[depth - 1] == context) {
        depth--;
    }
    (void)!weir_sim_stream_destroy(fake_devices[context->device].sim, context->legacy.sim);
    free(context);
    return CU_SUCCESS;
}

CUcontext fake_current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

FAKE_EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
    FAKE_ENTRY();
    *context = fake_current();
    return CU_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    FAKE_ENTRY();
    depth -= depth > 0;
    if (context != NULL) {
        stack[depth++] = context;
    }
    return CU_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
    FAKE_ENTRY_IN(current);
    *device = current->device;
    return CU_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxPushCurrent(CUcontext context)
{
    FAKE_ENTRY();
    if (context == NULL || depth == STACK) {
        return CU_ERROR_INVALID_VALUE;
    }
    stack[depth++] = context;
    return CU_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxPopCurrent(CUcontext *context)
{
    FAKE_ENTRY_IN(current);
    *context = current;
    depth--;
    return CU_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxSynchronize(void)
{
    FAKE_ENTRY_IN(current);
    return fake_code(weir_sim_sync(fake_devices[current->device].sim));
}

FAKE_EXPORT unsigned fake_cuda_retained(void)
{
    return fake_devices[0].retained + fake_devices[1].retained;
}

FAKE_EXPORT unsigned fake_cuda_depth(void)
{
    return depth;
}

FAKE_EXPORT int fake_cuda_capture_mode(void)
{
    return fake_mode;
}
