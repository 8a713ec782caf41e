/* executor_test.c: pools under the executors that ACL has for registered allocators: single operators and a model. */
#include "acl_test.h"

#include <acl/acl_mdl.h>
#include <acl/acl_op_compiler.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <weir/ascendcl.h>

#define COUNT (1 << 14)

/* A tensor of COUNT numbers, doubled again and again. */
struct tensor {
    void *memory;
    aclTensorDesc *desc;
    aclDataBuffer *data;
    aclopAttr *attr;
};

static struct tensor make_tensor(void)
{
    const int64_t shape[] = {COUNT};
    struct tensor t = {.desc = aclCreateTensorDesc(ACL_FLOAT, 1, shape, ACL_FORMAT_ND), .attr = aclopCreateAttr()};
    acl_ok(aclrtMalloc(&t.memory, COUNT * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
    t.data = aclCreateDataBuffer(t.memory, COUNT * sizeof(float));
    assert_non_null(t.desc);
    assert_non_null(t.data);
    assert_non_null(t.attr);
    return t;
}

static void drop_tensor(struct tensor *t)
{
    acl_ok(aclDestroyDataBuffer(t->data));
    aclDestroyTensorDesc(t->desc);
    aclopDestroyAttr(t->attr);
    acl_ok(aclrtFree(t->memory));
}

static aclError add(struct tensor *t, aclrtStream stream)
{
    aclTensorDesc *descs[] = {t->desc, t->desc};
    aclDataBuffer *data[] = {t->data, t->data};
    return aclopExecuteV2("Add", 2, descs, data, 1, &t->desc, &t->data, t->attr, stream);
}

TEST(test_operators_allocate_from_the_pool)
{
    struct world w = make_world();
    struct tensor t = make_tensor();
    weir_acl_attachment *attachment = attach(w.pool, w.stream[0]);
    for (int i = 0; i < 50; i++) {
        acl_ok(add(&t, w.stream[0]));
    }
    const weir_pool_stats stats = pool_stats(w.pool);
    assert_true(stats.allocs >= 50);
    assert_int_equal(stats.allocs, stats.frees);
    assert_int_equal(stats.vm_creates, 1); /* all took their memory from one granule */
    acl_ok(aclrtSynchronizeStream(w.stream[0]));
    drop_tensor(&t);
    ok(weir_acl_detach(attachment));
    end_world(&w);
}

/* With an attachment of the whole device, no stream needs an attachment of its own. */
TEST(test_a_device_is_attached_once_for_all_operators)
{
    struct world w = make_world();
    struct tensor t = make_tensor();
    weir_acl_attachment *attachment = NULL;
    weir_acl_attachment_info info = WEIR_ACL_ATTACHMENT_INFO_INIT;
    ok(weir_acl_attach_device(w.pool, &attachment));
    for (int i = 0; i < 20; i++) {
        aclrtStream stream = new_stream();
        acl_ok(add(&t, stream));
        acl_ok(aclrtDestroyStream(stream)); /* the operator is still queued */
    }
    ok(weir_acl_attachment_get_info(attachment, &info));
    assert_true(info.requests >= 20);
    assert_int_equal(info.live_blocks, 0);
    ok(weir_acl_detach(attachment));
    drop_tensor(&t);
    end_world(&w);
}

/* A stream keeps the allocator that its first operator used. The text of weir_acl_attachment_explain reports this. */
TEST(test_an_attachment_after_the_first_operator_gets_no_requests)
{
    struct world w = make_world();
    struct tensor t = make_tensor();
    weir_acl_attachment *attachment = NULL;
    weir_acl_attachment_info info = WEIR_ACL_ATTACHMENT_INFO_INIT;
    char text[1024];
    const uint64_t warnings = weir_ascendcl_warning_count("after an operator had run on it");
    acl_ok(add(&t, w.stream[0]));
    acl_ok(aclrtSynchronizeStream(w.stream[0]));
    ok(weir_acl_attach(w.pool, w.stream[0], &attachment));
    assert_int_equal(weir_ascendcl_warning_count("after an operator had run on it"), warnings + 1);
    acl_ok(add(&t, w.stream[0]));
    ok(weir_acl_attachment_get_info(attachment, &info));
    assert_int_equal(info.requests, 0);
    assert_int_equal(info.streams, 1);
    (void)weir_acl_attachment_explain(attachment, text, sizeof(text));
    assert_non_null(strstr(text, "nothing uses the pool"));
    acl_ok(aclrtSynchronizeStream(w.stream[0]));
    ok(weir_acl_detach(attachment));
    drop_tensor(&t);
    end_world(&w);
}

TEST(test_a_stream_is_destroyed_under_operators)
{
    struct world w = make_world();
    struct tensor t = make_tensor();
    for (int i = 0; i < 20; i++) {
        weir_acl_attachment *attachment = NULL;
        aclrtStream stream = new_stream();
        ok(weir_acl_attach(w.pool, stream, &attachment));
        acl_ok(add(&t, stream));
        acl_ok(aclrtDestroyStream(stream)); /* the operator is still queued */
        ok(weir_acl_detach(attachment));
    }
    drop_tensor(&t);
    assert_int_equal(pool_stats(w.pool).live_bytes, 0);
    end_world(&w);
}

struct job {
    weir_pool *pool;
    bool stream_first;
    atomic_int *failures;
};

#define EXPECT(call, result)                                                                                           \
    do {                                                                                                               \
        const int got_ = (int)(call);                                                                                  \
        if (got_ != (int)(result)) {                                                                                   \
            (void)fprintf(stderr, "%s:%d: %s is %d\n", __FILE__, __LINE__, #call, got_);                               \
            (void)atomic_fetch_add(job->failures, 1);                                                                  \
        }                                                                                                              \
    } while (0)

static void *run_operators(void *argument)
{
    struct job *job = argument;
    EXPECT(aclrtSetDevice(0), ACL_SUCCESS);
    struct tensor t = make_tensor();
    for (int round = 0; round < 10; round++) {
        weir_acl_attachment *attachment = NULL;
        aclrtStream stream = NULL;
        EXPECT(aclrtCreateStream(&stream), ACL_SUCCESS);
        EXPECT(weir_acl_attach(job->pool, stream, &attachment), WEIR_OK);
        for (int i = 0; i < 10; i++) {
            EXPECT(add(&t, stream), ACL_SUCCESS);
        }
        if (job->stream_first) {
            EXPECT(aclrtDestroyStream(stream), ACL_SUCCESS);
            EXPECT(weir_acl_detach(attachment), WEIR_OK);
        } else {
            EXPECT(weir_acl_detach(attachment), WEIR_OK);
            EXPECT(aclrtDestroyStream(stream), ACL_SUCCESS);
        }
    }
    drop_tensor(&t);
    EXPECT(aclrtResetDevice(0), ACL_SUCCESS);
    return NULL;
}

TEST(test_threads_run_operators_over_one_pool)
{
    struct world w = make_world();
    atomic_int failures = 0;
    struct job jobs[3];
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        jobs[i] = (struct job){w.pool, i % 2 == 0, &failures};
        assert_int_equal(pthread_create(&threads[i], NULL, run_operators, &jobs[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&failures), 0);
    end_world(&w);
}

/* --- a model of dynamic shape --- */

/* The network accepts pictures of any size. The padded picture, the output of the convolution and the pooled values
 * need memory. */
static const char network[] = "7767517\n"
                              "5 5\n"
                              "Input in 0 1 a 0=32 1=32 2=3\n"
                              "Convolution c 1 1 a b 0=8 1=3 4=1 5=1 6=216\n"
                              "ReLU r 1 1 b d\n"
                              "Pooling p 1 1 d e 0=1 4=1\n"
                              "InnerProduct f 1 1 e g 0=1000 1=1 2=8000\n";

struct picture {
    aclmdlDataset *in;
    aclmdlDataset *out;
    void *memory[2];
};

static void put_buffer(aclmdlDataset *set, void *memory, size_t size)
{
    aclDataBuffer *data = aclCreateDataBuffer(memory, size);
    assert_non_null(data);
    acl_ok(aclmdlAddDatasetBuffer(set, data));
}

static struct picture make_picture(int64_t side)
{
    struct picture p = {.in = aclmdlCreateDataset(), .out = aclmdlCreateDataset()};
    const size_t bytes = (size_t)(side * side) * 3 * sizeof(float);
    const int64_t shape[] = {1, 3, side, side};
    acl_ok(aclrtMalloc(&p.memory[0], bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMalloc(&p.memory[1], 4000, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMemset(p.memory[0], bytes, 1, bytes));
    put_buffer(p.in, p.memory[0], bytes);
    put_buffer(p.out, p.memory[1], 4000);
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_FLOAT, 4, shape, ACL_FORMAT_NCHW);
    acl_ok(aclmdlSetDatasetTensorDesc(p.in, desc, 0));
    aclDestroyTensorDesc(desc);
    return p;
}

static void drop_set(aclmdlDataset *set)
{
    for (size_t i = 0; i < aclmdlGetDatasetNumBuffers(set); i++) {
        acl_ok(aclDestroyDataBuffer(aclmdlGetDatasetBuffer(set, i)));
    }
    acl_ok(aclmdlDestroyDataset(set));
}

static void drop_picture(struct picture *p)
{
    drop_set(p->in);
    drop_set(p->out);
    acl_ok(aclrtFree(p->memory[0]));
    acl_ok(aclrtFree(p->memory[1]));
}

TEST(test_a_model_allocates_from_the_pool)
{
    struct world w = make_world();
    uint32_t model = 0;
    acl_ok(aclmdlLoadFromMem(network, sizeof(network) - 1, &model));
    weir_acl_attachment *attachment = attach(w.pool, w.stream[0]);
    static const int64_t sides[] = {64, 96, 64, 128, 96};
    for (size_t i = 0; i < sizeof(sides) / sizeof(sides[0]); i++) {
        struct picture p = make_picture(sides[i]);
        acl_ok(aclmdlExecuteAsync(model, p.in, p.out, w.stream[0]));
        acl_ok(aclrtSynchronizeStream(w.stream[0]));
        drop_picture(&p);
    }
    assert_true(pool_stats(w.pool).allocs > 0);
    weir_acl_attachment_info info = WEIR_ACL_ATTACHMENT_INFO_INIT;
    ok(weir_acl_attachment_get_info(attachment, &info));
    if (info.live_blocks > 0) {
        fails(weir_acl_detach(attachment), WEIR_ERR_BUSY); /* the model keeps blocks */
    }
    acl_ok(aclmdlUnload(model));
    ok(weir_acl_detach(attachment));
    end_world(&w);
}

TEST(test_a_stream_is_destroyed_under_a_model)
{
    struct world w = make_world();
    uint32_t model = 0;
    acl_ok(aclmdlLoadFromMem(network, sizeof(network) - 1, &model));
    struct picture p = make_picture(32);
    for (int i = 0; i < 3; i++) {
        weir_acl_attachment *attachment = attach(w.pool, w.stream[0]);
        acl_ok(aclmdlExecuteAsync(model, p.in, p.out, w.stream[0]));
        acl_ok(aclrtDestroyStream(w.stream[0]));
        ok(weir_acl_detach(attachment)); /* the executor has given back the blocks that it kept */
        acl_ok(aclrtCreateStream(&w.stream[0]));
    }
    drop_picture(&p);
    acl_ok(aclmdlUnload(model));
    assert_int_equal(pool_stats(w.pool).live_bytes, 0);
    end_world(&w);
}
