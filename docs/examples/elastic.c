/* A serving engine on Ascend whose KV cache has one address and as much memory as its requests need. */
#include <acl/acl.h>
#include <weir/acl.h>
#include <weir/caching.h>
#include <weir/weir.h>

#include <stdio.h>
#include <stdlib.h>

#define MIB ((uint64_t)1024 * 1024)
#define PAGE (4 * MIB) /* the KV cache grows and shrinks by pages of this size */

static void check(weir_status status)
{
    if (status != WEIR_OK) {
        fprintf(stderr, "%s: %s\n", weir_status_text(status), weir_last_error());
        exit(1);
    }
}

static void acl(aclError error)
{
    if (error != ACL_SUCCESS) {
        fprintf(stderr, "ACL error %d\n", (int)error);
        exit(1);
    }
}

static void show(const char *when, weir_pool *pool)
{
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    size_t left = 0;
    size_t total = 0;
    check(weir_pool_get_stats(pool, &stats));
    acl(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
    printf("%-22s live %3llu MiB, pending %2llu MiB, taken from the device %3llu MiB\n", when,
           (unsigned long long)(stats.live_bytes / MIB), (unsigned long long)(stats.pending_bytes / MIB),
           (unsigned long long)((total - left) / MIB));
}

int main(void)
{
    weir_device *device = NULL;
    weir_pool *pool = NULL;
    aclrtStream native = NULL;
    weir_stream *stream = NULL;
    weir_block *cache = NULL;
    weir_tag kv_cache = 0;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    acl(aclrtSetDevice(0));
    acl(aclrtCreateStream(&native));
    check(weir_acl_device_create(NULL, &device));
    config.device = device;
    config.strategy = weir_caching_strategy();
    check(weir_pool_create(&config, &pool));
    check(weir_acl_stream(pool, native, &stream));
    check(weir_pool_tag(pool, "kv_cache", &kv_cache));

    check(weir_pool_reserve(pool, stream, 4096 * MIB, PAGE, kv_cache, &cache));
    char *pages = (char *)(uintptr_t)weir_block_address(cache);
    show("reserved 4 GiB:", pool);

    check(weir_pool_commit(pool, cache, 0, 20 * PAGE, stream)); /* requests come: twenty pages */
    acl(aclrtMemsetAsync(pages, 20 * PAGE, 7, 20 * PAGE, native));
    show("twenty pages:", pool);

    check(weir_pool_decommit(pool, cache, 3 * PAGE, 12 * PAGE, stream)); /* requests end; their work is queued */
    show("twelve pages leave:", pool);
    check(weir_pool_commit(pool, cache, 3 * PAGE, 1 * PAGE, stream)); /* the next request: no call of the device */
    acl(aclrtMemsetAsync(pages + 3 * PAGE, PAGE, 8, PAGE, native));

    acl(aclrtSynchronizeStream(native));
    check(weir_pool_decommit(pool, cache, 19 * PAGE, 1 * PAGE, stream));
    show("the work has ended:", pool);

    unsigned char first[2] = {0, 0};
    acl(aclrtMemcpy(&first[0], 1, pages + 2 * PAGE, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    acl(aclrtMemcpy(&first[1], 1, pages + 3 * PAGE, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    printf("page 2 begins with %d, page 3 with %d\n", first[0], first[1]);
    for (uint64_t offset = 0, size = 0;; offset += size) {
        check(weir_pool_find_committed(pool, cache, offset, &offset, &size));
        if (size == 0) {
            break;
        }
        printf("pages %llu to %llu have memory\n", (unsigned long long)(offset / PAGE),
               (unsigned long long)((offset + size) / PAGE - 1));
    }

    check(weir_pool_free(pool, cache, stream));
    show("freed:", pool);
    check(weir_stream_retire(pool, stream));
    acl(aclrtDestroyStream(native));
    check(weir_pool_destroy(pool));
    check(weir_device_destroy(device));
    acl(aclrtResetDevice(0));
    return 0;
}
