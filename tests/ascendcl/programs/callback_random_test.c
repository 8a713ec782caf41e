/* callback_random_test.c: random programs of kernels, callbacks and host functions, with threads that run them.
 *
 * Each stream has a position: the number of the last kernel that has run on it. A blocking callback that was launched
 * between two kernels must run at the position of the first, before the second; a callback that does not block, at that
 * position or later. Callbacks of one family and stream start in order, and none runs twice. After its stream was
 * synchronised and its thread had time to run, each callback has run once, unless its stream was aborted, destroyed or
 * left by its thread before.
 */
#include "rig/acl.h"

#include <weir/ascendcl.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { STREAMS = 4, WORKERS = 3, SEEDS = 40, STEPS = 400, MOST = SEEDS * STEPS, REPORT = 0, HOST_FUNC = 1 };

struct callback {
    struct stream *stream;
    uint64_t life; /* generation of the stream */
    int number;
    int family;
    int position; /* the stream's position at the launch */
    bool blocks;
    bool may_be_lost;
    atomic_int runs;
};

struct stream {
    aclrtStream handle;
    uint64_t life; /* number of the stream's life; a call that may drop earlier callbacks begins a new life */
    int worker;    /* the subscribed thread; -1: none */
    int host_worker;
    bool is_runtimes; /* the runtime's own thread has run host functions of this stream */
    int kernels;
    pthread_mutex_t lock;
    int position;
    uint64_t last_life[2];
    int last_number[2];
};

static struct stream streams[STREAMS];
static struct callback callbacks[MOST];
static size_t callback_count;
static size_t kernel_count;
static uint64_t state;
static unsigned long long seed;

#define check(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "seed %llu, line %d: %s\n", seed, __LINE__, #condition);                             \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static uint32_t below(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % n;
}

static void pause_ms(int ms)
{
    const struct timespec time = {.tv_nsec = (long)ms * 1000000};
    (void)nanosleep(&time, NULL);
}

/* --- kernels and callbacks --- */

struct kernel {
    struct stream *stream;
    int number;
};

static struct kernel kernels[SEEDS * STEPS];

static aclError run_kernel(void *ctx)
{
    const struct kernel *k = ctx;
    (void)pthread_mutex_lock(&k->stream->lock);
    check(k->stream->position < k->number);
    k->stream->position = k->number;
    (void)pthread_mutex_unlock(&k->stream->lock);
    return ACL_SUCCESS;
}

static void run_callback(void *ctx)
{
    struct callback *c = ctx;
    struct stream *s = c->stream;
    (void)pthread_mutex_lock(&s->lock);
    check(atomic_fetch_add(&c->runs, 1) == 0);
    if (c->life == s->last_life[c->family]) {
        check(c->number > s->last_number[c->family]);
    }
    s->last_life[c->family] = c->life;
    s->last_number[c->family] = c->number;
    if (!c->may_be_lost) {
        check(c->blocks ? s->position == c->position : s->position >= c->position);
    }
    (void)pthread_mutex_unlock(&s->lock);
}

struct worker {
    pthread_t thread;
    atomic_bool ends;
    bool is_host;
};

static struct worker workers[WORKERS];

static void *work(void *argument)
{
    struct worker *w = argument;
    while (!atomic_load(&w->ends)) {
        const aclError error = w->is_host ? aclrtProcessHostFunc(3) : aclrtProcessReport(3);
        check(error == ACL_SUCCESS || error == ACL_ERROR_RT_REPORT_TIMEOUT || error == ACL_ERROR_RT_THREAD_SUBSCRIBE);
        if (error == ACL_ERROR_RT_THREAD_SUBSCRIBE) {
            pause_ms(1);
        }
    }
    return NULL;
}

/* --- steps of the program --- */

/* Begins a new life of the stream, because the following call may drop callbacks that were launched before. Requires
 * that no callback is checking the stream. */
static void disturb(struct stream *s)
{
    (void)pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < callback_count; i++) {
        if (callbacks[i].stream == s) {
            callbacks[i].may_be_lost = true;
        }
    }
    s->life++;
    (void)pthread_mutex_unlock(&s->lock);
}

/* No earlier kernel runs from now on. */
static void forget_kernels(struct stream *s)
{
    (void)pthread_mutex_lock(&s->lock);
    s->position = s->kernels;
    (void)pthread_mutex_unlock(&s->lock);
}

static void launch_kernel(struct stream *s)
{
    struct kernel *k = &kernels[kernel_count++];
    weir_ascendcl_kernel launched = WEIR_ASCENDCL_KERNEL_INIT;
    *k = (struct kernel){s, ++s->kernels};
    launched.duration_ns = 1000 + below(100000);
    launched.compute = run_kernel;
    launched.ctx = k;
    check(weir_ascendcl_launch(s->handle, &launched) == ACL_SUCCESS);
}

static struct callback *new_callback(struct stream *s, int family, bool blocks)
{
    struct callback *c = &callbacks[callback_count];
    memset(c, 0, sizeof(*c));
    c->stream = s;
    c->life = s->life;
    c->number = (int)callback_count;
    c->family = family;
    c->position = s->kernels;
    c->blocks = blocks;
    return c;
}

static void launch_callback(struct stream *s)
{
    const bool blocks = below(2) == 0;
    struct callback *c = new_callback(s, REPORT, blocks);
    const aclError error =
        aclrtLaunchCallback(run_callback, c, blocks ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK, s->handle);
    if (s->worker >= 0) {
        check(error == ACL_SUCCESS);
        callback_count++;
    } else {
        check(error == (s->is_runtimes ? ACL_ERROR_RT_STREAM_SUBSCRIBE : ACL_ERROR_RT_STREAM_NO_CB_REG));
    }
}

static void launch_host_func(struct stream *s)
{
    struct callback *c = new_callback(s, HOST_FUNC, true);
    const aclError error = aclrtLaunchHostFunc(s->handle, run_callback, c);
    if (s->worker >= 0 && s->host_worker < 0) {
        check(error == ACL_ERROR_RT_STREAM_SUBSCRIBE);
        return;
    }
    check(error == ACL_SUCCESS);
    s->is_runtimes = s->is_runtimes || s->host_worker < 0;
    callback_count++;
}

static void subscribe(struct stream *s)
{
    const int chosen = (int)below(WORKERS - 1);
    const aclError error = aclrtSubscribeReport((uint64_t)workers[chosen].thread, s->handle);
    if (s->worker >= 0 || s->is_runtimes) {
        check(error == ACL_ERROR_RT_STREAM_SUBSCRIBE);
    } else {
        check(error == ACL_SUCCESS);
        s->worker = chosen;
    }
}

static void unsubscribe(struct stream *s)
{
    if (s->worker >= 0) {
        disturb(s);
        check(aclrtUnSubscribeReport((uint64_t)workers[s->worker].thread, s->handle) == ACL_SUCCESS);
        s->worker = -1;
    }
}

static void change_host_worker(struct stream *s)
{
    const uint64_t thread = (uint64_t)workers[WORKERS - 1].thread;
    if (s->host_worker < 0) {
        check(aclrtSubscribeHostFunc(thread, s->handle) == ACL_SUCCESS);
        s->host_worker = WORKERS - 1;
    } else { /* the runtime's thread runs the rest: nothing is lost */
        check(aclrtUnSubscribeHostFunc(thread, s->handle) == ACL_SUCCESS);
        s->host_worker = -1;
    }
}

static bool is_all_run(const struct stream *s)
{
    for (size_t i = 0; i < callback_count; i++) {
        const struct callback *c = &callbacks[i];
        if (c->stream == s && !c->may_be_lost && atomic_load(&c->runs) == 0) {
            return false;
        }
    }
    return true;
}

static void synchronise(struct stream *s)
{
    const aclError error = aclrtSynchronizeStream(s->handle);
    check(error == ACL_SUCCESS || error == ACL_ERROR_RT_STREAM_NO_CB_REG || error == ACL_ERROR_RT_STREAM_ABORT);
    for (int ms = 0; !is_all_run(s); ms++) { /* callbacks that do not block */
        check(ms < 10000);
        pause_ms(1);
    }
}

static void stream_begin(struct stream *s)
{
    check(aclrtCreateStream(&s->handle) == ACL_SUCCESS);
    s->worker = -1;
    s->host_worker = -1;
    s->is_runtimes = false;
}

static void stream_end(struct stream *s)
{
    disturb(s); /* the destruction of the stream drops its callbacks, even those that a thread could run already */
    const aclError error = below(2) == 0 ? aclrtDestroyStream(s->handle) : aclrtDestroyStreamForce(s->handle);
    forget_kernels(s);
    check(error == ACL_SUCCESS || error == ACL_ERROR_RT_STREAM_NO_CB_REG || error == ACL_ERROR_RT_STREAM_ABORT);
}

static void step(void)
{
    struct stream *s = &streams[below(STREAMS)];
    aclrtStreamStatus status;
    switch (below(20)) {
    case 0:
        subscribe(s);
        break;
    case 1:
        if (below(4) == 0) {
            unsubscribe(s);
        }
        break;
    case 2:
        if (below(4) == 0) {
            change_host_worker(s);
        }
        break;
    case 3:
        synchronise(s);
        break;
    case 4:
        if (below(8) == 0) {
            disturb(s);
            check(aclrtStreamAbort(s->handle) == ACL_SUCCESS);
            forget_kernels(s);
        }
        break;
    case 5:
        if (below(8) == 0) {
            stream_end(s);
            stream_begin(s);
        }
        break;
    case 6:
        weir_ascendcl_advance(below(200000));
        break;
    case 7:
        (void)aclrtStreamQuery(s->handle, &status);
        break;
    case 8:
    case 9:
    case 10:
        launch_host_func(s);
        break;
    case 11:
    case 12:
    case 13:
    case 14:
        launch_kernel(s);
        break;
    default:
        launch_callback(s);
    }
}

TEST(random_programs)
{
    const char *only = getenv("SEED");
    const unsigned long long first = only != NULL ? strtoull(only, NULL, 10) : 1;
    for (int i = 0; i < WORKERS; i++) {
        workers[i].is_host = i == WORKERS - 1;
        check(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (seed = first; seed < first + SEEDS; seed++) {
        state = seed * 0x9e3779b97f4a7c15u + 1;
        for (int i = 0; i < STREAMS; i++) {
            stream_begin(&streams[i]);
        }
        for (int i = 0; i < STEPS; i++) {
            step();
        }
        for (int i = 0; i < STREAMS; i++) {
            synchronise(&streams[i]);
            stream_end(&streams[i]);
        }
    }
    for (int i = 0; i < WORKERS; i++) {
        atomic_store(&workers[i].ends, true);
        check(pthread_join(workers[i].thread, NULL) == 0);
    }
    size_t run = 0;
    for (size_t i = 0; i < callback_count; i++) {
        run += (size_t)atomic_load(&callbacks[i].runs);
    }
    assert_true(run > callback_count / 2); /* most callbacks have run */
    assert_true(callback_count > (size_t)SEEDS * STEPS / 8);
    assert_int_equal(weir_ascendcl_finding_count(NULL), 0);
}

int main(void)
{
    acl_environment("REPORT", "none");
    acl_environment("CAPACITY", "1GiB"); /* small: the thread sanitizer leaves few addresses */
    acl_ok(aclrtSetDevice(0));
    for (int i = 0; i < STREAMS; i++) {
        (void)pthread_mutex_init(&streams[i].lock, NULL);
        streams[i].last_number[REPORT] = -1;
        streams[i].last_number[HOST_FUNC] = -1;
    }
    return run_all_tests("tests");
}
