/* weir/host_sleep.h: the contents of sleeping blocks (weir/sleep.h) in pinned host memory, on the device's node.
 *
 *     weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
 *     config.flags = WEIR_HOST_NO_PAD;                exact sizes: whole chunks and no pads
 *     config.chunk_bytes = 2 * 1024 * 1024;
 *     config.runtime = &runtime;                      pins with the device's runtime
 *     config.shared_limit = limit;                    of all processes
 *     weir_host_pool_create(&config, &host);
 *     weir_host_sleep_store(host, &sleep.store);
 *     weir_pool_sleep(pool, &sleep, &report);
 *
 * The host pool then holds what is kept, rounded up to one chunk for each 256 MiB of a tag, and nothing once all is
 * awake: each copy that ends makes the host pool give its idle memory back. So take a host pool of its own for it.
 */
#ifndef WEIR_HOST_SLEEP_H
#define WEIR_HOST_SLEEP_H

#include <weir/host.h>
#include <weir/sleep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fills *store with functions that take memory of the host pool, near its device, and give it back. The host pool must
 * outlive the last wake and the pools that sleep with the store. A limit of the host pool refuses a sleep with
 * WEIR_ERR_LIMIT, and everything stays awake. Returns WEIR_ERR_INVALID for NULL. Thread-safe. */
WEIR_API weir_status weir_host_sleep_store(weir_host_pool *host, weir_sleep_store *store);

#ifdef __cplusplus
}
#endif

#endif
