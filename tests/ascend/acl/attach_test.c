/* attach_test.c: a pool as the allocator of ACL streams: the callbacks, and attach, run, detach and destroy in every
 * order. */
#include "acl_test.h"

#include <string.h>

static uint64_t live_of(weir_acl_attachment *attachment)
{
    weir_acl_attachment_info info = WEIR_ACL_ATTACHMENT_INFO_INIT;
    ok(weir_acl_attachment_get_info(attachment, &info));
    return info.live_blocks;
}

TEST(test_callbacks_serve_from_the_pool)
{
    struct world w = make_world();
    weir_acl_attachment *attachment = attach(w.pool, w.stream[0]);
    const struct registration r = registration_of(w.stream[0]);
    assert_non_null(r.alloc);
    assert_non_null(r.free);
    assert_non_null(r.advise);
    assert_non_null(r.address);

    void *block = r.alloc(r.object, 100000);
    assert_non_null(block);
    assert_ptr_equal(weir_block_pool(block), w.pool);
    assert_ptr_equal(r.address(block), (void *)(uintptr_t)weir_block_address(block));
    assert_int_equal((uintptr_t)r.address(block) % 512, 0);
    assert_int_equal(weir_block_size(block), 100000 + 32);
    acl_ok(aclrtMemsetAsync(r.address(block), 100032, 1, 100032, w.stream[0]));
    assert_int_equal(live_of(attachment), 1);
    r.free(r.object, block);
    assert_int_equal(live_of(attachment), 0);

    void *again = r.advise(r.object, 100000, NULL);
    assert_ptr_equal(again, block); /* the same stream may get the block at once, because its work runs in order */
    r.free(r.object, again);
    ok(weir_acl_detach(attachment));
    end_world(&w);
}

TEST(test_bad_calls_of_the_callbacks_are_counted)
{
    struct world w = make_world();
    weir_acl_attachment *attachment = attach(w.pool, w.stream[0]);
    const struct registration r = registration_of(w.stream[0]);
    assert_null(r.alloc(NULL, 100));
    assert_null(r.alloc(r.object, 0));
    assert_null(r.alloc(r.object, SIZE_MAX));
    assert_null(r.alloc(r.object, SIZE_MAX - 40));
    assert_null(r.alloc(r.object, (size_t)1 << 40));
    assert_null(r.address(NULL));
    r.free(NULL, NULL);
    r.free(r.object, NULL);
    void *block = r.alloc(r.object, 100);
    r.free(r.object, block);
    r.free(r.object, block);
    const weir_acl_attachment_info info = attachment_info(attachment);
    assert_int_equal(info.failures, 4);
    assert_int_equal(info.refused_frees, 2);
    assert_int_equal(info.live_blocks, 0);
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    ok(weir_pool_get_oom(w.pool, &record));
    assert_int_equal(record.failure, 1);
    ok(weir_acl_detach(attachment));
    end_world(&w);
}

/* The records of attachments are reused after a while. The counters of a reused record begin at 0. */
TEST(test_attachments_that_are_used_again_are_new)
{
    enum { many = 200 };
    struct world w = make_world();
    for (int i = 0; i < many; i++) {
        weir_acl_attachment *attachment = attach(w.pool, w.stream[0]);
        const struct registration r = registration_of(w.stream[0]);
        assert_null(r.alloc(r.object, (size_t)1 << 40));
        r.free(r.object, NULL);
        const weir_acl_attachment_info info = attachment_info(attachment);
        if (info.failures != 1 || info.refused_frees != 1 || info.live_blocks != 0) {
            fail_msg("attachment %d starts with old counters: %u failures, %u refused frees", i,
                     (unsigned)info.failures, (unsigned)info.refused_frees);
        }
        ok(weir_acl_detach(attachment));
    }
    end_world(&w);
}

TEST(test_bad_arguments)
{
    struct world w = make_world();
    weir_acl_attachment *attachment = NULL;
    char foreign[512] = {0};
    fails(weir_acl_attach(NULL, w.stream[0], &attachment), WEIR_ERR_INVALID);
    fails(weir_acl_attach(w.pool, NULL, &attachment), WEIR_ERR_INVALID);
    fails(weir_acl_attach(w.pool, w.stream[0], NULL), WEIR_ERR_INVALID);
    fails(weir_acl_follow(NULL, w.stream[0], &attachment), WEIR_ERR_INVALID);
    assert_null(attachment);
    ok(weir_acl_detach(NULL));
    fails(weir_acl_detach((weir_acl_attachment *)foreign), WEIR_ERR_INVALID);
    weir_acl_attachment_info info = WEIR_ACL_ATTACHMENT_INFO_INIT;
    fails(weir_acl_attachment_get_info((weir_acl_attachment *)foreign, &info), WEIR_ERR_INVALID);
    fails(weir_acl_attachment_get_info(NULL, &info), WEIR_ERR_INVALID);
    end_world(&w);
}

TEST(test_a_shorter_info_is_filled_as_far_as_it_goes)
{
    struct world w = make_world();
    weir_acl_attachment *attachment = attach(w.pool, w.stream[0]);
    weir_acl_attachment_info info;
    memset(&info, 0x5a, sizeof(info));
    info.struct_size = offsetof(weir_acl_attachment_info, stream);
    ok(weir_acl_attachment_get_info(attachment, &info));
    assert_ptr_equal(info.pool, w.pool);
    assert_int_equal(((unsigned char *)&info.stream)[0], 0x5a);
    ok(weir_acl_detach(attachment));
    end_world(&w);
}

TEST(test_streams_share_a_pool)
{
    struct world w = make_world();
    weir_acl_attachment *attachment[2] = {NULL, NULL};
    struct registration r[2];
    for (int i = 0; i < 2; i++) {
        ok(weir_acl_attach(w.pool, w.stream[i], &attachment[i]));
        r[i] = registration_of(w.stream[i]);
    }
    assert_ptr_not_equal(r[0].object, r[1].object);
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 2; i++) {
            const size_t size = (size_t)(1 + round % 5) * 700000;
            void *block = r[i].alloc(r[i].object, size);
            assert_non_null(block);
            acl_ok(aclrtMemsetAsync(r[i].address(block), size, round, size, w.stream[i]));
            r[i].free(r[i].object, block); /* the fill is still queued; the auditor checks the reuse */
        }
    }
    ok(weir_acl_detach(attachment[1]));
    ok(weir_acl_detach(attachment[0]));
    end_world(&w);
}

/* --- wrong orders --- */

TEST(test_attach_twice_is_busy)
{
    struct world w = make_world();
    weir_pool *other = make_pool(w.device);
    weir_acl_attachment *attachment = NULL;
    weir_acl_attachment *second = NULL;
    ok(weir_acl_attach(w.pool, w.stream[0], &attachment));
    fails(weir_acl_attach(w.pool, w.stream[0], &second), WEIR_ERR_BUSY);
    fails(weir_acl_attach(other, w.stream[0], &second), WEIR_ERR_BUSY);
    fails(weir_acl_follow(w.pool, w.stream[0], &second), WEIR_ERR_BUSY);
    assert_null(second);
    assert_ptr_equal(registration_of(w.stream[0]).object, attachment);
    ok(weir_acl_detach(attachment));
    ok(weir_acl_attach(other, w.stream[0], &second));
    ok(weir_acl_detach(second));
    ok(weir_pool_destroy(other));
    end_world(&w);
}

TEST(test_detach_while_live_is_busy)
{
    struct world w = make_world();
    weir_acl_attachment *attachment = attach(w.pool, w.stream[0]);
    const struct registration r = registration_of(w.stream[0]);
    void *block = r.alloc(r.object, 1000);
    fails(weir_acl_detach(attachment), WEIR_ERR_BUSY);
    assert_ptr_equal(registration_of(w.stream[0]).object, attachment);
    void *more = r.alloc(r.object, 1000); /* the refused call changed nothing */
    assert_non_null(more);
    r.free(r.object, block);
    fails(weir_acl_detach(attachment), WEIR_ERR_BUSY);
    r.free(r.object, more);
    ok(weir_acl_detach(attachment));
    struct registration none;
    assert_false(read_registration(w.stream[0], &none));
    end_world(&w);
}

TEST(test_detach_twice_is_refused)
{
    struct world w = make_world();
    weir_acl_attachment *first = NULL;
    weir_acl_attachment *second = NULL;
    ok(weir_acl_attach(w.pool, w.stream[0], &first));
    ok(weir_acl_detach(first));
    fails(weir_acl_detach(first), WEIR_ERR_INVALID);
    ok(weir_acl_attach(w.pool, w.stream[0], &second));
    fails(weir_acl_detach(first), WEIR_ERR_INVALID);
    ok(weir_acl_detach(second));
    /* the runtime reuses the handles of detached allocators, and the new attachments work */
    for (int i = 0; i < 200; i++) {
        ok(weir_acl_attach(w.pool, w.stream[i % 2], &second));
        const struct registration r = registration_of(w.stream[i % 2]);
        r.free(r.object, r.alloc(r.object, 5000));
        ok(weir_acl_detach(second));
        fails(weir_acl_detach(second), WEIR_ERR_INVALID);
    }
    end_world(&w);
}

TEST(test_an_executor_that_kept_the_object_gets_nothing)
{
    struct world w = make_world();
    weir_acl_attachment *attachment = attach(w.pool, w.stream[0]);
    const struct registration r = registration_of(w.stream[0]);
    ok(weir_acl_detach(attachment));
    assert_null(r.alloc(r.object, 1000));
    assert_null(r.advise(r.object, 1000, NULL));
    r.free(r.object, NULL);
    end_world(&w);
    assert_null(r.alloc(r.object, 1000)); /* the pool is gone too */
}

TEST(test_destroying_an_attached_pool_is_busy)
{
    struct world w = make_world();
    weir_acl_attachment *attachment[2] = {NULL, NULL};
    ok(weir_acl_attach(w.pool, w.stream[0], &attachment[0]));
    ok(weir_acl_attach(w.pool, w.stream[1], &attachment[1]));
    fails(weir_pool_destroy(w.pool), WEIR_ERR_BUSY);
    const struct registration r = registration_of(w.stream[0]);
    void *block = r.alloc(r.object, 1000);
    assert_non_null(block);
    r.free(r.object, block);
    ok(weir_acl_detach(attachment[0]));
    fails(weir_pool_destroy(w.pool), WEIR_ERR_BUSY);
    ok(weir_acl_detach(attachment[1]));
    end_world(&w);
}

TEST(test_stream_destroyed_first)
{
    struct world w = make_world();
    weir_acl_attachment *attachment = attach(w.pool, w.stream[0]);
    const struct registration r = registration_of(w.stream[0]);
    const aclrtStream gone = w.stream[0];
    void *held = r.alloc(r.object, 1000);
    void *freed = r.alloc(r.object, 2 * MIB);
    acl_ok(aclrtMemsetAsync(r.address(freed), 2 * MIB, 1, 2 * MIB, gone));
    r.free(r.object, freed);
    const uint64_t epoch = weir_acl_epoch();
    acl_ok(aclrtDestroyStream(gone));
    w.stream[0] = NULL;
    assert_true(weir_acl_epoch() != epoch);

    struct registration none;
    assert_false(read_registration(gone, &none));
    weir_acl_attachment_info info = attachment_info(attachment);
    assert_null(info.stream);
    assert_null(info.acl_stream);
    assert_int_equal(info.live_blocks, 1);
    assert_null(r.alloc(r.object, 1000));
    fails(weir_acl_detach(attachment), WEIR_ERR_BUSY);
    fails(weir_pool_destroy(w.pool), WEIR_ERR_BUSY);

    /* Memory that the dead stream freed serves every stream without a wait. */
    weir_pool_stats before = WEIR_POOL_STATS_INIT;
    weir_pool_stats after = WEIR_POOL_STATS_INIT;
    weir_stream *other = NULL;
    weir_block *block = NULL;
    ok(weir_acl_stream(w.pool, w.stream[1], &other));
    ok(weir_pool_get_stats(w.pool, &before));
    ok(weir_pool_alloc(w.pool, other, 2 * MIB, 0, &block));
    acl_ok(aclrtMemsetAsync((void *)(uintptr_t)weir_block_address(block), 2 * MIB, 2, 2 * MIB, w.stream[1]));
    ok(weir_pool_free(w.pool, block, other));
    ok(weir_pool_get_stats(w.pool, &after));
    assert_int_equal(after.waits, before.waits);
    assert_int_equal(after.syncs, before.syncs);
    assert_int_equal(after.region_allocs, before.region_allocs);

    r.free(r.object, held); /* the block still belongs to the attachment */
    assert_int_equal(live_of(attachment), 0);
    r.free(r.object, held);
    assert_int_equal(attachment_info(attachment).refused_frees, 1);
    ok(weir_acl_detach(attachment));
    ok(weir_stream_retire(w.pool, other));
    end_world(&w);
}

TEST(test_orphan_blocks_keep_their_uses)
{
    struct world w = make_world();
    weir_acl_attachment *attachment = attach(w.pool, w.stream[0]);
    const struct registration r = registration_of(w.stream[0]);
    weir_block *block = r.alloc(r.object, 8 * MIB);
    weir_stream *other = NULL;
    ok(weir_acl_stream(w.pool, w.stream[1], &other));
    ok(weir_pool_use(w.pool, block, other));
    acl_ok(aclrtMemsetAsync(r.address(block), 8 * MIB, 1, 8 * MIB, w.stream[1]));
    acl_ok(aclrtDestroyStream(w.stream[0]));
    acl_ok(aclrtCreateStream(&w.stream[0]));
    r.free(r.object, block); /* work of stream 1 still uses it */
    weir_stream *third = NULL;
    weir_block *next = NULL;
    ok(weir_acl_stream(w.pool, w.stream[0], &third));
    ok(weir_pool_alloc(w.pool, third, 8 * MIB, 0, &next));
    acl_ok(aclrtMemsetAsync((void *)(uintptr_t)weir_block_address(next), 8 * MIB, 2, 8 * MIB, w.stream[0]));
    ok(weir_pool_free(w.pool, next, third));
    ok(weir_acl_detach(attachment));
    ok(weir_stream_retire(w.pool, other));
    ok(weir_stream_retire(w.pool, third));
    end_world(&w);
}

TEST(test_stream_destroyed_by_force)
{
    struct world w = make_world();
    weir_acl_attachment *attachment = attach(w.pool, w.stream[0]);
    const struct registration r = registration_of(w.stream[0]);
    void *block = r.alloc(r.object, 4 * MIB);
    acl_ok(aclrtMemsetAsync(r.address(block), 4 * MIB, 1, 4 * MIB, w.stream[0]));
    r.free(r.object, block);
    acl_ok(aclrtDestroyStreamForce(w.stream[0]));
    w.stream[0] = NULL;
    ok(weir_acl_detach(attachment));
    end_world(&w);
}

/* A new stream gets the handle of the one that was destroyed last. */
__attribute__((constructor)) static void reuse_handles(void)
{
    (void)setenv("WEIR_ASCENDCL_HANDLE_REST", "0", 1);
}

TEST(test_a_handle_that_comes_again_is_a_new_stream)
{
    struct world w = make_world();
    weir_acl_attachment *old[64] = {NULL};
    bool came_again = false;
    for (int i = 0; i < 64; i++) {
        const aclrtStream before = w.stream[0];
        ok(weir_acl_attach(w.pool, w.stream[0], &old[i]));
        const struct registration r = registration_of(w.stream[0]);
        void *block = r.alloc(r.object, 3 * MIB);
        acl_ok(aclrtMemsetAsync(r.address(block), 3 * MIB, i, 3 * MIB, w.stream[0]));
        r.free(r.object, block);
        acl_ok(aclrtDestroyStream(w.stream[0]));
        acl_ok(aclrtCreateStream(&w.stream[0]));
        came_again |= w.stream[0] == before;
        assert_int_equal(attachment_info(old[i]).handle_reused, w.stream[0] == before);
        struct registration none;
        assert_false(read_registration(w.stream[0], &none));
        if (i % 2 == 0) { /* half of the attachments are detached only after later streams have had the same handle */
            ok(weir_acl_detach(old[i]));
        }
    }
    assert_true(came_again); /* otherwise this test proves nothing */
    weir_acl_attachment *last = attach(w.pool, w.stream[0]);
    for (int i = 1; i < 64; i += 2) {
        ok(weir_acl_detach(old[i]));
    }
    assert_ptr_equal(registration_of(w.stream[0]).object, last);
    assert_ptr_equal(attachment_info(last).acl_stream, w.stream[0]);
    ok(weir_acl_detach(last));
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(weir_pool_get_stats(w.pool, &stats));
    assert_true(stats.streams <= 2);
    end_world(&w);
}

static void *foreign_alloc(aclrtAllocator allocator, size_t size)
{
    (void)allocator, (void)size;
    return NULL;
}

static void foreign_free(aclrtAllocator allocator, aclrtAllocatorBlock block)
{
    (void)allocator, (void)block;
}

static void *foreign_address(aclrtAllocatorBlock block)
{
    return block;
}

static void register_foreign(aclrtStream stream, void *object)
{
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
    assert_non_null(desc);
    acl_ok(aclrtAllocatorSetObjToDesc(desc, object));
    acl_ok(aclrtAllocatorSetAllocFuncToDesc(desc, foreign_alloc));
    acl_ok(aclrtAllocatorSetFreeFuncToDesc(desc, foreign_free));
    acl_ok(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, foreign_address));
    acl_ok(aclrtAllocatorRegister(stream, desc));
    acl_ok(aclrtAllocatorDestroyDesc(desc));
}

TEST(test_a_foreign_registration_is_left_alone)
{
    struct world w = make_world();
    int object = 0;
    weir_acl_attachment *attachment = NULL;
    register_foreign(w.stream[0], &object);
    fails(weir_acl_attach(w.pool, w.stream[0], &attachment), WEIR_ERR_BUSY);
    assert_ptr_equal(registration_of(w.stream[0]).object, &object);
    acl_ok(aclrtAllocatorUnregister(w.stream[0]));

    /* the program registers another allocator in place of weir's */
    ok(weir_acl_attach(w.pool, w.stream[0], &attachment));
    register_foreign(w.stream[0], &object);
    ok(weir_acl_detach(attachment));
    assert_ptr_equal(registration_of(w.stream[0]).object, &object);
    acl_ok(aclrtAllocatorUnregister(w.stream[0]));

    ok(weir_acl_attach(w.pool, w.stream[0], &attachment)); /* weir's registration is removed */
    acl_ok(aclrtAllocatorUnregister(w.stream[0]));
    ok(weir_acl_detach(attachment));

    /* the stream is destroyed while another allocator is registered */
    ok(weir_acl_attach(w.pool, w.stream[0], &attachment));
    register_foreign(w.stream[0], &object);
    const aclrtStream gone = w.stream[0];
    acl_ok(aclrtDestroyStream(gone));
    w.stream[0] = NULL;
    struct registration r = {0};
    assert_true(!read_registration(gone, &r) || r.object == &object);
    acl_ok(aclrtAllocatorUnregister(gone));
    ok(weir_acl_detach(attachment));
    end_world(&w);
}

TEST(test_context_destroyed_first)
{
    struct world w = make_world();
    aclrtContext own = NULL;
    aclrtContext home = NULL;
    acl_ok(aclrtGetCurrentContext(&home));
    acl_ok(aclrtCreateContext(&own, 0));
    aclrtStream stream = NULL;
    aclrtStream standard = NULL;
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtCtxGetCurrentDefaultStream(&standard));
    weir_acl_attachment *attachment[2] = {NULL, NULL};
    ok(weir_acl_attach(w.pool, stream, &attachment[0]));
    ok(weir_acl_attach(w.pool, standard, &attachment[1]));
    void *held[2];
    struct registration r[2];
    for (int i = 0; i < 2; i++) {
        const aclrtStream on = i == 0 ? stream : standard;
        r[i] = registration_of(on);
        held[i] = r[i].alloc(r[i].object, 1 * MIB);
        assert_non_null(held[i]);
        acl_ok(aclrtMemsetAsync(r[i].address(held[i]), MIB, 1, MIB, on));
    }
    acl_ok(aclrtDestroyContext(own));
    acl_ok(aclrtSetCurrentContext(home));
    for (int i = 0; i < 2; i++) {
        assert_null(attachment_info(attachment[i]).stream);
        r[i].free(r[i].object, held[i]);
        ok(weir_acl_detach(attachment[i]));
    }
    end_world(&w);
}

/* The runtime takes all memory away. weir notices it, reports it, and touches no memory that is gone. */
TEST(test_device_reset_by_force_first)
{
    struct world w = make_world();
    weir_acl_attachment *attachment[2] = {NULL, NULL};
    struct registration r[2];
    void *held[2];
    for (int i = 0; i < 2; i++) {
        ok(weir_acl_attach(w.pool, w.stream[i], &attachment[i]));
        r[i] = registration_of(w.stream[i]);
        held[i] = r[i].alloc(r[i].object, 3 * MIB);
        acl_ok(aclrtMemsetAsync(r[i].address(held[i]), 3 * MIB, 1, 3 * MIB, w.stream[i]));
    }
    acl_ok(aclrtResetDeviceForce(0));
    struct registration none;
    for (int i = 0; i < 2; i++) {
        assert_false(read_registration(w.stream[i], &none));
        assert_null(r[i].alloc(r[i].object, 1000));
        r[i].free(r[i].object, held[i]);
        assert_int_equal(live_of(attachment[i]), 0);
        ok(weir_acl_detach(attachment[i]));
    }
    ok(weir_pool_destroy(w.pool));
    assert_int_equal(weir_device_destroy(w.device), WEIR_OK);
    assert_int_not_equal(aclrtResetDevice(0), ACL_SUCCESS); /* the device is set nowhere */
}

/* weir does not free memory that the runtime has taken back, because the memory and the device have a new owner by
 * then. */
TEST(test_device_reset_and_set_again)
{
    struct world w = make_world();
    weir_stream *stream = NULL;
    weir_block *block = NULL;
    ok(weir_pool_stream(w.pool, NULL, &stream));
    ok(weir_pool_alloc(w.pool, stream, 4 * MIB, 0, &block));
    assert_false(weir_acl_device_lost(w.device));
    const uint64_t epoch = weir_acl_epoch();
    acl_ok(aclrtResetDeviceForce(0));
    assert_true(weir_acl_device_lost(w.device));
    assert_int_not_equal(weir_acl_epoch(), epoch);

    acl_ok(aclrtSetDevice(0));
    weir_device *again = NULL;
    ok(weir_acl_device_create(NULL, &again));
    assert_false(weir_acl_device_lost(again));
    const size_t all = free_bytes();
    void *memory = NULL;
    /* covers the addresses that the pool had */
    acl_ok(aclrtMallocAlign32(&memory, 200 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    uint64_t none = 0;
    fails(weir_device_region_alloc(w.device, 2 * MIB, &none), WEIR_ERR_DEVICE);
    ok(weir_pool_free(w.pool, block, stream));
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL));
    ok(weir_pool_destroy(w.pool));
    assert_int_equal(weir_device_destroy(w.device), WEIR_OK);
    acl_ok(aclrtMemset(memory, 200 * MIB, 7, 200 * MIB));
    acl_ok(aclrtFree(memory));
    assert_int_equal(free_bytes(), all);
    assert_int_equal(weir_device_destroy(again), WEIR_OK);
    acl_ok(aclrtResetDevice(0));
}

TEST(test_followers)
{
    struct world w = make_world();
    weir_pool *other = make_pool(w.device);
    weir_acl_attachment *allocator = NULL;
    weir_acl_attachment *follower = NULL;
    weir_acl_attachment *again = NULL;
    ok(weir_acl_attach(w.pool, w.stream[0], &allocator));
    ok(weir_acl_follow(other, w.stream[0], &follower));
    fails(weir_acl_follow(other, w.stream[0], &again), WEIR_ERR_BUSY);
    assert_ptr_equal(registration_of(w.stream[0]).object, allocator);
    weir_stream *stream = attachment_info(follower).stream;
    weir_block *block = NULL;
    ok(weir_pool_alloc(other, stream, MIB, 0, &block));
    acl_ok(aclrtMemsetAsync((void *)(uintptr_t)weir_block_address(block), MIB, 3, MIB, w.stream[0]));
    ok(weir_pool_free(other, block, stream));
    fails(weir_pool_destroy(other), WEIR_ERR_BUSY);
    acl_ok(aclrtDestroyStream(w.stream[0]));
    w.stream[0] = NULL;
    assert_null(attachment_info(follower).stream);
    assert_null(attachment_info(allocator).stream);
    ok(weir_acl_detach(follower));
    ok(weir_acl_detach(allocator));
    ok(weir_pool_destroy(other));
    end_world(&w);
}

TEST(test_two_devices)
{
    struct world w = make_world();
    weir_acl_device_config config = WEIR_ACL_DEVICE_CONFIG_INIT;
    config.device_id = 1;
    weir_device *device = NULL;
    ok(weir_acl_device_create(&config, &device));
    weir_pool *pool = make_pool(device);
    aclrtContext home = NULL;
    acl_ok(aclrtGetCurrentContext(&home));
    acl_ok(aclrtSetDevice(1));
    aclrtStream stream = new_stream();
    weir_acl_attachment *attachment[2] = {NULL, NULL};
    ok(weir_acl_attach(pool, stream, &attachment[1]));
    acl_ok(aclrtSetCurrentContext(home));
    ok(weir_acl_attach(w.pool, w.stream[0], &attachment[0]));

    const size_t left_on_0 = free_bytes();
    const struct registration r = registration_of(stream);
    void *block = r.alloc(r.object, 40 * MIB); /* device 0 is current */
    assert_non_null(block);
    assert_int_equal(free_bytes(), left_on_0);
    aclrtContext now = NULL;
    acl_ok(aclrtGetCurrentContext(&now));
    assert_ptr_equal(now, home);
    r.free(r.object, block);
    ok(weir_acl_detach(attachment[1])); /* device 0 is still current */
    acl_ok(aclrtGetCurrentContext(&now));
    assert_ptr_equal(now, home);
    ok(weir_acl_detach(attachment[0]));
    ok(weir_pool_destroy(pool));
    acl_ok(aclrtSetDevice(1));
    acl_ok(aclrtDestroyStream(stream));
    acl_ok(aclrtSetCurrentContext(home));
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
    acl_ok(aclrtResetDevice(1));
    acl_ok(aclrtResetDevice(1));
    acl_ok(aclrtSetCurrentContext(home));
    end_world(&w);
}

/* A destroyed stream is not registered: no call could wait for its work, so the pool could never be destroyed. */
TEST(test_a_stream_that_is_gone_is_refused)
{
    struct world w = make_world();
    weir_acl_attachment *attachment = NULL;
    aclrtStream gone = new_stream();
    acl_ok(aclrtDestroyStream(gone));
    assert_int_equal(weir_acl_attach(w.pool, gone, &attachment), WEIR_ERR_DEVICE);
    assert_int_equal(weir_acl_follow(w.pool, gone, &attachment), WEIR_ERR_DEVICE);
    assert_null(attachment);
    struct registration r = {0};
    assert_false(read_registration(gone, &r));
    end_world(&w); /* the pool can be destroyed */
}
