/* part_options.c: see part_options.h. */
#include "part_options.h"

#include "complain.h"
#include "units.h"

#include <stdio.h>
#include <string.h>

int part_parse_device(void *ctx, const char *value)
{
    struct part_options *part = ctx;
    if (!parse_number(value, &part->device) || part->device >= TRACE_MAX_DEVICES) {
        return complain(part->subcommand, true, "--device %s: not a number from 0 to %u", value, TRACE_MAX_DEVICES - 1);
    }
    return EXIT_DONE;
}

static int parse_bound(const struct part_options *part, const char *option, const char *value,
                       struct trace_bound *bound)
{
    if (parse_number(value, &bound->value)) {
        bound->kind = TRACE_BOUND_EVENT;
    } else if (parse_time(value, &bound->value)) {
        bound->kind = TRACE_BOUND_TIME;
    } else {
        return complain(part->subcommand, true, "%s %s: neither the number of an event nor a time such as 1.5s", option,
                        value);
    }
    const struct trace_bound *from = &part->filter.from;
    const struct trace_bound *to = &part->filter.to;
    if (from->kind == to->kind && to->value < from->value) {
        return complain(part->subcommand, true, "%s %s: the window ends before it begins", option, value);
    }
    return EXIT_DONE;
}

int part_parse_from(void *ctx, const char *value)
{
    struct part_options *part = ctx;
    return parse_bound(part, "--from", value, &part->filter.from);
}

int part_parse_to(void *ctx, const char *value)
{
    struct part_options *part = ctx;
    return parse_bound(part, "--to", value, &part->filter.to);
}

int part_parse_streams(void *ctx, const char *value)
{
    struct part_options *part = ctx;
    part->filter.stream_count = 0;
    for (const char *at = value;; at++) {
        char word[24];
        uint64_t stream = 0;
        const size_t length = strcspn(at, ",");
        (void)snprintf(word, sizeof(word), "%.*s", (int)(length < sizeof(word) ? length : sizeof(word)), at);
        if (!parse_number(word, &stream) || stream >= TRACE_MAX_STREAMS) {
            return complain(part->subcommand, true, "--stream %s: not numbers of streams, separated by commas", value);
        }
        if (part->filter.stream_count == part_most_streams) {
            return complain(part->subcommand, true, "--stream %s: more than %d streams", value, part_most_streams);
        }
        part->streams[part->filter.stream_count++] = (uint32_t)stream;
        at += length;
        if (*at == '\0') {
            return EXIT_DONE;
        }
    }
}

/* Frees *trace and puts `chosen` in its place. */
static void replace(struct trace **trace, struct trace *chosen)
{
    trace_free(*trace);
    *trace = chosen;
}

bool part_choose(const struct part_options *part, struct trace **trace, char *error, size_t error_size)
{
    struct trace_error why = {0};
    struct trace *chosen = NULL;
    struct trace_filter filter = part->filter;
    filter.streams = part->streams;
    bool done = true;
    if (filter.from.kind != TRACE_BOUND_NONE || filter.to.kind != TRACE_BOUND_NONE || filter.stream_count > 0) {
        done = trace_filtered(*trace, &filter, &chosen, &why) == WEIR_OK;
        if (done) {
            replace(trace, chosen);
        }
    }
    if (done && part->device != TRACE_NO_INDEX && (*trace)->device != part->device) {
        done = trace_of_device(*trace, (uint32_t)part->device, &chosen, &why) == WEIR_OK;
        if (done) {
            replace(trace, chosen);
        }
    }
    if (!done) {
        (void)snprintf(error, error_size, "%s", why.message);
    }
    return done;
}

bool part_each_device(struct trace *trace, bool (*run)(void *ctx, struct trace *one, char *error, size_t error_size),
                      void *ctx, char *error, size_t error_size)
{
    bool done = true;
    if (trace->device != TRACE_NO_INDEX) {
        return run(ctx, trace, error, error_size);
    }
    for (uint32_t d = 0; d < trace->device_count && done; d++) {
        struct trace *one = NULL;
        struct trace_error why = {0};
        if (!trace->devices[d].used) {
            continue;
        }
        done = trace_of_device(trace, d, &one, &why) == WEIR_OK;
        if (done) {
            done = run(ctx, one, error, error_size);
        } else {
            (void)snprintf(error, error_size, "%s", why.message);
        }
    }
    trace_free(trace);
    return done;
}
