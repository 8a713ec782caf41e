/* tests/host/preload/family.c: malloc's family as a program sees it. The program knows nothing of weir: every check
 * must hold with the C library's malloc too, and family.sh runs it with both. Prints each check that fails.
 *
 *     family              all checks, and the family in threads, in children, before main and after it
 *     family use          asks for some memory, and holds it at its end
 *     family limit BYTES  asks for memory until there is none, which comes before BYTES, and goes on
 *     family double       frees a block twice; family inside: frees an address inside a block
 *     family signal N F   sends itself the signal N, and waits until the file F is not empty
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* reallocarray, clone */
#endif

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void *__libc_malloc(size_t size);

static int failures;

static void check(bool holds, const char *what)
{
    if (!holds) {
        failures++;
        (void)printf("FAILED: %s\n", what);
    }
}

/* --- before main, and after it --- */

static char *early;

__attribute__((constructor(101))) static void before_main(void)
{
    early = strdup("a block of a constructor");
}

__attribute__((destructor(101))) static void after_main(void)
{
    char *late = strdup(early);
    free(early);
    free(late);
}

/* --- one call --- */

static bool is_aligned(const void *block, size_t align)
{
    return block != NULL && (uintptr_t)block % align == 0;
}

static void sizes(void)
{
    char *blocks[2000];
    for (size_t i = 0; i < 2000; i++) {
        blocks[i] = malloc(i * i / 3);
        check(is_aligned(blocks[i], 16), "malloc gives a multiple of 16, also for 0 bytes");
        check(malloc_usable_size(blocks[i]) >= i * i / 3, "the usable size is at least what was asked for");
        memset(blocks[i], (int)i, i * i / 3);
    }
    for (size_t i = 0; i < 2000; i++) {
        const size_t size = i * i / 3;
        check(size == 0 || (blocks[i][0] == (char)i && blocks[i][size - 1] == (char)i), "blocks do not overlap");
        free(blocks[i]);
    }
    char *zero = calloc(1000, 1000);
    check(zero[0] == 0 && memcmp(zero, zero + 1, 999999) == 0, "calloc gives zeros");
    free(zero);
    check(malloc_usable_size(NULL) == 0, "NULL has no usable size");
}

/* The compiler does not see that a size is too large. */
static volatile size_t huge = SIZE_MAX / 2;

static void refusals(void)
{
    void *untouched = &failures;
    char *volatile block = malloc(100); /* the compiler does not see that it stays valid */
    errno = 0;
    check(malloc(huge) == NULL && errno == ENOMEM, "malloc of half the addresses is ENOMEM");
    errno = 0;
    check(calloc(huge, 4) == NULL && errno == ENOMEM, "calloc whose product overflows is ENOMEM");
    errno = 0;
    check(reallocarray(block, huge, 4) == NULL && errno == ENOMEM, "reallocarray whose product overflows is ENOMEM");
    errno = 0;
    check(realloc(block, huge) == NULL && errno == ENOMEM, "realloc to half the addresses is ENOMEM");
    errno = 0;
    check(memalign(huge + 2, 16) == NULL && errno == EINVAL, "memalign to more than half the addresses is EINVAL");
    check(posix_memalign(&untouched, 24, 16) == EINVAL, "posix_memalign wants a power of two");
    check(posix_memalign(&untouched, 4, 16) == EINVAL, "posix_memalign wants a multiple of a pointer");
    check(posix_memalign(&untouched, 64, huge) == ENOMEM, "posix_memalign without memory");
    check(untouched == &failures, "posix_memalign that fails writes nothing");
    check(realloc(block, 0) == NULL, "realloc to 0 frees");
    errno = EDOM;
    free(malloc(100));
    free(NULL);
    check(errno == EDOM, "free leaves errno");
}

static void alignments(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t align = 8; align <= 8 << 20; align *= 2) {
        void *blocks[3] = {memalign(align, 100), aligned_alloc(align, 2 * align), NULL};
        check(posix_memalign(&blocks[2], align, 5 * align) == 0, "posix_memalign");
        for (size_t i = 0; i < 3; i++) {
            check(is_aligned(blocks[i], align), "aligned blocks are aligned");
            blocks[i] = realloc(blocks[i], 3 * align);
            free(blocks[i]);
        }
    }
    static volatile size_t alignment = 24; /* a compiler refuses the constant */
    void *odd = memalign(alignment, 100);
    void *whole = pvalloc(page + 1);
    void *some = valloc(1);
    check(is_aligned(odd, 32), "memalign rounds an alignment up to a power of two");
    check(is_aligned(whole, page) && malloc_usable_size(whole) >= 2 * page, "pvalloc gives whole pages");
    check(is_aligned(some, page), "valloc gives a page");
    free(odd);
    free(whole);
    free(some);
}

static void resizes(void)
{
    char *block = NULL;
    for (size_t size = 1; size < 5 << 20; size = size * 3 / 2 + 1) {
        block = realloc(block, size);
        block[size - 1] = (char)size;
        check(block[0] == 1, "realloc keeps the contents");
        block[0] = 1;
    }
    block = reallocarray(block, 10, 10);
    check(block != NULL && block[0] == 1, "a shrink keeps the contents");
    free(block);
}

/* Blocks of the C library itself: of functions that allocate, and from its own malloc. */
static void foreign(void)
{
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (getline(&line, &room, file) > 0) {
    }
    (void)fclose(file);
    free(line);
    char *own = __libc_malloc(100);
    (void)snprintf(own, 100, "of the C library");
    check(malloc_usable_size(own) >= 100, "the size of a block of the C library's own malloc");
    own = realloc(own, 100000);
    check(strcmp(own, "of the C library") == 0, "a block of the C library's own malloc is resized");
    free(own);
    free(__libc_malloc(100));
}

static void questions(void)
{
    const struct mallinfo2 before = mallinfo2();
    char *block = malloc(10 << 20);
    const struct mallinfo2 after = mallinfo2();
    check(after.uordblks + after.hblkhd >= before.uordblks + before.hblkhd + (10 << 20), "mallinfo2 counts a block");
    free(block);
    check(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1, "mallopt accepts a parameter");
    (void)malloc_trim(0);
}

/* --- threads --- */

enum { THREADS = 8, ROUNDS = 2000, MOST = 64 };

static pthread_key_t at_end;
static void *passed[THREADS][MOST];

static void free_at_end(void *block)
{
    char *another = strdup(block);
    free(block);
    free(another);
}

static void *work(void *argument)
{
    const size_t own = (size_t)(uintptr_t)argument;
    uint64_t seed = own + 1;
    (void)pthread_setspecific(at_end, strdup("freed after the thread's last call"));
    for (size_t i = 0; i < ROUNDS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        void **slot = &passed[own][(seed >> 33) % MOST];
        *slot = realloc(*slot, (seed >> 40) % 20000 + 1);
        memset(*slot, (int)own, 1);
    }
    return NULL;
}

static void threads(void)
{
    (void)pthread_key_create(&at_end, free_at_end);
    for (size_t round = 0; round < 4; round++) {
        pthread_t all[THREADS];
        for (size_t i = 0; i < THREADS; i++) {
            (void)pthread_create(&all[i], NULL, work, (void *)(uintptr_t)i);
        }
        for (size_t i = 0; i < THREADS; i++) {
            (void)pthread_join(all[i], NULL);
        }
    }
    for (size_t i = 0; i < THREADS * MOST; i++) {
        free(passed[i / MOST][i % MOST]); /* blocks of threads that have ended */
    }
}

/* --- children --- */

static bool ends_well(pid_t child)
{
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static atomic_bool stop;

static void *noise(void *argument)
{
    while (!stop) {
        free(malloc(30000));
        free(malloc(100));
    }
    return argument;
}

/* What a child does with blocks of its parents and of its own. */
static int in_child(char *small, char *large)
{
    int wrong = strcmp(small, "small") != 0 || malloc_usable_size(small) < 6 || malloc_usable_size(large) < 300000;
    small = realloc(small, 1000);
    wrong += small == NULL || strcmp(small, "small") != 0;
    large = realloc(large, 10);
    wrong += large == NULL || large[0] != 'x';
    free(small);
    free(large);
    for (size_t i = 0; i < 1000; i++) {
        free(malloc(i * 7));
    }
    return wrong;
}

/* Each child has a child, with blocks of all generations. */
static int generations(size_t left)
{
    char *block = strdup("small");
    char *large = malloc(300000);
    large[0] = 'x';
    const pid_t child = left > 0 ? fork() : -1;
    if (child == 0) {
        _exit(in_child(block, large) + generations(left - 1));
    }
    const int wrong = left > 0 && !ends_well(child);
    free(block);
    free(large);
    return wrong;
}

static void children(void)
{
    pthread_t other;
    char *small = strdup("small");
    char *large = malloc(300000);
    char *spare = strdup("freed by the parent and by each child");
    large[0] = 'x';
    (void)pthread_create(&other, NULL, noise, NULL);
    for (int i = 0; i < 20; i++) {
        const pid_t child = fork();
        if (child == 0) {
            free(spare);
            _exit(in_child(small, large));
        }
        check(ends_well(child), "a child of a process with threads");
    }
    stop = true;
    (void)pthread_join(other, NULL);
    const pid_t unseen = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); /* no handler of fork runs */
    if (unseen == 0) {
        _exit(in_child(small, large));
    }
    check(ends_well(unseen), "a child that the C library does not know of");
    check(generations(40) == 0, "children of children");
    const pid_t other_program = vfork();
    if (other_program == 0) {
        (void)execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    check(ends_well(other_program), "a child of vfork");
    check(strcmp(small, "small") == 0 && large[0] == 'x', "the parent's blocks are as they were");
    free(spare);
    free(small);
    free(large);
}

/* --- modes --- */

static int at_limit(size_t most)
{
    static void *blocks[100000];
    size_t count = 0;
    size_t bytes = 0;
    errno = 0;
    while (count < 100000 && bytes < most && (blocks[count] = malloc(count % 3 * 20000 + 500)) != NULL) {
        bytes += count++ % 3 * 20000 + 500;
    }
    const int why = errno;
    check(bytes < most && bytes > most / 8, "a process at its limit gets no more");
    check(why == ENOMEM, "and the reason is ENOMEM");
    check(count > 0 && realloc(blocks[0], most) == NULL, "nor by realloc");
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
    }
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(i % 3 * 20000 + 500);
        check(blocks[i] != NULL, "what was freed is there again");
    }
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
    }
    return failures != 0;
}

static int use(void)
{
    static char *held;
    held = malloc(5000000);
    memset(held, 1, 5000000);
    return 0;
}

static int free_wrongly(bool inside)
{
    static char *volatile block; /* the compiler does not see what it holds */
    block = malloc(1000);
    if (inside) {
        free(block + 16);
    } else {
        free(block);
        free(block);
    }
    return 0;
}

static int wait_for_report(int number, const char *path)
{
    struct stat facts = {.st_size = 0};
    (void)raise(number);
    while (stat(path, &facts) != 0 || facts.st_size == 0) {
        (void)usleep(1000);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "limit") == 0) {
        return at_limit((size_t)atoll(argv[2]));
    }
    if (argc > 3 && strcmp(argv[1], "signal") == 0) {
        return wait_for_report(atoi(argv[2]), argv[3]);
    }
    if (argc > 1 && strcmp(argv[1], "use") == 0) {
        return use();
    }
    if (argc > 1) {
        return free_wrongly(strcmp(argv[1], "inside") == 0);
    }
    check(early != NULL, "a constructor gets memory");
    sizes();
    refusals();
    alignments();
    resizes();
    foreign();
    questions();
    threads();
    children();
    (void)printf("%d failures\n", failures);
    return failures != 0;
}
