/* tests/pool/unit/record_note_test.c: a recorder that is fed by hand: reused names, reallocs, losses, threads. */
#define KEPT_BYTES (1 << 23)
#include "rig/sink.h"
#include "rig/test.h"

#include <weir/trace.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- the text that comes out --- */

static struct kept out;

static weir_recorder *create(uint32_t ring_events)
{
    weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
    weir_recorder *recorder = NULL;
    config.sink = keep;
    config.sink_ctx = &out;
    config.ring_events = ring_events;
    out.length = 0;
    assert_int_equal(weir_recorder_create(&config, &recorder), WEIR_OK);
    return recorder;
}

/* Compares the lines of events without their times, which differ from run to run: "a 5 1 ..." becomes "a 1 ...". */
static void assert_events(const char *expected)
{
    char body[4096];
    size_t length = 0;
    for (const char *line = out.text; *line != '\0'; line = strchr(line, '\n') + 1) {
        const char *const end = strchr(line, '\n') + 1;
        const char *const from = *line == 'p' ? line + 1 : line + 2 + strspn(line + 2, "0123456789");
        if (*line != '#') {
            assert_true(length + (size_t)(end - from) + 2 < sizeof(body));
            body[length++] = *line;
            memcpy(body + length, from, (size_t)(end - from));
            length += (size_t)(end - from);
        }
    }
    body[length] = '\0';
    assert_string_equal(body, expected);
}

static void stop_and_expect(weir_recorder *recorder, uint64_t lost, const char *events)
{
    uint64_t counted = UINT64_MAX;
    assert_int_equal(weir_recorder_stop(recorder, &counted), WEIR_OK);
    assert_int_equal(counted, lost);
    assert_events(events);
}

/* --- shorthand for events --- */

#define NOTE(recorder, ...) weir_recorder_note(recorder, &(weir_trace_event){__VA_ARGS__})

static void note_alloc(weir_recorder *recorder, uint64_t id, uint64_t size)
{
    NOTE(recorder, .kind = WEIR_TRACE_ALLOC, .id = id, .size = size, .stream = 7);
}

static void note_free(weir_recorder *recorder, uint64_t id)
{
    NOTE(recorder, .kind = WEIR_TRACE_FREE, .id = id, .stream = 7);
}

static void note_realloc(weir_recorder *recorder, char half, uint64_t old_id, uint64_t id, uint64_t size)
{
    NOTE(recorder, .kind = WEIR_TRACE_REALLOC, .mode = half, .old_id = old_id, .id = id, .size = size, .stream = 7);
}

/* --- one thread --- */

TEST(test_header)
{
    weir_recorder *recorder = create(0);
    assert_int_equal(weir_recorder_stop(recorder, NULL), WEIR_OK);
    assert_string_equal(out.text, "#wtr 1\n#src weir recorder\n#clock ns\n");
}

TEST(test_every_kind)
{
    weir_recorder *recorder = create(0);
    NOTE(recorder, .kind = WEIR_TRACE_PRIOR, .id = 0x1000, .size = 64, .stream = 7, .address = 0x1000, .device = 1);
    NOTE(recorder, .kind = WEIR_TRACE_ALLOC, .id = 0x2000, .size = 4096, .stream = 9, .extra = 64, .device = 2,
         .address = 0x2000);
    NOTE(recorder, .kind = WEIR_TRACE_USE, .id = 0x2000, .stream = 7, .mode = 'w');
    NOTE(recorder, .kind = WEIR_TRACE_WORK, .stream = 9, .size = 55);
    NOTE(recorder, .kind = WEIR_TRACE_RECORD, .id = 0xabc, .stream = 9);
    NOTE(recorder, .kind = WEIR_TRACE_WAIT, .id = 0xabc, .stream = 7);
    NOTE(recorder, .kind = WEIR_TRACE_SYNC, .id = 0xabc, .mode = 'e', .stream = WEIR_TRACE_NONE);
    NOTE(recorder, .kind = WEIR_TRACE_SYNC, .mode = 's', .stream = 9);
    NOTE(recorder, .kind = WEIR_TRACE_SYNC, .mode = '*', .stream = WEIR_TRACE_NONE);
    NOTE(recorder, .kind = WEIR_TRACE_TRIM, .stream = WEIR_TRACE_NONE);
    NOTE(recorder, .kind = WEIR_TRACE_CAPACITY, .size = 1000, .stream = WEIR_TRACE_NONE);
    NOTE(recorder, .kind = WEIR_TRACE_OOM, .size = 100, .extra = 10, .stream = WEIR_TRACE_NONE);
    NOTE(recorder, .kind = WEIR_TRACE_FREE, .id = 0x1000, .stream = WEIR_TRACE_NONE);
    NOTE(recorder, .kind = WEIR_TRACE_FREE, .id = 0x2000, .stream = 7);
    stop_and_expect(recorder, 0,
                    "p 0 64 0 0x1000 d=1\n"
                    "a 1 4096 1 0 al=64 d=2 addr=0x2000\n"
                    "u 1 0 w\n"
                    "w 1 55\n"
                    "e 0 1\n"
                    "x 0 0\n"
                    "y e0\n"
                    "y 1\n"
                    "y *\n"
                    "c\n"
                    "l 1000\n"
                    "o 100 10\n"
                    "f 0 - 0\n"
                    "f 1 0 0\n");
}

/* An event of a kind that has no line, or with a missing field, is left out and does not count as lost. */
TEST(test_incomplete_events_are_ignored)
{
    weir_recorder *recorder = create(0);
    NOTE(recorder, .kind = WEIR_TRACE_MARK, .mode = 'I', .name = "here");
    NOTE(recorder, .kind = WEIR_TRACE_POOL, .mode = '+');
    NOTE(recorder, .kind = (weir_trace_kind)'!');
    NOTE(recorder, .kind = WEIR_TRACE_ALLOC, .id = 1, .size = 1, .stream = WEIR_TRACE_NONE);
    NOTE(recorder, .kind = WEIR_TRACE_ALLOC, .id = 1, .size = 1, .device = 4096);
    weir_recorder_note(recorder, NULL);
    weir_recorder_note(NULL, &(weir_trace_event){.kind = WEIR_TRACE_TRIM});
    stop_and_expect(recorder, 0, "");
}

static void note_capture(weir_recorder *recorder, char mode, uint32_t pool, uint32_t stream)
{
    NOTE(recorder, .kind = WEIR_TRACE_CAPTURE, .mode = mode, .pool = pool, .stream = stream);
}

/* A lost end is written where its pool or its stream begins another capture, or where its pool is released. What has no
 * begin in the trace is left out. */
TEST(test_captures)
{
    weir_recorder *recorder = create(0);
    note_capture(recorder, 'E', 50, 7);
    note_capture(recorder, 'R', 50, WEIR_TRACE_NONE);
    note_capture(recorder, 'B', 50, WEIR_TRACE_NONE);
    note_capture(recorder, '?', 50, 7);
    note_capture(recorder, 'B', 60, 7);
    note_capture(recorder, 'E', 60, 7);
    note_capture(recorder, 'E', 60, 7);
    note_capture(recorder, 'B', 60, 8);
    note_capture(recorder, 'B', 60, 7); /* the pool */
    note_capture(recorder, 'B', 61, 7); /* the stream */
    note_capture(recorder, 'R', 61, WEIR_TRACE_NONE);
    note_capture(recorder, 'B', 61, 8); /* another pool with the same name */
    note_capture(recorder, 'E', 61, 8);
    note_capture(recorder, 'R', 60, WEIR_TRACE_NONE);
    stop_and_expect(recorder, 0,
                    "g B 0 0\ng E 0 0\ng B 0 1\ng E 0 1\ng B 0 0\ng E 0 0\ng B 1 0\ng E 1 0\ng R 1\n"
                    "g B 2 1\ng E 2 1\ng R 0\n");
}

TEST(test_names_are_reused)
{
    weir_recorder *recorder = create(0);
    note_alloc(recorder, 0x10, 1);
    note_free(recorder, 0x10);
    note_alloc(recorder, 0x10, 2);
    note_alloc(recorder, 0x20, 3);
    note_free(recorder, 0x10);
    note_free(recorder, 0x20);
    stop_and_expect(recorder, 0, "a 0 1 0 0\nf 0 0 0\na 1 2 0 0\na 2 3 0 0\nf 1 0 0\nf 2 0 0\n");
}

TEST(test_the_name_zero)
{
    weir_recorder *recorder = create(0);
    note_alloc(recorder, 0, 1);
    note_free(recorder, 0);
    note_free(recorder, 0);
    stop_and_expect(recorder, 1, "a 0 1 0 0\nf 0 0 0\n");
}

TEST(test_a_free_that_was_lost)
{
    weir_recorder *recorder = create(0);
    note_alloc(recorder, 0x10, 1);
    note_alloc(recorder, 0x10, 2);
    note_free(recorder, 0x10);
    note_free(recorder, 0x10); /* its alloc was lost */
    NOTE(recorder, .kind = WEIR_TRACE_USE, .id = 0x10, .stream = 8);
    stop_and_expect(recorder, 2, "a 0 1 0 0\nf 0 - 0\na 1 2 0 0\nf 1 0 0\n");
}

/* A prior event is ignored if the block's alloc is recorded or the block is known as prior already. */
TEST(test_prior_blocks)
{
    weir_recorder *recorder = create(0);
    note_alloc(recorder, 0x10, 1);
    NOTE(recorder, .kind = WEIR_TRACE_PRIOR, .id = 0x10, .size = 1, .stream = 7);
    NOTE(recorder, .kind = WEIR_TRACE_PRIOR, .id = 0x20, .size = 2, .stream = 7);
    note_free(recorder, 0x20);
    note_free(recorder, 0x10);
    stop_and_expect(recorder, 0, "a 0 1 0 0\np 1 2 0\nf 1 0 0\nf 0 0 0\n");
}

/* --- realloc --- */

TEST(test_realloc_moves_and_stays)
{
    weir_recorder *recorder = create(0);
    note_alloc(recorder, 0x10, 1);
    note_realloc(recorder, 0, 0x10, 0x20, 2);
    note_realloc(recorder, 0, 0x20, 0x20, 3);
    note_alloc(recorder, 0x10, 4);
    note_free(recorder, 0x20);
    note_free(recorder, 0x10);
    stop_and_expect(recorder, 0, "a 0 1 0 0\nr 0 1 2 0\nr 1 2 3 0\na 3 4 0 0\nf 2 0 0\nf 3 0 0\n");
}

static void *take_the_old_name(void *recorder)
{
    note_alloc(recorder, 0x10, 9);
    return NULL;
}

static void alloc_in_another_thread(weir_recorder *recorder)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_the_old_name, recorder), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* The allocator gives the old memory to another thread before realloc returns. */
TEST(test_realloc_in_two_halves)
{
    weir_recorder *recorder = create(0);
    note_alloc(recorder, 0x10, 1);
    note_realloc(recorder, 'B', 0x10, 0, 0);
    alloc_in_another_thread(recorder);
    note_realloc(recorder, 'E', 0x10, 0x20, 2);
    note_free(recorder, 0x10);
    note_free(recorder, 0x20);
    stop_and_expect(recorder, 0, "a 0 1 0 0\na 1 9 0 1\nr 0 2 2 0\nf 1 0 0\nf 2 0 0\n");
}

TEST(test_realloc_that_failed)
{
    weir_recorder *recorder = create(0);
    note_alloc(recorder, 0x10, 1);
    note_realloc(recorder, 'B', 0x10, 0, 0);
    note_realloc(recorder, 'E', 0x10, 0, 0);
    note_realloc(recorder, 'B', 0x10, 0, 0);
    note_realloc(recorder, 'E', 0x10, 0x10, 5);
    note_free(recorder, 0x10);
    stop_and_expect(recorder, 0, "a 0 1 0 0\nr 0 1 5 0\nf 1 0 0\n");
}

TEST(test_realloc_of_an_unknown_block)
{
    weir_recorder *recorder = create(0);
    note_realloc(recorder, 0, 0x10, 0x20, 2);
    note_realloc(recorder, 'B', 0x30, 0, 0);
    note_realloc(recorder, 'E', 0x30, 0x40, 4);
    note_free(recorder, 0x40);
    note_free(recorder, 0x20);
    stop_and_expect(recorder, 0, "a 0 2 0 0\na 1 4 0 0\nf 1 0 0\nf 0 0 0\n");
}

/* --- losses --- */

TEST(test_full_ring)
{
    weir_recorder *recorder = create(4);
    uint64_t lost = 0;
    for (uint64_t id = 1; id <= 6; id++) {
        note_alloc(recorder, id, id);
    }
    assert_int_equal(weir_recorder_drain(recorder, &lost), WEIR_OK);
    assert_int_equal(lost, 2);
    note_free(recorder, 6); /* the trace does not know it */
    note_free(recorder, 1);
    assert_int_equal(weir_recorder_stop(recorder, &lost), WEIR_OK);
    assert_int_equal(lost, 3);
    assert_events("a 0 1 0 0\na 1 2 0 0\na 2 3 0 0\na 3 4 0 0\nf 0 0 0\n");
    assert_non_null(strstr(out.text, "\n#note lost 3 events\n"));
}

static bool refuse(void *ctx, const char *text, size_t length)
{
    (void)ctx, (void)text, (void)length;
    return false;
}

TEST(test_sink_that_refuses)
{
    weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
    weir_recorder *recorder = NULL;
    uint64_t lost = 0;
    config.sink = refuse;
    assert_int_equal(weir_recorder_create(&config, &recorder), WEIR_OK);
    note_alloc(recorder, 1, 1);
    assert_int_equal(weir_recorder_drain(recorder, &lost), WEIR_ERR_DEVICE);
    assert_int_equal(lost, 1);
    note_free(recorder, 1);
    assert_int_equal(weir_recorder_stop(recorder, &lost), WEIR_ERR_DEVICE);
    assert_int_equal(lost, 2);
}

TEST(test_bad_arguments)
{
    weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
    weir_recorder *recorder = NULL;
    assert_int_equal(weir_recorder_create(&config, &recorder), WEIR_ERR_INVALID);
    assert_int_equal(weir_recorder_create(NULL, &recorder), WEIR_ERR_INVALID);
    config.sink = refuse;
    assert_int_equal(weir_recorder_create(&config, NULL), WEIR_ERR_INVALID);
    assert_null(recorder);
}

/* --- threads and processes --- */

enum { threads = 4, rounds = 20000, names = 16 };

struct shared {
    weir_recorder *recorder;
    /* thread that owns the name, 0: the name is free; a name belongs to one thread at a time, like an address */
    atomic_int owner[names];
    atomic_bool done;
};

/* Takes names, gives them back, and lets reallocs release the old name half-way, as an allocator does. */
static void *feed(void *ctx)
{
    struct shared *const all = ctx;
    uint64_t held = 0; /* no name */
    for (int round = 0; round < rounds; round++) {
        const uint64_t id = (uint64_t)(round * 7) % (names - 1) + 1;
        int nobody = 0;
        if (held == id || !atomic_compare_exchange_strong(&all->owner[id], &nobody, 1)) {
            continue;
        }
        if (held == 0) {
            note_alloc(all->recorder, id, id);
            held = id;
        } else if (round % 3 == 0) {
            note_realloc(all->recorder, 'B', held, 0, 0);
            atomic_store(&all->owner[held], 0);
            note_realloc(all->recorder, 'E', held, id, id);
            held = id;
        } else {
            atomic_store(&all->owner[id], 0);
            note_free(all->recorder, held);
            atomic_store(&all->owner[held], 0);
            held = 0;
        }
    }
    if (held != 0) {
        note_free(all->recorder, held);
        atomic_store(&all->owner[held], 0);
    }
    return NULL;
}

static void *keep_draining(void *ctx)
{
    struct shared *const all = ctx;
    while (!atomic_load(&all->done)) {
        assert_int_equal(weir_recorder_drain(all->recorder, NULL), WEIR_OK);
    }
    return NULL;
}

/* Checks that each block number is allocated once and freed once, no event was lost, and no free was invented. */
static void check_lives(void)
{
    unsigned long long next = 0;
    long live = 0;
    const char *const end = out.text + out.length;
    const char *next_line = NULL;
    for (const char *line = out.text; line < end; line = next_line) {
        unsigned long long first = 0;
        unsigned long long second = 0;
        char stream = 0;
        char short_line[64]; /* a copy of one line, because sscanf measures the whole text that it is given */
        next_line = (const char *)memchr(line, '\n', (size_t)(end - line)) + 1;
        (void)snprintf(short_line, sizeof(short_line), "%.*s", (int)(next_line - line), line);
        if (*line == 'a') {
            assert_int_equal(sscanf(short_line, "a %*u %llu", &first), 1);
            assert_true(first == next);
            next++;
            live++;
        } else if (*line == 'r') {
            assert_int_equal(sscanf(short_line, "r %*u %llu %llu", &first, &second), 2);
            assert_true(second == next && first < next);
            next++;
        } else if (*line == 'f') {
            assert_int_equal(sscanf(short_line, "f %*u %llu %c", &first, &stream), 2);
            assert_true(first < next && stream == '0');
            live--;
        }
    }
    assert_int_equal(live, 0);
    assert_true(next > rounds / 10);
}

TEST(test_threads)
{
    struct shared all = {.recorder = create(1u << 17)};
    pthread_t feeders[threads];
    pthread_t drainer;
    uint64_t lost = 1;
    assert_int_equal(pthread_create(&drainer, NULL, keep_draining, &all), 0);
    for (int i = 0; i < threads; i++) {
        assert_int_equal(pthread_create(&feeders[i], NULL, feed, &all), 0);
    }
    for (int i = 0; i < threads; i++) {
        assert_int_equal(pthread_join(feeders[i], NULL), 0);
    }
    atomic_store(&all.done, true);
    assert_int_equal(pthread_join(drainer, NULL), 0);
    assert_int_equal(weir_recorder_stop(all.recorder, &lost), WEIR_OK);
    assert_int_equal(lost, 0);
    check_lives();
}

/* The recorder does not record the child's events, and the child can release it. */
TEST(test_fork)
{
    weir_recorder *recorder = create(0);
    int status = 0;
    note_alloc(recorder, 1, 1);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        note_alloc(recorder, 2, 2);
        const bool refused = weir_recorder_drain(recorder, NULL) == WEIR_ERR_UNSUPPORTED;
        const bool ended = weir_recorder_stop(recorder, NULL) == WEIR_OK;
        _exit(refused && ended && out.length == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    note_free(recorder, 1);
    stop_and_expect(recorder, 0, "a 0 1 0 0\nf 0 0 0\n");
}
