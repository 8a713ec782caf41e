/* weir_tvm.hpp: a heap behind TVM's tensors and workspaces on the CPU.
 *
 *     weir::tvm_device_api::install(heap);      once, before TVM's first use of its CPU device
 *
 * TVM looks the CPU's DeviceAPI up once, by the global function "device_api.cpu", and keeps it for the life of the
 * process. So there is one heap for the process, and it is never destroyed. Any thread may allocate and free. TVM asks
 * for multiples of 64 and reads no byte behind a block: a heap's defaults serve it. Out of memory: a MemoryError with
 * the heap's reason. The heap takes the place of TVM's pool of workspaces for each thread. TVM's virtual machine keeps
 * freed blocks by size unless its allocator is "naive"; with "naive" each tensor is a block of the heap.
 */
#ifndef WEIR_TVM_HPP
#define WEIR_TVM_HPP

#include <tvm/ffi/function.h>
#include <tvm/runtime/device_api.h>
#include <weir/heap.h>

#include <cstddef>
#include <cstring>

namespace weir
{

class tvm_device_api final : public tvm::runtime::DeviceAPI
{
  public:
    /* Makes the heap TVM's memory on the CPU. TVM keeps the heap until the process ends. Throws if TVM has used its CPU
     * device before. */
    static void install(weir_heap *heap)
    {
        constexpr char name[] = "device_api.cpu";
        const auto own = tvm::ffi::Function::GetGlobalRequired(name)().cast<void *>();
        static tvm_device_api api(static_cast<DeviceAPI *>(own), heap);
        const auto get = [] { return static_cast<void *>(static_cast<DeviceAPI *>(&api)); };
        tvm::ffi::Function::SetGlobal(name, tvm::ffi::Function::FromTyped(get), true);
        if (Get({kDLCPU, 0}) != &api) {
            TVM_FFI_THROW(RuntimeError) << "weir::tvm_device_api::install: TVM has used its CPU device before";
        }
    }

    void *AllocDataSpace(tvm::Device, std::size_t bytes, std::size_t alignment, DLDataType) override
    {
        void *block = weir_heap_alloc_aligned(heap_, bytes != 0 ? bytes : 1, alignment);
        if (block == nullptr) {
            char reason[1024];
            static_cast<void>(weir_heap_explain(heap_, reason, sizeof(reason)));
            TVM_FFI_THROW(MemoryError) << reason;
        }
        return block;
    }

    void FreeDataSpace(tvm::Device, void *block) override { static_cast<void>(weir_heap_free(heap_, block)); }

    void SetDevice(tvm::Device) override {}

    void StreamSync(tvm::Device, TVMStreamHandle) override {}

    void GetAttr(tvm::Device device, tvm::runtime::DeviceAttrKind kind, tvm::ffi::Any *value) override
    {
        own_->GetAttr(device, kind, value);
    }

    bool SupportsDevicePointerArithmeticsOnHost() override { return true; }

    using DeviceAPI::AllocDataSpace; /* the overload that takes a shape */

  protected:
    using DeviceAPI::CopyDataFromTo; /* the overload for tensors */

    void CopyDataFromTo(const void *from, std::size_t from_offset, void *to, std::size_t to_offset, std::size_t bytes,
                        tvm::Device, tvm::Device, DLDataType, TVMStreamHandle) override
    {
        std::memcpy(static_cast<char *>(to) + to_offset, static_cast<const char *>(from) + from_offset, bytes);
    }

  private:
    tvm_device_api(DeviceAPI *own, weir_heap *heap) : own_(own), heap_(heap) {}

    DeviceAPI *own_; /* TVM's own device API, which reports the CPU's attributes */
    weir_heap *heap_;
};

} // namespace weir

#endif
