/* compiler.c: options of the operators' compiler. The simulated runtime compiles nothing: options are stored and
 * returned. */
#include <acl/acl_op_compiler.h>

#include "runtime.h"

#include <stdlib.h>
#include <string.h>

enum { OPTIONS = ACL_OP_DEBUG_OPTION + 1 };

static char *options[OPTIONS]; /* NULL: not set */

static aclError check_option(aclCompileOpt opt, const char *name)
{
    return (int)opt >= 0 && (int)opt < OPTIONS
               ? ACL_SUCCESS
               : acl__fail(ACL_ERROR_INVALID_PARAM, "%s: there is no option %d", name, (int)opt);
}

ACL_EXPORT aclError aclSetCompileopt(aclCompileOpt opt, const char *value)
{
    ACL_ENTER_LOCKED(aclSetCompileopt);
    ACL_NEED(value);
    ACL_TRY(check_option(opt, __func__));
    char *copy = strdup(value);
    ACL_REFUSE_IF(copy == NULL, ACL_ERROR_BAD_ALLOC, "no host memory");
    free(options[opt]);
    options[opt] = copy;
    return ACL_SUCCESS;
}

/* Returns the bytes of an option with its final 0; 0 for an option that is not set or does not exist. */
ACL_EXPORT size_t aclGetCompileoptSize(aclCompileOpt opt)
{
    ACL_ENTER_OR(aclGetCompileoptSize, 0);
    ACL_HOLD_LOCK();
    return check_option(opt, __func__) == ACL_SUCCESS && options[opt] != NULL ? strlen(options[opt]) + 1 : 0;
}

ACL_EXPORT aclError aclGetCompileopt(aclCompileOpt opt, char *value, size_t length)
{
    ACL_ENTER_LOCKED(aclGetCompileopt);
    ACL_NEED(value);
    ACL_TRY(check_option(opt, __func__));
    ACL_REFUSE_IF(options[opt] == NULL, ACL_ERROR_INVALID_PARAM, "option %d was not set", (int)opt);
    const size_t needed = strlen(options[opt]) + 1;
    ACL_REFUSE_IF(length < needed, ACL_ERROR_INVALID_PARAM, "the option has %zu bytes, not %zu", needed, length);
    memcpy(value, options[opt], needed);
    return ACL_SUCCESS;
}

/* The flag has no effect: every operator takes every shape. */
ACL_EXPORT aclError aclopSetCompileFlag(aclOpCompileFlag flag)
{
    ACL_ENTER(aclopSetCompileFlag);
    ACL_REFUSE_IF(flag != ACL_OP_COMPILE_DEFAULT && flag != ACL_OP_COMPILE_FUZZ, ACL_ERROR_INVALID_PARAM,
                  "there is no flag %d", (int)flag);
    return ACL_SUCCESS;
}
