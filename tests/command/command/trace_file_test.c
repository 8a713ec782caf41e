/* trace_file_test.c: weir::trace, through its header alone. The internal replay is linked too, which shows that the
 * library's own functions do not clash with functions of the same name, and that both give the same figures. */
#include "rig/test.h"
#include "pool/unit/refusal.h"
#include "replay/replay.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include <weir/caching.h>
#include <weir/trace_file.h>

#define ok(call) assert_int_equal((call), WEIR_OK)
#define BAD WEIR_ERR_INVALID

/* Blocks of two streams, a tag with a stack, a block from before the window, a reallocation. */
static const char small[] = "#wtr 1\n"
                            "#src a test\n"
                            "#dev 0 cap=1073741824 gran=65536 name=\"the device\"\n"
                            "#note something is missing\n"
                            "@7 layer\n"
                            "#stack 7 inner\n"
                            "#stack 7 outer\n"
                            "p 90 4096 0\n"
                            "a 10 91 1048576 1 0 @7\n"
                            "w 20 1 5000\n"
                            "r 30 91 92 2097152 0\n"
                            "f 40 92 1 0\n"
                            "f 50 90 - 0\n";

/* Memory on two devices. */
static const char two_devices[] = "#wtr 1\na 0 0 1048576 0 0 d=0\na 1 1 2097152 1 0 d=1\nf 2 0 0 0\nf 3 1 1 0\n";

/* A block that a second stream uses, and the next block in the same memory. */
static const char race[] =
    "#wtr 1\na 0 0 1048576 0 0\nu 1 0 1\nw 2 1 5000000\nf 3 0 0 0\na 4 1 1048576 0 0\nf 5 1 0 0\n";

/* The recorded allocator took one segment. */
static const char segments[] = "#wtr 1\ns 0 + 0x100000 2097152 0\na 1 0 1048576 0 0 addr=0x100000\nf 2 0 0 0\n";

static weir_trace *read_text(const char *text)
{
    weir_trace *trace = NULL;
    if (weir_trace_read_memory("test.wtr", text, strlen(text), NULL, &trace) != WEIR_OK) {
        fail_msg("%s", weir_last_error());
    }
    return trace;
}

static weir_trace_view view_of(const weir_trace *trace, uint64_t index)
{
    weir_trace_view view = WEIR_TRACE_VIEW_INIT;
    ok(weir_trace_get_event(trace, index, &view));
    return view;
}

/* --- facts and events --- */

TEST(test_the_facts_of_a_trace)
{
    weir_trace *trace = read_text(small);
    weir_trace_info info = WEIR_TRACE_INFO_INIT;
    weir_trace_device device = WEIR_TRACE_DEVICE_INIT;
    ok(weir_trace_get_info(trace, &info));
    assert_string_equal(info.path, "test.wtr");
    assert_string_equal(info.source, "a test");
    assert_int_equal(info.clock, WEIR_TRACE_CLOCK_NS);
    assert_int_equal(info.devices, 1);
    assert_int_equal(info.device, 0);
    assert_int_equal(info.streams, 2);
    assert_int_equal(info.threads, 1);
    assert_int_equal(info.private_pools, 0);
    assert_int_equal(info.tags, 1);
    assert_int_equal(info.events, 6);
    assert_int_equal(info.blocks, 3);
    assert_int_equal(info.notes, 1);
    assert_true(info.has_stacks && !info.has_addresses && !info.has_segments);
    ok(weir_trace_get_device(trace, 0, &device));
    assert_string_equal(device.name, "the device");
    assert_true(device.used && device.capacity_bytes == 1024 * MIB && device.granularity_bytes == 65536);
    assert_string_equal(weir_trace_note(trace, 0), "something is missing");
    assert_null(weir_trace_note(trace, 1));
    weir_trace_free(trace);
    weir_trace_free(NULL);
}

TEST(test_the_events_of_a_trace)
{
    static const struct {
        weir_trace_kind kind;
        uint64_t time, id, size;
        uint32_t block, old_block, device;
    } rows[] = {
        {WEIR_TRACE_PRIOR, 0, 90, 4096, 0, WEIR_TRACE_NONE, 0},
        {WEIR_TRACE_ALLOC, 10, 91, MIB, 1, WEIR_TRACE_NONE, 0},
        {WEIR_TRACE_WORK, 20, 0, 5000, WEIR_TRACE_NONE, WEIR_TRACE_NONE, 0},
        {WEIR_TRACE_REALLOC, 30, 92, 2 * MIB, 2, 1, WEIR_TRACE_NONE},
        {WEIR_TRACE_FREE, 40, 92, 0, 2, WEIR_TRACE_NONE, 0},
        {WEIR_TRACE_FREE, 50, 90, 0, 0, WEIR_TRACE_NONE, WEIR_TRACE_NONE},
    };
    weir_trace *trace = read_text(small);
    for (uint64_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const weir_trace_view view = view_of(trace, i);
        assert_int_equal(view.event->kind, rows[i].kind);
        assert_int_equal(view.event->time_ns, rows[i].time);
        assert_int_equal(view.event->id, rows[i].id);
        assert_int_equal(view.event->size, rows[i].size);
        assert_int_equal(view.number, i);
        assert_int_equal(view.block, rows[i].block);
        assert_int_equal(view.old_block, rows[i].old_block);
        assert_int_equal(view.device, rows[i].device);
        assert_true((view.tag != NULL) == (i == 1) && (view.stack != NULL) == (i == 1));
    }
    assert_string_equal(view_of(trace, 1).tag, "layer");
    assert_string_equal(view_of(trace, 1).stack, "inner\nouter");
    weir_trace_free(trace);
}

TEST(test_one_device_of_several)
{
    weir_trace *trace = read_text(two_devices);
    weir_trace *one = NULL;
    weir_trace_info info = WEIR_TRACE_INFO_INIT;
    weir_trace_figures figures = WEIR_TRACE_FIGURES_INIT;
    ok(weir_trace_get_info(trace, &info));
    assert_int_equal(info.device, WEIR_TRACE_NONE);
    assert_int_equal(info.devices, 2);
    assert_int_equal(view_of(trace, 1).device, 1);
    refused(weir_trace_replay(trace, NULL, &figures), BAD, "several devices");
    refused(weir_trace_of_device(trace, 2, &one), BAD, "2");
    ok(weir_trace_of_device(trace, 1, &one));
    weir_trace_free(trace);
    ok(weir_trace_get_info(one, &info));
    assert_true(info.device == 1 && info.events == 2);
    assert_int_equal(view_of(one, 0).number, 1);
    assert_int_equal(view_of(one, 0).block, 0);
    ok(weir_trace_replay(one, NULL, &figures));
    assert_int_equal(figures.peak_live_bytes, 2 * MIB);
    weir_trace_free(one);
}

/* --- reading and writing --- */

static bool keep_text(void *ctx, const char *text, size_t length)
{
    char **kept = ctx;
    *kept = kept != NULL ? strndup(text, length) : NULL;
    return *kept != NULL;
}

static bool refuse_text(void *ctx, const char *text, size_t length)
{
    (void)ctx, (void)text, (void)length;
    return false;
}

TEST(test_a_trace_is_written_and_read_again)
{
    weir_trace *trace = read_text(small);
    weir_trace *again = NULL;
    char *first = NULL;
    char *second = NULL;
    char path[] = "/tmp/trace_file_XXXXXX.xz";
    ok(weir_trace_write_to(trace, keep_text, &first));
    assert_non_null(strstr(first, "#stack 0 outer"));
    const int fd = mkstemps(path, 3);
    assert_true(fd >= 0 && close(fd) == 0);
    ok(weir_trace_write(trace, path));
    ok(weir_trace_read(path, NULL, &again));
    ok(weir_trace_write_to(again, keep_text, &second));
    assert_string_equal(first, second);
    refused(weir_trace_write_to(trace, refuse_text, NULL), WEIR_ERR_DEVICE, "sink");
    refused(weir_trace_write(trace, "/no/such/folder/x.wtr"), WEIR_ERR_DEVICE, "No such file");
    assert_int_equal(unlink(path), 0);
    free(first);
    free(second);
    weir_trace_free(trace);
    weir_trace_free(again);
}

TEST(test_unreadable_files_are_named)
{
    weir_trace *trace = NULL;
    weir_trace_limits limits = WEIR_TRACE_LIMITS_INIT;
    refused(weir_trace_read("/no/such/file", NULL, &trace), WEIR_ERR_DEVICE, "/no/such/file: cannot open");
    refused(weir_trace_read_memory("x", "#wtr 1\nf 0 0 0 0\n", 17, NULL, &trace), BAD, "x:2: field 3 (ID)");
    refused(weir_trace_read_memory("x", NULL, 0, NULL, &trace), BAD, "x: is empty");
    refused(weir_trace_read_memory("x", "\x28\xb5\x2f\xfd", 4, NULL, &trace), WEIR_ERR_UNSUPPORTED, "zstd");
    limits.max_events = 2;
    refused(weir_trace_read_memory("x", small, sizeof(small) - 1, &limits, &trace), WEIR_ERR_LIMIT, "x:");
    limits.max_bytes = 10;
    refused(weir_trace_read_memory("x", small, sizeof(small) - 1, &limits, &trace), WEIR_ERR_LIMIT, "x");
    assert_null(trace);
}

TEST(test_the_reason_outlives_a_long_path)
{
    weir_trace *trace = NULL;
    char path[700] = "";
    memset(path, 'd', sizeof(path) - 1);
    for (size_t i = 0; i + 2 < sizeof(path); i += 100) { /* characters of two bytes */
        path[i] = '\xc3';
        path[i + 1] = '\xa9';
    }
    refused(weir_trace_read_memory(path, "no trace", 8, NULL, &trace), BAD, "or CSV");
    assert_int_equal(weir_trace_read_memory(path, "#wtr 1\nx", 8, NULL, &trace), BAD);
    assert_memory_equal(weir_last_error(), "weir_trace_read_memory: ...", 27);
    assert_true(((unsigned char)weir_last_error()[27] & 0xc0) != 0x80);
}

TEST(test_refusals)
{
    weir_trace *trace = read_text(small);
    weir_trace *out = NULL;
    weir_trace_info info = WEIR_TRACE_INFO_INIT;
    weir_trace_device device = WEIR_TRACE_DEVICE_INIT;
    weir_trace_view view = WEIR_TRACE_VIEW_INIT;
    weir_trace_figures figures = WEIR_TRACE_FIGURES_INIT;
    refused(weir_trace_read(NULL, NULL, &out), BAD, "path is NULL");
    refused(weir_trace_read("x", NULL, NULL), BAD, "trace is NULL");
    refused(weir_trace_read("x", &(weir_trace_limits){.struct_size = 0}, &out), BAD, "limits has no struct_size");
    refused(weir_trace_read_memory(NULL, "x", 1, NULL, &out), BAD, "name is NULL");
    refused(weir_trace_read_memory("x", NULL, 1, NULL, &out), BAD, "bytes is NULL");
    refused(weir_trace_read_memory("x", "x", 1, NULL, NULL), BAD, "trace is NULL");
    refused(weir_trace_of_device(NULL, 0, &out), BAD, "trace is NULL");
    refused(weir_trace_of_device(trace, 0, NULL), BAD, "one is NULL");
    refused(weir_trace_get_info(NULL, &info), BAD, "trace is NULL");
    refused(weir_trace_get_info(trace, NULL), BAD, "info is NULL");
    refused(weir_trace_get_device(NULL, 0, &device), BAD, "trace is NULL");
    refused(weir_trace_get_device(trace, 1, &device), BAD, "device 1 of 1");
    refused(weir_trace_get_device(trace, 0, NULL), BAD, "info is NULL");
    refused(weir_trace_get_event(NULL, 0, &view), BAD, "trace is NULL");
    refused(weir_trace_get_event(trace, 6, &view), BAD, "index 6 of 6");
    refused(weir_trace_get_event(trace, 0, NULL), BAD, "view is NULL");
    refused(weir_trace_write(NULL, "x"), BAD, "trace is NULL");
    refused(weir_trace_write(trace, NULL), BAD, "path is NULL");
    refused(weir_trace_write_to(NULL, keep_text, NULL), BAD, "trace is NULL");
    refused(weir_trace_write_to(trace, NULL, NULL), BAD, "sink is NULL");
    refused(weir_trace_replay(NULL, NULL, &figures), BAD, "trace is NULL");
    refused(weir_trace_replay(trace, NULL, NULL), BAD, "figures is NULL");
    assert_null(out);
    assert_null(weir_trace_note(NULL, 0));
    weir_trace_free(trace);
}

TEST(test_refused_configs_of_a_replay)
{
    static weir_device *const some_device = (weir_device *)(void *)(uintptr_t)16; /* never used */
    const weir_pool_config with_device = {.struct_size = sizeof(weir_pool_config), .device = some_device};
    const weir_pool_config caching = {.struct_size = sizeof(weir_pool_config), .strategy = weir_caching_strategy()};
    const weir_pool_config no_strategy = {.struct_size = sizeof(weir_pool_config), .strategy_config = &caching};
    const weir_pool_config limits = {.struct_size = sizeof(weir_pool_config), .limit_bytes = 1, .soft_limit_bytes = 2};
    const struct {
        weir_trace_replay_config config;
        const char *words;
    } rows[] = {
        {{.struct_size = 0}, "config has no struct_size"},
        {{.struct_size = sizeof(weir_trace_replay_config), .flags = 16}, "flags 0x10"},
        {{.struct_size = sizeof(weir_trace_replay_config), .strategy = "best"}, "there is no \"best\""},
        {{.struct_size = sizeof(weir_trace_replay_config), .strategy = "pytorch[max_split_size_mb:1]"}, "too small"},
        {{.struct_size = sizeof(weir_trace_replay_config), .strategy = "best[]"}, "there is no \"best[]\""},
        {{.struct_size = sizeof(weir_trace_replay_config), .strategy = "recorded"}, "there is no \"recorded\""},
        {{.struct_size = sizeof(weir_trace_replay_config), .capacity_bytes = 1}, "capacity_bytes 1: "},
        {{.struct_size = sizeof(weir_trace_replay_config), .pool = &with_device}, "device is not NULL"},
        {{.struct_size = sizeof(weir_trace_replay_config), .pool = &no_strategy}, "strategy_config without"},
        {{.struct_size = sizeof(weir_trace_replay_config), .pool = &caching, .strategy = "direct"}, "names a strategy"},
        {{.struct_size = sizeof(weir_trace_replay_config), .pool = &limits},
         "weir_pool_create: config.soft_limit_bytes"},
    };
    weir_trace *trace = read_text(small);
    weir_trace *counts = read_text("#wtr 1\nv 0 100 50\n");
    weir_trace_figures figures = {.struct_size = sizeof(figures), .allocs = 99};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        refused(weir_trace_replay(trace, &rows[i].config, &figures), BAD, rows[i].words);
    }
    refused(weir_trace_replay(counts, NULL, &figures), BAD, "no blocks");
    assert_int_equal(figures.allocs, 99);
    weir_trace_free(trace);
    weir_trace_free(counts);
}

TEST(test_structs_of_other_versions)
{
    struct {
        weir_trace_figures figures;
        uint64_t unknown;
    } newer = {.figures = {.struct_size = sizeof(newer)}, .unknown = 7};
    struct {
        weir_trace_replay_config config;
        uint64_t unknown;
    } config = {.config = {.struct_size = sizeof(config)}, .unknown = 7};
    weir_trace_figures older = {.struct_size = offsetof(weir_trace_figures, ratio), .ratio = 5.0};
    weir_trace *trace = read_text(small);
    ok(weir_trace_replay(trace, NULL, &newer.figures));
    assert_int_equal(newer.unknown, 0);
    ok(weir_trace_replay(trace, NULL, &older));
    assert_int_equal(older.peak_live_bytes, newer.figures.peak_live_bytes);
    assert_true(older.ratio > 4.0);
    refused(weir_trace_replay(trace, &config.config, &older), WEIR_ERR_UNSUPPORTED, "config");
    weir_trace_free(trace);
}

/* --- replay --- */

static weir_trace_figures replay(const weir_trace *trace, const weir_trace_replay_config *config)
{
    weir_trace_figures figures = WEIR_TRACE_FIGURES_INIT;
    if (weir_trace_replay(trace, config, &figures) != WEIR_OK) {
        fail_msg("%s", weir_last_error());
    }
    return figures;
}

static void assert_same(const weir_trace_figures *a, const weir_trace_figures *b)
{
    assert_int_equal(a->peak_reserved_bytes, b->peak_reserved_bytes);
    assert_int_equal(a->peak_live_bytes, b->peak_live_bytes);
    assert_int_equal(a->peak_event, b->peak_event);
    assert_int_equal(a->device_calls, b->device_calls);
    assert_int_equal(a->device_ns, b->device_ns);
    assert_int_equal(a->events, b->events);
    assert_int_equal(a->hazards, b->hazards);
}

static weir_trace *read_bundled(const char *name)
{
    char path[512];
    weir_trace *trace = NULL;
    (void)snprintf(path, sizeof(path), "%s/%s.wtr.xz", WEIR_BUNDLED_TRACES_DIR, name);
    if (weir_trace_read(path, NULL, &trace) != WEIR_OK) {
        fail_msg("%s", weir_last_error());
    }
    return trace;
}

/* Compares the figures of weir_trace_replay with those of replay_run, which the command calls. */
static void compare_with_internal(const char *name, const struct replay_strategy *strategy,
                                  const weir_trace_figures *own)
{
    char path[512];
    char message[512] = "";
    struct trace *trace = NULL;
    struct trace_error error;
    struct replay_result result;
    (void)snprintf(path, sizeof(path), "%s/%s.wtr.xz", WEIR_BUNDLED_TRACES_DIR, name);
    assert_int_equal(trace_read(path, NULL, &trace, &error), WEIR_OK);
    assert_true(replay_run(trace, strategy, strategy->fixed_pad > 0 ? (uint64_t)strategy->fixed_pad : 0,
                           &(struct replay_options){.no_timing = true}, &result, message, sizeof(message)));
    assert_int_equal(own->peak_live_bytes, result.peak_live_bytes);
    assert_int_equal(own->peak_reserved_bytes, result.peak_reserved_bytes);
    assert_true(own->ratio == replay_ratio(&result));
    assert_int_equal(own->peak_event, result.worst_event);
    assert_int_equal(own->free_bytes, result.free_bytes);
    assert_int_equal(own->largest_free_bytes, result.largest_free_bytes);
    assert_int_equal(own->allocs, result.allocs);
    assert_int_equal(own->frees, result.frees);
    assert_int_equal(own->events, result.events_played);
    assert_int_equal(own->device_calls, result.device_calls);
    assert_int_equal(own->warm_device_calls, result.warm_calls);
    assert_int_equal(own->warm_allocs, result.warm_allocs);
    assert_int_equal(own->device_ns, result.device_time_ns);
    assert_int_equal(own->waits, result.waits);
    assert_int_equal(own->hazards, 0);
    replay_result_free(&result);
    trace_free(trace);
}

TEST(test_figures_are_those_of_the_command)
{
    static const char name[] = "ort_unet_dyn_res";
    weir_trace *trace = read_bundled(name);
    weir_trace_replay_config config = WEIR_TRACE_REPLAY_CONFIG_INIT;
    size_t count = 0;
    for (; (config.strategy = weir_trace_strategy(count)) != NULL; count++) {
        const weir_trace_figures figures = replay(trace, &config);
        assert_string_equal(replay_strategies()[count].name, config.strategy);
        compare_with_internal(name, &replay_strategies()[count], &figures);
        assert_true(figures.allocs == 478 && figures.checks == 0 && figures.p50_ns == 0.0);
    }
    assert_true(count >= 8 && replay_strategies()[count].name == NULL);
    weir_trace_free(trace);
}

TEST(test_a_strategy_of_the_callers_own)
{
    weir_trace *trace = read_bundled("ort_unet_dyn_res");
    weir_strategy_ops mine = *weir_caching_strategy();
    weir_pool_config pool = WEIR_POOL_CONFIG_INIT;
    weir_trace_replay_config config = WEIR_TRACE_REPLAY_CONFIG_INIT;
    mine.name = "mine";
    pool.strategy = &mine;
    pool.flags = WEIR_POOL_REGIONS;
    config.pool = &pool;
    weir_trace_figures own = replay(trace, &config);
    weir_trace_figures known = replay(trace, NULL);
    assert_same(&own, &known);

    pool.flags = 0;
    own = replay(trace, &config);
    known = replay(trace, &(weir_trace_replay_config){.struct_size = sizeof(config), .strategy = "caching+vm"});
    assert_same(&own, &known);

    weir_caching_config settings = WEIR_CACHING_CONFIG_INIT;
    settings.small_region_bytes = 32 * MIB;
    pool.flags = WEIR_POOL_REGIONS;
    known = replay(trace, NULL);
    pool.strategy_config = &settings;
    own = replay(trace, &config);
    assert_true(own.peak_reserved_bytes != known.peak_reserved_bytes && own.device_calls != known.device_calls);
    weir_trace_free(trace);
}

static weir_status refuse_init(void *state, const void *config)
{
    (void)state, (void)config;
    return weir_refuse(WEIR_ERR_INVALID, "mine_init: no such option");
}

#if WEIR_CHECKS == 0
static weir_status find_flaw(const void *state, const char **why)
{
    (void)state;
    *why = "two ranges overlap";
    return WEIR_ERR_INTERNAL;
}
#endif

TEST(test_a_strategy_that_refuses_or_is_wrong)
{
    weir_trace *trace = read_text(small);
    weir_strategy_ops mine = *weir_caching_strategy();
    weir_pool_config pool = WEIR_POOL_CONFIG_INIT;
    weir_trace_replay_config config = WEIR_TRACE_REPLAY_CONFIG_INIT;
    weir_trace_figures figures = WEIR_TRACE_FIGURES_INIT;
    mine.name = "mine";
    pool.strategy = &mine;
    config.pool = &pool;
#if WEIR_CHECKS == 0 /* with WEIR_CHECKS the pool itself checks the strategy, and ends the program at a flaw */
    mine.check = find_flaw;
    ok(weir_trace_replay(trace, &config, &figures)); /* without a check */
    config.flags = WEIR_TRACE_REPLAY_CHECK;
    refused(weir_trace_replay(trace, &config, &figures), WEIR_ERR_INTERNAL, "two ranges overlap");
#endif
    mine.init = refuse_init;
    refused(weir_trace_replay(trace, &config, &figures), BAD, "mine_init: no such option");
    mine = *weir_caching_strategy();
    mine.granule_bytes = 4 * MIB; /* more than the device aligns memory to */
    refused(weir_trace_replay(trace, &config, &figures), WEIR_ERR_UNSUPPORTED, "weir_pool_create: ");
    weir_trace_free(trace);
}

struct sentences {
    size_t count;
    char text[4096]; /* of the last one */
};

static void keep_sentence(void *ctx, const char *text)
{
    struct sentences *sentences = ctx;
    sentences->count++;
    (void)snprintf(sentences->text, sizeof(sentences->text), "%s", text);
}

TEST(test_a_limit_that_is_too_low)
{
    struct sentences said = {.count = 0};
    weir_trace *trace = read_bundled("ort_unet_dyn_res");
    weir_pool_config pool = WEIR_POOL_CONFIG_INIT;
    weir_trace_replay_config config = WEIR_TRACE_REPLAY_CONFIG_INIT;
    /* the pool config names no strategy: the replay uses the default strategy, and obeys pool.limit_bytes */
    config.pool = &pool;
    config.report = keep_sentence;
    config.report_ctx = &said;
    pool.limit_bytes = 64 * MIB;
    const weir_trace_figures figures = replay(trace, &config);
    assert_true(figures.out_of_memory && figures.oom_event > 0 && figures.oom_bytes > MIB);
    assert_true(figures.peak_reserved_bytes <= 64 * MIB && figures.events <= figures.oom_event + 1);
    assert_int_equal(said.count, 1);
    assert_non_null(strstr(said.text, "limit 64.00 MiB"));
    assert_non_null(strstr(said.text, "held by"));
    assert_true(said.text[strlen(said.text) - 1] != '\n');
    config.report = NULL;
    pool.limit_bytes = 128 * MIB;
    assert_false(replay(trace, &config).out_of_memory);
    weir_trace_free(trace);
}

TEST(test_a_request_beyond_any_device)
{
    struct sentences said = {.count = 0};
    weir_trace *trace = read_text("#wtr 1\na 0 0 9223372036854775808 0 0\n");
    weir_trace_replay_config config = WEIR_TRACE_REPLAY_CONFIG_INIT;
    config.report = keep_sentence;
    config.report_ctx = &said;
    assert_true(replay(trace, &config).out_of_memory);
    assert_non_null(strstr(said.text, "more than any device has"));
    weir_trace_free(trace);
}

TEST(test_hazards_are_counted_and_reported)
{
    struct sentences said = {.count = 0};
    weir_trace *trace = read_text(race);
    weir_trace_replay_config config = WEIR_TRACE_REPLAY_CONFIG_INIT;
    config.report = keep_sentence;
    config.report_ctx = &said;
    assert_int_equal(replay(trace, &config).hazards, 0);
    assert_int_equal(said.count, 0);
    config.flags = WEIR_TRACE_REPLAY_IGNORE_USES;
    const weir_trace_figures figures = replay(trace, &config);
    assert_true(figures.hazards > 0 && figures.hazards_in_flight > 0 && said.count == figures.hazards);
    assert_non_null(strstr(said.text, "stream"));
    config.flags |= WEIR_TRACE_REPLAY_NO_AUDIT;
    assert_int_equal(replay(trace, &config).hazards, 0);
    weir_trace_free(trace);
}

TEST(test_the_recorded_allocator)
{
    weir_trace *trace = read_text(segments);
    weir_trace_info info = WEIR_TRACE_INFO_INIT;
    ok(weir_trace_get_info(trace, &info));
    assert_true(info.has_segments && info.has_addresses);
    const weir_trace_replay_config config = {.struct_size = sizeof(config), .strategy = "recorded"};
    const weir_trace_figures figures = replay(trace, &config);
    assert_int_equal(figures.peak_reserved_bytes, 2 * MIB);
    assert_int_equal(figures.peak_live_bytes, MIB);
    assert_true(figures.ratio == 2.0);
    assert_int_equal(figures.device_calls, 1);
    weir_trace_free(trace);
}

TEST(test_settings_of_a_replay)
{
    weir_trace *trace = read_text(small);
    weir_trace_replay_config config = WEIR_TRACE_REPLAY_CONFIG_INIT;
    config.capacity_bytes = 2 * MIB;
    assert_true(replay(trace, &config).out_of_memory);
    config.capacity_bytes = 0;
    config.repeat = 3;
    config.flags = WEIR_TRACE_REPLAY_CHECK | WEIR_TRACE_REPLAY_TIMES;
    const weir_trace_figures figures = replay(trace, &config);
    assert_int_equal(figures.allocs, 6);
    assert_int_equal(figures.prior_blocks, 1);
    /* in each round one check after the blocks from before the window and one after each event */
    assert_int_equal(figures.checks, 3 * 7);
    assert_true(figures.p50_ns > 0.0 && figures.p999_ns >= figures.p50_ns);
    weir_trace_free(trace);
}

/* --- threads --- */

struct thread_run {
    const weir_trace *trace;
    weir_trace_figures figures;
    bool refused; /* weir_last_error has this thread's sentence, although other threads were refused too */
};

static void *replay_in_thread(void *ctx)
{
    struct thread_run *run = ctx;
    weir_trace_view view = WEIR_TRACE_VIEW_INIT;
    for (uint64_t i = 0; weir_trace_get_event(run->trace, i, &view) == WEIR_OK; i++) {
    }
    run->figures = (weir_trace_figures)WEIR_TRACE_FIGURES_INIT;
    const weir_status status = weir_trace_replay(run->trace, NULL, &run->figures);
    run->refused = status == WEIR_OK && strncmp(weir_last_error(), "weir_trace_get_event: ", 22) == 0;
    return NULL;
}

TEST(test_threads_share_a_trace)
{
    enum { threads = 4 };
    pthread_t ids[threads];
    struct thread_run runs[threads];
    weir_trace *trace = read_bundled("llama_ctx_dyn");
    const weir_trace_figures expected = replay(trace, NULL);
    for (size_t i = 0; i < threads; i++) {
        runs[i] = (struct thread_run){.trace = trace};
        assert_int_equal(pthread_create(&ids[i], NULL, replay_in_thread, &runs[i]), 0);
    }
    for (size_t i = 0; i < threads; i++) {
        assert_int_equal(pthread_join(ids[i], NULL), 0);
        assert_true(runs[i].refused);
        assert_same(&runs[i].figures, &expected);
    }
    weir_trace_free(trace);
}
