/* captures.c: see captures.h. */
#include "replay/captures.h"

#include <stdlib.h>

struct replay_capture_pool {
    weir_capture_pool *handle; /* NULL: released */
    uint32_t pool;             /* its number in the trace */
    uint32_t last;             /* stream of the latest capture */
    bool open;
};

static uint64_t key_of(const struct replay_captures *captures, uint32_t pool, uint32_t number)
{
    return (uint64_t)pool << 32 | (captures->apart ? number : 0);
}

static struct replay_capture_pool *find(const struct replay_captures *captures, uint32_t pool, uint32_t number)
{
    const uint64_t index = weir__number_map_get(&captures->index, key_of(captures, pool, number));
    return index != 0 && captures->pools[index - 1].handle != NULL ? &captures->pools[index - 1] : NULL;
}

static weir_status make(struct replay_captures *captures, uint32_t pool, uint32_t number)
{
    if (captures->count == captures->room) {
        const size_t room = captures->room == 0 ? 16 : captures->room * 2;
        struct replay_capture_pool *pools = realloc(captures->pools, room * sizeof(*pools));
        if (pools == NULL) {
            return WEIR_ERR_NO_MEMORY;
        }
        captures->pools = pools;
        captures->room = room;
    }
    struct replay_capture_pool *made = &captures->pools[captures->count];
    *made = (struct replay_capture_pool){.pool = pool, .last = WEIR_TRACE_NONE};
    if (!weir__number_map_put(&captures->index, key_of(captures, pool, number), captures->count + 1)) {
        return WEIR_ERR_NO_MEMORY;
    }
    captures->count++;
    return weir_capture_pool_create(captures->pool, &made->handle);
}

uint32_t replay_captures_last(const struct replay_captures *captures, uint32_t pool, uint32_t number)
{
    const struct replay_capture_pool *found = find(captures, pool, number);
    return found != NULL ? found->last : WEIR_TRACE_NONE;
}

weir_status replay_captures_begin(struct replay_captures *captures, uint32_t pool, uint32_t number, weir_stream *stream)
{
    weir_status status = WEIR_OK;
    if (find(captures, pool, number) == NULL) {
        status = make(captures, pool, number);
    }
    struct replay_capture_pool *found = find(captures, pool, number);
    if (status == WEIR_OK) {
        status = weir_capture_begin(found->handle, stream);
    }
    if (status == WEIR_OK) {
        found->open = true;
        found->last = number;
    }
    return status;
}

/* Reads how much memory all graphs have. */
static weir_status note_bytes(struct replay_captures *captures)
{
    uint64_t bytes = 0;
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < captures->count && status == WEIR_OK; i++) {
        weir_capture_stats stats = WEIR_CAPTURE_STATS_INIT;
        if (captures->pools[i].handle != NULL) {
            status = weir_capture_get_stats(captures->pools[i].handle, &stats);
        }
        bytes += stats.live_bytes + stats.free_bytes;
    }
    captures->peak_bytes = bytes > captures->peak_bytes ? bytes : captures->peak_bytes;
    return status;
}

static weir_status end(struct replay_captures *captures, struct replay_capture_pool *pool)
{
    const weir_status status = note_bytes(captures);
    pool->open = false;
    return status == WEIR_OK ? weir_capture_end(pool->handle) : status;
}

weir_status replay_captures_end(struct replay_captures *captures, uint32_t pool, uint32_t number)
{
    struct replay_capture_pool *found = find(captures, pool, number);
    return found != NULL && found->open ? end(captures, found) : WEIR_OK;
}

weir_status replay_captures_release(struct replay_captures *captures, uint32_t pool)
{
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < captures->count && status == WEIR_OK; i++) {
        struct replay_capture_pool *released = &captures->pools[i];
        if (released->handle == NULL || (pool != WEIR_TRACE_NONE && released->pool != pool)) {
            continue;
        }
        status = released->open ? end(captures, released) : WEIR_OK;
        if (status == WEIR_OK) {
            status = weir_capture_pool_release(released->handle);
            released->handle = status == WEIR_OK ? NULL : released->handle;
        }
    }
    return status;
}

void replay_captures_fini(struct replay_captures *captures)
{
    free(captures->pools);
    weir__number_map_fini(&captures->index);
}
