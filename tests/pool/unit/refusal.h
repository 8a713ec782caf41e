/* tests/pool/unit/refusal.h: checks that a refused call returns its status and leaves a sentence that begins with the
 * function's name. */
#ifndef REFUSAL_H
#define REFUSAL_H

#include "rig/test.h"

#include <weir/base.h>

#include <string.h>

/* refused(CALL, STATUS, "words"): CALL returns STATUS, and its sentence is "NAME: ... words ...". */
#define refused(call, status, words) assert_refused((call), (status), #call, (words), __FILE__, __LINE__)

static inline void assert_refused(weir_status got, weir_status wanted, const char *call, const char *words,
                                  const char *file, int line)
{
    const size_t name = strcspn(call, "(");
    const char *sentence = weir_last_error();
    if (got != wanted || strncmp(sentence, call, name) != 0 || sentence[name] != ':' ||
        strstr(sentence, words) == NULL) {
        print_error("%s\n  returned %s, expected %s\n  sentence: %s\n  expected: %.*s: ... %s\n", call,
                    weir_status_name(got), weir_status_name(wanted), sentence, (int)name, call, words);
        _fail(file, line);
    }
    (void)!weir_refuse(WEIR_OK, "%s", ""); /* clears the sentence, so that the next call must leave its own */
}

#endif
