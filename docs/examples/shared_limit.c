/* shared_limit.c: two processes under one limit; the first is killed while it holds memory. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir/heap.h>

static void check(weir_status status)
{
    if (status != WEIR_OK) {
        fprintf(stderr, "shared_limit: %s\n", weir_last_error());
        exit(1);
    }
}

/* Each process calls this. */
static weir_heap *heap_under_the_limit(weir_shared_limit **limit)
{
    weir_shared_limit_config shared = WEIR_SHARED_LIMIT_CONFIG_INIT;
    shared.name = "example";
    shared.limit_bytes = 64 << 20;
    check(weir_shared_limit_create(&shared, limit));

    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.shared_limit = *limit; /* weir_host_pool_config has it too */
    weir_heap *heap;
    check(weir_heap_create(&config, &heap));
    return heap;
}

int main(void)
{
    int ready[2];
    char byte;
    weir_shared_limit *limit;
    if (pipe(ready) != 0) return 1;
    const pid_t first = fork();
    if (first == 0) {
        weir_heap_alloc(heap_under_the_limit(&limit), 40 << 20);
        if (write(ready[1], "", 1) != 1) return 1;
        for (;;) pause();
    }
    if (read(ready[0], &byte, 1) != 1) return 1;

    weir_heap *heap = heap_under_the_limit(&limit);
    printf("40 MiB: %s\n", weir_heap_alloc(heap, 40 << 20) != NULL ? "yes" : "no, the other process holds them");
    kill(first, SIGKILL);
    waitpid(first, NULL, 0);
    printf("40 MiB after its end: %s\n", weir_heap_alloc(heap, 40 << 20) != NULL ? "yes" : "no");
    weir_shared_limit_stats stats = WEIR_SHARED_LIMIT_STATS_INIT;
    check(weir_shared_limit_get_stats(limit, &stats));
    printf("%d MiB were returned\n", (int)(stats.returned_bytes >> 20));
    check(weir_heap_destroy(heap));
    check(weir_shared_limit_destroy(limit));
    return 0;
}
