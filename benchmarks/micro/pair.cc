/* pair.cc: what it costs to allocate and free a block of a size that the allocator has at hand.
 *
 *     pair512, pair1M   64 blocks of that size are allocated and every second one is freed, so that holes exist; then one
 *                       block is allocated and freed, over and over, by one thread
 *     two512            two threads at once do pair512, each on a stream of its own
 *
 * A second thread sleeps all the time, because glibc leaves atomics out while a process has one thread only. weir's
 * pools have locks and statistics on (single_threaded: no locks) and stand over the simulated device, which the hit path
 * never calls. The loop itself is in every figure; empty_loop shows how much it is. spin_lock is what a lock costs on
 * this machine that is taken and let go once for the alloc and once for the free.
 *
 * The column CPU is processor time per pair and thread, which other programs disturb little. In two512 the column Time
 * is elapsed time over the pairs of both threads; where threads wait for each other's locks, double it.
 * Unless told otherwise the program repeats each case seven times, in mixed order, and prints the spread.
 */
#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include <weir/caching.h>
#include <weir/size_class.h>

#include "micro/bench.h"
#include "micro/google.h"

extern "C" {
#include "models/direct.h"
#include "models/pytorch.h"
}

namespace
{

enum { GLIBC, JEMALLOC, MIMALLOC, TCMALLOC, MALLOCS };
constexpr const char *malloc_names[MALLOCS] = {"glibc", "jemalloc", "mimalloc", "tcmalloc"};
bench_malloc mallocs[MALLOCS];

/* An allocator is made anew for each run; each of its threads calls alloc and free through a handle of its own. */

class empty_loop
{
  public:
    class handle
    {
      public:
        std::uint64_t alloc(std::uint64_t size) { return size; }
        void free(std::uint64_t) {}
    };
    handle of(int) { return handle(); }
};

/* Two turns of an uncontended lock and nothing else: no allocator with a lock can take less. */
class spin_lock
{
  public:
    class handle
    {
      public:
        std::uint64_t alloc(std::uint64_t size)
        {
            turn();
            return size;
        }
        void free(std::uint64_t) { turn(); }

      private:
        void turn()
        {
            while (lock_.test_and_set(std::memory_order_acquire)) {
            }
            lock_.clear(std::memory_order_release);
        }
        alignas(64) std::atomic_flag lock_ = ATOMIC_FLAG_INIT;
    };
    handle of(int) { return handle(); }
};

template <const weir_strategy_ops *(*strategy)(), std::uint32_t flags> class pool
{
  public:
    class handle
    {
      public:
        handle(weir_pool *owner, weir_stream *own) : pool_(owner), stream_(own) {}
        weir_block *alloc(std::uint64_t size)
        {
            weir_block *block = nullptr;
            if (weir_pool_alloc(pool_, stream_, size, 0, &block) != WEIR_OK) {
                std::abort();
            }
            return block;
        }
        void free(weir_block *block)
        {
            if (weir_pool_free(pool_, block, stream_) != WEIR_OK) {
                std::abort();
            }
        }

      private:
        weir_pool *pool_;
        weir_stream *stream_;
    };
    pool() { bench_pool_open(&bench_, strategy(), flags, 0); }
    ~pool() { bench_pool_close(&bench_); }
    pool(const pool &) = delete;
    pool &operator=(const pool &) = delete;
    handle of(int thread)
    {
        return handle(bench_.pool, bench_.streams[static_cast<std::size_t>(thread)]);
    }

  private:
    bench_pool bench_ = {};
};

template <int which> class host_malloc
{
  public:
    class handle
    {
      public:
        explicit handle(bench_malloc functions) : functions_(functions) {}
        void *alloc(std::uint64_t size)
        {
            void *block = functions_.alloc(size);
            if (block == nullptr) {
                std::abort();
            }
            return block;
        }
        void free(void *block) { functions_.free(block); }

      private:
        bench_malloc functions_;
    };
    handle of(int) { return handle(mallocs[which]); }
};

/* The allocator that the threads of the run under way share. */
template <class allocator> std::unique_ptr<allocator> shared;

template <class allocator> void set_up(const benchmark::State &)
{
    shared<allocator> = std::make_unique<allocator>();
}

template <class allocator> void tear_down(const benchmark::State &)
{
    shared<allocator>.reset();
}

template <class allocator> void pair(benchmark::State &state, std::uint64_t size)
{
    auto own = shared<allocator>->of(state.thread_index());
    std::array<decltype(own.alloc(size)), BENCH_BLOCKS> blocks;
    for (auto &block : blocks) {
        block = own.alloc(size);
    }
    for (std::size_t i = 0; i < blocks.size(); i += 2) {
        own.free(blocks[i]);
    }
    for (auto _ : state) {
        auto block = own.alloc(size);
        benchmark::DoNotOptimize(block);
        own.free(block);
    }
    for (std::size_t i = 1; i < blocks.size(); i += 2) {
        own.free(blocks[i]);
    }
    state.SetItemsProcessed(state.iterations());
}

template <class allocator>
void enter(const char *workload, const char *name, std::uint64_t size, int threads)
{
    const std::string full = std::string(workload) + "/" + name;
    auto *entry = benchmark::RegisterBenchmark(full.c_str(), pair<allocator>, size);
    entry->Setup(set_up<allocator>)->Teardown(tear_down<allocator>);
    if (threads > 1) {
        entry->Threads(threads);
    }
}

template <int which> void enter_malloc(const char *workload, std::uint64_t size, int threads)
{
    const char *why = "";
    if (bench_malloc_find(malloc_names[which], &mallocs[which], &why)) {
        enter<host_malloc<which>>(workload, malloc_names[which], size, threads);
    } else {
        enter_absent(std::string(workload) + "/" + malloc_names[which],
                     std::string("absent: ") + why);
    }
}

void enter_workload(const char *workload, std::uint64_t size, int threads)
{
    enter<empty_loop>(workload, "empty_loop", size, threads);
    enter<spin_lock>(workload, "spin_lock", size, threads);
    enter<pool<weir_caching_strategy, 0>>(workload, "caching", size, threads);
    enter<pool<weir_caching_strategy, WEIR_POOL_NO_FRONT_CACHE>>(workload, "caching_no_front_cache",
                                                                 size, threads);
    if (threads == 1) {
        enter<pool<weir_caching_strategy, WEIR_POOL_SINGLE_THREADED>>(
            workload, "caching_single_threaded", size, threads);
    }
    enter<pool<weir_size_class_strategy, 0>>(workload, "size_class", size, threads);
    enter<pool<model_pytorch_strategy, 0>>(workload, "pytorch_model", size, threads);
    enter<pool<model_direct_strategy, 0>>(workload, "direct_model", size, threads);
    enter_malloc<GLIBC>(workload, size, threads);
    enter_malloc<JEMALLOC>(workload, size, threads);
    enter_malloc<MIMALLOC>(workload, size, threads);
    enter_malloc<TCMALLOC>(workload, size, threads);
}

void enter_all()
{
    enter_workload("pair512", 512, 1);
    enter_workload("pair1M", std::uint64_t{1} << 20, 1);
    enter_workload("two512", 512, BENCH_STREAMS);
}

} // namespace

int main(int count, char **arguments)
{
    return run_benchmarks(count, arguments,
                          {"--benchmark_repetitions=7",
                           "--benchmark_enable_random_interleaving=true",
                           "--benchmark_report_aggregates_only=true", "--benchmark_min_time=0.1"},
                          enter_all);
}
