/* trace_internal.h: what the readers and importers share: messages, text storage, a map from ids, and the builder that
 * alone makes a struct trace.
 *
 * All functions that return bool return false after they have filled in the error; the caller only passes that on.
 */
#ifndef WEIR_BENCHMARKS_TRACE_INTERNAL_H
#define WEIR_BENCHMARKS_TRACE_INTERNAL_H

#include "trace.h"

#include <stdarg.h>

#if defined(__GNUC__)
#define TRACE_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define TRACE_PRINTF(text, first)
#endif

/* --- messages --- */

/* "PATH: ...", "PATH:LINE: ..." and "PATH: byte N: ...". All return false. */
bool trace_say(struct trace_error *error, weir_status status, const char *path, const char *format,
               ...) TRACE_PRINTF(4, 5);
bool trace_say_line(struct trace_error *error, weir_status status, const char *path, uint64_t line,
                    const char *format, va_list arguments) TRACE_PRINTF(5, 0);
bool trace_say_byte(struct trace_error *error, weir_status status, const char *path, uint64_t byte,
                    const char *format, va_list arguments) TRACE_PRINTF(5, 0);

/* Cleans foreign text for a message (clean_text.h) into at most size - 1 bytes, of which there are three; a cut shows as
 * "...". */
const char *trace_quote(char *out, size_t size, const char *text, size_t length);

/* --- an arena: many small things, freed at once, without recursion --- */

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks;
    char *at;
    size_t left;
    uint64_t total; /* bytes asked from malloc */
    uint64_t limit; /* highest total; 0 = none */
    bool refused;   /* an allocation failed because of the limit */
};

/* 8-byte aligned and not zeroed; NULL when memory or the limit ends. */
void *arena_alloc(struct arena *arena, size_t size);

/* A clean copy (clean_text.h) with a NUL behind it: one line of UTF-8, safe to print. NULL when memory ends. */
char *arena_text(struct arena *arena, const char *text, size_t length);

void arena_free(struct arena *arena);

/* --- a map from 64-bit keys to 32-bit values --- */

struct id_slot {
    uint64_t key;
    uint32_t value;
    uint32_t used;
};

/* Small keys, which are nearly all ids of real traces, sit in an array of their own; the rest in a hash table with
 * linear probing. Invariant: a key is in at most one of the two, and slot_used < slot_count * 3 / 4. */
struct id_map {
    uint32_t *direct; /* value + 1, or 0 */
    size_t direct_count;
    struct id_slot *slots;
    size_t slot_count; /* 0 or a power of two */
    size_t slot_used;
    size_t count;
};

bool id_map_get(const struct id_map *map, uint64_t key, uint32_t *value);
bool id_map_put(struct id_map *map, uint64_t key,
                uint32_t value); /* false: no memory. value < UINT32_MAX */
void id_map_remove(struct id_map *map, uint64_t key);
void id_map_free(struct id_map *map);

/* --- growing arrays --- */

/* Makes room for `count` + 1 elements of `element` bytes; returns the array, moved or not, or NULL without change. */
void *grow_array(void *array, size_t count, size_t *capacity, size_t element);

/* --- the builder --- */

struct trace_builder {
    struct trace *trace;
    struct trace_limits limits; /* resolved: no zeros */
    struct trace_error *error;
    size_t event_capacity;
    size_t tag_capacity;
    size_t note_capacity;
    size_t device_capacity;
    size_t stream_capacity;
    size_t addressed; /* p and a lines with an address */
    size_t births;    /* p and a lines */
};

/* `limits` may be NULL. */
bool builder_start(struct trace_builder *builder, const char *path,
                   const struct trace_limits *limits, struct trace_error *error);

/* Appends the event. The caller vouches for the indices and for the ranges of numbers. `gives_device`: the line says
 * which device its stream belongs to. */
bool builder_event(struct trace_builder *builder, const weir_trace_event *event, uint32_t index,
                   uint32_t old_index, bool gives_device);

/* The next free tag index, for a copy of the text. */
bool builder_tag(struct trace_builder *builder, const char *text, size_t length, uint32_t *tag);
bool builder_note(struct trace_builder *builder, const char *text, size_t length);
bool builder_note_format(struct trace_builder *builder, const char *format, ...) TRACE_PRINTF(2, 3);
bool builder_source(struct trace_builder *builder, const char *text, size_t length);
bool builder_recorded_note(struct trace_builder *builder, const char *text, size_t length);

/* The entry of device `number` < TRACE_MAX_DEVICES, made when it is new; NULL when memory ends. */
struct trace_device *builder_device(struct trace_builder *builder, uint32_t number);
char *builder_text(struct trace_builder *builder, const char *text, size_t length);

bool builder_no_memory(struct trace_builder *builder);

/* Hands the trace over; the builder is empty then. */
bool builder_finish(struct trace_builder *builder, struct trace **out);

/* Frees what there is after a failure. */
void builder_drop(struct trace_builder *builder);

/* Fills in trace->pad_bytes from blocks that touch: a block that begins where another one's request, rounded up to
 * 512 bytes, ends cannot exist beside 32 added bytes. Returns false when memory ends. */
bool trace_infer_pad(struct trace *trace);

/* --- the parts --- */

struct trace_source {
    const char *path;
    const unsigned char *bytes;
    size_t size;
};

bool wtr_parse(const struct trace_source *source, const struct trace_limits *limits,
               struct trace **out, struct trace_error *error);
bool torch_snapshot_parse(const struct trace_source *source, const struct trace_limits *limits,
                          struct trace **out, struct trace_error *error);

/* The whole of a file in memory from malloc, not yet unpacked. */
bool trace_slurp(const char *path, uint64_t max_bytes, unsigned char **bytes, size_t *size,
                 struct trace_error *error);

/* Unpacks xz or gzip data into memory from malloc. */
bool trace_unpack(const struct trace_source *packed, enum trace_format format, uint64_t max_bytes,
                  unsigned char **bytes, size_t *size, struct trace_error *error);

#endif
