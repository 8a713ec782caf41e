/* core/shared/native_error.h: the last failed call of a vendor's runtime, stored for each thread.
 *
 * A failure immediately becomes the sentence of the thread's last refusal (weir_refuse), so weir_last_error returns the
 * later of the two. A binding has one weir__native_failure in thread-local storage and passes it to these functions.
 * Cost: nothing for a call that succeeds.
 */
#ifndef WEIR_SHARED_NATIVE_ERROR_H
#define WEIR_SHARED_NATIVE_ERROR_H

#include <stdio.h>
#include <string.h>
#include <weir/base.h>

typedef struct weir__native_failure {
    int code;       /* 0: no call of this thread has failed */
    char text[192]; /* for example "cuMemAlloc: 2 CUDA_ERROR_OUT_OF_MEMORY, out of memory" */
} weir__native_failure;

/* Stores the failure and returns `status`. */
static inline weir_status weir__native_failed(weir__native_failure *last, weir_status status, const char *call,
                                              int code, const char *name, const char *text)
{
    last->code = code;
    (void)snprintf(last->text, sizeof(last->text), "%s: %d %s, %s", call, code, name, text);
    return weir_refuse(status, "%s", last->text);
}

/* Refuses a device that is NULL or that the binding's function `creator` did not make. */
static inline weir_status weir__native_refuse_device(const char *function, const void *device, const char *creator)
{
    return device == NULL ? weir_refuse(WEIR_ERR_INVALID, "%s: device is NULL", function)
                          : weir_refuse(WEIR_ERR_INVALID, "%s: device is not of %s", function, creator);
}

/* Repeats the thread's last refusal under the name of the function that the caller called. */
static inline weir_status weir__native_refuse_as(const char *function, weir_status status)
{
    const char *reason = strchr(weir_last_error(), ' ');
    char kept[256];
    (void)snprintf(kept, sizeof(kept), "%s", reason != NULL ? reason + 1 : "");
    return weir_refuse(status, "%s: %s", function, kept);
}

/* The sentence of weir_last_error, which a function restores if it succeeds although a call inside it was refused. */
typedef struct weir__kept_sentence {
    char text[256];
} weir__kept_sentence;

static inline weir__kept_sentence weir__sentence_keep(void)
{
    weir__kept_sentence kept;
    (void)snprintf(kept.text, sizeof(kept.text), "%s", weir_last_error());
    return kept;
}

static inline void weir__sentence_restore(const weir__kept_sentence *kept)
{
    (void)weir_refuse(WEIR_OK, "%s", kept->text);
}

/* Stores in *text the sentence of weir_last_error. Stores in *code the code of the runtime's last failed call if that
 * sentence describes this call, else 0. Either pointer may be NULL. */
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
