/* weir/acl.h: weir for Ascend. A device over the ACL runtime, and pools plugged into its streams.
 *
 *     weir_acl_device_config acl = WEIR_ACL_DEVICE_CONFIG_INIT;
 *     acl.device_id = 0;
 *     weir_acl_device_create(&acl, &device);
 *     ... weir_pool_create over the device ...
 *     weir_acl_attach(pool, stream, &attachment);      operators and models on the stream now allocate from the pool
 *     ... aclopExecuteV2, aclmdlExecuteAsync ...
 *     weir_acl_detach(attachment);
 *
 * ACL's interface for this is a description of an allocator, aclrtAllocatorDesc, which aclrtAllocatorRegister ties to a
 * stream and aclrtAllocatorUnregister unties. weir_acl_attach and weir_acl_detach make these calls.
 *
 * ACL's rules for a user's allocator, and how weir keeps them. All four callbacks are set: without the advising
 * callback the graph engine deadlocks. Each stream gets its own object over the shared pool, so streams may run at the
 * same time. Memory goes back to the device only after the pool has waited for its streams. Blocks carry the padding
 * that kernels may read (weir_acl_block_bytes) and start at multiples of 512.
 *
 * Streams and events are ACL's handles, aclrtStream and aclrtEvent, which are `void *`. Codes are aclError, an int.
 * This header therefore includes no header of ACL.
 *
 * Thread safety: every function may be called from any thread. If an ACL call needs a current context, weir uses the
 * calling thread's context when it belongs to the right device; otherwise weir sets the device's context for the length
 * of the call. A thread without a context keeps the device's context afterwards, since ACL cannot remove a context.
 *
 * Results: WEIR_ERR_DEVICE means that an ACL call failed. For this and for every refusal (WEIR_ERR_INVALID,
 * WEIR_ERR_BUSY, WEIR_ERR_UNSUPPORTED) weir_acl_error returns a sentence that names the call or argument and the
 * reason.
 */
#ifndef WEIR_ACL_H
#define WEIR_ACL_H

#include <weir/device.h>
#include <weir/host.h>
#include <weir/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- the device --- */

typedef enum weir_acl_memory {
    WEIR_ACL_MEMORY_DEVICE = 0, /* memory of the accelerator */
    WEIR_ACL_MEMORY_HOST,       /* pinned host memory; not supported: use weir_acl_host_runtime and weir/host.h */
} weir_acl_memory;

/* Page size of the memory regions of a device (aclrtMemMallocPolicy). Virtual memory always has huge pages. */
typedef enum weir_acl_pages {
    WEIR_ACL_PAGES_HUGE_FIRST = 0, /* huge pages, or small pages when no huge page is free */
    WEIR_ACL_PAGES_HUGE,
    WEIR_ACL_PAGES_SMALL,
} weir_acl_pages;

enum {
    /* Leave out the virtual-memory operations (vm_...), even if the chip supports virtual memory. Every pool over the
     * device then takes regions. */
    WEIR_ACL_NO_VIRTUAL_MEMORY = 1u << 0,
    /* Create all memory so that other devices and network cards can get access to it: the P2P kinds of
     * aclrtMemMallocPolicy for regions, and ACL_MEM_P2P_HUGE for the handles of virtual memory. This property cannot be
     * added later. The program grants the access itself: aclrtMemSetAccess, aclrtDeviceEnablePeerAccess, or export of a
     * handle. weir's handles have the only type that the runtime creates (ACL_MEM_HANDLE_TYPE_NONE). */
    WEIR_ACL_PEER_MEMORY = 1u << 1,
};

typedef struct weir_acl_device_config {
    size_t struct_size;
    int32_t device_id; /* as aclrtSetDevice takes it */
    weir_acl_memory memory;
    weir_acl_pages pages;
    uint32_t flags; /* WEIR_ACL_... */
} weir_acl_device_config;

#define WEIR_ACL_DEVICE_CONFIG_INIT WEIR_STRUCT_INIT(weir_acl_device_config)

/* Creates a device over ACL device `device_id`; NULL = the defaults. Regions come from aclrtMallocAlign32 in units of
 * 2 MiB, the size of a huge page: aclrtMalloc would add 32 bytes to each region, and thereby a page. Virtual memory is
 * reserved, mapped and unmapped with the calls of chapter 11-04 of the API reference. This function maps one page and
 * takes it away again: if one of the calls answers "not supported", as with a driver that does not match its firmware,
 * the device has no virtual memory, and pools over it take regions. The device orders streams by events of
 * aclrtCreateEventExWithFlag.
 *
 * The device calls aclrtSetDevice once, and aclrtResetDevice once when it is destroyed. ACL counts these calls, so the
 * program's own pair of calls is independent. Call this function before or after aclInit, and before aclFinalize. The
 * calling thread keeps its current context if it has one. weir's native stream NULL is the default stream of the
 * device's primary context in every thread; use weir_acl_stream if NULL must mean the calling thread's default stream.
 *
 * WEIR_ERR_INVALID: no such device, an unknown flag or enumerator. WEIR_ERR_UNSUPPORTED: WEIR_ACL_MEMORY_HOST.
 * WEIR_ERR_NO_MEMORY, WEIR_ERR_DEVICE. */
WEIR_API weir_status weir_acl_device_create(const weir_acl_device_config *config, weir_device **device);

typedef struct weir_acl_device_info {
    size_t struct_size;
    int32_t device_id;    /* as aclrtSetDevice takes it */
    int32_t numa_node;    /* the node that the kernel reports for the PCI device; -1: none, or unknown */
    char pci_bus_id[16];  /* "0000:c1:00.0", of aclrtDeviceGetPCIBusId, for weir/topology.h; "" if the device is not on
                             PCI, or if the runtime does not know (CANN before 9.2) */
    void *context;        /* aclrtContext: the primary context */
    void *default_stream; /* aclrtStream: the default stream of the primary context */
} weir_acl_device_info;

#define WEIR_ACL_DEVICE_INFO_INIT WEIR_STRUCT_INIT(weir_acl_device_info)

/* Returns the facts that weir_acl_device_create found. `numa_node` equals host_numa_node of weir/device.h.
 * WEIR_ERR_INVALID: an argument is NULL, or the device was not made by weir_acl_device_create. */
WEIR_API weir_status weir_acl_device_get_info(const weir_device *device, weir_acl_device_info *info);

/* True once the device was reset: aclrtResetDeviceForce, or one more aclrtResetDevice than aclrtSetDevice, takes the
 * device's streams and memory. The result turns true before the reset happens. From then on the device refuses requests
 * for memory (WEIR_ERR_DEVICE) and treats all work as complete. It accepts memory that is given back without a call to
 * ACL, because ACL may have reused the addresses and handles. Pools over the device would still hand out their free
 * memory: destroy them and create new pools over a new device. Always false if the runtime has no
 * aclrtRegStreamStateCallback. */
WEIR_API bool weir_acl_device_lost(const weir_device *device);

/* --- pinned host memory --- */

/* Fills a runtime for weir_host_pool_config.runtime over an ACL device. A host pool with this runtime gets memory of
 * aclrtMallocHost, or maps memory itself and registers it with aclrtHostRegisterV2 (pinned and mapped;
 * aclrtHostRegister if the runtime does not know the flags). weir_host_free_after of that pool takes the device's
 * streams. Threads need no context. The driver places memory of aclrtMallocHost on the node of the processor that
 * calls, so the pool calls from a processor of the node that it wants. weir_host_device_node of that pool is the node
 * nearest to this NPU, found by aclrtDeviceGetPCIBusId and the kernel's numa_node of that PCI device.
 *
 * The device must come from weir_acl_device_create and outlive the pool. The caller sets `most_bytes` if the driver
 * accepts less than 1 GiB in one call. Retire a stream with weir_host_stream_retire before it is destroyed.
 * WEIR_ERR_INVALID: an argument is NULL, or the device was not made by weir_acl_device_create. */
WEIR_API weir_status weir_acl_host_runtime(weir_device *device, weir_host_runtime *runtime);

/* --- attaching a pool to a stream --- */

typedef struct weir_acl_attachment weir_acl_attachment;

/* Registers the pool as the allocator of an ACL stream. From then on operators (aclopExecuteV2,
 * aclopCompileAndExecuteV2) and models of dynamic shape (aclmdlExecuteAsync) on that stream allocate from the pool, in
 * stream order. Attach before the first operator on the stream: the vendor's executor keeps the first allocator that it
 * used. The pool's device must come from weir_acl_device_create and be the stream's device. Any number of streams may
 * share a pool and run at the same time.
 *
 * The stream's context must be the calling thread's current context or the primary context of the device. weir checks
 * this by making the stream wait for an event that was never recorded: such a wait queues no work, and ACL refuses it
 * in any other context. The attachment holds the pool: weir_pool_destroy returns WEIR_ERR_BUSY meanwhile.
 *
 * If the stream is destroyed while attached (aclrtDestroyStream, aclrtDestroyStreamForce, or with its context or
 * device), ACL tells weir before it happens. weir then waits for the stream, removes the registration and forgets the
 * stream. Blocks that are still held stay valid and may still be freed. The attachment remains, empty, until
 * weir_acl_detach. The program must not retire an attached stream in the pool itself.
 *
 * WEIR_ERR_INVALID: an argument is NULL (the default stream has a handle too, see aclrtCtxGetCurrentDefaultStream), a
 * stream of a device other than the pool's, or a stream of any other context. WEIR_ERR_BUSY: the stream already has an
 * allocator, weir's or another one (aclrtAllocatorUnregister removes an allocator that was left behind by a destroyed
 * stream). WEIR_ERR_NO_MEMORY, WEIR_ERR_UNSUPPORTED (this chip), WEIR_ERR_DEVICE (for example, ACL does not know the
 * stream any more). After a failure nothing is registered. */
WEIR_API weir_status weir_acl_attach(weir_pool *pool, void *acl_stream, weir_acl_attachment **attachment);

/* Waits for the stream, removes the registration and releases the pool, which forgets the stream: handles of the stream
 * from weir_pool_stream end here, as with weir_stream_retire. If the program has replaced weir's registration by
 * another one, the other one stays. NULL is allowed. No executor may be running on the stream.
 *
 * WEIR_ERR_BUSY: ACL holds blocks that are not freed yet (weir_acl_notify_idle tells when ACL holds none), or another
 * thread is detaching, or creating or destroying a stream of the attachment, or the stream is being captured; nothing
 * has changed. (The graph engine caches blocks and frees them when the model is unloaded or the stream is destroyed.)
 * WEIR_ERR_DEVICE: the wait or the
 * removal of the registration failed; the pool is still attached, call again. (If the attachment is that of a device,
 * the streams before the failing one are then detached, and new streams are still attached.) WEIR_ERR_INVALID: not an
 * attachment. A detached attachment is recognised until 64 more have been detached. A stream that is being destroyed
 * must be gone before its attachment is detached. */
WEIR_API weir_status weir_acl_detach(weir_acl_attachment *attachment);

/* Makes an attachment without a registration, for programs and engines that call the pool themselves instead of letting
 * ACL call it: the pool learns the stream's context and is told when the stream ends. Several pools may follow a
 * stream, and another pool may be its allocator. WEIR_ERR_BUSY: this pool is attached to the stream, or follows it,
 * already. Everything else is as with weir_acl_attach. weir_acl_detach ends the attachment. */
WEIR_API weir_status weir_acl_follow(weir_pool *pool, void *acl_stream, weir_acl_attachment **attachment);

/* Attaches the pool to its whole device: one call in the place of weir_acl_attach for every stream. The pool becomes
 * the allocator of the default stream of the device's primary context at once, and of each stream of the device that is
 * created after this call has returned, in any context and by any thread, until weir_acl_detach. Streams that existed
 * before, other than this default stream, are not attached: ACL cannot list them. Call weir_acl_attach for those. The
 * handle stands for all streams: weir_acl_detach, weir_acl_attachment_get_info (the figures are sums),
 * weir_acl_attachment_explain and weir_acl_notify_idle take it. A stream that is destroyed leaves it by itself.
 *
 * weir learns of new streams from aclrtRegStreamStateCallback, which the runtime calls before the creating function
 * returns, so no operator can run on the stream earlier. The creation of a stream never fails because of weir: a stream
 * that could not be attached works with ACL's own memory and is counted in `missed_streams`, and
 * weir_acl_attachment_explain has the reason. The default streams of contexts of aclrtCreateContext are always missed,
 * because the runtime announces them before they have a context: attach them with weir_acl_attach
 * (aclrtCtxGetCurrentDefaultStream returns the handle).
 *
 * (Sources: aclrtRegStreamStateCallback in chapter 06 of the API reference; the order of announcement and context in
 * hicann/runtime, context.cc and api_impl.cc; the lookup of allocators in hicann/ge, acl_resource_manager.cpp.)
 *
 * Name the default stream by its handle in calls that execute: with NULL for the stream ACL's executors look up no
 * registration and keep memory of their own for the default stream from then on.
 *
 * The pool's device must come from weir_acl_device_create itself, without an adaptor over it. WEIR_ERR_BUSY: the device
 * has such an attachment already, or its default stream has an allocator or is attached to the pool.
 * WEIR_ERR_UNSUPPORTED: this chip has no such allocators, or the runtime no aclrtRegStreamStateCallback. Everything
 * else is as with weir_acl_attach. After a failure nothing is attached. */
WEIR_API weir_status weir_acl_attach_device(weir_pool *pool, weir_acl_attachment **attachment);

/* Called when ACL no longer holds a block of the attachment. */
typedef void (*weir_acl_idle_callback)(void *ctx, weir_acl_attachment *attachment);

/* Calls `callback` once, as soon as ACL holds no block of the attachment, so that a weir_acl_detach that returned
 * WEIR_ERR_BUSY would succeed: at once, in the calling thread, if ACL holds none now; otherwise in the thread that
 * gives back the last block. That thread is inside a call of ACL, which may hold locks of its own. So the callback must
 * not call ACL and must not wait, and weir_acl_detach called by it returns WEIR_ERR_BUSY; it should wake the thread
 * that detaches. ACL may ask for blocks again at any time, and the detach may then be refused again. A later call
 * replaces the callback; NULL removes it; a successful detach removes it, after waiting for a callback that is running.
 *
 * WEIR_ERR_INVALID: not an attachment. */
WEIR_API weir_status weir_acl_notify_idle(weir_acl_attachment *attachment, weir_acl_idle_callback callback, void *ctx);

/* Returns a number that changes before a stream of an attachment ends and before a device is reset. After a change a
 * weir_stream that was looked up earlier may have ended. */
WEIR_API uint64_t weir_acl_epoch(void);

typedef struct weir_acl_attachment_info {
    size_t struct_size;
    weir_pool *pool;
    weir_stream *stream;  /* valid until detach; NULL once the ACL stream was destroyed */
    void *acl_stream;     /* aclrtStream; NULL once it was destroyed */
    bool handle_reused;   /* the ACL stream was destroyed, and a new stream has the same handle */
    uint64_t live_blocks; /* blocks that ACL holds now */
    uint64_t failures; /* allocations that ended with NULL; weir_pool_get_oom of the pool has the last one's reason */
    uint64_t refused_frees; /* frees of a pointer that was no live block of the pool: freed twice, or not weir's */
    uint64_t requests;      /* how often ACL asked for a block, failures included. 0 after operators have run: they do
                               * not use the pool, and weir_acl_attachment_explain names the possible causes */
    /* number of streams attached or followed now; more than 1 only for an attachment of a device */
    uint64_t streams;
    uint64_t missed_streams;  /* attachment of a device: number of new streams that could not be attached */
    uint64_t workspace_bytes; /* size of the workspaces that weir_acl_workspace keeps */
} weir_acl_attachment_info;

#define WEIR_ACL_ATTACHMENT_INFO_INIT WEIR_STRUCT_INIT(weir_acl_attachment_info)

/* Copies the present figures of the attachment. WEIR_ERR_INVALID: not an attachment. */
WEIR_API weir_status weir_acl_attachment_get_info(weir_acl_attachment *attachment, weir_acl_attachment_info *info);

/* Writes, like snprintf, sentences for a person, each ended by a newline: the streams that are attached, how many
 * blocks ACL asked the pool for, and how many it holds now. If ACL has never asked, the text names the causes: the
 * executors keep the allocator that they used first, so the attachment came after the first operator of the stream; the
 * operators name the default stream by NULL; or they are of aclnn, which asks no allocator (weir_acl_workspace). Writes
 * an empty string if it is not an attachment. */
WEIR_API size_t weir_acl_attachment_explain(weir_acl_attachment *attachment, char *text, size_t size);

/* --- workspaces of aclnn operators --- */

/* Returns in *workspace the address of at least `size` bytes of device memory, a multiple of 512, for the next operator
 * on the stream: the workspace that aclnnXxxGetWorkspaceSize asks for and aclnnXxx takes. Stores NULL for size 0. The
 * contents are undefined.
 *
 *     aclnnAddGetWorkspaceSize(x, y, alpha, out, &size, &executor);
 *     weir_acl_workspace(pool, stream, size, &workspace);
 *     aclnnAdd(workspace, size, executor, stream);
 *
 * A stream has one workspace in a pool. Operators of a stream run one after the other, so the next call returns the
 * same memory again, or larger memory if `size` needs it; the smaller one is freed in the order of the stream. The
 * caller frees nothing. The memory belongs to the work that is queued on the stream until the next call for the stream;
 * operators of other streams must not use it. The workspace ends with the stream, with the detach of an attachment of
 * the pool to the stream, and by weir_acl_workspace_release. Work that is captured (aclmdlRICaptureBegin) runs again
 * with the address that it was captured with: do not give it such a workspace, but a block of weir_pool_alloc that is
 * kept as long as the capture.
 *
 * The stream need not be attached. If the pool is neither attached to the stream nor follows it, the first call makes
 * the pool follow the stream until the stream ends or weir_acl_workspace_release is called; weir_pool_destroy returns
 * WEIR_ERR_BUSY meanwhile. A later weir_acl_attach or weir_acl_follow replaces this follower and ends the workspace;
 * the next call makes a new workspace. acl_stream NULL is as in weir_acl_stream. Cost: a lock, and a walk over the
 * attachments.
 *
 * Between this call and the queueing of the operator no other thread may call this function for the same stream.
 * Otherwise any thread may call it. WEIR_ERR_INVALID: `pool` or `workspace` is NULL, the size is too large to round, or
 * the stream belongs to another device or context, as in weir_acl_attach. WEIR_ERR_NO_MEMORY: the stream has no
 * workspace then; weir_pool_get_oom has the reason. WEIR_ERR_DEVICE. */
WEIR_API weir_status weir_acl_workspace(weir_pool *pool, void *acl_stream, uint64_t size, void **workspace);

/* Frees the workspaces of all streams of the pool, each in the order of its stream, and stops following the streams
 * that weir_acl_workspace began to follow, after waiting for them. WEIR_ERR_BUSY: another thread works on one of these
 * streams, or destroys it. WEIR_ERR_DEVICE: the wait for a stream failed. After a failure some workspaces remain; call
 * again. WEIR_ERR_INVALID: `pool` is NULL. */
WEIR_API weir_status weir_acl_workspace_release(weir_pool *pool);

/* --- other allocator interfaces --- */

/* Allocate and free in the order of the attachment's stream, as ACL does through the registration: for an engine with
 * an allocator interface of its own over ACL streams (bindings/ascend/ge). The attachment may be of weir_acl_attach or
 * of weir_acl_follow. The block has the padding of weir_acl_block_bytes, and weir_block_address its address. It counts
 * as held by ACL: weir_acl_detach returns WEIR_ERR_BUSY until it is freed. After the end of the stream blocks may still
 * be freed.
 *
 * The attachment must not be detached during the call. WEIR_ERR_INVALID: NULL, a size that is 0 or too large, an
 * attachment that was detached, whose stream has ended, or of a device; a block that is not live, or not of the pool.
 * WEIR_ERR_NO_MEMORY and WEIR_ERR_DEVICE as weir_pool_alloc. Any thread. */
WEIR_API weir_status weir_acl_attachment_alloc(weir_acl_attachment *attachment, uint64_t size, weir_block **block);
WEIR_API weir_status weir_acl_attachment_free(weir_acl_attachment *attachment, weir_block *block);

/* Returns the number of bytes to request from a pool for `size` bytes that a kernel works on: `size` rounded up to 32,
 * plus 32, because kernels may read that far (aclrtMalloc, and the reference's rule for programs that divide memory
 * themselves, chapter 11-01). On Ascend950 the size is only rounded up. Attachments add the padding themselves. Returns
 * 0 for a size that is too large to round. */
WEIR_API uint64_t weir_acl_block_bytes(uint64_t size);

/* --- streams and hints --- */

/* As weir_pool_stream, for an ACL stream; the caller announces its end with weir_stream_retire. NULL is the default
 * stream of the calling thread's current context, so two threads with different contexts get two streams. The function
 * also remembers the stream's context, found as in weir_acl_attach, so that the pool can record and wait on the stream
 * from threads of another context. WEIR_ERR_INVALID: NULL, or a stream of another device or of a context that cannot be
 * found, as in weir_acl_attach. WEIR_ERR_NO_MEMORY, WEIR_ERR_DEVICE (no current context). */
WEIR_API weir_status weir_acl_stream(weir_pool *pool, void *acl_stream, weir_stream **stream);

/* Each function makes an ACL call and tells the pool about the order that the call creates (weir_stream_recorded and
 * the other hints of weir/pool.h), so that the pool reuses memory across streams without its own waits. The result is
 * the result of the ACL call. A hint for which there is no host memory is dropped, which is safe. acl_stream NULL is as
 * in weir_acl_stream. WEIR_ERR_INVALID: NULL, or a stream that the pool does not know yet and that belongs to another
 * device or to a context that cannot be found; then no call was made.
 *
 * Events must come from aclrtCreateEvent or aclrtCreateEventExWithFlag: a wait for such an event is for its latest
 * record. An event of aclrtCreateEventWithFlag is a raw flag, which an earlier record may have set. No other thread may
 * record the event while a thread waits for it. Threads need no other synchronisation. */
WEIR_API weir_status weir_acl_record_event(weir_pool *pool, void *acl_event, void *acl_stream); /* aclrtRecordEvent */
WEIR_API weir_status weir_acl_wait_event(weir_pool *pool, void *acl_stream, void *acl_event); /* aclrtStreamWaitEvent */
WEIR_API weir_status weir_acl_query_event(weir_pool *pool, void *acl_event, bool *complete); /* aclrtQueryEventStatus */
WEIR_API weir_status weir_acl_sync_event(weir_pool *pool, void *acl_event);                  /* aclrtSynchronizeEvent */
WEIR_API weir_status weir_acl_sync_stream(weir_pool *pool, void *acl_stream);  /* aclrtSynchronizeStream */
WEIR_API weir_status weir_acl_destroy_event(weir_pool *pool, void *acl_event); /* aclrtDestroyEvent */

/* --- errors --- */

/* Says why the calling thread's last call failed; call it right after the failure. *text is the sentence of
 * weir_last_error. It tells of the later of two events: the last refusal of weir ("weir_acl_detach: ACL holds 3 blocks
 * ..."), or the last ACL call inside weir that failed ("aclrtMallocAlign32: 207001 ACL_ERROR_RT_MEMORY_ALLOCATION, out
 * of memory"). It is "" if there was neither. *acl_error is the code of the ACL call in the sentence, or 0. The text
 * stays valid until the thread's next failure. Either pointer may be NULL.
 *
 * (weir_device_error of an ACL device returns the last ACL call that failed, also after later refusals.) Always
 * WEIR_OK. */
WEIR_API weir_status weir_acl_error(int *acl_error, const char **text);

#ifdef __cplusplus
}
#endif

#endif
