/* prices.c: gpu_prices [FILE]: measures the calls of a weir device on a GPU and writes a price table.
 *
 * Each price is the median of the host time of many calls on an idle device. A call that takes memory is measured at
 * two sizes, from which its fixed part and its part per MiB follow. Times of copies and fills are stream times: a queue
 * of them is timed as a whole.
 */
#include "gpu.h"
#include "shared/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/sim.h>

enum { repeats = 101, queued = 32 };

#define MIB (UINT64_C(1) << 20)
#define SMALL (2 * MIB)
#define LARGE (64 * MIB)

static weir_device *device;

static void must(weir_status status)
{
    if (status != WEIR_OK) {
        (void)fprintf(stderr, "gpu_prices: %s\n", weir_last_error());
        exit(1);
    }
}

static int by_value(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static uint64_t median(uint64_t *times)
{
    qsort(times, repeats, sizeof(*times), by_value);
    return times[repeats / 2];
}

/* Returns the price for a measured time. A time of 0 ns gets another value, because a price of 0 means "no price
 * given". */
static uint64_t price(uint64_t ns)
{
    return ns != 0 ? ns : WEIR_SIM_FREE_OF_CHARGE;
}

/* Computes the fixed part and the part per MiB of a call's price from its times for SMALL and for LARGE bytes. */
static void divide(uint64_t small, uint64_t large, uint64_t *fixed, uint64_t *per_mib)
{
    const uint64_t slope = large > small ? (large - small) / ((LARGE - SMALL) / MIB) : 0;
    *per_mib = price(slope);
    *fixed = price(small > slope * (SMALL / MIB) ? small - slope * (SMALL / MIB) : 0);
}

#define TIMED(array, call)                                                                                             \
    do {                                                                                                               \
        const uint64_t began_ = wall_ns();                                                                             \
        must(call);                                                                                                    \
        (array)[i] = wall_ns() - began_;                                                                               \
    } while (0)

static void measure_regions(uint64_t size, uint64_t *alloc, uint64_t *freed)
{
    static uint64_t times[2][repeats];
    for (size_t i = 0; i < repeats; i++) {
        uint64_t address = 0;
        TIMED(times[0], weir_device_region_alloc(device, size, &address));
        TIMED(times[1], weir_device_region_free(device, address, size));
    }
    *alloc = median(times[0]);
    *freed = median(times[1]);
}

static void measure_pages(uint64_t size, uint64_t *ns)
{
    static uint64_t times[WEIR_CALL_COUNT][repeats];
    for (size_t i = 0; i < repeats; i++) {
        uint64_t address = 0;
        weir_vm_handle handle = 0;
        TIMED(times[WEIR_CALL_VM_RESERVE], weir_device_vm_reserve(device, size, &address));
        TIMED(times[WEIR_CALL_VM_CREATE], weir_device_vm_create(device, size, &handle));
        TIMED(times[WEIR_CALL_VM_MAP], weir_device_vm_map(device, address, size, handle));
        TIMED(times[WEIR_CALL_VM_UNMAP], weir_device_vm_unmap(device, address, size));
        TIMED(times[WEIR_CALL_VM_DESTROY], weir_device_vm_destroy(device, handle));
        TIMED(times[WEIR_CALL_VM_RELEASE], weir_device_vm_release(device, address, size));
    }
    for (int call = 0; call < WEIR_CALL_COUNT; call++) {
        ns[call] = median(times[call]);
    }
}

static void measure_events(CUstream stream, CUstream other, weir_sim_costs *costs)
{
    static uint64_t times[WEIR_CALL_COUNT][repeats];
    bool complete = false;
    for (size_t i = 0; i < repeats; i++) {
        weir_event *event = NULL;
        TIMED(times[WEIR_CALL_EVENT_CREATE], weir_device_event_create(device, &event));
        TIMED(times[WEIR_CALL_EVENT_RECORD], weir_device_event_record(device, event, stream));
        TIMED(times[WEIR_CALL_STREAM_WAIT_EVENT], weir_device_stream_wait_event(device, other, event));
        must(weir_device_stream_sync(device, other)); /* ends the wait: the next calls find idle streams */
        TIMED(times[WEIR_CALL_STREAM_SYNC], weir_device_stream_sync(device, stream));
        TIMED(times[WEIR_CALL_EVENT_QUERY], weir_device_event_query(device, event, &complete));
        TIMED(times[WEIR_CALL_EVENT_SYNC], weir_device_event_sync(device, event));
        TIMED(times[WEIR_CALL_EVENT_DESTROY], weir_device_event_destroy(device, event));
    }
    static const weir_device_call calls[] = {
        WEIR_CALL_EVENT_CREATE, WEIR_CALL_EVENT_RECORD, WEIR_CALL_STREAM_WAIT_EVENT, WEIR_CALL_STREAM_SYNC,
        WEIR_CALL_EVENT_QUERY,  WEIR_CALL_EVENT_SYNC,   WEIR_CALL_EVENT_DESTROY};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        costs->call_ns[calls[i]] = price(median(times[calls[i]]));
    }
    costs->call_ns[WEIR_CALL_COPY] = costs->call_ns[WEIR_CALL_STREAM_SYNC]; /* how a copy ends */
}

static void measure_memory(weir_sim_costs *costs)
{
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    uint64_t small[WEIR_CALL_COUNT];
    uint64_t large[WEIR_CALL_COUNT];
    measure_regions(SMALL, &small[WEIR_CALL_REGION_ALLOC], &small[WEIR_CALL_REGION_FREE]);
    measure_regions(LARGE, &large[WEIR_CALL_REGION_ALLOC], &large[WEIR_CALL_REGION_FREE]);
    divide(small[WEIR_CALL_REGION_ALLOC], large[WEIR_CALL_REGION_ALLOC], &costs->call_ns[WEIR_CALL_REGION_ALLOC],
           &costs->region_alloc_ns_per_mib);
    divide(small[WEIR_CALL_REGION_FREE], large[WEIR_CALL_REGION_FREE], &costs->call_ns[WEIR_CALL_REGION_FREE],
           &costs->region_free_ns_per_mib);
    must(weir_device_get_info(device, &info));
    if ((info.abilities & WEIR_DEVICE_VIRTUAL_MEMORY) == 0) {
        return;
    }
    measure_pages(SMALL, small);
    measure_pages(LARGE, large);
    for (int call = WEIR_CALL_VM_RESERVE; call <= WEIR_CALL_VM_UNMAP; call++) {
        costs->call_ns[call] = price(small[call]);
    }
    divide(small[WEIR_CALL_VM_CREATE], large[WEIR_CALL_VM_CREATE], &costs->call_ns[WEIR_CALL_VM_CREATE],
           &costs->vm_create_ns_per_mib);
}

/* --- stream time --- */

enum transfer { DEVICE_COPY, FROM_HOST, FILL };

struct buffers {
    CUdeviceptr to;
    CUdeviceptr from;
    void *host;
};

static void queue(enum transfer kind, const struct buffers *buffers, size_t size, CUstream stream)
{
    switch (kind) {
    case DEVICE_COPY:
        GPU(cuMemcpyDtoDAsync, buffers->to, buffers->from, size, stream);
        break;
    case FROM_HOST:
        GPU(cuMemcpyHtoDAsync, buffers->to, buffers->host, size, stream);
        break;
    case FILL:
    default:
        GPU(cuMemsetD8Async, buffers->to, 1, size, stream);
        break;
    }
}

/* Returns the time of one transfer when many are queued one after another. */
static uint64_t time_of(enum transfer kind, const struct buffers *buffers, size_t size, CUstream stream)
{
    queue(kind, buffers, size, stream);
    GPU(cuStreamSynchronize, stream);
    const uint64_t began = wall_ns();
    for (int i = 0; i < queued; i++) {
        queue(kind, buffers, size, stream);
    }
    GPU(cuStreamSynchronize, stream);
    return (wall_ns() - began) / queued;
}

static uint64_t per_mib(enum transfer kind, const struct buffers *buffers, CUstream stream)
{
    const uint64_t least = time_of(kind, buffers, 4096, stream);
    const uint64_t most = time_of(kind, buffers, LARGE, stream);
    return price(most > least ? (most - least) / (LARGE / MIB) : 0);
}

static void measure_work(CUstream stream, weir_sim_costs *costs)
{
    static uint64_t times[repeats];
    struct buffers buffers = {0};
    GPU(cuMemAlloc, &buffers.to, LARGE);
    GPU(cuMemAlloc, &buffers.from, LARGE);
    GPU(cuMemHostAlloc, &buffers.host, LARGE, CU_HOST_PORTABLE);
    memset(buffers.host, 1, LARGE);
    for (size_t i = 0; i < repeats; i++) {
        const uint64_t began = wall_ns();
        gpu_write(stream, buffers.to, 1, 1);
        times[i] = wall_ns() - began;
    }
    costs->launch_ns = price(median(times));
    GPU(cuStreamSynchronize, stream);
    costs->transfer_ns = price(time_of(DEVICE_COPY, &buffers, 4096, stream));
    costs->device_copy_ns_per_mib = per_mib(DEVICE_COPY, &buffers, stream);
    costs->host_copy_ns_per_mib = per_mib(FROM_HOST, &buffers, stream);
    costs->fill_ns_per_mib = per_mib(FILL, &buffers, stream);
    GPU(cuMemFree, buffers.to);
    GPU(cuMemFree, buffers.from);
    GPU(cuMemFreeHost, buffers.host);
}

int main(int argc, char **argv)
{
    weir_sim_costs costs = {.launch_ns = 0};
    CUstream streams[2];
    char text[4096];
    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        (void)fputs("gpu_prices [FILE]: measures the calls of a weir device on a GPU and writes a "
                    "price table for the\n"
                    "simulator (WEIR_SIM_PRICES) to FILE, or to standard output\n",
                    argc == 2 && strcmp(argv[1], "--help") == 0 ? stdout : stderr);
        return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
    }
    if (!gpu_open(&device)) {
        return 77;
    }
    GPU(cuStreamCreate, &streams[0], 1);
    GPU(cuStreamCreate, &streams[1], 1);
    measure_memory(&costs);
    measure_events(streams[0], streams[1], &costs);
    measure_work(streams[0], &costs);
    GPU(cuStreamDestroy, streams[0]);
    GPU(cuStreamDestroy, streams[1]);
    (void)weir_sim_costs_format(&costs, text, sizeof(text));
    FILE *out = argc == 2 ? fopen(argv[1], "w") : stdout;
    bool written = out != NULL && fprintf(out, "# %s\n%s", gpu_text(), text) > 0;
    written = (out == NULL || out == stdout || fclose(out) == 0) && written;
    if (!written) {
        (void)fprintf(stderr, "gpu_prices: %s cannot be written\n", argc == 2 ? argv[1] : "standard output");
        return 1;
    }
    gpu_close(device);
    return 0;
}
