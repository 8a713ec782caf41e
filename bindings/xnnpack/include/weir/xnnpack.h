/* weir/xnnpack.h: a heap as the memory of XNNPACK.
 *
 *     weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
 *     config.slack_bytes = XNN_EXTRA_BYTES;                for the tensors that you hand in: weir_heap_alloc(heap, bytes)
 *     weir_heap_create(&config, &heap);
 *     struct xnn_allocator allocator;
 *     weir_xnnpack_allocator_init(heap, &allocator);
 *     xnn_initialize(&allocator);                          instead of xnn_initialize(NULL)
 *
 * From then on all that XNNPACK allocates comes from the heap: graphs, packed weights, work space.
 *
 * Lifetime. XNNPACK takes the allocator of the first xnn_initialize in the process and keeps a copy: `allocator` itself may go,
 * the heap may not. A later xnn_initialize, with another allocator or after xnn_deinitialize, changes nothing. So the heap
 * lives as long as the process, or until nothing of XNNPACK is called any more.
 *
 * Out of memory. XNNPACK gets NULL, reports xnn_status_out_of_memory and gives back what it had; weir_heap_explain says why.
 * Two of its habits are met here. It asks for 0 bytes and takes NULL for a failure: it gets a block. Until July 2026 its memory
 * planner wrote through NULL where a small table did not fit: what it asks for by `allocate`, small tables, has a reserve of
 * 256 KiB, which is taken from the heap at init and lent when the heap has nothing else. A third is the caller's to meet: in the
 * version of February 2022 (Debian 12) xnn_create_runtime returns success and leaves the runtime as it was when the work space
 * does not fit. Set it to NULL before and look at it after.
 *
 * This header needs none of XNNPACK's and may stand before or after it.
 */
#ifndef WEIR_XNNPACK_H
#define WEIR_XNNPACK_H

#include <weir/base.h>
#include <weir/heap.h>

#ifdef __cplusplus
extern "C" {
#endif

struct xnn_allocator; /* xnnpack.h */

/* Fills *allocator. The heap must be one that the host can read and write. WEIR_ERR_INVALID: NULL. WEIR_ERR_NO_MEMORY: none
 * for the reserve; *allocator is as it was. */
WEIR_API weir_status weir_xnnpack_allocator_init(weir_heap *heap, struct xnn_allocator *allocator);

/* Gives the reserve back and fills *allocator with NULL: for programs that want an end, when XNNPACK is called no more and
 * before weir_heap_destroy. WEIR_ERR_INVALID: not filled by the function above. WEIR_ERR_BUSY: something of XNNPACK's that
 * lies in the reserve is still live; nothing has changed. */
WEIR_API weir_status weir_xnnpack_allocator_fini(struct xnn_allocator *allocator);

#ifdef __cplusplus
}
#endif

#endif
