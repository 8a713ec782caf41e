/* weir::trace when host memory runs out: each request for host memory fails in turn. A call then returns
 * WEIR_ERR_NO_MEMORY with a sentence, or a replay ends early with a result; nothing leaks, and the next call
 * succeeds. */
#include "rig/test.h"
#include "pool/fault/failing_host.h"

#include <stdio.h>
#include <string.h>
#include <weir/trace_file.h>

static const char text[] = "#wtr 1\n#note a note\n@0 layer\n#stack 0 inner\n#stack 0 outer\n"
                           "s 0 + 0x100000 4194304 0\np 9 4096 0 0x100000\n"
                           "a 1 0 1048576 0 0 addr=0x200000 @0\nu 2 0 1\nw 3 1 5000\nf 4 0 0 0\n"
                           "a 5 1 2097152 1 0 addr=0x200000\ne 6 0 1\nx 7 0 0\nf 8 1 1 0\n";
static const char two_devices[] = "#wtr 1\na 0 0 1048576 0 0 d=0\na 1 1 2097152 1 0 d=1\nf 2 0 0 0\nf 3 1 1 0\n";

enum operation {
    READ,
    OF_DEVICE,
    WRITE,
    CACHING,
    VIRTUAL,
    PYTORCH,
    RECORDED,
    TORCH,
    MAPPED,
    HAZARDS,
    LIMIT,
    OPERATIONS
};

static weir_trace *trace;
static weir_trace *several;

static bool take_text(void *ctx, const char *bytes, size_t length)
{
    (void)ctx;
    return bytes[length] == '\0';
}

static void take_sentence(void *ctx, const char *sentence)
{
    *(size_t *)ctx += strlen(sentence);
}

static weir_status replay(enum operation operation)
{
    static const char *const names[OPERATIONS] = {[CACHING] = "caching",
                                                  [VIRTUAL] = "caching+vm",
                                                  [PYTORCH] = "pytorch",
                                                  [RECORDED] = "recorded",
                                                  [TORCH] = "pytorch[max_split_size_mb:32]",
                                                  [MAPPED] = "torch_npu[expandable_segments:True]"};
    size_t length = 0;
    weir_pool_config pool = WEIR_POOL_CONFIG_INIT;
    weir_trace_replay_config config = WEIR_TRACE_REPLAY_CONFIG_INIT;
    weir_trace_figures figures = WEIR_TRACE_FIGURES_INIT;
    pool.limit_bytes = operation == LIMIT ? UINT64_C(2) << 20 : 0;
    config.strategy = names[operation];
    config.pool = &pool;
    config.flags = operation == HAZARDS ? WEIR_TRACE_REPLAY_IGNORE_USES : 0;
    config.report = take_sentence;
    config.report_ctx = &length;
    const weir_status status = weir_trace_replay(trace, &config, &figures);
    assert_true(status == WEIR_OK ? figures.ratio >= 1.0 : figures.ratio == 0.0);
    assert_true(status != WEIR_OK || !figures.out_of_memory || length > 0);
    return status;
}

static weir_status run(enum operation operation)
{
    weir_trace *made = NULL;
    weir_status status = WEIR_OK;
    counting = true;
    switch (operation) {
    case READ:
        status = weir_trace_read_memory("a/trace", text, sizeof(text) - 1, NULL, &made);
        break;
    case OF_DEVICE:
        status = weir_trace_of_device(several, 1, &made);
        break;
    case WRITE:
        status = weir_trace_write_to(trace, take_text, NULL);
        break;
    default:
        status = replay(operation);
    }
    counting = false;
    assert_true(status == WEIR_OK || made == NULL);
    weir_trace_free(made);
    return status;
}

TEST(test_every_request_for_host_memory_fails_in_turn)
{
    if (CANNOT_REPLACE_MALLOC) {
        skip();
    }
    assert_int_equal(weir_trace_read_memory("a/trace", text, sizeof(text) - 1, NULL, &trace), WEIR_OK);
    assert_int_equal(weir_trace_read_memory("two", two_devices, sizeof(two_devices) - 1, NULL, &several), WEIR_OK);
    for (enum operation operation = READ; operation < OPERATIONS; operation++) {
        uint64_t failures = 0;
        host_struck = true;
        for (uint64_t n = 1; host_struck; n++) {
            host_struck = false;
            requests = 0;
            fail_at = n;
            const weir_status status = run(operation);
            fail_at = 0;
            assert_true(status == WEIR_OK || status == WEIR_ERR_NO_MEMORY);
            assert_true(status == WEIR_OK || strstr(weir_last_error(), "memory") != NULL);
            assert_true(host_struck || status == WEIR_OK);
            failures += status != WEIR_OK;
        }
        assert_true(failures > 0);
        assert_int_equal(run(operation), WEIR_OK);
    }
    weir_trace_free(trace);
    weir_trace_free(several);
}
