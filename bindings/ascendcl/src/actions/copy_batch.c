/* copy_batch.c: copies of rectangles and of many pieces, and sets of words.
 *
 * Each row or piece is a separate copy, made in order, synchronous or asynchronous by the rules of a single copy. All
 * arguments are checked before the first byte moves.
 */
#include "actions/actions.h"

#include "base/report.h"

#include <stdlib.h>

/* --- rectangles --- */

enum { MOST_ROWS = 5 << 20, MOST_WIDTH = 5 << 20 };
#define MOST_PITCH ((size_t)1 << 40) /* limit that keeps rows times pitch within 64 bits */

struct rectangle {
    char *to;
    size_t to_pitch;
    const char *from;
    size_t from_pitch;
    size_t width;
    size_t height;
};

static bool is_device(const void *pointer)
{
    WEIR_ASSERT_HELD(acl__mutex());
    return acl__range_at(&acl__rt.device_memory, pointer) != NULL;
}

/* Checks the arguments. Needs no lock. */
static aclError check_rectangle(const struct rectangle *r, aclrtMemcpyKind kind, const char *name)
{
    ACL_FAIL_IF(r->to == NULL, ACL_ERROR_INVALID_PARAM, "%s: dst is NULL", name);
    ACL_FAIL_IF(r->from == NULL, ACL_ERROR_INVALID_PARAM, "%s: src is NULL", name);
    ACL_FAIL_IF(r->width > r->to_pitch || r->width > r->from_pitch, ACL_ERROR_INVALID_PARAM,
                "%s: rows of %zu bytes do not fit pitches of %zu and %zu", name, r->width, r->to_pitch, r->from_pitch);
    ACL_FAIL_IF(kind != ACL_MEMCPY_HOST_TO_DEVICE && kind != ACL_MEMCPY_DEVICE_TO_HOST &&
                    kind != ACL_MEMCPY_DEVICE_TO_DEVICE && kind != ACL_MEMCPY_DEFAULT,
                ACL_ERROR_INVALID_PARAM, "%s: not for kind %d", name, (int)kind);
    ACL_FAIL_IF(r->to_pitch > MOST_PITCH || r->from_pitch > MOST_PITCH, ACL_ERROR_RT_PARAM_INVALID,
                "%s: pitches of %zu and %zu bytes", name, r->to_pitch, r->from_pitch);
    ACL_FAIL_IF(r->height > MOST_ROWS || r->width > MOST_WIDTH, ACL_ERROR_RT_PARAM_INVALID,
                "%s: %zu rows of %zu bytes are more than %d by %d", name, r->height, r->width, (int)MOST_ROWS,
                (int)MOST_WIDTH);
    return ACL_SUCCESS;
}

/* True if the source or the destination of a rectangle is host memory, or all of it is device memory. */
static bool is_there(const void *start, size_t pitch, const struct rectangle *r)
{
    WEIR_ASSERT(r->height > 0);
    return !is_device(start) ||
           weir_sim_bytes(acl__rt.sim, (uint64_t)(uintptr_t)start, pitch * (r->height - 1) + r->width) != NULL;
}

static aclError check_sides(const struct rectangle *r, const char *name)
{
    ACL_FAIL_IF(!is_device(r->to) && !is_device(r->from), ACL_ERROR_RT_PARAM_INVALID, "%s: not from host to host",
                name);
    ACL_FAIL_IF(!is_there(r->to, r->to_pitch, r) || !is_there(r->from, r->from_pitch, r), ACL_ERROR_RT_PARAM_INVALID,
                "%s: the rectangle is not all device memory", name);
    return ACL_SUCCESS;
}

static aclError rectangle_now(const struct rectangle *r, const char *name)
{
    WEIR_ASSERT_HELD(acl__mutex());
    ACL_NEED_CONTEXT(context);
    ACL_TRY(check_sides(r, name));
    ACL_FAIL_IF(is_device(r->to) && is_device(r->from), ACL_ERROR_RT_PARAM_INVALID, "%s: not from device to device",
                name);
    ACL_TRY(acl__check_captures(name));
    for (size_t row = 0; row < r->height; row++) {
        ACL_TRY(acl__copy_now(r->to + row * r->to_pitch, r->from + row * r->from_pitch, r->width, name));
    }
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                                  aclrtMemcpyKind kind)
{
    ACL_ENTER_LOCKED(aclrtMemcpy2d);
    if (width == 0 || height == 0) {
        return ACL_SUCCESS;
    }
    const struct rectangle r = {dst, dpitch, src, spitch, width, height};
    ACL_TRY(check_rectangle(&r, kind, __func__));
    ACL_REFUSE_IF(kind == ACL_MEMCPY_DEVICE_TO_DEVICE, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "not from device to device");
    return rectangle_now(&r, __func__);
}

static aclError rectangle_async(const struct rectangle *r, aclrtStream handle, const char *name)
{
    WEIR_ASSERT_HELD(acl__mutex());
    ACL_NEED_STREAM(stream, handle);
    ACL_TRY(check_sides(r, name));
    for (size_t row = 0; row < r->height; row++) {
        ACL_TRY(acl__copy_async(r->to + row * r->to_pitch, r->from + row * r->from_pitch, r->width, stream, name));
    }
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                                       size_t height, aclrtMemcpyKind kind, aclrtStream stream)
{
    ACL_ENTER_LOCKED(aclrtMemcpy2dAsync);
    if (width == 0 || height == 0) {
        return ACL_SUCCESS;
    }
    const struct rectangle r = {dst, dpitch, src, spitch, width, height};
    ACL_TRY(check_rectangle(&r, kind, __func__));
    return rectangle_async(&r, stream, __func__);
}

/* --- many pieces --- */

enum { MOST_PIECES = 4096 }; /* in a synchronous batch */

struct batch {
    void **to;
    const size_t *to_sizes;
    void **from;
    const size_t *sizes;
    size_t count;
    const aclrtMemcpyBatchAttr *attributes;
    const size_t *first_pieces; /* first piece of each attribute */
    size_t attribute_count;
    size_t *failed;
    const char *name;
};

static bool is_all_empty(const struct batch *b)
{
    size_t i = 0;
    while (i < b->count && b->sizes[i] == 0) {
        i++;
    }
    return i == b->count;
}

static bool is_zero(const uint8_t *bytes, size_t count)
{
    size_t i = 0;
    while (i < count && bytes[i] == 0) {
        i++;
    }
    return i == count;
}

/* Checks all arguments that can be checked without a lookup of the memory. */
static aclError check_batch(const struct batch *b)
{
    ACL_FAIL_IF(b->to == NULL || b->to_sizes == NULL || b->from == NULL || b->attributes == NULL ||
                    b->first_pieces == NULL,
                ACL_ERROR_INVALID_PARAM, "%s: an array is NULL", b->name);
    for (size_t i = 0; i < b->count; i++) {
        ACL_FAIL_IF(b->to_sizes[i] < b->sizes[i], ACL_ERROR_INVALID_PARAM,
                    "%s: piece %zu has %zu bytes for a destination of %zu", b->name, i, b->sizes[i], b->to_sizes[i]);
    }
    ACL_FAIL_IF(b->attribute_count == 0 || b->attribute_count > b->count || b->first_pieces[0] != 0,
                ACL_ERROR_RT_PARAM_INVALID,
                "%s: there must be 1 to %zu attributes, and the first must begin with piece 0", b->name, b->count);
    for (size_t i = 0; i < b->attribute_count; i++) {
        ACL_FAIL_IF(!is_zero(b->attributes[i].rsv, sizeof(b->attributes[i].rsv)), ACL_ERROR_INVALID_PARAM,
                    "%s: the reserved bytes of attribute %zu are not 0", b->name, i);
    }
    for (size_t i = 1; i < b->attribute_count; i++) {
        ACL_FAIL_IF(b->first_pieces[i] <= b->first_pieces[i - 1] || b->first_pieces[i] >= b->count,
                    ACL_ERROR_RT_PARAM_INVALID,
                    "%s: attribute %zu begins with piece %zu, which is not after the one before or not a piece",
                    b->name, i, b->first_pieces[i]);
    }
    return ACL_SUCCESS;
}

/* True if the memory lies where the attribute says: on the host, or on a certain device. */
static bool lies_in(const void *pointer, const aclrtMemLocation *location)
{
    const acl__range *range = acl__range_at(&acl__rt.device_memory, pointer);
    if (range == NULL) {
        return location->type == ACL_MEM_LOCATION_TYPE_HOST || location->type == ACL_MEM_LOCATION_TYPE_HOST_NUMA;
    }
    return location->type == ACL_MEM_LOCATION_TYPE_DEVICE && location->id == (uint32_t)range->device;
}

static aclError check_piece(const struct batch *b, size_t i, const aclrtMemcpyBatchAttr *attribute)
{
    WEIR_ASSERT(i < b->count);
    const void *to = b->to[i];
    const void *from = b->from[i];
    ACL_FAIL_IF(to == NULL || from == NULL, ACL_ERROR_RT_PARAM_INVALID, "%s: an address of piece %zu is NULL", b->name,
                i);
    ACL_FAIL_IF(!lies_in(to, &attribute->dstLoc) || !lies_in(from, &attribute->srcLoc), ACL_ERROR_RT_PARAM_INVALID,
                "%s: piece %zu does not lie where its attribute says", b->name, i);
    ACL_FAIL_IF(is_device(to) == is_device(from), ACL_ERROR_RT_PARAM_INVALID,
                "%s: piece %zu is not between host and device", b->name, i);
    const void *device = is_device(to) ? to : from;
    ACL_FAIL_IF(b->sizes[i] > 0 && weir_sim_bytes(acl__rt.sim, (uint64_t)(uintptr_t)device, b->sizes[i]) == NULL,
                ACL_ERROR_RT_PARAM_INVALID, "%s: piece %zu is not all device memory", b->name, i);
    return ACL_SUCCESS;
}

static aclError check_pieces(const struct batch *b)
{
    size_t attribute = 0;
    for (size_t i = 0; i < b->count; i++) {
        if (attribute + 1 < b->attribute_count && i >= b->first_pieces[attribute + 1]) {
            attribute++;
        }
        const aclError error = check_piece(b, i, &b->attributes[attribute]);
        if (error != ACL_SUCCESS) {
            *b->failed = i;
            return error;
        }
    }
    return ACL_SUCCESS;
}

/* Copies all pieces. `stream` is NULL for a synchronous batch. */
static aclError copy_pieces(const struct batch *b, acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(b->attribute_count > 0 && b->first_pieces[0] == 0);
    aclError error = check_pieces(b);
    for (size_t i = 0; i < b->count && error == ACL_SUCCESS; i++) {
        error = stream != NULL ? acl__copy_async(b->to[i], b->from[i], b->sizes[i], stream, b->name)
                               : acl__copy_now(b->to[i], b->from[i], b->sizes[i], b->name);
        if (error != ACL_SUCCESS) {
            *b->failed = i;
        }
    }
    return error;
}

/* Checks the arguments of a batch of copies. Sets *nothing if there is nothing to copy. */
static aclError begin_batch(const struct batch *b, bool *nothing)
{
    *nothing = false;
    ACL_FAIL_IF(b->failed == NULL || b->sizes == NULL || b->count == 0, ACL_ERROR_INVALID_PARAM,
                "%s: failIndex or sizes is NULL, or there are no pieces", b->name);
    *b->failed = SIZE_MAX;
    *nothing = is_all_empty(b);
    return *nothing ? ACL_SUCCESS : check_batch(b);
}

static aclError batch_now(const struct batch *b)
{
    WEIR_ASSERT_HELD(acl__mutex());
    bool nothing = false;
    ACL_TRY(begin_batch(b, &nothing));
    if (nothing) {
        return ACL_SUCCESS;
    }
    ACL_FAIL_IF(b->count > MOST_PIECES, ACL_ERROR_RT_PARAM_INVALID, "%s: %zu pieces are more than %d", b->name,
                b->count, (int)MOST_PIECES);
    ACL_NEED_CONTEXT(context);
    return copy_pieces(b, NULL);
}

static aclError batch_async(const struct batch *b, aclrtStream stream_handle)
{
    WEIR_ASSERT_HELD(acl__mutex());
    bool nothing = false;
    ACL_TRY(begin_batch(b, &nothing));
    if (nothing) {
        return ACL_SUCCESS;
    }
    ACL_NEED_STREAM(stream, stream_handle);
    return copy_pieces(b, stream);
}

ACL_EXPORT aclError aclrtMemcpyBatch(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
                                     aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs,
                                     size_t *failIndex)
{
    ACL_ENTER_LOCKED(aclrtMemcpyBatch);
    const struct batch b = {dsts,  destMaxs,     srcs,     sizes,     numBatches,
                            attrs, attrsIndexes, numAttrs, failIndex, "aclrtMemcpyBatch"};
    return batch_now(&b);
}

ACL_EXPORT aclError aclrtMemcpyBatchAsync(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
                                          aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs,
                                          size_t *failIndex, aclrtStream stream_handle)
{
    ACL_ENTER_LOCKED(aclrtMemcpyBatchAsync);
    const struct batch b = {dsts,  destMaxs,     srcs,     sizes,     numBatches,
                            attrs, attrsIndexes, numAttrs, failIndex, "aclrtMemcpyBatchAsync"};
    return batch_async(&b, stream_handle);
}

/* aclrtMemcpyBatchV2 and aclrtMemcpyBatchAsyncV2 do not report the index of the failed piece. */
ACL_EXPORT aclError aclrtMemcpyBatchV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
                                       aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs)
{
    ACL_ENTER_LOCKED(aclrtMemcpyBatchV2);
    size_t failed = 0;
    const struct batch b = {dsts,  destMaxs,     srcs,     sizes,   numBatches,
                            attrs, attrsIndexes, numAttrs, &failed, "aclrtMemcpyBatchV2"};
    return batch_now(&b);
}

ACL_EXPORT aclError aclrtMemcpyBatchAsyncV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
                                            size_t numBatches, aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
                                            size_t numAttrs, aclrtStream stream_handle)
{
    ACL_ENTER_LOCKED(aclrtMemcpyBatchAsyncV2);
    size_t failed = 0;
    const struct batch b = {dsts,  destMaxs,     srcs,     sizes,   numBatches,
                            attrs, attrsIndexes, numAttrs, &failed, "aclrtMemcpyBatchAsyncV2"};
    return batch_async(&b, stream_handle);
}

/* --- sets of words --- */

static aclError check_words(const void *to, size_t bytes, const char *name)
{
    WEIR_ASSERT_HELD(acl__mutex());
    if (is_device(to)) {
        return weir_sim_bytes(acl__rt.sim, (uint64_t)(uintptr_t)to, bytes) != NULL
                   ? ACL_SUCCESS
                   : acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %zu bytes from %p are not all device memory", name,
                               bytes, to);
    }
    return acl__is_pinned(to, bytes)
               ? ACL_SUCCESS
               : acl__fail(ACL_ERROR_INVALID_PARAM, "%s: %p is neither device memory nor pinned host memory", name, to);
}

static aclError check_room(const void *to, size_t bytes, size_t words, const char *name)
{
    ACL_FAIL_IF(to == NULL || (uintptr_t)to % sizeof(uint32_t) != 0, ACL_ERROR_INVALID_PARAM,
                "%s: %p is NULL or not aligned to 4 bytes", name, to);
    ACL_FAIL_IF(words > bytes / sizeof(uint32_t), ACL_ERROR_INVALID_PARAM, "%s: %zu words do not fit %zu bytes", name,
                words, bytes);
    return ACL_SUCCESS;
}

/* Copies N words of one value, a chunk at a time. */
ACL_EXPORT aclError aclrtMemsetD32(void *ptr, size_t memSize, uint32_t value, size_t N)
{
    ACL_ENTER_LOCKED(aclrtMemsetD32);
    if (N == 0) {
        return ACL_SUCCESS;
    }
    ACL_TRY(check_room(ptr, memSize, N, __func__));
    ACL_NEED_CONTEXT(context);
    ACL_TRY(check_words(ptr, N * sizeof(uint32_t), __func__));
    enum { CHUNK = 16384 };
    const size_t chunk = N < CHUNK ? N : CHUNK;
    uint32_t *values = malloc(chunk * sizeof(*values));
    ACL_REFUSE_IF(values == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory");
    for (size_t i = 0; i < chunk; i++) {
        values[i] = value;
    }
    aclError error = ACL_SUCCESS;
    for (size_t done = 0; done < N && error == ACL_SUCCESS; done += chunk) {
        const size_t now = N - done < chunk ? N - done : chunk;
        error = acl__copy_now((uint32_t *)ptr + done, values, now * sizeof(*values), __func__);
    }
    free(values);
    return error;
}

struct words {
    uint32_t *to;
    uint32_t value;
    size_t count;
    bool on_host;
};

static aclError fill_words(void *ctx)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(((const struct words *)ctx)->count > 0);
    const struct words *w = ctx;
    const size_t bytes = w->count * sizeof(*w->to);
    if (w->on_host && !acl__is_pinned(w->to, bytes)) {
        acl__report_host_memory("aclrtMemsetD32Async", (uint64_t)(uintptr_t)w->to, bytes,
                                "after the memory was given back");
        return ACL_ERROR_RT_DEVICE_MEM_ERROR;
    }
    if (!w->on_host && weir_sim_bytes(acl__rt.sim, (uint64_t)(uintptr_t)w->to, bytes) == NULL) {
        return ACL_ERROR_RT_DEVICE_MEM_ERROR;
    }
    for (size_t i = 0; i < w->count; i++) {
        w->to[i] = w->value;
    }
    return ACL_SUCCESS;
}

/* Queues one kernel that writes the N words, at the speed of device memory. */
ACL_EXPORT aclError aclrtMemsetD32Async(void *ptr, size_t memSize, uint32_t value, size_t N, aclrtStream stream_handle)
{
    enum { BYTES_IN_NS = 1200, LAUNCH_NS = 5000 };
    ACL_ENTER_LOCKED(aclrtMemsetD32Async);
    if (N == 0) {
        return ACL_SUCCESS;
    }
    ACL_TRY(check_room(ptr, memSize, N, __func__));
    ACL_NEED_STREAM(stream, stream_handle);
    const size_t bytes = N * sizeof(uint32_t);
    ACL_TRY(check_words(ptr, bytes, __func__));
    struct words *w = malloc(sizeof(*w));
    ACL_REFUSE_IF(w == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory");
    *w = (struct words){ptr, value, N, !is_device(ptr)};
    const weir_sim_access access = {.address = (uintptr_t)ptr, .size = bytes, .write = true};
    const acl__kernel kernel = {.tag = __func__,
                                .duration_ns = LAUNCH_NS + bytes / BYTES_IN_NS,
                                .accesses = &access,
                                .access_count = w->on_host ? 0 : 1,
                                .writes_host = w->on_host,
                                .compute = fill_words,
                                .end = free,
                                .ctx = w,
                                .ctx_bytes = sizeof(*w)};
    return acl__launch(stream, &kernel);
}
