/* column.h: writes one column of numbers into the page of --report.
 *
 * The numbers become varints (seven bits in a byte, the lowest first; the top bit says that more follow), zlib deflates
 * them, and base64 makes text of them. The numbers are written while they arrive, so a column of any length needs no
 * more memory than its buffers. An error of zlib is kept until column_end; an error of the file stays in `out`
 * (ferror).
 */
#ifndef WEIR_COMMAND_COLUMN_H
#define WEIR_COMMAND_COLUMN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <zlib.h>

struct column {
    FILE *out;
    z_stream zlib;
    bool failed; /* zlib has no memory */
    size_t filled;
    unsigned char numbers[16384];
    unsigned char packed[12288]; /* multiple of 3: base64 pads only the last buffer, which may be partly filled */
};

/* Begins a script element with the ID `name`. */
void column_begin(struct column *column, FILE *out, const char *name);
void column_put(struct column *column, uint64_t value);
/* Returns 2 * value, or 2 * -value - 1 if the value is negative: numbers near 0 become short varints. */
static inline uint64_t column_signed(int64_t value)
{
    return value < 0 ? -(uint64_t)value * 2 - 1 : (uint64_t)value * 2;
}
/* Ends the script element that column_begin began. Returns false when out of host memory. */
bool column_end(struct column *column);

#endif
