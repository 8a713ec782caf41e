/* ge_allocator.h: a double of the graph engine's allocator interface (CANN's ge/ge_allocator.h), written from its
 * public documentation: the classes, functions and order of virtual functions that weir_ge.hpp and engine code use. A
 * block counts its users; the last Free gives it back to its allocator. */
#ifndef WEIR_TEST_GE_ALLOCATOR_H
#define WEIR_TEST_GE_ALLOCATOR_H

#include <cstddef>
#include <memory>

namespace ge
{

class MemBlock;

class Allocator
{
  public:
    Allocator() = default;
    Allocator(const Allocator &) = delete;
    Allocator &operator=(const Allocator &) = delete;
    virtual ~Allocator() = default;
    virtual MemBlock *Malloc(size_t size) = 0;
    virtual void Free(MemBlock *block) = 0;
    virtual MemBlock *MallocAdvise(size_t size, void *) { return Malloc(size); }
};

class MemBlock
{
  public:
    MemBlock(Allocator &owner, void *address, size_t size) : owner_(owner), address_(address), size_(size) {}
    virtual ~MemBlock() = default;
    void *GetAddr() { return address_; }
    size_t GetSize() const { return size_; }
    size_t AddCount() { return ++users_; }
    void Free()
    {
        if (users_ > 0 && --users_ == 0) {
            owner_.Free(this);
        }
    }

  private:
    Allocator &owner_;
    void *address_;
    size_t users_ = 1;
    size_t size_;
};

using AllocatorPtr = std::shared_ptr<Allocator>;

} // namespace ge

#endif
