/* core/src/state/memory_ops.h: the table of functions that each source of a pool's memory implements. A pool refers to
 * its source by this table, so that the folders below memory/ can ask for its properties. memory/memory.h names the
 * sources.
 */
#ifndef WEIR_CORE_STATE_MEMORY_OPS_H
#define WEIR_CORE_STATE_MEMORY_OPS_H

#include <weir/pool.h>

struct request; /* of order/order.h */

/* The unit in which a source of memory takes memory from the device and gives it back: a region or a handle. */
struct memory_piece {
    uint64_t address;
    uint64_t size;
    weir_vm_handle handle; /* 0: a region */
};

/* The functions of a source of memory. They are called with no lock held, unless the comment says "Pool lock held". */
struct memory_ops {
    /* Takes more memory from the device, serves the request and counts how it was served. May first return or move idle
     * memory. Returns false if the device or the limit refused; the request records which. Also returns true if another
     * thread's growth served the request. */
    bool (*grow)(struct request *request);
    /* Called when the device has no more memory: first gives back or moves all idle memory, and then does the same as
     * grow. Returns false also if no memory is idle. */
    bool (*exchange)(struct request *request);
    /* Gives idle memory back to the device until `keep` reserved bytes remain. Returns how many bytes went back.
     * *failed receives a failure of the device. */
    uint64_t (*give_back)(weir_pool *pool, uint64_t keep, weir_status *failed);
    /* Finds the piece in which the address lies. Returns false if there is none, or if it is on its way to the device
     * or from it. Pool lock held. */
    bool (*find)(const weir_pool *pool, uint64_t address, struct memory_piece *piece);
    /* The pool is being destroyed: gives all memory back, tries each failing call twice, and keeps the first
     * failure. */
    void (*return_all)(weir_pool *pool, weir_status *first);
    /* Frees the pool's records of its memory. Calls neither the strategy nor the device. */
    void (*fini)(weir_pool *pool);
};

#endif
