/* bench.c: see bench.h. */
#include "micro/bench.h"

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

void bench_pool_open(struct bench_pool *bench, const weir_strategy_ops *strategy, uint32_t flags)
{
    weir_sim_config sim = WEIR_SIM_CONFIG_INIT;
    sim.no_audit = true;
    require(weir_sim_create(&sim, &bench->sim), "cannot make a simulator");
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = weir_sim_device(bench->sim);
    config.strategy = strategy;
    config.flags = flags;
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
    weir_sim_destroy(bench->sim);
}

struct bench_malloc bench_glibc(void)
{
    return (struct bench_malloc){malloc, free};
}

/* ISO C knows no conversion from dlsym's result to a function, POSIX says that the bytes are the same. */
static bool find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof(found));
    return found != NULL;
}

bool bench_jemalloc(struct bench_malloc *jemalloc, const char **why)
{
    /* Local: nobody else is bound to it. Deep: it is bound to itself. */
    void *library = dlopen("libjemalloc.so.2", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    struct bench_malloc found = {NULL, NULL};
    if (library == NULL || !find(library, "malloc", &found.alloc) ||
        !find(library, "free", &found.free)) {
        *why = dlerror();
        return false;
    }
    *jemalloc = found;
    return true;
}

void bench_jemalloc_prepare(char **arguments)
{
    struct bench_malloc ignored;
    const char *why = NULL;
    const char *tunables = getenv("GLIBC_TUNABLES");
    if (bench_jemalloc(&ignored, &why) || (tunables != NULL && strstr(tunables, TUNABLE) != NULL)) {
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
