/* bindings/ascend/acl/src/error.c: the meaning of ACL's codes, and the last failure of the calling thread.
 *
 * Cost: nothing for a call that succeeds. shared/native_error.h makes a sentence of a failure.
 */
#include "acl_internal.h"
#include "error_list.h"

struct known_error {
    int code;
    const char *name;
    const char *text;
};

#define KNOWN(code, name, text) {code, #name, text},
static const struct known_error known_errors[] = {WEIR_ACL_ERROR_LIST(KNOWN)};
#undef KNOWN

/* Binary search: the list is in the order of the codes. */
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

static weir_status status_of(int code)
{
    switch (code) {
    case 200000: /* ACL_ERROR_BAD_ALLOC */
    case 207001: /* ACL_ERROR_RT_MEMORY_ALLOCATION */
    case 207018: /* ACL_ERROR_RT_DEVICE_OOM */
    case 300000: /* ACL_ERROR_STORAGE_OVER_LIMIT */
        return WEIR_ERR_NO_MEMORY;
    case 200001: /* ACL_ERROR_API_NOT_SUPPORT */
    case 200006: /* ACL_ERROR_FEATURE_UNSUPPORTED */
    case 207000: /* ACL_ERROR_RT_FEATURE_NOT_SUPPORT */
        return WEIR_ERR_UNSUPPORTED;
    default:
        return WEIR_ERR_DEVICE;
    }
}

/* --- the thread's last failure --- */

static _Thread_local weir__native_failure last;

weir_status weir__acl_result(const char *call, aclError code)
{
    if (code == ACL_SUCCESS) {
        return WEIR_OK;
    }
    const struct known_error *known = find(code);
    return weir__native_failed(&last, status_of(code), call, code, known != NULL ? known->name : "ACL_ERROR_UNKNOWN",
                               known != NULL ? known->text : "a code that weir does not know");
}

void weir__acl_last(int *acl_error, const char **text)
{
    *acl_error = last.code;
    *text = last.text;
}

weir_status weir_acl_error(int *acl_error, const char **text)
{
    weir__native_read(&last, acl_error, text);
    return WEIR_OK;
}
