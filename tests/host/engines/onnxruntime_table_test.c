/* The binding for ONNX Runtime without ONNX Runtime: this file has a table of the runtime's calls and controls their
 * results. The tests cover every refusal, the table that each version of the runtime sees, the throw, and every wrong
 * order. */
#include "rig/heap.h"
#include "runtime.h" /* of the binding */

#include "caught.h"

#include <pthread.h>
#include <stdio.h>

#include "failing_heap.h"
#include "refused.h"

/* --- a runtime --- */

enum { PLACES = 400, PAIRS = 16 };

struct OrtStatus {
    char text[64];
};
struct OrtMemoryInfo {
    int kind;
};
struct OrtEnv {
    struct OrtAllocator *registered; /* the allocator that was registered last, as in the runtime */
};
struct OrtSessionOptions {
    char entries[256];
};
struct OrtKeyValuePairs {
    char keys[PAIRS][32];
    char values[PAIRS][32];
    size_t count;
};

static const char *version_string = "1.28.2";
static uint32_t version_asked; /* the last argument of GetApi */
static bool no_table;
static const char *refuses;            /* name of the call that fails */
static int statuses, infos, all_pairs; /* number of live objects */
static int unregisters;
static void (*table[PLACES])(void);

static OrtStatus *new_status(const char *text)
{
    OrtStatus *status = test_malloc(sizeof(*status));
    (void)snprintf(status->text, sizeof(status->text), "%s", text);
    statuses++;
    return status;
}

static OrtStatus *answer(const char *call)
{
    return refuses != NULL && strcmp(refuses, call) == 0 ? new_status(call) : NULL;
}

static void never(void)
{
    fail_msg("a call that this version of the table does not have");
}

static OrtStatus *CreateStatus(int code, const char *text)
{
    assert_int_equal(code, 1); /* ORT_FAIL */
    return new_status(text);
}

static const char *GetErrorMessage(const OrtStatus *status)
{
    return status->text;
}

static void ReleaseStatus(OrtStatus *status)
{
    statuses--;
    test_free(status);
}

static OrtStatus *CreateCpuMemoryInfo(int allocator_type, int memory_type, struct OrtMemoryInfo **info)
{
    assert_int_equal(allocator_type, 0); /* a device allocator, no arena */
    assert_int_equal(memory_type, 0);
    OrtStatus *status = answer("CreateCpuMemoryInfo");
    if (status == NULL) {
        *info = test_calloc(1, sizeof(**info));
        infos++;
    }
    return status;
}

static void ReleaseMemoryInfo(struct OrtMemoryInfo *info)
{
    infos--;
    test_free(info);
}

static OrtStatus *CompareMemoryInfo(const struct OrtMemoryInfo *one, const struct OrtMemoryInfo *other, int *differ)
{
    *differ = one->kind != other->kind;
    return answer("CompareMemoryInfo");
}

static OrtStatus *AddSessionConfigEntry(struct OrtSessionOptions *options, const char *key, const char *value)
{
    OrtStatus *status = answer(key);
    if (status == NULL) {
        const size_t at = strlen(options->entries);
        (void)snprintf(options->entries + at, sizeof(options->entries) - at, "%s=%s ", key, value);
    }
    return status;
}

static OrtStatus *RegisterAllocator(struct OrtEnv *env, struct OrtAllocator *allocator)
{
    OrtStatus *status = answer("RegisterAllocator");
    if (status == NULL) {
        env->registered = allocator;
    }
    return status;
}

static OrtStatus *UnregisterAllocator(struct OrtEnv *env, const struct OrtMemoryInfo *info)
{
    unregisters++;
    OrtStatus *status = answer("UnregisterAllocator");
    if (status == NULL) {
        assert_ptr_equal(env->registered->Info(env->registered), info);
        env->registered = NULL;
    }
    return status;
}

static void CreateKeyValuePairs(OrtKeyValuePairs **pairs)
{
    if (refuses != NULL && strcmp(refuses, "CreateKeyValuePairs") == 0) {
        return;
    }
    *pairs = test_calloc(1, sizeof(**pairs));
    all_pairs++;
}

static void AddKeyValuePair(OrtKeyValuePairs *pairs, const char *key, const char *value)
{
    assert_true(pairs->count < PAIRS);
    (void)snprintf(pairs->keys[pairs->count], sizeof(pairs->keys[0]), "%s", key);
    (void)snprintf(pairs->values[pairs->count++], sizeof(pairs->values[0]), "%s", value);
}

/* Fills the table of functions for a version of the runtime. The functions that this version lacks end the program. */
static void fill_table(uint32_t version)
{
    for (size_t i = 0; i < PLACES; i++) {
        table[i] = never;
    }
#define PUT(name, place, result, parameters) table[place] = (void (*)(void))name;
    WEIR_ONNXRUNTIME_API(PUT)
    if (version >= 22) {
        WEIR_ONNXRUNTIME_API_STATS(PUT)
    }
#undef PUT
}

static const struct OrtApi *GetApi(uint32_t version)
{
    version_asked = version;
    fill_table(version);
    return no_table ? NULL : (const struct OrtApi *)(const void *)table;
}

static const char *GetVersionString(void)
{
    return version_string;
}

static const struct OrtApiBase base = {GetApi, GetVersionString};

/* --- shared by the tests --- */

static int callocs_left = -1; /* number of callocs until one fails; -1: none fails */
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    if (callocs_left > 0) {
        callocs_left--;
    }
    return callocs_left == 0 ? NULL : __real_calloc(count, size);
}

static weir_heap *heap;

static int set_up(void **state)
{
    (void)state;
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.limit_bytes = 64 << 20;
    config.name = "tensors";
    version_string = "1.28.2";
    no_table = false;
    refuses = NULL;
    unregisters = 0;
    fail_heap_at(0, false);
    return weir_heap_create(&config, &heap) == WEIR_OK ? 0 : -1;
}

/* Checks that no object of the runtime and no block of the heap is left. */
static int tear_down(void **state)
{
    (void)state;
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    const bool clean = weir_heap_get_stats(heap, &stats) == WEIR_OK && stats.live_blocks == 0 && statuses == 0 &&
                       infos == 0 && all_pairs == 0;
    return weir_heap_check(heap, NULL) == WEIR_OK && weir_heap_destroy(heap) == WEIR_OK && clean ? 0 : -1;
}

static weir_onnxruntime_config ready(void)
{
    weir_onnxruntime_config config = WEIR_ONNXRUNTIME_CONFIG_INIT;
    config.heap = heap;
    config.runtime = &base;
    return config;
}

static weir_onnxruntime *make(void)
{
    const weir_onnxruntime_config config = ready();
    weir_onnxruntime *binding = NULL;
    assert_int_equal(weir_onnxruntime_create(&config, &binding), WEIR_OK);
    return binding;
}

static void assert_said(weir_onnxruntime *binding, const char *expected)
{
    char text[64];
    assert_int_equal(weir_onnxruntime_explain(binding, text, sizeof(text)), strlen(expected));
    assert_string_equal(text, expected);
}

/* A request that may throw. */
struct request {
    struct OrtAllocator *allocator;
    bool reserve;
    size_t size;
    void *block;
};

static void call_alloc(void *ctx)
{
    struct request *request = ctx;
    request->block = request->reserve ? request->allocator->Reserve(request->allocator, request->size)
                                      : request->allocator->Alloc(request->allocator, request->size);
}

/* --- create --- */

TEST(test_bad_configs)
{
    weir_onnxruntime *binding = (weir_onnxruntime *)&base;
    weir_onnxruntime_config config = ready();
    refused(weir_onnxruntime_create(NULL, &binding), WEIR_ERR_INVALID, "weir_onnxruntime_create: config is NULL");
    refused(weir_onnxruntime_create(&config, NULL), WEIR_ERR_INVALID, "weir_onnxruntime_create: binding is NULL");
    config.heap = NULL;
    refused(weir_onnxruntime_create(&config, &binding), WEIR_ERR_INVALID,
            "weir_onnxruntime_create: config.heap is NULL");
    config = ready();
    config.runtime = NULL;
    refused(weir_onnxruntime_create(&config, &binding), WEIR_ERR_INVALID,
            "weir_onnxruntime_create: config.runtime is NULL");
    config = ready();
    config.flags = 1u << 7;
    refused(weir_onnxruntime_create(&config, &binding), WEIR_ERR_INVALID,
            "weir_onnxruntime_create: config.flags has unknown bits: 0x80");
    config = ready();
    config.struct_size = 4;
    refused(weir_onnxruntime_create(&config, &binding), WEIR_ERR_INVALID,
            "weir_onnxruntime_create: config has no struct_size");

    /* A caller with a larger struct: it is accepted if the unknown members are zero, else refused. */
    struct {
        weir_onnxruntime_config known;
        uint64_t more;
    } newer = {ready(), 1};
    newer.known.struct_size = sizeof(newer);
    refused(weir_onnxruntime_create(&newer.known, &binding), WEIR_ERR_UNSUPPORTED,
            "weir_onnxruntime_create: config sets members beyond the");
    assert_ptr_equal(binding, &base);
    newer.more = 0;
    assert_int_equal(weir_onnxruntime_create(&newer.known, &binding), WEIR_OK);
    assert_int_equal(weir_onnxruntime_destroy(binding), WEIR_OK);

    /* A caller with a smaller struct, without memory_info. */
    config = ready();
    config.struct_size = offsetof(weir_onnxruntime_config, memory_info);
    config.memory_info = (const struct OrtMemoryInfo *)&base;
    assert_int_equal(weir_onnxruntime_create(&config, &binding), WEIR_OK);
    struct OrtAllocator *allocator = weir_onnxruntime_allocator(binding);
    assert_ptr_not_equal(allocator->Info(allocator), &base);
    assert_int_equal(weir_onnxruntime_destroy(binding), WEIR_OK);
}

TEST(test_runtimes_that_are_refused)
{
    static const char *const strange[] = {"1.11.0", "0.28.0", "2.1.0", "", "1.", "1.x", "28", "1.99999999999", NULL};
    for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
        const weir_onnxruntime_config config = ready();
        weir_onnxruntime *binding = NULL;
        version_string = strange[i];
        refused(weir_onnxruntime_create(&config, &binding), WEIR_ERR_UNSUPPORTED,
                "weir_onnxruntime_create: runtime is of version \"");
        assert_null(binding);
    }
    const weir_onnxruntime_config config = ready();
    weir_onnxruntime *binding = NULL;
    version_string = "1.28.2";
    no_table = true;
    refused(weir_onnxruntime_create(&config, &binding), WEIR_ERR_UNSUPPORTED,
            "weir_onnxruntime_create: runtime is of version \"1.28.2\" and has no API of version");
    no_table = false;
    refuses = "CreateCpuMemoryInfo";
    assert_int_equal(weir_onnxruntime_create(&config, &binding), WEIR_ERR_DEVICE);
    refuses = NULL;
    callocs_left = 1;
    assert_int_equal(weir_onnxruntime_create(&config, &binding), WEIR_ERR_NO_MEMORY);
    callocs_left = -1;
    assert_null(binding);
}

/* A runtime sees only the struct members that its version has. The binding requests only a table that the runtime
 * has. */
TEST(test_versions)
{
    static const struct {
        const char *text;
        uint32_t version;
        bool reserve, stats, shrink;
    } cases[] = {
        {"1.12.1", 12, false, false, false},    {"1.17.3", 17, false, false, false}, {"1.18.0", 18, true, false, false},
        {"1.22.0-dev", 22, true, false, false}, {"1.23.0", 23, true, true, false},   {"1.25.0", 25, true, true, true},
        {"1.30.0", 25, true, true, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        version_string = cases[i].text;
        weir_onnxruntime *binding = make();
        const struct OrtAllocator *allocator = weir_onnxruntime_allocator(binding);
        assert_int_equal(version_asked, cases[i].version);
        assert_int_equal(allocator->version, cases[i].version);
        assert_non_null(allocator->Alloc);
        assert_non_null(allocator->Free);
        assert_non_null(allocator->Info);
        assert_int_equal(allocator->Reserve != NULL, cases[i].reserve);
        assert_int_equal(allocator->GetStats != NULL, cases[i].stats);
        assert_int_equal(allocator->Shrink != NULL, cases[i].shrink);
        assert_null(allocator->AllocOnStream);
        assert_int_equal(weir_onnxruntime_destroy(binding), WEIR_OK);
    }
    assert_null(weir_onnxruntime_allocator(NULL));
}

/* --- blocks --- */

TEST(test_blocks)
{
    weir_onnxruntime *binding = make();
    struct OrtAllocator *allocator = weir_onnxruntime_allocator(binding);
    void *blocks[3] = {allocator->Alloc(allocator, 4), allocator->Alloc(allocator, 100000),
                       allocator->Reserve(allocator, 5000)};
    for (size_t i = 0; i < 3; i++) {
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        refused(weir_onnxruntime_destroy(binding), WEIR_ERR_BUSY,
                "weir_onnxruntime_destroy: 3 blocks of binding are live");
    }
    memset(blocks[1], 1, 100000);
    assert_true(stats_of(heap).long_lived_bytes >= 5000);
    assert_true(stats_of(heap).long_lived_bytes < 100000);
    assert_null(allocator->Alloc(allocator, 0));
    assert_null(allocator->Reserve(allocator, 0));
    allocator->Free(allocator, NULL);
    int foreign;
    allocator->Free(allocator, &foreign); /* the heap recognises a foreign block */
    assert_int_equal(stats_of(heap).bad_frees, 1);
    for (size_t i = 0; i < 3; i++) {
        refused(weir_onnxruntime_destroy(binding), WEIR_ERR_BUSY,
                i < 2 ? "weir_onnxruntime_destroy: " : "weir_onnxruntime_destroy: 1 blocks of binding are live");
        allocator->Free(allocator, blocks[i]);
    }
    assert_int_equal(weir_onnxruntime_destroy(binding), WEIR_OK);
    assert_int_equal(weir_onnxruntime_destroy(NULL), WEIR_OK);
}

/* If memory runs out, Alloc and Reserve throw an exception with the heap's sentence and change nothing. */
static atomic_int trims;

int __wrap_malloc_trim(size_t pad);
int __wrap_malloc_trim(size_t pad)
{
    assert_int_equal(pad, 0);
    trims++;
    return 1;
}

/* The binding trims malloc when the weights have grown by an eighth and 1 MiB, and at the first tensor after the
 * weights. */
TEST(test_malloc_is_trimmed)
{
    static const struct {
        size_t weight; /* 0 = a tensor */
        int trims;     /* so far */
    } steps[] = {{0, 0},       {512 << 10, 0}, {512 << 10, 1}, {1 << 20, 1}, {127 << 10, 1}, {1 << 10, 2},
                 {4 << 20, 3}, {0, 4},         {0, 4},         {64, 4},      {0, 5},         {0, 5}};
    for (int trimming = 0; trimming < 2; trimming++) {
        weir_onnxruntime_config config = ready();
        weir_onnxruntime *binding = NULL;
        config.flags = trimming ? 0u : WEIR_ONNXRUNTIME_NO_MALLOC_TRIM;
        assert_int_equal(weir_onnxruntime_create(&config, &binding), WEIR_OK);
        struct OrtAllocator *allocator = weir_onnxruntime_allocator(binding);
        trims = 0;
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
            void *block =
                steps[i].weight == 0 ? allocator->Alloc(allocator, 64) : allocator->Reserve(allocator, steps[i].weight);
            assert_non_null(block);
            allocator->Free(allocator, block);
#ifdef __GLIBC__
            assert_int_equal(trims, trimming ? steps[i].trims : 0);
#endif
        }
        assert_int_equal(weir_onnxruntime_destroy(binding), WEIR_OK);
    }
}

TEST(test_throw)
{
    weir_onnxruntime *binding = make();
    struct request request = {.allocator = weir_onnxruntime_allocator(binding)};
    char text[512];
    for (int reserve = 0; reserve < 2; reserve++) {
        request.reserve = reserve != 0;
        request.size = 100 << 20; /* the heap may hold 64 MiB */
        assert_true(caught_bad_alloc(call_alloc, &request, text, sizeof(text)));
        assert_memory_equal(text, "weir: ", 6);
        assert_non_null(strstr(text, "tensors")); /* the heap's name */
        assert_null(request.block);
        request.size = 1 << 20;
        assert_false(caught_bad_alloc(call_alloc, &request, text, sizeof(text)));
        assert_non_null(request.block);
        request.allocator->Free(request.allocator, request.block);
        request.block = NULL;
    }
    request.size = SIZE_MAX;
    assert_true(caught_bad_alloc(call_alloc, &request, text, sizeof(text)));
    assert_int_equal(stats_of(heap).live_blocks, 0);
    assert_int_equal(weir_onnxruntime_destroy(binding), WEIR_OK);
}

/* A heap that fails without a sentence. */
TEST(test_throw_without_words)
{
    weir_onnxruntime *binding = make();
    struct request request = {.allocator = weir_onnxruntime_allocator(binding), .size = 64};
    char text[64];
    fail_heap_at(1, false);
    assert_true(caught_bad_alloc(call_alloc, &request, text, sizeof(text)));
    assert_string_equal(text, "weir: out of memory");
    assert_int_equal(weir_onnxruntime_destroy(binding), WEIR_OK);
}

struct spare {
    void *block;
    unsigned calls;
};

static bool give_spare(void *ctx, weir_heap *from, uint64_t size, uint32_t attempt)
{
    struct spare *spare = ctx;
    assert_int_equal(attempt, spare->calls++);
    assert_true(size > 0);
    if (spare->block == NULL) {
        return false;
    }
    assert_int_equal(weir_heap_free(from, spare->block), WEIR_OK);
    spare->block = NULL;
    return true;
}

/* The heap calls its reclaim callback before the binding throws, and tries again after the callback. */
TEST(test_reclaim_first)
{
    struct spare spare = {0};
    weir_heap *own = NULL;
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.limit_bytes = 64 << 20;
    config.reclaim = give_spare;
    config.reclaim_ctx = &spare;
    assert_int_equal(weir_heap_create(&config, &own), WEIR_OK);
    weir_onnxruntime_config binding_config = ready();
    weir_onnxruntime *binding = NULL;
    binding_config.heap = own;
    assert_int_equal(weir_onnxruntime_create(&binding_config, &binding), WEIR_OK);

    spare.block = weir_heap_alloc(own, 40 << 20);
    assert_non_null(spare.block);
    struct request request = {.allocator = weir_onnxruntime_allocator(binding), .size = 40 << 20};
    char text[64];
    assert_false(caught_bad_alloc(call_alloc, &request, text, sizeof(text)));
    assert_int_equal(spare.calls, 1);
    struct request another = request;
    spare.calls = 0;
    assert_true(caught_bad_alloc(call_alloc, &another, text, sizeof(text)));
    assert_int_equal(spare.calls, 1);
    request.allocator->Free(request.allocator, request.block);
    assert_int_equal(weir_onnxruntime_destroy(binding), WEIR_OK);
    assert_int_equal(weir_heap_destroy(own), WEIR_OK);
}

/* --- statistics, shrinking --- */

static const char *value_of(const OrtKeyValuePairs *pairs, const char *key)
{
    for (size_t i = 0; i < pairs->count; i++) {
        if (strcmp(pairs->keys[i], key) == 0) {
            return pairs->values[i];
        }
    }
    return "";
}

static void assert_number(const OrtKeyValuePairs *pairs, const char *key, uint64_t number)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    assert_string_equal(value_of(pairs, key), text);
}

static void release_pairs(OrtKeyValuePairs *pairs)
{
    all_pairs--;
    test_free(pairs);
}

TEST(test_stats)
{
    weir_onnxruntime *binding = make();
    struct OrtAllocator *allocator = weir_onnxruntime_allocator(binding);
    void *blocks[] = {allocator->Alloc(allocator, 1 << 20), allocator->Reserve(allocator, 1 << 16)};
    OrtKeyValuePairs *pairs = NULL;
    assert_null(allocator->GetStats(allocator, &pairs));
    const weir_heap_stats stats = stats_of(heap);
    assert_number(pairs, "Limit", 64 << 20);
    assert_number(pairs, "InUse", stats.live_bytes);
    assert_number(pairs, "TotalAllocated", stats.held_bytes);
    assert_number(pairs, "MaxInUse", stats.peak_live_bytes);
    assert_number(pairs, "NumAllocs", 2);
    assert_number(pairs, "NumReserves", 1);
    assert_number(pairs, "MaxAllocSize", 1 << 20);
    release_pairs(pairs);

    refuses = "CreateKeyValuePairs";
    pairs = NULL;
    OrtStatus *status = allocator->GetStats(allocator, &pairs);
    assert_non_null(status);
    assert_null(pairs);
    ReleaseStatus(status);
    refuses = NULL;

    for (size_t i = 0; i < 2; i++) {
        allocator->Free(allocator, blocks[i]);
    }
    assert_true(stats_of(heap).held_bytes > 0);
    assert_null(allocator->Shrink(allocator));
    assert_int_equal(stats_of(heap).held_bytes, 0);
    assert_int_equal(weir_onnxruntime_destroy(binding), WEIR_OK);
}

TEST(test_stats_without_limit)
{
    weir_heap *own = NULL;
    assert_int_equal(weir_heap_create(NULL, &own), WEIR_OK);
    weir_onnxruntime_config config = ready();
    weir_onnxruntime *binding = NULL;
    config.heap = own;
    assert_int_equal(weir_onnxruntime_create(&config, &binding), WEIR_OK);
    struct OrtAllocator *allocator = weir_onnxruntime_allocator(binding);
    OrtKeyValuePairs *pairs = NULL;
    assert_null(allocator->GetStats(allocator, &pairs));
    assert_string_equal(value_of(pairs, "Limit"), "-1");
    release_pairs(pairs);
    assert_int_equal(weir_onnxruntime_destroy(binding), WEIR_OK);
    assert_int_equal(weir_heap_destroy(own), WEIR_OK);
}

/* --- environments --- */

TEST(test_attach_and_detach)
{
    struct OrtEnv env = {NULL};
    struct OrtEnv other = {NULL};
    weir_onnxruntime *binding = make();
    assert_said(binding, "");
    refused(weir_onnxruntime_attach(NULL, &env), WEIR_ERR_INVALID, "weir_onnxruntime_attach: binding is NULL");
    refused(weir_onnxruntime_attach(binding, NULL), WEIR_ERR_INVALID, "weir_onnxruntime_attach: env is NULL");
    refused(weir_onnxruntime_detach(NULL, &env), WEIR_ERR_INVALID, "weir_onnxruntime_detach: binding is NULL");
    refused(weir_onnxruntime_detach(binding, &env), WEIR_ERR_INVALID,
            "weir_onnxruntime_detach: binding is not attached");
    refused(weir_onnxruntime_detach(binding, NULL), WEIR_ERR_INVALID,
            "weir_onnxruntime_detach: binding is not attached");

    refuses = "RegisterAllocator";
    assert_int_equal(weir_onnxruntime_attach(binding, &env), WEIR_ERR_DEVICE);
    assert_said(binding, "RegisterAllocator");
    refused(weir_onnxruntime_detach(binding, &env), WEIR_ERR_INVALID,
            "weir_onnxruntime_detach: binding is not attached");
    refuses = NULL;

    assert_int_equal(weir_onnxruntime_attach(binding, &env), WEIR_OK);
    assert_ptr_equal(env.registered, weir_onnxruntime_allocator(binding));
    refused(weir_onnxruntime_attach(binding, &env), WEIR_ERR_BUSY,
            "weir_onnxruntime_attach: binding is attached already");
    refused(weir_onnxruntime_attach(binding, &other), WEIR_ERR_BUSY,
            "weir_onnxruntime_attach: binding is attached already");
    refused(weir_onnxruntime_detach(binding, &other), WEIR_ERR_INVALID,
            "weir_onnxruntime_detach: env is not the one that binding is attached to");
    refused(weir_onnxruntime_destroy(binding), WEIR_ERR_BUSY,
            "weir_onnxruntime_destroy: binding is attached to an environment");

    refuses = "UnregisterAllocator";
    assert_int_equal(weir_onnxruntime_detach(binding, &env), WEIR_ERR_DEVICE);
    assert_said(binding, "UnregisterAllocator");
    refused(weir_onnxruntime_destroy(binding), WEIR_ERR_BUSY,
            "weir_onnxruntime_destroy: binding is attached to an environment");
    refuses = NULL;
    assert_int_equal(weir_onnxruntime_detach(binding, &env), WEIR_OK);
    assert_null(env.registered);

    /* The binding does not call an environment that has been destroyed. */
    assert_int_equal(weir_onnxruntime_attach(binding, &other), WEIR_OK);
    unregisters = 0;
    assert_int_equal(weir_onnxruntime_detach(binding, NULL), WEIR_OK);
    assert_int_equal(unregisters, 0);
    assert_int_equal(weir_onnxruntime_destroy(binding), WEIR_OK);

    char text[8] = "x";
    assert_int_equal(weir_onnxruntime_explain(NULL, text, sizeof(text)), 0);
    assert_string_equal(text, "");
}

/* The runtime would silently replace the first allocator. */
TEST(test_one_binding_for_a_memory)
{
    struct OrtEnv env = {NULL};
    struct OrtEnv other = {NULL};
    const struct OrtMemoryInfo device = {1};
    weir_onnxruntime_config config = ready();
    weir_onnxruntime *bindings[3] = {make(), make(), NULL};
    config.memory_info = &device;
    refuses = "CreateCpuMemoryInfo"; /* attach makes no call of this function */
    assert_int_equal(weir_onnxruntime_create(&config, &bindings[2]), WEIR_OK);
    refuses = NULL;
    struct OrtAllocator *allocator = weir_onnxruntime_allocator(bindings[2]);
    assert_ptr_equal(allocator->Info(allocator), &device);

    assert_int_equal(weir_onnxruntime_attach(bindings[0], &env), WEIR_OK);
    refused(weir_onnxruntime_attach(bindings[1], &env), WEIR_ERR_BUSY,
            "weir_onnxruntime_attach: env has another binding for the same memory");
    assert_ptr_equal(env.registered, weir_onnxruntime_allocator(bindings[0]));
    assert_int_equal(weir_onnxruntime_attach(bindings[2], &env), WEIR_OK);   /* other memory */
    assert_int_equal(weir_onnxruntime_attach(bindings[1], &other), WEIR_OK); /* another environment */
    env.registered =
        weir_onnxruntime_allocator(bindings[0]); /* the runtime keeps one allocator for each memory, the last one */
    assert_int_equal(weir_onnxruntime_detach(bindings[0], &env), WEIR_OK);
    assert_int_equal(weir_onnxruntime_detach(bindings[1], &other), WEIR_OK);
    assert_int_equal(weir_onnxruntime_attach(bindings[1], &env), WEIR_OK);
    assert_int_equal(weir_onnxruntime_detach(bindings[1], &env), WEIR_OK);
    env.registered = allocator;
    assert_int_equal(weir_onnxruntime_detach(bindings[2], &env), WEIR_OK);

    /* If a runtime cannot compare memories, the binding takes them as different. */
    refuses = "CompareMemoryInfo";
    assert_int_equal(weir_onnxruntime_attach(bindings[0], &env), WEIR_OK);
    assert_int_equal(weir_onnxruntime_attach(bindings[1], &env), WEIR_OK);
    assert_int_equal(weir_onnxruntime_detach(bindings[1], &env), WEIR_OK);
    assert_int_equal(weir_onnxruntime_detach(bindings[0], NULL), WEIR_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(weir_onnxruntime_destroy(bindings[i]), WEIR_OK);
    }
}

TEST(test_session_options)
{
    static const char *const keys[] = {"session.use_env_allocators", "session.use_device_allocator_for_initializers",
                                       "session.disable_prepacking"};
    static const struct {
        uint32_t flags;
        const char *entries;
    } cases[] = {
        {0, "session.use_env_allocators=1 session.use_device_allocator_for_initializers=1 "},
        {WEIR_ONNXRUNTIME_NO_PREPACKING, "session.use_env_allocators=1 session.use_device_allocator_for_initializers=1 "
                                         "session.disable_prepacking=1 "},
    };
    weir_onnxruntime *binding = make();
    struct OrtSessionOptions options = {""};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        options.entries[0] = '\0';
        assert_int_equal(weir_onnxruntime_session_options(binding, &options, cases[i].flags), WEIR_OK);
        assert_string_equal(options.entries, cases[i].entries);
    }
    refused(weir_onnxruntime_session_options(NULL, &options, 0), WEIR_ERR_INVALID,
            "weir_onnxruntime_session_options: binding is NULL");
    refused(weir_onnxruntime_session_options(binding, NULL, 0), WEIR_ERR_INVALID,
            "weir_onnxruntime_session_options: options is NULL");
    refused(weir_onnxruntime_session_options(binding, &options, 1u << 9), WEIR_ERR_INVALID,
            "weir_onnxruntime_session_options: flags has unknown bits: 0x200");
    for (size_t i = 0; i < 3; i++) {
        refuses = keys[i];
        assert_int_equal(weir_onnxruntime_session_options(binding, &options, WEIR_ONNXRUNTIME_NO_PREPACKING),
                         WEIR_ERR_DEVICE);
        assert_said(binding, keys[i]);
    }
    assert_int_equal(weir_onnxruntime_destroy(binding), WEIR_OK);
}

/* --- threads --- */

static void *allocate_and_free(void *ctx)
{
    struct OrtAllocator *allocator = ctx;
    void *kept[8] = {NULL};
    for (size_t i = 0; i < 4000; i++) {
        void **block = &kept[i % 8];
        allocator->Free(allocator, *block);
        *block = i % 16 == 0 ? allocator->Reserve(allocator, 64 + i) : allocator->Alloc(allocator, 64 + i * 8);
        memset(*block, 1, 64);
    }
    for (size_t i = 0; i < 8; i++) {
        allocator->Free(allocator, kept[i]);
    }
    return NULL;
}

TEST(test_threads)
{
    struct OrtEnv env = {NULL};
    weir_onnxruntime *binding = make();
    assert_int_equal(weir_onnxruntime_attach(binding, &env), WEIR_OK);
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_and_free, env.registered), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(weir_onnxruntime_detach(binding, &env), WEIR_OK);
    assert_int_equal(weir_onnxruntime_destroy(binding), WEIR_OK);
}

EACH_TEST(set_up, tear_down)
