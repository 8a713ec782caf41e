/* trace_zip_test.c: the pickle of a snapshot inside the zip archive of torch.save. The tests write their archives. */
#include "rig/wtr.h"

#include <stdio.h>
#include <zlib.h>

#include "pickle_writer.h"
/* --- writing an archive --- */

enum { STORED = 0, DEFLATED = 8 };

struct shape {
    const char *name; /* NULL = "snapshot/data.pkl" */
    unsigned method;
    bool zip64;
    bool encrypted;
    uint32_t wrong_crc; /* added to the checksum */
    int64_t wrong_size; /* added to the size of the directory entry */
    const char *comment;
};

static struct pickle_writer archive;
static size_t local_at;
static size_t entry_at;
static size_t end64_at;
static size_t locator_at;
static size_t end_at;

static void write_pickle(struct pickle_writer *writer)
{
    pw_begin(writer);
    pw_dict(writer);
    pw_str(writer, "segments");
    pw_list(writer);
    pw_segment(writer, 0, 4096, 2097152, 0, 0);
    pw_block(writer, 4096, 512, 500, "active_allocated");
    pw_segment_end(writer);
    pw_list_end(writer);
    pw_dict_end(writer);
    pw_end(writer);
}

static size_t pack(const struct pickle_writer *pickle, unsigned char *out, size_t room)
{
    z_stream stream = {
        .next_in = pickle->bytes, .avail_in = (uInt)pickle->size, .next_out = out, .avail_out = (uInt)room};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    const size_t size = room - stream.avail_out;
    assert_int_equal(deflateEnd(&stream), Z_OK);
    return size;
}

static void write_local(const struct shape *shape, const char *name, uint32_t crc, size_t packed, size_t size)
{
    pw_raw(&archive, "PK\3\4", 4);
    pw_number(&archive, 0, 2);
    pw_number(&archive, shape->encrypted, 2);
    pw_number(&archive, shape->method, 2);
    pw_number(&archive, 0, 4);
    pw_number(&archive, crc, 4);
    pw_number(&archive, packed, 4);
    pw_number(&archive, size, 4);
    pw_number(&archive, strlen(name), 2);
    pw_number(&archive, 8, 2); /* torch.save pads with an extra field */
    pw_raw(&archive, name, strlen(name));
    pw_raw(&archive, "FB\4\0ZZZZ", 8);
}

static void write_entry(const struct shape *shape, const char *name, uint32_t crc, uint64_t packed, uint64_t size,
                        uint64_t local)
{
    pw_raw(&archive, "PK\1\2", 4);
    pw_number(&archive, 0, 4);
    pw_number(&archive, shape->encrypted, 2);
    pw_number(&archive, shape->method, 2);
    pw_number(&archive, 0, 4);
    pw_number(&archive, crc, 4);
    pw_number(&archive, shape->zip64 ? UINT32_MAX : packed, 4);
    pw_number(&archive, shape->zip64 ? UINT32_MAX : size, 4);
    pw_number(&archive, strlen(name), 2);
    pw_number(&archive, shape->zip64 ? 4 + 4 + 4 + 24 : 0, 2);
    pw_number(&archive, 0, 2);
    pw_number(&archive, 0, 2);
    pw_number(&archive, 0, 2);
    pw_number(&archive, 0, 4);
    pw_number(&archive, shape->zip64 ? UINT32_MAX : local, 4);
    pw_raw(&archive, name, strlen(name));
    if (shape->zip64) {
        pw_raw(&archive, "XX\4\0????", 8);
        pw_raw(&archive, "\1\0\30\0", 4);
        pw_number(&archive, size, 8);
        pw_number(&archive, packed, 8);
        pw_number(&archive, local, 8);
    }
}

static void write_file(const struct shape *shape, const char *name, const struct pickle_writer *pickle)
{
    unsigned char packed[4096];
    size_t size = pickle->size;
    const unsigned char *bytes = pickle->bytes;
    if (shape->method == DEFLATED) {
        size = pack(pickle, packed, sizeof(packed));
        bytes = packed;
    }
    local_at = archive.size;
    write_local(shape, name, 0, size, pickle->size);
    pw_raw(&archive, bytes, size);
    const uint32_t crc = (uint32_t)crc32(crc32(0, NULL, 0), pickle->bytes, (uInt)pickle->size) + shape->wrong_crc;
    entry_at = archive.size;
    write_entry(shape, name, crc, size, pickle->size + (uint64_t)shape->wrong_size, local_at);
}

static void write_end(const struct shape *shape)
{
    const size_t size = archive.size - entry_at;
    end64_at = archive.size;
    if (shape->zip64) {
        pw_raw(&archive, "PK\6\6", 4);
        pw_number(&archive, 44, 8);
        pw_number(&archive, 0, 4);
        pw_number(&archive, 0, 8);
        pw_number(&archive, 1, 8);
        pw_number(&archive, 1, 8);
        pw_number(&archive, size, 8);
        pw_number(&archive, entry_at, 8);
        locator_at = archive.size;
        pw_raw(&archive, "PK\6\7", 4);
        pw_number(&archive, 0, 4);
        pw_number(&archive, end64_at, 8);
        pw_number(&archive, 1, 4);
    }
    end_at = archive.size;
    const char *comment = shape->comment != NULL ? shape->comment : "";
    pw_raw(&archive, "PK\5\6", 4);
    pw_number(&archive, 0, 4);
    pw_number(&archive, shape->zip64 ? UINT16_MAX : 1, 2);
    pw_number(&archive, shape->zip64 ? UINT16_MAX : 1, 2);
    pw_number(&archive, shape->zip64 ? UINT32_MAX : size, 4);
    pw_number(&archive, shape->zip64 ? UINT32_MAX : entry_at, 4);
    pw_number(&archive, strlen(comment), 2);
    pw_raw(&archive, comment, strlen(comment));
}

static void write_archive(struct shape shape)
{
    struct pickle_writer pickle;
    pw_free(&archive);
    write_pickle(&pickle);
    write_file(&shape, shape.name != NULL ? shape.name : "snapshot/data.pkl", &pickle);
    write_end(&shape);
    pw_free(&pickle);
}

static int forget(void **state)
{
    (void)state;
    pw_free(&archive);
    return 0;
}

/* --- checks --- */

static weir_status read_archive(const struct trace_limits *limits, struct trace **trace, struct trace_error *error)
{
    return read_exactly("t.pt", archive.bytes, archive.size, limits, trace, error);
}

static void check_read(struct shape shape)
{
    write_archive(shape);
    struct trace *trace = trace_of_bytes("t.pt", archive.bytes, archive.size);
    assert_int_equal(trace->event_count, 2);
    assert_int_equal(trace->events[1].event.kind, WEIR_TRACE_PRIOR);
    assert_int_equal(trace->events[1].event.address, 4096);
    assert_string_equal(trace->source, "torch-snapshot t.pt dev0");
    trace_free(trace);
}

static void check_refused(weir_status status, size_t byte, const char *message)
{
    char whole[300];
    snprintf(whole, sizeof(whole), "t.pt: byte %zu: %s", byte, message);
    is_refused("t.pt", archive.bytes, archive.size, status, whole);
}

static void set_number(size_t at, uint64_t number, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        archive.bytes[at + i] = (unsigned char)(number >> 8 * i);
    }
}

TEST(test_archives)
{
    check_read((struct shape){.method = STORED});
    check_read((struct shape){.method = DEFLATED});
    check_read((struct shape){.method = STORED, .zip64 = true});
    check_read((struct shape){.method = DEFLATED, .zip64 = true, .comment = "PK\5\6 is only a comment"});
    check_read((struct shape){.name = "archive/data.pkl"});
}

TEST(test_other_archives)
{
    struct trace *trace = NULL;
    struct trace_error error;
    static const char *const names[] = {"word/document.xml", "data.pkl", "/data.pkl/x", "a/b/data.pkl", "a/data.pkl "};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        write_archive((struct shape){.name = names[i]});
        assert_int_equal(read_archive(NULL, &trace, &error), WEIR_ERR_UNSUPPORTED);
        assert_string_equal(error.message,
                            "t.pt: is a zip archive without NAME/data.pkl; expected a memory snapshot that "
                            "torch.save wrote");
    }
}

TEST(test_damaged_entries)
{
    write_archive((struct shape){.encrypted = true});
    check_refused(WEIR_ERR_UNSUPPORTED, local_at, "data.pkl is encrypted");
    write_archive((struct shape){.method = 14});
    check_refused(WEIR_ERR_UNSUPPORTED, local_at,
                  "data.pkl is packed by method 14; stored and deflated entries are read");
    write_archive((struct shape){.wrong_crc = 1});
    check_refused(WEIR_ERR_INVALID, local_at, "data.pkl does not have its checksum");
    write_archive((struct shape){.wrong_size = 1});
    check_refused(WEIR_ERR_INVALID, local_at, "the sizes of data.pkl contradict each other");
    write_archive((struct shape){.method = DEFLATED, .wrong_size = 1});
    check_refused(WEIR_ERR_INVALID, local_at, "the packed data of data.pkl are damaged");
    write_archive((struct shape){.method = DEFLATED, .wrong_size = -1});
    check_refused(WEIR_ERR_INVALID, local_at, "the packed data of data.pkl are damaged");
    write_archive((struct shape){.method = DEFLATED, .wrong_size = 1 << 30}); /* a bomb by its own claim */
    check_refused(WEIR_ERR_INVALID, local_at, "the sizes of data.pkl contradict each other");
    write_archive((struct shape){.zip64 = true, .wrong_size = INT64_MAX});
    check_refused(WEIR_ERR_LIMIT, local_at, "data.pkl has more than 4294967296 bytes, which is the limit");
}

TEST(test_damaged_directories)
{
    write_archive((struct shape){0});
    archive.size--;
    check_refused(WEIR_ERR_INVALID, archive.size, "the zip archive has no directory at its end");
    write_archive((struct shape){0});
    set_number(end_at + 16, archive.size, 4);
    check_refused(WEIR_ERR_INVALID, end_at, "the directory of the zip archive lies outside the file");
    write_archive((struct shape){0});
    set_number(end_at + 12, UINT32_MAX - 1, 4);
    check_refused(WEIR_ERR_INVALID, end_at, "the directory of the zip archive lies outside the file");
    write_archive((struct shape){0});
    set_number(end_at + 16, entry_at - 1, 4);
    check_refused(WEIR_ERR_INVALID, entry_at - 1, "expected an entry of the zip directory");
    write_archive((struct shape){0});
    set_number(entry_at + 28, UINT16_MAX, 2);
    check_refused(WEIR_ERR_INVALID, entry_at, "the entry of the zip directory is damaged");
    write_archive((struct shape){0});
    set_number(entry_at + 42, 1, 4);
    check_refused(WEIR_ERR_INVALID, 1, "expected the header of data.pkl");
    write_archive((struct shape){0});
    set_number(local_at + 28, UINT16_MAX, 2);
    check_refused(WEIR_ERR_INVALID, local_at, "data.pkl lies outside the file");
    write_archive((struct shape){.zip64 = true});
    archive.bytes[locator_at] = 0;
    check_refused(WEIR_ERR_INVALID, end_at, "the zip archive has no zip64 locator");
    write_archive((struct shape){.zip64 = true});
    set_number(locator_at + 8, UINT64_MAX - 3, 8);
    check_refused(WEIR_ERR_INVALID, locator_at, "the zip64 end record is not where the locator says");
    write_archive((struct shape){.zip64 = true});
    set_number(end64_at + 32, 2, 8); /* more entries than the directory has */
    set_number(entry_at + 46, 'x', 1);
    set_number(entry_at + 46 + 8, '_', 1);
    check_refused(WEIR_ERR_INVALID, end64_at, "expected an entry of the zip directory");
    write_archive((struct shape){.zip64 = true});
    set_number(entry_at + 46 + 17 + 8 + 2, 16, 2); /* a zip64 field with two numbers of three */
    check_refused(WEIR_ERR_INVALID, entry_at, "the entry of the zip directory is damaged");
}

TEST(test_pickle_inside)
{
    struct pickle_writer pickle = {0};
    const struct shape shape = {0};
    pw_free(&archive);
    pw_raw(&pickle, "\x80\2ctorch._utils\n_rebuild_tensor_v2\n.", 36);
    write_file(&shape, "model/data.pkl", &pickle);
    write_end(&shape);
    pw_free(&pickle);
    check_refused(WEIR_ERR_UNSUPPORTED, 2,
                  "opcode GLOBAL (0x63) is refused; a memory snapshot is plain data and nothing is executed");
}

TEST(test_limit)
{
    struct trace *trace = NULL;
    struct trace_error error;
    const struct trace_limits limits = {.max_bytes = 10};
    write_archive((struct shape){0});
    assert_int_equal(read_archive(&limits, &trace, &error), WEIR_ERR_LIMIT);
}

/* Every beginning of an archive is refused. */
TEST(test_cut_archives)
{
    write_archive((struct shape){.method = DEFLATED, .zip64 = true});
    const size_t whole = archive.size;
    for (archive.size = 0; archive.size < whole; archive.size++) {
        struct trace *trace = NULL;
        struct trace_error error;
        assert_int_equal(read_archive(NULL, &trace, &error), WEIR_ERR_INVALID);
    }
}

ALL_TESTS(NULL, forget)
