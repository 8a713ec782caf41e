/* libweir_onnxruntime_plugin.so in a process that does not know weir, with ONNX Runtime itself: as a custom-operator
 * library of sessions, and by the entry point that Node calls.    onnxruntime_plugin_test PLUGIN LIBRARY */
#include "rig/test.h"

#include <engines/onnx_api.h>
#include <engines/onnx_graph.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SKIPPED = 77, SIDE = 64, LARGE_SIDE = 288, LARGE_BATCH = 8 };

static const char *plugin, *library;
static struct onnx_model model;
static const struct OrtApiBase *base;
static struct onnx_api ort;
static OrtEnv *env;

/* Stands for the function of Node with which the plugin throws an error. */
static char thrown[512];
__attribute__((visibility("default"))) int napi_throw_error(void *in, const char *code, const char *text);
int napi_throw_error(void *in, const char *code, const char *text)
{
    assert_ptr_equal(in, &env);
    assert_null(code);
    (void)snprintf(thrown, sizeof(thrown), "%s", text);
    return 0;
}

static void find_in_plugin(const char *name, void *function)
{
    void *opened = dlopen(plugin, RTLD_NOW);
    assert_non_null(opened);
    void *symbol = dlsym(opened, name);
    assert_non_null(symbol);
    memcpy(function, &symbol, sizeof(symbol));
    assert_int_equal(dlclose(opened), 0); /* it stays loaded */
}

/* Loads the plugin as Node does; returns the text that it throws, or "". */
static const char *load_as_node(void)
{
    void *(*initialize)(void *in, void *exports) = NULL;
    int exports = 0;
    find_in_plugin("napi_register_module_v1", &initialize);
    thrown[0] = '\0';
    assert_ptr_equal(initialize(&env, &exports), &exports);
    return thrown;
}

static OrtSessionOptions *new_options(void)
{
    OrtSessionOptions *options = NULL;
    assert_null(ort.CreateSessionOptions(&options));
    assert_null(ort.SetIntraOpNumThreads(options, 1));
    return options;
}

static void assert_refused(OrtStatus *status, const char *words)
{
    assert_non_null(status);
    const char *text = ort.GetErrorMessage(status);
    if (strncmp(text, "weir: ", 6) != 0 || strstr(text, words) == NULL) {
        fail_msg("\"%s\" has not \"%s\"", text, words);
    }
    ort.ReleaseStatus(status);
}

static void assert_out_of_memory(OrtStatus *status)
{
    assert_non_null(status);
    assert_non_null(strstr(ort.GetErrorMessage(status), "weir: onnxruntime: no memory"));
    ort.ReleaseStatus(status);
}

/* Calls the entry point as a runtime would. */
static OrtStatus *register_with(const struct OrtApiBase *runtime)
{
    OrtStatus *(*entry)(OrtSessionOptions *, const struct OrtApiBase *) = NULL;
    OrtSessionOptions *options = new_options();
    find_in_plugin("RegisterCustomOps", &entry);
    OrtStatus *status = entry(options, runtime);
    ort.ReleaseSessionOptions(options);
    return status;
}

static OrtSession *new_session(bool with_plugin)
{
    OrtSessionOptions *options = new_options();
    OrtSession *session = NULL;
    void *opened = NULL;
    if (with_plugin) {
        OrtStatus *status = ort.RegisterCustomOpsLibrary(options, plugin, &opened);
        if (status != NULL) {
            fail_msg("%s", ort.GetErrorMessage(status));
        }
    }
    assert_null(ort.CreateSessionFromArray(env, model.bytes, model.size, options, &session));
    ort.ReleaseSessionOptions(options);
    if (opened != NULL) {
        assert_int_equal(dlclose(opened), 0); /* a runtime may close it at any time */
    }
    return session;
}

/* Runs an inference. Returns the bits of the first score in *score. */
static OrtStatus *run(OrtSession *session, int64_t batch, int64_t side, uint32_t *score)
{
    static const char *const inputs[] = {"image"};
    static const char *const outputs[] = {"scores"};
    const int64_t dims[] = {batch, 3, side, side};
    const size_t count = (size_t)(batch * 3 * side * side);
    OrtMemoryInfo *memory = NULL;
    OrtValue *input = NULL;
    OrtValue *output = NULL;
    float *pixels = malloc(count * sizeof(float));
    assert_non_null(pixels);
    for (size_t i = 0; i < count; i++) {
        pixels[i] = (float)(i % 97) / 97.0f;
    }
    assert_null(ort.CreateCpuMemoryInfo(0, 0, &memory));
    assert_null(ort.CreateTensorWithDataAsOrtValue(memory, pixels, count * sizeof(float), dims, 4, ORT_FLOAT, &input));
    OrtStatus *status = ort.Run(session, NULL, inputs, (const OrtValue *const *)&input, 1, outputs, 1, &output);
    if (status == NULL) {
        void *data = NULL;
        assert_null(ort.GetTensorMutableData(output, &data));
        memcpy(score, data, sizeof(*score));
        ort.ReleaseValue(output);
    }
    ort.ReleaseValue(input);
    ort.ReleaseMemoryInfo(memory);
    free(pixels);
    return status;
}

/* Returns a number of the statistics of the session's allocator. */
static unsigned long long stat_of(OrtSession *session, const char *key)
{
    OrtMemoryInfo *memory = NULL;
    OrtAllocator *allocator = NULL;
    OrtKeyValuePairs *pairs = NULL;
    assert_null(ort.CreateCpuMemoryInfo(0, 0, &memory));
    assert_null(ort.CreateAllocator(session, memory, &allocator));
    assert_null(ort.AllocatorGetStats(allocator, &pairs));
    const char *value = ort.GetKeyValue(pairs, key);
    const unsigned long long number = value == NULL ? 0 : strtoull(value, NULL, 10);
    ort.ReleaseKeyValuePairs(pairs);
    ort.ReleaseAllocator(allocator);
    ort.ReleaseMemoryInfo(memory);
    return number;
}

static const char *version_1_11(void)
{
    return "1.11.0";
}

TEST(test_plugin)
{
    /* Node's entry point is called before a runtime is loaded. */
    assert_string_equal(load_as_node(), "weir: onnxruntime-node is not loaded; require it first");
    assert_true(onnx_api_load(library, &base, &ort));
    assert_null(ort.CreateEnv(ORT_FATAL, "test", &env));
    uint32_t right = 0;
    uint32_t score = 1;
    OrtSession *own = new_session(false);
    assert_null(run(own, 1, SIDE, &right));
    /* passed to the plugin in place of the runtime's own struct, like a second copy of the runtime */
    const struct OrtApiBase another = *base;
    const struct OrtApiBase old = {base->GetApi, version_1_11};

    /* A refused registration does not prevent a later one. */
    static const char *const bad[] = {"limit", "limit:", "limit:-1", "limit:5MB", "limit:99999999TiB", "report:2", "x"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(setenv("WEIR_ONNXRUNTIME", bad[i], 1), 0);
        assert_refused(register_with(base), bad[i]);
        assert_non_null(strstr(load_as_node(), "is no setting"));
    }
    assert_int_equal(setenv("WEIR_ONNXRUNTIME", "report:1,limit:48MiB", 1), 0);
    assert_refused(register_with(&old), "version \"1.11.0\"");

    /* Sessions, one after another and two at once. */
    for (int i = 0; i < 3; i++) {
        OrtSession *first = new_session(true);
        OrtSession *second = new_session(true);
        const unsigned long long before = stat_of(first, "NumAllocs");
        assert_int_equal(stat_of(first, "Limit"), 48 << 20);
        assert_true(stat_of(first, "InUse") > 1 << 20); /* weights */
        assert_null(run(first, 1, SIDE, &score));
        assert_int_equal(score, right);
        assert_true(stat_of(first, "NumAllocs") > before);
        /* Out of memory is a status; the next inference is served. */
        assert_out_of_memory(run(second, LARGE_BATCH, LARGE_SIDE, &score));
        assert_null(run(second, 1, SIDE, &score));
        assert_int_equal(score, right);
        ort.ReleaseSession(first);
        ort.ReleaseSession(second);
    }

    /* The session without the plugin still has its own allocator. */
    assert_null(run(own, LARGE_BATCH, LARGE_SIDE, &score));
    assert_refused(register_with(&another), "another copy of ONNX Runtime");
    assert_string_equal(load_as_node(), "");
    ort.ReleaseSession(own);
    ort.ReleaseEnv(env);
}

int main(int argc, char **argv)
{
    plugin = argc > 1 ? argv[1] : "";
    library = argc > 2 ? argv[2] : "";
    if (access(library, R_OK) != 0) {
        (void)printf("skipped: no ONNX Runtime at %s: run script/engines\n", library);
        return SKIPPED;
    }
    if (!onnx_mobilenet(2, &model)) {
        return EXIT_FAILURE;
    }
    const int failed = run_all_tests("onnxruntime_plugin");
    free(model.bytes);
    return failed;
}
