/* slab.h: objects of one size from chunks that are kept until the end.
 *
 * Idea: a free list over chunks that double in size; the object returned last is the next one handed out. Guarantee:
 * memory once handed out stays readable until fini, so a stale handle can be told from a live one by its contents, and
 * `owns` tells a handle of this slab from any other pointer. Cost: a few instructions per object; at most 40 chunks.
 */
#ifndef WEIR_SIM_SLAB_H
#define WEIR_SIM_SLAB_H

#include <stdbool.h>
#include <stddef.h>

enum { WEIR__SIM_SLAB_CHUNKS = 40 };

typedef struct weir__sim_slab {
    void *free;         /* linked through each free object's first word */
    size_t object_size; /* a multiple of 16 */
    size_t first_count; /* objects in chunk 0; chunk i has first_count << i */
    size_t chunk_count;
    char *chunk[WEIR__SIM_SLAB_CHUNKS];
} weir__sim_slab;

void weir__sim_slab_init(weir__sim_slab *slab, size_t object_size, size_t first_count);
void weir__sim_slab_fini(weir__sim_slab *slab);
/* Adds a chunk. Returns false when out of memory. Only weir__sim_slab_get calls it. */
bool weir__sim_slab_grow(weir__sim_slab *slab);
/* True if `object` is an object of this slab, live or free. */
bool weir__sim_slab_owns(const weir__sim_slab *slab, const void *object);

/* Returns an object, or NULL. Its contents are indeterminate (all zero on first use). */
static inline void *weir__sim_slab_get(weir__sim_slab *slab)
{
    if (slab->free == NULL && !weir__sim_slab_grow(slab)) {
        return NULL;
    }
    void *object = slab->free;
    slab->free = *(void **)object;
    return object;
}

/* Returns an object to the slab. Only the object's first word is overwritten. */
static inline void weir__sim_slab_put(weir__sim_slab *slab, void *object)
{
    *(void **)object = slab->free;
    slab->free = object;
}

#endif
