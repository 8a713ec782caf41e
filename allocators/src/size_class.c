/* allocators/src/size_class.c: the strategy size_class, slabs of equal slots on top of ranges.
 *
 * Idea: a request takes a slot of its size class. A slab is a run of up to 64 slots of one class. It is cut out of the
 * free ranges (ranges.h), and becomes one range again when all its slots are free in one lane. Slots never merge, so a
 * freed slot serves the next request of its class even between taken neighbours: equal requests that come and go
 * in any order leave no gaps between them. Requests without a slab get a range of their own, as in `caching`: requests
 * above the largest slot, alignments that a class does not have, and requests served from holes below two slots.
 *
 * Regions for requests of every size (virtual memory) have no kinds: there slabs and small requests are cut off the
 * high end of a range (high_end_bytes), and a claim takes free slots out of any slab.
 *
 * Classes: every multiple of the granule (512 bytes) up to 16, then eight per doubling:
 *
 *     granules   1 2 3 .. 16 | 18 20 22 .. 32 | 36 40 44 .. 64 | 72 80 .. up to 1/8 of a slab region
 *
 * Guarantee: gather as a last resort refuses only if no run of usable ranges holds the request, including slots of
 * other classes taken out of their slabs. alloc refuses if the lane has no slot of the class, no wholly free slab to
 * dissolve and no range that holds the request: free slots of another class stay in their slabs until the last resort.
 * (For a tick limit or an alignment alloc looks at 64 slots of its class at most; gather looks at all.)
 *
 * Waste inside a block: below one granule up to 16 granules. Above, the waste is less than 1/8 of the request, rounded
 * to granules, and less than 1/9 of the slot. Proof: classes between 8q and 16q granules are q apart; a request above
 * (8 + j)q, j >= 0, gets (9 + j)q and leaves at most q - 1 of it free: (q - 1) / (8q + 1) < 1/8 of the request and
 * (q - 1) / 9q < 1/9 of the slot. (Four per doubling would leave up to 1/5.) Above the largest slot, and in a hole too
 * small for a slab, waste is below one granule.
 * Waste between blocks: the free slots of slabs in use. A class that only grows has at most one slab with free slots
 * per lane, so less than the 64 KiB of a slab, or less than 8 slots if that is more. A slab has no rest: it ends where
 * its last slot ends.
 *
 * Slots and slabs: `own` of a slot's record holds the number of its slab and its index there; `own` belongs to the
 * strategy while the slot is taken too. Slab numbers have 24 bits, and a table leads from the number to the slab. If
 * all numbers are in use, requests take ranges.
 *
 * Ticks: every slot has its own lane and tick, in its record. The free slots of one slab in one lane are a *share*, a
 * bitmap; a slab has one share for each lane that holds free slots of it. So a slot that was freed into a lane serves
 * that lane at once, whichever lane the slab was made for, and promote moves slot by slot. When a slab is dissolved its
 * slots merge, and the latest tick survives.
 *
 * Cost: alloc and free are constant: a bit of the lane's first share, or a search for the slab's share in the lane, at
 * most 64 long and 1 long if one lane uses the slab. Making and dissolving a slab cost a constant per slot. One empty
 * slab per class is kept, so that a class that grows and shrinks across the border of a slab does neither each time.
 * promote costs a constant per free slot of the lane. gather is linear; the pool calls it only where the alternative is
 * a device call. Host memory: 72 bytes per slot, 80 per slab, 48 per slab and lane (but no more than per slot), 2 KiB
 * per lane in addition to that of `caching`.
 *
 * Counters: taken_bytes of stats minus requested_bytes of the pool is the waste inside blocks; free_bytes minus
 * largest_free_bytes is the memory between blocks.
 */
#include <weir/size_class.h>

#include <stdlib.h>

#include "ranges.h"
#include "tuning.h"

enum {
    exact_classes = 16, /* classes of 1 .. 16 granules */
    classes_per_doubling = 8,
    most_classes = 128, /* classes up to 2^18 granules */
    most_slots = 64,    /* the most slots of a slab: each has a bit in struct share */
    shares_per_chunk = 128,
    slot_bits = 6, /* a record's `own` holds the index of the slot in its slab in this number of bits from
                      RANGE_OWN_SHIFT on, and the number of the slab above them */
    slab_bits = 24,
    first_slab_numbers = 64,
};

_Static_assert(RANGE_OWN_SHIFT + slot_bits + slab_bits == 31, "the highest bit of own is WEIR_RECORD_ROUTE");

/* A share: the free slots of one slab in one lane, a bit of `mask` for each; never empty. It is in the list of its lane
 * and class (lanes[lane]->of[class]) and in slab->shares. */
struct share {
    struct slab *slab;
    struct share *prev;
    struct share *next;
    struct share *sibling;
    uint64_t mask;
    weir_lane lane;
};

/* A slab starts with `made` adjacent slots; gather may take slots out. Invariants: members = number of slots[i] that
 * are not NULL; free_slots = number of bits set in its shares; shares_held = length of `shares` and `spare` >=
 * min(made, lanes), so free never needs a new share. */
struct slab {
    struct slab *prev;
    struct slab *next;
    struct slot_class *class;
    struct share *shares;
    struct share *spare;
    size_t shares_held;
    uint32_t number; /* index of the slab in slab_table; never 0 */
    unsigned made;
    unsigned members;
    unsigned free_slots;
    struct range *slots[];
};

struct slot_class {
    uint64_t bytes;
    unsigned number;
    unsigned slots;    /* the slots of a slab of this class; fewer if it is cut out of a small range */
    struct slab *kept; /* an empty slab (all slots free in one lane) that is not merged back, or NULL */
};

struct share_list {
    struct share *first;
    struct share *last;
};

/* The free slots of one lane by class. Bit c of `held`: of[c] is not empty. free_slots = bits set in its shares. */
struct lane_slots {
    uint64_t free_slots;
    weir_tick oldest; /* no free slot of this lane was freed earlier */
    uint64_t held[most_classes / 64];
    struct share_list of[most_classes];
};

struct share_chunk {
    struct share_chunk *next;
    struct share shares[shares_per_chunk];
};

/* An entry of the table from slab numbers to slabs. The entry of an unused number holds the next unused number. */
union slab_entry {
    struct slab *slab;
    uintptr_t next_unused;
};

struct size_class {
    struct ranges ranges;  /* must be the first member: ranges.c passes its address to the callbacks */
    uint64_t largest_slot; /* bytes; 0: no classes */
    uint64_t slab_region_bytes;
    uint64_t large_region_bytes;
    struct lane_slots **lanes;
    size_t lane_count;
    struct slab *slabs;
    union slab_entry *slab_table;
    size_t slab_numbers;  /* entries of slab_table; number 0 means no slab */
    uint32_t unused_slab; /* head of the list of unused slab numbers; 0: none */
    uint64_t free_slots;  /* in all lanes */
    struct share *unused_shares;
    struct share_chunk *chunks;
    bool one_kind; /* all regions serve all sizes; ranges.small_bytes is then UINT64_MAX */
    unsigned class_count;
    unsigned kept_slabs;
    struct slot_class classes[most_classes];
};

/* --- classes --- */

static unsigned class_number(uint64_t size)
{
    WEIR_ASSERT(size != 0);
    const uint64_t granules = (size + RANGE_GRANULE - 1) >> RANGE_GRANULE_SHIFT;
    if (granules <= exact_classes) {
        return (unsigned)granules - 1;
    }
    const unsigned top = 63u - (unsigned)__builtin_clzll(granules - 1);
    const unsigned eighth = (unsigned)((granules - 1) >> (top - 3)) & (classes_per_doubling - 1u);
    return exact_classes + (top - 4) * classes_per_doubling + eighth;
}

static uint64_t class_bytes(unsigned number)
{
    WEIR_ASSERT(number < most_classes);
    if (number < exact_classes) {
        return (number + 1) * RANGE_GRANULE;
    }
    const unsigned row = (number - exact_classes) / classes_per_doubling;
    const unsigned eighth = (number - exact_classes) % classes_per_doubling;
    return (UINT64_C(9) + eighth) * RANGE_GRANULE << (row + 1);
}

static uint64_t slots_of(uint64_t bytes, uint64_t region_bytes)
{
    WEIR_ASSERT(bytes != 0);
    const uint64_t fit = region_bytes / slabs_per_region / bytes;
    uint64_t slots = region_bytes / small_slabs_per_region / bytes;
    slots = slots < usual_slots ? usual_slots : slots;
    slots = slots > most_slots ? most_slots : slots;
    return slots < fit ? slots : fit;
}

static void make_classes(struct size_class *own)
{
    for (unsigned i = 0; i < most_classes; i++) {
        const uint64_t bytes = class_bytes(i);
        const uint64_t slots = slots_of(bytes, own->slab_region_bytes);
        if (slots < least_slots) {
            return;
        }
        own->classes[i] = (struct slot_class){.bytes = bytes, .number = i, .slots = (unsigned)slots};
        own->class_count = i + 1;
        own->largest_slot = bytes < own->ranges.small_bytes ? bytes : own->ranges.small_bytes;
    }
}

/* Returns the class for a size, or NULL if the size is too large for slots. */
static struct slot_class *class_for(struct size_class *own, uint64_t size)
{
    WEIR_ASSERT(own->largest_slot == 0 || size > own->largest_slot || class_number(size) < own->class_count);
    return size <= own->largest_slot ? &own->classes[class_number(size)] : NULL;
}

/* --- shares --- */

static bool grow_share_store(struct size_class *own)
{
    WEIR_ASSERT(own->unused_shares == NULL);
    struct share_chunk *chunk = malloc(sizeof(*chunk));
    if (chunk == NULL) {
        return false;
    }
    chunk->next = own->chunks;
    own->chunks = chunk;
    for (size_t i = shares_per_chunk; i-- > 0;) {
        chunk->shares[i].next = own->unused_shares;
        own->unused_shares = &chunk->shares[i];
    }
    return true;
}

/* Reserves all shares (bitmaps of free slots) that the slab may need: one for each lane, at most one for each slot. */
static bool reserve_shares(struct size_class *own, struct slab *slab, size_t lanes)
{
    const size_t wanted = lanes < slab->made ? lanes : slab->made;
    while (slab->shares_held < wanted) {
        if (own->unused_shares == NULL && !grow_share_store(own)) {
            return false;
        }
        struct share *share = own->unused_shares;
        own->unused_shares = share->next;
        share->next = slab->spare;
        slab->spare = share;
        slab->shares_held++;
    }
    return true;
}

static void return_shares(struct size_class *own, struct slab *slab)
{
    while (slab->spare != NULL) {
        struct share *share = slab->spare;
        slab->spare = share->next;
        share->next = own->unused_shares;
        own->unused_shares = share;
    }
}

static void list_share(struct size_class *own, struct share *share, bool last)
{
    WEIR_ASSERT(share->lane < own->lane_count && own->lanes[share->lane] != NULL);
    const unsigned number = share->slab->class->number;
    struct lane_slots *lane = own->lanes[share->lane];
    struct share_list *list = &lane->of[number];
    share->prev = last ? list->last : NULL;
    share->next = last ? NULL : list->first;
    *(share->prev != NULL ? &share->prev->next : &list->first) = share;
    *(share->next != NULL ? &share->next->prev : &list->last) = share;
    lane->held[number / 64] |= UINT64_C(1) << number % 64;
}

static void unlist_share(struct size_class *own, struct share *share)
{
    WEIR_ASSERT(share->prev == NULL || share->prev->next == share);
    WEIR_ASSERT(share->next == NULL || share->next->prev == share);
    const unsigned number = share->slab->class->number;
    struct lane_slots *lane = own->lanes[share->lane];
    struct share_list *list = &lane->of[number];
    *(share->prev != NULL ? &share->prev->next : &list->first) = share->next;
    *(share->next != NULL ? &share->next->prev : &list->last) = share->prev;
    if (list->first == NULL) {
        lane->held[number / 64] &= ~(UINT64_C(1) << number % 64);
    }
}

static struct share *share_of(const struct slab *slab, weir_lane lane)
{
    struct share *share = slab->shares;
    while (share != NULL && share->lane != lane) {
        share = share->sibling;
    }
    return share;
}

/* Puts a share (the free slots of a slab in one lane) at the head of its list, so that alloc first fills the slab that
 * has just got its first free slot. Slabs that have had free slots for longer may become empty meanwhile. */
static struct share *open_share(struct size_class *own, struct slab *slab, weir_lane lane)
{
    WEIR_ASSERT(slab->spare != NULL);
    WEIR_ASSERT(share_of(slab, lane) == NULL);
    struct share *share = slab->spare;
    slab->spare = share->next;
    *share = (struct share){.slab = slab, .sibling = slab->shares, .lane = lane};
    slab->shares = share;
    list_share(own, share, false);
    return share;
}

static void close_share(struct size_class *own, struct share *share)
{
    WEIR_ASSERT(share->mask == 0);
    struct slab *slab = share->slab;
    struct share **link = &slab->shares;
    while (*link != share) {
        WEIR_ASSERT(*link != NULL);
        link = &(*link)->sibling;
    }
    *link = share->sibling;
    unlist_share(own, share);
    share->next = slab->spare;
    slab->spare = share;
}

/* --- numbers of slabs --- */

static uint32_t slab_number(const struct range *range)
{
    return (range->record.own & ~WEIR_RECORD_ROUTE) >> (RANGE_OWN_SHIFT + slot_bits);
}

static unsigned slot_number(const struct range *slot)
{
    return slot->record.own >> RANGE_OWN_SHIFT & ((1u << slot_bits) - 1);
}

/* Returns the slab of a slot; NULL if the range is not a slot. */
static struct slab *slab_of(const struct size_class *own, const struct range *range)
{
    WEIR_ASSERT(slab_number(range) == 0 || slab_number(range) < own->slab_numbers);
    const uint32_t number = slab_number(range);
    return number != 0 ? own->slab_table[number].slab : NULL;
}

static bool may_number_slabs(const struct size_class *own)
{
    return own->unused_slab != 0 || own->slab_numbers < (size_t)1 << slab_bits;
}

static bool grow_slab_table(struct size_class *own)
{
    const size_t count = own->slab_numbers != 0 ? 2 * own->slab_numbers : first_slab_numbers;
    union slab_entry *table = realloc(own->slab_table, count * sizeof(*table));
    if (table == NULL) {
        return false;
    }
    own->slab_table = table;
    const size_t least = own->slab_numbers != 0 ? own->slab_numbers : 1;
    for (size_t number = count; number-- > least;) {
        table[number].next_unused = own->unused_slab;
        own->unused_slab = (uint32_t)number;
    }
    own->slab_numbers = count;
    return true;
}

static bool number_slab(struct size_class *own, struct slab *slab)
{
    WEIR_ASSERT(slab->number == 0);
    if (own->unused_slab == 0 && !grow_slab_table(own)) {
        return false;
    }
    WEIR_ASSERT(own->unused_slab < own->slab_numbers);
    slab->number = own->unused_slab;
    own->unused_slab = (uint32_t)own->slab_table[slab->number].next_unused;
    own->slab_table[slab->number].slab = slab;
    return true;
}

/* --- slabs --- */

static void forget_slab(struct size_class *own, struct slab *slab)
{
    WEIR_ASSERT(slab->shares == NULL);
    WEIR_ASSERT(slab->class->kept != slab);
    return_shares(own, slab);
    if (slab->number != 0) {
        own->slab_table[slab->number].next_unused = own->unused_slab;
        own->unused_slab = slab->number;
    }
    *(slab->prev != NULL ? &slab->prev->next : &own->slabs) = slab->next;
    if (slab->next != NULL) {
        slab->next->prev = slab->prev;
    }
    free(slab);
}

static void unkeep(struct size_class *own, struct slab *slab)
{
    WEIR_ASSERT(slab->class->kept != slab || own->kept_slabs > 0);
    if (slab->class->kept == slab) {
        slab->class->kept = NULL;
        own->kept_slabs--;
    }
}

static void slot_enters(struct ranges *ranges, struct range *slot)
{
    struct size_class *own = (struct size_class *)ranges;
    struct slab *slab = slab_of(own, slot);
    const weir_lane number = range_lane(slot);
    struct lane_slots *lane = own->lanes[number];
    struct share *share = share_of(slab, number);
    if (share == NULL) {
        share = open_share(own, slab, number);
    }
    WEIR_ASSERT((share->mask >> slot_number(slot) & 1u) == 0);
    share->mask |= UINT64_C(1) << slot_number(slot);
    slab->free_slots++;
    WEIR_ASSERT(slab->free_slots <= slab->members);
    own->free_slots++;
    const weir_tick tick = slot->record.as.free.tick;
    lane->oldest = lane->free_slots++ == 0 || tick < lane->oldest ? tick : lane->oldest;
}

static void slot_leaves(struct ranges *ranges, struct range *slot)
{
    struct size_class *own = (struct size_class *)ranges;
    struct slab *slab = slab_of(own, slot);
    const weir_lane lane = range_lane(slot);
    struct share *share = share_of(slab, lane);
    WEIR_ASSERT(share != NULL && (share->mask >> slot_number(slot) & 1u) != 0);
    share->mask &= ~(UINT64_C(1) << slot_number(slot));
    WEIR_ASSERT(slab->free_slots > 0 && own->free_slots >= slab->free_slots);
    slab->free_slots--;
    own->free_slots--;
    own->lanes[lane]->free_slots--;
    if (share->mask == 0) {
        close_share(own, share);
    }
    unkeep(own, slab);
}

static void slot_quits(struct ranges *ranges, struct range *slot)
{
    struct size_class *own = (struct size_class *)ranges;
    struct slab *slab = slab_of(own, slot);
    slab->slots[slot_number(slot)] = NULL;
    slot->record.own &= RANGE_KIND;
    if (--slab->members == 0) {
        forget_slab(own, slab);
    }
}

static const struct range_slots slot_calls = {slot_enters, slot_leaves, slot_quits};

/* Returns a slab with `slots` slots that have no addresses yet. The first slot has no record: it will use the record of
 * the range that is divided. */
static struct slab *prepare_slab(struct size_class *own, struct slot_class *class, unsigned slots)
{
    struct slab *slab = calloc(1, sizeof(*slab) + slots * sizeof(slab->slots[0]));
    if (slab == NULL) {
        return NULL;
    }
    slab->class = class;
    slab->made = slots;
    bool complete = number_slab(own, slab) && reserve_shares(own, slab, own->lane_count);
    for (unsigned i = 1; i < slots && complete; i++) {
        slab->slots[i] = weir__range_new(&own->ranges);
        complete = slab->slots[i] != NULL;
    }
    slab->next = own->slabs;
    if (slab->next != NULL) {
        slab->next->prev = slab;
    }
    own->slabs = slab;
    return slab;
}

static bool is_prepared(const struct size_class *own, const struct slab *slab)
{
    WEIR_ASSERT(slab->made != 0);
    const size_t lanes = own->lane_count < slab->made ? own->lane_count : slab->made;
    return slab->number != 0 && slab->shares_held >= lanes && slab->slots[slab->made - 1] != NULL;
}

static void give_up_slab(struct size_class *own, struct slab *slab)
{
    WEIR_ASSERT(slab->members == 0 && slab->free_slots == 0);
    for (unsigned i = 1; i < slab->made && slab->slots[i] != NULL; i++) {
        weir__range_delete(&own->ranges, slab->slots[i]);
    }
    forget_slab(own, slab);
}

static void become_slot(struct slab *slab, struct range *range, unsigned slot)
{
    WEIR_ASSERT(slot < slab->made && slab->number != 0);
    range->record.own |= slab->number << (RANGE_OWN_SHIFT + slot_bits) | slot << RANGE_OWN_SHIFT;
    slab->slots[slot] = range;
    slab->members++;
}

/* Divides a range that is in no free list into slots. All slots but the first become free in `lane`, the lane from
 * which the range was taken. */
static void divide(struct size_class *own, struct slab *slab, struct range *range, weir_lane lane)
{
    const uint64_t bytes = slab->class->bytes;
    const weir_tick tick = range->record.as.free.tick;
    const uint32_t kind = range_kind(range);
    struct range *const after = range->next;
    WEIR_ASSERT(!range_is_free(range) && range->record.size == slab->made * bytes);
    struct range *last = range;
    range->record.size = bytes;
    become_slot(slab, range, 0);
    for (unsigned i = 1; i < slab->made; i++) {
        struct range *slot = slab->slots[i];
        slot->record.address = last->record.address + bytes;
        slot->record.size = bytes;
        slot->record.own = kind;
        slot->prev = last;
        last->next = slot;
        last = slot;
        become_slot(slab, slot, i);
        weir__ranges_settle_slot(&own->ranges, slot, lane, tick);
    }
    last->next = after;
    after->prev = last;
    WEIR_ASSERT(slab->members == slab->made);
}

/* Cuts bytes off one end of a range. Slabs and small requests take the high end if regions serve requests of every
 * size. */
static struct range *cut(struct size_class *own, struct range *range, uint64_t bytes, uint64_t align, bool small)
{
    return weir__ranges_cut(&own->ranges, range, bytes, align, small && own->one_kind);
}

/* Makes a slab in a free range that holds it. Returns its first slot, which is in no lane. Returns NULL, and changes
 * nothing, if there is no host memory. */
static struct range *make_slab(struct size_class *own, struct slot_class *class, unsigned slots, struct range *range,
                               uint64_t align)
{
    WEIR_ASSERT(slots >= least_slots && slots <= class->slots);
    const weir_lane lane = range_lane(range);
    struct slab *slab = prepare_slab(own, class, slots);
    if (slab == NULL) {
        return NULL;
    }
    struct range *part = NULL;
    if (is_prepared(own, slab)) {
        part = cut(own, range, slots * class->bytes, align, true);
    }
    if (part == NULL) {
        give_up_slab(own, slab);
        return NULL;
    }
    divide(own, slab, part, lane);
    return part;
}

/* Dissolves a slab: its slots, all free in one lane, become ranges again. Adjacent slots merge first. */
static void dissolve(struct size_class *own, struct slab *slab)
{
    WEIR_ASSERT(slab->members != 0 && slab->free_slots == slab->members && slab->shares->sibling == NULL);
    struct ranges *ranges = &own->ranges;
    const weir_lane lane = slab->shares->lane;
    unsigned left = slab->members;
    for (unsigned i = 0; left > 0; i++) {
        struct range *range = slab->slots[i];
        if (range == NULL) {
            continue;
        }
        weir__ranges_remove(ranges, range);
        slot_quits(ranges, range);
        left--;
        while (left > 0 && range->next == slab->slots[i + 1]) {
            weir__ranges_remove(ranges, range->next);
            slot_quits(ranges, range->next);
            weir__ranges_absorb_next(ranges, range);
            left--;
            i++;
        }
        (void)weir__ranges_settle(ranges, range, lane, range->record.as.free.tick);
    }
}

static bool is_free_in_one_lane(const struct slab *slab)
{
    return slab->free_slots == slab->members && slab->shares->sibling == NULL;
}

static void keep(struct size_class *own, struct slab *slab)
{
    WEIR_ASSERT(slab->class->kept == NULL);
    slab->class->kept = slab;
    own->kept_slabs++;
    unlist_share(own, slab->shares);
    list_share(own, slab->shares, true);
}

static bool give_back_kept(struct size_class *own, weir_lane lane)
{
    bool any = false;
    for (unsigned i = 0; i < own->class_count && own->kept_slabs > 0; i++) {
        struct slab *kept = own->classes[i].kept;
        if (kept != NULL && kept->shares->lane == lane) {
            dissolve(own, kept);
            any = true;
        }
    }
    return any;
}

/* --- life --- */

static size_t size_class_state_size(const void *config)
{
    (void)config;
    return sizeof(struct size_class);
}

static weir_status size_class_init(void *state, const void *config)
{
    struct size_class *own = state;
    weir_size_class_config given;
    static const weir_size_class_config defaults = WEIR_SIZE_CLASS_CONFIG_INIT;
    weir_status status = weir_struct_adopt(&given, sizeof(given), config != NULL ? config : &defaults,
                                           "weir_pool_create: weir_size_class_config");
    if (status != WEIR_OK) {
        return status;
    }
    *own = (struct size_class){
        .ranges.slots = &slot_calls,
        .ranges.small_bytes = given.small_bytes != 0 ? given.small_bytes : size_class_small_bytes,
        .slab_region_bytes = given.slab_region_bytes != 0 ? given.slab_region_bytes : usual_small_region_bytes,
        .large_region_bytes = given.large_region_bytes != 0 ? given.large_region_bytes : usual_large_region_bytes,
    };
    make_classes(own);
    return WEIR_OK;
}

static void size_class_fini(void *state)
{
    struct size_class *own = state;
    while (own->slabs != NULL) {
        struct slab *next = own->slabs->next;
        free(own->slabs);
        own->slabs = next;
    }
    while (own->chunks != NULL) {
        struct share_chunk *next = own->chunks->next;
        free(own->chunks);
        own->chunks = next;
    }
    for (size_t lane = 0; lane < own->lane_count; lane++) {
        free(own->lanes[lane]);
    }
    free(own->lanes);
    free(own->slab_table);
    weir_ranges_fini(state);
}

/* Makes room for `count` lanes, and reserves the shares (bitmaps of free slots) that every slab then needs. */
static bool grow_lanes(struct size_class *own, size_t count)
{
    WEIR_ASSERT(count > own->lane_count);
    struct lane_slots **lanes = realloc(own->lanes, count * sizeof(*lanes));
    if (lanes == NULL) {
        return false;
    }
    own->lanes = lanes;
    for (struct slab *slab = own->slabs; slab != NULL; slab = slab->next) {
        if (!reserve_shares(own, slab, count)) {
            return false;
        }
    }
    while (own->lane_count < count) {
        lanes[own->lane_count++] = NULL;
    }
    return true;
}

static weir_status size_class_lane_add(void *state, weir_lane lane)
{
    struct size_class *own = state;
    weir_status status = weir_ranges_lane_add(state, lane);
    if (status != WEIR_OK || lane == WEIR_LANE_UNMAPPED) {
        return status; /* the unmapped lane holds no slots */
    }
    if (own->lane_count < own->ranges.lane_count && !grow_lanes(own, own->ranges.lane_count)) {
        return WEIR_ERR_NO_MEMORY;
    }
    if (own->lanes[lane] == NULL) {
        own->lanes[lane] = calloc(1, sizeof(*own->lanes[lane]));
    }
    return own->lanes[lane] != NULL ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

/* --- regions --- */

static enum range_kind kind_of(const struct size_class *own, uint64_t size)
{
    return size <= own->ranges.small_bytes ? RANGE_SMALL : RANGE_LARGE;
}

static uint64_t size_class_region_size(const void *state, uint64_t size, uint64_t align, uint64_t reserved,
                                       uint64_t granularity)
{
    const struct size_class *own = state;
    const uint64_t need = range_need(size, align);
    if (kind_of(own, size) == RANGE_LARGE) {
        return weir_ranges_region_size(size, align, own->large_region_bytes, reserved, granularity);
    }
    return range_round_up(need > own->slab_region_bytes ? need : own->slab_region_bytes, granularity);
}

static weir_status size_class_region_add(void *state, uint64_t address, uint64_t size, uint64_t size_hint,
                                         weir_lane lane, weir_tick tick, void **region)
{
    struct size_class *own = state;
    if (size_hint == 0) {
        own->one_kind = true;
        own->ranges.small_bytes = UINT64_MAX;
    }
    return weir_ranges_region_add(state, kind_of(own, size_hint), address, size, lane, tick, region);
}

/* --- alloc --- */

/* A small request. */
struct want {
    weir_lane lane;
    weir_tick limit;
    uint64_t bytes; /* rounded to granules */
    uint64_t align;
    struct slot_class *class; /* NULL: no class for the request */
};

/* Returns a free slot of the wanted class and lane. Only a tick limit or an alignment can exclude the first slot. */
static struct range *find_slot(const struct size_class *own, const struct want *want)
{
    WEIR_ASSERT(want->class != NULL && own->lanes[want->lane] != NULL);
    unsigned left = slot_looks;
    const struct share *share = own->lanes[want->lane]->of[want->class->number].first;
    for (; share != NULL; share = share->next) {
        for (uint64_t mask = share->mask; mask != 0; mask &= mask - 1) {
            struct range *slot = share->slab->slots[__builtin_ctzll(mask)];
            if (slot->record.as.free.tick <= want->limit && range_padding(slot, want->align) == 0) {
                return slot;
            }
            if (--left == 0) {
                return NULL;
            }
        }
    }
    return NULL;
}

/* True if all slots of a slab that starts at a multiple of `align` start at multiples of `align`. */
static bool slots_align(const struct slot_class *class, uint64_t align)
{
    return align <= RANGE_GRANULE || class->bytes % align == 0;
}

/* Returns a free range for a slab. If there is none, returns a free range for the request alone, or the range of an
 * empty slab that it dissolves. */
static struct range *find_range(struct size_class *own, const struct want *want)
{
    WEIR_ASSERT(want->bytes != 0 && want->bytes % RANGE_GRANULE == 0);
    struct ranges *ranges = &own->ranges;
    struct range *range = NULL;
    if (want->class != NULL && slots_align(want->class, want->align)) {
        range = weir__ranges_find(ranges, RANGE_SMALL, want->lane, want->limit, want->class->slots * want->class->bytes,
                                  want->align, 0);
    }
    if (range == NULL) {
        range = weir__ranges_find(ranges, RANGE_SMALL, want->lane, want->limit, want->bytes, want->align, 0);
    }
    if (range == NULL && want->limit == WEIR_TICK_MAX && give_back_kept(own, want->lane)) {
        range = weir__ranges_find(ranges, RANGE_SMALL, want->lane, want->limit, want->bytes, want->align, 0);
    }
    return range;
}

/* Returns the number of slots that a slab of the class would have in this range; 0 if no slab may be made there. A slab
 * of fewer than two slots is not worth making. */
static unsigned slots_in(const struct size_class *own, const struct range *range, const struct want *want)
{
    if (want->class == NULL || range_kind(range) != RANGE_SMALL || !slots_align(want->class, want->align) ||
        !may_number_slabs(own)) {
        return 0;
    }
    const uint64_t fit = (range->record.size - range_padding(range, want->align)) / want->class->bytes;
    return fit < want->class->slots ? (unsigned)fit : want->class->slots;
}

/* Takes memory for the request out of the free range or slot that was found; a range may become a slab. Returns NULL if
 * there is no host memory. */
static struct range *take(struct size_class *own, struct range *range, const struct want *want, bool small)
{
    WEIR_ASSERT(range_is_free(range));
    if (range_is_slot(range)) {
        weir__ranges_remove(&own->ranges, range);
        return range;
    }
    const unsigned slots = slots_in(own, range, want);
    return slots >= least_slots ? make_slab(own, want->class, slots, range, want->align)
                                : cut(own, range, want->bytes, want->align, small);
}

static weir_status size_class_alloc(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align,
                                    weir_range *out)
{
    struct size_class *own = state;
    if (lane >= own->lane_count || own->lanes[lane] == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    if (kind_of(own, size) == RANGE_LARGE) {
        return weir__ranges_alloc(state, lane, limit, size, align, out); /* as in `caching` */
    }
    const struct want want = {
        .lane = lane,
        .limit = limit,
        .bytes = range_round_up(size, RANGE_GRANULE),
        .align = align,
        .class = class_for(own, size),
    };
    struct range *range = weir__ranges_take_gathered(&own->ranges, lane, limit, want.bytes, align);
    if (range == NULL && want.class != NULL) {
        range = find_slot(own, &want);
    }
    if (range == NULL) {
        range = find_range(own, &want);
    }
    if (range == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    range = take(own, range, &want, size <= high_end_bytes);
    if (range == NULL) {
        return WEIR_ERR_INTERNAL;
    }
    weir__ranges_hand_out(&own->ranges, range, out);
    return WEIR_OK;
}

/* --- free, promote --- */

static void size_class_free(void *state, void *token, weir_lane lane, weir_tick tick)
{
    struct size_class *own = state;
    struct slab *slab = slab_of(own, token);
    if (slab == NULL) {
        (void)weir__ranges_free(&own->ranges, token, lane, tick);
        return;
    }
    weir__ranges_free_slot(&own->ranges, token, lane, tick);
    if (!is_free_in_one_lane(slab)) {
        return;
    }
    /* The class keeps one empty slab: the slab that became empty last. Allocs use its slots last. */
    if (slab->class->kept != NULL) {
        dissolve(own, slab->class->kept);
    }
    keep(own, slab);
}

/* Handles a slab after the promotion of some of its slots. An empty slab that was kept before is not dissolved: its
 * lane may be the one being promoted, and merged slots would all wait for the latest of their ticks. */
static void settle_open(struct size_class *own, struct slab *slab)
{
    WEIR_ASSERT(slab->members != 0);
    if (!is_free_in_one_lane(slab)) {
        return;
    }
    if (slab->class->kept != NULL) {
        dissolve(own, slab);
    } else {
        keep(own, slab);
    }
}

/* Moves the slots of a share (the free slots of a slab in one lane) with ticks at or below `limit` to the open lane.
 * Lowers *oldest to the oldest tick of the slots that stay. The share and its slab may be gone afterwards. */
static uint64_t promote_share(struct size_class *own, struct share *share, weir_tick limit, weir_tick *oldest)
{
    struct slab *slab = share->slab;
    uint64_t moved = 0;
    for (uint64_t mask = share->mask; mask != 0; mask &= mask - 1) {
        struct range *slot = slab->slots[__builtin_ctzll(mask)];
        const weir_tick tick = slot->record.as.free.tick;
        if (tick > limit) {
            *oldest = tick < *oldest ? tick : *oldest;
            continue;
        }
        moved += slot->record.size;
        weir__ranges_remove(&own->ranges, slot);
        weir__ranges_settle_slot(&own->ranges, slot, WEIR_LANE_OPEN, 0);
    }
    if (moved != 0) {
        settle_open(own, slab);
    }
    return moved;
}

static uint64_t promote_slots(struct size_class *own, struct lane_slots *lane, weir_tick limit)
{
    weir_tick oldest = WEIR_TICK_MAX;
    uint64_t moved = 0;
    for (unsigned class = 0; class < own->class_count; class ++) {
        struct share *next = NULL;
        for (struct share *share = lane->of[class].first; share != NULL; share = next) {
            next = share->next;
            moved += promote_share(own, share, limit, &oldest);
        }
    }
    lane->oldest = oldest;
    return moved;
}

static uint64_t size_class_promote(void *state, weir_lane number, weir_tick limit)
{
    struct size_class *own = state;
    struct lane_slots *lane = number < own->lane_count ? own->lanes[number] : NULL;
    uint64_t moved = weir_ranges_promote(state, number, limit);
    if (number != WEIR_LANE_OPEN && lane != NULL && lane->free_slots > 0 && lane->oldest <= limit) {
        moved += promote_slots(own, lane, limit);
    }
    return moved;
}

/* --- gather --- */

static bool in_unused_slab(const struct ranges *ranges, const struct range *slot)
{
    WEIR_ASSERT(range_is_slot(slot));
    const struct slab *slab = slab_of((const struct size_class *)ranges, slot);
    return slab->free_slots == slab->members;
}

static bool in_any_slab(const struct ranges *ranges, const struct range *slot)
{
    (void)ranges;
    (void)slot;
    return true;
}

static bool others_hold_any(const struct size_class *own, weir_lane lane)
{
    const struct lane_slots *slots = lane < own->lane_count ? own->lanes[lane] : NULL;
    return own->free_slots != (slots != NULL ? slots->free_slots : 0) ||
           weir__ranges_others_hold_any(&own->ranges, lane);
}

/* Returns a free slot of the class, of any lane l, with a tick at or below limits[l]. */
static struct range *eligible_slot(const struct size_class *own, const struct range_wish *wish, unsigned class)
{
    WEIR_ASSERT(class < own->class_count);
    for (size_t lane = 0; lane < wish->lanes && lane < own->lane_count; lane++) {
        const struct share *share = own->lanes[lane] != NULL ? own->lanes[lane]->of[class].first : NULL;
        for (; share != NULL; share = share->next) {
            for (uint64_t mask = share->mask; mask != 0; mask &= mask - 1) {
                struct range *slot = share->slab->slots[__builtin_ctzll(mask)];
                if (range_eligible(slot, wish->limits, wish->lanes) && range_padding(slot, wish->align) == 0) {
                    return slot;
                }
            }
        }
    }
    return NULL;
}

/* Moves a free slot into the requesting lane. The slot stays in its slab. */
static void move_slot(struct size_class *own, struct range *slot, const struct range_wish *wish)
{
    WEIR_ASSERT(range_is_slot(slot));
    const weir_tick kept = range_lane(slot) == wish->lane ? slot->record.as.free.tick : 0;
    weir__ranges_remove(&own->ranges, slot);
    weir__ranges_settle_slot(&own->ranges, slot, wish->lane, kept > wish->tick ? kept : wish->tick);
}

/* Searches in this order: a slot of the class; a run of free memory, wholly free slabs included; as a last resort such
 * a run in regions of the other kind; finally a run that includes free slots of slabs in use. Such a slab shrinks. */
static bool size_class_gather(void *state, weir_lane lane, weir_tick tick, const weir_tick *limits, size_t lanes,
                              uint64_t size, uint64_t align, bool last_resort)
{
    struct size_class *own = state;
    struct ranges *ranges = &own->ranges;
    const struct slot_class *class = class_for(own, size);
    const enum range_kind kind = kind_of(own, size);
    const enum range_kind other = kind == RANGE_SMALL ? RANGE_LARGE : RANGE_SMALL;
    struct range_wish wish = {
        .lane = lane,
        .tick = tick,
        .limits = limits,
        .lanes = lanes,
        .bytes = range_round_up(size, RANGE_GRANULE),
        .align = align,
        .unit = 1,
        .slot_usable = in_unused_slab,
    };
    struct range *found = class != NULL ? eligible_slot(own, &wish, class->number) : NULL;
    if (found != NULL) {
        move_slot(own, found, &wish);
    }
    if (found == NULL && (last_resort || others_hold_any(own, lane))) {
        found = weir__ranges_gather(ranges, kind, &wish);
    }
    if (found == NULL && last_resort) {
        found = weir__ranges_gather(ranges, other, &wish);
        wish.slot_usable = in_any_slab;
        found = found != NULL ? found : weir__ranges_gather(ranges, kind, &wish);
        found = found != NULL ? found : weir__ranges_gather(ranges, other, &wish);
    }
    ranges->gathered = found;
    return found != NULL;
}

/* --- looking --- */

struct large_walk {
    weir_range_visitor visit;
    void *ctx;
    bool ended;
};

static bool show_large(void *ctx, const weir_range_info *range)
{
    struct large_walk *walk = ctx;
    walk->ended = !walk->visit(walk->ctx, range);
    return !walk->ended;
}

/* Slabs and requests without a slab are cut off one end of a range. The slots of a slab serve requests of their class
 * only, and each request has one. */
static uint64_t size_class_request_bytes(const void *state, uint64_t size)
{
    const struct size_class *own = state;
    return size <= own->largest_slot ? own->classes[class_number(size)].bytes : range_round_up(size, RANGE_GRANULE);
}

/* Visits ranges, then the free slots of the class for `least`. */
static void size_class_walk_large(const void *state, uint64_t least, weir_range_visitor visit, void *ctx)
{
    const struct size_class *own = state;
    struct large_walk walk = {.visit = visit, .ctx = ctx};
    weir_ranges_walk_large(state, least, show_large, &walk);
    for (size_t lane = 0; lane < own->lane_count && least <= own->largest_slot && !walk.ended; lane++) {
        const struct share *share = own->lanes[lane] != NULL ? own->lanes[lane]->of[class_number(least)].first : NULL;
        for (; share != NULL && !walk.ended; share = share->next) {
            for (uint64_t mask = share->mask; mask != 0 && !walk.ended; mask &= mask - 1) {
                walk.ended = !weir__ranges_show_large(share->slab->slots[__builtin_ctzll(mask)], visit, ctx);
            }
        }
    }
}

static uint64_t largest_slot_in(const struct size_class *own, size_t lane)
{
    for (unsigned word = most_classes / 64; word-- > 0 && lane < own->lane_count && own->lanes[lane] != NULL;) {
        const uint64_t held = own->lanes[lane]->held[word];
        if (held != 0) {
            return own->classes[word * 64 + 63 - (unsigned)__builtin_clzll(held)].bytes;
        }
    }
    return 0;
}

static void add_slots(const struct size_class *own, size_t number, weir_lane_stats *stats)
{
    const struct lane_slots *lane = number < own->lane_count ? own->lanes[number] : NULL;
    for (unsigned class = 0; lane != NULL && class < own->class_count; class ++) {
        for (const struct share *share = lane->of[class].first; share != NULL; share = share->next) {
            const unsigned slots = (unsigned)__builtin_popcountll(share->mask);
            stats->ranges += slots;
            stats->bytes += slots * own->classes[class].bytes;
        }
    }
}

static void size_class_lane_stats(const void *state, weir_lane lane, weir_lane_stats *stats)
{
    const struct size_class *own = state;
    const uint64_t largest = largest_slot_in(own, lane);
    weir_ranges_lane_stats(state, lane, stats);
    add_slots(own, lane, stats);
    stats->largest_bytes = largest > stats->largest_bytes ? largest : stats->largest_bytes;
}

static void size_class_stats(const void *state, weir_strategy_stats *stats)
{
    const struct size_class *own = state;
    weir_ranges_stats(state, stats);
    for (size_t lane = 0; lane < own->lane_count; lane++) {
        const uint64_t largest = largest_slot_in(own, lane);
        stats->largest_free_bytes = largest > stats->largest_free_bytes ? largest : stats->largest_free_bytes;
    }
}

/* --- check --- */

#define REQUIRE(condition, sentence)                                                                                   \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            return (sentence);                                                                                         \
        }                                                                                                              \
    } while (0)

static const char *check_slot(const struct size_class *own, const struct slab *slab, const struct range *slot,
                              unsigned number)
{
    REQUIRE(slab_of(own, slot) == slab && slot_number(slot) == number, "a slab lists a range that is not its slot");
    REQUIRE(slot->record.size == slab->class->bytes, "a slot is not of its class's size");
    const bool taken = !range_is_free(slot);
    REQUIRE(taken || range_is_slot(slot), "a slot is in bins");
    for (const struct share *share = slab->shares; share != NULL; share = share->sibling) {
        const bool marked = (share->mask >> number & 1u) != 0;
        REQUIRE(marked == (!taken && range_lane(slot) == share->lane), "a bitmap and a slot do not agree");
    }
    REQUIRE(taken || share_of(slab, range_lane(slot)) != NULL, "a free slot is in no bitmap");
    REQUIRE(taken || slot->record.as.free.tick >= own->lanes[range_lane(slot)]->oldest,
            "a slot is older than its lane says");
    return NULL;
}

static const char *check_shares(const struct slab *slab)
{
    size_t shares = 0;
    unsigned bits = 0;
    for (const struct share *share = slab->shares; share != NULL; share = share->sibling) {
        REQUIRE(share->slab == slab && share->mask != 0, "a bitmap is empty or of another slab");
        REQUIRE(share_of(slab, share->lane) == share, "a slab has two bitmaps of one lane");
        shares++;
        bits += (unsigned)__builtin_popcountll(share->mask);
    }
    for (const struct share *share = slab->spare; share != NULL; share = share->next) {
        shares++;
    }
    REQUIRE(shares == slab->shares_held, "a slab's bitmaps do not add up");
    REQUIRE(bits == slab->free_slots, "a slab's free slots do not add up");
    return NULL;
}

static const char *check_slab(const struct size_class *own, const struct slab *slab)
{
    unsigned members = 0;
    const struct range *last = NULL;
    unsigned last_number = 0;
    for (unsigned i = 0; i < slab->made; i++) {
        const struct range *slot = slab->slots[i];
        if (slot == NULL) {
            continue;
        }
        const char *broken = check_slot(own, slab, slot, i);
        REQUIRE(broken == NULL, broken);
        REQUIRE(last == NULL || slot->record.address - last->record.address == (i - last_number) * slab->class->bytes,
                "the slots of a slab do not lie side by side");
        last = slot;
        last_number = i;
        members++;
    }
    REQUIRE(members > 0 && members == slab->members, "a slab's slots do not add up");
    REQUIRE(own->slab_table[slab->number].slab == slab, "the table of slabs leads elsewhere");
    REQUIRE(slab->shares_held >= (own->lane_count < slab->made ? own->lane_count : slab->made),
            "a slab may run out of bitmaps");
    REQUIRE(slab->prev == NULL ? own->slabs == slab : slab->prev->next == slab, "the list of slabs is broken");
    REQUIRE(slab->class->kept != slab || is_free_in_one_lane(slab), "a slab that is kept is in use");
    return check_shares(slab);
}

static const char *check_lane(const struct size_class *own, size_t number, uint64_t *free_slots)
{
    const struct lane_slots *lane = own->lanes[number];
    const uint64_t before = *free_slots;
    for (unsigned class = 0; lane != NULL && class < most_classes; class ++) {
        const struct share_list *list = &lane->of[class];
        const bool marked = (lane->held[class / 64] >> class % 64 & 1u) != 0;
        REQUIRE(marked == (list->first != NULL), "a lane's marks of classes and its lists do not agree");
        REQUIRE((list->first == NULL) == (list->last == NULL), "a lane's list of a class has one end");
        for (const struct share *share = list->first; share != NULL; share = share->next) {
            REQUIRE(share->lane == number && share->slab->class->number == class, "a bitmap is in another's list");
            REQUIRE(share->next == NULL ? list->last == share : share->next->prev == share,
                    "a lane's list of a class does not lead back");
            *free_slots += (uint64_t)__builtin_popcountll(share->mask);
        }
    }
    REQUIRE(lane == NULL || *free_slots - before == lane->free_slots, "a lane's free slots do not add up");
    return NULL;
}

static const char *first_broken_rule(const struct size_class *own)
{
    uint64_t slots = 0;
    uint64_t free_slots = 0;
    uint64_t listed = 0;
    unsigned kept = 0;
    const char *broken = weir__ranges_broken(&own->ranges);
    for (const struct slab *slab = own->slabs; slab != NULL && broken == NULL; slab = slab->next) {
        broken = check_slab(own, slab);
        slots += slab->members;
        free_slots += slab->free_slots;
        kept += slab->class->kept == slab;
    }
    for (size_t lane = 0; lane < own->lane_count && broken == NULL; lane++) {
        broken = check_lane(own, lane, &listed);
    }
    REQUIRE(broken == NULL, broken);
    REQUIRE(listed == free_slots && listed == own->free_slots, "slabs and lanes hold different sums");
    REQUIRE(kept == own->kept_slabs, "the kept slabs do not add up");
    for (const struct range_region *region = own->ranges.first_region; region != NULL; region = region->next) {
        for (const struct range *range = region->border.next; range != &region->border; range = range->next) {
            slots -= slab_number(range) != 0;
        }
    }
    REQUIRE(slots == 0, "regions and slabs hold different numbers of slots");
    return NULL;
}

static weir_status size_class_check(const void *state, const char **why)
{
    const char *broken = first_broken_rule(state);
    if (broken != NULL && why != NULL) {
        *why = broken;
    }
    return broken == NULL ? WEIR_OK : WEIR_ERR_INTERNAL;
}

const weir_strategy_ops *weir_size_class_strategy(void)
{
    static const weir_strategy_ops ops = {
        .struct_size = sizeof(ops),
        .name = "size_class",
        .granule_bytes = RANGE_GRANULE,
        .state_size = size_class_state_size,
        .init = size_class_init,
        .fini = size_class_fini,
        .lane_add = size_class_lane_add,
        .region_size = size_class_region_size,
        .region_add = size_class_region_add,
        .region_remove = weir_ranges_region_remove,
        .region_idle = weir_ranges_region_idle,
        .alloc = size_class_alloc,
        .free = size_class_free,
        .promote = size_class_promote,
        .gather = size_class_gather,
        .walk = weir_ranges_walk,
        .check = size_class_check,
        .stats = size_class_stats,
        .lane_stats = size_class_lane_stats,
        .claim = weir_ranges_claim, /* takes claimed slots out of their slabs, even of slabs in use */
        .walk_holes = weir_ranges_walk_holes,
        .walk_large = size_class_walk_large,
        .request_bytes = size_class_request_bytes,
    };
    return &ops;
}
