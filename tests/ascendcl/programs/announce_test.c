/* announce_test.c: which streams and devices the state callbacks hear of when devices and contexts come and go, and in
 * which order. The expected order is the vendor's. */
#include "rig/acl.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 16 };

static aclrtStream known[MOST];
static int known_count;
static char heard[128];

/* Returns the number of a stream. Streams are numbered in the order in which the runtime announces their creation to
 * `note`. */
static int number_of(aclrtStream stream)
{
    int i = 0;
    while (i < known_count && known[i] != stream) {
        i++;
    }
    return i;
}

static void note(aclrtStream stream, aclrtStreamState state, void *args)
{
    (void)args;
    int32_t id = -1;
    acl_ok(aclrtStreamGetId(stream, &id)); /* the stream exists at each announcement */
    const bool created = state == ACL_RT_STREAM_STATE_CREATE_POST;
    if (created) {
        assert_true(known_count < MOST);
        known[known_count++] = stream;
    }
    const size_t length = strlen(heard);
    (void)snprintf(heard + length, sizeof(heard) - length, "%c%d ", created ? '+' : '-', number_of(stream));
}

static int listen(void **unused)
{
    (void)unused;
    known_count = 0;
    heard[0] = '\0';
    return aclrtRegStreamStateCallback("announce", note, NULL);
}

static int stop_listening(void **unused)
{
    (void)unused;
    return aclrtRegStreamStateCallback("announce", NULL, NULL);
}

/* The first use of a device makes its default stream and an internal stream of the runtime. The runtime does not
 * announce the end of the internal stream to the callback. */
TEST_BETWEEN(a_device_has_a_stream_of_its_own, listen, stop_listening)
{
    aclrtStream stream = NULL;
    acl_ok(aclrtSetDevice(1));
    assert_string_equal(heard, "+0 +1 ");
    acl_ok(aclrtCtxGetCurrentDefaultStream(&stream));
    assert_int_equal(number_of(stream), 0);
    acl_ok(aclrtSetDevice(1)); /* in use already */
    acl_ok(aclrtResetDevice(1));
    assert_string_equal(heard, "+0 +1 ");
    acl_ok(aclrtResetDevice(1));
    assert_string_equal(heard, "+0 +1 -0 ");
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtResetDevice(0)); /* the rig's use remains */
}

/* The runtime announces the end of a context's default stream to the callback twice: before the ends of the context's
 * other streams, and after them. */
TEST_BETWEEN(a_context_announces_the_end_of_its_default_stream_twice, listen, stop_listening)
{
    aclrtContext home = NULL, context = NULL;
    aclrtStream stream = NULL;
    acl_ok(aclrtGetCurrentContext(&home));
    acl_ok(aclrtCreateContext(&context, 0));
    assert_string_equal(heard, "+0 ");
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtDestroyContext(context));
    assert_string_equal(heard, "+0 +1 -0 -1 -0 ");
    acl_ok(aclrtSetCurrentContext(home));
}

/* The runtime's own stream takes work. */
TEST_BETWEEN(the_runtimes_own_stream_can_be_used, listen, stop_listening)
{
    aclrtEvent event = NULL;
    acl_ok(aclrtSetDevice(1));
    acl_ok(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
    acl_ok(aclrtRecordEvent(event, known[1]));
    acl_ok(aclrtSynchronizeStream(known[1]));
    acl_ok(aclrtDestroyEvent(event));
    acl_ok(aclrtResetDevice(1));
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtResetDevice(0));
}

static void note_device(int32_t device, aclrtDeviceState state, void *args)
{
    static const char *const names[] = {"setting", "set", "resetting", "reset"};
    int32_t now = -1;
    const bool any = aclrtGetDevice(&now) == ACL_SUCCESS;
    char *text = args;
    const size_t length = strlen(text);
    (void)snprintf(text + length, sizeof(heard) - length, "%s %d%s, ", names[state], device,
                   any && now == device ? " (current)" : "");
}

/* The runtime calls the callback before and after the first use of a device, after each further use, and before and
 * after the end of the last use. */
TEST(the_states_of_a_device_are_announced)
{
    heard[0] = '\0';
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtRegDeviceStateCallback(NULL, note_device, heard));
    acl_ok(aclrtRegDeviceStateCallback("unknown", NULL, NULL));
    acl_ok(aclrtRegDeviceStateCallback("announce", note_device, heard));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtRegDeviceStateCallback("announce", note_device, NULL));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice(77));
    acl_ok(aclrtSetDevice(1));
    acl_ok(aclrtSetDevice(1));
    acl_ok(aclrtResetDevice(1));
    assert_string_equal(heard, "setting 1, set 1 (current), set 1 (current), ");
    acl_ok(aclrtResetDevice(1));
    assert_string_equal(heard, "setting 1, set 1 (current), set 1 (current), resetting 1 (current), reset 1, ");
    heard[0] = '\0';
    acl_ok(aclrtSetDevice(1));
    acl_ok(aclrtResetDeviceForce(1));
    assert_string_equal(heard, "setting 1, set 1 (current), resetting 1 (current), reset 1, ");
    acl_ok(aclrtRegDeviceStateCallback("announce", NULL, NULL));
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtResetDevice(0));
    assert_string_equal(heard, "setting 1, set 1 (current), resetting 1 (current), reset 1, ");
}

ALL_TESTS(use_device, reset_device)
