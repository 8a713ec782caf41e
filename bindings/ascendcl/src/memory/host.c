/* host.c: page-locked host memory and registered host memory.
 *
 * Idea: pinned memory is ordinary memory of the process, mapped in whole pages. If the environment sets NUMA nodes, the
 * kernel is asked to place the pages on the node of the calling thread; otherwise it places them freely. The pages
 * are not locked: the simulator reads and writes them like any memory. Registering records a range and touches no page
 * of it, so the placement that the owner chose stays. A registered range has the same address on the device and on the
 * host.
 *
 * Fresh pinned memory is full of poison (shared/poison.h), as memory that the driver has pinned before is not zero.
 *
 * Guarantee: memory freed while queued work may still copy from or to it keeps its addresses until that work is over,
 * with other contents: a program that frees too early reads zeros and does not crash.
 *
 * Cost: pinning and unpinning take virtual time for each MiB, as they do on a host, so a pool of pinned memory pays
 * off.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1 /* mincore, MAP_ANONYMOUS, memfd_create, syscall */
#endif

#include "memory/memory.h"

#include "base/report.h"
#include "shared/poison.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct pinned {
    struct pinned *next; /* list of pinned memory that the program freed while device work was under way */
    void *start;
    size_t size;
    uint64_t over_ns; /* virtual end time of the work that was under way when the program freed the memory */
    bool over_is_known;
};

static struct pinned *freed_early;
static uint64_t taken_bytes;

static uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

/* Virtual time of page-locking a MiB of host memory, and of undoing it. */
enum { pin_ns_per_mib = 280000, unpin_ns_per_mib = 95000 };

static void pay(uint64_t bytes, uint64_t ns_per_mib)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const uint64_t mib = (bytes + (1 << 20) - 1) >> 20;
    weir_sim_advance(acl__rt.sim, mib < UINT64_MAX / ns_per_mib ? mib * ns_per_mib : UINT64_MAX);
}

bool acl__host_take(uint64_t bytes)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const uint64_t addresses = UINT64_C(8) << 40; /* of the vendor's driver */
    const uint64_t most = acl__rt.config.host_bytes != 0 ? acl__rt.config.host_bytes : addresses;
    if (taken_bytes > most || bytes > most - taken_bytes) {
        return false;
    }
    taken_bytes += bytes;
    return true;
}

void acl__host_give(uint64_t bytes)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(bytes <= taken_bytes);
    taken_bytes -= bytes;
}

/* --- real memory --- */

static uint64_t alignment(void)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return acl__rt.config.pin_page_bytes > page ? acl__rt.config.pin_page_bytes : page;
}

/* Fills fresh pages with poison, unless the program wants zeros. */
static bool poison(void *start, size_t size)
{
    static int file = -1;
    WEIR_ASSERT_HELD(acl__mutex());
    if (acl__rt.config.pinned_zero) {
        return true;
    }
    file = file >= 0 ? file : poison_open("weir-ascendcl-pinned");
    return file >= 0 && poison_map(file, start, size);
}

/* Maps fresh pages at a multiple of `align`, a power of two and a multiple of the page. NULL: out of memory. */
static void *map_pages(size_t size, size_t align)
{
    WEIR_ASSERT(size > 0 && align > 0 && (align & (align - 1)) == 0);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t spare = align - page;
    char *start = mmap(NULL, size + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) {
        return NULL;
    }
    char *aligned = start + (align - address_of(start) % align) % align;
    if (aligned > start) {
        (void)munmap(start, (size_t)(aligned - start));
    }
    if (spare > (size_t)(aligned - start)) {
        (void)munmap(aligned + size, spare - (size_t)(aligned - start));
    }
    if (!poison(aligned, size)) {
        (void)munmap(aligned, size);
        return NULL;
    }
    return aligned;
}

/* Returns the node of the calling thread's processor, as CANN's driver does, which ignores the thread's memory policy
 * (hicann/driver, sdk_driver/svm/svm_host_adapt.h). */
static uint32_t node_here(void)
{
    unsigned node = 0;
#if defined(SYS_getcpu)
    (void)syscall(SYS_getcpu, NULL, &node, NULL);
#endif
    return node;
}

/* Asks the kernel to place the pages on a node. The kernel may choose another node, for example on a machine without
 * that node. */
static void prefer_node(void *start, size_t size, uint32_t node)
{
#if defined(SYS_mbind)
    enum { PREFERRED = 1, BITS = 8 * sizeof(unsigned long), WORDS = 1024 / BITS };
    unsigned long mask[WORDS] = {0};
    if (node < 1024) {
        mask[node / BITS] = 1UL << (node % BITS);
        (void)syscall(SYS_mbind, start, size, PREFERRED, mask, 1024UL + 1, 0U);
    }
#else
    (void)start;
    (void)size;
    (void)node;
#endif
}

/* True if every page of a range is mapped. */
static bool is_mapped(const void *start, uint64_t size)
{
    enum { STEP_PAGES = 16384 };
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    unsigned char resident[STEP_PAGES];
    const uint64_t first = address_of(start) / page * page;
    if (size > UINT64_MAX - page || address_of(start) > UINT64_MAX - page - size) {
        return false;
    }
    const uint64_t end = (address_of(start) + size + page - 1) / page * page;
    for (uint64_t at = first; at < end; at += STEP_PAGES * page) {
        const uint64_t step = end - at < STEP_PAGES * page ? end - at : STEP_PAGES * page;
        if (mincore((void *)(uintptr_t)at, step, resident) != 0) {
            return false;
        }
    }
    return true;
}

/* --- memory freed while a copy may still touch it --- */

static uint64_t latest_end(void)
{
    uint64_t latest = 0;
    for (const acl__stream *stream = acl__rt.first_stream; stream != NULL; stream = stream->next) {
        const uint64_t tail = weir_sim_stream_tail(acl__rt.sim, stream->sim);
        latest = tail > latest ? tail : latest;
    }
    return latest;
}

static void look_for_end(struct pinned *p)
{
    WEIR_ASSERT_HELD(acl__mutex());
    if (!p->over_is_known && acl__rt.held_tasks == 0) {
        p->over_ns = latest_end();
        p->over_is_known = true;
    }
}

static bool is_over(struct pinned *p)
{
    look_for_end(p);
    return p->over_is_known && p->over_ns <= weir_sim_now(acl__rt.sim);
}

static void unmap(struct pinned *p)
{
    WEIR_ASSERT(p->over_is_known);
    (void)munmap(p->start, p->size);
    free(p);
}

static void sweep(void)
{
    WEIR_ASSERT_HELD(acl__mutex());
    for (struct pinned **link = &freed_early; *link != NULL;) {
        struct pinned *p = *link;
        if (is_over(p)) {
            *link = p->next;
            unmap(p);
        } else {
            link = &p->next;
        }
    }
}

static void pages_free(struct pinned *p)
{
    WEIR_ASSERT_HELD(acl__mutex());
    if (is_over(p)) {
        unmap(p);
        return;
    }
    (void)mmap(p->start, p->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
               0);
    p->next = freed_early;
    freed_early = p;
}

/* --- pinned memory --- */

static aclError too_much(const char *name, uint64_t size)
{
    return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: %llu bytes in one call are more than %llu", name,
                     (unsigned long long)size, (unsigned long long)acl__rt.config.pin_limit_bytes);
}

static bool is_above_limit(uint64_t size)
{
    return acl__rt.config.pin_limit_bytes != 0 && size > acl__rt.config.pin_limit_bytes;
}

static aclError pin(uint64_t size, int32_t device, const char *name, void **pointer)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(size > 0);
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    sweep();
    if (is_above_limit(size)) {
        return too_much(name, size);
    }
    const uint64_t bytes = size <= SIZE_MAX / 2 ? (size + page - 1) / page * page : UINT64_MAX;
    const bool fits = acl__host_take(bytes);
    struct pinned *p = fits ? calloc(1, sizeof(*p)) : NULL;
    void *start = p != NULL ? map_pages(bytes, alignment()) : NULL;
    acl__range *range =
        start != NULL ? acl__range_add(&acl__rt.host_memory, ACL__PINNED, address_of(start), bytes) : NULL;
    if (range == NULL) {
        if (start != NULL) {
            (void)munmap(start, bytes);
        }
        free(p);
        acl__host_give(fits ? bytes : 0);
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: the host has no %llu bytes", name,
                         (unsigned long long)size);
    }
    if (acl__rt.config.numa_nodes > 0) {
        prefer_node(start, bytes, node_here());
    }
    weir_sim_host_alloc(acl__rt.sim, start, bytes);
    p->start = start;
    p->size = bytes;
    range->device = device;
    range->asked_bytes = size;
    range->owner = p;
    pay(bytes, pin_ns_per_mib);
    *pointer = start;
    return ACL_SUCCESS;
}

/* --- copies under way --- */

enum { SETS = 2 };

static acl__range *range_in(size_t set, const void *pointer)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(set < SETS);
    return acl__range_at(set == 0 ? &acl__rt.host_memory : &acl__rt.registered, pointer);
}

void acl__host_copy_queued(const void *pointer, int32_t change)
{
    WEIR_ASSERT(change == 1 || change == -1);
    for (size_t set = 0; set < SETS; set++) {
        acl__range *range = range_in(set, pointer);
        if (range != NULL && (change > 0 || range->queued_copies > 0)) {
            range->queued_copies += (uint32_t)change;
        }
    }
}

uint64_t acl__host_serial(const void *pointer)
{
    const acl__range *pinned = range_in(0, pointer);
    const acl__range *range = pinned != NULL ? pinned : range_in(1, pointer);
    return range != NULL ? range->serial : 0;
}

/* Judges host memory that goes. The simulator knows the copies that the device has, the range the others. */
static void judge_end(const acl__range *range, const char *name)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const uint64_t size = range->range.end - range->range.start;
    if (range->queued_copies > 0) {
        acl__report_host_memory(name, range->range.start, size, "while a queued copy has to wait before it uses it");
    }
    weir_sim_host_free(acl__rt.sim, (const void *)(uintptr_t)range->range.start, size, name);
}

static aclError malloc_host(void **pointer, uint64_t size, const char *name)
{
    ACL_HOLD_LOCK();
    ACL_NEED_CONTEXT(context);
    return pin(size, context->device, name, pointer);
}

ACL_EXPORT aclError aclrtMallocHost(void **hostPtr, size_t size)
{
    ACL_ENTER(aclrtMallocHost);
    ACL_REFUSE_IF(size == 0, ACL_ERROR_INVALID_PARAM, "size 0");
    ACL_NEED(hostPtr);
    return malloc_host(hostPtr, size, __func__);
}

/* Checks the attributes. Only two attributes are allowed for host memory, and they have no effect. */
static aclError check_attributes(const aclrtMallocConfig *cfg)
{
    ACL_FAIL_IF(cfg != NULL && cfg->attrs == NULL, ACL_ERROR_RT_PARAM_INVALID,
                "aclrtMallocHostWithCfg: the attributes are at NULL");
    for (size_t i = 0; cfg != NULL && i < cfg->numAttrs; i++) {
        ACL_FAIL_IF(cfg->attrs[i].attr != ACL_RT_MEM_ATTR_MODULE_ID && cfg->attrs[i].attr != ACL_RT_MEM_ATTR_VA_FLAG,
                    ACL_ERROR_RT_PARAM_INVALID, "aclrtMallocHostWithCfg: attribute %d is not for host memory",
                    (int)cfg->attrs[i].attr);
    }
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMallocHostWithCfg(void **ptr, uint64_t size, aclrtMallocConfig *cfg)
{
    ACL_ENTER(aclrtMallocHostWithCfg);
    ACL_REFUSE_IF(size == 0, ACL_ERROR_INVALID_PARAM, "size 0");
    ACL_NEED(ptr);
    ACL_TRY(check_attributes(cfg));
    return malloc_host(ptr, size, __func__);
}

/* Returns the first registered range that overlaps [start, start + size), or NULL. */
static acl__range *registered_in(uint64_t start, uint64_t size)
{
    WEIR_ASSERT_HELD(acl__mutex());
    weir__interval *r = weir__intervals_after(&acl__rt.registered, start);
    return r != NULL && r->start < start + size ? (acl__range *)(void *)r : NULL;
}

aclError acl__host_free(void *pointer)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__range *range = acl__range_at(&acl__rt.host_memory, pointer);
    ACL_FAIL_IF(range == NULL || range->range.start != address_of(pointer), ACL_ERROR_RT_PARAM_INVALID,
                "aclrtFreeHost: %p is not what aclrtMallocHost gave, or was freed", pointer);
    const uint64_t size = range->range.end - range->range.start;
    ACL_FAIL_IF(registered_in(range->range.start, size) != NULL, ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                "aclrtFreeHost: %p is registered: aclrtHostUnregister comes first", pointer);
    struct pinned *p = range->owner;
    WEIR_ASSERT(p != NULL && p->start == pointer && p->size == size);
    judge_end(range, "aclrtFreeHost");
    acl__range_remove(&acl__rt.host_memory, range);
    acl__host_give(size);
    pages_free(p);
    sweep();
    pay(size, unpin_ns_per_mib);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtFreeHost(void *hostPtr)
{
    ACL_ENTER_LOCKED(aclrtFreeHost);
    ACL_NEED(hostPtr);
    return acl__host_free(hostPtr);
}

ACL_EXPORT aclError aclrtFreeHostWithDevSync(void *hostPtr)
{
    ACL_ENTER_LOCKED(aclrtFreeHostWithDevSync);
    ACL_NEED(hostPtr);
    const acl__range *range = acl__range_at(&acl__rt.host_memory, hostPtr);
    const aclError waited = range != NULL ? acl__device_wait(range->device, -1) : ACL_SUCCESS;
    const aclError freed = acl__host_free(hostPtr);
    return waited != ACL_SUCCESS ? waited : freed;
}

/* --- registered memory --- */

static bool contains(const acl__range *range, uint64_t start, uint64_t size)
{
    WEIR_ASSERT(range == NULL || (start >= range->range.start && start < range->range.end));
    return range != NULL && range->range.end - start >= size;
}

enum { REACH = ACL_HOST_REG_MAPPED | ACL_HOST_REG_IOMEMORY | ACL_HOST_REG_READONLY };

/* Registers a range. `flags`: those of aclrtHostRegisterV2, which has an error code for ranges that are registered
 * already; or 0 for aclrtHostRegister, which returns the driver's error. */
static aclError register_memory(void *pointer, uint64_t size, uint32_t flags, const char *name)
{
    const bool mapped = flags == 0 || (flags & REACH) != 0; /* false: only pinned */
    ACL_HOLD_LOCK();
    ACL_NEED_CONTEXT(context);
    const uint64_t start = address_of(pointer);
    ACL_FAIL_IF(start % acl__rt.config.pin_page_bytes != 0, ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                "%s: %p is no multiple of the page of %llu bytes", name, pointer,
                (unsigned long long)acl__rt.config.pin_page_bytes);
    if (is_above_limit(size)) {
        return too_much(name, size);
    }
    ACL_FAIL_IF(size > UINT64_MAX - start || !is_mapped(pointer, size), ACL_ERROR_RT_INVALID_HANDLE,
                "%s: %llu bytes at %p are not all memory of this process", name, (unsigned long long)size, pointer);
    const weir__interval *device = weir__intervals_after(&acl__rt.device_memory, start);
    ACL_FAIL_IF(device != NULL && device->start < start + size, ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                "%s: %p is device memory", name, pointer);
    ACL_FAIL_IF(registered_in(start, size) != NULL,
                flags != 0 ? ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED : ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                "%s: some of %llu bytes at %p are registered already", name, (unsigned long long)size, pointer);
    const bool is_pinned = contains(acl__range_at(&acl__rt.host_memory, pointer), start, size);
    ACL_FAIL_IF(is_pinned && (flags & ACL_HOST_REG_PINNED) != 0, ACL_ERROR_RT_PARAM_INVALID, "%s: %p is pinned already",
                name, pointer);
    acl__range *range = acl__range_add(&acl__rt.registered, ACL__REGISTERED, start, size);
    ACL_FAIL_IF(range == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: no host memory", name);
    range->device = context->device;
    range->asked_bytes = size;
    range->owner = mapped ? pointer : NULL;
    if (!is_pinned) {
        weir_sim_host_alloc(acl__rt.sim, pointer, size);
    }
    pay(is_pinned ? 0 : size, pin_ns_per_mib);
    return ACL_SUCCESS;
}

/* The vendor's driver refuses two options: memory of other PCIe devices, and memory that the device may only read. */
static aclError check_kinds(uint64_t kinds, uint64_t iomemory, uint64_t readonly, const char *name)
{
    return (kinds & (iomemory | readonly)) != 0
               ? acl__fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: IOMEMORY and READONLY are not supported", name)
               : ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr)
{
    ACL_ENTER(aclrtHostRegister);
    ACL_NEED(ptr);
    ACL_NEED(devPtr);
    ACL_REFUSE_IF(size == 0, ACL_ERROR_INVALID_PARAM, "size 0");
    ACL_REFUSE_IF(((uint32_t)type & ~(uint32_t)(ACL_HOST_REGISTER_IOMEMORY | ACL_HOST_REGISTER_READONLY)) != 0,
                  ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "there is no type %d", (int)type);
    ACL_TRY(check_kinds((uint32_t)type, ACL_HOST_REGISTER_IOMEMORY, ACL_HOST_REGISTER_READONLY, __func__));
    ACL_TRY(register_memory(ptr, size, 0, __func__));
    *devPtr = ptr;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag)
{
    ACL_ENTER(aclrtHostRegisterV2);
    ACL_NEED(ptr);
    ACL_REFUSE_IF(size == 0, ACL_ERROR_INVALID_PARAM, "size 0");
    ACL_REFUSE_IF(flag == 0 || (flag & ~(REACH | (uint32_t)ACL_HOST_REG_PINNED)) != 0, ACL_ERROR_RT_PARAM_INVALID,
                  "0x%x is no combination of flags", flag);
    ACL_TRY(check_kinds(flag, ACL_HOST_REG_IOMEMORY, ACL_HOST_REG_READONLY, __func__));
    return register_memory(ptr, size, flag, __func__);
}

ACL_EXPORT aclError aclrtHostUnregister(void *ptr)
{
    ACL_ENTER_LOCKED(aclrtHostUnregister);
    ACL_NEED(ptr);
    ACL_NEED_CONTEXT(context);
    acl__range *range = acl__range_at(&acl__rt.registered, ptr);
    ACL_REFUSE_IF(range == NULL || range->range.start != address_of(ptr), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED,
                  "%p is not registered", ptr);
    const uint64_t size = range->range.end - range->range.start;
    const bool was_pinned = contains(acl__range_at(&acl__rt.host_memory, ptr), range->range.start, size);
    judge_end(range, __func__);
    acl__range_remove(&acl__rt.registered, range);
    pay(was_pinned ? 0 : size, unpin_ns_per_mib);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtHostGetDevicePointer(void *pHost, void **pDevice, uint32_t flag)
{
    ACL_ENTER_LOCKED(aclrtHostGetDevicePointer);
    ACL_NEED(pHost);
    ACL_NEED(pDevice);
    ACL_REFUSE_IF(flag != 0, ACL_ERROR_INVALID_PARAM, "the flag must be 0");
    ACL_NEED_CONTEXT(context);
    const acl__range *range = acl__range_at(&acl__rt.registered, pHost);
    ACL_REFUSE_IF(range == NULL || range->owner == NULL, ACL_ERROR_RT_PARAM_INVALID,
                  "%p is not registered for the device to reach", pHost);
    *pDevice = pHost;
    return ACL_SUCCESS;
}

bool acl__is_pinned(const void *pointer, uint64_t size)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const uint64_t start = address_of(pointer);
    return contains(acl__range_at(&acl__rt.host_memory, pointer), start, size) ||
           contains(acl__range_at(&acl__rt.registered, pointer), start, size);
}
