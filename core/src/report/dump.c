/* core/src/report/dump.c: prints a pool, for a log or a debugger.
 *
 * Guarantee: the lines show one moment, because every lock is held. The dump changes nothing and needs no host memory:
 * it works in a program that has run out of memory.
 *
 * Cost: linear in the streams and ranges.
 */
#include "report/report.h"
#include "shared/cancel.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { line_bytes = 256 };

struct dump {
    weir_dump_sink sink;
    void *ctx;
    uint64_t region; /* the region of the last range */
    bool any;        /* there was a range */
};

__attribute__((format(printf, 2, 3))) static void print_line(const struct dump *dump, const char *format, ...)
{
    char line[line_bytes];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    WEIR_ASSERT(length >= 0 && length < line_bytes);
    (void)length;
    const int cancel_state = cancel_disable();
    dump->sink(dump->ctx, line);
    cancel_restore(cancel_state);
}

static void dump_pool(const struct dump *dump, const weir_pool *pool)
{
    const struct pool_counts *counts = &pool->counts;
    print_line(dump, "pool %p: strategy %s, %s, %zu streams, %zu blocks", (const void *)pool, pool->strategy->name,
               pool->vm != NULL ? "virtual memory" : "regions", pool->lanes - 1, pool->blocks.count);
    print_line(dump, "  bytes: reserved %" PRIu64 ", peak %" PRIu64 ", pending %" PRIu64, pool->held.bytes,
               pool->held.peak, pool->pending_bytes);
    if (pool->pinned_bytes != 0) {
        print_line(dump, "  pinned: %" PRIu64 " bytes", pool->pinned_bytes);
    }
    print_line(dump, "  limits: soft %" PRIu64 ", hard %" PRIu64, pool->config.soft_limit_bytes,
               pool->config.limit_bytes);
    print_line(dump,
               "  counts: waits %" PRIu64 ", syncs %" PRIu64 ", events %" PRIu64 ", region allocs %" PRIu64
               ", region frees %" PRIu64 ", device failures %" PRIu64,
               counts->waits, counts->syncs, counts->events, counts->region_allocs, counts->region_frees,
               counts->device_failures);
    for (int rung = 0; rung < WEIR_RUNG_COUNT; rung++) {
        if (counts->served[rung] != 0) {
            print_line(dump, "  served from %s: %" PRIu64, weir_rung_name((weir_rung)rung), counts->served[rung]);
        }
    }
}

static void dump_stream(const struct dump *dump, const weir_stream *stream)
{
    WEIR_ASSERT(stream_is_locked(stream));
    const struct stream_counters *counters = &stream->counters;
    print_line(dump, "stream %" PRIu32 ": native %p%s, tick %" PRIu64 ", done %" PRIu64 ", last free %" PRIu64,
               stream->lane, stream->native, stream->retired ? ", retired" : "",
               (uint64_t)atomic_load_explicit(&stream->tick, memory_order_relaxed), (uint64_t)done_on(stream),
               (uint64_t)stream->last_free);
    print_line(dump,
               "  bytes: requested %" PRId64 ", live %" PRId64 ", cached %" PRIu64 "; frees %" PRIu64
               ", misses %" PRIu64,
               counters->requested, counters->live, front_all_bytes(&stream->front), counters->frees, counters->misses);
}

static bool dump_range(void *ctx, const weir_walk_entry *entry)
{
    static const char *const states[] = {"free", "live", "cached", "pending", "unmapped", "asleep"};
    struct dump *dump = ctx;
    WEIR_ASSERT((size_t)entry->state < sizeof(states) / sizeof(states[0]));
    if (!dump->any || dump->region != entry->region_address) {
        print_line(dump, "region 0x%" PRIx64 ": %" PRIu64 " bytes", entry->region_address, entry->region_size);
    }
    dump->any = true;
    dump->region = entry->region_address;
    print_line(dump, "  0x%" PRIx64 ": %" PRIu64 " bytes, %s%s, stream %" PRIu32 ", requested %" PRIu64, entry->address,
               entry->size, states[entry->state], entry->pinned_bytes != 0 ? " and pinned" : "", entry->stream,
               entry->requested);
    return true;
}

weir_status weir_pool_dump(weir_pool *pool, weir_dump_sink sink, void *ctx)
{
    if (pool == NULL || sink == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_dump: %s is NULL", pool == NULL ? "pool" : "sink");
    }
    struct dump dump = {.sink = sink, .ctx = ctx};
    weir__pool_lock_all(pool);
    dump_pool(&dump, pool);
    for (size_t lane = 1; lane < pool->lanes; lane++) {
        dump_stream(&dump, pool->streams[lane]);
    }
    weir__inspect_walk_locked(pool, dump_range, &dump);
    weir__pool_unlock_all(pool);
    return WEIR_OK;
}
