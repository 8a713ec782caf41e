/* device_api.h: a double of TVM's DeviceAPI, with the functions that a device of the CPU has or inherits. */
#ifndef DOUBLE_TVM_RUNTIME_DEVICE_API_H
#define DOUBLE_TVM_RUNTIME_DEVICE_API_H

#include <tvm/ffi/function.h>

#include <cstddef>
#include <cstdint>

typedef void *TVMStreamHandle;
enum DLDeviceType { kDLCPU = 1 };
struct DLDevice {
    DLDeviceType device_type;
    int32_t device_id;
};
struct DLDataType {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
};
struct DLTensor {
    void *data;
    DLDevice device;
    std::size_t bytes;
};

namespace tvm
{

using Device = DLDevice;

namespace runtime
{

enum DeviceAttrKind { kExist = 0, kTotalGlobalMemory = 14 };

class DeviceAPI
{
  public:
    virtual ~DeviceAPI() = default;
    virtual void SetDevice(Device device) = 0;
    virtual void GetAttr(Device device, DeviceAttrKind kind, ffi::Any *value) = 0;
    virtual void *AllocDataSpace(Device device, std::size_t bytes, std::size_t alignment, DLDataType hint) = 0;
    virtual void FreeDataSpace(Device device, void *block) = 0;
    virtual void StreamSync(Device device, TVMStreamHandle stream) = 0;
    virtual bool SupportsDevicePointerArithmeticsOnHost() { return false; }

    virtual void *AllocDataSpace(Device device, int dimensions, const int64_t *shape, DLDataType type)
    {
        std::size_t bytes = type.bits / 8u;
        for (int i = 0; i < dimensions; i++) {
            bytes *= static_cast<std::size_t>(shape[i]);
        }
        return AllocDataSpace(device, bytes, 64, type);
    }

    virtual void CopyDataFromTo(DLTensor *from, DLTensor *to, TVMStreamHandle stream)
    {
        CopyDataFromTo(from->data, 0, to->data, 0, from->bytes, from->device, to->device, {}, stream);
    }

    virtual void *AllocWorkspace(Device device, std::size_t bytes) { return AllocDataSpace(device, bytes, 64, {}); }
    virtual void FreeWorkspace(Device device, void *block) { FreeDataSpace(device, block); }

    /* Found once, and kept. */
    static DeviceAPI *Get(Device)
    {
        static auto *found = ffi::Function::GetGlobalRequired("device_api.cpu")().cast<DeviceAPI *>();
        return found;
    }

  protected:
    virtual void CopyDataFromTo(const void *from, std::size_t from_offset, void *to, std::size_t to_offset,
                                std::size_t bytes, Device from_device, Device to_device, DLDataType hint,
                                TVMStreamHandle stream) = 0;
};

} // namespace runtime
} // namespace tvm

#endif
