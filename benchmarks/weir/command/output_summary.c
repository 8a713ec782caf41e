/* output_summary.c: see output_summary.h. */
#include "output_summary.h"

#include "units.h"

#include <math.h>
#include <string.h>

/* Returns the row of a strategy, which is added if it is new; NULL if the table is full. */
static struct summary_row *row_of(struct summary *summary, const char *strategy, bool simulated)
{
    for (size_t i = 0; i < summary->row_count; i++) {
        if (strcmp(summary->rows[i].strategy, strategy) == 0) {
            return &summary->rows[i];
        }
    }
    if (summary->row_count == summary_most_rows) {
        return NULL;
    }
    struct summary_row *row = &summary->rows[summary->row_count++];
    *row = (struct summary_row){.strategy = strategy, .simulated = simulated};
    return row;
}

static void note_worst(struct summary_row *row, const struct trace *trace, double ratio)
{
    const char *slash = strrchr(trace->path, '/');
    const char *name = slash != NULL ? slash + 1 : trace->path;
    row->worst = ratio;
    if (output_names_device(trace)) {
        (void)snprintf(row->worst_trace, sizeof(row->worst_trace), "%.40s, device %u", name, trace->device);
    } else {
        (void)snprintf(row->worst_trace, sizeof(row->worst_trace), "%.60s", name);
    }
}

void summary_add(struct summary *summary, const struct comparison *comparison)
{
    summary->comparisons++;
    for (size_t i = 0; i < comparison->result_count; i++) {
        const struct replay_result *result = &comparison->results[i];
        struct summary_row *row = row_of(summary, result->strategy->name, !replay_is_computed(result));
        if (row == NULL) {
            continue;
        }
        const double ratio = replay_ratio(result);
        row->traces++;
        row->device_calls += result->device_calls;
        row->hazards += result->hazards;
        if (result->oom.happened || ratio <= 0) {
            continue;
        }
        row->complete++;
        row->logarithms += log(ratio);
        if (ratio > row->worst) {
            note_worst(row, comparison->trace, ratio);
        }
    }
}

void summary_merge(struct summary *summary, const struct summary *more)
{
    summary->comparisons += more->comparisons;
    for (size_t i = 0; i < more->row_count; i++) {
        const struct summary_row *from = &more->rows[i];
        struct summary_row *row = row_of(summary, from->strategy, from->simulated);
        if (row == NULL) {
            continue;
        }
        row->traces += from->traces;
        row->complete += from->complete;
        row->logarithms += from->logarithms;
        row->device_calls += from->device_calls;
        row->hazards += from->hazards;
        if (from->worst > row->worst) {
            row->worst = from->worst;
            memcpy(row->worst_trace, from->worst_trace, sizeof(row->worst_trace));
        }
    }
}

void output_name(FILE *out, const char *name)
{
    const bool wide = strlen(name) > (size_t)output_name_width;
    (void)fprintf(out, "  %s%s%-*s", wide ? name : "", wide ? "\n  " : "", (int)output_name_width, wide ? "" : name);
}

static void print_row(FILE *out, const struct summary_row *row)
{
    char calls[UNIT_TEXT];
    char hazards[UNIT_TEXT];
    output_name(out, row->strategy);
    (void)fprintf(out, " %6zu %14zu %10s %10s  ", row->traces, row->traces - row->complete,
                  format_count(calls, row->device_calls), row->simulated ? format_count(hazards, row->hazards) : "-");
    if (row->complete > 0) {
        (void)fprintf(out, "%6.3f %6.3f  %s\n", exp(row->logarithms / (double)row->complete), row->worst,
                      row->worst_trace);
    } else {
        (void)fprintf(out, "%6s %6s\n", "-", "-");
    }
}

void summary_print(FILE *out, const struct summary *summary)
{
    if (summary->comparisons < 2) {
        return;
    }
    (void)fprintf(out, "\nall %zu: geometric mean and worst of reserved / live, where no memory ran out\n",
                  summary->comparisons);
    (void)fprintf(out, "  %-13s %6s %14s %10s %10s  %6s %6s  %s\n", "strategy", "traces", "out of memory", "dev.calls",
                  "hazards", "mean", "worst", "worst trace");
    for (size_t i = 0; i < summary->row_count; i++) {
        print_row(out, &summary->rows[i]);
    }
}
