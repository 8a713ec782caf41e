/* weir/pmr.hpp: a heap as a std::pmr::memory_resource (C++17).
 *
 *     weir::heap_resource resource(heap);
 *     std::pmr::vector<float> activations(&resource);
 *
 * The heap is borrowed and outlives the resource, which outlives its containers. Several resources may use one heap:
 * they compare equal (where the program is compiled with RTTI), and one may free the blocks of another. A failure
 * throws std::bad_alloc; weir_heap_explain gives the reason.
 */
#ifndef WEIR_PMR_HPP
#define WEIR_PMR_HPP

#include <weir/heap.h>

#include <cstddef>
#include <memory_resource>
#include <new>

namespace weir
{

class heap_resource final : public std::pmr::memory_resource
{
  public:
    /* The resource borrows the heap. */
    explicit heap_resource(weir_heap *heap) noexcept : heap_(heap) {}

    /* Returns the heap that the resource allocates from. */
    weir_heap *heap() const noexcept { return heap_; }

  private:
    /* A request of size 0 gets a block of its own, as the standard requires. */
    void *do_allocate(std::size_t bytes, std::size_t alignment) override
    {
        void *block = weir_heap_alloc_aligned(heap_, bytes != 0 ? bytes : 1, alignment);
        if (block == nullptr) {
            throw std::bad_alloc();
        }
        return block;
    }

    void do_deallocate(void *block, std::size_t, std::size_t) override
    {
        static_cast<void>(weir_heap_free(heap_, block));
    }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
#if defined(__cpp_rtti) || defined(_CPPRTTI)
        const auto *resource = dynamic_cast<const heap_resource *>(&other);
        return resource != nullptr && resource->heap_ == heap_;
#else
        return this == &other;
#endif
    }

    weir_heap *heap_;
};

} // namespace weir

#endif
