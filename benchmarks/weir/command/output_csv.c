/* output_csv.c: `weir replay --csv`: a line for each trace, device and strategy, for spreadsheets and data frames. A
 * figure that is not known is an empty field. */
#include "output.h"

#include "replay/plan.h"
#include "trace/clean_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void output_csv_head(FILE *out)
{
    (void)fputs(
        "trace,device,strategy,events,peak_live_bytes,peak_reserved_bytes,reserved_over_live,largest_free_bytes,"
        "free_bytes,oom_event,oom_size,device_calls,device_calls_after_peak,allocs_after_peak,device_time_ns,waits,"
        "host_waits,hazards,p50_ns,p99_ns,p999_ns,enough_bytes,capture_bytes,oom_cause\n",
        out);
}

/* Writes a text in quotes, with the quotes in it doubled. */
static void put_text(FILE *out, const char *text)
{
    char *clean = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&clean, &size);
    if (memory != NULL) {
        clean_print(memory, text, strlen(text));
        (void)fclose(memory);
    }
    (void)fputc('"', out);
    for (const char *at = clean; at != NULL && *at != '\0'; at++) {
        (void)fputs(*at == '"' ? "\"" : "", out);
        (void)fputc(*at, out);
    }
    (void)fputc('"', out);
    free(clean);
}

/* Writes the name of a strategy, in quotes if its settings contain a comma. */
static void put_name(FILE *out, const char *name)
{
    if (strpbrk(name, ",\"") != NULL) {
        put_text(out, name);
    } else {
        (void)fputs(name, out);
    }
}

static void put_number(FILE *out, bool known, uint64_t value)
{
    (void)fputc(',', out);
    if (known) {
        (void)fprintf(out, "%" PRIu64, value);
    }
}

static void put_time(FILE *out, double ns)
{
    (void)fputc(',', out);
    if (ns > 0) {
        (void)fprintf(out, "%.0f", ns);
    }
}

static void put_result(FILE *out, const struct comparison *comparison, const struct replay_result *result)
{
    const bool simulated = !replay_is_computed(result);
    const bool free_known = !result->lacks_addresses;
    const uint64_t enough = comparison->enough[result - comparison->results];
    put_text(out, comparison->trace->path);
    (void)fprintf(out, ",%u,", comparison->trace->device);
    put_name(out, result->strategy->name);
    put_number(out, true, comparison->trace->event_count);
    put_number(out, true, result->peak_live_bytes);
    put_number(out, true, result->peak_reserved_bytes);
    (void)fprintf(out, ",%.6f", replay_ratio(result));
    put_number(out, free_known, result->largest_free_bytes);
    put_number(out, !plan_is(result), result->free_bytes);
    put_number(out, result->oom.happened, result->oom.event);
    put_number(out, result->oom.happened, result->oom.size);
    put_number(out, !result->lacks_calls, result->device_calls);
    put_number(out, !result->lacks_calls, result->warm_calls);
    put_number(out, true, result->warm_allocs);
    put_number(out, simulated, result->device_time_ns);
    put_number(out, simulated, result->waits + result->syncs);
    put_number(out, simulated, result->syncs);
    put_number(out, simulated, result->hazards);
    put_time(out, result->p50_ns);
    put_time(out, result->p99_ns);
    put_time(out, result->p999_ns);
    put_number(out, simulated && enough != 0, enough);
    put_number(out, simulated && replay_knows_captures(comparison->trace, result), result->capture_bytes);
    (void)fprintf(out, ",%s\n", result->oom.happened ? verdict_word(result->oom.record.cause) : "");
}

void output_csv(FILE *out, const struct comparison *comparison)
{
    for (size_t i = 0; i < comparison->result_count; i++) {
        put_result(out, comparison, &comparison->results[i]);
    }
}
