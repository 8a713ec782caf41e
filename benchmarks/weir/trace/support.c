/* support.c: messages, the arena, the id map and growing arrays, which every reader of traces uses.
 *
 * This file does not depend on struct trace. Costs: an arena allocation is a pointer bump; a map operation touches one
 * cache line for the dense ids of ordinary traces.
 */
#include "clean_text.h"
#include "trace_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- messages --- */

/* Bytes of a path that a message shows. A longer path is cut at its beginning, because its end tells more. */
#define SHOWN_PATH 240

static void place_text(char *out, size_t size, const char *path)
{
    size_t length = strlen(path);
    char quoted[SHOWN_PATH + 8];
    if (length > SHOWN_PATH) {
        trace_quote(quoted, sizeof(quoted), path + (length - SHOWN_PATH), SHOWN_PATH);
        snprintf(out, size, "...%s", quoted);
        return;
    }
    trace_quote(out, size, path, length);
}

static void say(struct trace_error *error, weir_status status, const char *path, const char *where, const char *format,
                va_list arguments)
{
    char shown[SHOWN_PATH + 16];
    place_text(shown, sizeof(shown), path);
    error->status = status;
    error->line = 0;
    error->byte = 0;
    int used = snprintf(error->message, sizeof(error->message), "%s%s", shown, where);
    if (used >= 0 && (size_t)used < sizeof(error->message)) {
        vsnprintf(error->message + used, sizeof(error->message) - (size_t)used, format, arguments);
    }
}

bool trace_say(struct trace_error *error, weir_status status, const char *path, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(error, status, path, ": ", format, arguments);
    va_end(arguments);
    return false;
}

bool trace_say_line(struct trace_error *error, weir_status status, const char *path, uint64_t line, const char *format,
                    va_list arguments)
{
    char where[40];
    snprintf(where, sizeof(where), ":%" PRIu64 ": ", line);
    say(error, status, path, where, format, arguments);
    error->line = line;
    return false;
}

bool trace_say_byte(struct trace_error *error, weir_status status, const char *path, uint64_t byte, const char *format,
                    va_list arguments)
{
    char where[40];
    snprintf(where, sizeof(where), ": byte %" PRIu64 ": ", byte);
    say(error, status, path, where, format, arguments);
    error->byte = byte;
    return false;
}

const char *trace_quote(char *out, size_t size, const char *text, size_t length)
{
    if (clean_text(out, size, text, length) >= size) {
        (void)clean_text(out, size - 3, text, length);
        strcat(out, "...");
    }
    return out;
}

/* --- characters --- */

size_t put_utf8(char *out, uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | (code >> 18 & 7));
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

/* --- the arena --- */

#define CHUNK_LEAST ((size_t)4096)
#define CHUNK_MOST ((size_t)1024 * 1024)

struct arena_chunk {
    struct arena_chunk *next;
    uint64_t size;
};

/* Returns the size of the next chunk. Chunks double up to a limit, so that a tiny trace takes little memory and a large
 * trace few calls of malloc. */
static size_t chunk_size(const struct arena *arena, size_t need)
{
    size_t size = CHUNK_LEAST;
    while (size < CHUNK_MOST && size < arena->total) {
        size *= 2;
    }
    return size < need ? need : size;
}

/* Adds a chunk of `bytes` to the list. Returns NULL when out of memory or at the limit. */
static struct arena_chunk *add_chunk(struct arena *arena, size_t bytes)
{
    if (arena->limit != 0 && (arena->total >= arena->limit || bytes > arena->limit - arena->total)) {
        arena->refused = true;
        return NULL;
    }
    struct arena_chunk *chunk = malloc(bytes);
    if (chunk != NULL) {
        chunk->next = arena->chunks;
        chunk->size = bytes;
        arena->chunks = chunk;
        arena->total += bytes;
    }
    return chunk;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    if (size > SIZE_MAX / 2) {
        return NULL;
    }
    size = (size + 7) & ~(size_t)7;
    if (size > arena->left) {
        size_t need = sizeof(struct arena_chunk) + size;
        size_t bytes = chunk_size(arena, need);
        struct arena_chunk *chunk = add_chunk(arena, bytes);
        if (chunk == NULL && bytes > need) {
            bytes = need;
            chunk = add_chunk(arena, bytes);
        }
        if (chunk == NULL) {
            return NULL;
        }
        if (bytes == need && arena->left > 0) {
            return chunk + 1; /* a large object gets a separate chunk; the current chunk stays in use */
        }
        arena->at = (char *)(chunk + 1);
        arena->left = bytes - sizeof(*chunk);
    }
    void *result = arena->at;
    arena->at += size;
    arena->left -= size;
    return result;
}

size_t trimmed_length(const char *text, size_t length)
{
    while (length > 0 && text[length - 1] == ' ') {
        length--;
    }
    return length;
}

char *arena_text(struct arena *arena, const char *text, size_t length)
{
    length = trimmed_length(text, length);
    const size_t size = clean_text(NULL, 0, text, length) + 1;
    char *copy = arena_alloc(arena, size);
    if (copy != NULL) {
        (void)clean_text(copy, size, text, length);
    }
    return copy;
}

void arena_free(struct arena *arena)
{
    struct arena_chunk *chunk = arena->chunks;
    while (chunk != NULL) {
        struct arena_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    memset(arena, 0, sizeof(*arena));
}

/* --- the map --- */

bool id_map_get(const struct id_map *map, uint64_t key, uint32_t *value)
{
    if (key < map->direct_count && map->direct[key] != 0) {
        *value = map->direct[key] - 1;
        return true;
    }
    const uint64_t found = weir__number_map_get(&map->hashed, key);
    if (found == 0) {
        return false;
    }
    *value = (uint32_t)found - 1;
    return true;
}

/* Grows the array so that it holds `key`. The key must be below twice the number of keys so far plus a constant, so the
 * size of the array stays proportional to the input. Returns false if the key belongs in the hash table. */
static bool reach_direct(struct id_map *map, uint64_t key)
{
    if (key < map->direct_count) {
        return true;
    }
    if (key >= 2 * (uint64_t)(map->direct_used + map->hashed.count) + 1024) {
        return false;
    }
    size_t count = map->direct_count == 0 ? 1024 : map->direct_count;
    while (count <= key) {
        count *= 2;
    }
    uint32_t *direct = realloc(map->direct, count * sizeof(*direct));
    if (direct == NULL) {
        return false; /* the caller tries the hash table, which may fail too */
    }
    memset(direct + map->direct_count, 0, (count - map->direct_count) * sizeof(*direct));
    map->direct = direct;
    map->direct_count = count;
    return true;
}

bool id_map_put(struct id_map *map, uint64_t key, uint32_t value)
{
    if (weir__number_map_get(&map->hashed, key) == 0 && reach_direct(map, key)) {
        map->direct_used += map->direct[key] == 0;
        map->direct[key] = value + 1;
        return true;
    }
    return weir__number_map_put(&map->hashed, key, (uint64_t)value + 1);
}

void id_map_remove(struct id_map *map, uint64_t key)
{
    if (key < map->direct_count && map->direct[key] != 0) {
        map->direct[key] = 0;
        map->direct_used--;
    } else {
        (void)weir__number_map_take(&map->hashed, key);
    }
}

void id_map_free(struct id_map *map)
{
    free(map->direct);
    weir__number_map_fini(&map->hashed);
    memset(map, 0, sizeof(*map));
}

uint64_t trace_hash(const void *bytes, size_t size)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    const unsigned char *c = bytes;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ c[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

/* --- growing arrays --- */

void *grow_array(void *array, size_t count, size_t *capacity, size_t element)
{
    if (count < *capacity) {
        return array;
    }
    size_t larger = *capacity < 16 ? 16 : *capacity * 2;
    if (larger > SIZE_MAX / 2 / element) {
        return NULL;
    }
    void *moved = realloc(array, larger * element);
    if (moved != NULL) {
        *capacity = larger;
    }
    return moved;
}

size_t trace_up_to(const void *array, size_t count, size_t element, uint64_t address)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        uint64_t start;
        memcpy(&start, (const char *)array + middle * element, sizeof(start));
        if (start <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
