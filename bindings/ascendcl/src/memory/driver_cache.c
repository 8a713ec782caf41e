/* driver_cache.c: the memory that the vendor's user-space driver keeps for its process after aclrtFree.
 *
 * Idea: the driver's heaps are followed as numbers, so that the device has as much free memory as on hardware. The
 * program's addresses come from the simulator (memory.c). A device has a list of heaps for each kind of pages. A heap
 * is 1 GiB of addresses, cut into pieces: IDLE ones have no memory, KEPT ones have memory that no allocation uses, USED
 * ones are allocations, LOST ones are out of use. The driver maps whole multiples of 2 MiB, of normal pages too, and
 * returns a mapping to the device only as a whole: `mapped` is the size of the mapping that a piece belongs to.
 *
 * The rules are those of the public driver for the 910B (hicann/driver, svm/v2):
 * - A request of at most `limit` bytes (36 MiB of huge, 18 MiB of normal pages) takes the smallest KEPT piece that is
 *   large enough, and of equal ones the latest. A larger request, or one that no piece fits, gets a new mapping. The
 *   rest of that mapping becomes a KEPT piece if it is at least a fifth of it.
 * - The request is refused if the device has too little memory for the mapping. Kept memory is not returned for it, and
 *   the addresses that the mapping would have had are lost to the heap.
 * - A freed mapping above `limit` is returned at once. Any other piece becomes KEPT.
 * - When this completes a mapping, and the heap keeps twice its threshold or 128 MiB above it, complete mappings are
 *   returned, the smallest first, down to the threshold. The threshold is `limit`, or with much memory in use the
 *   middle between this memory and its peak, at most twice this memory. The peak sinks by an eighth in two seconds.
 * - When a device has two heaps of a kind, or a heap and an allocation above 512 MiB, each free returns the heaps
 *   without USED pieces. The reset of the device returns all.
 *
 * Invariants: the pieces of a heap are adjacent and cover it; adjacent pieces are not both IDLE, nor both KEPT and of
 * one mapping; `kept` and `used` are the sums of these pieces. The device keeps mapped bytes minus the bytes that its
 * allocations count.
 *
 * Cost: O(log pieces) for each heap of the kind; every 2 MiB of the device is in at most one mapping.
 */
#include "memory/driver_cache.h"

#include "shared/round_up.h"

#include <string.h>

#define HEAP_BYTES (UINT64_C(1) << 30)

enum {
    LARGE = 512 << 20,                 /* requests above it have no heap */
    HUGE_LIMIT = 36 << 20,             /* memory of larger requests for huge pages is not kept */
    NORMAL_LIMIT = 18 << 20,           /* memory of larger requests for normal pages is not kept */
    SPARE = 128 << 20,                 /* a heap keeps at most this much above its threshold */
    SECOND_NS = 1000 * 1000 * 1000,    /* the driver reads a clock of seconds */
    LISTS = ACL__DEVICES * ACL__KINDS, /* one list of heaps for each device and kind of pages */
};

typedef enum piece_state { IDLE, KEPT, USED, LOST } piece_state;

struct acl__driver_piece {
    weir__interval range;    /* in heap.pieces, first member; a large allocation is in no heap */
    weir__tree_node by_size; /* in heap.by_size if IDLE or KEPT; its tie is a serial number */
    struct heap *heap;       /* NULL: a large allocation */
    struct heap_list *list;
    uint64_t mapped; /* size of the piece's mapping; 0: none */
    bool is_first;   /* the mapping begins with this piece */
    piece_state state;
};

struct heap {
    struct heap *next;
    struct heap *previous;
    weir__intervals pieces; /* by address */
    weir__tree by_size[2];  /* IDLE and KEPT pieces */
    uint64_t mapped_bytes;
    uint64_t kept_bytes;      /* in KEPT pieces */
    uint64_t limited_bytes;   /* in USED pieces of at most `limit` */
    uint64_t peak_bytes;      /* peak of limited_bytes, which sinks with time */
    uint64_t peak_second;     /* when peak_bytes last changed */
    uint64_t threshold_bytes; /* memory that the heap may keep */
};

struct heap_list {
    struct heap *first;
    uint64_t count; /* heaps and large allocations */
};

static weir__slab pieces = WEIR__SLAB_INIT(struct acl__driver_piece, 0, 64);
static weir__slab heaps = WEIR__SLAB_INIT(struct heap, 0, 4);
static struct heap_list lists[LISTS];
static uint64_t serial;

static bool is_huge(const struct heap_list *list)
{
    WEIR_ASSERT(list >= lists && list < lists + LISTS);
    return acl__kind_is_huge((acl__kind)((list - lists) % ACL__KINDS));
}

static uint64_t limit_of(const struct heap_list *list)
{
    return is_huge(list) ? HUGE_LIMIT : NORMAL_LIMIT;
}

static uint64_t size_of(const struct acl__driver_piece *p)
{
    return p->range.end - p->range.start;
}

static bool is_whole(const struct acl__driver_piece *p)
{
    return size_of(p) == p->mapped;
}

static struct acl__driver_piece *of_size_node(weir__tree_node *node)
{
    return node == NULL
               ? NULL
               : (struct acl__driver_piece *)(void *)((char *)node - offsetof(struct acl__driver_piece, by_size));
}

/* --- pieces --- */

/* Gives a piece the state IDLE or KEPT, and adds it to the index by size of that state. */
static void index_add(struct acl__driver_piece *p, piece_state state)
{
    WEIR_ASSERT(p->heap != NULL && (state == IDLE || state == KEPT));
    p->state = state;
    p->heap->kept_bytes += state == KEPT ? size_of(p) : 0;
    p->by_size.size = size_of(p);
    p->by_size.tie = ++serial;
    p->by_size.weight = 0;
    weir__tree_insert(&p->heap->by_size[state], &p->by_size);
}

static void index_remove(struct acl__driver_piece *p)
{
    WEIR_ASSERT(p->state == IDLE || p->state == KEPT);
    WEIR_ASSERT(p->state == IDLE || p->heap->kept_bytes >= size_of(p));
    p->heap->kept_bytes -= p->state == KEPT ? size_of(p) : 0;
    weir__tree_remove(&p->heap->by_size[p->state], &p->by_size);
}

static void resize(struct acl__driver_piece *p, uint64_t start, uint64_t end)
{
    WEIR_ASSERT(start < end);
    p->range.start = start;
    p->range.end = end;
    weir__intervals_resized(&p->range);
}

/* Cuts `upper` from the end of a piece that is in no index; the piece keeps `size` bytes. */
static void cut(struct acl__driver_piece *p, uint64_t size, struct acl__driver_piece *upper)
{
    WEIR_ASSERT(size > 0 && size < size_of(p));
    *upper = (struct acl__driver_piece){.heap = p->heap, .list = p->list, .mapped = p->mapped};
    upper->range.start = p->range.start + size;
    upper->range.end = p->range.end;
    resize(p, p->range.start, p->range.start + size);
    weir__intervals_insert(&p->heap->pieces, &upper->range);
}

static bool can_join(const struct acl__driver_piece *a, const struct acl__driver_piece *b)
{
    return a != NULL && b != NULL && a->state == b->state && (a->state == IDLE || (a->state == KEPT && !b->is_first));
}

/* Merges a neighbour of the same state, which is in the index, into a piece that is not. */
static void absorb(struct acl__driver_piece *p, struct acl__driver_piece *other)
{
    WEIR_ASSERT(other->range.end == p->range.start || other->range.start == p->range.end);
    const uint64_t start = other->range.start < p->range.start ? other->range.start : p->range.start;
    const uint64_t end = other->range.end > p->range.end ? other->range.end : p->range.end;
    p->is_first |= other->is_first;
    index_remove(other);
    weir__intervals_remove(&p->heap->pieces, &other->range);
    weir__slab_put(&pieces, other);
    resize(p, start, end);
}

/* Makes a piece IDLE or KEPT, merges it with its neighbours, and adds it to the index of its state. */
static void merge_and_index(struct acl__driver_piece *p, piece_state state)
{
    WEIR_ASSERT(p->heap != NULL);
    p->state = state;
    struct acl__driver_piece *before = (struct acl__driver_piece *)(void *)weir__intervals_previous(&p->range);
    if (can_join(before, p)) {
        absorb(p, before);
    }
    struct acl__driver_piece *after = (struct acl__driver_piece *)(void *)weir__intervals_next(&p->range);
    if (can_join(p, after)) {
        absorb(p, after);
    }
    index_add(p, state);
}

/* Returns the smallest piece of a state that has `size` bytes, and of equal ones the one that was added last. */
static struct acl__driver_piece *fit(const struct heap *h, piece_state state, uint64_t size)
{
    const weir__tree_node *least = weir__tree_at_least(&h->by_size[state], size, 0);
    return of_size_node(least == NULL ? NULL : weir__tree_floor(&h->by_size[state], least->size));
}

/* Returns the smallest KEPT piece that is a whole mapping, and of equal ones the one that was added first. */
static struct acl__driver_piece *smallest_whole(const struct heap *h)
{
    weir__tree_node *node = weir__tree_end(&h->by_size[KEPT], 0);
    while (node != NULL && !is_whole(of_size_node(node))) {
        node = weir__tree_step(node, 1);
    }
    return of_size_node(node);
}

/* Gives the memory of a piece, a whole mapping that is in no index, back to the device. Returns its size. */
static uint64_t unmap(struct acl__driver_piece *p)
{
    WEIR_ASSERT(is_whole(p) && p->heap->mapped_bytes >= size_of(p));
    const uint64_t bytes = size_of(p);
    p->heap->mapped_bytes -= bytes;
    p->mapped = 0;
    p->is_first = false;
    merge_and_index(p, IDLE);
    return bytes;
}

/* --- heaps --- */

/* Proves the invariants of a heap: its pieces are adjacent and cover it, and kept_bytes is the sum of the KEPT ones. */
static bool heap_is_sound(const struct heap *h)
{
    uint64_t at = 0;
    uint64_t kept_bytes = 0;
    for (const weir__interval *r = weir__intervals_first(&h->pieces); r != NULL; r = weir__intervals_next(r)) {
        const struct acl__driver_piece *p = (const struct acl__driver_piece *)(const void *)r;
        if (r->start != at || p->heap != h) {
            return false;
        }
        at = r->end;
        kept_bytes += p->state == KEPT ? size_of(p) : 0;
    }
    return at == HEAP_BYTES && kept_bytes == h->kept_bytes && kept_bytes <= h->mapped_bytes;
}

/* Adds a new heap to the front of the list. `whole` becomes its only piece, which is IDLE. */
static void heap_begin(struct heap_list *list, struct heap *h, struct acl__driver_piece *whole)
{
    memset(h, 0, sizeof(*h));
    *whole = (struct acl__driver_piece){.heap = h, .list = list};
    whole->range.end = HEAP_BYTES;
    weir__intervals_insert(&h->pieces, &whole->range);
    index_add(whole, IDLE);
    ACL_LIST_ADD(list->first, h);
    list->count++;
}

/* Ends a heap without USED pieces. Returns the bytes that it gives back. */
static uint64_t heap_end(struct heap_list *list, struct heap *h)
{
    WEIR_ASSERT(h->mapped_bytes == h->kept_bytes && list->count > 0);
    const uint64_t bytes = h->mapped_bytes;
    for (weir__interval *r = weir__intervals_first(&h->pieces); r != NULL; r = weir__intervals_first(&h->pieces)) {
        weir__intervals_remove(&h->pieces, r);
        weir__slab_put(&pieces, r);
    }
    ACL_LIST_REMOVE(list->first, h);
    list->count--;
    weir__slab_put(&heaps, h);
    return bytes;
}

static uint64_t end_idle_heaps(struct heap_list *list)
{
    uint64_t bytes = 0;
    for (struct heap *h = list->first; h != NULL;) {
        struct heap *next = h->next;
        bytes += h->mapped_bytes == h->kept_bytes ? heap_end(list, h) : 0;
        h = next;
    }
    return bytes;
}

/* --- allocation --- */

static void note_used(struct acl__driver_piece *p)
{
    struct heap *h = p->heap;
    p->state = USED;
    h->limited_bytes += size_of(p) <= limit_of(p->list) ? size_of(p) : 0;
    if (h->limited_bytes > h->peak_bytes) {
        h->peak_bytes = h->limited_bytes;
        h->peak_second = weir_sim_now(acl__rt.sim) / SECOND_NS;
    }
}

/* Takes `size` bytes from the beginning of a KEPT piece. Puts the record back if it is not needed. */
static struct acl__driver_piece *take_kept(struct acl__driver_piece *p, uint64_t size, struct acl__driver_piece *spare)
{
    WEIR_ASSERT(p->state == KEPT && size_of(p) >= size);
    index_remove(p);
    if (size_of(p) > size) {
        cut(p, size, spare);
        index_add(spare, KEPT);
    } else {
        weir__slab_put(&pieces, spare);
    }
    note_used(p);
    return p;
}

/* Maps memory at the beginning of an IDLE piece, for a request of `size` bytes. Returns NULL if the room is too small
 * for it. Puts the records back that are not needed. */
static struct acl__driver_piece *take_idle(struct acl__driver_piece *p, uint64_t size, uint64_t room,
                                           struct acl__driver_piece *spare[2])
{
    WEIR_ASSERT(p->state == IDLE);
    const uint64_t mapped = round_up(size, ACL__HUGE_PAGE);
    const bool fits = mapped <= room;
    size_t used = 0;
    index_remove(p);
    if (size_of(p) > mapped) {
        cut(p, mapped, spare[used]);
        index_add(spare[used++], IDLE);
    }
    p->state = LOST;
    if (fits) {
        p->mapped = mapped;
        p->is_first = true;
        p->heap->mapped_bytes += mapped;
        if (mapped <= limit_of(p->list) && (mapped - size) * 100 / mapped >= 20) {
            cut(p, size, spare[used]);
            index_add(spare[used++], KEPT);
        }
        note_used(p);
    }
    for (; used < 2; used++) {
        weir__slab_put(&pieces, spare[used]);
    }
    return fits ? p : NULL;
}

static struct acl__driver_piece *find(const struct heap_list *list, piece_state state, uint64_t size)
{
    struct acl__driver_piece *found = NULL;
    for (const struct heap *h = list->first; h != NULL && found == NULL; h = h->next) {
        found = fit(h, state, size);
    }
    return found;
}

/* Takes `count` records. Returns false, and takes none, when out of host memory. */
static bool take_records(struct acl__driver_piece **spare, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        spare[i] = weir__slab_get(&pieces);
        if (spare[i] == NULL) {
            while (i-- > 0) {
                weir__slab_put(&pieces, spare[i]);
            }
            return false;
        }
    }
    return true;
}

static struct acl__driver_piece *take_large(struct heap_list *list, uint64_t size)
{
    struct acl__driver_piece *p = NULL;
    if (take_records(&p, 1)) {
        *p = (struct acl__driver_piece){.list = list, .mapped = size, .state = USED};
        p->range.end = size;
        list->count++;
    }
    return p;
}

uint64_t acl__driver_most(uint64_t size)
{
    return size > LARGE ? size : round_up(size, ACL__HUGE_PAGE);
}

acl__driver_piece *acl__driver_take(int32_t device, acl__kind kind, uint64_t size, uint64_t room, uint64_t *mapped)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(device >= 0 && (uint32_t)device < acl__rt.config.devices);
    WEIR_ASSERT(kind < ACL__KINDS);
    WEIR_ASSERT(size > 0 && size % ACL__NORMAL_PAGE == 0);
    struct heap_list *list = &lists[device * ACL__KINDS + (int32_t)kind];
    struct acl__driver_piece *spare[3] = {NULL};
    *mapped = 0;
    if (size > LARGE) {
        *mapped = size;
        return size <= room ? take_large(list, size) : NULL;
    }
    struct acl__driver_piece *found = size <= limit_of(list) ? find(list, KEPT, size) : NULL;
    if (found != NULL) {
        return take_records(spare, 1) ? take_kept(found, size, spare[0]) : NULL;
    }
    *mapped = round_up(size, ACL__HUGE_PAGE);
    found = find(list, IDLE, *mapped);
    if (found != NULL) {
        return take_records(spare, 2) ? take_idle(found, size, room, spare) : NULL;
    }
    struct heap *h = weir__slab_get(&heaps);
    if (h == NULL || !take_records(spare, 3)) {
        if (h != NULL) {
            weir__slab_put(&heaps, h);
        }
        return NULL;
    }
    heap_begin(list, h, spare[2]);
    return take_idle(spare[2], size, room, spare);
}

/* --- free --- */

static void renew_threshold(struct heap *h, uint64_t limit)
{
    const uint64_t second = weir_sim_now(acl__rt.sim) / SECOND_NS;
    if (second > h->peak_second + 1 && h->peak_bytes - h->peak_bytes / 8 > h->limited_bytes) {
        h->peak_bytes -= h->peak_bytes / 8;
        h->peak_second = second;
    }
    const uint64_t middle = (h->peak_bytes + h->limited_bytes) / 2;
    const uint64_t twice = h->limited_bytes * 2;
    const uint64_t least = middle < twice ? middle : twice;
    h->threshold_bytes = least > limit ? least : limit;
}

/* Returns kept mappings to the device if the heap keeps too much. Returns their bytes. */
static uint64_t shrink(struct heap *h)
{
    WEIR_ASSERT(h->kept_bytes <= h->mapped_bytes);
    uint64_t bytes = 0;
    if (h->kept_bytes < h->threshold_bytes * 2 && h->kept_bytes < h->threshold_bytes + SPARE) {
        return 0;
    }
    struct acl__driver_piece *p = smallest_whole(h);
    while (p != NULL && h->kept_bytes - size_of(p) > h->threshold_bytes) {
        index_remove(p);
        bytes += unmap(p);
        p = smallest_whole(h);
    }
    return bytes;
}

bool acl__driver_keeps(const acl__driver_piece *piece)
{
    WEIR_ASSERT(piece->state == USED);
    return piece->heap != NULL && size_of(piece) <= limit_of(piece->list);
}

uint64_t acl__driver_give(acl__driver_piece *p)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(p->state == USED && p->list->count > 0);
    struct heap_list *list = p->list;
    struct heap *h = p->heap;
    const uint64_t size = size_of(p);
    const uint64_t limit = limit_of(list);
    uint64_t bytes = 0;
    if (h == NULL) {
        list->count--;
        weir__slab_put(&pieces, p);
        return size;
    }
    h->limited_bytes -= size <= limit ? size : 0;
    WEIR_ASSERT_THOROUGH(heap_is_sound(h));
    if (size > limit) { /* the whole of its mapping */
        bytes += unmap(p);
    } else {
        merge_and_index(p, KEPT);
        if (is_whole(p)) {
            renew_threshold(h, limit);
            bytes += shrink(h);
        }
    }
    return bytes + (list->count > 1 ? end_idle_heaps(list) : 0);
}

uint64_t acl__driver_return(int32_t device, acl__kind kind)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(kind < ACL__KINDS);
    struct heap_list *list = &lists[device * ACL__KINDS + (int32_t)kind];
    uint64_t bytes = end_idle_heaps(list);
    for (struct heap *h = list->first; h != NULL; h = h->next) {
        for (struct acl__driver_piece *p = smallest_whole(h); p != NULL; p = smallest_whole(h)) {
            index_remove(p);
            bytes += unmap(p);
        }
    }
    return bytes;
}
