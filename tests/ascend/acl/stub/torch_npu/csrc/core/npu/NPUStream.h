/* The parts of torch_npu that weir_torch_npu.cpp needs, with classes that are laid out, copied and destroyed as
 * torch_npu's are. The program that includes this file defines the functions that are only declared here. */
#ifndef STUB_NPU_STREAM_H
#define STUB_NPU_STREAM_H

#include <acl/acl.h>

#include <cstdint>
#include <utility>

namespace c10
{

using DeviceIndex = std::int8_t;
using StreamId = std::int64_t;

struct Device {
    std::int8_t type;
    DeviceIndex index;
};

class Stream final
{
  public:
    Stream(Device device, StreamId id) : device_(device), id_(id) {}
    DeviceIndex device_index() const { return device_.index; }
    StreamId id() const { return id_; }

  private:
    Device device_;
    StreamId id_;
};

using CaptureId_t = unsigned long long;
using MempoolId_t = std::pair<CaptureId_t, CaptureId_t>;

} // namespace c10

namespace c10_npu
{

#ifndef STUB_OLD_TORCH /* releases before 7.0 have no pools of graphs */
using c10::MempoolId_t;
#endif

/* C++ passes an NPUStream by a hidden pointer, because it has a destructor of its own. */
class NPUStream
{
  public:
    explicit NPUStream(c10::Stream stream) : stream_(stream) {}
    NPUStream(const NPUStream &) = default;
    ~NPUStream() {}
    aclrtStream stream(const bool need_empty) const;
    c10::StreamId id() const { return stream_.id(); }

  private:
    c10::Stream stream_;
};

bool npuSynchronizeDevice(bool check_error = true);

} // namespace c10_npu

#endif
