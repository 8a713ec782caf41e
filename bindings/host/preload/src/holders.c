/* holders.c: which code holds the memory, from a sample of the blocks.
 *
 * Idea: each block of HOLDERS_STEP bytes and more is noted. Of smaller blocks a thread notes one each time that it has
 * asked for a random number of bytes, between 0 and two steps; that block stands for a step and half of its own size,
 * which is the mean of the bytes between two notes. So the sum of the weights of a site is right on average, and its
 * error shrinks with the number of notes: a site that holds 64 MiB in small blocks has about a thousand.
 * A free looks at a filter first: a counter for the hash of its address, which is 0 for nearly all blocks.
 * The bytes of each site at the peak are copied when the sum of all has grown by a sixteenth since the last copy.
 * Cost: a subtraction for each block, a load for each free; a lock and a few table accesses for each noted block.
 */
#include "preload.h"

#include "shared/assert.h"
#include "shared/number_map.h"

#include <pthread.h>
#include <string.h>

enum { MOST_SITES = 1 << 14, LEAST_GROWTH = 256 << 10 };

bool holders_are_noted;
_Thread_local int64_t holders_left;
_Atomic uint8_t holders_filter[1 << HOLDERS_FILTER_BITS];

/* Maps have the numbers of entries, plus 1: their value 0 means none. */
static struct {
    pthread_mutex_t lock;
    weir__number_map blocks; /* address -> number of its note */
    struct holders_note *notes;
    size_t note_room;
    size_t unused;              /* the first unused note, plus 1; its weight is the next one */
    weir__number_map by_caller; /* caller -> number of its site */
    struct holders_site *sites;
    size_t site_count;
    uint64_t live_bytes;
    uint64_t copied_bytes; /* live_bytes when peak_bytes was copied */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

void holders_restart(void)
{
    /* The parent's tables stay: another thread of the parent may have been changing them at the fork. */
    memset(&all, 0, sizeof(all));
    (void)pthread_mutex_init(&all.lock, NULL);
    for (size_t i = 0; i < sizeof(holders_filter); i++) {
        atomic_store_explicit(&holders_filter[i], 0, memory_order_relaxed);
    }
}

/* --- tables, under the lock --- */

/* Returns the site of the code; NULL if there is no memory or there are too many. */
static struct holders_site *site_locked(uintptr_t caller)
{
    WEIR_ASSERT_HELD(&all.lock);
    const uint64_t number = weir__number_map_get(&all.by_caller, caller);
    WEIR_ASSERT(number <= all.site_count);
    if (number != 0) {
        return &all.sites[number - 1];
    }
    if (all.sites == NULL) {
        all.sites = malloc(MOST_SITES * sizeof(*all.sites));
    }
    if (all.sites == NULL || all.site_count == MOST_SITES ||
        !weir__number_map_put(&all.by_caller, caller, all.site_count + 1)) {
        return NULL;
    }
    WEIR_ASSERT(all.site_count < MOST_SITES);
    all.sites[all.site_count] = (struct holders_site){.caller = caller};
    return &all.sites[all.site_count++];
}

/* Makes unused notes, in one list. */
static bool grow_locked(void)
{
    WEIR_ASSERT_HELD(&all.lock);
    WEIR_ASSERT(all.unused == 0);
    const size_t room = all.note_room != 0 ? 2 * all.note_room : 256;
    struct holders_note *notes = realloc(all.notes, room * sizeof(*notes));
    if (notes == NULL) {
        return false;
    }
    for (size_t i = all.note_room; i < room; i++) {
        notes[i] = (struct holders_note){.weight = i + 1 < room ? i + 2 : 0};
    }
    all.unused = all.note_room + 1;
    all.notes = notes;
    all.note_room = room;
    return true;
}

static void note_peak_locked(uint64_t growth)
{
    WEIR_ASSERT_HELD(&all.lock);
    if (all.live_bytes > all.copied_bytes + growth) {
        all.copied_bytes = all.live_bytes;
        for (size_t i = 0; i < all.site_count; i++) {
            all.sites[i].peak_bytes = all.sites[i].live_bytes;
        }
    }
}

static void take_locked(const void *block, struct holders_note *note)
{
    WEIR_ASSERT_HELD(&all.lock);
    const uint64_t number = weir__number_map_take(&all.blocks, (uintptr_t)block);
    note->weight = 0;
    if (number == 0) {
        return;
    }
    WEIR_ASSERT(number <= all.note_room);
    *note = all.notes[number - 1];
    WEIR_ASSERT(note->weight != 0 && note->weight <= all.live_bytes);
    all.notes[number - 1].weight = all.unused;
    all.unused = number;
    site_locked(note->caller)->live_bytes -= note->weight;
    all.live_bytes -= note->weight;
    _Atomic uint8_t *slot = &holders_filter[holders_slot(block)];
    const uint8_t count = atomic_load_explicit(slot, memory_order_relaxed);
    if (count != UINT8_MAX) { /* a counter at its end stays there */
        atomic_store_explicit(slot, (uint8_t)(count - 1), memory_order_relaxed);
    }
}

static void put_locked(const void *block, const struct holders_note *note)
{
    WEIR_ASSERT_HELD(&all.lock);
    struct holders_note older;
    WEIR_ASSERT(block != NULL && note->weight != 0);
    take_locked(block, &older); /* a block that the C library's functions have taken unseen */
    struct holders_site *site = site_locked(note->caller);
    if (site == NULL || (all.unused == 0 && !grow_locked()) ||
        !weir__number_map_put(&all.blocks, (uintptr_t)block, all.unused)) {
        return;
    }
    WEIR_ASSERT(all.unused != 0 && all.unused <= all.note_room);
    struct holders_note *own = &all.notes[all.unused - 1];
    all.unused = (size_t)own->weight;
    *own = *note;
    site->live_bytes += note->weight;
    all.live_bytes += note->weight;
    _Atomic uint8_t *slot = &holders_filter[holders_slot(block)];
    const uint8_t count = atomic_load_explicit(slot, memory_order_relaxed);
    atomic_store_explicit(slot, (uint8_t)(count + (count != UINT8_MAX)), memory_order_relaxed);
    note_peak_locked(all.copied_bytes / 16 + LEAST_GROWTH);
}

/* --- notes --- */

/* Returns a random number of bytes, a step on average. */
static int64_t next_gap(void)
{
    static _Thread_local uint64_t state;
    state = state != 0 ? state : (uint64_t)(uintptr_t)&state | 1;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int64_t)(state % (2 * HOLDERS_STEP));
}

void holders_note_slow(const void *block, size_t size, const void *caller)
{
    static _Thread_local bool has_gap;
    WEIR_ASSERT(block != NULL);
    const bool is_large = size >= HOLDERS_STEP;
    if (!is_large && !has_gap) { /* the thread's first small block */
        has_gap = true;
        holders_left += next_gap();
        if (holders_left >= 0) {
            return;
        }
    }
    const struct holders_note note = {.caller = (uintptr_t)caller, .weight = is_large ? size : HOLDERS_STEP + size / 2};
    WEIR_ASSERT(note.weight >= size);
    const bool was_outside = preload_enter();
    (void)pthread_mutex_lock(&all.lock);
    put_locked(block, &note);
    (void)pthread_mutex_unlock(&all.lock);
    if (was_outside) {
        preload_leave();
    }
    holders_left = is_large ? holders_left : next_gap();
}

bool holders_forget_slow(const void *block, struct holders_note *note)
{
    (void)pthread_mutex_lock(&all.lock);
    take_locked(block, note);
    (void)pthread_mutex_unlock(&all.lock);
    return note->weight != 0;
}

void holders_restore(const void *block, const struct holders_note *note)
{
    (void)pthread_mutex_lock(&all.lock);
    put_locked(block, note);
    (void)pthread_mutex_unlock(&all.lock);
}

size_t holders_copy(struct holders_site **sites)
{
    size_t count = 0;
    *sites = NULL;
    (void)pthread_mutex_lock(&all.lock);
    note_peak_locked(0);
    *sites = all.site_count != 0 ? malloc(all.site_count * sizeof(**sites)) : NULL;
    if (*sites != NULL) {
        count = all.site_count;
        memcpy(*sites, all.sites, count * sizeof(**sites));
    }
    (void)pthread_mutex_unlock(&all.lock);
    return count;
}
