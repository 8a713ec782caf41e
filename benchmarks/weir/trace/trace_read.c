/* trace_read.c: reads a trace from a file or from bytes. The first bytes tell the format (detect.c). trace_read.c
 * unpacks at most once and calls the reader of the format. File names and suffixes do not matter.
 */
#include "trace_internal.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_MAX_BYTES ((uint64_t)4 << 30)

/* Names a file that stands in the place of a trace, by its first bytes. */
static bool refuse_other(const struct trace_source *source, struct trace_error *error)
{
    static const struct {
        const char *begin;
        const char *what;
    } others[] = {
        {"version https://git-lfs.github.com/spec/", "is a Git LFS pointer; fetch the file by git lfs pull"},
        {"/annex/objects/", "is a git-annex pointer; fetch the file by git annex get"},
        {"\xff\xfe", "is UTF-16 text; save it as UTF-8"},
        {"\xfe\xff", "is UTF-16 text; save it as UTF-8"},
        {"<", "is HTML or XML, and not the recording that it shows"},
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const size_t length = strlen(others[i].begin);
        if (source->size >= length && memcmp(source->bytes, others[i].begin, length) == 0) {
            return trace_say(error, WEIR_ERR_INVALID, source->path, "%s", others[i].what);
        }
    }
    return trace_say(
        error, WEIR_ERR_INVALID, source->path,
        "is no trace (\"#wtr 1\"), memory snapshot of PyTorch (a pickle or a zip), profile (JSON or SQLite) or CSV");
}

static bool refuse(const struct trace_source *source, enum trace_format format, struct trace_error *error)
{
    switch (format) {
    case TRACE_FORMAT_XZ:
    case TRACE_FORMAT_GZIP:
        return trace_say(error, WEIR_ERR_UNSUPPORTED, source->path, "is packed twice; unpack it once before");
    case TRACE_FORMAT_ZSTD:
        return trace_say(error, WEIR_ERR_UNSUPPORTED, source->path, "is packed with zstd; xz, gzip and plain are read");
    default:
        return refuse_other(source, error);
    }
}

static bool read_sqlite(const struct trace_source *source, const struct trace_limits *limits, struct trace **out,
                        struct trace_error *error)
{
#ifdef WEIR_WITH_SQLITE
    return sqlite_parse(source, limits, out, error);
#else
    (void)limits;
    (void)out;
    return trace_say(error, WEIR_ERR_UNSUPPORTED, source->path,
                     "is a SQLite database; this weir was built without SQLite (on Debian: libsqlite3-dev)");
#endif
}

static bool read_plain(const struct trace_source *source, const struct trace_limits *limits, struct trace **out,
                       struct trace_error *error)
{
    enum trace_format format = trace_detect(source->bytes, source->size);
    if (format == TRACE_FORMAT_WTR) {
        return wtr_parse(source, limits, out, error);
    }
    if (format == TRACE_FORMAT_PICKLE) {
        return torch_snapshot_parse(source, limits, out, error);
    }
    if (format == TRACE_FORMAT_CSV) {
        return csv_parse(source, limits, out, error);
    }
    if (format == TRACE_FORMAT_ZIP) {
        return torch_zip_parse(source, limits, out, error);
    }
    if (format == TRACE_FORMAT_JSON) {
        return kineto_parse(source, limits, out, error);
    }
    if (format == TRACE_FORMAT_SQLITE) {
        return read_sqlite(source, limits, out, error);
    }
    if (source->size == 0) {
        return trace_say(error, WEIR_ERR_INVALID, source->path, "is empty");
    }
    return refuse(source, format, error);
}

static bool read_source(const struct trace_source *source, const struct trace_limits *limits, struct trace **out,
                        struct trace_error *error)
{
    enum trace_format format = trace_detect(source->bytes, source->size);
    if (format != TRACE_FORMAT_XZ && format != TRACE_FORMAT_GZIP) {
        return read_plain(source, limits, out, error);
    }
    unsigned char *bytes = NULL;
    struct trace_source unpacked = {.path = source->path};
    if (!trace_unpack(source, format, limits->max_bytes, &bytes, &unpacked.size, error)) {
        return false;
    }
    unpacked.bytes = bytes;
    bool done = read_plain(&unpacked, limits, out, error);
    free(bytes);
    return done;
}

static struct trace_limits resolve(const struct trace_limits *limits)
{
    struct trace_limits resolved = {.max_bytes = 0};
    if (limits != NULL) {
        resolved = *limits;
    }
    if (resolved.max_bytes == 0) {
        resolved.max_bytes = DEFAULT_MAX_BYTES;
    }
    return resolved;
}

weir_status trace_read_memory(const char *name, const void *bytes, size_t size, const struct trace_limits *limits,
                              struct trace **out, struct trace_error *error)
{
    struct trace_limits resolved = resolve(limits);
    struct trace_source source = {.path = name, .bytes = bytes, .size = size};
    error->status = WEIR_OK;
    return read_source(&source, &resolved, out, error) ? WEIR_OK : error->status;
}

weir_status trace_read(const char *path, const struct trace_limits *limits, struct trace **out,
                       struct trace_error *error)
{
    struct trace_limits resolved = resolve(limits);
    unsigned char *bytes = NULL;
    size_t size = 0;
    error->status = WEIR_OK;
    if (!trace_slurp(path, resolved.max_bytes, &bytes, &size, error)) {
        return error->status;
    }
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    struct trace_source source = {.path = name, .bytes = bytes, .size = size};
    bool done = read_source(&source, &resolved, out, error);
    free(bytes);
    return done ? WEIR_OK : error->status;
}
