/* weir/capture.h: memory of captured graphs.
 *
 * Work queued on a stream that is being captured does not run: it becomes a graph, which runs later, any number of
 * times, at the addresses of its capture. So memory of a graph belongs to the graph until the graph is destroyed, and
 * nothing but the program's own work may get into a capture. A pool keeps to that by itself:
 *   - It records no event on a captured stream, makes no stream wait for one and no captured stream wait, and does not
 *     query or synchronise it.
 *   - A block that is allocated on a captured stream takes memory that is idle, memory freed in the same capture, by
 *     the order inside the graph, or memory freed before the capture on the stream that it began on or ordered before
 *     that stream's work; else the pool grows, or the host waits for other streams.
 *   - A block that is allocated or freed on a captured stream stays out of use outside of the capture, also after its
 *     free, until the graph has been destroyed.
 *   - Forks and joins inside a capture are learnt from the hints weir_stream_recorded and weir_stream_waited. A stream
 *     that a wait draws into a capture is captured from then on. Without hints, streams of one capture share no memory.
 *
 * Rule for the program: the first launch of a graph comes after the work that its stream had queued before the capture;
 * with a capture pool, after the work that the streams of its captures so far had queued before them. A program that
 * synchronises before it captures, as engines do, keeps to it.
 *
 * How a pool learns of captures. If the device can tell (stream_capture of weir/device.h), the pool asks it in each
 * call for a block and in each hint: one call of the runtime more. A program that tells its captures itself, by capture
 * pools, or that captures nothing, saves that call by WEIR_POOL_CAPTURES_TOLD. The pool learns of the end of a graph
 * from the device. If the runtime does not tell, the memory of the graph stays aside until weir_pool_destroy: then use
 * a capture pool.
 *
 * Threads. A pool that asks cannot know that another thread is about to begin a capture: it may record an event on the
 * stream at the moment of the runtime's begin, which breaks the capture. If threads other than the one that captures
 * use the pool, tell the capture: from weir_capture_begin on nothing is recorded on the stream.
 *
 * A capture pool is a part of a pool for many captures that never run at the same time: a serving engine captures a
 * graph for each batch size and launches one after the other. All captures of a capture pool share their memory,
 * on any streams.
 *
 *     weir_capture_pool_create(pool, &captures);
 *     weir_capture_begin(captures, stream);        before the runtime's own begin
 *     ... begin, capture, end; alloc and free on `stream` as always ...
 *     weir_capture_end(captures);
 *     weir_capture_pool_release(captures);         after the last graph has been destroyed
 *
 * Between launches the memory of the graphs may serve other work: weir_capture_lend.
 *
 * Launches of graphs of one capture pool are ordered one after the other: none begins before the one before it is
 * complete. A block that is live at the end of a capture keeps its contents until a graph that was captured before is
 * launched, because that graph may have used the same memory for something that it freed (PyTorch's rule for graphs
 * that share a pool).
 */
#ifndef WEIR_CAPTURE_H
#define WEIR_CAPTURE_H

#include <weir/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_capture_pool weir_capture_pool;

typedef struct weir_capture_stats {
    size_t struct_size;
    uint64_t captures;   /* captures begun */
    uint64_t live_bytes; /* in blocks allocated in captures and not freed, or still in use by queued work */
    uint64_t free_bytes; /* freed in captures: kept for graphs and for later captures */
    uint64_t lent_bytes; /* the part of live_bytes in blocks of other work (weir_capture_lend) */
} weir_capture_stats;

#define WEIR_CAPTURE_STATS_INIT WEIR_STRUCT_INIT(weir_capture_stats)

/* Creates a capture pool within `pool`, with one hold. The pool is not destroyed before the capture pool is released.
 * Takes no memory from the device. Returns WEIR_ERR_INVALID for NULL, WEIR_ERR_UNSUPPORTED if the pool's device has no
 * streams, WEIR_ERR_NO_MEMORY if there is no host memory. Thread-safe, as all functions below are. */
WEIR_API weir_status weir_capture_pool_create(weir_pool *pool, weir_capture_pool **captures);

/* Hold a capture pool once more, for one more graph, and release a hold. The last release gives the memory to the pool:
 * every stream may use it once the work from before the captures is complete. So all graphs of the capture pool are
 * destroyed before, or never run again, and the host has seen their last launch complete. Blocks that are still live
 * then stay valid, and are freed as any other. Both return WEIR_ERR_INVALID for NULL; the last release returns
 * WEIR_ERR_BUSY, and changes nothing, during a capture. */
WEIR_API weir_status weir_capture_pool_hold(weir_capture_pool *captures);
WEIR_API weir_status weir_capture_pool_release(weir_capture_pool *captures);

/* Begins a capture: until weir_capture_end, blocks and hints on `stream` belong to the capture. Call it before the
 * runtime's begin, while no other thread calls the pool with this stream. Streams that are drawn in by a wait for an
 * event of the capture follow by the hint weir_stream_waited. Records an event on the stream, so that the pool can
 * still learn when the work before the capture is complete. Returns WEIR_ERR_INVALID for NULL and for a stream of
 * another pool; WEIR_ERR_BUSY if the stream is in a capture already, or the capture pool is in one; WEIR_ERR_NO_MEMORY
 * if there is no host memory. */
WEIR_API weir_status weir_capture_begin(weir_capture_pool *captures, weir_stream *stream);

/* Ends the capture, also a failed one, for all its streams, which the graph has joined. Returns WEIR_ERR_INVALID for
 * NULL and if no capture has begun. */
WEIR_API weir_status weir_capture_end(weir_capture_pool *captures);

/* Lends the idle memory of the graphs to other work on `stream`, and reclaims it before the next launch: what a server
 * computes between two launches, a prompt for example, then needs no memory beside that of the graphs. From
 * weir_capture_lend on a request on `stream` is served from memory that is free after the captures, if it fits; else as
 * always. A block in lent memory comes back with its free, on any stream. The caller says by this call that launches
 * are ordered: `stream` comes after all launches so far, and after the work before which the first launch of each graph
 * may not come, and the next launch comes after the work that `stream` has queued until weir_capture_reclaim. No launch
 * is queued in between. So blocks that outlive the next launch are allocated before, or on another stream.
 *
 * weir_capture_lend returns WEIR_ERR_INVALID for NULL, for a stream of another pool, and if nothing has been captured;
 * WEIR_ERR_BUSY during a capture into the capture pool or on the stream, and if memory is lent already, by or to it.
 * weir_capture_reclaim returns WEIR_ERR_INVALID for NULL and if no memory is lent; WEIR_ERR_BUSY, and changes nothing,
 * while a block in lent memory is live, or work of another stream is not known to have ended with it. While memory is
 * lent, weir_capture_begin and weir_capture_pool_release, and weir_stream_retire for the stream, return WEIR_ERR_BUSY.
 * Call both while no other thread calls the pool with this stream. */
WEIR_API weir_status weir_capture_lend(weir_capture_pool *captures, weir_stream *stream);
WEIR_API weir_status weir_capture_reclaim(weir_capture_pool *captures);

/* Copies the counters into *stats. The cost is one short lock and a look at each stream of a capture and at
 * each freed block that several streams use. */
WEIR_API weir_status weir_capture_get_stats(weir_capture_pool *captures, weir_capture_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
