/* tests/pool/model/lock_model.cc: the stream's lock in all interleavings of small programs.
 *
 * The lock's own source is compiled here, with its atomics as variables of relacy, a model checker: relacy runs a
 * program once for each order of the accesses and each value that the C memory model lets a load return. The lock
 * protects an ordinary variable, so relacy reports a data race if two threads are inside at once or if order is
 * missing, and a livelock if a thread waits for ever. After each program every thread must still be able to become the
 * owner.
 *
 * The model of membarrier(2) runs a full barrier on each other thread between two of its steps, one thread after the
 * other.
 *
 *   lock_model [NAME...]      runs the named programs; all without names
 *   WEIR_MODEL_BOUND=N        the maximum number of interruptions of a thread in one run; 0: no bound. Without it each
 *                             program has a bound of its own, so that all programs together take about ten seconds
 */
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WEIR_ASSERTIONS 0 /* assertions compare thread names, which are not part of the modelled protocol */
#include <stdatomic.h>    /* of this folder */

/* --- around the lock --- */

static const int most_threads = 3;
static char names[most_threads]; /* the addresses serve as names of threads */
static int acting = -1;          /* before and after a program: index of the thread that acts */
static int name_of[most_threads];

/* The lock's constants, set by each program so that a few steps reach every state. */
static unsigned spins_before_yield = 1;
static unsigned little_progress;
static unsigned intrusions_tolerated;
static unsigned alone_for_a_while;
static bool barrier_refused;

static inline const void *stream_lock_self(void)
{
    return &names[acting >= 0 ? acting : name_of[rl::thread_index()]];
}

/* Runs a full barrier on every thread, each at a moment of its own. The threads lie in one array. */
template <int threads> static void barrier_on_each()
{
    typedef rl::aligned<rl::thread_info<threads>> info;
    rl::context &context = rl::ctx();
    const int self = static_cast<int>(context.threadx_->index_);
    info *all = static_cast<info *>(static_cast<rl::thread_info<threads> *>(context.threadx_)) - self;
    all[self].atomic_thread_fence_seq_cst(context.seq_cst_fence_order_);
    for (int other = 0; other < threads; other++) {
        if (other != self) {
            context.sched();
            all[other].atomic_thread_fence_seq_cst(context.seq_cst_fence_order_);
        }
    }
    context.sched();
    all[self].atomic_thread_fence_seq_cst(context.seq_cst_fence_order_);
}

static void (*run_barrier)();

static long model_membarrier(int command)
{
    if (command != MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
        return 0; /* the registration succeeds */
    }
    if (barrier_refused) {
        return -1;
    }
    run_barrier();
    return 0;
}

/* The sleep is far longer than a store needs to leave its processor, so it acts as a barrier. */
static int model_nanosleep()
{
    run_barrier();
    return 0;
}

struct lock_seat;
static lock_seat *model_new_seat();
static void model_delete_seat(lock_seat *seat);

#define WEIR_LOCK_MODEL
#define __auto_type auto
#define syscall(number, command, a, b) model_membarrier(command)
#define nanosleep(wanted, left) ((void)(wanted), model_nanosleep())
#undef sched_yield
#define sched_yield() (rl::yield(1, RL_INFO), 0)
#define aligned_alloc(alignment, size) model_new_seat()
#undef free
#define free(seat) model_delete_seat(seat)

#include "state/stream_lock.c"

static lock_seat *model_new_seat()
{
    return new lock_seat;
}

static void model_delete_seat(lock_seat *seat)
{
    delete seat;
}

/* --- programs --- */

struct policy {
    unsigned little_progress;
    unsigned intrusions_tolerated;
    unsigned alone_for_a_while;
};

static const policy keeps_owner = {0, 100, 100}; /* no intrusion takes the bias away */
/* one intrusion (an entry of another thread) takes the bias away, and one entry of the owner alone may give it back */
static const policy moves_at_once = {100, 1, 1};

enum { A, B, C };

template <class program, int threads> struct world : rl::test_suite<program, threads> {
    stream_lock lock;
    rl::var<unsigned> sum;
    unsigned entered[threads];
    uint64_t progress;

    void follow(const policy &p)
    {
        little_progress = p.little_progress;
        intrusions_tolerated = p.intrusions_tolerated;
        alone_for_a_while = p.alone_for_a_while;
    }

    void prepare(const policy &p)
    {
        follow(p);
        run_barrier = barrier_on_each<threads>;
        barrier_refused = false;
        progress = 0;
        acting = A;
        for (int i = 0; i < threads; i++) {
            entered[i] = 0;
            name_of[i] = i;
        }
        atomic_store(&barrier_works, true);
        weir__stream_lock_init(&lock, false);
        sum($) = 0;
    }

    void begin() { acting = -1; }

    void work()
    {
        sum($) = sum($) + 1;
        entered[acting >= 0 ? 0 : rl::thread_index()]++;
    }

    void enter(bool stays = true)
    {
        lock_seat *seat;
        if (!stream_lock_try(&lock, &seat)) {
            weir__stream_lock_slow(&lock, &progress, stays);
        } else if (acting < 0 && rl::rand(2) == 0) { /* both ways to release a lock that was taken by a try */
            work();
            stream_lock_release_tried(seat);
            return;
        }
        work();
        stream_lock_release(&lock);
    }

    void attempt()
    {
        if (weir__stream_lock_try_shared(&lock)) {
            work();
            stream_lock_release(&lock);
        }
    }

    void enter_as(int name, unsigned times)
    {
        acting = name;
        for (; times > 0; times--) {
            enter();
        }
    }

    /* Checks that no thread holds the lock, no entry was lost, and each thread can become the owner. */
    void finish(bool owned_in_the_end = true)
    {
        unsigned all = 0;
        for (int i = 0; i < threads; i++) {
            all += entered[i];
        }
        RL_ASSERT(sum($) == all);
        for (int i = 0; i < threads; i++) {
            enter_as(i, 4);
            RL_ASSERT(stream_lock_owned(&lock) == owned_in_the_end);
            RL_ASSERT(!lock.via_held && atomic_load_explicit(&lock.open, memory_order_relaxed) ==
                                            atomic_load_explicit(&lock.owner, memory_order_relaxed));
        }
        weir__stream_lock_fini(&lock);
    }
};

/* The owner and another thread enter once each; the bias stays. */
struct meeting : world<meeting, 2> {
    void before()
    {
        prepare(keeps_owner);
        enter_as(A, 1);
        begin();
    }
    void thread(unsigned) { enter(); }
    void after()
    {
        follow(moves_at_once);
        finish();
    }
};

/* The owner enters and leaves while another thread intrudes once; the bias stays. */
struct intrusion : world<intrusion, 2> {
    void before()
    {
        prepare(keeps_owner);
        enter_as(A, 1);
        begin();
    }
    void thread(unsigned self)
    {
        enter();
        if (self == A) {
            enter();
        }
    }
    void after()
    {
        follow(moves_at_once);
        finish();
    }
};

/* Two threads meet at a lock that no thread has owned. */
struct first_owner : world<first_owner, 2> {
    void before()
    {
        prepare(moves_at_once);
        begin();
    }
    void thread(unsigned) { enter(); }
    void after() { finish(); }
};

/* While the owner enters, another thread takes the lock over and then enters by its own seat. */
struct takeover : world<takeover, 2> {
    void before()
    {
        prepare(moves_at_once);
        enter_as(A, 1);
        begin();
    }
    void thread(unsigned self)
    {
        enter();
        if (self == B) {
            enter();
            enter();
        }
    }
    void after() { finish(); }
};

/* As in struct takeover, while a third thread intrudes. */
struct takeover_among_three : world<takeover_among_three, 3> {
    void before()
    {
        prepare(moves_at_once);
        enter_as(A, 1);
        begin();
    }
    void thread(unsigned self)
    {
        enter();
        if (self == B) {
            enter();
            enter();
        }
    }
    void after() { finish(); }
};

/* A shared lock: one thread tries to take it while another becomes the owner. */
struct try_shared : world<try_shared, 2> {
    void before()
    {
        prepare(moves_at_once);
        enter_as(A, 1);
        enter_as(B, 2); /* the lock is shared, and B has had its first turn */
        begin();
    }
    void thread(unsigned self)
    {
        if (self == A) {
            attempt();
            attempt();
        } else {
            enter();
            enter();
        }
    }
    void after() { finish(); }
};

/* One thread enters once without becoming the owner. Meanwhile the owner enters, and a third thread takes the lock
 * over. */
struct visitor : world<visitor, 3> {
    void before()
    {
        prepare(moves_at_once);
        enter_as(A, 1);
        enter_as(B, 2); /* B owns it */
        begin();
    }
    void thread(unsigned self)
    {
        enter(self != C);
        if (self == A) {
            enter();
        }
    }
    void after() { finish(); }
};

/* A thread ends, and a new thread gets the name and therefore the seat of the ended thread, while another thread
 * intrudes. */
struct new_thread_old_name : world<new_thread_old_name, 3> {
    rl::atomic<unsigned> ended;

    void before()
    {
        prepare(moves_at_once);
        enter_as(A, 1);
        name_of[C] = A;
        ended.store(0, rl::mo_relaxed, RL_INFO);
        begin();
    }
    void thread(unsigned self)
    {
        if (self == C) {
            while (ended.load(rl::mo_acquire, RL_INFO) == 0) {
                rl::yield(1, RL_INFO);
            }
        }
        enter();
        if (self == A) {
            ended.store(1, rl::mo_release, RL_INFO);
        }
    }
    void after() { finish(); }
};

/* The kernel begins to refuse the barrier: from then on the lock is shared. */
struct refused : world<refused, 2> {
    void before()
    {
        prepare(moves_at_once);
        enter_as(A, 1);
        barrier_refused = true;
        begin();
    }
    void thread(unsigned)
    {
        enter();
        enter();
    }
    void after() { finish(false); }
};

/* --- searching --- */

/* relacy leaks some memory, so this program turns the leak check off. Options in the environment do not change this. */
extern "C" int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off()
{
    return 1;
}

static unsigned bound(unsigned otherwise)
{
    const char *given = getenv("WEIR_MODEL_BOUND");
    return given != nullptr ? static_cast<unsigned>(strtoul(given, nullptr, 10)) : otherwise;
}

/* Searches the interleavings of a program. WEIR_MODEL_BOUND=0 searches all of them. */
template <class program> static bool search(const char *name, unsigned interrupts)
{
    rl::test_params params;
    std::ostream nowhere(nullptr);
    params.context_bound = bound(interrupts);
    params.search_type = params.context_bound == 0 ? rl::sched_full : rl::sched_bound;
    params.progress_stream = &nowhere;
    params.execution_depth_limit = 1000;
    const bool held = rl::simulate<program>(params);
    printf("%s: %lu interleavings", name, static_cast<unsigned long>(params.stop_iteration));
    if (params.context_bound != 0) {
        printf(", at most %u interrupts each", params.context_bound);
    }
    printf("\n");
    if (!held) {
        printf("finding: %s: %s\n", name, rl::test_result_str(params.test_result));
    }
    return held;
}

struct entry {
    const char *name;
    bool (*search)(const char *name, unsigned interrupts);
    unsigned interrupts;
};

static const entry programs[] = {
    {"meeting", search<meeting>, 8},
    {"intrusion", search<intrusion>, 5},
    {"first_owner", search<first_owner>, 5},
    {"takeover", search<takeover>, 4},
    {"takeover_among_three", search<takeover_among_three>, 2},
    {"try_shared", search<try_shared>, 4},
    {"visitor", search<visitor>, 2},
    {"new_thread_old_name", search<new_thread_old_name>, 2},
    {"refused", search<refused>, 4},
};

int main(int argc, char **argv)
{
    bool held = true;
    for (const entry &e : programs) {
        bool wanted = argc < 2;
        for (int i = 1; i < argc; i++) {
            wanted = wanted || strcmp(argv[i], e.name) == 0;
        }
        if (wanted) {
            held = e.search(e.name, e.interrupts) && held;
        }
    }
    return held ? 0 : 1;
}
