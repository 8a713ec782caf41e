/* host.cc: measures the cost of a block of pinned host memory, compared with mallocs (without pinning) and
 * with pinning each block separately.
 *
 *     pair/SIZE      a block is allocated and freed again and again
 *     batch16/SIZE   16 blocks are allocated, then freed, again and again; a figure covers 16 pairs
 *     two/SIZE       two threads run pair at the same time
 *
 * 16 blocks are allocated and freed first, to fill the caches. Sizes: 256 B to 16 MiB. weir rounds sizes by the carve
 * rule (32 bytes behind each block, starts at multiples of 64) and looks the address up at each free. weir_heap is a
 * heap of ordinary memory. The column CPU is processor time per pair and thread; it includes the loop and a call
 * through a pointer (empty_loop).
 */
#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <string>

#include "micro/google.h"
#include "micro/host_pools.h"

namespace
{

constexpr std::size_t batch = 16;
constexpr std::array<std::uint64_t, 5> sizes = {256, 4096, 65536, 1 << 20, 16 << 20};
constexpr std::array<const char *, 5> size_names = {"256", "4K", "64K", "1M", "16M"};

void *alloc_nothing(host_contender *self, std::uint64_t)
{
    return self;
}

void free_nothing(host_contender *, void *, std::uint64_t) {}

/* Number of the row that measures the empty loop: one past the last allocator. */
constexpr int empty_loop = HOST_CONTENDERS;

host_contender shared;

void open_shared(int which)
{
    const char *why = "";
    if (which == empty_loop) {
        shared.alloc = alloc_nothing;
        shared.free = free_nothing;
        shared.pool = nullptr;
        shared.heap = nullptr;
    } else {
        (void)host_contender_open(&shared, which, &why); /* cannot fail: a trial opened this allocator before */
    }
}

template <std::size_t count>
[[gnu::noinline]] void measured_turns(std::array<void *, batch> &blocks, std::uint64_t size, std::int64_t turns)
{
    asm volatile("" : "+r"(turns)); /* keeps the compiler from cloning the function for a constant */
    for (std::int64_t turn = 0; turn < turns; turn++) {
        for (std::size_t i = 0; i < count; i++) {
            blocks[i] = shared.alloc(&shared, size);
            benchmark::DoNotOptimize(blocks[i]);
        }
        for (std::size_t i = 0; i < count; i++) {
            shared.free(&shared, blocks[i], size);
        }
    }
}

template <std::size_t count> void play(benchmark::State &state, std::uint64_t size)
{
    constexpr std::int64_t turns = 10;
    std::array<void *, batch> blocks;
    for (auto &block : blocks) {
        block = shared.alloc(&shared, size);
    }
    for (auto &block : blocks) {
        shared.free(&shared, block, size);
    }
    while (state.KeepRunningBatch(turns)) {
        measured_turns<count>(blocks, size, turns);
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(count));
}

void enter(const std::string &workload, const std::string &contender, int which, std::uint64_t size)
{
    const std::string name = workload + "/" + contender;
    const bool is_batch = workload.rfind("batch16", 0) == 0;
    auto *entry = finish_entry(benchmark::RegisterBenchmark(name.c_str(), is_batch ? play<batch> : play<1>, size));
    if (workload.rfind("two", 0) == 0) {
        entry->Threads(2);
    }
    static const std::array<void (*)(const benchmark::State &), HOST_CONTENDERS + 1> set_ups = {
        [](const benchmark::State &) { open_shared(0); }, [](const benchmark::State &) { open_shared(1); },
        [](const benchmark::State &) { open_shared(2); }, [](const benchmark::State &) { open_shared(3); },
        [](const benchmark::State &) { open_shared(4); }, [](const benchmark::State &) { open_shared(5); },
        [](const benchmark::State &) { open_shared(6); }, [](const benchmark::State &) { open_shared(7); },
        [](const benchmark::State &) { open_shared(8); }};
    entry->Setup(set_ups[static_cast<std::size_t>(which)]);
    entry->Teardown([](const benchmark::State &) { host_contender_close(&shared); });
}

void enter_all()
{
    for (const char *workload : {"pair", "batch16", "two"}) {
        for (std::size_t i = 0; i < sizes.size(); i++) {
            const std::string full = std::string(workload) + "/" + size_names[i];
            enter(full, "empty_loop", empty_loop, sizes[i]);
            for (int which = 0; which < HOST_CONTENDERS; which++) {
                const char *why = "";
                host_contender tried;
                if (host_contender_open(&tried, which, &why)) {
                    host_contender_close(&tried);
                    enter(full, host_contender_names[which], which, sizes[i]);
                } else {
                    enter_absent(full + "/" + host_contender_names[which], std::string("absent: ") + why);
                }
            }
        }
    }
}

} // namespace

int main(int count, char **arguments)
{
    return run_benchmarks(
        count, arguments,
        {"--benchmark_repetitions=5", "--benchmark_report_aggregates_only=true", "--benchmark_min_time=0.05"},
        enter_all);
}
