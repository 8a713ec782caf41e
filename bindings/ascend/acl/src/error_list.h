/* bindings/ascend/acl/src/error_list.h: X(value, NAME, text), by value.
 *
 * Names and values are ACL's (acl_base_rt.h, rt_error_codes.h); the list has numbers for the values because an older
 * CANN lacks the newer names. Some texts only repeat the name in words. */
#ifndef WEIR_ACL_ERROR_LIST_H
#define WEIR_ACL_ERROR_LIST_H

#define WEIR_ACL_ERROR_LIST(X)                                                                                         \
    X(100000, ACL_ERROR_INVALID_PARAM, "an argument is NULL, zero or out of range")                                    \
    X(100001, ACL_ERROR_UNINITIALIZE, "aclInit has not been called")                                                   \
    X(100002, ACL_ERROR_REPEAT_INITIALIZE, "aclInit has been called already")                                          \
    X(100003, ACL_ERROR_INVALID_FILE, "invalid file")                                                                  \
    X(100004, ACL_ERROR_WRITE_FILE, "write file")                                                                      \
    X(100005, ACL_ERROR_INVALID_FILE_SIZE, "invalid file size")                                                        \
    X(100006, ACL_ERROR_PARSE_FILE, "parse file")                                                                      \
    X(100007, ACL_ERROR_FILE_MISSING_ATTR, "file missing attr")                                                        \
    X(100008, ACL_ERROR_FILE_ATTR_INVALID, "file attr invalid")                                                        \
    X(100009, ACL_ERROR_INVALID_DUMP_CONFIG, "invalid dump config")                                                    \
    X(100010, ACL_ERROR_INVALID_PROFILING_CONFIG, "invalid profiling config")                                          \
    X(100011, ACL_ERROR_INVALID_MODEL_ID, "invalid model id")                                                          \
    X(100012, ACL_ERROR_DESERIALIZE_MODEL, "deserialize model")                                                        \
    X(100013, ACL_ERROR_PARSE_MODEL, "parse model")                                                                    \
    X(100014, ACL_ERROR_READ_MODEL_FAILURE, "read model failure")                                                      \
    X(100015, ACL_ERROR_MODEL_SIZE_INVALID, "model size invalid")                                                      \
    X(100016, ACL_ERROR_MODEL_MISSING_ATTR, "model missing attr")                                                      \
    X(100017, ACL_ERROR_MODEL_INPUT_NOT_MATCH, "model input not match")                                                \
    X(100018, ACL_ERROR_MODEL_OUTPUT_NOT_MATCH, "model output not match")                                              \
    X(100019, ACL_ERROR_MODEL_NOT_DYNAMIC, "model not dynamic")                                                        \
    X(100020, ACL_ERROR_OP_TYPE_NOT_MATCH, "op type not match")                                                        \
    X(100021, ACL_ERROR_OP_INPUT_NOT_MATCH, "op input not match")                                                      \
    X(100022, ACL_ERROR_OP_OUTPUT_NOT_MATCH, "op output not match")                                                    \
    X(100023, ACL_ERROR_OP_ATTR_NOT_MATCH, "op attr not match")                                                        \
    X(100024, ACL_ERROR_OP_NOT_FOUND, "op not found")                                                                  \
    X(100025, ACL_ERROR_OP_LOAD_FAILED, "op load failed")                                                              \
    X(100026, ACL_ERROR_UNSUPPORTED_DATA_TYPE, "unsupported data type")                                                \
    X(100027, ACL_ERROR_FORMAT_NOT_MATCH, "format not match")                                                          \
    X(100028, ACL_ERROR_BIN_SELECTOR_NOT_REGISTERED, "bin selector not registered")                                    \
    X(100029, ACL_ERROR_KERNEL_NOT_FOUND, "kernel not found")                                                          \
    X(100030, ACL_ERROR_BIN_SELECTOR_ALREADY_REGISTERED, "bin selector already registered")                            \
    X(100031, ACL_ERROR_KERNEL_ALREADY_REGISTERED, "kernel already registered")                                        \
    X(100032, ACL_ERROR_INVALID_QUEUE_ID, "invalid queue id")                                                          \
    X(100033, ACL_ERROR_REPEAT_SUBSCRIBE, "repeat subscribe")                                                          \
    X(100034, ACL_ERROR_STREAM_NOT_SUBSCRIBE, "stream not subscribe")                                                  \
    X(100035, ACL_ERROR_THREAD_NOT_SUBSCRIBE, "thread not subscribe")                                                  \
    X(100036, ACL_ERROR_WAIT_CALLBACK_TIMEOUT, "wait callback timeout")                                                \
    X(100037, ACL_ERROR_REPEAT_FINALIZE, "aclFinalize has been called already")                                        \
    X(100038, ACL_ERROR_NOT_STATIC_AIPP, "not static aipp")                                                            \
    X(100039, ACL_ERROR_COMPILING_STUB_MODE, "compiling stub mode")                                                    \
    X(100040, ACL_ERROR_GROUP_NOT_SET, "group not set")                                                                \
    X(100041, ACL_ERROR_GROUP_NOT_CREATE, "group not create")                                                          \
    X(100042, ACL_ERROR_PROF_ALREADY_RUN, "prof already run")                                                          \
    X(100043, ACL_ERROR_PROF_NOT_RUN, "prof not run")                                                                  \
    X(100044, ACL_ERROR_DUMP_ALREADY_RUN, "dump already run")                                                          \
    X(100045, ACL_ERROR_DUMP_NOT_RUN, "dump not run")                                                                  \
    X(107000, ACL_ERROR_RT_PARAM_INVALID, "the runtime refuses an argument")                                           \
    X(107001, ACL_ERROR_RT_INVALID_DEVICEID, "no device has this number")                                              \
    X(107002, ACL_ERROR_RT_CONTEXT_NULL, "the calling thread has no current context")                                  \
    X(107003, ACL_ERROR_RT_STREAM_CONTEXT, "the stream is not of the current context")                                 \
    X(107004, ACL_ERROR_RT_MODEL_CONTEXT, "model context")                                                             \
    X(107005, ACL_ERROR_RT_STREAM_MODEL, "stream model")                                                               \
    X(107006, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "event timestamp invalid")                                         \
    X(107007, ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "event timestamp reversal")                                       \
    X(107008, ACL_ERROR_RT_ADDR_UNALIGNED, "the address is not aligned")                                               \
    X(107009, ACL_ERROR_RT_FILE_OPEN, "file open")                                                                     \
    X(107010, ACL_ERROR_RT_FILE_WRITE, "file write")                                                                   \
    X(107011, ACL_ERROR_RT_STREAM_SUBSCRIBE, "the stream is subscribed in another way")                                \
    X(107012, ACL_ERROR_RT_THREAD_SUBSCRIBE, "the thread is not subscribed to a stream")                               \
    X(107013, ACL_ERROR_RT_GROUP_NOT_SET, "group not set")                                                             \
    X(107014, ACL_ERROR_RT_GROUP_NOT_CREATE, "group not create")                                                       \
    X(107015, ACL_ERROR_RT_STREAM_NO_CB_REG, "nobody processes this stream's callbacks")                               \
    X(107016, ACL_ERROR_RT_INVALID_MEMORY_TYPE, "the memory is of the wrong kind")                                     \
    X(107017, ACL_ERROR_RT_INVALID_HANDLE, "the handle is not, or no longer, valid")                                   \
    X(107018, ACL_ERROR_RT_INVALID_MALLOC_TYPE, "no such way to allocate")                                             \
    X(107019, ACL_ERROR_RT_WAIT_TIMEOUT, "the time to wait is over")                                                   \
    X(107020, ACL_ERROR_RT_TASK_TIMEOUT, "a task took too long")                                                       \
    X(107021, ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, "sysparamopt not set")                                                 \
    X(107022, ACL_ERROR_RT_DEVICE_TASK_ABORT, "the device is giving up its tasks")                                     \
    X(107023, ACL_ERROR_RT_STREAM_ABORT, "the stream has been aborted")                                                \
    X(107024, ACL_ERROR_RT_CAPTURE_DEPENDENCY, "capture dependency")                                                   \
    X(107025, ACL_ERROR_RT_STREAM_UNJOINED, "stream unjoined")                                                         \
    X(107026, ACL_ERROR_RT_MODEL_CAPTURED, "model captured")                                                           \
    X(107027, ACL_ERROR_RT_STREAM_CAPTURED, "the stream is being captured")                                            \
    X(107028, ACL_ERROR_RT_EVENT_CAPTURED, "event captured")                                                           \
    X(107029, ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream not captured")                                                 \
    X(107030, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "not while the stream is being captured")                         \
    X(107031, ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "stream capture implicit")                                         \
    X(107032, ACL_ERROR_STREAM_CAPTURE_CONFLICT, "stream capture conflict")                                            \
    X(107033, ACL_ERROR_STREAM_TASK_GROUP_STATUS, "stream task group status")                                          \
    X(107034, ACL_ERROR_STREAM_TASK_GROUP_INTR, "stream task group intr")                                              \
    X(107035, ACL_ERROR_RT_TASK_ABORT_STOP, "task abort stop")                                                         \
    X(107036, ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, "stream capture unmatched")                                       \
    X(107037, ACL_ERROR_RT_MODEL_RUNNING, "model running")                                                             \
    X(107038, ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD, "stream capture wrong thread")                                 \
    X(107039, ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY, "insufficient input array")                                       \
    X(107040, ACL_ERROR_RT_MODEL_UPDATE_FAILED, "model update failed")                                                 \
    X(107041, ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC, "capture mode block async")                                       \
    X(107042, ACL_ERROR_RT_SYMBOL_NOT_FOUND, "symbol not found")                                                       \
    X(107043, ACL_ERROR_RT_INVALID_SYMBOL, "invalid symbol")                                                           \
    X(107044, ACL_ERROR_RT_INVALID_DEVICE_FUNCTION, "invalid device function")                                         \
    X(107045, ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING, "sub aclgraph is capturing")                                     \
    X(148046, ACL_ERROR_PROF_REPEAT_SUBSCRIBE, "prof repeat subscribe")                                                \
    X(148047, ACL_ERROR_PROF_API_CONFLICT, "prof api conflict")                                                        \
    X(148048, ACL_ERROR_INVALID_MAX_OPQUEUE_NUM_CONFIG, "invalid max opqueue num config")                              \
    X(148049, ACL_ERROR_INVALID_OPP_PATH, "invalid opp path")                                                          \
    X(148050, ACL_ERROR_OP_UNSUPPORTED_DYNAMIC, "op unsupported dynamic")                                              \
    X(148051, ACL_ERROR_RELATIVE_RESOURCE_NOT_CLEARED, "something made earlier still exists")                          \
    X(148052, ACL_ERROR_UNSUPPORTED_JPEG, "unsupported jpeg")                                                          \
    X(148053, ACL_ERROR_INVALID_BUNDLE_MODEL_ID, "invalid bundle model id")                                            \
    X(200000, ACL_ERROR_BAD_ALLOC, "out of host memory")                                                               \
    X(200001, ACL_ERROR_API_NOT_SUPPORT, "this product does not have the call")                                        \
    X(200002, ACL_ERROR_INVALID_DEVICE, "the device is not usable")                                                    \
    X(200003, ACL_ERROR_MEMORY_ADDRESS_UNALIGNED, "the address is not aligned")                                        \
    X(200004, ACL_ERROR_RESOURCE_NOT_MATCH, "the handle belongs to something else")                                    \
    X(200005, ACL_ERROR_INVALID_RESOURCE_HANDLE, "the handle is not valid")                                            \
    X(200006, ACL_ERROR_FEATURE_UNSUPPORTED, "this product does not have the feature")                                 \
    X(200007, ACL_ERROR_PROF_MODULES_UNSUPPORTED, "prof modules unsupported")                                          \
    X(207000, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "this product or driver does not support it")                          \
    X(207001, ACL_ERROR_RT_MEMORY_ALLOCATION, "out of memory")                                                         \
    X(207002, ACL_ERROR_RT_MEMORY_FREE, "freeing failed")                                                              \
    X(207003, ACL_ERROR_RT_AICORE_OVER_FLOW, "aicore over flow")                                                       \
    X(207004, ACL_ERROR_RT_NO_DEVICE, "there is no device")                                                            \
    X(207005, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "a resource of the device has run out")                                \
    X(207006, ACL_ERROR_RT_NO_PERMISSION, "not permitted")                                                             \
    X(207007, ACL_ERROR_RT_NO_EVENT_RESOURCE, "too many events")                                                       \
    X(207008, ACL_ERROR_RT_NO_STREAM_RESOURCE, "too many streams")                                                     \
    X(207009, ACL_ERROR_RT_NO_NOTIFY_RESOURCE, "too many notifies")                                                    \
    X(207010, ACL_ERROR_RT_NO_MODEL_RESOURCE, "no model resource")                                                     \
    X(207011, ACL_ERROR_RT_NO_CDQ_RESOURCE, "no cdq resource")                                                         \
    X(207012, ACL_ERROR_RT_OVER_LIMIT, "above a limit of the device")                                                  \
    X(207013, ACL_ERROR_RT_QUEUE_EMPTY, "queue empty")                                                                 \
    X(207014, ACL_ERROR_RT_QUEUE_FULL, "queue full")                                                                   \
    X(207015, ACL_ERROR_RT_REPEATED_INIT, "initialised already")                                                       \
    X(207016, ACL_ERROR_RT_AIVEC_OVER_FLOW, "aivec over flow")                                                         \
    X(207017, ACL_ERROR_RT_OVER_FLOW, "over flow")                                                                     \
    X(207018, ACL_ERROR_RT_DEVICE_OOM, "out of memory while a task ran")                                               \
    X(207019, ACL_ERROR_RT_FEATURE_NOT_SUPPORT_UPDATE_OP, "feature not support update op")                             \
    X(207020, ACL_ERROR_RT_TIMEOUT, "the driver took too long")                                                        \
    X(207021, ACL_ERROR_RT_LINK_TYPE_NOT_SUPPORTED, "link type not supported")                                         \
    X(300000, ACL_ERROR_STORAGE_OVER_LIMIT, "more than the storage allows")                                            \
    X(500000, ACL_ERROR_INTERNAL_ERROR, "internal error of ACL")                                                       \
    X(500001, ACL_ERROR_FAILURE, "general failure of ACL")                                                             \
    X(500002, ACL_ERROR_GE_FAILURE, "the graph engine failed")                                                         \
    X(500003, ACL_ERROR_RT_FAILURE, "the runtime failed")                                                              \
    X(500004, ACL_ERROR_DRV_FAILURE, "the driver failed")                                                              \
    X(500005, ACL_ERROR_PROFILING_FAILURE, "profiling failed")                                                         \
    X(507000, ACL_ERROR_RT_INTERNAL_ERROR, "internal error of the runtime")                                            \
    X(507001, ACL_ERROR_RT_TS_ERROR, "the task scheduler failed")                                                      \
    X(507002, ACL_ERROR_RT_STREAM_TASK_FULL, "the stream's queue is full")                                             \
    X(507003, ACL_ERROR_RT_STREAM_TASK_EMPTY, "the stream's queue is empty")                                           \
    X(507004, ACL_ERROR_RT_STREAM_NOT_COMPLETE, "the stream's work is not complete")                                   \
    X(507005, ACL_ERROR_RT_END_OF_SEQUENCE, "end of sequence")                                                         \
    X(507006, ACL_ERROR_RT_EVENT_NOT_COMPLETE, "the event is not complete")                                            \
    X(507007, ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, "the context could not be released")                                 \
    X(507008, ACL_ERROR_RT_SOC_VERSION, "soc version")                                                                 \
    X(507009, ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, "task type not support")                                             \
    X(507010, ACL_ERROR_RT_LOST_HEARTBEAT, "the device does not answer any more")                                      \
    X(507011, ACL_ERROR_RT_MODEL_EXECUTE, "a model failed")                                                            \
    X(507012, ACL_ERROR_RT_REPORT_TIMEOUT, "nothing was reported in time")                                             \
    X(507013, ACL_ERROR_RT_SYS_DMA, "sys dma")                                                                         \
    X(507014, ACL_ERROR_RT_AICORE_TIMEOUT, "a kernel took too long")                                                   \
    X(507015, ACL_ERROR_RT_AICORE_EXCEPTION, "a kernel failed")                                                        \
    X(507016, ACL_ERROR_RT_AICORE_TRAP_EXCEPTION, "aicore trap exception")                                             \
    X(507017, ACL_ERROR_RT_AICPU_TIMEOUT, "aicpu timeout")                                                             \
    X(507018, ACL_ERROR_RT_AICPU_EXCEPTION, "aicpu exception")                                                         \
    X(507019, ACL_ERROR_RT_AICPU_DATADUMP_RSP_ERR, "aicpu datadump rsp err")                                           \
    X(507020, ACL_ERROR_RT_AICPU_MODEL_RSP_ERR, "aicpu model rsp err")                                                 \
    X(507021, ACL_ERROR_RT_PROFILING_ERROR, "profiling error")                                                         \
    X(507022, ACL_ERROR_RT_IPC_ERROR, "ipc error")                                                                     \
    X(507023, ACL_ERROR_RT_MODEL_ABORT_NORMAL, "model abort normal")                                                   \
    X(507024, ACL_ERROR_RT_KERNEL_UNREGISTERING, "kernel unregistering")                                               \
    X(507025, ACL_ERROR_RT_RINGBUFFER_NOT_INIT, "ringbuffer not init")                                                 \
    X(507026, ACL_ERROR_RT_RINGBUFFER_NO_DATA, "ringbuffer no data")                                                   \
    X(507027, ACL_ERROR_RT_KERNEL_LOOKUP, "kernel lookup")                                                             \
    X(507028, ACL_ERROR_RT_KERNEL_DUPLICATE, "kernel duplicate")                                                       \
    X(507029, ACL_ERROR_RT_DEBUG_REGISTER_FAIL, "debug register fail")                                                 \
    X(507030, ACL_ERROR_RT_DEBUG_UNREGISTER_FAIL, "debug unregister fail")                                             \
    X(507031, ACL_ERROR_RT_LABEL_CONTEXT, "label context")                                                             \
    X(507032, ACL_ERROR_RT_PROGRAM_USE_OUT, "program use out")                                                         \
    X(507033, ACL_ERROR_RT_DEV_SETUP_ERROR, "dev setup error")                                                         \
    X(507034, ACL_ERROR_RT_VECTOR_CORE_TIMEOUT, "vector core timeout")                                                 \
    X(507035, ACL_ERROR_RT_VECTOR_CORE_EXCEPTION, "a vector kernel failed")                                            \
    X(507036, ACL_ERROR_RT_VECTOR_CORE_TRAP_EXCEPTION, "vector core trap exception")                                   \
    X(507037, ACL_ERROR_RT_CDQ_BATCH_ABNORMAL, "cdq batch abnormal")                                                   \
    X(507038, ACL_ERROR_RT_DIE_MODE_CHANGE_ERROR, "die mode change error")                                             \
    X(507039, ACL_ERROR_RT_DIE_SET_ERROR, "die set error")                                                             \
    X(507040, ACL_ERROR_RT_INVALID_DIEID, "invalid dieid")                                                             \
    X(507041, ACL_ERROR_RT_DIE_MODE_NOT_SET, "die mode not set")                                                       \
    X(507042, ACL_ERROR_RT_AICORE_TRAP_READ_OVERFLOW, "aicore trap read overflow")                                     \
    X(507043, ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW, "aicore trap write overflow")                                   \
    X(507044, ACL_ERROR_RT_VECTOR_CORE_TRAP_READ_OVERFLOW, "vector core trap read overflow")                           \
    X(507045, ACL_ERROR_RT_VECTOR_CORE_TRAP_WRITE_OVERFLOW, "vector core trap write overflow")                         \
    X(507046, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "waiting for the stream took too long")                                \
    X(507047, ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "waiting for the event took too long")                                  \
    X(507048, ACL_ERROR_RT_FFTS_PLUS_TIMEOUT, "ffts plus timeout")                                                     \
    X(507049, ACL_ERROR_RT_FFTS_PLUS_EXCEPTION, "ffts plus exception")                                                 \
    X(507050, ACL_ERROR_RT_FFTS_PLUS_TRAP_EXCEPTION, "ffts plus trap exception")                                       \
    X(507051, ACL_ERROR_RT_SEND_MSG, "send msg")                                                                       \
    X(507052, ACL_ERROR_RT_COPY_DATA, "copy data")                                                                     \
    X(507053, ACL_ERROR_RT_DEVICE_MEM_ERROR, "the device's memory is faulty")                                          \
    X(507054, ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR, "the device's memory has errors that cannot be corrected")         \
    X(507055, ACL_ERROR_RT_SUSPECT_DEVICE_MEM_ERROR, "suspect device mem error")                                       \
    X(507056, ACL_ERROR_RT_LINK_ERROR, "link error")                                                                   \
    X(507057, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, "suspect remote error")                                               \
    X(507899, ACL_ERROR_RT_DRV_INTERNAL_ERROR, "internal error of the driver")                                         \
    X(507900, ACL_ERROR_RT_AICPU_INTERNAL_ERROR, "internal error of an AI CPU")                                        \
    X(507901, ACL_ERROR_RT_SOCKET_CLOSE, "socket close")                                                               \
    X(507902, ACL_ERROR_RT_AICPU_INFO_LOAD_RSP_ERR, "aicpu info load rsp err")                                         \
    X(507903, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "stream capture invalidated")                                   \
    X(507904, ACL_ERROR_RT_COMM_OP_RETRY_FAIL, "comm op retry fail")                                                   \
    X(507905, ACL_ERROR_SNAPSHOT_LOCK_TIMEOUT, "snapshot lock timeout")                                                \
    X(507906, ACL_ERROR_SNAPSHOT_LOCK_FAILED, "snapshot lock failed")                                                  \
    X(507907, ACL_ERROR_SNAPSHOT_UNLOCK_FAILED, "snapshot unlock failed")                                              \
    X(507908, ACL_ERROR_SNAPSHOT_BACKUP_FAILED, "snapshot backup failed")                                              \
    X(507909, ACL_ERROR_SNAPSHOT_RESTORE_FAILED, "snapshot restore failed")                                            \
    X(507910, ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "the host memory is registered already")                       \
    X(507911, ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "the host memory is not registered")                               \
    X(507912, ACL_ERROR_SNAPSHOT_CALLBACK_FAILED, "snapshot callback failed")                                          \
    X(507913, ACL_ERROR_SNAPSHOT_REGISTER_CALLBACK_FAILED, "snapshot register callback failed")                        \
    X(507914, ACL_ERROR_RT_L3_PORT_ERROR, "l3 port error")                                                             \
    X(507915, ACL_ERROR_RT_CCU_TIMEOUT, "ccu timeout")                                                                 \
    X(507916, ACL_ERROR_RT_CCU_EXCEPTION, "ccu exception")

#endif
