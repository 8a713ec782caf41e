/* unpack.c: reads the bytes of a file and unpacks gzip and xz.
 *
 * Promise: a result is complete. A stream that ends early, a wrong checksum, bytes behind the end and output beyond the
 * limit are errors with the offset in the packed file. Memory grows with the bytes unpacked so far, so a small file
 * that claims to be huge takes no memory for its claim.
 */
#include "trace_internal.h"

#include "shared/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define READ_STEP ((size_t)1 << 20)
#define LZMA_MEMORY_LIMIT ((uint64_t)1 << 30) /* the dictionary of xz -9 takes 64 MiB */

struct buffer {
    unsigned char *bytes;
    size_t size;
    size_t capacity;
    uint64_t limit;
};

/* Grows the buffer by half, or at least by one byte. Returns false at the limit or when out of memory. */
static bool grow_buffer(struct buffer *buffer)
{
    size_t larger = buffer->capacity + buffer->capacity / 2 + 4096;
    /* The buffer may hold one byte more than the limit, to tell input of exactly the limit from longer input. */
    if ((uint64_t)larger > buffer->limit && buffer->limit < SIZE_MAX - 1) {
        larger = (size_t)buffer->limit + 1;
    }
    unsigned char *moved = larger > buffer->capacity ? realloc(buffer->bytes, larger) : NULL;
    if (moved == NULL) {
        return false;
    }
    buffer->bytes = moved;
    buffer->capacity = larger;
    return true;
}

static bool say_limit(struct trace_error *error, const char *path, uint64_t limit, bool unpacked)
{
    return trace_say(error, WEIR_ERR_LIMIT, path, "%s more than %" PRIu64 " bytes, which is the limit",
                     unpacked ? "unpacks to" : "holds", limit);
}

/* --- files --- */

static bool say_system(struct trace_error *error, const char *path, const char *what)
{
    return trace_say(error, WEIR_ERR_DEVICE, path, "cannot %s: %s", what, strerror(errno));
}

static bool read_all(int file, const char *path, struct buffer *buffer, struct trace_error *error)
{
    for (;;) {
        if (buffer->size == buffer->capacity && !grow_buffer(buffer)) {
            return trace_say(error, WEIR_ERR_NO_MEMORY, path, "out of memory");
        }
        size_t room = buffer->capacity - buffer->size;
        ssize_t got = read(file, buffer->bytes + buffer->size, room < READ_STEP ? room : READ_STEP);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return say_system(error, path, "read");
        }
        if (got == 0) {
            return true;
        }
        buffer->size += (size_t)got;
        if (buffer->size > buffer->limit) {
            return say_limit(error, path, buffer->limit, false);
        }
    }
}

/* Refuses a folder, which can be opened like a file and fails only when it is read. Uses the size of a regular file as
 * a hint for the buffer. */
static bool look_at_file(int file, const char *path, struct buffer *buffer, struct trace_error *error)
{
    struct stat facts;
    if (fstat(file, &facts) != 0) {
        return say_system(error, path, "read");
    }
    if (S_ISDIR(facts.st_mode)) {
        return trace_say(error, WEIR_ERR_DEVICE, path, "is a folder, not a trace file");
    }
    if (S_ISREG(facts.st_mode) && facts.st_size > 0) {
        if ((uint64_t)facts.st_size > buffer->limit) {
            return say_limit(error, path, buffer->limit, false);
        }
        buffer->bytes = malloc((size_t)facts.st_size + 1);
        buffer->capacity = buffer->bytes != NULL ? (size_t)facts.st_size + 1 : 0;
    }
    return true;
}

bool trace_slurp(const char *path, uint64_t max_bytes, unsigned char **bytes, size_t *size, struct trace_error *error)
{
    bool standard_input = strcmp(path, "-") == 0;
    int file = standard_input ? STDIN_FILENO : above_standard(open(path, O_RDONLY | O_CLOEXEC));
    if (file < 0) {
        return say_system(error, path, "open");
    }
    const char *shown = standard_input ? "standard input" : path;
    struct buffer buffer = {.limit = max_bytes};
    bool done = look_at_file(file, shown, &buffer, error) && read_all(file, shown, &buffer, error);
    if (!standard_input) {
        close(file);
    }
    if (done) {
        *bytes = buffer.bytes;
        *size = buffer.size;
    } else {
        free(buffer.bytes);
    }
    return done;
}

/* --- gzip --- */

static bool say_at(struct trace_error *error, weir_status status, const char *path, uint64_t byte, const char *format,
                   ...) TRACE_PRINTF(5, 6);

static bool say_at(struct trace_error *error, weir_status status, const char *path, uint64_t byte, const char *format,
                   ...)
{
    va_list arguments;
    va_start(arguments, format);
    bool none = trace_say_byte(error, status, path, byte, format, arguments);
    va_end(arguments);
    return none;
}

/* Limits a size to the 32 bits in which zlib counts: zlib gets input and output in pieces. */
static uInt piece(size_t size)
{
    return size > (size_t)1 << 30 ? (uInt)1 << 30 : (uInt)size;
}

static bool inflate_member(z_stream *stream, const struct trace_source *packed, struct buffer *out,
                           struct trace_error *error)
{
    for (;;) {
        size_t taken = (size_t)(stream->next_in - packed->bytes);
        stream->avail_in = piece(packed->size - taken);
        if (out->size == out->capacity && !grow_buffer(out)) {
            return trace_say(error, WEIR_ERR_NO_MEMORY, packed->path, "out of memory");
        }
        stream->next_out = out->bytes + out->size;
        stream->avail_out = piece(out->capacity - out->size);
        int result = inflate(stream, Z_NO_FLUSH);
        out->size = (size_t)(stream->next_out - out->bytes);
        taken = (size_t)(stream->next_in - packed->bytes);
        if (out->size > out->limit) {
            return say_limit(error, packed->path, out->limit, true);
        }
        if (result == Z_STREAM_END) {
            return true;
        }
        if (result == Z_MEM_ERROR) {
            return trace_say(error, WEIR_ERR_NO_MEMORY, packed->path, "out of memory");
        }
        if (result != Z_OK && result != Z_BUF_ERROR) {
            return say_at(error, WEIR_ERR_INVALID, packed->path, taken, "the gzip data are damaged (%s)",
                          stream->msg != NULL ? stream->msg : "no detail");
        }
        if (taken == packed->size && stream->avail_out > 0) {
            return say_at(error, WEIR_ERR_INVALID, packed->path, packed->size, "the gzip data end too early");
        }
    }
}

/* Unpacks a gzip file, which may consist of several members, one after the other. */
static bool unpack_gzip(const struct trace_source *packed, struct buffer *out, struct trace_error *error)
{
    z_stream stream = {.next_in = (z_const Bytef *)packed->bytes};
    if (inflateInit2(&stream, 15 + 16) != Z_OK) {
        return trace_say(error, WEIR_ERR_NO_MEMORY, packed->path, "out of memory");
    }
    bool done = inflate_member(&stream, packed, out, error);
    while (done) {
        size_t taken = (size_t)(stream.next_in - packed->bytes);
        if (taken == packed->size) {
            break;
        }
        if (packed->size - taken < 2 || packed->bytes[taken] != 0x1f || packed->bytes[taken + 1] != 0x8b) {
            done = say_at(error, WEIR_ERR_INVALID, packed->path, taken, "bytes follow the end of the gzip data");
            break;
        }
        done = inflateReset(&stream) == Z_OK && inflate_member(&stream, packed, out, error);
    }
    inflateEnd(&stream);
    return done;
}

/* --- xz --- */

static bool say_xz(struct trace_error *error, const struct trace_source *packed, uint64_t taken, lzma_ret result)
{
    switch (result) {
    case LZMA_MEM_ERROR:
        return trace_say(error, WEIR_ERR_NO_MEMORY, packed->path, "out of memory");
    case LZMA_MEMLIMIT_ERROR:
        return trace_say(error, WEIR_ERR_LIMIT, packed->path, "unpacking the xz data needs more than 1 GiB of memory");
    case LZMA_BUF_ERROR:
        return say_at(error, WEIR_ERR_INVALID, packed->path, packed->size, "the xz data end too early");
    case LZMA_OPTIONS_ERROR:
        return say_at(error, WEIR_ERR_UNSUPPORTED, packed->path, taken, "the xz data use an unknown option");
    default:
        return say_at(error, WEIR_ERR_INVALID, packed->path, taken, "the xz data are damaged");
    }
}

/* Decodes one xz stream that begins at *taken, and sets *taken to its end. */
static bool decode_stream(const struct trace_source *packed, size_t *taken, struct buffer *out,
                          struct trace_error *error)
{
    lzma_stream stream = LZMA_STREAM_INIT;
    lzma_ret result = lzma_stream_decoder(&stream, LZMA_MEMORY_LIMIT, 0);
    if (result != LZMA_OK) {
        return say_xz(error, packed, *taken, result);
    }
    stream.next_in = packed->bytes + *taken;
    stream.avail_in = packed->size - *taken;
    bool done = true;
    while (done && result == LZMA_OK) {
        if (out->size == out->capacity && !grow_buffer(out)) {
            done = trace_say(error, WEIR_ERR_NO_MEMORY, packed->path, "out of memory");
            break;
        }
        stream.next_out = out->bytes + out->size;
        stream.avail_out = out->capacity - out->size;
        result = lzma_code(&stream, LZMA_FINISH);
        out->size = (size_t)(stream.next_out - out->bytes);
        if (out->size > out->limit) {
            done = say_limit(error, packed->path, out->limit, true);
        }
    }
    *taken = (size_t)(stream.next_in - packed->bytes);
    if (done && result != LZMA_STREAM_END) {
        done = say_xz(error, packed, *taken, result);
    }
    lzma_end(&stream);
    return done;
}

/* Returns the position behind stream padding: zeros in multiples of four bytes. */
static size_t skip_padding(const struct trace_source *packed, size_t taken)
{
    while (packed->size - taken >= 4 && memcmp(packed->bytes + taken, "\0\0\0\0", 4) == 0) {
        taken += 4;
    }
    return taken;
}

/* Unpacks an xz file, which may consist of several streams, one after the other. */
static bool unpack_xz(const struct trace_source *packed, struct buffer *out, struct trace_error *error)
{
    size_t taken = 0;
    while (taken < packed->size) {
        if (trace_detect(packed->bytes + taken, packed->size - taken) != TRACE_FORMAT_XZ) {
            return say_at(error, WEIR_ERR_INVALID, packed->path, taken, "bytes follow the end of the xz data");
        }
        if (!decode_stream(packed, &taken, out, error)) {
            return false;
        }
        taken = skip_padding(packed, taken);
    }
    return true;
}

bool trace_unpack(const struct trace_source *packed, enum trace_format format, uint64_t max_bytes,
                  unsigned char **bytes, size_t *size, struct trace_error *error)
{
    struct buffer out = {.limit = max_bytes};
    bool done = format == TRACE_FORMAT_XZ ? unpack_xz(packed, &out, error) : unpack_gzip(packed, &out, error);
    if (done) {
        *bytes = out.bytes;
        *size = out.size;
    } else {
        free(out.bytes);
    }
    return done;
}
