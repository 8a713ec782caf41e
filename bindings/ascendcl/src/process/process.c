/* process.c: aclInit and aclFinalize, and the end of the process. */
#include "process/process.h"
#include "base/report.h"

#include <stdio.h>
#include <unistd.h>

/* --- aclInit, aclFinalize, aclFinalizeReference --- */

ACL_EXPORT aclError aclInit(const char *configPath)
{
    ACL_ENTER_LOCKED(aclInit);
    const bool again = acl__rt.initialised > 0;
    ACL_REFUSE_IF(!again && configPath != NULL && *configPath != '\0' && access(configPath, R_OK) != 0,
                  ACL_ERROR_INVALID_FILE, "%s cannot be read", configPath);
    acl__rt.initialised++;
    acl__rt.finalised = false;
    ACL_REFUSE_IF(again, ACL_ERROR_REPEAT_INITIALIZE, "called before");
    return ACL_SUCCESS;
}

/* Drops one reference of aclInit, or all references. Prints the report when the last reference is dropped. The vendor
 * allows one aclFinalize without any aclInit, and so does this function. */
static aclError finalize(bool all, uint64_t *left)
{
    ACL_HOLD_LOCK();
    const bool nothing = acl__rt.initialised == 0 && (!all || acl__rt.finalised);
    if (!nothing) {
        acl__rt.initialised = all ? 0 : acl__rt.initialised - 1;
        if (acl__rt.initialised == 0) {
            acl__rt.finalised = true;
            acl__report_print();
        }
    }
    if (left != NULL) {
        *left = acl__rt.initialised;
    }
    ACL_FAIL_IF(nothing, ACL_ERROR_REPEAT_FINALIZE, "aclFinalize: there is no aclInit to end");
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclFinalize(void)
{
    ACL_ENTER(aclFinalize);
    return finalize(true, NULL);
}

ACL_EXPORT aclError aclFinalizeReference(uint64_t *refCount)
{
    ACL_ENTER(aclFinalizeReference);
    return finalize(false, refCount);
}

/* --- the end of the process --- */

__attribute__((destructor)) static void end(void)
{
    if (acl__rt.sim == NULL) {
        return;
    }
    /* A thread that died or hangs with the lock must not keep the process from ending. */
    if (!acl__lock_within_a_second()) {
        return;
    }
    acl__unlock();
    acl__engine_stop();
    if (!acl__lock_within_a_second()) {
        return;
    }
    const bool idle_child = acl__rt.calls_before_fork > 0 && acl__calls(ACL_FN_COUNT) == acl__rt.calls_before_fork;
    if (!idle_child) {
        acl__report_print();
    }
    const bool found = !idle_child && acl__report_has_findings();
    (void)pthread_mutex_unlock(acl__mutex());
    if (found && acl__rt.config.exit_code != 0) {
        (void)fflush(NULL);
        _exit(acl__rt.config.exit_code);
    }
}
