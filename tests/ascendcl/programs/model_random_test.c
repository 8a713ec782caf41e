/* model_random_test.c: random programs of executions, registrations, refusals and streams that are created and
 * destroyed. Each output equals the output that the same input gave before any registration, every block is freed
 * exactly once, and the auditor finds nothing.
 *
 *   model_random_test [SEED]     one program; without SEED thirty
 */
#include "rig/acl.h"
#include "scenario.h"

#include "network.h"
#include "recorder.h"

#include <acl/acl_op.h>

enum { STREAMS = 2, RECORDERS = 2, IMAGES = 4, STEPS = 60, PROGRAMS = 30 };

static const struct {
    int64_t width, height;
} SIZES[IMAGES] = {{64, 64}, {128, 96}, {96, 224}, {32, 320}};

/* The state of one stream. Its recorder reuses memory in the order of the stream. */
struct lane {
    aclrtStream stream;
    struct recorder *recorders[RECORDERS];
    int registered; /* -1: none */
    struct image images[IMAGES];
    bool ran[IMAGES];
    void *operand;
};

static uint64_t seed;
static float wanted[2][IMAGES][IMAGE_OUT];
static uint32_t models[2];

static uint32_t below(uint32_t limit)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % limit;
}

/* The model that ran last on an image. */
static int last_model[STREAMS][IMAGES];

static void synchronise(struct lane *lanes, int s)
{
    static float got[IMAGE_OUT];
    struct lane *l = &lanes[s];
    OK(aclrtSynchronizeStream(l->stream));
    for (int i = 0; i < IMAGES; i++) {
        if (l->ran[i]) {
            image_read(&l->images[i], got);
            CHECK(memcmp(got, wanted[last_model[s][i]][i], sizeof(got)) == 0);
            l->ran[i] = false;
        }
    }
}

static void execute(struct lane *lanes, int s)
{
    struct lane *l = &lanes[s];
    const int model = (int)below(2), i = (int)below(IMAGES);
    if (l->registered >= 0 && below(4) == 0) { /* the recorder will refuse one of its next requests */
        struct recorder *r = l->recorders[l->registered];
        r->refuse_at = r->allocs + 1 + below(60);
    }
    OK(aclmdlExecuteAsync(models[model], l->images[i].in, l->images[i].out, l->stream));
    l->ran[i] = true;
    last_model[s][i] = model;
}

static void operate(const struct lane *l)
{
    const int64_t dims[] = {256};
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_FLOAT16, 1, dims, ACL_FORMAT_ND);
    aclDataBuffer *buffer = aclCreateDataBuffer(l->operand, 512);
    aclTensorDesc *in_desc[] = {desc, desc};
    aclDataBuffer *in[] = {buffer, buffer};
    OK(aclopExecuteV2("Add", 2, in_desc, in, 1, &desc, &buffer, NULL, l->stream));
    aclDestroyTensorDesc(desc);
    OK(aclDestroyDataBuffer(buffer));
}

static void unregister(struct lane *l)
{
    OK(aclrtAllocatorUnregister(l->stream));
    l->registered = -1;
}

static void step(struct lane *lanes)
{
    const int s = (int)below(STREAMS);
    struct lane *l = &lanes[s];
    switch (below(12)) {
    case 0:
        synchronise(lanes, s);
        break;
    case 1:
    case 2:
        synchronise(lanes, s);
        l->registered = (int)below(RECORDERS);
        OK(aclrtAllocatorRegister(l->stream, l->recorders[l->registered]->desc));
        break;
    case 3:
        synchronise(lanes, s);
        unregister(l);
        break;
    case 4:
        operate(l);
        break;
    case 5:
        synchronise(lanes, s);
        OK(aclrtDestroyStream(l->stream));
        unregister(l); /* a registration outlives its stream */
        OK(aclrtCreateStream(&l->stream));
        break;
    default:
        execute(lanes, s);
        break;
    }
}

static void body(void)
{
    static struct lane lanes[STREAMS];
    const char *const names[] = {"mobilenet_v2", "resnet50"};
    for (int m = 0; m < 2; m++) {
        models[m] = load(names[m]);
    }
    for (int s = 0; s < STREAMS; s++) {
        struct lane *l = &lanes[s];
        OK(aclrtCreateStream(&l->stream));
        l->registered = -1;
        OK(aclrtMalloc(&l->operand, 512, ACL_MEM_MALLOC_HUGE_FIRST));
        OK(aclrtMemset(l->operand, 512, 0, 512));
        for (int r = 0; r < RECORDERS; r++) {
            l->recorders[r] = recorder_create(below(2) == 0);
        }
        for (int i = 0; i < IMAGES; i++) {
            l->images[i] = image_create(SIZES[i].width, SIZES[i].height);
        }
    }
    for (int m = 0; m < 2; m++) {
        for (int i = 0; i < IMAGES; i++) {
            OK(aclmdlExecute(models[m], lanes[0].images[i].in, lanes[0].images[i].out));
            image_read(&lanes[0].images[i], wanted[m][i]);
        }
    }
    for (int i = 0; i < STEPS; i++) {
        step(lanes);
    }
    for (int s = 0; s < STREAMS; s++) {
        struct lane *l = &lanes[s];
        synchronise(lanes, s);
        unregister(l);
        OK(aclrtDestroyStream(l->stream));
        OK(aclrtFree(l->operand));
        for (int r = 0; r < RECORDERS; r++) {
            recorder_destroy(l->recorders[r]);
        }
        for (int i = 0; i < IMAGES; i++) {
            image_drop(&l->images[i]);
        }
    }
    OK(aclmdlUnload(models[0]));
    OK(aclmdlUnload(models[1]));
}

static uint64_t first = 1, last = PROGRAMS;

TEST(programs)
{
    for (uint64_t s = first; s <= last; s++) {
        printf("seed %llu\n", (unsigned long long)s);
        seed = s;
        acl_environment("SPAN_CACHE", s & 1 ? "1" : "0");
        acl_environment("PIN_DEFAULT_ALLOCATOR", s & 2 ? "1" : "0");
        acl_environment("REFRESH_WEIGHTS", s % 5 == 0 ? "1" : "0");
        scenario(body);
        report_has("the auditor found nothing");
        report_has_not("written over");
        report_has_not("unfinished work");
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        first = last = strtoull(argv[1], NULL, 10);
    }
    return run_all_tests("tests");
}
