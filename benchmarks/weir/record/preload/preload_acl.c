/* benchmarks/weir/record/preload/preload_acl.c: interposes the Ascend runtime and records device memory, pinned memory,
 * the events of streams, and waits.
 *
 * A program without the runtime never calls these functions. The runtime's own types are declared as pointers and
 * numbers here, so no vendor's header is needed, and the real and the simulated runtime look the same.
 *
 * aclrtMalloc and its variants give memory that belongs to no stream, so their blocks are recorded on the default
 * stream of their device and freed in host order. aclrtMemPoolMallocAsync and aclrtMemPoolFreeAsync name a stream. A
 * free is recorded in two halves, because it may fail, and because another thread may get the block before it returns.
 *
 * A call that the runtime makes inside another recorded call is not recorded.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT */
#endif

#include "tell.h"

#include <dlfcn.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { ACL_SUCCESS = 0, ACL_ERROR_FAILURE = 500001 };

typedef int aclError;

static _Thread_local __attribute__((tls_model("initial-exec"))) unsigned inside; /* nesting depth of calls */

/* Finds the next function of that name. A runtime loaded by dlopen is not in the search order after this library, so
 * the runtime's library is looked up by name. */
static void find_next(const char *name, void *function)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    void *const runtime = symbol == NULL ? dlopen("libascendcl.so", RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (runtime != NULL) {
        symbol = dlsym(runtime, name);
        (void)dlclose(runtime);
    }
    memcpy(function, &symbol, sizeof(symbol));
}

/* Calls the runtime's function of this name. The result is ACL_ERROR_FAILURE if no runtime has it. */
#define PASS_ON(name, parameters, arguments, result)                                                                   \
    static aclError(*next) parameters;                                                                                 \
    if (next == NULL) {                                                                                                \
        find_next(name, &next);                                                                                        \
    }                                                                                                                  \
    inside++;                                                                                                          \
    const aclError result = next != NULL ? next arguments : ACL_ERROR_FAILURE;                                         \
    inside--

/* --- recording --- */

static uint16_t current_device(void)
{
    int32_t device = 0;
    PASS_ON("aclrtGetDevice", (int32_t *), (&device), result);
    return result == ACL_SUCCESS && device >= 0 && device < channel_pinned ? (uint16_t)device : 0;
}

/* Returns the channel, or NULL if the library does not record this call. */
static struct channel *enter(void)
{
    struct channel *const to = inside == 0 ? tell_channel() : NULL;
    if (to == NULL || (to->what & channel_records_device) == 0) {
        return NULL;
    }
    atomic_fetch_add_explicit(&to->calls, 1, memory_order_relaxed);
    return to;
}

static void tell_alloc(struct channel *to, uint16_t device, void *const *block, uint64_t size, void *stream)
{
    if (*block != NULL) { /* some functions succeed for size 0 and return no block */
        tell(to, &(struct channel_slot){.kind = WEIR_TRACE_ALLOC,
                                        .device = device,
                                        .id = (uintptr_t)*block,
                                        .size = size,
                                        .stream = (uintptr_t)stream});
    }
}

static void tell_free_begins(struct channel *to, uint16_t device, void *block)
{
    tell(to,
         &(struct channel_slot){.kind = WEIR_TRACE_REALLOC, .mode = 'B', .device = device, .extra = (uintptr_t)block});
}

/* Records the end of a free call: in the order of `stream`, or with `host_order` in the order of the host. If the call
 * failed, the block stays live. */
static void tell_free_ends(struct channel *to, aclError result, uint16_t device, void *block, void *stream,
                           bool host_order)
{
    if (result != ACL_SUCCESS) { /* the block stays live */
        tell(to, &(struct channel_slot){
                     .kind = WEIR_TRACE_REALLOC, .mode = 'E', .device = device, .extra = (uintptr_t)block});
        return;
    }
    tell(to, &(struct channel_slot){.kind = WEIR_TRACE_FREE,
                                    .mode = 'E',
                                    .device = device,
                                    .id = (uintptr_t)block,
                                    .stream = (uintptr_t)stream,
                                    .extra = host_order});
}

static void tell_order(struct channel *to, weir_trace_kind kind, char mode, void *event, void *stream)
{
    tell(to, &(struct channel_slot){.kind = (uint8_t)kind,
                                    .mode = mode,
                                    .device = current_device(),
                                    .id = (uintptr_t)event,
                                    .stream = (uintptr_t)stream});
}

/* --- memory --- */

#define GIVES(name, on_device, parameters, arguments)                                                                  \
    EXPORT aclError name parameters;                                                                                   \
    aclError name parameters                                                                                           \
    {                                                                                                                  \
        struct channel *const to = enter();                                                                            \
        PASS_ON(#name, parameters, arguments, result);                                                                 \
        if (to != NULL && result == ACL_SUCCESS) {                                                                     \
            tell_alloc(to, on_device, address, size, NULL);                                                            \
        }                                                                                                              \
        return result;                                                                                                 \
    }

#define TAKES(name, on_device)                                                                                         \
    EXPORT aclError name(void *address);                                                                               \
    aclError name(void *address)                                                                                       \
    {                                                                                                                  \
        struct channel *const to = enter();                                                                            \
        if (to != NULL) {                                                                                              \
            tell_free_begins(to, on_device, address);                                                                  \
        }                                                                                                              \
        PASS_ON(#name, (void *), (address), result);                                                                   \
        if (to != NULL) {                                                                                              \
            tell_free_ends(to, result, on_device, address, NULL, true);                                                \
        }                                                                                                              \
        return result;                                                                                                 \
    }

GIVES(aclrtMalloc, current_device(), (void **address, size_t size, int policy), (address, size, policy))
GIVES(aclrtMallocAlign32, current_device(), (void **address, size_t size, int policy), (address, size, policy))
GIVES(aclrtMallocCached, current_device(), (void **address, size_t size, int policy), (address, size, policy))
GIVES(aclrtMallocWithCfg, current_device(), (void **address, size_t size, int policy, void *config),
      (address, size, policy, config))
TAKES(aclrtFree, 0)
TAKES(aclrtFreeWithDevSync, 0)

GIVES(aclrtMallocHost, channel_pinned, (void **address, size_t size), (address, size))
GIVES(aclrtMallocHostWithCfg, channel_pinned, (void **address, uint64_t size, void *config), (address, size, config))
TAKES(aclrtFreeHost, channel_pinned)
TAKES(aclrtFreeHostWithDevSync, channel_pinned)

EXPORT aclError aclrtMemPoolMallocAsync(void **address, size_t size, void *pool, void *stream);

aclError aclrtMemPoolMallocAsync(void **address, size_t size, void *pool, void *stream)
{
    struct channel *const to = enter();
    PASS_ON("aclrtMemPoolMallocAsync", (void **, size_t, void *, void *), (address, size, pool, stream), result);
    if (to != NULL && result == ACL_SUCCESS && size != 0) {
        tell_alloc(to, current_device(), address, size, stream);
    }
    return result;
}

EXPORT aclError aclrtMemPoolFreeAsync(void *address, void *stream);

aclError aclrtMemPoolFreeAsync(void *address, void *stream)
{
    struct channel *const to = enter();
    if (to != NULL) {
        tell_free_begins(to, 0, address);
    }
    PASS_ON("aclrtMemPoolFreeAsync", (void *, void *), (address, stream), result);
    if (to != NULL) {
        tell_free_ends(to, result, current_device(), address, stream, false);
    }
    return result;
}

/* --- order --- */

#define ORDERS(name, kind, mode, event, stream, parameters, arguments)                                                 \
    EXPORT aclError name parameters;                                                                                   \
    aclError name parameters                                                                                           \
    {                                                                                                                  \
        struct channel *const to = enter();                                                                            \
        PASS_ON(#name, parameters, arguments, result);                                                                 \
        if (to != NULL && result == ACL_SUCCESS) {                                                                     \
            tell_order(to, kind, mode, event, stream);                                                                 \
        }                                                                                                              \
        return result;                                                                                                 \
    }

ORDERS(aclrtRecordEvent, WEIR_TRACE_RECORD, 0, event, stream, (void *event, void *stream), (event, stream))
ORDERS(aclrtStreamWaitEvent, WEIR_TRACE_WAIT, 0, event, stream, (void *stream, void *event), (stream, event))
ORDERS(aclrtSynchronizeEvent, WEIR_TRACE_SYNC, 'e', event, NULL, (void *event), (event))
ORDERS(aclrtSynchronizeEventWithTimeout, WEIR_TRACE_SYNC, 'e', event, NULL, (void *event, int32_t timeout),
       (event, timeout))
ORDERS(aclrtSynchronizeStream, WEIR_TRACE_SYNC, 's', NULL, stream, (void *stream), (stream))
ORDERS(aclrtSynchronizeStreamWithTimeout, WEIR_TRACE_SYNC, 's', NULL, stream, (void *stream, int32_t timeout),
       (stream, timeout))
ORDERS(aclrtDestroyStream, WEIR_TRACE_SYNC, 's', NULL, stream, (void *stream), (stream))
ORDERS(aclrtSynchronizeDevice, WEIR_TRACE_SYNC, '*', NULL, NULL, (void), ())
ORDERS(aclrtSynchronizeDeviceWithTimeout, WEIR_TRACE_SYNC, '*', NULL, NULL, (int32_t timeout), (timeout))
