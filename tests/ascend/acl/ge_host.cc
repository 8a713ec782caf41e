/* ge_host.cc: weir_ge.hpp under an engine that behaves as the graph engine does: a table of allocators by stream,
 * blocks with counts of users, blocks kept until a graph is unloaded, and requests from several threads. The simulated
 * runtime's auditor judges each use of memory. */
#include <acl/acl.h>
#include <ge/ge_allocator.h>
#include <ge/ge_error_codes.h>
#include <weir/caching.h>

#include "weir_ge.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "rig/check.hh"

#define ACL_OK(call) CHECK((call) == ACL_SUCCESS)
#define OK(call) CHECK((call) == WEIR_OK)

namespace
{

constexpr std::size_t MIB = std::size_t{1} << 20;

thread_local int allocations_left = -1; /* -1: no limit */

} // namespace

/* Not inlined: otherwise gcc warns that a mismatched function frees the allocation. */
__attribute__((noinline)) void *operator new(std::size_t size)
{
    if (allocations_left == 0) {
        throw std::bad_alloc();
    }
    allocations_left -= allocations_left > 0;
    void *memory = std::malloc(size);
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
    return memory;
}

__attribute__((noinline)) void *operator new(std::size_t size, const std::nothrow_t &) noexcept
{
    if (allocations_left == 0) {
        return nullptr;
    }
    allocations_left -= allocations_left > 0;
    return std::malloc(size);
}

__attribute__((noinline)) void operator delete(void *memory) noexcept
{
    std::free(memory);
}

__attribute__((noinline)) void operator delete(void *memory, std::size_t) noexcept
{
    std::free(memory);
}

namespace
{

/* A table of allocators, and graphs that allocate from them. */
class Session
{
  public:
    void RegisterExternalAllocator(const void *stream, ge::AllocatorPtr allocator)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        allocators_[stream] = std::move(allocator);
    }
    void UnregisterExternalAllocator(const void *stream)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        (void)allocators_.erase(stream);
    }
    ge::AllocatorPtr find(const void *stream)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto at = allocators_.find(stream);
        return at != allocators_.end() ? at->second : nullptr;
    }
    /* Allocates the memory of a graph, which is kept until the graph is unloaded. */
    void LoadGraph(aclrtStream stream, std::size_t bytes)
    {
        ge::MemBlock *block = find(stream)->Malloc(bytes);
        CHECK(block != nullptr && block->GetSize() == bytes);
        kept_.push_back(block);
    }
    void UnloadGraphs()
    {
        for (ge::MemBlock *block : kept_) {
            block->Free();
        }
        kept_.clear();
    }
    /* Each layer has an output that the next layer reads, so each output has two users. All work is queued before the
     * first kernel has run. */
    void RunGraphWithStreamAsync(aclrtStream stream, int layers)
    {
        const ge::AllocatorPtr allocator = find(stream);
        ge::MemBlock *before = nullptr;
        for (int layer = 0; layer < layers; layer++) {
            const std::size_t bytes = static_cast<std::size_t>(1 + layer % 5) * 700000;
            ge::MemBlock *out = layer % 3 == 0 ? allocator->MallocAdvise(bytes, nullptr) : allocator->Malloc(bytes);
            CHECK(out != nullptr);
            CHECK(reinterpret_cast<std::uintptr_t>(out->GetAddr()) % 512 == 0);
            (void)out->AddCount();
            ACL_OK(aclrtMemsetAsync(out->GetAddr(), bytes, layer, bytes, stream));
            if (before != nullptr) {
                before->Free();
            }
            out->Free();
            before = out;
        }
        before->Free();
    }

  private:
    std::mutex mutex_;
    std::map<const void *, ge::AllocatorPtr> allocators_;
    std::vector<ge::MemBlock *> kept_;
};

struct World {
    weir_device *device = nullptr;
    weir_pool *pool = nullptr;
    aclrtStream stream[2] = {nullptr, nullptr};

    World()
    {
        ACL_OK(aclrtSetDevice(0));
        OK(weir_acl_device_create(nullptr, &device));
        weir_pool_config config = WEIR_POOL_CONFIG_INIT;
        config.device = device;
        config.strategy = weir_caching_strategy();
        OK(weir_pool_create(&config, &pool));
        ACL_OK(aclrtCreateStream(&stream[0]));
        ACL_OK(aclrtCreateStream(&stream[1]));
    }
    World(const World &) = delete;
    World &operator=(const World &) = delete;
    ~World()
    {
        std::size_t left = 0, total = 0;
        for (const aclrtStream one : stream) {
            if (one != nullptr) {
                ACL_OK(aclrtDestroyStream(one));
            }
        }
        OK(weir_pool_destroy(pool));
        OK(weir_device_destroy(device));
        ACL_OK(aclrtResetDevice(0)); // the driver keeps freed memory until the device's reset
        ACL_OK(aclrtSetDevice(0));
        ACL_OK(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
        CHECK(left == total);
        ACL_OK(aclrtResetDevice(0));
    }
    weir_pool_stats stats() const
    {
        weir_pool_stats now = WEIR_POOL_STATS_INIT;
        OK(weir_pool_get_stats(pool, &now));
        return now;
    }
};

void graphs_run_on_two_streams()
{
    World w;
    Session session;
    for (const aclrtStream stream : w.stream) {
        ge::AllocatorPtr allocator = weir::ge_allocator::create(w.pool, stream);
        CHECK(allocator != nullptr);
        session.RegisterExternalAllocator(stream, allocator);
        session.LoadGraph(stream, 3 * MIB);
    }
    for (int round = 0; round < 20; round++) {
        session.RunGraphWithStreamAsync(w.stream[round % 2], 12);
    }
    CHECK(w.stats().allocs == 2 + 20 * 12);
    CHECK(w.stats().syncs == 0);
    session.UnloadGraphs();
    for (const aclrtStream stream : w.stream) {
        /* drops the last reference to the allocator, so the pool detaches from the stream */
        session.UnregisterExternalAllocator(stream);
    }
    CHECK(w.stats().requested_bytes == 0);
}

void threads_run_graphs()
{
    World w;
    Session session;
    std::vector<std::thread> threads;
    for (const aclrtStream stream : w.stream) {
        session.RegisterExternalAllocator(stream, weir::ge_allocator::create(w.pool, stream));
        for (int i = 0; i < 2; i++) { /* two threads on a stream */
            threads.emplace_back([&session, stream] {
                ACL_OK(aclrtSetDevice(0));
                for (int round = 0; round < 20; round++) {
                    session.RunGraphWithStreamAsync(stream, 5);
                }
                ACL_OK(aclrtResetDevice(0));
            });
        }
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    for (const aclrtStream stream : w.stream) {
        session.UnregisterExternalAllocator(stream);
    }
}

void streams_may_end_first()
{
    World w;
    Session session;
    const aclrtStream gone = w.stream[0];
    session.RegisterExternalAllocator(gone, weir::ge_allocator::create(w.pool, gone));
    session.LoadGraph(gone, MIB);
    session.RunGraphWithStreamAsync(gone, 4);
    ACL_OK(aclrtDestroyStream(gone));
    w.stream[0] = nullptr;
    CHECK(session.find(gone)->Malloc(1000) == nullptr);
    session.UnloadGraphs();
    CHECK(w.stats().requested_bytes == 0);
    session.UnregisterExternalAllocator(gone);
}

/* An engine may unregister its allocator before it unloads its graphs, so that blocks outlive their allocator. If the
 * program has attached the pool itself, weir counts these blocks and refuses the detach until all are freed. */
void an_attachment_is_shared()
{
    World w;
    weir_acl_attachment *attachment = nullptr;
    OK(weir_acl_attach(w.pool, w.stream[0], &attachment)); /* serves ACL's own operators on the stream too */
    ge::AllocatorPtr allocator = weir::ge_allocator::from_attachment(attachment);
    CHECK(allocator != nullptr);
    ge::MemBlock *block = allocator->Malloc(5000);
    CHECK(block != nullptr);
    CHECK(weir_acl_detach(attachment) == WEIR_ERR_BUSY);
    block->Free();
    allocator.reset();
    OK(weir_acl_detach(attachment));
    CHECK(weir::ge_allocator::from_attachment(nullptr) == nullptr);
}

void failures_are_empty_pointers()
{
    World w;
    const char *why = "";
    CHECK(weir::ge_allocator::create(nullptr, w.stream[0]) == nullptr);
    CHECK(weir::ge_allocator::create(w.pool, nullptr) == nullptr);
    OK(weir_acl_error(nullptr, &why));
    CHECK(std::string(why).find("weir_acl_follow: acl_stream") == 0);
    for (int left = 0; left < 2; left++) { /* the allocation of the allocator fails, then that of its reference count */
        allocations_left = left;
        const ge::AllocatorPtr none = weir::ge_allocator::create(w.pool, w.stream[0]);
        allocations_left = -1;
        CHECK(none == nullptr);
    }
    const ge::AllocatorPtr allocator = weir::ge_allocator::create(w.pool, w.stream[0]);
    CHECK(allocator != nullptr); /* the failures above let the stream go */
    CHECK(weir::ge_allocator::create(w.pool, w.stream[0]) == nullptr);
    CHECK(allocator->Malloc(0) == nullptr);
    CHECK(allocator->Malloc(SIZE_MAX) == nullptr);
    CHECK(allocator->Malloc(std::size_t{1} << 40) == nullptr);
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    OK(weir_pool_get_oom(w.pool, &record));
    CHECK(record.failure == 1);
    allocations_left = 0; /* the allocation of a block's record fails */
    ge::MemBlock *none = allocator->Malloc(1000);
    allocations_left = -1;
    CHECK(none == nullptr);
    CHECK(w.stats().requested_bytes == 0);
    allocator->Free(nullptr);
}

} // namespace

int main()
{
    (void)setenv("WEIR_ASCENDCL_EXIT_CODE", "99", 0);
    (void)setenv("WEIR_ASCENDCL_CAPACITY", "256MiB", 0);
    (void)setenv("WEIR_ASCENDCL_RUNTIME_MEMORY", "0", 0);
    graphs_run_on_two_streams();
    threads_run_graphs();
    streams_may_end_first();
    an_attachment_is_shared();
    failures_are_empty_pointers();
    (void)std::puts("ge_host: all as documented");
    return 0;
}
