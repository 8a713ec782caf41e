/* acl_test.h: shared by the programs of this folder. Include it first.
 *
 * A process has one simulated runtime. Its auditor checks every copy and fill for memory that two streams touch without
 * an order. A finding makes the process end with FOUND, even if all tests pass.
 */
#ifndef WEIR_ACL_TEST_H
#define WEIR_ACL_TEST_H

#include "rig/test.h"

#include <acl/acl.h>
#include <acl/acl_rt_allocator.h>
#include <weir/acl.h>
#include <weir/caching.h>

#define FOUND 99

#define ok(call) assert_int_equal((call), WEIR_OK)
#define fails(call, status) assert_int_equal((call), (status))
#define acl_ok(call) assert_int_equal((call), ACL_SUCCESS)

__attribute__((constructor)) static void set_environment(void)
{
    (void)setenv("WEIR_ASCENDCL_EXIT_CODE", "99", 0);
    (void)setenv("WEIR_ASCENDCL_CAPACITY", "256MiB", 0);
    (void)setenv("WEIR_ASCENDCL_RUNTIME_MEMORY", "0", 0);
    (void)setenv("WEIR_ASCENDCL_DEVICES", "2", 0);
}

/* A pool on a device, and two streams. */
struct world {
    weir_device *device;
    weir_pool *pool;
    aclrtStream stream[2];
};

static inline weir_pool *make_pool(weir_device *device)
{
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    weir_pool *pool = NULL;
    config.device = device;
    config.strategy = weir_caching_strategy();
    ok(weir_pool_create(&config, &pool));
    return pool;
}

static inline weir_pool_stats pool_stats(weir_pool *pool)
{
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(weir_pool_get_stats(pool, &stats));
    return stats;
}

static inline weir_acl_attachment_info attachment_info(weir_acl_attachment *attachment)
{
    weir_acl_attachment_info info = WEIR_ACL_ATTACHMENT_INFO_INIT;
    ok(weir_acl_attachment_get_info(attachment, &info));
    return info;
}

static inline struct world make_world(void)
{
    struct world w = {0};
    acl_ok(aclrtSetDevice(0));
    ok(weir_acl_device_create(NULL, &w.device));
    w.pool = make_pool(w.device);
    acl_ok(aclrtCreateStream(&w.stream[0]));
    acl_ok(aclrtCreateStream(&w.stream[1]));
    return w;
}

static inline aclrtStream new_stream(void)
{
    aclrtStream stream = NULL;
    acl_ok(aclrtCreateStream(&stream));
    return stream;
}

static inline weir_acl_attachment *attach(weir_pool *pool, aclrtStream stream)
{
    weir_acl_attachment *attachment = NULL;
    ok(weir_acl_attach(pool, stream, &attachment));
    return attachment;
}

static inline size_t free_bytes(void)
{
    size_t left = 0;
    size_t total = 0;
    acl_ok(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
    return left;
}

/* Ends all uses of device 0. Fails if memory of it was not freed. The driver keeps freed memory until then. */
static inline void end_device(void)
{
    while (aclrtResetDevice(0) == ACL_SUCCESS) {
    }
    acl_ok(aclrtSetDevice(0));
    size_t total = 0;
    size_t left = 0;
    acl_ok(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
    assert_int_equal(left, total);
    acl_ok(aclrtResetDevice(0));
}

/* Fails if a stream is still attached, or if the pool does not give all its memory back. */
static inline void end_world(struct world *w)
{
    for (int i = 0; i < 2; i++) {
        if (w->stream[i] != NULL) {
            acl_ok(aclrtDestroyStream(w->stream[i]));
        }
    }
    const char *why = "";
    assert_int_equal(weir_pool_check(w->pool, &why), WEIR_OK);
    ok(weir_pool_destroy(w->pool));
    assert_int_equal(weir_device_destroy(w->device), WEIR_OK);
    end_device();
}

/* The registration of a stream, as an executor reads it. */
struct registration {
    aclrtAllocator object;
    aclrtAllocatorAllocFunc alloc;
    aclrtAllocatorFreeFunc free;
    aclrtAllocatorAllocAdviseFunc advise;
    aclrtAllocatorGetAddrFromBlockFunc address;
};

static inline bool read_registration(aclrtStream stream, struct registration *r)
{
    aclrtAllocatorDesc desc = NULL;
    return aclrtAllocatorGetByStream(stream, &desc, &r->object, &r->alloc, &r->free, &r->advise, &r->address) ==
           ACL_SUCCESS;
}

static inline struct registration registration_of(aclrtStream stream)
{
    struct registration r = {0};
    assert_true(read_registration(stream, &r));
    return r;
}

#endif
