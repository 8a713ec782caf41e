/* inference.c: runs two networks with changing input sizes on two ACL streams at the same time, with and without weir.
 *
 *     ascend_inference NETWORKS [MODE...]       all modes one after another when none is named
 *
 *     none     no allocator is registered: the runtime allocates and frees each intermediate tensor
 *     weir     one weir pool attached to both streams
 *     weir+vm  one weir pool with virtual memory attached to both streams
 *     shared   wrong: one free list without stream order, registered on both streams
 *     early    wrong: freed tensors go back to the device at once, while work on them is queued
 *
 * Each mode runs in its own process, since the simulated runtime counts per process. The two wrong allocators show the
 * auditor: its first finding of each kind is printed.
 */
#include <acl/acl.h>
#include <acl/acl_mdl.h>
#include <acl/acl_rt_allocator.h>
#include <weir/acl.h>
#include <weir/ascendcl.h>
#include <weir/caching.h>
#include <weir/weir.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STREAMS = 2, SIZES = 20, PASSES = 3, LARGEST = 480, OUTPUTS = 1000, SOFT_LIMIT_MIB = 64 };

/* Height and width of the inputs, in the order of the requests. The sizes vary like those of requests to a server. */
static const int sizes[SIZES][2] = {{224, 224}, {256, 320}, {192, 192}, {384, 288},       {160, 240},
                                    {320, 320}, {448, 336}, {128, 128}, {288, 512 - 128}, {240, 320},
                                    {416, 416}, {176, 144}, {352, 288}, {480, 270},       {200, 300},
                                    {360, 480}, {144, 256}, {400, 300}, {270, 480},       {310, 250}};

static void must(aclError error, const char *what)
{
    if (error != ACL_SUCCESS) {
        (void)fprintf(stderr, "ascend_inference: %s: %d, %s\n", what, error, aclGetRecentErrMsg());
        exit(1);
    }
}
#define MUST(call) must(call, #call)

static void must_weir(weir_status status, const char *what)
{
    if (status != WEIR_OK) {
        const char *text = "";
        (void)weir_acl_error(NULL, &text);
        (void)fprintf(stderr, "ascend_inference: %s: %s; %s\n", what, weir_status_text(status), text);
        exit(1);
    }
}
#define MUST_WEIR(call) must_weir(call, #call)

/* --- the two allocators that are wrong on purpose --- */

struct piece {
    struct piece *next;
    void *address;
    size_t size;
};

struct wrong_allocator {
    pthread_mutex_t lock;
    struct piece *free;
    bool gives_back; /* freed memory goes back to the device at once */
};

static void *wrong_alloc(aclrtAllocator allocator, size_t size)
{
    struct wrong_allocator *self = allocator;
    struct piece *found = NULL;
    (void)pthread_mutex_lock(&self->lock);
    for (struct piece **link = &self->free; *link != NULL; link = &(*link)->next) {
        if ((*link)->size == size) {
            found = *link;
            *link = found->next;
            break;
        }
    }
    (void)pthread_mutex_unlock(&self->lock);
    if (found == NULL) {
        found = malloc(sizeof(*found));
        if (found != NULL && aclrtMalloc(&found->address, size, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) {
            free(found);
            return NULL;
        }
        found->size = size;
    }
    return found;
}

static void *wrong_advise(aclrtAllocator allocator, size_t size, aclrtAllocatorAddr address)
{
    (void)address;
    return wrong_alloc(allocator, size);
}

static void wrong_free(aclrtAllocator allocator, aclrtAllocatorBlock block)
{
    struct wrong_allocator *self = allocator;
    struct piece *p = block;
    if (self->gives_back) {
        (void)aclrtFree(p->address);
        free(p);
        return;
    }
    (void)pthread_mutex_lock(&self->lock);
    p->next = self->free;
    self->free = p;
    (void)pthread_mutex_unlock(&self->lock);
}

static void *wrong_address(aclrtAllocatorBlock block)
{
    return ((struct piece *)block)->address;
}

static void wrong_register(struct wrong_allocator *self, aclrtStream stream)
{
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
    MUST(aclrtAllocatorSetObjToDesc(desc, self));
    MUST(aclrtAllocatorSetAllocFuncToDesc(desc, wrong_alloc));
    MUST(aclrtAllocatorSetFreeFuncToDesc(desc, wrong_free));
    MUST(aclrtAllocatorSetAllocAdviseFuncToDesc(desc, wrong_advise));
    MUST(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, wrong_address));
    MUST(aclrtAllocatorRegister(stream, desc));
    MUST(aclrtAllocatorDestroyDesc(desc));
}

/* --- one stream's requests --- */

struct server {
    uint32_t model;
    aclrtStream stream;
    void *input;
    void *output;
    pthread_barrier_t *passes;
    uint64_t *calls_after_first;
    bool counts;
};

static aclmdlDataset *data_set(void *memory, size_t bytes)
{
    aclmdlDataset *set = aclmdlCreateDataset();
    MUST(aclmdlAddDatasetBuffer(set, aclCreateDataBuffer(memory, bytes)));
    return set;
}

static void drop(aclmdlDataset *set)
{
    MUST(aclDestroyDataBuffer(aclmdlGetDatasetBuffer(set, 0)));
    MUST(aclmdlDestroyDataset(set));
}

/* Queues an inference of an input of this size. The program owns the memory of inputs and keeps it. */
static void infer(const struct server *s, int height, int width)
{
    const int64_t shape[] = {1, 3, height, width};
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_FLOAT, 4, shape, ACL_FORMAT_NCHW);
    aclmdlDataset *in = data_set(s->input, (size_t)height * (size_t)width * 3 * sizeof(float));
    aclmdlDataset *out = data_set(s->output, OUTPUTS * sizeof(float));
    MUST(aclmdlSetDatasetTensorDesc(in, desc, 0));
    MUST(aclmdlExecuteAsync(s->model, in, out, s->stream));
    aclDestroyTensorDesc(desc);
    drop(in);
    drop(out);
}

static void *serve(void *ctx)
{
    struct server *s = ctx;
    MUST(aclrtSetDevice(0));
    for (int pass = 0; pass < PASSES; pass++) {
        for (int i = 0; i < SIZES; i++) {
            const int which = (i + (s->counts ? 0 : SIZES / 2)) % SIZES;
            infer(s, sizes[which][0], sizes[which][1]);
            if (i % 4 == 3) { /* waits for the results of four inferences */
                MUST(aclrtSynchronizeStream(s->stream));
            }
        }
        MUST(aclrtSynchronizeStream(s->stream));
        (void)pthread_barrier_wait(s->passes);
        if (pass == 0 && s->counts) {
            *s->calls_after_first = weir_ascendcl_memory_calls();
        }
        (void)pthread_barrier_wait(s->passes);
    }
    MUST(aclrtResetDevice(0));
    return NULL;
}

/* --- one mode --- */

typedef enum mode { NONE, WEIR, WEIR_VM, SHARED, EARLY, MODES } mode;

static const char *const mode_names[MODES] = {"none", "weir", "weir+vm", "shared", "early"};

static const char *const mode_titles[MODES] = {"none registered", "weir", "weir with virtual memory",
                                               "wrong: one free list for both", "wrong: freed at once"};

/* What a child process tells its parent. */
struct figures {
    double ms;
    uint64_t findings;
};

struct setting {
    weir_device *device;
    weir_pool *pool;
    weir_acl_attachment *attachments[STREAMS];
    struct wrong_allocator wrong;
};

static void plug_in(struct setting *set, mode m, const struct server *servers)
{
    if (m == WEIR || m == WEIR_VM) {
        weir_pool_config config = WEIR_POOL_CONFIG_INIT;
        MUST_WEIR(weir_acl_device_create(NULL, &set->device));
        config.device = set->device;
        config.strategy = weir_caching_strategy();
        /* Before the pool takes more, it waits for queued work and returns idle memory. */
        config.soft_limit_bytes = (uint64_t)SOFT_LIMIT_MIB << 20;
        config.flags = m == WEIR_VM ? 0 : WEIR_POOL_REGIONS;
        MUST_WEIR(weir_pool_create(&config, &set->pool));
    }
    set->wrong.gives_back = m == EARLY;
    (void)pthread_mutex_init(&set->wrong.lock, NULL);
    for (int i = 0; i < STREAMS; i++) {
        if (set->pool != NULL) {
            MUST_WEIR(weir_acl_attach(set->pool, servers[i].stream, &set->attachments[i]));
        } else if (m != NONE) {
            wrong_register(&set->wrong, servers[i].stream);
        }
    }
}

static void unplug(struct setting *set, mode m, const struct server *servers)
{
    for (int i = 0; i < STREAMS; i++) {
        if (set->pool != NULL) {
            MUST_WEIR(weir_acl_detach(set->attachments[i]));
        } else if (m != NONE) {
            MUST(aclrtAllocatorUnregister(servers[i].stream));
        }
    }
    MUST_WEIR(weir_pool_destroy(set->pool));
    MUST_WEIR(weir_device_destroy(set->device));
    while (set->wrong.free != NULL) {
        struct piece *next = set->wrong.free->next;
        (void)aclrtFree(set->wrong.free->address);
        free(set->wrong.free);
        set->wrong.free = next;
    }
}

static uint32_t load(const char *folder, const char *name)
{
    char path[4096];
    uint32_t model = 0;
    (void)snprintf(path, sizeof(path), "%s/%s.param", folder, name);
    MUST(aclmdlLoadFromFile(path, &model));
    return model;
}

static double mib(uint64_t bytes)
{
    return (double)bytes / 1048576.0;
}

/* Prints text in indented lines of at most 98 characters. */
static void print_wrapped(int indent, const char *text)
{
    const size_t width = 98 - (size_t)indent;
    while (*text != '\0') {
        size_t length = strlen(text);
        if (length > width) {
            length = width;
            while (length > 1 && text[length] != ' ') {
                length--;
            }
        }
        (void)printf("%*s%.*s\n", indent, "", (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
}

/* Prints the first finding of each kind of the auditor. */
static void print_findings(void)
{
    static const char *const kinds[] = {"early_reuse",    "unordered",   "overlap",       "use_after_free",
                                        "region_pending", "region_live", "outside_block", "free_pending"};
    char text[512];
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        if (weir_ascendcl_finding_count(kinds[k]) == 0) {
            continue;
        }
        for (size_t i = 0; weir_ascendcl_finding(i, text, sizeof(text)); i++) {
            if (strcmp(weir_ascendcl_finding_kind(i), kinds[k]) == 0) {
                print_wrapped(6, text);
                break;
            }
        }
    }
}

static struct figures run(mode m, const char *folder)
{
    static const char *const networks[STREAMS] = {"resnet50", "mobilenet_v2"};
    struct server servers[STREAMS];
    pthread_t threads[STREAMS];
    pthread_barrier_t passes;
    struct setting set = {0};
    uint64_t first = 0;
    const size_t input_bytes = (size_t)LARGEST * LARGEST * 3 * sizeof(float);
    MUST(aclrtSetDevice(0));
    (void)pthread_barrier_init(&passes, NULL, STREAMS);
    for (int i = 0; i < STREAMS; i++) {
        struct server *s = &servers[i];
        *s = (struct server){
            .model = load(folder, networks[i]), .passes = &passes, .calls_after_first = &first, .counts = i == 0};
        MUST(aclrtCreateStream(&s->stream));
        MUST(aclrtMalloc(&s->input, input_bytes, ACL_MEM_MALLOC_HUGE_FIRST));
        MUST(aclrtMalloc(&s->output, OUTPUTS * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
        MUST(aclrtMemset(s->input, input_bytes, 0, input_bytes));
    }
    const uint64_t own_bytes = weir_ascendcl_held_bytes(0);
    plug_in(&set, m, servers);
    const uint64_t before = weir_ascendcl_memory_calls();
    for (int i = 0; i < STREAMS; i++) {
        if (pthread_create(&threads[i], NULL, serve, &servers[i]) != 0) {
            exit(1);
        }
    }
    for (int i = 0; i < STREAMS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    const uint64_t later = weir_ascendcl_memory_calls() - first;
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    stats.peak_reserved_bytes = weir_ascendcl_peak_bytes(0) - own_bytes;
    if (set.pool != NULL) {
        MUST_WEIR(weir_pool_get_stats(set.pool, &stats));
    }
    const struct figures figures = {(double)weir_ascendcl_now() / 1e6, weir_ascendcl_finding_count(NULL)};
    (void)printf("  %-29s %7" PRIu64 " %7" PRIu64 " %9.1f %9.1f %11.1f %8" PRIu64 "\n", mode_titles[m], first - before,
                 later, mib(weir_ascendcl_tensor_peak_bytes()), mib(stats.peak_reserved_bytes), figures.ms,
                 figures.findings);
    print_findings();
    (void)fflush(stdout);
    unplug(&set, m, servers);
    for (int i = 0; i < STREAMS; i++) {
        MUST(aclmdlUnload(servers[i].model));
        MUST(aclrtFree(servers[i].input));
        MUST(aclrtFree(servers[i].output));
        MUST(aclrtDestroyStream(servers[i].stream));
    }
    MUST(aclrtResetDevice(0));
    return figures;
}

static mode mode_named(const char *name)
{
    int m = 0;
    while (m < MODES && strcmp(mode_names[m], name) != 0) {
        m++;
    }
    return (mode)m;
}

static bool run_in_child(mode m, const char *folder, struct figures *figures)
{
    int ends[2];
    (void)fflush(NULL);
    if (pipe(ends) != 0) {
        return false;
    }
    const pid_t child = fork();
    if (child == 0) {
        (void)setenv("WEIR_ASCENDCL_REPORT", "none", 0);
        const struct figures own = run(m, folder);
        exit(write(ends[1], &own, sizeof(own)) == (ssize_t)sizeof(own) ? 0 : 1);
    }
    int status = 0;
    (void)close(ends[1]);
    const bool told = read(ends[0], figures, sizeof(*figures)) == (ssize_t)sizeof(*figures);
    (void)close(ends[0]);
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0 && told;
}

static void print_head(void)
{
    (void)printf("Ascend: ResNet-50 and MobileNetV2 on two streams of a simulated device, %d input sizes, %d rounds.\n"
                 "Device calls take or give back memory, in the first round and in the later ones. MiB are those at\n"
                 "the peak; ms are the device's. The last two allocators are wrong, for the auditor to find.\n\n"
                 "                                  device calls    MiB: in  MiB taken   simulated   errors\n"
                 "  allocator registered            first   later   tensors  from dev.        ms    found\n",
                 (int)SIZES, (int)PASSES);
}

/* Says what follows from the figures of the modes without and with weir. */
static void print_conclusion(const struct figures *figures)
{
    char text[512];
    (void)snprintf(text, sizeof(text),
                   "With weir both networks end in %.0f ms of device time, without an allocator in %.0f: each tensor "
                   "then costs two device calls, and a wait for the device before it can be freed.",
                   figures[WEIR].ms, figures[NONE].ms);
    (void)puts("");
    print_wrapped(2, text);
    (void)snprintf(text, sizeof(text),
                   "weir's pools have a soft limit of %d MiB: before they take more, they wait for queued work. Memory "
                   "can exceed what the tensors need, because memory of queued work serves the same stream, but can "
                   "serve the other stream or go back to the device only when that work is over.",
                   (int)SOFT_LIMIT_MIB);
    print_wrapped(2, text);
}

int main(int argc, char **argv)
{
    struct figures figures[MODES] = {{0}};
    if (argc < 2) {
        (void)fprintf(stderr, "usage: ascend_inference NETWORKS [none|weir|weir+vm|shared|early]...\n");
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        if (mode_named(argv[i]) == MODES) {
            (void)fprintf(stderr, "ascend_inference: there is no mode %s\n", argv[i]);
            return 2;
        }
    }
    print_head();
    bool good = true;
    for (int i = 0; i < (argc == 2 ? MODES : argc - 2); i++) {
        const mode m = argc == 2 ? (mode)i : mode_named(argv[i + 2]);
        good = run_in_child(m, argv[1], &figures[m]) && good;
    }
    if (argc == 2 && good) {
        print_conclusion(figures);
    }
    return good ? 0 : 1;
}
