/* units.h: parses and formats sizes, counts and times. */
#ifndef WEIR_COMMAND_UNITS_H
#define WEIR_COMMAND_UNITS_H

#include <stdbool.h>
#include <stdint.h>

/* Parses a size: "64GiB", "512 MiB", "1.5g", "4096". The suffixes K, M,
 * G and T are powers of 1024 (with or without iB or B). Returns false unless the whole text is such a size and it
 * fits. */
bool parse_size(const char *text, uint64_t *bytes);
/* Parses a time: "1.5s", "200 ms", "3us", "10ns", "2min". Returns false unless the whole text is such a time, with its
 * unit, and it fits. A fraction of a nanosecond is cut off. */
bool parse_time(const char *text, uint64_t *ns);
/* Parses decimal digits. */
bool parse_number(const char *text, uint64_t *number);

#define UNIT_TEXT 32
/* Formats "1.50 GiB", "512 B". Like the next two functions it returns `text`, which has room for UNIT_TEXT
 * characters. */
const char *format_size(char *text, uint64_t bytes);
/* Formats "1,234,567". */
const char *format_count(char *text, uint64_t number);
/* Formats "1.25 ms". */
const char *format_time(char *text, uint64_t ns);

#endif
