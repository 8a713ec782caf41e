/* tests/ascend/mstx/replay.c: recorded traces over announced pools, under the checking tool: after each operation every
 * byte of every live block lies in exactly one region of a heap.
 *
 * Pools that take regions and pools that map granules, caching and size_class, with a trim from time to time. Granules
 * are small, so that blocks span several and memory moves. Simulated time does not pass by itself, so each trim waits
 * for the streams.
 */
#include "rig/test.h"

#include <weir/adaptor.h>
#include <weir/caching.h>
#include <weir/mstx.h>
#include <weir/sim.h>
#include <weir/size_class.h>

#include <dirent.h>

#include "checker.h"
#include "trace/trace.h"

enum { trim_every = 97, granule_bytes = 64 << 10 };

struct player {
    const struct trace *trace;
    weir_sim *sim;
    weir_device *device;
    weir_pool *pool;
    weir_mstx *mstx;
    weir_stream **streams;
    weir_block **blocks; /* blocks by index in the trace; NULL: not live */
    uint32_t *live;      /* indices of live blocks */
    uint32_t *place;     /* position of each block in `live` */
    uint32_t live_count;
    uint64_t checks;
};

/* Sums over all traces. */
static uint64_t regions_given_back;
static uint64_t granules_taken_away;
static uint64_t bytes_moved;
static uint64_t memory_told;

/* Passes the device's log lines to the checking tool as real memory: a heap must begin after the device has handed out
 * this memory, and end before the device takes it back. */
static void tell_memory(void *ctx, const char *line)
{
    const char *address = strstr(line, " address=0x");
    const char *size = strstr(line, " size=");
    (void)ctx;
    if (strncmp(line, "region_alloc ", 13) == 0 || strncmp(line, "vm_map ", 7) == 0) {
        memory_told++;
        check_given((const void *)(uintptr_t)strtoull(address + 11, NULL, 16), strtoull(size + 6, NULL, 10));
    } else if (strncmp(line, "region_free ", 12) == 0 || strncmp(line, "vm_unmap ", 9) == 0) {
        memory_told++;
        check_taken((const void *)(uintptr_t)strtoull(address + 11, NULL, 16));
    }
}

static bool is_covered(const weir_block *block)
{
    return check_covers((const void *)(uintptr_t)weir_block_address(block), weir_block_capacity(block));
}

static void look_at_all(struct player *p)
{
    for (uint32_t i = 0; i < p->live_count; i++) {
        assert_true(is_covered(p->blocks[p->live[i]]));
    }
    p->checks += p->live_count;
}

static void play_alloc(struct player *p, const struct trace_event *event)
{
    const uint32_t stream = event->event.stream == WEIR_TRACE_NONE ? 0 : event->event.stream;
    const uint64_t size = event->event.size > 0 ? event->event.size : 1;
    weir_block **block = &p->blocks[event->index];
    assert_int_equal(weir_pool_alloc(p->pool, p->streams[stream], size, 0, block), WEIR_OK);
    assert_true(is_covered(*block));
    p->place[event->index] = p->live_count;
    p->live[p->live_count++] = event->index;
}

static void play_free(struct player *p, uint32_t index, uint32_t stream)
{
    weir_block *block = p->blocks[index];
    const void *address = (const void *)(uintptr_t)weir_block_address(block);
    p->blocks[index] = NULL;
    p->live[p->place[index]] = p->live[--p->live_count];
    p->place[p->live[p->place[index]]] = p->place[index];
    assert_int_equal(weir_pool_free(p->pool, block, p->streams[stream == WEIR_TRACE_NONE ? 0 : stream]), WEIR_OK);
    assert_false(check_covers(address, 1));
}

static void play(struct player *p)
{
    uint64_t operations = 0;
    for (size_t i = 0; i < p->trace->event_count; i++) {
        const struct trace_event *event = &p->trace->events[i];
        switch (event->event.kind) {
        case WEIR_TRACE_PRIOR:
        case WEIR_TRACE_ALLOC:
            play_alloc(p, event);
            break;
        case WEIR_TRACE_REALLOC:
            play_free(p, event->old_index, event->event.stream);
            play_alloc(p, event);
            break;
        case WEIR_TRACE_FREE:
            play_free(p, event->index, event->event.stream);
            break;
        default:
            continue;
        }
        operations++;
        if (operations % trim_every == 0) {
            assert_int_equal(weir_pool_trim(p->pool, 0, WEIR_TRIM_WAIT, NULL), WEIR_OK);
        }
        look_at_all(p);
    }
}

static void play_trace(const struct trace *trace, const weir_strategy_ops *strategy, uint32_t flags, const char *name)
{
    struct player p = {.trace = trace};
    memory_told = 0;
    weir_sim_config device = WEIR_SIM_CONFIG_INIT;
    device.capacity_bytes = UINT64_C(1) << 40;
    device.page_bytes = granule_bytes;
    device.no_audit = true;
    assert_int_equal(weir_sim_create(&device, &p.sim), WEIR_OK);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    assert_int_equal(weir_log_create(weir_sim_device(p.sim), tell_memory, NULL, &p.device), WEIR_OK);
    config.device = p.device;
    config.strategy = strategy;
    config.flags = flags;
    assert_int_equal(weir_pool_create(&config, &p.pool), WEIR_OK);
    assert_int_equal(weir_mstx_attach(p.pool, NULL, &p.mstx), WEIR_OK);
    p.streams = calloc(trace->stream_count, sizeof(weir_stream *));
    p.blocks = calloc(trace->block_count + 1, sizeof(weir_block *));
    p.live = calloc(trace->block_count + 1, sizeof(*p.live));
    p.place = calloc(trace->block_count + 1, sizeof(*p.place));
    assert_true(p.streams != NULL && p.blocks != NULL && p.live != NULL && p.place != NULL);
    for (uint32_t i = 0; i < trace->stream_count; i++) {
        weir_sim_stream *native = NULL;
        assert_int_equal(weir_sim_stream_create(p.sim, &native), WEIR_OK);
        assert_int_equal(weir_pool_stream(p.pool, native, &p.streams[i]), WEIR_OK);
    }
    play(&p);
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    weir_mstx_stats counters = WEIR_MSTX_STATS_INIT;
    assert_int_equal(weir_pool_get_stats(p.pool, &stats), WEIR_OK);
    assert_int_equal(weir_mstx_get_stats(p.mstx, &counters), WEIR_OK);
    assert_int_equal(counters.lost + counters.refused, 0);
    assert_int_equal(memory_told, stats.region_allocs + stats.region_frees + stats.vm_maps + stats.vm_unmaps);
    print_message("%-36s %-10s %s: %d blocks looked at, %d regions given back, %d granules taken away\n",
                  strrchr(trace->path, '/') + 1, name, flags != 0 ? "vm" : "  ", (int)p.checks, (int)stats.region_frees,
                  (int)stats.vm_unmaps);
    regions_given_back += stats.region_frees;
    granules_taken_away += stats.vm_unmaps;
    bytes_moved += stats.vm_moved_bytes;
    assert_int_equal(weir_pool_destroy(p.pool), WEIR_OK);
    assert_int_equal(weir_mstx_detach(p.mstx), WEIR_OK);
    assert_int_equal(weir_device_destroy(p.device), WEIR_OK);
    assert_int_equal(weir_sim_destroy(p.sim), WEIR_OK);
    free(p.streams);
    free(p.blocks);
    free(p.live);
    free(p.place);
    uint64_t heaps = 1;
    uint64_t regions = 1;
    check_announced(&heaps, &regions);
    assert_int_equal(heaps + regions, 0);
    assert_int_equal(check_findings(NULL), 0);
}

TEST(every_byte_is_announced_once)
{
    int traces = 0;
    DIR *folder = opendir(WEIR_BUNDLED_TRACES_DIR);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[1024];
        struct trace *trace = NULL;
        struct trace_error error;
        if (strstr(entry->d_name, ".wtr") == NULL) {
            continue;
        }
        (void)snprintf(path, sizeof(path), "%s/%s", WEIR_BUNDLED_TRACES_DIR, entry->d_name);
        assert_int_equal(trace_read(path, NULL, &trace, &error), WEIR_OK);
        play_trace(trace, weir_caching_strategy(), WEIR_POOL_REGIONS, "caching");
        play_trace(trace, weir_caching_strategy(), 0, "caching");
        play_trace(trace, weir_size_class_strategy(), WEIR_POOL_REGIONS, "size_class");
        play_trace(trace, weir_size_class_strategy(), 0, "size_class");
        trace_free(trace);
        traces++;
    }
    (void)closedir(folder);
    assert_true(traces >= 5);
    assert_true(regions_given_back > 100 && granules_taken_away > 1000 && bytes_moved > 100 * granule_bytes);
}

int main(void)
{
    load_checker(NULL);
    return run_all_tests("tests");
}
