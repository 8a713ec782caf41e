/* race.c: a program with two streams and a stream-order bug. Built with -DFIXED it is correct.
 *
 * `compute` fills a block, `copy` copies it to the host, and an event orders the two. But the program does not tell the
 * pool that `copy` touches the block, and the pool hands the block out again while the copy is still running.
 */
#include <acl/acl.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir/acl.h>
#include <weir/caching.h>

enum { size = 4 << 20, steps = 3 };

static void check(int code)
{
    if (code == 0) return;
    fprintf(stderr, "race: status %d\n", code);
    exit(2);
}

int main(void)
{
    aclrtStream compute, copy;
    aclrtEvent filled;
    weir_device *device;
    weir_pool *pool;
    weir_acl_attachment *attachments[2];
    weir_stream *compute_stream, *copy_stream;
    void *host;
    check(aclInit(NULL));
    check(aclrtSetDevice(0));
    check(aclrtCreateStream(&compute));
    check(aclrtCreateStream(&copy));
    check(aclrtCreateEvent(&filled));
    check(aclrtMallocHost(&host, size));
    check(weir_acl_device_create(NULL, &device));
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = device;
    config.strategy = weir_caching_strategy();
    check(weir_pool_create(&config, &pool));
    check(weir_acl_follow(pool, compute, &attachments[0])); /* the program allocates from the pool itself */
    check(weir_acl_follow(pool, copy, &attachments[1]));
    check(weir_acl_stream(pool, compute, &compute_stream));
    check(weir_acl_stream(pool, copy, &copy_stream));

    for (int step = 0; step < steps; step++) {
        weir_block *block;
        check(weir_pool_alloc(pool, compute_stream, size, 0, &block));
        void *memory = (void *)weir_block_address(block);
        check(aclrtMemsetAsync(memory, size, step, size, compute));
        check(weir_acl_record_event(pool, filled, compute));
        check(weir_acl_wait_event(pool, copy, filled));
        check(aclrtMemcpyAsync(host, size, memory, size, ACL_MEMCPY_DEVICE_TO_HOST, copy));
#ifdef FIXED
        check(weir_pool_use(pool, block, copy_stream));
#endif
        check(weir_pool_free(pool, block, compute_stream));
    }

    check(aclrtSynchronizeStream(copy));
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    check(weir_pool_get_stats(pool, &stats));
    printf("%d blocks of 4 MiB out of %d MiB\n", (int)stats.allocs, (int)(stats.peak_reserved_bytes >> 20));
    check(weir_acl_detach(attachments[0]));
    check(weir_acl_detach(attachments[1]));
    check(weir_pool_destroy(pool));
    check(weir_device_destroy(device));
    check(aclrtFreeHost(host));
    check(aclrtDestroyEvent(filled));
    check(aclrtDestroyStream(compute));
    check(aclrtDestroyStream(copy));
    check(aclrtResetDevice(0));
    return aclFinalize();
}
