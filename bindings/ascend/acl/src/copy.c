/* bindings/ascend/acl/src/copy.c: copies between device and host memory, for the sleep of a pool (weir/sleep.h).
 *
 * Idea: pieces that continue one another become one copy, and large copies are cut, so that two streams are busy all
 * the time. The streams exist during the call only: a sleep is rare, and a device has few streams.
 */
#include "acl_internal.h"
#include "shared/copy_pieces.h"

enum {
    copy_streams = 2,
    most_waits = 16, /* tries to wait for a stream whose wait fails */
};

static aclError queue_one(aclrtStream stream, const weir_copy *copy)
{
    void *device = (void *)(uintptr_t)copy->address;
    const size_t size = (size_t)copy->size;
    if (copy->host == NULL) {
        return aclrtMemsetAsync(device, size, copy->value, size, stream);
    }
    return copy->to_host ? aclrtMemcpyAsync(copy->host, size, device, size, ACL_MEMCPY_DEVICE_TO_HOST, stream)
                         : aclrtMemcpyAsync(device, size, copy->host, size, ACL_MEMCPY_HOST_TO_DEVICE, stream);
}

static weir_status queue_all(const aclrtStream *streams, const weir_copy *copies, size_t count)
{
    struct copy_pieces pieces = {.copies = copies, .count = count};
    weir_status status = WEIR_OK;
    weir_copy piece;
    for (unsigned turn = 0; status == WEIR_OK && copy_next_piece(&pieces, &piece); turn++) {
        status = weir__acl_result(piece.host == NULL ? "aclrtMemsetAsync" : "aclrtMemcpyAsync",
                                  UNCANCELLED(queue_one(streams[turn % copy_streams], &piece)));
    }
    return status;
}

/* Waits for the stream's copies and destroys the stream. A wait that fails may leave copies under way, so it is tried
 * again; the copies count as failed all the same. The destruction waits, too. */
static weir_status end_stream(aclrtStream stream)
{
    const weir_status status = ACL(aclrtSynchronizeStream, stream);
    weir_status waited = status;
    for (int i = 1; i < most_waits && waited != WEIR_OK; i++) {
        waited = ACL(aclrtSynchronizeStream, stream);
    }
    weir_status destroyed = WEIR_ERR_DEVICE;
    for (int i = 0; i < most_waits && destroyed != WEIR_OK; i++) {
        destroyed = ACL(aclrtDestroyStream, stream);
    }
    return status;
}

static weir_status copy_all(const weir_copy *copies, size_t count)
{
    aclrtStream streams[copy_streams] = {NULL};
    weir_status status = WEIR_OK;
    int made = 0;
    while (made < copy_streams && status == WEIR_OK) {
        status = ACL(aclrtCreateStream, &streams[made]);
        made += status == WEIR_OK;
    }
    status = status == WEIR_OK ? queue_all(streams, copies, count) : status;
    for (int i = 0; i < made; i++) {
        const weir_status ended = end_stream(streams[i]);
        status = status == WEIR_OK ? ended : status;
    }
    return status;
}

weir_status weir__acl_copy(void *ctx, const weir_copy *copies, size_t count)
{
    if (count == 0) {
        return WEIR_OK;
    }
    if (weir__acl_is_lost(ctx)) {
        return weir__acl_result("aclrtMemcpyAsync", ACL_ERROR_RT_CONTEXT_NULL);
    }
    return IN_CONTEXT(ctx, copy_all(copies, count));
}
