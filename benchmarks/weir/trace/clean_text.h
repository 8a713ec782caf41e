/* clean_text.h: makes foreign text one line of UTF-8 before it is stored, shown or put into JSON.
 *
 * Rule: printable UTF-8 is kept. Every other byte becomes four characters, \xHH: the bytes of control characters (NUL,
 * C0, DEL, C1), of other encodings (GBK), of surrogates and of overlong forms. So two texts that differ still differ,
 * no text is cut off, and a second pass changes nothing. (A text that contains the characters "\xHH" looks the same,
 * because a backslash is printable.)
 */
#ifndef WEIR_BENCHMARKS_CLEAN_TEXT_H
#define WEIR_BENCHMARKS_CLEAN_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* Writes at most size - 1 bytes and a NUL, whole characters only; size 0 writes nothing. Returns the length of the
 * complete clean text. */
size_t clean_text(char *out, size_t size, const char *text, size_t length);

/* Returns the clean text in memory from malloc; NULL when out of host memory. */
char *clean_copy(const char *text, size_t length);

/* Prints the clean text to a stream. */
void clean_print(FILE *out, const char *text, size_t length);

#endif
