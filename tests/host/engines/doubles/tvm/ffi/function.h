/* function.h: a double of TVM's global functions, as many as make and find the DeviceAPI of the CPU. */
#ifndef DOUBLE_TVM_FFI_FUNCTION_H
#define DOUBLE_TVM_FFI_FUNCTION_H

#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

namespace tvm::ffi
{

struct Any {
    void *pointer;

    template <class T> T cast() const { return static_cast<T>(pointer); }
};

class Function
{
  public:
    template <class Callable> static Function FromTyped(Callable call) { return Function{call}; }

    static Function GetGlobalRequired(const std::string &name) { return globals().at(name); }

    static void SetGlobal(const std::string &name, const Function &function, bool override)
    {
        if (!globals().insert({name, function}).second && override) {
            globals()[name] = function;
        }
    }

    Any operator()() const { return {call_()}; }

    Function() = default;

  private:
    explicit Function(std::function<void *()> call) : call_(std::move(call)) {}

    static std::map<std::string, Function> &globals()
    {
        static std::map<std::string, Function> all;
        return all;
    }

    std::function<void *()> call_;
};

/* Throws at the end of the statement, as TVM's macro does. */
class Thrower
{
  public:
    explicit Thrower(const char *kind) { text_ << kind << ": "; }

    [[noreturn]] ~Thrower() noexcept(false) { throw std::runtime_error(text_.str()); }

    std::ostream &stream() { return text_; }

  private:
    std::ostringstream text_;
};

} // namespace tvm::ffi

#define TVM_FFI_THROW(kind) ::tvm::ffi::Thrower(#kind).stream()

#endif
