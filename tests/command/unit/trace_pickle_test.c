/* trace_pickle_test.c: the reader accepts the opcodes of plain data in every form. It refuses all other opcodes with
 * their name and offset, without a crash and without much memory. */
#include "rig/test.h"

#include <stdio.h>

#include "pickle.h"
#include "pickle_writer.h"

#define BYTES(text) (text), sizeof(text) - 1

static struct pickle parsed;

/* Returns the value of this pickle, valid until the next call. The input is static in every test. */
static const struct pickle_value *value_of(const char *bytes, size_t size)
{
    struct trace_error error;
    struct trace_source source = {.path = "t.pickle", .bytes = (const unsigned char *)bytes, .size = size};
    pickle_free(&parsed);
    if (!pickle_parse(&source, &parsed, &error)) {
        fail_msg("%s", error.message);
    }
    return parsed.root;
}

static void bad(const char *bytes, size_t size, weir_status status, const char *message)
{
    struct trace_error error;
    struct pickle pickle;
    struct trace_source source = {.path = "t.pickle", .bytes = (const unsigned char *)bytes, .size = size};
    assert_false(pickle_parse(&source, &pickle, &error));
    assert_string_equal(error.message, message);
    assert_int_equal(error.status, status);
}

static int forget(void **state)
{
    (void)state;
    pickle_free(&parsed);
    return 0;
}

static void check_int(const char *bytes, size_t size, int64_t expected)
{
    const struct pickle_value *value = value_of(bytes, size);
    assert_int_equal(value->kind, PICKLE_INT);
    assert_true(value->as.integer == expected);
}

static void check_text(const char *bytes, size_t size, enum pickle_kind kind, const char *expected, size_t length)
{
    const struct pickle_value *value = value_of(bytes, size);
    assert_int_equal(value->kind, kind);
    assert_int_equal(value->count, length);
    assert_memory_equal(value->as.text, expected, length);
}

/* --- accepted pickles --- */

TEST(test_constants)
{
    assert_int_equal(value_of(BYTES("N."))->kind, PICKLE_NONE);
    assert_true(value_of(BYTES("\x80\x02\x88."))->as.boolean);
    assert_false(value_of(BYTES("\x80\x05\x89."))->as.boolean);
    assert_int_equal(parsed.protocol, 5);
    assert_int_equal(value_of(BYTES("I01\n."))->kind, PICKLE_BOOL);
    assert_false(value_of(BYTES("I00\n."))->as.boolean);
}

TEST(test_integers)
{
    check_int(BYTES("K\xff."), 255);
    check_int(BYTES("M\xff\xff."), 65535);
    check_int(BYTES("J\xff\xff\xff\x7f."), INT32_MAX);
    check_int(BYTES("J\xff\xff\xff\xff."), -1);
    check_int(BYTES("J\0\0\0\x80."), INT32_MIN);
    check_int(BYTES("\x8a\0."), 0);
    check_int(BYTES("\x8a\1\x80."), -128);
    check_int(BYTES("\x8a\x02\xff\0."), 255);
    check_int(BYTES("\x8a\x08\0\0\0\0\0\0\0\x80."), INT64_MIN);
    check_int(BYTES("\x8a\x09\0\0\0\0\0\0\0\x80\xff."), INT64_MIN);
    check_int(BYTES("\x8b\x02\0\0\0\xff\xff."), -1);
    check_int(BYTES("\x8a\x0c\x01\0\0\0\0\0\0\0\0\0\0\0."), 1);
    check_int(BYTES("I-42\n."), -42);
    check_int(BYTES("L42L\n."), 42);
    check_int(BYTES("L-9223372036854775808L\n."), INT64_MIN);
    const struct pickle_value *value = value_of(BYTES("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0."));
    assert_int_equal(value->kind, PICKLE_UINT);
    assert_true(value->as.unsigned_integer == UINT64_MAX);
    value = value_of(BYTES("L18446744073709551615L\n."));
    assert_true(value->as.unsigned_integer == UINT64_MAX);
}

TEST(test_floats)
{
    assert_true(value_of(BYTES("G\x3f\xf8\0\0\0\0\0\0."))->as.real == 1.5);
    assert_true(value_of(BYTES("F-2.5e3\n."))->as.real == -2500);
}

TEST(test_texts)
{
    check_text(BYTES("\x8c\x02hi."), PICKLE_STR, "hi", 2);
    check_text(BYTES("X\x02\0\0\0hi."), PICKLE_STR, "hi", 2);
    check_text(BYTES("\x8d\x02\0\0\0\0\0\0\0hi."), PICKLE_STR, "hi", 2);
    check_text(BYTES("U\x02hi."), PICKLE_STR, "hi", 2);
    check_text(BYTES("T\x02\0\0\0hi."), PICKLE_STR, "hi", 2);
    check_text(BYTES("C\x02hi."), PICKLE_BYTES, "hi", 2);
    check_text(BYTES("B\x02\0\0\0hi."), PICKLE_BYTES, "hi", 2);
    check_text(BYTES("\x8e\x02\0\0\0\0\0\0\0hi."), PICKLE_BYTES, "hi", 2);
    check_text(BYTES("\x96\x02\0\0\0\0\0\0\0hi."), PICKLE_BYTES, "hi", 2);
    check_text(BYTES("S'a\\x41\\n\\'\\\\'\n."), PICKLE_STR, "aA\n'\\", 5);
    check_text(BYTES("S\"\"\n."), PICKLE_STR, "", 0);
    check_text(BYTES("Va\\u00e9\\U0001f600\\n\n."), PICKLE_STR, "a\xc3\xa9\xf0\x9f\x98\x80\\n", 9);
}

TEST(test_containers)
{
    const struct pickle_value *value = value_of(BYTES("](K\1K\2eK\3a."));
    assert_int_equal(value->kind, PICKLE_LIST);
    assert_int_equal(value->count, 3);
    assert_int_equal(value->as.items[2]->as.integer, 3);
    assert_int_equal(value_of(BYTES("(K\1l."))->count, 1);
    assert_int_equal(value_of(BYTES(")."))->kind, PICKLE_TUPLE);
    assert_int_equal(value_of(BYTES("K\1\x85."))->count, 1);
    assert_int_equal(value_of(BYTES("K\1K\2\x86."))->count, 2);
    assert_int_equal(value_of(BYTES("K\1K\2K\3\x87."))->count, 3);
    assert_int_equal(value_of(BYTES("(K\1K\2K\3K\4t."))->count, 4);

    value = value_of(BYTES("}(\x8c\1aK\1\x8c\1bK\2u\x8c\1aK\3sK\1K\2s."));
    assert_int_equal(value->kind, PICKLE_DICT);
    assert_int_equal(pickle_get(value, "a")->as.integer, 3); /* the last of equal keys counts */
    assert_int_equal(pickle_get(value, "b")->as.integer, 2);
    assert_null(pickle_get(value, "c"));
    assert_null(pickle_get(NULL, "c"));
    assert_int_equal(pickle_get(value_of(BYTES("(S'k'\nI5\nd.")), "k")->as.integer, 5);
}

TEST(test_stack)
{
    check_int(BYTES("K\1K\2"
                    "0."),
              1);
    check_int(BYTES("K\1(K\2K\3"
                    "1."),
              1);
    check_int(BYTES("K\1(0."), 1);
    assert_int_equal(value_of(BYTES("K\1"
                                    "2\x86."))
                         ->count,
                     2);
}

/* An object that is fetched twice is the same object. */
TEST(test_memo)
{
    static const char *const pickles[] = {
        "](]q\1h\1e.",
        "](]\x94h\0e.",
        "](]p1\ng1\ne.",
    };
    const struct pickle_value *value = value_of(pickles[0], 9);
    assert_ptr_equal(value->as.items[0], value->as.items[1]);
    value = value_of(pickles[1], 8);
    assert_ptr_equal(value->as.items[0], value->as.items[1]);
    value = value_of(pickles[2], 11);
    assert_ptr_equal(value->as.items[0], value->as.items[1]);
    value = value_of(BYTES("](]r\2\0\0\0j\2\0\0\0e."));
    assert_ptr_equal(value->as.items[0], value->as.items[1]);
}

/* A list that contains itself is a list of one item, and reading it ends. */
TEST(test_self_reference)
{
    const struct pickle_value *value = value_of(BYTES("]\x94h\0a."));
    assert_int_equal(value->count, 1);
    assert_ptr_equal(value->as.items[0], value);
}

/* A million nested lists: neither parsing nor freeing recurses. */
TEST(test_depth)
{
    enum { DEPTH = 1000000 };
    char *bytes = malloc(2 * DEPTH + 1);
    assert_non_null(bytes);
    memset(bytes, ']', DEPTH);
    memset(bytes + DEPTH, 'a', DEPTH - 1);
    bytes[2 * DEPTH - 1] = '.';
    value_of(bytes, 2 * DEPTH);
    pickle_free(&parsed);
    free(bytes);
}

/* A list that is doubled sixty times ("billion laughs"): 2^60 items if every path is walked, but only sixty nodes. */
TEST(test_exponential_sharing)
{
    struct pickle_writer writer;
    pw_begin(&writer);
    pw_raw(&writer, "]\x94", 2);
    for (unsigned i = 0; i < 60; i++) {
        pw_raw(&writer, "](", 2);
        for (int j = 0; j < 2; j++) {
            pw_op(&writer, 'h');
            pw_op(&writer, i);
        }
        pw_raw(&writer, "e\x94", 2);
    }
    pw_end(&writer);
    value_of((const char *)writer.bytes, writer.size);
    assert_true(parsed.arena.total < 65536);
    pickle_free(&parsed);
    pw_free(&writer);
}

TEST(test_frames)
{
    check_int(BYTES("\x80\x04\x95\x03\0\0\0\0\0\0\0K\7."), 7);
    bad(BYTES("\x80\x04\x95\x04\0\0\0\0\0\0\0K\7."), WEIR_ERR_INVALID,
        "t.pickle: byte 14: the pickle ends in the middle (FRAME)");
}

/* --- refused pickles --- */

TEST(test_refused_opcodes)
{
    static const struct {
        unsigned opcode;
        const char *name;
    } refused[] = {
        {'c', "GLOBAL"},     {0x93, "STACK_GLOBAL"}, {'R', "REDUCE"},           {'b', "BUILD"},      {'i', "INST"},
        {'o', "OBJ"},        {0x81, "NEWOBJ"},       {0x92, "NEWOBJ_EX"},       {0x82, "EXT1"},      {0x83, "EXT2"},
        {0x84, "EXT4"},      {'P', "PERSID"},        {'Q', "BINPERSID"},        {0x8f, "EMPTY_SET"}, {0x90, "ADDITEMS"},
        {0x91, "FROZENSET"}, {0x97, "NEXT_BUFFER"},  {0x98, "READONLY_BUFFER"},
    };
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        char bytes[] = "\x80\x04Nxos\nsystem\n.";
        char message[200];
        bytes[3] = (char)refused[i].opcode;
        snprintf(message, sizeof(message),
                 "t.pickle: byte 3: opcode %s (0x%02x) is refused; a memory snapshot is plain data "
                 "and nothing is "
                 "executed",
                 refused[i].name, refused[i].opcode);
        bad(bytes, sizeof(bytes) - 1, WEIR_ERR_UNSUPPORTED, message);
    }
    bad(BYTES("\x80\x04\xee."), WEIR_ERR_INVALID, "t.pickle: byte 2: 0xee is no pickle opcode");
    bad(BYTES("\x80\x06N."), WEIR_ERR_UNSUPPORTED, "t.pickle: byte 0: pickle protocol 6 is not known; 0 to 5 are");
}

TEST(test_bad_stack)
{
    bad(BYTES("."), WEIR_ERR_INVALID, "t.pickle: byte 0: STOP finds no value on the stack");
    bad(BYTES("N.x"), WEIR_ERR_INVALID, "t.pickle: byte 2: 1 bytes follow the end of the pickle");
    bad(BYTES("N\x86."), WEIR_ERR_INVALID, "t.pickle: byte 1: TUPLE2 finds too few values on the stack");
    bad(BYTES("N(N\x86."), WEIR_ERR_INVALID, "t.pickle: byte 3: TUPLE2 finds too few values on the stack");
    bad(BYTES("N(a."), WEIR_ERR_INVALID, "t.pickle: byte 2: APPEND finds too few values on the stack");
    bad(BYTES("Nt."), WEIR_ERR_INVALID, "t.pickle: byte 1: TUPLE finds no mark on the stack");
    bad(BYTES("(Ne."), WEIR_ERR_INVALID, "t.pickle: byte 2: APPENDS finds no container below its mark");
    bad(BYTES("]((Ne."), WEIR_ERR_INVALID, "t.pickle: byte 4: APPENDS finds no container below its mark");
    bad(BYTES("N(Ne."), WEIR_ERR_INVALID, "t.pickle: byte 3: APPENDS needs a list, but there is None");
    bad(BYTES("]NNs."), WEIR_ERR_INVALID, "t.pickle: byte 3: SETITEM needs a dict, but there is a list");
    bad(BYTES("}(Nu."), WEIR_ERR_INVALID, "t.pickle: byte 3: SETITEMS finds a key without a value");
    bad(BYTES("(Nd."), WEIR_ERR_INVALID, "t.pickle: byte 2: DICT finds a key without a value");
    bad(BYTES("0."), WEIR_ERR_INVALID, "t.pickle: byte 0: POP finds too few values on the stack");
    bad(BYTES("1."), WEIR_ERR_INVALID, "t.pickle: byte 0: POP_MARK finds no mark on the stack");
    bad(BYTES("2."), WEIR_ERR_INVALID, "t.pickle: byte 0: DUP finds too few values on the stack");
}

TEST(test_bad_memo)
{
    bad(BYTES("h\0."), WEIR_ERR_INVALID, "t.pickle: byte 0: BINGET with memo index 0, which nothing has set");
    bad(BYTES("Nq\1h\2."), WEIR_ERR_INVALID, "t.pickle: byte 3: BINGET with memo index 2, which nothing has set");
    bad(BYTES("q\0."), WEIR_ERR_INVALID, "t.pickle: byte 0: BINPUT finds too few values on the stack");
    bad(BYTES("Nr\xff\xff\xff\xff."), WEIR_ERR_INVALID,
        "t.pickle: byte 1: LONG_BINPUT with memo index 4294967295, more than the pickle has bytes");
    bad(BYTES("Npx\n."), WEIR_ERR_INVALID, "t.pickle: byte 1: PUT with an index that is no number");
    bad(BYTES("Np-1\n."), WEIR_ERR_INVALID, "t.pickle: byte 1: PUT with an index that is no number");
}

TEST(test_bad_values)
{
    bad(BYTES("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\1."), WEIR_ERR_LIMIT,
        "t.pickle: byte 0: LONG1 of 9 bytes does not fit in 64 bits");
    bad(BYTES("\x8a\x09\0\0\0\0\0\0\0\0\xff."), WEIR_ERR_LIMIT,
        "t.pickle: byte 0: LONG1 of 9 bytes does not fit in 64 bits");
    bad(BYTES("\x8b\xff\xff\xff\xff."), WEIR_ERR_INVALID, "t.pickle: byte 0: LONG4 of a negative size");
    bad(BYTES("I\n."), WEIR_ERR_INVALID, "t.pickle: byte 0: INT is no decimal number of 64 bits");
    bad(BYTES("I1x\n."), WEIR_ERR_INVALID, "t.pickle: byte 0: INT is no decimal number of 64 bits");
    bad(BYTES("L18446744073709551616L\n."), WEIR_ERR_INVALID, "t.pickle: byte 0: LONG is no decimal number of 64 bits");
    bad(BYTES("L-9223372036854775809L\n."), WEIR_ERR_INVALID, "t.pickle: byte 0: LONG is no decimal number of 64 bits");
    bad(BYTES("Fx\n."), WEIR_ERR_INVALID, "t.pickle: byte 0: FLOAT is no number");
    bad(BYTES("F\n."), WEIR_ERR_INVALID, "t.pickle: byte 0: FLOAT is no number");
    bad(BYTES("Shi\n."), WEIR_ERR_INVALID, "t.pickle: byte 0: STRING without its quotes");
    bad(BYTES("S'\\q'\n."), WEIR_ERR_INVALID, "t.pickle: byte 0: STRING with an escape that is none");
    bad(BYTES("V\\u12\n."), WEIR_ERR_INVALID, "t.pickle: byte 0: UNICODE with an escape that is none");
}

TEST(test_truncated_values)
{
    bad(BYTES(""), WEIR_ERR_INVALID, "t.pickle: byte 0: the pickle ends in the middle (no STOP)");
    bad(BYTES("\x80"), WEIR_ERR_INVALID, "t.pickle: byte 1: the pickle ends in the middle (PROTO)");
    bad(BYTES("N"), WEIR_ERR_INVALID, "t.pickle: byte 1: the pickle ends in the middle (NONE)");
    bad(BYTES("X\xff\xff\xff\x7f."), WEIR_ERR_INVALID, "t.pickle: byte 6: the pickle ends in the middle (BINUNICODE)");
    bad(BYTES("\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), WEIR_ERR_INVALID,
        "t.pickle: byte 10: the pickle ends in the middle (BINUNICODE8)");
    bad(BYTES("I42"), WEIR_ERR_INVALID, "t.pickle: byte 3: the pickle ends in the middle (INT)");
}

ALL_TESTS(NULL, forget)
