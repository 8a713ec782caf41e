/* weir_onednn.hpp: a heap behind oneDNN's memory objects, scratchpads and graph partitions on the CPU.
 *
 *     weir::onednn_memory source(heap, desc, engine);             in the place of dnnl::memory source(desc, engine)
 *
 *     attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);      by default oneDNN keeps a scratchpad of its own
 *     weir::onednn_memory scratch(heap, primitive_desc.scratchpad_desc(), engine);
 *     primitive.execute(stream, {..., {DNNL_ARG_SCRATCHPAD, scratch.get()}});
 *
 *     weir::onednn_graph_allocator::use(heap);                    oneDNN 3 and later: memory of compiled partitions
 *     dnnl::engine engine = dnnl::graph::make_engine_with_allocator(dnnl::engine::kind::cpu, 0,
 *                                                                   weir::onednn_graph_allocator::get());
 *
 * A memory object frees its block when it ends: it outlives the work that uses the block, which for a stream of the CPU
 * means until stream.wait() has returned. The heap outlives all of them. Any thread may use one heap. oneDNN reads no
 * byte behind a block and is fast at multiples of 64, which the adapter asks for. Out of memory: std::bad_alloc; a
 * partition that gets no memory returns dnnl::status::out_of_memory as a dnnl::error. Weights that oneDNN reorders
 * into memory objects of the caller are long-lived: pass weir::onednn_memory::long_lived.
 */
#ifndef WEIR_ONEDNN_HPP
#define WEIR_ONEDNN_HPP

#include <oneapi/dnnl/dnnl.hpp>
#include <weir/heap.h>

#if __has_include(<oneapi/dnnl/dnnl_graph.hpp>)
#include <oneapi/dnnl/dnnl_graph.hpp>
#endif

#include <cstddef>
#include <memory>
#include <new>

namespace weir
{

class onednn_memory final
{
  public:
    enum lifetime { short_lived, long_lived };

    /* Borrows the heap. */
    onednn_memory(weir_heap *heap, const dnnl::memory::desc &desc, const dnnl::engine &engine,
                  lifetime kind = short_lived)
        : block_(block_of(heap, desc.get_size(), kind), deleter{heap}), memory_(desc, engine, block_.get())
    {
    }

    dnnl::memory &get() { return memory_; }

  private:
    struct deleter {
        weir_heap *heap;

        void operator()(void *block) const { static_cast<void>(weir_heap_free(heap, block)); }
    };

    static void *block_of(weir_heap *heap, std::size_t bytes, lifetime kind)
    {
        void *block =
            kind == long_lived ? weir_heap_alloc_long_lived(heap, bytes, 64) : weir_heap_alloc_aligned(heap, bytes, 64);
        if (block == nullptr && bytes != 0) { /* 0 bytes: the primitive needs no scratchpad */
            throw std::bad_alloc();
        }
        return block;
    }

    std::unique_ptr<void, deleter> block_;
    dnnl::memory memory_;
};

#ifdef ONEAPI_DNNL_DNNL_GRAPH_HPP

/* oneDNN's graph interface calls functions without a context, so there is one heap for the process. */
class onednn_graph_allocator final
{
  public:
    /* Borrows the heap: it must outlive every engine that uses the allocator. */
    static void use(weir_heap *heap) { heap_of_process() = heap; }

    static dnnl::graph::allocator get() { return dnnl::graph::allocator(allocate, deallocate); }

  private:
    static weir_heap *&heap_of_process()
    {
        static weir_heap *heap;
        return heap;
    }

    static void *allocate(std::size_t bytes, std::size_t alignment)
    {
        return weir_heap_alloc_aligned(heap_of_process(), bytes, alignment);
    }

    static void deallocate(void *block) { static_cast<void>(weir_heap_free(heap_of_process(), block)); }
};

#endif

} // namespace weir

#endif
