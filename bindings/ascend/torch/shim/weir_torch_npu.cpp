// weir_torch_npu.cpp: the functions of torch_npu's pluggable allocator that need C++ types in their signatures.
//
// NPUStream and std::function are passed by a hidden pointer, and DeviceStats differs between versions of torch. So
// the user compiles this file against the installed torch and torch_npu; README.md has the command. The file includes
// weir's header and links libweir_torch.so, so a lookup by name in the compiled library also finds the functions of
// libweir_torch.so.
//
// torch_npu keeps work in a queue of its own before ACL sees it, unless TASK_QUEUE_ENABLE=0 or
// ASCEND_LAUNCH_BLOCKING=1. When this library is loaded, it tells weir how to empty that queue (weir_torch_set_drain).
#include <torch_npu/csrc/core/npu/NPUCachingAllocator.h>
#include <torch_npu/csrc/core/npu/NPUStream.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <utility>

#include <weir/torch.h>

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wreturn-type-c-linkage" // never called from C
#endif

#define WEIR_SHIM extern "C" __attribute__((visibility("default")))

namespace
{

using Stats = c10_npu::NPUCachingAllocator::DeviceStats;
using Filter = std::function<bool(aclrtStream)>;
using PoolId = std::pair<unsigned long long, unsigned long long>; // MempoolId_t, which old releases do not have

// --- the task queue ---

bool empty_task_queue(void *) noexcept
{
    try {
        return c10_npu::npuSynchronizeDevice(false);
    } catch (...) {
        return false;
    }
}

bool is_set_to(const char *name, const char *value)
{
    const char *is = secure_getenv(name);
    return is != nullptr && std::strcmp(is, value) == 0;
}

const bool queue_is_known = [] {
    if (!is_set_to("TASK_QUEUE_ENABLE", "0") && !is_set_to("ASCEND_LAUNCH_BLOCKING", "1")) {
        weir_torch_set_drain(empty_task_queue, nullptr);
    }
    return true;
}();

// --- statistics: torch splits them by block size; weir has the sums only ---

template <typename Array> void copy_counter(Array &to, const weir_torch_counter &from)
{
    auto &all = to[0]; // StatType::AGGREGATE
    all.current = from.current;
    all.peak = from.peak;
    all.allocated = from.allocated;
    all.freed = from.freed;
}

// Copies the members that only newer versions of torch have. With older versions, the overload below does nothing.
template <typename T>
auto copy_newer(T &to, const weir_torch_device_stats &from, int) -> decltype((void)to.num_device_free)
{
    to.num_sync_all_streams = from.num_sync_all_streams;
    to.num_device_alloc = from.num_device_alloc;
    to.num_device_free = from.num_device_free;
}

template <typename T> void copy_newer(T &, const weir_torch_device_stats &, long) {}

// --- filters ---

bool ask_filter(void *ctx, void *stream) noexcept
{
    try {
        return (*static_cast<Filter *>(ctx))(stream);
    } catch (...) {
        return false;
    }
}

void drop_filter(void *ctx) noexcept
{
    delete static_cast<Filter *>(ctx);
}

} // namespace

// set_record_stream_fn, set_erase_stream_fn. stream(false) returns the handle and does not wait for the task queue.
WEIR_SHIM void weir_torch_npu_record_stream(void *ptr, c10_npu::NPUStream stream)
{
    weir_torch_record_stream(ptr, stream.stream(false));
}

WEIR_SHIM void weir_torch_npu_erase_stream(void *ptr, c10_npu::NPUStream stream)
{
    weir_torch_erase_stream(ptr, stream.stream(false));
}

// set_get_device_stats_fn
WEIR_SHIM Stats weir_torch_npu_device_stats(c10::DeviceIndex device)
{
    Stats stats{};
    weir_torch_device_stats counters = WEIR_TORCH_DEVICE_STATS_INIT;
    if (weir_torch_get_device_stats(device, &counters) == WEIR_OK) {
#define WEIR_COPY(name) copy_counter(stats.name, counters.name);
        WEIR_TORCH_COUNTER_LIST(WEIR_COPY)
#undef WEIR_COPY
        stats.num_alloc_retries = counters.num_alloc_retries;
        stats.num_ooms = counters.num_ooms;
        copy_newer(stats, counters, 0);
    }
    return stats;
}

// set_begin_allocate_to_pool
WEIR_SHIM void weir_torch_npu_pool_begin(int device, PoolId id, std::function<bool(aclrtStream)> filter)
{
    Filter *own = new (std::nothrow) Filter(std::move(filter));
    if (own != nullptr &&
        weir_torch_pool_begin(device, {id.first, id.second}, ask_filter, own, drop_filter) != WEIR_OK) {
        delete own; // weir did not take `own`: the pool has begun already, or weir_torch_report has the reason
    }
}
