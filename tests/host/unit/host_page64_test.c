/* tests/host/unit/host_page64_test.c: host pools and heaps where a page of the system has 64 KiB, as on many ARM64
 * machines.
 *
 * The program is linked with --wrap for sysconf and the calls that map memory. The stand-ins behave as such a kernel
 * does: an address that is no multiple of 64 KiB is refused, and a length is rounded up. So advice for a part of a page
 * reaches the neighbours, as on such a kernel.
 */
#include "rig/test.h"

#include <weir/heap.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((size_t)64 << 10)

/* --- such a kernel --- */

long __real_sysconf(int name);
void *__real_mmap(void *at, size_t size, int access, int flags, int file, off_t offset);
int __real_munmap(void *memory, size_t size);
int __real_mprotect(void *memory, size_t size, int access);
int __real_madvise(void *memory, size_t size, int advice);
long __wrap_sysconf(int name);
void *__wrap_mmap(void *at, size_t size, int access, int flags, int file, off_t offset);
int __wrap_munmap(void *memory, size_t size);
int __wrap_mprotect(void *memory, size_t size, int access);
int __wrap_madvise(void *memory, size_t size, int advice);

static unsigned refusals; /* number of calls with an address inside a page */

static size_t whole(size_t size)
{
    return (size + PAGE - 1) & ~(PAGE - 1);
}

static bool is_inside_page(const void *memory)
{
    if ((uintptr_t)memory % PAGE == 0) {
        return false;
    }
    refusals++;
    errno = EINVAL;
    return true;
}

long __wrap_sysconf(int name)
{
    return name == _SC_PAGESIZE ? (long)PAGE : __real_sysconf(name);
}

/* Maps the size at a free address that is a multiple of PAGE: maps one page more, and unmaps the ends outside the
 * aligned part. */
static void *map_anywhere(size_t size, int access, int flags, int file, off_t offset)
{
    char *start = __real_mmap(NULL, whole(size) + PAGE, access, flags, file, offset);
    if (start == MAP_FAILED) {
        return start;
    }
    char *aligned = (char *)whole((uintptr_t)start);
    if (aligned > start) {
        (void)__real_munmap(start, (size_t)(aligned - start));
    }
    (void)__real_munmap(aligned + whole(size), PAGE - (size_t)(aligned - start));
    return aligned;
}

void *__wrap_mmap(void *at, size_t size, int access, int flags, int file, off_t offset)
{
    if (at == NULL) {
        return map_anywhere(size, access, flags, file, offset);
    }
    return is_inside_page(at) ? MAP_FAILED : __real_mmap(at, whole(size), access, flags, file, offset);
}

int __wrap_munmap(void *memory, size_t size)
{
    return is_inside_page(memory) ? -1 : __real_munmap(memory, whole(size));
}

int __wrap_mprotect(void *memory, size_t size, int access)
{
    return is_inside_page(memory) ? -1 : __real_mprotect(memory, whole(size), access);
}

int __wrap_madvise(void *memory, size_t size, int advice)
{
    return is_inside_page(memory) ? -1 : __real_madvise(memory, whole(size), advice);
}

/* --- blocks keep their contents while neighbours come and go --- */

enum { BLOCKS = 256 };

static bool holds(const unsigned char *block, size_t size, size_t i)
{
    for (size_t k = 0; k < size; k++) {
        if (block[k] != (unsigned char)(i + 1)) {
            return false;
        }
    }
    return true;
}

static void play(weir_host_pool *pool, size_t size)
{
    unsigned char *blocks[BLOCKS] = {0};
    for (size_t i = 0; i < BLOCKS; i++) {
        assert_int_equal(weir_host_alloc(pool, size, WEIR_HOST_THREAD_NODE, (void **)&blocks[i]), WEIR_OK);
        memset(blocks[i], (int)(i + 1) & 255, size);
    }
    for (size_t step = 2; step <= 4; step++) {
        for (size_t i = 0; i < BLOCKS; i += step) {
            assert_int_equal(weir_host_free(pool, blocks[i]), WEIR_OK);
            blocks[i] = NULL;
        }
        assert_int_equal(weir_host_trim(pool, 0, NULL), WEIR_OK);
        assert_int_equal(weir_host_check(pool, NULL), WEIR_OK);
        for (size_t i = 0; i < BLOCKS; i++) {
            assert_true(blocks[i] == NULL || holds(blocks[i], size, i));
        }
        for (size_t i = 0; i < BLOCKS; i += step) {
            assert_int_equal(weir_host_alloc(pool, size, WEIR_HOST_THREAD_NODE, (void **)&blocks[i]), WEIR_OK);
            memset(blocks[i], (int)(i + 1) & 255, size);
        }
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        assert_true(holds(blocks[i], size, i));
        assert_int_equal(weir_host_free(pool, blocks[i]), WEIR_OK);
    }
}

TEST(test_pageable_chunks)
{
    static const uint64_t chunks[] = {16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 0};
    static const size_t sizes[] = {1000, 8000, 16 * KIB, 20000, 60000};
    for (size_t c = 0; c < sizeof(chunks) / sizeof(*chunks); c++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
            weir_host_pool *pool = NULL;
            weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
            config.flags = WEIR_HOST_PAGEABLE | WEIR_HOST_NO_PAD;
            config.chunk_bytes = chunks[c];
            assert_int_equal(weir_host_pool_create(&config, &pool), WEIR_OK);
            play(pool, sizes[i]);
            weir_host_stats stats = WEIR_HOST_STATS_INIT;
            assert_int_equal(weir_host_get_stats(pool, WEIR_HOST_ANY_NODE, &stats), WEIR_OK);
            assert_true(stats.peak_held_bytes > 0 && stats.peak_held_bytes % PAGE == 0);
            assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
        }
    }
    assert_int_equal(refusals, 0);
}

/* A limit halves chunks, but not below a page. */
TEST(test_limit_below_a_page)
{
    weir_host_pool *pool = NULL;
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.flags = WEIR_HOST_PAGEABLE | WEIR_HOST_NO_PAD;
    config.limit_bytes = 32 * KIB;
    assert_int_equal(weir_host_pool_create(&config, &pool), WEIR_OK);
    void *ptr = NULL;
    assert_int_equal(weir_host_alloc(pool, 100, WEIR_HOST_THREAD_NODE, &ptr), WEIR_ERR_LIMIT);
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
}

TEST(test_steps)
{
    weir_host_pool *pool = NULL;
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.flags = WEIR_HOST_ALLOW_UNPINNED;
    config.kinds = 1u << WEIR_HOST_UNPINNED;
    config.chunk_bytes = 2 * MIB;
    assert_int_equal(weir_host_pool_create(&config, &pool), WEIR_OK);
    play(pool, 20000);
    play(pool, 70000);
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
    assert_int_equal(refusals, 0);
}

static void *runtime_memory;

static weir_status pinned_alloc(void *ctx, uint64_t size, void **memory)
{
    (void)ctx;
    char *got = __real_mmap(NULL, size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) {
        return WEIR_ERR_NO_MEMORY;
    }
    runtime_memory = got;
    *memory = got + ((uintptr_t)got % PAGE == 0 ? 4096 : 0); /* at 4 KiB, in the middle of a page */
    return WEIR_OK;
}

static weir_status pinned_free(void *ctx, void *memory, uint64_t size)
{
    (void)ctx, (void)memory;
    return __real_munmap(runtime_memory, size + PAGE) == 0 ? WEIR_OK : WEIR_ERR_DEVICE;
}

/* The runtime gives memory that begins inside a page. madvise cannot keep such memory out of a child, so this kind of
 * memory is refused. */
TEST(test_runtime_memory_inside_a_page)
{
    const weir_host_runtime_ops ops = {
        .struct_size = sizeof(ops), .pinned_alloc = pinned_alloc, .pinned_free = pinned_free};
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    weir_host_pool *pool = NULL;
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    runtime.ops = &ops;
    config.runtime = &runtime;
    config.kinds = 1u << WEIR_HOST_RUNTIME;
    assert_int_equal(weir_host_pool_create(&config, &pool), WEIR_OK);
    void *ptr = NULL;
    char why[1000];
    assert_int_equal(weir_host_alloc(pool, 100, WEIR_HOST_THREAD_NODE, &ptr), WEIR_ERR_NO_MEMORY);
    assert_true(weir_host_explain(pool, WEIR_HOST_THREAD_NODE, why, sizeof(why)) > 0);
    assert_non_null(strstr(why, "does not begin at a page of the system"));
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
    assert_int_equal(refusals, 0);
}

TEST(test_heap)
{
    weir_heap *heap = NULL;
    unsigned char *blocks[BLOCKS] = {0};
    size_t sizes[BLOCKS] = {0};
    uint64_t seed = 4711;
    assert_int_equal(weir_heap_create(NULL, &heap), WEIR_OK);
    for (int step = 0; step < 20000; step++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        const size_t i = seed >> 32 & (BLOCKS - 1);
        assert_true(blocks[i] == NULL || holds(blocks[i], sizes[i], i));
        assert_int_equal(weir_heap_free(heap, blocks[i]), WEIR_OK);
        sizes[i] = 1 + (seed >> 40) % (step % 3 == 0 ? 100000 : 5000);
        blocks[i] = weir_heap_alloc(heap, sizes[i]);
        assert_non_null(blocks[i]);
        memset(blocks[i], (int)(i + 1) & 255, sizes[i]);
        if (step % 1000 == 0) {
            assert_int_equal(weir_heap_trim(heap, 0, NULL), WEIR_OK);
            assert_int_equal(weir_heap_check(heap, NULL), WEIR_OK);
        }
    }
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    assert_int_equal(weir_heap_get_stats(heap, &stats), WEIR_OK);
    assert_int_equal(stats.held_bytes % PAGE, 0);
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
    assert_int_equal(refusals, 0);
}
