/* outside.h: what the process takes from malloc, past weir.
 *
 * The program brings malloc and its like, each a call of glibc's own; libraries that are loaded later find these first. While
 * counting is on, blocks of METER_LARGE_BYTES and more are added up. Under a sanitizer, which brings its own malloc, nothing is
 * counted.
 */
#ifndef WEIR_BENCHMARKS_OUTSIDE_H
#define WEIR_BENCHMARKS_OUTSIDE_H

#include "engines/meter.h"

void outside_start(void);
struct meter_flow outside_read(void);
void outside_stop(void);

#endif
