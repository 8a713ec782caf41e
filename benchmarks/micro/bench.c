/* bench.c: see bench.h. */
#include "micro/bench.h"

#include "models/direct.h"
#include "models/pytorch.h"

#include <weir/caching.h>
#include <weir/size_class.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* More than the 2.6 KiB of jemalloc 5.3.0 and less than anybody would miss. */
#define TUNABLE "glibc.rtld.optional_static_tls"
#define TUNABLE_SETTING TUNABLE "=16384"

static void require(weir_status status, const char *what)
{
    if (status != WEIR_OK) {
        (void)fprintf(stderr, "%s: %s\n", what, weir_status_text(status));
        exit(EXIT_FAILURE);
    }
}

void bench_pool_open(struct bench_pool *bench, const weir_strategy_ops *strategy, uint32_t flags,
                     uint64_t limit_bytes)
{
    weir_sim_config sim = WEIR_SIM_CONFIG_INIT;
    sim.no_audit = true;
    sim.capacity_bytes = BENCH_CAPACITY_BYTES;
    require(weir_sim_create(&sim, &bench->sim), "cannot make a simulator");
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = weir_sim_device(bench->sim);
    config.strategy = strategy;
    config.flags = flags;
    config.limit_bytes = limit_bytes;
    require(weir_pool_create(&config, &bench->pool), "cannot make a pool");
    for (size_t i = 0; i < BENCH_STREAMS; i++) {
        weir_sim_stream *native = NULL;
        require(weir_sim_stream_create(bench->sim, &native), "cannot make a stream");
        require(weir_pool_stream(bench->pool, native, &bench->streams[i]), "cannot enter a stream");
    }
}

void bench_pool_close(struct bench_pool *bench)
{
    require(weir_pool_destroy(bench->pool), "cannot end the pool");
    require(weir_sim_destroy(bench->sim), "cannot end the simulator");
}

/* ISO C knows no conversion from dlsym's result to a function, POSIX says that the bytes are the same. */
static bool find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof(found));
    return found != NULL;
}

bool bench_malloc_find(const char *name, struct bench_malloc *malloc_found, const char **why)
{
    static const struct {
        const char *name;
        const char *library;
        const char *alloc;
        const char *free;
    } libraries[] = {
        {"jemalloc", "libjemalloc.so.2", "malloc", "free"},
        {"mimalloc", "libmimalloc.so.2", "mi_malloc", "mi_free"},
        {"tcmalloc", "libtcmalloc_minimal.so.4", "tc_malloc", "tc_free"},
    };
    if (strcmp(name, "glibc") == 0) {
        *malloc_found = (struct bench_malloc){malloc, free};
        return true;
    }
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        if (strcmp(name, libraries[i].name) != 0) {
            continue;
        }
        /* Local: nobody else is bound to it. Deep: it is bound to itself. */
        void *library = dlopen(libraries[i].library, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
        struct bench_malloc found = {NULL, NULL};
        if (library == NULL || !find(library, libraries[i].alloc, &found.alloc) ||
            !find(library, libraries[i].free, &found.free)) {
            *why = dlerror();
            return false;
        }
        *malloc_found = found;
        return true;
    }
    *why = "no malloc of that name is known";
    return false;
}

void bench_mallocs_prepare(char **arguments)
{
    struct bench_malloc ignored;
    const char *why = NULL;
    const char *tunables = getenv("GLIBC_TUNABLES");
    if (bench_malloc_find("jemalloc", &ignored, &why) ||
        (tunables != NULL && strstr(tunables, TUNABLE) != NULL)) {
        return;
    }
    char setting[1024];
    int length = snprintf(setting, sizeof(setting), "%s%s" TUNABLE_SETTING,
                          tunables != NULL ? tunables : "", tunables != NULL ? ":" : "");
    if (length > 0 && (size_t)length < sizeof(setting) &&
        setenv("GLIBC_TUNABLES", setting, 1) == 0) {
        (void)execv("/proc/self/exe", arguments);
    }
    /* Without jemalloc, then: the caller says so when it asks for it. */
}

/* --- contenders --- */

const struct bench_contender bench_contenders[BENCH_CONTENDERS] = {
    {.name = "empty_loop"},
    {.name = "caching", .strategy = weir_caching_strategy},
    {.name = "caching_no_front_cache",
     .strategy = weir_caching_strategy,
     .flags = WEIR_POOL_NO_FRONT_CACHE},
    {.name = "caching_single_threaded",
     .strategy = weir_caching_strategy,
     .flags = WEIR_POOL_SINGLE_THREADED},
    {.name = "size_class", .strategy = weir_size_class_strategy},
    {.name = "caching_vm",
     .strategy = weir_caching_strategy,
     .flags = WEIR_POOL_VIRTUAL_MEMORY},
    {.name = "pytorch_model", .strategy = model_pytorch_strategy},
    {.name = "direct_model", .strategy = model_direct_strategy},
    {.name = "glibc", .host = true},
    {.name = "jemalloc", .host = true},
    {.name = "mimalloc", .host = true},
    {.name = "tcmalloc", .host = true},
};

bool bench_allocator_open(struct bench_allocator *allocator,
                          const struct bench_contender *contender, const char **why)
{
    *allocator = (struct bench_allocator){.contender = contender};
    if (contender->host) {
        return bench_malloc_find(contender->name, &allocator->host, why);
    }
    if (contender->strategy != NULL) {
        bench_pool_open(&allocator->pool, contender->strategy(), contender->flags,
                        contender->limit_bytes);
        for (size_t i = 0; i < BENCH_STREAMS; i++) {
            allocator->handles[i] =
                (struct bench_handle){allocator->pool.pool, allocator->pool.streams[i]};
        }
    }
    return true;
}

void bench_allocator_close(struct bench_allocator *allocator)
{
    if (allocator->pool.pool != NULL) {
        bench_pool_close(&allocator->pool);
    }
}

static void *alloc_nothing(void *ctx, uint64_t size)
{
    (void)size;
    return ctx;
}

static void free_nothing(void *ctx, void *block)
{
    (void)ctx;
    (void)block;
}

static void *alloc_block(void *ctx, uint64_t size)
{
    const struct bench_handle *handle = ctx;
    weir_block *block = NULL;
    (void)!weir_pool_alloc(handle->pool, handle->stream, size, 0, &block);
    return block;
}

static void free_block(void *ctx, void *block)
{
    const struct bench_handle *handle = ctx;
    require(weir_pool_free(handle->pool, block, handle->stream), "cannot free a block");
}

static void *alloc_host(void *ctx, uint64_t size)
{
    return ((const struct bench_malloc *)ctx)->alloc((size_t)size);
}

static void free_host(void *ctx, void *block)
{
    ((const struct bench_malloc *)ctx)->free(block);
}

struct workload_user bench_allocator_user(struct bench_allocator *allocator, size_t stream)
{
    if (allocator->contender->host) {
        return (struct workload_user){alloc_host, free_host, &allocator->host};
    }
    if (allocator->contender->strategy != NULL) {
        return (struct workload_user){alloc_block, free_block, &allocator->handles[stream]};
    }
    return (struct workload_user){alloc_nothing, free_nothing, allocator};
}

/* --- the process --- */

static void *sleep_for_ever(void *ignored)
{
    (void)ignored;
    for (;;) {
        (void)pause();
    }
    return NULL;
}

void bench_second_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, sleep_for_ever, NULL) != 0 || pthread_detach(thread) != 0) {
        (void)fprintf(stderr, "cannot start a thread\n");
        exit(EXIT_FAILURE);
    }
}

uint64_t bench_processor_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
