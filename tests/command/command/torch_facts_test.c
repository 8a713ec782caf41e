/* torch_facts_test.c: the model of PyTorch's allocator answers as PyTorch's and torch_npu's own code did. The file
 * torch_facts.txt has a line for each recording and text of settings: the peaks of reserved and live bytes, how many
 * segments and mappings were taken and returned, a hash of all addresses and the event at which memory ran out. An
 * address counts as the number of its segment or mapping, in the order in which the device gave them, and the offset
 * in it.
 *
 *     test_command_torch_facts [--answer] [FILE]
 *
 * --answer prints what the linked model answers in place of comparing: the file was made this way, by a program in
 * which the functions of torch_heap.h called the code of PyTorch. */
#include "replay/replay.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { most_text = 1024 };

/* A line: what was asked, and the answer. */
struct fact {
    char recording[128];
    char settings[512];
    uint64_t capacity_mib; /* of the device; 0: as the recording says */
    char answer[256];
};

struct sums {
    unsigned compared;
    unsigned missing; /* lines whose recording is not there */
    unsigned failures;
};

/* --- the answer of the linked model --- */

/* Returns the last region that was there at an event and has the address; -1: none. */
static int64_t region_of(const struct replay_result *result, uint64_t address, int64_t event)
{
    for (size_t i = result->region_count; i-- > 0;) {
        const struct replay_region *region = &result->regions[i];
        if (region->added <= event && (region->removed < 0 || region->removed >= event) && address >= region->address &&
            address - region->address < region->size) {
            return (int64_t)i;
        }
    }
    return -1;
}

static uint64_t mixed(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

static uint64_t hash_places(const struct trace *trace, const struct replay_result *result)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        const bool prior = event->event.kind == WEIR_TRACE_PRIOR;
        if (!prior && event->event.kind != WEIR_TRACE_ALLOC && event->event.kind != WEIR_TRACE_REALLOC) {
            continue;
        }
        const uint64_t address = result->places[event->index].address;
        const int64_t number = prior ? -1 : (int64_t)trace_event_number(trace, i);
        const int64_t region = address != 0 ? region_of(result, address, number) : -1;
        hash = mixed(hash, event->index);
        hash = mixed(hash, (uint64_t)region);
        hash = mixed(hash, region >= 0 ? address - result->regions[region].address : 0);
    }
    return hash;
}

static bool answer(const struct trace *trace, const struct fact *fact, char *text, size_t size)
{
    struct pytorch_settings_error wrong = {.text = ""};
    struct replay_strategy *row = replay_strategy_with_settings(fact->settings, strlen(fact->settings), &wrong);
    const struct replay_options options = {
        .capacity = fact->capacity_mib << 20, .no_timing = true, .no_audit = true, .history = true};
    struct replay_result result;
    char error[512] = "";
    if (row == NULL) {
        printf("FAILED %s: %s\n", fact->settings, wrong.text);
        return false;
    }
    const bool done = replay_run(trace, row, row->settings->pad_bytes, &options, &result, error, sizeof(error));
    if (done) {
        char died[32] = "-";
        if (result.oom.happened) {
            (void)snprintf(died, sizeof(died), "%" PRIu64, result.oom.event);
        }
        size_t returned = 0;
        for (size_t i = 0; i < result.region_count; i++) {
            returned += result.regions[i].removed >= 0 ? 1 : 0;
        }
        (void)snprintf(text, size, "%" PRIu64 " %" PRIu64 " %zu %zu %016" PRIx64 " %s", result.peak_reserved_bytes,
                       result.peak_live_bytes, result.region_count, returned, hash_places(trace, &result), died);
        replay_result_free(&result);
    } else {
        printf("FAILED %s %s: %s\n", fact->recording, fact->settings, error);
    }
    free(row);
    return done;
}

/* --- random programs --- */

/* A program of several streams: a recording has one. It allocates and frees blocks of all sizes, uses blocks on other
 * streams, queues work, and sometimes empties the cache. */
struct program {
    uint64_t state;
    char text[1 << 16];
    size_t length;
    unsigned live[48];    /* numbers of blocks */
    unsigned streams[48]; /* theirs */
    unsigned live_count;
    unsigned blocks;
};

static unsigned chance(struct program *program, unsigned below)
{
    program->state = program->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(program->state >> 33) % below;
}

__attribute__((format(printf, 2, 3))) static void line_of(struct program *program, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const size_t room = sizeof(program->text) - program->length;
    const int length = vsnprintf(program->text + program->length, room, format, arguments);
    va_end(arguments);
    program->length += length > 0 && (size_t)length < room ? (size_t)length : 0;
}

static uint64_t random_size(struct program *program)
{
    static const unsigned kib[] = {4, 64, 1024, 4096, 12288, 65536};
    return ((uint64_t)chance(program, kib[chance(program, 6)] * 16) + 1) * 64;
}

static void random_event(struct program *program)
{
    const unsigned kind = chance(program, 100);
    const unsigned chosen = program->live_count > 0 ? chance(program, program->live_count) : 0;
    if (program->live_count == 0 || (kind < 46 && program->live_count < 48)) {
        const unsigned stream = chance(program, 4) == 0 ? chance(program, 3) : 0;
        program->live[program->live_count] = program->blocks;
        program->streams[program->live_count++] = stream;
        line_of(program, "a 0 %u %" PRIu64 " %u 0\n", program->blocks++, random_size(program), stream);
    } else if (kind < 84) {
        line_of(program, "f 0 %u %u 0\n", program->live[chosen], program->streams[chosen]);
        program->live[chosen] = program->live[--program->live_count];
        program->streams[chosen] = program->streams[program->live_count];
    } else if (kind < 92) {
        const unsigned stream = chance(program, 3);
        line_of(program, "u 0 %u %u w\n", program->live[chosen], stream);
        line_of(program, "w 0 %u %u\n", stream, 1 + chance(program, 2000000));
    } else if (kind < 98) {
        line_of(program, "w 0 %u %u\n", chance(program, 3), 1 + chance(program, 500000));
    } else {
        line_of(program, chance(program, 3) == 0 ? "c 0\n" : "y 0 *\n");
    }
}

static struct trace *random_trace(uint64_t seed)
{
    struct trace *trace = NULL;
    struct trace_error error;
    struct program *program = calloc(1, sizeof(*program));
    if (program == NULL) {
        return NULL;
    }
    program->state = seed;
    line_of(program, "#wtr 1\n#clock order\n");
    for (unsigned i = 0; i < 1500; i++) {
        random_event(program);
    }
    if (trace_read_memory("random", program->text, program->length, NULL, &trace, &error) != WEIR_OK) {
        printf("FAILED random-%" PRIu64 ": %s\n", seed, error.message);
    }
    free(program);
    return trace;
}

/* --- recordings --- */

static struct trace *open_recording(const char *name)
{
    static const char *const places[] = {WEIR_BUNDLED_TRACES_DIR "/%s.wtr.xz", WEIR_TRACES_DIR "/pytorch/%s.wtr.xz",
                                         WEIR_TRACES_DIR "/../cases/%s.wtr"};
    if (strncmp(name, "random-", 7) == 0) {
        return random_trace(strtoull(name + 7, NULL, 10));
    }
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char path[most_text];
        struct stat facts;
        struct trace *trace = NULL;
        struct trace_error error;
        const int length = snprintf(path, sizeof(path), places[i], name);
        if (length > 0 && (size_t)length < sizeof(path) && stat(path, &facts) == 0 &&
            trace_read(path, NULL, &trace, &error) == WEIR_OK) {
            return trace;
        }
    }
    return NULL;
}

/* --- the file --- */

/* A line is: recording | settings | capacity in MiB | answer. Returns false for a line without these cells. */
static bool read_fact(char *line, struct fact *fact)
{
    char *cells[4];
    char *at = line;
    line[strcspn(line, "\n")] = '\0';
    for (size_t i = 0; i < 4; i++) {
        cells[i] = at;
        at = strstr(at, " | ");
        if (at == NULL) {
            if (i < 2) {
                return false;
            }
            static char none[] = "";
            cells[3] = i == 3 ? cells[3] : none;
            break;
        }
        *at = '\0';
        at += 3;
    }
    (void)snprintf(fact->recording, sizeof(fact->recording), "%s", cells[0]);
    (void)snprintf(fact->settings, sizeof(fact->settings), "%s", cells[1]);
    (void)snprintf(fact->answer, sizeof(fact->answer), "%s", cells[3]);
    fact->capacity_mib = strtoull(cells[2], NULL, 10);
    return true;
}

static void judge(struct sums *sums, const struct fact *fact, bool answers)
{
    char text[sizeof(fact->answer)] = "";
    struct trace *trace = open_recording(fact->recording);
    if (trace == NULL) {
        sums->missing++;
        return;
    }
    const bool done = answer(trace, fact, text, sizeof(text));
    trace_free(trace);
    sums->compared++;
    if (answers) {
        printf("%s | %s | %" PRIu64 " | %s\n", fact->recording, fact->settings, fact->capacity_mib, text);
    } else if (!done || strcmp(text, fact->answer) != 0) {
        sums->failures++;
        printf("FAILED %s | %s | %" PRIu64 "\n  the program: %s\n  the model:   %s\n", fact->recording, fact->settings,
               fact->capacity_mib, fact->answer, text);
    }
}

int main(int argc, char **argv)
{
    const char *path = WEIR_TORCH_FACTS;
    bool answers = false;
    for (int i = 1; i < argc; i++) {
        answers = answers || strcmp(argv[i], "--answer") == 0;
        path = strcmp(argv[i], "--answer") == 0 ? path : argv[i];
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        printf("FAILED %s cannot be read\n", path);
        return 1;
    }
    struct sums sums = {0};
    char line[most_text];
    while (fgets(line, sizeof(line), file) != NULL) {
        struct fact fact;
        if (line[0] != '#' && read_fact(line, &fact)) {
            judge(&sums, &fact, answers);
        }
    }
    (void)fclose(file);
    if (!answers) {
        printf("%u lines compared, %u differ\n", sums.compared, sums.failures);
    }
    if (sums.failures > 0 || sums.compared == 0) {
        return 1;
    }
    if (sums.missing > 0) {
        printf("skipped: the recordings of %u lines are not in %s; the other lines passed\n", sums.missing,
               WEIR_TRACES_DIR);
        return 77;
    }
    return 0;
}
