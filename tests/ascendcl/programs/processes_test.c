/* processes_test.c: several processes on one machine: what one holds is missing in all, a process that dies returns it,
 * and memory that one exports has the same bytes where others import it. The test itself makes no call of ACL: a child
 * of fork has no part in a shared device of its parent.
 */
#include "rig/acl.h"
#include "rig/emulated.h"
#include "rig/process.h"
#include "rig/seeds.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { CAPACITY_MIB = 64, KEY_BYTES = 65 };

/* In memory that all processes of the test share. */
static struct {
    char key[KEY_BYTES];
    uint64_t handle;
    int32_t pid; /* that may import; 0: all */
} * board;

__attribute__((constructor)) static void share_the_devices(void)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "test-%ld", (long)getpid());
    acl_environment("SHARED", name);
    acl_environment("CAPACITY", "64MiB");
    acl_environment("REPORT", "none");
    acl_environment("EXIT_CODE", "9");
}

enum {
    LEFT = 1,
    MALLOC,
    FREE,
    READ,
    WRITE,
    EXPORT_KEY,
    IMPORT_KEY,
    CLOSE_KEY,
    EXPORT_HANDLE,
    IMPORT_HANDLE,
    FREE_HANDLE,
    WORK,
    FORK,
};

static const aclrtPhysicalMemProp on_device_0 = {.memAttr = ACL_HBM_MEM_HUGE,
                                                 .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};

/* The memory at `memory` of the process; `handle`: physical memory that is mapped there. */
static void *memory;
static aclrtDrvMemHandle handle;

static aclError map_handle(uint64_t bytes)
{
    aclError error = aclrtReserveMemAddress(&memory, bytes, 0, NULL, 0);
    return error == ACL_SUCCESS ? aclrtMapMem(memory, bytes, 0, handle, 0) : error;
}

static aclError export_handle(uint64_t bytes)
{
    aclError error = aclrtMallocPhysical(&handle, bytes, &on_device_0, 0);
    error = error == ACL_SUCCESS ? map_handle(bytes) : error;
    error = error == ACL_SUCCESS ? aclrtMemset(memory, bytes, 5, bytes) : error;
    error = error == ACL_SUCCESS
                ? aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, board->pid == 0, &board->handle)
                : error;
    return error == ACL_SUCCESS && board->pid != 0 ? aclrtMemSetPidToShareableHandle(board->handle, &board->pid, 1)
                                                   : error;
}

static aclError free_handle(void)
{
    aclError error = aclrtUnmapMem(memory);
    error = error == ACL_SUCCESS ? aclrtReleaseMemAddress(memory) : error;
    return error == ACL_SUCCESS ? aclrtFreePhysical(handle) : error;
}

/* Takes and gives memory, exports it, and imports what others export, until the process is killed. */
static void work(void)
{
    for (uint32_t random = (uint32_t)getpid();;) {
        void *p = NULL;
        void *q = NULL;
        char key[KEY_BYTES] = "";
        random = random * 1664525 + 1013904223;
        if (aclrtMalloc(&p, (1 + (random >> 24) % 8) * MIB, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) {
            continue;
        }
        memcpy(key, board->key, KEY_BYTES - 1);
        const bool imports = aclrtIpcMemImportByKey(&q, key, 0) == ACL_SUCCESS;
        if ((random >> 20 & 1) != 0 && aclrtIpcMemGetExportKey(p, MIB, key, KEY_BYTES, 1) == ACL_SUCCESS) {
            memcpy(board->key, key, KEY_BYTES);
            (void)aclrtIpcMemClose(key);
        } else if (imports) {
            (void)aclrtIpcMemClose(key);
        }
        (void)aclrtFree(p);
    }
}

/* The calls of a child of fork must fail. */
static int call_in_child(void)
{
    const pid_t child = fork();
    if (child == 0) {
        void *p = NULL;
        _exit(aclrtMalloc(&p, MIB, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_ERROR_INTERNAL_ERROR ? 0 : 1);
    }
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child ? status : 1;
}

static struct answer serve(struct command command)
{
    static bool is_set;
    struct answer answer = {.status = ACL_SUCCESS};
    size_t total = 0;
    size_t left_bytes = 0;
    unsigned char byte = 0;
    (void)alarm(120);
    if (!is_set) {
        answer.status = aclrtSetDevice(0);
        is_set = true;
    }
    if (answer.status != ACL_SUCCESS) {
        return answer;
    }
    switch (command.what) {
    case LEFT:
        answer.status = aclrtGetMemInfo(ACL_HBM_MEM, &left_bytes, &total);
        answer.value = left_bytes;
        answer.other = total;
        break;
    case MALLOC:
        answer.status = aclrtMalloc(&memory, command.bytes, ACL_MEM_MALLOC_HUGE_FIRST);
        break;
    case FREE:
        answer.status = aclrtFree(memory);
        break;
    case READ:
        answer.status = aclrtMemcpy(&byte, 1, (char *)memory + command.bytes, 1, ACL_MEMCPY_DEVICE_TO_HOST);
        answer.value = byte;
        break;
    case WRITE:
        answer.status = aclrtMemset(memory, MIB, (int32_t)command.bytes, MIB);
        break;
    case EXPORT_KEY:
        answer.status =
            aclrtIpcMemGetExportKey((char *)memory + command.bytes, MIB, board->key, KEY_BYTES, board->pid == 0);
        if (answer.status == ACL_SUCCESS && board->pid != 0) {
            answer.status = aclrtIpcMemSetImportPid(board->key, &board->pid, 1);
        }
        break;
    case IMPORT_KEY:
        answer.status = aclrtIpcMemImportByKey(&memory, board->key, 0);
        break;
    case CLOSE_KEY:
        answer.status = aclrtIpcMemClose(board->key);
        break;
    case EXPORT_HANDLE:
        answer.status = export_handle(command.bytes);
        break;
    case IMPORT_HANDLE:
        answer.status = aclrtMemImportFromShareableHandle(board->handle, 0, &handle);
        answer.status = answer.status == ACL_SUCCESS ? map_handle(command.bytes) : answer.status;
        break;
    case FREE_HANDLE:
        answer.status = free_handle();
        break;
    case FORK:
        answer.status = call_in_child();
        break;
    default:
        work();
    }
    return answer;
}

static uint64_t ok_from(const struct process *process, int what, uint64_t bytes)
{
    const struct answer answer = process_ask(process, what, bytes);
    assert_int_equal(answer.status, ACL_SUCCESS);
    return answer.value;
}

static aclError status_from(const struct process *process, int what, uint64_t bytes)
{
    return process_ask(process, what, bytes).status;
}

static int make_board(void **unused)
{
    (void)unused;
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return board == MAP_FAILED;
}

static int clear_board(void **unused)
{
    (void)unused;
    memset(board, 0, sizeof(*board));
    return 0;
}

/* --- tests --- */

TEST(what_one_process_holds_is_missing_in_all)
{
    struct process a = process_start(serve);
    struct process b = process_start(serve);
    assert_int_equal(ok_from(&a, LEFT, 0), CAPACITY_MIB * MIB);
    ok_from(&a, MALLOC, 40 * MIB - 64);
    assert_int_equal(ok_from(&b, LEFT, 0), 24 * MIB);
    assert_int_equal(process_ask(&b, LEFT, 0).other, CAPACITY_MIB * MIB);
    assert_int_equal(status_from(&b, MALLOC, 30 * MIB), ACL_ERROR_RT_MEMORY_ALLOCATION);
    ok_from(&b, MALLOC, 24 * MIB - 64);
    assert_int_equal(ok_from(&a, LEFT, 0), 0);
    ok_from(&b, FREE, 0);
    assert_int_equal(ok_from(&a, LEFT, 0), 24 * MIB);
    process_kill(&a);
    assert_int_equal(ok_from(&b, LEFT, 0), CAPACITY_MIB * MIB);
    ok_from(&b, MALLOC, 60 * MIB);
    process_kill(&b);
}

/* A process that ends in order returns what it has left behind, too. */
TEST(a_process_that_exits_returns_its_memory)
{
    struct process b = process_start(serve);
    struct process a = process_start(serve);
    ok_from(&b, LEFT, 0);
    ok_from(&a, MALLOC, 40 * MIB - 64);
    process_close(&a);
    assert_int_equal(ok_from(&b, LEFT, 0), CAPACITY_MIB * MIB);
    process_kill(&b);
}

TEST(a_key_opens_memory_of_another_process)
{
    struct process a = process_start(serve);
    struct process b = process_start(serve);
    struct process c = process_start(serve);
    board->pid = b.id;
    ok_from(&a, MALLOC, 4 * MIB - 64);
    ok_from(&a, WRITE, 3);
    ok_from(&a, EXPORT_KEY, 0);
    assert_int_equal(status_from(&c, IMPORT_KEY, 0), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    ok_from(&b, IMPORT_KEY, 0);
    assert_int_equal(ok_from(&c, LEFT, 0), (CAPACITY_MIB - 4) * MIB);
    assert_int_equal(ok_from(&b, READ, 100), 3);
    ok_from(&b, WRITE, 8);
    assert_int_equal(ok_from(&a, READ, 100), 8);
    ok_from(&a, FREE, 0);
    assert_int_equal(ok_from(&c, LEFT, 0), (CAPACITY_MIB - 4) * MIB);
    assert_int_equal(ok_from(&b, READ, 100), 8);
    ok_from(&b, CLOSE_KEY, 0);
    assert_int_equal(ok_from(&c, LEFT, 0), CAPACITY_MIB * MIB);
    assert_int_equal(status_from(&b, CLOSE_KEY, 0), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    process_kill(&a);
    process_kill(&b);
    process_kill(&c);
}

/* The key of a part leads to that part. */
TEST(a_part_is_exported)
{
    struct process a = process_start(serve);
    struct process b = process_start(serve);
    ok_from(&a, MALLOC, 6 * MIB);
    ok_from(&a, WRITE, 3); /* the first MiB */
    ok_from(&a, EXPORT_KEY, 2 * MIB);
    ok_from(&b, IMPORT_KEY, 0);
    ok_from(&b, WRITE, 9);
    assert_int_equal(ok_from(&a, READ, 0), 3);
    assert_int_equal(ok_from(&a, READ, 2 * MIB), 9);
    ok_from(&b, CLOSE_KEY, 0);
    ok_from(&a, CLOSE_KEY, 0);
    ok_from(&a, FREE, 0);
    assert_int_equal(ok_from(&b, LEFT, 0), CAPACITY_MIB * MIB);
    process_kill(&a);
    process_kill(&b);
}

TEST(physical_memory_of_another_process_is_mapped)
{
    struct process a = process_start(serve);
    struct process b = process_start(serve);
    struct process c = process_start(serve);
    board->pid = b.id;
    ok_from(&a, EXPORT_HANDLE, 4 * MIB);
    assert_int_equal(status_from(&a, IMPORT_HANDLE, 4 * MIB), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    assert_int_equal(status_from(&c, IMPORT_HANDLE, 4 * MIB), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    ok_from(&b, IMPORT_HANDLE, 4 * MIB);
    assert_int_equal(ok_from(&b, READ, 4 * MIB - 1), 5);
    ok_from(&b, WRITE, 6);
    assert_int_equal(ok_from(&a, READ, 0), 6);
    assert_int_equal(ok_from(&c, LEFT, 0), (CAPACITY_MIB - 4) * MIB);
    ok_from(&a, FREE_HANDLE, 0);
    assert_int_equal(ok_from(&c, LEFT, 0), (CAPACITY_MIB - 4) * MIB);
    assert_int_equal(ok_from(&b, READ, 0), 6);
    ok_from(&b, FREE_HANDLE, 0);
    assert_int_equal(ok_from(&c, LEFT, 0), CAPACITY_MIB * MIB);
    process_kill(&a);
    process_kill(&b);
    process_kill(&c);
}

TEST(an_import_outlives_a_killed_exporter)
{
    struct process a = process_start(serve);
    struct process b = process_start(serve);
    ok_from(&a, EXPORT_HANDLE, 4 * MIB);
    ok_from(&b, IMPORT_HANDLE, 4 * MIB);
    process_kill(&a);
    assert_int_equal(ok_from(&b, READ, MIB), 5);
    assert_int_equal(ok_from(&b, LEFT, 0), (CAPACITY_MIB - 4) * MIB);
    ok_from(&b, FREE_HANDLE, 0);
    assert_int_equal(ok_from(&b, LEFT, 0), CAPACITY_MIB * MIB);
    assert_int_equal(status_from(&b, IMPORT_HANDLE, 4 * MIB), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    process_kill(&b);
}

/* Exported memory leaves the driver's cache: the driver keeps its own pages as if the memory were freed. Memory that
 * the driver would not keep needs no second room. */
TEST(exported_memory_leaves_the_drivers_cache)
{
    acl_environment("DRIVER_CACHE", "1");
    struct process a = process_start(serve);
    struct process b = process_start(serve);
    ok_from(&a, MALLOC, 4 * MIB - 64);
    assert_int_equal(ok_from(&b, LEFT, 0), (CAPACITY_MIB - 4) * MIB);
    ok_from(&a, EXPORT_KEY, 0);
    assert_int_equal(ok_from(&b, LEFT, 0), (CAPACITY_MIB - 8) * MIB);
    ok_from(&b, IMPORT_KEY, 0);
    ok_from(&a, FREE, 0);
    assert_int_equal(ok_from(&b, LEFT, 0), (CAPACITY_MIB - 8) * MIB);
    ok_from(&b, CLOSE_KEY, 0);
    assert_int_equal(ok_from(&b, LEFT, 0), (CAPACITY_MIB - 4) * MIB);
    ok_from(&a, MALLOC, 4 * MIB - 64);
    assert_int_equal(ok_from(&b, LEFT, 0), (CAPACITY_MIB - 4) * MIB);
    ok_from(&a, FREE, 0);
    ok_from(&a, MALLOC, 40 * MIB - 64);
    ok_from(&a, EXPORT_KEY, 0);
    assert_int_equal(ok_from(&b, LEFT, 0), (CAPACITY_MIB - 44) * MIB);
    ok_from(&a, FREE, 0);
    assert_int_equal(ok_from(&b, LEFT, 0), (CAPACITY_MIB - 4) * MIB);
    process_kill(&a);
    assert_int_equal(ok_from(&b, LEFT, 0), CAPACITY_MIB * MIB);
    process_kill(&b);
    acl_environment("DRIVER_CACHE", "0");
}

/* The runtime's own memory of a device in use is that of each process. */
TEST(a_full_device_cannot_be_set)
{
    acl_environment("RUNTIME_MEMORY", "26MiB");
    struct process a = process_start(serve);
    struct process b = process_start(serve);
    struct process c = process_start(serve);
    assert_int_equal(ok_from(&a, LEFT, 0), (CAPACITY_MIB - 26) * MIB);
    assert_int_equal(ok_from(&b, LEFT, 0), (CAPACITY_MIB - 52) * MIB);
    assert_int_equal(status_from(&c, LEFT, 0), ACL_ERROR_RT_MEMORY_ALLOCATION);
    process_kill(&b);
    assert_int_equal(ok_from(&a, LEFT, 0), (CAPACITY_MIB - 26) * MIB);
    process_kill(&a);
    process_kill(&c);
    acl_environment("RUNTIME_MEMORY", "0");
}

TEST(a_child_of_fork_has_no_part)
{
    struct process a = process_start(serve);
    ok_from(&a, MALLOC, 4 * MIB);
    ok_from(&a, FORK, 0);
    assert_int_equal(ok_from(&a, LEFT, 0), (CAPACITY_MIB - 6) * MIB);
    process_kill(&a);
}

TEST(the_device_is_whole_after_kills)
{
    enum { AT_ONCE = 3 };
    if (is_emulated()) {
        skip(); /* QEMU has no robust locks */
    }
    const uint64_t kills = seeds_count(12, 100);
    struct process watcher = process_start(serve);
    struct process others[AT_ONCE];
    ok_from(&watcher, LEFT, 0);
    for (size_t i = 0; i < AT_ONCE; i++) {
        others[i] = process_start(serve);
        process_order(&others[i], WORK, 0);
    }
    for (uint64_t i = 0; i < kills; i++) {
        process_wait_us(2000 + 1700 * (long)(i % 5));
        process_kill(&others[i % AT_ONCE]);
        ok_from(&watcher, LEFT, 0);
        others[i % AT_ONCE] = process_start(serve);
        process_order(&others[i % AT_ONCE], WORK, 0);
    }
    for (size_t i = 0; i < AT_ONCE; i++) {
        process_kill(&others[i]);
    }
    assert_int_equal(ok_from(&watcher, LEFT, 0), CAPACITY_MIB * MIB);
    process_kill(&watcher);
}

EACH_TEST(clear_board, NULL)
ALL_TESTS(make_board, NULL)
