/* replay_heap.h: the allocator that a replay plays a trace on: a pool of weir with some strategy, or the model of
 * PyTorch's allocator with its settings (models/torch_heap.h), which asks the device itself.
 *
 * The model has no host frees and no waits of its own: a free on another stream than the block's counts as a use there
 * first, as a correct program says with record_stream, and what the host or a stream has waited for shows in its
 * events. The streams of the trace are numbered; the device's handle of a number is told once.
 */
#ifndef WEIR_BENCHMARKS_REPLAY_HEAP_H
#define WEIR_BENCHMARKS_REPLAY_HEAP_H

#include <weir/pool.h>
#include <weir/sim.h>

#include "models/torch_heap.h"

struct replay_heap {
    weir_pool *pool; /* NULL: torch */
    struct torch_heap *torch;
    weir_sim *sim;
    uint64_t failures; /* requests that torch refused */
};

/* A stream of the trace in the heap. */
struct replay_stream {
    uint32_t number;
    weir_stream *pool; /* NULL: torch */
};

struct replay_taken {
    void *handle; /* NULL: no block */
    uint64_t address;
    uint64_t size; /* as the allocator rounds it */
};

struct replay_heap_figures {
    uint64_t free_bytes;
    uint64_t largest_free_bytes;
    uint64_t pending_bytes;
    uint64_t waits;
    uint64_t syncs;
    uint64_t served[WEIR_RUNG_COUNT];
};

/* Creates the model. The pool of a pool's heap is created by the caller. */
weir_status replay_heap_torch(struct replay_heap *heap, weir_device *device, const struct pytorch_settings *settings);
/* Destroys whichever there is; all memory goes back to the device. */
weir_status replay_heap_destroy(struct replay_heap *heap);
weir_status replay_heap_stream(struct replay_heap *heap, uint32_t number, void *native, struct replay_stream *stream);
weir_status replay_heap_alloc(struct replay_heap *heap, const struct replay_stream *stream, uint64_t size,
                              uint64_t align, weir_tag tag, struct replay_taken *taken);
/* Frees a block in the order of a stream; NULL: the host says that no work uses it. `home` is the block's stream. */
weir_status replay_heap_free(struct replay_heap *heap, const struct replay_taken *taken,
                             const struct replay_stream *home, const struct replay_stream *stream);
weir_status replay_heap_use(struct replay_heap *heap, const struct replay_taken *taken,
                            const struct replay_stream *stream);
weir_status replay_heap_recorded(struct replay_heap *heap, weir_event *event, const struct replay_stream *stream);
weir_status replay_heap_waited(struct replay_heap *heap, const struct replay_stream *stream, weir_event *event);
weir_status replay_heap_stream_synced(struct replay_heap *heap, const struct replay_stream *stream);
weir_status replay_heap_event_synced(struct replay_heap *heap, weir_event *event);
weir_status replay_heap_trim(struct replay_heap *heap);
weir_status replay_heap_check(struct replay_heap *heap, const char **why);
void replay_heap_get_figures(struct replay_heap *heap, struct replay_heap_figures *figures);
/* Describes the failure of the last request. `live_bytes`: the sum of the sizes asked for, of live blocks. */
weir_status replay_heap_get_oom(struct replay_heap *heap, const struct replay_stream *stream, uint64_t size,
                                uint64_t live_bytes, weir_oom_record *record);
/* Describes the memory as it is now (weir_pool_survey). */
weir_status replay_heap_survey(struct replay_heap *heap, const struct replay_stream *stream, uint64_t live_bytes,
                               weir_oom_record *record);

#endif
