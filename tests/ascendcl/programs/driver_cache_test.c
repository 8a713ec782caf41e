/* driver_cache_test.c: memory that the driver keeps for the process after aclrtFree. */
#include "rig/acl.h"

static void *take(size_t bytes, aclrtMemMallocPolicy policy)
{
    void *memory = NULL;
    acl_ok(aclrtMallocAlign32(&memory, bytes, policy));
    return memory;
}

static void *take_huge(size_t bytes)
{
    return take(bytes, ACL_MEM_MALLOC_HUGE_ONLY);
}

static void take_all(void **pieces, size_t count, size_t bytes)
{
    for (size_t i = 0; i < count; i++) {
        pieces[i] = take_huge(bytes);
    }
}

static void free_all(void *const *pieces, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        acl_ok(aclrtFree(pieces[i]));
    }
}

EACH_TEST(use_device, reset_device)

/* A program that compares the free memory at its end with that of its beginning is wrong on a device. */
TEST(freed_memory_stays_with_the_process)
{
    const size_t before = left();
    void *memory = take_huge(36 * MIB);
    assert_int_equal(left(), before - 36 * MIB);
    acl_ok(aclrtFree(memory));
    assert_int_equal(left(), before - 36 * MIB);
    memory = take_huge(20 * MIB); /* a part of the kept memory */
    void *more = take_huge(16 * MIB);
    assert_int_equal(left(), before - 36 * MIB);
    acl_ok(aclrtFree(memory));
    acl_ok(aclrtFree(more));
    assert_int_equal(left(), before - 36 * MIB);
    acl_ok(aclrtResetDevice(0));
    acl_ok(aclrtSetDevice(0));
    assert_int_equal(left(), before);
}

TEST(large_pieces_go_back_at_once)
{
    const size_t before = left();
    acl_ok(aclrtFree(take_huge(38 * MIB)));
    acl_ok(aclrtFree(take_huge(600 * MIB)));
    acl_ok(aclrtFree(take(20 * MIB, ACL_MEM_MALLOC_NORMAL_ONLY)));
    assert_int_equal(left(), before);
}

/* Normal pages are mapped by 2 MiB too; further small pieces come out of the rest. */
TEST(small_pieces_share_a_mapping)
{
    void *pieces[512];
    const size_t before = left();
    for (size_t i = 0; i < 512; i++) {
        pieces[i] = take(4096, ACL_MEM_MALLOC_NORMAL_ONLY);
        assert_int_equal(left(), before - 2 * MIB);
    }
    void *next = take(4096, ACL_MEM_MALLOC_NORMAL_ONLY);
    assert_int_equal(left(), before - 4 * MIB);
    acl_ok(aclrtFree(next));
    void *whole = take(2 * MIB - 4096, ACL_MEM_MALLOC_NORMAL_ONLY);
    next = take(4096, ACL_MEM_MALLOC_NORMAL_ONLY);
    assert_int_equal(left(), before - 4 * MIB);
    acl_ok(aclrtFree(whole));
    acl_ok(aclrtFree(next));
    free_all(pieces, 512);
    assert_int_equal(left(), before - 4 * MIB);
}

/* At least a fifth of a mapping has to be left for the driver to keep it. */
TEST(a_small_rest_of_a_mapping_belongs_to_the_piece)
{
    const size_t before = left();
    void *most = take(7 * MIB / 4, ACL_MEM_MALLOC_NORMAL_ONLY);
    void *other = take(MIB / 4, ACL_MEM_MALLOC_NORMAL_ONLY);
    assert_int_equal(left(), before - 4 * MIB);
    void *rest = take(7 * MIB / 4, ACL_MEM_MALLOC_NORMAL_ONLY); /* the rest of the second mapping */
    assert_int_equal(left(), before - 4 * MIB);
    void *less = take(3 * MIB / 2, ACL_MEM_MALLOC_NORMAL_ONLY);
    void *quarter = take(MIB / 2, ACL_MEM_MALLOC_NORMAL_ONLY);
    assert_int_equal(left(), before - 6 * MIB);
    acl_ok(aclrtFree(most));
    acl_ok(aclrtFree(other));
    acl_ok(aclrtFree(rest));
    acl_ok(aclrtFree(less));
    acl_ok(aclrtFree(quarter));
}

/* With nothing in use a heap keeps less than twice its 36 MiB, and then goes down to 36 MiB. */
TEST(much_idle_memory_goes_back)
{
    void *pieces[36];
    const size_t before = left();
    take_all(pieces, 36, 2 * MIB);
    free_all(pieces, 35);
    assert_int_equal(left(), before - 72 * MIB);
    acl_ok(aclrtFree(pieces[35]));
    assert_int_equal(left(), before - 38 * MIB);
}

/* The memory of many small pieces that were in use stays, although most of them were freed. */
TEST(a_heap_in_use_keeps_more)
{
    void *pieces[64];
    const size_t before = left();
    take_all(pieces, 64, 8 * MIB);
    free_all(pieces, 32);
    assert_int_equal(left(), before - 512 * MIB);
    free_all(pieces + 32, 32);
    assert_true(before - left() < 72 * MIB);
}

/* The driver does not give kept memory back for a request that the device has no memory for. A mapping does not get it
 * either. */
TEST(kept_memory_is_not_for_other_requests)
{
    void *memory = NULL;
    acl_ok(aclrtFree(take_huge(36 * MIB)));
    const size_t now = left();
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocAlign32(&memory, now + 2 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    void *rest = take_huge(now);
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocAlign32(&memory, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocAlign32(&memory, 2 * MIB, ACL_MEM_MALLOC_HUGE_ONLY_P2P));
    const aclrtPhysicalMemProp prop = {.handleType = ACL_MEM_HANDLE_TYPE_NONE,
                                       .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                                       .memAttr = ACL_HBM_MEM_HUGE,
                                       .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtDrvMemHandle handle = NULL;
    assert_int_not_equal(aclrtMallocPhysical(&handle, 2 * MIB, &prop, 0), ACL_SUCCESS);
    acl_ok(aclrtFree(take_huge(36 * MIB)));
    acl_ok(aclrtFree(rest));
}

/* An allocation above 512 MiB counts as a heap; with two of them the driver keeps no heap that is not in use. */
TEST(a_second_heap_ends_idle_ones)
{
    const size_t before = left();
    void *small = take_huge(36 * MIB);
    void *large = take_huge(514 * MIB);
    acl_ok(aclrtFree(small));
    assert_int_equal(left(), before - 514 * MIB);
    acl_ok(aclrtFree(large));
    assert_int_equal(left(), before);
}

/* Kept memory that shares a mapping with memory in use is not returned by the reset. */
TEST(a_reset_returns_whole_mappings)
{
    const size_t before = left();
    void *first = take_huge(10 * MIB);
    acl_ok(aclrtFree(first));
    first = take_huge(4 * MIB); /* of the mapping of 10 MiB */
    acl_ok(aclrtFree(take_huge(8 * MIB)));
    assert_int_equal(left(), before - 18 * MIB);
    acl_ok(aclrtResetDevice(0));
    acl_ok(aclrtSetDevice(0));
    assert_int_equal(left(), before - 10 * MIB);
    acl_ok(aclrtFree(first));
    acl_ok(aclrtResetDeviceForce(0));
    acl_ok(aclrtSetDevice(0));
    assert_int_equal(left(), before);
}

int main(void)
{
    acl_environment("CAPACITY", "1GiB");
    acl_environment("DRIVER_CACHE", "1"); /* the default, which the rig turns off */
    return run_all_tests("memory that the driver keeps");
}
