/* core/src/memory/pin.c: pins: memory that keeps its addresses, also when it is free (weir/pin.h).
 *
 * Idea: a table counts the pins of each handle or region, by its first address. What gives memory back asks the table:
 * find_idle in vm_handle.c, remove_if_idle in region.c. So a pool without pins pays one comparison for each handle that
 * it could give back, and records no more.
 *
 * Guarantee: a handle or region in the table is mapped, or held, until its count is 0 or the pool is destroyed. A pin
 * finds no memory that is on its way to the device or from it, so the table and the thread that grows never disagree.
 * pool->pinned_bytes is the sum of their sizes, which weir_pool_check computes anew.
 *
 * Cost: linear in the handles of the range; for regions, in the regions of the pool.
 */
#include <weir/pin.h>

#include "memory/memory.h"

#include <inttypes.h>

static weir_status refuse(const char *function, const weir_pool *pool, uint64_t address, uint64_t size)
{
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: pool is NULL", function);
    }
    return weir_refuse(WEIR_ERR_INVALID, "%s: size %" PRIu64 " at 0x%" PRIx64 " is no range", function, size, address);
}

static bool is_range(const weir_pool *pool, uint64_t address, uint64_t size)
{
    return pool != NULL && size != 0 && address <= UINT64_MAX - size;
}

/* Counts the handles or regions of the range. Returns 0 if some of it is not memory of the pool or, with `pinned`, not
 * pinned: *gap is the first such address then. Pool lock held. */
static size_t count_pieces(const weir_pool *pool, uint64_t address, uint64_t size, bool pinned, uint64_t *gap)
{
    WEIR_ASSERT(pool_is_locked(pool) && size != 0);
    size_t count = 0;
    struct memory_piece piece;
    for (*gap = address; *gap - address < size; *gap = piece.address + piece.size) {
        if (!pool->memory->find(pool, *gap, &piece) || (pinned && weir__pins_locked(pool, piece.address) == 0)) {
            return 0;
        }
        count++;
    }
    return count;
}

uint64_t weir__pinned_in_locked(const weir_pool *pool, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(pool_is_locked(pool));
    uint64_t bytes = 0;
    struct memory_piece piece;
    for (uint64_t at = address; pool->pins.count != 0 && at - address < size && pool->memory->find(pool, at, &piece);
         at = piece.address + piece.size) {
        const uint64_t rest = address + size - at;
        const uint64_t here = piece.address + piece.size - at;
        bytes += weir__pins_locked(pool, piece.address) == 0 ? 0 : here < rest ? here : rest;
    }
    return bytes;
}

weir_status weir_pool_pin(weir_pool *pool, uint64_t address, uint64_t size)
{
    if (!is_range(pool, address, size)) {
        return refuse("weir_pool_pin", pool, address, size);
    }
    uint64_t gap = 0;
    struct memory_piece piece = {.address = address};
    pool_lock(pool);
    const size_t count = count_pieces(pool, address, size, false, &gap);
    const bool has_room = weir__number_map_reserve(&pool->pins, pool->pins.count + count);
    for (size_t i = 0; has_room && i < count; i++) {
        (void)pool->memory->find(pool, piece.address + piece.size, &piece);
        const uint64_t pins = weir__pins_locked(pool, piece.address);
        pool->pinned_bytes += pins == 0 ? piece.size : 0;
        (void)weir__number_map_put(&pool->pins, piece.address, pins + 1); /* reserved above */
    }
    pool_unlock(pool);
    if (count == 0) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_pin: 0x%" PRIx64 " is not in memory of the pool", gap);
    }
    return has_room ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

weir_status weir_pool_unpin(weir_pool *pool, uint64_t address, uint64_t size)
{
    if (!is_range(pool, address, size)) {
        return refuse("weir_pool_unpin", pool, address, size);
    }
    uint64_t gap = 0;
    struct memory_piece piece = {.address = address};
    pool_lock(pool);
    const size_t count = count_pieces(pool, address, size, true, &gap);
    for (size_t i = 0; i < count; i++) {
        (void)pool->memory->find(pool, piece.address + piece.size, &piece);
        const uint64_t pins = weir__number_map_take(&pool->pins, piece.address);
        if (pins > 1) {
            (void)weir__number_map_put(&pool->pins, piece.address, pins - 1); /* the entry had room */
        } else {
            pool->pinned_bytes -= piece.size;
        }
    }
    pool_unlock(pool);
    return count != 0 ? WEIR_OK
                      : weir_refuse(WEIR_ERR_INVALID, "weir_pool_unpin: 0x%" PRIx64 " is not in pinned memory", gap);
}

weir_status weir_pool_find_memory(weir_pool *pool, uint64_t address, weir_memory_info *out)
{
    if (pool == NULL || out == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_find_memory: %s is NULL", pool == NULL ? "pool" : "info");
    }
    struct memory_piece piece;
    weir_memory_info info = WEIR_MEMORY_INFO_INIT;
    pool_lock(pool);
    const bool found = pool->memory->find(pool, address, &piece);
    info.pins = found ? weir__pins_locked(pool, piece.address) : 0;
    pool_unlock(pool);
    if (!found) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_find_memory: 0x%" PRIx64 " is not in memory of the pool",
                           address);
    }
    info.address = piece.address;
    info.size = piece.size;
    info.handle = piece.handle;
    return weir_struct_report(out, &info, sizeof(info), "weir_pool_find_memory: info");
}

const char *weir__pins_broken_locked(const weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    uint64_t bytes = 0;
    for (size_t i = 0; i < pool->pins.slots; i++) {
        const weir__number_entry *entry = &pool->pins.entries[i];
        struct memory_piece piece;
        if (entry->value != 0 && (!pool->memory->find(pool, entry->key, &piece) || piece.address != entry->key)) {
            return "pinned memory is gone";
        }
        bytes += entry->value != 0 ? piece.size : 0;
    }
    return bytes == pool->pinned_bytes ? NULL : "pinned bytes and pins differ";
}
