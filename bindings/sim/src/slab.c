/* slab.c: the slow path of slab.h: allocation of chunks, and their release at the end. */
#include "slab.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void weir__sim_slab_init(weir__sim_slab *slab, size_t object_size, size_t first_count)
{
    memset(slab, 0, sizeof(*slab));
    slab->object_size = (object_size + 15) & ~(size_t)15;
    slab->first_count = first_count;
}

void weir__sim_slab_fini(weir__sim_slab *slab)
{
    for (size_t i = 0; i < slab->chunk_count; i++) {
        free(slab->chunk[i]);
    }
    memset(slab, 0, sizeof(*slab));
}

bool weir__sim_slab_grow(weir__sim_slab *slab)
{
    if (slab->chunk_count == WEIR__SIM_SLAB_CHUNKS) {
        return false;
    }
    size_t count = slab->first_count << slab->chunk_count;
    char *chunk = calloc(count, slab->object_size);
    if (chunk == NULL) {
        return false;
    }
    slab->chunk[slab->chunk_count++] = chunk;
    /* From the back, so that objects are handed out in address order. */
    for (size_t i = count; i-- > 0;) {
        weir__sim_slab_put(slab, chunk + i * slab->object_size);
    }
    return true;
}

bool weir__sim_slab_owns(const weir__sim_slab *slab, const void *object)
{
    uintptr_t address = (uintptr_t)object;
    for (size_t i = 0; i < slab->chunk_count; i++) {
        uintptr_t first = (uintptr_t)slab->chunk[i];
        size_t size = (slab->first_count << i) * slab->object_size;
        if (address - first < size) {
            return (address - first) % slab->object_size == 0;
        }
    }
    return false;
}
