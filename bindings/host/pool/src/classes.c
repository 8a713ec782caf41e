/* classes.c: weir's engine of small host blocks: slabs of equal slots.
 *
 * Idea: a slab is a page run with slots of one class. The marks of its slots (engine.h) lie outside of it, so the
 * engine does not write into pinned memory. A class allocates from the slab that was made or ceased to be full last. It
 * gives a slab back when it becomes the second wholly free one. Where memory is scarce, slabs begin small and grow with
 * their class, up to a chunk or 1/256 of the class.
 * Guarantee: the waste inside a block is bounded by classes.h; a slab wastes at most 1/32 at its end, or the least that
 * up to 160 pages allow. Where memory is scarce, it wastes at most 1/8, and nothing in a class with some half a MiB. A
 * double free is found.
 * Cost: one lock for each batch, a few instructions for each block; a byte for each slot, and about half a KiB for each
 * slab.
 */
#include "classes.h"
#include "engine.h"
#include "tuning.h"

#include "shared/slab.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "free_in: the first of eight marks is the lowest byte");
_Static_assert((WEIR__HOST_FREE | WEIR__HOST_LIVE | WEIR__HOST_OUT) == 3 && WEIR__HOST_FREE == 0,
               "free_in: a mark that is not FREE has one of its two lowest bits");

enum {
    MOST_SLOTS = WEIR__HOST_SLAB_BLOCKS, /* unless memory is scarce */
    GROUP = 8,                           /* slots with neighbouring marks */
    MARK_SIZES = 31,                     /* number of size classes of mark arrays, see marks_in */
};

struct slab {
    weir__host_slab shown; /* its `bin` is the class */
    struct slab *next;     /* next slab of the class with a free block; in an unused description: the next unused
                              description */
    struct slab *previous;
    uint64_t start; /* 0: unused description */
    uint32_t slots; /* same as shown.blocks */
    uint32_t taken;
    uint32_t first; /* blocks below this index are all taken; a multiple of GROUP */
    bool is_listed;
};

struct size_class {
    pthread_mutex_t lock;
    struct slab *first; /* list of slabs with a free block */
    uint32_t empty;     /* number of wholly free slabs in the list */
    uint32_t bytes;
    uint32_t pages;       /* pages of a slab; where memory is scarce, pages of the smallest slab */
    uint32_t whole_pages; /* pages of the smallest slab without waste at its end */
    uint64_t all_slots;   /* of all slabs of the class */
};

struct weir__host_engine {
    weir__host_slabs from;
    pthread_mutex_t lock;    /* protects the next */
    weir__slab descriptions; /* kept until the engine ends: a lookup of a stale address may read a description */
    struct slab *unused[MARK_SIZES];
    struct size_class classes[WEIR__HOST_CLASSES];
};

/* --- life --- */

/* Chooses the smallest slab that wastes little at its end. */
static void shape(struct size_class *c, bool is_scarce)
{
    WEIR_ASSERT(c->bytes != 0 && c->pages == 0);
    const uint32_t least_pages = is_scarce ? 1 : LEAST_PAGES;
    const uint32_t least_slots = is_scarce ? 1 : LEAST_SLOTS;
    const uint64_t most_waste = 4096u / (is_scarce ? (uint64_t)SCARCE_WASTE : USUAL_WASTE);
    uint64_t best = UINT64_MAX;
    for (uint32_t pages = least_pages; pages <= MOST_PAGES; pages++) {
        const uint64_t bytes = (uint64_t)pages * WEIR__HOST_PAGE;
        const uint64_t slots = bytes / c->bytes;
        if (slots < least_slots || (slots > MOST_SLOTS && !is_scarce)) {
            continue;
        }
        const uint64_t waste = (bytes - slots * c->bytes) * 4096 / bytes;
        if (waste < best) {
            best = waste;
            c->pages = pages;
        }
        if (waste <= most_waste) {
            break;
        }
    }
    c->whole_pages = c->bytes >> (unsigned)__builtin_ctz(c->bytes | WEIR__HOST_PAGE);
}

static weir_status create(const weir__host_slabs *slabs, weir__host_engine **engine)
{
    weir__host_engine *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    made->from = *slabs;
    made->descriptions = (weir__slab)WEIR__SLAB_INIT(struct slab, offsetof(struct slab, next), 8);
    (void)pthread_mutex_init(&made->lock, NULL);
    for (uint32_t i = 0; i < WEIR__HOST_CLASSES; i++) {
        struct size_class *c = &made->classes[i];
        (void)pthread_mutex_init(&c->lock, NULL);
        c->bytes = (uint32_t)weir__host_class_bytes(i, slabs->is_scarce);
        if (c->bytes != 0) {
            shape(c, slabs->is_scarce);
            WEIR_ASSERT(c->pages != 0 && c->pages <= MOST_PAGES);
        }
    }
    *engine = made;
    return WEIR_OK;
}

static void destroy(weir__host_engine *engine)
{
    struct slab *s;
    for (size_t i = 0; (s = weir__slab_at(&engine->descriptions, i)) != NULL; i++) {
        free(s->shown.marks);
    }
    weir__slab_fini(&engine->descriptions);
    for (uint32_t i = 0; i < WEIR__HOST_CLASSES; i++) {
        (void)pthread_mutex_destroy(&engine->classes[i].lock);
    }
    (void)pthread_mutex_destroy(&engine->lock);
    free(engine);
}

static uint64_t bin_bytes(const weir__host_engine *engine, uint32_t bin)
{
    return bin < WEIR__HOST_CLASSES ? engine->classes[bin].bytes : 0;
}

/* --- slabs (all functions here require the class's lock) --- */

static void list(struct size_class *c, struct slab *s)
{
    WEIR_ASSERT(!s->is_listed && s->taken < s->slots);
    WEIR_ASSERT_HELD(&c->lock);
    s->next = c->first;
    s->previous = NULL;
    if (c->first != NULL) {
        c->first->previous = s;
    }
    c->first = s;
    s->is_listed = true;
}

static void unlist(struct size_class *c, struct slab *s)
{
    WEIR_ASSERT(s->is_listed);
    WEIR_ASSERT((s->previous != NULL ? s->previous->next : c->first) == s);
    WEIR_ASSERT_HELD(&c->lock);
    if (s->previous != NULL) {
        s->previous->next = s->next;
    } else {
        c->first = s->next;
    }
    if (s->next != NULL) {
        s->next->previous = s->previous;
    }
    s->is_listed = false;
}

/* Returns the bytes of a mark array of size class `size`. Arrays of the first three classes are a part of
 * WEIR__HOST_MARKS_UNIT: the marks of the first 8, 16 or 24 blocks. The next four classes have one to four units; then
 * there are four classes for each doubling. */
static size_t marks_in(size_t size)
{
    WEIR_ASSERT(size < MARK_SIZES);
    const size_t units = size < 3 ? 0 : size - 3;
    return size < 3    ? (size_t)WEIR__HOST_ALIGNMENT * (size + 1)
           : units < 4 ? (size_t)WEIR__HOST_MARKS_UNIT * (units + 1)
                       : (size_t)WEIR__HOST_MARKS_UNIT * (5 + units % 4) << (units / 4 - 1);
}

static size_t mark_size_for(uint32_t slots)
{
    size_t size = slots > 3 * GROUP ? 3 : (slots - 1) / GROUP;
    while (size >= 3 && marks_in(size) < slots) {
        size++;
    }
    return size;
}

static uint32_t state_of(const struct slab *s, uint32_t slot)
{
    return atomic_load_explicit(weir__host_mark_of(&s->shown, slot), memory_order_relaxed);
}

static uint32_t count_taken(const struct slab *s)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < s->slots; slot++) {
        count += state_of(s, slot) != WEIR__HOST_FREE;
    }
    return count;
}

static struct slab *description_new(weir__host_engine *engine, size_t marks)
{
    WEIR_ASSERT_HELD(&engine->lock);
    struct slab *s = weir__slab_get(&engine->descriptions);
    if (s == NULL) {
        return NULL;
    }
    s->shown.marks = aligned_alloc(WEIR__HOST_ALIGNMENT, marks);
    if (s->shown.marks == NULL) {
        weir__slab_put(&engine->descriptions, s);
        return NULL;
    }
    memset((void *)s->shown.marks, WEIR__HOST_FREE, marks);
    return s;
}

/* Returns a slab description with at least `slots` marks (block states), all FREE; NULL if there is no memory. The
 * blocks of a slab that is put back are all FREE, so only the marks of a new description are set. */
static struct slab *description(weir__host_engine *engine, uint32_t slots)
{
    const size_t size = mark_size_for(slots);
    (void)pthread_mutex_lock(&engine->lock);
    struct slab *s = engine->unused[size];
    if (s != NULL) {
        engine->unused[size] = s->next;
    } else {
        s = description_new(engine, marks_in(size));
    }
    (void)pthread_mutex_unlock(&engine->lock);
    return s;
}

static void put_back(weir__host_engine *engine, struct slab *s)
{
    WEIR_ASSERT(s->taken == 0 && !s->is_listed);
    WEIR_ASSERT_THOROUGH(count_taken(s) == 0);
    (void)pthread_mutex_lock(&engine->lock);
    struct slab **unused = &engine->unused[mark_size_for(s->slots)];
    s->start = 0;
    s->next = *unused;
    *unused = s;
    (void)pthread_mutex_unlock(&engine->lock);
}

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Returns the pages of a new slab. Where memory is scarce, a new slab adds about an eighth to the class, at most a
 * chunk or a small share of a large class, and wastes nothing at its end as soon as it may be so large. */
static uint32_t pages_of_next(const weir__host_engine *engine, const struct size_class *c)
{
    WEIR_ASSERT(c->pages != 0 && c->whole_pages != 0);
    if (!engine->from.is_scarce) {
        return c->pages;
    }
    const uint64_t all = c->all_slots * c->bytes / WEIR__HOST_PAGE;
    const uint64_t share = least_of(all / SCARCE_SHARE, MOST_PAGES);
    const uint64_t most = share > SCARCE_PAGES ? share : SCARCE_PAGES;
    const uint64_t wanted = least_of(all / SCARCE_WASTE, most);
    const uint64_t unit = wanted < c->whole_pages ? c->pages : c->whole_pages;
    return wanted < unit ? c->pages : (uint32_t)(wanted - wanted % unit);
}

/* Makes a slab of `pages` pages. Returns NULL if there is no memory. */
static struct slab *slab_of_size(weir__host_engine *engine, struct size_class *c, uint32_t class, uint32_t pages)
{
    WEIR_ASSERT(pages >= c->pages && pages <= MOST_PAGES);
    WEIR_ASSERT_HELD(&c->lock);
    const uint32_t slots = pages * WEIR__HOST_PAGE / c->bytes;
    struct slab *s = description(engine, slots);
    if (s == NULL) {
        return NULL;
    }
    atomic_store_explicit(&s->shown.bin, class, memory_order_relaxed);
    atomic_store_explicit(&s->shown.blocks, slots, memory_order_relaxed);
    s->slots = slots;
    s->taken = 0;
    s->first = 0;
    void *memory =
        engine->from.slab_get(engine->from.ctx, (uint64_t)pages * WEIR__HOST_PAGE, WEIR__HOST_PAGE, &s->shown);
    if (memory == NULL) {
        put_back(engine, s);
        return NULL;
    }
    s->start = (uint64_t)(uintptr_t)memory;
    list(c, s);
    c->empty++;
    c->all_slots += s->slots;
    return s;
}

/* Makes a slab, or the smallest slab if there is no room for the preferred size. */
static struct slab *slab_new(weir__host_engine *engine, struct size_class *c, uint32_t class)
{
    const uint32_t pages = pages_of_next(engine, c);
    struct slab *s = slab_of_size(engine, c, class, pages);
    return s == NULL && pages > c->pages ? slab_of_size(engine, c, class, c->pages) : s;
}

static void slab_delete(weir__host_engine *engine, struct size_class *c, struct slab *s)
{
    WEIR_ASSERT(s->taken == 0 && c->empty != 0 && c->all_slots >= s->slots);
    unlist(c, s);
    c->empty--;
    c->all_slots -= s->slots;
    engine->from.slab_put(engine->from.ctx, (void *)(uintptr_t)s->start);
    put_back(engine, s);
}

/* Returns a word with bit 8 * i set for each FREE block i of the eight blocks from `group` on. */
static uint64_t free_in(const struct slab *s, uint32_t group)
{
    typedef uint64_t __attribute__((may_alias)) eight_marks;
    WEIR_ASSERT(group % GROUP == 0 && group < s->slots);
    const eight_marks *word = (const eight_marks *)(const void *)weir__host_mark_of(&s->shown, group);
    const uint64_t marks = __atomic_load_n(word, __ATOMIC_RELAXED);
    const uint32_t count = s->slots - group;
    const uint64_t existing = count < GROUP ? (UINT64_C(1) << 8 * count) - 1 : UINT64_MAX;
    return ~(marks | marks >> 1) & UINT64_C(0x0101010101010101) & existing;
}

/* Takes up to `count` free blocks of the eight blocks from `group` on. Returns how many. */
static size_t take_group(const struct size_class *c, const struct slab *s, uint32_t group, weir__host_kept *blocks,
                         size_t count)
{
    weir__host_mark *marks = weir__host_mark_of(&s->shown, group);
    const uint64_t start = s->start + (uint64_t)group * c->bytes;
    size_t got = 0;
    for (uint64_t left = free_in(s, group); left != 0 && got < count; left &= left - 1) {
        const unsigned i = (unsigned)__builtin_ctzll(left) / 8;
        atomic_store_explicit(&marks[i], WEIR__HOST_OUT, memory_order_relaxed);
        blocks[got++] = (weir__host_kept){(void *)(uintptr_t)(start + i * c->bytes), &marks[i]};
    }
    return got;
}

/* Takes up to `count` free blocks of a slab. Returns how many. */
static size_t take(struct size_class *c, struct slab *s, weir__host_kept *blocks, size_t count)
{
    WEIR_ASSERT(s->is_listed && s->taken < s->slots && count != 0);
    WEIR_ASSERT_HELD(&c->lock);
    size_t got = 0;
    uint32_t group = s->first;
    for (; group < s->slots && got < count; group += GROUP) {
        got += take_group(c, s, group, blocks + got, count - got);
    }
    s->first = group - (got == count ? GROUP : 0); /* the last group may have more */
    c->empty -= s->taken == 0 && got > 0;
    s->taken += (uint32_t)got;
    WEIR_ASSERT_THOROUGH(s->slots > MOST_SLOTS || count_taken(s) == s->taken);
    WEIR_ASSERT(got != 0 && s->taken <= s->slots);
    if (s->taken == s->slots) {
        unlist(c, s);
    }
    return got;
}

static size_t alloc(weir__host_engine *engine, void *thread, uint32_t class, weir__host_kept *blocks, size_t count)
{
    WEIR_ASSERT(class < WEIR__HOST_CLASSES && count != 0);
    (void)thread;
    struct size_class *c = &engine->classes[class];
    size_t got = 0;
    (void)pthread_mutex_lock(&c->lock);
    while (got < count) {
        struct slab *s = c->first;
        if (s == NULL && got > 0) {
            break; /* an incomplete batch is better than a new slab */
        }
        if (s == NULL && (s = slab_new(engine, c, class)) == NULL) {
            break;
        }
        got += take(c, s, blocks + got, count - got);
    }
    (void)pthread_mutex_unlock(&c->lock);
    return got;
}

/* --- giving back --- */

static bool release_one(weir__host_engine *engine, struct size_class *c, struct slab *s, weir__host_mark *mark)
{
    WEIR_ASSERT_HELD(&c->lock);
    const uint64_t place = weir__host_place_of(&s->shown, mark);
    if (place >= s->slots || atomic_load_explicit(mark, memory_order_relaxed) != WEIR__HOST_OUT) {
        return false;
    }
    atomic_store_explicit(mark, WEIR__HOST_FREE, memory_order_relaxed);
    const uint32_t slot = (uint32_t)place;
    WEIR_ASSERT(s->taken != 0);
    s->taken--;
    s->first = slot < s->first ? slot & ~(GROUP - 1u) : s->first;
    WEIR_ASSERT_THOROUGH(s->slots > MOST_SLOTS || count_taken(s) == s->taken);
    if (!s->is_listed) {
        list(c, s);
    }
    if (s->taken == 0) {
        c->empty++;
        if (c->empty > 1) {
            slab_delete(engine, c, s);
        }
    }
    return true;
}

static uint32_t class_of(const struct slab *s)
{
    return atomic_load_explicit(&s->shown.bin, memory_order_relaxed);
}

/* Returns the slab around a block and the start of its memory, or NULL. */
static struct slab *slab_at(weir__host_engine *engine, const void *block, uint64_t *start)
{
    return (struct slab *)(void *)engine->from.slab_of(engine->from.ctx, block,
                                                       start); /* `shown` is the first member */
}

static bool release(weir__host_engine *engine, void *thread, uint32_t class, const weir__host_kept *blocks,
                    size_t count)
{
    WEIR_ASSERT(class < WEIR__HOST_CLASSES);
    (void)thread;
    struct size_class *c = &engine->classes[class];
    struct slab *s = NULL;
    uint64_t start = 0;
    uint64_t bytes = 0;
    bool all = true;
    (void)pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < count; i++) {
        /* Neighbours in a batch often share a slab. A slab that this loop has deleted contains no further block. */
        if ((uint64_t)(uintptr_t)blocks[i].block - start >= bytes) {
            s = slab_at(engine, blocks[i].block, &start);
            bytes = s != NULL && class_of(s) == class ? (uint64_t)s->slots * c->bytes : 0;
        }
        all = bytes != 0 && release_one(engine, c, s, blocks[i].mark) && all;
    }
    (void)pthread_mutex_unlock(&c->lock);
    return all;
}

static void trim(weir__host_engine *engine, void *thread)
{
    (void)thread;
    for (uint32_t i = 0; i < WEIR__HOST_CLASSES; i++) {
        struct size_class *c = &engine->classes[i];
        (void)pthread_mutex_lock(&c->lock);
        for (struct slab *s = c->first; s != NULL && c->empty > 0;) {
            struct slab *next = s->next;
            if (s->taken == 0) {
                slab_delete(engine, c, s);
            }
            s = next;
        }
        (void)pthread_mutex_unlock(&c->lock);
    }
}

/* --- proof --- */

static const char *check_class(const struct size_class *c, uint32_t class)
{
    WEIR_ASSERT(class < WEIR__HOST_CLASSES);
    uint32_t empty = 0;
    for (const struct slab *s = c->first; s != NULL; s = s->next) {
        if (class_of(s) != class || !s->is_listed || s->start == 0) {
            return "a slab is in the list of a class that it does not belong to";
        }
        if (s->taken >= s->slots) {
            return "a full slab is in the list of those with a free slot";
        }
        if (count_taken(s) != s->taken) {
            return "a slab counts more or fewer blocks than its marks show";
        }
        if (s->next != NULL && s->next->previous != s) {
            return "the list of a class is torn";
        }
        empty += s->taken == 0;
    }
    return empty == c->empty ? NULL : "a class counts its empty slabs wrongly";
}

static bool check(weir__host_engine *engine, const char **why)
{
    const char *broken = NULL;
    for (uint32_t i = 0; i < WEIR__HOST_CLASSES && broken == NULL; i++) {
        struct size_class *c = &engine->classes[i];
        (void)pthread_mutex_lock(&c->lock);
        broken = check_class(c, i);
        (void)pthread_mutex_unlock(&c->lock);
    }
    *why = broken != NULL ? broken : *why;
    return broken == NULL;
}

static const weir_host_engine_ops ops = {
    .struct_size = sizeof(ops),
    .name = "classes",
    .create = create,
    .destroy = destroy,
    .bin_bytes = bin_bytes,
    .alloc = alloc,
    .release = release,
    .trim = trim,
    .check = check,
};

const weir_host_engine_ops *weir_host_classes_engine(void)
{
    return &ops;
}
