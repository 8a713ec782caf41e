/* bindings/ascend/mstx/src/mstx.c: a pool's observer that announces memory and blocks to a tool.
 *
 * Idea: two trees by address hold the heaps and the blocks. A piece of memory is one heap. A block becomes a region in
 * each heap that it overlaps; all of them are known, since the pool reports memory before the blocks in it.
 *
 * Guarantee: the trees hold all announced heaps and blocks. So only announced ones are withdrawn, each once:
 * regions before their heap, heaps before their memory. If there is no host memory for a tree's node, the heap or block
 * is not announced but counted. One mutex for an attachment is held through each announcement, so the tool sees the
 * events of one attachment in order.
 *
 * The domains that msMemScope knows have different rules, recognized by the tool's answers. A tool may write a handle
 * for a region; if not, the region is withdrawn by its address. A tool may return a heap or NULL. In the domains of
 * `totals` NULL is the usual answer, and the announced size is that of all heaps together, announced anew at each
 * change. In other domains NULL is a refusal.
 *
 * Cost: logarithmic in heaps and blocks, and a call of the tool for each heap that a block overlaps.
 */
#include <weir/mstx.h>
#include <weir/observer.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "domain_name.h"
#include "mstx_tool.h"
#include "range_tree.h"
#include "shared/assert.h"
#include "shared/cancel.h"

/* --- domains: shared by the process --- */

/* Bytes of all heaps of one device in one domain, for a tool that expects this sum as the size of each heap. */
struct total {
    struct total *next;
    uint32_t device;
    uint64_t bytes;
};

/* weir never destroys a domain, because a tool may reserve a domain for one pool of a library; such a tool creates the
 * domain only once. */
struct domain {
    struct domain *next;
    mstxDomainHandle_t handle;
    bool no_listener;
    atomic_bool totals; /* a NULL heap is no refusal */
    struct total *devices;
    char name[];
};

static pthread_mutex_t domains_lock = PTHREAD_MUTEX_INITIALIZER;
static struct domain *domains;

/* Creates a domain. A tool without domains has the global one only. NULL: no host memory. */
static struct domain *new_domain(const char *name)
{
    WEIR_ASSERT_HELD(&domains_lock);
    const struct weir__mstx_tool *tool = weir__mstx_tool();
    struct domain *domain = calloc(1, sizeof(*domain) + strlen(name) + 1);
    if (domain != NULL) {
        memcpy(domain->name, name, strlen(name) + 1);
        domain->totals = weir__domain_wants_totals(name);
        if (name[0] != '\0' && tool->domain_create != NULL) {
            domain->handle = UNCANCELLED(tool->domain_create(name));
            domain->no_listener = domain->handle == NULL;
        }
        domain->next = domains;
        domains = domain;
    }
    return domain;
}

/* Finds or makes the totals of a device. Returns NULL if there is no host memory. */
static struct total *total_of(struct domain *domain, uint32_t device)
{
    WEIR_ASSERT_HELD(&domains_lock);
    struct total *total = domain->devices;
    while (total != NULL && total->device != device) {
        total = total->next;
    }
    if (total == NULL && (total = calloc(1, sizeof(*total))) != NULL) {
        total->device = device;
        total->next = domain->devices;
        domain->devices = total;
    }
    return total;
}

static bool find_domain(const char *name, uint32_t device, struct domain **found, struct total **total)
{
    (void)pthread_mutex_lock(&domains_lock);
    struct domain *domain = domains;
    while (domain != NULL && strcmp(domain->name, name) != 0) {
        domain = domain->next;
    }
    domain = domain != NULL ? domain : new_domain(name);
    *found = domain;
    *total = domain != NULL ? total_of(domain, device) : NULL;
    (void)pthread_mutex_unlock(&domains_lock);
    return *total != NULL;
}

/* --- attachments --- */

struct heap {
    weir__range range; /* must be the first member */
    mstxMemHeapHandle_t handle;
    bool refused;
};

/* A block, and the references to its regions with which weir withdraws the regions from the tool. */
struct told_block {
    weir__range range; /* must be the first member */
    size_t count;
    mstxMemRegionRef_t regions[];
};

/* One attachment (an announced pool). `counters.regions` is the sum of the blocks' region counts. */
struct weir_mstx {
    const struct weir__mstx_tool *tool;
    struct domain *domain;
    struct total *total;
    weir_pool *pool; /* NULL after the pool's end */
    pid_t process;   /* the attaching process; in a child of fork, weir makes no announcements to the tool */
    uint32_t device;
    bool exact_sizes;
    pthread_mutex_t lock;
    weir__tree heaps;
    weir__tree blocks;
    weir_mstx_stats counters;
};

static mstxMemVirtualRangeDesc_t describe(const weir_mstx *mstx, uint64_t start, uint64_t size)
{
    return (mstxMemVirtualRangeDesc_t){.deviceId = mstx->device, .ptr = (const void *)(uintptr_t)start, .size = size};
}

/* --- heaps: functions require the attachment's mutex --- */

static mstxMemHeapHandle_t register_heap(const weir_mstx *mstx, uint64_t start, uint64_t size)
{
    const mstxMemVirtualRangeDesc_t range = describe(mstx, start, size);
    const mstxMemHeapDesc_t desc = {
        .usage = MSTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR,
        .type = MSTX_MEM_TYPE_VIRTUAL_ADDRESS,
        .typeSpecificDesc = &range,
    };
    return mstx->tool->heap_register(mstx->domain->handle, &desc);
}

/* Registers a heap with the total size of all heaps. For the first heap the two sizes are equal, so a tool that expects
 * the heap's own size reads the right number, too. */
static void announce_total(weir_mstx *mstx, struct heap *heap)
{
    (void)pthread_mutex_lock(&domains_lock);
    WEIR_ASSERT(mstx->total->bytes <= UINT64_MAX - (heap->range.end - heap->range.start));
    mstx->total->bytes += heap->range.end - heap->range.start;
    heap->handle = register_heap(mstx, heap->range.start, mstx->total->bytes);
    if (heap->handle != NULL) {
        /* The tool returned a handle for the heap, so it expects the heap's own size and not a total. */
        mstx->total->bytes -= heap->range.end - heap->range.start;
        mstx->domain->totals = false;
    }
    (void)pthread_mutex_unlock(&domains_lock);
}

static void withdraw_from_total(weir_mstx *mstx, const struct heap *heap)
{
    (void)pthread_mutex_lock(&domains_lock);
    WEIR_ASSERT(mstx->total->bytes >= heap->range.end - heap->range.start);
    mstx->total->bytes -= heap->range.end - heap->range.start;
    (void)register_heap(mstx, heap->range.start, mstx->total->bytes);
    (void)pthread_mutex_unlock(&domains_lock);
}

static void announce_heap(weir_mstx *mstx, struct heap *heap)
{
    WEIR_ASSERT(heap->handle == NULL && !heap->refused);
    if (mstx->domain->totals) {
        announce_total(mstx, heap);
    } else {
        heap->handle = register_heap(mstx, heap->range.start, heap->range.end - heap->range.start);
        heap->refused = heap->handle == NULL;
    }
    mstx->counters.refused += heap->refused;
    mstx->counters.heaps += !heap->refused;
}

static void forget_heap(weir_mstx *mstx, struct heap *heap)
{
    WEIR_ASSERT(heap->refused || mstx->counters.heaps > 0);
    mstx->counters.heaps -= !heap->refused;
    weir__tree_remove(&mstx->heaps, &heap->range);
    free(heap);
}

static void withdraw_heap(weir_mstx *mstx, struct heap *heap)
{
    if (heap->handle != NULL) {
        mstx->tool->heap_unregister(mstx->domain->handle, heap->handle);
    } else if (!heap->refused) {
        withdraw_from_total(mstx, heap);
    }
    forget_heap(mstx, heap);
}

static void memory_given(void *ctx, uint64_t address, uint64_t size)
{
    weir_mstx *mstx = ctx;
    struct heap *heap = calloc(1, sizeof(*heap));
    (void)pthread_mutex_lock(&mstx->lock);
    if (heap == NULL) {
        mstx->counters.lost++;
    } else {
        heap->range.start = address;
        heap->range.end = address + size;
        announce_heap(mstx, heap);
        weir__range_insert(&mstx->heaps, &heap->range);
    }
    (void)pthread_mutex_unlock(&mstx->lock);
}

/* Called by the pool before it gives memory back; no block lies in the memory any more. */
static void memory_taken(void *ctx, uint64_t address, uint64_t size)
{
    weir_mstx *mstx = ctx;
    (void)size;
    (void)pthread_mutex_lock(&mstx->lock);
    weir__range *range = weir__range_at(&mstx->heaps, address);
    if (range != NULL) {
        withdraw_heap(mstx, (struct heap *)range);
    }
    (void)pthread_mutex_unlock(&mstx->lock);
}

/* --- blocks: functions require the attachment's mutex --- */

/* The heaps that a block overlaps. */
struct crossing {
    weir_mstx *mstx;
    uint64_t start;
    uint64_t end;
    uint64_t covered; /* bytes of the block that lie in the attachment's heaps */
    size_t count;     /* number of announced heaps */
    bool refused;
    struct told_block *block; /* filled by the second walk */
};

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static struct heap *next_heap(const struct crossing *crossing, const struct heap *heap)
{
    return (struct heap *)weir__range_next_in(&crossing->mstx->heaps, heap != NULL ? &heap->range : NULL,
                                              crossing->start, crossing->end);
}

static void count_heap(struct crossing *crossing, const struct heap *heap)
{
    WEIR_ASSERT(heap->range.start < crossing->end && crossing->start < heap->range.end);
    crossing->covered += earlier(heap->range.end, crossing->end) - later(heap->range.start, crossing->start);
    crossing->count += !heap->refused;
    crossing->refused |= heap->refused;
}

static void register_region(struct crossing *crossing, const struct heap *heap)
{
    WEIR_ASSERT(crossing->block != NULL && (heap->refused || crossing->block->count < crossing->count));
    const weir_mstx *mstx = crossing->mstx;
    if (heap->refused) {
        return;
    }
    const uint64_t start = later(heap->range.start, crossing->start);
    const mstxMemVirtualRangeDesc_t desc = describe(mstx, start, earlier(heap->range.end, crossing->end) - start);
    mstxMemRegionHandle_t handle = NULL;
    const mstxMemRegionsRegisterBatch_t batch = {
        .heap = heap->handle,
        .regionType = MSTX_MEM_TYPE_VIRTUAL_ADDRESS,
        .regionCount = 1,
        .regionDescArray = &desc,
        .regionHandleArrayOut = &handle,
    };
    mstx->tool->regions_register(mstx->domain->handle, &batch);
    mstxMemRegionRef_t *ref = &crossing->block->regions[crossing->block->count++];
    if (handle != NULL) {
        ref->refType = MSTX_MEM_REGION_REF_TYPE_HANDLE;
        ref->handle = handle;
    } else {
        ref->refType = MSTX_MEM_REGION_REF_TYPE_POINTER;
        ref->pointer = desc.ptr;
    }
}

static void announce_block(weir_mstx *mstx, uint64_t start, uint64_t end)
{
    WEIR_ASSERT_HELD(&mstx->lock);
    struct crossing crossing = {.mstx = mstx, .start = start, .end = end};
    for (const struct heap *heap = NULL; (heap = next_heap(&crossing, heap)) != NULL;) {
        count_heap(&crossing, heap);
    }
    mstx->counters.refused += crossing.refused;
    if (crossing.count > 0) {
        crossing.block = calloc(1, sizeof(*crossing.block) + crossing.count * sizeof(crossing.block->regions[0]));
    }
    mstx->counters.lost += crossing.covered < end - start || (crossing.count > 0 && crossing.block == NULL);
    if (crossing.block == NULL) {
        return;
    }
    for (const struct heap *heap = NULL; (heap = next_heap(&crossing, heap)) != NULL;) {
        register_region(&crossing, heap);
    }
    WEIR_ASSERT(crossing.block->count == crossing.count);
    crossing.block->range.start = start;
    crossing.block->range.end = end;
    weir__range_insert(&mstx->blocks, &crossing.block->range);
    mstx->counters.regions += crossing.block->count;
}

static void forget_block(weir_mstx *mstx, struct told_block *block)
{
    WEIR_ASSERT(mstx->counters.regions >= block->count);
    mstx->counters.regions -= block->count;
    weir__tree_remove(&mstx->blocks, &block->range);
    free(block);
}

static void withdraw_block(weir_mstx *mstx, struct told_block *block)
{
    WEIR_ASSERT(block->count > 0);
    const mstxMemRegionsUnregisterBatch_t batch = {.refCount = block->count, .refArray = block->regions};
    mstx->tool->regions_unregister(mstx->domain->handle, &batch);
    forget_block(mstx, block);
}

static void block_alloc(void *ctx, const weir_observed_block *block)
{
    weir_mstx *mstx = ctx;
    (void)pthread_mutex_lock(&mstx->lock);
    announce_block(mstx, block->address, block->address + (mstx->exact_sizes ? block->size : block->capacity));
    (void)pthread_mutex_unlock(&mstx->lock);
}

static void block_free(void *ctx, const weir_observed_block *block)
{
    weir_mstx *mstx = ctx;
    (void)pthread_mutex_lock(&mstx->lock);
    weir__range *range = weir__range_at(&mstx->blocks, block->address);
    if (range != NULL) {
        withdraw_block(mstx, (struct told_block *)range);
    }
    (void)pthread_mutex_unlock(&mstx->lock);
}

static void pool_gone(void *ctx)
{
    weir_mstx *mstx = ctx;
    mstx->pool = NULL;
}

/* --- life --- */

static const weir_observer_ops ops = {
    .struct_size = sizeof(ops),
    .memory_given = memory_given,
    .memory_taken = memory_taken,
    .block_alloc = block_alloc,
    .block_free = block_free,
    .pool_gone = pool_gone,
};

bool weir_mstx_has_tool(void)
{
    const struct weir__mstx_tool *tool = weir__mstx_tool();
    return tool->heap_register != NULL && tool->heap_unregister != NULL && tool->regions_register != NULL &&
           tool->regions_unregister != NULL;
}

static weir_status start(weir_mstx *mstx, const char *name)
{
    WEIR_ASSERT(mstx->pool != NULL && mstx->domain == NULL);
    if (!find_domain(name, mstx->device, &mstx->domain, &mstx->total)) {
        return WEIR_ERR_NO_MEMORY;
    }
    mstx->counters.no_listener = mstx->domain->no_listener;
    if (mstx->domain->no_listener) {
        mstx->pool = NULL;
        return WEIR_OK;
    }
    const weir_status status = weir_pool_observe(mstx->pool, &ops, mstx);
    return status == WEIR_ERR_BUSY ? weir_refuse(status, "weir_mstx_attach: the pool is attached already") : status;
}

weir_status weir_mstx_attach(weir_pool *pool, const weir_mstx_config *config, weir_mstx **attachment)
{
    weir_mstx_config own = WEIR_MSTX_CONFIG_INIT;
    weir_status status =
        config != NULL ? weir_struct_adopt(&own, sizeof(own), config, "weir_mstx_attach: config") : WEIR_OK;
    const char *name = own.domain != NULL ? own.domain : "weir";
    if (status != WEIR_OK) {
        return status;
    }
    if (pool == NULL || attachment == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_mstx_attach: %s is NULL", pool == NULL ? "pool" : "attachment");
    }
    if (!weir__domain_name_is_good(name)) {
        return weir_refuse(WEIR_ERR_INVALID,
                           "weir_mstx_attach: config.domain is more than letters, digits and '_', or longer than %d",
                           weir__domain_name_most);
    }
    if (!weir_mstx_has_tool()) {
        *attachment = NULL;
        return WEIR_OK;
    }
    weir_mstx *mstx = calloc(1, sizeof(*mstx));
    if (mstx == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    mstx->tool = weir__mstx_tool();
    mstx->pool = pool;
    mstx->process = getpid();
    mstx->device = own.device_id;
    mstx->exact_sizes = own.exact_sizes;
    (void)pthread_mutex_init(&mstx->lock, NULL);
    status = start(mstx, name);
    if (status != WEIR_OK) {
        (void)pthread_mutex_destroy(&mstx->lock);
        free(mstx);
        return status;
    }
    *attachment = mstx;
    return WEIR_OK;
}

weir_status weir_mstx_detach(weir_mstx *mstx)
{
    if (mstx == NULL || mstx->process != getpid()) {
        return WEIR_OK; /* a child of fork leaves the attachment unchanged, as it leaves the pool */
    }
    if (mstx->pool != NULL) {
        weir_status status = weir_pool_unobserve(mstx->pool, mstx);
        (void)status; /* cannot fail: this attachment is the pool's observer */
    }
    const int cancel_state = cancel_disable(); /* the tool is called below */
    while (mstx->blocks.root != NULL) {
        withdraw_block(mstx, (struct told_block *)mstx->blocks.root);
    }
    while (mstx->heaps.root != NULL) {
        withdraw_heap(mstx, (struct heap *)mstx->heaps.root);
    }
    cancel_restore(cancel_state);
    WEIR_ASSERT(mstx->counters.regions == 0 && mstx->counters.heaps == 0);
    const bool lost = mstx->counters.lost != 0;
    (void)pthread_mutex_destroy(&mstx->lock);
    free(mstx);
    return lost ? WEIR_ERR_NO_MEMORY : WEIR_OK;
}

weir_status weir_mstx_get_stats(weir_mstx *mstx, weir_mstx_stats *counters)
{
    weir_mstx_stats own = WEIR_MSTX_STATS_INIT;
    if (mstx != NULL) {
        (void)pthread_mutex_lock(&mstx->lock);
        own = mstx->counters;
        (void)pthread_mutex_unlock(&mstx->lock);
    }
    return weir_struct_report(counters, &own, sizeof(own), "weir_mstx_get_stats: counters");
}
