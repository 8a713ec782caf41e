/* bindings/ascend/acl/src/registration.c: registers an attachment with ACL as a stream's allocator, and has the four
 * functions that ACL then calls.
 *
 * Idea: The block handle that ACL keeps is the weir_block pointer, so reading the address is one load, and a free needs
 * no lookup.
 *
 * Cost in addition to the pool's: one atomic addition for each alloc and for each free.
 */
#include "attachment.h"

#include <string.h>

#define KERNEL_READ_BYTES 32u /* bytes after the end of a tensor that a kernel may read */

uint64_t weir_acl_block_bytes(uint64_t size)
{
    /* Only the kernels of Ascend950 do not read past the end of a tensor. The chip never changes within a process. */
    static _Atomic int further = -1;
    int read = atomic_load_explicit(&further, memory_order_relaxed);
    if (read < 0) {
        const char *soc = UNCANCELLED(aclrtGetSocName());
        read = soc != NULL && strncmp(soc, "Ascend950", 9) == 0 ? 0 : (int)KERNEL_READ_BYTES;
        if (soc != NULL) {
            atomic_store_explicit(&further, read, memory_order_relaxed);
        }
    }
    if (size > UINT64_MAX - KERNEL_READ_BYTES * 2) {
        return 0;
    }
    return ((size + KERNEL_READ_BYTES - 1) & ~(uint64_t)(KERNEL_READ_BYTES - 1)) + (uint64_t)read;
}

/* --- the four callbacks --- */

/* Counts one block as given back. The thread that gives back the last block calls the idle callbacks. */
static void lower(weir_acl_attachment *self)
{
    if (atomic_fetch_sub(&self->live, 1) == 1) {
        weir__acl_became_idle();
    }
}

/* ACL makes one callback at a time for a stream, so counting its requests needs no atomic addition. */
static void count_request(weir_acl_attachment *self)
{
    const uint64_t before = atomic_load_explicit(&self->requests, memory_order_relaxed);
    atomic_store_explicit(&self->requests, before + 1, memory_order_relaxed);
}

static weir_status take(weir_acl_attachment *self, uint64_t size, weir_block **block)
{
    weir_status status = WEIR_ERR_INVALID;
    count_request(self);
    (void)atomic_fetch_add(&self->live, 1);
    if (!atomic_load(&self->closed)) {
        const uint64_t bytes = size != 0 ? weir_acl_block_bytes(size) : 0;
        status = weir_pool_alloc(atomic_load_explicit(&self->pool, memory_order_relaxed),
                                 atomic_load_explicit(&self->stream, memory_order_relaxed), bytes, 0, block);
        if (status == WEIR_OK) {
            return WEIR_OK;
        }
        (void)atomic_fetch_add_explicit(&self->failures, 1, memory_order_relaxed);
    } else {
        (void)weir_refuse(status, "weir_acl_attachment_alloc: attachment %p was detached, or its stream has ended",
                          (void *)self);
    }
    lower(self);
    return status;
}

static void *on_alloc(aclrtAllocator allocator, size_t size)
{
    weir_block *block = NULL;
    return allocator != NULL && take(allocator, size, &block) == WEIR_OK ? block : NULL;
}

/* The optional callback for an alloc with advice. weir always registers it, because the vendor's executor deadlocks
 * without it. `address` is only a hint and is ignored. */
static void *on_alloc_advise(aclrtAllocator allocator, size_t size, aclrtAllocatorAddr address)
{
    (void)address;
    return on_alloc(allocator, size);
}

/* Frees a block of a stream that is gone and has no work left. The block is freed in the order of the default stream,
 * which always exists. Unlike weir_pool_free_idle, that respects uses of the block by other streams. */
static weir_status free_orphan(weir_pool *pool, weir_block *block)
{
    weir_stream *any = NULL;
    if (weir_pool_stream(pool, NULL, &any) != WEIR_OK) {
        return weir_pool_free_idle(pool, block);
    }
    return weir_pool_free(pool, block, any);
}

static weir_status give(weir_acl_attachment *self, weir_block *block)
{
    weir_pool *pool = atomic_load_explicit(&self->pool, memory_order_acquire);
    weir_stream *stream = atomic_load(&self->stream);
    weir_status status = WEIR_ERR_INVALID;
    if (pool != NULL && stream != NULL) {
        status = weir_pool_free(pool, block, stream);
        stream = status == WEIR_OK ? stream : atomic_load(&self->stream);
    }
    if (pool != NULL && status != WEIR_OK && stream == NULL) {
        status = free_orphan(pool, block);
    }
    if (status == WEIR_OK) {
        lower(self);
    } else {
        (void)atomic_fetch_add_explicit(&self->refused_frees, 1, memory_order_relaxed);
    }
    return status;
}

static void on_free(aclrtAllocator allocator, aclrtAllocatorBlock acl_block)
{
    if (allocator != NULL) {
        (void)!give(allocator, acl_block);
    }
}

static void *on_get_address(aclrtAllocatorBlock acl_block)
{
    return acl_block != NULL ? (void *)(uintptr_t)weir_block_address(acl_block) : NULL;
}

/* --- alloc and free for engines with another allocator interface --- */

weir_status weir_acl_attachment_alloc(weir_acl_attachment *attachment, uint64_t size, weir_block **block)
{
    if (attachment == NULL || block == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_acl_attachment_alloc: %s is NULL",
                           attachment == NULL ? "attachment" : "block");
    }
    const weir_status status = take(attachment, size, block);
    return status == WEIR_ERR_INVALID && !atomic_load(&attachment->closed)
               ? weir_refuse(status, "weir_acl_attachment_alloc: size %llu is 0 or too large", (unsigned long long)size)
               : status;
}

weir_status weir_acl_attachment_free(weir_acl_attachment *attachment, weir_block *block)
{
    if (attachment == NULL || block == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_acl_attachment_free: %s is NULL",
                           attachment == NULL ? "attachment" : "block");
    }
    const weir_status status = give(attachment, block);
    return status == WEIR_ERR_INVALID
               ? weir_refuse(status, "weir_acl_attachment_free: block %p is no live block of the attachment's pool",
                             (void *)block)
               : status;
}

/* --- the runtime's registry --- */

weir_status weir__acl_registered(void *native, aclrtAllocator *owner)
{
    aclrtAllocatorDesc desc = NULL;
    *owner = NULL;
    const aclError code = UNCANCELLED(aclrtAllocatorGetByStream(native, &desc, owner, NULL, NULL, NULL, NULL));
    if (code == ACL_ERROR_INVALID_PARAM) {
        return WEIR_ERR_INVALID;
    }
    return weir__acl_result("aclrtAllocatorGetByStream", code);
}

weir_status weir__acl_leave_registry(void *native, const weir_acl_attachment *self)
{
    WEIR_ASSERT(self->registers && self->busy);
    aclrtAllocator owner = NULL;
    weir_status status = weir__acl_registered(native, &owner);
    if (status == WEIR_ERR_INVALID || (status == WEIR_OK && owner != self)) {
        return WEIR_OK;
    }
    return status == WEIR_OK ? ACL(aclrtAllocatorUnregister, native) : status;
}

static weir_status fill(aclrtAllocatorDesc desc, weir_acl_attachment *self)
{
    weir_status status = ACL(aclrtAllocatorSetObjToDesc, desc, self);
    if (status == WEIR_OK) {
        status = ACL(aclrtAllocatorSetAllocFuncToDesc, desc, on_alloc);
    }
    if (status == WEIR_OK) {
        status = ACL(aclrtAllocatorSetFreeFuncToDesc, desc, on_free);
    }
    if (status == WEIR_OK) {
        status = ACL(aclrtAllocatorSetAllocAdviseFuncToDesc, desc, on_alloc_advise);
    }
    if (status == WEIR_OK) {
        status = ACL(aclrtAllocatorSetGetAddrFromBlockFuncToDesc, desc, on_get_address);
    }
    return status;
}

static weir_status destroy_desc(void *owner, weir__leftover *left)
{
    (void)owner;
    return ACL(aclrtAllocatorDestroyDesc, left->object);
}

weir_status weir__acl_enter_registry(void *native, weir_acl_attachment *self)
{
    WEIR_ASSERT(self->registers && self->busy && self->state == ATTACHED);
    weir__leftover *left = weir__leftover_new(destroy_desc);
    if (left == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    aclrtAllocatorDesc desc = UNCANCELLED(aclrtAllocatorCreateDesc());
    if (desc == NULL) {
        free(left);
        return weir__acl_result("aclrtAllocatorCreateDesc", ACL_ERROR_BAD_ALLOC);
    }
    weir_status status = fill(desc, self);
    if (status == WEIR_OK) {
        status = ACL(aclrtAllocatorRegister, native, desc);
    }
    left->object = desc;
    (void)weir__leftovers_give(&weir__acl_left, NULL, left);
    return status;
}
