/* tests/pool/unit/record_test.c: the recorder as an observer of a fake pool.
 *
 * The test calls the recorder's functions directly, as a pool would, and checks the lines with simple comparisons. This
 * file defines the functions that a pool provides.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#endif

#include "rig/test.h"
#include "fake_device.h"

#include <weir/budget.h>
#include <weir/observer.h>
#include <weir/trace.h>

#include <inttypes.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

/* --- the pretended pool --- */

struct live_block {
    uint64_t size;
    uint32_t stream;
    uint64_t address;
};

struct weir_pool {
    weir_recorder *recorder; /* the only observer */
    const struct live_block *live;
    size_t live_count;
};

static struct fake_device fake;
static weir_device *device;    /* device of all pools */
static weir_observer_ops tell; /* table of all recorders */

weir_device *weir_pool_device(const weir_pool *pool)
{
    (void)pool;
    return device;
}

const char *weir_pool_tag_name(const weir_pool *pool, weir_tag tag)
{
    (void)pool;
    return tag == 7 ? "kv cache" : "weights";
}

weir_status weir_pool_observe(weir_pool *pool, const weir_observer_ops *ops, void *ctx)
{
    if (pool->recorder != NULL) {
        return WEIR_ERR_BUSY;
    }
    pool->recorder = ctx;
    tell = *ops;
    for (size_t i = 0; i < pool->live_count; i++) {
        const struct live_block *const block = &pool->live[i];
        const weir_observed_block known = {.struct_size = sizeof(known),
                                           .address = block->address,
                                           .size = block->size,
                                           .stream = block->stream,
                                           .listed = true};
        ops->block_alloc(ctx, &known);
    }
    return WEIR_OK;
}

weir_status weir_pool_unobserve(weir_pool *pool, void *ctx)
{
    assert_ptr_equal(ctx, pool->recorder);
    pool->recorder = NULL;
    return WEIR_OK;
}

static weir_pool pool_new(void)
{
    return (weir_pool){.live_count = 0};
}

static int make_device(void **state)
{
    (void)state;
    fake_init(&fake);
    fake.info.capacity_bytes = 1u << 30;
    fake.info.region_granularity_bytes = 4096;
    (void)snprintf(fake.info.name, sizeof(fake.info.name), "%s", "fake \"device\"\n");
    return weir_device_create(&fake.ops, &fake, &device) == WEIR_OK ? 0 : -1;
}

static int end_device(void **state)
{
    (void)state;
    return weir_device_destroy(device) == WEIR_OK ? 0 : -1;
}

/* The next functions tell the recorder of the block at an address. Streams count from 1; a free with stream 0 is the
 * free of a block without queued work. */
static void tell_alloc(weir_recorder *recorder, uint64_t address, uint64_t size, uint64_t align, uint32_t stream,
                       weir_tag tag)
{
    const weir_observed_block block = {
        .struct_size = sizeof(block), .address = address, .size = size, .stream = stream, .tag = tag, .align = align};
    tell.block_alloc(recorder, &block);
}

static void tell_free(weir_recorder *recorder, uint64_t address, uint32_t stream)
{
    const weir_observed_block block = {.struct_size = sizeof(block), .address = address, .stream = stream};
    tell.block_free(recorder, &block);
}

static void tell_use(weir_recorder *recorder, uint64_t address, uint32_t stream)
{
    const weir_observed_block block = {.struct_size = sizeof(block), .address = address, .stream = stream};
    tell.block_use(recorder, &block);
}

static void tell_event(weir_recorder *recorder, weir_observed_kind kind, const void *event, uint32_t stream)
{
    const weir_observed_event told = {.struct_size = sizeof(told), .kind = kind, .event = event, .stream = stream};
    tell.event(recorder, &told);
}

/* --- the text that comes out --- */

struct output {
    char *text;
    size_t length;
    size_t calls;
    size_t refuse_after; /* calls that still succeed; SIZE_MAX: all */
};

static bool take_text(void *ctx, const char *text, size_t length)
{
    struct output *const out = ctx;
    if (out->calls++ >= out->refuse_after) {
        return false;
    }
    char *const longer = realloc(out->text, out->length + length + 1);
    if (longer == NULL) {
        return false;
    }
    memcpy(longer + out->length, text, length);
    out->text = longer;
    out->length += length;
    out->text[out->length] = '\0';
    return true;
}

static struct output output_new(void)
{
    return (struct output){.refuse_after = SIZE_MAX};
}

static weir_recorder *start(weir_pool *pool, struct output *out, uint32_t ring_events)
{
    weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
    config.sink = take_text;
    config.sink_ctx = out;
    config.ring_events = ring_events;
    weir_recorder *recorder = NULL;
    assert_int_equal(weir_recorder_start(pool, &config, &recorder), WEIR_OK);
    assert_non_null(recorder);
    return recorder;
}

static void drain(weir_recorder *recorder, uint64_t expected_lost)
{
    uint64_t lost = UINT64_MAX;
    assert_int_equal(weir_recorder_drain(recorder, &lost), WEIR_OK);
    assert_int_equal(lost, expected_lost);
}

static uint64_t stop(weir_recorder *recorder)
{
    uint64_t lost = UINT64_MAX;
    assert_int_equal(weir_recorder_stop(recorder, &lost), WEIR_OK);
    return lost;
}

static size_t count_text(const struct output *out, const char *what)
{
    size_t count = 0;
    for (const char *at = strstr(out->text, what); at != NULL; at = strstr(at + 1, what)) {
        count++;
    }
    return count;
}

/* The body without its times, which differ from run to run: "a 5 1 ..." becomes "a 1 ...". Lines p and @ have none. */
static void strip_times(const struct output *out, char *body, size_t size)
{
    size_t length = 0;
    for (const char *line = out->text; *line != '\0'; line = strchr(line, '\n') + 1) {
        const char *const end = strchr(line, '\n') + 1;
        const char *from = line;
        if (*line == '#') {
            continue;
        }
        if (*line != 'p' && *line != '@') {
            body[length++] = *line;
            from = line + 2 + strspn(line + 2, "0123456789");
        }
        assert_true(length + (size_t)(end - from) < size);
        memcpy(body + length, from, (size_t)(end - from));
        length += (size_t)(end - from);
    }
    body[length] = '\0';
}

static void assert_body(const struct output *out, const char *expected)
{
    char body[4096];
    strip_times(out, body, sizeof(body));
    assert_string_equal(body, expected);
}

/* --- one thread --- */

TEST(test_header_comes_first)
{
    weir_pool pool = pool_new();
    struct output out = output_new();
    weir_recorder *const recorder = start(&pool, &out, 0);
    assert_int_equal(out.calls, 0); /* the sink gets nothing before a drain */
    drain(recorder, 0);
    assert_int_equal(stop(recorder), 0);
    assert_string_equal(out.text, "#wtr 1\n#src weir pool\n#clock ns\n"
                                  "#dev 0 cap=1073741824 gran=4096 name=\"fake ?device??\"\n");
    assert_null(pool.recorder);
    free(out.text);
}

TEST(test_source_stays_on_its_line)
{
    weir_pool pool = pool_new();
    struct output out = output_new();
    weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
    config.sink = take_text;
    config.sink_ctx = &out;
    char source[2000];
    memset(source, 's', sizeof(source));
    memcpy(source, "run 7\na 0 1", 11);
    source[sizeof(source) - 1] = '\0';
    config.source = source;
    weir_recorder *recorder = NULL;
    assert_int_equal(weir_recorder_start(&pool, &config, &recorder), WEIR_OK);
    source[0] = 'x'; /* copied at the start */
    assert_int_equal(stop(recorder), 0);
    assert_int_equal(count_text(&out, "\n#src run 7?a 0 1sss"), 1);
    assert_int_equal(count_text(&out, "s\n#clock ns\n"), 1);
    free(out.text);
}

TEST(test_every_kind_of_line)
{
    weir_pool pool = pool_new();
    struct output out = output_new();
    weir_recorder *const recorder = start(&pool, &out, 0);
    int vendor_event = 0;
    tell_alloc(recorder, 0x5000, 4096, 0, 18, 0);
    tell_alloc(recorder, 0x7000, 77, 64, 10, 0);
    tell_use(recorder, 0x5000, 10);
    tell_event(recorder, WEIR_OBSERVED_RECORDED, &pool, 18);
    tell_event(recorder, WEIR_OBSERVED_WAITED, &pool, 10);
    tell_event(recorder, WEIR_OBSERVED_RECORDED, &vendor_event, 10);
    tell_event(recorder, WEIR_OBSERVED_SYNCED, &vendor_event, 0);
    tell_event(recorder, WEIR_OBSERVED_SYNCED, NULL, 10);
    tell_event(recorder, WEIR_OBSERVED_SYNCED, NULL, 0);
    tell_free(recorder, 0x5000, 18);
    tell_free(recorder, 0x7000, 0);
    tell.trim(recorder);
    assert_int_equal(stop(recorder), 0);
    /* Blocks, streams, events and threads are numbered as they appear. */
    assert_body(&out, "a 0 4096 0 0 addr=0x5000\n"
                      "a 1 77 1 0 al=64 addr=0x7000\n"
                      "u 0 1\n"
                      "e 0 0\n"
                      "x 0 1\n"
                      "e 1 1\n"
                      "y e1\n"
                      "y 1\n"
                      "y *\n"
                      "f 0 0 0\n"
                      "f 1 - 0\n"
                      "c\n");
    free(out.text);
}

/* Tags are numbered as they appear too. The line that names a tag precedes the first line that uses it. */
TEST(test_tags_are_named_once)
{
    weir_pool pool = pool_new();
    struct output out = output_new();
    weir_recorder *const recorder = start(&pool, &out, 0);
    tell_alloc(recorder, 1, 512, 0, 1, 0);
    tell_alloc(recorder, 2, 512, 0, 1, 9);
    tell_alloc(recorder, 3, 512, 0, 1, 7);
    tell_alloc(recorder, 4, 512, 0, 1, 9);
    assert_int_equal(stop(recorder), 0);
    assert_body(&out, "a 0 512 0 0 addr=0x1\n"
                      "@0 weights\n"
                      "a 1 512 0 0 addr=0x2 @0\n"
                      "@1 kv cache\n"
                      "a 2 512 0 0 addr=0x3 @1\n"
                      "a 3 512 0 0 addr=0x4 @0\n");
    free(out.text);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

TEST(test_times_count_from_the_start)
{
    const uint64_t before = now_ns();
    weir_pool pool = pool_new();
    struct output out = output_new();
    weir_recorder *const recorder = start(&pool, &out, 0);
    for (uint64_t id = 1; id <= 1000; id++) {
        tell_alloc(recorder, id, 1, 0, 1, 0);
    }
    const uint64_t elapsed = now_ns() - before;
    assert_int_equal(stop(recorder), 0);
    uint64_t last = 0;
    uint64_t lines = 0;
    for (const char *line = out.text; *line != '\0'; line = strchr(line, '\n') + 1) {
        uint64_t time = 0;
        if (sscanf(line, "a %" SCNu64, &time) == 1) {
            assert_true(time >= last);
            last = time;
            lines++;
        }
    }
    assert_int_equal(lines, 1000);
    assert_true(last > 0);
    assert_true(last <= elapsed);
    free(out.text);
}

TEST(test_prior_blocks_in_address_order)
{
    static const struct live_block live[] = {
        {.size = 30, .stream = 7, .address = 0x3000},
        {.size = 10, .stream = 8, .address = 0x1000},
        {.size = 20, .stream = 7, .address = 0xf000000000000000},
    };
    weir_pool pool = pool_new();
    pool.live = live;
    pool.live_count = 3;
    struct output out = output_new();
    weir_recorder *const recorder = start(&pool, &out, 0);
    tell_use(recorder, 0xf000000000000000, 8);
    tell_free(recorder, 0x3000, 7);
    assert_int_equal(stop(recorder), 0);
    assert_body(&out, "p 0 10 0 0x1000\n"
                      "p 1 30 1 0x3000\n"
                      "p 2 20 1 0xf000000000000000\n"
                      "u 2 0\n"
                      "f 1 1 0\n");
    free(out.text);
}

TEST(test_many_prior_blocks)
{
    enum { COUNT = 5000 };
    struct live_block *const live = calloc(COUNT, sizeof(*live));
    assert_non_null(live);
    for (uint64_t i = 0; i < COUNT; i++) {
        live[i] = (struct live_block){.size = 1, .stream = 1, .address = (COUNT - i) * 16};
    }
    weir_pool pool = pool_new();
    pool.live = live;
    pool.live_count = COUNT;
    struct output out = output_new();
    assert_int_equal(stop(start(&pool, &out, 0)), 0);
    assert_int_equal(count_text(&out, "\np "), COUNT);
    assert_true(out.calls > 1); /* more text than one piece holds */
    free(out.text);
    /* A sink that refuses the first piece does not get the later pieces. */
    out = (struct output){.refuse_after = 0};
    assert_int_equal(weir_recorder_stop(start(&pool, &out, 0), NULL), WEIR_ERR_DEVICE);
    assert_int_equal(out.calls, 1);
    free(live);
}

/* An address names one block after another. If a free is lost, the next block at the address ends the one before. */
TEST(test_each_life_at_an_address_has_a_number)
{
    weir_pool pool = pool_new();
    struct output out = output_new();
    weir_recorder *const recorder = start(&pool, &out, 4);
    tell_alloc(recorder, 0x1000, 1, 0, 1, 0);
    tell_free(recorder, 0x1000, 1);
    tell_alloc(recorder, 0x1000, 2, 0, 1, 0);
    tell_use(recorder, 0x1000, 2);
    tell_free(recorder, 0x1000, 1); /* finds its ring full */
    drain(recorder, 1);
    tell_alloc(recorder, 0x1000, 3, 0, 1, 0);
    assert_int_equal(stop(recorder), 1);
    assert_body(&out, "a 0 1 0 0 addr=0x1000\n"
                      "f 0 0 0\n"
                      "a 1 2 0 0 addr=0x1000\n"
                      "u 1 1\n"
                      "f 1 - 0\n"
                      "a 2 3 0 0 addr=0x1000\n");
    free(out.text);
}

/* --- losses --- */

TEST(test_full_ring_drops_and_counts)
{
    weir_pool pool = pool_new();
    struct output out = output_new();
    weir_recorder *const recorder = start(&pool, &out, 3); /* rounded up to 4 */
    for (uint64_t id = 1; id <= 6; id++) {
        tell_alloc(recorder, id, id, 0, 1, 0);
    }
    drain(recorder, 2);
    /* the allocs of blocks 5 and 6 were lost, so later events of these blocks are left out too */
    tell_use(recorder, 6, 2);
    tell_free(recorder, 5, 1);
    tell_free(recorder, 1, 1);
    drain(recorder, 4);
    tell_free(recorder, 1, 1); /* twice */
    assert_int_equal(stop(recorder), 5);
    assert_body(&out, "a 0 1 0 0 addr=0x1\n"
                      "a 1 2 0 0 addr=0x2\n"
                      "a 2 3 0 0 addr=0x3\n"
                      "a 3 4 0 0 addr=0x4\n"
                      "f 0 0 0\n");
    assert_int_equal(count_text(&out, "#note lost 5 events\n"), 1);
    assert_string_equal(out.text + out.length - 20, "#note lost 5 events\n");
    free(out.text);
}

TEST(test_ring_is_used_again_and_again)
{
    weir_pool pool = pool_new();
    struct output out = output_new();
    weir_recorder *const recorder = start(&pool, &out, 4);
    for (uint64_t id = 1; id <= 999; id += 3) {
        for (uint64_t i = id; i < id + 3; i++) {
            tell_alloc(recorder, i, 1, 0, 1, 0);
        }
        drain(recorder, 0);
    }
    assert_int_equal(stop(recorder), 0);
    assert_int_equal(count_text(&out, "\na "), 999);
    assert_int_equal(count_text(&out, "#wtr"), 1);
    free(out.text);
}

TEST(test_sink_that_fails)
{
    weir_pool pool = pool_new();
    struct output out = output_new();
    out.refuse_after = 1;
    weir_recorder *const recorder = start(&pool, &out, 0);
    tell_alloc(recorder, 1, 1, 0, 1, 0);
    drain(recorder, 0);
    tell_alloc(recorder, 2, 1, 0, 1, 0);
    tell_alloc(recorder, 3, 1, 0, 1, 0);
    uint64_t lost = 0;
    assert_int_equal(weir_recorder_drain(recorder, &lost), WEIR_ERR_DEVICE);
    assert_int_equal(lost, 2); /* the two events were in the text that the sink refused */
    const size_t calls = out.calls;
    tell_free(recorder, 1, 1);
    assert_int_equal(weir_recorder_drain(recorder, &lost), WEIR_ERR_DEVICE);
    assert_int_equal(lost, 3);
    tell_free(recorder, 2, 1);
    assert_int_equal(weir_recorder_stop(recorder, &lost), WEIR_ERR_DEVICE);
    assert_int_equal(lost, 4);
    assert_int_equal(out.calls, calls); /* the sink is not called again */
    assert_null(pool.recorder);
    assert_body(&out, "a 0 1 0 0 addr=0x1\n");
    free(out.text);
}

TEST(test_bad_arguments)
{
    weir_pool pool = pool_new();
    struct output out = output_new();
    weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
    weir_recorder *recorder = NULL;
    assert_int_equal(weir_recorder_start(&pool, &config, &recorder), WEIR_ERR_INVALID);
    config.sink = take_text;
    config.sink_ctx = &out;
    assert_int_equal(weir_recorder_start(NULL, &config, &recorder), WEIR_ERR_INVALID);
    assert_int_equal(weir_recorder_start(&pool, NULL, &recorder), WEIR_ERR_INVALID);
    assert_int_equal(weir_recorder_start(&pool, &config, NULL), WEIR_ERR_INVALID);
    config.struct_size = 0;
    assert_int_equal(weir_recorder_start(&pool, &config, &recorder), WEIR_ERR_INVALID);
    config.struct_size = sizeof(config);
    assert_null(pool.recorder);
    assert_int_equal(weir_recorder_start(&pool, &config, &recorder), WEIR_OK);
    weir_recorder *second = NULL;
    assert_int_equal(weir_recorder_start(&pool, &config, &second), WEIR_ERR_BUSY);
    assert_null(second);
    assert_ptr_equal(pool.recorder, recorder);
    assert_int_equal(weir_recorder_stop(recorder, NULL), WEIR_OK);
    assert_int_equal(weir_recorder_drain(NULL, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_recorder_stop(NULL, NULL), WEIR_ERR_INVALID);
    free(out.text);
}

/* --- several threads --- */

/* Runs `work` on a thread of its own and waits for its end. */
static void on_another_thread(void *(*work)(void *), void *ctx)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, work, ctx), 0);
    pthread_join(thread, NULL);
}

struct one_event {
    weir_recorder *recorder;
    uint64_t id;
    bool free;
};

static void *record_one(void *ctx)
{
    const struct one_event *const event = ctx;
    if (event->free) {
        tell_free(event->recorder, event->id, 1);
    } else {
        tell_alloc(event->recorder, event->id, 1, 0, 1, 0);
    }
    return NULL;
}

TEST(test_order_across_threads)
{
    weir_pool pool = pool_new();
    struct output out = output_new();
    weir_recorder *const recorder = start(&pool, &out, 0);
    /* Threads pass the block on: each event is on another thread than the event before it. */
    tell_alloc(recorder, 1, 1, 0, 1, 0);
    on_another_thread(record_one, &(struct one_event){.recorder = recorder, .id = 1, .free = true});
    tell_alloc(recorder, 2, 1, 0, 1, 0);
    on_another_thread(record_one, &(struct one_event){.recorder = recorder, .id = 3});
    tell_free(recorder, 3, 1);
    on_another_thread(record_one, &(struct one_event){.recorder = recorder, .id = 2, .free = true});
    assert_int_equal(stop(recorder), 0);
    assert_body(&out, "a 0 1 0 0 addr=0x1\n"
                      "f 0 0 1\n"
                      "a 1 1 0 0 addr=0x2\n"
                      "a 2 1 0 2 addr=0x3\n"
                      "f 2 0 0\n"
                      "f 1 0 3\n");
    free(out.text);
}

/* Returns the bytes that malloc has handed out, or 0 if unknown (under a sanitizer). */
static size_t bytes_in_use(void)
{
#if defined(__GLIBC__)
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
#else
    return 0;
#endif
}

/* Rings of ended threads are drained first and freed then: many threads in turn need few rings. */
TEST(test_threads_come_and_go)
{
    weir_pool pool = pool_new();
    struct output out = output_new();
    weir_recorder *const recorder = start(&pool, &out, 1u << 16);
    enum { COUNT = 300 }; /* 300 rings of 3.5 MiB would be 1 GiB */
    const size_t before = bytes_in_use();
    for (uint64_t id = 1; id <= COUNT; id++) {
        on_another_thread(record_one, &(struct one_event){.recorder = recorder, .id = id});
        if (id % 2 == 0) {
            drain(recorder, 0);
            assert_true(bytes_in_use() < before + ((size_t)16 << 20));
        }
    }
    assert_int_equal(stop(recorder), 0);
    assert_true(bytes_in_use() < before + ((size_t)1 << 20));
    assert_int_equal(count_text(&out, "\na "), COUNT);
    free(out.text);
}

/* A thread keeps its ring of a recorder that has ended: the next recorder may lie at the same
 * address, and the thread must not write into the old ring. */
struct stepper {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    weir_recorder *recorder; /* records into this; NULL: idle */
    uint64_t id;
    bool end;
};

static void *step(void *ctx)
{
    struct stepper *const self = ctx;
    pthread_mutex_lock(&self->lock);
    while (!self->end) {
        if (self->recorder != NULL) {
            tell_alloc(self->recorder, self->id, 1, 0, 1, 0);
            self->recorder = NULL;
            pthread_cond_broadcast(&self->changed);
        }
        pthread_cond_wait(&self->changed, &self->lock);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

static void make_step(struct stepper *self, weir_recorder *recorder, uint64_t id)
{
    pthread_mutex_lock(&self->lock);
    self->recorder = recorder;
    self->id = id;
    pthread_cond_broadcast(&self->changed);
    while (self->recorder != NULL) {
        pthread_cond_wait(&self->changed, &self->lock);
    }
    pthread_mutex_unlock(&self->lock);
}

static void stepper_start(struct stepper *self, pthread_t *thread)
{
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->changed, NULL);
    assert_int_equal(pthread_create(thread, NULL, step, self), 0);
}

static void stepper_end(struct stepper *self, pthread_t thread)
{
    pthread_mutex_lock(&self->lock);
    self->end = true;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
    pthread_join(thread, NULL);
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->lock);
}

TEST(test_recorders_come_and_go)
{
    struct stepper other = {.recorder = NULL};
    pthread_t thread;
    stepper_start(&other, &thread);
    for (uint64_t round = 0; round < 20; round++) {
        weir_pool pool = pool_new();
        struct output out = output_new();
        weir_recorder *const recorder = start(&pool, &out, 8);
        for (uint64_t i = 1; i <= 3; i++) {
            make_step(&other, recorder, i);
            tell_free(recorder, i, 1);
        }
        assert_int_equal(stop(recorder), 0);
        assert_body(&out, "a 0 1 0 0 addr=0x1\nf 0 0 1\na 1 1 0 0 addr=0x2\nf 1 0 1\na 2 1 0 0 addr=0x3\nf 2 0 1\n");
        free(out.text);
    }
    stepper_end(&other, thread);
}

/* A thread frees its rings of ended recorders when it meets the next recorder. */
TEST(test_ended_recorders_leave_nothing_behind)
{
    weir_pool pool = pool_new();
    struct output out = {.refuse_after = 0};
    size_t before = 0;
    for (uint64_t round = 0; round < 3000; round++) {
        weir_recorder *const recorder = start(&pool, &out, 1);
        tell_alloc(recorder, 1, 1, 0, 1, 0);
        assert_int_equal(weir_recorder_stop(recorder, NULL), WEIR_ERR_DEVICE);
        before = round == 10 ? bytes_in_use() : before;
    }
    assert_true(bytes_in_use() < before + 100000);
}

TEST(test_two_pools_at_once)
{
    struct stepper other = {.recorder = NULL};
    pthread_t thread;
    stepper_start(&other, &thread);
    weir_pool pools[2] = {pool_new(), pool_new()};
    struct output outs[2] = {output_new(), output_new()};
    weir_recorder *recorders[2];
    for (int i = 0; i < 2; i++) {
        recorders[i] = start(&pools[i], &outs[i], 64);
    }
    for (uint64_t id = 1; id <= 20; id++) {
        tell_alloc(recorders[id % 2], id, 1, 0, 1, 0);
        make_step(&other, recorders[(id + 1) % 2], 100 + id);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stop(recorders[i]), 0);
        assert_int_equal(count_text(&outs[i], "\na "), 20);
    }
    for (uint64_t id = 1; id <= 20; id++) {
        char line[32];
        snprintf(line, sizeof(line), " addr=0x%" PRIx64 "\n", id);
        assert_int_equal(count_text(&outs[id % 2], line), 1);
        snprintf(line, sizeof(line), " addr=0x%" PRIx64 "\n", 100 + id);
        assert_int_equal(count_text(&outs[(id + 1) % 2], line), 1);
    }
    free(outs[0].text);
    free(outs[1].text);
    stepper_end(&other, thread);
}

/* Threads pass blocks on through a shared table while the main thread drains: in the trace every block begins before it
 * is used and ends after, for every interleaving of the threads. */
enum { WORKERS = 4, SLOTS = 64, STEPS = 20000 };

struct crowd {
    weir_recorder *recorder;
    _Atomic uint64_t slots[SLOTS]; /* id of a block that any thread may take and free; 0: none */
    _Atomic uint64_t next_id;
    atomic_int working;
};

static void *work_in_crowd(void *ctx)
{
    struct crowd *const self = ctx;
    uint32_t seed = (uint32_t)atomic_load(&self->next_id) * 2654435761u + 1;
    for (int i = 0; i < STEPS; i++) {
        seed = seed * 1664525u + 1013904223u;
        const uint64_t fresh = atomic_fetch_add(&self->next_id, 1) + 1;
        tell_alloc(self->recorder, fresh, 1, 0, 1, 0);
        tell_use(self->recorder, fresh, 2);
        const uint64_t old = atomic_exchange(&self->slots[(seed >> 16) % SLOTS], fresh);
        if (old != 0) {
            tell_free(self->recorder, old, 1);
        }
    }
    atomic_fetch_sub(&self->working, 1);
    return NULL;
}

/* Reads the lines and returns the number of events. */
static uint64_t assert_consistent(const struct output *out, uint64_t ids)
{
    char *const live = calloc(ids, 1); /* 0 not seen, 1 live, 2 freed */
    assert_non_null(live);
    uint64_t last_time = 0;
    uint64_t events = 0;
    /* No call in this function may measure the rest of the text. The text is long, and strict string checks would
     * measure it at each call. */
    const char *const end = out->text + strlen(out->text);
    const char *next = NULL;
    for (const char *line = out->text; line < end; line = next) {
        uint64_t time = 0;
        uint64_t id = 0;
        char kind = 0;
        const char *const stop = memchr(line, '\n', (size_t)(end - line));
        assert_non_null(stop);
        next = stop + 1;
        if (*line == '#') {
            continue;
        }
        char copy[128];
        const size_t length = (size_t)(stop - line);
        assert_true(length < sizeof(copy));
        memcpy(copy, line, length);
        copy[length] = '\0';
        assert_int_equal(sscanf(copy, "%c %" SCNu64 " %" SCNu64, &kind, &time, &id), 3);
        assert_in_range(id, 0, ids - 1);
        assert_int_equal(live[id], kind == 'a' ? 0 : 1);
        assert_true(time >= last_time);
        live[id] = kind == 'f' ? 2 : 1;
        last_time = time;
        events++;
    }
    free(live);
    return events;
}

static void run_crowd(uint32_t ring_events, bool may_lose)
{
    weir_pool pool = pool_new();
    struct output out = output_new();
    struct crowd all = {.recorder = start(&pool, &out, ring_events), .working = WORKERS};
    pthread_t threads[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work_in_crowd, &all), 0);
    }
    uint64_t lost = 0;
    while (atomic_load(&all.working) != 0) {
        assert_int_equal(weir_recorder_drain(all.recorder, &lost), WEIR_OK);
        sched_yield();
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
    }
    lost = stop(all.recorder);
    uint64_t left = 0;
    for (int i = 0; i < SLOTS; i++) {
        left += atomic_load(&all.slots[i]) != 0;
    }
    const uint64_t recorded = (uint64_t)WORKERS * STEPS * 3 - left;
    assert_int_equal(assert_consistent(&out, (uint64_t)WORKERS * STEPS), recorded - lost);
    if (may_lose) {
        assert_true(lost > 0);
    } else {
        assert_int_equal(lost, 0);
    }
    free(out.text);
}

TEST(test_crowd_without_losses)
{
    run_crowd(1u << 16, false);
}

TEST(test_crowd_with_losses)
{
    run_crowd(16, true);
}

ALL_TESTS(make_device, end_device)
