/* audit.h: the auditor: judges hand-outs of memory from the operations alone.
 *
 * The auditor is told of all operations that the host queued, waited for and announced, in the host's order, and builds
 * its own happens-before clocks from them. It never sees the simulator's clocks: the times in weir__sim_op_info go into
 * the text of a finding and decide nothing. So it also finds an allocator that is only lucky with its timing.
 *
 * Clocks. A clock maps each stream to a tick: all operations of that stream up to that tick are ordered before the
 * clock's owner. Each stream has a clock, and the host has one (the operations that it has seen complete). Queuing an
 * operation joins the host's clock into the stream's. A wait joins the event's clock into the stream's. An event that
 * is seen complete, or a stream that was synchronised, joins into the host's clock.
 *
 * Calls come under the simulator's lock. Cost: O(log segments) for each range named, O(streams) for joins, and those
 * are skipped while the host has learnt nothing new. Nothing is allocated in a steady state. When memory runs out, the
 * auditor stops for good and counts the operations that it did not judge: a verdict with gaps would be a guess.
 */
#ifndef WEIR_SIM_AUDIT_H
#define WEIR_SIM_AUDIT_H

#include "report.h"

typedef struct weir__sim_audit weir__sim_audit;

typedef struct weir__sim_clock {
    uint64_t *ticks; /* a tick for each stream number; entries from `count` on are 0 */
    uint32_t count;
    uint32_t capacity;
} weir__sim_clock;

void weir__sim_clock_fini(weir__sim_clock *clock);

typedef struct weir__sim_op_info {
    const char *what; /* a constant string */
    const char *tag;  /* copied; may be NULL */
    uint64_t start_ns;
    uint64_t end_ns;
} weir__sim_op_info;

/* Creates an auditor. Returns NULL when out of memory. A new auditor already knows stream 0. `direct_access` as in
 * weir_sim_config. */
weir__sim_audit *weir__sim_audit_create(size_t max_findings, bool direct_access);
void weir__sim_audit_destroy(weir__sim_audit *audit);
weir__sim_report *weir__sim_audit_report(weir__sim_audit *audit);
uint64_t weir__sim_audit_lost(const weir__sim_audit *audit);

/* Sets the function of weir_sim_set_reach. */
void weir__sim_audit_set_reach(weir__sim_audit *audit, weir_sim_reaches reaches, void *ctx);

/* Streams are numbered in the order of creation, from 1. An ended stream keeps its number and its operations. */
void weir__sim_audit_stream_created(weir__sim_audit *audit);
void weir__sim_audit_stream_ended(weir__sim_audit *audit, uint32_t stream);

/* Tells the auditor of work. Returns its operation, which the caller releases; NULL: it touches no memory, or the
 * auditor has stopped. */
weir__sim_op *weir__sim_audit_work(weir__sim_audit *audit, uint32_t stream, const weir__sim_op_info *info,
                                   const weir_sim_access *accesses, size_t access_count);
void weir__sim_audit_release(weir__sim_audit *audit, weir__sim_op *op);
/* Notes that a copy uses host memory; forgets the copies of host memory; tells that the host gives it back. */
void weir__sim_audit_host_copy(weir__sim_audit *audit, weir__sim_op *copy, uint64_t address, uint64_t size);
void weir__sim_audit_host_alloc(weir__sim_audit *audit, uint64_t address, uint64_t size);
void weir__sim_audit_host_free(weir__sim_audit *audit, uint64_t address, uint64_t size, const weir__sim_op_info *info);
/* Reports that the host's side of a copy has other bytes than when the copy was queued. */
void weir__sim_audit_host_changed(weir__sim_audit *audit, const weir__sim_op *copy, uint64_t address, uint64_t size);
/* Copies the stream's vector clock into the event. */
void weir__sim_audit_recorded(weir__sim_audit *audit, uint32_t stream, weir__sim_clock *event);
void weir__sim_audit_waited(weir__sim_audit *audit, uint32_t stream, const weir__sim_clock *event);

/* Tell the auditor that the host knows some work to be complete: the work captured by an event, the work of a stream,
 * or all work. */
void weir__sim_audit_saw_event(weir__sim_audit *audit, const weir__sim_clock *event);
void weir__sim_audit_saw_stream(weir__sim_audit *audit, uint32_t stream);
void weir__sim_audit_saw_all(weir__sim_audit *audit);
/* Tells the auditor that the stream broke and that the host knows it: no work of the stream itself runs any more. */
void weir__sim_audit_saw_broken(weir__sim_audit *audit, uint32_t stream);

/* Tell the auditor that an allocator handed out or got back a block, in stream order or by the host
 * (WEIR__SIM_HOST). `unit`: an access may go on from one such block into the next. */
void weir__sim_audit_block_alloc(weir__sim_audit *audit, uint64_t address, uint64_t size, bool unit, uint32_t stream,
                                 const weir__sim_op_info *info);
void weir__sim_audit_block_free(weir__sim_audit *audit, uint64_t address, uint32_t stream,
                                const weir__sim_op_info *info);

/* Tells the auditor that the device gave a range: a region, or with `mapped` a mapping. One block may span several
 * mappings. */
void weir__sim_audit_given(weir__sim_audit *audit, uint64_t address, uint64_t size, bool mapped,
                           const weir__sim_op_info *info);
/* Tells the auditor that the device got back a range that it gave. */
void weir__sim_audit_taken(weir__sim_audit *audit, uint64_t address, uint64_t size, const weir__sim_op_info *info);

/* Reports live blocks, and ranges that the device has not got back, as leaks. */
void weir__sim_audit_leaks(weir__sim_audit *audit);
/* Reports as a leak a range that is neither a block nor given by the device, such as a reservation. */
void weir__sim_audit_leaked(weir__sim_audit *audit, uint64_t address, uint64_t size, const weir__sim_op_info *info);

#endif
