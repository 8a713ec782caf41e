/* sqlite_file.h: reads tables of a SQLite database in memory, which is not trusted.
 *
 * Promise: no code of the database runs. Triggers, views, virtual tables, generated columns, extensions and attached
 * files are refused; the only statements are scans of whole tables. The bytes are not changed, no file is opened, and
 * the steps and rows of all scans are bounded by the size of the database, so a damaged page tree cannot make a scan
 * endless.
 *
 * Errors name the table and the row, counted from 1 in the order of the table. Only this file knows libsqlite3.
 */
#ifndef WEIR_BENCHMARKS_SQLITE_FILE_H
#define WEIR_BENCHMARKS_SQLITE_FILE_H

#include "profile.h"

struct sqlite_file;

bool sqlite_file_open(struct sqlite_file **out, const struct trace_source *source, struct trace_error *error);
void sqlite_file_close(struct sqlite_file *file); /* NULL is allowed */

/* *found: the database has the table. A view or a virtual table of that name does not count. False: the list of tables
 * cannot be read. */
bool sqlite_file_has(const struct sqlite_file *file, const char *table, bool *found);

#define SQLITE_MOST_COLUMNS 16

/* A scan of a table. Columns are found by name; their order in the table does not matter. */
struct sqlite_scan {
    struct sqlite_file *file;
    const char *table;
    const char *const *columns; /* ends with NULL */
    void *statement;
    int places[SQLITE_MOST_COLUMNS]; /* -1 = the table lacks the column */
    uint64_t row;
};

/* Calls `read_row` for each row of a table. The first `required` columns must exist; further columns are optional. A
 * missing table has no rows. */
bool sqlite_read_table(struct sqlite_file *file, const char *table, const char *const *columns, unsigned required,
                       bool (*read_row)(void *ctx, struct sqlite_scan *scan), void *ctx);

/* Reads an integer, also from a text of decimal digits. *known is false for NULL and for a missing column. Other values
 * are errors. */
bool sqlite_scan_integer(struct sqlite_scan *scan, unsigned column, int64_t *value, bool *known);
/* Like sqlite_scan_integer, but a value that is not known is an error. */
bool sqlite_scan_need(struct sqlite_scan *scan, unsigned column, int64_t *value);
/* Like sqlite_scan_integer, for an address or another unsigned number of 64 bits. */
bool sqlite_scan_bits(struct sqlite_scan *scan, unsigned column, uint64_t *value, bool *known);
/* Reads a device number. If the row has none, *device becomes `otherwise`. */
bool sqlite_scan_device(struct sqlite_scan *scan, unsigned column, uint32_t otherwise, uint32_t *device);

/* Returns a text, which is valid until the next step, or NULL if the value is not a text. */
const char *sqlite_scan_text(struct sqlite_scan *scan, unsigned column, size_t *length);

/* Fills in the error for the current row. Returns false. */
bool sqlite_scan_refuse(const struct sqlite_scan *scan, weir_status status, unsigned column, const char *text);

/* Reads a table of strings (id, value) and makes names of the profile from them. `names` maps an id to a name. *special
 * gets the id of the string `looked_for`, if that is not NULL. */
bool sqlite_read_names(struct sqlite_file *file, const char *table, struct profile *profile, struct id_map *names,
                       const char *looked_for, int64_t *special);

#endif
