/* core/src/pool/lock_all.c: takes every lock of a pool, for one consistent view: walk, check, tags, observers. */
#include "pool/pool.h"

void weir__pool_lock_all(weir_pool *pool)
{
    /* A stream that is created while the earlier streams are being locked is locked as well. */
    size_t locked = 1;
    pool_lock(pool);
    while (locked < pool->lanes) {
        weir_stream *stream = pool->streams[locked];
        pool_unlock(pool);
        stream_visit(stream);
        (void)weir__remote_frees_clear(pool, stream);
        front_unload(stream);
        locked++;
        pool_lock(pool);
    }
}

void weir__pool_unlock_all(weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    for (size_t lane = pool->lanes; lane-- > 1;) {
        stream_unlock(pool->streams[lane]);
    }
    pool_unlock(pool);
}
