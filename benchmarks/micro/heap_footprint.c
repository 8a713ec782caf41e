/* heap_footprint.c: measures the memory that a heap holds beside its live blocks, and its cost, by replaying recorded
 * traffic of engines.
 *
 *     micro_heap_footprint [--rounds N] [--repeat N] [--only NAME] [TRACE...]
 *
 * Each allocator plays each trace in its own process, N rounds in a row (5), single-threaded, and writes a byte into
 * each page of each block. The program prints, over all rounds:
 *
 *     live      peak of the requested live bytes, in MiB
 *     held      the heap's peak_held_bytes over live (weir only)
 *     resident  peak growth of the process's private pages over live (from smaps_rollup, read after each request that
 *               reaches 7/8 of the peak or is the 16th since the last reading)
 *     faults    page faults, in a run without these readings; first round, and mean of the later rounds
 *     CPU ms    processor time of a run without these readings, user and system; the least of --repeat runs (5); first
 *               round, and mean of the later rounds
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir/heap.h>

#include "micro/bench.h"
#include "trace/trace.h"

enum { PAGE = 4096, LOOK_EVERY = 16 };

static uint64_t rounds = 5;
static uint64_t repeat = 5;
static const char *only;

static void require(bool fine, const char *what)
{
    if (!fine) {
        (void)fprintf(stderr, "%s\n", what);
        _exit(EXIT_FAILURE);
    }
}

/* --- allocators --- */

struct player {
    const char *name;
    weir_heap *heap; /* NULL: use the functions */
    struct bench_malloc functions;
};

static void *player_alloc(struct player *player, uint64_t size)
{
    return player->heap != NULL ? weir_heap_alloc(player->heap, size) : player->functions.alloc(size);
}

static void player_free(struct player *player, void *block)
{
    if (player->heap == NULL) {
        player->functions.free(block);
    } else {
        require(weir_heap_free(player->heap, block) == WEIR_OK, "weir_heap_free failed");
    }
}

/* --- memory of the process --- */

static uint64_t private_bytes(void)
{
    char text[4096];
    const int file = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    const ssize_t length = file >= 0 ? read(file, text, sizeof(text) - 1) : -1;
    require(length > 0, "no /proc/self/smaps_rollup");
    (void)close(file);
    text[length] = '\0';
    const char *line = strstr(text, "\nAnonymous:");
    require(line != NULL, "smaps_rollup without Anonymous");
    return strtoull(line + strlen("\nAnonymous:"), NULL, 10) * 1024;
}

struct used {
    uint64_t faults;
    double cpu_ms;
};

static struct used used_now(void)
{
    struct rusage usage;
    require(getrusage(RUSAGE_SELF, &usage) == 0, "getrusage failed");
    return (struct used){.faults = (uint64_t)usage.ru_minflt,
                         .cpu_ms = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
                                   (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3};
}

/* --- one run --- */

struct figures {
    uint64_t live;
    uint64_t held;
    uint64_t resident;
    struct used first;
    struct used others;
};

static void touch(unsigned char *block, uint64_t size)
{
    volatile unsigned char *byte = block;
    for (uint64_t at = 0; at < size; at += PAGE) {
        byte[at] = 1;
    }
}

static uint64_t peak_of(const struct trace *trace, uint64_t *sizes)
{
    uint64_t live = 0;
    uint64_t peak = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        const weir_trace_kind kind = event->event.kind;
        if (kind == WEIR_TRACE_ALLOC || kind == WEIR_TRACE_PRIOR) {
            sizes[event->index] = event->event.size;
            live += event->event.size;
            peak = live > peak ? live : peak;
        } else if (kind == WEIR_TRACE_FREE) {
            live -= sizes[event->index];
        }
    }
    return peak;
}

static void play_round(struct player *player, const struct trace *trace, void **blocks, const uint64_t *sizes,
                       bool looks, uint64_t before, struct figures *figures)
{
    uint64_t live = 0;
    unsigned since = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        const weir_trace_kind kind = event->event.kind;
        if (kind == WEIR_TRACE_ALLOC || kind == WEIR_TRACE_PRIOR) {
            void *block = player_alloc(player, event->event.size);
            require(block != NULL, "out of memory");
            blocks[event->index] = block;
            touch(block, event->event.size);
            live += event->event.size;
            if (looks && (live >= figures->live / 8 * 7 || ++since == LOOK_EVERY)) {
                const uint64_t now = private_bytes() - before;
                figures->resident = now > figures->resident ? now : figures->resident;
                since = 0;
            }
        } else if (kind == WEIR_TRACE_FREE) {
            player_free(player, blocks[event->index]);
            blocks[event->index] = NULL;
            live -= sizes[event->index];
        }
    }
    for (uint32_t i = 0; i < trace->block_count; i++) {
        if (blocks[i] != NULL) {
            player_free(player, blocks[i]);
            blocks[i] = NULL;
        }
    }
}

static struct figures play(struct player *player, const struct trace *trace, bool looks)
{
    void **blocks = calloc(trace->block_count + 1, sizeof(*blocks));
    uint64_t *sizes = calloc(trace->block_count + 1, sizeof(*sizes));
    require(blocks != NULL && sizes != NULL, "no memory");
    struct figures figures = {.live = peak_of(trace, sizes)};
    if (player->heap == NULL && strcmp(player->name, "weir") == 0) {
        require(weir_heap_create(NULL, &player->heap) == WEIR_OK, "weir_heap_create failed");
    }
    for (uint32_t i = 0; i < trace->block_count; i++) {
        blocks[i] = player; /* populates the pages of the table */
    }
    memset(blocks, 0, trace->block_count * sizeof(*blocks));
    const uint64_t before = looks ? private_bytes() : 0;
    struct used last = used_now();
    for (uint64_t round = 0; round < rounds; round++) {
        play_round(player, trace, blocks, sizes, looks, before, &figures);
        const struct used now = used_now();
        struct used *sum = round == 0 ? &figures.first : &figures.others;
        sum->faults += now.faults - last.faults;
        sum->cpu_ms += now.cpu_ms - last.cpu_ms;
        last = now;
    }
    if (player->heap != NULL) {
        weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
        const char *why = "weir_heap_get_stats failed";
        require(weir_heap_get_stats(player->heap, &stats) == WEIR_OK, why);
        require(weir_heap_check(player->heap, &why) == WEIR_OK, why);
        figures.held = stats.peak_held_bytes;
    }
    return figures;
}

/* Plays the trace in a separate process. */
static struct figures run(struct player player, const struct trace *trace, bool looks)
{
    struct figures figures = {0};
    int ends[2];
    require(pipe(ends) == 0, "no pipe");
    (void)fflush(NULL);
    const pid_t child = fork();
    require(child >= 0, "no process");
    if (child == 0) {
        figures = play(&player, trace, looks);
        require(write(ends[1], &figures, sizeof(figures)) == (ssize_t)sizeof(figures), "cannot write");
        _exit(EXIT_SUCCESS);
    }
    (void)close(ends[1]);
    const ssize_t got = read(ends[0], &figures, sizeof(figures));
    (void)close(ends[0]);
    int status = 0;
    require(waitpid(child, &status, 0) == child && got == (ssize_t)sizeof(figures) && status == 0, "a run failed");
    return figures;
}

static void print(const char *path, struct player player, const struct trace *trace)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const int length = (int)strcspn(name, ".");
    struct figures best = run(player, trace, false);
    for (uint64_t i = 1; i < repeat; i++) {
        const struct figures again = run(player, trace, false);
        best.first.cpu_ms = again.first.cpu_ms < best.first.cpu_ms ? again.first.cpu_ms : best.first.cpu_ms;
        best.others.cpu_ms = again.others.cpu_ms < best.others.cpu_ms ? again.others.cpu_ms : best.others.cpu_ms;
    }
    const struct figures looked = run(player, trace, true);
    const double live = (double)best.live;
    const double others = rounds > 1 ? (double)(rounds - 1) : 1;
    (void)printf("%-30.*s %-9s %7.1f", length, name, player.name, live / 0x1p20);
    if (best.held != 0) {
        (void)printf(" %7.3f", (double)best.held / live);
    } else {
        (void)printf(" %7s", "-");
    }
    (void)printf(" %8.3f %8" PRIu64 " %8.0f %8.1f %8.2f\n", (double)looked.resident / live, best.first.faults,
                 (double)best.others.faults / others, best.first.cpu_ms, best.others.cpu_ms / others);
    (void)fflush(stdout);
}

static void print_all(const char *path)
{
    static const char *const names[] = {"weir", "glibc", "jemalloc", "mimalloc", "tcmalloc"};
    struct trace *trace = NULL;
    struct trace_error error;
    if (trace_read(path, NULL, &trace, &error) != WEIR_OK) {
        (void)fprintf(stderr, "%s\n", error.message);
        exit(EXIT_FAILURE);
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct player player = {.name = names[i]};
        const char *why = "";
        if ((only == NULL || strcmp(only, names[i]) == 0) &&
            (i == 0 || bench_malloc_find(names[i], &player.functions, &why))) {
            print(path, player, trace);
        }
    }
    trace_free(trace);
}

static bool take_option(const char *name, const char *value)
{
    if (strcmp(name, "--only") == 0) {
        only = value;
        return true;
    }
    char *end = NULL;
    const uint64_t number = strtoull(value, &end, 10);
    if (*end != '\0' || number == 0) {
        return false;
    }
    if (strcmp(name, "--rounds") == 0) {
        rounds = number;
    } else if (strcmp(name, "--repeat") == 0) {
        repeat = number;
    } else {
        return false;
    }
    return true;
}

int main(int count, char **arguments)
{
    static const char *const bundled[] = {
        "ort_mobilenetv2_dyn_batch_res", "ort_unet_dyn_res",        "ort_resnet18_dyn_weights", "ort_bert6_dyn_seq",
        "ort_gpt6_kvcache_decode",       "xnnpack_mobilenetv2_dyn", "opencv_mobilenetv2_dyn",   "llama_ctx_dyn"};
    int at = 1;
    for (; at < count && arguments[at][0] == '-'; at += 2) {
        if (at + 1 == count || !take_option(arguments[at], arguments[at + 1])) {
            (void)fprintf(stderr, "usage: micro_heap_footprint [--rounds N] [--repeat N] [--only NAME] [TRACE...]\n");
            return EXIT_FAILURE;
        }
    }
    bench_mallocs_prepare(arguments);
    (void)printf("%-30s %-9s %7s %7s %8s %8s %8s %8s %8s\n", "", "", "live", "held", "resident", "faults", "others",
                 "CPU ms", "others");
    for (int i = at; i < count; i++) {
        print_all(arguments[i]);
    }
    for (size_t i = 0; at == count && i < sizeof(bundled) / sizeof(bundled[0]); i++) {
        char path[512];
        (void)snprintf(path, sizeof(path), "%s/%s.wtr.xz", BENCH_TRACES, bundled[i]);
        print_all(path);
    }
    return EXIT_SUCCESS;
}
