/* diff.c: `weir diff`: compares the live memory of two moments: blocks that came and blocks that went. */
#include "command.h"

#include "bundled.h"
#include "json.h"
#include "part_options.h"
#include "replay/moments.h"
#include "replay/steps.h"
#include "trace/clean_text.h"
#include "units.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct subcommand subcommand = {
    .name = "diff",
    .head =
        "weir diff TRACE --at M --at M:  compare two moments of a trace\n"
        "weir diff A B:                  compare two traces, each at its peak of live memory\n"
        "\n"
        "Prints what came and what went between the moments: the live blocks by their tags, call stacks or sizes. In one\n"
        "trace a block that is live at both moments neither came nor went. Of two traces the sums are compared.\n"
        "\n",
    .tail =
        "\n"
        "M is the number of an event, a time such as 1.5s, start, peak, end, or step:N, the beginning of the step N that\n"
        "repeats (weir info shows the steps). The moment is behind the event. Without --at a trace is compared at its\n"
        "start and its peak.\n"
        "\n"
        "  weir diff run.wtr --at step:3 --at step:4 --by stack      what a step leaves behind\n"
        "  weir diff before.pickle after.pickle\n",
};

enum { shown_rows = 20, most_moments = 2 };

struct diff_settings {
    struct part_options part;
    const char *at[most_moments];
    size_t at_count;
    enum moments_by by;
    bool json;
};

static const char *const by_words[] = {"tag", "stack", "size"};

static int parse_at(void *ctx, const char *value)
{
    struct diff_settings *settings = ctx;
    if (settings->at_count == most_moments) {
        return complain("diff", true, "--at %s: more than two moments", value);
    }
    settings->at[settings->at_count++] = value;
    return EXIT_DONE;
}

static int parse_by(void *ctx, const char *value)
{
    struct diff_settings *settings = ctx;
    for (size_t i = 0; i < sizeof(by_words) / sizeof(by_words[0]); i++) {
        if (strcmp(value, by_words[i]) == 0) {
            settings->by = (enum moments_by)i;
            return EXIT_DONE;
        }
    }
    return complain("diff", true, "--by %s: neither tag, stack nor size", value);
}

/* --- moments --- */

/* Returns the number of events up to the peak of live bytes. */
static bool find_peak(const struct trace *trace, size_t *count)
{
    uint64_t *sizes = calloc((size_t)trace->block_count + 1, sizeof(*sizes));
    uint64_t live = 0;
    uint64_t peak = 0;
    *count = 0;
    for (size_t i = 0; sizes != NULL && i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        const weir_trace_kind kind = event->event.kind;
        if (kind == WEIR_TRACE_PRIOR || kind == WEIR_TRACE_ALLOC || kind == WEIR_TRACE_REALLOC) {
            sizes[event->index] = event->event.size;
            live += event->event.size;
        }
        if (kind == WEIR_TRACE_REALLOC || kind == WEIR_TRACE_FREE) {
            live -= sizes[kind == WEIR_TRACE_REALLOC ? event->old_index : event->index];
        }
        if (live > peak) {
            peak = live;
            *count = i + 1;
        }
    }
    free(sizes);
    return sizes != NULL;
}

/* Returns the number of events before the request that begins a step, counted from 0. */
static int find_step(const struct trace *trace, const char *text, size_t *count)
{
    struct steps steps;
    uint64_t number = 0;
    if (!steps_find(trace, &steps)) {
        return complain("diff", false, "no host memory");
    }
    if (!parse_number(text + strlen("step:"), &number) || number > steps.count) {
        return complain("diff", true, "--at %s: %s has the steps 0 to %" PRIu64, text, trace->path, steps.count);
    }
    uint64_t left = number * steps.requests;
    for (*count = 0; *count < trace->event_count; ++*count) {
        const weir_trace_kind kind = trace->events[*count].event.kind;
        const bool asks = kind == WEIR_TRACE_ALLOC || kind == WEIR_TRACE_REALLOC;
        if (asks && trace_event_number(trace, *count) >= steps.first_event && left-- == 0) {
            break;
        }
    }
    return EXIT_DONE;
}

static bool is_up_to(const struct trace *trace, size_t i, bool timed, uint64_t bound)
{
    return (timed ? trace->events[i].event.time_ns : trace_event_number(trace, i)) <= bound;
}

static int find_bound(const struct trace *trace, const char *text, size_t *count)
{
    uint64_t bound = 0;
    const bool numbered = parse_number(text, &bound);
    if (!numbered && !parse_time(text, &bound)) {
        return complain("diff", true, "--at %s: neither an event, a time, start, peak, end nor step:N", text);
    }
    if (!numbered && trace->clock != TRACE_CLOCK_NS) {
        return complain("diff", true, "--at %s: %s has no times", text, trace->path);
    }
    if (numbered && bound >= trace->file_event_count) {
        return complain("diff", true, "--at %s: %s has %" PRIu64 " events", text, trace->path, trace->file_event_count);
    }
    for (*count = 0; *count < trace->event_count && is_up_to(trace, *count, !numbered, bound);) {
        ++*count;
    }
    return EXIT_DONE;
}

static int find_moment(const struct trace *trace, const char *text, struct moment *moment)
{
    moment->trace = trace;
    if (strcmp(text, "start") == 0) {
        moment->count = trace_start_events(trace);
        return EXIT_DONE;
    }
    if (strcmp(text, "end") == 0) {
        moment->count = trace->event_count;
        return EXIT_DONE;
    }
    if (strcmp(text, "peak") == 0) {
        return find_peak(trace, &moment->count) ? EXIT_DONE : complain("diff", false, "no host memory");
    }
    if (strncmp(text, "step:", 5) == 0) {
        return find_step(trace, text, &moment->count);
    }
    return find_bound(trace, text, &moment->count);
}

/* --- text --- */

static void print_moment(char letter, const struct moment *moment, const struct moments_sum *sum)
{
    char text[3][UNIT_TEXT];
    (void)printf("  %c  %s", letter, moment->trace->path);
    if (moment->count == 0) {
        (void)fputs(", before the first event", stdout);
    } else {
        (void)printf(", event %s", format_count(text[0], trace_event_number(moment->trace, moment->count - 1)));
    }
    (void)printf(": %s live in %s block%s\n", format_size(text[1], sum->bytes), format_count(text[2], sum->blocks),
                 sum->blocks == 1 ? "" : "s");
}

static void print_change(const struct moments_group *group)
{
    char text[4][UNIT_TEXT];
    const bool grew = group->came.bytes >= group->went.bytes;
    char change[UNIT_TEXT + 1];
    (void)snprintf(
        change, sizeof(change), "%c%s", grew ? '+' : '-',
        format_size(text[0], grew ? group->came.bytes - group->went.bytes : group->went.bytes - group->came.bytes));
    (void)printf("  %11s  %10s %9s  %10s %9s  ", change, format_size(text[0], group->came.bytes),
                 format_count(text[1], group->came.blocks), format_size(text[2], group->went.bytes),
                 format_count(text[3], group->went.blocks));
}

static void print_flat(const struct moments *moments)
{
    char text[UNIT_TEXT];
    size_t shown = 0;
    for (; shown < moments->count && shown < shown_rows && moments_turnover(&moments->groups[shown]) > 0; shown++) {
        const struct moments_group *group = &moments->groups[shown];
        print_change(group);
        if (group->text[0] != '\0') {
            clean_print(stdout, group->text, strlen(group->text));
        } else {
            (void)printf("blocks of %s", format_size(text, group->size));
        }
        (void)fputc('\n', stdout);
    }
    size_t rest = 0;
    for (size_t i = shown; i < moments->count; i++) {
        rest += moments_turnover(&moments->groups[i]) > 0;
    }
    if (rest > 0) {
        (void)printf("  and %s more\n", format_count(text, rest));
    }
}

/* The groups from `from` to `to` have the same frame at `offset` of their texts. */
struct branch {
    size_t from;
    size_t to;
    struct moments_group sum;
};

static int by_size(const void *left, const void *right)
{
    const struct branch *a = left;
    const struct branch *b = right;
    const uint64_t one = moments_turnover(&a->sum);
    const uint64_t other = moments_turnover(&b->sum);
    return one != other ? (one > other ? -1 : 1) : a->from < b->from ? -1 : a->from > b->from;
}

static void add_sums(struct moments_group *sum, const struct moments_group *group)
{
    sum->came.bytes += group->came.bytes;
    sum->came.blocks += group->came.blocks;
    sum->went.bytes += group->went.bytes;
    sum->went.blocks += group->went.blocks;
}

/* Finds the branches of the groups of a branch: groups whose frames at the offset are equal lie together. */
static size_t find_branches(const struct moments *moments, const struct branch *whole, size_t offset,
                            struct branch *branches)
{
    size_t count = 0;
    for (size_t i = whole->from; i < whole->to; i++) {
        const char *frame = moments->groups[i].text + offset;
        const size_t length = strcspn(frame, "\n");
        const char *before = count > 0 ? moments->groups[i - 1].text + offset : "";
        if (count == 0 || strcspn(before, "\n") != length || strncmp(before, frame, length) != 0) {
            branches[count++] = (struct branch){.from = i, .sum = {.text = frame}};
        }
        branches[count - 1].to = i + 1;
        add_sums(&branches[count - 1].sum, &moments->groups[i]);
    }
    qsort(branches, count, sizeof(*branches), by_size);
    return count;
}

/* Prints the branches with at least a hundredth of all that came and went, each with its own below it. */
static bool print_tree(const struct moments *moments, const struct branch *whole, size_t offset, int depth)
{
    struct branch *branches = malloc((whole->to - whole->from + 1) * sizeof(*branches));
    if (branches == NULL) {
        return false;
    }
    bool done = true;
    const size_t count = find_branches(moments, whole, offset, branches);
    for (size_t i = 0; i < count && done; i++) {
        const uint64_t turnover = moments_turnover(&branches[i].sum);
        if (turnover == 0 || turnover < moments_turnover(&moments->all) / 100) {
            break;
        }
        const size_t length = strcspn(branches[i].sum.text, "\n");
        print_change(&branches[i].sum);
        (void)printf("%*s", 2 * depth, "");
        clean_print(stdout, branches[i].sum.text, length);
        (void)fputc('\n', stdout);
        if (moments->groups[branches[i].from].text[offset + length] == '\0') {
            branches[i].from++; /* a stack that ends here */
        }
        if (branches[i].from < branches[i].to) {
            done = print_tree(moments, &branches[i], offset + length + 1, depth + 1);
        }
    }
    free(branches);
    return done;
}

static int print_text(const struct moment at[2], const struct moments *moments, enum moments_by by)
{
    const struct branch whole = {.from = 0, .to = moments->count};
    print_moment('A', &at[0], &moments->all.at[0]);
    print_moment('B', &at[1], &moments->all.at[1]);
    (void)printf("  %11s  %10s %9s  %10s %9s  %s\n", "change", "came", "blocks", "went", "blocks", by_words[by]);
    print_change(&moments->all);
    (void)fputs("all\n", stdout);
    if (by != MOMENTS_BY_STACK) {
        print_flat(moments);
    } else if (!print_tree(moments, &whole, 0, 0)) {
        return complain("diff", false, "no host memory");
    }
    return EXIT_DONE;
}

/* --- JSON --- */

static json_t *sum_json(const struct moments_sum *sum)
{
    return json_pack("{s:I, s:I}", "bytes", (json_int_t)sum->bytes, "blocks", (json_int_t)sum->blocks);
}

static json_t *moment_json(const struct moment *moment, const struct moments_sum *sum)
{
    json_t *object = sum_json(sum);
    (void)json_object_set_new(object, "trace", json_text(moment->trace->path));
    (void)json_object_set_new(object, "event",
                              moment->count == 0
                                  ? json_null()
                                  : json_integer((json_int_t)trace_event_number(moment->trace, moment->count - 1)));
    return object;
}

static json_t *group_json(const struct moments_group *group, enum moments_by by)
{
    json_t *object = json_pack("{s:o, s:o, s:o, s:o}", "a", sum_json(&group->at[0]), "b", sum_json(&group->at[1]),
                               "came", sum_json(&group->came), "went", sum_json(&group->went));
    (void)json_object_set_new(object, by_words[by],
                              by == MOMENTS_BY_SIZE ? json_integer((json_int_t)group->size) : json_lines(group->text));
    return object;
}

static int print_json(const struct moment at[2], const struct moments *moments, enum moments_by by)
{
    json_t *groups = json_array();
    for (size_t i = 0; i < moments->count; i++) {
        if (moments_turnover(&moments->groups[i]) > 0) {
            (void)json_array_append_new(groups, group_json(&moments->groups[i], by));
        }
    }
    json_t *object = json_pack("{s:o, s:o, s:o, s:o, s:s, s:o}", "a", moment_json(&at[0], &moments->all.at[0]), "b",
                               moment_json(&at[1], &moments->all.at[1]), "came", sum_json(&moments->all.came), "went",
                               sum_json(&moments->all.went), "by", by_words[by], "groups", groups);
    const int status = json_print("diff", object, JSON_INDENT(2));
    json_decref(object);
    return status;
}

/* --- the command --- */

static int open_part(const struct diff_settings *settings, const char *name, struct trace **trace)
{
    char error[512];
    int status = open_trace("diff", name, trace);
    if (status == EXIT_DONE && !part_choose(&settings->part, trace, error, sizeof(error))) {
        status = complain("diff", false, "%s", error);
        trace_free(*trace);
        *trace = NULL;
    }
    return status;
}

static int compare_moments(const struct diff_settings *settings, const struct moment at[2])
{
    struct moments moments;
    int status = EXIT_DONE;
    if (!moments_compare(&at[0], &at[1], settings->by, &moments)) {
        status = complain("diff", false, "no host memory");
    } else {
        status = settings->json ? print_json(at, &moments, settings->by) : print_text(at, &moments, settings->by);
    }
    moments_free(&moments);
    return status;
}

static int run(const struct diff_settings *settings, char **names, size_t count)
{
    struct trace *traces[2] = {NULL, NULL};
    struct moment at[2];
    const char *words[2] = {count == 2 ? "peak" : "start", "peak"};
    int status = EXIT_DONE;
    for (size_t i = 0; i < count && status == EXIT_DONE; i++) {
        status = open_part(settings, names[i], &traces[i]);
    }
    for (size_t i = 0; i < 2 && status == EXIT_DONE; i++) {
        words[i] = settings->at_count == 0 ? words[i] : settings->at[settings->at_count == 1 ? 0 : i];
        status = find_moment(traces[count == 2 ? i : 0], words[i], &at[i]);
    }
    status = status == EXIT_DONE ? compare_moments(settings, at) : status;
    trace_free(traces[0]);
    trace_free(traces[1]);
    return status;
}

int command_diff(int argc, char **argv)
{
    struct diff_settings settings = {.part = PART_OPTIONS_INIT("diff")};
    const struct option_row rows[] = {
        {.name = "at",
         .value = "MOMENT",
         .parse = parse_at,
         .text = "a moment, A or B; with two traces, given once, it is that of both"},
        {.name = "by", .value = "tag|stack|size", .parse = parse_by, .text = "what is told apart (default: tag)"},
        {.name = "json", .flag = &settings.json, .text = "print JSON, with all groups"},
        PART_OPTION_ROWS(&settings.part, "compare the blocks of device N only"),
        OPTION_HELP,
        {.name = NULL},
    };
    const int status = read_options(&subcommand, rows, &settings, argc, argv);
    if (status != EXIT_DONE) {
        return status < 0 ? EXIT_DONE : status;
    }
    const size_t count = (size_t)(argc - optind);
    if (count == 0 || count > 2) {
        return complain("diff", true, count == 0 ? "no trace is named" : "more than two traces");
    }
    if (count == 1 && settings.at_count == 1) {
        return complain("diff", true, "one trace needs two moments: --at twice, or not at all");
    }
    return run(&settings, argv + optind, count);
}
