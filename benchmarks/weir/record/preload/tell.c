/* benchmarks/weir/record/preload/tell.c: the program's side of the channel.
 *
 * Idea: see channel.h. All functions here are safe inside malloc: they use one page of their own, no lock and no stdio.
 *
 * The process that the command started writes events, and its children do if they are recorded too. A child has a copy
 * of the page that holds the channel's address, zeroed by the kernel (MADV_WIPEONFORK), whichever system call made the
 * child. A program started by exec in a child finds another process's number in the channel. An exec of the process
 * itself begins a new image.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* MADV_WIPEONFORK */
#endif

#include "tell.h"

#include "shared/clock.h"
#include "shared/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { nap_ns = 50000, naps_between_looks = 400 };

/* The only object on its page. The kernel clears the page in a child process (MADV_WIPEONFORK). */
struct process_page {
    _Atomic(struct channel *) channel;
    uint32_t image;
    atomic_int joins; /* 1 once a thread of this process has begun to join the channel */
};

static _Atomic(struct process_page *) page;
static _Atomic(struct channel *) inherited; /* the channel, which a child of fork inherits and may join */
static atomic_int asked;                    /* 1 once the environment has been read */

static _Thread_local __attribute__((tls_model("initial-exec"))) uint32_t own_number; /* number of the thread, from 1 */
static _Thread_local __attribute__((tls_model("initial-exec"))) bool telling;

/* --- attaching --- */

static struct channel *map_channel(const char *path)
{
    const int fd = above_standard(open(path, O_RDWR | O_CLOEXEC));
    if (fd < 0) {
        return NULL;
    }
    void *const memory = mmap(NULL, channel_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (memory == MAP_FAILED) {
        return NULL;
    }
    struct channel *const found = memory;
    if (found->magic != CHANNEL_MAGIC || (found->program != (int32_t)getpid() && found->children == 0)) {
        (void)munmap(memory, channel_bytes);
        return NULL;
    }
    return found;
}

static void forget_channel(void)
{
    struct process_page *const own = atomic_load_explicit(&page, memory_order_relaxed);
    atomic_store_explicit(&inherited, NULL, memory_order_relaxed);
    if (own != NULL) {
        atomic_store_explicit(&own->channel, NULL, memory_order_relaxed);
    }
}

/* Joins this process to the channel as a new process image. */
static void join(struct process_page *own, struct channel *to)
{
    if (to->children == 0) {
        atomic_store(&to->image_first, atomic_load(&to->tail));
    }
    own->image = atomic_fetch_add(&to->images, 1);
    own_number = 0; /* fork has copied the number of the parent's thread */
    atomic_store_explicit(&own->channel, to, memory_order_release);
    tell(to, &(struct channel_slot){.kind = channel_image, .id = (uint64_t)getpid()});
}

/* Joins a child of fork to the channel. Only one thread joins; calls of other threads meanwhile are not recorded. */
static void join_as_child(struct process_page *own)
{
    struct channel *const to = atomic_load_explicit(&inherited, memory_order_relaxed);
    int nobody = 0;
    if (to == NULL || to->children == 0) {
        atomic_store_explicit(&inherited, NULL, memory_order_relaxed);
    } else if (atomic_compare_exchange_strong(&own->joins, &nobody, 1)) {
        join(own, to);
    }
}

static struct process_page *make_page(void)
{
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *const memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return NULL;
    }
    /* Before Linux 4.14 an atfork handler detects children of fork; children made by clone are then not detected. */
    if (madvise(memory, size, MADV_WIPEONFORK) != 0 && pthread_atfork(NULL, NULL, forget_channel) != 0) {
        (void)munmap(memory, size);
        return NULL;
    }
    return memory;
}

static void attach(const char *path)
{
    struct process_page *const own = make_page();
    struct channel *const found = own != NULL ? map_channel(path) : NULL;
    if (found == NULL) {
        return;
    }
    atomic_store_explicit(&inherited, found, memory_order_relaxed);
    atomic_store(&own->joins, 1);
    atomic_store_explicit(&page, own, memory_order_release);
    join(own, found);
    if (!stands_in_front()) {
        atomic_fetch_add(&found->bypassed, 1);
    }
}

static const char *channel_path_in(char *const *environment)
{
    const size_t length = sizeof(CHANNEL_ENV) - 1;
    for (; environment != NULL && *environment != NULL; environment++) {
        if (strncmp(*environment, CHANNEL_ENV, length) == 0 && (*environment)[length] == '=') {
            return *environment + length + 1;
        }
    }
    return NULL;
}

/* Reads the environment once, in the first call with an `environment`. The C library has no environment before it has
 * started, so secure_getenv cannot be used. As secure_getenv does, a process with another user's rights ignores the
 * variable. */
static void look_at_environment(char *const *environment)
{
    int nobody = 0;
    if (environment == NULL || !atomic_compare_exchange_strong(&asked, &nobody, 1)) {
        return;
    }
    const int saved = errno;
    const char *const path = getauxval(AT_SECURE) == 0 ? channel_path_in(environment) : NULL;
    if (path != NULL && path[0] != '\0') {
        attach(path);
    }
    errno = saved;
}

/* glibc passes these arguments to every constructor. */
__attribute__((constructor)) static void at_load(int count, char **arguments, char **environment)
{
    (void)count, (void)arguments;
    look_at_environment(environment);
}

struct channel *tell_channel(void)
{
    if (atomic_load_explicit(&asked, memory_order_relaxed) == 0) {
        look_at_environment(environ);
    }
    struct process_page *const own = atomic_load_explicit(&page, memory_order_acquire);
    if (own == NULL) {
        return NULL;
    }
    if (atomic_load_explicit(&own->channel, memory_order_relaxed) == NULL &&
        atomic_load_explicit(&inherited, memory_order_relaxed) != NULL) {
        join_as_child(own);
    }
    return atomic_load_explicit(&own->channel, memory_order_acquire);
}

/* --- writing events --- */

/* Waits a little for the process that reads the ring. Returns false, and ends the recording, if that process has
 * ended. */
static bool wait_for_reader(const struct channel *to, unsigned *naps)
{
    int cancels = 0;
    const struct timespec nap = {.tv_nsec = nap_ns};
    if (++*naps % naps_between_looks == 0 && getppid() != (pid_t)to->reader &&
        (to->children == 0 || kill((pid_t)to->reader, 0) != 0)) {
        forget_channel();
        return false;
    }
    /* Cancellation is disabled, because malloc and free are no cancellation points. */
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
    (void)nanosleep(&nap, NULL);
    (void)pthread_setcancelstate(cancels, &cancels);
    return true;
}

/* Takes the next event number and returns its ring slot, once the slot is free. NULL: the reader has ended. */
static struct channel_slot *take_slot(struct channel *to, uint64_t *ticket)
{
    uint64_t tail = atomic_load_explicit(&to->tail, memory_order_relaxed);
    unsigned naps = 0;
    for (;;) {
        struct channel_slot *const slot = &to->slots[tail % channel_slots];
        const uint64_t turn = atomic_load_explicit(&slot->turn, memory_order_acquire);
        if (turn == tail) {
            if (atomic_compare_exchange_weak_explicit(&to->tail, &tail, tail + 1, memory_order_relaxed,
                                                      memory_order_relaxed)) {
                *ticket = tail;
                return slot;
            }
        } else {
            if (turn < tail && !wait_for_reader(to, &naps)) {
                return NULL;
            }
            tail = atomic_load_explicit(&to->tail, memory_order_relaxed);
        }
    }
}

/* Publishes an event. If several processes are recorded, the reader may have stopped waiting for this event: then the
 * event is lost. */
static void publish(const struct channel *to, struct channel_slot *slot, uint64_t ticket)
{
    if (to->children == 0) {
        atomic_store_explicit(&slot->turn, ticket + 1, memory_order_release);
    } else {
        uint64_t expected = ticket;
        (void)atomic_compare_exchange_strong_explicit(&slot->turn, &expected, ticket + 1, memory_order_release,
                                                      memory_order_relaxed);
    }
}

/* Does not record an allocation in a signal handler that interrupts this function: it might wait for the interrupted
 * code. */
void tell(struct channel *to, const struct channel_slot *event)
{
    if (telling) {
        return;
    }
    const int saved = errno;
    uint64_t ticket = 0;
    telling = true;
    if (own_number == 0) {
        own_number = atomic_fetch_add_explicit(&to->threads, 1, memory_order_relaxed) + 1;
    }
    const uint64_t time_ns = wall_ns();
    struct channel_slot *const slot = take_slot(to, &ticket);
    if (slot != NULL) {
        slot->time_ns = time_ns;
        slot->id = event->id;
        slot->size = event->size;
        slot->extra = event->extra;
        slot->stream = event->stream;
        slot->thread = own_number - 1;
        slot->device = event->device;
        slot->kind = event->kind;
        slot->mode = event->mode;
        slot->image = atomic_load_explicit(&page, memory_order_relaxed)->image;
        publish(to, slot, ticket);
    }
    telling = false;
    errno = saved;
}
