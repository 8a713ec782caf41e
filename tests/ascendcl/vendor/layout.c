/* layout.c: compares driver/hal.h with the vendor's driver/ascend_hal.h. It is compiled if the vendor's header is
 * installed. */
#include <stdbool.h>

#include "driver/ascend_hal.h"
#include "driver/ascend_hal_external.h"

#define WEIR_HAL_TYPES_ONLY
#include "driver/hal.h"

#include <stddef.h>

#define IS(ours, vendors) _Static_assert((unsigned long long)(ours) == (unsigned long long)(vendors), #vendors)
#define SIZE(ours, vendors) IS(sizeof(ours), sizeof(vendors))
#define MEMBER(ours, member, vendors, its)                                                                             \
    IS(offsetof(ours, member), offsetof(vendors, its));                                                                \
    IS(sizeof(((ours *)0)->member), sizeof(((vendors *)0)->its))

IS(HAL_OK, DRV_ERROR_NONE);
IS(HAL_INVALID_VALUE, DRV_ERROR_INVALID_VALUE);
IS(HAL_OUT_OF_MEMORY, DRV_ERROR_OUT_OF_MEMORY);
IS(HAL_FEATURE_HOST_PINNED, FEATURE_SVM_MEM_REGISTER_HOST_PINNED);
IS(HAL_WRONG_PARAMETER, DRV_ERROR_PARA_ERROR);
IS(HAL_BUSY, DRV_ERROR_BUSY);
IS(HAL_NO_RESOURCES, DRV_ERROR_NO_RESOURCES);
IS(HAL_WAIT_TIMEOUT, DRV_ERROR_WAIT_TIMEOUT);
IS(HAL_NO_EVENTS, DRV_ERROR_NO_EVENT_RESOURCES);
IS(HAL_NO_STREAMS, DRV_ERROR_NO_STREAM_RESOURCES);
IS(HAL_NOT_SUPPORTED, DRV_ERROR_NOT_SUPPORT);

IS(HAL_MEM_DEVICE_MASK, MEM_DEVID_MASK);
IS(HAL_MEM_SIDE_BIT, MEM_VIRT_BIT);
IS(HAL_MEM_HUGE, MEM_PAGE_HUGE);
IS(HAL_MEM_GIANT, MEM_PAGE_GIANT);
IS(HAL_MEM_MODULE_BIT, MEM_MODULE_ID_BIT);
IS(HAL_SIDE_HOST, MEM_HOST_VAL);
IS(HAL_SIDE_HOST_AGENT, MEM_HOST_AGENT_VAL);
IS(HAL_SIDE_HOST_SHARED, MEM_HOST_UVA_VAL);
IS(HAL_TYPE_HOST, DV_MEM_LOCK_HOST);
IS(HAL_TYPE_DEVICE, DV_MEM_LOCK_DEV);
IS(HAL_TYPE_UNKNOWN, DV_MEM_USER_MALLOC);
IS(HAL_TYPE_REGISTERED, DV_MEM_USER_REGISTER);
SIZE(hal_attribute, struct DVattribute);
MEMBER(hal_attribute, type, struct DVattribute, memType);
MEMBER(hal_attribute, device, struct DVattribute, devId);
MEMBER(hal_attribute, page_size, struct DVattribute, pageSize);
IS(HAL_INFO_ADDRESS, MEM_INFO_TYPE_ADDR_CHECK);
MEMBER(hal_mem_info, physical, struct MemInfo, phy_info);
MEMBER(hal_mem_info, physical.huge_total, struct MemInfo, phy_info.huge_total);
MEMBER(hal_mem_info, physical.huge_free, struct MemInfo, phy_info.huge_free);
MEMBER(hal_mem_info, address.is_valid, struct MemInfo, addr_info.flag);
IS(HAL_PROP_HOST, MEM_HOST_SIDE);
IS(HAL_PROP_DEVICE, MEM_DEV_SIDE);
IS(HAL_PROP_HOST_NODE, MEM_HOST_NUMA_SIDE);
IS(HAL_PAGES_HUGE, MEM_HUGE_PAGE_TYPE);
IS(HAL_PAGES_GIANT, MEM_GIANT_PAGE_TYPE);
SIZE(hal_mem_prop, struct drv_mem_prop);
MEMBER(hal_mem_prop, device, struct drv_mem_prop, devid);
MEMBER(hal_mem_prop, pages, struct drv_mem_prop, pg_type);
SIZE(hal_dma, struct DMA_ADDR);
MEMBER(hal_dma, size, struct DMA_ADDR, phyAddr.len);
MEMBER(hal_dma, converted, struct DMA_ADDR, fixed_size);

IS(HAL_MODULE_AICPU, MODULE_TYPE_AICPU);
IS(HAL_MODULE_CUBE, MODULE_TYPE_AICORE);
IS(HAL_MODULE_VECTOR, MODULE_TYPE_VECTOR_CORE);
IS(HAL_FACT_VERSION, INFO_TYPE_VERSION);
IS(HAL_FACT_CORES, INFO_TYPE_CORE_NUM);
SIZE(hal_capabilities, struct halCapabilityInfo);

IS(HAL_ID_STREAM, DRV_STREAM_ID);
IS(HAL_ID_EVENT, DRV_EVENT_ID);
IS(HAL_ID_NOTIFY, DRV_NOTIFY_ID);
IS(HAL_ID_IS_GIVEN, TSDRV_RES_SPECIFIED_ID);
SIZE(hal_id_in, struct halResourceIdInputInfo);
MEMBER(hal_id_in, id, struct halResourceIdInputInfo, resourceId);
SIZE(hal_id_out, struct halResourceIdOutputInfo);
SIZE(hal_id_figures, struct halResourceInfo);

IS(HAL_QUEUE_CALLS, DRV_CALLBACK_TYPE);
IS(HAL_QUEUE_LOGIC, DRV_LOGIC_TYPE);
IS(HAL_QUEUE_REUSES_REPORTS, TSDRV_FLAG_REUSE_CQ);
IS(HAL_QUEUE_REUSES_TASKS, TSDRV_FLAG_REUSE_SQ);
IS(HAL_QUEUE_TASKS_GIVEN, TSDRV_FLAG_SPECIFIED_SQ_ID);
IS(HAL_QUEUE_REPORTS_GIVEN, TSDRV_FLAG_SPECIFIED_CQ_ID);
IS(HAL_PROP_STATUS, DRV_SQCQ_PROP_SQ_STATUS);
IS(HAL_PROP_HEAD, DRV_SQCQ_PROP_SQ_HEAD);
IS(HAL_PROP_TAIL, DRV_SQCQ_PROP_SQ_TAIL);
IS(HAL_PROP_ENABLE, DRV_SQCQ_PROP_SQ_DISABLE_TO_ENABLE);
IS(HAL_PROP_REGISTERS, DRV_SQCQ_PROP_SQ_REG_BASE);
IS(HAL_PROP_BASE, DRV_SQCQ_PROP_SQ_BASE);
IS(HAL_PROP_DEPTH, DRV_SQCQ_PROP_SQ_DEPTH);
IS(HAL_NO_QUEUE, SQCQ_UMAX);
SIZE(hal_queue_in, struct halSqCqInputInfo);
MEMBER(hal_queue_in, task_depth, struct halSqCqInputInfo, sqeDepth);
MEMBER(hal_queue_in, reports, struct halSqCqInputInfo, cqId);
MEMBER(hal_queue_in, tasks, struct halSqCqInputInfo, sqId);
MEMBER(hal_queue_in, info, struct halSqCqInputInfo, info);
SIZE(hal_queue_out, struct halSqCqOutputInfo);
MEMBER(hal_queue_out, address, struct halSqCqOutputInfo, queueVAddr);
SIZE(hal_queue_end, struct halSqCqFreeInfo);
MEMBER(hal_queue_end, tasks, struct halSqCqFreeInfo, sqId);
MEMBER(hal_queue_end, reports, struct halSqCqFreeInfo, cqId);
SIZE(hal_queue_prop, struct halSqCqConfigInfo);
SIZE(hal_queue_prop, struct halSqCqQueryInfo);
MEMBER(hal_queue_prop, value, struct halSqCqConfigInfo, value);
MEMBER(hal_queue_prop, value, struct halSqCqQueryInfo, value);
SIZE(hal_send, struct halTaskSendInfo);
MEMBER(hal_send, first, struct halTaskSendInfo, sqe_addr);
MEMBER(hal_send, count, struct halTaskSendInfo, sqe_num);
MEMBER(hal_send, position, struct halTaskSendInfo, pos);
SIZE(hal_receive, struct halReportRecvInfo);
MEMBER(hal_receive, timeout_ms, struct halReportRecvInfo, timeout);
MEMBER(hal_receive, first, struct halReportRecvInfo, cqe_addr);
MEMBER(hal_receive, room, struct halReportRecvInfo, cqe_num);
MEMBER(hal_receive, count, struct halReportRecvInfo, report_cqe_num);
SIZE(hal_slots_in, struct halSqMemGetInput);
SIZE(hal_slots_out, struct halSqMemGetOutput);
SIZE(hal_ready_in, struct halReportInfoInput);
MEMBER(hal_ready_in, group, struct halReportInfoInput, grpId);
MEMBER(hal_ready_in, timeout_ms, struct halReportInfoInput, timeout);
SIZE(hal_reports_in, struct halReportGetInput);
MEMBER(hal_reports_in, reports, struct halReportGetInput, cqId);
SIZE(hal_release, struct halReportReleaseInfo);
MEMBER(hal_release, reports, struct halReportReleaseInfo, cqId);
MEMBER(hal_release, count, struct halReportReleaseInfo, count);
SIZE(hal_ready, struct halReportInfoOutput);
SIZE(hal_reports, struct halReportGetOutput);
