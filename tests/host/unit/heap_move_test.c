/* tests/host/unit/heap_move_test.c: idle memory of a heap moves with its pages, by userfaultfd. Every system call of a
 * move may fail, at any time and half-way. Blocks keep their contents, and no more bytes are resident than the heap
 * holds. Linked with --wrap for the calls. */
#include "rig/test.h"
#include "host_internal.h"
#include "sandbox.h"

#include <weir/heap.h>

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define PAGE ((unsigned)getpagesize())

/* --- system calls that fail --- */

struct order {
    uint64_t to, from, size, mode;
    int64_t moved;
};

#define MOVE _IOWR(UFFDIO, 0x05, struct order) /* UFFDIO_MOVE, which old headers lack */

static struct {
    int no_file;     /* errno with which userfaultfd fails; 0: it works */
    int no_api;      /* errno with which UFFDIO_API fails */
    int no_register; /* errno with which UFFDIO_REGISTER fails */
    int no_move;     /* errno with which each `every`-th UFFDIO_MOVE fails */
    unsigned every;
    bool by_halves; /* a failing move first moves half of the pages */
    bool drops_nothing;
    bool no_memory; /* realloc fails */
    uint64_t moves, failed;
} fail;

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, ...);
int __real_ioctl(int file, unsigned long what, void *argument);
int __wrap_ioctl(int file, unsigned long what, ...);
int __real_madvise(void *start, size_t size, int advice);
int __wrap_madvise(void *start, size_t size, int advice);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

static int refuse(int why)
{
    errno = why;
    return -1;
}

long __wrap_syscall(long number, ...)
{
    long a[6];
    va_list list;
    va_start(list, number);
    for (size_t i = 0; i < 6; i++) {
        a[i] = va_arg(list, long);
    }
    va_end(list);
    return number == SYS_userfaultfd && fail.no_file != 0 ? refuse(fail.no_file)
                                                          : __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static int move_half(int file, struct order *order)
{
    struct order half = *order;
    half.size = order->size / 2 & ~((uint64_t)PAGE - 1);
    if (half.size != 0 && __real_ioctl(file, MOVE, &half) == 0) {
        order->moved = (int64_t)half.size;
        return refuse(EAGAIN);
    }
    return -1;
}

int __wrap_ioctl(int file, unsigned long what, ...)
{
    va_list list;
    va_start(list, what);
    void *argument = va_arg(list, void *);
    va_end(list);
    const int why = what == UFFDIO_API ? fail.no_api : what == UFFDIO_REGISTER ? fail.no_register : 0;
    if (why != 0) {
        return refuse(why);
    }
    if (what == MOVE) {
        struct order *order = argument;
        const bool fails = fail.no_move != 0 && ++fail.moves % fail.every == 0;
        fail.failed += fails;
        if (fails && fail.by_halves && order->size >= 2 * PAGE) {
            fail.moves--; /* the rest of this move fails as well */
            return move_half(file, order);
        }
        if (fails) {
            order->moved = -fail.no_move;
            return refuse(fail.no_move);
        }
    }
    return __real_ioctl(file, what, argument);
}

int __wrap_madvise(void *start, size_t size, int advice)
{
    return advice == MADV_DONTNEED && fail.drops_nothing ? refuse(EPERM) : __real_madvise(start, size, advice);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fail.no_memory ? NULL : __real_realloc(old, size);
}

static bool kernel_moves(void)
{
    struct uffdio_api api = {.api = UFFD_API, .features = 1 << 16 | 1};
    const long file = __real_syscall(SYS_userfaultfd, O_CLOEXEC | 1, 0, 0, 0, 0, 0);
    const bool can = file >= 0 && __real_ioctl((int)file, UFFDIO_API, &api) == 0;
    if (file >= 0) {
        (void)close((int)file);
    }
    if (!can) {
        puts("this kernel moves no pages");
    }
    return can;
}

/* --- traffic: blocks of 16 KiB to 2 MiB that fragment the heap until it moves memory --- */

enum { SLOTS = 64 };

struct traffic {
    weir_heap *heap;
    uint64_t random;
    unsigned char *blocks[SLOTS];
    size_t sizes[SLOTS];
    unsigned char *low, *high;
    bool is_locked; /* pages that the heap does not use may be resident */
};

static uint64_t next(struct traffic *t)
{
    t->random = t->random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return t->random >> 33;
}

static bool has_all(const unsigned char *block, size_t size, unsigned char byte)
{
    return block[0] == byte && memcmp(block, block + 1, size - 1) == 0;
}

static unsigned char byte_of(size_t slot)
{
    return (unsigned char)(slot + 1);
}

static void put(struct traffic *t, size_t slot)
{
    const size_t size = (size_t)(16 * KIB << next(t) % 7) + (size_t)(next(t) % 30000);
    const bool is_zeroed = next(t) % 4 == 0;
    unsigned char *block = is_zeroed ? weir_heap_alloc_zeroed(t->heap, 1, size) : weir_heap_alloc(t->heap, size);
    t->blocks[slot] = block;
    t->sizes[slot] = size;
    if (block == NULL) {
        return;
    }
    assert_true(!is_zeroed || has_all(block, size, 0));
    memset(block, byte_of(slot), size);
    t->low = t->low == NULL || block < t->low ? block : t->low;
    t->high = block + size > t->high ? block + size : t->high;
}

static void take(struct traffic *t, size_t slot)
{
    if (t->blocks[slot] != NULL) {
        assert_true(has_all(t->blocks[slot], t->sizes[slot], byte_of(slot)));
        assert_int_equal(weir_heap_free(t->heap, t->blocks[slot]), WEIR_OK);
        t->blocks[slot] = NULL;
    }
}

static void begin(struct traffic *t, uint64_t limit)
{
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.decay_ms = WEIR_HEAP_DECAY_NEVER;
    config.limit_bytes = limit;
    memset(&fail, 0, sizeof(fail));
    *t = (struct traffic){.random = 1};
    assert_int_equal(weir_heap_create(&config, &t->heap), WEIR_OK);
}

static void play(struct traffic *t, int steps)
{
    for (int i = 0; i < steps; i++) {
        const size_t slot = next(t) % SLOTS;
        take(t, slot);
        put(t, slot);
    }
}

static weir_heap_stats stats_of(const struct traffic *t)
{
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    assert_int_equal(weir_heap_get_stats(t->heap, &stats), WEIR_OK);
    return stats;
}

/* Returns the resident bytes between the lowest and the highest block. */
static uint64_t resident(const struct traffic *t)
{
    static unsigned char pages[64 << 10];
    unsigned char *low = (unsigned char *)((uintptr_t)t->low & ~(uintptr_t)(2 * MIB - 1));
    const size_t count = ((size_t)(t->high - low) + PAGE - 1) / PAGE;
    uint64_t bytes = 0;
    assert_true(count <= sizeof(pages));
    assert_int_equal(mincore(low, count * PAGE, pages), 0);
    for (size_t i = 0; i < count; i++) {
        bytes += (pages[i] & 1) != 0 ? PAGE : 0;
    }
    return bytes;
}

static void end(struct traffic *t)
{
    const char *why = "";
    if (weir_heap_check(t->heap, &why) != WEIR_OK) {
        fail_msg("%s", why);
    }
    assert_true(t->is_locked || resident(t) <= stats_of(t).held_bytes);
    for (size_t slot = 0; slot < SLOTS; slot++) {
        take(t, slot);
    }
    memset(&fail, 0, sizeof(fail));
    assert_int_equal(weir_heap_trim(t->heap, 0, NULL), WEIR_OK);
    assert_int_equal(stats_of(t).held_bytes, 0);
    assert_true(t->is_locked || resident(t) == 0);
    assert_int_equal(weir_heap_destroy(t->heap), WEIR_OK);
}

/* --- moves --- */

TEST(pages_move_and_none_are_made_anew)
{
    struct traffic t;
    if (!kernel_moves()) {
        skip();
    }
    begin(&t, 0);
    play(&t, 4000);
    const weir_heap_stats stats = stats_of(&t);
    assert_true(stats.moved_bytes > 10 * MIB);
    assert_int_equal(stats.remade_bytes, 0);
    assert_int_equal(resident(&t), stats.held_bytes);
    end(&t);
}

TEST(moves_that_fail_make_pages_anew)
{
    static const int whys[] = {EBUSY, EINVAL, EEXIST, ENOENT, ENOMEM, EPERM};
    struct traffic t;
    if (!kernel_moves()) {
        skip();
    }
    for (unsigned every = 1; every <= 3; every++) {
        for (size_t i = 0; i < 2 * sizeof(whys) / sizeof(*whys); i++) {
            begin(&t, 0);
            fail.no_move = whys[i / 2];
            fail.every = every;
            fail.by_halves = i % 2 != 0;
            play(&t, 800);
            assert_true(fail.failed > 0);
            assert_true(stats_of(&t).remade_bytes > 0);
            assert_true((stats_of(&t).moved_bytes > 0) == (every > 1 || fail.by_halves));
            end(&t);
        }
    }
}

static int open_userfaultfd(void)
{
    struct uffdio_api api = {.api = UFFD_API, .features = 1 << 16 | 1};
    const int file = (int)__real_syscall(SYS_userfaultfd, O_CLOEXEC | 1, 0, 0, 0, 0, 0);
    assert_int_equal(__real_ioctl(file, UFFDIO_API, &api), 0);
    return file;
}

/* The program has closed the heap's userfaultfd, and another file has got its number: one that moves no pages, or a
 * userfaultfd of the program. */
TEST(another_file_takes_the_number)
{
    struct traffic t;
    if (!kernel_moves()) {
        skip();
    }
    for (int i = 0; i < 2; i++) {
        begin(&t, 0);
        const int before = dup(0);
        assert_int_equal(close(before), 0); /* the heap's userfaultfd gets this number */
        play(&t, 1000);
        assert_true(stats_of(&t).moved_bytes > 0);
        assert_int_equal(close(before), 0);
        assert_int_equal(i == 0 ? open("/dev/null", O_RDWR) : open_userfaultfd(), before);
        const uint64_t moved = stats_of(&t).moved_bytes;
        play(&t, 1000);
        assert_true(stats_of(&t).remade_bytes > 0);
        assert_int_equal(stats_of(&t).moved_bytes, moved);
        end(&t);
        assert_true(fcntl(before, F_GETFD) >= 0); /* the heap's end does not close the other file */
        assert_int_equal(close(before), 0);
    }
}

/* Pages that move along to the addresses above stop at a granule that is mapped and that nothing has touched yet. */
TEST(pages_stop_at_mapped_memory)
{
    enum { GRANULES = 16 };
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    weir_host_pool *pool = NULL;
    uint64_t at = 0;
    weir_vm_handle live = 0;
    weir_vm_handle idle = 0;
    if (!kernel_moves()) {
        skip();
    }
    memset(&fail, 0, sizeof(fail));
    config.flags = WEIR_HOST_PAGEABLE;
    config.kinds = 1u << WEIR_HOST_UNPINNED;
    assert_int_equal(weir_host_pool_create(&config, &pool), WEIR_OK);
    weir_device *device = pool->nodes[0].device;
    const uint64_t granule = pool->config.chunk_bytes;
    assert_int_equal(weir_device_vm_reserve(device, GRANULES * granule, &at), WEIR_OK);
    assert_int_equal(weir_device_vm_create(device, granule, &live), WEIR_OK);
    assert_int_equal(weir_device_vm_map(device, at + 9 * granule, granule, live), WEIR_OK);

    /* Three granules of pages wait, and the first of them is asked for below the mapped one. */
    assert_int_equal(weir_device_vm_create(device, 3 * granule, &idle), WEIR_OK);
    assert_int_equal(weir_device_vm_map(device, at, 3 * granule, idle), WEIR_OK);
    memset((void *)(uintptr_t)at, 1, (size_t)(3 * granule));
    assert_int_equal(weir_device_vm_unmap(device, at, 3 * granule), WEIR_OK);
    assert_int_equal(weir_device_vm_map(device, at + 8 * granule, granule, granule), WEIR_OK);

    unsigned char *block = (unsigned char *)(uintptr_t)(at + 9 * granule);
    memset(block, 2, (size_t)granule);
    assert_int_equal(weir_device_vm_map(device, at + 12 * granule, 2 * granule, 2 * granule), WEIR_OK);
    assert_true(has_all(block, (size_t)granule, 2)); /* its pages are its own */

    assert_int_equal(weir_device_vm_unmap(device, at + 8 * granule, 2 * granule), WEIR_OK);
    assert_int_equal(weir_device_vm_unmap(device, at + 12 * granule, 2 * granule), WEIR_OK);
    assert_int_equal(weir_device_vm_destroy(device, 4 * granule), WEIR_OK);
    assert_int_equal(weir_device_vm_release(device, at, GRANULES * granule), WEIR_OK);
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
}

/* A move of three granules ends before the last page of the third, which stays where it was. The pages that have left
 * it are dropped: they are in unmapped memory, which must not be resident. */
TEST(a_granule_that_moved_in_part_is_not_resident)
{
    enum { GRANULES = 16 };
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    weir_host_pool *pool = NULL;
    unsigned char pages[64];
    uint64_t at = 0;
    weir_vm_handle idle = 0;
    if (!kernel_moves()) {
        skip();
    }
    memset(&fail, 0, sizeof(fail));
    config.flags = WEIR_HOST_PAGEABLE;
    assert_int_equal(weir_host_pool_create(&config, &pool), WEIR_OK);
    weir_device *device = pool->nodes[0].device;
    const uint64_t granule = pool->config.chunk_bytes;
    assert_int_equal(weir_device_vm_reserve(device, GRANULES * granule, &at), WEIR_OK);
    assert_int_equal(weir_device_vm_create(device, 3 * granule, &idle), WEIR_OK);
    assert_int_equal(weir_device_vm_map(device, at, 3 * granule, idle), WEIR_OK);
    memset((void *)(uintptr_t)at, 1, (size_t)(3 * granule));
    assert_int_equal(weir_device_vm_unmap(device, at, 3 * granule), WEIR_OK);
    fail.no_move = EBUSY;
    fail.every = 1;
    fail.by_halves = true;
    assert_int_equal(weir_device_vm_map(device, at + 8 * granule, granule, granule), WEIR_OK);
    assert_int_equal(atomic_load(&pool->nodes[0].moved_bytes), 3 * granule - PAGE);

    const size_t count = (size_t)(granule / PAGE);
    assert_true(count <= sizeof(pages));
    assert_int_equal(mincore((void *)(uintptr_t)(at + 10 * granule), (size_t)granule, pages), 0);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(pages[i] & 1, 0);
    }
    assert_int_equal(weir_device_vm_unmap(device, at + 8 * granule, granule), WEIR_OK);
    assert_int_equal(weir_device_vm_destroy(device, 3 * granule), WEIR_OK);
    assert_int_equal(weir_device_vm_release(device, at, GRANULES * granule), WEIR_OK);
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
}

/* A daemon has closed its standard streams. Their numbers are for the program's next files. */
TEST(the_userfaultfd_is_no_standard_stream)
{
    struct traffic t;
    if (!kernel_moves()) {
        skip();
    }
    const int input = dup(STDIN_FILENO);
    (void)close(STDIN_FILENO);
    begin(&t, 0);
    play(&t, 2000);
    assert_true(stats_of(&t).moved_bytes > 0);
    assert_int_equal(fcntl(STDIN_FILENO, F_GETFD), -1);
    end(&t);
    assert_int_equal(dup2(input, STDIN_FILENO), input >= 0 ? STDIN_FILENO : -1);
    (void)close(input);
}

TEST(systems_that_refuse_are_named)
{
    struct traffic t;
    char text[2000];
    for (int i = 0; i < 3; i++) {
        begin(&t, 96 * MIB);
        fail.no_file = i == 0 ? EPERM : 0;
        fail.no_api = i == 1 ? EPERM : 0;
        fail.no_register = i == 2 ? EPERM : 0;
        play(&t, 2000);
        assert_int_equal(stats_of(&t).moved_bytes, 0);
        assert_true(stats_of(&t).remade_bytes > 0);
        assert_null(weir_heap_alloc(t.heap, 95 * MIB));
        assert_true(weir_heap_explain(t.heap, text, sizeof(text)) > 0);
        const char *why = !kernel_moves() && i > 0 ? "made anew: " : "made anew: Operation not permitted";
        assert_non_null(strstr(text, why));
        end(&t);
    }
}

TEST(the_list_of_waiting_pages_cannot_grow)
{
    struct traffic t;
    for (int before = 10; before <= 1000; before *= 10) {
        begin(&t, 0);
        play(&t, before);
        fail.no_memory = true;
        play(&t, 500);
        end(&t);
    }
}

/* If madvise is refused, the heap replaces the pages by a new mapping. The kernel moves no pages into such a
 * mapping. */
TEST(advice_is_refused)
{
    struct traffic t;
    begin(&t, 0);
    play(&t, 1000);
    fail.drops_nothing = true;
    assert_int_equal(weir_heap_trim(t.heap, 0, NULL), WEIR_OK);
    play(&t, 1000);
    fail.no_move = EBUSY;
    fail.every = 2;
    fail.by_halves = true;
    play(&t, 1000);
    end(&t);
}

/* A forked child shares the pages, so the kernel moves a page only after it was written. The bytes that the child sees
 * do not change. */
TEST(a_living_child_keeps_its_bytes)
{
    struct traffic t;
    int go[2];
    begin(&t, 0);
    play(&t, 1000);
    assert_int_equal(pipe(go), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char byte = 0;
        bool intact = read(go[0], &byte, 1) == 1;
        for (size_t i = 0; i < SLOTS && intact; i++) {
            intact = t.blocks[i] == NULL || has_all(t.blocks[i], t.sizes[i], byte_of(i));
        }
        intact = weir_heap_destroy(t.heap) == WEIR_OK && intact;
        _exit(intact ? 0 : 1);
    }
    play(&t, 1000);
    int status = 1;
    assert_int_equal(write(go[1], "", 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    const uint64_t moved = stats_of(&t).moved_bytes;
    play(&t, 2000); /* the pages are the parent's alone again */
    assert_true(!kernel_moves() || stats_of(&t).moved_bytes > moved);
    end(&t);
    assert_int_equal(close(go[0]) | close(go[1]), 0);
}

/* --- sandboxes --- */

static int refused_by_filter(void)
{
    static const unsigned calls[] = {SYS_userfaultfd};
    struct traffic t;
    if (!deny(calls, 1)) {
        return 0;
    }
    begin(&t, 0);
    play(&t, 1000);
    CHECK(stats_of(&t).moved_bytes == 0 && stats_of(&t).remade_bytes > 0);
    end(&t);
    return 0;
}

static int locked(void)
{
    struct traffic t;
    begin(&t, 0);
    play(&t, 300);
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        return 0; /* not allowed */
    }
    t.is_locked = true;
    play(&t, 1000);
    CHECK(munlockall() == 0);
    end(&t);
    return 0;
}

/* The program's own userfaultfd, over its own memory. */
static int own_file(void)
{
    struct traffic t;
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {.range.len = PAGE, .mode = UFFDIO_REGISTER_MODE_MISSING};
    struct uffdio_copy copy = {.len = PAGE};
    static unsigned char bytes[64 << 10] = {1, 2, 3};
    const int file = (int)__real_syscall(SYS_userfaultfd, O_CLOEXEC | 1, 0, 0, 0, 0, 0);
    if (file < 0 || __real_ioctl(file, UFFDIO_API, &api) != 0) {
        return 0;
    }
    unsigned char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    range.range.start = (uintptr_t)page;
    CHECK(__real_ioctl(file, UFFDIO_REGISTER, &range) == 0);
    begin(&t, 0);
    play(&t, 1000);
    copy.dst = (uintptr_t)page;
    copy.src = (uintptr_t)bytes;
    CHECK(__real_ioctl(file, UFFDIO_COPY, &copy) == 0);
    CHECK(page[0] == 1 && page[2] == 3);
    play(&t, 1000);
    end(&t);
    CHECK(close(file) == 0);
    return 0;
}

TEST(in_other_processes)
{
    int (*const children[])(void) = {refused_by_filter, locked, own_file};
    if (is_emulated()) {
        skip();
    }
    for (size_t i = 0; i < sizeof(children) / sizeof(*children); i++) {
        assert_int_equal(in_child(children[i]), 0);
    }
}
