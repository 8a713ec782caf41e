/* tests/abi/acl_abi.cc: the ABI of the ACL headers it is compiled against, as text.
 *
 * One line for each function (its type), each value (its type too), each struct and union with its fields (size,
 * alignment, offset, type) and each type name. Compiled against weir's headers and against the vendor's it prints the
 * same text, which is acl_abi.txt. The lists follow weir's headers; tests/tidy/ascendcl_lists.sh finds missing entries.
 *
 * The program calls no function of ACL and links no ACL library: it needs only types and constants.
 */
#include "acl/acl.h"
#include "acl/acl_base.h"
#include "acl/acl_mdl.h"
#include "acl/acl_op.h"
#include "acl/acl_op_compiler.h"
#include "acl/acl_rt.h"
#include "acl/acl_rt_allocator.h"
#include "acl/acl_rt_memory_soma.h"
#include "acl/error_codes/ge_error_codes.h"
#include "acl/error_codes/rt_error_codes.h"

#include "functions.h"

#include <cxxabi.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <typeinfo>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" // deprecated names are part of the ABI

template <typename T> struct in; // typeid(T) alone drops const

/* Returns the type's name after all typedefs, as the C++ ABI spells it. */
template <typename T> static std::string name_of()
{
    int status = 0;
    char *text = abi::__cxa_demangle(typeid(in<T> *).name(), nullptr, nullptr, &status);
    if (status != 0) abort();
    std::string name(text);
    free(text);
    return name.substr(3, name.size() - 5); // strips "in<" and ">*"
}

/* Removes and returns the first name of a list "A, B, C". */
static std::string next_name(std::string &names)
{
    const std::size_t end = names.find(',');
    const std::string name = names.substr(0, end);
    names = end == std::string::npos ? "" : names.substr(names.find_first_not_of(' ', end + 1));
    return name;
}

template <typename T> static void print_value(std::string &names, T value)
{
    const std::string name = next_name(names);
    if constexpr (std::is_enum_v<T>)
        printf("value %s = %lld, %s\n", name.c_str(), static_cast<long long>(value), name_of<T>().c_str());
    else if constexpr (std::is_unsigned_v<T>)
        printf("value %s = %llu, %s\n", name.c_str(), static_cast<unsigned long long>(value), name_of<T>().c_str());
    else printf("value %s = %lld, %s\n", name.c_str(), static_cast<long long>(value), name_of<T>().c_str());
}

template <typename... T> static void print_values(std::string names, T... values)
{
    (print_value(names, values), ...);
}

#define VALUES(...) print_values(#__VA_ARGS__, __VA_ARGS__)
#define ENUM(type)                                                                                                     \
    printf("enum %s: %s, stored as %s\n", #type, name_of<type>().c_str(),                                              \
           name_of<std::underlying_type_t<type>>().c_str())
#define LAYOUT(type)                                                                                                   \
    printf("%s %s: %s, %zu bytes, aligned to %zu\n", std::is_union_v<type> ? "union" : "struct", #type,                \
           name_of<type>().c_str(), sizeof(type), alignof(type))
#define FIELD(type, field)                                                                                             \
    printf("field %s.%s: at %zu, %s\n", #type, #field, offsetof(type, field), name_of<decltype(type::field)>().c_str())
#define TYPE(type) printf("type %s: %s\n", #type, name_of<type>().c_str())
#define FUNCTION(name, priority) printf("function %s: %s\n", #name, name_of<decltype(name)>().c_str());

static void print_acl_base_rt()
{
    VALUES(ACL_ERROR_NONE, ACL_SUCCESS, ACL_ERROR_INVALID_PARAM, ACL_ERROR_UNINITIALIZE, ACL_ERROR_REPEAT_INITIALIZE,
           ACL_ERROR_INVALID_FILE, ACL_ERROR_WRITE_FILE, ACL_ERROR_INVALID_FILE_SIZE, ACL_ERROR_PARSE_FILE,
           ACL_ERROR_FILE_MISSING_ATTR, ACL_ERROR_FILE_ATTR_INVALID, ACL_ERROR_INVALID_DUMP_CONFIG,
           ACL_ERROR_INVALID_PROFILING_CONFIG, ACL_ERROR_INVALID_MODEL_ID, ACL_ERROR_DESERIALIZE_MODEL,
           ACL_ERROR_PARSE_MODEL, ACL_ERROR_READ_MODEL_FAILURE, ACL_ERROR_MODEL_SIZE_INVALID,
           ACL_ERROR_MODEL_MISSING_ATTR, ACL_ERROR_MODEL_INPUT_NOT_MATCH, ACL_ERROR_MODEL_OUTPUT_NOT_MATCH,
           ACL_ERROR_MODEL_NOT_DYNAMIC, ACL_ERROR_OP_TYPE_NOT_MATCH, ACL_ERROR_OP_INPUT_NOT_MATCH,
           ACL_ERROR_OP_OUTPUT_NOT_MATCH, ACL_ERROR_OP_ATTR_NOT_MATCH, ACL_ERROR_OP_NOT_FOUND, ACL_ERROR_OP_LOAD_FAILED,
           ACL_ERROR_UNSUPPORTED_DATA_TYPE, ACL_ERROR_FORMAT_NOT_MATCH, ACL_ERROR_BIN_SELECTOR_NOT_REGISTERED,
           ACL_ERROR_KERNEL_NOT_FOUND, ACL_ERROR_BIN_SELECTOR_ALREADY_REGISTERED, ACL_ERROR_KERNEL_ALREADY_REGISTERED,
           ACL_ERROR_INVALID_QUEUE_ID, ACL_ERROR_REPEAT_SUBSCRIBE, ACL_ERROR_STREAM_NOT_SUBSCRIBE,
           ACL_ERROR_THREAD_NOT_SUBSCRIBE, ACL_ERROR_WAIT_CALLBACK_TIMEOUT, ACL_ERROR_REPEAT_FINALIZE,
           ACL_ERROR_NOT_STATIC_AIPP, ACL_ERROR_COMPILING_STUB_MODE, ACL_ERROR_GROUP_NOT_SET,
           ACL_ERROR_GROUP_NOT_CREATE, ACL_ERROR_PROF_ALREADY_RUN, ACL_ERROR_PROF_NOT_RUN, ACL_ERROR_DUMP_ALREADY_RUN,
           ACL_ERROR_DUMP_NOT_RUN, ACL_ERROR_PROF_REPEAT_SUBSCRIBE, ACL_ERROR_PROF_API_CONFLICT,
           ACL_ERROR_INVALID_MAX_OPQUEUE_NUM_CONFIG, ACL_ERROR_INVALID_OPP_PATH, ACL_ERROR_OP_UNSUPPORTED_DYNAMIC,
           ACL_ERROR_RELATIVE_RESOURCE_NOT_CLEARED, ACL_ERROR_UNSUPPORTED_JPEG, ACL_ERROR_INVALID_BUNDLE_MODEL_ID,
           ACL_ERROR_BAD_ALLOC, ACL_ERROR_API_NOT_SUPPORT, ACL_ERROR_INVALID_DEVICE, ACL_ERROR_MEMORY_ADDRESS_UNALIGNED,
           ACL_ERROR_RESOURCE_NOT_MATCH, ACL_ERROR_INVALID_RESOURCE_HANDLE, ACL_ERROR_FEATURE_UNSUPPORTED,
           ACL_ERROR_PROF_MODULES_UNSUPPORTED, ACL_ERROR_STORAGE_OVER_LIMIT, ACL_ERROR_INTERNAL_ERROR,
           ACL_ERROR_FAILURE, ACL_ERROR_GE_FAILURE, ACL_ERROR_RT_FAILURE, ACL_ERROR_DRV_FAILURE,
           ACL_ERROR_PROFILING_FAILURE);
    ENUM(aclDataType);
    VALUES(ACL_DT_UNDEFINED, ACL_FLOAT, ACL_FLOAT16, ACL_INT8, ACL_INT32, ACL_UINT8, ACL_INT16, ACL_UINT16, ACL_UINT32,
           ACL_INT64, ACL_UINT64, ACL_DOUBLE, ACL_BOOL, ACL_STRING, ACL_COMPLEX64, ACL_COMPLEX128, ACL_BF16, ACL_INT4,
           ACL_UINT1, ACL_COMPLEX32, ACL_HIFLOAT8, ACL_FLOAT8_E5M2, ACL_FLOAT8_E4M3FN, ACL_FLOAT8_E8M0, ACL_FLOAT6_E3M2,
           ACL_FLOAT6_E2M3, ACL_FLOAT4_E2M1, ACL_FLOAT4_E1M2);
    ENUM(aclFormat);
    VALUES(ACL_FORMAT_UNDEFINED, ACL_FORMAT_NCHW, ACL_FORMAT_NHWC, ACL_FORMAT_ND, ACL_FORMAT_NC1HWC0,
           ACL_FORMAT_FRACTAL_Z, ACL_FORMAT_NC1HWC0_C04, ACL_FORMAT_HWCN, ACL_FORMAT_NDHWC, ACL_FORMAT_FRACTAL_NZ,
           ACL_FORMAT_NCDHW, ACL_FORMAT_NDC1HWC0, ACL_FRACTAL_Z_3D, ACL_FORMAT_NC, ACL_FORMAT_NCL,
           ACL_FORMAT_FRACTAL_NZ_C0_16, ACL_FORMAT_FRACTAL_NZ_C0_32, ACL_FORMAT_FRACTAL_NZ_C0_2,
           ACL_FORMAT_FRACTAL_NZ_C0_4, ACL_FORMAT_FRACTAL_NZ_C0_8);
    ENUM(aclMemType);
    VALUES(ACL_MEMTYPE_DEVICE, ACL_MEMTYPE_HOST, ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT);
    TYPE(aclError);
    TYPE(aclFloat16);
    TYPE(aclDataBuffer);
    TYPE(aclrtStream);
    TYPE(aclrtEvent);
    TYPE(aclrtContext);
    TYPE(aclrtNotify);
    TYPE(aclrtCntNotify);
    TYPE(aclrtLabel);
    TYPE(aclrtLabelList);
    TYPE(aclrtMbuf);
    TYPE(aclrtTaskGrp);
    TYPE(aclmdlRITask);
    TYPE(aclrtAllocatorDesc);
    TYPE(aclrtAllocator);
    TYPE(aclrtAllocatorBlock);
    TYPE(aclrtAllocatorAddr);
}

static void print_rt_error_codes()
{
    VALUES(
        ACL_RT_SUCCESS, ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_INVALID_DEVICEID, ACL_ERROR_RT_CONTEXT_NULL,
        ACL_ERROR_RT_STREAM_CONTEXT, ACL_ERROR_RT_MODEL_CONTEXT, ACL_ERROR_RT_STREAM_MODEL,
        ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, ACL_ERROR_RT_ADDR_UNALIGNED,
        ACL_ERROR_RT_FILE_OPEN, ACL_ERROR_RT_FILE_WRITE, ACL_ERROR_RT_STREAM_SUBSCRIBE, ACL_ERROR_RT_THREAD_SUBSCRIBE,
        ACL_ERROR_RT_GROUP_NOT_SET, ACL_ERROR_RT_GROUP_NOT_CREATE, ACL_ERROR_RT_STREAM_NO_CB_REG,
        ACL_ERROR_RT_INVALID_MEMORY_TYPE, ACL_ERROR_RT_INVALID_HANDLE, ACL_ERROR_RT_INVALID_MALLOC_TYPE,
        ACL_ERROR_RT_WAIT_TIMEOUT, ACL_ERROR_RT_TASK_TIMEOUT, ACL_ERROR_RT_SYSPARAMOPT_NOT_SET,
        ACL_ERROR_RT_DEVICE_TASK_ABORT, ACL_ERROR_RT_STREAM_ABORT, ACL_ERROR_RT_CAPTURE_DEPENDENCY,
        ACL_ERROR_RT_STREAM_UNJOINED, ACL_ERROR_RT_MODEL_CAPTURED, ACL_ERROR_RT_STREAM_CAPTURED,
        ACL_ERROR_RT_EVENT_CAPTURED, ACL_ERROR_RT_STREAM_NOT_CAPTURED, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
        ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, ACL_ERROR_STREAM_CAPTURE_CONFLICT, ACL_ERROR_STREAM_TASK_GROUP_STATUS,
        ACL_ERROR_STREAM_TASK_GROUP_INTR, ACL_ERROR_RT_TASK_ABORT_STOP, ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED,
        ACL_ERROR_RT_MODEL_RUNNING, ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD, ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY,
        ACL_ERROR_RT_MODEL_UPDATE_FAILED, ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC, ACL_ERROR_RT_SYMBOL_NOT_FOUND,
        ACL_ERROR_RT_INVALID_SYMBOL, ACL_ERROR_RT_INVALID_DEVICE_FUNCTION, ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING,
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_MEMORY_ALLOCATION, ACL_ERROR_RT_MEMORY_FREE,
        ACL_ERROR_RT_AICORE_OVER_FLOW, ACL_ERROR_RT_NO_DEVICE, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
        ACL_ERROR_RT_NO_PERMISSION, ACL_ERROR_RT_NO_EVENT_RESOURCE, ACL_ERROR_RT_NO_STREAM_RESOURCE,
        ACL_ERROR_RT_NO_NOTIFY_RESOURCE, ACL_ERROR_RT_NO_MODEL_RESOURCE, ACL_ERROR_RT_NO_CDQ_RESOURCE,
        ACL_ERROR_RT_OVER_LIMIT, ACL_ERROR_RT_QUEUE_EMPTY, ACL_ERROR_RT_QUEUE_FULL, ACL_ERROR_RT_REPEATED_INIT,
        ACL_ERROR_RT_AIVEC_OVER_FLOW, ACL_ERROR_RT_OVER_FLOW, ACL_ERROR_RT_DEVICE_OOM,
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT_UPDATE_OP, ACL_ERROR_RT_TIMEOUT, ACL_ERROR_RT_LINK_TYPE_NOT_SUPPORTED,
        ACL_ERROR_RT_INTERNAL_ERROR, ACL_ERROR_RT_TS_ERROR, ACL_ERROR_RT_STREAM_TASK_FULL,
        ACL_ERROR_RT_STREAM_TASK_EMPTY, ACL_ERROR_RT_STREAM_NOT_COMPLETE, ACL_ERROR_RT_END_OF_SEQUENCE,
        ACL_ERROR_RT_EVENT_NOT_COMPLETE, ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, ACL_ERROR_RT_SOC_VERSION,
        ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, ACL_ERROR_RT_LOST_HEARTBEAT, ACL_ERROR_RT_MODEL_EXECUTE,
        ACL_ERROR_RT_REPORT_TIMEOUT, ACL_ERROR_RT_SYS_DMA, ACL_ERROR_RT_AICORE_TIMEOUT, ACL_ERROR_RT_AICORE_EXCEPTION,
        ACL_ERROR_RT_AICORE_TRAP_EXCEPTION, ACL_ERROR_RT_AICPU_TIMEOUT, ACL_ERROR_RT_AICPU_EXCEPTION,
        ACL_ERROR_RT_AICPU_DATADUMP_RSP_ERR, ACL_ERROR_RT_AICPU_MODEL_RSP_ERR, ACL_ERROR_RT_PROFILING_ERROR,
        ACL_ERROR_RT_IPC_ERROR, ACL_ERROR_RT_MODEL_ABORT_NORMAL, ACL_ERROR_RT_KERNEL_UNREGISTERING,
        ACL_ERROR_RT_RINGBUFFER_NOT_INIT, ACL_ERROR_RT_RINGBUFFER_NO_DATA, ACL_ERROR_RT_KERNEL_LOOKUP,
        ACL_ERROR_RT_KERNEL_DUPLICATE, ACL_ERROR_RT_DEBUG_REGISTER_FAIL, ACL_ERROR_RT_DEBUG_UNREGISTER_FAIL,
        ACL_ERROR_RT_LABEL_CONTEXT, ACL_ERROR_RT_PROGRAM_USE_OUT, ACL_ERROR_RT_DEV_SETUP_ERROR,
        ACL_ERROR_RT_VECTOR_CORE_TIMEOUT, ACL_ERROR_RT_VECTOR_CORE_EXCEPTION, ACL_ERROR_RT_VECTOR_CORE_TRAP_EXCEPTION,
        ACL_ERROR_RT_CDQ_BATCH_ABNORMAL, ACL_ERROR_RT_DIE_MODE_CHANGE_ERROR, ACL_ERROR_RT_DIE_SET_ERROR,
        ACL_ERROR_RT_INVALID_DIEID, ACL_ERROR_RT_DIE_MODE_NOT_SET, ACL_ERROR_RT_AICORE_TRAP_READ_OVERFLOW,
        ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW, ACL_ERROR_RT_VECTOR_CORE_TRAP_READ_OVERFLOW,
        ACL_ERROR_RT_VECTOR_CORE_TRAP_WRITE_OVERFLOW, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
        ACL_ERROR_RT_FFTS_PLUS_TIMEOUT, ACL_ERROR_RT_FFTS_PLUS_EXCEPTION, ACL_ERROR_RT_FFTS_PLUS_TRAP_EXCEPTION,
        ACL_ERROR_RT_SEND_MSG, ACL_ERROR_RT_COPY_DATA, ACL_ERROR_RT_DEVICE_MEM_ERROR,
        ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR, ACL_ERROR_RT_SUSPECT_DEVICE_MEM_ERROR, ACL_ERROR_RT_LINK_ERROR,
        ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, ACL_ERROR_RT_DRV_INTERNAL_ERROR, ACL_ERROR_RT_AICPU_INTERNAL_ERROR,
        ACL_ERROR_RT_SOCKET_CLOSE, ACL_ERROR_RT_AICPU_INFO_LOAD_RSP_ERR, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
        ACL_ERROR_RT_COMM_OP_RETRY_FAIL, ACL_ERROR_SNAPSHOT_LOCK_TIMEOUT, ACL_ERROR_SNAPSHOT_LOCK_FAILED,
        ACL_ERROR_SNAPSHOT_UNLOCK_FAILED, ACL_ERROR_SNAPSHOT_BACKUP_FAILED, ACL_ERROR_SNAPSHOT_RESTORE_FAILED,
        ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, ACL_ERROR_HOST_MEMORY_NOT_REGISTERED,
        ACL_ERROR_SNAPSHOT_CALLBACK_FAILED, ACL_ERROR_SNAPSHOT_REGISTER_CALLBACK_FAILED, ACL_ERROR_RT_L3_PORT_ERROR,
        ACL_ERROR_RT_CCU_TIMEOUT, ACL_ERROR_RT_CCU_EXCEPTION);
}

static void print_ge_error_codes()
{
    VALUES(ACL_ERROR_GE_PARAM_INVALID, ACL_ERROR_GE_EXEC_NOT_INIT, ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID,
           ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID,
           ACL_ERROR_GE_EXEC_MODEL_ADDR_INVALID, ACL_ERROR_GE_EXEC_MODEL_QUEUE_ID_INVALID,
           ACL_ERROR_GE_EXEC_LOAD_MODEL_REPEATED, ACL_ERROR_GE_DYNAMIC_INPUT_ADDR_INVALID,
           ACL_ERROR_GE_DYNAMIC_INPUT_LENGTH_INVALID, ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID,
           ACL_ERROR_GE_AIPP_BATCH_EMPTY, ACL_ERROR_GE_AIPP_NOT_EXIST, ACL_ERROR_GE_AIPP_MODE_INVALID,
           ACL_ERROR_GE_OP_TASK_TYPE_INVALID, ACL_ERROR_GE_OP_KERNEL_TYPE_INVALID, ACL_ERROR_GE_PLGMGR_PATH_INVALID,
           ACL_ERROR_GE_FORMAT_INVALID, ACL_ERROR_GE_SHAPE_INVALID, ACL_ERROR_GE_DATATYPE_INVALID,
           ACL_ERROR_GE_MEMORY_ALLOCATION, ACL_ERROR_GE_MEMORY_OPERATE_FAILED,
           ACL_ERROR_GE_DEVICE_MEMORY_OPERATE_FAILED, ACL_ERROR_GE_SUBHEALTHY, ACL_ERROR_GE_USER_RAISE_EXCEPTION,
           ACL_ERROR_GE_DATA_NOT_ALIGNED, ACL_ERROR_GE_INTERNAL_ERROR, ACL_ERROR_GE_LOAD_MODEL,
           ACL_ERROR_GE_EXEC_LOAD_MODEL_PARTITION_FAILED, ACL_ERROR_GE_EXEC_LOAD_WEIGHT_PARTITION_FAILED,
           ACL_ERROR_GE_EXEC_LOAD_TASK_PARTITION_FAILED, ACL_ERROR_GE_EXEC_LOAD_KERNEL_PARTITION_FAILED,
           ACL_ERROR_GE_EXEC_RELEASE_MODEL_DATA, ACL_ERROR_GE_COMMAND_HANDLE, ACL_ERROR_GE_GET_TENSOR_INFO,
           ACL_ERROR_GE_UNLOAD_MODEL, ACL_ERROR_GE_MODEL_EXECUTE_TIMEOUT, ACL_ERROR_GE_REDEPLOYING);
}

static void print_acl_base_mdl()
{
    VALUES(ACL_TENSOR_SHAPE_RANGE_NUM, ACL_TENSOR_VALUE_RANGE_NUM, ACL_UNKNOWN_RANK);
    TYPE(aclTensorDesc);
}

static void print_acl_rt_allocator()
{
    TYPE(aclrtAllocatorAllocFunc);
    TYPE(aclrtAllocatorFreeFunc);
    TYPE(aclrtAllocatorAllocAdviseFunc);
    TYPE(aclrtAllocatorGetAddrFromBlockFunc);
}

static void print_acl_rt()
{
    VALUES(ACL_MAJOR_VERSION, ACL_MINOR_VERSION, ACL_PATCH_VERSION, ACL_STREAM_FAST_LAUNCH, ACL_STREAM_FAST_SYNC,
           ACL_STREAM_PERSISTENT, ACL_STREAM_HUGE, ACL_STREAM_CPU_SCHEDULE, ACL_STREAM_DEVICE_USE_ONLY,
           ACL_CONTINUE_ON_FAILURE, ACL_STOP_ON_FAILURE, ACL_EVENT_SYNC, ACL_EVENT_CAPTURE_STREAM_PROGRESS,
           ACL_EVENT_TIME_LINE, ACL_EVENT_DEVICE_USE_ONLY, ACL_EVENT_EXTERNAL, ACL_EVENT_IPC, ACL_HOST_REG_MAPPED,
           ACL_HOST_REG_IOMEMORY, ACL_HOST_REG_READONLY, ACL_HOST_REG_PINNED, ACL_RT_VMM_EXPORT_FLAG_DEFAULT,
           ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT,
           ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION, ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT,
           ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS, ACL_STREAM_WAIT_VALUE_GEQ, ACL_STREAM_WAIT_VALUE_EQ,
           ACL_STREAM_WAIT_VALUE_AND, ACL_STREAM_WAIT_VALUE_NOR, ACL_NOTIFY_DEFAULT, ACL_NOTIFY_DEVICE_USE_ONLY,
           ACL_RT_MEM_UCE_INFO_MAX_NUM, MAX_MEM_UCE_INFO_ARRAY_SIZE, UCE_INFO_RESERVED_SIZE,
           ACL_HOST_DEVICE_CONNECT_TYPE_PCIE, ACL_HOST_DEVICE_CONNECT_TYPE_HCCS, ACL_HOST_DEVICE_CONNECT_TYPE_UB,
           ACL_DEVICE_FORM_FACTOR_POD, ACL_DEVICE_FORM_FACTOR_A_K, ACL_DEVICE_FORM_FACTOR_A_X,
           ACL_DEVICE_FORM_FACTOR_PCIE_CARD, ACL_RT_BINARY_MAGIC_ELF_AICORE, ACL_RT_BINARY_MAGIC_ELF_VECTOR_CORE,
           ACL_RT_BINARY_MAGIC_ELF_CUBE_CORE, ACL_RT_MEM_ATTACH_GLOBAL);
    ENUM(aclrtStreamStatus);
    VALUES(ACL_STREAM_STATUS_COMPLETE, ACL_STREAM_STATUS_NOT_READY, ACL_STREAM_STATUS_RESERVED);
    ENUM(aclrtStreamState);
    VALUES(ACL_RT_STREAM_STATE_CREATE_POST, ACL_RT_STREAM_STATE_DESTROY_PRE);
    ENUM(aclrtEventStatus);
    VALUES(ACL_EVENT_STATUS_COMPLETE, ACL_EVENT_STATUS_NOT_READY, ACL_EVENT_STATUS_RESERVED);
    ENUM(aclrtEventRecordedStatus);
    VALUES(ACL_EVENT_RECORDED_STATUS_NOT_READY, ACL_EVENT_RECORDED_STATUS_COMPLETE);
    ENUM(aclrtEventWaitStatus);
    VALUES(ACL_EVENT_WAIT_STATUS_COMPLETE, ACL_EVENT_WAIT_STATUS_NOT_READY, ACL_EVENT_WAIT_STATUS_RESERVED);
    ENUM(aclrtMemMallocPolicy);
    VALUES(ACL_MEM_MALLOC_HUGE_FIRST, ACL_MEM_MALLOC_HUGE_ONLY, ACL_MEM_MALLOC_NORMAL_ONLY,
           ACL_MEM_MALLOC_HUGE_FIRST_P2P, ACL_MEM_MALLOC_HUGE_ONLY_P2P, ACL_MEM_MALLOC_NORMAL_ONLY_P2P,
           ACL_MEM_MALLOC_HUGE1G_ONLY, ACL_MEM_MALLOC_HUGE1G_ONLY_P2P, ACL_MEM_TYPE_LOW_BAND_WIDTH,
           ACL_MEM_TYPE_HIGH_BAND_WIDTH, ACL_MEM_ACCESS_USER_SPACE_READONLY);
    ENUM(aclrtMemAttr);
    VALUES(ACL_DDR_MEM, ACL_HBM_MEM, ACL_DDR_MEM_HUGE, ACL_DDR_MEM_NORMAL, ACL_HBM_MEM_HUGE, ACL_HBM_MEM_NORMAL,
           ACL_DDR_MEM_P2P_HUGE, ACL_DDR_MEM_P2P_NORMAL, ACL_HBM_MEM_P2P_HUGE, ACL_HBM_MEM_P2P_NORMAL,
           ACL_HBM_MEM_HUGE1G, ACL_HBM_MEM_P2P_HUGE1G, ACL_MEM_NORMAL, ACL_MEM_HUGE, ACL_MEM_HUGE1G, ACL_MEM_P2P_NORMAL,
           ACL_MEM_P2P_HUGE, ACL_MEM_P2P_HUGE1G);
    ENUM(aclrtMallocAttrType);
    VALUES(ACL_RT_MEM_ATTR_RSV, ACL_RT_MEM_ATTR_MODULE_ID, ACL_RT_MEM_ATTR_DEVICE_ID, ACL_RT_MEM_ATTR_VA_FLAG);
    ENUM(aclrtMemcpyKind);
    VALUES(ACL_MEMCPY_HOST_TO_HOST, ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST, ACL_MEMCPY_DEVICE_TO_DEVICE,
           ACL_MEMCPY_DEFAULT, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE,
           ACL_MEMCPY_INTER_DEVICE_TO_DEVICE);
    ENUM(aclrtCallbackBlockType);
    VALUES(ACL_CALLBACK_NO_BLOCK, ACL_CALLBACK_BLOCK);
    ENUM(aclrtMemLocationType);
    VALUES(ACL_MEM_LOCATION_TYPE_HOST, ACL_MEM_LOCATION_TYPE_DEVICE, ACL_MEM_LOCATION_TYPE_UNREGISTERED,
           ACL_MEM_LOCATION_TYPE_MANAGED, ACL_MEM_LOCATION_TYPE_HOST_NUMA);
    ENUM(aclrtMemAllocationType);
    VALUES(ACL_MEM_ALLOCATION_TYPE_PINNED);
    ENUM(aclrtMemHandleType);
    VALUES(ACL_MEM_HANDLE_TYPE_NONE, ACL_MEM_HANDLE_TYPE_POSIX);
    ENUM(aclrtMemGranularityOptions);
    VALUES(ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED,
           ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF);
    ENUM(aclrtMemAccessFlags);
    VALUES(ACL_RT_MEM_ACCESS_FLAGS_NONE, ACL_RT_MEM_ACCESS_FLAGS_READ, ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    ENUM(aclrtHostRegisterType);
    VALUES(ACL_HOST_REGISTER_MAPPED, ACL_HOST_REGISTER_IOMEMORY, ACL_HOST_REGISTER_READONLY);
    ENUM(aclmdlRICaptureMode);
    VALUES(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL, ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
    ENUM(aclrtMemSharedHandleType);
    VALUES(ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC);
    ENUM(aclrtStreamConfigAttr);
    VALUES(ACL_RT_STREAM_WORK_ADDR_PTR, ACL_RT_STREAM_WORK_SIZE, ACL_RT_STREAM_FLAG, ACL_RT_STREAM_PRIORITY);
    ENUM(aclrtLastErrLevel);
    VALUES(ACL_RT_THREAD_LEVEL);
    ENUM(aclrtErrorType);
    VALUES(ACL_RT_NO_ERROR, ACL_RT_ERROR_MEMORY, ACL_RT_ERROR_L2, ACL_RT_ERROR_AICORE, ACL_RT_ERROR_LINK,
           ACL_RT_ERROR_L3_PORT, ACL_RT_ERROR_OTHERS);
    ENUM(aclrtAicoreErrorType);
    VALUES(ACL_RT_AICORE_ERROR_UNKNOWN, ACL_RT_AICORE_ERROR_SW, ACL_RT_AICORE_ERROR_HW_LOCAL);
    ENUM(aclrtRunMode);
    VALUES(ACL_DEVICE, ACL_HOST);
    ENUM(aclrtDevAttr);
    VALUES(ACL_DEV_ATTR_AICPU_CORE_NUM, ACL_DEV_ATTR_AICORE_CORE_NUM, ACL_DEV_ATTR_CUBE_CORE_NUM,
           ACL_DEV_ATTR_VECTOR_CORE_NUM, ACL_DEV_ATTR_WARP_SIZE, ACL_DEV_ATTR_MAX_THREAD_PER_VECTOR_CORE,
           ACL_DEV_ATTR_LOCAL_MEM_PER_VECTOR_CORE, ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE, ACL_DEV_ATTR_MAX_GRID_DIM_X,
           ACL_DEV_ATTR_MAX_GRID_DIM_Y, ACL_DEV_ATTR_MAX_GRID_DIM_Z, ACL_DEV_ATTR_MAX_BLOCK_PER_GRID,
           ACL_DEV_ATTR_MAX_THREADS_PER_BLOCK, ACL_DEV_ATTR_MAX_BLOCK_DIM_X, ACL_DEV_ATTR_MAX_BLOCK_DIM_Y,
           ACL_DEV_ATTR_MAX_BLOCK_DIM_Z, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, ACL_DEV_ATTR_L2_CACHE_SIZE,
           ACL_DEV_ATTR_SMP_ID, ACL_DEV_ATTR_PHY_CHIP_ID, ACL_DEV_ATTR_SUPER_POD_DEVIDE_ID,
           ACL_DEV_ATTR_SUPER_POD_DEVICE_ID, ACL_DEV_ATTR_SUPER_POD_SERVER_ID, ACL_DEV_ATTR_SUPER_POD_ID,
           ACL_DEV_ATTR_CUST_OP_PRIVILEGE, ACL_DEV_ATTR_MAINBOARD_ID, ACL_DEV_ATTR_HD_CONNECT_TYPE,
           ACL_DEV_ATTR_DEVICE_FORM_FACTOR, ACL_DEV_ATTR_IS_VIRTUAL, ACL_DEV_ATTR_NPU_ARCH);
    ENUM(aclrtDeviceStatus);
    VALUES(ACL_RT_DEVICE_STATUS_NORMAL, ACL_RT_DEVICE_STATUS_ABNORMAL, ACL_RT_DEVICE_STATUS_END);
    ENUM(aclrtDevResLimitType);
    VALUES(ACL_RT_DEV_RES_CUBE_CORE, ACL_RT_DEV_RES_VECTOR_CORE);
    ENUM(aclrtBinaryLoadOptionType);
    VALUES(ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD, ACL_RT_BINARY_LOAD_OPT_LAZY_MAGIC, ACL_RT_BINARY_LOAD_OPT_MAGIC,
           ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE);
    ENUM(aclrtEngineType);
    VALUES(ACL_RT_ENGINE_TYPE_AIC, ACL_RT_ENGINE_TYPE_AIV);
    ENUM(aclrtLaunchKernelAttrId);
    VALUES(ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE, ACL_RT_LAUNCH_KERNEL_ATTR_LOCAL_MEMORY_SIZE,
           ACL_RT_LAUNCH_KERNEL_ATTR_DYN_UBUF_SIZE, ACL_RT_LAUNCH_KERNEL_ATTR_ENGINE_TYPE,
           ACL_RT_LAUNCH_KERNEL_ATTR_BLOCKDIM_OFFSET, ACL_RT_LAUNCH_KERNEL_ATTR_BLOCK_TASK_PREFETCH,
           ACL_RT_LAUNCH_KERNEL_ATTR_DATA_DUMP, ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT, ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US,
           ACL_RT_LAUNCH_KERNEL_ATTR_ENABLE_PROFILING);
    LAYOUT(aclrtMallocAttrValue);
    FIELD(aclrtMallocAttrValue, moduleId);
    FIELD(aclrtMallocAttrValue, deviceId);
    FIELD(aclrtMallocAttrValue, vaFlag);
    FIELD(aclrtMallocAttrValue, rsv);
    LAYOUT(aclrtMallocAttribute);
    FIELD(aclrtMallocAttribute, attr);
    FIELD(aclrtMallocAttribute, value);
    LAYOUT(aclrtMallocConfig);
    FIELD(aclrtMallocConfig, attrs);
    FIELD(aclrtMallocConfig, numAttrs);
    LAYOUT(aclrtMemLocation);
    FIELD(aclrtMemLocation, id);
    FIELD(aclrtMemLocation, type);
    LAYOUT(aclrtPhysicalMemProp);
    FIELD(aclrtPhysicalMemProp, handleType);
    FIELD(aclrtPhysicalMemProp, allocationType);
    FIELD(aclrtPhysicalMemProp, memAttr);
    FIELD(aclrtPhysicalMemProp, location);
    FIELD(aclrtPhysicalMemProp, reserve);
    LAYOUT(aclrtMemAccessDesc);
    FIELD(aclrtMemAccessDesc, flags);
    FIELD(aclrtMemAccessDesc, location);
    FIELD(aclrtMemAccessDesc, rsv);
    LAYOUT(aclrtPtrAttributes);
    FIELD(aclrtPtrAttributes, location);
    FIELD(aclrtPtrAttributes, pageSize);
    FIELD(aclrtPtrAttributes, rsv);
    LAYOUT(aclrtMemFabricHandle);
    FIELD(aclrtMemFabricHandle, data);
    LAYOUT(aclrtMemcpyBatchAttr);
    FIELD(aclrtMemcpyBatchAttr, dstLoc);
    FIELD(aclrtMemcpyBatchAttr, srcLoc);
    FIELD(aclrtMemcpyBatchAttr, rsv);
    LAYOUT(aclrtStreamConfigHandle);
    FIELD(aclrtStreamConfigHandle, workptr);
    FIELD(aclrtStreamConfigHandle, workSize);
    FIELD(aclrtStreamConfigHandle, flag);
    FIELD(aclrtStreamConfigHandle, priority);
    LAYOUT(aclrtMemUceInfo);
    FIELD(aclrtMemUceInfo, addr);
    FIELD(aclrtMemUceInfo, len);
    FIELD(aclrtMemUceInfo, reserved);
    LAYOUT(aclrtMemUceInfoArray);
    FIELD(aclrtMemUceInfoArray, arraySize);
    FIELD(aclrtMemUceInfoArray, memUceInfoArray);
    LAYOUT(aclrtErrorInfoDetail);
    FIELD(aclrtErrorInfoDetail, uceInfo);
    FIELD(aclrtErrorInfoDetail, aicoreErrType);
    LAYOUT(aclrtErrorInfo);
    FIELD(aclrtErrorInfo, tryRepair);
    FIELD(aclrtErrorInfo, hasDetail);
    FIELD(aclrtErrorInfo, reserved);
    FIELD(aclrtErrorInfo, errorType);
    FIELD(aclrtErrorInfo, detail);
    LAYOUT(aclrtUtilizationInfo);
    FIELD(aclrtUtilizationInfo, cubeUtilization);
    FIELD(aclrtUtilizationInfo, vectorUtilization);
    FIELD(aclrtUtilizationInfo, aicpuUtilization);
    FIELD(aclrtUtilizationInfo, memoryUtilization);
    FIELD(aclrtUtilizationInfo, utilizationExtend);
    LAYOUT(aclrtBinaryLoadOptionValue);
    FIELD(aclrtBinaryLoadOptionValue, isLazyLoad);
    FIELD(aclrtBinaryLoadOptionValue, magic);
    FIELD(aclrtBinaryLoadOptionValue, cpuKernelMode);
    FIELD(aclrtBinaryLoadOptionValue, rsv);
    LAYOUT(aclrtBinaryLoadOption);
    FIELD(aclrtBinaryLoadOption, type);
    FIELD(aclrtBinaryLoadOption, value);
    LAYOUT(aclrtBinaryLoadOptions);
    FIELD(aclrtBinaryLoadOptions, options);
    FIELD(aclrtBinaryLoadOptions, numOpt);
    LAYOUT(aclrtTimeoutUs);
    FIELD(aclrtTimeoutUs, timeoutLow);
    FIELD(aclrtTimeoutUs, timeoutHigh);
    LAYOUT(aclrtLaunchKernelAttrValue);
    FIELD(aclrtLaunchKernelAttrValue, schemMode);
    FIELD(aclrtLaunchKernelAttrValue, localMemorySize);
    FIELD(aclrtLaunchKernelAttrValue, dynUBufSize);
    FIELD(aclrtLaunchKernelAttrValue, engineType);
    FIELD(aclrtLaunchKernelAttrValue, blockDimOffset);
    FIELD(aclrtLaunchKernelAttrValue, isBlockTaskPrefetch);
    FIELD(aclrtLaunchKernelAttrValue, isDataDump);
    FIELD(aclrtLaunchKernelAttrValue, timeout);
    FIELD(aclrtLaunchKernelAttrValue, timeoutUs);
    FIELD(aclrtLaunchKernelAttrValue, enableProfiling);
    FIELD(aclrtLaunchKernelAttrValue, rsv);
    LAYOUT(aclrtLaunchKernelAttr);
    FIELD(aclrtLaunchKernelAttr, id);
    FIELD(aclrtLaunchKernelAttr, value);
    LAYOUT(aclrtLaunchKernelCfg);
    FIELD(aclrtLaunchKernelCfg, attrs);
    FIELD(aclrtLaunchKernelCfg, numAttrs);
    TYPE(aclrtDrvMemHandle);
    TYPE(aclmdlRI);
    TYPE(aclrtBinary);
    TYPE(aclrtBinHandle);
    TYPE(aclrtFuncHandle);
    TYPE(aclrtArgsHandle);
    TYPE(aclrtParamHandle);
    TYPE(aclrtExceptionInfo);
    TYPE(aclrtUtilizationExtendInfo);
    TYPE(aclrtStreamStateCallback);
    TYPE(aclrtCallback);
    TYPE(aclrtHostFunc);
    TYPE(aclrtExceptionInfoCallback);
}

static void print_acl_rt_memory_soma()
{
    ENUM(aclrtMemPoolAttr);
    VALUES(ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC,
           ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD,
           ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH,
           ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH);
    LAYOUT(aclrtMemPoolProps);
    FIELD(aclrtMemPoolProps, allocType);
    FIELD(aclrtMemPoolProps, handleType);
    FIELD(aclrtMemPoolProps, location);
    FIELD(aclrtMemPoolProps, maxSize);
    FIELD(aclrtMemPoolProps, reserved);
    TYPE(aclrtMemPool);
}

static void print_acl_op()
{
    ENUM(aclopEngineType);
    VALUES(ACL_ENGINE_SYS, ACL_ENGINE_AICORE, ACL_ENGINE_VECTOR);
    TYPE(aclopAttr);
}

static void print_acl_op_compiler()
{
    ENUM(aclopCompileType);
    VALUES(ACL_COMPILE_SYS, ACL_COMPILE_UNREGISTERED);
}

static void print_acl_mdl()
{
    VALUES(ACL_MAX_DIM_CNT, ACL_MAX_TENSOR_NAME_LEN);
    LAYOUT(aclmdlIODims);
    FIELD(aclmdlIODims, name);
    FIELD(aclmdlIODims, dimCount);
    FIELD(aclmdlIODims, dims);
    TYPE(aclmdlDataset);
    TYPE(aclmdlDesc);
}

int main()
{
    print_acl_base_rt();
    print_rt_error_codes();
    print_ge_error_codes();
    print_acl_base_mdl();
    print_acl_rt_allocator();
    print_acl_rt();
    print_acl_rt_memory_soma();
    print_acl_op();
    print_acl_op_compiler();
    print_acl_mdl();
    ACL_FUNCTION_LIST(FUNCTION)
}
