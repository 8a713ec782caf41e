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
 * ACL's interface for this is a description of an allocator, aclrtAllocatorDesc, which aclrtAllocatorRegister ties to a stream
 * and aclrtAllocatorUnregister unties. weir_acl_attach and weir_acl_detach make these calls.
 *
 * What ACL asks of a user's allocator, and who sees to it: all four callbacks are set (without the advising one the
 * graph engine deadlocks); each stream gets an object of its own over the shared pool, so streams may run at the same
 * time; memory goes back to the device only after its streams have been waited for (the pool's rule); blocks carry the
 * padding that kernels may read (weir_acl_block_bytes) and start at multiples of 512.
 *
 * Streams and events are ACL's handles, aclrtStream and aclrtEvent, which are `void *`; codes are aclError, an int. So
 * this header needs none of ACL's.
 *
 * Thread safety: every function may be called from any thread. Where ACL needs a current context the calling thread's
 * own is used if it is of the right device; otherwise the device's is set for the length of the call. A thread that had
 * none keeps the device's, since ACL cannot take a context away.
 *
 * Results: WEIR_ERR_DEVICE means that an ACL call failed. For this and for every refusal (WEIR_ERR_INVALID,
 * WEIR_ERR_BUSY, WEIR_ERR_UNSUPPORTED) weir_acl_error has a sentence that says which call or argument, and why.
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
    WEIR_ACL_MEMORY_DEVICE = 0, /* the accelerator's own */
    WEIR_ACL_MEMORY_HOST,       /* pinned host memory; not supported: weir_acl_host_runtime and weir/host.h */
} weir_acl_memory;

/* Which pages regions are made of (aclrtMemMallocPolicy). */
typedef enum weir_acl_pages {
    WEIR_ACL_PAGES_HUGE_FIRST = 0, /* huge, and small ones where huge ones have run out */
    WEIR_ACL_PAGES_HUGE,
    WEIR_ACL_PAGES_SMALL,
} weir_acl_pages;

enum {
    /* Leave the virtual-memory group out, whatever the chip can do. */
    WEIR_ACL_NO_VIRTUAL_MEMORY = 1u << 0,
    /* All memory is created so that other devices and network cards may be given access to it: the P2P kinds of
     * aclrtMemMallocPolicy for regions, and ACL_MEM_P2P_HUGE for the handles of virtual memory. It cannot be added later. Who
     * has access is the program's to say: aclrtMemSetAccess, aclrtDeviceEnablePeerAccess, and export of a handle, for which
     * weir's handles are of the one type that the runtime creates (ACL_MEM_HANDLE_TYPE_NONE). */
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

/* A device over ACL device `device_id`; NULL = the defaults. Regions come from aclrtMallocAlign32 in units of 2 MiB,
 * the size of a huge page: aclrtMalloc would add 32 bytes to each, and so a page. Virtual memory (where
 * aclrtMemGetAllocationGranularity does not answer "not supported") is reserved, mapped and unmapped with the calls of
 * chapter 11-04 of the API reference; order between streams is made of events of aclrtCreateEventExWithFlag.
 *
 * It calls aclrtSetDevice once and, when it is destroyed, aclrtResetDevice once, which ACL counts: the program's own
 * pair stays the program's. Call it before or after aclInit, before aclFinalize. The calling thread keeps its current
 * context if it has one. weir's native stream NULL is the default stream of the device's primary context, in whatever
 * thread; use weir_acl_stream where NULL shall mean the calling thread's.
 *
 * WEIR_ERR_INVALID: no such device, an unknown flag or enumerator. WEIR_ERR_UNSUPPORTED: WEIR_ACL_MEMORY_HOST.
 * WEIR_ERR_NO_MEMORY, WEIR_ERR_DEVICE. */
WEIR_API weir_status weir_acl_device_create(const weir_acl_device_config *config, weir_device **device);

/* The device was reset: aclrtResetDeviceForce, or aclrtResetDevice more often than it was set, has taken its streams and
 * memory, which shows before it happens. From then on the device gives no memory (WEIR_ERR_DEVICE), takes what is
 * given back without a word to ACL, whose addresses and handles may be somebody else's by now, and takes all work to be over.
 * Pools over it would still hand out what they have free: end them, and make new ones over a new device. False too where the
 * runtime does not know aclrtRegStreamStateCallback. */
WEIR_API bool weir_acl_device_lost(const weir_device *device);

/* --- pinned host memory --- */

/* What weir_host_pool_config.runtime takes, over an ACL device, so that a host pool has memory of aclrtMallocHost, or memory
 * that it maps itself and registers with aclrtHostRegisterV2 (pinned and mapped; aclrtHostRegister where the runtime does not
 * know the flags), and weir_host_free_after takes the device's streams. Threads need no context. Where aclrtMallocHost puts
 * memory is the driver's choice: a pool that shall have its say leaves WEIR_HOST_RUNTIME out of its kinds.
 *
 * The device is of weir_acl_device_create and outlives the pool. `most_bytes` is the caller's to set where the driver takes
 * less than 1 GiB at once. A stream is retired with weir_host_stream_retire before it is destroyed. WEIR_ERR_INVALID: NULL,
 * or no such device. */
WEIR_API weir_status weir_acl_host_runtime(weir_device *device, weir_host_runtime *runtime);

/* --- attaching a pool to a stream --- */

typedef struct weir_acl_attachment weir_acl_attachment;

/* Registers the pool as the allocator of an ACL stream. From then on whatever consults the registration, operators
 * (aclopExecuteV2, aclopCompileAndExecuteV2) and models of dynamic shape (aclmdlExecuteAsync), allocates from the pool
 * in the order of that stream. Attach before the first operator on the stream: the vendor's executor keeps the
 * allocator it first used. The pool's device must be of weir_acl_device_create and of the stream's device. Any number
 * of streams may share a pool and run at once.
 *
 * The stream's context must be the calling thread's current one or the primary context of the device; weir finds out by
 * making the stream wait for an event that was never recorded, which queues nothing and which ACL refuses in any other
 * context. While attached the pool is held: weir_pool_destroy returns WEIR_ERR_BUSY.
 *
 * When the stream is destroyed while attached (aclrtDestroyStream, aclrtDestroyStreamForce, or with its context or
 * device), weir hears of it before it happens, waits for the stream, takes the registration away and forgets the
 * stream. Blocks that are still held stay valid and may still be freed. The attachment remains, empty, until
 * weir_acl_detach. So nobody else may retire the stream in the pool while it is attached.
 *
 * WEIR_ERR_INVALID: NULL (the default stream has a handle too, see aclrtCtxGetCurrentDefaultStream), a stream of another
 * device than the pool's, or one of a context that is neither of those. WEIR_ERR_BUSY:
 * the stream has an allocator already, weir's or another (if another was left behind by a stream that is gone,
 * aclrtAllocatorUnregister removes it). WEIR_ERR_NO_MEMORY, WEIR_ERR_UNSUPPORTED (this chip), WEIR_ERR_DEVICE (no stream
 * any more, as far as ACL can tell, among others). After a failure nothing is registered. */
WEIR_API weir_status weir_acl_attach(weir_pool *pool, void *acl_stream, weir_acl_attachment **attachment);

/* Waits for the stream, takes the registration away and lets go of the pool, which forgets the stream: handles from
 * weir_pool_stream for it end here, as with weir_stream_retire. A registration that somebody else has put in the place
 * of weir's is left alone. NULL is allowed. No executor may be running on the stream.
 *
 * WEIR_ERR_BUSY: blocks that ACL got are not freed yet, or another thread is detaching or destroying the stream;
 * nothing has changed. (The graph engine keeps spans cached; it gives them back when the model is unloaded or the
 * stream is destroyed.) WEIR_ERR_DEVICE: the wait, or taking the registration away, failed; still attached, call again.
 * WEIR_ERR_INVALID: not an attachment. One that has been detached is recognised until 64 others have been. A stream
 * that is being destroyed must be gone before its attachment is detached. */
WEIR_API weir_status weir_acl_detach(weir_acl_attachment *attachment);

/* An attachment without a registration, for who calls the pool instead of having ACL call it: the pool knows the
 * stream's context and hears of its end. Several pools may follow a stream, and another pool may be its allocator;
 * WEIR_ERR_BUSY: this pool is attached to it, or follows it, already. The rest is as with weir_acl_attach;
 * weir_acl_detach ends it. */
WEIR_API weir_status weir_acl_follow(weir_pool *pool, void *acl_stream, weir_acl_attachment **attachment);

/* Changes before a stream of an attachment ends, so that a weir_stream that was looked up earlier may be of no use, and
 * before a device is reset. */
WEIR_API uint64_t weir_acl_epoch(void);

typedef struct weir_acl_attachment_info {
    size_t struct_size;
    weir_pool *pool;
    weir_stream *stream;    /* valid until detach; NULL once the ACL stream is gone */
    void *acl_stream;       /* likewise */
    bool handle_reused;     /* the ACL stream is gone and one with the same handle has been created since */
    uint64_t live_blocks;   /* handed to ACL and not freed yet */
    uint64_t failures;      /* allocations that ended with NULL; weir_pool_oom of the pool has the last one's reason */
    uint64_t refused_frees; /* of what was no live block of the pool: freed twice, or not weir's */
} weir_acl_attachment_info;

#define WEIR_ACL_ATTACHMENT_INFO_INIT WEIR_STRUCT_INIT(weir_acl_attachment_info)

/* Copies figures of the moment. WEIR_ERR_INVALID: not an attachment. */
WEIR_API weir_status weir_acl_attachment_get_info(weir_acl_attachment *attachment, weir_acl_attachment_info *info);

/* How much to ask of a pool for `size` bytes that a kernel works on: rounded up to 32 and 32 more, because kernels may
 * read that far (aclrtMalloc and the reference's rule for programs that divide memory themselves, chapter 11-01); on
 * Ascend950 rounded up only. Attachments do it by themselves. 0 for a size too large to round. */
WEIR_API uint64_t weir_acl_block_bytes(uint64_t size);

/* --- streams and hints --- */

/* weir_pool_stream for an ACL stream whose end the caller announces with weir_stream_retire. NULL is the default stream
 * of the calling thread's current context, so that two threads with contexts of their own get two streams. Also
 * remembers the stream's context, found as in weir_acl_attach: with it the pool can record and wait on the stream from
 * threads of another context. WEIR_ERR_INVALID: NULL, or a stream of another device or of a context that cannot be found,
 * as in weir_acl_attach. WEIR_ERR_NO_MEMORY, WEIR_ERR_DEVICE (no current context). */
WEIR_API weir_status weir_acl_stream(weir_pool *pool, void *acl_stream, weir_stream **stream);

/* ACL calls that also tell the pool what they order (weir_stream_recorded and so on in weir/pool.h), so that memory is
 * reused across streams without waits of weir's own. The result is the ACL call's; a hint that finds no host memory
 * is dropped, which is safe. acl_stream NULL is as in weir_acl_stream. WEIR_ERR_INVALID: NULL, or a stream that the pool
 * meets for the first time and that is another device's or of a context that cannot be found; then no call was made.
 *
 * Events must be of aclrtCreateEvent or aclrtCreateEventExWithFlag, where a wait is for the latest record. What
 * aclrtCreateEventWithFlag makes is a raw flag, which a wait may find set by an earlier record. No other thread may
 * record the event while it is waited for. Otherwise threads need not agree on anything. */
WEIR_API weir_status weir_acl_record_event(weir_pool *pool, void *acl_event, void *acl_stream); /* aclrtRecordEvent */
WEIR_API weir_status weir_acl_wait_event(weir_pool *pool, void *acl_stream, void *acl_event); /* aclrtStreamWaitEvent */
WEIR_API weir_status weir_acl_query_event(weir_pool *pool, void *acl_event, bool *complete);  /* aclrtQueryEventStatus */
WEIR_API weir_status weir_acl_sync_event(weir_pool *pool, void *acl_event);    /* aclrtSynchronizeEvent */
WEIR_API weir_status weir_acl_sync_stream(weir_pool *pool, void *acl_stream);  /* aclrtSynchronizeStream */
WEIR_API weir_status weir_acl_destroy_event(weir_pool *pool, void *acl_event); /* aclrtDestroyEvent */

/* --- errors --- */

/* Why the calling thread's last call failed, to be read right after it. *text is weir_last_error's sentence, in which the
 * later of two things stands: the last refusal of weir ("weir_acl_detach: ACL holds 3 blocks ..."), or the last ACL call
 * inside weir that failed ("aclrtMallocAlign32: 207001 ACL_ERROR_RT_MEMORY_ALLOCATION, out of memory"); "" if there was
 * neither. *acl_error is the code of the ACL call that the sentence tells of, 0 if it tells of none. The text stays until
 * the thread's next failure. Either pointer may be NULL.
 *
 * (weir_device_error of an ACL device has the last ACL call that failed, also after later refusals.) Always WEIR_OK. */
WEIR_API weir_status weir_acl_error(int *acl_error, const char **text);

/* "ACL_ERROR_RT_CONTEXT_NULL" for 107002, "ACL_ERROR_UNKNOWN" for a code that is not in the table. Never NULL. */
WEIR_API const char *weir_acl_error_name(int acl_error);
/* A few words for a person. Never NULL. */
WEIR_API const char *weir_acl_error_text(int acl_error);
/* What weir makes of a code: out of memory of whatever kind WEIR_ERR_NO_MEMORY, missing features WEIR_ERR_UNSUPPORTED,
 * 0 WEIR_OK, everything else WEIR_ERR_DEVICE. */
WEIR_API weir_status weir_acl_status(int acl_error);

#ifdef __cplusplus
}
#endif

#endif
