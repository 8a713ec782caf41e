/* threads_test.c: threads that execute on streams of one pool, attach, detach, create and destroy at the same time.
 *
 * Each thread owns its streams, as ACL requires; all threads share the pool and the registry. The auditor checks the
 * memory that the fills touch, and the thread sanitizer all other memory. WEIR_ROUNDS makes the test longer.
 */
#include "acl_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define THREADS 4

struct shared {
    struct world w;
    int rounds;
    atomic_int failures;
};

struct worker {
    struct shared *shared;
    unsigned seed;
};

/* cmocka's assertions work only on cmocka's own thread. */
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                      \
            (void)atomic_fetch_add(&worker->shared->failures, 1);                                                      \
        }                                                                                                              \
    } while (0)

static unsigned roll(struct worker *worker, unsigned sides)
{
    worker->seed = worker->seed * 1664525u + 1013904223u;
    return (worker->seed >> 16) % sides;
}

/* Holds a few blocks at a time, of sizes that the front cache holds and of other sizes. Fills each block and frees the
 * oldest first. */
static void execute(struct worker *worker, aclrtStream stream, int count)
{
    struct registration r = {0};
    void *held[4] = {NULL, NULL, NULL, NULL};
    EXPECT(read_registration(stream, &r));
    for (int i = 0; i < count && r.alloc != NULL; i++) {
        const size_t size = roll(worker, 3) == 0 ? (1 + roll(worker, 60)) << 16 : 4096;
        void **place = &held[i % 4];
        if (*place != NULL) {
            r.free(r.object, *place);
        }
        *place = roll(worker, 2) == 0 ? r.alloc(r.object, size) : r.advise(r.object, size, &held);
        EXPECT(*place != NULL);
        if (*place != NULL) {
            EXPECT(aclrtMemsetAsync(r.address(*place), size, i, size, stream) == ACL_SUCCESS);
        }
    }
    for (int i = 0; i < 4; i++) {
        if (held[i] != NULL) {
            r.free(r.object, held[i]);
        }
    }
}

static void wait_for_each_other(struct worker *worker, aclrtStream first, aclrtStream second)
{
    aclrtEvent event = NULL;
    weir_pool *pool = worker->shared->w.pool;
    EXPECT(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC) == ACL_SUCCESS);
    EXPECT(weir_acl_record_event(pool, event, first) == WEIR_OK);
    EXPECT(weir_acl_wait_event(pool, second, event) == WEIR_OK);
    EXPECT(weir_acl_destroy_event(pool, event) == WEIR_OK);
}

static void one_round(struct worker *worker)
{
    weir_pool *pool = worker->shared->w.pool;
    aclrtStream stream[2] = {NULL, NULL};
    weir_acl_attachment *attachment[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        EXPECT(aclrtCreateStream(&stream[i]) == ACL_SUCCESS);
        EXPECT(weir_acl_attach(pool, stream[i], &attachment[i]) == WEIR_OK);
    }
    execute(worker, stream[0], 20);
    wait_for_each_other(worker, stream[0], stream[1]);
    execute(worker, stream[1], 20);
    if (roll(worker, 4) == 0) {
        uint64_t released = 0;
        EXPECT(weir_pool_trim(pool, 0, 0, &released) == WEIR_OK);
    }
    for (int i = 0; i < 2; i++) {
        if (roll(worker, 2) == 0) {
            EXPECT(weir_acl_detach(attachment[i]) == WEIR_OK);
            EXPECT(aclrtDestroyStream(stream[i]) == ACL_SUCCESS);
        } else {
            EXPECT(aclrtDestroyStream(stream[i]) == ACL_SUCCESS);
            EXPECT(weir_acl_detach(attachment[i]) == WEIR_OK);
        }
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    EXPECT(aclrtSetDevice(0) == ACL_SUCCESS);
    for (int round = 0; round < worker->shared->rounds; round++) {
        one_round(worker);
    }
    EXPECT(aclrtResetDevice(0) == ACL_SUCCESS);
    return NULL;
}

TEST(test_streams_come_and_go)
{
    const char *rounds = getenv("WEIR_ROUNDS");
    struct shared shared = {.w = make_world(), .rounds = rounds != NULL ? atoi(rounds) : 40};
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.shared = &shared, .seed = 17 + i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&shared.failures), 0);
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(weir_pool_get_stats(shared.w.pool, &stats));
    assert_int_equal(stats.allocs, stats.frees);
    assert_true(stats.streams <= 2 * THREADS);
    end_world(&shared.w);
}

/* --- one stream, fed by one thread and freed by another --- */

struct mail {
    struct worker worker;
    struct registration r;
    _Atomic(void *) slots[8];
    atomic_bool over;
};

static void *free_all(void *argument)
{
    struct mail *mail = argument;
    for (bool last = false, any = true; !last || any;) {
        last = atomic_load(&mail->over);
        any = false;
        for (int i = 0; i < 8; i++) {
            void *block = atomic_exchange(&mail->slots[i], NULL);
            if (block != NULL) {
                mail->r.free(mail->r.object, block);
                any = true;
            }
        }
    }
    return NULL;
}

TEST(test_frees_from_another_thread)
{
    struct shared shared = {.w = make_world()};
    struct mail mail = {.worker = {.shared = &shared, .seed = 5}};
    weir_acl_attachment *attachment = attach(shared.w.pool, shared.w.stream[0]);
    mail.r = registration_of(shared.w.stream[0]);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, free_all, &mail), 0);
    for (int i = 0; i < 3000; i++) {
        const size_t size = (1 + roll(&mail.worker, 40)) << 14;
        void *block = mail.r.alloc(mail.r.object, size);
        assert_non_null(block);
        if (i % 16 == 0) {
            acl_ok(aclrtMemsetAsync(mail.r.address(block), size, 1, size, shared.w.stream[0]));
        }
        while (block != NULL) {
            block = atomic_exchange(&mail.slots[i % 8], block); /* the old block goes to the other thread */
            i += block != NULL;
        }
    }
    atomic_store(&mail.over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (int i = 0; i < 8; i++) {
        if (mail.slots[i] != NULL) {
            mail.r.free(mail.r.object, mail.slots[i]);
        }
    }
    ok(weir_acl_detach(attachment));
    end_world(&shared.w);
}

/* --- detach against an executor that does not stop --- */

struct race {
    struct registration r;
    atomic_bool stop;
    atomic_uint got;
};

static void *keep_executing(void *argument)
{
    struct race *race = argument;
    while (!atomic_load(&race->stop)) {
        void *block = race->r.alloc(race->r.object, 4096);
        if (block != NULL) {
            (void)atomic_fetch_add(&race->got, 1);
            race->r.free(race->r.object, block);
        }
    }
    return NULL;
}

/* A program must not detach while another thread executes on the stream. If it does, the calls end with BUSY or NULL,
 * and no call uses memory of a destroyed pool. */
TEST(test_detach_under_an_executor)
{
    for (int round = 0; round < 20; round++) {
        struct world w = make_world();
        weir_acl_attachment *attachment = attach(w.pool, w.stream[0]);
        struct race race = {.r = registration_of(w.stream[0])};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, keep_executing, &race), 0);
        while (atomic_load(&race.got) < 10) {
        }
        weir_status status = WEIR_ERR_BUSY;
        while (status == WEIR_ERR_BUSY) {
            status = weir_acl_detach(attachment);
        }
        assert_int_equal(status, WEIR_OK);
        end_world(&w); /* the executor still calls */
        atomic_store(&race.stop, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}
