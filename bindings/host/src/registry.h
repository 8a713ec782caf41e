/* registry.h: from any address to the page run that it lies in, without a lock.
 *
 * Idea: a hash table from 2 MiB of addresses to a leaf with an entry for each 4 KiB page; neighbours hash to neighbours, so
 * that what the pool maps, which lies side by side, has no collisions. A table that grows is replaced by
 * a larger copy; tables, leaves and runs are never freed while the pool lives, so whoever looks while another changes
 * something reads the old or the new state and always valid memory. Cost: two dependent loads behind the table's
 * pointer; 8 bytes for each page. A page's entry holds the run and, in its low bits, where in a thread's cache its blocks go:
 * a free can put a block there before it has looked at the run.
 */
#ifndef WEIR_HOST_REGISTRY_H
#define WEIR_HOST_REGISTRY_H

#include "engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <weir/pool.h>

enum {
    WEIR__HOST_LEAF_SHIFT = 21,
    WEIR__HOST_PAGE_SHIFT = 12,
    WEIR__HOST_LEAF_PAGES = 1 << (WEIR__HOST_LEAF_SHIFT - WEIR__HOST_PAGE_SHIFT),
    WEIR__HOST_RUN_ALIGN = 256,
    WEIR__HOST_LARGE_TAG = 128,
    WEIR__HOST_MARK_SHIFT = 6,
    WEIR__HOST_LEAF_MARKS = 1 << (WEIR__HOST_LEAF_SHIFT - WEIR__HOST_MARK_SHIFT)
};

typedef struct weir__host_node weir__host_node;

typedef enum weir__host_run_state {
    WEIR__HOST_RUN_NONE,
    WEIR__HOST_RUN_LIVE,
    WEIR__HOST_RUN_CACHED, /* freed, in a thread's cache */
    WEIR__HOST_RUN_SLAB
} weir__host_run_state;

/* A piece of pinned memory. What a query reads is atomic: descriptions are used again, and who asks about an address that
 * is no longer anybody's may look at one that is being filled in. */
typedef struct weir__host_chunk {
    struct weir__host_chunk *next;
    uint64_t start;
    uint64_t size;
    weir__host_node *node;
    _Atomic uint32_t kind; /* weir_host_kind */
    atomic_bool is_verified;
    _Atomic uint64_t misplaced_bytes;
} weir__host_chunk;

/* One byte for each 64 bytes of a leaf's addresses: 1 where a small block begins that a caller has, else 0. A byte and not
 * a bit, because the owner of a block changes its mark by a plain store: an allocation sets it, the free clears it, and
 * caches of threads, blocks that wait for a stream and free slots of engines have 0. */
typedef struct weir__host_marks {
    _Atomic uint8_t live[WEIR__HOST_LEAF_MARKS];
} weir__host_marks;

/* A page run: one large block, or a slab of an engine. Atomic for the same reason as in a chunk. */
typedef struct weir__host_run {
    _Alignas(WEIR__HOST_RUN_ALIGN) struct weir__host_run *next; /* unused ones */
    _Atomic uint64_t start;
    _Atomic uint64_t size;
    _Atomic(weir__host_node *) node;
    _Atomic(weir__host_chunk *) chunk; /* that all of it lies in; NULL: the leaves of its pages know theirs */
    weir_pool *pages;                  /* the node's pool that it is a block of */
    weir_block *block;
    _Atomic(weir__host_slab *) slab; /* NULL: it is none */
    _Atomic uint32_t state;
} weir__host_run;

typedef struct weir__host_leaf {
    _Atomic uintptr_t pages[WEIR__HOST_LEAF_PAGES]; /* a run and a tag; 0: nobody's */
    _Atomic(weir__host_chunk *) chunk; /* of memory that the pool maps: such chunks consist of whole leaves */
    _Atomic(weir__host_marks *) marks; /* NULL: no slab has been here yet */
} weir__host_leaf;

typedef struct weir__host_entry {
    _Atomic uint64_t key; /* 0: empty */
    _Atomic(weir__host_leaf *) leaf;
} weir__host_entry;

typedef struct weir__host_table {
    struct weir__host_table *older;
    size_t mask;
    size_t count;
    weir__host_entry entries[];
} weir__host_table;

typedef struct weir__host_registry {
    _Atomic(weir__host_table *) table;
    pthread_mutex_t lock; /* of whoever changes it */
} weir__host_registry;

weir_status weir__host_registry_init(weir__host_registry *registry);
void weir__host_registry_fini(weir__host_registry *registry);
/* Makes the leaves of a range exist, so that set cannot fail. */
weir_status weir__host_registry_reserve(weir__host_registry *registry, uint64_t start, uint64_t size);
/* All pages of the range belong to `run` (NULL: to none). The leaves exist, here and below. `tag`: a slab's bin and one, or
 * WEIR__HOST_LARGE_TAG and a slot. */
void weir__host_registry_set(weir__host_registry *registry, uint64_t start, uint64_t size, weir__host_run *run,
                             uint32_t tag);
/* Makes the marks of a range exist, as a slab needs them. WEIR_ERR_NO_MEMORY. */
weir_status weir__host_registry_mark(weir__host_registry *registry, uint64_t start, uint64_t size);
void weir__host_registry_set_chunk(weir__host_registry *registry, uint64_t start, uint64_t size, weir__host_chunk *chunk);

static inline weir__host_leaf *weir__host_leaf_at(const weir__host_registry *registry, uint64_t address)
{
    const weir__host_table *table = atomic_load_explicit(&registry->table, memory_order_acquire);
    const uint64_t key = (address >> WEIR__HOST_LEAF_SHIFT) + 1;
    for (size_t i = key & table->mask;; i = (i + 1) & table->mask) {
        const uint64_t found = atomic_load_explicit(&table->entries[i].key, memory_order_acquire);
        if (found == key) {
            return atomic_load_explicit(&table->entries[i].leaf, memory_order_relaxed);
        }
        if (found == 0) {
            return NULL;
        }
    }
}

static inline uintptr_t weir__host_page_in(const weir__host_leaf *leaf, uint64_t address)
{
    return atomic_load_explicit(&leaf->pages[(address >> WEIR__HOST_PAGE_SHIFT) & (WEIR__HOST_LEAF_PAGES - 1)],
                                memory_order_acquire);
}

/* The mark of a multiple of 64 in a slab. Marks of neighbours that are 512 bytes apart lie on different cache lines, so that two
 * threads with batches of one slab do not write to the same line. */
static inline _Atomic uint8_t *weir__host_mark_in(const weir__host_leaf *leaf, uint64_t address)
{
    weir__host_marks *marks = atomic_load_explicit(&leaf->marks, memory_order_acquire);
    const uint64_t unit = address >> WEIR__HOST_MARK_SHIFT;
    return &marks->live[(unit ^ (unit & 070) << 3) & (WEIR__HOST_LEAF_MARKS - 1)];
}

/* True if a small block that a caller has begins at the address. */
static inline bool weir__host_is_live(const weir__host_registry *registry, uint64_t address)
{
    const weir__host_leaf *leaf = weir__host_leaf_at(registry, address);
    return leaf != NULL && atomic_load_explicit(&leaf->marks, memory_order_acquire) != NULL &&
           address % WEIR__HOST_ALIGNMENT == 0 &&
           atomic_load_explicit(weir__host_mark_in(leaf, address), memory_order_acquire) != 0;
}

/* The entry of a page; 0: nobody's. */
static inline uintptr_t weir__host_page_at(const weir__host_registry *registry, uint64_t address)
{
    weir__host_leaf *leaf = weir__host_leaf_at(registry, address);
    if (leaf == NULL) {
        return 0;
    }
    return weir__host_page_in(leaf, address);
}

static inline weir__host_run *weir__host_run_of(uintptr_t page)
{
    return (weir__host_run *)(page & ~(uintptr_t)(WEIR__HOST_RUN_ALIGN - 1));
}

static inline uint32_t weir__host_tag_of(uintptr_t page)
{
    return (uint32_t)(page & (WEIR__HOST_RUN_ALIGN - 1));
}

static inline weir__host_run *weir__host_run_at(const weir__host_registry *registry, uint64_t address)
{
    return weir__host_run_of(weir__host_page_at(registry, address));
}

#endif
