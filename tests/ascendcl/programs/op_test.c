/* op_test.c: aclopExecuteV2: the results of the operators, the arguments that they refuse, and their requests to a
 * registered allocator. */
#include "rig/acl.h"
#include "scenario.h"

#include "recorder.h"

#include <acl/acl_op_compiler.h>
#include <weir/ascendcl.h>

#include <math.h>

/* --- tensors on the device --- */

struct tensor {
    aclTensorDesc *desc;
    aclDataBuffer *buffer;
    void *memory;
    size_t count;
    aclDataType type;
};

static size_t type_bytes(aclDataType type)
{
    return aclDataTypeSize(type);
}

static void put(const struct tensor *t, const double *values)
{
    char *host = malloc(t->count * 8 + 1);
    CHECK(host != NULL);
    for (size_t i = 0; i < t->count; i++) {
        const float f = (float)values[i];
        const aclFloat16 half = aclFloatToFloat16(f);
        const int32_t number = (int32_t)values[i];
        const void *from = t->type == ACL_FLOAT     ? (const void *)&f
                           : t->type == ACL_FLOAT16 ? (const void *)&half
                                                    : &number;
        memcpy(host + i * type_bytes(t->type), from, type_bytes(t->type));
    }
    OK(aclrtMemcpy(t->memory, t->count * type_bytes(t->type), host, t->count * type_bytes(t->type),
                   ACL_MEMCPY_HOST_TO_DEVICE));
    free(host);
}

static struct tensor make(aclDataType type, int rank, const int64_t *dims, const double *values)
{
    struct tensor t = {.type = type, .count = 1};
    for (int i = 0; i < rank; i++) {
        t.count *= (size_t)dims[i];
    }
    OK(aclrtMalloc(&t.memory, t.count * type_bytes(type) + 1, ACL_MEM_MALLOC_HUGE_FIRST));
    t.desc = aclCreateTensorDesc(type, rank, dims, ACL_FORMAT_ND);
    t.buffer = aclCreateDataBuffer(t.memory, t.count * type_bytes(type));
    CHECK(t.desc != NULL && t.buffer != NULL);
    if (values != NULL) {
        put(&t, values);
    }
    return t;
}

static void drop(struct tensor *t)
{
    OK(aclrtFree(t->memory));
    aclDestroyTensorDesc(t->desc);
    OK(aclDestroyDataBuffer(t->buffer));
}

static double value_at(const struct tensor *t, size_t i)
{
    char raw[8] = {0};
    const size_t bytes = type_bytes(t->type);
    OK(aclrtMemcpy(raw, sizeof(raw), (char *)t->memory + i * bytes, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    if (t->type == ACL_FLOAT) {
        float f;
        memcpy(&f, raw, sizeof(f));
        return f;
    }
    if (t->type == ACL_FLOAT16) {
        aclFloat16 half;
        memcpy(&half, raw, sizeof(half));
        return aclFloat16ToFloat(half);
    }
    int32_t number = 0;
    memcpy(&number, raw, bytes < 4 ? bytes : 4);
    return t->type == ACL_INT8 ? (int8_t)number : number;
}

static void same(const struct tensor *t, const double *wanted, double tolerance)
{
    for (size_t i = 0; i < t->count; i++) {
        const double got = value_at(t, i);
        if (!(fabs(got - wanted[i]) <= tolerance * (1 + fabs(wanted[i])))) {
            (void)fprintf(stderr, "element %zu is %g, %g is wanted\n", i, got, wanted[i]);
            _exit(1);
        }
    }
}

static aclError execute(const char *name, struct tensor *a, struct tensor *b, struct tensor *out, aclopAttr *attr,
                        aclrtStream stream)
{
    aclTensorDesc *in_desc[2] = {a->desc, b != NULL ? b->desc : NULL};
    aclDataBuffer *in[2] = {a->buffer, b != NULL ? b->buffer : NULL};
    return aclopExecuteV2(name, b != NULL ? 2 : 1, in_desc, in, 1, &out->desc, &out->buffer, attr, stream);
}

static void fill(double *values, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1103515245u + 12345u;
        values[i] = ((double)(seed >> 16 & 1023u) - 512) / 128; /* exact in float16 */
    }
}

static double tolerance_of(aclDataType type)
{
    return type == ACL_FLOAT ? 1e-6 : 1e-3;
}

/* --- results --- */

static void elementwise_body(void)
{
    static const char *const names[] = {"Add", "Sub", "Mul", "RealDiv", "Maximum", "Minimum"};
    const aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16, ACL_INT32};
    aclrtStream stream;
    OK(aclrtCreateStream(&stream));
    for (size_t ty = 0; ty < 3; ty++) {
        for (size_t n = 0; n < 6; n++) {
            double a[24], b[4], c[24];
            fill(a, 24, 7);
            fill(b, 4, 8);
            for (size_t i = 0; i < 24; i++) {
                if (types[ty] == ACL_INT32) {
                    a[i] = trunc(a[i]);
                }
                const double y =
                    types[ty] == ACL_INT32 ? (b[i % 4] = trunc(b[i % 4]) == 0 ? 3 : trunc(b[i % 4])) : b[i % 4];
                const double r[] = {a[i] + y, a[i] - y, a[i] * y, a[i] / y, fmax(a[i], y), fmin(a[i], y)};
                c[i] = types[ty] == ACL_INT32 ? trunc(r[n]) : r[n];
            }
            struct tensor x = make(types[ty], 3, (const int64_t[]){2, 3, 4}, a),
                          y = make(types[ty], 1, (const int64_t[]){4}, b);
            struct tensor z = make(types[ty], 3, (const int64_t[]){2, 3, 4}, NULL);
            OK(execute(names[n], &x, &y, &z, NULL, stream));
            OK(aclrtSynchronizeStream(stream));
            same(&z, c, tolerance_of(types[ty]));
            OK(execute(names[n], &x, &y, &x, NULL, stream)); /* the output replaces its input */
            OK(aclrtSynchronizeStream(stream));
            same(&x, c, tolerance_of(types[ty]));
            drop(&x);
            drop(&y);
            drop(&z);
        }
    }
    OK(aclrtDestroyStream(stream));
}

TEST(elementwise)
{
    scenario(elementwise_body);
    report_is_clean();
}

/* Both operands are broadcast: [3,1] with [1,4]. */
static void broadcast_body(void)
{
    const double a[] = {1, 2, 3}, b[] = {10, 20, 30, 40};
    const double c[] = {11, 21, 31, 41, 12, 22, 32, 42, 13, 23, 33, 43};
    struct tensor x = make(ACL_FLOAT, 2, (const int64_t[]){3, 1}, a),
                  y = make(ACL_FLOAT, 2, (const int64_t[]){1, 4}, b);
    struct tensor z = make(ACL_FLOAT, 1, (const int64_t[]){12}, NULL);
    OK(execute("Add", &x, &y, &z, NULL, NULL)); /* on the default stream */
    OK(aclrtSynchronizeStream(NULL));
    same(&z, c, 0);
    /* The output's description now describes the result. */
    CHECK(aclGetTensorDescNumDims(z.desc) == 2);
    int64_t dim = 0;
    OK(aclGetTensorDescDimV2(z.desc, 1, &dim));
    CHECK(dim == 4);
    drop(&x);
    drop(&y);
    drop(&z);
}

TEST(broadcast)
{
    scenario(broadcast_body);
    report_is_clean();
}

static void matrix_body(void)
{
    enum { M = 5, K = 7, N = 3 };
    const aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16};
    double a[M * K], b[K * N], c[M * N], at[M * K], bt[K * N];
    fill(a, M * K, 1);
    fill(b, K * N, 2);
    for (size_t m = 0; m < M; m++) {
        for (size_t n = 0; n < N; n++) {
            c[m * N + n] = 0;
            for (size_t k = 0; k < K; k++) {
                c[m * N + n] += a[m * K + k] * b[k * N + n];
                at[k * M + m] = a[m * K + k];
                bt[n * K + k] = b[k * N + n];
            }
        }
    }
    for (size_t ty = 0; ty < 2; ty++) {
        for (int turn = 0; turn < 4; turn++) {
            const int64_t da[2] = {turn & 1 ? K : M, turn & 1 ? M : K}, db[2] = {turn & 2 ? N : K, turn & 2 ? K : N};
            struct tensor x = make(types[ty], 2, da, turn & 1 ? at : a), y = make(types[ty], 2, db, turn & 2 ? bt : b);
            struct tensor z = make(types[ty], 2, (const int64_t[]){M, N}, NULL);
            aclopAttr *attr = aclopCreateAttr();
            CHECK(attr != NULL);
            OK(aclopSetAttrBool(attr, "transpose_x1", (uint8_t)(turn & 1)));
            OK(aclopSetAttrBool(attr, "transpose_x2", (uint8_t)(turn >> 1)));
            OK(execute("MatMul", &x, &y, &z, attr, NULL));
            OK(aclrtSynchronizeStream(NULL));
            same(&z, c, types[ty] == ACL_FLOAT ? 1e-5 : 2e-3);
            aclopDestroyAttr(attr);
            drop(&x);
            drop(&y);
            drop(&z);
        }
    }
    /* The output of a product is one of its inputs: an element of the result must not be read as an input. */
    double square[9], product[9] = {0};
    fill(square, 9, 5);
    for (size_t i = 0; i < 27; i++) {
        product[i / 9 * 3 + i % 3] += square[i / 9 * 3 + i / 3 % 3] * square[i / 3 % 3 * 3 + i % 3];
    }
    struct tensor s = make(ACL_FLOAT, 2, (const int64_t[]){3, 3}, square);
    OK(execute("MatMul", &s, &s, &s, NULL, NULL));
    OK(aclrtSynchronizeStream(NULL));
    same(&s, product, 1e-5);
    drop(&s);
}

TEST(matrix)
{
    scenario(matrix_body);
    report_is_clean();
}

static void softmax_body(void)
{
    const aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16};
    for (size_t ty = 0; ty < 2; ty++) {
        for (int axis = -1; axis < 3; axis++) {
            double a[24], c[24];
            const size_t inner = axis == 0 ? 12 : axis == 1 ? 4 : 1, along = axis == 0 ? 2 : axis == 1 ? 3 : 4;
            fill(a, 24, 11);
            a[3] = 100; /* the exponential alone would overflow */
            for (size_t i = 0; i < 24; i++) {
                const size_t first = i / (inner * along) * inner * along + i % inner;
                double most = -1e30, sum = 0;
                for (size_t k = 0; k < along; k++) {
                    most = fmax(most, a[first + k * inner]);
                }
                for (size_t k = 0; k < along; k++) {
                    sum += exp(a[first + k * inner] - most);
                }
                c[i] = exp(a[i] - most) / sum;
            }
            struct tensor x = make(types[ty], 3, (const int64_t[]){2, 3, 4}, a),
                          z = make(types[ty], 3, (const int64_t[]){2, 3, 4}, NULL);
            aclopAttr *attr = aclopCreateAttr();
            CHECK(attr != NULL);
            const int64_t axes[] = {axis};
            OK(aclopSetAttrListInt(attr, "axes", 1, axes));
            OK(execute("Softmax", &x, NULL, &z, attr, NULL));
            OK(aclrtSynchronizeStream(NULL));
            same(&z, c, tolerance_of(types[ty]));
            OK(execute("SoftmaxV2", &x, NULL, &x, attr, NULL));
            OK(aclrtSynchronizeStream(NULL));
            same(&x, c, tolerance_of(types[ty]));
            aclopDestroyAttr(attr);
            drop(&x);
            drop(&z);
        }
    }
}

TEST(softmax)
{
    scenario(softmax_body);
    report_is_clean();
}

static void cast_body(void)
{
    const double a[] = {0, 1, -1, 2.75, -2.75, 300, -300, 65504, 1e30};
    const double half[] = {0, 1, -1, 2.75, -2.75, 300, -300, 65504, INFINITY};
    const double int32[] = {0, 1, -1, 2, -2, 300, -300, 65504, 2147483647.0};
    const double int8[] = {0, 1, -1, 2, -2, 127, -128, 127, 127};
    struct tensor x = make(ACL_FLOAT, 1, (const int64_t[]){9}, a);
    struct tensor h = make(ACL_FLOAT16, 1, (const int64_t[]){9}, NULL),
                  i = make(ACL_INT32, 1, (const int64_t[]){9}, NULL);
    struct tensor b = make(ACL_INT8, 1, (const int64_t[]){9}, NULL),
                  back = make(ACL_FLOAT, 1, (const int64_t[]){9}, NULL);
    aclopAttr *attr = aclopCreateAttr();
    CHECK(attr != NULL);
    OK(aclopSetAttrDataType(attr, "dst_type", ACL_FLOAT16));
    OK(execute("Cast", &x, NULL, &h, attr, NULL));
    GIVES(ACL_ERROR_GE_SHAPE_INVALID, execute("Cast", &x, NULL, &i, attr, NULL)); /* dst_type names another type */
    OK(execute("Cast", &x, NULL, &i, NULL, NULL));
    OK(execute("Cast", &x, NULL, &b, NULL, NULL));
    OK(execute("Cast", &h, NULL, &back, NULL, NULL));
    OK(aclrtSynchronizeStream(NULL));
    for (size_t k = 0; k < 9; k++) {
        CHECK(value_at(&h, k) == half[k] && value_at(&back, k) == half[k]);
    }
    same(&i, int32, 0);
    same(&b, int8, 0);
    aclopDestroyAttr(attr);
    drop(&x);
    drop(&h);
    drop(&i);
    drop(&b);
    drop(&back);
}

TEST(cast)
{
    scenario(cast_body);
    report_is_clean();
}

/* --- refusals --- */

static void refusals_body(void)
{
    double v[12] = {1};
    struct tensor x = make(ACL_FLOAT, 2, (const int64_t[]){3, 4}, v),
                  y = make(ACL_FLOAT, 2, (const int64_t[]){3, 3}, v);
    struct tensor h = make(ACL_FLOAT16, 2, (const int64_t[]){3, 4}, v),
                  z = make(ACL_FLOAT, 2, (const int64_t[]){3, 4}, NULL);
    struct recorder *r = recorder_create(true);
    aclrtStream stream;
    OK(aclrtCreateStream(&stream));
    OK(aclrtAllocatorRegister(stream, r->desc));
    GIVES(ACL_ERROR_INVALID_PARAM, aclopExecuteV2(NULL, 0, NULL, NULL, 0, NULL, NULL, NULL, stream));
    GIVES(ACL_ERROR_OP_NOT_FOUND, execute("Ad", &x, &x, &z, NULL, stream));
    GIVES(ACL_ERROR_INVALID_PARAM, execute("Add", &x, NULL, &z, NULL, stream));
    GIVES(ACL_ERROR_INVALID_PARAM, execute("Softmax", &x, &x, &z, NULL, stream));
    GIVES(ACL_ERROR_GE_SHAPE_INVALID, execute("Add", &x, &y, &z, NULL, stream));
    GIVES(ACL_ERROR_GE_SHAPE_INVALID, execute("Add", &x, &h, &z, NULL, stream));
    GIVES(ACL_ERROR_GE_SHAPE_INVALID, execute("Add", &x, &x, &h, NULL, stream));
    GIVES(ACL_ERROR_GE_SHAPE_INVALID, execute("MatMul", &x, &x, &z, NULL, stream));
    CHECK(execute("MatMul", &y, &x, &z, NULL, (aclrtStream)0x10) != ACL_SUCCESS);
    OK(aclUpdateDataBuffer(z.buffer, z.memory, 47)); /* one byte too small */
    GIVES(ACL_ERROR_INVALID_PARAM, execute("Add", &x, &x, &z, NULL, stream));
    OK(aclUpdateDataBuffer(z.buffer, v, sizeof(v))); /* host memory */
    GIVES(ACL_ERROR_INVALID_PARAM, execute("Add", &x, &x, &z, NULL, stream));
    OK(aclUpdateDataBuffer(z.buffer, NULL, 48));
    GIVES(ACL_ERROR_INVALID_PARAM, execute("Add", &x, &x, &z, NULL, stream));
    OK(aclUpdateDataBuffer(z.buffer, z.memory, 48));
    CHECK(r->allocs == 0 && r->frees == 0); /* a refused operator requests no memory */
    OK(execute("Add", &x, &x, &z, NULL, stream));
    CHECK(r->allocs == 1);
    OK(aclrtDestroyStream(stream));
    recorder_destroy(r);
    drop(&x);
    drop(&y);
    drop(&h);
    drop(&z);
}

TEST(refusals)
{
    scenario(refusals_body);
    report_is_clean();
}

/* --- a registered allocator --- */

static void exact_body(void)
{
    double v[30] = {1};
    struct tensor x = make(ACL_FLOAT16, 2, (const int64_t[]){5, 6}, v),
                  z = make(ACL_FLOAT16, 2, (const int64_t[]){5, 6}, NULL);
    struct recorder *r = recorder_create(true);
    aclrtStream stream;
    OK(aclrtCreateStream(&stream));
    OK(aclrtAllocatorRegister(stream, r->desc));
    OK(execute("Add", &x, &x, &z, NULL, stream));
    /* Two requests: one for a workspace, and one of exactly 30 floats for the result in float32 before it is
     * rounded. */
    CHECK(r->allocs == 2 && r->frees == 2 && r->advises == 0 && r->sizes[1] == 120);
    CHECK(r->sizes[0] % 65536 != 0);
    const size_t workspace = r->sizes[0];
    OK(aclopCompileAndExecuteV2("Softmax", 1, &x.desc, &x.buffer, 1, &z.desc, &z.buffer, NULL, ACL_ENGINE_SYS,
                                ACL_COMPILE_SYS, NULL, stream));
    CHECK(r->allocs == 4 && r->frees == 4 && r->sizes[2] == workspace + 64 && r->sizes[3] == 120);
    /* Without a registration the runtime uses its own memory. */
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtAllocatorUnregister(stream));
    OK(execute("Add", &x, &x, &z, NULL, stream));
    CHECK(r->allocs == 4);
    OK(aclrtDestroyStream(stream));
    recorder_destroy(r);
    drop(&x);
    drop(&z);
}

TEST(sizes_are_exact)
{
    scenario(exact_body);
    report_is_clean();
}

/* Ways to order the work of two streams that share an allocator. */
enum sharing { NO_ORDER, BY_STREAM, BY_EVENT, BY_QUERY, ON_DEVICE, SHARINGS };

static enum sharing sharing;

static void order_by(aclrtStream first, aclrtStream second)
{
    aclrtEvent event;
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    if (sharing == BY_STREAM) {
        OK(aclrtSynchronizeStream(first));
    } else if (sharing == BY_EVENT) {
        OK(aclrtRecordEvent(event, first));
        OK(aclrtSynchronizeEvent(event));
    } else if (sharing == BY_QUERY) {
        OK(aclrtStreamQuery(first, &status));
        CHECK(status == ACL_STREAM_STATUS_COMPLETE);
    } else if (sharing == ON_DEVICE) {
        OK(aclrtRecordEvent(event, first));
        OK(aclrtStreamWaitEvent(second, event));
    }
    OK(aclrtDestroyEvent(event));
}

static void sharing_body(void)
{
    double v[4] = {1};
    struct tensor x = make(ACL_FLOAT, 1, (const int64_t[]){4}, v), y = make(ACL_FLOAT, 1, (const int64_t[]){4}, v);
    struct recorder *r = recorder_create(true);
    aclrtStream first, second;
    OK(aclrtCreateStream(&first));
    OK(aclrtCreateStream(&second));
    OK(aclrtAllocatorRegister(first, r->desc));
    OK(aclrtAllocatorRegister(second, r->desc));
    OK(execute("Add", &x, &x, &x, NULL, first));
    weir_ascendcl_advance(1000000000); /* the first operator is over, by luck */
    order_by(first, second);
    OK(execute("Add", &y, &y, &y, NULL, second));
    CHECK(weir_ascendcl_warning_count("one allocator object") == (sharing == NO_ORDER ? 1 : 0));
    OK(aclrtSynchronizeDevice());
    OK(aclrtAllocatorUnregister(first));
    OK(aclrtAllocatorUnregister(second));
    OK(aclrtDestroyStream(first));
    OK(aclrtDestroyStream(second));
    recorder_destroy(r);
    drop(&x);
    drop(&y);
}

TEST(one_allocator_for_two_streams_needs_an_order)
{
    for (sharing = NO_ORDER; sharing < SHARINGS; sharing++) {
        scenario(sharing_body);
    }
}

/* An operator that runs before any registration fixes the stream's allocator for good, unless the switch allows a
 * change. */
static void pinned_body(void)
{
    double v[4] = {1};
    struct tensor x = make(ACL_FLOAT, 1, (const int64_t[]){4}, v);
    struct recorder *r = recorder_create(true);
    aclrtStream early, late;
    OK(aclrtCreateStream(&early));
    OK(aclrtCreateStream(&late));
    OK(execute("Add", &x, &x, &x, NULL, early));
    OK(aclrtSynchronizeStream(early));
    OK(aclrtAllocatorRegister(early, r->desc));
    OK(execute("Add", &x, &x, &x, NULL, early));
    const bool pinned = getenv("WEIR_ASCENDCL_PIN_DEFAULT_ALLOCATOR") == NULL;
    CHECK(r->allocs == (pinned ? 0 : 1));
    OK(aclrtSynchronizeStream(early));
    OK(aclrtAllocatorRegister(late, r->desc));
    OK(execute("Add", &x, &x, &x, NULL, late));
    CHECK(r->allocs == (pinned ? 1 : 2));
    OK(aclrtDestroyStream(late));
    OK(aclrtDestroyStream(early));
    OK(aclrtAllocatorUnregister(late));
    OK(aclrtAllocatorUnregister(early));
    /* A new stream with the handle of an old stream is not bound to the old stream's allocator. */
    OK(aclrtCreateStream(&early));
    OK(aclrtAllocatorRegister(early, r->desc));
    const uint64_t before = r->allocs;
    OK(execute("Add", &x, &x, &x, NULL, early));
    CHECK(r->allocs == before + 1);
    OK(aclrtDestroyStream(early));
    recorder_destroy(r);
    drop(&x);
}

static void not_pinned_body(void)
{
    pinned_body();
}

TEST(an_early_operator_fixes_the_allocator_of_its_stream)
{
    scenario(pinned_body);
    report_has("the auditor found nothing");
    report_has("registered for a stream after an operator had run on it: it is never asked");
    acl_environment("PIN_DEFAULT_ALLOCATOR", "0");
    scenario(not_pinned_body);
    report_has("the auditor found nothing");
    (void)unsetenv("WEIR_ASCENDCL_PIN_DEFAULT_ALLOCATOR");
}

/* The vendor's executors look up the registration by the stream that the caller passes. NULL has no registration, even
 * if the default stream has one. */
static void null_stream_body(void)
{
    double v[4] = {1};
    struct tensor x = make(ACL_FLOAT, 1, (const int64_t[]){4}, v);
    struct recorder *r = recorder_create(true);
    aclrtStream home;
    OK(aclrtCtxGetCurrentDefaultStream(&home));
    OK(aclrtAllocatorRegister(home, r->desc));
    OK(execute("Add", &x, &x, &x, NULL, home));
    CHECK(r->allocs == 1);
    OK(execute("Add", &x, &x, &x, NULL, NULL));
    CHECK(r->allocs == 1);
    /* the operator on NULL has bound the default stream to the runtime's own memory */
    OK(execute("Add", &x, &x, &x, NULL, home));
    CHECK(r->allocs == 1);
    OK(aclrtSynchronizeStream(home));
    OK(aclrtAllocatorUnregister(home));
    recorder_destroy(r);
    drop(&x);
}

TEST(an_operator_on_the_null_stream_asks_no_allocator)
{
    scenario(null_stream_body);
    report_is_clean();
}

static void out_of_memory_body(void)
{
    double v[4] = {1, 2, 3, 4};
    const double twice[4] = {2, 4, 6, 8};
    struct tensor x = make(ACL_FLOAT16, 1, (const int64_t[]){4}, v),
                  z = make(ACL_FLOAT16, 1, (const int64_t[]){4}, NULL);
    aclrtStream stream;
    OK(aclrtCreateStream(&stream));
    for (uint64_t n = 1; n <= 2; n++) {
        struct recorder *r = recorder_create(true);
        OK(aclrtAllocatorRegister(stream, r->desc));
        r->refuse_at = n; /* the recorder refuses one request; the runtime asks again and is served */
        OK(execute("Add", &x, &x, &z, NULL, stream));
        CHECK(r->refusals == 1 && r->allocs == 3 && r->frees == 2);
        OK(aclrtSynchronizeStream(stream));
        same(&z, twice, 0);
        r->refuse_at = 0;
        r->refuse_from = r->allocs + n;
        GIVES(ACL_ERROR_RT_MEMORY_ALLOCATION, execute("Add", &x, &x, &z, NULL, stream));
        CHECK(r->refusals == 3 && r->live_bytes == 0);
        r->refuse_from = 0;
        r->no_address = true;
        CHECK(execute("Add", &x, &x, &z, NULL, stream) != ACL_SUCCESS);
        CHECK(r->live_bytes == 0);
        OK(aclrtSynchronizeStream(stream));
        OK(aclrtAllocatorUnregister(stream));
        recorder_destroy(r);
    }
    OK(aclrtDestroyStream(stream));
    drop(&x);
    drop(&z);
}

TEST(out_of_memory)
{
    scenario(out_of_memory_body);
    report_is_clean();
}

/* --- attributes --- */

static void attributes_body(void)
{
    aclopAttr *attr = aclopCreateAttr();
    const uint8_t bools[] = {1, 0};
    const int64_t ints[] = {1, 2};
    const float floats[] = {1, 2};
    const char *texts[] = {"a", "b"}, *bad[] = {"a", NULL};
    CHECK(attr != NULL);
    OK(aclopSetAttrBool(attr, "x", 1));
    OK(aclopSetAttrInt(attr, "x", 1));
    OK(aclopSetAttrFloat(attr, "x", 1));
    OK(aclopSetAttrString(attr, "x", "text"));
    OK(aclopSetAttrListBool(attr, "x", 2, bools));
    OK(aclopSetAttrListInt(attr, "y", 2, ints));
    OK(aclopSetAttrListFloat(attr, "x", 2, floats));
    OK(aclopSetAttrListString(attr, "x", 2, texts));
    OK(aclopSetAttrListInt(attr, "empty", 0, NULL));
    GIVES(ACL_ERROR_INVALID_PARAM, aclopSetAttrInt(NULL, "x", 1));
    GIVES(ACL_ERROR_INVALID_PARAM, aclopSetAttrInt(attr, NULL, 1));
    GIVES(ACL_ERROR_INVALID_PARAM, aclopSetAttrString(attr, "x", NULL));
    GIVES(ACL_ERROR_INVALID_PARAM, aclopSetAttrListString(attr, "x", 2, bad));
    GIVES(ACL_ERROR_INVALID_PARAM, aclopSetAttrListInt(attr, "x", 2, NULL));
    GIVES(ACL_ERROR_INVALID_PARAM, aclopSetAttrListFloat(attr, "x", -1, floats));
    aclopDestroyAttr(attr);
    aclopDestroyAttr(NULL);
}

TEST(attributes)
{
    scenario(attributes_body);
    report_is_clean();
}
