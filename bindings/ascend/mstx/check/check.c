/* bindings/ascend/mstx/check/check.c: libweir_mstx_check.so, a tool that checks any program's announcements through
 * mstx.
 *
 * Idea: the tool keeps all announcements and reports where the program breaks the rules: a heap overlaps no other heap
 * of its domain, a region lies in its heap and overlaps no other region, every heap and region is withdrawn once and in
 * order. After a finding it continues with the announcement as far as it is usable, so that one mistake is reported
 * once.
 *
 * Domains with the names of `totals` follow the rules of msMemScope instead: the size of a heap is the sum of all
 * heaps, no handles are returned (a program may pass any pointer for them), and regions are withdrawn by address. In
 * these domains the tool checks regions only, against each other.
 *
 * Handles are numbers that are never reused, so a second withdrawal differs from the withdrawal of an unknown handle.
 * The tool reads only memory that mstx requires the program to pass. Addresses are numbers.
 *
 * Environment: WEIR_MSTX_CHECK_REPORT=file (else stderr) gets the findings, one line each, and a summary at the end;
 * WEIR_MSTX_CHECK_EXIT=n makes a process with findings exit with n.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* secure_getenv */
#endif

#include "mstx_check.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../src/domain_name.h"
#include "../src/mstx_abi.h"
#include "../src/range_tree.h"
#include "shared/assert.h"
#include "shared/descriptor.h"
#include "shared/number_map.h"

/* X(NAME, "kind"): the kinds of findings, as in README.md. */
#define FINDING_LIST(X)                                                                                                \
    X(DOMAIN_NAME, "domain-name") /* a name that is empty, too long, or not of [A-Za-z0-9_] */                         \
    X(DOMAIN_UNKNOWN, "domain-unknown")                                                                                \
    X(DOMAIN_IN_USE, "domain-in-use") /* a domain destroyed while heaps or regions are in it */                        \
    X(ARGUMENT, "argument")           /* NULL where a value is required, or an invalid usage, type or flag */          \
    X(RANGE, "range")                 /* a range without bytes, or beyond the end of the address space */              \
    X(NO_HANDLES, "no-handles")       /* regions registered without an array for their handles */                      \
    X(HEAP_OVERLAP, "heap-overlap")                                                                                    \
    X(HEAP_UNKNOWN, "heap-unknown")                                                                                    \
    X(HEAP_AGAIN, "heap-withdrawn-again")                                                                              \
    X(HEAP_IN_USE, "heap-in-use") /* a heap withdrawn while regions are in it */                                       \
    X(REGION_OUTSIDE, "region-outside-heap")                                                                           \
    X(REGION_OVERLAP, "region-overlap")                                                                                \
    X(REGION_UNKNOWN, "region-unknown")                                                                                \
    X(REGION_AGAIN, "region-withdrawn-again")                                                                          \
    X(MEMORY_MISSING, "memory-missing") /* the heap's memory is gone, smaller than the heap, or was never given */     \
    X(MEMORY_DEVICE, "memory-device")   /* the heap's memory is another device's */                                    \
    X(MEMORY_LATE, "memory-late")       /* memory reported after a heap in it was announced */                         \
    X(MEMORY_IN_USE, "memory-in-use")   /* memory taken back while a heap is in it */                                  \
    X(LEFT_OVER, "left-over")           /* a heap or region still announced at the end of the process */               \
    X(HOST_MEMORY, "host-memory")       /* no host memory for the checker: that call is not checked */

enum finding {
#define FINDING_ENUM(name, kind) FINDING_##name,
    FINDING_LIST(FINDING_ENUM)
#undef FINDING_ENUM
        FINDINGS
};

static const char *const kinds[FINDINGS] = {
#define FINDING_KIND(name, kind) [FINDING_##name] = (kind),
    FINDING_LIST(FINDING_KIND)
#undef FINDING_KIND
};

enum { lines_most = 100 }; /* most findings of one kind that are printed; further findings are only counted */

/* --- announced heaps and regions --- */

/* Ranges of one device in one domain. Two devices may use the same addresses. */
struct space {
    struct space *next;
    uint32_t device;
    weir__tree heaps;
    weir__tree regions;
};

struct domain {
    struct domain *next;
    bool alive; /* a destroyed domain's descriptor stays, so that its handle is recognized */
    bool totals;
    struct space *spaces;
    char name[weir__domain_name_most + 1];
};

/* An announced heap. `regions` is the number of regions announced in it. */
struct heap {
    weir__range range; /* must be the first member */
    uint64_t id;
    struct domain *domain;
    struct space *space;
    uint64_t regions;
    bool has_memory; /* true: memory was there at some time, or a finding says that it is missing */
};

struct region {
    weir__range range; /* must be the first member */
    uint64_t id;
    struct domain *domain;
    struct space *space;
    struct heap *heap; /* NULL: announced without a heap */
};

/* Real memory that was reported to this tool (mstx_check.h). */
struct memory {
    weir__range range; /* must be the first member */
    bool gone;         /* the runtime has taken the memory back and has not given it out again */
    int64_t device;    /* number of the memory's device; NO_DEVICE: not known, or memory of the host */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weir__tree memories; /* entries with `gone` false do not overlap */
static bool sees_all;       /* true: the tool observes the runtime's own calls, so it knows all memory */
static struct domain global = {.alive = true, .name = "(global)"};
static struct domain *domains = &global;
static weir__number_map heaps;   /* by id */
static weir__number_map regions; /* by id */
static uint64_t last_id;
static uint64_t heaps_told;
static uint64_t regions_told;
static uint64_t findings[FINDINGS];
static FILE *report;
static pid_t process;
static uint64_t last_range;

/* --- reporting: functions require the lock --- */

static FILE *out(void)
{
    return report != NULL ? report : stderr;
}

__attribute__((format(printf, 2, 3))) static void find(enum finding kind, const char *format, ...)
{
    va_list arguments;
    WEIR_ASSERT(kind < FINDINGS);
    if (++findings[kind] > lines_most) {
        return;
    }
    (void)fprintf(out(), "weir_mstx_check: %s: ", kinds[kind]);
    va_start(arguments, format);
    (void)vfprintf(out(), format, arguments);
    va_end(arguments);
    (void)fputc('\n', out());
    (void)fflush(out());
}

#define RANGE_FORMAT "[0x%" PRIx64 ", 0x%" PRIx64 ")"
#define RANGE_OF(r) (r)->range.start, (r)->range.end

static uint64_t all_findings(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < FINDINGS; i++) {
        sum += findings[i];
    }
    return sum;
}

/* --- domains and handles --- */

/* Returns the domain of a handle. If no domain has the handle, reports a finding and returns NULL. */
static struct domain *domain_of(mstxDomainHandle_t handle, const char *call)
{
    WEIR_ASSERT_HELD(&lock);
    if (handle == NULL) {
        return &global;
    }
    for (struct domain *domain = domains; domain != NULL; domain = domain->next) {
        if ((mstxDomainHandle_t)(void *)domain == handle && domain != &global) {
            if (!domain->alive) {
                find(FINDING_DOMAIN_UNKNOWN, "%s: domain \"%s\" has been destroyed", call, domain->name);
            }
            return domain->alive ? domain : NULL;
        }
    }
    find(FINDING_DOMAIN_UNKNOWN, "%s: %p is no domain", call, (void *)handle);
    return NULL;
}

/* Returns a new id for a heap or a region. The id is odd, so it equals no address of an object of the program. */
static uint64_t new_id(void)
{
    WEIR_ASSERT_HELD(&lock);
    last_id += 2;
    return last_id + 1;
}

static bool was_given(uint64_t id)
{
    return id % 2 == 1 && id >= 3 && id <= last_id + 1;
}

static uint64_t number_of(const void *handle)
{
    return (uint64_t)(uintptr_t)handle;
}

static struct heap *heap_of(mstxMemHeapHandle_t handle)
{
    WEIR_ASSERT_HELD(&lock);
    return (struct heap *)(uintptr_t)weir__number_map_get(&heaps, number_of(handle));
}

static struct space *space_of(struct domain *domain, uint32_t device)
{
    WEIR_ASSERT_HELD(&lock);
    struct space *space = domain->spaces;
    while (space != NULL && space->device != device) {
        space = space->next;
    }
    if (space == NULL && (space = calloc(1, sizeof(*space))) != NULL) {
        space->device = device;
        space->next = domain->spaces;
        domain->spaces = space;
    }
    return space;
}

static void no_host_memory(const char *call)
{
    WEIR_ASSERT_HELD(&lock);
    find(FINDING_HOST_MEMORY, "%s: out of host memory; what it says is not checked", call);
}

static bool check_range(const mstxMemVirtualRangeDesc_t *range, const char *call)
{
    WEIR_ASSERT_HELD(&lock);
    const uint64_t start = number_of(range->ptr);
    if (range->size == 0 || start == 0 || start + range->size < start) {
        find(FINDING_RANGE, "%s: %" PRIu64 " bytes at 0x%" PRIx64, call, range->size, start);
        return false;
    }
    return true;
}

static mstxDomainHandle_t domain_create(const char *name)
{
    mstxDomainHandle_t handle = NULL;
    (void)pthread_mutex_lock(&lock);
    if (name == NULL || name[0] == '\0' || !weir__domain_name_is_good(name)) {
        find(FINDING_DOMAIN_NAME, "mstxDomainCreateA: \"%.100s\" is not 1 to %d of [A-Za-z0-9_]",
             name != NULL ? name : "(NULL)", weir__domain_name_most);
    } else {
        struct domain *domain = domains;
        while (domain != NULL && !(domain->alive && strcmp(domain->name, name) == 0)) {
            domain = domain->next;
        }
        if (domain == NULL && (domain = calloc(1, sizeof(*domain))) != NULL) {
            memcpy(domain->name, name, strlen(name));
            domain->alive = true;
            domain->totals = weir__domain_wants_totals(name);
            domain->next = domains;
            domains = domain;
        }
        if (domain == NULL) {
            no_host_memory("mstxDomainCreateA");
        }
        handle = (mstxDomainHandle_t)(void *)domain;
    }
    (void)pthread_mutex_unlock(&lock);
    return handle;
}

/* --- removal --- */

static void forget_region(struct region *region)
{
    WEIR_ASSERT_HELD(&lock);
    weir__tree_remove(&region->space->regions, &region->range);
    (void)weir__number_map_take(&regions, region->id);
    if (region->heap != NULL) {
        WEIR_ASSERT(region->heap->regions > 0);
        region->heap->regions--;
    }
    free(region);
}

/* Judges a heap at its end. A heap that never had memory lies at an address that no call of the runtime returned. */
static void judge_lifetime(struct heap *heap)
{
    WEIR_ASSERT_HELD(&lock);
    if (sees_all && !heap->has_memory) {
        find(FINDING_MEMORY_MISSING, "no call of the runtime gave the memory of the heap " RANGE_FORMAT " in \"%s\"",
             RANGE_OF(heap), heap->domain->name);
    }
}

/* Removes a heap and its regions, as the vendor's tools do. The regions may lie outside the heap, even on another
 * device. */
static void forget_heap(struct heap *heap)
{
    WEIR_ASSERT_HELD(&lock);
    judge_lifetime(heap);
    for (struct space *space = heap->domain->spaces; space != NULL; space = space->next) {
        weir__range *next = NULL;
        for (weir__range *range = weir__tree_end(&space->regions, 0); range != NULL; range = next) {
            struct region *region = (struct region *)range;
            next = weir__tree_step(range, 1);
            if (region->heap == heap) {
                forget_region(region);
            }
        }
    }
    WEIR_ASSERT(heap->regions == 0);
    weir__tree_remove(&heap->space->heaps, &heap->range);
    (void)weir__number_map_take(&heaps, heap->id);
    free(heap);
}

static void domain_destroy(mstxDomainHandle_t handle)
{
    (void)pthread_mutex_lock(&lock);
    struct domain *domain = domain_of(handle, "mstxDomainDestroy");
    if (domain == &global) {
        find(FINDING_DOMAIN_UNKNOWN, "mstxDomainDestroy: the global domain cannot be destroyed");
    } else if (domain != NULL) {
        bool used = false;
        for (struct space *space = domain->spaces; space != NULL; space = space->next) {
            used |= space->heaps.root != NULL || space->regions.root != NULL;
            while (space->regions.root != NULL) {
                forget_region((struct region *)space->regions.root);
            }
            while (space->heaps.root != NULL) {
                forget_heap((struct heap *)space->heaps.root);
            }
        }
        if (used) {
            find(FINDING_DOMAIN_IN_USE, "mstxDomainDestroy: \"%s\" still has heaps or regions", domain->name);
        }
        domain->alive = false;
    }
    (void)pthread_mutex_unlock(&lock);
}

/* --- real memory --- */

/* Checks that a heap lies in one piece of real memory, and of the right device. A heap in memory that was not reported
 * to this tool is judged at its end, because the memory may still come. */
static void judge_memory(struct heap *heap)
{
    WEIR_ASSERT_HELD(&lock);
    static const char call[] = "mstxMemHeapRegister";
    const struct memory *there = NULL;
    bool gone = false;
    for (const weir__range *range = NULL;
         there == NULL &&
         (range = weir__range_next_in(&memories, range, heap->range.start, heap->range.end)) != NULL;) {
        const struct memory *memory = (const struct memory *)range;
        gone |= memory->gone;
        there = memory->gone ? NULL : memory;
    }
    if (there != NULL && (there->range.start > heap->range.start || there->range.end < heap->range.end)) {
        find(FINDING_MEMORY_MISSING, "%s: " RANGE_FORMAT " is not all in the memory " RANGE_FORMAT, call,
             RANGE_OF(heap), RANGE_OF(there));
    } else if (there != NULL && there->device != NO_DEVICE && there->device != (int64_t)heap->space->device) {
        find(FINDING_MEMORY_DEVICE, "%s: " RANGE_FORMAT " of device %u lies in memory of device %" PRId64, call,
             RANGE_OF(heap), heap->space->device, there->device);
    } else if (there == NULL && gone) {
        find(FINDING_MEMORY_MISSING, "%s: the memory of " RANGE_FORMAT " has been given back", call, RANGE_OF(heap));
    }
    heap->has_memory = there != NULL || gone;
}

/* Returns the first heap of any domain with a byte in the range, or NULL. */
static struct heap *heap_in(const weir__range *range)
{
    WEIR_ASSERT_HELD(&lock);
    weir__range *found = NULL;
    for (struct domain *domain = domains; domain != NULL && found == NULL; domain = domain->next) {
        for (struct space *space = domain->spaces; space != NULL && found == NULL; space = space->next) {
            found = weir__range_next_in(&space->heaps, NULL, range->start, range->end);
        }
    }
    return (struct heap *)found;
}

static struct memory *memory_at(const void *address)
{
    WEIR_ASSERT_HELD(&lock);
    return (struct memory *)weir__range_at(&memories, number_of(address));
}

static void enter_memory(const void *address, uint64_t size, int64_t device)
{
    WEIR_ASSERT_HELD(&lock);
    const weir__range given = {.start = number_of(address), .end = number_of(address) + size};
    weir__range *old;
    struct heap *heap = heap_in(&given);
    if (heap != NULL) {
        heap->has_memory = true;
        find(FINDING_MEMORY_LATE, "memory " RANGE_FORMAT " came after the heap " RANGE_FORMAT " in \"%s\"", given.start,
             given.end, RANGE_OF(heap), heap->domain->name);
    }
    /* Forgets older memory at these addresses. The runtime hands the addresses out again, so it has freed that memory
     * without a report to this tool. */
    while ((old = weir__range_next_in(&memories, NULL, given.start, given.end)) != NULL) {
        weir__tree_remove(&memories, old);
        free(old);
    }
    struct memory *memory = size > 0 ? calloc(1, sizeof(*memory)) : NULL;
    if (memory != NULL) {
        memory->range = given;
        memory->device = device;
        weir__range_insert(&memories, &memory->range);
    } else if (size > 0) {
        no_host_memory("memory");
    }
}

void weir_mstx_check_given(const void *address, uint64_t size)
{
    (void)pthread_mutex_lock(&lock);
    enter_memory(address, size, NO_DEVICE);
    (void)pthread_mutex_unlock(&lock);
}

void weir__mstx_check_saw(const void *address, uint64_t size, int64_t device)
{
    (void)pthread_mutex_lock(&lock);
    sees_all = true;
    enter_memory(address, size, device);
    (void)pthread_mutex_unlock(&lock);
}

void weir_mstx_check_taken(const void *address)
{
    (void)pthread_mutex_lock(&lock);
    struct memory *memory = memory_at(address);
    const struct heap *heap = memory != NULL ? heap_in(&memory->range) : NULL;
    if (heap != NULL) {
        find(FINDING_MEMORY_IN_USE, "memory " RANGE_FORMAT " goes with the heap " RANGE_FORMAT " of \"%s\" in it",
             RANGE_OF(memory), RANGE_OF(heap), heap->domain->name);
    }
    if (memory != NULL) {
        memory->gone = true;
    }
    (void)pthread_mutex_unlock(&lock);
}

void weir_mstx_check_kept(const void *address)
{
    (void)pthread_mutex_lock(&lock);
    struct memory *memory = memory_at(address);
    if (memory != NULL) {
        memory->gone = false;
    }
    (void)pthread_mutex_unlock(&lock);
}

/* --- heaps --- */

static struct heap *enter_heap(struct domain *domain, const mstxMemVirtualRangeDesc_t *range)
{
    struct space *space = space_of(domain, range->deviceId);
    struct heap *heap = space != NULL ? calloc(1, sizeof(*heap)) : NULL;
    if (heap == NULL) {
        no_host_memory("mstxMemHeapRegister");
        return NULL;
    }
    heap->range.start = number_of(range->ptr);
    heap->range.end = heap->range.start + range->size;
    heap->id = new_id();
    heap->domain = domain;
    heap->space = space;
    const struct heap *other =
        (struct heap *)weir__range_next_in(&space->heaps, NULL, heap->range.start, heap->range.end);
    if (other != NULL) {
        find(FINDING_HEAP_OVERLAP, "mstxMemHeapRegister: " RANGE_FORMAT " overlaps the heap " RANGE_FORMAT " in \"%s\"",
             RANGE_OF(heap), RANGE_OF(other), domain->name);
    }
    judge_memory(heap);
    if (!weir__number_map_put(&heaps, heap->id, (uint64_t)(uintptr_t)heap)) {
        no_host_memory("mstxMemHeapRegister");
        free(heap);
        return NULL;
    }
    weir__range_insert(&space->heaps, &heap->range);
    heaps_told++;
    return heap;
}

static mstxMemHeapHandle_t heap_register(mstxDomainHandle_t handle, const mstxMemHeapDesc_t *desc)
{
    static const char call[] = "mstxMemHeapRegister";
    struct heap *heap = NULL;
    uint64_t id = 0;
    (void)pthread_mutex_lock(&lock);
    struct domain *domain = domain_of(handle, call);
    if (desc == NULL || desc->typeSpecificDesc == NULL) {
        find(FINDING_ARGUMENT, "%s: no description", call);
    } else if (domain != NULL && !domain->totals) {
        if (desc->usage != MSTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR || desc->type != MSTX_MEM_TYPE_VIRTUAL_ADDRESS) {
            find(FINDING_ARGUMENT, "%s: usage %d, type %d: both must be 0", call, (int)desc->usage, (int)desc->type);
        }
        heap = check_range(desc->typeSpecificDesc, call) ? enter_heap(domain, desc->typeSpecificDesc) : NULL;
        id = heap != NULL ? heap->id : 0;
    }
    (void)pthread_mutex_unlock(&lock);
    return (mstxMemHeapHandle_t)(uintptr_t)id;
}

/* Returns the heap if it belongs to the domain. Otherwise reports a finding and returns NULL. */
static struct heap *known_heap(const struct domain *domain, mstxMemHeapHandle_t handle, const char *call)
{
    WEIR_ASSERT_HELD(&lock);
    struct heap *heap = heap_of(handle);
    if (heap == NULL && was_given(number_of(handle))) {
        find(FINDING_HEAP_AGAIN, "%s: the heap %p has been withdrawn", call, (void *)handle);
    } else if (heap == NULL) {
        find(FINDING_HEAP_UNKNOWN, "%s: %p is no heap", call, (void *)handle);
    } else if (heap->domain != domain) {
        find(FINDING_HEAP_UNKNOWN, "%s: the heap " RANGE_FORMAT " is of \"%s\", not of \"%s\"", call, RANGE_OF(heap),
             heap->domain->name, domain->name);
        heap = NULL;
    }
    return heap;
}

static void heap_unregister(mstxDomainHandle_t handle, mstxMemHeapHandle_t which)
{
    static const char call[] = "mstxMemHeapUnregister";
    (void)pthread_mutex_lock(&lock);
    const struct domain *domain = domain_of(handle, call);
    const bool none = domain == NULL || (domain->totals && which == NULL);
    struct heap *heap = none ? NULL : known_heap(domain, which, call);
    if (heap != NULL) {
        if (heap->regions > 0) {
            find(FINDING_HEAP_IN_USE, "%s: " RANGE_FORMAT " in \"%s\" still has %" PRIu64 " regions", call,
                 RANGE_OF(heap), domain->name, heap->regions);
        }
        forget_heap(heap);
    }
    (void)pthread_mutex_unlock(&lock);
}

/* --- regions --- */

static void judge_region(const struct region *region)
{
    WEIR_ASSERT_HELD(&lock);
    static const char call[] = "mstxMemRegionsRegister";
    const struct heap *heap = region->heap;
    if (heap != NULL && (region->space != heap->space || region->range.start < heap->range.start ||
                         region->range.end > heap->range.end)) {
        find(FINDING_REGION_OUTSIDE,
             "%s: " RANGE_FORMAT " of device %u is not in its heap " RANGE_FORMAT " of device %u", call,
             RANGE_OF(region), region->space->device, RANGE_OF(heap), heap->space->device);
    }
    const struct region *other =
        (struct region *)weir__range_next_in(&region->space->regions, NULL, region->range.start, region->range.end);
    if (other != NULL) {
        find(FINDING_REGION_OVERLAP, "%s: " RANGE_FORMAT " overlaps the region " RANGE_FORMAT " in \"%s\"", call,
             RANGE_OF(region), RANGE_OF(other), region->domain->name);
    }
}

/* Returns the region's handle, or 0 if there is no host memory. */
static uint64_t enter_region(struct domain *domain, struct heap *heap, const mstxMemVirtualRangeDesc_t *range)
{
    WEIR_ASSERT_HELD(&lock);
    struct space *space = space_of(domain, range->deviceId);
    struct region *region = space != NULL ? calloc(1, sizeof(*region)) : NULL;
    if (region == NULL) {
        no_host_memory("mstxMemRegionsRegister");
        return 0;
    }
    region->range.start = number_of(range->ptr);
    region->range.end = region->range.start + range->size;
    region->id = new_id();
    region->domain = domain;
    region->space = space;
    region->heap = heap;
    judge_region(region);
    if (!weir__number_map_put(&regions, region->id, (uint64_t)(uintptr_t)region)) {
        no_host_memory("mstxMemRegionsRegister");
        free(region);
        return 0;
    }
    weir__range_insert(&space->regions, &region->range);
    if (heap != NULL) {
        heap->regions++;
    }
    regions_told++;
    return region->id;
}

static void enter_regions(struct domain *domain, const mstxMemRegionsRegisterBatch_t *batch, const char *call)
{
    WEIR_ASSERT_HELD(&lock);
    const mstxMemVirtualRangeDesc_t *ranges = batch->regionDescArray;
    if (domain->totals) {
        for (size_t i = 0; i < batch->regionCount; i++) {
            (void)(check_range(&ranges[i], call) && enter_region(domain, NULL, &ranges[i]) != 0);
        }
        return;
    }
    struct heap *heap = known_heap(domain, batch->heap, call);
    if (batch->regionType != MSTX_MEM_TYPE_VIRTUAL_ADDRESS) {
        find(FINDING_ARGUMENT, "%s: region type %d: must be 0", call, (int)batch->regionType);
    }
    if (batch->regionHandleArrayOut == NULL) {
        find(FINDING_NO_HANDLES, "%s: regionHandleArrayOut is NULL", call);
    }
    for (size_t i = 0; i < batch->regionCount; i++) {
        const uint64_t id = check_range(&ranges[i], call) ? enter_region(domain, heap, &ranges[i]) : 0;
        if (batch->regionHandleArrayOut != NULL) {
            batch->regionHandleArrayOut[i] = (mstxMemRegionHandle_t)(uintptr_t)id;
        }
    }
}

static void regions_register(mstxDomainHandle_t handle, const mstxMemRegionsRegisterBatch_t *batch)
{
    static const char call[] = "mstxMemRegionsRegister";
    (void)pthread_mutex_lock(&lock);
    struct domain *domain = domain_of(handle, call);
    if (batch == NULL || (batch->regionCount > 0 && batch->regionDescArray == NULL)) {
        find(FINDING_ARGUMENT, "%s: no description", call);
    } else if (domain != NULL) {
        enter_regions(domain, batch, call);
    }
    (void)pthread_mutex_unlock(&lock);
}

/* Finds a region of any device by its start. */
static struct region *region_at(const struct domain *domain, uint64_t start)
{
    WEIR_ASSERT_HELD(&lock);
    weir__range *range = NULL;
    for (struct space *space = domain->spaces; space != NULL && range == NULL; space = space->next) {
        range = weir__range_at(&space->regions, start);
    }
    return (struct region *)range;
}

/* Returns the region if it belongs to the domain. Otherwise reports a finding and returns NULL. */
static struct region *known_region(const struct domain *domain, const mstxMemRegionRef_t *ref, const char *call)
{
    WEIR_ASSERT_HELD(&lock);
    struct region *region = NULL;
    if (ref->refType == MSTX_MEM_REGION_REF_TYPE_POINTER || domain->totals) {
        region = region_at(domain, number_of(ref->pointer));
        if (region == NULL) {
            find(FINDING_REGION_UNKNOWN, "%s: no region of \"%s\" starts at %p", call, domain->name, ref->pointer);
        }
        return region;
    }
    if (ref->refType != MSTX_MEM_REGION_REF_TYPE_HANDLE) {
        find(FINDING_ARGUMENT, "%s: reference type %d", call, (int)ref->refType);
        return NULL;
    }
    region = (struct region *)(uintptr_t)weir__number_map_get(&regions, number_of(ref->handle));
    if (region == NULL && was_given(number_of(ref->handle))) {
        find(FINDING_REGION_AGAIN, "%s: the region %p has been withdrawn", call, (void *)ref->handle);
    } else if (region == NULL || region->domain != domain) {
        find(FINDING_REGION_UNKNOWN, "%s: %p is no region of \"%s\"", call, (void *)ref->handle, domain->name);
        region = NULL;
    }
    return region;
}

static void regions_unregister(mstxDomainHandle_t handle, const mstxMemRegionsUnregisterBatch_t *batch)
{
    static const char call[] = "mstxMemRegionsUnregister";
    (void)pthread_mutex_lock(&lock);
    const struct domain *domain = domain_of(handle, call);
    if (batch == NULL || (batch->refCount > 0 && batch->refArray == NULL)) {
        find(FINDING_ARGUMENT, "%s: no references", call);
    } else if (domain != NULL) {
        for (size_t i = 0; i < batch->refCount; i++) {
            struct region *region = known_region(domain, &batch->refArray[i], call);
            if (region != NULL) {
                forget_region(region);
            }
        }
    }
    (void)pthread_mutex_unlock(&lock);
}

static void permissions_assign(mstxDomainHandle_t handle, const mstxMemPermissionsAssignBatch_t *batch)
{
    static const char call[] = "mstxMemPermissionsAssign";
    const uint32_t flags = MSTX_MEM_PERMISSIONS_REGION_FLAGS_READ | MSTX_MEM_PERMISSIONS_REGION_FLAGS_WRITE |
                           MSTX_MEM_PERMISSIONS_REGION_FLAGS_SHARED;
    (void)pthread_mutex_lock(&lock);
    const struct domain *domain = domain_of(handle, call);
    if (batch == NULL || (batch->regionCount > 0 && batch->regionDescArray == NULL)) {
        find(FINDING_ARGUMENT, "%s: no description", call);
    } else if (domain != NULL) {
        for (size_t i = 0; i < batch->regionCount; i++) {
            (void)known_region(domain, &batch->regionDescArray[i].region, call);
            if ((batch->regionDescArray[i].flags & ~flags) != 0) {
                find(FINDING_ARGUMENT, "%s: flags 0x%x", call, batch->regionDescArray[i].flags);
            }
        }
    }
    (void)pthread_mutex_unlock(&lock);
}

/* --- the program's time marks and ranges: accepted, not checked --- */

static void mark(const char *message, mstx_stream stream)
{
    (void)message;
    (void)stream;
}

static mstxRangeId range_start(const char *message, mstx_stream stream)
{
    (void)message;
    (void)stream;
    (void)pthread_mutex_lock(&lock);
    const mstxRangeId id = ++last_range;
    (void)pthread_mutex_unlock(&lock);
    return id;
}

static void range_end(mstxRangeId id)
{
    (void)id;
}

static void get_tool_id(uint64_t *id)
{
    if (id != NULL) {
        *id = UINT64_C(0x77656972); /* "weir" */
    }
}

static void domain_mark(mstxDomainHandle_t domain, const char *message, mstx_stream stream)
{
    (void)domain;
    mark(message, stream);
}

static mstxRangeId domain_range_start(mstxDomainHandle_t domain, const char *message, mstx_stream stream)
{
    (void)domain;
    return range_start(message, stream);
}

static void domain_range_end(mstxDomainHandle_t domain, mstxRangeId id)
{
    (void)domain;
    range_end(id);
}

/* --- queries --- */

/* State of a walk over regions. Each byte of [start, reached) lies in exactly one region, unless `broken` is set. */
struct cover {
    uint64_t start;
    uint64_t end;
    uint64_t reached;
    bool broken; /* true: the walk found a region without a heap in a domain with heaps, a hole, or an overlap */
};

static void add_cover(struct cover *cover, const weir__range *range)
{
    WEIR_ASSERT(range->start < cover->end && cover->reached >= cover->start);
    const uint64_t start = range->start > cover->start ? range->start : cover->start;
    const struct region *region = (const struct region *)range;
    cover->broken = (region->heap == NULL && !region->domain->totals) || start != cover->reached;
    cover->reached = range->end;
}

bool weir_mstx_check_covers(const void *address, uint64_t size)
{
    const uint64_t start = number_of(address);
    struct cover cover = {.start = start, .end = start + size, .reached = start};
    int owners = 0; /* pairs of device and domain with a region in the range */
    bool whole = false;
    (void)pthread_mutex_lock(&lock);
    for (struct domain *domain = domains; domain != NULL; domain = domain->next) {
        for (struct space *space = domain->spaces; space != NULL; space = space->next) {
            const weir__range *range = weir__range_next_in(&space->regions, NULL, start, cover.end);
            if (range != NULL) {
                owners++;
                for (; range != NULL && !cover.broken;
                     range = weir__range_next_in(&space->regions, range, start, cover.end)) {
                    add_cover(&cover, range);
                }
                whole = !cover.broken && cover.reached >= cover.end;
            }
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return owners == 1 && whole;
}

uint64_t weir_mstx_check_findings(const char *kind)
{
    uint64_t count = 0;
    (void)pthread_mutex_lock(&lock);
    for (int i = 0; i < FINDINGS; i++) {
        count += kind == NULL || strcmp(kind, kinds[i]) == 0 ? findings[i] : 0;
    }
    (void)pthread_mutex_unlock(&lock);
    return count;
}

void weir_mstx_check_announced(uint64_t *heaps_now, uint64_t *regions_now)
{
    (void)pthread_mutex_lock(&lock);
    *heaps_now = heaps.count;
    *regions_now = regions.count;
    (void)pthread_mutex_unlock(&lock);
}

/* --- beginning and end --- */

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void begin(void)
{
    const char *path = secure_getenv("WEIR_MSTX_CHECK_REPORT");
    process = getpid();
    if (path != NULL && path[0] != '\0') {
        report = open_stream_above_standard(path, O_WRONLY | O_CREAT | O_TRUNC, "w");
        if (report == NULL) {
            (void)fprintf(stderr, "weir_mstx_check: cannot write %s; findings go to stderr\n", path);
        }
    }
}

static void tell_left_over(const weir__tree *tree, const char *kind, const struct domain *domain)
{
    WEIR_ASSERT_HELD(&lock);
    for (const weir__range *range = weir__tree_end(tree, 0); range != NULL; range = weir__tree_step(range, 1)) {
        find(FINDING_LEFT_OVER, "the %s " RANGE_FORMAT " in \"%s\" is still announced", kind, range->start, range->end,
             domain->name);
    }
}

static void summarise(void)
{
    WEIR_ASSERT_HELD(&lock);
    (void)fprintf(out(), "weir_mstx_check: %" PRIu64 " heaps and %" PRIu64 " regions announced, %" PRIu64 " findings",
                  heaps_told, regions_told, all_findings());
    const char *before = ": ";
    for (int i = 0; i < FINDINGS; i++) {
        if (findings[i] > 0) {
            (void)fprintf(out(), "%s%" PRIu64 " %s", before, findings[i], kinds[i]);
            before = ", ";
        }
    }
    (void)fputc('\n', out());
    (void)fflush(out());
}

/* Runs after all exit handlers of the program. Does nothing in a child of fork, which has only the announcements of its
 * parent. */
__attribute__((destructor)) static void end(void)
{
    if (process != getpid()) {
        return;
    }
    (void)pthread_mutex_lock(&lock);
    for (struct domain *domain = domains; domain != NULL; domain = domain->next) {
        for (struct space *space = domain->spaces; space != NULL; space = space->next) {
            tell_left_over(&space->regions, "region", domain);
            tell_left_over(&space->heaps, "heap", domain);
            for (weir__range *heap = weir__tree_end(&space->heaps, 0); heap != NULL; heap = weir__tree_step(heap, 1)) {
                judge_lifetime((struct heap *)heap);
            }
        }
    }
    summarise();
    const bool any = all_findings() > 0;
    (void)pthread_mutex_unlock(&lock);
    const char *code = secure_getenv("WEIR_MSTX_CHECK_EXIT");
    if (any && code != NULL && code[0] != '\0') {
        (void)fflush(NULL);
        _exit((int)strtol(code, NULL, 10));
    }
}

struct module_entry {
    unsigned id;
    mstxFuncPointer function;
};

/* Writes functions into a module's table. Tables of older programs are shorter. */
static bool inject(mstxGetModuleFuncTableFunc get_table, mstxFuncModule module, const struct module_entry *entries,
                   size_t count)
{
    mstxFuncTable table = NULL;
    unsigned int size = 0;
    if (get_table(module, &table, &size) != MSTX_SUCCESS || table == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (entries[i].id < size && table[entries[i].id] != NULL) {
            *table[entries[i].id] = entries[i].function;
        }
    }
    return true;
}

#define MODULE_ENTRY(slot, id, result, parameters) {(id), (mstxFuncPointer)(slot)},
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

int InitInjectionMstx(mstxGetModuleFuncTableFunc get_table);

/* Called once by each announcing library of the process. */
__attribute__((visibility("default"))) int InitInjectionMstx(mstxGetModuleFuncTableFunc get_table)
{
    static const struct module_entry core[] = {MSTX_CORE_LIST(MODULE_ENTRY)};
    static const struct module_entry domain[] = {MSTX_DOMAIN_LIST(MODULE_ENTRY)};
    static const struct module_entry mem[] = {MSTX_MEM_LIST(MODULE_ENTRY)};
    if (get_table == NULL) {
        return MSTX_FAIL;
    }
    (void)pthread_once(&once, begin);
    const bool has_core = inject(get_table, MSTX_API_MODULE_CORE, core, COUNT(core));
    const bool has_domains = inject(get_table, MSTX_API_MODULE_CORE_DOMAIN, domain, COUNT(domain));
    const bool has_mem = inject(get_table, MSTX_API_MODULE_CORE_MEM, mem, COUNT(mem));
    return has_core || has_domains || has_mem ? MSTX_SUCCESS : MSTX_FAIL;
}
