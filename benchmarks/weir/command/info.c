/* info.c: `weir info`: describes a trace by its counts, a curve of live bytes and a histogram of sizes, or as JSON. */
#include "command.h"

#include "bundled.h"
#include "json.h"
#include "output.h"
#include "part_options.h"
#include "replay/holders.h"
#include "replay/plan.h"
#include "replay/recorded_run.h"
#include "replay/steps.h"
#include "replay/verdict.h"
#include "trace/trace.h"
#include "units.h"

#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct subcommand subcommand = {
    .name = "info",
    .head =
        "weir info TRACE...: describe a trace\n"
        "weir info --list:   list the recordings that are installed with weir\n"
        "\n"
        "Prints for each trace its source, the number of events of each kind, streams, host threads and devices, the\n"
        "blocks that were live before it began, its peak live bytes with their holders, the memory that a plan of all\n"
        "blocks needs, the steps that repeat, the curve of live bytes and the requested sizes.\n"
        "\n",
    .tail = "\n"
            "  weir info snapshot.pickle\n"
            "  weir info ort_unet_dyn_res\n"
            "  weir info --list --json | jq -r '.[] | [.trace, .peak_live_bytes] | @tsv'\n",
};

enum { curve_columns = 72, curve_rows = 10, size_buckets = 48, shown_notes = 20 };

struct facts {
    uint64_t kinds[128];
    uint64_t tagged; /* blocks with a tag */
    uint64_t stacks;
    uint64_t capture_pools;
    uint64_t released; /* capture pools released */
    uint64_t prior_bytes;
    uint64_t peak_live;
    uint64_t peak_event;
    uint64_t end_live;
    uint64_t end_blocks;
    uint64_t distinct_sizes;
    uint64_t sizes[size_buckets];
    uint64_t bytes[size_buckets];
    uint64_t duration_ns;
    uint64_t curve[curve_columns];
    weir_oom_record at_peak; /* the holders when live memory peaked */
    struct verdict verdict;  /* of the recorded allocator, if its memory is known */
    struct packing plan;     /* not found: too many blocks, or several devices */
    struct steps steps;
};

static unsigned bucket_of(uint64_t size)
{
    unsigned bucket = size == 0 ? 0 : 63u - (unsigned)__builtin_clzll(size);
    return bucket < size_buckets ? bucket : size_buckets - 1;
}

static int compare_sizes(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static uint64_t count_distinct(uint64_t *sizes, size_t count)
{
    uint64_t distinct = 0;
    qsort(sizes, count, sizeof(*sizes), compare_sizes);
    for (size_t i = 0; i < count; i++) {
        distinct += i == 0 || sizes[i] != sizes[i - 1];
    }
    return distinct;
}

struct counting {
    struct facts *facts;
    uint64_t *block_sizes; /* size of each block by its index; 0 if the block is not live */
    uint64_t *asked;
    size_t asked_count;
    uint64_t live;
    uint64_t blocks;
};

static void born(struct counting *counting, uint32_t index, uint64_t size, bool asked)
{
    counting->block_sizes[index] = size;
    counting->live += size;
    counting->blocks++;
    if (asked) {
        counting->facts->sizes[bucket_of(size)]++;
        counting->facts->bytes[bucket_of(size)] += size;
        counting->asked[counting->asked_count++] = size;
    }
}

static void died(struct counting *counting, uint32_t index)
{
    counting->live -= counting->block_sizes[index];
    counting->blocks--;
}

/* Collects the facts that `weir info` prints about a trace. Returns false when out of host memory. */
static bool gather_facts(const struct trace *trace, struct facts *facts)
{
    struct counting counting = {
        .facts = facts,
        .block_sizes = calloc((size_t)trace->block_count + 1, sizeof(uint64_t)),
        .asked = calloc(trace->event_count + 1, sizeof(uint64_t)),
    };
    bool *known_pools = calloc((size_t)trace->capture_pool_count + 1, sizeof(bool));
    bool enough = counting.block_sizes != NULL && counting.asked != NULL && known_pools != NULL;
    uint64_t first_ns = UINT64_MAX;
    uint64_t last_ns = 0;
    for (size_t i = 0; enough && i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        const weir_trace_event *e = &event->event;
        facts->kinds[(unsigned)e->kind & 127u]++;
        if (e->kind == WEIR_TRACE_PRIOR) {
            facts->prior_bytes += e->size;
            born(&counting, event->index, e->size, false);
            facts->tagged += e->tag != WEIR_TRACE_NONE;
        } else if (e->kind == WEIR_TRACE_ALLOC || e->kind == WEIR_TRACE_REALLOC) {
            born(&counting, event->index, e->size, true);
            facts->tagged += e->tag != WEIR_TRACE_NONE;
        }
        if (e->kind == WEIR_TRACE_CAPTURE) {
            facts->capture_pools += !known_pools[e->pool];
            facts->released += e->mode == 'R';
            known_pools[e->pool] = true;
        }
        if (counting.live > facts->peak_live) {
            facts->peak_live = counting.live;
            facts->peak_event = trace_event_number(trace, i);
        }
        if (e->kind == WEIR_TRACE_FREE) {
            died(&counting, event->index);
        } else if (e->kind == WEIR_TRACE_REALLOC) {
            died(&counting, event->old_index);
        }
        size_t column = i * curve_columns / trace->event_count;
        facts->curve[column] = counting.live > facts->curve[column] ? counting.live : facts->curve[column];
        last_ns = e->time_ns > last_ns ? e->time_ns : last_ns;
        if (e->kind != WEIR_TRACE_PRIOR) {
            first_ns = e->time_ns < first_ns ? e->time_ns : first_ns;
        }
    }
    for (uint32_t tag = 0; trace->stacks != NULL && tag < trace->tag_count; tag++) {
        facts->stacks += trace->stacks[tag] != NULL;
    }
    facts->duration_ns = trace->part != NULL && first_ns < last_ns ? last_ns - first_ns : last_ns;
    if (enough) {
        facts->end_live = counting.live;
        facts->end_blocks = counting.blocks;
        facts->distinct_sizes = count_distinct(counting.asked, counting.asked_count);
    }
    free(counting.block_sizes);
    free(counting.asked);
    free(known_pools);
    return enough;
}

/* Finds the holders of the peak, the plan, the steps and the verdict of the recorded allocator. Returns false when out
 * of host memory. */
static bool find_answers(const struct trace *trace, struct facts *facts)
{
    struct replay_result result;
    size_t count = 0;
    while (count < trace->event_count && trace_event_number(trace, count) <= facts->peak_event) {
        count++;
    }
    facts->at_peak = (weir_oom_record)WEIR_OOM_RECORD_INIT;
    if (!holders_at(trace, count, &facts->at_peak) || !steps_find(trace, &facts->steps)) {
        return false;
    }
    if (trace->device != TRACE_NO_INDEX && !plan_find(trace, &facts->plan)) {
        return false;
    }
    if (trace->device == TRACE_NO_INDEX || !recorded_run_known(trace)) {
        return true;
    }
    const bool known = recorded_run(trace, false, &result) && verdict_of(trace, &result, &facts->verdict);
    replay_result_free(&result);
    return known;
}

/* --- text --- */

static const char *kind_text(char kind)
{
    switch (kind) {
#define KIND_NAME(name, letter)                                                                                        \
    case letter:                                                                                                       \
        return #name;
        WEIR_TRACE_KIND_LIST(KIND_NAME)
#undef KIND_NAME
    default:
        return "?";
    }
}

static void kind_lower(char *out, size_t size, char kind)
{
    size_t i = 0;
    for (const char *name = kind_text(kind); *name != '\0' && i + 1 < size; name++) {
        out[i++] = (char)(*name >= 'A' && *name <= 'Z' ? *name - 'A' + 'a' : *name);
    }
    out[i] = '\0';
}

static void print_kinds(const struct facts *facts)
{
    char count[UNIT_TEXT];
    char name[UNIT_TEXT];
    for (unsigned kind = 0; kind < 128; kind++) {
        if (facts->kinds[kind] != 0) {
            kind_lower(name, sizeof(name), (char)kind);
            (void)printf("    %-10s %12s\n", name, format_count(count, facts->kinds[kind]));
        }
    }
}

static void print_curve(const struct facts *facts)
{
    char top[UNIT_TEXT];
    if (facts->peak_live == 0) {
        return;
    }
    (void)printf("  live bytes over the events\n");
    for (unsigned row = curve_rows; row-- > 0;) {
        (void)printf("  %10s |", row == curve_rows - 1 ? format_size(top, facts->peak_live) : row == 0 ? "0 B" : "");
        for (unsigned column = 0; column < curve_columns; column++) {
            double height = (double)facts->curve[column] / (double)facts->peak_live * curve_rows;
            (void)fputc(height >= row + 0.75 ? '#' : height > row + 0.25 ? '.' : ' ', stdout);
        }
        (void)fputc('\n', stdout);
    }
}

static void print_answers(const struct facts *facts)
{
    char size[UNIT_TEXT];
    char count[UNIT_TEXT];
    for (uint32_t i = 0; i < facts->at_peak.holder_count && facts->tagged != 0; i++) {
        const weir_oom_holder *holder = &facts->at_peak.holders[i];
        (void)printf("  %-10s %s in %s block%s: %s\n", i == 0 ? "held by" : "",
                     format_size(size, holder->requested_bytes), format_count(count, holder->blocks),
                     holder->blocks == 1 ? "" : "s", holder->name);
    }
}

static void print_plan(const struct facts *facts)
{
    char size[UNIT_TEXT];
    char bound[UNIT_TEXT];
    if (facts->plan.found && facts->plan.bound > 0) {
        (void)printf("  plan       %s would be enough if all lives were known beforehand; no plan needs less than %s\n",
                     format_size(size, facts->plan.extent), format_size(bound, facts->plan.bound));
    }
}

static void print_steps(const struct steps *steps)
{
    char text[4][UNIT_TEXT];
    char growth[UNIT_TEXT];
    if (steps->count == 0) {
        return;
    }
    (void)printf(
        "  steps      %s of %s request%s each are the same, from event %s to event %s: %.0f %% of the requests",
        format_count(text[0], steps->count), format_count(text[1], steps->requests), steps->requests == 1 ? "" : "s",
        format_count(text[2], steps->first_event), format_count(text[3], steps->last_event),
        100.0 * (double)(steps->count * steps->requests) / (double)steps->all);
    if (steps->growth_bytes > 0) {
        (void)printf("; live memory grows by %s a step", format_size(growth, (uint64_t)steps->growth_bytes));
    }
    (void)fputc('\n', stdout);
}

static void print_sizes(const struct facts *facts)
{
    uint64_t most = 1;
    char from[UNIT_TEXT];
    char count[UNIT_TEXT];
    char bytes[UNIT_TEXT];
    for (unsigned i = 0; i < size_buckets; i++) {
        most = facts->sizes[i] > most ? facts->sizes[i] : most;
    }
    (void)printf("  sizes asked for: %s different\n", format_count(count, facts->distinct_sizes));
    for (unsigned i = 0; i < size_buckets; i++) {
        if (facts->sizes[i] != 0) {
            int bar = (int)(facts->sizes[i] * 40 / most);
            (void)printf("  %10s and up %10s requests %10s  %.*s\n", format_size(from, UINT64_C(1) << i),
                         format_count(count, facts->sizes[i]), format_size(bytes, facts->bytes[i]), bar,
                         "########################################");
        }
    }
}

static void print_tags(const struct trace *trace, const struct facts *facts)
{
    const uint64_t blocks =
        facts->kinds[WEIR_TRACE_PRIOR] + facts->kinds[WEIR_TRACE_ALLOC] + facts->kinds[WEIR_TRACE_REALLOC];
    char tags[UNIT_TEXT];
    char stacks[UNIT_TEXT];
    if (trace->tag_count > 0 && blocks > 0) {
        (void)printf("  tags       %s with %s stack%s; %.1f %% of the blocks have a tag\n",
                     format_count(tags, trace->tag_count), format_count(stacks, facts->stacks),
                     facts->stacks == 1 ? "" : "s", 100.0 * (double)facts->tagged / (double)blocks);
    }
}

static void print_captures(const struct trace *trace, const struct facts *facts)
{
    char captures[UNIT_TEXT];
    char pools[UNIT_TEXT];
    char released[UNIT_TEXT];
    if (trace->capture_count > 0) {
        (void)printf("  captures   %s into %s capture pool%s, of which %s %s released\n",
                     format_count(captures, trace->capture_count), format_count(pools, facts->capture_pools),
                     facts->capture_pools == 1 ? "" : "s", format_count(released, facts->released),
                     facts->released == 1 ? "is" : "are");
    }
}

/* Prints the first notes only: a file may have any number of them. */
static void print_notes(const struct trace *trace)
{
    char more[UNIT_TEXT];
    for (size_t i = 0; i < trace->note_count && i < shown_notes; i++) {
        (void)printf("  note       %s\n", trace->notes[i]);
    }
    if (trace->note_count > shown_notes) {
        (void)printf("  note       ... and %s more\n", format_count(more, trace->note_count - shown_notes));
    }
}

static uint32_t used_devices(const struct trace *trace)
{
    uint32_t used = 0;
    for (uint32_t d = 0; d < trace->device_count; d++) {
        used += trace->devices[d].used;
    }
    return used;
}

static void print_facts(const struct trace *trace, const struct facts *facts)
{
    const uint32_t devices = used_devices(trace);
    static const char *const clocks[] = {"nanoseconds", "logical", "order only"};
    char a[UNIT_TEXT];
    char b[UNIT_TEXT];
    (void)printf("%s\n", trace->path);
    if (facts->verdict.row != NULL) {
        (void)printf("  verdict    %s event %s: %s\n", facts->verdict.refused ? "refused at" : "peak at",
                     format_count(a, facts->verdict.event), facts->verdict.text);
    }
    (void)printf("  source     %s\n", trace->source[0] != '\0' ? trace->source : "(not said)");
    (void)printf("  clock      %s%s%s\n", clocks[trace->clock], trace->clock == TRACE_CLOCK_NS ? ", " : "",
                 trace->clock == TRACE_CLOCK_NS ? format_time(a, facts->duration_ns) : "");
    (void)printf("  %u stream%s, %u host thread%s, %u device%s, %s events:\n", trace->stream_count,
                 trace->stream_count == 1 ? "" : "s", trace->thread_count, trace->thread_count == 1 ? "" : "s", devices,
                 devices == 1 ? "" : "s", format_count(a, trace->event_count));
    print_kinds(facts);
    if (recorded_run_is_moment(trace)) {
        (void)printf("  no history: the snapshot shows one moment\n");
    }
    (void)printf("  before     %s in %s block%s\n", format_size(a, facts->prior_bytes),
                 format_count(b, facts->kinds[WEIR_TRACE_PRIOR]), facts->kinds[WEIR_TRACE_PRIOR] == 1 ? "" : "s");
    (void)printf("  peak live  %s at event %s\n", format_size(a, facts->peak_live), format_count(b, facts->peak_event));
    print_answers(facts);
    print_plan(facts);
    print_steps(&facts->steps);
    (void)printf("  at the end %s in %s block%s\n", format_size(a, facts->end_live), format_count(b, facts->end_blocks),
                 facts->end_blocks == 1 ? "" : "s");
    print_captures(trace, facts);
    print_tags(trace, facts);
    print_curve(facts);
    print_sizes(facts);
    if (trace->allocator_settings != NULL) {
        (void)printf("  settings   %s\n", trace->allocator_settings);
    }
    if (trace->recorded_note != NULL) {
        (void)printf("  recorded   %s\n", trace->recorded_note);
    }
    print_notes(trace);
}

/* --- JSON --- */

static json_t *facts_json(const struct trace *trace, const struct facts *facts)
{
    json_t *kinds = json_object();
    json_t *sizes = json_array();
    json_t *curve = json_array();
    char name[UNIT_TEXT];
    for (unsigned kind = 0; kind < 128; kind++) {
        if (facts->kinds[kind] != 0) {
            kind_lower(name, sizeof(name), (char)kind);
            (void)json_object_set_new(kinds, name, json_integer((json_int_t)facts->kinds[kind]));
        }
    }
    for (unsigned i = 0; i < size_buckets; i++) {
        if (facts->sizes[i] != 0) {
            (void)json_array_append_new(sizes,
                                        json_pack("{s:I, s:I, s:I}", "from", (json_int_t)1 << i, "requests",
                                                  (json_int_t)facts->sizes[i], "bytes", (json_int_t)facts->bytes[i]));
        }
    }
    for (unsigned i = 0; i < curve_columns; i++) {
        (void)json_array_append_new(curve, json_integer((json_int_t)facts->curve[i]));
    }
    static const char *const clocks[] = {"ns", "logical", "order"};
    return json_pack("{s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", //
                     "trace", json_text(trace->path), "source", json_text(trace->source), "clock",
                     clocks[trace->clock], //
                     "events", (json_int_t)trace->event_count, "streams", (json_int_t)trace->stream_count, "threads",
                     (json_int_t)trace->thread_count, "devices", (json_int_t)used_devices(trace), "blocks",
                     (json_int_t)trace->block_count, "kinds", kinds, "prior_bytes", (json_int_t)facts->prior_bytes,
                     "peak_live_bytes", (json_int_t)facts->peak_live, "peak_event", (json_int_t)facts->peak_event,
                     "end_live_bytes", (json_int_t)facts->end_live, "end_blocks", (json_int_t)facts->end_blocks,
                     "duration_ns", (json_int_t)facts->duration_ns, "distinct_sizes", (json_int_t)facts->distinct_sizes,
                     "sizes", sizes, "live_curve", curve);
}

static json_t *steps_json(const struct steps *steps)
{
    if (steps->count == 0) {
        return json_null();
    }
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "count", (json_int_t)steps->count, "requests",
                     (json_int_t)steps->requests, "first_event", (json_int_t)steps->first_event, "last_event",
                     (json_int_t)steps->last_event, "growth_bytes", (json_int_t)steps->growth_bytes);
}

static json_t *plan_json(const struct packing *plan)
{
    if (!plan->found) {
        return json_null();
    }
    return json_pack("{s:I, s:I}", "bytes", (json_int_t)plan->extent, "least_bytes", (json_int_t)plan->bound);
}

static int read_facts(const char *name, const struct part_options *part, struct trace **trace, struct facts *facts)
{
    char error[512];
    int status = open_trace("info", name, trace);
    if (status == EXIT_DONE && !part_choose(part, trace, error, sizeof(error))) {
        status = complain("info", false, "%s", error);
    }
    if (status == EXIT_DONE && (!gather_facts(*trace, facts) || !find_answers(*trace, facts))) {
        status = complain("info", false, "%s: no host memory", name);
    }
    if (status != EXIT_DONE) {
        trace_free(*trace);
    }
    return status;
}

/* --- the command --- */

enum form { FORM_TEXT, FORM_LINE, FORM_JSON };

static void print_line(const struct trace *trace, const struct facts *facts)
{
    const char *name = strrchr(trace->path, '/') + 1;
    char events[UNIT_TEXT];
    char live[UNIT_TEXT];
    (void)printf("%-*.*s %8s events, peak live %10s\n", 30, (int)bundled_stem(name), name,
                 format_count(events, trace->event_count), format_size(live, facts->peak_live));
}

static int show_traces(char *const *names, size_t count, const struct part_options *part, enum form form, bool array)
{
    json_t *all = json_array();
    int status = EXIT_DONE;
    for (size_t i = 0; i < count; i++) {
        struct trace *trace = NULL;
        struct facts facts = {0};
        status = read_facts(names[i], part, &trace, &facts);
        if (status != EXIT_DONE) {
            break;
        }
        if (form == FORM_JSON) {
            json_t *object = facts_json(trace, &facts);
            (void)json_object_set_new(object, "tags", json_integer((json_int_t)trace->tag_count));
            (void)json_object_set_new(object, "stacks", json_integer((json_int_t)facts.stacks));
            (void)json_object_set_new(object, "tagged", json_integer((json_int_t)facts.tagged));
            (void)json_object_set_new(object, "captures", json_integer((json_int_t)trace->capture_count));
            (void)json_object_set_new(object, "capture_pools", json_integer((json_int_t)facts.capture_pools));
            (void)json_object_set_new(object, "capture_pools_released", json_integer((json_int_t)facts.released));
            (void)json_object_set_new(object, "allocator_settings",
                                      trace->allocator_settings != NULL ? json_text(trace->allocator_settings)
                                                                        : json_null());
            (void)json_object_set_new(object, "part", json_part(trace->part));
            (void)json_object_set_new(object, "held_by", output_holders_json(&facts.at_peak));
            (void)json_object_set_new(object, "plan", plan_json(&facts.plan));
            (void)json_object_set_new(object, "steps", steps_json(&facts.steps));
            (void)json_object_set_new(object, "verdict", output_cause_json(&facts.verdict));
            (void)json_object_set_new(object, "history", json_boolean(!recorded_run_is_moment(trace)));
            (void)json_array_append_new(all, object);
        } else if (form == FORM_LINE) {
            print_line(trace, &facts);
        } else {
            print_facts(trace, &facts);
        }
        trace_free(trace);
    }
    if (form == FORM_JSON && status == EXIT_DONE) {
        status = json_print("info", array ? all : json_array_get(all, 0), JSON_INDENT(2));
    }
    json_decref(all);
    return status;
}

static int show_bundled(const struct part_options *part, bool json)
{
    char **paths = NULL;
    size_t count = 0;
    int status = list_bundled("info", &paths, &count);
    if (status != EXIT_DONE) {
        return status;
    }
    status = show_traces(paths, count, part, json ? FORM_JSON : FORM_LINE, true);
    for (size_t i = 0; i < count; i++) {
        free(paths[i]);
    }
    free(paths);
    return status;
}

int command_info(int argc, char **argv)
{
    bool json = false;
    bool list = false;
    struct part_options part = PART_OPTIONS_INIT("info");
    const struct option_row rows[] = {
        {.name = "list",
         .flag = &list,
         .text = "print one line for each installed recording; its name can be used as TRACE"},
        {.name = "json",
         .flag = &json,
         .text = "print JSON: one object, or an array for several traces and with --list"},
        PART_OPTION_ROWS(&part, "describe the events of device N only"),
        OPTION_HELP,
        {.name = NULL},
    };
    const int status = read_options(&subcommand, rows, NULL, argc, argv);
    if (status != EXIT_DONE) {
        return status < 0 ? EXIT_DONE : status;
    }
    if (list) {
        return optind == argc ? show_bundled(&part, json)
                              : complain("info", true, "--list takes no trace %s", argv[optind]);
    }
    if (optind == argc) {
        return complain("info", true, "no trace is named");
    }
    size_t count = (size_t)(argc - optind);
    return show_traces(argv + optind, count, &part, json ? FORM_JSON : FORM_TEXT, count > 1);
}
