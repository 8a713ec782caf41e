/* core/src/base/number_map.c: open addressing with linear probing.
 *
 * Invariant: the slots from an entry's home to the entry itself are all in use, so a search ends at
 * the first empty slot. Removal keeps it by moving later entries of the same run up: no tombstones,
 * and the cost does not grow with the number of removals.
 * Cost: at most two thirds full, so a few probes on average; growing doubles the table.
 */
#include "number_map.h"

#include <stdlib.h>

typedef struct weir__number_entry {
    uint64_t key;
    uint64_t value; /* 0 = empty slot */
} number_entry;

/* Fibonacci hashing: keys that differ only in their low or high bits still spread. */
static size_t home_of(const weir__number_map *map, uint64_t key)
{
    return (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (map->slots - 1);
}

/* The slot that holds the key, or the empty one where it belongs. */
static size_t find_slot(const weir__number_map *map, uint64_t key)
{
    size_t slot = home_of(map, key);
    while (map->entries[slot].value != 0 && map->entries[slot].key != key) {
        slot = (slot + 1) & (map->slots - 1);
    }
    return slot;
}

static bool has_room(const weir__number_map *map, size_t count)
{
    return count <= map->slots - map->slots / 3 - (map->slots != 0);
}

bool weir__number_map_reserve(weir__number_map *map, size_t count)
{
    if (has_room(map, count)) {
        return true;
    }
    weir__number_map larger = {.slots = map->slots != 0 ? map->slots : 16, .count = map->count};
    while (!has_room(&larger, count)) {
        if (larger.slots > SIZE_MAX / 2 / sizeof *larger.entries) {
            return false;
        }
        larger.slots *= 2;
    }
    larger.entries = calloc(larger.slots, sizeof *larger.entries);
    if (larger.entries == NULL) {
        return false;
    }
    for (size_t i = 0; i < map->slots; i++) {
        if (map->entries[i].value != 0) {
            larger.entries[find_slot(&larger, map->entries[i].key)] = map->entries[i];
        }
    }
    free(map->entries);
    *map = larger;
    return true;
}

bool weir__number_map_put(weir__number_map *map, uint64_t key, uint64_t value)
{
    if (!weir__number_map_reserve(map, map->count + 1)) {
        return false;
    }
    number_entry *const entry = &map->entries[find_slot(map, key)];
    map->count += entry->value == 0;
    *entry = (number_entry){.key = key, .value = value};
    return true;
}

uint64_t weir__number_map_get(const weir__number_map *map, uint64_t key)
{
    return map->slots != 0 ? map->entries[find_slot(map, key)].value : 0;
}

uint64_t weir__number_map_take(weir__number_map *map, uint64_t key)
{
    if (map->slots == 0) {
        return 0;
    }
    size_t hole = find_slot(map, key);
    const uint64_t value = map->entries[hole].value;
    if (value == 0) {
        return 0;
    }
    const size_t mask = map->slots - 1;
    for (size_t i = (hole + 1) & mask; map->entries[i].value != 0; i = (i + 1) & mask) {
        const size_t home = home_of(map, map->entries[i].key);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->entries[hole] = map->entries[i];
            hole = i;
        }
    }
    map->entries[hole].value = 0;
    map->count--;
    return value;
}

void weir__number_map_each(const weir__number_map *map, bool (*visit)(void *ctx, uint64_t key, uint64_t value), void *ctx)
{
    for (size_t i = 0; i < map->slots; i++) {
        if (map->entries[i].value != 0 && !visit(ctx, map->entries[i].key, map->entries[i].value)) {
            return;
        }
    }
}

void weir__number_map_fini(weir__number_map *map)
{
    free(map->entries);
    *map = (weir__number_map){.slots = 0};
}
