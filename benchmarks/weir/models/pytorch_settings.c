/* pytorch_settings.c: see pytorch_settings.h. One row of a table for each name; each has the function that reads its
 * value. The text is copied without blanks first, with the place of each character, so that an error can name it. */
#include "pytorch_settings.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define GRANULE UINT64_C(512)
#define SMALL_BYTES MIB                /* largest rounded size of the small pool */
#define SMALL_SEGMENT_BYTES (2 * MIB)  /* a segment of the small pool */
#define SHARED_BYTES (10 * MIB)        /* a request of this size or more gets a segment of its own size, rounded up */
#define LARGE_SEGMENT_BYTES (20 * MIB) /* the default size of a segment of the large pool */
#define SEGMENT_STEP_BYTES (2 * MIB)
#define HUGE_PAGE_BYTES (UINT64_C(1) << 30)
#define LARGEST_REQUEST (UINT64_C(1) << 62)

enum { most_text = 1000, first_interval_log2 = 20, npu_pad_bytes = 32, npu_align_kib = 16 };

/* A name, a value, or one of the characters , : [ ] */
struct token {
    size_t start; /* in reader.text */
    size_t length;
};

struct reader {
    char text[most_text + 1]; /* the settings without blanks */
    size_t at[most_text + 1]; /* the place of each character in the caller's text */
    size_t next;              /* start of the next token */
    struct token name;        /* of the setting that is read */
    struct pytorch_settings settings;
    struct pytorch_settings_error *error;
};

/* --- tokens --- */

static const char *program_of(const struct reader *reader)
{
    return reader->settings.program == PYTORCH_NPU ? "torch_npu" : "PyTorch";
}

/* Stores a sentence that begins with the name and the value, and the place of the token. Returns false. */
__attribute__((format(printf, 3, 4))) static bool refuse(struct reader *reader, struct token token, const char *format,
                                                         ...)
{
    struct pytorch_settings_error *error = reader->error;
    const bool value = token.start > reader->name.start && token.length > 0;
    const int used = snprintf(error->text, sizeof(error->text), "%.*s%s%.*s: ", (int)reader->name.length,
                              reader->text + reader->name.start, value ? ":" : "", value ? (int)token.length : 0,
                              reader->text + token.start);
    if (used >= 0 && (size_t)used < sizeof(error->text)) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(error->text + used, sizeof(error->text) - (size_t)used, format, arguments);
        va_end(arguments);
    }
    error->at = reader->at[token.start];
    return false;
}

static bool is_separator(char c)
{
    return c == ',' || c == ':' || c == '[' || c == ']';
}

/* Returns the next token; its length is 0 at the end of the text. */
static struct token peek(const struct reader *reader)
{
    struct token token = {.start = reader->next};
    const char *text = reader->text + token.start;
    if (is_separator(text[0])) {
        token.length = 1;
        return token;
    }
    while (text[token.length] != '\0' && !is_separator(text[token.length])) {
        token.length++;
    }
    return token;
}

static struct token take(struct reader *reader)
{
    const struct token token = peek(reader);
    reader->next += token.length;
    return token;
}

static bool token_is(const struct reader *reader, struct token token, const char *word)
{
    return strlen(word) == token.length && memcmp(reader->text + token.start, word, token.length) == 0;
}

static bool take_separator(struct reader *reader, const char *separator)
{
    const struct token token = take(reader);
    return token_is(reader, token, separator) ||
           refuse(reader, token, "'%s' is missing %s it", separator, token.length > 0 ? "before" : "behind");
}

static bool take_value(struct reader *reader, struct token *token)
{
    *token = take(reader);
    if (token->length == 0 || (token->length == 1 && is_separator(reader->text[token->start]))) {
        token->length = 0;
        return refuse(reader, *token, "the value is missing");
    }
    return true;
}

/* --- values --- */

static bool read_count(struct reader *reader, struct token *token, uint64_t *number)
{
    if (!take_value(reader, token)) {
        return false;
    }
    const char *text = reader->text + token->start;
    char *end = NULL;
    errno = 0;
    *number = strtoull(text, &end, 10);
    if (end == text || end > text + token->length) {
        return refuse(reader, *token, "not a number");
    }
    return errno == 0 || refuse(reader, *token, "a number out of range");
}

/* torch_npu takes some numbers only if they are digits, without zeros in front. */
static bool read_digits(struct reader *reader, struct token *token, uint64_t *number)
{
    if (!read_count(reader, token, number)) {
        return false;
    }
    const char *text = reader->text + token->start;
    bool digits = true;
    for (size_t i = 0; i < token->length; i++) {
        digits = digits && text[i] >= '0' && text[i] <= '9';
    }
    return digits || refuse(reader, *token, "not a number");
}

/* Reads a number of MiB as bytes. A number too large for a count of bytes is the largest one, as in PyTorch. */
static bool read_mib(struct reader *reader, struct token *token, uint64_t least, uint64_t *bytes)
{
    uint64_t number = 0;
    if (!read_count(reader, token, &number)) {
        return false;
    }
    if (number < least) {
        return refuse(reader, *token, "too small: %s takes %llu or more", program_of(reader),
                      (unsigned long long)least);
    }
    const uint64_t most = UINT64_MAX / MIB;
    *bytes = (number < most ? number : most) * MIB;
    return true;
}

static bool read_share(struct reader *reader, struct token *token, double *share)
{
    if (!take_value(reader, token)) {
        return false;
    }
    const char *text = reader->text + token->start;
    char *end = NULL;
    *share = strtod(text, &end);
    return end != text || refuse(reader, *token, "not a number");
}

static bool read_switch(struct reader *reader, bool *on)
{
    struct token token;
    if (!take_value(reader, &token)) {
        return false;
    }
    *on = token_is(reader, token, "True");
    return *on || token_is(reader, token, "False") || refuse(reader, token, "it is True or False");
}

/* --- settings of both programs --- */

static bool read_large_segment(struct reader *reader)
{
    struct token token;
    return read_mib(reader, &token, SHARED_BYTES / MIB + 1, &reader->settings.large_segment_bytes);
}

static bool read_max_split(struct reader *reader)
{
    struct token token;
    return read_mib(reader, &token, reader->settings.large_segment_bytes / MIB, &reader->settings.max_split_bytes);
}

static bool read_max_non_split_rounding(struct reader *reader)
{
    struct token token;
    return read_mib(reader, &token, reader->settings.large_segment_bytes / MIB,
                    &reader->settings.max_non_split_rounding_bytes);
}

static bool read_threshold(struct reader *reader)
{
    struct token token;
    double share = 0.0;
    if (!read_share(reader, &token, &share)) {
        return false;
    }
    reader->settings.garbage_collection_threshold = share;
    return (share > 0.0 && share < 1.0) || refuse(reader, token, "it is a share between 0 and 1, neither of the two");
}

static bool read_fraction(struct reader *reader)
{
    struct token token;
    double share = 0.0;
    if (!read_share(reader, &token, &share)) {
        return false;
    }
    reader->settings.memory_fraction = share;
    return (share >= 0.0 && share <= 1.0) || refuse(reader, token, "it is a share from 0 to 1");
}

static bool read_expandable(struct reader *reader)
{
    return read_switch(reader, &reader->settings.expandable_segments);
}

static bool read_refusal(struct reader *reader)
{
    return read_switch(reader, &reader->settings.refuses_above_fraction);
}

static bool is_power(uint64_t number)
{
    return number != 0 && (number & (number - 1)) == 0;
}

static unsigned floor_log2(uint64_t number)
{
    return 63u - (unsigned)__builtin_clzll(number);
}

static void fill(uint64_t *divisions, size_t from, size_t to, uint64_t value)
{
    for (size_t i = from; i < to; i++) {
        divisions[i] = value;
    }
}

/* Reads MIB:DIVISIONS or >:DIVISIONS of a list. *last is the interval of the entry before, or -1. */
static bool read_interval(struct reader *reader, int *last)
{
    uint64_t *divisions = reader->settings.roundup_divisions;
    const bool rest = token_is(reader, peek(reader), ">");
    struct token token;
    uint64_t mib = 0;
    uint64_t value = 0;
    if (rest) {
        (void)take(reader);
    } else if (!read_count(reader, &token, &mib)) {
        return false;
    } else if (!is_power(mib)) {
        return refuse(reader, token, "the sizes of a list are powers of two, in MiB");
    }
    if (!take_separator(reader, ":") || !read_count(reader, &token, &value)) {
        return false;
    }
    if (value != 0 && !is_power(value)) {
        return refuse(reader, token, "the divisions are a power of two, or 0");
    }
    if (rest) {
        fill(divisions, (size_t)(*last < 0 ? 1 : *last + 1), PYTORCH_ROUNDUP_INTERVALS, value);
        return true;
    }
    const unsigned log2 = floor_log2(mib);
    const int interval = log2 < PYTORCH_ROUNDUP_INTERVALS ? (int)log2 : PYTORCH_ROUNDUP_INTERVALS - 1;
    if (*last < 0) {
        fill(divisions, 0, (size_t)interval, value);
    }
    divisions[interval] = value;
    *last = interval;
    return true;
}

static bool read_intervals(struct reader *reader)
{
    int last = -1;
    (void)take(reader); /* the bracket */
    while (!token_is(reader, peek(reader), "]")) {
        if (!read_interval(reader, &last)) {
            return false;
        }
        if (!token_is(reader, peek(reader), "]") && !take_separator(reader, ",")) {
            return false;
        }
    }
    (void)take(reader);
    return true;
}

static bool read_roundup(struct reader *reader)
{
    struct token token;
    uint64_t value = 0;
    if (token_is(reader, peek(reader), "[")) {
        return read_intervals(reader);
    }
    if (!read_count(reader, &token, &value)) {
        return false;
    }
    fill(reader->settings.roundup_divisions, 0, PYTORCH_ROUNDUP_INTERVALS, value);
    return is_power(value) || refuse(reader, token, "the divisions are a power of two");
}

/* --- settings of one program --- */

static bool read_backend(struct reader *reader)
{
    struct token token;
    if (!take_value(reader, &token)) {
        return false;
    }
    if (token_is(reader, token, "cudaMallocAsync")) {
        return refuse(reader, token, "another allocator, the driver's; the model is of backend:native");
    }
    return token_is(reader, token, "native") || refuse(reader, token, "it is native or cudaMallocAsync");
}

static bool read_threads(struct reader *reader)
{
    struct token token;
    uint64_t number = 0;
    return read_count(reader, &token, &number) &&
           ((is_power(number) && number <= 128) || refuse(reader, token, "it is a power of two, at most 128"));
}

static bool read_reserve(struct reader *reader)
{
    struct token token;
    uint64_t number = 0;
    return read_count(reader, &token, &number) &&
           (number > 0 || reader->settings.program == PYTORCH_NPU || refuse(reader, token, "it is more than 0"));
}

static bool read_any_count(struct reader *reader)
{
    struct token token;
    uint64_t number = 0;
    return read_count(reader, &token, &number);
}

static bool read_any_switch(struct reader *reader)
{
    bool on = false;
    return read_switch(reader, &on);
}

static bool read_lazy(struct reader *reader)
{
    return read_switch(reader, &reader->settings.lazy_reclaim);
}

static bool read_base_aligned(struct reader *reader)
{
    struct token token;
    uint64_t number = 0;
    if (!read_digits(reader, &token, &number)) {
        return false;
    }
    reader->settings.base_aligned_bytes = number << 10;
    const bool zeros = token.length > 1 && reader->text[token.start] == '0';
    return (number <= npu_align_kib && !zeros) || refuse(reader, token, "it is a number from 0 to %d", npu_align_kib);
}

static bool read_segment_size(struct reader *reader)
{
    struct token token;
    uint64_t number = 0;
    if (!read_digits(reader, &token, &number)) {
        return false;
    }
    reader->settings.segment_bytes = number * MIB;
    return (number >= 20 && number <= 512) || refuse(reader, token, "it is a number from 20 to 512");
}

static bool read_page_size(struct reader *reader)
{
    struct token token;
    reader->settings.huge_pages = true;
    return take_value(reader, &token) && (token_is(reader, token, "1g") || refuse(reader, token, "it is 1g"));
}

/* --- the table --- */

enum { on_cuda = 1 << PYTORCH_CUDA, on_npu = 1 << PYTORCH_NPU };

static const struct option {
    const char *name;
    unsigned programs;
    bool (*read)(struct reader *reader);
} options[] = {
    {"backend", on_cuda, read_backend},
    {"base_addr_aligned_kb", on_npu, read_base_aligned},
    {"expandable_segments", on_cuda | on_npu, read_expandable},
    {"garbage_collection_threshold", on_cuda | on_npu, read_threshold},
    {"graph_capture_record_stream_reuse", on_cuda, read_any_switch},
    {"large_segment_size_mb", on_cuda | on_npu, read_large_segment},
    {"max_non_split_rounding_mb", on_cuda | on_npu, read_max_non_split_rounding},
    {"max_split_size_mb", on_cuda | on_npu, read_max_split},
    {"multi_stream_lazy_reclaim", on_npu, read_lazy},
    {"page_size", on_npu, read_page_size},
    {"per_process_memory_fraction", on_cuda | on_npu, read_fraction},
    {"pin_memory_expandable_segments", on_npu, read_any_switch},
    {"pinned_max_cached_size_mb", on_npu, read_any_count},
    {"pinned_max_round_threshold_mb", on_npu, read_any_count},
    {"pinned_mem_register", on_npu, read_any_switch},
    {"pinned_num_register_threads", on_cuda, read_threads},
    {"pinned_reserve_segment_size_mb", on_cuda | on_npu, read_reserve},
    {"pinned_use_background_threads", on_cuda | on_npu, read_any_switch},
    {"pinned_use_cuda_host_register", on_cuda, read_any_switch},
    {"pinned_use_hip_host_register", on_cuda, read_any_switch},
    {"release_lock_on_cudamalloc", on_cuda, read_any_switch},
    {"release_lock_on_hipmalloc", on_cuda, read_any_switch},
    {"release_lock_on_npumalloc", on_npu, read_any_switch},
    {"roundup_power2_divisions", on_cuda | on_npu, read_roundup},
    {"segment_size_mb", on_npu, read_segment_size},
    {"throw_on_cudamalloc_oom", on_cuda, read_refusal},
    {"throw_on_npumalloc_oom", on_npu, read_refusal},
};

static const struct option *find_option(const struct reader *reader)
{
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (token_is(reader, reader->name, options[i].name)) {
            return &options[i];
        }
    }
    return NULL;
}

static bool read_option(struct reader *reader)
{
    reader->name = take(reader);
    const struct option *option = find_option(reader);
    if (option == NULL) {
        return refuse(reader, reader->name, "%s has no such setting", program_of(reader));
    }
    if ((option->programs & 1u << reader->settings.program) == 0) {
        return refuse(reader, reader->name, "a setting of %s, which %s refuses",
                      option->programs == on_npu ? "torch_npu" : "PyTorch on CUDA", program_of(reader));
    }
    if (!take_separator(reader, ":") || !option->read(reader)) {
        return false;
    }
    return peek(reader).length == 0 || take_separator(reader, ",");
}

/* Reads large_segment_size_mb wherever it stands, because it bounds other settings. */
static bool read_large_segment_first(struct reader *reader)
{
    while (peek(reader).length > 0) {
        reader->name = take(reader);
        if (token_is(reader, reader->name, "large_segment_size_mb") &&
            (!take_separator(reader, ":") || !read_large_segment(reader))) {
            return false;
        }
    }
    reader->next = 0;
    reader->settings.max_non_split_rounding_bytes = reader->settings.large_segment_bytes;
    return true;
}

/* torch_npu refuses settings beside expandable segments; PyTorch overlooks what has no effect there. */
static bool check_together(struct reader *reader)
{
    const struct pytorch_settings *settings = &reader->settings;
    const bool split = settings->max_split_bytes != PYTORCH_UNLIMITED;
    const bool refused = settings->program == PYTORCH_NPU && settings->expandable_segments &&
                         (split || settings->garbage_collection_threshold > 0.0);
    if (!refused) {
        return true;
    }
    reader->error->at = 0;
    (void)snprintf(reader->error->text, sizeof(reader->error->text),
                   "expandable_segments:True: torch_npu refuses it together with %s",
                   split ? "max_split_size_mb" : "garbage_collection_threshold");
    return false;
}

static bool copy_text(struct reader *reader, const char *text)
{
    size_t length = 0;
    for (size_t i = 0; text[i] != '\0'; i++) {
        if (length == most_text) {
            reader->error->at = i;
            (void)snprintf(reader->error->text, sizeof(reader->error->text), "more than %d characters", most_text);
            return false;
        }
        if (!isspace((unsigned char)text[i])) {
            reader->at[length] = i;
            reader->text[length++] = text[i];
        }
    }
    reader->at[length] = strlen(text);
    reader->text[length] = '\0';
    return true;
}

void pytorch_settings_init(struct pytorch_settings *settings, enum pytorch_program program)
{
    *settings = (struct pytorch_settings){
        .program = program,
        .pad_bytes = program == PYTORCH_NPU ? npu_pad_bytes : 0,
        .max_split_bytes = PYTORCH_UNLIMITED,
        .max_non_split_rounding_bytes = LARGE_SEGMENT_BYTES,
        .large_segment_bytes = LARGE_SEGMENT_BYTES,
        .memory_fraction = 1.0,
        .base_aligned_bytes = program == PYTORCH_NPU ? npu_align_kib << 10 : 0,
    };
}

bool pytorch_settings_parse(enum pytorch_program program, const char *text, struct pytorch_settings *settings,
                            struct pytorch_settings_error *error)
{
    struct reader reader = {.error = error};
    pytorch_settings_init(&reader.settings, program);
    if (!copy_text(&reader, text) || !read_large_segment_first(&reader)) {
        return false;
    }
    while (peek(&reader).length > 0) {
        if (!read_option(&reader)) {
            return false;
        }
    }
    if (!check_together(&reader)) {
        return false;
    }
    *settings = reader.settings;
    return true;
}

/* --- what follows from the settings --- */

/* Rounds up to a multiple of a piece of the doubling in which the size lies. */
static uint64_t round_in_doubling(uint64_t size, uint64_t divisions)
{
    if (is_power(size)) {
        return size;
    }
    const uint64_t floor = UINT64_C(1) << floor_log2(size);
    const uint64_t piece = floor >> floor_log2(divisions);
    return piece == 0 ? floor << 1 : (size + piece - 1) & ~(piece - 1);
}

uint64_t pytorch_settings_round(const struct pytorch_settings *settings, uint64_t size)
{
    if (size > LARGEST_REQUEST) {
        return UINT64_MAX;
    }
    const uint64_t padded = size + settings->pad_bytes;
    if (padded <= GRANULE) {
        return GRANULE;
    }
    const unsigned log2 = floor_log2(padded);
    const unsigned interval = log2 > first_interval_log2 ? log2 - first_interval_log2 : 0;
    const unsigned last = PYTORCH_ROUNDUP_INTERVALS - 1;
    const uint64_t divisions = settings->roundup_divisions[interval < last ? interval : last];
    if (divisions > 1 && padded / GRANULE >= divisions && padded > GRANULE * divisions) {
        return round_in_doubling(padded, divisions);
    }
    return (padded + GRANULE - 1) & ~(GRANULE - 1);
}

static uint64_t multiple(uint64_t size, uint64_t step)
{
    return (size + step - 1) / step * step;
}

uint64_t pytorch_settings_segment(const struct pytorch_settings *settings, uint64_t rounded)
{
    if (rounded <= SMALL_BYTES) {
        return SMALL_SEGMENT_BYTES;
    }
    if (settings->huge_pages) {
        return multiple(rounded, HUGE_PAGE_BYTES);
    }
    return rounded < SHARED_BYTES ? settings->large_segment_bytes : multiple(rounded, SEGMENT_STEP_BYTES);
}
