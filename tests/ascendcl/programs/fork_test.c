/* fork_test.c: a child of fork has a working runtime, even if the parent's threads were inside the runtime. If the
 * child does not use the runtime, its end prints nothing. */
#include "rig/acl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* The thread sanitizer cannot follow a forked child that starts threads if the parent has threads. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NO_THREAD_IN_CHILD 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define NO_THREAD_IN_CHILD 1
#endif
#if defined(NO_THREAD_IN_CHILD)
enum { HAS_THREAD = 0 };
#else
enum { HAS_THREAD = 1 };
#endif

/* The allocator of gcc's address sanitizer may be locked in a child if another thread of the parent was allocating. */
#if defined(__SANITIZE_ADDRESS__)
enum { HAS_NEIGHBOUR = 0 };
#else
enum { HAS_NEIGHBOUR = 1 };
#endif

enum { CHILDREN = HAS_THREAD ? 20 : 5 }; /* few children under the thread sanitizer: each takes a second to end */

static char report[] = "/tmp/weir-fork-XXXXXX";
static atomic_bool stop;
static aclrtStream stream;

static void nothing(void *unused)
{
    (void)unused;
}

/* Holds the runtime's lock most of the time. */
static void *allocates(void *unused)
{
    (void)unused;
    bool good = aclrtSetDevice(0) == ACL_SUCCESS;
    while (good && HAS_NEIGHBOUR && !atomic_load(&stop)) {
        void *memory = NULL;
        good = aclrtMalloc(&memory, 100, ACL_MEM_MALLOC_NORMAL_ONLY) == ACL_SUCCESS && aclrtFree(memory) == ACL_SUCCESS;
    }
    return good ? NULL : &stream;
}

static bool works(void)
{
    void *memory = NULL;
    return aclrtMalloc(&memory, 100, ACL_MEM_MALLOC_NORMAL_ONLY) == ACL_SUCCESS &&
           (HAS_THREAD == 0 || aclrtLaunchHostFunc(stream, nothing, NULL) == ACL_SUCCESS) &&
           aclrtSynchronizeStream(stream) == ACL_SUCCESS && aclrtFree(memory) == ACL_SUCCESS;
}

/* Runs in the child. Returns its exit status. */
static int child(bool uses)
{
    const pid_t process = fork();
    int status = 0;
    if (process == 0) {
        (void)alarm(20); /* ends the child if it hangs */
        exit(!uses || works() ? 0 : 1);
    }
    assert_true(process > 0);
    assert_int_equal(waitpid(process, &status, 0), process);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(a_child_may_call)
{
    pthread_t thread;
    void *result = NULL;
    assert_int_equal(pthread_create(&thread, NULL, allocates, NULL), 0);
    for (int i = 0; i < CHILDREN; i++) {
        assert_int_equal(child(true), 0);
    }
    atomic_store(&stop, true);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_null(result);
}

TEST(a_child_that_does_not_call_is_silent)
{
    assert_int_equal(truncate(report, 0), 0);
    assert_int_equal(child(false), 0);
    FILE *file = fopen(report, "r");
    assert_non_null(file);
    assert_int_equal(fgetc(file), EOF);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(child(true), 0);
    file = fopen(report, "r");
    assert_non_null(file);
    assert_int_not_equal(fgetc(file), EOF);
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **unused)
{
    (void)unused;
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtLaunchHostFunc(stream, nothing, NULL)); /* starts the runtime's own thread */
    acl_ok(aclrtSynchronizeStream(stream));
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    acl_ok(aclrtDestroyStream(stream));
    return unlink(report);
}

ALL_TESTS(set_up, tear_down)

int main(void)
{
    const int file = mkstemp(report);
    if (file < 0 || close(file) != 0) {
        return 1;
    }
    acl_environment("REPORT", report);
    acl_environment("CAPACITY", "1GiB"); /* small: the thread sanitizer leaves few addresses */
    return run_all_tests("tests");
}
