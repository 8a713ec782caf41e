/* output_host.c: see output_host.h. */
#include "output_host.h"

#include "json.h"
#include "units.h"

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
