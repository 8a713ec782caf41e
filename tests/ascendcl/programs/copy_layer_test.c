/* copy_layer_test.c: a copy layer as real clients have one, in several threads at once.
 *
 * Each client has a stream and a thread that runs its callbacks in a loop; the thread starts before it is subscribed.
 * Buffers go from pinned memory to the device and back, and the client sleeps until a callback that does not block
 * wakes it. Meanwhile the client makes no call of the runtime. The end is in the wrong order on purpose, as in real
 * clients: the thread is unsubscribed while it waits, then stopped, then the stream is destroyed.
 */
#include "rig/acl.h"

#include <weir/ascendcl.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { CLIENTS = 4, BUFFERS = 61, ROUNDS = 6, BUFFER = 36 << 10 };

struct client {
    pthread_t main;
    pthread_t loop;
    atomic_bool ends;
    aclrtStream stream;
    unsigned char seed;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    int done;
};

static struct client clients[CLIENTS];

static void *loop(void *argument)
{
    struct client *c = argument;
    while (!atomic_load(&c->ends)) {
        (void)aclrtProcessReport(10);
    }
    return NULL;
}

static void wake(void *argument)
{
    struct client *c = argument;
    (void)pthread_mutex_lock(&c->lock);
    c->done++;
    (void)pthread_cond_signal(&c->woken);
    (void)pthread_mutex_unlock(&c->lock);
}

static void wait_for(struct client *c, int count)
{
    (void)pthread_mutex_lock(&c->lock);
    while (c->done < count) {
        (void)pthread_cond_wait(&c->woken, &c->lock);
    }
    (void)pthread_mutex_unlock(&c->lock);
}

static void round_trip(struct client *c, int round, unsigned char *host[], unsigned char *device[])
{
    const unsigned char mark = (unsigned char)(c->seed + round);
    for (int i = 0; i < BUFFERS; i++) {
        memset(host[i], mark + i, BUFFER);
        acl_ok(aclrtMemcpyAsync(device[i], BUFFER, host[i], BUFFER, ACL_MEMCPY_HOST_TO_DEVICE, c->stream));
    }
    acl_ok(aclrtLaunchCallback(wake, c, ACL_CALLBACK_NO_BLOCK, c->stream));
    wait_for(c, 2 * round + 1); /* from now on the client owns the host memory again */
    for (int i = 0; i < BUFFERS; i++) {
        memset(host[i], 0, BUFFER);
        acl_ok(aclrtMemcpyAsync(host[i], BUFFER, device[i], BUFFER, ACL_MEMCPY_DEVICE_TO_HOST, c->stream));
    }
    acl_ok(aclrtLaunchCallback(wake, c, round % 2 == 0 ? ACL_CALLBACK_NO_BLOCK : ACL_CALLBACK_BLOCK, c->stream));
    wait_for(c, 2 * round + 2);
    for (int i = 0; i < BUFFERS; i++) {
        assert_int_equal(host[i][0], (unsigned char)(mark + i));
        assert_int_equal(host[i][BUFFER - 1], (unsigned char)(mark + i));
    }
}

static void *run_client(void *argument)
{
    struct client *c = argument;
    unsigned char *pinned = NULL, *host[BUFFERS], *device[BUFFERS];
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtCreateStreamWithConfig(&c->stream, 0, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
    assert_int_equal(pthread_create(&c->loop, NULL, loop, c), 0);
    acl_ok(aclrtSubscribeReport((uint64_t)c->loop, c->stream));
    acl_ok(aclrtMallocHost((void **)&pinned, BUFFERS * BUFFER));
    for (int i = 0; i < BUFFERS; i++) {
        host[i] = pinned + i * BUFFER;
        acl_ok(aclrtMalloc((void **)&device[i], BUFFER, (aclrtMemMallocPolicy)0x1000));
    }
    for (int round = 0; round < ROUNDS; round++) {
        round_trip(c, round, host, device);
    }
    acl_ok(aclrtSynchronizeStream(c->stream));
    for (int i = 0; i < BUFFERS; i++) {
        acl_ok(aclrtFree(device[i]));
    }
    acl_ok(aclrtFreeHost(pinned));
    acl_ok(aclrtUnSubscribeReport((uint64_t)c->loop, c->stream));
    atomic_store(&c->ends, true);
    assert_int_equal(pthread_join(c->loop, NULL), 0);
    acl_ok(aclrtDestroyStream(c->stream));
    acl_ok(aclrtResetDevice(0));
    return NULL;
}

TEST(clients_copy_at_the_same_time)
{
    for (int i = 0; i < CLIENTS; i++) {
        clients[i].seed = (unsigned char)(50 * i);
        assert_int_equal(pthread_mutex_init(&clients[i].lock, NULL), 0);
        assert_int_equal(pthread_cond_init(&clients[i].woken, NULL), 0);
        assert_int_equal(pthread_create(&clients[i].main, NULL, run_client, &clients[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_join(clients[i].main, NULL), 0);
    }
    assert_int_equal(weir_ascendcl_finding_count(NULL), 0);
    assert_int_equal(weir_ascendcl_held_bytes(0), 0);
}

ACL_ENVIRONMENT(REPORT, "none")
ACL_ENVIRONMENT(CAPACITY, "1GiB") /* small: the thread sanitizer leaves few addresses */
