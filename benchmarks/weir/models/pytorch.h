/* pytorch.h: PyTorch's native caching allocator as a weir strategy, exact to the address.
 *
 * A lane stands for a stream. All memory of a region belongs to the lane for which the region was added, until the
 * region is removed: a block is freed into the lane that it was allocated from (or into the open lane if no work is
 * pending), after all other uses have ended. README.md has the complete rules and lists the parts that are not
 * modelled.
 */
#ifndef WEIR_BENCHMARKS_MODELS_PYTORCH_H
#define WEIR_BENCHMARKS_MODELS_PYTORCH_H

#include <weir/strategy.h>

#define MODEL_PYTORCH_GRANULE UINT64_C(512)
#define MODEL_PYTORCH_SMALL_BYTES (UINT64_C(1) << 20)         /* largest rounded size of the small pool */
#define MODEL_PYTORCH_SMALL_SEGMENT_BYTES (UINT64_C(2) << 20) /* a segment of the small pool */

typedef struct model_pytorch_config {
    size_t struct_size;
    /* bytes that are added to each request before it is rounded, at most 511; PyTorch adds 0, torch_npu 32 */
    uint64_t pad_bytes;
} model_pytorch_config;

#define MODEL_PYTORCH_CONFIG_INIT WEIR_STRUCT_INIT(model_pytorch_config)

/* Returns the table for weir_pool_config. The table is constant; thread-safe. */
const weir_strategy_ops *model_pytorch_strategy(void);

/* Returns the padded and rounded size of a request; UINT64_MAX if it is too large to round. */
uint64_t model_pytorch_round(uint64_t size, uint64_t pad_bytes);
/* Returns the size of the new segment for a rounded size that no free block fits. */
uint64_t model_pytorch_segment_bytes(uint64_t rounded);

/* How model_pytorch_place treats the free bytes between the placed block and the end of its free range. */
enum model_pytorch_rest {
    MODEL_PYTORCH_REST_BY_RULE, /* too few bytes for PyTorch to split off become part of the placed block */
    MODEL_PYTORCH_REST_FREE,    /* the free bytes stay a free block; the placed block has exactly its size */
};

/* Takes a block of `size` bytes at `address`, regardless of best fit, for the check against a recording. If a free
 * front is left that the allocator would never have split off, it goes to the taken block before it: the recorded size
 * of that block was too small. WEIR_ERR_NO_MEMORY unless address and size are multiples of the granule and the block
 * lies in one free range of `region`; WEIR_ERR_INTERNAL when out of host memory for the model's records. Cost: linear
 * in the ranges of the region, counted from its end. */
weir_status model_pytorch_place(void *state, void *region, uint64_t address, uint64_t size,
                                enum model_pytorch_rest rest, weir_range *range);

#endif
