/* wtr_read.c: the strict reader of `.wtr` text, version 1.
 *
 * Promise: an accepted trace obeys every rule of README.md. A refusal names the file, the line, the field and the
 * expected content. The reader guesses nothing and skips nothing but comments. It makes one pass and copies names only;
 * an event costs some tens of nanoseconds.
 *
 * Single blanks separate the fields of a line. `at` points to the blank before the next field, or to `end`; `field`
 * counts the fields taken, the letter being field 1. Each take_* function takes one field or reports its error.
 */
#include "trace_internal.h"

#include "clean_text.h"

#include "shared/trace_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_FIELD 48

struct block_life {
    uint32_t born_line;
    uint32_t died_line; /* 0 = live */
};

/* A capture pool. Lines are those of its latest capture. */
struct capture_life {
    uint32_t begun_line;
    uint32_t gone_line; /* 0: the pool is not released */
    uint32_t stream;    /* stream of the capture under way; WEIR_TRACE_NONE: there is none */
};

struct reader {
    struct trace_builder builder;
    struct trace_error *error;
    const char *path;
    const char *at;
    const char *end;  /* end of the line, before trailing blanks */
    const char *line; /* first byte */
    uint64_t line_number;
    unsigned field;
    char name[16]; /* name of a field, for a message */

    struct id_map block_index; /* id -> index */
    struct block_life *lives;  /* [block_count] */
    size_t life_capacity;
    uint32_t block_count;
    struct id_map object_index; /* event object -> index */
    uint32_t object_count;
    struct id_map tag_index;       /* N of @N -> index */
    struct id_map capture_index;   /* capture pool -> index */
    struct id_map captured;        /* stream that is being captured -> index of its capture pool */
    struct capture_life *captures; /* [capture_count] */
    size_t capture_capacity;
    uint32_t capture_count;

    /* Stack collected so far from `#stack` lines. If it has frames, it belongs to the tag stack_tag. */
    char *stack;
    size_t stack_size;
    uint32_t stack_tag;
    uint32_t stack_frames;
};

/* --- messages --- */

static bool fail(struct reader *reader, const char *format, ...) TRACE_PRINTF(2, 3);

static bool fail(struct reader *reader, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bool none = trace_say_line(reader->error, WEIR_ERR_INVALID, reader->path, reader->line_number, format, arguments);
    va_end(arguments);
    return none;
}

static const char *syntax_of(char letter)
{
    return letter == '@' ? "@N text" : weir__trace_lines[(unsigned char)letter & 127].syntax;
}

/* Returns the field's name for a message: `name`, or if `name` is NULL the word of the field in the line's syntax,
 * without brackets. */
static const char *name_of(struct reader *reader, const char *name, unsigned field)
{
    if (name != NULL) {
        return name;
    }
    const char *word = syntax_of(*reader->line);
    for (unsigned i = 1; i < field; i++) {
        word += strcspn(word, " ") + 1;
    }
    word += *word == '[';
    snprintf(reader->name, sizeof(reader->name), "%.*s", (int)strcspn(word, " ]"), word);
    return reader->name;
}

static bool fail_missing(struct reader *reader, const char *name)
{
    return fail(reader, "field %u (%s) is missing; a line is \"%s\"", reader->field + 1,
                name_of(reader, name, reader->field + 1), syntax_of(*reader->line));
}

/* Reports an error in the field behind the blank at reader->at, and counts the field as read. */
static bool fail_field(struct reader *reader, const char *name, const char *expected)
{
    const char *start = reader->at + 1;
    const char *stop = memchr(start, ' ', (size_t)(reader->end - start));
    size_t length = (size_t)((stop != NULL ? stop : reader->end) - start);
    char shown[SHOWN_FIELD];
    reader->field++;
    name = name_of(reader, name, reader->field);
    if (length == 0) {
        return fail(reader, "field %u (%s) is empty; one blank stands between fields", reader->field, name);
    }
    trace_quote(shown, sizeof(shown), start, length);
    return fail(reader, "field %u (%s): expected %s, got \"%s\"", reader->field, name, expected, shown);
}

static bool no_memory(struct reader *reader)
{
    return trace_say(reader->error, WEIR_ERR_NO_MEMORY, reader->path, "out of memory");
}

/* --- numbers --- */

enum number_result { NUMBER_OK, NUMBER_BAD, NUMBER_TOO_LARGE };

/* Reads decimal digits up to a blank or the end. On NUMBER_OK *at points behind them. */
static enum number_result scan_number(const char **at, const char *end, uint64_t *out)
{
    const char *c = *at;
    const char *first = c;
    const char *fits = end - c > 18 ? c + 18 : end; /* eighteen digits always fit 64 bits; further digits are checked */
    uint64_t value = 0;
    unsigned digit;
    for (; c < fits && (digit = (unsigned)(unsigned char)*c - '0') < 10; c++) {
        value = value * 10 + digit;
    }
    for (; c < end && c - first >= 18 && (digit = (unsigned)(unsigned char)*c - '0') < 10; c++) {
        if (value > UINT64_MAX / 10 || value * 10 > UINT64_MAX - digit) {
            return NUMBER_TOO_LARGE;
        }
        value = value * 10 + digit;
    }
    if (c == first || (c < end && *c != ' ')) {
        return NUMBER_BAD;
    }
    *at = c;
    *out = value;
    return NUMBER_OK;
}

static enum number_result scan_address(const char **at, const char *end, uint64_t *out)
{
    const char *c = *at;
    if (end - c < 3 || c[0] != '0' || c[1] != 'x') {
        return NUMBER_BAD;
    }
    c += 2;
    const char *first = c;
    uint64_t value = 0;
    while (c < end && hex_digit(*c) >= 0) {
        if (value >> 60 != 0) {
            return NUMBER_TOO_LARGE;
        }
        value = value << 4 | (uint64_t)hex_digit(*c);
        c++;
    }
    if (c == first || (c < end && *c != ' ')) {
        return NUMBER_BAD;
    }
    *at = c;
    *out = value;
    return NUMBER_OK;
}

/* --- fields --- */

static bool at_end(const struct reader *reader)
{
    return reader->at == reader->end;
}

static bool take_number(struct reader *reader, const char *name, uint64_t *out)
{
    if (at_end(reader)) {
        return fail_missing(reader, name);
    }
    const char *c = reader->at + 1;
    enum number_result result = scan_number(&c, reader->end, out);
    if (result != NUMBER_OK) {
        return fail_field(reader, name, result == NUMBER_BAD ? "a decimal number" : "a number below 2^64");
    }
    reader->at = c;
    reader->field++;
    return true;
}

/* Reads a small number: a stream, a thread, a device or a pool. */
static bool take_small(struct reader *reader, const char *name, uint32_t limit, uint32_t *out)
{
    uint64_t number = 0;
    if (!take_number(reader, name, &number)) {
        return false;
    }
    if (number >= limit) {
        return fail(reader, "field %u (%s): %" PRIu64 " is too large; expected a number below %" PRIu32, reader->field,
                    name_of(reader, name, reader->field), number, limit);
    }
    *out = (uint32_t)number;
    return true;
}

static bool take_stream(struct reader *reader, uint32_t *out)
{
    return take_small(reader, NULL, TRACE_MAX_STREAMS, out);
}

static bool take_address(struct reader *reader, uint64_t *out)
{
    if (at_end(reader)) {
        return fail_missing(reader, NULL);
    }
    const char *c = reader->at + 1;
    enum number_result result = scan_address(&c, reader->end, out);
    if (result != NUMBER_OK) {
        return fail_field(reader, NULL,
                          result == NUMBER_BAD ? "an address in hexadecimal with 0x" : "an address of at most 64 bits");
    }
    reader->at = c;
    reader->field++;
    return true;
}

/* Reads a field of one character, which must be in `allowed`. */
static bool take_letter(struct reader *reader, const char *allowed, const char *expected, char *out)
{
    if (at_end(reader)) {
        return fail_missing(reader, NULL);
    }
    const char *c = reader->at + 1;
    bool alone = c < reader->end && (c + 1 == reader->end || c[1] == ' ');
    if (!alone || *c == '\0' || strchr(allowed, *c) == NULL) {
        return fail_field(reader, NULL, expected);
    }
    *out = *c;
    reader->at = c + 1;
    reader->field++;
    return true;
}

static bool take_end(struct reader *reader)
{
    if (at_end(reader)) {
        return true;
    }
    char shown[SHOWN_FIELD];
    const char *start = reader->at + 1;
    trace_quote(shown, sizeof(shown), start, (size_t)(reader->end - start));
    return fail(reader, "field %u: \"%s\" is too much; a line is \"%s\"", reader->field + 1, shown,
                syntax_of(*reader->line));
}

/* Takes a request size; 0 counts as 1. */
static bool take_request(struct reader *reader, uint64_t *out)
{
    if (!take_number(reader, NULL, out)) {
        return false;
    }
    *out += *out == 0;
    return true;
}

/* Reads the size of memory that is held already at `address`; an address of 0 means unknown. */
static bool take_bytes(struct reader *reader, uint64_t address, uint64_t *out)
{
    if (!take_number(reader, NULL, out)) {
        return false;
    }
    if (*out == 0) {
        return fail(reader, "field %u (SIZE): 0 bytes; expected at least 1", reader->field);
    }
    return *out <= UINT64_MAX - address ||
           fail(reader, "field %u (SIZE): address and size together exceed 64 bits", reader->field);
}

/* --- blocks and event objects --- */

static uint32_t short_line(const struct reader *reader)
{
    return reader->line_number < UINT32_MAX ? (uint32_t)reader->line_number : UINT32_MAX;
}

static bool fail_reused(struct reader *reader, uint64_t id, const struct block_life *life)
{
    const char *name = name_of(reader, NULL, reader->field);
    if (life->died_line != 0) {
        return fail(reader,
                    "field %u (%s): block %" PRIu64 " was born on line %" PRIu32 " and freed on line %" PRIu32
                    "; an id is used once",
                    reader->field, name, id, life->born_line, life->died_line);
    }
    return fail(reader, "field %u (%s): block %" PRIu64 " is live since line %" PRIu32 "; an id is used once",
                reader->field, name, id, life->born_line);
}

static bool take_new_block(struct reader *reader, uint64_t *id, uint32_t *index)
{
    if (!take_number(reader, NULL, id)) {
        return false;
    }
    uint32_t known;
    if (id_map_get(&reader->block_index, *id, &known)) {
        return fail_reused(reader, *id, &reader->lives[known]);
    }
    struct block_life *lives = grow_array(reader->lives, reader->block_count, &reader->life_capacity, sizeof(*lives));
    if (lives == NULL) {
        return no_memory(reader);
    }
    reader->lives = lives;
    *index = reader->block_count++;
    lives[*index] = (struct block_life){.born_line = short_line(reader)};
    return id_map_put(&reader->block_index, *id, *index) || no_memory(reader);
}

static bool take_live_block(struct reader *reader, uint64_t *id, uint32_t *index)
{
    if (!take_number(reader, NULL, id)) {
        return false;
    }
    if (!id_map_get(&reader->block_index, *id, index)) {
        return fail(reader, "field %u (%s): block %" PRIu64 " is not known; no p, a or r line gave it", reader->field,
                    name_of(reader, NULL, reader->field), *id);
    }
    const struct block_life *life = &reader->lives[*index];
    if (life->died_line != 0) {
        return fail(reader, "field %u (%s): block %" PRIu64 " was freed on line %" PRIu32, reader->field,
                    name_of(reader, NULL, reader->field), *id, life->died_line);
    }
    return true;
}

static void end_block(struct reader *reader, uint32_t index)
{
    reader->lives[index].died_line = short_line(reader);
}

/* Finds or makes the index of an event object. A wait may stand before the first record of its event in the trace; it
 * waits for work from before the trace. */
static bool find_object(struct reader *reader, uint64_t id, uint32_t *index)
{
    if (id_map_get(&reader->object_index, id, index)) {
        return true;
    }
    *index = reader->object_count++;
    return id_map_put(&reader->object_index, id, *index) || no_memory(reader);
}

/* --- captures --- */

/* Finds the life of a capture pool; NULL if no capture has begun in it. */
static struct capture_life *find_captures(const struct reader *reader, uint32_t pool)
{
    uint32_t index;
    return id_map_get(&reader->capture_index, pool, &index) ? &reader->captures[index] : NULL;
}

/* Finds or makes the life of a capture pool; NULL, with an error, when out of memory. */
static struct capture_life *reach_captures(struct reader *reader, uint32_t pool)
{
    struct capture_life *life = find_captures(reader, pool);
    if (life != NULL) {
        return life;
    }
    struct capture_life *lives =
        grow_array(reader->captures, reader->capture_count, &reader->capture_capacity, sizeof(*lives));
    if (lives == NULL || !id_map_put(&reader->capture_index, pool, reader->capture_count)) {
        reader->captures = lives != NULL ? lives : reader->captures;
        (void)no_memory(reader);
        return NULL;
    }
    reader->captures = lives;
    life = &lives[reader->capture_count++];
    *life = (struct capture_life){.stream = WEIR_TRACE_NONE};
    return life;
}

static bool begin_capture(struct reader *reader, const weir_trace_event *event)
{
    struct capture_life *life = reach_captures(reader, event->pool);
    uint32_t captor = 0;
    if (life == NULL) {
        return false;
    }
    if (life->gone_line != 0) {
        return fail(reader,
                    "field 4 (P): capture pool %" PRIu32 " was released on line %" PRIu32 "; a number is used once",
                    event->pool, life->gone_line);
    }
    if (life->stream != WEIR_TRACE_NONE) {
        return fail(reader, "field 4 (P): a capture of pool %" PRIu32 " is under way since line %" PRIu32, event->pool,
                    life->begun_line);
    }
    if (id_map_get(&reader->captured, event->stream, &captor)) {
        return fail(reader, "field 5 (S): stream %" PRIu32 " is being captured since line %" PRIu32, event->stream,
                    reader->captures[captor].begun_line);
    }
    life->begun_line = short_line(reader);
    life->stream = event->stream;
    return id_map_put(&reader->captured, event->stream, (uint32_t)(life - reader->captures)) || no_memory(reader);
}

static bool end_capture(struct reader *reader, const weir_trace_event *event, struct capture_life *life)
{
    if (life->stream == WEIR_TRACE_NONE) {
        return fail(reader, "field 4 (P): no capture of pool %" PRIu32 " is under way", event->pool);
    }
    if (life->stream != event->stream) {
        return fail(reader, "field 5 (S): the capture of pool %" PRIu32 " is of stream %" PRIu32 ", on line %" PRIu32,
                    event->pool, life->stream, life->begun_line);
    }
    id_map_remove(&reader->captured, life->stream);
    life->stream = WEIR_TRACE_NONE;
    return true;
}

static bool release_captures(struct reader *reader, const weir_trace_event *event, struct capture_life *life)
{
    if (event->stream != WEIR_TRACE_NONE) {
        return fail(reader, "field 5: a stream is too much; a release is \"g T R P\"");
    }
    if (life->stream != WEIR_TRACE_NONE) {
        return fail(reader, "field 4 (P): a capture of pool %" PRIu32 " is under way since line %" PRIu32, event->pool,
                    life->begun_line);
    }
    life->gone_line = short_line(reader);
    return true;
}

/* Checks a line of a capture, whose fields are read. */
static bool follow_capture(struct reader *reader, const weir_trace_event *event)
{
    if (event->mode != 'R' && event->stream == WEIR_TRACE_NONE) {
        return fail(reader, "field 5 (S) is missing; a line is \"%s\"", syntax_of(*reader->line));
    }
    if (event->mode == 'B') {
        return begin_capture(reader, event);
    }
    struct capture_life *life = find_captures(reader, event->pool);
    if (life == NULL) {
        return fail(reader, "field 4 (P): no capture of pool %" PRIu32 " has begun", event->pool);
    }
    if (life->gone_line != 0) {
        return fail(reader, "field 4 (P): capture pool %" PRIu32 " was released on line %" PRIu32, event->pool,
                    life->gone_line);
    }
    return event->mode == 'E' ? end_capture(reader, event, life) : release_captures(reader, event, life);
}

/* --- options --- */

struct option {
    char letter; /* of trace_fields.h */
    const char *prefix;
    size_t length;
};

enum { OPTION_D = 5 };

static const struct option options[] = {
    {'R', "addr=", 5}, {'G', "@", 1}, {'L', "al=", 3}, {'P', "pool=", 5}, {'V', "adv=", 4}, [OPTION_D] = {'D', "d=", 2},
};

static bool parse_tag(struct reader *reader, const char *value, const char *end, uint32_t *tag)
{
    uint64_t number;
    if (scan_number(&value, end, &number) != NUMBER_OK) {
        return fail_field(reader, "@N", "@ and the number of a tag");
    }
    if (!id_map_get(&reader->tag_index, number, tag)) {
        return fail(reader, "field %u (@N): tag @%" PRIu64 " is used before a line defines it", reader->field + 1,
                    number);
    }
    return true;
}

static bool parse_advice(struct reader *reader, const char *value, const char *end, char *mode)
{
    static const struct {
        const char *word;
        char mode;
    } words[] = {{"short", 's'}, {"step", 't'}, {"long", 'l'}, {"persistent", 'p'}};
    size_t length = (size_t)(end - value);
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        if (strlen(words[i].word) == length && memcmp(words[i].word, value, length) == 0) {
            *mode = words[i].mode;
            return true;
        }
    }
    return fail_field(reader, "adv", "adv=short, adv=step, adv=long or adv=persistent");
}

static bool parse_option_number(struct reader *reader, const char *name, const char *value, const char *end,
                                uint64_t limit, const char *expected, uint64_t *out)
{
    if (scan_number(&value, end, out) != NUMBER_OK || *out >= limit) {
        return fail_field(reader, name, expected);
    }
    return true;
}

static bool parse_option(struct reader *reader, char letter, const char *value, const char *end,
                         weir_trace_event *event)
{
    uint64_t number = 0;
    switch (letter) {
    case 'L':
        if (!parse_option_number(reader, "al", value, end, UINT64_MAX, "al= and a power of two", &number)) {
            return false;
        }
        if (number == 0 || (number & (number - 1)) != 0) {
            return fail_field(reader, "al", "al= and a power of two");
        }
        event->extra = number;
        return true;
    case 'P':
        if (!parse_option_number(reader, "pool", value, end, TRACE_MAX_POOLS, "pool= and a number below 1048576",
                                 &number)) {
            return false;
        }
        event->pool = (uint32_t)number;
        return true;
    case 'V':
        return parse_advice(reader, value, end, &event->mode);
    case 'D':
        if (!parse_option_number(reader, "d", value, end, TRACE_MAX_DEVICES, "d= and a number below 4096", &number)) {
            return false;
        }
        event->device = (uint32_t)number;
        return true;
    case 'R':
        if (scan_address(&value, end, &event->address) != NUMBER_OK) {
            return fail_field(reader, "addr", "addr= and an address in hexadecimal with 0x");
        }
        return true;
    default:
        return parse_tag(reader, value, end, &event->tag);
    }
}

static const struct option *find_option(const char *start, size_t length, const char *allowed)
{
    for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
        if (*start == *options[i].prefix && length >= options[i].length &&
            memcmp(start, options[i].prefix, options[i].length) == 0 && strchr(allowed, options[i].letter) != NULL) {
            return &options[i];
        }
    }
    return NULL;
}

/* Takes all remaining fields: options with a letter in `allowed`, in any order, each at most once. *taken gets a bit
 * for each option found, by its row in the table of options. */
static bool take_options(struct reader *reader, const char *allowed, weir_trace_event *event, unsigned *taken)
{
    while (!at_end(reader)) {
        const char *start = reader->at + 1;
        const char *stop = memchr(start, ' ', (size_t)(reader->end - start));
        if (stop == NULL) {
            stop = reader->end;
        }
        const struct option *option = find_option(start, (size_t)(stop - start), allowed);
        if (option == NULL) {
            char shown[SHOWN_FIELD];
            trace_quote(shown, sizeof(shown), start, (size_t)(stop - start));
            return fail(reader, "field %u: \"%s\" is no option; a line is \"%s\"", reader->field + 1, shown,
                        syntax_of(*reader->line));
        }
        const unsigned bit = 1u << (option - options);
        if ((*taken & bit) != 0) {
            return fail(reader, "field %u: %s is given twice", reader->field + 1, option->prefix);
        }
        if (!parse_option(reader, option->letter, start + option->length, stop, event)) {
            return false;
        }
        *taken |= bit;
        reader->at = stop;
        reader->field++;
    }
    return true;
}

/* --- events --- */

/* An event line while it is read. */
struct event_line {
    weir_trace_event event;
    uint32_t index; /* index of the block or of the event object */
    uint32_t old_index;
    bool names_device; /* d= is given */
};

static bool take_free_stream(struct reader *reader, uint32_t *stream)
{
    const char *c = reader->at + 1;
    if (c < reader->end && *c == '-' && (c + 1 == reader->end || c[1] == ' ')) {
        reader->at = c + 1;
        reader->field++;
        *stream = WEIR_TRACE_NONE;
        return true;
    }
    return take_stream(reader, stream);
}

static bool take_old_block(struct reader *reader, struct event_line *line)
{
    if (!take_live_block(reader, &line->event.old_id, &line->old_index)) {
        return false;
    }
    end_block(reader, line->old_index);
    return true;
}

static bool take_object(struct reader *reader, struct event_line *line)
{
    return take_number(reader, NULL, &line->event.id) && find_object(reader, line->event.id, &line->index);
}

/* Reads the object of a host wait: * (all work), a stream, or e and an event. */
static bool take_awaited(struct reader *reader, struct event_line *line)
{
    static const char expected[] = "*, a stream, or e and an event";
    const char *c = reader->at + 1;
    if (c < reader->end && *c == '*') {
        return take_letter(reader, "*", expected, &line->event.mode);
    }
    if (c >= reader->end || *c != 'e') {
        line->event.mode = 's';
        return take_stream(reader, &line->event.stream);
    }
    c++;
    if (scan_number(&c, reader->end, &line->event.id) != NUMBER_OK) {
        return fail_field(reader, NULL, expected);
    }
    line->event.mode = 'e';
    reader->at = c;
    reader->field++;
    return find_object(reader, line->event.id, &line->index);
}

static bool take_phase(struct reader *reader, weir_trace_event *event)
{
    if (!take_letter(reader, "BEI", "B, E or I", &event->mode)) {
        return false;
    }
    if (at_end(reader)) {
        return fail_missing(reader, NULL);
    }
    event->name = builder_text(&reader->builder, reader->at + 1, (size_t)(reader->end - reader->at - 1));
    reader->at = reader->end;
    return event->name != NULL || no_memory(reader);
}

/* True if the optional field that may stand at this position is missing: the line ends, or an option follows. */
static bool is_left_out(const struct reader *reader)
{
    const ptrdiff_t left = reader->end - reader->at;
    return at_end(reader) || (left > 1 && reader->at[1] == '@') ||
           (left > 2 && reader->at[1] == 'd' && reader->at[2] == '=');
}

/* Reads the field that `letter` means in trace_fields.h. Options, which have a key, are read elsewhere. */
static bool take_field(struct reader *reader, char letter, struct event_line *line)
{
    weir_trace_event *event = &line->event;
    switch (letter) {
    case 't':
        return take_number(reader, NULL, &event->time_ns);
    case 'n':
        return take_new_block(reader, &event->id, &line->index);
    case 'i':
        return take_live_block(reader, &event->id, &line->index);
    case 'o':
        return take_old_block(reader, line);
    case 'e':
        return take_object(reader, line);
    case 'z':
        return take_request(reader, &event->size);
    case 'b':
        return take_bytes(reader, event->address, &event->size);
    case 'q':
        return take_number(reader, NULL, &event->size);
    case 'x':
        return take_number(reader, NULL, &event->extra);
    case 's':
        return take_stream(reader, &event->stream);
    case 'f':
        return take_free_stream(reader, &event->stream);
    case 'h':
        return take_small(reader, NULL, TRACE_MAX_THREADS, &event->thread);
    case 'p':
        return take_small(reader, NULL, TRACE_MAX_POOLS, &event->pool);
    case 'a':
        return take_address(reader, &event->address);
    case 'y':
        return take_awaited(reader, line);
    case 'm':
        return take_phase(reader, event);
    case '+':
        return take_letter(reader, "+-", "+ or -", &event->mode);
    case 'k':
        return take_letter(reader, "BER", "B, E or R", &event->mode);
    case 'A':
        return is_left_out(reader) || take_address(reader, &event->address);
    case 'S':
        return is_left_out(reader) || take_stream(reader, &event->stream);
    default: /* U */
        return at_end(reader) || take_letter(reader, "rw", "r or w", &event->mode);
    }
}

static bool has_key(char letter)
{
    return letter >= 'A' && letter <= 'Z' && letter != 'A' && letter != 'S' && letter != 'U';
}

static bool take_fields(struct reader *reader, const char *letters, struct event_line *line)
{
    for (; *letters != '\0' && !has_key(*letters); letters++) {
        if (!take_field(reader, *letters, line)) {
            return false;
        }
    }
    unsigned taken = 0;
    if (*letters == '\0') {
        return take_end(reader);
    }
    if (!take_options(reader, letters, &line->event, &taken)) {
        return false;
    }
    line->names_device = (taken & 1u << OPTION_D) != 0;
    return true;
}

static bool read_event(struct reader *reader)
{
    const char letter = *reader->line;
    const char *letters = (unsigned char)letter < 128 ? weir__trace_lines[(unsigned char)letter].fields : NULL;
    struct event_line line = {
        .event = {.kind = (weir_trace_kind)letter,
                  .stream = WEIR_TRACE_NONE,
                  .tag = WEIR_TRACE_NONE,
                  .pool = WEIR_TRACE_NONE},
        .index = TRACE_NO_INDEX,
        .old_index = TRACE_NO_INDEX,
    };
    if (letters == NULL) {
        char shown[8];
        trace_quote(shown, sizeof(shown), &letter, 1);
        return fail(reader,
                    "field 1: \"%s\" is no kind of line; expected one of p a f r u w e x y c l m q g s z o v @ #",
                    shown);
    }
    if (!take_fields(reader, letters, &line)) {
        return false;
    }
    if (letter == WEIR_TRACE_FREE) {
        end_block(reader, line.index);
    }
    if (letter == WEIR_TRACE_CAPTURE && !follow_capture(reader, &line.event)) {
        return false;
    }
    const bool gives_device = letter == WEIR_TRACE_PRIOR || letter == WEIR_TRACE_ALLOC ||
                              (line.names_device && line.event.stream != WEIR_TRACE_NONE);
    uint32_t bound;
    if (gives_device && builder_is_bound(&reader->builder, line.event.stream, &bound) && bound != line.event.device) {
        return fail(reader,
                    "stream %" PRIu32 " is of device %" PRIu32 " in this line and of device %" PRIu32
                    " in an earlier one; number the streams of each device differently",
                    line.event.stream, line.event.device, bound);
    }
    return builder_event(&reader->builder, &line.event, line.index, line.old_index, gives_device);
}

/* --- lines other than events --- */

/* @N text */
static bool read_tag(struct reader *reader)
{
    const char *c = reader->line + 1;
    uint64_t number;
    uint32_t tag;
    if (scan_number(&c, reader->end, &number) != NUMBER_OK) {
        return fail(reader, "field 1 (@N): expected @ and a decimal number");
    }
    if (c == reader->end) {
        return fail_missing(reader, "text");
    }
    if (id_map_get(&reader->tag_index, number, &tag)) {
        return fail(reader, "field 1 (@N): tag @%" PRIu64 " is defined already", number);
    }
    c++;
    if (!builder_tag(&reader->builder, c, (size_t)(reader->end - c), &tag)) {
        return false;
    }
    return id_map_put(&reader->tag_index, number, tag) || no_memory(reader);
}

static bool word_is(const char *start, const char *end, const char *word)
{
    size_t length = strlen(word);
    return (size_t)(end - start) == length && memcmp(start, word, length) == 0;
}

static bool read_clock(struct reader *reader)
{
    const char *start = at_end(reader) ? reader->end : reader->at + 1;
    enum trace_clock *clock = &reader->builder.trace->clock;
    if (word_is(start, reader->end, "ns")) {
        *clock = TRACE_CLOCK_NS;
    } else if (word_is(start, reader->end, "logical")) {
        *clock = TRACE_CLOCK_LOGICAL;
    } else if (word_is(start, reader->end, "order")) {
        *clock = TRACE_CLOCK_ORDER;
    } else {
        return fail(reader, "#clock: expected ns, logical or order");
    }
    return true;
}

/* Reads one `key=value` of a #dev line at `start`; *next points behind it. Words with another key are ignored. */
static bool read_device_word(struct reader *reader, struct trace_device *device, const char *start, const char **next)
{
    const char *stop = memchr(start, ' ', (size_t)(reader->end - start));
    if (stop == NULL) {
        stop = reader->end;
    }
    *next = stop;
    bool capacity = stop - start >= 4 && memcmp(start, "cap=", 4) == 0;
    bool granularity = stop - start >= 5 && memcmp(start, "gran=", 5) == 0;
    if (capacity || granularity) {
        const char *value = start + (capacity ? 4 : 5);
        uint64_t *to = capacity ? &device->capacity : &device->granularity;
        if (scan_number(&value, stop, to) != NUMBER_OK) {
            return fail(reader, "#dev: expected %s and a number of bytes", capacity ? "cap=" : "gran=");
        }
        if (granularity && (*to & (*to - 1)) != 0) {
            return fail(reader, "#dev: gran=%" PRIu64 " is no power of two", *to);
        }
        return true;
    }
    if (stop - start < 5 || memcmp(start, "name=", 5) != 0) {
        return true;
    }
    start += 5;
    const char *quote =
        reader->end - start >= 1 && *start == '"' ? memchr(start + 1, '"', (size_t)(reader->end - start - 1)) : NULL;
    if (quote == NULL || (quote + 1 < reader->end && quote[1] != ' ')) {
        return fail(reader, "#dev: expected name= and a text in double quotes");
    }
    *next = quote + 1;
    device->name = builder_text(&reader->builder, start + 1, (size_t)(quote - start - 1));
    return device->name != NULL || no_memory(reader);
}

/* Reads #dev D [cap=B] [gran=B] [name="..."]. */
static bool read_device(struct reader *reader)
{
    uint32_t number = 0;
    if (at_end(reader)) {
        return fail(reader, "#dev: the number of the device is missing");
    }
    if (!take_small(reader, "D", TRACE_MAX_DEVICES, &number)) {
        return false;
    }
    struct trace_device *device = builder_device(&reader->builder, number);
    if (device == NULL) {
        return no_memory(reader);
    }
    if (device->declared) {
        return fail(reader, "#dev: device %" PRIu32 " is declared already", number);
    }
    device->declared = true;
    while (!at_end(reader)) {
        if (!read_device_word(reader, device, reader->at + 1, &reader->at)) {
            return false;
        }
    }
    return true;
}

static bool end_stack(struct reader *reader)
{
    const bool done = reader->stack_frames == 0 ||
                      builder_stack(&reader->builder, reader->stack_tag, reader->stack, reader->stack_size);
    reader->stack_frames = 0;
    reader->stack_size = 0;
    return done;
}

static bool begin_stack(struct reader *reader, uint32_t tag, uint64_t number)
{
    if (!end_stack(reader)) {
        return false;
    }
    if (reader->builder.trace->stacks[tag] != NULL) {
        return fail(reader, "#stack: tag @%" PRIu64 " has a stack already", number);
    }
    if (reader->stack == NULL) {
        reader->stack = malloc((size_t)TRACE_STACK_FRAMES * (TRACE_FRAME_BYTES + 2));
    }
    reader->stack_tag = tag;
    return reader->stack != NULL || no_memory(reader);
}

static bool add_frame(struct reader *reader, const char *text, size_t length)
{
    if (reader->stack_frames == TRACE_STACK_FRAMES) {
        return fail(reader, "#stack: more than %u frames", TRACE_STACK_FRAMES);
    }
    if (clean_text(NULL, 0, text, length) > TRACE_FRAME_BYTES) {
        return fail(reader, "#stack: the frame is longer than %u bytes", TRACE_FRAME_BYTES);
    }
    if (reader->stack_frames++ > 0) {
        reader->stack[reader->stack_size++] = '\n';
    }
    reader->stack_size += clean_text(reader->stack + reader->stack_size, TRACE_FRAME_BYTES + 1, text, length);
    return true;
}

/* #stack N FRAME */
static bool read_frame(struct reader *reader)
{
    const char *c = at_end(reader) ? reader->end : reader->at + 1;
    uint64_t number;
    uint32_t tag;
    if (scan_number(&c, reader->end, &number) != NUMBER_OK || c == reader->end || c + 1 == reader->end) {
        return fail(reader, "#stack: expected the number of a tag and a frame");
    }
    if (!id_map_get(&reader->tag_index, number, &tag)) {
        return fail(reader, "#stack: tag @%" PRIu64 " is used before a line defines it", number);
    }
    if ((reader->stack_frames == 0 || reader->stack_tag != tag) && !begin_stack(reader, tag, number)) {
        return false;
    }
    return add_frame(reader, c + 1, (size_t)(reader->end - c - 1));
}

/* Two notes are more than text for a person. */
static const struct {
    const char *head;
    bool (*keep)(struct trace_builder *builder, const char *text, size_t length);
} known_notes[] = {
    {"recorded: ", builder_recorded_note},
    {"allocator settings: ", builder_allocator_settings},
};

static bool read_note(struct reader *reader)
{
    if (at_end(reader)) {
        return true;
    }
    const char *text = reader->at + 1;
    size_t length = (size_t)(reader->end - text);
    for (size_t i = 0; i < sizeof(known_notes) / sizeof(known_notes[0]); i++) {
        const size_t mark = strlen(known_notes[i].head);
        if (length > mark && memcmp(text, known_notes[i].head, mark) == 0) {
            return known_notes[i].keep(&reader->builder, text + mark, length - mark);
        }
    }
    return builder_note(&reader->builder, text, length);
}

static bool read_comment(struct reader *reader)
{
    const char *stop = memchr(reader->line, ' ', (size_t)(reader->end - reader->line));
    const char *word_end = stop != NULL ? stop : reader->end;
    reader->at = word_end;
    if (word_is(reader->line, word_end, "#src")) {
        const char *text = at_end(reader) ? reader->end : reader->at + 1;
        return builder_source(&reader->builder, text, (size_t)(reader->end - text));
    }
    if (word_is(reader->line, word_end, "#clock")) {
        return read_clock(reader);
    }
    if (word_is(reader->line, word_end, "#dev")) {
        return read_device(reader);
    }
    if (word_is(reader->line, word_end, "#note")) {
        return read_note(reader);
    }
    if (word_is(reader->line, word_end, "#stack")) {
        return read_frame(reader);
    }
    if (word_is(reader->line, word_end, "#wtr")) {
        return fail(reader, "a second \"#wtr\" line; a file holds one trace");
    }
    return true;
}

static bool read_header(struct reader *reader)
{
    if (word_is(reader->line, reader->end, "#wtr 1")) {
        return true;
    }
    if (reader->end - reader->line > 5 && memcmp(reader->line, "#wtr ", 5) == 0) {
        char shown[SHOWN_FIELD];
        trace_quote(shown, sizeof(shown), reader->line + 5, (size_t)(reader->end - reader->line - 5));
        return fail(reader, "version \"%s\" of the format is not known; expected \"#wtr 1\"", shown);
    }
    return fail(reader, "the first line must be \"#wtr 1\"");
}

static bool read_line(struct reader *reader)
{
    reader->field = 1;
    if (reader->line_number == 1) {
        return read_header(reader);
    }
    if (reader->line == reader->end) {
        return true;
    }
    if (*reader->line == '#') {
        return read_comment(reader);
    }
    if (*reader->line == '@') {
        return read_tag(reader);
    }
    reader->at = reader->line + 1;
    if (!at_end(reader) && *reader->at != ' ') {
        char shown[SHOWN_FIELD];
        trace_quote(shown, sizeof(shown), reader->line, (size_t)(reader->end - reader->line));
        return fail(reader, "field 1: expected one letter and a blank, got \"%s\"", shown);
    }
    return read_event(reader);
}

static bool read_lines(struct reader *reader, const char *text, size_t size)
{
    const char *stop = text + size;
    while (text < stop) {
        const char *newline = memchr(text, '\n', (size_t)(stop - text));
        const char *end = newline != NULL ? newline : stop;
        const char *next = newline != NULL ? newline + 1 : stop;
        while (end > text && (end[-1] == ' ' || end[-1] == '\r' || end[-1] == '\t')) {
            end--;
        }
        reader->line = text;
        reader->end = end;
        reader->line_number++;
        if (!read_line(reader)) {
            return false;
        }
        text = next;
    }
    return true;
}

bool wtr_parse(const struct trace_source *source, const struct trace_limits *limits, struct trace **out,
               struct trace_error *error)
{
    struct reader reader = {.error = error, .path = source->path};
    if (!builder_start(&reader.builder, source->path, limits, error)) {
        return false;
    }
    const size_t mark = trace_mark_bytes(source->bytes, source->size);
    bool done = read_lines(&reader, (const char *)source->bytes + mark, source->size - mark) && end_stack(&reader) &&
                builder_finish(&reader.builder, out);
    if (!done) {
        builder_drop(&reader.builder);
    }
    id_map_free(&reader.block_index);
    id_map_free(&reader.object_index);
    id_map_free(&reader.tag_index);
    id_map_free(&reader.capture_index);
    id_map_free(&reader.captured);
    free(reader.captures);
    free(reader.stack);
    free(reader.lives);
    return done;
}
