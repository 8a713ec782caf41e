/* core/src/memory/vm_internal.h: the records of virtual memory, shared by the files that keep them.
 *
 *     vm.c         the table of verbs: grows, gives back; how much new memory is taken before idle memory is
 *     vm_handle.c  handles: fills holes, takes idle handles, gives handles back; the records of granules
 *     vm_span.c    spans of addresses
 *     vm_window.c  where a request needs the least new memory
 *     vm_bare.c    memory under taken addresses: takes it away, and puts it there again
 *     reserved.c   reserved blocks: addresses of which parts have memory
 */
#ifndef WEIR_CORE_VM_INTERNAL_H
#define WEIR_CORE_VM_INTERNAL_H

#include "memory/memory.h"
#include "vm_window.h"

/* One granule of a span. If `handle` is 0, the granule has no memory: it is a hole, or bare, if its addresses are
 * taken. Otherwise it is number `at` of the `of` granules that the handle has memory for. `token` is set in the first
 * granule of the addresses that the thread that grows has claimed for one handle; vm_apart there says that a handle of
 * bare addresses is not mapped. */
struct vm_granule {
    weir_vm_handle handle;
    void *token;
    uint32_t at;
    uint32_t of;
};

/* One reservation of addresses. The strategy's region is [address, address + size). The reserved addresses may be more,
 * so that granules larger than a page can be aligned. The span of a reserved block holds nothing else. */
struct vm_span {
    struct vm_span *next;
    void *region; /* the strategy's handle */
    uint64_t address;
    uint64_t size;
    struct reservation *reserved; /* of the reserved block, no handle has memory for two of its units; NULL: none */
    uint64_t reserved_address;
    uint64_t reserved_size;
    uint64_t used;                /* granules from this index on have never had memory */
    struct vm_granule granules[]; /* entries from `used` on are never written, so that their pages do not become
                                     resident */
};

/* A handle of the device that is mapped nowhere, and how many granules it has memory for. */
struct vm_spare {
    weir_vm_handle handle;
    uint64_t granules;
};

/* Adjacent granules with one handle, or to get one. While the thread that grows works on them, they are claimed from
 * the strategy as one range, whose token this is. */
struct vm_place {
    uint64_t address;
    uint64_t granules;
    weir_vm_handle handle; /* the handle that is mapped there, or is to be */
    bool mapped;
    bool bare;      /* the addresses are taken, so nothing is claimed from the strategy */
    bool apart;     /* bare: the handle belongs there, with its contents, although it is not mapped */
    weir_lane lane; /* lane (stream number) that gets the memory */
    void *token;    /* NULL: not claimed */
};

struct vm_counts {
    uint64_t creates;
    uint64_t destroys;
    uint64_t maps;
    uint64_t unmaps;
    uint64_t moved; /* granules of handles that were mapped again elsewhere */
};

/* A piece of free memory that serves no request while its granule has no memory: see vm_bare.c. */
struct vm_withheld {
    void *token;
    weir_lane lane;
    weir_tick tick;
};

/* Invariant: reserved bytes of the pool / granule = granules with a handle + spare_granules. Only the thread that grows
 * may read the spares, the places and the records of claimed granules. */
struct pool_vm {
    uint64_t granule; /* bytes */
    unsigned granule_shift;
    bool by_page; /* the device works page by page: larger handles save nothing (WEIR_DEVICE_PAGEWISE) */
    void (*walk_holes)(const void *state, uint64_t least, weir_range_visitor visit,
                       void *ctx); /* the strategy's, or NULL */
    void (*walk_free)(const void *state, uint64_t least, weir_range_visitor visit, void *ctx);
    struct vm_span *spans;   /* all spans of the pool, in the order of their reservation */
    struct vm_span *refused; /* reserved addresses that the strategy could not add; kept until the device takes them
                                back */
    struct vm_spare *spare;  /* handles that are mapped nowhere */
    size_t spares;
    size_t spare_room;
    uint64_t spare_granules; /* granules of handles that are mapped nowhere: spare, or in `place` to be mapped */
    uint64_t moving;         /* granules with memory that are claimed, to be unmapped */
    uint64_t bare;           /* granules without a handle whose addresses are taken */
    struct vm_withheld *withheld;
    size_t withheld_count;
    size_t withheld_room;
    size_t promised;        /* sleeping blocks, for each of which there is room in `withheld` */
    struct vm_place *place; /* the places of one step: holes to be filled, or idle handles to be unmapped */
    size_t places;
    size_t place_room;
    void **tokens; /* of one claim */
    size_t token_room;
    struct vm_scratch scratch;
    struct vm_counts counts;
};

/* --- records of granules: pool lock held --- */

static inline void *vm_apart(struct pool_vm *vm)
{
    return vm;
}

static inline struct vm_span *vm_span_of(const struct pool_vm *vm, uint64_t address)
{
    struct vm_span *span = vm->spans;
    while (span != NULL && address - span->address >= span->size) {
        span = span->next;
    }
    return span;
}

/* Returns NULL for a granule that has never had memory. */
static inline struct vm_granule *vm_granule_at(const struct pool_vm *vm, struct vm_span *span, uint64_t address)
{
    WEIR_ASSERT(address - span->address < span->size);
    const uint64_t number = (address - span->address) >> vm->granule_shift;
    return number < span->used ? &span->granules[number] : NULL;
}

/* --- vm_handle.c: pool lock held on entry and exit, released for the device calls; called by the thread that grows
 * --- */

/* Creates memory for all holes in [first, end) and maps it there, in handles of at most `most` granules. Uses spare
 * handles first, and destroys spare handles that do not fit, before it creates any. The memory is free memory of the
 * lane afterwards. Returns the device's first failure, or WEIR_ERR_NO_MEMORY: then *lacks_host_memory tells if host
 * memory is what lacks. What was done until then stays. */
weir_status weir__vm_fill(weir_pool *pool, uint64_t first, uint64_t end, uint64_t most, weir_lane lane,
                          bool *lacks_host_memory);
/* Puts memory at the bare granules in [first, end), in handles of at most `most` granules, as weir__vm_fill does. After
 * a failure all of them are bare again, except where the device refuses to unmap. */
weir_status weir__vm_cover(weir_pool *pool, uint64_t first, uint64_t end, uint64_t most, bool *lacks_host_memory);
/* Unmaps the handles that begin at the given addresses, all of which are taken. Spare afterwards. After a failure all
 * of them are mapped, except where the device refuses that: such a handle stays apart, with its contents. */
weir_status weir__vm_uncover(weir_pool *pool, const uint64_t *addresses, size_t count);
/* Maps the handle that is apart and has granule `address`. */
weir_status weir__vm_rejoin(weir_pool *pool, uint64_t address);
/* Unmaps wholly idle handles outside `window` (NULL: anywhere), until `wanted` granules are unmapped: those in the
 * smallest runs of free memory first. They are spare afterwards. Does nothing if fewer than `least` are idle. Returns
 * the number of granules unmapped. *status receives a failure: then some of the handles stay where they were. */
uint64_t weir__vm_unmap_idle(weir_pool *pool, const struct vm_window *window, uint64_t least, uint64_t wanted,
                             weir_status *status);
/* Destroys spare handles until at most `keep` reserved bytes remain. Stops if the device refuses. Returns the granules
 * destroyed. */
uint64_t weir__vm_drop_spares(weir_pool *pool, uint64_t keep, weir_status *status);

/* --- vm_span.c: pool lock held on entry and exit, released for the device calls; called by the thread that grows
 * --- */

/* Reserves another span of addresses, with room for the request. */
bool weir__vm_add_span(struct request *request);
/* Reserves a span of exactly `size` bytes, for a reserved block. To the strategy it is free memory of the open lane,
 * until the caller takes it, with the pool's lock still held. Returns WEIR_ERR_NO_MEMORY when out of host memory, or
 * the device's failure. */
weir_status weir__vm_add_reserved_span(weir_pool *pool, uint64_t size, struct vm_span **span);
/* Releases a span without memory, whose addresses are free memory of the open lane. */
void weir__vm_remove_span(weir_pool *pool, struct vm_span *span);
/* Releases the address reservations that the strategy had no host memory for. Stops if the device refuses. */
void weir__vm_release_refused(weir_pool *pool);
/* The pool is being destroyed: destroys all mapped handles and releases all addresses. No lock held. */
void weir__vm_return_spans(weir_pool *pool, weir_status *first);
void weir__vm_free_spans(struct pool_vm *vm);

#endif
