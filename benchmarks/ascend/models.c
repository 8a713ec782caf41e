/* models.c: two networks with dynamic shapes on two streams at a time, on the simulated ACL runtime: once with the runtime's
 * own memory, then with one weir pool attached to both streams, in three settings.
 *
 *     models [ROUNDS]          each of twenty input sizes so often (2)
 *
 * Everything is queued before anything is waited for. Figures are of the executions alone: models, weights, inputs and
 * outputs are in memory before they begin. Times are the simulated device's, from its table of prices and the kernels'
 * roofline; they rank, they do not predict.
 */
#include <acl/acl.h>
#include <acl/acl_mdl.h>
#include <weir/acl.h>
#include <weir/ascendcl.h>
#include <weir/caching.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZES = 20, STREAMS = 2, OUTPUTS = 1000 };

static const char *const NETWORKS[STREAMS] = {"resnet50", "mobilenet_v2"};

/* The rows of the table. */
static const struct {
    const char *name;
    bool pooled;
    uint32_t flags;
    weir_growth growth;
} SETTINGS[] = {
    {"none", false, 0, WEIR_GROWTH_BALANCED},
    {"weir pool", true, 0, WEIR_GROWTH_BALANCED},
    {"weir, virtual memory", true, WEIR_POOL_VIRTUAL_MEMORY, WEIR_GROWTH_BALANCED},
    {"weir, the same, waiting", true, WEIR_POOL_VIRTUAL_MEMORY, WEIR_GROWTH_WAIT_FIRST},
};
enum { SETTING_COUNT = sizeof SETTINGS / sizeof SETTINGS[0] };

/* Of COCO's usual shapes, the long side 640 or less, all sides multiples of 32. */
static const int64_t WIDTHS[SIZES] = {640, 640, 480, 640, 448, 640, 512, 640, 320, 640,
                                      384, 576, 640, 416, 640, 544, 640, 352, 224, 640};
static const int64_t HEIGHTS[SIZES] = {480, 448, 640, 416, 640, 512, 640, 384, 320, 352,
                                       640, 576, 640, 640, 544, 640, 320, 640, 224, 576};

static void check(int code, const char *what)
{
    if (code != 0) {
        (void)fprintf(stderr, "models: %s: %d: %s\n", what, code, aclGetRecentErrMsg());
        exit(1);
    }
}

#define CHECK(call) check((call), #call)

typedef struct work {
    uint32_t model;
    aclrtStream stream;
    int rounds;
    aclmdlDataset *in[SIZES], *out[SIZES];
} work;

static aclmdlDataset *dataset(size_t bytes, int64_t height, int64_t width)
{
    void *memory;
    aclmdlDataset *set = aclmdlCreateDataset();
    CHECK(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemset(memory, bytes, 1, bytes));
    CHECK(aclmdlAddDatasetBuffer(set, aclCreateDataBuffer(memory, bytes)));
    if (height > 0) {
        const int64_t dims[] = {1, 3, height, width};
        aclTensorDesc *desc = aclCreateTensorDesc(ACL_FLOAT, 4, dims, ACL_FORMAT_NCHW);
        CHECK(aclmdlSetDatasetTensorDesc(set, desc, 0));
        aclDestroyTensorDesc(desc);
    }
    return set;
}

static void prepare(work *w, const char *network, int rounds)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s.param", WEIR_NETWORKS_DIR, network);
    w->rounds = rounds;
    CHECK(aclmdlLoadFromFile(path, &w->model));
    CHECK(aclrtCreateStream(&w->stream));
    for (int i = 0; i < SIZES; i++) {
        w->in[i] =
            dataset((size_t)(WIDTHS[i] * HEIGHTS[i]) * 3 * sizeof(float), HEIGHTS[i], WIDTHS[i]);
        w->out[i] = dataset(OUTPUTS * sizeof(float), 0, 0);
    }
}

static void *run(void *argument)
{
    const work *w = argument;
    CHECK(aclrtSetDevice(0));
    for (int i = 0; i < w->rounds * SIZES; i++) {
        CHECK(aclmdlExecuteAsync(w->model, w->in[i % SIZES], w->out[i % SIZES], w->stream));
    }
    CHECK(aclrtSynchronizeStream(w->stream));
    return NULL;
}

/* One row of the table, in a process with a machine of its own. */
static void measure(int setting, int rounds)
{
    const bool pooled = SETTINGS[setting].pooled;
    work works[STREAMS];
    pthread_t threads[STREAMS];
    weir_acl_attachment *attachments[STREAMS];
    weir_device *device = NULL;
    weir_pool *pool = NULL;
    CHECK(aclrtSetDevice(0));
    for (int s = 0; s < STREAMS; s++) {
        prepare(&works[s], NETWORKS[s], rounds);
    }
    CHECK(aclrtSynchronizeDevice());
    const uint64_t held = weir_ascendcl_held_bytes(0), calls = weir_ascendcl_memory_calls();
    const uint64_t start = weir_ascendcl_now();
    if (pooled) {
        weir_pool_config config = WEIR_POOL_CONFIG_INIT;
        CHECK(weir_acl_device_create(NULL, &device));
        config.device = device;
        config.strategy = weir_caching_strategy();
        config.flags = SETTINGS[setting].flags;
        config.growth = SETTINGS[setting].growth;
        CHECK(weir_pool_create(&config, &pool));
        for (int s = 0; s < STREAMS; s++) {
            CHECK(weir_acl_attach(pool, works[s].stream, &attachments[s]));
        }
    }
    for (int s = 0; s < STREAMS; s++) {
        CHECK(pthread_create(&threads[s], NULL, run, &works[s]));
    }
    for (int s = 0; s < STREAMS; s++) {
        CHECK(pthread_join(threads[s], NULL));
    }
    const uint64_t end = weir_ascendcl_now(), peak = weir_ascendcl_peak_bytes(0) - held;
    uint64_t live = peak;
    if (pooled) {
        weir_stats stats = WEIR_STATS_INIT;
        CHECK(weir_pool_stats(pool, &stats));
        live = stats.peak_live_bytes;
    }
    (void)printf("%-24s %12" PRIu64 " %13.1f %9.1f %12.2f %8" PRIu64 "\n", SETTINGS[setting].name,
                 weir_ascendcl_memory_calls() - calls, (double)peak / 1048576,
                 (double)live / 1048576, (double)(end - start) / 1e6,
                 weir_ascendcl_finding_count(NULL));
    (void)fflush(stdout);
    if (pooled) {
        for (int s = 0; s < STREAMS; s++) {
            CHECK(weir_acl_detach(attachments[s]));
        }
        CHECK(weir_pool_destroy(pool));
        weir_device_destroy(device);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 2;
    if (rounds < 1 || rounds > 1000) {
        (void)fputs("usage: models [ROUNDS]\n", stderr);
        return 2;
    }
    (void)printf("%s and %s at a time, %d executions each\n\n", NETWORKS[0], NETWORKS[1],
                 rounds * SIZES);
    (void)printf("%-24s %12s %13s %9s %12s %8s\n", "registered allocator", "memory calls",
                 "reserved MiB", "live MiB", "simulated ms", "hazards");
    (void)fflush(stdout);
    for (int setting = 0; setting < SETTING_COUNT; setting++) {
        int status = 0;
        const pid_t child = fork();
        if (child == 0) {
            measure(setting, rounds);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
            WEXITSTATUS(status) != 0) {
            return 1;
        }
    }
    return 0;
}
