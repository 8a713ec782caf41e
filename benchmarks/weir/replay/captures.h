/* captures.h: the captures of a replay: capture pools of the pool that is replayed, which the trace's `g` lines begin,
 * end and release.
 *
 * The memory of graphs is what weir_capture_get_stats reports of all these capture pools. It grows inside captures only
 * and falls by releases only, so it is read at the end of each capture, and its highest value is what all captures need
 * together: with the strategy of the recorded pool, the value that the recorded program reads from its own capture
 * pools when it is not being recorded. tests/command/command/replay_captures_test.c has the proof: of 3,600 programs
 * one differs, by 2,560 bytes. It is less exact if the program makes its streams known to the pool in another order
 * than that of their first use, and if it does not wait for queued work before its captures.
 */
#ifndef WEIR_BENCHMARKS_CAPTURES_H
#define WEIR_BENCHMARKS_CAPTURES_H

#include <weir/capture.h>
#include <weir/trace.h>

#include "shared/number_map.h"

#include <stdbool.h>

struct replay_capture_pool;

struct replay_captures {
    weir_pool *pool;
    bool apart; /* each stream has a capture pool of its own in each capture pool of the trace, as in PyTorch's private
                   pools, which share no memory between streams */
    struct replay_capture_pool *pools;
    size_t count;
    size_t room;
    weir__number_map index; /* capture pool of the trace, and stream if `apart` -> index + 1 of the latest one */
    uint64_t peak_bytes;    /* the most memory that graphs had together */
};

/* Follow a `g` line. replay_captures_last returns the stream of the capture pool's latest capture, WEIR_TRACE_NONE
 * before the first: the launches of its graphs come before those of the next one. */
uint32_t replay_captures_last(const struct replay_captures *captures, uint32_t pool, uint32_t number);
weir_status replay_captures_begin(struct replay_captures *captures, uint32_t pool, uint32_t number,
                                  weir_stream *stream);
weir_status replay_captures_end(struct replay_captures *captures, uint32_t pool, uint32_t number);

/* Releases the capture pool `pool` of the trace. WEIR_TRACE_NONE: ends all captures and releases all capture pools. The
 * host has waited for their streams. */
weir_status replay_captures_release(struct replay_captures *captures, uint32_t pool);

/* Frees the records. All capture pools are released. */
void replay_captures_fini(struct replay_captures *captures);

#endif
