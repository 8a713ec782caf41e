/* core/src/base/address_table.h: a hash table of entries by their first member, a uint64_t address.
 *
 * Open addressing, at most half full, no tombstones. Not thread-safe: the owner locks. The caller owns the entries and
 * frees `slots`.
 */
#ifndef WEIR_CORE_ADDRESS_TABLE_H
#define WEIR_CORE_ADDRESS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: an empty table. */
struct address_table {
    void **slots;
    size_t mask;
    size_t count;
};

/* Makes room for one more entry. Returns false without host memory. */
bool weir__table_reserve(struct address_table *table);
void weir__table_put(struct address_table *table, void *entry);
void weir__table_remove(struct address_table *table, const void *entry);
/* Returns NULL if there is no entry with that address. */
void *weir__table_find(const struct address_table *table, uint64_t address);

#endif
