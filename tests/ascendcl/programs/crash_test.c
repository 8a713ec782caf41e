/* crash_test.c: a program passes a bad pointer to an ACL call, and its own signal handler jumps out of the call. The
 * program still ends normally. */
#include "rig/acl.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf back;

static void jump(int signal)
{
    siglongjmp(back, signal);
}

/* The copy holds the runtime's lock when it reads the bad pointer. */
static void child(void)
{
    char byte = 0;
    (void)signal(SIGSEGV, jump);
    (void)signal(SIGBUS, jump);
    (void)alarm(20);
    if (aclrtSetDevice(0) != ACL_SUCCESS) {
        exit(1);
    }
    if (sigsetjmp(back, 1) == 0) {
        (void)aclrtMemcpy((void *)(uintptr_t)4096, 1, &byte, 1, ACL_MEMCPY_HOST_TO_HOST);
        exit(2);
    }
    exit(0);
}

TEST(the_process_ends_normally)
{
    int status = 0;
    const pid_t process = fork();
    if (process == 0) {
        child();
    }
    assert_true(process > 0);
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}
