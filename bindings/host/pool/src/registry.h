/* registry.h: finds the page run around any address, without a lock.
 *
 * Idea: a hash table from 2 MiB of addresses to a leaf with an entry for each 4 KiB page. Neighbouring addresses hash
 * to neighbouring slots, so the chunks that the pool maps side by side cause no collisions. A full table is replaced by
 * a larger copy. Tables, leaves and runs are not freed while the pool lives, so a lookup during a change reads the old
 * or the new state and always valid memory. A page's entry holds the run and, in its low bits, the bin of a thread's
 * cache for the run's small blocks: a free can put a block there before it has read the run. Each page of a slab has
 * the entry. A large block has it in its first page and in the first page of each further leaf, so that neither an
 * alloc nor a free costs by the page; an address inside it is found from the nearest entry before the address in its
 * leaf.
 * Cost: two dependent loads after the load of the table's pointer, and at most 511 more for an address inside a large
 * block; 8 bytes for each page.
 */
#ifndef WEIR_HOST_REGISTRY_H
#define WEIR_HOST_REGISTRY_H

#include "engine.h"

#include "shared/assert.h"
#include "shared/round_up.h"

#include <pthread.h>
#include <stdatomic.h>
#include <weir/pool.h>

enum {
    WEIR__HOST_LEAF_SHIFT = 21,
    WEIR__HOST_PAGE_SHIFT = 12,
    WEIR__HOST_LEAF_PAGES = 1 << (WEIR__HOST_LEAF_SHIFT - WEIR__HOST_PAGE_SHIFT),
    WEIR__HOST_RUN_ALIGN = 128,
    WEIR__HOST_LARGE_TAG = WEIR__HOST_RUN_ALIGN - 1
};

typedef struct weir__host_node weir__host_node;

typedef enum weir__host_run_state {
    WEIR__HOST_RUN_NONE,
    WEIR__HOST_RUN_LIVE,
    WEIR__HOST_RUN_CACHED, /* freed, in a thread's cache */
    WEIR__HOST_RUN_SLAB
} weir__host_run_state;

/* A piece of pinned memory. The members that a query reads are atomic: descriptions are reused, and a query about a
 * stale address may read one while it is filled in. */
typedef struct weir__host_chunk {
    struct weir__host_chunk *next;
    uint64_t start;
    uint64_t size;
    weir__host_node *node;
    _Atomic uint32_t kind; /* weir_host_kind */
    atomic_bool is_verified;
    _Atomic uint64_t misplaced_bytes;
} weir__host_chunk;

/* A page run: one large block, or a slab of an engine. A query about a stale address may read a reused description, so
 * its members are atomic. */
typedef struct weir__host_run {
    _Alignas(WEIR__HOST_RUN_ALIGN) struct weir__host_run *next; /* the link of an unused run */
    _Atomic uint64_t start;
    _Atomic uint64_t size;
    _Atomic(weir__host_node *) node;
    _Atomic(weir__host_chunk *) chunk; /* the chunk that contains the whole run; NULL if the run's leaves name its
                                          chunks */
    weir_pool *pages;                  /* the node's pool that `block` belongs to */
    weir_block *block;
    struct weir__host_run *rest;     /* if the run has grown in place: list of its further blocks, which lie behind
                                        `block` */
    uint32_t parts;                  /* number of descriptions in the list `rest` */
    _Atomic(weir__host_slab *) slab; /* NULL: not a slab */
    _Atomic uint32_t state;
} weir__host_run;

typedef struct weir__host_leaf {
    _Atomic uintptr_t pages[WEIR__HOST_LEAF_PAGES]; /* a run and a tag; 0: no run */
    _Atomic(weir__host_chunk *) chunk; /* the chunk with the leaf's pages, if weir mapped the chunk: such a chunk
                                          consists of whole leaves */
} weir__host_leaf;

typedef struct weir__host_entry {
    _Atomic uint64_t key; /* 0: empty entry */
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
    pthread_mutex_t lock; /* serializes changes; lookups do not take it */
} weir__host_registry;

weir_status weir__host_registry_init(weir__host_registry *registry);
void weir__host_registry_fini(weir__host_registry *registry);
/* Creates the registry's leaves for an address range, so that entering its page runs or chunks cannot fail. */
weir_status weir__host_registry_reserve(weir__host_registry *registry, uint64_t start, uint64_t size);
/* Enters a page run into the registry. `tag`: a slab's bin plus one, or WEIR__HOST_LARGE_TAG for a large block, which
 * may be entered again as a slab. The functions from here on require leaves made by weir__host_registry_reserve. */
void weir__host_registry_enter(weir__host_registry *registry, weir__host_run *run, uint32_t tag);
/* Removes a page run from the registry. `tag` must be the tag that the run was entered with. */
void weir__host_registry_remove(weir__host_registry *registry, weir__host_run *run, uint32_t tag);
void weir__host_registry_set_chunk(weir__host_registry *registry, uint64_t start, uint64_t size,
                                   weir__host_chunk *chunk);

static inline weir__host_leaf *weir__host_leaf_at(const weir__host_registry *registry, uint64_t address)
{
    WEIR_ASSERT(atomic_load_explicit(&registry->table, memory_order_relaxed) != NULL);
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

/* Returns the registry entry of a page (a run and a tag in one word); 0: no run. */
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

/* Returns the run that begins in the address's page, or the slab that contains the address. Returns NULL if there is
 * neither. */
static inline weir__host_run *weir__host_run_at(const weir__host_registry *registry, uint64_t address)
{
    return weir__host_run_of(weir__host_page_at(registry, address));
}

/* Returns the page run that contains the address, or NULL. */
weir__host_run *weir__host_run_around(const weir__host_registry *registry, uint64_t address);

#endif
