/* pytorch.h: PyTorch's native caching allocator as a weir strategy, exact to the address.
 *
 * A lane stands for a stream. All memory of a region belongs to the lane that the region was added for, until the
 * region is removed: a block is freed into the lane that it was allocated from (or into the open lane, which says that
 * no work is pending), once nothing else touches it. README.md has the rules in full and what is not modelled.
 */
#ifndef WEIR_BENCHMARKS_MODELS_PYTORCH_H
#define WEIR_BENCHMARKS_MODELS_PYTORCH_H

#include <weir/strategy.h>

#define MODEL_PYTORCH_GRANULE UINT64_C(512)
#define MODEL_PYTORCH_SMALL_BYTES (UINT64_C(1) << 20) /* largest rounded size of the small pool */
#define MODEL_PYTORCH_SMALL_SEGMENT_BYTES (UINT64_C(2) << 20) /* a segment of the small pool */

typedef struct model_pytorch_config {
    size_t struct_size;
    uint64_t
        pad_bytes; /* added to each request before it is rounded, below 512: 0 for PyTorch, 32 for torch_npu */
} model_pytorch_config;

#define MODEL_PYTORCH_CONFIG_INIT WEIR_STRUCT_INIT(model_pytorch_config)

/* The table for weir_pool_config. Constant; thread-safe. */
const weir_strategy_ops *model_pytorch_strategy(void);

/* What a request becomes: padded and rounded up. UINT64_MAX when it is too large to round. */
uint64_t model_pytorch_round(uint64_t size, uint64_t pad_bytes);
/* The size of the segment that a rounded size is given when nothing fits. */
uint64_t model_pytorch_segment_bytes(uint64_t rounded);

/* How model_pytorch_place ends the block. */
enum model_pytorch_rest {
    MODEL_PYTORCH_REST_BY_RULE, /* the block keeps a rest that the allocator would not split off */
    MODEL_PYTORCH_REST_FREE,    /* the block has exactly the given size */
};

/* For the check against a recording: takes a block of `size` bytes at `address`, whatever best fit
 * would say. A free front that this leaves and that the allocator would never have split off goes
 * to the taken block before it, whose size was known too small. WEIR_ERR_NO_MEMORY unless address
 * and size are multiples of the granule and all of it lies in one free range of `region`;
 * WEIR_ERR_INTERNAL when there is no memory for the model's own records. Cost: linear in the ranges
 * of the region, counted from its end. */
weir_status model_pytorch_place(void *state, void *region, uint64_t address, uint64_t size,
                                enum model_pytorch_rest rest, weir_range *range);

#endif
