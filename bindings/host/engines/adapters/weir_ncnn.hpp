/* weir_ncnn.hpp: a heap behind ncnn's blobs and workspaces.
 *
 *     weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
 *     config.slack_bytes = weir::ncnn_slack_bytes;
 *     weir_heap_create(&config, &heap);
 *     weir::ncnn_allocator allocator(heap);
 *     net.opt.blob_allocator = net.opt.workspace_allocator = &allocator;     before load_param
 *
 * ncnn's kernels read up to 64 bytes behind a block (NCNN_MALLOC_OVERREAD). The heap and the allocator outlive the Net,
 * every Extractor and every output Mat, which frees itself through its allocator. Any thread may use one allocator. Out
 * of memory: an empty Mat, as with ncnn's own; ncnn's layers then return -100. Weights come from malloc, not from the
 * heap.
 */
#ifndef WEIR_NCNN_HPP
#define WEIR_NCNN_HPP

#include <allocator.h> /* ncnn's header */
#include <weir/heap.h>

#include <cstddef>

namespace weir
{

constexpr std::size_t ncnn_slack_bytes = 64;
constexpr std::size_t ncnn_align = 64; /* alignment that ncnn's vector loads need */

class ncnn_allocator final : public ncnn::Allocator
{
  public:
    /* Borrows the heap. */
    explicit ncnn_allocator(weir_heap *heap) : heap_(heap) {}

    void *fastMalloc(std::size_t bytes) override { return weir_heap_alloc_aligned(heap_, bytes, ncnn_align); }

    void fastFree(void *block) override { static_cast<void>(weir_heap_free(heap_, block)); }

  private:
    weir_heap *heap_;
};

} // namespace weir

#endif
