/* copy_batch.c: copies of rectangles and of many pieces, and sets of words.
 *
 * Each row or piece is a separate copy, made in order, synchronous or asynchronous by the rules of a single copy. All
 * arguments are checked before the first byte moves.
 */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

/* --- rectangles --- */

enum { MOST_ROWS = 5 << 20, MOST_WIDTH = 5 << 20 };
#define MOST_PITCH ((size_t)1 << 40) /* keeps a rectangle's size within 64 bits */

typedef struct rectangle {
    char *to;
    size_t to_pitch;
    const char *from;
    size_t from_pitch;
    size_t width;
    size_t height;
} rectangle;

static bool is_device(const void *pointer)
{
    return acl__range_at(&acl__rt.device_memory, pointer) != NULL;
}

/* Checks the arguments. Needs no lock. */
static aclError check_rectangle(const rectangle *r, aclrtMemcpyKind kind, const char *name)
{
    if (r->to == NULL || r->from == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "%s: %s is NULL", name, r->to == NULL ? "dst" : "src");
    }
    if (r->width > r->to_pitch || r->width > r->from_pitch) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "%s: rows of %zu bytes do not fit pitches of %zu and %zu", name,
                         r->width, r->to_pitch, r->from_pitch);
    }
    if (kind != ACL_MEMCPY_HOST_TO_DEVICE && kind != ACL_MEMCPY_DEVICE_TO_HOST && kind != ACL_MEMCPY_DEVICE_TO_DEVICE &&
        kind != ACL_MEMCPY_DEFAULT) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "%s: not for kind %d", name, (int)kind);
    }
    if (r->to_pitch > MOST_PITCH || r->from_pitch > MOST_PITCH) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: pitches of %zu and %zu bytes", name, r->to_pitch,
                         r->from_pitch);
    }
    if (r->height > MOST_ROWS || r->width > MOST_WIDTH) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %zu rows of %zu bytes are more than %d by %d", name,
                         r->height, r->width, (int)MOST_ROWS, (int)MOST_WIDTH);
    }
    return ACL_SUCCESS;
}

/* True if a side of a rectangle is host memory, or device memory from its first byte to its last. */
static bool is_there(const void *start, size_t pitch, const rectangle *r)
{
    return !is_device(start) ||
           weir_sim_bytes(acl__rt.sim, (uint64_t)(uintptr_t)start, pitch * (r->height - 1) + r->width) != NULL;
}

static aclError check_sides(const rectangle *r, const char *name)
{
    if (!is_device(r->to) && !is_device(r->from)) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: not from host to host", name);
    }
    if (!is_there(r->to, r->to_pitch, r) || !is_there(r->from, r->from_pitch, r)) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: the rectangle is not all device memory", name);
    }
    return ACL_SUCCESS;
}

static aclError rectangle_now(const rectangle *r, const char *name)
{
    acl__context *context = NULL;
    aclError error = acl__context_need(&context);
    if (error == ACL_SUCCESS) {
        error = check_sides(r, name);
    }
    if (error == ACL_SUCCESS && is_device(r->to) && is_device(r->from)) {
        error = acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: not from device to device", name);
    }
    for (size_t row = 0; row < r->height && error == ACL_SUCCESS; row++) {
        error = acl__copy_now(r->to + row * r->to_pitch, r->from + row * r->from_pitch, r->width, name);
    }
    return error;
}

ACL_EXPORT aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                                  aclrtMemcpyKind kind)
{
    static const char name[] = "aclrtMemcpy2d";
    ACL_ENTER(aclrtMemcpy2d);
    if (width == 0 || height == 0) {
        return ACL_SUCCESS;
    }
    const rectangle r = {dst, dpitch, src, spitch, width, height};
    aclError error = check_rectangle(&r, kind, name);
    if (error != ACL_SUCCESS) {
        return error;
    }
    if (kind == ACL_MEMCPY_DEVICE_TO_DEVICE) {
        return acl__fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: not from device to device", name);
    }
    acl__lock();
    error = rectangle_now(&r, name);
    acl__unlock();
    return error;
}

static aclError rectangle_async(const rectangle *r, aclrtStream handle, const char *name)
{
    acl__stream *stream = NULL;
    aclError error = acl__stream_of(handle, &stream);
    if (error == ACL_SUCCESS) {
        error = check_sides(r, name);
    }
    for (size_t row = 0; row < r->height && error == ACL_SUCCESS; row++) {
        error = acl__copy_async(r->to + row * r->to_pitch, r->from + row * r->from_pitch, r->width, stream, name);
    }
    return error;
}

ACL_EXPORT aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                                       size_t height, aclrtMemcpyKind kind, aclrtStream stream)
{
    static const char name[] = "aclrtMemcpy2dAsync";
    ACL_ENTER(aclrtMemcpy2dAsync);
    if (width == 0 || height == 0) {
        return ACL_SUCCESS;
    }
    const rectangle r = {dst, dpitch, src, spitch, width, height};
    aclError error = check_rectangle(&r, kind, name);
    if (error != ACL_SUCCESS) {
        return error;
    }
    acl__lock();
    error = rectangle_async(&r, stream, name);
    acl__unlock();
    return error;
}

/* --- many pieces --- */

enum { MOST_PIECES = 4096 }; /* in a synchronous batch */

typedef struct batch {
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
} batch;

static bool is_all_empty(const batch *b)
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

/* Checks the arguments that need no look at the memory. */
static aclError check_batch(const batch *b)
{
    if (b->to == NULL || b->to_sizes == NULL || b->from == NULL || b->attributes == NULL || b->first_pieces == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "%s: an array is NULL", b->name);
    }
    for (size_t i = 0; i < b->count; i++) {
        if (b->to_sizes[i] < b->sizes[i]) {
            return acl__fail(ACL_ERROR_INVALID_PARAM, "%s: piece %zu has %zu bytes for a destination of %zu", b->name,
                             i, b->sizes[i], b->to_sizes[i]);
        }
    }
    if (b->attribute_count == 0 || b->attribute_count > b->count || b->first_pieces[0] != 0) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: there must be 1 to %zu attributes, and the first must begin with piece 0", b->name,
                         b->count);
    }
    for (size_t i = 0; i < b->attribute_count; i++) {
        if (!is_zero(b->attributes[i].rsv, sizeof(b->attributes[i].rsv))) {
            return acl__fail(ACL_ERROR_INVALID_PARAM, "%s: the reserved bytes of attribute %zu are not 0", b->name, i);
        }
    }
    for (size_t i = 1; i < b->attribute_count; i++) {
        if (b->first_pieces[i] <= b->first_pieces[i - 1] || b->first_pieces[i] >= b->count) {
            return acl__fail(
                ACL_ERROR_RT_PARAM_INVALID,
                "%s: attribute %zu begins with piece %zu, which is not after the one before or not a piece", b->name, i,
                b->first_pieces[i]);
        }
    }
    return ACL_SUCCESS;
}

/* True if memory lies where the attribute says. */
static bool lies_in(const void *pointer, const aclrtMemLocation *location)
{
    const acl__range *range = acl__range_at(&acl__rt.device_memory, pointer);
    if (range == NULL) {
        return location->type == ACL_MEM_LOCATION_TYPE_HOST || location->type == ACL_MEM_LOCATION_TYPE_HOST_NUMA;
    }
    return location->type == ACL_MEM_LOCATION_TYPE_DEVICE && location->id == (uint32_t)range->device;
}

static aclError check_piece(const batch *b, size_t i, const aclrtMemcpyBatchAttr *attribute)
{
    const void *to = b->to[i];
    const void *from = b->from[i];
    if (to == NULL || from == NULL) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: an address of piece %zu is NULL", b->name, i);
    }
    if (!lies_in(to, &attribute->dstLoc) || !lies_in(from, &attribute->srcLoc)) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: piece %zu does not lie where its attribute says", b->name, i);
    }
    if (is_device(to) == is_device(from)) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: piece %zu is not between host and device", b->name, i);
    }
    const void *device = is_device(to) ? to : from;
    if (b->sizes[i] > 0 && weir_sim_bytes(acl__rt.sim, (uint64_t)(uintptr_t)device, b->sizes[i]) == NULL) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: piece %zu is not all device memory", b->name, i);
    }
    return ACL_SUCCESS;
}

static aclError check_pieces(const batch *b)
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
static aclError copy_pieces(const batch *b, acl__stream *stream)
{
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

/* Checks a batch. Sets *nothing if there is nothing to copy. */
static aclError begin_batch(const batch *b, bool *nothing)
{
    *nothing = false;
    if (b->failed == NULL || b->sizes == NULL || b->count == 0) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "%s: failIndex or sizes is NULL, or there are no pieces", b->name);
    }
    *b->failed = SIZE_MAX;
    *nothing = is_all_empty(b);
    return *nothing ? ACL_SUCCESS : check_batch(b);
}

ACL_EXPORT aclError aclrtMemcpyBatch(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
                                     aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs,
                                     size_t *failIndex)
{
    ACL_ENTER(aclrtMemcpyBatch);
    const batch b = {dsts,  destMaxs,     srcs,     sizes,     numBatches,
                     attrs, attrsIndexes, numAttrs, failIndex, "aclrtMemcpyBatch"};
    bool nothing = false;
    aclError error = begin_batch(&b, &nothing);
    if (nothing || error != ACL_SUCCESS) {
        return error;
    }
    if (numBatches > MOST_PIECES) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %zu pieces are more than %d", b.name, numBatches,
                         (int)MOST_PIECES);
    }
    acl__context *context = NULL;
    acl__lock();
    error = acl__context_need(&context);
    if (error == ACL_SUCCESS) {
        error = copy_pieces(&b, NULL);
    }
    acl__unlock();
    return error;
}

ACL_EXPORT aclError aclrtMemcpyBatchAsync(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
                                          aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs,
                                          size_t *failIndex, aclrtStream stream_handle)
{
    ACL_ENTER(aclrtMemcpyBatchAsync);
    const batch b = {dsts,  destMaxs,     srcs,     sizes,     numBatches,
                     attrs, attrsIndexes, numAttrs, failIndex, "aclrtMemcpyBatchAsync"};
    bool nothing = false;
    aclError error = begin_batch(&b, &nothing);
    if (nothing || error != ACL_SUCCESS) {
        return error;
    }
    acl__stream *stream = NULL;
    acl__lock();
    error = acl__stream_of(stream_handle, &stream);
    if (error == ACL_SUCCESS) {
        error = copy_pieces(&b, stream);
    }
    acl__unlock();
    return error;
}

/* --- sets of words --- */

/* Copies `count` words of one value, a chunk at a time. */
static aclError set_words(uint32_t *to, uint32_t value, size_t count)
{
    enum { CHUNK = 16384 };
    const size_t chunk = count < CHUNK ? count : CHUNK;
    uint32_t *values = malloc(chunk * sizeof(*values));
    if (values == NULL) {
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMemsetD32: no host memory");
    }
    for (size_t i = 0; i < chunk; i++) {
        values[i] = value;
    }
    aclError error = ACL_SUCCESS;
    for (size_t done = 0; done < count && error == ACL_SUCCESS; done += chunk) {
        const size_t now = count - done < chunk ? count - done : chunk;
        error = acl__copy_now(to + done, values, now * sizeof(*values), "aclrtMemsetD32");
    }
    free(values);
    return error;
}

static aclError check_words(const void *to, size_t bytes)
{
    if (is_device(to)) {
        return weir_sim_bytes(acl__rt.sim, (uint64_t)(uintptr_t)to, bytes) != NULL
                   ? ACL_SUCCESS
                   : acl__fail(ACL_ERROR_RT_PARAM_INVALID,
                               "aclrtMemsetD32: %zu bytes from %p are not all device memory", bytes, to);
    }
    return acl__is_pinned(to, bytes)
               ? ACL_SUCCESS
               : acl__fail(ACL_ERROR_INVALID_PARAM,
                           "aclrtMemsetD32: %p is neither device memory nor pinned host memory", to);
}

ACL_EXPORT aclError aclrtMemsetD32(void *ptr, size_t memSize, uint32_t value, size_t N)
{
    ACL_ENTER(aclrtMemsetD32);
    if (N == 0) {
        return ACL_SUCCESS;
    }
    if (ptr == NULL || (uintptr_t)ptr % sizeof(uint32_t) != 0) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtMemsetD32: %p is NULL or not aligned to 4 bytes", ptr);
    }
    if (N > memSize / sizeof(uint32_t)) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtMemsetD32: %zu words do not fit %zu bytes", N, memSize);
    }
    acl__context *context = NULL;
    acl__lock();
    aclError error = acl__context_need(&context);
    if (error == ACL_SUCCESS) {
        error = check_words(ptr, N * sizeof(uint32_t));
    }
    if (error == ACL_SUCCESS) {
        error = set_words(ptr, value, N);
    }
    acl__unlock();
    return error;
}
