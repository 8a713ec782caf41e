/* core/shared/alloc_at.h: allocates a block at a given address, for bindings in which a block can grow into the
 * addresses behind it. */
#ifndef WEIR_SHARED_ALLOC_AT_H
#define WEIR_SHARED_ALLOC_AT_H

#include <weir/pool.h>

/* Allocates exactly [address, address + size) of a pool with virtual memory. Both numbers are multiples of the
 * strategy's granule. Addresses without memory get memory, created or moved there as for any request. Returns
 * WEIR_ERR_NO_MEMORY if the addresses are in use or not reserved by the pool, or if the limit or the device refuses. A
 * refusal stores neither a sentence for weir_last_error nor a weir_oom_record. */
weir_status weir__pool_alloc_at(weir_pool *pool, weir_stream *stream, uint64_t address, uint64_t size,
                                weir_block **block);

#endif
