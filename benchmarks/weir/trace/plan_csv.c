/* plan_csv.c: the CSV of MiniMalloc and idealloc: one row for each buffer of a plan, with its lifetime [lower, upper)
 * in logical time. At one time, frees come before allocs. The column `end` of the older form is the last time at which
 * the buffer is live, one less than `upper`. The tag of a block is the buffer's id.
 */
#include "csv_read.h"

#include <inttypes.h>
#include <string.h>

/* Times lie between -2^62 and 2^62. This offset makes them non-negative and keeps their order. */
#define BIAS (UINT64_C(1) << 62)

struct plan {
    struct csv_import *import;
    size_t id, lower, upper, size, alignment, gaps, offset;
    bool inclusive;
    uint64_t buffers;
    uint64_t with_gaps;
    uint64_t empty;
    uint64_t aligned_oddly;
};

static bool read_time(struct plan *plan, size_t column, uint64_t *time)
{
    const struct csv_field field = csv_get(&plan->import->csv, column);
    const bool negative = field.length > 0 && field.text[0] == '-';
    uint64_t value;
    if (!csv_parse_decimal(field.text + negative, field.length - negative, &value) || value >= BIAS - 1) {
        return csv_refuse(&plan->import->csv, column, "a whole number below 2^62");
    }
    *time = negative ? BIAS - value : BIAS + value;
    return true;
}

/* Reads the alignment; one that is not a power of two cannot be in a trace and is left out. */
static bool read_alignment(struct plan *plan, uint64_t *alignment)
{
    *alignment = 0;
    if (csv_empty(csv_get(&plan->import->csv, plan->alignment))) {
        return true;
    }
    if (!csv_decimal(&plan->import->csv, plan->alignment, "an alignment in bytes", alignment)) {
        return false;
    }
    if ((*alignment & (*alignment - 1)) != 0) {
        plan->aligned_oddly++;
        *alignment = 0;
    }
    *alignment = *alignment > 1 ? *alignment : 0;
    return true;
}

static bool add_buffer(void *ctx)
{
    struct plan *plan = ctx;
    struct csv_import *import = plan->import;
    const struct csv_field id = csv_get(&import->csv, plan->id);
    weir_trace_event event = blank_event(WEIR_TRACE_ALLOC);
    uint64_t lower;
    uint64_t upper;
    event.stream = 0;
    if (!read_time(plan, plan->lower, &lower) || !read_time(plan, plan->upper, &upper) ||
        !csv_decimal(&import->csv, plan->size, "a number of bytes", &event.size) ||
        !read_alignment(plan, &event.extra) ||
        !calls_tag(&import->builder, &import->tags, id.text, id.length, &event.tag)) {
        return false;
    }
    upper += plan->inclusive;
    if (upper < lower) {
        return csv_refuse(&import->csv, plan->upper, "an end that is not before the begin");
    }
    plan->with_gaps += csv_get(&import->csv, plan->gaps).length > 0;
    if (upper == lower) {
        plan->empty++;
        return true;
    }
    weir_trace_event end = event;
    end.kind = WEIR_TRACE_FREE;
    end.extra = 0;
    return calls_add(&import->calls, lower, plan->buffers, &event) &&
           calls_add(&import->calls, upper, plan->buffers++, &end);
}

static bool note_plan(const struct plan *plan)
{
    static const char always[] =
        "a plan in logical time: no streams, threads, operators or times; [lower, upper) is taken "
        "as half open, which the file itself does not tell";
    struct trace_builder *builder = &plan->import->builder;
    return builder_note(builder, always, strlen(always)) &&
           (plan->offset == CSV_NO_COLUMN || builder_note_format(builder, "the offsets of a solution are left out")) &&
           builder_note_count(builder, plan->with_gaps, "buffers have gaps, in which they count as live here") &&
           builder_note_count(builder, plan->empty, "buffers with an empty lifetime are left out") &&
           builder_note_count(builder, plan->aligned_oddly, "alignments are not powers of two and are left out");
}

bool plan_read(struct csv_import *import)
{
    const struct csv *csv = &import->csv;
    struct plan plan = {
        .import = import,
        .id = csv_column(csv, "id|buffer|buffer_id"),
        .lower = csv_column(csv, "lower|start|begin"),
        .upper = csv_column(csv, "upper|end"),
        .inclusive = csv_column(csv, "upper") == CSV_NO_COLUMN,
        .size = csv_column(csv, "size"),
        .alignment = csv_column(csv, "alignment"),
        .gaps = csv_column(csv, "gaps"),
        .offset = csv_column(csv, "offset"),
    };
    import->builder.trace->clock = TRACE_CLOCK_LOGICAL;
    if (!csv_each(import, add_buffer, &plan)) {
        return false;
    }
    calls_sort(&import->calls, true);
    const uint64_t first = calls_begin(&import->calls);
    if (first < BIAS && import->calls.count > 0 &&
        !builder_note_format(&import->builder, "times begin at -%" PRIu64 " in the file and at 0 here", BIAS - first)) {
        return false;
    }
    return note_plan(&plan) && calls_write(&import->calls, first < BIAS ? first : BIAS);
}
