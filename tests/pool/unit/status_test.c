/* tests/pool/unit/status_test.c: every status has a name and a text, and no value crashes. */
#include "rig/test.h"

#include <weir/base.h>

#include <stdio.h>

#include <pthread.h>
#include <string.h>

TEST(test_names_and_texts)
{
#define CHECK(name, value, text)                                                                                       \
    assert_string_equal(weir_status_name((weir_status)(value)), "WEIR_" #name);                                        \
    assert_string_equal(weir_status_text((weir_status)(value)), text);
    WEIR_STATUS_LIST(CHECK)
#undef CHECK
    assert_string_equal(weir_status_name(WEIR_ERR_BUSY), "WEIR_ERR_BUSY");
}

TEST(test_success_is_zero_and_errors_are_negative)
{
    assert_int_equal(WEIR_OK, 0);
#define CHECK(name, value, text) assert_true(WEIR_##name <= 0);
    WEIR_STATUS_LIST(CHECK)
#undef CHECK
}

TEST(test_values_outside_the_list)
{
    assert_string_equal(weir_status_name((weir_status)-8), "WEIR_UNKNOWN");
    assert_string_equal(weir_status_name((weir_status)1), "WEIR_UNKNOWN");
    assert_non_null(weir_status_text((weir_status)-8));
    assert_true(strlen(weir_status_text((weir_status)1)) > 0);
}

TEST(test_version)
{
    char expected[32];
    snprintf(expected, sizeof(expected), "%d.%d.%d", WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR, WEIR_VERSION_PATCH);
    assert_string_equal(weir_version(), expected);
}

TEST(test_a_refusal_leaves_its_sentence)
{
    assert_string_equal(weir_last_error(), "");
    assert_int_equal(weir_refuse(WEIR_ERR_BUSY, "door %d: %s", 7, "shut"), WEIR_ERR_BUSY);
    assert_string_equal(weir_last_error(), "door 7: shut");
    char text[1000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(weir_refuse(WEIR_ERR_INVALID, "%s", text), WEIR_ERR_INVALID);
    assert_int_equal(strlen(weir_last_error()), 255); /* cut, not overrun */
}

static void *other_thread(void *unused)
{
    (void)unused;
    const bool empty = weir_last_error()[0] == '\0';
    (void)!weir_refuse(WEIR_ERR_INVALID, "of the other thread");
    return empty ? "empty" : NULL;
}

TEST(test_each_thread_has_its_own_sentence)
{
    (void)!weir_refuse(WEIR_ERR_INVALID, "of this thread");
    pthread_t thread;
    void *was_empty = NULL;
    assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, &was_empty), 0);
    assert_non_null(was_empty);
    assert_string_equal(weir_last_error(), "of this thread");
}
