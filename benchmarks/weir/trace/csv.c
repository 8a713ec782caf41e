/* csv.c: see csv.h. A field is a part of the file's bytes; only a field with doubled quotes is copied. */
#include "csv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LONGEST_HEADER ((size_t)1 << 20)
#define FRACTION_DIGITS 12
#define SHOWN_TEXT 64

bool csv_begins(const unsigned char *bytes, size_t size)
{
    bool comma = false;
    for (size_t i = trace_mark_bytes(bytes, size); i < size && i < LONGEST_HEADER; i++) {
        if (bytes[i] == '\n') {
            return comma;
        }
        comma = comma || bytes[i] == ',';
        if (bytes[i] == 0x7f || (bytes[i] < ' ' && bytes[i] != '\t' && bytes[i] != '\r')) {
            return false;
        }
    }
    return comma && size <= LONGEST_HEADER;
}

/* --- messages --- */

bool csv_say(struct csv *csv, weir_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    trace_say_line(csv->error, status, csv->source->path, csv->line, format, arguments);
    va_end(arguments);
    return false;
}

bool csv_no_memory(struct csv *csv)
{
    return trace_say(csv->error, WEIR_ERR_NO_MEMORY, csv->source->path, "out of memory");
}

bool csv_refuse(struct csv *csv, size_t column, const char *expected)
{
    char name[SHOWN_TEXT];
    char got[SHOWN_TEXT];
    const struct csv_field field = csv_get(csv, column);
    trace_quote(name, sizeof(name), csv->names[column].text, csv->names[column].length);
    trace_quote(got, sizeof(got), field.text, field.length);
    csv_say(csv, WEIR_ERR_INVALID, "field %zu (%s): expected %s, got \"%s\"", column + 1, name, expected, got);
    csv->error->byte = field.byte;
    return false;
}

/* --- records --- */

static bool at_line_end(const struct csv *csv)
{
    const unsigned char *bytes = csv->source->bytes;
    const size_t size = csv->source->size;
    return csv->at >= size || bytes[csv->at] == '\n' ||
           (bytes[csv->at] == '\r' && (csv->at + 1 == size || bytes[csv->at + 1] == '\n'));
}

static void skip_line_end(struct csv *csv)
{
    const unsigned char *bytes = csv->source->bytes;
    if (csv->at < csv->source->size && bytes[csv->at] == '\r') {
        csv->at++;
    }
    if (csv->at < csv->source->size && bytes[csv->at] == '\n') {
        csv->at++;
        csv->next_line++;
    }
}

static bool bad_quote(struct csv *csv, size_t byte, const char *what)
{
    csv_say(csv, WEIR_ERR_INVALID, "field %zu: %s", csv->count + 1, what);
    csv->error->byte = byte;
    return false;
}

static bool is_blank(char letter)
{
    return letter == ' ' || letter == '\t';
}

static void trim(struct csv_field *field)
{
    while (field->length > 0 && is_blank(field->text[0])) {
        field->text++;
        field->length--;
    }
    while (field->length > 0 && is_blank(field->text[field->length - 1])) {
        field->length--;
    }
}

static bool copy_doubled(struct csv *csv, struct csv_field *field)
{
    char *copy = arena_alloc(&csv->unquoted, field->length);
    if (copy == NULL) {
        return csv_no_memory(csv);
    }
    size_t length = 0;
    for (size_t i = 0; i < field->length; i++) {
        copy[length++] = field->text[i];
        i += field->text[i] == '"';
    }
    field->text = copy;
    field->length = length;
    return true;
}

/* Reads a quoted field; csv->at is behind the opening quote. */
static bool read_quoted(struct csv *csv, struct csv_field *field)
{
    const char *bytes = (const char *)csv->source->bytes;
    const size_t size = csv->source->size;
    const size_t begin = csv->at;
    bool doubled = false;
    for (;;) {
        if (csv->at >= size) {
            return bad_quote(csv, field->byte, "its quote is not closed");
        }
        if (bytes[csv->at] == '"') {
            if (csv->at + 1 >= size || bytes[csv->at + 1] != '"') {
                break;
            }
            doubled = true;
            csv->at++;
        }
        csv->next_line += bytes[csv->at] == '\n';
        csv->at++;
    }
    field->text = bytes + begin;
    field->length = csv->at - begin;
    csv->at++;
    while (csv->at < size && is_blank(bytes[csv->at])) {
        csv->at++;
    }
    if (!at_line_end(csv) && bytes[csv->at] != ',') {
        return bad_quote(csv, csv->at, "text follows its closing quote");
    }
    return !doubled || copy_doubled(csv, field);
}

static bool read_bare(struct csv *csv, struct csv_field *field)
{
    const char *bytes = (const char *)csv->source->bytes;
    const size_t begin = csv->at;
    while (!at_line_end(csv) && bytes[csv->at] != ',') {
        if (bytes[csv->at] == '"') {
            return bad_quote(csv, csv->at, "a quote stands in a field that does not begin with one");
        }
        csv->at++;
    }
    field->text = bytes + begin;
    field->length = csv->at - begin;
    return true;
}

static bool read_field(struct csv *csv)
{
    struct csv_field field = {.byte = csv->at};
    struct csv_field *fields = grow_array(csv->fields, csv->count, &csv->capacity, sizeof(*fields));
    if (fields == NULL) {
        return csv_no_memory(csv);
    }
    csv->fields = fields;
    if (csv->at < csv->source->size && csv->source->bytes[csv->at] == '"') {
        csv->at++;
        if (!read_quoted(csv, &field)) {
            return false;
        }
    } else if (!read_bare(csv, &field)) {
        return false;
    }
    trim(&field);
    fields[csv->count++] = field;
    return true;
}

/* Reads the fields of one record. *whole: a newline follows the record. */
static bool read_record(struct csv *csv, bool *whole)
{
    csv->line = csv->next_line;
    csv->count = 0;
    for (;;) {
        if (!read_field(csv)) {
            return false;
        }
        if (at_line_end(csv)) {
            break;
        }
        csv->at++; /* the comma */
    }
    *whole = csv->at < csv->source->size;
    skip_line_end(csv);
    return true;
}

bool csv_open(struct csv *csv, const struct trace_source *source, struct trace_error *error)
{
    bool whole;
    memset(csv, 0, sizeof(*csv));
    csv->source = source;
    csv->error = error;
    csv->next_line = 1;
    csv->at = trace_mark_bytes(source->bytes, source->size);
    if (!read_record(csv, &whole)) {
        return false;
    }
    csv->names = csv->fields;
    csv->columns = csv->count;
    csv->fields = NULL;
    csv->count = 0;
    csv->capacity = 0;
    return true;
}

void csv_close(struct csv *csv)
{
    free(csv->names);
    free(csv->fields);
    arena_free(&csv->unquoted);
}

bool csv_next(struct csv *csv, bool *more)
{
    bool whole;
    while (csv->at < csv->source->size && at_line_end(csv)) {
        skip_line_end(csv);
    }
    *more = csv->at < csv->source->size;
    if (!*more) {
        return true;
    }
    if (!read_record(csv, &whole)) {
        return false;
    }
    if (csv->count == csv->columns) {
        return true;
    }
    if (csv->count < csv->columns && !whole) {
        csv->cut = true;
        *more = false;
        return true;
    }
    return csv_say(csv, WEIR_ERR_INVALID, "expected %zu fields as in the header, got %zu", csv->columns, csv->count);
}

size_t csv_column(const struct csv *csv, const char *names)
{
    while (*names != 0) {
        const size_t length = strcspn(names, "|");
        for (size_t i = 0; i < csv->columns; i++) {
            if (csv->names[i].length == length && strncasecmp(csv->names[i].text, names, length) == 0) {
                return i;
            }
        }
        names += length + (names[length] == '|');
    }
    return CSV_NO_COLUMN;
}

struct csv_field csv_get(const struct csv *csv, size_t column)
{
    return column < csv->count ? csv->fields[column] : (struct csv_field){.text = ""};
}

bool csv_is(struct csv_field field, const char *text)
{
    return field.length == strlen(text) && memcmp(field.text, text, field.length) == 0;
}

bool csv_empty(struct csv_field field)
{
    return field.length == 0 || csv_is(field, "N/A");
}

/* --- numbers --- */

static int digit_of(char letter)
{
    if (letter >= '0' && letter <= '9') {
        return letter - '0';
    }
    if (letter >= 'a' && letter <= 'f') {
        return letter - 'a' + 10;
    }
    return letter >= 'A' && letter <= 'F' ? letter - 'A' + 10 : 16;
}

static bool parse_digits(const char *text, size_t length, unsigned base, uint64_t *value)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < length; i++) {
        const unsigned digit = (unsigned)digit_of(text[i]);
        if (digit >= base || sum > (UINT64_MAX - digit) / base) {
            return false;
        }
        sum = sum * base + digit;
    }
    *value = sum;
    return length > 0;
}

bool csv_parse_decimal(const char *text, size_t length, uint64_t *value)
{
    return parse_digits(text, length, 10, value);
}

bool csv_parse_hexadecimal(const char *text, size_t length, uint64_t *value)
{
    if (length > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        text += 2;
        length -= 2;
    }
    return parse_digits(text, length, 16, value);
}

bool csv_decimal(struct csv *csv, size_t column, const char *expected, uint64_t *value)
{
    const struct csv_field field = csv_get(csv, column);
    return csv_parse_decimal(field.text, field.length, value) || csv_refuse(csv, column, expected);
}

bool csv_hexadecimal(struct csv *csv, size_t column, const char *expected, uint64_t *value)
{
    const struct csv_field field = csv_get(csv, column);
    return csv_parse_hexadecimal(field.text, field.length, value) || csv_refuse(csv, column, expected);
}

/* Parses digits with an optional point and fraction. Digits of the fraction beyond the first twelve are ignored. */
static bool parse_scaled(const char *text, size_t length, uint64_t scale, uint64_t *value)
{
    const char *point = memchr(text, '.', length);
    const size_t whole = point != NULL ? (size_t)(point - text) : length;
    uint64_t integer = 0;
    uint64_t fraction = 0;
    uint64_t unit = 1;
    if (!parse_digits(text, whole, 10, &integer) || integer > (UINT64_MAX - scale) / scale) {
        return false;
    }
    if (point != NULL && whole + 1 == length) {
        return false;
    }
    for (size_t i = whole + 1; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        if (i - whole <= FRACTION_DIGITS) {
            fraction = fraction * 10 + (uint64_t)(text[i] - '0');
            unit *= 10;
        }
    }
    *value = integer * scale + (fraction * scale + unit / 2) / unit;
    return true;
}

bool csv_scaled(struct csv *csv, size_t column, const char *expected, uint64_t scale, bool *negative, uint64_t *value)
{
    const struct csv_field field = csv_get(csv, column);
    const bool sign = negative != NULL && field.length > 0 && field.text[0] == '-';
    if (negative != NULL) {
        *negative = sign;
    }
    return parse_scaled(field.text + sign, field.length - sign, scale, value) || csv_refuse(csv, column, expected);
}
