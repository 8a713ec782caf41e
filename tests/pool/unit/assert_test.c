/* assert_test.c: an assertion that fails names its place and its condition, and ends the program. Each assertion
 * fails in a child of its own. */
enum { A, streams };

#include "rig/pool.h"

#include "state/state.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs `act` in a child. `text` receives the child's stderr. Returns the signal that ended the child, or 0. */
static int ending(void (*act)(void *), void *ctx, char *text, size_t size)
{
    int pipe_ends[2];
    int status = 0;
    size_t length = 0;
    assert_int_equal(pipe(pipe_ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        (void)dup2(pipe_ends[1], STDERR_FILENO);
        act(ctx);
        _exit(0);
    }
    (void)close(pipe_ends[1]);
    for (ssize_t got; (got = read(pipe_ends[0], text + length, size - 1 - length)) > 0;) {
        length += (size_t)got;
    }
    text[length] = '\0';
    (void)close(pipe_ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static unsigned evaluated;

static bool is_zero(unsigned number)
{
    evaluated++;
    return number == 0;
}

static void break_cheap(void *ctx)
{
    WEIR_ASSERT(*(unsigned *)ctx == 7);
}

static void break_thorough(void *ctx)
{
    WEIR_ASSERT_THOROUGH(is_zero(*(unsigned *)ctx));
}

static void break_held(void *ctx)
{
    WEIR_ASSERT_HELD((pthread_mutex_t *)ctx);
}

TEST(test_a_failed_assertion_names_its_place_and_aborts)
{
    unsigned number = 3;
    char text[1024];
    char expected[128];
    if (WEIR_ASSERTIONS < 1) {
        skip();
    }
    assert_int_equal(ending(break_cheap, &number, text, sizeof(text)), SIGABRT);
    (void)snprintf(expected, sizeof(expected), ": break_cheap: assertion failed: *(unsigned *)ctx == 7\n");
    assert_non_null(strstr(text, expected));
    assert_non_null(strstr(text, "assert_test.c:"));
    assert_int_equal(strncmp(text, "weir: ", 6), 0);
    number = 7;
    assert_int_equal(ending(break_cheap, &number, text, sizeof(text)), 0);
    assert_string_equal(text, "");
}

TEST(test_a_tier_above_the_setting_is_not_evaluated)
{
    unsigned number = 3;
    char text[1024];
    const int expected = WEIR_ASSERTIONS >= 2 ? SIGABRT : 0;
    assert_int_equal(ending(break_thorough, &number, text, sizeof(text)), expected);
    evaluated = 0;
    WEIR_ASSERT_FULL(is_zero(0));
    assert_int_equal(evaluated, WEIR_ASSERTIONS >= 3);
}

TEST(test_a_mutex_that_no_thread_holds)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    char text[1024];
    const int expected = WEIR_ASSERTIONS >= 1 ? SIGABRT : 0;
    assert_int_equal(ending(break_held, &mutex, text, sizeof(text)), expected);
    assert_int_equal(pthread_mutex_lock(&mutex), 0);
    assert_int_equal(ending(break_held, &mutex, text, sizeof(text)), 0);
    assert_int_equal(pthread_mutex_unlock(&mutex), 0);
}

/* --- locks of a pool --- */

static void settle_without_lock(void *ctx)
{
    (void)weir__block_each_locked(ctx, NULL, NULL);
}

static void lock_twice(void *ctx)
{
    pool_lock(ctx);
    pool_lock(ctx);
}

static void lock_in_the_wrong_order(void *ctx)
{
    weir_stream *stream = ctx;
    pool_lock(stream->owner);
    stream_lock(stream);
}

static void unlock_without_lock(void *ctx)
{
    pool_unlock(ctx);
}

TEST(test_locks_are_proved)
{
    if (WEIR_ASSERTIONS < 1) {
        skip();
    }
    char text[1024];
    struct world w = world_over(new_sim(free_of_charge()), (weir_pool_config)WEIR_POOL_CONFIG_INIT);
    assert_int_equal(ending(settle_without_lock, w.pool, text, sizeof(text)), SIGABRT);
    assert_non_null(strstr(text, "weir__block_each_locked: assertion failed: pool_is_locked(pool)"));
    assert_int_equal(ending(lock_twice, w.pool, text, sizeof(text)), SIGABRT);
    assert_non_null(strstr(text, "pool_lock: assertion failed: outside_pool_lock(pool)"));
    assert_int_equal(ending(lock_in_the_wrong_order, w.stream[A], text, sizeof(text)), SIGABRT);
    assert_non_null(strstr(text, "stream_lock: assertion failed: outside_pool_lock(stream->owner)"));
    assert_int_equal(ending(unlock_without_lock, w.pool, text, sizeof(text)), SIGABRT);
    assert_non_null(strstr(text, "stream_lock_release: assertion failed: "));
    close_world(&w);
}
