/* outside.h: counts the memory that the process takes from malloc: by the engine, and by weir for its bookkeeping.
 *
 * The program defines the malloc family; each function calls that of a preloaded malloc (LD_PRELOAD), else glibc's.
 * Libraries that are loaded later find these definitions first. While counting is on, blocks of METER_LARGE_BYTES and
 * more are added up. A sanitizer brings its own malloc, and then nothing is counted.
 */
#ifndef WEIR_BENCHMARKS_OUTSIDE_H
#define WEIR_BENCHMARKS_OUTSIDE_H

#include "engines/meter.h"

void outside_start(void);
/* Returns the counts of malloc requests: those of weir for its bookkeeping, or all other ones. */
struct meter_flow outside_read(bool by_weir);
void outside_stop(void);

/* Returns the path of the library that serves calls of malloc; "unknown" under a sanitizer. */
const char *outside_malloc(void);

/* Above 0 while the calling thread is inside weir. */
extern _Thread_local int outside_in_weir;

#endif
