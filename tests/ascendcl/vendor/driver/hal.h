/* hal.h: the functions of Ascend's driver library, libascend_hal.so, that its runtime calls, and their data.
 *
 * These are weir's own declarations of a foreign ABI, under names of their own. Each declaration names the header of
 * the vendor's public sources (hicann/runtime 681ef7610, pkg_inc/driver) that it agrees with: BASE is
 * ascend_hal_base.h, DEFINE is ascend_hal_define.h, ERROR is ascend_hal_error.h, TRS is hal_pkg/trs_pkg.h, DPA is
 * hal_pkg/dpa_pkg.h. layout.c compares them with the vendor's where those are present.
 */
#ifndef WEIR_VENDOR_HAL_H
#define WEIR_VENDOR_HAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* With WEIR_HAL_TYPES_ONLY this header leaves out the functions, for a file that includes the vendor's declarations of
 * them. */
#define HAL_DOOR __attribute__((visibility("default")))

/* ERROR: drvError_t. */
typedef enum hal_error {
    HAL_OK = 0,
    HAL_INVALID_VALUE = 3,
    HAL_OUT_OF_MEMORY = 6,
    HAL_WRONG_PARAMETER = 8, /* refused by the kernel module of the driver */
    HAL_BUSY = 13,
    HAL_NO_RESOURCES = 14,
    HAL_WAIT_TIMEOUT = 16,
    HAL_NO_EVENTS = 47,
    HAL_NO_STREAMS = 48,
    HAL_NOT_SUPPORTED = 0xfffe,
} hal_error;

/* --- memory --- */

/* DEFINE: bits of the flag of halMemAlloc. */
#define HAL_MEM_DEVICE_MASK ((UINT64_C(1) << 10) - 1)
#define HAL_MEM_SIDE_BIT 10
#define HAL_MEM_HUGE (UINT64_C(1) << 17)
#define HAL_MEM_GIANT (UINT64_C(1) << 31)
#define HAL_MEM_MODULE_BIT 56
enum { HAL_MODULE_OF_RUNTIME = 7 }; /* pkg_inc/base/log_types.h: RUNTIME */
enum { HAL_SIDE_HOST = 2, HAL_SIDE_HOST_AGENT = 4, HAL_SIDE_HOST_SHARED = 6 };

/* BASE: DVattribute and the values of memType. */
enum { HAL_TYPE_HOST = 0x0008, HAL_TYPE_DEVICE = 0x0010, HAL_TYPE_UNKNOWN = 0x0080, HAL_TYPE_REGISTERED = 0x0100 };
typedef struct hal_attribute {
    uint32_t type;
    uint32_t reserved[2];
    uint32_t device;
    uint32_t page_size;
    uint32_t reserved2[8];
} hal_attribute;

/* BASE: MemInfo, a union of which two members are used, and DEFINE: the type that asks for the second. */
enum { HAL_INFO_ADDRESS = 5 };
enum {
    HAL_FEATURE_HOST_PINNED = 13
}; /* FEATURE_SVM_MEM_REGISTER_HOST_PINNED: the driver finds the registered range of an address */
typedef union hal_mem_info {
    struct {
        unsigned long total, free, huge_total, huge_free, giant_total, giant_free;
    } physical;
    struct {
        void *addresses;
        unsigned int count, type, is_valid;
    } address;
} hal_mem_info;

/* BASE: drv_mem_prop; DPA: drv_mem_side; BASE: drv_mem_pg_type. */
enum { HAL_PROP_HOST = 0, HAL_PROP_DEVICE = 1, HAL_PROP_HOST_NODE = 2 };
enum { HAL_PAGES_NORMAL = 0, HAL_PAGES_HUGE = 1, HAL_PAGES_GIANT = 2 };
typedef struct hal_mem_prop {
    uint32_t side, device, module, pages, type;
    uint64_t reserved;
} hal_mem_prop;

/* hal_pkg/common_pkg.h: DMA_ADDR. */
typedef struct hal_dma {
    void *from, *to;
    unsigned int size;
    unsigned char is_chain;
    void *unused;
    unsigned int converted;
    unsigned int id;
} hal_dma;

#ifndef WEIR_HAL_TYPES_ONLY
HAL_DOOR hal_error halMemAlloc(void **address, unsigned long long size, unsigned long long flag);
HAL_DOOR hal_error halMemFree(void *address);
HAL_DOOR hal_error drvMemGetAttribute(uintptr_t address, hal_attribute *attribute);
HAL_DOOR hal_error drvMemGetAddressRange(uintptr_t address, uintptr_t *base, size_t *size);
HAL_DOOR hal_error halMemGetInfo(uint32_t device, unsigned int type, hal_mem_info *info);
HAL_DOOR hal_error halMemGetInfoEx(uint32_t device, unsigned int type, hal_mem_info *info);
HAL_DOOR hal_error drvMemcpy(uintptr_t to, size_t room, uintptr_t from, size_t size);
HAL_DOOR hal_error halMemcpy(void *to, size_t room, void *from, size_t size, void *options);
HAL_DOOR hal_error drvMemsetD8(uintptr_t to, size_t room, uint8_t value, size_t size);
HAL_DOOR hal_error drvMemConvertAddr(uintptr_t from, uintptr_t to, uint32_t size, hal_dma *dma);
HAL_DOOR hal_error drvMemDestroyAddr(hal_dma *dma);
HAL_DOOR hal_error halMemDestroyAddrBatch(hal_dma *dmas[], uint32_t count);
HAL_DOOR hal_error drvMemAddressTranslate(uintptr_t address, unsigned long long *physical);

HAL_DOOR hal_error halHostRegister(void *address, unsigned long long size, uint32_t flag, uint32_t device,
                                   void **mapped);
HAL_DOOR hal_error halHostUnregister(void *address, uint32_t device);
HAL_DOOR hal_error halHostUnregisterEx(void *address, uint32_t device, uint32_t flag);
HAL_DOOR hal_error halMemHostGetDevPointer(void *address, uint32_t device, void **mapped);
HAL_DOOR hal_error halHostRegisterCapabilities(uint32_t device, uint32_t kind, uint32_t *capabilities);

HAL_DOOR hal_error halMemAddressReserve(void **address, size_t size, size_t alignment, void *wanted, uint64_t flag);
HAL_DOOR hal_error halMemAddressFree(void *address);
HAL_DOOR hal_error halMemCreate(void **handle, size_t size, const hal_mem_prop *prop, uint64_t flag);
HAL_DOOR hal_error halMemRelease(void *handle);
HAL_DOOR hal_error halMemRetainAllocationHandle(void **handle, void *address);
HAL_DOOR hal_error halMemMap(void *address, size_t size, size_t offset, void *handle, uint64_t flag);
HAL_DOOR hal_error halMemUnmap(void *address);
HAL_DOOR hal_error halMemSetAccess(void *address, size_t size, void *descriptions, size_t count);
HAL_DOOR hal_error halMemGetAllocationGranularity(const hal_mem_prop *prop, int option, size_t *granularity);
#endif

/* --- facts --- */

/* BASE: DEV_MODULE_TYPE and DEV_INFO_TYPE. */
enum { HAL_MODULE_SYSTEM = 0, HAL_MODULE_AICPU = 1, HAL_MODULE_CUBE = 4, HAL_MODULE_VECTOR = 7 };
enum { HAL_FACT_VERSION = 1, HAL_FACT_CORES = 3 };

/* BASE: halCapabilityInfo. */
typedef struct hal_capabilities {
    uint32_t reduce, memory, groups, reduce_kind;
    uint32_t reserved[30];
} hal_capabilities;

/* BASE: CAP_SDMA_REDUCE_FP32 and its neighbours: types of elements that the copy engine reduces, and kinds. */
enum {
    HAL_REDUCE_FP32 = 1,
    HAL_REDUCE_FP16 = 1 << 1,
    HAL_REDUCE_INT16 = 1 << 2,
    HAL_REDUCE_INT8 = 1 << 4,
    HAL_REDUCE_INT32 = 1 << 5,
    HAL_REDUCE_BF16 = 1 << 6,
};
enum { HAL_REDUCE_SUM = 1, HAL_REDUCE_MAX = 1 << 1, HAL_REDUCE_MIN = 1 << 2 };

#ifndef WEIR_HAL_TYPES_ONLY
HAL_DOOR hal_error halDeviceOpen(uint32_t device, void *in, void *out);
HAL_DOOR hal_error halDeviceClose(uint32_t device, void *in);
HAL_DOOR hal_error drvMemSmmuQuery(uint32_t device, uint32_t *address_space);
HAL_DOOR int drvDeviceGetBareTgid(void);
HAL_DOOR hal_error halDeviceCanAccessPeer(int *can, uint32_t device, uint32_t peer);
HAL_DOOR hal_error halDeviceEnableP2P(uint32_t device, uint32_t peer, uint32_t flag);
HAL_DOOR hal_error halDeviceDisableP2P(uint32_t device, uint32_t peer, uint32_t flag);
HAL_DOOR hal_error drvGetPlatformInfo(uint32_t *is_host);
HAL_DOOR hal_error drvGetDevNum(uint32_t *count);
HAL_DOOR hal_error halGetDevNumEx(uint32_t kind, uint32_t *count);
HAL_DOOR hal_error drvGetDevIDs(uint32_t *devices, uint32_t count);
HAL_DOOR hal_error drvDeviceGetPhyIdByIndex(uint32_t index, uint32_t *physical);
HAL_DOOR hal_error drvDeviceGetIndexByPhyId(uint32_t physical, uint32_t *index);
HAL_DOOR hal_error drvDeviceStatus(uint32_t device, int *status);
HAL_DOOR hal_error halGetAPIVersion(int *version);
HAL_DOOR hal_error halGetSocVersion(uint32_t device, char *text, uint32_t size);
HAL_DOOR hal_error halGetDeviceInfo(uint32_t device, int32_t module, int32_t fact, int64_t *value);
HAL_DOOR bool halSupportFeature(uint32_t device, int feature);
HAL_DOOR hal_error halGetChipCapability(uint32_t device, hal_capabilities *capabilities);
#endif

/* --- ids --- */

/* TRS: drvIdType_t, halResourceIdInputInfo, halResourceIdOutputInfo; DEFINE: the flag in reserved[1]; BASE:
 * halResourceInfo. */
enum { HAL_ID_STREAM = 0, HAL_ID_EVENT = 1, HAL_ID_NOTIFY = 3, HAL_ID_KINDS = 16 };
enum { HAL_ID_IS_GIVEN = 1 << 1 };
typedef struct hal_id_in {
    uint32_t kind, scheduler, id;
    uint32_t reserved[8];
} hal_id_in;
typedef struct hal_id_out {
    uint32_t id;
    uint32_t reserved[8];
} hal_id_out;
typedef struct hal_id_figures {
    uint32_t capacity, used, reserved[2];
} hal_id_figures;

#ifndef WEIR_HAL_TYPES_ONLY
HAL_DOOR hal_error halResourceIdAlloc(uint32_t device, hal_id_in *in, hal_id_out *out);
HAL_DOOR hal_error halResourceIdFree(uint32_t device, hal_id_in *in);
HAL_DOOR hal_error halResourceConfig(uint32_t device, hal_id_in *in, void *settings);
HAL_DOOR hal_error halResourceInfoQuery(uint32_t device, uint32_t scheduler, uint32_t kind, hal_id_figures *figures);
#endif

/* --- queues of tasks and of reports --- */

/* TRS: drvSqCqType_t and drvSqCqPropType_t; DEFINE: the flags. */
enum { HAL_QUEUE_NORMAL = 0, HAL_QUEUE_CALLS = 1, HAL_QUEUE_LOGIC = 2 };
enum {
    HAL_QUEUE_REUSES_REPORTS = 1 << 0,
    HAL_QUEUE_REUSES_TASKS = 1 << 1,
    HAL_QUEUE_TASKS_GIVEN = 1 << 7,
    HAL_QUEUE_REPORTS_GIVEN = 1 << 8,
};
enum {
    HAL_PROP_STATUS = 0,
    HAL_PROP_HEAD = 1,
    HAL_PROP_TAIL = 2,
    HAL_PROP_ENABLE = 3,
    HAL_PROP_REGISTERS = 5,
    HAL_PROP_BASE = 6,
    HAL_PROP_DEPTH = 7,
};
#define HAL_NO_QUEUE UINT32_MAX

/* TRS: halSqCqInputInfo, halSqCqFreeInfo, halSqCqConfigInfo and halSqCqQueryInfo (both one layout), halTaskSendInfo,
 * halReportRecvInfo. BASE: halSqCqOutputInfo, halSqMemGetInput, halSqMemGetOutput, halReportInfoInput,
 * halReportInfoOutput, halReportGetInput, halReportGetOutput, halReportReleaseInfo. */
typedef struct hal_queue_in {
    uint32_t kind, scheduler, task_size, report_size, task_depth, report_depth, group, flag;
    uint32_t reports, tasks; /* numbers of queues */
    uint32_t info[5];        /* the first is the stream's id */
    uint32_t more_size;
    void *more;
    uint32_t reserved[5];
} hal_queue_in;
typedef struct hal_queue_out {
    uint32_t tasks, reports;
    unsigned long long address;
    uint32_t flag;
    uint32_t reserved[5];
} hal_queue_out;
typedef struct hal_queue_end {
    uint32_t kind, scheduler, tasks, reports, flag;
    uint32_t reserved[8];
} hal_queue_end;
typedef struct hal_queue_prop {
    uint32_t kind, scheduler, tasks, reports, prop;
    uint32_t value[8];
} hal_queue_prop;
typedef struct hal_send {
    uint32_t kind, scheduler, tasks;
    int32_t timeout_ms;
    uint8_t *first;
    uint32_t count;
    uint32_t position;
    uint32_t reserved[8];
} hal_send;
typedef struct hal_receive {
    uint32_t kind, scheduler, reports;
    int32_t timeout_ms;
    uint8_t *first;
    uint32_t room;
    uint32_t count;
    uint32_t stream, task;
    uint32_t reserved[8];
} hal_receive;
typedef struct hal_slots_in {
    uint32_t kind, scheduler, tasks, count;
    uint32_t reserved[8];
} hal_slots_in;
typedef struct hal_slots_out {
    uint32_t count;
    volatile void *first;
    uint32_t position;
    uint32_t reserved[7];
} hal_slots_out;
typedef struct hal_ready_in {
    uint32_t kind, group, scheduler;
    int32_t timeout_ms;
    uint32_t reserved[8];
} hal_ready_in;
typedef struct hal_ready {
    uint64_t *bits;
    uint32_t size;
    uint32_t reserved[8];
} hal_ready;
typedef struct hal_reports_in {
    uint32_t kind, scheduler, reports;
    uint32_t reserved[8];
} hal_reports_in;
typedef struct hal_reports {
    uint32_t count;
    void *first;
    uint32_t reserved[8];
} hal_reports;
typedef struct hal_release {
    uint32_t kind, scheduler, reports, count;
    uint32_t reserved[8];
} hal_release;

#ifndef WEIR_HAL_TYPES_ONLY
HAL_DOOR hal_error halSqCqAllocate(uint32_t device, hal_queue_in *in, hal_queue_out *out);
HAL_DOOR hal_error halSqCqFree(uint32_t device, hal_queue_end *end);
HAL_DOOR hal_error halSqCqQuery(uint32_t device, hal_queue_prop *prop);
HAL_DOOR hal_error halSqCqConfig(uint32_t device, hal_queue_prop *prop);
HAL_DOOR hal_error halSqTaskSend(uint32_t device, hal_send *send);
HAL_DOOR hal_error halCqReportRecv(uint32_t device, hal_receive *receive);
HAL_DOOR hal_error halSqMemGet(uint32_t device, hal_slots_in *in, hal_slots_out *out);
HAL_DOOR hal_error halSqMsgSend(uint32_t device, void *message);
HAL_DOOR hal_error halCqReportIrqWait(uint32_t device, hal_ready_in *in, hal_ready *out);
HAL_DOOR hal_error halCqReportGet(uint32_t device, hal_reports_in *in, hal_reports *out);
HAL_DOOR hal_error halReportRelease(uint32_t device, hal_release *release);
HAL_DOOR hal_error halEschedWaitEvent(uint32_t device, uint32_t group, uint32_t thread, int timeout_ms, void *event);
HAL_DOOR hal_error halReadFaultEvent(int32_t device, int timeout_ms, void *filter, void *event);
#endif

/* --- the task scheduler of a 910B --- */

/* A task is 64 bytes (src/runtime/core/inc/sqe/v100/stars_sqe.hpp and its neighbours). Its kind is in the low six bits
 * of the first byte. */
enum { HAL_TASK_BYTES = 64 };
enum {
    HAL_TASK_PROCESSOR = 1,   /* a kernel for a processor of the device, or a call of a function of the host */
    HAL_TASK_PLACEHOLDER = 3, /* tells the firmware something, for one what belongs to a graph */
    HAL_TASK_EVENT_RECORD = 4,
    HAL_TASK_EVENT_WAIT = 5,
    HAL_TASK_NOTIFY_RECORD = 6,
    HAL_TASK_NOTIFY_WAIT = 7,
    HAL_TASK_WRITE_VALUE = 8, /* also the reset of an event */
    HAL_TASK_COPY = 11,
    HAL_TASK_PCIE_COPY = 17,
    HAL_TASK_CONDITION = 20, /* the execution of a graph, among other things */
};

/* The report of a call (rtHostFuncCqReport_t). */
typedef struct hal_call {
    uint16_t flags, stream, task, tasks, head, sequence;
    uint8_t is_blocking, unused;
    uint16_t event;
    uint64_t function, argument;
} hal_call;

/* The report of a task (rtLogicCqReport_t). */
typedef struct hal_report {
    uint16_t stream, task;
    uint32_t error;
    uint8_t error_kind, task_kind;
    uint16_t tasks, head, flags;
    uint64_t time, entered;
} hal_report;

#endif
