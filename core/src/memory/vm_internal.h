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

#include "order/order.h"
#include "vm_window.h"

/* One granule of a span. If `handle` is 0, the granule is a hole, which the strategy has in its unmapped lane.
 * Otherwise the granule is number `at` of the `of` granules that the handle has memory for. While `token` is set, the
 * thread that grows has claimed the granule, and only that thread may read the other fields. */
struct vm_granule {
    weir_vm_handle handle;
    void *token;
    uint32_t at;
    uint32_t of;
};

/* [address, address + size) is the strategy's region. The reserved addresses may be larger, so that granules larger
 * than a page can be aligned. */
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

/* A handle and how many granules it has memory for. */
struct vm_memory {
    weir_vm_handle handle;
    uint64_t granules;
    bool wanted; /* true: it will be mapped in a hole */
};

/* The granules of one handle in a move. While the move proceeds, `handle` is the handle that is mapped there now. */
struct vm_step {
    struct vm_granule *granule; /* the first of `granules` */
    uint64_t address;
    uint64_t granules;
    weir_vm_handle handle;
    weir_lane lane; /* lane that the memory enters if it is mapped when the move is settled */
    bool create;    /* a hole for which memory is created */
    bool wanted;    /* a victim that gives its memory to a hole */
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

/* A move of memory. memory[0 .. in_hand) are the handles that are not mapped now. */
struct vm_move {
    struct vm_step *hole; /* places to be mapped */
    size_t holes;
    struct vm_step *victim; /* places to be unmapped for them */
    size_t victims;
    struct vm_memory *memory;
    size_t in_hand;
    uint64_t least; /* the fewest granules for which one new handle is made */
    uint64_t largest;
    uint64_t creates;   /* granules to be created */
    uint64_t destroys;  /* granules to be destroyed before any is created, so that no more is reserved than planned */
    uint64_t made_room; /* granules destroyed before any was created */
    struct vm_counts counts;
};

/* Invariant: reserved bytes of the pool / granule = granules with a handle and without a token + moving +
 * spare_granules. Only the thread that grows may read scratch, move, and the handles of claimed granules. */
struct pool_vm {
    uint64_t granule;     /* bytes */
    uint64_t largest;     /* granules of the largest handle */
    uint64_t largest_now; /* granules of the largest new handle now */
    uint64_t churn;       /* granules that have moved since `largest_now` last changed */
    unsigned granule_shift;
    void (*walk_holes)(const void *state, uint64_t least, weir_range_visitor visit,
                       void *ctx); /* the strategy's, or NULL */
    void (*walk_free)(const void *state, uint64_t least, weir_range_visitor visit, void *ctx);
    struct vm_span *spans;   /* in the order of their reservation */
    struct vm_span *refused; /* spans that the strategy had no host memory for; kept until the device takes them back */
    size_t spares;           /* while no thread moves memory: number of spare handles, the first of move.memory */
    uint64_t spare_granules; /* granules of the spare handles */
    uint64_t moving;         /* claimed granules that had memory */
    size_t large;            /* mapped handles of several granules that are not claimed */
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

/* The find_handle of struct vm_view. The range lies in one span. */
bool weir__vm_find_handle(const void *vm, uint64_t from, uint64_t to, uint64_t *start, uint64_t *end);
bool weir__vm_fits(const weir_pool *pool, uint64_t address, uint64_t size); /* see struct memory_ops */

/* --- vm_map.c: no lock held --- */

/* Creates the new memory, unmaps the victims and maps the memory of both into the holes. On failure nothing has
 * changed, except memory that had to be destroyed first. */
weir_status weir__vm_move_memory(weir_pool *pool, struct vm_move *move);
/* Unmaps the victims for good and destroys handles that are not mapped. Stops if the device refuses. */
weir_status weir__vm_return_memory(weir_pool *pool, struct vm_move *move);

/* --- vm_move.c: pool lock held; called by the thread that grows --- */

/* Makes room in the arrays for a move of that many granules, including room for the handles that become spare if the
 * move fails. Returns false without host memory. */
bool weir__vm_prepare(struct pool_vm *vm, uint64_t holes, uint64_t victims);
/* Claims the holes of a window for the lane, and chooses the handles that fill each hole. */
weir_status weir__vm_claim_holes(weir_pool *pool, const struct vm_window *window, weir_lane lane);
/* Claims `granules` idle granules of the last search, from the cheapest runs, in whole handles. A claim that cuts a
 * range may let the rest of the range join a neighbour that is not idle. If that neighbour lies in the next run, that
 * run is no longer idle either. Returns WEIR_ERR_BUSY if this leaves too few granules; a new search finds other
 * granules. */
weir_status weir__vm_claim_idle(weir_pool *pool, uint64_t granules);
/* Returns every claimed granule to the strategy as memory or as a hole, with tick 0, because no work is pending on the
 * granules. */
void weir__vm_settle(weir_pool *pool);

/* --- vm_span.c: pool lock held on entry and exit, released for the device calls; called by the thread that grows
 * --- */

/* Reserves a span of addresses that has a window for the request. */
bool weir__vm_add_span(struct request *request);
/* Releases the reservations that the strategy had no host memory for. Stops if the device refuses. */
void weir__vm_release_refused(weir_pool *pool);
/* The pool is being destroyed: destroys all mapped handles and releases all addresses. No lock held. */
void weir__vm_return_spans(weir_pool *pool, weir_status *first);
void weir__vm_free_spans(struct pool_vm *vm);

/* --- vm_plan.c: pool lock held; called by the thread that grows --- */

/* How a window gets its granules. */
struct vm_plan {
    struct vm_window window;
    uint64_t creates;
    uint64_t victims; /* idle granules to move; if not 0, scratch->runs holds the runs from which to take them */
    bool cramped;     /* because of large handles, no window has as few granules of its own as a window that begins
                         at a granule would have */
};

/* Returns the fewest granules for which one handle is made. */
uint64_t weir__vm_least_of_handle(const weir_pool *pool);
/* Finds the best window of the kind. Sets request->broken without host memory. */
weir_status weir__vm_find_best(struct request *request, enum window_kind kind, struct vm_window *window);
/* Finds granules that are idle because the host has seen the work on them complete; see weir__vm_find_idle. */
weir_status weir__vm_find_victims(weir_pool *pool, const struct vm_window *window, uint64_t wanted, uint64_t *granules);
/* Plans the best window. If idle granules are too few for that window, plans the frugal window if that creates less.
 * Returns false if the limit or the device forbids the plan. */
bool weir__vm_make_plan(struct request *request, uint64_t live, struct vm_plan *plan);

#endif
