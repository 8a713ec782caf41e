/* bindings/cuda/torch/src/cuda_host.cc: functions of libweir_torch_cuda.so that need C++: one throws an exception,
 * one takes a std::function. weir itself can build this file, because the C++ runtime's types are the same for every
 * compiler of the host. For the classes of torch_npu that is not so (shim/weir_torch_npu.cpp). */
#include <weir/torch_cuda.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <new>
#include <stdexcept>
#include <utility>

struct CUstream_st; // cudaStream_t is CUstream_st *

namespace
{

using Filter = std::function<bool(CUstream_st *)>;

// Throwing it needs no memory except the reserve that the C++ runtime keeps for exceptions.
class out_of_memory final : public std::bad_alloc
{
  public:
    out_of_memory(std::size_t size, int device) noexcept
    {
        const int begun =
            std::snprintf(text_, sizeof(text_), "weir: no block of %zu bytes on CUDA device %d. ", size, device);
        const std::size_t used = begun > 0 ? static_cast<std::size_t>(begun) : 0;
        (void)weir_torch_report(device, text_ + used, sizeof(text_) - used);
    }
    const char *what() const noexcept override { return text_; }

  private:
    char text_[2000];
};

bool ask(void *ctx, void *stream) noexcept
{
    try {
        return (*static_cast<Filter *>(ctx))(static_cast<CUstream_st *>(stream));
    } catch (...) {
        return false;
    }
}

void drop(void *ctx) noexcept
{
    delete static_cast<Filter *>(ctx);
}

} // namespace

void *weir_torch_cuda_malloc(std::size_t size, int device, void *stream)
{
    void *memory = weir_torch_alloc(size, device, stream);
    if (memory == nullptr && size != 0) {
        throw out_of_memory(size, device);
    }
    return memory;
}

extern "C" WEIR_API void weir_torch_cuda_pool_begin(int device, std::pair<unsigned long long, unsigned long long> id,
                                                    Filter filter)
{
    Filter *own = new Filter(std::move(filter));
    const weir_status status = weir_torch_pool_begin(device, {id.first, id.second}, *own ? ask : nullptr, own, drop);
    if (status != WEIR_OK) {
        delete own;
        char text[600] = "";
        if (status == WEIR_ERR_BUSY || status == WEIR_ERR_INVALID) {
            (void)std::snprintf(text, sizeof(text), "weir: %s", weir_torch_last_error());
        } else {
            (void)std::strcpy(text, "weir: no pool for a graph. ");
            (void)weir_torch_report(device, text + std::strlen(text), sizeof(text) - std::strlen(text));
        }
        throw std::runtime_error(text);
    }
}
