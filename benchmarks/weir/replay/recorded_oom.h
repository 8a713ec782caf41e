/* recorded_oom.h: the request on which the recorded program ran out of memory.
 *
 * A snapshot that a program writes when it runs out of memory ends with an `o` event: a request that was refused. A
 * replay asks for it too, on the stream of the latest allocation, and frees it at once if it is served. If the trace
 * has an allocation behind the `o` event, the replay leaves the event out: the program went on without that memory.
 */
#ifndef WEIR_BENCHMARKS_RECORDED_OOM_H
#define WEIR_BENCHMARKS_RECORDED_OOM_H

#include "trace/trace.h"

struct recorded_oom {
    bool found;
    size_t index;        /* index of the `o` event in trace->events */
    uint64_t event;      /* number of the `o` event in the file */
    uint64_t size;       /* bytes requested */
    uint32_t stream;     /* stream of the latest allocation; 0 if there is none */
    uint64_t free_bytes; /* free bytes of the device when the allocator refused the request */
    /* bytes that the allocator held when it refused the request, from the s and z events (segments, mappings); 0 =
     * unknown */
    uint64_t reserved_bytes;
    uint64_t capacity; /* reserved_bytes + free_bytes; 0 = unknown, or a capacity that no simulated device has */
};

/* Finds the last `o` event, a request that was refused. The trace must be of one device. */
struct recorded_oom recorded_oom_find(const struct trace *trace);

#endif
