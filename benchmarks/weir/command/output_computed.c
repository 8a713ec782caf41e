/* output_computed.c: the rows of the recorded allocator and of the plan in the table and in JSON. They do not tell the
 * time of device calls, waits, hazards or the time of a call: the table shows "-" for them, JSON null. */
#include "output.h"

#include "json.h"
#include "replay/plan.h"
#include "trace/clean_text.h"
#include "units.h"

#include <string.h>

void output_computed_notes(FILE *out, const struct comparison *comparison)
{
    if (recorded_run_is_moment(comparison->trace)) {
        (void)fputs("  no history: the snapshot shows one moment\n", out);
    }
    if (!comparison->planned) {
        (void)fputs("  no plan: too many blocks\n", out);
    }
    for (size_t i = 0; i < comparison->result_count; i++) {
        const char *note = comparison->results[i].note;
        if (note[0] != '\0') {
            (void)fputs("  recorded: ", out);
            clean_print(out, note, strlen(note));
            (void)fputc('\n', out);
        }
    }
}

void output_computed_row(FILE *out, const struct replay_result *result)
{
    char reserved[UNIT_TEXT];
    char largest[UNIT_TEXT] = "-";
    char calls[UNIT_TEXT] = "-";
    char oom[UNIT_TEXT] = "-";
    char warm[UNIT_TEXT] = "-";
    if (!result->lacks_addresses) {
        (void)format_size(largest, result->largest_free_bytes);
    }
    if (result->oom.happened) {
        (void)snprintf(oom, sizeof(oom), "event %llu", (unsigned long long)result->oom.event);
    }
    if (!result->lacks_calls) {
        (void)format_count(calls, result->device_calls);
    }
    if (result->warm_allocs > 0 && !result->lacks_calls) {
        (void)snprintf(warm, sizeof(warm), "%.1f", (double)result->warm_calls * 1000.0 / (double)result->warm_allocs);
    }
    (void)fprintf(out, "  %-13s %11s %6.3f %12s %14s %9s %7s %10s %7s %7s %6s %6s %7s\n", result->strategy->name,
                  format_size(reserved, result->peak_reserved_bytes), replay_ratio(result), largest, oom, calls, warm,
                  "-", "-", "-", "-", "-", "-");
}

void output_computed_json(json_t *object, const struct replay_result *result)
{
    static const char *const unknown[] = {"device_time_ns",    "waits",    "host_waits", "hazards",
                                          "hazards_in_flight", "findings", "checks",     "ns_per_call",
                                          "seconds",           "served",   "pad_bytes",  "capture_bytes"};
    (void)json_object_set_new(object, "note", result->note[0] != '\0' ? json_text(result->note) : json_null());
    if (!replay_is_computed(result)) {
        return;
    }
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        (void)json_object_set_new(object, unknown[i], json_null());
    }
    if (result->lacks_addresses) {
        (void)json_object_set_new(object, "largest_free_bytes", json_null());
    }
    if (result->lacks_calls) {
        (void)json_object_set_new(object, "device_calls", json_null());
        (void)json_object_set_new(object, "device_calls_after_peak", json_null());
    }
    if (plan_is(result)) {
        (void)json_object_set_new(object, "free_bytes", json_null());
    }
}
