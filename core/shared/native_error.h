/* core/shared/native_error.h: the last call of a vendor's runtime that failed, as a binding keeps it for each thread.
 *
 * A failure becomes a sentence at once, in the place where refusals are (weir_refuse): the later of the two is the one
 * that weir_last_error returns. A binding has one weir__native_failure in thread-local storage and hands it to these
 * functions. Cost: nothing for a call that succeeds.
 */
#ifndef WEIR_SHARED_NATIVE_ERROR_H
#define WEIR_SHARED_NATIVE_ERROR_H

#include <stdio.h>
#include <string.h>
#include <weir/base.h>

typedef struct weir__native_failure {
    int code;       /* 0: no call of this thread has failed */
    char text[192]; /* "cuMemAlloc: 2 CUDA_ERROR_OUT_OF_MEMORY, out of memory" */
} weir__native_failure;

/* Keeps the failure and returns `status`. */
static inline weir_status weir__native_failed(weir__native_failure *last, weir_status status, const char *call, int code,
                                              const char *name, const char *text)
{
    last->code = code;
    (void)snprintf(last->text, sizeof(last->text), "%s: %d %s, %s", call, code, name, text);
    return weir_refuse(status, "%s", last->text);
}

/* The thread's last refusal, told anew in the name of the function that the user called. */
static inline weir_status weir__native_refuse_as(const char *function, weir_status status)
{
    const char *reason = strchr(weir_last_error(), ' ');
    char kept[256];
    (void)snprintf(kept, sizeof(kept), "%s", reason != NULL ? reason + 1 : "");
    return weir_refuse(status, "%s: %s", function, kept);
}

/* *text is weir_last_error's sentence; *code is the failed call's if the sentence tells of it, else 0. Either may be NULL. */
static inline void weir__native_read(const weir__native_failure *last, int *code, const char **text)
{
    const char *sentence = weir_last_error();
    if (code != NULL) {
        *code = strstr(sentence, last->text) != NULL ? last->code : 0;
    }
    if (text != NULL) {
        *text = sentence;
    }
}

#endif
