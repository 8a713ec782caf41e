/* replay.c: gpu_replay TRACE: the same recorded traffic through five allocators on a GPU.
 *
 * Each allocator plays the trace twice. The first time is timed: whole, and within its calls to allocate and free. The
 * second time the driver is asked after each allocation how much memory is free, which gives the peak that was really
 * taken. Recorded work becomes a kernel of the recorded duration; events follow each other as fast as the host can.
 *
 * The peaks of weir's pools are compared with the peaks that the simulator predicts for the same trace. With one stream
 * the two must be equal. With several, memory moves between streams when work has ended, which depends on real time.
 */
#include "gpu.h"
#include "shared/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/adaptor.h>
#include <weir/caching.h>
#include <weir/pool.h>

#include "replay/replay.h"
#include "trace/trace.h"

enum { most_streams = 64 };

#define MIB (UINT64_C(1) << 20)

enum kind { WEIR, WEIR_PAGES, ASYNC, ASYNC_KEPT, PLAIN, KINDS };

static const struct {
    const char *name;
    const char *predicted_by; /* the strategy of `weir replay`; NULL: none */
} kinds[KINDS] = {
    [WEIR] = {"weir caching", "caching"}, [WEIR_PAGES] = {"weir caching, virtual memory", "caching+vm"},
    [ASYNC] = {"cuMemAllocAsync", NULL},  [ASYNC_KEPT] = {"cuMemAllocAsync, memory kept", NULL},
    [PLAIN] = {"cuMemAlloc", NULL},
};

struct block {
    weir_block *block; /* of weir's pools */
    CUdeviceptr address;
    uint64_t size; /* 0: not live */
    uint32_t home;
    uint64_t users; /* a bit for each stream other than `home` that has used the block */
};

struct run {
    const struct trace *trace;
    enum kind kind;
    weir_device *device; /* counts the calls of the pool */
    weir_pool *pool;
    CUmemPool async_pool;
    CUstream native[most_streams];
    weir_stream *stream[most_streams];
    CUevent event; /* event that makes one stream wait for another */
    CUevent *objects;
    struct block *blocks;
    uint64_t calls;    /* driver calls that this file made to serve memory */
    uint64_t inner_ns; /* nanoseconds inside allocations and frees */
    uint64_t least_free;
    bool samples;
    bool out_of_memory;
    size_t stopped_at;
};

struct row {
    uint64_t whole_ns;
    uint64_t inner_ns;
    uint64_t calls;
    uint64_t reserved; /* reserved bytes as the allocator reports them; 0: the allocator reports none */
    uint64_t taken;    /* bytes taken by the driver's count */
    uint64_t predicted;
    bool out_of_memory;
    size_t stopped_at;
};

static void must(weir_status status)
{
    if (status != WEIR_OK) {
        (void)fprintf(stderr, "gpu_replay: %s\n", weir_last_error());
        exit(1);
    }
}

static uint64_t free_bytes(void)
{
    size_t left = 0;
    size_t total = 0;
    GPU(cuMemGetInfo, &left, &total);
    return left;
}

static bool is_weir(const struct run *run)
{
    return run->kind == WEIR || run->kind == WEIR_PAGES;
}

/* --- memory --- */

static bool take(struct run *run, struct block *block, uint64_t align)
{
    CUresult code = CU_SUCCESS;
    if (is_weir(run)) {
        const weir_status status =
            weir_pool_alloc(run->pool, run->stream[block->home], block->size, align, &block->block);
        if (status != WEIR_ERR_NO_MEMORY) {
            must(status);
        }
        return status == WEIR_OK;
    }
    run->calls++;
    if (run->kind == PLAIN) {
        code = gpu.cuMemAlloc(&block->address, block->size);
    } else {
        code = gpu.cuMemAllocAsync(&block->address, block->size, run->native[block->home]);
    }
    if (code != CU_ERROR_OUT_OF_MEMORY) {
        gpu_check(code, run->kind == PLAIN ? "cuMemAlloc" : "cuMemAllocAsync");
    }
    return code == CU_SUCCESS;
}

/* Makes stream `to` wait for the work that is queued on stream `from`. */
static void order(struct run *run, uint32_t from, uint32_t to)
{
    if (is_weir(run)) {
        must(weir_cuda_record_event(run->pool, run->event, run->native[from]));
        must(weir_cuda_stream_wait_event(run->pool, run->native[to], run->event));
    } else {
        GPU(cuEventRecord, run->event, run->native[from]);
        GPU(cuStreamWaitEvent, run->native[to], run->event, 0);
    }
}

/* Frees the block in the order of stream `on`. The driver's allocators order only that stream: before cuMemFreeAsync
 * this function makes `on` wait for the other streams of the block, and before cuMemFree the host waits for these
 * streams. */
static void give(struct run *run, struct block *block, uint32_t on)
{
    if (is_weir(run)) {
        must(weir_pool_free(run->pool, block->block, run->stream[on]));
        return;
    }
    const uint64_t users = (block->users | UINT64_C(1) << block->home) & ~(UINT64_C(1) << on);
    for (uint32_t user = 0; user < run->trace->stream_count; user++) {
        if ((users >> user & 1) != 0 && run->kind == PLAIN) {
            GPU(cuStreamSynchronize, run->native[user]);
            run->calls++;
        } else if ((users >> user & 1) != 0) {
            order(run, user, on);
            run->calls += 2;
        }
    }
    if (run->kind == PLAIN) {
        GPU(cuStreamSynchronize, run->native[on]);
        GPU(cuMemFree, block->address);
        run->calls += 2;
    } else {
        GPU(cuMemFreeAsync, block->address, run->native[on]);
        run->calls++;
    }
}

static void alloc_block(struct run *run, uint32_t index, uint32_t stream, uint64_t size, uint64_t align)
{
    struct block *block = &run->blocks[index];
    *block = (struct block){.size = size != 0 ? size : 1, .home = stream};
    const uint64_t began = wall_ns();
    run->out_of_memory = !take(run, block, align);
    run->inner_ns += wall_ns() - began;
    block->size = run->out_of_memory ? 0 : block->size;
    if (run->samples) {
        const uint64_t left = free_bytes();
        run->least_free = left < run->least_free ? left : run->least_free;
    }
}

static void free_block(struct run *run, uint32_t index, uint32_t stream)
{
    struct block *block = &run->blocks[index];
    if (block->size != 0) {
        const uint64_t began = wall_ns();
        give(run, block, stream != WEIR_TRACE_NONE ? stream : block->home);
        run->inner_ns += wall_ns() - began;
        block->size = 0;
    }
}

static void use_block(struct run *run, uint32_t index, uint32_t stream)
{
    struct block *block = &run->blocks[index];
    if (block->size != 0 && stream != block->home) {
        order(run, block->home, stream); /* as the recorded program did */
        block->users |= UINT64_C(1) << stream;
        if (is_weir(run)) {
            must(weir_pool_use(run->pool, block->block, run->stream[stream]));
        }
    }
}

/* --- events --- */

static void record_or_wait(struct run *run, const struct trace_event *event)
{
    CUevent *object = &run->objects[event->index];
    CUstream native = run->native[event->event.stream];
    if (*object == NULL) {
        GPU(cuEventCreate, object, CU_EVENT_DISABLE_TIMING);
    }
    if (is_weir(run)) {
        must(event->event.kind == WEIR_TRACE_RECORD ? weir_cuda_record_event(run->pool, *object, native)
                                                    : weir_cuda_stream_wait_event(run->pool, native, *object));
    } else if (event->event.kind == WEIR_TRACE_RECORD) {
        GPU(cuEventRecord, *object, native);
    } else {
        GPU(cuStreamWaitEvent, native, *object, 0);
    }
}

static void sync(struct run *run, const struct trace_event *event)
{
    for (uint32_t i = 0; i < run->trace->stream_count; i++) {
        if (event == NULL || event->event.mode == '*' || (event->event.mode == 's' && event->event.stream == i)) {
            if (is_weir(run)) {
                must(weir_cuda_sync_stream(run->pool, run->native[i]));
            } else {
                GPU(cuStreamSynchronize, run->native[i]);
            }
        }
    }
    if (event != NULL && event->event.mode == 'e' && run->objects[event->index] != NULL) {
        if (is_weir(run)) {
            must(weir_cuda_sync_event(run->pool, run->objects[event->index]));
        } else {
            GPU(cuEventSynchronize, run->objects[event->index]);
        }
    }
}

static void trim(struct run *run)
{
    if (is_weir(run)) {
        must(weir_pool_trim(run->pool, 0, WEIR_TRIM_WAIT, NULL));
    } else if (run->kind != PLAIN) {
        sync(run, NULL);
        GPU(cuMemPoolTrimTo, run->async_pool, 0);
        run->calls++;
    }
}

static void play_event(struct run *run, const struct trace_event *event)
{
    const weir_trace_event *e = &event->event;
    switch (e->kind) {
    case WEIR_TRACE_PRIOR:
    case WEIR_TRACE_ALLOC:
        alloc_block(run, event->index, e->stream, e->size, e->kind == WEIR_TRACE_ALLOC ? e->extra : 0);
        break;
    case WEIR_TRACE_FREE:
        free_block(run, event->index, e->stream);
        break;
    case WEIR_TRACE_REALLOC:
        if (run->blocks[event->old_index].size != 0) {
            alloc_block(run, event->index, run->blocks[event->old_index].home, e->size, 0);
            free_block(run, event->old_index, WEIR_TRACE_NONE);
        }
        break;
    case WEIR_TRACE_USE:
        use_block(run, event->index, e->stream);
        break;
    case WEIR_TRACE_WORK:
        gpu_delay(run->native[e->stream], e->size);
        break;
    case WEIR_TRACE_RECORD:
    case WEIR_TRACE_WAIT:
        record_or_wait(run, event);
        break;
    case WEIR_TRACE_SYNC:
        sync(run, event);
        break;
    case WEIR_TRACE_TRIM:
        trim(run);
        break;
    default:
        break; /* marks and the recorded allocator's own memory are not replayed */
    }
}

/* --- a run --- */

static void begin(struct run *run, weir_device *inner)
{
    uint64_t threshold = run->kind == ASYNC_KEPT ? UINT64_MAX : 0;
    uint64_t zero = 0;
    run->blocks = calloc(run->trace->block_count + 1, sizeof(*run->blocks));
    run->objects = calloc(run->trace->object_count + 1, sizeof(CUevent));
    if (run->blocks == NULL || run->objects == NULL) {
        (void)fputs("gpu_replay: no host memory\n", stderr);
        exit(1);
    }
    if (is_weir(run)) {
        weir_pool_config config = WEIR_POOL_CONFIG_INIT;
        must(weir_count_create(inner, &run->device));
        config.device = run->device;
        config.strategy = weir_caching_strategy();
        config.flags = run->kind == WEIR_PAGES ? 0 : (uint32_t)WEIR_POOL_REGIONS;
        must(weir_pool_create(&config, &run->pool));
    } else if (run->kind != PLAIN) {
        CUdevice id = 0;
        GPU(cuCtxGetDevice, &id);
        GPU(cuDeviceGetDefaultMemPool, &run->async_pool, id);
        GPU(cuMemPoolSetAttribute, run->async_pool, CU_POOL_RELEASE_THRESHOLD, &threshold);
        GPU(cuMemPoolSetAttribute, run->async_pool, CU_POOL_RESERVED_HIGH, &zero);
    }
    GPU(cuEventCreate, &run->event, CU_EVENT_DISABLE_TIMING);
    for (uint32_t i = 0; i < run->trace->stream_count; i++) {
        GPU(cuStreamCreate, &run->native[i], 1);
        if (is_weir(run)) {
            must(weir_pool_stream(run->pool, run->native[i], &run->stream[i]));
        }
    }
}

static void read_figures(const struct run *run, struct row *row)
{
    if (is_weir(run)) {
        weir_pool_stats stats = WEIR_POOL_STATS_INIT;
        uint64_t calls[WEIR_CALL_COUNT];
        must(weir_pool_get_stats(run->pool, &stats));
        must(weir_count_get(run->device, calls, NULL));
        row->reserved = stats.peak_reserved_bytes;
        row->calls = 0;
        for (int i = 0; i < WEIR_CALL_COUNT; i++) {
            row->calls += calls[i];
        }
    } else {
        row->calls = run->calls;
        if (run->kind != PLAIN) {
            GPU(cuMemPoolGetAttribute, run->async_pool, CU_POOL_RESERVED_HIGH, &row->reserved);
        }
    }
}

static void end(struct run *run)
{
    sync(run, NULL);
    for (uint32_t i = 0; i < run->trace->block_count; i++) {
        free_block(run, i, WEIR_TRACE_NONE);
    }
    trim(run);
    if (is_weir(run)) {
        must(weir_pool_destroy(run->pool));
        must(weir_device_destroy(run->device));
    }
    for (uint32_t i = 0; i < run->trace->stream_count; i++) {
        GPU(cuStreamDestroy, run->native[i]);
    }
    for (uint32_t i = 0; i < run->trace->object_count; i++) {
        if (run->objects[i] != NULL) {
            GPU(cuEventDestroy, run->objects[i]);
        }
    }
    GPU(cuEventDestroy, run->event);
    free(run->objects);
    free(run->blocks);
}

static void play(const struct trace *trace, enum kind kind, weir_device *inner, bool samples, struct row *row)
{
    struct run run = {.trace = trace, .kind = kind, .samples = samples};
    gpu_check(gpu.cuCtxSynchronize(), "cuCtxSynchronize");
    const uint64_t before = free_bytes();
    run.least_free = before;
    begin(&run, inner);
    const uint64_t began = wall_ns();
    for (size_t i = 0; i < trace->event_count && !run.out_of_memory; i++) {
        run.stopped_at = i;
        play_event(&run, &trace->events[i]);
    }
    sync(&run, NULL);
    if (samples) {
        row->taken = before - run.least_free;
    } else {
        row->whole_ns = wall_ns() - began;
        row->inner_ns = run.inner_ns;
        row->out_of_memory = run.out_of_memory;
        row->stopped_at = run.stopped_at;
        read_figures(&run, row);
    }
    end(&run);
}

/* --- the prediction --- */

static bool predict(const struct trace *trace, const char *name, uint64_t capacity, struct row *row)
{
    struct replay_options options = {.capacity = capacity, .no_audit = true, .no_timing = true};
    struct replay_result result;
    char error[512] = "";
    const struct replay_strategy *strategy = replay_strategy_find(name, strlen(name));
    memset(&result, 0, sizeof(result));
    if (strategy == NULL || !replay_run(trace, strategy, 0, &options, &result, error, sizeof(error))) {
        (void)fprintf(stderr, "gpu_replay: the simulator: %s\n", error);
        return false;
    }
    row->predicted = result.peak_reserved_bytes;
    replay_result_free(&result);
    return true;
}

/* --- output --- */

static void print_mib(uint64_t bytes, bool known)
{
    if (known) {
        (void)printf(" %10.1f", (double)bytes / (double)MIB);
    } else {
        (void)printf(" %10s", "-");
    }
}

static void print_row(enum kind kind, const struct row *row)
{
    (void)printf("%-30s %10.3f %10.3f %10llu", kinds[kind].name, (double)row->whole_ns / 1e6,
                 (double)row->inner_ns / 1e6, (unsigned long long)row->calls);
    print_mib(row->reserved, row->reserved != 0);
    print_mib(row->taken, true);
    print_mib(row->predicted, kinds[kind].predicted_by != NULL);
    if (row->out_of_memory) {
        (void)printf("  out of memory at event %zu", row->stopped_at);
    }
    (void)putchar('\n');
}

/* Prints how far off the predicted peak is. Returns false if it is off by more than a granule on a single stream. */
static bool print_comparison(const struct trace *trace, enum kind kind, const struct row *row, uint64_t granule)
{
    const uint64_t off =
        row->reserved > row->predicted ? row->reserved - row->predicted : row->predicted - row->reserved;
    const bool equal = off <= granule;
    (void)printf("%s: the simulator predicts the peak %s (off by %.1f MiB)%s\n", kinds[kind].name,
                 equal ? "to a granule" : "wrongly", (double)off / (double)MIB,
                 trace->stream_count > 1 ? "; with several streams it depends on real time" : "");
    return equal || trace->stream_count > 1 || row->out_of_memory;
}

static bool compare(const struct trace *trace, weir_device *device, const weir_device_info *info)
{
    struct row rows[KINDS];
    bool good = true;
    memset(rows, 0, sizeof(rows));
    for (int kind = 0; kind < KINDS && good; kind++) {
        if (kind == WEIR_PAGES && (info->abilities & WEIR_DEVICE_VIRTUAL_MEMORY) == 0) {
            continue;
        }
        play(trace, (enum kind)kind, device, false, &rows[kind]);
        play(trace, (enum kind)kind, device, true, &rows[kind]);
        if (kinds[kind].predicted_by != NULL) {
            good = predict(trace, kinds[kind].predicted_by, info->capacity_bytes, &rows[kind]);
        }
    }
    (void)printf("%s: %zu events, %u streams\n", trace->path, trace->event_count, trace->stream_count);
    (void)printf("%-30s %10s %10s %10s %10s %10s %10s\n", "", "whole ms", "calls ms", "dev.calls", "reserved",
                 "taken MiB", "predicted");
    for (int kind = 0; kind < KINDS; kind++) {
        if (rows[kind].whole_ns != 0) {
            print_row((enum kind)kind, &rows[kind]);
        }
    }
    const uint64_t granule =
        info->region_granularity_bytes > info->page_bytes ? info->region_granularity_bytes : info->page_bytes;
    for (int kind = 0; kind < KINDS; kind++) {
        if (rows[kind].whole_ns != 0 && kinds[kind].predicted_by != NULL) {
            good = print_comparison(trace, (enum kind)kind, &rows[kind], granule) && good;
        }
    }
    return good;
}

static int usage(bool asked)
{
    (void)fputs("gpu_replay TRACE...: plays recorded traffic on a GPU through weir's pools and the "
                "driver's allocators, and\n"
                "compares time, device calls and peak memory. Exit status 1 if the simulator "
                "predicts a peak wrongly.\n",
                asked ? stdout : stderr);
    return asked ? 0 : 2;
}

int main(int argc, char **argv)
{
    weir_device *device = NULL;
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    bool good = true;
    if (argc < 2 || argv[1][0] == '-') {
        return usage(argc == 2 && strcmp(argv[1], "--help") == 0);
    }
    if (!gpu_open(&device)) {
        return 77;
    }
    must(weir_device_get_info(device, &info));
    (void)printf("%s\n", gpu_text());
    for (int i = 1; i < argc; i++) {
        struct trace *trace = NULL;
        struct trace_error error;
        if (trace_read(argv[i], NULL, &trace, &error) != WEIR_OK) {
            (void)fprintf(stderr, "gpu_replay: %s\n", error.message);
            return 2;
        }
        if (trace->device_count > 1 || trace->stream_count > most_streams) {
            (void)fprintf(stderr, "gpu_replay: %s: more than one device or %d streams\n", argv[i], most_streams);
            return 2;
        }
        good = compare(trace, device, &info) && good;
        trace_free(trace);
    }
    gpu_close(device);
    return good ? 0 : 1;
}
