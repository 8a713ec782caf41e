/* advice.c: see advice.h. */
#include "advice.h"

#include "models/recorded.h"
#include "replay/live_peak.h"
#include "replay/recorded_oom.h"
#include "replay/recorded_run.h"
#include "replay/sweep.h"
#include "units.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { npu_pad_bytes = 32, share_steps = 10000 };

struct making {
    struct advice *advice;
    const struct trace *trace;
    struct replay_options options;
    uint64_t pad_bytes; /* of the rows of PyTorch, as in a replay */
    char *error;
    size_t error_size;
};

/* --- the facts of the recording --- */

/* True if the text has the word, in letters of any case. */
static bool has_word(const char *text, const char *word)
{
    for (; *text != '\0'; text++) {
        if (strncasecmp(text, word, strlen(word)) == 0) {
            return true;
        }
    }
    return false;
}

/* Finds the program and the bytes that it adds to each request, by the rule of `weir replay`. */
static bool find_program(struct making *making)
{
    const struct trace *trace = making->trace;
    struct recorded_report recorded = {0};
    const weir_status status = recorded_check(trace, RECORDED_PAD_BEST, &recorded);
    if (status != WEIR_OK) {
        (void)snprintf(making->error, making->error_size, "%s: the check against the recording failed: %s", trace->path,
                       weir_status_text(status));
        return false;
    }
    making->pad_bytes = recorded.checkable ? recorded.pad_bytes : trace->pad_bytes > 0 ? (uint64_t)trace->pad_bytes : 0;
    const char *source = trace->source;
    const bool npu = making->pad_bytes == npu_pad_bytes || has_word(source, "npu") || has_word(source, "ascend") ||
                     has_word(source, "msmem");
    making->advice->program = npu ? PYTORCH_NPU : PYTORCH_CUDA;
    making->advice->foreign = making->pad_bytes != npu_pad_bytes && !has_word(source, "torch") &&
                              !has_word(source, "kineto") && !has_word(source, "ascend-") && !has_word(source, "msmem");
    return true;
}

/* Finds the settings that the program had. A snapshot that does not tell them may show expandable segments. */
static void find_settings(struct advice *advice, const struct trace *trace)
{
    struct pytorch_settings parsed;
    struct pytorch_settings_error error = {.text = ""};
    advice->told = trace->allocator_settings != NULL;
    advice->settings = advice->told ? trace->allocator_settings : trace->expandable ? "expandable_segments:True" : "";
    if (!pytorch_settings_parse(advice->program, advice->settings, &parsed, &error)) {
        (void)snprintf(advice->refused, sizeof(advice->refused), "%s", error.text);
        advice->settings = "";
    } else if (strlen(advice->settings) > tuning_longest_base) {
        (void)snprintf(advice->refused, sizeof(advice->refused), "longer than %d bytes", tuning_longest_base);
        advice->settings = "";
    }
}

static bool find_facts(struct making *making)
{
    struct advice *advice = making->advice;
    const struct trace *trace = making->trace;
    struct replay_options *options = &making->options;
    if (options->capacity == 0) {
        options->capacity = recorded_oom_find(trace).capacity;
    }
    advice->capacity = options->capacity != 0 ? options->capacity : trace->devices[trace->device].capacity;
    if (recorded_run_known(trace)) {
        struct replay_result recorded;
        const bool known = recorded_run(trace, false, &recorded);
        advice->recorded_bytes = recorded.peak_reserved_bytes;
        replay_result_free(&recorded);
        if (!known) {
            (void)snprintf(making->error, making->error_size, "no host memory");
            return false;
        }
    }
    if (!live_peak(trace, LIVE_ON_DEVICE, &advice->peak_live_bytes)) {
        (void)snprintf(making->error, making->error_size, "no host memory");
        return false;
    }
    return true;
}

/* --- the cures --- */

static bool is_pool(const struct cure *cure)
{
    return cure->kind == CURE_POOL || cure->kind == CURE_REGIONS;
}

/* Replays a cure with a limit. A share of the device is rounded up to four places, as a person would write it. */
static bool prove_cap(struct making *making, struct cure *cure)
{
    struct tuning_point capped = cure->point;
    struct replay_options options = making->options;
    double share = 0.0;
    if (is_pool(cure)) {
        options.limit = cure->enough;
    } else {
        const uint64_t capacity = making->advice->capacity;
        int length = 0;
        const char *settings = tuning_settings(&cure->point, &length);
        if (capacity == 0 || cure->enough >= capacity || strstr(settings, "per_process_memory_fraction") != NULL) {
            return true;
        }
        share = ((double)cure->enough / (double)capacity * share_steps + 1.0);
        share = (double)(uint64_t)share / share_steps;
        (void)snprintf(capped.row, sizeof(capped.row), "%.*s[%.*s%sper_process_memory_fraction:%.4f]",
                       (int)(settings - cure->point.row) - 1, cure->point.row, length, settings, length > 0 ? "," : "",
                       share);
    }
    if (!tuning_play(making->trace, making->pad_bytes, &options, &capped, making->error, making->error_size)) {
        return false;
    }
    cure->cap_bytes = capped.served && is_pool(cure) ? cure->enough : 0;
    cure->cap_share = capped.served && !is_pool(cure) ? share : 0.0;
    return true;
}

/* Finds the least capacity of a cure, and a limit that holds it there. */
static bool measure(struct making *making, struct cure *cure)
{
    struct replay_strategy *owned = NULL;
    const struct replay_strategy *strategy = tuning_row(&cure->point, &owned);
    struct replay_options options = making->options;
    options.growth = cure->point.growth;
    if (strategy == NULL) {
        (void)snprintf(making->error, making->error_size, "no host memory");
        return false;
    }
    const uint64_t pad = strategy->fixed_pad >= 0 ? (uint64_t)strategy->fixed_pad : making->pad_bytes;
    const bool done =
        sweep_enough(making->trace, strategy, pad, &options, &cure->enough, making->error, making->error_size);
    free(owned);
    return done && (cure->enough == 0 || prove_cap(making, cure));
}

static void add_cure(struct advice *advice, enum cure_kind kind, const struct tuning_point *point)
{
    advice->cures[advice->cure_count++] = (struct cure){.kind = kind, .point = *point};
}

static bool is_expandable(const struct tuning_point *point)
{
    return strstr(point->row, "expandable_segments:True") != NULL;
}

/* Lists the cures. The forms without virtual memory stand beside those that use it. */
static void list_cures(struct advice *advice)
{
    const struct tuning *tuning = &advice->tuning;
    add_cure(advice, CURE_NONE, &tuning->now);
    if (strcmp(tuning->best.row, tuning->now.row) != 0) {
        add_cure(advice, CURE_SETTINGS, &tuning->best);
    }
    if (is_expandable(&tuning->best) && strcmp(tuning->unexpanded.row, tuning->now.row) != 0) {
        add_cure(advice, CURE_UNEXPANDED, &tuning->unexpanded);
    }
    add_cure(advice, strstr(tuning->pool.row, "+vm") != NULL ? CURE_POOL : CURE_REGIONS, &tuning->pool);
    if (advice->cures[advice->cure_count - 1].kind == CURE_POOL) {
        add_cure(advice, CURE_REGIONS, &tuning->regions);
    }
}

/* Another allocator is more work than a setting: it is advised if it serves more, or saves a hundredth more. */
static bool is_worth_it(const struct cure *cure, const struct cure *than)
{
    const struct tuning_point *point = &cure->point;
    if (!is_pool(cure) || point->served != than->point.served || !point->served) {
        return tuning_is_better(point, &than->point);
    }
    return point->peak_reserved_bytes < than->point.peak_reserved_bytes - than->point.peak_reserved_bytes / 100;
}

static void choose(struct advice *advice)
{
    for (size_t i = 1; i < advice->cure_count; i++) {
        advice->best = is_worth_it(&advice->cures[i], &advice->cures[advice->best]) ? i : advice->best;
    }
}

/* --- words --- */

const char *const *advice_variables(const struct advice *advice)
{
    static const char *const cuda[] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", NULL};
    static const char *const npu[] = {"PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF", NULL};
    return advice->program == PYTORCH_NPU ? npu : cuda;
}

static bool is_regions(const struct cure *cure)
{
    return is_pool(cure) && strstr(cure->point.row, "+vm") == NULL;
}

void advice_weir_torch(const struct cure *cure, char *text, size_t size)
{
    static const char *const growths[] = {"", ",growth:grow_first", ",growth:wait_first"};
    (void)snprintf(text, size, "strategy:%.*s%s%s", (int)strcspn(cure->point.row, "+"), cure->point.row,
                   is_regions(cure) ? ",virtual_memory:0" : "", growths[cure->point.growth]);
}

/* Names what is to be changed: "Set A=B", "Unset A", "Use a pool of weir (...)". */
static void name_cure(const struct advice *advice, const struct cure *cure, char *text, size_t size)
{
    char pool[128];
    int length = 0;
    const char *settings = tuning_settings(&cure->point, &length);
    if (is_pool(cure)) {
        advice_weir_torch(cure, pool, sizeof(pool));
        (void)snprintf(text, size, "Use a pool of weir, WEIR_TORCH=%s", pool);
    } else if (length == 0) {
        (void)snprintf(text, size, "Unset %s", advice_variables(advice)[0]);
    } else {
        (void)snprintf(text, size, "Set %s=%.*s", advice_variables(advice)[0], length, settings);
    }
}

static const struct cure *least_capacity(const struct advice *advice)
{
    const struct cure *least = NULL;
    for (size_t i = 0; i < advice->cure_count; i++) {
        const struct cure *cure = &advice->cures[i];
        least = cure->enough != 0 && (least == NULL || cure->enough < least->enough) ? cure : least;
    }
    return least;
}

/* No cure serves the recording on this device. */
static void say_unserved(struct advice *advice, const struct tuning_point *now)
{
    char size[UNIT_TEXT];
    char event[UNIT_TEXT];
    char enough[UNIT_TEXT];
    char cure[tuning_text + 64];
    const struct cure *least = least_capacity(advice);
    if (least == NULL) {
        (void)snprintf(advice->sentence, sizeof(advice->sentence),
                       "No setting serves this run: a request for %s, at event %s, is larger than any device",
                       format_size(size, now->size), format_count(event, now->event));
        return;
    }
    name_cure(advice, least, cure, sizeof(cure));
    (void)snprintf(advice->sentence, sizeof(advice->sentence),
                   "No setting serves this run on this device: the request for %s at event %s is refused; a device of "
                   "%s is enough%s%s%s",
                   format_size(size, now->size), format_count(event, now->event), format_size(enough, least->enough),
                   least->kind != CURE_NONE ? " (" : "", least->kind != CURE_NONE ? cure : "",
                   least->kind != CURE_NONE ? ")" : "");
}

static void say(struct advice *advice)
{
    const struct cure *cure = &advice->cures[advice->best];
    const struct tuning_point *now = &advice->tuning.now;
    const bool npu = advice->program == PYTORCH_NPU;
    char name[tuning_text + 64];
    char size[2][UNIT_TEXT];
    char event[UNIT_TEXT];
    name_cure(advice, cure, name, sizeof(name));
    if (!cure->point.served) {
        say_unserved(advice, now);
    } else if (advice->best == 0) {
        (void)snprintf(advice->sentence, sizeof(advice->sentence),
                       "Leave the settings as they are: no other saves a thousandth, and no pool of weir a hundredth, "
                       "of the %s that this run reserves for %s live",
                       format_size(size[0], now->peak_reserved_bytes), format_size(size[1], advice->peak_live_bytes));
    } else if (!now->served) {
        (void)snprintf(advice->sentence, sizeof(advice->sentence),
                       "%s: this run is then served; as it is, a request for %s is refused at event %s", name,
                       format_size(size[0], now->size), format_count(event, now->event));
    } else {
        const double saved = 1.0 - (double)cure->point.peak_reserved_bytes / (double)now->peak_reserved_bytes;
        (void)snprintf(
            advice->sentence, sizeof(advice->sentence), "%s: this run then reserves %s, not %s%s (%.1f %% less)", name,
            format_size(size[0], cure->point.peak_reserved_bytes), format_size(size[1], now->peak_reserved_bytes),
            advice->foreign ? npu ? " as with torch_npu" : " as with PyTorch's allocator" : "", 100.0 * saved);
    }
}

/* --- reasons against other settings --- */

__attribute__((format(printf, 2, 3))) static void add_reason(struct advice *advice, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(advice->reasons[advice->reason_count++], sizeof(advice->reasons[0]), format, arguments);
    va_end(arguments);
}

static void give_reasons(struct advice *advice)
{
    const bool npu = advice->program == PYTORCH_NPU;
    add_reason(advice, "expandable segments, and weir's virtual memory: IPC handles (tensors shared between processes, "
                       "custom all-reduce) take ordinary device memory only, and a network card (RDMA) or a collective "
                       "library may refuse to register mapped memory; such a program takes a row without them");
    add_reason(advice, "large_segment_size_mb: older releases refuse it, as any name that they do not know");
    add_reason(advice, "garbage_collection_threshold: does nothing while per_process_memory_fraction is 1");
    add_reason(advice, npu ? "max_split_size_mb, garbage_collection_threshold: torch_npu refuses them together with "
                             "expandable_segments:True"
                           : "backend:cudaMallocAsync: another allocator, the driver's, which no recording foretells");
    add_reason(advice, "bump of weir: for memory that is taken and released together");
    if (advice->trace->capture_count > 0) {
        add_reason(advice,
                   "this recording captures graphs: the rows of %s count the blocks of captures as ordinary ones, so "
                   "their figures are too low; weir's rows have the memory of graphs",
                   npu ? "torch_npu" : "PyTorch");
    }
}

/* --- the whole --- */

bool advice_make(const struct trace *trace, const struct replay_options *options, struct advice *advice, char *error,
                 size_t error_size)
{
    struct making making = {
        .advice = advice, .trace = trace, .options = *options, .error = error, .error_size = error_size};
    *advice = (struct advice){.trace = trace};
    if (!find_program(&making) || !find_facts(&making)) {
        return false;
    }
    find_settings(advice, trace);
    if (!tuning_search(trace, advice->program, advice->settings, making.pad_bytes, &making.options, &advice->tuning,
                       error, error_size)) {
        return false;
    }
    list_cures(advice);
    for (size_t i = 0; i < advice->cure_count; i++) {
        if (!measure(&making, &advice->cures[i])) {
            return false;
        }
    }
    choose(advice);
    say(advice);
    give_reasons(advice);
    return true;
}
