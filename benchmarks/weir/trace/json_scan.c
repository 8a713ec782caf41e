/* json_scan.c: reads JSON from memory, value by value (json_scan.h). */
#include "json_scan.h"

#include <stdlib.h>
#include <string.h>

void json_scan_start(struct json_scan *scan, const struct trace_source *source, struct trace_error *error)
{
    *scan = (struct json_scan){
        .source = source,
        .at = source->bytes + trace_mark_bytes(source->bytes, source->size),
        .end = source->bytes + source->size,
        .error = error,
    };
}

bool json_scan_refuse(const struct json_scan *scan, weir_status status, const unsigned char *at, const char *format,
                      ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)trace_say_byte(scan->error, status, scan->source->path, (uint64_t)(at - scan->source->bytes), format,
                         arguments);
    va_end(arguments);
    return false;
}

static bool is_blank(unsigned char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

/* Skips blanks and returns the next byte, or -1 at the end. */
static int next_byte(struct json_scan *scan)
{
    while (scan->at < scan->end && is_blank(*scan->at)) {
        scan->at++;
    }
    return scan->at < scan->end ? *scan->at : -1;
}

static bool refuse_byte(const struct json_scan *scan, const char *expected)
{
    char shown[16];
    if (scan->at >= scan->end) {
        return json_scan_refuse(scan, WEIR_ERR_INVALID, scan->end, "the JSON ends too early; expected %s", expected);
    }
    const char byte = (char)*scan->at;
    return json_scan_refuse(scan, WEIR_ERR_INVALID, scan->at, "expected %s, got \"%s\"", expected,
                            trace_quote(shown, sizeof(shown), &byte, 1));
}

/* --- scalars --- */

static bool read_string(struct json_scan *scan, struct json_value *value)
{
    const unsigned char *start = ++scan->at;
    for (;;) {
        const unsigned char *quote = memchr(scan->at, '"', (size_t)(scan->end - scan->at));
        if (quote == NULL) {
            return json_scan_refuse(scan, WEIR_ERR_INVALID, start - 1, "the string has no end");
        }
        const unsigned char *slash = quote;
        while (slash > start && slash[-1] == '\\') {
            slash--;
        }
        scan->at = quote + 1;
        if ((quote - slash) % 2 == 0) {
            *value = (struct json_value){
                .kind = JSON_STRING, .text = (const char *)start, .length = (size_t)(quote - start)};
            return true;
        }
    }
}

static void skip_digits(struct json_scan *scan)
{
    while (scan->at < scan->end && is_digit(*scan->at)) {
        scan->at++;
    }
}

static bool need_digits(struct json_scan *scan)
{
    const unsigned char *start = scan->at;
    skip_digits(scan);
    return scan->at > start || refuse_byte(scan, "a digit");
}

static bool read_number(struct json_scan *scan, struct json_value *value)
{
    const unsigned char *start = scan->at;
    scan->at += *scan->at == '-';
    if (!need_digits(scan)) {
        return false;
    }
    if (scan->at < scan->end && *scan->at == '.') {
        scan->at++;
        if (!need_digits(scan)) {
            return false;
        }
    }
    if (scan->at < scan->end && (*scan->at == 'e' || *scan->at == 'E')) {
        scan->at++;
        scan->at += scan->at < scan->end && (*scan->at == '+' || *scan->at == '-');
        if (!need_digits(scan)) {
            return false;
        }
    }
    *value =
        (struct json_value){.kind = JSON_NUMBER, .text = (const char *)start, .length = (size_t)(scan->at - start)};
    return true;
}

static bool read_word(struct json_scan *scan, struct json_value *value)
{
    static const struct {
        const char *text;
        enum json_kind kind;
    } words[] = {
        {"true", JSON_TRUE},  {"false", JSON_FALSE},     {"null", JSON_NULL},
        {"NaN", JSON_NUMBER}, {"Infinity", JSON_NUMBER}, {"-Infinity", JSON_NUMBER},
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const size_t length = strlen(words[i].text);
        if ((size_t)(scan->end - scan->at) >= length && memcmp(scan->at, words[i].text, length) == 0) {
            *value = (struct json_value){.kind = words[i].kind, .text = (const char *)scan->at, .length = length};
            scan->at += length;
            return true;
        }
    }
    return refuse_byte(scan, "a value");
}

bool json_scan_read(struct json_scan *scan, struct json_value *value)
{
    const int c = next_byte(scan);
    switch (c) {
    case '{':
    case '[':
        *value = (struct json_value){.kind = c == '{' ? JSON_OBJECT : JSON_ARRAY};
        return true;
    case '"':
        return read_string(scan, value);
    case '-':
        if (scan->end - scan->at > 1 && scan->at[1] == 'I') {
            return read_word(scan, value);
        }
        return read_number(scan, value);
    default:
        return c >= 0 && is_digit((unsigned char)c) ? read_number(scan, value) : read_word(scan, value);
    }
}

/* --- objects and arrays --- */

/* Consumes the opening bracket or the comma in front of the next item of a container. Sets *step to ITEM, or
 * consumes the closing bracket and sets it to END. */
static bool next_item(struct json_scan *scan, enum json_step *step, char open, char close)
{
    const bool first = *step == JSON_STEP_BEGIN;
    if (first) {
        if (next_byte(scan) != open) {
            return refuse_byte(scan, open == '{' ? "\"{\"" : "\"[\"");
        }
        scan->at++;
    }
    const int c = next_byte(scan);
    if (c == close) {
        scan->at++;
        *step = JSON_STEP_END;
        return true;
    }
    if (!first) {
        if (c != ',') {
            return refuse_byte(scan, close == '}' ? "\",\" or \"}\"" : "\",\" or \"]\"");
        }
        scan->at++;
    }
    *step = JSON_STEP_ITEM;
    return true;
}

bool json_scan_member(struct json_scan *scan, enum json_step *step, struct json_value *key)
{
    if (!next_item(scan, step, '{', '}')) {
        return false;
    }
    if (*step == JSON_STEP_END) {
        return true;
    }
    if (next_byte(scan) != '"') {
        return refuse_byte(scan, "a name in quotes");
    }
    if (!read_string(scan, key)) {
        return false;
    }
    if (next_byte(scan) != ':') {
        return refuse_byte(scan, "\":\"");
    }
    scan->at++;
    return true;
}

bool json_scan_element(struct json_scan *scan, enum json_step *step)
{
    return next_item(scan, step, '[', ']');
}

struct nest {
    unsigned depth;
    enum json_step step;
    unsigned char object[JSON_DEPTH / 8]; /* a bit for each level: 1 = an object, 0 = an array */
};

static bool nest_begin(const struct json_scan *scan, struct nest *nest, bool object)
{
    if (nest->depth == JSON_DEPTH) {
        return json_scan_refuse(scan, WEIR_ERR_LIMIT, scan->at,
                                "values are nested more than %u deep, which is the limit", JSON_DEPTH);
    }
    unsigned char *byte = &nest->object[nest->depth / 8];
    const unsigned bit = 1u << nest->depth % 8;
    *byte = (unsigned char)(object ? *byte | bit : *byte & ~bit);
    nest->depth++;
    nest->step = JSON_STEP_BEGIN;
    return true;
}

/* Steps to the next value inside the open containers, and closes the containers that end before the value. At the end
 * of the outermost container nest->depth is 0. */
static bool nest_next(struct json_scan *scan, struct nest *nest)
{
    struct json_value key;
    while (nest->depth > 0) {
        const unsigned level = nest->depth - 1;
        const bool object = ((unsigned)nest->object[level / 8] >> level % 8 & 1u) != 0;
        if (object ? !json_scan_member(scan, &nest->step, &key) : !json_scan_element(scan, &nest->step)) {
            return false;
        }
        if (nest->step == JSON_STEP_ITEM) {
            return true;
        }
        nest->depth--;
        nest->step = JSON_STEP_ITEM;
    }
    return true;
}

bool json_scan_skip(struct json_scan *scan)
{
    struct nest nest = {.depth = 0};
    struct json_value value;
    do {
        if (!json_scan_read(scan, &value)) {
            return false;
        }
        if ((value.kind == JSON_OBJECT || value.kind == JSON_ARRAY) &&
            !nest_begin(scan, &nest, value.kind == JSON_OBJECT)) {
            return false;
        }
        if (!nest_next(scan, &nest)) {
            return false;
        }
    } while (nest.depth > 0);
    return true;
}

bool json_scan_end(struct json_scan *scan)
{
    return next_byte(scan) < 0 || refuse_byte(scan, "the end of the JSON");
}

/* --- texts and numbers --- */

bool json_scan_is(const struct json_value *value, const char *text)
{
    return value->kind == JSON_STRING && value->length == strlen(text) && memcmp(value->text, text, value->length) == 0;
}

/* Reads four hexadecimal digits; -1 if they are not there. */
static int32_t code_unit(const char *text, const char *end)
{
    int32_t unit = 0;
    if (end - text < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        const int digit = hex_digit(text[i]);
        if (digit < 0) {
            return -1;
        }
        unit = unit << 4 | digit;
    }
    return unit;
}

/* Decodes the escape sequence at *text, behind its backslash, and moves *text to its end. */
static size_t unescape_one(const char **text, const char *end, char bytes[4])
{
    static const char letters[] = "nrtbf";
    static const char meant[] = "\n\r\t\b\f";
    const char c = *(*text)++;
    const char *letter = c != '\0' ? strchr(letters, c) : NULL;
    int32_t unit = c == 'u' ? code_unit(*text, end) : -1;
    if (unit < 0) {
        bytes[0] = letter != NULL ? meant[letter - letters] : c;
        return 1;
    }
    *text += 4;
    if (unit >= 0xd800 && unit < 0xdc00 && end - *text >= 6 && (*text)[0] == '\\' && (*text)[1] == 'u') {
        const int32_t low = code_unit(*text + 2, end);
        if (low >= 0xdc00 && low < 0xe000) {
            *text += 6;
            unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    return put_utf8(bytes, (uint32_t)unit);
}

size_t json_scan_unescape(const struct json_value *value, char *out, size_t size)
{
    size_t used = 0;
    const char *text = value->text;
    const char *end = text + value->length;
    while (text < end) {
        char bytes[4] = {*text++, 0, 0, 0};
        const size_t count = bytes[0] == '\\' && text < end ? unescape_one(&text, end, bytes) : 1;
        if (used + count > size) {
            break;
        }
        memcpy(out + used, bytes, count);
        used += count;
    }
    return used;
}

/* Reads a number with an exponent, or one with more digits than an integer has. */
static bool read_real(const struct json_value *value, double scale, double least, double most, double *out)
{
    char text[64];
    char *end;
    if (value->length == 0 || value->length >= sizeof(text)) {
        return false;
    }
    memcpy(text, value->text, value->length);
    text[value->length] = '\0';
    *out = strtod(text, &end) * scale;
    return *end == '\0' && *out >= least && *out < most;
}

/* Reads the digits of a decimal number without an exponent and multiplies it by `scale`. */
static bool read_decimal(const struct json_value *value, size_t at, uint64_t scale, uint64_t *out)
{
    uint64_t number = 0;
    bool fraction = false;
    if (at == value->length) {
        return false;
    }
    for (; at < value->length; at++) {
        const char c = value->text[at];
        if (c == '.' && !fraction) {
            fraction = true;
            continue;
        }
        if (!is_digit((unsigned char)c)) {
            return false;
        }
        if (fraction && scale == 1) {
            continue;
        }
        if (__builtin_mul_overflow(number, (uint64_t)10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(c - '0'), &number)) {
            return false;
        }
        scale /= fraction ? 10 : 1;
    }
    return !__builtin_mul_overflow(number, scale, out);
}

bool json_scan_integer(const struct json_value *value, int64_t scale, int64_t *out)
{
    uint64_t size;
    double real;
    if (value->kind != JSON_NUMBER && value->kind != JSON_STRING) {
        return false;
    }
    const bool negative = value->length > 0 && value->text[0] == '-';
    if (read_decimal(value, negative, (uint64_t)scale, &size)) {
        if (size > (uint64_t)INT64_MAX) {
            return false;
        }
        *out = negative ? -(int64_t)size : (int64_t)size;
        return true;
    }
    if (!read_real(value, (double)scale, -9.2e18, 9.2e18, &real)) {
        return false;
    }
    *out = (int64_t)real;
    return true;
}

bool json_scan_unsigned(const struct json_value *value, uint64_t *out)
{
    double real;
    if (value->kind != JSON_NUMBER && value->kind != JSON_STRING) {
        return false;
    }
    if (read_decimal(value, 0, 1, out)) {
        return true;
    }
    if (!read_real(value, 1, 0, 1.8e19, &real)) {
        return false;
    }
    *out = (uint64_t)real;
    return true;
}
