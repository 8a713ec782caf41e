/* One suite for the host pool, built once for each engine of small blocks and each step of the ladder:
 *
 *   HOST_WASTE_PART   the engine may waste one part in HOST_WASTE_PART of a block; 8 by default
 *   HOST_ENGINE       an expression: the engine's table (HOST_ENGINE_HEADER, if it is not in weir/host.h)
 *   HOST_KIND         the step, as in WEIR_HOST_KIND_LIST; all chunks come from it
 *
 * RUNTIME and REGISTERED chunks come from a stand-in for a device's runtime that the suite checks: calls come in pairs,
 * sizes keep the contract, and all memory is given back at the end.
 */
#if !defined(HOST_WASTE_PART)
#define HOST_WASTE_PART 8
#endif
#if defined(HOST_ENGINE_HEADER)
#include HOST_ENGINE_HEADER
#endif
#include "rig/test.h"

#include <weir/host.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
static const weir_host_kind kind = JOIN(WEIR_HOST_, HOST_KIND);
enum { PAD = 32 };

/* --- a stand-in for a runtime --- */

static struct {
    pthread_mutex_t lock;
    int64_t allocated, registered;
    bool broken;
} runtime_state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void tell(int64_t *counter, int64_t by, bool sound)
{
    (void)pthread_mutex_lock(&runtime_state.lock);
    *counter += by;
    runtime_state.broken |= !sound || *counter < 0;
    (void)pthread_mutex_unlock(&runtime_state.lock);
}

static weir_status pinned_alloc(void *ctx, uint64_t size, void **memory)
{
    (void)ctx;
    void *got = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) {
        return WEIR_ERR_NO_MEMORY;
    }
    tell(&runtime_state.allocated, (int64_t)size, size % (2 * MIB) == 0);
    *memory = got;
    return WEIR_OK;
}

static weir_status pinned_free(void *ctx, void *memory, uint64_t size)
{
    (void)ctx;
    tell(&runtime_state.allocated, -(int64_t)size, munmap(memory, size) == 0);
    return WEIR_OK;
}

static weir_status memory_register(void *ctx, void *memory, uint64_t size)
{
    (void)ctx;
    tell(&runtime_state.registered, (int64_t)size, (uintptr_t)memory % (2 * MIB) == 0 && size % (2 * MIB) == 0);
    return WEIR_OK;
}

static weir_status memory_unregister(void *ctx, void *memory, uint64_t size)
{
    (void)ctx, (void)memory;
    tell(&runtime_state.registered, -(int64_t)size, true);
    return WEIR_OK;
}

static const weir_host_runtime_ops runtime_ops = {
    .struct_size = sizeof(runtime_ops),
    .pinned_alloc = pinned_alloc,
    .pinned_free = pinned_free,
    .memory_register = memory_register,
    .memory_unregister = memory_unregister,
};

/* --- pools --- */

static const weir_topology *machine;
static int pools_open;

static weir_host_pool *pool_with(uint32_t flags, uint64_t limit_bytes)
{
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    runtime.ops = &runtime_ops;
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.flags = flags | (kind == WEIR_HOST_UNPINNED ? (uint32_t)WEIR_HOST_ALLOW_UNPINNED : 0);
    config.kinds = 1u << kind;
    config.topology = machine;
    config.runtime = &runtime;
    config.engine = HOST_ENGINE;
    config.limit_bytes = limit_bytes;
    config.chunk_bytes = 8 * MIB;
    weir_host_pool *pool = NULL;
    assert_int_equal(weir_host_pool_create(&config, &pool), WEIR_OK);
    pools_open++;
    return pool;
}

static void check(weir_host_pool *pool)
{
    const char *why = "";
    if (weir_host_check(pool, &why) != WEIR_OK) {
        fail_msg("%s", why);
    }
}

static weir_host_stats stats_of(weir_host_pool *pool)
{
    weir_host_stats stats = WEIR_HOST_STATS_INIT;
    assert_int_equal(weir_host_get_stats(pool, WEIR_HOST_ANY_NODE, &stats), WEIR_OK);
    return stats;
}

static void end(weir_host_pool *pool)
{
    check(pool);
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
    assert_false(runtime_state.broken);
    if (--pools_open > 0) {
        return;
    }
    assert_int_equal(runtime_state.allocated, 0);
    assert_int_equal(runtime_state.registered, 0);
}

static void *block(weir_host_pool *pool, uint64_t size)
{
    void *ptr = NULL;
    assert_int_equal(weir_host_alloc(pool, size, WEIR_HOST_THREAD_NODE, &ptr), WEIR_OK);
    return ptr;
}

/* --- sizes --- */

/* Sizes at the edges of pads, classes, pages and of the two kinds of blocks, up to 64 MiB. */
static size_t edges(uint64_t *sizes)
{
    size_t count = 0;
    for (unsigned k = 0; k <= 26; k++) {
        const int64_t near[] = {-65, -64, -33, -32, -31, -1, 0, 1, 31, 32, 33, 64};
        for (size_t i = 0; i < sizeof(near) / sizeof(*near) && (k < 20 || i % 5 == 1); i++) {
            const int64_t size = (INT64_C(1) << k) + near[i];
            if (size > 0 && size <= INT64_C(64) << 20) {
                sizes[count++] = (uint64_t)size;
            }
        }
    }
    return count;
}

TEST(test_sizes)
{
    for (uint32_t flags = 0; flags <= WEIR_HOST_NO_PAD; flags += WEIR_HOST_NO_PAD) {
        weir_host_pool *pool = pool_with(flags, 0);
        uint64_t sizes[512];
        const size_t count = edges(sizes);
        for (int round = 0; round < 2; round++) { /* the second round finds filled caches */
            for (size_t i = 0; i < count; i++) {
                unsigned char *ptr = block(pool, sizes[i]);
                assert_int_equal((uintptr_t)ptr % 64, 0);
                weir_host_info info = WEIR_HOST_INFO_INIT;
                assert_int_equal(weir_host_query(pool, ptr + sizes[i] - 1, &info), WEIR_OK);
                assert_ptr_equal(info.block, ptr);
                assert_true(info.size >= sizes[i]);
                /* The documented limit of waste: above 512 bytes the size divided by HOST_WASTE_PART (an eighth with
                 * weir's classes), or a page. */
                const uint64_t least = sizes[i] + (flags == 0 ? PAD : 0);
                assert_true(info.size <= sizes[i] + 63 + (least > 512 ? least / HOST_WASTE_PART : 64) ||
                            info.size <= sizes[i] + 4 * KIB);
                ptr[0] = 1;
                ptr[sizes[i] - 1] = 2;
                assert_int_equal(weir_host_free(pool, ptr), WEIR_OK);
            }
        }
        check(pool);
        assert_int_equal(stats_of(pool).live_bytes, 0);
        end(pool);
    }
}

/* Many live blocks do not overlap, have the pad between them, and keep their contents. */
TEST(test_contents_stay)
{
    enum { COUNT = 600 };
    static unsigned char *blocks[COUNT];
    static uint64_t sizes[COUNT];
    weir_host_pool *pool = pool_with(0, 0);
    uint64_t seed = 7;
    for (int round = 0; round < 3; round++) {
        for (size_t i = round == 0 ? 0 : (size_t)round; i < COUNT; i += round == 0 ? 1 : 2) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            if (round > 0) {
                assert_int_equal(blocks[i][0], (unsigned char)i);
                assert_int_equal(blocks[i][sizes[i] - 1], (unsigned char)(i + 1));
                assert_int_equal(weir_host_free(pool, blocks[i]), WEIR_OK);
            }
            sizes[i] = 2 + (seed >> 33) % (UINT64_C(1) << (8 + seed % 11));
            blocks[i] = block(pool, sizes[i]);
            blocks[i][0] = (unsigned char)i;
            blocks[i][sizes[i] - 1] = (unsigned char)(i + 1);
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(blocks[i][0], (unsigned char)i);
        assert_int_equal(blocks[i][sizes[i] - 1], (unsigned char)(i + 1));
        for (size_t j = 0; j < i; j++) {
            const uintptr_t a = (uintptr_t)blocks[i];
            const uintptr_t b = (uintptr_t)blocks[j];
            assert_true(a + sizes[i] + PAD <= b || b + sizes[j] + PAD <= a);
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(weir_host_free(pool, blocks[i]), WEIR_OK);
    }
    end(pool);
}

TEST(test_alignment)
{
    weir_host_pool *pool = pool_with(0, 0);
    void *kept[32];
    size_t count = 0;
    for (int round = 0; round < 2; round++) {
        for (uint64_t align = 1; align <= 2 * MIB; align *= 2) {
            const uint64_t sizes[] = {1, 100, 4096, 70000, 300000};
            for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
                void *ptr = NULL;
                assert_int_equal(weir_host_alloc_aligned(pool, sizes[i], align, WEIR_HOST_THREAD_NODE, &ptr), WEIR_OK);
                assert_int_equal((uintptr_t)ptr % align, 0);
                assert_int_equal((uintptr_t)ptr % 64, 0);
                memset(ptr, 1, sizes[i]);
                if (align == 2 * MIB || count == 32) {
                    assert_int_equal(weir_host_free_sized(pool, ptr, sizes[i]), WEIR_OK);
                } else if (i == 3) {
                    kept[count++ % 32] = ptr; /* kept live, so that the next block gets another place */
                } else {
                    assert_int_equal(weir_host_free(pool, ptr), WEIR_OK);
                }
            }
        }
        while (count > 0) {
            assert_int_equal(weir_host_free(pool, kept[--count]), WEIR_OK);
        }
    }
    void *ptr = NULL;
    assert_int_equal(weir_host_alloc_aligned(pool, 1, 3, WEIR_HOST_THREAD_NODE, &ptr), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_alloc_aligned(pool, 1, UINT64_C(1) << 46, WEIR_HOST_THREAD_NODE, &ptr),
                     WEIR_ERR_INVALID);
    assert_null(ptr);
    /* Alignments larger than a chunk. If the runtime allocates the chunks, the runtime must pin as many bytes as the
     * alignment. */
    const uint64_t most = kind == WEIR_HOST_RUNTIME ? 32 * MIB : 1024 * MIB;
    for (uint64_t align = 4 * MIB; align <= most; align *= 4) {
        void *two[2] = {NULL, NULL};
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(weir_host_alloc_aligned(pool, 100 + i * 100000, align, WEIR_HOST_THREAD_NODE, &two[i]),
                             WEIR_OK);
            assert_int_equal((uintptr_t)two[i] % align, 0);
            memset(two[i], 1, 100 + i * 100000);
        }
        assert_ptr_not_equal(two[0], two[1]);
        assert_true(kind == WEIR_HOST_RUNTIME || stats_of(pool).held_bytes <= 64 * MIB);
        assert_int_equal(weir_host_free(pool, two[0]), WEIR_OK);
        assert_int_equal(weir_host_free(pool, two[1]), WEIR_OK);
    }
    end(pool);
}

/* --- questions and misuse --- */

TEST(test_query)
{
    weir_host_pool *pool = pool_with(0, 0);
    const uint64_t sizes[] = {1, 64, 4096, 70000, 20 * MIB}; /* the last is larger than a chunk */
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        char *ptr = block(pool, sizes[i]);
        for (uint64_t at = 0; at < sizes[i]; at += 1 + sizes[i] / 37) {
            weir_host_info info = WEIR_HOST_INFO_INIT;
            assert_int_equal(weir_host_query(pool, ptr + at, &info), WEIR_OK);
            assert_ptr_equal(info.block, ptr);
            assert_int_equal(info.kind, kind);
            assert_int_equal(info.is_pinned, kind != WEIR_HOST_UNPINNED);
            assert_true(info.node >= 0);
            assert_true(info.is_verified || info.misplaced_bytes == 0);
        }
        assert_int_equal(weir_host_free(pool, ptr), WEIR_OK);
    }
    weir_host_info info = WEIR_HOST_INFO_INIT;
    char *large = block(pool, 70000);
    assert_int_equal(weir_host_free(pool, large), WEIR_OK);
    assert_int_equal(weir_host_query(pool, large, &info), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_query(pool, &info, &info), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_query(pool, NULL, &info), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_query(NULL, &info, &info), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_query(pool, &info, NULL), WEIR_ERR_INVALID);
    info.struct_size = 0;
    large = block(pool, 1);
    assert_int_equal(weir_host_query(pool, large, &info), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_free(pool, large), WEIR_OK);
    end(pool);
}

TEST(test_bad_input)
{
    weir_host_pool *pool = pool_with(0, 0);
    weir_host_pool *other = pool_with(0, 0);
    void *untouched = &pool;
    void *ptr = untouched;
    assert_int_equal(weir_host_alloc(pool, 0, WEIR_HOST_THREAD_NODE, &ptr), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_alloc(pool, UINT64_MAX, WEIR_HOST_THREAD_NODE, &ptr), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_alloc(pool, UINT64_MAX - 30, WEIR_HOST_THREAD_NODE, &ptr), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_alloc(pool, 64, 4711, &ptr), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_alloc(pool, 64, -3, &ptr), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_alloc(NULL, 64, WEIR_HOST_THREAD_NODE, &ptr), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_alloc(pool, 64, WEIR_HOST_THREAD_NODE, NULL), WEIR_ERR_INVALID);
    assert_ptr_equal(ptr, untouched);
    assert_int_equal(weir_host_free(NULL, &ptr), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_free(pool, NULL), WEIR_OK);
    assert_int_equal(weir_host_free_sized(pool, NULL, 3), WEIR_OK);
    assert_int_equal(weir_host_free(pool, &ptr), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_free(pool, (void *)(uintptr_t)64), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_free(pool, (void *)UINTPTR_MAX), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_free_after(pool, &ptr, NULL), WEIR_ERR_UNSUPPORTED);
    assert_int_equal(weir_host_free_after(NULL, &ptr, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_stream_retire(pool, NULL), WEIR_ERR_UNSUPPORTED);
    assert_int_equal(weir_host_stream_retire(NULL, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_trim(NULL, 0, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_check(NULL, NULL), WEIR_ERR_INVALID);
    weir_host_stats stats = WEIR_HOST_STATS_INIT;
    assert_int_equal(weir_host_get_stats(pool, 4711, &stats), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_get_stats(pool, WEIR_HOST_ANY_NODE, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_get_stats(NULL, WEIR_HOST_ANY_NODE, &stats), WEIR_ERR_INVALID);
    const uint64_t sizes[] = {100, 5000, 100000};
    for (size_t i = 0; i < 3; i++) {
        char *mine = block(pool, sizes[i]);
        assert_int_equal(weir_host_free(other, mine), WEIR_ERR_INVALID);
        assert_int_equal(weir_host_free(pool, mine + 1), WEIR_ERR_INVALID);
        assert_int_equal(weir_host_free(pool, mine + 64), WEIR_ERR_INVALID);
        assert_int_equal(weir_host_free_sized(pool, mine, 0), WEIR_ERR_INVALID);
        assert_int_equal(weir_host_free_sized(pool, mine, sizes[i] * 2), WEIR_ERR_INVALID);
        assert_int_equal(weir_host_free_sized(pool, mine, sizes[i] / 2), WEIR_ERR_INVALID);
        assert_int_equal(weir_host_free_sized(pool, mine, UINT64_MAX), WEIR_ERR_INVALID);
        assert_int_equal(stats_of(pool).allocs - stats_of(pool).frees, 1); /* the refused calls lost nothing */
        assert_int_equal(weir_host_free_sized(pool, mine, sizes[i]), WEIR_OK);
    }
    end(other);
    end(pool);
}

static const uint64_t twice_sizes[] = {1, 100, 500, 1000, 4000, 10000, 16384, 40000, 60000, 65536, 100000, 1 << 20};
enum { TWICE_SIZES = sizeof(twice_sizes) / sizeof(*twice_sizes), MANY = 200 };

/* Checks that every call refuses the freed block and changes nothing. */
static void refuses(weir_host_pool *pool, void *freed, uint64_t size)
{
    const weir_host_stats before = stats_of(pool);
    weir_host_info info = WEIR_HOST_INFO_INIT;
    assert_int_equal(weir_host_free(pool, freed), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_free(pool, freed), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_free_sized(pool, freed, size), WEIR_ERR_INVALID);
    assert_int_equal(weir_host_query(pool, freed, &info), WEIR_ERR_INVALID);
    assert_int_equal(stats_of(pool).frees, before.frees);
    assert_int_equal(stats_of(pool).live_bytes, before.live_bytes);
}

/* Checks that the next blocks are all different. */
static void all_differ(weir_host_pool *pool, uint64_t size)
{
    enum { COUNT = 40 };
    void *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = block(pool, size);
        for (size_t j = 0; j < i; j++) {
            assert_ptr_not_equal(blocks[i], blocks[j]);
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(weir_host_free(pool, blocks[i]), WEIR_OK);
    }
}

struct freeing {
    weir_host_pool *pool;
    void *block;
    weir_status status;
};

static void *free_block(void *freeing_)
{
    struct freeing *f = freeing_;
    f->status = weir_host_free(f->pool, f->block);
    return NULL;
}

static weir_status free_by_another_thread(weir_host_pool *pool, void *ptr)
{
    struct freeing f = {.pool = pool, .block = ptr};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, free_block, &f), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return f.status;
}

TEST(test_double_free)
{
    for (uint32_t flags = 0; flags <= WEIR_HOST_NO_THREAD_CACHE; flags += WEIR_HOST_NO_THREAD_CACHE) {
        weir_host_pool *pool = pool_with(flags, 0);
        for (size_t i = 0; i < TWICE_SIZES; i++) {
            const uint64_t size = twice_sizes[i];
            void *keeper = block(pool, size); /* keeps the slab alive */
            void *first = block(pool, size);
            void *second = block(pool, size);
            assert_int_equal(weir_host_free(pool, first), WEIR_OK);
            refuses(pool, first, size);
            assert_int_equal(weir_host_free(pool, second), WEIR_OK);
            refuses(pool, first, size);
            assert_int_equal(weir_host_free(pool, (char *)first + 64), WEIR_ERR_INVALID);
            all_differ(pool, size);
            refuses(pool, second, size);
            assert_int_equal(weir_host_free(pool, keeper), WEIR_OK);
            assert_int_equal(stats_of(pool).live_bytes, 0);
        }
        end(pool);
    }
}

/* A freed block may lie in a thread's cache or in the engine, or its slab may be gone. A second free is refused in each
 * case. */
TEST(test_double_free_after_others)
{
    weir_host_pool *pool = pool_with(0, 0);
    for (size_t i = 0; i < TWICE_SIZES; i++) {
        const uint64_t size = twice_sizes[i];
        void *blocks[MANY];
        for (size_t j = 0; j < MANY; j++) {
            blocks[j] = block(pool, size);
        }
        for (size_t j = 0; j < MANY; j++) {
            assert_int_equal(weir_host_free(pool, blocks[j]), WEIR_OK);
        }
        for (size_t j = 0; j < MANY; j++) {
            refuses(pool, blocks[j], size);
        }
        assert_int_equal(weir_host_trim(pool, 0, NULL), WEIR_OK);
        for (size_t j = 0; j < MANY; j++) {
            refuses(pool, blocks[j], size);
        }
        all_differ(pool, size);
    }
    end(pool);
}

TEST(test_double_free_by_another_thread)
{
    weir_host_pool *pool = pool_with(0, 0);
    for (size_t i = 0; i < TWICE_SIZES; i++) {
        const uint64_t size = twice_sizes[i];
        void *keeper = block(pool, size);
        void *mine = block(pool, size);
        void *theirs = block(pool, size);
        assert_int_equal(weir_host_free(pool, mine), WEIR_OK);
        assert_int_equal(free_by_another_thread(pool, mine), WEIR_ERR_INVALID);
        assert_int_equal(free_by_another_thread(pool, theirs), WEIR_OK);
        refuses(pool, theirs, size);
        assert_int_equal(free_by_another_thread(pool, theirs), WEIR_ERR_INVALID);
        all_differ(pool, size);
        assert_int_equal(free_by_another_thread(pool, keeper), WEIR_OK);
        refuses(pool, keeper, size);
    }
    assert_int_equal(stats_of(pool).live_bytes, 0);
    end(pool);
}

/* --- figures --- */

TEST(test_stats_add_up)
{
    enum { COUNT = 64 };
    void *blocks[COUNT];
    uint64_t requested = 0;
    weir_host_pool *pool = pool_with(0, 0);
    assert_int_equal(stats_of(pool).held_bytes, 0);
    for (size_t i = 0; i < COUNT; i++) {
        const uint64_t size = 1 + i * i * 97;
        requested += size;
        blocks[i] = block(pool, size);
    }
    weir_host_stats stats = stats_of(pool);
    assert_int_equal(stats.allocs, COUNT);
    assert_int_equal(stats.frees, 0);
    assert_int_equal(stats.pad_bytes, COUNT * PAD);
    assert_true(stats.live_bytes >= requested + stats.pad_bytes);
    assert_true(stats.live_bytes + stats.cached_bytes <= stats.held_bytes);
    assert_int_equal(stats.kind_bytes[kind], stats.held_bytes);
    assert_int_equal(stats.pinned_bytes, kind == WEIR_HOST_UNPINNED ? 0 : stats.held_bytes);
    assert_int_equal(stats.unpinned_bytes, stats.held_bytes - stats.pinned_bytes);
    assert_int_equal(stats.peak_held_bytes, stats.held_bytes);
    assert_int_equal(stats.pending_bytes, 0);
    assert_true(stats.chunks >= 1 && stats.pin_ns > 0);
    const uint64_t live = stats.live_bytes;
    uint64_t taken = 0;
    for (size_t i = 0; i < COUNT; i++) {
        weir_host_info info = WEIR_HOST_INFO_INIT;
        assert_int_equal(weir_host_query(pool, blocks[i], &info), WEIR_OK);
        taken += info.size + PAD;
    }
    assert_int_equal(taken, live); /* the blocks' sizes add up to the pool's count */
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(weir_host_free(pool, blocks[i]), WEIR_OK);
    }
    stats = stats_of(pool);
    assert_int_equal(stats.frees, COUNT);
    assert_int_equal(stats.live_bytes, 0);
    assert_int_equal(stats.pad_bytes, 0);
    weir_host_stats home = WEIR_HOST_STATS_INIT;
    assert_int_equal(weir_host_get_stats(pool, WEIR_HOST_THREAD_NODE, &home), WEIR_OK);
    assert_true(home.held_bytes <= stats.held_bytes);
    uint64_t released = 0;
    assert_int_equal(weir_host_trim(pool, 0, &released), WEIR_OK);
    assert_int_equal(released, stats.held_bytes);
    stats = stats_of(pool);
    assert_int_equal(stats.held_bytes + stats.cached_bytes + stats.chunks + stats.pinned_bytes, 0);
    assert_true(stats.unpin_ns > 0);
    end(pool);
}

TEST(test_trim_keeps_what_is_asked)
{
    weir_host_pool *pool = pool_with(0, 0);
    void *blocks[6];
    for (size_t i = 0; i < 6; i++) {
        blocks[i] = block(pool, 7 * MIB);
    }
    const uint64_t held = stats_of(pool).held_bytes;
    assert_true(held >= 42 * MIB);
    memset(blocks[3], 3, 7 * MIB);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(i == 3 ? WEIR_OK : weir_host_free(pool, blocks[i]), WEIR_OK);
    }
    uint64_t released = 0;
    assert_int_equal(weir_host_trim(pool, 24 * MIB, &released), WEIR_OK);
    uint64_t left = stats_of(pool).held_bytes;
    assert_int_equal(left, held - released);
    assert_true(left <= 24 * MIB && left > 8 * MIB);
    assert_int_equal(weir_host_trim(pool, 0, NULL), WEIR_OK);
    left = stats_of(pool).held_bytes;
    assert_true(left >= 7 * MIB && left <= 16 * MIB); /* memory of the live block */
    assert_int_equal(((char *)blocks[3])[7 * MIB - 1], 3);
    assert_int_equal(weir_host_free(pool, blocks[3]), WEIR_OK);
    assert_int_equal(weir_host_trim(pool, 0, NULL), WEIR_OK);
    assert_int_equal(stats_of(pool).held_bytes, 0);
    end(pool);
}

TEST(test_limit)
{
    weir_host_pool *pool = pool_with(0, 24 * MIB);
    void *blocks[64];
    size_t count = 0;
    weir_status status = WEIR_OK;
    while (count < 64 && status == WEIR_OK) {
        blocks[count] = NULL;
        status = weir_host_alloc(pool, MIB, WEIR_HOST_THREAD_NODE, &blocks[count]);
        count += status == WEIR_OK;
    }
    assert_int_equal(status, WEIR_ERR_LIMIT);
    assert_null(blocks[count]);
    assert_true(count >= 20 && count < 24);
    assert_true(stats_of(pool).held_bytes <= 24 * MIB);
    assert_true(stats_of(pool).failures >= 1);
    check(pool);
    /* Freed memory serves new requests, small and large, although a thread's cache holds it. */
    while (count > 0) {
        assert_int_equal(weir_host_free(pool, blocks[--count]), WEIR_OK);
    }
    void *large = block(pool, 7 * MIB);
    void *small = block(pool, 100);
    assert_int_equal(weir_host_free(pool, large), WEIR_OK);
    assert_int_equal(weir_host_free(pool, small), WEIR_OK);
    void *too_much = NULL;
    assert_int_equal(weir_host_alloc(pool, 25 * MIB, WEIR_HOST_THREAD_NODE, &too_much), WEIR_ERR_LIMIT);
    end(pool);
    pool = pool_with(0, 4 * MIB); /* below the chunk size of the config */
    large = block(pool, 2 * MIB);
    assert_true(stats_of(pool).held_bytes <= 4 * MIB);
    assert_int_equal(weir_host_free(pool, large), WEIR_OK);
    end(pool);
}

/* --- threads --- */

struct worker {
    weir_host_pool *pool;
    void *blocks[200];
    pthread_barrier_t *barrier;
};

static void *allocate_many(void *ctx)
{
    struct worker *w = ctx;
    for (size_t i = 0; i < 200; i++) {
        const uint64_t size = 16 + i * 700;
        if (weir_host_alloc(w->pool, size, WEIR_HOST_THREAD_NODE, &w->blocks[i]) != WEIR_OK) {
            return "alloc failed";
        }
        memset(w->blocks[i], (int)i, size);
    }
    return NULL;
}

static void run(void *(*body)(void *), struct worker *w)
{
    pthread_t thread;
    void *failure = NULL;
    assert_int_equal(pthread_create(&thread, NULL, body, w), 0);
    assert_int_equal(pthread_join(thread, &failure), 0);
    assert_null(failure);
}

TEST(test_frees_by_another_thread)
{
    weir_host_pool *pool = pool_with(0, 0);
    struct worker w = {.pool = pool};
    for (int round = 0; round < 3; round++) {
        run(allocate_many, &w);
        for (size_t i = 0; i < 200; i++) {
            assert_int_equal(((unsigned char *)w.blocks[i])[15], (unsigned char)i);
            assert_int_equal(weir_host_free(pool, w.blocks[i]), WEIR_OK);
        }
        assert_int_equal(stats_of(pool).live_bytes, 0);
        assert_int_equal(stats_of(pool).pad_bytes, 0);
    }
    end(pool);
}

static void *fill_cache(void *ctx)
{
    struct worker *w = ctx;
    void *failure = allocate_many(w);
    for (size_t i = 0; i < 200 && failure == NULL; i++) {
        failure = weir_host_free(w->pool, w->blocks[i]) == WEIR_OK ? NULL : "free failed";
    }
    return failure;
}

TEST(test_thread_end_returns_its_cache)
{
    weir_host_pool *pool = pool_with(0, 0);
    struct worker w = {.pool = pool};
    run(fill_cache, &w);
    assert_int_equal(stats_of(pool).cached_bytes, 0);
    assert_int_equal(stats_of(pool).allocs, 200);
    assert_int_equal(stats_of(pool).frees, 200);
    assert_int_equal(weir_host_trim(pool, 0, NULL), WEIR_OK);
    assert_int_equal(stats_of(pool).held_bytes, 0);
    end(pool);
}

static void *outlive(void *ctx)
{
    struct worker *w = ctx;
    void *failure = fill_cache(w);
    (void)pthread_barrier_wait(w->barrier); /* the thread has a cache */
    (void)pthread_barrier_wait(w->barrier); /* the pool is destroyed and a new one exists */
    failure = failure != NULL ? failure : fill_cache(w);
    return failure;
}

TEST(test_threads_outlive_pools)
{
    for (int round = 0; round < 3; round++) {
        pthread_barrier_t barrier;
        assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
        struct worker w = {.pool = pool_with(0, 0), .barrier = &barrier};
        pthread_t thread;
        void *failure = NULL;
        assert_int_equal(pthread_create(&thread, NULL, outlive, &w), 0);
        (void)pthread_barrier_wait(&barrier);
        void *mine = block(w.pool, 100);
        assert_int_equal(weir_host_free(w.pool, mine), WEIR_OK);
        end(w.pool);
        w.pool = pool_with(0, 0);
        (void)pthread_barrier_wait(&barrier);
        assert_int_equal(pthread_join(thread, &failure), 0);
        assert_null(failure);
        assert_int_equal(stats_of(w.pool).cached_bytes, 0);
        end(w.pool);
    }
}

static void *idle_with_cache(void *ctx)
{
    struct worker *w = ctx;
    void *failure = fill_cache(w);
    (void)pthread_barrier_wait(w->barrier); /* the thread's cache is filled */
    (void)pthread_barrier_wait(w->barrier); /* the main thread has trimmed */
    return failure != NULL ? failure : fill_cache(w);
}

/* cached_bytes counts the pool's thread caches only, not those of an engine that has its own. */
TEST(test_trim_reaches_idle_threads)
{
    pthread_barrier_t barrier;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
    struct worker w = {.pool = pool_with(0, 0), .barrier = &barrier};
    pthread_t thread;
    void *failure = NULL;
    assert_int_equal(pthread_create(&thread, NULL, idle_with_cache, &w), 0);
    (void)pthread_barrier_wait(&barrier);
    assert_true(stats_of(w.pool).cached_bytes > 0);
    assert_int_equal(weir_host_trim(w.pool, 0, NULL), WEIR_OK);
    assert_int_equal(stats_of(w.pool).cached_bytes, 0);
    assert_int_equal(stats_of(w.pool).live_bytes, 0);
    (void)pthread_barrier_wait(&barrier);
    assert_int_equal(pthread_join(thread, &failure), 0);
    assert_null(failure);
    end(w.pool);
}

TEST(test_without_thread_caches)
{
    weir_host_pool *pool = pool_with(WEIR_HOST_NO_THREAD_CACHE, 0);
    struct worker w = {.pool = pool};
    run(allocate_many, &w);
    const weir_host_stats stats = stats_of(pool);
    assert_int_equal(stats.cached_bytes, 0);
    assert_int_equal(stats.allocs, 200);
    assert_int_equal(stats.pad_bytes, 200 * PAD);
    for (size_t i = 0; i < 200; i++) {
        assert_int_equal(weir_host_free(pool, w.blocks[i]), WEIR_OK);
    }
    assert_int_equal(stats_of(pool).live_bytes, 0);
    end(pool);
}

/* A thread's cache holds at most 8 MiB, or four blocks if these are larger. */
TEST(test_thread_cache_is_bounded)
{
    weir_host_pool *pool = pool_with(0, 0);
    enum { COUNT = 40 };
    void *blocks[COUNT];
    const uint64_t sizes[] = {1000, 60000, 100000, MIB, 3 * MIB};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
        for (size_t i = 0; i < COUNT; i++) {
            blocks[i] = block(pool, sizes[s]);
        }
        for (size_t i = 0; i < COUNT; i++) {
            assert_int_equal(weir_host_free(pool, blocks[i]), WEIR_OK);
            const uint64_t four = 4 * (sizes[s] + 8 * KIB);
            assert_true(stats_of(pool).cached_bytes <= (four > 8 * MIB ? four : 8 * MIB));
        }
    }
    end(pool);
}

static bool machine_has_kind(void)
{
    weir_host_pool *pool = pool_with(0, 0);
    void *ptr = NULL;
    const bool has = weir_host_alloc(pool, 7 * MIB, WEIR_HOST_THREAD_NODE, &ptr) == WEIR_OK;
    if (!has) {
        char text[1024];
        (void)weir_host_explain(pool, WEIR_HOST_THREAD_NODE, text, sizeof(text));
        (void)printf("skipped: this machine gives no such memory. %s", text);
    }
    (void)weir_host_pool_destroy(pool);
    pools_open--;
    return has;
}

int main(void)
{
    weir_topology *topology = NULL;
    if (weir_topology_create(NULL, &topology) != WEIR_OK) {
        (void)printf("skipped: this machine tells nothing of its memory\n");
        return 77;
    }
    machine = topology;
    if (!machine_has_kind()) {
        weir_topology_destroy(topology);
        return 77;
    }
    const int failed = run_all_tests("tests");
    weir_topology_destroy(topology);
    return failed;
}
