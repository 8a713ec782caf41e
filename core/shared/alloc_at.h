/* core/shared/alloc_at.h: a block at a given address, for rooms that let a block grow into the addresses behind it. */
#ifndef WEIR_SHARED_ALLOC_AT_H
#define WEIR_SHARED_ALLOC_AT_H

#include <weir/pool.h>

/* Allocates exactly [address, address + size), multiples of the strategy's granule, of a pool with virtual memory. The
 * addresses may be free memory, or have no memory yet: it is created or moved there, as for any request. Returns
 * WEIR_ERR_NO_MEMORY if they are in use, belong to no span, or the limit or the device refuses. A refusal leaves no
 * sentence and no record of a failed request. */
weir_status weir__pool_alloc_at(weir_pool *pool, weir_stream *stream, uint64_t address, uint64_t size,
                                weir_block **block);

#endif
