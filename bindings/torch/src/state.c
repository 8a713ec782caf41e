/* bindings/torch/src/state.c: the state that all files share: the devices, the lock, the last failure. */
#include "torch_internal.h"

#include <stdio.h>
#include <string.h>

pthread_mutex_t weir__torch_lock = PTHREAD_MUTEX_INITIALIZER;

static struct torch_device devices[WEIR__TORCH_DEVICES];
static char failure[512]; /* the last failure, as a sentence; protected by weir__torch_lock */
static atomic_bool misuse_reported;

/* --- devices --- */

struct torch_device *weir__torch_device(int device)
{
    if (device < 0 || device >= WEIR__TORCH_DEVICES) {
        return NULL;
    }
    return &devices[device];
}

weir_status weir__torch_no_device(const char *function, int device)
{
    return weir_refuse(WEIR_ERR_INVALID, "%s: device %d is not between 0 and %d", function, device,
                       WEIR__TORCH_DEVICES - 1);
}

/* --- failures --- */

/* Prints to stderr. The thread must not be cancelled during the call, because it may hold the lock. */
static void say(const char *text)
{
    int cancel_state = 0;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    (void)fputs(text, stderr);
    (void)pthread_setcancelstate(cancel_state, &cancel_state);
}

void weir__torch_fail_locked(const char *what, const char *why)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    char text[sizeof(failure)];
    (void)snprintf(text, sizeof(text), "weir_torch: %s: %s\n", what, why);
    if (strcmp(text, failure) != 0) {
        memcpy(failure, text, sizeof(failure));
        say(failure);
    }
}

void weir__torch_fail_with_status_locked(const char *what, weir_status status)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    const bool explained = status == WEIR_ERR_DEVICE || status == WEIR_ERR_INVALID || status == WEIR_ERR_BUSY ||
                           status == WEIR_ERR_UNSUPPORTED;
    const char *why = explained ? weir_last_error() : "";
    weir__torch_fail_locked(what, why[0] != '\0' ? why : weir_status_text(status));
}

size_t weir__torch_failure(char *text, size_t size)
{
    (void)pthread_mutex_lock(&weir__torch_lock);
    const size_t length = strlen(failure);
    if (size != 0) {
        const size_t kept = length < size - 1 ? length : size - 1;
        memcpy(text, failure, kept);
        text[kept] = '\0';
    }
    (void)pthread_mutex_unlock(&weir__torch_lock);
    return length;
}

void weir__torch_report_misuse(const char *text, const void *ptr)
{
    if (!atomic_exchange(&misuse_reported, true)) {
        char line[sizeof(failure)];
        (void)snprintf(line, sizeof(line), "weir_torch: %s: %p\n", text, ptr);
        say(line);
    }
}

void weir__torch_forget_failure_locked(void)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    failure[0] = '\0';
}

const char *weir_torch_last_error(void)
{
    return weir_last_error();
}
