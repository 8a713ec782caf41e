/* tests/host/unit/heap_pages_test.c: which pages of a heap's memory are made, by how many calls, and which the system
 * takes back: memory that is never touched, locked memory, and calls that the system refuses or interrupts without
 * end. */
#include "rig/heap.h"
#include "rig/resident.h"
#include "sandbox.h"

#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE /* old headers lack it */
#define MADV_POPULATE_WRITE 23
#endif

/* --- system calls --- */

static struct {
    int populate;     /* errno with which each call fails that makes pages; 0: it works */
    bool keeps_pages; /* advice is refused, and new mappings have pages at once, as if the process locked them */
    int makes, drops; /* calls */
    size_t made_bytes;
} calls;

int __real_madvise(void *start, size_t size, int advice);
int __wrap_madvise(void *start, size_t size, int advice);
void *__real_mmap(void *start, size_t size, int access, int flags, int file, off_t offset);
void *__wrap_mmap(void *start, size_t size, int access, int flags, int file, off_t offset);

int __wrap_madvise(void *start, size_t size, int advice)
{
    if (advice == MADV_POPULATE_WRITE) {
        calls.makes++;
        calls.made_bytes += size;
        if (calls.populate != 0) {
            errno = calls.populate;
            return -1;
        }
    } else if (advice != MADV_NOHUGEPAGE) {
        calls.drops++;
        if (calls.keeps_pages) {
            errno = EPERM;
            return -1;
        }
    }
    return __real_madvise(start, size, advice);
}

void *__wrap_mmap(void *start, size_t size, int access, int flags, int file, off_t offset)
{
    const bool is_locked = calls.keeps_pages && (flags & MAP_FIXED) != 0;
    return __real_mmap(start, size, access, is_locked ? flags | MAP_POPULATE : flags, file, offset);
}

static weir_heap *fresh_heap(void)
{
    memset(&calls, 0, sizeof(calls));
    return heap_with(0, 0, 0);
}

static bool is_zero(const unsigned char *block, size_t size)
{
    return block[0] == 0 && memcmp(block, block + 1, size - 1) == 0;
}

/* --- memory that is not touched --- */

TEST(test_a_large_block_that_nobody_touches_is_not_resident)
{
    if (is_emulated()) {
        skip(); /* which pages are resident is the emulator's matter */
    }
    weir_heap *heap = fresh_heap();
    const uint64_t before = resident_bytes();
    unsigned char *block = weir_heap_alloc(heap, 256 * MIB);
    unsigned char *zeros = weir_heap_alloc_zeroed(heap, 256, MIB);
    unsigned char *weights = weir_heap_alloc_long_lived(heap, 256 * MIB, 64);
    assert_true(block != NULL && zeros != NULL && weights != NULL);
    block[5] = zeros[7] = weights[9] = 1;
    assert_true(resident_bytes() < before + 8 * MIB);
    assert_true(stats_of(heap).held_bytes >= 768 * MIB);
    assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
    assert_int_equal(weir_heap_free(heap, zeros), WEIR_OK);
    assert_int_equal(weir_heap_free(heap, weights), WEIR_OK);
    end_heap(heap);
}

TEST(test_a_block_that_grows_is_not_resident)
{
    weir_heap *heap = fresh_heap();
    unsigned char *block = weir_heap_alloc(heap, 4 * MIB);
    const uint64_t before = resident_bytes();
    block = weir_heap_realloc(heap, block, 256 * MIB);
    assert_non_null(block);
    assert_true(resident_bytes() < before + 8 * MIB);
    assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
    end_heap(heap);
}

/* A small block after a large one that was not touched has its pages. */
TEST(test_small_blocks_have_their_pages)
{
    if (is_emulated()) {
        skip(); /* which pages are resident is the emulator's matter */
    }
    weir_heap *heap = fresh_heap();
    void *large = weir_heap_alloc(heap, 64 * MIB);
    assert_int_equal(weir_heap_free(heap, large), WEIR_OK);
    assert_int_equal(calls.makes, 0);
    const uint64_t before = resident_bytes();
    void *block = weir_heap_alloc(heap, 512 * KIB);
    assert_non_null(block);
    assert_int_equal(calls.makes, 1);
    assert_int_equal(calls.made_bytes, 512 * KIB);
    assert_true(resident_bytes() >= before + 448 * KIB);
    assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
    block = weir_heap_alloc(heap, 512 * KIB);
    assert_int_equal(calls.makes, 1); /* they are there */
    assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
    end_heap(heap);
}

TEST(test_zeroed_memory_is_zero)
{
    weir_heap *heap = fresh_heap();
    for (size_t size = 1; size < 40 * MIB; size = size * 3 + 1) {
        unsigned char *block = weir_heap_alloc(heap, size);
        assert_non_null(block);
        for (size_t at = 0; at < size; at += 300 * KIB) { /* pages with bytes between pages without */
            memset(block + at, 0xff, size - at < 10000 ? size - at : 10000);
        }
        assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
        block = weir_heap_alloc_zeroed(heap, 1, size);
        assert_non_null(block);
        assert_true(is_zero(block, size));
        memset(block, 0xff, size);
        assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
        block = weir_heap_alloc_zeroed(heap, 1, size);
        assert_true(is_zero(block, size));
        assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
    }
    end_heap(heap);
}

TEST(test_a_trim_drops_a_run_of_pages_by_few_calls)
{
    weir_heap *heap = fresh_heap();
    unsigned char *block = weir_heap_alloc(heap, 64 * MIB);
    assert_non_null(block);
    memset(block, 1, 64 * MIB);
    assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
    const uint64_t before = resident_bytes();
    calls.drops = 0;
    assert_int_equal(weir_heap_trim(heap, 0, NULL), WEIR_OK);
    assert_true(resident_bytes() + 60 * MIB < before);
    assert_in_range(calls.drops, 1, 20); /* 1024 chunks of 64 KiB */
    end_heap(heap);
}

/* --- memory that the system does not take back --- */

/* Returns the resident pages. */
static size_t resident_pages(const void *from, size_t size)
{
    static unsigned char pages[16384];
    const uintptr_t page = (uintptr_t)getpagesize();
    const uintptr_t start = (uintptr_t)from & ~(page - 1);
    size_t count = 0;
    if (size / page > sizeof(pages) || mincore((void *)start, size, pages) != 0) {
        return SIZE_MAX;
    }
    for (size_t i = 0; i < size / page; i++) {
        count += pages[i] & 1;
    }
    return count;
}

/* 0: the process locks its memory ahead of the heap; 1: when blocks are live; 2: when they are free. */
static int lock_at;

static int trim_of_locked_memory(void)
{
    enum { BLOCKS = 24 };
    const size_t size = MIB;
    weir_heap *heap = NULL;
    void *blocks[BLOCKS];
    uint64_t released = 0;
    memset(&calls, 0, sizeof(calls));
    const int flags = MCL_CURRENT | MCL_FUTURE;
    if (mlockall(flags) != 0 || (lock_at != 0 && munlockall() != 0)) {
        return 77;
    }
    CHECK(weir_heap_create(NULL, &heap) == WEIR_OK);
    const uint64_t before = resident_bytes();
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = weir_heap_alloc(heap, size);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, size);
    }
    CHECK(lock_at != 1 || mlockall(flags) == 0);
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK(weir_heap_free(heap, blocks[i]) == WEIR_OK);
    }
    CHECK(lock_at != 2 || mlockall(flags) == 0);
    CHECK(weir_heap_trim(heap, 0, &released) == WEIR_OK);
    CHECK(released >= BLOCKS * size && stats_of(heap).held_bytes == 0);
    CHECK(resident_pages(blocks[0], 2 * BLOCKS * size) == 0); /* nor is any page of the addresses ahead resident */
    CHECK(resident_bytes() < before + 8 * MIB);               /* locked tables are resident as a whole */
    void *block = weir_heap_alloc(heap, 2 * MIB);
    CHECK(block != NULL);
    memset(block, 1, 2 * MIB);
    CHECK(weir_heap_free(heap, block) == WEIR_OK && weir_heap_destroy(heap) == WEIR_OK);
    return 0;
}

TEST(test_trim_gives_locked_memory_back)
{
    if (is_emulated()) {
        skip(); /* which pages are resident is the emulator's matter */
    }
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("a sanitizer's shadow cannot be locked\n");
    skip();
#endif
    for (lock_at = 0; lock_at < 3; lock_at++) {
        const int status = in_child(trim_of_locked_memory);
        if (status == 77) {
            print_message("memory cannot be locked here\n");
            skip();
        }
        assert_int_equal(status, 0);
    }
}

TEST(test_memory_that_stays_resident_stays_held)
{
    if (is_emulated()) {
        skip(); /* which pages are resident is the emulator's matter */
    }
    weir_heap *heap = fresh_heap();
    unsigned char *block = weir_heap_alloc(heap, 16 * MIB);
    assert_non_null(block);
    memset(block, 1, 16 * MIB);
    assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
    const uint64_t held = stats_of(heap).held_bytes;
    uint64_t released = 7;
    calls.keeps_pages = true;
    assert_int_equal(weir_heap_trim(heap, 0, &released), WEIR_ERR_DEVICE);
    assert_int_equal(released, 0);
    assert_int_equal(stats_of(heap).held_bytes, held);
    calls.keeps_pages = false;
    assert_int_equal(weir_heap_trim(heap, 0, &released), WEIR_OK);
    assert_int_equal(released, held);
    end_heap(heap);
}

/* --- calls that fail --- */

TEST(test_pages_that_cannot_be_made)
{
    weir_heap *heap = fresh_heap();
    char why[1000];
    calls.populate = ENOMEM;
    assert_null(weir_heap_alloc(heap, 512 * KIB));
    assert_true(weir_heap_explain(heap, why, sizeof(why)) > 0);
    assert_non_null(strstr(why, "making pages"));
    assert_int_equal(stats_of(heap).live_bytes, 0);
    check(heap);
    calls.populate = 0;
    void *block = weir_heap_alloc(heap, 512 * KIB);
    assert_non_null(block);
    assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
    end_heap(heap);
}

/* A call that the system interrupts or asks to repeat without end is not repeated without end. */
TEST(test_calls_are_not_repeated_for_ever)
{
    const int numbers[] = {EAGAIN, EINTR};
    for (size_t i = 0; i < 2; i++) {
        weir_heap *heap = fresh_heap();
        calls.populate = numbers[i];
        unsigned char *block = weir_heap_alloc(heap, 512 * KIB);
        assert_non_null(block);
        memset(block, 1, 512 * KIB);
        assert_int_equal(weir_heap_free(heap, block), WEIR_OK);
        end_heap(heap);
        weir_host_pool *pool = NULL;
        weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
        config.flags = WEIR_HOST_ALLOW_UNPINNED;
        config.kinds = 1u << WEIR_HOST_UNPINNED;
        assert_int_equal(weir_host_pool_create(&config, &pool), WEIR_OK);
        void *pinned = NULL;
        assert_int_equal(weir_host_alloc(pool, MIB, WEIR_HOST_THREAD_NODE, &pinned), WEIR_OK);
        assert_int_equal(weir_host_free(pool, pinned), WEIR_OK);
        assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
        calls.populate = 0;
    }
}
