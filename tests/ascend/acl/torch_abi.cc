/* torch_abi.cc: the caller in C++, which calls functions of C by the types that torch uses for them. All arguments must
 * arrive unchanged, and the types that weir/torch.h and the shim declare as passed by a hidden pointer must be passed
 * by a hidden pointer. */
#include "torch_abi.h"

#include <cstdint>
#include <cstdio>
#include <functional>
#include <utility>

#include <torch_npu/csrc/core/npu/NPUStream.h>

extern "C" {
extern received abi_received;
void abi_end();
void abi_begin();
void abi_fraction();
void abi_small();
void abi_flag();
void abi_record();
}

namespace
{

/* Converts a number that the compiler does not know, like an address from dlsym. */
template <typename T> std::function<T> by_address(void (*function)())
{
    const volatile std::uint64_t address = reinterpret_cast<std::uint64_t>(function);
    return reinterpret_cast<T *>(address);
}

int failures;

void check(bool good, const char *what)
{
    if (!good) {
        (void)std::fprintf(stderr, "does not arrive: %s\n", what);
        failures++;
    }
}

using Id = std::pair<unsigned long long, unsigned long long>;
using Filter = std::function<bool(void *)>;

} // namespace

int main()
{
    const Id id{0x0123456789abcdefULL, 0xfedcba9876543210ULL};
    by_address<void(int, Id)>(abi_end)(-7, id);
    check(abi_received.device == -7 && abi_received.id.first == id.first && abi_received.id.second == id.second,
          "a pool's name, two numbers in a pair");
    abi_received = received();
    const Filter filter = [](void *stream) { return stream != nullptr; };
    by_address<void(int, Id, Filter)>(abi_begin)(5, id, filter);
    check(abi_received.device == 5 && abi_received.id.second == id.second, "a pool's name before a std::function");
    const auto distance = reinterpret_cast<const char *>(abi_received.hidden) - reinterpret_cast<const char *>(&filter);
    check(distance < 65536 && distance > -65536, "a std::function by a hidden pointer to a copy on the stack");
    by_address<void(double, int)>(abi_fraction)(0.625, 3);
    check(abi_received.fraction == 0.625 && abi_received.device == 3, "a fraction");
    by_address<void(std::int8_t)>(abi_small)(-1);
    check(abi_received.small == -1, "a device index of 8 bits");
    by_address<void(int)>(abi_small)(63); /* older versions */
    check(abi_received.small == 63, "a device index of 32 bits");
    by_address<void(bool)>(abi_flag)(true);
    check(abi_received.flag, "a flag");
    const c10_npu::NPUStream stream(c10::Stream(c10::Device{20, 1}, 42));
    std::int64_t seen = 0;
    by_address<void(void *, c10_npu::NPUStream)>(abi_record)(&seen, stream);
    const auto away = reinterpret_cast<const char *>(abi_received.hidden) - reinterpret_cast<const char *>(&stream);
    check(away < 65536 && away > -65536, "an NPUStream by a hidden pointer");
    return failures == 0 ? 0 : 1;
}
