/* System calls that a sandbox forbids, and the ends of processes, threads and libraries: each in a child of its own. */
#include "rig/test.h"
#include "host_internal.h"
#include "sandbox.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <weir/heap.h>
#include <weir/trace.h>

static weir_host_pool *pool_of(uint32_t kinds, uint32_t flags)
{
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.kinds = kinds;
    config.flags = flags;
    config.chunk_bytes = 4 * MIB;
    weir_host_pool *pool = NULL;
    return weir_host_pool_create(&config, &pool) == WEIR_OK ? pool : NULL;
}

static weir_host_info info_of(weir_host_pool *pool, const void *ptr)
{
    weir_host_info info = WEIR_HOST_INFO_INIT;
    if (weir_host_query(pool, ptr, &info) != WEIR_OK) {
        info.block = NULL;
    }
    return info;
}

enum { LOCKED = 1u << WEIR_HOST_LOCKED | 1u << WEIR_HOST_TRANSPARENT, UNPINNED = 1u << WEIR_HOST_UNPINNED };

/* --- RLIMIT_MEMLOCK --- */

static int memlock(void)
{
    const struct rlimit little = {.rlim_cur = 6 * MIB, .rlim_max = 6 * MIB};
    CHECK(setrlimit(RLIMIT_MEMLOCK, &little) == 0);
    CHECK(geteuid() != 0 || setuid(65534) == 0);
    weir_host_pool *pool = pool_of(LOCKED, 0);
    CHECK(pool != NULL);
    void *first = NULL;
    void *untouched = &pool;
    void *second = untouched;
    CHECK(weir_host_alloc(pool, 3 * MIB, WEIR_HOST_THREAD_NODE, &first) == WEIR_OK);
    CHECK(info_of(pool, first).is_pinned);
    CHECK(weir_host_alloc(pool, 3 * MIB, WEIR_HOST_THREAD_NODE, &second) == WEIR_ERR_NO_MEMORY);
    CHECK(second == untouched);
    char text[2048];
    CHECK(weir_host_explain(pool, WEIR_HOST_THREAD_NODE, text, sizeof(text)) > 0);
    CHECK(strstr(text, "RLIMIT_MEMLOCK is 6 MiB") != NULL && strstr(text, "ulimit -l") != NULL);
    weir_host_stats stats = WEIR_HOST_STATS_INIT;
    CHECK(weir_host_get_stats(pool, WEIR_HOST_ANY_NODE, &stats) == WEIR_OK);
    CHECK(stats.held_bytes == 4 * MIB && stats.unpinned_bytes == 0 && stats.failures == 1);
    CHECK(weir_host_check(pool, NULL) == WEIR_OK);
    /* The pool's chunks still serve, and idle memory makes room. */
    CHECK(weir_host_alloc(pool, 500000, WEIR_HOST_THREAD_NODE, &second) == WEIR_OK);
    CHECK(weir_host_free(pool, first) == WEIR_OK);
    CHECK(weir_host_free(pool, second) == WEIR_OK);
    CHECK(weir_host_alloc(pool, 3 * MIB, WEIR_HOST_THREAD_NODE, &first) == WEIR_OK);
    CHECK(weir_host_pool_destroy(pool) == WEIR_OK);
    /* If the config allows unpinned memory, the pool does not pin the memory beyond the limit, and weir_host_query
     * reports this. */
    pool = pool_of(LOCKED | UNPINNED, WEIR_HOST_ALLOW_UNPINNED);
    CHECK(pool != NULL);
    CHECK(weir_host_alloc(pool, 3 * MIB, WEIR_HOST_THREAD_NODE, &first) == WEIR_OK);
    CHECK(weir_host_alloc(pool, 3 * MIB, WEIR_HOST_THREAD_NODE, &second) == WEIR_OK);
    CHECK(info_of(pool, first).is_pinned && !info_of(pool, second).is_pinned);
    CHECK(weir_host_pool_destroy(pool) == WEIR_OK);
    return 0;
}

TEST(test_memlock)
{
    assert_int_equal(in_child(memlock), 0);
}

/* --- system calls that are forbidden --- */

static int serve(weir_host_pool *pool)
{
    CHECK(pool != NULL);
    for (uint64_t size = 100; size < 32 * MIB; size *= 10) {
        char *ptr = NULL;
        void *got = NULL;
        CHECK(weir_host_alloc(pool, size, WEIR_HOST_THREAD_NODE, &got) == WEIR_OK);
        ptr = got;
        memset(ptr, 1, size);
        CHECK(info_of(pool, ptr + size - 1).block == ptr);
        CHECK(weir_host_free(pool, ptr) == WEIR_OK);
    }
    CHECK(weir_host_check(pool, NULL) == WEIR_OK);
    CHECK(weir_host_trim(pool, 0, NULL) == WEIR_OK);
    CHECK(weir_host_pool_destroy(pool) == WEIR_OK);
    return 0;
}

enum { NO_FILTERS = 100 };

static int without_numa_calls(void)
{
    return deny_numa_calls() ? serve(pool_of(UNPINNED, WEIR_HOST_ALLOW_UNPINNED)) : NO_FILTERS;
}

static int without_madvise(void)
{
    return deny_madvise() ? serve(pool_of(UNPINNED, WEIR_HOST_ALLOW_UNPINNED)) : NO_FILTERS;
}

/* The topology was read before. */
static int without_affinity_and_files(void)
{
    weir_host_pool *pool = pool_of(UNPINNED, WEIR_HOST_ALLOW_UNPINNED);
    return deny_affinity_and_files() ? serve(pool) : NO_FILTERS;
}

static int without_mlock(void)
{
    static const unsigned calls[] = {SYS_mlock, SYS_mlock2, SYS_mlockall};
    if (!deny(calls, sizeof(calls) / sizeof(*calls))) {
        return NO_FILTERS;
    }
    weir_host_pool *pool = pool_of(LOCKED, 0);
    CHECK(pool != NULL);
    void *ptr = NULL;
    CHECK(weir_host_alloc(pool, 100, WEIR_HOST_THREAD_NODE, &ptr) == WEIR_ERR_NO_MEMORY);
    CHECK(ptr == NULL);
    char text[2048];
    CHECK(weir_host_explain(pool, WEIR_HOST_THREAD_NODE, text, sizeof(text)) > 0 && strstr(text, "locked: ") != NULL);
    CHECK(weir_host_pool_destroy(pool) == WEIR_OK);
    return serve(pool_of(LOCKED | UNPINNED, WEIR_HOST_ALLOW_UNPINNED));
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MAPS_BEHIND_OUR_BACK 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MAPS_BEHIND_OUR_BACK 1
#endif

/* After the pool was created no chunk can be mapped for a while. A sanitizer that cannot map memory of its own ends the
 * process. */
static int without_mmap(void)
{
#if defined(MAPS_BEHIND_OUR_BACK)
    return 0;
#endif
    weir_host_pool *pool = pool_of(UNPINNED, WEIR_HOST_ALLOW_UNPINNED);
    CHECK(pool != NULL);
    struct rlimit before;
    CHECK(getrlimit(RLIMIT_AS, &before) == 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    void *ptr = NULL;
    CHECK(setrlimit(RLIMIT_AS, &none) == 0);
    const weir_status status = weir_host_alloc(pool, 3 * MIB, WEIR_HOST_THREAD_NODE, &ptr);
    CHECK(setrlimit(RLIMIT_AS, &before) == 0);
    CHECK(status == WEIR_ERR_NO_MEMORY && ptr == NULL);
    CHECK(weir_host_check(pool, NULL) == WEIR_OK);
    CHECK(weir_host_alloc(pool, 3 * MIB, WEIR_HOST_THREAD_NODE, &ptr) == WEIR_OK);
    CHECK(weir_host_pool_destroy(pool) == WEIR_OK);
    return 0;
}

TEST(test_forbidden_calls)
{
    int (*const bodies[])(void) = {without_numa_calls, without_madvise, without_affinity_and_files, without_mlock,
                                   without_mmap};
    for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++) {
        const int failed = in_child(bodies[i]);
        if (failed == NO_FILTERS) {
            print_message("this kernel cannot forbid system calls\n");
        } else {
            assert_int_equal(failed, 0);
        }
    }
}

/* --- fork --- */

static weir_host_pool *shared_pool;
static void *shared_block;
static atomic_bool stop;

static void *keep_busy(void *ctx)
{
    (void)ctx;
    for (uint64_t i = 0; !atomic_load(&stop); i++) {
        void *ptr = NULL;
        if (weir_host_alloc(shared_pool, 100 + i % 100000, WEIR_HOST_THREAD_NODE, &ptr) != WEIR_OK ||
            weir_host_free(shared_pool, ptr) != WEIR_OK) {
            return "a busy thread failed";
        }
    }
    return NULL;
}

/* A thread that lives only for a moment. When it ends, the pool takes a lock for its cache. */
static void *one_block(void *ctx)
{
    (void)ctx;
    void *ptr = NULL;
    const bool served = weir_host_alloc(shared_pool, 100, WEIR_HOST_THREAD_NODE, &ptr) == WEIR_OK &&
                        weir_host_free(shared_pool, ptr) == WEIR_OK;
    return served ? NULL : "a short thread failed";
}

static void *come_and_go(void *ctx)
{
    (void)ctx;
    void *failure = NULL;
    while (!atomic_load(&stop) && failure == NULL) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, one_block, NULL) == 0) {
            (void)pthread_join(thread, &failure);
        }
    }
    return failure;
}

static int child_destroys(void)
{
    CHECK(weir_host_pool_destroy(shared_pool) == WEIR_OK);
    return 0;
}

/* gcc and clang use different macros for the sanitizer. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(UNDER_TSAN)
enum { FORKS_PLAINLY = 0 }; /* the sanitizer's own locks are not held across fork, and it maps memory in the child */
#else
enum { FORKS_PLAINLY = 1 };
#endif

TEST(test_fork)
{
    if (!FORKS_PLAINLY) {
        skip();
    }
    enum { THREADS = 3, FORKS = 40 };
    pthread_t threads[THREADS + 1];
    shared_pool = pool_of(UNPINNED, WEIR_HOST_ALLOW_UNPINNED);
    assert_non_null(shared_pool);
    assert_int_equal(weir_host_alloc(shared_pool, 3 * MIB, WEIR_HOST_THREAD_NODE, &shared_block), WEIR_OK);
    memset(shared_block, 42, 3 * MIB);
    stop = false;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, keep_busy, NULL), 0);
    }
    assert_int_equal(pthread_create(&threads[THREADS], NULL, come_and_go, NULL), 0);
    for (int i = 0; i < FORKS; i++) {
        assert_int_equal(in_child(child_destroys), 0);
    }
    stop = true;
    for (int i = 0; i <= THREADS; i++) {
        void *failure = NULL;
        assert_int_equal(pthread_join(threads[i], &failure), 0);
        assert_null(failure);
    }
    for (uint64_t at = 0; at < 3 * MIB; at += 4096) {
        assert_int_equal(((char *)shared_block)[at], 42);
    }
    assert_int_equal(weir_host_check(shared_pool, NULL), WEIR_OK);
    assert_int_equal(weir_host_free(shared_pool, shared_block), WEIR_OK);
    assert_int_equal(weir_host_pool_destroy(shared_pool), WEIR_OK);
}

/* The child's writes must not reach memory that the device reads: the child does not have the chunk at all. */
static int child_has_no_chunk(void)
{
    unsigned char resident = 0;
    CHECK(mincore((void *)((uintptr_t)shared_block & ~(uintptr_t)4095), 4096, &resident) != 0 && errno == ENOMEM);
    return 0;
}

static int calls_of_the_runtime;

static weir_status count_alloc_call(void *ctx, uint64_t size, void **memory)
{
    (void)ctx;
    calls_of_the_runtime++;
    *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return *memory != MAP_FAILED ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

static weir_status count_free_call(void *ctx, void *memory, uint64_t size)
{
    (void)ctx;
    calls_of_the_runtime++;
    return munmap(memory, size) == 0 ? WEIR_OK : WEIR_ERR_DEVICE;
}

static int child_leaves_the_runtime_alone(void)
{
    const int before = calls_of_the_runtime;
    CHECK(child_has_no_chunk() == 0);
    CHECK(weir_host_pool_destroy(shared_pool) == WEIR_OK);
    CHECK(calls_of_the_runtime == before);
    return 0;
}

TEST(test_a_child_has_no_chunks)
{
    if (!FORKS_PLAINLY) {
        skip();
    }
    static const weir_host_runtime_ops ops = {
        .struct_size = sizeof(ops), .pinned_alloc = count_alloc_call, .pinned_free = count_free_call};
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    runtime.ops = &ops;
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.runtime = &runtime;
    config.chunk_bytes = 4 * MIB;
    config.flags = WEIR_HOST_ALLOW_UNPINNED;
    const uint32_t kinds[] = {1u << WEIR_HOST_RUNTIME, UNPINNED};
    for (size_t i = 0; i < 2; i++) {
        config.kinds = kinds[i];
        shared_pool = NULL;
        assert_int_equal(weir_host_pool_create(&config, &shared_pool), WEIR_OK);
        assert_int_equal(weir_host_alloc(shared_pool, 100, WEIR_HOST_THREAD_NODE, &shared_block), WEIR_OK);
        memset(shared_block, 1, 100);
        assert_int_equal(in_child(child_leaves_the_runtime_alone), 0);
        assert_int_equal(((char *)shared_block)[99], 1);
        assert_int_equal(weir_host_pool_destroy(shared_pool), WEIR_OK);
    }
}

/* --- a library that comes and goes --- */

static atomic_int arrived;
static atomic_bool unloaded;
static int (*use_in_library)(void);

static void *use_and_stay(void *ctx)
{
    (void)ctx;
    const int failed = use_in_library();
    (void)atomic_fetch_add(&arrived, 1);
    while (!atomic_load(&unloaded)) {
        (void)usleep(1000);
    }
    return failed == 0 ? NULL : "the library failed"; /* the thread's end must not call into the unloaded library */
}

static int load_use_unload(void)
{
    for (int round = 0; round < 3; round++) {
        pthread_t threads[3];
        arrived = 0;
        unloaded = false;
        void *library = dlopen(HOST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            (void)fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        void *symbol = dlsym(library, "plugin_use");
        CHECK(symbol != NULL);
        memcpy(&use_in_library, &symbol, sizeof(symbol));
        for (int i = 0; i < 3; i++) {
            CHECK(pthread_create(&threads[i], NULL, use_and_stay, NULL) == 0);
        }
        while (atomic_load(&arrived) < 3) {
            (void)usleep(1000);
        }
        symbol = dlsym(library, "plugin_end");
        int (*end)(void);
        memcpy(&end, &symbol, sizeof(symbol));
        CHECK(round == 1 || end() == 0); /* in one round the pool is not destroyed */
        CHECK(dlclose(library) == 0);
        atomic_store(&unloaded, true);
        for (int i = 0; i < 3; i++) {
            void *failure = NULL;
            CHECK(pthread_join(threads[i], &failure) == 0 && failure == NULL);
        }
    }
    return 0;
}

TEST(test_unloading)
{
    assert_int_equal(in_child(load_use_unload), 0);
}

/* A heap that records itself is not destroyed: its thread must not run in the unloaded library, and the file must be
 * complete. */
static int unload_while_recorded(void)
{
    char path[] = "/tmp/weir-unload-XXXXXX";
    char text[1000] = "";
    const int fd = mkstemp(path);
    CHECK(fd >= 0 && close(fd) == 0 && unlink(path) == 0 && setenv("WEIR_RECORD", path, 1) == 0);
    void *library = dlopen(HOST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL);
    void *symbol = dlsym(library, "plugin_leave_heap");
    int (*leave_heap)(void);
    memcpy(&leave_heap, &symbol, sizeof(symbol));
    CHECK(leave_heap() == 0);
    CHECK(dlclose(library) == 0);
    (void)usleep(100000);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && fread(text, 1, sizeof(text) - 1, file) > 0);
    (void)fclose(file);
    (void)unlink(path);
    CHECK(strstr(text, " 12345 ") != NULL);
    return 0;
}

TEST(test_unloading_while_recorded)
{
    assert_int_equal(in_child(unload_while_recorded), 0);
}

/* Threads of the library go on after the library was closed, so its code has to stay. */
static int close_while_threads_run(void)
{
    void *library = dlopen(HOST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL);
    void *symbol = dlsym(library, "plugin_leave_threads");
    int (*leave_threads)(const char *path);
    memcpy(&leave_threads, &symbol, sizeof(symbol));
    CHECK(leave_threads("/dev/null") == 0);
    CHECK(dlclose(library) == 0);
    CHECK(dlopen(HOST_PLUGIN, RTLD_NOW | RTLD_NOLOAD) != NULL);
    (void)usleep(50000); /* both threads wake several times */
    return 0;
}

TEST(test_unloading_while_threads_run)
{
    assert_int_equal(in_child(close_while_threads_run), 0);
}

static int leave_threads_to_the_end(void)
{
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    weir_heap *heap = NULL;
    weir_recorder *recorder = NULL;
    config.flags = WEIR_HEAP_DECAY_THREAD;
    config.decay_ms = 60000;
    CHECK(weir_heap_create(&config, &heap) == WEIR_OK && weir_heap_alloc(heap, 12345) != NULL);
    CHECK(weir_recorder_create_file("/dev/null", "", &recorder) == WEIR_OK);
    pthread_exit(NULL);
}

/* The main thread ends, and the threads of the library alone do not keep the process. */
TEST(test_threads_end_with_the_program)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    print_message("a sanitizer has a thread of its own, or looks for leaks in a process without a main thread\n");
    skip();
#endif
    assert_int_equal(in_child(leave_threads_to_the_end), 0);
}
