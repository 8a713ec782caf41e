/* tests/pool/unit/record_file_test.c: recorders that write to a file: no event is lost for lack of space, a full disk
 * is reported, a child of fork writes nothing, and the file is a trace that the reader accepts. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RLIMIT_FSIZE's signal, mkdtemp */
#endif

#include "rig/test.h"
#include "fake_device.h"
#include "shared/recorder.h"

#include <weir/caching.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[] = "/tmp/weir_record_XXXXXX";
static char path[sizeof(folder) + 32];

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%s/run.wtr", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static char *read_file(const char *name)
{
    FILE *file = fopen(name, "r");
    struct stat facts;
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &facts), 0);
    char *text = calloc(1, (size_t)facts.st_size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)facts.st_size, file), (size_t)facts.st_size);
    (void)fclose(file);
    return text;
}

/* Does not use strchr: the address sanitizer's version reads the whole rest of the text. */
static size_t count_lines(const char *text, char kind)
{
    size_t count = 0;
    char before = '\n';
    for (const char *c = text; *c != '\0'; before = *c++) {
        count += before == '\n' && *c == kind;
    }
    return count;
}

static void note(weir_recorder *recorder, weir_trace_kind kind, uint64_t id)
{
    weir_recorder_note(recorder, &(weir_trace_event){.kind = kind, .id = id, .size = 8, .stream = 0});
}

/* A recorder that has a standard stream's number would have the program's printed lines in its file. */
TEST(a_file_is_no_standard_stream)
{
    weir_recorder *recorder = NULL;
    const int error = dup(STDERR_FILENO);
    (void)close(STDERR_FILENO);
    const weir_status status = weir_recorder_create_file(path, "", &recorder);
    const int taken = fcntl(STDERR_FILENO, F_GETFD);
    (void)dup2(error, STDERR_FILENO);
    (void)close(error);
    assert_int_equal(status, WEIR_OK);
    assert_int_equal(taken, -1);
    assert_int_equal(weir_recorder_stop(recorder, NULL), WEIR_OK);
    assert_int_equal(unlink(path), 0);
}

/* --- nothing is lost --- */

enum { threads = 3, events = 200000 }; /* events of each thread: more than its ring buffer holds */

static void *feed(void *recorder)
{
    static _Atomic uint64_t last_name;
    for (int i = 0; i < events / 2; i++) {
        const uint64_t name = atomic_fetch_add(&last_name, 1);
        note(recorder, WEIR_TRACE_ALLOC, name);
        note(recorder, WEIR_TRACE_FREE, name);
    }
    return NULL;
}

TEST(test_more_events_than_rings_hold)
{
    weir_recorder *recorder = NULL;
    pthread_t feeders[threads];
    uint64_t lost = 1;
    assert_int_equal(weir_recorder_create_file(path, "three threads", &recorder), WEIR_OK);
    for (int i = 0; i < threads; i++) {
        assert_int_equal(pthread_create(&feeders[i], NULL, feed, recorder), 0);
    }
    for (int i = 0; i < threads; i++) {
        assert_int_equal(pthread_join(feeders[i], NULL), 0);
    }
    assert_int_equal(weir_recorder_stop(recorder, &lost), WEIR_OK);
    assert_int_equal(lost, 0);
    char *text = read_file(path);
    assert_memory_equal(text, "#wtr 1\n#src three threads\n#clock ns\n", 36);
    assert_int_equal(count_lines(text, 'a'), threads * events / 2);
    assert_int_equal(count_lines(text, 'f'), threads * events / 2);
    assert_null(strstr(text, "#note"));
    free(text);
    assert_int_equal(unlink(path), 0);
}

/* The recorder's thread writes by itself, so that a process that is killed leaves its trace. */
TEST(test_it_is_written_meanwhile)
{
    weir_recorder *recorder = NULL;
    const struct timespec moment = {.tv_nsec = 5000000};
    size_t seen = 0;
    assert_int_equal(weir_recorder_create_file(path, NULL, &recorder), WEIR_OK);
    note(recorder, WEIR_TRACE_ALLOC, 1);
    for (int i = 0; i < 2000 && seen == 0; i++) {
        (void)nanosleep(&moment, NULL);
        char *text = read_file(path);
        seen = count_lines(text, 'a');
        free(text);
    }
    assert_int_equal(seen, 1);
    assert_int_equal(weir_recorder_stop(recorder, NULL), WEIR_OK);
    assert_int_equal(unlink(path), 0);
}

TEST(test_an_old_file_is_replaced)
{
    weir_recorder *recorder = NULL;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 1000; i++) {
        (void)fputs("what was here before\n", file);
    }
    assert_int_equal(fclose(file), 0);
    assert_int_equal(weir_recorder_create_file(path, NULL, &recorder), WEIR_OK);
    assert_int_equal(weir_recorder_stop(recorder, NULL), WEIR_OK);
    char *text = read_file(path);
    assert_string_equal(text, "#wtr 1\n#src weir recorder\n#clock ns\n");
    free(text);
    assert_int_equal(unlink(path), 0);
}

/* --- files that cannot be written --- */

TEST(test_no_such_folder)
{
    weir_recorder *recorder = NULL;
    char nowhere[sizeof(path) + 16];
    (void)snprintf(nowhere, sizeof(nowhere), "%s/no/run.wtr", folder);
    errno = 0;
    assert_int_equal(weir_recorder_create_file(nowhere, NULL, &recorder), WEIR_ERR_DEVICE);
    assert_int_equal(errno, ENOENT);
    errno = 0;
    assert_int_equal(weir_recorder_create_file(folder, NULL, &recorder), WEIR_ERR_DEVICE);
    assert_int_equal(errno, EISDIR);
    assert_null(recorder);
}

TEST(test_bad_arguments)
{
    weir_recorder *recorder = NULL;
    assert_int_equal(weir_recorder_create_file(NULL, NULL, &recorder), WEIR_ERR_INVALID);
    assert_int_equal(weir_recorder_create_file(path, NULL, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_recorder_start_file(NULL, path, NULL, &recorder), WEIR_ERR_INVALID);
    assert_int_equal(access(path, F_OK), -1);
}

TEST(test_full_disk)
{
    weir_recorder *recorder = NULL;
    uint64_t lost = 0;
    if (access("/dev/full", W_OK) != 0) {
        skip();
    }
    assert_int_equal(weir_recorder_create_file("/dev/full", NULL, &recorder), WEIR_OK);
    for (uint64_t i = 0; i < events; i++) {
        note(recorder, WEIR_TRACE_ALLOC, i);
    }
    errno = 0;
    assert_int_equal(weir_recorder_stop(recorder, &lost), WEIR_ERR_DEVICE);
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(lost, events);
}

/* Handlers and masks belong to the program: none of these signals may reach it, and a pending signal
 * must stay pending. */
static atomic_int signals_met;

static void meet_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals_met, 1);
}

/* The limit lies within a piece, so the last write is a short one; the file ends with a whole line. The recorder's
 * thread writes; when a ring is full, this thread writes. */
TEST(test_disk_that_fills_up)
{
    const struct rlimit little = {.rlim_cur = 100001, .rlim_max = RLIM_INFINITY};
    struct rlimit before;
    weir_recorder *recorder = NULL;
    uint64_t lost = 0;
    (void)signal(SIGXFSZ, meet_signal);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    if (before.rlim_max != RLIM_INFINITY) {
        skip();
    }
    assert_int_equal(weir_recorder_create_file(path, NULL, &recorder), WEIR_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    for (uint64_t i = 0; i < events; i++) {
        note(recorder, WEIR_TRACE_ALLOC, i);
    }
    errno = 0;
    assert_int_equal(weir_recorder_stop(recorder, &lost), WEIR_ERR_DEVICE);
    assert_int_equal(errno, EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    char *text = read_file(path);
    const size_t length = strlen(text);
    assert_true(length > 0 && length <= 100001 && text[length - 1] == '\n');
    assert_int_equal(count_lines(text, 'a') + lost, events);
    assert_true(count_lines(text, 'a') > 0);
    free(text);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(atomic_load(&signals_met), 0);
    (void)signal(SIGXFSZ, SIG_DFL);
}

/* Records one event and stops at once, so the calling thread writes: the first round of the recorder's thread comes
 * later. */
static bool fails_to_record(void)
{
    weir_recorder *recorder = NULL;
    if (weir_recorder_create_file(path, NULL, &recorder) != WEIR_OK) {
        return false;
    }
    note(recorder, WEIR_TRACE_ALLOC, 1);
    errno = 0;
    return weir_recorder_stop(recorder, NULL) == WEIR_ERR_DEVICE && errno == EFBIG;
}

/* A process with RLIMIT_FSIZE 0 is not ended by SIGXFSZ. A SIGXFSZ that was pending in the thread before is still
 * pending afterwards. */
TEST(test_a_file_that_cannot_grow)
{
    const struct rlimit none = {0, 0};
    int status = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        sigset_t file_size;
        sigset_t mask;
        sigset_t pending;
        (void)signal(SIGXFSZ, SIG_DFL);
        bool good = setrlimit(RLIMIT_FSIZE, &none) == 0 && fails_to_record();
        good = good && pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0 && sigismember(&mask, SIGXFSZ) == 0;
        (void)sigemptyset(&file_size);
        (void)sigaddset(&file_size, SIGXFSZ);
        (void)pthread_sigmask(SIG_BLOCK, &file_size, NULL);
        (void)raise(SIGXFSZ);
        good = good && fails_to_record() && sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(unlink(path), 0);
}

/* The program at the other end of a pipe has ended. */
TEST(test_a_pipe_without_a_reader)
{
    weir_recorder *recorder = NULL;
    char pipe_path[sizeof(path) + 8];
    (void)snprintf(pipe_path, sizeof(pipe_path), "%s.pipe", path);
    (void)signal(SIGPIPE, meet_signal);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    const int reader = open(pipe_path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_int_equal(weir_recorder_create_file(pipe_path, NULL, &recorder), WEIR_OK);
    assert_int_equal(close(reader), 0);
    for (uint64_t i = 0; i < events; i++) {
        note(recorder, WEIR_TRACE_ALLOC, i);
    }
    errno = 0;
    assert_int_equal(weir_recorder_stop(recorder, NULL), WEIR_ERR_DEVICE);
    assert_int_equal(errno, EPIPE);
    assert_int_equal(atomic_load(&signals_met), 0);
    (void)signal(SIGPIPE, SIG_DFL);
    assert_int_equal(unlink(pipe_path), 0);
}

/* --- processes --- */

TEST(test_fork)
{
    weir_recorder *recorder = NULL;
    int status = 0;
    assert_int_equal(weir_recorder_create_file(path, NULL, &recorder), WEIR_OK);
    note(recorder, WEIR_TRACE_ALLOC, 1);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (uint64_t i = 0; i < events; i++) { /* more than a ring holds: the child must not wait */
            note(recorder, WEIR_TRACE_ALLOC, 2 + i);
        }
        _exit(weir_recorder_stop(recorder, NULL) == WEIR_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    note(recorder, WEIR_TRACE_FREE, 1);
    assert_int_equal(weir_recorder_stop(recorder, NULL), WEIR_OK);
    char *text = read_file(path);
    assert_int_equal(count_lines(text, 'a'), 1);
    assert_int_equal(count_lines(text, 'f'), 1);
    assert_int_equal(count_lines(text, '#'), 3);
    free(text);
    assert_int_equal(unlink(path), 0);
}

static void count_and_end(weir_recorder *recorder, const char *name, size_t allocs)
{
    assert_non_null(recorder);
    assert_int_equal(weir_recorder_stop(recorder, NULL), WEIR_OK);
    char *text = read_file(name);
    assert_int_equal(count_lines(text, 'a'), allocs);
    free(text);
    assert_int_equal(unlink(name), 0);
}

TEST(test_asked_for_by_the_environment)
{
    char second_path[sizeof(path) + 4];
    (void)snprintf(second_path, sizeof(second_path), "%s.2", path);
    (void)unsetenv("WEIR_RECORD");
    assert_null(weir__recorder_from_environment("heap"));
    assert_int_equal(setenv("WEIR_RECORD", "", 1), 0);
    assert_null(weir__recorder_from_environment("heap"));
    assert_int_equal(setenv("WEIR_RECORD", path, 1), 0);
    weir_recorder *first = weir__recorder_from_environment("heap");
    weir_recorder *second = weir__recorder_from_environment("heap");
    note(second, WEIR_TRACE_ALLOC, 1);
    note(second, WEIR_TRACE_ALLOC, 2);
    note(first, WEIR_TRACE_ALLOC, 1);
    count_and_end(first, path, 1);
    count_and_end(second, second_path, 2);
    assert_int_equal(setenv("WEIR_RECORD", "/no/such/folder/run.wtr", 1), 0);
    assert_null(weir__recorder_from_environment("heap"));
    assert_int_equal(unsetenv("WEIR_RECORD"), 0);
}

/* --- a pool --- */

static weir_pool *make_pool(struct fake_device *fake, weir_device **device)
{
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    weir_pool *pool = NULL;
    fake_init(fake);
    assert_int_equal(weir_device_create(&fake->ops, fake, device), WEIR_OK);
    config.device = *device;
    config.strategy = weir_caching_strategy();
    config.flags = WEIR_POOL_REGIONS;
    assert_int_equal(weir_pool_create(&config, &pool), WEIR_OK);
    return pool;
}

static void alloc_and_free(weir_pool *pool, int times)
{
    weir_stream *stream = NULL;
    weir_block *block = NULL;
    assert_int_equal(weir_pool_stream(pool, NULL, &stream), WEIR_OK);
    for (int i = 0; i < times; i++) {
        assert_int_equal(weir_pool_alloc(pool, stream, 512, 0, &block), WEIR_OK);
        assert_int_equal(weir_pool_free(pool, block, stream), WEIR_OK);
    }
}

TEST(test_pool)
{
    struct fake_device fake;
    weir_device *device = NULL;
    weir_pool *pool = make_pool(&fake, &device);
    weir_stream *stream = NULL;
    weir_block *block = NULL;
    weir_recorder *recorder = NULL;
    weir_recorder *other = NULL;
    uint64_t lost = 1;
    assert_int_equal(weir_pool_stream(pool, NULL, &stream), WEIR_OK);
    assert_int_equal(weir_pool_alloc(pool, stream, 512, 0, &block), WEIR_OK);
    assert_int_equal(weir_recorder_start_file(pool, path, "a pool", &recorder), WEIR_OK);
    /* A second recorder is refused, and the file of the first is unchanged. */
    assert_int_equal(weir_recorder_start_file(pool, path, "another", &other), WEIR_ERR_BUSY);
    assert_null(other);
    alloc_and_free(pool, 100000); /* more than a ring buffer holds: calls of the pool drain it */
    assert_int_equal(weir_recorder_stop(recorder, &lost), WEIR_OK);
    assert_int_equal(lost, 0);
    char *text = read_file(path);
    assert_memory_equal(text, "#wtr 1\n#src a pool\n#clock ns\n#dev 0 ", 36);
    assert_int_equal(count_lines(text, 'p'), 1);
    assert_int_equal(count_lines(text, 'a'), 100000);
    assert_int_equal(count_lines(text, 'f'), 100000);
    free(text);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(weir_pool_free(pool, block, stream), WEIR_OK);
    assert_int_equal(weir_pool_destroy(pool), WEIR_OK);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

ALL_TESTS(make_folder, remove_folder)
