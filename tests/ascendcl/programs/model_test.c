/* model_test.c: models with dynamic shapes, and their use of the allocator that is registered for their stream. */
#include "rig/acl.h"
#include "scenario.h"

#include "network.h"
#include "recorder.h"

#include <weir/ascendcl.h>

/* Two convolutions with borders, a branch, an operator in place, an output that is a second name of another output. */
static const char SMALL[] = "7767517\n"
                            "9 11\n"
                            "Input in 0 1 a 0=32 1=32 2=3\n"
                            "Convolution c1 1 1 a b 0=16 1=3 4=1 5=1 6=432\n"
                            "Split s1 1 2 b c d\n"
                            "Convolution c2 1 1 c e 0=16 1=3 4=1 5=1 6=2304\n"
                            "Eltwise add 2 1 d e f 0=1\n"
                            "ReLU r 1 1 f g\n"
                            "Pooling p 1 1 g h 0=1 4=1\n"
                            "InnerProduct fc 1 1 h i 0=10 1=1 2=160\n"
                            "Split s2 1 2 i j k\n";

enum { SMALL_OUT = 10, SMALL_PIECES = 6 }; /* border b, border e, f (g in place), h */

struct small {
    uint32_t id;
    aclmdlDataset *in, *out;
    void *in_memory, *out_memory[2];
};

static struct small small_create(void)
{
    struct small m = {0, aclmdlCreateDataset(), aclmdlCreateDataset(), NULL, {NULL, NULL}};
    const size_t bytes = (size_t)256 * 256 * 3 * sizeof(float);
    CHECK(m.in != NULL && m.out != NULL);
    OK(aclmdlLoadFromMem(SMALL, sizeof(SMALL) - 1, &m.id));
    OK(aclrtMalloc(&m.in_memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(m.in_memory, bytes, 5, bytes));
    set_add(m.in, m.in_memory, bytes);
    for (int i = 0; i < 2; i++) {
        OK(aclrtMalloc(&m.out_memory[i], SMALL_OUT * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
        set_add(m.out, m.out_memory[i], SMALL_OUT * sizeof(float));
    }
    return m;
}

static void small_drop(struct small *m)
{
    OK(aclmdlUnload(m->id));
    set_drop(m->in);
    set_drop(m->out);
    OK(aclrtFree(m->in_memory));
    OK(aclrtFree(m->out_memory[0]));
    OK(aclrtFree(m->out_memory[1]));
}

static void small_read(const struct small *m, float out[SMALL_OUT])
{
    float other[SMALL_OUT];
    OK(aclrtMemcpy(out, sizeof(other), m->out_memory[0], sizeof(other), ACL_MEMCPY_DEVICE_TO_HOST));
    OK(aclrtMemcpy(other, sizeof(other), m->out_memory[1], sizeof(other), ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(memcmp(out, other, sizeof(other)) == 0);
}

/* --- the order of the callbacks --- */

static void contract_body(void)
{
    struct small m = small_create();
    float own[SMALL_OUT], registered[SMALL_OUT], zero[SMALL_OUT] = {0};
    struct recorder *r = recorder_create(true);
    aclrtStream stream;
    OK(aclrtCreateStream(&stream));
    OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream)); /* no allocator is registered */
    OK(aclrtSynchronizeStream(stream));
    small_read(&m, own);
    CHECK(memcmp(own, zero, sizeof(own)) != 0);
    OK(aclrtAllocatorRegister(stream, r->desc));
    OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    /* The execution is queued and has freed all its blocks before any of it has run. */
    CHECK(r->frees == r->allocs && r->live_bytes == 0 && r->advises == 0);
    CHECK(r->allocs == SMALL_PIECES);
    for (size_t i = 0; i < r->size_count; i++) {
        CHECK(r->sizes[i] % 65536 == 0);
    }
    aclrtStreamStatus status;
    OK(aclrtStreamQuery(stream, &status));
    CHECK(status == ACL_STREAM_STATUS_NOT_READY);
    OK(aclrtSynchronizeStream(stream));
    small_read(&m, registered);
    CHECK(memcmp(own, registered, sizeof(own)) == 0);
    OK(aclrtAllocatorUnregister(stream));
    OK(aclrtDestroyStream(stream));
    recorder_destroy(r);
    small_drop(&m);
}

TEST(the_contract_holds)
{
    scenario(contract_body);
    report_is_clean();
}

static void page_body(void)
{
    struct small m = small_create();
    struct recorder *r = recorder_create(true);
    aclrtStream stream;
    OK(aclrtCreateStream(&stream));
    OK(aclrtAllocatorRegister(stream, r->desc));
    OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    CHECK(r->sizes[0] == 4096 * 4); /* 34 x 34 x 3 floats, 16 bytes after each channel, 4 at the end */
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtDestroyStream(stream));
    recorder_destroy(r);
    small_drop(&m);
}

TEST(the_page_is_configurable)
{
    acl_environment("MODEL_PAGE", "4KiB");
    scenario(page_body);
    (void)unsetenv("WEIR_ASCENDCL_MODEL_PAGE");
    report_is_clean();
}

/* --- registrations come and go --- */

static void registrations_body(void)
{
    struct small m = small_create();
    struct recorder *a = recorder_create(true), *b = recorder_create(true);
    aclrtStream stream, other;
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStream(&other));
    OK(aclrtAllocatorRegister(stream, a->desc));
    OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    CHECK(a->allocs == SMALL_PIECES && b->allocs == 0);
    OK(aclrtSynchronizeStream(stream));
    /* the last registration decides which allocator is used, from the next execution on */
    OK(aclrtAllocatorRegister(stream, b->desc));
    OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    CHECK(a->allocs == SMALL_PIECES && b->allocs == SMALL_PIECES);
    OK(aclrtSynchronizeStream(stream));
    OK(aclmdlExecuteAsync(m.id, m.in, m.out, other)); /* `other` has no registration */
    CHECK(a->allocs == SMALL_PIECES && b->allocs == SMALL_PIECES);
    OK(aclrtSynchronizeStream(other));
    OK(aclrtAllocatorUnregister(stream));
    OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    CHECK(b->allocs == SMALL_PIECES);
    OK(aclrtAllocatorRegister(stream, a->desc));
    OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    CHECK(a->allocs == 2 * SMALL_PIECES);
    OK(aclrtSynchronizeStream(stream));
    OK(aclmdlExecute(m.id, m.in, m.out)); /* the blocking form calls no allocator */
    CHECK(a->allocs == 2 * SMALL_PIECES);
    OK(aclrtDestroyStream(stream));
    OK(aclrtDestroyStream(other));
    OK(aclrtAllocatorUnregister(stream));
    recorder_destroy(a);
    recorder_destroy(b);
    small_drop(&m);
}

TEST(registrations_are_read_each_time)
{
    scenario(registrations_body);
    report_is_clean();
}

static void early_unregister_body(void)
{
    struct small m = small_create();
    struct recorder *r = recorder_create(true);
    aclrtStream stream;
    OK(aclrtCreateStream(&stream));
    OK(aclrtAllocatorRegister(stream, r->desc));
    OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    /* registers the same allocator again, which must not end the earlier registration */
    OK(aclrtAllocatorRegister(stream, r->desc));
    OK(aclrtAllocatorUnregister(stream)); /* before the stream is synchronised */
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtDestroyStream(stream));
    recorder_destroy(r);
    small_drop(&m);
}

TEST(an_early_unregister_is_noticed)
{
    scenario(early_unregister_body);
    report_has("warning, 1 times: an allocator was unregistered or replaced while its stream had "
               "unfinished work");
    report_has("the auditor found nothing");
}

/* --- out of memory --- */

static void refused_body(void)
{
    struct small m = small_create();
    float first[SMALL_OUT], again[SMALL_OUT];
    aclrtStream stream;
    OK(aclrtCreateStream(&stream));
    for (uint64_t n = 1; n <= SMALL_PIECES; n++) {
        struct recorder *r = recorder_create(true);
        OK(aclrtAllocatorRegister(stream, r->desc));
        /* the recorder refuses one request; the runtime then synchronises the stream and asks again */
        r->refuse_at = n;
        OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream));
        CHECK(r->refusals == 1 && r->allocs == SMALL_PIECES + 1 && r->frees == SMALL_PIECES);
        CHECK(r->refused_after_syncs == 1);
        OK(aclrtSynchronizeStream(stream));
        small_read(&m, first);
        r->refuse_at = 0;
        r->refuse_from = r->allocs + n; /* all later requests */
        GIVES(ACL_ERROR_RT_MEMORY_ALLOCATION, aclmdlExecuteAsync(m.id, m.in, m.out, stream));
        CHECK(r->refusals == 3 && r->live_bytes == 0 && r->expected == NULL);
        OK(aclrtSynchronizeStream(stream)); /* the queued work does no harm */
        r->refuse_from = 0;
        OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream));
        OK(aclrtSynchronizeStream(stream));
        small_read(&m, again);
        CHECK(memcmp(first, again, sizeof(first)) == 0);
        r->no_address = true;
        CHECK(aclmdlExecuteAsync(m.id, m.in, m.out, stream) != ACL_SUCCESS);
        CHECK(r->live_bytes == 0);
        OK(aclrtSynchronizeStream(stream));
        OK(aclrtAllocatorUnregister(stream));
        recorder_destroy(r);
    }
    OK(aclrtDestroyStream(stream));
    small_drop(&m);
}

TEST(refusals_are_survived)
{
    scenario(refused_body);
    report_is_clean();
}

/* The runtime's own memory runs out too, on a small machine. */
static void exhausted_body(void)
{
    const uint32_t id = load("mobilenet_v2");
    struct image m = image_create(640, 480), s = image_create(64, 64);
    aclrtStream stream;
    size_t before = 0, after = 0, total = 0;
    OK(aclrtCreateStream(&stream));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
    GIVES(ACL_ERROR_RT_MEMORY_ALLOCATION, aclmdlExecuteAsync(id, m.in, m.out, stream));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
    CHECK(before == after);
    OK(aclmdlExecuteAsync(id, s.in, s.out, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtDestroyStream(stream));
    OK(aclmdlUnload(id));
    image_drop(&m);
    image_drop(&s);
}

TEST(a_small_device_runs_out)
{
    const char *usual = getenv("WEIR_ASCENDCL_CAPACITY");
    char *kept = usual != NULL ? strdup(usual) : NULL;
    acl_environment("CAPACITY", "48MiB");
    scenario(exhausted_body);
    if (kept != NULL) {
        acl_environment("CAPACITY", kept);
        free(kept);
    } else {
        (void)unsetenv("WEIR_ASCENDCL_CAPACITY");
    }
    report_is_clean();
}

static void sizes_body(void);

/* --- spans that are kept --- */

static void spans_body(void)
{
    struct small m = small_create();
    float own[SMALL_OUT], kept[SMALL_OUT];
    struct recorder *r = recorder_create(true);
    aclrtStream stream;
    OK(aclrtCreateStream(&stream));
    OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    OK(aclrtSynchronizeStream(stream));
    small_read(&m, own);
    OK(aclrtAllocatorRegister(stream, r->desc));
    OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    const uint64_t first = r->allocs;
    CHECK(first < SMALL_PIECES && r->frees == 0); /* one piece serves several values */
    for (int i = 0; i < 3; i++) {
        OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    }
    CHECK(r->allocs == first && r->frees == 0);
    OK(aclrtSynchronizeStream(stream));
    small_read(&m, kept);
    CHECK(memcmp(own, kept, sizeof(own)) == 0);
    /* A larger input does not fit the kept memory. The allocator refuses, gets all its blocks back,
     * and is asked again. */
    set_shape(m.in, 3, 256, 256);
    r->refuse_at = r->allocs + 2;
    OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    CHECK(r->refusals == 1 && r->frees >= first);
    r->refuse_at = 0;
    r->refuse_from = r->allocs + 1;
    /* the kept memory is at most twice as large as needed, so it serves without a request */
    set_shape(m.in, 3, 224, 256);
    OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    r->refuse_from = 0;
    /* Operators keep no memory. */
    CHECK(r->live_bytes > 0);
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtAllocatorUnregister(stream)); /* frees all kept memory before it returns */
    CHECK(r->live_bytes == 0 && r->frees == r->allocs - r->refusals);
    OK(aclrtAllocatorRegister(stream, r->desc));
    OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    CHECK(r->live_bytes > 0);
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtDestroyStream(stream)); /* the stream's destruction frees it too */
    CHECK(r->live_bytes == 0);
    OK(aclrtCreateStream(&stream));
    OK(aclrtAllocatorRegister(stream, r->desc));
    OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    OK(aclrtSynchronizeStream(stream));
    CHECK(r->live_bytes > 0);
    small_drop(&m); /* unloading a model frees its kept memory too */
    CHECK(r->live_bytes == 0);
    CHECK(weir_ascendcl_tensor_peak_bytes() <= 2 * r->peak_bytes);
    OK(aclrtDestroyStream(stream));
    recorder_destroy(r);
}

TEST(spans_are_kept_and_given_back)
{
    acl_environment("SPAN_CACHE", "1");
    scenario(spans_body);
    report_has("the auditor found nothing");
    scenario(sizes_body);
    report_is_clean();
    (void)unsetenv("WEIR_ASCENDCL_SPAN_CACHE");
}

/* --- a callback that does not return --- */

/* Leaves the callback like a C++ exception: every frame between the callback and the caller is unwound. */
struct leaver {
    struct recorder *r;
    uint64_t leave_at; /* number of the request */
};

static void *leaving_alloc(aclrtAllocator allocator, size_t size)
{
    struct leaver *l = allocator;
    void *block = recorder_alloc(l->r, size);
    if (l->r->allocs == l->leave_at) {
        (void)recorder_address(block);
        recorder_free(l->r, block);
        pthread_exit(NULL);
    }
    return block;
}

static void leaving_free(aclrtAllocator allocator, aclrtAllocatorBlock block)
{
    recorder_free(((struct leaver *)allocator)->r, block);
}

struct run {
    struct small *m;
    aclrtStream stream;
    aclrtContext context;
};

static void *run_once(void *argument)
{
    struct run *r = argument;
    OK(aclrtSetCurrentContext(r->context));
    OK(aclmdlExecuteAsync(r->m->id, r->m->in, r->m->out, r->stream));
    return r;
}

static void leaving_body(void)
{
    struct small m = small_create();
    struct run running = {.m = &m};
    OK(aclrtCreateStream(&running.stream));
    OK(aclrtGetCurrentContext(&running.context));
    for (uint64_t n = 1; n <= SMALL_PIECES + 1; n++) {
        struct leaver l = {recorder_create(true), n};
        pthread_t thread;
        void *result = NULL;
        OK(aclrtAllocatorSetObjToDesc(l.r->desc, &l));
        OK(aclrtAllocatorSetAllocFuncToDesc(l.r->desc, leaving_alloc));
        OK(aclrtAllocatorSetFreeFuncToDesc(l.r->desc, leaving_free));
        OK(aclrtAllocatorRegister(running.stream, l.r->desc));
        CHECK(pthread_create(&thread, NULL, run_once, &running) == 0);
        CHECK(pthread_join(thread, &result) == 0);
        /* a result of NULL means that the callback has left the call by a jump */
        CHECK((result == NULL) == (n <= SMALL_PIECES));
        CHECK(l.r->live_bytes == 0);
        l.leave_at = 0;
        OK(aclmdlExecuteAsync(m.id, m.in, m.out, running.stream)); /* no lock is left held */
        OK(aclrtSynchronizeStream(running.stream));
        OK(aclrtAllocatorUnregister(running.stream));
        recorder_destroy(l.r);
    }
    OK(aclrtDestroyStream(running.stream));
    small_drop(&m);
}

TEST(a_callback_may_unwind_the_call)
{
    scenario(leaving_body);
    report_is_clean();
}

/* --- sizes --- */

static const struct {
    int64_t width, height;
} SIZES[] = {{224, 224}, {640, 480}, {480, 640}, {96, 64}, {320, 320}, {352, 288}, {416, 416}, {64, 96}};
enum { SIZE_COUNT = sizeof(SIZES) / sizeof(SIZES[0]) };

static void sizes_body(void)
{
    const char *const names[] = {"mobilenet_v2", "resnet50"};
    aclrtStream plain, stream;
    OK(aclrtCreateStream(&plain));
    OK(aclrtCreateStream(&stream));
    struct recorder *r = recorder_create(true);
    OK(aclrtAllocatorRegister(stream, r->desc));
    for (int n = 0; n < 2; n++) {
        const uint32_t id = load(names[n]);
        for (int i = 0; i < SIZE_COUNT; i++) {
            struct image m = image_create(SIZES[i].width, SIZES[i].height);
            static float own[IMAGE_OUT], other[IMAGE_OUT];
            OK(aclmdlExecuteAsync(id, m.in, m.out, plain));
            OK(aclrtSynchronizeStream(plain));
            image_read(&m, own);
            OK(aclrtMemset(m.out_memory, sizeof(own), 0, sizeof(own)));
            OK(aclmdlExecuteAsync(id, m.in, m.out, stream));
            OK(aclrtSynchronizeStream(stream));
            image_read(&m, other);
            CHECK(memcmp(own, other, sizeof(own)) == 0);
            aclTensorDesc *desc = aclmdlGetDatasetTensorDesc(m.out, 0);
            CHECK(desc != NULL && aclGetTensorDescElementCount(desc) == IMAGE_OUT &&
                  aclGetTensorDescNumDims(desc) == 2);
            image_drop(&m);
        }
        OK(aclmdlUnload(id));
    }
    CHECK(r->frees == r->allocs && r->allocs > 50);
    OK(aclrtDestroyStream(stream));
    OK(aclrtDestroyStream(plain));
    recorder_destroy(r);
}

TEST(every_size_runs)
{
    scenario(sizes_body);
    report_is_clean();
}

/* --- advice --- */

static bool advise_is_set;

static void advice_body(void)
{
    struct small m = small_create();
    float out[2][SMALL_OUT];
    struct recorder *r = recorder_create(advise_is_set);
    aclrtStream stream;
    OK(aclrtCreateStream(&stream));
    OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    OK(aclrtSynchronizeStream(stream));
    small_read(&m, out[0]);
    OK(aclrtAllocatorRegister(stream, r->desc));
    OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    /* The request for the execution's weights comes first, with the address of the loaded weights. */
    CHECK(r->advises == (advise_is_set ? 1 : 0) && r->allocs + r->advises == SMALL_PIECES + 1);
    CHECK(!advise_is_set || r->hint != NULL);
    CHECK(r->live_bytes == 0);
    OK(aclrtSynchronizeStream(stream));
    small_read(&m, out[1]);
    CHECK(memcmp(out[0], out[1], sizeof(out[0])) == 0);
    OK(aclrtDestroyStream(stream));
    recorder_destroy(r);
    small_drop(&m);
}

TEST(advice_is_given_for_weights)
{
    acl_environment("REFRESH_WEIGHTS", "1");
    advise_is_set = true;
    scenario(advice_body);
    report_is_clean();
    advise_is_set = false; /* without this callback the runtime calls alloc, and does not hang */
    scenario(advice_body);
    report_is_clean();
    (void)unsetenv("WEIR_ASCENDCL_REFRESH_WEIGHTS");
}

/* --- two streams, two threads --- */

enum { ROUNDS = 12 };

struct worker {
    uint32_t id;
    aclrtStream stream;
    int offset;
    float out[SIZE_COUNT][IMAGE_OUT];
};

static void *work(void *argument)
{
    struct worker *w = argument;
    struct image images[SIZE_COUNT];
    OK(aclrtSetDevice(0));
    for (int i = 0; i < SIZE_COUNT; i++) {
        images[i] = image_create(SIZES[i].width, SIZES[i].height);
    }
    for (int round = 0; round < ROUNDS; round++) {
        const int i = (round + w->offset) % SIZE_COUNT;
        OK(aclmdlExecuteAsync(w->id, images[i].in, images[i].out, w->stream));
    }
    OK(aclrtSynchronizeStream(w->stream));
    for (int i = 0; i < SIZE_COUNT; i++) {
        image_read(&images[i], w->out[i]);
        image_drop(&images[i]);
    }
    return NULL;
}

static bool sharing;

static void threads_body(void)
{
    static struct worker workers[2];
    static float wanted[2][SIZE_COUNT][IMAGE_OUT];
    const char *const names[] = {"mobilenet_v2", "resnet50"};
    struct recorder *r[2] = {recorder_create(true), recorder_create(true)};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        workers[i] = (struct worker){.id = load(names[i]), .offset = i * 3};
        OK(aclrtCreateStream(&workers[i].stream));
        (void)work(&workers[i]); /* the reference outputs, computed one after the other with the runtime's own memory */
        memcpy(wanted[i], workers[i].out, sizeof(wanted[i]));
        r[i]->waits = r[i]->shared = true;
        OK(aclrtAllocatorRegister(workers[i].stream, r[sharing ? 0 : i]->desc));
    }
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(!sharing || r[0]->most_inside == 2); /* called concurrently */
    CHECK(sharing || weir_ascendcl_warning_count(NULL) == 0);
    CHECK((weir_ascendcl_warning_count("one allocator object") > 0) == sharing);
    CHECK(sharing || memcmp(wanted[0], workers[0].out, sizeof(wanted[0])) == 0);
    CHECK(sharing || memcmp(wanted[1], workers[1].out, sizeof(wanted[1])) == 0);
    for (int i = 0; i < 2; i++) {
        OK(aclrtAllocatorUnregister(workers[i].stream));
        OK(aclrtDestroyStream(workers[i].stream));
        OK(aclmdlUnload(workers[i].id));
    }
    recorder_destroy(r[0]);
    recorder_destroy(r[1]);
}

TEST(two_streams_run_at_a_time)
{
    sharing = false;
    scenario(threads_body);
    report_is_clean();
}

/* Two streams share one allocator object that reuses blocks by size alone. The vendor forbids this; the auditor finds
 * it. */
TEST(one_object_for_two_streams_is_found)
{
    sharing = true;
    scenario(threads_body);
    report_has("warning");
    report_has("one allocator object was asked for memory for two streams whose work overlaps");
    report_has("memory handed out while earlier work may still touch it");
    report_has("on stream");
}

/* --- memory that goes too early --- */

static void gives_back_body(void)
{
    struct small m = small_create();
    struct recorder *r = recorder_create(true);
    aclrtStream stream;
    OK(aclrtCreateStream(&stream));
    OK(aclrtAllocatorRegister(stream, r->desc));
    r->gives_back = true;
    OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    /* The recorder gives the memory back to the runtime before the kernels run: a core raises an exception, and the
     * process does not crash. */
    GIVES(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
    OK(aclrtDestroyStream(stream));
    recorder_destroy(r);
    small_drop(&m);
}

TEST(memory_given_back_early_is_found)
{
    /* freeing is free of charge, so the work on the memory is still running when the allocator frees it */
    acl_environment("COSTS", "region_free=0,region_free_per_mib=0");
    scenario(gives_back_body);
    (void)unsetenv("WEIR_ASCENDCL_COSTS");
    report_has("region returned while work on it is pending");
}

/* --- refusals --- */

static void refusals_body(void)
{
    struct small m = small_create();
    char host[64];
    uint32_t id = 77;
    aclrtStream stream;
    size_t work = 0, weights = 0;
    OK(aclrtCreateStream(&stream));
    GIVES(ACL_ERROR_INVALID_PARAM, aclmdlLoadFromFile(NULL, &id));
    GIVES(ACL_ERROR_INVALID_PARAM, aclmdlLoadFromFile("x", NULL));
    GIVES(ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID, aclmdlLoadFromFile("/no/such/file", &id));
    CHECK(strstr(aclGetRecentErrMsg(), "/no/such/file: No such file") != NULL);
    GIVES(ACL_ERROR_GE_PARAM_INVALID, aclmdlLoadFromMem("7767517\n1 1\nFoo a 0 1 b\n", 23, &id));
    CHECK(strstr(aclGetRecentErrMsg(), "(memory):3: layer \"a\": the type \"Foo\" is not simulated") != NULL);
    GIVES(ACL_ERROR_INVALID_PARAM, aclmdlLoadFromMem(SMALL, 0, &id));
    CHECK(id == 77);
    GIVES(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, aclmdlExecuteAsync(4711, m.in, m.out, stream));
    GIVES(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, aclmdlUnload(4711));
    GIVES(ACL_ERROR_INVALID_PARAM, aclmdlExecuteAsync(m.id, NULL, m.out, stream));
    GIVES(ACL_ERROR_INVALID_PARAM, aclmdlExecuteAsync(m.id, m.in, NULL, stream));
    GIVES(ACL_ERROR_INVALID_PARAM, aclmdlExecuteAsync(m.id, m.out, m.in, stream)); /* one output is missing */
    CHECK(aclmdlExecuteAsync(m.id, m.in, m.out, (aclrtStream)host) != ACL_SUCCESS);
    set_shape(m.in, 4, 32, 32); /* channels are fixed */
    GIVES(ACL_ERROR_INVALID_PARAM, aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    set_shape(m.in, 3, 32, 0);
    GIVES(ACL_ERROR_INVALID_PARAM, aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    set_shape(m.in, 3, 256, 257); /* larger than the buffer */
    GIVES(ACL_ERROR_INVALID_PARAM, aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    set_shape(m.in, 3, INT64_MAX, INT64_MAX);
    GIVES(ACL_ERROR_INVALID_PARAM, aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    set_shape(m.in, 3, 256, 256);
    aclDataBuffer *out = aclmdlGetDatasetBuffer(m.out, 1);
    OK(aclUpdateDataBuffer(out, m.out_memory[1], 39));
    GIVES(ACL_ERROR_INVALID_PARAM, aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    OK(aclUpdateDataBuffer(out, host, 40));
    GIVES(ACL_ERROR_INVALID_PARAM, aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    OK(aclUpdateDataBuffer(out, m.out_memory[1], 40));
    OK(aclmdlExecuteAsync(m.id, m.in, m.out, stream));
    GIVES(ACL_ERROR_INVALID_PARAM, aclmdlQuerySize(NULL, &work, &weights));
    CHECK(aclmdlQuerySize("/no/such/file", &work, &weights) != ACL_SUCCESS);
    OK(aclmdlQuerySize(WEIR_NETWORKS_DIR "/resnet50.param", &work, &weights));
    CHECK(weights >= 25530472u * 4 && weights < 25530472u * 4 + 106 * 512 && work > 1000000);
    OK(aclrtDestroyStream(stream));
    small_drop(&m);
}

TEST(misuse_is_refused)
{
    scenario(refusals_body);
    report_is_clean();
}

/* --- descriptions, and objects that are never destroyed --- */

static void describes_body(void)
{
    size_t before = 0, after = 0, total = 0, index = 9;
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
    const uint32_t id = load("resnet50");
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
    CHECK(before - after >= 25530472u * 4); /* the memory of the weights */
    aclmdlDesc *desc = aclmdlCreateDesc();
    aclmdlIODims dims;
    CHECK(desc != NULL && aclmdlGetNumInputs(desc) == 0);
    GIVES(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, aclmdlGetDesc(desc, id + 1));
    OK(aclmdlGetDesc(desc, id));
    OK(aclmdlGetDesc(desc, id)); /* reads the description anew */
    CHECK(aclmdlGetNumInputs(desc) == 1 && aclmdlGetNumOutputs(desc) == 1);
    aclmdlIODims same;
    OK(aclmdlGetInputDims(desc, 0, &dims));
    OK(aclmdlGetInputDimsV2(desc, 0, &same));
    CHECK(memcmp(&dims, &same, sizeof(dims)) == 0);
    CHECK(dims.dimCount == 4 && dims.dims[0] == 1 && dims.dims[1] == 3 && dims.dims[2] == -1 && dims.dims[3] == -1);
    CHECK(strcmp(dims.name, "data") == 0 && strcmp(aclmdlGetInputNameByIndex(desc, 0), "data") == 0);
    OK(aclmdlGetOutputDims(desc, 0, &dims));
    CHECK(dims.dimCount == 2 && dims.dims[1] == 1000 && strcmp(aclmdlGetOutputNameByIndex(desc, 0), "prob") == 0);
    CHECK(aclmdlGetInputSizeByIndex(desc, 0) == 224 * 224 * 3 * 4 && aclmdlGetOutputSizeByIndex(desc, 0) == 4000);
    CHECK(aclmdlGetInputDataType(desc, 0) == ACL_FLOAT && aclmdlGetOutputDataType(desc, 1) == ACL_DT_UNDEFINED);
    CHECK(aclmdlGetInputFormat(desc, 0) == ACL_FORMAT_NCHW && aclmdlGetInputFormat(desc, 1) == ACL_FORMAT_UNDEFINED);
    CHECK(aclmdlGetOutputFormat(desc, 0) == ACL_FORMAT_ND && aclmdlGetOutputFormat(desc, 1) == ACL_FORMAT_UNDEFINED);
    OK(aclmdlGetInputIndexByName(desc, "data", &index));
    CHECK(index == 0);
    GIVES(ACL_ERROR_INVALID_PARAM, aclmdlGetInputIndexByName(desc, "prob", &index));
    GIVES(ACL_ERROR_INVALID_PARAM, aclmdlGetInputDims(desc, 1, &dims));
    GIVES(ACL_ERROR_INVALID_PARAM, aclmdlGetInputDimsV2(desc, 1, &dims));
    GIVES(ACL_ERROR_INVALID_PARAM, aclmdlGetDesc(NULL, id));
    OK(aclmdlDestroyDesc(desc));
    OK(aclmdlUnload(id));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
    CHECK(before == after);
}

TEST(models_are_described)
{
    scenario(describes_body);
    report_is_clean();
}
