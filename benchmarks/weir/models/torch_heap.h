/* torch_heap.h: PyTorch's native caching allocator and torch_npu's, with their settings, call for call over a device.
 *
 * Unlike the strategy of pytorch.h, which lives in a pool, this model does everything that the program does: it asks
 * the device, records and queries events, collects garbage, and when memory runs out it climbs the program's own
 * ladder and no other: garbage collection, memory from the device, blocks of the stream that are never split, then it
 * waits for its events, returns all idle segments and asks the device a last time. It does not look into its cache
 * again after that.
 * Guarantee: with the same calls and the same device, the same addresses (relative to the segments), the same device
 * calls in the same order, and the same failure as PyTorch 2.6 to 2.12, and as torch_npu of August 2026. The program's
 * own code was run over the simulated device to prove it: tests/command/command/torch_facts.txt has its answers.
 * Cost: O(log n) for n free blocks of a stream and pool; growing an expandable segment is linear in its blocks.
 * Counters: struct torch_heap_stats.
 *
 * Not modelled: private pools of captured graphs, whose blocks count as ordinary ones here.
 * Addition to the original: an alignment above 512 bytes takes a block that is large enough for the worst case.
 */
#ifndef WEIR_BENCHMARKS_MODELS_TORCH_HEAP_H
#define WEIR_BENCHMARKS_MODELS_TORCH_HEAP_H

#include <weir/device.h>
#include <weir/strategy.h>

#include "pytorch_settings.h"

struct torch_heap;

struct torch_heap_config {
    weir_device *device; /* borrowed */
    const struct pytorch_settings *settings;
    /* Makes the host wait for all work of the device, as cudaFree and aclrtSynchronizeDevice do. */
    weir_status (*wait_all)(void *ctx);
    void *ctx;
};

struct torch_heap_stats {
    uint64_t held_bytes;         /* taken from the device */
    uint64_t taken_bytes;        /* in blocks that are handed out, or whose events have not passed */
    uint64_t pending_bytes;      /* in blocks that are freed and whose events have not passed */
    uint64_t free_bytes;         /* in free blocks with memory */
    uint64_t largest_free_bytes; /* the largest of them */
    uint64_t waits;              /* how often the host waited for an event, a stream or the device */
    uint64_t collections;        /* garbage collections that returned something */
    uint64_t retries;            /* how often all idle segments were returned to serve a request */
    uint64_t hits;               /* requests that a free block served */
    uint64_t segments;           /* segments, and reservations of expandable segments */
    uint64_t asked_bytes;        /* of the device, for the last request that found no free block */
    uint64_t usable_bytes;       /* the largest free block that this request might have taken */
    uint64_t allowed_bytes;      /* the most that per_process_memory_fraction allows; 0: no bound */
};

weir_status torch_heap_create(const struct torch_heap_config *config, struct torch_heap **heap);
/* Waits for the device and returns all memory, live blocks included. NULL is allowed. */
weir_status torch_heap_destroy(struct torch_heap *heap);
/* Tells the heap the device's handle of a stream. A number is told before it is used. */
weir_status torch_heap_stream(struct torch_heap *heap, uint32_t stream, void *native);
/* Takes a block: *range has its address and size, its token is the handle. WEIR_ERR_NO_MEMORY: the program's
 * OutOfMemoryError. WEIR_ERR_INTERNAL: no host memory for records. Other results are failures of the device. */
weir_status torch_heap_alloc(struct torch_heap *heap, uint32_t stream, uint64_t size, uint64_t align,
                             weir_range *range);
/* record_stream: the stream uses the block. */
weir_status torch_heap_use(struct torch_heap *heap, void *token, uint32_t stream);
/* Frees the block; it becomes free for its own stream once the work of the streams that use it has passed. */
weir_status torch_heap_free(struct torch_heap *heap, void *token);
/* empty_cache: returns all idle segments. */
weir_status torch_heap_empty_cache(struct torch_heap *heap);
void torch_heap_get_stats(const struct torch_heap *heap, struct torch_heap_stats *stats);
/* Proves the invariants; WEIR_ERR_INTERNAL with a sentence in *why. */
weir_status torch_heap_check(const struct torch_heap *heap, const char **why);

#endif
