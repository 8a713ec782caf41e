/* tests/unit/status_test.c: every status has a name and a text, and no value crashes. */
#include <weir/base.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include <string.h>

static void test_names_and_texts(void **state)
{
    (void)state;
#define CHECK(name, value, text)                                                                   \
    assert_string_equal(weir_status_name((weir_status)(value)), "WEIR_" #name);                    \
    assert_string_equal(weir_status_text((weir_status)(value)), text);
    WEIR_STATUS_LIST(CHECK)
#undef CHECK
    assert_string_equal(weir_status_name(WEIR_ERR_BUSY), "WEIR_ERR_BUSY");
}

static void test_success_is_zero_and_errors_are_negative(void **state)
{
    (void)state;
    assert_int_equal(WEIR_OK, 0);
#define CHECK(name, value, text) assert_true(WEIR_##name <= 0);
    WEIR_STATUS_LIST(CHECK)
#undef CHECK
}

static void test_values_outside_the_list(void **state)
{
    (void)state;
    assert_string_equal(weir_status_name((weir_status)-8), "WEIR_UNKNOWN");
    assert_string_equal(weir_status_name((weir_status)1), "WEIR_UNKNOWN");
    assert_non_null(weir_status_text((weir_status)-8));
    assert_true(strlen(weir_status_text((weir_status)1)) > 0);
}

static void test_version(void **state)
{
    (void)state;
    char expected[32];
    snprintf(expected, sizeof expected, "%d.%d.%d", WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR,
             WEIR_VERSION_PATCH);
    assert_string_equal(weir_version(), expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_texts),
        cmocka_unit_test(test_success_is_zero_and_errors_are_negative),
        cmocka_unit_test(test_values_outside_the_list),
        cmocka_unit_test(test_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
