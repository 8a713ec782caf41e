/* copy_batch_test.c: copies of rectangles and batches, and memsets of words: the bytes that arrive, and the refused
 * calls. */
#include "rig/acl.h"

#include <weir/ascendcl.h>

#include <string.h>

enum { PITCH = 512, ROWS = 64, SIZE = PITCH * ROWS };

static unsigned char *device, *other, *pinned;
static unsigned char pageable[SIZE];
static aclrtStream stream;

static int set_up(void **unused)
{
    (void)unused;
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtMalloc((void **)&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMalloc((void **)&other, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMallocHost((void **)&pinned, SIZE));
    acl_ok(aclrtMemset(device, SIZE, 0xee, SIZE));
    for (int i = 0; i < SIZE; i++) {
        pageable[i] = (unsigned char)(i * 7 + i / 251);
        pinned[i] = (unsigned char)(i * 5 + i / 247);
    }
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    acl_ok(aclrtDestroyStream(stream));
    acl_ok(aclrtFree(device));
    acl_ok(aclrtFree(other));
    acl_ok(aclrtFreeHost(pinned));
    acl_ok(aclrtResetDevice(0));
    assert_int_equal(weir_ascendcl_finding_count(NULL), 0);
    return 0;
}

/* Checks that the rows of `width` bytes of `from` are in `to`, and that the bytes between them are unchanged. */
static void expect_rows(const unsigned char *to, size_t to_pitch, const unsigned char *from, size_t from_pitch,
                        size_t width, size_t height, int between)
{
    for (size_t row = 0; row < height; row++) {
        assert_memory_equal(to + row * to_pitch, from + row * from_pitch, width);
        for (size_t i = width; i < to_pitch && between >= 0 && row + 1 < height; i++) {
            assert_int_equal(to[row * to_pitch + i], between);
        }
    }
}

TEST(a_rectangle_goes_there_and_back)
{
    enum { WIDTH = 100, HEIGHT = 30, NARROW = 128 };
    unsigned char back[NARROW * HEIGHT];
    memset(back, 0x11, sizeof(back));
    acl_ok(aclrtMemcpy2d(device, PITCH, pageable, NARROW, WIDTH, HEIGHT, ACL_MEMCPY_HOST_TO_DEVICE));
    expect_rows(device, PITCH, pageable, NARROW, WIDTH, HEIGHT, 0xee);
    acl_ok(aclrtMemcpy2d(back, NARROW, device, PITCH, WIDTH, HEIGHT, ACL_MEMCPY_DEFAULT));
    expect_rows(back, NARROW, pageable, NARROW, WIDTH, HEIGHT, 0x11);
}

TEST(an_asynchronous_rectangle_comes_in_its_streams_order)
{
    enum { WIDTH = 100, HEIGHT = 30 };
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.duration_ns = 10000000;
    acl_ok(weir_ascendcl_launch(stream, &kernel));
    acl_ok(aclrtMemcpy2dAsync(device, PITCH, pinned, WIDTH, WIDTH, HEIGHT, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    acl_ok(aclrtMemcpy2dAsync(other, WIDTH, device, PITCH, WIDTH, HEIGHT, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    assert_int_equal(device[PITCH * (HEIGHT - 1)], 0xee); /* not yet run */
    acl_ok(aclrtSynchronizeStream(stream));
    expect_rows(device, PITCH, pinned, WIDTH, WIDTH, HEIGHT, 0xee);
    expect_rows(other, WIDTH, pinned, WIDTH, WIDTH, HEIGHT, -1);
    acl_ok(aclrtMemcpy2dAsync(device, PITCH, pageable, WIDTH, WIDTH, HEIGHT, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    expect_rows(device, PITCH, pageable, WIDTH, WIDTH, HEIGHT, 0xee); /* a pageable copy is complete at once */
}

TEST(rectangles_that_are_none)
{
    const aclrtMemcpyKind kind = ACL_MEMCPY_HOST_TO_DEVICE;
    acl_ok(aclrtMemcpy2d(NULL, 0, NULL, 0, 0, 5, (aclrtMemcpyKind)99)); /* an empty copy: before any other check */
    acl_ok(aclrtMemcpy2dAsync(NULL, 0, NULL, 0, 5, 0, (aclrtMemcpyKind)99, stream));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemcpy2d(NULL, PITCH, pageable, PITCH, 4, 4, kind));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemcpy2d(device, PITCH, NULL, PITCH, 4, 4, kind));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemcpy2d(device, 3, pageable, PITCH, 4, 4, kind));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemcpy2dAsync(device, PITCH, pageable, 3, 4, 4, kind, stream));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemcpy2d(device, PITCH, pageable, PITCH, 4, 4, ACL_MEMCPY_HOST_TO_HOST));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               aclrtMemcpy2d(device, PITCH, other, PITCH, 4, 4, ACL_MEMCPY_DEVICE_TO_DEVICE));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy2d(device, PITCH, other, PITCH, 4, 4, ACL_MEMCPY_DEFAULT));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy2d(pinned, PITCH, pageable, PITCH, 4, 4, ACL_MEMCPY_DEFAULT));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy2d(device, PITCH, pageable, PITCH, 4, (5 << 20) + 1, kind));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy2d(device, SIZE_MAX / 2, pageable, SIZE_MAX / 2, 4, 4, kind));
    /* The last row lies outside the memory: no byte is copied. */
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy2d(device, 4 << 20, pageable, 0x40, 4, 4, kind));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtMemcpy2dAsync(device, 4, pinned, 4, 4, 4, kind, &device));
    acl_ok(aclrtSynchronizeStream(stream));
    assert_int_equal(device[0], 0xee);
}

/* --- batches --- */

static aclrtMemcpyBatchAttr between(aclrtMemLocationType to, aclrtMemLocationType from)
{
    aclrtMemcpyBatchAttr attribute;
    memset(&attribute, 0, sizeof(attribute));
    attribute.dstLoc.type = to;
    attribute.srcLoc.type = from;
    return attribute;
}

#define TO_DEVICE between(ACL_MEM_LOCATION_TYPE_DEVICE, ACL_MEM_LOCATION_TYPE_HOST)
#define TO_HOST between(ACL_MEM_LOCATION_TYPE_HOST, ACL_MEM_LOCATION_TYPE_DEVICE)

TEST(a_batch_copies_each_piece_in_its_direction)
{
    for (int async = 0; async < 2; async++) {
        unsigned char *host = async == 1 ? pinned : pageable;
        void *to[] = {device, device + 1000, host + 5000};
        void *from[] = {host, host + 1000, other};
        size_t sizes[] = {100, 200, 300};
        size_t rooms[] = {100, 201, 300};
        aclrtMemcpyBatchAttr attributes[] = {TO_DEVICE, TO_HOST};
        size_t first[] = {0, 2};
        size_t failed = 7;
        acl_ok(aclrtMemset(device, SIZE, 0xee, SIZE));
        acl_ok(aclrtMemset(other, SIZE, 3, SIZE));
        acl_ok(async == 1 ? aclrtMemcpyBatchAsync(to, rooms, from, sizes, 3, attributes, first, 2, &failed, stream)
                          : aclrtMemcpyBatch(to, rooms, from, sizes, 3, attributes, first, 2, &failed));
        assert_true(failed == SIZE_MAX);
        acl_ok(aclrtSynchronizeStream(stream));
        assert_memory_equal(device, host, 100);
        assert_int_equal(device[100], 0xee);
        assert_memory_equal(device + 1000, host + 1000, 200);
        assert_int_equal(device[1200], 0xee);
        assert_int_equal(host[5000], 3);
        assert_int_equal(host[5299], 3);
    }
}

TEST(batches_that_are_refused_copy_nothing)
{
    void *to[] = {device, device + 1000};
    void *from[] = {pageable, pageable + 1000};
    size_t sizes[] = {100, 200};
    size_t rooms[] = {100, 200};
    size_t none[] = {0, 0};
    aclrtMemcpyBatchAttr attributes[] = {TO_DEVICE, TO_DEVICE};
    size_t first[] = {0, 1};
    size_t failed = 7;
    enum { BAD = ACL_ERROR_RT_PARAM_INVALID };
#define BATCH(...) aclrtMemcpyBatch(__VA_ARGS__)
    acl_expect(ACL_ERROR_INVALID_PARAM, BATCH(to, rooms, from, sizes, 2, attributes, first, 2, NULL));
    acl_expect(ACL_ERROR_INVALID_PARAM, BATCH(to, rooms, from, NULL, 2, attributes, first, 2, &failed));
    acl_expect(ACL_ERROR_INVALID_PARAM, BATCH(to, rooms, from, sizes, 0, attributes, first, 2, &failed));
    acl_ok(BATCH(NULL, NULL, NULL, none, 2, NULL, NULL, 0, &failed)); /* an empty batch: no other argument is checked */
    assert_true(failed == SIZE_MAX);
    acl_expect(ACL_ERROR_INVALID_PARAM, BATCH(NULL, rooms, from, sizes, 2, attributes, first, 2, &failed));
    acl_expect(ACL_ERROR_INVALID_PARAM, BATCH(to, NULL, from, sizes, 2, attributes, first, 2, &failed));
    acl_expect(ACL_ERROR_INVALID_PARAM, BATCH(to, rooms, NULL, sizes, 2, attributes, first, 2, &failed));
    acl_expect(ACL_ERROR_INVALID_PARAM, BATCH(to, rooms, from, sizes, 2, NULL, first, 2, &failed));
    acl_expect(ACL_ERROR_INVALID_PARAM, BATCH(to, rooms, from, sizes, 2, attributes, NULL, 2, &failed));
    rooms[1] = 199;
    acl_expect(ACL_ERROR_INVALID_PARAM, BATCH(to, rooms, from, sizes, 2, attributes, first, 2, &failed));
    rooms[1] = 200;
    acl_expect(BAD, BATCH(to, rooms, from, sizes, 2, attributes, first, 0, &failed));
    acl_expect(BAD, BATCH(to, rooms, from, sizes, 2, attributes, first, 3, &failed));
    first[1] = 2;
    acl_expect(BAD, BATCH(to, rooms, from, sizes, 2, attributes, first, 2, &failed));
    first[1] = 0;
    acl_expect(BAD, BATCH(to, rooms, from, sizes, 2, attributes, first, 2, &failed));
    first[0] = 1;
    acl_expect(BAD, BATCH(to, rooms, from, sizes, 2, attributes, first, 1, &failed));
    first[0] = 0;
    first[1] = 1;
    attributes[1].rsv[3] = 1;
    acl_expect(ACL_ERROR_INVALID_PARAM, BATCH(to, rooms, from, sizes, 2, attributes, first, 2, &failed));
    attributes[1] = TO_HOST;
    acl_expect(BAD, BATCH(to, rooms, from, sizes, 2, attributes, first, 2, &failed));
    assert_int_equal(failed, 1);
    attributes[1] = TO_DEVICE;
    attributes[1].dstLoc.id = 1; /* another device */
    acl_expect(BAD, BATCH(to, rooms, from, sizes, 2, attributes, first, 2, &failed));
    assert_int_equal(failed, 1);
    attributes[1].dstLoc.id = 0;
    /* a batch copies between host and device; a source on the device is refused, whatever the attribute says */
    from[1] = other;
    attributes[1].srcLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    acl_expect(BAD, aclrtMemcpyBatchAsync(to, rooms, from, sizes, 2, attributes, first, 2, &failed, stream));
    assert_int_equal(failed, 1);
    from[1] = NULL;
    acl_expect(BAD, BATCH(to, rooms, from, sizes, 2, attributes, first, 2, &failed));
    acl_ok(aclrtSynchronizeStream(stream));
    for (int i = 0; i < SIZE; i++) {
        assert_int_equal(device[i], 0xee);
    }
}

TEST(a_synchronous_batch_has_at_most_4096_pieces)
{
    enum { MOST = 4096 };
    static void *to[MOST + 1], *from[MOST + 1];
    static size_t sizes[MOST + 1];
    aclrtMemcpyBatchAttr attribute = TO_DEVICE;
    size_t first = 0, failed = 7;
    for (int i = 0; i <= MOST; i++) {
        to[i] = device + i * 4;
        from[i] = pageable + i * 4;
        sizes[i] = i == 9 ? 0 : 4;
    }
    acl_expect(ACL_ERROR_RT_PARAM_INVALID,
               aclrtMemcpyBatch(to, sizes, from, sizes, MOST + 1, &attribute, &first, 1, &failed));
    assert_int_equal(device[0], 0xee);
    acl_ok(aclrtMemcpyBatch(to, sizes, from, sizes, MOST, &attribute, &first, 1, &failed));
    assert_memory_equal(device, pageable, 36);
    assert_int_equal(device[36], 0xee); /* the empty piece */
    assert_memory_equal(device + 40, pageable + 40, (MOST - 10) * 4);
}

/* --- words --- */

TEST(words_are_set)
{
    acl_ok(aclrtMemsetD32(NULL, 0, 1, 0));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemsetD32(NULL, 8, 1, 2));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemsetD32(device + 2, 8, 1, 2));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemsetD32(device, 7, 1, 2));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemsetD32(device, 8, 1, SIZE_MAX / 4 + 3)); /* times 4 this wraps to 8 */
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemsetD32(pageable, 8, 1, 2));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemsetD32(device, SIZE_MAX, 1, (size_t)1 << 40));
    assert_int_equal(device[0], 0xee);
    acl_ok(aclrtMemsetD32(device + 4, SIZE - 4, 0x04030201, 3));
    static const unsigned char expected[] = {0xee, 0xee, 0xee, 0xee, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 0xee};
    assert_memory_equal(device, expected, sizeof(expected));
    acl_ok(aclrtMemsetD32(pinned, SIZE, 0x04030201, 2));
    assert_memory_equal(pinned, expected + 4, 8);

    uint32_t *many = NULL; /* more than a chunk, and no multiple of a chunk */
    enum { WORDS = 50001 };
    acl_ok(aclrtMalloc((void **)&many, (WORDS + 1) * sizeof(*many), ACL_MEM_MALLOC_HUGE_FIRST));
    many[WORDS] = 5;
    acl_ok(aclrtMemsetD32(many, WORDS * sizeof(*many), 77, WORDS));
    for (int i = 0; i < WORDS; i++) {
        assert_int_equal(many[i], 77);
    }
    assert_int_equal(many[WORDS], 5);
    acl_ok(aclrtFree(many));
}

ACL_ENVIRONMENT(REPORT, "none")
ACL_ENVIRONMENT(CAPACITY, "1GiB") /* small: the thread sanitizer leaves few addresses */
EACH_TEST(set_up, tear_down)
