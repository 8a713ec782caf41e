/* core/shared/number_map.h: a hash table from any 64-bit number to a 64-bit number that is not 0. Header only, for
 * core, the bindings and the tools.
 *
 * The user of the table chooses the keys: a handle, a pointer, an id. The value 0 means "no entry", so a lookup needs
 * no second result. Not thread-safe: the owner locks.
 *
 * Open addressing with linear probing. Invariant: the slots from an entry's home to the entry itself are all in use, so
 * a search ends at the first empty slot. A removal moves later entries of the same run up, which keeps the invariant
 * without tombstones: the cost does not grow with the number of removals. Cost: at most two thirds of the slots are in
 * use, so a search takes a few probes on average. Growing doubles the table.
 */
#ifndef WEIR_SHARED_NUMBER_MAP_H
#define WEIR_SHARED_NUMBER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct weir__number_entry {
    uint64_t key;
    uint64_t value; /* 0 = empty slot */
} weir__number_entry;

/* All zero = empty. */
typedef struct weir__number_map {
    weir__number_entry *entries;
    size_t slots; /* a power of two; 0 before the first reserve */
    size_t count;
} weir__number_map;

/* Fibonacci hashing: keys that differ only in their low or high bits still spread. */
static inline size_t weir__number_map_home(const weir__number_map *map, uint64_t key)
{
    return (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (map->slots - 1);
}

/* Returns the slot that holds the key, or the empty slot where the key belongs. */
static inline size_t weir__number_map_slot(const weir__number_map *map, uint64_t key)
{
    size_t slot = weir__number_map_home(map, key);
    while (map->entries[slot].value != 0 && map->entries[slot].key != key) {
        slot = (slot + 1) & (map->slots - 1);
    }
    return slot;
}

static inline bool weir__number_map_has_room(const weir__number_map *map, size_t count)
{
    return count <= map->slots - map->slots / 3 - (map->slots != 0);
}

/* Makes room for `count` entries in total: put cannot fail up to that number. Returns false, and changes nothing, if
 * there is no memory. */
static inline bool weir__number_map_reserve(weir__number_map *map, size_t count)
{
    if (weir__number_map_has_room(map, count)) {
        return true;
    }
    weir__number_map larger = {.slots = map->slots != 0 ? map->slots : 16, .count = map->count};
    while (!weir__number_map_has_room(&larger, count)) {
        if (larger.slots > SIZE_MAX / 2 / sizeof(*larger.entries)) {
            return false;
        }
        larger.slots *= 2;
    }
    larger.entries = calloc(larger.slots, sizeof(*larger.entries));
    if (larger.entries == NULL) {
        return false;
    }
    for (size_t i = 0; i < map->slots; i++) {
        if (map->entries[i].value != 0) {
            larger.entries[weir__number_map_slot(&larger, map->entries[i].key)] = map->entries[i];
        }
    }
    free(map->entries);
    *map = larger;
    return true;
}

/* Sets the value of a key. Returns false if there is no memory. */
static inline bool weir__number_map_put(weir__number_map *map, uint64_t key, uint64_t value)
{
    if (!weir__number_map_reserve(map, map->count + 1)) {
        return false;
    }
    weir__number_entry *const entry = &map->entries[weir__number_map_slot(map, key)];
    map->count += entry->value == 0;
    *entry = (weir__number_entry){.key = key, .value = value};
    return true;
}

/* Returns the value of a key; 0 if it has no entry. */
static inline uint64_t weir__number_map_get(const weir__number_map *map, uint64_t key)
{
    return map->slots != 0 ? map->entries[weir__number_map_slot(map, key)].value : 0;
}

/* Removes the key and returns its value; 0 if it had no entry. */
static inline uint64_t weir__number_map_take(weir__number_map *map, uint64_t key)
{
    if (map->slots == 0) {
        return 0;
    }
    size_t hole = weir__number_map_slot(map, key);
    const uint64_t value = map->entries[hole].value;
    if (value == 0) {
        return 0;
    }
    const size_t mask = map->slots - 1;
    for (size_t i = (hole + 1) & mask; map->entries[i].value != 0; i = (i + 1) & mask) {
        const size_t home = weir__number_map_home(map, map->entries[i].key);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->entries[hole] = map->entries[i];
            hole = i;
        }
    }
    map->entries[hole].value = 0;
    map->count--;
    return value;
}

/* Visits every entry, in no particular order. The visitor returns false to end the walk. It must not change the map. */
static inline void weir__number_map_each(const weir__number_map *map,
                                         bool (*visit)(void *ctx, uint64_t key, uint64_t value), void *ctx)
{
    for (size_t i = 0; i < map->slots; i++) {
        if (map->entries[i].value != 0 && !visit(ctx, map->entries[i].key, map->entries[i].value)) {
            return;
        }
    }
}

static inline void weir__number_map_fini(weir__number_map *map)
{
    free(map->entries);
    *map = (weir__number_map){.slots = 0};
}

#endif
