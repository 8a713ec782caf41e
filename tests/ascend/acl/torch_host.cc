/* torch_host.cc: libweir_torch.so and its shim in a host that behaves like torch_npu's and torch's pluggable
 * allocators. The host looks functions up by name and casts them to C++ types. It has a map from addresses to size,
 * device and stream under a mutex, optional functions given by address, MemPool's use of raw_alloc for segments, and a
 * task queue in front of ACL. */
#include <acl/acl.h>
#include <torch_npu/csrc/core/npu/NPUCachingAllocator.h>
#include <torch_npu/csrc/core/npu/NPUStream.h>
#include <weir/torch.h>

#include <dlfcn.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "rig/check.hh"

#define ACL_OK(call) CHECK((call) == ACL_SUCCESS)

namespace
{

constexpr std::size_t MIB = std::size_t{1} << 20;

/* --- streams, and the queue in front of them --- */

/* Passes work to ACL on a thread of its own, in the order in which it was queued. */
class TaskQueue
{
  public:
    TaskQueue() : worker_([this] { run(); }) {}
    ~TaskQueue()
    {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            done_ = true;
        }
        changed_.notify_all();
        worker_.join();
    }
    void push(std::function<void()> task)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        tasks_.push_back(std::move(task));
        changed_.notify_all();
    }
    void empty()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        held_back_ = false;
        changed_.notify_all();
        changed_.wait(lock, [this] { return tasks_.empty() && !running_; });
    }
    /* Stops the thread of the queue until a caller waits for the queue to be empty. */
    void hold_back()
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        held_back_ = true;
    }

  private:
    void run()
    {
        ACL_OK(aclrtSetDevice(0));
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            changed_.wait(lock, [this] { return (!tasks_.empty() && !held_back_) || done_; });
            if (tasks_.empty()) {
                break;
            }
            const std::function<void()> task = std::move(tasks_.front());
            tasks_.pop_front();
            running_ = true;
            lock.unlock();
            task();
            lock.lock();
            running_ = false;
            changed_.notify_all();
        }
        lock.unlock();
        ACL_OK(aclrtResetDevice(0));
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> tasks_;
    bool done_ = false;
    bool running_ = false;
    bool held_back_ = false;
    std::thread worker_;
};

std::vector<aclrtStream> streams; /* by StreamId */
std::unique_ptr<TaskQueue> queue;
std::atomic<int> queues_emptied;
thread_local int current_stream = 0;

} // namespace

/* Definitions of the stub's declarations. */
namespace c10_npu
{

aclrtStream NPUStream::stream(const bool) const
{
    return streams.at(static_cast<std::size_t>(stream_.id()));
}

bool npuSynchronizeDevice(bool)
{
    if (queue != nullptr) {
        queue->empty();
    }
    queues_emptied++;
    return aclrtSynchronizeDevice() == ACL_SUCCESS;
}

} // namespace c10_npu

namespace
{

c10_npu::NPUStream npu_stream(int id)
{
    return c10_npu::NPUStream(c10::Stream(c10::Device{20, 0}, id));
}

/* --- the host's allocator --- */

template <typename T> std::function<T> by_address(std::uint64_t address)
{
    return reinterpret_cast<T *>(address);
}

class Pluggable
{
  public:
    using Stats = c10_npu::NPUCachingAllocator::DeviceStats;
    using Filter = std::function<bool(aclrtStream)>;

    Pluggable(std::uint64_t alloc, std::uint64_t free)
        : alloc_(by_address<void *(std::size_t, int, aclrtStream)>(alloc)),
          free_(by_address<void(void *, std::size_t, int, aclrtStream)>(free))
    {
    }

    /* The next functions work like set_..._fn of the Python object: the argument is the address of a function as a
     * number. */
    void set_init(std::uint64_t f) { init_ = by_address<void(int)>(f); }
    void set_reset(std::uint64_t f) { reset_ = by_address<void(bool)>(f); }
    void set_fraction(std::uint64_t f) { fraction_ = by_address<void(double, int)>(f); }
    void set_base(std::uint64_t f) { base_ = by_address<void *(void *, std::size_t *)>(f); }
    void set_record(std::uint64_t f) { record_ = by_address<void(void *, c10_npu::NPUStream)>(f); }
    void set_erase(std::uint64_t f) { erase_ = by_address<void(void *, c10_npu::NPUStream)>(f); }
    void set_stats(std::uint64_t f) { stats_ = by_address<Stats(c10::DeviceIndex)>(f); }
    void set_reset_peak(std::uint64_t f) { reset_peak_ = by_address<void(c10::DeviceIndex)>(f); }
    void set_begin(std::uint64_t f) { begin_ = by_address<void(int, c10_npu::MempoolId_t, Filter)>(f); }
    void set_end(std::uint64_t f) { end_ = by_address<void(int, c10_npu::MempoolId_t)>(f); }
    void set_release(std::uint64_t f) { release_ = by_address<void(int, c10_npu::MempoolId_t)>(f); }

    /* Enters the block into the map even if its allocation failed, like the real host, which does not check the
     * address. */
    void *raw_alloc(std::size_t size)
    {
        const aclrtStream stream = streams.at(static_cast<std::size_t>(current_stream));
        void *ptr = alloc_(size, 0, stream);
        const std::lock_guard<std::mutex> lock(mutex_);
        known_.emplace(ptr, Known{size, 0, stream});
        return ptr;
    }
    void raw_delete(void *ptr)
    {
        Known known{};
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            const auto found = known_.find(ptr);
            if (found == known_.end()) {
                throw std::runtime_error("not allocated here");
            }
            known = found->second;
            known_.erase(found);
        }
        free_(ptr, known.size, known.device, known.stream);
    }
    void init(int count)
    {
        if (init_) {
            init_(count);
        }
    }
    void set_memory_fraction(double fraction) { fraction_(fraction, 0); }
    void empty_cache() { reset_ ? reset_(true) : void(); }
    void *base_of(void *ptr, std::size_t *size) { return base_ ? base_(ptr, size) : ptr; }
    void record_stream(void *ptr, c10_npu::NPUStream stream) { record_ ? record_(ptr, stream) : void(); }
    void erase_stream(void *ptr, c10_npu::NPUStream stream) { erase_ ? erase_(ptr, stream) : void(); }
    Stats stats() { return stats_(0); }
    void reset_peak() { reset_peak_(0); }
    void begin_pool(c10_npu::MempoolId_t id, Filter filter) { begin_(0, id, std::move(filter)); }
    void end_pool(c10_npu::MempoolId_t id) { end_(0, id); }
    void release_pool(c10_npu::MempoolId_t id) { release_(0, id); }

  private:
    struct Known {
        std::size_t size;
        int device;
        aclrtStream stream;
    };
    std::function<void *(std::size_t, int, aclrtStream)> alloc_;
    std::function<void(void *, std::size_t, int, aclrtStream)> free_;
    std::function<void(int)> init_;
    std::function<void(bool)> reset_;
    std::function<void(double, int)> fraction_;
    std::function<void *(void *, std::size_t *)> base_;
    std::function<void(void *, c10_npu::NPUStream)> record_;
    std::function<void(void *, c10_npu::NPUStream)> erase_;
    std::function<Stats(c10::DeviceIndex)> stats_;
    std::function<void(c10::DeviceIndex)> reset_peak_;
    std::function<void(int, c10_npu::MempoolId_t, Filter)> begin_;
    std::function<void(int, c10_npu::MempoolId_t)> end_;
    std::function<void(int, c10_npu::MempoolId_t)> release_;
    std::mutex mutex_;
    std::unordered_map<void *, Known> known_;
};

/* Loads the library by name, as ctypes does. A lookup also finds functions of the libraries that this library links. */
void *library;

std::uint64_t address_of(const char *name)
{
    void *found = dlsym(library, name);
    if (found == nullptr) {
        (void)std::fprintf(stderr, "%s\n", dlerror());
        std::_Exit(1);
    }
    return reinterpret_cast<std::uint64_t>(found);
}

template <typename T> T *function(const char *name)
{
    return reinterpret_cast<T *>(address_of(name));
}

Pluggable make_host()
{
    return Pluggable(address_of("weir_torch_alloc"), address_of("weir_torch_free"));
}

void set_all(Pluggable &host)
{
    host.set_init(address_of("weir_torch_init"));
    host.set_reset(address_of("weir_torch_reset"));
    host.set_fraction(address_of("weir_torch_set_memory_fraction"));
    host.set_base(address_of("weir_torch_base"));
    host.set_record(address_of("weir_torch_npu_record_stream"));
    host.set_erase(address_of("weir_torch_npu_erase_stream"));
    host.set_stats(address_of("weir_torch_npu_device_stats"));
    host.set_reset_peak(address_of("weir_torch_reset_peaks"));
    host.set_begin(address_of("weir_torch_npu_pool_begin"));
    host.set_end(address_of("weir_torch_pool_end"));
    host.set_release(address_of("weir_torch_pool_release"));
}

void fill(void *ptr, std::size_t size, int value, int stream)
{
    ACL_OK(aclrtMemsetAsync(ptr, size, value, size, streams.at(static_cast<std::size_t>(stream))));
}

void configure(const char *settings)
{
    CHECK(function<weir_status(const char *)>("weir_torch_configure")(settings) == WEIR_OK);
}

/* Every test begins and ends without pools. */
void in_fresh_library(void (*test)(Pluggable &))
{
    ACL_OK(aclrtSetDevice(0));
    streams.resize(3);
    for (aclrtStream &stream : streams) {
        ACL_OK(aclrtCreateStream(&stream));
    }
    current_stream = 0;
    {
        Pluggable host = make_host();
        test(host);
    }
    for (aclrtStream &stream : streams) {
        ACL_OK(aclrtDestroyStream(stream));
    }
    CHECK(function<weir_status(void)>("weir_torch_shutdown")() == WEIR_OK);
    std::size_t left = 0;
    std::size_t total = 0;
    ACL_OK(aclrtResetDevice(0)); // the driver keeps freed memory until the device's reset
    ACL_OK(aclrtSetDevice(0));
    ACL_OK(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
    CHECK(left == total);
    ACL_OK(aclrtResetDevice(0));
}

/* --- tests --- */

void test_alloc_and_free_alone(Pluggable &host)
{
    void *block = host.raw_alloc(MIB);
    CHECK(block != nullptr);
    fill(block, MIB, 1, 0);
    host.record_stream(block, npu_stream(1)); /* no function is set: no effect */
    host.empty_cache();
    CHECK(host.base_of(block, nullptr) == block);
    host.raw_delete(block);
    bool refused = false;
    try {
        host.raw_delete(block);
    } catch (const std::runtime_error &) {
        refused = true;
    }
    CHECK(refused);
    CHECK(host.raw_alloc(0) == nullptr);
}

/* The host does not check for a NULL block; weir must accept the calls that follow. */
void test_running_out(Pluggable &host)
{
    configure("limit:8MiB,report:0");
    set_all(host);
    void *none = host.raw_alloc(100 * MIB);
    CHECK(none == nullptr);
    CHECK(host.stats().num_ooms == 1);
    host.raw_delete(none);
    void *block = host.raw_alloc(4 * MIB);
    CHECK(block != nullptr);
    host.set_memory_fraction(0.5); /* of 256 MiB */
    void *large = host.raw_alloc(100 * MIB);
    CHECK(large != nullptr);
    host.raw_delete(large);
    host.raw_delete(block);
}

void test_functions_given_by_address(Pluggable &host)
{
    set_all(host);
    host.init(1);
    void *block = host.raw_alloc(16 * MIB - 32);
    Pluggable::Stats stats = host.stats();
    CHECK(stats.allocated_bytes[0].current == static_cast<std::int64_t>(16 * MIB));
    CHECK(stats.allocation[0].current == 1);
    CHECK(stats.reserved_bytes[0].current >= static_cast<std::int64_t>(16 * MIB));
#ifndef STUB_OLD_TORCH
    CHECK(stats.num_device_alloc >= 1);
#endif
    CHECK(stats.max_split_size == 0 && stats.inactive_split[2].freed == 0);

    /* Stream 1 still uses the block when the host frees it on stream 0: the auditor checks the order. */
    host.record_stream(block, npu_stream(1));
    fill(block, 16 * MIB, 1, 1);
    host.raw_delete(block);
    void *next = host.raw_alloc(16 * MIB - 32);
    fill(next, 16 * MIB, 2, 0);

    /* This program itself orders the streams: stream 0 waits for stream 2. Then it reports to the shim that stream 2 no
     * longer uses the block. */
    aclrtEvent event = nullptr;
    ACL_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    host.record_stream(next, npu_stream(2));
    ACL_OK(aclrtRecordEvent(event, streams[0]));
    ACL_OK(aclrtStreamWaitEvent(streams[2], event));
    fill(next, 16 * MIB, 3, 2);
    host.erase_stream(next, npu_stream(2));
    ACL_OK(aclrtRecordEvent(event, streams[2]));
    ACL_OK(aclrtStreamWaitEvent(streams[0], event));
    fill(next, 16 * MIB, 4, 0);

    std::size_t size = 0;
    char *base = static_cast<char *>(host.base_of(next, &size));
    CHECK(base <= next && static_cast<char *>(next) + 16 * MIB <= base + size);
    host.raw_delete(next);
    ACL_OK(aclrtDestroyEvent(event));

    host.empty_cache();
    stats = host.stats();
    CHECK(stats.reserved_bytes[0].current == 0 && stats.allocated_bytes[0].current == 0);
    CHECK(stats.allocated_bytes[0].peak >= static_cast<std::int64_t>(16 * MIB));
    host.reset_peak();
    CHECK(host.stats().allocated_bytes[0].peak == 0);
}

/* torch has other types than torch_npu for two functions: set_reset_fn takes a void(), and set_record_stream_fn takes a
 * void(void *, cudaStream_t). */
void test_shapes_of_torch(Pluggable &host)
{
    const std::function<void()> reset = by_address<void()>(address_of("weir_torch_empty_cache"));
    const std::function<void(void *, void *)> record =
        by_address<void(void *, void *)>(address_of("weir_torch_record_stream"));
    set_all(host);
    void *block = host.raw_alloc(8 * MIB);
    record(block, streams[1]);
    fill(block, 8 * MIB, 1, 1);
    host.raw_delete(block);
    block = host.raw_alloc(8 * MIB);
    fill(block, 8 * MIB, 2, 0);
    host.raw_delete(block);
    reset();
    CHECK(host.stats().reserved_bytes[0].current == 0);
}

std::atomic<int> filters;

/* Counts the copies of the filter: none may be left. */
struct CountedFilter {
    explicit CountedFilter(aclrtStream s) : stream(s) { filters++; }
    CountedFilter(const CountedFilter &other) : stream(other.stream) { filters++; }
    ~CountedFilter() { filters--; }
    bool operator()(aclrtStream s) const { return s == stream; }
    aclrtStream stream;
    char ballast[64] = {0}; /* too large for std::function to store inline */
};

void test_pools_of_graphs(Pluggable &host)
{
    set_all(host);
    const c10_npu::MempoolId_t id{7, (std::uint64_t{1} << 63) + 1};
    const c10_npu::MempoolId_t other{(std::uint64_t{1} << 63) + 1, 7};
    host.begin_pool(id, CountedFilter(streams[1]));
    host.begin_pool(other, CountedFilter(streams[2]));
    CHECK(filters == 2);
    host.begin_pool(id, CountedFilter(streams[2])); /* this pool has begun already */
    CHECK(filters == 2);
    void *blocks[3];
    for (int i = 0; i < 3; i++) {
        current_stream = i;
        blocks[i] = host.raw_alloc(4 * MIB);
        CHECK(blocks[i] != nullptr);
        fill(blocks[i], 4 * MIB, i, i);
        host.raw_delete(blocks[i]);
    }
    host.end_pool(id);
    host.end_pool(other);
    CHECK(filters == 0);
    host.empty_cache();
    const Pluggable::Stats stats = host.stats();
    CHECK(stats.allocated_bytes[0].current == 0);
    /* blocks of 6 MiB in pages of 2 MiB */
    CHECK(stats.reserved_bytes[0].current == static_cast<std::int64_t>(2 * 6 * MIB));
    current_stream = 1;
    void *outside = host.raw_alloc(4 * MIB);
    CHECK(outside != blocks[1] && outside != blocks[2]);
    host.begin_pool(id, [](aclrtStream) { return true; });
    void *inside = host.raw_alloc(4 * MIB);
    CHECK(inside == blocks[1]);
    host.end_pool(id);
    host.raw_delete(inside);
    host.raw_delete(outside);
    host.release_pool(id);
    host.release_pool(id);
    host.release_pool(other);
    host.empty_cache();
    CHECK(host.stats().reserved_bytes[0].current == 0);
    host.begin_pool(id, [](aclrtStream) -> bool { throw std::runtime_error("no"); }); /* this filter claims no stream */
    inside = host.raw_alloc(MIB);
    CHECK(inside != nullptr);
    host.raw_delete(inside);
    host.end_pool(id);
    host.release_pool(id);
}

void test_wrong_order(Pluggable &host)
{
    host.init(0); /* before any function is set */
    void *early = host.raw_alloc(MIB);
    set_all(host);
    host.init(1);
    host.end_pool({1, 1});
    host.release_pool({1, 1});
    host.record_stream(nullptr, npu_stream(0));
    host.erase_stream(&host, npu_stream(0));
    host.begin_pool({1, 1}, [](aclrtStream) { return true; });
    void *within = host.raw_alloc(MIB);
    host.release_pool({1, 1});
    host.end_pool({1, 1});
    host.record_stream(early, npu_stream(1));
    host.raw_delete(within);
    host.raw_delete(early);
    std::size_t size = 5;
    CHECK(host.base_of(early, &size) != early || size > 0);
    host.set_memory_fraction(-1);
    host.reset_peak();
}

/* With a MemPool, torch's cache lies above the library. The cache takes segments of multiples of 2 MiB on the current
 * stream, and gives a segment back when the work on it is over. */
void test_segments_of_a_mempool(Pluggable &host)
{
    std::vector<void *> segments;
    for (int round = 0; round < 4; round++) {
        for (std::size_t i = 1; i <= 6; i++) {
            current_stream = static_cast<int>(i % 3);
            segments.push_back(host.raw_alloc(2 * i * MIB));
            CHECK(segments.back() != nullptr && reinterpret_cast<std::uintptr_t>(segments.back()) % 512 == 0);
            fill(segments.back(), 2 * i * MIB, round, (round + static_cast<int>(i)) % 3);
        }
        ACL_OK(aclrtSynchronizeDevice());
        for (void *segment : segments) {
            current_stream = round % 3;
            host.raw_delete(segment);
        }
        segments.clear();
    }
}

void test_threads(Pluggable &host)
{
    set_all(host);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) {
        threads.emplace_back([t, &host] {
            ACL_OK(aclrtSetDevice(0));
            unsigned seed = static_cast<unsigned>(t) + 1;
            std::vector<std::pair<void *, std::size_t>> held;
            current_stream = t % 3;
            for (int i = 0; i < 300; i++) {
                seed = seed * 1664525u + 1013904223u;
                const std::size_t size = (1 + (seed >> 16) % 40) << 14;
                void *block = host.raw_alloc(size);
                CHECK(block != nullptr);
                fill(block, size, i, current_stream);
                if (seed >> 30 == 0) {
                    host.record_stream(block, npu_stream((t + 1) % 3));
                }
                held.emplace_back(block, size);
                if (held.size() > 8) {
                    host.raw_delete(held.front().first);
                    held.erase(held.begin());
                }
                if (i % 100 == 50) {
                    host.empty_cache();
                    host.reset_peak();
                }
                if (i % 64 == 10) {
                    host.begin_pool({static_cast<std::uint64_t>(t), 1}, [](aclrtStream s) { return s == streams[1]; });
                } else if (i % 64 == 40) {
                    host.end_pool({static_cast<std::uint64_t>(t), 1});
                    host.release_pool({static_cast<std::uint64_t>(t), 1});
                }
                CHECK(host.stats().allocation[0].current >= static_cast<std::int64_t>(held.size()));
            }
            host.end_pool({static_cast<std::uint64_t>(t), 1});
            host.release_pool({static_cast<std::uint64_t>(t), 1});
            for (const auto &block : held) {
                host.raw_delete(block.first);
            }
            ACL_OK(aclrtResetDevice(0));
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK(host.stats().allocation[0].current == 0);
}

/* Memory is freed, passed on to other streams and given back while its work is still in the host's queue. An event or a
 * wait that bypasses the queue would not cover this work. The auditor sees the calls that reach ACL. */
void test_task_queue(Pluggable &host)
{
    configure("limit:64MiB,report:0");
    set_all(host);
    queue.reset(new TaskQueue());
    queues_emptied = 0;
    unsigned seed = 5;
    for (int i = 0; i < 200; i++) {
        seed = seed * 1664525u + 1013904223u;
        const int stream = static_cast<int>((seed >> 8) % 3);
        const int user = static_cast<int>((seed >> 12) % 3);
        const std::size_t size = (1 + (seed >> 16) % 16) * MIB;
        if (i % 8 == 0) {
            queue->hold_back();
        }
        current_stream = stream;
        void *block = host.raw_alloc(size);
        CHECK(block != nullptr);
        queue->push([=] { fill(block, size, i, stream); });
        if (user != stream) {
            const auto event = std::make_shared<aclrtEvent>();
            ACL_OK(aclrtCreateEventExWithFlag(event.get(), ACL_EVENT_SYNC));
            host.record_stream(block, npu_stream(user));
            queue->push([=] {
                ACL_OK(aclrtRecordEvent(*event, streams[static_cast<std::size_t>(stream)]));
                ACL_OK(aclrtStreamWaitEvent(streams[static_cast<std::size_t>(user)], *event));
                fill(block, size, i, user);
                ACL_OK(aclrtDestroyEvent(*event));
            });
        }
        host.raw_delete(block);
        if (i % 50 == 49) {
            host.empty_cache();
        }
    }
    host.empty_cache();
    CHECK(host.stats().reserved_bytes[0].current == 0);
    queue->empty();
    queue.reset();
}

/* Frees a block and the host after the program's own objects are destroyed. */
struct Last {
    std::unique_ptr<Pluggable> host;
    void *block = nullptr;
    ~Last()
    {
        if (host != nullptr) {
            host->raw_delete(block);
        }
    }
};
Last last;

} // namespace

namespace
{

/* Frees the host's objects after main; otherwise the runtime would report them as leaks. */
int free_after_main()
{
    ACL_OK(aclrtSetDevice(0));
    streams.assign(1, nullptr);
    last.host.reset(new Pluggable(make_host()));
    last.block = last.host->raw_alloc(MIB);
    CHECK(last.block != nullptr);
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    const std::string mode = argc > 1 ? argv[1] : "plain";
    (void)setenv("WEIR_ASCENDCL_EXIT_CODE", mode == "late" ? "0" : "99", 0);
    (void)setenv("WEIR_ASCENDCL_CAPACITY", "256MiB", 0);
    (void)setenv("WEIR_ASCENDCL_RUNTIME_MEMORY", "0", 0);
    (void)setenv("TASK_QUEUE_ENABLE", mode == "queue" ? "1" : "0", 1);
    library = dlopen(WEIR_TORCH_SHIM, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        (void)std::fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    if (mode == "late") {
        return free_after_main();
    }
    static void (*const tests[])(Pluggable &) = {
        test_alloc_and_free_alone, test_running_out, test_functions_given_by_address, test_shapes_of_torch,
        test_pools_of_graphs,      test_wrong_order, test_segments_of_a_mempool,      test_threads,
    };
    if (mode == "queue" || mode == "queue_unknown") {
        in_fresh_library(test_task_queue);
    }
    if (mode == "queue_unknown") {
        return 0;
    }
    for (const auto &test : tests) {
        in_fresh_library(test);
    }
    return 0;
}
