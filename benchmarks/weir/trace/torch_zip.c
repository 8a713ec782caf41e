/* torch_zip.c: finds the memory snapshot in a zip archive that torch.save wrote: the pickle NAME/data.pkl.
 *
 * Promise: every offset and size of the archive is checked against the file before it is used, memory is proportional
 * to the packed data, and the bytes have the checksum of the archive. Anything else in a zip is refused by name.
 *
 * The directory at the end of the file decides; it may be of the form for large files (zip64), which torch.save writes.
 * Entries are stored or deflated. torch.save stores.
 */
#include "trace_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define END_SIZE 22u
#define LOCATOR_SIZE 20u
#define END64_SIZE 56u
#define ENTRY_SIZE 46u
#define LOCAL_SIZE 30u
#define LONGEST_COMMENT 65535u
#define EXTRA_ZIP64 1u
#define STORED 0u
#define DEFLATED 8u
#define MOST_RATIO 1040u /* a higher ratio is refused: deflate packs at most 1032 bytes into one */

struct archive {
    const struct trace_source *source;
    struct trace_error *error;
    uint64_t entries;
    uint64_t offset; /* offset of the directory */
    uint64_t size;
};

struct entry {
    const char *name;
    size_t name_length;
    unsigned flags;
    unsigned method;
    uint32_t crc;
    uint64_t packed;
    uint64_t size;
    uint64_t local; /* offset of the local header */
};

static bool refuse(const struct archive *archive, weir_status status, uint64_t byte, const char *format, ...)
    TRACE_PRINTF(4, 5);

static bool refuse(const struct archive *archive, weir_status status, uint64_t byte, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)trace_say_byte(archive->error, status, archive->source->path, byte, format, arguments);
    va_end(arguments);
    return false;
}

static uint64_t little(const unsigned char *bytes, unsigned count)
{
    uint64_t number = 0;
    for (unsigned i = 0; i < count; i++) {
        number |= (uint64_t)bytes[i] << 8 * i;
    }
    return number;
}

static bool is_inside(const struct archive *archive, uint64_t offset, uint64_t size)
{
    return offset <= archive->source->size && size <= archive->source->size - offset;
}

static bool has_mark(const struct archive *archive, uint64_t offset, uint64_t size, const char mark[4])
{
    return is_inside(archive, offset, size) && memcmp(archive->source->bytes + offset, mark, 4) == 0;
}

/* --- the directory --- */

/* Replaces the numbers read from the zip's end record by those of its zip64 end record. */
static bool read_end64(struct archive *archive, uint64_t end)
{
    const unsigned char *bytes = archive->source->bytes;
    if (end < LOCATOR_SIZE || !has_mark(archive, end - LOCATOR_SIZE, LOCATOR_SIZE, "PK\6\7")) {
        return refuse(archive, WEIR_ERR_INVALID, end, "the zip archive has no zip64 locator");
    }
    const uint64_t at = little(bytes + end - LOCATOR_SIZE + 8, 8);
    if (!has_mark(archive, at, END64_SIZE, "PK\6\6")) {
        return refuse(archive, WEIR_ERR_INVALID, end - LOCATOR_SIZE,
                      "the zip64 end record is not where the locator says");
    }
    archive->entries = little(bytes + at + 32, 8);
    archive->size = little(bytes + at + 40, 8);
    archive->offset = little(bytes + at + 48, 8);
    return true;
}

/* Finds the end record of the zip file, behind which only a comment may stand. */
static bool read_end(struct archive *archive)
{
    const struct trace_source *source = archive->source;
    uint64_t at = source->size < END_SIZE ? 0 : source->size - END_SIZE;
    const uint64_t last = at > LONGEST_COMMENT ? at - LONGEST_COMMENT : 0;
    while (!(has_mark(archive, at, END_SIZE, "PK\5\6") &&
             little(source->bytes + at + 20, 2) == source->size - at - END_SIZE)) {
        if (at == last) {
            return refuse(archive, WEIR_ERR_INVALID, source->size, "the zip archive has no directory at its end");
        }
        at--;
    }
    archive->entries = little(source->bytes + at + 10, 2);
    archive->size = little(source->bytes + at + 12, 4);
    archive->offset = little(source->bytes + at + 16, 4);
    const bool large = archive->entries == UINT16_MAX || archive->size == UINT32_MAX || archive->offset == UINT32_MAX;
    if (large && !read_end64(archive, at)) {
        return false;
    }
    if (!is_inside(archive, archive->offset, archive->size)) {
        return refuse(archive, WEIR_ERR_INVALID, at, "the directory of the zip archive lies outside the file");
    }
    return true;
}

/* If a number does not fit its 32 bits, which are then all ones, takes its 8 bytes from the zip64 field. */
static bool widen(uint64_t *number, const unsigned char **field, const unsigned char *end)
{
    if (*number != UINT32_MAX) {
        return true;
    }
    if (end - *field < 8) {
        return false;
    }
    *number = little(*field, 8);
    *field += 8;
    return true;
}

static bool read_extra(struct entry *entry, const unsigned char *extra, size_t length)
{
    const unsigned char *end = extra + length;
    while (end - extra >= 4) {
        const uint64_t size = little(extra + 2, 2);
        const unsigned char *field = extra + 4;
        if (size > (uint64_t)(end - field)) {
            return false;
        }
        if (little(extra, 2) == EXTRA_ZIP64) {
            end = field + size;
            return widen(&entry->size, &field, end) && widen(&entry->packed, &field, end) &&
                   widen(&entry->local, &field, end);
        }
        extra = field + size;
    }
    return true;
}

/* Reads the directory entry at *at and moves *at past the entry. */
static bool read_entry(const struct archive *archive, uint64_t *at, struct entry *entry)
{
    const uint64_t end = archive->offset + archive->size;
    const unsigned char *bytes = archive->source->bytes + *at;
    if (!has_mark(archive, *at, ENTRY_SIZE, "PK\1\2") || end - *at < ENTRY_SIZE) {
        return refuse(archive, WEIR_ERR_INVALID, *at, "expected an entry of the zip directory");
    }
    const uint64_t name = little(bytes + 28, 2);
    const uint64_t extra = little(bytes + 30, 2);
    const uint64_t whole = ENTRY_SIZE + name + extra + little(bytes + 32, 2);
    *entry = (struct entry){
        .name = (const char *)bytes + ENTRY_SIZE,
        .name_length = (size_t)name,
        .flags = (unsigned)little(bytes + 8, 2),
        .method = (unsigned)little(bytes + 10, 2),
        .crc = (uint32_t)little(bytes + 16, 4),
        .packed = little(bytes + 20, 4),
        .size = little(bytes + 24, 4),
        .local = little(bytes + 42, 4),
    };
    if (whole > end - *at || !read_extra(entry, bytes + ENTRY_SIZE + name, (size_t)extra)) {
        return refuse(archive, WEIR_ERR_INVALID, *at, "the entry of the zip directory is damaged");
    }
    *at += whole;
    return true;
}

/* True for NAME/data.pkl. */
static bool is_pickle(const struct entry *entry)
{
    static const char suffix[] = "/data.pkl";
    const size_t length = sizeof(suffix) - 1;
    return entry->name_length > length && memchr(entry->name, '/', entry->name_length - length) == NULL &&
           memcmp(entry->name + entry->name_length - length, suffix, length) == 0;
}

static bool find_pickle(const struct archive *archive, struct entry *entry)
{
    uint64_t at = archive->offset;
    for (uint64_t i = 0; i < archive->entries; i++) {
        if (!read_entry(archive, &at, entry)) {
            return false;
        }
        if (is_pickle(entry)) {
            return true;
        }
    }
    return trace_say(archive->error, WEIR_ERR_UNSUPPORTED, archive->source->path,
                     "is a zip archive without NAME/data.pkl; expected a memory snapshot that torch.save wrote");
}

/* --- the data --- */

static bool find_data(const struct archive *archive, const struct entry *entry, const unsigned char **data)
{
    if (!has_mark(archive, entry->local, LOCAL_SIZE, "PK\3\4")) {
        return refuse(archive, WEIR_ERR_INVALID, entry->local, "expected the header of data.pkl");
    }
    const unsigned char *header = archive->source->bytes + entry->local;
    const uint64_t offset = entry->local + LOCAL_SIZE + little(header + 26, 2) + little(header + 28, 2);
    if (!is_inside(archive, offset, entry->packed)) {
        return refuse(archive, WEIR_ERR_INVALID, entry->local, "data.pkl lies outside the file");
    }
    *data = archive->source->bytes + offset;
    return true;
}

static bool check_entry(const struct archive *archive, const struct entry *entry, uint64_t max_bytes)
{
    if ((entry->flags & 1u) != 0) {
        return refuse(archive, WEIR_ERR_UNSUPPORTED, entry->local, "data.pkl is encrypted");
    }
    if (entry->method != STORED && entry->method != DEFLATED) {
        return refuse(archive, WEIR_ERR_UNSUPPORTED, entry->local,
                      "data.pkl is packed by method %u; stored and deflated entries are read", entry->method);
    }
    if (entry->size > max_bytes) {
        return refuse(archive, WEIR_ERR_LIMIT, entry->local,
                      "data.pkl has more than %" PRIu64 " bytes, which is the limit", max_bytes);
    }
    if (entry->method == STORED ? entry->size != entry->packed : entry->size / MOST_RATIO > entry->packed) {
        return refuse(archive, WEIR_ERR_INVALID, entry->local, "the sizes of data.pkl contradict each other");
    }
    return true;
}

static uInt piece(uint64_t size)
{
    return size > (uint64_t)1 << 30 ? (uInt)1 << 30 : (uInt)size;
}

/* Inflates exactly entry->size bytes. */
static bool inflate_data(const struct archive *archive, const struct entry *entry, const unsigned char *data,
                         unsigned char *out)
{
    z_stream stream = {.next_in = (z_const Bytef *)data, .next_out = out};
    if (inflateInit2(&stream, -15) != Z_OK) {
        return trace_say(archive->error, WEIR_ERR_NO_MEMORY, archive->source->path, "out of memory");
    }
    int result = Z_OK;
    while (result == Z_OK) {
        stream.avail_in = piece(entry->packed - (uint64_t)(stream.next_in - data));
        stream.avail_out = piece(entry->size - (uint64_t)(stream.next_out - out));
        result = inflate(&stream, Z_NO_FLUSH);
    }
    const bool whole = result == Z_STREAM_END && (uint64_t)(stream.next_out - out) == entry->size;
    inflateEnd(&stream);
    return whole || refuse(archive, WEIR_ERR_INVALID, entry->local, "the packed data of data.pkl are damaged");
}

static uint32_t checksum(const unsigned char *bytes, uint64_t size)
{
    uLong sum = crc32(0, NULL, 0);
    for (uint64_t done = 0; done < size; done += piece(size - done)) {
        sum = crc32(sum, bytes + done, piece(size - done));
    }
    return (uint32_t)sum;
}

/* Sets *pickle to the bytes of the zip entry. The caller frees *memory, which is NULL for a stored entry. */
static bool unpack_entry(const struct archive *archive, const struct entry *entry, struct trace_source *pickle,
                         unsigned char **memory)
{
    const unsigned char *data = NULL;
    if (!find_data(archive, entry, &data)) {
        return false;
    }
    if (entry->method == DEFLATED) {
        *memory = malloc((size_t)entry->size + 1);
        if (*memory == NULL) {
            return trace_say(archive->error, WEIR_ERR_NO_MEMORY, archive->source->path, "out of memory");
        }
        if (!inflate_data(archive, entry, data, *memory)) {
            return false;
        }
        data = *memory;
    }
    *pickle = (struct trace_source){.path = archive->source->path, .bytes = data, .size = (size_t)entry->size};
    return checksum(data, entry->size) == entry->crc ||
           refuse(archive, WEIR_ERR_INVALID, entry->local, "data.pkl does not have its checksum");
}

bool torch_zip_parse(const struct trace_source *source, const struct trace_limits *limits, struct trace **out,
                     struct trace_error *error)
{
    struct archive archive = {.source = source, .error = error};
    struct entry entry = {.name = NULL};
    struct trace_source pickle;
    unsigned char *memory = NULL;
    const bool done =
        read_end(&archive) && find_pickle(&archive, &entry) && check_entry(&archive, &entry, limits->max_bytes) &&
        unpack_entry(&archive, &entry, &pickle, &memory) && torch_snapshot_parse(&pickle, limits, out, error);
    free(memory);
    return done;
}
