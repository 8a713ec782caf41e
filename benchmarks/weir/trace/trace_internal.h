/* trace_internal.h: code that the readers and importers share: messages, text storage, a map from ids, and the builder,
 * which is the only code that makes a struct trace.
 *
 * A function that returns bool fills in the error before it returns false; the caller only passes false on.
 */
#ifndef WEIR_BENCHMARKS_TRACE_INTERNAL_H
#define WEIR_BENCHMARKS_TRACE_INTERNAL_H

#include "trace.h"

#include "shared/number_map.h"

#include <stdarg.h>

#if defined(__GNUC__)
#define TRACE_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define TRACE_PRINTF(text, first)
#endif

/* --- messages --- */

/* Fill in the error with the message "PATH: ...", "PATH:LINE: ..." or "PATH: byte N: ...". Return false. */
bool trace_say(struct trace_error *error, weir_status status, const char *path, const char *format, ...)
    TRACE_PRINTF(4, 5);
bool trace_say_line(struct trace_error *error, weir_status status, const char *path, uint64_t line, const char *format,
                    va_list arguments) TRACE_PRINTF(5, 0);
bool trace_say_byte(struct trace_error *error, weir_status status, const char *path, uint64_t byte, const char *format,
                    va_list arguments) TRACE_PRINTF(5, 0);

/* Cleans foreign text for a message (clean_text.h) into at most size - 1 bytes; size is at least 4. Text that does not
 * fit is cut and ends with "...". Returns `out`. */
const char *trace_quote(char *out, size_t size, const char *text, size_t length);

/* --- characters --- */

/* Returns the value of a hexadecimal digit; -1 for another character. */
static inline int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Returns the length of the byte order mark of UTF-8 that a text begins with, or 0. */
static inline size_t trace_mark_bytes(const unsigned char *text, size_t size)
{
    return size >= 3 && text[0] == 0xef && text[1] == 0xbb && text[2] == 0xbf ? 3 : 0;
}

/* Writes a code point below 0x200000 as UTF-8, without a NUL. Returns its length, 1 to 4. */
size_t put_utf8(char *out, uint32_t code);

/* --- an arena: many small objects, freed at once, without recursion --- */

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks;
    char *at;
    size_t left;
    uint64_t total; /* bytes asked from malloc */
    uint64_t limit; /* most bytes asked from malloc; 0 = no limit */
    bool refused;   /* an allocation failed because of the limit */
};

/* Returns memory that is 8-byte aligned and not zeroed; NULL when out of host memory or at the limit. */
void *arena_alloc(struct arena *arena, size_t size);

/* Returns the length of a text without its trailing blanks, which a line of `.wtr` does not keep. */
size_t trimmed_length(const char *text, size_t length);

/* Returns a clean copy (clean_text.h) of a text without its trailing blanks: one line of UTF-8, safe to print,
 * terminated by a NUL. NULL when out of memory. */
char *arena_text(struct arena *arena, const char *text, size_t length);

void arena_free(struct arena *arena);

/* --- a map from 64-bit keys to 32-bit values --- */

/* Small keys, which most ids of real traces are, lie in an array; larger keys lie in a hash table. Invariant: a key is
 * in at most one of the two. */
struct id_map {
    uint32_t *direct; /* value + 1, or 0 */
    size_t direct_count;
    size_t direct_used;
    weir__number_map hashed; /* value + 1 */
};

bool id_map_get(const struct id_map *map, uint64_t key, uint32_t *value);
bool id_map_put(struct id_map *map, uint64_t key, uint32_t value); /* value < UINT32_MAX; false: out of memory */
void id_map_remove(struct id_map *map, uint64_t key);
void id_map_free(struct id_map *map);

/* FNV-1a of some bytes. Equal hashes do not prove that the bytes are equal. */
uint64_t trace_hash(const void *bytes, size_t size);

/* --- growing arrays --- */

/* Makes room for `count` + 1 elements of `element` bytes. Returns the array, which may have moved, or NULL when out of
 * host memory; the old array is then unchanged. */
void *grow_array(void *array, size_t count, size_t *capacity, size_t element);

/* --- the builder --- */

/* Returns an event of this kind that has no stream, no tag and no pool. */
static inline weir_trace_event blank_event(weir_trace_kind kind)
{
    return (weir_trace_event){.kind = kind, .stream = WEIR_TRACE_NONE, .tag = WEIR_TRACE_NONE, .pool = WEIR_TRACE_NONE};
}

struct trace_builder {
    struct trace *trace;
    struct trace_limits limits; /* resolved: no zeros */
    struct trace_error *error;
    size_t event_capacity;
    size_t tag_capacity;
    size_t stack_capacity;
    bool has_stacks;
    size_t note_capacity;
    size_t device_capacity;
    size_t stream_capacity;
    size_t addressed; /* p and a lines with an address */
    size_t births;    /* p and a lines */
};

/* `limits` may be NULL. */
bool builder_start(struct trace_builder *builder, const char *path, const struct trace_limits *limits,
                   struct trace_error *error);

/* Appends the event. The caller must check the indices and the ranges of numbers before. `gives_device`: the line of
 * the event names the device of its stream. */
bool builder_event(struct trace_builder *builder, const weir_trace_event *event, uint32_t index, uint32_t old_index,
                   bool gives_device);

/* True if an event has given the stream a device; *device is its number. */
bool builder_is_bound(const struct trace_builder *builder, uint32_t stream, uint32_t *device);

/* Adds a copy of the text as a new tag; *tag is its index. */
bool builder_tag(struct trace_builder *builder, const char *text, size_t length, uint32_t *tag);

/* Limits of a stack: the number of its frames, and the bytes of each frame. */
#define TRACE_STACK_FRAMES 64u
#define TRACE_FRAME_BYTES 512u

/* Copies the call stack of a tag into the trace: clean frames, a newline between two. */
bool builder_stack(struct trace_builder *builder, uint32_t tag, const char *text, size_t length);
bool builder_note(struct trace_builder *builder, const char *text, size_t length);
bool builder_note_format(struct trace_builder *builder, const char *format, ...) TRACE_PRINTF(2, 3);
/* Adds "COUNT TEXT" as a note, unless the count is 0. */
bool builder_note_count(struct trace_builder *builder, uint64_t count, const char *text);
bool builder_source(struct trace_builder *builder, const char *text, size_t length);
bool builder_recorded_note(struct trace_builder *builder, const char *text, size_t length);
bool builder_allocator_settings(struct trace_builder *builder, const char *text, size_t length);

/* Returns the entry of device `number` < TRACE_MAX_DEVICES and creates it if it is new; NULL when out of memory. */
struct trace_device *builder_device(struct trace_builder *builder, uint32_t number);
char *builder_text(struct trace_builder *builder, const char *text, size_t length);

/* Returns a copy of `size` bytes that lives as long as the trace; NULL when out of memory. `bytes` may be NULL if
 * `size` is 0. */
void *builder_bytes(struct trace_builder *builder, const void *bytes, size_t size);

bool builder_no_memory(struct trace_builder *builder);

/* Hands the trace over to the caller and leaves the builder empty. */
bool builder_finish(struct trace_builder *builder, struct trace **out);

/* Frees the incomplete trace after a failure. */
void builder_drop(struct trace_builder *builder);

/* True for events that take memory of a device, and for records of memory that the program's allocator took from its
 * device. The device of such an event is that of its stream, or event->device without a stream. */
static inline bool trace_takes_memory(weir_trace_kind kind)
{
    return kind == WEIR_TRACE_PRIOR || kind == WEIR_TRACE_ALLOC || kind == WEIR_TRACE_SEGMENT ||
           kind == WEIR_TRACE_MAPPING || kind == WEIR_TRACE_OOM;
}

/* Fills in trace->pad_bytes from adjacent blocks: if a block begins where the request of another block, rounded up to
 * 512 bytes, ends, the allocator did not add 32 bytes. Returns false when out of memory. */
bool trace_infer_pad(struct trace *trace);

/* --- the parts --- */

struct trace_source {
    const char *path;
    const unsigned char *bytes;
    size_t size;
};

bool csv_parse(const struct trace_source *source, const struct trace_limits *limits, struct trace **out,
               struct trace_error *error);
bool wtr_parse(const struct trace_source *source, const struct trace_limits *limits, struct trace **out,
               struct trace_error *error);
bool torch_snapshot_parse(const struct trace_source *source, const struct trace_limits *limits, struct trace **out,
                          struct trace_error *error);

/* limits->max_bytes is set. */
bool torch_zip_parse(const struct trace_source *source, const struct trace_limits *limits, struct trace **out,
                     struct trace_error *error);
bool kineto_parse(const struct trace_source *source, const struct trace_limits *limits, struct trace **out,
                  struct trace_error *error);
#ifdef WEIR_WITH_SQLITE
bool sqlite_parse(const struct trace_source *source, const struct trace_limits *limits, struct trace **out,
                  struct trace_error *error);
#endif

/* Reads a whole file into memory from malloc, without unpacking it. */
bool trace_slurp(const char *path, uint64_t max_bytes, unsigned char **bytes, size_t *size, struct trace_error *error);

/* Unpacks xz or gzip data into memory from malloc. */
bool trace_unpack(const struct trace_source *packed, enum trace_format format, uint64_t max_bytes,
                  unsigned char **bytes, size_t *size, struct trace_error *error);

#endif
