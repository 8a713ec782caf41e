/* report.c: one sentence for each finding, with both operations, their streams, ticks and tags.
 *
 * The sentence has a fixed shape: kind, range, the later operation (which is wrong), the earlier operation (which
 * conflicts with the later), a detail, and whether the two operations overlapped in virtual time. Times are for the
 * reader only: the finding was decided before, by order alone.
 */
#include "report.h"

#include "shared/assert.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *weir_sim_finding_name(weir_sim_finding_kind kind)
{
    switch (kind) {
    case WEIR_SIM_OUTSIDE_BLOCK:
        return "outside_block";
    case WEIR_SIM_USE_AFTER_FREE:
        return "use_after_free";
    case WEIR_SIM_UNORDERED:
        return "unordered";
    case WEIR_SIM_EARLY_REUSE:
        return "early_reuse";
    case WEIR_SIM_OVERLAP:
        return "overlap";
    case WEIR_SIM_DOUBLE_FREE:
        return "double_free";
    case WEIR_SIM_FOREIGN_FREE:
        return "foreign_free";
    case WEIR_SIM_FREE_PENDING:
        return "free_pending";
    case WEIR_SIM_OUTSIDE_REGION:
        return "outside_region";
    case WEIR_SIM_REGION_PENDING:
        return "region_pending";
    case WEIR_SIM_REGION_LIVE:
        return "region_live";
    case WEIR_SIM_LEAK:
        return "leak";
    case WEIR_SIM_FOREIGN_MEMORY:
        return "foreign_memory";
    case WEIR_SIM_HOST_CHANGED:
        return "host_changed";
    case WEIR_SIM_HOST_MEMORY:
        return "host_memory";
    case WEIR_SIM_FINDING_KINDS:
        break;
    }
    return "unknown";
}

static const char *kind_text(weir_sim_finding_kind kind)
{
    WEIR_ASSERT((unsigned)kind < WEIR_SIM_FINDING_KINDS);
    static const char *const texts[] = {
#define FINDING_TEXT(name, text) text,
        WEIR_SIM_FINDING_LIST(FINDING_TEXT)
#undef FINDING_TEXT
    };
    return texts[kind];
}

/* Returns the words between the later and the earlier operation in a finding's sentence. */
static const char *relation(weir_sim_finding_kind kind)
{
    switch (kind) {
    case WEIR_SIM_OUTSIDE_BLOCK:
        return "near the block of";
    case WEIR_SIM_USE_AFTER_FREE:
        return "after";
    case WEIR_SIM_UNORDERED:
    case WEIR_SIM_EARLY_REUSE:
        return "is not ordered after";
    case WEIR_SIM_OVERLAP:
        return "while it still belongs to";
    case WEIR_SIM_DOUBLE_FREE:
        return "after";
    case WEIR_SIM_FOREIGN_FREE:
        return "inside the block of";
    case WEIR_SIM_FREE_PENDING:
    case WEIR_SIM_REGION_PENDING:
    case WEIR_SIM_HOST_MEMORY:
        return "and the host has not seen the end of";
    case WEIR_SIM_OUTSIDE_REGION:
        return "beside";
    case WEIR_SIM_REGION_LIVE:
        return "under the block of";
    case WEIR_SIM_LEAK:
    case WEIR_SIM_FOREIGN_MEMORY:
    case WEIR_SIM_HOST_CHANGED:
    case WEIR_SIM_FINDING_KINDS:
        break;
    }
    return "with";
}

struct sentence {
    char *text;
    size_t used;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static void say(struct sentence *s, const char *format, ...)
{
    WEIR_ASSERT(s->used < s->size);
    if (s->used + 1 >= s->size) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(s->text + s->used, s->size - s->used, format, arguments);
    va_end(arguments);
    if (length > 0) {
        s->used += (size_t)length;
        if (s->used >= s->size) {
            s->used = s->size - 1;
        }
    }
}

static void say_operation(struct sentence *s, const weir__sim_op *op)
{
    WEIR_ASSERT(op->what != NULL);
    say(s, "%s", op->what);
    if (op->tag[0] != '\0') {
        say(s, " \"%s\"", op->tag);
    }
    if (op->stream == WEIR__SIM_HOST) {
        say(s, " of the host");
    } else {
        say(s, " on stream %" PRIu32 " at tick %" PRIu64, op->stream, op->tick);
    }
}

static void say_all(struct sentence *s, const weir_sim_finding *finding, const weir__sim_op *earlier,
                    const weir__sim_op *later, const char *detail)
{
    WEIR_ASSERT(!finding->in_flight || (earlier != NULL && later != NULL));
    say(s, "%s: 0x%" PRIx64 ", %" PRIu64 " bytes", kind_text(finding->kind), finding->address, finding->size);
    if (later != NULL) {
        say(s, ": ");
        say_operation(s, later);
    }
    if (earlier != NULL) {
        say(s, later != NULL ? " %s " : ": ", relation(finding->kind));
        say_operation(s, earlier);
    }
    if (detail[0] != '\0') {
        say(s, ", %s", detail);
    }
    if (finding->in_flight) {
        say(s, "; the earlier one had still %" PRIu64 " ns to run", earlier->end_ns - later->start_ns);
    } else if (finding->kind == WEIR_SIM_UNORDERED || finding->kind == WEIR_SIM_EARLY_REUSE ||
               finding->kind == WEIR_SIM_FREE_PENDING || finding->kind == WEIR_SIM_REGION_PENDING ||
               finding->kind == WEIR_SIM_HOST_MEMORY) {
        say(s, "; the earlier one had ended %" PRIu64 " ns before, by luck", later->start_ns - earlier->end_ns);
    }
}

static weir_sim_operation describe(const weir__sim_op *op)
{
    weir_sim_operation operation = {.what = "", .stream = WEIR__SIM_HOST};
    if (op != NULL) {
        operation.what = op->what;
        memcpy(operation.tag, op->tag, sizeof(operation.tag));
        operation.stream = op->stream;
        operation.tick = op->tick;
        operation.start_ns = op->start_ns;
        operation.end_ns = op->end_ns;
        operation.number = op->number;
    }
    return operation;
}

void weir__sim_report_fini(weir__sim_report *report)
{
    free(report->kept);
    memset(report, 0, sizeof(*report));
}

/* Returns room for one more finding, or NULL if max_findings are kept or memory ran out; the finding is then only
 * counted. */
static weir_sim_finding *keep(weir__sim_report *report)
{
    WEIR_ASSERT(report->kept_count <= report->max_findings && report->kept_count <= report->total);
    if (report->kept_count == report->max_findings) {
        return NULL;
    }
    if (report->kept_count == report->kept_capacity) {
        size_t capacity = report->kept_capacity == 0 ? 16 : report->kept_capacity * 2;
        weir_sim_finding *kept = realloc(report->kept, capacity * sizeof(*kept));
        if (kept == NULL) {
            return NULL;
        }
        report->kept = kept;
        report->kept_capacity = capacity;
    }
    return &report->kept[report->kept_count++];
}

void weir__sim_report_add(weir__sim_report *report, weir_sim_finding_kind kind, uint64_t address, uint64_t size,
                          const weir__sim_op *earlier, const weir__sim_op *later, const char *detail)
{
    WEIR_ASSERT((unsigned)kind < WEIR_SIM_FINDING_KINDS && detail != NULL);
    if (earlier != NULL && later != NULL) {
        uint64_t *pair = report->last_pair[kind];
        if (pair[0] == earlier->number && pair[1] == later->number) {
            return;
        }
        pair[0] = earlier->number;
        pair[1] = later->number;
    }
    report->counts[kind]++;
    report->total++;
    weir_sim_finding *finding = keep(report);
    if (finding == NULL) {
        return;
    }
    memset(finding, 0, sizeof(*finding));
    finding->kind = kind;
    finding->address = address;
    finding->size = size;
    finding->earlier = describe(earlier);
    finding->later = describe(later);
    finding->in_flight = earlier != NULL && later != NULL && earlier->end_ns > later->start_ns;
    struct sentence s = {.text = finding->text, .size = sizeof(finding->text)};
    say_all(&s, finding, earlier, later, detail);
}
