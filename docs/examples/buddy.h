/* buddy.h: an example of a strategy that rounds requests up, see docs/strategy.md. */
#ifndef BUDDY_H
#define BUDDY_H

#include <weir/strategy.h>

const weir_strategy_ops *buddy_strategy(void);
/* The bytes that a request takes: a power of two. */
uint64_t buddy_block_bytes(uint64_t size);

#endif
