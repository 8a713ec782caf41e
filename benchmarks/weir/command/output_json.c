/* output_json.c: makes the object of `weir replay --json`. Fields may be added, never renamed. */
#include "json.h"
#include "output.h"
#include "output_host.h"

#include <weir/budget.h>

#include <stdlib.h>
#include <string.h>

static json_t *number(uint64_t value)
{
    return json_integer(value < INT64_MAX ? (json_int_t)value : INT64_MAX); /* the largest integer of jansson */
}

char *output_oom(const struct replay_oom *oom)
{
    if (oom->record.failure == 0) {
        return strdup(oom->why);
    }
    /* The text of weir_oom_explain begins with words that the command prints itself, so they are cut off. */
    static const char known[] = "out of memory: ";
    const size_t size = weir_oom_explain(&oom->record, NULL, 0) + 1;
    char *text = malloc(size);
    if (text != NULL) {
        (void)weir_oom_explain(&oom->record, text, size);
        memmove(text, text + sizeof(known) - 1, size - (sizeof(known) - 1));
    }
    return text;
}

const char *output_verdict(const struct comparison *comparison, const struct replay_result *result)
{
    if (!result->oom.happened) {
        return comparison->unlimited ? "unknown" : "served";
    }
    return result->oom.event == comparison->refused.event ? "same" : "earlier";
}

/* Returns the request on which the recorded program ran out of memory. */
static json_t *refused_json(const struct comparison *comparison)
{
    const struct recorded_oom *refused = &comparison->refused;
    if (!refused->found) {
        return json_null();
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:b}", "event", number(refused->event), "size", number(refused->size),
                     "free_bytes", number(refused->free_bytes), "reserved_bytes", number(refused->reserved_bytes),
                     "capacity_bytes", refused->capacity != 0 ? number(refused->capacity) : json_null(),
                     "capacity_used", comparison->implied);
}

/* Returns how a strategy dealt with the request on which the recorded program ran out of memory. */
static json_t *verdict_json(const struct comparison *comparison, const struct replay_result *result)
{
    if (!comparison->refused.found || replay_is_computed(result)) {
        return json_null();
    }
    const uint64_t enough = comparison->enough[result - comparison->results];
    return json_pack("{s:s, s:o}", "verdict", output_verdict(comparison, result), "enough_bytes",
                     enough != 0 ? number(enough) : json_null());
}

json_t *output_cause_json(const struct verdict *verdict)
{
    if (verdict->row == NULL) {
        return json_null();
    }
    return json_pack("{s:s, s:o, s:b, s:s, s:o}", "row", verdict->row, "event", number(verdict->event), "refused",
                     verdict->refused, "cause", verdict_word(verdict->cause), "text", json_text(verdict->text));
}

json_t *output_holders_json(const weir_oom_record *record)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < record->holder_count; i++) {
        const weir_oom_holder *holder = &record->holders[i];
        (void)json_array_append_new(all, json_pack("{s:o, s:o, s:o}", "tag", json_text(holder->name), "requested_bytes",
                                                   number(holder->requested_bytes), "blocks", number(holder->blocks)));
    }
    return all;
}

static json_t *lanes_json(const weir_oom_record *record)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < record->lane_count; i++) {
        const weir_oom_lane *lane = &record->lanes[i];
        (void)json_array_append_new(all, json_pack("{s:o, s:o, s:o, s:b}", "stream", number(lane->stream), "free_bytes",
                                                   number(lane->free_bytes), "largest_bytes",
                                                   number(lane->largest_bytes), "waits", lane->waits_for != 0));
    }
    return all;
}

static json_t *regions_json(const weir_oom_record *record)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < record->region_count; i++) {
        const weir_oom_region *region = &record->worst[i];
        (void)json_array_append_new(all, json_pack("{s:o, s:o, s:o, s:o, s:o}", "address", number(region->address),
                                                   "size", number(region->size), "free_bytes",
                                                   number(region->free_bytes), "largest_bytes",
                                                   number(region->largest_bytes), "blocks", number(region->blocks)));
    }
    return all;
}

/* Returns the advice of an out-of-memory record as an object. Fields that are 0, because this kind of advice does not
 * use them, are not in the object. */
static json_t *advice_json(const weir_oom_record *record)
{
    static const char *const kinds[] = {
#define ADVICE_TEXT(name) #name,
        WEIR_ADVICE_LIST(ADVICE_TEXT)
#undef ADVICE_TEXT
    };
    json_t *all = json_array();
    for (uint32_t i = 0; i < record->advice_count; i++) {
        const weir_oom_advice *advice = &record->advice[i];
        const uint64_t values[] = {advice->bytes, advice->blocks, advice->address, advice->size, advice->stream};
        static const char *const names[] = {"bytes", "blocks", "address", "size", "stream"};
        json_t *one = json_pack("{s:s}", "kind", kinds[advice->kind]);
        for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
            if (values[k] != 0) {
                (void)json_object_set_new(one, names[k], number(values[k]));
            }
        }
        (void)json_array_append_new(all, one);
    }
    return all;
}

static json_t *oom_json(const struct replay_oom *oom)
{
    if (!oom->happened) {
        return json_null();
    }
    char *report = output_oom(oom);
    json_t *object =
        json_pack("{s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "event", number(oom->event), "size",
                  number(oom->size), "cause", verdict_word(oom->record.cause), "why", json_text(oom->why), "report",
                  json_lines(report != NULL ? report : oom->why), "held_by", output_holders_json(&oom->record), "lanes",
                  lanes_json(&oom->record), "regions", regions_json(&oom->record), "advice", advice_json(&oom->record));
    free(report);
    return object;
}

static json_t *recorded_json(const struct comparison *comparison, const struct replay_result *result)
{
    const struct recorded_report *recorded = &comparison->recorded;
    if (!result->strategy->models_padding || !recorded->checkable) {
        return json_null();
    }
    json_t *object = json_pack("{s:o, s:o, s:o, s:o, s:o}", "addresses_matched", number(recorded->addresses_matched),
                               "addresses_total", number(recorded->addresses_total), "segments_matched",
                               number(recorded->segments_matched), "segments_total", number(recorded->segments_total),
                               "pad_bytes", number(recorded->pad_bytes));
    json_t *difference = recorded->first_mismatch[0] != '\0' ? json_text(recorded->first_mismatch) : json_null();
    (void)json_object_set_new(object, "first_mismatch", difference);
    return object;
}

static json_t *served_json(const struct replay_result *result)
{
    json_t *served = json_object();
    for (unsigned rung = 0; rung < WEIR_RUNG_COUNT; rung++) {
        if (result->served[rung] != 0) {
            (void)json_object_set_new(served, weir_rung_name((weir_rung)rung), number(result->served[rung]));
        }
    }
    return served;
}

static json_t *findings_json(const struct replay_result *result)
{
    json_t *findings = json_array();
    for (size_t i = 0; i < result->finding_count; i++) {
        (void)json_array_append_new(findings, json_text(result->findings[i]));
    }
    return findings;
}

static json_t *times_json(const struct replay_result *result)
{
    return json_pack("{s:f, s:f, s:f}", "p50", result->p50_ns, "p99", result->p99_ns, "p999", result->p999_ns);
}

static json_t *result_json(const struct comparison *comparison, const struct replay_result *result)
{
    json_t *object = json_object();
    (void)json_object_set_new(object, "strategy", json_string(result->strategy->name));
    (void)json_object_set_new(object, "prior_blocks", number(result->prior_blocks));
    (void)json_object_set_new(object, "allocs", number(result->allocs));
    (void)json_object_set_new(object, "frees", number(result->frees));
    (void)json_object_set_new(object, "peak_live_bytes", number(result->peak_live_bytes));
    (void)json_object_set_new(object, "peak_reserved_bytes", number(result->peak_reserved_bytes));
    (void)json_object_set_new(object, "peak_reserved_over_live", json_real(replay_ratio(result)));
    (void)json_object_set_new(object, "worst_event", number(result->worst_event));
    (void)json_object_set_new(object, "free_bytes", number(result->free_bytes));
    (void)json_object_set_new(object, "largest_free_bytes", number(result->largest_free_bytes));
    (void)json_object_set_new(object, "oom", oom_json(&result->oom));
    (void)json_object_set_new(object, "device_calls", number(result->device_calls));
    (void)json_object_set_new(object, "device_calls_after_peak", number(result->warm_calls));
    (void)json_object_set_new(object, "allocs_after_peak", number(result->warm_allocs));
    (void)json_object_set_new(object, "device_time_ns", number(result->device_time_ns));
    (void)json_object_set_new(object, "waits", number(result->waits + result->syncs));
    (void)json_object_set_new(object, "host_waits", number(result->syncs));
    (void)json_object_set_new(object, "hazards", number(result->hazards));
    (void)json_object_set_new(object, "hazards_in_flight", number(result->hazards_in_flight));
    (void)json_object_set_new(object, "findings", findings_json(result));
    (void)json_object_set_new(object, "checks", number(result->checks));
    (void)json_object_set_new(object, "ns_per_call", comparison->timing ? times_json(result) : json_null());
    (void)json_object_set_new(object, "seconds", comparison->timing ? json_real(result->seconds) : json_null());
    (void)json_object_set_new(object, "events_played", number(result->events_played));
    (void)json_object_set_new(object, "served", served_json(result));
    (void)json_object_set_new(object, "capture_bytes",
                              replay_knows_captures(comparison->trace, result) ? number(result->capture_bytes)
                                                                               : json_null());
    (void)json_object_set_new(object, "pad_bytes", number(result->pad_bytes));
    (void)json_object_set_new(object, "recorded", recorded_json(comparison, result));
    (void)json_object_set_new(object, "recorded_oom", verdict_json(comparison, result));
    output_computed_json(object, result);
    return object;
}

/* Returns one memory limit of a sweep, with its results, as JSON. Results are null if the limit was not replayed. */
static json_t *point_json(const struct sweep_point *point)
{
    json_t *object = json_object();
    const bool known = point->replayed;
    (void)json_object_set_new(object, "factor", json_real((double)point->factor / sweep_unit));
    (void)json_object_set_new(object, "limit_bytes", number(point->limit));
    (void)json_object_set_new(object, "served", known ? json_boolean(point->served) : json_null());
    (void)json_object_set_new(object, "played", known ? json_real(point->played) : json_null());
    (void)json_object_set_new(
        object, "oom",
        point->served || !known ? json_null()
                                : json_pack("{s:o, s:o}", "event", number(point->event), "size", number(point->size)));
    (void)json_object_set_new(object, "hazards", known ? number(point->hazards) : json_null());
    return object;
}

static json_t *factor_json(const struct sweep_point *point)
{
    return point == NULL ? json_null() : json_real((double)point->factor / sweep_unit);
}

static json_t *row_json(const struct sweep *sweep, const struct sweep_row *row)
{
    json_t *object = json_object();
    json_t *points = json_array();
    for (size_t i = 0; i < sweep->point_count; i++) {
        (void)json_array_append_new(points, point_json(&row->points[i]));
    }
    (void)json_object_set_new(object, "strategy", json_string(row->strategy->name));
    (void)json_object_set_new(object, "served_from", factor_json(row->first));
    (void)json_object_set_new(object, "served_from_bytes",
                              row->first == NULL ? json_null() : number(row->first->limit));
    (void)json_object_set_new(object, "always_served_from", factor_json(row->always));
    (void)json_object_set_new(object, "points", points);
    return object;
}

static json_t *sweep_json(const struct sweep *sweep)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < sweep->row_count; i++) {
        (void)json_array_append_new(rows, row_json(sweep, &sweep->rows[i]));
    }
    return json_pack("{s:o, s:o, s:o, s:b, s:o}", "peak_live_bytes", number(sweep->peak_bytes), "granularity_bytes",
                     number(sweep->granularity), "limits", number(sweep->limit_count), "every_limit", sweep->range.all,
                     "results", rows);
}

static json_t *prices_json(const struct price_source *prices)
{
    return json_pack("{s:o, s:o}", "file", prices->file != NULL ? json_text(prices->file) : json_null(), "assumed",
                     number(prices->assumed));
}

json_t *output_json(const struct comparison *comparison)
{
    const struct trace *trace = comparison->trace;
    json_t *results = json_array();
    for (size_t i = 0; i < comparison->result_count; i++) {
        (void)json_array_append_new(results, result_json(comparison, &comparison->results[i]));
    }
    json_t *object = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "trace", json_text(trace->path), "source",
                               json_text(trace->source), "peak_live_bytes", number(comparison->peak_live_bytes),
                               "events", number(trace->event_count), "streams", number(trace->stream_count), "devices",
                               number(trace->device_count), "results", results);
    (void)json_object_set_new(object, "version", json_integer(OUTPUT_JSON_VERSION));
    (void)json_object_set_new(object, "verdict", output_cause_json(&comparison->verdict));
    (void)json_object_set_new(object, "prices", prices_json(comparison->prices));
    (void)json_object_set_new(object, "device", number(trace->device));
    (void)json_object_set_new(object, "file_events", number(trace->file_event_count));
    (void)json_object_set_new(object, "part", json_part(trace->part));
    (void)json_object_set_new(object, "captures", number(trace->capture_count));
    (void)json_object_set_new(object, "recorded_oom", refused_json(comparison));
    (void)json_object_set_new(object, "history", json_boolean(!recorded_run_is_moment(trace)));
    if (comparison->sweep.row_count > 0) {
        (void)json_object_set_new(object, "sweep", sweep_json(&comparison->sweep));
    }
    if (comparison->host.result_count > 0) {
        (void)json_object_set_new(object, "host", output_host_json(&comparison->host, comparison->timing));
    }
    return object;
}
