/* tests/host/unit/cgroup_test.c: memory limits of control groups, version 1 and 2, from files as the kernel writes
 * them. */
#define _XOPEN_SOURCE 700 /* nftw */
#include "rig/test.h"
#include "cgroup.h"
#include "tree.h"

#define MARGIN_OF_100 (100 * MIB / 64)

static void expect(uint64_t limit, uint64_t swap, uint64_t room)
{
    const weir__cgroup_memory found = weir__cgroup_read(root);
    assert_int_equal(found.limit_bytes, limit);
    assert_int_equal(found.swap_bytes, swap);
    assert_int_equal(found.room_bytes, room);
}

TEST(no_group_limits)
{
    expect(UINT64_MAX, UINT64_MAX, UINT64_MAX);
    put("/proc/self/cgroup", "0::/user.slice\n");
    expect(UINT64_MAX, UINT64_MAX, UINT64_MAX);
    put("/sys/fs/cgroup/user.slice/memory.max", "max\n");
    put("/sys/fs/cgroup/user.slice/memory.current", "1000\n");
    expect(UINT64_MAX, UINT64_MAX, UINT64_MAX);
}

/* The page cache counts as room. */
TEST(version_2)
{
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/memory.max", "104857600\n");
    put("/sys/fs/cgroup/a/b/memory.swap.max", "0\n");
    put("/sys/fs/cgroup/a/b/memory.current", "62914560\n");
    expect(100 * MIB, 0, 40 * MIB - MARGIN_OF_100);
    put("/sys/fs/cgroup/a/b/memory.stat",
        "anon 5\nfile 9\ninactive_anon 7\ninactive_file 10485760\nactive_file 5242880\n");
    expect(100 * MIB, 0, 55 * MIB - MARGIN_OF_100);
}

/* A group above may have less. */
TEST(groups_above_count)
{
    put("/proc/self/cgroup", "0::/x/y/z\n");
    put("/sys/fs/cgroup/x/y/z/memory.max", "104857600\n");
    put("/sys/fs/cgroup/x/y/z/memory.current", "0\n");
    put("/sys/fs/cgroup/x/y/memory.max", "max\n");
    put("/sys/fs/cgroup/x/memory.max", "52428800\n");
    put("/sys/fs/cgroup/x/memory.current", "41943040\n");
    expect(50 * MIB, UINT64_MAX, 9 * MIB);
    put("/sys/fs/cgroup/x/memory.current", "62914560\n"); /* a limit that was lowered */
    expect(50 * MIB, UINT64_MAX, 0);
}

/* In a container the group of /proc may not exist below the mount; the mount's top is the container's group. */
TEST(a_container)
{
    put("/proc/self/cgroup", "0::/docker/123\n");
    put("/sys/fs/cgroup/memory.max", "104857600\n");
    put("/sys/fs/cgroup/memory.current", "4096\n");
    expect(100 * MIB, UINT64_MAX, 100 * MIB - 4096 - MARGIN_OF_100);
}

TEST(version_1)
{
    put("/proc/self/cgroup", "5:cpu:/\n4:memory:/process/1\n0::/\n");
    put("/sys/fs/cgroup/memory/process/1/memory.limit_in_bytes", "104857600\n");
    put("/sys/fs/cgroup/memory/process/1/memory.memsw.limit_in_bytes", "157286400\n");
    put("/sys/fs/cgroup/memory/process/1/memory.usage_in_bytes", "94371840\n");
    put("/sys/fs/cgroup/memory/process/1/memory.stat", "inactive_file 1\ntotal_inactive_file 20971520\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", "9223372036854771712\n");
    expect(100 * MIB, 50 * MIB, 30 * MIB - MARGIN_OF_100);
}

TEST(damaged_files)
{
    put("/proc/self/cgroup", "0::\n");
    expect(UINT64_MAX, UINT64_MAX, UINT64_MAX);
    put("/proc/self/cgroup", "nonsense");
    expect(UINT64_MAX, UINT64_MAX, UINT64_MAX);
    put("/proc/self/cgroup", "0::/d"); /* no newline */
    put("/sys/fs/cgroup/d/memory.max", "104857600");
    put("/sys/fs/cgroup/d/memory.current", "");
    assert_int_equal(weir__cgroup_read(root).limit_bytes, 100 * MIB);
    put("/proc/self/cgroup", "0::/e");
    put("/sys/fs/cgroup/memory.max", "max"); /* the top, which another test has limited */
    put("/sys/fs/cgroup/e/memory.max", "1048576");
    put("/sys/fs/cgroup/e/memory.current", "0");
    expect(MIB, UINT64_MAX, 0); /* no more than the margin */
}

ALL_TESTS(new_root, remove_root)
