/* bindings/ascend/acl/src/host.c: pinned host memory of the ACL runtime, for weir/host.h.
 *
 * Idea: each function is one ACL call in a context of the device, which is current for the length of the call.
 *
 * Guarantee: memory that is handed out begins at a page. The runtime promises an alignment of 64 bytes only. If its
 * memory begins at no page, the binding requests one page more, and a list keeps the address that ACL takes back.
 */
#include "acl_internal.h"

#include <stdlib.h>
#include <unistd.h>

/* Memory of ACL that does not begin at a page. The caller gets the address `page`; ACL takes back `start`. */
struct shifted {
    struct shifted *next;
    void *page;
    void *start;
};

static struct shifted *all_shifted; /* under the binding's lock */

static uintptr_t page_bytes(void)
{
    const long page = sysconf(_SC_PAGESIZE);
    return page > 0 ? (uintptr_t)page : 4096;
}

static bool begins_a_page(const void *memory)
{
    return (uintptr_t)memory % page_bytes() == 0;
}

static weir_status malloc_shifted(uint64_t size, void **memory)
{
    struct shifted *entry = malloc(sizeof(*entry));
    if (entry == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    void *start = NULL;
    const weir_status status = ACL(aclrtMallocHost, &start, (size_t)size + page_bytes());
    if (status != WEIR_OK) {
        free(entry);
        return status;
    }
    entry->start = start;
    entry->page = (char *)start + (page_bytes() - (uintptr_t)start % page_bytes()) % page_bytes();
    *memory = entry->page;
    weir__acl_lock();
    entry->next = all_shifted;
    all_shifted = entry;
    weir__acl_unlock();
    return WEIR_OK;
}

/* Removes and returns the list entry with the page `memory`. NULL: there is no entry, because the memory begins at the
 * address that ACL gave. */
static struct shifted *take_entry(const void *memory)
{
    weir__acl_lock();
    struct shifted **link = &all_shifted;
    while (*link != NULL && (*link)->page != memory) {
        link = &(*link)->next;
    }
    struct shifted *entry = *link;
    if (entry != NULL) {
        *link = entry->next;
    }
    weir__acl_unlock();
    return entry;
}

static weir_status free_left(void *owner, weir__leftover *left)
{
    WEIR_ASSERT(left->object != NULL);
    (void)owner;
    return ACL(aclrtFreeHost, left->object);
}

static weir_status malloc_pages(uint64_t size, void **memory)
{
    weir__leftover *odd = weir__leftover_new(free_left);
    if (odd == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    const weir_status status = ACL(aclrtMallocHost, memory, (size_t)size);
    if (status == WEIR_OK && !begins_a_page(*memory)) {
        odd->object = *memory;
        (void)weir__leftovers_give(&weir__acl_left, NULL, odd);
        return malloc_shifted(size, memory);
    }
    free(odd);
    return status;
}

static weir_status pinned_alloc(void *ctx, uint64_t size, void **memory)
{
    void *got = NULL;
    weir__acl_settle(ctx);
    const weir_status status = IN_CONTEXT(ctx, malloc_pages(size, &got));
    if (status == WEIR_OK) {
        *memory = got;
    }
    return status;
}

static weir_status pinned_free(void *ctx, void *memory, uint64_t size)
{
    (void)ctx, (void)size; /* no context is needed */
    struct shifted *entry = take_entry(memory);
    const weir_status status = ACL(aclrtFreeHost, entry != NULL ? entry->start : memory);
    if (status == WEIR_OK || entry == NULL) {
        free(entry);
        return status;
    }
    weir__acl_lock();
    entry->next = all_shifted;
    all_shifted = entry;
    weir__acl_unlock();
    return status;
}

static weir_status register_pinned(void *memory, uint64_t size)
{
    const weir__kept_sentence sentence = weir__sentence_keep();
    const weir_status status =
        ACL(aclrtHostRegisterV2, memory, size, (uint32_t)(ACL_HOST_REG_PINNED | ACL_HOST_REG_MAPPED));
    void *on_device = NULL;
    if (status != WEIR_ERR_UNSUPPORTED) {
        return status;
    }
    weir__sentence_restore(&sentence);
    return ACL(aclrtHostRegister, memory, size, ACL_HOST_REGISTER_MAPPED, &on_device);
}

static weir_status memory_register(void *ctx, void *memory, uint64_t size)
{
    return IN_CONTEXT(ctx, register_pinned(memory, size));
}

static weir_status memory_unregister(void *ctx, void *memory, uint64_t size)
{
    (void)size;
    return IN_CONTEXT(ctx, ACL(aclrtHostUnregister, memory));
}

static const weir_host_runtime_ops ops = {
    .struct_size = sizeof(ops),
    .pinned_alloc = pinned_alloc,
    .pinned_free = pinned_free,
    .memory_register = memory_register,
    .memory_unregister = memory_unregister,
};

weir_status weir_acl_host_runtime(weir_device *device, weir_host_runtime *runtime)
{
    static const char function[] = "weir_acl_host_runtime";
    weir__acl_device *self = device != NULL ? weir__acl_device_of(device) : NULL;
    if (runtime == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: runtime is NULL", function);
    }
    if (self == NULL) {
        return weir__native_refuse_device(function, device, "weir_acl_device_create");
    }
    *runtime = (weir_host_runtime){.struct_size = sizeof(*runtime), .ops = &ops, .ctx = self, .device = device};
    return WEIR_OK;
}
