/* support.c: messages, the arena, the id map and growing arrays, which every reader of traces uses.
 *
 * This file does not depend on struct trace. Costs: an arena allocation is a pointer bump; a map operation touches one
 * cache line for the dense ids of ordinary traces.
 */
#include "clean_text.h"
#include "trace_internal.h"

#include <assert.h>
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

static void say(struct trace_error *error, const char *path, const char *where, const char *format, va_list arguments)
{
    char shown[SHOWN_PATH + 16];
    place_text(shown, sizeof(shown), path);
    int used = snprintf(error->message, sizeof(error->message), "%s%s", shown, where);
    if (used < 0 || (size_t)used >= sizeof(error->message)) {
        return;
    }
    vsnprintf(error->message + used, sizeof(error->message) - (size_t)used, format, arguments);
}

bool trace_say(struct trace_error *error, weir_status status, const char *path, const char *format, ...)
{
    error->status = status;
    error->line = 0;
    error->byte = 0;
    va_list arguments;
    va_start(arguments, format);
    say(error, path, ": ", format, arguments);
    va_end(arguments);
    return false;
}

bool trace_say_line(struct trace_error *error, weir_status status, const char *path, uint64_t line, const char *format,
                    va_list arguments)
{
    char where[40];
    snprintf(where, sizeof(where), ":%" PRIu64 ": ", line);
    error->status = status;
    error->line = line;
    error->byte = 0;
    say(error, path, where, format, arguments);
    return false;
}

bool trace_say_byte(struct trace_error *error, weir_status status, const char *path, uint64_t byte, const char *format,
                    va_list arguments)
{
    char where[40];
    snprintf(where, sizeof(where), ": byte %" PRIu64 ": ", byte);
    error->status = status;
    error->line = 0;
    error->byte = byte;
    say(error, path, where, format, arguments);
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

/* Adds a chunk of `bytes` to the list. Returns NULL without memory or at the limit. */
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

char *arena_text(struct arena *arena, const char *text, size_t length)
{
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

static size_t slot_of(const struct id_map *map, uint64_t key)
{
    key ^= key >> 33;
    key *= UINT64_C(0xff51afd7ed558ccd);
    key ^= key >> 33;
    key *= UINT64_C(0xc4ceb9fe1a85ec53);
    key ^= key >> 33;
    return (size_t)key & (map->slot_count - 1);
}

static struct id_slot *find_slot(const struct id_map *map, uint64_t key)
{
    if (map->slot_count == 0) {
        return NULL;
    }
    size_t i = slot_of(map, key);
    while (map->slots[i].used != 0 && map->slots[i].key != key) {
        i = (i + 1) & (map->slot_count - 1);
    }
    return &map->slots[i];
}

bool id_map_get(const struct id_map *map, uint64_t key, uint32_t *value)
{
    if (key < map->direct_count && map->direct[key] != 0) {
        *value = map->direct[key] - 1;
        return true;
    }
    const struct id_slot *slot = find_slot(map, key);
    if (slot == NULL || slot->used == 0) {
        return false;
    }
    *value = slot->value;
    return true;
}

/* Grows the array so that it holds `key`. The key must be below twice the number of keys so far plus a constant, so the
 * size of the array stays proportional to the input. Returns false if the key belongs into the hash table. */
static bool reach_direct(struct id_map *map, uint64_t key)
{
    if (key < map->direct_count) {
        return true;
    }
    if (key >= 2 * (uint64_t)map->count + 1024) {
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

static bool grow_slots(struct id_map *map)
{
    struct id_map larger = *map;
    larger.slot_count = map->slot_count == 0 ? 64 : map->slot_count * 2;
    larger.slots = calloc(larger.slot_count, sizeof(*larger.slots));
    if (larger.slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < map->slot_count; i++) {
        if (map->slots[i].used != 0) {
            *find_slot(&larger, map->slots[i].key) = map->slots[i];
        }
    }
    free(map->slots);
    *map = larger;
    return true;
}

bool id_map_put(struct id_map *map, uint64_t key, uint32_t value)
{
    struct id_slot *slot = find_slot(map, key);
    if (slot != NULL && slot->used != 0) {
        slot->value = value;
        return true;
    }
    if (reach_direct(map, key)) {
        map->count += map->direct[key] == 0;
        map->direct[key] = value + 1;
        return true;
    }
    if (map->slot_used >= map->slot_count / 4 * 3) {
        if (!grow_slots(map)) {
            return false;
        }
        slot = find_slot(map, key);
    }
    assert(slot != NULL); /* grow_slots has made slots */
    slot->key = key;
    slot->value = value;
    slot->used = 1;
    map->slot_used++;
    map->count++;
    return true;
}

void id_map_remove(struct id_map *map, uint64_t key)
{
    if (key < map->direct_count && map->direct[key] != 0) {
        map->direct[key] = 0;
        map->count--;
        return;
    }
    struct id_slot *slot = find_slot(map, key);
    if (slot == NULL || slot->used == 0) {
        return;
    }
    /* Entries behind the hole move into it, unless that would put them before their hash position. */
    size_t mask = map->slot_count - 1;
    size_t hole = (size_t)(slot - map->slots);
    size_t i = hole;
    for (;;) {
        i = (i + 1) & mask;
        if (map->slots[i].used == 0) {
            break;
        }
        size_t home = slot_of(map, map->slots[i].key);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole].used = 0;
    map->slot_used--;
    map->count--;
}

void id_map_free(struct id_map *map)
{
    free(map->direct);
    free(map->slots);
    memset(map, 0, sizeof(*map));
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
