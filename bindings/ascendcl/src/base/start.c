/* start.c: the first call of any function, on any thread, starts the runtime. It lives as long as the process: a handle
 * or an address that a late destructor still uses stays valid.
 */
#include "base/config.h"

#include <inttypes.h>
#include <stdio.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static aclError start_error;

static void start(void)
{
    WEIR_ASSERT(acl__rt.sim == NULL);
    weir_sim_config sim = WEIR_SIM_CONFIG_INIT;
    sim.direct_access = true;
    start_error = ACL_ERROR_INTERNAL_ERROR;
    if (!acl__config_read(&acl__rt.config, &sim)) {
        return;
    }
    if (weir_sim_create(&sim, &acl__rt.sim) != WEIR_OK) {
        (void)fputs("weir ascendcl: the simulator cannot be made: not enough memory or addresses\n", stderr);
        return;
    }
    acl__rt.memory = weir_sim_device(acl__rt.sim);
    weir_sim_set_reach(acl__rt.sim, acl__reaches, NULL);
    acl__prepare_for_fork();
    start_error = ACL_SUCCESS;
}

aclError acl__start(void)
{
    (void)pthread_once(&once, start);
    return start_error;
}

aclError acl__enter(acl__function function)
{
    ACL_TRY(acl__start());
    uint64_t nth = 0;
    uint64_t overall = 0;
    acl__count_call(function, &nth, &overall);
    const aclError fault = acl__faults_any() ? acl__faults_strike(function, nth, overall) : ACL_SUCCESS;
    ACL_FAIL_IF(fault != ACL_SUCCESS, fault, "call %" PRIu64 " of %s was to fail", nth, acl__function_name(function));
    return ACL_SUCCESS;
}
