/* weir_c10.hpp: a heap behind libtorch's tensors on the CPU.
 *
 *     weir::c10_allocator::install(heap);      once, before the first tensor
 *
 * libtorch keeps the allocator for the life of the process and frees a tensor by its address alone. So there is one
 * heap for the process, and it is never destroyed. All threads of libtorch may allocate and free. Out of memory: a
 * c10::Error with the heap's reason. libtorch reads no byte behind a block and needs blocks at multiples of 64,
 * which the adapter asks for: a heap's defaults serve it. Libraries below libtorch take their memory (oneDNN's
 * scratchpads, OpenMP) from malloc, not from the heap.
 */
#ifndef WEIR_C10_HPP
#define WEIR_C10_HPP

#include <c10/core/Allocator.h>
#include <weir/heap.h>

#include <cstddef>
#include <cstring>

namespace weir
{

class c10_allocator final : public c10::Allocator
{
  public:
    /* Makes the heap libtorch's allocator for the CPU. libtorch keeps the heap until the process ends. */
    static void install(weir_heap *heap)
    {
        static c10_allocator allocator;
        heap_of_process() = heap;
        c10::SetAllocator(c10::DeviceType::CPU, &allocator, 1); /* libtorch's own allocator has priority 0 */
    }

    /* `allocate` is const in libtorch before 2.3 and not const from 2.3 on: one of these two functions overrides it. */
    c10::DataPtr allocate(std::size_t bytes) const { return block_of(bytes); }
    c10::DataPtr allocate(std::size_t bytes) { return block_of(bytes); }

    c10::DeleterFnPtr raw_deleter() const override { return free_block; }

    /* Pure virtual in libtorch 2.3 and later. */
    virtual void copy_data(void *to, const void *from, std::size_t bytes) const { std::memcpy(to, from, bytes); }

  private:
    static weir_heap *&heap_of_process()
    {
        static weir_heap *heap;
        return heap;
    }

    static void free_block(void *block) { static_cast<void>(weir_heap_free(heap_of_process(), block)); }

    static c10::DataPtr block_of(std::size_t bytes)
    {
        void *block = weir_heap_alloc_aligned(heap_of_process(), bytes, 64);
        if (block == nullptr && bytes != 0) {
            char reason[1024];
            static_cast<void>(weir_heap_explain(heap_of_process(), reason, sizeof(reason)));
            TORCH_CHECK(false, reason);
        }
        return {block, block, free_block, c10::Device(c10::DeviceType::CPU)};
    }
};

} // namespace weir

#endif
