/* core/src/state/front_cache.c: the memory of a front cache's slots. Most streams use the size classes of a few
 * doublings, so a group of slots gets memory with its first block. */
#include "state/front_cache.h"

#include <stdlib.h>
#include <string.h>

bool weir__front_begin_group(struct front_cache *front, size_t group)
{
    WEIR_ASSERT(group < FRONT_GROUPS && front->groups[group] == NULL);
    struct front_slot *slots = aligned_alloc(sizeof(*slots), FRONT_GROUP * sizeof(*slots));
    if (slots == NULL) {
        return false;
    }
    memset(slots, 0, FRONT_GROUP * sizeof(*slots));
    front->groups[group] = slots;
    return true;
}

void weir__front_fini(struct front_cache *front)
{
    for (size_t group = 0; group < FRONT_GROUPS; group++) {
        free(front->groups[group]);
    }
}
