/* Memory of a step: allocated piece by piece, released together, while the device is still working on it.
 *
 * A step of three layers leaves one result; each layer's scratch memory lives until the rewind to its mark. A second
 * stream copies the result out, so the program tells the arena of this stream before the step ends. The simulator's
 * auditor checks the program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <weir/caching.h>
#include <weir/sim.h>
#include <weir/weir.h>

enum { steps = 10, layers = 3, scratch = 400 << 10, result = 100 << 10 };

static void check(weir_status status)
{
    if (status == WEIR_OK) return;
    fprintf(stderr, "03_steps: %s\n", weir_status_text(status));
    exit(1);
}

static uint64_t take(weir_sim *sim, weir_arena *arena, weir_sim_stream *native, uint64_t size)
{
    uint64_t address;
    check(weir_arena_alloc(arena, size, 0, &address));
    weir_sim_block_alloc(sim, address, size, native, "step"); /* the auditor does not see the arena */
    check(weir_sim_fill(sim, native, address, size, 1, "step"));
    return address;
}

int main(void)
{
    weir_sim_config device = WEIR_SIM_CONFIG_INIT;
    device.mode = WEIR_SIM_BACKED;
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
    weir_arena *arena;
    check(weir_pool_create(&config, &pool));
    check(weir_pool_stream(pool, compute, &compute_stream));
    check(weir_pool_stream(pool, copy, &copy_stream));
    check(weir_arena_create(pool, compute_stream, NULL, &arena));

    weir_event *ready;
    static unsigned char host[steps][result];
    check(weir_device_event_create(weir_sim_device(sim), &ready));
    for (int step = 0; step < steps; step++) {
        uint64_t out = take(sim, arena, compute, result);
        weir_mark mark;
        check(weir_arena_mark(arena, &mark));
        for (int layer = 0; layer < layers; layer++) {
            uint64_t address = take(sim, arena, compute, scratch);
            weir_sim_block_free(sim, address, compute, "layer");
            check(weir_arena_rewind(arena, mark)); /* correct while the layer's work is still queued */
        }
        check(weir_device_event_record(weir_sim_device(sim), ready, compute));
        check(weir_device_stream_wait_event(weir_sim_device(sim), copy, ready));
        check(weir_sim_copy_to_host(sim, copy, host[step], out, result, "copy out"));
        /* without this call the next step could overwrite memory that `copy` still reads */
        check(weir_arena_use(arena, copy_stream));
        weir_sim_block_free(sim, out, compute, "step");
        check(weir_arena_reset(arena));
    }

    weir_arena_stats usage = WEIR_ARENA_STATS_INIT;
    check(weir_arena_get_stats(arena, &usage));
    unsigned long long hazards = weir_sim_finding_count(sim, WEIR_SIM_FINDING_KINDS);
    printf("%llu allocations in %llu steps, never more than %llu KiB in use, %llu hazards\n",
           (unsigned long long)usage.allocs, (unsigned long long)usage.resets,
           (unsigned long long)usage.peak_used_bytes >> 10, hazards);
    weir_arena_destroy(arena);
    check(weir_device_event_destroy(weir_sim_device(sim), ready));
    check(weir_pool_destroy(pool));
    check(weir_sim_sync(sim));
    check(weir_sim_destroy(sim));
    return hazards == 0 && host[steps - 1][result - 1] == 1 ? 0 : 1;
}
