/* clean_text.h: foreign text as it is read, shown and put into JSON: one line of UTF-8.
 *
 * Rule: printable UTF-8 is kept. Every other byte becomes four characters, \xHH: the bytes of control characters (NUL, C0,
 * DEL, C1), of other encodings (GBK), of surrogates and of overlong forms. So two texts that differ still differ, nothing is
 * cut off, and cleaning again changes nothing. (A text that holds "\xHH" as characters looks the same; a backslash is
 * printable.)
 */
#ifndef WEIR_BENCHMARKS_CLEAN_TEXT_H
#define WEIR_BENCHMARKS_CLEAN_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* Writes at most size - 1 bytes and a NUL, whole characters only; size 0 writes nothing. Returns how long the whole is. */
size_t clean_text(char *out, size_t size, const char *text, size_t length);

/* The same into memory from malloc; NULL without host memory. */
char *clean_copy(const char *text, size_t length);

/* The same to a stream. */
void clean_print(FILE *out, const char *text, size_t length);

#endif
