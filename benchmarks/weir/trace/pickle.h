/* pickle.h: reads plain data from a Python pickle, without Python and without executing anything.
 *
 * Promise: the result consists of None, bool, int, float, str, bytes, list, tuple and dict only. The parser refuses
 * every opcode that could name, import, build or call an object, with its name and byte offset. Memory stays within a
 * small multiple of the input. Neither parsing nor freeing recurses, so deep nesting does no harm.
 *
 * Values are shared exactly as the pickle shares them: an object that is memoised and fetched a thousand times is one
 * node with a thousand references. A container may therefore contain itself, and a walk over shared values can take
 * exponentially many steps: a walk must follow a fixed shape and count its steps.
 */
#ifndef WEIR_BENCHMARKS_PICKLE_H
#define WEIR_BENCHMARKS_PICKLE_H

#include "trace_internal.h"

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INT,  /* fits int64_t */
    PICKLE_UINT, /* above INT64_MAX */
    PICKLE_FLOAT,
    PICKLE_STR, /* as stored: unchecked UTF-8 */
    PICKLE_BYTES,
    PICKLE_LIST,
    PICKLE_TUPLE,
    PICKLE_DICT,
};

struct pickle_value {
    enum pickle_kind kind;
    uint32_t mark;  /* 0 at first; free for use by code that walks the values */
    uint32_t count; /* LIST, TUPLE: items. DICT: keys and values together. STR, BYTES: bytes */
    uint32_t room;  /* LIST, DICT: capacity of `items` */
    union {
        bool boolean;
        int64_t integer;
        uint64_t unsigned_integer;
        double real;
        const char *text;            /* not terminated by a NUL; points into the input or the arena */
        struct pickle_value **items; /* DICT: key, value, key, value ... */
    } as;
};

struct pickle {
    struct arena arena;
    struct pickle_value *root;
    unsigned protocol; /* protocol number from the PROTO opcode; 0 without this opcode */
};

/* Parses the whole input, which must stay where it is as long as the values are used. */
bool pickle_parse(const struct trace_source *source, struct pickle *out, struct trace_error *error);
void pickle_free(struct pickle *pickle);

/* Returns the value of the key `key`; NULL if `dict` is not a dict or lacks the key. If the key occurs several times,
 * its last value is used. Costs one comparison for each key. */
struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key);

bool pickle_is_text(const struct pickle_value *value, const char *text);

/* True for a list and for a tuple. */
bool pickle_is_sequence(const struct pickle_value *value);

/* Read a number from 0 to 2^64 - 1; a float loses its fraction. Return false if there is no value or no such number. */
bool pickle_number(const struct pickle_value *value, uint64_t *out);
bool pickle_get_number(const struct pickle_value *dict, const char *key, uint64_t *out);
uint64_t pickle_get_number_or(const struct pickle_value *dict, const char *key, uint64_t otherwise);

/* A walk over the values of a pickle. Shared objects can make it exponentially longer than the file, so its steps are
 * limited. */
struct pickle_walk {
    uint64_t steps; /* that remain */
    const char *path;
    struct trace_error *error;
};

/* Counts `steps` against the limit of the walk. Returns false, with the error filled in, if they exceed it. */
bool pickle_walk_spend(struct pickle_walk *walk, uint64_t steps);

/* Returns "a list", "a dict" ... for messages. */
const char *pickle_kind_name(const struct pickle_value *value);

#endif
