/* tests/pool/unit/config_test.c: size-first structs between callers and libraries of different age. */
#include "rig/test.h"

#include <weir/base.h>

#include <string.h>

struct known {
    size_t struct_size;
    uint64_t a;
    uint64_t b;
};

struct older {
    size_t struct_size;
    uint64_t a;
};

struct newer {
    size_t struct_size;
    uint64_t a;
    uint64_t b;
    uint64_t c;
};

static struct known garbage(void)
{
    struct known k;
    memset(&k, 0xa5, sizeof(k));
    return k;
}

TEST(test_adopt_same_size)
{
    struct known dst = garbage();
    const struct known src = {.struct_size = sizeof(src), .a = 1, .b = 2};
    assert_int_equal(weir_struct_adopt(&dst, sizeof(dst), &src, "config"), WEIR_OK);
    assert_memory_equal(&dst, &src, sizeof(dst));
}

TEST(test_adopt_older_leaves_zero)
{
    struct known dst = garbage();
    const struct older src = {.struct_size = sizeof(src), .a = 1};
    assert_int_equal(weir_struct_adopt(&dst, sizeof(dst), &src, "config"), WEIR_OK);
    assert_int_equal(dst.struct_size, sizeof(dst));
    assert_int_equal(dst.a, 1);
    assert_int_equal(dst.b, 0);
}

TEST(test_adopt_newer_with_zero_tail)
{
    struct known dst = garbage();
    const struct newer src = {.struct_size = sizeof(src), .a = 1, .b = 2, .c = 0};
    assert_int_equal(weir_struct_adopt(&dst, sizeof(dst), &src, "config"), WEIR_OK);
    assert_int_equal(dst.struct_size, sizeof(dst));
    assert_int_equal(dst.b, 2);
}

TEST(test_adopt_refuses_unknown_wishes)
{
    struct newer src = {.struct_size = sizeof(src), .a = 1, .b = 2};
    /* A byte other than 0 anywhere in the unknown tail makes the call fail, in the last byte too. */
    for (size_t byte = sizeof(struct known); byte < sizeof(src); byte++) {
        struct known dst = garbage();
        const struct known before = dst;
        ((unsigned char *)&src)[byte] = 1;
        assert_int_equal(weir_struct_adopt(&dst, sizeof(dst), &src, "config"), WEIR_ERR_UNSUPPORTED);
        assert_memory_equal(&dst, &before, sizeof(dst));
        ((unsigned char *)&src)[byte] = 0;
    }
}

TEST(test_adopt_refuses_nonsense)
{
    struct known dst = garbage();
    const struct known unset = {.struct_size = 0, .a = 1};
    const struct known too_small = {.struct_size = sizeof(size_t) - 1};
    assert_int_equal(weir_struct_adopt(&dst, sizeof(dst), NULL, "config"), WEIR_ERR_INVALID);
    assert_int_equal(weir_struct_adopt(&dst, sizeof(dst), &unset, "config"), WEIR_ERR_INVALID);
    assert_int_equal(weir_struct_adopt(&dst, sizeof(dst), &too_small, "config"), WEIR_ERR_INVALID);
}

TEST(test_adopt_reads_no_byte_beyond_the_caller)
{
    /* An older struct that is followed by other data. */
    struct {
        struct older config;
        uint64_t other;
    } caller = {.config = {.struct_size = sizeof(struct older), .a = 1}, .other = UINT64_MAX};
    struct known dst = garbage();
    assert_int_equal(weir_struct_adopt(&dst, sizeof(dst), &caller.config, "config"), WEIR_OK);
    assert_int_equal(dst.b, 0);
}

TEST(test_report_to_older)
{
    const struct known src = {.struct_size = sizeof(src), .a = 1, .b = 2};
    struct {
        struct older config;
        uint64_t other;
    } caller = {.config = {.struct_size = sizeof(struct older), .a = 9}, .other = 7};
    assert_int_equal(weir_struct_report(&caller.config, &src, sizeof(src), "out"), WEIR_OK);
    assert_int_equal(caller.config.struct_size, sizeof(struct older));
    assert_int_equal(caller.config.a, 1);
    assert_int_equal(caller.other, 7);
}

TEST(test_report_to_newer)
{
    const struct known src = {.struct_size = sizeof(src), .a = 1, .b = 2};
    struct newer dst = {.struct_size = sizeof(dst), .a = 9, .b = 9, .c = 9};
    assert_int_equal(weir_struct_report(&dst, &src, sizeof(src), "out"), WEIR_OK);
    assert_int_equal(dst.struct_size, sizeof(dst));
    assert_int_equal(dst.a, 1);
    assert_int_equal(dst.b, 2);
    assert_int_equal(dst.c, 0);
}

TEST(test_report_refuses_nonsense)
{
    const struct known src = {.struct_size = sizeof(src), .a = 1, .b = 2};
    struct known dst = {.struct_size = 0, .a = 9};
    assert_int_equal(weir_struct_report(&dst, &src, sizeof(src), "out"), WEIR_ERR_INVALID);
    assert_int_equal(dst.a, 9);
    assert_int_equal(weir_struct_report(NULL, &src, sizeof(src), "out"), WEIR_ERR_INVALID);
}
