/* best_fit.c: exact best fit over an ordered set of the free ranges by size and address.
 *
 * Guarantee: alloc takes the low end of the smallest range that fits, among equal sizes of the range at the lowest
 * address; a freed range merges with its free neighbours at once.
 * Cost: O(log n) for n free ranges, with a cache miss at nearly every step.
 */
#include "micro/best_fit.h"

#include "models/size_tree.h"

#include <assert.h>
#include <stdlib.h>

#define GRANULE UINT64_C(512)

/* A range. Ranges tile their region and are linked by address.
 * A free range is in the tree; by_size has its address and size. */
struct piece {
    /* first member: the token of a taken range is the address of this record; in use while the range is taken */
    weir_record record;
    weir__tree_node by_size;
    struct piece *previous;
    struct piece *next;
    bool taken;
};

struct model {
    struct size_tree free;
    struct piece *first;  /* lowest range of the region that was added last */
    struct piece *unused; /* records for reuse, linked by `next`; freed by fini */
};

static size_t state_size(const void *config)
{
    (void)config;
    return sizeof(struct model);
}

static weir_status init(void *state, const void *config)
{
    (void)state;
    return config == NULL ? WEIR_OK : WEIR_ERR_INVALID;
}

static void free_list(struct piece *piece)
{
    while (piece != NULL) {
        struct piece *next = piece->next;
        free(piece);
        piece = next;
    }
}

static void fini(void *state)
{
    struct model *model = state;
    free_list(model->first);
    free_list(model->unused);
}

static struct piece *new_piece(struct model *model)
{
    struct piece *piece = model->unused;
    if (piece == NULL) {
        return calloc(1, sizeof(*piece));
    }
    model->unused = piece->next;
    *piece = (struct piece){.taken = false};
    return piece;
}

static weir_status region_add(void *state, uint64_t address, uint64_t size, uint64_t size_hint, weir_lane lane,
                              weir_tick tick, void **region)
{
    struct model *model = state;
    struct piece *piece = new_piece(model);
    (void)size_hint;
    (void)lane;
    (void)tick;
    assert(model->first == NULL);
    if (piece == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    piece->by_size.address = address;
    piece->by_size.size = size;
    size_tree_insert(&model->free, &piece->by_size);
    model->first = piece;
    *region = piece;
    return WEIR_OK;
}

static weir_status alloc(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align, weir_range *range)
{
    struct model *model = state;
    const uint64_t bytes = (size + GRANULE - 1) & ~(GRANULE - 1);
    weir__tree_node *node = weir__tree_at_least(&model->free.nodes, bytes, 0);
    (void)lane;
    (void)limit;
    (void)align;
    assert(align <= GRANULE);
    if (node == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    struct piece *piece = WEIR_MODEL_OWNER(node, struct piece, by_size);
    struct piece *rest = node->size > bytes ? new_piece(model) : NULL;
    if (node->size > bytes && rest == NULL) {
        return WEIR_ERR_INTERNAL;
    }
    size_tree_remove(&model->free, node);
    if (rest != NULL) {
        rest->by_size.address = node->address + bytes;
        rest->by_size.size = node->size - bytes;
        rest->previous = piece;
        rest->next = piece->next;
        if (rest->next != NULL) {
            rest->next->previous = rest;
        }
        piece->next = rest;
        node->size = bytes;
        size_tree_insert(&model->free, &rest->by_size);
    }
    piece->taken = true;
    piece->record.address = node->address;
    piece->record.size = bytes;
    __atomic_store_n(&piece->record.state, WEIR_RECORD_TAKEN, __ATOMIC_RELAXED);
    *range = (weir_range){.address = node->address, .size = bytes, .token = piece};
    return WEIR_OK;
}

/* Merges the next higher range into `piece`; neither may be in the tree of free ranges. */
static void absorb_next(struct model *model, struct piece *piece)
{
    struct piece *next = piece->next;
    piece->by_size.size += next->by_size.size;
    piece->next = next->next;
    if (piece->next != NULL) {
        piece->next->previous = piece;
    }
    next->next = model->unused;
    model->unused = next;
}

static void release(void *state, void *token, weir_lane lane, weir_tick tick)
{
    struct model *model = state;
    struct piece *piece = token;
    (void)lane;
    (void)tick;
    piece->taken = false;
    if (piece->next != NULL && !piece->next->taken) {
        size_tree_remove(&model->free, &piece->next->by_size);
        absorb_next(model, piece);
    }
    if (piece->previous != NULL && !piece->previous->taken) {
        piece = piece->previous;
        size_tree_remove(&model->free, &piece->by_size);
        absorb_next(model, piece);
    }
    size_tree_insert(&model->free, &piece->by_size);
}

const weir_strategy_ops *best_fit_strategy(void)
{
    static const weir_strategy_ops ops = {
        .struct_size = sizeof(ops),
        .name = "best_fit",
        .granule_bytes = GRANULE,
        .state_size = state_size,
        .init = init,
        .fini = fini,
        .region_add = region_add,
        .alloc = alloc,
        .free = release,
    };
    return &ops;
}
