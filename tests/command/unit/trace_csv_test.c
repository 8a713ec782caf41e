/* trace_csv_test.c: the reader of CSV text, the choice of the format by the columns, the limits, and compressed CSV. */
#include "foreign_text.h"

#include <lzma.h>
#include <zlib.h>

#define PLAN_HEAD "id,lower,upper,size"
#define PLAN_NOTE                                                                                                      \
    "#src MiniMalloc CSV\n#clock logical\n#note a plan in logical time: no streams, threads, operators or times; "     \
    "[lower, upper) is taken as half open, which the file itself does not tell\n"

static const char one_block[] = PLAN_NOTE "@0 b\na 1 0 8 0 0 @0\nf 3 0 0 0\n";

/* Every form in which the same table may be written. */
TEST(test_forms)
{
    static const char *const forms[] = {
        "id,lower,upper,size\nb,1,3,8\n",
        "id,lower,upper,size\r\nb,1,3,8\r\n",
        "id,lower,upper,size\nb,1,3,8",
        "id,lower,upper,size\r\nb,1,3,8\r",
        "\xef\xbb\xbfid,lower,upper,size\nb,1,3,8\n",
        "\"id\",\"lower\",\"upper\",\"size\"\n\"b\",\"1\",\"3\",\"8\"\n",
        " id ,\tlower, upper,size\t\n b ,1\t, 3,8 \n",
        "ID,Lower,UPPER,Size\nb,1,3,8\n",
        "size,more,upper,lower,id\n8,\"a,\n\"\"b\"\"\",3,1,b\n",
        "id,lower,upper,size\n\n\r\nb,1,3,8\n\n",
        "id,lower,upper,size\n\"b\" ,1,3,8\n",
    };
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        becomes(forms[i], one_block);
    }
}

TEST(test_quoted_text)
{
    becomes(PLAN_HEAD "\n\"a \"\"b\"\", c\nd\",1,3,8\n", PLAN_NOTE "@0 a \"b\", c\\x0ad\na 1 0 8 0 0 @0\nf 3 0 0 0\n");
}

TEST(test_malformed)
{
    static const struct {
        const char *lines;
        const char *message;
    } cases[] = {
        {"b,1,3", "t.csv:2: expected 4 fields as in the header, got 3"},
        {"b,1,3,8,9", "t.csv:2: expected 4 fields as in the header, got 5"},
        {"b,1,3,8\nc,1,3,8,", "t.csv:3: expected 4 fields as in the header, got 5"},
        {"\"b,1,3,8", "t.csv:2: field 1: its quote is not closed"},
        {"\"b\nc\nd,1,3,8", "t.csv:2: field 1: its quote is not closed"},
        {"b,\"1\"2,3,8", "t.csv:2: field 2: text follows its closing quote"},
        {"b,1\"2,3,8", "t.csv:2: field 2: a quote stands in a field that does not begin with one"},
        {"\"b\nc\",x,3,8", "t.csv:2: field 2 (lower): expected a whole number below 2^62, got \"x\""},
        {"\"b\nc\",1,3,8\nd,1,3,", "t.csv:4: field 4 (size): expected a number of bytes, got \"\""},
        {"b,1,3,8\x01", "t.csv:2: field 4 (size): expected a number of bytes, got \"8\\x01\""},
        {"b,1\r2,3,8", "t.csv:2: field 2 (lower): expected a whole number below 2^62, got \"1\\x0d2\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        refused_lines(PLAN_HEAD, cases[i].lines, cases[i].message);
    }
}

/* The error has the offset of the field. */
TEST(test_byte)
{
    struct trace *trace = NULL;
    struct trace_error error;
    static const char text[] = "\xef\xbb\xbf" PLAN_HEAD "\nb,1,3,x\n";
    assert_int_equal(trace_read_memory("t.csv", text, sizeof(text) - 1, NULL, &trace, &error), WEIR_ERR_INVALID);
    assert_int_equal(error.line, 2);
    assert_int_equal(text[error.byte], 'x');
}

/* A last line without a newline and without all fields was cut; with a newline it is an error. */
TEST(test_cut)
{
    static const char text[] = PLAN_HEAD "\nb,1,3,8\nc,4,5";
    struct trace *trace = read_foreign(text, sizeof(text) - 1);
    assert_int_equal(trace->event_count, 2);
    assert_true(has_note(trace, "the last line is cut and left out"));
    trace_free(trace);
    trace = read_foreign(text, sizeof(text) - 6);
    assert_int_equal(trace->event_count, 2);
    assert_false(has_note(trace, "cut"));
    trace_free(trace);
}

TEST(test_unknown_columns)
{
    refused("a,b\n1,2\n", WEIR_ERR_UNSUPPORTED,
            "t.csv: is CSV with 2 columns that weir does not know (a,b); known are operator_memory.csv and "
            "memory_record.csv of torch_npu, msMemScope, RMM's log and MiniMalloc (id,lower,upper,size)");
    refused("id,lower,size", WEIR_ERR_UNSUPPORTED,
            "t.csv: is CSV with 3 columns that weir does not know (id,lower,size); known are operator_memory.csv and "
            "memory_record.csv of torch_npu, msMemScope, RMM's log and MiniMalloc (id,lower,upper,size)");
    refused("id,lower,upper,size,size\n", WEIR_ERR_INVALID, "t.csv:1: field 5: the column size appears twice");
    refused("Size,id,lower,upper,size\n", WEIR_ERR_INVALID, "t.csv:1: field 5: the column size appears twice");
    refused("a,\"b\n", WEIR_ERR_INVALID, "t.csv:1: field 2: its quote is not closed");
    refused(
        "no columns\n", WEIR_ERR_INVALID,
        "t.csv: is no trace (\"#wtr 1\"), memory snapshot of PyTorch (a pickle or a zip), profile (JSON or SQLite) or CSV");
    refused(
        "a,b\x01\n", WEIR_ERR_INVALID,
        "t.csv: is no trace (\"#wtr 1\"), memory snapshot of PyTorch (a pickle or a zip), profile (JSON or SQLite) or CSV");
}

TEST(test_thousands_of_columns)
{
    enum { columns = 20000 };
    char *text = malloc((size_t)columns * 16);
    struct trace *trace = NULL;
    struct trace_error error;
    assert_non_null(text);
    size_t used = 0;
    for (int i = 0; i < columns; i++) {
        used += (size_t)sprintf(text + used, "c%d,", i);
    }
    const size_t names = used;
    used += (size_t)sprintf(text + used, "x\n");
    assert_int_equal(trace_read_memory("t.csv", text, used, NULL, &trace, &error), WEIR_ERR_UNSUPPORTED);
    assert_null(trace);
    assert_non_null(strstr(error.message, "is CSV with 20001 columns that weir does not know (c0,c1,c2,"));
    assert_non_null(strstr(error.message, "...); known are "));
    used = names + (size_t)sprintf(text + names, "id,lower,upper,size\n");
    for (int i = 0; i < columns; i++) {
        text[used++] = ',';
    }
    used += (size_t)sprintf(text + used, "b,1,3,8\n");
    trace = read_foreign(text, used);
    assert_int_equal(trace->event_count, 2);
    trace_free(trace);
    free(text);
}

TEST(test_no_records)
{
    becomes(PLAN_HEAD, PLAN_NOTE);
    becomes(PLAN_HEAD "\n\n", PLAN_NOTE);
}

TEST(test_limits)
{
    static const char text[] = PLAN_HEAD "\nb,1,3,8\nc,1,3,8\n";
    struct trace *trace = NULL;
    struct trace_error error;
    struct trace_limits limits = {.max_events = 3};
    assert_int_equal(trace_read_memory("t.csv", text, sizeof(text) - 1, &limits, &trace, &error), WEIR_ERR_LIMIT);
    assert_null(trace);
    assert_string_equal(error.message, "t.csv: more than 3 events, which is the limit");
    limits.max_events = 4;
    assert_int_equal(trace_read_memory("t.csv", text, sizeof(text) - 1, &limits, &trace, &error), WEIR_OK);
    trace_free(trace);
}

/* Every prefix of a file is read or refused with a message. */
TEST(test_prefixes)
{
    static const char text[] =
        "\xef\xbb\xbfid,lower,upper,size,alignment,gaps\r\n\"a \"\"b\"\"\",-1,3,8,64,\"1-2 2-3\"\r\n"
        "c,2,5,16,1,\r\n";
    for (size_t size = 0; size < sizeof(text); size++) {
        struct trace *trace = NULL;
        struct trace_error error;
        char *copy = malloc(size + 1); /* so that a sanitizer sees a read behind the end */
        assert_non_null(copy);
        memcpy(copy, text, size);
        if (trace_read_memory("t.csv", copy, size, NULL, &trace, &error) != WEIR_OK) {
            assert_null(trace);
            assert_memory_equal(error.message, "t.csv", 5);
        }
        trace_free(trace);
        free(copy);
    }
}

TEST(test_compressed)
{
    static const char text[] = PLAN_HEAD "\nb,1,3,8\n";
    unsigned char packed[512];
    size_t size = 0;
    assert_int_equal(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, NULL, (const uint8_t *)text, sizeof(text) - 1, packed,
                                             &size, sizeof(packed)),
                     LZMA_OK);
    struct trace *trace = read_foreign((const char *)packed, size);
    assert_int_equal(trace->event_count, 2);
    trace_free(trace);

    z_stream stream = {.next_in = (unsigned char *)(uintptr_t)text, .avail_in = sizeof(text) - 1};
    stream.next_out = packed;
    stream.avail_out = sizeof(packed);
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size = stream.total_out;
    deflateEnd(&stream);
    trace = read_foreign((const char *)packed, size);
    assert_int_equal(trace->event_count, 2);
    trace_free(trace);
    struct trace_limits limits = {.max_bytes = 20};
    struct trace_error error;
    trace = NULL;
    assert_int_equal(trace_read_memory("t.csv", packed, size, &limits, &trace, &error), WEIR_ERR_LIMIT);
    assert_null(trace);
}

TEST(test_detect)
{
    static const struct {
        const char *text;
        enum trace_format format;
    } cases[] = {
        {"a,b\n", TRACE_FORMAT_CSV},         {"\xef\xbb\xbf\"a\",b", TRACE_FORMAT_CSV},
        {"a,b\r\n\x01", TRACE_FORMAT_CSV},   {"a b\nc,d\n", TRACE_FORMAT_UNKNOWN},
        {"#wtr 1,\n", TRACE_FORMAT_WTR},     {"[1,2]\n", TRACE_FORMAT_JSON},
        {"a\x7f,b\n", TRACE_FORMAT_UNKNOWN}, {",\n", TRACE_FORMAT_CSV},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(trace_detect(cases[i].text, strlen(cases[i].text)), cases[i].format);
    }
}
