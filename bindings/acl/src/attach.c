/* bindings/acl/src/attach.c: a pool as the allocator of ACL streams.
 *
 * Idea: ACL's rule that one allocator must not serve two streams at once is about the object it was given. So each
 * stream gets an object of its own, an attachment, and the pool behind them is safe. A block, to ACL, is the weir_block
 * itself: its address is one load and its free needs no lookup.
 *
 * Guarantees. A registration never outlives its stream or its attachment, whichever goes first. An attachment's memory
 * is never freed but used again, after 64 others: an executor that kept the object calls into valid memory and gets
 * NULL, and a handle that is detached twice is recognised. While live > 0 the pool is held and neither goes.
 *
 *     live = blocks that ACL holds + callbacks that are under way; `closed` forbids new ones:
 *     alloc raises live, then reads closed; detach sets closed, then reads live. One of the two sees the other.
 *
 * Cost of an allocation beyond the pool's: one atomic addition, and one for the free.
 *
 * An attachment's life, under the lock of stream_registry.c. `moving`: a thread is at work on it without the lock.
 *
 *     ATTACHED --detach--> DETACHED
 *     ATTACHED --the stream is being destroyed--> GONE --detach--> DETACHED
 */
#include "acl_internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL_READ_BYTES 32u /* that a kernel may read behind a tensor */
#define RETIRED_KEPT 64u

enum state { DETACHED, ATTACHED, GONE };

struct weir_acl_attachment {
    /* What the callbacks read. */
    _Atomic(weir_pool *) pool;     /* NULL: detached */
    _Atomic(weir_stream *) stream; /* NULL: the ACL stream is gone */
    atomic_bool closed;
    _Atomic int64_t live;
    _Atomic uint64_t failures;
    _Atomic uint64_t refused_frees;

    /* Under the lock. */
    enum state state;
    bool moving;
    bool registers;       /* ATTACHED: as the stream's allocator; else it only follows the stream */
    bool watched;         /* ATTACHED: stream_registry.c has a note of it */
    void *native;         /* ATTACHED */
    void *old_native;     /* GONE: what `native` was; NULL once a stream with the same handle has been created */
    aclrtContext context; /* ATTACHED: the stream's; NULL: there was none */
    bool unended;         /* GONE: the pool must still be told that the stream's work is over */
    void *left_on;        /* GONE: the handle on which the runtime refused to take the registration away */
    weir_acl_attachment *next;
};

/* All that were ever made: in use, and, the last detached at the end, those to be used again. */
static weir_acl_attachment *in_use;
static weir_acl_attachment *retired;
static weir_acl_attachment **retired_end = &retired;
static size_t retired_count;
static _Atomic uint64_t epoch;

uint64_t weir_acl_epoch(void)
{
    return atomic_load(&epoch);
}

void weir__acl_next_epoch(void)
{
    (void)atomic_fetch_add(&epoch, 1);
}

uint64_t weir_acl_block_bytes(uint64_t size)
{
    /* The one chip whose kernels do not read further; the answer never changes in a process. */
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

static void *on_alloc(aclrtAllocator allocator, size_t size)
{
    weir_acl_attachment *self = allocator;
    if (self == NULL) {
        return NULL;
    }
    weir_block *block = NULL;
    (void)atomic_fetch_add(&self->live, 1);
    if (!atomic_load(&self->closed)) {
        const uint64_t bytes = size != 0 ? weir_acl_block_bytes(size) : 0;
        if (weir_pool_alloc(atomic_load_explicit(&self->pool, memory_order_relaxed),
                            atomic_load_explicit(&self->stream, memory_order_relaxed), bytes, 0, &block) == WEIR_OK) {
            return block;
        }
        (void)atomic_fetch_add_explicit(&self->failures, 1, memory_order_relaxed);
    }
    (void)atomic_fetch_sub(&self->live, 1);
    return NULL;
}

/* Never left out: without it the vendor's executor locks itself up. The hint is not used. */
static void *on_alloc_advise(aclrtAllocator allocator, size_t size, aclrtAllocatorAddr address)
{
    (void)address;
    return on_alloc(allocator, size);
}

/* The stream is gone and its work over: the block goes back in the order of the default stream, which always is there
 * and which, unlike weir_pool_free_idle, respects that other streams may have been named for the block. */
static weir_status free_orphan(weir_pool *pool, weir_block *block)
{
    weir_stream *any = NULL;
    if (weir_pool_stream(pool, NULL, &any) != WEIR_OK) {
        return weir_pool_free_idle(pool, block);
    }
    return weir_pool_free(pool, block, any);
}

static void on_free(aclrtAllocator allocator, aclrtAllocatorBlock acl_block)
{
    weir_acl_attachment *self = allocator;
    weir_block *block = acl_block;
    if (self == NULL) {
        return;
    }
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
        (void)atomic_fetch_sub(&self->live, 1);
    } else {
        (void)atomic_fetch_add_explicit(&self->refused_frees, 1, memory_order_relaxed);
    }
}

static void *on_get_address(aclrtAllocatorBlock acl_block)
{
    return acl_block != NULL ? (void *)(uintptr_t)weir_block_address(acl_block) : NULL;
}

/* --- the runtime's registry --- */

/* The registration on a stream: WEIR_OK and whose it is, WEIR_ERR_INVALID if there is none. */
static weir_status registered(void *native, aclrtAllocator *owner)
{
    aclrtAllocatorDesc desc = NULL;
    *owner = NULL;
    const aclError code = UNCANCELLED(aclrtAllocatorGetByStream(native, &desc, owner, NULL, NULL, NULL, NULL));
    if (code == ACL_ERROR_INVALID_PARAM) {
        return WEIR_ERR_INVALID;
    }
    return weir__acl_result("aclrtAllocatorGetByStream", code);
}

/* What somebody else registered since is left alone. */
static weir_status unregister(void *native, const weir_acl_attachment *self)
{
    aclrtAllocator owner = NULL;
    weir_status status = registered(native, &owner);
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

/* ACL copies the description. */
static weir_status enter_registry(void *native, weir_acl_attachment *self)
{
    aclrtAllocatorDesc desc = UNCANCELLED(aclrtAllocatorCreateDesc());
    if (desc == NULL) {
        return weir__acl_result("aclrtAllocatorCreateDesc", ACL_ERROR_BAD_ALLOC);
    }
    weir_status status = fill(desc, self);
    if (status == WEIR_OK) {
        status = ACL(aclrtAllocatorRegister, native, desc);
    }
    (void)ACL_TWICE(aclrtAllocatorDestroyDesc, desc);
    return status;
}

/* --- attachments (the lock is held) --- */

static weir_acl_attachment *attached_to(const void *native)
{
    weir_acl_attachment *found = in_use;
    while (found != NULL && (found->state != ATTACHED || found->native != native)) {
        found = found->next;
    }
    return found;
}

/* A stream has one allocator, and one attachment for each pool, so that it is clear who forgets the stream. */
static bool is_taken(const void *native, bool registers, const weir_pool *pool)
{
    for (weir_acl_attachment *other = in_use; other != NULL; other = other->next) {
        if (other->state == ATTACHED && other->native == native &&
            ((registers && other->registers) || atomic_load(&other->pool) == pool)) {
            return true;
        }
    }
    return false;
}

static bool is_in(const weir_acl_attachment *list, const weir_acl_attachment *wanted)
{
    while (list != NULL && list != wanted) {
        list = list->next;
    }
    return list != NULL;
}

static weir_acl_attachment *take_unused(void)
{
    if (retired_count <= RETIRED_KEPT) {
        return calloc(1, sizeof(weir_acl_attachment));
    }
    weir_acl_attachment *oldest = retired;
    retired = oldest->next;
    retired_count--;
    return oldest;
}

static weir_acl_attachment *begin(weir_pool *pool, weir_stream *stream, void *native, bool registers)
{
    weir_acl_attachment *self = take_unused();
    if (self == NULL) {
        return NULL;
    }
    atomic_store(&self->pool, pool);
    atomic_store(&self->stream, stream);
    atomic_store(&self->live, 0);
    atomic_store(&self->failures, 0);
    atomic_store(&self->refused_frees, 0);
    self->state = ATTACHED;
    self->moving = true;
    self->registers = registers;
    self->watched = false;
    self->native = native;
    self->old_native = NULL;
    self->context = NULL;
    self->unended = false;
    self->left_on = NULL;
    self->next = in_use;
    in_use = self;
    atomic_store(&self->closed, !registers);
    return self;
}

static void retire(weir_acl_attachment *self)
{
    weir_acl_attachment **link = &in_use;
    while (*link != self) {
        link = &(*link)->next;
    }
    *link = self->next;
    atomic_store(&self->closed, true);
    atomic_store(&self->pool, NULL);
    atomic_store(&self->stream, NULL);
    self->state = DETACHED;
    self->moving = false;
    self->native = NULL;
    self->old_native = NULL;
    self->next = NULL;
    *retired_end = self;
    retired_end = &self->next;
    retired_count++;
}

/* --- attach --- */

static const char attaching[] = "weir_acl_attach";

static weir_status taken_by(const char *function, void *native, const char *whom)
{
    return weir_refuse(WEIR_ERR_BUSY, "%s: stream %p has %s", function, native, whom);
}

/* `self` is in the list and moving, so nobody else gets to this stream meanwhile. */
static weir_status connect(const char *function, weir_acl_attachment *self, void *native, const weir__acl_place *place)
{
    int32_t id = 0;
    /* What is no stream any more could be registered, but never waited for, and so never detached. */
    weir_status status = ACL(aclrtStreamGetId, native, &id);
    if (status != WEIR_OK) {
        return status;
    }
    if (self->registers) {
        aclrtAllocator owner = NULL;
        status = registered(native, &owner);
        if (status != WEIR_ERR_INVALID) {
            return status == WEIR_OK ? taken_by(function, native, "an allocator that is not weir's") : status;
        }
    }
    self->context = place->context;
    status = weir__acl_watch(native, place, true);
    self->watched = status == WEIR_OK;
    return self->watched && self->registers ? enter_registry(native, self) : status;
}

static void let_go(weir_pool *pool)
{
    const weir_status status = weir_pool_release(pool);
    (void)status; /* it is held, so it can be let go */
}

/* The pool is held. */
static weir_status attach(const char *function, weir_pool *pool, weir_stream *stream, void *native,
                          weir_acl_attachment **attachment)
{
    const bool registers = function == attaching;
    weir__acl_place place = {0};
    weir_status status = weir__acl_find(function, native, &place);
    if (status != WEIR_OK) {
        return status;
    }
    weir__acl_lock();
    const bool taken = is_taken(native, registers, pool);
    weir_acl_attachment *self = taken ? NULL : begin(pool, stream, native, registers);
    weir__acl_unlock();
    if (self == NULL) {
        return taken ? taken_by(function, native,
                                registers ? "an attachment already" : "an attachment of this pool already")
                     : WEIR_ERR_NO_MEMORY;
    }
    status = connect(function, self, native, &place);
    weir__acl_lock();
    if (status == WEIR_OK) {
        self->moving = false;
        *attachment = self;
    } else {
        weir__acl_unwatch_locked(self->watched ? native : NULL);
        retire(self);
    }
    weir__acl_changed_locked();
    weir__acl_unlock();
    return status;
}

static weir_status attach_or_follow(const char *function, weir_pool *pool, void *native,
                                    weir_acl_attachment **attachment)
{
    if (pool == NULL || native == NULL || attachment == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: %s is NULL", function,
                           pool == NULL ? "pool"
                           : native == NULL
                               ? "acl_stream (the default stream's handle is aclrtCtxGetCurrentDefaultStream's)"
                               : "attachment");
    }
    /* Before the lock: a device call may take it under the pool's. */
    weir_stream *stream = NULL;
    weir_status status = weir_pool_stream(pool, native, &stream);
    if (status == WEIR_OK) {
        status = weir_pool_hold(pool);
    }
    if (status != WEIR_OK) {
        return status == WEIR_ERR_INVALID ? weir__native_refuse_as(function, status) : status;
    }
    status = attach(function, pool, stream, native, attachment);
    if (status != WEIR_OK) {
        let_go(pool);
    }
    return status;
}

weir_status weir_acl_attach(weir_pool *pool, void *acl_stream, weir_acl_attachment **attachment)
{
    return attach_or_follow(attaching, pool, acl_stream, attachment);
}

weir_status weir_acl_follow(weir_pool *pool, void *acl_stream, weir_acl_attachment **attachment)
{
    return attach_or_follow("weir_acl_follow", pool, acl_stream, attachment);
}

/* --- the end of a stream --- */

/* The stream's work is over and the pool forgets it. Looked up anew: had the caller retired it against the rules,
 * another stream might have its place. */
static void end_stream(weir_pool *pool, void *native)
{
    weir_stream *stream = NULL;
    weir_status status = weir_pool_stream(pool, native, &stream);
    if (status == WEIR_OK) {
        status = weir_stream_ended(pool, stream);
    }
    (void)status; /* what the pool has no memory to look up it does not know */
}

/* The runtime is about to destroy the stream; its handle is still good, and no call that it might wait for is under
 * way. If the stream cannot be waited for, its work may go on until the destroy is over: then the pool is told only
 * when the attachment is detached, and no ACL call is made with the handle until then. */
static void empty(weir_acl_attachment *self, void *native)
{
    atomic_store(&self->closed, true);
    weir__acl_next_epoch();
    weir_status status = weir__acl_sync(native, self->context);
    if (status != WEIR_OK) {
        status = weir__acl_sync(native, self->context);
    }
    /* A registration that remains leads to an attachment that hands out nothing; detach tries again. */
    bool left = self->registers && unregister(native, self) != WEIR_OK;
    left = left && unregister(native, self) != WEIR_OK;
    atomic_store(&self->stream, NULL);
    if (status == WEIR_OK) {
        end_stream(atomic_load(&self->pool), native);
    }
    weir__acl_lock();
    if (status != WEIR_OK) {
        self->unended = true;
        weir__acl_bury_locked(native);
    }
    self->left_on = left ? native : NULL;
    self->native = NULL;
    self->old_native = native;
    self->state = GONE;
    self->moving = false;
    weir__acl_changed_locked();
    weir__acl_unlock();
}

/* Marked as moving; NULL if there is none. */
static weir_acl_attachment *next_attached_to(const void *native)
{
    weir__acl_lock();
    weir_acl_attachment *self = attached_to(native);
    while (self != NULL && self->moving) {
        weir__acl_wait_locked();
        self = attached_to(native);
    }
    if (self != NULL) {
        self->moving = true;
    }
    weir__acl_unlock();
    return self;
}

void weir__acl_stream_goes(void *native)
{
    for (weir_acl_attachment *self; (self = next_attached_to(native)) != NULL;) {
        empty(self, native);
    }
}

void weir__acl_stream_comes_locked(void *native)
{
    for (weir_acl_attachment *other = in_use; other != NULL; other = other->next) {
        if (other->old_native == native) {
            other->old_native = NULL;
        }
    }
}

/* --- detach --- */

/* Nothing has changed unless this succeeds. */
static weir_status disconnect(weir_acl_attachment *self)
{
    const weir_status status = weir__acl_sync(self->native, self->context);
    return status == WEIR_OK && self->registers ? unregister(self->native, self) : status;
}

/* What a stream leaves behind that could not be waited for is over now, with its destroy, unless a new stream with the
 * same handle has taken it on. */
static void end_grave(weir_acl_attachment *self)
{
    weir__acl_lock();
    void *old_native = self->unended ? self->old_native : NULL;
    weir__acl_unlock();
    if (old_native != NULL) {
        end_stream(atomic_load(&self->pool), old_native);
    }
}

/* The lock is not held; `self` is moving. */
static weir_status leave(weir_acl_attachment *self)
{
    const bool attached = self->state == ATTACHED;
    atomic_store(&self->closed, true);
    const int64_t live = atomic_load(&self->live);
    weir_status status = WEIR_OK;
    if (live > 0) {
        status =
            weir_refuse(WEIR_ERR_BUSY, "weir_acl_detach: ACL holds %lld blocks of the attachment or is asking for one",
                        (long long)live);
    } else if (attached) {
        status = disconnect(self);
    } else if (self->left_on != NULL) {
        status = unregister(self->left_on, self);
    }
    if (status != WEIR_OK) {
        atomic_store(&self->closed, !attached || !self->registers);
        return status;
    }
    weir__acl_next_epoch();
    if (attached) {
        end_stream(atomic_load(&self->pool), self->native);
    } else {
        end_grave(self);
    }
    return WEIR_OK;
}

static weir_status no_attachment(const char *function, const void *handle)
{
    return weir_refuse(WEIR_ERR_INVALID, "%s: %p is no attachment, or was detached before", function, handle);
}

weir_status weir_acl_detach(weir_acl_attachment *self)
{
    if (self == NULL || weir__acl_in_child()) {
        return WEIR_OK; /* a child of fork leaves the attachment as it is, like the pool */
    }
    weir__acl_lock();
    if (!is_in(in_use, self) || self->moving) {
        const bool moving = is_in(in_use, self);
        weir__acl_unlock();
        return moving ? weir_refuse(WEIR_ERR_BUSY,
                                    "weir_acl_detach: another thread detaches attachment %p or destroys its stream",
                                    (void *)self)
                      : no_attachment("weir_acl_detach", self);
    }
    self->moving = true;
    weir__acl_unlock();

    const weir_status status = leave(self);
    weir__acl_lock();
    weir_pool *pool = atomic_load(&self->pool);
    self->moving = false;
    if (status == WEIR_OK) {
        weir__acl_unwatch_locked(self->native); /* NULL if the stream is gone: then there is no note of it */
        retire(self);
    }
    weir__acl_changed_locked();
    weir__acl_unlock();
    if (status == WEIR_OK) {
        let_go(pool);
    }
    return status;
}

weir_status weir_acl_attachment_get_info(weir_acl_attachment *self, weir_acl_attachment_info *info)
{
    if (self == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_acl_attachment_get_info: attachment is NULL");
    }
    weir_acl_attachment_info now = WEIR_ACL_ATTACHMENT_INFO_INIT;
    weir__acl_lock();
    const bool is_one = is_in(in_use, self);
    if (is_one) {
        const int64_t live = atomic_load(&self->live);
        now.pool = atomic_load(&self->pool);
        now.stream = atomic_load(&self->stream);
        now.acl_stream = self->native;
        now.handle_reused = self->state == GONE && self->old_native == NULL;
        now.live_blocks = live > 0 ? (uint64_t)live : 0;
        now.failures = atomic_load(&self->failures);
        now.refused_frees = atomic_load(&self->refused_frees);
    }
    weir__acl_unlock();
    if (!is_one) {
        return no_attachment("weir_acl_attachment_get_info", self);
    }
    return weir_struct_report(info, &now, sizeof(now), "weir_acl_attachment_get_info: info");
}
