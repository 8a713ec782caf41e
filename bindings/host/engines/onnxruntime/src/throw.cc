// throw.cc: throws the exception that ONNX Runtime expects, which C cannot do. It is a std::bad_alloc with a longer
// text; it needs no memory except the reserve that the C++ runtime keeps for exceptions.
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
        (void)std::snprintf(text_, sizeof(text_), "weir: %s", text[0] != '\0' ? text : "out of memory");
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
