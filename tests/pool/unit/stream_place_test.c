/* tests/pool/unit/stream_place_test.c: the end of a stream: its memory is free for all streams, and the next stream in
 * its place inherits nothing.
 *
 * The simulator's auditor checks the order: kernels are still running when the next step begins, and no call costs host
 * time.
 */
enum { A, B, streams };

#include "stream_world.h"

/* Puts a new stream of the device in the place of the retired one. */
static void succeed(struct world *w, int stream)
{
    const weir_stream *place = w->stream[stream];
    w->native[stream] = new_stream(w->sim);
    ok(weir_pool_stream(w->pool, w->native[stream], &w->stream[stream]));
    assert_ptr_equal(w->stream[stream], place);
}

/* Stream A waits for B, and breaks before B has come that far: the device drops the wait with the rest of A's work. So
 * A has ended and B's work has not. The next stream in A's place is not ordered after B's work. */
TEST(test_no_clock)
{
    struct world w = open_world(0);
    weir_block *block = get(&w, B, SIZE);
    run_on(&w, block, B);
    put(&w, block, B);
    tell_order(&w, B, A);
    ok(weir_sim_stream_break(w.sim, w.native[A]));
    fails(weir_device_stream_sync(w.device, w.native[A]), WEIR_ERR_DEVICE);
    ok(weir_stream_ended(w.pool, w.stream[A]));
    succeed(&w, A);
    run_on(&w, get(&w, A, SIZE), A);
    is_clean(w.sim);
    assert_int_equal(figures(&w).region_allocs, 2); /* B's memory could be had only after a wait, so the pool grew */
    end_world(&w);                                  /* not close_world, because a wait for the broken stream fails */
}

/* All ticks of a retired stream are complete. Memory that the next stream in its place frees is nevertheless
 * unfinished. B needs this memory, because the device has no other. */
TEST(test_no_tick)
{
    struct world w = open_world(SIZE);
    put(&w, get(&w, A, SIZE), A);
    ok(weir_stream_retire(w.pool, w.stream[A]));
    succeed(&w, A);
    weir_block *block = get(&w, A, SIZE);
    run_on(&w, block, A);
    put(&w, block, A);
    run_on(&w, get(&w, B, SIZE), B);
    close_world(&w);
}

/* A tag that was set for a stream ends with it. */
TEST(test_no_tag)
{
    struct world w = open_world(0);
    weir_tag weights = 0;
    ok(weir_pool_tag(w.pool, "weights", &weights));
    ok(weir_stream_set_tag(w.pool, w.stream[A], weights));
    assert_int_equal(weir_block_tag(get(&w, A, SIZE)), weights);
    ok(weir_stream_retire(w.pool, w.stream[A]));
    succeed(&w, A);
    assert_int_equal(weir_block_tag(get(&w, A, SIZE)), 0);
    close_world(&w);
}

/* The front cache of a stream that has ended holds nothing: its blocks serve other streams, or go back to the
 * device. */
TEST(test_no_cached_block)
{
    struct world w = open_world(4 * SIZE);
    put(&w, get(&w, A, 4 * SIZE), A); /* reserves enough memory that the front cache takes the next block */
    weir_block *block = get(&w, A, 1 * KIB);
    run_on(&w, block, A);
    put(&w, block, A);
    assert_int_equal(figures(&w).cached_bytes, 1 * KIB);
    sync_stream(w.sim, w.native[A]);
    ok(weir_stream_ended(w.pool, w.stream[A]));
    if (figures(&w).cached_bytes != 0) {
        fail_msg("the front cache of an ended stream holds %u bytes", (unsigned)figures(&w).cached_bytes);
    }
    run_on(&w, get(&w, B, 4 * SIZE), B);
    assert_int_equal(figures(&w).syncs, 0);
    succeed(&w, A);
    close_world(&w);
}

/* A block that waited only for the ended stream waits for no stream any more. */
TEST(test_no_pending_block)
{
    struct world w = open_world(0);
    weir_block *block = get(&w, A, SIZE);
    ok(weir_pool_use(w.pool, block, w.stream[B]));
    run_on(&w, block, A);
    order(w.sim, w.native[A], w.native[B]);
    run_on(&w, block, B);
    put(&w, block, A);
    assert_int_equal(figures(&w).pending_bytes, SIZE);
    sync_stream(w.sim, w.native[B]);
    ok(weir_stream_ended(w.pool, w.stream[B]));
    if (figures(&w).pending_bytes != 0) {
        fail_msg("%u bytes wait for a stream that has ended", (unsigned)figures(&w).pending_bytes);
    }
    succeed(&w, B);
    close_world(&w);
}
