/* tests/command/unit/trace_text_test.c: foreign text becomes one line of UTF-8, and texts that differ still differ. */
#include "rig/test.h"

#include <stdio.h>
#include <string.h>

#include "trace/clean_text.h"
#include "trace/trace.h"

struct text_case {
    const char *text;
    size_t length;
    const char *clean;
};

#define CASE(text, clean)                                                                                              \
    {                                                                                                                  \
        text, sizeof(text) - 1, clean                                                                                  \
    }

static const struct text_case cases[] = {
    CASE("", ""),
    CASE("plain ~", "plain ~"),
    CASE("back\\slash \\x41", "back\\slash \\x41"),
    CASE("\xc2\xa0\xdf\xbf", "\xc2\xa0\xdf\xbf"), /* two bytes: least and most */
    CASE("\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbd", "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbd"),
    CASE("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"), /* four */
    CASE("\xc4\xa3\xd0\xcd.py", "\xc4\xa3\\xd0\\xcd.py"),               /* GBK; the first two bytes happen to be
                                                                               UTF-8 */
    CASE("\xb6\xd4.py", "\\xb6\\xd4.py"),                               /* GBK */
    CASE("\xed\xa0\x80\xed\xbf\xbf", "\\xed\\xa0\\x80\\xed\\xbf\\xbf"), /* surrogates */
    CASE("\xc0\xaf\xc1\xbf", "\\xc0\\xaf\\xc1\\xbf"),                   /* overlong: two bytes */
    CASE("\xe0\x80\xaf\xe0\x9f\xbf", "\\xe0\\x80\\xaf\\xe0\\x9f\\xbf"), /* three */
    CASE("\xf0\x80\x80\xaf\xf0\x8f\xbf\xbf", "\\xf0\\x80\\x80\\xaf\\xf0\\x8f\\xbf\\xbf"), /* four */
    CASE("\xf4\x90\x80\x80\xf5\x80\x80\x80", "\\xf4\\x90\\x80\\x80\\xf5\\x80\\x80\\x80"), /* beyond U+10FFFF */
    CASE("a\0b", "a\\x00b"),
    CASE("\x01\t\r\n\x1b[2J\x7f", "\\x01\\x09\\x0d\\x0a\\x1b[2J\\x7f"),
    CASE("\xc2\x80\xc2\x9b\xc2\x9f", "\\xc2\\x80\\xc2\\x9b\\xc2\\x9f"), /* C1: a terminal obeys U+009B */
    CASE("\x80\xbf\xfe\xff", "\\x80\\xbf\\xfe\\xff"),
    CASE("\xe4\xbd", "\\xe4\\xbd"), /* cut off */
    CASE("\xe4\xbd"
         "a",
         "\\xe4\\xbd"
         "a"),
    CASE("\xf0\x9f\x98", "\\xf0\\x9f\\x98"),
};

enum { case_count = sizeof(cases) / sizeof(*cases) };

TEST(test_cases)
{
    for (size_t i = 0; i < case_count; i++) {
        char *const clean = clean_copy(cases[i].text, cases[i].length);
        assert_non_null(clean);
        assert_string_equal(clean, cases[i].clean);
        char *const again = clean_copy(clean, strlen(clean));
        assert_string_equal(again, clean);
        free(again);
        free(clean);
    }
}

/* With a buffer of any size the result has whole characters only and ends with a NUL; nothing behind the buffer is
 * written, and the length of the complete text is returned. */
TEST(test_room)
{
    for (size_t i = 0; i < case_count; i++) {
        const size_t whole = strlen(cases[i].clean);
        for (size_t size = 0; size <= whole + 2; size++) {
            char out[64];
            memset(out, '#', sizeof(out));
            assert_int_equal(clean_text(out, size, cases[i].text, cases[i].length), whole);
            assert_int_equal(out[size], '#');
            if (size > 0) {
                const size_t length = strlen(out);
                assert_true(length < size);
                assert_memory_equal(out, cases[i].clean, length);
                assert_true(size > whole ? length == whole : length + 4 >= size);
                assert_int_equal(clean_text(NULL, 0, out, length), length); /* no piece of a character */
            }
        }
    }
}

TEST(test_print)
{
    for (size_t i = 0; i < case_count; i++) {
        char text[64] = "";
        FILE *const out = fmemopen(text, sizeof(text), "w");
        assert_non_null(out);
        clean_print(out, cases[i].text, cases[i].length);
        assert_int_equal(fclose(out), 0);
        assert_string_equal(text, cases[i].clean);
    }
}

/* Checks that texts read from a trace, and texts written from them, have no control characters and are valid UTF-8. */
TEST(test_trace)
{
    static const char text[] =
        "#wtr 1\n#src \xb6\xd4\n#dev 0 name=\"\xb6\"\n#note \xc2\x9b\n@0 \xb6\xd4.py:f\n@1 \xb4\xed.py:f\n"
        "a 0 0 8 0 0 @0\na 1 1 8 0 0 @1\nm 2 I \xff\x01\n";
    struct trace *trace = NULL;
    struct trace_error error;
    char *written = NULL;
    size_t size = 0;
    assert_int_equal(trace_read_memory("\xb6.wtr", text, sizeof(text) - 1, NULL, &trace, &error), WEIR_OK);
    assert_string_equal(trace->path, "\\xb6.wtr");
    assert_string_equal(trace->source, "\\xb6\\xd4");
    assert_string_equal(trace->devices[0].name, "\\xb6");
    assert_string_equal(trace->notes[0], "\\xc2\\x9b");
    assert_string_equal(trace->tags[0], "\\xb6\\xd4.py:f");
    assert_string_equal(trace->tags[1], "\\xb4\\xed.py:f");
    assert_string_equal(trace->events[2].event.name, "\\xff\\x01");
    assert_int_equal(trace_write_memory(trace, &written, &size, &error), WEIR_OK);
    assert_non_null(strstr(written, "@1 \\xb4\\xed.py:f\n"));
    free(written);
    trace_free(trace);
    assert_int_equal(trace_read_memory("\xb6.wtr", "#wtr 1\n\xb6", 8, NULL, &trace, &error), WEIR_ERR_INVALID);
    assert_memory_equal(error.message, "\\xb6.wtr:2: field 1: \"\\xb6\"", 26);
}
