/* A serving engine on Ascend that gives its device memory back and gets it again: weights are kept in host memory, the
 * KV cache is let go and comes back as zeroes. */
#include <acl/acl.h>
#include <weir/acl.h>
#include <weir/caching.h>
#include <weir/sleep.h>
#include <weir/weir.h>

#include <stdio.h>
#include <stdlib.h>

#define MIB (1024 * 1024)

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

static void *address_of(const weir_block *block)
{
    return (void *)(uintptr_t)weir_block_address(block);
}

static size_t free_mib(void)
{
    size_t left = 0;
    size_t total = 0;
    acl(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
    return left / MIB;
}

int main(void)
{
    weir_device *device = NULL;
    weir_pool *pool = NULL;
    aclrtStream native = NULL;
    weir_stream *stream = NULL;
    weir_block *layers = NULL;
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
    check(weir_pool_alloc(pool, stream, 96 * MIB, 0, &layers));
    check(weir_pool_alloc_tagged(pool, stream, 64 * MIB, 0, kv_cache, &cache));
    acl(aclrtMemsetAsync(address_of(layers), 96 * MIB, 7, 96 * MIB, native));

    const size_t before = free_mib();
    weir_sleep_rule rule = {.tag = kv_cache, .policy = WEIR_SLEEP_ZERO};
    weir_sleep_config sleep = WEIR_SLEEP_CONFIG_INIT;
    weir_sleep_report report = WEIR_SLEEP_REPORT_INIT;
    sleep.rules = &rule;
    sleep.rule_count = 1;
    check(weir_pool_sleep(pool, &sleep, &report)); /* waits for the fill that is queued */
    printf("asleep: %zu MiB more are free, %llu MiB kept in %llu MiB of host memory\n", free_mib() - before,
           (unsigned long long)report.kept_bytes / MIB, (unsigned long long)report.host_bytes / MIB);

    void *trainer = NULL; /* another program takes the memory */
    acl(aclrtMalloc(&trainer, (free_mib() - 32) * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    if (weir_pool_wake(pool, NULL, 0, &report) == WEIR_ERR_NO_MEMORY) {
        printf("no wake yet: %llu MiB are missing, others hold %llu MiB\n",
               (unsigned long long)report.missing_bytes / MIB, (unsigned long long)report.others_bytes / MIB);
    }
    acl(aclrtFree(trainer));
    check(weir_pool_wake(pool, NULL, 0, &report));
    unsigned char first[2] = {0, 1};
    acl(aclrtMemcpy(&first[0], 1, address_of(layers), 1, ACL_MEMCPY_DEVICE_TO_HOST));
    acl(aclrtMemcpy(&first[1], 1, address_of(cache), 1, ACL_MEMCPY_DEVICE_TO_HOST));
    printf("awake: the weights begin with %d, the cache with %d, host memory %llu MiB\n", first[0], first[1],
           (unsigned long long)report.host_bytes / MIB);

    check(weir_pool_free(pool, layers, stream));
    check(weir_pool_free(pool, cache, stream));
    check(weir_stream_retire(pool, stream));
    acl(aclrtDestroyStream(native));
    check(weir_pool_destroy(pool));
    check(weir_device_destroy(device));
    acl(aclrtResetDevice(0));
    return 0;
}
