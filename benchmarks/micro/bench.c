/* bench.c: see bench.h. */
#include "micro/bench.h"

#include "models/direct.h"
#include "models/pytorch.h"

#include <weir/caching.h>
#include <weir/size_class.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void require(weir_status status, const char *what)
{
    if (status != WEIR_OK) {
        (void)fprintf(stderr, "%s: %s\n", what, weir_status_text(status));
        exit(EXIT_FAILURE);
    }
}

void bench_pool_open(struct bench_pool *bench, const struct bench_row *row, uint64_t limit_bytes, size_t streams)
{
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    bench->device = null_device_create((row->flags & WEIR_POOL_REGIONS) == 0);
    bench->streams = calloc(streams + 1, sizeof(*bench->streams));
    bench->stream_count = streams;
    require(bench->device != NULL && bench->streams != NULL ? WEIR_OK : WEIR_ERR_NO_MEMORY, "cannot make a device");
    config.device = null_device_of(bench->device);
    config.strategy = row->strategy();
    config.flags = row->flags;
    config.limit_bytes = limit_bytes;
    require(weir_pool_create(&config, &bench->pool), "cannot make a pool");
    for (size_t i = 0; i < streams; i++) {
        require(weir_pool_stream(bench->pool, (void *)(i + 1), &bench->streams[i]), "cannot enter a stream");
    }
}

void bench_pool_close(struct bench_pool *bench)
{
    require(weir_pool_destroy(bench->pool), "cannot end the pool");
    null_device_destroy(bench->device);
    free(bench->streams);
}

/* --- rows --- */

const struct bench_row bench_rows[BENCH_ROWS] = {
    {"empty_loop", BENCH_EMPTY, NULL, 0},
    {"caching", BENCH_POOL, weir_caching_strategy, WEIR_POOL_REGIONS},
    {"size_class", BENCH_POOL, weir_size_class_strategy, WEIR_POOL_REGIONS},
    {"caching_vm", BENCH_POOL, weir_caching_strategy, 0},
    {"caching_no_front_cache", BENCH_POOL, weir_caching_strategy, WEIR_POOL_REGIONS | WEIR_POOL_NO_FRONT_CACHE},
    {"caching_single_threaded", BENCH_POOL, weir_caching_strategy, WEIR_POOL_REGIONS | WEIR_POOL_SINGLE_THREADED},
    {"pytorch_model", BENCH_POOL, model_pytorch_strategy, WEIR_POOL_REGIONS},
    {"direct_model", BENCH_POOL, model_direct_strategy, WEIR_POOL_REGIONS},
    {"heap", BENCH_HEAP, NULL, 0},
    {"host_pool", BENCH_HOST, NULL, 0},
    {"tlsf", BENCH_TLSF, NULL, 0},
    {"tlsf_spin", BENCH_TLSF_SPIN, NULL, 0},
    {"jemalloc", BENCH_MALLOC, NULL, 0},
    {"mimalloc", BENCH_MALLOC, NULL, 0},
    {"tcmalloc", BENCH_MALLOC, NULL, 0},
    {"glibc", BENCH_MALLOC, NULL, 0},
};

const struct bench_row *bench_row_find(const char *name)
{
    for (size_t i = 0; i < BENCH_ROWS; i++) {
        if (strcmp(bench_rows[i].name, name) == 0) {
            return &bench_rows[i];
        }
    }
    return NULL;
}

bool bench_row_locks(const struct bench_row *row)
{
    return row->kind != BENCH_TLSF && (row->flags & WEIR_POOL_SINGLE_THREADED) == 0;
}

/* --- the process --- */

void bench_require(bool fine, const char *failure)
{
    if (!fine) {
        (void)fprintf(stderr, "%s\n", failure);
        exit(EXIT_FAILURE);
    }
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
    bench_require(pthread_create(&thread, NULL, sleep_for_ever, NULL) == 0 && pthread_detach(thread) == 0,
                  "cannot start a thread");
}

uint64_t bench_processor_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
