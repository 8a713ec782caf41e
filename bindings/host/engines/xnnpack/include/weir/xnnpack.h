/* weir/xnnpack.h: a heap as the memory of XNNPACK.
 *
 *     weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
 *     config.slack_bytes = XNN_EXTRA_BYTES;                for the program's own tensors: weir_heap_alloc(heap, bytes)
 *     weir_heap_create(&config, &heap);
 *     struct xnn_allocator allocator;
 *     weir_xnnpack_allocator_init(heap, &allocator);
 *     xnn_initialize(&allocator);                          instead of xnn_initialize(NULL)
 *
 * From then on all memory of XNNPACK comes from the heap: graphs, packed weights, work space.
 *
 * Lifetime. XNNPACK takes the allocator of the first xnn_initialize in the process and keeps a copy: `allocator` itself
 * may go, the heap may not. A later xnn_initialize, with another allocator or after xnn_deinitialize, changes nothing.
 * So the heap must live as long as the process, or until no function of XNNPACK is called any more.
 *
 * Out of memory. XNNPACK gets NULL, reports xnn_status_out_of_memory and gives back its memory; weir_heap_explain
 * gives the reason. The binding works around two faults of XNNPACK. It requests 0 bytes and takes NULL for a failure:
 * the binding returns a block. Until July 2026 its memory planner wrote through NULL if a small table could not be
 * allocated: requests of `allocate`, which are small tables, have a reserve of 256 KiB, which is taken from the heap at
 * init and serves them when the heap has no more memory. The caller must work around a third fault: in the version
 * of February 2022 (Debian 12) xnn_create_runtime returns success and leaves the runtime unchanged if the work space
 * cannot be allocated. Set the runtime to NULL before the call and check it afterwards.
 *
 * This header needs no header of XNNPACK and may be included before or after it.
 */
#ifndef WEIR_XNNPACK_H
#define WEIR_XNNPACK_H

#include <weir/base.h>
#include <weir/heap.h>

#ifdef __cplusplus
extern "C" {
#endif

struct xnn_allocator; /* defined in xnnpack.h */

/* Fills *allocator. The host must be able to read and write the heap's memory. WEIR_ERR_INVALID: an argument is NULL.
 * WEIR_ERR_NO_MEMORY: no memory for the reserve; *allocator is unchanged. */
WEIR_API weir_status weir_xnnpack_allocator_init(weir_heap *heap, struct xnn_allocator *allocator);

/* Frees the reserve and sets all members of *allocator to NULL. Optional; call it after the last call of XNNPACK and
 * before weir_heap_destroy. WEIR_ERR_INVALID: *allocator was not filled by weir_xnnpack_allocator_init. WEIR_ERR_BUSY:
 * XNNPACK still has a live block in the reserve; nothing has changed. */
WEIR_API weir_status weir_xnnpack_allocator_fini(struct xnn_allocator *allocator);

#ifdef __cplusplus
}
#endif

#endif
