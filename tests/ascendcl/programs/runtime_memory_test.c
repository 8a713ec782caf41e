/* runtime_memory_test.c: the runtime has memory of its own on each device in use, so a program never finds all memory
 * of a device free. */
#include "rig/acl.h"

static uint64_t missing(void)
{
    size_t free_bytes = 0, total = 0;
    acl_ok(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    assert_int_equal(total, 64 * MIB);
    return total - free_bytes;
}

TEST(the_runtime_takes_memory_while_a_device_is_in_use)
{
    void *memory = NULL;
    for (int round = 0; round < 2; round++) {
        acl_ok(aclrtSetDevice(0));
        assert_int_equal(missing(), 26 * MIB);
        acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&memory, 40 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
        acl_ok(aclrtMalloc(&memory, 38 * MIB - 32, ACL_MEM_MALLOC_HUGE_FIRST));
        assert_int_equal(missing(), 64 * MIB);
        acl_ok(aclrtFree(memory));
        assert_int_equal(missing(), 26 * MIB);
        acl_ok(aclrtResetDevice(0));
    }
}

TEST(each_device_has_its_own_part)
{
    acl_ok(aclrtSetDevice(1));
    assert_int_equal(missing(), 26 * MIB);
    acl_ok(aclrtResetDevice(1));
}

int main(void)
{
    (void)unsetenv("WEIR_ASCENDCL_RUNTIME_MEMORY"); /* the rig sets it */
    acl_environment("CAPACITY", "64MiB");
    return run_all_tests("memory of the runtime");
}
