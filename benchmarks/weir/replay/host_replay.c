/* host_replay.c: see host_replay.h.
 *
 * The resident size is read in a run of its own, because the readings cost time and faults. /proc/self/statm is cheap
 * and counts with a small error, so it is read whenever the requests since the last reading come to a share of the
 * peak; /proc/self/smaps_rollup is exact and walks all pages, so it is read only when statm shows a new peak by 1 %.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif

#include "replay/host_replay.h"

#include "replay/live_peak.h"
#include "replay/mallocs.h"

#include <weir/heap.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { page_bytes = 4096, cost_runs = 3, looks_of_peak = 400, least_of_request = 64 };

/* --- one allocator --- */

struct player {
    weir_heap *heap; /* NULL: use the functions */
    struct malloc_functions functions;
};

static void *player_alloc(struct player *player, size_t size, size_t align)
{
    if (player->heap != NULL) {
        return weir_heap_alloc_aligned(player->heap, size, align);
    }
    return align == 0 ? player->functions.alloc(size)
                      : player->functions.alloc_aligned(align, (size + align - 1) / align * align);
}

static void *player_realloc(struct player *player, void *block, size_t size)
{
    return player->heap != NULL ? weir_heap_realloc(player->heap, block, size) : player->functions.realloc(block, size);
}

static void player_free(struct player *player, void *block)
{
    if (player->heap == NULL) {
        player->functions.free(block);
    } else {
        (void)weir_heap_free(player->heap, block);
    }
}

/* --- the process --- */

/* Reads a small file of /proc as text. Returns false if it cannot be read. */
static bool read_text(const char *path, char *text, size_t size)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = file >= 0 ? read(file, text, size - 1) : -1;
    if (file >= 0) {
        (void)close(file);
    }
    text[length > 0 ? length : 0] = '\0';
    return length > 0;
}

/* Returns the bytes behind "NAME:" in a file of lines "NAME: N kB"; 0 = absent. */
static uint64_t kilobytes_of(const char *path, const char *name)
{
    char text[8192];
    const char *line = read_text(path, text, sizeof(text)) ? strstr(text, name) : NULL;
    return line != NULL ? strtoull(line + strlen(name), NULL, 10) * 1024 : 0;
}

static uint64_t anonymous_bytes(void)
{
    return kilobytes_of("/proc/self/smaps_rollup", "\nAnonymous:");
}

/* Returns the resident bytes without those of files, which the kernel counts with a small error. */
static uint64_t roughly_anonymous_bytes(void)
{
    char text[256];
    char *at = text;
    if (!read_text("/proc/self/statm", text, sizeof(text))) {
        return 0;
    }
    (void)strtoull(at, &at, 10);
    const uint64_t resident = strtoull(at, &at, 10);
    return (resident - strtoull(at, &at, 10)) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static struct host_cost cost_now(void)
{
    struct rusage usage = {0};
    (void)getrusage(RUSAGE_SELF, &usage);
    return (struct host_cost){.faults = (uint64_t)usage.ru_minflt,
                              .cpu_ms = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
                                        (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3};
}

/* --- one run --- */

struct run {
    struct player player;
    const struct trace *trace;
    uint32_t rounds;
    bool looks; /* read the resident size */
    void **blocks;
    uint64_t asked; /* bytes requested since the last reading, and a little for each request */
    uint64_t rough_before;
    uint64_t rough_peak;
    uint64_t exact_before;
    struct host_result *result;
};

static void touch(unsigned char *block, uint64_t size)
{
    volatile unsigned char *byte = block;
    for (uint64_t at = 0; at < size; at += page_bytes) {
        byte[at] = 1;
    }
}

static void look(struct run *run)
{
    const uint64_t rough = roughly_anonymous_bytes() - run->rough_before;
    if ((int64_t)rough < 0 || rough < run->rough_peak + run->rough_peak / 100) {
        return;
    }
    const uint64_t exact = anonymous_bytes() - run->exact_before;
    run->rough_peak = rough;
    if ((int64_t)exact > 0 && exact > run->result->resident_bytes) {
        run->result->resident_bytes = exact;
    }
}

/* Plays one event. Returns false if the allocator has no memory for it. */
static bool play_event(struct run *run, const struct trace_event *event)
{
    void **block = &run->blocks[event->index == TRACE_NO_INDEX ? 0 : event->index];
    switch (event->event.kind) {
    case WEIR_TRACE_PRIOR:
    case WEIR_TRACE_ALLOC:
        *block = player_alloc(&run->player, event->event.size,
                              event->event.kind == WEIR_TRACE_ALLOC ? event->event.extra : 0);
        break;
    case WEIR_TRACE_REALLOC:
        *block = player_realloc(&run->player, run->blocks[event->old_index], event->event.size);
        if (*block != NULL) {
            run->blocks[event->old_index] = NULL;
        }
        break;
    case WEIR_TRACE_FREE:
        player_free(&run->player, *block);
        *block = NULL;
        return true;
    default:
        return true;
    }
    if (*block != NULL) {
        touch(*block, event->event.size);
    }
    run->asked += event->event.size + least_of_request;
    if (run->looks && run->asked > run->rough_peak / looks_of_peak) {
        run->asked = 0;
        look(run);
    }
    return *block != NULL;
}

static bool play_round(struct run *run)
{
    for (size_t i = 0; i < run->trace->event_count; i++) {
        const struct trace_event *event = &run->trace->events[i];
        if (!play_event(run, event)) {
            (void)snprintf(run->result->why, sizeof(run->result->why), "no memory for %llu bytes at event %llu",
                           (unsigned long long)event->event.size,
                           (unsigned long long)trace_event_number(run->trace, i));
            return false;
        }
    }
    for (uint32_t i = 0; i < run->trace->block_count; i++) {
        if (run->blocks[i] != NULL) {
            player_free(&run->player, run->blocks[i]);
            run->blocks[i] = NULL;
        }
    }
    return true;
}

static bool play_rounds(struct run *run)
{
    struct host_cost last = cost_now();
    for (uint32_t round = 0; round < run->rounds; round++) {
        if (!play_round(run)) {
            return false;
        }
        const struct host_cost now = cost_now();
        struct host_cost *sum = round == 0 ? &run->result->first : &run->result->later;
        sum->faults += now.faults - last.faults;
        sum->cpu_ms += now.cpu_ms - last.cpu_ms;
        last = now;
    }
    return true;
}

/* Finds the allocator under test. Returns false with the reason in run->result. */
static bool open_player(struct run *run)
{
    const char *why = "";
    bool found = true;
    if (strcmp(run->result->name, "heap") == 0) {
        found = weir_heap_create(NULL, &run->player.heap) == WEIR_OK;
        why = weir_last_error();
    } else {
        found = mallocs_find(run->result->name, &run->player.functions, &why);
    }
    if (!found) {
        (void)snprintf(run->result->why, sizeof(run->result->why), "%s", why);
    }
    return found;
}

/* Reads the statistics of the weir heap and checks its invariants. */
static bool close_heap(struct run *run)
{
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    const char *why = "no statistics";
    if (run->player.heap == NULL) {
        return true;
    }
    if (weir_heap_get_stats(run->player.heap, &stats) != WEIR_OK ||
        weir_heap_check(run->player.heap, &why) != WEIR_OK) {
        (void)snprintf(run->result->why, sizeof(run->result->why), "%s", why);
        return false;
    }
    run->result->held_bytes = stats.peak_held_bytes;
    return true;
}

/* Replays the trace run->rounds times in this process and measures the process. */
static void play(struct run *run)
{
    const size_t table = ((size_t)run->trace->block_count + 1) * sizeof(*run->blocks);
    run->blocks = malloc(table);
    if (run->blocks == NULL || !open_player(run)) {
        return;
    }
    memset(run->blocks, 1, table); /* populates the pages of the table */
    memset(run->blocks, 0, table);
    run->rough_before = run->looks ? roughly_anonymous_bytes() : 0;
    run->exact_before = run->looks ? anonymous_bytes() : 0;
    run->result->measured = play_rounds(run) && close_heap(run);
}

/* --- a process for each run --- */

static void say_end(struct host_result *result, int status)
{
    if (WIFSIGNALED(status)) {
        (void)snprintf(result->why, sizeof(result->why), "ended by signal %d", WTERMSIG(status));
    } else {
        (void)snprintf(result->why, sizeof(result->why), "ended with status %d", WEXITSTATUS(status));
    }
}

/* --- the trace in a file, for a program that is started anew --- */

struct file_head {
    uint64_t event_count;
    uint32_t block_count;
    bool numbered;
};

/* The input of the children. */
struct source {
    const struct trace *trace;
    const char *self; /* the program; NULL: fork only */
    int file;         /* the events, without a name; -1: none */
};

static bool write_all(int file, const void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        const ssize_t wrote = write(file, (const char *)bytes + done, size - done);
        if (wrote < 0 && errno != EINTR) {
            return false;
        }
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    return true;
}

/* Writes the events into a file in memory. Returns false with errno set. */
static bool open_source(struct source *source)
{
    const struct trace *trace = source->trace;
    const struct file_head head = {trace->event_count, trace->block_count, trace->numbers != NULL};
    source->file = memfd_create("weir events", MFD_CLOEXEC);
    return source->file >= 0 && write_all(source->file, &head, sizeof(head)) &&
           write_all(source->file, trace->events, trace->event_count * sizeof(*trace->events)) &&
           (!head.numbered || write_all(source->file, trace->numbers, trace->event_count * sizeof(*trace->numbers)));
}

/* Maps the events of a file. The names that events point to are not there, and not needed. */
static bool map_source(int file, struct trace *trace)
{
    struct stat there;
    void *bytes =
        fstat(file, &there) == 0 ? mmap(NULL, (size_t)there.st_size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    if (bytes == MAP_FAILED) {
        return false;
    }
    const struct file_head *head = bytes;
    struct trace_event *events = (void *)((char *)bytes + sizeof(*head));
    *trace =
        (struct trace){.events = events, .event_count = (size_t)head->event_count, .block_count = head->block_count};
    trace->numbers = head->numbered ? (void *)(events + head->event_count) : NULL;
    return true;
}

/* The arguments are: HOST_REPLAY_CHILD, the allocator, rounds, looks, the file of events, the pipe. */
int host_replay_child(int argc, char **argv)
{
    struct trace trace;
    struct host_result result = {0};
    if (argc != 7) {
        return EXIT_FAILURE;
    }
    struct run run = {
        .trace = &trace, .rounds = (uint32_t)strtoul(argv[3], NULL, 10), .looks = argv[4][0] == '1', .result = &result};
    result.name = argv[2];
    if (strcmp(result.name, "jemalloc") == 0) {
        mallocs_prepare(argv);
    }
    if (!map_source((int)strtol(argv[5], NULL, 10), &trace)) {
        return EXIT_FAILURE;
    }
    play(&run);
    return write_all((int)strtol(argv[6], NULL, 10), &result, sizeof(result)) ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Starts the program for one run; called in a forked child, which it ends. */
static void start_self(const struct source *source, uint32_t rounds, bool looks, const char *name, int pipe_end)
{
    char texts[4][16];
    (void)snprintf(texts[0], sizeof(texts[0]), "%u", rounds);
    (void)snprintf(texts[1], sizeof(texts[1]), "%d", looks ? 1 : 0);
    (void)snprintf(texts[2], sizeof(texts[2]), "%d", source->file);
    (void)snprintf(texts[3], sizeof(texts[3]), "%d", pipe_end);
    char *const arguments[] = {
        (char *)"weir", (char *)HOST_REPLAY_CHILD, (char *)name, texts[0], texts[1], texts[2], texts[3], NULL};
    if (fcntl(source->file, F_SETFD, 0) == 0 && fcntl(pipe_end, F_SETFD, 0) == 0) {
        (void)execv(source->self, arguments);
    }
    _exit(EXIT_FAILURE);
}

/* Replays the trace in a child process. Returns false with errno set if no process can be made. */
static bool run_in_child(const struct source *source, uint32_t rounds, bool looks, struct host_result *result)
{
    const char *const name = result->name;
    int ends[2];
    if (pipe(ends) != 0) {
        return false;
    }
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0 && source->self != NULL) {
        start_self(source, rounds, looks, name, ends[1]);
    }
    if (child == 0) {
        struct run run = {.trace = source->trace, .rounds = rounds, .looks = looks, .result = result};
        play(&run);
        const bool written = write(ends[1], result, sizeof(*result)) == (ssize_t)sizeof(*result);
        _exit(written ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    const int why = errno;
    (void)close(ends[1]);
    if (child < 0) {
        (void)close(ends[0]);
        errno = why;
        return false;
    }
    struct host_result read_back;
    int status = 0;
    /* a pipe delivers fewer than PIPE_BUF bytes in one piece or not at all */
    const ssize_t got = read(ends[0], &read_back, sizeof(read_back));
    (void)close(ends[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (got == (ssize_t)sizeof(read_back) && status == 0) {
        *result = read_back;
        result->name = name; /* the child has its own copy */
    } else {
        result->measured = false;
        say_end(result, status);
    }
    return true;
}

static double less(double a, double b)
{
    return a < b ? a : b;
}

/* Fills in the result of one allocator; its name is set. */
static bool measure(const struct source *source, uint32_t rounds, struct host_result *result)
{
    const char *const name = result->name;
    if (!run_in_child(source, rounds, false, result)) {
        return false;
    }
    for (int i = 1; i < cost_runs && result->measured; i++) {
        struct host_result again = {.name = name};
        if (!run_in_child(source, rounds, false, &again)) {
            return false;
        }
        result->first.cpu_ms = less(result->first.cpu_ms, again.first.cpu_ms);
        result->later.cpu_ms = less(result->later.cpu_ms, again.later.cpu_ms);
    }
    struct host_result looked = {.name = name};
    if (result->measured && !run_in_child(source, rounds, true, &looked)) {
        return false;
    }
    result->resident_bytes = looked.resident_bytes;
    const uint32_t later = rounds > 1 ? rounds - 1 : 1;
    result->later.faults /= later;
    result->later.cpu_ms /= later;
    return true;
}

/* --- all allocators --- */

static bool measure_all(struct source *source, uint32_t rounds, struct host_replay *replay)
{
    bool done = source->self == NULL || open_source(source);
    for (size_t i = 0; i < replay->result_count && done; i++) {
        done = measure(source, rounds, &replay->results[i]);
    }
    const int why = errno;
    if (source->file >= 0) {
        (void)close(source->file);
    }
    errno = why;
    return done;
}

bool host_replay_run(const struct trace *trace, uint32_t rounds, const char *self, struct host_replay *replay,
                     char *error, size_t error_size)
{
    const uint64_t available = kilobytes_of("/proc/meminfo", "\nMemAvailable:");
    *replay = (struct host_replay){.rounds = rounds};
    if (!live_peak(trace, LIVE_ON_HOST, &replay->peak_live_bytes)) {
        (void)snprintf(error, error_size, "no host memory");
        return false;
    }
    if (available != 0 && replay->peak_live_bytes > available / 3) {
        (void)snprintf(error, error_size,
                       "host allocators are measured with real memory, up to three times the peak of %llu bytes; this "
                       "machine has %llu available",
                       (unsigned long long)replay->peak_live_bytes, (unsigned long long)available);
        return false;
    }
    replay->results[replay->result_count++].name = "heap";
    for (size_t i = 0; malloc_names[i] != NULL; i++) {
        replay->results[replay->result_count++].name = malloc_names[i];
    }
    struct source source = {.trace = trace, .self = self, .file = -1};
    if (!measure_all(&source, rounds, replay)) {
        (void)snprintf(error, error_size, "no process for a host allocator: %s", strerror(errno));
        return false;
    }
    return true;
}
