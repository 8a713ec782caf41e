/* start.c: the first call of any function, on any thread, starts the runtime. It lives as long as the process: a handle
 * or an address that a late destructor still uses stays valid.
 */
#include "base/config.h"

#include <inttypes.h>
#include <stdio.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static aclError start_error;

/* Makes the limits that count the devices' memory. */
static bool make_limits(void)
{
    WEIR_ASSERT(acl__rt.config.devices <= ACL__DEVICES);
    for (uint32_t i = 0; i < acl__rt.config.devices; i++) {
        char name[WEIR_SHARED_LIMIT_NAME_LENGTH + 1];
        weir_shared_limit_config config = WEIR_SHARED_LIMIT_CONFIG_INIT;
        config.limit_bytes = acl__rt.config.capacity_bytes;
        if (acl__rt.config.shared != NULL) {
            (void)snprintf(name, sizeof(name), "acl-%s-%" PRIu32, acl__rt.config.shared, i);
            config.name = name;
        }
        if (weir_shared_limit_create(&config, &acl__rt.devices[i].limit) != WEIR_OK) {
            (void)fprintf(stderr, "weir ascendcl: device %" PRIu32 ": %s\n", i, weir_last_error());
            return false;
        }
    }
    return true;
}

static void start(void)
{
    WEIR_ASSERT(acl__rt.sim == NULL);
    weir_sim_config sim = WEIR_SIM_CONFIG_INIT;
    sim.direct_access = true;
    start_error = ACL_ERROR_INTERNAL_ERROR;
    if (!acl__config_read(&acl__rt.config, &sim) || !make_limits()) {
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
    ACL_FAIL_IF(acl__rt.is_cut_off, ACL_ERROR_INTERNAL_ERROR,
                "a child of fork has no part in a device that processes share: fork before the first call");
    uint64_t nth = 0;
    uint64_t overall = 0;
    acl__count_call(function, &nth, &overall);
    const aclError fault = acl__faults_any() ? acl__faults_strike(function, nth, overall) : ACL_SUCCESS;
    ACL_FAIL_IF(fault != ACL_SUCCESS, fault, "call %" PRIu64 " of %s was to fail", nth, acl__function_name(function));
    return ACL_SUCCESS;
}
