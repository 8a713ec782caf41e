// tests/host/preload/operators.cc: C++'s operators new and delete. The checks hold with the C++ library's own operators
// too. Prints each check that fails.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

static int failures;
static int handled;
static volatile std::size_t huge = SIZE_MAX / 4;

static void check(bool holds, const char *what)
{
    if (!holds) {
        failures++;
        std::printf("FAILED: %s\n", what);
    }
}

struct alignas(256) wide {
    char bytes[256];
};

// Gives up after the second call, by taking itself away.
static void handler()
{
    if (++handled == 2) {
        std::set_new_handler(nullptr);
    }
}

template <typename F> static bool throws(F f)
{
    try {
        f();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

int main()
{
    void *kept = nullptr;
    auto *one = new wide;
    auto *many = new wide[10];
    check(reinterpret_cast<std::uintptr_t>(one) % 256 == 0, "new of an aligned type is aligned");
    check(reinterpret_cast<std::uintptr_t>(many) % 256 == 0, "new[] of an aligned type is aligned");
    delete one;
    delete[] many;
    one = new (std::nothrow) wide;
    ::operator delete(one, std::align_val_t(256), std::nothrow);
    check(throws([&] { kept = ::operator new(huge); }), "new throws std::bad_alloc");
    check(throws([&] { kept = ::operator new[](huge); }), "new[] throws std::bad_alloc");
    check(throws([&] { kept = ::operator new(huge, std::align_val_t(64)); }), "aligned new throws std::bad_alloc");
    check(throws([&] { kept = ::operator new[](huge, std::align_val_t(64)); }), "aligned new[] throws std::bad_alloc");
    check(::operator new(huge, std::nothrow) == nullptr, "nothrow new returns NULL");
    check(::operator new[](huge, std::nothrow) == nullptr, "nothrow new[] returns NULL");
    check(::operator new(huge, std::align_val_t(64), std::nothrow) == nullptr, "aligned nothrow new returns NULL");
    check(::operator new[](huge, std::align_val_t(64), std::nothrow) == nullptr, "aligned nothrow new[] returns NULL");
    std::set_new_handler(handler);
    check(throws([&] { kept = ::operator new(huge); }) && handled == 2, "new calls the new_handler until it gives up");
    check(kept == nullptr, "none of these returned");
    std::vector<std::string> words;
    for (int i = 0; i < 100000; i++) {
        words.push_back(std::string(static_cast<std::size_t>(i % 100), 'x'));
    }
    check(words[99].size() == 99, "strings in a vector");
    std::free(::operator new(100)); // as many programs do
    std::vector<char *> blocks;
    for (std::size_t i = 0; i < 10000; i++) {
        blocks.push_back(new char[10000]);
    }
    for (char *block : blocks) {
        delete[] block;
    }
    std::printf("%d failures\n", failures);
    return failures != 0;
}
