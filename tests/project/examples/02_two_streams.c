/* A block that two streams use: first with a missing call, then correctly. The simulator's auditor reports the hazards.
 *
 * The stream `compute` writes a block and the stream `copy` reads it. The program must tell the pool that `copy` uses
 * the block too (weir_pool_use); otherwise the pool hands the block out again while `copy` is still reading it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <weir/caching.h>
#include <weir/sim.h>
#include <weir/weir.h>

enum { size = 4 << 20, copy_ns = 1000000 };

static void check(weir_status status)
{
    if (status == WEIR_OK) return;
    fprintf(stderr, "02_two_streams: %s\n", weir_status_text(status));
    exit(1);
}

static void launch(weir_sim *sim, weir_sim_stream *stream, weir_block *block, bool write, uint64_t ns, const char *tag)
{
    const weir_sim_access access = {weir_block_address(block), size, write};
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.accesses = &access;
    work.access_count = 1;
    work.duration_ns = ns;
    work.tag = tag;
    check(weir_sim_launch(sim, stream, &work));
}

/* The auditor does not see the pool's blocks: the program announces each block that it hands out. */
static weir_block *alloc(weir_sim *sim, weir_pool *pool, weir_stream *stream, weir_sim_stream *native, const char *tag)
{
    weir_block *block;
    check(weir_pool_alloc(pool, stream, size, 0, &block));
    weir_sim_block_alloc(sim, weir_block_address(block), weir_block_size(block), native, tag);
    return block;
}

static void release(weir_sim *sim, weir_pool *pool, weir_block *block, weir_stream *stream, weir_sim_stream *native)
{
    weir_sim_block_free(sim, weir_block_address(block), native, NULL);
    check(weir_pool_free(pool, block, stream));
}

/* Returns the number of hazards that the auditor found. */
static unsigned long long run(bool tell_the_pool)
{
    weir_sim_config device = WEIR_SIM_CONFIG_INIT;
    weir_sim *sim;
    weir_sim_stream *compute, *copy;
    check(weir_sim_create(&device, &sim));
    check(weir_sim_stream_create(sim, &compute));
    check(weir_sim_stream_create(sim, &copy));

    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = weir_sim_device(sim);
    config.strategy = weir_caching_strategy();
    weir_pool *pool;
    weir_stream *compute_stream, *copy_stream;
    check(weir_pool_create(&config, &pool));
    check(weir_pool_stream(pool, compute, &compute_stream));
    check(weir_pool_stream(pool, copy, &copy_stream));

    /* compute writes, then copy reads: the program orders the two streams with an event. */
    weir_event *written;
    check(weir_device_event_create(weir_sim_device(sim), &written));
    weir_block *block = alloc(sim, pool, compute_stream, compute, "activations");
    launch(sim, compute, block, true, 1000, "write");
    check(weir_device_event_record(weir_sim_device(sim), written, compute));
    check(weir_device_stream_wait_event(weir_sim_device(sim), copy, written));
    launch(sim, copy, block, false, copy_ns, "copy out");

    if (tell_the_pool) check(weir_pool_use(pool, block, copy_stream)); /* "copy touches it as well" */
    release(sim, pool, block, compute_stream, compute);

    /* Without weir_pool_use the pool returns the same bytes at once, because compute freed them. */
    block = alloc(sim, pool, compute_stream, compute, "next activations");
    launch(sim, compute, block, true, 1000, "overwrite");
    release(sim, pool, block, compute_stream, compute);

    unsigned long long hazards = weir_sim_finding_count(sim, WEIR_SIM_FINDING_KINDS);
    weir_sim_finding finding;
    if (weir_sim_finding_at(sim, 0, &finding)) printf("    %s\n", finding.text);
    check(weir_device_event_destroy(weir_sim_device(sim), written));
    check(weir_pool_destroy(pool));
    check(weir_sim_destroy(sim));
    return hazards;
}

int main(void)
{
    puts("without weir_pool_use:");
    unsigned long long wrong = run(false);
    puts("with weir_pool_use:");
    unsigned long long right = run(true);
    printf("%llu hazards without, %llu with\n", wrong, right);
    return wrong > 0 && right == 0 ? 0 : 1;
}
