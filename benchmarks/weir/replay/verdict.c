/* verdict.c: see verdict.h. */
#include "replay/verdict.h"

#include "replay/growing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

/* A series of growing requests leaves pieces that no later request of it fits. */
static void name_growing(const struct trace *trace, const struct growing *series, struct verdict *verdict)
{
    const size_t used = strlen(verdict->text);
    const char *tag = series->tag < trace->tag_count ? trace->tags[series->tag] : "";
    (void)snprintf(verdict->text + used, sizeof(verdict->text) - used,
                   "; %" PRIu64 " requests%s%s grew from %.1f to %.1f MiB, each a little larger than the one before",
                   series->count, tag[0] != '\0' ? " of " : "", tag, (double)series->first_bytes / (1 << 20),
                   (double)series->last_bytes / (1 << 20));
}

/* True if free memory has a part in it: more than a 20th of the reserved memory. */
static bool has_pieces(const weir_oom_record *record)
{
    return record->free_bytes > record->reserved_bytes / 20;
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
    if (!growing_find(trace, events_until(trace, verdict->event), &series)) {
        return false;
    }
    if (series.count != 0 && has_pieces(record)) {
        name_growing(trace, &series, verdict);
    }
    return true;
}
