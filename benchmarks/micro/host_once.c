/* host_once.c: as once.c, for host memory: pairs of one size, to be counted by `instructions`.
 *
 *     micro_host_once CONTENDER SIZE BATCHES    a batch is 1,000 pairs of SIZE bytes; prints the pairs
 *     micro_host_once                           prints the names of the contenders
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "micro/host_pools.h"

enum { PAIRS = 1000 };

static int number_of(const char *name)
{
    int which = 0;
    while (which < HOST_CONTENDERS && strcmp(host_contender_names[which], name) != 0) {
        which++;
    }
    return which;
}

int main(int count, char **arguments)
{
    if (count != 4) {
        for (int i = 0; i < HOST_CONTENDERS; i++) {
            (void)puts(host_contender_names[i]);
        }
        return count == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    bench_mallocs_prepare(arguments);
    bench_second_thread();
    struct host_contender contender;
    const char *why = "no contender of that name";
    const int which = number_of(arguments[1]);
    const uint64_t size = strtoull(arguments[2], NULL, 10);
    const uint64_t pairs = strtoull(arguments[3], NULL, 10) * PAIRS;
    if (which == HOST_CONTENDERS || size == 0 || !host_contender_open(&contender, which, &why)) {
        (void)fprintf(stderr, "%s: %s\n", arguments[1], why);
        return EXIT_FAILURE;
    }
    for (uint64_t i = 0; i < pairs; i++) {
        contender.free(&contender, contender.alloc(&contender, size), size);
    }
    (void)printf("%" PRIu64 "\n", pairs);
    host_contender_close(&contender);
    return EXIT_SUCCESS;
}
