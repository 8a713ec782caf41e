/* tests/pool/unit/sim_fault_test.c: every kind of failure on demand, and broken streams. */
#include "rig/sim.h"

#define PAGE (2 * MIB)

/* Objects that the calls need. */
struct props {
    weir_sim *sim;
    weir_device *device;
    weir_sim_stream *stream;
    weir_event *event;
    weir_event *spare;
    uint64_t region;
    uint64_t base;
    weir_vm_handle mapped;
    weir_vm_handle unmapped;
};

static struct props set_up(void)
{
    struct props p = {.sim = new_sim(free_of_charge())};
    p.device = weir_sim_device(p.sim);
    p.stream = new_stream(p.sim);
    p.event = new_event(p.sim);
    p.region = new_region(p.sim, PAGE);
    ok(weir_device_vm_reserve(p.device, 4 * PAGE, &p.base));
    ok(weir_device_vm_create(p.device, PAGE, &p.mapped));
    ok(weir_device_vm_map(p.device, p.base, PAGE, p.mapped));
    ok(weir_device_vm_create(p.device, PAGE, &p.unmapped));
    return p;
}

/* Makes one call of a kind, which would succeed without a fault. */
static weir_status make(struct props *p, weir_device_call call)
{
    uint64_t address = 0;
    weir_vm_handle handle = 0;
    const weir_copy piece = {0};
    bool complete = false;
    switch (call) {
    case WEIR_CALL_REGION_ALLOC:
        return weir_device_region_alloc(p->device, PAGE, &address);
    case WEIR_CALL_REGION_FREE:
        return weir_device_region_free(p->device, p->region, PAGE);
    case WEIR_CALL_VM_RESERVE:
        return weir_device_vm_reserve(p->device, PAGE, &address);
    case WEIR_CALL_VM_RELEASE:
        return weir_device_vm_release(p->device, p->base, 4 * PAGE);
    case WEIR_CALL_VM_CREATE:
        return weir_device_vm_create(p->device, PAGE, &handle);
    case WEIR_CALL_VM_DESTROY:
        return weir_device_vm_destroy(p->device, p->unmapped);
    case WEIR_CALL_VM_MAP:
        return weir_device_vm_map(p->device, p->base + PAGE, PAGE, p->unmapped);
    case WEIR_CALL_VM_UNMAP:
        return weir_device_vm_unmap(p->device, p->base, PAGE);
    case WEIR_CALL_EVENT_CREATE:
        return weir_device_event_create(p->device, &p->spare);
    case WEIR_CALL_EVENT_DESTROY:
        return weir_device_event_destroy(p->device, p->event);
    case WEIR_CALL_EVENT_RECORD:
        return weir_device_event_record(p->device, p->event, p->stream);
    case WEIR_CALL_EVENT_QUERY:
        return weir_device_event_query(p->device, p->event, &complete);
    case WEIR_CALL_EVENT_SYNC:
        return weir_device_event_sync(p->device, p->event);
    case WEIR_CALL_STREAM_WAIT_EVENT:
        return weir_device_stream_wait_event(p->device, p->stream, p->event);
    case WEIR_CALL_STREAM_SYNC:
        return weir_device_stream_sync(p->device, p->stream);
    case WEIR_CALL_COPY:
        return weir_device_copy(p->device, &piece, 0);
    case WEIR_CALL_COUNT:
        break;
    }
    return WEIR_ERR_INTERNAL;
}

static void arm(weir_sim *sim, weir_device_call call, uint64_t nth, weir_status status)
{
    weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
    fault.call = call;
    fault.nth = nth;
    fault.status = status;
    ok(weir_sim_fault_arm(sim, &fault));
}

TEST(test_every_call_can_fail_and_changes_nothing)
{
    for (int i = 0; i < WEIR_CALL_COUNT; i++) {
        weir_device_call call = (weir_device_call)i;
        bool memory = call == WEIR_CALL_REGION_ALLOC || call == WEIR_CALL_VM_RESERVE || call == WEIR_CALL_VM_CREATE ||
                      call == WEIR_CALL_VM_MAP;
        struct props p = set_up();
        weir_sim_stats before = WEIR_SIM_STATS_INIT;
        weir_sim_stats after = WEIR_SIM_STATS_INIT;
        ok(weir_sim_get_stats(p.sim, &before));
        arm(p.sim, call, 1, WEIR_OK);
        fails(make(&p, call), memory ? WEIR_ERR_NO_MEMORY : WEIR_ERR_DEVICE);
        ok(weir_sim_get_stats(p.sim, &after));
        assert_int_equal(before.held_bytes, after.held_bytes);
        assert_int_equal(before.calls[call] + 1, after.calls[call]); /* a failed call counts too */
        if (call == WEIR_CALL_VM_RELEASE) {
            ok(weir_device_vm_unmap(p.device, p.base, PAGE));
        }
        ok(make(&p, call)); /* fails only once */
        assert_int_equal(weir_sim_destroy(p.sim), WEIR_OK);
    }
}

TEST(test_a_failed_sync_orders_nothing)
{
    struct props p = set_up();
    weir_sim_stream *other = new_stream(p.sim);
    weir_sim_block_alloc(p.sim, p.region, PAGE, p.stream, "x");
    writes(p.sim, p.stream, p.region, PAGE, "first");
    arm(p.sim, WEIR_CALL_STREAM_SYNC, 1, WEIR_OK);
    fails(weir_device_stream_sync(p.device, p.stream), WEIR_ERR_DEVICE);
    assert_int_equal(weir_sim_now(p.sim), 0);
    writes(p.sim, other, p.region, PAGE, "second");
    only_finding(p.sim, WEIR_SIM_UNORDERED, "first", "second");
    assert_int_equal(weir_sim_destroy(p.sim), WEIR_OK);
}

TEST(test_nth_and_repeat_and_clear)
{
    struct props p = set_up();
    arm(p.sim, WEIR_CALL_EVENT_RECORD, 3, WEIR_ERR_LIMIT);
    ok(make(&p, WEIR_CALL_EVENT_RECORD));
    ok(make(&p, WEIR_CALL_EVENT_QUERY)); /* calls of another kind do not advance the count */
    ok(make(&p, WEIR_CALL_EVENT_RECORD));
    fails(make(&p, WEIR_CALL_EVENT_RECORD), WEIR_ERR_LIMIT);
    ok(make(&p, WEIR_CALL_EVENT_RECORD));

    weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
    fault.call = WEIR_CALL_ANY;
    fault.nth = 2;
    fault.repeat = true;
    ok(weir_sim_fault_arm(p.sim, &fault));
    for (int i = 0; i < 3; i++) {
        ok(make(&p, WEIR_CALL_EVENT_RECORD));
        fails(make(&p, WEIR_CALL_EVENT_QUERY), WEIR_ERR_DEVICE);
    }
    weir_sim_fault_clear(p.sim);
    for (int i = 0; i < 6; i++) {
        ok(make(&p, WEIR_CALL_EVENT_QUERY));
    }
    arm(p.sim, WEIR_CALL_EVENT_QUERY, 0, WEIR_OK); /* never */
    ok(make(&p, WEIR_CALL_EVENT_QUERY));
    fault.call = (weir_device_call)99;
    fails(weir_sim_fault_arm(p.sim, &fault), WEIR_ERR_INVALID);
    fails(weir_sim_fault_arm(p.sim, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_sim_destroy(p.sim), WEIR_OK);
}

TEST(test_slow_calls)
{
    struct props p = set_up();
    weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
    fault.call = WEIR_CALL_REGION_ALLOC;
    fault.nth = 1;
    fault.slow = true;
    fault.extra_ns = 5000;
    ok(weir_sim_fault_arm(p.sim, &fault));
    ok(make(&p, WEIR_CALL_REGION_ALLOC));
    assert_int_equal(weir_sim_now(p.sim), 5000);
    ok(make(&p, WEIR_CALL_REGION_ALLOC));
    assert_int_equal(weir_sim_now(p.sim), 5000);
    fault.slow = false; /* fails after taking its time */
    ok(weir_sim_fault_arm(p.sim, &fault));
    fails(make(&p, WEIR_CALL_REGION_ALLOC), WEIR_ERR_NO_MEMORY);
    assert_int_equal(weir_sim_now(p.sim), 10000);
    assert_int_equal(weir_sim_destroy(p.sim), WEIR_OK);
}

/* The k-th map of several fails; earlier mappings stay, and can be undone. */
TEST(test_half_way_through_a_map_of_many_parts)
{
    for (uint64_t k = 1; k <= 4; k++) {
        weir_sim *sim = new_sim(free_of_charge());
        weir_device *device = weir_sim_device(sim);
        uint64_t base = 0;
        weir_vm_handle handles[4];
        uint64_t mapped = 0;
        ok(weir_device_vm_reserve(device, 4 * PAGE, &base));
        arm(sim, WEIR_CALL_VM_MAP, k, WEIR_OK);
        for (uint64_t i = 0; i < 4; i++) {
            ok(weir_device_vm_create(device, PAGE, &handles[i]));
        }
        while (mapped < 4 && weir_device_vm_map(device, base + mapped * PAGE, PAGE, handles[mapped]) == WEIR_OK) {
            mapped++;
        }
        assert_int_equal(mapped, k - 1);
        fails(weir_device_vm_unmap(device, base + mapped * PAGE, PAGE), WEIR_ERR_INVALID);
        for (uint64_t i = 0; i < mapped; i++) {
            ok(weir_device_vm_unmap(device, base + i * PAGE, PAGE));
        }
        for (uint64_t i = 0; i < 4; i++) {
            ok(weir_device_vm_destroy(device, handles[i]));
        }
        ok(weir_device_vm_release(device, base, 4 * PAGE));
        weir_sim_audit_leaks(sim);
        is_clean(sim);
        assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
    }
}

TEST(test_broken_stream)
{
    struct props p = set_up();
    weir_sim_stream *other = new_stream(p.sim);
    weir_event *early = new_event(p.sim);
    bool complete = false;
    weir_sim_block_alloc(p.sim, p.region, PAGE, p.stream, "x");
    writes(p.sim, p.stream, p.region, PAGE, "done");
    ok(weir_device_event_record(p.device, early, p.stream));
    weir_sim_advance(p.sim, LONG_NS);
    writes(p.sim, p.stream, p.region, PAGE, "dropped");
    ok(weir_device_event_record(p.device, p.event, p.stream));
    ok(weir_sim_stream_break(p.sim, p.stream));
    assert_int_equal(weir_sim_stream_tail(p.sim, p.stream), LONG_NS);
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    ok(weir_device_event_query(p.device, early, &complete)); /* completed before the break */
    assert_true(complete);
    fails(weir_device_event_query(p.device, p.event, &complete), WEIR_ERR_DEVICE);
    fails(weir_device_event_sync(p.device, p.event), WEIR_ERR_DEVICE);
    fails(weir_device_stream_wait_event(p.device, other, p.event), WEIR_ERR_DEVICE);
    fails(weir_sim_launch(p.sim, p.stream, &work), WEIR_ERR_DEVICE);
    fails(weir_device_event_record(p.device, early, p.stream), WEIR_ERR_DEVICE);
    fails(weir_device_stream_sync(p.device, p.stream), WEIR_ERR_DEVICE);
    fails(weir_sim_sync(p.sim), WEIR_ERR_DEVICE);
    busy(p.sim, other, 1); /* other streams continue */
    sync_stream(p.sim, other);
    /* The device has reported that the stream is dead: its memory may be freed. */
    weir_sim_block_free(p.sim, p.region, NULL, "del x");
    give_region(p.sim, p.region, PAGE);
    is_clean(p.sim);
    ok(weir_sim_stream_destroy(p.sim, p.stream));
    ok(weir_sim_sync(p.sim));
    fails(weir_sim_stream_break(p.sim, p.stream), WEIR_ERR_INVALID);
    assert_int_equal(weir_sim_destroy(p.sim), WEIR_OK);
}

static void count_up(void *ctx)
{
    (*(int *)ctx)++;
}

TEST(test_broken_stream_drops_what_was_queued)
{
    weir_sim *sim = new_sim(free_of_charge());
    weir_sim_stream *streams[3] = {new_stream(sim), new_stream(sim), new_stream(sim)};
    int calls[3] = {0};
    for (uint64_t i = 0; i < 30; i++) {
        weir_sim_work work = WEIR_SIM_WORK_INIT;
        work.duration_ns = 100 + 7 * i % 5;
        work.host_function = count_up;
        work.host_ctx = &calls[i % 3];
        ok(weir_sim_launch(sim, streams[i % 3], &work));
    }
    weir_sim_advance(sim, 250);
    ok(weir_sim_stream_break(sim, streams[1]));
    fails(weir_sim_sync(sim), WEIR_ERR_DEVICE);
    assert_int_equal(calls[0], 10);
    assert_int_equal(calls[1], 2);
    assert_int_equal(calls[2], 10);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

/* --- work that will never run --- */

/* The fates of some pieces of work, in the order of the calls. */
struct fates {
    weir_sim *sim;
    char letters[40]; /* upper case: ran; lower case: dropped */
    size_t count;
};

/* The fate of one piece of work. The struct is allocated on the heap; either host_function or dropped is called, and
 * frees it. */
struct fate {
    struct fates *all;
    char letter;
};

static void note(struct fate *f, char letter)
{
    assert_in_range(f->all->count, 0, sizeof(f->all->letters) - 2);
    f->all->letters[f->all->count++] = letter;
    free(f);
}

static void ran(void *ctx)
{
    struct fate *f = ctx;
    note(f, f->letter);
}

static void was_dropped(void *ctx)
{
    struct fate *f = ctx;
    (void)weir_sim_now(f->all->sim); /* the lock is not held */
    note(f, (char)(f->letter - 'A' + 'a'));
}

static weir_sim_work one_work(struct fates *all, char letter, uint64_t duration_ns)
{
    struct fate *f = malloc(sizeof(*f));
    assert_non_null(f);
    *f = (struct fate){all, letter};
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = duration_ns;
    work.host_function = ran;
    work.host_ctx = f;
    work.dropped = was_dropped;
    return work;
}

static void queue(struct fates *all, weir_sim_stream *stream, char letter, uint64_t duration_ns)
{
    weir_sim_work work = one_work(all, letter, duration_ns);
    ok(weir_sim_launch(all->sim, stream, &work));
}

TEST(test_dropped_when_a_stream_breaks)
{
    struct fates all = {.sim = new_sim(free_of_charge())};
    weir_sim_stream *a = new_stream(all.sim);
    weir_sim_stream *b = new_stream(all.sim);
    for (int i = 0; i < 12; i++) {
        queue(&all, i % 2 == 0 ? a : b, (char)('A' + i), i % 2 == 0 ? 100 : 90);
    }
    weir_sim_advance(all.sim, 200);
    assert_string_equal(all.letters, "BADC");
    ok(weir_sim_stream_break(all.sim, a));
    assert_string_equal(all.letters, "BADCegik");
    ok(weir_sim_stream_break(all.sim, a)); /* a second break has no effect */
    weir_sim_work late = one_work(&all, 'Z', 1);
    fails(weir_sim_launch(all.sim, a, &late), WEIR_ERR_DEVICE); /* neither function is called */
    free(late.host_ctx);
    fails(weir_sim_sync(all.sim), WEIR_ERR_DEVICE);
    assert_string_equal(all.letters, "BADCegikFHJL");
    assert_int_equal(weir_sim_destroy(all.sim), WEIR_OK);
    assert_string_equal(all.letters, "BADCegikFHJL");
}

/* A copy finds its memory gone; its stream may have been destroyed before. */
TEST(test_dropped_after_a_copy_that_faults)
{
    for (int destroyed = 0; destroyed < 2; destroyed++) {
        weir_sim_config config = free_of_charge();
        config.mode = WEIR_SIM_BACKED;
        struct fates all = {.sim = new_sim(config)};
        weir_sim_stream *a = new_stream(all.sim);
        weir_sim_stream *b = new_stream(all.sim);
        uint64_t region = new_region(all.sim, PAGE);
        queue(&all, a, 'A', 10);
        ok(weir_sim_fill(all.sim, a, region, PAGE, 1, "fill"));
        queue(&all, a, 'B', 10);
        ok(weir_sim_fill(all.sim, a, region, PAGE, 2, "fill"));
        queue(&all, a, 'C', 10);
        queue(&all, b, 'D', 5000);
        give_region(all.sim, region, PAGE);
        if (destroyed) {
            ok(weir_sim_stream_destroy(all.sim, a));
        }
        weir_sim_advance(all.sim, 1009);
        assert_string_equal(all.letters, "A");
        weir_sim_advance(all.sim, 1);
        assert_string_equal(all.letters, "Abc");
        weir_sim_advance(all.sim, 5000);
        assert_string_equal(all.letters, "AbcD");
        assert_int_equal(weir_sim_destroy(all.sim), WEIR_OK);
    }
}

TEST(test_dropped_by_destroy)
{
    struct fates all = {.sim = new_sim(free_of_charge())};
    weir_sim_stream *a = new_stream(all.sim);
    queue(&all, a, 'A', 300);
    queue(&all, NULL, 'B', 100);
    queue(&all, a, 'C', 100);
    int calls = 0;
    weir_sim_work unasked = WEIR_SIM_WORK_INIT;
    unasked.duration_ns = 1000;
    unasked.host_function = count_up;
    unasked.host_ctx = &calls;
    ok(weir_sim_launch(all.sim, a, &unasked));
    assert_int_equal(weir_sim_destroy(all.sim), WEIR_OK);
    assert_string_equal(all.letters, "bac");
    assert_int_equal(calls, 0);
}

/* A host function that uses the simulator: it waits, queues more work, and breaks another stream. */
struct meddler {
    struct fates all;
    weir_sim_stream *other;
    int calls;
};

static void meddle(void *ctx)
{
    struct meddler *m = ctx;
    if (m->calls++ == 0) {
        queue(&m->all, m->other, 'X', 10);
        queue(&m->all, NULL, 'Y', 20);
        (void)weir_sim_sync(m->all.sim);
        assert_string_equal(m->all.letters, ""); /* one runs at a time */
        ok(weir_sim_stream_break(m->all.sim, m->other));
    }
}

TEST(test_dropped_may_use_the_simulator)
{
    for (int destroy = 0; destroy < 2; destroy++) {
        struct meddler m = {.all = {.sim = new_sim(free_of_charge())}};
        m.other = new_stream(m.all.sim);
        weir_sim_stream *stream = new_stream(m.all.sim);
        weir_sim_work work = WEIR_SIM_WORK_INIT;
        work.duration_ns = 100;
        work.host_function = count_up;
        work.dropped = meddle;
        work.host_ctx = &m;
        ok(weir_sim_launch(m.all.sim, stream, &work));
        if (!destroy) {
            ok(weir_sim_stream_break(m.all.sim, stream));
            /* Y ran, but only after the function that queued it had returned */
            assert_string_equal(m.all.letters, "xY");
        }
        assert_int_equal(weir_sim_destroy(m.all.sim), WEIR_OK);
        assert_int_equal(m.calls, 1);
        assert_string_equal(m.all.letters, destroy ? "yx" : "xY");
    }
}

TEST(test_dropped_and_older_callers)
{
    weir_sim *sim = new_sim(free_of_charge());
    int calls[2] = {0};
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = 100;
    work.dropped = count_up;
    work.host_ctx = calls;
    fails(weir_sim_launch(sim, NULL, &work), WEIR_ERR_INVALID); /* no function to call instead */
    work.struct_size = offsetof(weir_sim_work, dropped);        /* an older caller */
    ok(weir_sim_launch(sim, NULL, &work));
    work.host_function = count_up;
    work.host_ctx = &calls[1];
    ok(weir_sim_launch(sim, NULL, &work));
    ok(weir_sim_stream_break(sim, NULL));
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
    assert_int_equal(calls[0], 0);
    assert_int_equal(calls[1], 0);
}
