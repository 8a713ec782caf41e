/* not_simulated.c: the public functions that are declared and linked, and answer "not supported".
 *
 * functions.h lists the parameters of each function, and the public headers declare it: the compiler compares the two.
 * A function that returns a value returns 0, as the vendor's function does on failure.
 */
#include "process/process.h"

#include <acl/acl_dump.h>
#include <acl/acl_op_compiler.h>
#include <acl/acl_prof.h>
#include <acl/acl_tdt.h>
#include <acl/acl_tdt_queue.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define DEFINE(name, parameters)                                                                                       \
    ACL_EXPORT aclError name parameters                                                                                \
    {                                                                                                                  \
        ACL_ENTER(name);                                                                                               \
        return acl__not_simulated(ACL_FN_##name);                                                                      \
    }
#define TYPE_OF(type, parameters) type
#define PARAMETERS_OF(type, parameters) parameters
#define DEFINE_VALUE(name, signature)                                                                                  \
    ACL_EXPORT TYPE_OF signature name PARAMETERS_OF signature                                                          \
    {                                                                                                                  \
        ACL_ENTER_OR(name, 0);                                                                                         \
        (void)acl__not_simulated(ACL_FN_##name);                                                                       \
        return 0;                                                                                                      \
    }

ACL_NOT_SIMULATED_FUNCTIONS(DEFINE)
ACL_NOT_SIMULATED_VALUES(DEFINE_VALUE)

/* There is nothing to destroy: the functions that create a step info or a stamp return NULL. */
ACL_EXPORT void aclprofDestroyStepInfo(aclprofStepInfo *stepinfo)
{
    ACL_ENTER_OR(aclprofDestroyStepInfo, );
}

ACL_EXPORT void aclprofDestroyStamp(void *stamp)
{
    ACL_ENTER_OR(aclprofDestroyStamp, );
}
