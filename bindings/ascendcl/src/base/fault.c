/* fault.c: calls that fail because WEIR_ASCENDCL_FAULTS names them. A call that a fault strikes has no other effect. */
#include "base/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAULTS = 32 };

struct fault {
    acl__function function; /* ACL_FN_COUNT: any */
    uint64_t nth;
    uint64_t count;
    aclError code; /* error to return; ACL_SUCCESS: the usual error of the function */
};

static struct fault faults[FAULTS];
static size_t fault_count;
static uint64_t struck; /* calls that failed since acl__faults_set */

static bool function_named(const char *name, size_t length, acl__function *function)
{
    if (length == 3 && memcmp(name, "any", 3) == 0) {
        *function = ACL_FN_COUNT;
        return true;
    }
    for (int i = 0; i < ACL_FN_COUNT; i++) {
        const char *known = acl__function_name((acl__function)i);
        if (strlen(known) == length && memcmp(known, name, length) == 0) {
            *function = (acl__function)i;
            return true;
        }
    }
    return false;
}

/* Parses one NAME:N, NAME:N+ or NAME:N-M, with =CODE behind it or not. Returns its end, or NULL if the text is not of
 * that form. */
static const char *parse_fault(const char *text, struct fault *parsed)
{
    WEIR_ASSERT(text != NULL && *text != '\0');
    const size_t length = strcspn(text, ":,");
    char *end = NULL;
    if (text[length] != ':' || !function_named(text, length, &parsed->function)) {
        return NULL;
    }
    parsed->nth = strtoull(text + length + 1, &end, 10);
    if (end == text + length + 1 || parsed->nth == 0) {
        return NULL;
    }
    parsed->count = *end == '+' ? UINT64_MAX : 1;
    if (*end == '+') {
        end++;
    } else if (*end == '-') {
        const char *last = end + 1;
        parsed->count = strtoull(last, &end, 10) - parsed->nth + 1;
        if (end == last || parsed->count - 1 > UINT64_MAX - parsed->nth) {
            return NULL;
        }
    }
    if (*end == '=') {
        const char *code = end + 1;
        parsed->code = (aclError)strtol(code, &end, 10);
        if (end == code || parsed->code == ACL_SUCCESS) {
            return NULL;
        }
    }
    return *end == ',' || *end == '\0' ? end : NULL;
}

bool acl__faults_read(const char *text)
{
    const char *at = text;
    while (at != NULL && *at != '\0') {
        struct fault parsed = {.function = ACL_FN_COUNT};
        const char *end = fault_count < FAULTS ? parse_fault(at, &parsed) : NULL;
        if (end == NULL) {
            (void)fprintf(stderr,
                          "weir ascendcl: WEIR_ASCENDCL_FAULTS at \"%s\": at most %d entries such as aclrtMalloc:3, "
                          "any:17, aclrtMapMem:1+, any:17-20 or aclrtMalloc:2=207001 are expected\n",
                          at, (int)FAULTS);
            return false;
        }
        faults[fault_count++] = parsed;
        at = *end == ',' ? end + 1 : end;
    }
    return true;
}

uint64_t acl__faults_set(const char *name, uint64_t nth, uint64_t count)
{
    const uint64_t failed = struck;
    struct fault set = {.function = ACL_FN_COUNT, .count = count};
    struck = 0;
    fault_count = count != 0 && (name == NULL || function_named(name, strlen(name), &set.function));
    set.nth = acl__calls(set.function) + nth;
    faults[0] = set;
    return failed;
}

bool acl__faults_any(void)
{
    return fault_count > 0;
}

static bool contains(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

static aclError usual_error(acl__function function)
{
    WEIR_ASSERT(function < ACL_FN_COUNT);
    const char *name = acl__function_name(function);
    if (contains(name, "Malloc") || contains(name, "Reserve") || contains(name, "Register")) {
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    }
    if (contains(name, "CreateStream")) {
        return ACL_ERROR_RT_NO_STREAM_RESOURCE;
    }
    if (contains(name, "CreateEvent")) {
        return ACL_ERROR_RT_NO_EVENT_RESOURCE;
    }
    return ACL_ERROR_RT_DRV_INTERNAL_ERROR;
}

aclError acl__faults_strike(acl__function function, uint64_t nth, uint64_t overall)
{
    WEIR_ASSERT(function < ACL_FN_COUNT);
    WEIR_ASSERT(nth > 0 && overall > 0);
    for (size_t i = 0; i < fault_count; i++) {
        const struct fault *f = &faults[i];
        const bool any = f->function == ACL_FN_COUNT;
        const uint64_t call = any ? overall : nth;
        if ((any || f->function == function) && call >= f->nth && call - f->nth < f->count) {
            struck++;
            return f->code != ACL_SUCCESS ? f->code : usual_error(function);
        }
    }
    return ACL_SUCCESS;
}
