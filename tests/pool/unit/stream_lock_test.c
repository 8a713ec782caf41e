/* tests/pool/unit/stream_lock_test.c: the biased lock: one thread holds the lock at a time, and the bias follows the
 * thread that uses the lock.
 *
 * The lock protects an ordinary integer, so a lost update shows in its sum, and a thread sanitizer sees missing order.
 * The tests include threads that end and new threads that get their thread-local storage.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "state/stream_lock.h"

#include "rig/test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

struct guarded {
    struct stream_lock lock;
    uint64_t sum; /* protected by the lock; not atomic, so that only the lock can keep it right */
    atomic_uint inside;
    atomic_uint crowded; /* how often two threads held the lock at once */
    atomic_bool begun;
    atomic_bool done;
};

static void lock(struct stream_lock *l, const uint64_t *progress)
{
    struct lock_seat *seat;
    if (!stream_lock_try(l, &seat)) {
        weir__stream_lock_slow(l, progress, true);
    }
}

static void enter(struct guarded *g, unsigned spins)
{
    lock(&g->lock, &g->sum);
    if (atomic_fetch_add_explicit(&g->inside, 1, memory_order_relaxed) != 0) {
        atomic_fetch_add(&g->crowded, 1);
    }
    const uint64_t before = g->sum;
    for (volatile unsigned i = 0; i < spins; i++) {
    }
    g->sum = before + 1;
    atomic_fetch_sub_explicit(&g->inside, 1, memory_order_relaxed);
    stream_lock_release(&g->lock);
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

struct visitor {
    struct guarded *guarded;
    uint64_t entries; /* 0: until it is done */
    uint32_t seed;
    uint32_t burst; /* maximum of entries in a row, then a pause */
    uint64_t entered;
};

static void *visit(void *ctx)
{
    struct visitor *v = ctx;
    while (v->entries == 0 ? !atomic_load(&v->guarded->done) : v->entered < v->entries) {
        for (uint32_t left = 1 + next_random(&v->seed) % v->burst; left > 0; left--) {
            enter(v->guarded, next_random(&v->seed) % 8);
            v->entered++;
        }
        atomic_store(&v->guarded->begun, true);
        if (next_random(&v->seed) % 4 == 0) {
            (void)usleep(next_random(&v->seed) % 400);
        }
        for (volatile uint32_t pause = next_random(&v->seed) % 4096; pause > 0; pause--) {
        }
    }
    return NULL;
}

/* The first thread to enter becomes the owner. */
static void *visit_later(void *ctx)
{
    const struct visitor *v = ctx;
    while (!atomic_load(&v->guarded->begun)) {
        (void)usleep(10);
    }
    return visit(ctx);
}

/* Long runs of the owner give it the bias, and bursts of other threads take it away, again and again. The owner's
 * thread ends a few times, and the next thread often gets its thread-local storage. */
TEST(test_one_inside_at_a_time)
{
    enum { others = 2, owners = 4 };
    struct guarded g = {.sum = 0};
    weir__stream_lock_init(&g.lock, false);
    struct visitor all[others];
    pthread_t threads[others];
    uint64_t entered = 0;
    for (uint32_t i = 0; i < others; i++) {
        all[i] = (struct visitor){.guarded = &g, .seed = i + 7, .burst = 12};
        assert_int_equal(pthread_create(&threads[i], NULL, visit_later, &all[i]), 0);
    }
    for (uint32_t i = 0; i < owners; i++) {
        struct visitor owner = {.guarded = &g, .entries = 150000, .seed = i + 1, .burst = 6000};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, visit, &owner), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        entered += owner.entered;
    }
    atomic_store(&g.done, true);
    for (uint32_t i = 0; i < others; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        entered += all[i].entered;
    }
    assert_int_equal(atomic_load(&g.crowded), 0);
    assert_int_equal(g.sum, entered);
    weir__stream_lock_fini(&g.lock);
}

/* --- a try meets the owner's return --- */

/* One thread tries a shared lock without end, and a signal stops it at any point. Meanwhile the first owner has the
 * lock to itself for long enough to get the bias back, and enters. Then the other thread continues. */
static struct {
    struct guarded guarded;
    /* asks the other thread to stop while that thread does not hold the lock; a signal that comes after its answer has
     * no effect */
    atomic_uint asked;
    atomic_uint stopped;
    atomic_uint resumed;
    atomic_uint left;  /* the other thread is about to continue */
    atomic_uint taken; /* tries that succeeded */
} meeting;

static void await(const atomic_uint *place, unsigned round)
{
    while (atomic_load(place) != round) {
        (void)sched_yield();
    }
}

static void stop_here(int signal)
{
    const unsigned round = atomic_load(&meeting.stopped) + 1;
    (void)signal;
    atomic_store(&meeting.stopped, round);
    await(&meeting.resumed, round); /* sched_yield is a bare system call */
    atomic_store(&meeting.left, round);
}

static void *try_without_end(void *unused)
{
    (void)unused;
    atomic_store(&meeting.guarded.begun, true);
    while (!atomic_load(&meeting.guarded.done)) {
        if (weir__stream_lock_try_shared(&meeting.guarded.lock)) {
            atomic_fetch_add(&meeting.taken, 1);
            atomic_fetch_add(&meeting.guarded.crowded, atomic_load(&meeting.guarded.inside));
            stream_lock_release(&meeting.guarded.lock);
        }
    }
    return NULL;
}

TEST(test_a_try_does_not_meet_the_owner)
{
    enum { rounds = 1000, before_bias = 1023 };
    struct guarded *g = &meeting.guarded;
    struct sigaction action = {.sa_handler = stop_here};
    struct sigaction before;
    pthread_t thread;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    weir__stream_lock_init(&g->lock, false);
    lock(&g->lock, &g->sum); /* this thread is the first owner */
    const bool biased = stream_lock_owned(&g->lock);
    stream_lock_release(&g->lock);
    if (!biased) {
        skip(); /* no membarrier: the lock stays shared */
    }
    assert_int_equal(pthread_create(&thread, NULL, try_without_end, NULL), 0);
    while (!atomic_load(&g->begun)) {
        (void)sched_yield();
    }
    for (unsigned round = 1; round <= rounds; round++) {
        /* Takes the lock and makes it shared, as after many entries of other threads. */
        while (!stream_lock_owned(&g->lock)) {
            (void)sched_yield();
        }
        while (atomic_flag_test_and_set(&g->lock.held)) {
        }
        stream_lock_set_via_held(&g->lock, true);
        atomic_store(&g->lock.open, &g->lock.none);
        atomic_store(&g->lock.owner, &g->lock.none);
        g->lock.last = stream_lock_self();
        g->lock.alone = before_bias;
        assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
        await(&meeting.stopped, round);
        stream_lock_release(&g->lock);
        lock(&g->lock, &g->sum);
        stream_lock_release(&g->lock);
        lock(&g->lock, &g->sum);
        assert_true(stream_lock_owned(&g->lock));
        atomic_store(&g->inside, 1);
        atomic_store(&meeting.resumed, round);
        for (volatile unsigned i = 0; i < 2000; i++) {
        }
        atomic_store(&g->inside, 0);
        stream_lock_release(&g->lock);
    }
    atomic_store(&g->done, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    assert_int_equal(atomic_load(&g->crowded), 0);
    assert_int_equal(atomic_load(&meeting.taken), 0);
    weir__stream_lock_fini(&g->lock);
}

/* --- the lock follows the thread that uses it --- */

enum { enough_to_own = 1100 }; /* entries in a row that make any thread the owner */

static size_t seats_of(const struct stream_lock *l)
{
    size_t count = 1;
    for (const struct lock_seat *seat = l->first.next; seat != NULL; seat = seat->next) {
        count++;
    }
    return count;
}

/* Enters until this thread owns the lock. Returns true if it succeeded. */
static bool feed(struct guarded *g)
{
    for (int i = 0; i < enough_to_own; i++) {
        enter(g, 0);
    }
    return stream_lock_owned(&g->lock);
}

struct feeder {
    struct guarded *guarded;
    atomic_bool fed;
    atomic_bool leave;
    bool owned;
};

static void *feed_once(void *ctx)
{
    struct feeder *f = ctx;
    f->owned = feed(f->guarded);
    atomic_store(&f->fed, true);
    while (!atomic_load(&f->leave)) {
        (void)usleep(100);
    }
    return NULL;
}

static void *look_in(void *ctx)
{
    struct guarded *g = ctx;
    for (int i = 0; i < enough_to_own; i++) {
        struct lock_seat *seat;
        if (!stream_lock_try(&g->lock, &seat)) {
            weir__stream_lock_slow(&g->lock, &g->sum, false);
        }
        stream_lock_release(&g->lock);
    }
    return stream_lock_owned(&g->lock) ? g : NULL;
}

/* A second thread feeds the stream while the first thread lives. Then the first thread feeds it again. A third thread
 * feeds it after the second has ended. */
TEST(test_the_lock_follows_its_feeder)
{
    struct guarded g = {.sum = 0};
    weir__stream_lock_init(&g.lock, false);
    enter(&g, 0);
    if (!stream_lock_owned(&g.lock)) {
        skip(); /* no membarrier: the lock stays shared */
    }
    struct feeder second = {.guarded = &g};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, feed_once, &second), 0);
    while (!atomic_load(&second.fed)) {
        (void)usleep(100);
    }
    assert_true(second.owned);
    assert_false(stream_lock_owned(&g.lock));
    assert_int_equal(seats_of(&g.lock), 2);
    assert_true(feed(&g));
    assert_int_equal(seats_of(&g.lock), 2); /* the first thread still has its seat */
    atomic_store(&second.leave, true);
    assert_int_equal(pthread_join(thread, NULL), 0);

    void *owned = NULL;
    assert_int_equal(pthread_create(&thread, NULL, look_in, &g), 0);
    assert_int_equal(pthread_join(thread, &owned), 0);
    assert_null(owned); /* a thread that rarely enters owns nothing */

    struct feeder third = {.guarded = &g, .leave = true};
    assert_int_equal(pthread_create(&thread, NULL, feed_once, &third), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(third.owned);
    assert_true(feed(&g));
    assert_int_equal(g.sum, 1 + 4 * enough_to_own);
    weir__stream_lock_fini(&g.lock);
}

/* One thread enters without end. A signal stops it at a point at which it does not hold the lock, perhaps while it is
 * entering. This thread becomes the owner and enters; then the other thread continues with the values that it has read
 * before. */
static void stop_outside(int signal)
{
    const struct guarded *g = &meeting.guarded;
    const bool wanted = atomic_load(&meeting.asked) != atomic_load(&meeting.stopped);
    if (wanted && !g->lock.via_held && atomic_load(&atomic_load(&g->lock.owner)->busy) == 0) {
        stop_here(signal);
    }
}

static void *enter_without_end(void *unused)
{
    (void)unused;
    while (!atomic_load(&meeting.guarded.done)) {
        enter(&meeting.guarded, 0);
        atomic_fetch_add(&meeting.taken, 1);
    }
    return NULL;
}

/* Waits until the other thread owns the lock and has entered a few times as the owner. */
static void await_other_owner(const struct guarded *g)
{
    while (stream_lock_owned(&g->lock) || atomic_load(&g->lock.open) == &g->lock.none) {
        (void)sched_yield();
    }
    const unsigned before = atomic_load(&meeting.taken);
    while (atomic_load(&meeting.taken) - before < 3) {
        (void)sched_yield();
    }
}

TEST(test_a_late_owner_does_not_meet_the_next)
{
    enum { rounds = 300 };
    struct guarded *g = &meeting.guarded;
    struct sigaction action = {.sa_handler = stop_outside};
    struct sigaction before;
    pthread_t thread;
    memset(&meeting, 0, sizeof(meeting));
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    weir__stream_lock_init(&g->lock, false);
    enter(g, 0);
    if (!stream_lock_owned(&g->lock)) {
        skip(); /* no membarrier: the lock stays shared */
    }
    assert_int_equal(pthread_create(&thread, NULL, enter_without_end, NULL), 0);
    for (unsigned round = 1; round <= rounds; round++) {
        await_other_owner(g);
        atomic_store(&meeting.asked, round);
        while (atomic_load(&meeting.stopped) != round) {
            assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
            (void)usleep(20);
        }
        assert_true(feed(g));
        lock(&g->lock, &g->sum);
        atomic_fetch_add(&g->inside, 1);
        atomic_store(&meeting.resumed, round);
        await(&meeting.left, round);
        for (volatile unsigned i = 0; i < 20000; i++) {
        }
        atomic_fetch_sub(&g->inside, 1);
        stream_lock_release(&g->lock);
    }
    atomic_store(&g->done, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    assert_int_equal(atomic_load(&g->crowded), 0);
    weir__stream_lock_fini(&g->lock);
}

/* --- a kernel in which membarrier begins to fail --- */

#if defined(__linux__) && defined(__NR_membarrier)

/* From now on membarrier fails for the calling thread. */
static bool refuse_membarrier(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Enters the lock once while membarrier fails. Returns NULL if the kernel has no filters. */
static void *intrude(void *ctx)
{
    struct guarded *g = ctx;
    if (!refuse_membarrier()) {
        return NULL;
    }
    enter(g, 0);
    return g;
}

enum { sandbox_held, sandbox_leaked, sandbox_absent };

static int intrude_from_a_sandbox(void)
{
    struct guarded g = {.sum = 0};
    pthread_t thread;
    void *came = NULL;
    weir__stream_lock_init(&g.lock, false);
    enter(&g, 0);
    if (!stream_lock_owned(&g.lock)) {
        return sandbox_absent; /* without membarrier no thread has a bias */
    }
    if (pthread_create(&thread, NULL, intrude, &g) != 0 || pthread_join(thread, &came) != 0 || came == NULL) {
        return sandbox_absent;
    }
    /* The lock's bias ends for good, and no other lock gets a bias: without the barrier a bias could not be taken
     * back. */
    struct stream_lock later;
    weir__stream_lock_init(&later, false);
    lock(&later, &g.sum);
    bool shared = !stream_lock_owned(&g.lock) && !stream_lock_owned(&later);
    stream_lock_release(&later);
    for (int i = 0; i < 5000; i++) {
        enter(&g, 0);
        shared = shared && !stream_lock_owned(&g.lock);
    }
    return shared && g.sum == 5002 && atomic_load(&g.crowded) == 0 ? sandbox_held : sandbox_leaked;
}

/* Runs in a child: a filter stays for good, and the library remembers it. */
TEST(test_a_refused_barrier_ends_the_bias)
{
    int status = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(intrude_from_a_sandbox());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == sandbox_absent) {
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), sandbox_held);
}

#endif
