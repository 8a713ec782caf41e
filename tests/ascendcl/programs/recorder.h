/* recorder.h: an allocator that checks its callers. Include rig/acl.h and scenario.h first.
 *
 * A block is a struct of its own, never the address. Memory comes from aclrtMalloc and goes back when the recorder is
 * destroyed; freed blocks are reused by their exact size, the latest first. This is correct for one stream, which
 * orders the reuse, and wrong for two streams that share a recorder.
 */
#ifndef WEIR_ACL_RECORDER_H
#define WEIR_ACL_RECORDER_H

#include <acl/acl_rt_allocator.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

enum { RECORDER_BLOCKS = 4096 };

struct recorded {
    struct recorder *recorder;
    void *memory;
    size_t size;
    bool live;
    bool addressed; /* the runtime has asked for the address since the block was handed out */
};

struct recorder {
    pthread_mutex_t lock;
    struct recorded blocks[RECORDER_BLOCKS];
    size_t block_count;
    size_t free_stack[RECORDER_BLOCKS]; /* blocks, the latest freed on top */
    size_t free_count;
    struct recorded *expected; /* a block was handed out, and the runtime has not asked for its address yet */
    uint64_t allocs, advises, frees, addresses, refusals;
    uint64_t live_bytes, peak_bytes, reserved_bytes;
    size_t sizes[RECORDER_BLOCKS]; /* sizes of the requests, in order */
    size_t size_count;
    void *hint;
    uint64_t refuse_at;           /* number of the request to refuse; 1 is the first; 0: none */
    uint64_t refuse_from;         /* refuse this request and all later ones */
    uint64_t refused_after_syncs; /* requests that directly follow a refusal */
    bool last_refused;
    bool gives_back; /* gives freed memory back to the runtime at once, which no allocator may do */
    bool no_address;
    bool waits;  /* each request takes real time, so that another thread calls in between */
    bool shared; /* several threads call: the order of alloc and address is not checked */
    int inside, most_inside;
    aclrtAllocatorDesc desc;
};

static inline struct recorded *recorder_find(struct recorder *r, size_t size)
{
    for (size_t i = r->free_count; i-- > 0;) {
        struct recorded *block = &r->blocks[r->free_stack[i]];
        if (block->size == size) {
            memmove(&r->free_stack[i], &r->free_stack[i + 1], (r->free_count - i - 1) * sizeof(r->free_stack[0]));
            r->free_count--;
            return block;
        }
    }
    return NULL;
}

static inline struct recorded *recorder_new(struct recorder *r, size_t size)
{
    CHECK(r->block_count < RECORDER_BLOCKS);
    struct recorded *block = &r->blocks[r->block_count++];
    *block = (struct recorded){.recorder = r, .size = size};
    OK(aclrtMalloc(&block->memory, size, ACL_MEM_MALLOC_HUGE_FIRST));
    r->reserved_bytes += size;
    return block;
}

static inline void recorder_enter(struct recorder *r)
{
    const int inside = __atomic_add_fetch(&r->inside, 1, __ATOMIC_SEQ_CST);
    if (r->waits) {
        (void)usleep(200);
    }
    (void)pthread_mutex_lock(&r->lock);
    r->most_inside = inside > r->most_inside ? inside : r->most_inside;
}

static inline void recorder_leave(struct recorder *r)
{
    (void)pthread_mutex_unlock(&r->lock);
    (void)__atomic_sub_fetch(&r->inside, 1, __ATOMIC_SEQ_CST);
}

static inline void *recorder_take(struct recorder *r, size_t size)
{
    const uint64_t request = r->allocs + r->advises;
    /* the runtime must ask for the address of one block before it requests the next */
    CHECK(r->expected == NULL || r->shared);
    CHECK(size > 0);
    const bool refused = request == r->refuse_at || (r->refuse_from > 0 && request >= r->refuse_from);
    r->refused_after_syncs += r->last_refused;
    r->last_refused = refused;
    if (refused) {
        r->refusals++;
        return NULL;
    }
    if (r->size_count < RECORDER_BLOCKS) {
        r->sizes[r->size_count++] = size;
    }
    struct recorded *block = recorder_find(r, size);
    block = block != NULL ? block : recorder_new(r, size);
    CHECK(!block->live);
    block->live = true;
    block->addressed = false;
    r->expected = block;
    r->live_bytes += size;
    r->peak_bytes = r->live_bytes > r->peak_bytes ? r->live_bytes : r->peak_bytes;
    return block;
}

static inline void *recorder_alloc(aclrtAllocator allocator, size_t size)
{
    struct recorder *r = allocator;
    recorder_enter(r);
    r->allocs++;
    void *block = recorder_take(r, size);
    recorder_leave(r);
    return block;
}

static inline void *recorder_advise(aclrtAllocator allocator, size_t size, aclrtAllocatorAddr hint)
{
    struct recorder *r = allocator;
    recorder_enter(r);
    CHECK(hint != NULL);
    r->hint = hint;
    r->advises++;
    void *block = recorder_take(r, size);
    recorder_leave(r);
    return block;
}

static inline void *recorder_address(aclrtAllocatorBlock handle)
{
    struct recorded *block = handle;
    struct recorder *r = block->recorder;
    recorder_enter(r);
    CHECK(r->shared || r->expected == block);
    CHECK(block->live && !block->addressed);
    block->addressed = true;
    r->expected = NULL;
    r->addresses++;
    recorder_leave(r);
    return r->no_address ? NULL : block->memory;
}

static inline void recorder_free(aclrtAllocator allocator, aclrtAllocatorBlock handle)
{
    struct recorder *r = allocator;
    struct recorded *block = handle;
    recorder_enter(r);
    CHECK(block->recorder == r && block->live && block->addressed);
    CHECK(r->shared || r->expected == NULL);
    block->live = false;
    r->frees++;
    r->live_bytes -= block->size;
    if (r->gives_back) {
        OK(aclrtFree(block->memory));
        block->memory = NULL;
    } else {
        r->free_stack[r->free_count++] = (size_t)(block - r->blocks);
    }
    recorder_leave(r);
}

static inline struct recorder *recorder_create(bool with_advise)
{
    struct recorder *r = calloc(1, sizeof(*r));
    CHECK(r != NULL);
    CHECK(pthread_mutex_init(&r->lock, NULL) == 0);
    r->desc = aclrtAllocatorCreateDesc();
    CHECK(r->desc != NULL);
    OK(aclrtAllocatorSetObjToDesc(r->desc, r));
    OK(aclrtAllocatorSetAllocFuncToDesc(r->desc, recorder_alloc));
    OK(aclrtAllocatorSetFreeFuncToDesc(r->desc, recorder_free));
    OK(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(r->desc, recorder_address));
    if (with_advise) {
        OK(aclrtAllocatorSetAllocAdviseFuncToDesc(r->desc, recorder_advise));
    }
    return r;
}

/* Destroys the recorder. Every block must be freed, and every stream synchronised. */
static inline void recorder_destroy(struct recorder *r)
{
    CHECK(r->live_bytes == 0);
    CHECK(r->allocs + r->advises - r->refusals == r->frees && r->addresses == r->frees);
    for (size_t i = 0; i < r->block_count; i++) {
        if (r->blocks[i].memory != NULL) {
            OK(aclrtFree(r->blocks[i].memory));
        }
    }
    OK(aclrtAllocatorDestroyDesc(r->desc));
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

#endif
