/* host_pools.c: see host_pools.h. */
#include "micro/host_pools.h"
#include "micro/bench.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef WEIR_BENCH_JEMALLOC
#include <weir/jemalloc.h>
#endif

const char *const host_contender_names[HOST_CONTENDERS] = {"weir",     "weir_jemalloc", "weir_heap", "glibc",
                                                           "jemalloc", "mimalloc",      "tcmalloc",  "pin_each"};

/* --- weir --- */

const weir_host_engine_ops *host_engine(int which)
{
#ifdef WEIR_BENCH_JEMALLOC
    if (which == HOST_WEIR_JEMALLOC) {
        return weir_host_jemalloc_engine();
    }
#endif
    return which == HOST_WEIR ? weir_host_classes_engine() : NULL;
}

static void *alloc_pool(struct host_contender *self, uint64_t size)
{
    void *block = NULL;
    bench_require(weir_host_alloc(self->pool, size, WEIR_HOST_THREAD_NODE, &block) == WEIR_OK,
                  "weir_host_alloc failed");
    return block;
}

static void free_pool(struct host_contender *self, void *block, uint64_t size)
{
    (void)size;
    bench_require(weir_host_free(self->pool, block) == WEIR_OK, "weir_host_free failed");
}

static void *alloc_heap(struct host_contender *self, uint64_t size)
{
    void *block = weir_heap_alloc(self->heap, (size_t)size);
    bench_require(block != NULL, "weir_heap_alloc failed");
    return block;
}

static void free_heap(struct host_contender *self, void *block, uint64_t size)
{
    (void)size;
    bench_require(weir_heap_free(self->heap, block) == WEIR_OK, "weir_heap_free failed");
}

/* --- mallocs and pinning --- */

static void *alloc_malloc(struct host_contender *self, uint64_t size)
{
    void *block = self->functions.alloc((size_t)size);
    bench_require(block != NULL, "malloc failed");
    return block;
}

static void free_malloc(struct host_contender *self, void *block, uint64_t size)
{
    (void)size;
    self->functions.free(block);
}

static void *alloc_pinned(struct host_contender *self, uint64_t size)
{
    (void)self;
    void *block = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bench_require(block != MAP_FAILED && mlock(block, (size_t)size) == 0,
                  "cannot pin: RLIMIT_MEMLOCK (ulimit -l) is too small");
    return block;
}

static void free_pinned(struct host_contender *self, void *block, uint64_t size)
{
    (void)self;
    bench_require(munmap(block, (size_t)size) == 0, "munmap failed");
}

/* Finds the C library's malloc, even if the process uses another malloc. */
static bool find_glibc(struct malloc_functions *found, const char **why)
{
    void *library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    void *alloc = library != NULL ? dlsym(library, "malloc") : NULL;
    void *release = library != NULL ? dlsym(library, "free") : NULL;
    if (alloc == NULL || release == NULL) {
        *why = "no libc.so.6";
        return false;
    }
    memcpy(&found->alloc, &alloc, sizeof(alloc));
    memcpy(&found->free, &release, sizeof(release));
    return true;
}

/* --- open and close --- */

bool host_contender_open(struct host_contender *contender, int which, const char **why)
{
    *contender = (struct host_contender){.alloc = alloc_malloc, .free = free_malloc};
    if (which == HOST_PIN_EACH) {
        contender->alloc = alloc_pinned;
        contender->free = free_pinned;
        return true;
    }
    if (which == HOST_GLIBC) {
        return find_glibc(&contender->functions, why);
    }
    if (which == HOST_HEAP) {
        bench_require(weir_heap_create(NULL, &contender->heap) == WEIR_OK, "weir_heap_create failed");
        contender->alloc = alloc_heap;
        contender->free = free_heap;
        return true;
    }
    if (which != HOST_WEIR && which != HOST_WEIR_JEMALLOC) {
        return mallocs_find(host_contender_names[which], &contender->functions, why);
    }
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.engine = host_engine(which);
    if (config.engine == NULL) {
        *why = "weir was built without WEIR_JEMALLOC";
        return false;
    }
    bench_require(weir_host_pool_create(&config, &contender->pool) == WEIR_OK, "weir_host_pool_create failed");
    contender->alloc = alloc_pool;
    contender->free = free_pool;
    return true;
}

void host_contender_close(struct host_contender *contender)
{
    weir_status status = weir_host_pool_destroy(contender->pool);
    bench_require(status == WEIR_OK, "weir_host_pool_destroy failed");
    status = weir_heap_destroy(contender->heap);
    bench_require(status == WEIR_OK, "weir_heap_destroy failed");
    contender->pool = NULL;
    contender->heap = NULL;
}
