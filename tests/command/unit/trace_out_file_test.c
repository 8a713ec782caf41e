/* tests/command/unit/trace_out_file_test.c: a file is written completely under its name or not at all, and no other
 * file is touched. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mkdtemp */
#endif

#include "rig/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trace/out_file.h"

static char folder[] = "/tmp/weir_out_XXXXXX";

static int enter_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    (void)state;
    return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;
}

static unsigned files_here(void)
{
    unsigned count = 0;
    DIR *const all = opendir(".");
    assert_non_null(all);
    for (const struct dirent *one = readdir(all); one != NULL; one = readdir(all)) {
        count += one->d_name[0] != '.' || strlen(one->d_name) > 2;
    }
    assert_int_equal(closedir(all), 0);
    return count;
}

static void put(const char *path, const char *text)
{
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void assert_holds(const char *path, const char *text)
{
    char found[64] = "";
    FILE *const file = fopen(path, "r");
    assert_non_null(file);
    const size_t length = fread(found, 1, sizeof(found) - 1, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(length, strlen(text));
    assert_string_equal(found, text);
}

static void begin(struct out_file *file, const char *path)
{
    assert_true(out_file_open(file, path));
    assert_int_equal(write(file->fd, "new", 3), 3);
}

static mode_t mode_of(const char *path)
{
    struct stat facts;
    assert_int_equal(lstat(path, &facts), 0);
    return facts.st_mode;
}

TEST(test_new_file)
{
    struct out_file file;
    const mode_t before = umask(027);
    begin(&file, "a");
    assert_int_equal(access("a", F_OK), -1);
    assert_true(out_file_finish(&file));
    assert_holds("a", "new");
    assert_int_equal(mode_of("a") & 0777, 0640);
    assert_int_equal(files_here(), 1);
    (void)umask(before);
    assert_int_equal(unlink("a"), 0);
}

TEST(test_old_file)
{
    struct out_file file;
    put("a", "old");
    put("a.plain", "precious");
    assert_int_equal(chmod("a", 0604), 0);
    begin(&file, "a");
    assert_holds("a", "old");
    out_file_drop(&file);
    assert_holds("a", "old");
    assert_int_equal(files_here(), 2);
    begin(&file, "a");
    assert_true(out_file_finish(&file));
    assert_holds("a", "new");
    assert_int_equal(mode_of("a") & 0777, 0604);
    assert_holds("a.plain", "precious");
    assert_int_equal(files_here(), 2);
    assert_int_equal(unlink("a") + unlink("a.plain"), 0);
}

TEST(test_links)
{
    struct out_file file;
    assert_int_equal(mkdir("far", 0700), 0);
    put("far/a", "old");
    assert_int_equal(symlink("far/a", "link"), 0);
    begin(&file, "link");
    assert_true(out_file_finish(&file));
    assert_true(S_ISLNK(mode_of("link")));
    assert_holds("far/a", "new");
    assert_int_equal(unlink("far/a"), 0);
    begin(&file, "link"); /* the link's target does not exist now */
    assert_true(out_file_finish(&file));
    assert_true(S_ISREG(mode_of("link")));
    assert_int_equal(access("far/a", F_OK), -1);
    assert_int_equal(unlink("link") + rmdir("far"), 0);
}

/* Two writers of one target do not disturb each other; the file of the last to finish stays. */
TEST(test_two_at_once)
{
    struct out_file one;
    struct out_file other;
    begin(&one, "a");
    begin(&other, "a");
    assert_string_not_equal(out_file_path(&one), out_file_path(&other));
    assert_int_equal(write(one.fd, "er", 2), 2);
    assert_true(out_file_finish(&other));
    assert_holds("a", "new");
    assert_true(out_file_finish(&one));
    assert_holds("a", "newer");
    assert_int_equal(unlink("a"), 0);
}

TEST(test_refused)
{
    struct out_file file = {.fd = 77};
    char name[300];
    assert_false(out_file_open(&file, "nowhere/a"));
    assert_int_equal(errno, ENOENT);
    assert_false(out_file_open(&file, "."));
    assert_int_equal(errno, EISDIR);
    assert_false(out_file_open(&file, ""));
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    assert_false(out_file_open(&file, name));
    assert_int_equal(errno, ENAMETOOLONG);
    assert_int_equal(file.fd, 77);
    name[NAME_MAX] = '\0'; /* the longest possible name: the temporary name must not be longer */
    begin(&file, name);
    assert_true(out_file_finish(&file));
    assert_int_equal(unlink(name), 0);
    put("a", "old");
    assert_int_equal(chmod("a", 0400), 0);
    if (geteuid() != 0) {
        assert_false(out_file_open(&file, "a"));
        assert_int_equal(errno, EACCES);
    }
    assert_int_equal(unlink("a"), 0);
    assert_int_equal(files_here(), 0);
}

/* A pipe is written directly and never removed. */
TEST(test_pipe)
{
    struct out_file file;
    char text[8] = "";
    assert_int_equal(mkfifo("pipe", 0600), 0);
    const int reader = open("pipe", O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    begin(&file, "pipe");
    assert_int_equal(read(reader, text, sizeof(text)), 3);
    assert_string_equal(text, "new");
    assert_int_equal(files_here(), 1);
    assert_true(out_file_aim(&file, "pipe"));
    assert_false(out_file_aim(&file, "a"));
    assert_true(out_file_finish(&file));
    begin(&file, "pipe");
    out_file_drop(&file);
    assert_true(S_ISFIFO(mode_of("pipe")));
    begin(&file, "a");
    assert_false(out_file_aim(&file, "pipe"));
    assert_int_equal(errno, EEXIST);
    out_file_drop(&file);
    assert_int_equal(close(reader), 0);
    assert_int_equal(unlink("pipe"), 0);
}

TEST(test_device)
{
    struct out_file file;
    if (mknod("full", S_IFCHR | 0600, makedev(1, 7)) != 0) {
        skip(); /* only root makes a device */
    }
    if (!out_file_open(&file, "full")) {
        assert_int_equal(unlink("full"), 0);
        skip(); /* no devices in this file system */
    }
    assert_int_equal(write(file.fd, "new", 3), -1);
    out_file_drop(&file);
    assert_true(S_ISCHR(mode_of("full")));
    assert_int_equal(unlink("full"), 0);
}

/* Standard output may be a regular file: printed bytes and bytes written through its name share one position. */
TEST(test_standard_output)
{
    struct out_file file;
    (void)fflush(stdout);
    const int before = dup(STDOUT_FILENO);
    const int here = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(here >= 0 && before >= 0);
    assert_int_equal(dup2(here, STDOUT_FILENO), STDOUT_FILENO);
    const bool first = write(STDOUT_FILENO, "1 ", 2) == 2;
    bool done = out_file_open(&file, "/dev/stdout");
    done = done && write(file.fd, "2 ", 2) == 2 && out_file_finish(&file);
    done = done && out_file_open(&file, "out") && write(file.fd, "3 ", 2) == 2 && out_file_finish(&file);
    const bool last = write(STDOUT_FILENO, "4", 1) == 1;
    assert_int_equal(dup2(before, STDOUT_FILENO), STDOUT_FILENO);
    assert_int_equal(close(before) + close(here), 0);
    assert_true(first && done && last);
    assert_holds("out", "1 2 3 4");
    assert_int_equal(unlink("out"), 0);
}

TEST(test_aim)
{
    struct out_file file;
    put("b", "old");
    begin(&file, "a");
    assert_true(out_file_aim(&file, "nowhere/b"));
    assert_false(out_file_finish(&file));
    assert_int_equal(errno, ENOENT);
    assert_true(out_file_aim(&file, "b"));
    assert_true(out_file_finish(&file));
    assert_holds("b", "new");
    assert_int_equal(access("a", F_OK), -1);
    begin(&file, "b");
    char *const part = strdup(out_file_path(&file));
    assert_non_null(part);
    out_file_leave(&file);
    assert_holds(part, "new");
    assert_int_equal(unlink(part) + unlink("b"), 0);
    free(part);
}

/* If a folder takes the target's name before the file is finished, the bytes stay in the temporary file. */
TEST(test_cannot_finish)
{
    struct out_file file;
    begin(&file, "a");
    assert_int_equal(mkdir("a", 0700), 0);
    assert_false(out_file_finish(&file));
    assert_int_equal(errno, EISDIR);
    assert_holds(out_file_path(&file), "new");
    out_file_drop(&file);
    assert_int_equal(rmdir("a"), 0);
    assert_int_equal(files_here(), 0);
}

static int end_by(int number, bool ignored)
{
    struct out_file file;
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        (void)signal(number, ignored ? SIG_IGN : SIG_DFL);
        out_file_drop_at_signals();
        if (!out_file_open(&file, "a")) {
            _exit(1);
        }
        (void)raise(number);
        out_file_drop(&file);
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

TEST(test_signals)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        const int status = end_by(numbers[i], false);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), numbers[i]);
        assert_int_equal(files_here(), 0);
        assert_int_equal(end_by(numbers[i], true), 0); /* the signal is ignored, as with nohup */
    }
}

ALL_TESTS(enter_folder, leave_folder)
