/* error.c: a thread's last error and the sentences about it. Every failing call records its code and a sentence for
 * its thread. */
#include "base/runtime.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TEXT_BYTES = 2048 };

/* --- a thread's last error --- */

struct texts {
    char pending[TEXT_BYTES];  /* sentences, the newest first, each with its newline */
    char returned[TEXT_BYTES]; /* the result of the last aclGetRecentErrMsg */
};

/* This struct is small because a library that is loaded late gets little room in the static thread-local block. That
 * block takes either all of a library's thread-local data, core's included, or nothing. */
static _Thread_local struct {
    aclError code;
    uint32_t thread; /* the thread's number; 0: not read yet */
    uint32_t last_task;
    struct texts *texts; /* NULL: no call has failed yet */
} mine;

static pthread_once_t texts_once = PTHREAD_ONCE_INIT;
static pthread_key_t texts_key; /* its destructor frees a thread's error sentences when the thread ends */
static bool has_texts_key;

static void forget_texts(void *texts)
{
    free(texts);
    mine.texts = NULL;
}

static void make_texts_key(void)
{
    has_texts_key = pthread_key_create(&texts_key, forget_texts) == 0;
}

/* Deletes the key, because its destructor's code may be unloaded with the library. */
__attribute__((destructor)) static void delete_texts_key(void)
{
    if (has_texts_key) {
        has_texts_key = false;
        (void)pthread_key_delete(texts_key);
    }
}

/* Makes `texts` the calling thread's buffer of error sentences. Returns false when out of host memory. */
static bool set_texts(struct texts *texts)
{
    (void)pthread_once(&texts_once, make_texts_key);
    if (has_texts_key && pthread_setspecific(texts_key, texts) != 0) {
        return false;
    }
    mine.texts = texts;
    return true;
}

/* Returns the calling thread's error sentences. NULL: out of host memory; errors then have a code and no sentence. */
static struct texts *my_texts(void)
{
    if (mine.texts == NULL) {
        struct texts *texts = calloc(1, sizeof(*texts));
        if (texts != NULL && !set_texts(texts)) {
            free(texts);
        }
    }
    return mine.texts;
}

static void note_text(aclError code, const char *text)
{
    WEIR_ASSERT(text != NULL);
    struct texts *texts = my_texts();
    if (texts == NULL) {
        return;
    }
    char line[320];
    const int printed = snprintf(line, sizeof(line), "%d: %s\n", code, text);
    size_t length = printed < 0 ? 0 : (size_t)printed;
    if (length >= sizeof(line)) {
        length = sizeof(line) - 1;
        line[length - 1] = '\n';
    }
    size_t kept = strlen(texts->pending);
    WEIR_ASSERT(length > 0 && length < sizeof(line));
    WEIR_ASSERT(kept < TEXT_BYTES);
    if (kept > TEXT_BYTES - 1 - length) { /* the oldest are cut off */
        kept = TEXT_BYTES - 1 - length;
    }
    memmove(texts->pending + length, texts->pending, kept);
    memcpy(texts->pending, line, length);
    texts->pending[length + kept] = '\0';
}

static void note(aclError code, const char *text)
{
    WEIR_ASSERT(code != ACL_SUCCESS);
    mine.code = code;
    note_text(code, text);
}

void acl__errors_apart(void (*function)(void *ctx), void *ctx)
{
    WEIR_ASSERT(function != NULL);
    const aclError code = mine.code;
    struct texts *texts = mine.texts;
    (void)set_texts(NULL);
    function(ctx);
    free(mine.texts);
    (void)set_texts(texts); /* cannot fail: the call above has made the thread's entry for the key */
    mine.code = code;
}

/* --- recording an error --- */

/* Records an error with a sentence. If `name` is not NULL, the name and a colon come before the sentence. */
static aclError fail(const char *name, aclError code, const char *format, va_list arguments)
{
    WEIR_ASSERT(format != NULL);
    char text[512];
    const int before = name != NULL ? snprintf(text, sizeof(text), "%s: ", name) : 0;
    (void)vsnprintf(text + before, sizeof(text) - (size_t)before, format, arguments);
    note(code, text);
    return code;
}

aclError acl__fail(aclError code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fail(NULL, code, format, arguments);
    va_end(arguments);
    return code;
}

aclError acl__refuse(const char *name, aclError code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fail(name, code, format, arguments);
    va_end(arguments);
    return code;
}

aclError acl__status(weir_status status, const char *what)
{
    switch (status) {
    case WEIR_OK:
        return ACL_SUCCESS;
    case WEIR_ERR_NO_MEMORY:
    case WEIR_ERR_LIMIT:
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: out of memory", what);
    case WEIR_ERR_INVALID:
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: an argument is not what it should be", what);
    case WEIR_ERR_UNSUPPORTED:
        return acl__fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: not on this device", what);
    case WEIR_ERR_DEVICE:
        return acl__fail(ACL_ERROR_RT_DEVICE_MEM_ERROR,
                         "%s: the stream is broken: its work touched memory that was not there", what);
    default:
        return acl__fail(ACL_ERROR_RT_INTERNAL_ERROR, "%s: %s", what, weir_status_text(status));
    }
}

aclError acl__not_simulated(acl__function function)
{
    return acl__fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s is not simulated", acl__function_name(function));
}

/* --- reading the last error, and the last task --- */

void acl__task_name(acl__task *task)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(task->ops != NULL);
    static uint32_t last; /* under the runtime's lock */
    if (mine.thread == 0) {
        mine.thread = (uint32_t)syscall(SYS_gettid);
    }
    task->number = ++last;
    task->thread = mine.thread;
    mine.last_task = task->number;
}

ACL_EXPORT aclError aclrtGetLastError(aclrtLastErrLevel level)
{
    ACL_ENTER(aclrtGetLastError);
    if (level != ACL_RT_THREAD_LEVEL) {
        return ACL_ERROR_INVALID_PARAM; /* a query with a wrong level keeps the error for the next query */
    }
    const aclError code = mine.code;
    mine.code = ACL_SUCCESS;
    return code;
}

ACL_EXPORT aclError aclrtPeekAtLastError(aclrtLastErrLevel level)
{
    ACL_ENTER(aclrtPeekAtLastError);
    return level == ACL_RT_THREAD_LEVEL ? mine.code : ACL_ERROR_INVALID_PARAM;
}

ACL_EXPORT const char *aclGetRecentErrMsg(void)
{
    ACL_ENTER_OR(aclGetRecentErrMsg, NULL);
    struct texts *texts = mine.texts;
    if (texts == NULL || texts->pending[0] == '\0') {
        return NULL;
    }
    memcpy(texts->returned, texts->pending, sizeof(texts->returned));
    texts->pending[0] = '\0';
    return texts->returned;
}

ACL_EXPORT aclError aclrtGetThreadLastTaskId(uint32_t *taskId)
{
    ACL_ENTER(aclrtGetThreadLastTaskId);
    ACL_NEED(taskId);
    *taskId = mine.last_task;
    return ACL_SUCCESS;
}
