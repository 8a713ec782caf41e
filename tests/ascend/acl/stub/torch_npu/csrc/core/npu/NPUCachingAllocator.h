/* A double, like NPUStream.h: the memory statistics of a device. */
#ifndef STUB_NPU_CACHING_ALLOCATOR_H
#define STUB_NPU_CACHING_ALLOCATOR_H

#include <array>
#include <cstdint>

namespace c10_npu
{
namespace NPUCachingAllocator
{

struct Stat {
    std::int64_t current = 0;
    std::int64_t peak = 0;
    std::int64_t allocated = 0;
    std::int64_t freed = 0;
};

using StatArray = std::array<Stat, 3>;

struct DeviceStats {
    StatArray allocation;
    StatArray segment;
    StatArray active;
    StatArray inactive_split;
    StatArray allocated_bytes;
    StatArray reserved_bytes;
    StatArray active_bytes;
    StatArray inactive_split_bytes;
    StatArray requested_bytes;
    std::int64_t num_alloc_retries = 0;
    std::int64_t num_ooms = 0;
    Stat oversize_allocations;
    Stat oversize_segments;
#ifndef STUB_OLD_TORCH
    std::int64_t num_sync_all_streams = 0;
    std::int64_t num_device_alloc = 0;
    std::int64_t num_device_free = 0;
#endif
    std::int64_t max_split_size = 0;
};

} // namespace NPUCachingAllocator
} // namespace c10_npu

#endif
