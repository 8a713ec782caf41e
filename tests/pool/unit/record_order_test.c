/* tests/pool/unit/record_order_test.c: the moment in which an event has its number but is not visible yet.
 *
 * No test can stop a thread that is inside a hook at that moment. So this test does the steps of the hook itself, with
 * the recorder's private functions: it takes a number, lets other threads record events, drains the recorder, and
 * publishes its own event late.
 */
#include "rig/test.h"
#include "services/record_internal.h"

#include <stdio.h>
#include <string.h>

/* Collects the kind of each event, with the size of an allocated block or the number of a freed one. */
struct seen {
    char text[256];
};

static bool take_text(void *ctx, const char *text, size_t length)
{
    struct seen *const out = ctx;
    const char *const end = text + length;
    for (const char *line = text; line < end; line = strchr(line, '\n') + 1) {
        char kind = 0;
        unsigned id = 0;
        unsigned size = 0;
        if (*line != '#' && sscanf(line, "%c %*u %u %u", &kind, &id, &size) == 3) {
            const size_t used = strlen(out->text);
            snprintf(out->text + used, sizeof(out->text) - used, "%c%u ", kind, kind == 'a' ? size : id);
        }
    }
    return true;
}

static weir_recorder *start(struct seen *out)
{
    weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
    config.sink = take_text;
    config.sink_ctx = out;
    weir_recorder *recorder = NULL;
    assert_int_equal(weir_recorder_create(&config, &recorder), WEIR_OK);
    return recorder;
}

/* The second half of weir__rings_put. */
static void publish(weir__ring *r, uint64_t sequence, uint64_t id)
{
    const uint64_t tail = atomic_load(&r->tail);
    r->entries[tail & r->mask] =
        (weir__record_entry){.kind = WEIR_TRACE_ALLOC, .sequence = sequence, .id = id, .size = id};
    atomic_store(&r->tail, tail + 1);
}

static void note(weir_recorder *recorder, weir_trace_kind kind, uint64_t id)
{
    const weir_trace_event event = {.kind = kind, .id = id, .size = id};
    weir_recorder_note(recorder, &event);
}

static void *alloc_5_and_free_1(void *ctx)
{
    note(ctx, WEIR_TRACE_ALLOC, 5);
    note(ctx, WEIR_TRACE_FREE, 1);
    return NULL;
}

static void run_other_thread(weir_recorder *recorder)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, alloc_5_and_free_1, recorder), 0);
    pthread_join(thread, NULL);
}

TEST(test_drain_waits_for_a_number_under_way)
{
    struct seen out = {.text = ""};
    weir_recorder *const recorder = start(&out);
    note(recorder, WEIR_TRACE_ALLOC, 9);
    const uint64_t late = atomic_fetch_add(&recorder->rings.sequence, 1);
    run_other_thread(recorder);
    uint64_t lost = 7;
    assert_int_equal(weir_recorder_drain(recorder, &lost), WEIR_OK);
    assert_string_equal(out.text, "a9 "); /* event 5 must wait for event 4, and the free for its alloc */
    assert_int_equal(weir_recorder_drain(recorder, &lost), WEIR_OK);
    assert_string_equal(out.text, "a9 ");
    publish(weir__ring_of_thread(&recorder->rings), late, 1);
    assert_int_equal(weir_recorder_drain(recorder, &lost), WEIR_OK);
    assert_string_equal(out.text, "a9 a1 a5 f1 ");
    assert_int_equal(lost, 0);
    assert_int_equal(weir_recorder_stop(recorder, &lost), WEIR_OK);
    assert_int_equal(lost, 0);
}

/* A thread was killed between taking a number and publishing its event: weir_recorder_stop does not wait for this
 * event. */
TEST(test_stop_passes_over_a_gap)
{
    struct seen out = {.text = ""};
    weir_recorder *const recorder = start(&out);
    (void)atomic_fetch_add(&recorder->rings.sequence, 1);
    note(recorder, WEIR_TRACE_ALLOC, 1);
    run_other_thread(recorder);
    (void)atomic_fetch_add(&recorder->rings.sequence, 1);
    uint64_t lost = 7;
    assert_int_equal(weir_recorder_drain(recorder, &lost), WEIR_OK);
    assert_string_equal(out.text, "");
    assert_int_equal(weir_recorder_stop(recorder, &lost), WEIR_OK);
    assert_string_equal(out.text, "a1 a5 f0 ");
    assert_int_equal(lost, 2);
}
