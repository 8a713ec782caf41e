/* direct.c: a strategy with one region per block.
 *
 * Idea: the pool grows by exactly one region for a request (region_size: the request rounded up to the device's
 * granularity) and alloc hands out the whole region. A freed region stays free until the pool returns it.
 * Guarantee: a region is only ever handed out for requests of the size that it was taken for, to the lane that it is
 * free in; it is never split, merged or lent to another lane.
 * Cost: O(log n) for n free regions of one lane; n is small because regions are returned at once.
 * Waste: less than the device's granularity in each block, none between blocks.
 * Counters: the pool's region_allocs and region_frees, and the time that they took.
 *
 * A region that is still free when the same lane requests the same size again (the device refused to take the region
 * back, or work on it is pending) is reused: a refusal would turn such a failure into an out-of-memory. The device
 * chooses the address of a region. A stricter alignment is refused unless the region happens to have it.
 */
#include "direct.h"

#include "size_tree.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define GRANULE UINT64_C(512)

/* Invariant: a free region is in both trees of its lane; by_hint.size is the size of the request that it was taken for,
 * by_size.size the size of the region, and both addresses are its address. A taken region is in neither tree. */
struct region {
    weir_record record; /* first: a token is its address; in use while the region is taken */
    struct size_node by_hint;
    struct size_node by_size;
    struct region *previous; /* in the order in which regions were added */
    struct region *next;
    weir_lane lane; /* lane of a free region */
    weir_tick tick; /* tick of a free region */
    bool taken;
};

struct lane {
    struct size_tree by_hint; /* serves requests */
    struct size_tree by_size; /* finds the largest region */
};

struct model {
    struct lane *lanes;
    size_t lane_count;
    struct region *first;
    struct region *last;
    struct region *gone; /* linked by next: records live until fini */
    uint64_t regions;
    uint64_t region_bytes;
    uint64_t taken_ranges;
    uint64_t taken_bytes;
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

static void free_list(struct region *region)
{
    while (region != NULL) {
        struct region *next = region->next;
        free(region);
        region = next;
    }
}

static void fini(void *state)
{
    struct model *model = state;
    free_list(model->first);
    free_list(model->gone);
    free(model->lanes);
    memset(model, 0, sizeof(*model));
}

static weir_status lane_add(void *state, weir_lane lane)
{
    struct model *model = state;
    if (lane < model->lane_count) {
        return WEIR_OK;
    }
    size_t count = (size_t)lane + 1;
    struct lane *lanes = realloc(model->lanes, count * sizeof(*lanes));
    if (lanes == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    memset(lanes + model->lane_count, 0, (count - model->lane_count) * sizeof(*lanes));
    model->lanes = lanes;
    model->lane_count = count;
    return WEIR_OK;
}

/* --- regions --- */

static uint64_t region_size(const void *state, uint64_t size, uint64_t align, uint64_t reserved, uint64_t granularity)
{
    (void)state;
    (void)align;
    (void)reserved;
    uint64_t step = granularity > GRANULE ? granularity : GRANULE;
    uint64_t most = UINT64_MAX & ~(step - 1);
    return size > most ? most : (size + step - 1) & ~(step - 1);
}

static void file(struct model *model, struct region *region, weir_lane lane, weir_tick tick)
{
    region->taken = false;
    region->lane = lane;
    region->tick = lane == WEIR_LANE_OPEN ? 0 : tick;
    size_tree_insert(&model->lanes[lane].by_hint, &region->by_hint);
    size_tree_insert(&model->lanes[lane].by_size, &region->by_size);
}

static void unfile(struct model *model, struct region *region)
{
    size_tree_remove(&model->lanes[region->lane].by_hint, &region->by_hint);
    size_tree_remove(&model->lanes[region->lane].by_size, &region->by_size);
}

static void link_region(struct model *model, struct region *region)
{
    region->previous = model->last;
    if (model->last != NULL) {
        model->last->next = region;
    } else {
        model->first = region;
    }
    model->last = region;
    model->regions++;
    model->region_bytes += region->by_size.size;
}

static void unlink_region(struct model *model, struct region *region)
{
    if (region->previous != NULL) {
        region->previous->next = region->next;
    } else {
        model->first = region->next;
    }
    if (region->next != NULL) {
        region->next->previous = region->previous;
    } else {
        model->last = region->previous;
    }
    model->regions--;
    model->region_bytes -= region->by_size.size;
}

static struct region *new_region(struct model *model)
{
    struct region *region = model->gone != NULL ? model->gone : malloc(sizeof(*region));
    if (region != NULL) {
        model->gone = region == model->gone ? region->next : model->gone;
        memset(region, 0, sizeof(*region));
    }
    return region;
}

static weir_status region_add(void *state, uint64_t address, uint64_t size, uint64_t size_hint, weir_lane lane,
                              weir_tick tick, void **out)
{
    struct model *model = state;
    struct region *region = lane_add(model, lane) == WEIR_OK ? new_region(model) : NULL;
    if (region == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    region->by_hint.size = size_hint;
    region->by_hint.address = address;
    region->by_size.size = size;
    region->by_size.address = address;
    link_region(model, region);
    file(model, region, lane, tick);
    *out = region;
    return WEIR_OK;
}

static weir_status region_remove(void *state, void *named, const weir_tick *limits, size_t lanes)
{
    struct model *model = state;
    struct region *region = named;
    if (region->taken || region->lane >= lanes || region->tick > limits[region->lane]) {
        return WEIR_ERR_BUSY;
    }
    unfile(model, region);
    unlink_region(model, region);
    region->next = model->gone;
    model->gone = region;
    return WEIR_OK;
}

/* --- blocks --- */

static bool serves(const struct region *region, weir_tick limit, uint64_t size, uint64_t align)
{
    return region->tick <= limit && region->by_size.size >= size && (region->by_size.address & (align - 1)) == 0;
}

static weir_status alloc(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align, weir_range *range)
{
    struct model *model = state;
    if (lane >= model->lane_count) {
        return WEIR_ERR_NO_MEMORY;
    }
    const struct size_tree *tree = &model->lanes[lane].by_hint;
    struct size_node *node = size_tree_lower(tree, size, 0);
    while (node != NULL && node->size == size) {
        struct region *region = WEIR_MODEL_OWNER(node, struct region, by_hint);
        if (serves(region, limit, size, align)) {
            unfile(model, region);
            region->taken = true;
            region->record.address = region->by_size.address;
            region->record.size = region->by_size.size;
            __atomic_store_n(&region->record.state, WEIR_RECORD_TAKEN, __ATOMIC_RELAXED);
            model->taken_ranges++;
            model->taken_bytes += region->by_size.size;
            *range = (weir_range){
                .address = region->by_size.address,
                .size = region->by_size.size,
                .token = region,
            };
            return WEIR_OK;
        }
        node = size_tree_next(tree, node);
    }
    return WEIR_ERR_NO_MEMORY;
}

static void free_range(void *state, void *token, weir_lane lane, weir_tick tick)
{
    struct model *model = state;
    struct region *region = token;
    assert(region->taken);
    model->taken_ranges--;
    model->taken_bytes -= region->by_size.size;
    file(model, region, lane, tick);
}

/* Moves nothing: memory stays with its lane until its region is removed. */
static uint64_t promote(void *state, weir_lane lane, weir_tick limit)
{
    (void)state;
    (void)lane;
    (void)limit;
    return 0;
}

/* --- visits and proofs --- */

static void walk(const void *state, weir_range_visitor visit, void *ctx)
{
    const struct model *model = state;
    for (struct region *region = model->first; region != NULL; region = region->next) {
        weir_range_info info = {
            .region_address = region->by_size.address,
            .region_size = region->by_size.size,
            .address = region->by_size.address,
            .size = region->by_size.size,
            .taken = region->taken,
            .lane = region->taken ? 0 : region->lane,
            .tick = region->taken ? 0 : region->tick,
            .token = region->taken ? region : NULL,
        };
        if (!visit(ctx, &info)) {
            return;
        }
    }
}

static uint64_t largest_in(const struct lane *lane)
{
    const struct size_node *node = size_tree_last(&lane->by_size);
    return node != NULL ? node->size : 0;
}

static void lane_stats(const void *state, weir_lane number, weir_lane_stats *out)
{
    const struct model *model = state;
    const struct lane *lane = number < model->lane_count ? &model->lanes[number] : NULL;
    out->ranges = lane != NULL ? lane->by_size.count : 0;
    out->bytes = lane != NULL ? lane->by_size.bytes : 0;
    out->largest_bytes = lane != NULL ? largest_in(lane) : 0;
}

static void stats(const void *state, weir_strategy_stats *out)
{
    const struct model *model = state;
    out->regions = model->regions;
    out->region_bytes = model->region_bytes;
    out->taken_ranges = model->taken_ranges;
    out->taken_bytes = model->taken_bytes;
    out->free_ranges = model->regions - model->taken_ranges;
    out->free_bytes = model->region_bytes - model->taken_bytes;
    out->largest_free_bytes = 0;
    for (size_t i = 0; i < model->lane_count; i++) {
        uint64_t largest = largest_in(&model->lanes[i]);
        if (largest > out->largest_free_bytes) {
            out->largest_free_bytes = largest;
        }
    }
}

/* Sums over the list of regions. */
struct tally {
    uint64_t regions;
    uint64_t region_bytes;
    uint64_t taken_ranges;
    uint64_t taken_bytes;
};

static const char *check_regions(const struct model *model, struct tally *tally)
{
    const struct region *previous = NULL;
    for (const struct region *region = model->first; region != NULL; region = region->next) {
        if (region->previous != previous || region->by_hint.address != region->by_size.address) {
            return "direct: a region's links or addresses disagree";
        }
        tally->regions++;
        tally->region_bytes += region->by_size.size;
        tally->taken_ranges += region->taken ? 1 : 0;
        tally->taken_bytes += region->taken ? region->by_size.size : 0;
        previous = region;
    }
    return previous == model->last ? NULL : "direct: the list of regions does not end at its last";
}

static bool belongs_by_hint(void *ctx, struct size_node *node)
{
    const struct region *region = WEIR_MODEL_OWNER(node, struct region, by_hint);
    return !region->taken && region->lane == *(const weir_lane *)ctx;
}

static bool belongs_by_size(void *ctx, struct size_node *node)
{
    const struct region *region = WEIR_MODEL_OWNER(node, struct region, by_size);
    return !region->taken && region->lane == *(const weir_lane *)ctx;
}

static const char *check_lane(const struct lane *lane, weir_lane number)
{
    const char *why = size_tree_check(&lane->by_hint);
    if (why == NULL) {
        why = size_tree_check(&lane->by_size);
    }
    if (why != NULL) {
        return why;
    }
    if (!size_tree_each(&lane->by_hint, belongs_by_hint, &number) ||
        !size_tree_each(&lane->by_size, belongs_by_size, &number)) {
        return "direct: a lane holds a region that does not belong there";
    }
    return lane->by_hint.count == lane->by_size.count ? NULL : "direct: the two orders of a lane differ";
}

static const char *find_flaw(const struct model *model)
{
    struct tally tally = {0};
    const char *why = check_regions(model, &tally);
    if (why != NULL) {
        return why;
    }
    if (tally.regions != model->regions || tally.region_bytes != model->region_bytes ||
        tally.taken_ranges != model->taken_ranges || tally.taken_bytes != model->taken_bytes) {
        return "direct: the counters differ from the regions";
    }
    uint64_t filed = 0;
    for (size_t i = 0; i < model->lane_count; i++) {
        why = check_lane(&model->lanes[i], (weir_lane)i);
        if (why != NULL) {
            return why;
        }
        filed += model->lanes[i].by_size.count;
    }
    return filed == tally.regions - tally.taken_ranges ? NULL : "direct: a free region is in no lane";
}

static weir_status check(const void *state, const char **why)
{
    const char *flaw = find_flaw(state);
    if (flaw != NULL && why != NULL) {
        *why = flaw;
    }
    return flaw == NULL ? WEIR_OK : WEIR_ERR_INTERNAL;
}

const weir_strategy_ops *model_direct_strategy(void)
{
    static const weir_strategy_ops ops = {
        .struct_size = sizeof(weir_strategy_ops),
        .name = "direct",
        .flags = WEIR_STRATEGY_PRIVATE_LANES | WEIR_STRATEGY_NO_FRONT_CACHE | WEIR_STRATEGY_RETURNS_REGIONS,
        .granule_bytes = GRANULE,
        .state_size = state_size,
        .init = init,
        .fini = fini,
        .lane_add = lane_add,
        .region_size = region_size,
        .region_add = region_add,
        .region_remove = region_remove,
        .alloc = alloc,
        .free = free_range,
        .promote = promote,
        .walk = walk,
        .check = check,
        .stats = stats,
        .lane_stats = lane_stats,
    };
    return &ops;
}
