/* tests/pool/unit/stream_event_test.c: the order that a pool learns from events of its caller.
 *
 * An event carries exactly the clock of its stream at its last record. If the pool assumes too much order, the
 * simulator's auditor finds it; if the pool assumes too little, the statistics show it.
 */
enum { A, B, C, D, streams };

#include "stream_world.h"

/* Allocates a block on the stream and queues a kernel that uses it. */
static weir_block *get_running(struct world *w, int stream)
{
    weir_block *block = get(w, stream, SIZE);
    run_on(w, block, stream);
    return block;
}

/* B is ordered after A's free. An event is recorded on B, and then again on C, which is not ordered after A: the event
 * does not cover A. */
TEST(test_a_second_record_replaces_the_first)
{
    struct world w = open_world(0);
    weir_event *order = new_event(w.sim);
    weir_event *event = new_event(w.sim);
    put(&w, get_running(&w, A), A);
    record(&w, order, A);
    wait_for(&w, B, order);
    record(&w, event, B);
    record(&w, event, C);
    wait_for(&w, D, event);
    (void)get_running(&w, D);
    is_clean(w.sim);
    assert_int_equal(figures(&w).region_allocs, 2);
    forget(&w, event);
    forget(&w, order);
    close_world(&w);
}

/* The host has waited for an event of B, which had waited for A: both are complete, and no event of the pool is
 * needed. */
TEST(test_a_host_wait_for_an_event_covers_transitive_work)
{
    struct world w = open_world(0);
    weir_event *order = new_event(w.sim);
    weir_event *event = new_event(w.sim);
    put(&w, get_running(&w, A), A);
    record(&w, order, A);
    wait_for(&w, B, order);
    record(&w, event, B);
    ok(weir_device_event_sync(w.device, event));
    ok(weir_event_synced(w.pool, event));
    (void)get_running(&w, C);
    if (figures(&w).events_recorded != 0 || figures(&w).region_allocs != 1) {
        fail_msg("a wait for an event says nothing of the streams before it");
    }
    forget(&w, event);
    forget(&w, order);
    close_world(&w);
}

/* A wait of the host for stream B covers the work that B had waited for. */
TEST(test_a_host_wait_for_a_stream_covers_transitive_work)
{
    struct world w = open_world(0);
    weir_event *order = new_event(w.sim);
    put(&w, get_running(&w, A), A);
    record(&w, order, A);
    wait_for(&w, B, order);
    sync_stream(w.sim, w.native[B]);
    ok(weir_stream_synced(w.pool, w.stream[B]));
    (void)get_running(&w, C);
    if (figures(&w).events_recorded != 0 || figures(&w).region_allocs != 1) {
        fail_msg("a wait for a stream says nothing of the streams before it");
    }
    forget(&w, order);
    close_world(&w);
}
