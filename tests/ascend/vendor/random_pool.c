/* random_pool.c: random programs over a pool of weir::acl with a tight limit, on three streams, that begin and end
 * captures by their own calls. They print each answer of the pool and of the runtime, and whether blocks keep their
 * bytes (tests/ascendcl/vendor/random.h).
 *
 *   vendor_random_pool COUNT [FIRST_SEED]
 *
 * A program waits for a stream after each call that queues work on it, unless the stream is captured. So the pool finds
 * the same work complete on a device of any speed. Addresses and reserved bytes are not printed.
 */
#include "random.h"

#include <weir/acl.h>
#include <weir/caching.h>
#include <weir/weir.h>

#include <stdbool.h>
#include <string.h>

enum { STREAMS = 3, BLOCKS = 16, GRAPHS = 3, STEPS = 100, MARK = 64 };

struct graph {
    aclmdlRI handle;
    size_t origin;
    bool launches; /* all its blocks are still live or were freed in its capture */
};

struct held {
    weir_block *block;
    size_t stream;
    int graph; /* index of the graph in whose capture it was allocated; -1: none */
    char mark;
};

static weir_device *device;
static weir_pool *pool;
static aclrtStream native[STREAMS];
static weir_stream *stream[STREAMS];
static weir_acl_attachment *attachments[STREAMS];
static aclrtEvent event;
static char *source[256]; /* pinned: bytes of each value */
static char *seen;        /* pinned */
static bool captured[STREAMS], capturing;
static size_t origin;
static struct held held[BLOCKS];
static size_t held_count;
static struct graph graphs[GRAPHS]; /* the last one is that of the capture under way */
static size_t graph_count;

static void follow(size_t i)
{
    if (!captured[i]) {
        const weir_status status = weir_acl_sync_stream(pool, native[i]);
        if (status != WEIR_OK) {
            say("follow: %s", weir_status_text(status));
        }
    }
}

static void *address_of(const struct held *of)
{
    return (void *)(uintptr_t)weir_block_address(of->block); /* NOLINT(performance-no-int-to-ptr) */
}

/* Writes a block's mark; in a capture each launch of the graph will. */
static void write_mark(const struct held *of)
{
    say("copy: %d", aclrtMemcpyAsync(address_of(of), MARK, source[(unsigned char)of->mark], MARK,
                                     ACL_MEMCPY_HOST_TO_DEVICE, native[of->stream]));
    follow(of->stream);
}

/* Compares the bytes of a block with its mark, on a stream that is not captured. */
static void check_mark(const struct held *of, size_t on)
{
    memset(seen, 0, MARK);
    const aclError error = aclrtMemcpyAsync(seen, MARK, address_of(of), MARK, ACL_MEMCPY_DEVICE_TO_HOST, native[on]);
    follow(on);
    say("bytes: %d %s", error, memcmp(seen, source[(unsigned char)of->mark], MARK) == 0 ? "its own" : "others");
}

static void block_comes(void)
{
    const size_t i = any(STREAMS);
    const uint64_t size = any(3) == 0 ? MARK + any(4096) : MARK + any(3 << 20);
    struct held *made = &held[held_count];
    if (held_count == BLOCKS) {
        return;
    }
    const weir_status status = weir_pool_alloc(pool, stream[i], size, 0, &made->block);
    say("block of %llu bytes on stream %zu: %s", (unsigned long long)size, i, weir_status_text(status));
    if (status == WEIR_OK) {
        made->stream = i;
        made->graph = captured[i] ? (int)graph_count : -1;
        made->mark = (char)any(256);
        held_count++;
        write_mark(made);
    }
}

/* Frees a block; one of a graph outside of its capture on the stream of the launches, which may still touch it. */
static void give(size_t i)
{
    const struct held gone = held[i];
    const bool inside = gone.graph >= 0 && capturing && (size_t)gone.graph == graph_count;
    const size_t on = gone.graph >= 0 && !inside ? graphs[gone.graph].origin : gone.stream;
    if (gone.graph >= 0 && !inside) {
        if (captured[on]) {
            return;
        }
        graphs[gone.graph].launches = false;
    }
    if (gone.graph < 0 && !captured[on]) {
        check_mark(&gone, on);
    }
    say("free on stream %zu: %s", on, weir_status_text(weir_pool_free(pool, gone.block, stream[on])));
    held[i] = held[--held_count];
}

static void block_goes(void)
{
    if (held_count > 0) {
        give(any((unsigned)held_count));
    }
}

static void order(size_t first, size_t second)
{
    const weir_status recorded = weir_acl_record_event(pool, event, native[first]);
    const weir_status waited = weir_acl_wait_event(pool, native[second], event);
    say("order stream %zu before %zu: %s, %s", first, second, weir_status_text(recorded), weir_status_text(waited));
}

static void fork_or_join(void)
{
    const size_t first = any(STREAMS), second = any(STREAMS);
    if (first != second && (captured[first] || !captured[second])) {
        order(first, second);
        captured[second] = captured[first] || captured[second];
        follow(second);
    }
}

static void capture_begins(void)
{
    const size_t i = any(STREAMS);
    const unsigned mode = any(3);
    if (capturing || graph_count == GRAPHS) {
        return;
    }
    const aclError error = aclmdlRICaptureBegin(native[i], (aclmdlRICaptureMode)mode);
    say("begin a capture on stream %zu, mode %u: %d", i, mode, error);
    capturing = captured[i] = error == ACL_SUCCESS;
    origin = i;
    graphs[graph_count] = (struct graph){.origin = i, .launches = true};
}

static void capture_ends(void)
{
    if (!capturing) {
        return;
    }
    for (size_t i = 0; i < STREAMS; i++) {
        if (captured[i] && i != origin) {
            order(i, origin);
        }
    }
    struct graph *graph = &graphs[graph_count];
    const aclError error = aclmdlRICaptureEnd(native[origin], &graph->handle);
    for (size_t i = 0; i < STREAMS; i++) {
        aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
        const aclError asked = aclmdlRICaptureGetInfo(native[i], &status, NULL);
        say("stream %zu after the capture: %d %d", i, asked, (int)status);
    }
    say("end the capture: %d", error);
    memset(captured, 0, sizeof(captured));
    capturing = false;
    graph_count++;
    graph->launches = graph->launches && error == ACL_SUCCESS;
}

static void graph_is_launched(void)
{
    const struct graph *graph = graph_count > 0 ? &graphs[any((unsigned)graph_count)] : NULL;
    if (graph == NULL || !graph->launches || captured[graph->origin]) {
        return;
    }
    say("launch a graph: %d", aclmdlRIExecuteAsync(graph->handle, native[graph->origin]));
    follow(graph->origin);
}

/* Destroys the newest graph, and frees what its capture left live, before or after. */
static void graph_goes(void)
{
    if (graph_count == 0 || capturing) {
        return;
    }
    const int last = (int)graph_count - 1;
    const bool before = any(2) == 0;
    if (!before) {
        say("destroy a graph: %d", aclmdlRIDestroy(graphs[last].handle));
    }
    for (size_t i = held_count; i-- > 0;) {
        if (held[i].graph == last) {
            give(i);
        }
    }
    if (before) {
        say("destroy a graph: %d", aclmdlRIDestroy(graphs[last].handle));
    }
    graph_count--;
}

static void pool_is_trimmed(void)
{
    const uint32_t flags = any(2) != 0 ? WEIR_TRIM_WAIT : 0;
    say("trim, flags %u: %s", flags, weir_status_text(weir_pool_trim(pool, 0, flags, NULL)));
}

static void workspace_is_asked_for(void)
{
    const size_t i = any(STREAMS);
    void *workspace = NULL;
    const uint64_t size = 1 + any(1 << 20);
    say("workspace on stream %zu: %s", i, weir_status_text(weir_acl_workspace(pool, native[i], size, &workspace)));
}

/* A detach ends the pool's handle of the stream. */
static void detach_from(size_t i)
{
    const weir_status status = weir_acl_detach(attachments[i]);
    say("detach from stream %zu: %s", i, weir_status_text(status));
    if (status == WEIR_OK) {
        attachments[i] = NULL;
        say("stream %zu again: %s", i, weir_status_text(weir_acl_stream(pool, native[i], &stream[i])));
    }
}

static void stream_is_attached_or_detached(void)
{
    const size_t i = any(STREAMS);
    if (attachments[i] == NULL) {
        const weir_status status = weir_acl_attach(pool, native[i], &attachments[i]);
        say("attach to stream %zu: %s", i, weir_status_text(status));
    } else {
        detach_from(i);
    }
}

static void stream_is_waited_for(void)
{
    const size_t i = any(STREAMS);
    say("wait for stream %zu: %s", i, weir_status_text(weir_acl_sync_stream(pool, native[i])));
}

static void (*const steps[])(void) = {
    block_comes,
    block_comes,
    block_comes,
    block_comes,
    block_comes,
    block_goes,
    block_goes,
    block_goes,
    fork_or_join,
    fork_or_join,
    capture_begins,
    capture_begins,
    capture_ends,
    graph_is_launched,
    graph_is_launched,
    graph_goes,
    stream_is_waited_for,
    pool_is_trimmed,
    workspace_is_asked_for,
    stream_is_attached_or_detached,
};

static void begin_all(void)
{
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    say("set device: %d", aclrtSetDevice(0));
    const weir_status made = weir_acl_device_create(NULL, &device);
    config.device = device;
    config.strategy = weir_caching_strategy();
    config.flags = any(2) == 0 ? (uint32_t)WEIR_POOL_REGIONS : 0;
    config.limit_bytes = (uint64_t)(8 + any(16)) << 20;
    config.growth = (weir_growth)any(3);
    say("pool: %s, %s", weir_status_text(made), weir_status_text(weir_pool_create(&config, &pool)));
    for (size_t i = 0; i < STREAMS; i++) {
        const aclError error = aclrtCreateStream(&native[i]);
        say("stream %zu: %d, %s", i, error, weir_status_text(weir_acl_stream(pool, native[i], &stream[i])));
    }
    say("event: %d", aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    char *pinned = NULL;
    say("pinned memory: %d", aclrtMallocHost((void **)&pinned, (size_t)257 * MARK));
    for (size_t value = 0; value < 256; value++) {
        source[value] = pinned + value * MARK;
        memset(source[value], (int)value, MARK);
    }
    seen = pinned + (size_t)256 * MARK;
}

static void end_all(void)
{
    const char *why = "";
    capture_ends();
    while (graph_count > 0) {
        graph_goes();
    }
    while (held_count > 0) {
        give(held_count - 1);
    }
    say("check: %s", weir_status_text(weir_pool_check(pool, &why)));
    say("destroy the event: %s", weir_status_text(weir_acl_destroy_event(pool, event)));
    say("settle: %d", aclrtSynchronizeDevice());
    for (size_t i = 0; i < STREAMS; i++) {
        if (attachments[i] != NULL) {
            detach_from(i);
        }
    }
    say("release workspaces: %s", weir_status_text(weir_acl_workspace_release(pool)));
    say("trim: %s", weir_status_text(weir_pool_trim(pool, 0, WEIR_TRIM_WAIT, NULL)));
    say("destroy the pool: %s", weir_status_text(weir_pool_destroy(pool)));
    for (size_t i = 0; i < STREAMS; i++) {
        say("destroy stream %zu: %d", i, aclrtDestroyStream(native[i]));
    }
    say("destroy the device: %s", weir_status_text(weir_device_destroy(device)));
    say("free pinned memory: %d", aclrtFreeHost(source[0]));
    say("reset device: %d", aclrtResetDevice(0));
}

static void run_program(void)
{
    begin_all();
    for (step = 1; step <= STEPS; step++) {
        steps[any(sizeof(steps) / sizeof(steps[0]))]();
    }
    end_all();
}

int main(int argc, char **argv)
{
    return run_programs(argc, argv, run_program);
}
