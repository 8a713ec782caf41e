/* units.h: sizes, counts and times as people write and read them. */
#ifndef WEIR_COMMAND_UNITS_H
#define WEIR_COMMAND_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "64GiB", "512 MiB", "1.5g", "4096": a suffix of K, M, G or T means 1024 (with or without iB or B). False unless all
 * of the text is such a size and it fits. */
bool parse_size(const char *text, uint64_t *bytes);
/* Digits only. */
bool parse_number(const char *text, uint64_t *number);

#define UNIT_TEXT 32
/* "1.50 GiB", "512 B". Each returns `text`, which holds UNIT_TEXT characters. */
const char *format_size(char *text, uint64_t bytes);
/* "1,234,567" */
const char *format_count(char *text, uint64_t number);
/* "1.25 ms" */
const char *format_time(char *text, uint64_t ns);

#endif
