/* torch_tags.h: the tags and stacks of the allocations in a PyTorch or torch_npu memory snapshot.
 *
 * A tag is the text of the frame that a person looks for, with the labels that the program or the profiler gave the
 * allocation. README.md has the rules. Every combination of a stack and labels is one tag.
 */
#ifndef WEIR_BENCHMARKS_TORCH_TAGS_H
#define WEIR_BENCHMARKS_TORCH_TAGS_H

#include "pickle.h"

struct torch_frame;
struct torch_stack;
struct torch_tag;

/* The initializer is {.builder = ..., .walk = ...}; both must outlive the struct. */
struct torch_tags {
    struct trace_builder *builder;
    struct pickle_walk *walk;
    struct id_map frame_by_hash;
    struct torch_frame *frames; /* frames of different text */
    uint32_t frame_count;
    size_t frame_capacity;
    struct id_map stack_by_hash;
    struct torch_stack *stacks; /* different stacks */
    uint32_t stack_count;
    size_t stack_capacity;
    uint32_t *stack_frames; /* the frames of all stacks */
    size_t stack_frame_count;
    size_t stack_frame_capacity;
    size_t stack_bytes;
    struct id_map tag_by_hash;
    struct torch_tag *tags;
    uint32_t tag_count;
    size_t tag_capacity;
};

/* Sets *tag to the tag of an event or a block of a snapshot, WEIR_TRACE_NONE if it has neither frames nor labels.
 * Returns false, with the error filled in, when out of memory or at the end of the walk. */
bool torch_tags_find(struct torch_tags *tags, const struct pickle_value *event, uint32_t *tag);

/* Frees the tables. The tags and stacks stay in the trace. */
void torch_tags_free(struct torch_tags *tags);

#endif
