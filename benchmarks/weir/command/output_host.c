/* output_host.c: see output_host.h. */
#include "output_host.h"

#include "json.h"
#include "trace/clean_text.h"
#include "units.h"

#include <string.h>

#define FIGURE_TEXT 32

/* Formats a number, or "-" if it is not known. */
static const char *figure(char *text, bool known, int decimals, double value)
{
    if (known) {
        (void)snprintf(text, FIGURE_TEXT, "%.*f", decimals, value);
    } else {
        (void)snprintf(text, FIGURE_TEXT, "-");
    }
    return text;
}

static void print_measured(FILE *out, const struct host_replay *replay, const struct host_result *result, bool timing)
{
    char text[4][FIGURE_TEXT];
    char size[2][UNIT_TEXT];
    char count[2][UNIT_TEXT];
    const bool later = replay->rounds > 1;
    const double live = (double)(replay->peak_live_bytes != 0 ? replay->peak_live_bytes : 1);
    (void)fprintf(
        out, "  %-13s %11s %6s %12s %6s %10s %10s %9s %9s\n", result->name,
        result->held_bytes != 0 ? format_size(size[0], result->held_bytes) : "-",
        figure(text[0], result->held_bytes != 0, 3, (double)result->held_bytes / live),
        format_size(size[1], result->resident_bytes), figure(text[1], true, 3, (double)result->resident_bytes / live),
        format_count(count[0], result->first.faults), later ? format_count(count[1], result->later.faults) : "-",
        figure(text[2], timing, 1, result->first.cpu_ms), figure(text[3], timing && later, 2, result->later.cpu_ms));
}

void output_host_table(FILE *out, const struct host_replay *replay, bool timing)
{
    char size[UNIT_TEXT];
    (void)fprintf(out, "  host allocators, measured in %u round%s with one thread: peak live %s\n", replay->rounds,
                  replay->rounds == 1 ? "" : "s", format_size(size, replay->peak_live_bytes));
    (void)fprintf(out, "  %-13s %11s %6s %12s %6s %10s %10s %9s %9s\n", "allocator", "held", "/live", "resident",
                  "/live", "faults", "later", "CPU ms", "later");
    for (size_t i = 0; i < replay->result_count; i++) {
        const struct host_result *result = &replay->results[i];
        if (result->measured) {
            print_measured(out, replay, result, timing);
        } else {
            (void)fprintf(out, "  %-13s not measured: %s\n", result->name, result->why);
        }
    }
}

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *cost_json(const struct host_cost *cost, bool known, bool timing)
{
    return known ? json_pack("{s:o, s:o}", "faults", number(cost->faults), "cpu_ms",
                             timing ? json_real(cost->cpu_ms) : json_null())
                 : json_null();
}

static json_t *result_json(const struct host_replay *replay, const struct host_result *result, bool timing)
{
    if (!result->measured) {
        return json_pack("{s:s, s:o}", "allocator", result->name, "not_measured", json_text(result->why));
    }
    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "allocator", result->name, "peak_held_bytes",
                     result->held_bytes != 0 ? number(result->held_bytes) : json_null(), "peak_resident_bytes",
                     number(result->resident_bytes), "first_round", cost_json(&result->first, true, timing),
                     "later_rounds", cost_json(&result->later, replay->rounds > 1, timing));
}

json_t *output_host_json(const struct host_replay *replay, bool timing)
{
    json_t *results = json_array();
    for (size_t i = 0; i < replay->result_count; i++) {
        (void)json_array_append_new(results, result_json(replay, &replay->results[i], timing));
    }
    return json_pack("{s:o, s:o, s:o}", "rounds", number(replay->rounds), "peak_live_bytes",
                     number(replay->peak_live_bytes), "results", results);
}

/* --- advice --- */

static const struct host_result *row_of(const struct host_replay *replay, const char *name)
{
    for (size_t i = 0; i < replay->result_count; i++) {
        if (strcmp(replay->results[i].name, name) == 0) {
            return &replay->results[i];
        }
    }
    return NULL;
}

/* Returns the allocator with the least resident memory; glibc unless another saves a hundredth, the error of a
 * measurement. */
static const struct host_result *least(const struct host_replay *replay)
{
    const struct host_result *best = row_of(replay, "glibc");
    for (size_t i = 0; i < replay->result_count; i++) {
        const struct host_result *one = &replay->results[i];
        const uint64_t bytes = best->resident_bytes;
        if (one->measured && (!best->measured || one->resident_bytes < bytes - bytes / 100)) {
            best = one;
        }
    }
    return best;
}

/* Returns the library that puts an allocator in the place of malloc; NULL: none of another project. */
static const char *library_of(const char *name)
{
    static const char *const libraries[][2] = {
        {"jemalloc", "libjemalloc.so.2"}, {"mimalloc", "libmimalloc.so.2"}, {"tcmalloc", "libtcmalloc_minimal.so.4"}};
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        if (strcmp(libraries[i][0], name) == 0) {
            return libraries[i][1];
        }
    }
    return NULL;
}

static void say_advice(const struct host_replay *replay, char *text, size_t size)
{
    char bytes[2][UNIT_TEXT];
    const struct host_result *best = least(replay);
    const struct host_result *glibc = row_of(replay, "glibc");
    if (!best->measured) {
        (void)snprintf(text, size, "No allocator could be measured: %s", best->why);
    } else if (best == glibc) {
        (void)snprintf(text, size, "Leave the malloc as it is: no other saves a hundredth of the %s that glibc takes",
                       format_size(bytes[0], glibc->resident_bytes));
    } else {
        (void)snprintf(text, size, "Use %s: this run then takes %s resident, not %s as with glibc",
                       strcmp(best->name, "heap") == 0 ? "weir's heap" : best->name,
                       format_size(bytes[0], best->resident_bytes), format_size(bytes[1], glibc->resident_bytes));
    }
}

/* The limit is the most that the heap held, in whole MiB. */
static void print_heap_lines(FILE *out, uint64_t held_bytes)
{
    const unsigned long long mib = (held_bytes + (UINT64_C(1) << 20) - 1) >> 20;
    (void)fprintf(out,
                  "\nweir's heap: for an unchanged program, and with a limit that holds this run\n"
                  "  weir run -- PROGRAM\n"
                  "  weir run --limit %lluMiB -- PROGRAM\n"
                  "  export LD_PRELOAD=libweir_preload.so WEIR_PRELOAD_LIMIT=%llu    # with the path of the library\n"
                  "weir's heap: in C\n"
                  "  weir_heap_config config = WEIR_HEAP_CONFIG_INIT;\n"
                  "  config.limit_bytes = UINT64_C(%llu);\n",
                  mib, mib << 20, mib << 20);
}

void output_host_advice(FILE *out, const struct trace *trace, const struct host_replay *replay)
{
    char text[512];
    const struct host_result *heap = row_of(replay, "heap");
    const char *library = library_of(least(replay)->name);
    say_advice(replay, text, sizeof(text));
    (void)fprintf(out, "%s.\n\n", text);
    clean_print(out, trace->path, strlen(trace->path));
    (void)fputc('\n', out);
    output_host_table(out, replay, true);
    if (heap->measured) {
        print_heap_lines(out, heap->held_bytes);
    }
    if (library != NULL) {
        (void)fprintf(out, "\n%s\n  export LD_PRELOAD=%s\n", least(replay)->name, library);
    }
}

json_t *output_host_advice_json(const struct trace *trace, const struct host_replay *replay)
{
    char text[512];
    say_advice(replay, text, sizeof(text));
    return json_pack("{s:o, s:o, s:s, s:o}", "trace", json_text(trace->path), "advice", json_text(text), "best",
                     least(replay)->name, "host", output_host_json(replay, true));
}
