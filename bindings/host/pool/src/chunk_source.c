/* chunk_source.c: makes pinned memory by the steps of weir_host_kind, best first, until one succeeds.
 *
 * A step that fails leaves a sentence (weir_host_explain) and changes nothing else. A chunk keeps the step that made it
 * and the nodes that the kernel reported for its pages. A child after fork does not get the chunks: a write in the
 * child would copy the parent's pages, and a device would keep using the old ones.
 */
#include "host_internal.h"

#include "numa_pages.h"
#include "shared/clock.h"
#include "tuning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct attempt {
    weir__host_node *node;
    weir_host_kind kind;
    void *memory;
    uint64_t size;
    weir__placed placed;
};

/* --- reasons --- */

static void note_reason(weir__host_node *node, weir_host_kind kind, const char *text)
{
    WEIR_ASSERT(kind < WEIR_HOST_KIND_COUNT);
    (void)pthread_mutex_lock(&node->chunk_lock);
    node->held.kind_failures[kind]++;
    (void)snprintf(node->reasons[kind], sizeof(node->reasons[kind]), "%s", text);
    (void)pthread_mutex_unlock(&node->chunk_lock);
}

static void note_numa_error(const struct attempt *a, const weir__numa_error *error)
{
    char text[sizeof(a->node->reasons[0])];
    (void)weir__numa_error_text(error, text, sizeof(text));
    note_reason(a->node, a->kind, text);
}

static void note_runtime_error(const struct attempt *a, const char *call, weir_status status)
{
    char text[sizeof(a->node->reasons[0])];
    (void)snprintf(text, sizeof(text), "the runtime's %s of %llu MiB failed: %s", call,
                   (unsigned long long)(a->size >> 20), weir_status_text(status));
    note_reason(a->node, a->kind, text);
}

/* --- steps --- */

static weir__numa_pages pages_of(weir_host_kind kind)
{
    switch (kind) {
    case WEIR_HOST_HUGE:
        return WEIR__PAGES_HUGE;
    case WEIR_HOST_REGISTERED:
    case WEIR_HOST_TRANSPARENT:
    case WEIR_HOST_UNPINNED:
        return WEIR__PAGES_TRANSPARENT;
    default:
        return WEIR__PAGES_SMALL;
    }
}

static weir_status place(struct attempt *a, void *at)
{
    WEIR_ASSERT(a->kind != WEIR_HOST_RUNTIME && a->size % weir__numa_page_bytes() == 0);
    weir_host_pool *pool = a->node->pool;
    weir__numa_error error = {0};
    weir__numa_pages pages = pages_of(a->kind);
    weir_status status = weir__numa_map(at, a->size, pages, &a->memory, &error);
    if (status == WEIR_ERR_UNSUPPORTED && a->kind != WEIR_HOST_TRANSPARENT && pages == WEIR__PAGES_TRANSPARENT) {
        pages = WEIR__PAGES_SMALL; /* small pages work too, though slower; the chunk's kind stays the same */
        status = weir__numa_map(at, a->size, pages, &a->memory, &error);
    }
    if (status != WEIR_OK) {
        note_numa_error(a, &error);
        return status;
    }
    (void)madvise(a->memory, (size_t)a->size, MADV_DONTFORK);
    const weir__numa_request request = {
        .topology = pool->topology,
        .memory = a->memory,
        .size = a->size,
        .pages = pages,
        .node = a->node->number,
        .is_strict = (pool->config.flags & WEIR_HOST_STRICT) != 0,
        .verify_step = (pool->config.flags & WEIR_HOST_STRICT) != 0 ? 0 : VERIFY_STEP,
    };
    status = weir__numa_pages_on(&request, &a->placed, &error);
    if (status != WEIR_OK) {
        note_numa_error(a, &error);
        weir__numa_unmap(a->memory, a->size, true);
    }
    return status;
}

/* Pins pages that lie on their node: registers or locks them. */
static weir_status pin(const struct attempt *a)
{
    WEIR_ASSERT(a->memory != NULL);
    const weir_host_runtime *runtime = &a->node->pool->runtime;
    weir__numa_error error = {0};
    weir_status status = WEIR_OK;
    switch (a->kind) {
    case WEIR_HOST_REGISTERED:
        status = a->size <= runtime->most_bytes ? runtime->ops->memory_register(runtime->ctx, a->memory, a->size)
                                                : WEIR_ERR_LIMIT;
        if (status != WEIR_OK) {
            note_runtime_error(a, "registration", status);
        }
        return status;
    case WEIR_HOST_UNPINNED:
        return WEIR_OK;
    default:
        status = weir__numa_lock(a->memory, a->size, &error);
        if (status != WEIR_OK) {
            note_numa_error(a, &error);
        }
        return status;
    }
}

static weir_status try_mapped(struct attempt *a, uint64_t address)
{
    WEIR_ASSERT(address != 0 && a->kind != WEIR_HOST_RUNTIME);
    WEIR_ASSERT_HELD(&a->node->pool->runtime_lock);
    weir_status status = place(a, (void *)(uintptr_t)address);
    if (status == WEIR_OK) {
        status = pin(a);
        if (status != WEIR_OK) {
            weir__numa_unmap(a->memory, a->size, true);
        }
    }
    return status;
}

/* Gives a chunk back to the runtime. Lets children of fork inherit the memory again (MADV_DOFORK). If the runtime
 * refuses, children still do not inherit the chunk. */
static weir_status give_to_runtime(const struct attempt *a)
{
    WEIR_ASSERT(a->kind == WEIR_HOST_RUNTIME && a->memory != NULL);
    WEIR_ASSERT_HELD(&a->node->pool->runtime_lock);
    const weir_host_runtime *runtime = &a->node->pool->runtime;
    (void)madvise(a->memory, (size_t)a->size, MADV_DOFORK);
    const weir_status status = runtime->ops->pinned_free(runtime->ctx, a->memory, a->size);
    if (status != WEIR_OK) {
        (void)madvise(a->memory, (size_t)a->size, MADV_DONTFORK);
    }
    return status;
}

static weir_status ask_runtime(struct attempt *a)
{
    WEIR_ASSERT_HELD(&a->node->pool->runtime_lock);
    const weir_host_runtime *runtime = &a->node->pool->runtime;
    weir__numa_wish before;
    if (a->size > runtime->most_bytes) {
        return WEIR_ERR_LIMIT;
    }
    weir__numa_thread_prefer(a->node->pool->topology, a->node->number, &before);
    const weir_status status = runtime->ops->pinned_alloc(runtime->ctx, a->size, &a->memory);
    weir__numa_thread_restore(&before);
    return status;
}

/* Takes a chunk from the runtime, which chooses the place; the thread's memory policy may influence it. Then asks the
 * kernel for the node of the pages. */
static weir_status try_runtime(struct attempt *a)
{
    WEIR_ASSERT(a->kind == WEIR_HOST_RUNTIME && a->node->pool->runtime_ops.pinned_alloc != NULL);
    WEIR_ASSERT_HELD(&a->node->pool->runtime_lock);
    const weir_host_runtime *runtime = &a->node->pool->runtime;
    const bool is_strict = (a->node->pool->config.flags & WEIR_HOST_STRICT) != 0;
    weir_status status = ask_runtime(a);
    if (status != WEIR_OK) {
        note_runtime_error(a, "allocation", status);
        return status;
    }
    if ((uintptr_t)a->memory % weir__numa_page_bytes() != 0) {
        note_reason(a->node, a->kind, "the runtime's memory does not begin at a page of the system");
        status = runtime->ops->pinned_free(runtime->ctx, a->memory, a->size);
        return WEIR_ERR_NO_MEMORY;
    }
    (void)madvise(a->memory, (size_t)a->size, MADV_DONTFORK);
    a->placed = (weir__placed){.unknown_bytes = a->size};
    weir__numa_found found;
    if (weir_topology_is_this_machine(a->node->pool->topology) &&
        weir__numa_verify(a->memory, a->size, is_strict ? 0 : VERIFY_STEP, &found, NULL) == WEIR_OK) {
        const int32_t node = a->node->number;
        const uint64_t right = node >= 0 && node < WEIR__NUMA_NODES ? found.node_bytes[node] : 0;
        a->placed.unknown_bytes = found.unknown_bytes + found.absent_bytes;
        a->placed.is_verified = a->placed.unknown_bytes == 0;
        a->placed.misplaced_bytes = a->size - right - a->placed.unknown_bytes;
    }
    if (is_strict && (!a->placed.is_verified || a->placed.misplaced_bytes != 0)) {
        note_reason(a->node, a->kind, "the runtime's memory lies on another node or on an unknown one");
        status = give_to_runtime(a);
        return WEIR_ERR_NO_MEMORY;
    }
    return WEIR_OK;
}

/* --- chunks --- */

static weir__host_chunk *description(weir__host_node *node)
{
    (void)pthread_mutex_lock(&node->chunk_lock);
    weir__host_chunk *chunk = weir__slab_get(&node->chunk_descriptions);
    (void)pthread_mutex_unlock(&node->chunk_lock);
    return chunk;
}

static void put_back(weir__host_node *node, weir__host_chunk *chunk)
{
    WEIR_ASSERT(chunk != NULL);
    (void)pthread_mutex_lock(&node->chunk_lock);
    weir__slab_put(&node->chunk_descriptions, chunk);
    (void)pthread_mutex_unlock(&node->chunk_lock);
}

/* Adds or removes a chunk in the statistics. Requires the chunk lock. */
static void count_chunk(weir_host_stats *held, weir__host_chunk *chunk, const weir__placed *placed, bool added)
{
    const uint64_t one = added ? 1 : UINT64_MAX;
    WEIR_ASSERT(added ||
                (held->chunks != 0 && held->held_bytes >= chunk->size && held->kind_bytes[chunk->kind] >= chunk->size));
    const uint64_t bytes = one * chunk->size;
    held->chunks += one;
    held->held_bytes += bytes;
    held->kind_bytes[chunk->kind] += bytes;
    *(chunk->kind == WEIR_HOST_UNPINNED ? &held->unpinned_bytes : &held->pinned_bytes) += bytes;
    held->misplaced_bytes += one * placed->misplaced_bytes;
    held->unverified_bytes += placed->is_verified ? 0 : bytes;
    if (held->held_bytes > held->peak_held_bytes) {
        held->peak_held_bytes = held->held_bytes;
    }
}

static void enter(const struct attempt *a, weir__host_chunk *chunk, uint64_t began)
{
    WEIR_ASSERT(a->memory != NULL && a->size != 0);
    weir__host_node *node = a->node;
    chunk->start = (uint64_t)(uintptr_t)a->memory;
    chunk->size = a->size;
    chunk->node = node;
    chunk->kind = a->kind;
    chunk->is_verified = a->placed.is_verified;
    chunk->misplaced_bytes = a->placed.misplaced_bytes;
    if (a->kind != WEIR_HOST_RUNTIME) {
        weir__host_registry_set_chunk(&node->pool->registry, chunk->start, chunk->size, chunk);
    }
    (void)pthread_mutex_lock(&node->chunk_lock);
    chunk->next = node->chunks;
    node->chunks = chunk;
    count_chunk(&node->held, chunk, &a->placed, true);
    node->held.pin_ns += wall_ns() - began;
    (void)pthread_mutex_unlock(&node->chunk_lock);
}

/* Unpins and unmaps or frees the memory that a successful attempt has made. */
static weir_status undo(const struct attempt *a)
{
    WEIR_ASSERT(a->memory != NULL);
    WEIR_ASSERT_HELD(&a->node->pool->runtime_lock);
    const weir_host_runtime *runtime = &a->node->pool->runtime;
    weir_status status = WEIR_OK;
    if (a->node->pool->is_abandoned) {
        return WEIR_OK;
    }
    if (a->kind == WEIR_HOST_RUNTIME) {
        return give_to_runtime(a);
    }
    if (a->kind == WEIR_HOST_REGISTERED) {
        status = runtime->ops->memory_unregister(runtime->ctx, a->memory, a->size);
    }
    if (status == WEIR_OK) {
        weir__numa_unmap(a->memory, a->size, true); /* unlocks runtime_lock too */
    }
    return status;
}

/* True if the pool has recently failed to make a chunk of this size or a smaller one, and has given no chunk back
 * since. An attempt to make and lock a chunk costs milliseconds, and each request that other nodes then serve would pay
 * them. Requires runtime_lock. */
static bool is_refused(const weir__host_node *node, const weir__host_refusal *last, uint64_t size, uint64_t now)
{
    return last->bytes != 0 && size >= last->bytes && last->gives == node->pool->gives &&
           now - last->when_ns < REFUSED_NS;
}

static bool is_allowed(const weir__host_node *node, weir_host_kind kind)
{
    WEIR_ASSERT(kind < WEIR_HOST_KIND_COUNT);
    return (node->pool->config.kinds >> kind & 1) != 0;
}

weir_status weir__host_chunk_take(weir__host_node *node, uint64_t address, uint64_t size, uint64_t *got)
{
    WEIR_ASSERT(size != 0);
    const uint64_t began = wall_ns();
    weir__host_chunk *chunk = description(node);
    if (chunk == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    struct attempt a = {.node = node, .size = size};
    weir_status status = WEIR_ERR_NO_MEMORY;
    (void)pthread_mutex_lock(&node->pool->runtime_lock);
    weir__host_refusal *refusal = &node->refusals[address != 0];
    const int first = address != 0 ? WEIR_HOST_REGISTERED : WEIR_HOST_RUNTIME;
    const int end = address != 0 ? WEIR_HOST_KIND_COUNT : WEIR_HOST_REGISTERED;
    if (!is_refused(node, refusal, size, began)) {
        for (int kind = first; kind < end && status != WEIR_OK; kind++) {
            if (is_allowed(node, (weir_host_kind)kind)) {
                a = (struct attempt){.node = node, .kind = (weir_host_kind)kind, .size = size};
                status = kind == WEIR_HOST_RUNTIME ? try_runtime(&a) : try_mapped(&a, address);
            }
        }
        *refusal = (weir__host_refusal){0};
        if (status != WEIR_OK) {
            *refusal = (weir__host_refusal){.bytes = size, .when_ns = wall_ns(), .gives = node->pool->gives};
        }
    }
    if (status == WEIR_OK &&
        weir__host_registry_reserve(&node->pool->registry, (uint64_t)(uintptr_t)a.memory, size) != WEIR_OK) {
        const weir_status undone = undo(&a);
        (void)undone; /* if undo() fails, the memory stays allocated and unused */
        status = WEIR_ERR_NO_MEMORY;
    }
    (void)pthread_mutex_unlock(&node->pool->runtime_lock);
    if (status != WEIR_OK) {
        put_back(node, chunk);
        return WEIR_ERR_NO_MEMORY; /* node->reasons has the reasons */
    }
    enter(&a, chunk, began);
    *got = (uint64_t)(uintptr_t)a.memory;
    return WEIR_OK;
}

/* Removes the chunk that starts at the address from the list and returns it, or NULL. */
static weir__host_chunk *leave(weir__host_node *node, uint64_t address)
{
    (void)pthread_mutex_lock(&node->chunk_lock);
    weir__host_chunk **link = &node->chunks;
    while (*link != NULL && (*link)->start != address) {
        link = &(*link)->next;
    }
    weir__host_chunk *chunk = *link;
    if (chunk != NULL) {
        *link = chunk->next;
    }
    (void)pthread_mutex_unlock(&node->chunk_lock);
    return chunk;
}

weir_status weir__host_chunk_give(weir__host_node *node, uint64_t address, uint64_t size)
{
    const uint64_t began = wall_ns();
    weir__host_chunk *chunk = leave(node, address);
    if (chunk == NULL) {
        return WEIR_ERR_INVALID;
    }
    const struct attempt a = {.node = node,
                              .kind = (weir_host_kind)chunk->kind,
                              .memory = (void *)(uintptr_t)address,
                              .size = size,
                              .placed = {.is_verified = chunk->is_verified, .misplaced_bytes = chunk->misplaced_bytes}};
    (void)pthread_mutex_lock(&node->pool->runtime_lock);
    const weir_status status = undo(&a);
    node->pool->gives++;
    (void)pthread_mutex_unlock(&node->pool->runtime_lock);
    (void)pthread_mutex_lock(&node->chunk_lock);
    if (status == WEIR_OK) {
        count_chunk(&node->held, chunk, &a.placed, false);
        node->held.unpin_ns += wall_ns() - began;
        weir__slab_put(&node->chunk_descriptions, chunk);
    } else { /* the chunk stays with the pool */
        chunk->next = node->chunks;
        node->chunks = chunk;
    }
    (void)pthread_mutex_unlock(&node->chunk_lock);
    return status;
}
