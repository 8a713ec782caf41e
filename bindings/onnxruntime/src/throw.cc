// throw.cc: the one thing that C cannot do for ONNX Runtime. What is thrown is a std::bad_alloc whose text says more; it needs no
// memory but what the C++ runtime keeps for this case.
#include "runtime.h"

#include <cstdio>
#include <new>

namespace
{

class out_of_memory final : public std::bad_alloc
{
  public:
    explicit out_of_memory(const char *text) noexcept
    {
        (void)std::snprintf(text_, sizeof(text_), "weir: %s",
                            text[0] != '\0' ? text : "out of memory");
    }
    const char *what() const noexcept override { return text_; }

  private:
    char text_[400];
};

} // namespace

void weir__onnxruntime_throw(const char *text)
{
    throw out_of_memory(text);
}
