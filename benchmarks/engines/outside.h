/* outside.h: what the process takes from malloc: the engine past weir, and weir for its own bookkeeping.
 *
 * The program brings malloc and its like, each a call of glibc's own; libraries that are loaded later find these first. While
 * counting is on, blocks of METER_LARGE_BYTES and more are added up. Under a sanitizer, which brings its own malloc, nothing is
 * counted.
 */
#ifndef WEIR_BENCHMARKS_OUTSIDE_H
#define WEIR_BENCHMARKS_OUTSIDE_H

#include "engines/meter.h"

void outside_start(void);
/* Of blocks that weir took for itself, or of all others. */
struct meter_flow outside_read(bool by_weir);
void outside_stop(void);

/* Above 0 while the calling thread is inside weir. */
extern _Thread_local int outside_in_weir;

#endif
