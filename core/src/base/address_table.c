/* core/src/base/address_table.c: see address_table.h. */
#include "base/address_table.h"

#include <stdlib.h>

enum { first_table_slots = 256 };

static uint64_t address_of(const void *entry)
{
    return *(const uint64_t *)entry;
}

static size_t home_of(const struct address_table *table, uint64_t address)
{
    return (size_t)(address * UINT64_C(0x9E3779B97F4A7C15) >> 32) & table->mask;
}

static void put(struct address_table *table, void *entry)
{
    size_t slot = home_of(table, address_of(entry));
    while (table->slots[slot] != NULL) {
        slot = (slot + 1) & table->mask;
    }
    table->slots[slot] = entry;
}

bool weir__table_reserve(struct address_table *table)
{
    size_t slots = table->slots == NULL ? 0 : table->mask + 1;
    if (table->count * 2 < slots) {
        return true;
    }
    size_t grown = slots == 0 ? first_table_slots : slots * 2;
    void **old = table->slots;
    void **fresh = calloc(grown, sizeof(void *));
    if (fresh == NULL) {
        return false;
    }
    table->slots = fresh;
    table->mask = grown - 1;
    for (size_t i = 0; i < slots; i++) {
        if (old[i] != NULL) {
            put(table, old[i]);
        }
    }
    free(old);
    return true;
}

void weir__table_put(struct address_table *table, void *entry)
{
    table->count++;
    put(table, entry);
}

/* Removes the entry without a tombstone: a later entry of the same run moves into the hole if that brings it nearer to
 * its home. */
void weir__table_remove(struct address_table *table, const void *entry)
{
    size_t mask = table->mask;
    size_t hole = home_of(table, address_of(entry));
    while (table->slots[hole] != entry) {
        hole = (hole + 1) & mask;
    }
    for (size_t slot = (hole + 1) & mask; table->slots[slot] != NULL; slot = (slot + 1) & mask) {
        size_t home = home_of(table, address_of(table->slots[slot]));
        if (((slot - home) & mask) >= ((slot - hole) & mask)) {
            table->slots[hole] = table->slots[slot];
            hole = slot;
        }
    }
    table->slots[hole] = NULL;
    table->count--;
}

void *weir__table_find(const struct address_table *table, uint64_t address)
{
    if (table->slots == NULL) {
        return NULL;
    }
    size_t slot = home_of(table, address);
    while (table->slots[slot] != NULL && address_of(table->slots[slot]) != address) {
        slot = (slot + 1) & table->mask;
    }
    return table->slots[slot];
}
