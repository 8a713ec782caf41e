/* Checks a call that is refused: its status, and the start of the sentence in weir_last_error.
 * Included after cmocka.h. */
#ifndef WEIR_TESTS_ENGINES_REFUSED_H
#define WEIR_TESTS_ENGINES_REFUSED_H

#include <weir/base.h>

#include <string.h>

static void refused(weir_status status, weir_status expected, const char *sentence)
{
    assert_int_equal(status, expected);
    if (strncmp(weir_last_error(), sentence, strlen(sentence)) != 0) {
        assert_string_equal(weir_last_error(), sentence);
    }
    (void)weir_refuse(WEIR_OK, "a sentence of a call before");
}

#endif
