/* torch_host.cc: libweir_torch_cuda.so in a host that makes the calls of torch's CUDAPluggableAllocator: functions
 * looked up by name and cast to torch's types, a map from addresses to size, device and stream, optional functions
 * given by address, and a capture that names a pool and a filter. It runs over the double of the driver, which audits
 * every access. */
extern "C" {
#include <fake_names.h>
}
#include <weir/torch_cuda.h>

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "rig/check.hh"

#define CU_OK(call) CHECK((call) == CU_SUCCESS)

namespace
{

constexpr std::size_t MIB = std::size_t{1} << 20;

using MempoolId = std::pair<unsigned long long, unsigned long long>; /* torch's */
using StreamFilter = std::function<bool(CUstream)>;

void *library;

template <typename Function> Function *find(const char *name)
{
    void *found = dlsym(library, name);
    CHECK(found != nullptr);
    return reinterpret_cast<Function *>(found);
}

weir_status configure(const char *text)
{
    return find<weir_status(const char *)>("weir_torch_configure")(text);
}

std::string report(int device)
{
    char text[4096] = "";
    (void)find<std::size_t(int, char *, std::size_t)>("weir_torch_report")(device, text, sizeof(text));
    return text;
}

weir_torch_device_stats counters(int device)
{
    weir_torch_device_stats now = WEIR_TORCH_DEVICE_STATS_INIT;
    CHECK(find<weir_status(int, weir_torch_device_stats *)>("weir_torch_get_device_stats")(device, &now) == WEIR_OK);
    return now;
}

/* --- the allocator as torch has it --- */

class Pluggable
{
  public:
    Pluggable()
        : alloc_(find<void *(std::size_t, int, CUstream)>("weir_torch_cuda_malloc")),
          free_(find<void(void *, std::size_t, int, CUstream)>("weir_torch_free")),
          init(find<void(int)>("weir_torch_init")), reset(find<void()>("weir_torch_empty_cache")),
          memory_fraction(find<void(double, int)>("weir_torch_set_memory_fraction")),
          base_alloc(find<void *(void *, std::size_t *)>("weir_torch_base")),
          record_stream(find<void(void *, CUstream)>("weir_torch_record_stream")),
          begin_allocate_to_pool(find<void(int, MempoolId, StreamFilter)>("weir_torch_cuda_pool_begin")),
          end_allocate_to_pool(find<void(int, MempoolId)>("weir_torch_pool_end")),
          release_pool(find<void(int, MempoolId)>("weir_torch_pool_release"))
    {
    }

    void *malloc(std::size_t size, int device, CUstream stream)
    {
        void *memory = alloc_(size, device, stream);
        const std::lock_guard<std::mutex> lock(mutex_);
        CHECK(known_.emplace(memory, Metadata{size, device, stream}).second);
        return memory;
    }

    void raw_delete(void *memory)
    {
        Metadata metadata;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            const auto found = known_.find(memory);
            CHECK(found != known_.end());
            metadata = found->second;
            known_.erase(found);
        }
        free_(memory, metadata.size, metadata.device, metadata.stream);
    }

  private:
    struct Metadata {
        std::size_t size;
        int device;
        CUstream stream;
    };
    std::function<void *(std::size_t, int, CUstream)> alloc_;
    std::function<void(void *, std::size_t, int, CUstream)> free_;
    std::mutex mutex_;
    std::unordered_map<void *, Metadata> known_;

  public:
    std::function<void(int)> init;
    std::function<void()> reset;
    std::function<void(double, int)> memory_fraction;
    std::function<void *(void *, std::size_t *)> base_alloc;
    std::function<void(void *, CUstream)> record_stream;
    std::function<void(int, MempoolId, StreamFilter)> begin_allocate_to_pool;
    std::function<void(int, MempoolId)> end_allocate_to_pool;
    std::function<void(int, MempoolId)> release_pool;
};

/* --- a machine for one test --- */

class Machine
{
  public:
    explicit Machine(std::uint64_t capacity = 256 * MIB, const char *settings = "report:0")
    {
        fake_cuda_start(capacity, 0);
        CHECK(configure(settings) == WEIR_OK);
        CU_OK(cuInit(0));
        for (int i = 0; i < FAKE_CUDA_DEVICES; i++) {
            CU_OK(cuDevicePrimaryCtxRetain(&context[i], i));
        }
        CU_OK(cuCtxPushCurrent(context[0]));
        for (auto &one : stream) {
            CU_OK(cuStreamCreate(&one, 1));
        }
    }
    ~Machine()
    {
        CUcontext popped = nullptr;
        CHECK(find<weir_status()>("weir_torch_shutdown")() == WEIR_OK);
        for (auto &one : stream) {
            CU_OK(cuStreamDestroy(one));
        }
        CU_OK(cuCtxPopCurrent(&popped));
        for (int i = 0; i < FAKE_CUDA_DEVICES; i++) {
            CU_OK(cuDevicePrimaryCtxRelease(i));
            CHECK(fake_cuda_held_bytes(i) == 0);
        }
        CHECK(fake_cuda_retained() == 0);
        CHECK(fake_cuda_findings(true) == 0);
    }
    Machine(const Machine &) = delete;
    Machine &operator=(const Machine &) = delete;

    CUcontext context[FAKE_CUDA_DEVICES] = {};
    CUstream stream[3] = {};
};

CUdeviceptr address(const void *memory)
{
    return reinterpret_cast<std::uintptr_t>(memory);
}

void busy(CUstream stream, const void *memory, std::size_t size)
{
    CU_OK(fake_cuda_work(stream, 1000000000, address(memory), size, nullptr, nullptr));
}

/* --- the tests --- */

void test_reuse_on_streams()
{
    Machine machine;
    Pluggable torch;
    torch.init(FAKE_CUDA_DEVICES);
    void *first = torch.malloc(3 * MIB, 0, machine.stream[0]);
    CHECK(address(first) % 512 == 0);
    busy(machine.stream[0], first, 3 * MIB);
    torch.raw_delete(first);
    /* freed on the same stream, so the memory serves at once */
    void *second = torch.malloc(3 * MIB, 0, machine.stream[0]);
    CHECK(second == first);
    busy(machine.stream[1], nullptr, 0);
    CU_OK(cuStreamSynchronize(machine.stream[0]));
    busy(machine.stream[1], second, 3 * MIB);
    torch.record_stream(second, machine.stream[1]);
    torch.raw_delete(second);
    /* the pool may hand out the memory of `second` only after the work of stream 1 */
    void *third = torch.malloc(3 * MIB, 0, machine.stream[0]);
    busy(machine.stream[0], third, 3 * MIB);
    torch.raw_delete(third);
    void *legacy = torch.malloc(1000, 0, nullptr); /* torch's default stream */
    busy(nullptr, legacy, 1000);
    torch.raw_delete(legacy);
    const weir_torch_device_stats now = counters(0);
    CHECK(now.allocation.allocated == 4 && now.allocation.current == 0);
    CHECK(static_cast<std::uint64_t>(now.reserved_bytes.current) == fake_cuda_held_bytes(0));
    torch.reset();
    CHECK(counters(0).reserved_bytes.current == 0);
    CHECK(torch.malloc(0, 0, machine.stream[0]) == nullptr); /* nothing is thrown */
}

/* After a shutdown the library makes new pools, which do not know the earlier streams. */
void test_after_a_shutdown()
{
    Machine machine;
    Pluggable torch;
    for (int life = 0; life < 20; life++) {
        void *block = torch.malloc(MIB, 0, machine.stream[0]);
        busy(machine.stream[0], block, MIB);
        torch.raw_delete(block);
        CHECK(torch.malloc(MIB, 0, machine.stream[0]) == block); /* the same stream is known again */
        torch.raw_delete(block);
        CHECK(find<weir_status()>("weir_torch_shutdown")() == WEIR_OK);
        CHECK(fake_cuda_held_bytes(0) == 0);
    }
}

void test_two_devices()
{
    Machine machine;
    Pluggable torch;
    void *here = torch.malloc(MIB, 0, nullptr);
    void *there = torch.malloc(MIB, 1, nullptr); /* the current context is of device 0 */
    for (int device = 0; device < 2; device++) { /* each reads the other's memory, as torch's copies and kernels do */
        CHECK(fake_cuda_reaches(device, address(here), MIB) && fake_cuda_reaches(device, address(there), MIB));
    }
    std::size_t size = 0;
    CHECK(torch.base_alloc(here, &size) != nullptr && size >= MIB);
    torch.raw_delete(there);
    torch.raw_delete(here);
    CHECK(fake_cuda_depth() == 1); /* the thread's contexts are as they were */
}

/* An allocation that fails throws, and the exception's text has the reason. */
void test_no_memory_is_an_exception()
{
    Machine machine(32 * MIB);
    Pluggable torch;
    std::vector<void *> blocks;
    std::string text;
    try {
        for (;;) {
            blocks.push_back(torch.malloc(6 * MIB, 0, machine.stream[0]));
        }
    } catch (const std::bad_alloc &why) {
        text = why.what();
    }
    CHECK(blocks.size() >= 4 && blocks.size() <= 5);
    CHECK(text.find("weir: no block of 6291456 bytes on CUDA device 0. ") == 0);
    CHECK(text.find("out of memory") != std::string::npos && text.size() > 100);
    CHECK(report(0).find("out of memory") != std::string::npos);
    torch.raw_delete(blocks.back());
    blocks.back() = torch.malloc(6 * MIB, 0, machine.stream[0]); /* the next request is served */
    for (void *block : blocks) {
        torch.raw_delete(block);
    }
    text.clear();
    try {
        (void)torch.malloc(MIB, 77, machine.stream[0]);
    } catch (const std::exception &why) {
        text = why.what();
    }
    CHECK(text.find("on CUDA device 77") != std::string::npos);
    text.clear();
    try {
        (void)torch.malloc(MIB, 5, nullptr);
    } catch (const std::exception &why) {
        text = why.what();
    }
    CHECK(text.find("ordinal is 5, and there are 2 devices") != std::string::npos);
}

void test_fraction_and_settings()
{
    {
        Machine machine(256 * MIB, "virtual_memory:0,report:0");
        Pluggable torch;
        torch.memory_fraction(0.25, 0);
        void *block = torch.malloc(40 * MIB, 0, machine.stream[0]);
        bool refused = false;
        try {
            (void)torch.malloc(40 * MIB, 0, machine.stream[0]);
        } catch (const std::bad_alloc &) {
            refused = true;
        }
        CHECK(refused);
        torch.raw_delete(block);
    }
    fake_cuda_start(0, 0);
    CHECK(configure("pages:huge") == WEIR_ERR_INVALID); /* a setting that only ACL has */
    CHECK(configure("strategy:nosuch") == WEIR_ERR_INVALID);
}

/* Allocations on the stream of a capture come from a separate pool. The pool keeps its memory after the capture. */
void test_pools_of_graphs()
{
    Machine machine;
    Pluggable torch;
    void *graph = nullptr;
    const MempoolId id{0, 7};
    const CUstream captured = machine.stream[0];
    auto asked = std::make_shared<std::atomic<int>>(0);
    void *outside = torch.malloc(MIB, 0, captured);
    torch.begin_allocate_to_pool(0, id, [asked, captured](CUstream stream) {
        asked->fetch_add(1);
        return stream == captured;
    });
    CU_OK(cuStreamBeginCapture(captured, CU_CAPTURE_MODE_GLOBAL));
    void *inside = torch.malloc(2 * MIB, 0, captured);
    void *other = torch.malloc(2 * MIB, 0, machine.stream[1]); /* stream 1 is not captured */
    CU_OK(cuMemsetD8Async(address(inside), 1, 2 * MIB, captured));
    torch.raw_delete(inside);
    void *again = torch.malloc(2 * MIB, 0, captured);
    CHECK(again == inside);
    std::string text;
    try {
        torch.begin_allocate_to_pool(0, id, [](CUstream) { return true; });
    } catch (const std::runtime_error &why) {
        text = why.what();
    }
    CHECK(text.find("has begun already") != std::string::npos);
    CU_OK(cuStreamEndCapture(captured, &graph)); /* weir has not broken it */
    torch.end_allocate_to_pool(0, id);
    CHECK(asked->load() >= 3 && asked.use_count() == 1); /* the filter is gone */
    torch.raw_delete(again);
    torch.raw_delete(other);
    torch.raw_delete(outside);
    torch.reset();
    CHECK(fake_cuda_held_bytes(0) >= 2 * MIB); /* the graph may be replayed */
    CU_OK(cuGraphDestroy(graph));
    torch.release_pool(0, id);
    torch.reset();
    CHECK(fake_cuda_held_bytes(0) == 0);
}

void test_threads()
{
    Machine machine;
    Pluggable torch;
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; t++) {
        threads.emplace_back([&, t] {
            CUcontext popped = nullptr;
            CU_OK(cuCtxPushCurrent(machine.context[0]));
            std::vector<void *> held;
            for (std::size_t i = 0; i < 400; i++) {
                void *block = torch.malloc((1 + i % 37) * 30000, 0, machine.stream[t]);
                busy(machine.stream[t], block, (1 + i % 37) * 30000);
                held.push_back(block);
                if (i % 5 == 0) { /* another stream reads the block */
                    CU_OK(cuStreamSynchronize(machine.stream[t]));
                    busy(machine.stream[(t + 1) % 3], block, 1000);
                    torch.record_stream(block, machine.stream[(t + 1) % 3]);
                }
                if (held.size() > 12) {
                    torch.raw_delete(held[i % 12]);
                    held.erase(held.begin() + static_cast<std::ptrdiff_t>(i % 12));
                }
            }
            for (void *block : held) {
                torch.raw_delete(block);
            }
            CU_OK(cuCtxPopCurrent(&popped));
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK(counters(0).allocation.current == 0);
}

/* Each call of the driver fails once: a request is served or throws, and nothing is used too early. */
void test_each_call_fails()
{
    bool struck = true;
    unsigned n = 0;
    unsigned thrown = 0;
    while (struck) {
        fake_cuda_start(64 * MIB, 0);
        CHECK(configure("report:0") == WEIR_OK);
        CUcontext context = nullptr;
        CUcontext popped = nullptr;
        CUstream streams[2] = {};
        CU_OK(cuInit(0));
        CU_OK(cuDevicePrimaryCtxRetain(&context, 0));
        CU_OK(cuCtxPushCurrent(context));
        CU_OK(cuStreamCreate(&streams[0], 1));
        CU_OK(cuStreamCreate(&streams[1], 1));
        Pluggable torch;
        fake_cuda_fail("", ++n, CU_ERROR_INVALID_HANDLE, false);
        for (std::size_t i = 0; i < 6; i++) {
            try {
                void *block = torch.malloc((i + 1) * 3 * MIB, 0, streams[i % 2]);
                torch.record_stream(block, streams[1]);
                torch.raw_delete(block);
            } catch (const std::bad_alloc &why) {
                CHECK(std::strstr(why.what(), "CUDA") != nullptr);
                thrown++;
            }
        }
        torch.reset();
        (void)fake_cuda_calls(&struck);
        fake_cuda_fail("", 0, CU_SUCCESS, false);
        const auto shutdown = find<weir_status()>("weir_torch_shutdown");
        if (shutdown() != WEIR_OK) {
            (void)shutdown();
        }
        CHECK(fake_cuda_findings(false) == 0);
        CU_OK(cuStreamDestroy(streams[0]));
        CU_OK(cuStreamDestroy(streams[1]));
        CU_OK(cuCtxPopCurrent(&popped));
    }
    (void)std::printf("%u calls, each failed once; %u requests were refused\n", n - 1, thrown);
    CHECK(n > 60 && thrown > 5);
}

} // namespace

int main()
{
    (void)std::setvbuf(stdout, nullptr, _IONBF, 0);
    library = dlopen(WEIR_TORCH_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        (void)std::fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    const std::pair<const char *, void (*)()> tests[] = {
        {"reuse on streams", test_reuse_on_streams},
        {"after a shutdown", test_after_a_shutdown},
        {"two devices", test_two_devices},
        {"no memory is an exception", test_no_memory_is_an_exception},
        {"fraction and settings", test_fraction_and_settings},
        {"pools of graphs", test_pools_of_graphs},
        {"threads", test_threads},
        {"each call fails", test_each_call_fails},
    };
    for (const auto &test : tests) {
        (void)std::printf("%s\n", test.first);
        test.second();
    }
    return 0;
}
