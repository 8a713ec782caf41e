/* report.c: what the library says: the record of the first request that fails at the limit, and a report at the end of
 * the process or for a signal.
 *
 * Each text is made in a buffer on the stack and written by one call, so that the reports of several processes into one
 * file do not mix. The names of the holders come from /proc/self/maps at that moment: code of a library that the
 * program has unloaded has no name any more.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* program_invocation_short_name */
#endif

#include "preload.h"

#include "shared/assert.h"
#include "shared/descriptor.h"
#include "shared/own_thread.h"
#include "shared/quiet_write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 8192, MOST_ROWS = 8, NAME_BYTES = 48 };

/* --- texts --- */

struct text {
    size_t length;
    char bytes[TEXT_BYTES];
};

__attribute__((format(printf, 2, 0))) static void vsay(struct text *t, const char *format, va_list arguments)
{
    WEIR_ASSERT(t->length < sizeof(t->bytes));
    const size_t room = sizeof(t->bytes) - t->length;
    const int length = vsnprintf(t->bytes + t->length, room, format, arguments);
    t->length += length < 0 ? 0 : (size_t)length < room ? (size_t)length : room - 1;
}

__attribute__((format(printf, 2, 3))) static void say(struct text *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsay(t, format, arguments);
    va_end(arguments);
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static void write_all(int file, const struct text *t)
{
    for (size_t done = 0; done < t->length;) {
        const ssize_t count = write_quietly(file, t->bytes + done, t->length - done);
        if (count <= 0 && errno != EINTR) {
            return;
        }
        done += count > 0 ? (size_t)count : 0;
        WEIR_ASSERT(done <= t->length);
    }
}

void report_sentence(const char *format, ...)
{
    struct text t = {.length = 0};
    va_list arguments;
    va_start(arguments, format);
    vsay(&t, format, arguments);
    va_end(arguments);
    write_all(STDERR_FILENO, &t);
}

void report_bad_free(const void *block)
{
    report_sentence("weir: %s (%ld): free or realloc of %p, which is not the start of a live block\n",
                    program_invocation_short_name, (long)getpid(), block);
    abort();
}

/* --- holders --- */

/* The code of one file holds so much. */
struct row {
    char name[NAME_BYTES];
    uint64_t live_bytes;
    uint64_t peak_bytes;
};

static int by_caller(const void *one, const void *other)
{
    const struct holders_site *a = one;
    const struct holders_site *b = other;
    return (a->caller > b->caller) - (a->caller < b->caller);
}

static int by_bytes(const void *one, const void *other)
{
    const struct row *a = one;
    const struct row *b = other;
    const uint64_t most_a = a->peak_bytes > a->live_bytes ? a->peak_bytes : a->live_bytes;
    const uint64_t most_b = b->peak_bytes > b->live_bytes ? b->peak_bytes : b->live_bytes;
    return (most_a < most_b) - (most_a > most_b);
}

/* Adds the site to the row of its file, the last row if there is no room for another. Returns the number of rows. */
static size_t add_to_row(struct row *rows, size_t count, size_t room, const char *name, const struct holders_site *site)
{
    size_t i = 0;
    WEIR_ASSERT(count <= room && room > 0);
    while (i < count && strncmp(rows[i].name, name, NAME_BYTES - 1) != 0) {
        i++;
    }
    if (i == count && count < room) {
        rows[count] = (struct row){.live_bytes = 0};
        (void)snprintf(rows[count].name, NAME_BYTES, "%s", name);
        count++;
    }
    i = i < count ? i : count - 1;
    WEIR_ASSERT(i < room);
    rows[i].live_bytes += site->live_bytes;
    rows[i].peak_bytes += site->peak_bytes;
    return count;
}

/* Joins the sites of each mapped file. Both lists are in the order of addresses. */
static size_t join_sites(const struct holders_site *sites, size_t count, FILE *maps, struct row *rows, size_t room)
{
    char line[4096 + 256];
    size_t done = 0;
    size_t row_count = 0;
    while (done < count && fgets(line, sizeof(line), maps) != NULL) {
        uintptr_t start = 0;
        uintptr_t end = 0;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &start, &end) != 2) {
            continue;
        }
        line[strcspn(line, "\n")] = '\0';
        const char *slash = strchr(line, '/') != NULL ? strrchr(line, '/') : NULL;
        for (; done < count && sites[done].caller < end; done++) {
            const bool is_named = slash != NULL && sites[done].caller >= start;
            row_count = add_to_row(rows, row_count, room, is_named ? slash + 1 : "code of no file", &sites[done]);
        }
    }
    WEIR_ASSERT(row_count <= room);
    return row_count;
}

static void say_rows(struct text *t, const struct row *rows, size_t count, const char *when)
{
    struct row rest = {.live_bytes = 0};
    say(t, "weir:   who holds it, from a sample     MiB at the peak    MiB %s\n", when);
    for (size_t i = 0; i < count; i++) {
        if (i < MOST_ROWS) {
            say(t, "weir:     %-34s %16.1f %16.1f\n", rows[i].name, mib(rows[i].peak_bytes), mib(rows[i].live_bytes));
        } else {
            rest.peak_bytes += rows[i].peak_bytes;
            rest.live_bytes += rows[i].live_bytes;
        }
    }
    if (count > MOST_ROWS) {
        say(t, "weir:     %zu others %25s %16.1f %16.1f\n", count - MOST_ROWS, "", mib(rest.peak_bytes),
            mib(rest.live_bytes));
    }
}

static void say_holders(struct text *t, const char *when)
{
    enum { ROOM = 256 };
    struct holders_site *sites = NULL;
    const size_t count = holders_copy(&sites);
    struct row *rows = malloc(ROOM * sizeof(*rows));
    FILE *maps = open_stream_above_standard("/proc/self/maps", O_RDONLY, "r");
    if (sites != NULL && rows != NULL && maps != NULL) {
        qsort(sites, count, sizeof(*sites), by_caller);
        const size_t row_count = join_sites(sites, count, maps, rows, ROOM);
        qsort(rows, row_count, sizeof(*rows), by_bytes);
        say_rows(t, rows, row_count, when);
    }
    if (maps != NULL) {
        (void)fclose(maps);
    }
    free(rows);
    free(sites);
}

/* --- the report --- */

static void say_report(struct text *t, weir_heap *heap, const char *when)
{
    const char *broken = NULL;
    WEIR_ASSERT(heap != NULL && when != NULL);
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    if (weir_heap_get_stats(heap, &stats) != WEIR_OK) {
        return;
    }
    say(t,
        "weir: %s (%ld): at the peak %.1f MiB live and %.1f held; %s %.1f live and %.1f held; decay gave back %.1f\n",
        program_invocation_short_name, (long)getpid(), mib(stats.peak_live_bytes), mib(stats.peak_held_bytes), when,
        mib(stats.live_bytes), mib(stats.held_bytes), mib(stats.decayed_bytes));
    say(t, "weir:   %llu blocks, the largest of %llu bytes; %llu requests refused", (unsigned long long)stats.allocs,
        (unsigned long long)stats.largest_bytes, (unsigned long long)stats.failures);
    if (stats.limit_bytes != 0) {
        say(t, " at the limit of %.1f MiB", mib(stats.limit_bytes));
    }
    say(t, "\n");
    if (weir_heap_check(heap, &broken) == WEIR_ERR_INTERNAL) {
        say(t, "weir:   the heap is broken: %s\n", broken);
    }
    if (holders_are_noted) {
        say_holders(t, when);
    }
}

/* Appends the report to the file of the options, or writes it to standard error. */
static void write_report(const char *path, const char *when)
{
    struct text t = {.length = 0};
    weir_heap *heap = preload_heap();
    if (heap == NULL) {
        return;
    }
    const int number = errno;
    const bool was_outside = preload_enter();
    say_report(&t, heap, when);
    if (path == NULL) {
        write_all(STDERR_FILENO, &t);
    } else {
        const int file = above_standard(open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
        if (file >= 0) {
            write_all(file, &t);
            (void)close(file);
        } else if (strncmp(path, "/proc/", 6) != 0) { /* that file ends with the command `weir run` */
            report_sentence("weir: %s cannot be written: %s\n", path, strerror(errno));
        }
    }
    if (was_outside) {
        preload_leave();
    }
    errno = number;
}

void report_end(void)
{
    if (preload_options()->report_path != NULL) {
        write_report(preload_options()->report_path, "at the end");
    }
}

void report_to_error(void)
{
    write_report(NULL, "now");
}

void report_refusal(size_t size)
{
    static _Atomic long reported_by; /* process id: a child reports too */
    weir_heap *heap = preload_heap();
    const long process = (long)getpid();
    char why[1024];
    struct text t = {.length = 0};
    if (preload_options()->limit_bytes == 0 || heap == NULL || atomic_exchange(&reported_by, process) == process) {
        return;
    }
    const int number = errno;
    (void)weir_heap_explain(heap, why, sizeof(why));
    say(&t, "weir: %s (%ld): no memory for %zu bytes at the limit of %.1f MiB; the program gets NULL\n",
        program_invocation_short_name, process, size, mib(preload_options()->limit_bytes));
    say(&t, "weir:   %s", why);
    say_holders(&t, "now");
    write_all(STDERR_FILENO, &t);
    errno = number;
}

/* --- reports for a signal --- */

static sem_t asked;

static void ask(int number)
{
    (void)number;
    const int saved = errno;
    (void)sem_post(&asked);
    errno = saved;
}

static void *answer(void *unused)
{
    (void)unused;
    while (!weir__own_threads_are_alone()) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += OWN_THREAD_LOOK_MS / 1000;
        if (sem_timedwait(&asked, &until) == 0) {
            write_report(preload_options()->report_path, "now");
        }
    }
    return NULL;
}

void report_start(void)
{
    const int number = preload_options()->signal_number;
    struct sigaction action = {.sa_handler = ask, .sa_flags = SA_RESTART};
    pthread_t thread;
    if (number == 0) {
        return;
    }
    WEIR_ASSERT(number > 0);
    const int why = sem_init(&asked, 0, 0) != 0 ? errno : weir__own_thread_start(&thread, answer, NULL);
    if (why != 0 || sigaction(number, &action, NULL) != 0) {
        report_sentence("weir: no reports for signal %d: %s\n", number, strerror(why != 0 ? why : errno));
    }
}
