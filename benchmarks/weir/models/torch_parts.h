/* torch_parts.h: the structs and functions that the files of the torch_heap share. */
#ifndef WEIR_BENCHMARKS_MODELS_TORCH_PARTS_H
#define WEIR_BENCHMARKS_MODELS_TORCH_PARTS_H

#include "segments.h"
#include "torch_heap.h"

enum torch_kind { TORCH_SMALL, TORCH_LARGE };

#define TORCH_SMALL_BYTES (UINT64_C(1) << 20) /* the largest rounded size of the small pool */

/* The end of a stream's use of a freed block. */
struct torch_event {
    weir_event *event;
    struct segment_block *block; /* NULL in the list of unused events */
    struct torch_event *next;
};

struct torch_stream {
    void *native;
    struct torch_event *first; /* in the order in which they were recorded */
    struct torch_event *last;
};

/* A reservation of addresses that is mapped piece by piece; one segment. */
struct torch_expandable {
    struct torch_expandable *next;
    struct segment *segment;
    uint64_t piece_bytes;
    weir_vm_handle *handles; /* [segment size / piece_bytes]; 0: not mapped */
};

struct torch_heap {
    struct segments segments; /* a lane is a stream's number and 1 */
    struct pytorch_settings settings;
    struct torch_heap_config config;
    weir_device_info info;
    uint64_t allowed_bytes; /* UINT64_MAX: no bound */
    uint64_t held_bytes;
    uint64_t searches[SEGMENT_KINDS]; /* the clock of garbage collection; a free block's tick is its time of birth */
    struct torch_stream *streams;     /* [stream_count], by lane */
    size_t stream_count;
    struct torch_event *unused_events;
    uint64_t pending_events;
    struct torch_expandable *expandables;
    struct torch_heap_stats counted; /* the counters that the segments do not give */
};

/* A request on its way through the ladder. */
struct torch_request {
    weir_lane lane;
    enum torch_kind kind;
    uint64_t rounded;
    bool rejected; /* refused before the device was asked: the ladder ends */
};

weir_status torch_wait_all(struct torch_heap *heap);

/* --- torch_events.c --- */

/* Records an event on each stream that uses the block. The block stays taken until all have passed. */
weir_status torch_events_record(struct torch_heap *heap, struct segment_block *block);
/* Frees the blocks whose events have passed; of each stream up to the first event that has not. */
weir_status torch_events_poll(struct torch_heap *heap);
/* Waits for all events and frees their blocks. */
weir_status torch_events_wait(struct torch_heap *heap);
void torch_events_fini(struct torch_heap *heap);
bool torch_block_is_used(const struct segment_block *block);
/* Frees a block that no event guards. */
void torch_block_settle(struct torch_heap *heap, struct segment_block *block);

/* --- torch_expandable.c --- */

/* Maps memory behind or between free blocks until one serves the request; it is in no set of free blocks then. NULL in
 * *block with WEIR_OK: the device has no memory. */
weir_status torch_expand(struct torch_heap *heap, const struct torch_request *request, struct segment_block **block);
/* How large the block could become. */
uint64_t torch_expandable_size(const struct segment_block *block);
/* Returns the whole pieces inside of a free block to the device, and the reservation once it is empty. */
weir_status torch_unmap(struct torch_heap *heap, struct segment_block *block);
/* Returns everything, without regard to blocks. */
weir_status torch_expandables_fini(struct torch_heap *heap);

#endif
