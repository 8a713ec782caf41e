/* csv.h: a strict reader of CSV text, record by record, and the numbers in its fields.
 *
 * A file begins with one line of column names. Fields are separated by commas and may be in double quotes; a quote in
 * such a field is doubled, and the field may have commas and newlines. Lines end with LF or CRLF; a byte order mark is
 * skipped, and so are empty lines. Blanks and tabs around a field do not count. A record has as many fields as the
 * header; a last line that has fewer and does not end with a newline was cut, and is left out and reported in `cut`.
 *
 * Functions that return bool fill in the error before they return false. Messages name the line, the number of the
 * field and its column: "FILE:LINE: field 3 (Size): expected ..., got ...".
 */
#ifndef WEIR_BENCHMARKS_CSV_H
#define WEIR_BENCHMARKS_CSV_H

#include "trace_internal.h"

#define CSV_NO_COLUMN SIZE_MAX

struct csv_field {
    const char *text; /* the field without the quotes and blanks around it; valid until csv_close */
    size_t length;
    size_t byte; /* offset of the field in the file */
};

struct csv {
    const struct trace_source *source;
    struct trace_error *error;
    size_t at;               /* offset of the next byte */
    uint64_t line;           /* line on which the record begins, from 1 */
    uint64_t next_line;      /* line of the next byte */
    struct csv_field *names; /* the header */
    size_t columns;
    struct csv_field *fields; /* the record */
    size_t count;
    size_t capacity;
    struct arena unquoted; /* texts of fields that contain doubled quotes */
    bool cut;              /* the last line was cut and left out */
};

/* True if the bytes begin with a line of column names: text with a comma. */
bool csv_begins(const unsigned char *bytes, size_t size);

/* Reads the header line. csv_close must be called afterwards, also after a failure. */
bool csv_open(struct csv *csv, const struct trace_source *source, struct trace_error *error);
void csv_close(struct csv *csv);

/* Reads the next record; *more is false at the end of the file. */
bool csv_next(struct csv *csv, bool *more);

/* Returns the column with the name `names`, in upper or lower case. `names` may be several names with '|' between them:
 * the first one that the file has gives the column. Returns CSV_NO_COLUMN if the file has none of them. */
size_t csv_column(const struct csv *csv, const char *names);

/* Returns a field of the present record. A column that the file does not have gives an empty field. */
struct csv_field csv_get(const struct csv *csv, size_t column);

/* True if the field has no value: it is empty, or "N/A". */
bool csv_empty(struct csv_field field);
bool csv_is(struct csv_field field, const char *text);

/* Read an unsigned number, decimal or hexadecimal (with or without 0x), from a field that has digits only. `expected`
 * is for the message: "a number of bytes". */
bool csv_decimal(struct csv *csv, size_t column, const char *expected, uint64_t *value);
bool csv_hexadecimal(struct csv *csv, size_t column, const char *expected, uint64_t *value);

/* Reads a number with a sign and a fraction, times `scale` <= 2^20, rounded to the nearest integer. If `negative` is
 * NULL, a sign is refused. */
bool csv_scaled(struct csv *csv, size_t column, const char *expected, uint64_t scale, bool *negative, uint64_t *value);

/* Parse a number. Return false, without a message, if the text is no such number or the number is not below 2^64. */
bool csv_parse_decimal(const char *text, size_t length, uint64_t *value);
bool csv_parse_hexadecimal(const char *text, size_t length, uint64_t *value);

/* Return false. */
bool csv_refuse(struct csv *csv, size_t column, const char *expected);
bool csv_say(struct csv *csv, weir_status status, const char *format, ...) TRACE_PRINTF(3, 4);
bool csv_no_memory(struct csv *csv);

#endif
