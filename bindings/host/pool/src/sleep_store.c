/* bindings/host/pool/src/sleep_store.c: the store of a sleep (weir/host_sleep.h) in a host pool. */
#include <weir/host_sleep.h>

#include "shared/assert.h"

static weir_status take(void *ctx, uint64_t size, void **host)
{
    WEIR_ASSERT(ctx != NULL && size != 0);
    weir_host_pool *pool = ctx;
    return weir_host_alloc(pool, size, weir_host_device_node(pool), host);
}

/* The memory goes back to the system at once: the program sleeps to make room for others. */
static void give(void *ctx, void *host, uint64_t size)
{
    WEIR_ASSERT(ctx != NULL && host != NULL);
    (void)size;
    const weir_status freed = weir_host_free(ctx, host);
    WEIR_ASSERT(freed == WEIR_OK);
    (void)freed;
    (void)!weir_host_trim(ctx, 0, NULL); /* memory that the runtime does not take back stays with the pool */
}

weir_status weir_host_sleep_store(weir_host_pool *host, weir_sleep_store *store)
{
    if (host == NULL || store == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_host_sleep_store: %s is NULL", host == NULL ? "host" : "store");
    }
    *store = (weir_sleep_store){.take = take, .give = give, .ctx = host};
    return WEIR_OK;
}
