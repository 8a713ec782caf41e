/* output_advice.c: prints advice: a sentence, the figures of each cure, the lines to paste, the reasons; or as JSON. */
#include "advice.h"

#include "json.h"
#include "output.h"
#include "trace/clean_text.h"
#include "units.h"

#include <inttypes.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

static const struct {
    const char *key;  /* in JSON */
    const char *name; /* in the table */
} kinds[CURE_COUNT] = {
    [CURE_NONE] = {"now", "as it is"},
    [CURE_SETTINGS] = {"settings", "settings"},
    [CURE_UNEXPANDED] = {"settings_unexpanded", "not expandable"},
    [CURE_POOL] = {"pool", "weir"},
    [CURE_REGIONS] = {"pool_regions", "weir, regions"},
};

static const char *const growths[] = {"balanced", "grow-first", "wait-first"};

static bool is_pool(const struct cure *cure)
{
    return cure->kind == CURE_POOL || cure->kind == CURE_REGIONS;
}

/* Prints a text as one word of a shell. */
static void print_word(FILE *out, const char *text, int length)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:.,=";
    if (strspn(text, plain) >= (size_t)length) {
        (void)fprintf(out, "%.*s", length, text);
        return;
    }
    (void)fputc('\'', out);
    for (int i = 0; i < length; i++) {
        (void)fputs(text[i] == '\'' ? "'\\'" : "", out);
        (void)fputc(text[i], out);
        (void)fputs(text[i] == '\'' ? "'" : "", out);
    }
    (void)fputc('\'', out);
}

/* --- the table --- */

static void print_heading(FILE *out, const struct advice *advice)
{
    char size[UNIT_TEXT];
    const bool npu = advice->program == PYTORCH_NPU;
    (void)fputc('\n', out);
    clean_print(out, advice->trace->path, strlen(advice->trace->path));
    if (output_names_device(advice->trace)) {
        (void)fprintf(out, ", device %u", advice->trace->device);
    }
    (void)fprintf(out, ": %s live at most", format_size(size, advice->peak_live_bytes));
    if (advice->capacity != 0) {
        (void)fprintf(out, ", a device of %s", format_size(size, advice->capacity));
    }
    (void)fprintf(out, "\n  as it is: %s%s with %s%s",
                  advice->foreign ? "for comparison, as the recording is of another allocator, " : "",
                  npu ? "torch_npu" : "PyTorch", advice->settings[0] != '\0' ? advice->settings : "its defaults",
                  advice->told || advice->foreign ? "" : "; the recording does not tell the settings");
    if (advice->recorded_bytes != 0) {
        (void)fprintf(out, "; the recorded allocator held %s", format_size(size, advice->recorded_bytes));
    }
    (void)fputc('\n', out);
    if (advice->refused[0] != '\0') {
        (void)fprintf(out, "  the recorded settings are not modelled, the defaults stand for them: %s\n",
                      advice->refused);
    }
}

static void print_row(FILE *out, const struct advice *advice, const struct cure *cure)
{
    char size[3][UNIT_TEXT];
    char count[UNIT_TEXT];
    char reserved[UNIT_TEXT];
    const struct tuning_point *point = &cure->point;
    const double live = (double)(advice->peak_live_bytes != 0 ? advice->peak_live_bytes : 1);
    const bool rest = cure->enough != 0 && cure->enough <= advice->capacity;
    (void)snprintf(reserved, sizeof(reserved), "%s", format_size(size[0], point->peak_reserved_bytes));
    (void)fprintf(
        out, "  %-14s %11s %6.3f %12s %12s %12s\n", kinds[cure->kind].name, point->served ? reserved : "refused",
        (double)point->peak_reserved_bytes / live, cure->enough != 0 ? format_size(size[1], cure->enough) : "-",
        rest ? format_size(size[2], advice->capacity - cure->enough) : "-", format_count(count, point->device_calls));
}

static void print_table(FILE *out, const struct advice *advice)
{
    (void)fprintf(out, "  %-14s %11s %6s %12s %12s %12s\n", "", "reserved", "/live", "least device", "for the rest",
                  "device calls");
    for (size_t i = 0; i < advice->cure_count; i++) {
        print_row(out, advice, &advice->cures[i]);
    }
}

/* --- the lines to paste --- */

static void print_settings(FILE *out, const struct advice *advice, const struct cure *cure)
{
    int length = 0;
    char size[UNIT_TEXT];
    const char *settings = tuning_settings(&cure->point, &length);
    const char *const *names = advice_variables(advice);
    (void)fprintf(out, "\n%s: %s, one of these; a variable replaces all earlier settings\n", kinds[cure->kind].name,
                  advice->program == PYTORCH_NPU ? "torch_npu" : "PyTorch");
    for (size_t i = 0; names[i] != NULL; i++) {
        (void)fprintf(out, length == 0 ? "  unset %s" : "  export %s=", names[i]);
        print_word(out, settings, length);
        (void)fputs(i == 0 ? "\n" : advice->program == PYTORCH_NPU ? "    # newer name\n" : "    # older name\n", out);
    }
    if (cure->cap_share > 0.0) {
        (void)fprintf(out,
                      "  torch.%s.set_per_process_memory_fraction(%.4f)    # a cap: leaves %s to the rest of the "
                      "process\n",
                      advice->program == PYTORCH_NPU ? "npu" : "cuda", cure->cap_share,
                      format_size(size, advice->capacity - (uint64_t)(cure->cap_share * (double)advice->capacity)));
    }
}

/* The strategy's name, as the functions of C and WEIR_TORCH have it. */
static int strategy_length(const struct cure *cure)
{
    return (int)strcspn(cure->point.row, "+");
}

static void print_config(FILE *out, const struct cure *cure)
{
    static const char *const constants[] = {NULL, "WEIR_GROWTH_GROW_FIRST", "WEIR_GROWTH_WAIT_FIRST"};
    const char *row = cure->point.row;
    (void)fprintf(out, "\n%s: in C\n", kinds[cure->kind].name);
    (void)fputs("  weir_pool_config config = WEIR_POOL_CONFIG_INIT;\n  config.device = device;\n", out);
    (void)fprintf(out, "  config.strategy = weir_%.*s_strategy(); /* weir/%.*s.h */\n", strategy_length(cure), row,
                  strategy_length(cure), row);
    if (cure->kind == CURE_REGIONS) {
        (void)fputs("  config.flags = WEIR_POOL_REGIONS;\n", out);
    }
    if (cure->point.growth != WEIR_GROWTH_BALANCED) {
        (void)fprintf(out, "  config.growth = %s;\n", constants[cure->point.growth]);
    }
    if (cure->cap_bytes != 0) {
        (void)fprintf(out,
                      "  config.limit_bytes = UINT64_C(%" PRIu64 "); /* a cap: the rest of the device stays free */\n",
                      cure->cap_bytes);
    }
}

static void print_weir_torch(FILE *out, const struct cure *cure)
{
    char text[128];
    advice_weir_torch(cure, text, sizeof(text));
    (void)fprintf(out, "%s: libweir_torch.so, in PyTorch\n  export WEIR_TORCH=%s\n", kinds[cure->kind].name, text);
    if (cure->cap_bytes != 0) {
        const bool mib = cure->cap_bytes % MIB == 0;
        (void)fprintf(out, "  export WEIR_TORCH=%s,limit:%" PRIu64 "%s    # with the cap\n", text,
                      mib ? cure->cap_bytes / MIB : cure->cap_bytes, mib ? "MiB" : "B");
    }
}

/* Prints the lines of each cure that is better than the settings that the program had. */
static void print_lines(FILE *out, const struct advice *advice)
{
    for (size_t i = 1; i < advice->cure_count; i++) {
        const struct cure *cure = &advice->cures[i];
        if (!cure->point.served || !tuning_is_better(&cure->point, &advice->tuning.now)) {
            continue;
        }
        if (is_pool(cure)) {
            print_config(out, cure);
            print_weir_torch(out, cure);
        } else {
            print_settings(out, advice, cure);
        }
    }
}

/* --- the rest --- */

static void print_others(FILE *out, const struct advice *advice)
{
    char size[UNIT_TEXT];
    const weir_growth growth = advice->cures[advice->best].point.growth;
    (void)fputs("\nWhy not the other settings\n", out);
    for (size_t i = 0; i < advice->tuning.alone_count; i++) {
        const struct tuning_point *point = &advice->tuning.alone[i];
        int length = 0;
        const char *settings = tuning_settings(point, &length);
        (void)fprintf(out, "  %11s  %.*s\n", point->served ? format_size(size, point->peak_reserved_bytes) : "refused",
                      length > 0 ? length : 8, length > 0 ? settings : "defaults");
    }
    for (size_t i = 0; i < advice->reason_count; i++) {
        (void)fprintf(out, "  - %s\n", advice->reasons[i]);
    }
    (void)fprintf(out, "\nEach figure is that of a replay: weir replay TRACE --strategy '%s'%s%s\n",
                  advice->cures[advice->best].point.row, growth != WEIR_GROWTH_BALANCED ? " --growth " : "",
                  growth != WEIR_GROWTH_BALANCED ? growths[growth] : "");
}

void output_advice(FILE *out, const struct advice *advice)
{
    (void)fprintf(out, "%s.\n", advice->sentence);
    print_heading(out, advice);
    print_table(out, advice);
    print_lines(out, advice);
    print_others(out, advice);
}

/* --- JSON --- */

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *known(uint64_t value)
{
    return value != 0 ? number(value) : json_null();
}

static json_t *environment_json(const struct advice *advice, const struct cure *cure)
{
    json_t *object = json_object();
    char text[tuning_text];
    int length = 0;
    const char *settings = tuning_settings(&cure->point, &length);
    if (is_pool(cure)) {
        advice_weir_torch(cure, text, sizeof(text));
        (void)json_object_set_new(object, "WEIR_TORCH", json_text(text));
        return object;
    }
    (void)snprintf(text, sizeof(text), "%.*s", length, settings);
    for (const char *const *name = advice_variables(advice); *name != NULL; name++) {
        (void)json_object_set_new(object, *name, json_text(text));
    }
    return object;
}

static json_t *point_json(const struct tuning_point *point)
{
    json_t *object = json_object();
    (void)json_object_set_new(object, "strategy", json_text(point->row));
    (void)json_object_set_new(object, "growth",
                              strchr(point->row, '[') == NULL ? json_string(growths[point->growth]) : json_null());
    (void)json_object_set_new(object, "served", json_boolean(point->served));
    (void)json_object_set_new(object, "peak_reserved_bytes", number(point->peak_reserved_bytes));
    (void)json_object_set_new(object, "refused_event", point->served ? json_null() : number(point->event));
    (void)json_object_set_new(object, "device_calls", number(point->device_calls));
    return object;
}

static json_t *cure_json(const struct advice *advice, const struct cure *cure)
{
    json_t *object = point_json(&cure->point);
    (void)json_object_set_new(object, "cure", json_string(kinds[cure->kind].key));
    (void)json_object_set_new(object, "environment", environment_json(advice, cure));
    (void)json_object_set_new(object, "least_capacity_bytes", known(cure->enough));
    (void)json_object_set_new(object, "cap_bytes", known(cure->cap_bytes));
    (void)json_object_set_new(object, "cap_fraction", cure->cap_share > 0.0 ? json_real(cure->cap_share) : json_null());
    return object;
}

json_t *output_advice_json(const struct advice *advice)
{
    json_t *object = json_object();
    json_t *cures = json_array();
    json_t *alone = json_array();
    json_t *reasons = json_array();
    for (size_t i = 0; i < advice->cure_count; i++) {
        (void)json_array_append_new(cures, cure_json(advice, &advice->cures[i]));
    }
    for (size_t i = 0; i < advice->tuning.alone_count; i++) {
        (void)json_array_append_new(alone, point_json(&advice->tuning.alone[i]));
    }
    for (size_t i = 0; i < advice->reason_count; i++) {
        (void)json_array_append_new(reasons, json_text(advice->reasons[i]));
    }
    (void)json_object_set_new(object, "trace", json_text(advice->trace->path));
    (void)json_object_set_new(object, "device", number(advice->trace->device));
    (void)json_object_set_new(object, "part", json_part(advice->trace->part));
    (void)json_object_set_new(object, "advice", json_text(advice->sentence));
    (void)json_object_set_new(object, "best", number(advice->best));
    (void)json_object_set_new(object, "program", json_string(advice->program == PYTORCH_NPU ? "torch_npu" : "pytorch"));
    (void)json_object_set_new(object, "settings", advice->told ? json_text(advice->settings) : json_null());
    (void)json_object_set_new(object, "settings_refused",
                              advice->refused[0] != '\0' ? json_text(advice->refused) : json_null());
    (void)json_object_set_new(object, "peak_live_bytes", number(advice->peak_live_bytes));
    (void)json_object_set_new(object, "recorded_bytes", known(advice->recorded_bytes));
    (void)json_object_set_new(object, "capacity_bytes", known(advice->capacity));
    (void)json_object_set_new(object, "cures", cures);
    (void)json_object_set_new(object, "alone", alone);
    (void)json_object_set_new(object, "why_not", reasons);
    (void)json_object_set_new(object, "replays", number(advice->tuning.replays));
    return object;
}
