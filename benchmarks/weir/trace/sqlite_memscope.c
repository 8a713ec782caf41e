/* sqlite_memscope.c: imports the database of msMemScope (earlier msLeaks), memscope_dump_*.db.
 *
 * Its table memscope_dump (earlier leaks_dump) has the columns of the CSV file that the program writes otherwise, with
 * the attributes as JSON. So the rows become CSV text in memory, and memscope.c reads that. Its errors name a row by
 * its line in this text: row 1 is on line 2.
 */
#include "sqlite_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const columns[] = {"Event", "Event Type", "Timestamp(ns)", "Ptr",       "Attr",
                                      "Name",  "Process Id", "Thread Id",     "Device Id", "Call Stack(Python)",
                                      NULL};
#define REQUIRED 5

struct text {
    char *at;
    size_t used;
    size_t capacity;
};

static bool put(struct text *text, const char *bytes, size_t length)
{
    if (text->capacity - text->used < length) {
        const size_t capacity = (text->used + length) * 2;
        char *at = realloc(text->at, capacity);
        if (at == NULL) {
            return false;
        }
        text->at = at;
        text->capacity = capacity;
    }
    memcpy(text->at + text->used, bytes, length);
    text->used += length;
    return true;
}

/* Puts a field in quotes; a quote in it is doubled. Names and stacks have the quotes of the CSV file in the database
 * too. */
static bool put_field(struct text *text, const char *field, size_t length)
{
    if (length > 1 && field[0] == '"' && field[length - 1] == '"') {
        field++;
        length -= 2;
    }
    bool done = put(text, "\"", 1);
    while (done && length > 0) {
        const char *quote = memchr(field, '"', length);
        const size_t part = quote != NULL ? (size_t)(quote - field) + 1 : length;
        done = put(text, field, part) && (quote == NULL || put(text, "\"", 1));
        field += part;
        length -= part;
    }
    return done && put(text, "\"", 1);
}

static bool no_memory(const struct sqlite_scan *scan)
{
    return sqlite_scan_refuse(scan, WEIR_ERR_NO_MEMORY, 0, "out of memory");
}

static bool add_row(void *ctx, struct sqlite_scan *scan)
{
    struct text *text = ctx;
    for (unsigned i = 0; columns[i] != NULL; i++) {
        char digits[24];
        int64_t number;
        bool known;
        size_t length = 0;
        const char *field = sqlite_scan_text(scan, i, &length);
        if (field == NULL) {
            if (!sqlite_scan_integer(scan, i, &number, &known)) {
                return false;
            }
            field = digits;
            length = known ? (size_t)snprintf(digits, sizeof(digits), "%" PRId64, number) : 0;
        }
        if ((i > 0 && !put(text, ",", 1)) || !put_field(text, field, length)) {
            return no_memory(scan);
        }
    }
    return put(text, "\n", 1) || no_memory(scan);
}

bool memscope_db_parse(struct sqlite_file *file, const char *table, const struct trace_source *source,
                       const struct trace_limits *limits, struct trace **out, struct trace_error *error)
{
    struct text text = {.used = 0};
    bool done = true;
    for (unsigned i = 0; columns[i] != NULL && done; i++) {
        done = (i == 0 || put(&text, ",", 1)) && put(&text, columns[i], strlen(columns[i]));
    }
    if (!done || !put(&text, "\n", 1)) {
        free(text.at);
        return trace_say(error, WEIR_ERR_NO_MEMORY, source->path, "out of memory");
    }
    done = sqlite_read_table(file, table, columns, REQUIRED, add_row, &text);
    if (done) {
        const struct trace_source rows = {source->path, (const unsigned char *)text.at, text.used};
        done = csv_parse(&rows, limits, out, error);
    }
    free(text.at);
    return done;
}
