/* host_memory_test.c: host memory runs out at every request of the executors in turn. The call fails with a code that
 * reports it, or succeeds; nothing is lost, and the next call works. */
#include "rig/acl.h"
#include "scenario.h"

#include "network.h"
#include "pool/fault/failing_host.h"
#include "recorder.h"

#include <acl/acl_op.h>

static const char NETWORK[] = "7767517\n"
                              "8 9\n"
                              "Input in 0 1 a 0=32 1=32 2=3\n"
                              "Convolution c1 1 1 a b 0=16 1=3 4=1 5=1 6=432 -23310=2,0.0,6.0\n"
                              "Split s1 1 2 b c d\n"
                              "Convolution c2 1 1 c e 0=16 1=3 4=1 5=1 6=2304\n"
                              "Concat cc 2 1 d e f\n"
                              "ReLU r 1 1 f g\n"
                              "Pooling p 1 1 g h 0=1 4=1\n"
                              "InnerProduct fc 1 1 h i 0=1000 1=1 2=32000\n";

static bool is_want_of_memory(aclError error)
{
    return error == ACL_ERROR_BAD_ALLOC || error == ACL_ERROR_RT_MEMORY_ALLOCATION;
}

static aclError failing(aclError (*call)(void *), void *ctx, uint64_t n)
{
    fail_at = n;
    requests = 0;
    host_struck = false;
    counting = true;
    const aclError error = call(ctx);
    counting = false;
    CHECK(error == ACL_SUCCESS || (host_struck && is_want_of_memory(error)));
    return error;
}

struct setting {
    uint32_t id;
    struct image m;
    aclrtStream stream;
    aclmdlDesc *desc;
};

static aclError load_model(void *ctx)
{
    struct setting *s = ctx;
    return aclmdlLoadFromMem(NETWORK, sizeof(NETWORK) - 1, &s->id);
}

static aclError execute_model(void *ctx)
{
    struct setting *s = ctx;
    return aclmdlExecuteAsync(s->id, s->m.in, s->m.out, s->stream);
}

static aclError describe_model(void *ctx)
{
    struct setting *s = ctx;
    return aclmdlGetDesc(s->desc, s->id);
}

static void models_body(void)
{
    struct setting s = {.m = image_create(48, 32), .desc = aclmdlCreateDesc()};
    static float wanted[IMAGE_OUT], got[IMAGE_OUT];
    size_t before = 0, after = 0, total = 0;
    uint64_t n = 0;
    OK(aclrtCreateStream(&s.stream));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
    do {
        OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
        CHECK(before == after);
    } while (failing(load_model, &s, ++n) != ACL_SUCCESS || host_struck);
    CHECK(n > 10);
    OK(execute_model(&s));
    OK(aclrtSynchronizeStream(s.stream));
    image_read(&s.m, wanted);
    for (n = 0, host_struck = true; host_struck;) {
        (void)failing(describe_model, &s, ++n);
    }
    CHECK(n > 2 && aclmdlGetNumInputs(s.desc) == 1);
    struct recorder *r = recorder_create(true);
    OK(aclrtAllocatorRegister(s.stream, r->desc));
    for (n = 0, host_struck = true; host_struck;) {
        (void)failing(execute_model, &s, ++n);
        CHECK(r->live_bytes == 0 && r->expected == NULL);
        OK(aclrtSynchronizeStream(s.stream));
        OK(execute_model(&s));
        OK(aclrtSynchronizeStream(s.stream));
        image_read(&s.m, got);
        CHECK(memcmp(wanted, got, sizeof(got)) == 0);
        /* a new stream, so that the next round creates the wrapper and the entry anew */
        OK(aclrtDestroyStream(s.stream));
        OK(aclrtCreateStream(&s.stream));
        OK(aclrtAllocatorRegister(s.stream, r->desc));
    }
    CHECK(n > 10);
    OK(aclrtDestroyStream(s.stream));
    OK(aclmdlUnload(s.id));
    OK(aclmdlDestroyDesc(s.desc));
    recorder_destroy(r);
    image_drop(&s.m);
}

TEST(models)
{
    scenario(models_body);
}

struct operation {
    aclTensorDesc *desc;
    aclDataBuffer *buffer;
    aclrtStream stream;
};

static aclError execute_operator(void *ctx)
{
    struct operation *o = ctx;
    aclTensorDesc *in_desc[] = {o->desc, o->desc};
    aclDataBuffer *in[] = {o->buffer, o->buffer};
    return aclopExecuteV2("Mul", 2, in_desc, in, 1, &o->desc, &o->buffer, NULL, o->stream);
}

static aclError set_attributes(void *ctx)
{
    (void)ctx;
    const char *texts[] = {"a", "b"};
    const int64_t numbers[] = {1, 2, 3};
    aclopAttr *attr = aclopCreateAttr();
    aclError error = attr != NULL ? ACL_SUCCESS : ACL_ERROR_BAD_ALLOC;
    if (error == ACL_SUCCESS) {
        error = aclopSetAttrListString(attr, "texts", 2, texts);
    }
    if (error == ACL_SUCCESS) {
        error = aclopSetAttrListInt(attr, "texts", 3, numbers);
    }
    if (error == ACL_SUCCESS) {
        error = aclopSetAttrFloat(attr, "real", 1);
    }
    aclopDestroyAttr(attr);
    return error;
}

static void operators_body(void)
{
    const int64_t dims[] = {64};
    void *memory = NULL;
    uint64_t n = 0;
    OK(aclrtMalloc(&memory, 256, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(memory, 256, 0, 256));
    struct operation o = {aclCreateTensorDesc(ACL_FLOAT, 1, dims, ACL_FORMAT_ND), aclCreateDataBuffer(memory, 256),
                          NULL};
    struct recorder *r = recorder_create(true);
    for (host_struck = true; host_struck;) {
        OK(aclrtCreateStream(&o.stream));
        OK(aclrtAllocatorRegister(o.stream, r->desc));
        (void)failing(execute_operator, &o, ++n);
        CHECK(r->live_bytes == 0);
        OK(aclrtSynchronizeStream(o.stream));
        OK(execute_operator(&o));
        OK(aclrtDestroyStream(o.stream));
    }
    CHECK(n > 3);
    for (n = 0, host_struck = true; host_struck;) {
        (void)failing(set_attributes, NULL, ++n);
    }
    CHECK(n > 5);
    recorder_destroy(r);
    aclDestroyTensorDesc(o.desc);
    OK(aclDestroyDataBuffer(o.buffer));
    OK(aclrtFree(memory));
}

TEST(operators)
{
    scenario(operators_body);
}

int main(void)
{
    if (CANNOT_REPLACE_MALLOC) {
        (void)puts("skipped: this sanitizer's malloc cannot be replaced");
        return 77;
    }
    acl_environment("AUDIT", "0"); /* without memory the auditor gives up */
    return run_all_tests("tests");
}
