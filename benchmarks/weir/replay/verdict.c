/* verdict.c: see verdict.h. */
#include "replay/verdict.h"

#include "replay/growing.h"
#include "replay/holders.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    least_grown = 8,       /* blocks of a holder that grows */
    least_waste = 16 << 20 /* bytes that are not live and worth a cure */
};

const char *verdict_word(weir_oom_cause cause)
{
    static const char *const words[] = {
        [WEIR_OOM_CAUSE_NONE] = "none",
        [WEIR_OOM_CAUSE_RECORDS] = "records",
        [WEIR_OOM_CAUSE_TOO_BIG] = "too_big",
        [WEIR_OOM_CAUSE_OUTSIDE] = "outside",
        [WEIR_OOM_CAUSE_WAITS] = "waits",
        [WEIR_OOM_CAUSE_GRAPH] = "graph",
        [WEIR_OOM_CAUSE_PINNED] = "pinned",
        [WEIR_OOM_CAUSE_OTHER_STREAMS] = "other_streams",
        [WEIR_OOM_CAUSE_FRAGMENTED] = "fragmented",
        [WEIR_OOM_CAUSE_ROUNDING] = "rounding",
        [WEIR_OOM_CAUSE_REFUSED] = "refused",
    };
    return words[cause];
}

/* Returns the number of events up to the moment. */
static size_t events_until(const struct trace *trace, uint64_t number)
{
    size_t low = 0;
    size_t high = trace->event_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (trace_event_number(trace, middle) <= number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

__attribute__((format(printf, 2, 3))) static void add(struct verdict *verdict, const char *format, ...)
{
    const size_t used = strlen(verdict->text);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(verdict->text + used, sizeof(verdict->text) - used, format, arguments);
    va_end(arguments);
}

/* A series of growing requests leaves pieces that no later request of it fits. */
static void name_growing(const struct trace *trace, const struct growing *series, struct verdict *verdict)
{
    const char *tag = series->tag < trace->tag_count ? trace->tags[series->tag] : "";
    add(verdict, "; %" PRIu64 " requests%s%s grew from %.1f to %.1f MiB, each a little larger than the one before",
        series->count, tag[0] != '\0' ? " of " : "", tag, (double)series->first_bytes / (1 << 20),
        (double)series->last_bytes / (1 << 20));
}

/* True if free memory has a part in it: more than a 20th of the reserved memory. */
static bool has_pieces(const weir_oom_record *record)
{
    return record->free_bytes > record->reserved_bytes / 20;
}

/* Says so if the largest holder, which was named, had at most 60 % of its bytes when half of the events had happened:
 * it grows. Returns false when out of host memory. */
static bool name_grown(const struct trace *trace, size_t events, const weir_oom_record *record, struct verdict *verdict)
{
    weir_oom_record half = WEIR_OOM_RECORD_INIT;
    const weir_oom_holder *most = &record->holders[0];
    if (record->holder_count == 0 || most->blocks < least_grown) {
        return true;
    }
    if (!holders_at(trace, events / 2, &half)) {
        return false;
    }
    uint64_t before = 0;
    for (uint32_t i = 0; i < half.holder_count; i++) {
        before = strcmp(half.holders[i].name, most->name) == 0 ? half.holders[i].requested_bytes : before;
    }
    if (before > 0 && before <= most->requested_bytes / 10 * 6) {
        add(verdict, "; \"%s\" had %.1f MiB when half of the events had happened", most->name,
            (double)before / (1 << 20));
    }
    return true;
}

/* A cure in a few words; NULL: there is none. */
static const char *cure_of(weir_oom_cause cause)
{
    static const char *const cures[] = {
        [WEIR_OOM_CAUSE_TOO_BIG] = "hold less, of the largest holder first, or take a larger device",
        [WEIR_OOM_CAUSE_OUTSIDE] =
            "find the others (nvidia-smi and npu-smi list processes) and end them or lower their share",
        [WEIR_OOM_CAUSE_WAITS] = "wait for the streams that use the freed memory, or free it after their work",
        [WEIR_OOM_CAUSE_GRAPH] = "destroy the graph, or lend its memory between launches",
        [WEIR_OOM_CAUSE_PINNED] = "end the pins of idle memory",
        [WEIR_OOM_CAUSE_OTHER_STREAMS] = "ask on the stream that freed the memory, or empty the cache before",
        [WEIR_OOM_CAUSE_FRAGMENTED] =
            "settings that join or avoid the pieces ('weir advise' finds and proves them), or blocks that live "
            "long allocated first",
        [WEIR_OOM_CAUSE_ROUNDING] = "settings that round less ('weir advise' finds and proves them)",
    };
    return (size_t)cause < sizeof(cures) / sizeof(cures[0]) ? cures[cause] : NULL;
}

/* True if the part of the reserved memory that is not live is worth a cure. */
static bool wastes_much(const weir_oom_record *record)
{
    const uint64_t live =
        record->requested_bytes < record->reserved_bytes ? record->requested_bytes : record->reserved_bytes;
    const uint64_t waste = record->reserved_bytes - live;
    return waste >= least_waste && waste > record->reserved_bytes / 5;
}

bool verdict_of(const struct trace *trace, const struct replay_result *result, struct verdict *verdict)
{
    const bool refused = result->oom.happened && result->oom.record.text[0] != '\0';
    const weir_oom_record *record = refused ? &result->oom.record : &result->peak;
    struct growing series;
    *verdict = (struct verdict){0};
    if (record->text[0] == '\0') {
        return true;
    }
    verdict->row = result->strategy->name;
    verdict->refused = refused;
    verdict->event = refused ? result->oom.event : result->worst_event;
    verdict->cause = record->cause;
    (void)snprintf(verdict->text, sizeof(verdict->text), "%s", record->text);
    const size_t events = events_until(trace, verdict->event);
    if (!growing_find(trace, events, &series)) {
        return false;
    }
    if (verdict->cause == WEIR_OOM_CAUSE_TOO_BIG && !name_grown(trace, events, record, verdict)) {
        return false;
    }
    const bool grows = series.count != 0 && has_pieces(record);
    if (grows) {
        name_growing(trace, &series, verdict);
    }
    const char *cure = grows ? "take the final size at once, or settings that 'weir advise' finds and proves"
                             : cure_of(verdict->cause);
    if (cure != NULL && (refused || wastes_much(record))) {
        add(verdict, "; cure: %s", cure);
    }
    return true;
}
