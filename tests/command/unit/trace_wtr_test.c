/* trace_wtr_test.c: the reader and the writer of `.wtr`. For each rule of the reader the tests have a line that breaks
 * it, with the whole error message. */
#include "rig/wtr.h"

#include <lzma.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* --- helpers --- */

/* Checks that the text after the header is refused with this message. */
static void bad(const char *lines, const char *message)
{
    char text[2048];
    snprintf(text, sizeof(text), "#wtr 1\n%s\n", lines);
    is_refused("t.wtr", text, strlen(text), WEIR_ERR_INVALID, message);
}

static const weir_trace_event *event_of(const struct trace *trace, size_t i)
{
    assert_true(i < trace->event_count);
    return &trace->events[i].event;
}

#define A_SYNTAX                                                                                                       \
    "a line is \"a T ID SIZE S TH [al=N] [pool=P] [adv=short|step|long|persistent] [d=DEV] "                           \
    "[addr=A] [@N]\""

/* Every kind of line, in the order and form in which the writer writes them. */
static const char every_kind[] = "#wtr 1\n"
                                 "#src a test\n"
                                 "#clock logical\n"
                                 "#dev 0 cap=1024 gran=64 name=\"first one\"\n"
                                 "#dev 2 cap=99\n"
                                 "#note one\n"
                                 "#note two\n"
                                 "#note recorded: nothing is known\n"
                                 "s 0 + 0x1000 8192 0\n"
                                 "s 0 + 0x9000 8192 1 d=2\n"
                                 "z 0 + 0x7f0000000000 2097152\n"
                                 "p 7 512 0 0x1000\n"
                                 "p 8 1024 1 0x9000 d=2\n"
                                 "p 9 512 0\n"
                                 "@0 file.py:call\n"
                                 "a 10 20 300 0 1 al=64 pool=2 adv=step d=0 addr=0x1200 @0\n"
                                 "a 11 21 18446744073709551615 1 0 adv=short d=2\n"
                                 "a 11 22 1 0 0 adv=long\n"
                                 "a 11 23 1 0 0 adv=persistent\n"
                                 "u 12 20 1 r\n"
                                 "u 12 20 1 w\n"
                                 "u 12 20 1\n"
                                 "@1 kernel name with blanks\n"
                                 "w 13 1 5000 @1\n"
                                 "w 13 1 5000\n"
                                 "e 14 3 1\n"
                                 "x 15 3 0\n"
                                 "x 15 4 0\n"
                                 "y 16 *\n"
                                 "y 16 1\n"
                                 "y 16 e4\n"
                                 "r 17 20 30 600 0\n"
                                 "f 18 30 0 1\n"
                                 "f 18 7 - 0\n"
                                 "c 19\n"
                                 "c 19 1\n"
                                 "l 20 4096\n"
                                 "m 21 B step 1\n"
                                 "m 21 E step 1\n"
                                 "m 21 I x\n"
                                 "q 22 + 2\n"
                                 "q 22 - 2\n"
                                 "g 22 B 4 1\n"
                                 "g 22 B 3 0\n"
                                 "g 22 E 4 1\n"
                                 "g 22 B 4 1\n"
                                 "g 22 E 4 1\n"
                                 "g 22 E 3 0\n"
                                 "g 22 R 4\n"
                                 "s 23 - 0x1000 8192\n"
                                 "z 23 - 0x7f0000000000 2097152 0\n"
                                 "o 24 100 50\n"
                                 "o 24 100 50 d=2\n"
                                 "v 25 1000 900\n";

/* --- accepted traces --- */

TEST(test_every_kind)
{
    struct trace *trace = trace_of_text(every_kind);
    assert_int_equal(trace->event_count, 44);
    assert_int_equal(trace->block_count, 8);
    assert_int_equal(trace->object_count, 2);
    assert_int_equal(trace->clock, TRACE_CLOCK_LOGICAL);
    assert_string_equal(trace->source, "a test");
    assert_string_equal(trace->path, "t.wtr");
    assert_int_equal(trace->device_count, 3);
    assert_int_equal(trace->devices[0].capacity, 1024);
    assert_int_equal(trace->devices[0].granularity, 64);
    assert_string_equal(trace->devices[0].name, "first one");
    assert_false(trace->devices[1].declared);
    assert_int_equal(trace->devices[2].capacity, 99);
    assert_int_equal(trace->stream_count, 2);
    assert_int_equal(trace->stream_device[0], 0);
    assert_int_equal(trace->stream_device[1], 2);
    assert_int_equal(trace->thread_count, 2);
    assert_int_equal(trace->pool_count, 3);
    assert_int_equal(trace->capture_pool_count, 5);
    assert_int_equal(trace->capture_count, 3);
    assert_int_equal(trace->tag_count, 2);
    assert_string_equal(trace->tags[1], "kernel name with blanks");
    assert_int_equal(trace->note_count, 2);
    assert_string_equal(trace->notes[1], "two");
    assert_string_equal(trace->recorded_note, "nothing is known");
    assert_true(trace->has_segments);
    assert_true(trace->expandable);
    assert_false(trace->has_addresses);

    const weir_trace_event *event = event_of(trace, 6);
    assert_int_equal(event->kind, WEIR_TRACE_ALLOC);
    assert_int_equal(event->time_ns, 10);
    assert_int_equal(event->id, 20);
    assert_int_equal(event->size, 300);
    assert_int_equal(event->stream, 0);
    assert_int_equal(event->thread, 1);
    assert_int_equal(event->extra, 64);
    assert_int_equal(event->pool, 2);
    assert_int_equal(event->mode, 't');
    assert_int_equal(event->address, 0x1200);
    assert_int_equal(event->tag, 0);
    assert_int_equal(trace->events[6].index, 3);
    assert_int_equal(event_of(trace, 21)->kind, WEIR_TRACE_REALLOC);
    assert_int_equal(trace->events[21].index, 7);
    assert_int_equal(trace->events[21].old_index, 3);
    assert_int_equal(trace->events[22].index, 7);
    assert_int_equal(event_of(trace, 23)->stream, WEIR_TRACE_NONE);
    assert_int_equal(trace->events[17].index, 1);
    assert_int_equal(event_of(trace, 18)->mode, '*');
    assert_int_equal(trace->events[20].index, 1);
    assert_string_equal(event_of(trace, 27)->name, "step 1");
    assert_int_equal(event_of(trace, 32)->kind, WEIR_TRACE_CAPTURE);
    assert_int_equal(event_of(trace, 32)->mode, 'B');
    assert_int_equal(event_of(trace, 32)->pool, 4);
    assert_int_equal(event_of(trace, 32)->stream, 1);
    assert_int_equal(event_of(trace, 38)->mode, 'R');
    assert_int_equal(event_of(trace, 38)->stream, WEIR_TRACE_NONE);
    trace_free(trace);
}

TEST(test_loose_text)
{
    struct trace *trace = trace_of_text("#wtr 1  \r\n"
                                        "\r\n"
                                        "# any comment\n"
                                        "#unknown 1 2 3\n"
                                        "#dev 0 recorded_segments_at_start 43\n"
                                        "#note\n"
                                        "@18446744073709551615 a\ttag   \n"
                                        "a 0 18446744073709551615 0 0 0 @18446744073709551615 addr=0xAb\r\n"
                                        "r 0 18446744073709551615 5 0 0 \t\n"
                                        "f 0 5 0 0");
    assert_int_equal(trace->event_count, 3);
    assert_int_equal(event_of(trace, 0)->size, 1); /* a request of 0 bytes counts as 1 byte */
    assert_int_equal(event_of(trace, 1)->size, 1);
    assert_int_equal(event_of(trace, 0)->address, 0xab);
    assert_int_equal(event_of(trace, 0)->id, UINT64_MAX);
    assert_string_equal(trace->tags[0], "a\\x09tag");
    assert_int_equal(trace->note_count, 0);
    assert_true(trace->devices[0].declared);
    trace_free(trace);
}

TEST(test_stacks)
{
    const char *text = "#wtr 1\n#clock ns\n#dev 0\n"
                       "@0 a\n#stack 0 inner\n#stack 0 outer (x)\na 0 0 1 0 0 @0\n"
                       "@1 a\n#stack 1 other\na 0 1 1 0 0 @1\n@2 b\na 0 2 1 0 0 @2\n";
    struct trace *trace = trace_of_text(text);
    struct trace *part = NULL;
    struct trace_error error;
    char *again = NULL;
    size_t size = 0;
    assert_string_equal(trace->stacks[0], "inner\nouter (x)");
    assert_string_equal(trace->stacks[1], "other");
    assert_null(trace->stacks[2]);
    assert_int_equal(trace_write_memory(trace, &again, &size, &error), WEIR_OK);
    assert_string_equal(again, text);
    assert_int_equal(trace_of_device(trace, 0, &part, &error), WEIR_OK);
    assert_string_equal(part->stacks[0], "inner\nouter (x)");
    assert_string_equal(part->stacks[1], "other");
    assert_null(part->stacks[2]);
    free(again);
    trace_free(part);
    trace_free(trace);
    trace = trace_of_text("#wtr 1\n@0 a\n");
    assert_null(trace->stacks);
    trace_free(trace);
}

TEST(test_bad_stacks)
{
    char line[600] = "@0 a\n#stack 0 ";
    char many[1600] = "@0 a";
    const size_t length = strlen(line);
    memset(line + length, 'x', 513);
    line[length + 513] = '\0';
    bad(line, "t.wtr:3: #stack: the frame is longer than 512 bytes");
    for (unsigned i = 0; i < 65; i++) {
        strcat(many, "\n#stack 0 f");
    }
    bad(many, "t.wtr:67: #stack: more than 64 frames");
    bad("#stack", "t.wtr:2: #stack: expected the number of a tag and a frame");
    bad("#stack x f", "t.wtr:2: #stack: expected the number of a tag and a frame");
    bad("@0 a\n#stack 0", "t.wtr:3: #stack: expected the number of a tag and a frame");
    bad("#stack 0 f", "t.wtr:2: #stack: tag @0 is used before a line defines it");
    bad("@0 a\n@1 b\n#stack 0 f\n#stack 1 g\n#stack 0 h", "t.wtr:6: #stack: tag @0 has a stack already");
}

TEST(test_no_events)
{
    struct trace *trace = trace_of_text("#wtr 1");
    assert_int_equal(trace->event_count, 0);
    assert_int_equal(trace->device_count, 1);
    assert_int_equal(trace->stream_count, 1);
    assert_int_equal(trace->thread_count, 1);
    assert_string_equal(trace->source, "");
    trace_free(trace);
    trace_free(NULL);
}

/* Adjacent blocks show whether 32 bytes were added before rounding to 512. */
TEST(test_pad)
{
    struct trace *trace = trace_of_text("#wtr 1\na 0 0 512 0 0 addr=0x1000\na 0 1 512 0 0 addr=0x1200\n");
    assert_int_equal(trace->pad_bytes, 0);
    assert_true(trace->has_addresses);
    trace_free(trace);
    trace = trace_of_text("#wtr 1\na 0 0 512 0 0 addr=0x1000\na 0 1 512 0 0 addr=0x1400\n");
    assert_int_equal(trace->pad_bytes, 32);
    trace_free(trace);
    trace = trace_of_text("#wtr 1\na 0 0 100 0 0 addr=0x1000\na 0 1 100 0 0 addr=0x1200\n");
    assert_int_equal(trace->pad_bytes, TRACE_PAD_UNKNOWN);
    trace_free(trace);
    /* A freed block does not show the padding: a later block behind it may overlap its memory. */
    trace = trace_of_text("#wtr 1\na 0 0 512 0 0 addr=0x1000\nf 0 0 0 0\na 0 1 512 0 0 addr=0x1200\n");
    assert_int_equal(trace->pad_bytes, TRACE_PAD_UNKNOWN);
    trace_free(trace);
    /* A block that has moved, or one on another device, does not show the padding either. */
    trace = trace_of_text("#wtr 1\na 0 0 512 0 0 addr=0x1000\nr 0 0 1 512 0\na 0 2 512 0 0 addr=0x1200\n");
    assert_int_equal(trace->pad_bytes, TRACE_PAD_UNKNOWN);
    trace_free(trace);
    trace = trace_of_text("#wtr 1\na 0 0 512 0 0 addr=0x1000\na 0 1 512 1 0 d=1 addr=0x1200\n");
    assert_int_equal(trace->pad_bytes, TRACE_PAD_UNKNOWN);
    trace_free(trace);
}

/* Many ids, far apart, in falling order: the index stays dense and correct. */
TEST(test_sparse_ids)
{
    enum { COUNT = 20000 };
    char *text = malloc(COUNT * 64 + 16);
    assert_non_null(text);
    size_t used = (size_t)sprintf(text, "#wtr 1\n");
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned long long id = i % 2 == 0 ? i : 0xfffffffff0000000ull - 977ull * i;
        used += (size_t)sprintf(text + used, "a 0 %llu 8 0 0\n", id);
    }
    for (unsigned i = COUNT; i > 0; i--) {
        unsigned long long id = (i - 1) % 2 == 0 ? i - 1 : 0xfffffffff0000000ull - 977ull * (i - 1);
        used += (size_t)sprintf(text + used, "f 0 %llu 0 0\n", id);
    }
    struct trace *trace = trace_of_bytes("t.wtr", text, used);
    assert_int_equal(trace->block_count, COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(trace->events[i].index, i);
        assert_int_equal(trace->events[COUNT + i].index, COUNT - 1 - i);
    }
    trace_free(trace);
    free(text);
}

/* --- refused traces --- */

TEST(test_header)
{
    is_refused("t.wtr", "", 0, WEIR_ERR_INVALID, "t.wtr: is empty");
    is_refused(
        "t.wtr", "hello", 5, WEIR_ERR_INVALID,
        "t.wtr: is no trace (\"#wtr 1\"), memory snapshot of PyTorch (a pickle or a zip), profile (JSON or SQLite) or CSV");
    is_refused("t.wtr", "#wtr 2\n", 7, WEIR_ERR_INVALID,
               "t.wtr:1: version \"2\" of the format is not known; expected \"#wtr 1\"");
    is_refused("t.wtr", "#wtr\n", 5, WEIR_ERR_INVALID, "t.wtr:1: the first line must be \"#wtr 1\"");
    is_refused("t.wtr", "#wtr 1 x\n", 9, WEIR_ERR_INVALID,
               "t.wtr:1: version \"1 x\" of the format is not known; expected \"#wtr 1\"");
    bad("#wtr 1", "t.wtr:2: a second \"#wtr\" line; a file holds one trace");
    bad("#clock us", "t.wtr:2: #clock: expected ns, logical or order");
    bad("#clock", "t.wtr:2: #clock: expected ns, logical or order");
    bad("#dev", "t.wtr:2: #dev: the number of the device is missing");
    bad("#dev x", "t.wtr:2: field 2 (D): expected a decimal number, got \"x\"");
    bad("#dev 4096", "t.wtr:2: field 2 (D): 4096 is too large; expected a number below 4096");
    bad("#dev 0\n#dev 0", "t.wtr:3: #dev: device 0 is declared already");
    bad("#dev 0 cap=1k", "t.wtr:2: #dev: expected cap= and a number of bytes");
    bad("#dev 0 gran=x", "t.wtr:2: #dev: expected gran= and a number of bytes");
    bad("#dev 0 gran=3", "t.wtr:2: #dev: gran=3 is no power of two");
    bad("#dev 0 name=x", "t.wtr:2: #dev: expected name= and a text in double quotes");
    bad("#dev 0 name=\"x", "t.wtr:2: #dev: expected name= and a text in double quotes");
}

TEST(test_other_formats)
{
    is_refused("t.wtr", "PK\3\4....", 8, WEIR_ERR_INVALID,
               "t.wtr: byte 8: the zip archive has no directory at its end");
    is_refused("t.wtr", " {\"segments\": []}", 17, WEIR_ERR_UNSUPPORTED,
               "t.wtr: is JSON of a memory snapshot; a snapshot is read from the pickle that "
               "torch.cuda.memory._dump_snapshot writes");
    is_refused("t.wtr", "\x28\xb5\x2f\xfd....", 8, WEIR_ERR_UNSUPPORTED,
               "t.wtr: is packed with zstd; xz, gzip and plain are read");
}

TEST(test_fields)
{
    bad("k 0", "t.wtr:2: field 1: \"k\" is no kind of line; expected one of p a f r u w e x y c l "
               "m q g s z o v @ #");
    bad(" a 0", "t.wtr:2: field 1: expected one letter and a blank, got \" a 0\"");
    bad("alloc 0", "t.wtr:2: field 1: expected one letter and a blank, got \"alloc 0\"");
    bad("\x01 0", "t.wtr:2: field 1: \"\\x01\" is no kind of line; expected one of p a f r u w e x y c "
                  "l m q g s z o v @ #");
    bad("a", "t.wtr:2: field 2 (T) is missing; " A_SYNTAX);
    bad("a 0 1 10 0", "t.wtr:2: field 6 (TH) is missing; " A_SYNTAX);
    bad("a 0  1 10 0 0", "t.wtr:2: field 3 (ID) is empty; one blank stands between fields");
    bad("a 0\t1 10 0 0", "t.wtr:2: field 2 (T): expected a decimal number, got \"0\\x091\"");
    bad("a 0 1 10k 0 0", "t.wtr:2: field 4 (SIZE): expected a decimal number, got \"10k\"");
    bad("a 0 1 -5 0 0", "t.wtr:2: field 4 (SIZE): expected a decimal number, got \"-5\"");
    bad("a 0 1 0x10 0 0", "t.wtr:2: field 4 (SIZE): expected a decimal number, got \"0x10\"");
    bad("a 0 1 18446744073709551616 0 0",
        "t.wtr:2: field 4 (SIZE): expected a number below 2^64, got \"18446744073709551616\"");
    bad("a 99999999999999999999999 1 1 0 0",
        "t.wtr:2: field 2 (T): expected a number below 2^64, got \"99999999999999999999999\"");
    bad("a 0 1 10 1048576 0", "t.wtr:2: field 5 (S): 1048576 is too large; expected a number below 1048576");
    bad("a 0 1 10 0 1048576", "t.wtr:2: field 6 (TH): 1048576 is too large; expected a number below 1048576");
    bad("f 0 1 0 0 9", "t.wtr:2: field 3 (ID): block 1 is not known; no p, a or r line gave it");
    bad("a 0 1 1 0 0\nf 0 1 0 0 9", "t.wtr:3: field 6: \"9\" is too much; a line is \"f T ID S TH\"");
    bad("a 0 1 1 0 0\nf 0 1 * 0", "t.wtr:3: field 4 (S): expected a decimal number, got \"*\"");
    bad("p 1 0 0", "t.wtr:2: field 3 (SIZE): 0 bytes; expected at least 1");
    bad("p 1 512 0 4096", "t.wtr:2: field 5 (ADDR): expected an address in hexadecimal with 0x, got \"4096\"");
    bad("p 1 512 0 0x11111111111111111", "t.wtr:2: field 5 (ADDR): expected an address of at most "
                                         "64 bits, got \"0x11111111111111111\"");
    bad("p 1 512 0 0x10 0x20",
        "t.wtr:2: field 6: \"0x20\" is no option; a line is \"p ID SIZE S [ADDR] [d=DEV] [@N]\"");
    bad("s 0 + 0x10 0", "t.wtr:2: field 5 (SIZE): 0 bytes; expected at least 1");
    bad("s 0 * 0x10 1", "t.wtr:2: field 3 (+|-): expected + or -, got \"*\"");
    bad("s 0 ++ 0x10 1", "t.wtr:2: field 3 (+|-): expected + or -, got \"++\"");
    bad("z 0 + 0xfffffffffffffff0 17", "t.wtr:2: field 5 (SIZE): address and size together exceed 64 bits");
    bad("z 0 +", "t.wtr:2: field 4 (ADDR) is missing; a line is \"z T +|- ADDR SIZE [S] [d=DEV]\"");
    bad("m 0 X step", "t.wtr:2: field 3 (B|E|I): expected B, E or I, got \"X\"");
    bad("m 0 B", "t.wtr:2: field 4 (name) is missing; a line is \"m T B|E|I name\"");
    bad("y 0", "t.wtr:2: field 3 (*|S|eEV) is missing; a line is \"y T *|S|eEV\"");
    bad("y 0 ex", "t.wtr:2: field 3 (*|S|eEV): expected *, a stream, or e and an event, got \"ex\"");
    bad("y 0 **", "t.wtr:2: field 3 (*|S|eEV): expected *, a stream, or e and an event, got \"**\"");
    bad("l 0 1 2", "t.wtr:2: field 4: \"2\" is too much; a line is \"l T CAP\"");
    bad("q 0 + 1048576", "t.wtr:2: field 4 (P): 1048576 is too large; expected a number below 1048576");
    bad("a 0 1 1 0 0\nu 0 1 1 x", "t.wtr:3: field 5 (r|w): expected r or w, got \"x\"");
    bad("o 0 1", "t.wtr:2: field 4 (FREE) is missing; a line is \"o T SIZE FREE [d=DEV]\"");
    bad("v 0 1 2 3", "t.wtr:2: field 5: \"3\" is too much; a line is \"v T RESERVED ALLOCATED\"");
    bad("w 0 0 5 @0", "t.wtr:2: field 5 (@N): tag @0 is used before a line defines it");
}

TEST(test_options)
{
    bad("a 0 1 1 0 0 x=1", "t.wtr:2: field 7: \"x=1\" is no option; " A_SYNTAX);
    bad("a 0 1 1 0 0 al=3", "t.wtr:2: field 7 (al): expected al= and a power of two, got \"al=3\"");
    bad("a 0 1 1 0 0 al=0", "t.wtr:2: field 7 (al): expected al= and a power of two, got \"al=0\"");
    bad("a 0 1 1 0 0 al=8 al=8", "t.wtr:2: field 8: al= is given twice");
    bad("a 0 1 1 0 0 pool=-", "t.wtr:2: field 7 (pool): expected pool= and a number below 1048576, got \"pool=-\"");
    bad("a 0 1 1 0 0 adv=soon", "t.wtr:2: field 7 (adv): expected adv=short, adv=step, adv=long or "
                                "adv=persistent, got \"adv=soon\"");
    bad("a 0 1 1 0 0 d=4096", "t.wtr:2: field 7 (d): expected d= and a number below 4096, got \"d=4096\"");
    bad("a 0 1 1 0 0 addr=12", "t.wtr:2: field 7 (addr): expected addr= and an address in "
                               "hexadecimal with 0x, got \"addr=12\"");
    bad("a 0 1 1 0 0 @x", "t.wtr:2: field 7 (@N): expected @ and the number of a tag, got \"@x\"");
    bad("a 0 1 1 0 0 @7", "t.wtr:2: field 7 (@N): tag @7 is used before a line defines it");
    bad("p 1 1 0 al=8", "t.wtr:2: field 5 (ADDR): expected an address in hexadecimal with 0x, got \"al=8\"");
    bad("@", "t.wtr:2: field 1 (@N): expected @ and a decimal number");
    bad("@1", "t.wtr:2: field 2 (text) is missing; a line is \"@N text\"");
    bad("@1 a\n@1 b", "t.wtr:3: field 1 (@N): tag @1 is defined already");
}

TEST(test_lives)
{
    bad("a 0 1 1 0 0\na 0 1 1 0 0", "t.wtr:3: field 3 (ID): block 1 is live since line 2; an id is used once");
    bad("p 1 1 0\nf 0 1 0 0\na 0 1 1 0 0", "t.wtr:4: field 3 (ID): block 1 was born on line 2 and "
                                           "freed on line 3; an id is used once");
    bad("a 0 1 1 0 0\nf 0 1 0 0\nf 0 1 0 0", "t.wtr:4: field 3 (ID): block 1 was freed on line 3");
    bad("a 0 1 1 0 0\nf 0 1 0 0\nu 0 1 1", "t.wtr:4: field 3 (ID): block 1 was freed on line 3");
    bad("a 0 1 1 0 0\nr 0 1 2 8 0\nf 0 1 0 0", "t.wtr:4: field 3 (ID): block 1 was freed on line 3");
    bad("a 0 1 1 0 0\nr 0 1 1 8 0", "t.wtr:3: field 4 (NEW): block 1 was born on line 2 and freed "
                                    "on line 3; an id is used once");
    bad("r 0 1 2 8 0", "t.wtr:2: field 3 (OLD): block 1 is not known; no p, a or r line gave it");
    bad("u 0 1 2", "t.wtr:2: field 3 (ID): block 1 is not known; no p, a or r line gave it");
}

TEST(test_captures)
{
    bad("g 0 B 7", "t.wtr:2: field 5 (S) is missing; a line is \"g T B|E|R P [S]\"");
    bad("g 0 X 7", "t.wtr:2: field 3 (B|E|R): expected B, E or R, got \"X\"");
    bad("g 0 B 1048576 0", "t.wtr:2: field 4 (P): 1048576 is too large; expected a number below 1048576");
    bad("g 0 B 7 1 2", "t.wtr:2: field 6: \"2\" is too much; a line is \"g T B|E|R P [S]\"");
    bad("g 0 E 7 0", "t.wtr:2: field 4 (P): no capture of pool 7 has begun");
    bad("g 0 R 7", "t.wtr:2: field 4 (P): no capture of pool 7 has begun");
    bad("g 0 B 7 0\ng 0 B 7 1", "t.wtr:3: field 4 (P): a capture of pool 7 is under way since line 2");
    bad("g 0 B 7 0\ng 0 B 8 0", "t.wtr:3: field 5 (S): stream 0 is being captured since line 2");
    bad("g 0 B 7 0\ng 0 E 7 1", "t.wtr:3: field 5 (S): the capture of pool 7 is of stream 0, on line 2");
    bad("g 0 B 7 0\ng 0 E 7", "t.wtr:3: field 5 (S) is missing; a line is \"g T B|E|R P [S]\"");
    bad("g 0 B 7 0\ng 0 E 7 0\ng 0 E 7 0", "t.wtr:4: field 4 (P): no capture of pool 7 is under way");
    bad("g 0 B 7 0\ng 0 R 7", "t.wtr:3: field 4 (P): a capture of pool 7 is under way since line 2");
    bad("g 0 B 7 0\ng 0 E 7 0\ng 0 R 7 0", "t.wtr:4: field 5: a stream is too much; a release is \"g T R P\"");
    bad("g 0 B 7 0\ng 0 E 7 0\ng 0 R 7\ng 0 R 7", "t.wtr:5: field 4 (P): capture pool 7 was released on line 4");
    bad("g 0 B 7 0\ng 0 E 7 0\ng 0 R 7\ng 0 B 7 0",
        "t.wtr:5: field 4 (P): capture pool 7 was released on line 4; a number is used once");
}

TEST(test_limits)
{
    struct trace *trace = NULL;
    struct trace_error error;
    struct trace_limits limits = {.max_events = 2};
    const char text[] = "#wtr 1\nc 0\nc 0\nc 0\n";
    assert_int_equal(trace_read_memory("t.wtr", text, sizeof(text) - 1, &limits, &trace, &error), WEIR_ERR_LIMIT);
    assert_string_equal(error.message, "t.wtr: more than 2 events, which is the limit");
    assert_null(trace);
}

/* A message names the end of a long path and keeps to one line. */
TEST(test_long_path)
{
    char path[1000];
    struct trace *trace = NULL;
    struct trace_error error;
    memset(path, 'x', sizeof(path));
    memcpy(path + sizeof(path) - 7, "\n.wtr", 6);
    assert_int_equal(trace_read_memory(path, "#wtr 1\na", 8, NULL, &trace, &error), WEIR_ERR_INVALID);
    assert_non_null(strstr(error.message, "x\\x0a.wtr:2: field 2 (T) is missing"));
    assert_null(strchr(error.message, '\n'));
    assert_int_equal(error.line, 2);
}

/* --- files and packing --- */

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "trace_test_XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static unsigned char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    unsigned char *bytes = malloc(1 << 20);
    assert_non_null(bytes);
    *size = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

TEST(test_round_trip_memory)
{
    struct trace *trace = trace_of_text(every_kind);
    char *text = NULL;
    size_t size = 0;
    struct trace_error error;
    assert_int_equal(trace_write_memory(trace, &text, &size, &error), WEIR_OK);
    struct trace *again = trace_of_bytes("t.wtr", text, size);
    is_written_as(again, text);
    assert_int_equal(again->event_count, trace->event_count);
    assert_int_equal(again->block_count, trace->block_count);
    trace_free(again);
    trace_free(trace);
    /* The writer leaves out only "d=0". */
    assert_int_equal(size, strlen(every_kind) - strlen(" d=0"));
    free(text);
}

TEST(test_round_trip_files)
{
    static const char *const names[] = {"t.wtr", "t.wtr.gz", "t.wtr.xz"};
    static const enum trace_format formats[] = {TRACE_FORMAT_WTR, TRACE_FORMAT_GZIP, TRACE_FORMAT_XZ};
    struct trace *trace = trace_of_text(every_kind);
    for (size_t i = 0; i < 3; i++) {
        struct trace_error error;
        struct trace *again = NULL;
        size_t size;
        assert_int_equal(trace_write(trace, in_folder(names[i]), &error), WEIR_OK);
        unsigned char *bytes = read_file(in_folder(names[i]), &size);
        assert_int_equal(trace_detect(bytes, size), formats[i]);
        free(bytes);
        assert_int_equal(trace_read(in_folder(names[i]), NULL, &again, &error), WEIR_OK);
        assert_int_equal(again->event_count, trace->event_count);
        assert_string_equal(again->path, in_folder(names[i]));
        trace_free(again);
        unlink(in_folder(names[i]));
    }
    trace_free(trace);
}

/* A name longer than the writer's line buffer, and more text than its output buffer. */
TEST(test_long_lines)
{
    char *text = malloc(300000);
    assert_non_null(text);
    size_t used = (size_t)sprintf(text, "#wtr 1\n#clock ns\n");
    for (int i = 0; i < 100; i++) {
        used += (size_t)sprintf(text + used, "m %d B ", i);
        memset(text + used, 'n', 2000);
        used += 2000;
        text[used++] = '\n';
    }
    text[used] = '\0';
    struct trace *trace = trace_of_text(text);
    is_written_as(trace, text);
    trace_free(trace);
    free(text);
}

TEST(test_cannot_open)
{
    struct trace *trace = NULL;
    struct trace_error error;
    char expected[300];
    assert_int_equal(trace_read("no/such/file.wtr", NULL, &trace, &error), WEIR_ERR_DEVICE);
    assert_string_equal(error.message, "no/such/file.wtr: cannot open: No such file or directory");
    assert_int_equal(trace_read(folder, NULL, &trace, &error), WEIR_ERR_DEVICE);
    snprintf(expected, sizeof(expected), "%s: is a folder, not a trace file", folder);
    assert_string_equal(error.message, expected);
    write_file(in_folder("empty"), "", 0);
    assert_int_equal(trace_read(in_folder("empty"), NULL, &trace, &error), WEIR_ERR_INVALID);
    snprintf(expected, sizeof(expected), "%s/empty: is empty", folder);
    assert_string_equal(error.message, expected);
    unlink(in_folder("empty"));
    assert_null(trace);
    trace = trace_of_text("#wtr 1\n");
    assert_int_equal(trace_write(trace, "no/such/file.wtr", &error), WEIR_ERR_DEVICE);
    assert_string_equal(error.message, "no/such/file.wtr: cannot open for writing: No such file or directory");
    assert_int_equal(trace_write(trace, "no/such/file.wtr.gz", &error), WEIR_ERR_DEVICE);
    assert_int_equal(trace_write(trace, "no/such/file.wtr.xz", &error), WEIR_ERR_DEVICE);
    trace_free(trace);
}

/* The writer reports a failed write to a device file, and does not remove the device file. */
TEST(test_cannot_write)
{
    struct stat facts;
    struct trace_error error;
    if (stat("/dev/full", &facts) != 0) {
        print_message("skipped: there is no /dev/full here\n");
        skip();
    }
    struct trace *trace = trace_of_text(every_kind);
    assert_int_equal(trace_write(trace, "/dev/full", &error), WEIR_ERR_DEVICE);
    assert_string_equal(error.message, "/dev/full: cannot write: No space left on device");
    assert_int_equal(stat("/dev/full", &facts), 0);
    trace_free(trace);
}

static unsigned char *packed_trace(const char *name, size_t *size)
{
    struct trace *trace = trace_of_text(every_kind);
    struct trace_error error;
    assert_int_equal(trace_write(trace, in_folder(name), &error), WEIR_OK);
    unsigned char *bytes = read_file(in_folder(name), size);
    unlink(in_folder(name));
    trace_free(trace);
    return bytes;
}

/* A packed file is refused if it is cut at any byte, or has one more byte at its end. */
TEST(test_damaged_packing)
{
    static const char *const names[] = {"t.xz", "t.gz"};
    static const char *const early[] = {"the xz data end too early", "the gzip data end too early"};
    for (size_t i = 0; i < 2; i++) {
        size_t size;
        unsigned char *bytes = packed_trace(names[i], &size);
        struct trace *trace = NULL;
        struct trace_error error;
        for (size_t cut = 0; cut < size; cut++) {
            assert_int_not_equal(trace_read_memory("t", bytes, cut, NULL, &trace, &error), WEIR_OK);
            assert_null(trace);
            if (cut > 20) {
                assert_non_null(strstr(error.message, early[i]));
            }
        }
        bytes[size] = 'x';
        assert_int_equal(trace_read_memory("t", bytes, size + 1, NULL, &trace, &error), WEIR_ERR_INVALID);
        assert_non_null(strstr(error.message, "bytes follow the end of the "));
        bytes[size / 2] ^= 0x55;
        assert_int_equal(trace_read_memory("t", bytes, size, NULL, &trace, &error), WEIR_ERR_INVALID);
        assert_non_null(strstr(error.message, "damaged"));
        free(bytes);
    }
}

/* Two members one after the other are one file, as gzip and xz also read it. */
TEST(test_two_members)
{
    unsigned char packed[1000];
    size_t size = 0;
    static const char *const parts[] = {"#wtr 1\nc 0\n", "c 1\n"};
    for (size_t i = 0; i < 2; i++) {
        size_t position = size;
        assert_int_equal(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, NULL, (const uint8_t *)parts[i], strlen(parts[i]),
                                                 packed, &position, sizeof(packed)),
                         LZMA_OK);
        size = position;
    }
    struct trace *trace = trace_of_bytes("t.wtr", (const char *)packed, size);
    assert_int_equal(trace->event_count, 2);
    trace_free(trace);

    gzFile file = gzopen(in_folder("two.gz"), "wb");
    gzputs(file, parts[0]);
    gzclose(file);
    file = gzopen(in_folder("two.gz"), "ab");
    gzputs(file, parts[1]);
    gzclose(file);
    struct trace_error error;
    assert_int_equal(trace_read(in_folder("two.gz"), NULL, &trace, &error), WEIR_OK);
    assert_int_equal(trace->event_count, 2);
    trace_free(trace);
    unlink(in_folder("two.gz"));
}

/* A few kilobytes that unpack to 64 MiB stop at the limit. */
TEST(test_bomb)
{
    static char zeros[1 << 16];
    gzFile file = gzopen(in_folder("bomb.gz"), "wb9");
    assert_non_null(file);
    gzputs(file, "#wtr 1\n");
    for (int i = 0; i < 1024; i++) {
        gzwrite(file, zeros, sizeof(zeros));
    }
    gzclose(file);
    struct trace *trace = NULL;
    struct trace_error error;
    struct trace_limits limits = {.max_bytes = 1 << 20};
    char expected[300];
    assert_int_equal(trace_read(in_folder("bomb.gz"), &limits, &trace, &error), WEIR_ERR_LIMIT);
    snprintf(expected, sizeof(expected), "%s/bomb.gz: unpacks to more than 1048576 bytes, which is the limit", folder);
    assert_string_equal(error.message, expected);
    limits.max_bytes = 100;
    assert_int_equal(trace_read(in_folder("bomb.gz"), &limits, &trace, &error), WEIR_ERR_LIMIT);
    snprintf(expected, sizeof(expected), "%s/bomb.gz: holds more than 100 bytes, which is the limit", folder);
    assert_string_equal(error.message, expected);
    assert_null(trace);
    unlink(in_folder("bomb.gz"));
}

TEST(test_packed_twice)
{
    size_t size;
    unsigned char *bytes = packed_trace("t.gz", &size);
    unsigned char twice[4096];
    size_t position = 0;
    assert_int_equal(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, bytes, size, twice, &position, sizeof(twice)),
                     LZMA_OK);
    is_refused("t.wtr", twice, position, WEIR_ERR_UNSUPPORTED, "t.wtr: is packed twice; unpack it once before");
    free(bytes);
}

/* --- weir_trace_format --- */

TEST(test_format)
{
    weir_trace_event event = {
        .kind = WEIR_TRACE_ALLOC,
        .time_ns = UINT64_MAX,
        .id = 7,
        .size = 512,
        .address = UINT64_MAX,
        .stream = 3,
        .tag = 9,
        .pool = WEIR_TRACE_NONE,
    };
    const char expected[] = "a 18446744073709551615 7 512 3 0 addr=0xffffffffffffffff @9\n";
    char line[128];
    assert_int_equal(weir_trace_format(&event, line, sizeof(line)), sizeof(expected) - 1);
    assert_string_equal(line, expected);
    /* weir_trace_format cuts a text that does not fit, ends it with a NUL, and returns the full length of the text. */
    for (size_t size = 0; size < sizeof(expected); size++) {
        memset(line, '#', sizeof(line));
        assert_int_equal(weir_trace_format(&event, size > 0 ? line : NULL, size), sizeof(expected) - 1);
        if (size > 0) {
            assert_int_equal(strlen(line), size - 1);
            assert_memory_equal(line, expected, size - 1);
        }
        assert_int_equal(line[size], '#');
    }
    event = (weir_trace_event){.kind = WEIR_TRACE_MARK, .mode = 'I', .name = "two\nlines\x7f"};
    weir_trace_format(&event, line, sizeof(line));
    assert_string_equal(line, "m 0 I two?lines?\n");
    event.name = "";
    weir_trace_format(&event, line, sizeof(line));
    assert_string_equal(line, "m 0 I -\n");
    event.name = NULL;
    weir_trace_format(&event, line, sizeof(line));
    assert_string_equal(line, "m 0 I -\n");
}

ALL_TESTS(make_folder, remove_folder)
