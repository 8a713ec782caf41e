/* compiler.c: options of the operators' compiler. The simulated runtime compiles nothing: options are stored. As
 * in the vendor's compiler, few of them can be read back. */
#include <acl/acl_op_compiler.h>

#include "actions/actions.h"

#include <stdlib.h>
#include <string.h>

enum { OPTIONS = ACL_OP_DEBUG_OPTION + 1, JIT_COMPILE_BYTES = 256 };

static char *options[OPTIONS]; /* NULL: not set */

static bool is_option(aclCompileOpt opt)
{
    return (int)opt >= 0 && (int)opt < OPTIONS && opt != ACL_AUTO_TUNE_MODE;
}

ACL_EXPORT aclError aclSetCompileopt(aclCompileOpt opt, const char *value)
{
    ACL_ENTER_LOCKED(aclSetCompileopt);
    ACL_NEED(value);
    ACL_REFUSE_IF(opt == ACL_AUTO_TUNE_MODE, ACL_ERROR_FEATURE_UNSUPPORTED, "there is no tuning any more");
    ACL_REFUSE_IF(!is_option(opt), ACL_ERROR_INTERNAL_ERROR, "there is no option %d", (int)opt);
    char *copy = strdup(value);
    ACL_REFUSE_IF(copy == NULL, ACL_ERROR_BAD_ALLOC, "no host memory");
    free(options[opt]);
    options[opt] = copy;
    return ACL_SUCCESS;
}

/* Returns the bytes of an option with its final 0; 0 for an option that is not set or does not exist.
 * ACL_OP_JIT_COMPILE has a fixed size, because its default value can be read before it is set. */
ACL_EXPORT size_t aclGetCompileoptSize(aclCompileOpt opt)
{
    ACL_ENTER_OR(aclGetCompileoptSize, 0);
    ACL_HOLD_LOCK();
    if (opt == ACL_OP_JIT_COMPILE) {
        return JIT_COMPILE_BYTES;
    }
    return is_option(opt) && options[opt] != NULL && options[opt][0] != '\0' ? strlen(options[opt]) + 1 : 0;
}

/* Reads an option. Returns the device's default for ACL_OP_JIT_COMPILE, even if the program has set another value. */
ACL_EXPORT aclError aclGetCompileopt(aclCompileOpt opt, char *value, size_t length)
{
    ACL_ENTER_LOCKED(aclGetCompileopt);
    ACL_NEED(value);
    const char *found = NULL;
    if (opt == ACL_OP_JIT_COMPILE) {
        found = "disable";
    } else if (opt == ACL_OP_DEBUG_OPTION) {
        found = options[opt];
    }
    ACL_REFUSE_IF(found == NULL, ACL_ERROR_API_NOT_SUPPORT, "option %d cannot be read", (int)opt);
    const size_t needed = strlen(found) + 1;
    ACL_REFUSE_IF(length < needed, ACL_ERROR_FAILURE, "the option has %zu bytes, not %zu", needed, length);
    memcpy(value, found, needed);
    return ACL_SUCCESS;
}

/* The compile flag has no effect: every operator takes every shape. */
ACL_EXPORT aclError aclopSetCompileFlag(aclOpCompileFlag flag)
{
    ACL_ENTER(aclopSetCompileFlag);
    ACL_REFUSE_IF(flag != ACL_OP_COMPILE_DEFAULT && flag != ACL_OP_COMPILE_FUZZ, ACL_ERROR_INVALID_PARAM,
                  "there is no flag %d", (int)flag);
    return ACL_SUCCESS;
}
