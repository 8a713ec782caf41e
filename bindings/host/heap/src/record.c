/* record.c: notes a heap's events in a recorder that the caller created and stops.
 *
 * Idea: a call loads one pointer. If a recorder is set, the call increments a counter of its thread and loads the
 * pointer again. A thread that removes the recorder waits until all these counters are 0. Only the note itself runs
 * while a counter is raised, never the source and never the callback.
 * Cost: one load for each call while nothing is recorded.
 */
#include "heap_internal.h"
#include "shared/recorder.h"

#include <sched.h>
#include <stdio.h>

void weir__heap_note(weir_heap *heap, const weir_trace_event *event)
{
    weir__tally_cell *cell = weir__tally_mine(&heap->tally);
    (void)atomic_fetch_add(&cell->noting, 1);
    weir_recorder *recorder = atomic_load(&heap->recorder);
    if (recorder != NULL) {
        weir_recorder_note(recorder, event);
    }
    (void)atomic_fetch_sub(&cell->noting, 1);
}

struct beginning {
    const weir_heap *heap;
    weir_recorder *recorder;
    uint32_t stream;
};

static void note_prior(void *ctx, uint64_t block, uint64_t bytes)
{
    const struct beginning *beginning = ctx;
    WEIR_ASSERT(bytes >= beginning->heap->config.slack_bytes);
    const weir_trace_event event = {.kind = WEIR_TRACE_PRIOR,
                                    .stream = beginning->stream,
                                    .tag = WEIR_TRACE_NONE,
                                    .id = block,
                                    .size = bytes - beginning->heap->config.slack_bytes,
                                    .address = block};
    weir_recorder_note(beginning->recorder, &event);
}

static void begin(weir_heap *heap, weir_recorder *recorder)
{
    WEIR_ASSERT_HELD(&heap->record_lock);
    WEIR_ASSERT(atomic_load(&heap->recorder) == NULL);
    for (size_t i = 0; i < WEIR__HEAP_SOURCES; i++) {
        weir__source *source = &heap->sources[i];
        struct beginning beginning = {.heap = heap, .recorder = recorder, .stream = (uint32_t)i + 1};
        source->ops->each(source, note_prior, &beginning);
    }
    weir__recorder_hold(recorder);
    atomic_store(&heap->recorder, recorder);
}

static void end(weir_heap *heap)
{
    WEIR_ASSERT_HELD(&heap->record_lock);
    weir_recorder *recorder = atomic_exchange(&heap->recorder, NULL);
    if (recorder == NULL) {
        return;
    }
    for (size_t i = 0; i < WEIR__TALLY_CELLS; i++) {
        while (atomic_load(&heap->tally.cells[i].noting) != 0) {
            (void)sched_yield();
        }
    }
    weir__recorder_release(recorder);
}

weir_status weir_heap_record(weir_heap *heap, weir_recorder *recorder)
{
    if (heap == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_heap_record: heap is NULL");
    }
    weir_status status = WEIR_OK;
    (void)pthread_mutex_lock(&heap->record_lock);
    const weir_recorder *set = atomic_load(&heap->recorder);
    if (recorder == NULL) {
        end(heap);
    } else if (set == NULL) {
        begin(heap, recorder);
    } else if (set != recorder) {
        status = weir_refuse(WEIR_ERR_BUSY, "weir_heap_record: heap \"%s\" has another recorder", heap->name);
    }
    (void)pthread_mutex_unlock(&heap->record_lock);
    return status;
}

/* --- recording asked for by the environment --- */

void weir__heap_record_if_asked(weir_heap *heap)
{
    char source[128];
    (void)snprintf(source, sizeof(source), "weir heap %s", heap->name);
    weir_recorder *recorder = weir__recorder_from_environment(source);
    if (recorder != NULL && weir_heap_record(heap, recorder) == WEIR_OK) {
        WEIR_ASSERT(heap->asked_recorder == NULL);
        heap->asked_recorder = recorder;
    } else {
        (void)weir_recorder_stop(recorder, NULL);
    }
}

/* Requires that no other call of the heap is in progress, so that the count of calls in progress is 0 in every cell. */
void weir__heap_record_end(weir_heap *heap)
{
    weir_recorder *recorder = atomic_exchange(&heap->recorder, NULL);
    if (recorder != NULL) {
        weir__recorder_release(recorder);
    }
    if (heap->asked_recorder != NULL) {
        (void)weir_recorder_stop(heap->asked_recorder, NULL); /* an error (full disk) cannot be reported from here */
        heap->asked_recorder = NULL;
    }
}
