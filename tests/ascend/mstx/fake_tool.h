/* tests/ascend/mstx/fake_tool.h: a tool inside the test's own program, where it is found like a preloaded one.
 * `fake_style` selects which kind of tool it imitates. It keeps its records in fixed arrays (so that it needs no host
 * memory), and ends the program if it must withdraw a heap or region that it does not know. One file includes it
 * once. */
#ifndef TESTS_MSTX_FAKE_TOOL_H
#define TESTS_MSTX_FAKE_TOOL_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "mstx_abi.h"

enum fake_style {
    FAKE_ORDINARY, /* handles for heaps and regions */
    FAKE_NO_REGION_HANDLES,
    FAKE_TOTALS,  /* no handles at all; the size in each call is the sum of all heaps */
    FAKE_REFUSES, /* accepts no heap */
    FAKE_DEAF,    /* knows no domain */
};

enum { fake_most = 4096 };

struct fake_range {
    bool used;
    uint64_t start;
    uint64_t end;
    size_t heap; /* of a region: the index of its heap */
};

static enum fake_style fake_style;
static struct fake_range fake_heaps[fake_most];
static struct fake_range fake_regions[fake_most];
static uint64_t fake_calls; /* all calls except those about domains */
static uint64_t fake_domains;
static uint64_t fake_batches;          /* number of batches that withdraw regions */
static uint64_t fake_total;            /* FAKE_TOTALS: the last total */
static uint32_t fake_device;           /* the last device */
static mstxDomainHandle_t fake_domain; /* the last domain */
static char fake_domain_name[64];
static uint64_t fake_refuse_at; /* the n-th heap from now is refused; 0: none */

static void fake_must(bool condition, const char *what, uint64_t number)
{
    if (!condition) {
        (void)fprintf(stderr, "fake tool: %s: 0x%" PRIx64 "\n", what, number);
        abort();
    }
}

static size_t fake_enter(struct fake_range *table, uint64_t start, uint64_t end)
{
    size_t free_one = fake_most;
    for (size_t i = fake_most; i-- > 0;) {
        free_one = table[i].used ? free_one : i;
        fake_must(!table[i].used || table[i].start >= end || table[i].end <= start, "overlap", start);
    }
    fake_must(free_one < fake_most, "no room", start);
    table[free_one] = (struct fake_range){.used = true, .start = start, .end = end};
    return free_one;
}

static size_t fake_count(const struct fake_range *table)
{
    size_t count = 0;
    for (size_t i = 0; i < fake_most; i++) {
        count += table[i].used;
    }
    return count;
}

/* Returns how many bytes of [start, end) lie in regions. Regions do not overlap. */
static uint64_t fake_covered(uint64_t start, uint64_t end)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < fake_most; i++) {
        const struct fake_range *r = &fake_regions[i];
        if (r->used && r->start < end && r->end > start) {
            bytes += (r->end < end ? r->end : end) - (r->start > start ? r->start : start);
        }
    }
    return bytes;
}

static mstxDomainHandle_t fake_domain_create(const char *name)
{
    fake_domains++;
    (void)snprintf(fake_domain_name, sizeof(fake_domain_name), "%s", name);
    return fake_style == FAKE_DEAF ? NULL : (mstxDomainHandle_t)(void *)&fake_domains;
}

static mstxMemHeapHandle_t fake_heap_register(mstxDomainHandle_t domain, const mstxMemHeapDesc_t *desc)
{
    const mstxMemVirtualRangeDesc_t *range = desc->typeSpecificDesc;
    const uint64_t start = (uint64_t)(uintptr_t)range->ptr;
    fake_calls++;
    fake_domain = domain;
    fake_device = range->deviceId;
    fake_must(desc->usage == 0 && desc->type == 0, "usage or type", start);
    if (fake_style == FAKE_TOTALS) {
        fake_total = range->size;
        return NULL;
    }
    if (fake_style == FAKE_REFUSES || (fake_refuse_at > 0 && --fake_refuse_at == 0)) {
        return NULL;
    }
    const size_t i = fake_enter(fake_heaps, start, start + range->size);
    return (mstxMemHeapHandle_t)(void *)&fake_heaps[i];
}

static void fake_heap_unregister(mstxDomainHandle_t domain, mstxMemHeapHandle_t heap)
{
    struct fake_range *range = (struct fake_range *)(void *)heap;
    (void)domain;
    fake_calls++;
    fake_must(range >= fake_heaps && range < fake_heaps + fake_most && range->used, "no heap",
              (uint64_t)(uintptr_t)heap);
    fake_must(fake_covered(range->start, range->end) == 0, "regions in the heap", range->start);
    range->used = false;
}

static void fake_regions_register(mstxDomainHandle_t domain, const mstxMemRegionsRegisterBatch_t *batch)
{
    const mstxMemVirtualRangeDesc_t *ranges = batch->regionDescArray;
    const struct fake_range *heap = (const struct fake_range *)(const void *)batch->heap;
    (void)domain;
    fake_calls++;
    fake_must(batch->regionType == 0 && batch->regionHandleArrayOut != NULL, "batch", batch->regionCount);
    fake_must((heap == NULL) == (fake_style == FAKE_TOTALS), "heap", (uint64_t)(uintptr_t)heap);
    for (size_t i = 0; i < batch->regionCount; i++) {
        const uint64_t start = (uint64_t)(uintptr_t)ranges[i].ptr;
        const uint64_t end = start + ranges[i].size;
        fake_must(ranges[i].size > 0, "no bytes", start);
        fake_must(heap == NULL || (heap->used && heap->start <= start && heap->end >= end), "outside of the heap",
                  start);
        const size_t at = fake_enter(fake_regions, start, end);
        if (fake_style == FAKE_ORDINARY) {
            batch->regionHandleArrayOut[i] = (mstxMemRegionHandle_t)(void *)&fake_regions[at];
        }
    }
}

static void fake_regions_unregister(mstxDomainHandle_t domain, const mstxMemRegionsUnregisterBatch_t *batch)
{
    (void)domain;
    fake_calls++;
    fake_batches++;
    for (size_t i = 0; i < batch->refCount; i++) {
        const mstxMemRegionRef_t *ref = &batch->refArray[i];
        struct fake_range *range = (struct fake_range *)(void *)ref->handle;
        fake_must(ref->refType == (fake_style == FAKE_ORDINARY ? MSTX_MEM_REGION_REF_TYPE_HANDLE
                                                               : MSTX_MEM_REGION_REF_TYPE_POINTER),
                  "kind of reference", i);
        for (size_t k = 0; k < fake_most && ref->refType == MSTX_MEM_REGION_REF_TYPE_POINTER; k++) {
            const bool here = fake_regions[k].used && fake_regions[k].start == (uint64_t)(uintptr_t)ref->pointer;
            range = here ? &fake_regions[k] : range;
        }
        fake_must(range >= fake_regions && range < fake_regions + fake_most && range->used, "no region",
                  (uint64_t)(uintptr_t)ref->pointer);
        range->used = false;
    }
}

#define FAKE_SLOT(module, id, function)                                                                                \
    do {                                                                                                               \
        mstxFuncTable slots = NULL;                                                                                    \
        unsigned int entries = 0;                                                                                      \
        fake_must(get_table((module), &slots, &entries) == MSTX_SUCCESS && (id) < entries, "table", (module));         \
        *slots[id] = (mstxFuncPointer)(function);                                                                      \
    } while (0)

int InitInjectionMstx(mstxGetModuleFuncTableFunc get_table);

__attribute__((visibility("default"))) int InitInjectionMstx(mstxGetModuleFuncTableFunc get_table)
{
    mstxFuncTable none = NULL;
    unsigned int size = 0;
    fake_must(get_table((mstxFuncModule)9, &none, &size) == MSTX_FAIL, "a module that is none", 9);
    fake_must(get_table(MSTX_API_MODULE_CORE, &none, NULL) == MSTX_FAIL, "no place for the size", 0);
    fake_must(get_table(MSTX_API_MODULE_CORE, &none, &size) == MSTX_SUCCESS && size == 5, "core", size);
    FAKE_SLOT(MSTX_API_MODULE_CORE_DOMAIN, 1, fake_domain_create);
    FAKE_SLOT(MSTX_API_MODULE_CORE_MEM, 1, fake_heap_register);
    FAKE_SLOT(MSTX_API_MODULE_CORE_MEM, 2, fake_heap_unregister);
    FAKE_SLOT(MSTX_API_MODULE_CORE_MEM, 3, fake_regions_register);
    FAKE_SLOT(MSTX_API_MODULE_CORE_MEM, 4, fake_regions_unregister);
    return MSTX_SUCCESS;
}

#endif
