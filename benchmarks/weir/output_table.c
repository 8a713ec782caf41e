/* output_table.c: the table of `weir replay`. */
#include "output.h"

#include "units.h"

#include <stdlib.h>
#include <string.h>

static void print_heading(FILE *out, const struct comparison *comparison)
{
    const struct trace *trace = comparison->trace;
    char events[UNIT_TEXT];
    char live[UNIT_TEXT];
    uint64_t peak = 0;
    for (size_t i = 0; i < comparison->result_count; i++) {
        uint64_t here = comparison->results[i].peak_live_bytes;
        peak = here > peak ? here : peak;
    }
    (void)fprintf(out, "%s\n  %s events, %u stream%s, peak live %s\n", trace->path,
                  format_count(events, trace->event_count), trace->stream_count, trace->stream_count == 1 ? "" : "s",
                  format_size(live, peak));
}

static void print_row(FILE *out, const struct replay_result *result)
{
    char reserved[UNIT_TEXT];
    char largest[UNIT_TEXT];
    char calls[UNIT_TEXT];
    char time[UNIT_TEXT];
    char waits[UNIT_TEXT];
    char oom[UNIT_TEXT] = "-";
    double ratio = result->peak_live_bytes == 0
                       ? 1.0
                       : (double)result->peak_reserved_bytes / (double)result->peak_live_bytes;
    if (result->oom.happened) {
        (void)snprintf(oom, sizeof(oom), "event %llu", (unsigned long long)result->oom.event);
    }
    (void)fprintf(out, "  %-10s %11s %6.3f %12s %14s %9s %10s %7s %7llu %6.0f %6.0f %7.0f\n", result->strategy->name,
                  format_size(reserved, result->peak_reserved_bytes), ratio,
                  format_size(largest, result->largest_free_bytes), oom, format_count(calls, result->device_calls),
                  format_time(time, result->device_time_ns), format_count(waits, result->waits + result->syncs),
                  (unsigned long long)result->hazards, result->p50_ns, result->p99_ns, result->p999_ns);
}

static void print_recorded(FILE *out, const struct recorded_report *recorded)
{
    if (!recorded->checkable) {
        return;
    }
    (void)fprintf(out, "  recorded: the pytorch model puts %llu of %llu blocks at the recorded address",
                  (unsigned long long)recorded->addresses_matched, (unsigned long long)recorded->addresses_total);
    (void)fprintf(out, " and takes %llu of %llu segments as recorded\n", (unsigned long long)recorded->segments_matched,
                  (unsigned long long)recorded->segments_total);
    if (recorded->first_mismatch[0] != '\0') {
        (void)fprintf(out, "            first difference: %s\n", recorded->first_mismatch);
    }
}

/* The pool's own report, set in. */
static void print_oom(FILE *out, const struct replay_result *result)
{
    char *report = output_oom(&result->oom);
    (void)fprintf(out, "  %s ran out of memory at event %llu: ", result->strategy->name,
                  (unsigned long long)result->oom.event);
    for (const char *line = report; line != NULL && *line != '\0';) {
        const int length = (int)strcspn(line, "\n");
        (void)fprintf(out, "%s%.*s\n", line == report ? "" : "  ", length, line);
        line += length + (line[length] == '\n');
    }
    if (report == NULL) {
        (void)fprintf(out, "%s\n", result->oom.why);
    }
    free(report);
}

void output_table(FILE *out, const struct comparison *comparison)
{
    print_heading(out, comparison);
    (void)fprintf(out, "  %-10s %11s %6s %12s %14s %9s %10s %7s %7s %6s %6s %7s\n", "strategy", "reserved", "/live",
                  "largest free", "out of memory", "dev.calls", "dev.time", "waits", "hazards", "p50 ns", "p99", "p99.9");
    for (size_t i = 0; i < comparison->result_count; i++) {
        print_row(out, &comparison->results[i]);
    }
    for (size_t i = 0; i < comparison->result_count; i++) {
        const struct replay_result *result = &comparison->results[i];
        if (result->oom.happened) {
            print_oom(out, result);
        }
        for (size_t k = 0; k < result->finding_count && k < 5; k++) {
            (void)fprintf(out, "  %s hazard: %s\n", result->strategy->name, result->findings[k]);
        }
        if (result->finding_count > 5) {
            (void)fprintf(out, "  %s: %llu hazards in all\n", result->strategy->name,
                          (unsigned long long)result->hazards);
        }
    }
    print_recorded(out, &comparison->recorded);
}
