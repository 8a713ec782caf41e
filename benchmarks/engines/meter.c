/* meter.c: see meter.h. Reads downwards: counting, one side in its process, both sides, the table, the options. */
#include "engines/meter.h"

#include "engines/outside.h"

#include <weir/trace.h>

#include <errno.h>
#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* --- counting --- */

/* Hash table of the sizes of weir's live blocks by address, with linear probing. It lies in a separate mapping, so that
 * its memory is not counted as the engine's. Invariant: used <= capacity / 2. */
struct entry {
    const void *block; /* NULL = free */
    uint64_t size;
    bool long_lived;
};

static struct {
    pthread_mutex_t lock;
    atomic_bool on;
    struct entry *entries;
    size_t capacity; /* a power of two, or 0 */
    size_t used;
    struct meter_counts counts;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t slot_of(const void *block)
{
    return (size_t)(((uint64_t)(uintptr_t)block >> 6) * UINT64_C(0x9E3779B97F4A7C15) >> 20) & (table.capacity - 1);
}

static struct entry *find_locked(const void *block)
{
    if (table.capacity == 0) {
        return NULL;
    }
    for (size_t i = slot_of(block);; i = (i + 1) & (table.capacity - 1)) {
        if (table.entries[i].block == block) {
            return &table.entries[i];
        }
        if (table.entries[i].block == NULL) {
            return NULL;
        }
    }
}

static void put_locked(struct entry entry)
{
    size_t i = slot_of(entry.block);
    while (table.entries[i].block != NULL) {
        i = (i + 1) & (table.capacity - 1);
    }
    table.entries[i] = entry;
    table.used++;
}

static void grow_locked(void)
{
    struct entry *old = table.entries;
    const size_t old_capacity = table.capacity;
    const size_t capacity = old_capacity == 0 ? 4096 : old_capacity * 2;
    void *fresh =
        mmap(NULL, capacity * sizeof(struct entry), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED) {
        perror("meter: no memory to count with");
        abort();
    }
    table.entries = fresh;
    table.capacity = capacity;
    table.used = 0;
    for (size_t i = 0; i < old_capacity; i++) {
        if (old[i].block != NULL) {
            put_locked(old[i]);
        }
    }
    if (old != NULL) {
        (void)munmap(old, old_capacity * sizeof(struct entry));
    }
}

static void take_locked(struct entry *entry)
{
    table.counts.live_bytes -= entry->size;
    if (entry->long_lived) {
        table.counts.long_lived_bytes -= entry->size;
    }
    /* Fills the hole that the removed entry leaves: moves later entries into it, except those that would come before
     * their own hash position. */
    const size_t mask = table.capacity - 1;
    size_t hole = (size_t)(entry - table.entries);
    for (size_t i = (hole + 1) & mask; table.entries[i].block != NULL; i = (i + 1) & mask) {
        const size_t home = slot_of(table.entries[i].block);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            table.entries[hole] = table.entries[i];
            hole = i;
        }
    }
    table.entries[hole].block = NULL;
    table.used--;
}

static void add_locked(const void *block, uint64_t size, bool long_lived)
{
    if ((table.used + 1) * 2 > table.capacity) {
        grow_locked();
    }
    put_locked((struct entry){block, size, long_lived});
    struct meter_counts *counts = &table.counts;
    counts->weir.requests++;
    counts->weir.bytes += size;
    if (size >= METER_LARGE_BYTES) {
        counts->weir.large_requests++;
        counts->weir.large_bytes += size;
    }
    if (size > counts->weir.largest) {
        counts->weir.largest = size;
    }
    counts->live_bytes += size;
    if (counts->live_bytes > counts->peak_live_bytes) {
        counts->peak_live_bytes = counts->live_bytes;
    }
    if (long_lived) {
        counts->long_lived_bytes += size;
    }
}

static void note_alloc(const void *block, uint64_t size, bool long_lived)
{
    if (block == NULL || !atomic_load_explicit(&table.on, memory_order_relaxed)) {
        return;
    }
    (void)pthread_mutex_lock(&table.lock);
    add_locked(block, size, long_lived);
    (void)pthread_mutex_unlock(&table.lock);
}

/* Counts a free. The caller must call this before it frees the block, because another thread may get the address of a
 * freed block at once. Returns true if the block was long-lived. */
static bool note_free(const void *block)
{
    if (block == NULL || !atomic_load_explicit(&table.on, memory_order_relaxed)) {
        return false;
    }
    (void)pthread_mutex_lock(&table.lock);
    struct entry *entry = find_locked(block);
    const bool long_lived = entry != NULL && entry->long_lived;
    if (entry != NULL) {
        take_locked(entry);
    }
    (void)pthread_mutex_unlock(&table.lock);
    return long_lived;
}

void meter_count_start(void)
{
    (void)pthread_mutex_lock(&table.lock);
    if (table.entries != NULL) {
        memset(table.entries, 0, table.capacity * sizeof(struct entry));
    }
    table.used = 0;
    table.counts = (struct meter_counts){0};
    (void)pthread_mutex_unlock(&table.lock);
    outside_start();
    atomic_store(&table.on, true);
}

struct meter_counts meter_count_read(void)
{
    (void)pthread_mutex_lock(&table.lock);
    struct meter_counts counts = table.counts;
    (void)pthread_mutex_unlock(&table.lock);
    counts.outside = outside_read(false);
    counts.bookkeeping = outside_read(true);
    return counts;
}

void meter_count_stop(void)
{
    atomic_store(&table.on, false);
    outside_stop();
}

/* The linker directs every call of weir_heap_X to __wrap_weir_heap_X, and __real_weir_heap_X to the heap. */
void *__real_weir_heap_alloc(weir_heap *heap, size_t size);
void *__real_weir_heap_alloc_aligned(weir_heap *heap, size_t size, size_t align);
void *__real_weir_heap_alloc_long_lived(weir_heap *heap, size_t size, size_t align);
void *__real_weir_heap_realloc(weir_heap *heap, void *block, size_t size);
weir_status __real_weir_heap_free(weir_heap *heap, void *block);
void *__wrap_weir_heap_alloc(weir_heap *heap, size_t size);
void *__wrap_weir_heap_alloc_aligned(weir_heap *heap, size_t size, size_t align);
void *__wrap_weir_heap_alloc_long_lived(weir_heap *heap, size_t size, size_t align);
void *__wrap_weir_heap_realloc(weir_heap *heap, void *block, size_t size);
weir_status __wrap_weir_heap_free(weir_heap *heap, void *block);

void *__wrap_weir_heap_alloc(weir_heap *heap, size_t size)
{
    outside_in_weir++;
    void *block = __real_weir_heap_alloc(heap, size);
    outside_in_weir--;
    note_alloc(block, size, false);
    return block;
}

void *__wrap_weir_heap_alloc_aligned(weir_heap *heap, size_t size, size_t align)
{
    outside_in_weir++;
    void *block = __real_weir_heap_alloc_aligned(heap, size, align);
    outside_in_weir--;
    note_alloc(block, size, false);
    return block;
}

void *__wrap_weir_heap_alloc_long_lived(weir_heap *heap, size_t size, size_t align)
{
    outside_in_weir++;
    void *block = __real_weir_heap_alloc_long_lived(heap, size, align);
    outside_in_weir--;
    note_alloc(block, size, true);
    return block;
}

void *__wrap_weir_heap_realloc(weir_heap *heap, void *block, size_t size)
{
    /* If the realloc fails, the block stays live uncounted. That does no harm: the programs of this folder then end. */
    const bool long_lived = note_free(block);
    outside_in_weir++;
    void *moved = __real_weir_heap_realloc(heap, block, size);
    outside_in_weir--;
    note_alloc(moved, size, long_lived);
    return moved;
}

weir_status __wrap_weir_heap_free(weir_heap *heap, void *block)
{
    (void)note_free(block);
    outside_in_weir++;
    const weir_status status = __real_weir_heap_free(heap, block);
    outside_in_weir--;
    return status;
}

uint64_t meter_digest(uint64_t digest, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    for (; size >= sizeof(uint64_t); size -= sizeof(uint64_t), at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, at, sizeof(word));
        digest = (digest ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        digest ^= digest >> 29;
    }
    for (; size > 0; size--, at++) {
        digest = (digest ^ *at) * UINT64_C(0x100000001B3);
    }
    return digest;
}

uint64_t meter_cpu_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- one side, in its process --- */

/* Results of one side (the engine with its own allocator, or with weir) in its counted round. The side's process writes
 * them to the pipe, followed by a digest of the outputs of each inference. */
struct report {
    struct meter_counts ready; /* after open */
    struct meter_counts round; /* counts of requests from before open to the end of the first round */
    weir_heap_stats heap;
    uint64_t resident_before; /* resident bytes of the process before open */
    uint64_t resident_peak;   /* highest resident bytes of the process since it began */
};

/* Returns the value of a line of /proc/self/status in bytes, without malloc; 0 if there is no such line. */
static uint64_t status_bytes(const char *name)
{
    char text[4096];
    const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return 0;
    }
    const ssize_t got = read(file, text, sizeof(text) - 1);
    (void)close(file);
    if (got <= 0) {
        return 0;
    }
    text[got] = '\0';
    const char *line = strstr(text, name);
    return line == NULL ? 0 : strtoull(line + strlen(name), NULL, 10) * 1024;
}

/* Runs all steps once. */
static bool run_round(const struct meter_engine *engine, uint64_t *digests)
{
    for (size_t i = 0; i < engine->steps; i++) {
        if (!engine->step(engine->ctx, i, digests == NULL ? NULL : &digests[i])) {
            return false;
        }
    }
    return true;
}

/* Runs all steps once; *taken becomes the processor time in nanoseconds. Not inlined, so that callgrind can collect
 * inside it. */
__attribute__((noinline)) static bool meter_round(const struct meter_engine *engine, uint64_t *taken)
{
    const uint64_t start = meter_cpu_ns();
    const bool done = run_round(engine, NULL);
    *taken = meter_cpu_ns() - start;
    return done;
}

static bool tell(int to, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        const ssize_t put = write(to, at, size);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return false;
        }
        at += put;
        size -= (size_t)put;
    }
    return true;
}

static bool hear(int from, void *bytes, size_t size)
{
    char *at = bytes;
    while (size > 0) {
        const ssize_t got = read(from, at, size);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        at += got;
        size -= (size_t)got;
    }
    return true;
}

static bool is_fine(weir_status status, const char *what)
{
    if (status != WEIR_OK) {
        (void)fprintf(stderr, "%s: %s\n", what, weir_status_text(status));
    }
    return status == WEIR_OK;
}

/* Runs all steps once and records the requests in a file, which begins with the blocks that are live already. */
static bool record_round(const struct meter_engine *engine, const char *path, uint64_t *digests)
{
    weir_heap *heap = engine->heap(engine->ctx);
    weir_recorder *recorder = NULL;
    if (!is_fine(weir_recorder_create_file(path, engine->name, &recorder), path)) {
        return false;
    }
    const bool recording = is_fine(weir_heap_record(heap, recorder), "weir_heap_record");
    const bool done = recording && run_round(engine, digests);
    const bool ended = !recording || is_fine(weir_heap_record(heap, NULL), "weir_heap_record");
    return is_fine(weir_recorder_stop(recorder, NULL), path) && ended && done;
}

static bool count_round(const struct meter_engine *engine, enum meter_side side, const char *record,
                        struct report *report, uint64_t *digests)
{
    report->heap = (weir_heap_stats)WEIR_HEAP_STATS_INIT;
    report->resident_before = status_bytes("VmRSS:");
    meter_count_start();
    if (!engine->open(engine->ctx, side)) {
        return false;
    }
    report->ready = meter_count_read();
    const bool done =
        side == METER_WEIR && record != NULL ? record_round(engine, record, digests) : run_round(engine, digests);
    report->round = meter_count_read();
    meter_count_stop();
    report->resident_peak = status_bytes("VmHWM:");
    if (done && side == METER_WEIR && weir_heap_get_stats(engine->heap(engine->ctx), &report->heap) != WEIR_OK) {
        return false;
    }
    return done;
}

/* Runs in the process of one side (own allocator or weir): a counted round, then one timed round for each byte that it
 * reads from the pipe `from`. Returns at the end of file. */
static int serve(const struct meter_engine *engine, enum meter_side side, const char *record, int from, int to)
{
    struct report report = {0};
    uint64_t *digests = calloc(engine->steps, sizeof(*digests));
    char command;
    if (digests == NULL || !hear(from, &command, 1) || !count_round(engine, side, record, &report, digests) ||
        !tell(to, &report, sizeof(report)) || !tell(to, digests, engine->steps * sizeof(*digests))) {
        return EXIT_FAILURE;
    }
    free(digests);
    while (hear(from, &command, 1)) {
        uint64_t taken;
        if (!meter_round(engine, &taken) || !tell(to, &taken, sizeof(taken))) {
            return EXIT_FAILURE;
        }
    }
    return engine->close(engine->ctx) ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* --- both sides --- */

static const char *const side_names[] = {"own", "weir"};

struct side {
    pid_t process;
    int to, from;
    struct report report;
    uint64_t *digests;
    uint64_t *times; /* nanoseconds of the timed rounds */
};

/* Building a model leaves free memory in malloc. If the engine's own allocator used this memory, the measured growth of
 * the process would be too small. */
static void trim_malloc(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

static bool side_start(const struct meter_engine *engine, enum meter_side which, const char *record, struct side *sides)
{
    struct side *side = &sides[which];
    int down[2];
    int up[2];
    if (pipe(down) != 0 || pipe(up) != 0) {
        return false;
    }
    (void)fflush(NULL);
    trim_malloc();
    side->process = fork();
    if (side->process == 0) {
        (void)close(down[1]);
        (void)close(up[0]);
        /* closes the first side's pipe ends, inherited by fork: while they are open, that side gets no end of file */
        if (which == METER_WEIR) {
            (void)close(sides[METER_OWN].to);
            (void)close(sides[METER_OWN].from);
        }
        const int status = serve(engine, which, record, down[0], up[1]);
        (void)fflush(NULL);
        _exit(status);
    }
    (void)close(down[0]);
    (void)close(up[1]);
    side->to = down[1];
    side->from = up[0];
    return side->process > 0;
}

static bool side_count(struct side *side, size_t steps)
{
    return tell(side->to, "", 1) && hear(side->from, &side->report, sizeof(side->report)) &&
           hear(side->from, side->digests, steps * sizeof(*side->digests));
}

static bool side_time(struct side *side, uint64_t *taken)
{
    return tell(side->to, "", 1) && hear(side->from, taken, sizeof(*taken));
}

static bool side_end(struct side *side)
{
    int status = 0;
    (void)close(side->to);
    const bool ended =
        waitpid(side->process, &status, 0) == side->process && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
    (void)close(side->from);
    return ended;
}

static bool both_run(struct side sides[2], size_t steps, size_t rounds)
{
    for (int i = METER_OWN; i <= METER_WEIR; i++) {
        uint64_t warm;
        if (!side_count(&sides[i], steps) || (rounds > 0 && !side_time(&sides[i], &warm))) {
            return false;
        }
    }
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < 2; i++) {
            struct side *side = &sides[(round + i) % 2]; /* the sides alternate in running first */
            if (!side_time(side, &side->times[round])) {
                return false;
            }
        }
    }
    return true;
}

/* --- the table --- */

static int by_value(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Sorts the values and returns the quantile `part`, from 0 to 1. */
static double quantile(double *values, size_t count, double part)
{
    qsort(values, count, sizeof(*values), by_value);
    const double at = part * (double)(count - 1);
    const size_t low = (size_t)at;
    const size_t high = low + 1 < count ? low + 1 : low;
    return values[low] + (at - (double)low) * (values[high] - values[low]);
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1024.0 * 1024.0);
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0.0 : 100.0 * (double)part / (double)whole;
}

/* Prints a line of the table. */
__attribute__((format(printf, 2, 3))) static void row(const char *name, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    (void)printf("  %-27s ", name);
    (void)vprintf(format, values);
    (void)printf("\n");
    va_end(values);
}

static void print_memory(const struct side sides[2], size_t steps)
{
    const struct report *own = &sides[METER_OWN].report;
    const struct report *weir = &sides[METER_WEIR].report;
    const struct meter_counts *ready = &weir->ready;
    const struct meter_counts *all = &weir->round;
    const uint64_t large = all->weir.large_bytes - ready->weir.large_bytes;
    const uint64_t past = all->outside.large_bytes - ready->outside.large_bytes;
    const uint64_t past_blocks = all->outside.large_requests - ready->outside.large_requests;
    const double held = mib(weir->heap.peak_held_bytes);
    const double live = mib(all->peak_live_bytes);
    row("once opened", "%.2f MiB long-lived from weir", mib(ready->long_lived_bytes));
    row("while it opens", "%.2f MiB from weir, %.2f MiB from malloc", mib(ready->weir.bytes),
        mib(ready->outside.bytes));
    row("each inference", "%.1f requests, %.2f MiB; the largest %.2f MiB",
        (double)(all->weir.requests - ready->weir.requests) / (double)steps,
        mib(all->weir.bytes - ready->weir.bytes) / (double)steps, mib(all->weir.largest));
    row("blocks of 4 KiB and more", "%.3f %% of their bytes from weir; past it %llu blocks, %.1f KiB",
        percent(large, large + past), (unsigned long long)past_blocks, (double)past / 1024.0);
    row("peak live, as requested", "%.2f MiB", live);
    row("peak held", "%.2f MiB, %.3f of peak live", held, live > 0.0 ? held / live : 0.0);
    row("weir's bookkeeping", "%.2f MiB asked of malloc", mib(all->bookkeeping.bytes));
    row("resident peak, process", "own %.1f MiB, weir %.1f MiB above its start",
        mib(own->resident_peak - own->resident_before), mib(weir->resident_peak - weir->resident_before));
}

static bool print_times(const struct side sides[2], size_t steps, size_t rounds)
{
    double *values = calloc(rounds, sizeof(*values));
    if (values == NULL) {
        return false;
    }
    double median[2];
    for (size_t side = 0; side < 2; side++) {
        for (size_t i = 0; i < rounds; i++) {
            values[i] = (double)sides[side].times[i];
        }
        median[side] = quantile(values, rounds, 0.5) / (double)steps / 1000.0;
    }
    for (size_t i = 0; i < rounds; i++) {
        values[i] = (double)sides[METER_WEIR].times[i] / (double)sides[METER_OWN].times[i];
    }
    const double low = quantile(values, rounds, 0.25);
    const double middle = quantile(values, rounds, 0.5);
    const double high = quantile(values, rounds, 0.75);
    row("processor time", "own %.0f us, weir %.0f us an inference, medians of %zu rounds", median[METER_OWN],
        median[METER_WEIR], rounds);
    row("weir / own, round by round", "%.3f, the middle half %.3f to %.3f", middle, low, high);
    free(values);
    return true;
}

static size_t differing(const struct side sides[2], size_t steps)
{
    size_t count = 0;
    for (size_t i = 0; i < steps; i++) {
        count += sides[0].digests[i] != sides[1].digests[i];
    }
    return count;
}

static bool print_all(const struct meter_engine *engine, const struct side sides[2], size_t rounds)
{
    const size_t different = differing(sides, engine->steps);
    (void)printf("%s: %zu inferences a round\n", engine->name, engine->steps);
    if (different == 0) {
        row("outputs", "identical, bit by bit");
    } else {
        row("outputs", "%zu of %zu DIFFER", different, engine->steps);
    }
    print_memory(sides, engine->steps);
    const bool timed = rounds == 0 || print_times(sides, engine->steps, rounds);
    (void)fflush(stdout);
    return timed && different == 0;
}

/* --- the program --- */

static int run_both(const struct meter_engine *engine, const struct meter_options *options)
{
    struct side sides[2] = {{.to = -1, .from = -1}, {.to = -1, .from = -1}};
    bool good = true;
    for (int i = METER_OWN; i <= METER_WEIR; i++) {
        sides[i].digests = calloc(engine->steps, sizeof(uint64_t));
        sides[i].times = calloc(options->rounds + 1, sizeof(uint64_t));
        good = good && sides[i].digests != NULL && sides[i].times != NULL &&
               side_start(engine, (enum meter_side)i, options->record, sides);
    }
    good = good && both_run(sides, engine->steps, options->rounds);
    for (int i = METER_OWN; i <= METER_WEIR; i++) {
        if (sides[i].process > 0 && !side_end(&sides[i])) {
            (void)fprintf(stderr, "%s: side \"%s\" failed\n", engine->name, side_names[i]);
            good = false;
        }
    }
    good = good && print_all(engine, sides, options->rounds);
    for (int i = METER_OWN; i <= METER_WEIR; i++) {
        free(sides[i].digests);
        free(sides[i].times);
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Figures of a side alone. */
struct alone {
    uint64_t resident[3]; /* resident bytes: before open, at the peak, after the last round */
    uint64_t faults[3];   /* page faults: before open, after the first round, after the last round */
    uint64_t digest;      /* digest of all outputs of the first round */
    double *times;        /* nanoseconds of the timed rounds */
};

static uint64_t page_faults(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
}

static bool measure_alone(const struct meter_engine *engine, const struct meter_options *options, uint64_t *digests,
                          struct alone *alone)
{
    trim_malloc();
    alone->resident[0] = status_bytes("VmRSS:");
    alone->faults[0] = page_faults();
    if (!engine->open(engine->ctx, options->side) || !run_round(engine, digests)) {
        return false;
    }
    alone->faults[1] = page_faults();
    for (size_t i = 0; i < options->rounds; i++) {
        uint64_t taken;
        if (!meter_round(engine, &taken)) {
            return false;
        }
        alone->times[i] = (double)taken;
    }
    alone->faults[2] = page_faults();
    alone->resident[1] = status_bytes("VmHWM:");
    alone->resident[2] = status_bytes("VmRSS:");
    alone->digest = meter_digest(0, digests, engine->steps * sizeof(*digests));
    return engine->close(engine->ctx);
}

static void print_alone(const struct meter_engine *engine, const struct meter_options *options, struct alone *alone)
{
    (void)printf("%s, %s: %zu inferences a round\n", engine->name, side_names[options->side], engine->steps);
    row("outputs", "%016llx", (unsigned long long)alone->digest);
    row("malloc", "%s", outside_malloc());
    row("resident, process", "%.1f MiB at first, %.1f at the peak, %.1f at the end", mib(alone->resident[0]),
        mib(alone->resident[1]), mib(alone->resident[2]));
    row("page faults", "%llu in opening and the first round",
        (unsigned long long)(alone->faults[1] - alone->faults[0]));
    if (options->rounds > 0) {
        const double later = (double)(alone->faults[2] - alone->faults[1]) / (double)options->rounds;
        row("page faults, later", "%.0f a round", later);
        row("processor time", "%.2f ms a round, least %.2f, of %zu rounds",
            quantile(alone->times, options->rounds, 0.5) / 1e6, quantile(alone->times, options->rounds, 0.0) / 1e6,
            options->rounds);
    }
}

static int run_alone(const struct meter_engine *engine, const struct meter_options *options)
{
    uint64_t *digests = calloc(engine->steps, sizeof(*digests));
    struct alone alone = {.times = calloc(options->rounds + 1, sizeof(*alone.times))};
    const bool good = digests != NULL && alone.times != NULL && measure_alone(engine, options, digests, &alone);
    if (good) {
        print_alone(engine, options, &alone);
    }
    free(alone.times);
    free(digests);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

int meter_run(const struct meter_engine *engine, const struct meter_options *options)
{
    (void)signal(SIGPIPE, SIG_IGN);
    return options->alone ? run_alone(engine, options) : run_both(engine, options);
}

const char *meter_options_help(void)
{
    return "  --rounds N        timed rounds of each side (15); 0: none\n"
           "  --alone own|weir  one side alone in this process: a first round, then the timed ones. Serves for\n"
           "                    comparisons with a preloaded malloc,\n"
           "                    LD_PRELOAD=libjemalloc.so.2 PROGRAM --alone own\n"
           "                    and for callgrind,\n"
           "                    valgrind --tool=callgrind --toggle-collect='meter_round*' PROGRAM "
           "--alone weir --rounds 1\n";
}

int meter_options_take(char **arguments, struct meter_options *options)
{
    const char *name = arguments[0];
    const char *value = name != NULL && arguments[1] != NULL ? arguments[1] : "";
    if (name == NULL) {
        return 0;
    }
    if (strcmp(name, "--rounds") == 0) {
        char *end = NULL;
        const unsigned long rounds = strtoul(value, &end, 10);
        if (*value < '0' || *value > '9' || *end != '\0' || rounds > 100000) {
            (void)fprintf(stderr, "--rounds wants a number up to 100000, not \"%s\"\n", value);
            return -1;
        }
        options->rounds = rounds;
        return 2;
    }
    if (strcmp(name, "--record") == 0) {
        if (*value == '\0') {
            (void)fprintf(stderr, "--record wants the name of a file\n");
            return -1;
        }
        options->record = value;
        return 2;
    }
    if (strcmp(name, "--alone") == 0) {
        if (strcmp(value, "own") != 0 && strcmp(value, "weir") != 0) {
            (void)fprintf(stderr, "--alone wants own or weir, not \"%s\"\n", value);
            return -1;
        }
        options->alone = true;
        options->side = strcmp(value, "weir") == 0 ? METER_WEIR : METER_OWN;
        return 2;
    }
    return 0;
}

int meter_main(const char *program, const struct meter_engine *engine, int argc, char **argv)
{
    struct meter_options options = METER_OPTIONS_INIT;
    int taken = 0;
    int i = 1;
    while (i < argc && (taken = meter_options_take(argv + i, &options)) > 0) {
        i += taken;
    }
    if (i < argc) {
        (void)fprintf(stderr, "usage: %s [options]\n%s", program, meter_options_help());
        return 2;
    }
    return meter_run(engine, &options);
}
