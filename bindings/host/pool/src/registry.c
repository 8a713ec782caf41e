/* registry.c: see registry.h. */
#include "registry.h"

#include <stdlib.h>

enum { FIRST_SLOTS = 64 };

static weir__host_table *table_new(size_t slots)
{
    WEIR_ASSERT(is_power_of_two(slots));
    weir__host_table *table = calloc(1, sizeof(*table) + slots * sizeof(weir__host_entry));
    if (table != NULL) {
        table->mask = slots - 1;
    }
    return table;
}

weir_status weir__host_registry_init(weir__host_registry *registry)
{
    weir__host_table *table = table_new(FIRST_SLOTS);
    if (table == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    atomic_init(&registry->table, table);
    (void)pthread_mutex_init(&registry->lock, NULL);
    return WEIR_OK;
}

void weir__host_registry_fini(weir__host_registry *registry)
{
    weir__host_table *table = atomic_load(&registry->table);
    for (size_t i = 0; i <= table->mask; i++) { /* the newest table refers to all leaves */
        free(atomic_load(&table->entries[i].leaf));
    }
    while (table != NULL) {
        weir__host_table *older = table->older;
        free(table);
        table = older;
    }
    (void)pthread_mutex_destroy(&registry->lock);
}

/* Adds a leaf to a table that has room. Requires the lock, unless no reader knows the table yet. */
static void put(weir__host_table *table, uint64_t key, weir__host_leaf *leaf)
{
    WEIR_ASSERT(table->count <= table->mask && key != 0 && leaf != NULL);
    size_t i = key & table->mask;
    while (atomic_load_explicit(&table->entries[i].key, memory_order_relaxed) != 0) {
        i = (i + 1) & table->mask;
    }
    atomic_store_explicit(&table->entries[i].leaf, leaf, memory_order_relaxed);
    atomic_store_explicit(&table->entries[i].key, key, memory_order_release);
    table->count++;
}

/* Returns a table with room for one more entry: the current table, or a larger copy in its place. Returns NULL if there
 * is no memory. */
static weir__host_table *roomy(weir__host_registry *registry)
{
    WEIR_ASSERT_HELD(&registry->lock);
    weir__host_table *table = atomic_load_explicit(&registry->table, memory_order_relaxed);
    if (table->count < (table->mask + 1) / 2) {
        return table;
    }
    weir__host_table *larger = table_new(2 * (table->mask + 1));
    if (larger == NULL) {
        return NULL;
    }
    for (size_t i = 0; i <= table->mask; i++) {
        const uint64_t key = atomic_load_explicit(&table->entries[i].key, memory_order_relaxed);
        if (key != 0) {
            put(larger, key, atomic_load_explicit(&table->entries[i].leaf, memory_order_relaxed));
        }
    }
    larger->older = table;
    atomic_store_explicit(&registry->table, larger, memory_order_release);
    return larger;
}

weir_status weir__host_registry_reserve(weir__host_registry *registry, uint64_t start, uint64_t size)
{
    WEIR_ASSERT(size != 0);
    weir_status status = WEIR_OK;
    (void)pthread_mutex_lock(&registry->lock);
    for (uint64_t i = start >> WEIR__HOST_LEAF_SHIFT; i <= (start + size - 1) >> WEIR__HOST_LEAF_SHIFT; i++) {
        if (weir__host_leaf_at(registry, i << WEIR__HOST_LEAF_SHIFT) != NULL) {
            continue;
        }
        weir__host_table *table = roomy(registry);
        weir__host_leaf *leaf = table != NULL ? calloc(1, sizeof(*leaf)) : NULL;
        if (leaf == NULL) {
            status = WEIR_ERR_NO_MEMORY;
            break;
        }
        put(table, i + 1, leaf);
    }
    (void)pthread_mutex_unlock(&registry->lock);
    return status;
}

static void enter_pages(weir__host_registry *registry, const weir__host_run *run, uint32_t tag, uintptr_t page_entry)
{
    const uint64_t start = atomic_load_explicit(&run->start, memory_order_relaxed);
    const uint64_t end = start + atomic_load_explicit(&run->size, memory_order_relaxed);
    const uint64_t step = UINT64_C(1) << (tag < WEIR__HOST_LARGE_TAG ? WEIR__HOST_PAGE_SHIFT : WEIR__HOST_LEAF_SHIFT);
    WEIR_ASSERT(start % WEIR__HOST_PAGE == 0 && start < end && end % WEIR__HOST_PAGE == 0);
    WEIR_ASSERT(tag != 0 && tag <= WEIR__HOST_LARGE_TAG);
    for (uint64_t at = start; at < end; at = (at & ~(step - 1)) + step) {
        weir__host_leaf *leaf = weir__host_leaf_at(registry, at);
        WEIR_ASSERT(leaf != NULL);
        const size_t page = (at >> WEIR__HOST_PAGE_SHIFT) & (WEIR__HOST_LEAF_PAGES - 1);
        atomic_store_explicit(&leaf->pages[page], page_entry, memory_order_release);
    }
}

void weir__host_registry_enter(weir__host_registry *registry, weir__host_run *run, uint32_t tag)
{
    enter_pages(registry, run, tag, (uintptr_t)run | tag);
}

void weir__host_registry_remove(weir__host_registry *registry, weir__host_run *run, uint32_t tag)
{
    enter_pages(registry, run, tag, 0);
}

weir__host_run *weir__host_run_around(const weir__host_registry *registry, uint64_t address)
{
    const weir__host_leaf *leaf = weir__host_leaf_at(registry, address);
    size_t page = (address >> WEIR__HOST_PAGE_SHIFT) & (WEIR__HOST_LEAF_PAGES - 1);
    if (leaf == NULL) {
        return NULL;
    }
    uintptr_t found = 0;
    do {
        found = atomic_load_explicit(&leaf->pages[page], memory_order_acquire);
    } while (found == 0 && page-- != 0);
    weir__host_run *run = weir__host_run_of(found);
    if (run == NULL) {
        return NULL;
    }
    const uint64_t start = atomic_load_explicit(&run->start, memory_order_relaxed);
    return address - start < atomic_load_explicit(&run->size, memory_order_relaxed) ? run : NULL;
}

void weir__host_registry_set_chunk(weir__host_registry *registry, uint64_t start, uint64_t size,
                                   weir__host_chunk *chunk)
{
    WEIR_ASSERT(size != 0 && chunk != NULL);
    const uint64_t step = UINT64_C(1) << WEIR__HOST_LEAF_SHIFT;
    for (uint64_t at = start; at < start + size; at = (at & ~(step - 1)) + step) {
        atomic_store_explicit(&weir__host_leaf_at(registry, at)->chunk, chunk, memory_order_release);
    }
}
