/* weir_openvino.hpp: a heap behind the tensors that a program makes for OpenVINO.
 *
 *     ov::Tensor input(ov::element::f32, shape, weir::openvino_allocator(heap));
 *     request.set_input_tensor(input);      likewise outputs: the model then reads and writes the heap's memory
 *
 * OpenVINO 2022.3 and later take any class with these three functions. The heap outlives every tensor and every request
 * that holds one. Any thread may free. OpenVINO asks for multiples of up to 64 and reads no byte behind a block: a
 * heap's defaults serve it. Out of memory: std::bad_alloc, from the tensor's constructor. Memory that plugins take for
 * themselves (weights, intermediate tensors) does not come from the heap.
 */
#ifndef WEIR_OPENVINO_HPP
#define WEIR_OPENVINO_HPP

#include <weir/heap.h>

#include <cstddef>
#include <new>

namespace weir
{

class openvino_allocator final
{
  public:
    /* Borrows the heap. */
    explicit openvino_allocator(weir_heap *heap) : heap_(heap) {}

    void *allocate(std::size_t bytes, std::size_t alignment) const
    {
        void *block = weir_heap_alloc_aligned(heap_, bytes, alignment);
        if (block == nullptr && bytes != 0) {
            throw std::bad_alloc();
        }
        return block;
    }

    void deallocate(void *block, std::size_t, std::size_t) const noexcept
    {
        static_cast<void>(weir_heap_free(heap_, block));
    }

    bool is_equal(const openvino_allocator &other) const noexcept { return heap_ == other.heap_; }

  private:
    weir_heap *heap_;
};

} // namespace weir

#endif
