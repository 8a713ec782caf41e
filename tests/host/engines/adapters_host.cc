/* tests/host/engines/adapters_host.cc: the adapters for ncnn, OpenVINO, TVM and UMF behind doubles of their engines'
 * interfaces: blocks, an engine's threads, out of memory, blocks that are not the heap's. */
#include "rig/check.hh"
#include "weir_ncnn.hpp"
#include "weir_openvino.hpp"
#include "weir_tvm.hpp"
#include "weir_umf.h"

#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace
{

weir_heap *heap_with(std::uint64_t limit_bytes, std::uint64_t slack_bytes)
{
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    weir_heap *heap = nullptr;
    config.limit_bytes = limit_bytes;
    config.slack_bytes = slack_bytes;
    CHECK(weir_heap_create(&config, &heap) == WEIR_OK);
    return heap;
}

void is_empty(weir_heap *heap)
{
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    CHECK(weir_heap_get_stats(heap, &stats) == WEIR_OK);
    CHECK(stats.live_blocks == 0 && stats.bad_frees == 0);
    CHECK(weir_heap_check(heap, nullptr) == WEIR_OK);
    CHECK(weir_heap_destroy(heap) == WEIR_OK);
}

/* Kernels read up to 64 bytes behind a block: the last byte of the slack must be readable. */
void ncnn_blobs()
{
    weir_heap *heap = heap_with(32 << 20, weir::ncnn_slack_bytes);
    {
        weir::ncnn_allocator allocator(heap);
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; i++) {
            threads.emplace_back([&allocator, i] {
                for (std::size_t size = 1; size < 4 << 20; size += size / 3 + static_cast<std::size_t>(i) + 1) {
                    auto *block = static_cast<volatile unsigned char *>(allocator.fastMalloc(size));
                    CHECK(block != nullptr && reinterpret_cast<std::uintptr_t>(block) % 64 == 0);
                    block[size - 1] = 7;
                    static_cast<void>(block[size + 63]);
                    allocator.fastFree(const_cast<unsigned char *>(block));
                }
            });
        }
        for (std::thread &thread : threads) {
            thread.join();
        }
        CHECK(allocator.fastMalloc(64 << 20) == nullptr);
        allocator.fastFree(nullptr);
    }
    is_empty(heap);
}

void umf_pool()
{
    weir_heap *heap = heap_with(8 << 20, 0);
    const umf_memory_pool_ops_t &ops = *weir_umf_pool_ops();
    void *pool = nullptr;
    std::size_t size = 0;
    const char *name = nullptr;
    CHECK(ops.version == UMF_POOL_OPS_VERSION_CURRENT);
    CHECK(ops.initialize(nullptr, nullptr, &pool) == UMF_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(ops.initialize(nullptr, heap, &pool) == UMF_RESULT_SUCCESS);
    auto *block = static_cast<unsigned char *>(ops.malloc(pool, 1000));
    CHECK(block != nullptr && ops.malloc_usable_size(pool, block, &size) == UMF_RESULT_SUCCESS && size >= 1000);
    std::memset(block, 5, 1000);
    block = static_cast<unsigned char *>(ops.realloc(pool, block, 500000));
    CHECK(block != nullptr && block[999] == 5);
    auto *zeroed = static_cast<unsigned char *>(ops.calloc(pool, 100, 30));
    CHECK(zeroed != nullptr && zeroed[0] == 0 && zeroed[2999] == 0);
    void *aligned = ops.aligned_malloc(pool, 10, 1 << 16);
    CHECK(aligned != nullptr && reinterpret_cast<std::uintptr_t>(aligned) % (1 << 16) == 0);
    CHECK(ops.malloc(pool, 16 << 20) == nullptr);
    CHECK(ops.get_last_allocation_error(pool) == UMF_RESULT_ERROR_OUT_OF_HOST_MEMORY);
    CHECK(ops.free(pool, block + 64) == UMF_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(ops.malloc_usable_size(pool, block + 64, &size) == UMF_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(ops.malloc_usable_size(pool, nullptr, &size) == UMF_RESULT_SUCCESS && size == 0);
    for (void *each : {static_cast<void *>(block), static_cast<void *>(zeroed), aligned}) {
        CHECK(ops.free(pool, each) == UMF_RESULT_SUCCESS);
    }
    CHECK(ops.get_name(nullptr, &name) == UMF_RESULT_SUCCESS && std::strcmp(name, "weir") == 0);
    CHECK(ops.finalize(pool) == UMF_RESULT_SUCCESS);
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    CHECK(weir_heap_get_stats(heap, &stats) == WEIR_OK && stats.bad_frees == 1 && stats.live_blocks == 0);
    CHECK(weir_heap_destroy(heap) == WEIR_OK);
}

void umf_provider()
{
    weir_heap *heap = heap_with(8 << 20, 0);
    const umf_memory_provider_ops_t &ops = *weir_umf_provider_ops();
    void *provider = nullptr;
    void *block = nullptr;
    std::size_t page = 0;
    CHECK(ops.initialize(heap, &provider) == UMF_RESULT_SUCCESS);
    CHECK(ops.get_min_page_size(provider, nullptr, &page) == UMF_RESULT_SUCCESS && page == 4096);
    CHECK(ops.alloc(provider, 1 << 20, 0, &block) == UMF_RESULT_SUCCESS);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % page == 0);
    void *other = nullptr;
    CHECK(ops.alloc(provider, 16 << 20, 1 << 21, &other) == UMF_RESULT_ERROR_OUT_OF_HOST_MEMORY && other == nullptr);
    CHECK(ops.free(provider, block, 1 << 20) == UMF_RESULT_SUCCESS);
    CHECK(ops.finalize(provider) == UMF_RESULT_SUCCESS);
    is_empty(heap);
}

void openvino_tensors()
{
    weir_heap *heap = heap_with(8 << 20, 0);
    weir_heap *second = heap_with(8 << 20, 0);
    const weir::openvino_allocator allocator(heap);
    const weir::openvino_allocator copy = allocator;
    CHECK(allocator.is_equal(copy) && !allocator.is_equal(weir::openvino_allocator(second)));
    void *block = allocator.allocate(1 << 20, 256);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % 256 == 0);
    std::memset(block, 3, 1 << 20);
    copy.deallocate(block, 1 << 20, 256);
    CHECK(allocator.allocate(0, 16) == nullptr); /* a tensor without elements */
    bool threw = false;
    try {
        static_cast<void>(allocator.allocate(16 << 20, 64));
    } catch (const std::bad_alloc &) {
        threw = true;
    }
    CHECK(threw);
    is_empty(heap);
    is_empty(second);
}

/* TVM's own device of the CPU, before the adapter takes its place. */
class own_cpu final : public tvm::runtime::DeviceAPI
{
  public:
    void SetDevice(tvm::Device) override {}
    void GetAttr(tvm::Device, tvm::runtime::DeviceAttrKind, tvm::ffi::Any *value) override { value->pointer = this; }
    void *AllocDataSpace(tvm::Device, std::size_t, std::size_t, DLDataType) override { return nullptr; }
    void FreeDataSpace(tvm::Device, void *) override {}
    void StreamSync(tvm::Device, TVMStreamHandle) override {}

  protected:
    void CopyDataFromTo(const void *, std::size_t, void *, std::size_t, std::size_t, tvm::Device, tvm::Device,
                        DLDataType, TVMStreamHandle) override
    {
        CHECK(false);
    }
};

void tvm_tensors()
{
    using tvm::runtime::DeviceAPI;
    static own_cpu own;
    const tvm::Device cpu = {kDLCPU, 0};
    weir_heap *heap = heap_with(8 << 20, 0);
    tvm::ffi::Function::SetGlobal("device_api.cpu",
                                  tvm::ffi::Function::FromTyped([] { return static_cast<void *>(&own); }), false);
    weir::tvm_device_api::install(heap);
    DeviceAPI *api = DeviceAPI::Get(cpu);
    CHECK(api != &own && api->SupportsDevicePointerArithmeticsOnHost());
    tvm::ffi::Any attribute = {nullptr};
    api->GetAttr(cpu, tvm::runtime::kTotalGlobalMemory, &attribute);
    CHECK(attribute.pointer == &own);
    const std::int64_t shape[] = {100, 1000};
    DLTensor from = {api->AllocDataSpace(cpu, 2, shape, {2, 32, 1}), cpu, 400000};
    DLTensor to = {api->AllocDataSpace(cpu, 2, shape, {2, 32, 1}), cpu, 400000};
    CHECK(weir_heap_usable_size(heap, from.data) >= from.bytes);
    std::memset(from.data, 9, from.bytes);
    api->CopyDataFromTo(&from, &to, nullptr);
    CHECK(std::memcmp(from.data, to.data, from.bytes) == 0);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([api, cpu] {
            for (std::size_t size = 0; size < 1 << 20; size += size / 3 + 1) {
                void *block = api->AllocWorkspace(cpu, size);
                CHECK(block != nullptr && reinterpret_cast<std::uintptr_t>(block) % 64 == 0);
                api->FreeWorkspace(cpu, block);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    std::string reason;
    try {
        static_cast<void>(api->AllocDataSpace(cpu, 16 << 20, 64, {2, 32, 1}));
    } catch (const std::runtime_error &error) {
        reason = error.what();
    }
    CHECK(reason.find("MemoryError: heap: no memory for 16777216 bytes") == 0);
    api->FreeDataSpace(cpu, from.data);
    api->FreeDataSpace(cpu, to.data);
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    CHECK(weir_heap_get_stats(heap, &stats) == WEIR_OK && stats.live_blocks == 0 && stats.bad_frees == 0);
    CHECK(weir_heap_destroy(heap) == WEIR_OK);
}

} // namespace

int main()
{
    ncnn_blobs();
    openvino_tensors();
    tvm_tensors();
    umf_pool();
    umf_provider();
    std::puts("adapters: ncnn, OpenVINO, TVM, UMF");
    return 0;
}
