/* core/src/memory/vm_internal.h: the records of virtual memory, shared by the files that keep them.
 *
 *     vm.c         the table of verbs: grows, gives back, and serves a request from memory that is mapped already
 *     vm_plan.c    which window a request gets, and where the granules for it come from
 *     vm_move.c    claims the granules of a move from the strategy, chooses their handles, and settles the move
 *     vm_map.c     the device calls of a move, and their reversal
 *     vm_granule.c which handle has memory for a granule; the check of the records
 *     vm_span.c    spans of addresses
 *     vm_window.c  arithmetic over a walk: windows and idle granules
 *
 * Only vm.c calls vm_map.c and vm_span.c. vm_plan.c calls vm_window.c, and vm_move.c calls vm_plan.c and vm_granule.c.
 */
#ifndef WEIR_CORE_VM_INTERNAL_H
#define WEIR_CORE_VM_INTERNAL_H

#include "memory/memory.h"
#include "vm_window.h"

/* One granule of a span. If `handle` is 0, the granule is a hole: addresses without memory. Otherwise it is number `at`
 * of the `of` granules that the handle has memory for. While `token` is set, the thread that grows has claimed the
 * granule, and only that thread may read the other fields. */
struct vm_granule {
    weir_vm_handle handle;
    void *token;
    uint32_t at;
    uint32_t of;
};

/* One reservation of addresses. The strategy's region is [address, address + size). The reserved addresses may be more,
 * so that granules larger than a page can be aligned. */
struct vm_span {
    struct vm_span *next;
    uint64_t address;
    uint64_t size;
    uint64_t reserved_address;
    uint64_t reserved_size;
    uint64_t used;                /* granules from this index on have never had memory */
    struct vm_granule granules[]; /* entries from `used` on are never written, so that their pages do not become
                                     resident */
};

/* A memory handle of the device that is mapped nowhere, and how many granules it has memory for. */
struct vm_memory {
    weir_vm_handle handle;
    uint64_t granules;
    bool wanted; /* true: a hole of the present move will use it */
};

/* One place in a move: adjacent granules with one handle. `handle` is the handle that is mapped there now, or 0. */
struct vm_step {
    struct vm_granule *granule; /* the first of `granules` */
    uint64_t address;
    uint64_t granules;
    weir_vm_handle handle;
    weir_lane lane; /* lane (stream number) that gets the memory after the move, if it is mapped then */
    bool create;    /* true, in `hole`: new memory is created */
    bool wanted;    /* true, in `victim`: a hole of the move will use the memory */
};

struct vm_counts {
    uint64_t creates;
    uint64_t destroys;
    uint64_t maps;
    uint64_t unmaps;
    uint64_t failures;
    uint64_t created; /* number of granules created; `destroyed` and `moved` are in granules too */
    uint64_t destroyed;
    uint64_t moved;
};

/* One move of memory: unmaps idle memory, and maps this and new memory into holes (addresses without memory). memory[0
 * .. in_hand) are the handles that are mapped nowhere. */
struct vm_move {
    struct vm_step *hole; /* places to be mapped */
    size_t holes;
    struct vm_step *victim; /* places of idle memory to be unmapped for the holes */
    size_t victims;
    struct vm_memory *memory;
    size_t in_hand;
    uint64_t least; /* a hole of at least this many granules gets one handle, a smaller one a handle per granule */
    uint64_t largest;
    uint64_t creates;   /* granules to be created */
    uint64_t destroys;  /* granules to destroy first, so that the reserved bytes stay within the plan */
    uint64_t made_room; /* granules destroyed so far to make room */
    struct vm_counts counts;
};

/* Invariant: reserved bytes of the pool / granule = granules with a handle and without a token + moving +
 * spare_granules. Only the thread that grows may read scratch, move, and the handles of claimed granules. */
struct pool_vm {
    uint64_t granule;     /* bytes */
    uint64_t largest;     /* the largest handle that the config allows, in granules */
    uint64_t largest_now; /* the size limit of a new handle at present, in granules */
    uint64_t churn;       /* granules that have moved since `largest_now` last changed */
    unsigned granule_shift;
    void (*walk_holes)(const void *state, uint64_t least, weir_range_visitor visit,
                       void *ctx); /* the strategy's, or NULL */
    void (*walk_free)(const void *state, uint64_t least, weir_range_visitor visit, void *ctx);
    struct vm_span *spans;   /* all spans of the pool, in the order of their reservation */
    struct vm_span *refused; /* reserved addresses that the strategy could not add; kept until the device takes them
                                back */
    size_t spares;           /* number of spare handles: move.memory[0 .. spares) while no move is in progress */
    uint64_t spare_granules; /* granules of the spare handles */
    uint64_t moving;         /* granules with memory that are claimed for a move in progress */
    size_t large;            /* number of mapped handles of several granules, without the handles claimed for a move */
    void **tokens;           /* scratch for one claim */
    size_t hole_capacity;
    size_t victim_capacity;
    size_t token_capacity;
    size_t memory_capacity;
    struct vm_move move;
    struct vm_scratch scratch;
    struct vm_counts counts;
};

/* --- records of granules: pool lock held --- */

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

static inline struct vm_granule *vm_use_granule(const struct pool_vm *vm, struct vm_span *span, uint64_t address)
{
    WEIR_ASSERT(address - span->address < span->size);
    const uint64_t number = (address - span->address) >> vm->granule_shift;
    for (; span->used <= number; span->used++) {
        span->granules[span->used] = (struct vm_granule){0};
    }
    return &span->granules[number];
}

/* --- vm_granule.c --- */

/* Implements struct vm_view.find_handle. The range lies in one span. */
bool weir__vm_find_handle(const void *vm, uint64_t from, uint64_t to, uint64_t *start, uint64_t *end);
bool weir__vm_fits(const weir_pool *pool, uint64_t address, uint64_t size); /* see struct memory_ops */

/* --- vm_map.c: no lock held --- */

/* Makes the device calls of a move: creates new memory, unmaps idle memory elsewhere, and maps both into the holes
 * (addresses without memory). On failure nothing has changed, except memory that had to be destroyed first. */
weir_status weir__vm_move_memory(weir_pool *pool, struct vm_move *move);
/* Unmaps the idle memory in move->victim and destroys handles that are mapped nowhere. Stops if the device refuses. */
weir_status weir__vm_return_memory(weir_pool *pool, struct vm_move *move);

/* --- vm_move.c: pool lock held; called by the thread that grows --- */

/* Makes room in the arrays for a move that fills `holes` granules and unmaps `victims` granules, including room for the
 * handles that become spare if the move fails. Returns false when out of host memory. */
bool weir__vm_prepare(struct pool_vm *vm, uint64_t holes, uint64_t victims);
/* Takes the window's holes (addresses without memory) from the strategy and chooses the handles that fill each hole. */
weir_status weir__vm_claim_holes(weir_pool *pool, const struct vm_window *window, weir_lane lane);
/* Claims `granules` idle granules found by the last search, from the cheapest runs, in whole handles. The rest of a
 * range that a claim has cut may merge with a free range that queued work still uses, so that a later run is no longer
 * idle. Returns WEIR_ERR_BUSY if too few granules are left for this reason; a new search may find more. */
weir_status weir__vm_claim_idle(weir_pool *pool, uint64_t granules);
/* Ends a move: gives every claimed granule back to the strategy, as memory or as a hole. The tick is 0, because no
 * queued work uses the granules. */
void weir__vm_settle(weir_pool *pool);

/* --- vm_span.c: pool lock held on entry and exit, released for the device calls; called by the thread that grows
 * --- */

/* Reserves another span of addresses, with room for the request. */
bool weir__vm_add_span(struct request *request);
/* Releases the address reservations that the strategy had no host memory for. Stops if the device refuses. */
void weir__vm_release_refused(weir_pool *pool);
/* The pool is being destroyed: destroys all mapped handles and releases all addresses. No lock held. */
void weir__vm_return_spans(weir_pool *pool, weir_status *first);
void weir__vm_free_spans(struct pool_vm *vm);

/* --- vm_plan.c: pool lock held; called by the thread that grows --- */

/* Where the memory for a request comes from: new granules, and idle granules that are moved into the window. */
struct vm_plan {
    struct vm_window window;
    uint64_t creates;
    uint64_t victims; /* idle granules to move; if not 0, scratch->runs holds the runs from which to take them */
    bool cramped;     /* large handles prevent placing the request on as few free granules as its size needs */
};

/* Returns the fewest granules that get one common handle; fewer granules get a handle each. */
uint64_t weir__vm_least_of_handle(const weir_pool *pool);
/* Finds the best window (place for the request) by the measure `kind`. Sets request->broken when out of host memory. */
weir_status weir__vm_find_best(struct request *request, enum window_kind kind, struct vm_window *window);
/* Finds granules on which the host has seen all work complete; see weir__vm_find_idle. */
weir_status weir__vm_find_victims(weir_pool *pool, const struct vm_window *window, uint64_t wanted, uint64_t *granules);
/* Plans the memory for plan->window, which needs the fewest new granules. If too few granules are idle for it, plans
 * the frugal window (vm_window.h) if that creates less. Returns false if the limit or the device forbids the plan. */
bool weir__vm_make_plan(struct request *request, uint64_t live, struct vm_plan *plan);

#endif
