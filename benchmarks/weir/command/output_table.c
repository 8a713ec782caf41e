/* output_table.c: prints the table of `weir replay`. */
#include "output.h"
#include "output_host.h"

#include "trace/clean_text.h"
#include "units.h"

#include <stdlib.h>
#include <string.h>

static void print_prices(FILE *out, const struct price_source *prices)
{
    if (prices->file == NULL) {
        (void)fputs("assumed\n", out);
        return;
    }
    (void)fputs("from ", out);
    clean_print(out, prices->file, strlen(prices->file));
    if (prices->assumed > 0) {
        (void)fprintf(out, ", %zu assumed", prices->assumed);
    }
    (void)fputc('\n', out);
}

static void print_heading(FILE *out, const struct comparison *comparison)
{
    const struct trace *trace = comparison->trace;
    char events[UNIT_TEXT];
    char live[UNIT_TEXT];
    (void)fputs(trace->path, out);
    if (output_names_device(trace)) {
        const char *name = trace->devices[trace->device].name;
        (void)fprintf(out, ", device %u%s%s", trace->device, name[0] != '\0' ? ": " : "", name);
    }
    (void)fprintf(out, "\n  %s events, %u stream%s, peak live %s, prices ", format_count(events, trace->event_count),
                  trace->stream_count, trace->stream_count == 1 ? "" : "s",
                  format_size(live, comparison->peak_live_bytes));
    print_prices(out, comparison->prices);
    if (trace->part != NULL) {
        const uint64_t blocks = comparison->result_count > 0 ? comparison->results[0].prior_blocks : 0;
        (void)fprintf(out, "  only %s; %s block%s live before\n", trace->part->text, format_count(live, blocks),
                      blocks == 1 ? "" : "s");
    }
}

/* Prints the request on which the recorded program ran out of memory, below the heading. */
static void print_refused(FILE *out, const struct comparison *comparison)
{
    const struct recorded_oom *refused = &comparison->refused;
    char text[4][UNIT_TEXT];
    if (!refused->found) {
        return;
    }
    (void)fprintf(out, "  the recorded program ran out of memory at event %llu: it asked for %s",
                  (unsigned long long)refused->event, format_size(text[0], refused->size));
    if (refused->free_bytes != 0 || refused->reserved_bytes != 0) {
        (void)fprintf(out, ", and %s were free\n", format_size(text[1], refused->free_bytes));
    } else {
        (void)fputs("; how much was free is not recorded\n", out);
    }
    if (comparison->implied) {
        (void)fprintf(out, "  capacity %s, as the recording implies: %s reserved at that event, and the free memory\n",
                      format_size(text[2], refused->capacity), format_size(text[3], refused->reserved_bytes));
    }
}

/* Prints how each strategy dealt with the request on which the recorded program ran out of memory. */
static void print_verdicts(FILE *out, const struct comparison *comparison)
{
    char text[UNIT_TEXT];
    for (size_t i = 0; i < comparison->result_count && comparison->refused.found; i++) {
        const struct replay_result *result = &comparison->results[i];
        const char *verdict = output_verdict(comparison, result);
        if (replay_is_computed(result)) {
            continue;
        }
        (void)fprintf(out, "  %s ", result->strategy->name);
        if (strcmp(verdict, "served") == 0) {
            (void)fputs("serves the request that the recorded program did not get; ", out);
        } else if (strcmp(verdict, "unknown") == 0) {
            (void)fputs("is not judged, because the size of the device is not known; ", out);
        } else if (strcmp(verdict, "same") == 0) {
            (void)fputs("runs out at the same event as the recorded program; ", out);
        } else {
            (void)fprintf(out, "runs out earlier than the recorded program, at event %llu; ",
                          (unsigned long long)result->oom.event);
        }
        if (comparison->enough[i] != 0) {
            (void)fprintf(out, "a device of %s is enough\n", format_size(text, comparison->enough[i]));
        } else {
            (void)fputs("no device is enough\n", out);
        }
    }
}

static void print_verdict(FILE *out, const struct verdict *verdict)
{
    if (verdict->row != NULL) {
        (void)fprintf(out, "  verdict: %s, %s event %llu: ", verdict->row, verdict->refused ? "refused at" : "peak at",
                      (unsigned long long)verdict->event);
        clean_print(out, verdict->text, strlen(verdict->text));
        (void)fputc('\n', out);
    }
}

static void print_row(FILE *out, const struct replay_result *result)
{
    char reserved[UNIT_TEXT];
    char largest[UNIT_TEXT];
    char calls[UNIT_TEXT];
    char time[UNIT_TEXT];
    char waits[UNIT_TEXT];
    char oom[UNIT_TEXT] = "-";
    char warm[UNIT_TEXT] = "-";
    if (replay_is_computed(result)) {
        output_computed_row(out, result);
        return;
    }
    if (result->oom.happened) {
        (void)snprintf(oom, sizeof(oom), "event %llu", (unsigned long long)result->oom.event);
    }
    if (result->warm_allocs > 0) {
        (void)snprintf(warm, sizeof(warm), "%.1f", (double)result->warm_calls * 1000.0 / (double)result->warm_allocs);
    }
    output_name(out, result->strategy->name);
    (void)fprintf(out, " %11s %6.3f %12s %14s %9s %7s %10s %7s %7llu ",
                  format_size(reserved, result->peak_reserved_bytes), replay_ratio(result),
                  format_size(largest, result->largest_free_bytes), oom, format_count(calls, result->device_calls),
                  warm, format_time(time, result->device_time_ns), format_count(waits, result->waits + result->syncs),
                  (unsigned long long)result->hazards);
    if (result->p50_ns > 0) {
        (void)fprintf(out, "%6.0f %6.0f %7.0f\n", result->p50_ns, result->p99_ns, result->p999_ns);
    } else { /* not measured */
        (void)fprintf(out, "%6s %6s %7s\n", "-", "-", "-");
    }
}

/* Prints the memory that captured graphs need together, with each strategy. */
static void print_captures(FILE *out, const struct comparison *comparison)
{
    const uint64_t captures = comparison->trace->capture_count;
    char text[UNIT_TEXT];
    if (captures == 0) {
        return;
    }
    (void)fprintf(out, "  %s captured graph%s need%s, all together:\n", format_count(text, captures),
                  captures == 1 ? "" : "s", captures == 1 ? "s" : "");
    for (size_t i = 0; i < comparison->result_count; i++) {
        const struct replay_result *result = &comparison->results[i];
        if (!replay_is_computed(result)) {
            const bool known = replay_knows_captures(comparison->trace, result);
            (void)fprintf(out, "    %-13s %9s%s\n", result->strategy->name,
                          known ? format_size(text, result->capture_bytes) : "-",
                          result->oom.happened ? ", until memory ran out" : "");
        }
    }
}

static void print_recorded(FILE *out, const struct recorded_report *recorded)
{
    if (!recorded->checkable || recorded->addresses_total + recorded->segments_total == 0) {
        return;
    }
    (void)fprintf(out, "  recorded: the pytorch model puts %llu of %llu blocks at the recorded address",
                  (unsigned long long)recorded->addresses_matched, (unsigned long long)recorded->addresses_total);
    (void)fprintf(out, " and takes %llu of %llu segments as recorded\n", (unsigned long long)recorded->segments_matched,
                  (unsigned long long)recorded->segments_total);
    if (recorded->first_mismatch[0] != '\0') {
        (void)fputs("            first difference: ", out);
        clean_print(out, recorded->first_mismatch, strlen(recorded->first_mismatch));
        (void)fputc('\n', out);
    }
}

/* Prints the pool's out-of-memory report, indented. */
static void print_oom(FILE *out, const struct comparison *comparison, const struct replay_result *result)
{
    char *report = output_oom(&result->oom);
    char live[UNIT_TEXT];
    (void)fprintf(out, "  %s ran out of memory ", result->strategy->name);
    if (output_names_device(comparison->trace)) {
        (void)fprintf(out, "on device %u ", comparison->trace->device);
    }
    (void)fprintf(out, "at event %llu: ", (unsigned long long)result->oom.event);
    for (const char *line = report; line != NULL && *line != '\0';) {
        const int length = (int)strcspn(line, "\n");
        (void)fputs(line == report ? "" : "  ", out);
        clean_print(out, line, (size_t)length);
        (void)fputc('\n', out);
        line += length + (line[length] == '\n');
    }
    if (report == NULL) {
        clean_print(out, result->oom.why, strlen(result->oom.why));
        (void)fputc('\n', out);
    }
    free(report);
    if (result->peak_live_bytes < comparison->peak_live_bytes) {
        (void)fprintf(out, "  %s: figures are of the events before, whose peak live is %s\n", result->strategy->name,
                      format_size(live, result->peak_live_bytes));
    }
}

/* --- the sweep --- */

#define FACTOR_TEXT 16

/* Formats a factor with as many decimal places as the factors of the sweep need. */
static const char *format_factor(char *text, const struct sweep *sweep, uint32_t factor)
{
    const bool fine = sweep->range.from % 10 != 0 || sweep->range.step % 10 != 0;
    (void)snprintf(text, FACTOR_TEXT, "%.*f", fine ? 3 : 2, (double)factor / sweep_unit);
    return text;
}

/* Prints one character per factor: # if the whole trace is served, the number of tenths that were served, or a dot if
 * the factor was not replayed. */
static void print_bar(FILE *out, const struct sweep *sweep, const struct sweep_row *row)
{
    for (size_t i = 0; i < sweep->point_count; i++) {
        const struct sweep_point *point = &row->points[i];
        const int tenths = (int)(point->played * 10.0);
        (void)fputc(!point->replayed ? '.' : point->served ? '#' : '0' + (tenths < 9 ? tenths : 9), out);
    }
    (void)fputc('\n', out);
}

static void print_sweep_row(FILE *out, const struct sweep *sweep, const struct sweep_row *row)
{
    char factor[FACTOR_TEXT];
    char from[FACTOR_TEXT + 1];
    char limit[UNIT_TEXT] = "-";
    char oom[UNIT_TEXT] = "-";
    const struct sweep_point *last = &row->points[sweep->point_count - 1];
    (void)snprintf(from, sizeof(from), "%s%s", row->first == NULL ? ">" : "",
                   format_factor(factor, sweep, row->first == NULL ? last->factor : row->first->factor));
    if (row->first != NULL) {
        (void)format_size(limit, row->first->limit);
    }
    if (!row->points[0].served) {
        (void)snprintf(oom, sizeof(oom), "event %llu", (unsigned long long)row->points[0].event);
    }
    output_name(out, row->strategy->name);
    (void)fprintf(out, " %11s %10s %14s  ", from, limit, oom);
    print_bar(out, sweep, row);
}

/* Prints hazards of a strategy in a sweep, and a failure above the first memory limit that served the whole trace. */
static void print_sweep_remarks(FILE *out, const struct sweep *sweep, const struct sweep_row *row)
{
    char factor[FACTOR_TEXT];
    char first[FACTOR_TEXT];
    uint64_t hazards = 0;
    for (size_t i = 0; i < sweep->point_count; i++) {
        hazards += row->points[i].hazards;
    }
    if (hazards > 0) {
        (void)fprintf(out, "  %s: %llu hazards under these limits\n", row->strategy->name, (unsigned long long)hazards);
    }
    for (const struct sweep_point *point = row->first; sweep->range.all && row->first != row->always; point++) {
        if (!point->served) {
            (void)fprintf(out, "  %s serves all at %s, and runs out again at %s, at event %llu\n", row->strategy->name,
                          format_factor(first, sweep, row->first->factor), format_factor(factor, sweep, point->factor),
                          (unsigned long long)point->event);
            return;
        }
    }
}

static void print_sweep(FILE *out, const struct sweep *sweep)
{
    char text[2][FACTOR_TEXT];
    char size[3][UNIT_TEXT];
    const struct sweep_point *low = &sweep->rows[0].points[0];
    const struct sweep_point *high = &sweep->rows[0].points[sweep->point_count - 1];
    const char *from = format_factor(text[0], sweep, low->factor);
    const char *to = format_factor(text[1], sweep, high->factor);
    const int gap = (int)sweep->point_count - (int)strlen(from) - (int)strlen(to);
    (void)fprintf(out, "  limits of %s to %s times peak live, in pieces of %s: %zu from %s to %s\n", from, to,
                  format_size(size[0], sweep->granularity), sweep->limit_count, format_size(size[1], low->limit),
                  format_size(size[2], high->limit));
    (void)fprintf(out, "  %-13s %11s %10s %9s %s  %s%*s%s\n", "strategy", "serves from", "limit", "out at", from, from,
                  gap > 2 ? gap : 2, "", to);
    for (size_t i = 0; i < sweep->row_count; i++) {
        print_sweep_row(out, sweep, &sweep->rows[i]);
    }
    for (size_t i = 0; i < sweep->row_count; i++) {
        print_sweep_remarks(out, sweep, &sweep->rows[i]);
    }
}

/* --- the table --- */

/* Returns the row that reserves the least among the allocators that served the whole trace without a hazard. Returns
 * NULL if there is no such row, or only one result. `direct` does not take part: it is a bound, not an allocator. */
static const struct replay_result *best_of(const struct comparison *comparison)
{
    const struct replay_result *best = NULL;
    for (size_t i = 0; i < comparison->result_count && comparison->result_count > 1; i++) {
        const struct replay_result *result = &comparison->results[i];
        const bool good = !result->oom.happened && result->hazards == 0 && !replay_is_computed(result) &&
                          strcmp(result->strategy->name, "direct") != 0;
        if (good && (best == NULL || result->peak_reserved_bytes < best->peak_reserved_bytes)) {
            best = result;
        }
    }
    return best;
}

static void print_rows(FILE *out, const struct comparison *comparison, bool colour)
{
    static const char red[] = "\033[31m";
    static const char bold[] = "\033[1m";
    static const char plain[] = "\033[0m";
    const struct replay_result *best = colour ? best_of(comparison) : NULL;
    for (size_t i = 0; i < comparison->result_count; i++) {
        const struct replay_result *result = &comparison->results[i];
        const char *begin = !colour ? "" : result->hazards > 0 ? red : result == best ? bold : "";
        (void)fputs(begin, out);
        print_row(out, result);
        (void)fputs(begin[0] != '\0' ? plain : "", out);
    }
}

void output_table(FILE *out, const struct comparison *comparison, bool colour)
{
    print_heading(out, comparison);
    print_verdict(out, &comparison->verdict);
    print_refused(out, comparison);
    output_computed_notes(out, comparison);
    (void)fprintf(out, "  %-13s %11s %6s %12s %14s %9s %7s %10s %7s %7s %6s %6s %7s\n", "strategy", "reserved", "/live",
                  "largest free", "out of memory", "dev.calls", "warm/k", "dev.time", "waits", "hazards", "p50 ns",
                  "p99", "p99.9");
    print_rows(out, comparison, colour);
    for (size_t i = 0; i < comparison->result_count; i++) {
        const struct replay_result *result = &comparison->results[i];
        if (result->oom.happened) {
            print_oom(out, comparison, result);
        }
        for (size_t k = 0; k < result->finding_count && k < 5; k++) {
            (void)fprintf(out, "  %s hazard: ", result->strategy->name);
            clean_print(out, result->findings[k], strlen(result->findings[k]));
            (void)fputc('\n', out);
        }
        if (result->finding_count > 5) {
            (void)fprintf(out, "  %s: %llu hazards in all\n", result->strategy->name,
                          (unsigned long long)result->hazards);
        }
    }
    print_captures(out, comparison);
    print_verdicts(out, comparison);
    print_recorded(out, &comparison->recorded);
    if (comparison->sweep.row_count > 0) {
        print_sweep(out, &comparison->sweep);
    }
    if (comparison->host.result_count > 0) {
        output_host_table(out, &comparison->host, comparison->timing);
    }
}
