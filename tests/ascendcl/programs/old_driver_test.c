/* old_driver_test.c: a call that needs a feature which an old driver does not announce returns 207000; other calls
 * work. */
#include "rig/acl.h"

TEST(events_for_the_device_alone_are_absent)
{
    aclrtEvent event = NULL;
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtCreateEventWithFlag(&event, ACL_EVENT_DEVICE_USE_ONLY));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtCreateEventExWithFlag(&event, ACL_EVENT_DEVICE_USE_ONLY));
    acl_ok(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
    acl_ok(aclrtDestroyEvent(event));
}

TEST(streams_cannot_be_aborted)
{
    aclrtStream stream = NULL;
    acl_ok(aclrtCreateStream(&stream));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtStreamAbort(stream));
    acl_ok(aclrtSynchronizeStream(stream));
    acl_ok(aclrtDestroyStream(stream));
}

ACL_ENVIRONMENT(OLD_DRIVER, "1")
ALL_TESTS(use_device, reset_device)
