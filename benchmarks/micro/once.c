/* once.c: plays a workload a given number of times and measures nothing: `instructions` runs it under callgrind. The
 * difference between a run of N and one of 2N batches is N batches, free of setup and end.
 *
 *     micro_once ALLOCATOR WORKLOAD BATCHES    prints the pairs of alloc and free in that many batches
 *     micro_once                               prints the names of the allocators
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "micro/bench.h"

static const struct bench_contender *contender_of(const char *name)
{
    for (size_t i = 0; i < BENCH_CONTENDERS; i++) {
        if (strcmp(bench_contenders[i].name, name) == 0) {
            return &bench_contenders[i];
        }
    }
    return NULL;
}

static bool play(const struct workload *workload, uint64_t batches,
                 const struct workload_user *user)
{
    void **blocks = calloc(workload->slots, sizeof(*blocks));
    bool fine = blocks != NULL && workload_play(workload, 0, workload->start, blocks, user);
    size_t at = workload->start;
    for (uint64_t i = 0; i < batches && fine; i++) {
        fine = workload_play(workload, at, at + workload->batch_ops, blocks, user);
        at += workload->batch_ops;
        at = at == workload->count ? workload->start : at;
    }
    if (blocks != NULL) {
        workload_clear(workload, blocks, user);
    }
    free(blocks);
    return fine;
}

static bool run(const char *allocator_name, const char *workload_name, uint64_t batches)
{
    const struct bench_contender *contender = contender_of(allocator_name);
    struct bench_allocator allocator;
    struct workload workload;
    const char *why = "no allocator of that name";
    if (contender == NULL || !bench_allocator_open(&allocator, contender, &why)) {
        (void)fprintf(stderr, "%s: %s\n", allocator_name, why);
        return false;
    }
    if (!workload_make(workload_name, 0, &workload)) {
        (void)fprintf(stderr, "no workload \"%s\", or no memory\n", workload_name);
        bench_allocator_close(&allocator);
        return false;
    }
    const struct workload_user user = bench_allocator_user(&allocator, 0);
    const bool fine = play(&workload, batches, &user);
    (void)printf("%" PRIu64 "\n", batches * workload.batch_pairs);
    workload_free(&workload);
    bench_allocator_close(&allocator);
    return fine;
}

int main(int count, char **arguments)
{
    if (count != 4) {
        for (size_t i = 0; i < BENCH_CONTENDERS; i++) {
            (void)puts(bench_contenders[i].name);
        }
        return count == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    bench_mallocs_prepare(arguments);
    bench_second_thread();
    const uint64_t batches = strtoull(arguments[3], NULL, 10);
    return run(arguments[1], arguments[2], batches) ? EXIT_SUCCESS : EXIT_FAILURE;
}
