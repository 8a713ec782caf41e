/* mix.cc: what alloc and free cost when sizes, lifetimes and threads mix.
 *
 *     mix1k, mix100k, mix1M, infer     see workloads.h; per pair of alloc and free
 *     live10, live1k, live100k, mix1M  the same sizes with 10 to 1,000,000 live blocks: is the cost flat?
 *     shared512                        two threads at once do pair512 on one stream (a malloc knows no streams); per pair
 *                                      and thread
 *     pc512                            one thread allocates blocks of 512 bytes, another frees them, a ring of 1,024
 *                                      between them; per block. The second thread frees on the same stream, in
 *                                      pc512_two_streams on its own: memory has to find its way back between streams
 *
 * Requests are written down before the clock starts; reading them and calling through a pointer is in every figure, and
 * empty_loop shows how much it is. A second thread sleeps all the time and the pools stand over the simulated device, as
 * in pair.cc. The mallocs sit out mix1M, where they would touch gigabytes of this machine's own memory.
 *
 * The column CPU is processor time, of both threads together in pc512, where waiting for the other thread is in it.
 * In shared512 the column Time is elapsed time over the pairs of both threads.
 */
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <sched.h>
#include <string>
#include <thread>
#include <vector>

#include "micro/bench.h"
#include "micro/google.h"
#include "micro/workloads.h"

namespace
{

/* An allocator that lives as long as the run that uses it. */
class allocator
{
  public:
    explicit allocator(const bench_contender &contender)
    {
        const char *why = "";
        if (!bench_allocator_open(&own_, &contender, &why)) {
            std::abort(); /* rows are entered for what is present */
        }
    }
    ~allocator() { bench_allocator_close(&own_); }
    allocator(const allocator &) = delete;
    allocator &operator=(const allocator &) = delete;
    workload_user user(std::size_t stream) { return bench_allocator_user(&own_, stream); }

  private:
    bench_allocator own_ = {};
};

/* Written once a process: the large ones take longer to write than to play. */
const workload &workload_of(const std::string &name)
{
    static std::map<std::string, workload> made;
    auto found = made.find(name);
    if (found == made.end()) {
        workload fresh = {};
        if (!workload_make(name.c_str(), 0, &fresh)) {
            std::abort();
        }
        found = made.emplace(name, fresh).first;
    }
    return found->second;
}

void *alloc_or_abort(const workload_user &user, std::uint64_t size)
{
    void *block = user.alloc(user.ctx, size);
    if (block == nullptr) {
        std::abort();
    }
    return block;
}

void play(benchmark::State &state, const bench_contender &contender, const std::string &name)
{
    const workload &work = workload_of(name);
    allocator own(contender);
    const workload_user user = own.user(0);
    std::vector<void *> blocks(work.slots);
    bool fine = workload_play(&work, 0, work.start, blocks.data(), &user);
    std::size_t at = work.start;
    while (state.KeepRunningBatch(static_cast<std::int64_t>(work.batch_pairs))) {
        fine = fine && workload_play(&work, at, at + work.batch_ops, blocks.data(), &user);
        at += work.batch_ops;
        at = at == work.count ? work.start : at;
    }
    workload_clear(&work, blocks.data(), &user);
    if (!fine) {
        state.SkipWithError("a request was refused");
    }
}

/* The allocator that the threads of the run under way share. */
std::unique_ptr<allocator> shared;

void pair_on_one_stream(benchmark::State &state)
{
    const workload_user user = shared->user(0);
    std::vector<void *> blocks(BENCH_BLOCKS);
    for (auto &block : blocks) {
        block = alloc_or_abort(user, 512);
    }
    for (std::size_t i = 0; i < blocks.size(); i += 2) {
        user.free(user.ctx, blocks[i]);
    }
    for (auto _ : state) {
        user.free(user.ctx, alloc_or_abort(user, 512));
    }
    for (std::size_t i = 1; i < blocks.size(); i += 2) {
        user.free(user.ctx, blocks[i]);
    }
}

/* One thread puts, another takes. Who finds it full or empty lets the other run. */
class ring
{
  public:
    void put(void *block)
    {
        const std::size_t at = put_.load(std::memory_order_relaxed);
        while (at - taken_.load(std::memory_order_acquire) == places) {
            (void)sched_yield();
        }
        blocks_[at % places] = block;
        put_.store(at + 1, std::memory_order_release);
    }
    void *take()
    {
        const std::size_t at = taken_.load(std::memory_order_relaxed);
        while (at == put_.load(std::memory_order_acquire)) {
            (void)sched_yield();
        }
        void *block = blocks_[at % places];
        taken_.store(at + 1, std::memory_order_release);
        return block;
    }

  private:
    static constexpr std::size_t places = 1024;
    alignas(64) std::atomic<std::size_t> put_{0};
    alignas(64) std::atomic<std::size_t> taken_{0};
    alignas(64) void *blocks_[places] = {};
};

void produce(benchmark::State &state, const bench_contender &contender, std::size_t stream_of_frees)
{
    allocator own(contender);
    const workload_user producer = own.user(0);
    const workload_user consumer = own.user(stream_of_frees);
    ring between;
    std::thread frees([&between, &consumer] {
        while (void *block = between.take()) {
            consumer.free(consumer.ctx, block);
        }
    });
    for (auto _ : state) {
        between.put(alloc_or_abort(producer, 512));
    }
    between.put(nullptr);
    frees.join();
}

/* Enough for 0.1 s of the slowest that are present; setting the large workloads up takes longer than that. */
std::int64_t pairs_of(const std::string &workload_name, const bench_contender &contender)
{
    const bool large = workload_name == "mix100k" || workload_name == "live100k";
    if (contender.host && large) {
        return 20000;
    }
    return large || workload_name == "mix1M" ? 200000 : 1000000;
}

void enter_play(const std::string &name, const bench_contender &contender)
{
    benchmark::RegisterBenchmark(
        (name + "/" + contender.name).c_str(),
        [&contender, name](benchmark::State &state) { play(state, contender, name); })
        ->Iterations(pairs_of(name, contender));
}

void set_up(const benchmark::State &state)
{
    shared = std::make_unique<allocator>(bench_contenders[state.range(0)]);
}

void tear_down(const benchmark::State &)
{
    shared.reset();
}

void enter_shared(const bench_contender &contender)
{
    benchmark::RegisterBenchmark((std::string("shared512/") + contender.name).c_str(),
                                 pair_on_one_stream)
        ->Arg(&contender - bench_contenders)
        ->Setup(set_up)
        ->Teardown(tear_down)
        ->Threads(2);
}

void enter_produce(const char *name, const bench_contender &contender, std::size_t stream_of_frees)
{
    benchmark::RegisterBenchmark((std::string(name) + "/" + contender.name).c_str(),
                                 [&contender, stream_of_frees](benchmark::State &state) {
                                     produce(state, contender, stream_of_frees);
                                 })
        ->MeasureProcessCPUTime()
        ->UseRealTime();
}

bool locks(const bench_contender &contender)
{
    return (contender.flags & WEIR_POOL_SINGLE_THREADED) == 0;
}

bool is_pool(const bench_contender &contender)
{
    return contender.strategy != nullptr;
}

void enter_contender(const bench_contender &contender)
{
    for (const char *name : {"mix1k", "mix100k", "infer"}) {
        enter_play(name, contender);
    }
    if (!contender.host) {
        enter_play("mix1M", contender);
    }
    if (locks(contender)) {
        enter_shared(contender);
        enter_produce("pc512", contender, 0);
    }
    if (is_pool(contender) && locks(contender)) {
        for (const char *name : {"live10", "live1k", "live100k"}) {
            enter_play(name, contender);
        }
        enter_produce("pc512_two_streams", contender, 1);
    }
}

void enter_all()
{
    for (const bench_contender &contender : bench_contenders) {
        struct bench_malloc ignored;
        const char *why = "";
        if (contender.host && !bench_malloc_find(contender.name, &ignored, &why)) {
            enter_absent(contender.name, std::string("absent: ") + why);
        } else {
            enter_contender(contender);
        }
    }
}

} // namespace

int main(int count, char **arguments)
{
    return run_benchmarks(count, arguments,
                          {"--benchmark_repetitions=5", "--benchmark_report_aggregates_only=true",
                           "--benchmark_min_time=0.2"},
                          enter_all);
}
