/* weir/pin.h: memory that stays at its addresses while something outside the pool knows them.
 *
 * A live block never moves, and its memory never goes back to the device. When the block is freed, both may happen. A
 * pin prevents that: the memory under some addresses, by whole handles or regions of the device, keeps its addresses
 * until the pin ends, whether the blocks in it are live or freed. No growth, exchange, trim or limit takes it away.
 *
 * For memory whose addresses the records of another party keep after its blocks have been freed:
 *
 *     a registration (a network card, a collective library)   pin before it is registered, unpin after it is
 *     of a block that the program may free meanwhile          deregistered
 *     an export to another process, which has the handle      pin before the export, unpin when the other process has
 *     mapped                                                  closed it
 *
 * A captured graph needs no pin: its memory stays with it (weir/capture.h). A buffer of a graph that a library has
 * registered needs one for the registration.
 *
 * To export, walk the handles under the block. A handle goes to the other process as a whole:
 *
 *     weir_pool_pin(pool, address, size);
 *     for (uint64_t at = address; at < address + size; at = memory.address + memory.size) {
 *         weir_pool_find_memory(pool, at, &memory);
 *         ... cuMemExportToShareableHandle or aclrtMemExportToShareableHandle of memory.handle ...
 *     }
 *
 * The other process maps the handles one behind the other; the block begins `address` less the first handle's address
 * behind the start. Several blocks may lie in one handle, and ACL exports a handle only once: keep its key for the next
 * block. Where memory.handle is 0, memory.address is the start of a region, which cuIpcGetMemHandle and
 * aclrtIpcMemGetExportKey export.
 *
 * What a pin does not do. It keeps memory, not contents: a pinned block may be freed, and its memory serves the pool's
 * next requests as any free memory. The streams of other processes and cards are unknown to the pool, so their accesses
 * end before the free, or the program keeps the block. And it divides nothing: other blocks may lie in the same handle,
 * and the other process can reach them. Take a pool of its own for memory that another process must not reach.
 *
 * Price. Pinned memory that is free counts as reserved, serves requests where it lies, and cannot make room elsewhere:
 * under a limit, requests may fail for it (WEIR_ADVICE_UNPIN says so). A pin covers whole handles, which are up to 1/32
 * of the pool.
 *
 * weir_pool_destroy ends all pins: hold the pool (weir_pool_hold) for as long as the addresses are known outside.
 */
#ifndef WEIR_PIN_H
#define WEIR_PIN_H

#include <weir/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Pins the memory of [address, address + size): of a live block, of a part of one, or of several. The caller owns the
 * blocks there until the call returns; afterwards it may free them. Pins are counted: each needs an unpin of the same
 * range, and pins of different ranges may share handles. Makes no device call. The cost is linear in the handles or, to
 * find a region, in the pool's regions. Returns WEIR_ERR_INVALID, and changes nothing, if `pool` is NULL, `size` is 0,
 * or some of the range is not memory of the pool; WEIR_ERR_NO_MEMORY if there is no host memory. Thread-safe, as all
 * functions below are. */
WEIR_API weir_status weir_pool_pin(weir_pool *pool, uint64_t address, uint64_t size);

/* Ends a pin of the same range. Idle memory stays with the pool until it is needed elsewhere or trimmed, as any idle
 * memory does. Returns WEIR_ERR_INVALID, and changes nothing, if `pool` is NULL, `size` is 0, or some of the range is
 * not pinned. */
WEIR_API weir_status weir_pool_unpin(weir_pool *pool, uint64_t address, uint64_t size);

/* The device's memory at an address. */
typedef struct weir_memory_info {
    size_t struct_size;
    uint64_t address;      /* of the whole handle or region */
    uint64_t size;         /* bytes, of the whole */
    weir_vm_handle handle; /* of the pool's device: a CUmemGenericAllocationHandle, an aclrtDrvMemHandle as an integer;
                              0: a region, of the device's ordinary call */
    uint64_t pins;         /* pins that it counts */
} weir_memory_info;

#define WEIR_MEMORY_INFO_INIT WEIR_STRUCT_INIT(weir_memory_info)

/* Describes the handle or region in which the address lies. What it says of the address, the size and the handle holds
 * while a block is live there or a pin holds. The pool owns the handle: the caller does not destroy it. Returns
 * WEIR_ERR_INVALID if an argument is NULL or the address is not in memory of the pool. */
WEIR_API weir_status weir_pool_find_memory(weir_pool *pool, uint64_t address, weir_memory_info *info);

#ifdef __cplusplus
}
#endif

#endif
