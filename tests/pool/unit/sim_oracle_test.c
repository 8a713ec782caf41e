/* tests/pool/unit/sim_oracle_test.c: the auditor against the simplest possible reference, on random programs.
 *
 * For every byte the reference keeps every access so far, and for every operation the set of all operations before it.
 * The auditor keeps vector clocks and forgets as much as it can. Both must find their first fault at the same call of
 * the same program, and of the same kinds. Then the program ends, because later the two may differ in the faults that
 * they report. Most calls that the reference would fault are left out, so that programs are long before they fail. A
 * seed determines a program. A failure prints the seed, and WEIR_TEST_SEED runs that seed alone. All programs run with
 * direct access and without.
 */
#include "rig/sim.h"

enum {
    STREAMS = 4,
    EVENTS = 3,
    BYTES = 48,
    STEPS = 150,
    NODES = 192,
    BLOCKS = STEPS + 1,
    HISTORY = STEPS * 2,
    PROGRAMS = 4000
};

struct set {
    uint64_t words[NODES / 64];
};

static bool has(const struct set *s, int node)
{
    return node < 0 || (s->words[node / 64] >> (node % 64) & 1) != 0; /* -1: no operation, before everything */
}

static void add(struct set *s, int node)
{
    s->words[node / 64] |= (uint64_t)1 << (node % 64);
}

/* Adds `other` to the set. Returns true if that changed the set. */
static bool join(struct set *s, const struct set *other)
{
    bool changed = false;
    for (int i = 0; i < NODES / 64; i++) {
        changed = changed || (other->words[i] & ~s->words[i]) != 0;
        s->words[i] |= other->words[i];
    }
    return changed;
}

struct access {
    int node;
    bool write;
};

struct byte {
    int block; /* the last live block that contained the byte; -1: none, or the byte was touched directly since */
    int count;
    struct access history[HISTORY];
};

struct block {
    int start;
    int end;
    int alloc_node; /* operations above this number come after the hand-out of the block; -1: all do */
    int free_node;  /* the last work before the free of the block */
    bool live;
};

struct judge {
    bool direct; /* the config's direct_access: memory without a live block may be touched */
    int nodes;
    struct set host;
    struct set after[STREAMS]; /* the operations that are ordered before the stream's next operation */
    int last[STREAMS];         /* the stream's last operation, waits included */
    int last_work[STREAMS];
    struct set events[EVENTS];
    struct byte bytes[BYTES];
    struct block blocks[BLOCKS];
    int block_count;
    bool expected[WEIR_SIM_FINDING_KINDS]; /* kinds expected from the current call */
};

static uint32_t random_state;

static int below(int limit)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (int)((random_state >> 8) % (uint32_t)limit);
}

static int new_node(struct judge *j, int stream)
{
    int node = j->nodes++;
    add(&j->after[stream], node);
    j->last[stream] = node;
    return node;
}

/* True if some access to the byte so far, or the hand-out or free of its block, is not in `known`. */
static bool is_pending(const struct judge *j, const struct byte *b, const struct set *known)
{
    for (int i = 0; i < b->count; i++) {
        if (!has(known, b->history[i].node)) {
            return true;
        }
    }
    if (b->block < 0) {
        return false;
    }
    const struct block *owner = &j->blocks[b->block];
    return !has(known, owner->alloc_node) || (!owner->live && !has(known, owner->free_node));
}

static void judge_alloc(struct judge *j, int start, int end, int stream)
{
    if (stream >= 0) {
        (void)join(&j->after[stream], &j->host);
    }
    const struct set *known = stream >= 0 ? &j->after[stream] : &j->host;
    bool idle = true;
    for (int i = start; i < end; i++) {
        struct byte *b = &j->bytes[i];
        if (b->block >= 0 && j->blocks[b->block].live) {
            j->expected[WEIR_SIM_OVERLAP] = true;
        } else if (is_pending(j, b, known)) {
            j->expected[WEIR_SIM_EARLY_REUSE] = true;
        }
        idle = idle && !is_pending(j, b, &j->host);
        b->block = j->block_count;
    }
    j->blocks[j->block_count++] = (struct block){.start = start,
                                                 .end = end,
                                                 .alloc_node = idle || stream < 0 ? -1 : j->last[stream],
                                                 .free_node = -1,
                                                 .live = true};
}

static void judge_free(struct judge *j, int at, int stream)
{
    struct block *b = j->bytes[at].block >= 0 ? &j->blocks[j->bytes[at].block] : NULL;
    if (b == NULL || b->start != at) {
        j->expected[WEIR_SIM_FOREIGN_FREE] = true;
        return;
    }
    if (!b->live) {
        j->expected[WEIR_SIM_DOUBLE_FREE] = true;
        return;
    }
    for (int i = b->start; stream < 0 && i < b->end; i++) {
        if (is_pending(j, &j->bytes[i], &j->host)) {
            j->expected[WEIR_SIM_FREE_PENDING] = true;
        }
    }
    b->live = false;
    b->free_node = stream >= 0 ? j->last_work[stream] : -1;
}

static bool is_live(const struct judge *j, int at)
{
    return j->bytes[at].block >= 0 && j->blocks[j->bytes[at].block].live;
}

/* Checks one byte of an access, and adds the access to the byte's history. */
static void judge_byte(struct judge *j, struct byte *b, bool write, const struct set *known, int node)
{
    const struct block *owner = b->block >= 0 ? &j->blocks[b->block] : NULL;
    bool conflict = owner != NULL && (!has(known, owner->alloc_node) || !has(known, owner->free_node));
    for (int k = 0; k < b->count; k++) {
        conflict = conflict || ((write || b->history[k].write) && !has(known, b->history[k].node));
    }
    if (conflict) {
        j->expected[WEIR_SIM_UNORDERED] = true;
    }
    assert_in_range(b->count, 0, HISTORY - 1);
    b->history[b->count++] = (struct access){node, write};
    if (write && owner != NULL && !owner->live) {
        b->block = -1;
    }
}

/* With direct access an access must not cross the edges of live blocks, nor those of the region. */
static void judge_direct_access(struct judge *j, int start, int end, bool write, int stream, int node)
{
    int first = is_live(j, start) ? j->bytes[start].block : -1;
    if (end > BYTES || (first >= 0 && end > j->blocks[first].end)) {
        j->expected[WEIR_SIM_OUTSIDE_BLOCK] = true;
        end = end > BYTES ? BYTES : end;
    }
    for (int i = start; i < end; i++) {
        if (is_live(j, i) && j->bytes[i].block != first) {
            j->expected[WEIR_SIM_OUTSIDE_BLOCK] = true;
        }
        judge_byte(j, &j->bytes[i], write, &j->after[stream], node);
    }
}

static void judge_access(struct judge *j, int start, int end, bool write, int stream, int node)
{
    int first = j->bytes[start].block;
    if (first < 0) {
        j->expected[WEIR_SIM_OUTSIDE_BLOCK] = true;
        return;
    }
    const struct block *owner = &j->blocks[first];
    if (!owner->live) {
        j->expected[WEIR_SIM_USE_AFTER_FREE] = true;
        return;
    }
    if (end > owner->end) {
        j->expected[WEIR_SIM_OUTSIDE_BLOCK] = true;
        end = owner->end;
    }
    for (int i = start; i < end; i++) {
        judge_byte(j, &j->bytes[i], write, &j->after[stream], node);
    }
}

static void judge_region_free(struct judge *j)
{
    for (int i = 0; i < BYTES; i++) {
        const struct byte *b = &j->bytes[i];
        if (is_pending(j, b, &j->host)) {
            j->expected[WEIR_SIM_REGION_PENDING] = true;
        }
        if (b->block >= 0 && j->blocks[b->block].live) {
            j->expected[WEIR_SIM_REGION_LIVE] = true;
        }
    }
}

/* --- one program --- */

struct run {
    weir_sim *sim;
    weir_device *device;
    weir_sim_stream *streams[STREAMS];
    weir_event *events[EVENTS];
    uint64_t region; /* 2 MiB */
    uint64_t base;   /* address of the region's last bytes; nothing lies above them */
};

/* Returns a live block, if a few tries find one: random addresses would end every program at once. */
static int some_live_block(const struct judge *j)
{
    for (int tries = 0; tries < 8 && j->block_count > 0; tries++) {
        int i = below(j->block_count);
        if (j->blocks[i].live) {
            return i;
        }
    }
    return -1;
}

/* A call of the random program, perhaps a mistake. The reference judges the call before the simulator gets it. */
struct call {
    enum { WORK, ALLOC, FREE } kind;
    int stream; /* -1: the host */
    int start;
    int end;
    int count;
    struct {
        int start;
        int end;
        bool write;
    } accesses[2];
};

static bool is_crossing(const struct judge *j, int start, int end)
{
    bool crossing = end > BYTES;
    for (int i = start; i < end && i < BYTES; i++) {
        crossing = crossing || is_live(j, i);
    }
    return crossing;
}

static struct call decide_work(const struct judge *j)
{
    struct call c = {.kind = WORK, .stream = below(STREAMS), .count = 1 + below(2)};
    for (int i = 0; i < c.count; i++) {
        int b = below(j->direct ? 2 : 40) != 0 ? some_live_block(j) : -1;
        int start = below(BYTES);
        int end = start + 1 + below((j->direct ? BYTES + 1 : BYTES) - start);
        while (j->direct && end > start + 1 && below(8) != 0 && !is_live(j, start) && is_crossing(j, start, end)) {
            end--; /* most accesses end where a live block begins */
        }
        if (b >= 0) {
            start = j->blocks[b].start + below(j->blocks[b].end - j->blocks[b].start);
            end = start + 1 + below(j->blocks[b].end - start);
        }
        c.accesses[i].start = start;
        c.accesses[i].end = end;
        c.accesses[i].write = below(2) != 0;
    }
    return c;
}

static struct call decide(const struct judge *j, int dice)
{
    if (dice < 5) {
        return decide_work(j);
    }
    struct call c = {.kind = dice < 8 ? ALLOC : FREE, .stream = below(STREAMS + 1) - 1, .start = below(BYTES)};
    if (c.kind == ALLOC) {
        int longest = BYTES - c.start < 12 ? BYTES - c.start : 12;
        c.end = c.start + 1 + below(longest);
        return c;
    }
    int b = some_live_block(j);
    c.start = b >= 0 && below(20) != 0 ? j->blocks[b].start : c.start;
    return c;
}

static void judge_call(struct judge *j, const struct call *c)
{
    if (c->kind == ALLOC) {
        judge_alloc(j, c->start, c->end, c->stream);
    } else if (c->kind == FREE) {
        judge_free(j, c->start, c->stream);
    } else {
        (void)join(&j->after[c->stream], &j->host);
        int node = new_node(j, c->stream); /* an operation does not conflict with itself */
        j->last_work[c->stream] = node;
        for (int i = 0; i < c->count; i++) {
            void (*judge_one)(struct judge *, int, int, bool, int, int) =
                j->direct ? judge_direct_access : judge_access;
            judge_one(j, c->accesses[i].start, c->accesses[i].end, c->accesses[i].write, c->stream, node);
        }
    }
}

static void make_call(const struct run *r, const struct call *c)
{
    weir_sim_stream *stream = c->stream >= 0 ? r->streams[c->stream] : NULL;
    if (c->kind == ALLOC) {
        weir_sim_block_alloc(r->sim, r->base + (uint64_t)c->start, (uint64_t)(c->end - c->start), stream, NULL);
        return;
    }
    if (c->kind == FREE) {
        weir_sim_block_free(r->sim, r->base + (uint64_t)c->start, stream, NULL);
        return;
    }
    weir_sim_access accesses[2];
    for (int i = 0; i < c->count; i++) {
        accesses[i] = (weir_sim_access){.address = r->base + (uint64_t)c->accesses[i].start,
                                        .size = (uint64_t)(c->accesses[i].end - c->accesses[i].start),
                                        .write = c->accesses[i].write};
    }
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = (uint64_t)below(1000);
    work.accesses = accesses;
    work.access_count = (size_t)c->count;
    ok(weir_sim_launch(r->sim, stream, &work));
}

static bool is_faulted(const struct judge *j)
{
    for (int kind = 0; kind < WEIR_SIM_FINDING_KINDS; kind++) {
        if (j->expected[kind]) {
            return true;
        }
    }
    return false;
}

static void step_call(struct judge *j, const struct run *r, int dice)
{
    static struct judge before;
    struct call c = decide(j, dice);
    before = *j;
    judge_call(j, &c);
    if (is_faulted(j) && below(c.kind == FREE ? 10 : 50) != 0) {
        *j = before;
        return;
    }
    make_call(r, &c);
}

static void step_order(struct judge *j, const struct run *r)
{
    int stream = below(STREAMS);
    int event = below(EVENTS);
    bool complete = false;
    switch (below(7)) {
    case 0:
    case 1:
        (void)join(&j->after[stream], &j->host);
        j->events[event] = j->after[stream];
        ok(weir_device_event_record(r->device, r->events[event], r->streams[stream]));
        break;
    case 2:
    case 3:
        (void)join(&j->after[stream], &j->host);
        if (join(&j->after[stream], &j->events[event])) {
            (void)new_node(j, stream);
        }
        ok(weir_device_stream_wait_event(r->device, r->streams[stream], r->events[event]));
        break;
    case 4:
        ok(weir_device_event_query(r->device, r->events[event], &complete));
        if (complete) {
            (void)join(&j->host, &j->events[event]);
        }
        break;
    case 5:
        (void)join(&j->host, &j->events[event]);
        ok(weir_device_event_sync(r->device, r->events[event]));
        break;
    default:
        if (below(8) == 0) {
            for (int i = 0; i < j->nodes; i++) {
                add(&j->host, i);
            }
            ok(weir_sim_sync(r->sim));
        } else {
            (void)join(&j->host, &j->after[stream]);
            ok(weir_device_stream_sync(r->device, r->streams[stream]));
        }
        break;
    }
}

/* Returns true if the simulator's auditor and the reference agree; *done is set if there was a finding. */
static bool agree(const struct judge *j, weir_sim *sim, bool *done)
{
    bool same = true;
    for (int kind = 0; kind < WEIR_SIM_FINDING_KINDS; kind++) {
        bool found = weir_sim_finding_count(sim, (weir_sim_finding_kind)kind) > 0;
        *done = *done || found || j->expected[kind];
        if (found != j->expected[kind]) {
            same = false;
            print_error("%s: the judge says %s, the auditor %s\n", weir_sim_finding_name((weir_sim_finding_kind)kind),
                        j->expected[kind] ? "yes" : "no", found ? "yes" : "no");
        }
    }
    return same;
}

/* Returns the number of steps up to the first finding, or of all steps. */
static int run_program(uint32_t seed, bool direct, uint64_t *kinds)
{
    static struct judge j;
    memset(&j, 0, sizeof(j));
    j.direct = direct;
    for (int i = 0; i < BYTES; i++) {
        j.bytes[i].block = -1;
    }
    random_state = seed;
    weir_sim_config config = free_of_charge();
    config.direct_access = direct;
    struct run r = {.sim = new_sim(config)};
    r.device = weir_sim_device(r.sim);
    r.region = new_region(r.sim, 2 * MIB);
    r.base = r.region + 2 * MIB - BYTES;
    for (int i = 0; i < STREAMS; i++) {
        r.streams[i] = new_stream(r.sim);
        j.last[i] = -1;
        j.last_work[i] = -1;
    }
    for (int i = 0; i < EVENTS; i++) {
        r.events[i] = new_event(r.sim);
    }
    bool done = false;
    int step = 0;
    int ordering = 2 + below(14); /* how often the program orders its accesses */
    while (!done && step < STEPS) {
        int dice = below(10 + ordering);
        weir_sim_advance(r.sim, (uint64_t)below(200));
        if (dice < 10) {
            step_call(&j, &r, dice);
        } else {
            step_order(&j, &r);
        }
        step++;
        if (!agree(&j, r.sim, &done)) {
            print_error("WEIR_TEST_SEED=%u, step %d\n", seed, step);
            fail();
        }
    }
    if (!done) {
        judge_region_free(&j);
        give_region(r.sim, r.region, 2 * MIB);
        if (!agree(&j, r.sim, &done)) {
            print_error("WEIR_TEST_SEED=%u, region_free\n", seed);
            fail();
        }
    }
    for (int kind = 0; kind < WEIR_SIM_FINDING_KINDS; kind++) {
        kinds[kind] += j.expected[kind];
    }
    assert_int_equal(weir_sim_destroy(r.sim), WEIR_OK);
    return step;
}

static void run_programs(bool direct)
{
    uint64_t kinds[WEIR_SIM_FINDING_KINDS] = {0};
    uint64_t steps = 0;
    const char *one = getenv("WEIR_TEST_SEED");
    if (one != NULL) {
        (void)run_program((uint32_t)strtoul(one, NULL, 10), direct, kinds);
        return;
    }
    for (uint32_t seed = 1; seed <= PROGRAMS; seed++) {
        steps += (uint64_t)run_program(seed, direct, kinds);
    }
    print_message("%d programs, %llu calls\n", PROGRAMS, (unsigned long long)steps);
    for (int kind = 0; kind < WEIR_SIM_FINDING_KINDS; kind++) {
        print_message("%8llu %s\n", (unsigned long long)kinds[kind],
                      weir_sim_finding_name((weir_sim_finding_kind)kind));
        /* A kind that no program reaches would not be tested. */
        bool reachable = kind != WEIR_SIM_OUTSIDE_REGION && kind != WEIR_SIM_LEAK && kind != WEIR_SIM_FOREIGN_MEMORY &&
                         kind < WEIR_SIM_HOST_CHANGED && (kind != WEIR_SIM_USE_AFTER_FREE || !direct);
        assert_true(reachable ? kinds[kind] > 20 : kinds[kind] == 0);
    }
}

TEST(test_first_finding_of_random_programs)
{
    run_programs(false);
}

TEST(test_first_finding_with_direct_access)
{
    run_programs(true);
}
