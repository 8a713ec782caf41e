/* bindings/acl/src/error.c: what ACL's codes mean, and the last one that the calling thread saw.
 *
 * Cost: nothing for a call that succeeds. A failure is put into a sentence at once, in the place where refusals are
 * (weir_refuse), so that the later of the two is the one that is told.
 */
#include "acl_internal.h"
#include "error_list.h"

#include <stdio.h>
#include <string.h>

struct known_error {
    int code;
    const char *name;
    const char *text;
};

#define KNOWN(code, name, text) { code, #name, text },
static const struct known_error known_errors[] = { { 0, "ACL_SUCCESS", "success" }, WEIR_ACL_ERROR_LIST(KNOWN) };
#undef KNOWN

/* By halves: the list is in the order of the codes. */
static const struct known_error *find(int code)
{
    size_t low = 0;
    size_t high = sizeof(known_errors) / sizeof(known_errors[0]);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (known_errors[middle].code == code) {
            return &known_errors[middle];
        }
        if (known_errors[middle].code < code) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

const char *weir_acl_error_name(int acl_error)
{
    const struct known_error *known = find(acl_error);
    return known != NULL ? known->name : "ACL_ERROR_UNKNOWN";
}

const char *weir_acl_error_text(int acl_error)
{
    const struct known_error *known = find(acl_error);
    return known != NULL ? known->text : "a code that weir does not know";
}

weir_status weir_acl_status(int acl_error)
{
    switch (acl_error) {
    case 0: return WEIR_OK;
    case 200000: /* ACL_ERROR_BAD_ALLOC */
    case 207001: /* ACL_ERROR_RT_MEMORY_ALLOCATION */
    case 207018: /* ACL_ERROR_RT_DEVICE_OOM */
    case 300000: /* ACL_ERROR_STORAGE_OVER_LIMIT */ return WEIR_ERR_NO_MEMORY;
    case 200001: /* ACL_ERROR_API_NOT_SUPPORT */
    case 200006: /* ACL_ERROR_FEATURE_UNSUPPORTED */
    case 207000: /* ACL_ERROR_RT_FEATURE_NOT_SUPPORT */ return WEIR_ERR_UNSUPPORTED;
    default: return WEIR_ERR_DEVICE;
    }
}

/* --- the thread's last failure --- */

struct failure {
    int code;
    char text[192];
};

static _Thread_local struct failure last;

weir_status weir__acl_result(const char *call, aclError code)
{
    const weir_status status = weir_acl_status(code);
    if (code == ACL_SUCCESS) {
        return status;
    }
    last.code = code;
    (void)snprintf(last.text, sizeof(last.text), "%s: %d %s, %s", call, code, weir_acl_error_name(code),
                   weir_acl_error_text(code));
    return weir_refuse(status, "%s", last.text);
}

weir_status weir__acl_refuse_as(const char *function, weir_status status)
{
    const char *reason = strchr(weir_last_error(), ' ');
    char kept[256];
    (void)snprintf(kept, sizeof(kept), "%s", reason != NULL ? reason + 1 : "");
    return weir_refuse(status, "%s: %s", function, kept);
}

void weir__acl_last(int *acl_error, const char **text)
{
    *acl_error = last.code;
    *text = last.text;
}

weir_status weir_acl_error(int *acl_error, const char **text)
{
    const char *sentence = weir_last_error();
    if (acl_error != NULL) {
        *acl_error = strstr(sentence, last.text) != NULL ? last.code : 0;
    }
    if (text != NULL) {
        *text = sentence;
    }
    return WEIR_OK;
}
