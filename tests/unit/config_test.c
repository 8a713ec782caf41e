/* tests/unit/config_test.c: size-first structs between callers and libraries of different age. */
#include <weir/base.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <string.h>

typedef struct known {
    size_t struct_size;
    uint64_t a;
    uint64_t b;
} known;

typedef struct older {
    size_t struct_size;
    uint64_t a;
} older;

typedef struct newer {
    size_t struct_size;
    uint64_t a;
    uint64_t b;
    uint64_t c;
} newer;

static known garbage(void)
{
    known k;
    memset(&k, 0xa5, sizeof(k));
    return k;
}

static void test_adopt_same_size(void **state)
{
    (void)state;
    known dst = garbage();
    const known src = {.struct_size = sizeof(src), .a = 1, .b = 2};
    assert_int_equal(weir_struct_adopt(&dst, sizeof(dst), &src, "config"), WEIR_OK);
    assert_memory_equal(&dst, &src, sizeof(dst));
}

static void test_adopt_older_leaves_zero(void **state)
{
    (void)state;
    known dst = garbage();
    const older src = {.struct_size = sizeof(src), .a = 1};
    assert_int_equal(weir_struct_adopt(&dst, sizeof(dst), &src, "config"), WEIR_OK);
    assert_int_equal(dst.struct_size, sizeof(dst));
    assert_int_equal(dst.a, 1);
    assert_int_equal(dst.b, 0);
}

static void test_adopt_newer_with_zero_tail(void **state)
{
    (void)state;
    known dst = garbage();
    const newer src = {.struct_size = sizeof(src), .a = 1, .b = 2, .c = 0};
    assert_int_equal(weir_struct_adopt(&dst, sizeof(dst), &src, "config"), WEIR_OK);
    assert_int_equal(dst.struct_size, sizeof(dst));
    assert_int_equal(dst.b, 2);
}

static void test_adopt_refuses_unknown_wishes(void **state)
{
    (void)state;
    newer src = {.struct_size = sizeof(src), .a = 1, .b = 2};
    /* Each byte of the tail counts, the last one too. */
    for (size_t byte = sizeof(known); byte < sizeof(src); byte++) {
        known dst = garbage();
        const known before = dst;
        ((unsigned char *)&src)[byte] = 1;
        assert_int_equal(weir_struct_adopt(&dst, sizeof(dst), &src, "config"), WEIR_ERR_UNSUPPORTED);
        assert_memory_equal(&dst, &before, sizeof(dst));
        ((unsigned char *)&src)[byte] = 0;
    }
}

static void test_adopt_refuses_nonsense(void **state)
{
    (void)state;
    known dst = garbage();
    const known unset = {.struct_size = 0, .a = 1};
    const known too_small = {.struct_size = sizeof(size_t) - 1};
    assert_int_equal(weir_struct_adopt(&dst, sizeof(dst), NULL, "config"), WEIR_ERR_INVALID);
    assert_int_equal(weir_struct_adopt(&dst, sizeof(dst), &unset, "config"), WEIR_ERR_INVALID);
    assert_int_equal(weir_struct_adopt(&dst, sizeof(dst), &too_small, "config"), WEIR_ERR_INVALID);
}

static void test_adopt_reads_no_byte_beyond_the_caller(void **state)
{
    (void)state;
    /* An older struct that is followed by something else. */
    struct {
        older config;
        uint64_t other;
    } caller = {.config = {.struct_size = sizeof(older), .a = 1}, .other = UINT64_MAX};
    known dst = garbage();
    assert_int_equal(weir_struct_adopt(&dst, sizeof(dst), &caller.config, "config"), WEIR_OK);
    assert_int_equal(dst.b, 0);
}

static void test_report_to_older(void **state)
{
    (void)state;
    const known src = {.struct_size = sizeof(src), .a = 1, .b = 2};
    struct {
        older config;
        uint64_t other;
    } caller = {.config = {.struct_size = sizeof(older), .a = 9}, .other = 7};
    assert_int_equal(weir_struct_report(&caller.config, &src, sizeof(src), "out"), WEIR_OK);
    assert_int_equal(caller.config.struct_size, sizeof(older));
    assert_int_equal(caller.config.a, 1);
    assert_int_equal(caller.other, 7);
}

static void test_report_to_newer(void **state)
{
    (void)state;
    const known src = {.struct_size = sizeof(src), .a = 1, .b = 2};
    newer dst = {.struct_size = sizeof(dst), .a = 9, .b = 9, .c = 9};
    assert_int_equal(weir_struct_report(&dst, &src, sizeof(src), "out"), WEIR_OK);
    assert_int_equal(dst.struct_size, sizeof(dst));
    assert_int_equal(dst.a, 1);
    assert_int_equal(dst.b, 2);
    assert_int_equal(dst.c, 0);
}

static void test_report_refuses_nonsense(void **state)
{
    (void)state;
    const known src = {.struct_size = sizeof(src), .a = 1, .b = 2};
    known dst = {.struct_size = 0, .a = 9};
    assert_int_equal(weir_struct_report(&dst, &src, sizeof(src), "out"), WEIR_ERR_INVALID);
    assert_int_equal(dst.a, 9);
    assert_int_equal(weir_struct_report(NULL, &src, sizeof(src), "out"), WEIR_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adopt_same_size),
        cmocka_unit_test(test_adopt_older_leaves_zero),
        cmocka_unit_test(test_adopt_newer_with_zero_tail),
        cmocka_unit_test(test_adopt_refuses_unknown_wishes),
        cmocka_unit_test(test_adopt_refuses_nonsense),
        cmocka_unit_test(test_adopt_reads_no_byte_beyond_the_caller),
        cmocka_unit_test(test_report_to_older),
        cmocka_unit_test(test_report_to_newer),
        cmocka_unit_test(test_report_refuses_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
