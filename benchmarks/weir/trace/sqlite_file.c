/* sqlite_file.c: see sqlite_file.h. */
#include "sqlite_file.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LONGEST_VALUE (1 << 20)
#define STEPS_AT_ONCE 1000
#define FREE_STEPS 1000000u
#define STEPS_PER_BYTE 64u
#define LEAST_ROW 4u      /* least bytes of a row in a table that a profiler writes */
#define HEADER_BYTES 100u /* the layout of the header: sqlite.org/fileformat.html */
#define PAGE_BYTES_AT 16u
#define MODES_AT 18u
#define MODES 2u
#define CHANGES_AT 24u
#define PAGES_AT 28u
#define PAGES_VALID_FOR_AT 92u
#define WAL_MODE 2u
#define ROLLBACK_MODE 1u

struct sqlite_file {
    sqlite3 *db;
    unsigned char *copy; /* NULL: the database is read where it lies */
    const char *path;
    struct trace_error *error;
    uint64_t steps; /* steps that queries may still take, in units of STEPS_AT_ONCE */
    uint64_t rows;  /* rows that are left */
    bool describes; /* true while this file itself queries the description of a table */
};

/* --- opening --- */

static bool refuse_code(const struct sqlite_file *file, const char *table, uint64_t row, int code)
{
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return trace_say(file->error, WEIR_ERR_NO_MEMORY, file->path, "out of memory");
    case SQLITE_INTERRUPT:
        return trace_say(file->error, WEIR_ERR_INVALID, file->path,
                         "table %s, row %" PRIu64 ": the table takes more steps than the size of the database allows",
                         table, row);
    case SQLITE_TOOBIG:
        return trace_say(file->error, WEIR_ERR_LIMIT, file->path,
                         "table %s, row %" PRIu64 ": a value of more than %d bytes, which is the limit", table, row,
                         LONGEST_VALUE);
    default:
        if (row == 0) {
            return trace_say(file->error, WEIR_ERR_INVALID, file->path, "table %s: %s", table,
                             sqlite3_errmsg(file->db));
        }
        return trace_say(file->error, WEIR_ERR_INVALID, file->path, "table %s, row %" PRIu64 ": %s", table, row,
                         sqlite3_errmsg(file->db));
    }
}

static int count_steps(void *context)
{
    struct sqlite_file *file = context;
    if (file->steps == 0) {
        return 1;
    }
    file->steps--;
    return 0;
}

/* Allows reading columns. Functions, pragmas, attached databases and writes are not allowed. */
static int authorize(void *context, int action, const char *a, const char *b, const char *c, const char *d)
{
    const struct sqlite_file *file = context;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return file->describes || action == SQLITE_SELECT || action == SQLITE_READ ? SQLITE_OK : SQLITE_DENY;
}

static int harden(struct sqlite_file *file)
{
    static const struct {
        int option;
        int value;
    } options[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},       {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},  {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
        {SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0}, {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        const int code = sqlite3_db_config(file->db, options[i].option, options[i].value, NULL);
        if (code != SQLITE_OK) {
            return code;
        }
    }
    (void)sqlite3_limit(file->db, SQLITE_LIMIT_LENGTH, LONGEST_VALUE);
    (void)sqlite3_limit(file->db, SQLITE_LIMIT_ATTACHED, 0);
    (void)sqlite3_limit(file->db, SQLITE_LIMIT_EXPR_DEPTH, 20);
    (void)sqlite3_limit(file->db, SQLITE_LIMIT_COMPOUND_SELECT, 2);
    (void)sqlite3_limit(file->db, SQLITE_LIMIT_COLUMN, 200);
    (void)sqlite3_limit(file->db, SQLITE_LIMIT_WORKER_THREADS, 0);
    const int code = sqlite3_exec(file->db, "PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY", NULL, NULL, NULL);
    (void)sqlite3_set_authorizer(file->db, authorize, file);
    sqlite3_progress_handler(file->db, STEPS_AT_ONCE, count_steps, file);
    return code;
}

/* Hands the bytes to SQLite, which only reads them, although its function takes a pointer that is not const. SQLite
 * opens no database in memory whose header says write-ahead log, so such a database is copied, with another header. */
static int load(struct sqlite_file *file, const struct trace_source *source)
{
    unsigned char *bytes;
    memcpy(&bytes, &source->bytes, sizeof(bytes));
    if (memchr(bytes + MODES_AT, WAL_MODE, MODES) != NULL) {
        bytes = file->copy = malloc(source->size);
        if (bytes == NULL) {
            return SQLITE_NOMEM;
        }
        memcpy(bytes, source->bytes, source->size);
        memset(bytes + MODES_AT, ROLLBACK_MODE, MODES);
    }
    const int code =
        sqlite3_open_v2(":memory:", &file->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX, NULL);
    if (code != SQLITE_OK) {
        return code;
    }
    const int loaded = sqlite3_deserialize(file->db, "main", bytes, (sqlite3_int64)source->size,
                                           (sqlite3_int64)source->size, SQLITE_DESERIALIZE_READONLY);
    return loaded != SQLITE_OK ? loaded : harden(file);
}

static uint64_t big_endian(const unsigned char *bytes, unsigned count)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < count; i++) {
        value = value << 8 | bytes[i];
    }
    return value;
}

/* Returns the size of the whole database as its header says, or 0 if the header does not say it. */
static uint64_t whole_bytes(const unsigned char *header)
{
    const uint64_t page = big_endian(header + PAGE_BYTES_AT, 2);
    const bool is_known = memcmp(header + CHANGES_AT, header + PAGES_VALID_FOR_AT, 4) == 0;
    return is_known ? big_endian(header + PAGES_AT, 4) * (page == 1 ? 65536 : page) : 0;
}

/* Refuses a database of which a part is missing: a cut file, or one with changes that are in the write-ahead log beside
 * it only. */
static bool is_whole(const struct trace_source *source, struct trace_error *error)
{
    char log[4096];
    struct stat facts;
    const uint64_t whole = source->size >= HEADER_BYTES ? whole_bytes(source->bytes) : HEADER_BYTES;
    if (source->size < whole) {
        return trace_say(error, WEIR_ERR_INVALID, source->path,
                         "is a SQLite database that is cut off: %zu of its %" PRIu64 " bytes are there", source->size,
                         whole);
    }
    const int length = snprintf(log, sizeof(log), "%s-wal", source->path);
    if (source->bytes[MODES_AT] == WAL_MODE && length > 0 && (size_t)length < sizeof(log) && stat(log, &facts) == 0 &&
        facts.st_size > 0) {
        return trace_say(error, WEIR_ERR_UNSUPPORTED, source->path,
                         "is a SQLite database with changes in a write-ahead log beside it; make it one file by "
                         "sqlite3 FILE 'PRAGMA journal_mode=delete'");
    }
    return true;
}

bool sqlite_file_open(struct sqlite_file **out, const struct trace_source *source, struct trace_error *error)
{
    if (!is_whole(source, error)) {
        return false;
    }
    struct sqlite_file *file = calloc(1, sizeof(*file));
    if (file == NULL) {
        return trace_say(error, WEIR_ERR_NO_MEMORY, source->path, "out of memory");
    }
    file->path = source->path;
    file->error = error;
    file->rows = source->size / LEAST_ROW;
    file->steps = (FREE_STEPS + (uint64_t)source->size * STEPS_PER_BYTE) / STEPS_AT_ONCE;
    const int code = load(file, source);
    if (code != SQLITE_OK) {
        (void)refuse_code(file, "sqlite_schema", 0, code);
        sqlite_file_close(file);
        return false;
    }
    *out = file;
    return true;
}

void sqlite_file_close(struct sqlite_file *file)
{
    if (file != NULL) {
        (void)sqlite3_close(file->db);
        free(file->copy);
        free(file);
    }
}

bool sqlite_file_has(const struct sqlite_file *file, const char *table, bool *found)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(file->db, "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?1", -1,
                                  &statement, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC);
    }
    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    *found = code == SQLITE_ROW && sqlite3_column_int64(statement, 0) > 0;
    const bool is_read = code == SQLITE_ROW || code == SQLITE_DONE || refuse_code(file, "sqlite_schema", 0, code);
    (void)sqlite3_finalize(statement);
    return is_read;
}

/* True if the table has columns that an expression generates (or cannot be described). SQLite resolves these
 * expressions before it asks authorize, so they are refused here. */
static bool generates_columns(struct sqlite_file *file, const char *table)
{
    sqlite3_stmt *statement = NULL;
    int code = SQLITE_ERROR;
    file->describes = true;
    if (sqlite3_prepare_v2(file->db, "SELECT 1 FROM pragma_table_xinfo(?1) WHERE hidden <> 0", -1, &statement, NULL) ==
            SQLITE_OK &&
        sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC) == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    (void)sqlite3_finalize(statement);
    file->describes = false;
    return code != SQLITE_DONE;
}

/* --- scans --- */

bool sqlite_scan_refuse(const struct sqlite_scan *scan, weir_status status, unsigned column, const char *text)
{
    return trace_say(scan->file->error, status, scan->file->path, "table %s, row %" PRIu64 ", %s: %s", scan->table,
                     scan->row, scan->columns[column], text);
}

static bool find_columns(struct sqlite_scan *scan, unsigned required)
{
    const int count = sqlite3_column_count(scan->statement);
    for (unsigned i = 0; scan->columns[i] != NULL; i++) {
        scan->places[i] = -1;
        for (int place = 0; place < count; place++) {
            const char *name = sqlite3_column_name(scan->statement, place);
            if (name != NULL && sqlite3_stricmp(name, scan->columns[i]) == 0) {
                scan->places[i] = place;
            }
        }
        if (scan->places[i] < 0 && i < required) {
            return trace_say(scan->file->error, WEIR_ERR_INVALID, scan->file->path, "table %s has no column %s",
                             scan->table, scan->columns[i]);
        }
    }
    return true;
}

static bool scan_begin(struct sqlite_scan *scan, struct sqlite_file *file, const char *table,
                       const char *const *columns, unsigned required)
{
    char query[100];
    sqlite3_stmt *statement = NULL;
    *scan = (struct sqlite_scan){.file = file, .table = table, .columns = columns};
    if (generates_columns(file, table)) {
        return trace_say(file->error, WEIR_ERR_INVALID, file->path, "table %s has columns that are no plain data",
                         table);
    }
    (void)snprintf(query, sizeof(query), "SELECT * FROM main.\"%s\"", table);
    const int code = sqlite3_prepare_v2(file->db, query, -1, &statement, NULL);
    scan->statement = statement;
    return code == SQLITE_OK ? find_columns(scan, required) : refuse_code(file, table, 0, code);
}

static void scan_end(struct sqlite_scan *scan)
{
    (void)sqlite3_finalize(scan->statement);
    scan->statement = NULL;
}

static bool scan_next(struct sqlite_scan *scan, bool *more)
{
    const int code = sqlite3_step(scan->statement);
    scan->row++;
    *more = code == SQLITE_ROW;
    if (code == SQLITE_DONE) {
        return true;
    }
    if (code != SQLITE_ROW) {
        return refuse_code(scan->file, scan->table, scan->row, code);
    }
    if (scan->file->rows == 0) {
        return trace_say(scan->file->error, WEIR_ERR_INVALID, scan->file->path,
                         "table %s, row %" PRIu64 ": more rows than the size of the database allows", scan->table,
                         scan->row);
    }
    scan->file->rows--;
    return true;
}

bool sqlite_read_table(struct sqlite_file *file, const char *table, const char *const *columns, unsigned required,
                       bool (*read_row)(void *ctx, struct sqlite_scan *scan), void *ctx)
{
    struct sqlite_scan scan;
    bool more = true;
    bool found;
    if (!sqlite_file_has(file, table, &found)) {
        return false;
    }
    if (!found) {
        return true;
    }
    bool done = scan_begin(&scan, file, table, columns, required);
    while (done && (done = scan_next(&scan, &more)) && more) {
        done = read_row(ctx, &scan);
    }
    scan_end(&scan);
    return done;
}

static bool read_digits(const char *text, size_t length, int64_t *value)
{
    char *end;
    char copy[24];
    if (length == 0 || length >= sizeof(copy)) {
        return false;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    if (strspn(copy + (copy[0] == '-'), "0123456789") != length - (copy[0] == '-') || length > 19) {
        return false;
    }
    *value = strtoll(copy, &end, 10);
    return *end == '\0';
}

bool sqlite_scan_integer(struct sqlite_scan *scan, unsigned column, int64_t *value, bool *known)
{
    const int place = scan->places[column];
    *value = 0;
    *known = place >= 0 && sqlite3_column_type(scan->statement, place) != SQLITE_NULL;
    if (!*known) {
        return true;
    }
    if (sqlite3_column_type(scan->statement, place) == SQLITE_INTEGER) {
        *value = sqlite3_column_int64(scan->statement, place);
        return true;
    }
    size_t length;
    const char *text = sqlite_scan_text(scan, column, &length);
    return (text != NULL && read_digits(text, length, value)) ||
           sqlite_scan_refuse(scan, WEIR_ERR_INVALID, column, "expected an integer");
}

bool sqlite_scan_need(struct sqlite_scan *scan, unsigned column, int64_t *value)
{
    bool known;
    return sqlite_scan_integer(scan, column, value, &known) &&
           (known || sqlite_scan_refuse(scan, WEIR_ERR_INVALID, column, "expected an integer, got NULL"));
}

bool sqlite_scan_bits(struct sqlite_scan *scan, unsigned column, uint64_t *value, bool *known)
{
    int64_t number;
    if (!sqlite_scan_integer(scan, column, &number, known)) {
        return false;
    }
    *value = (uint64_t)number;
    return true;
}

bool sqlite_scan_device(struct sqlite_scan *scan, unsigned column, uint32_t otherwise, uint32_t *device)
{
    bool known;
    int64_t number;
    if (!sqlite_scan_integer(scan, column, &number, &known)) {
        return false;
    }
    *device = known ? (uint32_t)number : otherwise;
    return !known || (number >= 0 && number < TRACE_MAX_DEVICES) ||
           sqlite_scan_refuse(scan, WEIR_ERR_INVALID, column, "expected the number of a device, below 4096");
}

const char *sqlite_scan_text(struct sqlite_scan *scan, unsigned column, size_t *length)
{
    const int place = scan->places[column];
    if (place < 0 || sqlite3_column_type(scan->statement, place) != SQLITE_TEXT) {
        return NULL;
    }
    const char *text = (const char *)sqlite3_column_text(scan->statement, place);
    *length = (size_t)sqlite3_column_bytes(scan->statement, place);
    return text;
}

/* --- tables of strings --- */

struct name_reader {
    struct profile *profile;
    struct id_map *names;
    const char *looked_for;
    int64_t *special;
};

static bool read_name(void *ctx, struct sqlite_scan *scan)
{
    const struct name_reader *reader = ctx;
    int64_t id;
    uint32_t name;
    size_t length;
    if (!sqlite_scan_need(scan, 0, &id)) {
        return false;
    }
    const char *text = sqlite_scan_text(scan, 1, &length);
    if (text == NULL) {
        return true;
    }
    if (reader->looked_for != NULL && length == strlen(reader->looked_for) &&
        memcmp(text, reader->looked_for, length) == 0) {
        *reader->special = id;
    }
    return profile_name(reader->profile, text, length, &name) &&
           (name == WEIR_TRACE_NONE || id_map_put(reader->names, (uint64_t)id, name) ||
            profile_no_memory(reader->profile));
}

bool sqlite_read_names(struct sqlite_file *file, const char *table, struct profile *profile, struct id_map *names,
                       const char *looked_for, int64_t *special)
{
    static const char *const columns[] = {"id", "value", NULL};
    struct name_reader reader = {profile, names, looked_for, special};
    return sqlite_read_table(file, table, columns, 2, read_name, &reader);
}
