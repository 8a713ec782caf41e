/* core/src/base/number_map.h: a hash table from any 64-bit number to a 64-bit number that is not 0.
 *
 * For what core must find by a key that someone else chose: a handle, a pointer, an id. 0 means
 * "not there", so a lookup needs no second result. Not thread-safe: the owner locks.
 */
#ifndef WEIR_CORE_NUMBER_MAP_H
#define WEIR_CORE_NUMBER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero = empty. */
typedef struct weir__number_map {
    struct weir__number_entry *entries;
    size_t slots; /* a power of two; 0 before the first reserve */
    size_t count;
} weir__number_map;

/* Makes room for `count` entries in all: until there are more, put cannot fail. False when there is
 * no memory, and then nothing has changed. */
bool weir__number_map_reserve(weir__number_map *map, size_t count);
/* Sets the value of a key. False when there is no memory. */
bool weir__number_map_put(weir__number_map *map, uint64_t key, uint64_t value);
/* 0 when the key is not there. */
uint64_t weir__number_map_get(const weir__number_map *map, uint64_t key);
/* Removes the key and returns its value; 0 when it was not there. */
uint64_t weir__number_map_take(weir__number_map *map, uint64_t key);
/* Visits every entry, in no order; false ends the walk. The visitor must not change the map. */
void weir__number_map_each(const weir__number_map *map, bool (*visit)(void *ctx, uint64_t key, uint64_t value), void *ctx);
void weir__number_map_fini(weir__number_map *map);

#endif
