/* effects.c: copies, fills and host functions happen when virtual time reaches their end.
 *
 * Idea: the time of an effect is known as soon as it is queued, so a heap by (time, order of queuing) is the whole
 * scheduler: across all streams, effects come in the order of time. Guarantee: when the host's clock shows t,
 * everything that ends at or before t has happened, and nothing later. Cost: O(log queued). Kernels without a host
 * function have no effect here.
 *
 * A copy moves its bytes at its end, in one piece. If its memory is gone by then, the stream breaks, as on a device
 * fault.
 *
 * The host must leave its side of a queued copy alone. So a copy between host and device carries a checksum of these
 * bytes, taken when it was queued, and the auditor reports a copy whose checksum is another one at its end. A copy to
 * the host and a host function may write in the order of a stream: after each, the checksums are taken anew. A host
 * that reads too early, or writes the bytes that are there, is not seen.
 */
#include "sim_internal.h"

#include "shared/cancel.h"

#include <stdlib.h>
#include <string.h>

static bool is_before(const weir__sim_effect *a, const weir__sim_effect *b)
{
    return a->at != b->at ? a->at < b->at : a->number < b->number;
}

/* Puts `effect` at index `i` or below it, as the heap's order requires. */
static void sift_down(weir__sim_effects *effects, size_t i, const weir__sim_effect *effect)
{
    WEIR_ASSERT(i < effects->count);
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= effects->count) {
            break;
        }
        if (child + 1 < effects->count && is_before(&effects->heap[child + 1], &effects->heap[child])) {
            child++;
        }
        if (is_before(effect, &effects->heap[child])) {
            break;
        }
        effects->heap[i] = effects->heap[child];
        i = child;
    }
    effects->heap[i] = *effect;
}

weir_status weir__sim_effects_reserve(weir__sim_effects *effects)
{
    if (effects->count < effects->capacity) {
        return WEIR_OK;
    }
    size_t capacity = effects->capacity == 0 ? 64 : effects->capacity * 2;
    weir__sim_effect *heap = realloc(effects->heap, capacity * sizeof(*heap));
    if (heap == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    effects->heap = heap;
    effects->capacity = capacity;
    return WEIR_OK;
}

/* --- the host's side of copies --- */

static bool has_host_side(const weir__sim_effect *e)
{
    return e->kind == WEIR__SIM_COPY_FROM_HOST || e->kind == WEIR__SIM_COPY_TO_HOST;
}

/* Returns a checksum that any change within one word changes. */
static uint64_t sum_of(const void *start, uint64_t size)
{
    const unsigned char *bytes = start;
    uint64_t sums[4] = {size, 1, 2, 3};
    uint64_t words[4] = {0};
    for (; size >= sizeof(words); size -= sizeof(words), bytes += sizeof(words)) {
        memcpy(words, bytes, sizeof(words));
        for (size_t i = 0; i < 4; i++) {
            sums[i] = (sums[i] ^ words[i]) * 0x9e3779b97f4a7c15u;
            sums[i] ^= sums[i] >> 32;
        }
    }
    uint64_t sum = 0;
    for (; size > 0; size--, bytes++) {
        sum = (sum ^ *bytes) * 0x9e3779b97f4a7c15u;
    }
    for (size_t i = 0; i < 4; i++) {
        sum = ((sum ^ (sum >> 32)) ^ sums[i]) * 0x9e3779b97f4a7c15u;
    }
    return sum;
}

/* True if the auditor judges the host's side of the effect, a queued copy. */
static bool is_judged(const weir__sim_effect *e)
{
    return has_host_side(e) && e->op != NULL;
}

static void judge_host_side(weir_sim *sim, const weir__sim_effect *e)
{
    if (is_judged(e) && sum_of(e->host, e->size) != e->host_sum) {
        weir__sim_audit_host_changed(sim->audit, e->op, (uint64_t)(uintptr_t)e->host, e->size);
    }
}

/* True if the effect is a judged copy with a part of its host's side in a range. */
static bool is_judged_in(const weir__sim_effect *e, const void *start, uint64_t size)
{
    const uint64_t from = (uint64_t)(uintptr_t)start;
    const uint64_t at = (uint64_t)(uintptr_t)e->host;
    return is_judged(e) && (at < from ? from - at < e->size : at - from < size);
}

void weir__sim_effects_host_written(weir_sim *sim, const void *start, uint64_t size)
{
    WEIR_ASSERT_HELD(&sim->lock);
    for (size_t i = 0; i < sim->effects.count && sim->effects.judged > 0; i++) {
        weir__sim_effect *e = &sim->effects.heap[i];
        if (is_judged_in(e, start, size)) {
            e->host_sum = sum_of(e->host, e->size);
        }
    }
}

/* Ends the reference of an effect that happens, is dropped, or is not judged any more. */
static void op_end(weir_sim *sim, weir__sim_effect *e)
{
    WEIR_ASSERT(!is_judged(e) || sim->effects.judged > 0);
    sim->effects.judged -= is_judged(e);
    if (e->op != NULL) {
        weir__sim_audit_release(sim->audit, e->op);
        e->op = NULL;
    }
}

void weir__sim_effects_host_freed(weir_sim *sim, const void *start, uint64_t size)
{
    WEIR_ASSERT_HELD(&sim->lock);
    for (size_t i = 0; i < sim->effects.count && sim->effects.judged > 0; i++) {
        if (is_judged_in(&sim->effects.heap[i], start, size)) {
            op_end(sim, &sim->effects.heap[i]);
        }
    }
}

/* --- the heap --- */

void weir__sim_effects_push(weir_sim *sim, const weir__sim_effect *queued)
{
    weir__sim_effects *effects = &sim->effects;
    WEIR_ASSERT(effects->count < effects->capacity);
    weir__sim_effect with_sum = *queued;
    const weir__sim_effect *effect = &with_sum;
    if (is_judged(queued)) {
        with_sum.host_sum = sum_of(queued->host, queued->size);
        effects->judged++;
    }
    size_t i = effects->count++;
    while (i > 0 && is_before(effect, &effects->heap[(i - 1) / 2])) {
        effects->heap[i] = effects->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    effects->heap[i] = *effect;
}

static weir__sim_effect pop(weir__sim_effects *effects)
{
    WEIR_ASSERT(effects->count > 0);
    weir__sim_effect first = effects->heap[0];
    effects->count--;
    if (effects->count > 0) {
        weir__sim_effect last = effects->heap[effects->count];
        sift_down(effects, 0, &last);
    }
    WEIR_ASSERT(effects->count == 0 || !is_before(&effects->heap[0], &first));
    return first;
}

/* Turns a queued host function into a call of its `dropped` function, due at once. False: there is no such function. */
static bool drop(weir__sim_effect *e, uint64_t now)
{
    if (e->kind == WEIR__SIM_CALL) {
        e->kind = WEIR__SIM_CALL_DROPPED;
        e->function = e->dropped;
        e->at = now;
    }
    return e->kind == WEIR__SIM_CALL_DROPPED && e->function != NULL;
}

void weir__sim_effects_drop(weir_sim *sim, uint32_t stream)
{
    weir__sim_effects *effects = &sim->effects;
    size_t kept = 0;
    for (size_t i = 0; i < effects->count; i++) {
        weir__sim_effect e = effects->heap[i];
        if (e.stream != stream || drop(&e, sim->now)) {
            effects->heap[kept++] = e;
        } else {
            op_end(sim, &e);
        }
    }
    effects->count = kept;
    for (size_t i = kept / 2; i-- > 0;) {
        weir__sim_effect effect = effects->heap[i];
        sift_down(effects, i, &effect);
    }
}

/* Moves the bytes of a copy or fill. Returns false if device memory is gone. */
static bool move_bytes(weir_sim *sim, const weir__sim_effect *e)
{
    WEIR_ASSERT(e->kind < WEIR__SIM_CALL && sim->memory.backing.on);
    bool has_to = e->kind != WEIR__SIM_COPY_TO_HOST;
    bool has_from = e->kind == WEIR__SIM_COPY || e->kind == WEIR__SIM_COPY_TO_HOST;
    void *to = has_to ? weir__sim_memory_bytes(sim, e->to, e->size) : e->host;
    const void *from = has_from ? weir__sim_memory_bytes(sim, e->from, e->size) : e->host;
    if (to == NULL || (e->kind != WEIR__SIM_FILL && from == NULL)) {
        return false;
    }
    if (e->kind == WEIR__SIM_FILL) {
        memset(to, e->value, e->size);
    } else {
        memmove(to, from, e->size);
    }
    return true;
}

static void call(weir_sim *sim, const weir__sim_effect *e)
{
    WEIR_ASSERT(e->function != NULL);
    weir__sim_unlock(sim);
    const int cancel_state = cancel_disable();
    e->function(e->ctx);
    cancel_restore(cancel_state);
    weir__sim_lock(sim);
    if (!e->is_kernel) {
        weir__sim_effects_host_written(sim, NULL, UINT64_MAX);
    }
}

static void happen(weir_sim *sim, const weir__sim_effect *e)
{
    WEIR_ASSERT_HELD(&sim->lock);
    WEIR_ASSERT(sim->effects.running);
    if (e->kind == WEIR__SIM_CALL || e->kind == WEIR__SIM_CALL_DROPPED) {
        call(sim, e);
        return;
    }
    judge_host_side(sim, e);
    if (!move_bytes(sim, e)) {
        weir_sim_stream *stream = weir__sim_stream_numbered(sim, e->stream);
        if (stream != NULL) {
            weir__sim_stream_fail(sim, stream);
        } else {
            weir__sim_effects_drop(sim, e->stream);
        }
    } else if (e->kind == WEIR__SIM_COPY_TO_HOST) {
        weir__sim_effects_host_written(sim, e->host, e->size);
    }
}

void weir__sim_effects_run(weir_sim *sim, uint64_t target)
{
    WEIR_ASSERT_HELD(&sim->lock);
    weir__sim_effects *effects = &sim->effects;
    if (effects->running) {
        sim->now = weir__sim_later(sim->now, target);
        return;
    }
    effects->running = true;
    effects->runner = pthread_self();
    while (effects->count > 0 && effects->heap[0].at <= weir__sim_later(sim->now, target)) {
        weir__sim_effect e = pop(effects);
        sim->now = weir__sim_later(sim->now, e.at);
        happen(sim, &e);
        op_end(sim, &e);
    }
    sim->now = weir__sim_later(sim->now, target);
    effects->running = false;
    (void)pthread_cond_broadcast(&effects->done);
}

bool weir__sim_effects_unsettled(const weir_sim *sim)
{
    return sim->effects.running && !pthread_equal(sim->effects.runner, pthread_self());
}

void weir__sim_effects_settle(weir_sim *sim)
{
    WEIR_ASSERT_HELD(&sim->lock);
    while (weir__sim_effects_unsettled(sim)) {
        (void)UNCANCELLED(pthread_cond_wait(&sim->effects.done, &sim->lock));
    }
}

void weir__sim_effects_fini(weir_sim *sim)
{
    weir__sim_effects *effects = &sim->effects;
    weir__sim_lock(sim);
    effects->running = true; /* keeps effects from running inside a function that an effect calls */
    effects->runner = pthread_self();
    for (size_t i = 0; i < effects->count; i++) {
        op_end(sim, &effects->heap[i]); /* the host's side of a copy that is dropped may be gone */
    }
    while (effects->count > 0) {
        weir__sim_effect e = pop(effects);
        if (drop(&e, sim->now)) {
            call(sim, &e);
        }
    }
    weir__sim_unlock(sim);
    free(effects->heap);
}
