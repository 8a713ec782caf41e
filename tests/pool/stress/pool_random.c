/* tests/pool/stress/pool_random.c: random programs over one pool, each checked in several ways.
 *
 * A seed determines a program: a simulator of a few regions, so that every rung of the ladder is needed, a pool with a
 * random config, one to eight streams, and some two hundred calls. The program follows the rules of weir/pool.h: the
 * accesses to a block are ordered by waits of the program (which weir is told of, or not), by uses, or by real
 * synchronisation. So every error is an error of weir:
 *   - the simulator's auditor, which does not see the pool, must find no hazard;
 *   - a model of the live blocks must agree with statistics and walk, no two blocks may overlap, and check must pass;
 *   - after a request has failed, no memory may be left that would have served it: no run of free ranges, no
 *     region that could be exchanged for a new one; and the same request must fail again;
 *   - with virtual memory (a third of the programs) a request may fail only if the granules that live blocks or pins
 *     touch, plus the request rounded up to granules, exceed the limit or the device;
 *   - pinned memory (a quarter of the programs pin) is the same handle or region at the same address until the unpin;
 *   - placement must not depend on absolute addresses, and the same seed must give the same results in every run;
 *   - in backed mode every block must still hold the bytes that were written to it.
 *
 *   pool_random [SEEDS [FIRST [PAGE]]]      or WEIR_SEEDS, WEIR_SEED and WEIR_PAGE in the environment
 *
 * With PAGE, a power of two from 4096 up, every program has virtual memory in pages of PAGE bytes.
 */
#include "rig/test.h"
#include "random_program.h"

#include <weir/observer.h>
#include <weir/pin.h>
#include <weir/pool.h>
#include <weir/sim.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__has_include)
#if __has_include("pytorch.h") && __has_include("direct.h")
#include "direct.h"
#include "pytorch.h"
#define HAVE_MODELS 1
#endif
#endif

enum {
    max_lanes = 8,
    max_blocks = 96,
    max_pins = 6,
    told_events = 6,
    shapes = 2,
    log_lines = 40,
    granule = 512,
    host_ordered = -1,
    twin_every = 16, /* one program in 16 is run twice, at shifted addresses */
    host_page = 4096
};

/* In backed mode the first address is a multiple of this (weir/sim.h). */
static const uint64_t backed_base_alignment = UINT64_C(64) << 20;

/* --- the program's state --- */

/* One stream: its number in the program, and its handles in the simulator and the pool. */
struct lane {
    weir_sim_stream *native; /* NULL: the default stream */
    weir_sim_stream *named;  /* the stream's handle, never NULL */
    weir_stream *stream;
};

/* A live block. Its accesses so far are ordered: first `writer`, then the readers, which are not ordered among each
 * other. If a stream has waited for the last accesses of another stream, only the waiting stream is kept. */
struct held {
    weir_block *block;
    uint64_t address;
    uint64_t capacity;
    uint64_t size;
    int writer;       /* a lane, or host_ordered */
    uint32_t readers; /* set of lanes */
    uint32_t noted;   /* lanes with accesses that weir_pool_use has announced to the pool */
    uint32_t ended;   /* lanes of `noted` with a use that has ended */
    uint8_t value;    /* backed mode: the value of all its bytes */
};

/* A pin, and the first handle or region under it as it was then. `end` is the end of the last one. */
struct pin {
    uint64_t address;
    uint64_t size;
    uint64_t end;
    weir_memory_info first;
};

struct line {
    const char *what;
    uint64_t a;
    uint64_t b;
    uint64_t c;
    uint64_t now;
};

struct program {
    uint64_t seed;
    uint64_t random;
    const weir_strategy_ops *strategy;
    weir_sim *sim;
    weir_device *device;
    weir_pool *pool;
    weir_sim_config sim_config;
    weir_pool_config config;
    struct strategy_configs configs;
    bool backed;
    bool ordered;
    bool maps;        /* a pool with virtual memory */
    uint64_t longest; /* longest duration of work, ns */
    unsigned lanes;
    struct lane lane[max_lanes];
    unsigned blocks;
    struct held held[max_blocks];
    uint64_t pin_random; /* a source of its own: programs without pins are what they were; 0: the program never pins */
    unsigned pins;
    struct pin pin[max_pins];
    weir_event *told[told_events]; /* the program tells weir of every record of these events, and of no other event */
    weir_event *silent;
    unsigned most_live;
    uint64_t shapes[shapes]; /* sizes that repeat, as those of slots do; 0: no size repeats */
    unsigned callback_calls;
    uint64_t allocs;
    uint64_t frees;
    uint64_t failures;
    uint64_t last_peak;
    uint64_t digest;
    uint64_t lines;
    struct line log[log_lines];
};

/* The rungs that all programs together have reached. A rung that no program reaches is not tested. */
struct coverage {
    uint64_t served[WEIR_RUNG_COUNT];
    uint64_t failures;
    uint64_t allocs;
    uint64_t verified;
    uint64_t pins;
};

static struct coverage coverage;
static const char *program_name = "pool_random";
static uint64_t given_page; /* the page size for every program's device (PAGE above), or 0 */

static void note(struct program *p, const char *what, uint64_t a, uint64_t b, uint64_t c)
{
    p->log[p->lines++ % log_lines] = (struct line){what, a, b, c, weir_sim_now(p->sim)};
}

static void print_log(const struct program *p)
{
    uint64_t first = p->lines > log_lines ? p->lines - log_lines : 0;
    for (uint64_t i = first; i < p->lines; i++) {
        const struct line *line = &p->log[i % log_lines];
        print_error("  %4" PRIu64 " at %9" PRIu64 " ns  %-18s %#" PRIx64 " %" PRIu64 " %" PRIu64 "\n", i, line->now,
                    line->what, line->a, line->b, line->c);
    }
}

__attribute__((format(printf, 2, 3), noreturn)) static void broken(const struct program *p, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    print_log(p);
    weir_sim_finding finding;
    for (size_t i = 0; p->sim != NULL && weir_sim_finding_at(p->sim, i, &finding) && i < 4; i++) {
        print_error("finding: %s\n", finding.text);
    }
    print_error("%s, seed %" PRIu64 ": %s\nrepeat: %s 1 %" PRIu64 " %" PRIu64 "\n", p->strategy->name, p->seed, text,
                program_name, p->seed, given_page);
    fail();
    abort();
}

#define must(p, condition, ...)                                                                                        \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            broken((p), __VA_ARGS__);                                                                                  \
        }                                                                                                              \
    } while (0)

#define ok(p, call) must((p), (call) == WEIR_OK, "%s failed", #call)

/* --- chance --- */

static uint64_t below(struct program *p, uint64_t n)
{
    return n == 0 ? 0 : chance(&p->random) % n;
}

static bool one_in(struct program *p, unsigned n)
{
    return below(p, n) == 0;
}

static unsigned any_lane(struct program *p)
{
    return (unsigned)below(p, p->lanes);
}

/* --- order between streams --- */

/* Notes that the host has seen all work of the lane complete. */
static void lane_is_idle(struct program *p, unsigned lane)
{
    for (unsigned i = 0; i < p->blocks; i++) {
        struct held *held = &p->held[i];
        held->writer = held->writer == (int)lane ? host_ordered : held->writer;
        held->readers &= ~(1u << lane);
    }
}

static void sync_lane(struct program *p, unsigned lane)
{
    note(p, "stream_sync", lane, 0, 0);
    if (p->ordered) {
        ok(p, weir_device_stream_sync(p->device, p->lane[lane].native));
    } else {
        ok(p, weir_sim_sync(p->sim));
    }
    lane_is_idle(p, lane);
}

static void record(struct program *p, weir_event *event, unsigned lane, bool tell)
{
    ok(p, weir_device_event_record(p->device, event, p->lane[lane].native));
    if (tell) {
        ok(p, weir_stream_recorded(p->pool, event, p->lane[lane].stream));
    }
}

static void wait(struct program *p, unsigned lane, weir_event *event, bool tell)
{
    ok(p, weir_device_stream_wait_event(p->device, p->lane[lane].native, event));
    if (tell) {
        ok(p, weir_stream_waited(p->pool, p->lane[lane].stream, event));
    }
}

/* Makes work queued on `to` from now on run after all work that is on `from` now. */
static void order(struct program *p, unsigned from, unsigned to)
{
    if (from == to) {
        return;
    }
    if (!p->ordered) {
        sync_lane(p, from);
        return;
    }
    const unsigned kind = (unsigned)below(p, 4);
    note(p, kind == 0 ? "order silently" : kind == 1 ? "order half told" : "order", from, to, 0);
    if (kind == 0) {
        record(p, p->silent, from, false);
        wait(p, to, p->silent, false);
    } else {
        weir_event *event = p->told[below(p, told_events)];
        record(p, event, from, true);
        wait(p, to, event, kind != 1);
    }
}

/* --- operations on blocks --- */

static void before_access(struct program *p, struct held *held, unsigned lane, bool write)
{
    if (held->writer >= 0 && (!write || held->readers == 0)) {
        order(p, (unsigned)held->writer, lane);
    }
    for (unsigned other = 0; write && other < p->lanes; other++) {
        if (held->readers & (1u << other)) {
            order(p, other, lane);
        }
    }
}

static void after_access(struct held *held, unsigned lane, bool write)
{
    const uint32_t bit = 1u << lane;
    if (write) {
        held->writer = (int)lane;
        held->readers = 0;
    } else {
        held->readers |= bit;
    }
    /* The pool does not know of accesses after the end of a use. */
    if (held->ended & bit) {
        held->noted &= ~bit;
        held->ended &= ~bit;
    }
}

/* The bytes that a queued verification expects. Freed after it has run. */
struct expectation {
    struct program *program;
    uint64_t address;
    uint64_t size;
    uint8_t value;
};

static struct {
    bool wrong;
    struct expectation what;
    uint64_t at;
    uint8_t found;
} spoilt;

static void verify(void *ctx)
{
    struct expectation *expected = ctx;
    const uint8_t *bytes = weir_sim_bytes(expected->program->sim, expected->address, expected->size);
    coverage.verified++;
    for (uint64_t i = 0; !spoilt.wrong && (bytes == NULL || i < expected->size); i++) {
        if (bytes == NULL || bytes[i] != expected->value) {
            spoilt.wrong = true;
            spoilt.what = *expected;
            spoilt.at = i;
            spoilt.found = bytes != NULL ? bytes[i] : 0;
        }
    }
    free(expected);
}

static void launch(struct program *p, unsigned lane, const weir_sim_access *accesses, size_t count)
{
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = below(p, p->longest);
    work.accesses = accesses;
    work.access_count = count;
    work.tag = "work";
    work.no_launch_cost = one_in(p, 2);
    ok(p, weir_sim_launch(p->sim, p->lane[lane].native, &work));
}

/* Queues work on one block. The caller has ordered the work after the earlier accesses. In backed mode a write is a
 * fill and a read verifies. */
static void touch(struct program *p, struct held *held, unsigned lane, bool write)
{
    weir_sim_access access = {.address = held->address, .size = held->capacity, .write = write};
    note(p, write ? "write" : "read", held->address, held->capacity, lane);
    launch(p, lane, &access, 1);
    if (p->backed && write) {
        held->value = (uint8_t)chance(&p->random);
        ok(p, weir_sim_fill(p->sim, p->lane[lane].native, held->address, held->capacity, held->value, "fill"));
    } else if (p->backed) {
        struct expectation *expected = malloc(sizeof(*expected));
        must(p, expected != NULL, "no host memory for the test");
        *expected = (struct expectation){p, held->address, held->capacity, held->value};
        weir_sim_work work = WEIR_SIM_WORK_INIT;
        work.accesses = &access;
        work.access_count = 1;
        work.tag = "verify";
        work.host_function = verify;
        work.host_ctx = expected;
        ok(p, weir_sim_launch(p->sim, p->lane[lane].native, &work));
    }
    after_access(held, lane, write);
}

static void do_work(struct program *p)
{
    if (p->blocks == 0) {
        return;
    }
    struct held *held = &p->held[below(p, p->blocks)];
    const unsigned lane = any_lane(p);
    const bool write = one_in(p, 2);
    const bool use_before = one_in(p, 4);
    if (use_before) {
        note(p, "use", held->address, 0, lane);
        ok(p, weir_pool_use(p->pool, held->block, p->lane[lane].stream));
        held->noted |= 1u << lane;
        held->ended &= ~(1u << lane);
    }
    before_access(p, held, lane, write);
    touch(p, held, lane, write);
    if (!use_before && one_in(p, 4)) {
        note(p, "use", held->address, 0, lane);
        ok(p, weir_pool_use(p->pool, held->block, p->lane[lane].stream));
        held->noted |= 1u << lane;
    }
}

/* Queues one piece of work that touches several blocks. */
static void do_joint_work(struct program *p)
{
    weir_sim_access accesses[4];
    struct held *blocks[4];
    const unsigned lane = any_lane(p);
    size_t count = 0;
    for (size_t i = 0; i < 4 && p->blocks > 0 && !p->backed; i++) {
        struct held *held = &p->held[below(p, p->blocks)];
        bool twice = false;
        for (size_t k = 0; k < count; k++) {
            twice |= blocks[k] == held;
        }
        if (twice) {
            continue;
        }
        const bool write = i == 0;
        before_access(p, held, lane, write);
        accesses[count] = (weir_sim_access){.address = held->address, .size = held->capacity, .write = write};
        blocks[count++] = held;
    }
    note(p, "joint work", count, lane, 0);
    launch(p, lane, accesses, count);
    for (size_t i = 0; i < count; i++) {
        after_access(blocks[i], lane, accesses[i].write);
    }
}

static void do_use_end(struct program *p)
{
    if (p->blocks == 0) {
        return;
    }
    struct held *held = &p->held[below(p, p->blocks)];
    const unsigned lane = any_lane(p);
    note(p, "use_end", held->address, 0, lane);
    ok(p, weir_pool_use_end(p->pool, held->block, p->lane[lane].stream));
    held->ended |= held->noted & (1u << lane);
}

/* Makes the stream that will free the block wait for the accesses that the pool does not know of. */
static void before_free(struct program *p, const struct held *held, unsigned lane)
{
    uint32_t last = held->readers;
    if (last == 0 && held->writer >= 0) {
        last = 1u << held->writer;
    }
    for (unsigned other = 0; other < p->lanes; other++) {
        if ((last & ~held->noted & (1u << other)) != 0) {
            order(p, other, lane);
        }
    }
}

static void free_block(struct program *p, unsigned index)
{
    struct held held = p->held[index];
    const unsigned lane = held.writer >= 0 && one_in(p, 2) ? (unsigned)held.writer : any_lane(p);
    if (one_in(p, 6)) {
        for (unsigned other = 0; other < p->lanes; other++) {
            if (held.writer == (int)other || (held.readers & (1u << other)) != 0) {
                sync_lane(p, other);
            }
        }
        note(p, "free_idle", held.address, held.size, 0);
        weir_sim_block_free(p->sim, held.address, NULL, "free_idle");
        ok(p, weir_pool_free_idle(p->pool, held.block));
    } else {
        before_free(p, &held, lane);
        note(p, "free", held.address, held.size, lane);
        weir_sim_block_free(p->sim, held.address, p->lane[lane].named, "free");
        ok(p, weir_pool_free(p->pool, held.block, p->lane[lane].stream));
    }
    p->frees++;
    p->held[index] = p->held[--p->blocks];
}

static bool free_some(void *ctx, weir_pool *pool, const weir_oom_record *record)
{
    struct program *p = ctx;
    must(p, pool == p->pool && record->size > 0, "the callback got another pool or an empty record");
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(p, weir_pool_get_stats(pool, &stats));
    note(p, "callback", record->size, p->callback_calls, 0);
    if (p->callback_calls++ % 3 == 2 || p->blocks == 0) {
        return false;
    }
    for (unsigned i = 0; i < 3 && p->blocks > 0; i++) {
        free_block(p, (unsigned)below(p, p->blocks));
    }
    return true;
}

/* --- looking at the pool --- */

struct look {
    struct program *p;
    uint64_t region;
    uint64_t at;
    uint64_t region_end;
    uint64_t sums[WEIR_WALK_UNMAPPED + 1];
    uint64_t live_blocks;
    uint64_t pinned;
    uint64_t granule; /* 1: no virtual memory */
    /* For the check of a failed request: */
    uint64_t run; /* start of the current run of ranges that serve no block */
    uint64_t align;
    uint64_t size;
    uint64_t owned;      /* bytes of the region in use */
    uint64_t idle_bytes; /* bytes of regions without any byte in use */
    bool fits;
};

static uint64_t up(uint64_t address, uint64_t unit)
{
    return (address + unit - 1) & ~(unit - 1);
}

static uint64_t granule_of(const struct program *p)
{
    return p->maps ? p->sim_config.page_bytes : 1;
}

/* True if a pin touches the range: then it touches the handle or region that the range is. */
static bool is_pinned(const struct program *p, uint64_t address, uint64_t end)
{
    bool pinned = false;
    for (unsigned i = 0; i < p->pins && !pinned; i++) {
        pinned = p->pin[i].address < end && p->pin[i].address + p->pin[i].size > address;
    }
    return pinned;
}

static void end_run(struct look *look)
{
    const uint64_t start = (look->run + look->align - 1) & ~(look->align - 1);
    look->fits |= start < look->at && look->at - start >= look->size;
}

static void end_region(struct look *look)
{
    if (look->region_end != 0) {
        must(look->p, look->at == look->region_end, "walk leaves a gap at the end of region %#" PRIx64, look->region);
        end_run(look);
        const bool idle = look->owned == 0 && !is_pinned(look->p, look->region, look->region_end);
        look->idle_bytes += idle ? look->region_end - look->region : 0;
    }
}

static bool look_at(void *ctx, const weir_walk_entry *entry)
{
    struct look *look = ctx;
    struct program *p = look->p;
    if (entry->region_address != look->region || look->region_end == 0) {
        end_region(look);
        look->region = entry->region_address;
        look->region_end = entry->region_address + entry->region_size;
        look->at = entry->region_address;
        look->run = look->at;
        look->owned = 0;
    }
    must(p, entry->address == look->at && entry->size > 0, "walk leaves a gap at %#" PRIx64, look->at);
    look->sums[entry->state] += entry->size;
    look->pinned += entry->pinned_bytes;
    if (entry->state == WEIR_WALK_UNMAPPED) {
        must(p, p->maps && entry->address % look->granule == 0 && entry->size % look->granule == 0,
             "a hole that is none at %#" PRIx64, entry->address);
        end_run(look);
        look->run = entry->address + entry->size;
    }
    if (entry->state == WEIR_WALK_LIVE) {
        end_run(look);
        look->live_blocks++;
        look->owned += entry->size;
        bool known = false;
        for (unsigned i = 0; i < p->blocks && !known; i++) {
            known = p->held[i].block == entry->block && p->held[i].address == entry->address &&
                    p->held[i].capacity == entry->size && p->held[i].size == entry->requested;
        }
        must(p, known, "walk shows a live block that nobody holds at %#" PRIx64, entry->address);
        look->run = entry->address + entry->size;
    }
    look->at = entry->address + entry->size;
    return true;
}

static struct look look_around(struct program *p, uint64_t size, uint64_t align)
{
    struct look look = {.p = p, .size = up(size, granule), .align = align, .granule = granule_of(p)};
    ok(p, weir_pool_walk(p->pool, look_at, &look));
    end_region(&look);
    must(p, look.live_blocks == p->blocks, "walk shows %" PRIu64 " live blocks of %u", look.live_blocks, p->blocks);
    return look;
}

/* The bytes of handles that live blocks or pins touch, and of the others; with regions, of regions. */
struct handles {
    const struct program *p;
    uint64_t in_use;
    uint64_t idle;
    uint64_t pinned;
};

static void see_handle(void *ctx, uint64_t address, uint64_t size)
{
    struct handles *handles = ctx;
    const bool pinned = is_pinned(handles->p, address, address + size);
    bool touched = pinned;
    handles->pinned += pinned ? size : 0;
    for (unsigned i = 0; i < handles->p->blocks && !touched; i++) {
        const struct held *held = &handles->p->held[i];
        touched = held->address < address + size && held->address + held->capacity > address;
    }
    handles->in_use += touched ? size : 0;
    handles->idle += touched ? 0 : size;
}

/* An observer is told of each handle when it attaches. */
static struct handles handles_of(struct program *p)
{
    const weir_observer_ops ops = {.struct_size = sizeof(ops), .memory_given = see_handle};
    struct handles handles = {.p = p};
    ok(p, weir_pool_observe(p->pool, &ops, &handles));
    ok(p, weir_pool_unobserve(p->pool, &handles));
    return handles;
}

static uint64_t held_by_pool(struct program *p)
{
    weir_sim_stats stats = WEIR_SIM_STATS_INIT;
    ok(p, weir_sim_get_stats(p->sim, &stats));
    must(p, stats.audit_lost == 0, "the auditor ran out of memory");
    return stats.held_bytes;
}

static void compare_sums(struct program *p, const weir_pool_stats *stats, const struct look *look)
{
    must(p, look->sums[WEIR_WALK_FREE] == stats->free_bytes, "free bytes: walk and statistics differ");
    must(p, look->sums[WEIR_WALK_LIVE] == stats->live_bytes, "live bytes: walk and statistics differ");
    must(p, look->sums[WEIR_WALK_CACHED] == stats->cached_bytes, "cached bytes: walk and statistics differ");
    must(p, look->sums[WEIR_WALK_PENDING] == stats->pending_bytes, "pending bytes: walk and statistics differ");
    must(p, stats->live_bytes + stats->cached_bytes + stats->pending_bytes + stats->free_bytes == stats->reserved_bytes,
         "reserved is not the sum of its parts");
    must(p, stats->reserved_bytes == held_by_pool(p), "the pool says %" PRIu64 " reserved, the device %" PRIu64,
         stats->reserved_bytes, held_by_pool(p));
}

static void pin_is_kept(struct program *p, const struct pin *pin)
{
    weir_memory_info now = WEIR_MEMORY_INFO_INIT;
    for (uint64_t at = pin->address; at < pin->address + pin->size; at = now.address + now.size) {
        ok(p, weir_pool_find_memory(p->pool, at, &now));
        must(p, now.pins > 0, "memory at %#" PRIx64 " has lost its pin", at);
        must(p,
             at != pin->address ||
                 (now.address == pin->first.address && now.size == pin->first.size && now.handle == pin->first.handle),
             "pinned memory at %#" PRIx64 " was exchanged", at);
    }
    must(p, now.address + now.size == pin->end, "the memory under a pin ends at %#" PRIx64 " no more", pin->end);
}

static void compare_pins(struct program *p, const weir_pool_stats *stats, const struct look *look)
{
    must(p, look->pinned == stats->pinned_bytes, "pinned bytes: walk and statistics differ");
    if (p->pin_random != 0) {
        must(p, handles_of(p).pinned == stats->pinned_bytes, "the pool says %" PRIu64 " pinned", stats->pinned_bytes);
    }
    for (unsigned i = 0; i < p->pins; i++) {
        pin_is_kept(p, &p->pin[i]);
    }
}

static void compare_statistics(struct program *p)
{
    uint64_t requested = 0;
    uint64_t live = 0;
    uint64_t served = 0;
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(p, weir_pool_get_stats(p->pool, &stats));
    for (unsigned i = 0; i < p->blocks; i++) {
        requested += p->held[i].size;
        live += p->held[i].capacity;
    }
    for (unsigned i = 0; i < WEIR_RUNG_COUNT; i++) {
        served += stats.served[i];
    }
    must(p, stats.requested_bytes == requested, "requested %" PRIu64 ", model %" PRIu64, stats.requested_bytes,
         requested);
    must(p, stats.live_bytes == live, "live %" PRIu64 ", model %" PRIu64, stats.live_bytes, live);
    must(p, stats.allocs == p->allocs && stats.frees == p->frees, "allocs or frees are counted wrongly");
    must(p, served == p->allocs, "rungs served %" PRIu64 " requests of %" PRIu64, served, p->allocs);
    must(p, stats.failures == p->failures, "failures %" PRIu64 ", model %" PRIu64, stats.failures, p->failures);
    must(p, p->maps || stats.region_allocs - stats.region_frees == stats.regions, "regions do not add up");
    must(p, !p->maps || stats.region_allocs == 0, "a pool with virtual memory took a region");
    must(p,
         !p->maps || (stats.vm_creates - stats.vm_destroys == stats.vm_maps - stats.vm_unmaps &&
                      (stats.vm_maps - stats.vm_unmaps) * granule_of(p) <= stats.reserved_bytes),
         "handles do not add up");
    must(p, stats.device_failures == 0 || p->config.limit_bytes == 0 || stats.failures > 0 || stats.regions > 0,
         "device calls failed without a reason");
    must(p, stats.peak_reserved_bytes >= stats.reserved_bytes, "reserved above its peak");
    must(p, stats.peak_live_bytes >= live && stats.peak_live_bytes >= p->last_peak, "the peak of live bytes went down");
    p->last_peak = stats.peak_live_bytes;
    must(p, p->config.limit_bytes == 0 || stats.peak_reserved_bytes <= p->config.limit_bytes, "above the limit");
    struct look look = look_around(p, 1, 1);
    compare_sums(p, &stats, &look);
    compare_pins(p, &stats, &look);
}

static void judge(struct program *p)
{
    const char *why = "?";
    must(p, weir_pool_check(p->pool, &why) == WEIR_OK, "check: %s", why);
    must(p, weir_sim_finding_count(p->sim, WEIR_SIM_FINDING_KINDS) == 0, "the auditor found a hazard");
    must(p, !spoilt.wrong, "the block at %#" PRIx64 " holds %u instead of %u at byte %" PRIu64, spoilt.what.address,
         spoilt.found, spoilt.what.value, spoilt.at);
}

/* --- requests --- */

static uint64_t some_size(struct program *p)
{
    static const uint64_t usual[] = {512, 1024, 1536, 4096, 5000, 65536};
    const uint64_t unit = p->sim_config.region_granularity_bytes;
    const uint64_t capacity = p->sim_config.capacity_bytes;
    if (p->shapes[0] != 0 && !one_in(p, 4)) {
        return p->shapes[below(p, shapes)];
    }
    switch (below(p, 16)) {
    case 0:
        return unit << below(p, 3);
    case 1:
        return capacity / 4 + below(p, capacity / 4);
    case 2:
        return capacity / 2 + below(p, capacity);
    case 3:
    case 4:
    case 5:
        return unit / 4 + below(p, unit);
    case 6:
    case 7:
    case 8:
    case 9:
    case 10:
        return usual[below(p, sizeof(usual) / sizeof(usual[0]))];
    default: {
        unsigned bits = 1;
        while ((UINT64_C(1) << bits) < capacity) {
            bits++;
        }
        const uint64_t top = UINT64_C(1) << (1 + below(p, bits));
        return 2 + below(p, top);
    }
    }
}

static uint64_t some_alignment(struct program *p)
{
    if (!one_in(p, 6)) {
        return 0;
    }
    const uint64_t unit = p->sim_config.region_granularity_bytes;
    return one_in(p, 4) ? unit << below(p, 3) : UINT64_C(1) << below(p, 17);
}

/* Checks a refusal: neither the pool's free memory nor a region that it could exchange would hold the request. */
static void judge_failure(struct program *p, uint64_t size, uint64_t align, unsigned lane)
{
    if ((p->strategy->flags & WEIR_STRATEGY_PRIVATE_LANES) != 0) {
        return;
    }
    const uint64_t unit = p->sim_config.region_granularity_bytes;
    const uint64_t least_align = align > granule ? align : granule;
    const struct look look = look_around(p, size, least_align);
    must(p, !look.fits, "refused %" PRIu64 " bytes at %" PRIu64 " although unowned ranges hold them", size, align);
    const uint64_t reserved = look.sums[0] + look.sums[1] + look.sums[2] + look.sums[3];
    uint64_t most = p->sim_config.capacity_bytes;
    most = p->config.limit_bytes != 0 && p->config.limit_bytes < most ? p->config.limit_bytes : most;
    const struct handles handles = p->maps ? handles_of(p) : (struct handles){0};
    if (p->maps) {
        must(p, handles.in_use + up(size, look.granule) > most,
             "refused %" PRIu64 " bytes at %" PRIu64 " although only %" PRIu64 " of %" PRIu64 " bytes are in use", size,
             align, handles.in_use, most);
    }
    uint64_t region = (size + unit - 1) & ~(unit - 1);
    region += align > unit ? align - unit : 0;
    must(p, p->maps || reserved - look.idle_bytes + region > most,
         "refused %" PRIu64 " bytes at %" PRIu64 " although the device has room: %" PRIu64 " reserved, %" PRIu64
         " of them idle",
         size, align, reserved, look.idle_bytes);
    if (p->config.oom_callback == NULL) {
        weir_block *block = NULL;
        must(p, weir_pool_alloc(p->pool, p->lane[lane].stream, size, align, &block) == WEIR_ERR_NO_MEMORY,
             "refused %" PRIu64 " bytes at %" PRIu64 ", and then not", size, align);
        p->failures++;
    }
}

static void digest(struct program *p, uint64_t value)
{
    p->digest = (p->digest ^ value) * UINT64_C(0x100000001B3);
}

static void take(struct program *p, weir_block *block, uint64_t size, uint64_t align, unsigned lane)
{
    struct held held = {
        .block = block,
        .address = weir_block_address(block),
        .capacity = weir_block_capacity(block),
        .size = size,
        .writer = (int)lane,
    };
    must(p, weir_block_size(block) == size && held.capacity >= size, "a block of the wrong size");
    must(p, held.address % (align > granule ? align : granule) == 0, "a block at %#" PRIx64 " is not aligned",
         held.address);
    for (unsigned i = 0; i < p->blocks; i++) {
        must(p,
             held.address + held.capacity <= p->held[i].address ||
                 p->held[i].address + p->held[i].capacity <= held.address,
             "blocks at %#" PRIx64 " and %#" PRIx64 " overlap", held.address, p->held[i].address);
    }
    weir_block *found = NULL;
    ok(p, weir_pool_find(p->pool, held.address, &found));
    must(p, found == block, "find returns another block");
    weir_sim_block_alloc(p->sim, held.address, held.capacity, p->lane[lane].named, "alloc");
    digest(p, p->backed ? held.address % backed_base_alignment : held.address - p->sim_config.address_base);
    p->held[p->blocks++] = held;
    if (p->backed || !one_in(p, 8)) {
        touch(p, &p->held[p->blocks - 1], lane, true);
    }
}

static void do_alloc(struct program *p)
{
    const unsigned lane = any_lane(p);
    const uint64_t size = some_size(p);
    const uint64_t align = some_alignment(p);
    weir_block *block = NULL;
    if (p->blocks >= p->most_live) {
        free_block(p, (unsigned)below(p, p->blocks));
    }
    note(p, "alloc", size, align, lane);
    const weir_status status = weir_pool_alloc(p->pool, p->lane[lane].stream, size, align, &block);
    if (status == WEIR_OK) {
        p->allocs++;
        note(p, "  at", weir_block_address(block), weir_block_capacity(block), 0);
        take(p, block, size, align, lane);
        return;
    }
    note(p, "  refused", 0, 0, 0);
    digest(p, UINT64_MAX);
    must(p, status == WEIR_ERR_NO_MEMORY && block == NULL, "alloc: %s", weir_status_name(status));
    p->failures++;
    judge_failure(p, size, align, lane);
}

static void do_free(struct program *p)
{
    for (uint64_t n = 1 + below(p, 4); n > 0 && p->blocks > 0; n--) {
        free_block(p, (unsigned)below(p, p->blocks));
    }
}

/* --- other calls of a program --- */

static void do_hints(struct program *p)
{
    if (!p->ordered) {
        return;
    }
    const unsigned lane = any_lane(p);
    weir_event **event = &p->told[below(p, told_events)];
    switch (below(p, 5)) {
    case 0:
        note(p, "record", lane, 0, 0);
        record(p, *event, lane, true);
        break;
    case 1:
    case 2:
        note(p, "wait", lane, 0, 0);
        wait(p, lane, *event, !one_in(p, 3));
        break;
    case 3:
        note(p, "event_sync", 0, 0, 0);
        ok(p, weir_device_event_sync(p->device, *event));
        ok(p, one_in(p, 3) ? WEIR_OK : weir_event_synced(p->pool, *event));
        break;
    default:
        note(p, "new event", 0, 0, 0);
        ok(p, weir_event_forgotten(p->pool, *event));
        ok(p, weir_device_event_destroy(p->device, *event));
        ok(p, weir_device_event_create(p->device, event));
        break;
    }
}

static void do_sync(struct program *p)
{
    const unsigned lane = any_lane(p);
    sync_lane(p, lane);
    if (p->ordered && !one_in(p, 3)) {
        ok(p, weir_stream_synced(p->pool, p->lane[lane].stream));
    }
}

static void do_trim(struct program *p)
{
    uint64_t released = UINT64_MAX;
    const uint64_t before = held_by_pool(p);
    const uint64_t keep = one_in(p, 2) ? 0 : below(p, p->sim_config.capacity_bytes);
    const uint32_t flags = one_in(p, 2) ? WEIR_TRIM_WAIT : 0;
    note(p, "trim", keep, flags, before);
    ok(p, weir_pool_trim(p->pool, keep, flags, &released));
    must(p, before - held_by_pool(p) == released, "trim says %" PRIu64 " released", released);
    if (flags != 0) {
        const struct look look = look_around(p, 1, 1);
        const uint64_t idle = p->maps ? handles_of(p).idle : look.idle_bytes;
        must(p, idle == 0 || held_by_pool(p) <= keep, "trim left %" PRIu64 " idle bytes", idle);
    }
}

/* Pins a part of a live block, or all of it. */
static void do_pin(struct program *p, const struct held *held)
{
    struct pin *pin = &p->pin[p->pins++];
    pin->address = held->address + (chance(&p->pin_random) % 2 == 0 ? chance(&p->pin_random) % held->capacity : 0);
    pin->size = 1 + chance(&p->pin_random) % (held->address + held->capacity - pin->address);
    pin->first = (weir_memory_info)WEIR_MEMORY_INFO_INIT;
    note(p, "pin", pin->address, pin->size, 0);
    ok(p, weir_pool_pin(p->pool, pin->address, pin->size));
    ok(p, weir_pool_find_memory(p->pool, pin->address, &pin->first));
    weir_memory_info last = WEIR_MEMORY_INFO_INIT;
    ok(p, weir_pool_find_memory(p->pool, pin->address + pin->size - 1, &last));
    pin->end = last.address + last.size;
    coverage.pins++;
}

static void do_unpin(struct program *p, unsigned number)
{
    const struct pin pin = p->pin[number];
    note(p, "unpin", pin.address, pin.size, 0);
    pin_is_kept(p, &pin);
    ok(p, weir_pool_unpin(p->pool, pin.address, pin.size));
    p->pin[number] = p->pin[--p->pins];
}

static void pin_or_unpin(struct program *p)
{
    if (p->pin_random == 0 || chance(&p->pin_random) % 8 != 0) {
        return;
    }
    if (p->blocks > 0 && p->pins < max_pins && chance(&p->pin_random) % 2 == 0) {
        do_pin(p, &p->held[chance(&p->pin_random) % p->blocks]);
    } else if (p->pins > 0) {
        do_unpin(p, (unsigned)(chance(&p->pin_random) % p->pins));
    }
}

static void open_lane(struct program *p, unsigned lane, bool by_default)
{
    struct lane *own = &p->lane[lane];
    own->native = NULL;
    own->named = weir_sim_default_stream(p->sim);
    if (!by_default) {
        ok(p, weir_sim_stream_create(p->sim, &own->native));
        own->named = own->native;
    }
    ok(p, weir_pool_stream(p->pool, own->native, &own->stream));
    weir_stream *again = NULL;
    ok(p, weir_pool_stream(p->pool, own->native, &again));
    must(p, again == own->stream, "a stream has two handles");
}

/* Retires the stream. Another stream takes its place, often with the same handle. */
static void do_retire(struct program *p)
{
    const unsigned lane = any_lane(p);
    struct lane *own = &p->lane[lane];
    note(p, "retire", lane, 0, 0);
    ok(p, weir_stream_retire(p->pool, own->stream));
    if (!p->ordered) {
        ok(p, weir_sim_sync(p->sim));
    }
    lane_is_idle(p, lane);
    for (unsigned i = 0; i < p->blocks; i++) {
        p->held[i].noted &= ~(1u << lane);
        p->held[i].ended &= ~(1u << lane);
    }
    if (own->native != NULL) {
        ok(p, weir_sim_stream_destroy(p->sim, own->native));
    }
    open_lane(p, lane, own->native == NULL);
}

static void step(struct program *p)
{
    const uint64_t dice = below(p, 100);
    if (dice < 36) {
        do_alloc(p);
    } else if (dice < 58) {
        do_free(p);
    } else if (dice < 72) {
        do_work(p);
    } else if (dice < 75) {
        do_joint_work(p);
    } else if (dice < 78) {
        do_use_end(p);
    } else if (dice < 87) {
        do_hints(p);
    } else if (dice < 89) {
        do_sync(p);
    } else if (dice < 91) {
        do_trim(p);
    } else if (dice < 92) {
        do_retire(p);
    } else if (dice < 96) {
        note(p, "time passes", 0, 0, 0);
        weir_sim_advance(p->sim, below(p, p->longest * 2));
    } else {
        compare_statistics(p);
    }
}

/* --- one program --- */

/* A page is a unit of the device's regions or a part of one, so that requests and slots span several granules. */
static void choose_pages(struct program *p, uint64_t unit)
{
    const unsigned smaller = 2 * (unsigned)below(p, 3);
    const uint64_t page = unit >> smaller > 4096 ? unit >> smaller : 4096;
    p->sim_config.page_bytes = given_page != 0 ? given_page : page;
    p->sim_config.region_granularity_bytes = given_page != 0 ? given_page << smaller : unit;
}

static void choose_device(struct program *p)
{
    static const unsigned shifts[] = {12, 14, 16, 18, 21};
    /* The models of other allocators take at least 2 MiB, for every request. */
    const bool model = (p->strategy->flags & WEIR_STRATEGY_PRIVATE_LANES) != 0;
    p->backed = !model && one_in(p, 24);
    const uint64_t unit = UINT64_C(1) << (model ? 21 : shifts[below(p, p->backed ? 3 : 5)]);
    p->sim_config = (weir_sim_config)WEIR_SIM_CONFIG_INIT;
    p->sim_config.mode = p->backed ? WEIR_SIM_BACKED : WEIR_SIM_ACCOUNTING;
    p->sim_config.region_granularity_bytes = unit;
    p->sim_config.page_bytes = unit;
    p->maps = p->strategy->claim != NULL && (one_in(p, 3) || given_page != 0);
    if (p->maps) {
        choose_pages(p, unit);
    }
    p->sim_config.capacity_bytes = ((model ? 10 : 2) + below(p, 22)) * p->sim_config.region_granularity_bytes;
    p->sim_config.seed = one_in(p, 2) ? p->seed : 0;
    p->sim_config.address_base = UINT64_C(0x100000000000);
    p->sim_config.no_virtual_memory = !p->maps;
    p->sim_config.no_ordering = one_in(p, 24);
    p->ordered = !p->sim_config.no_ordering;
    p->longest = UINT64_C(1000) << (4 * below(p, 3) + below(p, 3));
    if (one_in(p, 3)) {
        for (int i = 0; i < WEIR_CALL_COUNT; i++) {
            p->sim_config.costs.call_ns[i] = WEIR_SIM_FREE_OF_CHARGE;
        }
        p->sim_config.costs.launch_ns = WEIR_SIM_FREE_OF_CHARGE;
    }
}

static void choose_pool(struct program *p)
{
    const uint64_t unit = p->sim_config.region_granularity_bytes;
    const uint64_t capacity = p->sim_config.capacity_bytes;
    p->configs.caching = (weir_caching_config)WEIR_CACHING_CONFIG_INIT;
    p->configs.caching.small_bytes = one_in(p, 2) ? unit / 4 : (one_in(p, 2) ? 1 : UINT64_MAX);
    p->configs.caching.small_region_bytes = unit << below(p, 3);
    p->configs.caching.large_region_bytes = unit << below(p, 4);
    p->config = (weir_pool_config)WEIR_POOL_CONFIG_INIT;
    p->config.device = p->device;
    p->config.strategy = p->strategy;
    derive_size_class(&p->configs);
    if (p->maps && !one_in(p, 4)) {
        /* The largest slot is an eighth of a slab region, so 2 to 16 pages. */
        p->configs.size_class.slab_region_bytes = p->sim_config.page_bytes << (4 + below(p, 4));
    }
    p->configs.bump = (weir_bump_config){
        .struct_size = sizeof(p->configs.bump),
        .chunk_bytes = p->configs.caching.large_region_bytes / 2,
    };
    p->config.strategy_config = config_for(&p->configs, p->strategy);
    p->config.limit_bytes = one_in(p, 3) ? unit + below(p, capacity) : 0;
    p->config.growth = (weir_growth)below(p, 3);
    p->config.flags = (one_in(p, 4) ? WEIR_POOL_SINGLE_THREADED : 0u) | (one_in(p, 5) ? WEIR_POOL_NO_FRONT_CACHE : 0u) |
                      (one_in(p, 5) ? WEIR_POOL_KEEP_IDLE_REGIONS : 0u) | (p->maps ? 0u : WEIR_POOL_REGIONS);
    if (one_in(p, 6)) {
        p->config.oom_callback = free_some;
        p->config.oom_ctx = p;
    }
}

/* Half of the programs with virtual memory ask for few sizes, of whole granules. */
static void choose_shapes(struct program *p)
{
    if (p->maps && one_in(p, 2)) {
        for (unsigned i = 0; i < shapes; i++) {
            p->shapes[i] = granule_of(p) * (1 + below(p, 8));
        }
    }
}

static void start(struct program *p, uint64_t shift)
{
    choose_device(p);
    p->sim_config.address_base += shift;
    ok(p, weir_sim_create(&p->sim_config, &p->sim));
    p->device = weir_sim_device(p->sim);
    choose_pool(p);
    choose_shapes(p);
    ok(p, weir_pool_create(&p->config, &p->pool));
    p->lanes = 1 + (unsigned)below(p, p->shapes[0] != 0 ? 2 : max_lanes);
    p->most_live = 4u << below(p, 5);
    p->most_live = p->most_live < max_blocks ? p->most_live : max_blocks - 1;
    const unsigned by_default = (unsigned)below(p, (uint64_t)p->lanes * 2);
    for (unsigned lane = 0; lane < p->lanes; lane++) {
        open_lane(p, lane, lane == by_default);
    }
    for (unsigned i = 0; p->ordered && i < told_events; i++) {
        ok(p, weir_device_event_create(p->device, &p->told[i]));
    }
    if (p->ordered) {
        ok(p, weir_device_event_create(p->device, &p->silent));
    }
}

/* Frees all blocks, then checks that all memory can be given back: nothing is lost. */
static void finish(struct program *p)
{
    while (p->blocks > 0) {
        free_block(p, (unsigned)below(p, p->blocks));
    }
    compare_statistics(p);
    while (p->pins > 0) {
        do_unpin(p, p->pins - 1);
    }
    if (one_in(p, 2)) {
        ok(p, weir_pool_trim(p->pool, 0, WEIR_TRIM_WAIT, NULL));
        must(p, held_by_pool(p) == 0, "%" PRIu64 " bytes are left after everything was freed and trimmed",
             held_by_pool(p));
    }
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(p, weir_pool_get_stats(p->pool, &stats));
    for (unsigned i = 0; i < WEIR_RUNG_COUNT; i++) {
        coverage.served[i] += stats.served[i];
    }
    coverage.failures += stats.failures;
    coverage.allocs += stats.allocs;
    judge(p);
    ok(p, weir_pool_destroy(p->pool));
    p->pool = NULL;
    must(p, held_by_pool(p) == 0, "%" PRIu64 " bytes are left after the pool", held_by_pool(p));
    ok(p, weir_sim_sync(p->sim));
    weir_sim_audit_leaks(p->sim);
    must(p, weir_sim_finding_count(p->sim, WEIR_SIM_FINDING_KINDS) == 0, "the auditor found a hazard at the end");
    must(p, !spoilt.wrong, "a block was spoilt");
    assert_int_equal(weir_sim_destroy(p->sim), WEIR_OK);
}

/* Runs a program. Returns a digest of the place of every block and of the refused requests. In backed mode the
 * addresses are the host's; there `shift` selects how much memory is mapped first, so that the pool's memory lies
 * elsewhere. */
static uint64_t run_program(const weir_strategy_ops *strategy, uint64_t seed, uint64_t shift)
{
    struct program program = {.seed = seed, .random = seed * UINT64_C(0xD1342543DE82EF95), .strategy = strategy};
    struct program *p = &program;
    const size_t elsewhere = (size_t)(shift >> 30) * host_page;
    void *lies = elsewhere != 0 ? mmap(NULL, elsewhere, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : NULL;
    start(p, shift);
    const uint64_t steps = 100 + below(p, 150);
    const uint64_t check_every = one_in(p, 16) ? 1 : 12;
    p->pin_random = seed % 4 == 0 ? seed : 0;
    for (uint64_t i = 0; i < steps; i++) {
        pin_or_unpin(p);
        step(p);
        if (i % check_every == 0) {
            judge(p);
        }
    }
    finish(p);
    if (elsewhere != 0 && lies != MAP_FAILED) {
        (void)munmap(lies, elsewhere);
    }
    return p->digest;
}

/* --- all programs --- */

static uint64_t first_seed = 1;
static uint64_t seeds = 20000;

static void run_programs(const weir_strategy_ops *strategy, uint64_t count)
{
    memset(&coverage, 0, sizeof(coverage));
    for (uint64_t seed = first_seed; seed < first_seed + count; seed++) {
        const uint64_t digest = run_program(strategy, seed, 0);
        if (seed % twin_every == 0 && run_program(strategy, seed, UINT64_C(0x7FC0000000)) != digest) {
            print_error("%s, seed %" PRIu64 ": a second run at other addresses has other results\n", strategy->name,
                        seed);
            fail();
        }
    }
    print_message("%s: %" PRIu64 " programs, %" PRIu64 " allocs, %" PRIu64 " failures, %" PRIu64
                  " contents verified, %" PRIu64 " pins\n",
                  strategy->name, count, coverage.allocs, coverage.failures, coverage.verified, coverage.pins);
    for (unsigned i = 0; i < WEIR_RUNG_COUNT; i++) {
        print_message("  %-40s %" PRIu64 "\n", weir_rung_name((weir_rung)i), coverage.served[i]);
    }
}

static void require_every_rung(const weir_strategy_ops *strategy)
{
    for (unsigned i = 0; seeds >= 1000 && i < WEIR_RUNG_COUNT; i++) {
        const bool of_mapping = i == WEIR_RUNG_MAPPED || i == WEIR_RUNG_REMAPPED;
        const bool of_regions = i == WEIR_RUNG_GROWN || i == WEIR_RUNG_EXCHANGED;
        const bool rare_in_pages = i == WEIR_RUNG_FLUSHED_ALL; /* none to a few of 5,000 programs reach it */
        const bool reached =
            !(of_mapping && strategy->claim == NULL) && !((of_regions || rare_in_pages) && given_page != 0);
        if (coverage.served[i] == 0 && reached) {
            print_error("no program reached \"%s\"\n", weir_rung_name((weir_rung)i));
            fail();
        }
    }
}

TEST(test_caching)
{
    run_programs(weir_caching_strategy(), seeds);
    require_every_rung(weir_caching_strategy());
}

/* The strategy refuses slots to requests of other classes until the last resort, and serves them then. */
TEST(test_size_class)
{
    run_programs(weir_size_class_strategy(), seeds / 2 + 1);
    require_every_rung(weir_size_class_strategy());
}

/* The strategy does not use small holes between live blocks until the last resort, and uses them then. */
TEST(test_bump)
{
    run_programs(weir_bump_strategy(), seeds / 2 + 1);
    require_every_rung(weir_bump_strategy());
}

#ifdef HAVE_MODELS
TEST(test_pytorch_model)
{
    run_programs(model_pytorch_strategy(), seeds / 16 + 1);
}

TEST(test_direct_model)
{
    run_programs(model_direct_strategy(), seeds / 16 + 1);
}
#endif

int main(int argc, char **argv)
{
    program_name = argc > 0 ? argv[0] : program_name;
    seeds = number(argc > 1 ? argv[1] : getenv("WEIR_SEEDS"), seeds);
    first_seed = number(argc > 2 ? argv[2] : getenv("WEIR_SEED"), first_seed);
    given_page = number(argc > 3 ? argv[3] : getenv("WEIR_PAGE"), given_page);
    return run_all_tests("random programs over a pool");
}
