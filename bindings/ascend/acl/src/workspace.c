/* bindings/ascend/acl/src/workspace.c: the workspace of a stream, for operators whose caller brings the memory.
 *
 * Idea: the operators of a stream run one after the other, so one block serves all of them. The block lies in the
 * attachment of the pool to the stream; a stream without one gets an attachment that only follows it. A block that is
 * too small is freed in the order of the stream before the larger one is allocated, so the larger one may include it.
 *
 * Cost: a lock and a walk over the attachments; for a larger workspace also a free and an alloc.
 */
#include "attachment.h"

#include "shared/native_hint.h"

static const char asking[] = "weir_acl_workspace";
static const char releasing[] = "weir_acl_workspace_release";

/* Returns the attachment of the pool to the stream, or NULL. Waits while the attachment is marked busy. */
static weir_acl_attachment *find_locked(const weir_pool *pool, const void *native)
{
    WEIR_ASSERT(weir__acl_is_locked());
    for (weir_acl_attachment *one = weir__acl_first_locked(); one != NULL;) {
        const bool is_it = one->state == ATTACHED && one->native == native && atomic_load(&one->pool) == pool;
        if (is_it && !one->busy) {
            return one;
        }
        if (is_it) {
            weir__acl_wait_locked();
        }
        one = is_it ? weir__acl_first_locked() : one->next;
    }
    return NULL;
}

/* Replaces the workspace by a larger one. `self` is busy; the lock is not held. */
static weir_status exchange(weir_acl_attachment *self, uint64_t bytes)
{
    WEIR_ASSERT(self->busy && self->state == ATTACHED && bytes > 0);
    weir__acl_free_workspace(self);
    return weir_pool_alloc(atomic_load(&self->pool), atomic_load(&self->stream), bytes, 0, &self->workspace);
}

/* Stores a workspace of `bytes` bytes or more in *workspace; without an attachment to the stream only clears *found. */
static weir_status serve(const weir_pool *pool, const void *native, uint64_t bytes, bool *found, void **workspace)
{
    weir_status status = WEIR_OK;
    weir__acl_lock();
    weir_acl_attachment *self = find_locked(pool, native);
    *found = self != NULL;
    if (*found && (self->workspace == NULL || weir_block_capacity(self->workspace) < bytes)) {
        self->busy = true;
        weir__acl_unlock();
        status = exchange(self, bytes);
        weir__acl_lock();
        self->busy = false;
        weir__acl_changed_locked();
    }
    if (*found && status == WEIR_OK) {
        WEIR_ASSERT(self->workspace != NULL && weir_block_capacity(self->workspace) >= bytes);
        *workspace = (void *)(uintptr_t)weir_block_address(self->workspace);
    }
    weir__acl_unlock();
    return status;
}

static weir_status follow_and_serve(weir_pool *pool, void *native, uint64_t bytes, void **workspace)
{
    static const weir__acl_role role = {.function = asking};
    weir_acl_attachment *made = NULL;
    bool found = false;
    weir_status status = serve(pool, native, bytes, &found, workspace);
    while (!found && status == WEIR_OK) {
        status = weir__acl_attach(&role, pool, native, &made);
        if (status == WEIR_OK || status == WEIR_ERR_BUSY) { /* busy: another thread has attached the pool meanwhile */
            status = serve(pool, native, bytes, &found, workspace);
        }
    }
    return status;
}

weir_status weir_acl_workspace(weir_pool *pool, void *acl_stream, uint64_t size, void **workspace)
{
    const weir_status status = weir__hint_check(asking, pool, workspace, "workspace");
    const uint64_t bytes = weir_acl_block_bytes(size);
    if (status != WEIR_OK) {
        return status;
    }
    if (bytes == 0) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: size %llu is too large", asking, (unsigned long long)size);
    }
    if (size == 0) {
        *workspace = NULL;
        return WEIR_OK;
    }
    void *native = NULL;
    const weir_status resolved = weir__acl_resolve(acl_stream, &native);
    return resolved == WEIR_OK ? follow_and_serve(pool, native, bytes, workspace) : resolved;
}

/* Finds an attachment of the pool that has a workspace or was made by weir_acl_workspace, and marks it busy. Sets *busy
 * if another thread has marked it. */
static weir_acl_attachment *take_one(const weir_pool *pool, bool *busy)
{
    weir__acl_lock();
    weir_acl_attachment *self = weir__acl_first_locked();
    while (self != NULL && (atomic_load(&self->pool) != pool || self->is_device ||
                            (self->workspace == NULL && (self->is_held || self->device != NULL)))) {
        self = self->next;
    }
    *busy = self != NULL && self->busy;
    if (self != NULL && !*busy) {
        self->busy = true;
    }
    weir__acl_unlock();
    return self;
}

weir_status weir_acl_workspace_release(weir_pool *pool)
{
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: pool is NULL", releasing);
    }
    if (weir__acl_in_child()) {
        return WEIR_OK;
    }
    weir_status status = WEIR_OK;
    bool busy = false;
    for (weir_acl_attachment *self; status == WEIR_OK && (self = take_one(pool, &busy)) != NULL;) {
        if (busy) {
            return weir_refuse(WEIR_ERR_BUSY, "%s: another thread works on a stream of the pool, or destroys it",
                               releasing);
        }
        if (!self->is_held && self->device == NULL) {
            status = weir__acl_take_off(self);
        } else {
            weir__acl_free_workspace(self);
            weir__acl_lock();
            self->busy = false;
            weir__acl_changed_locked();
            weir__acl_unlock();
        }
    }
    return status;
}
